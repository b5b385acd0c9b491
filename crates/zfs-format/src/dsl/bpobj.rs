//! Bpobjs: lists of block pointers.
//!
//! The object is block pointers in a row; the bonus says how many and how much they are. It grew with the pool's
//! version: 16, 32, 48 and 56 bytes. A list may hold other lists: an object with their numbers in a row. In a
//! livelist's bpobj the lowest bit of a pointer's fill says that it was freed.
//!
//! Source: OpenZFS, `bpobj.h`.

use crate::block_pointer::BlockPointer;
use crate::checksum::Checksum;
use crate::wire::{Endian, Reader, Writer};
use stdx::bytes::FormatError;

/// The header of a bpobj. What its size has no room for is 0, and is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpObj {
    /// How many of the fields there are.
    pub size: BpObjSize,
    /// Block pointers in the object.
    pub pointers: u64,
    /// Bytes that these and all of its lists take.
    pub bytes: u64,
    /// The same as compressed.
    pub compressed: u64,
    /// The same before compression.
    pub uncompressed: u64,
    /// The object with the numbers of its lists.
    pub sub_objects: u64,
    /// How many lists.
    pub sub_object_count: u64,
    /// How many pointers say that they were freed.
    pub freed: u64,
}

/// Which fields a bpobj has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BpObjSize {
    /// Pointers and bytes.
    V0,
    /// Compressed and uncompressed bytes too.
    V1,
    /// Lists too.
    V2,
    /// Freed too.
    V3,
}

impl BpObjSize {
    /// How many numbers the bonus has.
    fn numbers(self) -> usize {
        match self {
            BpObjSize::V0 => 2,
            BpObjSize::V1 => 4,
            BpObjSize::V2 => 6,
            BpObjSize::V3 => 7,
        }
    }
}

impl BpObj {
    /// Decodes the bonus.
    ///
    /// # Errors
    /// It is shorter than the shortest.
    pub fn decode(bonus: &[u8], endian: Endian) -> Result<BpObj, FormatError> {
        let sizes = [BpObjSize::V3, BpObjSize::V2, BpObjSize::V1];
        let size = sizes.into_iter().find(|size| size.numbers() * 8 <= bonus.len());
        let size = size.unwrap_or(BpObjSize::V0);
        let mut from = Reader::new("bpobj", bonus, endian);
        let mut numbers = [0; 7];
        for number in numbers.iter_mut().take(size.numbers()) {
            *number = from.u64("header")?;
        }
        let [pointers, bytes, compressed, uncompressed, sub_objects, sub_object_count, freed] =
            numbers;
        Ok(BpObj {
            size,
            pointers,
            bytes,
            compressed,
            uncompressed,
            sub_objects,
            sub_object_count,
            freed,
        })
    }

    /// The bonus.
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut to = Writer::new(endian);
        let sums = [self.pointers, self.bytes, self.compressed, self.uncompressed];
        let lists = [self.sub_objects, self.sub_object_count, self.freed];
        sums.iter().chain(&lists).take(self.size.numbers()).for_each(|number| to.put(*number));
        to.into_bytes()
    }
}

/// A pointer as lists have it: without what only who reads the block needs, its checksum, or the data that is embedded in it, and
/// in place of its fill whether the block was freed. Data that stayed would be taken for that.
///
/// Source: OpenZFS, `bpobj_enqueue`.
pub fn listed(pointer: &BlockPointer, is_freed: bool) -> BlockPointer {
    let mut kept = *pointer;
    if pointer.is_embedded() {
        kept.drop_embedded_data();
    } else {
        kept.set_checksum(Checksum::default());
        kept.set_fill(is_freed.into());
    }
    kept
}

/// Whether a pointer of a livelist, which has none to embedded data, says that its block was freed.
pub fn is_freed(pointer: &BlockPointer) -> bool {
    pointer.fill() & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Compression;

    #[test]
    fn a_list_keeps_nothing_of_data_that_is_embedded() {
        let mut pointer = BlockPointer::embed(&[0xff; 112], 4096, Compression::Lz4);
        pointer.set_logical_birth(7);
        let kept = listed(&pointer, false);
        assert_eq!(kept.embedded_data(), Some(vec![0; 112]));
        assert_eq!((kept.logical_birth(), kept.logical_size()), (7, 4096));
        // The word of its fill is data in the one that is embedded.
        assert_eq!(kept.words[11], 0);
    }

    #[test]
    fn each_size_has_its_fields() {
        let words: Vec<u8> = (1..=8u8).flat_map(|n| [n; 8]).collect();
        for endian in [Endian::Little, Endian::Big] {
            for (len, size) in [
                (16, BpObjSize::V0),
                (32, BpObjSize::V1),
                (48, BpObjSize::V2),
                (56, BpObjSize::V3),
                (64, BpObjSize::V3),
            ] {
                let found = BpObj::decode(&words[..len], endian).expect("long enough");
                assert_eq!(found.size, size);
                assert_eq!(found.encode(endian), words[..size.numbers() * 8]);
            }
            assert!(BpObj::decode(&words[..15], endian).is_err());
        }
    }
}
