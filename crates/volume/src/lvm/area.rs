//! A metadata area: a header of one sector, then the text in a ring.
//!
//! ```text
//!   0   checksum   of the rest of the header's 512 B
//!   4   magic      16 B
//!   20  version    1
//!   24  start      of the area on the device
//!   32  size       of the area
//!   40  texts      offset, size, checksum, flags of each, up to an offset of zero:
//!                  the first counts; the second one is being prepared
//! ```
//!
//! Offsets are from the area's start. A text that reaches the area's end goes on after the header. Texts
//! that are written here never do: there is room for two in any case.

use crate::lvm::checksum;
use stdx::bytes::{FormatError, Problem, Reader};

/// Of the header, and of the grain in which texts are placed.
pub const HEADER_BYTES: u64 = 512;
/// The longest text that is read, in bytes: LVM's areas have 1 MiB, and hold two.
pub const TEXT_BYTES_MAX: u64 = 16 << 20;
const MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";
const VERSION: u32 = 1;
/// The flag of a text that does not count.
const IGNORED: u32 = 1;

/// Where a text lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// From the area's start, in bytes.
    pub offset: u64,
    /// With the zero at its end, in bytes.
    pub len: u64,
    /// LVM's checksum of it.
    pub checksum: u32,
}

/// An area's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaHeader {
    /// Where the area begins on its device, in bytes.
    pub start: u64,
    /// Its length, in bytes.
    pub len: u64,
    /// The text that counts; none in a physical volume without a group.
    pub text: Option<Location>,
    /// Whether texts are not kept up to date here, on purpose.
    pub ignored: bool,
}

impl AreaHeader {
    /// The header in these bytes of an area at `start`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8], start: u64) -> Result<AreaHeader, FormatError> {
        let fields = Reader::little("LVM metadata area", bytes);
        let covered = fields.slice("header", 0, HEADER_BYTES as usize)?;
        if checksum(&covered[4..]) != fields.get_at::<u32>("checksum", 0)? {
            return Err(fields.wrong_at("checksum", 0, Problem::Checksum));
        }
        fields.magic_at("magic", 4, MAGIC)?;
        let version = fields.get_at::<u32>("version", 20)?;
        if version != VERSION {
            return Err(fields.wrong_at("version", 20, Problem::Version(version.into())));
        }
        let (own, len) = (fields.get_at::<u64>("start", 24)?, fields.get_at::<u64>("size", 32)?);
        if own != start {
            return Err(fields.wrong_at("start", 24, Problem::Value(own)));
        }
        if len < 2 * HEADER_BYTES {
            return Err(fields.wrong_at("size", 32, Problem::Value(len)));
        }
        let (offset, size) =
            (fields.get_at::<u64>("text offset", 40)?, fields.get_at::<u64>("text size", 48)?);
        let flags = fields.get_at::<u32>("text flags", 60)?;
        let text = match offset {
            0 => None,
            _ if offset < HEADER_BYTES || offset >= len => {
                return Err(fields.wrong_at("text offset", 40, Problem::Value(offset)));
            }
            _ if size == 0 || size > len - HEADER_BYTES || size > TEXT_BYTES_MAX => {
                return Err(fields.wrong_at("text size", 48, Problem::Value(size)));
            }
            _ => Some(Location {
                offset,
                len: size,
                checksum: fields.get_at::<u32>("text checksum", 56)?,
            }),
        };
        Ok(AreaHeader { start, len, text, ignored: flags & IGNORED != 0 })
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[4..20].copy_from_slice(MAGIC);
        bytes[20..24].copy_from_slice(&VERSION.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.start.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.len.to_le_bytes());
        if let Some(text) = &self.text {
            bytes[40..48].copy_from_slice(&text.offset.to_le_bytes());
            bytes[48..56].copy_from_slice(&text.len.to_le_bytes());
            bytes[56..60].copy_from_slice(&text.checksum.to_le_bytes());
        }
        let sum = checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The parts of the area that a text takes, each as offset and length: two where it goes round.
    pub fn parts(&self, text: &Location) -> [(u64, u64); 2] {
        let first = text.len.min(self.len - text.offset);
        [(text.offset, first), (HEADER_BYTES, text.len - first)]
    }

    /// Where the next text may lie, so that the present one stays as it is; `None` where it is too long.
    pub fn place(&self, len: u64) -> Option<u64> {
        let Some(present) = &self.text else {
            return (HEADER_BYTES + len <= self.len).then_some(HEADER_BYTES);
        };
        let [(first, first_len), (_, wrapped)] = self.parts(present);
        let behind = (first + first_len).next_multiple_of(HEADER_BYTES);
        let before = (HEADER_BYTES + wrapped).next_multiple_of(HEADER_BYTES);
        match wrapped {
            0 if behind + len <= self.len => Some(behind),
            _ if before + len <= first => Some(before),
            _ => None,
        }
    }
}
