//! Which extents a rebalance moves: a pure function.
//!
//! A rebalance has two duties, and this order:
//!
//! 1. *What must move*: copies on disks that are to go, and copies that were on disks which failed. Each goes
//!    to the disk that is furthest below its share, of those whose failure group has no other copy of the extent; where
//!    none is below its share, to any that has room.
//! 2. *What evens out*: a disk that has more than its share gives the surplus to disks that have less. What
//!    it gives is taken from all over it, so that every part of the volume ends up spread.
//!
//! A disk's *share* is its part of all copies by its size. Shares are rounded so that the fewest copies
//! have to move: the disks that have most keep the odd ones. So no copy moves twice, none moves between
//! two disks of which neither comes or goes as long as they are even, and adding one disk of *n* moves one
//! *n*-th. Where failure groups are of unequal sizes the shares can't all be reached; what can't be
//! placed better stays. With mirrors the plan is greedy: a copy that had to move may lie where it keeps
//! another from its best place, and then the shares are missed by one or two.

use crate::disk_state::DiskState;
use crate::map::Map;
use crate::pattern::{Copy, Shape};
use std::collections::BTreeMap;

/// A copy of an extent goes to another disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The extent.
    pub extent: u32,
    /// Which copy of it: 0 is the primary.
    pub copy: u8,
    /// The number of the disk it goes to.
    pub to: u16,
}

/// What a rebalance would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) moves: Vec<Move>,
    /// Copies that must move and have no disk to go to.
    pub(crate) homeless: u64,
}

struct Planner<'a> {
    map: &'a Map,
    disks: &'a [(Shape, DiskState)],
    copies: u8,
    /// Copies on each disk, with what is planned.
    have: Vec<u64>,
    share: Vec<u64>,
    planned: BTreeMap<Copy, u16>,
    plan: Plan,
}

/// Plans a rebalance.
pub(crate) fn plan(map: &Map, disks: &[(Shape, DiskState)], copies: usize) -> Plan {
    let have: Vec<u64> =
        (0..disks.len()).map(|disk| u64::from(map.copies_on(disk as u16))).collect();
    let total = u64::from(map.extents()) * copies as u64;
    let share = shares(disks, &have, total);
    let (planned, plan) = (BTreeMap::new(), Plan::default());
    let copies = copies as u8;
    let mut planner = Planner { map, disks, copies, have, share, planned, plan };
    planner.must_move();
    planner.even_out();
    planner.plan
}

/// How many copies each disk should have: in proportion, whole, no more than fit.
fn shares(disks: &[(Shape, DiskState)], have: &[u64], total: u64) -> Vec<u64> {
    let stays = |state: DiskState| state == DiskState::Member;
    let room: u128 =
        disks.iter().filter(|(_, state)| stays(*state)).map(|(s, _)| u128::from(s.aus)).sum();
    let mut share = vec![0; disks.len()];
    if room == 0 {
        return share;
    }
    let mut left = total;
    for (index, (shape, state)) in disks.iter().enumerate() {
        if stays(*state) {
            let part = (u128::from(total) * u128::from(shape.aus) / room) as u64;
            share[index] = part.min(u64::from(shape.aus));
            left -= share[index];
        }
    }
    let mut order: Vec<usize> = (0..disks.len()).filter(|disk| stays(disks[*disk].1)).collect();
    order.sort_by_key(|disk| std::cmp::Reverse(have[*disk].saturating_sub(share[*disk])));
    for disk in order {
        if left > 0 && share[disk] < u64::from(disks[disk].0.aus) {
            share[disk] += 1;
            left -= 1;
        }
    }
    share
}

