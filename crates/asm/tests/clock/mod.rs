//! Time for the tests: it jumps to the next deadline.

use rt::reactor::{Job, Unpark};
use rt::{ComputePlan, Parked, Reactor, Work};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{Duration, Instant};

struct Clock(Cell<Instant>);

/// A reactor in which nothing takes time but sleeping.
pub fn clock() -> Rc<dyn Reactor> {
    Rc::new(Clock(Cell::new(Instant::START)))
}

impl Reactor for Clock {
    fn now(&self) -> Instant {
        self.0.get()
    }
    fn poll(&self) {}
    fn park(&self, deadline: Option<Instant>) -> Parked {
        match deadline {
            Some(deadline) => {
                self.0.set(deadline.max(self.0.get()));
                Parked::LookAgain
            }
            None => Parked::Stalled,
        }
    }
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(Nobody)
    }
    fn plan(&self, _: Work) -> ComputePlan {
        ComputePlan::Inline
    }
    fn offload(&self, _: Job) {
        unreachable!("work runs inline")
    }
    fn processor_time(&self) -> Duration {
        Duration::ZERO
    }
}

struct Nobody;

impl Unpark for Nobody {
    fn unpark(&self) {}
}
