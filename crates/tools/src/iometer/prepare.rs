//! Making the test files.
//!
//! IOMeter works on a file of the size that is asked for, and makes it by writing it: from its start
//! to its end in blocks of 64 KiB, sixteen at a time, past the cache. So the file has no holes, and
//! lies on the disk as a file does that was written in one go. A file that is there and large enough is
//! used as it is; one that is too small is written on from its end, where IOMeter would use it as it
//! is: a file that an interrupted run left would make every figure too good.

use super::error::IometerError;
use super::plan::TargetFile;
use rt::{FileKind, OpenHow, TreeError, TreeErrorKind, TreeOp};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stdx::ByteCount;
use workload::content::Content;
use workload::crew::Place;
use workload::filled::{Filling, fill};

/// How much is written at once: 128 sectors.
const BLOCK: ByteCount = ByteCount::kib(64);

/// Writes under way at once.
const OUTSTANDING: usize = 16;

/// The number of who writes it, for the content: the last of those that a [`Content`] tells apart.
const PREPARER: u64 = (1 << 24) - 1;

/// What of a target is there now.
pub(super) struct Prepared {
    /// Its size.
    pub(super) size: ByteCount,
    /// Whether it was made, rather than found.
    pub(super) created: bool,
}

/// Makes sure that a target is there and large enough.
pub(super) async fn prepare(
    target: TargetFile,
    direct: bool,
    content: Content,
    stop: Arc<AtomicBool>,
    place: Place,
) -> Result<Prepared, IometerError> {
    let tree = &place.tree;
    if target.made {
        tree.check_no_link(&target.path).await.map_err(IometerError::opening)?;
    }
    let found = match tree.status(&target.path).await {
        Ok(status) if status.kind == FileKind::Pipe => {
            let kind = TreeErrorKind::IsPipe;
            return Err(IometerError::opening(TreeError {
                op: TreeOp::Open,
                path: target.path,
                kind,
            }));
        }
        Ok(status) => Some(status.size),
        Err(error) if error.kind == TreeErrorKind::NotFound && target.made => None,
        Err(error) => return Err(IometerError::opening(error)),
    };
    let there = found.unwrap_or(ByteCount::ZERO);
    let wanted = match target.size {
        Some(wanted) if target.made => wanted,
        _ if there.is_zero() => {
            let file = target.path.display().to_string();
            return Err(IometerError::NoSize { file });
        }
        _ => there,
    };
    if there >= wanted {
        return Ok(Prepared { size: there, created: false });
    }
    let how = OpenHow { write: true, create: true, ..OpenHow::default() }.with_direct(direct);
    let file = tree.open(&target.path, how).await.map_err(IometerError::opening)?;
    // From a whole block, so that past the cache all places are aligned.
    let wanted = wanted.round_up(file.alignment());
    let range = there.round_down(BLOCK).bytes()..wanted.bytes();
    let how = Filling { block: BLOCK, outstanding: OUTSTANDING };
    fill(&place.rt, &file, range, how, content.source(PREPARER), &stop).await?;
    Ok(Prepared { size: wanted, created: found.is_none() })
}
