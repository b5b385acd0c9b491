//! The buffer of a disk: which blocks it holds, for reads and for writes. Only the bookkeeping; the
//! bytes lie in the [`Store`](crate::Store)s of the device.
//!
//! *Reads.* The buffer is divided into segments. Each holds one stretch of blocks, the tail of a
//! sequential stream; a new stream takes the segment that was longest unused.
//!
//! *Writes.* Dirty blocks are a set of stretches that neither overlap nor touch: a write that touches
//! others is merged with them. The firmware's table of stretches is bounded, and so is the memory.

use super::geometry::{Layout, Place};
use std::collections::BTreeMap;
use std::ops::Range;

/// The segments of the read buffer.
#[derive(Debug)]
pub struct ReadCache {
    segments: Vec<Segment>,
    segments_max: usize,
    segment_sectors: u64,
    uses: u64,
}

#[derive(Clone, Debug)]
struct Segment {
    blocks: Range<u64>,
    last_use: u64,
}

impl ReadCache {
    /// A buffer of so many segments, each for so many sectors.
    pub fn new(segments: usize, segment_sectors: u64) -> ReadCache {
        ReadCache { segments: Vec::new(), segments_max: segments, segment_sectors, uses: 0 }
    }

    /// Sectors of one segment.
    pub fn segment_sectors(&self) -> u64 {
        self.segment_sectors
    }

    /// How far from the start of `blocks` on the buffer holds them.
    pub fn held(&mut self, blocks: &Range<u64>) -> u64 {
        self.uses += 1;
        for segment in &mut self.segments {
            if segment.blocks.contains(&blocks.start) {
                segment.last_use = self.uses;
                return segment.blocks.end.min(blocks.end) - blocks.start;
            }
        }
        0
    }

    /// Takes in `blocks` that came from the medium.
    pub fn fill(&mut self, blocks: Range<u64>) {
        self.uses += 1;
        let grows = |s: &Segment| s.blocks.contains(&blocks.start) || s.blocks.end == blocks.start;
        let index = match self.segments.iter().position(grows) {
            Some(index) => {
                self.segments[index].blocks.end = self.segments[index].blocks.end.max(blocks.end);
                index
            }
            None if self.segments.len() < self.segments_max => {
                self.segments.push(Segment { blocks, last_use: 0 });
                self.segments.len() - 1
            }
            None => {
                let oldest = (0..self.segments.len()).min_by_key(|i| self.segments[*i].last_use);
                let index = oldest.expect("a buffer has a segment");
                self.segments[index].blocks = blocks;
                index
            }
        };
        let segment = &mut self.segments[index];
        segment.last_use = self.uses;
        let oldest_kept = segment.blocks.end.saturating_sub(self.segment_sectors);
        segment.blocks.start = segment.blocks.start.max(oldest_kept);
    }

    /// Forgets segments that a write made stale.
    pub fn forget(&mut self, blocks: &Range<u64>) {
        self.segments.retain(|s| s.blocks.end <= blocks.start || blocks.end <= s.blocks.start);
    }

    /// Forgets everything: the power was cut.
    pub fn clear(&mut self) {
        self.segments.clear();
    }
}

/// The dirty stretches of the write buffer.
#[derive(Debug, Default)]
pub struct DirtyMap {
    stretches: BTreeMap<u64, Stretch>,
    sectors: u64,
}

/// A dirty stretch; its start is its key.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The block after its last.
    pub end: u64,
    /// Where it starts.
    pub place: Place,
}

impl DirtyMap {
    /// Dirty sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Stretches.
    pub fn len(&self) -> usize {
        self.stretches.len()
    }

    /// Whether nothing is dirty.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// Marks `blocks` as dirty.
    pub fn insert(&mut self, blocks: Range<u64>, layout: &Layout) {
        let (mut start, mut end) = (blocks.start, blocks.end);
        // The last stretch that begins at or before the end, while it touches.
        while let Some((&at, stretch)) = self.stretches.range(..=end).next_back() {
            if stretch.end < start {
                break;
            }
            (start, end) = (start.min(at), end.max(stretch.end));
            self.sectors -= stretch.end - at;
            self.stretches.remove(&at);
        }
        self.sectors += end - start;
        self.stretches.insert(start, Stretch { end, place: layout.locate(start) });
    }

