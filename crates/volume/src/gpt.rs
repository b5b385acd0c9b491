//! GPT: the partitions of a device.
//!
//! ```text
//!   block 0   a protective MBR, for those who know no GPT
//!   block 1   header: where the table lies, how many entries, checksums of both
//!   block 2…  the table of entries, 128 bytes each or a multiple
//!   …
//!   the last block: the header's copy, whose table lies before it
//! ```
//!
//! The header in block 1 counts; where its checksum or that of its table is wrong, the copy at the end
//! does, and [`Table::from_backup`] says so. Blocks are the device's logical ones.
//!
//! Of a device that is shorter than its table says (a copy that broke off) the partitions within it are read, and of one that the end
//! cuts what lies before; those that are not whole are [named](Table::beyond).
//!
//! Partitions are read, not made: arrays and disks come with theirs. Those of the older MBR: [`crate::mbr`].
//!
//! **Source**: UEFI Specification 2.10, chapter 5.

use crate::checked::{read, there_from};
use async_recursion::async_recursion as boxed;
use rt::filter::Slice;
use rt::{DeviceRef, IoError, Request};
use std::fmt;
use stdx::bytes::{FormatError, Problem, Reader};
use stdx::{ByteCount, Offset};

/// Bytes of entries that are read at the most. A table has 128 entries of 128 bytes as a rule; this is
/// eight times as much.
const TABLE_BYTES_MAX: u64 = 128 << 10;

/// The header's first bytes.
const SIGNATURE: &[u8; 8] = b"EFI PART";
/// Version 1.0, the only one.
const REVISION: u32 = 0x0001_0000;
/// Bytes of a header that the checksum covers at the least.
const HEADER_BYTES_MIN: u32 = 92;
/// Where the header has its own checksum, which counts as zero in itself.
const HEADER_CHECKSUM_AT: usize = 16;
/// The shortest entry.
const ENTRY_BYTES_MIN: u32 = 128;
/// UTF-16 units of a partition's name.
const NAME_UNITS: usize = 36;

/// A GUID as it stands on the disk: the first three groups little-endian.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Guid(pub [u8; 16]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        for (place, byte) in ORDER.into_iter().enumerate() {
            if let 4 | 6 | 8 | 10 = place {
                f.write_str("-")?;
            }
            write!(f, "{:02x}", self.0[byte])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its place in the table, from 1: Linux's number.
    pub number: u32,
    /// What it is for.
    pub kind: Guid,
    /// Which it is.
    pub id: Guid,
    /// Where it begins.
    pub start: Offset,
    /// How long it is; of one that the device's end cuts, how much of it is there.
    pub len: ByteCount,
    /// How long the table has it, where the device's end cuts it.
    pub cut: Option<ByteCount>,
    /// Its name.
    pub name: String,
}

impl Partition {
    /// The partition as a device, called by the whole's name and its number.
    pub fn device(&self, whole: &DeviceRef) -> DeviceRef {
        let name = format!("{}:{}", whole.name(), self.number);
        Slice::called(&name, whole.clone(), self.start, self.len)
    }
}

/// A device's table of partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Which device it is.
    pub id: Guid,
    /// In the order of their numbers.
    pub partitions: Vec<Partition>,
    /// Numbers of those that reach beyond the device's end: of those that begin within it, what lies before it is a partition of the table.
    pub beyond: Vec<u32>,
    /// How long the device was when the table was written, or as long as the partitions need where that is more.
    pub size: ByteCount,
    /// Whether the first header was bad, so that this comes from the copy at the end.
    pub from_backup: bool,
}

/// Why there is no table to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GptError {
    /// The device could not be read.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Both headers, or their tables, are bad. The problem of the first is told.
    #[error(
        "{device}: {error}; the copy at the end is bad too: restore one with a partitioning program"
    )]
    Bad {
        /// The device.
        device: String,
        /// What is wrong with the first.
        error: FormatError,
    },
}

/// The partitions of a device; `None` where there is no GPT.
///
/// # Errors
/// [`GptError`]
#[boxed(?Send)]
pub async fn read_table(device: &DeviceRef) -> Result<Option<Table>, GptError> {
    let geometry = device.geometry();
    let block = geometry.logical_block.bytes();
    let blocks = geometry.capacity.bytes() / block;
    if blocks < 3 {
        return Ok(None);
    }
    let first = match read_at(device, 1, blocks).await? {
        Ok(table) => return Ok(Some(table)),
        Err(error) => error,
    };
    match read_at(device, blocks - 1, blocks).await? {
        Ok(table) => Ok(Some(Table { from_backup: true, ..table })),
        // Neither is a GPT at all.
        Err(second) if first.is_absence() && second.is_absence() => Ok(None),
        Err(_) => Err(GptError::Bad { device: device.name().to_string(), error: first }),
    }
}

