//! Which space a block gets, and when space that was freed may be used again.
//!
//! ```text
//!   free ──allocate(N)──▶ allocating[N] ──written down──▶ allocated ──free(N)──▶ freeing ──written down──▶ freed
//!    ▲                         │ freed before it was written down: no word of it                            │ N is done
//!    └──────── N+2 is done ◀── deferred ◀────────────────────────────────────────────────────────────────────┘
//!
//!   allocated ──free(N) of what the checkpoint has──▶ keeping ──written down elsewhere──▶ kept ──discarded──▶ freeing
//! ```
//!
//! **Rules.**
//!
//! 1. Space that N freed is not used again before N+3: until then the pool may have to be opened as of N−1, N or N+1, whose
//!    trees reach what was there. So it is with what N itself allocated and dropped again: two contents of one place and
//!    one birth would be one key in the cache.
//! 2. Nothing is in two of these states at once: each step asserts it.
//! 3. What a space map says and what stands here are the same once a group's changes are written down.
//! 4. As long as the pool has a checkpoint, what was born up to it and is freed is *kept*: space maps go on to say that it is allocated,
//!    and a map of its own says that it was freed.
//!
//! **Which vdev.** Of those of a class each gets blocks in proportion to what is free on it, and to how fast it takes them: the next goes
//! to where least was allocated in this group for what is free, weighed by the rate at which the vdev took what was written in the
//! groups before. A group is in the pool when its slowest vdev is done; so all are done at about the same time. A slow one gets an
//! eighth of what it would at the least: it is to be known when it gets faster, and its space is to be used. As the others fill up, what
//! is free speaks for it. Copies go to different vdevs as long as there are enough, and to different metaslabs.
//!
//! **Which metaslab.** The one that was used last as long as it has room, so that blocks that are written together lie together;
//! then the one with the most free space. Within one [`FreeSpace`](super::free::FreeSpace) chooses.
//!
//! Source: OpenZFS, `metaslab.c`; what is chosen where is ours.

use super::class::Class;
use super::metaslab::Metaslabs;
use super::top::{DEFERRED, Space, State, Usage, WEIGHT_FULL, WEIGHT_MIN};
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::RangeSet;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::Dva;
use zfs_format::space_map::Change;

/// The space of a pool.
#[derive(Default)]
pub struct Allocator {
    tops: BTreeMap<u32, Space>,
    /// The group of the pool's checkpoint.
    checkpoint: Option<u64>,
}

/// There is no room in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room in one piece")]
pub struct NoRoom;

/// What changed in a metaslab since it was last written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Taken.
    pub allocated: RangeSet,
    /// Given back.
    pub freed: RangeSet,
}

impl Changes {
    /// One more change: what is taken and given back, or the other way round, is no change.
    pub fn note(&mut self, change: Change, range: Range<u64>) {
        let (undone, done) = match change {
            Change::Allocate => (&mut self.freed, &mut self.allocated),
            Change::Free => (&mut self.allocated, &mut self.freed),
        };
        let back: Vec<Range<u64>> = undone.within(range.clone()).collect();
        done.insert(range);
        for part in back {
            undone.remove(part.clone());
            done.remove(part);
        }
    }
}

impl Allocator {
    /// Takes a top-level vdev in, whose metaslabs hold what is allocated.
    pub fn add(&mut self, vdev: u32, class: Class, slabs: Metaslabs) {
        let before = self.tops.insert(vdev, Space::new(class, slabs));
        assert!(before.is_none(), "vdev {vdev} is known already");
    }

    /// Takes a vdev out, with what is allocated on it: for tests, which remove one as OpenZFS does.
    pub fn take_out(&mut self, vdev: u32) -> Option<Metaslabs> {
        let Space { mut slabs, states, .. } = self.tops.remove(&vdev)?;
        for (slab, state) in slabs.slabs_mut().iter_mut().zip(states) {
            assert!(
                state.allocating.values().all(RangeSet::is_empty),
                "nothing is taken there now"
            );
            for range in state.freeing.iter() {
                slab.allocated.remove(range);
            }
        }
        Some(slabs)
    }

