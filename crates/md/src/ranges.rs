//! A set of byte ranges: which part of a member is there.
//!
//! A member that is being rebuilt, a replacement that is being filled, an array whose parity is being
//! computed: each is right in some stretches and not yet in others. Stretches may come in any order
//! (several steps are in flight, and the lab rebuilds samples); neighbours join, so a rebuild from one
//! end to the other is one range.
//!
//! Sorted, disjoint, never touching, never empty. A set holds [`RANGES_MAX`] ranges; who adds samples
//! asks [`RangeSet::is_full`] first.

use std::ops::Range;

/// So many separate ranges are held. A sampled rebuild has some hundreds; each costs 16 bytes and a
/// step in a binary search.
pub(crate) const RANGES_MAX: usize = 65_536;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    /// Whether no separate range more can be held.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= RANGES_MAX
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|held| held.end < range.start);
        let last = self.0.partition_point(|held| held.start <= range.end);
        let mut joined = range;
        if first < last {
            joined.start = joined.start.min(self.0[first].start);
            joined.end = joined.end.max(self.0[last - 1].end);
        }
        self.0.splice(first..last, [joined]);
        assert!(
            self.0.len() <= RANGES_MAX + 64,
            "a range set is not asked to hold more than it can"
        );
    }

    /// Whether all of `range` is in the set.
    pub(crate) fn contains(&self, range: &Range<u64>) -> bool {
        let index = self.0.partition_point(|held| held.end < range.end);
        range.is_empty() || self.0.get(index).is_some_and(|held| held.start <= range.start)
    }

    /// Whether any of `range` is in the set.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        self.parts(range).next().is_some()
    }

    /// The parts of `range` that are in the set, in order.
    pub(crate) fn parts(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.0.partition_point(|held| held.end <= range.start);
        let (start, end) = (range.start, range.end);
        self.0[first..]
            .iter()
            .take_while(move |held| held.start < end)
            .map(move |held| held.start.max(start)..held.end.min(end))
            .filter(|part| !part.is_empty())
    }

    /// The first range from `from` on that is not in the set and lies before `end`.
    pub(crate) fn gap(&self, from: u64, end: u64) -> Option<Range<u64>> {
        let index = self.0.partition_point(|held| held.end <= from);
        let (start, next) = match self.0.get(index) {
            Some(held) if held.start <= from => (held.end, self.0.get(index + 1)),
            next => (from, next),
        };
        let until = next.map_or(end, |held| held.start.min(end));
        (start < until).then_some(start..until)
    }

    /// What lies before `end` and not in the set.
    pub(crate) fn complement(&self, end: u64) -> RangeSet {
        let mut rest = RangeSet::default();
        let mut at = 0;
        while let Some(gap) = self.gap(at, end) {
            at = gap.end;
            rest.insert(gap);
        }
        rest
    }

    /// All ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// Up to where everything from 0 on is in the set.
    pub(crate) fn prefix(&self) -> u64 {
        self.0.first().filter(|held| held.start == 0).map_or(0, |held| held.end)
    }

    /// How many bytes are in the set.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|held| held.end - held.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Off-by-one errors where ranges touch: the set behaves as a list of flags.
        #[test]
        fn a_range_set_behaves_as_flags(ranges in proptest::collection::vec((0_u64..40, 0_u64..40), 0..12), a in 0_u64..40, b in 0_u64..40) {
            let mut set = RangeSet::default();
            let mut flags = [false; 40];
            for (from, to) in ranges {
                set.insert(from.min(to)..from.max(to));
                flags[from.min(to) as usize..from.max(to) as usize].fill(true);
            }
            let asked = a.min(b)..a.max(b);
            let part = &flags[asked.start as usize..asked.end as usize];
            prop_assert_eq!(set.contains(&asked), part.iter().all(|flag| *flag));
            prop_assert_eq!(set.touches(&asked), part.iter().any(|flag| *flag));
            let found: u64 = set.parts(&asked).map(|part| part.end - part.start).sum();
            prop_assert_eq!(found, part.iter().filter(|flag| **flag).count() as u64);
            let prefix = flags.iter().take_while(|flag| **flag).count();
            prop_assert_eq!(set.prefix(), prefix as u64);
            let gap = set.gap(asked.start, asked.end);
            let missing = (asked.start..asked.end).find(|at| !flags[*at as usize]);
            prop_assert_eq!(gap.as_ref().map(|gap| gap.start), missing);
            let back = (asked.start..asked.end).skip_while(|at| flags[*at as usize]).find(|at| flags[*at as usize]);
            prop_assert_eq!(gap.map(|gap| gap.end), missing.map(|_| back.unwrap_or(asked.end)));
            let rest = set.complement(40);
            prop_assert_eq!(rest.total() + set.total(), 40);
            prop_assert!(rest.iter().all(|range| !set.touches(range)));
            prop_assert_eq!(set.total(), flags.iter().filter(|flag| **flag).count() as u64);
            prop_assert!(set.0.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
