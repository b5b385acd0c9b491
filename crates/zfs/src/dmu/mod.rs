//! Objects: the dnodes of an objset, and the blocks below each; reading them, and changing them in memory.
//!
//! ```text
//!   sync     what a group changed in an objset is written, from the leaves up
//!   account  what a group changes in what users, groups and projects take
//!   make     new objects: a free number, a dnode without blocks
//!   policy   how blocks are stored: checksum, compression, copies
//!   objset   the root block of a dataset (or of the MOS), its key, and the meta-dnode: the array of dnodes
//!   change   a change: planned and carried out without waiting
//!   dnode    the one handle of an object: its tree of blocks, its bonus, its spill block
//!   step     a look at what is in memory, which says what it lacks
//!   caching  what of it the cache keeps
//!   dbuf     blocks that are held above the cache: changed ones, and those that a change looks at
//!   txg      transaction groups: open and syncing
//! ```
//!
//! Each uses only what stands below it. Nothing that is clean is kept here, except what somebody holds, and the last indirect
//! block that each open object used: the cache below has the rest.
//!
//! `docs/theory/pools.md` says how this becomes writing.

pub mod account;
#[cfg(test)]
pub(crate) mod blank;
mod caching;
mod change;
mod dbuf;
mod dnode;
mod early;
mod make;
mod objset;
mod policy;
mod prefetch;
mod step;
mod sync;
mod throttle;
mod txg;

pub use account::{Counted, Tally};
pub use caching::Caching;
pub use dbuf::Block;
pub use dnode::Dnode;
pub use early::EarlyBlocks;
pub use make::{NewObject, new_meta};
pub use objset::Objset;
pub use policy::{BlockPolicy, Policy};
pub use step::{Blocked, Need, Step};
pub use sync::{Books, SyncContext};
pub use txg::{DIRTY_BYTES_MAX, Tx, TxGroups, Txg};
