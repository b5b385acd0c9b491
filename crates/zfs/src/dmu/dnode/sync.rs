//! Sync of one object: its dirty blocks are written, then the indirect blocks that lead to them.
//!
//! The object is written as the syncing group left it, into a tree that is made beside the one that is read meanwhile. When
//! all of it is written, one step puts it in the old one's place ([`Dnode::install`]): pointers of the dnode, indirect blocks
//! above the cache, what was dirty is clean.
//!
//! **Order.** First the tree is made as high as the object is long. Then freed ranges become holes; blocks that are dirty were put
//! there after. Then blocks of level 0, side by side; then each level above, when all below it have their pointers. An
//! indirect block that leads to nothing becomes a hole itself.
//!
//! **Births of holes.** A hole says since when it is one, so that an increment knows what to send. Where an indirect block
//! is made in the place of a hole, all that it leads to are holes of that one's birth (WRITER-TRAPS 1).
//!
//! Source: OpenZFS, `dnode_sync.c`, `dbuf.c` (`dbuf_write_ready`, `dbuf_handle_indirect_hole`).

use super::super::dbuf::{At, Block, Content};
use super::super::sync::{BlockAt, SyncContext, fill_of, side_by_side};
use super::super::txg::Txg;
use super::Dnode;
use crate::error::{Problem, ZfsError};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use rt::BufMut;
use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::block_pointer::{self, BlockPointer, Pointers};
use zfs_format::dnode::{Dnode as DnodePhys, LEVELS_MAX, flags};
use zfs_format::object_type::ObjectType;
use zfs_format::wire::Wire;
use zfs_store::{BlockRequest, WriteBlockError};

/// Bytes of a sector, in which old dnodes count their space.
const SECTOR_SHIFT: u32 = 9;

type Walk<'a> = Pin<Box<dyn Future<Output = Result<(), ZfsError>> + 'a>>;

/// An indirect block that changes.
struct Indirect {
    bytes: BufMut,
    endian: Endian,
    changed: bool,
}

/// A tree in the making.
struct Growing<'a> {
    dnode: &'a Dnode,
    cx: &'a SyncContext,
    phys: DnodePhys,
    indirect: BTreeMap<At, Indirect>,
    /// Space of blocks that were born less that of those that were killed.
    used: i128,
}

impl Dnode {
    /// Whether a group changed it, and it is not written.
    pub(in super::super) fn is_dirty_in(&self, txg: Txg) -> bool {
        self.0.dirty.get() == Some(txg)
            || self.0.frozen.borrow().as_ref().is_some_and(|(frozen, _)| *frozen == txg)
    }

    /// An error about a block that can't be written.
    pub(crate) fn write_failed(&self, error: WriteBlockError) -> ZfsError {
        ZfsError::Write { objset: self.objset(), object: self.number(), error: Box::new(error) }
    }

    /// The dnode as a group left it, with the tree as it was synced last.
    fn as_of(&self, txg: Txg) -> DnodePhys {
        let now = self.phys();
        let frozen = self.0.frozen.borrow();
        let then = frozen.as_ref().filter(|(frozen, _)| *frozen == txg);
        let then = then.filter(|_| !planted::is(Bug::LaterDnodeWritten));
        let Some((_, then)) = then else { return (*now).clone() };
        let mut phys = (**then).clone();
        phys.levels = now.levels;
        phys.pointers.clone_from(&now.pointers);
        phys.used = now.used;
        phys
    }

