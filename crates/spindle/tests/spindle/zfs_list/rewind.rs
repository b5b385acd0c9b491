//! Pools as they stood before: at their checkpoint, at an older transaction group.
//!
//! What could break: an option that is taken and does nothing; a transaction group that is gone, and another one opened in its
//! place.

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
