//! What lies on the devices that were named: RAID sets of them, partitions, logical volumes.
//!
//! ```text
//!   files and block devices
//!     └─ RAID sets of those that are members
//!          └─ partitions of what is no member, and of sets
//!               └─ volume groups on any of them
//! ```
//!
//! * [`open`]: they are looked for, and opened. `arrays`: RAID sets among them.
//! * `volumes`: what is found is called by names, and what lies below a name.

mod arrays;
pub mod open;
mod volumes;
mod whole;

pub use arrays::Array;
pub use open::{Disks, Part, Written};
pub use volumes::Opened;
pub use whole::Whole;
