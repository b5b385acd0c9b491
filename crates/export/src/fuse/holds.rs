//! What the kernel has open: how often each node, so that no more is let go of than was taken, and all at the end; and whether
//! it is written past the cache while others read it ([`export::fuse`](super)).

use rt::{InodesRef, Node};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How often a node is open.
#[derive(Clone, Copy, Default)]
struct Count {
    all: u64,
    /// For writing past the cache.
    direct: u64,
    /// While it was so, somebody had it open who may read.
    is_read: bool,
}

/// See the [module](self).
pub(super) struct Holds {
    inodes: InodesRef,
    counts: RefCell<BTreeMap<Node, Count>>,
}

impl Holds {
    pub(super) fn new(inodes: &InodesRef) -> Holds {
        Holds { inodes: Rc::clone(inodes), counts: RefCell::default() }
    }

    /// Counts what the file system opened.
    pub(super) fn add(&self, node: Node, is_direct: bool) {
        let mut counts = self.counts.borrow_mut();
        let count = counts.entry(node).or_default();
        count.all += 1;
        count.direct += u64::from(is_direct);
        count.is_read |= (1..count.all).contains(&count.direct);
    }

    /// Whether pages of it may be read into the cache while it is written past that.
    pub(super) fn is_read(&self, node: Node) -> bool {
        self.counts.borrow().get(&node).is_some_and(|count| count.is_read)
    }

    /// Lets go once; whether it was held.
    pub(super) fn release(&self, node: Node, is_direct: bool) -> bool {
        let is_held = self.take(node, is_direct);
        if is_held {
            self.inodes.release(node);
        }
        is_held
    }

    fn take(&self, node: Node, is_direct: bool) -> bool {
        let mut counts = self.counts.borrow_mut();
        let Some(count) = counts.get_mut(&node) else { return false };
        let of_kind = if is_direct { count.direct } else { count.all - count.direct };
        if of_kind == 0 {
            return false;
        }
        count.all -= 1;
        count.direct -= u64::from(is_direct);
        count.is_read &= count.direct > 0;
        if count.all == 0 {
            counts.remove(&node);
        }
        true
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        for (node, count) in self.counts.take() {
            (0..count.all).for_each(|_| self.inodes.release(node));
        }
    }
}
