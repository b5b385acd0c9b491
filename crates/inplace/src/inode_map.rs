//! Which inodes of a group are in use.
//!
//! *Inode map* of a group: one block, and more chained behind it: magic u32, number of records u32, next
//! block u64 (0: none), then records: first block of a chunk u64, mask of free inodes u64. An inode's number
//! is its place: block × inodes in a block + slot, so that it is found without looking anything up.
//!
//! Taking an inode is in two steps, as with blocks: memory gives it away at once ([`InodeGrant`]), the
//! map on the device follows with the transaction that puts it to use.

use crate::core::{Core, Outcome, Tx};
use crate::group::Descriptor;
use crate::layout::Extent;
use crate::meta::MetaRef;
use crate::settings::CHUNK_INODES;
use rt::TreeErrorKind;
use std::collections::{BTreeMap, BTreeSet};
use stdx::bytes::{FormatError, Problem, Reader, put};

const MAP_MAGIC: u32 = 0x494d_4150;
const MAP_HEADER: usize = 16;
const MAP_RECORD: usize = 16;
/// Blocks in the chain of one inode map; some 16 thousand inodes in each. A longer chain is damage (a
/// circle), and bounds the time of reading it.
const MAP_BLOCKS_MAX: usize = 1 << 16;

/// The inodes of a group, in memory.
#[derive(Debug, Default)]
pub(crate) struct InodeMap {
    chunks: Vec<Chunk>,
    by_start: BTreeMap<u64, usize>,
    with_free: BTreeSet<usize>,
    /// The last block of the chain, and how many records it has.
    last: u64,
    last_records: usize,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    start: u64,
    /// Inodes that nobody has, in memory or on the device.
    free: u64,
    /// Where its record is.
    map_block: u64,
    record: usize,
}

/// An inode that is taken, and what is needed to enter that.
pub(crate) struct InodeGrant {
    pub(crate) number: u64,
    pub(crate) block: MetaRef,
    group: u32,
    chunk: usize,
    map: MetaRef,
    descriptor: MetaRef,
}

impl Core {
    /// Makes sure that memory knows the inodes of a group.
    async fn load_inode_map(&self, group: u32) -> Outcome<()> {
        if self.space.borrow().inode_maps.contains_key(&group) {
            return Ok(());
        }
        let region = self.shape.first_region(group);
        if !self.descriptor(region).has_inode_map {
            self.make_inode_map(group);
            return Ok(());
        }
        let mut map = InodeMap::default();
        let mut number = self.shape.inode_map_block(group);
        let mut blocks = 0;
        while number != 0 {
            let block = self.block(number).await?;
            map.last = number;
            number = map.read_block(&block, self).map_err(|error| self.damaged(error))?;
            blocks += 1;
            if blocks > MAP_BLOCKS_MAX {
                return Err(self.stray(map.last));
            }
        }
        let free: u32 = map.chunks.iter().map(|chunk| chunk.free.count_ones()).sum();
        if free != self.descriptor(region).free_inodes {
            let at = self.shape.offset(self.shape.inode_map_block(group));
            let fields = Reader::little("inode map", &[]).lying_at(at.bytes());
            return Err(self.damaged(fields.wrong("number of free inodes", Problem::Unsound)));
        }
        // Another task may have loaded it meanwhile, and taken inodes from it.
        self.space.borrow_mut().inode_maps.entry(group).or_insert(map);
        Ok(())
    }

    /// Makes up the inode map of a group that was never used.
    fn make_inode_map(&self, group: u32) {
        let tx = self.tx();
        let number = self.shape.inode_map_block(group);
        let block = self.fresh_block(number);
        let mut map = InodeMap { last: number, ..InodeMap::default() };
        tx.edit(&block, 0..self.shape.block as usize, |bytes| {
            put(bytes, 0, &MAP_MAGIC.to_le_bytes());
            let chunks = self.shape.table_inodes / CHUNK_INODES;
            for i in 0..chunks {
                let start = self.shape.table_start(group) + i * self.shape.chunk_blocks();
                map.add(start, u64::MAX, number, bytes);
            }
        });
        let region = self.shape.first_region(group);
        let descriptor = self.descriptor_block(region);
        let new = Descriptor { has_inode_map: true, ..self.descriptor(region) };
        self.set_descriptor(&tx, &descriptor, region, new);
        self.space.borrow_mut().inode_maps.insert(group, map);
    }

