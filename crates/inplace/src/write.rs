//! Writes.
//!
//! **Through the cache**, page by page: what is not overwritten of a page is read first, space is found
//! (by [`Allocation`]) and the page is dirty. A writer waits, and writes back itself, while too much is
//! dirty.
//!
//! **Direct** writes over blocks that are there go to the device as they are. Others are granted blocks,
//! written, and mapped when they are on the device; the rest of a block that is new is written as zeros.
//!
//! **Places** for a growing file: behind its last block; at the start of a file, near its inode; at the
//! start of a section, in another group.

use crate::cache::Backing;
use crate::core::{Core, Outcome};
use crate::inode::Inode;
use crate::layout::Extent;
use crate::mapping::What;
use crate::read::hold;
use crate::settings::{Allocation, Hold, Inodes, Mapping};
use crate::transfer::IN_FLIGHT_MAX;
use crate::truncate::take_pending;
use futures_util::{StreamExt, stream};
use rt::SgList;
use std::rc::Rc;
use stdx::{MIB, Offset};

/// A long buffered write looks at the limits each time it has written so much.
const LIMITS_EVERY: u64 = MIB;
/// The first reservation window, in blocks: ext3's figure.
const WINDOW_MIN: u64 = 8;
/// Zeros written in one go where space has to be filled with them.
const ZEROS_AT_ONCE: u64 = 8 * MIB;

/// A part of a direct write that goes to the device as one.
struct Part {
    first: u64,
    extent: Extent,
    kind: PartKind,
    /// Where it begins in the first block.
    within: u64,
    data: SgList,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PartKind {
    /// Over blocks that are written.
    Over,
    /// Over blocks that are the file's and were never written.
    Convert,
    /// On blocks that were just granted, and are pending.
    New,
}

impl Core {
    /// Writes through the cache. `durable`: also to the device.
    pub(crate) async fn write_buffered(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        at: u64,
        data: SgList,
        durable: bool,
    ) -> Outcome<()> {
        self.charge_buffered_call().await;
        let len = data.len() as u64;
        {
            let _held = hold(&inode.rw, Hold::Alone).await;
            self.charge_copy(len).await;
            if at > inode.size() {
                self.zero_tail(inode).await?;
            }
            let mut done = 0;
            while done < len {
                let piece = (len - done).min(LIMITS_EVERY);
                self.begin().await?;
                self.wait_for_limits(inode).await?;
                let part = data.slice(done as usize..(done + piece) as usize);
                self.write_pages(inode, at + done, part).await?;
                done += piece;
            }
            self.note_change(inode);
            self.write_behind(inode, at, at + len);
        }
        if durable {
            let block = self.shape.block;
            self.write_back_range(inode, at / block..(at + len).div_ceil(block)).await?;
            self.make_durable(inode, true).await?;
        }
        Ok(())
    }

    /// Puts data in pages. The caller holds `rw` alone.
    pub(crate) async fn write_pages(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        at: u64,
        data: SgList,
    ) -> Outcome<()> {
        let block = self.shape.block;
        let end = at + data.len() as u64;
        let mut cursor = at;
        while cursor < end {
            let index = cursor / block;
            let (start, stop) = (index * block, (index + 1) * block);
            let to = end.min(stop);
            let part = data.slice((cursor - at) as usize..(to - at) as usize);
            let page = if part.len() as u64 == block {
                part
            } else {
                let old = if start >= inode.size() {
                    SgList::zeros(block as usize)
                } else {
                    self.page(inode, index, index + 1).await?
                };
                let mut page = old.slice(0..(cursor - start) as usize);
                page.append(part);
                page.append(old.slice((to - start) as usize..block as usize));
                page
            };
            let backing = self.back_page(inode, index).await?;
            self.put_dirty(inode, index, page, backing);
            grow(inode, to);
            cursor = to;
        }
        Ok(())
    }

