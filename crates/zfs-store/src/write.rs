//! From a block to its pointer: what is to be stored of it, places, all copies.
//!
//! ```text
//!   transform   compressed, encrypted, summed: a hole, embedded in the pointer, or bytes of the physical size
//!   allocate    a place for each copy, on different vdevs
//!   write       all copies, side by side
//!   pointer     places, births, fill
//! ```
//!
//! **Passes.** A transaction group is synced in passes, since what it writes changes the objects that say what is
//! allocated. A block that a later pass changes again is [rewritten](WriteBlocks::rewrite) in its place: nobody but this group
//! knows it. So the passes converge, as long as what is stored keeps its length, which is for who compresses to see to.
//!
//! **Holes** say when they were punched, in pools that want to know (`hole_birth`); one that was never anything says nothing.
//!
//! **A write that fails** gives its places back. It fails if one copy does: which of the others are whole the pointer
//! couldn't say. What a leaf misses of a vdev that bears it is in its DTL (`vdev/write`).
//!
//! **Embedded data** and holes take no space, and are freed by forgetting them.
//!
//! What it doesn't do yet: gangs, where no stretch is long enough, and freeing such as there are; deduplication; freeing what
//! lay on a removed vdev.
//!
//! Source: OpenZFS, `zio.c` (`zio_write_compress`, `zio_dva_allocate`, `zio_rewrite`), `metaslab.c`.

use crate::alloc::{Allocator, Dvas};
use crate::block::{
    Bookmark, WriteBlockError, WriteBlockErrorKind, WriteBlocks, WriteFuture, WriteRequest,
};
use crate::transform::{self, Stored};
use crate::vdev::{IoClass, Tree, WriteAt};
use futures_util::future::join_all;
use rt::{Buf, Rt};
use std::cell::RefCell;
use std::rc::Rc;
use zfs_format::block_pointer::{BlockPointer, Dva, Kind, Protection};

/// Writes blocks to the vdevs of a pool. Clones are handles of the same.
#[derive(Clone)]
pub struct Writer(Rc<Inner>);

struct Inner {
    rt: Rt,
    tree: Rc<Tree>,
    allocator: Rc<RefCell<Allocator>>,
    hole_births: bool,
}

impl Writer {
    /// Writes to these vdevs, where there is room. `hole_births` says whether holes tell when they were punched.
    pub fn new(
        rt: &Rt,
        tree: Rc<Tree>,
        allocator: Rc<RefCell<Allocator>>,
        hole_births: bool,
    ) -> Writer {
        Writer(Rc::new(Inner { rt: rt.clone(), tree, allocator, hole_births }))
    }
}

impl WriteBlocks for Writer {
    fn write(&self, request: WriteRequest) -> WriteFuture {
        let inner = Rc::clone(&self.0);
        Box::pin(async move {
            let at = request.at;
            inner.write(request, false).await.map_err(|kind| WriteBlockError { at, kind })
        })
    }

    fn rewrite(&self, request: WriteRequest) -> WriteFuture {
        let (before, txg) = (&request.before, request.txg);
        let is_own = before.is_hole() || before.logical_birth() == txg;
        assert!(is_own, "what another group wrote is not written over");
        let inner = Rc::clone(&self.0);
        Box::pin(async move {
            let at = request.at;
            inner.write(request, true).await.map_err(|kind| WriteBlockError { at, kind })
        })
    }

    fn free(&self, txg: u64, at: Bookmark, pointer: &BlockPointer) -> Result<(), WriteBlockError> {
        self.0.free(txg, pointer).map_err(|kind| WriteBlockError { at, kind })
    }
}

impl Inner {
    async fn write(
        &self,
        request: WriteRequest,
        again: bool,
    ) -> Result<BlockPointer, WriteBlockErrorKind> {
        let WriteRequest { block, props, txg, copies, class, fill, before, io, .. } = request;
        let (logical, object_type, level) = (block.len() as u64, props.object_type, props.level);
        assert!(txg > 0, "a block is born in a group");
        let (mut pointer, bytes) = match transform::store(&self.rt, props, block).await? {
            Stored::Bytes(pointer, bytes) => (pointer, bytes),
            none => {
                let mut pointer = match none {
                    Stored::Embedded(pointer) => pointer,
                    _ => BlockPointer::HOLE,
                };
                let was_something = !before.is_hole() || before.logical_birth() > 0;
                if pointer.is_embedded() || self.hole_births && was_something {
                    if pointer.is_hole() {
                        pointer.set_sizes(logical, 512);
                        pointer.set_object_type(object_type);
                        pointer.set_level(level);
                    }
                    pointer.set_births(txg, txg);
                }
                if again {
                    self.free(txg, &before)?;
                }
                return Ok(pointer);
            }
        };
        let encrypted = pointer.protection() == Protection::Encrypted;
        assert!(!encrypted || copies < 3, "the third place of an encrypted pointer is its salt");
        let size = bytes.len() as u64;
        assert_eq!(pointer.physical_size(), size, "a pointer says how long what is stored is");
        let in_place = again
            && before.kind() == Kind::Block
            && before.physical_size() == size
            && before.dvas().count() == copies;
        let places: Dvas = if in_place {
            before.dvas().collect()
        } else {
            let size_on = |vdev| self.tree.allocated_on(vdev, size, txg);
            self.allocator.borrow_mut().allocate(txg, class, copies, size_on)?
        };
        if let Err(error) = self.write_copies(&places, txg, io, &bytes).await {
            if !in_place {
                let mut allocator = self.allocator.borrow_mut();
                places.iter().for_each(|dva| allocator.cancel(txg, *dva));
            }
            return Err(error);
        }
        for (copy, dva) in places.iter().enumerate() {
            pointer.set_dva(copy, *dva);
        }
        pointer.set_births(txg, txg);
        pointer.set_fill(fill);
        if again && !in_place {
            self.free(txg, &before)?;
        }
        assert_eq!(pointer.check(), Ok(()), "what is written can be followed");
        Ok(pointer)
    }

    async fn write_copies(
        &self,
        places: &[Dva],
        txg: u64,
        class: IoClass,
        bytes: &Buf,
    ) -> Result<(), WriteBlockErrorKind> {
        let written = places.iter().map(|dva| {
            let write = WriteAt { dva: *dva, txg, class };
            async move { self.tree.write(&write, bytes.clone()).await }
        });
        // All of them are awaited: a place is given back only when nothing writes to it any more.
        join_all(written).await.into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }

    fn free(&self, txg: u64, pointer: &BlockPointer) -> Result<(), WriteBlockErrorKind> {
        match pointer.kind() {
            Kind::Hole | Kind::Embedded | Kind::Redacted => return Ok(()),
            Kind::Gang => return Err(WriteBlockErrorKind::Unsupported("gangs")),
            Kind::Block if pointer.is_dedup() => {
                return Err(WriteBlockErrorKind::Unsupported("deduplicated blocks"));
            }
            Kind::Block => {}
        }
        let mut allocator = self.allocator.borrow_mut();
        if pointer.dvas().any(|dva| !allocator.has(dva.vdev())) {
            return Err(WriteBlockErrorKind::Unsupported("what lay on a removed vdev"));
        }
        let wrong = pointer.dvas().find(|dva| !allocator.is_in_use(*dva));
        if let Some(dva) = wrong {
            return Err(crate::alloc::NotAllocated(dva).into());
        }
        for dva in pointer.dvas() {
            allocator.free(txg, dva)?;
        }
        Ok(())
    }
}
