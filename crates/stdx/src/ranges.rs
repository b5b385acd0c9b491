//! A set of numbers (bytes, blocks, transaction groups) that lie in stretches.
//!
//! The stretches neither overlap nor touch, and none is empty: what touches others is merged with them. So their count
//! is what a table of them would hold, and each can be written or freed in one go. Both changes say how many
//! numbers they changed: who believes that all were new, or all were there, asserts it.
//!
//! Nothing bounds it here: who fills it from a disk or a network bounds how much.

use std::collections::BTreeMap;
use std::ops::Range;

/// The set. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

    /// All stretches, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.stretches.iter().map(|(at, end)| *at..*end)
    }

    /// Adds a range, and says how many of its numbers were new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return 0;
        }
        let before = self.total;
        // The last stretch that begins at or before the end, while it touches.
        while let Some((&at, &stretch_end)) = self.stretches.range(..=end).next_back() {
            if stretch_end < start {
                break;
            }
            self.total -= stretch_end - at;
            end = end.max(stretch_end);
            if at <= start {
                // It only grows: no second walk down the tree to take it out.
                start = at;
                break;
            }
            self.stretches.remove(&at);
        }
        self.total += end - start;
        self.stretches.insert(start, end);
        self.total - before
    }

    /// Takes a range out, and says how many of its numbers were there; cuts stretches that reach beyond it.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        let before = self.total;
        if range.start >= range.end {
            return 0;
        }
        while let Some((&at, end)) = self.stretches.range_mut(..range.end).next_back() {
            let stretch_end = *end;
            if stretch_end <= range.start {
                break;
            }
            self.total -= stretch_end.min(range.end) - at.max(range.start);
            if at < range.start {
                *end = range.start;
            } else {
                self.stretches.remove(&at);
            }
            if stretch_end > range.end {
                self.stretches.insert(range.end, stretch_end);
            }
            if at <= range.start {
                break;
            }
        }
        before - self.total
    }

    /// Whether it holds a number.
    pub fn contains(&self, number: u64) -> bool {
        self.stretches.range(..=number).next_back().is_some_and(|(_, end)| *end > number)
    }

    /// The stretch that a number lies in.
    pub fn stretch_of(&self, number: u64) -> Option<Range<u64>> {
        let (at, end) = self.stretches.range(..=number).next_back()?;
        (*end > number).then_some(*at..*end)
    }

    /// Where the first stretch behind a number begins.
    pub fn next_start(&self, number: u64) -> Option<u64> {
        self.stretches.range(number.checked_add(1)?..).next().map(|(at, _)| *at)
    }

    /// Whether it holds all of a range.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        let before = self.stretches.range(..=range.start).next_back();
        range.is_empty() || before.is_some_and(|(_, end)| *end >= range.end)
    }

    /// Whether it holds any of a range.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        let before = self.stretches.range(..range.end).next_back();
        !range.is_empty() && before.is_some_and(|(_, end)| *end > range.start)
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

    /// The first stretch from `from` on that is not in the set and lies before `end`.
    pub fn gap(&self, from: u64, end: u64) -> Option<Range<u64>> {
        let before = self.stretches.range(..=from).next_back();
        let start = before.map_or(from, |(_, stretch_end)| from.max(*stretch_end));
        let next = self.stretches.range(start..).next();
        let until = next.map_or(end, |(at, _)| end.min(*at));
        (start < until).then_some(start..until)
    }

    /// What lies before `end` and not in the set.
    pub fn complement(&self, end: u64) -> RangeSet {
        let mut rest = RangeSet::default();
        let mut at = 0;
        while let Some(gap) = self.gap(at, end) {
            at = gap.end;
            rest.insert(gap);
        }
        rest
    }

    /// Up to where everything from 0 on is in the set.
    pub fn prefix(&self) -> u64 {
        self.stretches.get(&0).copied().unwrap_or(0)
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.stretches.clear();
        self.total = 0;
    }
}

