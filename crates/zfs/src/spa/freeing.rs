//! What was destroyed is freed, a part in each group.
//!
//! ```text
//!   a list    pointers of blocks that only destroyed snapshots had (`free_bpobj`): freed from the end
//!   trees     roots of destroyed file systems and volumes (`bptree_obj`, feature `async_destroy`): freed from the front,
//!             what is above after what is below; how far it came stands with the root
//!   livelists of destroyed clones (`com.delphix:deleted_clones`): the oldest list first, each whole in one group
//!   places on removed vdevs that become obsolete (`obsolete`): they free nothing
//! ```
//!
//! Each group frees [`BLOCKS_MAX`] blocks at the most, before anything else is done in it, so that what a task hands over is
//! begun in a later group: all that is read here is in the pool. Space is the directory `$FREE`'s until it is free.
//!
//! **Cut at any write** what was freed in a group is as that group's list and place say, or the group is not in the pool.
//!
//! **What can't be read** can't be freed: the tree keeps its place and stays, and the others are gone on with. So one bad block costs
//! what is left of its tree. It is tried again when the pool is opened again, and not in each group. A tree behind it that
//! is free stays as an entry of which no block is younger than what is kept: nothing is below it for anybody. OpenZFS does all this
//! too, but for a block of dnodes that it can't read: the place that it keeps says that what is below is gone, and so that never comes
//! free.
//!
//! What was handed over since the pool is open and can't be freed is counted ([`Freeing::unreadable`]), so that who destroyed it
//! is told; [`Spa::unreadable_trees`] looks for it in a pool that is only read.
//!
//! Within an object that has a spill block nobody stops, so such an object is freed in one group, however long it is.
//!
//! Without the feature a tree is freed at once, in the group that destroys it.
//!
//! Source: OpenZFS, `dsl_scan.c` (`dsl_process_async_destroys`), `bptree.c`, `bpobj.c` (`bpobj_iterate`), `dmu_traverse.c`.

