//! Linux md RAID sets: the engine.
#![forbid(unsafe_code)]

mod array;
mod layout;
mod locks;
mod member;
mod mirror;
mod parity;
mod pieces;
mod ranges;
mod set;
mod spec;
mod spread;
mod stripe;
mod striped;
mod together;
pub mod sync;

pub use array::Array;
pub use member::{MemberReport, MemberState, SPARES_MAX};
pub use set::Stats;
pub use spec::{
    ArraySpec, CHUNK_DEFAULT, CHUNK_MAX, CHUNK_MIN, FarSets, Layout, Level, MEMBERS_MAX,
    ParityLayout, STRIPE_CACHE_PER_MEMBER_DEFAULT, SpecError,
};
pub use sync::{CheckReport, Initialise, Mismatch, Operation, Progress, SyncError, SyncPriority};
