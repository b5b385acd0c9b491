//! What stands in the journal.
//!
//! *Superblock* of the journal, in the first block of its area:
//! magic u32, unit u32, epoch u64, tail u64 (bytes from the start of the area), transaction at the tail u64,
//! CRC-32 u32 of what precedes.
//!
//! *Record*, on a multiple of the unit: a header of [`HEADER`] bytes and the payload.
//! Header: magic u32, flags u32 (1: a commit mark must follow), epoch u64, transaction u64, length of the
//! payload u64, CRC of the payload u32, number of entries u32, number of revokes u32, 16 unused, CRC of the
//! header u32. Payload: revokes (first block u64, number of blocks u64), then entries (block u64, mask of
//! chunks u64), then the bytes of those chunks, entry after entry: by themselves, so that bitmaps of a large file, which are all
//! alike, are a word that is repeated, here and where simulated devices hold them.
//!
//! *Commit mark*, on the next multiple of the unit: magic u32, 0 u32, epoch u64, transaction u64, CRC of the
//! payload u32, CRC of the mark u32. A record counts when its checksums agree and its mark, where there
//! has to be one, is there.

use crate::layout::{Extent, Shape};
use crate::meta::MetaRef;
use rt::{Buf, SgList};
use stdx::Offset;
use stdx::bytes::{FormatError, Reader, put};

const SUPER_MAGIC: u32 = 0x4a53_4250;
const RECORD_MAGIC: u32 = 0x4a52_4543;
const COMMIT_MAGIC: u32 = 0x4a43_4d54;
const WITH_MARK: u32 = 1;
/// Blocks that a transaction frees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Free {
    pub(crate) extent: Extent,
    pub(crate) metadata: bool,
}

/// Bytes of a record's header.
pub(crate) const HEADER: usize = 64;
/// Bytes of an entry beside its chunks.
pub(crate) const ENTRY: usize = 16;
/// Bytes of a revoke.
pub(crate) const REVOKE: usize = 16;
/// Bytes of the journal's superblock, and of a commit mark.
pub(crate) const SUPER: usize = 36;
const MARK: usize = 32;

/// The journal's superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalSuper {
    pub(crate) unit: u32,
    pub(crate) epoch: u64,
    pub(crate) tail: u64,
    pub(crate) transaction: u64,
}

/// Seals bytes with the CRC of all but their last four.
fn seal(bytes: &mut [u8]) {
    let at = bytes.len() - 4;
    let crc = crc32fast::hash(&bytes[..at]);
    put(bytes, at, &crc.to_le_bytes());
}

impl JournalSuper {
    pub(crate) fn encode(&self) -> [u8; SUPER] {
        let mut bytes = [0; SUPER];
        put(&mut bytes, 0, &SUPER_MAGIC.to_le_bytes());
        put(&mut bytes, 4, &self.unit.to_le_bytes());
        put(&mut bytes, 8, &self.epoch.to_le_bytes());
        put(&mut bytes, 16, &self.tail.to_le_bytes());
        put(&mut bytes, 24, &self.transaction.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8], shape: &Shape) -> Result<JournalSuper, FormatError> {
        let at = shape.offset(shape.journal.start);
        let fields = Reader::little("journal superblock", bytes).lying_at(at.bytes());
        fields.require(fields.get_at::<u32>("magic", 0)? == SUPER_MAGIC, "magic")?;
        let crc = crc32fast::hash(fields.slice("checksum", 0, SUPER - 4)?);
        fields.require(fields.get_at::<u32>("checksum", SUPER - 4)? == crc, "checksum")?;
        let unit = fields.get_at::<u32>("unit", 4)?;
        fields.require(
            unit.is_power_of_two() && unit >= 512 && u64::from(unit) <= shape.block,
            "unit",
        )?;
        let tail = fields.get_at::<u64>("tail", 16)?;
        let end = shape.journal.len * shape.block;
        let sound = tail >= shape.block && tail <= end && tail.is_multiple_of(u64::from(unit));
        fields.require(sound, "tail")?;
        let (epoch, transaction) =
            (fields.get_at::<u64>("epoch", 8)?, fields.get_at::<u64>("transaction", 24)?);
        // Far beyond what any number of commits reaches; keeps the arithmetic on them from overflowing.
        fields.require(epoch < u64::MAX / 2, "epoch")?;
        fields.require((1..u64::MAX / 2).contains(&transaction), "transaction")?;
        Ok(JournalSuper { unit, epoch, tail, transaction })
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) with_mark: bool,
    pub(crate) payload_len: u64,
    pub(crate) payload_crc: u32,
    entries: u32,
    revokes: u32,
}

