//! What the bytes of a block should come to: the checksum of its pointer, ready to be compared.
//!
//! A vdev that can make a block's bytes in more than one way (mirror, raidz) has to know which one is right; so
//! it is given an [`Expected`] with each read. It is a plain value that a worker thread can take along.
//!
//! **Rules.**
//!
//! 1. A block's sums run over its words in the order that the pointer states. SHA-256 has its words big-endian
//!    always; every other digest's are in the order of the writer.
//! 2. In an encrypted dataset the last two words of the checksum are the MAC (an objset's are not). Then only
//!    the first two are compared, and a sum that is not good for deduplication has its last two folded in.
//! 3. A gang header and a block of the intent log carry their checksum within. The pointer's is that of the whole
//!    gang; or what the log's checksum starts from.
//! 4. `off` and `noparity` have no sum: anything is right.
//! 5. A function that is not here is refused before anything is read.
//!
//! Source: OpenZFS, `zio_checksum.c`.

use crate::block::BlockErrorKind;
use crate::transform::{Salt, SumFunction, halved, is_halved, log_sum};
use codec::checksum::{Fletcher4, Sum};
use rt::{SumKind, Work, WorkKind};
use stdx::ByteCount;
use zfs_format::Endian;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::checksum::{Checksum, ChecksumFunction};
use zfs_format::gang::GangHeader;
use zfs_format::zil::LogBlock;

/// What the bytes of a block should come to.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Nothing is known: all bytes are right.
    Anything,
    /// A sum over all of it.
    Sum(ExpectedSum),
    /// A gang header that this pointer leads to.
    GangHeader(BlockPointer),
    /// A block of an intent log that this pointer leads to.
    LogBlock(BlockPointer),
}

/// A sum over all of a block.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedSum {
    function: SumFunction,
    endian: Endian,
    sum: Checksum,
    /// The last two words are a MAC: what is left of a sum of this function is compared with the first two.
    halved: Option<Option<ChecksumFunction>>,
}

impl Expected {
    /// What the stored bytes of this block should come to; of a gang, the bytes that its pieces make together.
    ///
    /// # Errors
    /// The function is not supported, or needs a salt that isn't there.
    pub fn of(pointer: &BlockPointer, salt: Option<Salt>) -> Result<Expected, BlockErrorKind> {
        use ChecksumFunction as F;
        if let Some(F::Zilog | F::Zilog2) = pointer.checksum_function() {
            return Ok(Expected::LogBlock(*pointer));
        }
        let Some(function) = SumFunction::of(pointer.checksum_function(), salt)? else {
            return Ok(Expected::Anything);
        };
        let (endian, sum) = (pointer.endian(), pointer.checksum());
        let halved = is_halved(pointer).then_some(pointer.checksum_function());
        Ok(Expected::Sum(ExpectedSum { function, endian, sum, halved }))
    }

    /// Whether these pieces, one after the other, are the bytes. All but the last are whole words.
    pub(crate) fn holds_together(&self, pieces: &[&[u8]]) -> bool {
        match self {
            Expected::Anything => true,
            // The usual one needs no copy.
            Expected::Sum(expected @ ExpectedSum { function: SumFunction::Fletcher4, .. }) => {
                let mut sum = match expected.endian {
                    Endian::Little => Fletcher4::default(),
                    Endian::Big => Fletcher4::of_big_endian(),
                };
                pieces.iter().for_each(|piece| sum.update(piece));
                expected.is_sum(sum.sum())
            }
            _ => self.holds(&pieces.concat()),
        }
    }

    /// The work of looking whether so many bytes are right.
    pub(crate) fn work(&self, bytes: ByteCount) -> Work {
        let kind = match self {
            Expected::Sum(expected) => expected.function.kind(),
            Expected::GangHeader(_) => SumKind::Sha256,
            Expected::Anything | Expected::LogBlock(_) => SumKind::Fletcher,
        };
        let bytes = if matches!(self, Expected::Anything) { ByteCount::ZERO } else { bytes };
        Work::new(WorkKind::Checksum(kind), bytes)
    }

