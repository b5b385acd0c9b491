//! The intent log: what was acknowledged to programs before its transaction group was whole.
//!
//! The [header](ZilHeader) in each objset leads to a chain of blocks. Each block holds [records](record) and a
//! [`Chain`], which has the pointer to the next:
//!
//! ```text
//!   since pool version 26 (checksum zilog2):  chain, records up to `used` bytes
//!   before (checksum zilog):                  records of `used` bytes, …, chain at the block's end
//! ```
//!
//! The next block is allocated before it is written, so its pointer has no checksum of its content. In its place are
//! two random words, the objset, and a number that grows by one a block: the *verifier*. The block's own
//! checksum is in the chain, taken with the verifier in its place. So the chain ends by itself: at a block whose
//! checksum is wrong. In a zilog2 block the checksum covers the used part only, in whole pieces of 4 KiB.
//!
//! The functions (fletcher2, fletcher4) are `codec`'s; who decodes a block hands the right one in.
//!
//! In an encrypted dataset half of the checksum's place is the MAC, and the checksum is folded: words 2 and 3 into 0
//! and 1 by exclusive or. It is of what is stored, so the records of the decoded block are [encrypted], and the same
//! bytes, decrypted in place, have them in the clear.
//!
//! [encrypted]: crate::encryption::log_block
//!
//! Source: OpenZFS, `zil.h`, `zil.c`, `zio_checksum.c`.

pub mod record;

use crate::block_pointer::BlockPointer;
use crate::checksum::{Checksum, ChecksumFunction};
use crate::embedded_checksum::{self as eck, EmbeddedChecksum};
use crate::wire::{Endian, Reader, Record, Wire, record};
use std::ops::Range;
use stdx::bytes::{FormatError, Problem};

/// Bytes in whose multiples a zilog2 block's checksum is taken.
pub const CHECKSUM_UNIT: usize = 4096;
/// Which word of the verifier counts the blocks.
pub const SEQUENCE_WORD: usize = 3;
/// Bytes of a [`Chain`].
pub const CHAIN_BYTES: usize = Chain::BYTES;
const NAME: &str = "intent log block";
/// Where the checksum stands in a chain, in bytes.
const CHECKSUM_AT: usize = 152;

record! {
    /// The header of an intent log, in its objset.
    ZilHeader = "intent log header", 192, {
        /// The transaction group in which the chain's blocks were claimed; 0 where they are not yet.
        claim_txg: u64,
        /// The highest record that was replayed.
        replay_sequence: u64,
        /// The first block of the chain.
        log: BlockPointer,
        /// The highest block that was claimed.
        claim_block_sequence: u64,
        /// 1 a replay is needed, 2 the next field is valid.
        flags: u64,
        /// The highest record that was claimed.
        claim_record_sequence: u64,
    }
}

record! {
    /// What links a block to the next.
    Chain = "intent log chain", 184, {
        /// Not used.
        padding: u64,
        /// The next block; its checksum is that block's verifier.
        next: BlockPointer,
        /// Bytes that count: of a zilog2 block with this chain, of a zilog block without.
        used: u64,
        /// Magic number and checksum.
        trailer: EmbeddedChecksum,
    }
}

impl ZilHeader {
    /// Of a dataset without a log.
    pub const EMPTY: ZilHeader = ZilHeader {
        claim_txg: 0,
        replay_sequence: 0,
        log: BlockPointer::HOLE,
        claim_block_sequence: 0,
        flags: 0,
        claim_record_sequence: 0,
    };
}

/// Flags of a [`ZilHeader`].
pub mod flags {
    /// There are records that were claimed and are to be replayed.
    pub const REPLAY_NEEDED: u64 = 1;
    /// [`claim_record_sequence`](super::ZilHeader::claim_record_sequence) counts.
    pub const RECORD_CLAIM_VALID: u64 = 2;
}

/// A block of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBlock {
    /// The next block.
    pub next: BlockPointer,
    /// The records' bytes.
    pub records: Vec<u8>,
    /// The byte order of the records.
    pub endian: Endian,
}

/// A function over bytes of an order.
type Hash<'a> = dyn Fn(&[u8], Endian) -> Checksum + 'a;

/// Where chain and records lie.
fn chain_at(pointer: &BlockPointer, len: usize) -> Option<(bool, usize)> {
    match pointer.checksum_function() {
        Some(ChecksumFunction::Zilog2) if len >= Chain::BYTES => Some((true, 0)),
        Some(ChecksumFunction::Zilog) => Some((false, len.checked_sub(Chain::BYTES)?)),
        _ => None,
    }
}

