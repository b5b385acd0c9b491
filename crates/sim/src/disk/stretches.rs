//! What a disk's write buffer has to write back: stretches of blocks, in their order, each with the place of its first block.
//!
//! Whenever its mechanism is free a disk weighs those that are nearest to its heads, mostly the same as the time before. So a
//! stretch's place, which takes some divisions, is worked out when it comes in and kept with it. A buffer holds some hundred
//! stretches at the most (`write_cache_extents`): one sorted list, in which those that are weighed lie side by side in memory,
//! costs less than the tree of a [`RangeSet`](stdx::RangeSet), which is for sets that nothing bounds.
//!
//! As there, stretches neither overlap nor touch, and none is empty.

use super::geometry::{Layout, Place};
use std::ops::Range;

/// A stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its first block.
    pub(super) start: u64,
    /// The block behind its last.
    pub(super) end: u64,
    /// Unrolled time of its first block.
    pub(super) unrolled_ns: u64,
    /// The angle of its first block, in nanoseconds of the revolution.
    pub(super) angle_ns: u64,
    /// The cylinder of its first block, and its head.
    pub(super) cylinder: u64,
    pub(super) head: u64,
}

impl Stretch {
    fn new(blocks: Range<u64>, layout: &Layout) -> Stretch {
        let Place { cylinder, head, unrolled_ns } = layout.locate(blocks.start);
        let angle_ns = layout.angle_ns(unrolled_ns);
        Stretch { start: blocks.start, end: blocks.end, unrolled_ns, angle_ns, cylinder, head }
    }

    /// Its blocks.
    pub(super) fn blocks(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Stretches {
    list: Vec<Stretch>,
    total: u64,
}

impl Stretches {
    /// How many blocks.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// How many stretches.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes everything out.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.total = 0;
    }

    /// Adds blocks.
    pub(super) fn insert(&mut self, blocks: Range<u64>, layout: &Layout) {
        if blocks.is_empty() {
            return;
        }
        let first = self.first_that_ends(blocks.start);
        let rest = &self.list[first..];
        let last = first + rest.iter().take_while(|held| held.start <= blocks.end).count();
        if first == last {
            self.total += blocks.end - blocks.start;
            self.list.insert(first, Stretch::new(blocks, layout));
            return;
        }
        self.total -= self.list[first..last].iter().map(|held| held.end - held.start).sum::<u64>();
        let end = blocks.end.max(self.list[last - 1].end);
        let joined = &mut self.list[first];
        if blocks.start < joined.start {
            *joined = Stretch::new(blocks.start..end, layout);
        }
        joined.end = end;
        self.total += end - joined.start;
        self.list.drain(first + 1..last);
    }

    /// Takes blocks out; cuts stretches that reach beyond them.
    pub(super) fn remove(&mut self, blocks: Range<u64>, layout: &Layout) {
        let mut index = self.first_behind(blocks.start);
        while let Some(held) = self.list.get_mut(index)
            && held.start < blocks.end
            && blocks.start < blocks.end
        {
            let (start, end) = (held.start, held.end);
            self.total -= end.min(blocks.end) - start.max(blocks.start);
            let rest = (end > blocks.end).then(|| Stretch::new(blocks.end..end, layout));
            match (start < blocks.start, rest) {
                (true, rest) => {
                    held.end = blocks.start;
                    index += 1;
                    if let Some(rest) = rest {
                        self.list.insert(index, rest);
                    }
                }
                (false, Some(rest)) => *held = rest,
                (false, None) => {
                    self.list.remove(index);
                }
            }
            if end >= blocks.end {
                return;
            }
        }
    }

    /// Whether it holds all of these blocks.
    pub(super) fn covers(&self, blocks: &Range<u64>) -> bool {
        let held = self.list.get(self.first_behind(blocks.start));
        blocks.is_empty()
            || held.is_some_and(|held| held.start <= blocks.start && blocks.end <= held.end)
    }

    /// Whether adding these blocks would make no new stretch.
    pub(super) fn would_merge(&self, blocks: &Range<u64>) -> bool {
        let held = self.list.get(self.first_that_ends(blocks.start));
        held.is_some_and(|held| held.start <= blocks.end)
    }

    /// The parts of these blocks that it holds, in order.
    pub(super) fn within(&self, blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let held = self.list[self.first_behind(blocks.start)..].iter();
        let held = held.take_while(move |held| held.start < blocks.end);
        let held = held.map(move |held| held.start.max(blocks.start)..held.end.min(blocks.end));
        held.filter(|part| !part.is_empty())
    }

    /// The `count` stretches nearest to `middle`, the nearest first; one that lies over it is 0 away. All of them, where there
    /// are no more.
    pub(super) fn near(&self, middle: u64, count: usize) -> Near<'_> {
        let (before, after) =
            self.list.split_at(self.list.partition_point(|held| held.start < middle));
        Near { middle, before, after, left: count }
    }

