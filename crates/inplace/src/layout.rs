//! Where things lie on the device, and how numbers are read from bytes that may be damaged.
//!
//! ```text
//! | superblock | descriptors | orphans | [journal] | group 0 | group 1 | … | [journal] | group n/2 | …
//!
//! group:  | bitmap of each region | inode map | [inode table] | data …
//! ```
//!
//! * **Blocks** are numbered from 0 at the start of the device. Block 0 holds the superblock.
//! * A **region** is what one bitmap block covers, or the group if that is smaller: the unit in which
//!   free space is loaded and counted. A **group** is one or more regions: the unit of policy. Real
//!   allocation groups of XFS keep free space in trees, not bitmaps; here a large group has many
//!   regions, of which only those in use are ever read.
//! * A **descriptor** (16 bytes) stands for each region: free blocks, flags; in a group's first region
//!   also the group's free inodes and directories. A region that was never used has no bitmap on the
//!   device: it is implied. So making a file system of terabytes writes little.
//! * **Orphans**: a slot of 8 bytes for each inode that has no name any more and is not yet freed, so
//!   that a mount after a crash can finish it.
//! * The **journal** lies before the first group or before the middle one.
//! * The rest of the device that makes no whole group of some use is left alone.
//!
//! Numbers are little-endian. All reading goes through [`stdx::bytes::Reader`], which checks bounds and names the
//! structure, the field and its place on the device in the error.

use crate::settings::{CHUNK_INODES, Inodes, JournalPlace, Mapping, Settings, SettingsError};
use stdx::{ByteCount, Offset};

/// Where, in an inode's record, the mapping begins.
pub(crate) const ROOT_AT: usize = 56;

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: u64 = 16;
/// Blocks of slots for orphans: how many files may be removed while they are open.
const ORPHAN_BLOCKS: u64 = 8;

/// A stretch of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// Where everything lies: computed from the settings and the size of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes in a block.
    pub(crate) block: u64,
    /// Bytes in an inode.
    pub(crate) inode: u64,
    pub(crate) region_blocks: u64,
    pub(crate) group_blocks: u64,
    pub(crate) regions: u32,
    pub(crate) groups: u32,
    pub(crate) descriptors: Extent,
    pub(crate) orphans: Extent,
    pub(crate) journal: Extent,
    /// Where group 0 begins.
    first: u64,
    /// The group before which the journal lies.
    journal_group: u32,
    /// Where the last group ends.
    pub(crate) end: u64,
    /// Inodes in each group's table; zero with chunks.
    pub(crate) table_inodes: u64,
}

impl Shape {
    /// Where things lie on a device of this size.
    pub(crate) fn of(settings: &Settings, capacity: ByteCount) -> Result<Shape, SettingsError> {
        settings.check()?;
        let block = settings.block.bytes();
        let blocks = capacity.bytes() / block;
        let too_small = SettingsError::TooSmall { capacity, group: settings.group };
        if settings.mapping == Mapping::Indirect && blocks > u64::from(u32::MAX) {
            let limit = settings.block * (u64::from(u32::MAX) + 1);
            return Err(SettingsError::TooLarge { capacity, limit });
        }
        let group_blocks = settings.group.bytes() / block;
        let region_blocks = group_blocks.min(block * 8);
        let regions_max = blocks.div_ceil(region_blocks);
        let descriptors = Extent { start: 1, len: (regions_max * DESCRIPTOR).div_ceil(block) };
        let orphans = Extent { start: descriptors.end(), len: ORPHAN_BLOCKS };
        let journal_blocks = settings.journal.bytes() / block;
        if journal_blocks > blocks / 2 {
            let least = settings.block * crate::settings::JOURNAL_BLOCKS_MIN;
            return Err(SettingsError::Journal { journal: settings.journal, least });
        }
        let first = orphans.end();
        let for_groups = blocks.checked_sub(first + journal_blocks).ok_or(too_small)?;
        let (whole, rest) = (for_groups / group_blocks, for_groups % group_blocks);
        let table_inodes = match settings.inodes {
            Inodes::Chunks => 0,
            Inodes::Tables { bytes_per_inode } => {
                let inodes = settings.group.bytes() / bytes_per_inode.bytes();
                inodes.div_ceil(CHUNK_INODES) * CHUNK_INODES
            }
        };
        let mut shape = Shape {
            block,
            inode: settings.inode.bytes(),
            region_blocks,
            group_blocks,
            regions: 0,
            groups: 0,
            descriptors,
            orphans,
            journal: Extent { start: first, len: journal_blocks },
            first,
            journal_group: 0,
            end: 0,
            table_inodes,
        };
        // A last group that is cut short is of use if at least half of it is data.
        let last = rest > 2 * (shape.group_metadata() + 2);
        let groups = whole + u64::from(last);
        let sound = groups > 0 && shape.group_metadata() + 64 < region_blocks;
        let groups = u32::try_from(groups).ok().filter(|_| sound).ok_or(too_small)?;
        shape.groups = groups;
        if settings.journal_place == JournalPlace::Middle {
            shape.journal_group = groups / 2;
            shape.journal.start = first + u64::from(groups / 2) * group_blocks;
        }
        let grouped = whole * group_blocks + if last { rest } else { 0 };
        shape.end = first + journal_blocks + grouped;
        let regions = grouped.div_ceil(region_blocks);
        shape.regions = u32::try_from(regions).map_err(|_| too_small)?;
        Ok(shape)
    }

