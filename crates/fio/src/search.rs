//! The search for the largest queue depth at which latency stays below a target (`latency_target`).
//!
//! fio's way: begin at depth 1; each window in which at least `latency_percentile` of the I/Os kept the
//! target doubles the depth, or goes half the way to the least depth that failed; a window that failed
//! goes half the way back. When the depth does not change any more, one more window runs at it, whose
//! figures alone are told (with `latency_run` the search goes on instead). At depth 1 a failed window
//! ends the job in error.

use super::spec::LatencyTarget;
use stdx::Instant;

/// Good windows at one depth after which the least failing depth is doubted, as in fio.
const STABLE_WINDOWS: u32 = 3;

/// What the job does after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    /// Wait for all that is under way: the depth fell.
    Quiesce,
    /// Forget the figures; the last window begins.
    LastRun,
    Done,
}

/// See the [module](self).
pub(super) struct DepthSearch {
    target: LatencyTarget,
    depth_max: usize,
    depth: usize,
    low: usize,
    high: usize,
    stable: u32,
    since: Instant,
    done_before: u64,
    failed: u64,
    last_run: bool,
}

impl DepthSearch {
    pub(super) fn new(target: LatencyTarget, depth_max: usize, now: Instant) -> DepthSearch {
        DepthSearch {
            target,
            depth_max,
            depth: 1,
            low: 1,
            high: depth_max,
            stable: 0,
            since: now,
            done_before: 0,
            failed: 0,
            last_run: false,
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.since = now;
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn target_us(&self) -> u64 {
        u64::try_from(self.target.target.as_micros()).unwrap_or(u64::MAX)
    }

    /// An I/O took so long. True where it is too late at depth 1, with all of them to be in time: then
    /// the target can't be kept.
    pub(super) fn answered(&mut self, lat_ns: u64) -> bool {
        if u128::from(lat_ns) <= self.target.target.as_nanos() {
            return false;
        }
        self.failed += 1;
        self.target.percentile >= 100.0 && self.depth == 1
    }

    /// A look at the window; `done`: I/Os so far.
    pub(super) fn look(&mut self, now: Instant, done: u64) -> Verdict {
        let all_in_time = self.target.percentile >= 100.0;
        if all_in_time && self.failed > 0 && self.depth > 1 {
            // No need to wait for the window's end.
            return self.fall(now, done);
        }
        if now.since(self.since) < self.target.window {
            return Verdict::GoOn;
        }
        let ios = done - self.done_before;
        let in_time = ios.saturating_sub(self.failed) as f64 / ios.max(1) as f64 * 100.0;
        if in_time >= self.target.percentile { self.rise(now, done) } else { self.fall(now, done) }
    }

    fn begin_window(&mut self, now: Instant, done: u64) {
        (self.since, self.done_before, self.failed) = (now, done, 0);
    }

    fn fall(&mut self, now: Instant, done: u64) -> Verdict {
        if self.depth == 1 {
            self.begin_window(now, done);
            return Verdict::Done;
        }
        self.high = self.depth;
        if self.depth == self.low {
            self.low = self.low.saturating_sub(1).max(1);
        }
        self.depth = usize::midpoint(self.depth, self.low).max(1);
        self.stable = 0;
        self.begin_window(now, done);
        Verdict::Quiesce
    }

    fn rise(&mut self, now: Instant, done: u64) -> Verdict {
        let before = self.depth;
        self.low = self.depth;
        if self.depth + 1 == self.high {
            self.stable += 1;
            if self.stable >= STABLE_WINDOWS {
                self.high += 1;
                self.stable = 0;
            }
        }
        self.depth = match self.high == self.depth_max {
            true => self.depth.saturating_mul(2),
            false => usize::midpoint(self.depth, self.high),
        };
        self.depth = self.depth.min(self.depth_max);
        self.begin_window(now, done);
        if self.target.go_on || self.depth != before {
            return Verdict::GoOn;
        }
        if self.last_run {
            return Verdict::Done;
        }
        self.last_run = true;
        Verdict::LastRun
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a search that ends at another depth than the largest that keeps the target.

    use super::*;
    use std::time::Duration;

    #[test]
    fn the_search_ends_at_the_largest_depth_that_keeps_the_target() {
        let target = LatencyTarget {
            target: Duration::from_micros(100),
            window: Duration::from_millis(1),
            percentile: 99.0,
            go_on: false,
        };
        let mut search = DepthSearch::new(target, 128, Instant::START);
        let (mut now, mut done, mut last_run) = (Instant::START, 0, false);
        for _ in 0..100 {
            // A device that keeps 100 µs up to depth 20.
            let lat_ns = if search.depth() <= 20 { 50_000 } else { 150_000 };
            for _ in 0..100 {
                assert!(!search.answered(lat_ns));
            }
            done += 100;
            now += Duration::from_millis(1);
            match search.look(now, done) {
                Verdict::LastRun => last_run = true,
                Verdict::Done => break,
                _ => {}
            }
        }
        assert!(last_run);
        assert!((19..=20).contains(&search.depth()), "{}", search.depth());
    }
}
