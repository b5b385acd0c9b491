//! Reading an object: blocks, bytes, and where there are holes.
//!
//! A block is asked for in this order: what was changed or is held ([`dbuf`](super::super::dbuf)), the block pointer down
//! the indirect blocks, the cache, a device. All but the last is one look that doesn't wait; where that finds a block
//! missing it is read, and the look is taken again. So what is answered is how things were at one moment.
//!
//! A pointer may be outdated by the time that its block comes: the block was changed, synced to another place, and the old
//! place used again. Then it fails its checksum, and the look is taken again too; only if the pointer is still the same is it
//! an error.
//!
//! Holes are zeros. Whether a stretch is a hole is known without reading data: [`Dnode::next_data`].

use super::super::step::{Blocked, Step};
use super::super::txg::Txg;
use super::{At, Block, Dnode, Place};
use crate::error::ZfsError;
use async_recursion::async_recursion as boxed;
use futures_util::stream::{FuturesOrdered, StreamExt};
use rt::{Buf, SgList};
use zfs_format::block_pointer::BlockPointer;

/// Blocks of one read that are asked for at once; more would hold memory that nobody has asked for yet.
const READS_MAX: usize = 64;
/// How often a search for data or a hole begins anew because the object was changed meanwhile. Then it answers what is
/// never wrong: that there is data.
const SEARCHES_MAX: usize = 8;

impl Dnode {
    /// A block of data: zeros for a hole, and beyond the last.
    ///
    /// # Errors
    /// It, or an indirect block on the way, can't be had.
    pub async fn block(&self, number: u64) -> Result<Block, ZfsError> {
        Ok(self.fetch(At::data(number), false).await?.unwrap_or_else(|| self.zeros()))
    }

    /// A block that the open group changed, as it is now: nothing where it didn't, or where the object was freed.
    pub fn changed_in(&self, open: Txg, number: u64) -> Option<Block> {
        match self.0.is_free.get() {
            true => None,
            false => self.0.dbufs.borrow().open_in(open, number),
        }
    }

    /// The continuation of its bonus, if it has one.
    ///
    /// # Errors
    /// The block can't be had.
    pub async fn spill(&self) -> Result<Option<Block>, ZfsError> {
        self.fetch(At::SPILL, false).await
    }

    /// A block; nothing for a hole.
    #[boxed(?Send)]
    async fn fetch(&self, at: At, once: bool) -> Result<Option<Block>, ZfsError> {
        let mut held = Vec::new();
        let mut failed: Option<(BlockPointer, ZfsError)> = None;
        loop {
            let pointer = match self.place(at) {
                Ok(Place::Block(block)) => return Ok(Some(block)),
                Ok(Place::Hole) => return Ok(None),
                Ok(Place::Pointer(pointer)) if pointer.is_hole() => return Ok(None),
                Ok(Place::Pointer(pointer)) => pointer,
                Err(Blocked::Wrong(error)) => return Err(error),
                Err(Blocked::Need(need)) => {
                    held.push(need.read().await?);
                    continue;
                }
            };
            if let Some((_, error)) = failed.take_if(|(before, _)| *before == pointer) {
                return Err(error);
            }
            let mut request = self.0.request(pointer, at);
            request.once |= once;
            match self.0.context.blocks.read(request).await {
                Ok(bytes) => {
                    self.0.check_length(at, bytes.len())?;
                    return Ok(Some(Block { bytes, endian: pointer.endian() }));
                }
                Err(error) => failed = Some((pointer, error.into())),
            }
        }
    }

    /// A block of data that lies in memory with all that leads to it.
    pub fn cached(&self, number: u64) -> Option<Block> {
        let at = At::data(number);
        match self.place(at).ok()? {
            Place::Block(block) => Some(block),
            Place::Hole => Some(self.zeros()),
            Place::Pointer(pointer) => {
                let bytes = match pointer.is_hole() {
                    true => return Some(self.zeros()),
                    false => self.0.context.blocks.cached(&pointer)?,
                };
                self.0.check_length(at, bytes.len()).ok()?;
                Some(Block { bytes, endian: pointer.endian() })
            }
        }
    }

