//! Who runs the workers of a load.
//!
//! The field's tools are processes and threads that make system calls. On the host a worker is
//! therefore a thread with a runtime of its own: so eight jobs use eight processors, and a plain
//! `read` costs what it costs the tool. In a simulation all workers are tasks of one simulated host.
//! A [`Crew`] hides the difference; engines are written once, against it.
//!
//! **Rules.**
//!
//! 1. A worker's body is made where it runs: what it is given is `Send`, what it awaits need not be.
//! 2. What workers share is behind `Arc`, in atomics, in a `std::sync::Mutex` that is never held
//!    across an await, or in [`rt::sync`]'s channels and semaphores, whose wakers cross threads.
//! 3. All workers of a crew have one clock: an [`Instant`](stdx::Instant) of one is one of all.
//! 4. A worker that panics or whose thread can't be made is [lost](WorkerLost); the conductor hears of
//!    it instead of its result.
//! 5. A tool that goes through phases says where each begins and ends, at the [`Place`] where it runs. Who looks at counters
//!    there hears of it before anything more is asked of the tree.
//! 6. Dropping what [`start`] returned does not end the worker. It ends by itself when it looks at
//!    what it shares with the conductor.

use crate::tickets::{Counted, Tickets};
use futures_util::future::LocalBoxFuture;
use rt::sync::oneshot;
use rt::{Rt, TreeRef};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Workers at the most in one load. More threads than this bring no host more I/O; filebench's
/// largest personality has some 250.
pub const WORKERS_MAX: usize = 4096;

/// How a worker's I/O reaches the system. A simulation makes no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// By plain system calls on the worker's own thread, one at a time, as a program does that reads
    /// and writes synchronously.
    #[default]
    Blocking,
    /// So that many are under way at once: io_uring, or threads where it is refused.
    Queued,
}

/// What a worker works with, on its own runtime.
#[derive(Clone)]
pub struct Place {
    /// Its runtime.
    pub rt: Rt,
    /// The tree that the load is on, as seen from there.
    pub tree: TreeRef,
    phases: Option<PhaseListener>,
}

impl Place {
    /// A place where nobody hears of phases.
    pub fn new(rt: Rt, tree: TreeRef) -> Place {
        Place { rt, tree, phases: None }
    }

    /// A phase begins or ends.
    pub fn says(&self, end: PhaseEnd) {
        if let Some(listener) = &self.phases {
            listener(end);
        }
    }
}

/// An end of a phase, by the name that the tool's metrics of it begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseEnd {
    /// It begins.
    Begins(&'static str),
    /// It has ended, and what it wrote is synced where that belongs to it.
    Ends(&'static str),
}

/// Who hears of phases, where they run.
pub type PhaseListener = Rc<dyn Fn(PhaseEnd)>;

/// What a worker does.
pub type Body = Box<dyn FnOnce(Place) -> LocalBoxFuture<'static, ()> + Send>;

/// Who runs workers. See the [module](self).
pub trait Crew {
    /// The conductor's own place, for preparation, timers and counting.
    fn place(&self) -> Place;

    /// Starts a worker; [`start`] is more convenient. `name` names its thread.
    ///
    /// # Errors
    /// [`WorkerLost`] where no thread can be had for it.
    fn begin(&self, name: &str, calls: Calls, body: Body) -> Result<(), WorkerLost>;

    /// These numbers, to be shared out among so many workers that are started after this. The way in
    /// which a crew's workers pass such things on costs what it costs the tools.
    fn tickets(&self, all: Vec<u32>, _takers: usize) -> Arc<dyn Tickets> {
        Arc::new(Counted::new(all))
    }
}

/// A worker that gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker {worker} came to no end; the system gave it no thread or ran out of memory")]
pub struct WorkerLost {
    /// Its name.
    pub worker: String,
}

/// Starts a worker of a crew, and waits for its result when the returned future is awaited.
///
/// # Errors
/// [`WorkerLost`] at once where no thread can be had, or later where it ended without a result.
pub fn start<T, W, F>(
    crew: &dyn Crew,
    name: &str,
    calls: Calls,
    work: W,
) -> Result<impl Future<Output = Result<T, WorkerLost>> + use<T, W, F>, WorkerLost>
where
    T: Send + 'static,
    W: FnOnce(Place) -> F + Send + 'static,
    F: Future<Output = T> + 'static,
{
    let (sender, receiver) = oneshot::channel();
    crew.begin(
        name,
        calls,
        Box::new(move |place| {
            let work = work(place);
            Box::pin(async move {
                // Nobody waits any more where the conductor gave up.
                let _ = sender.send(work.await);
            })
        }),
    )?;
    let worker = name.to_owned();
    Ok(async move { receiver.await.map_err(|_| WorkerLost { worker }) })
}

/// A crew whose workers are tasks of one runtime: simulated hosts, and tests.
pub struct OneRuntime(Place);

impl OneRuntime {
    /// A crew on this runtime and tree.
    pub fn new(rt: Rt, tree: TreeRef) -> OneRuntime {
        OneRuntime(Place::new(rt, tree))
    }

    /// The same crew, where this one hears of phases.
    pub fn with_phases(self, listener: PhaseListener) -> OneRuntime {
        OneRuntime(Place { phases: Some(listener), ..self.0 })
    }
}

impl Crew for OneRuntime {
    fn place(&self) -> Place {
        self.0.clone()
    }

    fn begin(&self, _name: &str, _calls: Calls, body: Body) -> Result<(), WorkerLost> {
        let place = self.0.clone();
        self.0.rt.spawn(async move { body(place).await }).detach();
        Ok(())
    }
}
