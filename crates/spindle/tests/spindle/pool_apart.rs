//! Two halves of a pool that were each used alone, put together again.
//!
//! What could break: what was written to one of them is overwritten without a word, since it looks as if it had merely been away; a
//! device that was merely away is taken for one that went on by itself, and nothing can be done any more.

use crate::pools::{add_disks, done, printed_and_said, refused, run};
use crate::zpool_create::kernel;
use fixtures::extent::some;
use std::fs;
use std::path::{Path, PathBuf};

const DISK: u64 = 80 << 20;
const TOLD: &str = "went on without the others";

/// A mirror `m` of `a` and `b`, exported, with a file that both have. The disks lie in `disks`, and each in a folder of its own as well.
fn mirror(place: &Path) {
    for folder in ["disks", "a", "b"] {
        fs::create_dir(place.join(folder)).expect("a folder");
    }
    add_disks(&place.join("disks"), &["a", "b"], DISK);
    for disk in ["a", "b"] {
        let of_both = place.join("disks").join(disk);
        fs::hard_link(of_both, alone(place, disk).join(disk)).expect("a link");
    }
    fs::write(place.join("file"), fixtures::noise(1, 1 << 20)).expect("a file");
    done(place, &["zpool", "create", "-f", "m", "mirror", "disks/a", "disks/b"]);
    done(place, &["zfs", "cp", "file", "m:/before"]);
    done(place, &["zpool", "export", "m"]);
}

/// The folder where a disk lies alone.
fn alone(place: &Path, disk: &str) -> PathBuf {
    place.join(disk)
}

/// A disk is used alone, so many times.
fn go_on_alone(place: &Path, disk: &str, times: usize) {
    let folder = alone(place, disk);
    for n in 0..times {
        done(&folder, &["zfs", "cp", "../file", &format!("m:/of-{disk}-{n}")]);
    }
    done(&folder, &["zpool", "export", "m"]);
}

#[test]
fn halves_that_went_on_without_each_other_are_told_and_not_written_before_that_is_accepted() {
    fixtures::takes_long!();
    // One that went on for longer, and both for as long: none is behind then.
    for times in some([[1, 3], [3, 1], [2, 2]], 1) {
        let folder = fixtures::scratch::folder();
        let place = folder.path();
        mirror(place);
        go_on_alone(place, "a", times[0]);
        go_on_alone(place, "b", times[1]);
        for call in [&["zpool", "status", "m"][..], &["zpool", "import"], &["scan"]] {
            let (printed, said) = printed_and_said(place, call);
            let is_told = printed.contains(TOLD) || said.contains(TOLD);
            assert!(is_told, "{times:?}: {call:?}: {printed}{said}");
        }
        let (_, said) = printed_and_said(place, &["zfs", "ls", "m:/"]);
        assert!(said.contains(TOLD), "{times:?}: {said}");
        let contents = || ["a", "b"].map(|disk| fs::read(place.join("disks").join(disk)).ok());
        let before = contents();
        for call in [
            &["zfs", "create", "m/x"][..],
            &["zpool", "import", "m"],
            &["zpool", "import", "-f", "m"],
            &["zpool", "import", "-F", "m"],
            &["zpool", "export", "-f", "m"],
        ] {
            refused(place, call, TOLD);
            refused(place, call, "zpool import --accept-loss m takes the pool");
        }
        assert!(contents() == before, "{times:?}: nothing is written");
        // Each half is there by itself.
        for disk in ["a", "b"] {
            let read = run(&alone(place, disk), &["zfs", "cat", &format!("m:of-{disk}-0")]);
            let expected = fs::read(place.join("file")).expect("a file");
            assert!(read.status.success() && read.stdout == expected, "{times:?}: {disk}");
        }
        done(place, &["zpool", "import", "--accept-loss", "m"]);
        done(place, &["zfs", "create", "m/x"]);
        let (status, said) = printed_and_said(place, &["zpool", "status", "m"]);
        assert!(!status.contains(TOLD) && !said.contains(TOLD), "{times:?}: decided: {status}");
    }
}

