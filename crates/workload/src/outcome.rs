//! What one run of a workload gave, in the lab's terms.
//!
//! Each tool has an outcome of its own, rich enough for the output its users know; this is the part
//! that a study takes up: named metrics, latencies, and what a reader must know.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// The largest latency that is told from larger ones: an hour, in nanoseconds.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// What one run gave. Metrics have the lab's names, whose end is the unit: `ops_per_s` (operations a
/// second), `iops` (reads and writes a second), `throughput_mb_s` (10⁶ B/s), `latency_us_mean`,
/// `duration_s`; a phase or a kind of operation stands before them (`rewrite_throughput_mb_s`).
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Figures by name; finite numbers.
    pub metrics: BTreeMap<String, f64>,
    /// Latencies in nanoseconds, where the workload has some.
    pub latency: Option<Histogram<u64>>,
    /// What a reader must know, a sentence each.
    pub warnings: Vec<String>,
    /// What failed meanwhile, a sentence each: the figures are then of what was done until then, or of what else was done, and
    /// no ground for a verdict.
    pub failed: Vec<String>,
    /// Of how much the figures are, where the workload tells.
    pub measured: Option<Measured>,
}

/// Of how much figures are: where several parts have figures of their own, the least of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// How long it was measured.
    pub time: Duration,
    /// I/Os in that time.
    pub ios: u64,
}

/// An empty histogram of latencies in nanoseconds.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS)
        .expect("the bounds are constants that the histogram takes")
}

/// Counts a latency; one beyond [`LATENCY_NS_MAX`] counts as that.
pub fn count_latency(histogram: &mut Histogram<u64>, latency: Duration) {
    let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX);
    // Recording lets a histogram that begins small grow; saturating would count all as its end.
    let counted = histogram.record(nanoseconds.clamp(1, LATENCY_NS_MAX));
    debug_assert!(counted.is_ok(), "the histogram grows, or goes up to the maximum");
}

#[cfg(test)]
mod tests {
    //! What could break: a histogram that begins small and counts every latency as its own end.

    use super::*;

    #[test]
    fn a_histogram_that_begins_small_grows_with_what_it_counts() {
        let mut histogram = Histogram::new(2).expect("two digits are allowed");
        count_latency(&mut histogram, Duration::from_micros(160));
        count_latency(&mut histogram, Duration::from_secs(7200));
        assert!((158_000..=162_000).contains(&histogram.value_at_quantile(0.5)));
        assert!(histogram.max() >= LATENCY_NS_MAX);
    }
}
