//! Who else has a damaged block.
//!
//! A scrub reads a block once, by the oldest snapshot that leads to it. Later snapshots and the file system itself may
//! point to the same bytes, at the same place of the same object, and have lost them too. So for each damaged block, of data or
//! above it, the pointers of all other datasets at that place are looked at: one that was born at the same time and lies at the
//! same address is the same block.
//!
//! Most of them cost no read. A dataset whose own root is older than the block can't have it; one with the same root as the one that
//! was read has all that this has. What leads to a pointer is read through the cache, so that the next block beside it costs
//! none either. Snapshots may be many, so no more than [`LOOKUPS_MAX`] pointers are looked for by reading.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use zfs::dmu::{Dnode, Objset};
use zfs::dsl::{Dataset, Directory};
use zfs::spa::Spa;
use zfs_format::block_pointer::BlockPointer;
use zfs_store::Bookmark;

/// Pointers that are looked for by reading, for all damaged blocks together.
const LOOKUPS_MAX: usize = 1 << 16;
/// The object of an objset's own table of objects.
const META_DNODE: u64 = 0;
/// The block number by which a spill block goes.
const SPILL: u64 = u64::MAX;

/// A dataset that may have what another lost.
struct Other {
    directory: Directory,
    dataset: Dataset,
    /// Nothing where it can't be had; opened when it is first needed.
    objset: OnceCell<Option<Objset>>,
}

impl Other {
    fn root(&self) -> &BlockPointer {
        &self.dataset.head.pointer
    }

    /// The pointer that it has at a place; nothing where there is none, or it can't be had.
    async fn pointer(&self, spa: &Spa, at: &Bookmark) -> Option<BlockPointer> {
        if self.objset.get().is_none() {
            let opened = spa.objset(&self.directory, &self.dataset).await.ok();
            self.objset.get_or_init(|| opened);
        }
        let objset = self.objset.get()?.as_ref()?;
        // No key is needed: pointers are not encrypted.
        let dnode = match at.object {
            META_DNODE => objset.meta().ok()?.clone(),
            object => match used_table(objset, object) {
                Some(table) => table,
                None => objset.dnode_without_bonus(object).await.ok()?,
            },
        };
        match (at.level, at.block) {
            (0, SPILL) => dnode.phys().spill,
            (level, block) => {
                dnode.pointer_at(u8::try_from(level).ok()?, block).await.ok().flatten()
            }
        }
    }
}

/// The tables of what users, groups and projects use stand beside the others, with the last numbers that there are.
fn used_table(objset: &Objset, object: u64) -> Option<Dnode> {
    objset.used(usize::try_from(u64::MAX - object).ok()?)
}

/// See the [module](self).
pub struct Sharing<'a> {
    spa: &'a Spa,
    names: &'a BTreeMap<u64, String>,
    /// Datasets by their numbers; nothing where one can't be had.
    others: BTreeMap<u64, Option<Other>>,
    known: BTreeSet<Bookmark>,
    left: usize,
}

impl<'a> Sharing<'a> {
    /// For blocks at these places, in datasets of these names.
    pub fn new(
        spa: &'a Spa,
        names: &'a BTreeMap<u64, String>,
        known: BTreeSet<Bookmark>,
    ) -> Sharing<'a> {
        Sharing { spa, names, others: BTreeMap::new(), known, left: LOOKUPS_MAX }
    }

    /// Whether there were more places than were looked at.
    pub fn is_cut(&self) -> bool {
        self.left == 0
    }

    /// The places in other datasets that have the block which stands here, without those that are known.
    pub async fn others(&mut self, at: Bookmark, lost: &BlockPointer) -> Vec<Bookmark> {
        let mut found = Vec::new();
        // The pool's own blocks are nobody else's, nor are those of an intent log.
        if at.objset == 0 || at.level < -1 {
            return found;
        }
        let root = self.other(at.objset).await.map(|other| *other.root());
        let names = self.names;
        for objset in names.keys().copied().filter(|other| *other != at.objset && *other != 0) {
            let other = Bookmark { objset, ..at };
            if self.left == 0 {
                break;
            }
            if !self.known.contains(&other) && self.has(&other, lost, root.as_ref()).await {
                self.known.insert(other);
                found.push(other);
            }
        }
        found
    }

    /// Whether a dataset has a block at a place, which one with this root has there.
    async fn has(
        &mut self,
        at: &Bookmark,
        lost: &BlockPointer,
        root: Option<&BlockPointer>,
    ) -> bool {
        let Some(own) = self.other(at.objset).await.map(|other| *other.root()) else {
            return false;
        };
        if root.is_some_and(|root| is_same(&own, root)) {
            return true;
        }
        // What leads to a block was written with it or later.
        if at.level < 0 || own.logical_birth() < lost.logical_birth() {
            return false;
        }
        self.left -= 1;
        let spa = self.spa;
        let pointer = match self.other(at.objset).await {
            Some(other) => other.pointer(spa, at).await,
            None => None,
        };
        pointer.is_some_and(|pointer| is_same(&pointer, lost))
    }

    async fn other(&mut self, number: u64) -> Option<&Other> {
        if !self.others.contains_key(&number) {
            let found = self.find(number).await;
            self.others.insert(number, found);
        }
        self.others.get(&number)?.as_ref()
    }

    async fn find(&self, number: u64) -> Option<Other> {
        let (directory, dataset) = self.spa.dsl().find(self.names.get(&number)?).await.ok()??;
        Some(Other { directory, dataset, objset: OnceCell::new() })
    }
}

/// Whether two pointers are to one block: the same address, written at the same time.
fn is_same(a: &BlockPointer, b: &BlockPointer) -> bool {
    let is_stored = |pointer: &BlockPointer| !pointer.is_hole() && !pointer.is_embedded();
    let place = |pointer: &BlockPointer| (pointer.dva(0).vdev(), pointer.dva(0).offset());
    is_stored(a)
        && is_stored(b)
        && place(a) == place(b)
        && a.physical_birth() == b.physical_birth()
        && a.logical_birth() == b.logical_birth()
}
