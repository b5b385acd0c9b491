//! Making files shorter and longer, and holes.
//!
//! A file gets shorter in two steps: the new size is stored, then the blocks beyond it are taken away, in
//! as many transactions as it takes. A crash in between leaves blocks beyond the end, which readers
//! never see and the next truncation takes.
//!
//! When a file grows past an end in the middle of a block, the rest of that block is zeroed first: the
//! device may hold older bytes of the file there.

use crate::cache::Backing;
use crate::core::{Core, Outcome};
use crate::inode::{Inode, Kind};
use crate::layout::Extent;
use rt::SgList;
use std::ops::Range;
use std::rc::Rc;

impl Core {
    /// Sets the size. The caller holds `rw` alone.
    pub(crate) async fn set_size(self: &Rc<Self>, inode: &Rc<Inode>, size: u64) -> Outcome<()> {
        self.begin().await?;
        let old = inode.size();
        if size >= old {
            if size > old {
                self.zero_tail(inode).await?;
            }
            let block = self.inode_block(inode.number).await?;
            {
                let mut body = inode.body.borrow_mut();
                body.size = size;
                body.stored_size = size;
                body.changed = self.clock();
            }
            self.store(&self.tx(), inode, &block);
            return Ok(());
        }
        let whole = size.div_ceil(self.shape.block);
        {
            let _turn = inode.write_back.lock().await;
            let _io = inode.io.write().await;
            let block = self.inode_block(inode.number).await?;
            self.drop_pages(inode, whole..u64::MAX);
            {
                let mut body = inode.body.borrow_mut();
                body.size = size;
                body.stored_size = size;
                body.changed = self.clock();
            }
            self.trim_page(inode, size);
            self.store(&self.tx(), inode, &block);
            self.unmap(inode, whole, u64::MAX).await?;
        }
        Ok(())
    }

    /// Zeros what a page in memory has beyond the end.
    fn trim_page(&self, inode: &Inode, size: u64) {
        let (index, kept) = (size / self.shape.block, (size % self.shape.block) as usize);
        let Some(&key) = inode.body.borrow().pages.get(&index) else { return };
        self.pages.borrow_mut().change(key, |page| {
            let mut data = page.data.slice(0..kept);
            data.append(SgList::zeros(self.shape.block as usize - kept));
            page.data = data;
        });
    }

    /// Makes the block in which the file ends zero from there on, before the file grows past it.
    pub(crate) async fn zero_tail(self: &Rc<Self>, inode: &Rc<Inode>) -> Outcome<()> {
        let size = inode.size();
        if size.is_multiple_of(self.shape.block) {
            return Ok(());
        }
        // In memory it is zero already; dirty, it becomes so on the device.
        let index = size / self.shape.block;
        let page = self.page(inode, index, index + 1).await?;
        let backing = self.back_page(inode, index).await?;
        self.put_dirty(inode, index, page, backing);
        Ok(())
    }

    /// Throws pages away, dirty ones too, with what was granted or reserved for them. The caller holds
    /// `write_back` and `io` alone.
    pub(crate) fn drop_pages(&self, inode: &Inode, range: Range<u64>) {
        let mut body = inode.body.borrow_mut();
        body.invalidations += 1;
        let keys: Vec<(u64, usize)> =
            body.pages.range(range.clone()).map(|(index, key)| (*index, *key)).collect();
        let mut cache = self.pages.borrow_mut();
        let mut space = self.space.borrow_mut();
        for (index, key) in keys {
            let page = cache.remove(key);
            assert!(!page.writing, "no write-back is under way under its lock");
            body.pages.remove(&index);
            body.dirty.remove(&index);
            if page.dirty && page.backing == Backing::Reserved {
                space.unreserve(1);
            }
        }
        if body.dirty.is_empty()
            && let Some(since) = body.dirty_since.take()
        {
            cache.dirty_inodes.remove(&(since, inode.number));
        }
        drop(body);
        for extent in take_pending(inode, range) {
            space.release(&self.shape, extent);
        }
    }

    /// Makes a hole. The caller holds `rw` alone.
    pub(crate) async fn punch(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        at: u64,
        len: u64,
    ) -> Outcome<()> {
        self.begin().await?;
        let end = (at + len).min(inode.size());
        if at >= end {
            return Ok(());
        }
        let block = self.shape.block;
        let (first, last) = (at.div_ceil(block), end / block);
        if first > last {
            return self.write_pages(inode, at, SgList::zeros((end - at) as usize)).await;
        }
        for (from, to) in [(at, first * block), (last * block, end)] {
            if from < to {
                self.write_pages(inode, from, SgList::zeros((to - from) as usize)).await?;
            }
        }
        if first < last {
            let _turn = inode.write_back.lock().await;
            let _io = inode.io.write().await;
            self.drop_pages(inode, first..last);
            self.unmap(inode, first, last).await?;
        }
        // What was dirty there will not be written, so the size does not follow it.
        self.store_size(inode, end).await?;
        self.note_change(inode);
        Ok(())
    }

    /// Frees an inode that has neither name nor handle.
    pub(crate) async fn reclaim(self: &Rc<Self>, inode: &Rc<Inode>) -> Outcome<()> {
        if inode.going.replace(true) {
            return Ok(());
        }
        self.begin().await?;
        let _turn = inode.write_back.lock().await;
        let _io = inode.io.write().await;
        self.drop_pages(inode, 0..u64::MAX);
        self.space.borrow_mut().drop_window(&self.shape, inode.number);
        self.unmap(inode, 0, u64::MAX).await?;
        let tables: Vec<u64> =
            std::mem::take(&mut inode.body.borrow_mut().pending_indirect).into_values().collect();
        for start in tables {
            let extent = Extent { start, len: 1 };
            self.space.borrow_mut().release(&self.shape, extent);
        }
        self.begin().await?;
        let grant = self.inode_release(inode.number).await?;
        let tx = self.tx();
        self.erase(&tx, inode, &grant.block);
        self.inodes.set_orphan(&tx, inode.number, false);
        self.inodes.remove(inode.number);
        self.free_inode(&tx, &grant, inode.kind == Kind::Directory);
        Ok(())
    }
}

/// Takes what is granted and not yet written in a range of the file.
pub(crate) fn take_pending(inode: &Inode, range: Range<u64>) -> Vec<Extent> {
    let mut body = inode.body.borrow_mut();
    let begins = body.pending.range(..range.start).next_back();
    let begins = begins.filter(|(first, extent)| *first + extent.len > range.start);
    let from = begins.map_or(range.start, |(first, _)| *first);
    let found: Vec<(u64, Extent)> =
        body.pending.range(from..range.end).map(|(first, extent)| (*first, *extent)).collect();
    let mut taken = Vec::with_capacity(found.len());
    for (first, extent) in found {
        body.pending.remove(&first);
        let cut_front = range.start.saturating_sub(first);
        let cut_back = (first + extent.len).saturating_sub(range.end);
        if cut_front > 0 {
            body.pending.insert(first, Extent { start: extent.start, len: cut_front });
        }
        if cut_back > 0 {
            let start = extent.end() - cut_back;
            body.pending.insert(range.end, Extent { start, len: cut_back });
        }
        let (start, len) = (extent.start + cut_front, extent.len - cut_front - cut_back);
        taken.push(Extent { start, len });
    }
    taken
}
