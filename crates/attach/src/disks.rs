//! What lies on the devices that were named: RAID sets of them, partitions, logical volumes.
//!
//! ```text
//!   files, block devices, and exports of NBD servers (remote)
//!     └─ RAID sets of those that are members
//!          └─ partitions of what is no member, and of sets
//!               └─ volume groups on any of them
//! ```
//!
//! * [`open`]: they are looked for, and opened. `arrays`: RAID sets among them.
//! * `volumes`: what is found is called by names, and what lies below a name.

mod arrays;
pub mod open;
mod remote;
mod volumes;
mod whole;

pub use arrays::Array;
pub use open::{Disks, Part, Writing, Written};
pub use remote::Remote;
pub use volumes::{Below, Opened};
pub use whole::Whole;
