//! Memory for I/O: page-aligned, reference-counted, sliced without copying.
//!
//! A [`BufMut`] is owned by one holder, who fills it (or hands it to a driver that reads a disk into
//! it); [frozen](BufMut::freeze), it becomes a [`Buf`], which many hold and nobody changes. A slice of a
//! `Buf` shares its memory.
//!
//! **Fills.** A `Buf` may also be *a word repeated*: eight bytes that stand for any length. Simulated
//! arrays of many terabytes work on generated data; such data, its copies and its parity are words
//! repeated, and cost neither memory nor time. Who asks for [`Buf::bytes`] always gets real bytes: a
//! fill is written out at that moment. Who can do better with the word asks [`Buf::fill_word`] first.
//!
//! **The pool.** Memory comes from a pool of the thread that takes it, and goes back there on whatever thread it
//! is dropped. Memory from the pool holds stale bytes of this process: [`BufMut::for_overwrite`] is for whoever
//! writes all of it, [`BufMut::zeroed`] for everyone else.

mod pool;

pub use pool::{NoMemory, PAGE};

use pool::Block;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, OnceLock};

/// Memory with one owner, who may write it. See the [module](self).
pub struct BufMut {
    block: Block,
    len: usize,
}

impl BufMut {
    /// `len` bytes with unspecified (stale) content, for whoever writes all of them.
    pub fn for_overwrite(len: usize) -> BufMut {
        BufMut { block: Block::take(len).0, len }
    }

    /// The same, where the length comes from outside and a lack of memory is to fail a request and not the program.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn try_for_overwrite(len: usize) -> Result<BufMut, NoMemory> {
        Ok(BufMut { block: Block::try_take(len)?.0, len })
    }

    /// Bytes that memory of this length really takes, for who keeps count: more than the length, since the pool has
    /// its classes.
    pub fn taken_by(len: usize) -> usize {
        pool::pages_of(len) * PAGE
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> BufMut {
        let (mut block, fresh) = Block::take(len);
        if !fresh {
            block.bytes_mut()[..len].fill(0);
        }
        BufMut { block, len }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> BufMut {
        let mut buf = BufMut::for_overwrite(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Shortens to `len` bytes; no effect where it is not longer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends writing: from here on the bytes are shared and never change.
    pub fn freeze(self) -> Buf {
        Buf { len: self.len, repr: Repr::Memory { block: Arc::new(self.block), start: 0 } }
    }
}

impl Deref for BufMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.block.bytes()[..self.len]
    }
}

impl DerefMut for BufMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.block.bytes_mut()[..len]
    }
}

impl fmt::Debug for BufMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufMut({} B)", self.len)
    }
}

#[derive(Clone)]
enum Repr {
    Memory {
        block: Arc<Block>,
        start: usize,
    },
    /// `word`'s little-endian bytes, repeated; written out when someone asks for bytes.
    Fill {
        word: u64,
        written: OnceLock<Arc<Block>>,
    },
}

/// Shared, unchanging bytes. See the [module](self).
#[derive(Clone)]
pub struct Buf {
    repr: Repr,
    len: usize,
}

impl Buf {
    /// No bytes.
    pub fn empty() -> Buf {
        Buf::fill(0, 0)
    }

    /// `len` bytes that repeat `word` (its little-endian bytes). Takes no memory.
    pub fn fill(word: u64, len: usize) -> Buf {
        Buf { repr: Repr::Fill { word, written: OnceLock::new() }, len }
    }

    /// `len` zero bytes. Takes no memory.
    pub fn zeros(len: usize) -> Buf {
        Buf::fill(0, len)
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        BufMut::copy_of(bytes).freeze()
    }

    /// Bytes of memory that it keeps, shared or not: a slice keeps all that it is a part of. A fill takes none.
    pub fn memory(&self) -> usize {
        match &self.repr {
            Repr::Memory { block, .. } => block.bytes().len(),
            Repr::Fill { .. } => 0,
        }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The word that the bytes repeat, where they are held in that form. `None` says nothing about
    /// the bytes: memory that happens to repeat a word is not searched for it.
    pub fn fill_word(&self) -> Option<u64> {
        match self.repr {
            Repr::Fill { word, .. } => Some(word),
            Repr::Memory { .. } => None,
        }
    }

    /// The bytes. A fill is written out to memory the first time.
    pub fn bytes(&self) -> &[u8] {
        match &self.repr {
            Repr::Memory { block, start } => &block.bytes()[*start..*start + self.len],
            Repr::Fill { word, written } => {
                let block = written.get_or_init(|| {
                    let mut block = Block::take(self.len).0;
                    let bytes = &mut block.bytes_mut()[..self.len.next_multiple_of(8)];
                    bytemuck::cast_slice_mut::<u8, u64>(bytes).fill(word.to_le());
                    Arc::new(block)
                });
                &block.bytes()[..self.len]
            }
        }
    }

    /// A part of it, sharing the memory.
    ///
    /// # Panics
    /// If `range` reaches beyond the end.
    pub fn slice(&self, range: Range<usize>) -> Buf {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "a slice lies within its buffer"
        );
        let len = range.end - range.start;
        let repr = match &self.repr {
            Repr::Memory { block, start } => {
                Repr::Memory { block: Arc::clone(block), start: start + range.start }
            }
            Repr::Fill { word, .. } => {
                let phase = 8 * (range.start % 8) as u32;
                return Buf::fill(word.rotate_right(phase), len);
            }
        };
        Buf { repr, len }
    }

