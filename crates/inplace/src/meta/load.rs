//! Blocks of metadata: read, found in memory, or made anew.

use super::{MetaBlock, MetaRef, Slot};
use crate::core::{Core, Outcome};
use crate::layout::Extent;
use rt::sync::Notify;
use std::rc::Rc;

/// Wakes those who wait for a read, also when it was abandoned.
struct Reading<'a> {
    core: &'a Core,
    number: u64,
    arrival: Rc<Notify>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut table = self.core.meta.0.borrow_mut();
        if matches!(table.slots.get(&self.number), Some(Slot::Coming(_))) {
            table.slots.remove(&self.number);
        }
        self.arrival.notify_waiters();
    }
}

impl Core {
    /// A block of metadata that is in memory already.
    pub(crate) fn cached_block(&self, number: u64) -> Option<MetaRef> {
        let mut table = self.meta.0.borrow_mut();
        let Some(Slot::Here(block, key)) = table.slots.get(&number) else { return None };
        let (block, key) = (Rc::clone(block), *key);
        table.uses.touch(key, self.tick());
        Some(block)
    }

    /// A block of metadata, read where it is not in memory.
    pub(crate) async fn block(&self, number: u64) -> Outcome<MetaRef> {
        loop {
            if let Some(block) = self.cached_block(number) {
                return Ok(block);
            }
            let coming = match self.meta.0.borrow().slots.get(&number) {
                Some(Slot::Coming(arrival)) => Some(Rc::clone(arrival)),
                _ => None,
            };
            let Some(arrival) = coming else { break };
            arrival.notified().await;
        }
        let arrival = Rc::new(Notify::new());
        self.meta.0.borrow_mut().slots.insert(number, Slot::Coming(Rc::clone(&arrival)));
        let reading = Reading { core: self, number, arrival };
        let data = self.read_device(self.shape.offset(number), self.shape.block).await?;
        let mut bytes = vec![0; self.shape.block as usize].into_boxed_slice();
        data.copy_to(&mut bytes);
        let block = MetaBlock::new(number, bytes);
        self.meta.insert(&block, self.tick());
        drop(reading);
        self.shrink();
        Ok(block)
    }

    /// Reads a stretch of metadata in long requests, at the mount.
    pub(crate) async fn blocks(&self, extent: Extent) -> Outcome<Vec<MetaRef>> {
        let len = self.shape.block as usize;
        let at = self.shape.offset(extent.start);
        let data = self.read_device(at, extent.len * self.shape.block).await?;
        let block = |(i, number): (usize, u64)| {
            let mut bytes = vec![0; len].into_boxed_slice();
            data.slice(i * len..(i + 1) * len).copy_to(&mut bytes);
            let block = MetaBlock::new(number, bytes);
            self.meta.insert(&block, self.tick());
            block
        };
        Ok((extent.start..extent.end()).enumerate().map(block).collect())
    }

    /// A block that becomes metadata: all zeros, whatever is on the device. The caller enters all of it
    /// into a transaction before the next await.
    pub(crate) fn fresh_block(&self, number: u64) -> MetaRef {
        let block = MetaBlock::zeroed(number, self.shape.block as usize);
        self.meta.forget(number);
        self.meta.insert(&block, self.tick());
        // A file system that only grows reads none of its metadata; the budget holds for it all the same.
        self.shrink();
        block
    }
}
