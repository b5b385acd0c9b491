//! Commands on pools that another process holds: carried out there, or with what it lends.
//!
//! What could break: a command that says that it is done and isn't; a path that means another file to who carries it out; a
//! holder that goes on by what was so before, and writes a pool that others find fault with; a mount that shows what was, or waits
//! for itself; a file that is replaced under the program that has it open.

use crate::holding;
use crate::pools;

use holding::{Holder, can_mount};
use pools::{add_disks, done, judge, program, refused};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const DISK_BYTES: u64 = 128 << 20;
/// Longer than a change of a file takes, and shorter than anybody is waited for who does not answer.
const CHANGE_MAX: Duration = Duration::from_secs(3);

/// A folder with disks, a place to mount on, and a pool on two of them.
fn folder(create: &[&str]) -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    fs::create_dir(at.join("disks")).expect("a folder");
    fs::create_dir(at.join("home")).expect("a folder");
    add_disks(&at.join("disks"), &["a", "b", "c", "d"], DISK_BYTES);
    done(at, &[create, &["tank", "mirror", "disks/a", "disks/b"]].concat());
    folder
}

/// Holds `tank` with `tank/home` mounted; nothing where nothing can be mounted.
fn mounted(at: &Path) -> Option<Holder> {
    can_mount()
        .then(|| Holder::start(at, "[[mount]]\ndataset = \"tank/home\"\ndirectory = \"home\"\n"))
}

fn guid(at: &Path) -> String {
    done(at, &["zpool", "get", "-Ho", "value", "guid", "tank"])
}

#[test]
fn a_held_pool_gets_vdevs_features_and_another_guid() {
    fixtures::takes_long!();
    let folder = folder(&["zpool", "create", "-d"]);
    let at = folder.path();
    let holder = Holder::start(at, "pools = [\"tank\"]\n");
    // What is written before and after what is enabled lies in one pool.
    fs::write(at.join("letter"), [b'x'; 300_000]).expect("a file");
    done(at, &["zfs", "cp", "letter", "tank:before"]);
    done(at, &["zpool", "set", "feature@hole_birth=enabled", "tank"]);
    refused(at, &["zfs", "set", "recordsize=1M", "tank"], "from 512B to 128K");
    done(at, &["zpool", "set", "feature@large_blocks=enabled", "tank"]);
    done(at, &["zfs", "set", "recordsize=1M", "tank"]);
    let text = done(at, &["zpool", "upgrade", "tank"]);
    assert_eq!(text.matches("This system supports").count(), 1, "{text}");
    assert!(text.contains("Enabled the following features on 'tank':\n"), "{text}");
    assert!(text.contains("  skein\n") && !text.contains("hole_birth"), "{text}");
    done(at, &["zfs", "set", "checksum=skein", "tank"]);
    let text = done(at, &["zpool", "upgrade", "-a"]);
    assert!(text.contains("already has all supported"), "{text}");
    fs::write(at.join("long"), vec![b'y'; 3 << 20]).expect("a file");
    done(at, &["zfs", "cp", "long", "tank:after"]);
    // A path means what it means to who gave it.
    let mut add = program(&at.join("disks"), &["zpool", "add", "tank", "mirror", "c", "d"]);
    add.env("SPINDLE_RUN_DIR", at.join("run"));
    assert!(add.status().expect("it starts").success());
    refused(
        at,
        &["zpool", "add", "-f", "tank", "mirror", "disks/c", "disks/d"],
        "of pool 'tank' already",
    );
    let before = guid(at);
    done(at, &["zpool", "reguid", "tank"]);
    assert_ne!(guid(at), before);
    done(at, &["zfs", "create", "tank/x"]);
    done(at, &["zfs", "cp", "long", "tank/x:on-all"]);
    refused(at, &["zpool", "import", "tank"], "end that one with Ctrl-C or SIGTERM");
    holder.stop();
    let text = done(at, &["zpool", "list", "-v", "tank"]);
    assert!(text.contains("mirror-1"), "{text}");
    assert_eq!(done(at, &["zfs", "cat", "tank/x:on-all"]).len(), 3 << 20);
    assert_eq!(done(at, &["zfs", "cat", "tank:before"]).len(), 300_000);
    assert!(done(at, &["zpool", "history", "tank"]).contains("zpool add tank mirror c d"));
    judge(at, "tank");
}

