//! The executor's timers: a heap of deadlines, ties in the order of arming.
//!
//! A cancelled timer leaves its entry in the heap until it comes up or until stale entries outnumber
//! live ones, when the heap is rebuilt.

use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;
use stdx::Instant;

/// Stale entries that are tolerated whatever the share; below this a rebuild costs more than it frees.
const STALE_MIN: usize = 64;

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    armed: Slab<Armed>,
    next_sequence: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    deadline: Instant,
    sequence: u64,
    key: usize,
}

struct Armed {
    sequence: u64,
    waker: Option<Waker>,
}

/// Names one armed timer.
#[derive(Clone, Copy)]
pub(crate) struct TimerKey(usize);

impl Timers {
    /// Arms a timer that wakes `waker` at `deadline`.
    pub(crate) fn arm(&mut self, deadline: Instant, waker: Waker) -> TimerKey {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let key = self.armed.insert(Armed { sequence, waker: Some(waker) });
        self.heap.push(Reverse(Entry { deadline, sequence, key }));
        TimerKey(key)
    }

    /// Whether the timer has fired; if not, `waker` replaces the one it was armed with.
    pub(crate) fn fired(&mut self, key: TimerKey, waker: &Waker) -> bool {
        match &mut self.armed[key.0].waker {
            None => true,
            Some(armed) => {
                armed.clone_from(waker);
                false
            }
        }
    }

    /// Forgets a timer, fired or not.
    pub(crate) fn disarm(&mut self, key: TimerKey) {
        // `try_remove`: the table may have been cleared when the executor shut down.
        self.armed.try_remove(key.0);
        if self.heap.len() > STALE_MIN && self.heap.len() > 2 * self.armed.len() {
            let armed = &self.armed;
            self.heap.retain(|Reverse(entry)| is_live(armed, entry));
        }
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse(entry)) = self.heap.peek() {
            if is_live(&self.armed, entry) {
                return Some(entry.deadline);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the waker of the next timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Waker> {
        if self.next_deadline()? > now {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        self.armed[entry.key].waker.take()
    }

    /// Drops all timers and returns their wakers, to be dropped when no borrow is held.
    pub(crate) fn clear(&mut self) -> Vec<Waker> {
        self.heap.clear();
        self.armed.drain().filter_map(|armed| armed.waker).collect()
    }
}

fn is_live(armed: &Slab<Armed>, entry: &Entry) -> bool {
    armed
        .get(entry.key)
        .is_some_and(|armed| armed.sequence == entry.sequence && armed.waker.is_some())
}
