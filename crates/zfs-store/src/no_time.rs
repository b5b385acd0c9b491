//! A reactor for the tests of this crate: no time passes but by sleeping, and all work is done at once.

use rt::Work;
use rt::reactor::{ComputePlan, Job, Parked, Reactor, Unpark};
use rt::{Rt, Runtime};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;

#[derive(Default)]
struct NoTime(Cell<Instant>);

struct NoOne;

impl Unpark for NoOne {
    fn unpark(&self) {}
}

impl Reactor for NoTime {
    fn now(&self) -> Instant {
        self.0.get()
    }
    fn poll(&self) {}
    fn park(&self, deadline: Option<Instant>) -> Parked {
        let Some(deadline) = deadline else { return Parked::Stalled };
        self.0.set(deadline.max(self.0.get()));
        Parked::LookAgain
    }
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(NoOne)
    }
    fn plan(&self, _: Work) -> ComputePlan {
        ComputePlan::Inline
    }
    fn offload(&self, _: Job) {
        unreachable!("this reactor never asks for it")
    }
    fn processor_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// Runs a future to its end.
pub(crate) fn run<F>(future: impl FnOnce(Rt) -> F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    let runtime = Runtime::new(Rc::new(NoTime::default()));
    let future = future(runtime.handle());
    runtime.block_on(future).expect("nothing waits for ever")
}
