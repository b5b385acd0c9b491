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
mod job;
pub mod options;
pub mod plan;
mod seeks;
pub mod table;
#[cfg(test)]
mod tests;

pub use figures::{BonnieOutcome, Figure, Phase};
pub use job::{BonnieError, Heard, Listener};
pub use options::OptionError;
pub use plan::{Creation, File, Plan, PlanError, Written};

use glibc_rand::GlibcRand;
use job::Job;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use workload::content::Content;
use workload::crew::{Calls, Crew, PhaseEnd, start};

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
    let mut outcome = BonnieOutcome::of(Plan::clone(&job.plan), content.spec(), []);
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
        let place = crew.place();
        place.says(PhaseEnd::Begins(Phase::Seeks.column()));
        let figure = seeks::run(crew, job, file, random).await?;
        place.says(PhaseEnd::Ends(Phase::Seeks.column()));
        outcome.take(vec![(Phase::Seeks, figure)]);
    }
    Ok(())
}
