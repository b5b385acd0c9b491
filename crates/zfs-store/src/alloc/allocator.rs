//! Allocating: where a block's copies are put, and when space that was freed may be used again.
//!
//! ```text
//!   free ──allocate in N──▶ taken ──free in M──▶ freed in M ──M, M+1, M+2 are in the pool──▶ free
//! ```
//!
//! **Which vdev.** Those of the block's class take turns, [`ALIQUOT_BYTES`] each; where they have no room, the class that
//! stands in for it. Copies of one block lie on different vdevs, as far as there are enough; on one vdev an eighth of it
//! apart, if that can be.
//!
//! **Where on it.** In the metaslab that was used last, behind what was put there last; else in the one that has the most
//! room. No block crosses the bound of a metaslab, and on a dRAID each begins with a group's row.
//!
//! **Freed space waits.** An uberblock of a group before may still be what the pool is opened at, and what it
//! refers to must be whole: what M freed is not allocated before M+3.
//!
//! **Changes.** What a group allocated and freed is kept until its sync takes it for the space maps
//! ([`Allocator::take_changes`]); from a pass to the next there may be more of it.
//!
//! Space that is taken and not free is our own bookkeeping, so what is allocated twice is an assertion; what a block pointer
//! asks to free came from a disk, and is an error where it isn't taken.
//!
//! What it doesn't do yet: gangs, where no stretch is long enough; metaslabs weighed by their longest stretch.
//!
//! Source: OpenZFS, `metaslab.c`.

use super::{Class, Metaslabs, Stretch};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::RangeSet;
use zfs_format::block_pointer::Dva;
use zfs_format::space_map::Change;

/// Bytes that a vdev is given before the next one's turn. Less spreads small writes over all vdevs; more lets each
/// write longer in sequence.
const ALIQUOT_BYTES: u64 = 1 << 20;
/// Copies on one vdev lie so far apart, as a part of the vdev: a power of two.
const APART_SHIFT: u32 = 3;
/// Groups that freed space waits for: its own, and the two after it.
const GROUPS_HELD: u64 = 3;

/// Where the copies of a block lie.
pub type Dvas = SmallVec<[Dva; 3]>;

/// No vdev of the class, nor of those that stand in for it, has a stretch that is long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no vdev has room for it")]
pub struct NoSpace;

/// What a pointer says it takes isn't allocated, in part or at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} bytes at {} of vdev {} are not allocated", .0.allocated(), .0.offset(), .0.vdev())]
pub struct NotAllocated(pub Dva);

/// The space of a top-level vdev.
struct Space {
    class: Class,
    /// What can't be allocated: what is in use, and what was freed too recently.
    taken: Metaslabs,
    /// Of what is taken that which was freed.
    freed: RangeSet,
    /// The metaslab that was used last, and where in it.
    last: (usize, u64),
    /// By metaslab the least size that had no room, since something of it became free.
    too_long: Vec<u64>,
    /// Bytes that it was given in its turn.
    given: u64,
}

/// The space of a pool. See the [module](self).
#[derive(Default)]
pub struct Allocator {
    vdevs: BTreeMap<u32, Space>,
    /// By class, the vdev whose turn it is.
    turns: [u32; 4],
    freed: BTreeMap<u64, Vec<(u32, Range<u64>)>>,
    changes: BTreeMap<u64, Vec<Stretch>>,
}

impl Space {
    /// A stretch of so many bytes, none of it within `apart` of those.
    fn find(&mut self, bytes: u64, apart: Option<(u64, &[Dva])>) -> Option<u64> {
        let far = |at: u64| {
            let Some((distance, others)) = apart else { return true };
            others.iter().all(|other| at.abs_diff(other.offset()) >= distance)
        };
        let (last, from) = self.last;
        if let Some(at) = self.taken.room(last, from, bytes).filter(|at| far(*at)) {
            return Some(at);
        }
        let mut by_room: Vec<(u64, usize)> = (0..self.taken.len())
            .filter(|number| self.too_long[*number] > bytes)
            .map(|number| (self.taken.free(number), number))
            .filter(|(free, _)| *free >= bytes)
            .collect();
        by_room.sort_unstable_by_key(|(free, number)| (std::cmp::Reverse(*free), *number));
        for (_, number) in by_room {
            match self.taken.room(number, 0, bytes) {
                Some(at) if far(at) => return Some(at),
                Some(_) => {}
                None => self.too_long[number] = self.too_long[number].min(bytes),
            }
        }
        None
    }

