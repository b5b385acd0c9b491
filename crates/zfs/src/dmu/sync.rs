//! Sync of one objset: what a transaction group changed in it is written, from the leaves up.
//!
//! ```text
//!   freed objects    their trees are freed
//!   dirty objects    freed ranges become holes ── blocks of level 0 ── indirect blocks, level by level ── the dnode
//!   meta-dnode       dnodes are put into its blocks, which are then written like any object's
//!   who takes what   what that changes in it is reckoned meanwhile (`account`); who keeps the sums sets them down
//!   root block       last; the pointer to it is what comes back
//! ```
//!
//! While a group is written the next one changes the same objects. Nobody waits for anybody: the group's blocks are what they
//! were when it closed (`dbuf` froze what was changed since), and each object's new tree takes the place of the old one in
//! one step (`dnode/sync`).
//!
//! Blocks of the group stay above the cache until it is in the pool ([`Objset::committed`]).
//!
//! Source: OpenZFS, `dmu_objset.c` (`dmu_objset_sync`), `dnode_sync.c`; `docs/theory/pools.md`.

use super::account::Tally;
use super::dbuf::Block;
use super::dnode::Dnode;
use super::early::EarlyBlocks;
use super::objset::Objset;
use super::policy::Policy;
use super::txg::{TxGroups, Txg};
use crate::error::ZfsError;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use rt::Buf;
use std::cell::Cell;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dnode::{self, Dnode as DnodePhys};
use zfs_format::object_type::ObjectType;
use zfs_format::zil::ZilHeader;
use zfs_store::{IoClass, WriteBlock, Writer};

/// Objects that are written side by side.
const OBJECTS_MAX: usize = 16;
/// Blocks of one object that are written side by side: with those of other objects some tens of MiB are under way.
const BLOCKS_MAX: usize = 64;
/// Bytes of one object that are written side by side, where its blocks are long.
const BYTES_MAX: u64 = 8 << 20;

/// How many blocks of a length are written side by side.
pub(super) fn side_by_side(len: u64) -> usize {
    usize::try_from(BYTES_MAX / len.max(1)).unwrap_or(BLOCKS_MAX).clamp(2, BLOCKS_MAX)
}

/// Who keeps the books of the blocks of an objset.
pub trait Books {
    /// A block was born.
    fn born(&self, pointer: &BlockPointer);

    /// A block is not reached any more.
    fn killed(&self, pointer: &BlockPointer);

    /// A dnode was written that takes more than one slot.
    fn large_dnode(&self);
}

/// What syncing an objset needs.
#[derive(Clone)]
pub struct SyncContext {
    /// Writes.
    pub writer: Writer,
    /// The groups, of which one syncs.
    pub groups: TxGroups,
    /// How blocks are stored.
    pub policy: Rc<Policy>,
    /// Who keeps the books.
    pub books: Rc<dyn Books>,
    /// Blocks that are written already.
    pub early: Rc<EarlyBlocks>,
}

impl SyncContext {
    pub(super) fn txg(&self) -> Txg {
        self.groups.syncing().expect("a group is being synced")
    }

    /// The pointer to a block that was written early, where it is what it was then.
    pub(super) fn early(
        &self,
        object: u64,
        block: u64,
        bytes: &Buf,
        object_type: ObjectType,
    ) -> Option<BlockPointer> {
        let pointer = self.early.take(self.txg(), (object, block), bytes)?;
        assert_eq!(pointer.object_type(), object_type, "only blocks of data are written early");
        Some(pointer)
    }

    /// Writes a block in the place of another, and takes note of both. What comes back may be a hole.
    pub(super) async fn put(
        &self,
        of: &BlockAt<'_>,
        bytes: Buf,
        old: BlockPointer,
        fill: u64,
    ) -> Result<BlockPointer, ZfsError> {
        let BlockAt { dnode, phys, object_type, level, endian } = *of;
        let len = bytes.len() as u64;
        let mut how = self.policy.of(phys, object_type, level, len);
        how.props.endian = endian;
        let txg = self.txg().0;
        let block = WriteBlock {
            bytes,
            props: how.props,
            copies: how.copies,
            class: how.class,
            txg,
            io: IoClass::AsyncWrite,
            rewrites: Some(old),
        };
        let written = self.writer.write(block).await;
        let mut new = written.map_err(|error| dnode.write_failed(error))?;
        if new.is_hole() {
            new = self.hole(&old, object_type, level, len);
        } else if !new.is_embedded() {
            new.set_fill(fill);
        }
        self.replaced(&old, &new);
        Ok(new)
    }

