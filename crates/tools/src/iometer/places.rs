//! Where the next I/O on a target goes.
//!
//! IOMeter keeps one position for each worker and target. A sequential I/O goes on where the last I/O
//! of that worker on that target ended, *whatever that was*: in a mix, a sequential one after a random
//! one continues from the random place. A random I/O goes anywhere in the worker's part of the target.
//! Then the place is moved up to the next multiple of the alignment; and if the I/O would reach beyond
//! the end of the part, it goes to its start, moved up likewise.
//!
//! So a random place is not quite evenly spread: those too near to the end all become the first. With
//! parts that are large against an I/O nobody can tell.
//!
//! Source of the rules: `TargetDisk::Seek` of IOMeter 1.1.0.

use stdx::{ByteCount, Prng};

/// A worker's part of a target, and its position in it.
#[derive(Clone, Debug)]
pub(super) struct Places {
    start: u64,
    end: u64,
    /// What a place is a multiple of where an access specification says nothing.
    sector: u64,
    /// Where the last I/O ended.
    position: u64,
}

impl Places {
    /// Places in `start..end`, beginning at the start.
    pub(super) fn new(start: ByteCount, end: ByteCount, sector: ByteCount) -> Places {
        let start = start.bytes();
        Places { start, end: end.bytes(), sector: sector.bytes(), position: start }
    }

    /// Whether an I/O of `size` has a place at all.
    pub(super) fn has_room(&self, size: ByteCount, align: ByteCount) -> bool {
        let align = self.alignment(align);
        self.start
            .checked_next_multiple_of(align)
            .and_then(|start| start.checked_add(size.bytes()))
            .is_some_and(|end| end <= self.end)
    }

    /// The place of the next I/O of `size`, which [has room](Places::has_room).
    pub(super) fn next(
        &mut self,
        random: Option<&mut Prng>,
        size: ByteCount,
        align: ByteCount,
    ) -> u64 {
        let align = self.alignment(align);
        let place = match random {
            Some(prng) => self.start + prng.below(self.end - self.start),
            None => self.position,
        };
        let up = |place: u64| match align.is_power_of_two() {
            true => (place + align - 1) & !(align - 1),
            false => place.next_multiple_of(align),
        };
        let mut place = up(place);
        if place + size.bytes() > self.end {
            place = up(self.start);
        }
        self.position = place + size.bytes();
        place
    }

    fn alignment(&self, align: ByteCount) -> u64 {
        if align.is_zero() { self.sector } else { align.bytes() }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: an I/O beyond the end of the part, off the alignment, or a "sequential" load
    //! that is none.

    use super::*;

    const K4: ByteCount = ByteCount::kib(4);

    #[test]
    fn sequential_ones_follow_each_other_and_begin_again() {
        let mut places = Places::new(ByteCount(1024), ByteCount(1024 + 3 * 4096), ByteCount(512));
        let next: Vec<u64> = (0..4).map(|_| places.next(None, K4, ByteCount::ZERO)).collect();
        assert_eq!(next, [1024, 5120, 9216, 1024]);
        // Aligned: the part has room for two only.
        let next: Vec<u64> = (0..3).map(|_| places.next(None, K4, K4)).collect();
        assert_eq!(next, [8192, 4096, 8192]);
    }

    #[test]
    fn a_sequential_one_goes_on_after_a_random_one() {
        let mut places = Places::new(ByteCount::ZERO, ByteCount::mib(1), ByteCount(512));
        let mut prng = Prng::new(1);
        let random = places.next(Some(&mut prng), K4, K4);
        assert_eq!(places.next(None, K4, ByteCount::ZERO), random + 4096);
    }

    #[test]
    fn random_ones_are_aligned_lie_within_and_come_everywhere() {
        let mut prng = Prng::new(1);
        for align in [0, 512, 4096, 3 * 512] {
            let mut places =
                Places::new(ByteCount(700), ByteCount(700 + (1 << 16)), ByteCount(512));
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..5000 {
                let place = places.next(Some(&mut prng), K4, ByteCount(align));
                assert!(place.is_multiple_of(align.max(512)));
                assert!(place >= 700 && place + 4096 <= 700 + (1 << 16));
                seen.insert(place);
            }
            let possible = (1 << 16) / align.max(512);
            assert!(seen.len() as u64 * 10 > (possible - 8192 / align.max(512)) * 9);
        }
    }

    #[test]
    fn a_part_too_small_has_no_room() {
        let places = Places::new(ByteCount(512), ByteCount(8192), ByteCount(512));
        assert!(places.has_room(K4, K4));
        assert!(!places.has_room(ByteCount(4608), K4));
    }
}
