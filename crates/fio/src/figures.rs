//! What a job counts, cheaply, for each I/O: bytes, latencies, depths, windows of bandwidth.
//!
//! Latencies are kept as fio keeps them, so that its percentiles and `bins` come out alike: a histogram
//! of 29 groups of 64 bins each (fio's `FIO_IO_U_PLAT_*`, stat.h). A value below 128 ns has its own
//! bin; above, bins are 1/64 of a power of two wide. Finding one takes a shift, not a division; mean
//! and deviation come from exact sums of values and of squares.

use std::fmt;
use std::time::Duration;

/// A figure for reads, writes and trims.
pub(super) type Each<T> = [T; 3];

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
    /// Bytes are given back.
    Trim,
}

impl Direction {
    /// All, in the order of fio's output.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

    /// Its place in an array of three.
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Read => "read",
            Direction::Write => "written",
            Direction::Trim => "trimmed",
        })
    }
}

/// Bits of a bin's number within its group.
const GROUP_BITS: u32 = 6;
/// Bins of a group.
const GROUP_BINS: usize = 1 << GROUP_BITS;
/// Groups: values from 2³⁴ ns (17 s) fall into the last bin.
const GROUPS: usize = 29;
/// All bins.
pub(super) const BINS: usize = GROUPS * GROUP_BINS;

/// The bin of a value.
pub(super) fn bin_of(value: u64) -> usize {
    let top = 63 - (value | 1).leading_zeros();
    if top <= GROUP_BITS {
        return value as usize;
    }
    let dropped = top - GROUP_BITS;
    let within = (value >> dropped) as usize & (GROUP_BINS - 1);
    (((dropped as usize + 1) << GROUP_BITS) + within).min(BINS - 1)
}

/// The value that a bin stands for: the middle of what falls into it.
pub(super) fn value_of(bin: usize) -> u64 {
    if bin < 2 * GROUP_BINS {
        return bin as u64;
    }
    let dropped = (bin >> GROUP_BITS) - 1;
    let base = 1_u64 << (dropped + GROUP_BITS as usize);
    let within = (bin % GROUP_BINS) as f64 + 0.5;
    base + (within * (1_u64 << dropped) as f64) as u64
}

/// How many values fell into each bin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bins(Box<[u64]>);

impl Bins {
    pub(super) fn new() -> Bins {
        Bins(vec![0; BINS].into())
    }

    pub(super) fn count(&mut self, value: u64) {
        if let Some(bin) = self.0.get_mut(bin_of(value)) {
            *bin += 1;
        }
    }

    fn add(&mut self, other: &Bins) {
        for (bin, more) in self.0.iter_mut().zip(&other.0) {
            *bin += more;
        }
    }

    /// Bins that are not empty: value and count.
    pub(super) fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let bins = self.0.iter().enumerate();
        bins.filter(|(_, count)| **count > 0).map(|(bin, count)| (value_of(bin), *count))
    }

    /// The values below which so many per cent lie, for sorted percentiles.
    pub(super) fn percentiles(&self, list: &[f64]) -> Vec<u64> {
        let total: u64 = self.0.iter().sum();
        let (mut found, mut sum) = (Vec::with_capacity(list.len()), 0);
        for (bin, count) in self.0.iter().enumerate() {
            sum += count;
            while let Some(wanted) = list.get(found.len())
                && sum as f64 >= wanted / 100.0 * total as f64
            {
                found.push(value_of(bin));
            }
        }
        found
    }
}

/// Smallest, largest, and what mean and deviation come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Samples {
    pub(super) count: u64,
    min: u64,
    max: u64,
    sum: u128,
    squares: u128,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { count: 0, min: u64::MAX, max: 0, sum: 0, squares: 0 }
    }
}

