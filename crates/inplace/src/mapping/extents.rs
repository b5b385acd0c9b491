//! Extents: records of (place in the file, place on the device, length).
//!
//! All extents of an inode are in memory once the first was needed, as XFS has it; the first ones stand
//! in the inode's record, the others in a chain of blocks that is read then. On the device they stand in
//! *slots* of no particular order, so that a change of one writes 16 bytes, wherever it lies in the file.
//!
//! *Record*, 16 bytes: place in the file u48, first block u48, length u31 with the highest bit for
//! "unwritten". Length 0 is a free slot. *Chain block*: magic u32, 4 unused, next block u64 (0: none),
//! records.

use crate::core::{Core, Outcome, Tx};
use crate::inode::{Inode, ROOT_AT};
use crate::layout::{Extent, Shape};
use crate::mapping::{Root, Run, What};
use crate::meta::MetaRef;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
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

impl Core {
    fn with_list<T>(&self, inode: &Inode, act: impl FnOnce(&mut ExtentList) -> T) -> T {
        match &mut inode.body.borrow_mut().root {
            Root::Extents(list) => act(list),
            Root::Indirect(_) => unreachable!("one form in a tree"),
        }
    }

    /// Makes sure that all extents are in memory.
    pub(crate) async fn load_extents(&self, inode: &Inode) -> Outcome<()> {
        let first = self.with_list(inode, |list| (!list.loaded).then_some(list.first_of_chain));
        let Some(mut next) = first else { return Ok(()) };
        let mut list = self.with_list(inode, |list| list.clone());
        while next != 0 {
            let block = self.block(next).await?;
            let read = self.read_chain(&mut list, &block);
            list.chain.push(next);
            next = read.map_err(|error| self.damaged(error))?;
            if list.chain.len() > CHAIN_MAX {
                return Err(self.stray(next));
            }
        }
        list.loaded = true;
        self.with_list(inode, |known| {
            // Another task may have been faster, and changed it since.
            if !known.loaded {
                *known = list;
            }
        });
        Ok(())
    }

    fn read_chain(&self, list: &mut ExtentList, block: &MetaRef) -> Result<u64, FormatError> {
        let bytes = block.bytes();
        let at = self.shape.offset(block.number);
        let fields = Reader::little("chain of extents", &bytes).lying_at(at.bytes());
        fields.require(fields.get_at::<u32>("magic", 0)? == CHAIN_MAGIC, "magic")?;
        let next = fields.get_at::<u64>("next block", 8)?;
        fields.require(next == 0 || self.shape.region_of(next).is_some(), "next block")?;
        for i in 0..list.per_block {
            let slot = list.inline.len() + list.chain.len() * list.per_block + i;
            match Piece::decode(&fields, CHAIN_HEADER + RECORD * i, &self.shape)? {
                Some(piece) => list.insert(&fields, piece, slot)?,
                None => {
                    list.free.insert(slot);
                }
            }
        }
        Ok(next)
    }

    /// Plans that `first..first + len` be mapped anew. The `attach` lock is held.
    pub(crate) async fn plan_extents(
        &self,
        inode: &Inode,
        first: u64,
        len: u64,
        new: Option<(u64, bool)>,
    ) -> Outcome<Plan> {
        self.load_extents(inode).await?;
        loop {
            let (removed, added, lacking) = self.with_list(inode, |list| {
                let (removed, added) = list.replace(first, len, new);
                let lacking = added.len() > removed.len() + list.free.len();
                (removed, added, lacking)
            });
            if lacking {
                self.extend_chain(inode).await?;
                continue;
            }
            let (added, freed, places) = self.with_list(inode, |list| {
                let left = removed.iter().filter_map(|first| list.map.get(first));
                let left: Vec<usize> = left.map(|mapped| mapped.slot).collect();
                let slots: Vec<usize> = left.iter().chain(&list.free).copied().collect();
                let freed = left.get(added.len()..).unwrap_or_default().to_vec();
                let added: Vec<_> = added.into_iter().zip(slots).collect();
                let touched = added.iter().map(|(_, slot)| slot).chain(&freed);
                let places: BTreeSet<(usize, u64)> = touched
                    .filter_map(|slot| slot.checked_sub(list.inline.len()))
                    .map(|slot| (slot / list.per_block, list.chain[slot / list.per_block]))
                    .collect();
                (added, freed, places)
            });
            let mut blocks = BTreeMap::new();
            for (place, number) in places {
                blocks.insert(place, self.block(number).await?);
            }
            return Ok(Plan { removed, added, freed, blocks });
        }
    }

    pub(crate) fn apply_extents(&self, tx: &Tx<'_>, inode: &Inode, plan: &Plan) {
        let (inline, per_block) = self.with_list(inode, |list| {
            for first in &plan.removed {
                list.leave(*first);
            }
            for (piece, slot) in &plan.added {
                list.enter(*piece, *slot);
            }
            (list.inline.len(), list.per_block)
        });
        let freed = plan.freed.iter().map(|slot| (*slot, [0; RECORD]));
        let added = plan.added.iter().map(|(piece, slot)| (*slot, piece.encode()));
        for (slot, bytes) in freed.chain(added) {
            // Those of the inode's record are stored with it.
            let Some(slot) = slot.checked_sub(inline) else { continue };
            let block = &plan.blocks[&(slot / per_block)];
            let at = CHAIN_HEADER + slot % per_block * RECORD;
            tx.edit(block, at..at + RECORD, |place| place.copy_from_slice(&bytes));
        }
    }

