//! RAID 1 and RAID 10: each byte of the array lies in several places.
//!
//! RAID 10 has `near` × `far` copies of each chunk:
//!
//! * **near**: the copies lie beside one another, on the next members at the same place (or, where
//!   the number of members is no multiple of `near`, at the start of the next row).
//! * **far**: the whole array is striped over the first 1/`far` of the members as RAID 0, and again
//!   over the next 1/`far`, each time shifted by `near` members. So a sequential read runs at the rate
//!   of RAID 0 in the fast outer zone.
//! * **offset**: the shifted copy of a row follows right behind the row.
//!
//! How far a far copy is shifted when there are more than two *sets* of members is where three layouts
//! differ (bits 17 and 18 of the kernel's number); the shift goes round within sets of
//! [`far_set`](MirroredMap::new) members.
//!
//! RAID 1 is `near` = number of members with one chunk as large as a member.
//!
//! The **primary** copy of a chunk is the first of its places; each chunk has exactly one, so whoever
//! visits the primaries in a stretch of the members visits each chunk once.
//!
//! Source: Linux `drivers/md/raid10.c` (`setup_geo`, `__raid10_find_phys`, `raid10_find_virt`,
//! `calc_sectors`, `raid10_size`).

use super::Place;
use super::kinds::Layout;
use smallvec::SmallVec;

/// The places of one chunk. More than four copies is rare.
pub(crate) type Copies = SmallVec<[Place; 4]>;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct MirroredMap {
    disks: usize,
    near: usize,
    far: usize,
    offset: bool,
    far_set: usize,
    chunk: u64,
    /// From a far copy to the next, on a member.
    stride: u64,
    capacity: u64,
    /// Bytes of each member that the array uses.
    extent: u64,
}

impl MirroredMap {
    /// RAID 1 of so many members of this size.
    pub(crate) fn raid1(disks: usize, size: u64) -> MirroredMap {
        MirroredMap {
            disks,
            near: disks,
            far: 1,
            offset: false,
            far_set: disks,
            chunk: size,
            stride: size,
            capacity: size,
            extent: size,
        }
    }

    /// RAID 10. `far_set` is the number of members in which far copies go round.
    pub(crate) fn new(
        disks: usize,
        copies: (usize, usize),
        offset: bool,
        far_set: usize,
        chunk: u64,
        size: u64,
    ) -> MirroredMap {
        let (near, far) = copies;
        // As the kernel counts: chunks of the array, then chunks used of each member.
        let chunks = size / chunk / far as u64 * disks as u64 / near as u64;
        let used = (chunks * (near * far) as u64).div_ceil(disks as u64);
        let stride = if offset { 1 } else { used / far as u64 };
        MirroredMap {
            disks,
            near,
            far,
            offset,
            far_set,
            chunk,
            stride: stride * chunk,
            capacity: chunks * chunk,
            extent: used * chunk,
        }
    }

    /// Whether copies lie in several parts of the members, one in each.
    pub(crate) fn has_far_copies(&self) -> bool {
        self.far > 1 && self.near == 1
    }

    /// RAID 10 of this layout with a chunk on each member: who holds the same as whom. None where there is no such.
    pub(crate) fn of_slots(layout: Layout, disks: usize) -> Option<MirroredMap> {
        let Layout::Mirrored { near, far, offset, far_sets } = layout else { return None };
        let fits = near * far > 0 && near * far <= disks;
        let far_set = far_sets.members(disks, near, far);
        fits.then(|| MirroredMap::new(disks, (near, far), offset, far_set, 1, far as u64))
    }

    /// How many of the first chunks, one for each member, have all their copies on members that are not there. Those
    /// behind lie as they do.
    pub(crate) fn uncovered(&self, is_there: impl Fn(usize) -> bool) -> usize {
        let has_none = |chunk: &u64| {
            let copies = self.locate(chunk * self.chunk);
            !copies.iter().any(|place| is_there(place.slot))
        };
        (0..self.disks as u64).filter(has_none).count()
    }

    /// The size of the array.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How much of each member is used.
    pub(crate) fn extent(&self) -> u64 {
        self.extent
    }

    /// The chunk.
    pub(crate) fn chunk(&self) -> u64 {
        self.chunk
    }

    /// How many copies there are of each byte.
    pub(crate) fn copies(&self) -> usize {
        self.near * self.far
    }