    /// The pointer to a data block; nothing where there is none, because of a hole above it, beyond the end, or since the
    /// block was changed and is not synced.
    ///
    /// # Errors
    /// An indirect block on the way can't be had, or is none.
    pub async fn pointer(&self, number: u64) -> Result<Option<BlockPointer>, ZfsError> {
        self.pointer_at(0, number).await
    }

    /// The same of a block of a level.
    ///
    /// # Errors
    /// As of [`Dnode::pointer`].
    #[boxed(?Send)]
    pub async fn pointer_at(
        &self,
        level: u8,
        block: u64,
    ) -> Result<Option<BlockPointer>, ZfsError> {
        let mut held = Vec::new();
        loop {
            match self.place(At { level, block }) {
                Ok(Place::Pointer(pointer)) => return Ok(Some(pointer)),
                Ok(Place::Block(_) | Place::Hole) => return Ok(None),
                Err(Blocked::Wrong(error)) => return Err(error),
                Err(Blocked::Need(need)) => held.push(need.read().await?),
            }
        }
    }

    /// Bytes from any place; zeros for holes and beyond the last block. Blocks are read side by side, and when reading goes
    /// on from where it ended before, further ones are read ahead.
    ///
    /// # Errors
    /// The first block that can't be had.
    pub async fn read(&self, offset: u64, len: usize) -> Result<SgList, ZfsError> {
        if len > 0 {
            let size = self.block_bytes().max(1);
            let last = offset.saturating_add(len as u64) - 1;
            self.read_ahead(offset / size, last / size);
        }
        self.read_blocks(offset, len, false).await
    }

    /// The same for a reader that goes through all of it once, and asks for the next bytes by itself while it deals with
    /// these: nothing is read ahead, and what is not in the cache yet isn't kept there.
    ///
    /// # Errors
    /// The first block that can't be had.
    pub async fn read_once(&self, offset: u64, len: usize) -> Result<SgList, ZfsError> {
        self.read_blocks(offset, len, true).await
    }

    async fn read_blocks(&self, offset: u64, len: usize, once: bool) -> Result<SgList, ZfsError> {
        let size = self.block_bytes().max(1);
        let mut list = SgList::new();
        if len == 0 {
            return Ok(list);
        }
        let end = offset.saturating_add(len as u64);
        let (first, last) = (offset / size, (end - 1) / size);
        let part = |number: u64, bytes: Buf| {
            let start = offset.saturating_sub(number * size).min(bytes.len() as u64) as usize;
            let stop = end.saturating_sub(number * size).min(bytes.len() as u64) as usize;
            bytes.slice(start..stop.max(start))
        };
        let mut under_way = FuturesOrdered::new();
        let mut next = first;
        let mut done = first;
        while done <= last {
            // What lies in memory needs no task.
            if under_way.is_empty()
                && let Some(block) = self.cached(next)
            {
                list.push(part(next, block.bytes));
                next += 1;
                done = next;
                continue;
            }
            while next <= last && under_way.len() < READS_MAX {
                let (dnode, number) = (self.clone(), next);
                under_way.push_back(async move {
                    let block = dnode.fetch(At::data(number), once).await;
                    (number, block.map(|block| block.unwrap_or_else(|| dnode.zeros())))
                });
                next += 1;
            }
            let Some((number, block)) = under_way.next().await else { break };
            list.push(part(number, block?.bytes));
            assert_eq!(number, done, "blocks come in order");
            done = number + 1;
        }
        assert!(list.len() <= len, "a read gives no more than was asked for");
        Ok(list)
    }

