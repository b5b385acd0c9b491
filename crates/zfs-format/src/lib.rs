//! Every on-disk structure of ZFS, as pure functions between bytes and values.
#![forbid(unsafe_code)]

pub mod block_pointer;
pub mod brt;
pub mod checksum;
pub mod compression;
pub mod ddt;
pub mod dnode;
pub mod dsl;
pub mod embedded_checksum;
pub mod error;
pub mod error_log;
pub mod features;
pub mod gang;
pub mod history;
pub mod label;
pub mod nvlist;
pub mod object_type;
pub mod objset;
pub mod pool_directory;
pub mod space_map;
pub mod uberblock;
pub mod vdev;
pub mod wire;
pub mod zap;
pub mod zil;
pub mod zpl;

pub use error::{FormatError, Problem};
pub use wire::{Endian, Record, Wire};
