//! Writing blocks: from bytes to a block pointer.
//!
//! ```text
//!   bytes ── transform: one job ──▶ what is stored ── allocator: places ── vdevs: all copies, side by side ──▶ pointer
//! ```
//!
//! The pointer that comes back is whole but for its fill, which only who knows the block's meaning can tell. What is zeros, or
//! small enough to stand in the pointer, takes no place.
//!
//! **Rewriting.** A block that was born in the same transaction group may be put where it is, if it has kept its length: nobody
//! but that group can refer to it. That is how the passes of a sync come to rest: no new place, so no change of a space map.
//!
//! **Durable** it is after [`Tree::flush`](crate::Tree::flush).
//!
//! What it doesn't do: gangs, when there is no room in one piece (that is an error here).
//!
//! Source: OpenZFS, `zio.c` (`zio_write_compress`, `zio_dva_allocate`).

use crate::alloc::{Allocator, Class};
use crate::error::BlockErrorKind;
use crate::slop::slop;
use crate::transform::{self, Props, Rounding, Salt, Stored};
use crate::vdev::{IoClass, Tree, WriteAt, WriteError};
use futures_util::future::join_all;
use rt::{Buf, Rt};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::block_pointer::{BlockPointer, Dva};
use zfs_format::compression::Compression;

/// Copies of a block at the most.
pub const COPIES_MAX: usize = 3;

