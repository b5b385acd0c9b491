//! All of a pool, stage by stage.
//!
//! Datasets are found by their objects in the MOS, not by names: those without a name (half received, origin of all) have
//! blocks too. What stands outside of a tree and can't be had (a list, a dataset's object) is an error between blocks.

use super::lists::{self, BpList};
use super::log::LogWalk;
use super::tree::{DESTROYED, Reached, Start, Visited, Walk};
use crate::dsl::livelist::live;
use crate::error::ZfsError;
use crate::spa::Spa;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::VecDeque;
use std::rc::Rc;
use zfs_format::block_pointer::{BlockPointer, Kind};
use zfs_format::dnode::OBJECTS_PER_BLOCK;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::object_type::ObjectType;
use zfs_format::objset;
use zfs_format::pool_directory as names;
use zfs_format::wire::Record;
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

/// Bytes of the smallest block, as a power of two.
const SECTOR_SHIFT: u32 = 9;

/// Blocks of the MOS's dnodes that can't be had, after which the rest is taken for lost: how many there are to be, a
/// damaged pool may say wrongly, and each is an error of its own. One unreadable indirect block hides 1024.
const UNREADABLE_MAX: u64 = 64 << 10;

/// A walk over a pool: [`PoolWalk::next`] gives block after block.
pub struct PoolWalk<'a> {
    spa: &'a Spa,
    blocks: Rc<dyn ReadBlocks>,
    walk: Walk,
    log: Option<LogWalk>,
    /// Heads that nothing was written to since their snapshot: their blocks are all the snapshot's, but not the log.
    logs: Vec<(u64, BlockPointer)>,
    list: Option<BpList>,
    /// Blocks and errors that are to be given before anything else is done.
    ready: VecDeque<Result<Visited, ZfsError>>,
    /// Bpobjs of livelists that are still to come.
    livelists: Vec<u64>,
    /// Blocks of the MOS's dnodes that could not be had.
    unreadable: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Deferred,
    Free,
    Destroyed,
    Livelists,
    Mos,
    /// From this object of the MOS on.
    Datasets(u64),
    Done,
}

impl Spa {
    /// Goes over all blocks of the pool. Nothing is read through the cache.
    pub fn walk(&self) -> PoolWalk<'_> {
        self.walk_over(Rc::clone(self.zio()) as Rc<dyn ReadBlocks>)
    }

    /// Goes over all blocks that a dataset reaches and that were born after a group.
    pub fn walk_dataset(&self, number: u64, head: &DslDataset, after: u64) -> PoolWalk<'_> {
        let mut walk = self.walk();
        walk.stage = Stage::Done;
        walk.walk.add(tree(number, head.pointer, after));
        walk
    }

    /// Goes over all blocks as [`Spa::walk`] does, with what leads on read from elsewhere: for tests that put something between.
    pub fn walk_over(&self, blocks: Rc<dyn ReadBlocks>) -> PoolWalk<'_> {
        let vdevs = self.vdevs();
        let sizes = vdevs.children.iter().map(|vdev| vdev.asize.unwrap_or(0));
        // A block takes a sector at the least.
        let limit = sizes.fold(0, u64::saturating_add) >> SECTOR_SHIFT;
        PoolWalk {
            spa: self,
            walk: Walk::new(self.rt(), Rc::clone(&blocks), limit),
            blocks,
            log: None,
            logs: Vec::new(),
            list: None,
            ready: VecDeque::new(),
            livelists: Vec::new(),
            unreadable: 0,
            stage: Stage::Deferred,
        }
    }
}

