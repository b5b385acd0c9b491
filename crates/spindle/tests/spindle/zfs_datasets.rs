//! Datasets of a writable pool changed through `spindle zfs`: destroyed, taken back, renamed, cloned, promoted, held, bookmarked.
//!
//! What could break: something goes that was not asked for, or half of what was; words and statuses that scripts of OpenZFS's
//! users don't know; a pool that OpenZFS's `zdb` finds fault with. Contents are the model's in `zfs`'s own tests.

use crate::pools;

use std::path::Path;

const DISK_BYTES: u64 = 128 << 20;

fn words<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["zfs"], arguments].concat()
}

#[track_caller]
fn done(folder: &Path, arguments: &[&str]) -> String {
    pools::done(folder, &words(arguments))
}

/// Refused with these words, and nothing is another afterwards.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], why: &str) {
    let before = names(folder);
    pools::refused(folder, &words(arguments), why);
    assert_eq!(names(folder), before, "{arguments:?}");
}

/// All datasets, snapshots and bookmarks.
#[track_caller]
fn names(folder: &Path) -> Vec<String> {
    let all = done(folder, &["list", "-H", "-o", "name", "-t", "all", "-r", "tank"]);
    all.lines().map(str::to_owned).collect()
}

/// A pool on a file of its own.
fn pool() -> tempfile::TempDir {
    let folder = pools::disks(&["a"], DISK_BYTES);
    pools::done(folder.path(), &["zpool", "create", "tank", "a"]);
    folder
}

/// `zdb` finds nothing wrong with the pool, its objects and what they are told to use.
fn judge(folder: &Path) {
    if let Some(text) = pools::zdb(folder, &["-dd", "tank"]) {
        assert!(!text.contains(") leaked"), "{text}");
    }
    pools::judge(folder, "tank");
}

#[test]
fn snapshots_are_destroyed_by_lists_and_ranges() {
    fixtures::takes_long!();
    let folder = pool();
    let at = folder.path();
    done(at, &["create", "-p", "tank/a/b"]);
    for name in ["1", "2", "3", "4", "5", "6"] {
        done(at, &["snapshot", "-r", &format!("tank/a@{name}")]);
    }
    let shown = done(at, &["destroy", "-nv", "tank/a@2%3,6"]);
    assert!(
        shown.starts_with(
            "would destroy tank/a@2\nwould destroy tank/a@3\nwould destroy tank/a@6\n"
        ),
        "{shown}"
    );
    assert!(shown.contains("\nwould reclaim "), "{shown}");
    let shown = done(at, &["destroy", "-npr", "tank/a@%2"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..2], ["destroy\ttank/a@1", "destroy\ttank/a@2"]);
    assert!(lines.contains(&"destroy\ttank/a/b@2") && lines[4].starts_with("reclaim\t"));
    assert_eq!(names(at).len(), 15);
    refused(at, &["destroy", "tank/a@9"], "could not find any snapshots to destroy");
    refused(at, &["destroy", "tank/a@9%3"], "could not find any snapshots");
    refused(at, &["destroy", "tank/gone@1"], "cannot open 'tank/gone': dataset does not exist");
    done(at, &["destroy", "tank/a@2%3,6"]);
    done(at, &["destroy", "-r", "tank/a@4"]);
    let left = ["tank", "tank/a", "tank/a@1", "tank/a@5", "tank/a/b"];
    let below = ["1", "2", "3", "5", "6"].map(|name| format!("tank/a/b@{name}"));
    let left: Vec<String> = left.map(str::to_owned).into_iter().chain(below).collect();
    assert_eq!(names(at), left);
    done(at, &["destroy", "tank/a/b@3%"]);
    assert_eq!(names(at).last().map(String::as_str), Some("tank/a/b@2"));
    judge(at);
}

