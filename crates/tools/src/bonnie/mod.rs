//! bonnie++: how fast one process writes, rewrites, reads, seeks, and makes and removes files.
//!
//! The phases, their order, and which calls with which sizes each of them makes are those of
//! bonnie++ 2.00 (Russell Coker; after Tim Bray's Bonnie of 1990), learnt from its source and its
//! manual page:
//!
//! 1. On one file: write it a byte at a time (a part only), write it by blocks, rewrite it by blocks,
//!    read it a byte at a time (the same part), read it by blocks (`bulk`); then seek in it from
//!    several threads (`seeks`).
//! 2. On many small files: make, look at and read, and remove them, once with names in sequential
//!    order and once in random order (`directory`).
//!
//! The random numbers are glibc's `rand` (`glibc_rand`), so that one seed gives bonnie++'s own file
//! names, sizes and places.
//!
//! [`options`] reads the two options that are little languages; [`plan`] is what is to be done;
//! [`figures`] is what came out, [`table`] and [`csv`] show it as its users know it.
//!
//! It leaves nothing behind, whether it ends well or not.

mod bulk;
pub mod csv;
mod directory;
pub mod figures;
mod glibc_rand;
pub mod options;
pub mod plan;
mod seeks;
pub mod table;
#[cfg(test)]
mod tests;

pub use figures::{BonnieOutcome, Figure, Phase};
pub use options::OptionError;
pub use plan::{Creation, File, Plan, PlanError, Written};

use glibc_rand::GlibcRand;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use workload::content::Content;
use workload::crew::{Calls, Crew, WorkerLost, start};
use workload::io_failure::IoFailure;

/// What a listener hears: a phase begins (`true`) or has ended. It is called on workers' threads.
pub type Listener = Arc<dyn Fn(Phase, bool) + Send + Sync>;

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
struct Job {
    plan: Arc<Plan>,
    content: Content,
    stop: Arc<AtomicBool>,
    listener: Listener,
}

impl Job {
    /// # Errors
    /// [`BonnieError::Stopped`].
    fn go_on(&self) -> Result<(), BonnieError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(BonnieError::Stopped),
            false => Ok(()),
        }
    }

    /// The name that the file, and later the directory, have in the tree.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("Bonnie.{}", self.plan.number))
    }
}

/// Runs the phases of the plan, in order.
///
/// # Errors
/// [`BonnieError`]; what the run had made is removed again.
pub async fn run(
    crew: &dyn Crew,
    plan: Plan,
    content: &Content,
    stop: Arc<AtomicBool>,
    listener: Listener,
) -> Result<BonnieOutcome, BonnieError> {
    let job = Job { plan: Arc::new(plan), content: content.clone(), stop, listener };
    let mut random = GlibcRand::new(job.plan.seed);
    let mut outcome = BonnieOutcome::new(Plan::clone(&job.plan), content.spec());
    if let Some(file) = job.plan.file.clone() {
        let result = on_file(crew, &job, &file, &mut random, &mut outcome).await;
        // The result counts more than what comes of tidying up.
        let removed = bulk::remove(&crew.place(), &job).await;
        result?;
        removed?;
    }
    if let Some(creation) = job.plan.creation.clone() {
        let for_worker = job.clone();
        let worker = start(crew, "bonnie files", Calls::Blocking, move |place| async move {
            directory::run(&place, &for_worker, &creation, random).await
        })?;
        outcome.take(worker.await??);
    }
    Ok(outcome)
}

/// The phases on one file.
async fn on_file(
    crew: &dyn Crew,
    job: &Job,
    file: &File,
    random: &mut GlibcRand,
    outcome: &mut BonnieOutcome,
) -> Result<(), BonnieError> {
    let (for_worker, plan) = (job.clone(), file.clone());
    let worker = start(crew, "bonnie", Calls::Blocking, move |place| async move {
        bulk::run(&place, &for_worker, &plan).await
    })?;
    outcome.take(worker.await??);
    if file.seeks > 0 {
        let figure = seeks::run(crew, job, file, random).await?;
        outcome.take(vec![(Phase::Seeks, figure)]);
    }
    Ok(())
}
