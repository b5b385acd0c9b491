//! Tests of whole arrays, over members in memory.

mod assembled;
mod behaves_as_bytes;
mod damage;
mod fixtures;
mod grow;
mod live;
mod mains;
mod power_cuts;
mod redundancy;
mod rig;
