//! Where extents lie when a group is made: a pattern that repeats, so a pure function.
//!
//! A map of every extent would be hundreds of megabytes for large disks, most of it regular. So the
//! first allocation is a *pattern* of some extents, worked out once from the sizes and failure groups of
//! the disks, and repeated over them; only what was moved since is kept one by one (`map`).
//!
//! The pattern is made greedily. For each extent the primary copy goes to the disk that has the fewest
//! primaries for its size, and each further copy to the disk of another failure group that has the fewest
//! copies for its size; among equals, to the one that is least often a partner of the primary. So disks are filled in
//! proportion, primaries (and with them reads) are even, and when a disk is lost many others take its
//! reads.
//!
//! It must stay as it is: a group finds its extents by it when it is opened.

use smallvec::SmallVec;

/// The finest step of proportion between disks: the largest disk has so many steps. More make a longer
/// pattern; fewer leave more of unequal disks unused.
const STEPS_MAX: u64 = 256;
/// How many extents of a pattern have one disk's primary, at least, so that its partners vary.
const ROUNDS: u64 = 8;

/// A place on a disk: the disk's number and the AU's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The disk.
    pub disk: u16,
    /// Its AU.
    pub au: u32,
}

/// What a pattern depends on, of each disk: its AUs and its failure group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// AUs of the disk.
    pub aus: u32,
    /// Its failure group.
    pub failure_group: u16,
}

/// A copy of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// The extent.
    pub extent: u32,
    /// 0 is the primary.
    pub copy: u8,
}

