//! The ground that engines stand on.
//!
//! An engine (a RAID set, a pool) is written once and runs in two worlds: on real disks in real time,
//! and on simulated disks in virtual time. It never asks which. Everything that differs between the
//! worlds reaches it through this crate:
//!
//! * [`executor`]: cooperative tasks on one thread, run in FIFO order. [`Rt`] is the engine's handle:
//!   time, sleeping, spawning, `compute`.
//! * [`reactor`]: the trait behind which the worlds differ. It tells the time, waits, and says what
//!   becomes of work that burns processor time. `host` implements it with `io_uring` or threads, `sim`
//!   with a clock that jumps.
//! * [`work`]: [`Work`] that burns processor time, what it costs, and on which core it is done.
//! * [`device`]: [`Device`], whatever stores blocks, and the requests it takes.
//! * [`file_tree`]: [`FileTree`], whatever stores files, and [`File`], one that is open.
//! * [`file_volume`]: [`FileVolume`], a file of a tree as a device.
//! * [`inodes`]: [`Inodes`], a file system by node, as a kernel asks that has mounted it; [`inode_tree`]: [`InodeTree`],
//!   the same as a [`FileTree`].
//! * [`buf`] and [`sg`]: page-aligned, reference-counted memory ([`Buf`]) and lists of it
//!   ([`SgList`]), sliced and joined without copying.
//! * [`stream`]: [`Stream`], a connection with a peer, and [`Listener`], where such come from; [`mod@pipe`]:
//!   two of them joined in memory, for tests.
//! * [`sync`]: channels, locks and semaphores between tasks.
//! * [`memory`] and [`memory_tree`]: a device and a file system in memory, for tests.
//! * [`guarded`]: a panic that ends one task and not the program.
//! * [`filter`]: devices over devices: slice, linear, stats, trace, fault, delay, power cut.
//!
//! Invariant: with a simulated reactor, one seed gives one run, event for event. Hence nothing here
//! reads a wall clock or OS randomness, walks a map of random order, or starts a thread.

#![forbid(unsafe_code)]

pub mod buf;
pub mod device;
pub mod executor;
mod extents;
pub mod file_tree;
pub mod file_volume;
pub mod filter;
pub mod guarded;
pub mod inode_tree;
pub mod inodes;
pub mod memory;
pub mod memory_tree;
pub mod pipe;
pub mod reactor;
pub mod sg;
pub mod stream;
pub mod sync;
mod timers;
#[cfg(test)]
mod virtual_time;
pub mod work;

pub use buf::{Buf, BufMut, NoMemory, PAGE};
pub use device::{
    Device, DeviceRef, Extent, ExtentKind, ExtentsFuture, Geometry, IoCompletion, IoError,
    IoErrorKind, IoFuture, IoResult, Op, OpKind, Priority, Request,
};
pub use executor::{Rt, Runtime, Stalled, Task};
pub use extents::{Extents, Stretch};
pub use file_tree::{
    DirectoryEntry, File, FileKind, FileRef, FileStatus, FileTree, OpenHow, Space, TreeError,
    TreeErrorKind, TreeFuture, TreeOp, TreeRef,
};
pub use file_volume::FileVolume;
pub use guarded::{Panicked, catching_panics};
pub use inode_tree::InodeTree;
pub use inodes::{
    Attributes, Cookie, InodeError, InodeFuture, InodeKind, Inodes, InodesRef, ListEntry, Node,
    Timestamp, Usage, WallClock,
};
pub use memory::MemoryDevice;
pub use memory_tree::MemoryTree;
pub use pipe::pipe;
pub use reactor::{ComputePlan, Parked, Reactor};
pub use sg::SgList;
pub use stream::{HungUp, Listener, Stream, StreamError, StreamFuture, StreamRef};
pub use work::{CipherKind, CompressKind, SumKind, Work, WorkKind};
