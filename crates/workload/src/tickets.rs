//! Numbers that workers share out among themselves: who is free takes the next.
//!
//! bonnie++ hands its seeks to its threads through a pipe, a system call for each. Where the file lies in
//! memory, that call costs more than the seek, and is most of what is measured. So a [crew](crate::crew)
//! brings the way of handing out: on the host a pipe as well, in a simulation a counter, which costs
//! nothing, as the models of disks it is used with look at no such call.
//!
//! Rules: all numbers are known when the tickets are made. One worker [offers](Tickets::offer) them; the
//! others [take](Tickets::take) until there are none. A worker that gives up goes on taking to the end, so
//! that who offers never waits for ever.

use std::sync::atomic::{AtomicUsize, Ordering};

/// See the [module](self).
pub trait Tickets: Send + Sync {
    /// Hands all numbers out; may wait until most are taken.
    fn offer(&self);

    /// The next number; waits for the offer where it must. `None` when all are taken.
    fn take(&self) -> Option<u32>;
}

/// Tickets that are counted off in memory, and are there from the beginning.
pub struct Counted {
    all: Vec<u32>,
    next: AtomicUsize,
}

impl Counted {
    /// These numbers, in this order.
    pub fn new(all: Vec<u32>) -> Counted {
        Counted { all, next: AtomicUsize::new(0) }
    }
}

impl Tickets for Counted {
    fn offer(&self) {}

    fn take(&self) -> Option<u32> {
        self.all.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}
