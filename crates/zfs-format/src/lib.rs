//! Every on-disk structure of ZFS, as pure functions between bytes and values.
#![forbid(unsafe_code)]

pub mod block_pointer;
pub mod checksum;
pub mod compression;
pub mod embedded_checksum;
pub mod error;
pub mod gang;
pub mod label;
pub mod nvlist;
pub mod object_type;
pub mod uberblock;
pub mod wire;

pub use error::{FormatError, Problem};
pub use wire::{Endian, Record, Wire};