    fn is_in_use(&self, range: Range<u64>) -> bool {
        self.taken.holds(range.start, range.end - range.start) && !self.freed.touches(&range)
    }

    fn take(&mut self, at: u64, bytes: u64) {
        let is_new = self.taken.change(Change::Allocate, at, bytes);
        assert!(is_new, "space that is allocated was free");
        self.last = (self.taken.number_of(at), at + bytes);
        self.given += bytes;
    }

    /// It may be allocated from here on.
    fn give_back(&mut self, range: &Range<u64>) {
        let was_taken = self.taken.change(Change::Free, range.start, range.end - range.start);
        assert!(was_taken, "space that becomes free was taken");
        for number in self.taken.number_of(range.start)..=self.taken.number_of(range.end - 1) {
            self.too_long[number] = u64::MAX;
        }
    }
}

impl Allocator {
    /// Adds a top-level vdev, with what is allocated in it.
    ///
    /// # Panics
    /// There is one of that number.
    pub fn add(&mut self, vdev: u32, class: Class, taken: Metaslabs) {
        let (freed, too_long) = (RangeSet::default(), vec![u64::MAX; taken.len()]);
        let space = Space { class, taken, freed, last: (0, 0), too_long, given: 0 };
        assert!(self.vdevs.insert(vdev, space).is_none(), "vdev {vdev} is added once");
    }

    /// Whether space of a vdev is allocated here.
    pub fn has(&self, vdev: u32) -> bool {
        self.vdevs.contains_key(&vdev)
    }

    /// Bytes that can't be allocated: those in use, and those that were freed too recently.
    pub fn taken(&self) -> u64 {
        self.vdevs.values().map(|space| space.taken.allocated()).sum()
    }

    /// Places for so many copies of a block; `size_on` says how many bytes it takes on a vdev.
    ///
    /// # Errors
    /// There is no room: nothing was allocated.
    pub fn allocate(
        &mut self,
        txg: u64,
        class: Class,
        copies: usize,
        size_on: impl Fn(u32) -> Option<u64>,
    ) -> Result<Dvas, NoSpace> {
        assert!((1..=3).contains(&copies), "a pointer has room for three copies, not {copies}");
        let mut found = Dvas::new();
        while found.len() < copies {
            let in_turn = class
                .instead()
                .iter()
                .find_map(|class| self.allocate_one(txg, *class, &found, &size_on));
            let Some(dva) = in_turn else {
                for dva in &found {
                    self.cancel(txg, *dva);
                }
                return Err(NoSpace);
            };
            found.push(dva);
        }
        Ok(found)
    }

    /// One copy, beside those that are placed already.
    fn allocate_one(
        &mut self,
        txg: u64,
        class: Class,
        others: &[Dva],
        size_on: &impl Fn(u32) -> Option<u64>,
    ) -> Option<Dva> {
        let turn = self.turns[class as usize];
        let of_class = |(_, space): &(&u32, &Space)| space.class == class;
        let (before, after): (Vec<u32>, Vec<u32>) =
            self.vdevs.iter().filter(of_class).map(|(vdev, _)| *vdev).partition(|v| *v < turn);
        let vdevs: Vec<u32> = after.into_iter().chain(before).collect();
        let is_used = |vdev: u32| others.iter().any(|other| other.vdev() == vdev);
        // Elsewhere than the others; then far from them; then anywhere.
        for how in 0..3 {
            for vdev in vdevs.iter().copied().filter(|vdev| is_used(*vdev) == (how > 0)) {
                let Some(bytes) = size_on(vdev) else { continue };
                let space = self.vdevs.get_mut(&vdev).expect("it was listed");
                let near: Dvas = others.iter().filter(|dva| dva.vdev() == vdev).copied().collect();
                let distance = space.taken.size() >> APART_SHIFT;
                let apart = (how == 1).then_some((distance, near.as_slice()));
                let Some(at) = space.find(bytes, apart) else { continue };
                space.take(at, bytes);
                if space.given >= ALIQUOT_BYTES {
                    space.given = 0;
                    self.turns[class as usize] = vdev + 1;
                }
                self.note(txg, Change::Allocate, vdev, at, bytes);
                return Some(Dva::new(vdev, at, bytes, false));
            }
        }
        None
    }