    /// Whether these are the bytes.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            Expected::Anything => true,
            Expected::Sum(expected) => expected.holds(bytes),
            Expected::GangHeader(pointer) => GangHeader::decode(bytes, pointer).is_ok(),
            Expected::LogBlock(pointer) => {
                let function = pointer.checksum_function();
                let hash = |bytes: &[u8], endian| log_sum(function, bytes, endian);
                LogBlock::decode(bytes, pointer, hash).is_ok()
            }
        }
    }
}

impl ExpectedSum {
    fn holds(&self, bytes: &[u8]) -> bool {
        self.is_sum(self.function.sum(self.endian, bytes))
    }

    fn is_sum(&self, found: Sum) -> bool {
        match self.halved {
            None => found.0 == self.sum.words,
            Some(function) => halved(found, function) == self.sum.words[..2],
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a byte order or the folding of encrypted blocks' sums, which no fixture of a plain
    //! little-endian pool would show.

    use super::*;
    use codec::checksum;
    use zfs_format::object_type::ObjectType;

    fn pointer(function: ChecksumFunction, endian: Endian, crypt: bool) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_checksum_function(function);
        pointer.set_endian(endian);
        pointer.set_uses_crypt(crypt);
        pointer.set_object_type(ObjectType::PLAIN_FILE_CONTENTS);
        pointer
    }

    #[test]
    fn sums_are_over_words_of_the_writers_order() {
        let words = [1_u32, 2, 3, 4];
        let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        for (endian, bytes) in [(Endian::Little, &little), (Endian::Big, &big)] {
            let mut pointer = pointer(ChecksumFunction::Fletcher4, endian, false);
            pointer.set_checksum(Checksum { words: [10, 20, 35, 56] });
            let expected = Expected::of(&pointer, None).expect("it is known");
            assert!(expected.holds(bytes));
            assert!(!expected.holds(if endian == Endian::Little { &big } else { &little }));
        }
        let words = [1_u64, 2, 3, 4];
        let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut pointer = pointer(ChecksumFunction::Fletcher2, Endian::Big, false);
        pointer.set_checksum(Checksum { words: [4, 6, 5, 8] });
        assert!(Expected::of(&pointer, None).expect("it is known").holds(&big));
    }

    #[test]
    fn of_an_encrypted_block_half_a_checksum_is_compared() {
        let bytes: Vec<u8> = [1_u32, 2, 3, 4].iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut pointer = pointer(ChecksumFunction::Fletcher4, Endian::Little, true);
        pointer.set_checksum(Checksum { words: [10 ^ 35, 20 ^ 56, 77, 78] });
        assert!(Expected::of(&pointer, None).expect("it is known").holds(&bytes));
        let sha = checksum::sha256(&bytes).0;
        pointer.set_checksum_function(ChecksumFunction::Sha256);
        pointer.set_checksum(Checksum { words: [sha[0], sha[1], 77, 78] });
        assert!(Expected::of(&pointer, None).expect("it is known").holds(&bytes));
        pointer.set_object_type(ObjectType::OBJSET);
        assert!(!Expected::of(&pointer, None).expect("it is known").holds(&bytes));
    }

    #[test]
    fn what_has_no_sum_is_right_and_what_is_not_known_is_refused() {
        let of = |function| Expected::of(&pointer(function, Endian::Little, false), None);
        assert!(of(ChecksumFunction::Off).expect("it is known").holds(b"anything"));
        assert!(of(ChecksumFunction::NoParity).expect("it is known").holds(b""));
        for function in [ChecksumFunction::Blake3, ChecksumFunction::On, ChecksumFunction::Label] {
            assert!(matches!(of(function), Err(BlockErrorKind::Unsupported(_))));
        }
        let log = of(ChecksumFunction::Zilog2).expect("it is known");
        assert!(!log.holds(&[0; 4096]));
    }
}
