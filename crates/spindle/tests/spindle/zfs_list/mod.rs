//! `zpool` and `zfs` against what OpenZFS printed of the same pools, for every fixture.
//!
//! What could break: a property that resolves to another value, source or place in the list; space that is summed
//! otherwise; a vdev with another name or state; a message that scripts look for. The judge is OpenZFS 2.3.2: each
//! fixture comes with what `zfs get`, `zpool get`, `zpool list`, `zpool status` and `zpool history` printed.
//!
//! Those texts were printed while the pool was in use; some of what they say has changed by the time of its export. What
//! the same OpenZFS says of the pools as they lie there now (imported for reading; space and fragmentation by `zdb -bb`
//! and `zdb -M`) stands in `space.tsv`: kind, name, property, value; an empty value where the property is not shown. What
//! can't be equal is named in [`texts::differs`], each with its reason.
//!
//! Without the fixtures, or tools to unpack them, the tests say that they are skipped.

mod damage;
mod rewind;
mod texts;
mod words;

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program on the disks of a folder.
pub(crate) fn spindle(disks: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.arg("-d").arg(disks).args(arguments);
    command.env_remove("SPINDLE_DEVICES").env("TZ", "UTC");
    command.output().expect("the program starts")
}

/// The name of a fixture's pool.
pub(crate) fn pool_of(fixture: &str) -> String {
    format!("t_{}", fixture.replace('-', "_"))
}

/// What it prints where it succeeds.
pub(crate) fn done(disks: &Path, arguments: &[&str]) -> String {
    let output = spindle(disks, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("it is UTF-8")
}

/// What it says where it fails, and with which exit status.
pub(crate) fn refused(disks: &Path, arguments: &[&str]) -> (i32, String) {
    let output = spindle(disks, arguments);
    let status = output.status.code().expect("it was not killed");
    assert_ne!(status, 0, "{arguments:?}");
    (status, String::from_utf8_lossy(&output.stderr).into_owned())
}
