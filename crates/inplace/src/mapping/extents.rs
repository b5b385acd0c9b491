//! Extents: records of (place in the file, place on the device, length).
//!
//! All extents of an inode are in memory once the first was needed, as XFS has it; the first ones stand
//! in the inode's record, the others in a chain of blocks that is read then. On the device they stand in
//! *slots* of no particular order, so that a change of one writes 16 bytes, wherever it lies in the file.
//!
//! *Record*, 16 bytes: place in the file u48, first block u48, length u31 with the highest bit for
//! "unwritten". Length 0 is a free slot. *Chain block*: magic u32, 4 unused, next block u64 (0: none),
//! records.

mod change;

use crate::layout::{Extent, ROOT_AT, Shape};
use crate::mapping::{Run, What};
use crate::meta::MetaRef;
use std::collections::{BTreeMap, BTreeSet};
use stdx::bytes::{FormatError, Reader, put};

/// Blocks that a file can have: what 48 bits hold, cut so that bytes fit 63.
pub(crate) const FILE_BLOCKS_MAX: u64 = 1 << 46;
const RECORD: usize = 16;
const CHAIN_MAGIC: u32 = 0x4558_5443;
const CHAIN_HEADER: usize = 16;
/// Where the inode's own records begin; before them stands the first block of the chain.
const INLINE_AT: usize = ROOT_AT + 8;
/// Longest extent.
const LEN_MAX: u64 = (1 << 31) - 1;
/// Blocks of one chain; a longer one is damage (a circle).
const CHAIN_MAX: usize = 1 << 20;
/// Chain blocks that one step frees at the most.
const CHAIN_FREED_PER_STEP: usize = 16;

/// The extents of an inode.
#[derive(Clone, Debug)]
pub(crate) struct ExtentList {
    first_of_chain: u64,
    chain: Vec<u64>,
    loaded: bool,
    map: BTreeMap<u64, Mapped>,
    /// Which extent stands in each slot of the inode's record.
    inline: Vec<Option<u64>>,
    free: BTreeSet<usize>,
    per_block: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapped {
    block: u64,
    len: u64,
    unwritten: bool,
    slot: usize,
}

/// An extent without its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    first: u64,
    block: u64,
    len: u64,
    unwritten: bool,
}

impl Piece {
    fn end(&self) -> u64 {
        self.first + self.len
    }

    fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..6].copy_from_slice(&self.first.to_le_bytes()[..6]);
        bytes[6..12].copy_from_slice(&self.block.to_le_bytes()[..6]);
        let len = self.len as u32 | if self.unwritten { 1 << 31 } else { 0 };
        put(&mut bytes, 12, &len.to_le_bytes());
        bytes
    }

    /// The record at a place, where the slot is not free.
    fn decode(fields: &Reader<'_>, at: usize, shape: &Shape) -> Result<Option<Piece>, FormatError> {
        let low = fields.get_at::<u64>("extent", at)? & ((1 << 48) - 1);
        let block = fields.get_at::<u64>("extent", at + 6)? & ((1 << 48) - 1);
        let word = fields.get_at::<u32>("extent", at + 12)?;
        let (len, unwritten) = (u64::from(word & !(1 << 31)), word >> 31 == 1);
        if word == 0 {
            return Ok(None);
        }
        let piece = Piece { first: low, block, len, unwritten };
        let ends = shape.region_of(block).is_some() && shape.region_of(block + len - 1).is_some();
        fields.require(len > 0 && piece.end() <= FILE_BLOCKS_MAX && ends, "extent")?;
        Ok(Some(piece))
    }

    /// This and the next as one, where they follow one another in file and device.
    fn joined(&self, next: &Piece) -> Option<Piece> {
        let follows = self.end() == next.first
            && self.block + self.len == next.block
            && self.unwritten == next.unwritten
            && self.len + next.len <= LEN_MAX;
        follows.then_some(Piece { len: self.len + next.len, ..*self })
    }
}

/// A change of extents, with what it needs loaded.
pub(crate) struct Plan {
    removed: Vec<u64>,
    /// New extents, and the slot of each.
    added: Vec<(Piece, usize)>,
    /// Slots that are free then.
    freed: Vec<usize>,
    /// Blocks of the chain, by their place in it.
    blocks: BTreeMap<usize, MetaRef>,
}

impl ExtentList {
    pub(crate) fn empty(shape: &Shape) -> ExtentList {
        let inline = (shape.inode as usize - INLINE_AT) / RECORD;
        ExtentList {
            first_of_chain: 0,
            chain: Vec::new(),
            loaded: true,
            map: BTreeMap::new(),
            inline: vec![None; inline],
            free: (0..inline).collect(),
            per_block: (shape.block as usize - CHAIN_HEADER) / RECORD,
        }
    }

