//! A device whose engine runs on another executor: requests and answers cross in bounded messages.
//!
//! One executor is one core. A program that has several gives each some of the engines (a RAID set, a pool), and
//! whoever needs one of them from another executor asks for it here.
//!
//! ```text
//!   near executor                       Line (behind a lock)                  far executor
//!   Elsewhere::begin ── request ──▶  requests, WINDOW at the most  ──▶  serving task ──▶ device.submit
//!   answering task   ◀── answer ───  answers, no more than those   ◀──  when it has answered
//! ```
//!
//! [`Gate::open`] makes the far end where the device is. The gate, which may be sent to another thread, becomes the
//! near end there: [`Elsewhere::new`].
//!
//! **The contract** of [`Device`] holds as for any other:
//!
//! 1. Requests begin at the far device in the order in which they were submitted here, each polled at once. So what
//!    may be done in any order there may be here, and no more.
//! 2. An answer is given here after it was given there. So who awaits a write and then submits a flush has
//!    that flush submitted there after the write's answer.
//! 3. A future that is dropped here abandons the answer; the far device carries the request out.
//! 4. No more than [`WINDOW`] requests are in the messages and at the far device. Further ones wait here, in order; each
//!    belongs to a caller who holds it in memory anyway.
//!
//! **The end.** Where the far end is gone (its executor was dropped, or is unwinding from a panic), what is under way is
//! answered with [`IoErrorKind::Gone`], and what comes later, too: no request waits for ever. What became of writes under
//! way nobody knows, as when a disk is pulled. When the near end is gone the far one finishes what it took, lets go of
//! the device, and its task ends. An executor that exists and that nobody runs answers nothing: who opens a gate
//! keeps running its executor until the task has ended.
//!
//! **Costs.** A message is a push under a lock that is held for no longer than that. A side is woken when the first
//! message comes that it has not seen, so that many requests share a wake. Really the time is measured; in a
//! simulation each side's core is [booked](crate::WorkKind::Crossing).

use crate::device::{
    Device, DeviceRef, Extent, ExtentsFuture, Geometry, IoCompletion, IoError, IoErrorKind,
    IoFuture, IoResult, OpKind, Request,
};
use crate::executor::{Rt, Task};
use crate::work::{Work, WorkKind};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use stdx::{ByteCount, Instant, Offset};
use tokio::sync::oneshot;

/// Requests that have crossed and are not answered, at the most. More lets the far side go on for longer without a
/// look at the near one; each is a request's memory held there.
pub const WINDOW: usize = 512;

/// What crosses.
enum Ask {
    Io(Request),
    Extents(Offset, ByteCount, usize),
}

/// What comes back.
enum Answer {
    Io(IoResult),
    Extents(Result<Vec<Extent>, IoErrorKind>),
}

/// A request under way: its number here, and from when on it is there, in a simulation.
struct Message {
    number: usize,
    ask: Ask,
    not_before: Option<Instant>,
}

#[derive(Default)]
struct Post {
    requests: VecDeque<Message>,
    answers: Vec<(usize, Answer)>,
    near_is_gone: bool,
    far_is_gone: bool,
}