    /// The stretch that `block` lies in or that is the next behind it; the first where there is none.
    pub(super) fn next_from(&self, block: u64) -> Option<&Stretch> {
        self.list.get(self.first_behind(block)).or(self.list.first())
    }

    /// The place in the list of the first stretch that ends at `block` or behind it.
    fn first_that_ends(&self, block: u64) -> usize {
        self.list.partition_point(|held| held.end < block)
    }

    /// The place in the list of the first stretch of which something lies at `block` or behind it.
    fn first_behind(&self, block: u64) -> usize {
        self.list.partition_point(|held| held.end <= block)
    }
}

/// Stretches by their distance. See [`Stretches::near`].
pub(super) struct Near<'a> {
    middle: u64,
    before: &'a [Stretch],
    after: &'a [Stretch],
    left: usize,
}

impl<'a> Iterator for Near<'a> {
    type Item = &'a Stretch;

    fn next(&mut self) -> Option<&'a Stretch> {
        self.left = self.left.checked_sub(1)?;
        let is_before = match (self.before.last(), self.after.first()) {
            (Some(before), Some(after)) => {
                self.middle.saturating_sub(before.end) < after.start - self.middle
            }
            (before, _) => before.is_some(),
        };
        if is_before { self.before.split_off_last() } else { self.after.split_off_first() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::disk_profile;
    use stdx::{Prng, RangeSet};

    /// A disk that forgets what it holds loses writes, and one whose places are of other blocks moves its arm there: after
    /// each change it is a set of ranges, and each stretch lies where the layout has it.
    #[test]
    fn it_behaves_as_a_set_of_ranges_with_places() {
        // Far enough apart to lie on several tracks.
        const UNIT: u64 = 500;
        const BLOCKS: u64 = 96;
        let layout = Layout::new(&disk_profile("st3750640as"));
        let mut prng = Prng::new(11);
        for _ in 0..300 {
            let (mut held, mut set) = (Stretches::default(), RangeSet::default());
            for _ in 0..60 {
                let (a, b) = (prng.below(BLOCKS), prng.below(BLOCKS) + 1);
                let range = a.min(b) * UNIT..a.max(b) * UNIT;
                assert_eq!(held.covers(&range), set.covers(&range));
                assert_eq!(held.would_merge(&range), set.would_merge(&range));
                assert!(held.within(range.clone()).eq(set.within(range.clone())));
                if prng.chance(0.4) {
                    held.insert(range.clone(), &layout);
                    set.insert(range);
                } else {
                    let range = range.start..range.end.min(range.start + prng.below(20) * UNIT);
                    held.remove(range.clone(), &layout);
                    set.remove(range);
                }
                assert!(held.list.iter().map(Stretch::blocks).eq(set.iter()));
                assert!(held.list.iter().all(|held| *held == Stretch::new(held.blocks(), &layout)));
                assert_eq!((held.total(), held.len()), (set.total(), set.len()));
                let middle = prng.below(BLOCKS) * UNIT;
                let next = set.iter().find(|held| held.end > middle).or_else(|| set.iter().next());
                assert_eq!(held.next_from(middle).map(Stretch::blocks), next);
                let away = |held: &Range<u64>| match held.start < middle {
                    true => middle.saturating_sub(held.end),
                    false => held.start - middle,
                };
                let near: Vec<_> = held.near(middle, 1000).map(Stretch::blocks).collect();
                assert_eq!(near.len(), set.len());
                assert!(near.is_sorted_by_key(away));
            }
        }
    }

    /// A disk that looks at one stretch must find it on whichever side of the head it lies.
    #[test]
    fn near_finds_as_many_as_there_are_on_either_side() {
        let layout = Layout::new(&disk_profile("st3750640as"));
        let mut held = Stretches::default();
        [0..2, 10..12, 20..22, 90..92].into_iter().for_each(|range| held.insert(range, &layout));
        let near =
            |middle, count| held.near(middle, count).map(|part| part.start).collect::<Vec<_>>();
        assert_eq!(near(100, 1), [90]);
        assert_eq!(near(100, 3), [90, 20, 10]);
        assert_eq!(near(0, 3), [0, 10, 20]);
        assert_eq!(near(21, 2), [20, 10]);
        assert_eq!(near(14, 9), [10, 20, 0, 90]);
        assert_eq!(near(14, 0), [0; 0]);
    }
}
