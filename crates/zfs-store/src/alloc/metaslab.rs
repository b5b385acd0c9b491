//! Metaslabs: the equal parts of a top-level vdev, each with the set of what is allocated in it.
//!
//! Metaslab *n* begins at n · 2^shift. In a dRAID it begins and ends with whole groups (as many rows of sectors as one group
//! of data and parity takes), so a little is left over between them; its map counts from where it begins.
//!
//! **Invariant.** A set holds only what lies in its metaslab. A change that crosses a bound is divided there.

use std::ops::Range;
use stdx::RangeSet;
use zfs_format::space_map::Change;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_format::{FormatError, Problem};

/// Metaslabs of one vdev: OpenZFS's own bound is 2^17.
const METASLABS_MAX: u64 = 1 << 17;
/// A sector where the configuration doesn't say, as a power of two.
const SECTOR_SHIFT: u64 = 9;

/// A part of a top-level vdev.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metaslab {
    /// The object of its space map; 0 where it was never used.
    pub map: u64,
    /// The transaction group from which on its changes stand in logs only.
    pub flushed_txg: u64,
    /// What is allocated in it, in bytes from the start of the vdev.
    pub allocated: RangeSet,
}

/// The metaslabs of a top-level vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metaslabs {
    shift: u32,
    ashift: u32,
    /// Bytes of a group of a dRAID; 1 of any other vdev.
    group: u64,
    slabs: Vec<Metaslab>,
}

impl Metaslabs {
    /// The metaslabs of a vdev, empty; nothing where it has none: a removed one, a hole, one that is not initialised.
    ///
    /// # Errors
    /// They would be too many.
    pub fn of(vdev: &Vdev) -> Result<Option<Metaslabs>, FormatError> {
        let shift = vdev.metaslab_shift.unwrap_or(0);
        let (Some(asize), 1..64) = (vdev.asize, shift) else { return Ok(None) };
        if !vdev.is_there() {
            return Ok(None);
        }
        let many = asize >> shift;
        if many > METASLABS_MAX {
            let problem = Problem::Limit { found: many, limit: METASLABS_MAX };
            let (structure, field) = ("vdev configuration", "metaslabs");
            return Err(FormatError { structure, field, offset: 0, problem });
        }
        let ashift = vdev.ashift.unwrap_or(SECTOR_SHIFT).min(63) as u32;
        let group = match &vdev.kind {
            VdevKind::Draid(draid) => {
                let width = draid.data.saturating_add(draid.parity).clamp(1, 255);
                width << ashift.min(32)
            }
            _ => 1,
        };
        let slabs = vec![Metaslab::default(); many as usize];
        Ok(Some(Metaslabs { shift: shift as u32, ashift, group, slabs }))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slabs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slabs.is_empty()
    }

    /// All of them.
    pub fn slabs(&self) -> &[Metaslab] {
        &self.slabs
    }

    /// All of them.
    pub fn slabs_mut(&mut self) -> &mut [Metaslab] {
        &mut self.slabs
    }

    /// There are so many from here on, if they were fewer.
    pub(super) fn expand(&mut self, many: usize) {
        let many = many.max(self.slabs.len());
        self.slabs.resize(many, Metaslab::default());
    }

    /// The unit of their space maps, as a power of two.
    pub fn unit(&self) -> u32 {
        self.ashift
    }

    /// Bytes between the starts of two of them.
    pub fn stride(&self) -> u64 {
        1 << self.shift
    }

    /// Where one begins, in bytes from the start of the vdev.
    pub fn start(&self, number: usize) -> u64 {
        ((number as u64) << self.shift).next_multiple_of(self.group)
    }

    /// Bytes of one.
    pub fn bytes(&self, number: usize) -> u64 {
        let skipped = self.start(number) - ((number as u64) << self.shift);
        self.stride().saturating_sub(skipped) / self.group * self.group
    }

    /// Bytes of all of them.
    pub fn size(&self) -> u64 {
        (0..self.len()).map(|number| self.bytes(number)).sum()
    }

    /// The metaslab that a change in the log of a transaction group concerns; nothing where there is none, or its own map
    /// has it already.
    pub fn logged(&self, txg: u64, offset: u64) -> Option<usize> {
        let number = usize::try_from(offset >> self.shift).ok()?;
        let slab = self.slabs.get(number)?;
        (txg >= slab.flushed_txg).then_some(number)
    }

    /// Takes note of a change; false where what was allocated had been so in part, or what was freed had not, or it lies
    /// beyond the last metaslab.
    pub fn change(&mut self, change: Change, offset: u64, len: u64) -> bool {
        let mut changed = 0;
        for (number, part) in self.parts(offset, len) {
            let Some(slab) = self.slabs.get_mut(number) else { return false };
            changed += match change {
                Change::Allocate => slab.allocated.insert(part),
                Change::Free => slab.allocated.remove(part),
            };
        }
        changed == len
    }

    /// Whether all of a stretch is allocated.
    pub fn holds(&self, offset: u64, len: u64) -> bool {
        let is_held = |(number, part): (usize, Range<u64>)| {
            self.slabs.get(number).is_some_and(|slab| slab.allocated.covers(&part))
        };
        offset.checked_add(len).is_some() && self.parts(offset, len).all(is_held)
    }

    /// What of a stretch is allocated, in order.
    pub fn within(&self, offset: u64, len: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.parts(offset, len).flat_map(|(number, part)| {
            self.slabs
                .get(number)
                .into_iter()
                .flat_map(move |slab| slab.allocated.within(part.clone()))
        })
    }

