//! Livelists: what a clone has allocated since it began and not freed, so that it can be destroyed without going over its tree.
//!
//! A clone shares most of its tree with its origin, and the few blocks that are its own lie scattered in it: to find them by
//! reading takes a read for each few. So each block that is born after the origin goes onto the clone's livelist, and goes onto
//! it again, as freed, when the clone lets it go. What was allocated and not freed is what goes with the clone:
//!
//! ```text
//!   key 7     +a +b +c  −b         lists by birth, as of a deadlist: an allocation and its free are in the same one
//!   key 12    +d −d +e             read from the end: a free takes off the nearest allocation of that place before it
//! ```
//!
//! * **Begun** with the clone, where the feature `livelist` is enabled.
//! * **Another list** is begun when the last has many allocations, for what is born after the group: one group is in one list.
//! * **Condensed**: two lists that follow each other and of which little is left become one.
//! * **Ended** when the clone shares three quarters or less of what it reaches with its origin (going over its tree is as good then),
//!   when it is promoted or taken back, and for what a promoted clone began from.
//! * **Handed over** to the pool when the clone is destroyed ([`spa::freeing`](crate::spa::freeing)).
//!
//! A block that is allocated and freed between two settlings is on no list. What was allocated before stands in a list of an
//! earlier settling, so frees go before allocations: a place that was given back and taken again within one group is told apart.
//!
//! Source: OpenZFS, `dsl_deadlist.c` (`dsl_process_sub_livelist`), `dsl_dataset.c` (`dsl_flush_pending_livelist`,
//! `dsl_livelist_should_disable`), `dsl_dir.c` (`dsl_dir_remove_livelist`), `dsl_destroy.c` (`dsl_async_clone_destroy`).

