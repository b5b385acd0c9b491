//! Devices of a pool that went on without each other.
//!
//! Each side of a mirror can be used alone, and if both were, each holds what the other doesn't. So do devices of two copies of a pool that
//! were both used. Put together, the newest state is the pool's, and the devices of the other look as if they had merely been away, or
//! as if nothing were. They weren't: what was written to them is only there, and is overwritten when they are made like the others.
//! OpenZFS does not ask, and resilvers them. Two things tell:
//!
//! 1. **Rings of uberblocks.** All devices of a top-level vdev get each group's uberblock (all of the pool's, where
//!    [it has no more than three](super::behind)). So of two, who has newer ones than the last that both have was away from the
//!    other then; and if each has, they went on apart. Where a ring went round since, and the other's newest is older than all in it,
//!    nothing can be known by them.
//! 2. **Books.** A side that went on by itself has noted that all others lack what it wrote since ([`dtls`](super::dtls)); one that was
//!    away has not. So devices of which rings tell nothing are looked at as a pool of their own. Where they are too few to be one, they
//!    can't have gone on alone.

use super::found::{FoundPool, Member, pool};
use super::lost::Missed;
use super::open::Spa;
use std::collections::BTreeSet;
use stdx::RangeSet;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::uberblock::Uberblock;
use zfs_format::vdev::Vdev;

/// Devices that went on without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// They, by their GUIDs.
    pub devices: BTreeSet<u64>,
    /// The last group before they went apart, where that is known.
    pub after: Option<u64>,
    /// The newest group that they wrote by themselves, and when, in seconds since 1970.
    pub last: (u64, u64),
}

/// Groups of which there are uberblocks, each with the words of its root.
type Ring = BTreeSet<(u64, [u64; 16])>;

fn ring(one: &Member) -> impl Iterator<Item = (u64, [u64; 16])> + '_ {
    let found = one.labels.labels.iter().flat_map(|label| &label.uberblocks);
    // New devices are labelled with one of no group.
    let uberblocks = found.map(|found| &found.uberblock).filter(|uberblock| uberblock.txg > 0);
    uberblocks.map(|uberblock| (uberblock.txg, uberblock.root.words))
}

/// What rings of uberblocks tell of a device beside one whose state is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It was away, if anything.
    Together,
    /// They went apart, after this group where it is known.
    Apart(Option<u64>),
    /// Nothing.
    Nothing,
}

fn told(one: &Ring, newest: &Ring) -> Told {
    let last = |ring: &Ring| ring.last().map(|(txg, _)| *txg);
    match one.intersection(newest).last().map(|(txg, _)| *txg) {
        Some(common) if last(one) > Some(common) && last(newest) > Some(common) => {
            Told::Apart(Some(common))
        }
        Some(_) => Told::Together,
        None if last(one) >= newest.first().map(|(txg, _)| *txg) => Told::Apart(None),
        None => Told::Nothing,
    }
}

impl FoundPool {
    /// What rings tell of each device that has uberblocks, with its newest, beside the newest of all that get the same.
    fn told(&self) -> Vec<(Told, &Member, &Uberblock)> {
        let tops = || self.tops.values();
        let together: Vec<Vec<&Vdev>> = match self.all_get_uberblocks() {
            true => {
                let of_logs = tops().filter(|top| top.is_for_logs()).map(|top| top.leaves());
                let data = tops().filter(|top| !top.is_for_logs()).flat_map(|top| top.leaves());
                of_logs.chain([data.collect()]).collect()
            }
            false => tops().map(|top| top.leaves()).collect(),
        };
        let mut all = Vec::new();
        for leaves in together {
            let there = leaves.iter().filter_map(|leaf| self.members.get(&leaf.guid));
            let states: Vec<(&Member, &Uberblock)> =
                there.filter_map(|one| Some((one, one.newest()?))).collect();
            let newest = states.iter().map(|(_, state)| *state).max_by(|a, b| a.newer(b));
            let Some(newest) = newest.map(|newest| (newest.txg, newest.root)) else { continue };
            // Of states of one time the one as which the pool is opened.
            let opened = self.uberblock.as_ref().map(|best| (best.txg, best.root));
            let is_there = |state: &(u64, BlockPointer)| {
                states.iter().any(|(_, one)| (one.txg, one.root) == *state)
            };
            let newest = opened.filter(is_there).unwrap_or(newest);
            // One that has it may have been away when another that has it was there.
            let have_it = states.iter().filter(|(_, state)| (state.txg, state.root) == newest);
            let newest: Ring = have_it.flat_map(|(one, _)| ring(one)).collect();
            let told = |one| told(&ring(one).collect(), &newest);
            all.extend(states.iter().map(|(one, state)| (told(one), *one, *state)));
        }
        all
    }

