//! The reactor over plain system calls on a pool of threads.
//!
//! For hosts where io_uring is barred (many containers) or too old, and to have something to compare
//! it with. Each operation is moved to a thread, with the memory it works on, and moved back when it is
//! done: so nothing is shared, and dropping the future that waits for the answer frees nothing that a
//! thread uses. The answers stay on the executor's thread, in a table.
//!
//! The pool has `THREADS_MAX` threads: so many operations are under way at a time; more wait in
//! order.

use crate::answer::{Answer, AtOnce};
use crate::clock::Clock;
use crate::operation::{OpenFile, Operation};
use crate::pool::{self, Pool};
use rt::reactor::{Job, Unpark};
use rt::{ComputePlan, IoErrorKind, Parked, Reactor, SgList, Work};
use slab::Slab;
use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stdx::Instant;

/// Threads, and so operations under way, at the most. More keeps deeper queues of a device busy; a
/// thread costs some tens of KiB, and its switches cost processor time.
const THREADS_MAX: usize = 32;

/// What threads leave for the executor.
#[derive(Default)]
struct Mailbox {
    post: Mutex<Post>,
    bell: Condvar,
}

#[derive(Default)]
struct Post {
    finished: Vec<(usize, Result<SgList, IoErrorKind>)>,
    unparked: bool,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Post> {
        // Nothing under the lock can leave the post half changed.
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unpark for Mailbox {
    fn unpark(&self) {
        self.lock().unparked = true;
        self.bell.notify_one();
    }
}

/// See the [module](self).
pub struct ThreadsReactor {
    clock: Clock,
    processors: usize,
    pool: Pool,
    mailbox: Arc<Mailbox>,
    answers: RefCell<Slab<Answer>>,
    pub(crate) at_once: AtOnce,
}

impl ThreadsReactor {
    /// A reactor with a pool of its own, in which no thread is started yet.
    pub fn new(clock: Clock) -> ThreadsReactor {
        ThreadsReactor {
            clock,
            processors: pool::processors(),
            pool: Pool::new("io", THREADS_MAX),
            mailbox: Arc::default(),
            answers: RefCell::default(),
            at_once: AtOnce::default(),
        }
    }

    /// Begins an operation; `answer` is given when it is done.
    pub(crate) fn start(&self, file: Arc<OpenFile>, operation: Operation, answer: Answer) {
        let key = self.answers.borrow_mut().insert(answer);
        let mailbox = Arc::clone(&self.mailbox);
        self.pool.run(Box::new(move || {
            let end = operation.run(&file);
            mailbox.lock().finished.push((key, end));
            mailbox.bell.notify_one();
        }));
    }

    fn give(&self, finished: Vec<(usize, Result<SgList, IoErrorKind>)>) {
        for (key, end) in finished {
            let answer = self.answers.borrow_mut().remove(key);
            answer.give(end);
        }
    }
}

impl Reactor for ThreadsReactor {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn poll(&self) {
        self.at_once.settle();
        if self.answers.borrow().is_empty() {
            return;
        }
        let finished = std::mem::take(&mut self.mailbox.lock().finished);
        self.give(finished);
    }

    fn park(&self, deadline: Option<Instant>) -> Parked {
        if self.at_once.settle() {
            return Parked::LookAgain;
        }
        let mut post = self.mailbox.lock();
        while post.finished.is_empty() && !post.unparked {
            post = match deadline.map(|deadline| deadline.since(self.clock.now())) {
                Some(left) if left.is_zero() => break,
                Some(left) => {
                    let woken = self.mailbox.bell.wait_timeout(post, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.mailbox.bell.wait(post).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let finished = std::mem::take(&mut post.finished);
        drop(post);
        self.give(finished);
        // The answers woke tasks of this very executor, which looks at them next.
        self.mailbox.lock().unparked = false;
        // As with io_uring, a real run never knows that waiting would not end.
        Parked::LookAgain
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.mailbox) as _
    }

    fn plan(&self, work: Work) -> ComputePlan {
        pool::plan(work, self.processors)
    }

    fn offload(&self, job: Job) {
        Pool::compute().run(job);
    }

    fn processor_time(&self) -> Duration {
        self.clock.processor_time()
    }
}
