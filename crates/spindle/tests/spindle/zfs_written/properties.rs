//! Properties that say how files are made, properties of snapshots, and what pools may be called and say of themselves.
//!
//! What could break: files with dnodes of another length than was asked for; a value that a pool without the feature takes; a property
//! of a snapshot that is its dataset's too, or stays when the snapshot goes; names that OpenZFS has no room for.

use super::pools::{disks, done, judge, refused, run, zdb};
use std::fs;
use std::path::Path;

const DISK_BYTES: u64 = 128 << 20;

fn value(at: &Path, property: &str, of: &str) -> String {
    done(at, &["zfs", "get", "-Hpo", "value,source", property, of]).trim().to_owned()
}

fn feature(at: &Path) -> String {
    done(at, &["zpool", "get", "-Ho", "value", "feature@large_dnode", "tank"]).trim().to_owned()
}

/// Bytes of the dnodes of plain files, as `zdb` shows them.
fn dnode_sizes(at: &Path, dataset: &str) -> Option<Vec<String>> {
    let shown = zdb(at, &["-dddd", dataset])?;
    let files = shown.lines().filter(|line| line.ends_with("ZFS plain file"));
    Some(files.filter_map(|line| line.split_whitespace().nth(5).map(str::to_owned)).collect())
}

#[test]
fn files_have_dnodes_as_their_dataset_says() {
    fixtures::takes_long!();
    let folder = disks(&["a"], DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "-O", "dnodesize=2k", "tank", "a"]);
    done(at, &["zfs", "create", "tank/two"]);
    done(at, &["zfs", "create", "-o", "dnodesize=auto", "tank/auto"]);
    done(at, &["zfs", "create", "-o", "dnodesize=legacy", "tank/small"]);
    assert_eq!(value(at, "dnodesize", "tank/two"), "2k\tinherited from tank");
    assert_eq!(feature(at), "enabled", "no file asks for it yet");
    let from = fixtures::scratch::folder();
    for number in 0..40 {
        let path = from.path().join(number.to_string());
        fs::write(&path, number.to_string()).expect("it is written");
        // What the host's file system takes.
        let value = vec![number; 300];
        let _ = rustix::fs::setxattr(&path, "user.v", &value, rustix::fs::XattrFlags::empty());
    }
    let source = format!("{}/.", from.path().display());
    for (dataset, size) in [("tank/two", "2K"), ("tank/auto", "1K"), ("tank/small", "512")] {
        done(at, &["zfs", "cp", "-r", &source, &format!("{dataset}:/")]);
        if let Some(sizes) = dnode_sizes(at, dataset) {
            assert_eq!(sizes, vec![size; 40], "{dataset}");
        }
    }
    assert_eq!(feature(at), "active");
    // From then on, and not before.
    done(at, &["zfs", "snapshot", "tank/two@s"]);
    done(at, &["zfs", "set", "dnodesize=16k", "tank/two"]);
    fs::write(from.path().join("more"), b"more").expect("it is written");
    done(at, &["zfs", "cp", &format!("{}/more", from.path().display()), "tank/two:/more"]);
    if let Some(sizes) = dnode_sizes(at, "tank/two") {
        assert_eq!((sizes.len(), sizes.last().map(String::as_str)), (41, Some("16K")));
    }
    assert_eq!(done(at, &["zfs", "cat", "tank/two:more"]), "more");
    assert_eq!(done(at, &["zfs", "cat", "tank/two@s:17"]), "17");
    done(at, &["zfs", "rollback", "tank/two@s"]);
    judge(at, "tank");
    // As it was once nobody uses it.
    done(at, &["zfs", "destroy", "-r", "tank/two"]);
    done(at, &["zfs", "destroy", "tank/auto"]);
    assert_eq!(feature(at), "enabled");
    assert_eq!(done(at, &["zfs", "cat", "tank/small:17"]), "17");
    zdb(at, &["-d", "tank"]);
    judge(at, "tank");
}

#[test]
fn a_pool_without_the_feature_refuses_large_dnodes() {
    let folder = disks(&["a", "b"], DISK_BYTES);
    let at = folder.path();
    let without = ["-o", "feature@large_dnode=disabled"];
    done(at, &[&["zpool", "create"], &without[..], &["tank", "a"]].concat());
    let why = "must be upgraded to set this property or value";
    refused(at, &["zfs", "set", "dnodesize=1k", "tank"], why);
    refused(at, &["zfs", "create", "-o", "dnodesize=auto", "tank/x"], why);
    let other =
        [&["zpool", "create", "-O", "dnodesize=4k"], &without[..], &["other", "b"]].concat();
    refused(at, &other, why);
    done(at, &["zfs", "create", "-o", "dnodesize=legacy", "tank/x"]);
    refused(at, &["zfs", "set", "dnodesize=3k", "tank"], "must be one of 'legacy | auto | 1k");
    done(at, &["zpool", "upgrade", "tank"]);
    done(at, &["zfs", "set", "dnodesize=1k", "tank/x"]);
    judge(at, "tank");
}

