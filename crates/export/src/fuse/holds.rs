//! What the kernel has open: how often each node, so that no more is let go of than was taken, and all at the end.

use rt::{InodesRef, Node};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// See the [module](self).
pub(super) struct Holds {
    inodes: InodesRef,
    counts: RefCell<BTreeMap<Node, u64>>,
}

impl Holds {
    pub(super) fn new(inodes: &InodesRef) -> Holds {
        Holds { inodes: Rc::clone(inodes), counts: RefCell::default() }
    }

    /// Counts what the file system opened.
    pub(super) fn add(&self, node: Node) {
        *self.counts.borrow_mut().entry(node).or_default() += 1;
    }

    /// Lets go once; whether it was held.
    pub(super) fn release(&self, node: Node) -> bool {
        let is_held = {
            let mut counts = self.counts.borrow_mut();
            match counts.get_mut(&node) {
                Some(1) => counts.remove(&node).is_some(),
                Some(count) => {
                    *count -= 1;
                    true
                }
                None => false,
            }
        };
        if is_held {
            self.inodes.release(node);
        }
        is_held
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        for (node, count) in self.counts.take() {
            (0..count).for_each(|_| self.inodes.release(node));
        }
    }
}
