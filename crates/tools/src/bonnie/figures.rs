//! What the phases of bonnie++ gave.
//!
//! **Definitions**, bonnie++'s own. The *rate* of a phase is its bytes or operations over the time from
//! its first call to the end of its `fsync` and `close` (phases on the file) or of its `sync` (making
//! and removing files). *Processor* is the process's time, user and system, of all its threads, over
//! that time. *Latency* is the longest single operation: one block; of the phases that go by bytes, the
//! bytes of one block; of small files, all that is done to one file.
//!
//! The seeks are the exception: their time is from the first seeker's start to the last one's end,
//! each with its `fsync`, and their processor time is the sum of what each seeker saw *the process* use,
//! so that it counts up to as many times as there are seekers. It is shown so, to be comparable;
//! [`BonnieOutcome::outcome`] divides it by the seekers.

use super::plan::Plan;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use workload::content::ContentSpec;
use workload::outcome::Outcome;

/// A shorter phase is not shown: its figures would be chance.
pub const SHOWN_MIN: Duration = Duration::from_millis(500);

/// A phase, in the order of running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Writing a byte at a time.
    PutByte,
    /// Writing by blocks.
    PutBlock,
    /// Reading, changing and writing back by blocks.
    Rewrite,
    /// Reading a byte at a time.
    GetByte,
    /// Reading by blocks.
    GetBlock,
    /// Seeking.
    Seeks,
    /// Making files, names in sequence.
    SequentialCreate,
    /// Looking at and reading files in the directory's order.
    SequentialStat,
    /// Removing files in the directory's order.
    SequentialDelete,
    /// Making files, random names.
    RandomCreate,
    /// Looking at and reading files in random order.
    RandomStat,
    /// Removing files in random order.
    RandomDelete,
}

impl Phase {
    /// All, in the order of running and of the columns.
    pub const ALL: [Phase; 12] = [
        Phase::PutByte,
        Phase::PutBlock,
        Phase::Rewrite,
        Phase::GetByte,
        Phase::GetBlock,
        Phase::Seeks,
        Phase::SequentialCreate,
        Phase::SequentialStat,
        Phase::SequentialDelete,
        Phase::RandomCreate,
        Phase::RandomStat,
        Phase::RandomDelete,
    ];

    /// bonnie++'s name of its column.
    pub fn column(self) -> &'static str {
        match self {
            Phase::PutByte => "putc",
            Phase::PutBlock => "put_block",
            Phase::Rewrite => "rewrite",
            Phase::GetByte => "getc",
            Phase::GetBlock => "get_block",
            Phase::Seeks => "seeks",
            Phase::SequentialCreate => "seq_create",
            Phase::SequentialStat => "seq_stat",
            Phase::SequentialDelete => "seq_del",
            Phase::RandomCreate => "ran_create",
            Phase::RandomStat => "ran_stat",
            Phase::RandomDelete => "ran_del",
        }
    }

    /// Whether its amount is bytes; else it is operations.
    pub fn counts_bytes(self) -> bool {
        self < Phase::Seeks
    }

    /// Whether it works on the one large file.
    pub fn is_on_file(self) -> bool {
        self <= Phase::Seeks
    }
}

impl Plan {
    /// The phases that it goes through, in order.
    pub fn phases(&self) -> Vec<Phase> {
        let is_gone_through = |phase: &Phase| match &self.file {
            _ if !phase.is_on_file() => self.creation.is_some(),
            None => false,
            Some(file) => match phase {
                Phase::PutByte | Phase::GetByte => !file.bytes_phase().is_zero(),
                Phase::Seeks => file.seeks > 0,
                _ => true,
            },
        };
        Phase::ALL.into_iter().filter(is_gone_through).collect()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::PutByte => "Writing a byte at a time",
            Phase::PutBlock => "Writing intelligently",
            Phase::Rewrite => "Rewriting",
            Phase::GetByte => "Reading a byte at a time",
            Phase::GetBlock => "Reading intelligently",
            Phase::Seeks => "Seeking",
            Phase::SequentialCreate => "Create files in sequential order",
            Phase::SequentialStat => "Stat files in sequential order",
            Phase::SequentialDelete => "Delete files in sequential order",
            Phase::RandomCreate => "Create files in random order",
            Phase::RandomStat => "Stat files in random order",
            Phase::RandomDelete => "Delete files in random order",
        })
    }
}

