//! The write-intent bitmap of a set that is not running.
//!
//! One for the whole set: what its members' copies say together. It is written to all devices, before each pass
//! over the superblocks and with events that are not older than theirs, since md takes a bitmap that is older than
//! the superblock as out of date and resynchronises everything. A device that joins gets it the same way.
//!
//! A larger set gets a bitmap of more bits, all set. Bits of what is right already (below `resync_offset`) cost a
//! clearing later; those of the new part must be set for it to be resynchronised. It is written before the new
//! size: a bitmap that is too large for a set harms nothing.

use crate::assemble::{self, AssembleError, Choice};
use crate::superblock::bitmap::{BitmapSuperblock, Bits, CHUNK_MAX, SUPERBLOCK_BYTES};
use crate::superblock::{Features, SECTOR};
use stdx::ByteCount;

/// Sectors that a bitmap has at least, where it does not say how many: a page.
const RESERVED_MIN: u64 = 8;

/// See the [module](self).
pub(super) struct Bitmap {
    superblock: BitmapSuperblock,
    bits: Bits,
}

impl Bitmap {
    /// One with no bit set.
    pub(super) fn clear(superblock: BitmapSuperblock) -> Bitmap {
        Bitmap { bits: Bits::new(superblock.bits(), false), superblock }
    }

    /// The bitmap of a set; none where it has none.
    ///
    /// # Errors
    /// Where no member's can be read.
    pub(super) async fn of(choice: &Choice) -> Result<Option<Bitmap>, AssembleError> {
        if !choice.facts.features().has(Features::BITMAP) {
            return Ok(None);
        }
        let (mut joined, mut newest, mut first_error) = (None::<Bitmap>, None, None);
        for found in choice.slots.iter().flatten() {
            match assemble::bitmap(found).await {
                Ok(None) => {}
                Err(error) => first_error = first_error.or(Some(error)),
                Ok(Some((superblock, bits))) => {
                    let is_fresh = superblock.events >= choice.facts.events();
                    match &mut joined {
                        _ if !is_fresh => newest = Some(superblock),
                        Some(held) if held.superblock.chunk_bytes == superblock.chunk_bytes => {
                            held.bits.join(&bits);
                        }
                        Some(_) => {}
                        None => joined = Some(Bitmap { superblock, bits }),
                    }
                }
            }
        }
        if joined.is_none() {
            // All are out of date: nothing is known of any stretch.
            let all = |superblock: BitmapSuperblock| Bitmap {
                bits: Bits::new(superblock.bits(), true),
                superblock,
            };
            joined = newest.map(all);
        }
        let what = "a write-intent bitmap that no member has";
        let none = AssembleError::Unsupported { set: choice.set, what };
        joined.map(Some).ok_or_else(|| first_error.unwrap_or(none))
    }

    /// The sectors that its bytes take.
    pub(super) fn sectors_used(&self) -> u64 {
        self.superblock.total_bytes().div_ceil(SECTOR)
    }

    /// The sectors that it takes behind its beginning.
    pub(super) fn sectors(&self) -> u64 {
        let used = self.superblock.total_bytes().div_ceil(SECTOR).next_multiple_of(RESERVED_MIN);
        used.max(u64::from(self.superblock.sectors_reserved))
    }

    /// Makes it one of a larger set, every bit set. The stretch of a bit grows where the room is too small.
    pub(super) fn enlarge(&mut self, sync_sectors: u64) {
        let room = self.sectors() * SECTOR;
        let superblock = &mut self.superblock;
        superblock.sync_sectors = sync_sectors;
        while superblock.total_bytes() > room && superblock.chunk_bytes < CHUNK_MAX {
            superblock.chunk_bytes *= 2;
        }
        self.bits = Bits::new(superblock.bits(), true);
    }

    /// Its bytes, as of these events at the least, in whole blocks of a device.
    pub(super) fn bytes(&mut self, events: u64, block: ByteCount) -> Vec<u8> {
        self.superblock.events = self.superblock.events.max(events);
        let mut bytes = self.superblock.encode();
        debug_assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
        bytes.extend_from_slice(self.bits.bytes());
        bytes.resize(ByteCount(bytes.len() as u64).round_up(block).as_usize(), 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::Uuid;

    #[test]
    fn a_larger_bitmap_stays_within_its_room_and_has_every_bit_set() {
        let superblock = BitmapSuperblock {
            set_uuid: Uuid([1; 16]),
            events: 7,
            events_cleared: 5,
            sync_sectors: 1 << 20,
            state: 0,
            chunk_bytes: 64 << 10,
            daemon_sleep_s: 5,
            write_behind: 0,
            sectors_reserved: 8,
        };
        let bits = Bits::new(superblock.bits(), false);
        let mut bitmap = Bitmap { superblock, bits };
        bitmap.enlarge(1 << 30);
        assert_eq!((bitmap.sectors(), bitmap.superblock.chunk_bytes), (8, 32 << 20));
        assert_eq!(bitmap.bits.dirty(), bitmap.superblock.bits());
        let bytes = bitmap.bytes(3, ByteCount(512));
        assert!(bytes.len() <= 4096 && bytes.len().is_multiple_of(512));
        let read = BitmapSuperblock::decode(&bytes).expect("decodes");
        assert_eq!((read.events, read.bits()), (7, 16_384));
    }
}