    /// What stands where a block was, or would have been.
    pub(super) fn hole(
        &self,
        old: &BlockPointer,
        object_type: ObjectType,
        level: u8,
        len: u64,
    ) -> BlockPointer {
        // What never was anything stays so.
        if !self.policy.hole_birth || old.is_hole() && old.logical_birth() == 0 {
            return BlockPointer::HOLE;
        }
        if old.is_hole() {
            return *old;
        }
        if planted::nth(Bug::HoleWithoutBirth, 5) {
            return BlockPointer::HOLE;
        }
        BlockPointer::hole(object_type, level, len, self.txg().0)
    }

    /// One pointer takes the place of another.
    pub(super) fn replaced(&self, old: &BlockPointer, new: &BlockPointer) {
        // Written where it was: nothing changed hands.
        if !new.is_hole() && !new.is_embedded() && !old.is_embedded() && new.dva(0) == old.dva(0) {
            return;
        }
        if !old.is_hole() {
            self.books.killed(old);
        }
        if !new.is_hole() {
            self.books.born(new);
        }
    }
}

/// Which block is written.
#[derive(Clone, Copy)]
pub(super) struct BlockAt<'a> {
    pub(super) dnode: &'a Dnode,
    pub(super) phys: &'a DnodePhys,
    pub(super) object_type: ObjectType,
    pub(super) level: u8,
    pub(super) endian: Endian,
}

impl Objset {
    /// Whether anything was changed in the open group.
    pub fn is_dirty(&self) -> bool {
        !self.changed().borrow().dnodes.is_empty()
    }

    /// The open group closes: what was changed in it is the syncing one's from here on. Says whether anything was.
    pub fn close(&self) -> bool {
        let mut changed = self.changed().borrow_mut();
        let closed = std::mem::take(&mut changed.dnodes);
        let any = !closed.is_empty();
        changed.syncing.extend(closed);
        any
    }

    /// The header of its intent log, as the syncing group leaves it: written with the root block.
    pub fn set_log_header(&self, header: ZilHeader) {
        let mut root = (*self.root()).clone();
        root.zil = header;
        self.set_root(root);
    }

    /// Writes what the syncing group changed. `old` is the pointer to the root block, the new one comes back.
    ///
    /// # Errors
    /// Something that is needed can't be read, or a block can't be written. The group can't be committed then.
    pub async fn sync(
        &self,
        cx: &SyncContext,
        old: BlockPointer,
    ) -> Result<BlockPointer, ZfsError> {
        self.sync_objects(cx).await?;
        self.sync_root(cx, old).await
    }

    /// The first half: the objects that the syncing group changed. Says what that changes in who takes what.
    ///
    /// # Errors
    /// As of [`Objset::sync`].
    pub async fn sync_objects(&self, cx: &SyncContext) -> Result<Option<Tally>, ZfsError> {
        let txg = cx.txg();
        let (dirty, freed, buried) = self.changed_in(txg);
        for dnode in &buried {
            dnode.free_tree(cx).await?;
        }
        let synced: Vec<(Dnode, DnodePhys)> = stream::iter(dirty)
            .map(|dnode| async move {
                let phys = dnode.sync(cx).await?;
                Ok::<_, ZfsError>((dnode, phys))
            })
            .buffer_unordered(OBJECTS_MAX)
            .try_collect()
            .await?;
        // The books know nothing of what no tree leads to.
        cx.early.rest(txg).iter().for_each(|pointer| cx.writer.free(pointer));
        let meta = self.meta()?.clone();
        let tx = cx.groups.join_syncing();
        let counted = self.counted();
        let mut tally = counted.map(Tally::of);
        for number in &freed {
            self.put_dnode(&tx, &meta, *number, None, &mut tally).await?;
        }
        let mut synced = synced;
        synced.sort_by_key(|(dnode, _)| dnode.number());
        for (dnode, phys) in &mut synced {
            if let Some(counted) = counted {
                dnode.mark(counted.marks());
                phys.flags |= counted.marks();
            }
            if phys.slots() > 1 {
                cx.books.large_dnode();
            }
            self.put_dnode(&tx, &meta, dnode.number(), Some(phys), &mut tally).await?;
        }
        for number in freed.iter().filter(|_| planted::is(Bug::ClearedAfterMade)) {
            self.put_dnode(&tx, &meta, *number, None, &mut tally).await?;
        }
        Ok(tally)
    }

