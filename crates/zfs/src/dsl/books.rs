//! The books of a dataset: what its blocks take, and which of them die or go onto its deadlist.
//!
//! A block that is replaced dies at once if it was born after the newest snapshot; nobody else reaches it. Else a snapshot does,
//! and the block goes onto the dataset's deadlist, by its birth.
//!
//! While an objset is written the books are kept in memory; [`DatasetBooks::settle`] puts the sums into the dataset, its
//! directory, and all directories above; and the dataset uses the [features](super::features) that its new blocks ask for.
//!
//! Source: OpenZFS, `dsl_dataset.c` (`dsl_dataset_block_born`, `dsl_dataset_block_kill`), `dsl_dir.c` (`dsl_dir_diduse_space`),
//! `dsl_deadlist.c`.

use super::bookmarks::Marked;
use super::bpobj::Sums;
use super::deadlist::Deadlist;
use super::features::Asked;
use super::livelist::Pending;
use super::make::Maker;
use super::space::{Part, beyond, kept_for_head};
use crate::dmu::{Books, Dnode};
use crate::error::ZfsError;
use std::cell::{Cell, RefCell};
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::DslDir;
use zfs_store::Writer;

/// The books of a dataset while its objset is written.
pub struct DatasetBooks {
    writer: Writer,
    /// Blocks born up to it are reached by a snapshot.
    snapshot_txg: u64,
    /// What it reaches.
    referenced: Cell<Sums>,
    /// What only it reaches.
    unique: Cell<Sums>,
    dead: RefCell<Vec<BlockPointer>>,
    /// Features that blocks that were born ask for.
    asked: Cell<Asked>,
    /// What a clone's livelist is to be told.
    livelist: RefCell<Option<Pending>>,
    /// What its bookmarks are to be told.
    marked: RefCell<Marked>,
}

