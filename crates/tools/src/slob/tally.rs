//! What is counted.

use hdrhistogram::Histogram;
use std::time::Duration;
use stdx::{ByteCount, Instant};
use workload::outcome::{count_latency, latency_histogram};

/// I/Os of a kind.
#[derive(Clone, Debug)]
pub struct Counted {
    /// How many.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long each took, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Default for Counted {
    fn default() -> Counted {
        Counted { count: 0, bytes: 0, latency: latency_histogram() }
    }
}

impl Counted {
    /// Counts one, if it began after `on` and was over before `off`.
    pub(super) fn count(
        &mut self,
        began: Instant,
        ended: Instant,
        bytes: ByteCount,
        on: Instant,
        off: Instant,
    ) {
        if began >= on && ended <= off {
            self.count += 1;
            self.bytes += bytes.bytes();
            count_latency(&mut self.latency, ended.since(began));
        }
    }

    /// Adds what another counted.
    pub(super) fn add(&mut self, other: &Counted) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("all have the same bounds");
    }

    /// Mean, median and 99th percentile in microseconds; 0 where there are none.
    pub fn latency_us(&self) -> [f64; 3] {
        let quantile = |share| self.latency.value_at_quantile(share) as f64 / 1e3;
        match self.count {
            0 => [0.0; 3],
            _ => [self.latency.mean() / 1e3, quantile(0.5), quantile(0.99)],
        }
    }
}

/// What a session did.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTally {
    /// Single blocks read.
    pub(super) reads: Counted,
    /// Single blocks written.
    pub(super) writes: Counted,
    /// Reads of several blocks, in scans.
    pub(super) scanned: Counted,
    /// Commits, from handing over the redo to its being durable.
    pub(super) commits: Counted,
    pub(super) queries: u64,
    pub(super) updates: u64,
    pub(super) scans: u64,
    /// For how long it counted.
    pub(super) time: Duration,
    pub(super) processor_before: Option<Duration>,
    /// Processor time of the whole program while it counted.
    pub(super) processor: Duration,
}