    /// Blocks of metadata at the start of each group.
    pub(crate) fn group_metadata(&self) -> u64 {
        self.regions_per_group() + 1 + self.table_blocks()
    }

    /// Blocks of a group's inode table.
    pub(crate) fn table_blocks(&self) -> u64 {
        self.table_inodes * self.inode / self.block
    }

    pub(crate) fn regions_per_group(&self) -> u64 {
        self.group_blocks / self.region_blocks
    }

    pub(crate) fn group_of_region(&self, region: u32) -> u32 {
        (u64::from(region) / self.regions_per_group()) as u32
    }

    pub(crate) fn first_region(&self, group: u32) -> u32 {
        (u64::from(group) * self.regions_per_group()) as u32
    }

    pub(crate) fn group_start(&self, group: u32) -> u64 {
        let past = if group >= self.journal_group { self.journal.len } else { 0 };
        self.first + past + u64::from(group) * self.group_blocks
    }

    /// The blocks of a region.
    pub(crate) fn region(&self, region: u32) -> Extent {
        let group = self.group_of_region(region);
        let within = u64::from(region - self.first_region(group));
        let start = self.group_start(group) + within * self.region_blocks;
        Extent { start, len: self.region_blocks.min(self.end - start) }
    }

    /// The region that a block lies in, where it lies in one.
    pub(crate) fn region_of(&self, block: u64) -> Option<u32> {
        if block < self.group_start(0) || block >= self.end {
            return None;
        }
        let journal = self.journal;
        if (journal.start..journal.end()).contains(&block) {
            return None;
        }
        let past = if block >= journal.end() { journal.len } else { 0 };
        let region = (block - self.first - past) / self.region_blocks;
        u32::try_from(region).ok().filter(|region| *region < self.regions)
    }

    pub(crate) fn bitmap_block(&self, region: u32) -> u64 {
        let group = self.group_of_region(region);
        self.group_start(group) + u64::from(region - self.first_region(group))
    }

    pub(crate) fn inode_map_block(&self, group: u32) -> u64 {
        self.group_start(group) + self.regions_per_group()
    }

    pub(crate) fn table_start(&self, group: u32) -> u64 {
        self.inode_map_block(group) + 1
    }

    /// Blocks at the start of a region that are the group's metadata.
    pub(crate) fn region_metadata(&self, region: u32) -> u64 {
        let group = self.group_of_region(region);
        if region == self.first_region(group) { self.group_metadata() } else { 0 }
    }

    /// Where an inode lies: its block and the byte in it; `None` for a number that can't be one.
    pub(crate) fn inode_place(&self, number: u64) -> Option<(u64, usize)> {
        let (block, slot) = (number / self.inodes_per_block(), number % self.inodes_per_block());
        self.region_of(block)?;
        Some((block, (slot * self.inode) as usize))
    }

    pub(crate) fn inodes_per_block(&self) -> u64 {
        self.block / self.inode
    }

    /// Blocks of a chunk of inodes.
    pub(crate) fn chunk_blocks(&self) -> u64 {
        CHUNK_INODES * self.inode / self.block
    }

    /// Where a block begins on the device.
    pub(crate) fn offset(&self, block: u64) -> Offset {
        Offset(block * self.block)
    }

    /// The block and byte of a region's descriptor.
    pub(crate) fn descriptor(&self, region: u32) -> (u64, usize) {
        let at = u64::from(region) * DESCRIPTOR;
        (self.descriptors.start + at / self.block, (at % self.block) as usize)
    }
}

#[cfg(test)]
mod tests {
    //! What could break: areas that overlap, a block that no region owns or two do, a region whose
    //! place does not lead back to it.

    use super::*;
    use crate::preset::Preset;

    #[test]
    fn areas_do_not_overlap_and_each_block_of_a_region_leads_back_to_it() {
        for preset in Preset::ALL {
            for capacity in [ByteCount::mib(37), ByteCount::gib(3), ByteCount::gib(700)] {
                let settings = preset.settings(capacity, None);
                let shape = Shape::of(&settings, capacity).expect("it fits");
                assert!(shape.orphans.end() <= shape.group_start(0).min(shape.journal.start));
                assert!(shape.end * shape.block <= capacity.bytes());
                let mut end = 0;
                for region in 0..shape.regions {
                    let extent = shape.region(region);
                    assert!(extent.start >= end, "{preset}: region {region} overlaps the last");
                    end = extent.end();
                    for block in [extent.start, extent.end() - 1] {
                        assert_eq!(shape.region_of(block), Some(region), "{preset} {capacity}");
                    }
                    assert!(
                        extent.end() <= shape.journal.start || extent.start >= shape.journal.end()
                    );
                    assert!(shape.region_metadata(region) < extent.len);
                }
                assert_eq!(end.max(shape.journal.end()), shape.end.max(shape.journal.end()));
                assert_eq!(shape.region_of(shape.journal.start), None);
            }
        }
    }
}
