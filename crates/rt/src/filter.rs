//! Devices over devices: each changes one thing about the device below.
//!
//! They stack at any height: under a RAID set a filter spoils one disk, above it the volume.
//!
//! | filter | what it does |
//! |---|---|
//! | [`Slice`] | a range of a device, as a device: a partition |
//! | [`Linear`] | several devices, one after another |
//! | [`Stats`] | counts I/Os, bytes, latencies and busy time: "the disks' view" |
//! | [`Trace`] | keeps a record of each of the last requests |
//! | [`Delay`] | takes longer: latency, bandwidth |
//! | [`Fault`] | misbehaves by rules: errors, latency, corruption, lost, torn and misdirected writes |
//! | [`PowerCut`] | a write cache that can lose its power |
//! | [`Elsewhere`] | a device whose engine runs on another executor |
//! | [`Overlap`] | asserts that no two writes in flight overlap; under the engine in every test |
//! | [`Overlay`] | copy-on-write in memory over a device that stays as it is |
//!
//! One stands over a tree of files: [`CountedTree`] counts what a load asks of it.
//!
//! Rules, beside the contract of [`Device`](crate::Device):
//!
//! 1. A filter that does nothing to a request passes it down as it is, with its priority and `fua`.
//! 2. An error of the device below comes up as it is: it names the device and the place where it
//!    happened, not the filter. An error that a filter makes names the filter.
//! 3. Randomness comes from a [`Prng`](stdx::Prng) that is given, drawn in the order of submission.

pub mod counted_tree;
pub mod delay;
pub mod elsewhere;
pub mod fault;
pub mod linear;
pub mod overlap;
pub mod overlay;
pub mod power_cut;
pub mod slice;
pub mod stats;
pub mod trace;

pub use counted_tree::{CountedTree, ReadFiles, Traffic};
pub use delay::{Delay, Slowness};
pub use elsewhere::{Elsewhere, Gate};
pub use fault::{Effect, Fault, Misdirection, Rule, RuleId};
pub use linear::Linear;
pub use overlap::Overlap;
pub use overlay::Overlay;
pub use power_cut::PowerCut;
pub use slice::Slice;
pub use stats::{ClassCounters, Counters, Stats, StatsSnapshot};
pub use trace::{Trace, TraceRecord};

#[cfg(test)]
mod tests;
