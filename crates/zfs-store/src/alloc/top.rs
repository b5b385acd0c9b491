//! The space of one top-level vdev: its metaslabs, in which state each stretch of them is, and what they are for.
//!
//! **The embedded log.** A vdev for everything that has many metaslabs keeps the emptiest for intent logs, whose blocks live for a group or two and
//! would leave holes between what stays. Nothing else lies there, so it is no room for data ([`Class::EmbeddedLog`]). Nothing on disk says which it is:
//! it is chosen anew whenever the pool is opened, and what lay there before stays.
//!
//! Source: OpenZFS, `metaslab.c`, `vdev.c` (`vdev_metaslab_init`).

use super::class::Class;
use super::free::FreeSpace;
use super::metaslab::Metaslabs;
use std::collections::BTreeMap;
use std::ops::Range;
use stdx::RangeSet;

/// Transaction groups for which freed space waits.
pub(super) const DEFERRED: usize = 2;
/// The weight of the fastest vdev of a class, and the least.
pub(super) const WEIGHT_FULL: u64 = 1 << 10;
pub(super) const WEIGHT_MIN: u64 = WEIGHT_FULL / 8;
/// Vdevs with more metaslabs keep one of them for intent logs (OpenZFS's `zfs_embedded_slog_min_ms`).
const EMBEDDED_LOG_METASLABS: usize = 64;

/// Whether a vdev of a class with so many metaslabs keeps one of them for intent logs.
pub fn keeps_log(class: Class, metaslabs: usize) -> bool {
    class == Class::Normal && metaslabs > EMBEDDED_LOG_METASLABS
}

/// The space of one top-level vdev.
pub(super) struct Space {
    pub(super) class: Class,
    pub(super) slabs: Metaslabs,
    pub(super) states: Vec<State>,
    /// The metaslab that was used last.
    active: usize,
    /// The metaslab that is kept for intent logs.
    log: Option<usize>,
    /// Allocated since the last group was done.
    pub(super) taken: u64,
    /// Bytes that are free, of all metaslabs.
    pub(super) free: u64,
    /// Bytes in all.
    pub(super) size: u64,
    /// How much it is to take for what is free, in parts of [`WEIGHT_FULL`].
    pub(super) weight: u64,
}

/// What of a metaslab is in which state; the rest is allocated.
#[derive(Default)]
pub(super) struct State {
    pub(super) free: FreeSpace,
    /// Taken in a group, and not written down.
    pub(super) allocating: BTreeMap<u64, RangeSet>,
    /// Freed, and not written down.
    pub(super) freeing: RangeSet,
    /// Freed by the group that syncs, and written down.
    pub(super) freed: RangeSet,
    pub(super) deferred: [RangeSet; DEFERRED],
    /// Freed, of the checkpoint, and not written down.
    pub(super) keeping: RangeSet,
    /// The same, written down.
    pub(super) kept: RangeSet,
}

impl State {
    /// That of a metaslab as it is written down.
    fn of(slabs: &Metaslabs, number: usize) -> State {
        let mut free = FreeSpace::default();
        slabs.free(number).for_each(|gap| free.insert(gap));
        State { free, ..State::default() }
    }

    /// Bytes that were freed and wait.
    fn waiting(&self) -> u64 {
        let deferred = self.deferred.iter().map(RangeSet::total).sum::<u64>();
        self.freeing.total() + self.freed.total() + deferred
    }
}

/// How much of the space of a class is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in all.
    pub size: u64,
    /// Bytes that are allocated, with what was freed and waits.
    pub taken: u64,
    /// Of these, bytes that were freed and wait.
    pub waiting: u64,
}

impl Usage {
    pub(super) fn plus(self, other: Usage) -> Usage {
        Usage {
            size: self.size + other.size,
            taken: self.taken + other.taken,
            waiting: self.waiting + other.waiting,
        }
    }

    /// Bytes that can be allocated.
    pub fn free(self) -> u64 {
        self.size.saturating_sub(self.taken)
    }
}

impl Space {
    /// That of metaslabs which hold what is allocated.
    pub(super) fn new(class: Class, slabs: Metaslabs) -> Space {
        let states: Vec<State> = (0..slabs.len()).map(|number| State::of(&slabs, number)).collect();
        let free = states.iter().map(|state| state.free.total()).sum();
        let (size, weight, log) = (slabs.size(), WEIGHT_FULL, None);
        let mut space =
            Space { class, slabs, states, active: 0, log, taken: 0, free, size, weight };
        space.keep_for_log(0);
        space
    }

