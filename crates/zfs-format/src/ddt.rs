//! Deduplication tables: which blocks are in the pool already.
//!
//! A table is a ZAP for each checksum and class (blocks with one reference, and with several). The [key](DdtKey) is
//! five numbers: checksum, sizes and compression. The value is a byte that says how the rest is stored
//! ([`split_value`]), and, usually compressed by zle, the entry: in the older form four sets of places, by number of
//! copies; with the feature `fast_dedup` one.
//!
//! `fast_dedup` also has two logs for each checksum, of changes that are not yet in the table: an object of
//! records in blocks, and a header as its bonus.
//!
//! Source: OpenZFS, `ddt.h`, `ddt_impl.h`, `ddt_zap.c`, `ddt_log.c`.

use crate::block_pointer::Dva;
use crate::checksum::Checksum;
use crate::compression::Compression;
use crate::wire::{Endian, Reader, Wire, Writer, record};
use stdx::bytes::{FormatError, Problem};

/// Sets of places in an entry of the older form.
pub const SETS: usize = 4;

record! {
    /// What a block is found by.
    DdtKey = "deduplication key", 40, {
        /// The checksum.
        checksum: Checksum,
        /// Sizes, compression and encryption, as in a block pointer: see the methods.
        properties: u64,
    }
}

impl DdtKey {
    /// Bytes before compression.
    pub fn logical_size(&self) -> u64 {
        ((self.properties & 0xffff) + 1) << 9
    }

    /// Bytes as stored.
    pub fn physical_size(&self) -> u64 {
        ((self.properties >> 16 & 0xffff) + 1) << 9
    }

    /// How it is compressed; nothing for a number that is not known.
    pub fn compression(&self) -> Option<Compression> {
        Compression::from_code((self.properties >> 32 & 0x7f) as u8)
    }

    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.properties >> 39 & 1 != 0
    }
}

record! {
    /// One set of places, in the older form.
    DdtSet = "deduplication places", 64, {
        /// Up to three places.
        places: [Dva; 3],
        /// How many block pointers name them.
        references: u64,
        /// The transaction group in which they were written.
        physical_birth: u64,
    }
}

record! {
    /// An entry of the older form: places for ditto blocks (not used any more), one, two and three copies.
    DdtEntry = "deduplication entry", 256, {
        /// The sets.
        sets: [DdtSet; 4],
    }
}

record! {
    /// An entry with `fast_dedup`.
    DdtFlatEntry = "flat deduplication entry", 72, {
        /// Up to three places.
        places: [Dva; 3],
        /// How many block pointers name them.
        references: u64,
        /// The transaction group in which they were written.
        physical_birth: u64,
        /// Since when it has been in its class, in seconds since 1970.
        class_start: u64,
    }
}

record! {
    /// The header of a log.
    DdtLogHeader = "deduplication log header", 64, {
        /// Version in the low 8 bits, then flags: 1 being flushed, 2 there is a checkpoint.
        info: u64,
        /// Bytes of the log.
        length: u64,
        /// The transaction group that began it.
        first_txg: u64,
        /// How far it is flushed.
        checkpoint: DdtKey,
    }
}

record! {
    /// Statistics of a table: blocks and bytes, once and as referenced.
    DdtStatistics = "deduplication statistics", 64, {
        /// Blocks.
        blocks: u64,
        /// Bytes before compression.
        logical_bytes: u64,
        /// Bytes as compressed.
        physical_bytes: u64,
        /// Bytes on disk.
        disk_bytes: u64,
        /// The same four, times their references.
        referenced: [u64; 4],
    }
}

record! {
    /// Statistics by the power of two of the references.
    DdtHistogram = "deduplication histogram", 4096, {
        /// Blocks with 2^n references and more.
        buckets: [DdtStatistics; 64],
    }
}

/// How the value of a table's entry is stored, its byte order, and the stored bytes. `Off` means as they are.
///
/// # Errors
/// It is empty, or compressed in no known way.
pub fn split_value(value: &[u8]) -> Result<(Compression, Endian, &[u8]), FormatError> {
    let wrong = |problem| {
        let (structure, field) = ("deduplication value", "version");
        FormatError { structure, field, offset: 0, problem }
    };
    let (version, rest) = value.split_first().ok_or_else(|| wrong(Problem::Short))?;
    let compression = Compression::from_code(version & 0x7f)
        .ok_or_else(|| wrong(Problem::Value((*version).into())))?;
    let endian = if version & 0x80 != 0 { Endian::Little } else { Endian::Big };
    Ok((compression, endian, rest))
}

/// The value of a table's entry of stored bytes.
pub fn join_value(compression: Compression, endian: Endian, stored: &[u8]) -> Vec<u8> {
    let order = if endian == Endian::Little { 0x80 } else { 0 };
    [&[compression.code() | order], stored].concat()
}

/// What a log's record sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// In the older form.
    Traditional(Box<DdtEntry>),
    /// With `fast_dedup`'s entries.
    Flat(DdtFlatEntry),
}

/// A record of a log: the entry as it is to be in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdtLogRecord {
    /// The type of table: 0, a ZAP.
    pub table: u8,
    /// The class: 1 several references, 2 one.
    pub class: u8,
    /// What it is found by.
    pub key: DdtKey,
    /// The entry.
    pub entry: LogEntry,
}

