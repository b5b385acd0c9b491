//! Blocks of a dataset's intent log: the chain, and the blocks that its writes lead to.
//!
//! ```text
//!   claimed     the blocks up to where the claim says, and writes' blocks born in the claim's group or later
//!   unclaimed   the blocks that were whole before the pool's next group; writes' blocks are not the pool's yet
//! ```
//!
//! A chain ends where a block is not what its pointer says: that is no damage. The pointer to that block was
//! allocated all the same, and counts. A block that several records lead to counts once.
//!
//! Records stand in the clear as far as they are needed here, also in encrypted datasets.

use super::tree::{Reached, Visited};
use crate::zil::BLOCKS_MAX;
use rt::Priority;
use std::collections::BTreeSet;
use std::rc::Rc;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::zil::record;
use zfs_format::zil::{LogBlock, SEQUENCE_WORD, ZilHeader, flags};
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

/// A chain that is being followed.
pub(super) struct LogWalk {
    objset: u64,
    claim_txg: u64,
    /// The first transaction group whose blocks are not the pool's yet.
    first_open: u64,
    last_block: u64,
    last_record: u64,
    next: BlockPointer,
    /// First places of blocks that were given.
    seen: BTreeSet<[u64; 2]>,
    found: Vec<Visited>,
    followed: usize,
}

impl LogWalk {
    pub(super) fn new(objset: u64, header: &ZilHeader, first_open: u64) -> LogWalk {
        let claimed = header.claim_txg != 0;
        let records = claimed && header.flags & flags::RECORD_CLAIM_VALID != 0;
        LogWalk {
            objset,
            claim_txg: header.claim_txg,
            first_open,
            last_block: if claimed { header.claim_block_sequence } else { u64::MAX },
            last_record: if records { header.claim_record_sequence } else { u64::MAX },
            next: header.log,
            seen: BTreeSet::new(),
            found: Vec::new(),
            followed: 0,
        }
    }

    /// The next block of the log; nothing after the last.
    pub(super) async fn next(&mut self, blocks: &Rc<dyn ReadBlocks>) -> Option<Visited> {
        loop {
            if let Some(visited) = self.found.pop() {
                return Some(visited);
            }
            if self.next.is_hole() || self.followed >= BLOCKS_MAX {
                return None;
            }
            self.follow(blocks).await;
        }
    }

    fn give(&mut self, pointer: BlockPointer, at: Bookmark) {
        if self.seen.insert(pointer.dva(0).words) {
            let reached = Reached::Log;
            self.found.push(Visited { pointer, at, reached, problem: None });
        }
    }

    async fn follow(&mut self, blocks: &Rc<dyn ReadBlocks>) {
        let pointer = std::mem::replace(&mut self.next, BlockPointer::HOLE);
        let sequence = pointer.checksum().words[SEQUENCE_WORD];
        let is_open = self.claim_txg == 0 && pointer.logical_birth() >= self.first_open;
        if sequence > self.last_block || is_open {
            return;
        }
        self.followed += 1;
        let at = Bookmark { objset: self.objset, object: 0, level: -2, block: sequence };
        self.give(pointer, at);
        let mut request = BlockRequest::new(pointer, at);
        request.raw = true;
        request.priority = Priority::Background;
        let Ok(bytes) = blocks.read(request).await else { return };
        // Its checksum was compared when it was read.
        let Ok(block) = LogBlock::decode_checked(bytes.bytes(), &pointer) else { return };
        let Ok(writes) = record::written(&block.records, block.endian) else { return };
        for (sequence, write) in writes {
            if sequence > self.last_record {
                return;
            }
            let pointer = write.pointer;
            let counts = self.claim_txg != 0 && pointer.logical_birth() >= self.claim_txg;
            if pointer.is_hole() || !counts {
                continue;
            }
            let (objset, object) = (self.objset, write.object);
            let block = write.offset / pointer.logical_size().max(1);
            self.give(pointer, Bookmark { objset, object, level: -2, block });
        }
        self.next = block.next;
    }
}
