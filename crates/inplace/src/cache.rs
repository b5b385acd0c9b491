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

mod pages;

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
