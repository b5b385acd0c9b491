//! What the tools want to know of the machine they run on: its memory, its name, its kernel.
//!
//! They choose and check sizes by the memory (a file that fits into it measures the cache), and print
//! the names in their tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use stdx::ByteCount;

/// Where the kernel tells of the memory.
const MEMORY: &str = "/proc/meminfo";

/// Why the memory's size is not known.
#[derive(Debug, thiserror::Error)]
#[error("reading the memory's size from {MEMORY}: {0}; give it with -r, or the sizes")]
pub struct MemoryError(String);

/// The machine's memory, in whole mebibytes.
///
/// # Errors
/// Where the kernel does not say.
pub fn memory() -> Result<ByteCount, MemoryError> {
    let text = fs::read_to_string(MEMORY).map_err(|error| MemoryError(error.to_string()))?;
    let kib = total_kib(&text).ok_or_else(|| MemoryError("there is no MemTotal".to_owned()))?;
    Ok(ByteCount::mib(kib / 1024))
}

fn total_kib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The machine's name.
pub fn name() -> String {
    first_line("/proc/sys/kernel/hostname").unwrap_or_else(|| "localhost".to_owned())
}

/// The kernel's release, as `uname -r` prints it.
pub fn kernel_release() -> String {
    first_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned())
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().filter(|line| !line.is_empty()).map(str::to_owned)
}

/// Whether a directory is there. One that isn't is not made: it would lie on whatever disk its parent is on, and that
/// would be measured.
///
/// # Errors
/// Why not, with the mend.
pub fn check_directory(directory: &Path) -> Result<(), String> {
    if directory.is_dir() {
        return Ok(());
    }
    let why = match fs::metadata(directory) {
        Ok(_) => "it is no directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!(
        "directory '{}': {why}; name one that is there, on the file system that is to be measured",
        directory.display()
    ))
}

/// The line of [`host_lines`] about a program that is slower than it could be.
pub const PROGRAM: &str = "program";

/// What is measured below a directory of this host, a line a part.
pub fn host_lines(directory: &Path) -> BTreeMap<String, String> {
    let place = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let what = if place.is_dir() { "directory" } else { "place" };
    let mut lines = BTreeMap::from([
        ("host".to_owned(), host_line()),
        (what.to_owned(), place.display().to_string()),
    ]);
    if let Ok(memory) = memory() {
        lines.insert("memory".to_owned(), memory.to_string());
    }
    let model: Vec<String> = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| first_line(&format!("/sys/class/dmi/id/{file}")))
        .collect();
    if !model.is_empty() {
        lines.insert("model".to_owned(), model.join(" "));
    }
    if let Some(load) = load() {
        lines.insert("load before".to_owned(), format!("{load} (mean of a minute, by the kernel)"));
    }
    if cfg!(debug_assertions) {
        lines.insert(
            PROGRAM.to_owned(),
            "built without --release: it takes processor time".to_owned(),
        );
    }
    lines
}

/// How many threads wanted a processor or a disk, on average of the last minute.
fn load() -> Option<String> {
    let text = first_line("/proc/loadavg")?;
    text.split_whitespace().next().map(str::to_owned)
}

/// The processor and the kernel, as Linux names them.
fn host_line() -> String {
    let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?.to_owned();
        Some(line.split(':').nth(1)?.trim().to_owned())
    });
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{} × {}, Linux {}",
        processors,
        model.as_deref().unwrap_or("an unnamed processor"),
        kernel.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_the_total_and_nonsense_is_none() {
        assert_eq!(total_kib("MemFree: 1 kB\nMemTotal:       24117416 kB\n"), Some(24_117_416));
        for text in ["", "MemTotal: x kB", "MemTotal: 5 MB"] {
            assert_eq!(total_kib(text), None, "{text}");
        }
    }
}