    fn note(&mut self, txg: u64, change: Change, vdev: u32, offset: u64, len: u64) {
        let stretch = Stretch { change, vdev, offset, len };
        self.changes.entry(txg).or_default().push(stretch);
    }

    /// Takes an allocation of this group back, which nobody refers to: it may be allocated again at once.
    pub fn cancel(&mut self, txg: u64, dva: Dva) {
        let (vdev, at, bytes) = (dva.vdev(), dva.offset(), dva.allocated());
        let space = self.vdevs.get_mut(&vdev).expect("it was allocated here");
        space.give_back(&(at..at + bytes));
        self.note(txg, Change::Free, vdev, at, bytes);
    }

    /// Whether a place is allocated, all of it, and was not freed.
    pub fn is_in_use(&self, dva: Dva) -> bool {
        let end = dva.offset().checked_add(dva.allocated()).filter(|end| *end > dva.offset());
        let space = self.vdevs.get(&dva.vdev());
        space.zip(end).is_some_and(|(space, end)| space.is_in_use(dva.offset()..end))
    }

    /// Frees a place in this group.
    ///
    /// # Errors
    /// It is not allocated: nothing was changed.
    pub fn free(&mut self, txg: u64, dva: Dva) -> Result<(), NotAllocated> {
        let (vdev, at, bytes) = (dva.vdev(), dva.offset(), dva.allocated());
        let end = at.checked_add(bytes).filter(|end| *end > at).ok_or(NotAllocated(dva))?;
        let space = self.vdevs.get_mut(&vdev).ok_or(NotAllocated(dva))?;
        if !space.is_in_use(at..end) {
            return Err(NotAllocated(dva));
        }
        assert_eq!(space.freed.insert(at..end), bytes, "space is freed once");
        self.freed.entry(txg).or_default().push((vdev, at..end));
        self.note(txg, Change::Free, vdev, at, bytes);
        Ok(())
    }

    /// What a group allocated and freed since this was asked last, in order: for its space maps.
    pub fn take_changes(&mut self, txg: u64) -> Vec<Stretch> {
        self.changes.remove(&txg).unwrap_or_default()
    }

