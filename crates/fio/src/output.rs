//! The forms in which a run is told: fio's text, JSON and terse lines, and the names of its logs.

use super::outcome::{FioOutcome, Stamp};
use super::plan::Job;
use super::{json, terse, text};

/// The name of a log's file, as fio makes it: `NAME_KIND.JOB.log`.
pub(super) fn log_name(job: &Job, kind: &str) -> String {
    let logs = &job.spec.logs;
    let named = match kind {
        "bw" => &logs.bandwidth,
        "iops" => &logs.iops,
        _ => &logs.latency,
    };
    let base = named.as_deref().filter(|name| !name.is_empty()).unwrap_or(&job.name);
    match logs.per_job {
        true => format!("{base}_{kind}.{}.log", job.number + 1),
        false => format!("{base}_{kind}.log"),
    }
}

impl FioOutcome {
    /// fio's JSON; with `bins`, its `json+`.
    pub fn json(&self, stamp: &Stamp, bins: bool) -> serde_json::Value {
        json::document(self, stamp, bins)
    }

    /// fio's normal output, after the jobs have ended.
    pub fn text(&self, stamp: &Stamp) -> String {
        text::whole(self, stamp)
    }

    /// fio's terse output, version 3.
    pub fn terse(&self, stamp: &Stamp) -> String {
        terse::whole(self, stamp)
    }
}
