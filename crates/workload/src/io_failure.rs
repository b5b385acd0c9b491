//! An I/O that failed, in a form that crosses threads.
//!
//! [`rt::IoError`] names its device by an `Rc`, so it can't leave the worker's thread. This is the same
//! with the name copied, and with the errors of trees beside it.

use rt::{IoError, IoErrorKind, OpKind, TreeError, TreeErrorKind};
use stdx::{ByteCount, Offset};

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoFailure {
    /// An operation on names, or on a file as a whole.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Reading or writing.
    #[error("{file}: {op} of {len} at {offset}: {kind}")]
    Data {
        /// The file.
        file: String,
        /// What was to be done.
        op: OpKind,
        /// Where.
        offset: Offset,
        /// How much.
        len: ByteCount,
        /// What went wrong.
        kind: IoErrorKind,
    },
    /// A file ended before it should.
    #[error("{file}: reading {len} at {offset} gave {got}; somebody cut the file")]
    Short {
        /// The file.
        file: String,
        /// Where.
        offset: Offset,
        /// How much was asked for.
        len: ByteCount,
        /// How much came.
        got: ByteCount,
    },
}

impl IoFailure {
    /// Whether the tree has no such file or directory.
    pub fn is_not_found(&self) -> bool {
        matches!(self, IoFailure::Tree(error) if error.kind == TreeErrorKind::NotFound)
    }
}

impl From<IoError> for IoFailure {
    fn from(error: IoError) -> IoFailure {
        IoFailure::Data {
            file: error.device.to_string(),
            op: error.op,
            offset: error.offset,
            len: error.len,
            kind: error.kind,
        }
    }
}
