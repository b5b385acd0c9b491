//! The real OpenZFS takes what Spindle wrote: files with large dnodes, a pool on a RAID set that the kernel
//! assembles, a raidz that was expanded, a pool of version 28, names of the greatest length; and Spindle goes on after it.
//!
//! What could break: a dnode of several slots of which the kernel sees another number or other attributes, labels at places that differ
//! on a set, columns of blocks from before and after an expansion.

use super::kernel::{Machine, digest, file};
use super::pools::{done, judge};
use std::fs;
use std::path::Path;
use std::process::Command;

const DISK_BYTES: u64 = 128 << 20;
/// The pool of one disk, the members of a set, the leaves of the raidz, and the pool of version 28.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
const EXPANDED: &str = "t_z1_expanded";
const OLD: &str = "t_version28";
const SIZES: [&str; 6] = ["legacy", "auto", "1k", "2k", "4k", "16k"];
const FILES: usize = 60;

/// Files with attributes, one of which has no room in a small dnode.
fn with_attributes(folder: &Path) {
    for number in 0..FILES {
        let path = folder.join(number.to_string());
        fs::write(&path, format!("{number}\n").repeat(number * 40)).expect("it is written");
        for (name, len) in [("user.short", 20), ("user.long", 400)] {
            let value = vec![b'a' + (number % 26) as u8; len];
            rustix::fs::setxattr(&path, name, &value, rustix::fs::XattrFlags::empty())
                .expect("the host's file system has attributes of users");
        }
    }
}

/// What a shell is to say of them: it lists files, contents, and attributes, and takes the digest of it all.
fn of_files(folder: &str) -> String {
    format!(
        "echo look $(cd {folder}; for n in $(seq 0 {}); do cat $n; for x in short long; do \
         getfattr --only-values -n user.$x $n; done; done | sha256sum)\n",
        FILES - 1
    )
}

/// The same of the files of the host.
fn looked(folder: &Path) -> String {
    let mut all = Vec::new();
    for number in 0..FILES {
        all.extend(fs::read(folder.join(number.to_string())).expect("it is read"));
        all.extend([20, 400].map(|len| vec![b'a' + (number % 26) as u8; len]).concat());
    }
    let path = folder.join("all");
    fs::write(&path, all).expect("it is written");
    digest(&path.display().to_string())
}

/// The disks of a pool that OpenZFS made, under these names, where they are at hand.
fn add_fixture(at: &Path, fixture: &str, names: &[&str]) -> bool {
    let Some(folder) = fixtures::folder("zfs") else { return false };
    let unpacked = fixtures::unpack(&folder, fixture);
    for (number, name) in names.iter().enumerate() {
        let from = unpacked.path().join(format!("disk{number}.raw"));
        Command::new("cp")
            .arg("--sparse=always")
            .arg(from)
            .arg(at.join(name))
            .status()
            .expect("cp");
    }
    true
}

#[test]
#[ignore = "boots a machine: some minutes"]
fn the_kernel_takes_large_dnodes_a_pool_on_a_set_an_expanded_raidz_and_version_28() {
    let Some(machine) = Machine::of(&NAMES, DISK_BYTES) else { return };
    let (at, from) = (machine.disks(), fixtures::scratch::folder());
    if !add_fixture(at, "z1-expanded", &NAMES[4..8]) || !add_fixture(at, "version28", &NAMES[8..]) {
        return;
    }
    with_attributes(from.path());
    let source = format!("{}/.", from.path().display());
    let big = file(machine.out(), 3);
    done(at, &["zpool", "create", "-O", "xattr=sa", "large", "a"]);
    for size in SIZES {
        let dataset = format!("large/{size}");
        done(at, &["zfs", "create", "-o", &format!("dnodesize={size}"), &dataset]);
        done(at, &["zfs", "cp", "-r", &source, &format!("{dataset}:/")]);
        done(at, &["zfs", "snapshot", &format!("{dataset}@s")]);
        done(at, &["zfs", "cp", &big, &format!("{dataset}:/big")]);
    }
    let deep = format!("large/{}/{}", "n".repeat(120), "m".repeat(120));
    done(at, &["zfs", "create", "-p", &deep]);
    done(at, &["md", "create", "set", "-l", "5", "-n", "3", "--assume-clean", "b", "c", "d"]);
    done(at, &["zpool", "create", "onset", "set"]);
    for pool in ["onset", EXPANDED, OLD] {
        done(at, &["zfs", "cp", &big, &format!("{pool}:/big")]);
        done(at, &["zfs", "create", &format!("{pool}/small")]);
        done(at, &["zfs", "cp", "-r", &source, &format!("{pool}/small:/")]);
    }
    let pools = ["large", "onset", EXPANDED, OLD];
    judge(at, "large");
    // The disks themselves are there too, and are overwritten by what is in /p in the end.
    let mut script = format!(
        "zdb -e -p /p -bcc {EXPANDED}; zdb -e -p /p -bcc {OLD}; for x in b c d e f g h i; do losetup -f /p/$x; done; mdadm --assemble /dev/md/set /dev/loop[012]\n\
         zpool import -d /p/a large; zpool import -d /dev/md onset; zpool import $(for n in 3 4 5 6; do echo -d /dev/loop$n; done) {EXPANDED}\n\
         zpool import -d /dev/loop7 {OLD}; zpool get -Ho value version {OLD} | sed 's/^/version /'; zfs list -Ho name {deep}\n"
    );
    for size in SIZES {
        script += &of_files(&format!("/large/{size}"));
        script += &of_files(&format!("/large/{size}/.zfs/snapshot/s"));
        script += &format!("echo big $(sha256sum < /large/{size}/big)\n");
        script += &format!(
            "cd /large/{size}; rm 1*; for n in $(seq 40); do echo $n > new$n; done; cd /\n"
        );
    }
    for pool in &pools[1..] {
        script += &format!("echo big $(sha256sum < /{pool}/big); echo hello > /{pool}/hello\n");
        script += &of_files(&format!("/{pool}/small"));
    }
    for pool in pools {
        script += &format!("zpool scrub -w {pool}; zpool status {pool}; zpool export {pool}\n");
    }
    script += "mdadm --stop /dev/md/set; losetup -D; sync\n";
    let said = machine.run(&script);
    let times = |text: &str| said.matches(text).count();
    assert_eq!(times(&format!("look {}", looked(from.path()))), 2 * SIZES.len() + 3, "{said}");
    assert_eq!(times(&format!("big {}", digest(&big))), SIZES.len() + 3, "{said}");
    assert_eq!((times("repaired 0B"), times("with 0 errors")), (4, 4), "{said}");
    assert_eq!(times("No leaks (block sum matches space maps exactly)"), 2, "{said}");
    assert_eq!((times(&deep), times("No known data errors")), (1, 4), "{said}");
    assert_eq!(times("version 28"), 1, "the kernel left it as it was: {said}");
    for size in SIZES {
        assert_eq!(done(at, &["zfs", "cat", &format!("large/{size}:new40")]), "40\n");
        assert_eq!(done(at, &["zfs", "cat", &format!("large/{size}:2")]), "2\n".repeat(80));
        done(at, &["zfs", "rollback", &format!("large/{size}@s")]);
    }
    for pool in &pools[1..] {
        assert_eq!(done(at, &["zfs", "cat", &format!("{pool}:hello")]), "hello\n");
        done(at, &["zfs", "destroy", &format!("{pool}/small")]);
    }
    judge(at, "large");
    for pool in pools {
        done(at, &["zpool", "scrub", "--read-only", pool]);
    }
}