use super::obsolete;
use super::open::Spa;
use crate::dmu::{Dnode, NewObject};
use crate::dsl::bpobj::Sums;
use crate::dsl::deadlist::Deadlist;
use crate::dsl::livelist::{self, live};
use crate::dsl::make::Maker;
use crate::dsl::space::Part;
use crate::error::{Problem, ZfsError};
use crate::inspect::walk::lists;
use crate::inspect::walk::tree::{DESTROYED, Reached, START, Start, Walk};
use crate::zap::{Zap, table};
use async_recursion::async_recursion as boxed;
use rt::{Buf, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::bptree::{BpTree, BpTreeEntry};
use zfs_format::dsl::scan::ScanBookmark;
use zfs_format::object_type::{ByteSwap, ObjectType};
use zfs_format::pool_directory;
use zfs_format::wire::{Record, Wire};
use zfs_store::{ReadBlocks, Writer};

/// Blocks that one group frees: at 128 KiB some 8 GiB, and of space maps' ranges some MiB of memory.
pub const BLOCKS_MAX: u64 = 1 << 16;
/// The feature that lets trees wait to be freed.
const FEATURE: &str = "async_destroy";
/// Bytes of the blocks of the object with the trees.
const TREES_BLOCK_BYTES: u64 = 128 << 10;
/// Numbers of the pool's own.
const METADATA_NUMBERS: ObjectType = ObjectType::new(ByteSwap::Uint64, true, false);
/// Indirect blocks and blocks of dnodes that a tree may have, as a bound on damaged pools.
const LEADING_MAX: u64 = 1 << 40;
/// The group after which blocks of a tree are to be freed that is free, and stands behind one that isn't.
const ALL_FREE: u64 = u64::MAX;
/// Trees that are looked at for one that can't be read.
const LOOKED_MAX: usize = 256;

async fn entry(maker: &Maker<'_>, name: &'static str) -> Result<Option<Dnode>, ZfsError> {
    let directory = Zap::open(maker.mos.dnode(pool_directory::OBJECT).await?).await?;
    match directory.number(name).await? {
        Some(number) => maker.mos.dnode(number).await.map(Some),
        None => Ok(None),
    }
}

/// The list of what is to be freed.
///
/// # Errors
/// The pool has none.
#[boxed(?Send)]
pub async fn list(maker: &Maker<'_>) -> Result<Dnode, ZfsError> {
    let missing = || maker.mos.wrong(pool_directory::OBJECT, Problem::NoEntry("free_bpobj"));
    entry(maker, pool_directory::FREE_BPOBJ).await?.ok_or_else(missing)
}

/// Says which number it has.
async fn append_tree(
    maker: &Maker<'_>,
    uses: u64,
    root: &BlockPointer,
    after: u64,
    sums: Sums,
) -> Result<u64, ZfsError> {
    let mos = maker.mos;
    let trees = match entry(maker, pool_directory::BPTREE).await? {
        Some(trees) => trees,
        None => {
            let new = NewObject::of(METADATA_NUMBERS, TREES_BLOCK_BYTES);
            let trees = mos.make(&new.with_bonus(METADATA_NUMBERS, vec![0; BpTree::BYTES])).await?;
            let directory = mos.dnode(pool_directory::OBJECT).await?;
            let number = table::number(trees.number());
            table::set(mos, &directory, pool_directory::BPTREE, number).await?;
            if uses == 0 {
                maker.count_use(FEATURE, 1).await?;
            }
            trees
        }
    };
    let state = state_of(maker, &trees)?;
    let new = BpTreeEntry { pointer: *root, birth_txg: after, resume: START };
    put_entry(maker, &trees, state.end, &new).await?;
    let how = |state: &mut BpTree| {
        state.end += 1;
        change(state, sums, 1);
    };
    maker.edit::<BpTree>(&trees, how).await?;
    Ok(state.end)
}

/// What the object with the trees says of them, which are no more than it can hold.
fn state_of(maker: &Maker<'_>, trees: &Dnode) -> Result<BpTree, ZfsError> {
    let state = maker.bonus::<BpTree>(trees)?;
    match state.begin <= state.end && state.end <= trees.capacity() / BpTreeEntry::BYTES as u64 {
        true => Ok(state),
        false => Err(trees.problem(Problem::Count("of trees"))),
    }
}

fn change(state: &mut BpTree, sums: Sums, sign: i64) {
    let BpTree { bytes, compressed, uncompressed, .. } = state;
    sums.count_in(sign, [bytes, compressed, uncompressed]);
}

async fn put_entry(
    maker: &Maker<'_>,
    trees: &Dnode,
    number: u64,
    entry: &BpTreeEntry,
) -> Result<(), ZfsError> {
    let at = number * BpTreeEntry::BYTES as u64;
    let bytes = Buf::copy_of(&entry.encode(trees.endian()));
    maker
        .mos
        .change(|tx| {
            trees.plan_write(at..at + bytes.len() as u64)?;
            trees.write(tx, at, &bytes);
            Ok(())
        })
        .await
}

/// What was freed is not to be freed any more.
async fn take_off(maker: &Maker<'_>, freed: Sums) -> Result<(), ZfsError> {
    let mut less = Sums::default();
    less.add(freed, -1);
    maker.did_use(&maker.free_directory().await?, Part::Head, less).await
}

/// What of a tree was freed.
struct Freed {
    sums: Sums,
    blocks: u64,
    /// Where to go on; nothing where all is free.
    place: Option<ScanBookmark>,
    /// Why it can't go on.
    stuck: Option<ZfsError>,
}

/// A walk over what is left of a tree.
fn walk(rt: &Rt, blocks: &Rc<dyn ReadBlocks>, from: &BpTreeEntry) -> Walk {
    let mut walk = Walk::new(rt, Rc::clone(blocks), LEADING_MAX);
    let begun = from.resume != START;
    walk.add(Start {
        objset: DESTROYED,
        root: from.pointer,
        after: from.birth_txg,
        reached: Reached::Freed,
        resume: begun.then(|| from.resume.clone()),
        log: false,
    });
    walk
}

/// Frees so many blocks of a tree, and a few more where it can't stop.
async fn free_tree(
    writer: &Writer,
    blocks: &Rc<dyn ReadBlocks>,
    from: &BpTreeEntry,
    blocks_max: u64,
) -> Result<Freed, ZfsError> {
    let mut walk = walk(writer.rt(), blocks, from);
    let mut freed = Freed { sums: Sums::default(), blocks: 0, place: None, stuck: None };
    loop {
        if freed.blocks >= blocks_max {
            freed.place = walk.place();
            if freed.place.is_some() {
                return Ok(freed);
            }
        }
        let Some(visited) = walk.next_left().await else { return Ok(freed) };
        if let Some(problem) = visited.problem {
            // What can't be read may lie above the place at which this began: what is free before it stays so.
            freed.place = Some(match freed.blocks {
                0 => from.resume.clone(),
                _ => walk.place_of(&visited.at),
            });
            freed.stuck = Some(problem);
            return Ok(freed);
        }
        freed.sums.add(Sums::of(writer.tree(), &visited.pointer), 1);
        freed.blocks += 1;
        free(writer, &visited.pointer);
    }
}

/// Frees a block, unless a damaged pool says so twice.
fn free(writer: &Writer, pointer: &BlockPointer) {
    if !pointer.is_embedded() && writer.holds(pointer) {
        writer.free(pointer);
    }
}

/// Trees that can't be freed, because blocks that say what is in them can't be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// How many.
    pub trees: u64,
    /// Bytes of them that are not free.
    pub bytes: u64,
}

