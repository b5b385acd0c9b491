//! What all phases share: the plan, the content, who stops them and who listens; and why a run ends early.

use super::figures::{Figure, Phase};
use super::plan::Plan;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use workload::content::Content;
use workload::crew::WorkerLost;
use workload::io_failure::IoFailure;

/// What a listener hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A phase begins.
    Begins(Phase),
    /// It has ended, and gave this; it stays so if the run comes to no end.
    Ends(Phase, Figure),
    /// The run comes to no end, and removes its small files: so many are left of them.
    Removing(u64),
}

/// Who listens. It is called on workers' threads.
pub type Listener = Arc<dyn Fn(Heard) + Send + Sync>;

/// Why a run ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BonnieError {
    /// An I/O failed.
    #[error("{phase}: {failure}")]
    Io {
        /// In which phase.
        phase: Phase,
        /// What failed.
        failure: IoFailure,
    },
    /// The directory did not hold the files that were made in it.
    #[error("{phase}: {made} files were made, {found} are there; does somebody else work in it?")]
    Count {
        /// In which phase.
        phase: Phase,
        /// How many there should be.
        made: u64,
        /// How many there are.
        found: u64,
    },
    /// A worker was lost.
    #[error(transparent)]
    Lost(#[from] WorkerLost),
    /// Someone asked it to stop.
    #[error("stopped before its end")]
    Stopped,
}

/// What all phases share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) plan: Arc<Plan>,
    pub(super) content: Content,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) listener: Listener,
}

impl Job {
    /// # Errors
    /// [`BonnieError::Stopped`].
    pub(super) fn go_on(&self) -> Result<(), BonnieError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(BonnieError::Stopped),
            false => Ok(()),
        }
    }

    /// The name that the file, and later the directory, have in the tree.
    pub(super) fn path(&self) -> PathBuf {
        self.plan.path()
    }
}
