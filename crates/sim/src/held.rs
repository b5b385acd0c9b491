//! Written data that is not on the medium yet: the content of a write buffer.
//!
//! It keeps the very buffers that were written, cut where later writes cover them, so taking data in
//! and giving it out moves no bytes, and its memory is what the buffer holds.

use rt::SgList;
use std::collections::BTreeMap;
use std::ops::Range;

/// Data by place, in bytes. Parts don't overlap.
#[derive(Default)]
pub(crate) struct HeldData {
    parts: BTreeMap<u64, SgList>,
}

impl HeldData {
    /// Takes in `data` at `at`, in place of what was there.
    pub(crate) fn insert(&mut self, at: u64, data: SgList) {
        self.remove(at..at + data.len() as u64);
        self.parts.insert(at, data);
    }

    /// Drops what lies in a range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        while let Some((&at, part)) = self.parts.range(..range.end).next_back() {
            let end = at + part.len() as u64;
            if end <= range.start {
                return;
            }
            let Some(part) = self.parts.remove(&at) else { return };
            if end > range.end {
                self.parts.insert(range.end, part.slice((range.end - at) as usize..part.len()));
            }
            if at < range.start {
                self.parts.insert(at, part.slice(0..(range.start - at) as usize));
                return;
            }
        }
    }

    /// What lies in a range: places and data, in order.
    pub(crate) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u64, SgList)> + '_ {
        let before = self.parts.range(..range.start).next_back();
        let inside = self.parts.range(range.start..range.end);
        before.into_iter().chain(inside).filter_map(move |(&at, part)| {
            let (from, to) = (at.max(range.start), range.end.min(at + part.len() as u64));
            (from < to).then(|| (from, part.slice((from - at) as usize..(to - at) as usize)))
        })
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rt::Buf;

    proptest! {
        /// A wrong cut would give back what was overwritten.
        #[test]
        fn held_data_is_the_last_that_was_written(
            steps in prop::collection::vec((any::<bool>(), 0..200_u64, 1..50_usize, 1..255_u8), 1..40)
        ) {
            let mut held = HeldData::default();
            let mut plain = [0_u8; 256];
            for (write, at, len, byte) in steps {
                let range = at as usize..at as usize + len;
                if write {
                    held.insert(at, Buf::copy_of(&vec![byte; len]).into());
                    plain[range].fill(byte);
                } else {
                    held.remove(at..at + len as u64);
                    plain[range].fill(0);
                }
                for whole in [0..256_u64, 50..120] {
                    let mut found = [0_u8; 256];
                    for (at, data) in held.within(whole.clone()) {
                        found[at as usize..at as usize + data.len()].copy_from_slice(&data.to_vec());
                    }
                    let whole = whole.start as usize..whole.end as usize;
                    prop_assert_eq!(&found[whole.clone()], &plain[whole]);
                }
            }
        }
    }
}
