//! MBR: the partitions of a device in the form that was there before GPT.
//!
//! ```text
//!   sector 0     446: four entries of 16 bytes: the primary partitions, 1 to 4      510: 55 aa
//!   extended     one of them says where a chain of further tables begins, one for each logical partition
//!   table of a   entry 1: the partition, counted from this table
//!   logical one  entry 2: the next table, counted from the beginning of the extended partition
//! ```
//!
//! Logical partitions are numbered from 5, as Linux does. Numbers count logical blocks of the device.
//!
//! **What it goes by.** There is no checksum, and boot sectors of file systems have the same two last bytes. A table is one
//! where each of the four entries is empty (type 0 and flag 00), or has a flag that is 00 or 80, a first block and a length; and where at least one begins within
//! the device. A device that begins with a file system has none: the caller looks for that first ([`crate::partition`]). An entry
//! of type EE stands for a GPT. Of what reaches beyond the device's end what lies before it is there, and it is [named](Table::beyond).
//!
//! The chain is followed for [`LOGICAL_MAX`] tables; one that leads out of the extended partition, backward or nowhere ends there.
//!
//! **Source**: the kernel's `block/partitions/msdos.c`, for the facts.

use crate::checked::{read, there_from};
use async_recursion::async_recursion as boxed;
use rt::filter::Slice;
use rt::{DeviceRef, IoError, Request};
use stdx::bytes::{FormatError, Reader};
use stdx::{ByteCount, Offset};

/// Logical partitions that are looked for. Linux gives a device that many minors.
pub const LOGICAL_MAX: u32 = 60;

/// Bytes of a table, whatever the device's blocks.
const TABLE_BYTES: u64 = 512;
const ENTRIES_AT: usize = 446;
const ENTRY_BYTES: usize = 16;
const SIGNATURE_AT: usize = 510;
const SIGNATURE: &[u8; 2] = b"\x55\xaa";
/// Types of an extended partition.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// The type that stands for a GPT.
const PROTECTIVE: u8 = 0xee;
/// The number of the first logical partition.
const LOGICAL_FIRST: u32 = 5;

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Linux's number.
    pub number: u32,
    /// What it is for.
    pub kind: u8,
    /// Where it begins.
    pub start: Offset,
    /// How long it is; of one that the device's end cuts, how much of it is there.
    pub len: ByteCount,
    /// How long the table has it, where the device's end cuts it.
    pub cut: Option<ByteCount>,
}

impl Partition {
    /// The partition as a device, called by the whole's name and its number.
    pub fn device(&self, whole: &DeviceRef) -> DeviceRef {
        let name = format!("{}:{}", whole.name(), self.number);
        Slice::called(&name, whole.clone(), self.start, self.len)
    }
}

/// A device's table of partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// In the order of their numbers, without the extended one.
    pub partitions: Vec<Partition>,
    /// Numbers of those that reach beyond the device's end, an extended one among them: of those that begin within it, what lies before
    /// it is a partition of the table.
    pub beyond: Vec<u32>,
    /// Where the farthest of those ends.
    pub beyond_to: Offset,
}

impl Table {
    fn add_beyond(&mut self, number: u32, end: Offset) {
        self.beyond.push(number);
        self.beyond_to = self.beyond_to.max(end);
    }
}

/// An entry that is not empty.
#[derive(Clone, Copy)]
struct Entry {
    kind: u8,
    first: u64,
    blocks: u64,
}

impl Entry {
    fn is_extended(self) -> bool {
        EXTENDED.contains(&self.kind)
    }

    /// Where it ends, counted from `from`.
    fn end(self, from: u64, device: &DeviceRef) -> Offset {
        let blocks = from.saturating_add(self.first).saturating_add(self.blocks);
        Offset(blocks.saturating_mul(device.geometry().logical_block.bytes()))
    }

    /// The partition that it is, counted from `from`; nothing where it does not begin within the device.
    fn within(self, from: u64, number: u32, device: &DeviceRef) -> Option<Partition> {
        let block = device.geometry().logical_block.bytes();
        let start = from.checked_add(self.first)?.checked_mul(block)?;
        let (start, len) = (Offset(start), ByteCount(self.blocks.checked_mul(block)?));
        let (len, cut) = match Request::read(start, len).check(&**device) {
            Ok(()) => (len, None),
            Err(_) => (there_from(device, start)?, Some(len)),
        };
        Some(Partition { number, kind: self.kind, start, len, cut })
    }
}