impl Header {
    /// The header that stands at the start of `bytes`, where there is one of this epoch and number.
    pub(crate) fn find(bytes: &[u8], epoch: u64, transaction: u64) -> Option<Header> {
        let fields = Reader::little("journal record", bytes);
        let header = || -> Result<Header, FormatError> {
            let crc = crc32fast::hash(fields.slice("checksum", 0, HEADER - 4)?);
            fields.require(fields.get_at::<u32>("checksum", HEADER - 4)? == crc, "checksum")?;
            fields.require(fields.get_at::<u32>("magic", 0)? == RECORD_MAGIC, "magic")?;
            fields.require(fields.get_at::<u64>("epoch", 8)? == epoch, "epoch")?;
            fields
                .require(fields.get_at::<u64>("transaction", 16)? == transaction, "transaction")?;
            Ok(Header {
                with_mark: fields.get_at::<u32>("flags", 4)? & WITH_MARK != 0,
                payload_len: fields.get_at::<u64>("length", 24)?,
                payload_crc: fields.get_at::<u32>("payload checksum", 32)?,
                entries: fields.get_at::<u32>("entries", 36)?,
                revokes: fields.get_at::<u32>("revokes", 40)?,
            })
        };
        header().ok()
    }
}

/// Whether a commit mark of this record stands at the start of `bytes`.
pub(crate) fn is_mark(bytes: &[u8], epoch: u64, transaction: u64, payload_crc: u32) -> bool {
    bytes.get(..MARK).is_some_and(|there| *there == mark(epoch, transaction, payload_crc))
}

