//! A dnode: the one handle of an object, whoever has it open.
//!
//! ```text
//!   phys      the dnode as the open context sees it, shared with readers, who keep a consistent one; the tree in it
//!             (levels, pointers, spill pointer) is as it was synced last, the rest as it was changed last
//!   frozen    the same as the syncing group left it, where the open one changed it since
//!   dbufs     blocks that were changed, or that a change looks at
//! ```
//!
//! Reading is in [`read`], changing in [`change`]. What is derived from an object's blocks and kept (a decoded table) asks
//! for its [`Dnode::version`] before it believes itself.
//!
//! A handle is *detached* if it is not registered in its objset: it shows what a block of dnodes has, for walks over what
//! is stored, and can't be changed.
//!
//! Source: OpenZFS, `dnode.c`; `docs/theory/pools.md` for what is otherwise here.

mod change;
mod read;
mod sync;
#[cfg(test)]
mod tests;

use super::account::TABLES;
use super::caching::Caching;
use super::dbuf::{At, Block, Content, Dbufs};
use super::prefetch::Prefetch;
use super::step::{Blocked, Fetch, Holds, Need, Step};
use super::txg::Txg;
use crate::error::{Problem, ZfsError};
use rt::{Buf, Rt};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::rc::{Rc, Weak};
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::{BlockPointer, Pointers};
use zfs_format::dnode::Dnode as DnodePhys;
use zfs_format::wire::Record;
use zfs_format::{Endian, FormatError};
use zfs_store::crypt::DatasetKey;
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

/// What a dnode needs of its objset.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) rt: Rt,
    pub(super) blocks: Rc<dyn ReadBlocks>,
    pub(super) objset: u64,
    pub(super) key: Option<Rc<DatasetKey>>,
    pub(super) caching: Rc<Cell<Caching>>,
    /// Where it notes that it was changed.
    pub(super) changed: Weak<RefCell<Changed>>,
}

/// Dnodes of an objset that were changed and stand in no block yet.
#[derive(Default)]
pub(super) struct Changed {
    /// In the open group; nothing where the number is free.
    pub(super) dnodes: BTreeMap<u64, Option<Dnode>>,
    /// In the group that syncs, until that is in the pool.
    pub(super) syncing: BTreeMap<u64, Option<Dnode>>,
    /// Dnodes that were freed, by group, with the trees that are to be freed.
    pub(super) buried: Vec<(Txg, Dnode)>,
}

impl Changed {
    /// What became of a number; nothing where it is as its block says.
    pub(super) fn get(&self, number: u64) -> Option<&Option<Dnode>> {
        self.dnodes.get(&number).or_else(|| self.syncing.get(&number))
    }

    /// The first number from one on of which something became.
    pub(super) fn first(&self, from: u64) -> Option<u64> {
        let first = |map: &BTreeMap<u64, Option<Dnode>>| map.range(from..).next().map(|(n, _)| *n);
        [first(&self.dnodes), first(&self.syncing)].into_iter().flatten().min()
    }

    /// The numbers in a range of which something became, in no order.
    pub(super) fn each(
        &self,
        range: impl RangeBounds<u64> + Clone,
    ) -> impl Iterator<Item = (u64, &Option<Dnode>)> {
        let syncing = self.syncing.range(range.clone());
        let only_syncing = syncing.filter(|(number, _)| !self.dnodes.contains_key(number));
        only_syncing.chain(self.dnodes.range(range)).map(|(number, dnode)| (*number, dnode))
    }

    /// The same in order.
    pub(super) fn range(
        &self,
        range: impl RangeBounds<u64> + Clone,
    ) -> BTreeMap<u64, Option<Dnode>> {
        self.each(range).map(|(number, dnode)| (number, dnode.clone())).collect()
    }
}

/// A dnode. Clones are handles of the same.
#[derive(Clone)]
pub struct Dnode(Rc<Inner>);

/// A handle that doesn't keep it open.
pub(super) struct WeakDnode(Weak<Inner>);