impl LogBlock {
    /// Decodes the block that this pointer leads to. `hash` is fletcher4 for zilog2, fletcher2 for zilog, over bytes
    /// of this order.
    ///
    /// # Errors
    /// The pointer's checksum is none of a log, the checksum wrong (as at the end of every chain), or what is
    /// used more than there is.
    pub fn decode(
        block: &[u8],
        pointer: &BlockPointer,
        hash: impl Fn(&[u8], Endian) -> Checksum,
    ) -> Result<LogBlock, FormatError> {
        Self::read(block, pointer, Some(&hash))
    }

    /// Decodes a block whose checksum was found right before it was decrypted.
    ///
    /// # Errors
    /// As of [`LogBlock::decode`], but for the checksum.
    pub fn decode_checked(block: &[u8], pointer: &BlockPointer) -> Result<LogBlock, FormatError> {
        Self::read(block, pointer, None)
    }

    fn read(
        block: &[u8],
        pointer: &BlockPointer,
        hash: Option<&Hash<'_>>,
    ) -> Result<LogBlock, FormatError> {
        let mut from = Reader::new(NAME, block, Endian::Little);
        let (slim, at) =
            chain_at(pointer, block.len()).ok_or_else(|| from.wrong("chain", Problem::Short))?;
        from.seek("magic number", at + CHECKSUM_AT - 8)?;
        let magic = from.array("magic number")?;
        let endian = Endian::of_magic(magic, eck::MAGIC);
        let endian = endian
            .ok_or_else(|| from.wrong("magic number", Problem::Magic(u64::from_le_bytes(magic))))?;
        from.endian = endian;
        from.seek("chain", at)?;
        let chain: Chain = from.get("chain")?;
        let wrong_used = || from.wrong_at("used", at + 136, Problem::Value(chain.used));
        let used = usize::try_from(chain.used).map_err(|_| wrong_used())?;
        let (start, end, covered) = if slim {
            let covered = used.checked_next_multiple_of(CHECKSUM_UNIT).ok_or_else(wrong_used)?;
            (Chain::BYTES, used, covered)
        } else {
            (0, used, block.len())
        };
        let limit = if slim { block.len() } else { at };
        if end < start || end > limit || covered > block.len() {
            return Err(wrong_used());
        }
        if let Some(hash) = hash {
            let mut found = chain.trailer.checksum;
            let mut sum = digest(&block[..covered], at, pointer, endian, hash);
            if pointer.uses_crypt() {
                let [a, b, c, d] = sum.words;
                sum.words = [a ^ c, b ^ d, 0, 0];
                found.words[2..].fill(0);
            }
            if found != sum {
                return Err(from.wrong_at("checksum", at + CHECKSUM_AT, Problem::Checksum));
            }
        }
        let mut next = pointer.checksum();
        next.words[SEQUENCE_WORD] = next.words[SEQUENCE_WORD].wrapping_add(1);
        if chain.next.checksum() != next {
            return Err(from.wrong_at("next block", at + 8, Problem::Checksum));
        }
        Ok(LogBlock { next: chain.next, records: block[start..end].to_vec(), endian })
    }

    /// The block of so many bytes for this pointer.
    ///
    /// # Errors
    /// The records don't fit, or the pointer's checksum is none of a log, or is of an encrypted block.
    pub fn encode(
        &self,
        bytes: usize,
        pointer: &BlockPointer,
        hash: impl Fn(&[u8], Endian) -> Checksum,
    ) -> Result<Vec<u8>, FormatError> {
        let mut block = vec![0; bytes];
        if let Some(place) = records_in(pointer, bytes)
            && let Some(place) = block[place].get_mut(..self.records.len())
        {
            place.copy_from_slice(&self.records);
        }
        Self::seal(&mut block, self.records.len(), &self.next, self.endian, pointer, hash)?;
        Ok(block)
    }

    /// Makes bytes that have their records in [place](records_in), `records` bytes of them, the block of this pointer.
    ///
    /// # Errors
    /// As of [`LogBlock::encode`].
    pub fn seal(
        block: &mut [u8],
        records: usize,
        next: &BlockPointer,
        endian: Endian,
        pointer: &BlockPointer,
        hash: impl Fn(&[u8], Endian) -> Checksum,
    ) -> Result<(), FormatError> {
        let wrong = |problem| FormatError { structure: NAME, field: "records", offset: 0, problem };
        let short = || wrong(Problem::Short);
        let (slim, at) = chain_at(pointer, block.len()).ok_or_else(short)?;
        let place = records_in(pointer, block.len()).ok_or_else(short)?;
        if pointer.uses_crypt() {
            return Err(wrong(Problem::Type));
        }
        if records > place.len() {
            let (found, limit) = (records as u64, place.len() as u64);
            return Err(wrong(Problem::Limit { found, limit }));
        }
        let used = place.start + records;
        let covered = if slim { used.next_multiple_of(CHECKSUM_UNIT) } else { block.len() };
        if covered > block.len() {
            return Err(short());
        }
        // The checksum is of what has the verifier in its place.
        let trailer = EmbeddedChecksum { magic: eck::MAGIC, checksum: pointer.checksum() };
        let chain = Chain { padding: 0, next: *next, used: used as u64, trailer };
        block[used..place.end].fill(0);
        block[at..at + Chain::BYTES].copy_from_slice(&chain.encode(endian));
        let checksum = hash(&block[..covered], endian);
        let at = at + CHECKSUM_AT;
        block[at..at + Checksum::BYTES].copy_from_slice(&checksum.encode(endian));
        Ok(())
    }
}

