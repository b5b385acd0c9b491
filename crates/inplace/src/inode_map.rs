//! Which inodes of a group are in use.
//!
//! *Inode map* of a group: one block, and more chained behind it: magic u32, number of records u32, next
//! block u64 (0: none), then records: first block of a chunk u64, mask of free inodes u64. An inode's number
//! is its place: block × inodes in a block + slot, so that it is found without looking anything up.
//!
//! Taking an inode is in two steps, as with blocks: memory gives it away at once ([`InodeGrant`]), the
//! map on the device follows with the transaction that puts it to use.

mod take;

use crate::layout::Shape;
use crate::meta::MetaRef;
use std::collections::{BTreeMap, BTreeSet};
use stdx::bytes::{FormatError, Reader, put};

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
    fn read_block(&mut self, block: &MetaRef, shape: &Shape) -> Result<u64, FormatError> {
        let bytes = block.bytes();
        let at = shape.offset(block.number);
        let fields = Reader::little("inode map", &bytes).lying_at(at.bytes());
        fields.require(fields.get_at::<u32>("magic", 0)? == MAP_MAGIC, "magic")?;
        let records = fields.get_at::<u32>("number of chunks", 4)? as usize;
        let most = (bytes.len() - MAP_HEADER) / MAP_RECORD;
        fields.require(records <= most, "number of chunks")?;
        for record in 0..records {
            let at = MAP_HEADER + record * MAP_RECORD;
            let start = fields.get_at::<u64>("chunk", at)?;
            let end = start.checked_add(shape.chunk_blocks() - 1);
            let sound = end.is_some_and(|end| shape.region_of(end).is_some())
                && shape.region_of(start).is_some()
                && !self.by_start.contains_key(&start);
            fields.require(sound, "chunk")?;
            let free = fields.get_at::<u64>("mask", at + 8)?;
            self.insert(Chunk { start, free, map_block: block.number, record });
        }
        self.last_records = records;
        let next = fields.get_at::<u64>("next block", 8)?;
        fields.require(next == 0 || shape.region_of(next).is_some(), "next block")?;
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