#[test]
fn snapshots_have_properties_of_users() {
    fixtures::takes_long!();
    let folder = disks(&["a"], DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    done(at, &["zfs", "create", "-o", "x:y=dataset", "tank/fs"]);
    for snapshot in ["tank/fs@a", "tank/fs@b"] {
        done(at, &["zfs", "snapshot", snapshot]);
    }
    done(at, &["zfs", "set", "x:y=mine", "x:z=more", "tank/fs@a"]);
    assert_eq!(value(at, "x:y", "tank/fs@a"), "mine\tlocal");
    assert_eq!(value(at, "x:z", "tank/fs@a"), "more\tlocal");
    assert_eq!(value(at, "x:y", "tank/fs@b"), "dataset\tinherited from tank/fs");
    assert_eq!(value(at, "x:y", "tank/fs"), "dataset\tlocal");
    assert_eq!(value(at, "x:z", "tank/fs"), "-\t-");
    done(at, &["zfs", "inherit", "x:y", "tank/fs@a"]);
    assert_eq!(value(at, "x:y", "tank/fs@a"), "dataset\tinherited from tank/fs");
    done(at, &["zfs", "inherit", "-S", "x:none", "tank/fs@b"]);
    let why = "this property can not be modified for snapshots";
    refused(at, &["zfs", "set", "compression=off", "tank/fs@a"], why);
    refused(at, &["zfs", "inherit", "compression", "tank/fs@a"], why);
    refused(at, &["zfs", "set", "x:y=z", "tank/fs@c"], "dataset does not exist");
    // Theirs go with them.
    done(at, &["zfs", "rename", "tank/fs@a", "tank/fs@c"]);
    assert_eq!(value(at, "x:z", "tank/fs@c"), "more\tlocal");
    judge(at, "tank");
    if let Some(objects) = zdb(at, &["-dddd", "tank"]) {
        assert!(!objects.contains(") leaked"), "{objects}");
    }
    done(at, &["zfs", "destroy", "tank/fs@c"]);
    if let Some(objects) = zdb(at, &["-dddd", "tank"]) {
        assert!(!objects.contains(") leaked"), "{objects}");
    }
    judge(at, "tank");
}

#[test]
fn what_cannot_be_inherited_is_refused_in_openzfs_words() {
    let folder = disks(&["a"], DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    let output = run(at, &["zfs", "inherit", "quota", "tank"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in [
        "'quota' property cannot be inherited",
        "use 'zfs set quota=none' to clear",
        "use 'zfs inherit -S quota' to revert to received value",
    ] {
        assert!(said.contains(line), "{said}");
    }
    refused(at, &["zfs", "inherit", "used", "tank"], "used property is read-only");
    let why = "'version' property cannot be reverted to a received value";
    refused(at, &["zfs", "inherit", "-S", "version", "tank"], why);
    // Nothing was received: it is inherited.
    done(at, &["zfs", "set", "atime=off", "tank"]);
    done(at, &["zfs", "inherit", "-S", "atime", "tank"]);
    assert_eq!(value(at, "atime", "tank"), "on\tdefault");
}

#[test]
fn a_pool_says_no_more_of_itself_than_openzfs_has_room_for() {
    let folder = disks(&["a"], DISK_BYTES);
    let at = folder.path();
    let long = format!("comment={}", "x".repeat(33));
    let why = "cannot create 'tank': comment must not exceed 32 characters";
    refused(at, &["zpool", "create", "-o", &long, "tank", "a"], why);
    let odd = "comment=one\ttwo";
    refused(at, &["zpool", "create", "-o", odd, "tank", "a"], "may only have printable characters");
    done(at, &["zpool", "create", "-o", &long[..long.len() - 1], "tank", "a"]);
    refused(at, &["zpool", "set", &long, "tank"], "comment must not exceed 32 characters");
    assert_eq!(done(at, &["zpool", "get", "-Ho", "value", "comment", "tank"]).len(), 33);
}

#[test]
fn a_pool_is_not_imported_under_a_name_with_which_datasets_have_none() {
    let folder = disks(&["a"], DISK_BYTES);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    // 255 bytes are a name.
    let part = "x".repeat(200);
    let short = "y".repeat(255 - "tank/@".len() - part.len());
    done(at, &["zfs", "create", &format!("tank/{part}")]);
    done(at, &["zfs", "snapshot", &format!("tank/{part}@{short}")]);
    let why = "cannot import 'tank' as 'tanks': new name of at least one dataset is longer than the maximum";
    refused(at, &["zpool", "import", "tank", "tanks"], why);
    assert_eq!(done(at, &["zpool", "list", "-Ho", "name"]), "tank\n");
    done(at, &["zpool", "import", "tank", "pool"]);
    let names = done(at, &["zfs", "list", "-Ht", "snapshot", "-o", "name"]);
    assert_eq!(names.trim(), format!("pool/{part}@{short}"));
    done(at, &["zfs", "destroy", &format!("pool/{part}@{short}")]);
    // A bookmark has a name, too.
    let whole = format!("pool/{part}");
    done(at, &["zfs", "snapshot", &format!("{whole}@s")]);
    done(at, &["zfs", "bookmark", &format!("{whole}@s"), &format!("{whole}#{short}")]);
    refused(at, &["zpool", "import", "pool", "pools"], "new name of at least one dataset");
    judge(at, "pool");
}
