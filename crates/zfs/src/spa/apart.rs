//! Halves of a pool that went on without each other.
//!
//! Each side of a mirror can be used alone, and if both were, each holds what the other doesn't. Put together again the newer one's state
//! is the pool's, and the other side's devices look as if they had merely been away. They weren't: what was written to them alone is only
//! there, and is overwritten when they are made like the others. Which it was, their own books say: a side that went on by
//! itself has noted that the others lack what it wrote since ([`dtls`](super::dtls)); one that was away has noted nothing.
//!
//! So the devices that don't have the newest state are looked at as a pool of their own. Where they are too few to be one, they can't have
//! gone on. OpenZFS does not ask, and resilvers them.

use super::found::{FoundPool, Member, pool};
use super::lost::Missed;
use super::open::Spa;
use std::collections::BTreeSet;
use zfs_format::uberblock::Uberblock;

/// Devices that went on without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// They, by their GUIDs.
    pub devices: BTreeSet<u64>,
    /// The last group before the first that the others lack.
    pub after: u64,
    /// The newest group that they wrote by themselves, and when, in seconds since 1970.
    pub last: (u64, u64),
}

impl FoundPool {
    /// The pool as those of its devices have it that don't have its newest state; nothing where all have it, as far as their labels
    /// tell. They may be no older: both sides count their groups on from where they parted.
    pub fn of_others(&self) -> Option<FoundPool> {
        let behind = self.behind();
        let mut others = Vec::new();
        for top in self.tops.values() {
            let there = top.leaves().into_iter().filter_map(|leaf| self.members.get(&leaf.guid));
            let states: Vec<(&Member, &Uberblock)> =
                there.filter_map(|one| Some((one, one.newest()?))).collect();
            // All devices of a top-level vdev get an uberblock, or none.
            let newest = states.iter().map(|(_, state)| *state).max_by(|a, b| a.newer(b));
            let is_other = |(one, state): &&(&Member, &Uberblock)| {
                let is_newest =
                    newest.is_some_and(|best| (best.txg, &best.root) == (state.txg, &state.root));
                !is_newest || behind.contains_key(&one.guid)
            };
            others.extend(states.iter().filter(is_other).map(|(one, _)| (*one).clone()));
        }
        if others.is_empty() { None } else { pool(self.guid, others) }
    }
}

impl Spa {
    /// Whether the devices by which this pool was opened went on without others that the whole of it has now.
    pub fn went_on_without(&self, own: &FoundPool, whole: &FoundPool) -> Option<Apart> {
        let (missed, newest) = (Missed::of(self, own), self.uberblock());
        // The last group in which anything was written: one in which nothing was leaves the root as it is.
        let written = newest.root.logical_birth();
        let others = whole.members.keys().filter(|guid| !own.members.contains_key(guid));
        let lacked =
            others.filter_map(|guid| missed.lacks(*guid)).find(|one| one.contains(written));
        let first = lacked?.iter().next()?.start;
        let devices = own.members.keys().copied().collect();
        let last = (newest.txg, newest.timestamp);
        Some(Apart { devices, after: first.saturating_sub(1), last })
    }
}
