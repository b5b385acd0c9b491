//! Labels: four on each leaf device, two at its front and two at its end.
//!
//! ```text
//!   label, 256 KiB:                                    device:
//!     0     8 KiB    blank                               0        label 0
//!     8    8 KiB     boot environment                    256 KiB  label 1
//!     16   112 KiB   configuration: an XDR nvlist        512 KiB  3.5 MiB for a boot loader
//!     128  128 KiB   ring of uberblocks                  4 MiB    data
//!                                                        …        label 2, label 3
//! ```
//!
//! Boot environment, configuration and each uberblock's slot end in a checksum whose verifier is the block's
//! place on the device ([`embedded_checksum`](crate::embedded_checksum)). Labels 0 and 2 are written before the
//! others, so that one pair is whole whenever the power goes.
//!
//! The labels at the end stand on a multiple of 256 KiB: the rest of the device after that is not used.
//! A slot of the ring is 1 KiB, or the device's sector where that is larger (`ashift`), up to 8 KiB. The slot of
//! a transaction group is its remainder by the number of slots; with multi-modifier protection the last slot is
//! kept for it.
//!
//! Source: OpenZFS, `vdev_impl.h`, `vdev_label.c`.

use crate::embedded_checksum as eck;
use crate::nvlist::{Encoding, NvList};
use crate::uberblock::Uberblock;
use crate::wire::{Endian, Reader, Record, Writer};
use stdx::bytes::{FormatError, Problem};

/// Bytes of a label.
pub const LABEL_BYTES: u64 = 256 << 10;
/// Labels on a device.
pub const LABELS: usize = 4;
/// Where data begins: after two labels and room for a boot loader, in bytes.
pub const DATA_START: u64 = 4 << 20;
/// Bytes at the end of a device that its last two labels take.
pub const DATA_END: u64 = 2 * LABEL_BYTES;
/// Where the boot environment stands in a label, in bytes.
pub const BOOT_AT: u64 = 8 << 10;
/// Bytes of the boot environment, checksum included.
pub const BOOT_BYTES: usize = 8 << 10;
/// Where the configuration stands in a label, in bytes.
pub const CONFIGURATION_AT: u64 = 16 << 10;
/// Bytes of the configuration, checksum included.
pub const CONFIGURATION_BYTES: usize = 112 << 10;
/// Where the ring of uberblocks stands in a label, in bytes.
pub const RING_AT: u64 = 128 << 10;
/// Bytes of the ring.
pub const RING_BYTES: u64 = 128 << 10;

/// Bytes of the smallest and the largest slot, as powers of two.
const SLOT_SHIFTS: (u32, u32) = (10, 13);

/// Where a label begins on a device of this size; nothing where the device is too small for labels.
pub fn label_at(number: usize, device_bytes: u64) -> Option<u64> {
    let whole = device_bytes - device_bytes % LABEL_BYTES;
    if whole < LABELS as u64 * LABEL_BYTES {
        return None;
    }
    match number {
        0 | 1 => Some(number as u64 * LABEL_BYTES),
        2 | 3 => Some(whole - (LABELS - number) as u64 * LABEL_BYTES),
        _ => None,
    }
}

/// The ring of uberblocks of devices with this `ashift` (their sector's size as a power of two).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    slot_shift: u32,
}

impl Ring {
    /// The ring for an `ashift`.
    pub fn new(ashift: u64) -> Ring {
        let (min, max) = SLOT_SHIFTS;
        let slot_shift = ashift.clamp(min.into(), max.into()) as u32;
        Ring { slot_shift }
    }

    /// Bytes of a slot.
    pub fn slot_bytes(self) -> usize {
        1 << self.slot_shift
    }

    /// How many slots there are.
    pub fn slots(self) -> u64 {
        RING_BYTES >> self.slot_shift
    }

    /// Where a slot stands in its label, in bytes; nothing where there is no such slot.
    pub fn slot_at(self, slot: u64) -> Option<u64> {
        (slot < self.slots()).then(|| RING_AT + (slot << self.slot_shift))
    }

    /// The slot of a transaction group, where so many of the last slots are kept for multi-modifier
    /// protection (0 or 1).
    pub fn slot_of(self, txg: u64, kept: u64) -> u64 {
        txg % (self.slots() - kept.min(self.slots() - 1))
    }
}

