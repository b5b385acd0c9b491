//! Probes: the two commands that everyone runs first, `hdparm -t` and `dd`.
//!
//! Both are one sequential pass with one I/O outstanding, and both are often misread: `dd` measures the
//! cache unless it is told to go past it or to sync, and either depends on read-ahead and block size.
//! So they are here with repeats, over several block sizes, and with the cache dropped where asked.
//!
//! * [`mod@hdparm`]: `-t` and `-T`;
//! * [`dd`]: its operands, what it does, and the lines that it prints.

pub mod dd;
mod figures;
pub mod hdparm;

use rt::{TreeError, TreeErrorKind, TreeOp};
use std::path::PathBuf;
use workload::crew::WorkerLost;
use workload::io_failure::IoFailure;

/// Why a probe gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// An operation failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// The worker gave no result.
    #[error(transparent)]
    Lost(#[from] WorkerLost),
    /// Direct I/O is refused.
    #[error("{}: the file system takes no direct I/O; leave out {flag}", .file.display())]
    NoDirect {
        /// The file.
        file: PathBuf,
        /// What asked for it.
        flag: &'static str,
    },
    /// A block size that does not fit direct I/O.
    #[error("{file}: past the cache only multiples of {alignment} B go; change bs={block}")]
    Misaligned {
        /// The file.
        file: String,
        /// What goes, in bytes.
        alignment: u64,
        /// The block size, in bytes.
        block: u64,
    },
    /// Nothing to read.
    #[error("{file}: {size} B are too few; hdparm reads 2 MiB at a time: name a larger one")]
    TooSmall {
        /// The file.
        file: String,
        /// Its size, in bytes.
        size: u64,
    },
    /// A device as output.
    #[error("/{}: a block device, which would be overwritten; say --destructive if it may be", .0.display())]
    Device(PathBuf),
    /// It was stopped before it had anything.
    #[error("interrupted")]
    Stopped,
}

impl ProbeError {
    /// Whether the file that was to be made is there already, and so is somebody else's.
    fn is_there_already(&self) -> bool {
        let ProbeError::Io(IoFailure::Tree(error)) = self else { return false };
        error.op == TreeOp::Create && error.kind == TreeErrorKind::Exists
    }
}

/// The error of opening a file; `flag` asked for direct I/O.
fn opening(error: TreeError, flag: &'static str) -> ProbeError {
    match error.kind {
        TreeErrorKind::NotSupported => ProbeError::NoDirect { file: error.path, flag },
        _ => ProbeError::Io(error.into()),
    }
}
