//! From a job file to jobs: defaults of `[global]`, clones, groups, and what must fit together.
//!
//! Rules, as fio has them (init.c):
//!
//! 1. A job begins with what `[global]` says above it, read with the job's own `kb_base=`. `numjobs` clones follow their job; a clone
//!    neither waits at a stonewall nor begins a group.
//! 2. `stonewall` and `new_group` begin a new group. So does the first job of each job file but the first: files are run one after another. With `group_reporting` the jobs of a group that
//!    follow one another are told as one row.
//! 3. Options that exclude one another are refused; those that fio overrides silently are overridden
//!    in the same way (a random map where `blockalign` or a distribution makes it useless, and so on).

use super::error::JobError;
use super::ini::{self, Section, Sources, Written};
use super::line::CommandLine;
use super::names;
use super::settings;
use super::spec::{Checksum, Distribution, Extent, Spec};
use super::value::{Machine, Reading};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use workload::crew::WORKERS_MAX;

/// A job file, read and checked: what [`run`](super::run) carries out.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) jobs: Vec<Job>,
    /// Options of `[global]` as they were written, for the output.
    pub(super) globals: Vec<(String, String)>,
    /// Rows of the output.
    pub(super) rows: usize,
}

/// One job, or one clone of it: the work of one worker.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) spec: Arc<Spec>,
    /// Options of its section as they were written, for the output.
    pub(super) options: Arc<Vec<(String, String)>>,
    /// Its number among all jobs, from 0.
    pub(super) number: usize,
    /// Its number among its clones: 0, then down to 1.
    pub(super) clone: u64,
    pub(super) group: usize,
    /// Where in the output it is told; `None` for `stats=0`.
    pub(super) row: Option<usize>,
    /// Whether it waits for all jobs above it.
    pub(super) stonewall: bool,
    /// The clones that it waits for.
    pub(super) waits_for: Vec<usize>,
    /// Weights of `flow=` of all jobs with its `flow_id`.
    pub(super) flow_total: u64,
}

/// Reads a job file. `only` names the sections to run; all where it is empty. What `$ncpus` and the like
/// stand for is in `machine`.
///
/// # Errors
/// What is wrong with the file, in one line that names place and mend.
pub fn read(
    path: &Path,
    sources: &dyn Sources,
    machine: &Machine,
    only: &[String],
) -> Result<Plan, JobError> {
    let line = CommandLine { files: vec![path.to_owned()], ..CommandLine::default() };
    read_line(&line, sources, machine, only)
}

/// The same of what a command line says: its own jobs, then those of the job files that it names.
///
/// # Errors
/// As of [`read`].
pub fn read_line(
    line: &CommandLine,
    sources: &dyn Sources,
    machine: &Machine,
    only: &[String],
) -> Result<Plan, JobError> {
    let mut all = vec![line.sections.clone()];
    for path in &line.files {
        all.push(ini::read(path, sources)?);
    }
    let named: Vec<String> = line.files.iter().map(|path| path.display().to_string()).collect();
    let is_there = |name: &&String| all.iter().flatten().any(|section| section.name == **name);
    if let Some(missing) = only.iter().find(|name| !is_there(name)) {
        let file = match named.is_empty() {
            true => "the command line".to_owned(),
            false => named.join(", "),
        };
        return Err(JobError::NoSuchSection { file, section: missing.clone() });
    }
    let mut builder = Builder {
        machine,
        defaults: Defaults::default(),
        globals: Vec::new(),
        jobs: Vec::new(),
        group: 0,
        in_group: 0,
        begins_file: false,
    };
    for (at, sections) in all.iter().enumerate() {
        name_engines(sections, machine)?;
        // Of files but the first each begins anew, as in fio.
        if at > 1 {
            builder.defaults = Defaults::default();
            builder.begins_file = true;
        }
        for section in sections {
            if section.is_global() {
                builder.defaults.spec = builder.defaults.with(section, machine)?;
                builder.defaults.sections.push(section);
                builder.globals.extend(written(section));
            } else if only.is_empty() || only.contains(&section.name) {
                builder.job(section)?;
            }
        }
    }
    match (builder.jobs.is_empty(), named.is_empty()) {
        (false, _) => Ok(builder.finish()),
        (true, true) => Err(JobError::NoneGiven),
        (true, false) => Err(JobError::NoJobs { file: named.join(", ") }),
    }
}

