//! Inodes taken and given back, and groups whose map is read or begun.

use super::{InodeMap, MAP_BLOCKS_MAX, MAP_HEADER, MAP_MAGIC, MAP_RECORD};
use crate::core::{Core, Outcome, Tx};
use crate::group::Descriptor;
use crate::layout::Extent;
use crate::meta::MetaRef;
use crate::settings::CHUNK_INODES;
use rt::TreeErrorKind;
use stdx::bytes::{Problem, Reader, put};

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
            number = map.read_block(&block, &self.shape).map_err(|error| self.damaged(error))?;
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
