//! Where every copy lies now, and what lies in every AU: the pattern, and what was moved since.
//!
//! Both ways are kept: forward, for I/O (`moved`), and backward, for what is written to the disks
//! (`changed`), since the backward map *is* the metadata: each disk's allocation table says what lies in
//! its AUs. A claim carries a sequence number; of two claims to one copy the later is right.

use crate::pattern::{Copy, Pattern, Place, Shape};
use std::collections::{BTreeMap, BTreeSet};

/// What an allocation table says of an AU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) copy: Copy,
    /// 0 for the first allocation; each move takes the next number.
    pub(crate) sequence: u64,
}

/// See the head of this file.
pub(crate) struct Map {
    pattern: Pattern,
    extents: u32,
    /// Copies that do not lie where the pattern says; `None` for one that lies nowhere.
    moved: BTreeMap<Copy, Option<Place>>,
    disks: Vec<OfDisk>,
    sequence: u64,
}

struct OfDisk {
    aus: u32,
    /// AUs of which the table says something else than the pattern.
    changed: BTreeMap<u32, Option<Claim>>,
    /// From here on no AU was ever used.
    unused_from: u32,
    freed: BTreeSet<u32>,
    copies: u32,
}

impl Map {
    /// The map of a new group.
    pub(crate) fn new(shapes: &[Shape], copies: usize, extents: u32) -> Map {
        let pattern = Pattern::new(shapes, copies);
        let of_disk = |(disk, shape): (usize, &Shape)| {
            let used = pattern.used(disk as u16, extents);
            OfDisk {
                aus: shape.aus,
                changed: BTreeMap::new(),
                unused_from: used,
                freed: BTreeSet::new(),
                copies: used,
            }
        };
        let disks = shapes.iter().enumerate().map(of_disk).collect();
        Map { pattern, extents, moved: BTreeMap::new(), disks, sequence: 0 }
    }

    /// Enters a disk that holds nothing.
    pub(crate) fn add_disk(&mut self, aus: u32) {
        let (changed, freed) = (BTreeMap::new(), BTreeSet::new());
        self.disks.push(OfDisk { aus, changed, unused_from: 0, freed, copies: 0 });
    }

    /// How many extents the volume has.
    pub(crate) fn extents(&self) -> u32 {
        self.extents
    }

    /// Where a copy lies; `None` where it lies nowhere.
    pub(crate) fn place(&self, copy: Copy) -> Option<Place> {
        match self.moved.get(&copy) {
            Some(place) => *place,
            None => Some(self.pattern.place(copy)),
        }
    }

    /// What the table says of an AU.
    pub(crate) fn claim(&self, place: Place) -> Option<Claim> {
        match self.disks[place.disk as usize].changed.get(&place.au) {
            Some(claim) => *claim,
            None => self.by_pattern(place),
        }
    }

    fn by_pattern(&self, place: Place) -> Option<Claim> {
        let copy = self.pattern.at(place, self.extents)?;
        Some(Claim { copy, sequence: 0 })
    }

    /// How many copies lie on a disk.
    pub(crate) fn copies_on(&self, disk: u16) -> u32 {
        self.disks[disk as usize].copies
    }

    /// The copies on a disk, by AU.
    pub(crate) fn on_disk(&self, disk: u16) -> impl Iterator<Item = Copy> + '_ {
        (0..self.disks[disk as usize].unused_from).filter_map(move |au| {
            let place = Place { disk, au };
            let claim = self.claim(place)?;
            (self.place(claim.copy) == Some(place)).then_some(claim.copy)
        })
    }

    /// The copies that lie nowhere.
    pub(crate) fn nowhere(&self) -> impl Iterator<Item = Copy> + '_ {
        self.moved.iter().filter(|(_, place)| place.is_none()).map(|(copy, _)| *copy)
    }

    /// Takes a free AU of a disk.
    pub(crate) fn take_free(&mut self, disk: u16) -> Option<Place> {
        let of_disk = &mut self.disks[disk as usize];
        if let Some(au) = of_disk.freed.pop_first() {
            return Some(Place { disk, au });
        }
        let au = of_disk.unused_from;
        (au < of_disk.aus).then(|| {
            of_disk.unused_from += 1;
            Place { disk, au }
        })
    }

    /// Gives an AU back that nothing claims any more, and nobody reads or writes.
    pub(crate) fn give_back(&mut self, place: Place) {
        self.disks[place.disk as usize].freed.insert(place.au);
    }

    /// Lets a copy claim an AU, later than all claims so far.
    pub(crate) fn set_claim(&mut self, place: Place, copy: Copy) {
        self.sequence += 1;
        let claim = Claim { copy, sequence: self.sequence };
        self.disks[place.disk as usize].changed.insert(place.au, Some(claim));
    }

    /// Lets nothing claim an AU.
    pub(crate) fn clear_claim(&mut self, place: Place) {
        self.disks[place.disk as usize].changed.insert(place.au, None);
    }

    /// From now on a copy lies here.
    pub(crate) fn relocate(&mut self, copy: Copy, to: Place) {
        if let Some(from) = self.place(copy) {
            self.disks[from.disk as usize].copies -= 1;
        }
        self.disks[to.disk as usize].copies += 1;
        self.moved.insert(copy, Some(to));
    }

    /// Takes over what the tables of the disks say, as they were read: of a disk, its AUs and what lies
    /// in them. Returns the claims that lost against a later one, which must not stay.
    pub(crate) fn take_tables(&mut self, tables: Vec<(Place, Option<Claim>)>) -> Vec<Place> {
        let mut claims: Vec<(Copy, u64, Place)> = Vec::new();
        let mut unclaimed: BTreeSet<Copy> = BTreeSet::new();
        for (place, claim) in tables {
            let first = self.by_pattern(place);
            if claim == first {
                continue;
            }
            self.disks[place.disk as usize].changed.insert(place.au, claim);
            unclaimed.extend(first.map(|first| first.copy));
            if let Some(claim) = claim {
                claims.push((claim.copy, claim.sequence, place));
                self.sequence = self.sequence.max(claim.sequence);
            }
        }
        // The first allocation claims too, where the table does not say otherwise.
        let mut losers = Vec::new();
        claims.sort_unstable();
        let mut claims = claims.into_iter().peekable();
        while let Some((copy, sequence, place)) = claims.next() {
            match claims.peek() {
                Some((next, ..)) if *next == copy => losers.push(place),
                _ => {
                    let first = self.pattern.place(copy);
                    if first != place && self.claim(first).is_some_and(|c| c.copy == copy) {
                        debug_assert!(sequence > 0, "a first claim is by the pattern");
                        losers.push(first);
                    }
                    self.moved.insert(copy, Some(place));
                }
            }
        }
        for copy in unclaimed {
            self.moved.entry(copy).or_insert(None);
        }
        losers.iter().for_each(|place| self.clear_claim(*place));
        losers
    }

    /// Works out anew which AUs are free, after the tables were taken over.
    pub(crate) fn count(&mut self) {
        for disk in 0..self.disks.len() as u16 {
            let last = self.disks[disk as usize].changed.keys().next_back().map_or(0, |au| au + 1);
            let used = last.max(self.pattern.used(disk, self.extents));
            let mut freed = BTreeSet::new();
            for au in 0..used {
                if self.claim(Place { disk, au }).is_none() {
                    freed.insert(au);
                }
            }
            let of_disk = &mut self.disks[disk as usize];
            of_disk.copies = used - freed.len() as u32;
            of_disk.unused_from = used;
            of_disk.freed = freed;
        }
    }
}