    /// How many bytes from `at` on lie in one piece.
    pub(crate) fn piece(&self, at: u64) -> u64 {
        self.chunk - at % self.chunk
    }

    /// All places of the byte at `at`, the primary first.
    pub(crate) fn locate(&self, at: u64) -> Copies {
        let number = at / self.chunk * self.near as u64;
        let (mut row, first) = (number / self.disks as u64, (number % self.disks as u64) as usize);
        if self.offset {
            row *= self.far as u64;
        }
        let mut place = row * self.chunk + at % self.chunk;
        let mut slot = first;
        let mut copies = Copies::new();
        for _ in 0..self.near {
            let (mut far_slot, mut far_place) = (slot, place);
            copies.push(Place { slot, at: place });
            for _ in 1..self.far {
                far_slot = self.shifted(far_slot);
                far_place += self.stride;
                copies.push(Place { slot: far_slot, at: far_place });
            }
            slot += 1;
            if slot == self.disks {
                slot = 0;
                place += self.chunk;
            }
        }
        copies
    }

    /// How many bytes of the array have their primary copy before `place` of the members, which is the start
    /// of a chunk: with the array's bytes the primaries go on in rows.
    pub(crate) fn primaries_before(&self, place: u64) -> u64 {
        let rows = place / self.chunk;
        let rows = if self.offset { rows.div_ceil(self.far as u64) } else { rows };
        let chunks = (rows * self.disks as u64).div_ceil(self.near as u64);
        (chunks * self.chunk).min(self.capacity)
    }

    /// Up to which place of the members every primary copy is one of a byte before `byte` of the array.
    pub(crate) fn primaries_until(&self, byte: u64) -> u64 {
        if byte >= self.capacity {
            return self.extent;
        }
        let primary = self.locate(byte).first().map_or(0, |place| place.at);
        primary - primary % self.chunk
    }

    /// Up to which place of the members there are primary copies: in a far layout they lie in the first part.
    pub(crate) fn primaries_end(&self) -> u64 {
        let Some(last) = self.capacity.checked_sub(1) else { return 0 };
        self.locate(last).first().map_or(self.extent, |place| place.at + 1)
    }

    /// The member that holds the next far copy of what `slot` holds.
    fn shifted(&self, slot: usize) -> usize {
        let set = slot / self.far_set;
        let last_start = self.last_set_start();
        let moved = slot + self.near;
        if !self.disks.is_multiple_of(self.far_set) && moved > last_start {
            (moved - last_start) % self.last_set_size() + last_start
        } else {
            moved % self.far_set + self.far_set * set
        }
    }

    fn last_set_start(&self) -> usize {
        (self.disks / self.far_set - 1) * self.far_set
    }

    fn last_set_size(&self) -> usize {
        self.far_set + self.disks % self.far_set
    }

