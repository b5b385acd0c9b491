//! The executor: cooperative tasks on one thread.
//!
//! **Order.** Ready tasks run first in, first out; timers that are due wake their tasks in the order of
//! their deadlines, ties in the order of arming. So with a simulated reactor a run is the same event
//! for event every time.
//!
//! **One thread.** Tasks need not be `Send`, and an engine needs no locks: between two `await`s nothing
//! else runs. Wakers may be called from any thread (`compute` does); the queue is behind a lock for
//! that, which nobody contends in the common case.
//!
//! **The end.** [`Runtime::block_on`] returns when its future does; other tasks stay, and go on in the
//! next `block_on`. Dropping the [`Runtime`] drops all tasks, even those that wait for one another in
//! a circle, so a run leaves nothing behind.
//!
//! **A stall.** When no task is ready, no timer armed and nothing under way outside, the future can
//! never finish: `block_on` returns [`Stalled`].

use crate::guarded::{Panicked, catching_panics};
use crate::reactor::{ComputePlan, Parked, Reactor, Unpark};
use crate::timers::{TimerKey, Timers};
use crate::work::Work;
use async_task::Runnable;
pub use async_task::Task;
use futures_util::FutureExt as _;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stdx::Instant;

/// Tasks that run between two looks at timers and completions. More makes a busy executor cheaper,
/// and completions wait longer.
const BATCH_MAX: usize = 64;

/// The future given to [`Runtime::block_on`] can never finish: all tasks wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all tasks wait and nothing is under way that could wake one")]
pub struct Stalled;

/// An executor with its reactor. See the [module](self).
pub struct Runtime {
    rt: Rt,
}

/// An engine's handle to its executor: time, sleep, spawn, compute. Cheap to clone.
#[derive(Clone)]
pub struct Rt(Rc<Inner>, Option<Watch>);

/// What tasks are called, and who hears of one that panicked. See [`Rt::watched`].
type Watch = (Arc<str>, Rc<dyn Fn(Panicked)>);

struct Inner {
    reactor: Rc<dyn Reactor>,
    queue: Arc<Queue>,
    timers: RefCell<Timers>,
    /// A waker of each task that has not ended, so that shutting down reaches all of them.
    tasks: RefCell<Slab<Option<Waker>>>,
    shut_down: Cell<bool>,
}

/// Ready tasks. The only part of the executor that other threads touch.
struct Queue {
    ready: Mutex<VecDeque<Runnable>>,
    parked: AtomicBool,
    unpark: Arc<dyn Unpark>,
}

impl Queue {
    fn push(&self, runnable: Runnable) {
        // A panic while the lock is held is impossible (pushing aborts on lack of memory), so a
        // poisoned lock still holds a whole queue.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(runnable);
        if self.parked.load(Ordering::SeqCst) {
            self.unpark.unpark();
        }
    }

    fn take(&self, batch: &mut VecDeque<Runnable>) {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if batch.is_empty() && ready.len() <= BATCH_MAX {
            std::mem::swap(batch, &mut ready);
        } else {
            let count = ready.len().min(BATCH_MAX);
            batch.extend(ready.drain(..count));
        }
    }