#[test]
fn files_are_copied_into_a_mounted_dataset_by_who_has_them() {
    fixtures::takes_long!();
    let folder = folder(&["zpool", "create"]);
    let at = folder.path();
    done(at, &["zfs", "create", "-p", "tank/home/anna"]);
    let Some(holder) = mounted(at) else { return };
    let tree = at.join("tree");
    fs::create_dir_all(tree.join("in")).expect("folders");
    fs::write(tree.join("in/one"), b"one").expect("a file");
    fs::hard_link(tree.join("in/one"), tree.join("two")).expect("a link");
    std::os::unix::fs::symlink("in/one", tree.join("link")).expect("a link");
    fs::write(at.join("letter"), b"dear").expect("a file");
    // The mount looked before it was there, and shows it as soon as the kernel has been told.
    assert!(!at.join("home/letter").exists());
    done(at, &["zfs", "cp", "letter", "tank/home:letter"]);
    holding::soon(|| at.join("home/letter").exists());
    assert_eq!(fs::read(at.join("home/letter")).expect("it is there"), b"dear");
    // Of a dataset below, and from a directory that isn't the holder's.
    let anna = at.join("home/anna");
    let words = ["-d", "../disks", "zfs", "cp", "-r", ".", "tank/home/anna:"];
    let mut copy = program(&tree, &words);
    copy.env("SPINDLE_RUN_DIR", at.join("run"));
    let output = copy.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read(anna.join("two")).expect("it is there"), b"one");
    assert_eq!(fs::read_link(anna.join("link")).expect("a link"), Path::new("in/one"));
    // What it reads may be what the holder serves.
    let bytes: Vec<u8> = (0..5u32 << 20).map(|at| (at >> 8) as u8 ^ at as u8).collect();
    fs::write(at.join("home/big"), &bytes).expect("it is written");
    done(at, &["zfs", "cp", "home/big", "tank/home/anna:big"]);
    assert!(fs::read(anna.join("big")).expect("it is there") == bytes);
    // A program keeps the file that it has open.
    let mut open = fs::File::open(at.join("home/letter")).expect("it opens");
    fs::write(at.join("letter"), b"another").expect("a file");
    refused(at, &["zfs", "cp", "letter", "tank/home:letter"], "--force replaces it");
    done(at, &["zfs", "cp", "--force", "letter", "tank/home:letter"]);
    let mut text = String::new();
    open.read_to_string(&mut text).expect("it is there");
    assert_eq!(text, "dear");
    assert_eq!(fs::read(at.join("home/letter")).expect("it is there"), b"another");
    refused(at, &["zfs", "cp", "letter", "tank:letter"], "tank/home is mounted by itself");
    refused(at, &["zfs", "cp", "letter", "tank/none:letter"], "dataset does not exist");
    drop(open);
    // Projects, of what programs have just written.
    fs::write(at.join("home/new"), b"new").expect("it is written");
    done(at, &["zfs", "project", "-p", "7", "-s", "-r", "tank/home:"]);
    fs::write(at.join("home/later"), b"later").expect("it is written");
    done(at, &["zpool", "sync", "tank"]);
    for name in ["new", "later", "letter"] {
        let text = done(at, &["zfs", "project", &format!("tank/home:{name}")]);
        assert!(text.starts_with("    7 "), "{name}: {text}");
    }
    holder.stop();
    assert_eq!(done(at, &["zfs", "cat", "tank/home:letter"]), "another");
    judge(at, "tank");
}

/// What could break: who holds a pool asks itself to commit it, and waits for an answer until it gives up.
#[test]
fn projects_are_told_by_who_holds_the_pool_without_waiting_for_itself() {
    fixtures::takes_long!();
    let folder = folder(&["zpool", "create"]);
    let at = folder.path();
    let holder = Holder::start(at, "pools = [\"tank\"]\n");
    fs::write(at.join("letter"), b"dear").expect("a file");
    done(at, &["zfs", "cp", "letter", "tank:letter"]);
    // Some of all may be as slow as that where the host is busy.
    let changed = |(number, more): (u32, &[&str])| {
        let number = number.to_string();
        let began = Instant::now();
        done(at, &[&["zfs", "project", "-p", &number][..], more, &["tank:letter"]].concat());
        let took = began.elapsed();
        let told = done(at, &["zfs", "project", "tank:letter"]);
        assert_eq!(told, format!("    {number} - tank:/letter\n"));
        took
    };
    for more in [&[][..], &["--replay-view"]] {
        let quickest = (7..10).map(|number| changed((number, more))).min().expect("some");
        assert!(quickest < CHANGE_MAX, "{more:?}: {quickest:?}");
    }
    holder.stop();
    judge(at, "tank");
}

/// What could break: a pool that waits for what it serves itself.
#[test]
fn a_pool_does_not_lie_on_what_its_holder_serves() {
    let folder = folder(&["zpool", "create"]);
    let at = folder.path();
    done(at, &["zfs", "create", "-s", "-V", "70M", "tank/v"]);
    let export = "[[export]]\nname = \"v\"\nvolume = \"tank/v\"\n";
    let text = format!("listen = [\"unix:s\", \"127.0.0.1:0\"]\n{export}");
    let holder = Holder::start(at, &text);
    std::os::unix::fs::symlink("s", at.join("other")).expect("a link");
    for socket in ["s", "./s", "other"] {
        let uri = format!("nbd+unix:///v?socket={socket}");
        refused(
            at,
            &["zpool", "add", "-f", "tank", &uri],
            "served by the process that holds the pool",
        );
    }
    done(at, &["zfs", "create", "tank/after"]);
    assert!(!done(at, &["zpool", "list", "-v", "tank"]).contains("nbd"));
    holder.stop();
    judge(at, "tank");
}