struct Inner {
    context: Context,
    number: u64,
    endian: Endian,
    phys: RefCell<Rc<DnodePhys>>,
    /// The group that changed it last.
    dirty: Cell<Option<Txg>>,
    frozen: RefCell<Option<(Txg, Rc<DnodePhys>)>>,
    dbufs: RefCell<Dbufs>,
    version: Cell<u64>,
    /// Counts changes of its blocks.
    contents: Cell<u64>,
    /// What somebody made of its blocks, and of which contents.
    kept: RefCell<Option<(u64, Rc<dyn Any>)>>,
    is_free: Cell<bool>,
    prefetch: Prefetch,
}

/// Where a block is.
enum Place {
    /// Here.
    Block(Block),
    /// Nowhere: zeros.
    Hole,
    /// Behind this pointer, which may be a hole's.
    Pointer(BlockPointer),
}

impl WeakDnode {
    pub(super) fn upgrade(&self) -> Option<Dnode> {
        self.0.upgrade().map(Dnode)
    }
}

impl Dnode {
    pub(super) fn new(context: Context, number: u64, phys: DnodePhys, endian: Endian) -> Dnode {
        Dnode(Rc::new(Inner {
            context,
            number,
            endian,
            phys: RefCell::new(Rc::new(phys)),
            dirty: Cell::default(),
            frozen: RefCell::default(),
            dbufs: RefCell::default(),
            version: Cell::default(),
            contents: Cell::default(),
            kept: RefCell::default(),
            is_free: Cell::default(),
            prefetch: Prefetch::default(),
        }))
    }

    pub(super) fn downgrade(&self) -> WeakDnode {
        WeakDnode(Rc::downgrade(&self.0))
    }

    /// Its object's number.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Whether it stands in the root block: the meta-dnode, and the tables of who takes what.
    fn is_in_root(&self) -> bool {
        self.0.number == 0 || self.0.number > u64::MAX - TABLES as u64
    }

    /// The number of its objset.
    pub fn objset(&self) -> u64 {
        self.0.context.objset
    }

    /// The dnode as it is now. What is returned stays as it is.
    pub fn phys(&self) -> Rc<DnodePhys> {
        Rc::clone(&self.0.phys.borrow())
    }

    /// The byte order of its bonus, and of the block that it stands in.
    pub fn endian(&self) -> Endian {
        self.0.endian
    }

    /// Bytes of a data block.
    pub fn block_bytes(&self) -> u64 {
        self.0.phys.borrow().data_block_bytes()
    }

    /// Counts its changes.
    pub fn version(&self) -> u64 {
        self.0.version.get()
    }

    /// Counts changes of its blocks, and not those of its bonus.
    pub fn contents(&self) -> u64 {
        self.0.contents.get()
    }