    /// The memory back from who alone holds it, to be written again; otherwise the buffer as it was
    /// (others hold it, it is a part of something larger, or a word repeated).
    ///
    /// # Errors
    /// The buffer itself.
    pub fn try_into_mut(self) -> Result<BufMut, Buf> {
        let len = self.len;
        match self.repr {
            Repr::Memory { block, start: 0 } => match Arc::try_unwrap(block) {
                Ok(block) => Ok(BufMut { block, len }),
                Err(block) => Err(Buf { repr: Repr::Memory { block, start: 0 }, len }),
            },
            repr => Err(Buf { repr, len }),
        }
    }

    /// This and `next` as one buffer without copying, where `next` goes on where this ends: the same
    /// memory, or the same word repeated.
    pub(crate) fn try_join(&self, next: &Buf) -> Option<Buf> {
        let len = self.len + next.len;
        match (&self.repr, &next.repr) {
            (
                Repr::Memory { block, start },
                Repr::Memory { block: next_block, start: next_start },
            ) if Arc::ptr_eq(block, next_block) && start + self.len == *next_start => {
                Some(Buf { repr: Repr::Memory { block: Arc::clone(block), start: *start }, len })
            }
            (Repr::Fill { word, .. }, Repr::Fill { word: next_word, .. })
                if word.rotate_right(8 * (self.len % 8) as u32) == *next_word =>
            {
                Some(Buf::fill(*word, len))
            }
            _ => None,
        }
    }
}

impl From<BufMut> for Buf {
    fn from(buf: BufMut) -> Buf {
        buf.freeze()
    }
}

impl PartialEq for Buf {
    /// Whether the bytes are the same, however they are held.
    fn eq(&self, other: &Buf) -> bool {
        if self.len != other.len {
            return false;
        }
        match (self.fill_word(), other.fill_word()) {
            (Some(word), Some(other_word)) if self.len >= 8 => word == other_word,
            _ => self.bytes() == other.bytes(),
        }
    }
}

impl Eq for Buf {}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fill_word() {
            Some(word) => write!(f, "Buf({} B of {word:016x})", self.len),
            None => write!(f, "Buf({} B)", self.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_starts_on_a_page_and_comes_back_from_the_pool() {
        let buf = BufMut::for_overwrite(10_000);
        assert!((buf.as_ptr() as usize).is_multiple_of(PAGE));
        let place = buf.as_ptr() as usize;
        drop(buf.freeze());
        assert_eq!(BufMut::for_overwrite(9_000).as_ptr() as usize, place);
    }

    #[test]
    fn memory_comes_back_to_who_alone_holds_it() {
        let buf = Buf::copy_of(b"abc");
        let other = buf.clone();
        let buf = buf.try_into_mut().expect_err("two hold it");
        drop(other);
        let mut bytes = buf.try_into_mut().expect("one holds it");
        bytes[0] = b'x';
        assert_eq!(bytes.freeze().bytes(), b"xbc");
        assert!(Buf::copy_of(b"abc").slice(1..2).try_into_mut().is_err(), "a part of something");
        assert!(Buf::fill(1, 8).try_into_mut().is_err(), "a word repeated");
    }

    #[test]
    fn memory_that_there_is_not_is_an_error_where_it_was_tried() {
        assert!(matches!(BufMut::try_for_overwrite(1 << 62), Err(NoMemory)));
        assert_eq!(BufMut::try_for_overwrite(5000).expect("two pages").len(), 5000);
        assert_eq!(
            [1, 5000, 3 << 20, 9 << 20].map(BufMut::taken_by),
            [4096, 8192, 4 << 20, 9 << 20]
        );
    }

    #[test]
    fn zeroed_memory_is_zero_though_the_pool_holds_stale_bytes() {
        let mut buf = BufMut::for_overwrite(PAGE);
        buf.fill(0xaa);
        drop(buf);
        assert!(BufMut::zeroed(PAGE).iter().all(|byte| *byte == 0));
    }

    proptest! {
        /// A fill and its bytes in memory can't be told apart by slicing, joining or comparing.
        #[test]
        fn a_fill_behaves_as_its_bytes(word: u64, len in 0_usize..100, cut in 0_usize..100, from in 0_usize..100) {
            let (cut, from) = (cut.min(len), from.min(len));
            let fill = Buf::fill(word, len);
            let bytes: Vec<u8> = word.to_le_bytes().iter().copied().cycle().take(len).collect();
            prop_assert_eq!(fill.bytes(), &bytes[..]);
            let tail = fill.slice(from..len);
            prop_assert_eq!(tail.bytes(), &bytes[from..]);
            prop_assert_eq!(&fill, &Buf::copy_of(&bytes));
            let joined = fill.slice(0..cut).try_join(&fill.slice(cut..len));
            if let Some(joined) = joined {
                prop_assert_eq!(joined.bytes(), &bytes[..]);
            } else {
                prop_assert!(false, "two parts of one fill join");
            }
        }
    }
}
