//! The page cache: data of files in memory, one page for each block.
//!
//! Pages and [metadata](crate::meta) share one budget, the mount's `cache`; what was not used for longest
//! goes first, whichever it is. (Linux keeps an active and an inactive list, Solaris a free list with a
//! scanner; a plain order of last use stands for both.) Dirty pages and those that are being written
//! stay; their number is bounded by the write-back limits.
//!
//! A page that repeats a word is held as that word, and counts as a page all the same.
//!
//! *Beyond the end* of the file a page in memory is always zero.

use crate::core::Core;
use crate::inode::Inode;
use crate::lru::Lru;
use rt::{Buf, SgList};
use std::collections::BTreeSet;
use stdx::{ByteCount, Instant};

/// Pages or blocks looked at for one to drop, before the budget is exceeded for now.
const LOOKED_AT_MAX: usize = 64;
/// Pieces of a page in memory at the most; more are copied into one.
const PIECES_MAX: usize = 4;

/// Where a page goes when it is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Nobody has asked; a clean page does not need it.
    Unknown,
    /// To blocks that the file has.
    Mapped,
    /// To blocks that are granted.
    Pending,
    /// To blocks that are reserved: one is counted for it.
    Reserved,
}

/// One page.
pub(crate) struct Page {
    pub(crate) inode: u64,
    pub(crate) index: u64,
    pub(crate) data: SgList,
    pub(crate) dirty: bool,
    pub(crate) writing: bool,
    pub(crate) backing: Backing,
}

/// See the [module](self).
pub(crate) struct PageCache {
    pages: Lru<Page>,
    blocks_max: u64,
    /// Pages that are dirty or being written.
    unclean: u64,
    pub(crate) dirty_max: u64,
    pub(crate) background_max: u64,
    /// Inodes with dirty pages, by the age of the oldest.
    pub(crate) dirty_inodes: BTreeSet<(Instant, u64)>,
}

impl PageCache {
    pub(crate) fn new(cache: ByteCount, block: u64, background: u8, limit: u8) -> PageCache {
        let blocks_max = cache.bytes() / block;
        PageCache {
            pages: Lru::default(),
            blocks_max,
            unclean: 0,
            dirty_max: (blocks_max * u64::from(limit) / 100).max(1),
            background_max: (blocks_max * u64::from(background) / 100).max(1),
            dirty_inodes: BTreeSet::new(),
        }
    }

    pub(crate) fn unclean(&self) -> u64 {
        self.unclean
    }

    pub(crate) fn get(&self, key: usize) -> &Page {
        self.pages.get(key)
    }

    pub(crate) fn remove(&mut self, key: usize) -> Page {
        let page = self.pages.remove(key);
        self.unclean -= u64::from(page.dirty || page.writing);
        page
    }

    /// Changes a page; keeps the count of unclean ones.
    pub(crate) fn change<T>(&mut self, key: usize, change: impl FnOnce(&mut Page) -> T) -> T {
        let page = self.pages.get_mut(key);
        let before = page.dirty || page.writing;
        let result = change(page);
        let after = page.dirty || page.writing;
        self.unclean = self.unclean + u64::from(after) - u64::from(before);
        result
    }
}

/// Data as a page holds it: its own memory, or words.
pub(crate) fn page_form(data: SgList) -> SgList {
    let words = data.pieces().iter().all(|piece| piece.fill_word().is_some());
    if words && data.pieces().len() <= PIECES_MAX {
        return data;
    }
    Buf::copy_of(data.into_contiguous().bytes()).into()
}

impl Core {
    /// The page's data, where it is in memory.
    pub(crate) fn cached_page(&self, inode: &Inode, index: u64) -> Option<SgList> {
        let key = *inode.body.borrow().pages.get(&index)?;
        let mut cache = self.pages.borrow_mut();
        cache.pages.touch(key, self.tick());
        Some(cache.pages.get(key).data.clone())
    }

    /// Puts a clean page in memory, unless it is there.
    pub(crate) fn insert_clean(&self, inode: &Inode, index: u64, data: SgList) {
        {
            let mut body = inode.body.borrow_mut();
            if body.pages.contains_key(&index) {
                return;
            }
            let page = Page {
                inode: inode.number,
                index,
                data: page_form(data),
                dirty: false,
                writing: false,
                backing: Backing::Unknown,
            };
            let key = self.pages.borrow_mut().pages.insert(page, self.tick());
            body.pages.insert(index, key);
        }
        self.shrink();
    }

    /// Puts new data in a page, which is dirty then.
    pub(crate) fn put_dirty(&self, inode: &Inode, index: u64, data: SgList, backing: Backing) {
        {
            let mut body = inode.body.borrow_mut();
            let mut cache = self.pages.borrow_mut();
            let data = page_form(data);
            if let Some(&key) = body.pages.get(&index) {
                cache.pages.touch(key, self.tick());
                cache.change(key, |page| {
                    page.data = data;
                    page.dirty = true;
                    page.backing = backing;
                });
            } else {
                let (number, dirty) = (inode.number, true);
                let page = Page { inode: number, index, data, dirty, writing: false, backing };
                let key = cache.pages.insert(page, self.tick());
                cache.unclean += 1;
                body.pages.insert(index, key);
            }
            body.dirty.insert(index);
            if body.dirty_since.is_none() {
                let now = self.rt.now();
                body.dirty_since = Some(now);
                cache.dirty_inodes.insert((now, inode.number));
                self.bell.notify_waiters();
            }
        }
        self.shrink();
    }

    /// Drops what was not used for longest while there is more than the budget.
    pub(crate) fn shrink(&self) {
        for _ in 0..LOOKED_AT_MAX {
            let (page, blocks) = {
                let cache = self.pages.borrow();
                let blocks = cache.pages.len() + self.meta.len();
                (cache.pages.oldest(), blocks as u64)
            };
            if blocks <= self.pages.borrow().blocks_max {
                return;
            }
            match (page, self.meta.oldest()) {
                (Some((key, stamp)), meta) if meta.is_none_or(|meta| stamp < meta) => {
                    self.drop_page_unless_needed(key);
                }
                (_, Some(_)) => self.meta.drop_oldest(self.tick()),
                (_, None) => return,
            }
        }
    }

    fn drop_page_unless_needed(&self, key: usize) {
        let mut cache = self.pages.borrow_mut();
        let page = cache.get(key);
        let inode = self.inodes.get(page.inode);
        let body = inode.as_ref().and_then(|inode| inode.body.try_borrow_mut().ok());
        match body {
            Some(mut body) if !page.dirty && !page.writing => {
                body.pages.remove(&page.index);
                cache.remove(key);
            }
            _ => cache.pages.touch(key, self.tick()),
        }
    }
}
