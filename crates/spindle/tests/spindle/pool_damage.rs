//! Pools of which something is lacking or damaged, and what the commands make of it.
//!
//! What could break: a device that came back without what was written meanwhile, and is told to be whole; a copy that is told to be
//! missing and is there; one damaged dataset that keeps all others from being listed, made or destroyed; an older group read in
//! silence.

use crate::pools;

use attach::Events;
use attach::disks::Disks;
use attach::pools::Pools;
use pools::{add_disks, done, printed_and_said, refused, run};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;
use zfs::spa::OpenOptions;
use zfs_format::block_pointer::BlockPointer;

const DISK: u64 = 80 << 20;
pub const DATA_START: u64 = 4 << 20;
const STATUS: &str =
    "status: One or more devices lack data that was written while they were away.\n";

pub fn folder(names: &[&str]) -> TempDir {
    let folder = fixtures::scratch::folder();
    fs::create_dir(folder.path().join("disks")).expect("a folder");
    add_disks(&folder.path().join("disks"), names, DISK);
    fs::write(folder.path().join("file"), fixtures::noise(1, 3 << 20)).expect("a file");
    folder
}

/// A pool `w` of a vdev of this kind, the last of whose disks was away while `w/new` was written.
fn with_stale_leaf(kind: &str, names: &[&str]) -> TempDir {
    let folder = folder(names);
    let at = folder.path();
    let disks: Vec<String> = names.iter().map(|name| format!("disks/{name}")).collect();
    let disks: Vec<&str> = disks.iter().map(String::as_str).collect();
    done(at, &[&["zpool", "create", "w", kind][..], &disks].concat());
    done(at, &["zfs", "create", "w/before"]);
    done(at, &["zfs", "cp", "file", "w/before:/"]);
    assert_eq!(done(at, &["zpool", "status", "-x"]), "all pools are healthy\n");
    let scrubbed = done(at, &["zpool", "scrub", "--read-only", "w"]);
    assert!(!scrubbed.contains("lack") && !scrubbed.contains("missing"), "{scrubbed}");
    let last = disks[disks.len() - 1];
    fs::rename(at.join(last), at.join("away")).expect("it is away");
    done(at, &["zfs", "create", "w/new"]);
    done(at, &["zfs", "cp", "file", "w/new:/"]);
    fs::rename(at.join("away"), at.join(last)).expect("it is back");
    folder
}

fn json(at: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&done(at, arguments)).expect("JSON")
}

/// Copies that a check found to be missing, by device.
fn missing_copies(at: &Path) -> Vec<u64> {
    let scrubbed = json(at, &["zpool", "scrub", "--read-only", "-j", "w"]);
    assert_eq!(scrubbed["damaged_blocks"], 0, "{scrubbed}");
    let leaves = scrubbed["vdevs"][0]["vdevs"].as_array().expect("devices");
    let number = |leaf: &Value, name: &str| leaf[name].as_u64().expect("a number");
    assert!(leaves.iter().all(|leaf| number(leaf, "checksum_errors") == 0), "{scrubbed}");
    leaves.iter().map(|leaf| number(leaf, "missing_copies")).collect()
}