/// Why a block was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteBlockError {
    /// There is no room.
    #[error("there is no space left in the pool")]
    NoSpace,
    /// The devices did not take it.
    #[error(transparent)]
    Device(#[from] WriteError),
    /// It can't be made what is to be stored.
    #[error(transparent)]
    Transform(#[from] BlockErrorKind),
}

/// A block that is to be written.
#[derive(Clone)]
pub struct WriteBlock {
    /// Its bytes.
    pub bytes: Buf,
    /// How it is stored.
    pub props: Props,
    /// How many copies.
    pub copies: usize,
    /// What it is, where there is a class for that.
    pub class: Class,
    /// The transaction group.
    pub txg: u64,
    /// Whose writing it is.
    pub io: IoClass,
    /// The pointer that it takes the place of, if it may be written there.
    pub rewrites: Option<BlockPointer>,
}

/// Writes blocks to the vdevs of a pool, and frees them.
#[derive(Clone)]
pub struct Writer(Rc<Shared>);

struct Shared {
    rt: Rt,
    tree: Rc<Tree>,
    allocator: RefCell<Allocator>,
    salt: Cell<Option<Salt>>,
}

impl Writer {
    /// Writes to these vdevs, into space of this allocator.
    pub fn new(rt: &Rt, tree: Rc<Tree>, allocator: Allocator, salt: Option<Salt>) -> Writer {
        let (allocator, salt) = (RefCell::new(allocator), Cell::new(salt));
        Writer(Rc::new(Shared { rt: rt.clone(), tree, allocator, salt }))
    }

    /// The vdevs.
    pub fn tree(&self) -> &Rc<Tree> {
        &self.0.tree
    }

    /// The executor.
    pub fn rt(&self) -> &Rt {
        &self.0.rt
    }

    /// The salt of salted checksums.
    pub fn salt(&self) -> Option<Salt> {
        self.0.salt.get()
    }

    /// Looks at the space, or changes it; nothing is waited for meanwhile.
    pub fn space<T>(&self, how: impl FnOnce(&mut Allocator) -> T) -> T {
        how(&mut self.0.allocator.borrow_mut())
    }

    /// How space is allocated on the vdevs that there are.
    pub fn rounding(&self) -> Rounding {
        let shifts = self.space(|space| {
            space.vdevs().filter_map(|vdev| self.0.tree.ashift(vdev)).collect::<Vec<_>>()
        });
        let least = shifts.iter().min().copied().unwrap_or(9);
        // Sectors are powers of two, so the smallest divides all.
        Rounding { least: 1 << least, unit: 1 << least }
    }

    /// Bytes that are free beyond the [slop](mod@crate::slop), which is kept for what no group can be committed without: metadata,
    /// deletions, and what is wrong with estimates of how much a change takes.
    pub fn unreserved(&self) -> u64 {
        let (size, free) = self.space(|space| space.sizes(Class::Normal));
        free.saturating_sub(slop(size, 0))
    }

    /// Writes a block. A hole comes back without a birth.
    ///
    /// # Errors
    /// There is no room, or a device does not take it; the space is free again then.
    pub async fn write(&self, block: WriteBlock) -> Result<BlockPointer, WriteBlockError> {
        let WriteBlock { bytes, props, copies, class, txg, io, rewrites } = block;
        assert!((1..=COPIES_MAX).contains(&copies), "{copies} copies");
        let stored = transform::store(&self.0.rt, props, bytes).await?;
        let (mut pointer, bytes) = match stored {
            Stored::Hole => return Ok(BlockPointer::HOLE),
            Stored::Embedded(mut pointer) => {
                pointer.set_logical_birth(txg);
                return Ok(pointer);
            }
            Stored::Bytes(pointer, bytes) => (pointer, bytes),
        };
        pointer.set_births(txg, txg);
        let size = bytes.len() as u64;
        let again = rewrites.filter(|old| {
            let is_older = old.logical_birth() + 1 == txg;
            (old.logical_birth() == txg || is_older && planted::nth(Bug::OlderRewritten, 5))
                && old.physical_size() == size
                && old.dvas().count() == copies
        });
        let places: Vec<Dva> = match again {
            Some(old) => old.dvas().collect(),
            None => self.allocate(txg, class, copies, size)?,
        };
        for (copy, dva) in places.iter().enumerate() {
            pointer.set_dva(copy, *dva);
        }
        let writes = places.iter().map(|dva| {
            self.0.tree.write_block(WriteAt { dva: *dva, txg, class: io }, bytes.clone())
        });
        for written in join_all(writes).await {
            written?;
        }
        Ok(pointer)
    }

    /// Takes a place for one copy of a block that is written later, by [`Writer::fill`]: a block of an intent log has to be
    /// known to the one before it. The pointer has place, sizes and births; the rest is the caller's.
    ///
    /// # Errors
    /// There is no room.
    pub fn reserve(
        &self,
        txg: u64,
        class: Class,
        size: u64,
    ) -> Result<BlockPointer, WriteBlockError> {
        let places = self.allocate(txg, class, 1, size)?;
        let mut pointer = BlockPointer::HOLE;
        pointer.set_sizes(size, size);
        pointer.set_compression(Compression::Off);
        pointer.set_endian(Endian::Little);
        pointer.set_dva(0, places[0]);
        pointer.set_births(txg, txg);
        Ok(pointer)
    }

    /// Writes what belongs in a place that was [reserved](Writer::reserve). Somebody waits for it.
    ///
    /// # Errors
    /// The device does not take it.
    pub async fn fill(
        &self,
        pointer: &BlockPointer,
        txg: u64,
        bytes: Buf,
    ) -> Result<(), WriteBlockError> {
        assert_eq!(bytes.len() as u64, pointer.physical_size(), "a block fills its place");
        let at = WriteAt { dva: pointer.dva(0), txg, class: IoClass::SyncWrite };
        Ok(self.0.tree.write(&at, bytes).await?)
    }

    fn allocate(
        &self,
        txg: u64,
        class: Class,
        copies: usize,
        size: u64,
    ) -> Result<Vec<Dva>, WriteBlockError> {
        let tree = &self.0.tree;
        let bytes = |vdev| tree.allocated_on(vdev, size, txg);
        let mut allocator = self.0.allocator.borrow_mut();
        // What has no vdev of its own class, or no room there, goes where everything goes.
        for class in class.instead() {
            if let Ok(places) = allocator.allocate(txg, *class, copies, bytes) {
                return Ok(places);
            }
        }
        Err(WriteBlockError::NoSpace)
    }

    /// Frees the places of a block.
    ///
    /// # Panics
    /// They are not allocated: who frees what a pool says asks [`Writer::holds`] before.
    pub fn free(&self, pointer: &BlockPointer) {
        let mut allocator = self.0.allocator.borrow_mut();
        pointer.dvas().for_each(|dva| allocator.free(&dva));
    }

    /// Takes the places of a block that a log leads to, and that no space map knows: whoever opens the pool after a crash
    /// claims them. Says whether they were free.
    pub fn claim(&self, txg: u64, pointer: &BlockPointer) -> bool {
        let mut allocator = self.0.allocator.borrow_mut();
        pointer.dvas().all(|dva| allocator.claim(txg, &dva))
    }

    /// Whether all places of a block are allocated.
    pub fn holds(&self, pointer: &BlockPointer) -> bool {
        let allocator = self.0.allocator.borrow();
        pointer.dvas().all(|dva| allocator.holds(&dva))
    }
}

impl Tree {
    /// [`Tree::write`] by value, so that several can be under way.
    async fn write_block(&self, at: WriteAt, bytes: Buf) -> Result<(), WriteError> {
        self.write(&at, bytes).await
    }
}
