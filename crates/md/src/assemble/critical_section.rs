//! Where the data of an array lies that was stopped in the middle of a reshape.
//!
//! md moves the data row by row and writes down how far it is: `position`, a sector of the array. Going
//! forwards, what lies below it is in the new geometry, the rest in the old; going backwards (slots are taken
//! away, or the flag says so) it is the other way round. The two geometries differ in slots, layout, chunk
//! and in where the data begins on each member.
//!
//! What lies beyond the position was perhaps copied already, and is still whole in the old geometry: md does
//! not write where the old data up to the position it last wrote down would be read. That holds where
//! the new data begins elsewhere (`new_offset`). Where it does not, the first rows of a growing array (the last
//! of a shrinking one, everything where the number of slots stays) are overwritten in place, and lie in a
//! backup file meanwhile: the *critical section*.
//!
//! A member that is half filled while slots are added is filled by the reshape itself: it has nothing of the old
//! geometry, and of the new one all that was moved.
//!
//! Source: Linux `drivers/md/raid5.c` (`reshape_request`, `raid5_compute_sector`, `raid5_calc_degraded`), mdadm
//! `Grow.c`.

use super::facts::{ReshapeFacts, Superblock};
use crate::spec::Level;
use crate::superblock::Features;

/// Whether data may lie in a backup file only.
pub(crate) fn needs_backup(facts: &Superblock, reshape: &ReshapeFacts, level: Level) -> bool {
    if facts.features().has(Features::NEW_OFFSET) {
        return false;
    }
    let slots_after = facts.slots();
    if slots_after == reshape.slots_before {
        return true;
    }
    let data = |slots: usize| (slots.saturating_sub(level.parities())).max(1) as u64;
    // The least stretch that is whole rows of both.
    let row_before = facts.chunk().max(1) * data(reshape.slots_before);
    let row_after = reshape.chunk.max(1) * data(slots_after);
    let critical =
        u128::from(row_before) * u128::from(row_after) / u128::from(gcd(row_before, row_after));
    u128::from(reshape.position) < critical
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_greatest_divisor() {
        assert_eq!((super::gcd(128 * 2, 128 * 3), super::gcd(7, 5)), (128, 1));
    }
}