    /// Writes what the syncing group changed; what comes back is to be put into the object's slot.
    pub(in super::super) async fn sync(&self, cx: &SyncContext) -> Result<DnodePhys, ZfsError> {
        let txg = cx.txg();
        let mut phys = self.as_of(txg);
        if phys.flags & flags::USED_BYTES == 0 {
            phys.used <<= SECTOR_SHIFT;
            phys.flags |= flags::USED_BYTES;
        }
        let (blocks, freed) = {
            let dbufs = self.0.dbufs.borrow();
            (dbufs.changed_in(txg), dbufs.freed_in(txg))
        };
        let mut tree = Growing { dnode: self, cx, phys, indirect: BTreeMap::new(), used: 0 };
        tree.grow()?;
        for range in freed {
            tree.free(range).await?;
        }
        let (spill, data): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|(at, _)| *at == At::SPILL);
        // Behind the end nothing leads to a block that was freed, and perhaps nothing could.
        let end = tree.phys.block_id_max;
        let is_freed =
            |at: &At, content: &Content| at.block > end && matches!(content, Content::Hole);
        let data = data.into_iter().filter(|(at, content)| at.level == 0 && !is_freed(at, content));
        let data = data.collect();
        tree.write_data(data).await?;
        let spill = spill.into_iter().next().map(|(_, content)| content);
        let goes = matches!(spill, Some(Content::Hole));
        if let Some(content) = spill {
            tree.write_spill(content).await?;
        }
        tree.write_indirect().await?;
        let Growing { mut phys, indirect, used, .. } = tree;
        let total = i128::from(phys.used) + used;
        phys.used =
            u64::try_from(total).map_err(|_| self.problem(Problem::Count("of its bytes")))?;
        let indirect = indirect.into_iter().filter(|(_, block)| block.changed);
        let indirect = indirect.map(|(at, block)| {
            let Indirect { bytes, endian, .. } = block;
            (at, Content::Block(Block { bytes: bytes.freeze(), endian }))
        });
        self.install(txg, &phys, goes, indirect.collect());
        Ok(phys)
    }

    /// The tree that was written takes the place of the old one.
    fn install(
        &self,
        txg: Txg,
        synced: &DnodePhys,
        spill_goes: bool,
        indirect: Vec<(At, Content)>,
    ) {
        let mut dbufs = self.0.dbufs.borrow_mut();
        let spill_changed_since = dbufs.is_dirty_after(txg, At::SPILL);
        dbufs.written(txg, indirect);
        drop(dbufs);
        {
            let mut phys = self.0.phys.borrow_mut();
            let phys = Rc::make_mut(&mut phys);
            phys.levels = synced.levels;
            phys.pointers.clone_from(&synced.pointers);
            phys.used = synced.used;
            phys.flags |= flags::USED_BYTES;
            match (spill_goes, spill_changed_since) {
                (true, true) => phys.spill = Some(BlockPointer::HOLE),
                (true, false) => {
                    phys.spill = None;
                    phys.flags &= !flags::SPILL;
                }
                (false, _) if phys.flags & flags::SPILL != 0 && synced.spill.is_some() => {
                    phys.spill = synced.spill;
                }
                (false, _) => {}
            }
        }
        let mut frozen = self.0.frozen.borrow_mut();
        if frozen.as_ref().is_some_and(|(frozen, _)| *frozen == txg) {
            *frozen = None;
        }
        if self.0.dirty.get() == Some(txg) {
            self.0.dirty.set(None);
        }
    }

    /// It bears these flags from here on.
    pub(in super::super) fn mark(&self, flags: u8) {
        Rc::make_mut(&mut self.0.phys.borrow_mut()).flags |= flags;
    }

    /// The group that was written is in the pool: the cache has its blocks from here on, by the pointers that they have now.
    pub(in super::super) fn committed(&self) {
        let kept = self.0.dbufs.borrow().kept();
        for (at, block) in kept {
            if let Some(pointer) = self.pointer_to(at)
                && pointer.logical_size() == block.bytes.len() as u64
                && self.0.context.caching.get().keeps(&pointer)
            {
                self.0.context.blocks.keep(&pointer, block.bytes);
            }
        }
        self.0.dbufs.borrow_mut().committed();
    }

    /// The pointer that the tree has for a block, as far as it is in memory.
    fn pointer_to(&self, at: At) -> Option<BlockPointer> {
        if self.0.is_free.get() {
            return None;
        }
        let phys = self.phys();
        let pointer = match at {
            At::SPILL => phys.spill,
            at => self.walk(&phys, at).ok().filter(|(_, level)| *level == at.level).map(|(p, _)| p),
        };
        pointer.filter(|pointer| !pointer.is_hole())
    }

    /// Frees all blocks of an object that was freed.
    pub(in super::super) async fn free_tree(&self, cx: &SyncContext) -> Result<(), ZfsError> {
        let phys = (*self.phys()).clone();
        let mut tree = Growing { dnode: self, cx, phys, indirect: BTreeMap::new(), used: 0 };
        let level = tree.phys.levels - 1;
        let pointers = tree.phys.pointers.clone();
        for (block, pointer) in pointers.into_iter().enumerate() {
            tree.kill_below(pointer, At { level, block: block as u64 }).await?;
        }
        if let Some(pointer) = tree.phys.spill.filter(|pointer| !pointer.is_hole())
            && !planted::is(Bug::SpillLeaked)
        {
            tree.kill(&pointer);
        }
        Ok(())
    }
}

