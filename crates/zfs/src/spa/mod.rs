//! A pool: found on devices, opened, its configuration and features.
//!
//! Importing is a row of plain steps:
//!
//! ```text
//!   find (found)     labels → which pools, their trees, the best uberblock
//!   open (open)      vdev tree → MOS → features → the configuration in the MOS → the tree again → salt, removed vdevs → DSL
//! ```
//!
//! `Spa` owns vdevs, cache and MOS, and hands the layers below what they need.
//!
//! What a pool says of itself beyond that is read when it is asked for: history, properties, the error log, all blocks
//! ([`walk`]).

pub mod claims;
pub mod count;
pub mod features;
pub mod found;
pub mod health;
pub mod history;
pub mod keys;
mod open;
pub mod property;
pub mod scrub;
pub mod sharing;
pub mod space;
mod space_maps;
pub mod state;
pub mod walk;

pub use found::{Found, FoundPool, Member, PoolState, find};
pub use keys::LoadKeyError;
pub use open::{OpenError, OpenOptions, Spa, packed_list};