/// A commit mark.
pub(crate) fn mark(epoch: u64, transaction: u64, payload_crc: u32) -> [u8; MARK] {
    let mut bytes = [0; MARK];
    put(&mut bytes, 0, &COMMIT_MAGIC.to_le_bytes());
    put(&mut bytes, 8, &epoch.to_le_bytes());
    put(&mut bytes, 16, &transaction.to_le_bytes());
    put(&mut bytes, 24, &payload_crc.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// A record with its header, not padded; and the CRC of its payload.
pub(crate) fn encode(
    epoch: u64,
    transaction: u64,
    with_mark: bool,
    frees: &[Free],
    blocks: &[(MetaRef, u64)],
) -> (SgList, u32) {
    let mut bytes = vec![0; HEADER];
    let revokes = frees.iter().filter(|free| free.metadata);
    let revoked = revokes.clone().count();
    for Free { extent, .. } in revokes {
        bytes.extend(extent.start.to_le_bytes());
        bytes.extend(extent.len.to_le_bytes());
    }
    for (block, mask) in blocks {
        bytes.extend(block.number.to_le_bytes());
        bytes.extend(mask.to_le_bytes());
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[HEADER..]);
    let mut payload_len = bytes.len() - HEADER;
    let mut chunks = SgList::new();
    let mut unlike = Vec::new();
    for (block, mask) in blocks {
        let content = block.bytes();
        if *mask == u64::MAX {
            crc.update(&content);
            payload_len += content.len();
            match block.repeats() {
                Some(word) => {
                    chunks.push(Buf::copy_of(&std::mem::take(&mut unlike)));
                    chunks.push(Buf::fill(word, content.len()));
                }
                None => unlike.extend_from_slice(&content),
            }
            continue;
        }
        let chunk = content.len() / 64;
        for (i, chunk) in content.chunks_exact(chunk).enumerate() {
            if mask >> i & 1 == 1 {
                crc.update(chunk);
                payload_len += chunk.len();
                unlike.extend_from_slice(chunk);
            }
        }
    }
    chunks.push(Buf::copy_of(&unlike));
    let payload_crc = crc.finalize();
    let header = &mut bytes[..HEADER];
    put(header, 0, &RECORD_MAGIC.to_le_bytes());
    put(header, 4, &if with_mark { WITH_MARK } else { 0 }.to_le_bytes());
    put(header, 8, &epoch.to_le_bytes());
    put(header, 16, &transaction.to_le_bytes());
    put(header, 24, &(payload_len as u64).to_le_bytes());
    put(header, 32, &payload_crc.to_le_bytes());
    put(header, 36, &(blocks.len() as u32).to_le_bytes());
    put(header, 40, &(revoked as u32).to_le_bytes());
    seal(header);
    let mut record = SgList::from(Buf::copy_of(&bytes));
    record.append(chunks);
    (record, payload_crc)
}

/// One entry of a record: a block, which of its chunks, and their bytes.
pub(crate) struct Entry<'a> {
    pub(crate) block: u64,
    pub(crate) mask: u64,
    pub(crate) chunks: &'a [u8],
}

/// The revokes and entries of a payload whose checksum agrees.
pub(crate) fn decode<'a>(
    payload: &'a [u8],
    header: &Header,
    at: Offset,
    shape: &Shape,
) -> Result<(Vec<Extent>, Vec<Entry<'a>>), FormatError> {
    let fields = Reader::little("journal record", payload).lying_at(at.bytes());
    let inside = |block: u64| block > 0 && block < shape.end;
    let mut revokes = Vec::new();
    let mut place = 0;
    for _ in 0..header.revokes {
        let extent = Extent {
            start: fields.get_at::<u64>("revoked block", place)?,
            len: fields.get_at::<u64>("revoked length", place + 8)?,
        };
        let sound = inside(extent.start) && extent.len <= shape.region_blocks;
        fields.require(sound, "revoked block")?;
        revokes.push(extent);
        place += REVOKE;
    }
    let chunk = shape.block as usize / 64;
    let mut entries = Vec::new();
    let mut chunks_at = place + header.entries as usize * ENTRY;
    for _ in 0..header.entries {
        let block = fields.get_at::<u64>("block", place)?;
        let mask = fields.get_at::<u64>("mask", place + 8)?;
        fields.require(inside(block), "block")?;
        let chunks = fields.slice("chunks", chunks_at, mask.count_ones() as usize * chunk)?;
        place += ENTRY;
        chunks_at += chunks.len();
        entries.push(Entry { block, mask, chunks });
    }
    Ok((revokes, entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::MetaBlock;
    use crate::preset::Preset;
    use stdx::ByteCount;

    /// What replay finds is what was recorded; and of the bitmaps of a large file a record holds the numbers alone.
    #[test]
    fn a_record_gives_back_its_blocks_and_holds_none_whose_bytes_are_all_alike() {
        let capacity = ByteCount::gib(700);
        let shape = Shape::of(&Preset::Xfs.settings(capacity, None), capacity).expect("it fits");
        let block = |number: u64, byte: u8, last: u8| {
            let mut bytes = vec![byte; 4096];
            bytes[4095] = last;
            MetaBlock::new(number, bytes.into())
        };
        let mut blocks = vec![
            (block(9, 0xff, 0xff), u64::MAX),
            (block(10, 7, 8), u64::MAX),
            (block(11, 0xff, 0xff), 0b101),
            (block(12, 7, 9), 1 << 63),
            (block(13, 0, 0), u64::MAX),
        ];
        let alike = |number: u64| (block(number, 0xff, 0xff), u64::MAX);
        blocks.extend((100..1100).map(alike));
        let free = |start, metadata| Free { extent: Extent { start, len: 3 }, metadata };
        let (record, crc) = encode(5, 77, false, &[free(40, true), free(50, false)], &blocks);
        let memory: usize = record.pieces().iter().map(Buf::memory).sum();
        assert!(memory < 1100 * ENTRY + 3 * 4096, "{memory} bytes for {}", record.len());

        let bytes = record.to_vec();
        let header = Header::find(&bytes, 5, 77).expect("a header");
        let payload = &bytes[HEADER..];
        assert_eq!(header.payload_len, payload.len() as u64);
        assert_eq!((crc32fast::hash(payload), header.payload_crc), (crc, crc));
        let (revokes, entries) = decode(payload, &header, Offset(0), &shape).expect("sound");
        assert_eq!(revokes, [Extent { start: 40, len: 3 }]);
        assert_eq!(entries.len(), blocks.len());
        for (entry, (block, mask)) in entries.iter().zip(&blocks) {
            assert_eq!((entry.block, entry.mask), (block.number, *mask));
            let content = block.bytes();
            let recorded = (0..64).filter(|i| mask >> i & 1 == 1);
            let chunks: Vec<u8> =
                recorded.flat_map(|i| content[64 * i..64 * (i + 1)].to_vec()).collect();
            assert_eq!(entry.chunks, chunks, "{}", entry.block);
        }
    }
}
