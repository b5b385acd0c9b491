//! When jobs are steady, and end (`steadystate=`).
//!
//! Every interval the conductor takes the I/Os, bytes or mean latency since the last. Over a window of
//! such samples, steady means: no sample differs from the mean by more than the limit; or, with `_slope`,
//! the line through them (least squares) rises by no more than the limit in an interval. The limit is a
//! number, or a share of the mean in per cent. These are the rules of SNIA's Performance Test
//! Specification as fio has them (steadystate.c).

use super::figures::SteadySeen;
use super::spec::{Steady, SteadyFigure};
use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;

/// One interval.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    iops: u64,
    bytes_per_s: u64,
    lat_ns: u64,
}

/// Watches one job, or the jobs of a group that are told together.
pub(super) struct SteadyWatch {
    rule: Steady,
    samples: VecDeque<Sample>,
    samples_max: usize,
    next: Instant,
    last: Instant,
    counted: [u64; 3],
    seen: SteadySeen,
}

impl SteadyWatch {
    /// From now on, after the ramp.
    pub(super) fn new(rule: Steady, now: Instant, counts: [u64; 3]) -> SteadyWatch {
        let wanted = rule.window.as_nanos() / rule.interval.as_nanos().max(1);
        // A window of a year in seconds is more than anybody waits for.
        let samples_max = wanted.clamp(2, 31_536_000) as usize;
        let begin = now + rule.ramp;
        SteadyWatch {
            rule,
            samples: VecDeque::new(),
            samples_max,
            next: begin + rule.interval,
            last: begin,
            counted: counts,
            seen: SteadySeen::default(),
        }
    }

    /// A look at the counts (I/Os, bytes, sum of latencies). True when it is steady.
    pub(super) fn look(&mut self, now: Instant, counts: [u64; 3]) -> bool {
        if now < self.last {
            // The ramp: what is counted in it does not count.
            self.counted = counts;
            return false;
        }
        if now < self.next {
            return false;
        }
        let spent = now.since(self.last).max(Duration::from_millis(1)).as_secs_f64();
        let [ios, bytes, lat] = std::array::from_fn(|at| counts[at].wrapping_sub(self.counted[at]));
        self.samples.push_back(Sample {
            iops: (ios as f64 / spent) as u64,
            bytes_per_s: (bytes as f64 / spent) as u64,
            lat_ns: lat.checked_div(ios).unwrap_or_default(),
        });
        (self.last, self.counted) = (now, counts);
        while self.next <= now {
            self.next += self.rule.interval;
        }
        if self.samples.len() > self.samples_max {
            self.samples.pop_front();
        }
        self.samples.len() == self.samples_max && self.is_steady()
    }

    fn is_steady(&mut self) -> bool {
        let value = |sample: &Sample| match self.rule.figure {
            SteadyFigure::Iops => sample.iops as f64,
            SteadyFigure::Bandwidth => sample.bytes_per_s as f64,
            SteadyFigure::Latency => sample.lat_ns as f64,
        };
        let values: Vec<f64> = self.samples.iter().map(value).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        let mean_at = (count - 1.0) / 2.0;
        let (mut over, mut under) = (0.0, 0.0);
        for (at, value) in values.iter().enumerate() {
            over += (at as f64 - mean_at) * (value - mean);
            under += (at as f64 - mean_at).powi(2);
        }
        let slope = over / under;
        let measured = if self.rule.slope { slope.abs() } else { deviation };
        let criterion = match self.rule.percent {
            true if mean > 0.0 => measured / mean * 100.0,
            true => f64::INFINITY,
            false => measured,
        };
        self.seen.criterion = criterion;
        self.seen.deviation = deviation;
        self.seen.slope = slope;
        self.seen.attained = criterion < self.rule.limit;
        self.seen.attained
    }

    /// What was seen, for the output.
    pub(super) fn seen(&self) -> SteadySeen {
        let mut seen = self.seen.clone();
        seen.iops = self.samples.iter().map(|sample| sample.iops).collect();
        seen.bytes_per_s = self.samples.iter().map(|sample| sample.bytes_per_s).collect();
        seen.lat_ns = self.samples.iter().map(|sample| sample.lat_ns).collect();
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady_after(slope: bool, limit: f64, rates: impl Iterator<Item = u64>) -> Option<usize> {
        let second = Duration::from_secs(1);
        let rule = Steady {
            figure: SteadyFigure::Iops,
            slope,
            limit,
            percent: true,
            window: 4 * second,
            ramp: Duration::ZERO,
            interval: second,
        };
        let mut watch = SteadyWatch::new(rule, Instant::START, [0; 3]);
        let (mut now, mut ios) = (Instant::START, 0);
        for (at, rate) in rates.enumerate() {
            now += second;
            ios += rate;
            if watch.look(now, [ios, 0, 0]) {
                return Some(at + 1);
            }
        }
        None
    }

    #[test]
    fn falling_rates_are_not_steady_until_they_stay() {
        let rates = [1000, 800, 600, 500, 500, 500, 500, 500];
        assert_eq!(steady_after(false, 5.0, rates.into_iter()), Some(7));
        assert_eq!(steady_after(true, 1.0, rates.into_iter()), Some(7));
        assert_eq!(steady_after(false, 1.0, (0..20).map(|i| 1000 - 20 * i)), None);
    }
}
