//! Where the blocks lie that are asked for again and again.
//!
//! Whenever its mechanism is free a disk weighs what is nearest in its write buffer, mostly the same stretches as the time before.
//! To work out where a block lies takes some divisions. So the answers are kept: one for each value of a hash, that of the
//! block that was asked for last. What is forgotten is worked out again, so nothing depends on what is kept.

use super::geometry::Layout;
use std::cell::Cell;

/// As many as twice the stretches that write buffers mostly hold.
const KEPT: usize = 256;

/// Where a block lies under the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Cylinder, counted from the outside.
    pub(super) cylinder: u64,
    /// Head.
    pub(super) head: u64,
    /// Its angle, in nanoseconds of the revolution.
    pub(super) angle_ns: u64,
}

/// A block, and where it lies.
type Kept = Option<(u64, Spot)>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Spots(Box<[Cell<Kept>]>);

impl Spots {
    pub(super) fn new() -> Spots {
        Spots((0..KEPT).map(|_| Cell::new(None)).collect())
    }

    /// Where block `lba` lies. Always asked with the same layout.
    pub(super) fn of(&self, lba: u64, layout: &Layout) -> Spot {
        // Fibonacci hashing: the upper bits of a product with 2⁶⁴ / φ.
        let hash = lba.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KEPT.ilog2());
        let kept = &self.0[hash as usize];
        match kept.get() {
            Some((known, spot)) if known == lba => spot,
            _ => {
                let place = layout.locate(lba);
                let angle_ns = layout.angle_ns(place.unrolled_ns);
                let spot = Spot { cylinder: place.cylinder, head: place.head, angle_ns };
                kept.set(Some((lba, spot)));
                spot
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::all_disk_profiles;
    use stdx::Prng;

    /// One that takes another block's place must not answer for it.
    #[test]
    fn a_spot_is_where_the_layout_has_the_block_whatever_was_asked_before() {
        for profile in all_disk_profiles() {
            let (layout, spots) = (Layout::new(&profile), Spots::new());
            let mut prng = Prng::new(1);
            let blocks: Vec<u64> = (0..2000).map(|_| prng.below(layout.sectors())).collect();
            for lba in blocks.iter().chain(&blocks).flat_map(|lba| [*lba, *lba, lba / 2]) {
                let (spot, place) = (spots.of(lba, &layout), layout.locate(lba));
                assert_eq!((spot.cylinder, spot.head), (place.cylinder, place.head));
                assert_eq!(spot.angle_ns, place.unrolled_ns % layout.revolution_ns());
            }
        }
    }
}
