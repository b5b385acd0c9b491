//! What another process has open: refused, as a call that is right and can't be carried out now.
//!
//! What could break: a script takes a disk that is in use for a wrong call, and never tries again; or for a right one, and writes to it.

use crate::pools;
use crate::serving::Serving;

use pools::{done, program, run};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// A disk with two partitions, of 30 and 80 MiB.
fn divided(path: &Path) {
    let file = File::create_new(path).expect("a disk");
    file.set_len(120 * MIB).expect("a size");
    let entry = |kind: u8, first: u64, len: u64| {
        let mut entry = [0; 16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&((first / 512) as u32).to_le_bytes());
        entry[12..].copy_from_slice(&((len / 512) as u32).to_le_bytes());
        entry
    };
    let table = [entry(0xfd, MIB, 30 * MIB), entry(0xbf, 32 * MIB, 80 * MIB)];
    file.write_all_at(&table.concat(), 446).expect("written");
    file.write_all_at(b"\x55\xaa", 510).expect("written");
}

#[track_caller]
fn in_use(at: &Path, arguments: &[&str]) {
    let output = run(at, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another process writes to it"), "{arguments:?}: {said}");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
}

#[test]
fn a_disk_that_another_process_writes_is_no_wrong_call() {
    fixtures::takes_long!();
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    fs::create_dir(at.join("disks")).expect("a folder");
    for disk in ["p", "q"] {
        divided(&at.join("disks").join(disk));
    }
    let make = ["md", "create", "small", "-l", "1", "-n", "2", "--assume-clean"];
    done(at, &[&make[..], &["disks/p:1", "disks/q:1"]].concat());
    done(at, &["zpool", "create", "tank", "mirror", "disks/p:2", "disks/q:2"]);
    done(at, &["zfs", "create", "-s", "-V", "16M", "tank/v"]);
    let serving = |volume: &str| {
        Serving::start(&mut program(at, &["serve", "--volume", volume, "--nbd", "unix:s"]))
    };
    let of_pool = serving("tank/v");
    in_use(at, &["md", "assemble", "small"]);
    of_pool.stop();
    done(at, &["md", "assemble", "small"]);
    let of_set = serving("small");
    in_use(at, &["zfs", "create", "tank/x"]);
    of_set.stop();
    done(at, &["zfs", "create", "tank/x"]);
}

/// What could break: who names a volume with the wrong word is told of every kind of volume but the one that it is.
#[test]
fn a_volume_of_a_pool_that_is_dumped_as_another_is_told_with_the_command_that_dumps_it() {
    let folder = pools::disks(&["a"], 80 * MIB);
    let at = folder.path();
    done(at, &["zpool", "create", "nas", "a"]);
    done(at, &["zfs", "create", "-s", "-V", "16M", "nas/vol"]);
    for command in [&["lvm", "dump"][..], &["md", "dump"]] {
        let output = run(at, &[command, &["nas/vol", "out"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("a volume of ZFS pool nas: spindle -d . zfs dump nas/vol out"),
            "{said}"
        );
    }
    done(at, &["zfs", "dump", "nas/vol", "out"]);
}