/// The entries of a table; nothing where it is none.
fn entries(bytes: &[u8]) -> Result<Option<[Option<Entry>; 4]>, FormatError> {
    let fields = Reader::little("partition table", bytes);
    if fields.slice("signature", SIGNATURE_AT, SIGNATURE.len())? != SIGNATURE {
        return Ok(None);
    }
    let mut entries = [None; 4];
    for (n, entry) in entries.iter_mut().enumerate() {
        let at = ENTRIES_AT + n * ENTRY_BYTES;
        let [flag] = fields.array_at("flag", at)?;
        let [kind] = fields.array_at("type", at + 4)?;
        let first = u64::from(fields.get_at::<u32>("first block", at + 8)?);
        let blocks = u64::from(fields.get_at::<u32>("blocks", at + 12)?);
        *entry = match (flag, kind, first, blocks) {
            (0, 0, ..) => None,
            (0 | 0x80, 1.., 1.., 1..) => Some(Entry { kind, first, blocks }),
            _ => return Ok(None),
        };
    }
    Ok(Some(entries))
}

/// The partitions of a device; `None` where there is no such table, or it stands for a GPT.
///
/// # Errors
/// The device could not be read.
#[boxed(?Send)]
pub async fn read_table(device: &DeviceRef) -> Result<Option<Table>, IoError> {
    let Some(primary) = table_at(device, 0).await? else { return Ok(None) };
    if primary.iter().flatten().any(|entry| entry.kind == PROTECTIVE) {
        return Ok(None);
    }
    let mut table = Table::default();
    let mut is_one = false;
    for (number, entry) in (1..).zip(primary) {
        let Some(entry) = entry else { continue };
        let found = entry.within(0, number, device);
        is_one |= found.is_some();
        if found.as_ref().is_none_or(|found| found.cut.is_some()) {
            table.add_beyond(number, entry.end(0, device));
        }
        match found {
            Some(found) if entry.is_extended() => {
                add_logical(device, &mut table, found).await?;
            }
            found => table.partitions.extend(found),
        }
    }
    table.partitions.sort_by_key(|partition| partition.number);
    Ok(is_one.then_some(table))
}

/// The table in this block; nothing where there is none.
async fn table_at(device: &DeviceRef, block: u64) -> Result<Option<[Option<Entry>; 4]>, IoError> {
    let geometry = device.geometry();
    let at = block.checked_mul(geometry.logical_block.bytes());
    let end = at.and_then(|at| at.checked_add(TABLE_BYTES));
    let (Some(at), Some(end)) = (at, end) else { return Ok(None) };
    if end > geometry.capacity.bytes() {
        return Ok(None);
    }
    let bytes = read(device, at, TABLE_BYTES).await?;
    // As many bytes as were asked for: nothing in them lies beyond.
    Ok(entries(&bytes).ok().flatten())
}

/// Follows the chain of an extended partition.
async fn add_logical(
    device: &DeviceRef,
    table: &mut Table,
    extended: Partition,
) -> Result<(), IoError> {
    let block = device.geometry().logical_block.bytes();
    let len = extended.cut.unwrap_or(extended.len);
    let (base, blocks) = (extended.start.bytes() / block, len.bytes() / block);
    let (mut at, mut number) = (base, LOGICAL_FIRST);
    for _ in 0..LOGICAL_MAX {
        let Some(entries) = table_at(device, at).await? else { return Ok(()) };
        let [own, next, ..] = entries;
        if let Some(own) = own.filter(|own| !own.is_extended()) {
            let found = own.within(at, number, device);
            if found.as_ref().is_none_or(|found| found.cut.is_some()) {
                table.add_beyond(number, own.end(at, device));
            }
            table.partitions.extend(found);
            number += 1;
        }
        let Some(next) = next.filter(|next| next.is_extended() && next.first < blocks) else {
            return Ok(());
        };
        let next = base + next.first;
        if next <= at {
            return Ok(());
        }
        at = next;
    }
    Ok(())
}