    /// Marks `blocks` as clean; cuts stretches that reach beyond them.
    pub fn remove(&mut self, blocks: Range<u64>, layout: &Layout) {
        while let Some((&at, &stretch)) = self.stretches.range(..blocks.end).next_back() {
            if stretch.end <= blocks.start {
                break;
            }
            self.stretches.remove(&at);
            self.sectors -= stretch.end - at;
            if stretch.end > blocks.end {
                self.sectors += stretch.end - blocks.end;
                let place = layout.locate(blocks.end);
                self.stretches.insert(blocks.end, Stretch { end: stretch.end, place });
            }
            if at < blocks.start {
                self.sectors += blocks.start - at;
                self.stretches.insert(at, Stretch { end: blocks.start, place: stretch.place });
                break;
            }
        }
    }

    /// Whether all of `blocks` are dirty.
    pub fn covers(&self, blocks: &Range<u64>) -> bool {
        let before = self.stretches.range(..=blocks.start).next_back();
        before.is_some_and(|(_, stretch)| stretch.end >= blocks.end)
    }

    /// Whether a write of `blocks` would need no new entry in the table.
    pub fn would_merge(&self, blocks: &Range<u64>) -> bool {
        let before = self.stretches.range(..=blocks.end).next_back();
        before.is_some_and(|(_, stretch)| stretch.end >= blocks.start)
    }

    /// The dirty parts of `blocks`, in order.
    pub fn within(&self, blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let before = self.stretches.range(..blocks.start).next_back();
        let inside = self.stretches.range(blocks.start..blocks.end);
        before.into_iter().chain(inside).filter_map(move |(&at, stretch)| {
            let part = at.max(blocks.start)..stretch.end.min(blocks.end);
            (!part.is_empty()).then_some(part)
        })
    }

    /// Up to `count` stretches around block `lba`, half of them on each side.
    pub fn near(&self, lba: u64, count: usize) -> impl Iterator<Item = (u64, &Stretch)> {
        let after = self.stretches.range(lba..).take(count.div_ceil(2));
        let before = self.stretches.range(..lba).rev().take(count / 2);
        after.chain(before).map(|(&at, stretch)| (at, stretch))
    }

    /// Forgets everything: the power was cut.
    pub fn clear(&mut self) {
        self.stretches.clear();
        self.sectors = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::disk_profile;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Merging and cutting at wrong ends would lose writes or write stale blocks.
        #[test]
        fn dirty_stretches_are_a_set_of_blocks(
            steps in prop::collection::vec((any::<bool>(), 0..200_u64, 1..40_u64), 1..60)
        ) {
            let layout = Layout::new(&disk_profile("wd5000aaks"));
            let mut map = DirtyMap::default();
            let mut plain = [false; 256];
            for (dirty, at, len) in steps {
                if dirty {
                    map.insert(at..at + len, &layout);
                } else {
                    map.remove(at..at + len, &layout);
                }
                plain[at as usize..(at + len) as usize].fill(dirty);
                let mut found = [false; 256];
                for part in map.within(0..256) {
                    found[part.start as usize..part.end as usize].fill(true);
                    prop_assert!(map.covers(&part) && map.would_merge(&part));
                }
                prop_assert_eq!(found, plain);
                prop_assert_eq!(map.sectors(), plain.iter().filter(|d| **d).count() as u64);
                prop_assert_eq!(map.near(100, 1000).count(), map.len());
            }
        }
    }

    #[test]
    fn a_new_stream_takes_the_segment_that_was_longest_unused() {
        let mut cache = ReadCache::new(2, 100);
        cache.fill(0..50);
        cache.fill(1000..1050);
        assert_eq!(cache.held(&(0..10)), 10);
        cache.fill(2000..2010);
        assert_eq!(cache.held(&(1000..1010)), 0);
        cache.fill(50..120);
        assert_eq!(cache.held(&(10..30)), 0, "a segment keeps its last 100 sectors");
        assert_eq!(cache.held(&(100..130)), 20);
        cache.forget(&(119..121));
        assert_eq!(cache.held(&(100..130)), 0);
    }
}
