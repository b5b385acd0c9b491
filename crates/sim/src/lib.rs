//! Simulated hardware in virtual time.
#![forbid(unsafe_code)]

mod content;
pub mod controller;
pub mod disk;
pub mod host;
pub mod link;
mod pending;
pub mod profile;
pub mod ram;
pub mod ranges;
pub mod reactor;
pub mod ssd;
pub mod store;

pub use controller::Controller;
pub use disk::Disk;
pub use link::Link;
pub use ram::{NullDisk, RamDisk};
pub use reactor::SimReactor;
pub use ssd::Ssd;