    /// It has so many metaslabs from here on; the new ones are free.
    pub(super) fn expand(&mut self, many: usize) {
        let before = self.slabs.len();
        self.slabs.expand(many);
        for number in before..self.slabs.len() {
            let state = State::of(&self.slabs, number);
            self.free += state.free.total();
            self.states.push(state);
        }
        self.size = self.slabs.size();
        self.keep_for_log(before);
    }

    /// Keeps the emptiest of the metaslabs from one on for intent logs, where there is none yet and there are enough.
    fn keep_for_log(&mut self, from: usize) {
        if self.log.is_none() && keeps_log(self.class, self.slabs.len()) {
            let taken = |number: &usize| self.slabs.slabs()[*number].allocated.total();
            self.log = (from..self.slabs.len()).min_by_key(taken);
        }
    }

    /// Whether something of it is for a class.
    pub(super) fn serves(&self, class: Class) -> bool {
        self.class == class || class == Class::EmbeddedLog && self.log.is_some()
    }

    /// Bytes in all that are for a class that it serves, and of these, bytes that are free.
    pub(super) fn sizes(&self, class: Class) -> (u64, u64) {
        let of = |number: usize| (self.slabs.bytes(number), self.states[number].free.total());
        let (log, free_of_log) = self.log.map_or((0, 0), of);
        match class {
            Class::EmbeddedLog => (log, free_of_log),
            _ => (self.size - log, self.free - free_of_log),
        }
    }

    /// How much of it is in use, of what is for a class.
    pub(super) fn usage(&self, class: Class) -> Usage {
        let is_for = |number: usize| (Some(number) == self.log) == (class == Class::EmbeddedLog);
        let states = self.states.iter().enumerate().filter(|(number, _)| is_for(*number));
        let waiting = states.map(|(_, state)| state.waiting()).sum();
        let (size, free) = self.sizes(class);
        Usage { size, taken: size - free, waiting }
    }

    /// How much of all of it is in use.
    pub(super) fn usage_of_all(&self) -> Usage {
        let waiting = self.states.iter().map(State::waiting).sum();
        Usage { size: self.size, taken: self.size - self.free, waiting }
    }

    /// How much was taken in this group for what is free, and for how fast it is; the least goes first.
    pub(super) fn pressure(&self) -> u128 {
        (u128::from(self.taken) << 42) / (u128::from(self.free.max(1)) * u128::from(self.weight))
    }

    pub(super) fn bounds(&self, number: usize) -> Range<u64> {
        let start = self.slabs.start(number);
        start..start + self.slabs.bytes(number)
    }

    pub(super) fn number_at(&self, offset: u64) -> Option<usize> {
        let number = usize::try_from(offset / self.slabs.stride()).ok()?;
        (number < self.states.len()).then_some(number)
    }

    pub(super) fn find_state(&mut self, offset: u64) -> Option<&mut State> {
        let number = self.number_at(offset)?;
        self.states.get_mut(number)
    }

    pub(super) fn state_at(&mut self, offset: u64) -> &mut State {
        self.find_state(offset).expect("what was allocated lies in a metaslab")
    }

    /// Takes so many bytes of what is for a class, not in a metaslab that holds one of these places if there is another.
    pub(super) fn take(
        &mut self,
        txg: u64,
        class: Class,
        len: u64,
        not_beside: &[u64],
    ) -> Option<u64> {
        let avoided: Vec<usize> = not_beside.iter().filter_map(|at| self.number_at(*at)).collect();
        if class == Class::EmbeddedLog {
            return self.take_from(self.log?, txg, len, &avoided);
        }
        if self.log != Some(self.active)
            && let Some(at) = self.take_from(self.active, txg, len, &avoided)
        {
            return Some(at);
        }
        let mut order: Vec<usize> =
            (0..self.states.len()).filter(|number| self.log != Some(*number)).collect();
        order.sort_by_key(|number| {
            let state = &self.states[*number];
            (avoided.contains(number), std::cmp::Reverse(state.free.total()), *number)
        });
        order.into_iter().find_map(|number| {
            self.take_from(number, txg, len, &[]).inspect(|_| {
                if avoided.is_empty() {
                    self.active = number;
                }
            })
        })
    }

    fn take_from(&mut self, number: usize, txg: u64, len: u64, avoided: &[usize]) -> Option<u64> {
        if avoided.contains(&number) {
            return None;
        }
        let state = self.states.get_mut(number)?;
        let at = state.free.take(len)?;
        let new = state.allocating.entry(txg).or_default().insert(at..at + len);
        assert_eq!(new, len, "what was free was not allocated");
        self.taken += len;
        self.free -= len;
        Some(at)
    }
}
