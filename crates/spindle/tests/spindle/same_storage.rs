//! One storage under several names.
//!
//! What could break: a file and its hard link, or a file and a loop device over it, become two members of one set, and
//! each copy overwrites the other.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a mirror of two names, which must be refused, with nothing written. Returns what was said.
fn refused(first: &Path, second: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(["md", "create", "x", "--level", "1", "-n", "2", "--force"]);
    let output = command.arg(first).arg(second).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

#[test]
fn a_set_takes_no_storage_twice_whatever_it_is_called() {
    fixtures::takes_long!();
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    fs::File::create(at("disk")).and_then(|file| file.set_len(64 << 20)).expect("made");
    fs::hard_link(at("disk"), at("hard")).expect("linked");
    symlink("disk", at("soft")).expect("linked");
    for name in ["disk", "hard", "soft"] {
        let said = refused(&at("disk"), &at(name));
        assert!(said.contains("is given twice: name each device once"), "{said}");
    }
    let made = |offset: &str| {
        let mut command = Command::new("losetup");
        let made = command.args(["--find", "--show", "--offset", offset]).arg(at("disk")).output();
        let made = made.ok().filter(|made| made.status.success())?;
        Some(PathBuf::from(String::from_utf8_lossy(&made.stdout).trim()))
    };
    for (offset, text) in [("0", "is given twice"), ("1048576", "share storage: name one of them")]
    {
        let Some(device) = made(offset) else {
            return eprintln!("skipped: no loop device can be had here");
        };
        let said = refused(&at("disk"), &device);
        Command::new("losetup").arg("--detach").arg(&device).status().expect("it ends");
        assert!(said.contains(text), "{said}");
    }
    let bytes = fs::read(at("disk")).expect("there");
    assert!(bytes.iter().all(|byte| *byte == 0), "nothing was written");
}
