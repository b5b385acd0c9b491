//! `.ci/enable-contrib`, on copies of apt's lists: a wrong edit leaves the machine that runs it without packages.

#![allow(clippy::disallowed_methods, reason = "the script is tested from the outside")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn enable(folder: &Path) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let done = Command::new(root.join(".ci/enable-contrib")).arg(folder).output();
    let done = done.expect("bash is there");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// What could break: an entry that lacks contrib, one that gets it twice, or one that is nobody's business; and a call that
/// goes on changing what it has changed.
#[test]
fn contrib_is_added_to_what_has_main_and_only_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let lists = folder.path().join("sources.list.d");
    fs::create_dir(&lists).expect("made");
    let lines = [
        ("deb mirror bookworm main", "deb mirror bookworm main contrib"),
        (
            "deb [signed-by=/key] mirror bookworm main non-free # all of main",
            "deb [signed-by=/key] mirror bookworm main contrib non-free # all of main",
        ),
        ("deb-src\tmirror\tbookworm\tmain", "deb-src\tmirror\tbookworm\tmain contrib"),
        ("# deb mirror bookworm main", "# deb mirror bookworm main"),
        ("deb mirror bookworm contrib main", "deb mirror bookworm contrib main"),
        ("deb other stable domain", "deb other stable domain"),
    ];
    let stanzas = [
        ("Types: deb", "Types: deb"),
        ("Suites: main", "Suites: main"),
        ("Components: main", "Components: main contrib"),
        ("", ""),
        ("components: main non-free-firmware", "components: main contrib non-free-firmware"),
        ("Components: main contrib", "Components: main contrib"),
        ("# Components: main", "# Components: main"),
        ("Components: stable", "Components: stable"),
    ];
    let text = |pairs: &[(&str, &str)], after: bool| {
        let one =
            |(before, then): &(&str, &str)| format!("{}\n", if after { then } else { before });
        pairs.iter().map(one).collect::<String>()
    };
    let files = [
        (folder.path().join("sources.list"), text(&lines, false), text(&lines, true)),
        (lists.join("debian.sources"), text(&stanzas, false), text(&stanzas, true)),
        // apt doesn't read it.
        (lists.join("old.list.off"), text(&lines, false), text(&lines, false)),
    ];
    for (path, before, _) in &files {
        fs::write(path, before).expect("written");
    }
    for said in [2, 0] {
        assert_eq!(enable(folder.path()).lines().count(), said);
        for (path, _, after) in &files {
            assert_eq!(fs::read_to_string(path).expect("there"), *after, "{}", path.display());
        }
    }
}

#[test]
fn a_machine_without_lists_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(enable(folder.path()), "");
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
}
