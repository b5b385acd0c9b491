//! Host I/O on an extent, or its move: not both.
//!
//! Reads and writes share an extent; a move has it alone. A move that waits is not overtaken: requests
//! that come after it wait until it is done. Locks are of single extents and nobody holds two, so there
//! is no order to keep.

use rt::sync::Notify;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct ExtentLocks {
    held: RefCell<BTreeMap<u32, Held>>,
    changed: Notify,
}

#[derive(Default)]
struct Held {
    sharers: u32,
    /// Someone moves it, or waits for the sharers to go.
    moving: bool,
}

/// An extent is held as long as this lives.
pub(crate) struct ExtentGuard {
    locks: Rc<ExtentLocks>,
    extent: u32,
    alone: bool,
}

impl ExtentLocks {
    /// Holds an extent for host I/O.
    pub(crate) async fn shared(self: &Rc<Self>, extent: u32) -> ExtentGuard {
        loop {
            {
                let mut held = self.held.borrow_mut();
                let entry = held.entry(extent).or_default();
                if !entry.moving {
                    entry.sharers += 1;
                    return self.guard(extent, false);
                }
            }
            self.changed.notified().await;
        }
    }

    /// Holds an extent for its move.
    pub(crate) async fn alone(self: &Rc<Self>, extent: u32) -> ExtentGuard {
        loop {
            {
                let mut held = self.held.borrow_mut();
                let entry = held.entry(extent).or_default();
                if !entry.moving {
                    entry.moving = true;
                    break;
                }
            }
            self.changed.notified().await;
        }
        // From here on no new sharers come; the guard gives the extent free even where this is dropped.
        let guard = self.guard(extent, true);
        while self.held.borrow().get(&extent).is_some_and(|entry| entry.sharers > 0) {
            self.changed.notified().await;
        }
        guard
    }

    fn guard(self: &Rc<Self>, extent: u32, alone: bool) -> ExtentGuard {
        ExtentGuard { locks: Rc::clone(self), extent, alone }
    }
}

impl Drop for ExtentGuard {
    fn drop(&mut self) {
        let wake = {
            let mut held = self.locks.held.borrow_mut();
            let entry = held.get_mut(&self.extent).expect("a guard holds its extent");
            if self.alone {
                entry.moving = false;
            } else {
                entry.sharers -= 1;
            }
            let wake = self.alone || entry.moving;
            if entry.sharers == 0 && !entry.moving {
                held.remove(&self.extent);
            }
            wake
        };
        if wake {
            self.locks.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn sharers_go_together_and_a_move_waits_for_them_and_holds_up_the_next() {
        let locks = Rc::new(ExtentLocks::default());
        let first = locks.shared(1).now_or_never().expect("free");
        let second = locks.shared(1).now_or_never().expect("shared");
        let mut alone = Box::pin(locks.alone(1));
        assert!((&mut alone).now_or_never().is_none());
        let mut late = Box::pin(locks.shared(1));
        assert!((&mut late).now_or_never().is_none(), "behind the move");
        assert!(locks.shared(2).now_or_never().is_some(), "another extent");
        drop((first, second));
        let alone = (&mut alone).now_or_never().expect("now alone");
        assert!((&mut late).now_or_never().is_none());
        drop(alone);
        assert!((&mut late).now_or_never().is_some());
        drop(late);
        assert!(locks.held.borrow().is_empty());
    }

    #[test]
    fn a_move_that_was_given_up_holds_up_nobody() {
        let locks = Rc::new(ExtentLocks::default());
        let first = locks.shared(1).now_or_never().expect("free");
        let mut alone = Box::pin(locks.alone(1));
        assert!((&mut alone).now_or_never().is_none());
        drop(alone);
        assert!(locks.shared(1).now_or_never().is_some());
        drop(first);
        assert!(locks.held.borrow().is_empty());
    }
}
