//! ZFS pools: objects, datasets, files and volumes, over the blocks that `zfs-store` reads.
//!
//! ```text
//!   spa      the pool: found, opened, its configuration and features; owns everything below
//!   zpl      files and directories of a file system          zvol   a volume as a device
//!   dsl      directories, datasets, snapshots, properties, keys
//!   zap      tables of names and values
//!   dmu      objects: a dataset's dnodes, and the blocks below them
//!   show     numbers and times as ZFS's commands write them
//! ```
//!
//! Bottom up each uses only what is below it, and gets that as an argument. What the bytes mean is `zfs-format`'s;
//! where a block comes from is `zfs-store`'s ([`ReadBlocks`](zfs_store::ReadBlocks)).
//!
//! # Rules
//!
//! 1. Reading never writes: nothing here holds a device, and what it holds can only read.
//! 2. Whatever comes from a pool may be damaged or made to do harm: an error names objset, object and block, and
//!    what stays readable is read. Loops over what a pool says are bounded by the pool's own size or a named limit.
//! 3. Names of files are bytes; names of datasets are text.

#![forbid(unsafe_code)]

pub mod dmu;
pub mod dsl;

pub mod error;
pub mod show;
pub mod spa;
pub mod zap;
pub mod zil;
pub mod zpl;
pub mod zvol;

pub use error::{Problem, ZfsError};
