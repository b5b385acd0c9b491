//! Tests of whole arrays, over members in memory.

mod assembled;
mod behaves_as_bytes;
mod fixtures;
mod grow;
mod live;
mod redundancy;
mod rig;
