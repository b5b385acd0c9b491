//! Free space by place and by size: where a block goes.
//!
//! Blocks that are written after each other should lie after each other, so the place behind the last one is tried first (the
//! *cursor*). Where that is taken, the shortest stretch that is long enough is used: long ones are kept for long blocks.
//!
//! **Invariant.** Both indexes hold the same stretches, and no two of them touch.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free space of a metaslab.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeSpace {
    /// Ends by starts.
    by_start: BTreeMap<u64, u64>,
    /// Lengths with starts.
    by_len: BTreeSet<(u64, u64)>,
    total: u64,
    cursor: u64,
}

impl FreeSpace {
    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes of the longest stretch.
    pub fn longest(&self) -> u64 {
        self.by_len.last().map_or(0, |(len, _)| *len)
    }

    /// How many stretches there are.
    pub fn stretches(&self) -> usize {
        self.by_start.len()
    }

    /// The stretches, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.by_start.iter().map(|(start, end)| *start..*end)
    }

    /// Whether any of a stretch is free.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.by_start.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// A stretch becomes free.
    ///
    /// # Panics
    /// Some of it is: that is a bug of ours.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        assert!(!self.touches(&range), "{range:?} is free already, in part at least");
        self.total += range.end - range.start;
        let mut whole = range.clone();
        if let Some((&start, &end)) = self.by_start.range(..range.start).next_back()
            && end == range.start
        {
            self.drop_stretch(start, end);
            whole.start = start;
        }
        if let Some(&end) = self.by_start.get(&range.end) {
            self.drop_stretch(range.end, end);
            whole.end = end;
        }
        self.add_stretch(whole.start, whole.end);
    }

    /// Takes a stretch that is free as a whole; false, and nothing happens, where it isn't.
    pub fn take_at(&mut self, range: Range<u64>) -> bool {
        let Some((&start, &end)) = self.by_start.range(..=range.start).next_back() else {
            return false;
        };
        if end < range.end || range.is_empty() {
            return false;
        }
        self.drop_stretch(start, end);
        if start < range.start {
            self.add_stretch(start, range.start);
        }
        if range.end < end {
            self.add_stretch(range.end, end);
        }
        self.total -= range.end - range.start;
        true
    }

    /// Takes so many bytes in one piece, and says where.
    pub fn take(&mut self, len: u64) -> Option<u64> {
        assert!(len > 0, "something is taken");
        let behind = self.by_start.range(..=self.cursor).next_back();
        let at = match behind {
            Some((_, end)) if end.checked_sub(self.cursor).is_some_and(|left| left >= len) => {
                self.cursor
            }
            _ => self.by_len.range((len, 0)..).next()?.1,
        };
        let taken = self.take_at(at..at + len);
        assert!(taken, "what was found is free");
        self.cursor = at + len;
        Some(at)
    }

    fn add_stretch(&mut self, start: u64, end: u64) {
        self.by_start.insert(start, end);
        self.by_len.insert((end - start, start));
    }

    fn drop_stretch(&mut self, start: u64, end: u64) {
        let known = self.by_start.remove(&start);
        let sized = self.by_len.remove(&(end - start, start));
        assert!(known == Some(end) && sized, "both indexes hold the same stretches");
    }
}

impl FromIterator<Range<u64>> for FreeSpace {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> FreeSpace {
        let mut free = FreeSpace::default();
        ranges.into_iter().for_each(|range| free.insert(range));
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    /// What could break: a piece that is given to two, one that is lost, stretches that touch and are not joined.
    #[test]
    fn free_space_is_what_a_list_of_flags_says() {
        let mut random = Prng::new(5);
        for _ in 0..50 {
            let mut flags = [true; 256];
            let mut free: FreeSpace = std::iter::once(0..256).collect();
            let mut held: Vec<Range<u64>> = Vec::new();
            for _ in 0..200 {
                if random.chance(0.6) {
                    let len = 1 + random.next_u64() % 12;
                    let fits =
                        flags.chunk_by(|a, b| a == b).any(|run| run[0] && run.len() as u64 >= len);
                    let at = free.take(len);
                    assert_eq!(at.is_some(), fits);
                    if let Some(at) = at {
                        let part = &mut flags[at as usize..(at + len) as usize];
                        assert!(part.iter().all(|flag| *flag), "it was free");
                        part.fill(false);
                        held.push(at..at + len);
                    }
                } else if !held.is_empty() {
                    let range = held.swap_remove((random.next_u64() % held.len() as u64) as usize);
                    flags[range.start as usize..range.end as usize].fill(true);
                    free.insert(range);
                }
                let total = flags.iter().filter(|flag| **flag).count() as u64;
                assert_eq!(free.total(), total);
                let runs = flags.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
                assert_eq!(free.stretches(), runs);
            }
        }
    }

    #[test]
    fn blocks_follow_each_other_and_long_stretches_are_kept() {
        let mut free: FreeSpace = [0..10, 20..23, 40..100].into_iter().collect();
        assert_eq!((free.take(2), free.take(2), free.take(7)), (Some(0), Some(2), Some(40)));
        assert_eq!(free.take(70), None);
        assert!(free.take_at(20..22) && !free.take_at(21..23) && free.take_at(22..23));
        assert_eq!((free.longest(), free.total()), (53, 6 + 53));
    }
}
