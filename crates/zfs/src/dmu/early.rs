//! Blocks that were written before their group is: somebody wanted them durable, and their intent log leads to them.
//!
//! ```text
//!   written, in the open group ──▶ here, with the bytes
//!   group N syncs: the block still has these bytes ──▶ the pointer is the tree's; nothing is written again
//!                  any other, or the block is gone ──▶ freed by N
//! ```
//!
//! Until N is in the pool a log may lead to any of them: who opens the pool after a crash claims them with the log. So one that was
//! overtaken is not free before N is.
//!
//! Whether a block has the same bytes is asked of the bytes: a number may have come to be another object's.
//!
//! Source: OpenZFS, `dmu.c` (`dmu_sync`), `dbuf.c` (`dbuf_unoverride`).

use super::txg::Txg;
use rt::Buf;
use std::cell::RefCell;
use std::collections::BTreeMap;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;

/// What was written early in one group.
#[derive(Default)]
struct OfGroup {
    /// By object and number.
    blocks: BTreeMap<(u64, u64), (Buf, BlockPointer)>,
    /// Overtaken by other bytes.
    overtaken: Vec<BlockPointer>,
}

/// The blocks of an objset that were written early: how, the head of the file says.
#[derive(Default)]
pub struct EarlyBlocks(RefCell<BTreeMap<Txg, OfGroup>>);

impl EarlyBlocks {
    /// Where these bytes of a block were written, if they were in this group.
    pub fn find(&self, txg: Txg, block: (u64, u64), bytes: &Buf) -> Option<BlockPointer> {
        let groups = self.0.borrow();
        let (known, pointer) = groups.get(&txg)?.blocks.get(&block)?;
        let is_same = known.len() == bytes.len() && known.bytes() == bytes.bytes();
        (is_same || planted::is(Bug::EarlyOvertaken)).then_some(*pointer)
    }

    /// A block was written in the open group. What it overtook waits for the group.
    pub fn add(&self, txg: Txg, block: (u64, u64), bytes: Buf, pointer: BlockPointer) {
        let mut groups = self.0.borrow_mut();
        let group = groups.entry(txg).or_default();
        if let Some((_, before)) = group.blocks.insert(block, (bytes, pointer)) {
            group.overtaken.push(before);
        }
    }

    /// The same, as the tree's from here on.
    pub(super) fn take(&self, txg: Txg, block: (u64, u64), bytes: &Buf) -> Option<BlockPointer> {
        let pointer = self.find(txg, block, bytes)?;
        self.0.borrow_mut().get_mut(&txg)?.blocks.remove(&block);
        Some(pointer)
    }

    /// What of a group no tree leads to.
    pub(super) fn rest(&self, txg: Txg) -> Vec<BlockPointer> {
        let Some(group) = self.0.borrow_mut().remove(&txg) else { return Vec::new() };
        let blocks = group.blocks.into_values().map(|(_, pointer)| pointer);
        match planted::is(Bug::EarlyLeaked) {
            true => Vec::new(),
            false => blocks.chain(group.overtaken).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::block_pointer::Dva;

    fn at(place: u64) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_dva(0, Dva::new(0, place << 12, 4096, false));
        pointer
    }

    #[test]
    fn only_what_is_as_it_was_written_is_the_trees() {
        let early = EarlyBlocks::default();
        let bytes = |byte: u8| Buf::copy_of(&[byte; 512]);
        early.add(Txg(7), (5, 0), bytes(1), at(1));
        early.add(Txg(7), (5, 0), bytes(2), at(2));
        early.add(Txg(7), (5, 1), bytes(1), at(3));
        early.add(Txg(8), (5, 0), bytes(1), at(4));
        assert_eq!(early.find(Txg(7), (5, 0), &bytes(2)), Some(at(2)));
        assert_eq!(early.take(Txg(7), (5, 0), &bytes(1)), None, "it was overtaken");
        assert_eq!(early.take(Txg(7), (5, 1), &bytes(1)), Some(at(3)));
        assert_eq!(early.take(Txg(7), (5, 1), &bytes(1)), None, "it is the tree's already");
        assert_eq!(early.rest(Txg(7)), [at(2), at(1)]);
        assert!(early.rest(Txg(7)).is_empty());
        assert_eq!(early.find(Txg(8), (5, 0), &bytes(1)), Some(at(4)));
    }
}