    /// A group is in the pool: what was freed two groups before it may be allocated from here on.
    pub fn synced(&mut self, txg: u64) {
        assert!(!self.changes.contains_key(&txg), "what a group changed is in its space maps");
        let waiting = self.freed.split_off(&(txg + 1).saturating_sub(GROUPS_HELD - 1));
        for (vdev, range) in std::mem::replace(&mut self.freed, waiting).into_values().flatten() {
            let space = self.vdevs.get_mut(&vdev).expect("it was freed here");
            let freed = space.freed.remove(range.clone());
            assert_eq!(freed, range.end - range.start, "what becomes free was freed");
            space.give_back(&range);
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: space given to two blocks, space used again while an older uberblock refers to it, a block over
    //! the bound of a metaslab.

    use super::*;
    use stdx::Prng;
    use zfs_format::vdev::{Vdev, VdevKind};

    const SLAB: u64 = 1 << 16;

    fn metaslabs(many: u64) -> Metaslabs {
        let vdev = Vdev {
            kind: VdevKind::Mirror,
            id: 0,
            guid: 1,
            path: None,
            ashift: Some(9),
            asize: Some(many * SLAB),
            metaslab_array: None,
            metaslab_shift: Some(16),
            is_log: None,
            allocation_bias: None,
            dtl: None,
            create_txg: None,
            children: Vec::new(),
            other: Vec::new(),
        };
        Metaslabs::of(&vdev).expect("few").expect("some")
    }

    #[test]
    fn no_place_has_two_blocks_and_what_was_freed_waits_for_two_groups_more() {
        for seed in 0..20 {
            let mut random = Prng::new(seed);
            let mut allocator = Allocator::default();
            (0..3).for_each(|vdev| allocator.add(vdev, Class::Normal, metaslabs(4)));
            let mut live: Vec<Dvas> = Vec::new();
            // By vdev: what the uberblocks of the last groups may refer to.
            let mut held: Vec<[RangeSet; 3]> = Vec::new();
            let mut maps: [RangeSet; 3] = Default::default();
            for txg in 10..60 {
                let mut freed: [RangeSet; 3] = Default::default();
                for _ in 0..random.below(30) {
                    if random.chance(0.45) && !live.is_empty() {
                        let dvas = live.swap_remove(random.below(live.len() as u64) as usize);
                        for dva in dvas {
                            let range = dva.offset()..dva.offset() + dva.allocated();
                            assert_eq!(allocator.free(txg, dva), Ok(()));
                            assert_eq!(allocator.free(txg, dva), Err(NotAllocated(dva)));
                            freed[dva.vdev() as usize].insert(range);
                        }
                        continue;
                    }
                    let (bytes, copies) = (512 * (1 + random.below(60)), 1 + random.below(3));
                    let size = |_| Some(bytes);
                    let found = allocator.allocate(txg, Class::Special, copies as usize, size);
                    let Ok(dvas) = found else { continue };
                    assert_eq!(dvas.len(), copies as usize);
                    for dva in &dvas {
                        let range = dva.offset()..dva.offset() + bytes;
                        assert_eq!(range.start / SLAB, (range.end - 1) / SLAB, "one metaslab");
                        let vdev = dva.vdev() as usize;
                        assert!(held.iter().all(|held| !held[vdev].touches(&range)));
                        assert!(!freed[vdev].touches(&range), "not in the same group either");
                        let others = live.iter().flatten().chain(dvas.iter());
                        let same = others.filter(|other| {
                            other.vdev() == dva.vdev()
                                && other.offset() < range.end
                                && range.start < other.offset() + other.allocated()
                        });
                        assert_eq!(same.count(), 1, "only itself");
                    }
                    live.push(dvas);
                }
                for Stretch { change, vdev, offset, len } in allocator.take_changes(txg) {
                    let map = &mut maps[vdev as usize];
                    let changed = match change {
                        Change::Allocate => map.insert(offset..offset + len),
                        Change::Free => map.remove(offset..offset + len),
                    };
                    assert_eq!(changed, len, "a space map has no change twice");
                }
                let of_live: u64 = live.iter().flatten().map(Dva::allocated).sum();
                assert_eq!(maps.iter().map(RangeSet::total).sum::<u64>(), of_live);
                allocator.synced(txg);
                held.push(freed);
                if held.len() > 2 {
                    held.remove(0);
                }
            }
            let waiting: u64 = held.iter().flatten().map(RangeSet::total).sum();
            let of_live: u64 = live.iter().flatten().map(Dva::allocated).sum();
            assert_eq!(allocator.taken(), of_live + waiting);
        }
    }

    #[test]
    fn copies_lie_on_different_vdevs_or_far_apart_and_a_full_pool_says_so() {
        let mut allocator = Allocator::default();
        allocator.add(0, Class::Normal, metaslabs(8));
        let two = allocator.allocate(5, Class::Normal, 2, |_| Some(512)).expect("room");
        assert!(two[0].offset().abs_diff(two[1].offset()) >= SLAB, "{two:?}");
        allocator.add(7, Class::Normal, metaslabs(8));
        let two = allocator.allocate(5, Class::Normal, 2, |_| Some(512)).expect("room");
        assert_ne!(two[0].vdev(), two[1].vdev());
        let taken = allocator.taken();
        assert_eq!(allocator.allocate(5, Class::Normal, 2, |_| Some(SLAB + 512)), Err(NoSpace));
        // The first copy would fit, the second doesn't: neither is kept.
        let only_first = |vdev| (vdev == 7).then_some(SLAB);
        while allocator.allocate(5, Class::Normal, 1, only_first).is_ok() {}
        let full = allocator.taken();
        assert_eq!(allocator.allocate(5, Class::Normal, 3, |_| Some(SLAB)).map(|d| d.len()), Ok(3));
        assert!(allocator.taken() > full && full > taken);
        assert!(allocator.free(5, Dva::new(9, 0, 512, false)).is_err(), "there is no vdev 9");
        assert!(allocator.free(5, Dva::new(7, 8 * SLAB, 512, false)).is_err(), "behind its end");
        assert!(allocator.free(5, Dva::new(7, u64::MAX, 512, false)).is_err());
    }
}