/// The block of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// What it says.
    pub list: NvList,
    /// How the list is packed.
    pub encoding: Encoding,
    /// The byte order of the checksum.
    pub endian: Endian,
}

const CONFIGURATION: &str = "label";

impl Configuration {
    /// Decodes the 112 KiB that begin at this place of the device.
    ///
    /// # Errors
    /// They are fewer, the checksum is wrong, or the list is none.
    pub fn decode(bytes: &[u8], place: u64) -> Result<Configuration, FormatError> {
        let mut from = Reader::new(CONFIGURATION, bytes, Endian::Little);
        let block = from.take("configuration", CONFIGURATION_BYTES)?;
        let endian = eck::check(CONFIGURATION, block, eck::label_verifier(place))?;
        let (list, encoding, _) = NvList::decode(&block[..CONFIGURATION_BYTES - eck::BYTES])?;
        Ok(Configuration { list, encoding, endian })
    }

    /// The 112 KiB for this place of a device.
    ///
    /// # Errors
    /// The list is longer than the block.
    pub fn encode(&self, place: u64) -> Result<Vec<u8>, FormatError> {
        let list = self.list.encode(self.encoding);
        let mut block = in_block(CONFIGURATION, &list, 0, CONFIGURATION_BYTES)?;
        eck::seal(&mut block, eck::label_verifier(place), self.endian);
        Ok(block)
    }
}

/// Bytes at a place of a block that ends in a checksum.
fn in_block(
    structure: &'static str,
    bytes: &[u8],
    at: usize,
    len: usize,
) -> Result<Vec<u8>, FormatError> {
    let mut block = vec![0; len];
    match block.get_mut(at..len - eck::BYTES).and_then(|body| body.get_mut(..bytes.len())) {
        Some(place) => place.copy_from_slice(bytes),
        None => {
            let (found, limit) = (bytes.len() as u64, (len - at - eck::BYTES) as u64);
            let problem = Problem::Limit { found, limit };
            return Err(FormatError { structure, field: "content", offset: at, problem });
        }
    }
    Ok(block)
}

/// The boot environment: what a boot loader keeps in the label.
#[derive(Clone, Debug, PartialEq)]
pub enum BootEnvironment {
    /// Text of GRUB's, up to its first zero; empty where there is none.
    Raw(Vec<u8>),
    /// A packed list.
    List(NvList, Encoding),
}

const BOOT: &str = "boot environment";

impl BootEnvironment {
    /// Decodes the 8 KiB that begin at this place of the device. A block of zeros, which pools from before
    /// boot environments have, is an empty text.
    ///
    /// # Errors
    /// They are fewer, the checksum is wrong, the version unknown or the list none.
    pub fn decode(bytes: &[u8], place: u64) -> Result<BootEnvironment, FormatError> {
        let mut from = Reader::new(BOOT, bytes, Endian::Little);
        let block = from.take("block", BOOT_BYTES)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(BootEnvironment::Raw(Vec::new()));
        }
        let endian = eck::check(BOOT, block, eck::label_verifier(place))?;
        let mut from = Reader::new(BOOT, &block[..BOOT_BYTES - eck::BYTES], endian);
        match from.u64("version")? {
            0 => {
                let text = from.take("text", from.left())?;
                let text = text.iter().copied().take_while(|byte| *byte != 0).collect();
                Ok(BootEnvironment::Raw(text))
            }
            1 => {
                let (list, encoding, _) = NvList::decode(from.take("list", from.left())?)?;
                Ok(BootEnvironment::List(list, encoding))
            }
            other => Err(from.wrong_at("version", 0, Problem::Version(other))),
        }
    }

    /// The 8 KiB for this place of a device.
    ///
    /// # Errors
    /// It is longer than the block.
    pub fn encode(&self, place: u64, endian: Endian) -> Result<Vec<u8>, FormatError> {
        let (version, content) = match self {
            BootEnvironment::Raw(text) => (0u64, text.clone()),
            BootEnvironment::List(list, encoding) => (1, list.encode(*encoding)),
        };
        let mut block = in_block(BOOT, &content, 8, BOOT_BYTES)?;
        block[..8].copy_from_slice(&endian.bytes(version));
        eck::seal(&mut block, eck::label_verifier(place), endian);
        Ok(block)
    }
}

