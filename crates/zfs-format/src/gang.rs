//! Gang headers: a block that found no single free place, in up to three pieces.
//!
//! ```text
//!   0    three block pointers: the pieces in order, holes at the end; a piece may be a gang itself
//!   384  zeros
//!   472  magic number and SHA-256
//! ```
//!
//! The header is 512 bytes at each of the pointer's places. Its verifier is made of the pointer that leads to it
//! ([`gang_verifier`](crate::embedded_checksum::gang_verifier)), and so is the checksum of the whole content: the
//! pointer's own checksum is that of the assembled block. In an encrypted dataset only half of the header's checksum counts,
//! as of every block there.
//!
//! Source: OpenZFS, `zio.h`, `zio.c`.

use crate::block_pointer::BlockPointer;
use crate::embedded_checksum as eck;
use crate::object_type::ObjectType;
use crate::wire::{Endian, Reader, Wire, Writer};
use stdx::bytes::FormatError;

/// Bytes of a header.
pub const BYTES: usize = 512;
/// Pieces that a header lists.
pub const PIECES: usize = 3;
const NAME: &str = "gang header";

/// A gang header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangHeader {
    /// The pieces.
    pub pieces: [BlockPointer; PIECES],
}

impl GangHeader {
    /// Decodes the header that this pointer leads to.
    ///
    /// # Errors
    /// It is too short, or the checksum is another.
    pub fn decode(bytes: &[u8], pointer: &BlockPointer) -> Result<GangHeader, FormatError> {
        let block = Reader::new(NAME, bytes, Endian::Little).take("header", BYTES)?;
        let verifier = eck::gang_verifier(pointer);
        let endian = match is_folded(pointer) {
            false => eck::check(NAME, block, verifier)?,
            true => eck::check_folded(NAME, block, verifier)?,
        };
        let pieces = Reader::new(NAME, block, endian).get("pieces")?;
        Ok(GangHeader { pieces })
    }

    /// The bytes of the header that this pointer leads to.
    pub fn encode(&self, pointer: &BlockPointer, endian: Endian) -> Vec<u8> {
        let mut to = Writer::new(endian);
        self.pieces.write(&mut to);
        to.zeros_to(BYTES);
        let mut bytes = to.into_bytes();
        match is_folded(pointer) {
            false => eck::seal(&mut bytes, eck::gang_verifier(pointer), endian),
            true => eck::seal_folded(&mut bytes, eck::gang_verifier(pointer), endian),
        }
        bytes
    }

    /// Bytes that the pieces make together.
    pub fn logical_size(&self) -> u64 {
        let pieces = self.pieces.iter().filter(|piece| !piece.is_hole());
        pieces.map(BlockPointer::physical_size).fold(0, u64::saturating_add)
    }
}

/// Whether the checksum of the header is cut in half, as that of an encrypted block is for its MAC.
fn is_folded(pointer: &BlockPointer) -> bool {
    pointer.uses_crypt() && pointer.object_type() != ObjectType::OBJSET
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_pointer::Dva;

    #[test]
    fn the_header_of_an_encrypted_gang_has_half_a_checksum() {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_dva(0, Dva::new(1, 0x1000, 0x2000, true));
        let header = GangHeader { pieces: [BlockPointer::HOLE; PIECES] };
        let whole = header.encode(&pointer, Endian::Little);
        pointer.set_uses_crypt(true);
        let mut bytes = header.encode(&pointer, Endian::Little);
        assert_eq!(GangHeader::decode(&bytes, &pointer), Ok(header.clone()));
        assert!(GangHeader::decode(&whole, &pointer).is_err());
        bytes[BYTES - 1] ^= 1;
        assert_eq!(GangHeader::decode(&bytes, &pointer), Ok(header), "the second half is anything");
        bytes[BYTES - 17] ^= 1;
        assert!(GangHeader::decode(&bytes, &pointer).is_err());
    }

    #[test]
    fn a_header_is_believed_where_its_pointer_leads() {
        let mut pointer = BlockPointer::HOLE;
        pointer.set_dva(0, Dva::new(1, 0x1000, 0x2000, true));
        pointer.set_births(9, 9);
        let mut piece = BlockPointer::HOLE;
        piece.set_dva(0, Dva::new(0, 0x8000, 0x1000, false));
        piece.set_sizes(0x1000, 0x1000);
        let header = GangHeader { pieces: [piece, piece, BlockPointer::HOLE] };
        assert_eq!(header.logical_size(), 0x2000);
        for endian in [Endian::Little, Endian::Big] {
            let bytes = header.encode(&pointer, endian);
            assert_eq!(bytes.len(), BYTES);
            assert_eq!(GangHeader::decode(&bytes, &pointer), Ok(header.clone()));
            assert!(GangHeader::decode(&bytes[..BYTES - 1], &pointer).is_err());
            let mut elsewhere = pointer;
            elsewhere.set_births(10, 10);
            assert!(GangHeader::decode(&bytes, &elsewhere).is_err());
        }
    }
}
