//! The free blocks of one region, in memory: extents by place and by length.
//!
//! Two orders of the same extents, so that "what is free at this place", "the next that is long enough"
//! and "the longest" take no walk through all of them, however fragmented the region is.

use std::collections::{BTreeMap, BTreeSet};

/// Extents looked at when one near a goal is searched, before the longest is taken. More finds a nearer
/// one in a fragmented region, and takes longer.
const LOOKED_AT_MAX: usize = 64;

/// See the [module](self). Places are relative to the region.
#[derive(Debug, Default)]
pub(crate) struct FreeMap {
    by_place: BTreeMap<u32, u32>,
    by_len: BTreeSet<(u32, u32)>,
}

impl FreeMap {
    /// The zero bits of a bitmap's first `len` bits.
    pub(crate) fn of_bitmap(bytes: &[u8], len: u32) -> FreeMap {
        let mut map = FreeMap::default();
        let mut from = None;
        let mut at = 0;
        while at < len {
            let byte = bytes[at as usize / 8];
            // Whole bytes of one kind are the common case by far.
            let (used, step) = match byte {
                0x00 if at.is_multiple_of(8) => (false, 8),
                0xff if at.is_multiple_of(8) => (true, 8),
                _ => (byte >> (at % 8) & 1 == 1, 1),
            };
            match (used, from) {
                (false, None) => from = Some(at),
                (true, Some(start)) => {
                    map.insert(start, at - start);
                    from = None;
                }
                _ => {}
            }
            at += step;
        }
        if let Some(start) = from {
            map.insert(start, len - start);
        }
        map
    }

    fn insert(&mut self, start: u32, len: u32) {
        self.by_place.insert(start, len);
        self.by_len.insert((len, start));
    }

    fn remove(&mut self, start: u32) -> u32 {
        let len = self.by_place.remove(&start).expect("the extent was just seen");
        self.by_len.remove(&(len, start));
        len
    }

    /// Takes `len` blocks at `at`, which lie in one free extent.
    fn take(&mut self, at: u32, len: u32) -> (u32, u32) {
        let (&start, _) = self.by_place.range(..=at).next_back().expect("it was just seen");
        let whole = self.remove(start);
        if at > start {
            self.insert(start, at - start);
        }
        if start + whole > at + len {
            self.insert(at + len, start + whole - at - len);
        }
        (at, len)
    }

    /// Takes up to `want` blocks exactly at `at`, where it is free.
    pub(crate) fn take_at(&mut self, at: u32, want: u32) -> Option<(u32, u32)> {
        let (&start, &len) = self.by_place.range(..=at).next_back()?;
        let there = (start + len).checked_sub(at).filter(|there| *there > 0)?;
        Some(self.take(at, there.min(want)))
    }

    /// Takes up to `want` blocks: from the first extent at or after `goal` that holds them all, else from
    /// the longest there is, if it has at least `least`. The start leaves the given remainder on
    /// division by the alignment, where such a start is to be had.
    pub(crate) fn take_near(
        &mut self,
        goal: u32,
        want: u32,
        least: u32,
        align: (u32, u32),
    ) -> Option<(u32, u32)> {
        let fit = |(start, len): (u32, u32)| {
            let from = align_up(start, align)?;
            let skipped = from - start;
            (len > skipped && len - skipped >= want).then_some((from, want))
        };
        let inside = self.by_place.range(..goal).next_back().and_then(|(&start, &len)| {
            let end = start + len;
            (end > goal).then(|| (goal, end - goal))
        });
        let after = self.by_place.range(goal..).map(|(&start, &len)| (start, len));
        let before = self.by_place.range(..goal).rev().map(|(&start, &len)| (start, len));
        let found = inside
            .into_iter()
            .chain(after.take(LOOKED_AT_MAX))
            .chain(before.take(LOOKED_AT_MAX))
            .find_map(fit);
        let (at, len) = found.or_else(|| {
            let &(len, start) = self.by_len.last()?;
            let aligned = align_up(start, align).filter(|from| *from < start + len);
            let from = aligned.filter(|from| start + len - from >= least).unwrap_or(start);
            let len = start + len - from;
            (len >= least).then_some((from, len.min(want)))
        })?;
        Some(self.take(at, len))
    }

    /// Gives blocks back.
    pub(crate) fn give(&mut self, at: u32, len: u32) {
        let (mut start, mut len) = (at, len);
        if let Some((&left, &left_len)) = self.by_place.range(..at).next_back() {
            assert!(left + left_len <= at, "a block is given back once");
            if left + left_len == at {
                self.remove(left);
                start = left;
                len += left_len;
            }
        }
        if let Some((&right, _)) = self.by_place.range(at..).next() {
            assert!(right >= start + len, "a block is given back once");
            if right == start + len {
                len += self.remove(right);
            }
        }
        self.insert(start, len);
    }
}

/// The first place from `start` on with the wanted remainder; `align` is (unit, remainder).
fn align_up(start: u32, (unit, remainder): (u32, u32)) -> Option<u32> {
    if unit <= 1 {
        return Some(start);
    }
    let over = (start % unit + unit - remainder % unit) % unit;
    if over == 0 { Some(start) } else { start.checked_add(unit - over) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: u32 = 200;

    proptest! {
        /// Off-by-one errors where extents are cut and joined: what is taken was free, and is free
        /// again only when it is given back.
        #[test]
        fn a_map_behaves_as_an_array_of_bits(
            used in proptest::collection::vec(any::<bool>(), LEN as usize),
            steps in proptest::collection::vec((0..LEN, 1..40_u32, 0..3_u8, 1..9_u32, 0..9_u32), 0..40),
        ) {
            let mut bits = used;
            let mut bytes = vec![0_u8; LEN as usize / 8];
            for (i, bit) in bits.iter().enumerate() {
                bytes[i / 8] |= u8::from(*bit) << (i % 8);
            }
            let mut map = FreeMap::of_bitmap(&bytes, LEN);
            let mut taken = Vec::new();
            for (at, want, what, unit, remainder) in steps {
                let got = match what {
                    0 => {
                        if let Some((at, len)) = taken.pop() {
                            map.give(at, len);
                            bits[at as usize..(at + len) as usize].fill(false);
                        }
                        continue;
                    }
                    1 => {
                        let got = map.take_at(at, want);
                        prop_assert_eq!(got.is_some(), !bits[at as usize]);
                        got
                    }
                    _ => {
                        let got = map.take_near(at, want, 1, (unit, remainder));
                        prop_assert_eq!(got.is_some(), bits.iter().any(|used| !used));
                        got
                    }
                };
                if let Some((at, len)) = got {
                    prop_assert!(len >= 1 && len <= want);
                    let range = at as usize..(at + len) as usize;
                    prop_assert!(bits[range.clone()].iter().all(|used| !used));
                    bits[range].fill(true);
                    taken.push((at, len));
                }
            }
            let free: u32 = map.by_place.values().sum();
            prop_assert_eq!(free as usize, bits.iter().filter(|used| !**used).count());
            prop_assert_eq!(map.by_len.len(), map.by_place.len());
        }
    }
}
