//! Runs that are done, kept as they come, so that what ended before its end can go on.
//!
//! In the folder of the results lies `runs.jsonl` while a study runs: a first line that says of what, then a
//! line for each repeat of a cell that is done. It goes when the results are written.
//!
//! ```text
//! {"format":1,"study":"raid-layouts","text":"…","notes":[],"seed":1,…}
//! {"cell":"layout=disk/random/…","repeat":0,"metrics":{"iops":"75.25"},"latency":[[12000000,3],…],…}
//! ```
//!
//! Rules:
//!
//! * To make the file is the proof that the folder can be written to; it is made before anything runs.
//! * Figures are decimal texts: the shortest that reads back as the same number, which JSON's readers don't
//!   promise of its numbers. So a run that went on gives the bytes of one that was never ended.
//! * A run goes on only as the same run: the same text, options, seed and version, on the same kind of machine
//!   (and a real one on the same host). Which cells (`--only`) may differ: runs are of cells.
//! * A line that was cut short by the end of the program is not believed; it is cut off.
//! * Lines are written as they come and not synced: what the program had done survives its end; a power cut may
//!   take the last of it.
//! * Runs that failed and gave no figures are not kept; they are tried again.

use crate::results::{FoundPitfall, ProgressPoint, RoundPoint};
use crate::target::CellRun;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The file of kept runs.
pub const KEPT_FILE: &str = "runs.jsonl";
/// The version of its format.
const FORMAT: u32 = 1;
/// A larger file is no file of ours: a study has 10 000 cells at the most, and a line some kilobytes.
const BYTES_MAX: u64 = 4 << 30;

/// One repeat of a cell that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRun {
    /// The cell's name.
    pub cell: String,
    /// The repeat, counted from 0.
    pub repeat: u32,
    /// What it gave.
    pub gave: Repeat,
}

/// What one repeat gave, as results are made from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repeat {
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Nanoseconds → how many I/Os took so long.
    pub(crate) latency: BTreeMap<u64, u64>,
    pub(crate) disk_utilisation: BTreeMap<String, f64>,
    pub(crate) progress: Vec<ProgressPoint>,
    pub(crate) rounds: Vec<RoundPoint>,
    pub(crate) warnings: Vec<String>,
    pub(crate) failed: Vec<String>,
    pub(crate) pitfalls: Vec<FoundPitfall>,
}

impl From<CellRun> for Repeat {
    fn from(run: CellRun) -> Repeat {
        let mut latency = BTreeMap::new();
        for value in run.latency.iter().flat_map(|histogram| histogram.iter_recorded()) {
            *latency.entry(value.value_iterated_to()).or_default() += value.count_at_value();
        }
        let pitfalls = run.pitfalls.iter().map(|pitfall| pitfall.found());
        Repeat {
            latency,
            pitfalls: pitfalls.collect(),
            metrics: run.metrics,
            disk_utilisation: run.disk_utilisation,
            progress: run.progress,
            rounds: run.rounds,
            warnings: run.warnings,
            failed: run.failed,
        }
    }
}

/// Of what the kept runs are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHead {
    format: u32,
    /// The study's name.
    pub study: String,
    /// Its text.
    pub text: String,
    /// What options changed of it.
    pub notes: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// The version of Spindle.
    pub spindle_version: String,
    /// Whether the figures are computed.
    pub simulated: bool,
    /// The host, where they are measured.
    pub host: Option<String>,
}

impl KeptHead {
    /// Of a study that is run by this version, on this host where it is measured.
    pub fn of(
        study: &crate::study::Study,
        version: &str,
        simulated: bool,
        host: Option<String>,
    ) -> KeptHead {
        KeptHead {
            format: FORMAT,
            study: study.name.clone(),
            text: study.text.clone(),
            notes: study.notes.clone(),
            seed: study.seed,
            spindle_version: version.to_owned(),
            simulated,
            host: host.filter(|_| !simulated),
        }
    }

    /// In what another run is another one.
    fn differs(&self, other: &KeptHead) -> Option<String> {
        let said =
            |what: &str, one: String, two: String| format!("{what}: {one} there, {two} here");
        let options = |head: &KeptHead| match head.notes.is_empty() {
            true => "none".to_owned(),
            false => head.notes.join(", "),
        };
        if self.study != other.study {
            return Some(said("study", self.study.clone(), other.study.clone()));
        }
        if self.text != other.text {
            return Some("the study's text was changed since".to_owned());
        }
        if self.notes != other.notes {
            return Some(said("options", options(self), options(other)));
        }
        if self.seed != other.seed {
            return Some(said("seed", self.seed.to_string(), other.seed.to_string()));
        }
        if self.spindle_version != other.spindle_version {
            let (one, two) = (&self.spindle_version, &other.spindle_version);
            return Some(said("version of Spindle", one.clone(), two.clone()));
        }
        let host = |head: &KeptHead| head.host.clone().unwrap_or_else(|| "simulated".to_owned());
        (self != other).then(|| said("machine", host(self), host(other)))
    }
}