impl Unreadable {
    /// What came since there was so much.
    pub fn since(self, before: Unreadable) -> Unreadable {
        let trees = self.trees.saturating_sub(before.trees);
        Unreadable { trees, bytes: self.bytes.saturating_sub(before.bytes) }
    }
}

/// What waits to be freed, of a pool that is open.
pub struct Freeing {
    /// Blocks that one group frees.
    blocks_max: Cell<u64>,
    /// Something waits; at first nobody has looked.
    waits: Cell<bool>,
    /// The first tree that was not tried since the pool is open: those before are free, or can't be freed.
    next: Cell<u64>,
    /// Bytes that are left of trees that were handed over since the pool is open, by their numbers.
    handed: RefCell<BTreeMap<u64, i64>>,
    /// Those of them that can't be freed.
    unreadable: Cell<Unreadable>,
}

impl Default for Freeing {
    fn default() -> Freeing {
        let (next, handed, unreadable) = Default::default();
        let (blocks_max, waits) = (Cell::new(BLOCKS_MAX), Cell::new(true));
        Freeing { blocks_max, waits, next, handed, unreadable }
    }
}

impl Freeing {
    /// Whether another group has something to free.
    pub fn waits(&self) -> bool {
        self.waits.get()
    }

    /// What was handed over since the pool is open, was tried, and can't be freed.
    pub fn unreadable(&self) -> Unreadable {
        self.unreadable.get()
    }

    /// A tree is to be freed: what it reaches that was born after a group, which is so much.
    ///
    /// # Errors
    /// What is needed can't be had.
    #[boxed(?Send)]
    pub async fn add_tree(
        &self,
        maker: &Maker<'_>,
        writer: &Writer,
        blocks: &Rc<dyn ReadBlocks>,
        (root, after): (&BlockPointer, u64),
        sums: Sums,
    ) -> Result<(), ZfsError> {
        if let Some(uses) = maker.uses(FEATURE).await? {
            let number = append_tree(maker, uses, root, after, sums).await?;
            self.handed.borrow_mut().insert(number, sums.used);
            return Ok(());
        }
        let start = BpTreeEntry { pointer: *root, birth_txg: after, resume: START };
        let freed = free_tree(writer, blocks, &start, u64::MAX).await?;
        freed.stuck.map_or(Ok(()), Err)?;
        take_off(maker, freed.sums).await
    }

    /// Something may have come.
    pub fn look_again(&self) {
        self.waits.set(true);
    }

    /// Lets a group free so many blocks.
    pub fn set_blocks_max(&self, blocks: u64) {
        self.blocks_max.set(blocks.max(1));
    }

    /// Blocks that a group frees.
    pub fn blocks_max(&self) -> u64 {
        self.blocks_max.get()
    }

    /// Frees a part.
    ///
    /// # Errors
    /// What says what is to be freed can't be had.
    #[boxed(?Send)]
    pub async fn advance(
        &self,
        maker: &Maker<'_>,
        writer: &Writer,
        blocks: &Rc<dyn ReadBlocks>,
    ) -> Result<(), ZfsError> {
        if !self.waits() {
            return Ok(());
        }
        let mut left = self.blocks_max.get();
        if let Some(list) = entry(maker, pool_directory::FREE_BPOBJ).await? {
            left = free_list(maker, writer, &list, left).await?;
        }
        if let Some(trees) = entry(maker, pool_directory::BPTREE).await? {
            left = self.free_trees(maker, writer, blocks, &trees, left).await?;
        }
        if let Some(clones) = entry(maker, pool_directory::DELETED_CLONES).await? {
            left = free_livelists(maker, writer, &clones, left).await?;
        }
        left = obsolete::advance(maker, writer, left).await?;
        self.waits.set(left == 0);
        Ok(())
    }

    /// So much of a tree is free now.
    fn count(&self, number: u64, freed: &Freed) {
        let mut handed = self.handed.borrow_mut();
        let Some(left) = handed.get_mut(&number) else { return };
        *left -= freed.sums.used;
        if freed.stuck.is_some() {
            let Unreadable { trees, bytes } = self.unreadable.get();
            let bytes = bytes.saturating_add_signed((*left).max(0));
            self.unreadable.set(Unreadable { trees: trees + 1, bytes });
        }
        if freed.stuck.is_some() || freed.place.is_none() {
            handed.remove(&number);
        }
    }

