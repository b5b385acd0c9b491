//! Results on disk: a directory with `results.json` and what is made from it, whole or not at all.
//!
//! Writing, in order:
//!
//! 1. A directory that holds other things than an earlier result is left alone, unless forced.
//! 2. Every file is written in full under a name ending in `.partial` and synced. A full disk shows
//!    itself here, when nothing of an earlier result has been touched.
//! 3. The earlier `results.json` is removed; then every file is renamed to its own name,
//!    `results.json` last.
//!
//! So a directory with a `results.json` holds a whole result, whenever the power went. What fails
//! takes its partial files with it.

use crate::kept::{KEPT_FILE, missing, remove};
use crate::results::{FORMAT, Results};
use crate::study::{CellSpec, Study};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file that makes a directory a result.
pub const RESULTS_FILE: &str = "results.json";
/// What a file's name ends in until it is whole.
const PARTIAL: &str = ".partial";

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The directory has something else in it.
    #[error("{}: the directory holds other things than an earlier result ({found}); name another with --out, or write into it with --force", dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
        /// Some file in it.
        found: String,
    },
    /// The directory has an earlier result in it.
    #[error("{}: an earlier result lies there; name another directory with --out, or replace it with --force", dir.display())]
    Earlier {
        /// The directory.
        dir: PathBuf,
    },
    /// Another run is going to write there.
    #[error("{}: another run that is under way writes its result there; name another directory with --out", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// The disk is full.
    #[error("{}: the disk is full; free some space or name another place with --out", path.display())]
    Full {
        /// The file that did not fit.
        path: PathBuf,
    },
    /// Anything else that the system refused.
    #[error("{}: {doing}: {source}; {mend}", path.display())]
    System {
        /// The file or directory.
        path: PathBuf,
        /// What was being done: `cannot be written`.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
        /// What to do about it.
        mend: &'static str,
    },
    /// The file is no `results.json`.
    #[error("{}: this is no results.json of Spindle: {why}; name a directory that `spindle lab run`, or a tool's --out, wrote", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        why: String,
    },
    /// The file is of a later version.
    #[error("{}: its format is {format} and this Spindle reads up to {FORMAT}; use the version that wrote it, {version}", path.display())]
    Later {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u64,
        /// The Spindle that wrote it.
        version: String,
    },
}

fn system(
    path: &Path,
    doing: &'static str,
    mend: &'static str,
) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_owned();
    move |source| match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => OutputError::Full { path },
        _ => OutputError::System { path, doing, source, mend },
    }
}

/// As [`check_output`], for a directory that shall hold no earlier result either: runs of a tool are
/// repeated by hand, before and after a change, and each is worth keeping.
pub fn check_new(dir: &Path, force: bool) -> Result<(), OutputError> {
    let earlier = || matches!(read_results(dir), Ok(_) | Err(OutputError::Later { .. }));
    if !force && dir.is_dir() && earlier() {
        return Err(OutputError::Earlier { dir: dir.to_owned() });
    }
    check_output(dir, force)
}

/// Whether results may be written to this directory: ask before a run, not after hours of it.
pub fn check_output(dir: &Path, force: bool) -> Result<(), OutputError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            let mend = "name a directory with --out";
            return Err(system(dir, "cannot be read as a directory", mend)(error));
        }
    };
    if force || matches!(read_results(dir), Ok(_) | Err(OutputError::Later { .. })) {
        return Ok(());
    }
    let mut others: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        // Kept runs are asked for elsewhere, and the study's text lies beside results alone.
        .filter(|name| !name.ends_with(PARTIAL) && name != KEPT_FILE)
        .collect();
    others.sort();
    match others.into_iter().next() {
        None => Ok(()),
        Some(found) => Err(OutputError::Occupied { dir: dir.to_owned(), found }),
    }
}

/// What of an earlier result a run of these cells of the study would not give again; none where it is the same run
/// once more, or a longer one.
pub fn lost(earlier: &Results, study: &Study, cells: &[CellSpec]) -> Option<String> {
    if study.quick && !earlier.quick {
        return Some("--quick: that one is no first look".to_owned());
    }
    let missing =
        earlier.cells.iter().filter(|cell| !cells.iter().any(|spec| spec.id == cell.id)).count();
    if missing > 0 {
        let (all, here) = (earlier.cells.len(), cells.len());
        return Some(format!("{all} cells there, {here} here, without {missing} of those"));
    }
    let repeats = earlier.cells.iter().map(|cell| cell.repeats).max().unwrap_or(0);
    if repeats > study.repeats {
        return Some(format!("repeats: {repeats} there, {} here", study.repeats));
    }
    // How many repeats and which cells was asked above.
    let settings = |notes: &[String]| {
        let set = notes
            .iter()
            .filter(|note| note.starts_with("--set ") && !note.starts_with("--set repeats="));
        set.cloned().collect::<Vec<_>>()
    };
    let (there, here) = (settings(&earlier.notes), settings(&study.notes));
    if there != here {
        let told = |settings: &[String]| match settings {
            [] => "none".to_owned(),
            some => some.join(", "),
        };
        return Some(format!("options: {} there, {} here", told(&there), told(&here)));
    }
    if earlier.seed != study.seed {
        return Some(format!("seed: {} there, {} here", earlier.seed, study.seed));
    }
    // Spindle before 0.2 did not write it.
    let changed = !earlier.run.text.is_empty() && earlier.run.text != study.text;
    changed.then(|| "the study's text was changed since".to_owned())
}

