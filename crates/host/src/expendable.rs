//! Whether what lies on a device may be overwritten: the one door for this question.
//!
//! [`mod@crate::probe`] looks what is there; here it is decided whether anybody would miss it. Whoever lets people overwrite
//! it nevertheless has a flag of its own for that.

use crate::probe::{self, Content, ProbeError};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// What is thought of a block device of which only the ends were looked at, and which has nothing there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Nobody misses it: it was named to be made something, and empty disks look like this.
    Nothing,
    /// It may hold something in its midst, so it needs leave like one that holds something.
    Something,
}

/// Why something may not be overwritten.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum NotExpendable {
    #[error("{}: it holds {content}", .path.display())]
    Holds { path: PathBuf, content: Content },
    #[error("{}: it is a block device", .path.display())]
    BlockDevice { path: PathBuf },
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// Whether nobody would miss what lies at a path.
///
/// # Errors
/// What it holds, or why that can't be told. The mend is the caller's: each has a flag of its own for it.
pub fn check_expendable(path: &Path, unseen: Unseen) -> Result<(), NotExpendable> {
    if let Some(content) = probe::content(path)? {
        return Err(NotExpendable::Holds { path: path.into(), content });
    }
    let is_block_device =
        std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    match is_block_device && unseen == Unseen::Something {
        true => Err(NotExpendable::BlockDevice { path: path.into() }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What could break: leave is asked where nothing would be lost, or none where something would.
    #[test]
    fn what_holds_something_is_not_expendable() {
        let dir = tempfile::tempdir().expect("a directory");
        let (full, empty) = (dir.path().join("full"), dir.path().join("empty"));
        fs::write(&full, "words").expect("written");
        fs::File::create(&empty).and_then(|file| file.set_len(1 << 20)).expect("made");
        for unseen in [Unseen::Nothing, Unseen::Something] {
            let refused = check_expendable(&full, unseen).expect_err("it has words");
            assert!(matches!(refused, NotExpendable::Holds { .. }), "{refused}");
            assert!(check_expendable(&empty, unseen).is_ok());
            assert!(check_expendable(&dir.path().join("none"), unseen).is_err());
        }
    }
}