    fn is_empty(&self) -> bool {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Runtime {
    /// An executor over this reactor.
    pub fn new(reactor: Rc<dyn Reactor>) -> Runtime {
        let unpark = reactor.unparker();
        Runtime {
            rt: Rt(
                Rc::new(Inner {
                    reactor,
                    queue: Arc::new(Queue {
                        ready: Mutex::default(),
                        parked: AtomicBool::new(false),
                        unpark,
                    }),
                    timers: RefCell::default(),
                    tasks: RefCell::default(),
                    shut_down: Cell::new(false),
                }),
                None,
            ),
        }
    }

    /// The handle that tasks use.
    pub fn handle(&self) -> Rt {
        self.rt.clone()
    }

    /// Runs tasks until `future` ends.
    ///
    /// # Errors
    /// [`Stalled`] when it can never end.
    // Inlined, so that what a program waits for is compiled beside where it waits, and not with all else that is waited for.
    #[inline]
    pub fn block_on<F>(&self, future: F) -> Result<F::Output, Stalled>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let result = Rc::new(RefCell::new(None));
        let left = Rc::clone(&result);
        self.run_to_end(Box::pin(async move { *left.borrow_mut() = Some(future.await) }))?;
        let output = result.borrow_mut().take();
        Ok(output.expect("a task that ended left its result"))
    }

    /// Runs tasks until this one ends. One piece of code for whatever it is: programs wait in hundreds of places.
    fn run_to_end(&self, main: Pin<Box<dyn Future<Output = ()>>>) -> Result<(), Stalled> {
        let main = self.rt.spawn(main);
        let inner = &self.rt.0;
        let mut batch = VecDeque::new();
        loop {
            self.run_ready(&mut batch);
            if main.is_finished() {
                return Ok(());
            }
            if !inner.queue.is_empty() {
                inner.reactor.poll();
                self.fire_timers();
                continue;
            }
            // Parking takes what is there, as polling does, and does not wait where a timer is due: one
            // look at the outside and at the clock, not two.
            inner.queue.parked.store(true, Ordering::SeqCst);
            // A waker of another thread may have come between the look and the store.
            let parked = if inner.queue.is_empty() {
                let deadline = inner.timers.borrow_mut().next_deadline();
                inner.reactor.park(deadline)
            } else {
                Parked::LookAgain
            };
            inner.queue.parked.store(false, Ordering::SeqCst);
            if parked == Parked::Stalled && inner.queue.is_empty() {
                return Err(Stalled);
            }
            self.fire_timers();
        }
    }

    /// Runs the tasks that are ready, some at the most, takes what there is from outside and fires the timers that are
    /// due, without waiting. False where there was nothing to do: then who turns several executors waits until
    /// the [next timer](Runtime::next_deadline) or whatever comes from outside.
    pub fn turn(&self) -> bool {
        let inner = &self.rt.0;
        let mut batch = VecDeque::new();
        let has_run = self.run_ready(&mut batch);
        inner.reactor.poll();
        self.fire_timers();
        has_run || !inner.queue.is_empty()
    }

    /// When the next timer is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.rt.0.timers.borrow_mut().next_deadline()
    }

    /// Runs a batch of what is ready; whether there was any.
    fn run_ready(&self, batch: &mut VecDeque<Runnable>) -> bool {
        self.rt.0.queue.take(batch);
        let has_run = !batch.is_empty();
        for runnable in batch.drain(..) {
            runnable.run();
        }
        has_run
    }

    fn fire_timers(&self) {
        let inner = &self.rt.0;
        if inner.timers.borrow_mut().next_deadline().is_none() {
            return;
        }
        let now = inner.reactor.now();
        loop {
            let waker = inner.timers.borrow_mut().pop_due(now);
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }
}

impl Drop for Runtime {
    /// Drops every task: wakes them all, so that each has a runnable in the queue, and drops those.
    fn drop(&mut self) {
        let inner = &self.rt.0;
        inner.shut_down.set(true);
        // A task's drop may wake or spawn others; each round deals with what the last left.
        loop {
            let wakers: Vec<Waker> =
                inner.tasks.borrow_mut().iter_mut().filter_map(|(_, waker)| waker.take()).collect();
            let timers = inner.timers.borrow_mut().clear();
            let mut runnables = VecDeque::new();
            let idle = wakers.is_empty();
            wakers.into_iter().for_each(Waker::wake);
            drop(timers);
            inner.queue.take(&mut runnables);
            if idle && runnables.is_empty() {
                return;
            }
            drop(runnables);
        }
    }
}

/// Of any task with such an output, so that it is compiled once for all of them.
async fn watched<T>(
    task: Arc<str>,
    watch: Rc<dyn Fn(Panicked)>,
    future: Pin<Box<dyn Future<Output = T>>>,
) -> T {
    match catching_panics(task, future).await {
        Ok(output) => output,
        Err(panicked) => {
            watch(panicked);
            std::future::pending().await
        }
    }
}

impl Rt {
    /// Now.
    pub fn now(&self) -> Instant {
        self.0.reactor.now()
    }

    /// Processor time used so far: measured in a real run, modelled in a simulated one.
    pub fn processor_time(&self) -> Duration {
        self.0.reactor.processor_time()
    }

    /// Processor time used so far on this executor's own core, where that is known apart from the rest.
    pub fn executor_time(&self) -> Option<Duration> {
        self.0.reactor.executor_time()
    }

    /// The same executor for an engine of which each task may end by a panic, and nothing outside it with it: `watch`
    /// hears of each. The module [`guarded`](crate::guarded) says what that leaves behind, and what `watch` has to see
    /// to. Who waits for a task that ended so waits for ever, so engines detach theirs.
    #[must_use]
    pub fn watched(&self, task: &str, watch: impl Fn(Panicked) + 'static) -> Rt {
        Rt(Rc::clone(&self.0), Some((task.into(), Rc::new(watch))))
    }

