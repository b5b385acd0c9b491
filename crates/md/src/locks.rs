//! Locks over ranges: who may touch which rows (or which bytes) of an array now.
//!
//! A stripe's data and parity change together, so whoever changes them, or reads them together to
//! compute what is lost, holds the row. The numbers are rows in an array with parity and bytes of the
//! array in a mirrored one, where host writes share and a rebuild's step excludes.
//!
//! **Fair.** Who waits is served in the order of asking among those that conflict: nobody overtakes an
//! earlier conflicting request, so a stream of small writes can't starve a rebuild, nor the reverse.
//! Who needs several ranges takes one that spans them; nobody asks for a second while holding one, so
//! there is no deadlock.
//!
//! **Bounds.** An entry is a request of a caller or a step of a background operation: their number is
//! bounded by the queue depth of the callers and by the window of the operation.
//!
//! Dropping a [`RangeGuard`] releases; whoever has member writes under way under a guard keeps it until
//! they are answered, and therefore runs as a task of its own, which no caller can drop.

use rt::sync::oneshot;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct RangeLock(RefCell<Inner>);

#[derive(Default)]
struct Inner {
    held: Vec<Held>,
    waiting: VecDeque<Waiting>,
    next_id: u64,
}

struct Held {
    id: u64,
    claim: Claim,
}

#[derive(Clone, Copy)]
struct Claim {
    from: u64,
    to: u64,
    shared: bool,
}

struct Waiting {
    claim: Claim,
    grant: oneshot::Sender<RangeGuard>,
}

impl Claim {
    fn conflicts(&self, other: &Claim) -> bool {
        self.from < other.to && other.from < self.to && !(self.shared && other.shared)
    }
}

/// A range is held as long as this lives.
pub(crate) struct RangeGuard {
    lock: Rc<RangeLock>,
    id: u64,
}

impl RangeLock {
    /// Holds a range alone.
    pub(crate) async fn exclusive(self: &Rc<Self>, range: Range<u64>) -> RangeGuard {
        self.lock(Claim { from: range.start, to: range.end, shared: false }).await
    }

    /// Holds a range together with others that share it.
    pub(crate) async fn shared(self: &Rc<Self>, range: Range<u64>) -> RangeGuard {
        self.lock(Claim { from: range.start, to: range.end, shared: true }).await
    }

    async fn lock(self: &Rc<Self>, claim: Claim) -> RangeGuard {
        assert!(claim.from < claim.to, "a lock covers something");
        let receiver = {
            let mut inner = self.0.borrow_mut();
            let free = !inner.held.iter().any(|held| held.claim.conflicts(&claim))
                && !inner.waiting.iter().any(|waiting| waiting.claim.conflicts(&claim));
            if free {
                return self.hold(&mut inner, claim);
            }
            let (grant, receiver) = oneshot::channel();
            inner.waiting.push_back(Waiting { claim, grant });
            receiver
        };
        receiver.await.expect("a lock outlives those that wait for it")
    }

    fn hold(self: &Rc<Self>, inner: &mut Inner, claim: Claim) -> RangeGuard {
        let id = inner.next_id;
        inner.next_id += 1;
        inner.held.push(Held { id, claim });
        RangeGuard { lock: Rc::clone(self), id }
    }

    /// Takes out the next one that waits and may go on.
    fn next_grant(self: &Rc<Self>) -> Option<(oneshot::Sender<RangeGuard>, RangeGuard)> {
        let mut inner = self.0.borrow_mut();
        if inner.waiting.is_empty() {
            return None;
        }
        let ready = (0..inner.waiting.len()).find(|index| {
            let claim = inner.waiting[*index].claim;
            !inner.held.iter().any(|held| held.claim.conflicts(&claim))
                && !inner.waiting.range(..index).any(|earlier| earlier.claim.conflicts(&claim))
        })?;
        let waiting = inner.waiting.remove(ready)?;
        let guard = self.hold(&mut inner, waiting.claim);
        Some((waiting.grant, guard))
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        {
            let mut inner = self.lock.0.borrow_mut();
            let index = inner.held.iter().position(|held| held.id == self.id);
            inner.held.swap_remove(index.expect("a guard holds its range"));
        }
        while let Some((grant, guard)) = self.lock.next_grant() {
            // Nobody waits any more where the task was dropped: the guard comes back and releases.
            let unwanted = grant.send(guard);
            drop(unwanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn sharers_go_together_and_nobody_overtakes_an_earlier_conflict() {
        let lock = Rc::new(RangeLock::default());
        let first = lock.shared(0..10).now_or_never().expect("free");
        let second = lock.shared(5..15).now_or_never().expect("shared");
        let mut alone = Box::pin(lock.exclusive(8..9));
        assert!((&mut alone).now_or_never().is_none());
        let mut late = Box::pin(lock.shared(8..12));
        assert!((&mut late).now_or_never().is_none(), "behind the exclusive one");
        assert!(lock.exclusive(20..30).now_or_never().is_some(), "elsewhere");
        drop(first);
        drop(second);
        let alone = (&mut alone).now_or_never().expect("now free");
        assert!((&mut late).now_or_never().is_none());
        drop(alone);
        assert!((&mut late).now_or_never().is_some());
    }

    #[test]
    fn one_that_stopped_waiting_does_not_keep_the_range() {
        let lock = Rc::new(RangeLock::default());
        let first = lock.exclusive(0..1).now_or_never().expect("free");
        let mut second = Box::pin(lock.exclusive(0..1));
        assert!((&mut second).now_or_never().is_none());
        let mut third = Box::pin(lock.exclusive(0..1));
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        drop(first);
        assert!((&mut third).now_or_never().is_some());
        assert!(lock.0.borrow().held.is_empty());
    }
}
