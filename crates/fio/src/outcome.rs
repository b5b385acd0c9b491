//! What a run gave: its jobs' figures, what went wrong, and its figures for a study. `output` tells it in fio's
//! forms.

use super::error::FioError;
use super::figures::{Direction, Each, Figures, Flow, Summary};
use super::plan::{Job, Plan};
use std::fmt;
use std::sync::Arc;
use workload::outcome::{self, Measured, Outcome};

/// What fio's forms say of the run besides.
pub struct Stamp {
    /// Seconds and milliseconds since 1970.
    pub unix_ms: u64,
    /// The same in words, as `ctime` has it.
    pub text: String,
    /// The name and version of this program.
    pub version: String,
}

/// What a run gave.
pub struct FioOutcome {
    pub(super) rows: Vec<Row>,
    /// What went wrong in jobs, in their order.
    pub errors: Vec<FioError>,
    /// Errors that jobs went on after, in the jobs' order.
    pub passed_over: Vec<PassedOver>,
    /// Logs that jobs asked for: the name of the file and its text.
    pub logs: Vec<(String, String)>,
    pub(super) plan: Arc<Plan>,
}

/// Errors of a job after which it went on, as its `continue_on_error=` or `ignore_error=` says.
pub struct PassedOver {
    /// The first of them.
    pub(super) first: FioError,
    /// How many errors there were.
    pub(super) errors: u64,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PassedOver { first, errors } = self;
        match errors {
            1 => write!(f, "{first}; the job went on"),
            _ => write!(f, "{first}; the job went on, and met {errors} errors in all"),
        }
    }
}

/// One job, or jobs that are told together.
pub(super) struct Row {
    /// The first of them.
    pub(super) job: Job,
    pub(super) figures: Figures,
    /// Its error's number, 0 for none.
    pub(super) error: i32,
    /// Whether it ended before somebody stopped the run.
    pub(super) is_whole: bool,
}

impl Row {
    /// Processor time in per cent of the running time.
    pub(super) fn processor_percent(&self) -> f64 {
        match self.figures.runtime.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.figures.processor.as_secs_f64() / seconds * 100.0,
        }
    }
}

/// The jobs of one group in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Together {
    pub(super) bytes: u64,
    pub(super) runtime_min_ms: u64,
    pub(super) runtime_max_ms: u64,
    pub(super) bytes_per_s_min: u64,
    pub(super) bytes_per_s_max: u64,
}

impl Together {
    pub(super) fn bytes_per_s(&self) -> u64 {
        self.bytes.saturating_mul(1000).checked_div(self.runtime_max_ms).unwrap_or_default()
    }

    fn add(&mut self, flow: &Flow) {
        let (ms, rate) = (flow.runtime_ms(), flow.bytes_per_s());
        if ms == 0 {
            return;
        }
        let first = self.runtime_max_ms == 0;
        self.bytes += flow.bytes;
        self.runtime_max_ms = self.runtime_max_ms.max(ms);
        self.runtime_min_ms = if first { ms } else { self.runtime_min_ms.min(ms) };
        self.bytes_per_s_max = self.bytes_per_s_max.max(rate);
        self.bytes_per_s_min = if first { rate } else { self.bytes_per_s_min.min(rate) };
    }
}

/// The jobs of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group(pub(super) Each<Together>);

impl Group {
    /// The mean bandwidth of windows as a share of the group's, in per cent.
    pub(super) fn share_percent(&self, direction: Direction, windows: &Summary) -> f64 {
        let whole = self.0[direction.index()].bytes_per_s();
        match windows.count {
            0 => 0.0,
            _ if whole > 1024 => {
                (windows.mean.trunc() * 100.0 / (whole as f64 / 1024.0)).min(100.0)
            }
            _ => 100.0,
        }
    }
}

impl FioOutcome {
    /// What the jobs gave that ended before the run was stopped, how many those are, and how many there are.
    pub fn of_done(mut self) -> (FioOutcome, usize, usize) {
        let total = self.rows.len();
        self.rows.retain(|row| row.is_whole);
        let done = self.rows.len();
        (self, done, total)
    }