#[test]
fn what_something_depends_on_goes_only_where_that_was_asked_for() {
    fixtures::takes_long!();
    let folder = pool();
    let at = folder.path();
    done(at, &["create", "-p", "tank/a/b"]);
    done(at, &["snapshot", "-r", "tank/a@1"]);
    done(at, &["clone", "-o", "org.example:x=y", "tank/a@1", "tank/c"]);
    assert_eq!(
        done(at, &["get", "-Ho", "value", "origin,org.example:x", "tank/c"]),
        "tank/a@1\ny\n"
    );
    refused(at, &["clone", "tank/a@1", "tank/c"], "dataset already exists");
    refused(at, &["clone", "tank/a@1", "tank/x/c"], "parent does not exist");
    refused(at, &["clone", "tank/a@1", "other/c"], "source and target pools differ");
    refused(at, &["clone", "tank/a", "tank/d"], "operation not applicable");
    done(at, &["clone", "-p", "tank/a/b@1", "tank/x/y/d"]);
    refused(at, &["destroy", "tank"], "operation does not apply to pools");
    refused(at, &["destroy", "tank/a"], "cannot destroy 'tank/a': filesystem has children");
    done(at, &["create", "-V", "16M", "-s", "tank/v"]);
    done(at, &["snapshot", "tank/v@1"]);
    refused(at, &["destroy", "tank/v"], "cannot destroy 'tank/v': volume has children");
    done(at, &["destroy", "-r", "tank/v"]);
    refused(at, &["destroy", "tank/a"], "use '-r' to destroy the following datasets:\ntank/a/b@1");
    refused(at, &["destroy", "-r", "tank/a"], "filesystem has dependent clones");
    refused(at, &["destroy", "tank/a@1"], "use '-R' to destroy the following datasets:\ntank/c\n");
    refused(at, &["destroy", "-d", "tank/a"], "operation not applicable");
    assert_eq!(
        done(at, &["destroy", "-nvR", "tank/a@1"]),
        "would destroy tank/a@1\nwould destroy tank/a/b@1\nwould reclaim 0B\n"
    );
    // Waits for the clone, and goes with it.
    done(at, &["destroy", "-d", "tank/a@1"]);
    assert_eq!(done(at, &["get", "-Ho", "value", "defer_destroy", "tank/a@1"]), "on\n");
    done(at, &["destroy", "tank/c"]);
    assert!(!names(at).contains(&"tank/a@1".to_owned()));
    let shown = done(at, &["destroy", "-vR", "tank/a"]);
    assert_eq!(
        shown,
        "will destroy tank/x/y/d\nwill destroy tank/a/b@1\nwill destroy tank/a/b\nwill destroy tank/a\n"
    );
    assert_eq!(names(at), ["tank", "tank/x", "tank/x/y"]);
    done(at, &["destroy", "-r", "tank"]);
    assert_eq!(names(at), ["tank"]);
    judge(at);
}

#[test]
fn a_dataset_is_taken_back_and_clones_take_the_place_of_what_they_began_from() {
    fixtures::takes_long!();
    let folder = pool();
    let at = folder.path();
    done(at, &["create", "tank/a"]);
    for name in ["1", "2", "3"] {
        done(at, &["snapshot", &format!("tank/a@{name}")]);
    }
    done(at, &["bookmark", "tank/a@3", "#mark"]);
    done(at, &["clone", "tank/a@3", "tank/c"]);
    refused(at, &["rollback", "tank/a@1"], "more recent snapshots or bookmarks exist");
    refused(
        at,
        &["rollback", "tank/a@1"],
        "snapshots and bookmarks:\ntank/a@2\ntank/a@3\ntank/a#mark\n",
    );
    refused(at, &["rollback", "-r", "tank/a@1"], "clones of previous snapshots exist");
    refused(at, &["rollback", "tank/a"], "operation not applicable");
    refused(at, &["rollback", "tank/a@x"], "cannot open 'tank/a@x': dataset does not exist");
    done(at, &["rollback", "tank/a@3"]);
    done(at, &["rollback", "-R", "tank/a@2"]);
    assert_eq!(names(at), ["tank", "tank/a", "tank/a@1", "tank/a@2"]);
    done(at, &["clone", "tank/a@1", "tank/c"]);
    done(at, &["snapshot", "tank/c@1"]);
    refused(at, &["promote", "tank/c"], "conflicting snapshot '1' from parent 'tank/a@1'");
    refused(at, &["promote", "tank/a"], "cannot promote 'tank/a': not a cloned filesystem");
    refused(at, &["promote", "tank/a@1"], "snapshots can not be promoted");
    done(at, &["rename", "tank/c@1", "@own"]);
    done(at, &["bookmark", "tank/a@1", "tank/a#old"]);
    done(at, &["promote", "tank/c"]);
    let wanted = ["tank", "tank/a", "tank/a@2", "tank/c", "tank/c@1", "tank/c@own", "tank/c#old"];
    assert_eq!(names(at), wanted);
    assert_eq!(done(at, &["get", "-Ho", "value", "origin", "tank/a"]), "tank/c@1\n");
    judge(at);
    done(at, &["promote", "tank/a"]);
    assert_eq!(done(at, &["get", "-Ho", "value", "origin", "tank/c"]), "tank/a@1\n");
    judge(at);
}