    /// Finds space for a page, where it has none.
    pub(crate) async fn back_page(&self, inode: &Inode, index: u64) -> Outcome<Backing> {
        let known = {
            let body = inode.body.borrow();
            let page = body.pages.get(&index).map(|key| {
                let cache = self.pages.borrow();
                let page = cache.get(*key);
                // A page that is being written has got its place, or is about to.
                let settled = page.dirty || page.writing;
                if settled { page.backing } else { Backing::Unknown }
            });
            page.unwrap_or(Backing::Unknown)
        };
        if known != Backing::Unknown {
            return Ok(known);
        }
        if self.lookup(inode, index, 1).await?.what != What::Hole {
            return Ok(Backing::Mapped);
        }
        if pending_at(inode, index).is_some() {
            return Ok(Backing::Pending);
        }
        self.reserve(1, false).await?;
        if self.settings.allocation == Allocation::AtWriteBack {
            return Ok(Backing::Reserved);
        }
        let granted = self.grant_for(inode, index).await;
        let extent = granted.inspect_err(|_| self.space.borrow_mut().unreserve(1))?;
        self.add_pending(inode, index, extent);
        Ok(Backing::Pending)
    }

    /// Grants a reserved block for the next page of a file, and blocks for the tables before it.
    async fn grant_for(&self, inode: &Inode, index: u64) -> Outcome<Extent> {
        let mut goal = self.goal(inode, index).await?;
        if self.settings.mapping == Mapping::Indirect {
            for key in self.missing_tables(inode, index).await? {
                if inode.body.borrow().pending_indirect.contains_key(&key) {
                    continue;
                }
                self.reserve(1, false).await?;
                let granted = self.grant_windowed(inode, goal).await;
                let table = granted.inspect_err(|_| self.space.borrow_mut().unreserve(1))?;
                let replaced = inode.body.borrow_mut().pending_indirect.insert(key, table.start);
                if let Some(start) = replaced {
                    self.space.borrow_mut().release(&self.shape, Extent { start, len: 1 });
                }
                goal = table.end();
            }
        }
        self.grant_windowed(inode, goal).await
    }

    async fn grant_windowed(&self, inode: &Inode, goal: u64) -> Outcome<Extent> {
        let most = self.settings.reservation_max.bytes() / self.shape.block;
        let window = inode.body.borrow().window.max(WINDOW_MIN).min(most);
        let (extent, new) = self.grant_next(inode.number, goal, window).await?;
        if new {
            inode.body.borrow_mut().window = (2 * window).min(most);
        }
        Ok(extent)
    }

    pub(crate) fn add_pending(&self, inode: &Inode, first: u64, extent: Extent) {
        let mut body = inode.body.borrow_mut();
        if let Some((start, last)) = body.pending.range_mut(..first).next_back()
            && start + last.len == first
            && last.end() == extent.start
            && self.shape.region_of(last.start) == self.shape.region_of(extent.start)
        {
            last.len += extent.len;
            return;
        }
        body.pending.insert(first, extent);
    }

    /// Where the block of a file would best lie.
    pub(crate) async fn goal(&self, inode: &Inode, index: u64) -> Outcome<u64> {
        let section = self.settings.section.bytes() / self.shape.block;
        let before = match index.checked_sub(1) {
            None => None,
            Some(before) => match pending_at(inode, before) {
                Some(block) => Some(block + 1),
                None => match self.lookup(inode, before, 1).await?.what {
                    What::At(block) | What::Unwritten(block) => Some(block + 1),
                    What::Hole => None,
                },
            },
        };
        let home = inode.number / self.shape.inodes_per_block();
        if section > 0 && index > 0 && index.is_multiple_of(section) {
            let here = self.shape.region_of(before.unwrap_or(home)).unwrap_or(0);
            let group = self.shape.group_of_region(here);
            return Ok(self.space.borrow().section_goal(&self.shape, group));
        }
        Ok(before.unwrap_or_else(|| match self.settings.inodes {
            Inodes::Chunks => home,
            Inodes::Tables { .. } => {
                let region = self.shape.region_of(home).unwrap_or(0);
                let group = self.shape.group_of_region(region);
                self.shape.group_start(group) + self.shape.group_metadata()
            }
        }))
    }

