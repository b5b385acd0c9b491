//! Pools of which groups are lost that older states don't need: they are written only where that is accepted.
//!
//! What could break: a command that writes overwrites, without a word, what was just named for rescue; or it is refused for ever, also
//! where somebody decided; a pool is taken back to where what is lost is missing as well.

use crate::pools;
use crate::serving::Serving;

use pools::{add_disks, done, judge, printed_and_said, program, refused, run};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const DISK: u64 = 80 << 20;
const LOST: &str = "not all that was written in groups ";
const REFUSED: &str = "whoever writes to it overwrites what was there before";

/// A pool `z` of a raidz of three, of which one is an old copy and one is missing: `z/old:file` is whole in the group before, and
/// `z/new:file` lost. The missing disk lies beside it, as `b`. What leads to files lies on a mirror that is whole: else it were chance
/// what else is lost.
fn with_lost(place: &Path) {
    fs::create_dir(place.join("disks")).expect("a folder");
    add_disks(&place.join("disks"), &["a", "b", "c", "m", "n"], DISK);
    fs::write(place.join("file"), fixtures::noise(1, 3 << 20)).expect("a file");
    let raidz = ["zpool", "create", "-f", "z", "raidz", "disks/a", "disks/b", "disks/c"];
    done(place, &[&raidz[..], &["special", "mirror", "disks/m", "disks/n"]].concat());
    done(place, &["zfs", "create", "-V", "8M", "z/volume"]);
    done(place, &["zfs", "create", "z/old"]);
    done(place, &["zfs", "create", "z/new"]);
    done(place, &["zfs", "cp", "file", "z/old:/"]);
    done(place, &["zpool", "export", "z"]);
    fixtures::copy(&place.join("disks/a"), &place.join("copy"));
    // Few groups: what they free is not used again yet.
    done(place, &["zfs", "cp", "file", "z/new:/"]);
    fs::rename(place.join("copy"), place.join("disks/a")).expect("it is put in its place");
    fs::rename(place.join("disks/b"), place.join("b")).expect("it is away");
}

fn contents(place: &Path) -> Vec<Vec<u8>> {
    let read = |name| fs::read(place.join("disks").join(name)).expect("it is read");
    ["a", "c", "m", "n"].map(read).to_vec()
}

/// The group before what is lost.
fn group_before(place: &Path) -> String {
    let status = done(place, &["zpool", "status"]);
    let (_, rest) = status.split_once("'zfs -T ").expect("a group is named");
    rest.split_once('\'').expect("a number").0.to_owned()
}

/// The older state is whole.
#[track_caller]
fn older_is_whole(place: &Path, group: &str) {
    let read = run(place, &["zfs", "-T", group, "cat", "z/old:file"]);
    let file = fs::read(place.join("file")).expect("it is read");
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success() && read.stdout == file, "{said}");
}