impl Samples {
    pub(super) fn add(&mut self, value: u64) {
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value);
        self.squares += u128::from(value) * u128::from(value);
    }

    pub(super) fn merge(&mut self, other: &Samples) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }

    pub(super) fn summary(&self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        let count = self.count as f64;
        let mean = self.sum as f64 / count;
        // n·Σx² − (Σx)², exact where it fits: no digits are lost to the difference.
        let spread = u128::from(self.count)
            .checked_mul(self.squares)
            .zip(self.sum.checked_mul(self.sum))
            .map_or(self.squares as f64 * count - self.sum as f64 * self.sum as f64, |(a, b)| {
                a.saturating_sub(b) as f64
            });
        let squared = spread.max(0.0) / count;
        Summary { count: self.count, min: self.min, max: self.max, mean, squared }
    }
}

/// What fio prints of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) count: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) mean: f64,
    /// Σ(x − mean)².
    squared: f64,
}

impl Summary {
    pub(super) fn deviation(&self) -> f64 {
        if self.count > 1 { (self.squared / (self.count as f64 - 1.0)).sqrt() } else { 0.0 }
    }

    /// As fio adds the bandwidths of jobs that run beside one another: everything is summed.
    pub(super) fn beside(&mut self, other: &Summary) {
        self.count += other.count;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.squared += other.squared;
    }
}

/// Latencies in nanoseconds, perhaps with their bins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) samples: Samples,
    pub(super) bins: Option<Bins>,
}

impl Latency {
    pub(super) fn new(with_bins: bool) -> Latency {
        Latency { samples: Samples::default(), bins: with_bins.then(Bins::new) }
    }

    pub(super) fn count(&mut self, ns: u64) {
        self.samples.add(ns);
        if let Some(bins) = &mut self.bins {
            bins.count(ns);
        }
    }

    pub(super) fn merge(&mut self, other: &Latency) {
        self.samples.merge(&other.samples);
        match (&mut self.bins, &other.bins) {
            (Some(bins), Some(more)) => bins.add(more),
            (None, Some(more)) => self.bins = Some(more.clone()),
            _ => {}
        }
    }
}

/// How many I/Os took so long, by fio's limits: nanoseconds, microseconds, milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spread {
    counts: [u64; Spread::LIMITS_NS.len()],
    /// The class of the last I/O: the next is likely of it too.
    last: usize,
}

impl Spread {
    /// Upper ends of the classes, in nanoseconds; an I/O of just that is of the next.
    const LIMITS_NS: [u64; 32] = {
        const US: u64 = 1_000;
        const MS: u64 = 1_000_000;
        [
            2,
            4,
            10,
            20,
            50,
            100,
            250,
            500,
            750,
            1_000,
            2 * US,
            4 * US,
            10 * US,
            20 * US,
            50 * US,
            100 * US,
            250 * US,
            500 * US,
            750 * US,
            1_000 * US,
            2 * MS,
            4 * MS,
            10 * MS,
            20 * MS,
            50 * MS,
            100 * MS,
            250 * MS,
            500 * MS,
            750 * MS,
            1_000 * MS,
            2_000 * MS,
            u64::MAX,
        ]
    };
    /// Names of the classes below 1 µs, as the output has them; those below 1 ms are the same.
    pub(super) const NAMES: [&'static str; 10] =
        ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
    /// Names of the classes from 1 ms on.
    pub(super) const NAMES_MS: [&'static str; 12] =
        ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];

    pub(super) fn count(&mut self, ns: u64) {
        let low = match self.last.checked_sub(1) {
            Some(below) => Spread::LIMITS_NS[below],
            None => 0,
        };
        if ns < low || ns >= Spread::LIMITS_NS[self.last] {
            let class = Spread::LIMITS_NS.partition_point(|limit| *limit <= ns);
            self.last = class.min(self.counts.len() - 1);
        }
        self.counts[self.last] += 1;
    }

    /// Shares in per cent of `total`: below 1 µs, below 1 ms, the rest. A class with anything in it
    /// has at least 0.01, as fio shows it.
    pub(super) fn shares(&self, total: u64) -> ([f64; 10], [f64; 10], [f64; 12]) {
        let share = |at: usize| share(self.counts[at], total, 0.01);
        (
            std::array::from_fn(share),
            std::array::from_fn(|at| share(at + 10)),
            std::array::from_fn(|at| share(at + 20)),
        )
    }

    fn merge(&mut self, other: &Spread) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }
}

