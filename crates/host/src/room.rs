//! What a file system has left: bytes, and files.
//!
//! A file takes at least a block of it, and one of its inodes; many small files run out of either long before their bytes
//! add up to what is free.

use crate::sys;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use stdx::ByteCount;

/// The largest unit that is believed to be a block: a file system over the network says how much it transfers at once, and
/// no local one has larger blocks than pages can be.
const BLOCK_MAX: ByteCount = ByteCount::kib(64);

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub total: ByteCount,
    /// Bytes left for us.
    pub free: ByteCount,
    /// The unit in which the file system counts them.
    pub unit: ByteCount,
    /// Files that it takes beside those that are there, where it counts inodes.
    pub files: Option<u64>,
}

impl Room {
    /// The room on the file system where a file or directory lies. `None` where it does not say.
    pub fn of(path: &Path) -> Option<Room> {
        Room::of_file(File::open(path).ok()?.as_fd())
    }

    /// The same of an open file.
    pub(crate) fn of_file(file: BorrowedFd<'_>) -> Option<Room> {
        let found = sys::statvfs(file).ok()?;
        let bytes = |blocks: u64| ByteCount(blocks.saturating_mul(found.f_frsize));
        // A file system that counts no blocks (ramfs) does not know.
        (found.f_blocks > 0).then(|| Room {
            total: bytes(found.f_blocks),
            free: bytes(found.f_bavail),
            unit: ByteCount(found.f_frsize),
            files: (found.f_files > 0).then_some(found.f_favail),
        })
    }

    /// What a file takes at least, and a multiple of which it takes; one byte where that is not known.
    pub fn block(&self) -> ByteCount {
        match self.unit {
            ByteCount::ZERO => ByteCount(1),
            unit if unit <= BLOCK_MAX => unit,
            _ => ByteCount(1),
        }
    }

    /// Whether it lacks inodes for another file.
    pub(crate) fn takes_no_file(&self) -> bool {
        self.files == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_size_of_a_network_is_no_block() {
        let room =
            |unit| Room { total: ByteCount::gib(1), free: ByteCount::gib(1), unit, files: None };
        assert_eq!(room(ByteCount::kib(4)).block(), ByteCount::kib(4));
        assert_eq!(room(ByteCount::mib(1)).block(), ByteCount(1));
        assert_eq!(room(ByteCount::ZERO).block(), ByteCount(1));
    }
}
