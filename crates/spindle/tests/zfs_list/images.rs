//! Fixtures, unpacked.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the fixtures; nothing, said aloud, where it or the tools are missing.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/zfs");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return None;
    }
    let tools =
        ["zstd", "tar"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !tools {
        println!("skipped: zstd and tar are needed to unpack fixtures");
        return None;
    }
    Some(folder)
}

/// The names of all fixtures.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is read");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".tar.zst")?.to_owned())).collect();
    names.sort();
    assert!(!names.is_empty(), "there are fixtures");
    names
}

/// The name of a fixture's pool.
pub(crate) fn pool(fixture: &str) -> String {
    format!("t_{}", fixture.replace('-', "_"))
}

/// Unpacks a fixture: its disks lie in the folder as long as this lives.
pub(crate) fn unpack(folder: &Path, name: &str) -> tempfile::TempDir {
    let target = tempfile::tempdir().expect("a folder");
    let script = format!(
        "zstd -dcq --long=27 '{}' | tar -x -S -C '{}'",
        folder.join(format!("{name}.tar.zst")).display(),
        target.path().display()
    );
    let status = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
    assert!(status.success(), "{name} unpacks");
    target
}
