//! Measuring one cell once: the load, the rounds, the two views.
//!
//! A target (in the program) builds a machine, an array on it and an executor, and hands a [`Volume`]
//! to [`block`] or [`operation`]. From there on nothing knows whether the disks are real.
//!
//! * [`load`] turns a workload into *processes*, each with so many I/Os outstanding, and counts what
//!   they do.
//! * [`block`] lets them run in rounds of equal length, until a window of rounds is steady (as SNIA's
//!   Performance Test Specification has it); the window is the measurement.
//! * [`operation`] times what an array does with itself: initialise, clone, rebuild, check; whole, or
//!   over stratified samples of the disks.
//! * [`data`] makes up what is written.
//! * [`files`] holds what a tool did on a tree of files against what the disks did.
//!
//! **Two views.** The load sees the volume; a [`DiskView`] sees each disk below it. Where the disks
//! did not do what the volume claims, something answered from a cache, and the measurement says so.
//! That and other [pitfalls](crate::pitfalls) come from what the target knows ([`Surroundings`](crate::pitfalls::Surroundings)) and from
//! the counters at both ends of the measured time ([`Mark`]).

pub mod block;
pub mod data;
mod error;
pub mod files;
pub mod load;
pub mod operation;
mod volume;

pub use crate::pitfalls::{DiskSample, FlushSample};
pub use data::DataSource;
pub use error::MeasureError;
pub(crate) use volume::processor_use;
pub use volume::{ArrayOperations, DiskView, HostSample, HostView, Mark, Volume};
