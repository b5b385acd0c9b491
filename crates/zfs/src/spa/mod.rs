//! A pool: found on devices, opened, its configuration and features.
//!
//! Importing is a row of plain steps:
//!
//! ```text
//!   create           a pool is made
//!   add              vdevs, spares and cache devices added to one; `vdevs`: what new ones need in the MOS
//!   expand           devices that have grown
//!   rewind           a pool taken back to the newest state that is whole
//!   live             a pool is open for writing: its datasets, what is asked of it (`datasets`), its end
//!   freeing          what was destroyed is freed, a part in each group
//!   beat             when its groups are committed, and how much room it has; `room`: what of it each dataset may take
//!   logs             intent logs that are found, claimed and replayed
//!   map_logs         what is allocated, loaded; logs of space maps
//!   volumes          volumes made, space kept free, quotas
//!   history          what was done to it, written down
//!   properties       its own properties, set; `enable`: features
//!   checkpoint       all of it as one group left it, to go back to; `kept`: the space that this keeps
//!   obsolete         what of removed vdevs nobody names any more, written down
//!   cloned           blocks that OpenZFS cloned: which pointers to them die, written down
//!   dtls             which groups each leaf misses, written down; `behind`: those of which only its labels tell
//!   lost             what nobody stands in for of that
//!   commit           a transaction group: passes, space maps (`slab_maps`, `maps`), labels (`config`), uberblock
//!
//!   find (found)     labels → which pools, their trees, the best uberblock; `lacking`: who is missing where one can't be opened
//!   mmp              signs of life, given to other hosts
//!   multihost        whether another host has it open: signs of life
//!   open (open)      vdev tree → MOS → features → the configuration in the MOS → the tree again → salt, removed vdevs → DSL
//! ```
//!
//! `Spa` owns vdevs, cache and MOS, and hands the layers below what they need.
//!
//! What one can ask of an open pool is [`inspect`](crate::inspect).

pub mod add;
mod apart;
mod beat;
mod behind;
mod checkpoint;
mod cloned;
pub mod commit;
pub mod config;
pub mod create;
mod dataset;
pub mod datasets;
mod dtls;
pub mod enable;
mod error;
pub mod events;
pub mod expand;
pub mod features;
pub mod found;
pub mod freeing;
pub mod history;
mod kept;
mod keys;
mod lacking;
pub mod live;
mod logs;
mod lost;
mod map_logs;
pub mod maps;
pub mod mmp;
pub mod multihost;
mod noted_errors;
mod obsolete;
mod open;
mod properties;
pub mod rewind;
mod room;
mod slab_maps;
mod space_maps;
mod vdevs;
pub mod volumes;

pub use apart::Apart;
pub use beat::Room;
pub use error::{GROUPS_KEPT, LoadKeyError, OpenError};
pub use found::{Found, FoundPool, Member, PoolState, find, member_on};
pub use lacking::lacking_of;
pub use lost::{Lost, Missed};
pub use open::{OpenOptions, Spa, packed_list};
pub(crate) use open::{checkpoint_of, mapping};
pub use zfs_store::label::apart::{ApartError, clear as clear_labels};
