//! Where new blocks and inodes go.
//!
//! **Counting, granting, entering.** Space is first *reserved* (counted), then *granted* (taken from the
//! free maps in memory), then *entered* (the bitmap, and what points to the blocks, in one transaction).
//! What is granted and never entered, because a write failed or the power went, was never used as far
//! as the device knows. Freed blocks come back to the free maps when their transaction is committed.
//!
//! **Places.** A grant has a goal: the block after the file's last one, or a place near its inode. Where
//! that very block is free the extent begins there. Otherwise it begins with the first free extent after
//! it that holds all that is wanted, in the goal's region, then in the regions that follow; where none
//! does, with the longest of the first region that has any. With stripes a new extent begins on a unit,
//! or on a full stripe where it is as long as one.
//!
//! **The last blocks.** [`POOL_BLOCKS_MAX`] blocks (or a twentieth) are kept from ordinary requests, so that
//! what is written back can always be mapped, and files can be removed when the device is full.
//!
//! Regions and groups are found through ordered sets, never by a walk over all of them.

mod grant;

use crate::free_map::FreeMap;
use crate::inode_map::InodeMap;
use crate::layout::{Extent, Shape};
use crate::meta::MetaRef;
use crate::settings::Spread;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stdx::RangeSet;

/// Blocks kept from ordinary requests: XFS's figure for its own reserve.
const POOL_BLOCKS_MAX: u64 = 8192;
/// Groups looked at when a directory is placed.
const GROUPS_LOOKED_AT_MAX: usize = 64;
/// Regions tried for an extent as long as wanted, before a shorter one will do.
const REGIONS_TRIED_MAX: usize = 16;

/// Free space and inodes, in memory.
pub(crate) struct Space {
    /// The blocks of descriptors.
    pub(crate) descriptors: Vec<MetaRef>,
    pub(crate) inode_maps: BTreeMap<u32, InodeMap>,
    regions: Vec<Region>,
    /// Regions with free blocks: few stretches of very many.
    with_free: RangeSet,
    groups: Vec<Group>,
    by_directories: BTreeSet<(u32, u32)>,
    with_inodes: BTreeSet<u32>,
    free_inodes: u64,
    /// Blocks in the free maps and in reservation windows.
    available: u64,
    /// Those that are spoken for.
    reserved: u64,
    /// Those that only privileged requests get.
    pool: u64,
    rotor: u32,
    /// Blocks held for files that grow, by inode.
    windows: BTreeMap<u64, Extent>,
}

#[derive(Default)]
struct Region {
    free: u32,
    /// Of one that was used since the mount: few of very many.
    map: Option<Box<FreeMap>>,
}

#[derive(Clone, Copy, Default)]
struct Group {
    free_inodes: u32,
    directories: u32,
}

impl Space {
    /// What the descriptors say. `blocks` are those that hold them.
    pub(crate) fn new(shape: &Shape, blocks: Vec<MetaRef>) -> Space {
        let mut space = Space {
            descriptors: blocks,
            inode_maps: BTreeMap::new(),
            regions: Vec::new(),
            with_free: RangeSet::default(),
            groups: vec![Group::default(); shape.groups as usize],
            by_directories: BTreeSet::new(),
            with_inodes: BTreeSet::new(),
            free_inodes: 0,
            available: 0,
            reserved: 0,
            pool: 0,
            rotor: 0,
            windows: BTreeMap::new(),
        };
        space.regions.resize_with(shape.regions as usize, Region::default);
        space
    }

    /// Enters what the descriptors of all regions say: how many blocks are free in each, at the mount.
    pub(crate) fn set_regions(&mut self, free: &[u32]) {
        assert_eq!(free.len(), self.regions.len(), "each region has a descriptor");
        let mut region = 0;
        for stretch in free.chunk_by(|one, next| (*one > 0) == (*next > 0)) {
            let end = region + stretch.len() as u64;
            if stretch[0] > 0 {
                self.with_free.insert(region..end);
            }
            region = end;
        }
        for (region, free) in self.regions.iter_mut().zip(free) {
            region.free = *free;
            self.available += u64::from(*free);
        }
        self.pool = POOL_BLOCKS_MAX.min(self.available / 20);
    }