/// Whether the directory can be made and written to. It is left as it was.
pub fn check_writable(dir: &Path) -> Result<(), OutputError> {
    let made = missing(dir);
    let probe = partial(dir, RESULTS_FILE);
    let outcome = fs::create_dir_all(dir)
        .map_err(system(dir, "cannot be made", "name another place with --out"))
        .and_then(|()| {
            let mend = "see to its permissions or name another place with --out";
            File::create(&probe).map_err(system(dir, "cannot be written to", mend))
        });
    if outcome.is_ok() {
        let _ = fs::remove_file(&probe);
    }
    remove(&made);
    outcome.map(|_| ())
}

/// A directory that is kept for the result of one run, until this is dropped.
#[derive(Debug)]
pub struct Held {
    made: Vec<PathBuf>,
    _locked: Option<File>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Only what is empty goes.
        remove(&self.made);
    }
}

/// Makes the directory and keeps it for one run, so that no other's result comes to lie there meanwhile. File systems
/// without locks let all in.
///
/// # Errors
/// Another run has it, or it can't be made.
pub fn hold(dir: &Path) -> Result<Held, OutputError> {
    let made = missing(dir);
    let mut held = Held { made, _locked: None };
    fs::create_dir_all(dir).map_err(system(
        dir,
        "cannot be made",
        "name another place with --out",
    ))?;
    let Ok(locked) = File::open(dir) else { return Ok(held) };
    if let Err(fs::TryLockError::WouldBlock) = locked.try_lock() {
        return Err(OutputError::Busy { dir: dir.to_owned() });
    }
    held._locked = Some(locked);
    Ok(held)
}

/// Writes `results.json` and the other files (name and content) into the directory, which is made if
/// need be.
pub fn write_results(
    dir: &Path,
    results: &Results,
    others: &[(&str, &[u8])],
    force: bool,
) -> Result<(), OutputError> {
    check_output(dir, force)?;
    let is_new = !dir.exists();
    let make = "cannot be made";
    fs::create_dir_all(dir).map_err(system(dir, make, "name another place with --out"))?;
    let json = to_json(results);
    let files: Vec<(&str, &[u8])> =
        others.iter().copied().chain([(RESULTS_FILE, json.as_bytes())]).collect();
    let outcome = replace(dir, &files);
    if outcome.is_err() {
        // What can't be removed is named `.partial` and taken for nothing else.
        for (name, _) in &files {
            let _ = fs::remove_file(partial(dir, name));
        }
        if is_new {
            let _ = fs::remove_dir(dir);
        }
    }
    outcome
}

fn partial(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{PARTIAL}"))
}

fn replace(dir: &Path, files: &[(&str, &[u8])]) -> Result<(), OutputError> {
    let mend = "see to its permissions or name another place with --out";
    for (name, content) in files {
        let path = partial(dir, name);
        let write = || {
            let mut file = File::create(&path)?;
            file.write_all(content)?;
            file.sync_all()
        };
        write().map_err(system(&dir.join(name), "cannot be written", mend))?;
    }
    let earlier = dir.join(RESULTS_FILE);
    match fs::remove_file(&earlier) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(system(&earlier, "cannot be replaced", mend)(error));
        }
        _ => {}
    }
    for (name, _) in files {
        let path = dir.join(name);
        fs::rename(partial(dir, name), &path).map_err(system(&path, "cannot be written", mend))?;
    }
    // The renames themselves; not every file system can sync a directory, and none of them is wrong
    // without it, only later.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
    Ok(())
}

/// `results.json` as text: indented, with a line end.
pub fn to_json(results: &Results) -> String {
    let mut text = serde_json::to_string_pretty(results)
        .expect("results are texts, finite numbers and maps with text keys");
    text.push('\n');
    text
}

/// Reads a result: a directory that holds `results.json`, or the file itself.
pub fn read_results(path: &Path) -> Result<Results, OutputError> {
    let file = if path.is_dir() { path.join(RESULTS_FILE) } else { path.to_owned() };
    let text = fs::read_to_string(&file).map_err(system(
        &file,
        "cannot be read",
        "name a directory that `spindle lab run`, or a tool's --out, wrote",
    ))?;
    let malformed = |error: serde_json::Error| OutputError::Malformed {
        path: file.clone(),
        why: error.to_string(),
    };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    if let Some(format) = format.filter(|format| *format > u64::from(FORMAT)) {
        let version = value.get("spindle_version").and_then(serde_json::Value::as_str);
        let version = version.unwrap_or("whichever that is").to_owned();
        return Err(OutputError::Later { path: file, format, version });
    }
    let results: Results = serde_json::from_value(value).map_err(malformed)?;
    check_figures(&results).map_err(|why| OutputError::Malformed { path: file.clone(), why })?;
    Ok(results)
}

/// Figures larger than this are no measurement: the square of their sum must stay a number.
const FIGURE_MAX: f64 = 1e100;

/// Whether the figures can be counted with. Someone may have edited the file.
fn check_figures(results: &Results) -> Result<(), String> {
    if !(0.5..=0.999).contains(&results.confidence) {
        return Err(format!("confidence is {}", results.confidence));
    }
    for cell in &results.cells {
        for (name, metric) in &cell.metrics {
            let ends = [metric.mean, metric.ci_low, metric.ci_high];
            let wrong = ends.iter().chain(&metric.samples).find(|value| value.abs() > FIGURE_MAX);
            if let Some(wrong) = wrong {
                return Err(format!("{name} of cell {} is {wrong:e}", cell.id));
            }
        }
    }
    Ok(())
}
