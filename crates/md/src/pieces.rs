//! Bytes at places: what is known of a stretch of a member.
//!
//! A sorted list of disjoint stretches that never touch (neighbours join), each with its bytes as a
//! scatter-gather list, so nothing is copied. Places are bytes of the member's data area. A stripe
//! being written has one for the new bytes of each member and one for the old; the stripe cache holds
//! them by row.
//!
//! Beside [`rt::Extents`], which holds many buffers in a tree, for devices: here there are one or two stretches, asked
//! whether they hold a band many times a write, and each goes to its member in one request.

use rt::SgList;
use smallvec::SmallVec;
use std::ops::Range;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces(SmallVec<[(u64, SgList); 1]>);

impl Pieces {
    /// How many bytes are held.
    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|(_, data)| data.len() as u64).sum()
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stretches, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SgList)> {
        self.0.iter().map(|(at, data)| (*at, data))
    }

    /// The stretches, in order, given away.
    pub(crate) fn into_iter(self) -> impl Iterator<Item = (u64, SgList)> {
        self.0.into_iter()
    }

    /// Puts `data` at `at`, over what is there.
    pub(crate) fn insert(&mut self, at: u64, data: SgList) {
        if data.is_empty() {
            return;
        }
        let end = at + data.len() as u64;
        // All stretches that overlap or touch, and what they hold before and behind.
        let first = self.0.partition_point(|(start, held)| start + (held.len() as u64) < at);
        let last = self.0.partition_point(|(start, _)| *start <= end);
        if first == last {
            self.0.insert(first, (at, data));
            return;
        }
        let (mut joined_at, mut joined) = (at, SgList::new());
        let (start, held) = &mut self.0[first];
        if first + 1 == last && *start == at && held.len() == data.len() {
            *held = data;
            return;
        }
        if *start < at {
            joined_at = *start;
            let keep = (at - *start) as usize;
            joined = if keep == held.len() { std::mem::take(held) } else { held.slice(0..keep) };
        }
        joined.append(data);
        let (start, held) = &self.0[last - 1];
        let held_end = start + held.len() as u64;
        if held_end > end && *start <= end {
            joined.append(held.slice((end - start) as usize..held.len()));
        }
        self.0[first] = (joined_at, joined);
        self.0.drain(first + 1..last);
    }

    /// Forgets what is held of `range`.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first =
            self.0.partition_point(|(start, held)| start + (held.len() as u64) <= range.start);
        let last = self.0.partition_point(|(start, _)| *start < range.end);
        if first >= last {
            return;
        }
        let mut rest: SmallVec<[(u64, SgList); 2]> = SmallVec::new();
        let (start, held) = &self.0[first];
        if *start < range.start {
            rest.push((*start, held.slice(0..(range.start - start) as usize)));
        }
        let (start, held) = &self.0[last - 1];
        if start + held.len() as u64 > range.end {
            rest.push((range.end, held.slice((range.end - start) as usize..held.len())));
        }
        self.0.drain(first..last);
        self.0.insert_many(first, rest);
    }

    /// The bytes of `range`, where all of it is held.
    pub(crate) fn get(&self, range: &Range<u64>) -> Option<SgList> {
        let (start, held) = self.find(range)?;
        Some(held.slice((range.start - start) as usize..(range.end - start) as usize))
    }

    /// Whether all of `range` is held.
    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        self.find(range).is_some()
    }

    fn find(&self, range: &Range<u64>) -> Option<&(u64, SgList)> {
        let index = self.0.partition_point(|(start, held)| start + (held.len() as u64) < range.end);
        self.0.get(index).filter(|(start, _)| *start <= range.start)
    }

    /// The parts of `range` that are not held, in order.
    pub(crate) fn gaps(&self, range: &Range<u64>, mut each: impl FnMut(Range<u64>)) {
        let mut at = range.start;
        let first = self.0.partition_point(|(start, held)| start + (held.len() as u64) <= at);
        for (start, held) in &self.0[first..] {
            if *start >= range.end {
                break;
            }
            if *start > at {
                each(at..*start);
            }
            at = start + held.len() as u64;
        }
        if at < range.end {
            each(at..range.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rt::Buf;

    /// Found by the property test below: the stretch was cut in two that touched, and neither half held
    /// what lay across the cut.
    #[test]
    fn forgetting_nothing_in_the_middle_of_a_stretch_leaves_it_whole() {
        let mut pieces = Pieces::default();
        pieces.insert(0, Buf::zeros(29).into());
        pieces.remove(&(22..22));
        assert!(pieces.holds(&(0..23)));
    }

    proptest! {
        /// Bytes lost or doubled where stretches overlap: pieces behave as bytes with holes.
        #[test]
        fn pieces_behave_as_bytes_with_holes(puts in proptest::collection::vec((0_u64..40, 0_u64..40, any::<bool>()), 0..12), a in 0_u64..40, b in 0_u64..40) {
            let mut pieces = Pieces::default();
            let mut bytes = [None; 40];
            for (n, (from, to, removes)) in puts.into_iter().enumerate() {
                let (from, to) = (from.min(to), from.max(to));
                if removes && n % 3 == 2 {
                    pieces.remove(&(from..to));
                    bytes[from as usize..to as usize].fill(None);
                    continue;
                }
                let data: Vec<u8> = (from..to).map(|at| (at * 7 + n as u64 * 50) as u8).collect();
                for (at, byte) in (from..).zip(&data) {
                    bytes[at as usize] = Some(*byte);
                }
                pieces.insert(from, Buf::copy_of(&data).into());
            }
            let range = a.min(b)..a.max(b);
            let part = &bytes[range.start as usize..range.end as usize];
            let mut missing = Vec::new();
            pieces.gaps(&range, |gap| missing.extend(gap));
            let holes: Vec<u64> = range.clone().filter(|at| bytes[*at as usize].is_none()).collect();
            prop_assert_eq!(missing, holes);
            if !range.is_empty() {
                let whole: Option<Vec<u8>> = part.iter().copied().collect();
                prop_assert_eq!(pieces.holds(&range), whole.is_some());
                prop_assert_eq!(pieces.get(&range).map(|data| data.to_vec()), whole);
            }
            prop_assert_eq!(pieces.len(), bytes.iter().flatten().count() as u64);
        }
    }
}
