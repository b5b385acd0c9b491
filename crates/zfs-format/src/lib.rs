//! Every on-disk structure of ZFS, up to OpenZFS 2.3: bytes become values, and values bytes.
//!
//! Pure functions, one structure or family a file. Nothing here reads a device, waits, hashes a whole block or
//! decompresses one: who calls hands in the bytes of one structure, already checked, decrypted and decompressed where
//! that is `codec`'s and `zfs-store`'s business. The one checksum that is taken here is SHA-256 of what carries
//! its checksum within itself ([`embedded_checksum`]).
//!
//! | family | modules |
//! |---|---|
//! | labels | [`label`], [`uberblock`], [`nvlist`], [`embedded_checksum`], [`vdev`] |
//! | blocks | [`block_pointer`], [`gang`], [`checksum`], [`compression`] |
//! | objects | [`dnode`], [`objset`], [`object_type`], [`zap`] |
//! | the pool | [`pool_directory`], [`features`], [`history`], [`error_log`], [`space_map`], [`dsl`] |
//! | shared blocks | [`ddt`], [`brt`] |
//! | files | [`zpl`], [`zil`] |
//! | encryption | [`encryption`], [`dsl::crypto_key`] |
//!
//! # Rules
//!
//! 1. Each structure encodes as it decodes. Both byte orders are read and can be written; who writes a pool writes
//!    [`Endian::Little`]. Padding is not looked at, and is zero when written.
//! 2. Bad bytes are a [`FormatError`] that names structure, field and place. No input panics, loops without end or
//!    takes memory beyond a small multiple of its own length; what could is bounded by a named constant.
//! 3. What a version does not know it keeps where the structure allows (words of a block pointer, pairs of a list,
//!    bytes of a bonus), so that what is read and written again loses nothing.
//! 4. A value that can't be encoded is refused by a [`FormatError`] where it comes from outside, and is an assertion
//!    where only our own code can make it.
//!
//! Facts are from the sources and documents of OpenZFS; each file names them. The pages in `docs/formats` show the
//! layouts at a glance.

#![forbid(unsafe_code)]

pub mod block_pointer;
pub mod brt;
pub mod checksum;
pub mod compression;
pub mod ddt;
pub mod dnode;
pub mod dsl;
pub mod embedded_checksum;
pub mod encryption;
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

pub use stdx::bytes::{FormatError, Problem};
pub use wire::{Endian, Record, Wire};
