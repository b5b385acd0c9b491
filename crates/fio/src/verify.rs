//! Blocks that can be checked when they are read back.
//!
//! Each `verify_interval` of a written block begins with a header: a mark, the kind of checksum, the
//! place and length, the number of the write, and a checksum of these; behind it the checksum of the
//! rest. A read-back block must have the header that belongs to its place, from the last write of it,
//! and bytes that match. `verify=pattern` has no header: all bytes must be the pattern.
//!
//! The header is our own: fio's carries a seed that only fio's random numbers give, so neither program
//! checks what the other wrote.

use super::data::fill_with_pattern;
use super::spec::{Checksum, Verify};
use crc::{Algorithm, Table};
use sha2::Digest;
use std::collections::BTreeMap;

/// Marks a header.
const MARK: u32 = 0x5056_4644;
/// Mark, kind, place, length, number, checksum of these.
const HEADER_BYTES: usize = 4 + 4 + 8 + 8 + 8 + 8;

/// Pieces that are remembered for verification at the most: some 2 GiB of memory.
pub(super) const PIECES_MAX: usize = 32 << 20;

/// Bytes of the header with its checksum.
pub(super) fn header_bytes(checksum: Checksum) -> u64 {
    let digest = match checksum {
        Checksum::PatternOnly | Checksum::Null => return 1,
        Checksum::Meta | Checksum::Pattern => 0,
        Checksum::Crc7 | Checksum::Crc16 | Checksum::Crc32 | Checksum::Crc32c => 8,
        Checksum::Crc64 => 8,
        Checksum::Sha256 => 32,
        Checksum::Sha512 => 64,
    };
    HEADER_BYTES as u64 + digest
}

/// Makes a block ready to be written at `offset`, as write number `number`.
pub(super) fn seal(block: &mut [u8], verify: &Verify, offset: u64, number: u64) {
    let Some(checksum) = verify.checksum else { return };
    if checksum == Checksum::Null {
        return;
    }
    if !verify.pattern.is_empty() {
        fill_with_pattern(block, &verify.pattern);
    }
    if checksum == Checksum::PatternOnly {
        return;
    }
    let interval = verify.interval.max(1) as usize;
    for (index, part) in block.chunks_mut(interval).enumerate() {
        let place = offset + (index * interval) as u64;
        let (head, body) = part.split_at_mut(header_bytes(checksum) as usize);
        if checksum == Checksum::Pattern {
            fill_with_pattern(body, &verify.pattern);
        }
        let len = (head.len() + body.len()) as u64;
        head[..HEADER_BYTES].copy_from_slice(&header(checksum, place, len, number));
        digest(checksum, body, &mut head[HEADER_BYTES..]);
    }
}

/// What is wrong with a block that was read from `offset`; `number` is that of its last write, where it
/// is known.
pub(super) fn check(
    block: &[u8],
    verify: &Verify,
    offset: u64,
    number: Option<u64>,
) -> Result<(), &'static str> {
    let Some(checksum) = verify.checksum else { return Ok(()) };
    match checksum {
        Checksum::Null => return Ok(()),
        Checksum::PatternOnly => {
            return match is_pattern(block, &verify.pattern) {
                true => Ok(()),
                false => Err("the bytes are not the pattern"),
            };
        }
        _ => {}
    }
    let interval = verify.interval.max(1) as usize;
    for (index, part) in block.chunks(interval).enumerate() {
        let place = offset + (index * interval) as u64;
        let head = header_bytes(checksum) as usize;
        let (head, body) =
            part.split_at_checked(head).ok_or("the block is shorter than its header")?;
        if head[..4] != MARK.to_le_bytes() {
            return Err("there is no header; the block was never written, or by somebody else");
        }
        let (fixed, stored) = head.split_at(HEADER_BYTES);
        let written: [u8; 8] = std::array::from_fn(|at| fixed[24 + at]);
        let written = u64::from_le_bytes(written);
        if *fixed != header(checksum, place, (head.len() + body.len()) as u64, written) {
            return Err("the header is of another place, length or kind, or damaged");
        }
        if verify.write_sequence && number.is_some_and(|number| number != written) {
            return Err("the block is of an older write");
        }
        if checksum == Checksum::Pattern && !is_pattern(body, &verify.pattern) {
            return Err("the bytes are not the pattern");
        }
        let mut expected = [0; 64];
        let expected = &mut expected[..stored.len()];
        digest(checksum, body, expected);
        if stored != expected {
            return Err("the checksum does not match the bytes");
        }
    }
    Ok(())
}

fn is_pattern(block: &[u8], pattern: &[u8]) -> bool {
    block.chunks(pattern.len().max(1)).all(|part| pattern.starts_with(part))
}