use super::ZAP_METADATA;
use super::bpobj::{header, pointers};
use super::deadlist::Deadlist;
use super::make::{METADATA_TABLE, Maker};
use crate::dmu::{Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use std::collections::BTreeMap;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dsl::bpobj::is_freed;
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::dsl::dir::{DslDir, fields};
use zfs_format::dsl::number_name;
use zfs_format::pool_directory;
use zfs_store::Tree;

/// The feature.
pub const FEATURE: &str = "livelist";
/// Allocations after which another list is begun: of 128 bytes each, a list is gone through in memory. (OpenZFS: 500 000.)
pub const ALLOCATIONS_MAX: u64 = 1 << 16;
/// Percent of what a clone reaches that it shares with its origin, at which its livelist ends.
const SHARED_PERCENT_MIN: u64 = 75;

/// Pointers of one list at the most: OpenZFS begins another after half a million allocations.
const POINTERS_MAX: u64 = 1 << 22;
/// Pointers that are read at once.
const POINTERS_READ: u64 = 1 << 13;

/// What a livelist is to be told.
pub struct Pending {
    /// Blocks born after it are the clone's.
    origin_txg: u64,
    allocations_max: u64,
    /// By the first place, the oldest first.
    allocated: BTreeMap<[u64; 2], Vec<BlockPointer>>,
    freed: Vec<BlockPointer>,
}

fn place(pointer: &BlockPointer) -> [u64; 2] {
    let dva = pointer.dva(0);
    [dva.vdev().into(), dva.offset()]
}

impl Pending {
    /// Nothing, of a clone of an origin of this group; after so many allocations another list is begun.
    pub fn new(origin_txg: u64, allocations_max: u64) -> Pending {
        let (allocated, freed) = Default::default();
        Pending { origin_txg, allocations_max, allocated, freed }
    }

    /// What stands in its pointer takes no place that would have to be freed.
    fn is_told(&self, pointer: &BlockPointer) -> bool {
        pointer.logical_birth() > self.origin_txg && !pointer.is_embedded()
    }

    /// A block was born.
    pub fn born(&mut self, pointer: &BlockPointer) {
        if self.is_told(pointer) {
            self.allocated.entry(place(pointer)).or_default().push(*pointer);
        }
    }

    /// A block is not the clone's any more.
    pub fn killed(&mut self, pointer: &BlockPointer) {
        if !self.is_told(pointer) || planted::nth(Bug::LivelistFreeLost, 10) {
            return;
        }
        if self.allocated.get_mut(&place(pointer)).and_then(Vec::pop).is_none() {
            self.freed.push(*pointer);
        }
    }
}

/// What a list of a livelist says was allocated and not freed, the last first.
///
/// # Errors
/// It can't be read, or is longer than such lists are.
pub async fn live(mos: &Objset, list: u64) -> Result<Vec<BlockPointer>, ZfsError> {
    let list = mos.dnode(list).await?;
    let mut left = header(&list)?.pointers;
    if left > POINTERS_MAX {
        let (what, limit) = ("pointers of a livelist", POINTERS_MAX);
        return Err(list.problem(Problem::Limit { what, limit }));
    }
    let (mut found, mut freed) = (Vec::new(), BTreeMap::<[u64; 2], u64>::new());
    while left > 0 {
        let many = left.min(POINTERS_READ);
        left -= many;
        for pointer in pointers(&list, left, many).await?.into_iter().rev() {
            let open = freed.entry(place(&pointer)).or_default();
            match is_freed(&pointer) {
                true => *open += 1,
                false if *open > 0 => *open -= 1,
                false => found.push(pointer),
            }
        }
    }
    Ok(found)
}

impl Maker<'_> {
    /// The livelist of a directory.
    ///
    /// # Errors
    /// Its table can't be had.
    pub async fn livelist_of(&self, directory: &Dnode) -> Result<Option<u64>, ZfsError> {
        if directory.phys().object_type != ZAP_METADATA {
            return Ok(None);
        }
        Zap::open(directory.clone()).await?.number(fields::LIVELIST).await
    }

    /// What the livelist of a directory is to be told, where it has one: [`Pending::new`].
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn pending_of(
        &self,
        directory: u64,
        allocations_max: u64,
    ) -> Result<Option<Pending>, ZfsError> {
        let object = self.mos.dnode(directory).await?;
        let origin = self.bonus::<DslDir>(&object)?.origin;
        if origin == 0 || self.livelist_of(&object).await?.is_none() {
            return Ok(None);
        }
        let origin = self.bonus::<DslDataset>(&self.mos.dnode(origin).await?)?;
        Ok(Some(Pending::new(origin.creation_txg, allocations_max)))
    }

    /// A clone that was made has a livelist, where the pool has the feature.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn begin_livelist(&self, directory: &Dnode) -> Result<(), ZfsError> {
        if self.uses(FEATURE).await?.is_none() {
            return Ok(());
        }
        self.zapify(directory).await?;
        let list = table::number(self.deadlist().await?.number());
        table::set(self.mos, directory, fields::LIVELIST, list).await?;
        self.count_use(FEATURE, 1).await
    }

    async fn forget_livelist(&self, directory: &Dnode) -> Result<Option<u64>, ZfsError> {
        let list = self.livelist_of(directory).await?;
        if list.is_some() {
            table::remove(self.mos, directory, fields::LIVELIST).await?;
        }
        Ok(list)
    }

    /// A directory has no livelist from here on.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn end_livelist(&self, directory: &Dnode) -> Result<(), ZfsError> {
        let Some(list) = self.forget_livelist(directory).await? else { return Ok(()) };
        Deadlist::open(self, list).await?.destroy().await?;
        self.count_use(FEATURE, -1).await
    }

    /// A directory goes, and the pool frees what is on its livelist.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn hand_over_livelist(&self, directory: &Dnode) -> Result<(), ZfsError> {
        let Some(list) = self.forget_livelist(directory).await? else { return Ok(()) };
        let pool = self.mos.dnode(pool_directory::OBJECT).await?;
        let known = Zap::open(pool.clone()).await?.number(pool_directory::DELETED_CLONES).await?;
        let clones = match known {
            Some(clones) => self.mos.dnode(clones).await?,
            None => {
                let clones = self.table(METADATA_TABLE).await?;
                let number = table::number(clones.number());
                table::set(self.mos, &pool, pool_directory::DELETED_CLONES, number).await?;
                clones
            }
        };
        table::set(self.mos, &clones, &number_name(list), table::number(list)).await
    }

    /// Tells a clone's livelist what a group did, after its books are settled. It may end with that.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub async fn settle_livelist(
        &self,
        head: &DslDataset,
        pending: Pending,
        tree: &Tree,
    ) -> Result<(), ZfsError> {
        let directory = self.mos.dnode(head.dir).await?;
        let Some(list) = self.livelist_of(&directory).await? else { return Ok(()) };
        let allocated: Vec<BlockPointer> = pending.allocated.into_values().flatten().collect();
        let own = self.bonus::<DslDir>(&directory)?.used_breakdown[0];
        let shared = head.referenced_bytes.saturating_sub(own);
        let least = u128::from(head.referenced_bytes) * u128::from(SHARED_PERCENT_MIN);
        if head.referenced_bytes > 0 && u128::from(shared) * 100 <= least {
            return self.end_livelist(&directory).await;
        }
        let mut list = Deadlist::open_livelist(self, list).await?;
        if list.keys().next().is_none() {
            list.add_key(self.txg - 1).await?;
        }
        list.insert_freed(&pending.freed, tree).await?;
        list.insert(&allocated, tree).await?;
        let most = pending.allocations_max;
        self.condense(&mut list, most, tree).await?;
        let last = list.lists().last();
        if let Some((_, last)) = last {
            let last = header(&self.mos.dnode(last).await?)?;
            if last.pointers.saturating_sub(last.freed) > most {
                list.add_key(self.txg).await?;
            }
        }
        Ok(())
    }

    /// The first two lists that follow each other and together have few blocks left become one; not the last, which grows.
    async fn condense(
        &self,
        list: &mut Deadlist<'_>,
        most: u64,
        tree: &Tree,
    ) -> Result<(), ZfsError> {
        let lists: Vec<(u64, u64)> = list.lists().collect();
        for pair in lists.windows(2).take(lists.len().saturating_sub(2)) {
            let mut left = 0_u64;
            for (_, number) in pair {
                let list = header(&self.mos.dnode(*number).await?)?;
                // Each free takes off an allocation.
                left += list.pointers.saturating_sub(list.freed.saturating_mul(2));
            }
            if left > most {
                continue;
            }
            let mut kept = Vec::new();
            for (key, number) in pair {
                kept.extend(live(self.mos, *number).await?);
                list.drop_list(*key).await?;
            }
            list.add_key(pair[0].0).await?;
            list.insert(&kept, tree).await?;
            break;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::block_pointer::Dva;

    fn at(place: u64, birth: u64) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_dva(0, Dva::new(0, place << 12, 4096, false));
        pointer.set_births(birth, birth);
        pointer
    }

    #[test]
    fn only_what_was_there_before_is_told_as_freed() {
        let mut pending = Pending::new(7, 1);
        pending.killed(&at(1, 7));
        pending.born(&at(2, 9));
        pending.killed(&at(2, 9));
        pending.born(&at(2, 9));
        pending.killed(&at(3, 8));
        pending.born(&at(3, 9));
        assert_eq!(pending.freed, [at(3, 8)], "the origin's is not the clone's");
        let told: Vec<_> = pending.allocated.into_values().flatten().collect();
        assert_eq!(told, [at(2, 9), at(3, 9)]);
    }
}
