//! A pool: found on devices, opened, its configuration and features.
//!
//! Importing is a row of plain steps:
//!
//! ```text
//!   create           a pool is made
//!   live             a pool is open for writing: its datasets, what is asked of it (`datasets`), its end
//!   freeing          what was destroyed is freed, a part in each group
//!   beat             when its groups are committed, and how much room it has; `room`: what of it each dataset may take
//!   logs             intent logs that are found, claimed and replayed
//!   map_logs         what is allocated, loaded; logs of space maps folded into the maps
//!   volumes          volumes made, space kept free, quotas
//!   history          what was done to it, written down
//!   properties       its own properties, set
//!   commit           a transaction group: passes, space maps (`maps`), labels (`config`), uberblock
//!
//!   find (found)     labels → which pools, their trees, the best uberblock
//!   open (open)      vdev tree → MOS → features → the configuration in the MOS → the tree again → salt, removed vdevs → DSL
//! ```
//!
//! `Spa` owns vdevs, cache and MOS, and hands the layers below what they need.
//!
//! What one can ask of an open pool is [`inspect`](crate::inspect).

mod beat;
pub mod commit;
pub mod config;
pub mod create;
mod dataset;
pub mod datasets;
mod error;
pub mod features;
pub mod found;
pub mod freeing;
pub mod history;
mod keys;
pub mod live;
mod logs;
mod map_logs;
pub mod maps;
mod open;
mod properties;
mod room;
mod space_maps;
pub mod volumes;

pub use error::{LoadKeyError, OpenError};
pub use found::{Found, FoundPool, Member, PoolState, find};
pub(crate) use open::mapping;
pub use open::{OpenOptions, Spa, packed_list};
