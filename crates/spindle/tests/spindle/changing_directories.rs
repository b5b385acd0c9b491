//! Directories that change while they are read.
//!
//! What could break: what stays is left out, or listed twice, since the place to go on at was counted in a table that has other entries by
//! then, was split, or became one of another kind. `rm -r`, `find -delete` and backups read so.

use crate::holding::{Holder, can_mount};
use crate::pools::{add_disks, done, judge};
use fixtures::extent::some;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Names of a directory, with how often each was listed; something is done with each as it comes.
fn listed(directory: &Path, each: impl Fn(usize, &Path)) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for (at, entry) in fs::read_dir(directory).expect("it is listed").enumerate() {
        let entry = entry.expect("an entry");
        each(at, &entry.path());
        *names.entry(entry.file_name().into_string().expect("text")).or_default() += 1;
    }
    names
}

fn make(directory: &Path, names: impl Iterator<Item = String>) {
    names.for_each(|name| fs::write(directory.join(name), "").expect("it is made"));
}

/// Whether all of these were listed, and nothing twice.
#[track_caller]
fn are_listed_once(names: &BTreeMap<String, usize>, stay: impl Iterator<Item = String>) {
    for name in stay {
        assert_eq!(names.get(&name), Some(&1), "{name}");
    }
    let twice: Vec<_> = names.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn what_stays_in_a_directory_that_changes_is_listed_once() {
    fixtures::takes_long!();
    if !can_mount() {
        return;
    }
    let folder = fixtures::scratch::folder();
    let at = folder.path().canonicalize().expect("it is there");
    fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a"], 256 << 20);
    let mountpoint = at.join("m");
    let text = mountpoint.to_str().expect("text");
    done(&at, &["zpool", "create", "-m", text, "tank", "disks/a"]);
    let folds = ["zfs", "create", "-o", "casesensitivity=insensitive", "tank/folds"];
    done(&at, &folds);
    let holder = Holder::start(&at, "pools = [\"tank\"]\n");
    done(&at, &["zfs", "mount", "tank"]);
    for dataset in some([mountpoint.clone(), mountpoint.join("folds")], 1) {
        // A table of leaves, half of which have become empty, is emptied as it is read.
        let directory = dataset.join("emptied");
        fs::create_dir(&directory).expect("it is made");
        make(&directory, (0..2_600).map(|n| format!("x{n}")));
        (0..1_300).for_each(|n| fs::remove_file(directory.join(format!("x{n}"))).expect("it goes"));
        let names = listed(&directory, |_, path| fs::remove_file(path).expect("it goes"));
        are_listed_once(&names, (2_000..2_600).map(|n| format!("x{n}")));
        fs::remove_dir(&directory).expect("nothing is left in it");
        // For each that is listed two come: leaves are split; and the table, that began as one block, becomes one of leaves.
        for (before, new) in [(600, 2), (1_900, 1)] {
            let directory = dataset.join(format!("filled-{before}"));
            fs::create_dir(&directory).expect("it is made");
            make(&directory, (0..before).map(|n| format!("x{n}")));
            let names = listed(&directory, |at, _| {
                if at < 1_000 {
                    make(&directory, (0..new).map(|n| format!("new-{at}-{n}")));
                }
            });
            are_listed_once(&names, (0..before).map(|n| format!("x{n}")));
        }
        // Another takes a name's place: one that was listed goes for each that is.
        let directory = dataset.join("filled-600");
        let names = listed(&directory, |at, _| {
            let _ = fs::remove_file(directory.join(format!("x{at}")));
        });
        are_listed_once(&names, (0..600).map(|n| format!("new-{n}-0")));
    }
    // Snapshots are listed from the oldest on, and removed by who lists them.
    let snapshots = mountpoint.join(".zfs/snapshot");
    let name = |n: usize| format!("taken-{}", (n * 7) % 150);
    (0..150).for_each(|n| fs::create_dir(snapshots.join(name(n))).expect("it is taken"));
    let names = listed(&snapshots, |_, path| fs::remove_dir(path).expect("it goes"));
    are_listed_once(&names, (0..150).map(name));
    assert_eq!(listed(&snapshots, |_, _| ()).len(), 0);
    // What a command has done is there when it has ended.
    for n in 0..20 {
        let (snapshot, name) = (format!("tank@by-{n}"), snapshots.join(format!("by-{n}")));
        assert!(!name.exists());
        done(&at, &["zfs", "snapshot", &snapshot]);
        assert!(name.exists() && listed(&snapshots, |_, _| ()).len() == 1, "{n}");
        done(&at, &["zfs", "destroy", &snapshot]);
        assert!(!name.exists() && listed(&snapshots, |_, _| ()).is_empty(), "{n}");
    }
    holder.stop();
    judge(&at, "tank");
}
