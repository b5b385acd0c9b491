//! Commands tried out (`--dry-run`): they end as they would, and nothing is changed.
//!
//! What could break: a way to a device that is not covered; a command that succeeds here and fails in earnest, or the reverse; a change by
//! who holds the pool or set instead; files of this host that are written all the same.

use crate::holding::Holder;
use crate::pools;
use crate::serving::Serving;

use pools::{add_disks, disks, done, program, refused, run};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

const DISK_BYTES: u64 = 128 << 20;
const DISKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const NOTE: &str = "note: a dry run: the devices are as they were\n";

/// When each disk was written to last.
fn written(at: &Path) -> Vec<SystemTime> {
    let of = |name| std::fs::metadata(at.join(name)).and_then(|found| found.modified());
    DISKS.into_iter().map(|name| of(name).expect("a disk")).collect()
}

/// Tries a command out, and then carries it out.
#[track_caller]
fn try_and_do(at: &Path, words: &[&str]) {
    let before = written(at);
    let tried = run(at, &[words, &["--dry-run"]].concat());
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    assert!(before == written(at), "{words:?} wrote: {said}");
    let output = run(at, words);
    let in_earnest = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(tried.status.code(), output.status.code(), "{words:?}: {said}{in_earnest}");
    let succeeded = output.status.success();
    assert!(said.contains(NOTE) && said.replace(NOTE, "") == in_earnest, "{words:?}: {said}");
    assert!(before != written(at) || !succeeded, "{words:?} should write");
}

#[test]
fn commands_end_as_in_earnest_and_devices_stay_as_they_are() {
    fixtures::takes_long!();
    let folder = disks(&DISKS, DISK_BYTES);
    let at = folder.path();
    std::fs::write(at.join("text"), "of this host").expect("a file");
    let commands = "\
        md create set -l 1 -n 2 a b --assume-clean
        md create set -l 1 -n 2 a b --assume-clean
        md add set c
        md fail set c
        md remove set c
        lvm vgcreate g d
        lvm lvcreate g -n l -L 60MiB
        zpool create tank set
        zpool create tank set
        zpool create tank a
        zpool add tank g/l
        zpool add tank log e
        zpool add tank mirror e f
        zpool set comment=ours tank
        zfs create tank/x
        zfs create tank/x/y/z
        zfs create -V 16M tank/v
        zfs load tank/v text
        zfs cp text tank/x:copy
        zfs snapshot -r tank@s
        zfs hold tag tank@s
        zfs destroy tank@s
        zfs release tag tank@s
        zfs bookmark tank/x@s tank/x#b
        zfs clone tank/x@s tank/c
        zfs promote tank/c
        zfs rename tank/c tank/d
        zfs set quota=1G tank/x
        zfs inherit quota tank/x
        zfs rollback tank/x@nothing
        zfs destroy tank/d
        zfs destroy -R tank/d
        zpool checkpoint tank
        zpool reguid tank
        zpool set failmode=continue tank
        zpool import -f nothing
        zpool destroy tank
        zpool import -D -f tank";
    for command in commands.lines() {
        let words: Vec<&str> = command.split_whitespace().collect();
        // Devices that are named as files lie in the folder.
        try_and_do(at, &words);
    }
    done(at, &["zpool", "scrub", "--read-only", "tank"]);
    try_and_do(at, &["zpool", "labelclear", "-f", "e"]);
}