const LOG: &str = "deduplication log";
const HEAD_BYTES: usize = 8;

impl DdtLogRecord {
    fn bytes(&self) -> usize {
        let entry = match self.entry {
            LogEntry::Traditional(_) => DdtEntry::BYTES,
            LogEntry::Flat(_) => DdtFlatEntry::BYTES,
        };
        HEAD_BYTES + DdtKey::BYTES + entry
    }

    fn write(&self, to: &mut Writer) {
        let kind = 1 | (self.bytes() as u64) << 8;
        to.put(kind | u64::from(self.table) << 48 | u64::from(self.class) << 56);
        self.key.write(to);
        match &self.entry {
            LogEntry::Traditional(entry) => entry.write(to),
            LogEntry::Flat(entry) => entry.write(to),
        }
    }
}

/// The records of a block of a log, up to its end mark.
///
/// # Errors
/// A record is of no known kind or length.
pub fn log_records(block: &[u8], endian: Endian) -> Result<Vec<DdtLogRecord>, FormatError> {
    let mut from = Reader::new(LOG, block, endian);
    let mut found = Vec::new();
    while from.left() >= HEAD_BYTES {
        let at = from.at();
        let head = from.u64("head")?;
        match head & 0xff {
            0 => break,
            1 => {}
            other => return Err(from.wrong_at("kind", at, Problem::Value(other))),
        }
        let length = head >> 8 & 0xffff;
        let key = from.get("key")?;
        let entry = match (length as usize).checked_sub(HEAD_BYTES + DdtKey::BYTES) {
            Some(DdtEntry::BYTES) => LogEntry::Traditional(Box::new(from.get("entry")?)),
            Some(DdtFlatEntry::BYTES) => LogEntry::Flat(from.get("entry")?),
            _ => return Err(from.wrong_at("length", at, Problem::Value(length))),
        };
        found.push(DdtLogRecord {
            table: (head >> 48) as u8,
            class: (head >> 56) as u8,
            key,
            entry,
        });
    }
    Ok(found)
}

/// A block of a log with these records.
///
/// # Errors
/// They don't fit.
pub fn log_block(
    records: &[DdtLogRecord],
    bytes: usize,
    endian: Endian,
) -> Result<Vec<u8>, FormatError> {
    let mut to = Writer::new(endian);
    records.iter().for_each(|record| record.write(&mut to));
    if to.at() > bytes {
        let problem = Problem::Limit { found: to.at() as u64, limit: bytes as u64 };
        return Err(FormatError { structure: LOG, field: "records", offset: bytes, problem });
    }
    to.zeros_to(bytes);
    Ok(to.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Record;
    use crate::wire::checks::holds_for_any_bytes;
    use proptest::prelude::*;

    #[test]
    fn any_bytes_hold() {
        holds_for_any_bytes::<DdtKey>();
        holds_for_any_bytes::<DdtSet>();
        holds_for_any_bytes::<DdtEntry>();
        holds_for_any_bytes::<DdtFlatEntry>();
        holds_for_any_bytes::<DdtLogHeader>();
        holds_for_any_bytes::<DdtStatistics>();
        holds_for_any_bytes::<DdtHistogram>();
    }

    #[test]
    fn a_key_has_its_bits_where_a_pointer_has_them() {
        let key = DdtKey { checksum: Checksum::default(), properties: 0x8f_0007_00ff };
        assert_eq!((key.logical_size(), key.physical_size()), (0x2_0000, 0x1000));
        assert_eq!((key.compression(), key.is_encrypted()), (Some(Compression::Lz4), true));
        let value = join_value(Compression::Zle, Endian::Little, &[1, 2]);
        assert_eq!(split_value(&value), Ok((Compression::Zle, Endian::Little, [1, 2].as_slice())));
        assert!(split_value(&[]).is_err() && split_value(&[0x7f]).is_err());
    }

    proptest! {
        #[test]
        fn records_of_a_log_come_out_as_they_went_in(
            seeds in proptest::collection::vec((any::<[u8; 40]>(), any::<u8>(), any::<bool>()), 0..5),
            bit in any::<prop::sample::Index>(),
        ) {
            let records: Vec<_> = seeds.iter().map(|(bytes, fill, flat)| DdtLogRecord {
                table: 0,
                class: 1 + u8::from(*flat),
                key: DdtKey::decode(bytes, Endian::Little).expect("40 bytes"),
                entry: if *flat {
                    let entry = DdtFlatEntry::decode(&[*fill; 72], Endian::Little);
                    LogEntry::Flat(entry.expect("72 bytes"))
                } else {
                    let entry = DdtEntry::decode(&[*fill; 256], Endian::Little);
                    LogEntry::Traditional(Box::new(entry.expect("256 bytes")))
                },
            }).collect();
            for endian in [Endian::Little, Endian::Big] {
                let mut block = log_block(&records, 2048, endian).expect("they fit");
                prop_assert_eq!(log_records(&block, endian), Ok(records.clone()));
                let bit = bit.index(block.len() * 8);
                block[bit / 8] ^= 1 << (bit % 8);
                let _ = log_records(&block, endian);
            }
            prop_assert!(records.is_empty() || log_block(&records, 100, Endian::Little).is_err());
        }
    }
}