/// Why runs can't be kept or taken up.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Runs of an earlier run lie there.
    #[error(
        "{}: an unfinished run lies there, with {done} runs done; go on with --resume, name another folder with \
         --out, or throw them away with --force", dir.display()
    )]
    Unfinished {
        /// The folder.
        dir: PathBuf,
        /// Runs that are done.
        done: usize,
    },
    /// There is nothing to go on with.
    #[error(
        "{}: no unfinished run lies there that could be gone on with; leave out --resume, or give --out the folder of \
         the run that was interrupted",
        dir.display()
    )]
    Nothing {
        /// The folder.
        dir: PathBuf,
    },
    /// What lies there is of another run.
    #[error(
        "{}: the unfinished run there is another one ({why}); call it up as it was, name another folder with --out, or \
         throw it away with --force", dir.display()
    )]
    Another {
        /// The folder.
        dir: PathBuf,
        /// In what they differ.
        why: String,
    },
    /// The system refuses.
    #[error("{}: {doing}: {source}; see to it, or name another folder with --out", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// Its reason.
        source: io::Error,
    },
}

/// Keeps runs as they come.
#[derive(Debug)]
pub struct KeptRuns {
    dir: PathBuf,
    /// The folders that were made for it, the innermost first.
    made: Vec<PathBuf>,
    file: Mutex<File>,
    empty: Mutex<bool>,
    failed: Mutex<Option<io::Error>>,
}

impl KeptRuns {
    /// Begins a file in the folder, which is made if need be: it can be written to, or this fails.
    ///
    /// # Errors
    /// Where an unfinished run lies there and `force` was not said, or the folder can't be written to.
    pub fn begin(dir: &Path, head: &KeptHead, force: bool) -> Result<KeptRuns, KeptError> {
        let path = dir.join(KEPT_FILE);
        if let (false, Ok((_, runs, _))) = (force, read(&path))
            && !runs.is_empty()
        {
            return Err(KeptError::Unfinished { dir: dir.to_owned(), done: runs.len() });
        }
        let made = missing(dir);
        std::fs::create_dir_all(dir).map_err(system(dir, "the folder can't be made"))?;
        let begun = File::create(&path).and_then(|mut file| {
            let line = serde_json::to_string(head).map_err(io::Error::other)?;
            file.write_all(format!("{line}\n").as_bytes())?;
            Ok(file)
        });
        let file = match begun {
            Ok(file) => file,
            Err(error) => {
                remove(&made);
                return Err(system(&path, "the results could not be written")(error));
            }
        };
        Ok(KeptRuns::on(dir, made, file, true))
    }

    /// Takes up an unfinished run: what is done, and where to go on.
    ///
    /// # Errors
    /// Where there is none, or it is another run.
    pub fn resume(dir: &Path, head: &KeptHead) -> Result<(KeptRuns, Vec<FinishedRun>), KeptError> {
        let path = dir.join(KEPT_FILE);
        let (there, runs, whole) = match read(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(KeptError::Nothing { dir: dir.to_owned() });
            }
            Err(error) => return Err(system(&path, "it can't be read")(error)),
        };
        if let Some(why) = there.differs(head) {
            return Err(KeptError::Another { dir: dir.to_owned(), why });
        }
        let opened = OpenOptions::new().append(true).open(&path).and_then(|file| {
            file.set_len(whole)?;
            Ok(file)
        });
        let file = opened.map_err(system(&path, "it can't be written"))?;
        let empty = runs.is_empty();
        Ok((KeptRuns::on(dir, Vec::new(), file, empty), runs))
    }

    fn on(dir: &Path, made: Vec<PathBuf>, file: File, empty: bool) -> KeptRuns {
        let (file, empty) = (Mutex::new(file), Mutex::new(empty));
        KeptRuns { dir: dir.to_owned(), made, file, empty, failed: Mutex::default() }
    }

    /// Why a run could not be kept, where one could not.
    pub fn failure(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map(|error| format!("{}: {error}", self.dir.join(KEPT_FILE).display()))
    }

    /// The results are written: the runs need not be kept any more.
    pub fn discard(self) {
        *self.empty.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Drop for KeptRuns {
    /// Of a run of which nothing is kept nothing is left.
    fn drop(&mut self) {
        if *self.empty.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = std::fs::remove_file(self.dir.join(KEPT_FILE));
            remove(&self.made);
        }
    }
}

