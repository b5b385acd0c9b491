//! Extents loaded, looked up and changed, through transactions.

use super::{
    CHAIN_FREED_PER_STEP, CHAIN_HEADER, CHAIN_MAGIC, CHAIN_MAX, ExtentList, Piece, Plan, RECORD,
};
use crate::core::{Core, Outcome, Tx};
use crate::inode::Inode;
use crate::layout::Extent;
use crate::mapping::Root;
use crate::meta::MetaRef;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use stdx::bytes::{FormatError, Reader, put};

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
