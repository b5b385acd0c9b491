//! What of a pool's space is allocated.
//!
//! ```text
//!   allocator    which space a block gets, and when freed space may be used again
//!   top          the space of one top-level vdev, by state; what of it is kept for intent logs
//!   free         free space by place and by size
//!   clones       blocks that more than one pointer names, and how many do
//!   class        what a top-level vdev's space is for
//!   metaslab     the equal parts of a top-level vdev, each with the set of what is allocated in it
//!   space_maps   how such a set is written down: the log of its changes, read once, here
//!   unflushed    what logs of space maps have and the maps don't; which maps are brought up to date when
//! ```
//!
//! A top-level vdev is divided into metaslabs of 2^shift bytes, and no block crosses their bounds. Each has a space map in
//! the MOS, whole up to a transaction group; what changed after it stands in logs of space maps, one a group, for all
//! metaslabs of the pool. So what is allocated is: each metaslab's map, then of each log, in the order of the groups,
//! what concerns metaslabs whose maps don't have it yet ([`Metaslabs::logged`]).
//!
//! Space maps are objects, of which nobody here knows anything: who has them implements [`SpaceMapStore`].
//!
//! Source: OpenZFS, `metaslab.c`, `space_map.c`, `spa_log_spacemap.c`.

pub mod allocator;
pub mod class;
pub mod clones;
pub mod free;
pub mod metaslab;
pub mod space_maps;
pub mod top;
pub mod unflushed;

pub use allocator::{Allocator, Changes, NoRoom};
pub use class::Class;
pub use clones::{Clones, Lowered};
pub use metaslab::{Metaslab, Metaslabs};
pub use space_maps::{SECTOR_SHIFT, SpaceMapStore, Stretch, each_stretch};
pub use top::{Usage, keeps_log};
pub use unflushed::{Log, SlabKey, Unflushed};