    /// What was made of its blocks and [kept](Dnode::keep), if they are as they were.
    pub(crate) fn kept<T: 'static>(&self) -> Option<Rc<T>> {
        let kept = self.0.kept.borrow();
        let (_, known) = kept.as_ref().filter(|(contents, _)| *contents == self.contents())?;
        Rc::clone(known).downcast().ok()
    }

    /// Keeps what was made of its blocks, as they are now, for as long as they stay so.
    pub(crate) fn keep<T: 'static>(&self, made: Rc<T>) {
        *self.0.kept.borrow_mut() = Some((self.contents(), made));
    }

    /// The same as [`Dnode::kept`], and it is kept no longer: for who changes both.
    pub(crate) fn take_kept<T: 'static>(&self) -> Option<Rc<T>> {
        let known = self.kept();
        *self.0.kept.borrow_mut() = None;
        known
    }

    /// Bytes that its blocks can hold, the last one whole.
    pub fn capacity(&self) -> u64 {
        let phys = self.0.phys.borrow();
        phys.block_id_max.saturating_add(1).saturating_mul(phys.data_block_bytes())
    }

    /// An error about its bytes.
    pub fn wrong(&self, error: FormatError) -> ZfsError {
        self.0.wrong(error)
    }

    /// An error about what it is.
    pub fn problem(&self, problem: Problem) -> ZfsError {
        ZfsError::Object { objset: self.0.context.objset, object: self.0.number, problem }
    }

    /// Where a block of this object stands.
    pub fn bookmark(&self, level: i64, block: u64) -> Bookmark {
        self.0.bookmark(level, block)
    }

    fn zeros(&self) -> Block {
        let bytes = Buf::zeros(self.block_bytes() as usize);
        Block { bytes, endian: self.0.endian }
    }

    /// The pointer in an indirect block, where that is in memory above the cache.
    fn pointer_above(&self, at: At, index: usize) -> Option<Result<BlockPointer, ZfsError>> {
        let dbufs = self.0.dbufs.borrow();
        let found = match dbufs.get(at) {
            Some(Content::Block(block)) => self.pointer_in(&block, index),
            Some(Content::Hole) => Ok(BlockPointer::HOLE),
            None => self.pointer_in(dbufs.last(at)?, index),
        };
        Some(found)
    }

    /// One pointer of an indirect block; a hole's where it has fewer.
    fn pointer_in(&self, block: &Block, index: usize) -> Result<BlockPointer, ZfsError> {
        let pointers = Pointers::of(block.bytes.bytes(), block.endian);
        let pointers = pointers.map_err(|error| self.wrong(error))?;
        Ok(pointers.get(index).unwrap_or(BlockPointer::HOLE))
    }

    /// Where a block is, as far as that can be known from memory.
    fn place(&self, at: At) -> Step<Place> {
        match self.0.dbufs.borrow().get(at) {
            _ if self.0.is_free.get() => return Err(self.problem(Problem::Absent).into()),
            Some(Content::Block(block)) => return Ok(Place::Block(block)),
            Some(Content::Hole) => return Ok(Place::Hole),
            None => {}
        }
        let phys = self.0.phys.borrow();
        if at == At::SPILL {
            return Ok(phys.spill.map_or(Place::Hole, Place::Pointer));
        }
        if at.level == 0 && at.block > phys.block_id_max {
            return Ok(Place::Hole);
        }
        let (pointer, level) = self.walk(&phys, at)?;
        Ok(if level == at.level { Place::Pointer(pointer) } else { Place::Hole })
    }

    /// The pointer that the tree has for a block, and its level; or a hole's of a higher level, which stands for all below it.
    fn walk(&self, phys: &DnodePhys, at: At) -> Step<(BlockPointer, u8)> {
        const BEYOND: (BlockPointer, u8) = (BlockPointer::HOLE, u8::MAX);
        let Some(above) = phys.levels.checked_sub(at.level.saturating_add(1)) else {
            return Ok(BEYOND);
        };
        let shift = phys.blocks_below(2).trailing_zeros();
        let up = |levels: u8| at.block.checked_shr(u32::from(levels) * shift).unwrap_or(0);
        let index = |levels: u8| (up(levels) & ((1 << shift) - 1)) as usize;
        // Reading on in one object finds the lowest indirect block here.
        if above > 0 {
            let parent = At { level: at.level + 1, block: up(1) };
            if let Some(pointer) = self.pointer_above(parent, index(0)) {
                return Ok((pointer?, at.level));
            }
        }
        let top = usize::try_from(up(above)).ok().and_then(|top| phys.pointers.get(top));
        let Some(mut pointer) = top.copied() else { return Ok(BEYOND) };
        for levels in (1..=above).rev() {
            let parent = At { level: at.level + levels, block: up(levels) };
            let child = index(levels - 1);
            if let Some(found) = self.pointer_above(parent, child) {
                pointer = found?;
                continue;
            }
            if pointer.is_hole() {
                return Ok((pointer, parent.level));
            }
            let Some(bytes) = self.0.context.blocks.cached(&pointer) else {
                return Err(Blocked::Need(self.need(parent, pointer)));
            };
            let block = Block { bytes, endian: pointer.endian() };
            pointer = self.pointer_in(&block, child)?;
            if parent.level == 1 {
                self.0.dbufs.borrow_mut().set_last(parent, block);
            }
        }
        Ok((pointer, at.level))
    }

    /// Whether a block is a hole, and the first number after it at which that may be otherwise.
    fn kind_of(&self, phys: &DnodePhys, number: u64) -> Step<(bool, Option<u64>)> {
        let (content, other, hole_end) = {
            let dbufs = self.0.dbufs.borrow();
            let at = At::data(number);
            (dbufs.get(at), dbufs.next_after(number), dbufs.hole_end(number))
        };
        let content = content.filter(|_| !planted::is(Bug::DirtyTakenForHole));
        match content {
            Some(Content::Block(_)) => return Ok((false, number.checked_add(1))),
            Some(Content::Hole) => return Ok((true, Some(hole_end).filter(|end| *end > number))),
            None => {}
        }
        let (pointer, level) = self.walk(phys, At::data(number))?;
        let covers = phys.blocks_below(level.saturating_add(1)).max(1);
        let next = (number / covers).checked_add(1).and_then(|next| next.checked_mul(covers));
        Ok((pointer.is_hole(), [next, other].into_iter().flatten().min()))
    }

    fn need(&self, at: At, pointer: BlockPointer) -> Need {
        Need::new(Rc::clone(&self.0) as Rc<dyn Holds>, at, pointer)
    }

    /// A block that is in memory; nothing where it is a hole.
    fn resident_at(&self, at: At) -> Step<Option<Block>> {
        let pointer = match self.place(at)? {
            Place::Block(block) => return Ok(Some(block)),
            Place::Hole => return Ok(None),
            Place::Pointer(pointer) if pointer.is_hole() => return Ok(None),
            Place::Pointer(pointer) => pointer,
        };
        let Some(bytes) = self.0.context.blocks.cached(&pointer) else {
            return Err(Blocked::Need(self.need(at, pointer)));
        };
        self.0.check_length(at, bytes.len())?;
        Ok(Some(Block { bytes, endian: pointer.endian() }))
    }

    /// A data block that is in memory: zeros for a hole, and beyond the last.
    ///
    /// # Errors
    /// It, or an indirect block on the way, is not in memory.
    pub fn resident(&self, number: u64) -> Step<Block> {
        Ok(self.resident_at(At::data(number))?.unwrap_or_else(|| self.zeros()))
    }

    /// Whether a data block is a hole, as far as that is in memory.
    ///
    /// # Errors
    /// It, or an indirect block on the way, is not in memory.
    pub fn is_hole(&self, number: u64) -> Step<bool> {
        Ok(self.resident_at(At::data(number))?.is_none())
    }

    /// The continuation of its bonus, if it has one and that is in memory.
    ///
    /// # Errors
    /// It is not in memory.
    pub fn resident_spill(&self) -> Step<Option<Block>> {
        self.resident_at(At::SPILL)
    }
}

