//! Disk groups in the manner of Oracle ASM: a layout to compare with.
//!
//! A [`DiskGroup`] cuts raw disks into *allocation units* (AUs), puts the extents of one volume on them,
//! spread over all disks, with one, two or three copies in different *failure groups*, and caches
//! nothing. When disks come or go it moves extents, as few as it can, while the volume is in use.
//!
//! * [`spec`]: what a group is to be, and what can be wrong with that.
//! * [`striping`]: which extent a byte of the volume lies in: coarse and fine.
//! * [`pattern`]: where extents lie when the group is made: a pure function.
//! * `map`: where they lie now: the pattern, and what was moved since.
//! * [`plan`]: which extents a rebalance moves: a pure function.
//! * `metadata`: what is on the disks: headers and allocation tables. Here stands the crash argument.
//! * `locks`: host I/O on an extent, or its move, not both.
//! * [`group`]: the running group: I/O, failing disks.
//! * `rebalance`: moving, adding and dropping.
//! * `open`: making a group, and finding it again.
//!
//! What it takes from Oracle's documentation (Automatic Storage Management Administrator's Guide, 11.2
//! and 12.1) are the behaviours: AU sizes, coarse and fine striping, redundancy with failure groups,
//! reads from the primary copy, rebalancing in proportion, a power limit of 1024. **The format on disk is
//! our own**, there is one volume to a group, extents are all one AU long (Oracle's grow in large
//! files), and there is no instance, no catalogue and no resilvering of a disk that was away. It is for
//! measuring; data belongs elsewhere.
//!
//! Invariant: what the volume gives back is what was written, as long as each extent has a copy on a
//! disk that works.

#![forbid(unsafe_code)]

mod disk_state;
pub mod group;
mod locks;
mod map;
mod metadata;
mod open;
pub mod pattern;
pub mod plan;
mod rebalance;
pub mod spec;
pub mod striping;

pub use disk_state::{DiskState, Progress};
pub use group::{DiskGroup, DiskReport};
pub use open::{Missing, OpenError};
pub use plan::Move;
pub use rebalance::{POWER_MAX, RebalanceError};
pub use spec::{GroupDisk, GroupSpec, Redundancy, SpecError, Striping};
