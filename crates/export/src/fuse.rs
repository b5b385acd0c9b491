//! A server of FUSE: a file system that is read by node ([`rt::Inodes`]), mounted.
//!
//! ```text
//!   kernel ──requests──► Inbox ──► requests, up to REQUESTS_MAX under way ──► Inodes
//!      ▲                                                                        │
//!      └──────────────────────── a reply, in one write ◄────────────────────────┘
//! ```
//!
//! **Why our own.** The protocol is spoken over an [`rt::Stream`], on the engine's executor, so a request goes
//! from the kernel to the block cache and back without a hop between threads, and data is the cache's memory, not
//! copied. The crate `fuser` has a synchronous trait and threads of its own: each request would cross to
//! the engine's thread and back. What it would save is the encoding here, some two hundred lines.
//!
//! **Reading only.** What would change something is answered with `EROFS`; the mount is read-only besides, so the kernel
//! rarely asks. Nothing changes while it is served (rule 3 of [`rt::inodes`]), so the kernel is told to keep what it
//! knows, names that are not there as well, for [`VALID`], and pages of files as long as it likes. Opening a file
//! costs no request.
//!
//! **Permissions** are the kernel's business: it has owners, modes and POSIX lists of access, and checks them.
//!
//! **Limits.** [`REQUESTS_MAX`] under way, [`READ_BYTES_MAX`] for each answer, [`REQUEST_BYTES_MAX`] for each request.
//! Where a limit is reached the server reads no further, and the kernel waits. A program that is interrupted while it
//! waits goes on waiting until its request is answered.
//!
//! **A request that makes no sense** is answered with `EINVAL`, one of an unknown kind with `ENOSYS`; where not even
//! its length can be, serving ends. What goes wrong below becomes an error number: see `errno` in `protocol`.
//!
//! What it doesn't do: writing, locks (the kernel has them, on this machine), `ioctl`, polls, FUSE over io_uring,
//! `statx`'s time of birth.
//!
//! **Source**: Linux, `include/uapi/linux/fuse.h`, protocol 7.31 to 7.45, and `fs/fuse`.

mod inbox;
mod protocol;
mod server;
#[cfg(test)]
mod tests;

pub use server::{FuseError, Server};

use std::time::Duration;

/// Requests under way at a time. More serves more programs at once; each may hold [`READ_BYTES_MAX`] of memory that
/// is not the cache's.
pub const REQUESTS_MAX: usize = 64;

/// Bytes of an answer at the most: 256 pages, what the kernel asks for at the most.
pub const READ_BYTES_MAX: u32 = 1 << 20;

/// Bytes of a request at the most. Those of reading are names and numbers; the kernel wants room for 8 KiB.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// How long the kernel may believe an answer. What is served doesn't change, so more than a day would do as well.
pub const VALID: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries of a directory that are asked for at a time.
pub const ENTRIES_MAX: usize = 1024;
