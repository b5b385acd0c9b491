//! Where the kernel tells of the host.

use std::path::{Path, PathBuf};

/// Where the kernel tells: `/proc` and `/sys`, or what a test puts in their place.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
}

impl Kernel {
    /// The running one.
    pub fn this() -> Kernel {
        Kernel { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys") }
    }
}

/// What a file of one number holds.
pub(super) fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
