//! What lies on the devices that were named: RAID sets of them, partitions, logical volumes.
//!
//! ```text
//!   files, block devices, and exports of NBD servers (remote)
//!     └─ partitions of those that are no members
//!          └─ RAID sets of files and partitions that are members
//!               └─ partitions of sets
//!                    └─ volume groups on any of them that is no member
//!                         └─ partitions of their volumes
//! ```
//!
//! * [`open`]: they are looked for, and opened; `wanted`: for what. `arrays`: RAID sets among them.
//! * `stacked`: groups, and which of two devices with one content lies on the other.
//! * `kept`: who is kept off.
//! * `volumes`: what is found is called by names, and what lies below a name.

mod arrays;
mod kept;
pub mod open;
mod remote;
mod stacked;
mod volumes;
mod wanted;
mod whole;

pub use arrays::{Array, Refused};
pub use open::{Disks, Part};
pub use remote::Remote;
pub use volumes::{Below, Opened};
pub use wanted::{Writing, Written};
pub use whole::Whole;
