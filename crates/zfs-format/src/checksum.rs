//! Checksums: the 256 bits themselves, and the functions by their numbers and names.
//!
//! Here is which function a number means and what kind it is; the functions that run over whole blocks are
//! `codec`'s business. Only SHA-256 is used here, for labels, uberblocks and gang headers
//! (see [`embedded_checksum`](crate::embedded_checksum)).
//!
//! Source: OpenZFS, `zio_checksum.c`.

use crate::wire::record;

record! {
    /// Four words of a checksum, as numbers of the block's byte order.
    #[derive(Copy, Default)]
    Checksum = "checksum", 32, {
        /// The words.
        words: [u64; 4],
    }
}

/// A checksum function by its number in block pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the function of its name")]
#[repr(u8)]
pub enum ChecksumFunction {
    /// As the parent dataset's; never in a block pointer.
    Inherit = 0,
    /// The default, fletcher4; never in a block pointer.
    On,
    Off,
    /// SHA-256 in the block itself; the verifier is the place on the device.
    Label,
    /// SHA-256 in the block itself; the verifier is vdev, offset and birth.
    GangHeader,
    /// Fletcher2 at the end of an intent log block, before pool version 26.
    Zilog,
    Fletcher2,
    Fletcher4,
    Sha256,
    /// Fletcher4 at the front of an intent log block.
    Zilog2,
    NoParity,
    /// SHA-512/256.
    Sha512,
    Skein,
    Edonr,
    Blake3,
}

impl ChecksumFunction {
    /// All of them in the order of their numbers.
    pub const ALL: [ChecksumFunction; 15] = [
        ChecksumFunction::Inherit,
        ChecksumFunction::On,
        ChecksumFunction::Off,
        ChecksumFunction::Label,
        ChecksumFunction::GangHeader,
        ChecksumFunction::Zilog,
        ChecksumFunction::Fletcher2,
        ChecksumFunction::Fletcher4,
        ChecksumFunction::Sha256,
        ChecksumFunction::Zilog2,
        ChecksumFunction::NoParity,
        ChecksumFunction::Sha512,
        ChecksumFunction::Skein,
        ChecksumFunction::Edonr,
        ChecksumFunction::Blake3,
    ];

    /// The function of this number.
    pub fn from_code(code: u8) -> Option<ChecksumFunction> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Its number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it means: `on` is fletcher4.
    pub fn effective(self) -> ChecksumFunction {
        if self == ChecksumFunction::On { ChecksumFunction::Fletcher4 } else { self }
    }

    /// What metadata has where data has this: no less than fletcher4.
    pub fn for_metadata(self) -> ChecksumFunction {
        use ChecksumFunction::{Blake3, Edonr, Fletcher4, Sha256, Sha512, Skein};
        match self {
            Sha256 | Sha512 | Skein | Edonr | Blake3 => self,
            _ => Fletcher4,
        }
    }

    /// Whether blocks with equal sums are taken for equal without a look at them (OpenZFS: `ZCHECKSUM_FLAG_NOPWRITE`).
    pub fn is_for_no_write(self) -> bool {
        use ChecksumFunction::{Blake3, Edonr, Sha256, Sha512, Skein};
        matches!(self, Sha256 | Sha512 | Skein | Edonr | Blake3)
    }

    /// Its name in OpenZFS's words.
    pub fn name(self) -> &'static str {
        match self {
            ChecksumFunction::Inherit => "inherit",
            ChecksumFunction::On => "on",
            ChecksumFunction::Off => "off",
            ChecksumFunction::Label => "label",
            ChecksumFunction::GangHeader => "gang_header",
            ChecksumFunction::Zilog => "zilog",
            ChecksumFunction::Fletcher2 => "fletcher2",
            ChecksumFunction::Fletcher4 => "fletcher4",
            ChecksumFunction::Sha256 => "sha256",
            ChecksumFunction::Zilog2 => "zilog2",
            ChecksumFunction::NoParity => "noparity",
            ChecksumFunction::Sha512 => "sha512",
            ChecksumFunction::Skein => "skein",
            ChecksumFunction::Edonr => "edonr",
            ChecksumFunction::Blake3 => "blake3",
        }
    }

    /// Whether the checksum stands within the block it is of.
    pub fn is_embedded(self) -> bool {
        use ChecksumFunction::{GangHeader, Label, Zilog, Zilog2};
        matches!(self, Label | GangHeader | Zilog | Zilog2)
    }

    /// Whether the pool's salt goes into it.
    pub fn is_salted(self) -> bool {
        use ChecksumFunction::{Blake3, Edonr, Skein};
        matches!(self, Skein | Edonr | Blake3)
    }

    /// Whether equal checksums are taken for equal blocks, so that it can stand for a block in the
    /// deduplication table. An encrypted block's checksum by any other is folded: see
    /// [`BlockPointer::checksum`](crate::block_pointer::BlockPointer::checksum).
    pub fn is_for_dedup(self) -> bool {
        use ChecksumFunction::{Blake3, Sha256, Sha512, Skein};
        matches!(self, Sha256 | Sha512 | Skein | Blake3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_is_found_by_its_number() {
        for (code, function) in ChecksumFunction::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(function.code()), code);
            assert_eq!(ChecksumFunction::from_code(code as u8), Some(function));
        }
        assert_eq!(ChecksumFunction::from_code(15), None);
        assert_eq!(ChecksumFunction::Blake3.name(), "blake3");
        crate::wire::checks::holds_for_any_bytes::<Checksum>();
    }
}