impl Inner {
    fn wrong(&self, error: FormatError) -> ZfsError {
        ZfsError::Format { objset: self.context.objset, object: self.number, error }
    }

    fn bookmark(&self, level: i64, block: u64) -> Bookmark {
        Bookmark { objset: self.context.objset, object: self.number, level, block }
    }

    fn request(&self, pointer: BlockPointer, at: At) -> BlockRequest {
        let at = match at {
            // How OpenZFS numbers it: level 0, and a block number that no block has.
            At::SPILL => self.bookmark(0, u64::MAX),
            At { level, block } => self.bookmark(level.into(), block),
        };
        let mut request = BlockRequest::new(pointer, at).with_key(self.context.key.clone());
        request.once = !self.context.caching.get().keeps(&request.pointer);
        request
    }

    /// A block of another length than the dnode says would put all that follows it at another place.
    fn check_length(&self, at: At, found: usize) -> Result<(), ZfsError> {
        if at.level != 0 || found as u64 == self.phys.borrow().data_block_bytes() {
            return Ok(());
        }
        let (structure, field) = (BlockPointer::NAME, "logical size");
        let problem = zfs_format::Problem::Value(found as u64);
        Err(self.wrong(FormatError { structure, field, offset: 0, problem }))
    }
}

impl Holds for Inner {
    fn fetch(&self, at: At, pointer: BlockPointer) -> Fetch<'_> {
        let request = self.request(pointer, at);
        let trees = self.dbufs.borrow().trees();
        Box::pin(async move {
            let read = self.context.blocks.read(request).await;
            let mut dbufs = self.dbufs.borrow_mut();
            // The pointer is of a tree that is no more: the block may be of before a change that is in the pool by now, and
            // where its place is used again it can't be read.
            if dbufs.trees() != trees {
                return Ok(false);
            }
            let bytes = read?;
            self.check_length(at, bytes.len())?;
            Ok(dbufs.hold(at, Block { bytes, endian: pointer.endian() }))
        })
    }

    fn release(&self, at: At) {
        self.dbufs.borrow_mut().release(at);
    }
}
