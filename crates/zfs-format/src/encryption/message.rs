//! What stands for a pointer in a message that is authenticated, and the parts of a block that is encrypted in parts.

use crate::block_pointer::{BlockPointer, Pointers};
use crate::object_type::ObjectType;
use crate::wire::Endian;
use std::ops::Range;
use stdx::bytes::FormatError;

/// Bytes that a pointer contributes to a MAC: properties, its own MAC, a reserved word.
const POINTER_BYTES: usize = 32;
/// Without the reserved word: version 0.
const POINTER_BYTES_V0: usize = 24;

/// A block that is encrypted in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The encrypted parts, in order: one text in several places.
    pub encrypted: Vec<Range<usize>>,
    /// What is authenticated with it.
    pub associated: Vec<u8>,
    /// From here on nothing counts, to be filled with zeros.
    pub end: usize,
}

/// The word of a pointer that holds its properties.
const PROPERTIES: usize = 6;
/// In it: the physical size.
const PHYSICAL_SIZE: u64 = 0xffff << 16;
/// In it: the compression.
const COMPRESSION: u64 = 0x7f << 32;
/// In it: the checksum's function.
const CHECKSUM: u64 = 0xff << 40;
/// In it: whether the block is deduplicated.
const DEDUP: u64 = 1 << 62;
/// In it: the byte order.
const BYTE_ORDER: u64 = 1 << 63;

/// A pointer's properties without those that may differ on another machine that holds the same data.
fn portable(pointer: &BlockPointer, version: u64) -> u64 {
    let properties = pointer.words[PROPERTIES] & !(DEDUP | CHECKSUM);
    match version {
        0 => properties & !PHYSICAL_SIZE,
        _ if pointer.is_hole() => 0,
        // The levels above are not in a raw stream, so who receives it makes them anew.
        _ if pointer.level() != 0 => properties & !(BYTE_ORDER | COMPRESSION | PHYSICAL_SIZE),
        _ => properties,
    }
}

/// Adds what stands for a pointer.
pub(super) fn add_pointer(to: &mut Vec<u8>, pointer: &BlockPointer, version: u64) {
    // An objset's MACs stand in the objset.
    let is_objset = pointer.object_type() == ObjectType::OBJSET;
    let mac = if is_objset { [0; 16] } else { pointer.mac_bytes() };
    let properties = portable(pointer, version);
    let mut bytes = [0; POINTER_BYTES];
    bytes[..8].copy_from_slice(&properties.to_le_bytes());
    bytes[8..24].copy_from_slice(&mac);
    to.extend_from_slice(if version == 0 { &bytes[..POINTER_BYTES_V0] } else { &bytes });
}

/// The message whose SHA-512, cut to 16 bytes, is the MAC of an indirect block (decompressed).
///
/// Its version is that of the dataset's key, which may not be at hand: then try 1, and 0 where that fails.
///
/// # Errors
/// The block is no multiple of a pointer's size.
pub fn indirect_block(block: &[u8], endian: Endian, version: u64) -> Result<Vec<u8>, FormatError> {
    let pointers = Pointers::of(block, endian)?;
    let mut message = Vec::with_capacity(pointers.len() * POINTER_BYTES);
    pointers.iter().for_each(|pointer| add_pointer(&mut message, &pointer, version));
    Ok(message)
}