#[test]
fn a_leaf_that_came_back_stale_is_told_and_its_missing_copies_are_counted() {
    fixtures::takes_long!();
    let folder = with_stale_leaf("mirror", &["a", "b"]);
    let at = folder.path();
    for arguments in [&["zpool", "status", "-x"][..], &["zpool", "status", "w"]] {
        let status = done(at, arguments);
        assert!(status.contains(" state: ONLINE\n") && status.contains(STATUS), "{status}");
        assert!(status.contains("does not survive the loss of the others"), "{status}");
        let noted = status.lines().filter(|line| line.contains("  lacks data of groups "));
        let noted: Vec<&str> = noted.collect();
        assert!(noted.len() == 1 && noted[0].trim().starts_with("b "), "{status}");
    }
    // `scan` says it in the same words.
    let status = done(at, &["zpool", "status", "w"]);
    let words = status.find("lacks data of groups ").map(|start| &status[start..]);
    let words = words.and_then(|words| words.lines().next()).expect("it is told");
    let scanned = done(at, &["scan"]);
    let stale = scanned.lines().filter(|line| line.contains("lacks data of groups "));
    let stale: Vec<&str> = stale.map(str::trim).collect();
    assert_eq!(stale, [format!("disks/b  ONLINE, {words}")], "{scanned}");
    let pools = &json(at, &["scan", "-j"])["pools"];
    assert_eq!(pools[0]["stale"][0]["device"], "disks/b", "{pools}");
    assert!(pools[0]["stale"][0]["lacks_groups"][0]["first"].as_u64() > Some(0), "{pools}");
    let status = json(at, &["zpool", "status", "-j", "--json-int", "-x"]);
    let text = status.to_string();
    assert_eq!(text.matches("lacks_groups").count(), 1, "{text}");
    assert!(text.contains("lack data that was written"), "{text}");
    done(at, &["zpool", "export", "w"]);
    let listed = done(at, &["zpool", "import"]);
    assert!(listed.contains(STATUS) && listed.contains("  lacks data of groups "), "{listed}");
    let scrubbed = done(at, &["zpool", "scrub", "--read-only", "w"]);
    let noted = scrubbed.lines().filter(|line| line.contains(" copies of blocks missing"));
    let noted: Vec<&str> = noted.collect();
    assert!(noted.len() == 1 && noted[0].trim().starts_with("b "), "{scrubbed}");
    let counts = missing_copies(at);
    // The file alone has 24 blocks.
    assert!(counts[0] == 0 && counts[1] >= 24, "{counts:?}");
    // Nothing is missing that is there, whatever the pool says of it.
    let whole = fs::read(at.join("disks/a")).expect("it is read");
    let disk = File::options().write(true).open(at.join("disks/b")).expect("a disk");
    let end = whole.len() - (512 << 10);
    disk.write_all_at(&whole[DATA_START as usize..end], DATA_START).expect("written");
    assert_eq!(missing_copies(at), [0, 0]);
}

#[test]
fn columns_that_a_leaf_of_a_raidz_lacks_are_counted_on_it() {
    let folder = with_stale_leaf("raidz", &["a", "b", "c"]);
    let at = folder.path();
    assert!(done(at, &["zpool", "status", "-x"]).contains(STATUS));
    let counts = missing_copies(at);
    assert!(counts[0] == 0 && counts[1] == 0 && counts[2] >= 24, "{counts:?}");
    for name in ["a", "b", "c"] {
        let away = at.join("away");
        fs::rename(at.join("disks").join(name), &away).expect("it is away");
        let read = run(at, &["zfs", "cat", "w/new:file"]);
        assert_eq!(read.status.success(), name == "c", "{name}");
        fs::rename(&away, at.join("disks").join(name)).expect("it is back");
    }
    // Where too few are left without it, what it gave is why nothing fits: of the others none is told to be wrong.
    takes(at, "disks/a", "away");
    let scrubbed = run(at, &["zpool", "scrub", "--read-only", "-j", "w"]).stdout;
    let scrubbed: Value = serde_json::from_slice(&scrubbed).expect("JSON");
    assert!(scrubbed["damaged_blocks"].as_u64() > Some(0), "{scrubbed}");
    let leaves = scrubbed["vdevs"][0]["vdevs"].as_array().expect("devices");
    assert!(leaves.iter().all(|leaf| leaf["checksum_errors"] == 0), "{scrubbed}");
    let scrubbed = run(at, &["zpool", "scrub", "--read-only", "w"]).stdout;
    let scrubbed = String::from_utf8(scrubbed).expect("text");
    let of = |head: &str| scrubbed.lines().filter(|line| line.starts_with(head)).count();
    assert_eq!((of("status: "), of("action: ")), (1, 1), "{scrubbed}");
    assert!(scrubbed.find("status: ") < scrubbed.find("action: "), "{scrubbed}");
    takes(at, "away", "disks/a");
}

/// A disk goes away, or comes back.
fn takes(at: &Path, from: &str, to: &str) {
    fs::rename(at.join(from), at.join(to)).expect("it is moved");
}