/// Where in a block of so many bytes its records lie; none where the pointer's checksum is none of a log.
pub fn records_in(pointer: &BlockPointer, bytes: usize) -> Option<Range<usize>> {
    let (slim, at) = chain_at(pointer, bytes)?;
    Some(if slim { Chain::BYTES..bytes } else { 0..at })
}

/// The hash of what is covered, with the verifier in the checksum's place.
fn digest(
    covered: &[u8],
    chain_at: usize,
    pointer: &BlockPointer,
    endian: Endian,
    hash: impl Fn(&[u8], Endian) -> Checksum,
) -> Checksum {
    let mut bytes = covered.to_vec();
    let at = chain_at + CHECKSUM_AT;
    if let Some(place) = bytes.get_mut(at..at + Checksum::BYTES) {
        place.copy_from_slice(&pointer.checksum().encode(endian));
    }
    hash(&bytes, endian)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8], endian: Endian) -> Checksum {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| endian.u64(*word));
        let mix = |sum: u64, word: u64| sum.rotate_left(7).wrapping_add(word);
        Checksum { words: [words.fold(0, mix), 1, 2, 3] }
    }

    fn pointer(function: ChecksumFunction, sequence: u64) -> BlockPointer {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_checksum_function(function);
        pointer.set_checksum(Checksum { words: [11, 12, 13, sequence] });
        pointer
    }

    #[test]
    fn an_encrypted_block_has_a_folded_checksum_beside_its_mac() {
        let mut here = pointer(ChecksumFunction::Zilog2, 4);
        let next = pointer(ChecksumFunction::Zilog2, 5);
        let block = LogBlock { next, records: vec![9; 500], endian: Endian::Little };
        let mut bytes = block.encode(4096, &here, sum).expect("it fits");
        here.set_uses_crypt(true);
        assert!(block.encode(4096, &here, sum).is_err(), "who encrypts makes the checksum");
        assert!(LogBlock::decode(&bytes, &here, sum).is_err(), "not folded");
        // The sum is (x, 1, 2, 3).
        bytes[CHECKSUM_AT] ^= 2;
        bytes[CHECKSUM_AT + 8] ^= 3;
        bytes[CHECKSUM_AT + 16..CHECKSUM_AT + 32].copy_from_slice(b"any MAC, 16 byte");
        assert_eq!(LogBlock::decode(&bytes, &here, sum), Ok(block));
        bytes[CHECKSUM_AT] ^= 2;
        assert!(LogBlock::decode(&bytes, &here, sum).is_err());
    }

    #[test]
    fn blocks_of_both_kinds_come_out_as_they_went_in() {
        crate::wire::checks::holds_for_any_bytes::<ZilHeader>();
        crate::wire::checks::holds_for_any_bytes::<Chain>();
        for function in [ChecksumFunction::Zilog, ChecksumFunction::Zilog2] {
            for endian in [Endian::Little, Endian::Big] {
                let here = pointer(function, 4);
                let block = LogBlock { next: pointer(function, 5), records: vec![9; 5000], endian };
                let mut bytes = block.encode(12288, &here, sum).expect("it fits");
                assert_eq!(LogBlock::decode(&bytes, &here, sum), Ok(block.clone()));
                let other = pointer(function, 5);
                assert!(LogBlock::decode(&bytes, &other, sum).is_err(), "not its verifier");
                // A zilog2 block counts up to a multiple of 4 KiB.
                for len in (0..8192).step_by(37) {
                    assert!(LogBlock::decode(&bytes[..len], &here, sum).is_err());
                }
                bytes[4000] ^= 1;
                let error = LogBlock::decode(&bytes, &here, sum).expect_err("a flipped bit");
                assert_eq!(error.problem, Problem::Checksum);
                let stray = LogBlock { next: pointer(function, 6), ..block.clone() };
                let bytes = stray.encode(12288, &here, sum).expect("it fits");
                assert_eq!(
                    LogBlock::decode(&bytes, &here, sum).expect_err("a gap").field,
                    "next block"
                );
                assert!(block.encode(4096, &here, sum).is_err());
            }
        }
        assert!(LogBlock::decode(&[0; 4096], &BlockPointer::HOLE, sum).is_err());
    }
}
