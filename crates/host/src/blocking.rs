//! The reactor of a worker that stands for a plain program: each I/O is a system call on this thread,
//! made when it is submitted, and answered when it returns.
//!
//! A tool that calls `read` in a loop spends on each what the call costs. To be measured alike, the
//! worker that runs its workload makes the same calls, without a queue or a thread between. Many such
//! workers are many threads, each with its runtime, as the tool's are.
//!
//! Nothing is ever under way outside, so parking waits for timers and for wakers of other threads.

use crate::answer::AtOnce;
use crate::clock::Clock;
use rt::reactor::{Job, Unpark};
use rt::{ComputePlan, Parked, Reactor, Work};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stdx::Instant;

/// What ends a park from another thread.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, bool> {
        // A flag is whole whatever happened.
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unpark for Bell {
    fn unpark(&self) {
        *self.lock() = true;
        self.changed.notify_one();
    }
}

/// See the [module](self).
pub struct BlockingReactor {
    clock: Clock,
    bell: Arc<Bell>,
    pub(crate) at_once: AtOnce,
}

impl BlockingReactor {
    /// A reactor for this thread.
    pub fn new(clock: Clock) -> BlockingReactor {
        BlockingReactor { clock, bell: Arc::default(), at_once: AtOnce::default() }
    }
}

impl Reactor for BlockingReactor {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn poll(&self) {
        self.at_once.settle();
    }

    fn park(&self, deadline: Option<Instant>) -> Parked {
        if self.at_once.settle() {
            return Parked::LookAgain;
        }
        let mut rung = self.bell.lock();
        while !*rung {
            let left = deadline.map(|deadline| deadline.since(self.clock.now()));
            rung = match left {
                Some(left) if left.is_zero() => break,
                Some(left) => {
                    let woken = self.bell.changed.wait_timeout(rung, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.bell.changed.wait(rung).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *rung = false;
        // Wakers may be held by threads that the reactor knows nothing of.
        Parked::LookAgain
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.bell) as _
    }

    /// All work is done here: the program that the worker stands for has one thread.
    fn plan(&self, _work: Work) -> ComputePlan {
        ComputePlan::Inline
    }

    fn offload(&self, job: Job) {
        job();
    }

    fn processor_time(&self) -> Duration {
        self.clock.processor_time()
    }
}
