//! How much may be dirty, when a group is committed for it, and how long who changes something waits.
//!
//! ```text
//!   0 %            20 %                     60 %                       100 %
//!   │  as fast as it comes                   │  each change waits, longer │  nobody goes on
//!                   └ the open group is committed                         └ until a group is in the pool
//! ```
//!
//! Without the stretch in the middle, writers would run at the speed of memory and then stand still for as long as a group
//! takes. With it their speed comes to that of the devices: the more is dirty, the longer each waits. Waits are one after
//! another, so that a hundred writers together are no faster than one.
//!
//! Source: OpenZFS, `dmu_tx.c` (`dmu_tx_delay`), `dsl_pool.c`; its `zfs_dirty_data_sync_percent`, `zfs_delay_min_dirty_percent`,
//! `zfs_delay_scale`, and `zfs_delay_max_ns`.

use std::time::Duration;

/// Percent of what may be dirty with which the open group is committed.
const SYNC_PERCENT: u64 = 20;
/// Percent of what may be dirty from which on changes wait.
const DELAY_PERCENT: u64 = 60;
/// What a change waits in the middle between the two.
const DELAY_SCALE: Duration = Duration::from_micros(500);
/// What it waits at the most.
const DELAY_MAX: Duration = Duration::from_millis(100);

/// Bytes that may be dirty, and what follows from how many are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throttle {
    most: u64,
}

impl Throttle {
    pub(super) fn of(most: u64) -> Throttle {
        Throttle { most }
    }

    /// Bytes that may be dirty.
    pub(super) fn most(self) -> u64 {
        self.most
    }

    /// Bytes of the open group with which it is committed.
    pub(super) fn sync_at(self) -> u64 {
        percent(self.most, SYNC_PERCENT)
    }

    /// Whether nothing goes on.
    pub(super) fn is_full(self, dirty: u64) -> bool {
        dirty >= self.most
    }

    /// How long after the one before a change comes; nothing where it need not wait.
    pub(super) fn delay(self, dirty: u64) -> Option<Duration> {
        let least = percent(self.most, DELAY_PERCENT);
        if dirty <= least {
            return None;
        }
        let left = self.most.saturating_sub(dirty);
        let share = (dirty - least) as f64 / left as f64;
        // Where nothing is left this is infinite, and the longest.
        let delay = DELAY_SCALE.as_secs_f64() * share;
        Some(Duration::from_secs_f64(delay.min(DELAY_MAX.as_secs_f64())))
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    of / 100 * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_is_dirty_the_longer_a_change_waits() {
        let throttle = Throttle::of(1000);
        assert_eq!((throttle.sync_at(), throttle.delay(600)), (200, None));
        assert_eq!(throttle.delay(800), Some(DELAY_SCALE));
        let delays: Vec<_> = (601..=1200).map(|dirty| throttle.delay(dirty)).collect();
        assert!(delays.is_sorted() && delays.iter().all(Option::is_some));
        assert_eq!((throttle.delay(1000), throttle.is_full(1000)), (Some(DELAY_MAX), true));
        assert!(!throttle.is_full(999));
    }
}