impl Growing<'_> {
    fn shift(&self) -> u32 {
        u32::from(self.phys.indirect_shift) - BlockPointer::SHIFT
    }

    /// Bytes of a block of a level.
    fn len(&self, level: u8) -> u64 {
        match level {
            0 => self.phys.data_block_bytes(),
            _ => 1 << self.phys.indirect_shift,
        }
    }

    fn parent(&self, at: At) -> (At, usize) {
        let shift = self.shift();
        let index = at.block & ((1 << shift) - 1);
        (At { level: at.level + 1, block: at.block >> shift }, index as usize)
    }

    /// Makes the tree as high as the object is long.
    fn grow(&mut self) -> Result<(), ZfsError> {
        loop {
            let below = self.phys.blocks_below(self.phys.levels);
            let reach = below.saturating_mul(self.phys.pointers.len() as u64);
            if self.phys.block_id_max < reach {
                return Ok(());
            }
            let old = self.phys.levels;
            if old >= LEVELS_MAX || self.phys.indirect_shift == 0 {
                return Err(self.dnode.problem(Problem::Count("of its blocks")));
            }
            self.phys.levels += 1;
            if self.phys.pointers.iter().all(|pointer| *pointer == BlockPointer::HOLE) {
                continue;
            }
            let mut bytes = BufMut::zeroed(1 << self.phys.indirect_shift);
            for (index, pointer) in self.phys.pointers.iter_mut().enumerate() {
                block_pointer::put(&mut bytes, index, pointer, Endian::Little);
                *pointer = BlockPointer::HOLE;
            }
            let block = Indirect { bytes, endian: Endian::Little, changed: true };
            self.indirect.insert(At { level: old, block: 0 }, block);
        }
    }

    /// The pointer to a block. The indirect blocks above it are in memory from here on.
    async fn pointer(&mut self, at: At) -> Result<BlockPointer, ZfsError> {
        if at.level + 1 == self.phys.levels {
            let found = usize::try_from(at.block).ok().and_then(|n| self.phys.pointers.get(n));
            return Ok(found.copied().unwrap_or(BlockPointer::HOLE));
        }
        let (parent, index) = self.parent(at);
        self.load(parent).await?;
        Ok(self.pointer_in(parent, index))
    }

    fn pointer_in(&self, parent: At, index: usize) -> BlockPointer {
        let block = self.indirect.get(&parent).expect("it was loaded");
        let pointers = Pointers::of(&block.bytes, block.endian).expect("a block of pointers");
        pointers.get(index).expect("an index within it")
    }

    /// Puts the pointer to a block, whose parents were loaded.
    fn set_pointer(&mut self, at: At, pointer: BlockPointer) {
        if at.level + 1 == self.phys.levels {
            self.phys.pointers[at.block as usize] = pointer;
            return;
        }
        let (parent, index) = self.parent(at);
        let block = self.indirect.get_mut(&parent).expect("it was loaded");
        block.changed = true;
        let endian = block.endian;
        block_pointer::put(&mut block.bytes, index, &pointer, endian);
    }

    /// Brings an indirect block into memory, and those above it.
    fn load(&mut self, at: At) -> Walk<'_> {
        Box::pin(async move {
            if self.indirect.contains_key(&at) {
                return Ok(());
            }
            let pointer = self.pointer(at).await?;
            let block = if pointer.is_hole() {
                let mut bytes = BufMut::zeroed(self.len(at.level) as usize);
                if pointer.logical_birth() != 0 && !planted::is(Bug::HolesBelowWithoutBirth) {
                    let (level, birth) = (at.level - 1, pointer.logical_birth());
                    let len = self.len(level);
                    let hole = BlockPointer::hole(self.phys.object_type, level, len, birth);
                    for index in 0..bytes.len() / BlockPointer::BYTES {
                        block_pointer::put(&mut bytes, index, &hole, Endian::Little);
                    }
                }
                Indirect { bytes, endian: Endian::Little, changed: false }
            } else {
                let block = self.read(at, pointer).await?;
                let bytes = BufMut::copy_of(block.bytes.bytes());
                Indirect { bytes, endian: block.endian, changed: false }
            };
            if block.bytes.len() as u64 != self.len(at.level) {
                let found = block.bytes.len() as u64;
                return Err(self.dnode.problem(Problem::BlockSize(found)));
            }
            self.indirect.insert(at, block);
            Ok(())
        })
    }

    /// An indirect block: what an earlier pass left above the cache, or as it is stored.
    async fn read(&self, at: At, pointer: BlockPointer) -> Result<Block, ZfsError> {
        let above = self.dnode.0.dbufs.borrow().get(at);
        if let Some(Content::Block(block)) = above {
            return Ok(block);
        }
        let request: BlockRequest = self.dnode.0.request(pointer, at);
        let bytes = self.dnode.0.context.blocks.read(request).await?;
        Ok(Block { bytes, endian: pointer.endian() })
    }

    fn kill(&mut self, pointer: &BlockPointer) {
        if pointer.level() > 0 && planted::is(Bug::UsedNotCounted) {
            return self.cx.books.killed(pointer);
        }
        self.used -= i128::from(self.cx.writer.tree().deflated_size(pointer));
        self.cx.books.killed(pointer);
    }

    /// Frees a block and all that it leads to.
    fn kill_below(&mut self, pointer: BlockPointer, at: At) -> Walk<'_> {
        Box::pin(async move {
            if pointer.is_hole() {
                return Ok(());
            }
            if at.level > 0 {
                let block = self.read(at, pointer).await?;
                let pointers = Pointers::of(block.bytes.bytes(), block.endian);
                let pointers = pointers.map_err(|error| self.dnode.wrong(error))?;
                for (index, pointer) in pointers.iter().enumerate() {
                    let block = (at.block << self.shift()) + index as u64;
                    self.kill_below(pointer, At { level: at.level - 1, block }).await?;
                }
                if planted::nth(Bug::IndirectLeaked, 3) {
                    return Ok(());
                }
            }
            self.kill(&pointer);
            // A forged tree leads to the same blocks without end.
            match self.cx.writer.not_held() {
                Some(dva) => Err(self.dnode.problem(Problem::NotAllocated(dva))),
                None => Ok(()),
            }
        })
    }

    /// Frees blocks of level 0.
    async fn free(&mut self, range: Range<u64>) -> Result<(), ZfsError> {
        let level = self.phys.levels - 1;
        for block in 0..self.phys.pointers.len() as u64 {
            self.free_in(At { level, block }, range.clone()).await?;
        }
        Ok(())
    }

    /// Frees what of a range lies below a block.
    fn free_in(&mut self, at: At, range: Range<u64>) -> Walk<'_> {
        Box::pin(async move {
            let span = self.phys.blocks_below(at.level + 1);
            let first = at.block.saturating_mul(span);
            let all = first..first.saturating_add(span);
            if range.end <= all.start || all.end <= range.start {
                return Ok(());
            }
            let pointer = self.pointer(at).await?;
            let is_known = self.indirect.contains_key(&at);
            if pointer.is_hole() && !is_known {
                return Ok(());
            }
            let whole = range.start <= all.start && all.end <= range.end;
            if whole && !is_known {
                self.kill_below(pointer, at).await?;
                let len = self.len(at.level);
                let hole = self.cx.hole(&pointer, self.phys.object_type, at.level, len);
                self.set_pointer(at, hole);
                return Ok(());
            }
            self.load(at).await?;
            let shift = self.shift();
            let below = self.phys.blocks_below(at.level);
            let base = at.block << shift;
            let from = range.start.saturating_sub(all.start) / below;
            let to = (range.end.min(all.end) - all.start).div_ceil(below);
            for index in from..to {
                if at.level == 1 || !self.pointer_in(at, index as usize).is_hole() {
                    self.free_in(At { level: at.level - 1, block: base + index }, range.clone())
                        .await?;
                }
            }
            Ok(())
        })
    }

    /// Writes blocks of level 0.
    async fn write_data(&mut self, blocks: Vec<(At, Content)>) -> Result<(), ZfsError> {
        let mut writes = Vec::with_capacity(blocks.len());
        for (at, content) in blocks {
            let old = self.pointer(at).await?;
            writes.push((at, old, content));
        }
        let (object_type, len) = (self.phys.object_type, self.len(0));
        let written = self.write_all(object_type, len, writes).await?;
        for (at, old, new) in written {
            self.count(&old, &new);
            self.set_pointer(at, new);
        }
        Ok(())
    }

    fn count(&mut self, old: &BlockPointer, new: &BlockPointer) {
        let tree = self.cx.writer.tree();
        self.used += i128::from(tree.deflated_size(new)) - i128::from(tree.deflated_size(old));
    }

    /// Writes blocks side by side.
    async fn write_all(
        &self,
        object_type: ObjectType,
        len: u64,
        blocks: Vec<(At, BlockPointer, Content)>,
    ) -> Result<Vec<(At, BlockPointer, BlockPointer)>, ZfsError> {
        let (dnode, phys, cx) = (self.dnode, &self.phys, self.cx);
        let writes = blocks.into_iter().map(|(at, old, content)| async move {
            let level = if at == At::SPILL { 0 } else { at.level };
            let new = match content {
                Content::Hole => {
                    let hole = cx.hole(&old, object_type, level, len);
                    cx.replaced(&old, &hole);
                    hole
                }
                Content::Block(block) => {
                    let fill = match level {
                        0 => fill_of(object_type, &block),
                        _ => fill_below(&block),
                    };
                    let early = match at.level {
                        0 => cx.early(dnode.number(), at.block, &block.bytes, object_type),
                        _ => None,
                    };
                    let endian = block.endian;
                    let of = BlockAt { dnode, phys, object_type, level, endian };
                    match early {
                        Some(pointer) => {
                            cx.replaced(&old, &pointer);
                            pointer
                        }
                        None => cx.put(&of, block.bytes, old, fill).await?,
                    }
                }
            };
            Ok::<_, ZfsError>((at, old, new))
        });
        stream::iter(writes).buffer_unordered(side_by_side(len)).try_collect().await
    }

    async fn write_spill(&mut self, content: Content) -> Result<(), ZfsError> {
        let old = self.phys.spill.unwrap_or(BlockPointer::HOLE);
        let goes = content == Content::Hole;
        let len = match &content {
            Content::Block(block) => block.bytes.len() as u64,
            Content::Hole => self.len(0),
        };
        let bonus_type = self.phys.bonus_type;
        let written = self.write_all(bonus_type, len, vec![(At::SPILL, old, content)]).await?;
        for (_, old, new) in written {
            self.count(&old, &new);
            self.phys.spill = (!goes).then_some(new);
        }
        if goes {
            self.phys.flags &= !flags::SPILL;
        }
        Ok(())
    }

    /// Writes indirect blocks, from the lowest level up.
    async fn write_indirect(&mut self) -> Result<(), ZfsError> {
        for level in 1..self.phys.levels {
            let of_level = At { level, block: 0 }..At { level: level + 1, block: 0 };
            let changed: Vec<At> = self
                .indirect
                .range(of_level)
                .filter(|(_, block)| block.changed)
                .map(|(at, _)| *at)
                .collect();
            let mut writes = Vec::with_capacity(changed.len());
            for at in changed {
                let old = self.pointer(at).await?;
                let block = self.indirect.get_mut(&at).expect("it is one of them");
                let endian = block.endian;
                let pointers = Pointers::of(&block.bytes, endian).expect("a block of pointers");
                let is_kept = planted::is(Bug::EmptyIndirectKept);
                let content = if pointers.iter().all(|pointer| pointer.is_hole()) && !is_kept {
                    Content::Hole
                } else {
                    let len = block.bytes.len();
                    let bytes = std::mem::replace(&mut block.bytes, BufMut::zeroed(0)).freeze();
                    assert_eq!(bytes.len(), len);
                    Content::Block(Block { bytes, endian })
                };
                writes.push((at, old, content));
            }
            let contents: Vec<(At, Content)> =
                writes.iter().map(|(at, _, content)| (*at, content.clone())).collect();
            let (object_type, len) = (self.phys.object_type, self.len(level));
            let written = self.write_all(object_type, len, writes).await?;
            for (at, content) in contents {
                if let Content::Block(block) = content {
                    let bytes = block.bytes.try_into_mut();
                    let bytes = bytes.unwrap_or_else(|buf| BufMut::copy_of(buf.bytes()));
                    self.indirect.get_mut(&at).expect("it is one of them").bytes = bytes;
                }
            }
            for (at, old, new) in written {
                self.count(&old, &new);
                self.set_pointer(at, new);
            }
        }
        Ok(())
    }
}

/// Blocks below an indirect one that are no holes.
fn fill_below(block: &Block) -> u64 {
    let pointers = Pointers::of(block.bytes.bytes(), block.endian).expect("a block of pointers");
    if planted::is(Bug::FillNotSummed) {
        return 1;
    }
    // A damaged pool's may be any numbers.
    let fills = pointers.iter().filter(|pointer| !pointer.is_hole()).map(|pointer| pointer.fill());
    fills.fold(0, u64::saturating_add)
}