/// All that tells how the pool `w` is: what is printed and said.
fn told(at: &Path) -> Vec<(&'static str, String)> {
    let calls = [
        &["zpool", "status", "-x"][..],
        &["zpool", "status", "w"],
        &["zpool", "list", "-H"],
        &["zpool", "import"],
        &["zpool", "import", "-o", "readonly=on", "w"],
        &["zpool", "scrub", "--read-only", "w"],
        &["scan"],
    ];
    let told = calls.map(|call| {
        let output = run(at, call);
        let texts = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&texts).into_owned();
        (call[1..].first().copied().unwrap_or("scan"), text)
    });
    told.to_vec()
}

const LOST: &str = "not all that was written in groups ";
const ENOUGH: &str = "Sufficient replicas exist";

/// What could break: of a device that is behind and one that is missing each is told, and not that together they lose what was written
/// while the one was away; or that is told where others stand in.
#[test]
fn what_is_lost_by_a_stale_leaf_and_missing_ones_is_told_everywhere() {
    fixtures::takes_long!();
    for (kind, names, missing) in [
        ("raidz", &["a", "b", "c"][..], &["a"][..]),
        ("raidz2", &["a", "b", "c", "d"], &["a", "b"]),
        ("draid1:2d:4c", &["a", "b", "c", "d"], &["b"]),
    ] {
        let folder = with_stale_leaf(kind, names);
        let at = folder.path();
        let (last, stale) = (missing[missing.len() - 1], names[names.len() - 1]);
        for name in &missing[..missing.len() - 1] {
            takes(at, &format!("disks/{name}"), name);
        }
        assert!(!told(at).iter().any(|(_, text)| text.contains(LOST)), "{kind}: others stand in");
        let cat = ["zfs", "cat", "w/new:file"];
        assert!(run(at, &cat).status.success(), "{kind}");
        takes(at, &format!("disks/{last}"), last);
        assert!(!run(at, &cat).status.success(), "{kind}");
        for (call, text) in told(at) {
            let line = text.lines().find(|line| line.contains(LOST));
            let line = line.unwrap_or_else(|| panic!("{kind}, {call}: {text}"));
            assert!(line.contains(&format!("disks/{stale} lacks it, and ")), "{kind}: {line}");
            assert!(line.contains(&format!("disks/{last} ")), "{kind}: {line}");
            assert!(line.contains(", after "), "{kind}: {line}");
            assert!(!text.contains(ENOUGH) && !text.contains("No known data errors"), "{text}");
            assert!(text.contains("DEGRADED") || call == "import", "{kind}, {call}: {text}");
        }
        let status = done(at, &["zpool", "status", "-x"]);
        assert!(status.contains("too few others are there to stand in for it"), "{status}");
        // The group that is named is one that they all have. Its blocks may have been given to others since.
        let (_, rest) = status.split_once("'zfs -T ").expect("a group is named");
        let (group, _) = rest.split_once('\'').expect("a number");
        let before = run(at, &["zfs", "-T", group, "list", "-H", "-o", "name"]);
        match before.status.success() {
            true => assert_eq!(before.stdout, b"w\nw/before\n"),
            false => {
                let said = String::from_utf8_lossy(&before.stderr).into_owned();
                assert!(said.contains("were overwritten by later ones"), "{said}");
            }
        }
        for (call, text) in told(at) {
            assert!(text.contains(&format!("'zfs -T {group}'")), "{kind}, {call}: {text}");
        }
        assert!(status.contains("'zpool scrub --read-only w' names the files"), "{status}");
        for call in [&["zpool", "status", "-j", "--json-int"][..], &["scan", "-j"]] {
            let json = json(at, call);
            let pool = if call[0] == "scan" { &json["pools"][0] } else { &json["pools"]["w"] };
            let lost = &pool["lost"][0];
            assert_eq!(lost["behind"][0], format!("disks/{stale}"), "{json}");
            assert_eq!(lost["missing"].as_array().map(Vec::len), Some(missing.len()), "{json}");
            assert!(lost["groups"][0]["first"].as_u64() > Some(0), "{json}");
        }
        // The one that is missing comes back, and nothing is lost.
        takes(at, last, &format!("disks/{last}"));
        assert!(!told(at).iter().any(|(_, text)| text.contains(LOST)), "{kind}");
    }
}