impl DatasetBooks {
    /// Empty books of a dataset. Of its livelist, where it has one, another list is begun after so many allocations.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn open(
        maker: &Maker<'_>,
        writer: Writer,
        dataset: &Dnode,
        allocations_max: u64,
    ) -> Result<DatasetBooks, ZfsError> {
        let head = maker.bonus::<DslDataset>(dataset)?;
        let (referenced, unique, dead, asked) = Default::default();
        let snapshot_txg = head.previous_snapshot_txg;
        let livelist = RefCell::new(maker.pending_of(head.dir, allocations_max).await?);
        let marked = RefCell::new(maker.marked_of(dataset, &head).await?);
        Ok(DatasetBooks { writer, snapshot_txg, referenced, unique, dead, asked, livelist, marked })
    }

    fn count(&self, pointer: &BlockPointer, sign: i64, is_unique: bool) {
        let sums = Sums::of(self.writer.tree(), pointer);
        for (book, counts) in [(&self.referenced, true), (&self.unique, is_unique)] {
            if counts {
                let mut book_sums = book.get();
                book_sums.add(sums, sign);
                book.set(book_sums);
            }
        }
    }

    /// Puts the sums into the dataset and the directories above it, and the dead onto its deadlist; the dataset's pointer is
    /// this from here on.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn settle(
        &self,
        maker: &Maker<'_>,
        dataset: &Dnode,
        pointer: BlockPointer,
    ) -> Result<(), ZfsError> {
        let (referenced, unique) = (self.referenced.take(), self.unique.take());
        maker
            .edit::<DslDataset>(dataset, |head| {
                head.pointer = pointer;
                add(&mut head.referenced_bytes, referenced.used);
                add(&mut head.compressed_bytes, referenced.compressed);
                add(&mut head.uncompressed_bytes, referenced.uncompressed);
                add(&mut head.unique_bytes, unique.used);
            })
            .await?;
        maker.use_features(dataset, self.asked.take().names()).await?;
        let head = maker.bonus::<DslDataset>(dataset)?;
        let dead = self.dead.take();
        let mut kept = 0;
        if !dead.is_empty() {
            kept = self.bury(maker, dataset.number(), &head, &dead).await?;
        }
        let directory = maker.mos.dnode(head.dir).await?;
        let reserved = kept_for_head(maker.mos, &maker.bonus::<DslDir>(&directory)?).await?;
        // What only it reaches may have been kept free for it.
        let before = head.unique_bytes.wrapping_sub_signed(unique.used);
        let taken = beyond(before, unique.used, reserved);
        // What the head gave up and a snapshot keeps changes its part only.
        let parts = [
            (Part::Head, unique.used.wrapping_sub(kept)),
            (Part::Snapshots, kept),
            (Part::KeptForHead, taken.wrapping_sub(unique.used)),
        ];
        maker.did_use_parts(&directory, Sums { used: taken, ..unique }, &parts).await?;
        let marked = self.marked.take();
        maker.settle_bookmarks(dataset, marked).await?;
        let pending = self.livelist.take();
        match pending {
            Some(pending) => maker.settle_livelist(&head, pending, self.writer.tree()).await,
            None => Ok(()),
        }
    }

    /// Puts blocks onto the deadlist; says how many bytes of them are the directory's snapshots' from here on.
    async fn bury(
        &self,
        maker: &Maker<'_>,
        dataset: u64,
        head: &DslDataset,
        dead: &[BlockPointer],
    ) -> Result<i64, ZfsError> {
        let mut deadlist = Deadlist::open(maker, head.deadlist).await?;
        deadlist.insert(dead, self.writer.tree()).await?;
        self.keep_for_snapshot(maker, dataset, head, dead).await?;
        // What is as old as a clone's origin is counted where that is.
        let directory = maker.bonus::<DslDir>(&maker.mos.dnode(head.dir).await?)?;
        let origin = match directory.origin {
            0 => 0,
            origin => maker.bonus::<DslDataset>(&maker.mos.dnode(origin).await?)?.creation_txg,
        };
        let own = dead.iter().filter(|pointer| pointer.logical_birth() > origin);
        Ok(own.map(|pointer| Sums::of(self.writer.tree(), pointer).used).sum())
    }

    /// What only the newest snapshot reaches from here on is its own.
    async fn keep_for_snapshot(
        &self,
        maker: &Maker<'_>,
        dataset: u64,
        head: &DslDataset,
        dead: &[BlockPointer],
    ) -> Result<(), ZfsError> {
        if head.previous_snapshot == 0 || planted::nth(Bug::UniqueForgotten, 3) {
            return Ok(());
        }
        let snapshot = maker.mos.dnode(head.previous_snapshot).await?;
        let before = maker.bonus::<DslDataset>(&snapshot)?;
        // A clone's origin is others' too.
        if before.next_snapshot != dataset {
            return Ok(());
        }
        let own = dead.iter().filter(|p| p.logical_birth() > before.previous_snapshot_txg);
        let used: i64 = own.map(|p| Sums::of(self.writer.tree(), p).used).sum();
        maker.edit::<DslDataset>(&snapshot, |before| add(&mut before.unique_bytes, used)).await
    }
}

fn add(to: &mut u64, change: i64) {
    *to = to.wrapping_add_signed(change);
}

impl Books for DatasetBooks {
    fn born(&self, pointer: &BlockPointer) {
        self.asked.set(self.asked.get().and(pointer));
        if let Some(pending) = &mut *self.livelist.borrow_mut() {
            pending.born(pointer);
        }
        self.count(pointer, 1, true);
    }

    fn killed(&self, pointer: &BlockPointer) {
        let birth = pointer.logical_birth();
        let is_freed_too = planted::is(Bug::SnapshotFreed) && birth == self.snapshot_txg;
        let is_own = birth > self.snapshot_txg || is_freed_too;
        self.count(pointer, -1, is_own);
        if let Some(pending) = &mut *self.livelist.borrow_mut() {
            pending.killed(pointer);
        }
        self.marked.borrow_mut().killed(pointer, self.writer.tree());
        match is_own {
            true => self.writer.free(pointer),
            false => self.dead.borrow_mut().push(*pointer),
        }
    }

    fn large_dnode(&self) {
        self.asked.set(self.asked.get().and_large_dnode());
    }
}