    /// The byte of the array that lies at `place`, where one does: the tail of a row may be unused.
    pub(crate) fn array_byte(&self, place: Place) -> Option<u64> {
        let (mut set_start, mut set_size) =
            (place.slot / self.far_set * self.far_set, self.far_set);
        if !self.disks.is_multiple_of(self.far_set) && place.slot >= self.last_set_start() {
            (set_start, set_size) = (self.last_set_start(), self.last_set_size());
        }
        let (mut chunk, in_chunk) = (place.at / self.chunk, place.at % self.chunk);
        let shifts = if self.offset {
            let shifts = chunk % self.far as u64;
            chunk /= self.far as u64;
            shifts
        } else {
            let rows = self.stride / self.chunk;
            let shifts = chunk / rows;
            chunk %= rows;
            shifts
        };
        if shifts >= self.far as u64 {
            return None;
        }
        // Back by `near` for each shift, round within the set.
        let back = (shifts as usize * self.near) % set_size;
        let slot = set_start + (place.slot - set_start + set_size - back) % set_size;
        let number = (chunk * self.disks as u64 + slot as u64) / self.near as u64;
        Some(number * self.chunk + in_chunk).filter(|at| *at < self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Level;
    use proptest::prelude::*;

    fn table(map: &MirroredMap, chunks: u64) -> Vec<Vec<(usize, u64)>> {
        let row =
            |n: u64| map.locate(n * map.chunk).iter().map(|p| (p.slot, p.at / map.chunk)).collect();
        (0..chunks).map(row).collect()
    }

    /// The three tables of md(4).
    #[test]
    fn near_far_and_offset_lie_as_md_lays_them() {
        let near = MirroredMap::new(3, (2, 1), false, 3, 4096, 4 * 4096);
        assert_eq!(near.capacity(), 6 * 4096);
        assert_eq!(table(&near, 3), [[(0, 0), (1, 0)], [(2, 0), (0, 1)], [(1, 1), (2, 1)]]);
        let far = MirroredMap::new(4, (1, 2), false, 4, 4096, 4 * 4096);
        assert_eq!(table(&far, 5)[..2], [[(0, 0), (1, 2)], [(1, 0), (2, 2)]]);
        assert_eq!(table(&far, 5)[3..], [[(3, 0), (0, 2)], [(0, 1), (1, 3)]]);
        let offset = MirroredMap::new(4, (1, 2), true, 4, 4096, 4 * 4096);
        assert_eq!(table(&offset, 5)[3..], [[(3, 0), (0, 1)], [(0, 2), (1, 3)]]);
    }

    /// Neighbours two by two are not who holds the same, where copies are far: 1 and 2 hold chunks together.
    #[test]
    fn what_is_covered_is_asked_of_where_the_copies_lie() {
        let map = |number| {
            let layout = Layout::from_md(Level::Raid10, number).expect("a layout");
            MirroredMap::of_slots(layout, 4).expect("it fits")
        };
        let lost =
            |number, a: usize, b: usize| map(number).uncovered(|slot| slot != a && slot != b);
        assert_eq!((lost(0x102, 1, 2), lost(0x102, 0, 1)), (0, 2));
        assert_eq!((lost(0x201, 1, 2), lost(0x201, 0, 2)), (1, 0));
        assert_eq!(lost(0x10201, 3, 0), 1);
        let four = Layout::from_md(Level::Raid10, 0x202).expect("a layout");
        assert!(MirroredMap::of_slots(four, 3).is_none(), "more copies than members");
    }

    proptest! {
        /// Copies that fall on one member, or a reverse map that does not fit, lose data in a rebuild.
        #[test]
        fn copies_lie_on_different_members_and_lead_back(
            disks in 2_usize..9, near in 1_usize..4, far in 1_usize..4, offset: bool, sets in 0_usize..3, rows in 1_u64..12,
        ) {
            prop_assume!(near * far <= disks && near * far > 1);
            // What the spec refuses: see there.
            prop_assume!(near == 1 || far == 1 || disks.is_multiple_of(near));
            let far_set = match sets {
                1 if far > 1 && disks / far >= near * far => disks / far,
                2 => far * near,
                _ => disks,
            };
            let map = MirroredMap::new(disks, (near, far), offset, far_set, 4096, rows * far as u64 * 4096);
            let mut used = Vec::new();
            for at in (0..map.capacity()).step_by(4096) {
                let copies = map.locate(at + 512);
                prop_assert_eq!(copies.len(), near * far);
                for place in &copies {
                    prop_assert_eq!(map.array_byte(*place), Some(at + 512), "{:?} of {:?}", place, map);
                    prop_assert!(place.slot < disks && place.at < map.extent());
                    used.push((place.slot, place.at));
                }
                let mut slots: Vec<_> = copies.iter().map(|place| place.slot).collect();
                slots.sort_unstable();
                slots.dedup();
                prop_assert_eq!(slots.len(), near * far);
            }
            // A resync that is noted in one way and gone on with in the other leaves nothing out.
            for place in (0..=map.extent()).step_by(4096) {
                let before = map.primaries_before(place);
                let primary = |at: u64| map.locate(at)[0].at;
                let expected = (0..map.capacity()).step_by(4096).filter(|at| primary(*at) < place).count();
                prop_assert_eq!(before, expected as u64 * 4096, "{} of {:?}", place, map);
                let until = map.primaries_until(before);
                prop_assert!(until >= place && (0..map.capacity()).step_by(4096)
                    .all(|at| primary(at) >= until || at < before));
            }
            let last = (0..map.capacity()).step_by(4096).map(|at| map.locate(at)[0].at + 4096).max();
            prop_assert_eq!(map.primaries_end(), last.unwrap_or(0));
            let count = used.len();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), count);
        }
    }
}
