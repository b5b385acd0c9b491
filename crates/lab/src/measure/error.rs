//! Why a cell could not be measured.

use rt::IoError;

/// Why a cell could not be measured.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MeasureError {
    /// The volume is smaller than the workload needs.
    #[error(
        "the volume holds {capacity}, less than the {needed} that the workload '{workload}' needs; give it a larger volume or a smaller block_size"
    )]
    VolumeTooSmall {
        /// What there is.
        capacity: stdx::ByteCount,
        /// What it takes.
        needed: stdx::ByteCount,
        /// Whose need.
        workload: String,
    },
    /// An I/O of the load failed.
    #[error("the load stopped at a failed I/O: {0}")]
    Io(#[from] IoError),
    /// The layout has no redundancy, or the target no such operation.
    #[error("'{operation}' can't be done here: {why}")]
    NoOperation {
        /// Which.
        operation: &'static str,
        /// Why not, with the mend.
        why: String,
    },
    /// Nothing was done in the measured time.
    #[error(
        "no I/O finished in {seconds} s; that is too short for this volume: lengthen steady.round, or a probe's time"
    )]
    NothingDone {
        /// How long it was watched.
        seconds: f64,
    },
    /// The user asked for an end.
    #[error("interrupted")]
    Interrupted,
}
