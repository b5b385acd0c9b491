//! Where the real and the simulated world differ.
//!
//! A [`Reactor`] belongs to one executor, on one thread. It tells the time, waits for what comes from
//! outside, and decides what becomes of work that burns processor time. `host` has two (`io_uring`,
//! and a pool of threads), `sim` has one, whose waiting is a jump of the clock.
//!
//! The loop of the executor calls it so: run ready tasks, fire timers that are due, [`Reactor::poll`];
//! when nothing is ready, [`Reactor::park`] until the next timer.

use crate::work::Work;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;

/// What waiting brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// Something may have happened, or the deadline has come; look again.
    LookAgain,
    /// Nothing is under way outside and there is no deadline: waiting would never end.
    Stalled,
}

/// What is to become of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputePlan {
    /// Run it here and now.
    Inline,
    /// Run it now, and let the caller go on at this moment: a simulated core is busy till then.
    InlineUntil(Instant),
    /// Run it on a worker thread, through [`Reactor::offload`].
    Offload,
}

/// Work for another thread. It wakes its task itself when it is done.
pub type Job = Box<dyn FnOnce() + Send>;

/// One world. See the [module](self).
pub trait Reactor {
    /// Now. Never goes back.
    fn now(&self) -> Instant;

    /// Takes completions that are there already and wakes their tasks, without waiting; hands over
    /// to the system what was queued for it.
    fn poll(&self);

    /// As [`poll`](Reactor::poll), but waits for at least one completion, the deadline, or an
    /// [unpark](Unpark).
    fn park(&self, deadline: Option<Instant>) -> Parked;

    /// What ends a [`park`](Reactor::park) from another thread.
    fn unparker(&self) -> Arc<dyn Unpark>;

    /// What becomes of this work, by its [place](crate::work::Place). A simulated reactor books it on a core.
    fn plan(&self, work: Work) -> ComputePlan;

    /// Runs a job on a worker thread. Called only after [`ComputePlan::Offload`].
    fn offload(&self, job: Job);

    /// Processor time used so far by everything that this reactor runs: measured or modelled.
    fn processor_time(&self) -> Duration;

    /// Processor time used so far on the executor's own core, where that is known apart from the rest.
    fn executor_time(&self) -> Option<Duration> {
        None
    }
}

/// Ends a [`Reactor::park`] from any thread.
pub trait Unpark: Send + Sync {
    /// Ends it; the next one if none is under way.
    fn unpark(&self);
}
