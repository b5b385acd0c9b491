//! `zpool set`, `sync`, `reguid`, and what the pool's history tells of them.
//!
//! What could break: a property that OpenZFS looks for elsewhere, a label with the old GUID, a history that `zdb` can't read, a
//! command in it that was refused.

use super::pools::{disks, done, judge, refused, run, zdb};

#[test]
fn properties_are_kept_where_openzfs_keeps_them() {
    fixtures::takes_long!();
    let folder = disks(&["a", "b"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "mirror", "a", "b"]);
    done(at, &["zfs", "create", "tank/root"]);
    for pair in [
        "comment=two words",
        "autotrim=on",
        "autoexpand=on",
        "failmode=continue",
        "delegation=off",
        "listsnapshots=on",
        "bootfs=tank/root",
        "my:own=value",
    ] {
        done(at, &["zpool", "set", pair, "tank"]);
        let (name, value) = pair.split_once('=').expect("a pair");
        let shown = done(at, &["zpool", "get", "-Ho", "value,source", name, "tank"]);
        assert_eq!(shown, format!("{value}\tlocal\n"), "{name}");
    }
    for (pair, why) in [
        ("size=1", "readonly"),
        ("cachefile=/tmp/x", "no cache file"),
        ("failmode=never", "must be one of 'wait | continue | panic'"),
        ("bootfs=tank/none", "is not a file system of the pool"),
        ("nope=1", "not a valid pool property"),
    ] {
        refused(at, &["zpool", "set", pair, "tank"], why);
    }
    done(at, &["zpool", "set", "comment=", "tank"]);
    assert_eq!(done(at, &["zpool", "get", "-Ho", "value", "comment", "tank"]), "-\n");
    if let Some(text) = zdb(at, &["-dddd", "tank", "1"]) {
        assert!(text.contains("pool_props"), "{text}");
    }
    judge(at, "tank");
}

#[test]
fn a_pool_gets_another_guid_in_all_labels() {
    let folder = disks(&["a", "b"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a", "b"]);
    let guid = || done(at, &["zpool", "get", "-Ho", "value", "guid", "tank"]);
    let before = guid();
    done(at, &["zpool", "reguid", "tank"]);
    assert_ne!(guid(), before);
    judge(at, "tank");
    done(at, &["zpool", "sync"]);
    done(at, &["zpool", "sync", "tank"]);
    refused(at, &["zpool", "sync", "other"], "no such pool");
    judge(at, "tank");
    // What is away would be another pool's when it comes back.
    std::fs::remove_file(at.join("b")).expect("gone");
    assert!(!run(at, &["zpool", "reguid", "tank"]).status.success());
}

#[test]
fn the_history_tells_what_was_done_and_zdb_reads_it() {
    let folder = disks(&["a"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    done(at, &["zfs", "create", "-p", "tank/home/anna"]);
    done(at, &["zfs", "snapshot", "tank/home@monday"]);
    refused(at, &["zfs", "snapshot", "tank/home@monday"], "already exists");
    done(at, &["zfs", "set", "compression=lz4", "my:own=x", "tank/home"]);
    done(at, &["zfs", "inherit", "compression", "tank/home"]);
    done(at, &["zpool", "set", "comment=mine", "tank"]);
    let text = done(at, &["zpool", "history", "tank"]);
    let commands: Vec<&str> =
        text.lines().skip(1).filter(|line| !line.is_empty()).map(|line| &line[20..]).collect();
    assert_eq!(
        commands,
        [
            "zpool create tank a",
            "zfs create -p tank/home/anna",
            "zfs snapshot tank/home@monday",
            "zfs set compression=lz4 my:own=x tank/home",
            "zfs inherit compression tank/home",
            "zpool set comment=mine tank",
        ]
    );
    let text = done(at, &["zpool", "history", "-il", "tank"]);
    for told in [
        "] create pool version 5000; software version spindle",
        "] create tank/home/anna (",
        "] snapshot tank/home@monday (",
        "] set tank/home (",
        "compression=15",
        "my:own=x",
        "] inherit tank/home (",
        "] set comment=mine",
        "[user ",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    if let Some(text) = zdb(at, &["-h", "tank"]) {
        assert!(text.contains("zfs snapshot tank/home@monday"), "{text}");
        assert!(
            text.contains("internal_name: 'snapshot'")
                || text.contains("snapshot tank/home@monday"),
            "{text}"
        );
    }
    judge(at, "tank");
}

/// What could break: the ring runs over the pool's creation, or into a record's middle.
#[test]
fn the_history_tells_of_volumes_and_of_what_goes_and_moves() {
    fixtures::takes_long!();
    let folder = disks(&["a"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    let commands: [&[&str]; 13] = [
        &["zfs", "create", "-s", "-V", "8M", "tank/v"],
        &["zfs", "set", "volsize=16M", "tank/v"],
        &["zfs", "create", "tank/a"],
        &["zfs", "snapshot", "tank/a@s"],
        &["zfs", "hold", "keep", "tank/a@s"],
        &["zfs", "release", "keep", "tank/a@s"],
        &["zfs", "bookmark", "tank/a@s", "tank/a#m"],
        &["zfs", "clone", "tank/a@s", "tank/c"],
        &["zfs", "promote", "tank/c"],
        &["zfs", "rename", "tank/c", "tank/d"],
        &["zfs", "rename", "tank/d@s", "tank/d@t"],
        &["zfs", "destroy", "tank/a"],
        &["zfs", "destroy", "tank/d@t"],
    ];
    for command in commands {
        done(at, command);
    }
    let text = done(at, &["zpool", "history", "-i", "tank"]);
    for command in commands {
        let told = format!(" {}\n", command.join(" "));
        assert!(text.contains(&told), "{told}: {text}");
    }
    for inside in [
        "create tank/v (",
        "hold tank/a@s (",
        ") tag=keep temp=0 refs=1\n",
        "release tank/a@s (",
        ") tag=keep refs=0\n",
        "bookmark tank/a@s (",
        ") name=m creation_txg=",
        "clone tank/c (",
        ") origin=tank/a@s (",
        "promote tank/c (",
        "rename tank/c (",
        ") -> tank/d\n",
        "rename tank/d@s (",
        ") -> @t\n",
        "destroy tank/a (",
        "destroy tank/d@t (",
    ] {
        assert!(text.contains(inside), "{inside}: {text}");
    }
    judge(at, "tank");
}

#[test]
fn a_history_that_is_full_forgets_the_oldest_but_the_creation() {
    fixtures::takes_long!();
    let folder = disks(&["a"], 128 << 20);
    let at = folder.path();
    done(at, &["zpool", "create", "tank", "a"]);
    // 128 KiB of history take some eight of these.
    for n in 0..16 {
        let value = format!("my:{n:04}={}", "v".repeat(5000));
        let pairs: Vec<String> = (0..3).map(|k| value.replace("my:", &format!("k{k}:"))).collect();
        let mut words = vec!["zfs", "set"];
        words.extend(pairs.iter().map(String::as_str));
        words.push("tank");
        done(at, &words);
    }
    let text = done(at, &["zpool", "history", "tank"]);
    assert!(text.contains("zpool create tank a"), "the creation stays");
    assert!(text.contains("k0:0015=") && !text.contains("k0:0000="), "the oldest are gone");
    zdb(at, &["-h", "tank"]);
    judge(at, "tank");
}