#[test]
fn names_change_and_what_is_inherited_with_them() {
    fixtures::takes_long!();
    let folder = pool();
    let at = folder.path();
    done(at, &["create", "-p", "-o", "org.example:x=y", "tank/a"]);
    done(at, &["create", "tank/a/b"]);
    done(at, &["snapshot", "-r", "tank/a@1"]);
    refused(at, &["rename", "tank/a", "tank/a/b/c"], "cannot be a descendant");
    refused(at, &["rename", "tank/a", "other/a"], "datasets must be within same pool");
    refused(at, &["rename", "tank/a/b", "tank/a"], "dataset already exists");
    refused(at, &["rename", "tank/a/b", "tank/x/b"], "parent does not exist");
    refused(at, &["rename", "-r", "tank/a", "tank/b"], "must be a snapshot");
    refused(at, &["rename", "tank/a@1", "tank/a/b@2"], "snapshots must be part of same dataset");
    refused(at, &["rename", "tank/gone", "tank/b"], "dataset does not exist");
    refused(at, &["rename", "tank/a/b", &format!("tank/{}", "x".repeat(250))], "too long");
    let inherited = |name: &str| done(at, &["get", "-Ho", "value", "org.example:x", name]);
    assert_eq!(inherited("tank/a/b"), "y\n");
    done(at, &["rename", "-p", "tank/a/b", "tank/x/y/b"]);
    assert_eq!(inherited("tank/x/y/b"), "-\n");
    done(at, &["rename", "-r", "tank/a@1", "2"]);
    let wanted = ["tank", "tank/a", "tank/a@2", "tank/x", "tank/x/y", "tank/x/y/b", "tank/x/y/b@1"];
    assert_eq!(names(at), wanted);
    done(at, &["snapshot", "-r", "tank@all"]);
    refused(at, &["rename", "-r", "tank@all", "1"], "a child dataset already has a snapshot");
    done(at, &["rename", "-r", "tank@all", "every"]);
    assert_eq!(names(at).iter().filter(|name| name.ends_with("@every")).count(), 5);
    judge(at);
}

