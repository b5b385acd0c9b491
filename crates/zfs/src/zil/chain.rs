//! The blocks of a log that is written: which there are, and which of them are still needed.
//!
//! ```text
//!   header ──▶ written ──▶ written ──▶ … ──▶ open        each block has the place of the next one
//!              │ all its records are of groups in the pool: freed with the next group
//! ```
//!
//! The last block is reserved and not yet written: the one before had to say where it is. A log begins when the header with
//! its first block is in the pool ([`Stage::Announced`] until then), and ends with a header that leads nowhere.
//!
//! **What may be freed.** A group N frees blocks from the front whose records are all of N or before, and writes the header that
//! leads past them. Until N is in the pool the header before leads to them, and they are as they were: what N frees is not used
//! before N+3. A block that was reserved after N closed stays until the next group, for N's space maps don't know it. A log that ends
//! goes in the same way, and its header leads to it until all its records are of groups in the pool: they were promised.
//!
//! Source: OpenZFS, `zil.c` (`zil_sync`, `zil_create`, `zil_destroy`).

use std::collections::VecDeque;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::zil::{SEQUENCE_WORD, ZilHeader};

/// A block of the log.
pub(super) struct Lwb {
    pub(super) pointer: BlockPointer,
    /// The group in which it was reserved.
    pub(super) reserved: u64,
    /// The last group of its records.
    pub(super) last: u64,
    pub(super) is_written: bool,
}

/// What can be done with a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has no block.
    #[default]
    Empty,
    /// It has one, and the header in the pool doesn't say so.
    Announced,
    /// It can be written.
    Ready,
    /// It ends: a block could not be written, or it is closed.
    Ending,
}

/// The blocks of a log.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) blocks: VecDeque<Lwb>,
    pub(super) stage: Stage,
    /// The group that writes the header with the first block.
    announced_in: Option<u64>,
    /// The highest record.
    pub(super) sequence: u64,
}

impl Chain {
    /// A log begins with this block.
    pub(super) fn announce(&mut self, pointer: BlockPointer, txg: u64) {
        assert!(self.stage == Stage::Empty && self.blocks.is_empty(), "a log begins once");
        self.append(pointer, txg);
        self.stage = Stage::Announced;
    }

    pub(super) fn append(&mut self, pointer: BlockPointer, txg: u64) {
        if let Some(before) = self.blocks.back() {
            let [before, this] =
                [&before.pointer, &pointer].map(|p| p.checksum().words[SEQUENCE_WORD]);
            assert_eq!(before + 1, this, "blocks of a log are counted");
        }
        self.blocks.push_back(Lwb { pointer, reserved: txg, last: 0, is_written: false });
    }

    /// All blocks but the open one are written, and durable.
    pub(super) fn flushed(&mut self) {
        let closed = self.blocks.iter_mut().rev().skip(1);
        // Those before are since the commits before.
        closed.take_while(|block| !block.is_written).for_each(|block| block.is_written = true);
    }

    /// Nothing more is written to it.
    pub(super) fn end(&mut self) {
        if self.stage != Stage::Empty {
            self.stage = Stage::Ending;
            self.blocks.iter_mut().for_each(|block| block.is_written = true);
        }
    }

    /// Whether a group is needed for it, though nothing else was changed.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::Announced | Stage::Ending)
    }

    /// What a group that syncs leaves in the header, and the blocks that it frees.
    pub(super) fn sync(&mut self, txg: u64) -> (ZilHeader, Vec<BlockPointer>) {
        let mut freed = Vec::new();
        while let Some(front) = self.blocks.front()
            && front.is_written
            && front.reserved <= txg
            && front.last <= txg
        {
            freed.push(front.pointer);
            self.blocks.pop_front();
        }
        let mut header = ZilHeader::EMPTY;
        match self.stage {
            Stage::Ending if self.blocks.is_empty() => self.stage = Stage::Empty,
            Stage::Ending => {
                let is_needed = self.blocks.iter().any(|block| block.last > txg);
                if let Some(front) = self.blocks.front().filter(|_| is_needed) {
                    header.log = front.pointer;
                }
            }
            Stage::Empty => {}
            Stage::Announced | Stage::Ready => {
                let first = self.blocks.front().expect("a log that has begun has an open block");
                if self.stage == Stage::Ready || first.reserved <= txg {
                    header.log = first.pointer;
                    self.announced_in = Some(txg);
                }
            }
        }
        (header, freed)
    }

    /// A group is in the pool.
    pub(super) fn committed(&mut self, txg: u64) {
        if self.stage == Stage::Announced && self.announced_in == Some(txg) {
            self.stage = Stage::Ready;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::block_pointer::Dva;

    fn block(number: u64) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_sizes(4096, 4096);
        pointer.set_dva(0, Dva::new(0, number << 12, 4096, false));
        pointer.set_births(1, 1);
        let mut checksum = pointer.checksum();
        checksum.words[SEQUENCE_WORD] = number;
        pointer.set_checksum(checksum);
        pointer
    }

    fn written(chain: &mut Chain, last: u64) {
        let open = chain.blocks.back_mut().expect("one is open");
        (open.last, open.is_written) = (last, true);
    }

    #[test]
    fn a_log_begins_moves_on_and_ends_with_its_groups() {
        let mut chain = Chain::default();
        chain.announce(block(1), 8);
        assert!(chain.is_pending());
        // Reserved after group 7 was closed.
        assert!(chain.sync(7).0.log.is_hole());
        chain.committed(7);
        assert_eq!((chain.sync(8).0.log, chain.stage), (block(1), Stage::Announced));
        chain.committed(8);
        assert_eq!(chain.stage, Stage::Ready);
        for (number, last) in [(2, 9), (3, 9), (4, 10)] {
            written(&mut chain, last);
            chain.append(block(number), 9);
        }
        let (header, freed) = chain.sync(9);
        assert_eq!((header.log, freed), (block(3), vec![block(1), block(2)]));
        written(&mut chain, 11);
        chain.append(block(5), 11);
        chain.end();
        // One has what is promised of the next group.
        let (header, freed) = chain.sync(10);
        assert_eq!((header.log, freed, chain.is_pending()), (block(4), vec![block(3)], true));
        let (header, freed) = chain.sync(11);
        assert!(header.log.is_hole() && freed == [block(4), block(5)]);
        assert_eq!((chain.stage, chain.is_pending()), (Stage::Empty, false));
    }
}
