//! Worker threads: a bounded number, started when first needed.
//!
//! Three uses, each with a pool of its own, because some wait and the other works: I/O that blocks
//! ([`threads`](crate::threads)), calls on file trees, and `compute`. The latter two are one for the
//! process.
//!
//! A job that finds no idle thread starts one, up to the pool's limit; beyond it jobs wait in order.
//! The queue has no limit of its own: each job belongs to a request or a task that its owner already
//! holds in memory. Dropping a pool lets its threads finish all jobs, and waits for them.

use crate::processors;
use rt::reactor::Job;
use rt::{ComputePlan, Work};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Calls on file trees (open, remove, list, ...) under way at the most, of all runtimes together. More
/// keeps a network file system busier; each is a thread.
const CALLS_MAX: usize = 32;

/// See the [module](self).
pub(crate) struct Pool {
    shared: Arc<Shared>,
    name: &'static str,
    threads_max: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Jobs run outside the lock, so a poisoned one still guards a whole state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// A pool of this many threads at the most, without one yet.
    pub(crate) fn new(name: &'static str, threads_max: usize) -> Pool {
        Pool { shared: Arc::default(), name, threads_max: threads_max.max(1) }
    }

    /// The process's pool for `compute`: a thread for each processor.
    pub(crate) fn compute() -> &'static Pool {
        static COMPUTE: OnceLock<Pool> = OnceLock::new();
        COMPUTE.get_or_init(|| Pool::new("compute", processors()))
    }

    /// The process's pool for calls on file trees that may wait.
    pub(crate) fn calls() -> &'static Pool {
        static CALLS: OnceLock<Pool> = OnceLock::new();
        CALLS.get_or_init(|| Pool::new("calls", CALLS_MAX))
    }

    /// Runs a job on one of the threads. Where the system gives no thread at all, runs it here.
    pub(crate) fn run(&self, job: Job) {
        let mut state = self.shared.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads.len() >= self.threads_max {
            drop(state);
            self.shared.work.notify_one();
            return;
        }
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name(format!("{}-{}", self.name, state.threads.len()))
            .spawn(move || {
                processors::as_started();
                work(&shared);
            });
        match started {
            Ok(thread) => state.threads.push(thread),
            Err(_) if state.threads.is_empty() => {
                let job = state.jobs.pop_back();
                drop(state);
                job.into_iter().for_each(|job| job());
            }
            Err(_) => {}
        }
    }
}

fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            // A job that panics has nobody answer its task, which then panics on the executor, where
            // it is seen. The thread lives on.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = shared.lock();
            continue;
        }
        if state.closed {
            return;
        }
        state.idle += 1;
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let threads = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.threads)
        };
        self.shared.work.notify_all();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// What becomes of a piece of work: small work is done at once, large work by a worker.
pub(crate) fn plan(work: Work, processors: usize) -> ComputePlan {
    if work.is_large() && processors > 1 { ComputePlan::Offload } else { ComputePlan::Inline }
}

/// Processors that this process may use, as its affinity was when this was asked first: later the thread that asks may be
/// bound to one of them ([`processors`](mod@processors)).
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    //! What could break: jobs lost between an idle thread and a new one, threads without bound, a
    //! panic that takes a thread with it.

    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_job_runs_once_on_no_more_threads_than_the_limit() {
        let (done, now, most) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let pool = Pool::new("test", 3);
        for i in 0..300 {
            let (done, now, most) = (Arc::clone(&done), Arc::clone(&now), Arc::clone(&most));
            pool.run(Box::new(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                if i % 50 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                now.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
                assert!(i != 100, "this one panics, and the others must not notice");
            }));
        }
        drop(pool);
        assert_eq!(done.load(Ordering::SeqCst), 300);
        assert!(most.load(Ordering::SeqCst) <= 3);
    }
}
