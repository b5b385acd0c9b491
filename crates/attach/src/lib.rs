//! What attaches and runs: devices are found, sets and pools on them opened, served and cared for.
//!
//! ```text
//!   serve      exports, the executors that they run on, until it is told to end
//!   mounts     datasets as directories of this host
//!   pools      ZFS pools on the disks, their datasets, keys
//!   past_damage  devices that are read with zeros for what can't be
//!   survey     all that lies on the devices, told apart
//!   disks      what lies on the devices: sets, partitions, logical volumes
//!   sets       RAID sets: chosen, opened for reading or writing, run while somebody serves them
//!   control    sockets by which commands reach the process that holds something
//!   expendable whether devices may be overwritten
//!   uri        names of what NBD servers export
//!   typed      commands as people type them
//!   random     identities of what is made
//!   mount_directories  those that this process has mounted
//!   ending     the wish that what serves ends
//!   context    an executor on this host, and who is told what happens
//! ```
//!
//! Nothing is printed here and no argument is read. What can't be done is an [`Error`], whose text names the thing and the
//! mend; what happens meanwhile is an [`Event`], told to whoever made the [`Context`]: the command line prints it.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "here the real world is let in: devices, sockets, threads of executors"
)]

pub mod context;
pub mod control;
pub mod disks;
pub mod ending;
pub mod error;
pub mod event;
pub mod expendable;
pub mod mount_directories;
pub mod mounts;
pub mod past_damage;
pub mod paths;
pub mod pools;
pub mod random;
pub mod serve;
pub mod sets;
pub mod survey;
mod told;
pub mod typed;
pub mod uri;

pub use context::Context;
pub use error::Error;
pub use event::{Event, Events};