impl Planner<'_> {
    fn must_move(&mut self) {
        let map = self.map;
        let lost: Vec<Copy> = map.nowhere().collect();
        lost.into_iter().for_each(|copy| self.rehome(copy, None));
        for disk in 0..self.disks.len() as u16 {
            match self.disks[disk as usize].1 {
                DiskState::Member => {}
                DiskState::Dropping | DiskState::Failed | DiskState::Dropped => {
                    map.on_disk(disk).for_each(|copy| self.rehome(copy, Some(disk)));
                }
            }
        }
    }

    fn rehome(&mut self, copy: Copy, from: Option<u16>) {
        match self.target(copy, from, false) {
            Some(to) => self.note(copy, from, to),
            None => self.plan.homeless += 1,
        }
    }

    fn even_out(&mut self) {
        let map = self.map;
        for disk in 0..self.disks.len() as u16 {
            let index = disk as usize;
            let mut surplus = self.have[index].saturating_sub(self.share[index]);
            if self.disks[index].1 != DiskState::Member || surplus == 0 {
                continue;
            }
            // One in so many, from the first to the last, of primaries and others each by themselves;
            // then whatever else can go.
            let all = u64::from(map.copies_on(disk)).max(1);
            let wanted = surplus;
            for evenly in [true, false] {
                let mut seen = [0_u64; 3];
                for copy in map.on_disk(disk) {
                    if surplus == 0 {
                        break;
                    }
                    let number = seen[copy.copy as usize];
                    seen[copy.copy as usize] += 1;
                    let turn = (number + 1) * wanted / all > number * wanted / all;
                    if evenly && !turn || self.planned.contains_key(&copy) {
                        continue;
                    }
                    if let Some(to) = self.target(copy, Some(disk), true) {
                        self.note(copy, Some(disk), to);
                        surplus -= 1;
                    }
                }
                if !(0..self.disks.len()).any(|disk| self.have[disk] < self.share[disk]) {
                    break;
                }
            }
        }
    }

    fn note(&mut self, copy: Copy, from: Option<u16>, to: u16) {
        if let Some(from) = from {
            self.have[from as usize] -= 1;
        }
        self.have[to as usize] += 1;
        self.planned.insert(copy, to);
        self.plan.moves.push(Move { extent: copy.extent, copy: copy.copy, to });
    }

    /// The best disk for a copy: furthest below its share for its size.
    fn target(&self, copy: Copy, from: Option<u16>, below_share_only: bool) -> Option<u16> {
        let others: Vec<u16> = (0..self.copies)
            .filter(|other| *other != copy.copy)
            .filter_map(|other| {
                let other = Copy { copy: other, ..copy };
                let planned = self.planned.get(&other).copied();
                planned.or_else(|| self.map.place(other).map(|place| place.disk))
            })
            .filter(|disk| {
                // A copy that is lost stands in nobody's way.
                matches!(self.disks[*disk as usize].1, DiskState::Member | DiskState::Dropping)
            })
            .map(|disk| self.disks[disk as usize].0.failure_group)
            .collect();
        let allowed = |disk: &u16| {
            let (shape, state) = &self.disks[*disk as usize];
            let (have, share) = (self.have[*disk as usize], self.share[*disk as usize]);
            *state == DiskState::Member
                && Some(*disk) != from
                && have < u64::from(shape.aus)
                && (have < share || !below_share_only)
                && !others.contains(&shape.failure_group)
        };
        (0..self.disks.len() as u16).filter(allowed).max_by(|a, b| {
            let below = |disk: u16| {
                let disk = disk as usize;
                (self.share[disk] as f64 - self.have[disk] as f64)
                    / f64::from(self.disks[disk].0.aus)
            };
            below(*a).total_cmp(&below(*b)).then(b.cmp(a))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn disk(aus: u32, failure_group: u16, state: DiskState) -> (Shape, DiskState) {
        (Shape { aus, failure_group }, state)
    }

    proptest! {
        /// Without mirrors the fewest moves are known: what must go, and what is above the shares.
        #[test]
        fn a_rebalance_moves_the_fewest_copies(
            aus in prop::collection::vec(100_u32..1000, 2..8),
            added in prop::collection::vec(100_u32..1000, 0..3),
            drop in prop::option::of(0_usize..8),
        ) {
            let mut disks: Vec<_> = aus.iter().map(|n| disk(*n, 0, DiskState::Member)).collect();
            let shapes: Vec<Shape> = disks.iter().map(|(shape, _)| *shape).collect();
            let total: u32 = aus.iter().sum();
            let mut map = Map::new(&shapes, 1, total / 3);
            for aus in added {
                map.add_disk(aus);
                disks.push(disk(aus, 0, DiskState::Member));
            }
            if let Some(victim) = drop.filter(|victim| *victim < aus.len()) {
                disks[victim].1 = DiskState::Dropping;
            }
            let stays = |(_, state): &&(Shape, DiskState)| *state == DiskState::Member;
            let room: u32 = disks.iter().filter(stays).map(|(shape, _)| shape.aus).sum();
            prop_assume!(room >= map.extents());
            let plan = plan(&map, &disks, 1);
            prop_assert_eq!(plan.homeless, 0);
            let have: Vec<u64> =
                (0..disks.len()).map(|d| u64::from(map.copies_on(d as u16))).collect();
            let share = shares(&disks, &have, u64::from(map.extents()));
            let fewest: u64 = have.iter().zip(&share).map(|(h, s)| h.saturating_sub(*s)).sum();
            prop_assert_eq!(plan.moves.len() as u64, fewest);
            let mut after = have;
            for Move { extent, copy, to } in plan.moves {
                let from = map.place(Copy { extent, copy }).expect("somewhere").disk;
                after[from as usize] -= 1;
                after[to as usize] += 1;
            }
            prop_assert_eq!(after, share);
        }
    }

    #[test]
    fn one_disk_more_of_equal_ones_takes_its_part_evenly_from_all() {
        let mut disks: Vec<_> = (0..9).map(|d| disk(1000, d, DiskState::Member)).collect();
        let shapes: Vec<Shape> = disks.iter().map(|(shape, _)| *shape).collect();
        let mut map = Map::new(&shapes, 2, 3600);
        map.add_disk(1000);
        disks.push(disk(1000, 9, DiskState::Member));
        let plan = plan(&map, &disks, 2);
        assert_eq!(plan.moves.len(), 720);
        assert!(plan.moves.iter().all(|step| step.to == 9));
        let primaries = plan.moves.iter().filter(|step| step.copy == 0).count();
        assert!((300..420).contains(&primaries), "{primaries}");
    }

    #[test]
    fn copies_that_have_no_failure_group_to_go_to_are_counted() {
        let mut disks: Vec<_> = (0..2).map(|d| disk(100, d, DiskState::Member)).collect();
        let shapes: Vec<Shape> = disks.iter().map(|(shape, _)| *shape).collect();
        let map = Map::new(&shapes, 2, 50);
        disks[0].1 = DiskState::Dropping;
        let plan = plan(&map, &disks, 2);
        assert_eq!((plan.moves.len(), plan.homeless), (0, 50));
    }
}
