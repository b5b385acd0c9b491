//! Why a run of a tool ended before its end, where the tool has no reasons of its own.

use crate::crew::WorkerLost;
use crate::io_failure::IoFailure;

/// Why a run ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An I/O failed.
    #[error(transparent)]
    Io(#[from] IoFailure),
    /// A worker was lost.
    #[error(transparent)]
    Lost(#[from] WorkerLost),
    /// Someone asked it to stop.
    #[error("stopped before its end")]
    Stopped,
}