#[test]
fn who_holds_a_pool_or_a_set_is_not_asked_to_change_it() {
    let folder = disks(&DISKS, DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "-m", "none", "tank", "a"]);
    done(at, &["zfs", "create", "-V", "8M", "tank/v"]);
    done(at, &["md", "create", "set", "-l", "1", "-n", "2", "b", "c", "--assume-clean"]);
    std::fs::write(at.join("conf"), "pools = [\"tank\"]\n[[set]]\nname = \"set\"\n")
        .expect("a file");
    let set = Serving::start(&mut program(at, &["md", "serve", "set", "--nbd", "unix:s"]));
    let pool = Holder::start(at, "pools = [\"tank\"]\n");
    for words in [
        &["zfs", "create", "tank/x"][..],
        &["zfs", "load", "tank/v", "conf"],
        &["zpool", "set", "comment=ours", "tank"],
        &["zpool", "clear", "tank"],
        &["zpool", "export", "tank"],
        &["zpool", "destroy", "-f", "tank"],
    ] {
        refused(
            at,
            &[words, &["--dry-run"]].concat(),
            "which would do this: there is no dry run while it is",
        );
    }
    for words in
        [&["md", "add", "set", "d"][..], &["md", "fail", "set", "b"], &["md", "stop", "set"]]
    {
        refused(
            at,
            &[words, &["--dry-run"]].concat(),
            "set /dev/md/set is served by another process, which would do this",
        );
    }
    // Both go on, unchanged.
    assert_eq!(done(at, &["zpool", "get", "-Ho", "value", "comment", "tank"]).trim(), "-");
    assert!(done(at, &["md", "detail", "set"]).contains("clean"));
    done(at, &["zfs", "create", "tank/x"]);
    pool.stop();
    set.stop();
}

#[test]
fn what_changes_more_than_devices_is_refused() {
    let folder = disks(&DISKS, DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "-m", "none", "tank", "a"]);
    done(at, &["zfs", "create", "-V", "8M", "tank/v"]);
    for words in [
        &["zfs", "mount", "-a"][..],
        &["zfs", "cp", "tank:file", "out"],
        &["zfs", "dump", "tank/v", "out"],
        &["md", "dump", "set", "out"],
        &["md", "serve", "set"],
        &["lvm", "dump", "g/l", "out"],
    ] {
        refused(at, &[words, &["--dry-run"]].concat(), "there is no dry run of this command");
    }
    assert!(!at.join("out").exists());
}

#[test]
fn an_export_is_covered_too() {
    let folder = disks(&[], 0);
    let at = folder.path();
    std::fs::create_dir(at.join("apart")).expect("a folder");
    add_disks(&at.join("apart"), &["a"], DISK_BYTES);
    let mut serve = program(at, &["serve", "apart/a", "--nbd", "unix:s"]);
    let server = Serving::start(&mut serve);
    let uri = format!("nbd+unix:///?socket={}", at.join("s").display());
    let modified = || std::fs::metadata(at.join("apart/a")).and_then(|found| found.modified());
    let before = modified().expect("a disk");
    done(at, &["-d", &uri, "zpool", "create", "--dry-run", "tank", &uri]);
    assert_eq!(modified().expect("a disk"), before);
    done(at, &["-d", &uri, "zpool", "create", "tank", &uri]);
    assert!(modified().expect("a disk") != before);
    server.stop();
}

#[test]
fn who_may_not_write_is_refused_as_in_earnest() {
    let folder = disks(&["a"], DISK_BYTES);
    let at = folder.path();
    let immutable = |how: &str| {
        let mut chattr = Command::new("chattr");
        let changed = chattr.args([how, "a"]).current_dir(at).stderr(Stdio::null()).status();
        changed.is_ok_and(|status| status.success())
    };
    if !rustix::process::geteuid().is_root() || !immutable("+i") {
        return println!("skipped: nothing is made immutable here");
    }
    let create = ["zpool", "create", "tank", "a"];
    let tried = run(at, &[&create[..], &["--dry-run"]].concat());
    let output = run(at, &create);
    assert!(immutable("-i"));
    let [said, in_earnest] =
        [&tried, &output].map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(!output.status.success() && tried.status == output.status, "{said}{in_earnest}");
    assert_eq!(said.replace(NOTE, ""), in_earnest);
}

/// What could break: a pool whose name another has already, which is found by the environment alone.
#[test]
fn disks_are_named_by_the_environment_too() {
    let folder = disks(&["a", "b"], DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    let mut create = Command::new(env!("CARGO_BIN_EXE_spindle"));
    create.current_dir(at).args(["zpool", "create", "tank", "b"]).env("SPINDLE_DEVICES", ".");
    let output = create.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("pool already exists"), "{said}");
}