/// Refuses engines that are not supported before their options are looked at.
fn name_engines(sections: &[Section], machine: &Machine) -> Result<(), JobError> {
    let options = sections.iter().flat_map(|section| &section.options);
    for option in options.filter(|option| names::canonical(&option.name) == "ioengine") {
        settings::apply(&mut Spec::default(), option, Reading { kb_base: 1024, machine })?;
    }
    Ok(())
}

/// Options as the output shows them: those that were given a value, as in fio.
fn written(section: &Section) -> impl Iterator<Item = (String, String)> + '_ {
    let options = section.options.iter();
    options.filter_map(|option| Some((option.name.clone(), option.value.clone()?)))
}

/// Applies the options of a section; the base of sizes is that of the job.
fn apply_all(spec: &mut Spec, section: &Section, reading: Reading) -> Result<(), JobError> {
    section.options.iter().try_for_each(|option| settings::apply(spec, option, reading))
}

/// What all jobs begin with.
#[derive(Default)]
struct Defaults<'a> {
    /// The sections that say it.
    sections: Vec<&'a Section>,
    /// What they say, read with their own base of sizes.
    spec: Spec,
}

impl Defaults<'_> {
    /// The same with what a section says over it. The section's base of sizes holds for all of it.
    fn with(&self, section: &Section, machine: &Machine) -> Result<Spec, JobError> {
        let kb_base = kb_base(section, self.spec.kept.kb_base, machine)?;
        let reading = Reading { kb_base, machine };
        let mut spec = match kb_base == self.spec.kept.kb_base {
            true => self.spec.clone(),
            false => {
                let mut spec = Spec::default();
                for section in &self.sections {
                    apply_all(&mut spec, section, reading)?;
                }
                spec
            }
        };
        apply_all(&mut spec, section, reading)?;
        Ok(spec)
    }
}

/// The base of sizes that a section names, wherever it stands in it; else that before it.
fn kb_base(section: &Section, before: u64, machine: &Machine) -> Result<u64, JobError> {
    let mut spec = Spec::default();
    spec.kept.kb_base = before;
    let named = |option: &&Written| names::canonical(&option.name) == "kb_base";
    for option in section.options.iter().filter(named) {
        settings::apply(&mut spec, option, Reading { kb_base: before, machine })?;
    }
    Ok(spec.kept.kb_base)
}

struct Builder<'a> {
    machine: &'a Machine,
    defaults: Defaults<'a>,
    globals: Vec<(String, String)>,
    jobs: Vec<Job>,
    group: usize,
    in_group: usize,
    /// Whether the next job is the first of another file.
    begins_file: bool,
}

