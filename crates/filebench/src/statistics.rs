//! The figures, as filebench defines them (its stats.c and flowop.c).
//!
//! * An *op* is one call of a flowop, counted when it ends. A read or write that has to open its file
//!   first counts the opening as one op of its own; `wakeup` counts one for each that it wakes.
//! * *mb* are 2²⁰ bytes. Bytes are those read and written, and those of directory entries listed.
//! * The *IO Summary* sums what touches files: all flowops but `block`, `wakeup`, semaphores, `hog`,
//!   `delay`, limits, `print`. Its *rd/wr* are ops of flowops that read or write data.
//! * *ms/op* is the time from the call to the answer. Making up the bytes to write is not in it.
//! * The *latency histogram* has 64 classes: class *i* counts ops of less than 2^i ns, and no less
//!   than half of that.
//!
//! An op that ends after the run does not count.

use super::plan::{Direction, FlowopClass, Row, RunPlan};
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::time::Duration;
use workload::outcome::{Outcome, count_latency, latency_histogram};

/// Classes of the latency histogram.
pub const CLASSES: usize = 64;

/// What all workers did of one flowop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowopStatistics {
    /// Ops.
    pub ops: u64,
    /// Bytes.
    pub bytes: u64,
    /// All ops' times together.
    pub total: Duration,
    /// The shortest; meaningless without ops.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// Ops by class.
    pub classes: [u64; CLASSES],
}

impl Default for FlowopStatistics {
    fn default() -> FlowopStatistics {
        FlowopStatistics {
            ops: 0,
            bytes: 0,
            total: Duration::ZERO,
            min: Duration::MAX,
            max: Duration::ZERO,
            classes: [0; CLASSES],
        }
    }
}

impl FlowopStatistics {
    fn count(&mut self, latency: Duration, bytes: u64) {
        self.ops += 1;
        self.bytes += bytes;
        self.total += latency;
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let class = (u64::BITS - nanos.leading_zeros()) as usize;
        if let Some(count) = self.classes.get_mut(class.min(CLASSES - 1)) {
            *count += 1;
        }
    }

    fn add(&mut self, other: &FlowopStatistics) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.total += other.total;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (sum, class) in self.classes.iter_mut().zip(other.classes) {
            *sum += class;
        }
    }

    /// Mean milliseconds of an op; 0 without ops.
    pub fn latency_ms_mean(&self) -> f64 {
        match self.ops {
            0 => 0.0,
            ops => self.total.as_secs_f64() * 1e3 / ops as f64,
        }
    }
}

/// What one worker did.
#[derive(Clone, Debug)]
pub(super) struct WorkerStatistics {
    rows: Vec<FlowopStatistics>,
    /// Latencies of what counts in the IO summary.
    latency: Histogram<u64>,
}

/// Decimal digits of a worker's latencies: with two its histogram stays below 50 KB.
const LATENCY_DIGITS: u8 = 2;

impl WorkerStatistics {
    pub(super) fn new(rows: usize) -> WorkerStatistics {
        let latency = Histogram::new(LATENCY_DIGITS).expect("two digits are allowed");
        WorkerStatistics { rows: vec![FlowopStatistics::default(); rows], latency }
    }

    pub(super) fn count(&mut self, row: usize, class: FlowopClass, latency: Duration, bytes: u64) {
        if let Some(row) = self.rows.get_mut(row) {
            row.count(latency, bytes);
        }
        if class == FlowopClass::Io {
            count_latency(&mut self.latency, latency);
        }
    }

    pub(super) fn clear(&mut self) {
        self.rows.fill(FlowopStatistics::default());
        self.latency.reset();
    }
}

/// What a run, or a part of it, gave.
#[derive(Clone, Debug)]
pub struct Figures {
    /// How long it took.
    pub duration: Duration,
    /// Each row and what was done, in the order of definition.
    pub rows: Vec<(Row, FlowopStatistics)>,
    /// Whether the histogram is to be printed.
    pub latency_histogram: bool,
    /// Latencies of what counts in the IO summary, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Figures {
    pub(super) fn new(run: &RunPlan, duration: Duration) -> Figures {
        let rows = run.rows.iter().map(|row| (row.clone(), FlowopStatistics::default()));
        Figures {
            duration,
            rows: rows.collect(),
            latency_histogram: run.latency_histogram,
            latency: latency_histogram(),
        }
    }

    pub(super) fn add(&mut self, worker: &WorkerStatistics) {
        for ((_, sum), row) in self.rows.iter_mut().zip(&worker.rows) {
            sum.add(row);
        }
        // Every value that a worker's histogram has is within the bounds of this one.
        let _ = self.latency.add(&worker.latency);
    }

    /// The IO summary.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary { duration: self.duration, ..Summary::default() };
        for (row, statistics) in &self.rows {
            if row.kind.class() == FlowopClass::Io {
                summary.all.add(statistics);
                match row.kind.direction() {
                    Direction::Read => summary.reads += statistics.ops,
                    Direction::Write => summary.writes += statistics.ops,
                    Direction::None => {}
                }
            }
        }
        summary
    }

    /// The rows with one line a name, as filebench prints them.
    pub fn rows_by_name(&self) -> Vec<(Arc<str>, FlowopStatistics)> {
        let mut rows: Vec<(Arc<str>, FlowopStatistics)> = Vec::new();
        for (row, statistics) in &self.rows {
            match rows.iter_mut().find(|(name, _)| *name == row.name) {
                Some((_, sum)) => sum.add(statistics),
                None => rows.push((Arc::clone(&row.name), statistics.clone())),
            }
        }
        rows
    }

    /// The figures in the lab's terms.
    pub fn outcome(&self, warnings: Vec<String>) -> Outcome {
        let summary = self.summary();
        let seconds = self.duration.as_secs_f64().max(f64::MIN_POSITIVE);
        let mut outcome = Outcome { warnings, ..Outcome::default() };
        let mut metric = |name: String, value: f64| outcome.metrics.insert(name, value);
        metric("ops_per_s".into(), summary.ops_per_second());
        metric("iops".into(), (summary.reads + summary.writes) as f64 / seconds);
        metric("read_iops".into(), summary.reads as f64 / seconds);
        metric("write_iops".into(), summary.writes as f64 / seconds);
        metric("throughput_mb_s".into(), summary.all.bytes as f64 / 1e6 / seconds);
        metric("latency_us_mean".into(), summary.all.latency_ms_mean() * 1e3);
        metric("duration_s".into(), self.duration.as_secs_f64());
        for (name, statistics) in self.rows_by_name() {
            if statistics.ops > 0 {
                metric(format!("{name}_ops_per_s"), statistics.ops as f64 / seconds);
                metric(format!("{name}_latency_us_mean"), statistics.latency_ms_mean() * 1e3);
            }
        }
        outcome.latency = (!self.latency.is_empty()).then(|| self.latency.clone());
        outcome
    }
}

/// The IO summary of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How long the run took.
    pub duration: Duration,
    /// All that touched files.
    pub all: FlowopStatistics,
    /// Ops that read data.
    pub reads: u64,
    /// Ops that wrote data.
    pub writes: u64,
}

impl Summary {
    fn seconds(&self) -> f64 {
        self.duration.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Ops a second.
    pub fn ops_per_second(&self) -> f64 {
        self.all.ops as f64 / self.seconds()
    }

    /// 2²⁰ bytes a second: filebench's mb/s.
    pub fn mib_per_second(&self) -> f64 {
        self.all.bytes as f64 / f64::from(1 << 20) / self.seconds()
    }
}
