//! Block reference tables: blocks that more than one pointer names because they were cloned.
//!
//! For each top-level vdev an object of the MOS. Its bonus is the [header](BrtVdev); its content is a count of 2
//! bytes for each range of 16 MiB, how many blocks of it are cloned, so that a free need not look up what was never
//! cloned. The references themselves are a ZAP: the block's offset on the vdev → how many pointers beyond the first.
//!
//! Source: OpenZFS, `brt_impl.h`, `brt.c`.

use crate::wire::{Endian, Reader, record};
use crate::zap::leaf::LeafValue;
use stdx::bytes::{FormatError, Problem};

record! {
    /// The header of a vdev's table.
    BrtVdev = "block reference table", 56, {
        /// The ZAP of references.
        entries: u64,
        /// How many ranges there are.
        ranges: u64,
        /// The byte order of the counts: 0 little, 1 big.
        byte_order: u64,
        /// Cloned blocks on the vdev.
        total_count: u64,
        /// Bytes of a range.
        range_bytes: u64,
        /// Bytes that cloned blocks take.
        used_bytes: u64,
        /// Bytes that cloning saves.
        saved_bytes: u64,
    }
}

impl BrtVdev {
    /// The byte order of the counts; nothing for a number that is none.
    pub fn counts_endian(&self) -> Option<Endian> {
        match self.byte_order {
            0 => Some(Endian::Little),
            1 => Some(Endian::Big),
            _ => None,
        }
    }
}

/// How many blocks of each range are cloned.
///
/// # Errors
/// The bytes are no multiple of 2.
pub fn counts(content: &[u8], endian: Endian) -> Result<Vec<u16>, FormatError> {
    let mut from = Reader::new("block reference counts", content, endian);
    (0..content.len().div_ceil(2)).map(|_| from.get("count")).collect()
}

/// How many pointers beyond the first name a block. The number stands as one of 8 bytes or as 8 bytes, in this order.
///
/// # Errors
/// It is neither.
pub fn references(value: &LeafValue, endian: Endian) -> Result<u64, FormatError> {
    match (value.number_bytes, value.number(), value.bytes()) {
        (8, Some(number), _) => Ok(number),
        (1, _, Some(bytes)) if bytes.len() == 8 => {
            Reader::new("block references", &bytes, endian).get("references")
        }
        _ => Err(FormatError {
            structure: "block references",
            field: "references",
            offset: 0,
            problem: Problem::Type,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_references_are_read_in_their_order() {
        crate::wire::checks::holds_for_any_bytes::<BrtVdev>();
        assert_eq!(counts(&[1, 0, 2, 0], Endian::Little), Ok(vec![1, 2]));
        assert!(counts(&[1, 0, 2], Endian::Little).is_err());
        let number = LeafValue { number_bytes: 8, numbers: vec![3] };
        let bytes = LeafValue { number_bytes: 1, numbers: vec![3, 0, 0, 0, 0, 0, 0, 0] };
        for value in [&number, &bytes] {
            assert_eq!(references(value, Endian::Little), Ok(3));
        }
        let short = LeafValue { number_bytes: 1, numbers: vec![3] };
        assert!(references(&short, Endian::Little).is_err());
    }
}
