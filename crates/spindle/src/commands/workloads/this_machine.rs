//! What the tools want to know of the machine they run on: its memory, its name, its kernel.
//!
//! They choose and check sizes by the memory (a file that fits into it measures the cache), and print
//! the names in their tables.

use crate::commands::Failure;
use std::fs;
use stdx::ByteCount;

/// Where the kernel tells of the memory.
const MEMORY: &str = "/proc/meminfo";

/// The machine's memory, in whole mebibytes.
///
/// # Errors
/// Where the kernel does not say.
pub fn memory() -> Result<ByteCount, Failure> {
    let fail = |why: &str| {
        Failure::failed(format!(
            "reading the memory's size from {MEMORY}: {why}; give it with -r, or the sizes"
        ))
    };
    let text = fs::read_to_string(MEMORY).map_err(|error| fail(&error.to_string()))?;
    let kib = total_kib(&text).ok_or_else(|| fail("there is no MemTotal"))?;
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
