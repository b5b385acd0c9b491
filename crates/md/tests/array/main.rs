//! Tests of whole arrays, over members in memory.

mod behaves_as_bytes;
mod fixtures;
mod redundancy;
mod rig;