    /// Devices that went on without those that have the newest state, as far as their rings of uberblocks tell; and the pool as those
    /// of its devices have it of which they tell nothing, if there are some: their [books](Spa::went_on_without) may.
    pub fn parted(&self) -> (Option<Apart>, Option<FoundPool>) {
        let (mut all, mut untold): (Option<Apart>, Vec<Member>) = (None, Vec::new());
        for (told, one, state) in self.told() {
            let after = match told {
                Told::Apart(after) => after,
                Told::Nothing => {
                    untold.push(one.clone());
                    continue;
                }
                Told::Together => continue,
            };
            let last = (state.txg, state.timestamp);
            let all = all.get_or_insert(Apart { devices: BTreeSet::new(), after, last });
            all.devices.insert(one.guid);
            all.after = all.after.min(after);
            all.last = all.last.max(last);
        }
        let untold = if untold.is_empty() { None } else { pool(self.guid, untold) };
        (all, untold)
    }
}

impl Spa {
    /// Whether the devices by which this pool was opened went on without others that the whole of it has now, as its books say.
    pub fn went_on_without(&self, own: &FoundPool, whole: &FoundPool) -> Option<Apart> {
        let (missed, newest) = (Missed::of(self, own), self.uberblock());
        // The last group in which anything was written: one in which nothing was leaves the root as it is.
        let written = newest.root.logical_birth();
        let vdevs = self.vdevs();
        let others = vdevs.leaves().into_iter().map(|leaf| leaf.guid);
        let others = others.filter(|guid| !own.members.contains_key(guid));
        let mut others = others.filter(|guid| whole.members.contains_key(guid)).peekable();
        others.peek()?;
        let lacked =
            others.map(|guid| missed.lacks(guid).filter(|lacked| lacked.contains(written)));
        let lacked: Option<Vec<&RangeSet>> = lacked.collect();
        let first =
            lacked?.iter().filter_map(|lacked| lacked.iter().next()).map(|one| one.start).min()?;
        let devices = own.members.keys().copied().collect();
        let last = (newest.txg, newest.timestamp);
        Some(Apart { devices, after: first.checked_sub(1), last })
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a device that was merely away, or got one uberblock fewer as the power went, is taken for one that went on.

    use super::*;

    #[test]
    fn who_has_newer_ones_than_the_last_that_both_have_went_on() {
        let ring = |groups: &[(u64, u64)]| -> Ring {
            groups.iter().map(|(txg, root)| (*txg, [*root; 16])).collect()
        };
        let of = |one: &[(u64, u64)], newest: &[(u64, u64)]| told(&ring(one), &ring(newest));
        // Away since 5; one fewer as the power went; the same.
        assert_eq!(of(&[(4, 0), (5, 0)], &[(4, 0), (5, 0), (6, 0), (9, 0)]), Told::Together);
        assert_eq!(of(&[(4, 0)], &[(4, 0), (5, 0)]), Told::Together);
        assert_eq!(of(&[(4, 0), (5, 0)], &[(4, 0), (5, 0)]), Told::Together);
        // One that the other did not get, and then both got one.
        assert_eq!(of(&[(4, 0), (5, 0), (6, 0)], &[(4, 0), (6, 0), (7, 0)]), Told::Together);
        // Each went on, with the same groups, or with others.
        assert_eq!(of(&[(4, 0), (5, 1)], &[(4, 0), (5, 2), (6, 2)]), Told::Apart(Some(4)));
        assert_eq!(of(&[(4, 0), (5, 1)], &[(4, 0), (5, 2)]), Told::Apart(Some(4)));
        assert_eq!(of(&[(4, 0), (7, 1)], &[(4, 0), (6, 2), (8, 2)]), Told::Apart(Some(4)));
        // The newest's ring went round since: of the time when the other wrote something is left, or nothing.
        assert_eq!(of(&[(4, 1), (7, 1)], &[(6, 2), (8, 2)]), Told::Apart(None));
        assert_eq!(of(&[(4, 1), (5, 1)], &[(6, 2), (8, 2)]), Told::Nothing);
    }
}