impl Builder<'_> {
    fn job(&mut self, section: &Section) -> Result<(), JobError> {
        let mut spec = self.defaults.with(section, self.machine)?;
        spec.stonewall |= std::mem::take(&mut self.begins_file);
        // In a job file the section names the job, whatever name= says; so it is in fio.
        let name = section.name.clone();
        let conflict =
            |what| JobError::Conflict { place: section.place.clone(), job: name.clone(), what };
        settle(&mut spec).map_err(conflict)?;
        let waits_for = match &spec.wait_for {
            None => Vec::new(),
            Some(waited) => {
                let named = |job: &&Job| job.name == *waited;
                let found: Vec<usize> =
                    self.jobs.iter().filter(named).map(|job| job.number).collect();
                if found.is_empty() {
                    return Err(JobError::NobodyToWaitFor {
                        place: section.place.clone(),
                        job: name,
                        waits_for: waited.clone(),
                    });
                }
                found
            }
        };
        if (spec.stonewall || spec.new_group) && self.in_group > 0 {
            self.group += 1;
            self.in_group = 0;
        }
        let spec = Arc::new(spec);
        let options: Arc<Vec<_>> = Arc::new(written(section).collect());
        // The clones count down, in their files' names and for `offset_increment`, as in fio.
        for clone in std::iter::once(0).chain((1..spec.numjobs).rev()) {
            if self.jobs.len() >= WORKERS_MAX {
                let place = section.place.clone();
                return Err(JobError::TooMany { place, what: "jobs", max: WORKERS_MAX });
            }
            self.jobs.push(Job {
                name: name.clone(),
                spec: Arc::clone(&spec),
                options: Arc::clone(&options),
                number: self.jobs.len(),
                clone,
                group: self.group,
                row: None,
                stonewall: spec.stonewall && clone == 0,
                waits_for: waits_for.clone(),
                flow_total: 0,
            });
            self.in_group += 1;
        }
        Ok(())
    }

    fn finish(mut self) -> Plan {
        let (mut rows, mut last_group) = (0, None);
        for job in &mut self.jobs {
            if !job.spec.told {
                continue;
            }
            if rows == 0 || !job.spec.group_reporting || last_group != Some(job.group) {
                rows += 1;
            }
            last_group = Some(job.group);
            job.row = Some(rows - 1);
        }
        let weights: Vec<(u64, u64)> =
            self.jobs.iter().map(|job| (job.spec.flow_id, job.spec.flow)).collect();
        for job in &mut self.jobs {
            let mine = weights.iter().filter(|(id, _)| *id == job.spec.flow_id);
            job.flow_total = mine.map(|(_, weight)| weight).sum();
        }
        Plan { jobs: self.jobs, globals: self.globals, rows }
    }
}

/// Brings options into agreement, or says which exclude one another.
pub(super) fn settle(spec: &mut Spec) -> Result<(), &'static str> {
    for (block, split) in spec.block.iter_mut().zip(&spec.block_split) {
        let sizes = split.iter().filter(|(_, share)| *share > 0).map(|(size, _)| *size);
        if let (Some(low), Some(high)) = (sizes.clone().min(), sizes.max()) {
            *block = (low, high);
        }
    }
    let used = spec.block;
    for (align, (low, _)) in spec.align.iter_mut().zip(used) {
        if *align == 0 || !spec.mode.random {
            *align = low;
        } else if *align != low {
            spec.map = false;
        }
    }
    spec.map &= spec.distribution == Distribution::Uniform;
    if let Distribution::Zipf { theta, .. } = spec.distribution
        && theta <= 0.0
    {
        return Err("random_distribution=zipf needs a theta above 0");
    }
    spec.overwrite |= spec.mode.read;
    let rates = |values: &[u64; 3]| values.iter().any(|rate| *rate > 0);
    if rates(&spec.rate) && rates(&spec.rate_iops) {
        return Err("rate= and rate_iops= exclude one another; take one of them away");
    }
    let minimum_exceeds = (0..3).any(|at| {
        let above = |min: u64, rate: u64| rate > 0 && min > rate;
        above(spec.rate_min[at], spec.rate[at]) || above(spec.rate_iops_min[at], spec.rate_iops[at])
    });
    if minimum_exceeds {
        return Err("the minimum rate is larger than the rate");
    }
    spec.time_based &= !spec.runtime.is_zero();
    zones(spec)?;
    verify(spec)?;
    if let Extent::Bytes(size) = spec.size
        && size < smallest_block(spec)
    {
        return Err("size= is smaller than a block, bs=");
    }
    let allowed = u32::from(spec.bytes.zeros) * 100 + spec.bytes.compress_percent;
    if allowed > 100 && spec.bytes.zeros {
        spec.bytes.compress_percent = 0;
    }
    if spec.latency.is_some_and(|latency| latency.target.is_zero()) {
        spec.latency = None;
    }
    if spec.latency.is_some_and(|latency| latency.window.is_zero()) {
        return Err("latency_target= needs latency_window=");
    }
    if let Some(steady) = spec.steady {
        if steady.limit == 0.0 {
            spec.steady = None;
        } else if steady.window < 2 * steady.interval {
            return Err("steadystate= needs steadystate_duration= of at least two intervals");
        }
    }
    spec.think.spin = spec.think.spin.min(spec.think.time);
    if !spec.kept.lat {
        spec.kept.lat_percentiles = false;
        if spec.latency.is_some() || spec.max_latency.iter().any(|limit| !limit.is_zero()) {
            return Err("latency_target= and max_latency= need latencies; remove disable_lat");
        }
    }
    spec.kept.clat_percentiles &= spec.kept.clat;
    spec.kept.slat_percentiles &= spec.kept.slat;
    Ok(())
}

