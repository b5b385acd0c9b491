//! The slop: what a pool keeps back of its space.
//!
//! A group can be committed only where there is room for its metadata, and what is deleted takes room before it gives any back.
//! So nobody's data gets the last of a pool. It is 1/32 of the space; of small pools 128 MiB, or half where that is less; of
//! large ones 128 GiB at the most.
//!
//! Where OpenZFS keeps metaslabs for intent logs (the *embedded log*), datasets don't get those either. They count into the slop, up to
//! half of it, so that people are told the same whatever a metaslab's size.
//!
//! Source: OpenZFS, `spa_misc.c` (`spa_get_slop_space`).

/// The share of the space, as a power of two.
const SHARE_SHIFT: u32 = 5;
const BYTES_MIN: u64 = 128 << 20;
const BYTES_MAX: u64 = 128 << 30;

/// What is kept back of so much space, beside so much that is kept for intent logs.
pub fn slop(space: u64, embedded_log: u64) -> u64 {
    let share = (space >> SHARE_SHIFT).min(BYTES_MAX);
    let share = share - embedded_log.min(share / 2);
    share.max(BYTES_MIN.min(space / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a full pool that can't delete any more, or one that is told to be full too early.
    #[test]
    fn slop_is_a_share_within_bounds() {
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        const TIB: u64 = 1 << 40;
        for (space, kept) in [
            (0, 0),
            (80 * MIB, 40 * MIB),
            (256 * MIB, 128 * MIB),
            (GIB, 128 * MIB),
            (4 * GIB, 128 * MIB),
            (64 * GIB, 2 * GIB),
            (4 * TIB, 128 * GIB),
            (4 * TIB + 32, 128 * GIB),
            (1 << 60, 128 * GIB),
        ] {
            assert_eq!(slop(space, 0), kept, "{space}");
        }
        assert_eq!(slop(4 * TIB - 32, 0), 128 * GIB - 1);
        // A log of its own counts, but half of the share stays, and the least stays.
        for (space, log, kept) in [
            (64 * GIB, GIB / 2, 3 * GIB / 2),
            (64 * GIB, 8 * GIB, GIB),
            (1 << 60, TIB, 64 * GIB),
            (5 * GIB, GIB, 128 * MIB),
            (80 * MIB, 8 * MIB, 40 * MIB),
        ] {
            assert_eq!(slop(space, log), kept, "{space} with {log}");
        }
    }
}