    /// Writes past the cache. `durable`: so that a power cut can't take it away.
    pub(crate) async fn write_direct(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        at: u64,
        data: SgList,
        durable: bool,
    ) -> Outcome<()> {
        let end = at + data.len() as u64;
        self.begin().await?;
        'shared: {
            if self.is_overwrite(inode, at, end).await? {
                let _held = hold(&inode.rw, self.options.locks.direct_overwrites).await;
                // It may have been cut while we waited.
                if !self.is_overwrite(inode, at, end).await? {
                    break 'shared;
                }
                self.write_parts(inode, at, data).await?;
                self.note_change(inode);
                return self.after_direct(inode, durable).await;
            }
        }
        {
            let _held = hold(&inode.rw, Hold::Alone).await;
            if at > inode.size() {
                self.zero_tail(inode).await?;
            }
            self.write_parts(inode, at, data).await?;
            grow(inode, end);
            self.store_size(inode, end).await?;
            self.note_change(inode);
        }
        self.after_direct(inode, durable).await
    }

    async fn after_direct(self: &Rc<Self>, inode: &Rc<Inode>, durable: bool) -> Outcome<()> {
        if durable { self.make_durable(inode, true).await } else { Ok(()) }
    }

    /// Whether a range lies within the file, on blocks that are written.
    async fn is_overwrite(&self, inode: &Inode, at: u64, end: u64) -> Outcome<bool> {
        if end > inode.size() {
            return Ok(false);
        }
        let block = self.shape.block;
        let (mut index, last) = (at / block, end.div_ceil(block));
        while index < last {
            let run = self.lookup(inode, index, last - index).await?;
            if !matches!(run.what, What::At(_)) {
                return Ok(false);
            }
            index += run.len;
        }
        Ok(true)
    }

    async fn write_parts(self: &Rc<Self>, inode: &Rc<Inode>, at: u64, data: SgList) -> Outcome<()> {
        let block = self.shape.block;
        let end = at + data.len() as u64;
        // The page in which the file ends may have been zeroed in memory, to grow past it.
        let pages = at.min(inode.size()) / block..end.div_ceil(block);
        self.write_back_range(inode, pages.clone()).await?;
        let _io = inode.io.read().await;
        self.forget_pages(inode, pages.clone());
        let parts = self.parts(inode, at, data).await?;
        let writes = parts.into_iter().map(|part| self.write_part(inode, part, end));
        let writes = stream::iter(writes).buffer_unordered(IN_FLIGHT_MAX);
        let written = writes.fold(Ok(()), async |so_far, write| so_far.and(write)).await;
        // A read that came between may have cached what was there before.
        self.forget_pages(inode, pages);
        written
    }

    /// Throws clean pages away, and makes reads under way not be cached.
    pub(crate) fn forget_pages(&self, inode: &Inode, range: std::ops::Range<u64>) {
        let mut body = inode.body.borrow_mut();
        if body.pages.is_empty() && body.fills.is_empty() {
            return;
        }
        body.invalidations += 1;
        let keys: Vec<(u64, usize)> =
            body.pages.range(range).map(|(index, key)| (*index, *key)).collect();
        let mut cache = self.pages.borrow_mut();
        for (index, key) in keys {
            let page = cache.get(key);
            if !page.dirty && !page.writing {
                cache.remove(key);
                body.pages.remove(&index);
            }
        }
    }

    /// Cuts a direct write into parts, and grants blocks to those that have none.
    async fn parts(&self, inode: &Inode, at: u64, data: SgList) -> Outcome<Vec<Part>> {
        let block = self.shape.block;
        let end = at + data.len() as u64;
        let mut parts: Vec<Part> = Vec::new();
        let mut cursor = at;
        while cursor < end {
            let (first, within) = (cursor / block, cursor % block);
            let found = self.part_at(inode, first, end.div_ceil(block) - first).await;
            let (kind, extent) = match found {
                Ok(found) => found,
                Err(error) => {
                    for part in parts.iter().filter(|part| part.kind == PartKind::New) {
                        for extent in take_pending(inode, part.first..part.first + part.extent.len)
                        {
                            self.space.borrow_mut().release(&self.shape, extent);
                        }
                    }
                    return Err(error);
                }
            };
            let to = end.min((first + extent.len) * block);
            let part = data.slice((cursor - at) as usize..(to - at) as usize);
            cursor = to;
            if kind == PartKind::Over {
                parts.push(Part { first, extent, kind, within, data: part });
                continue;
            }
            // New blocks are written whole.
            let mut whole = SgList::zeros(within as usize);
            whole.append(part);
            let rest = extent.len * block - whole.len() as u64;
            whole.append(SgList::zeros(rest as usize));
            parts.push(Part { first, extent, kind, within: 0, data: whole });
        }
        Ok(parts)
    }

