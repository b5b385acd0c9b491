//! Who is to be told what became of an operation, and how an operation that never waits is answered.
//!
//! **At once, but not for ever.** A file in memory is read and written by a copy, here and now, and
//! the answer is there when `submit` returns. A task that never has to wait never lets another run:
//! it would starve timers and tasks. So of the answers between two looks at the outside
//! ([`Reactor::poll`](rt::Reactor::poll)), [`AT_ONCE_MAX`] are given at once, and the others at the
//! next look.

use crate::handle::Writers;
use rt::{IoCompletion, IoError, IoErrorKind, IoFuture, IoResult, OpKind, Request, SgList};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// Answers given at once between two looks at the outside. More saves turns of the executor's loop;
/// timers and other tasks wait longer.
const AT_ONCE_MAX: u32 = 16;

/// What a request was, for the error that it may end with.
pub(crate) struct What {
    device: Arc<str>,
    op: OpKind,
    offset: Offset,
    len: ByteCount,
}

impl What {
    pub(crate) fn of(request: &Request, device: &Arc<str>) -> What {
        What {
            device: Arc::clone(device),
            op: request.kind(),
            offset: request.offset,
            len: request.len(),
        }
    }

    pub(crate) fn result(self, end: Result<SgList, IoErrorKind>) -> IoResult {
        let What { device, op, offset, len } = self;
        end.map_err(|kind| IoError { kind, op, offset, len, device })
    }
}

/// The duty to answer a request.
pub(crate) struct Answer {
    pub(crate) completion: IoCompletion,
    pub(crate) what: What,
}

impl Answer {
    pub(crate) fn give(self, end: Result<SgList, IoErrorKind>) {
        self.completion.complete(self.what.result(end));
    }
}

/// Answers of operations that are done already. See the [module](self).
#[derive(Default)]
pub(crate) struct AtOnce {
    /// How often the outside was looked at.
    looks: Cell<u64>,
    /// Files that are open for writing here.
    pub(crate) writers: Writers,
    given: Cell<u32>,
    owed: RefCell<Vec<(IoCompletion, IoResult)>>,
}

impl AtOnce {
    /// A future that has this answer, now or after the next [`settle`](AtOnce::settle).
    pub(crate) fn answer(&self, result: IoResult) -> IoFuture {
        if self.given.get() < AT_ONCE_MAX {
            self.given.set(self.given.get() + 1);
            return IoFuture::ready(result);
        }
        let (completion, future) = IoFuture::pending();
        self.owed.borrow_mut().push((completion, result));
        future
    }

    /// How often the outside was looked at: what was seen since the last time is held for what is there now.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// Gives the answers that are owed. Returns whether there were any.
    pub(crate) fn settle(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.given.set(0);
        if self.owed.borrow().is_empty() {
            return false;
        }
        // Waking may submit again only through a task that runs later; still no borrow is held here.
        let mut owed = self.owed.take();
        for (completion, result) in owed.drain(..) {
            completion.complete(result);
        }
        let mut kept = self.owed.borrow_mut();
        if kept.is_empty() {
            *kept = owed;
        }
        true
    }
}