    pub(crate) fn decode(fields: &Reader<'_>, shape: &Shape) -> Result<ExtentList, FormatError> {
        let mut list = ExtentList::empty(shape);
        list.first_of_chain = fields.get_at::<u64>("chain of extents", ROOT_AT)?;
        let chained = list.first_of_chain != 0;
        let sound = !chained || shape.region_of(list.first_of_chain).is_some();
        fields.require(sound, "chain of extents")?;
        list.loaded = !chained;
        for slot in 0..list.inline.len() {
            if let Some(piece) = Piece::decode(fields, INLINE_AT + RECORD * slot, shape)? {
                list.insert(fields, piece, slot)?;
            }
        }
        Ok(list)
    }

    /// Enters an extent that was read; refuses one that overlaps another.
    fn insert(
        &mut self,
        fields: &Reader<'_>,
        piece: Piece,
        slot: usize,
    ) -> Result<(), FormatError> {
        let before = self.map.range(..=piece.first).next_back();
        let after = self.map.range(piece.first..).next();
        let free = before.is_none_or(|(first, mapped)| first + mapped.len <= piece.first)
            && after.is_none_or(|(first, _)| *first >= piece.end());
        fields.require(free, "extent")?;
        self.enter(piece, slot);
        Ok(())
    }

    fn enter(&mut self, piece: Piece, slot: usize) {
        let Piece { first, block, len, unwritten } = piece;
        self.map.insert(first, Mapped { block, len, unwritten, slot });
        self.free.remove(&slot);
        if let Some(inline) = self.inline.get_mut(slot) {
            *inline = Some(first);
        }
    }

    fn leave(&mut self, first: u64) {
        let Some(mapped) = self.map.remove(&first) else { return };
        self.free.insert(mapped.slot);
        if let Some(inline) = self.inline.get_mut(mapped.slot) {
            *inline = None;
        }
    }

    pub(crate) fn encode(&self, record: &mut [u8]) {
        put(record, ROOT_AT, &self.first_of_chain.to_le_bytes());
        for (slot, first) in self.inline.iter().enumerate() {
            let piece = first.and_then(|first| self.piece(first));
            let bytes = piece.map_or([0; RECORD], |piece| piece.encode());
            put(record, INLINE_AT + RECORD * slot, &bytes);
        }
    }

    fn piece(&self, first: u64) -> Option<Piece> {
        let Mapped { block, len, unwritten, .. } = *self.map.get(&first)?;
        Some(Piece { first, block, len, unwritten })
    }

    pub(crate) fn lookup(&self, first: u64, most: u64) -> Run {
        if let Some((start, mapped)) = self.map.range(..=first).next_back()
            && start + mapped.len > first
        {
            let within = first - start;
            let block = mapped.block + within;
            let what = if mapped.unwritten { What::Unwritten(block) } else { What::At(block) };
            return Run { what, len: (mapped.len - within).min(most) };
        }
        let next = self.map.range(first..).next().map_or(u64::MAX, |(start, _)| *start);
        Run { what: What::Hole, len: (next - first).min(most) }
    }

    /// All extents: (first block on the device, length).
    pub(crate) fn all(&self) -> impl Iterator<Item = Extent> {
        self.map.values().map(|mapped| Extent { start: mapped.block, len: mapped.len })
    }

    pub(crate) fn chain(&self) -> &[u64] {
        &self.chain
    }

    /// What has to go and what has to come so that `first..first + len` is `new`.
    fn replace(&self, first: u64, len: u64, new: Option<(u64, bool)>) -> (Vec<u64>, Vec<Piece>) {
        let end = first + len;
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let begins =
            self.map.range(..first).next_back().filter(|(start, m)| *start + m.len > first);
        let from = begins.map_or(first, |(start, _)| *start);
        for start in self.map.range(from..end).map(|(start, _)| *start) {
            let Some(piece) = self.piece(start) else { continue };
            removed.push(start);
            if piece.first < first {
                added.push(Piece { len: first - piece.first, ..piece });
            }
            if piece.end() > end {
                let cut = end - piece.first;
                let (block, len) = (piece.block + cut, piece.len - cut);
                added.push(Piece { first: end, block, len, ..piece });
            }
        }
        if let Some((block, unwritten)) = new {
            let mut piece = Piece { first, block, len, unwritten };
            // What was cut off may join again, and so may neighbours.
            added.retain(|other| match other.joined(&piece).or(piece.joined(other)) {
                Some(joined) => {
                    piece = joined;
                    false
                }
                None => true,
            });
            let left = self.map.range(..piece.first).next_back().and_then(|(s, _)| self.piece(*s));
            if let Some(joined) = left.and_then(|left| left.joined(&piece)) {
                removed.push(joined.first);
                piece = joined;
            }
            if let Some(right) = self.piece(piece.end())
                && let Some(joined) = piece.joined(&right)
            {
                removed.push(right.first);
                piece = joined;
            }
            added.push(piece);
        }
        removed.sort_unstable();
        removed.dedup();
        (removed, added)
    }
}
