//! A simulated hard disk: where its blocks lie ([`geometry`]), how its arm moves ([`seek`]), what its
//! buffer holds ([`cache`]), what it does when ([`model`]), and the [`Device`](rt::Device) that it is
//! ([`device`]).

pub mod cache;
pub mod device;
pub mod geometry;
pub mod model;
pub mod overheads;
pub mod read_ahead;
pub mod seek;
pub mod slow_reads;
mod stretches;

pub use device::Disk;

#[cfg(test)]
pub(crate) mod tests;