    /// The second half: the blocks of dnodes, the tables of who takes what, and the root block.
    ///
    /// # Errors
    /// As of [`Objset::sync`].
    pub async fn sync_root(
        &self,
        cx: &SyncContext,
        old: BlockPointer,
    ) -> Result<BlockPointer, ZfsError> {
        let meta = self.meta()?.clone();
        let mut root = (*self.root()).clone();
        let meta_phys = meta.sync(cx).await?;
        let fill = meta_phys.pointers.iter().map(BlockPointer::fill);
        let fill = fill.fold(0, u64::saturating_add);
        root.meta_dnode = Some(meta_phys.clone());
        for (table, dnode) in self.all_used() {
            if dnode.is_dirty_in(cx.txg()) {
                root.used[table] = Some(dnode.sync(cx).await?);
            }
        }
        if let Some(counted) = self.counted() {
            root.size = root.size.max(counted.size());
        }
        let bytes = root.encode(Endian::Little).map_err(|error| meta.wrong(error))?;
        self.set_root(root);
        let at = BlockAt {
            dnode: &meta,
            phys: &meta_phys,
            object_type: ObjectType::OBJSET,
            level: 0,
            endian: Endian::Little,
        };
        cx.put(&at, Buf::copy_of(&bytes), old, fill).await
    }

    /// The syncing group is in the pool.
    pub fn committed(&self) {
        let synced = std::mem::take(&mut self.changed().borrow_mut().syncing);
        synced.into_values().flatten().for_each(|dnode| dnode.committed());
        if let Ok(meta) = self.meta() {
            meta.committed();
        }
        self.all_used().for_each(|(_, dnode)| dnode.committed());
    }

    /// What a group changed: dirty dnodes, numbers that became free, freed dnodes.
    fn changed_in(&self, txg: Txg) -> (Vec<Dnode>, Vec<u64>, Vec<Dnode>) {
        let mut changed = self.changed().borrow_mut();
        let dirty = changed.syncing.values().flatten().filter(|dnode| dnode.is_dirty_in(txg));
        let dirty: Vec<Dnode> = dirty.cloned().collect();
        let (buried, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut changed.buried).into_iter().partition(|(when, _)| *when == txg);
        changed.buried = later;
        let freed = buried.iter().map(|(_, dnode)| dnode.number()).collect();
        (dirty, freed, buried.into_iter().map(|(_, dnode)| dnode).collect())
    }

    async fn put_dnode(
        &self,
        tx: &super::txg::Tx,
        meta: &Dnode,
        number: u64,
        phys: Option<&DnodePhys>,
        tally: &mut Option<Tally>,
    ) -> Result<(), ZfsError> {
        let (block, slot) = dnode::place_of(number);
        let stored = meta.block(block).await?;
        let failed = Cell::new(None);
        let endian = stored.endian;
        if let Some(tally) = tally {
            let before = dnode::find(stored.bytes.bytes(), slot, endian);
            if let Some(before) = before.map_err(|error| meta.wrong(error))?
                && !planted::nth(Bug::OwnerNotUncounted, 50)
            {
                tally.take(&before, endian);
            }
            if let Some(phys) = phys {
                tally.add(phys, endian);
            }
        }
        meta.edit_read(tx, block, stored, |bytes| {
            failed.set(dnode::put(bytes, slot, phys, endian).err());
        });
        failed.take().map_or(Ok(()), |error| Err(meta.wrong(error)))
    }
}

/// How many dnodes of a block of them are in use; of any other block 1.
pub(super) fn fill_of(object_type: ObjectType, block: &Block) -> u64 {
    match object_type {
        ObjectType::DNODE => {
            dnode::taken(block.bytes.bytes()).map_or(0, |taken| taken.len() as u64)
        }
        _ => 1,
    }
}
