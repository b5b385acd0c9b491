//! The memory of all clients together: requests under way, on whichever connection, whether or not its client is still
//! there.
//!
//! A request takes its [`Share`] before anything is allocated for it and gives it back when its answer was written, or
//! when it has ended and nobody is left to be answered. Where there is none left, requests wait in the order in which
//! they came, a large one as long as a small one; their connections are read no further meanwhile, so that clients wait.
//! So what clients take never grows beyond the limit.
//!
//! A client may hold its shares for as long as it likes, by not taking answers or by stopping in the midst of a write,
//! as long as nobody [waits](Memory::is_wanted) for them.

use super::outbox::Share;
use rt::PAGE;
use rt::sync::{Notify, Semaphore};
use std::cell::Cell;

/// See the [module](self).
pub(crate) struct Memory {
    /// In pages: one for the request itself, and those of its bytes.
    free: Semaphore,
    pages: usize,
    waiting: Cell<usize>,
    wanted: Notify,
    returned: Notify,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Memory {
        let pages = usize::try_from(bytes / PAGE as u64).unwrap_or(usize::MAX);
        // A request asks for 32 bits of pages at the most, and the semaphore has its own limit.
        let pages = pages.min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Memory {
            free: Semaphore::new(pages),
            pages,
            waiting: Cell::new(0),
            wanted: Notify::new(),
            returned: Notify::new(),
        }
    }

    /// Takes a share where it is there at once and nobody waits for one.
    pub(crate) fn try_take(&self, share: Share) -> bool {
        if self.is_wanted() {
            return false;
        }
        match self.free.try_acquire_many(pages_of(share)) {
            Ok(taken) => {
                taken.forget();
                true
            }
            Err(_) => false,
        }
    }

    /// Takes a share, which is given back by [`give_back`](Memory::give_back).
    pub(crate) async fn take(&self, share: Share) {
        self.waiting.set(self.waiting.get() + 1);
        self.wanted.notify_waiters();
        let waits = Waits(self);
        let taken = self.free.acquire_many(pages_of(share)).await;
        taken.expect("nobody closes the semaphore").forget();
        drop(waits);
    }

    pub(crate) fn give_back(&self, share: Share) {
        self.free.add_permits(pages_of(share) as usize);
        if self.is_idle() {
            self.returned.notify_waiters();
        }
    }

    /// Whether somebody waits for a share.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Waits until somebody waits for a share.
    pub(crate) async fn wanted(&self) {
        let wanted = self.wanted.notified();
        if !self.is_wanted() {
            wanted.await;
        }
    }

    /// Whether no request is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.available_permits() == self.pages
    }

    /// Waits for a moment at which none is; look again then.
    pub(crate) async fn returned(&self) {
        self.returned.notified().await;
    }
}

struct Waits<'a>(&'a Memory);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

/// Shares are whole pages, so that what several requests took and what is given back at once is the same.
fn pages_of(share: Share) -> u32 {
    debug_assert!(share.bytes.is_multiple_of(PAGE), "memory is taken by pages");
    u32::try_from(share.requests + share.bytes / PAGE).unwrap_or(u32::MAX)
}