/// What a server says that is not to start.
fn server_says(place: &Path, arguments: &[&str]) -> String {
    let mut command = program(place, arguments);
    let mut server = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let began = Instant::now();
    while server.try_wait().expect("it is asked").is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            server.kill().expect("it is ended");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = server.wait_with_output().expect("it has ended");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn copied(from: &Path) -> TempDir {
    let folder = fixtures::scratch::folder();
    let to = folder.path();
    fs::create_dir(to.join("disks")).expect("a folder");
    for name in ["disks/a", "disks/c", "disks/m", "disks/n", "b", "file"] {
        fixtures::copy(&from.join(name), &to.join(name));
    }
    folder
}

#[test]
fn a_pool_of_which_groups_are_lost_is_written_only_where_that_is_accepted() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    with_lost(place);
    let (group, before) = (group_before(place), contents(place));
    older_is_whole(place, &group);
    fs::create_dir(place.join("mounted")).expect("a folder");
    for command in [
        &["zpool", "import", "z"][..],
        &["zpool", "import", "-f", "z"],
        &["zpool", "import", "--dry-run", "z"],
        &["zpool", "export", "-f", "z"],
        &["zpool", "destroy", "-f", "z"],
        &["zpool", "set", "-f", "comment=x", "z"],
        &["zpool", "add", "-f", "z", "file"],
        &["zpool", "clear", "z"],
        &["zpool", "checkpoint", "z"],
        &["zfs", "create", "z/x"],
        &["zfs", "snapshot", "z/old@x"],
        &["zfs", "snapshot", "--dry-run", "z/old@x"],
        &["zfs", "set", "-f", "atime=off", "z/old"],
        &["zfs", "destroy", "-f", "z/old"],
        &["zfs", "cp", "--force-import", "file", "z/old:/x"],
        &["mount", "-o", "rw", "--force", "z/old", "mounted"],
    ] {
        refused(place, command, REFUSED);
        refused(place, command, &format!("'spindle zfs -T {group} cp -r'"));
        refused(place, command, "zpool import --accept-loss z takes it as it is");
    }
    let said = server_says(place, &["serve", "--volume", "z/volume", "--force"]);
    assert!(said.contains(REFUSED), "{said}");
    // Near what is lost there is no state without it.
    refused(place, &["zpool", "import", "-F", "z"], "-FX goes further back");
    assert!(before == contents(place), "nothing was written");
    older_is_whole(place, &group);
    // Reading is as it was, and whoever meets what is lost is told where it may be.
    let read = run(place, &["zfs", "cat", "z/new:file"]);
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(!read.status.success() && said.contains(LOST), "{said}");
    assert!(said.contains(&format!("'zfs -T {group}'")), "{said}");
    let (_, said) = printed_and_said(place, &["zfs", "-T", &group, "ls", "z/old:"]);
    assert!(!said.contains(LOST), "{said}");

    let other = copied(place);
    let back = other.path();
    let (printed, said) = printed_and_said(back, &["zpool", "import", "-FX", "z"]);
    assert!(printed.contains("Pool z returned to its state as of "), "{printed}{said}");
    let (listed, said) = printed_and_said(back, &["zfs", "list", "-H", "-o", "name"]);
    assert!(listed == "z\nz/new\nz/old\nz/volume\n" && !said.contains(LOST), "{listed}{said}");
    done(back, &["zfs", "cp", "file", "z/old:/more"]);
    for name in ["z/old:file", "z/old:more"] {
        assert!(run(back, &["zfs", "cat", name]).status.success(), "{name}");
    }
    assert!(!done(back, &["zpool", "status", "z"]).contains(LOST));
    done(back, &["zpool", "export", "z"]);
    judge(&back.join("disks"), "z");

    let (_, said) = printed_and_said(place, &["zpool", "import", "--accept-loss", "z"]);
    assert!(said.contains(LOST), "it is told all the same: {said}");
    done(place, &["zfs", "snapshot", "z/old@later"]);
    done(place, &["zfs", "cp", "file", "z/old:/later"]);
    assert!(done(place, &["zpool", "status", "z"]).contains(LOST));
    // Who was missing brings back what only it has; and has nothing of what came later, which is lost where another is away.
    fs::rename(place.join("b"), place.join("disks/b")).expect("it is back");
    for name in ["z/old:later", "z/new:file"] {
        assert!(run(place, &["zfs", "cat", name]).status.success(), "{name}");
    }
    assert!(!done(place, &["zpool", "status", "z"]).contains(LOST));
    fs::rename(place.join("disks/c"), place.join("c")).expect("it is away");
    refused(place, &["zfs", "create", "z/x"], REFUSED);
}

/// What could break: a device that was cut counts for what it lacks nothing of, and the pool is written over what only it had.
#[test]
fn a_device_that_was_cut_keeps_no_group_from_being_lost() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    with_lost(place);
    fs::rename(place.join("b"), place.join("disks/b")).expect("it is back");
    let disk = fs::File::options().write(true).open(place.join("disks/b"));
    disk.and_then(|disk| disk.set_len(DISK / 4)).expect("it is cut");
    let before = contents(place);
    refused(place, &["zfs", "create", "z/x"], REFUSED);
    assert!(before == contents(place), "nothing was written");
    let status = done(place, &["zpool", "status", "z"]);
    assert!(status.contains(LOST) && status.contains("disks/b is cut short"), "{status}");
    done(place, &["zpool", "import", "--accept-loss", "z"]);
    done(place, &["zfs", "create", "z/x"]);
}

/// What could break: whoever says that a pool is not another host's any more has said that what is lost may be overwritten; or the other
/// way round.
#[test]
fn what_forces_a_pool_of_another_host_accepts_no_loss() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    with_lost(place);
    fs::rename(place.join("b"), place.join("disks/b")).expect("it is back");
    let socket = format!("unix:{}", place.join("socket").display());
    let mut serve = program(place, &["serve", "--volume", "z/volume", "--nbd", &socket]);
    Serving::start(serve.env("ZFS_HOSTID", "0x77")).kill();
    fs::rename(place.join("disks/b"), place.join("b")).expect("it is away");
    let before = contents(place);
    let of_other = "previously in use from another system";
    refused(place, &["zpool", "import", "z"], of_other);
    refused(place, &["zpool", "import", "--accept-loss", "z"], of_other);
    refused(place, &["zpool", "import", "-f", "z"], REFUSED);
    refused(place, &["zfs", "cp", "--force-import", "file", "z/old:/x"], REFUSED);
    assert!(before == contents(place), "nothing was written");
    done(place, &["zpool", "import", "-f", "--accept-loss", "z"]);
    done(place, &["zfs", "create", "z/x"]);
}

