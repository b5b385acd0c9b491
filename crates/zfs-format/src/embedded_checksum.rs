//! Checksums that stand in the block they are of: labels, uberblocks, boot environments, gang headers.
//!
//! The last 40 bytes of such a block are a magic number and 32 bytes of checksum. The checksum is taken over the
//! whole block with a *verifier* in the place of the checksum: for labels the block's place on the device, so
//! that a block that was copied elsewhere is not believed; for a gang header its vdev, offset and birth. The magic
//! number shows the byte order, and the checksum's words are in that order.
//!
//! Intent log blocks have the same trailer with other functions: see [`zil`](crate::zil).
//!
//! Source: OpenZFS, `zio_checksum.c`, `zio.h`.

use crate::block_pointer::BlockPointer;
use crate::checksum::Checksum;
use crate::wire::{Endian, Reader, Record, record};
use sha2::{Digest, Sha256};
use stdx::bytes::{FormatError, Problem};

/// Marks the trailer, and its byte order.
pub const MAGIC: u64 = 0x0210_da7a_b10c_7a11;

record! {
    /// A magic number and a checksum: `zio_eck`.
    EmbeddedChecksum = "embedded checksum", 40, {
        /// [`MAGIC`], read in the right order.
        magic: u64,
        /// The checksum.
        checksum: Checksum,
    }
}

/// Bytes of the trailer.
pub const BYTES: usize = 40;

/// What stands for the checksum while that of a label's block is taken: its place on the device, in bytes.
pub fn label_verifier(place: u64) -> Checksum {
    Checksum { words: [place, 0, 0, 0] }
}

/// What stands for the checksum while that of a gang header is taken.
pub fn gang_verifier(pointer: &BlockPointer) -> Checksum {
    let dva = pointer.dva(0);
    Checksum { words: [dva.vdev().into(), dva.offset(), pointer.physical_birth(), 0] }
}

/// SHA-256 as ZFS stores it: four words, the digest's bytes from the most significant on.
pub fn sha256(parts: &[&[u8]]) -> Checksum {
    let mut digest = Sha256::new();
    parts.iter().for_each(|part| digest.update(part));
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(digest.finalize().as_slice().as_chunks::<8>().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    Checksum { words }
}

/// Checks the SHA-256 at the end of a block, and says the block's byte order.
///
/// # Errors
/// There is no trailer, or the checksum is another.
pub fn check(
    structure: &'static str,
    block: &[u8],
    verifier: Checksum,
) -> Result<Endian, FormatError> {
    check_as(structure, block, verifier, false)
}

/// As [`check`], of a block whose pointer is that of an encrypted one: of the checksum the first half counts, with the
/// second half folded in.
///
/// # Errors
/// As of [`check`].
pub fn check_folded(
    structure: &'static str,
    block: &[u8],
    verifier: Checksum,
) -> Result<Endian, FormatError> {
    check_as(structure, block, verifier, true)
}

fn check_as(
    structure: &'static str,
    block: &[u8],
    verifier: Checksum,
    folded: bool,
) -> Result<Endian, FormatError> {
    let mut from = Reader::new(structure, block, Endian::Little);
    let at = block.len().checked_sub(BYTES);
    let at = at.ok_or_else(|| from.wrong("embedded checksum", Problem::Short))?;
    from.seek("embedded checksum", at)?;
    let magic = from.array("magic number")?;
    let endian = Endian::of_magic(magic, MAGIC).ok_or_else(|| {
        from.wrong_at("magic number", at, Problem::Magic(u64::from_le_bytes(magic)))
    })?;
    from.endian = endian;
    let mut stored: Checksum = from.get("checksum")?;
    let mut expected = hash(block, verifier, endian);
    if folded {
        expected = fold(expected);
        stored.words[2..].fill(0);
    }
    if stored != expected {
        return Err(from.wrong_at("checksum", at + 8, Problem::Checksum));
    }
    Ok(endian)
}

/// Puts magic number and checksum at the end of a block.
///
/// # Panics
/// The block is shorter than the trailer.
pub fn seal(block: &mut [u8], verifier: Checksum, endian: Endian) {
    let at = block.len().checked_sub(BYTES).expect("the block has room for its checksum");
    block[at..at + 8].copy_from_slice(&endian.bytes(MAGIC));
    seal_as(block, at, hash(block, verifier, endian), endian);
}

/// As [`seal`], of a block whose pointer is that of an encrypted one.
///
/// # Panics
/// The block is shorter than the trailer.
pub fn seal_folded(block: &mut [u8], verifier: Checksum, endian: Endian) {
    let at = block.len().checked_sub(BYTES).expect("the block has room for its checksum");
    block[at..at + 8].copy_from_slice(&endian.bytes(MAGIC));
    seal_as(block, at, fold(hash(block, verifier, endian)), endian);
}

fn fold(Checksum { words: [a, b, c, d] }: Checksum) -> Checksum {
    Checksum { words: [a ^ c, b ^ d, 0, 0] }
}

fn seal_as(block: &mut [u8], at: usize, checksum: Checksum, endian: Endian) {
    block[at + 8..].copy_from_slice(&checksum.encode(endian));
}

/// The hash of a block with the verifier in place of its last 32 bytes.
fn hash(block: &[u8], verifier: Checksum, endian: Endian) -> Checksum {
    let body = block.get(..block.len().saturating_sub(32)).unwrap_or_default();
    sha256(&[body, &verifier.encode(endian)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_sealed_block_is_believed_at_its_place_only(
            data in proptest::collection::vec(any::<u8>(), 40..200),
            place in any::<u64>(),
            bit in any::<prop::sample::Index>(),
        ) {
            for endian in [Endian::Little, Endian::Big] {
                let mut block = data.clone();
                seal(&mut block, label_verifier(place), endian);
                prop_assert_eq!(check("test", &block, label_verifier(place)), Ok(endian));
                prop_assert!(check("test", &block, label_verifier(place ^ 1)).is_err());
                prop_assert!(check("test", &block[1..], label_verifier(place)).is_err());
                let bit = bit.index(block.len() * 8);
                block[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(check("test", &block, label_verifier(place)).is_err());
            }
        }
    }

    #[test]
    fn what_is_too_short_has_no_checksum() {
        for len in 0..BYTES {
            assert!(check("test", &vec![0; len], Checksum::default()).is_err());
        }
        crate::wire::checks::holds_for_any_bytes::<EmbeddedChecksum>();
    }
}
