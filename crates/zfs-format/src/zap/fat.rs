//! Fat ZAPs: the header, and the table that leads from a hash to its leaf.
//!
//! ```text
//!   0    kind of block, magic number 0x2f52ab2ab
//!   16   table: first block, blocks, shift, next block, blocks copied
//!   56   first free block, leaves, entries, salt, normalisation flags, flags
//!   half of the block: the table itself, while it fits there
//! ```
//!
//! The table has 2^shift block numbers; the highest bits of a hash are the index. Several entries lead to the same
//! leaf as long as its prefix is shorter than the shift. A table that outgrows half a block moves to blocks of its
//! own; while it grows, *next block* and *blocks copied* say how far the copy came.
//!
//! Source: OpenZFS, `zap_impl.h`, `zap.c`.

use super::HEADER_WORD;
use crate::wire::{Endian, Number, Reader, Wire, Writer, record};
use stdx::bytes::{FormatError, Problem};

/// The second word of the header.
pub const MAGIC: u64 = 0x0002_f52a_b2ab;
/// Sizes of blocks, as powers of two: 512 bytes to 128 KiB, the largest that OpenZFS makes a fat ZAP of.
pub const BLOCK_SHIFTS: std::ops::RangeInclusive<u32> = 9..=17;
/// Bits of the hash that the table may use at the most; a cursor has no more of them.
const TABLE_SHIFT_MAX: u64 = 48;
const NAME: &str = "fat ZAP header";

record! {
    /// Where the table of pointers lies.
    #[derive(Default)]
    Table = "ZAP table", 40, {
        /// Its first block; 0 where it stands in the header.
        block: u64,
        /// Its blocks; 0 where it stands in the header.
        blocks: u64,
        /// Bits of the hash that are its index.
        shift: u64,
        /// The first block of its larger copy, while it grows.
        next_block: u64,
        /// Blocks that are copied.
        blocks_copied: u64,
    }
}

/// The header of a fat ZAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatHeader {
    /// Bytes of each of its blocks, as a power of two.
    pub block_shift: u32,
    /// Where the table lies.
    pub table: Table,
    /// The first block that was never used.
    pub free_block: u64,
    /// How many leaves there are.
    pub leaves: u64,
    /// How many entries there are.
    pub entries: u64,
    /// What the hash begins with.
    pub salt: u64,
    /// See [`normalization`](super::normalization).
    pub normalization: u64,
    /// See [`flags`](super::flags).
    pub flags: u64,
    /// The second half of the block: the table, or what is left of it after it moved.
    pub embedded: Vec<u64>,
}

/// Where the number of a leaf's block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafPlace {
    /// It is this.
    Block(u64),
    /// In a block of the table, as the n-th number.
    InTable {
        /// The table's block.
        block: u64,
        /// Which number there.
        index: usize,
    },
}

impl FatHeader {
    /// Numbers of the table that fit into the header, as a power of two.
    fn embedded_shift(block_shift: u32) -> u32 {
        block_shift - 4
    }

    /// Decodes the first block.
    ///
    /// # Errors
    /// It is no header, no power of two, or the table's size can't be.
    pub fn decode(block: &[u8], endian: Endian) -> Result<FatHeader, FormatError> {
        let mut from = Reader::new(NAME, block, endian);
        let block_shift = block.len().trailing_zeros();
        if !block.len().is_power_of_two() || !BLOCK_SHIFTS.contains(&block_shift) {
            return Err(from.wrong("block", Problem::Value(block.len() as u64)));
        }
        let kind = from.u64("kind of block")?;
        if kind != HEADER_WORD {
            return Err(from.wrong_at("kind of block", 0, Problem::Magic(kind)));
        }
        let magic = from.u64("magic number")?;
        if magic != MAGIC {
            return Err(from.wrong_at("magic number", 8, Problem::Magic(magic)));
        }
        let table: Table = from.get("table")?;
        let embedded_shift = u64::from(Self::embedded_shift(block_shift));
        let shift_fits = match table.blocks {
            0 => table.shift == embedded_shift,
            blocks => {
                let per_block = u64::from(block_shift) - 3;
                (embedded_shift..=TABLE_SHIFT_MAX).contains(&table.shift)
                    && table.shift >= per_block
                    && blocks == 1 << (table.shift - per_block)
            }
        };
        if !shift_fits {
            return Err(from.wrong_at("table shift", 32, Problem::Value(table.shift)));
        }
        let [free_block, leaves, entries, salt, normalization, flags] = from.get("header")?;
        from.seek("table", block.len() / 2)?;
        let many = 1usize << embedded_shift;
        let embedded = (0..many).map(|_| from.get("table")).collect::<Result<_, _>>()?;
        Ok(FatHeader {
            block_shift,
            table,
            free_block,
            leaves,
            entries,
            salt,
            normalization,
            flags,
            embedded,
        })
    }