    /// Frees blocks of trees; says how many may be freed yet.
    async fn free_trees(
        &self,
        maker: &Maker<'_>,
        writer: &Writer,
        blocks: &Rc<dyn ReadBlocks>,
        trees: &Dnode,
        mut left: u64,
    ) -> Result<u64, ZfsError> {
        let mut state = state_of(maker, trees)?;
        let before = state.clone();
        let mut number = self.next.get().max(state.begin);
        while left > 0 && number < state.end {
            let (at, len) = (number * BpTreeEntry::BYTES as u64, BpTreeEntry::BYTES);
            let bytes = trees.read(at, len).await?.to_vec();
            let mut from =
                BpTreeEntry::decode(&bytes, trees.endian()).map_err(|error| trees.wrong(error))?;
            let freed = free_tree(writer, blocks, &from, left).await?;
            left -= freed.blocks.min(left);
            self.count(number, &freed);
            if freed.blocks > 0 {
                change(&mut state, freed.sums, -1);
                take_off(maker, freed.sums).await?;
            }
            let is_over = freed.stuck.is_some() || freed.place.is_none();
            match freed.place {
                Some(_) if freed.blocks == 0 => {}
                Some(place) => {
                    if !planted::is(Bug::PlaceNotKept) {
                        from.resume = place;
                    }
                    put_entry(maker, trees, number, &from).await?;
                }
                None if number > state.begin => {
                    if from.birth_txg != ALL_FREE {
                        from.birth_txg = ALL_FREE;
                        put_entry(maker, trees, number, &from).await?;
                    }
                }
                None => {
                    let range = at..at + len as u64;
                    maker
                        .mos
                        .change(|tx| {
                            trees.plan_zero(range.clone())?;
                            trees.zero(tx, range.clone());
                            Ok(())
                        })
                        .await?;
                    state.begin += 1;
                }
            }
            number += u64::from(is_over);
        }
        self.next.set(number);
        if state.begin < state.end {
            if state != before {
                maker.edit::<BpTree>(trees, |bonus| *bonus = state.clone()).await?;
            }
            return Ok(left);
        }
        self.next.set(0);
        let directory = maker.mos.dnode(pool_directory::OBJECT).await?;
        table::remove(maker.mos, &directory, pool_directory::BPTREE).await?;
        maker.free_object(trees).await?;
        maker.count_use(FEATURE, -1).await?;
        Ok(left)
    }
}

impl Spa {
    /// Bytes of destroyed file systems and volumes that wait to be freed, where blocks that say what is in one of them can't be
    /// read. Nothing where that isn't so. Of each tree no more is read than what leads to the first block that is left.
    ///
    /// # Errors
    /// What says what is to be freed can't be had.
    #[boxed(?Send)]
    pub async fn unreadable_trees(&self) -> Result<Option<u64>, ZfsError> {
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let Some(number) = directory.number(pool_directory::BPTREE).await? else { return Ok(None) };
        let (state, trees) = lists::destroyed(self.mos(), number).await?;
        let blocks = Rc::clone(self.zio()) as Rc<dyn ReadBlocks>;
        let left = trees.into_iter().filter(|tree| tree.birth_txg != ALL_FREE);
        for tree in left.take(LOOKED_MAX) {
            let first = walk(self.rt(), &blocks, &tree).next_left().await;
            if first.is_some_and(|first| first.problem.is_some()) {
                return Ok(Some(state.bytes));
            }
        }
        Ok(None)
    }
}

/// Frees what is on livelists of destroyed clones; says how many blocks may be freed yet.
async fn free_livelists(
    maker: &Maker<'_>,
    writer: &Writer,
    clones: &Dnode,
    mut left: u64,
) -> Result<u64, ZfsError> {
    for clone in Zap::open(clones.clone()).await?.entries().await? {
        let wrong = || clones.problem(Problem::Entry("of a livelist"));
        let number = clone.number().ok_or_else(wrong)?;
        let mut livelist = Deadlist::open_livelist(maker, number).await?;
        let lists: Vec<(u64, u64)> = livelist.lists().collect();
        for (key, list) in lists {
            if left == 0 {
                return Ok(0);
            }
            let mut freed = Sums::default();
            for pointer in live(maker.mos, list).await? {
                freed.add(Sums::of(writer.tree(), &pointer), 1);
                free(writer, &pointer);
                left = left.saturating_sub(1);
            }
            take_off(maker, freed).await?;
            livelist.drop_list(key).await?;
        }
        livelist.destroy_empty().await?;
        maker.count_use(livelist::FEATURE, -1).await?;
        table::remove(maker.mos, clones, &clone.text()).await?;
    }
    let directory = maker.mos.dnode(pool_directory::OBJECT).await?;
    table::remove(maker.mos, &directory, pool_directory::DELETED_CLONES).await?;
    maker.free_object(clones).await?;
    Ok(left)
}

/// Frees pointers of a list; says how many blocks may be freed yet.
async fn free_list(
    maker: &Maker<'_>,
    writer: &Writer,
    list: &Dnode,
    left: u64,
) -> Result<u64, ZfsError> {
    let each = &mut |pointer: &BlockPointer| free(writer, pointer);
    let drained = maker.drain(list, left, writer.tree(), each).await?;
    take_off(maker, drained.sums).await?;
    Ok(drained.left)
}
