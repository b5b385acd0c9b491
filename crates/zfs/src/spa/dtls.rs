//! Which transaction groups each leaf misses, written down: its dirty time log (DTL).
//!
//! A leaf that is away, or fails, misses what is written meanwhile, and the vdevs keep account of that in memory
//! ([`zfs_store::Tree::dtl`]). Here it goes into a space map of group numbers, which the leaf's configuration names. Whoever opens the
//! pool when the leaf is back knows by it what not to believe, and OpenZFS begins to resilver.
//!
//! **Rules.**
//!
//! 1. A leaf that can't be written when a group closes misses that group, whether anything of it would have been written there or
//!    not. So the map that the group's own MOS has says so, and the passes come to rest.
//! 2. One that fails amid a group, or when all of it is made durable, is written down with the pass after; the last pass is one after
//!    which nothing is left to be written down.
//! 3. What fails later than that, with labels and uberblock, the pool *owes* to the next group: its blocks are there.
//! 4. Nothing is taken out here. What a leaf got back, who brought it back takes out.
//! 5. What only the labels of a leaf tell that it misses ([`behind`](super::behind)) is written down with the first group: its labels
//!    are as new as the others' from then on.
//!
//! The map is written anew each time: it is a stretch or two.
//!
//! A map that can't be read leaves unknown what its leaf misses. Most often its blocks are among what the leaf misses itself, and lie on a
//! device that is away now: so its leaf misses the groups in which they were written, and what else its labels tell ([`behind`](super::behind)); and where nobody
//! stands in for it those are [lost](super::lost). Such a pool is written only where that is accepted, and then the map is written anew with
//! what is known.
//!
//! Source: OpenZFS, `vdev.c` (`vdev_dtl_dirty`, `vdev_dtl_sync`).

use super::maps::{self, MapForm};
use super::open::{Spa, missing};
use crate::dmu::Objset;
use crate::error::ZfsError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use stdx::RangeSet;
use zfs_format::vdev::Vdev;
use zfs_store::Tree;

/// What the maps of leaves say, by the leaves' GUIDs; nothing of a map that can't be read.
#[derive(Default)]
pub(super) struct Dtls(RefCell<BTreeMap<u64, Option<RangeSet>>>);

/// What the maps of a pool say, which the leaves are told.
///
/// # Errors
/// One can't be had: what its leaf misses would be forgotten by who writes it anew. Where it is damaged and that is accepted, that leaf
/// misses what it was told when the pool was opened.
pub(super) async fn load(spa: &Spa, accepts_loss: bool) -> Result<Dtls, ZfsError> {
    let mut known = BTreeMap::new();
    for leaf in spa.vdevs().leaves() {
        let Some(object) = leaf.dtl.filter(|object| *object != 0) else { continue };
        let txgs = match missing(spa.mos(), object).await {
            Err(error) if accepts_loss && error.is_damage() => {
                known.insert(leaf.guid, None);
                continue;
            }
            read => read?,
        };
        known.insert(leaf.guid, Some(txgs.clone()));
        let mut lacks = txgs;
        lacks.extend(spa.behind(leaf.guid));
        spa.tree().set_dtl(leaf.guid, lacks);
    }
    Ok(Dtls(RefCell::new(known)))
}

impl Dtls {
    /// What is to be written down: leaves, and what they miss.
    pub(super) fn owed(&self, root: &Vdev, tree: &Tree) -> Vec<(u64, RangeSet)> {
        let written = self.0.borrow();
        let mut owed = Vec::new();
        for leaf in root.leaves() {
            let now = tree.dtl(leaf.guid).unwrap_or_default();
            let is_written = match written.get(&leaf.guid) {
                Some(written) => written.as_ref() == Some(&now),
                None => now.is_empty(),
            };
            if !is_written {
                owed.push((leaf.guid, now));
            }
        }
        owed
    }

    /// Writes down what leaves miss; gives the leaves that have a map from here on, with its object.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(super) async fn write(
        &self,
        (root, tree): (&Vdev, &Tree),
        mos: &Objset,
        form: MapForm,
        group: (u64, u16),
    ) -> Result<Vec<(u64, u64)>, ZfsError> {
        let mut made = Vec::new();
        for (guid, txgs) in self.owed(root, tree) {
            let leaf = root.leaves().into_iter().find(|leaf| leaf.guid == guid);
            let map = match leaf.and_then(|leaf| leaf.dtl).filter(|object| *object != 0) {
                Some(object) => mos.dnode(object).await?,
                None => {
                    let map = maps::make(mos, form).await?;
                    made.push((guid, map.number()));
                    map
                }
            };
            maps::rewrite(mos, &map, form, group, &txgs).await?;
            self.0.borrow_mut().insert(guid, Some(txgs));
        }
        Ok(made)
    }
}

/// A leaf at or below a vdev has a map.
pub(super) fn set(vdev: &mut Vdev, guid: u64, object: u64) {
    if vdev.guid == guid && vdev.is_leaf() {
        vdev.dtl = Some(object);
    }
    vdev.children.iter_mut().for_each(|child| set(child, guid, object));
}
