//! ZAPs: tables of names and values, for directories, properties, and nearly everything with names.
//!
//! A small one is [`micro`]: one block, a number of 8 bytes a name. A larger one is [`fat`]: a header
//! with a table of pointers, and [leaves](leaf) that hold names and values of any kind. The first word of a block
//! tells which it is: [`BlockKind`].
//!
//! Names are found by a hash: CRC-64 that begins with the table's salt. Which bytes are hashed depends on the table:
//! a name without its zero, normalised as the table's flags say; or a key of numbers, each from its lowest byte on.
//! Of the hash the highest 28 bits count, or 48 where the flags say so; names of the same hash are told apart by a
//! number, the collision differentiator.
//!
//! Normalising text to Unicode's forms is not done here: who looks a name up hands in the name as normalised.
//!
//! Source: OpenZFS, `zap_impl.h`, `zap_micro.c`, `zap.c`.

pub mod fat;
pub mod leaf;
pub mod micro;

use crate::wire::Endian;

/// The polynomial of the hash: ECMA-182, reflected.
const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

const CRC: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// Flags of a fat ZAP.
pub mod flags {
    /// 48 bits of the hash count, not 28.
    pub const HASH_64: u64 = 1;
    /// Keys are numbers of 64 bits.
    pub const UINT64_KEY: u64 = 2;
    /// A key's first number is its hash.
    pub const PRE_HASHED: u64 = 4;
}

/// How names are normalised before they are hashed or compared. (A bit for lower case, 4, was never used.)
pub mod normalization {
    /// To upper case.
    pub const UPPER: u64 = 0x02;
    /// Unicode's form D.
    pub const NFD: u64 = 0x10;
    /// Unicode's form C.
    pub const NFC: u64 = 0x50;
    /// Unicode's form KD.
    pub const NFKD: u64 = 0x20;
    /// Unicode's form KC.
    pub const NFKC: u64 = 0x60;
}

/// What a block of a ZAP is, by its first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A whole micro ZAP.
    Micro,
    /// The header of a fat ZAP.
    Header,
    /// A leaf of a fat ZAP.
    Leaf,
    /// Any other word: pointers of a fat ZAP's table.
    Table,
}

pub(crate) const LEAF_WORD: u64 = 1 << 63;
pub(crate) const HEADER_WORD: u64 = (1 << 63) + 1;
pub(crate) const MICRO_WORD: u64 = (1 << 63) + 3;

impl BlockKind {
    /// What this block is.
    pub fn of(block: &[u8], endian: Endian) -> BlockKind {
        let first = block.first_chunk::<8>().map_or(0, |bytes| endian.u64(*bytes));
        match first {
            MICRO_WORD => BlockKind::Micro,
            HEADER_WORD => BlockKind::Header,
            LEAF_WORD => BlockKind::Leaf,
            _ => BlockKind::Table,
        }
    }
}

fn hash_bits(flags: u64) -> u32 {
    if flags & flags::HASH_64 != 0 { 48 } else { 28 }
}

fn highest(hash: u64, flags: u64) -> u64 {
    hash & !(u64::MAX >> hash_bits(flags))
}

/// The hash of a name: its bytes without the zero, as normalised.
pub fn hash_name(name: &[u8], salt: u64, flags: u64) -> u64 {
    let step = |hash: u64, byte: &u8| hash >> 8 ^ CRC[(hash as u8 ^ byte) as usize];
    highest(name.iter().fold(salt, step), flags)
}

/// The hash of a key of numbers.
pub fn hash_key(key: &[u64], salt: u64, flags: u64) -> u64 {
    if flags & flags::PRE_HASHED != 0 {
        return highest(key.first().copied().unwrap_or(0), flags);
    }
    let bytes: Vec<u8> = key.iter().flat_map(|number| number.to_le_bytes()).collect();
    hash_name(&bytes, salt, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_crc_of_the_sources() {
        // What the sources assert of their table.
        assert_eq!(CRC[128], POLYNOMIAL);
        // CRC-64/XZ of "123456789" is 0x995dc9bbdf1939fa; it begins with ones and ends inverted.
        let hash = b"123456789".iter().fold(u64::MAX, |h, b| h >> 8 ^ CRC[(h as u8 ^ b) as usize]);
        assert_eq!(!hash, 0x995d_c9bb_df19_39fa);
        assert_eq!(hash_name(b"123456789", u64::MAX, 0), hash & 0xffff_fff0_0000_0000);
        assert_eq!(hash_name(b"123456789", u64::MAX, 1), hash & 0xffff_ffff_ffff_0000);
        assert_eq!(hash_key(&[0xffff_ffff_ffff_ffff, 7], 1, 7), 0xffff_ffff_ffff_0000);
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(hash_key(&[1], 5, 3), hash_name(&bytes, 5, 1));
    }

    #[test]
    fn the_first_word_tells_what_a_block_is() {
        for endian in [Endian::Little, Endian::Big] {
            assert_eq!(BlockKind::of(&endian.bytes(MICRO_WORD), endian), BlockKind::Micro);
            assert_eq!(BlockKind::of(&endian.bytes(LEAF_WORD), endian), BlockKind::Leaf);
            assert_eq!(BlockKind::of(&endian.bytes(HEADER_WORD), endian), BlockKind::Header);
            assert_eq!(BlockKind::of(&[], endian), BlockKind::Table);
        }
    }
}