/// A share in per cent; where there is anything at all, at least `least`.
fn share(count: u64, total: u64, least: f64) -> f64 {
    if total == 0 || count == 0 {
        return 0.0;
    }
    (count as f64 / total as f64 * 100.0).max(least)
}

/// Counts by powers of two: depths, and how many were submitted or completed at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Depths {
    pub(super) level: [u64; 7],
    pub(super) submit: [u64; 7],
    pub(super) complete: [u64; 7],
}

impl Depths {
    /// An I/O began when so many were under way, itself among them: 1, 2-3, 4-7, … 64 and more.
    pub(super) fn count_level(&mut self, depth: usize) {
        self.level[(depth | 1).ilog2().min(6) as usize] += 1;
    }

    /// So many at once: 0, 1-4, 5-8, 9-16, … more than 64.
    pub(super) fn class_of(count: usize) -> usize {
        match count {
            0 => 0,
            1..=4 => 1,
            more => ((more - 1).ilog2() as usize).min(6),
        }
    }

    /// Shares in per cent.
    pub(super) fn shares(counts: &[u64; 7], total: u64) -> [f64; 7] {
        counts.map(|count| share(count, total, 0.1))
    }

    fn merge(&mut self, other: &Depths) {
        let pairs = [
            (&mut self.level, &other.level),
            (&mut self.submit, &other.submit),
            (&mut self.complete, &other.complete),
        ];
        for (counts, more) in pairs {
            for (count, more) in counts.iter_mut().zip(more) {
                *count += more;
            }
        }
    }
}

/// What was done in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flow {
    pub(super) bytes: u64,
    pub(super) ios: u64,
    pub(super) short: u64,
    /// While the job went in this direction; the longest of jobs that are drawn together.
    pub(super) runtime: Duration,
    pub(super) slat: Latency,
    pub(super) clat: Latency,
    pub(super) lat: Latency,
    /// KiB/s of windows.
    pub(super) bandwidth: Summary,
    /// I/Os a second of windows.
    pub(super) iops: Summary,
}

impl Flow {
    /// fio's runtime: whole milliseconds, begun ones counted.
    pub(super) fn runtime_ms(&self) -> u64 {
        let us = u64::try_from(self.runtime.as_micros()).unwrap_or(u64::MAX);
        us.div_ceil(1000)
    }

    pub(super) fn bytes_per_s(&self) -> u64 {
        (self.bytes.saturating_mul(1000)).checked_div(self.runtime_ms()).unwrap_or_default()
    }

    pub(super) fn ios_per_s(&self) -> f64 {
        match self.runtime_ms() {
            0 => 0.0,
            ms => 1000.0 * self.ios as f64 / ms as f64,
        }
    }

    /// Bytes and I/Os a second, by the time as it was measured: in fio's whole milliseconds short runs are alike that are not.
    /// None where no time went by.
    pub(super) fn measured_rates(&self) -> Option<(f64, f64)> {
        let seconds = self.runtime.as_secs_f64();
        (seconds > 0.0).then(|| (self.bytes as f64 / seconds, self.ios as f64 / seconds))
    }

    fn merge(&mut self, other: &Flow) {
        self.bytes += other.bytes;
        self.ios += other.ios;
        self.short += other.short;
        self.runtime = self.runtime.max(other.runtime);
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.bandwidth.beside(&other.bandwidth);
        self.iops.beside(&other.iops);
    }
}

/// What the search for a steady state saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SteadySeen {
    pub(super) attained: bool,
    pub(super) criterion: f64,
    pub(super) deviation: f64,
    pub(super) slope: f64,
    pub(super) bytes_per_s: Vec<u64>,
    pub(super) iops: Vec<u64>,
    pub(super) lat_ns: Vec<u64>,
}

