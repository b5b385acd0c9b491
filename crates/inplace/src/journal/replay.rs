//! Replay: what is committed and not in place is written in place, at the mount.
//!
//! Two walks along the records, from the tail. The first finds which of them count, and what they
//! revoke; the second applies them in order, a block's chunks over what the device holds. Blocks are
//! gathered in memory up to [`GATHERED_MAX`] and written out. Replaying twice does no harm: a crash in the
//! middle of replay is met by another replay.

use crate::journal::record::{self, HEADER, Header, JournalSuper, SUPER};
use crate::layout::Shape;
use rt::{Buf, DeviceRef, IoErrorKind, Request, SgList};
use std::collections::BTreeMap;
use stdx::bytes::FormatError;
use stdx::{ByteCount, Offset};

/// Blocks gathered before they are written out.
const GATHERED_MAX: usize = 16_384;

/// Why replay failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayError {
    Io(IoErrorKind),
    Format(FormatError),
}

impl From<FormatError> for ReplayError {
    fn from(error: FormatError) -> ReplayError {
        ReplayError::Format(error)
    }
}

/// What is left after replay: the epoch and the number that the journal goes on with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replayed {
    pub(crate) epoch: u64,
    pub(crate) next: u64,
    /// Transactions that were replayed.
    pub(crate) transactions: u64,
}

struct Replay<'a> {
    device: &'a DeviceRef,
    shape: &'a Shape,
    gathered: BTreeMap<u64, Vec<u8>>,
}

/// Where a record that counts lies.
struct Found {
    transaction: u64,
    from: u64,
    header: Header,
}

/// Replays the journal. Nothing else may use the device.
pub(crate) async fn replay(device: &DeviceRef, shape: &Shape) -> Result<Replayed, ReplayError> {
    let mut replay = Replay { device, shape, gathered: BTreeMap::new() };
    let block = replay.read(0, shape.block).await?;
    let log = JournalSuper::decode(&block[..SUPER], shape)?;
    let found = replay.find(&log).await?;
    let mut revoked: BTreeMap<u64, u64> = BTreeMap::new();
    for record in &found {
        let payload = replay.payload(record).await?;
        let at = replay.offset(record.from);
        for extent in record::decode(&payload, &record.header, at, shape)?.0 {
            for number in extent.start..extent.end() {
                revoked.insert(number, record.transaction);
            }
        }
    }
    for record in &found {
        let payload = replay.payload(record).await?;
        let at = replay.offset(record.from);
        for entry in record::decode(&payload, &record.header, at, shape)?.1 {
            if revoked.get(&entry.block).is_none_or(|by| *by < record.transaction) {
                replay.apply(&entry).await?;
            }
        }
    }
    replay.write_out().await?;
    replay.submit(Request::flush()).await?;
    let next = log.transaction + found.len() as u64;
    let transactions = found.len() as u64;
    // A new epoch: what lies behind the last record can't be taken for one of the records to come.
    let new = Replayed { epoch: log.epoch + 1, next, transactions };
    let log = JournalSuper { epoch: new.epoch, tail: shape.block, transaction: next, ..log };
    let mut bytes = vec![0; shape.block as usize];
    bytes[..SUPER].copy_from_slice(&log.encode());
    let write = Request::write_fua(replay.offset(0), Buf::copy_of(&bytes));
    replay.submit(write).await?;
    Ok(new)
}

impl Replay<'_> {
    fn offset(&self, place: u64) -> Offset {
        Offset(self.shape.journal.start * self.shape.block + place)
    }

    async fn submit(&self, request: Request) -> Result<SgList, ReplayError> {
        self.device.submit(request).await.map_err(|error| ReplayError::Io(error.kind))
    }

    async fn read(&self, place: u64, len: u64) -> Result<Vec<u8>, ReplayError> {
        let read = Request::read(self.offset(place), ByteCount(len));
        Ok(self.submit(read).await?.to_vec())
    }

    async fn payload(&self, record: &Found) -> Result<Vec<u8>, ReplayError> {
        let sector = self.device.geometry().logical_block.bytes();
        let len = (HEADER as u64 + record.header.payload_len).next_multiple_of(sector);
        let bytes = self.read(record.from, len).await?;
        Ok(bytes[HEADER..HEADER + record.header.payload_len as usize].to_vec())
    }

    /// The records that count, in order.
    async fn find(&self, log: &JournalSuper) -> Result<Vec<Found>, ReplayError> {
        let mut found: Vec<Found> = Vec::new();
        let mut place = log.tail;
        // Each record takes at least a unit, so the area bounds how many there are.
        let most = self.shape.journal.len * self.shape.block / u64::from(log.unit);
        while (found.len() as u64) < most {
            let transaction = log.transaction + found.len() as u64;
            let mut next = None;
            // A record that did not fit behind the last one stands at the start.
            for from in [place, self.shape.block] {
                if let Some(record) = self.record_at(from, log, transaction).await? {
                    next = Some(record);
                    break;
                }
            }
            let Some((record, end)) = next else { break };
            place = end;
            found.push(record);
        }
        Ok(found)
    }

    /// The record at a place, where one that counts is there, and where it ends.
    async fn record_at(
        &self,
        from: u64,
        log: &JournalSuper,
        transaction: u64,
    ) -> Result<Option<(Found, u64)>, ReplayError> {
        let unit = u64::from(log.unit);
        let end = self.shape.journal.len * self.shape.block;
        if from + unit > end {
            return Ok(None);
        }
        let sector = self.device.geometry().logical_block.bytes();
        let head = self.read(from, unit.max(sector).min(end - from)).await?;
        let Some(header) = Header::find(&head, log.epoch, transaction) else { return Ok(None) };
        let Some(len) = header.payload_len.checked_add(HEADER as u64) else { return Ok(None) };
        if len > end - from {
            return Ok(None);
        }
        let body = from + len.next_multiple_of(unit);
        let whole = body + if header.with_mark { unit } else { 0 };
        if whole > end {
            return Ok(None);
        }
        let record = Found { transaction, from, header };
        let payload = self.payload(&record).await?;
        if crc32fast::hash(&payload) != header.payload_crc {
            return Ok(None);
        }
        if header.with_mark {
            let mark = self.read(body, unit).await?;
            if !record::is_mark(&mark, log.epoch, transaction, header.payload_crc) {
                return Ok(None);
            }
        }
        Ok(Some((record, whole)))
    }

    async fn apply(&mut self, entry: &record::Entry<'_>) -> Result<(), ReplayError> {
        if !self.gathered.contains_key(&entry.block) {
            if self.gathered.len() >= GATHERED_MAX {
                self.write_out().await?;
            }
            let content = if entry.mask == u64::MAX {
                vec![0; self.shape.block as usize]
            } else {
                let len = ByteCount(self.shape.block);
                self.submit(Request::read(self.shape.offset(entry.block), len)).await?.to_vec()
            };
            self.gathered.insert(entry.block, content);
        }
        let chunk = self.shape.block as usize / 64;
        let content = self.gathered.get_mut(&entry.block).expect("it was just put there");
        let places = (0..64).filter(|i| entry.mask >> i & 1 == 1);
        for (i, chunk_bytes) in places.zip(entry.chunks.chunks_exact(chunk)) {
            content[i * chunk..(i + 1) * chunk].copy_from_slice(chunk_bytes);
        }
        Ok(())
    }

    async fn write_out(&mut self) -> Result<(), ReplayError> {
        for (number, content) in std::mem::take(&mut self.gathered) {
            let at = self.shape.offset(number);
            self.submit(Request::write(at, Buf::copy_of(&content))).await?;
        }
        Ok(())
    }
}