/// What could break: an old copy of a disk in its place is taken for the disk, since the pool never wrote down that it lacks something; and
/// whoever writes to the pool then makes it look whole.
#[test]
fn an_old_copy_of_a_disk_is_known_by_its_labels_and_that_is_written_down() {
    fixtures::takes_long!();
    let folder = folder(&["a", "b", "c"]);
    let at = folder.path();
    done(at, &["zpool", "create", "w", "raidz", "disks/a", "disks/b", "disks/c"]);
    fixtures::copy(&at.join("disks/c"), &at.join("old"));
    done(at, &["zfs", "create", "w/new"]);
    done(at, &["zfs", "cp", "file", "w/new:/"]);
    takes(at, "disks/c", "whole");
    takes(at, "old", "disks/c");
    let lacking = |status: &str| -> Vec<String> {
        let lines = status.lines().filter(|line| line.contains("  lacks data of groups "));
        lines.map(|line| line.trim().split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    let status = done(at, &["zpool", "status", "w"]);
    assert!(status.contains(STATUS) && lacking(&status) == ["c"], "{status}");
    let counts = missing_copies(at);
    assert!(counts[0] == 0 && counts[1] == 0 && counts[2] >= 24, "{counts:?}");
    takes(at, "disks/a", "a");
    for (call, text) in told(at) {
        assert!(text.contains(LOST) && text.contains("disks/c lacks it"), "{call}: {text}");
    }
    // Both copies are there: the newer one counts, wherever it lies.
    takes(at, "whole", "disks/z");
    let status = done(at, &["zpool", "status", "w"]);
    assert!(!status.contains(LOST) && lacking(&status).is_empty(), "{status}");
    takes(at, "disks/z", "whole");
    takes(at, "a", "disks/a");
    done(at, &["zfs", "create", "w/later"]);
    let status = done(at, &["zpool", "status", "w"]);
    assert!(status.contains(STATUS) && lacking(&status) == ["c"], "{status}");
    done(at, &["zpool", "export", "w"]);
    pools::judge(&at.join("disks"), "w");
}

/// What could break: the side of a mirror that was away shows an old state as if it were the newest; the side that went on is
/// said to be old.
#[test]
fn a_side_of_a_mirror_that_may_be_older_than_the_missing_one_says_so() {
    fixtures::takes_long!();
    let folder = with_stale_leaf("mirror", &["a", "b"]);
    let at = folder.path();
    let words = "alone, what was written then is only there";
    let tells = |at: &Path| -> Vec<&str> {
        let told = told(at).into_iter().filter(|(_, text)| text.contains(words));
        told.map(|(call, _)| call).collect()
    };
    assert!(tells(at).is_empty());
    takes(at, "disks/b", "b");
    assert!(tells(at).is_empty(), "the other was written without it");
    takes(at, "disks/a", "a");
    takes(at, "b", "disks/b");
    assert!(tells(at).contains(&"status") && tells(at).contains(&"scan"), "{:?}", tells(at));
    let listed = done(at, &["zfs", "list", "-H", "-o", "name"]);
    assert_eq!(listed, "w\nw/before\n");
}

/// Destroys a block on all disks.
pub fn destroy(at: &Path, names: &[&str], block: &BlockPointer) {
    for name in names {
        let disk = File::options().write(true).open(at.join("disks").join(name)).expect("a disk");
        for place in block.dvas() {
            disk.write_all_at(&[0x5a; 512], place.offset() + DATA_START).expect("written");
        }
    }
}

pub fn pools_at(at: &Path) -> Pools {
    let disks = Disks::open(&Events::unheard(), &[at.join("disks")]).expect("they open");
    Pools::over(disks, OpenOptions::default())
}

#[test]
fn one_damaged_dataset_keeps_nobody_from_the_others() {
    fixtures::takes_long!();
    let folder = folder(&["a", "b"]);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "mirror", "disks/a", "disks/b"]);
    for name in ["tank/no", "tank/no/below", "tank/other", "tank/yes"] {
        done(at, &["zfs", "create", name]);
    }
    done(at, &["zfs", "snapshot", "tank/yes@a"]);
    done(at, &["zpool", "export", "tank"]);
    {
        let pools = pools_at(at);
        let spa = pools.open("tank").expect("it opens");
        let (_, dataset) = pools.dataset(&spa, "tank/no").expect("it is there");
        destroy(at, &["a", "b"], &dataset.head.pointer);
    }
    for arguments in [
        &["zfs", "list", "-H", "-o", "name"][..],
        &["zfs", "list", "-H", "-r", "-o", "name", "tank"],
        &["zfs", "get", "-H", "-r", "-t", "filesystem", "-o", "name", "used", "tank"],
    ] {
        let output = run(at, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, "tank\ntank/no/below\ntank/other\ntank/yes\n", "{said}");
        assert_eq!(said.matches("cannot open").count(), 1, "{said}");
        assert!(said.contains("cannot open 'tank/no': objset "), "{said}");
    }
    let output = run(at, &["zfs", "list", "-j", "-r", "tank"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(listed["datasets"]["tank/yes"].is_object(), "{listed}");
    assert_eq!(output.status.code(), Some(1));
    refused(at, &["zfs", "list", "tank/no"], "cannot open 'tank/no': objset ");
    assert_eq!(done(at, &["zfs", "list", "-H", "-o", "name", "tank/yes"]), "tank/yes\n");
    done(at, &["zfs", "create", "tank/x"]);
    done(at, &["zfs", "snapshot", "tank/x@a"]);
    done(at, &["zfs", "destroy", "tank/other"]);
    done(at, &["zfs", "cp", "file", "tank/x:/"]);
    for needs_all in
        [&["zfs", "snapshot", "-r", "tank@all"][..], &["zfs", "inherit", "-r", "atime", "tank"]]
    {
        refused(at, needs_all, "cannot open 'tank/no': objset ");
    }
    done(at, &["zfs", "set", "compression=off", "tank"]);
    done(at, &["zfs", "rename", "tank/yes", "tank/still"]);
    done(at, &["zpool", "destroy", "tank"]);
    assert!(!done(at, &["zpool", "list", "-H"]).contains("tank"));
}

#[test]
fn one_damaged_snapshot_is_named_among_the_others() {
    let folder = folder(&["a"]);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "disks/a"]);
    for snapshot in ["tank@a", "tank@b", "tank@c"] {
        done(at, &["zfs", "snapshot", snapshot]);
        done(at, &["zfs", "cp", "file", &format!("tank:/{}", &snapshot[5..])]);
    }
    {
        let pools = pools_at(at);
        let spa = pools.open("tank").expect("it opens");
        let (_, snapshot) = pools.dataset(&spa, "tank@b").expect("it is there");
        destroy(at, &["a"], &snapshot.head.pointer);
    }
    let output = run(at, &["zfs", "list", "-H", "-t", "all", "-o", "name"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "tank\ntank@a\ntank@c\n", "{said}");
    assert!(said.contains("cannot open 'tank@b': objset "), "{said}");
    refused(at, &["zfs", "get", "used", "tank@b"], "cannot open 'tank@b': objset ");
    assert_eq!(done(at, &["zfs", "list", "-H", "-o", "name", "tank@c"]), "tank@c\n");
}

#[test]
fn who_reads_an_older_group_is_told() {
    let folder = folder(&["a"]);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "disks/a"]);
    done(at, &["zfs", "create", "tank/x"]);
    let (_, said) = printed_and_said(at, &["zfs", "list"]);
    assert!(!said.contains("is read"), "{said}");
    let newest = {
        let pools = pools_at(at);
        let spa = pools.open("tank").expect("it opens");
        destroy(at, &["a"], &spa.uberblock().root);
        spa.uberblock().txg
    };
    for arguments in [&["zfs", "list"][..], &["zpool", "status"]] {
        let (_, said) = printed_and_said(at, arguments);
        let note = format!("the newest transaction group {newest} of pool 'tank' can't be opened");
        assert!(said.contains(&note) && said.contains(" s of what was written"), "{said}");
    }
}
