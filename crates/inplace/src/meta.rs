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
//!
//! **Memory.** A bitmap whose blocks are all taken, or all free, takes none for its content: a large array has hundreds of thousands
//! of them. In the [journal](crate::journal::record), too, they are a word that is repeated.

mod load;

use crate::lru::Lru;
use crate::settings::BLOCK_MAX;
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

/// Contents that need no memory.
static ZEROS: [u8; BLOCK_MAX as usize] = [0; BLOCK_MAX as usize];
static ONES: [u8; BLOCK_MAX as usize] = [0xff; BLOCK_MAX as usize];

/// See the [module](self).
pub(crate) struct MetaBlock {
    pub(crate) number: u64,
    content: RefCell<Content>,
    pub(crate) logging: Cell<Logging>,
    /// The committed content, where it differs from the current.
    pub(crate) committed_image: RefCell<Option<Buf>>,
    /// The content that is being committed, where it differs from the current.
    pub(crate) committing_image: RefCell<Option<Buf>>,
    /// Rung when a write in place has ended.
    pub(crate) written: Notify,
}

/// The bytes of a block.
enum Content {
    Own(Box<[u8]>),
    /// A part of [`ZEROS`] or [`ONES`].
    Alike(&'static [u8]),
}

impl Content {
    fn of(bytes: Box<[u8]>) -> Content {
        let alike = [&ZEROS, &ONES].into_iter().filter_map(|all| all.get(..bytes.len()));
        match alike.into_iter().find(|alike| **alike == *bytes) {
            Some(alike) => Content::Alike(alike),
            None => Content::Own(bytes),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Content::Own(bytes) => bytes,
            Content::Alike(bytes) => bytes,
        }
    }

    /// The bytes to be changed: [`Content::of`] takes them back.
    fn take(&mut self) -> Box<[u8]> {
        match std::mem::replace(self, Content::Alike(&[])) {
            Content::Own(bytes) => bytes,
            Content::Alike(bytes) => bytes.into(),
        }
    }
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
    pub(crate) fn new(number: u64, bytes: Box<[u8]>) -> MetaRef {
        MetaBlock::with(number, Content::of(bytes))
    }

    /// A block of zeros.
    fn zeroed(number: u64, len: usize) -> MetaRef {
        MetaBlock::with(number, Content::Alike(&ZEROS[..len]))
    }

    fn with(number: u64, content: Content) -> MetaRef {
        Rc::new(MetaBlock {
            number,
            content: RefCell::new(content),
            logging: Cell::default(),
            committed_image: RefCell::default(),
            committing_image: RefCell::default(),
            written: Notify::new(),
        })
    }

    /// The content. Not across an await.
    pub(crate) fn bytes(&self) -> Ref<'_, [u8]> {
        Ref::map(self.content.borrow(), Content::bytes)
    }

    /// Changes a part. Only a transaction does.
    pub(crate) fn change(&self, range: Range<usize>, change: impl FnOnce(&mut [u8])) {
        let mut content = self.content.borrow_mut();
        let mut bytes = content.take();
        change(&mut bytes[range]);
        *content = Content::of(bytes);
    }

    /// The word that the content repeats, where it takes no memory.
    pub(crate) fn repeats(&self) -> Option<u64> {
        match &*self.content.borrow() {
            Content::Own(_) => None,
            Content::Alike(bytes) => bytes.first_chunk().map(|word| u64::from_le_bytes(*word)),
        }
    }

    /// A copy of the content, without memory where that takes none.
    pub(crate) fn image(&self) -> Buf {
        match self.repeats() {
            Some(word) => Buf::fill(word, self.bytes().len()),
            None => Buf::copy_of(&self.bytes()),
        }
    }

    /// The chunks that a range touches.
    pub(crate) fn chunks(&self, range: &Range<usize>) -> u64 {
        let chunk = self.bytes().len() / CHUNKS;
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

    /// Whatever a block holds, and however it came to that, it is the same bytes; alike ones take no memory.
    #[test]
    fn a_block_whose_bytes_are_all_alike_takes_no_memory_and_can_be_changed() {
        let block = MetaBlock::zeroed(7, 4096);
        let is_alike = |block: &MetaBlock| matches!(*block.content.borrow(), Content::Alike(_));
        assert!(is_alike(&block) && block.image() == Buf::zeros(4096));
        block.change(0..2048, |bytes| bytes.fill(0xff));
        assert!(!is_alike(&block));
        assert_eq!((block.bytes()[2047], block.bytes()[2048]), (0xff, 0));
        block.change(2048..4096, |bytes| bytes.fill(0xff));
        assert!(is_alike(&block) && block.image() == Buf::fill(u64::MAX, 4096));
        assert_eq!(block.image().memory(), 0);
        block.change(4095..4096, |bytes| bytes[0] = 1);
        assert!(!is_alike(&block) && block.bytes()[..4095].iter().all(|byte| *byte == 0xff));
        assert_eq!((block.bytes()[4095], block.bytes().len()), (1, 4096));
        // Alike, but neither of the two.
        block.change(0..4096, |bytes| bytes.fill(5));
        assert_eq!(block.image(), Buf::copy_of(&[5; 4096]));
    }

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
