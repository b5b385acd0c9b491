//! The entries of a directory in memory: by name, and in the order in which they came.

use crate::inodes::{Cookie, Node};
use std::collections::BTreeMap;

/// See the [module](self).
pub(super) struct Directory {
    entries: BTreeMap<Box<[u8]>, (Node, u64)>,
    /// Names by cookie.
    order: BTreeMap<u64, Box<[u8]>>,
    next: u64,
    /// The directory that has it as an entry, or had; itself at the top.
    pub(super) parent: Node,
}

impl Directory {
    pub(super) fn new(parent: Node) -> Directory {
        let (entries, order) = Default::default();
        Directory { entries, order, next: Cookie::FIRST.0, parent }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Node> {
        self.entries.get(name).map(|(node, _)| *node)
    }

    /// Adds an entry, or lets one that is there lead to another node.
    pub(super) fn put(&mut self, name: &[u8], node: Node) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.0 = node;
            return;
        }
        assert!(self.next < 1 << 63, "no directory sees so many entries");
        self.entries.insert(name.into(), (node, self.next));
        self.order.insert(self.next, name.into());
        self.next += 1;
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        let removed = self.entries.remove(name);
        let (_, cookie) = removed.expect("it was found before it is removed");
        self.order.remove(&cookie);
    }

    /// Entries behind a place.
    pub(super) fn behind(&self, after: Cookie) -> impl Iterator<Item = (Cookie, &[u8], Node)> {
        let behind = self.order.range(after.0.saturating_add(1)..);
        behind.map(|(cookie, name)| (Cookie(*cookie), &**name, self.entries[name].0))
    }
}
