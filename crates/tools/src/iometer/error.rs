//! Why a plan is not carried out.

use rt::{TreeError, TreeErrorKind};
use std::path::PathBuf;
use stdx::ByteCount;
use workload::crew::WorkerLost;
use workload::io_failure::IoFailure;

/// Why a plan was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IometerError {
    /// An operation failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// A worker gave no result.
    #[error(transparent)]
    Lost(#[from] WorkerLost),
    /// Direct I/O is refused.
    #[error(
        "{}: the file system takes no direct I/O, which IOMeter's is; --buffered goes through its \
         cache, and measures that too",
        .file.display()
    )]
    NoDirect {
        /// The file.
        file: PathBuf,
    },
    /// Nobody said how large it shall be.
    #[error(
        "{file}: the configuration says no maximum size, for which IOMeter fills the whole disk; say \
         --size"
    )]
    NoSize {
        /// The file.
        file: String,
    },
    /// An access specification does not fit direct I/O.
    #[error(
        "the access specification '{spec}' has the {what} {bytes}, but past the cache only multiples of \
         {alignment} go; change it, or say --buffered"
    )]
    Misaligned {
        /// Which.
        spec: String,
        /// Size or alignment.
        what: &'static str,
        /// How much.
        bytes: ByteCount,
        /// What it must be a multiple of.
        alignment: ByteCount,
    },
    /// An I/O is larger than where it may go.
    #[error(
        "{file}: an I/O of {size} has no room between {start} and {end}, which '{worker}' uses"
    )]
    NoRoom {
        /// The file.
        file: String,
        /// Whose.
        worker: String,
        /// The I/O.
        size: ByteCount,
        /// Where the worker's part begins.
        start: ByteCount,
        /// Where it ends.
        end: ByteCount,
    },
}

impl IometerError {
    /// The error of opening a target.
    pub(super) fn opening(error: TreeError) -> IometerError {
        match error.kind {
            TreeErrorKind::NotSupported => IometerError::NoDirect { file: error.path },
            _ => IometerError::Io(error.into()),
        }
    }
}