fn zones(spec: &mut Spec) -> Result<(), &'static str> {
    let Some(zones) = &mut spec.zones else { return Ok(()) };
    if zones.size == 0 {
        return Err("zonemode=strided needs zonesize=");
    }
    if zones.range == 0 {
        zones.range = zones.size;
    }
    if spec.nrfiles.max(spec.filenames.len() as u64) > 1 {
        return Err("zonemode=strided works on one file");
    }
    if spec.distribution != Distribution::Uniform {
        return Err("zonemode=strided and random_distribution= exclude one another");
    }
    // The map would be of a zone; what is drawn twice in one is not worth a map.
    spec.map = false;
    Ok(())
}

fn verify(spec: &mut Spec) -> Result<(), &'static str> {
    let Some(checksum) = spec.verify.checksum else { return Ok(()) };
    if spec.mode.trim {
        return Err("trims are not verified; remove verify=");
    }
    let pattern_needed = matches!(checksum, Checksum::Pattern | Checksum::PatternOnly);
    if pattern_needed && spec.verify.pattern.is_empty() {
        return Err("verify=pattern needs verify_pattern=");
    }
    let (low, high) = spec.block[1];
    let interval = match spec.verify.interval {
        0 if low == high => low,
        0 => low,
        interval => interval.min(low).min(spec.block[0].0),
    };
    let fits = low % interval == 0 && high % interval == 0;
    spec.verify.interval = if fits { interval } else { greatest_common_divisor(low, high) };
    if spec.verify.interval < super::verify::header_bytes(checksum) {
        return Err("the blocks, or verify_interval=, are too small for the header of verify=");
    }
    spec.block_unaligned = false;
    Ok(())
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The smallest block of any direction.
pub(super) fn smallest_block(spec: &Spec) -> u64 {
    spec.block.iter().map(|(low, _)| *low).min().unwrap_or(1)
}

/// The largest block of any direction.
pub(super) fn largest_block(spec: &Spec) -> u64 {
    spec.block.iter().map(|(_, high)| *high).max().unwrap_or(1)
}

impl Plan {
    /// A line for each job: what will be done, for people who only want to see whether it reads.
    pub fn describe(&self) -> String {
        let lines = self.jobs.iter().map(|job| {
            let spec = &job.spec;
            let (low, high) = if spec.mode.read { spec.block[0] } else { spec.block[1] };
            format!(
                "{}: group {}, {:?}, blocks of {low} to {high} B, depth {}\n",
                job.name, job.group, spec.engine, spec.depth
            )
        });
        lines.collect()
    }

    /// What jobs name with `directory=`, once each.
    pub fn directories(&self) -> BTreeSet<&str> {
        self.jobs.iter().flat_map(|job| &job.spec.directories).map(String::as_str).collect()
    }

    /// The first directory or file that is named, an absolute path before others.
    pub fn first_path(&self) -> Option<PathBuf> {
        let named = self.jobs.iter().flat_map(|job| {
            let spec = &job.spec;
            let files = if spec.directories.is_empty() { &spec.filenames[..] } else { &[] };
            spec.directories.iter().chain(files)
        });
        let absolute = named.clone().find(|text| text.starts_with('/'));
        absolute.or_else(|| named.clone().next()).map(PathBuf::from)
    }

    /// What is written, for the report.
    pub fn content(&self) -> Vec<String> {
        let mut kinds: Vec<String> = self
            .jobs
            .iter()
            .filter(|job| job.spec.mode.write)
            .map(|job| super::data::description(&job.spec.bytes))
            .collect();
        kinds.dedup();
        kinds
    }
}
