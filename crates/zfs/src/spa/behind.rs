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
//! Source: OpenZFS, `vdev_label.c` (`vdev_uberblock_sync`, `vdev_config_sync`), `spa.c` (`spa_sync_rewrite_vdev_config`).

use super::found::FoundPool;
use std::collections::BTreeMap;
use std::ops::Range;
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

    /// The last group before this one of which an uberblock is left, and when it was written, in seconds since 1970.
    pub fn last_before(&self, txg: u64) -> Option<(u64, u64)> {
        let uberblocks = self.uberblocks();
        let before = uberblocks.iter().filter(|one| one.txg < txg).max_by_key(|one| one.txg)?;
        Some((before.txg, before.timestamp))
    }
}
