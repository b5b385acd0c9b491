//! How far a reshape may write before it must say how far it is: arithmetic alone.
//!
//! A set of `before` data chunks a row becomes one of `after`, more of them; chunks keep their size, and a
//! member's data area begins `moved` chunks earlier afterwards. In units of chunks of one member, counted from
//! where its data area began: old row s lies at s, new row r at r − moved.
//!
//! When R new rows are written and recorded, the array's chunks from R·after on are still read from the old
//! rows from ⌊R·after / before⌋ on. So new rows up to N (without it) may be written as long as
//!
//! ```text
//! N − moved ≤ ⌊R·after / before⌋
//! ```
//!
//! With `moved` 0 nothing can be written at R = 0: this is the critical section that md keeps a backup for.
//! With `moved` 1 there is always at least one row to write, since after > before.
//!
//! Source: Linux `drivers/md/raid5.c` (`reshape_request`: `writepos`, `safepos`), mdadm `Grow.c`
//! (`analyse_change`: `min_offset_change`).

use crate::spec::Level;
use std::ops::Range;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Data chunks of a row before.
    pub(super) before: u64,
    /// Data chunks of a row afterwards.
    pub(super) after: u64,
    /// Rows of the members.
    pub(super) rows: u64,
    /// Whole chunks by which each member's data area moves to its start: the least of all.
    pub(super) moved: u64,
}

impl Reach {
    /// That of a reshape from so many slots to so many, of members that have so many rows; nothing moves yet.
    pub(super) fn of(level: Level, slots: Range<usize>, rows: u64) -> Reach {
        let data = |slots: usize| slots.saturating_sub(level.parities()).max(1) as u64;
        Reach { before: data(slots.start), after: data(slots.end), rows, moved: 0 }
    }

    /// Up to which new row may be written when so many are recorded. Where it is not more than these, a backup
    /// would be needed.
    pub(super) fn reach(&self, recorded: u64) -> u64 {
        // Rows are 64-bit sectors over chunks, slots 16 bits: the product fits 128.
        let still_read = u128::from(recorded) * u128::from(self.after) / u128::from(self.before);
        if still_read >= u128::from(self.rows) {
            return self.rows;
        }
        (still_read as u64).saturating_add(self.moved).min(self.rows)
    }

    /// By how many chunks data areas should move: what mdadm moves them by, with which whole rows of both
    /// geometries are written before the first is overwritten.
    pub(super) fn moved_wanted(&self) -> u64 {
        lcm(self.before, self.after) / self.before
    }
}

/// The least common multiple.
fn lcm(a: u64, b: u64) -> u64 {
    fn gcd(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    a / gcd(a, b) * b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: each write within the reach leaves every chunk that is not recorded yet in its old row.
    #[test]
    fn what_is_within_reach_overwrites_nothing_that_is_still_read() {
        for before in 1..7 {
            for after in before + 1..9 {
                for moved in 1..6 {
                    let window = Reach { before, after, rows: 60, moved };
                    let mut recorded = 0;
                    while recorded < window.rows {
                        let to = window.reach(recorded);
                        assert!(to > recorded, "{window:?} stands still at {recorded}");
                        for chunk in recorded * after..window.rows * before {
                            let old_row = chunk / before;
                            let overwritten = (recorded..to).any(|row| row == old_row + moved);
                            assert!(!overwritten, "{window:?}: chunk {chunk} at {recorded}");
                        }
                        recorded = to;
                    }
                }
            }
        }
    }

    #[test]
    fn without_a_move_the_first_rows_are_a_critical_section_and_the_rest_is_not() {
        let window = Reach { before: 2, after: 3, rows: 100, moved: 0 };
        assert_eq!((window.reach(0), window.reach(1), window.reach(2)), (0, 1, 3));
        assert_eq!(window.moved_wanted(), 3);
        assert_eq!(Reach { before: 3, after: 6, ..window }.moved_wanted(), 2);
    }
}
