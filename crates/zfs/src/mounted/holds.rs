//! Who holds which file: what has no name lives as long as it is held.
//!
//! A file whose last name goes while it is held is put down in the file system's unlinked set by the same change, and here as
//! *doomed*. When the last one lets go it is freed, by a task of its own; if that doesn't come to its end, the next mount finds it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Files by their numbers in the mount.
#[derive(Default)]
pub(super) struct Holds {
    held: RefCell<BTreeMap<u64, u64>>,
    doomed: RefCell<BTreeSet<u64>>,
}

impl Holds {
    pub(super) fn hold(&self, inode: u64) {
        *self.held.borrow_mut().entry(inode).or_default() += 1;
    }

    pub(super) fn is_held(&self, inode: u64) -> bool {
        self.held.borrow().contains_key(&inode)
    }

    /// Somebody lets go. Says whether the file is to be freed now.
    pub(super) fn release(&self, inode: u64) -> bool {
        let mut held = self.held.borrow_mut();
        let Some(count) = held.get_mut(&inode) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        held.remove(&inode);
        self.doomed.borrow_mut().remove(&inode)
    }

    /// Whether one of these files is held.
    pub(super) fn any_held(&self, inodes: Range<u64>) -> bool {
        self.held.borrow().range(inodes).next().is_some()
    }

    /// Whoever holds one of these files holds nothing any more.
    pub(super) fn forget(&self, inodes: &Range<u64>) {
        self.held.borrow_mut().retain(|inode, _| !inodes.contains(inode));
        self.doomed.borrow_mut().retain(|inode| !inodes.contains(inode));
    }

    /// It has no name any more, and is held.
    pub(super) fn doom(&self, inode: u64) {
        assert!(self.is_held(inode), "what nobody holds is freed at once");
        self.doomed.borrow_mut().insert(inode);
    }

    /// It has a name again.
    pub(super) fn spare(&self, inode: u64) {
        self.doomed.borrow_mut().remove(&inode);
    }
}
