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
    let status = done(place, &["zpool", "status", "z"]);
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
