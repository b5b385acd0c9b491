//! A server of FUSE: a file system by node ([`rt::Inodes`]), mounted.
//!
//! ```text
//!   kernel ──requests──► Inbox ──► requests, up to REQUESTS_MAX under way ──► Inodes
//!      ▲                                                                        │
//!      ├──────────────────────── a reply, in one write ◄────────────────────────┤
//!      └──────────────── a notice, by a stream of its own ◄── what others change ┘
//! ```
//!
//! **Why our own.** The protocol is spoken over an [`rt::Stream`], on the engine's executor, so a request goes
//! from the kernel to the block cache and back without a hop between threads, and data is the cache's memory, not
//! copied. The crate `fuser` has a synchronous trait and threads of its own: each request would cross to
//! the engine's thread and back. What it would save is the encoding here, some six hundred lines.
//!
//! **What nothing can change** ([`Changes::Never`](rt::inodes::Changes)): what would is answered with `EROFS`; the mount is
//! read-only besides, so the kernel rarely asks. It is told to keep what it knows, names that are not there as well, for
//! [`VALID`], and pages of files as long as it likes. Opening a file costs no request.
//!
//! **What can be written**: the kernel knows what its own requests change. Of what others change (calls from within the
//! program, another mount) it is told ([`Server::with_notices`]), and so may keep what it knows as long; or it is not
//! ([`Server::new`]), and believes it for [`UNTOLD_VALID`] and drops a file's pages when it is opened or has another time.
//! Opening is asked, since an open file outlives its name.
//!
//! * **No write-back in the kernel** (`WRITEBACK_CACHE`): each write is a request when it is made, up to 1 MiB, and is done when
//!   the program goes on. With it, the kernel would collect small writes; but it would keep times and sizes of its own, say
//!   "no space" only after the write, and hold data that who reads by call doesn't see. Our file systems collect writes
//!   themselves, once.
//! * **Who only writes goes past the kernel's cache** (`FOPEN_DIRECT_IO`, where the kernel takes what is written out of the cache
//!   before: Linux 6.6): what he writes is not copied into pages that nobody may ever read, and the kernel does not ask for
//!   `security.capability` before the first write to each new file. A page may come into the cache while it is written: by who has
//!   the file open otherwise meanwhile. Then the kernel is told of the range *before* the write is answered (`holds`), so that who
//!   reads after a write sees it. Nor does the kernel ask for durability behind a synchronous write: it says so in the write, and
//!   that is durable when it is answered. Handles are 0, but for such an opening.
//! * **Privileges** (`HANDLE_KILLPRIV_V2`): who writes takes the set-user bit away in the same step, and the kernel asks for no
//!   capabilities before each write. **Masks** (`DONT_MASK`): a directory's default list takes the umask's place, so the file
//!   system gets both.
//! * **Emptying is not part of opening** (`ATOMIC_O_TRUNC`): the kernel would not look whether the file is a program that runs, and
//!   a request is saved only where a file is emptied.
//!
//! **Permissions** are the kernel's business: it has owners, modes and POSIX lists of access, and checks them. What follows from
//! a change is the file system's: [`rt::inodes::rules`]. Locks are the kernel's.
//!
//! **Limits.** [`REQUESTS_MAX`] under way, [`READ_BYTES_MAX`] for each answer, [`REQUEST_BYTES_MAX`] for each request, or
//! [`WRITING_REQUEST_BYTES_MAX`]. Where a limit is reached the server reads no further, and the kernel waits. A program that is
//! interrupted while it waits goes on waiting until its request is answered.
//!
//! **A request that makes no sense** is answered with `EINVAL`, one of an unknown kind with `ENOSYS`; where not even
//! its length can be, serving ends. What goes wrong below becomes an error number: [`rt::InodeError::errno`].
//!
//! What it doesn't do: `ioctl`, polls, FUSE over io_uring, `statx`'s time of birth. Data that programs wrote into mapped memory
//! is known here when the kernel writes it out, at `msync`, `munmap` or later; until then `SEEK_HOLE` may call it a hole. The
//! kernel places what programs append itself, where it knows the end to be: an append by call at the same moment may be
//! written over ([`WriteAt::End`](rt::inodes::WriteAt) is for callers).
//!
//! **Source**: Linux, `include/uapi/linux/fuse.h`, protocol 7.31 to 7.45, and `fs/fuse`.

mod answer;
mod change;
mod holds;
mod inbox;
mod limits;
mod notices;
mod protocol;
mod question;
mod server;
#[cfg(test)]
mod tests;

pub use limits::{
    ENTRIES_MAX, READ_BYTES_MAX, REQUEST_BYTES_MAX, REQUESTS_MAX, UNTOLD_VALID, VALID,
    WRITE_BYTES_MAX, WRITING_REQUEST_BYTES_MAX,
};
pub use server::{FuseError, Server};
