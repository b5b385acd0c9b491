//! A model of update-in-place file systems, to compare with: **no place for data**.
//!
//! Studies ask what a pool is worth against the file systems that people run: UFS with direct I/O, ext3
//! with ordered data, XFS told about its stripes. Here is one file system over any
//! [`Device`](rt::Device) whose [`Settings`] and [`MountOptions`] take the decisions that make those
//! three fast or slow; the [`Preset`]s are after them. It holds real bytes, survives its own remount and
//! a power cut, and its on-disk form is its own: nothing else reads it, and a later version may not.
//!
//! What is modelled, because it decides which requests reach the device, and when:
//!
//! * where things lie: [groups](settings::Settings::group) with their bitmaps and inodes, directories
//!   spread over them, files near their directory, reservation windows, delayed allocation, stripes;
//! * what has to be read to find a block: indirect blocks or extents; directory blocks;
//! * the page cache: read-ahead, write-back, its limits, and who waits for whom (the inode's lock);
//! * the journal: what a commit writes, in what order, with which flushes; checkpoints;
//! * copies between cache and caller, and one I/O's worth of processor time a call.
//!
//! How it hangs together, from the caller down: `tree` (names) and `file` (data) → `directory`,
//! `mapping`, `cache`, `writeback` → `allocate`, `inode` → `meta` (blocks of metadata in memory) →
//! `journal` → `transfer` (requests). `check` walks everything and compares.
//!
//! **The one rule for safety.** Data is written before the metadata that points to it enters a
//! transaction, and a commit flushes the device before its record counts. So no crash shows a block's
//! former content, whatever the settings. `docs/theory/update-in-place.md` has the whole argument and
//! the list of what is left out.

#![forbid(unsafe_code)]

mod allocate;
mod cache;
pub mod check;
mod core;
mod directory;
mod file;
mod filesystem;
mod free_map;
mod group;
mod inode;
mod inode_map;
mod journal;
mod layout;
mod lru;
mod mapping;
mod meta;
pub mod preset;
mod read;
pub mod settings;
mod superblock;
mod transfer;
mod tree;
mod truncate;
mod write;
mod writeback;

pub use check::{CheckReport, Fault};
pub use filesystem::{FileSystem, MakeError, MountError};
pub use preset::{Preset, PresetError};
pub use settings::{
    AccessTimes, Allocation, DirectoryForm, Hold, Inodes, JournalForm, JournalPlace, Locks,
    Mapping, MountOptions, Settings, SettingsError, Spread, Stripe,
};
pub use stdx::bytes::FormatError;