/// What the two ends share.
#[derive(Default)]
struct Line {
    post: Mutex<Post>,
    near: AtomicWaker,
    far: AtomicWaker,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, Post> {
        // Nothing under the lock can leave the post half changed.
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to a device on another executor. See the [module](self).
pub struct Gate {
    line: Arc<Line>,
    geometry: Geometry,
    name: Arc<str>,
}

impl Gate {
    /// Opens a way to `device`, on the executor that it belongs to. The task ends when the near end is gone and
    /// everything is answered; dropping it closes the way.
    pub fn open(rt: &Rt, device: DeviceRef) -> (Gate, Task<()>) {
        let line = Arc::new(Line::default());
        let (geometry, name) = (device.geometry(), device.name());
        let far = Far {
            end: FarEnd(Arc::clone(&line)),
            rt: rt.clone(),
            device,
            taken: VecDeque::new(),
            flights: FuturesUnordered::new(),
            done: Vec::new(),
        };
        (Gate { line, geometry, name }, rt.spawn(far))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Where it became a near end, that has put an empty line in its place.
        self.line.lock().near_is_gone = true;
        self.line.far.wake();
    }
}

/// Tells the near end when the far one goes, however it does.
struct FarEnd(Arc<Line>);

impl Drop for FarEnd {
    fn drop(&mut self) {
        let left = {
            let mut post = self.0.lock();
            post.far_is_gone = true;
            std::mem::take(&mut post.requests)
        };
        drop(left);
        self.0.near.wake();
    }
}

/// The task of the far end.
struct Far {
    end: FarEnd,
    rt: Rt,
    device: DeviceRef,
    taken: VecDeque<Message>,
    flights: FuturesUnordered<Flight>,
    done: Vec<(usize, Answer)>,
}

/// A request at the far device.
struct Flight {
    number: usize,
    answer: Answering,
}

enum Answering {
    Io(IoFuture),
    Extents(ExtentsFuture),
}

impl Future for Flight {
    type Output = (usize, Answer);
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(usize, Answer)> {
        let answer = match &mut self.answer {
            Answering::Io(future) => Answer::Io(ready!(Pin::new(future).poll(context))),
            Answering::Extents(future) => Answer::Extents(ready!(future.as_mut().poll(context))),
        };
        Poll::Ready((self.number, answer))
    }
}

impl Far {
    /// Begins a request.
    fn begin(&self, message: Message) -> Flight {
        let Message { number, ask, not_before } = message;
        let answer = match (ask, not_before) {
            (Ask::Io(request), None) => Answering::Io(self.device.submit(request)),
            (Ask::Io(request), Some(moment)) => {
                let (rt, device) = (self.rt.clone(), Rc::clone(&self.device));
                Answering::Io(IoFuture::new(async move {
                    rt.sleep_until(moment).await;
                    rt.charge(crossing()).await;
                    device.submit(request).await
                }))
            }
            (Ask::Extents(offset, len, count_max), _) => {
                Answering::Extents(self.device.extents(offset, len, count_max))
            }
        };
        Flight { number, answer }
    }
}

impl Future for Far {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let line = Arc::clone(&this.end.0);
        line.far.register(context.waker());
        let near_is_gone = {
            let mut post = line.lock();
            std::mem::swap(&mut post.requests, &mut this.taken);
            post.near_is_gone
        };
        while let Some(message) = this.taken.pop_front() {
            let mut flight = this.begin(message);
            // What is answered at once needs no place among the flights; what is not, is polled there again.
            match Pin::new(&mut flight).poll(context) {
                Poll::Ready(answer) => this.done.push(answer),
                Poll::Pending => this.flights.push(flight),
            }
        }
        while let Poll::Ready(Some(answer)) = this.flights.poll_next_unpin(context) {
            this.done.push(answer);
        }
        if !this.done.is_empty() {
            let was_empty = {
                let mut post = line.lock();
                let was_empty = post.answers.is_empty();
                post.answers.append(&mut this.done);
                was_empty
            };
            if was_empty {
                line.near.wake();
            }
        }
        if near_is_gone && this.flights.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// What a crossing costs each of the two executors.
fn crossing() -> Work {
    Work::new(WorkKind::Crossing, ByteCount::ZERO)
}

/// A device of another executor. See the [module](self).
pub struct Elsewhere {
    geometry: Geometry,
    name: Arc<str>,
    near: Rc<Near>,
}

/// The near end.
struct Near {
    rt: Rt,
    line: Arc<Line>,
    waiting: RefCell<Slab<Waiting>>,
    /// What is beyond the window.
    backlog: RefCell<VecDeque<(Ask, Waiting)>>,
    /// Nobody submits any more.
    is_left: Cell<bool>,
    far_is_gone: Cell<bool>,
    name: Arc<str>,
}

/// Who waits for an answer.
enum Waiting {
    Io { completion: IoCompletion, op: OpKind, offset: Offset, len: ByteCount },
    Extents(oneshot::Sender<Result<Vec<Extent>, IoErrorKind>>),
}

impl Elsewhere {
    /// The device behind the gate, for this executor.
    pub fn new(rt: &Rt, mut gate: Gate) -> Rc<Elsewhere> {
        let line = std::mem::take(&mut gate.line);
        let name = Arc::clone(&gate.name);
        let near = Rc::new(Near {
            rt: rt.clone(),
            line,
            waiting: RefCell::default(),
            backlog: RefCell::default(),
            is_left: Cell::new(false),
            far_is_gone: Cell::new(false),
            name: Arc::clone(&name),
        });
        rt.spawn(Answers { near: Rc::clone(&near), taken: Vec::new() }).detach();
        Rc::new(Elsewhere { geometry: gate.geometry, name, near })
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.near.is_left.set(true);
        self.near.line.near.wake();
    }
}

impl Near {
    fn ask(&self, ask: Ask, waiting: Waiting) {
        if self.far_is_gone.get() {
            self.give_up(waiting);
        } else if self.waiting.borrow().len() < WINDOW {
            self.send(ask, waiting);
        } else {
            self.backlog.borrow_mut().push_back((ask, waiting));
        }
    }

    fn send(&self, ask: Ask, waiting: Waiting) {
        let number = self.waiting.borrow_mut().insert(waiting);
        let not_before = self.rt.book(crossing());
        let was_empty = {
            let mut post = self.line.lock();
            // Where the far end has just gone, the answering task is woken, and gives up on all.
            let was_empty = post.requests.is_empty();
            post.requests.push_back(Message { number, ask, not_before });
            was_empty
        };
        if was_empty {
            self.line.far.wake();
        }
    }

    fn give_up(&self, waiting: Waiting) {
        let kind = IoErrorKind::Gone;
        match waiting {
            Waiting::Io { completion, op, offset, len } => {
                let device = Arc::clone(&self.name);
                completion.complete(Err(IoError { kind, op, offset, len, device }));
            }
            // Who asked may have gone.
            Waiting::Extents(sender) => drop(sender.send(Err(kind))),
        }
    }

    fn answered(&self, number: usize, answer: Answer) {
        let waiting = self.waiting.borrow_mut().remove(number);
        match (waiting, answer) {
            (Waiting::Io { completion, .. }, Answer::Io(result)) => completion.complete(result),
            (Waiting::Extents(sender), Answer::Extents(found)) => drop(sender.send(found)),
            _ => unreachable!("an answer is of its question's kind"),
        }
        let next = self.backlog.borrow_mut().pop_front();
        if let Some((ask, waiting)) = next {
            self.send(ask, waiting);
        }
    }
}

/// The task of the near end.
struct Answers {
    near: Rc<Near>,
    taken: Vec<(usize, Answer)>,
}

impl Future for Answers {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let near = &this.near;
        near.line.near.register(context.waker());
        let far_is_gone = {
            let mut post = near.line.lock();
            std::mem::swap(&mut post.answers, &mut this.taken);
            post.far_is_gone
        };
        for (number, answer) in this.taken.drain(..) {
            near.answered(number, answer);
        }
        if far_is_gone {
            near.far_is_gone.set(true);
            let waiting: Vec<Waiting> = near.waiting.borrow_mut().drain().collect();
            let backlog = std::mem::take(&mut *near.backlog.borrow_mut());
            let backlog = backlog.into_iter().map(|(_, waiting)| waiting);
            waiting.into_iter().chain(backlog).for_each(|waiting| near.give_up(waiting));
            return Poll::Ready(());
        }
        let is_over = near.is_left.get() && near.waiting.borrow().is_empty();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Answers {
    /// The far end may go; where this executor ends, nobody hears of what is under way.
    fn drop(&mut self) {
        self.near.line.lock().near_is_gone = true;
        self.near.line.far.wake();
    }
}

impl Device for Elsewhere {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let (completion, answer) = IoFuture::pending();
        let (op, offset, len) = (request.kind(), request.offset, request.len());
        self.near.ask(Ask::Io(request), Waiting::Io { completion, op, offset, len });
        answer
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        let (sender, receiver) = oneshot::channel();
        self.near.ask(Ask::Extents(offset, len, count_max), Waiting::Extents(sender));
        Box::pin(async move { receiver.await.unwrap_or(Err(IoErrorKind::Gone)) })
    }
}

#[cfg(test)]
mod tests;
