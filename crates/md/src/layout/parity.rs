//! RAID 4, 5 and 6: which member of a row holds which data chunk, and which the parity.
//!
//! A **row** (md: a stripe) is one chunk on each member, all at the same place. The tables below show
//! rows downward, members across, for RAID 5 of four members:
//!
//! ```text
//! left-asymmetric   right-asymmetric   left-symmetric    right-symmetric   parity-first  parity-last
//!  0  1  2  P         P  0  1  2         0  1  2  P        P  0  1  2        P 0 1 2       0 1 2 P
//!  3  4  P  5         3  P  4  5         4  5  P  3        5  P  3  4        P 3 4 5       3 4 5 P
//!  6  P  7  8         6  7  P  8         8  P  6  7        7  8  P  6        P 6 7 8       6 7 8 P
//!  P  9 10 11         9 10 11  P         P  9 10 11        9 10 11  P        P ...         ... P
//! ```
//!
//! RAID 4 is parity-last. In RAID 6, Q follows P (around the end), and the data of the symmetric
//! layouts begins behind Q. The layouts called `-6` are RAID 5 over all but the last member, which has
//! every Q: an array on its way from RAID 5 to 6. The three `ddf` layouts are those of the DDF standard.
//!
//! **Coefficients.** Q = Σ 2ⁱ·dᵢ, and md counts i from the member behind Q, round the row, without P and
//! Q: not in the order of the data. In the `ddf` layouts i is simply the slot's number, P and Q
//! counting as zeros.
//!
//! Source: Linux `drivers/md/raid5.c` (`raid5_compute_sector`, `raid6_d0`, `raid6_idx_to_slot`) and
//! `raid5.h` (the layout numbers).

use super::Place;
use super::kinds::ParityLayout;

/// Where one row has its parities, and in which order its data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The slot of P.
    pub(crate) p: usize,
    /// The slot of Q, in RAID 6.
    pub(crate) q: Option<usize>,
    /// Symmetric layouts: the slot of the row's first data chunk. The others go by slot number.
    first: Option<usize>,
}