    /// Where the next part of a direct write goes.
    async fn part_at(&self, inode: &Inode, first: u64, most: u64) -> Outcome<(PartKind, Extent)> {
        let run = self.lookup(inode, first, most).await?;
        match run.what {
            What::At(start) => Ok((PartKind::Over, Extent { start, len: run.len })),
            What::Unwritten(start) => Ok((PartKind::Convert, Extent { start, len: run.len })),
            What::Hole => {
                let extent = self.grant_run(inode, first, run.len).await?;
                inode.body.borrow_mut().pending.insert(first, extent);
                Ok((PartKind::New, extent))
            }
        }
    }

    /// Reserves and grants up to `blocks` blocks for a hole.
    pub(crate) async fn grant_run(
        &self,
        inode: &Inode,
        first: u64,
        blocks: u64,
    ) -> Outcome<Extent> {
        self.reserve(blocks, false).await?;
        let granted = match self.goal(inode, first).await {
            Ok(goal) => self.grant(goal, blocks).await,
            Err(error) => Err(error),
        };
        let used = granted.as_ref().map_or(0, |extent| extent.len);
        self.space.borrow_mut().unreserve(blocks - used);
        granted
    }

    async fn write_part(&self, inode: &Rc<Inode>, part: Part, size_limit: u64) -> Outcome<()> {
        let Part { first, extent, kind, within, data } = part;
        let at = Offset(extent.start * self.shape.block + within);
        let written = self.write_device(at, data, false).await;
        match kind {
            PartKind::Over => written,
            PartKind::Convert => {
                written?;
                self.convert(inode, first, extent, size_limit).await
            }
            PartKind::New => {
                take_pending(inode, first..first + extent.len);
                if let Err(error) = written {
                    self.space.borrow_mut().release(&self.shape, extent);
                    return Err(error);
                }
                self.attach(inode, first, extent, false, size_limit).await
            }
        }
    }

    /// Takes space up to `size`, and makes the file that long. What the space holds is zeros, or where it is to be `as_written`
    /// what lies there. The caller holds `rw` alone.
    pub(crate) async fn allocate(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        size: u64,
        as_written: bool,
    ) -> Outcome<()> {
        self.begin().await?;
        let block = self.shape.block;
        self.write_back_range(inode, 0..u64::MAX).await?;
        let end = size.div_ceil(block);
        let mut index = 0;
        while index < end {
            let run = self.lookup(inode, index, end - index).await?;
            if run.what != What::Hole {
                index += run.len;
                continue;
            }
            let most = run.len.min(self.shape.region_blocks);
            let extent = self.grant_run(inode, index, most).await?;
            if as_written || self.settings.mapping == Mapping::Extents {
                self.attach(inode, index, extent, !as_written, 0).await?;
            } else if let Err(error) = self.write_zeros(extent).await {
                self.space.borrow_mut().release(&self.shape, extent);
                return Err(error);
            } else {
                self.attach(inode, index, extent, false, 0).await?;
            }
            index += extent.len;
        }
        self.forget_pages(inode, 0..u64::MAX);
        if size > inode.size() {
            self.set_size(inode, size).await?;
        }
        Ok(())
    }

    async fn write_zeros(&self, extent: Extent) -> Outcome<()> {
        let at_once = (ZEROS_AT_ONCE / self.shape.block).max(1);
        let mut start = extent.start;
        while start < extent.end() {
            let len = at_once.min(extent.end() - start) * self.shape.block;
            let zeros = SgList::zeros(len as usize);
            self.write_device(self.shape.offset(start), zeros, false).await?;
            start += at_once;
        }
        Ok(())
    }
}

/// Readers see the file up to here.
fn grow(inode: &Inode, end: u64) {
    let mut body = inode.body.borrow_mut();
    body.size = body.size.max(end);
}

/// The block that is granted for a page and not yet written.
pub(crate) fn pending_at(inode: &Inode, index: u64) -> Option<u64> {
    let body = inode.body.borrow();
    let (first, extent) = body.pending.range(..=index).next_back()?;
    let within = index - first;
    (within < extent.len).then(|| extent.start + within)
}