/// What one phase gave. Definitions stand in the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// Bytes, or operations.
    pub amount: u64,
    /// Time.
    pub elapsed: Duration,
    /// Processor time.
    pub processor: Duration,
    /// The longest operation.
    pub latency_max: Duration,
}

impl Figure {
    /// Bytes or operations a second; 0 where no time passed.
    pub fn rate(&self) -> f64 {
        over(self.amount as f64, self.elapsed)
    }

    /// Processor time over time, in percent.
    pub fn processor_percent(&self) -> f64 {
        over(self.processor.as_secs_f64() * 100.0, self.elapsed)
    }
}

fn over(amount: f64, elapsed: Duration) -> f64 {
    match elapsed.is_zero() {
        true => 0.0,
        false => amount / elapsed.as_secs_f64(),
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct BonnieOutcome {
    /// What was done.
    pub plan: Plan,
    /// What the load's content was.
    pub content: ContentSpec,
    figures: BTreeMap<Phase, Figure>,
}

impl BonnieOutcome {
    /// The outcome of these phases.
    pub fn of(
        plan: Plan,
        content: ContentSpec,
        figures: impl IntoIterator<Item = (Phase, Figure)>,
    ) -> BonnieOutcome {
        BonnieOutcome { plan, content, figures: figures.into_iter().collect() }
    }

    pub(super) fn take(&mut self, figures: Vec<(Phase, Figure)>) {
        self.figures.extend(figures);
    }

    /// What a phase gave; nothing where it was left out.
    pub fn figure(&self, phase: Phase) -> Option<Figure> {
        self.figures.get(&phase).copied()
    }

    /// The figures for a study: of each phase its rate (`put_block_throughput_mb_s`,
    /// `seeks_ops_per_s`), processor (`..._cpu_percent`), and longest operation (`..._latency_us_max`);
    /// of the whole run `duration_s`, and `throughput_mb_s` (of writing, rewriting and reading by blocks
    /// together) or, where only small files were tested, `ops_per_s` of all that was done to them.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut duration = Duration::ZERO;
        let mut together = Figure::default();
        let main = match self.plan.file {
            Some(_) => [Phase::PutBlock, Phase::Rewrite, Phase::GetBlock].as_slice(),
            None => &Phase::ALL,
        };
        for (phase, figure) in &self.figures {
            duration += figure.elapsed;
            if main.contains(phase) {
                together.amount += figure.amount;
                together.elapsed += figure.elapsed;
            }
            let name = phase.column();
            let (rate, unit) = match phase.counts_bytes() {
                true => (figure.rate() / 1e6, "throughput_mb_s"),
                false => (figure.rate(), "ops_per_s"),
            };
            let seekers = match (phase, &self.plan.file) {
                (Phase::Seeks, Some(file)) => f64::from(file.seekers),
                _ => 1.0,
            };
            let latency_us = figure.latency_max.as_secs_f64() * 1e6;
            outcome.metrics.extend([
                (format!("{name}_{unit}"), rate),
                (format!("{name}_cpu_percent"), figure.processor_percent() / seekers),
                (format!("{name}_latency_us_max"), latency_us),
            ]);
            if figure.elapsed < SHOWN_MIN {
                outcome.warnings.push(format!(
                    "{name} took {} ms; bonnie++ shows no figure below {} ms, as it is mostly chance: use more data or files",
                    figure.elapsed.as_millis(),
                    SHOWN_MIN.as_millis()
                ));
            }
        }
        let (name, rate) = match self.plan.file {
            Some(_) => ("throughput_mb_s", together.rate() / 1e6),
            None => ("ops_per_s", together.rate()),
        };
        outcome.metrics.insert(name.to_owned(), rate);
        outcome.metrics.insert("duration_s".to_owned(), duration.as_secs_f64());
        outcome
    }
}
