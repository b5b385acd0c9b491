//! ZFS: every structure by itself, and whole pools.
//!
//! The decoders of `zfs-format` are pure, so each target is one call and what follows of it. The claim is that of the
//! crate: no bytes panic, loop without end or eat memory, and what is decoded encodes to something that decodes to
//! the same.

pub mod blocks;
pub mod compression;
pub mod files;
pub mod forge;
pub mod images;
pub mod labels;
pub mod logs;
pub mod pool;
pub mod reading;
pub mod space;
pub mod tables;
pub mod writing;

use crate::machine::Input;
use zfs_format::{Endian, Record};

/// The byte order and three more bits that an input begins with.
fn order(input: &mut Input<'_>) -> (Endian, u8) {
    let first = input.byte();
    (if first & 1 == 0 { Endian::Little } else { Endian::Big }, first >> 1)
}

/// A record of fixed length: what is decoded encodes to something that decodes to the same.
fn record<R: Record + PartialEq + std::fmt::Debug>(bytes: &[u8], endian: Endian) -> Option<R> {
    let record = R::decode(bytes, endian).ok()?;
    assert_eq!(R::decode(&record.encode(endian), endian).as_ref(), Ok(&record));
    Some(record)
}

/// Numbers as the bytes of a block.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes behind a first byte of 0: little-endian, no other bits.
fn little(bytes: &[u8]) -> Vec<u8> {
    [&[0], bytes].concat()
}
