//! Which transaction groups a device has never seen, as its labels tell.
//!
//! A pool notes in its dirty time logs ([`dtls`](super::dtls)) what its devices miss that are away. It can't note it of a device that
//! came back in another's place: an old copy, a side of a mirror that another host went on with. There the ring of uberblocks tells:
//!
//! 1. Each group's uberblock goes to all devices of a top-level vdev together, once all that the group wrote is durable. So who has the
//!    uberblock of a group has the blocks of it and of all before it, as far as it was there.
//! 2. OpenZFS writes it to three of the top-level vdevs that aren't for logs alone, where labels don't change otherwise. So in a pool of
//!    no more than three, each should have the newest; in others it is what the newest of the same vdev have.
//! 3. Power that goes while uberblocks are written leaves them on some devices only, and nothing is missing on the others: one group less
//!    says nothing.
//!
//! The same rings tell of a device that is up to date again which groups it was away for, where nothing else does: what was written
//! then and can't be read now, the pool's own notes of it among that, was not written to it ([`unseen`](FoundPool::unseen)).
//!
//! Source: OpenZFS, `vdev_label.c` (`vdev_uberblock_sync`, `vdev_config_sync`), `spa.c` (`spa_sync_rewrite_vdev_config`).

use super::found::FoundPool;
use crate::health::{self, lost_groups};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stdx::RangeSet;
use zfs_format::vdev::{Vdev, VdevKind};

/// Top-level vdevs that get each group's uberblock.
const TOPS_WRITTEN: usize = 3;

/// Whether a top-level vdev has devices that get uberblocks of groups.
fn is_data(top: &Vdev) -> bool {
    let is_hole = matches!(top.kind, VdevKind::Hole | VdevKind::Indirect(_));
    !top.is_for_logs() && !is_hole
}

impl FoundPool {
    /// Whether each group's uberblock goes to all devices that aren't for logs alone.
    pub(super) fn all_get_uberblocks(&self) -> bool {
        self.tops.values().filter(|top| is_data(top)).count() <= TOPS_WRITTEN
    }

    /// Groups that devices have not seen, by their GUIDs; those that have seen all are not in it.
    pub fn behind(&self) -> BTreeMap<u64, Range<u64>> {
        let all_get_it = self.all_get_uberblocks();
        let newest = self.uberblock.as_ref().map_or(0, |uberblock| uberblock.txg);
        let mut behind = BTreeMap::new();
        for top in self.tops.values() {
            let last = |leaf: &Vdev| Some((leaf.guid, self.members.get(&leaf.guid)?.last_group()?));
            let seen: Vec<(u64, u64)> = top.leaves().into_iter().filter_map(last).collect();
            let expected = match all_get_it && is_data(top) {
                true => newest,
                false => seen.iter().map(|(_, txg)| *txg).max().unwrap_or(0),
            };
            let late = seen.into_iter().filter(|(_, txg)| expected.saturating_sub(*txg) > 1);
            behind.extend(late.map(|(guid, txg)| (guid, txg + 1..expected + 1)));
        }
        behind
    }

    /// The groups around this one that a leaf has not seen by its ring, where a block of it can't be read that should be on the leaf: those
    /// between the uberblocks that it has. Nothing where it has this group's: then the block was on it, and is damaged. Of a leaf that isn't
    /// there all rings tell.
    pub(super) fn unseen(&self, leaf: u64, txg: u64) -> Option<Range<u64>> {
        let members = self.members.values();
        let alone = self.members.contains_key(&leaf);
        let members = members.filter(|member| !alone || member.guid == leaf);
        let labels = members.flat_map(|member| &member.labels.labels);
        let seen = labels.flat_map(|label| &label.uberblocks).map(|found| found.uberblock.txg);
        // New devices are labelled with one of no group.
        let seen: BTreeSet<u64> = seen.filter(|seen| *seen > 0).collect();
        if alone && seen.contains(&txg) {
            return None;
        }
        let start = seen.range(..txg).next_back().map_or(txg, |last| last + 1);
        Some(start..seen.range(txg + 1..).next().copied().unwrap_or(txg + 1))
    }

    /// The groups that a leaf missed by its ring, where it is not known otherwise: those [around this one](FoundPool::unseen), and where each
    /// group's uberblock goes to all devices, all others between those that it has. In some of them nothing may have been written.
    pub(super) fn missed(&self, leaf: u64, txg: u64) -> RangeSet {
        let mut missed: RangeSet = self.unseen(leaf, txg).into_iter().collect();
        let member = self.members.get(&leaf).filter(|_| self.all_get_uberblocks());
        if let Some(member) = member.filter(|_| !missed.is_empty()) {
            let labels = member.labels.labels.iter();
            let ring = || labels.clone().flat_map(|label| &label.uberblocks);
            let seen: BTreeSet<u64> = ring().map(|found| found.uberblock.txg).collect();
            // What was written before a ring went round stands in it still where later groups were missed.
            let slots = ring().map(|found| found.slot + 1).max().unwrap_or(0);
            let newest = seen.last().copied().unwrap_or(0);
            let seen = seen.into_iter().filter(|seen| *seen > newest.saturating_sub(slots));
            let seen: Vec<u64> = seen.collect();
            let between = seen.windows(2).map(|pair| pair[0] + 1..pair[1]);
            missed.extend(between.filter(|between| !between.is_empty()));
        }
        missed
    }

    /// The groups around this one, of which a block can't be read, that are lost for a vdev as rings tell: too many of its leaves have
    /// not seen them, or are missing. Nothing where so many have that the block is damaged.
    pub(super) fn lost_unseen(&self, txg: u64) -> RangeSet {
        let present = self.present();
        let mut lost = RangeSet::default();
        for top in self.tops.values().filter(|top| is_data(top)) {
            let of_top = lost_groups(&health::of_vdev(top, &present), &|leaf| match present
                .there
                .contains(&leaf.vdev.guid)
            {
                true => self.unseen(leaf.vdev.guid, txg).into_iter().collect(),
                false => std::iter::once(0..u64::MAX).collect(),
            });
            // Who lost all is missing, and has a word of its own.
            if of_top.contains(txg) && !of_top.contains(u64::MAX - 1) {
                lost.extend(of_top.iter());
            }
        }
        lost
    }

    /// The last group before this one of which an uberblock is left, and when it was written, in seconds since 1970.
    pub fn last_before(&self, txg: u64) -> Option<(u64, u64)> {
        let uberblocks = self.uberblocks();
        let before = uberblocks.iter().filter(|one| one.txg < txg).max_by_key(|one| one.txg)?;
        Some((before.txg, before.timestamp))
    }
}
