//! Blocks of metadata in memory.
//!
//! Each block is there at most once, so that all see its changes. It may be dropped when it is the
//! oldest in use, nobody holds it, and the journal has nothing to do with it.
//!
//! **What a block knows of the journal.** A block is cut into 64 chunks; bit masks say which of them
//!
//! * changed in the running transaction,
//! * are in the transaction that is being committed,
//! * were committed and are not yet written in place.
//!
//! Each commit of a block records all chunks of the third kind again, so that only the newest record of a
//! block has to stay in the journal.
//!
//! **Images.** What is written in place must be committed. While a block has changes that are not, an
//! image of its committed content is kept aside for that.

mod load;

use crate::lru::Lru;
use rt::Buf;
use rt::sync::Notify;
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// A shared block.
pub(crate) type MetaRef = Rc<MetaBlock>;

/// Chunks of a block.
const CHUNKS: usize = 64;

/// See the [module](self).
pub(crate) struct MetaBlock {
    pub(crate) number: u64,
    bytes: RefCell<Box<[u8]>>,
    pub(crate) logging: Cell<Logging>,
    /// The committed content, where it differs from the current.
    pub(crate) committed_image: RefCell<Option<Buf>>,
    /// The content that is being committed, where it differs from the current.
    pub(crate) committing_image: RefCell<Option<Buf>>,
    /// Rung when a write in place has ended.
    pub(crate) written: Notify,
}

/// What the journal has to do with a block. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Logging {
    /// Chunks changed in the running transaction.
    pub(crate) running: u64,
    /// Chunks in the transaction that is being committed.
    pub(crate) committing: u64,
    /// Chunks committed and not yet written in place.
    pub(crate) logged: u64,
    /// The transaction that committed it last; 0 where it is in place.
    pub(crate) logged_at: u64,
    /// It is being written in place.
    pub(crate) writing: bool,
}

impl MetaBlock {
    fn new(number: u64, bytes: Box<[u8]>) -> MetaRef {
        Rc::new(MetaBlock {
            number,
            bytes: RefCell::new(bytes),
            logging: Cell::default(),
            committed_image: RefCell::default(),
            committing_image: RefCell::default(),
            written: Notify::new(),
        })
    }

    /// The content. Not across an await.
    pub(crate) fn bytes(&self) -> Ref<'_, [u8]> {
        Ref::map(self.bytes.borrow(), |bytes| &**bytes)
    }

    /// Changes a part. Only a transaction does.
    pub(crate) fn change(&self, range: Range<usize>, change: impl FnOnce(&mut [u8])) {
        change(&mut self.bytes.borrow_mut()[range]);
    }

    /// A copy of the content. That of a group whose blocks are all taken, or all free, takes no memory.
    pub(crate) fn image(&self) -> Buf {
        let bytes = self.bytes();
        let first = bytes.first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
        match first.filter(|word| bytes.chunks(8).all(|other| *other == word.to_le_bytes())) {
            Some(word) => Buf::fill(word, bytes.len()),
            None => Buf::copy_of(&bytes),
        }
    }

    /// The chunks that a range touches.
    pub(crate) fn chunks(&self, range: &Range<usize>) -> u64 {
        let chunk = self.bytes.borrow().len() / CHUNKS;
        if range.is_empty() {
            return 0;
        }
        let (first, last) = (range.start / chunk, (range.end - 1) / chunk);
        (u64::MAX >> (CHUNKS - 1 - (last - first))) << first
    }

    fn is_idle(&self) -> bool {
        let Logging { running, committing, logged_at, writing, .. } = self.logging.get();
        running == 0 && committing == 0 && logged_at == 0 && !writing
    }
}

/// The blocks. See the [module](self).
#[derive(Default)]
pub(crate) struct MetaCache(RefCell<Table>);

#[derive(Default)]
struct Table {
    slots: BTreeMap<u64, Slot>,
    uses: Lru<u64>,
}

enum Slot {
    Here(MetaRef, usize),
    /// It is being read; who waits tries again then.
    Coming(Rc<Notify>),
}

impl MetaCache {
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().uses.len()
    }

    /// The age of the block that was not used for longest.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.0.borrow().uses.oldest().map(|(_, stamp)| stamp)
    }

    /// Drops the block that was not used for longest, or makes it the newest where it is needed.
    pub(crate) fn drop_oldest(&self, stamp: u64) {
        let mut table = self.0.borrow_mut();
        let Some((key, _)) = table.uses.oldest() else { return };
        let number = *table.uses.get(key);
        let needed = match table.slots.get(&number) {
            Some(Slot::Here(block, _)) => Rc::strong_count(block) > 1 || !block.is_idle(),
            _ => false,
        };
        if needed {
            table.uses.touch(key, stamp);
            return;
        }
        table.uses.remove(key);
        table.slots.remove(&number);
    }

    /// Forgets a block that is metadata no more.
    pub(crate) fn forget(&self, number: u64) {
        let mut table = self.0.borrow_mut();
        if let Some(Slot::Here(_, key)) = table.slots.get(&number) {
            let key = *key;
            table.slots.remove(&number);
            table.uses.remove(key);
        }
    }

    fn insert(&self, block: &MetaRef, stamp: u64) {
        let mut table = self.0.borrow_mut();
        let key = table.uses.insert(block.number, stamp);
        table.slots.insert(block.number, Slot::Here(Rc::clone(block), key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chunks_of_a_range_are_those_it_touches() {
        let block = MetaBlock::new(0, vec![0; 4096].into_boxed_slice());
        for (range, chunks) in [
            (0..1, 1),
            (63..65, 0b11),
            (64..128, 0b10),
            (0..4096, u64::MAX),
            (4095..4096, 1 << 63),
            (5..5, 0),
        ] {
            assert_eq!(block.chunks(&range), chunks, "{range:?}");
        }
    }
}
