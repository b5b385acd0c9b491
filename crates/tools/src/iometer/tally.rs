//! What is counted, and how IOMeter reckons figures from it.
//!
//! Figures of a worker are its sums over its own recorded time; figures of all workers are sums of the
//! workers' rates, means over all their I/Os, and the largest of their maxima: so IOMeter adds up
//! workers that did not begin at quite the same moment. A response time runs from the start of the
//! call that submits an I/O to its answer.

use hdrhistogram::Histogram;
use std::time::Duration;
use workload::outcome::latency_histogram;

/// Upper ends of the bins in which IOMeter counts response times, in microseconds; the last bin has
/// none.
pub const BIN_ENDS_US: [u64; 20] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];

/// Bins of response times.
pub const BINS: usize = BIN_ENDS_US.len() + 1;

/// One direction's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// I/Os.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of response times in nanoseconds.
    pub response_ns: u64,
    /// The longest response time in nanoseconds.
    pub response_ns_max: u64,
}

impl Side {
    fn count(&mut self, bytes: u64, response_ns: u64) {
        self.ios += 1;
        self.bytes += bytes;
        self.response_ns += response_ns;
        self.response_ns_max = self.response_ns_max.max(response_ns);
    }

    fn add(&mut self, other: &Side) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.response_ns += other.response_ns;
        self.response_ns_max = self.response_ns_max.max(other.response_ns_max);
    }
}

/// What was recorded of a worker on a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
    /// I/Os by response time.
    pub bins: [u64; BINS],
}

impl Tally {
    /// Counts an I/O.
    pub fn count(&mut self, is_read: bool, bytes: u64, response: Duration) {
        let response_ns = u64::try_from(response.as_nanos()).unwrap_or(u64::MAX);
        let side = if is_read { &mut self.reads } else { &mut self.writes };
        side.count(bytes, response_ns);
        let bin = BIN_ENDS_US.partition_point(|end| end * 1000 <= response_ns);
        self.bins[bin] += 1;
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &Tally) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        for (bin, more) in self.bins.iter_mut().zip(other.bins) {
            *bin += more;
        }
    }

    /// Its figures over so much time.
    pub fn figures(&self, time: Duration) -> Figures {
        let seconds = time.as_secs_f64();
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let mut figures = Figures {
            read_iops: rate(self.reads.ios),
            write_iops: rate(self.writes.ios),
            read_bytes_per_s: rate(self.reads.bytes),
            write_bytes_per_s: rate(self.writes.bytes),
            ..Figures::default()
        };
        figures.set_responses(self);
        figures
    }
}

/// IOMeter's figures. Rates are per second, response times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Reads a second.
    pub read_iops: f64,
    /// Writes a second.
    pub write_iops: f64,
    /// Bytes read a second.
    pub read_bytes_per_s: f64,
    /// Bytes written a second.
    pub write_bytes_per_s: f64,
    /// Mean response time of all, reads, and writes; 0 where there are none.
    pub response_ms: [f64; 3],
    /// The longest, likewise.
    pub response_ms_max: [f64; 3],
}

impl Figures {
    /// Reads and writes a second.
    pub fn iops(&self) -> f64 {
        self.read_iops + self.write_iops
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.read_bytes_per_s + self.write_bytes_per_s
    }

    /// Adds the rates of another; response times come from a common [`Tally`].
    fn add_rates(&mut self, other: &Figures) {
        self.read_iops += other.read_iops;
        self.write_iops += other.write_iops;
        self.read_bytes_per_s += other.read_bytes_per_s;
        self.write_bytes_per_s += other.write_bytes_per_s;
    }

    fn set_responses(&mut self, tally: &Tally) {
        let (reads, writes) = (&tally.reads, &tally.writes);
        let mean = |sum: u64, ios: u64| if ios == 0 { 0.0 } else { sum as f64 / 1e6 / ios as f64 };
        self.response_ms = [
            mean(reads.response_ns + writes.response_ns, reads.ios + writes.ios),
            mean(reads.response_ns, reads.ios),
            mean(writes.response_ns, writes.ios),
        ];
        let (read, write) = (reads.response_ns_max, writes.response_ns_max);
        self.response_ms_max = [read.max(write), read, write].map(|ns| ns as f64 / 1e6);
    }
}

/// What a worker recorded in a test.
#[derive(Clone, Debug)]
pub struct WorkerTally {
    /// On each of its targets, in their order.
    pub targets: Vec<Tally>,
    /// For how long it recorded.
    pub time: Duration,
    /// Response times of all I/Os, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl WorkerTally {
    /// All targets together.
    pub fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        self.targets.iter().for_each(|tally| sum.add(tally));
        sum
    }

    /// Its figures.
    pub fn figures(&self) -> Figures {
        self.sum().figures(self.time)
    }
}

/// The figures of several workers together, and what they counted.
pub fn together<'a>(workers: impl Iterator<Item = &'a WorkerTally>) -> (Figures, Tally) {
    let (mut figures, mut sum) = (Figures::default(), Tally::default());
    for worker in workers {
        figures.add_rates(&worker.figures());
        sum.add(&worker.sum());
    }
    figures.set_responses(&sum);
    (figures, sum)
}

/// The response times of several workers together.
pub fn latency_of<'a>(workers: impl Iterator<Item = &'a WorkerTally>) -> Histogram<u64> {
    let mut latency = latency_histogram();
    for worker in workers {
        latency.add(&worker.latency).expect("all have the same bounds");
    }
    latency
}

#[cfg(test)]
mod tests {
    //! What could break: a figure that is not the one that IOMeter's users know by that name.

    use super::*;

    #[test]
    fn figures_are_reckoned_as_iometer_does() {
        let mut tally = Tally::default();
        tally.count(true, 4096, Duration::from_millis(1));
        tally.count(true, 4096, Duration::from_millis(3));
        tally.count(false, 8192, Duration::from_millis(8));
        let latency = latency_histogram();
        let one = WorkerTally { targets: vec![tally], time: Duration::from_secs(2), latency };
        let mut other = one.clone();
        other.time = Duration::from_secs(1);
        let (figures, sum) = together([&one, &other].into_iter());
        assert_eq!(figures.iops(), 1.5 + 3.0);
        assert_eq!(figures.read_iops, 1.0 + 2.0);
        assert_eq!(figures.write_bytes_per_s, 4096.0 + 8192.0);
        assert_eq!(figures.response_ms, [4.0, 2.0, 8.0]);
        assert_eq!(figures.response_ms_max, [8.0, 3.0, 8.0]);
        assert_eq!(sum.reads.bytes, 4 * 4096);
    }

    #[test]
    fn a_response_time_falls_into_the_bin_that_begins_with_it() {
        let mut tally = Tally::default();
        for (us, bin) in [(0, 0), (49, 0), (50, 1), (999, 4), (1000, 5), (10_000_000, 20)] {
            let before = tally.bins[bin];
            tally.count(true, 1, Duration::from_micros(us));
            assert_eq!(tally.bins[bin], before + 1, "{us} us");
        }
    }
}
