//! Files that a person wrote: job files, workloads, access specifications.

use crate::this_machine::{self, MemoryError};
use filebench::library;
use fio::{self, CommandLine, Machine, Plan, Sources};
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes in a page, for `$pagesize`.
const PAGE_BYTES: u64 = rt::PAGE as u64;

/// Why such a file can't be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum InputError {
    #[error("{name}: {error}")]
    Read { name: String, error: std::io::Error },
    #[error(
        "there is no workload file {0}, and no personality of this name; `spindle lab filebench --list` shows them"
    )]
    NoWorkload(String),
    #[error("{0}")]
    Language(String),
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Bytes of an input that a person wrote (a job file, a configuration) at the most; what is larger was
/// named by mistake.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// What standard input held: it can be read only once.
static STANDARD_INPUT: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Whether a name is one of standard input.
pub fn is_standard_input(path: &Path) -> bool {
    ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name))
}

/// Reads a file that a person wrote, or standard input (`-`), as often as it is asked for.
///
/// # Errors
/// The system's, and where it is larger than such a file can be.
pub fn read_input(path: &Path) -> std::io::Result<Vec<u8>> {
    if !is_standard_input(path) {
        return read_whole(std::fs::File::open(path)?);
    }
    // Nobody leaves it half read.
    let mut held = STANDARD_INPUT.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = match held.take() {
        Some(bytes) => bytes,
        None => read_whole(std::io::stdin().lock())?,
    };
    Ok(held.insert(bytes).clone())
}

fn read_whole(file: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > INPUT_BYTES_MAX {
        true => Err(std::io::Error::other("it has more than 16 MiB: no such file is that large")),
        false => Ok(bytes),
    }
}

/// The text of a job file, for the report.
///
/// # Errors
/// Where it can't be read.
pub fn job_text(file: &Path) -> Result<String, InputError> {
    let bytes = read_input(file)
        .map_err(|error| InputError::Read { name: file.display().to_string(), error })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file that is there, or a personality: its name and text.
///
/// # Errors
/// Where there is neither.
pub fn filebench_text(name: &str) -> Result<(String, String), InputError> {
    let path = Path::new(name);
    if !path.exists() {
        return match library::find(name) {
            Some(personality) => {
                Ok((format!("{}.f", personality.name), personality.text.to_owned()))
            }
            None => Err(InputError::NoWorkload(name.to_owned())),
        };
    }
    let bytes = read_input(path).map_err(|error| InputError::Read { name: name.into(), error })?;
    Ok((name.to_owned(), String::from_utf8_lossy(&bytes).into_owned()))
}

/// Files and the environment, for the job file.
struct Host;

impl Sources for Host {
    fn text(&self, path: &Path) -> Result<String, String> {
        let bytes = read_input(path).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| {
            let whole = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + whole.iter().filter(|byte| **byte == b'\n').count();
            format!("line {line} is not UTF-8")
        })
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// A job file's plan: of these sections, of all where none is named.
///
/// # Errors
/// It can't be read, or says what fio would refuse.
pub fn fio_plan(file: &Path, sections: &[String]) -> Result<Plan, InputError> {
    let read = fio::read(file, &Host, &machine()?, sections);
    read.map_err(|error| InputError::Language(error.to_string()))
}

/// The plan of what fio's command line says: of the jobs of these names, of all where none is named.
///
/// # Errors
/// A job file can't be read, or something is said that fio would refuse.
pub fn fio_line_plan(line: &CommandLine, sections: &[String]) -> Result<Plan, InputError> {
    let read = fio::read_line(line, &Host, &machine()?, sections);
    read.map_err(|error| InputError::Language(error.to_string()))
}

fn machine() -> Result<Machine, InputError> {
    Ok(Machine {
        page_bytes: PAGE_BYTES,
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
        memory_mib: this_machine::memory()?.bytes() >> 20,
    })
}