    /// What is said of jobs that were to verify what they wrote, and were ended by their time before they read any of it.
    pub fn unverified(&self) -> Vec<String> {
        let is_unverified = |row: &&Row| {
            let (spec, ios) = (&row.job.spec, |of: Direction| row.figures.flows[of.index()].ios);
            let is_asked = spec.verify.checksum.is_some() && spec.verify.after_writing;
            let only_writes = spec.mode.write && !spec.mode.read && !spec.kept.mixed;
            is_asked
                && only_writes
                && !spec.runtime.is_zero()
                && row.error == 0
                && ios(Direction::Write) > 0
                && ios(Direction::Read) == 0
        };
        let said = |row: &Row| {
            format!(
                "job {}: nothing of what it wrote was verified, for it wrote until its time was over; verify_backlog=N verifies as it \
                 goes, and without time_based it ends with its size and verifies then",
                row.job.name
            )
        };
        self.rows.iter().filter(is_unverified).map(said).collect()
    }

    /// All groups' sums.
    pub(super) fn groups(&self) -> Vec<Group> {
        let count = self.rows.iter().map(|row| row.job.group + 1).max().unwrap_or_default();
        let mut groups = vec![Group::default(); count];
        for row in &self.rows {
            if let Some(group) = groups.get_mut(row.job.group) {
                for (together, flow) in group.0.iter_mut().zip(&row.figures.flows) {
                    together.add(flow);
                }
            }
        }
        groups
    }

    /// Of how much the figures of a row are at the least.
    fn measured(&self) -> Option<Measured> {
        let of_row = |row: &Row| {
            let flows = row.figures.flows.iter().filter(|flow| flow.ios > 0);
            let time = flows.map(|flow| flow.runtime).max()?;
            Some(Measured { time, ios: row.figures.total_ios() })
        };
        let rows: Vec<Measured> = self.rows.iter().filter_map(of_row).collect();
        let time = rows.iter().map(|row| row.time).min()?;
        Some(Measured { time, ios: rows.iter().map(|row| row.ios).min()? })
    }

    /// Figures for a study. With one row they have bare names (`read_iops`); with several each is named
    /// after its job as well (`JOB_read_iops`). `iops` and `throughput_mb_s` are of all rows: sums
    /// within a group, means over groups that follow one another.
    pub fn outcome(&self) -> Outcome {
        let mut told = Outcome::default();
        let mut latencies = outcome::latency_histogram();
        let mut seen_latency = false;
        let mut groups: std::collections::BTreeMap<usize, (f64, f64)> = Default::default();
        for row in &self.rows {
            let prefix = match self.rows.len() {
                1 => String::new(),
                _ => format!("{}_", row.job.name),
            };
            for (direction, flow) in ["read", "write", "trim"].iter().zip(&row.figures.flows) {
                if flow.ios == 0 {
                    continue;
                }
                let (bytes_per_s, ios_per_s) = flow.measured_rates().unwrap_or_default();
                let mb_s = bytes_per_s / 1e6;
                let mut put = |name: &str, value: f64| {
                    told.metrics.insert(format!("{prefix}{direction}_{name}"), value);
                };
                put("iops", ios_per_s);
                put("throughput_mb_s", mb_s);
                let lat = if flow.lat.samples.count > 0 { &flow.lat } else { &flow.clat };
                if lat.samples.count > 0 {
                    put("latency_us_mean", lat.samples.summary().mean / 1e3);
                }
                let sum = groups.entry(row.job.group).or_default();
                sum.0 += ios_per_s;
                sum.1 += mb_s;
                for (value, count) in flow.clat.bins.iter().flat_map(|bins| bins.filled()) {
                    let value = value.clamp(1, outcome::LATENCY_NS_MAX);
                    latencies.saturating_record_n(value, count);
                    seen_latency = true;
                }
            }
        }
        if !groups.is_empty() {
            let count = groups.len() as f64;
            let sum = |pick: fn(&(f64, f64)) -> f64| groups.values().map(pick).sum::<f64>();
            told.metrics.insert("iops".into(), sum(|sum| sum.0) / count);
            told.metrics.insert("throughput_mb_s".into(), sum(|sum| sum.1) / count);
        }
        told.measured = self.measured();
        told.latency = seen_latency.then_some(latencies);
        let passed_over = self.passed_over.iter().map(ToString::to_string);
        told.failed = self.errors.iter().map(ToString::to_string).chain(passed_over).collect();
        told
    }
}
