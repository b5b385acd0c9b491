//! The read buffer of a disk: which blocks it holds. Only the bookkeeping; the bytes lie in the
//! [`Store`](crate::store::Store)s of the device.
//!
//! The buffer is divided into segments (DiskSim calls them so too). Each holds one stretch of blocks,
//! the tail of a sequential stream; a new stream takes the segment that was longest unused. What the
//! buffer holds for writes is a [`RangeSet`](stdx::RangeSet).

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

    /// The stretch that holds this block, if one does.
    pub fn stretch(&self, block: u64) -> Option<Range<u64>> {
        let segment = self.segments.iter().find(|s| s.blocks.contains(&block));
        segment.map(|segment| segment.blocks.clone())
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

#[cfg(test)]
mod tests {
    use super::*;

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
