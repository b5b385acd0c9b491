//! The real world: this host's disks and files, its processors and its clock, behind the traits of
//! `rt`.
//!
//! * [`runtime`]: [`HostRuntime`], an executor over real hardware, made for one thread; [`Host`], what
//!   files are opened against.
//! * [`uring`] and [`threads`]: the two reactors of engines. The second is taken where io_uring is
//!   refused. [`blocking`]: the reactor of a worker that stands for a plain program.
//! * [`file`](mod@file): [`FileDevice`], a file or block device as a `Device`.
//! * [`tree`]: [`HostTree`], a directory as a `FileTree`.
//! * [`socket`]: [`SocketListener`] and [`SocketStream`], unix sockets and TCP as byte streams.
//! * [`directory`]: a directory to copy into, which nothing leads out of.
//! * [`fuse`]: [`FuseMount`], a file system that this process serves, as a stream of the kernel's requests.
//! * [`cover`](mod@cover): nothing that is written reaches a file or block device.
//! * [`probe`]: what lies on a device already, so that nothing is overwritten by mistake.
//! * [`expendable`]: whether that may be overwritten.
//! * [`identity`]: whether two paths lead to the same storage.
//! * [`room`](mod@room): what a file system has left: bytes, and files.
//! * [`clock`]: monotonic time, the calendar, and processor time.
//!
//! Inside: `alignment` is what direct I/O asks for; `operation` is one request and how far it is, the same for both reactors; `answer` tells
//! the waiting task; `bell` wakes a thread from others; `readiness` waits for
//! sockets where there is no ring; `lock` keeps a second writer off;
//! `patience` waits for what a dead process still holds; `pool` has the worker threads; `processors` binds a thread to one; `sys` the system calls.
//!
//! Invariant: memory and descriptors of an operation under way belong to its reactor, not to the
//! future that waits for it, and are given back only when the system has done with them (the argument
//! stands in [`uring`]).

// host is the real world: clocks, threads and the system's I/O are what it is made of.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod alignment;
mod answer;
mod bell;
pub mod blocking;
pub mod cached;
pub mod clock;
pub mod cover;
pub mod directory;
pub mod expendable;
pub mod file;
pub mod fuse;
mod handle;
pub mod identity;
mod lock;
mod operation;
mod patience;
mod pool;
pub mod probe;
mod processors;
mod readiness;
pub mod reading;
pub mod room;
pub mod runtime;
pub mod socket;
mod standing;
mod start_error;
mod sys;
pub mod threads;
pub mod tree;
pub mod uring;

pub use cached::forget_cached;
pub use clock::{CalendarClock, Clock};
pub use file::{FileDevice, FileOptions, OpenError, mend_of_denied};
pub use fuse::{FuseMount, MountDirectory, MountError, Use};
pub use identity::Identity;
pub use probe::{Content, ProbeError};
pub use room::Room;
pub use runtime::{Host, HostRuntime, ReactorKind};
pub use socket::{Address, AddressError, Connected, ListenError, SocketListener, SocketStream};
pub use standing::{standing_in, using};
pub use start_error::StartError;
pub use tree::HostTree;
