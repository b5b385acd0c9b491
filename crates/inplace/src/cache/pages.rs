//! Pages put in memory, made dirty, and dropped when there are too many.

use super::{Backing, LOOKED_AT_MAX, Page, page_form};
use crate::core::Core;
use crate::inode::Inode;
use rt::SgList;

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
