//! Who else has a damaged block.
//!
//! A scrub reads a block once, by the oldest snapshot that leads to it. Later snapshots and the file system itself may
//! point to the same bytes, at the same place of the same object, and have lost them too. So for each damaged block of data
//! the pointers of all other datasets at that place are looked at: one that was born at the same time and lies at the
//! same address is the same block. Snapshots may be many, so no more than [`LOOKUPS_MAX`] pointers are looked at.

use std::collections::{BTreeMap, BTreeSet};
use zfs::dmu::Objset;
use zfs::spa::Spa;
use zfs_format::block_pointer::BlockPointer;
use zfs_store::Bookmark;

/// Pointers that are looked at for all damaged blocks together: each may cost a read.
const LOOKUPS_MAX: usize = 1 << 16;

/// See the [module](self).
pub struct Sharing<'a> {
    spa: &'a Spa,
    names: &'a BTreeMap<u64, String>,
    /// Objsets by the numbers of their datasets; nothing where one can't be had.
    open: BTreeMap<u64, Option<Objset>>,
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
        Sharing { spa, names, open: BTreeMap::new(), known, left: LOOKUPS_MAX }
    }

    /// Whether there were more places than were looked at.
    pub fn is_cut(&self) -> bool {
        self.left == 0
    }

    /// The places in other datasets that have the block which stands here, without those that are known.
    pub async fn others(&mut self, at: Bookmark) -> Vec<Bookmark> {
        let mut found = Vec::new();
        if at.level != 0 {
            return found;
        }
        let Some(lost) = self.pointer(at.objset, at.object, at.block).await else { return found };
        let names = self.names;
        for objset in names.keys().copied().filter(|other| *other != at.objset && *other != 0) {
            let other = Bookmark { objset, ..at };
            if self.left == 0 {
                break;
            }
            if self.known.contains(&other) {
                continue;
            }
            self.left -= 1;
            let pointer = self.pointer(objset, at.object, at.block).await;
            if pointer.is_some_and(|pointer| is_same(&pointer, &lost)) {
                self.known.insert(other);
                found.push(other);
            }
        }
        found
    }

    /// The pointer to a block of data; nothing where there is none, or it can't be had.
    async fn pointer(&mut self, objset: u64, object: u64, block: u64) -> Option<BlockPointer> {
        if !self.open.contains_key(&objset) {
            let opened = self.objset(objset).await;
            self.open.insert(objset, opened);
        }
        let objset = self.open.get(&objset)?.as_ref()?;
        // No key is needed: pointers are not encrypted.
        objset.dnode_without_bonus(object).await.ok()?.pointer(block).await.ok()?
    }

    async fn objset(&self, number: u64) -> Option<Objset> {
        let (directory, dataset) = self.spa.dsl().find(self.names.get(&number)?).await.ok()??;
        self.spa.objset(&directory, &dataset).await.ok()
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
