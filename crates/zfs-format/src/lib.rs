//! Every on-disk structure of ZFS, as pure functions between bytes and values.
#![forbid(unsafe_code)]

pub mod block_pointer;
pub mod checksum;
pub mod compression;
pub mod dnode;
pub mod embedded_checksum;
pub mod error;
pub mod gang;
pub mod label;
pub mod nvlist;
pub mod object_type;
pub mod objset;
pub mod uberblock;
pub mod wire;
pub mod zap;
pub mod zil;

pub use error::{FormatError, Problem};
pub use wire::{Endian, Record, Wire};
