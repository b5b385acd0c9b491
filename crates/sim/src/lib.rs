//! Simulated hardware in virtual time: disks, solid-state drives, links, controllers, hosts.
//!
//! The engines of Spindle reach time and storage through [`rt`]; here is the world in which they run
//! when it is not the real one. A [`Machine`] is built from [profiles](profile) and has a runtime whose
//! clock jumps, and drives that hold real bytes and take the time that their data sheets imply:
//!
//! ```text
//! let machine = sim::Machine::builder(7).host("epyc-2024")?.drives("st3750640as", 4)?.build();
//! machine.run(async move { machine.devices()[0].submit(Request::write(Offset(0), data)).await })
//! ```
//!
//! (whole, and run, in `tests/options.rs`).
//!
//! Invariants: one seed, one run, to the nanosecond; time passes only in the [reactor]; a device
//! answers nothing before its model says so; a power cut loses what the model had not made durable,
//! and nothing else. What is modelled, and how well, is in `docs/theory/simulated-hardware.md`.

#![forbid(unsafe_code)]

mod content;
pub mod controller;
pub mod disk;
mod held;
pub mod host;
pub mod link;
pub mod machine;
mod pending;
pub mod profile;
pub mod ram;
pub mod reactor;
pub mod read_ahead;
pub mod replay;
pub mod service;
pub mod ssd;
pub mod store;
pub mod world;

pub use controller::{CachePolicy, CachedDevice, Controller, ControllerOptions, FlushPolicy};
pub use disk::Disk;
pub use link::Link;
pub use machine::{Drive, Machine, MachineBuilder};
pub use profile::{Profile, ProfileError};
pub use ram::{NullDisk, RamDisk};
pub use reactor::SimReactor;
pub use read_ahead::HostReadAhead;
pub use ssd::{Ssd, SsdState};
pub use world::World;
