//! Pools as they stood before: at their checkpoint, at an older transaction group.
//!
//! What could break: an option that is taken and does nothing; a transaction group that is gone, and another one opened in its
//! place.

use crate::pools::{add_disks, run};
use crate::zfs_list::{done, refused};

#[test]
fn a_pool_is_shown_as_it_stood_at_its_checkpoint() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "checkpoint");
    // Files were removed after it, so it refers to more.
    let referenced = |options: &[&str]| -> u64 {
        let get = ["get", "-Hpo", "value", "referenced", "t_checkpoint"];
        let text = done(disks.path(), &[&["zfs"], options, &get].concat());
        text.trim().parse().expect("it is a number")
    };
    let now = referenced(&[]);
    let then = referenced(&["--rewind-to-checkpoint"]);
    assert_ne!(now, then);
    assert_eq!(referenced(&["--arc-max", "1m"]), now, "the cache's size changes nothing");
}

#[test]
fn a_checkpoint_or_transaction_group_that_is_not_there_is_refused_by_name() {
    let Some(folder) = fixtures::folder("zfs") else { return };
    let disks = fixtures::unpack(&folder, "bigdir");
    let (_, said) = refused(disks.path(), &["zfs", "--rewind-to-checkpoint", "list"]);
    assert!(said.contains("pool t_bigdir has no checkpoint"), "{said}");
    let (_, said) = refused(disks.path(), &["zfs", "-T", "99999999", "list"]);
    assert!(said.contains("no uberblock of transaction group 99999999 is left"), "{said}");
    assert!(said.contains("zpool debug uberblock t_bigdir lists"), "{said}");
    let text = done(disks.path(), &["zpool", "debug", "uberblock", "t_bigdir"]);
    assert!(text.contains(" UTC)"), "{text}");
    let both = ["zfs", "-T", "5", "--rewind-to-checkpoint", "list"];
    assert_eq!(refused(disks.path(), &both).0, 2);
    assert_eq!(refused(disks.path(), &["zfs", "--arc-max", "lots", "list"]).0, 2);
    let (status, said) = refused(disks.path(), &["zfs", "--arc-max", "64k", "list"]);
    assert!(status == 2 && said.contains("the least that works is 1 MiB"), "{said}");
}

/// What could break: a group whose blocks are gone is told to be damaged, and nobody knows which group to ask for.
#[test]
fn a_group_that_was_overwritten_says_so_and_which_ones_can_be_opened() {
    let folder = fixtures::scratch::folder();
    let at = folder.path();
    std::fs::create_dir(at.join("disks")).expect("a folder");
    add_disks(&at.join("disks"), &["a"], 80 << 20);
    let call = |arguments: &[&str]| {
        let output = run(at, arguments);
        let [printed, said] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (printed, said)
    };
    call(&["zpool", "create", "w", "disks/a"]);
    call(&["zfs", "create", "w/x"]);
    for name in 0..6 {
        std::fs::write(at.join("file"), format!("{name}")).expect("written");
        call(&["zfs", "cp", "file", &format!("w/x:/{name}")]);
    }
    let text = call(&["zpool", "debug", "uberblock", "w"]).0;
    let groups = text.lines().filter_map(|line| line.strip_prefix("uberblock of group "));
    let groups: Vec<u64> = groups.map(|group| group.parse().expect("a number")).collect();
    let (newest, oldest) = (groups[0], groups[groups.len() - 1]);
    let (printed, said) = call(&["zfs", "ls", "-T", &oldest.to_string(), "w/x:"]);
    assert!(printed.is_empty(), "{printed}");
    let head = format!(
        "pool w: transaction group {oldest} can't be opened, since blocks of it were overwritten by later ones ("
    );
    let can = said.split("; of the newest that are left, these can: ").nth(1);
    let can = can.filter(|_| said.contains(&head)).unwrap_or_else(|| panic!("{said}"));
    let can: Vec<u64> = can.trim().split(", ").map(|one| one.parse().expect("a number")).collect();
    assert!(can.starts_with(&[newest, newest - 1, newest - 2]), "{can:?}");
    // Those do open.
    for group in &can {
        let (printed, said) = call(&["zfs", "ls", "-T", &group.to_string(), "w/x:"]);
        let is_old = newest - group > 2;
        assert!(printed.starts_with("0\n1\n"), "{group}: {printed}{said}");
        assert_eq!(said.contains("what later groups overwrote can't be read"), is_old, "{said}");
    }
}