#[test]
fn a_volume_of_a_held_pool_is_filled_by_who_has_the_bytes() {
    fixtures::takes_long!();
    let folder = folder(&["zpool", "create"]);
    let at = folder.path();
    done(at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    done(at, &["zfs", "create", "-s", "-V", "16M", "tank/served"]);
    let text = "listen = [\"unix:s\"]\n[[export]]\nname = \"v\"\nvolume = \"tank/served\"\n";
    let holder = Holder::start(at, text);
    let bytes: Vec<u8> = (0..7u32 << 20).map(|at| (at >> 9) as u8 ^ at as u8).collect();
    fs::write(at.join("image"), &bytes).expect("a file");
    done(at, &["zfs", "load", "tank/v", "image"]);
    refused(at, &["zfs", "load", "tank/served", "image"], "dataset is busy");
    let serves = format!("'tank/served': dataset is busy: process {} serves it", holder.id());
    refused(at, &["zfs", "destroy", "tank/served"], &serves);
    refused(at, &["zfs", "load", "tank/none", "image"], "dataset does not exist");
    refused(at, &["zfs", "load", "tank", "image"], "file system");
    let read = || {
        let output = program(at, &["zfs", "dump", "tank/v", "-"]).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    done(at, &["zpool", "sync", "tank"]);
    assert!(read()[..bytes.len()] == bytes);
    // What comes slowly holds nobody up.
    let mut load = program(at, &["zfs", "load", "tank/v", "-"]);
    let mut load = load.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut into = load.stdin.take().expect("it is piped");
    into.write_all(&bytes[..1 << 20]).expect("it is taken");
    done(at, &["zfs", "create", "tank/meanwhile"]);
    into.write_all(&bytes[1 << 20..2 << 20]).expect("it is taken");
    drop(into);
    assert!(load.wait().expect("it ends").success());
    done(at, &["zpool", "sync", "tank"]);
    let now = read();
    assert!(now[..2 << 20] == bytes[..2 << 20] && now[2 << 20..].iter().all(|byte| *byte == 0));
    // Who holds it may end in the midst.
    let mut load = program(at, &["zfs", "load", "tank/v", "-"]);
    load.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut load = load.spawn().expect("it starts");
    let mut into = load.stdin.take().expect("it is piped");
    into.write_all(&bytes[..2 << 20]).expect("it is taken");
    holder.stop();
    // It may be gone when the rest comes.
    let _ = into.write_all(&bytes[2 << 20..]);
    drop(into);
    assert!(!load.wait().expect("it ends").success());
    judge(at, "tank");
    // What was used once can be destroyed.
    let holder = Holder::start(at, "pools = [\"tank\"]\n");
    done(at, &["zfs", "load", "tank/v", "image"]);
    done(at, &["zfs", "destroy", "tank/v"]);
    holder.stop();
    judge(at, "tank");
}

#[test]
fn a_held_pool_with_multihost_is_seen_by_another_host() {
    fixtures::takes_long!();
    let folder = folder(&["zpool", "create"]);
    let at = folder.path();
    let set = ["zpool", "set", "multihost=on", "tank"];
    let nobody = program(at, &set).env("ZFS_HOSTID", "0").output().expect("it starts");
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(
        !nobody.status.success() && said.contains("requires a non-zero system hostid"),
        "{said}"
    );
    done(at, &set);
    let holder = Holder::start(at, "pools = [\"tank\"]\n");
    done(at, &["zfs", "create", "tank/x"]);
    // Another host knows nothing of this one's sockets, and sees the devices alone.
    let other = |words: &[&str], number: &str| {
        let mut command = program(at, words);
        command.env("ZFS_HOSTID", number).env("SPINDLE_RUN_DIR", at.join("elsewhere"));
        let output = command.output().expect("it starts");
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = other(&["zpool", "import", "tank"], "0xbeef");
    assert!(said.contains("previously in use from another system"), "{said}");
    let said = other(&["zpool", "import", "-f", "tank"], "0xbeef");
    assert!(said.contains("watching for 2") && said.contains("pool is imported on"), "{said}");
    let said = other(&["zpool", "import", "-f", "tank"], "0");
    assert!(said.contains("hostid is not set"), "{said}");
    done(at, &["zpool", "set", "multihost=off", "tank"]);
    done(at, &["zpool", "set", "multihost=on", "tank"]);
    holder.stop();
    // This host had it last, and closed it.
    done(at, &["zfs", "destroy", "tank/x"]);
    judge(at, "tank");
}