    /// Asks for what a reader in order will want next.
    fn read_ahead(&self, first: u64, last: u64) {
        if !self.0.context.caching.get().keeps_data() {
            return;
        }
        let (bytes, block_id_max) = {
            let phys = self.0.phys.borrow();
            (phys.data_block_bytes(), phys.block_id_max)
        };
        let wanted = self.0.prefetch.after(first, last, bytes);
        let until = wanted.end.min(block_id_max.saturating_add(1));
        for number in wanted.start..until {
            if self.cached(number).is_some() {
                continue;
            }
            let dnode = self.clone();
            let ahead = async move {
                let Ok(Some(pointer)) = dnode.pointer(number).await else { return };
                if pointer.is_hole() || pointer.is_embedded() {
                    return;
                }
                let mut request = dnode.0.request(pointer, At::data(number));
                request.prefetch = true;
                // Whoever asks for it in earnest hears of an error.
                let _ = dnode.0.context.blocks.read(request).await;
            };
            self.0.context.rt.spawn(ahead).detach();
        }
    }

    /// The first byte at or after `from` that a data block covers; nothing where only holes follow.
    ///
    /// # Errors
    /// An indirect block can't be had.
    #[boxed(?Send)]
    pub async fn next_data(&self, from: u64) -> Result<Option<u64>, ZfsError> {
        let size = self.block_bytes().max(1);
        let found = self.next_block(from / size, false).await?;
        Ok(found.map(|block| block.saturating_mul(size).max(from)))
    }

    /// The first byte at or after `from` that no data block covers: the capacity, where no hole follows.
    ///
    /// # Errors
    /// An indirect block can't be had.
    #[boxed(?Send)]
    pub async fn next_hole(&self, from: u64) -> Result<u64, ZfsError> {
        let size = self.block_bytes().max(1);
        let found = self.next_block(from / size, true).await?;
        Ok(found.map_or(self.capacity(), |block| block.saturating_mul(size).max(from)))
    }

    /// The first block from `from` on that is a hole, or is none. A change of the object while an indirect block is read
    /// may be one before the place that was reached, so then the search begins anew.
    async fn next_block(&self, from: u64, hole: bool) -> Result<Option<u64>, ZfsError> {
        for _ in 0..SEARCHES_MAX {
            let (mut number, version) = (from, self.version());
            // The one that was waited for last; those before it may leave.
            let mut held = None;
            while version == self.version() {
                match self.search(&mut number, hole) {
                    Ok(found) => return Ok(found),
                    Err(Blocked::Wrong(error)) => return Err(error),
                    Err(Blocked::Need(need)) => held = Some(need.read().await?),
                }
            }
            drop(held);
        }
        Ok(if hole { None } else { Some(from) })
    }

