//! How a batch of writes to a part of a row goes to the members: a pure function.
//!
//! The row's places are cut into **bands** at the edges of the writes, so that in one band each data
//! member is either wholly written or not at all. A band goes one of four ways:
//!
//! * **full**: all data is written; nothing is read;
//! * **reconstruct** (md: rcw): read the data that is not written, make the parity anew;
//! * **modify** (md: rmw): read the old data of what is written and the old parity, change the parity
//!   by the difference;
//! * **plain**: the row has no parity in use; nothing is read.
//!
//! With a journal all parity is made, also that of a member that is not there: then nothing is plain, and where a
//! parity is not in use it is made anew from all data.
//!
//! Modify is taken where it reads from fewer members than reconstruct, given what is known already
//! (cached); on a tie reconstruct, as md does: its reads are on other members than its writes, so no
//! head comes back for the same place. Where no reading is needed for either, the one with fewer inputs.
//!
//! Missing members: modify needs the old data of all that is written and all parity in use; where a
//! member that is not written is missing, reconstruct needs it computed from the others, and is taken
//! only where modify can't be.

use crate::layout::parity::{ParityMap, Row};
use crate::pieces::Pieces;
use smallvec::SmallVec;
use std::ops::Range;

/// Which way a band goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Full,
    Reconstruct,
    Modify,
    Plain,
}

/// A part of a row in which the same members are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    pub(crate) range: Range<u64>,
    pub(crate) mode: Mode,
}

/// What the plan depends on.
pub(crate) struct View<'a, R> {
    pub(crate) map: &'a ParityMap,
    pub(crate) row: &'a Row,
    /// By slot, what is to be written.
    pub(crate) new: &'a [Pieces],
    /// By slot, what is known of what the members hold.
    pub(crate) old: &'a [Pieces],
    /// Whether a range of a slot can be read.
    pub(crate) readable: R,
    /// Whether the old parity is right.
    pub(crate) clean: bool,
    /// Whether parity is made that is not in use.
    pub(crate) all_parity: bool,
}

/// What is wanted, or read, of a slot.
pub(crate) type Wants = SmallVec<[(usize, Range<u64>); 4]>;

/// The bands, and what must be known of which slot before the parity can be computed.
#[derive(Debug, Default)]
pub(crate) struct WritePlan {
    pub(crate) bands: SmallVec<[Band; 2]>,
    pub(crate) wants: Wants,
}

type WantedSlots = SmallVec<[usize; 8]>;

/// Slots of a band that would be read for one of the ways to its parity.
#[derive(Default)]
struct Way {
    slots: WantedSlots,
    /// Those that are not known.
    reads: usize,
    /// One of them can't be had.
    is_blocked: bool,
}

