//! What the system keeps of files and block devices that others may write to: devices that several hosts share.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::path::Path;

/// Has the system forget what it keeps of a file or block device, but for what is being written: what is read next comes from the
/// device. Whoever watches for another host's writes would see its own past else. What can't be opened is passed over.
pub fn forget_cached(path: &Path) {
    if let Ok(file) = File::open(path) {
        // A system that doesn't take the advice keeps nothing of such files, or says so when they are read.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}
