//! What a tool makes, to be named where it ends before its end: that, and nothing that others made beside it meanwhile.

use crate::printable;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most files that are named of those that a tool leaves.
const NAMED_MAX: usize = 5;

/// Files and directories that a tool makes, of which none was there before it began. Cheap to clone.
#[derive(Clone, Default)]
pub struct Made(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Made {
    fn paths(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        // Nobody leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tool will make these, where they are not there. Of a path whose directory is not there either, the directory
    /// is what it makes.
    pub fn expect(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let missing = paths.into_iter().filter_map(|path| {
            let missing = path.ancestors().take_while(|path| !is_there(path));
            missing.last().map(Path::to_owned)
        });
        self.paths().extend(missing);
    }

    /// What of it is there now, in words: `a, b and 3 more`; nothing where nothing is.
    pub fn there(&self) -> Option<String> {
        let paths = self.paths();
        named(paths.iter().filter(|path| is_there(path)))
    }
}

/// What lies beside these files whose name says that a run made it and came to no end, in the same words.
pub fn left_beside(
    files: impl Iterator<Item = PathBuf>,
    is_left: impl Fn(&str) -> bool,
) -> Option<String> {
    let folders: BTreeSet<PathBuf> =
        files.filter_map(|file| file.parent().map(Path::to_owned)).collect();
    let within = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let left = within.filter(|entry| entry.file_name().to_str().is_some_and(&is_left));
    let left: BTreeSet<PathBuf> = left.map(|entry| entry.path()).collect();
    named(left.iter())
}

/// The first of some paths, and how many more there are; nothing of none.
fn named<'a>(mut paths: impl Iterator<Item = &'a PathBuf>) -> Option<String> {
    let shown = |path: &PathBuf| printable::line(&path.to_string_lossy());
    let named: Vec<String> = paths.by_ref().take(NAMED_MAX).map(shown).collect();
    match (named.is_empty(), paths.count()) {
        (true, _) => None,
        (false, 0) => Some(named.join(", ")),
        (false, more) => Some(format!("{} and {more} more", named.join(", "))),
    }
}

/// Whether something is there, a link that leads nowhere among it; the directory that nothing is said of is.
fn is_there(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_expected_and_is_new_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let touch = |name: &str| std::fs::write(at(name), b"").expect("written");
        touch("old");
        let made = Made::default();
        made.expect(["old", "new", "deep/er/file", "deep/other", "unmade"].map(at));
        assert_eq!(made.there(), None);
        touch("new");
        touch("others");
        std::fs::create_dir_all(at("deep/er")).expect("made");
        let [deep, new] = ["deep", "new"].map(|name| at(name).display().to_string());
        assert_eq!(made.there(), Some(format!("{deep}, {new}")));
        let many = Made::default();
        many.expect((0..7).map(|number| at(&number.to_string())));
        (0..7).for_each(|number| touch(&number.to_string()));
        assert!(many.there().is_some_and(|text| text.ends_with("/4 and 2 more")));
    }
}
