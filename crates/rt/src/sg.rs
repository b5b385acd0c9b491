//! Scatter-gather lists: bytes in several pieces of memory, in order.
//!
//! A request carries its data, and a read returns it, as such a list, so that a layer that cuts or
//! joins requests (a stripe, a mirror, a linear volume) moves no bytes. Pieces that follow one another
//! in the same memory are joined when they are pushed.

use crate::buf::{Buf, BufMut};
use smallvec::SmallVec;
use std::ops::Range;

/// Bytes in several pieces. Cheap to clone, slice and join; never empty pieces.
#[derive(Debug, Default)]
pub struct SgList {
    pieces: SmallVec<[Buf; 1]>,
    len: usize,
}

impl Clone for SgList {
    // One piece is the rule; a list of any length is cloned by a loop.
    #[inline]
    fn clone(&self) -> SgList {
        let pieces = match &self.pieces[..] {
            [only] => SmallVec::from_buf([only.clone()]),
            pieces => pieces.iter().cloned().collect(),
        };
        SgList { pieces, len: self.len }
    }
}

impl SgList {
    /// No bytes.
    pub fn new() -> SgList {
        SgList::default()
    }

    /// `len` zero bytes, without memory.
    pub fn zeros(len: usize) -> SgList {
        Buf::zeros(len).into()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[Buf] {
        &self.pieces
    }

    /// Adds a piece at the end.
    pub fn push(&mut self, piece: Buf) {
        if piece.is_empty() {
            return;
        }
        self.len += piece.len();
        if let Some(last) = self.pieces.last_mut()
            && let Some(joined) = last.try_join(&piece)
        {
            *last = joined;
            return;
        }
        self.pieces.push(piece);
    }

    /// Adds all pieces of `list` at the end.
    pub fn append(&mut self, list: SgList) {
        if self.is_empty() {
            *self = list;
            return;
        }
        for piece in list.pieces {
            self.push(piece);
        }
    }

    /// A part of it, sharing the memory.
    ///
    /// # Panics
    /// If `range` reaches beyond the end.
    pub fn slice(&self, range: Range<usize>) -> SgList {
        assert!(range.start <= range.end && range.end <= self.len, "a slice lies within its list");
        if range == (0..self.len) {
            return self.clone();
        }
        let mut part = SgList::new();
        let mut start = 0;
        for piece in &self.pieces {
            let end = start + piece.len();
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                part.push(piece.slice(from - start..to - start));
            }
            if end >= range.end {
                break;
            }
            start = end;
        }
        part
    }

    /// The bytes as one buffer; copies only where there is more than one piece.
    pub fn into_contiguous(mut self) -> Buf {
        match self.pieces.len() {
            0 => Buf::empty(),
            1 => self.pieces.remove(0),
            _ => {
                let mut whole = BufMut::for_overwrite(self.len);
                self.copy_to(&mut whole);
                whole.freeze()
            }
        }
    }

    /// Copies all bytes to `target`.
    ///
    /// # Panics
    /// If `target` has another length.
    pub fn copy_to(&self, target: &mut [u8]) {
        assert_eq!(target.len(), self.len, "source and target have one length");
        let mut at = 0;
        for piece in &self.pieces {
            let target = &mut target[at..at + piece.len()];
            match piece.fill_word() {
                Some(word) => fill_with(target, word),
                None => target.copy_from_slice(piece.bytes()),
            }
            at += piece.len();
        }
    }

    /// All bytes in a new vector; for tests and small things.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy_to(&mut bytes);
        bytes
    }
}

/// Writes `word`'s little-endian bytes over `target`, repeated.
pub fn fill_with(target: &mut [u8], word: u64) {
    let bytes = word.to_le_bytes();
    let mut chunks = target.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&bytes);
    }
    let rest = chunks.into_remainder();
    let len = rest.len();
    rest.copy_from_slice(&bytes[..len]);
}

impl From<Buf> for SgList {
    fn from(buf: Buf) -> SgList {
        match buf.len() {
            0 => SgList::new(),
            len => SgList { pieces: SmallVec::from_buf([buf]), len },
        }
    }
}

impl From<BufMut> for SgList {
    fn from(buf: BufMut) -> SgList {
        buf.freeze().into()
    }
}

impl FromIterator<Buf> for SgList {
    fn from_iter<I: IntoIterator<Item = Buf>>(pieces: I) -> SgList {
        let mut list = SgList::new();
        for piece in pieces {
            list.push(piece);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However bytes are cut into pieces, slices of the list are slices of the bytes.
        #[test]
        fn a_list_behaves_as_its_bytes(lens in proptest::collection::vec(0_usize..40, 0..6), a in 0_usize..200, b in 0_usize..200, fills: u8) {
            let mut list = SgList::new();
            let mut bytes = Vec::new();
            for (i, len) in lens.iter().enumerate() {
                let piece = if fills >> i & 1 == 1 {
                    Buf::fill(0x0102_0304_0506_0708 * (i as u64 + 1), *len)
                } else {
                    Buf::copy_of(&(0..*len).map(|n| (n * 7 + i) as u8).collect::<Vec<_>>())
                };
                bytes.extend_from_slice(piece.bytes());
                list.push(piece);
            }
            prop_assert_eq!(list.len(), bytes.len());
            let (a, b) = (a.min(bytes.len()), b.min(bytes.len()));
            let (from, to) = (a.min(b), a.max(b));
            prop_assert_eq!(list.slice(from..to).to_vec(), &bytes[from..to]);
            let mut joined = list.slice(0..from);
            joined.append(list.slice(from..bytes.len()));
            let joined = joined.into_contiguous();
            prop_assert_eq!(joined.bytes(), &bytes[..]);
        }
    }

    #[test]
    fn neighbours_in_memory_join_without_copying() {
        let whole = Buf::copy_of(&[7; 1000]);
        let list: SgList = [whole.slice(0..300), whole.slice(300..1000)].into_iter().collect();
        assert_eq!(list.pieces().len(), 1);
        assert_eq!(list.into_contiguous().bytes().as_ptr(), whole.bytes().as_ptr());
    }
}