fn header(checksum: Checksum, place: u64, len: u64, number: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&MARK.to_le_bytes());
    bytes[4..8].copy_from_slice(&(checksum as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&place.to_le_bytes());
    bytes[16..24].copy_from_slice(&len.to_le_bytes());
    bytes[24..32].copy_from_slice(&number.to_le_bytes());
    let sum = CRC64.checksum(&bytes[..32]);
    bytes[32..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn digest(checksum: Checksum, body: &[u8], into: &mut [u8]) {
    let crc: u64 = match checksum {
        Checksum::Crc7 => CRC7.checksum(body).into(),
        Checksum::Crc16 => CRC16.checksum(body).into(),
        Checksum::Crc32 => CRC32.checksum(body).into(),
        Checksum::Crc32c => CRC32C.checksum(body).into(),
        Checksum::Crc64 => CRC64.checksum(body),
        Checksum::Sha256 => return into.copy_from_slice(&sha2::Sha256::digest(body)),
        Checksum::Sha512 => return into.copy_from_slice(&sha2::Sha512::digest(body)),
        Checksum::Meta | Checksum::Pattern | Checksum::PatternOnly | Checksum::Null => return,
    };
    into.copy_from_slice(&crc.to_le_bytes());
}

type Crc<T> = crc::Crc<T, Table<16>>;

/// Reflected, as all the others: the catalogue has none of 7 bits that is.
const CRC_7: Algorithm<u8> = Algorithm {
    width: 7,
    poly: 0x09,
    init: 0x7f,
    refin: true,
    refout: true,
    xorout: 0x7f,
    check: 0,
    residue: 0,
};
static CRC7: Crc<u8> = Crc::<u8>::new(&CRC_7);
static CRC16: Crc<u16> = Crc::<u16>::new(&crc::CRC_16_USB);
static CRC32: Crc<u32> = Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
static CRC32C: Crc<u32> = Crc::<u32>::new(&crc::CRC_32_ISCSI);
static CRC64: Crc<u64> = Crc::<u64>::new(&crc::CRC_64_XZ);

/// What was written and is to be read back: the last write of each place.
#[derive(Default)]
pub(super) struct Written {
    pieces: BTreeMap<(usize, u64), (u64, u64)>,
    longest: u64,
}

/// One piece of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) number: u64,
}

impl Written {
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Remembers a write; what it overwrote is forgotten.
    pub(super) fn insert(&mut self, piece: Piece) {
        self.longest = self.longest.max(piece.len);
        let end = piece.offset.saturating_add(piece.len);
        let from = piece.offset.saturating_sub(self.longest);
        let over: Vec<(usize, u64)> = self
            .pieces
            .range((piece.file, from)..(piece.file, end))
            .filter(|((_, offset), (len, _))| offset + len > piece.offset)
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            self.pieces.remove(&key);
        }
        self.pieces.insert((piece.file, piece.offset), (piece.len, piece.number));
    }

    /// Forgets a piece that could not be written.
    pub(super) fn forget(&mut self, file: usize, offset: u64) {
        self.pieces.remove(&(file, offset));
    }

    /// The first piece, which is forgotten.
    pub(super) fn take(&mut self) -> Option<Piece> {
        let ((file, offset), (len, number)) = self.pieces.pop_first()?;
        Some(Piece { file, offset, len, number })
    }
}

#[cfg(test)]
mod tests {
    //! What could break: damage that a check does not see; a stale or misplaced block that passes.

    use super::*;

    const ALL: [Checksum; 9] = [
        Checksum::Meta,
        Checksum::Pattern,
        Checksum::Crc7,
        Checksum::Crc16,
        Checksum::Crc32,
        Checksum::Crc32c,
        Checksum::Crc64,
        Checksum::Sha256,
        Checksum::Sha512,
    ];

    fn verify(checksum: Checksum) -> Verify {
        let pattern = vec![0xaa, 0x55, 1];
        Verify { checksum: Some(checksum), interval: 512, pattern, ..Verify::default() }
    }

    #[test]
    fn checksums_are_the_published_ones() {
        let digits = b"123456789";
        assert_eq!(CRC32.checksum(digits), 0xcbf4_3926);
        assert_eq!(CRC32C.checksum(digits), 0xe306_9283);
        assert_eq!(CRC64.checksum(digits), 0x995d_c9bb_df19_39fa);
        // CRC-16/USB: the polynomial 0x8005 with this beginning and end.
        assert_eq!(CRC16.checksum(digits), 0xb4c8);
        // As the tables gave it that stood here before, bit by bit.
        let mut sum = 0x7f;
        for byte in digits {
            sum ^= byte;
            for _ in 0..8 {
                sum = if sum & 1 == 1 { sum >> 1 ^ 0x48 } else { sum >> 1 };
            }
        }
        assert_eq!(CRC7.checksum(digits), sum ^ 0x7f);
    }

    #[test]
    fn a_damaged_byte_is_found_by_every_kind() {
        for checksum in ALL {
            let verify = verify(checksum);
            let mut block = vec![7; 1024];
            seal(&mut block, &verify, 4096, 3);
            assert_eq!(check(&block, &verify, 4096, Some(3)), Ok(()), "{checksum:?}");
            assert!(check(&block, &verify, 8192, Some(3)).is_err(), "{checksum:?}: misplaced");
            assert!(check(&block, &verify, 4096, Some(4)).is_err(), "{checksum:?}: stale");
            block[20] ^= 1;
            assert!(check(&block, &verify, 4096, Some(3)).is_err(), "{checksum:?}: header");
            block[20] ^= 1;
            block[1000] ^= 1;
            let damaged = check(&block, &verify, 4096, Some(3)).is_err();
            assert_eq!(damaged, checksum != Checksum::Meta, "{checksum:?}: data");
        }
    }

    #[test]
    fn a_later_write_takes_the_place_of_all_it_covers() {
        let piece = |offset, len, number| Piece { file: 0, offset, len, number };
        let mut written = Written::default();
        for piece in [piece(0, 4, 1), piece(4, 4, 2), piece(8, 8, 3), piece(2, 8, 4)] {
            written.insert(piece);
        }
        assert_eq!(written.take(), Some(piece(2, 8, 4)));
        assert_eq!((written.len(), written.take()), (0, None));
    }
}