/// What could break: a pool that only lacks a device, or had one away once, is refused.
#[test]
fn a_pool_of_which_nothing_is_lost_is_written_without_a_word() {
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    fs::create_dir(place.join("disks")).expect("a folder");
    add_disks(&place.join("disks"), &["a", "b", "c"], DISK);
    done(place, &["zpool", "create", "z", "raidz", "disks/a", "disks/b", "disks/c"]);
    let (there, beside) = (place.join("disks/a"), place.join("a"));
    for made in ["z/1", "z/2"] {
        fs::rename(&there, &beside).expect("it is away");
        let (_, said) = printed_and_said(place, &["zfs", "create", made]);
        assert!(!said.contains(LOST), "{said}");
        fs::rename(&beside, &there).expect("it is back");
    }
    done(place, &["zfs", "create", "z/3"]);
}

/// Two sides of a mirror `m`, each in a folder of its own as well, and both in `both`.
fn mirror(place: &Path) {
    for folder in ["both", "a", "b"] {
        fs::create_dir(place.join(folder)).expect("a folder");
    }
    add_disks(&place.join("both"), &["a", "b"], DISK);
    for disk in ["a", "b"] {
        let alone = place.join(disk).join(disk);
        fs::hard_link(place.join("both").join(disk), alone).expect("a link");
    }
    fs::write(place.join("file"), fixtures::noise(1, 700_000)).expect("a file");
    done(&place.join("both"), &["zpool", "create", "m", "mirror", "a", "b"]);
}

/// A file is written to what is in a folder.
fn write(folder: &Path, to: &str) {
    done(folder, &["zfs", "cp", "../file", &format!("m:/{to}")]);
}

/// Whether what is in a folder has a file whole.
fn has(folder: &Path, before: &[&str], name: &str) -> bool {
    let (file, name) = (fs::read(folder.join("../file")).expect("a file"), format!("m:{name}"));
    let read = run(folder, &[before, &["cat", &name]].concat());
    read.status.success() && read.stdout == file
}

/// A copy of what is in a folder, beside the same file.
fn copy_of(folder: &Path, disk: &str) -> TempDir {
    let copy = fixtures::scratch::folder();
    fs::create_dir(copy.path().join("alone")).expect("a folder");
    fixtures::copy(&folder.join(disk), &copy.path().join("alone").join(disk));
    fixtures::copy(&folder.join("../file"), &copy.path().join("file"));
    copy
}

/// What could break: what a side lacks that was away is noted on the other side alone; where that one is away now, the first counts for
/// whole, and is refused for what nobody can do anything about.
#[test]
fn a_side_that_was_away_and_is_alone_lacks_what_it_has_no_note_of() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    mirror(place);
    let (both, a, b) = (place.join("both"), place.join("a"), place.join("b"));
    write(&both, "before");
    write(&b, "away");
    write(&both, "after");
    let lost = format!("not all that was written in {}", noted(&both));
    let group = group_before(&a);
    for command in [
        &["zpool", "status", "m"][..],
        &["zpool", "status", "-x"],
        &["zpool", "list"],
        &["zpool", "import"],
        &["scan"],
        &["zfs", "ls", "m:"],
    ] {
        let (printed, said) = printed_and_said(&a, command);
        assert!(format!("{printed}{said}").contains(&lost), "{command:?}: {printed}{said}");
    }
    let read = run(&a, &["zfs", "cat", "m:away"]);
    let said = String::from_utf8_lossy(&read.stderr);
    assert!(!read.status.success() && said.contains(&format!("'zfs -T {group}'")), "{said}");
    assert!(has(&a, &["zfs", "-T", &group], "before"));
    let contents = fs::read(a.join("a")).expect("it is read");
    for command in [&["zfs", "create", "m/x"][..], &["zpool", "import", "m"]] {
        refused(&a, command, REFUSED);
        refused(&a, command, "zpool import -FX m takes it back");
        refused(&a, command, "zpool import --accept-loss m takes it as it is");
    }
    for how in ["-F", "-Fn"] {
        refused(&a, &["zpool", "import", how, "m"], "-FX goes further back");
    }
    let told = done(&a, &["zpool", "import", "-FXn", "m"]);
    assert!(told.contains("Would be able to return m to its state as of "), "{told}");
    assert!(contents == fs::read(a.join("a")).expect("it is read"), "nothing was written");

    let copy = copy_of(&a, "a");
    let back = copy.path().join("alone");
    let told = done(&back, &["zpool", "import", "-FX", "m"]);
    assert!(told.contains("Pool m returned to its state as of "), "{told}");
    write(&back, "later");
    assert!(has(&back, &["zfs"], "before") && has(&back, &["zfs"], "later"));
    let status = done(&back, &["zpool", "status", "m"]);
    assert!(!status.contains(LOST), "{status}");
    judge(&back, "m");

    let told = done(&a, &["zpool", "import", "--accept-loss", "-Fn", "m"]);
    assert!(told.contains("m can be imported as it is."), "{told}");
    let (_, said) = printed_and_said(&a, &["zpool", "import", "--accept-loss", "m"]);
    assert!(said.contains(&lost), "it is told all the same: {said}");
    write(&a, "later");
    let status = done(&a, &["zpool", "status", "m"]);
    assert!(status.contains(&lost), "{status}");
    let all = ["before", "after", "later"];
    assert!(all.iter().all(|name| has(&a, &["zfs"], name)));
    // The other side is back: what each lacks that was noted the other one has.
    for name in all.iter().chain(&["away"]) {
        assert!(has(&both, &["zfs"], name), "{name}");
    }
    assert!(!done(&both, &["zpool", "status", "m"]).contains(LOST));
    judge(&both, "m");
}