    /// Takes a free inode, in this group or the next that has one.
    pub(crate) async fn take_inode(&self, goal: u32) -> Outcome<InodeGrant> {
        let mut goal = goal;
        loop {
            let Some(group) = self.space.borrow().group_with_inodes(goal, &self.shape) else {
                goal = self.add_chunk(goal).await?;
                continue;
            };
            self.load_inode_map(group).await?;
            let taken = self.space.borrow_mut().take_inode(group);
            let Some((chunk, start, slot, map_block)) = taken else {
                // Those that the descriptor counts were taken by others, whose changes follow. The
                // group is out of the set now, so the next look finds another one or none.
                if self.shape.table_inodes == 0 {
                    goal = self.add_chunk(goal).await?;
                }
                continue;
            };
            let per_block = self.shape.inodes_per_block();
            let number = start * per_block + slot;
            let grant = self.inode_grant(number, group, chunk, map_block).await;
            if grant.is_err() {
                self.space.borrow_mut().return_inode(group, chunk, slot);
            }
            return grant;
        }
    }

    async fn inode_grant(
        &self,
        number: u64,
        group: u32,
        chunk: usize,
        map_block: u64,
    ) -> Outcome<InodeGrant> {
        let map = self.block(map_block).await?;
        let descriptor = self.descriptor_block(self.shape.first_region(group));
        let block = number / self.shape.inodes_per_block();
        // Where no inode of the block was ever in use, nothing need be read.
        let unused = self.space.borrow().inode_block_is_unused(group, chunk, number, &self.shape);
        let block = match self.cached_block(block) {
            Some(block) => block,
            None if unused => {
                let tx = self.tx();
                let block = self.fresh_block(block);
                tx.edit(&block, 0..self.shape.block as usize, |bytes| bytes.fill(0));
                block
            }
            None => self.block(block).await?,
        };
        Ok(InodeGrant { number, block, group, chunk, map, descriptor })
    }

    /// Makes a chunk of inodes near this group, and says in which group it is.
    async fn add_chunk(&self, goal: u32) -> Outcome<u32> {
        if self.shape.table_inodes > 0 {
            return Err(TreeErrorKind::NoSpace);
        }
        let len = self.shape.chunk_blocks();
        self.reserve(len, true).await?;
        let start = self.shape.group_start(goal) + self.shape.group_metadata();
        let granted = self.grant_whole(start, len).await;
        let extent = granted.inspect_err(|_| self.space.borrow_mut().unreserve(len))?;
        let entered = self.enter_chunk(extent).await;
        if entered.is_err() {
            self.space.borrow_mut().release(&self.shape, extent);
        }
        entered
    }

    async fn enter_chunk(&self, extent: Extent) -> Outcome<u32> {
        let region = self.region_handle(extent.start).await?;
        let group = self.shape.group_of_region(region.region);
        self.load_inode_map(group).await?;
        let records_max = (self.shape.block as usize - MAP_HEADER) / MAP_RECORD;
        loop {
            let last = self.space.borrow().inode_maps.get(&group).map(|map| map.last);
            let last = last.expect("it was just loaded");
            let block = self.block(last).await?;
            let descriptor = self.descriptor_block(self.shape.first_region(group));
            {
                let mut space = self.space.borrow_mut();
                let map = space.inode_maps.get_mut(&group).expect("maps stay in memory");
                if map.last != last {
                    continue;
                }
                if map.last_records < records_max {
                    drop(space);
                    let tx = self.tx();
                    tx.mark_used(&region, extent);
                    tx.edit(&block, 0..self.shape.block as usize, |bytes| {
                        let mut space = self.space.borrow_mut();
                        let map = space.inode_maps.get_mut(&group).expect("maps stay in memory");
                        map.add(extent.start, u64::MAX, last, bytes);
                    });
                    self.count_inodes(&tx, &descriptor, group, CHUNK_INODES as i64, 0);
                    return Ok(group);
                }
            }
            self.extend_inode_map(group, &block).await?;
        }
    }

    /// Chains another block to an inode map.
    async fn extend_inode_map(&self, group: u32, last: &MetaRef) -> Outcome<()> {
        self.reserve(1, true).await?;
        let extent = match self.grant_whole(last.number, 1).await {
            Ok(extent) => extent,
            Err(error) => {
                self.space.borrow_mut().unreserve(1);
                return Err(error);
            }
        };
        let region = match self.region_handle(extent.start).await {
            Ok(region) => region,
            Err(error) => {
                self.space.borrow_mut().release(&self.shape, extent);
                return Err(error);
            }
        };
        let still_last = {
            let space = self.space.borrow();
            space.inode_maps.get(&group).is_some_and(|map| map.last == last.number)
        };
        if !still_last {
            self.space.borrow_mut().release(&self.shape, extent);
            return Ok(());
        }
        let tx = self.tx();
        tx.mark_used(&region, extent);
        let block = self.fresh_block(extent.start);
        tx.edit(&block, 0..self.shape.block as usize, |bytes| {
            put(bytes, 0, &MAP_MAGIC.to_le_bytes());
        });
        tx.edit(last, 8..16, |bytes| put(bytes, 0, &extent.start.to_le_bytes()));
        let mut space = self.space.borrow_mut();
        let map = space.inode_maps.get_mut(&group).expect("maps stay in memory");
        map.last = extent.start;
        map.last_records = 0;
        Ok(())
    }