    /// Another block for the chain, in a transaction of its own.
    async fn extend_chain(&self, inode: &Inode) -> Outcome<()> {
        let goal = self.with_list(inode, |list| {
            list.chain.last().copied().or(list.map.values().next_back().map(|mapped| mapped.block))
        });
        let granted = self.grant_metadata(goal.unwrap_or(self.shape.group_start(0))).await?;
        let loaded = async {
            let region = self.region_handle(granted.start).await?;
            let last = self.with_list(inode, |list| list.chain.last().copied());
            let last = match last {
                Some(last) => Some(self.block(last).await?),
                None => None,
            };
            Ok((region, last, self.inode_block(inode.number).await?))
        };
        let loaded = loaded.await;
        let (region, last, inode_block) =
            loaded.inspect_err(|_| self.space.borrow_mut().release(&self.shape, granted))?;
        let tx = self.tx();
        tx.mark_used(&region, granted);
        let block = self.fresh_block(granted.start);
        tx.edit(&block, 0..self.shape.block as usize, |bytes| {
            put(bytes, 0, &CHAIN_MAGIC.to_le_bytes());
        });
        if let Some(last) = last {
            tx.edit(&last, 8..16, |bytes| put(bytes, 0, &granted.start.to_le_bytes()));
        }
        self.with_list(inode, |list| {
            let first = list.inline.len() + list.chain.len() * list.per_block;
            list.free.extend(first..first + list.per_block);
            if list.chain.is_empty() {
                list.first_of_chain = granted.start;
            }
            list.chain.push(granted.start);
        });
        inode.body.borrow_mut().blocks += 1;
        self.store(&tx, inode, &inode_block);
        Ok(())
    }

    /// One step of taking blocks away. Returns the end of what may still be mapped.
    pub(crate) async fn unmap_extents(
        &self,
        inode: &Rc<Inode>,
        from: u64,
        to: u64,
    ) -> Outcome<u64> {
        self.load_extents(inode).await?;
        let last = self.with_list(inode, |list| {
            let start = *list.map.range(..to).next_back()?.0;
            list.piece(start).filter(|piece| piece.end() > from)
        });
        let Some(piece) = last else { return Ok(from) };
        let end = piece.end().min(to);
        // What lies in the last region of it.
        let last_block = piece.block + (end - piece.first) - 1;
        let region = self.region_handle(last_block).await?;
        let region_start = self.shape.region(region.region).start;
        let in_region = piece.first + region_start.saturating_sub(piece.block);
        let start = from.max(piece.first).max(in_region);
        let freed = Extent { start: piece.block + (start - piece.first), len: end - start };
        let plan = self.plan_extents(inode, start, end - start, None).await?;
        let inode_block = self.inode_block(inode.number).await?;
        let tx = self.tx();
        tx.mark_free(&region, freed, Core::holds_metadata(inode));
        inode.body.borrow_mut().blocks -= freed.len;
        self.apply_extents(&tx, inode, &plan);
        self.store(&tx, inode, &inode_block);
        Ok(start)
    }

    /// Gives the chain back once no extent is left.
    pub(crate) async fn free_chain(&self, inode: &Inode) -> Outcome<()> {
        loop {
            let chain = self.with_list(inode, |list| {
                let keep = list.chain.len().saturating_sub(CHAIN_FREED_PER_STEP);
                if list.map.is_empty() { list.chain[keep..].to_vec() } else { Vec::new() }
            });
            if chain.is_empty() {
                return Ok(());
            }
            self.begin().await?;
            let mut regions = Vec::with_capacity(chain.len());
            for block in &chain {
                regions.push(self.region_handle(*block).await?);
            }
            let new_last = self.with_list(inode, |list| {
                let kept = list.chain.len() - chain.len();
                kept.checked_sub(1).map(|last| list.chain[last])
            });
            let new_last = match new_last {
                Some(last) => Some(self.block(last).await?),
                None => None,
            };
            let inode_block = self.inode_block(inode.number).await?;
            let tx = self.tx();
            for (block, region) in chain.iter().zip(&regions) {
                tx.mark_free(region, Extent { start: *block, len: 1 }, true);
            }
            if let Some(last) = new_last {
                tx.edit(&last, 8..16, |bytes| bytes.fill(0));
            }
            self.with_list(inode, |list| {
                list.chain.truncate(list.chain.len() - chain.len());
                let slots = list.inline.len() + list.chain.len() * list.per_block;
                list.free.split_off(&slots);
                if list.chain.is_empty() {
                    list.first_of_chain = 0;
                }
            });
            inode.body.borrow_mut().blocks -= chain.len() as u64;
            self.store(&tx, inode, &inode_block);
        }
    }
}