    /// Starts a task. Dropping the [`Task`] cancels it; [`Task::detach`] lets it run on its own.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let Some((task, watch)) = self.1.clone() else { return self.spawn_bare(future) };
        self.spawn_bare(watched(task, watch, Box::pin(future)))
    }

    /// Starts a task whose panic is its own. See [`guarded`](crate::guarded) for where that may be gone on from.
    pub fn spawn_guarded<F>(
        &self,
        task: impl Into<Arc<str>>,
        future: F,
    ) -> Task<Result<F::Output, Panicked>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn(catching_panics(task, Box::pin(future)))
    }

    fn spawn_bare<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let inner = Rc::clone(&self.0);
        let key = inner.tasks.borrow_mut().insert(None);
        let entry = TaskEntry { inner: Rc::clone(&inner), key };
        let queue = Arc::clone(&inner.queue);
        // Not an async block: that would hold the future twice, as what it was given and as what it awaits.
        let future = future.map(move |output| {
            drop(entry);
            output
        });
        let (runnable, task) =
            async_task::spawn_local(future, move |runnable| queue.push(runnable));
        if let Some(waker) = inner.tasks.borrow_mut().get_mut(key) {
            *waker = Some(runnable.waker());
        }
        if inner.shut_down.get() {
            // The runnable is dropped, and the task with it: nothing would run it any more.
            drop(runnable);
        } else {
            runnable.schedule();
        }
        task
    }

    /// Waits until `deadline`; returns at once where it has passed.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { rt: self.clone(), deadline, key: None }
    }

    /// Waits for `span`.
    pub fn sleep(&self, span: Duration) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// Lets every other ready task run once before going on.
    pub fn yield_now(&self) -> impl Future<Output = ()> + use<> {
        let mut yielded = false;
        std::future::poll_fn(move |context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Does work that burns processor time. Really: small work at once, [large](Work::is_large) work on another
    /// thread. Simulated: at once, and the task goes on when a modelled core would be done: the executor's own,
    /// or another, as it would be really.
    ///
    /// What the work needs it owns ([`Buf`](crate::Buf)s are cheap to clone), and it gives back what
    /// it made.
    pub fn compute<T, F>(&self, work: Work, job: F) -> impl Future<Output = T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // Here and not when it is polled first: so the future doesn't carry the work.
        let plan = self.0.reactor.plan(work);
        async move {
            match plan {
                ComputePlan::Inline => job(),
                ComputePlan::InlineUntil(done) => {
                    let output = job();
                    self.sleep_until(done).await;
                    output
                }
                ComputePlan::Offload => {
                    let (sender, receiver) = tokio::sync::oneshot::channel();
                    self.0.reactor.offload(Box::new(move || {
                        // Nobody waits any more where the task was cancelled.
                        let _ = sender.send(job());
                    }));
                    receiver.await.expect("a worker finishes each job it took")
                }
            }
        }
    }

    /// Books processor time for work that is not done through [`compute`](Rt::compute) (the host's share of an
    /// I/O), and waits for it in a simulated run. Nothing in a real one, where the time is measured. It is this
    /// executor's core that is busy with it, unless the work may be done [anywhere](Work::anywhere).
    pub async fn charge(&self, work: Work) {
        if let Some(done) = self.book(work) {
            self.sleep_until(done).await;
        }
    }

    /// Books processor time as [`charge`](Rt::charge) does, and says when the core will be done; nothing in a
    /// real run.
    pub fn book(&self, work: Work) -> Option<Instant> {
        match self.0.reactor.plan(work.here()) {
            ComputePlan::InlineUntil(done) => Some(done),
            ComputePlan::Inline | ComputePlan::Offload => None,
        }
    }
}

/// Removes a task from the table when its future is dropped, at its end or before.
struct TaskEntry {
    inner: Rc<Inner>,
    key: usize,
}

impl Drop for TaskEntry {
    fn drop(&mut self) {
        let waker = self.inner.tasks.borrow_mut().try_remove(self.key);
        drop(waker);
    }
}

/// Waits for a moment. See [`Rt::sleep_until`].
pub struct Sleep {
    rt: Rt,
    deadline: Instant,
    key: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let rt = self.rt.clone();
        match self.key {
            None if rt.now() >= self.deadline => Poll::Ready(()),
            None => {
                let waker = context.waker().clone();
                self.key = Some(rt.0.timers.borrow_mut().arm(self.deadline, waker));
                Poll::Pending
            }
            Some(key) => {
                if rt.0.timers.borrow_mut().fired(key, context.waker()) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.rt.0.timers.borrow_mut().disarm(key);
        }
    }
}

#[cfg(test)]
mod tests;