/// Everything that a job counted. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) flows: Each<Flow>,
    pub(super) syncs: Latency,
    /// Those of them that were `fsync`, which are all that fio's totals count.
    pub(super) fsyncs: u64,
    pub(super) spread: Spread,
    pub(super) depths: Depths,
    pub(super) runtime: Duration,
    /// What of it was the ramp.
    pub(super) ramp: Duration,
    pub(super) processor: Duration,
    pub(super) errors: u64,
    pub(super) first_error: i32,
    pub(super) depth: u64,
    pub(super) steady: Option<SteadySeen>,
    pub(super) members: u64,
}

impl Figures {
    /// Counts an error.
    pub(super) fn count_error(&mut self, number: i32) {
        self.errors += 1;
        if self.first_error == 0 {
            self.first_error = number;
        }
    }

    pub(super) fn total_ios(&self) -> u64 {
        self.flows.iter().map(|flow| flow.ios).sum()
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.flows.iter().map(|flow| flow.bytes).sum()
    }

    /// Draws in a job that ran beside this one (`group_reporting`).
    pub(super) fn merge(&mut self, other: &Figures) {
        for (flow, more) in self.flows.iter_mut().zip(&other.flows) {
            flow.merge(more);
        }
        self.syncs.merge(&other.syncs);
        self.fsyncs += other.fsyncs;
        self.spread.merge(&other.spread);
        self.depths.merge(&other.depths);
        self.runtime += other.runtime;
        self.ramp += other.ramp;
        self.processor += other.processor;
        self.errors += other.errors;
        if self.first_error == 0 {
            self.first_error = other.first_error;
        }
        self.depth = other.depth;
        self.steady = other.steady.clone().or(self.steady.take());
        self.members += other.members;
    }

    /// All directions as one (`unified_rw_reporting=mixed`), which stands as reads.
    pub(super) fn mix(&mut self) {
        let flows = std::mem::take(&mut self.flows);
        for flow in &flows {
            self.flows[0].merge(flow);
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: bins or moments that differ from fio's, so that plots of both don't agree.

    use super::*;

    #[test]
    fn bins_are_fios() {
        // fio 3.33: plat_val_to_idx and plat_idx_to_val, worked out by hand.
        for (value, bin, stands_for) in [
            (0, 0, 0),
            (127, 127, 127),
            (128, 128, 129),
            (130, 129, 131),
            (1000, 317, 1004),
            (26_300, 614, 26_240),
            (u64::MAX, BINS - 1, 17_112_760_320),
        ] {
            assert_eq!(bin_of(value), bin, "{value}");
            assert_eq!(value_of(bin), stands_for, "{value}");
        }
    }

    #[test]
    fn percentiles_are_the_bins_that_reach_them() {
        let mut bins = Bins::new();
        (1..=100).for_each(|value| bins.count(value));
        assert_eq!(bins.percentiles(&[1.0, 50.0, 99.0, 100.0]), [1, 50, 99, 100]);
    }

    #[test]
    fn mean_and_deviation_are_exact_for_large_equal_values() {
        let mut samples = Samples::default();
        for value in [1_000_000_000_001, 1_000_000_000_003] {
            samples.add(value);
        }
        let summary = samples.summary();
        assert_eq!((summary.min, summary.max), (1_000_000_000_001, 1_000_000_000_003));
        assert!((summary.deviation() - 2_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn classes_of_latency_and_depth_have_fios_limits() {
        let mut spread = Spread::default();
        for ns in [1, 999, 1000, 999_999, 1_000_000, 2_000_000_000, 1] {
            spread.count(ns);
        }
        let (ns, us, ms) = spread.shares(7);
        assert!((ns[0] - 200.0 / 7.0).abs() < 1e-9 && ns[9] > 0.0);
        assert!(us[0] > 0.0 && us[9] > 0.0 && ms[0] > 0.0 && ms[11] > 0.0);
        assert_eq!([0, 1, 4, 5, 8, 9, 64, 65].map(Depths::class_of), [0, 1, 1, 2, 2, 3, 5, 6]);
    }
}
