//! One object: a dnode, and the tree of blocks below it.

use super::overlay::Patches;
use super::prefetch::Prefetch;
use crate::error::{Problem, ZfsError};
use futures_util::stream::{FuturesOrdered, StreamExt};
use rt::{Buf, Rt, SgList};
use std::cell::RefCell;
use std::rc::Rc;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dnode::Dnode;
use zfs_format::wire::{Record, Wire};
use zfs_format::{Endian, FormatError};
use zfs_store::crypt::DatasetKey;
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

/// Blocks of one read that are asked for at once; more would hold memory that nobody has asked for yet.
const READS_MAX: usize = 64;

/// What an object needs of its objset.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) rt: Rt,
    pub(super) blocks: Rc<dyn ReadBlocks>,
    pub(super) objset: u64,
    pub(super) key: Option<Rc<DatasetKey>>,
}

/// A block's bytes and their order.
#[derive(Clone)]
pub struct Block {
    /// As many as the object's blocks are long.
    pub bytes: Buf,
    /// The order of the machine that wrote them.
    pub endian: Endian,
}

/// An object. Clones are handles of the same.
#[derive(Clone)]
pub struct Object(Rc<Inner>);

struct Inner {
    context: Context,
    number: u64,
    dnode: Dnode,
    endian: Endian,
    /// The lowest indirect block that was used last, with the number of the first block below it.
    last: RefCell<Option<(u64, Block)>>,
    prefetch: Prefetch,
    /// What a log that is laid over the dataset adds.
    patches: Option<Rc<Patches>>,
}

