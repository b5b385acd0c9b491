//! What a leaf is made of: entries with keys and values, in chunks whose places follow from the block's size.

use crate::zap::fat::BLOCK_SHIFTS;

/// The magic number.
pub const MAGIC: u32 = 0x02ab_1eaf;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 24;
/// Bytes of an array in a chunk.
pub const ARRAY_BYTES: usize = 21;
/// Bytes before the hash table.
pub(super) const HEADER_BYTES: usize = 48;
pub(super) const CHAIN_END: u16 = 0xffff;
pub(super) const ENTRY: u8 = 252;
pub(super) const ARRAY: u8 = 251;
pub(super) const FREE: u8 = 253;
pub(super) const NAME: &str = "ZAP leaf";

/// Entries of a chain are sorted by their differentiators.
pub const FLAG_SORTED: u8 = 1;

/// What the numbers of a value are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafValue {
    /// Bytes of a number: 1, 2, 4 or 8.
    pub number_bytes: u8,
    /// The numbers.
    pub numbers: Vec<u64>,
}

impl LeafValue {
    /// The numbers as bytes, where they are bytes.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        (self.number_bytes == 1).then(|| self.numbers.iter().map(|number| *number as u8).collect())
    }

    /// The only number, if there is just one.
    pub fn number(&self) -> Option<u64> {
        match self.numbers.as_slice() {
            [number] => Some(*number),
            _ => None,
        }
    }
}

/// What an entry is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A name, without its zero.
    Name(Vec<u8>),
    /// Numbers, where the ZAP's flags say so.
    Numbers(Vec<u64>),
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafEntry {
    /// What it is found by.
    pub key: Key,
    /// The hash of the key.
    pub hash: u64,
    /// Tells keys of the same hash apart.
    pub differentiator: u32,
    /// What it holds.
    pub value: LeafValue,
}

/// Where things stand in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) buckets: usize,
    pub(super) chunks: usize,
}

impl Shape {
    pub(super) fn of(block_shift: u32) -> Shape {
        let buckets = 1usize << (block_shift - 5);
        let chunks = ((1usize << block_shift) - 2 * buckets) / CHUNK_BYTES - 2;
        Shape { buckets, chunks }
    }

    /// The shape of a block that a leaf can have.
    pub(super) fn of_block(block: &[u8]) -> Option<Shape> {
        let shift = block.len().trailing_zeros();
        (block.len().is_power_of_two() && BLOCK_SHIFTS.contains(&shift)).then(|| Shape::of(shift))
    }

    pub(super) fn block_shift(&self) -> u32 {
        self.buckets.trailing_zeros() + 5
    }

    pub(super) fn bucket_at(&self, bucket: usize) -> usize {
        HEADER_BYTES + 2 * bucket
    }

    pub(super) fn chunk_at(&self, chunk: usize) -> usize {
        HEADER_BYTES + 2 * self.buckets + chunk * CHUNK_BYTES
    }

    pub(super) fn bucket(&self, hash: u64, prefix_bits: u16) -> usize {
        let bits = self.buckets.trailing_zeros() + u32::from(prefix_bits);
        let shifted = if bits > 64 { 0 } else { hash >> (64 - bits) };
        shifted as usize & (self.buckets - 1)
    }
}

/// Whether the first bits of a hash are these.
pub(super) fn has_prefix(hash: u64, prefix: u64, bits: u16) -> bool {
    hash.checked_shr(64u32.saturating_sub(bits.into())).unwrap_or(0) == prefix
}

pub(super) fn numbers(bytes: &[u8], unit: usize) -> Vec<u64> {
    let number = |part: &[u8]| part.iter().fold(0, |n: u64, byte| n << 8 | u64::from(*byte));
    bytes.chunks(unit).map(number).collect()
}
