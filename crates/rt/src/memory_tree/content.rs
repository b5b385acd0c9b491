//! The bytes of a file in memory, with holes, and the space that it takes.
//!
//! A byte was written (*data*), or space was taken for it (*reserved*, zeros), or neither (a hole, zeros). Space is counted to the
//! byte. The length of the file is its inode's; nothing beyond it is data.

use crate::buf::Buf;
use crate::extents::{Extents, Stretch};
use crate::sg::SgList;
use std::ops::Range;
use stdx::{ByteCount, Offset, RangeSet};

/// See the [module](self).
#[derive(Default)]
pub(super) struct Content {
    extents: Extents,
    data: RangeSet,
    reserved: RangeSet,
}

fn len(range: &Range<u64>) -> ByteCount {
    ByteCount(range.end - range.start)
}

impl Content {
    /// Bytes of space that it takes.
    pub(super) fn space(&self) -> u64 {
        self.data.total() + self.reserved.total()
    }

    /// Bytes of a range that no space was taken for.
    pub(super) fn lacks(&self, range: Range<u64>) -> u64 {
        let held = |set: &RangeSet| set.within(range.clone()).map(|r| r.end - r.start).sum::<u64>();
        range.end - range.start - held(&self.data) - held(&self.reserved)
    }

    pub(super) fn read(&self, range: Range<u64>) -> SgList {
        let mut data = SgList::new();
        for stretch in self.extents.read(Offset(range.start), len(&range)) {
            data.push(match stretch {
                Stretch::Held(buf) => buf,
                Stretch::Gap(_, len) => Buf::zeros(len.as_usize()),
            });
        }
        data
    }

    pub(super) fn write(&mut self, at: u64, data: &SgList) {
        let range = at..at + data.len() as u64;
        self.extents.insert(Offset(at), data);
        self.reserved.remove(range.clone());
        self.data.insert(range);
    }

    /// Takes space where there is none.
    pub(super) fn reserve(&mut self, range: Range<u64>) {
        let mut at = range.start;
        while let Some(gap) = self.data.gap(at, range.end) {
            at = gap.end;
            self.reserved.insert(gap);
        }
    }

    /// Makes a hole.
    pub(super) fn punch(&mut self, range: Range<u64>) {
        self.extents.remove(Offset(range.start), len(&range));
        self.data.remove(range.clone());
        self.reserved.remove(range);
    }

    /// Bytes of another file, or of this, its holes as well.
    pub(super) fn stretches(&self, range: Range<u64>) -> Vec<Stretch> {
        self.extents.read(Offset(range.start), len(&range))
    }

    /// The first data from a place on that begins before `end`.
    pub(super) fn data_from(&self, at: u64, end: u64) -> Option<u64> {
        self.data.within(at..end).next().map(|range| range.start)
    }

    /// The first hole from a place on; `end` is one.
    pub(super) fn hole_from(&self, at: u64, end: u64) -> u64 {
        self.data.gap(at, end).map_or(end, |gap| gap.start)
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a hole where something was written, space that is counted twice or never given back.

    use super::*;
    use proptest::prelude::*;

    const LEN: u64 = 48;

    /// What a byte is: nothing, space, or written.
    #[derive(Clone, Copy, PartialEq)]
    enum Byte {
        Hole,
        Space,
        Data(u8),
    }

    proptest! {
        #[test]
        fn content_behaves_as_bytes_of_three_kinds(
            steps in proptest::collection::vec((0..LEN, 0..LEN, 0_u8..3), 0..40),
        ) {
            let mut content = Content::default();
            let mut bytes = [Byte::Hole; LEN as usize];
            for (number, (a, b, what)) in steps.into_iter().enumerate() {
                let range = a.min(b)..a.max(b);
                let part = &mut bytes[range.start as usize..range.end as usize];
                let lacks = part.iter().filter(|byte| **byte == Byte::Hole).count() as u64;
                prop_assert_eq!(content.lacks(range.clone()), lacks);
                match what {
                    0 => {
                        content.punch(range);
                        part.fill(Byte::Hole);
                    }
                    1 => {
                        content.reserve(range);
                        for byte in part.iter_mut().filter(|byte| **byte == Byte::Hole) {
                            *byte = Byte::Space;
                        }
                    }
                    _ => {
                        let data = vec![number as u8 + 1; part.len()];
                        content.write(range.start, &Buf::copy_of(&data).into());
                        part.fill(Byte::Data(number as u8 + 1));
                    }
                }
            }
            let is_data = |byte: &Byte| matches!(byte, Byte::Data(_));
            let space = bytes.iter().filter(|byte| **byte != Byte::Hole).count() as u64;
            prop_assert_eq!(content.space(), space);
            let read: Vec<u8> = bytes.iter().map(|byte| match byte {
                Byte::Data(byte) => *byte,
                _ => 0,
            }).collect();
            prop_assert_eq!(content.read(0..LEN).to_vec(), read);
            for at in 0..LEN {
                let from = &bytes[at as usize..];
                let data = from.iter().position(is_data).map(|n| at + n as u64);
                prop_assert_eq!(content.data_from(at, LEN), data);
                let hole = from.iter().position(|byte| !is_data(byte)).map_or(LEN, |n| at + n as u64);
                prop_assert_eq!(content.hole_from(at, LEN), hole);
            }
        }
    }
}
