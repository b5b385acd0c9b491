//! What the phases over small files gave. Definitions stand in the [module above](super).

use super::plan::Plan;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;
use workload::content::ContentSpec;
use workload::outcome::{Outcome, latency_histogram};

/// A phase, in the order of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Make and write.
    Create,
    /// Look at.
    Stat,
    /// Open and read.
    Read,
    /// Read, and write to a new file.
    Copy,
    /// Remove.
    Delete,
}

impl Phase {
    /// All, in the order of running.
    pub const ALL: [Phase; 5] =
        [Phase::Create, Phase::Stat, Phase::Read, Phase::Copy, Phase::Delete];

    /// The name that its line and its metrics begin with.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Stat => "stat",
            Phase::Read => "read",
            Phase::Copy => "copy",
            Phase::Delete => "delete",
        }
    }

    /// Whether it changes what lies on the disk.
    pub fn changes(self) -> bool {
        matches!(self, Phase::Create | Phase::Copy | Phase::Delete)
    }
}

/// What one phase gave.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub elapsed: Duration,
    /// Processor time.
    pub processor: Duration,
    /// Latencies of whole files, in nanoseconds.
    pub latencies: Histogram<u64>,
}

impl Default for Figure {
    fn default() -> Figure {
        Figure {
            files: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            processor: Duration::ZERO,
            latencies: latency_histogram(),
        }
    }
}

impl Figure {
    /// Files a second.
    pub fn files_per_s(&self) -> f64 {
        over(self.files as f64, self.elapsed)
    }

    /// 10⁶ B a second.
    pub fn throughput_mb_s(&self) -> f64 {
        over(self.bytes as f64 / 1e6, self.elapsed)
    }

    /// Processor time over time, in percent.
    pub fn processor_percent(&self) -> f64 {
        over(100.0 * self.processor.as_secs_f64(), self.elapsed)
    }

    /// The latency that this share (0 to 1) of the files did not exceed, in microseconds.
    pub fn latency_us(&self, share: f64) -> f64 {
        self.latencies.value_at_quantile(share) as f64 / 1e3
    }

    /// The mean latency, in microseconds.
    pub fn latency_us_mean(&self) -> f64 {
        self.latencies.mean() / 1e3
    }

    /// Adds what another thread did at the same time.
    pub(super) fn add(&mut self, other: &Figure) {
        self.files += other.files;
        self.bytes += other.bytes;
        // All histograms are made with the same bounds.
        let _ = self.latencies.add(&other.latencies);
    }
}

fn over(amount: f64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { amount / elapsed.as_secs_f64() }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct SmallFilesOutcome {
    /// What was done.
    pub plan: Plan,
    /// What was written.
    pub content: ContentSpec,
    pub(super) figures: BTreeMap<Phase, Figure>,
}

impl SmallFilesOutcome {
    /// The outcome of these phases.
    pub fn of(
        plan: Plan,
        content: ContentSpec,
        figures: BTreeMap<Phase, Figure>,
    ) -> SmallFilesOutcome {
        SmallFilesOutcome { plan, content, figures }
    }

    /// What a phase gave.
    pub fn figure(&self, phase: Phase) -> Option<&Figure> {
        self.figures.get(&phase)
    }

    /// The figures for a study: of each phase `..._ops_per_s` (files), `..._throughput_mb_s` where data
    /// moves, `..._latency_us_mean`, `..._latency_us_p99`, `..._cpu_percent`; of the whole run
    /// `ops_per_s` and `duration_s`.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut all = Figure::default();
        for (phase, figure) in &self.figures {
            all.add(figure);
            all.elapsed += figure.elapsed;
            let word = phase.word();
            outcome.metrics.extend([
                (format!("{word}_ops_per_s"), figure.files_per_s()),
                (format!("{word}_latency_us_mean"), figure.latency_us_mean()),
                (format!("{word}_latency_us_p99"), figure.latency_us(0.99)),
                (format!("{word}_cpu_percent"), figure.processor_percent()),
            ]);
            if figure.bytes > 0 {
                let name = format!("{word}_throughput_mb_s");
                outcome.metrics.insert(name, figure.throughput_mb_s());
            }
        }
        outcome.metrics.insert("ops_per_s".to_owned(), all.files_per_s());
        outcome.metrics.insert("duration_s".to_owned(), all.elapsed.as_secs_f64());
        outcome.latency = Some(all.latencies);
        outcome
    }
}
