//! What keeps a bug of ours in one set from the other sets of a program, and from the set's own members.
//!
//! ```text
//!   hosts ──▶ Above ──▶ the engine ──▶ Below ──▶ member
//!               │         tasks: Rt::watched     │
//!               └──────────── Fuse ──────────────┘
//! ```
//!
//! A panic in the engine leaves it with state that nobody can trust: a row half computed, a count that was not lowered,
//! a lock that is free too early. So the first one blows the set's fuse, for good:
//!
//! * *Nothing more reaches any device of the set.* Everything goes through a [`Below`]: data, superblocks, bitmap, logs,
//!   journal. So no superblock ever says "clean" after it. On the members it is as after a power cut: what was flushed is
//!   there, and the next start resynchronises, or replays a log.
//! * *Every request of a host ends with an error*, those that wait and those that come, rather than never.
//! * *Stopping the set* is an error that says what happened.
//!
//! Panics are caught where they can be: in tasks of the engine ([`rt::Rt::watched`]), and where a host's request is
//! handed over or polled ([`Above`]). Not caught are those of the commands that open, grow or dump one set and do
//! nothing else: they end the program, which has nothing else to lose. Nor is what can't be caught: see [`rt::guarded`].
//!
//! What it does not do: tell a wrong result that panics nowhere.

use futures_util::FutureExt;
use rt::guarded::{Guarded, Panicked, catching_panics};
use rt::{
    Device, DeviceRef, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture, IoResult, Request,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use stdx::{ByteCount, Offset};

/// See the [module](self).
#[derive(Default)]
pub(super) struct Fuse {
    blown: RefCell<Option<Panicked>>,
    is_blown: Cell<bool>,
    /// Who waits for an answer that would never come.
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Fuse {
    /// A bug showed. The first one is the one to tell.
    pub(super) fn blow(&self, panicked: Panicked) {
        if self.is_blown.replace(true) {
            return;
        }
        *self.blown.borrow_mut() = Some(panicked);
        self.waiting.take().into_values().for_each(Waker::wake);
    }

    /// What blew it.
    pub(super) fn blown(&self) -> Option<Panicked> {
        self.blown.borrow().clone()
    }

    /// Ends when it is blown.
    pub(super) fn wait(self: &Rc<Self>) -> Waiting {
        Waiting { fuse: Rc::clone(self), key: None }
    }
}

/// See [`Fuse::wait`].
pub(super) struct Waiting {
    fuse: Rc<Fuse>,
    key: Option<u64>,
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.fuse.is_blown.get() {
            return Poll::Ready(());
        }
        let key = self.key.unwrap_or_else(|| self.fuse.next.get());
        if self.key.is_none() {
            self.fuse.next.set(key + 1);
            self.key = Some(key);
        }
        self.fuse.waiting.borrow_mut().insert(key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let waker = self.fuse.waiting.borrow_mut().remove(&key);
        drop(waker);
    }
}

/// A device of the set, as the set sees it: gone, once the fuse is blown.
pub(super) struct Below {
    device: DeviceRef,
    fuse: Rc<Fuse>,
}

impl Below {
    pub(super) fn over(device: &DeviceRef, fuse: &Rc<Fuse>) -> DeviceRef {
        Rc::new(Below { device: Rc::clone(device), fuse: Rc::clone(fuse) })
    }
}

impl Device for Below {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.device.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        if self.fuse.is_blown.get() {
            return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::Gone)));
        }
        self.device.submit(request)
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        self.device.extents(offset, len, count_max)
    }
}

/// The set, as hosts see it.
pub(super) struct Above {
    array: DeviceRef,
    fuse: Rc<Fuse>,
    task: Arc<str>,
}

impl Above {
    pub(super) fn over(array: DeviceRef, fuse: &Rc<Fuse>, task: &str) -> DeviceRef {
        Rc::new(Above { array, fuse: Rc::clone(fuse), task: task.into() })
    }
}

impl Device for Above {
    fn geometry(&self) -> Geometry {
        self.array.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.array.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let gone = IoError::of(&request, self, IoErrorKind::Gone);
        if self.fuse.is_blown.get() {
            return IoFuture::ready(Err(gone));
        }
        // Handed over here and now, as every device does; what may panic is a future that ends at once.
        let mut request = Some(request);
        let array = &self.array;
        let begin = std::future::poll_fn(move |_| {
            Poll::Ready(request.take().map(|request| array.submit(request)))
        });
        let begun = catching_panics(Arc::clone(&self.task), begin).now_or_never();
        match begun {
            Some(Ok(Some(future))) => {
                let answer = catching_panics(Arc::clone(&self.task), future);
                IoFuture::new(Answer { answer, waiting: self.fuse.wait(), gone })
            }
            Some(Err(panicked)) => {
                self.fuse.blow(panicked);
                IoFuture::ready(Err(gone))
            }
            Some(Ok(None)) | None => unreachable!("it ends when it is first polled"),
        }
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        self.array.extents(offset, len, count_max)
    }
}

/// A host's request under way.
struct Answer {
    answer: Guarded<IoFuture>,
    waiting: Waiting,
    gone: IoError,
}

impl Future for Answer {
    type Output = IoResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult> {
        let is_blown = self.waiting.fuse.is_blown.get();
        if !is_blown && let Poll::Ready(answer) = Pin::new(&mut self.answer).poll(context) {
            return Poll::Ready(answer.unwrap_or_else(|panicked| {
                self.waiting.fuse.blow(panicked);
                Err(self.gone.clone())
            }));
        }
        match Pin::new(&mut self.waiting).poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(self.gone.clone())),
            Poll::Pending => Poll::Pending,
        }
    }
}