/// The folders that would have to be made, the innermost first.
pub(crate) fn missing(dir: &Path) -> Vec<PathBuf> {
    let folders = dir.ancestors();
    let missing = folders.take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    missing.map(Path::to_owned).collect()
}

/// Removes folders that were made; one in which something lies stays, and with it those around it.
pub(crate) fn remove(made: &[PathBuf]) {
    for folder in made {
        let _ = std::fs::remove_dir(folder);
    }
}

/// Hears of each run that is done.
pub trait Keeper: Sync {
    /// Called by the workers, one at a time.
    fn keep(&self, run: &FinishedRun);
}

/// Keeps nothing.
pub struct NoKeeper;

impl Keeper for NoKeeper {
    fn keep(&self, _: &FinishedRun) {}
}

impl Keeper for KeptRuns {
    fn keep(&self, run: &FinishedRun) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_some() {
            // A line after one that is cut short would be believed to be a part of it.
            return;
        }
        let line = serde_json::to_string(&Line::of(run)).map_err(io::Error::other);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = line.and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        match written {
            Ok(()) => *self.empty.lock().unwrap_or_else(PoisonError::into_inner) = false,
            Err(error) => *failed = Some(error),
        }
    }
}

fn system(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> KeptError {
    let path = path.to_owned();
    move |source| KeptError::System { path, doing, source }
}

/// The head, the runs, and how many bytes of the file are whole lines.
fn read(path: &Path) -> io::Result<(KeptHead, Vec<FinishedRun>, u64)> {
    if std::fs::metadata(path)?.len() > BYTES_MAX {
        return Err(io::Error::other("it is too large to be a file of kept runs"));
    }
    let bytes = std::fs::read(path)?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let head: KeptHead = serde_json::from_slice(first)
        .map_err(|error| io::Error::other(format!("this is no file of kept runs: {error}")))?;
    let mut whole = first.len() as u64;
    let mut runs = Vec::new();
    for line in lines.filter(|line| line.ends_with(b"\n")) {
        let Some(run) = serde_json::from_slice::<Line>(line).ok().and_then(Line::run) else {
            break;
        };
        whole += line.len() as u64;
        runs.push(run);
    }
    Ok((head, runs, whole))
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    cell: String,
    repeat: u32,
    metrics: BTreeMap<String, String>,
    latency: Vec<(u64, u64)>,
    disk_utilisation: BTreeMap<String, String>,
    progress: Vec<[String; 3]>,
    rounds: Vec<(String, String, bool)>,
    warnings: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed: Vec<String>,
    pitfalls: Vec<FoundPitfall>,
}

/// The shortest decimal that reads back as the same number.
fn decimal(value: f64) -> String {
    format!("{value:?}")
}

fn decimals(values: &BTreeMap<String, f64>) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| (name.clone(), decimal(*value))).collect()
}

fn numbers(values: BTreeMap<String, String>) -> Option<BTreeMap<String, f64>> {
    values.into_iter().map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

impl Line {
    fn of(run: &FinishedRun) -> Line {
        let gave = &run.gave;
        let progress = gave.progress.iter();
        let progress =
            progress.map(|point| [point.time_s, point.done, point.rate_mb_s].map(decimal));
        let rounds = gave.rounds.iter();
        let rounds =
            rounds.map(|round| (decimal(round.time_s), decimal(round.iops), round.counted));
        Line {
            cell: run.cell.clone(),
            repeat: run.repeat,
            metrics: decimals(&gave.metrics),
            latency: gave.latency.iter().map(|(nanos, count)| (*nanos, *count)).collect(),
            disk_utilisation: decimals(&gave.disk_utilisation),
            progress: progress.collect(),
            rounds: rounds.collect(),
            warnings: gave.warnings.clone(),
            failed: gave.failed.clone(),
            pitfalls: gave.pitfalls.clone(),
        }
    }

    fn run(self) -> Option<FinishedRun> {
        let progress = self.progress.iter().map(|[time, done, rate]| {
            Some(ProgressPoint {
                time_s: time.parse().ok()?,
                done: done.parse().ok()?,
                rate_mb_s: rate.parse().ok()?,
            })
        });
        let rounds = self.rounds.iter().map(|(time, iops, counted)| {
            let (time_s, iops) = (time.parse().ok()?, iops.parse().ok()?);
            Some(RoundPoint { time_s, iops, counted: *counted })
        });
        let gave = Repeat {
            progress: progress.collect::<Option<_>>()?,
            rounds: rounds.collect::<Option<_>>()?,
            metrics: numbers(self.metrics)?,
            latency: self.latency.into_iter().collect(),
            disk_utilisation: numbers(self.disk_utilisation)?,
            warnings: self.warnings,
            failed: self.failed,
            pitfalls: self.pitfalls,
        };
        Some(FinishedRun { cell: self.cell, repeat: self.repeat, gave })
    }
}