    /// Searches on from a number, which is then where it came to.
    fn search(&self, number: &mut u64, hole: bool) -> Step<Option<u64>> {
        let phys = self.phys();
        while *number <= phys.block_id_max {
            let (is_hole, next) = self.kind_of(&phys, *number)?;
            if is_hole == hole {
                return Ok(Some(*number));
            }
            // Behind the last number there is none: a dnode may claim any.
            let Some(next) = next else { return Ok(None) };
            assert!(next > *number, "a search goes on");
            *number = next;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    //! Dnodes that claim what can't be. What could break: a search that goes round for ever, a sum of numbers that nobody
    //! vouches for, bytes of one block at the place of another.

    use super::super::Context;
    use super::*;
    use crate::dmu::txg::Txg;
    use futures_util::future::join;
    use rt::{Reactor, Runtime};
    use sim::SimReactor;
    use sim::host::Processor;
    use std::rc::{Rc, Weak};
    use tokio::sync::Notify;
    use zfs_format::Endian;
    use zfs_format::dnode::Dnode as DnodePhys;
    use zfs_format::object_type::ObjectType;
    use zfs_store::{BlockFuture, BlockRequest, ReadBlocks};

    /// Each block has so many bytes.
    struct Blocks(usize);

    impl ReadBlocks for Blocks {
        fn cached(&self, _: &BlockPointer) -> Option<Buf> {
            None
        }

        fn read(&self, _: BlockRequest) -> BlockFuture {
            let block = Buf::zeros(self.0);
            Box::pin(async move { Ok(block) })
        }
    }

    /// Each block comes when it is let go.
    struct Slow(Rc<Notify>);

    impl ReadBlocks for Slow {
        fn cached(&self, _: &BlockPointer) -> Option<Buf> {
            None
        }

        fn read(&self, _: BlockRequest) -> BlockFuture {
            let let_go = Rc::clone(&self.0);
            Box::pin(async move {
                let_go.notified().await;
                Ok(Buf::zeros(1024))
            })
        }
    }

    fn phys(levels: u8, block_id_max: u64, pointer: BlockPointer) -> DnodePhys {
        DnodePhys {
            object_type: ObjectType::PLAIN_FILE_CONTENTS,
            indirect_shift: 17,
            levels,
            bonus_type: ObjectType::NONE,
            checksum: 7,
            compression: 2,
            flags: 0,
            data_block_sectors: 2,
            extra_slots: 0,
            block_id_max,
            used: 0,
            pointers: vec![pointer],
            bonus: Vec::new(),
            spill: None,
        }
    }

    fn with<T: 'static>(
        phys: DnodePhys,
        bytes: usize,
        work: impl AsyncFnOnce(Dnode) -> T + 'static,
    ) -> T {
        let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
        let blocks: Rc<dyn ReadBlocks> = Rc::new(Blocks(bytes));
        let (rt, changed) = (runtime.handle(), Weak::new());
        let caching = Rc::default();
        let context = Context { rt, blocks, objset: 1, key: None, caching, changed };
        let dnode = Dnode::new(context, 2, phys, Endian::Little);
        runtime.block_on(async move { work(dnode).await }).expect("it ends")
    }

    #[test]
    fn searches_end_at_the_last_number_that_there_can_be() {
        for levels in 1..=8 {
            let empty = phys(levels, u64::MAX, BlockPointer::HOLE);
            with(empty, 0, async move |dnode: Dnode| {
                for from in [0, 1 << 40, u64::MAX - 1, u64::MAX] {
                    assert_eq!(dnode.next_data(from).await.expect("holes are read"), None);
                    assert!(dnode.next_hole(from).await.expect("holes are read") >= from);
                }
            });
        }
    }

    #[test]
    fn a_block_of_another_length_than_the_dnode_says_is_an_error() {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_dva(0, zfs_format::block_pointer::Dva::new(0, 4096, 4096, false));
        for (bytes, fits) in [(1024, true), (512, false), (2048, false), (0, false)] {
            with(phys(1, 0, pointer), bytes, async move |dnode: Dnode| {
                assert_eq!(dnode.block(0).await.is_ok(), fits, "{bytes}");
                let read = dnode.read(100, 700).await.map(|list| list.len());
                assert_eq!(read.ok(), fits.then_some(700), "{bytes}");
            });
        }
    }

    /// A disk that is slower than a transaction group: the block was changed, and is in the pool at another place.
    #[test]
    fn a_block_that_comes_when_another_tree_is_there_is_not_held() {
        let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
        let let_go = Rc::new(Notify::new());
        let blocks: Rc<dyn ReadBlocks> = Rc::new(Slow(Rc::clone(&let_go)));
        let (rt, changed) = (runtime.handle(), Weak::new());
        let caching = Rc::default();
        let context = Context { rt, blocks, objset: 1, key: None, caching, changed };
        let mut pointer = BlockPointer::HOLE;
        pointer.set_dva(0, zfs_format::block_pointer::Dva::new(0, 4096, 4096, false));
        let dnode = Dnode::new(context, 2, phys(1, 0, pointer), Endian::Little);
        let done = runtime.block_on(async move {
            for (is_synced, is_held) in [(true, false), (false, true)] {
                let Err(Blocked::Need(need)) = dnode.resident(0) else { panic!("it is there") };
                let meanwhile = async {
                    if is_synced {
                        dnode.0.dbufs.borrow_mut().written(Txg(5), Vec::new());
                    }
                    let_go.notify_one();
                };
                let (hold, ()) = join(need.read(), meanwhile).await;
                let hold = hold.expect("it came");
                assert_eq!(dnode.resident(0).is_ok(), is_held);
                drop(hold);
                assert!(dnode.resident(0).is_err());
            }
        });
        done.expect("it ends");
    }
}
