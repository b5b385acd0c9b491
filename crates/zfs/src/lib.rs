//! ZFS pools: objects, datasets, files and volumes, over the blocks that `zfs-store` reads.
//!
//! ```text
//!   mounted  a dataset as programs see and change it: its files, children below it, snapshots in `.zfs`
//!   inspect  what one can ask of an open pool: all its blocks, its space, its history, a scrub
//!   spa      the life of a pool: found, opened; owns everything below
//!   zpl      files and directories of a file system          zvol   a volume as a device
//!   zil      the intent log of a dataset
//!   dsl      directories, datasets, snapshots, properties
//!   zap      tables of names and values
//!   dmu      objects: a dataset's dnodes, and the blocks below them, read and changed in memory
//!   health   how each vdev is                                show   numbers and times as ZFS's commands write them
//! ```
//!
//! Bottom up each uses only what is below it, and gets that as an argument. What the bytes mean is `zfs-format`'s;
//! where a block comes from is `zfs-store`'s ([`ReadBlocks`](zfs_store::ReadBlocks)).
//!
//! # Rules
//!
//! 1. Reading never writes: nothing here holds a device, and what it holds can only read. Changes stay in memory, for who
//!    looks at what a replay would give (`docs/theory/pools.md`).
//! 2. Whatever comes from a pool may be damaged or made to do harm: an error names objset, object and block, and
//!    what stays readable is read. Loops over what a pool says are bounded by the pool's own size or a named limit.
//! 3. Names of files are bytes; names of datasets are text.

#![forbid(unsafe_code)]

pub mod dmu;
pub mod dsl;

pub mod error;
pub mod health;
pub mod inspect;
pub mod mounted;
pub mod show;
pub mod spa;
pub mod zap;
pub mod zil;
pub mod zpl;
pub mod zvol;

pub use error::{Problem, ZfsError};
