//! The partial parity log of RAID 5: what closes the write hole without a journal device.
//!
//! Before the data and parity of a stripe are written, the member that has the stripe's parity gets a
//! record: which data is about to change, and the exclusive-or of the data that is *not* changing (the
//! partial parity). After a power cut the parity is that, exclusive-or what the changed data is now.
//!
//! ```text
//! byte 0     512 bytes of 0xff
//!      512   signature u32   CRC-32C of the set's UUID
//!      516   zero u32
//!      520   generation u64  grows with each record
//!      528   entries u32
//!      532   checksum u32    CRC-32C of the 4096 bytes with this field zero
//!      536   entries of 24 bytes: data sector u64 (of the array), partial parity's bytes u32,
//!            data bytes u32, parity's slot u32, CRC-32C of the partial parity u32
//!      4096  the partial parities of the entries, one after another
//! ```
//!
//! With the feature "multiple PPLs" records follow one another in the log's space, and the last one with a
//! growing generation counts. Source: Linux `drivers/md/raid5-ppl.c` and `md_p.h`.

use crate::superblock::Uuid;
use stdx::bytes::{FormatError, Problem, Reader, put};

/// What errors call it.
const STRUCTURE: &str = "PPL header";

/// Bytes of a header.
pub const HEADER_BYTES: usize = 4096;
const RESERVED: usize = 512;
const CHECKSUM_AT: usize = 532;
const ENTRIES_AT: usize = 536;
const ENTRY_BYTES: usize = 24;
/// The most entries of a header: what fits.
pub const ENTRIES_MAX: usize = (HEADER_BYTES - ENTRIES_AT) / ENTRY_BYTES;

/// A write of a stretch of rows, all to the same members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first sector of the array that is written.
    pub data_sector: u64,
    /// Bytes of partial parity; none where whole rows are written.
    pub parity_bytes: u32,
    /// Bytes of data that are written.
    pub data_bytes: u32,
    /// The slot that has the parity.
    pub parity_slot: u32,
    /// CRC-32C of the partial parity.
    pub checksum: u32,
}

impl Entry {
    /// The same with the checksum of this partial parity.
    #[must_use]
    pub fn with_checksum_of(self, partial_parity: &[u8]) -> Entry {
        Entry { checksum: crc32c::crc32c(partial_parity), ..self }
    }

    /// Whether these bytes are the entry's partial parity.
    pub fn fits(&self, partial_parity: &[u8]) -> bool {
        partial_parity.len() as u64 == u64::from(self.parity_bytes)
            && crc32c::crc32c(partial_parity) == self.checksum
    }
}

/// One record's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose it is: [`signature`].
    pub signature: u32,
    /// Grows with each record.
    pub generation: u64,
    /// What was being written.
    pub entries: Vec<Entry>,
}

/// What an array's headers begin with.
pub fn signature(set: Uuid) -> u32 {
    crc32c::crc32c(&set.0)
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// Which field is wrong, and how.
    pub fn decode(bytes: &[u8]) -> Result<Header, FormatError> {
        let fields = Reader::little(STRUCTURE, bytes);
        let whole: [u8; HEADER_BYTES] = fields.array_at("header", 0)?;
        let found = fields.get_at::<u32>("checksum", CHECKSUM_AT)?;
        let before = crc32c::crc32c_append(crc32c::crc32c(&whole[..CHECKSUM_AT]), &[0; 4]);
        let computed = crc32c::crc32c_append(before, &whole[CHECKSUM_AT + 4..]);
        if found != computed {
            let problem = Problem::Sum { found, computed };
            return Err(fields.wrong_at("checksum", CHECKSUM_AT, problem));
        }
        let count = fields.get_at::<u32>("entries_count", 528)?;
        fields.within("entries_count", 528, u64::from(count), 0, ENTRIES_MAX as u64)?;
        let mut entries = Vec::new();
        for at in (ENTRIES_AT..).step_by(ENTRY_BYTES).take(count as usize) {
            entries.push(Entry {
                data_sector: fields.get_at::<u64>("data_sector", at)?,
                parity_bytes: fields.get_at::<u32>("pp_size", at + 8)?,
                data_bytes: fields.get_at::<u32>("data_size", at + 12)?,
                parity_slot: fields.get_at::<u32>("parity_disk", at + 16)?,
                checksum: fields.get_at::<u32>("entry's checksum", at + 20)?,
            });
        }
        let signature = fields.get_at::<u32>("signature", RESERVED)?;
        Ok(Header { signature, generation: fields.get_at::<u64>("generation", 520)?, entries })
    }

    /// Writes a header.
    ///
    /// # Errors
    /// Where it has more than [`ENTRIES_MAX`] entries.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut bytes = vec![0; HEADER_BYTES];
        let fields = Reader::little(STRUCTURE, &[]);
        fields.within("entries_count", 528, self.entries.len() as u64, 0, ENTRIES_MAX as u64)?;
        bytes[..RESERVED].fill(0xff);
        put(&mut bytes, RESERVED, &self.signature.to_le_bytes());
        put(&mut bytes, 520, &self.generation.to_le_bytes());
        put(&mut bytes, 528, &(self.entries.len() as u32).to_le_bytes());
        for (n, entry) in self.entries.iter().enumerate() {
            let at = ENTRIES_AT + n * ENTRY_BYTES;
            put(&mut bytes, at, &entry.data_sector.to_le_bytes());
            put(&mut bytes, at + 8, &entry.parity_bytes.to_le_bytes());
            put(&mut bytes, at + 12, &entry.data_bytes.to_le_bytes());
            put(&mut bytes, at + 16, &entry.parity_slot.to_le_bytes());
            put(&mut bytes, at + 20, &entry.checksum.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes);
        put(&mut bytes, CHECKSUM_AT, &checksum.to_le_bytes());
        Ok(bytes)
    }
}
