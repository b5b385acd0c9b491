//! A reactor for the tests of this crate: time that jumps.
//!
//! `sim` has the real one, with modelled cores; `rt` lies below it and can't use it. Here the clock
//! goes to the next deadline when nothing is ready, and a byte of work takes a nanosecond. In the other
//! form work goes to a thread each, for tests of wakers that come from another thread; then no timer
//! fires.

use crate::executor::Runtime;
use crate::reactor::{ComputePlan, Job, Parked, Reactor, Unpark};
use crate::work::Work;
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use stdx::Instant;

struct JumpingClock {
    now: Cell<Instant>,
    offloads: bool,
    unpark: Arc<Flag>,
}

#[derive(Default)]
struct Flag(Mutex<bool>, Condvar);

impl Unpark for Flag {
    fn unpark(&self) {
        *self.0.lock().expect("no panic under the lock") = true;
        self.1.notify_one();
    }
}

impl Reactor for JumpingClock {
    fn now(&self) -> Instant {
        self.now.get()
    }
    fn poll(&self) {}
    fn park(&self, deadline: Option<Instant>) -> Parked {
        if self.offloads {
            let flag = self.unpark.0.lock().expect("no panic under the lock");
            let mut flag = self.unpark.1.wait_while(flag, |set| !*set).expect("likewise");
            *flag = false;
            return Parked::LookAgain;
        }
        match deadline {
            Some(deadline) => {
                self.now.set(deadline.max(self.now.get()));
                Parked::LookAgain
            }
            None => Parked::Stalled,
        }
    }
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.unpark) as Arc<dyn Unpark>
    }
    fn plan(&self, work: Work) -> ComputePlan {
        if self.offloads {
            ComputePlan::Offload
        } else {
            ComputePlan::InlineUntil(self.now() + Duration::from_nanos(work.bytes().bytes()))
        }
    }
    #[allow(clippy::disallowed_methods, reason = "tests of wakers that come from another thread")]
    fn offload(&self, job: Job) {
        std::thread::spawn(job);
    }
    fn processor_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// An executor whose time jumps.
pub(crate) fn runtime() -> Runtime {
    with(false)
}

/// An executor that does each piece of work on a thread of its own.
pub(crate) fn runtime_with_threads() -> Runtime {
    with(true)
}

fn with(offloads: bool) -> Runtime {
    let now = Cell::default();
    Runtime::new(Rc::new(JumpingClock { now, offloads, unpark: Arc::default() }))
}

/// Runs `future` on `runtime`, to its end.
pub(crate) fn run<F>(runtime: &Runtime, future: F) -> F::Output
where
    F: Future + 'static,
    F::Output: 'static,
{
    runtime.block_on(future).expect("a test's future ends")
}