    /// Enters what a group's descriptor says.
    pub(crate) fn set_group(&mut self, group: u32, free_inodes: u32, directories: u32) {
        let known = &mut self.groups[group as usize];
        self.by_directories.remove(&(known.directories, group));
        self.free_inodes -= u64::from(known.free_inodes);
        *known = Group { free_inodes, directories };
        self.free_inodes += u64::from(free_inodes);
        self.by_directories.insert((directories, group));
        if free_inodes > 0 {
            self.with_inodes.insert(group);
        } else {
            self.with_inodes.remove(&group);
        }
    }

    pub(crate) fn is_loaded(&self, region: u32) -> bool {
        self.regions[region as usize].map.is_some()
    }

    pub(crate) fn set_map(&mut self, region: u32, map: FreeMap) {
        self.regions[region as usize].map = Some(Box::new(map));
    }

    /// Blocks that an ordinary request could have.
    pub(crate) fn free_for_all(&self) -> u64 {
        self.available.saturating_sub(self.reserved + self.pool)
    }

    fn try_reserve(&mut self, blocks: u64, privileged: bool) -> bool {
        let pool = if privileged { 0 } else { self.pool };
        let there = self.available >= self.reserved + pool + blocks;
        if there {
            self.reserved += blocks;
        }
        there
    }

    /// Gives back what was reserved and not granted.
    pub(crate) fn unreserve(&mut self, blocks: u64) {
        self.reserved = self.reserved.checked_sub(blocks).expect("what was reserved is given back");
    }

    /// What was taken from a free map for a caller who had reserved it.
    fn granted(&mut self, region: u32, len: u32) {
        self.take_from_region(region, len);
        self.available -= u64::from(len);
        self.unreserve(u64::from(len));
    }

    fn take_from_region(&mut self, number: u32, len: u32) {
        let region = &mut self.regions[number as usize];
        region.free -= len;
        if region.free == 0 {
            self.with_free.remove(alone(number));
        }
    }

    fn give_to_region(&mut self, shape: &Shape, extent: Extent) {
        let number = shape.region_of(extent.start).expect("only blocks of regions are granted");
        let start = (extent.start - shape.region(number).start) as u32;
        let region = &mut self.regions[number as usize];
        region.free += extent.len as u32;
        if let Some(map) = &mut region.map {
            map.give(start, extent.len as u32);
        }
        self.with_free.insert(alone(number));
    }

    /// Gives granted or freed blocks, all of one region, back to the free maps.
    pub(crate) fn release(&mut self, shape: &Shape, extent: Extent) {
        self.give_to_region(shape, extent);
        self.available += extent.len;
    }

    /// Takes up to `want` reserved blocks exactly at `at`.
    fn take_at(&mut self, shape: &Shape, at: u64, want: u64) -> Option<Extent> {
        let number = shape.region_of(at)?;
        let start = shape.region(number).start;
        let map = self.regions[number as usize].map.as_mut()?;
        let want = u32::try_from(want).unwrap_or(u32::MAX);
        let (from, len) = map.take_at((at - start) as u32, want)?;
        self.granted(number, len);
        Some(Extent { start: start + u64::from(from), len: u64::from(len) })
    }

    /// Takes up to `want` reserved blocks in a region, at or after `goal`; no fewer than `least`.
    fn take_in(
        &mut self,
        shape: &Shape,
        number: u32,
        goal: u64,
        want: u64,
        least: u64,
        align: u64,
    ) -> Option<Extent> {
        let region = shape.region(number);
        let map = self.regions[number as usize].map.as_mut()?;
        let goal = goal.clamp(region.start, region.end() - 1) - region.start;
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let want = small(want.min(region.len));
        // Places are counted from the start of the device; in the map from the region's.
        let unit = small(align.max(1));
        let remainder = small((align.max(1) - region.start % align.max(1)) % align.max(1));
        let least = small(least).min(want);
        let (from, len) = map.take_near(goal as u32, want, least, (unit, remainder))?;
        self.granted(number, len);
        Some(Extent { start: region.start + u64::from(from), len: u64::from(len) })
    }

