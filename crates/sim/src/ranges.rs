//! A set of numbers (blocks, bytes) that lie in stretches: what a write buffer holds.
//!
//! The stretches neither overlap nor touch: what touches others is merged with them. So their count is
//! what a table of them would hold, and each can be written back in one go.

use std::collections::BTreeMap;
use std::ops::Range;

/// The set. See the [module](self).
#[derive(Debug, Default)]
pub struct RangeSet {
    /// Ends by starts.
    stretches: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// How many numbers.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many stretches.
    pub fn len(&self) -> usize {
        self.stretches.len()
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Adds a range.
    pub fn insert(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        // The last stretch that begins at or before the end, while it touches.
        while let Some((&at, &stretch_end)) = self.stretches.range(..=end).next_back() {
            if stretch_end < start {
                break;
            }
            (start, end) = (start.min(at), end.max(stretch_end));
            self.total -= stretch_end - at;
            self.stretches.remove(&at);
        }
        self.total += end - start;
        self.stretches.insert(start, end);
    }

    /// Takes a range out; cuts stretches that reach beyond it.
    pub fn remove(&mut self, range: Range<u64>) {
        while let Some((&at, &end)) = self.stretches.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.stretches.remove(&at);
            self.total -= end - at;
            if end > range.end {
                self.total += end - range.end;
                self.stretches.insert(range.end, end);
            }
            if at < range.start {
                self.total += range.start - at;
                self.stretches.insert(at, range.start);
                break;
            }
        }
    }

    /// Whether it holds all of a range.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        let before = self.stretches.range(..=range.start).next_back();
        before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// Whether adding the range would make no new stretch.
    pub fn would_merge(&self, range: &Range<u64>) -> bool {
        let before = self.stretches.range(..=range.end).next_back();
        before.is_some_and(|(_, end)| *end >= range.start)
    }

    /// The parts of a range that it holds, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.stretches.range(..range.start).next_back();
        let inside = self.stretches.range(range.start..range.end.max(range.start));
        before.into_iter().chain(inside).filter_map(move |(&at, &end)| {
            let part = at.max(range.start)..end.min(range.end);
            (!part.is_empty()).then_some(part)
        })
    }

    /// Up to `count` stretches around `middle`, half of them on each side.
    pub fn near(&self, middle: u64, count: usize) -> impl Iterator<Item = Range<u64>> + '_ {
        let after = self.stretches.range(middle..).take(count.div_ceil(2));
        let before = self.stretches.range(..middle).rev().take(count / 2);
        after.chain(before).map(|(&at, &end)| at..end)
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.stretches.clear();
        self.total = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Merging and cutting at wrong ends would lose writes or write stale blocks.
        #[test]
        fn stretches_are_a_set_of_numbers(
            steps in prop::collection::vec((any::<bool>(), 0..200_u64, 1..40_u64), 1..60)
        ) {
            let mut map = RangeSet::default();
            let mut plain = [false; 256];
            for (add, at, len) in steps {
                if add {
                    map.insert(at..at + len);
                } else {
                    map.remove(at..at + len);
                }
                plain[at as usize..(at + len) as usize].fill(add);
                let mut found = [false; 256];
                for part in map.within(0..256) {
                    found[part.start as usize..part.end as usize].fill(true);
                    prop_assert!(map.covers(&part) && map.would_merge(&part));
                }
                prop_assert_eq!(found, plain);
                prop_assert_eq!(map.total(), plain.iter().filter(|d| **d).count() as u64);
                prop_assert_eq!(map.near(100, 1000).count(), map.len());
            }
        }
    }
}