impl<R: Fn(usize, &Range<u64>) -> bool> View<'_, R> {
    /// Makes the plan.
    pub(crate) fn plan(&self) -> WritePlan {
        let mut edges: SmallVec<[u64; 8]> = SmallVec::new();
        for (at, data) in self.new.iter().flat_map(Pieces::iter) {
            edges.extend([at, at + data.len() as u64]);
        }
        edges.sort_unstable();
        edges.dedup();
        let mut plan = WritePlan::default();
        for pair in edges.windows(2) {
            self.plan_band(pair[0]..pair[1], &mut plan);
        }
        plan
    }

    /// Plans what lies between two edges, where something is written there.
    fn plan_band(&self, range: Range<u64>, plan: &mut WritePlan) {
        // What changes, and so is read to be modified; what does not, and so is read to make the parity anew.
        let (mut changed, mut unwritten) = (Way::default(), Way::default());
        let add = |way: &mut Way, slot: usize| {
            let known = self.old[slot].holds(&range);
            way.reads += usize::from(!known);
            way.is_blocked |= !known && !(self.readable)(slot, &range);
            way.slots.push(slot);
        };
        for index in 0..self.map.data {
            let slot = self.map.data_slot(self.row, index);
            let way = if self.new[slot].holds(&range) { &mut changed } else { &mut unwritten };
            add(way, slot);
        }
        let count_written = changed.slots.len();
        if count_written == 0 {
            return;
        }
        let parities = [Some(self.row.p), self.row.q].into_iter().flatten();
        parities.filter(|slot| (self.readable)(*slot, &range)).for_each(|p| add(&mut changed, p));
        let count_in_use = changed.slots.len() - count_written;
        let enough_in_use = !self.all_parity || count_in_use == self.map.parities();
        let mode = if count_in_use == 0 && !self.all_parity {
            Mode::Plain
        } else if unwritten.slots.is_empty() {
            Mode::Full
        } else {
            let can_modify = self.clean && enough_in_use && !changed.is_blocked;
            let modify_is_less = changed.reads < unwritten.reads
                || changed.reads == 0 && unwritten.reads == 0 && 2 * count_written < self.map.data;
            if can_modify && (modify_is_less || unwritten.is_blocked) {
                Mode::Modify
            } else {
                Mode::Reconstruct
            }
        };
        let wanted = match mode {
            Mode::Full | Mode::Plain => WantedSlots::new(),
            Mode::Reconstruct => unwritten.slots,
            Mode::Modify => changed.slots,
        };
        plan.wants.extend(wanted.into_iter().map(|slot| (slot, range.clone())));
        plan.bands.push(Band { range, mode });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ParityLayout;
    use rt::SgList;

    struct Case {
        map: ParityMap,
        new: Vec<Pieces>,
        old: Vec<Pieces>,
        missing: Vec<usize>,
        clean: bool,
        all_parity: bool,
    }

    /// Row 0 of left-symmetric RAID 5 or 6 with chunks of 4096: data on slots by `data_slot`.
    fn case(disks: usize, parities: usize) -> Case {
        let map = ParityMap::new(ParityLayout::LeftSymmetric, disks, parities, 4096);
        let none = vec![Pieces::default(); disks];
        let missing = Vec::new();
        Case { map, new: none.clone(), old: none, missing, clean: true, all_parity: false }
    }

    impl Case {
        fn slot(&self, index: usize) -> usize {
            self.map.data_slot(&self.map.row(0), index)
        }
        fn write(mut self, index: usize, at: u64, len: usize) -> Case {
            let slot = self.slot(index);
            self.new[slot].insert(at, SgList::zeros(len));
            self
        }
        fn know(mut self, slot: usize) -> Case {
            self.old[slot].insert(0, SgList::zeros(4096));
            self
        }
        fn lose(mut self, slot: usize) -> Case {
            self.missing.push(slot);
            self
        }
        fn plan(&self) -> (Vec<(Mode, Range<u64>)>, Vec<usize>) {
            let row = self.map.row(0);
            let readable = |slot: usize, _: &Range<u64>| !self.missing.contains(&slot);
            let view = View {
                map: &self.map,
                row: &row,
                new: &self.new,
                old: &self.old,
                readable,
                clean: self.clean,
                all_parity: self.all_parity,
            };
            let plan = view.plan();
            let mut slots: Vec<usize> = plan.wants.iter().map(|(slot, _)| *slot).collect();
            slots.dedup();
            (plan.bands.into_iter().map(|band| (band.mode, band.range)).collect(), slots)
        }
        fn mode(&self) -> Mode {
            self.plan().0[0].0
        }
    }

    #[test]
    fn a_small_write_goes_whichever_way_reads_less_and_a_tie_reconstructs() {
        // RAID 5: modify reads 2; reconstruct 1, 2, 3.
        assert_eq!(
            [3, 4, 5].map(|disks| case(disks, 1).write(0, 0, 512).mode()),
            [Mode::Reconstruct, Mode::Reconstruct, Mode::Modify]
        );
        // RAID 6: modify reads 3; reconstruct 3, 4.
        assert_eq!(
            [6, 7].map(|disks| case(disks, 2).write(0, 0, 512).mode()),
            [Mode::Reconstruct, Mode::Modify]
        );
        let both = case(7, 1).write(0, 0, 512).write(1, 0, 512);
        assert_eq!(
            both.plan(),
            (vec![(Mode::Modify, 0..512)], vec![both.slot(0), both.slot(1), 6])
        );
    }

    #[test]
    fn what_is_cached_counts_as_read() {
        let case = case(5, 1).write(0, 0, 512);
        let (two, three) = (case.slot(2), case.slot(3));
        assert_eq!(case.know(two).know(three).mode(), Mode::Reconstruct);
    }

    #[test]
    fn bands_end_where_writes_do_and_full_ones_read_nothing() {
        let case = case(3, 1).write(0, 0, 4096).write(1, 1024, 1024);
        let (bands, wants) = case.plan();
        assert_eq!(
            bands,
            [
                (Mode::Reconstruct, 0..1024),
                (Mode::Full, 1024..2048),
                (Mode::Reconstruct, 2048..4096)
            ]
        );
        assert_eq!(wants, [case.slot(1)]);
    }

    #[test]
    fn missing_members_leave_the_ways_that_are_left() {
        let first = case(6, 1);
        let (written, other, p) = (first.slot(0), first.slot(1), first.map.row(0).p);
        assert_eq!(case(6, 1).write(0, 0, 512).lose(written).mode(), Mode::Reconstruct);
        assert_eq!(case(3, 1).write(0, 0, 512).lose(case(3, 1).slot(1)).mode(), Mode::Modify);
        assert_eq!(case(6, 1).write(0, 0, 512).lose(other).mode(), Mode::Modify);
        assert_eq!(case(6, 1).write(0, 0, 512).lose(p).mode(), Mode::Plain);
        // RAID 6 with both a written and another data member lost: computed from the others.
        let two = case(6, 2);
        let (a, b) = (two.slot(0), two.slot(1));
        assert_eq!(two.write(0, 0, 512).lose(a).lose(b).mode(), Mode::Reconstruct);
    }

    /// A journal without the parity of a member that is not there would bring back an older one.
    #[test]
    fn where_all_parity_is_made_that_of_a_missing_member_is_too() {
        let wide = || Case { all_parity: true, ..case(8, 2).write(0, 0, 512) };
        let row = wide().map.row(0);
        let q = row.q.expect("RAID 6");
        assert_eq!(wide().mode(), Mode::Modify);
        assert_eq!(wide().lose(q).mode(), Mode::Reconstruct);
        assert_eq!(wide().lose(row.p).lose(q).mode(), Mode::Reconstruct);
        // Computed from the parity that is left.
        let other = wide().slot(1);
        assert_eq!(wide().lose(q).lose(other).mode(), Mode::Reconstruct);
    }

    #[test]
    fn parity_that_is_not_known_to_be_right_is_made_anew() {
        let mut dirty = case(8, 1).write(0, 0, 512);
        dirty.clean = false;
        assert_eq!(dirty.mode(), Mode::Reconstruct);
    }
}
