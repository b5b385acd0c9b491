//! What the cases of tiobench gave. Definitions stand in the [module above](super).

use super::plan::{Case, Plan};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::units::MIB;
use workload::content::ContentSpec;
use workload::outcome::{Outcome, latency_histogram};

/// A phase, in the order of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Sequential write.
    Write,
    /// Random write.
    RandomWrite,
    /// Sequential read.
    Read,
    /// Random read.
    RandomRead,
}

impl Phase {
    /// All, in the order of running.
    pub const ALL: [Phase; 4] = [Phase::Write, Phase::RandomWrite, Phase::Read, Phase::RandomRead];

    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, Phase::Write | Phase::RandomWrite)
    }

    /// Whether its blocks are in random order.
    pub fn is_random(self) -> bool {
        matches!(self, Phase::RandomWrite | Phase::RandomRead)
    }

    /// The name that metrics begin with.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Write => "write",
            Phase::RandomWrite => "random_write",
            Phase::Read => "read",
            Phase::RandomRead => "random_read",
        }
    }
}

/// What one phase of one case gave.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Reads or writes.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub elapsed: Duration,
    /// Processor time: the mean over the threads of what the process used while they worked.
    pub processor: Duration,
    /// Sum of all latencies.
    pub latency_sum: Duration,
    /// The longest.
    pub latency_max: Duration,
    /// Operations longer than 2 s.
    pub above_2_s: u64,
    /// Operations longer than 10 s.
    pub above_10_s: u64,
    /// All latencies, in nanoseconds.
    pub latencies: Histogram<u64>,
}

impl Default for Figure {
    fn default() -> Figure {
        Figure {
            operations: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            processor: Duration::ZERO,
            latency_sum: Duration::ZERO,
            latency_max: Duration::ZERO,
            above_2_s: 0,
            above_10_s: 0,
            latencies: latency_histogram(),
        }
    }
}

impl Figure {
    /// Adds another thread, or another run.
    pub(super) fn add(&mut self, other: &Figure) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.elapsed += other.elapsed;
        self.processor += other.processor;
        self.latency_sum += other.latency_sum;
        self.latency_max = self.latency_max.max(other.latency_max);
        self.above_2_s += other.above_2_s;
        self.above_10_s += other.above_10_s;
        // All histograms are made with the same bounds.
        let _ = self.latencies.add(&other.latencies);
    }

    /// MiB a second.
    pub fn rate_mib_s(&self) -> f64 {
        over(self.bytes as f64 / MIB as f64, self.elapsed.as_secs_f64())
    }

    /// Processor time over time, in percent.
    pub fn processor_percent(&self) -> f64 {
        over(100.0 * self.processor.as_secs_f64(), self.elapsed.as_secs_f64())
    }

    /// The mean latency, in milliseconds.
    pub fn latency_ms_mean(&self) -> f64 {
        over(self.latency_sum.as_secs_f64() * 1e3, self.operations as f64)
    }

    /// The longest latency, in milliseconds.
    pub fn latency_ms_max(&self) -> f64 {
        self.latency_max.as_secs_f64() * 1e3
    }

    /// This share of the operations, in percent.
    pub fn percent(&self, operations: u64) -> f64 {
        over(100.0 * operations as f64, self.operations as f64)
    }

    /// The rate over the processor share; tiobench adds a trifle, so that nothing is divided by 0.
    pub fn efficiency(&self) -> f64 {
        self.rate_mib_s() / (self.processor_percent() / 100.0 + 0.00001)
    }
}

fn over(amount: f64, by: f64) -> f64 {
    if by > 0.0 { amount / by } else { 0.0 }
}

/// What one case gave.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// Which.
    pub case: Case,
    pub(super) figures: BTreeMap<Phase, Figure>,
}

impl CaseOutcome {
    /// What a phase gave.
    pub fn figure(&self, phase: Phase) -> Option<&Figure> {
        self.figures.get(&phase)
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct TiobenchOutcome {
    /// What was done.
    pub plan: Plan,
    /// What was written.
    pub content: ContentSpec,
    /// The cases, in the order of running.
    pub cases: Vec<CaseOutcome>,
}

impl TiobenchOutcome {
    /// The figures for a study: of each phase `..._throughput_mb_s` (10⁶ B/s), `..._iops`,
    /// `..._latency_us_mean`, `..._latency_us_max`, `..._cpu_percent`; where there are several cases,
    /// with the case before (`4_threads_read_...`, and size or block where there are several). Of the
    /// whole run `throughput_mb_s` and `duration_s`.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut all = Figure::default();
        for done in &self.cases {
            let case = done.case;
            let mut prefix = String::new();
            for (several, word) in [
                (self.plan.sizes_mib.len() > 1, format!("{}_mib_", case.size_mib)),
                (self.plan.blocks.len() > 1, format!("{}_bytes_", case.block.bytes())),
                (self.plan.threads.len() > 1, format!("{}_threads_", case.threads)),
            ] {
                prefix.push_str(if several { &word } else { "" });
            }
            for (phase, figure) in &done.figures {
                all.add(figure);
                let seconds = figure.elapsed.as_secs_f64();
                let name = format!("{prefix}{}", phase.word());
                outcome.metrics.extend([
                    (format!("{name}_throughput_mb_s"), over(figure.bytes as f64 / 1e6, seconds)),
                    (format!("{name}_iops"), over(figure.operations as f64, seconds)),
                    (format!("{name}_latency_us_mean"), figure.latency_ms_mean() * 1e3),
                    (format!("{name}_latency_us_max"), figure.latency_ms_max() * 1e3),
                    (format!("{name}_cpu_percent"), figure.processor_percent()),
                ]);
            }
        }
        let seconds = all.elapsed.as_secs_f64();
        outcome.metrics.insert("throughput_mb_s".to_owned(), over(all.bytes as f64 / 1e6, seconds));
        outcome.metrics.insert("duration_s".to_owned(), seconds);
        outcome.latency = Some(all.latencies);
        outcome
    }
}
