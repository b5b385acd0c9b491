//! Which extent a byte of the volume lies in, and where in it: pure functions.
//!
//! *Coarse*: one extent after another; an extent is one AU. *Fine*: the volume is cut into sets of
//! [`FINE_SET`] extents, and a set into stripes of [`FINE_STRIPE`], which go to its extents in turn, as
//! Oracle has it (a fine stripe is 128 KiB whatever the AU). So a transfer of 1 MiB keeps one disk busy
//! when it is coarse, and eight when it is fine.

use crate::spec::Striping;
use std::ops::Range;

/// Bytes of one extent before the next one's turn, striped finely.
pub const FINE_STRIPE: u64 = 128 << 10;
/// Extents that fine stripes go round.
pub const FINE_SET: u64 = 8;

/// A stretch of the volume within one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The extent.
    pub extent: u32,
    /// Where in it, in bytes.
    pub at: u64,
    /// How much, in bytes.
    pub len: u64,
}

/// The pieces of a range of the volume, in order.
pub fn pieces(striping: Striping, au: u64, range: Range<u64>) -> impl Iterator<Item = Piece> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let left = range.end.saturating_sub(at);
        if left == 0 {
            return None;
        }
        let (extent, within, unit) = match striping {
            Striping::Coarse => (at / au, at % au, au - at % au),
            Striping::Fine => {
                let (set, inside) = (at / (FINE_SET * au), at % (FINE_SET * au));
                let (stripe, rest) = (inside / FINE_STRIPE, inside % FINE_STRIPE);
                let extent = set * FINE_SET + stripe % FINE_SET;
                let within = stripe / FINE_SET * FINE_STRIPE + rest;
                (extent, within, FINE_STRIPE - rest)
            }
        };
        let len = unit.min(left);
        at += len;
        Some(Piece { extent: extent as u32, at: within, len })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two bytes of the volume in one place of an extent would overwrite each other.
        #[test]
        fn every_byte_of_the_volume_has_a_place_of_its_own(fine: bool, at in 0_u64..40 << 20) {
            let striping = if fine { Striping::Fine } else { Striping::Coarse };
            let au = 1 << 20;
            let whole: Vec<Piece> = pieces(striping, au, 0..48 << 20).collect();
            let mut places: Vec<_> = whole.iter().map(|p| (p.extent, p.at, p.len)).collect();
            places.sort_unstable();
            let mut next = (0_u32, 0_u64);
            for (extent, at, len) in places {
                prop_assert_eq!((extent, at), next);
                next = if at + len == au { (extent + 1, 0) } else { (extent, at + len) };
            }
            prop_assert_eq!(next, (48, 0));
            // A range is cut at the same places as the whole.
            let part: Vec<Piece> = pieces(striping, au, at..at + (3 << 20)).collect();
            prop_assert_eq!(part.iter().map(|p| p.len).sum::<u64>(), 3 << 20);
            for piece in part {
                prop_assert!(whole.iter().any(|w| w.extent == piece.extent
                    && w.at <= piece.at && piece.at + piece.len <= w.at + w.len));
            }
        }
    }

    #[test]
    fn a_mebibyte_is_on_one_extent_coarsely_and_on_eight_finely() {
        let extents = |striping| {
            let pieces = pieces(striping, 1 << 20, 8 << 20..9 << 20);
            pieces.map(|piece| piece.extent).collect::<Vec<_>>()
        };
        assert_eq!(extents(Striping::Coarse), [8]);
        assert_eq!(extents(Striping::Fine), [8, 9, 10, 11, 12, 13, 14, 15]);
    }
}