#[test]
fn what_is_held_stays_and_bookmarks_outlive_their_snapshot() {
    fixtures::takes_long!();
    let folder = pool();
    let at = folder.path();
    done(at, &["create", "-p", "tank/a/b"]);
    done(at, &["snapshot", "-r", "tank/a@1"]);
    done(at, &["hold", "-r", "keep", "tank/a@1"]);
    refused(at, &["hold", "keep", "tank/a@1"], "tag already exists on this dataset");
    refused(at, &["hold", ".keep", "tank/a@1"], "tag may not start with '.'");
    refused(at, &["hold", &"x".repeat(300), "tank/a@1"], "tag too long");
    refused(at, &["hold", "keep", "tank/a"], "'tank/a' is not a snapshot");
    refused(at, &["release", "other", "tank/a@1"], "no such tag on this dataset");
    let shown = done(at, &["holds", "-rHp", "tank/a@1"]);
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(
        rows.iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>(),
        [["tank/a@1", "keep"], ["tank/a/b@1", "keep"]]
    );
    assert!(rows.iter().all(|row| row[2].parse::<u64>().is_ok()), "{shown}");
    assert!(
        done(at, &["holds", "tank/a@1"]).starts_with("NAME      TAG   TIMESTAMP\ntank/a@1  keep  ")
    );
    refused(at, &["destroy", "tank/a@1"], "it's being held. Run 'zfs holds -r tank/a@1'");
    refused(at, &["destroy", "-r", "tank/a@1"], "cannot destroy snapshot tank/a/b@1");
    done(at, &["bookmark", "tank/a@1", "#first"]);
    done(at, &["bookmark", "#first", "tank/a#second"]);
    refused(at, &["bookmark", "tank/a@1", "#first"], "bookmark exists");
    refused(at, &["bookmark", "tank/a@1", "tank/a/b#x"], "source is not an ancestor");
    refused(at, &["bookmark", "@1", "#x"], "must be specified as full dataset paths");
    refused(at, &["bookmark", "tank/a", "#x"], "must contain a '@' or '#'");
    done(at, &["destroy", "-d", "tank/a@1"]);
    judge(at);
    done(at, &["release", "-r", "keep", "tank/a@1"]);
    let wanted = ["tank", "tank/a", "tank/a#first", "tank/a#second", "tank/a/b", "tank/a/b@1"];
    assert_eq!(names(at), wanted);
    refused(at, &["destroy", "-r", "tank/a#first"], "recursive is not supported with bookmark");
    done(at, &["destroy", "tank/a#first"]);
    refused(at, &["destroy", "tank/a#first"], "bookmark 'tank/a#first' does not exist.");
    judge(at);
    done(at, &["destroy", "-r", "tank/a"]);
    assert_eq!(names(at), ["tank"]);
    judge(at);
}

/// What could break: a property that is taken, shown, and not kept.
#[test]
fn what_would_not_be_kept_is_refused() {
    let folder = pool();
    let at = folder.path();
    done(at, &["create", "-o", "version=5", "tank/u"]);
    for (property, why) in [
        ("filesystem_limit=1", "limits of how many there are can't be kept here yet"),
        ("snapshot_limit=1", "limits of how many there are can't be kept here yet"),
        ("keylocation=prompt", "datasets that are encrypted are not written here yet"),
        ("version=3", "file systems have version 5 here from the start"),
        ("refreservation=auto", "'refreservation=auto' is for volumes only"),
    ] {
        refused(at, &["set", property, "tank/u"], why);
        refused(at, &["create", "-o", property, "tank/new"], why);
    }
    done(at, &["set", "filesystem_limit=none", "tank/u"]);
    let shown = done(at, &["get", "-Ho", "value", "filesystem_limit,version", "tank/u"]);
    assert_eq!(shown, "none\n5\n");
}

#[test]
fn a_volume_keeps_as_much_free_as_it_is_made_with_when_asked_to() {
    let folder = pool();
    let at = folder.path();
    let kept =
        |name: &str| done(at, &["get", "-Hpo", "value", "refreservation", name]).trim().to_owned();
    done(at, &["create", "-V", "8M", "tank/plain"]);
    done(at, &["create", "-s", "-V", "8M", "-o", "refreservation=auto", "tank/made"]);
    done(at, &["create", "-s", "-V", "8M", "tank/set"]);
    assert_eq!(kept("tank/set"), "0");
    done(at, &["set", "refreservation=auto", "tank/set"]);
    assert!(kept("tank/plain").parse::<u64>().expect("a number") > 8 << 20);
    assert_eq!([kept("tank/made"), kept("tank/set")], [kept("tank/plain"), kept("tank/plain")]);
}

#[test]
fn one_command_on_many_datasets_is_one_in_the_history() {
    let folder = pool();
    let at = folder.path();
    for name in ["tank/a", "tank/b"] {
        done(at, &["create", name]);
    }
    done(at, &["set", "atime=off", "tank/a", "tank/b"]);
    refused(at, &["set", "atime=on", "tank/a", "tank/none"], "dataset does not exist");
    let history = pools::done(at, &["zpool", "history", "tank"]);
    assert_eq!(history.matches("zfs set atime=off tank/a tank/b").count(), 1, "{history}");
    let shown = done(at, &["get", "-Ho", "value", "atime", "tank/a", "tank/b"]);
    assert_eq!(shown, "on\noff\n", "the first was done");
}