/// The first allocation of a group.
#[derive(Clone, Debug)]
pub struct Pattern {
    copies: usize,
    /// For each copy of each extent of the pattern, one after another: its disk, and how many copies of
    /// the pattern that disk has before it.
    slots: Vec<(u16, u32)>,
    /// For each disk, its copies in the pattern in their order, as indices of `slots`.
    of_disk: Vec<Vec<u32>>,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Pattern {
    /// The pattern of disks of these shapes. They have at least as many failure groups as there are
    /// copies, and each has an AU.
    pub fn new(disks: &[Shape], copies: usize) -> Pattern {
        let largest = disks.iter().map(|disk| u64::from(disk.aus)).max().unwrap_or(1).max(1);
        let step = |disk: &Shape| (u64::from(disk.aus) * STEPS_MAX / largest).max(1);
        let mut steps: Vec<u64> = disks.iter().map(step).collect();
        let divisor = steps.iter().copied().fold(0, gcd).max(1);
        steps.iter_mut().for_each(|step| *step /= divisor);
        let highest = steps.iter().copied().max().unwrap_or(1);
        let rounds = if copies > 1 { ROUNDS.div_ceil(highest) } else { 1 };
        let extents = steps.iter().sum::<u64>() * rounds;

        let count = disks.len();
        let (mut primaries, mut all) = (vec![0_u64; count], vec![0_u64; count]);
        let mut partners = vec![0_u32; count * count];
        let (mut slots, mut of_disk) = (Vec::new(), vec![Vec::new(); count]);
        for _ in 0..extents {
            let mut chosen: SmallVec<[usize; 3]> = SmallVec::new();
            for copy in 0..copies {
                let free = |disk: &usize| {
                    let group = disks[*disk].failure_group;
                    chosen.iter().all(|other| disks[*other].failure_group != group)
                };
                // Fewest for its size: compared as fractions, without rounding.
                let used = if copy == 0 { &primaries } else { &all };
                let fuller = |a: usize, b: usize| {
                    let (left, right) = ((used[a] + 1) * steps[b], (used[b] + 1) * steps[a]);
                    let pairs = |disk: usize| chosen.first().map(|p| partners[p * count + disk]);
                    left.cmp(&right)
                        .then((all[a] * steps[b]).cmp(&(all[b] * steps[a])))
                        .then(pairs(a).cmp(&pairs(b)))
                        .then(a.cmp(&b))
                };
                let best = (0..count).filter(free).min_by(|a, b| fuller(*a, *b));
                let disk = best.expect("there are as many failure groups as copies");
                chosen.push(disk);
            }
            primaries[chosen[0]] += 1;
            for (copy, disk) in chosen.iter().copied().enumerate() {
                if copy > 0 {
                    partners[chosen[0] * count + disk] += 1;
                }
                slots.push((disk as u16, all[disk] as u32));
                of_disk[disk].push(slots.len() as u32 - 1);
                all[disk] += 1;
            }
        }
        Pattern { copies, slots, of_disk }
    }

    /// Extents of one repetition.
    fn extents(&self) -> u32 {
        (self.slots.len() / self.copies) as u32
    }

    /// How many extents fit on disks of these shapes, which are those of the pattern.
    pub fn room(&self, disks: &[Shape]) -> u64 {
        let per_disk = disks.iter().zip(&self.of_disk).filter(|(_, slots)| !slots.is_empty());
        let repeats = per_disk.map(|(disk, slots)| u64::from(disk.aus) / slots.len() as u64).min();
        let whole = repeats.unwrap_or(0) * u64::from(self.extents());
        // Of the last repetition, as far as every disk has room.
        let mut more = 0;
        while more < u64::from(self.extents())
            && (0..self.copies).all(|copy| {
                let copy = Copy { extent: (whole + more) as u32, copy: copy as u8 };
                let place = self.place(copy);
                disks.get(place.disk as usize).is_some_and(|disk| place.au < disk.aus)
            })
        {
            more += 1;
        }
        whole + more
    }

    /// Where a copy lies.
    pub fn place(&self, copy: Copy) -> Place {
        let (repeat, extent) = (copy.extent / self.extents(), copy.extent % self.extents());
        let (disk, before) = self.slots[extent as usize * self.copies + copy.copy as usize];
        let each = self.of_disk[disk as usize].len() as u32;
        Place { disk, au: repeat * each + before }
    }

    /// What lies at a place of a volume of so many extents.
    pub fn at(&self, place: Place, extents: u32) -> Option<Copy> {
        let slots = self.of_disk.get(place.disk as usize).filter(|slots| !slots.is_empty())?;
        let each = slots.len() as u32;
        let slot = slots[(place.au % each) as usize];
        let extent = u64::from(place.au / each) * u64::from(self.extents())
            + u64::from(slot) / self.copies as u64;
        let copy = (slot as usize % self.copies) as u8;
        (extent < u64::from(extents)).then_some(Copy { extent: extent as u32, copy })
    }

    /// How many AUs of a disk a volume of so many extents takes: they are its first.
    pub fn used(&self, disk: u16, extents: u32) -> u32 {
        let Some(slots) = self.of_disk.get(disk as usize) else { return 0 };
        let (repeats, rest) = (extents / self.extents(), extents % self.extents());
        let part = slots.partition_point(|slot| slot / (self.copies as u32) < rest);
        repeats * slots.len() as u32 + part as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shapes() -> impl Strategy<Value = (Vec<Shape>, usize)> {
        let shape =
            (20_u32..400, 0_u16..5).prop_map(|(aus, failure_group)| Shape { aus, failure_group });
        (prop::collection::vec(shape, 1..9), 1_usize..4).prop_filter("groups", |(disks, copies)| {
            let mut groups: Vec<u16> = disks.iter().map(|disk| disk.failure_group).collect();
            groups.sort_unstable();
            groups.dedup();
            groups.len() >= *copies
        })
    }

    proptest! {
        /// Two copies in one place would overwrite each other; two in one failure group are lost together.
        #[test]
        fn places_and_copies_answer_to_each_other((disks, copies) in shapes()) {
            let pattern = Pattern::new(&disks, copies);
            let extents = pattern.room(&disks) as u32;
            let mut used = vec![0_u32; disks.len()];
            for extent in 0..extents {
                let mut groups = Vec::new();
                for copy in 0..copies as u8 {
                    let copy = Copy { extent, copy };
                    let place = pattern.place(copy);
                    prop_assert!(place.au < disks[place.disk as usize].aus);
                    prop_assert_eq!(pattern.at(place, extents), Some(copy));
                    groups.push(disks[place.disk as usize].failure_group);
                    used[place.disk as usize] += 1;
                }
                groups.sort_unstable();
                groups.dedup();
                prop_assert_eq!(groups.len(), copies);
            }
            for (disk, used) in used.iter().enumerate() {
                prop_assert_eq!(pattern.used(disk as u16, extents), *used);
                let beyond = Place { disk: disk as u16, au: *used };
                prop_assert_eq!(pattern.at(beyond, extents), None);
            }
        }

        /// Without mirrors nothing stands against filling disks in proportion to their sizes.
        #[test]
        fn disks_are_filled_in_proportion(aus in prop::collection::vec(64_u32..4000, 1..9)) {
            let shape = |aus: &u32| Shape { aus: *aus, failure_group: 0 };
            let disks: Vec<Shape> = aus.iter().map(shape).collect();
            let pattern = Pattern::new(&disks, 1);
            let total: u64 = aus.iter().map(|aus| u64::from(*aus)).sum();
            let room = pattern.room(&disks);
            prop_assert!(room * 10 >= total * 7, "{room} of {total}");
            let half = (room / 2) as u32;
            let largest = *aus.iter().max().unwrap_or(&1);
            for (disk, aus) in aus.iter().enumerate() {
                let share = f64::from(half) * f64::from(*aus) / total as f64;
                let used = f64::from(pattern.used(disk as u16, half));
                // The steps of proportion round by one at most.
                let steps = f64::from(*aus) / f64::from(largest) * STEPS_MAX as f64;
                let off = (used - share).abs();
                prop_assert!(off <= share * 2.0 / steps + 3.0, "{used} of {share}, {steps} steps");
            }
        }
    }

    #[test]
    fn equal_disks_have_equal_primaries_and_many_partners() {
        let disks: Vec<Shape> =
            (0..8).map(|group| Shape { aus: 1000, failure_group: group }).collect();
        let pattern = Pattern::new(&disks, 2);
        let (mut primaries, mut partners) = ([0; 8], std::collections::BTreeSet::new());
        for extent in 0..640 {
            let [a, b] = [0, 1].map(|copy| pattern.place(Copy { extent, copy }).disk);
            primaries[a as usize] += 1;
            partners.insert((a, b));
        }
        assert_eq!(primaries, [80; 8]);
        assert!(partners.len() >= 40, "{} pairs", partners.len());
    }
}