    /// The next region with free blocks from `from` on, going round.
    fn next_region(&self, from: u32) -> Option<u32> {
        let regions = self.regions.len() as u64;
        let next = |from| self.with_free.within(from..regions).next();
        next(u64::from(from)).or_else(|| next(0)).map(|stretch| stretch.start as u32)
    }

    /// Drops all reservation windows: someone needs the blocks.
    fn drop_windows(&mut self, shape: &Shape) -> bool {
        let windows = std::mem::take(&mut self.windows);
        let any = !windows.is_empty();
        for extent in windows.into_values() {
            self.give_to_region(shape, extent);
        }
        any
    }

    /// Drops the window of a file that is closed.
    pub(crate) fn drop_window(&mut self, shape: &Shape, inode: u64) {
        if let Some(extent) = self.windows.remove(&inode) {
            self.give_to_region(shape, extent);
        }
    }

    pub(crate) fn group_with_inodes(&self, goal: u32, shape: &Shape) -> Option<u32> {
        if shape.table_inodes == 0 {
            // Chunks can be had anywhere: only the goal's own will do.
            return self.with_inodes.contains(&goal).then_some(goal);
        }
        self.with_inodes.range(goal..).next().or_else(|| self.with_inodes.first()).copied()
    }

    pub(crate) fn take_inode(&mut self, group: u32) -> Option<(usize, u64, u64, u64)> {
        let taken = self.inode_maps.get_mut(&group)?.take();
        if taken.is_none() {
            self.with_inodes.remove(&group);
        }
        taken
    }

    pub(crate) fn return_inode(&mut self, group: u32, chunk: usize, slot: u64) {
        if let Some(map) = self.inode_maps.get_mut(&group) {
            map.give(chunk, slot);
            self.with_inodes.insert(group);
        }
    }

    pub(crate) fn inode_block_is_unused(
        &self,
        group: u32,
        chunk: usize,
        number: u64,
        shape: &Shape,
    ) -> bool {
        let map = self.inode_maps.get(&group);
        map.is_some_and(|map| map.is_unused(chunk, number, shape.inodes_per_block()))
    }

    pub(crate) fn chunk_start(&self, group: u32, chunk: usize) -> Option<u64> {
        self.inode_maps.get(&group)?.start_of(chunk)
    }

    pub(crate) fn find_chunk(&self, group: u32, block: u64, shape: &Shape) -> Option<(usize, u64)> {
        self.inode_maps.get(&group)?.find(block, shape.chunk_blocks())
    }

    /// Where the next section of a file goes: the next group with more free blocks than average.
    pub(crate) fn section_goal(&self, shape: &Shape, from: u32) -> u64 {
        let average = self.available / u64::from(shape.groups);
        let groups = (1..=GROUPS_LOOKED_AT_MAX as u32).map(|i| (from + i) % shape.groups);
        let roomy = groups.clone().find(|group| {
            let region = &self.regions[shape.first_region(*group) as usize];
            u64::from(region.free) * shape.regions_per_group() >= average
        });
        let group = roomy.unwrap_or((from + 1) % shape.groups);
        shape.group_start(group) + shape.group_metadata()
    }

    /// The group for a new directory.
    pub(crate) fn directory_group(&mut self, spread: Spread, parent: u32, in_root: bool) -> u32 {
        let groups = self.groups.len() as u64;
        let average = self.free_inodes / groups;
        let least = |space: &Space| {
            let looked_at = space.by_directories.iter().take(GROUPS_LOOKED_AT_MAX);
            let roomy = looked_at
                .map(|(_, group)| *group)
                .find(|group| u64::from(space.groups[*group as usize].free_inodes) >= average);
            roomy.unwrap_or(parent)
        };
        match spread {
            Spread::Rotor => {
                self.rotor = ((u64::from(self.rotor) + 1) % groups) as u32;
                self.rotor
            }
            Spread::LeastDirectories => least(self),
            Spread::Orlov if in_root => least(self),
            Spread::Orlov => {
                // Near the parent while the group has three quarters of the average left.
                let free = u64::from(self.groups[parent as usize].free_inodes);
                if free * 4 >= average * 3 { parent } else { least(self) }
            }
        }
    }
}

/// The stretch of one region.
fn alone(region: u32) -> Range<u64> {
    let region = u64::from(region);
    region..region + 1
}
