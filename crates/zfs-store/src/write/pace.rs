//! How fast each top-level vdev takes what is written to it, as it is seen here: for the allocator, which has a slow one take less.
//!
//! ```text
//!   busy     from a write that finds none under way to the moment when none is
//!   rate     bytes of the writes that ended, for the time that was busy; the mean of this and earlier ones
//! ```
//!
//! What counts is how blocks fare, parity and redundancy with them, so the rate is of blocks, not of devices. A vdev that waits for work
//! isn't slow: only time that is busy counts. Little that is written says little, and is added to what comes next. Where writing takes
//! no time, there is no rate.

use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// Bytes from which a rate is believed.
const SAMPLE_BYTES: u64 = 1 << 20;
/// How many parts of a new mean are of before; one is of what was seen last.
const OLD_PARTS: u64 = 3;

/// The pace of a vdev.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    under_way: u32,
    since: Instant,
    busy: Duration,
    bytes: u64,
    /// Bytes a second.
    rate: Option<u64>,
}

/// The paces of all vdevs.
#[derive(Debug, Default)]
pub(super) struct Paces(BTreeMap<u32, Pace>);

impl Paces {
    /// A write to a vdev begins.
    pub(super) fn begin(&mut self, vdev: u32, now: Instant) {
        let pace = self.0.entry(vdev).or_default();
        if pace.under_way == 0 {
            pace.since = now;
        }
        pace.under_way += 1;
    }

    /// One ends, that had so many bytes.
    pub(super) fn end(&mut self, vdev: u32, now: Instant, bytes: u64) {
        let pace = self.0.entry(vdev).or_default();
        pace.busy += now.since(pace.since);
        pace.since = now;
        pace.bytes += bytes;
        pace.under_way = pace.under_way.saturating_sub(1);
    }

    /// Bytes that each vdev takes a second, as far as that is known.
    pub(super) fn rates(&mut self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.0.iter_mut().filter_map(|(vdev, pace)| pace.settle().map(|rate| (*vdev, rate)))
    }
}

impl Pace {
    fn settle(&mut self) -> Option<u64> {
        let nanos = self.busy.as_nanos();
        if self.bytes >= SAMPLE_BYTES && nanos > 0 {
            let seen = u128::from(self.bytes) * 1_000_000_000 / nanos;
            let seen = u64::try_from(seen).unwrap_or(u64::MAX).max(1);
            let mean = |old: u64| old / (OLD_PARTS + 1) * OLD_PARTS + seen / (OLD_PARTS + 1);
            self.rate = Some(self.rate.map_or(seen, mean).max(1));
            (self.busy, self.bytes) = (Duration::ZERO, 0);
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn only_time_in_which_something_is_under_way_counts() {
        let mut paces = Paces::default();
        for start in [0, 5000] {
            paces.begin(3, at(start));
            paces.begin(3, at(start + 10));
            paces.end(3, at(start + 50), 1 << 20);
            paces.end(3, at(start + 100), 1 << 20);
        }
        // 4 MiB in 200 ms, though there were 5 seconds.
        assert_eq!(paces.rates().collect::<Vec<_>>(), [(3, (4 << 20) * 5)]);
    }

    #[test]
    fn what_is_known_changes_by_and_by_and_little_says_nothing() {
        let mut paces = Paces::default();
        let write = |paces: &mut Paces, from: u64, to: u64, bytes: u64| {
            paces.begin(0, at(from));
            paces.end(0, at(to), bytes);
            paces.rates().next().map(|(_, rate)| rate >> 20)
        };
        assert_eq!(write(&mut paces, 0, 900, 4096), None);
        assert_eq!(write(&mut paces, 1000, 1100, (8 << 20) - 4096), Some(8));
        assert_eq!(write(&mut paces, 2000, 3000, 16 << 20), Some(10));
        // Where nothing takes time nothing is known.
        paces.begin(1, at(9));
        paces.end(1, at(9), 9 << 20);
        assert_eq!(paces.rates().count(), 1);
    }
}