    fn count_inodes(&self, tx: &Tx<'_>, block: &MetaRef, group: u32, free: i64, dirs: i64) {
        let region = self.shape.first_region(group);
        let mut descriptor = self.descriptor(region);
        let add =
            |count: u32, change: i64| u32::try_from(i64::from(count) + change).unwrap_or_default();
        descriptor.free_inodes = add(descriptor.free_inodes, free);
        descriptor.directories = add(descriptor.directories, dirs);
        self.set_descriptor(tx, block, region, descriptor);
        self.space.borrow_mut().set_group(group, descriptor.free_inodes, descriptor.directories);
    }

    /// Enters that an inode is in use.
    pub(crate) fn use_inode(&self, tx: &Tx<'_>, grant: &InodeGrant, directory: bool) {
        self.write_mask(tx, grant, true);
        self.count_inodes(tx, &grant.descriptor, grant.group, -1, i64::from(directory));
    }

    /// Gives back an inode that was not put to use.
    pub(crate) fn return_inode(&self, grant: &InodeGrant) {
        let start = self.space.borrow().chunk_start(grant.group, grant.chunk);
        if let Some(start) = start {
            let slot = grant.number - start * self.shape.inodes_per_block();
            self.space.borrow_mut().return_inode(grant.group, grant.chunk, slot);
        }
    }

    /// What is needed to enter that an inode is free again.
    pub(crate) async fn inode_release(&self, number: u64) -> Outcome<InodeGrant> {
        let (block, _) = self.shape.inode_place(number).ok_or_else(|| self.stray(0))?;
        let region = self.shape.region_of(block).ok_or_else(|| self.stray(block))?;
        let group = self.shape.group_of_region(region);
        self.load_inode_map(group).await?;
        let found = self.space.borrow().find_chunk(group, block, &self.shape);
        let (chunk, map_block) = found.ok_or_else(|| self.stray(block))?;
        let map = self.block(map_block).await?;
        let descriptor = self.descriptor_block(self.shape.first_region(group));
        let block = self.block(block).await?;
        Ok(InodeGrant { number, block, group, chunk, map, descriptor })
    }

    /// Enters that an inode is free.
    pub(crate) fn free_inode(&self, tx: &Tx<'_>, grant: &InodeGrant, directory: bool) {
        self.return_inode(grant);
        self.write_mask(tx, grant, false);
        self.count_inodes(tx, &grant.descriptor, grant.group, 1, -i64::from(directory));
    }

    /// Writes one bit of a chunk's mask. Only this one: others may be taken and not yet entered.
    fn write_mask(&self, tx: &Tx<'_>, grant: &InodeGrant, used: bool) {
        let (start, record) = {
            let space = self.space.borrow();
            let map = space.inode_maps.get(&grant.group).expect("maps stay in memory");
            (map.chunks[grant.chunk].start, map.chunks[grant.chunk].record)
        };
        let slot = grant.number - start * self.shape.inodes_per_block();
        let at = MAP_HEADER + record * MAP_RECORD + 8 + (slot / 8) as usize;
        tx.edit(&grant.map, at..at + 1, |bytes| {
            let bit = 1 << (slot % 8);
            bytes[0] = if used { bytes[0] & !bit } else { bytes[0] | bit };
        });
    }

    /// All chunks of a group: first block and mask of free inodes; for the checker.
    pub(crate) async fn chunks_of(&self, group: u32) -> Outcome<Vec<(u64, u64)>> {
        if !self.descriptor(self.shape.first_region(group)).has_inode_map {
            return Ok(Vec::new());
        }
        self.load_inode_map(group).await?;
        let space = self.space.borrow();
        let map = space.inode_maps.get(&group).expect("it was just loaded");
        Ok(map.chunks.iter().map(|chunk| (chunk.start, chunk.free)).collect())
    }

