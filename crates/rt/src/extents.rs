//! Which bytes lie where: stretches of a device that are held in memory.
//!
//! A map from the start of an extent to its bytes. Extents never overlap and are never empty; an insert
//! replaces what it covers, cutting the extents at its edges. Bytes are shared, not copied, so a fill
//! of any length is one entry, and what is left of an extent that was cut keeps the memory of the
//! whole until its last part goes. Neighbours that go on in the same memory, or repeat the same word,
//! become one.
//!
//! The one map of bytes at places: of [`MemoryDevice`](crate::MemoryDevice), of the writes that a
//! [power cut](crate::filter::PowerCut) may lose, of what an engine knows of a stripe. It knows nothing of blocks: offsets
//! are any bytes.

use crate::buf::Buf;
use crate::sg::SgList;
use std::collections::BTreeMap;
use stdx::{ByteCount, Offset};

/// Stretches of bytes, each at its place: the head of this file says how they lie.
#[derive(Clone, Debug, Default)]
pub struct Extents(BTreeMap<u64, Buf>);

/// A part of what was asked for.
#[derive(Debug)]
pub enum Stretch {
    /// These bytes.
    Held(Buf),
    /// Nothing is held here.
    Gap(Offset, ByteCount),
}

impl Extents {
    /// Puts `data` at `at`, in place of what is there.
    pub fn insert(&mut self, at: Offset, data: &SgList) {
        self.remove(at, ByteCount(data.len() as u64));
        let mut at = at.bytes();
        for piece in data.pieces() {
            let end = at + piece.len() as u64;
            let joined = self.0.range_mut(..at).next_back().and_then(|(start, left)| {
                let joined = (start + left.len() as u64 == at).then(|| left.try_join(piece))??;
                *left = joined;
                Some(())
            });
            if joined.is_none() {
                self.0.insert(at, piece.clone());
            }
            at = end;
        }
    }

    /// Forgets what lies in a range.
    pub fn remove(&mut self, at: Offset, len: ByteCount) {
        if len.is_zero() {
            return;
        }
        let (from, to) = (at.bytes(), (at + len).bytes());
        let crossing = self.0.range_mut(..from).next_back().and_then(|(start, left)| {
            let end = start + left.len() as u64;
            let whole = (end > from).then(|| left.clone())?;
            *left = whole.slice(0..(from - start) as usize);
            (end > to).then(|| whole.slice((to - start) as usize..whole.len()))
        });
        if let Some(rest) = crossing {
            self.0.insert(to, rest);
            return;
        }
        while let Some((&start, _)) = self.0.range(from..to).next()
            && let Some(extent) = self.0.remove(&start)
        {
            if start + extent.len() as u64 > to {
                self.0.insert(to, extent.slice((to - start) as usize..extent.len()));
            }
        }
    }

    /// What lies in a range: bytes and gaps, in order, together as long as the range.
    pub fn read(&self, at: Offset, len: ByteCount) -> Vec<Stretch> {
        let (mut at, to) = (at.bytes(), (at + len).bytes());
        let mut stretches = Vec::new();
        let first = self.0.range(..at).next_back();
        for (&start, extent) in first.into_iter().chain(self.0.range(at..to)) {
            let end = (start + extent.len() as u64).min(to);
            if end <= at {
                continue;
            }
            if start > at {
                stretches.push(Stretch::Gap(Offset(at), ByteCount(start - at)));
                at = start;
            }
            stretches
                .push(Stretch::Held(extent.slice((at - start) as usize..(end - start) as usize)));
            at = end;
        }
        if at < to {
            stretches.push(Stretch::Gap(Offset(at), ByteCount(to - at)));
        }
        stretches
    }

    /// The bytes of a range, where all of it is held.
    pub fn get(&self, at: Offset, len: ByteCount) -> Option<SgList> {
        let mut list = SgList::new();
        for stretch in self.read(at, len) {
            match stretch {
                Stretch::Held(buf) => list.push(buf),
                Stretch::Gap(..) => return None,
            }
        }
        Some(list)
    }

    /// How many bytes are held.
    pub fn held(&self) -> ByteCount {
        ByteCount(self.0.values().map(|extent| extent.len() as u64).sum())
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All extents, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (Offset, &Buf)> {
        self.0.iter().map(|(start, extent)| (Offset(*start), extent))
    }

    /// How many extents there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether one extent lies on both sides of a place.
    pub(crate) fn crosses(&self, at: Offset) -> bool {
        let left = self.0.range(..at.bytes()).next_back();
        left.is_some_and(|(start, extent)| start + extent.len() as u64 > at.bytes())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: usize = 64;

    proptest! {
        /// Off-by-one errors where extents are cut: whatever is put in and taken out, the map holds
        /// what a byte array with holes holds.
        #[test]
        fn extents_behave_as_bytes_with_holes(
            steps in proptest::collection::vec((0..LEN, 0..LEN, 0_u8..3), 0..40),
            from in 0..LEN,
            to in 0..LEN,
        ) {
            let mut extents = Extents::default();
            let mut bytes = [None; LEN];
            for (i, (a, b, what)) in steps.into_iter().enumerate() {
                let (a, b) = (a.min(b), a.max(b));
                let at = Offset(a as u64);
                let data = match what {
                    0 => {
                        extents.remove(at, ByteCount((b - a) as u64));
                        bytes[a..b].fill(None);
                        continue;
                    }
                    1 => Buf::fill(0x0101_0101_0101_0101 * (i as u64 % 3), b - a),
                    _ => Buf::copy_of(&(0..b - a).map(|n| (n * 5 + i) as u8).collect::<Vec<_>>()),
                };
                for (n, byte) in data.bytes().iter().enumerate() {
                    bytes[a + n] = Some(*byte);
                }
                extents.insert(at, &data.into());
            }
            let (from, to) = (from.min(to), from.max(to));
            let mut read = Vec::new();
            for stretch in extents.read(Offset(from as u64), ByteCount((to - from) as u64)) {
                match stretch {
                    Stretch::Held(buf) => read.extend(buf.bytes().iter().copied().map(Some)),
                    Stretch::Gap(at, len) => {
                        prop_assert_eq!(at.bytes() as usize, from + read.len());
                        read.extend(std::iter::repeat_n(None, len.as_usize()));
                    }
                }
            }
            prop_assert_eq!(&read[..], &bytes[from..to]);
            let whole: Option<Vec<u8>> = bytes[from..to].iter().copied().collect();
            let got = extents.get(Offset(from as u64), ByteCount((to - from) as u64));
            prop_assert_eq!(got.map(|list| list.to_vec()), whole);
            prop_assert_eq!(extents.held().as_usize(), bytes.iter().flatten().count());
            prop_assert_eq!(extents.is_empty(), extents.iter().next().is_none());
        }
    }

    #[test]
    fn a_long_fill_written_in_parts_is_one_extent() {
        let mut extents = Extents::default();
        for i in 0..100 {
            extents.insert(Offset(i << 20), &Buf::fill(7, 1 << 20).into());
        }
        assert_eq!(extents.iter().count(), 1);
    }
}
