//! The limits of a mount.

use std::time::Duration;

/// Requests under way at a time. More serves more programs at once; each may hold [`READ_BYTES_MAX`] of memory that
/// is not the cache's.
pub const REQUESTS_MAX: usize = 64;

/// Bytes of an answer at the most: 256 pages, what the kernel asks for at the most.
pub const READ_BYTES_MAX: u32 = 1 << 20;

/// Bytes of one write at the most, as many as of an answer.
pub const WRITE_BYTES_MAX: u32 = 1 << 20;

/// Bytes of a request at the most, where nothing can be written: names and numbers. The kernel wants room for 8 KiB.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Bytes of a write before its data: the head of all requests, and what is said of a write.
pub(super) const WRITE_HEAD_BYTES: usize = 80;

/// The same, where something can: a write.
pub const WRITING_REQUEST_BYTES_MAX: usize = WRITE_BYTES_MAX as usize + WRITE_HEAD_BYTES;

/// How long the kernel may believe an answer about what may change without its being told. So other servers have it.
pub const UNTOLD_VALID: Duration = Duration::from_secs(1);

/// How long the kernel may believe an answer, where nothing changes or it is told of changes. More would do as well.
pub const VALID: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries of a directory that are asked for at a time.
pub const ENTRIES_MAX: usize = 1024;
