//! What jobs are asked for, by fio's names: so that who holds two runs against each other sees whether they did the same.

use super::plan::{Job, Plan};
use super::spec::Extent;
use std::collections::BTreeMap;
use stdx::ByteCount;

/// Options that say where a job works and what becomes of its figures, and not what it does.
const ELSEWHERE: [&str; 15] = [
    "name",
    "description",
    "directory",
    "filename",
    "filename_format",
    "buffered",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "per_job_logs",
    "log_avg_msec",
    "log_max_value",
    "log_offset",
    "unlink",
    "randseed",
];

impl Plan {
    /// The names of the jobs, once each, in their order.
    pub fn job_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for job in &self.jobs {
            if !names.contains(&job.name.as_str()) {
                names.push(&job.name);
            }
        }
        names
    }

    /// What the jobs do, by fio's names of options: what was given, and what matters most in any case. With several jobs
    /// each name has its job's before it, `JOB.rw`.
    pub fn asked(&self) -> Vec<(String, String)> {
        let several = self.job_names().len() > 1;
        let clones = self.jobs.iter().filter(|job| job.clone == 0);
        let named = clones.flat_map(|job| {
            asked(job).into_iter().map(move |(name, value)| match several {
                true => (format!("{}.{name}", job.name), value),
                false => (name, value),
            })
        });
        named.collect()
    }
}

fn asked(job: &Job) -> BTreeMap<String, String> {
    let spec = &job.spec;
    let mut asked = job.asked.as_ref().clone();
    asked.retain(|name, _| !ELSEWHERE.contains(&name.as_str()));
    let mut set = |name: &str, value: String| asked.insert(name.to_owned(), value);
    set("direct", u8::from(spec.direct).to_string());
    set("ioengine", spec.engine_name.to_owned());
    set("numjobs", spec.numjobs.to_string());
    if let [(low, high), ..] = spec.block
        && low == high
        && spec.block.iter().all(|block| *block == (low, high))
    {
        set("bs", ByteCount(low).to_string());
    }
    if let Extent::Bytes(size) = spec.size {
        set("size", ByteCount(size).to_string());
    }
    for (name, value) in [("rw", "read"), ("iodepth", "1")] {
        asked.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    asked
}