/// The groups that the only device lacks that lacks some, in words.
fn noted(folder: &Path) -> String {
    let status = done(folder, &["zpool", "status"]);
    let (_, noted) = status.split_once("lacks data of ").expect("it is noted");
    noted.lines().next().expect("a line").to_owned()
}

/// What could break: of a device that was away several times the last time alone is known.
#[test]
fn a_side_that_was_away_several_times_lacks_what_was_written_each_time() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    mirror(place);
    let (both, a, b) = (place.join("both"), place.join("a"), place.join("b"));
    for (folder, name) in [(&both, "1"), (&b, "2"), (&both, "3"), (&b, "4"), (&both, "5")] {
        write(folder, name);
    }
    let noted = noted(&both);
    assert!(noted.contains(", "), "{noted}");
    let status = done(&a, &["zpool", "status", "m"]);
    assert!(status.contains(&format!("not all that was written in {noted}, after")), "{status}");
    done(&a, &["zpool", "import", "--accept-loss", "m"]);
    assert_eq!(self::noted(&a), noted, "it is noted anew");
}

/// What could break: it is said to be damaged, and not what would help.
#[test]
fn a_side_that_lacks_what_the_pool_cant_be_opened_without_says_who_has_it() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    mirror(place);
    let (both, a, b) = (place.join("both"), place.join("a"), place.join("b"));
    write(&b, "away");
    write(&both, "after");
    let missing = both.join("b");
    for command in [
        &["zfs", "ls", "m:"][..],
        &["zfs", "create", "m/x"],
        &["zpool", "import", "m"],
        &["zpool", "import", "--accept-loss", "m"],
        &["zpool", "import", "-FXn", "m"],
    ] {
        refused(&a, command, LOST);
        refused(&a, command, "its newest group can't be opened without it");
        refused(&a, command, missing.to_str().expect("a path"));
    }
    for command in [&["scan"][..], &["zpool", "import"]] {
        let (printed, said) = printed_and_said(&a, command);
        assert!(format!("{printed}{said}").contains(LOST), "{command:?}: {printed}{said}");
    }
    assert!(has(&both, &["zfs"], "away") && has(&both, &["zfs"], "after"));
}

/// What could break: what the devices that are left have together counts for lost, since one of them has no note of what it lacks.
#[test]
fn where_others_stand_in_for_what_a_device_lacks_nothing_is_lost() {
    fixtures::takes_long!();
    for vdev in ["raidz", "mirror"] {
        let folder = fixtures::scratch::folder();
        let place = folder.path();
        fs::create_dir(place.join("disks")).expect("a folder");
        add_disks(&place.join("disks"), &["a", "b", "c"], DISK);
        fs::write(place.join("file"), fixtures::noise(1, 700_000)).expect("a file");
        done(place, &["zpool", "create", "m", vdev, "disks/a", "disks/b", "disks/c"]);
        write_in(place, "before");
        fs::rename(place.join("disks/a"), place.join("a")).expect("it is away");
        write_in(place, "away");
        fs::rename(place.join("a"), place.join("disks/a")).expect("it is back");
        write_in(place, "after");
        fs::rename(place.join("disks/b"), place.join("b")).expect("it is away");
        let status = done(place, &["zpool", "status", "m"]);
        assert_eq!(status.contains(LOST), vdev == "raidz", "{status}");
        if vdev == "raidz" {
            refused(place, &["zfs", "create", "m/x"], REFUSED);
            done(place, &["zpool", "import", "--accept-loss", "m"]);
        }
        done(place, &["zfs", "create", "m/x"]);
    }
}

fn write_in(place: &Path, to: &str) {
    done(place, &["zfs", "cp", "file", &format!("m:/{to}")]);
    done(place, &["zpool", "export", "m"]);
}