/// The table whose header lies in this block.
async fn read_at(
    device: &DeviceRef,
    header_block: u64,
    blocks: u64,
) -> Result<Result<Table, FormatError>, IoError> {
    let block = device.geometry().logical_block.bytes();
    let bytes = read(device, header_block * block, block).await?;
    let header = match Header::decode(&bytes, header_block, blocks, block) {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    let table = read(device, header.table_at, header.table_bytes()).await?;
    Ok(header.entries(&table, device))
}

/// What the header says, checked.
struct Header {
    id: Guid,
    /// Bytes up to the end of the last block, which is the farther of the two headers'.
    size: u64,
    table_at: u64,
    count: u32,
    entry_bytes: u32,
    checksum: u32,
}

impl Header {
    fn decode(bytes: &[u8], at: u64, blocks: u64, block: u64) -> Result<Header, FormatError> {
        let fields = Reader::little("GPT header", bytes);
        fields.magic_at("signature", 0, SIGNATURE)?;
        let len = fields.get_at::<u32>("header size", 12)?;
        if len < HEADER_BYTES_MIN || len as usize > bytes.len() {
            return Err(fields.wrong_at("header size", 12, Problem::Value(len.into())));
        }
        let mut covered = fields.slice("header", 0, len as usize)?.to_vec();
        covered[HEADER_CHECKSUM_AT..HEADER_CHECKSUM_AT + 4].fill(0);
        if crc32fast::hash(&covered)
            != fields.get_at::<u32>("header checksum", HEADER_CHECKSUM_AT)?
        {
            return Err(fields.wrong_at("header checksum", HEADER_CHECKSUM_AT, Problem::Checksum));
        }
        let revision = fields.get_at::<u32>("revision", 8)?;
        if revision != REVISION {
            return Err(fields.wrong_at("revision", 8, Problem::Version(revision.into())));
        }
        let own = fields.get_at::<u64>("own block", 24)?;
        if own != at {
            return Err(fields.wrong_at("own block", 24, Problem::Value(own)));
        }
        let (count, entry_bytes) =
            (fields.get_at::<u32>("entries", 80)?, fields.get_at::<u32>("entry size", 84)?);
        if entry_bytes < ENTRY_BYTES_MIN || !entry_bytes.is_multiple_of(8) {
            return Err(fields.wrong_at("entry size", 84, Problem::Value(entry_bytes.into())));
        }
        let table_block = fields.get_at::<u64>("table block", 72)?;
        let table_bytes = u64::from(count) * u64::from(entry_bytes);
        let end = table_block.checked_mul(block).and_then(|at| at.checked_add(table_bytes));
        if table_bytes > TABLE_BYTES_MAX {
            return Err(fields.wrong_at("entries", 80, Problem::Value(count.into())));
        }
        if end.is_none_or(|end| end > blocks * block) {
            return Err(fields.wrong_at("table block", 72, Problem::Value(table_block)));
        }
        let id = Guid(fields.array_at("id", 56)?);
        let last = fields.get_at::<u64>("other header's block", 32)?.max(own);
        let size = last.saturating_add(1).saturating_mul(block);
        let checksum = fields.get_at::<u32>("table checksum", 88)?;
        Ok(Header { id, size, table_at: table_block * block, count, entry_bytes, checksum })
    }

    fn table_bytes(&self) -> u64 {
        u64::from(self.count) * u64::from(self.entry_bytes)
    }

    fn entries(&self, bytes: &[u8], device: &DeviceRef) -> Result<Table, FormatError> {
        let fields = Reader::little("GPT table", bytes);
        if crc32fast::hash(bytes) != self.checksum {
            return Err(fields.wrong_at("table checksum", 0, Problem::Checksum));
        }
        let block = device.geometry().logical_block.bytes();
        let (mut partitions, mut beyond, mut size) = (Vec::new(), Vec::new(), self.size);
        for number in 0..self.count {
            let at = number as usize * self.entry_bytes as usize;
            let guid = |field, at| fields.array_at(field, at).map(Guid);
            let kind = guid("type", at)?;
            if kind == Guid([0; 16]) {
                continue;
            }
            let first = fields.get_at::<u64>("first block", at + 32)?;
            let last = fields.get_at::<u64>("last block", at + 40)?;
            let wrong = |field, at, value| fields.wrong_at(field, at, Problem::Value(value));
            let start =
                first.checked_mul(block).ok_or_else(|| wrong("first block", at + 32, first))?;
            let count = last.checked_sub(first).and_then(|count| count.checked_add(1));
            let len = count.and_then(|count| count.checked_mul(block));
            let len = len.ok_or_else(|| wrong("last block", at + 40, last))?;
            let (start, mut len, mut cut) = (Offset(start), ByteCount(len), None);
            if Request::read(start, len).check(&**device).is_err() {
                beyond.push(number + 1);
                size = size.max(start.bytes().saturating_add(len.bytes()));
                cut = Some(len);
                let Some(there) = there_from(device, start) else { continue };
                len = there;
            }
            let name = fields.slice("name", at + 56, 2 * NAME_UNITS)?;
            let units: Vec<u16> = name
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                .take_while(|unit| *unit != 0)
                .collect();
            partitions.push(Partition {
                number: number + 1,
                kind,
                id: guid("id", at + 16)?,
                start,
                len,
                cut,
                name: String::from_utf16_lossy(&units),
            });
        }
        Ok(Table { id: self.id, partitions, beyond, size: ByteCount(size), from_backup: false })
    }
}