/// Decodes the uberblock of a slot that begins at this place of the device.
///
/// # Errors
/// It is none, or the checksum is wrong.
pub fn decode_slot(slot: &[u8], place: u64) -> Result<(Uberblock, Endian), FormatError> {
    let found = Uberblock::from_slot(slot)?;
    eck::check(Uberblock::NAME, slot, eck::label_verifier(place))?;
    Ok(found)
}

/// A slot with an uberblock, for this place of a device.
pub fn encode_slot(uberblock: &Uberblock, ring: Ring, place: u64, endian: Endian) -> Vec<u8> {
    let mut to = Writer::new(endian);
    to.put(uberblock.clone());
    to.zeros_to(ring.slot_bytes());
    let mut slot = to.into_bytes();
    eck::seal(&mut slot, eck::label_verifier(place), endian);
    slot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvlist::Value;
    use crate::uberblock;

    #[test]
    fn labels_stand_on_multiples_of_their_size() {
        let device = 10 * LABEL_BYTES + 5;
        let places: Vec<_> = (0..5).map(|number| label_at(number, device)).collect();
        let at = |n: u64| Some(n * LABEL_BYTES);
        assert_eq!(places, [at(0), at(1), at(8), at(9), None]);
        assert_eq!(label_at(0, 4 * LABEL_BYTES - 1), None);
    }

    #[test]
    fn slots_grow_with_the_sector_up_to_8_kib() {
        for (ashift, bytes, slots) in [(0, 1024, 128), (9, 1024, 128), (12, 4096, 32)] {
            let ring = Ring::new(ashift);
            assert_eq!((ring.slot_bytes(), ring.slots()), (bytes, slots));
        }
        let ring = Ring::new(u64::MAX);
        assert_eq!((ring.slot_bytes(), ring.slots()), (8192, 16));
        assert_eq!((ring.slot_of(16, 0), ring.slot_of(16, 1)), (0, 1));
        assert_eq!((ring.slot_at(15), ring.slot_at(16)), (Some(256 * 1024 - 8192), None));
    }

    #[test]
    fn what_is_put_into_a_label_comes_out_at_its_place_only() {
        let mut list = NvList::default();
        list.set("txg", Value::Uint64(4));
        for endian in [Endian::Little, Endian::Big] {
            let encoding = Encoding::Xdr(endian);
            let configuration = Configuration { list: list.clone(), encoding, endian };
            let bytes = configuration.encode(CONFIGURATION_AT).expect("it fits");
            assert_eq!(Configuration::decode(&bytes, CONFIGURATION_AT), Ok(configuration));
            assert!(Configuration::decode(&bytes, CONFIGURATION_AT + LABEL_BYTES).is_err());
            assert!(Configuration::decode(&bytes[1..], CONFIGURATION_AT).is_err());
            let boots = [
                BootEnvironment::Raw(b"timeout=5".to_vec()),
                BootEnvironment::List(list.clone(), encoding),
            ];
            for boot in boots {
                let bytes = boot.encode(BOOT_AT, endian).expect("it fits");
                assert_eq!(BootEnvironment::decode(&bytes, BOOT_AT), Ok(boot));
            }
            let mut block = Uberblock::decode(&[0; 216], Endian::Little).expect("zeros");
            block.magic = uberblock::MAGIC;
            block.version = uberblock::VERSION_FEATURES;
            let slot = encode_slot(&block, Ring::new(12), RING_AT, endian);
            assert_eq!(decode_slot(&slot, RING_AT), Ok((block, endian)));
            assert!(decode_slot(&slot, RING_AT + 4096).is_err());
        }
        let none = BootEnvironment::decode(&[0; BOOT_BYTES], BOOT_AT);
        assert_eq!(none, Ok(BootEnvironment::Raw(Vec::new())));
        let long = BootEnvironment::Raw(vec![1; BOOT_BYTES]);
        assert!(long.encode(BOOT_AT, Endian::Little).is_err());
    }
}
