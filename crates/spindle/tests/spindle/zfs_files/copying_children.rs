//! cp of a dataset with others below it: nothing is left out without a word.

use super::fixture::{Fixture, compare, is_root};
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// What could break: a copy of a pool's root that ends well and has empty directories for all its datasets.
#[test]
fn children_are_copied_when_told_and_named_when_not() {
    if !is_root() {
        println!("skipped: owners and devices are for root");
        return;
    }
    let Some(fixture) = Fixture::unpack("snapshots-clones") else { return };
    let target = fixtures::scratch::folder();
    let (bare, all) = (target.path().join("bare"), target.path().join("all"));
    let done = fixture.output(&["zfs", "cp", "-r", "t_snapshots_clones:", text(&bare)]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("note: a, clone, "), "{said}");
    assert!(
        said.contains(" are datasets of their own and are not copied: add --children"),
        "{said}"
    );
    let arguments = ["zfs", "cp", "-r", "--children", "t_snapshots_clones:", text(&all)];
    fixture.prints(&arguments);
    let mut compared = 0;
    for below in fixture.mounted_below("t_snapshots_clones") {
        let dataset = format!("t_snapshots_clones/{below}");
        // What was not mounted when the manifest was made, and volumes.
        if !fixture.dataset(&dataset)["entries"].is_array() {
            continue;
        }
        compared += compare(&all.join(&below), &fixture.entries(&dataset), false);
    }
    assert!(compared > 100, "{compared}");
    // Once more: everything is there already.
    let again = fixture.output(&arguments);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && said.contains("0 files copied"), "{said}");
    // Of a snapshot: the children's snapshots of the same name.
    let one = target.path().join("one");
    let done =
        fixture.output(&["zfs", "cp", "-ar", "--children", "t_snapshots_clones@one:", text(&one)]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(compare(&one.join("a"), &fixture.entries("t_snapshots_clones/a@one"), false) > 3);
    assert!(said.contains("there is no t_snapshots_clones/a/b@one: it is not copied"), "{said}");
    // An empty directory that stands for a child says so.
    let listed = fixture.output(&["zfs", "ls", "t_snapshots_clones:a"]);
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(said.contains("dataset t_snapshots_clones/a belongs there"), "{said}");
}

/// What could break: one child without a key ends the copy of the others, or is passed over in silence.
#[test]
fn children_without_a_key_are_told_and_volumes_are_named() {
    let Some(fixture) = Fixture::unpack("encrypted") else { return };
    let target = fixtures::scratch::folder();
    let out = target.path().join("out");
    let said = fixture.refusal(&["zfs", "cp", "-r", "--children", "t_encrypted:", text(&out)]);
    assert!(
        said.contains("dataset t_encrypted/enc is encrypted and its key is not loaded"),
        "{said}"
    );
    assert!(said.contains("zfs dump t_encrypted/enc/vol FILE writes one out"), "{said}");
}

#[test]
fn a_name_that_is_too_long_for_linux_is_told_with_the_command_for_it() {
    let Some(fixture) = Fixture::unpack("names-quotas") else { return };
    let target = fixtures::scratch::folder();
    let out = target.path().join("out");
    let said = fixture.refusal(&["zfs", "cp", "-r", "t_names_quotas/longname:", text(&out)]);
    assert!(
        said.contains("copy it under a shorter one: spindle zfs cp 't_names_quotas/"),
        "{said}"
    );
}