    /// The blocks that a group's inode map is chained over, beside the first; for the checker.
    pub(crate) async fn map_blocks_of(&self, group: u32) -> Outcome<Vec<u64>> {
        let mut blocks = Vec::new();
        if !self.descriptor(self.shape.first_region(group)).has_inode_map {
            return Ok(blocks);
        }
        let mut number = self.shape.inode_map_block(group);
        while blocks.len() <= MAP_BLOCKS_MAX {
            let block = self.block(number).await?;
            let at = self.shape.offset(number);
            let bytes = block.bytes();
            let fields = Reader::little("inode map", &bytes).lying_at(at.bytes());
            number = fields.get_at::<u64>("next", 8).map_err(|error| self.damaged(error))?;
            if number == 0 {
                break;
            }
            blocks.push(number);
        }
        Ok(blocks)
    }
}

impl InodeMap {
    /// Adds a chunk to memory and to the last map block's bytes.
    fn add(&mut self, start: u64, free: u64, map_block: u64, bytes: &mut [u8]) {
        let record = self.last_records;
        let at = MAP_HEADER + record * MAP_RECORD;
        put(bytes, at, &start.to_le_bytes());
        put(bytes, at + 8, &free.to_le_bytes());
        self.last_records += 1;
        put(bytes, 4, &(self.last_records as u32).to_le_bytes());
        self.insert(Chunk { start, free, map_block, record });
    }

    fn insert(&mut self, chunk: Chunk) {
        let index = self.chunks.len();
        self.by_start.insert(chunk.start, index);
        if chunk.free != 0 {
            self.with_free.insert(index);
        }
        self.chunks.push(chunk);
    }

    /// Reads a block of the chain; returns the next.
    fn read_block(&mut self, block: &MetaRef, core: &Core) -> Result<u64, FormatError> {
        let bytes = block.bytes();
        let at = core.shape.offset(block.number);
        let fields = Reader::little("inode map", &bytes).lying_at(at.bytes());
        fields.require(fields.get_at::<u32>("magic", 0)? == MAP_MAGIC, "magic")?;
        let records = fields.get_at::<u32>("number of chunks", 4)? as usize;
        let most = (bytes.len() - MAP_HEADER) / MAP_RECORD;
        fields.require(records <= most, "number of chunks")?;
        for record in 0..records {
            let at = MAP_HEADER + record * MAP_RECORD;
            let start = fields.get_at::<u64>("chunk", at)?;
            let end = start.checked_add(core.shape.chunk_blocks() - 1);
            let sound = end.is_some_and(|end| core.shape.region_of(end).is_some())
                && core.shape.region_of(start).is_some()
                && !self.by_start.contains_key(&start);
            fields.require(sound, "chunk")?;
            let free = fields.get_at::<u64>("mask", at + 8)?;
            self.insert(Chunk { start, free, map_block: block.number, record });
        }
        self.last_records = records;
        let next = fields.get_at::<u64>("next block", 8)?;
        fields.require(next == 0 || core.shape.region_of(next).is_some(), "next block")?;
        Ok(next)
    }

    /// Takes a free inode: (chunk, its first block, slot, its map block).
    pub(crate) fn take(&mut self) -> Option<(usize, u64, u64, u64)> {
        let index = *self.with_free.first()?;
        let chunk = &mut self.chunks[index];
        let slot = u64::from(chunk.free.trailing_zeros());
        chunk.free &= !(1 << slot);
        if chunk.free == 0 {
            self.with_free.remove(&index);
        }
        Some((index, chunk.start, slot, chunk.map_block))
    }

    pub(crate) fn give(&mut self, chunk: usize, slot: u64) {
        if let Some(known) = self.chunks.get_mut(chunk) {
            known.free |= 1 << slot;
            self.with_free.insert(chunk);
        }
    }

    /// Whether all inodes of the block that `number` lies in are free but this one.
    pub(crate) fn is_unused(&self, chunk: usize, number: u64, per_block: u64) -> bool {
        let Some(chunk) = self.chunks.get(chunk) else { return false };
        let slot = number - chunk.start * per_block;
        let first = slot - slot % per_block;
        (first..first + per_block).all(|other| other == slot || chunk.free >> other & 1 == 1)
    }

    pub(crate) fn start_of(&self, chunk: usize) -> Option<u64> {
        self.chunks.get(chunk).map(|chunk| chunk.start)
    }

    /// The chunk that a block lies in, and the block of its record.
    pub(crate) fn find(&self, block: u64, chunk_blocks: u64) -> Option<(usize, u64)> {
        let (&start, &index) = self.by_start.range(..=block).next_back()?;
        (block < start + chunk_blocks).then(|| (index, self.chunks[index].map_block))
    }
}