    /// A vdev that it knows has so many metaslabs from here on; the new ones are free.
    pub fn expand(&mut self, vdev: u32, many: usize) {
        if let Some(space) = self.tops.get_mut(&vdev) {
            space.expand(many);
        }
    }

    /// The vdevs that it knows.
    pub fn vdevs(&self) -> impl Iterator<Item = u32> + '_ {
        self.tops.keys().copied()
    }

    /// The metaslabs of a vdev, as they were written down.
    pub fn metaslabs(&self, vdev: u32) -> Option<&Metaslabs> {
        self.tops.get(&vdev).map(|space| &space.slabs)
    }

    /// The same, for who writes down where their maps are.
    pub fn metaslabs_mut(&mut self, vdev: u32) -> Option<&mut Metaslabs> {
        self.tops.get_mut(&vdev).map(|space| &mut space.slabs)
    }

    /// Whether there is a vdev of a class.
    pub fn has(&self, class: Class) -> bool {
        self.of_class(class).next().is_some()
    }

    /// From here on vdevs take what their rates say, in bytes a second. One whose rate isn't known is taken for as fast as any.
    pub fn set_rates(&mut self, rates: Vec<(u32, u64)>) {
        let class_of = |vdev| self.tops.get(&vdev).map(|space| space.class);
        let mut fastest: Vec<(Class, u64)> = Vec::new();
        for (vdev, rate) in &rates {
            let Some(class) = class_of(*vdev) else { continue };
            match fastest.iter_mut().find(|(known, _)| *known == class) {
                Some((_, most)) => *most = (*most).max(*rate),
                None => fastest.push((class, *rate)),
            }
        }
        for (vdev, rate) in rates {
            let Some(space) = self.tops.get_mut(&vdev) else { continue };
            let most = fastest.iter().find(|(class, _)| *class == space.class);
            let most = most.map_or(rate, |(_, most)| *most).max(1);
            let weight = u128::from(rate) * u128::from(WEIGHT_FULL) / u128::from(most);
            space.weight = (weight as u64).clamp(WEIGHT_MIN, WEIGHT_FULL);
        }
    }

    /// The vdevs of a class.
    pub fn of_class(&self, class: Class) -> impl Iterator<Item = u32> + '_ {
        self.tops.iter().filter(move |(_, space)| space.serves(class)).map(|(vdev, _)| *vdev)
    }

    /// How much of a class is in use.
    pub fn usage(&self, class: Class) -> Usage {
        let of_class = self.tops.values().filter(|space| space.serves(class));
        of_class.fold(Usage::default(), |sum, space| sum.plus(space.usage(class)))
    }

    /// Bytes of a class in all, and free: what is asked for at each write.
    pub fn sizes(&self, class: Class) -> (u64, u64) {
        let of_class = self.tops.values().filter(|space| space.serves(class));
        of_class
            .map(|space| space.sizes(class))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// How much of one vdev is in use.
    pub fn usage_of(&self, vdev: u32) -> Usage {
        self.tops.get(&vdev).map_or(Usage::default(), Space::usage_of_all)
    }

    /// Allocates so many copies of a block in a transaction group: `bytes` says how much one takes on a vdev. Those that find
    /// no place of their own share a vdev.
    ///
    /// # Errors
    /// There is no room for one copy; nothing is allocated then.
    pub fn allocate(
        &mut self,
        txg: u64,
        class: Class,
        copies: usize,
        bytes: impl Fn(u32) -> Option<u64>,
    ) -> Result<Vec<Dva>, NoRoom> {
        let mut found: Vec<Dva> = Vec::with_capacity(copies);
        for _ in 0..copies {
            let mut order: Vec<(bool, u128, u32)> = self
                .tops
                .iter()
                .filter(|(_, space)| space.serves(class))
                .map(|(vdev, space)| {
                    let used = found.iter().any(|dva| dva.vdev() == *vdev);
                    (used, space.pressure(), *vdev)
                })
                .collect();
            order.sort_unstable();
            let place = order.into_iter().find_map(|(_, _, vdev)| {
                let len = bytes(vdev)?;
                let used = found.iter().filter(|dva| dva.vdev() == vdev).map(|dva| dva.offset());
                let used: Vec<u64> = used.collect();
                let space = self.tops.get_mut(&vdev)?;
                space.take(txg, class, len, &used).map(|at| Dva::new(vdev, at, len, false))
            });
            match place {
                Some(dva) => found.push(dva),
                None => {
                    found.iter().for_each(|dva| self.give_back(txg, dva));
                    return Err(NoRoom);
                }
            }
        }
        Ok(found)
    }

    /// Space that was allocated just now, and that nothing was written to, is as it was.
    pub(crate) fn give_back(&mut self, txg: u64, dva: &Dva) {
        let space = self.tops.get_mut(&dva.vdev()).expect("it was allocated there");
        let range = dva.offset()..dva.offset() + dva.allocated();
        let state = space.state_at(range.start);
        let allocating = state.allocating.get_mut(&txg).expect("it was allocated now");
        let removed = allocating.remove(range.clone());
        assert_eq!(removed, dva.allocated(), "it was allocated now");
        state.free.insert(range);
        space.taken -= dva.allocated();
        space.free += dva.allocated();
    }

    /// Takes a place that something leads to and that is free, in a transaction group. Says whether it was free as a whole; else
    /// nothing is taken.
    pub fn claim(&mut self, txg: u64, dva: &Dva) -> bool {
        let Some(space) = self.tops.get_mut(&dva.vdev()) else { return false };
        let range = dva.offset()..dva.offset().saturating_add(dva.allocated());
        let Some(state) = space.find_state(range.start) else { return false };
        if !state.free.take_at(range.clone()) {
            return false;
        }
        state.allocating.entry(txg).or_default().insert(range);
        space.free -= dva.allocated();
        space.taken += dva.allocated();
        true
    }

    /// Whether all of a place is allocated, and it can be one block's: whole sectors, all of them written down or none.
    pub fn holds(&self, dva: &Dva) -> bool {
        let range = dva.offset()..dva.offset().saturating_add(dva.allocated());
        self.tops.get(&dva.vdev()).is_some_and(|space| {
            let Some(number) = space.number_at(range.start) else { return false };
            let (state, bounds) = (&space.states[number], space.bounds(number));
            let waits = [&state.freeing, &state.freed, &state.keeping, &state.kept]
                .into_iter()
                .chain(&state.deferred)
                .any(|set| set.touches(&range));
            let sector = 1 << space.slabs.unit();
            let is_whole = range.start.is_multiple_of(sector)
                && range.end.is_multiple_of(sector)
                && bounds.start <= range.start
                && range.end <= bounds.end;
            let mut fresh = state.allocating.values().filter(|set| set.touches(&range));
            !waits && !state.free.touches(&range) && is_whole && fresh.all(|set| set.covers(&range))
        })
    }

    /// Frees a place of no checkpoint.
    ///
    /// # Panics
    /// It is not allocated: a bug of ours; who frees what a damaged pool says [tries](Allocator::try_free) to.
    pub fn free(&mut self, dva: &Dva) {
        assert!(self.try_free(dva, u64::MAX), "{dva} is freed and is not allocated");
    }

    /// Frees the place of a block that was born in this group, if it is [held](Allocator::holds); says whether it was.
    pub fn try_free(&mut self, dva: &Dva, birth: u64) -> bool {
        if !self.holds(dva) {
            return false;
        }
        let is_kept = self.checkpoint.is_some_and(|checkpoint| birth <= checkpoint)
            && !planted::nth(Bug::CheckpointFreed, 30);
        let space = self.tops.get_mut(&dva.vdev()).expect("it is held there");
        let range = dva.offset()..dva.offset() + dva.allocated();
        let state = space.state_at(range.start);
        let fresh = state.allocating.values_mut().find(|set| set.covers(&range));
        match fresh {
            Some(set) => {
                set.remove(range.clone());
                state.freed.insert(range);
            }
            None => {
                assert!(
                    !state.allocating.values().any(|set| set.touches(&range)),
                    "{dva} is written down in part"
                );
                let set = if is_kept { &mut state.keeping } else { &mut state.freeing };
                set.insert(range);
            }
        }
        true
    }

    /// The group of the pool's checkpoint, as long as what it has is kept.
    pub fn checkpoint(&self) -> Option<u64> {
        self.checkpoint
    }

    /// From here on what was born up to a group is kept when it is freed; or nothing is any more. It is so with what was freed
    /// already and is not written down, for the last group has it.
    pub fn keep(&mut self, checkpoint: Option<u64>) {
        self.checkpoint = checkpoint;
        for state in self.tops.values_mut().flat_map(|space| &mut space.states) {
            let (from, to) = match checkpoint {
                Some(_) => (&mut state.freeing, &mut state.keeping),
                None => (&mut state.keeping, &mut state.freeing),
            };
            to.extend(std::mem::take(from).iter());
        }
    }

    /// The metaslabs of a vdev in which something is kept that is not written down.
    pub fn keeping(&self, vdev: u32) -> Vec<usize> {
        let Some(space) = self.tops.get(&vdev) else { return Vec::new() };
        let is_keeping = |number: &usize| !space.states[*number].keeping.is_empty();
        (0..space.states.len()).filter(is_keeping).collect()
    }

    /// What of a metaslab is kept and not written down, which whoever asks writes down.
    pub fn take_keeping(&mut self, vdev: u32, number: usize) -> RangeSet {
        let space = self.tops.get_mut(&vdev).expect("a vdev that is known");
        let state = &mut space.states[number];
        let keeping = std::mem::take(&mut state.keeping);
        state.kept.extend(keeping.iter());
        keeping
    }

    /// A stretch is kept, as is written down. Says whether that can be: it is allocated, of one metaslab, and not kept before.
    pub fn set_kept(&mut self, vdev: u32, offset: u64, len: u64) -> bool {
        let Some(space) = self.tops.get_mut(&vdev) else { return false };
        let Some(number) = space.number_at(offset) else { return false };
        let (range, bounds) = (offset..offset.saturating_add(len), space.bounds(number));
        let is_one = bounds.start <= range.start && range.end <= bounds.end;
        let kept = &mut space.states[number].kept;
        let fits = is_one && space.slabs.slabs()[number].allocated.covers(&range);
        fits && kept.insert(range) == len
    }

    /// A stretch that is kept is freed. Says whether it was kept.
    pub fn discard(&mut self, vdev: u32, offset: u64, len: u64) -> bool {
        let Some(state) = self.tops.get_mut(&vdev).and_then(|space| space.find_state(offset))
        else {
            return false;
        };
        let range = offset..offset.saturating_add(len);
        if !state.kept.covers(&range) {
            return false;
        }
        state.kept.remove(range.clone());
        state.freeing.insert(range);
        true
    }

    /// Frees all of a vdev that is written down as allocated.
    pub fn free_all(&mut self, vdev: u32) {
        let Some(space) = self.tops.get_mut(&vdev) else { return };
        for (slab, state) in space.slabs.slabs().iter().zip(&mut space.states) {
            state.freeing.extend(slab.allocated.iter());
        }
    }

    /// The metaslabs of a vdev that have changes to be written down.
    pub fn changed(&self, vdev: u32, txg: u64) -> Vec<usize> {
        let Some(space) = self.tops.get(&vdev) else { return Vec::new() };
        let is_changed = |state: &State| {
            !state.freeing.is_empty()
                || state.allocating.get(&txg).is_some_and(|set| !set.is_empty())
        };
        (0..space.states.len()).filter(|number| is_changed(&space.states[*number])).collect()
    }

    /// The changes of a metaslab in a transaction group, which whoever asks writes down.
    pub fn take_changes(&mut self, vdev: u32, number: usize, txg: u64) -> Changes {
        let space = self.tops.get_mut(&vdev).expect("a vdev that is known");
        let state = &mut space.states[number];
        let allocated = state.allocating.remove(&txg).unwrap_or_default();
        let freed = std::mem::take(&mut state.freeing);
        state.freed.extend(freed.iter());
        let slab = &mut space.slabs.slabs_mut()[number];
        for range in allocated.iter() {
            let new = slab.allocated.insert(range.clone());
            assert_eq!(new, range.end - range.start, "what is allocated was not");
        }
        for range in freed.iter() {
            let old = slab.allocated.remove(range.clone());
            assert_eq!(old, range.end - range.start, "what is freed was allocated");
        }
        let mut changes = Changes { allocated, freed };
        for (bug, set) in [
            (Bug::AllocationNotWrittenDown, &mut changes.allocated),
            (Bug::FreeNotWrittenDown, &mut changes.freed),
        ] {
            let first = if planted::nth(bug, 30) { set.iter().next() } else { None };
            if let Some(first) = first {
                set.remove(first);
            }
        }
        changes
    }

    /// The free stretches of a metaslab, as its map says: with what waits.
    pub fn free_in(&self, vdev: u32, number: usize) -> Vec<Range<u64>> {
        self.metaslabs(vdev).map_or(Vec::new(), |slabs| slabs.free(number).collect())
    }

    /// A transaction group is in the pool: what it freed waits, and what has waited is free.
    pub fn done(&mut self, txg: u64) {
        for space in self.tops.values_mut() {
            space.taken = 0;
            for state in &mut space.states {
                assert!(
                    state.freeing.is_empty() && state.keeping.is_empty(),
                    "what was freed is written down"
                );
                assert!(!state.allocating.contains_key(&txg) || state.allocating[&txg].is_empty());
                state.allocating.remove(&txg);
                let freed = std::mem::take(&mut state.freed);
                let slot = (txg % DEFERRED as u64) as usize;
                let mut waited = std::mem::replace(&mut state.deferred[slot], freed);
                if planted::is(Bug::FreedAGroupEarly) || planted::is(Bug::FreedTwoGroupsEarly) {
                    waited.extend(std::mem::take(&mut state.deferred[1 - slot]).iter());
                }
                if planted::is(Bug::FreedTwoGroupsEarly) {
                    waited.extend(std::mem::take(&mut state.deferred[slot]).iter());
                }
                space.free += waited.total();
                waited.iter().for_each(|range| state.free.insert(range));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;
    use zfs_format::vdev::{Vdev, VdevKind};

    fn slabs(asize: u64, shift: u64) -> Metaslabs {
        let vdev = Vdev {
            kind: VdevKind::Mirror,
            id: 0,
            guid: 1,
            path: None,
            ashift: Some(9),
            asize: Some(asize),
            metaslab_array: None,
            metaslab_shift: Some(shift),
            is_log: None,
            allocation_bias: None,
            dtl: None,
            create_txg: None,
            children: Vec::new(),
            other: Vec::new(),
        };
        Metaslabs::of(&vdev).expect("few").expect("some")
    }

    /// What could break: data in what is kept for logs, a log without a place though there is one.
    #[test]
    fn many_metaslabs_keep_one_for_logs_alone() {
        let (bytes, len) = (1 << 13, 1 << 12);
        let mut few = Allocator::default();
        few.add(0, Class::Normal, slabs(64 * bytes, 13));
        assert_eq!(few.sizes(Class::EmbeddedLog), (0, 0));
        few.expand(0, 66);
        assert_eq!(few.sizes(Class::EmbeddedLog), (bytes, bytes), "of the new ones");

        let mut allocator = Allocator::default();
        let mut taken = slabs(65 * bytes, 13);
        assert!(taken.change(Change::Allocate, 0, 512));
        allocator.add(0, Class::Normal, taken);
        allocator.add(1, Class::Special, slabs(65 * bytes, 13));
        assert_eq!(allocator.sizes(Class::Normal), (64 * bytes, 64 * bytes - 512));
        let mut place =
            |class| allocator.allocate(5, class, 1, |_| Some(len)).ok().map(|of| of[0].offset());
        let log = bytes..2 * bytes;
        assert!(log.contains(&place(Class::EmbeddedLog).expect("room")), "the emptiest");
        while let Some(at) = place(Class::Normal) {
            assert!(!log.contains(&at), "{at}");
        }
        assert!(log.contains(&place(Class::EmbeddedLog).expect("the other half")));
        assert_eq!(place(Class::EmbeddedLog), None);
        let usage = allocator.usage(Class::EmbeddedLog);
        assert_eq!((usage.size, usage.taken), (bytes, bytes));
        assert_eq!(allocator.usage(Class::Special).size, 65 * bytes);
    }

    /// The shadow of WRITER-TRAPS 12: a plain list of what is allocated, by group, beside what the maps say. What could break:
    /// a place that two blocks get, one that is used again too early, one that is never free again, a map that says otherwise.
    #[test]
    fn space_is_given_once_and_comes_back_three_groups_later() {
        let mut random = Prng::new(42);
        let mut allocator = Allocator::default();
        allocator.add(0, Class::Normal, slabs(1 << 16, 13));
        allocator.add(1, Class::Normal, slabs(1 << 16, 13));
        allocator.add(2, Class::Log, slabs(1 << 14, 13));
        let mut written = [slabs(1 << 16, 13), slabs(1 << 16, 13), slabs(1 << 14, 13)];
        let mut held: Vec<Dva> = Vec::new();
        let mut freed: Vec<(u64, Dva)> = Vec::new();
        for txg in 5..400 {
            for _ in 0..random.next_u64() % 30 {
                if random.chance(0.55) {
                    let class = if random.chance(0.1) { Class::Log } else { Class::Normal };
                    let len = 512 * (1 + random.next_u64() % 8);
                    let copies = 1 + (random.next_u64() % 3) as usize;
                    let Ok(found) = allocator.allocate(txg, class, copies, |_| Some(len)) else {
                        continue;
                    };
                    assert_eq!(found.len(), copies);
                    for dva in found {
                        let over = |other: &Dva| {
                            other.vdev() == dva.vdev()
                                && other.offset() < dva.offset() + len
                                && dva.offset() < other.offset() + other.allocated()
                        };
                        assert!(!held.iter().any(over), "txg {txg}: {dva} is another's");
                        let early = freed.iter().find(|(when, old)| txg < when + 3 && over(old));
                        assert!(early.is_none(), "txg {txg}: {dva} was freed too late: {early:?}");
                        held.push(dva);
                    }
                } else if !held.is_empty() {
                    let dva = held.swap_remove((random.next_u64() % held.len() as u64) as usize);
                    allocator.free(&dva);
                    assert!(!allocator.holds(&dva));
                    freed.push((txg, dva));
                }
            }
            for vdev in 0..3 {
                for number in allocator.changed(vdev, txg) {
                    let Changes { allocated, freed } = allocator.take_changes(vdev, number, txg);
                    let map = &mut written[vdev as usize];
                    for (change, set) in [(Change::Allocate, allocated), (Change::Free, freed)] {
                        for range in set.iter() {
                            assert!(map.change(change, range.start, range.end - range.start));
                        }
                    }
                }
            }
            allocator.done(txg);
            let sum: u64 = held.iter().map(Dva::allocated).sum();
            assert_eq!(written.iter().map(Metaslabs::allocated).sum::<u64>(), sum, "txg {txg}");
            assert!(held.iter().all(|dva| allocator.holds(dva)));
            let usage = allocator.usage(Class::Normal);
            assert!(usage.taken - usage.waiting + usage.free() + usage.waiting == usage.size);
        }
        held.iter().for_each(|dva| allocator.free(dva));
        for txg in 400..403 {
            for vdev in 0..3 {
                for number in allocator.changed(vdev, txg) {
                    allocator.take_changes(vdev, number, txg);
                }
            }
            allocator.done(txg);
        }
        assert_eq!(allocator.usage(Class::Normal).free(), 1 << 17, "all of it is free again");
    }

    #[test]
    fn copies_lie_apart_and_vdevs_fill_evenly() {
        let mut allocator = Allocator::default();
        allocator.add(0, Class::Normal, slabs(1 << 16, 13));
        allocator.add(1, Class::Normal, slabs(1 << 17, 13));
        let three = allocator.allocate(5, Class::Normal, 3, |_| Some(512)).expect("there is room");
        assert_ne!(three[0].vdev(), three[1].vdev());
        let (a, b) =
            (three[2], three.iter().find(|dva| dva.vdev() == three[2].vdev()).expect("one"));
        assert_ne!(a.offset() >> 13, b.offset() >> 13, "another metaslab");
        for _ in 0..90 {
            allocator.allocate(5, Class::Normal, 1, |_| Some(1024)).expect("there is room");
        }
        let (small, large) = (allocator.usage_of(0).taken, allocator.usage_of(1).taken);
        assert!(large > small * 3 / 2 && large < small * 3, "{small} and {large}");
        assert!(allocator.allocate(5, Class::Normal, 2, |_| Some(1 << 14)).is_err());
        assert!(allocator.allocate(5, Class::Dedup, 1, |_| Some(512)).is_err());
    }

    #[test]
    fn a_slow_vdev_takes_less_and_none_is_left_out() {
        let shares = |rates: Vec<(u32, u64)>| {
            let mut allocator = Allocator::default();
            (0..3).for_each(|vdev| allocator.add(vdev, Class::Normal, slabs(1 << 22, 18)));
            allocator.add(3, Class::Log, slabs(1 << 16, 13));
            allocator.set_rates(rates);
            for _ in 0..400 {
                allocator.allocate(5, Class::Normal, 1, |_| Some(512)).expect("there is room");
            }
            [0, 1, 2].map(|vdev| allocator.usage_of(vdev).taken / 512)
        };
        let near = |share: u64, of: u64| share.abs_diff(of) <= of / 10;
        // Unknown is as fast as any; another class's rate is no measure.
        assert!(shares(Vec::new()).iter().all(|share| near(*share, 133)));
        let [slow, fast, other] = shares(vec![(0, 50), (1, 200), (3, 9000)]);
        assert!(near(fast, 178) && near(other, 178) && near(slow, 44), "{slow} {fast} {other}");
        let [slow, fast, _] = shares(vec![(0, 1), (1, 200), (2, 200)]);
        assert!(near(fast, 188) && near(slow, 24), "{slow} {fast}");
    }

    #[test]
    #[should_panic(expected = "is not allocated")]
    fn what_is_freed_twice_is_a_bug() {
        let mut allocator = Allocator::default();
        allocator.add(0, Class::Normal, slabs(1 << 16, 13));
        let dva = allocator.allocate(5, Class::Normal, 1, |_| Some(512)).expect("there is room")[0];
        allocator.free(&dva);
        allocator.free(&dva);
    }

    /// What could break: a net that says of a place what it was in between, or twice.
    #[test]
    fn the_net_of_changes_leads_from_what_was_to_what_is() {
        let mut random = Prng::new(8);
        for _ in 0..200 {
            let (mut net, mut flags) = (Changes::default(), [false; 64]);
            let mut before = [false; 64];
            before.iter_mut().for_each(|flag| *flag = random.chance(0.5));
            flags.copy_from_slice(&before);
            for _ in 0..30 {
                let at = random.below(64) as usize;
                let is_taken = flags[at];
                let most = flags[at..].iter().take_while(|flag| **flag == is_taken).count();
                let end = at + 1 + random.below(most as u64) as usize;
                let change = if is_taken { Change::Free } else { Change::Allocate };
                net.note(change, at as u64..end as u64);
                flags[at..end].fill(!is_taken);
            }
            for at in 0..64 {
                let (taken, freed) =
                    (net.allocated.contains(at as u64), net.freed.contains(at as u64));
                assert_eq!((taken, freed), (!before[at] && flags[at], before[at] && !flags[at]));
            }
        }
    }
}