impl Object {
    pub(super) fn new(
        context: Context,
        number: u64,
        dnode: Dnode,
        endian: Endian,
        patches: Option<Rc<Patches>>,
    ) -> Object {
        let (last, prefetch) = (RefCell::default(), Prefetch::default());
        Object(Rc::new(Inner { context, number, dnode, endian, last, prefetch, patches }))
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The number of its objset.
    pub fn objset(&self) -> u64 {
        self.0.context.objset
    }

    /// Its dnode.
    pub fn dnode(&self) -> &Dnode {
        &self.0.dnode
    }

    /// The byte order of its bonus.
    pub fn endian(&self) -> Endian {
        self.0.endian
    }

    /// An error about its bytes.
    pub fn wrong(&self, error: FormatError) -> ZfsError {
        ZfsError::Format { objset: self.0.context.objset, object: self.0.number, error }
    }

    /// An error about what it is.
    pub fn problem(&self, problem: Problem) -> ZfsError {
        ZfsError::Object { objset: self.0.context.objset, object: self.0.number, problem }
    }

    /// Bytes that its blocks can hold, the last one whole.
    pub fn capacity(&self) -> u64 {
        let dnode = &self.0.dnode;
        let own = dnode.block_id_max.saturating_add(1).saturating_mul(dnode.data_block_bytes());
        own.max(self.0.patches.as_ref().map_or(0, |patches| patches.end()))
    }

    /// The continuation of its bonus, if it has one.
    ///
    /// # Errors
    /// The block can't be had.
    pub async fn spill(&self) -> Result<Option<Block>, ZfsError> {
        let Some(pointer) = self.0.dnode.spill.filter(|pointer| !pointer.is_hole()) else {
            return Ok(None);
        };
        // How OpenZFS numbers it: level 0, and a block number that no block has.
        let at = self.bookmark(0, u64::MAX);
        let bytes = self.0.context.blocks.read(self.request(pointer, at)).await?;
        Ok(Some(Block { bytes, endian: pointer.endian() }))
    }

    /// A block of data: zeros for a hole, and beyond the last.
    ///
    /// # Errors
    /// It, or an indirect block on the way, can't be had.
    pub async fn block(&self, number: u64) -> Result<Block, ZfsError> {
        if let Some(block) = self.cached(number) {
            return Ok(block);
        }
        self.own_block(number).await.map(|block| self.patched(number, block))
    }

    /// The block with what a log adds to it.
    fn patched(&self, number: u64, block: Block) -> Block {
        let Some(patches) = &self.0.patches else { return block };
        let at = number.saturating_mul(self.0.dnode.data_block_bytes());
        let end = at.saturating_add(block.bytes.len() as u64);
        if patches.leaves_alone(at..end) {
            return block;
        }
        Block { bytes: patches.patched(at, &block.bytes), endian: block.endian }
    }

    async fn own_block(&self, number: u64) -> Result<Block, ZfsError> {
        let zeros = || {
            let len = self.0.dnode.data_block_bytes() as usize;
            Block { bytes: Buf::zeros(len), endian: self.0.endian }
        };
        let Some(pointer) = self.pointer(number).await? else { return Ok(zeros()) };
        if pointer.is_hole() {
            return Ok(zeros());
        }
        let request = self.request(pointer, self.bookmark(0, number));
        let bytes = self.0.context.blocks.read(request).await?;
        Ok(Block { bytes, endian: pointer.endian() })
    }

    /// A block of data that lies in memory with all that leads to it.
    pub fn cached(&self, number: u64) -> Option<Block> {
        let dnode = &self.0.dnode;
        let pointer = match dnode.levels {
            1 => *dnode.pointers.get(usize::try_from(number).ok()?)?,
            _ => self.in_last(number)?,
        };
        let bytes = match pointer.is_hole() {
            true => Buf::zeros(dnode.data_block_bytes() as usize),
            false => self.0.context.blocks.cached(&pointer)?,
        };
        Some(self.patched(number, Block { bytes, endian: pointer.endian() }))
    }

    /// The pointer to a block, where the indirect block that was used last has it.
    fn in_last(&self, number: u64) -> Option<BlockPointer> {
        let last = self.0.last.borrow();
        let (first, block) = last.as_ref()?;
        let index = usize::try_from(number.checked_sub(*first)?).ok()?;
        pointer_in(block, index)?.ok()
    }

    /// The pointer to a data block; nothing where there is none, because of a hole above it or beyond the end.
    ///
    /// # Errors
    /// An indirect block on the way can't be had, or is none.
    pub async fn pointer(&self, number: u64) -> Result<Option<BlockPointer>, ZfsError> {
        let dnode = &self.0.dnode;
        if number > dnode.block_id_max {
            return Ok(None);
        }
        if dnode.levels > 1
            && let Some(pointer) = self.in_last(number)
        {
            return Ok(Some(pointer));
        }
        let Some(path) = dnode.path(number) else { return Ok(None) };
        let mut pointer = dnode.pointers[path.pointer];
        for (down, index) in path.indirect.iter().enumerate() {
            if pointer.is_hole() {
                return Ok(None);
            }
            let level = dnode.levels - 1 - down as u8;
            let block = self.indirect(pointer, level, number).await?;
            pointer = match pointer_in(&block, *index) {
                None => return Ok(None),
                Some(pointer) => pointer.map_err(|error| self.wrong(error))?,
            };
            if level == 1 {
                *self.0.last.borrow_mut() = Some((number - *index as u64, block));
            }
        }
        Ok(Some(pointer))
    }

    /// An indirect block above a data block.
    async fn indirect(
        &self,
        pointer: BlockPointer,
        level: u8,
        number: u64,
    ) -> Result<Block, ZfsError> {
        let below = self.0.dnode.blocks_below(level + 1);
        let at = self.bookmark(level.into(), number / below.max(1));
        let bytes = match self.0.context.blocks.cached(&pointer) {
            Some(bytes) => bytes,
            None => self.0.context.blocks.read(self.request(pointer, at)).await?,
        };
        Ok(Block { bytes, endian: pointer.endian() })
    }

    /// Bytes from any place; zeros for holes and beyond the last block. Blocks are read side by side, and when reading goes
    /// on from where it ended before, further ones are read ahead.
    ///
    /// # Errors
    /// The first block that can't be had.
    pub async fn read(&self, offset: u64, len: usize) -> Result<SgList, ZfsError> {
        let size = self.0.dnode.data_block_bytes().max(1);
        let mut list = SgList::new();
        if len == 0 {
            return Ok(list);
        }
        let end = offset.saturating_add(len as u64);
        let (first, last) = (offset / size, (end - 1) / size);
        self.read_ahead(first, last);
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
                let (object, number) = (self.clone(), next);
                under_way.push_back(async move { (number, object.block(number).await) });
                next += 1;
            }
            let Some((number, block)) = under_way.next().await else { break };
            list.push(part(number, block?.bytes));
            done = number + 1;
        }
        Ok(list)
    }

    /// Asks for what a reader in order will want next.
    fn read_ahead(&self, first: u64, last: u64) {
        let dnode = &self.0.dnode;
        let wanted = self.0.prefetch.after(first, last, dnode.data_block_bytes());
        let until = wanted.end.min(dnode.block_id_max.saturating_add(1));
        for number in wanted.start..until {
            if self.cached(number).is_some() {
                continue;
            }
            let object = self.clone();
            let ahead = async move {
                let Ok(Some(pointer)) = object.pointer(number).await else { return };
                if pointer.is_hole() || pointer.is_embedded() {
                    return;
                }
                let mut request = object.request(pointer, object.bookmark(0, number));
                request.prefetch = true;
                // Whoever asks for it in earnest hears of an error.
                let _ = object.0.context.blocks.read(request).await;
            };
            self.0.context.rt.spawn(ahead).detach();
        }
    }

    /// The first byte at or after `from` that a data block covers; nothing where only holes follow.
    ///
    /// # Errors
    /// An indirect block can't be had.
    pub async fn next_data(&self, from: u64) -> Result<Option<u64>, ZfsError> {
        let own = self.own_data(from).await?;
        let Some(patches) = &self.0.patches else { return Ok(own) };
        let own = own.filter(|at| *at < patches.own_end());
        Ok([own, patches.next(from)].into_iter().flatten().min())
    }

    async fn own_data(&self, from: u64) -> Result<Option<u64>, ZfsError> {
        let size = self.0.dnode.data_block_bytes().max(1);
        let found = self.next_block(from / size, false).await?;
        Ok(found.map(|block| (block * size).max(from)))
    }

    /// The first byte at or after `from` that no data block covers: the capacity, where no hole follows.
    ///
    /// # Errors
    /// An indirect block can't be had.
    pub async fn next_hole(&self, from: u64) -> Result<u64, ZfsError> {
        let size = self.0.dnode.data_block_bytes().max(1);
        let mut at = from;
        loop {
            let found = self.next_block(at / size, true).await?;
            let own = found.map_or(self.capacity(), |block| (block * size).max(at));
            let Some(patches) = &self.0.patches else { return Ok(own) };
            let own = own.min(patches.own_end()).max(at);
            match patches.covers(own) {
                Some(end) => at = end,
                None => return Ok(own),
            }
        }
    }

    /// The first block from `from` on that is a hole, or is none.
    async fn next_block(&self, from: u64, hole: bool) -> Result<Option<u64>, ZfsError> {
        let dnode = &self.0.dnode;
        let mut number = from;
        while number <= dnode.block_id_max {
            let Some(path) = dnode.path(number) else { return Ok(None) };
            let mut pointer = dnode.pointers[path.pointer];
            let mut level = dnode.levels - 1;
            for index in &path.indirect {
                if pointer.is_hole() {
                    break;
                }
                let block = self.indirect(pointer, level, number).await?;
                pointer = match pointer_in(&block, *index) {
                    None => BlockPointer::HOLE,
                    Some(pointer) => pointer.map_err(|error| self.wrong(error))?,
                };
                level -= 1;
            }
            if pointer.is_hole() == hole {
                return Ok(Some(number));
            }
            // A hole above stands for all blocks below it.
            let covers = dnode.blocks_below(level + 1).max(1);
            number = (number / covers).saturating_add(1).saturating_mul(covers);
        }
        Ok(None)
    }

    /// Where a block of this object stands.
    pub fn bookmark(&self, level: i64, block: u64) -> Bookmark {
        Bookmark { objset: self.0.context.objset, object: self.0.number, level, block }
    }

    fn request(&self, pointer: BlockPointer, at: Bookmark) -> BlockRequest {
        BlockRequest::new(pointer, at).with_key(self.0.context.key.clone())
    }
}

/// One pointer of an indirect block; nothing where it has fewer.
fn pointer_in(block: &Block, index: usize) -> Option<Result<BlockPointer, FormatError>> {
    let at = index.checked_mul(BlockPointer::BYTES)?;
    let bytes = block.bytes.bytes().get(at..at + BlockPointer::BYTES)?;
    Some(BlockPointer::decode(bytes, block.endian))
}
