//! A simulated solid-state drive: what its translation layer costs ([`ftl`]), when it answers
//! ([`model`]), and the [`Device`](rt::Device) that it is ([`device`]).

mod collector;
pub mod device;
pub mod ftl;
pub mod model;

pub use device::Ssd;
pub use ftl::SsdState;

#[cfg(test)]
mod tests;