impl Extend<Range<u64>> for RangeSet {
    fn extend<T: IntoIterator<Item = Range<u64>>>(&mut self, ranges: T) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<T: IntoIterator<Item = Range<u64>>>(ranges: T) -> RangeSet {
        let mut set = RangeSet::default();
        set.extend(ranges);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    const NUMBERS: u64 = 64;

    fn all(flags: &[bool]) -> bool {
        flags.iter().all(|flag| *flag)
    }

    /// Merging and cutting at wrong ends would lose writes, write stale blocks or allocate one block twice: after each
    /// change the set is the list of flags that it stands for.
    #[test]
    fn a_range_set_behaves_as_flags() {
        let mut random = Prng::new(7);
        for _ in 0..300 {
            let (mut set, mut flags) = (RangeSet::default(), [false; NUMBERS as usize]);
            for _ in 0..40 {
                let a = random.next_u64() % (NUMBERS + 1);
                let b = random.next_u64() % (NUMBERS + 1);
                let range = a.min(b)..a.max(b);
                let part = &mut flags[range.start as usize..range.end as usize];
                let there = part.iter().filter(|flag| **flag).count() as u64;
                let len = range.end - range.start;
                assert_eq!(set.covers(&range), there == len);
                assert_eq!(set.touches(&range), there > 0);
                if random.chance(0.5) {
                    assert_eq!(set.insert(range.clone()), len - there);
                    part.fill(true);
                    assert!(range.is_empty() || set.would_merge(&range));
                } else {
                    assert_eq!(set.remove(range), there);
                    part.fill(false);
                }
                holds(&set, &flags);
                let from = random.next_u64() % NUMBERS;
                let end = from + random.next_u64() % (NUMBERS - from);
                asked(&set, &flags, from..end);
            }
        }
    }

    fn holds(set: &RangeSet, flags: &[bool]) {
        let mut found = [false; NUMBERS as usize];
        for part in set.iter() {
            found[part.start as usize..part.end as usize].fill(true);
        }
        assert_eq!(found, flags);
        assert_eq!(set.total(), flags.iter().filter(|flag| **flag).count() as u64);
        assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.end < b.start));
        assert!(set.iter().all(|stretch| !stretch.is_empty()));
        assert_eq!(set.prefix(), flags.iter().take_while(|flag| **flag).count() as u64);
        assert!((0..NUMBERS).all(|number| set.contains(number) == flags[number as usize]));
        for number in 0..NUMBERS {
            let held = set.iter().find(|stretch| stretch.contains(&number));
            assert_eq!(set.stretch_of(number), held);
            let next = set.iter().map(|stretch| stretch.start).find(|start| *start > number);
            assert_eq!(set.next_start(number), next);
        }
        let rest = set.complement(NUMBERS);
        assert_eq!(rest.total() + set.total(), NUMBERS);
        assert!(rest.iter().all(|range| !set.touches(&range)));
        assert_eq!(set.iter().collect::<RangeSet>(), *set);
    }

    fn asked(set: &RangeSet, flags: &[bool], range: Range<u64>) {
        let mut part = vec![false; NUMBERS as usize];
        for held in set.within(range.clone()) {
            assert!(set.covers(&held));
            part[held.start as usize..held.end as usize].fill(true);
        }
        let (from, end) = (range.start as usize, range.end as usize);
        assert_eq!(part[from..end], flags[from..end]);
        assert!(!part[..from].contains(&true) && !part[end..].contains(&true));
        let gap = set.gap(range.start, range.end);
        let start = (from..end).find(|at| !flags[*at]);
        assert_eq!(gap.as_ref().map(|gap| gap.start as usize), start);
        if let Some(gap) = gap {
            assert!(!flags[gap.start as usize..gap.end as usize].contains(&true));
            assert!(gap.end == range.end || flags[gap.end as usize]);
            assert!(all(&flags[from..gap.start as usize]));
        }
    }

    #[test]
    fn ends_of_the_numbers_are_numbers_too() {
        let mut set = RangeSet::default();
        assert_eq!(set.insert(u64::MAX - 2..u64::MAX), 2);
        assert!(set.contains(u64::MAX - 1) && !set.contains(u64::MAX));
        assert_eq!(set.gap(5, u64::MAX), Some(5..u64::MAX - 2));
        assert_eq!(set.remove(0..u64::MAX), 2);
        assert!(set.is_empty());
        set.clear();
    }
}
