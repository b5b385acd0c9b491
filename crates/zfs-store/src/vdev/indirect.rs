//! Removed vdevs: where what was moved lies now.
//!
//! A mapping leads from ranges of the removed vdev to places on others, sorted by the old offset. Most blocks lie
//! in one range; a block in which a range ends is *split*. How either is read is in `read::indirect`.
//!
//! Source: OpenZFS, `vdev_indirect_mapping.c`.

use zfs_format::vdev::indirect::MappingEntry;

/// Where the ranges of a removed vdev lie now.
pub(crate) struct Indirect {
    ranges: Vec<Range>,
}

/// Bytes that moved together.
#[derive(Clone, Copy)]
struct Range {
    source: u64,
    len: u64,
    vdev: u32,
    target: u64,
}

/// A part of a block, on a vdev that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) vdev: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Indirect {
    /// The entries in the order of their old offsets; nothing where they are not, or overlap.
    pub(crate) fn new(entries: &[MappingEntry]) -> Option<Indirect> {
        let range = |entry: &MappingEntry| Range {
            source: entry.source(),
            len: entry.target.allocated(),
            vdev: entry.target.vdev(),
            target: entry.target.offset(),
        };
        let ranges: Vec<Range> = entries.iter().map(range).collect();
        let in_order = |pair: &[Range]| {
            pair[0].source.checked_add(pair[0].len).is_some_and(|end| end <= pair[1].source)
        };
        ranges.windows(2).all(in_order).then_some(Indirect { ranges })
    }

    /// Where these bytes lie; nothing where some of them were never moved.
    pub(super) fn parts(&self, offset: u64, len: u64) -> Option<Vec<Part>> {
        let (mut at, end) = (offset, offset.checked_add(len)?);
        let mut number =
            self.ranges.partition_point(|range| range.source <= offset).checked_sub(1)?;
        let mut parts = Vec::new();
        while at < end {
            let range = self.ranges.get(number).filter(|range| range.source <= at)?;
            let within = at - range.source;
            let left = range.len.checked_sub(within).filter(|left| *left > 0)?;
            let len = left.min(end - at);
            parts.push(Part { vdev: range.vdev, offset: range.target.checked_add(within)?, len });
            at += len;
            number += 1;
        }
        assert_eq!(parts.iter().map(|part| part.len).sum::<u64>(), len, "the parts are the whole");
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::block_pointer::Dva;

    fn entry(source: u64, len: u64, vdev: u32, target: u64) -> MappingEntry {
        let target = Dva::new(vdev, target, len, false);
        MappingEntry { source_sectors: source / 512, target }
    }

    #[test]
    fn parts_follow_the_ranges_and_end_at_gaps() {
        let entries =
            [entry(4096, 4096, 1, 0), entry(8192, 512, 2, 65536), entry(16384, 512, 1, 0)];
        let mapping = Indirect::new(&entries).expect("in order");
        let part = |vdev, offset, len| Part { vdev, offset, len };
        assert_eq!(mapping.parts(5120, 1024), Some(vec![part(1, 1024, 1024)]));
        let split = vec![part(1, 3584, 512), part(2, 65536, 512)];
        assert_eq!(mapping.parts(7680, 1024), Some(split));
        for (offset, len) in [(0, 512), (8192, 1024), (12288, 512), (16384, 1024), (u64::MAX, 9)] {
            assert_eq!(mapping.parts(offset, len), None, "{offset} {len}");
        }
        assert!(Indirect::new(&[entry(4096, 4096, 1, 0), entry(4608, 512, 1, 0)]).is_none());
    }
}