#[test]
fn devices_that_were_away_in_turn_did_not_go_on() {
    let raidz = ["raidz2", "a", "b", "c", "d"];
    let two = ["mirror", "a", "b", "mirror", "c", "d"];
    for (vdevs, turns) in some(
        [
            (&raidz[..], ["acd", "abc"]),
            (&raidz, ["abc", "acd"]),
            (&["mirror", "a", "b", "c"], ["ab", "ac"]),
            (&two, ["abc", "acd"]),
        ],
        2,
    ) {
        let folder = fixtures::scratch::folder();
        let place = folder.path();
        let disks: Vec<&str> = vdevs.iter().copied().filter(|word| word.len() == 1).collect();
        add_disks(place, &disks, DISK);
        fs::write(place.join("file"), fixtures::noise(1, 1 << 20)).expect("a file");
        done(place, &[&["zpool", "create", "-f", "m"], vdevs].concat());
        for turn in turns {
            let there = place.join(turn);
            fs::create_dir(&there).expect("a folder");
            for disk in turn.split("").filter(|name| !name.is_empty()) {
                fs::hard_link(place.join(disk), there.join(disk)).expect("a link");
            }
            done(&there, &["zfs", "cp", "../file", &format!("m:/{turn}")]);
            fs::remove_dir_all(&there).expect("the links go");
        }
        let (_, said) = printed_and_said(place, &["zfs", "list", "m"]);
        assert!(!said.contains(TOLD), "{vdevs:?}, {turns:?}: {said}");
        done(place, &["zfs", "create", "m/x"]);
    }
}

#[test]
fn a_device_that_was_merely_away_did_not_go_on() {
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    mirror(place);
    go_on_alone(place, "a", 3);
    let (status, said) = printed_and_said(place, &["zpool", "status", "m"]);
    assert!(!status.contains(TOLD) && !said.contains(TOLD), "{status}");
    done(place, &["zfs", "create", "m/x"]);
}

/// Two copies of a pool were both used, whole, and one device of the other gets among those of the one: no books tell, but labels do.
#[test]
fn devices_of_two_copies_of_a_pool_are_not_taken_for_one() {
    for (kind, disks, further) in some(
        [
            ("mirror", &["a", "b"][..], 0),
            ("mirror", &["a", "b"], 3),
            ("raidz", &["a", "b", "c"], 0),
        ],
        1,
    ) {
        let folder = fixtures::scratch::folder();
        let place = folder.path();
        let inside = |copy: &str, disk: &str| place.join(copy).join(disk);
        for copy in ["one", "other", "mixed"] {
            fs::create_dir(place.join(copy)).expect("a folder");
        }
        add_disks(&place.join("one"), disks, DISK);
        done(&place.join("one"), &[&["zpool", "create", "-f", "m", kind], disks].concat());
        for disk in disks {
            fixtures::copy(&inside("one", disk), &inside("other", disk));
        }
        for copy in ["one", "other"] {
            done(&place.join(copy), &["zfs", "create", &format!("m/{copy}")]);
        }
        for n in 0..further {
            done(&place.join("other"), &["zfs", "snapshot", &format!("m@{n}")]);
        }
        for disk in disks {
            let copy = if *disk == "b" { "other" } else { "one" };
            fixtures::copy(&inside(copy, disk), &inside("mixed", disk));
        }
        let mixed = place.join("mixed");
        let (scanned, _) = printed_and_said(&mixed, &["scan"]);
        assert!(scanned.contains(TOLD), "{kind}, {further}: {scanned}");
        let said = run(&mixed, &["zfs", "list", "-r", "m"]).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(TOLD), "{kind}, {further}: {said}");
        refused(&mixed, &["zfs", "create", "m/x"], TOLD);
        refused(&mixed, &["zpool", "import", "-f", "m"], TOLD);
        if kind == "raidz" {
            // What two of three have is the pool's.
            assert!(said.contains("b went on without the others"), "{said}");
            done(&mixed, &["zfs", "list", "m/one"]);
        } else {
            // Each half is enough by itself.
            for (disk, copy) in [("a", "one"), ("b", "other")] {
                let alone = alone(place, disk);
                fs::create_dir(&alone).expect("a folder");
                fs::hard_link(inside("mixed", disk), alone.join(disk)).expect("a link");
                done(&alone, &["zfs", "list", &format!("m/{copy}")]);
            }
        }
    }
}

/// OpenZFS notes only groups in which it wrote, and its newest need not be one of them; nor is one half behind by its labels.
#[test]
#[ignore = "boots a machine: a minute"]
fn halves_that_openzfs_used_are_told_too() {
    let folder = fixtures::scratch::folder();
    let place = folder.path();
    let disks = ["a", "b"];
    add_disks(place, &disks, DISK);
    let script = "
        alone() {
            zpool import -d /p m
            dd if=/dev/urandom of=/m/of-$1 bs=1M count=1 status=none
            zpool sync m
            sleep $2
            touch /m/last-of-$1
            zpool export m
        }
        zpool create -f m mirror /p/a /p/b
        zpool export m
        mkdir /p/away
        mv /p/b /p/away; alone a 1; mv /p/a /p/away
        mv /p/away/b /p; alone b 12; mv /p/away/a /p";
    let Some(_) = kernel(place, &disks, script) else { return };
    let (printed, _) = printed_and_said(place, &["zpool", "status", "m"]);
    assert!(printed.contains("a went on without the others"), "{printed}");
    refused(place, &["zfs", "create", "m/x"], TOLD);
}