    /// What of a metaslab is not allocated, in order.
    pub fn free(&self, number: usize) -> impl Iterator<Item = Range<u64>> + '_ {
        let slab = &self.slabs[number];
        let (mut at, end) = (self.start(number), self.start(number) + self.bytes(number));
        std::iter::from_fn(move || {
            let gap = slab.allocated.gap(at, end)?;
            at = gap.end;
            Some(gap)
        })
    }

    /// A stretch divided at the bounds of metaslabs; what lies behind the last is one part.
    fn parts(&self, offset: u64, len: u64) -> impl Iterator<Item = (usize, Range<u64>)> + use<> {
        let (shift, many) = (self.shift, self.slabs.len() as u64);
        let end = offset.saturating_add(len);
        let mut at = offset;
        std::iter::from_fn(move || {
            let number = at >> shift;
            let bound = match number < many {
                true => end.min((number + 1) << shift),
                false => end,
            };
            let part = (at < end).then(|| (number.min(many) as usize, at..bound));
            at = bound;
            part
        })
    }

    /// Bytes that are allocated.
    pub fn allocated(&self) -> u64 {
        self.slabs.iter().map(|slab| slab.allocated.total()).sum()
    }

    /// The stretches that are allocated, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut parts = self.slabs.iter().flat_map(|slab| slab.allocated.iter()).peekable();
        std::iter::from_fn(move || {
            let mut stretch = parts.next()?;
            while let Some(further) = parts.next_if(|next| next.start == stretch.end) {
                stretch.end = further.end;
            }
            Some(stretch)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    fn vdev(kind: VdevKind, asize: u64, shift: u64) -> Vdev {
        Vdev {
            kind,
            id: 0,
            guid: 1,
            path: None,
            ashift: Some(12),
            asize: Some(asize),
            metaslab_array: None,
            metaslab_shift: Some(shift),
            is_log: None,
            allocation_bias: None,
            dtl: None,
            create_txg: None,
            children: Vec::new(),
            other: Vec::new(),
        }
    }

    #[test]
    fn metaslabs_of_a_draid_are_whole_groups() {
        let draid = zfs_format::vdev::Draid { parity: 1, data: 2, spares: 1, groups: 5 };
        let slabs = Metaslabs::of(&vdev(VdevKind::Draid(draid), 12 << 24, 24));
        let slabs = slabs.expect("few").expect("it has some");
        let sizes: Vec<u64> = (0..3).map(|number| slabs.bytes(number)).collect();
        assert_eq!(sizes, [16_773_120, 16_760_832, 16_773_120]);
        assert_eq!(slabs.start(1), 16_785_408);
        let slabs = Metaslabs::of(&vdev(VdevKind::Mirror, 12 << 24, 24));
        let slabs = slabs.expect("few").expect("it has some");
        assert_eq!((slabs.bytes(1), slabs.len(), slabs.size()), (1 << 24, 12, 12 << 24));
        assert_eq!(Metaslabs::of(&vdev(VdevKind::Hole, 12 << 24, 24)), Ok(None));
        assert!(Metaslabs::of(&vdev(VdevKind::Mirror, 1 << 40, 9)).is_err());
    }

    /// What could break: a stretch over a bound of which one side is lost, or one behind the end that is taken for granted.
    #[test]
    fn metaslabs_hold_what_a_list_of_flags_holds() {
        let mut random = Prng::new(11);
        for _ in 0..100 {
            let slabs = Metaslabs::of(&vdev(VdevKind::Mirror, 64, 3));
            let mut slabs = slabs.expect("few").expect("it has some");
            let mut flags = [false; 64];
            for _ in 0..40 {
                let at = random.next_u64() % 80;
                let len = 1 + random.next_u64() % 20;
                let end = at + len;
                let part = flags.get(at as usize..end as usize);
                let known = part.map(|part| part.iter().filter(|flag| **flag).count() as u64);
                assert_eq!(slabs.holds(at, len), known == Some(len));
                if end > 64 {
                    continue;
                }
                let take = random.chance(0.5);
                let change = if take { Change::Allocate } else { Change::Free };
                let fits = if take { 0 } else { len };
                assert_eq!(slabs.change(change, at, len), known == Some(fits));
                flags[at as usize..end as usize].fill(take);
                assert_eq!(slabs.allocated(), flags.iter().filter(|flag| **flag).count() as u64);
                let within = |(n, slab): (usize, &Metaslab)| {
                    slab.allocated
                        .iter()
                        .all(|part| part.start >= slabs.start(n) && part.end <= slabs.start(n + 1))
                };
                assert!(slabs.slabs().iter().enumerate().all(within));
                let stretches: RangeSet = slabs.iter().collect();
                assert_eq!(
                    (stretches.total(), stretches.len()),
                    (slabs.allocated(), slabs.iter().count())
                );
            }
            assert!(!slabs.change(Change::Allocate, 60, 8), "it lies behind the last in part");
            assert!(!slabs.holds(u64::MAX, 1) && !slabs.holds(60, u64::MAX));
        }
    }

    #[test]
    fn a_log_concerns_metaslabs_whose_maps_are_older() {
        let slabs = Metaslabs::of(&vdev(VdevKind::Mirror, 64, 3));
        let mut slabs = slabs.expect("few").expect("it has some");
        slabs.slabs_mut()[2].flushed_txg = 10;
        assert_eq!((slabs.logged(9, 16), slabs.logged(10, 23)), (None, Some(2)));
        assert_eq!((slabs.logged(1, 8), slabs.logged(99, 64)), (Some(1), None));
    }
}