    /// Its block.
    ///
    /// # Errors
    /// The table's size can't be.
    pub fn encode(&self, endian: Endian) -> Result<Vec<u8>, FormatError> {
        let wrong = |field, value: u64| {
            let problem = Problem::Value(value);
            Err(FormatError { structure: NAME, field, offset: 0, problem })
        };
        if !BLOCK_SHIFTS.contains(&self.block_shift) {
            return wrong("block", self.block_shift.into());
        }
        if self.embedded.len() != 1 << Self::embedded_shift(self.block_shift) {
            return wrong("table", self.embedded.len() as u64);
        }
        let mut to = Writer::new(endian);
        to.put(HEADER_WORD);
        to.put(MAGIC);
        self.table.write(&mut to);
        for word in [self.free_block, self.leaves, self.entries, self.salt, self.normalization] {
            to.put(word);
        }
        to.put(self.flags);
        to.zeros_to(1 << (self.block_shift - 1));
        self.embedded.iter().for_each(|word| to.put(*word));
        let bytes = to.into_bytes();
        FatHeader::decode(&bytes, endian).map(|_| bytes)
    }

    /// Where the number of the block of a hash's leaf stands.
    pub fn leaf_of(&self, hash: u64) -> LeafPlace {
        let index = match self.table.shift {
            0 => 0,
            shift => hash >> (64 - shift.min(TABLE_SHIFT_MAX)),
        };
        if self.table.blocks == 0 {
            let block = usize::try_from(index).ok().and_then(|index| self.embedded.get(index));
            return LeafPlace::Block(block.copied().unwrap_or(0));
        }
        let per_block = self.block_shift - 3;
        LeafPlace::InTable {
            block: self.table.block.saturating_add(index >> per_block),
            index: (index & ((1 << per_block) - 1)) as usize,
        }
    }
}

/// The block numbers of a block of the table.
///
/// # Errors
/// The block is no multiple of 8 bytes.
pub fn table_block(block: &[u8], endian: Endian) -> Result<Vec<u64>, FormatError> {
    let mut from = Reader::new("ZAP table", block, endian);
    (0..block.len().div_ceil(8)).map(|_| from.get("block number")).collect()
}

/// One of the block numbers of a block of the table.
///
/// # Errors
/// The block ends before it.
pub fn table_at(block: &[u8], index: usize, endian: Endian) -> Result<u64, FormatError> {
    Reader::new("ZAP table", block, endian).get_at("block number", index.saturating_mul(8))
}

/// Puts a block number into a block of the table.
///
/// # Panics
/// The block has no such place.
pub fn put_table_at(block: &mut [u8], index: usize, number: u64, endian: Endian) {
    number.put(block, index * 8, endian);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(block_shift: u32, table: Table) -> FatHeader {
        FatHeader {
            block_shift,
            table,
            free_block: 3,
            leaves: 2,
            entries: 40,
            salt: 0x1234_5678_9abc_def1,
            normalization: 0,
            flags: 0,
            embedded: (0..1u64 << (block_shift - 4)).collect(),
        }
    }

    #[test]
    fn a_hash_leads_to_its_leaf_by_its_highest_bits() {
        let embedded = header(14, Table { shift: 10, ..Table::default() });
        assert_eq!(embedded.leaf_of(0xffc0_0000_0000_0000), LeafPlace::Block(1023));
        assert_eq!(embedded.leaf_of(0x003f_ffff_ffff_ffff), LeafPlace::Block(0));
        let moved = header(14, Table { block: 5, blocks: 2, shift: 12, ..Table::default() });
        let place = LeafPlace::InTable { block: 6, index: 2047 };
        assert_eq!(moved.leaf_of(u64::MAX), place);
        for header in [embedded, moved] {
            for endian in [Endian::Little, Endian::Big] {
                let block = header.encode(endian).expect("the table fits");
                assert_eq!(block.len(), 1 << 14);
                assert_eq!(FatHeader::decode(&block, endian), Ok(header.clone()));
                assert!(FatHeader::decode(&block[..1 << 13], endian).is_err());
            }
        }
        let wrong = header(14, Table { block: 5, blocks: 1 << 40, shift: 51, ..Table::default() });
        assert!(wrong.encode(Endian::Little).is_err());
        assert_eq!(table_block(&[1, 0, 0, 0, 0, 0, 0, 0], Endian::Little), Ok(vec![1]));
        assert!(table_block(&[1, 0], Endian::Little).is_err());
        for endian in [Endian::Little, Endian::Big] {
            let mut block = [0; 24];
            put_table_at(&mut block, 1, 7, endian);
            assert_eq!(table_block(&block, endian), Ok(vec![0, 7, 0]));
            assert_eq!(table_at(&block, 1, endian), Ok(7));
            assert!(table_at(&block, 3, endian).is_err());
            assert!(table_at(&block, usize::MAX, endian).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_flipped_bit_never_panics(bit in 0usize..104 * 8, hash in any::<u64>()) {
            let header = header(12, Table { shift: 8, ..Table::default() });
            let mut block = header.encode(Endian::Little).expect("the table fits");
            block[bit / 8] ^= 1 << (bit % 8);
            if let Ok(header) = FatHeader::decode(&block, Endian::Little) {
                let _ = header.leaf_of(hash);
            }
        }
    }
}
