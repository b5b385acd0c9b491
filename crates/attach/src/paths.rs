//! The paths that a person named, made files and block devices: a folder stands for what lies in it, by name.

use crate::error::Error;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Files of one folder that are looked at. More is no folder of disks.
const FILES_MAX: usize = 4096;

/// The paths that were given, or those of SPINDLE_DEVICES where none were.
pub fn named(paths: &[PathBuf]) -> Vec<PathBuf> {
    match std::env::var_os("SPINDLE_DEVICES") {
        Some(variable) if paths.is_empty() => {
            std::env::split_paths(&variable).filter(|path| !path.as_os_str().is_empty()).collect()
        }
        _ => paths.to_vec(),
    }
}

/// The same, with folders replaced by what lies in them.
///
/// # Errors
/// Where there are none, or one can't be looked at.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let given = named(paths);
    if given.is_empty() {
        return Err(Error::NoDevices);
    }
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        let unreadable = |error| Error::Folder { path: path.clone(), error };
        let mut within = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(unreadable)?.take(FILES_MAX) {
            let path = entry.map_err(unreadable)?.path();
            let is_disk = std::fs::metadata(&path).is_ok_and(|found| {
                found.file_type().is_block_device() || found.is_file() && found.len() > 0
            });
            within.extend(is_disk.then_some(path));
        }
        within.sort_unstable();
        files.extend(within);
    }
    Ok(files)
}

/// A path as another process, which may stand in another folder, finds it.
pub fn absolute(path: &Path) -> PathBuf {
    let resolved = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    resolved.unwrap_or_else(|_| path.to_owned())
}
