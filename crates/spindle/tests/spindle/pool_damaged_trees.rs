//! Damage above the data of a dataset: who has it is told, and it costs what is below it.
//!
//! What could break: of a damaged block only the snapshot is named through which it was read; a dataset that can't be freed keeps
//! all others from being freed, in silence; what can be read again is never freed, or what is free is freed again.

use crate::pool_damage::{DATA_START, destroy, folder, pools_at};
use crate::pools;

use pools::{done, judge, printed_and_said, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zfs_format::block_pointer::BlockPointer;

/// The pointer that a dataset of `tank` has to a block of an object of this name, or of its table of objects.
fn pointer(at: &Path, dataset: &str, file: Option<&str>, level: u8, block: u64) -> BlockPointer {
    let pools = pools_at(at);
    let spa = pools.open("tank").expect("it opens");
    let (directory, dataset) = pools.dataset(&spa, dataset).expect("it is there");
    let object = file.map(|name| {
        let path = format!("{}:/{name}", dataset.name);
        let stat = done(at, &["zfs", "stat", "-j", &path]);
        let stat: Value = serde_json::from_str(&stat).expect("JSON");
        stat[0]["object"].as_u64().expect("a number")
    });
    let found = pools.wait(async move {
        let objset = spa.objset(&directory, &dataset).await.expect("it opens");
        let dnode = match object {
            Some(object) => objset.dnode(object).await.expect("it is there"),
            None => objset.meta().expect("it has objects").clone(),
        };
        dnode.pointer_at(level, block).await.expect("it is read")
    });
    found.filter(|pointer| !pointer.is_hole()).expect("it is there")
}

/// A folder `many` of many small files: their dnodes take several blocks.
fn many_files(at: &Path) {
    fs::create_dir(at.join("many")).expect("a folder");
    for n in 0..150 {
        let name = at.join("many").join(format!("f{n}"));
        fs::write(name, fixtures::noise(n, 3000)).expect("a file");
    }
}

/// The datasets that a check names, each with the object and level of what it lost.
fn named(at: &Path) -> BTreeSet<(String, u64, i64)> {
    let output = run(at, &["zpool", "scrub", "--read-only", "-j", "tank"]);
    assert_eq!(output.status.code(), Some(1));
    let scrubbed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let damaged = scrubbed["damaged"].as_array().expect("a list");
    let one = |one: &Value| {
        let dataset = one["dataset"].as_str().expect("a name").to_owned();
        let (object, level) = (one["object"].as_u64(), one["level"].as_i64());
        (dataset, object.expect("a number"), level.expect("a number"))
    };
    damaged.iter().map(one).collect()
}

#[test]
fn every_dataset_that_has_a_damaged_block_above_the_data_is_named() {
    fixtures::takes_long!();
    let folder = folder(&["a"]);
    let at = folder.path();
    many_files(at);
    done(at, &["zpool", "create", "tank", "disks/a"]);
    for name in ["tank/same", "tank/changed"] {
        done(at, &["zfs", "create", name]);
        done(at, &["zfs", "snapshot", &format!("{name}@before")]);
        done(at, &["zfs", "cp", "-r", "many/.", &format!("{name}:/")]);
        done(at, &["zfs", "cp", "file", &format!("{name}:/")]);
        done(at, &["zfs", "snapshot", &format!("{name}@s")]);
    }
    done(at, &["zfs", "clone", "tank/changed@s", "tank/clone"]);
    // The last objects are other blocks' than those in the midst.
    done(at, &["zfs", "cp", "file", "tank/changed:/later"]);
    done(at, &["zfs", "snapshot", "tank/changed@t"]);
    done(at, &["zfs", "cp", "file", "tank/clone:/later"]);
    let own = pointer(at, "tank/changed", None, 0, 2);
    assert_eq!(own, pointer(at, "tank/changed@s", None, 0, 2));
    let root = |dataset: &str| {
        let pools = pools_at(at);
        let spa = pools.open("tank").expect("it opens");
        pools.dataset(&spa, dataset).expect("it is there").1.head.pointer
    };
    assert_ne!(root("tank/changed"), root("tank/changed@s"));
    assert_eq!(root("tank/same"), root("tank/same@s"));
    let of_file = pointer(at, "tank/changed", Some("file"), 1, 0);
    let of_same = pointer(at, "tank/same", None, 0, 2);
    let expected = |datasets: &[&str], object: u64, level: i64| -> BTreeSet<_> {
        datasets.iter().map(|name| ((*name).to_owned(), object, level)).collect()
    };
    let changed = ["tank/changed", "tank/changed@s", "tank/changed@t", "tank/clone"];

    destroy(at, &["a"], &of_file);
    let found = named(at);
    let object = found.first().expect("it is damaged").1;
    assert_eq!(found, expected(&changed, object, 1));
    destroy(at, &["a"], &own);
    let mut all = expected(&changed, 0, 0);
    all.extend(found);
    assert_eq!(named(at), all);
    destroy(at, &["a"], &of_same);
    all.extend(expected(&["tank/same", "tank/same@s"], 0, 0));
    assert_eq!(named(at), all);

    let output = run(at, &["zpool", "scrub", "--read-only", "tank"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for line in [
        "\ttank/changed:/file level 1 block 0: ",
        "\ttank/clone:/file level 1 block 0: ",
        "\ttank/changed@t:<0x0> level 0 block 2: ",
        "\ttank/same:<0x0> level 0 block 2: ",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line:?}: {text}");
    }
}

/// What a pool says of itself, in bytes.
fn bytes(at: &Path, property: &str) -> u64 {
    let text = done(at, &["zpool", "get", "-Hp", "-o", "value", property, "tank"]);
    text.trim().parse().expect("a number")
}

const NOTE: &str = "of what was destroyed can't be freed: blocks that say where it lies can't be read; 'zpool status' and";
const WAITS: &str = "of what was destroyed wait to be freed, and not all can be: ";

#[test]
fn what_cant_be_freed_is_told_and_keeps_nothing_else_from_being_freed() {
    fixtures::takes_long!();
    for (level, block) in [(0, 0), (0, 2), (1, 0)] {
        let folder = folder(&["a"]);
        let at = folder.path();
        many_files(at);
        done(at, &["zpool", "create", "tank", "disks/a"]);
        for name in ["tank/lost", "tank/whole", "tank/last"] {
            done(at, &["zfs", "create", name]);
            done(at, &["zfs", "cp", "-r", "many/.", &format!("{name}:/")]);
            done(at, &["zfs", "cp", "file", &format!("{name}:/")]);
            done(at, &["zfs", "snapshot", &format!("{name}@s")]);
        }
        let lost = pointer(at, "tank/lost", None, level, block);
        let disk = File::options().read(true).write(true).open(at.join("disks/a"));
        let disk = disk.expect("a disk");
        let places: Vec<u64> = lost.dvas().map(|place| place.offset() + DATA_START).collect();
        let mut before = vec![[0; 512]; places.len()];
        for (place, before) in places.iter().zip(&mut before) {
            disk.read_exact_at(before, *place).expect("it is read");
        }
        destroy(at, &["a"], &lost);

        let destroyed = |name: &str| {
            let (printed, said) = printed_and_said(at, &["zfs", "destroy", "-r", name]);
            assert_eq!(printed, "");
            said
        };
        let said = destroyed("tank/lost");
        assert_eq!(said.matches(NOTE).count(), 1, "{said}");
        let (freeing, allocated) = (bytes(at, "freeing"), bytes(at, "allocated"));
        // The file is the last that was made.
        assert!(freeing > 3 << 20, "{freeing}");
        let status = done(at, &["zpool", "status", "tank"]);
        assert_eq!(status.matches(WAITS).count(), 1, "{status}");
        let status = done(at, &["zpool", "status", "-j", "--json-int", "-p", "tank"]);
        let status: Value = serde_json::from_str(&status).expect("JSON");
        assert_eq!(status["pools"]["tank"]["freeing_unreadable"], freeing, "{status}");

        for name in ["tank/whole", "tank/last"] {
            let said = destroyed(name);
            assert!(!said.contains(NOTE), "{said}");
            assert_eq!(bytes(at, "freeing"), freeing);
        }
        let left = bytes(at, "allocated");
        assert!(left + (6 << 20) < allocated, "{left} of {allocated}");
        done(at, &["zpool", "export", "tank"]);
        // What can't be reached has no owner; nothing else is wrong.
        let counted = run(at, &["zpool", "debug", "blocks", "tank"]);
        let counted = String::from_utf8_lossy(&counted.stdout);
        let has_no_owner = counted.lines().filter_map(|line| {
            let (_, bytes) = line.strip_prefix("leaked space: ")?.split_once(", size ")?;
            bytes.parse::<u64>().ok()
        });
        let has_no_owner: u64 = has_no_owner.sum();
        assert!(0 < has_no_owner && has_no_owner <= freeing, "{freeing}: {counted}");
        assert_eq!(counted.matches("not visited: ").count(), 1, "{counted}");
        // `zdb` takes a tree that it can't read for its own fault, and goes on behind it where it is told to.
        let place = at.join("disks");
        let place = place.to_str().expect("a path");
        if let Some(said) = fixtures::zdb::zdb(["-e", "-p", place, "-AAA", "-bcc", "tank"]) {
            let leaked = format!("(leaked {freeing})");
            assert!(said.text.contains(&leaked), "{leaked}: {}{}", said.text, said.errors);
            assert!(!said.text.contains("rror"), "{}", said.text);
        }

        for (place, before) in places.iter().zip(&before) {
            disk.write_all_at(before, *place).expect("written");
        }
        done(at, &["zfs", "set", "atime=off", "tank"]);
        assert_eq!(bytes(at, "freeing"), 0);
        assert!(bytes(at, "allocated") + (3 << 20) < left);
        let status = done(at, &["zpool", "status", "tank"]);
        assert!(!status.contains(WAITS), "{status}");
        done(at, &["zpool", "export", "tank"]);
        let counted = done(at, &["zpool", "debug", "blocks", "tank"]);
        assert!(counted.contains("No leaks (block sum matches space maps exactly)"), "{counted}");
        judge(&at.join("disks"), "tank");
    }
}