impl PoolWalk<'_> {
    /// The next block, or an error about something outside of a block that hides others. Nothing after the last.
    pub async fn next(&mut self) -> Option<Result<Visited, ZfsError>> {
        match self.next_leaf() {
            Some(visited) => Some(Ok(visited)),
            None => self.next_of_all().await,
        }
    }

    /// The next block where that leads nowhere, as most do: it costs no future of its own.
    fn next_leaf(&mut self) -> Option<Visited> {
        let is_first = self.ready.is_empty() && self.log.is_none() && self.list.is_none();
        if is_first && self.logs.is_empty() { self.walk.next_leaf() } else { None }
    }

    #[boxed(?Send)]
    async fn next_of_all(&mut self) -> Option<Result<Visited, ZfsError>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if let Some(log) = &mut self.log {
                match log.next(&self.blocks).await {
                    Some(visited) => return Some(Ok(visited)),
                    None => self.log = None,
                }
            }
            if let Some(list) = &mut self.list {
                match list.next(self.spa.mos()).await {
                    Some(Ok(pointers)) => self.add_freed(pointers),
                    Some(Err(error)) => self.ready.push_back(Err(error)),
                    None => self.list = None,
                }
                continue;
            }
            if let Some((objset, root)) = self.logs.pop() {
                if let Err(error) = self.open_log(objset, root).await {
                    self.ready.push_back(Err(error));
                }
                continue;
            }
            if let Some((visited, root)) = self.walk.next().await {
                if let Some(root) = root {
                    let first_open = self.first_open();
                    self.log = Some(LogWalk::new(visited.at.objset, &root.zil, first_open));
                }
                return Some(Ok(visited));
            }
            if let Some(number) = self.livelists.pop() {
                match live(self.spa.mos(), number).await {
                    Ok(pointers) => self.add_freed(pointers),
                    Err(error) => self.ready.push_back(Err(error)),
                }
                continue;
            }
            if self.stage == Stage::Done {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.ready.push_back(Err(error));
            }
        }
    }

    /// Begins with the log of an objset whose root block is not visited.
    async fn open_log(&mut self, objset: u64, pointer: BlockPointer) -> Result<(), ZfsError> {
        let at = Bookmark { objset, object: 0, level: -1, block: 0 };
        let bytes = self.blocks.read(BlockRequest::new(pointer, at)).await?;
        let root = objset::Objset::decode(bytes.bytes(), pointer.endian());
        let root = root.map_err(|error| ZfsError::Format { objset, object: 0, error })?;
        self.log = Some(LogWalk::new(objset, &root.zil, self.first_open()));
        Ok(())
    }

    /// The first transaction group that is not the pool's yet.
    fn first_open(&self) -> u64 {
        let uberblock = self.spa.uberblock();
        match uberblock.checkpoint_txg {
            0 => uberblock.txg.saturating_add(1),
            checkpoint => checkpoint.saturating_add(1),
        }
    }

    fn add_freed(&mut self, pointers: Vec<BlockPointer>) {
        let at = Bookmark { objset: DESTROYED, ..Bookmark::default() };
        for pointer in pointers {
            if !matches!(pointer.kind(), Kind::Hole | Kind::Redacted) {
                let reached = Reached::Freed;
                self.ready.push_back(Ok(Visited { pointer, at, reached, problem: None }));
            }
        }
    }

    async fn listed(&self, name: &'static str) -> Result<Option<u64>, ZfsError> {
        let directory = Zap::open(self.spa.mos().dnode(names::OBJECT).await?).await?;
        Ok(directory.number(name).await?.filter(|number| *number != 0))
    }

    async fn advance(&mut self) -> Result<(), ZfsError> {
        let stage = self.stage;
        self.stage = match stage {
            Stage::Deferred => Stage::Free,
            Stage::Free => Stage::Destroyed,
            Stage::Destroyed => Stage::Livelists,
            Stage::Livelists => Stage::Mos,
            Stage::Mos => Stage::Datasets(0),
            Stage::Datasets(_) | Stage::Done => Stage::Done,
        };
        let mos = self.spa.mos();
        match stage {
            Stage::Deferred => self.list = self.listed(names::SYNC_BPOBJ).await?.map(BpList::new),
            Stage::Free => self.list = self.listed(names::FREE_BPOBJ).await?.map(BpList::new),
            Stage::Destroyed => {
                if let Some(number) = self.listed(names::BPTREE).await? {
                    // What was destroyed first comes first.
                    let (_, trees) = lists::destroyed(mos, number).await?;
                    for entry in trees.into_iter().rev() {
                        self.walk.add(Start {
                            objset: DESTROYED,
                            root: entry.pointer,
                            after: entry.birth_txg,
                            reached: Reached::Freed,
                            resume: Some(entry.resume),
                            log: false,
                        });
                    }
                }
            }
            Stage::Livelists => {
                if let Some(number) = self.listed(names::DELETED_CLONES).await? {
                    self.livelists = lists::livelists(mos, number).await?;
                }
            }
            Stage::Mos => self.walk.add(tree(0, self.spa.uberblock().root, 0)),
            Stage::Datasets(from) => {
                // Who can't read a block of the MOS goes on behind it.
                let behind = (from / OBJECTS_PER_BLOCK + 1).saturating_mul(OBJECTS_PER_BLOCK);
                let last = mos.meta()?.phys().block_id_max;
                let more = from / OBJECTS_PER_BLOCK <= last && self.unreadable < UNREADABLE_MAX;
                self.stage = if more { Stage::Datasets(behind) } else { Stage::Done };
                let found = mos.dnodes_from(from).await;
                self.unreadable += u64::from(found.is_err());
                let Some((objects, next)) = found? else {
                    self.stage = Stage::Done;
                    return Ok(());
                };
                self.stage = Stage::Datasets(next);
                for (number, dnode, endian) in objects.into_iter().rev() {
                    if dnode.bonus_type != ObjectType::DSL_DATASET {
                        continue;
                    }
                    match DslDataset::decode(&dnode.bonus, endian) {
                        Ok(head) => {
                            let (after, is_head) = (head.previous_snapshot_txg, head.children == 0);
                            let root = head.pointer;
                            if is_head && !root.is_hole() && root.logical_birth() <= after {
                                self.logs.push((number, root));
                            }
                            let start = tree(number, root, after);
                            self.walk.add(Start { log: is_head, ..start });
                        }
                        Err(error) => {
                            let object = number;
                            let error = ZfsError::Format { objset: 0, object, error };
                            self.ready.push_back(Err(error));
                        }
                    }
                }
            }
            Stage::Done => {}
        }
        Ok(())
    }
}

fn tree(objset: u64, root: BlockPointer, after: u64) -> Start {
    Start { objset, root, after, reached: Reached::Tree, resume: None, log: false }
}
