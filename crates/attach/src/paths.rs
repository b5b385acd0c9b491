//! The paths that a person named, made files and block devices: a folder stands for what lies in it, by name. Exports of NBD
//! servers stand among them by their [URIs](crate::uri).

use crate::error::Error;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Files of one folder that are looked at. More is no folder of disks.
const FILES_MAX: usize = 4096;

/// The paths that were given, or those of SPINDLE_DEVICES where none were.
pub fn named(paths: &[PathBuf]) -> Vec<PathBuf> {
    match std::env::var_os("SPINDLE_DEVICES") {
        Some(variable) if paths.is_empty() => joined(std::env::split_paths(&variable).collect()),
        _ => paths.to_vec(),
    }
}

/// Whether a word that is no path of anything may name what lies on the devices: a whole path does as `/dev/md/NAME`,
/// `/dev/GROUP/VOLUME` or `DEVICE:N`; any other is a file that is not there.
pub(crate) fn may_name_volume(word: &Path) -> bool {
    !word.is_absolute() || word.starts_with("/dev") || word.to_string_lossy().contains(':')
}

/// URIs have colons of their own: behind their scheme, and in what stands for the host, which ends with a slash.
fn joined(parts: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut is_host = false;
    for part in parts {
        let text = part.to_string_lossy();
        let scheme = paths.last().filter(|_| text.starts_with("//")).and_then(|last| last.to_str());
        let begins = scheme.is_some_and(|scheme| ["nbd", "nbd+unix"].contains(&scheme));
        if !begins && !is_host {
            paths.extend((!text.is_empty()).then(|| part.clone()));
            continue;
        }
        let last = paths.pop().expect("the part before").to_string_lossy().into_owned();
        is_host = match begins {
            true => last == "nbd" && !text.trim_start_matches("//").contains('/'),
            false => !text.contains('/'),
        };
        paths.push(format!("{last}:{text}").into());
    }
    paths
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: an export that is named among others is taken for three files.
    #[test]
    fn exports_may_be_named_among_paths_divided_by_colons() {
        for (text, paths) in [
            ("a:b", &["a", "b"][..]),
            ("nbd:a", &["nbd", "a"]),
            ("a:nbd://h/x:b", &["a", "nbd://h/x", "b"]),
            ("nbd://h:77/x:/dev/sda", &["nbd://h:77/x", "/dev/sda"]),
            ("nbd://[::1]:77/x:b", &["nbd://[::1]:77/x", "b"]),
            (
                "nbd+unix:///x?socket=/s:nbd+unix:///y?socket=t:c",
                &["nbd+unix:///x?socket=/s", "nbd+unix:///y?socket=t", "c"],
            ),
        ] {
            let found: Vec<String> = joined(std::env::split_paths(text).collect())
                .iter()
                .map(|path| path.to_string_lossy().into_owned())
                .collect();
            assert_eq!(found, paths, "{text}");
        }
    }
}
