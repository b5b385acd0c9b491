//! Which block of the device holds which block of a file.
//!
//! Two forms, by [`Mapping`]: [`indirect`] blocks of pointers, and [`extents`]. Both answer the same
//! questions; what differs is how much metadata has to be read to answer them.
//!
//! Changes are made under the inode's `attach` lock, in pieces that stay within one region of the device
//! (one bitmap) and, with indirect blocks, within one block of pointers; so each step changes few blocks,
//! whatever the size of the whole. A crash between two steps leaves a file that is mapped in part.

pub(crate) mod extents;
pub(crate) mod indirect;
mod root;
mod run;

pub(crate) use root::{DIRECT, POINTERS, Root, file_blocks_max, pointed_blocks_max};
pub(crate) use run::{Run, What};

use crate::core::{Core, Outcome, Tx};
use crate::group::RegionHandle;
use crate::inode::{Inode, Kind};
use crate::layout::Extent;
use crate::meta::MetaRef;
use crate::settings::Mapping;
use std::rc::Rc;

/// Everything that is needed to map blocks, loaded.
pub(crate) struct AttachPlan {
    pub(crate) inode_block: MetaRef,
    /// Of the bitmap; none where blocks are only converted.
    region: Option<RegionHandle>,
    first: u64,
    extent: Extent,
    how: How,
}

enum How {
    Extents(extents::Plan),
    Indirect(indirect::Plan),
}

impl Core {
    /// What lies at `first` and alike behind it, `most` blocks at the most.
    pub(crate) async fn lookup(&self, inode: &Inode, first: u64, most: u64) -> Outcome<Run> {
        match self.settings.mapping {
            Mapping::Extents => {
                self.load_extents(inode).await?;
                let body = inode.body.borrow();
                let Root::Extents(list) = &body.root else { unreachable!("one form in a tree") };
                Ok(list.lookup(first, most))
            }
            Mapping::Indirect => self.lookup_indirect(inode, first, most).await,
        }
    }

    /// How many blocks from `first` on can be mapped in one step.
    fn step(&self, first: u64, len: u64) -> u64 {
        match self.settings.mapping {
            Mapping::Extents => len,
            Mapping::Indirect => indirect::step(self.shape.block / 4, first).min(len),
        }
    }

    /// Loads what is needed to map granted blocks. The `attach` lock is held.
    pub(crate) async fn plan_attach(
        &self,
        inode: &Inode,
        first: u64,
        extent: Extent,
        unwritten: bool,
    ) -> Outcome<AttachPlan> {
        let region = Some(self.region_handle(extent.start).await?);
        self.plan_mapping(inode, first, extent, unwritten, region).await
    }

    async fn plan_mapping(
        &self,
        inode: &Inode,
        first: u64,
        extent: Extent,
        unwritten: bool,
        region: Option<RegionHandle>,
    ) -> Outcome<AttachPlan> {
        let how = match self.settings.mapping {
            Mapping::Extents => {
                let new = Some((extent.start, unwritten));
                How::Extents(self.plan_extents(inode, first, extent.len, new).await?)
            }
            Mapping::Indirect => How::Indirect(self.plan_indirect(inode, first, extent).await?),
        };
        let inode_block = self.inode_block(inode.number).await?;
        Ok(AttachPlan { inode_block, region, first, extent, how })
    }

    /// Maps planned blocks; the caller stores the inode.
    pub(crate) fn apply_attach(&self, tx: &Tx<'_>, inode: &Inode, plan: &AttachPlan) {
        if let Some(region) = &plan.region {
            tx.mark_used(region, plan.extent);
            inode.body.borrow_mut().blocks += plan.extent.len;
        }
        match &plan.how {
            How::Extents(extents) => self.apply_extents(tx, inode, extents),
            How::Indirect(how) => self.apply_indirect(tx, inode, how, plan.first, plan.extent),
        }
    }

    /// Maps granted blocks, all of one region, and stores the inode; its stored size grows up to
    /// `size_limit`, as far as these blocks reach. Where it fails, the blocks are given back.
    pub(crate) async fn attach(
        &self,
        inode: &Inode,
        first: u64,
        extent: Extent,
        unwritten: bool,
        size_limit: u64,
    ) -> Outcome<()> {
        let mut done = 0;
        let attached = async {
            while done < extent.len {
                self.begin().await?;
                let _turn = inode.attach.lock().await;
                let at = first + done;
                let len = self.step(at, extent.len - done);
                let piece = Extent { start: extent.start + done, len };
                let plan = self.plan_attach(inode, at, piece, unwritten).await?;
                let tx = self.tx();
                self.apply_attach(&tx, inode, &plan);
                self.grow_stored(inode, (at + len) * self.shape.block, size_limit);
                self.store(&tx, inode, &plan.inode_block);
                done += len;
            }
            Ok(())
        };
        let attached = attached.await;
        if attached.is_err() && done < extent.len {
            let rest = Extent { start: extent.start + done, len: extent.len - done };
            self.space.borrow_mut().release(&self.shape, rest);
        }
        attached
    }

    /// What was unwritten is written now.
    pub(crate) async fn convert(
        &self,
        inode: &Inode,
        first: u64,
        extent: Extent,
        size_limit: u64,
    ) -> Outcome<()> {
        self.begin().await?;
        let _turn = inode.attach.lock().await;
        let plan = self.plan_mapping(inode, first, extent, false, None).await?;
        let tx = self.tx();
        self.apply_attach(&tx, inode, &plan);
        self.grow_stored(inode, (first + extent.len) * self.shape.block, size_limit);
        self.store(&tx, inode, &plan.inode_block);
        Ok(())
    }

    /// The stored size grows to what is on the device.
    pub(crate) fn grow_stored(&self, inode: &Inode, end: u64, limit: u64) {
        let mut body = inode.body.borrow_mut();
        body.stored_size = body.stored_size.max(end.min(limit));
    }

    /// Stores the size where data beyond the stored one is on the device up to `end`.
    pub(crate) async fn store_size(&self, inode: &Inode, end: u64) -> Outcome<()> {
        if inode.body.borrow().stored_size >= end {
            return Ok(());
        }
        let block = self.inode_block(inode.number).await?;
        self.grow_stored(inode, end, u64::MAX);
        self.store(&self.tx(), inode, &block);
        Ok(())
    }

    /// Takes the blocks away that a file has in `from..to`, from the end, and stores the inode.
    pub(crate) async fn unmap(&self, inode: &Rc<Inode>, from: u64, to: u64) -> Outcome<()> {
        let mut to = to;
        while to > from {
            self.begin().await?;
            let _turn = inode.attach.lock().await;
            to = match self.settings.mapping {
                Mapping::Extents => self.unmap_extents(inode, from, to).await?,
                Mapping::Indirect => self.unmap_indirect(inode, from, to).await?,
            };
        }
        if from == 0 && self.settings.mapping == Mapping::Extents {
            let _turn = inode.attach.lock().await;
            self.free_chain(inode).await?;
        }
        Ok(())
    }

    /// Whether the blocks of this inode are metadata, so that freeing them revokes them.
    fn holds_metadata(inode: &Inode) -> bool {
        inode.kind == Kind::Directory
    }
}
