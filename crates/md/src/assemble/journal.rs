//! Bringing what a write journal holds onto the members, before anything is read through them.
//!
//! From the tail that the journal's superblock names, meta block after meta block, as long as each is whole, lies
//! where it says, and has the next sequence. A stripe whose data and parity are there is written to the members,
//! at once: later ones of the same stripe come later. What a block's checksum does not fit ends the log; nothing
//! of it had begun to be written to the members.
//!
//! A journal in write-back mode also holds data whose parity was not made yet. It is handed back, for the engine
//! to write as any other data.
//!
//! Where the tail does not lead to a meta block the journal is new. Source: Linux `drivers/md/raid5-cache.c`
//! (`r5l_load_log`, `r5c_recovery_flush_log`, `r5c_recovery_analyze_meta_block`).

use super::error::AssembleError;
use super::facts::Superblock;
use super::found::Found;
use super::ppl::Part;
use crate::layout::parity::ParityMap;
use crate::superblock::SECTOR;
use crate::superblock::journal::{
    BLOCK_BYTES, BLOCK_SECTORS, MetaBlock, Payload, checksum, seed,
};
use rt::filter::Slice;
use rt::{Buf, DeviceRef, Request};
use std::collections::BTreeMap;
use stdx::{ByteCount, Offset};

/// So many bytes of data without parity are taken up; md's stripe cache is of this order.
const DATA_ONLY_BYTES_MAX: usize = 256 << 20;

/// A journal's ring of blocks.
#[derive(Clone)]
pub(crate) struct Ring {
    /// The ring, and nothing else.
    pub(crate) device: DeviceRef,
    /// Sectors of it: whole blocks.
    pub(crate) sectors: u64,
}

impl Ring {
    /// A place so many sectors further.
    pub(crate) fn after(&self, at: u64, sectors: u64) -> u64 {
        (at + sectors) % self.sectors
    }

    /// Requests of blocks from a place on, which go around the end: place on the device, and blocks before it.
    pub(crate) fn runs(&self, at: u64, blocks: u64) -> impl Iterator<Item = (Offset, u64, u64)> {
        let first = blocks.min((self.sectors - at) / BLOCK_SECTORS);
        let runs = [(at, 0, first), (0, first, blocks - first)];
        runs.into_iter()
            .filter(|(_, _, blocks)| *blocks > 0)
            .map(|(at, before, blocks)| (Offset(at * SECTOR), before, blocks))
    }

    async fn read(&self, at: u64, blocks: u64) -> Result<Vec<u8>, AssembleError> {
        let mut bytes = Vec::new();
        for (offset, _, blocks) in self.runs(at, blocks) {
            let len = ByteCount(blocks * BLOCK_BYTES as u64);
            bytes.extend(self.device.submit(Request::read(offset, len)).await?.to_vec());
        }
        Ok(bytes)
    }
}

/// The ring of a journal device.
///
/// # Errors
/// Where it does not lie on the device, or has no two blocks.
pub(crate) fn ring(found: &Found) -> Result<Ring, AssembleError> {
    let capacity = found.device.geometry().capacity;
    let beyond = || AssembleError::BeyondEnd { device: found.name(), what: "the journal", capacity };
    let Superblock::V1(sb) = &found.superblock else { return Err(beyond()) };
    let sectors = sb.data_size - sb.data_size % BLOCK_SECTORS;
    let (start, len) = (Offset(sb.data_offset * SECTOR), ByteCount(sectors * SECTOR));
    let fits = Request::read(start, len).check(&*found.device).is_ok();
    if !fits || sectors < 2 * BLOCK_SECTORS {
        return Err(beyond());
    }
    Ok(Ring { device: Slice::new(found.device.clone(), start, len), sectors })
}

/// What a journal gave.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// Where its log ends.
    pub(crate) end: u64,
    /// A sequence that no block behind the end has.
    pub(crate) sequence: u64,
    /// Data whose parity is to be made: byte of the array, and one block.
    pub(crate) data_only: Vec<(u64, Vec<u8>)>,
}

/// Data of a stripe by byte of the array, and its parity.
#[derive(Default)]
struct Stripe {
    data: BTreeMap<u64, Vec<u8>>,
}

/// Writes what the journal holds to the members.
pub(crate) async fn replay(
    found: &Found,
    parts: &[Option<Part<'_>>],
    map: &ParityMap,
) -> Result<Replayed, AssembleError> {
    let ring = ring(found)?;
    let Superblock::V1(sb) = &found.superblock else {
        unreachable!("a ring is only found with a superblock 1.x")
    };
    let seed = seed(sb.set_uuid);
    // A journal that is new begins with a sequence that none before it had.
    let fresh = Replayed { end: 0, sequence: sb.events << 24, data_only: Vec::new() };
    let mut at = sb.recovery_offset;
    if at >= ring.sectors || !at.is_multiple_of(BLOCK_SECTORS) {
        at = 0;
    }
    let Ok(first) = MetaBlock::decode(&ring.read(at, 1).await?, seed) else { return Ok(fresh) };
    if first.position != at {
        return Ok(fresh);
    }
    let mut replay = Replay { parts, map, pending: BTreeMap::new(), pending_bytes: 0 };
    let (mut sequence, mut passed) = (first.sequence, 0);
    loop {
        let Ok(meta) = MetaBlock::decode(&ring.read(at, 1).await?, seed) else { break };
        let sectors = (1 + meta.blocks()) * BLOCK_SECTORS;
        passed += sectors;
        if meta.sequence != sequence || meta.position != at || passed > ring.sectors {
            break;
        }
        let blocks = ring.read(ring.after(at, BLOCK_SECTORS), meta.blocks()).await?;
        if !replay.take(&meta, &blocks, seed, found).await? {
            break;
        }
        at = ring.after(at, sectors);
        sequence = sequence.wrapping_add(1);
    }
    // Far from any sequence that a block behind the end may have: md's step.
    let sequence = sequence.wrapping_add(10_000);
    let data_only = replay.pending.into_values().flat_map(|stripe| stripe.data).collect();
    Ok(Replayed { end: at, sequence, data_only })
}

struct Replay<'a> {
    parts: &'a [Option<Part<'a>>],
    map: &'a ParityMap,
    /// Stripes without parity so far, by the members' sector.
    pending: BTreeMap<u64, Stripe>,
    pending_bytes: usize,
}