impl Row {
    /// Whether the slot has a parity in this row.
    pub(crate) fn is_parity(&self, slot: usize) -> bool {
        slot == self.p || Some(slot) == self.q
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct ParityMap {
    layout: ParityLayout,
    /// Members.
    pub(crate) disks: usize,
    /// Data chunks in a row.
    pub(crate) data: usize,
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
}

impl ParityMap {
    /// So many members, of which one or two a row hold parity.
    pub(crate) fn new(
        layout: ParityLayout,
        disks: usize,
        parities: usize,
        chunk: u64,
    ) -> ParityMap {
        assert!(
            (1..=2).contains(&parities) && disks > parities,
            "a row has data and one or two parities"
        );
        ParityMap { layout, disks, data: disks - parities, chunk }
    }

    /// Parities in a row.
    pub(crate) fn parities(&self) -> usize {
        self.disks - self.data
    }

    /// Bytes of data in a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.chunk * self.data as u64
    }

    /// The row of this number.
    pub(crate) fn row(&self, number: u64) -> Row {
        use ParityLayout::*;
        let disks = self.disks;
        let turn = |period: usize| (number % period as u64) as usize;
        if self.parities() == 1 {
            let (p, symmetric) = match self.layout {
                LeftAsymmetric => (disks - 1 - turn(disks), false),
                RightAsymmetric => (turn(disks), false),
                LeftSymmetric => (disks - 1 - turn(disks), true),
                RightSymmetric => (turn(disks), true),
                ParityFirst => (0, false),
                ParityLast => (disks - 1, false),
                other => unreachable!("{other:?} is a layout of RAID 6: the spec was checked"),
            };
            return Row { p, q: None, first: symmetric.then_some((p + 1) % disks) };
        }
        let behind = |p: usize| (p, (p + 1) % disks);
        let five = disks - 1;
        let (p, q) = match self.layout {
            LeftAsymmetric | LeftSymmetric => behind(disks - 1 - turn(disks)),
            RightAsymmetric | RightSymmetric | DdfZeroRestart => behind(turn(disks)),
            ParityFirst => (0, 1),
            ParityLast => (disks - 2, disks - 1),
            DdfNRestart => behind(disks - 1 - ((number + 1) % disks as u64) as usize),
            DdfNContinue => {
                let p = disks - 1 - turn(disks);
                (p, (p + disks - 1) % disks)
            }
            LeftAsymmetric6 | LeftSymmetric6 => (five - 1 - turn(five), five),
            RightAsymmetric6 | RightSymmetric6 => (turn(five), five),
            ParityFirst6 => (0, five),
        };
        let first = match self.layout {
            LeftSymmetric | RightSymmetric => Some((p + 2) % disks),
            DdfNContinue => Some((p + 1) % disks),
            LeftSymmetric6 | RightSymmetric6 => Some((p + 1) % five),
            _ => None,
        };
        Row { p, q: Some(q), first }
    }

    /// The members over which a symmetric row's data goes round.
    fn round(&self) -> usize {
        use ParityLayout::{LeftSymmetric6, RightSymmetric6};
        self.disks - usize::from(matches!(self.layout, LeftSymmetric6 | RightSymmetric6))
    }

    /// The slot of the row's data chunk of this index.
    pub(crate) fn data_slot(&self, row: &Row, index: usize) -> usize {
        if let Some(first) = row.first {
            let (slot, round) = (first + index, self.round());
            return if slot < round { slot } else { slot - round };
        }
        // By slot number, stepping over the parities in the order of their slots.
        let (low, high) = match row.q {
            None => (row.p, usize::MAX),
            Some(q) => (row.p.min(q), row.p.max(q)),
        };
        let slot = index + usize::from(index >= low);
        slot + usize::from(slot >= high)
    }

    /// The index of the data chunk that `slot` has in this row; none for a parity.
    pub(crate) fn data_index(&self, row: &Row, slot: usize) -> Option<usize> {
        if row.is_parity(slot) {
            return None;
        }
        Some(match row.first {
            Some(first) => (slot + self.round() - first) % self.round(),
            None => slot - usize::from(row.p < slot) - usize::from(row.q.is_some_and(|q| q < slot)),
        })
    }

    fn is_ddf(&self) -> bool {
        use ParityLayout::{DdfNContinue, DdfNRestart, DdfZeroRestart};
        matches!(self.layout, DdfZeroRestart | DdfNRestart | DdfNContinue)
    }

    /// How many coefficients Q has; some of the ddf layouts' count zeros.
    pub(crate) fn coefficients(&self) -> usize {
        if self.is_ddf() { self.disks } else { self.data }
    }

    /// The number i of the coefficient 2ⁱ that the data of `slot` has in Q.
    pub(crate) fn coefficient(&self, row: &Row, slot: usize) -> usize {
        let Some(q) = row.q else {
            return slot - usize::from(row.p < slot);
        };
        if self.is_ddf() {
            return slot;
        }
        let start = (q + 1) % self.disks;
        let steps = |slot: usize| (slot + self.disks - start) % self.disks;
        steps(slot) - usize::from(steps(row.p) < steps(slot))
    }

    /// Where the byte at `at` of the array lies, and how many bytes from there on lie behind it.
    pub(crate) fn locate(&self, at: u64) -> (Place, u64) {
        let (number, within) = (at / self.row_bytes(), at % self.row_bytes());
        let (index, in_chunk) = (within / self.chunk, within % self.chunk);
        let slot = self.data_slot(&self.row(number), index as usize);
        (Place { slot, at: number * self.chunk + in_chunk }, self.chunk - in_chunk)
    }

    /// The byte of the array that lies at `place`; none for a parity.
    pub(crate) fn array_byte(&self, place: Place) -> Option<u64> {
        let number = place.at / self.chunk;
        let index = self.data_index(&self.row(number), place.slot)?;
        Some(number * self.row_bytes() + index as u64 * self.chunk + place.at % self.chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::kinds::PARITY_LAYOUTS;
    use ParityLayout::*;

    /// A row as the module's table writes it.
    fn picture(map: &ParityMap, number: u64) -> String {
        let row = map.row(number);
        let cell = |slot| match map.data_index(&row, slot) {
            Some(index) => (number as usize * map.data + index).to_string(),
            None if slot == row.p => "P".to_owned(),
            None => "Q".to_owned(),
        };
        (0..map.disks).map(cell).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rows_of_raid5_are_those_of_the_table() {
        let rows = |layout| {
            let map = ParityMap::new(layout, 4, 1, 4096);
            [0, 1, 2, 3].map(|row| picture(&map, row))
        };
        assert_eq!(rows(LeftAsymmetric), ["0 1 2 P", "3 4 P 5", "6 P 7 8", "P 9 10 11"]);
        assert_eq!(rows(RightAsymmetric), ["P 0 1 2", "3 P 4 5", "6 7 P 8", "9 10 11 P"]);
        assert_eq!(rows(LeftSymmetric), ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11"]);
        assert_eq!(rows(RightSymmetric), ["P 0 1 2", "5 P 3 4", "7 8 P 6", "9 10 11 P"]);
        assert_eq!(rows(ParityLast)[1], "3 4 5 P");
    }

    #[test]
    fn rows_of_raid6_have_q_behind_p() {
        let rows = |layout| {
            let map = ParityMap::new(layout, 4, 2, 4096);
            [0, 1, 2, 3].map(|row| picture(&map, row))
        };
        assert_eq!(rows(LeftSymmetric), ["Q 0 1 P", "2 3 P Q", "5 P Q 4", "P Q 6 7"]);
        assert_eq!(rows(RightAsymmetric), ["P Q 0 1", "2 P Q 3", "4 5 P Q", "Q 6 7 P"]);
        assert_eq!(rows(DdfNContinue), ["0 1 Q P", "3 Q P 2", "Q P 4 5", "P 6 7 Q"]);
        assert_eq!(rows(LeftSymmetric6), ["0 1 P Q", "3 P 2 Q", "P 4 5 Q", "6 7 P Q"]);
    }

    /// A wrong order gives a Q that only we can read.
    #[test]
    fn coefficients_count_from_behind_q_round_the_row_without_p() {
        let map = ParityMap::new(LeftSymmetric, 5, 2, 4096);
        // Row 1: P on slot 3, Q on slot 4.
        assert_eq!([0, 1, 2].map(|slot| map.coefficient(&map.row(1), slot)), [0, 1, 2]);
        // Row 2: P on slot 2, Q on slot 3: 4 first, then 0 and 1.
        assert_eq!([4, 0, 1].map(|slot| map.coefficient(&map.row(2), slot)), [0, 1, 2]);
        // Layout -6: Q last, P in the middle.
        let map = ParityMap::new(LeftSymmetric6, 5, 2, 4096);
        assert_eq!([0, 1, 3].map(|slot| map.coefficient(&map.row(1), slot)), [0, 1, 2]);
    }

    #[test]
    fn each_byte_has_a_place_of_its_own_and_leads_back() {
        let all = PARITY_LAYOUTS.map(|(layout, ..)| layout);
        for layout in all {
            for (disks, parities) in [(3, 1), (4, 1), (7, 1), (4, 2), (5, 2), (9, 2)] {
                if parities == 1 && all[6..].contains(&layout) {
                    continue;
                }
                let map = ParityMap::new(layout, disks, parities, 4096);
                for number in 0..40 {
                    let row = map.row(number);
                    let mut coefficients: Vec<_> = (0..map.data)
                        .map(|i| map.coefficient(&row, map.data_slot(&row, i)))
                        .collect();
                    coefficients.sort_unstable();
                    coefficients.dedup();
                    assert_eq!(coefficients.len(), map.data, "{layout:?}");
                    assert!(coefficients.iter().all(|i| *i < map.coefficients()));
                    for index in 0..map.data {
                        let at = number * map.row_bytes() + index as u64 * 4096 + 512;
                        let (place, rest) = map.locate(at);
                        assert_eq!((map.array_byte(place), rest), (Some(at), 3584), "{layout:?}");
                    }
                }
            }
        }
    }
}
