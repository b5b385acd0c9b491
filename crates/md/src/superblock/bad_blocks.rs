//! The bad-block log: stretches of a device whose content is lost, or was never written.
//!
//! Entries of 8 bytes, little-endian: the low 10 bits are a length, the rest is a place, both in units of
//! `512 << shift` bytes from the start of the *device* (not of the data). All ones ends the list. The log
//! counts only where the superblock says so (feature "bad blocks").
//!
//! Source: Linux `drivers/md/md.c` (`super_1_load`, `super_1_sync`).

use stdx::bytes::{FormatError, Problem, Reader};

/// What errors call it.
const STRUCTURE: &str = "bad-block log";

/// The most entries: what md's page of memory holds.
pub const ENTRIES_MAX: usize = 512;
/// The most sectors that md reserves and reads for a log: one page.
pub const SECTORS_MAX: u16 = 8;
/// The longest stretch of one entry: the units that 10 bits can say.
const LEN_MAX: u64 = 0x3ff;
const END: u64 = u64::MAX;

/// A stretch of a device, in 512-byte sectors from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadBlock {
    /// The first sector.
    pub sector: u64,
    /// How many.
    pub sectors: u64,
}

/// Reads a log. `shift` is the superblock's `bblog_shift`.
///
/// # Errors
/// Where an entry is empty or lies beyond any device, or the shift is absurd.
pub fn decode(bytes: &[u8], shift: u8) -> Result<Vec<BadBlock>, FormatError> {
    let fields = Reader::little(STRUCTURE, bytes);
    fields.within("bblog_shift", 0, u64::from(shift), 0, 22)?;
    let mut list = Vec::new();
    for at in (0..bytes.len()).step_by(8).take(ENTRIES_MAX) {
        let entry = fields.get_at::<u64>("entry", at)?;
        if entry == END {
            break;
        }
        let (place, len) = (entry >> 10, entry & LEN_MAX);
        // An entry of no sectors is what an unused page of zeros looks like.
        fields.within("entry's length", at, len, 1, LEN_MAX)?;
        fields.within("entry's sector", at, place, 0, u64::MAX >> 10 >> shift)?;
        list.push(BadBlock { sector: place << shift, sectors: len << shift });
    }
    Ok(list)
}

/// Writes a log of `sectors` sectors, with no shift.
///
/// # Errors
/// Where it does not hold so many stretches.
pub fn encode(list: &[BadBlock], sectors: u16) -> Result<Vec<u8>, FormatError> {
    let mut bytes = vec![0xff; usize::from(sectors) * 512];
    let mut at = 0;
    for block in list {
        let (mut sector, mut left) = (block.sector, block.sectors);
        while left > 0 {
            let len = left.min(LEN_MAX);
            let Some(place) = bytes.get_mut(at..at + 8) else {
                let (found, most) = (list.len() as u64, u64::from(sectors) * 64);
                let problem = Problem::Range { found, least: 0, most };
                return Err(FormatError {
                    structure: STRUCTURE,
                    field: "entry",
                    offset: at,
                    problem,
                });
            };
            place.copy_from_slice(&(sector << 10 | len).to_le_bytes());
            (sector, left, at) = (sector + len, left - len, at + 8);
        }
    }
    Ok(bytes)
}
