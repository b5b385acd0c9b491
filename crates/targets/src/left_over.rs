//! What the lab has in a directory of this host while it measures there: a file a disk, and the folder of a tool's run.
//!
//! Both are removed at the end, also after Ctrl-C; a run that is killed leaves them. The next one starts from the same state as
//! any, so it refuses, and tells of all of them at once: whoever removes one file finds out about no other by trying again. It
//! removes none itself: another run may be measuring there.

use lab::target::TargetError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What the folder of a tool's run is called.
pub const FOLDER: &str = "spindle-work";

/// What to do where something of it comes to be there while one runs.
pub const IN_USE: &str = "another run measures there: let it end";

/// What the file of a disk is called.
pub fn disk(number: usize) -> String {
    format!("spindle-disk{number}.raw")
}

/// The number of the disk whose file is called so.
fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix("spindle-disk")?.strip_suffix(".raw")?.parse().ok()
}

/// What lies in a directory and is called as the lab calls its own: the files by their numbers, then the folder.
fn in_directory(directory: &Path) -> Vec<PathBuf> {
    // One that can't be listed is told by who makes something there.
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ours = names.filter_map(|name| match number_of(&name) {
        Some(number) => Some((number, name)),
        None => (name == FOLDER).then_some((usize::MAX, name)),
    });
    let ours: BTreeSet<(usize, String)> = ours.collect();
    ours.into_iter().map(|(_, name)| directory.join(name)).collect()
}

/// Refuses to measure where an earlier run left something, in any of these directories.
///
/// # Errors
/// With all of it.
pub fn refuse(directories: &BTreeSet<PathBuf>) -> Result<(), TargetError> {
    let all = directories.iter().flat_map(|directory| in_directory(directory));
    let all: Vec<String> = all.map(|path| path.display().to_string()).collect();
    if all.is_empty() {
        return Ok(());
    }
    let (are, them) = if all.len() == 1 { ("is", "it") } else { ("are", "them") };
    Err(TargetError::Fatal {
        doing: "making the lab's files".to_owned(),
        why: format!("{} {are} there already", all.join(", ")),
        mend: format!(
            "left over, if an earlier run was killed and none measures there now: remove {them}"
        ),
    })
}