impl Replay<'_> {
    /// Takes a meta block and what follows it; false where a checksum does not fit.
    async fn take(
        &mut self,
        meta: &MetaBlock,
        blocks: &[u8],
        seed: u32,
        found: &Found,
    ) -> Result<bool, AssembleError> {
        let mut block = blocks.chunks_exact(BLOCK_BYTES);
        let fits = meta.payloads.iter().all(|payload| {
            let mut next = |sum: u32| block.next().is_some_and(|block| checksum(seed, block) == sum);
            match payload {
                Payload::Data { checksum, .. } => next(*checksum),
                Payload::Parity { p, q, .. } => next(*p) && q.is_none_or(&mut next),
                Payload::Flush { .. } => true,
            }
        });
        if !fits {
            return Ok(false);
        }
        let mut blocks = blocks.chunks_exact(BLOCK_BYTES);
        for payload in &meta.payloads {
            match payload {
                Payload::Data { sector, .. } => {
                    let at = sector.saturating_mul(SECTOR);
                    let Some(place) = self.place_of(at) else { return Err(stray(found)) };
                    let block = blocks.next().unwrap_or_default().to_vec();
                    self.pending_bytes += block.len();
                    if self.pending_bytes > DATA_ONLY_BYTES_MAX {
                        let capacity = ByteCount(DATA_ONLY_BYTES_MAX as u64);
                        return Err(AssembleError::JournalFull { device: found.name(), capacity });
                    }
                    let stripe = self.pending.entry(place / SECTOR).or_default();
                    if let Some(older) = stripe.data.insert(at, block) {
                        self.pending_bytes -= older.len();
                    }
                }
                Payload::Parity { sector, q, .. } => {
                    let p = blocks.next().unwrap_or_default();
                    let q = q.and_then(|_| blocks.next());
                    let at = sector.saturating_mul(SECTOR);
                    self.complete(at, p, q, found).await?;
                }
                Payload::Flush { sectors } => {
                    sectors.iter().for_each(|sector| drop(self.forget(*sector)));
                }
            }
        }
        Ok(true)
    }

    fn forget(&mut self, sector: u64) -> Option<Stripe> {
        let stripe = self.pending.remove(&sector)?;
        self.pending_bytes -= stripe.data.values().map(Vec::len).sum::<usize>();
        Some(stripe)
    }

    /// The member's byte of a byte of the array, where it is one.
    fn place_of(&self, at: u64) -> Option<u64> {
        let capacity = self.rows()?.checked_mul(self.map.row_bytes())?;
        let whole = at.is_multiple_of(BLOCK_BYTES as u64) && at < capacity;
        whole.then(|| self.map.locate(at).0.at)
    }

    fn rows(&self) -> Option<u64> {
        let sizes = self.parts.iter().flatten().map(|part| part.data.geometry().capacity.bytes());
        Some(sizes.min()? / self.map.chunk)
    }

    /// Writes a stripe whose parity has come.
    async fn complete(
        &mut self,
        at: u64,
        p: &[u8],
        q: Option<&[u8]>,
        found: &Found,
    ) -> Result<(), AssembleError> {
        // Parity alone: its data is on the members.
        let Some(stripe) = self.forget(at / SECTOR) else { return Ok(()) };
        let row = self.map.row(at / self.map.chunk);
        for (byte, block) in &stripe.data {
            let (place, _) = self.map.locate(*byte);
            self.write(place.slot, at, block).await?;
        }
        self.write(row.p, at, p).await?;
        match (row.q, q) {
            (Some(slot), Some(q)) => self.write(slot, at, q).await,
            (None, None) => Ok(()),
            _ => Err(stray(found)),
        }
    }

    /// Writes a block to a member, where it is there and has another.
    async fn write(&self, slot: usize, at: u64, block: &[u8]) -> Result<(), AssembleError> {
        let Some(part) = self.parts.get(slot).and_then(Option::as_ref) else { return Ok(()) };
        if at >= part.recovered {
            return Ok(());
        }
        let len = ByteCount(block.len() as u64);
        let there = part.data.submit(Request::read(Offset(at), len)).await?.to_vec();
        if there != block {
            part.data.submit(Request::write(Offset(at), Buf::copy_of(block))).await?;
        }
        Ok(())
    }
}

fn stray(found: &Found) -> AssembleError {
    AssembleError::JournalStray { device: found.name() }
}
