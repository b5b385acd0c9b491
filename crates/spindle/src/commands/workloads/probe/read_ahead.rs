//! The system's read-ahead for the device on which a file lies.
//!
//! Linux keeps it for each device (`read_ahead_kb` of its backing device in sysfs), and a file takes it
//! over when it is opened. Setting it needs root. It is put back when the probe is over, also when it
//! failed; a program that is killed leaves what it had set.

use crate::output::{Failure, say};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use stdx::ByteCount;

/// A read-ahead to be set.
pub(super) struct ReadAhead {
    size: Option<(ByteCount, PathBuf)>,
}

/// Puts back what was there when it is dropped.
pub(super) struct Set {
    before: Option<(String, PathBuf)>,
}

impl ReadAhead {
    /// The one that is set.
    pub(super) fn unchanged() -> ReadAhead {
        ReadAhead { size: None }
    }

    /// This one, for the device on which `path` lies, or which it is.
    pub(super) fn of(path: &Path, size: ByteCount) -> Result<ReadAhead, Failure> {
        if !size.is_multiple_of(ByteCount::kib(1)) {
            return Err(Failure::usage(format!("--read-ahead {size}: write a multiple of 1k")));
        }
        // The file that is written need not be there yet.
        let there = if path.exists() { path } else { path.parent().unwrap_or(path) };
        let found = fs::metadata(there).map_err(|error| {
            Failure::usage(format!("{}: {error}; name one that is there", there.display()))
        })?;
        let number = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
        let (major, minor) = (major(number), minor(number));
        let places = [
            format!("/sys/dev/block/{major}:{minor}/bdi/read_ahead_kb"),
            // Of a partition, that of its disk.
            format!("/sys/dev/block/{major}:{minor}/../bdi/read_ahead_kb"),
            format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"),
        ];
        let place = places.into_iter().map(PathBuf::from).find(|place| place.exists());
        let place = place.ok_or_else(|| {
            Failure::usage(format!(
                "--read-ahead: the device of {} ({major}:{minor}) has no read-ahead of its own; leave it out",
                path.display()
            ))
        })?;
        Ok(ReadAhead { size: Some((size, place)) })
    }

    /// Sets it until what is given back is dropped.
    pub(super) fn set(&self) -> Result<Set, Failure> {
        let Some((size, place)) = &self.size else {
            return Ok(Set { before: None });
        };
        let failed = |error: std::io::Error| {
            let mend = match error.kind() {
                std::io::ErrorKind::PermissionDenied => host::mend_of_denied(),
                _ => "",
            };
            Failure::failed(format!(
                "setting the read-ahead ({}): {error}{mend}; or leave --read-ahead out",
                place.display()
            ))
        };
        let before = fs::read_to_string(place).map_err(failed)?;
        fs::write(place, (size.bytes() >> 10).to_string()).map_err(failed)?;
        Ok(Set { before: Some((before.trim().to_owned(), place.clone())) })
    }

    /// For the line above the figures.
    pub(super) fn label(&self) -> String {
        self.size.as_ref().map_or_else(String::new, |(size, _)| format!(" (read-ahead {size})"))
    }

    /// For the names of metrics.
    pub(super) fn prefix(&self) -> String {
        let kib = |(size, _): &(ByteCount, PathBuf)| format!("ra{}k_", size.bytes() >> 10);
        self.size.as_ref().map_or_else(String::new, kib)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        if let Some((before, place)) = &self.before
            && let Err(error) = fs::write(place, before)
        {
            say(&format!(
                "putting back the read-ahead {before} KiB ({}): {error}",
                place.display()
            ));
        }
    }
}

/// The parts of Linux's device numbers.
fn major(number: u64) -> u64 {
    (number >> 8 & 0xfff) | (number >> 32 & !0xfff)
}

fn minor(number: u64) -> u64 {
    (number & 0xff) | (number >> 12 & 0xffff_ff00)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_linuxs() {
        // 254:0 and 259:300, as glibc's makedev makes them.
        assert_eq!((major(0xfe00), minor(0xfe00)), (254, 0));
        let number = (259 << 8) | (300 & 0xff) | ((300_u64 & !0xff) << 12);
        assert_eq!((major(number), minor(number)), (259, 300));
    }
}
