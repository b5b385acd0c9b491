//! Pools with dRAIDs, from the outside: made, filled, read without disks, and taken by the real OpenZFS.
//!
//! What could break: numbers that OpenZFS lays out otherwise, spare space that it can't put in the place of a disk.

use super::kernel::{Machine, digest, file};
use super::pools::{disks, done, judge, refused, run};

const DISK_BYTES: u64 = 72 << 20;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn a_draid_is_made_filled_and_read_without_a_disk() {
    fixtures::takes_long!();
    let folder = disks(&NAMES, DISK_BYTES);
    let at = folder.path();
    for (asked, disks, why) in [
        (&["tank", "draid:7c"][..], &NAMES[..], "7 required but 6 provided"),
        (&["tank", "draid1:5d:1s"], &NAMES, "at most 4 disks are available for data"),
        (&["tank", "draid4"], &NAMES, "must be between 1 and 3"),
        (&["tank", "draid2"], &NAMES[..2], "requires at least 3 devices"),
        (&["-o", "feature@draid=disabled", "tank", "draid"], &NAMES, "feature@draid"),
    ] {
        refused(at, &[&["zpool", "create"], asked, disks].concat(), why);
    }
    let asked = ["zpool", "create", "tank", "draid1:2d:5c:1s"];
    let shown = done(at, &[&["zpool", "create", "-n"], &asked[2..], &NAMES[..5]].concat());
    assert!(shown.contains("\ttank\n\t  draid1:2d:5c:1s\n\t    a\n"), "{shown}");
    done(at, &[&asked, &NAMES[..5]].concat());
    let status = done(at, &["zpool", "status", "tank"]);
    let has = |line: &str| status.lines().any(|known| known.split_whitespace().eq(line.split(' ')));
    assert!(has("draid1:2d:5c:1s-0 ONLINE 0 0 0") && has("draid1-0-0 AVAIL"), "{status}");
    assert_eq!(done(at, &["zpool", "get", "-Ho", "value", "feature@draid", "tank"]), "active\n");
    let out = fixtures::scratch::folder();
    let one = file(out.path(), 1);
    done(at, &["zfs", "cp", &one, "tank:"]);
    judge(at, "tank");
    std::fs::remove_file(at.join("c")).expect("it goes");
    let bytes = run(at, &["zfs", "cat", "tank:file1"]).stdout;
    assert!(bytes == std::fs::read(&one).expect("it is read"));
    // One that is added later has spares too, named by its place.
    let more = disks(&NAMES, DISK_BYTES);
    let at = more.path();
    done(at, &["zpool", "create", "tank", "a"]);
    done(at, &["zpool", "add", "-f", "tank", "draid:2d:1s", "b", "c", "d", "e", "f"]);
    assert!(done(at, &["zpool", "status", "tank"]).contains("draid1-1-0"));
    done(at, &["zfs", "cp", &one, "tank:"]);
    judge(at, "tank");
}

#[test]
#[ignore = "boots a machine: a minute"]
fn the_kernel_takes_a_draid_and_puts_its_spare_space_to_use() {
    let Some(machine) = Machine::of(&NAMES, DISK_BYTES) else { return };
    let at = machine.disks();
    let (one, two) = (file(machine.out(), 1), file(machine.out(), 2));
    let create = ["zpool", "create", "tank", "draid2:2d:6c:1s"];
    done(at, &[&create[..], &NAMES].concat());
    done(at, &["zfs", "cp", &one, "tank:"]);
    done(at, &["zfs", "cp", &two, "tank:"]);
    judge(at, "tank");
    let said = machine.run(
        "zpool import -d /p tank; sha256sum /tank/file1 /tank/file2\n\
         zpool scrub -w tank; zpool status tank\n\
         zpool offline tank /p/b; zpool replace -w tank /p/b draid2-0-0; zpool status tank\n\
         echo 3 > /proc/sys/vm/drop_caches; sha256sum /tank/file1\n\
         zpool online tank /p/b; zpool wait -t resilver tank; zpool detach tank draid2-0-0\n\
         cp /tank/file1 /tank/file3; zpool scrub -w tank; zpool status tank; zpool export tank\n",
    );
    for (path, times) in [(&one, 2), (&two, 1)] {
        assert_eq!(said.matches(&digest(path)).count(), times, "{said}");
    }
    assert_eq!(said.matches("scrub repaired 0B").count(), 2, "{said}");
    for words in [["draid2-0-0", "AVAIL"], ["draid2-0-0", "INUSE"]] {
        let has = |line: &str| line.split_whitespace().take(2).eq(words);
        assert!(said.lines().any(has), "{words:?}: {said}");
    }
    assert!(run(at, &["zfs", "cat", "tank:file3"]).stdout == std::fs::read(&one).expect("read"));
    done(at, &["zfs", "create", "tank/after"]);
    judge(at, "tank");
}
