//! I/Os under way: a fixed number of places, each with its waker, and the order of their answers.
//!
//! Nothing is allocated for an I/O. A place's waker puts the place's number on a list and wakes the
//! worker once; so a worker with many I/Os under way looks at those that were answered, not at all.
//!
//! Answers that are there at once (files in memory, synchronous calls) wait in the order in which they
//! came until the job takes them, which it does as fio does: when all places are taken. So latency
//! includes the time that an answer waits for the job to look, in both programs.

use rt::{IoFuture, IoResult};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Places whose answers came, and who waits for them.
#[derive(Default)]
struct Answered {
    state: Mutex<AnsweredState>,
}

#[derive(Default)]
struct AnsweredState {
    places: Vec<usize>,
    worker: Option<Waker>,
}

impl Answered {
    fn state(&self) -> std::sync::MutexGuard<'_, AnsweredState> {
        // Lists of numbers are whole whatever happened to a thread that held them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PlaceWaker {
    place: usize,
    answered: Arc<Answered>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let worker = {
            let mut state = self.answered.state();
            state.places.push(self.place);
            state.worker.take()
        };
        if let Some(worker) = worker {
            worker.wake();
        }
    }
}

struct Place<T> {
    what: Option<T>,
    future: Option<IoFuture>,
    waker: Waker,
}

/// See the [module](self). `T` is what the job remembers of an I/O.
pub(super) struct Queue<T> {
    places: Vec<Place<T>>,
    free: Vec<usize>,
    done: VecDeque<(usize, IoResult)>,
    answered: Arc<Answered>,
    /// Taken from `answered` to be looked at, kept for its memory.
    look_at: Vec<usize>,
    last: usize,
}

impl<T> Queue<T> {
    /// With room for so many.
    pub(super) fn new(depth: usize) -> Queue<T> {
        let answered = Arc::<Answered>::default();
        let place = |place| Place {
            what: None,
            future: None,
            waker: Waker::from(Arc::new(PlaceWaker { place, answered: Arc::clone(&answered) })),
        };
        Queue {
            places: (0..depth).map(place).collect(),
            free: (0..depth).rev().collect(),
            done: VecDeque::with_capacity(depth),
            answered,
            look_at: Vec::new(),
            last: 0,
        }
    }

    /// How many are under way, answered ones that were not taken among them.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether the I/O that was submitted last waits for its answer.
    pub(super) fn last_waits(&self) -> bool {
        self.places.get(self.last).is_some_and(|place| place.future.is_some())
    }

    /// Takes an I/O that was just submitted. The future is polled at once; `what` is told whether the
    /// answer was there.
    ///
    /// # Panics
    /// If there is no room: who submits looks at [`len`](Queue::len) first.
    pub(super) fn push(&mut self, mut future: IoFuture, what: impl FnOnce(bool) -> T) {
        let at = self.free.pop().expect("a job submits only as many as its depth");
        let place = &mut self.places[at];
        let poll = Pin::new(&mut future).poll(&mut Context::from_waker(&place.waker));
        place.what = Some(what(poll.is_ready()));
        match poll {
            Poll::Ready(result) => self.done.push_back((at, result)),
            Poll::Pending => place.future = Some(future),
        }
        self.last = at;
    }

    /// What is remembered of the I/O that was submitted last, while it was not taken.
    pub(super) fn last_pushed(&mut self) -> Option<&mut T> {
        self.places.get_mut(self.last)?.what.as_mut()
    }

    /// The next answered I/O, if there is one.
    pub(super) fn take(&mut self) -> Option<(T, IoResult)> {
        // What was answered waits behind what was answered before it, not behind all to come.
        self.look();
        let (at, result) = self.done.pop_front()?;
        self.free.push(at);
        let what = self.places[at].what.take().expect("a place that is taken remembers its I/O");
        Some((what, result))
    }

    /// Waits until [`take`](Queue::take) gives one.
    pub(super) async fn wait(&mut self) {
        std::future::poll_fn(|context| {
            self.look();
            if !self.done.is_empty() || self.len() == 0 {
                return Poll::Ready(());
            }
            let mut state = self.answered.state();
            if state.places.is_empty() {
                match &mut state.worker {
                    Some(worker) => worker.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            // Answered between the look and the lock.
            drop(state);
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn look(&mut self) {
        if self.len() == self.done.len() {
            return;
        }
        std::mem::swap(&mut self.look_at, &mut self.answered.state().places);
        for at in self.look_at.drain(..) {
            let place = &mut self.places[at];
            // A place may be on the list for an I/O that was answered before; then this is harmless.
            let Some(future) = &mut place.future else { continue };
            let mut context = Context::from_waker(&place.waker);
            if let Poll::Ready(result) = Pin::new(future).poll(&mut context) {
                place.future = None;
                self.done.push_back((at, result));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: an answer that is lost, so that a job waits for ever; answers out of order.

    use super::*;
    use rt::SgList;

    fn runtime() -> rt::Runtime {
        rt::Runtime::new(sim::SimReactor::new(sim::host::Processor::infinite()))
    }

    #[test]
    fn answers_at_once_come_in_order_and_later_ones_when_they_come() {
        let taken = runtime().block_on(async {
            let mut queue = Queue::new(3);
            queue.push(IoFuture::ready(Ok(SgList::new())), |at_once| (0, at_once));
            let (completion, future) = IoFuture::pending();
            queue.push(future, |at_once| (1, at_once));
            queue.push(IoFuture::ready(Ok(SgList::new())), |at_once| (2, at_once));
            let mut taken = vec![queue.take().map(|(what, _)| what)];
            taken.push(queue.take().map(|(what, _)| what));
            taken.push(queue.take().map(|(what, _)| what));
            completion.complete(Ok(SgList::new()));
            queue.wait().await;
            taken.push(queue.take().map(|(what, _)| what));
            assert_eq!(queue.len(), 0);
            taken
        });
        assert_eq!(taken, Ok(vec![Some((0, true)), Some((2, true)), None, Some((1, false))]));
    }
}
