//! Disks of pools in a folder, the program on them, and the judge.
//!
//! The disks lie in the folder itself, or in `disks` below it, where sockets and other files lie beside them.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Empty disks in a folder of their own.
pub fn disks(names: &[&str], bytes: u64) -> tempfile::TempDir {
    let folder = fixtures::scratch::folder();
    add_disks(folder.path(), names, bytes);
    folder
}

/// Empty disks in a folder.
pub fn add_disks(folder: &Path, names: &[&str], bytes: u64) {
    for name in names {
        File::create(folder.join(name)).and_then(|disk| disk.set_len(bytes)).expect("a disk");
    }
}

/// Where the disks of a folder lie.
fn place(folder: &Path) -> PathBuf {
    let below = folder.join("disks");
    if below.is_dir() { below } else { folder.to_owned() }
}

/// The program, to be started in a folder of disks. Its own sockets lie in `run` there.
pub fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    let devices = if place(folder) == folder { "." } else { "disks" };
    command.current_dir(folder).args(["-d", devices]).args(arguments);
    command.env_remove("SPINDLE_DEVICES").env("SPINDLE_RUN_DIR", folder.join("run"));
    // Whatever number the host has, pools are this one's.
    command.env("ZFS_HOSTID", "0x5eed");
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    program(folder, arguments).output().expect("the program starts")
}

/// What it prints, and what it says.
#[track_caller]
pub fn printed_and_said(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (String::from_utf8(output.stdout).expect("text"), said)
}

/// What it prints.
#[track_caller]
pub fn done(folder: &Path, arguments: &[&str]) -> String {
    printed_and_said(folder, arguments).0
}

#[track_caller]
pub fn refused(folder: &Path, arguments: &[&str], why: &str) {
    let output = run(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", output.status);
    assert!(said.contains(why), "{arguments:?}: {said}");
}

/// What `zdb` prints with these options for a pool, where it is installed.
pub fn zdb(folder: &Path, options: &[&str]) -> Option<String> {
    let place = place(folder);
    let place = place.to_str().expect("a path");
    let said = fixtures::zdb::zdb([&["-e", "-p", place], options].concat())?;
    assert!(said.is_well, "{}{}", said.text, said.errors);
    Some(said.text)
}

/// `zdb` finds nothing wrong with a pool.
pub fn judge(folder: &Path, pool: &str) {
    if let Some(text) = zdb(folder, &["-bcc", pool]) {
        assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}");
    }
}
