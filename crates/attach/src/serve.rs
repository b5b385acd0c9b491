//! Devices served over NBD until somebody wishes that it ends.
//!
//! * [`mod@until`]: exports that are open, on addresses, until it is told to end.
//! * [`exports`]: what is to be served, opened: files, block devices, RAID sets, partitions, logical and ZFS volumes.
//! * [`mounts`]: datasets that are to be mounted beside them.
//! * `held`: the pools of them that are written.
//! * [`apart`]: RAID sets on executors of their own.
//! * [`plan`]: all of that together; `uri`: where clients find an export.
//!
//! **RAID sets** below volumes that are written are opened for writing, each once for all exports on it,
//! resynchronised and rebuilt beside the serving where they need that, and stopped cleanly at the end. All else is
//! opened for reading.
//!
//! **Who is kept off.** What is written has the writer's lock. What is only read has the readers' lock, which many may
//! have and which keeps writers off: a client would never hear of what they change.

pub mod apart;
pub mod exports;
mod held;
pub mod mounts;
pub mod plan;
pub mod until;
mod uri;

pub use exports::ExportSettings;
pub use mounts::MountSettings;
pub use plan::{Plan, run};
pub use until::{Clients, Commands, memory, until};
