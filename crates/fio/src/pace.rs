//! When the next I/O may begin: rates, and the minimum that a job must reach.
//!
//! As in fio (`usec_for_io`), a rate fixes the moment of each I/O from the job's start: what was issued
//! so far, divided by the rate. A job that fell behind catches up. With `rate_process=poisson` gaps are
//! drawn from an exponential distribution. `rate_iops` is a rate of bytes for blocks of the usual size.

use super::error::FioError;
use super::figures::{Direction, Each};
use super::spec::{RateProcess, Spec};
use std::time::Duration;
use stdx::{Instant, Prng};

/// Before a minimum rate is looked at, a job may settle so long, as in fio.
const SETTLE: Duration = Duration::from_secs(2);

/// See the [module](self).
pub(super) struct Pace {
    epoch: Instant,
    /// Bytes a second, 0 for no limit.
    rate: Each<u64>,
    block: Each<u64>,
    issued: Each<u64>,
    /// The moment of the next I/O, as a span from the epoch.
    next: Each<Duration>,
    process: RateProcess,
    gaps: Prng,
}

impl Pace {
    pub(super) fn new(spec: &Spec, seed: u64, epoch: Instant) -> Pace {
        let block: Each<u64> = std::array::from_fn(|at| {
            let split = &spec.block_split[at];
            let weighted = split.iter().map(|(size, share)| size.saturating_mul(u64::from(*share)));
            match weighted.fold(0, u64::saturating_add) / 100 {
                0 => spec.block[at].0.max(1),
                mean => mean,
            }
        });
        let rate = std::array::from_fn(|at| match spec.rate[at] {
            0 => spec.rate_iops[at].saturating_mul(block[at]),
            rate => rate,
        });
        let gaps = Prng::for_part(seed, "gaps");
        let process = spec.rate_process;
        Pace { epoch, rate, block, issued: [0; 3], next: [Duration::ZERO; 3], process, gaps }
    }

    /// Whether there is any limit.
    pub(super) fn is_limited(&self) -> bool {
        self.rate.iter().any(|rate| *rate > 0)
    }

    /// The direction to go in and the moment from which; `other` may go instead where it is behind.
    pub(super) fn when(
        &self,
        wanted: Direction,
        other: Option<Direction>,
        now: Instant,
    ) -> (Direction, Instant) {
        let due = |direction: Direction| self.epoch + self.next[direction.index()];
        match other {
            _ if due(wanted) <= now => (wanted, now),
            Some(other) if due(other) <= now => (other, now),
            Some(other) if due(other) < due(wanted) => (other, due(other)),
            _ => (wanted, due(wanted)),
        }
    }

    /// So many bytes were issued.
    pub(super) fn issued(&mut self, direction: Direction, bytes: u64) {
        let at = direction.index();
        let rate = self.rate[at];
        if rate == 0 {
            return;
        }
        self.issued[at] = self.issued[at].saturating_add(bytes);
        self.next[at] = match self.process {
            RateProcess::Linear => span(self.issued[at], rate),
            RateProcess::Poisson => {
                let mean = span(self.block[at], rate);
                // 1 − u is never 0, so the logarithm is finite.
                self.next[at] + mean.mul_f64(-(1.0 - self.gaps.unit()).ln())
            }
        };
    }

    /// The job thought so long; with `rate_ignore_thinktime` that counts as done.
    pub(super) fn thought(&mut self, direction: Direction, thought: Duration) {
        let at = direction.index();
        let missed = self.rate[at] as f64 * thought.as_secs_f64();
        self.issued[at] = self.issued[at].saturating_add(missed as u64);
    }
}

/// How long so many bytes take at a rate.
fn span(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Looks whether a job keeps its minimum rate.
pub(super) struct Minimum {
    /// The bytes and I/Os of the last look, and when it was.
    last: Each<Option<(u64, u64, Instant)>>,
}

impl Minimum {
    pub(super) fn new() -> Minimum {
        Minimum { last: [None; 3] }
    }

    /// # Errors
    /// Where it does not.
    pub(super) fn check(
        &mut self,
        job: &str,
        spec: &Spec,
        done: &Each<(u64, u64)>,
        epoch: Instant,
        now: Instant,
    ) -> Result<(), FioError> {
        if now.since(epoch) < SETTLE {
            return Ok(());
        }
        for direction in Direction::ALL {
            let at = direction.index();
            let (bytes_min, ios_min) = (spec.rate_min[at], spec.rate_iops_min[at]);
            if bytes_min == 0 && ios_min == 0 {
                continue;
            }
            let (bytes, ios) = done[at];
            if let Some((bytes_before, ios_before, then)) = self.last[at] {
                let spent = now.since(then);
                if spent < spec.rate_cycle.max(Duration::from_millis(1)) {
                    continue;
                }
                let per_s = |count: u64| (count as f64 / spent.as_secs_f64()) as u64;
                let too_slow =
                    |min, unit| FioError::TooSlow { job: job.to_owned(), direction, min, unit };
                if per_s(bytes.saturating_sub(bytes_before)) < bytes_min {
                    return Err(too_slow(bytes_min, "B/s"));
                }
                if per_s(ios.saturating_sub(ios_before)) < ios_min {
                    return Err(too_slow(ios_min, "I/Os a second"));
                }
            }
            self.last[at] = Some((bytes, ios, now));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a rate that drifts, or a mix whose slower side holds up the other.

    use super::*;

    fn spec(rate_iops: Each<u64>, process: RateProcess) -> Spec {
        Spec { rate_iops, rate_process: process, ..Spec::default() }
    }

    #[test]
    fn a_linear_rate_fixes_each_moment_from_the_start() {
        let spec = spec([100, 0, 0], RateProcess::Linear);
        let mut pace = Pace::new(&spec, 1, Instant::START);
        for _ in 0..50 {
            pace.issued(Direction::Read, 4096);
        }
        let late = Instant::from_nanos(400_000_000);
        let (_, due) = pace.when(Direction::Read, None, late);
        assert_eq!(due, Instant::from_nanos(500_000_000));
        let after = Instant::from_nanos(900_000_000);
        assert_eq!(pace.when(Direction::Read, None, after), (Direction::Read, after));
    }

    #[test]
    fn poisson_gaps_have_the_rates_mean() {
        let spec = spec([1000, 0, 0], RateProcess::Poisson);
        let mut pace = Pace::new(&spec, 1, Instant::START);
        for _ in 0..20_000 {
            pace.issued(Direction::Read, 4096);
        }
        let (_, due) = pace.when(Direction::Read, None, Instant::START);
        assert!((due.as_secs_f64() / 20.0 - 1.0).abs() < 0.03, "{due}");
    }

    #[test]
    fn the_direction_that_is_behind_goes_first() {
        let spec = spec([10, 1000, 0], RateProcess::Linear);
        let mut pace = Pace::new(&spec, 1, Instant::START);
        pace.issued(Direction::Read, 4096);
        let now = Instant::from_nanos(1);
        let (direction, _) = pace.when(Direction::Read, Some(Direction::Write), now);
        assert_eq!(direction, Direction::Write);
    }
}
