//! Bringing what a write journal holds onto the members, before anything is read through them.
//!
//! From the tail that the journal's superblock names, meta block after meta block, as long as each is whole, lies
//! where it says, and has the next sequence. A stripe whose data and parity are there is written to the members,
//! at once: later ones of the same stripe come later. A block that does not fit its checksum ends the log; nothing
//! of it had begun to be written to the members.
//!
//! **Data without parity.** A journal in write-back mode also holds data whose parity was not made yet. At the end of
//! the log the rest of such a stripe is read from the members, and its parity made. Done again after a power
//! cut in the midst of it, this gives the same, since what is read is not what is written. It can't be done where a
//! member is missing whose data of the stripe is not in the journal: what it had would have to be computed from
//! parity that is about to change. Such a log is refused by name.
//!
//! **The tail leads to a whole meta block**, always: mdadm writes one when the set is created, and the superblock
//! names another only after that was written. Anything else is damage, and an error that names the field. (Linux
//! takes such a journal for a new one and forgets what it holds. So does [`Doubt::TakeAsNew`].)
//!
//! Done on views that keep what is written in memory, the same is the set's content after a replay.
//!
//! Source: Linux `drivers/md/raid5-cache.c` (`r5l_load_log`, `r5c_recovery_flush_log`,
//! `r5c_recovery_analyze_meta_block`, `r5c_recovery_rewrite_data_only_stripes`).

use super::ring::{Ring, ring};
use crate::assemble::error::AssembleError;
use crate::assemble::facts::Superblock;
use crate::assemble::found::Found;
use crate::layout::Place;
use crate::layout::parity::ParityMap;
use crate::parity::Sums;
use crate::ppl::recovery::Part;
use crate::superblock::journal::{BLOCK_BYTES, BLOCK_SECTORS, MetaBlock, Payload, checksum, seed};
use crate::superblock::{FormatError, Problem, SECTOR};
use rt::{Buf, IoErrorKind, Request, SgList};
use std::collections::BTreeMap;
use stdx::{ByteCount, Offset};

/// So many bytes of data without parity are taken up; md's stripe cache is of this order.
const DATA_ONLY_BYTES_MAX: usize = 256 << 20;
/// From the last sequence of one life to the first of the next: md's step.
const SEQUENCE_STEP: u64 = 10_000;
/// Where a superblock has the tail.
const TAIL_AT: usize = 152;

/// What is done with a journal whose tail does not lead to a meta block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It is damaged: an error.
    Refuse,
    /// It is taken as a new one.
    TakeAsNew,
}

/// What a journal gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Where its log begins.
    pub(crate) tail: u64,
    /// Where its log ends.
    pub(crate) end: u64,
    /// A sequence that no block behind the end has.
    pub(crate) sequence: u64,
    /// Whether it listed nothing.
    pub(crate) was_empty: bool,
    /// Whether it was taken as a new one.
    pub(crate) was_new: bool,
}

/// Writes what the journal holds to the members, which are in order of slots.
///
/// # Errors
/// What is wrong with the journal, and the mend.
pub(crate) async fn replay(
    found: &Found,
    parts: &[Option<Part<'_>>],
    map: &ParityMap,
    doubt: Doubt,
) -> Result<Replayed, AssembleError> {
    let ring = ring(found)?;
    let seed = seed(found.superblock.set_uuid());
    let damaged = |error| AssembleError::format(&found.name(), error);
    let first = match first(found, &ring, seed).await {
        Ok(first) => first,
        Err(AssembleError::Format { .. }) if doubt == Doubt::TakeAsNew => {
            // Far from what its blocks can have: events only grow.
            let sequence = found.superblock.events() << 32;
            return Ok(Replayed { tail: 0, end: 0, sequence, was_empty: false, was_new: true });
        }
        Err(error) => return Err(error),
    };
    let mut replay = Replay { found, parts, map, pending: BTreeMap::new(), pending_bytes: 0 };
    let tail = first.position;
    let (mut at, mut sequence, mut passed) = (tail, first.sequence, 0);
    let mut was_empty = true;
    loop {
        let meta = match MetaBlock::decode(&ring.read(at, 1).await?, seed) {
            Ok(meta) => meta,
            Err(error) if is_end(&error) => break,
            Err(error) => return Err(damaged(error)),
        };
        let sectors = (1 + meta.blocks()) * BLOCK_SECTORS;
        passed += sectors;
        if meta.sequence != sequence || meta.position != at || passed > ring.sectors {
            break;
        }
        let blocks = ring.read(ring.after(at, BLOCK_SECTORS), meta.blocks()).await?;
        if !fits(&meta, &blocks, seed) {
            break;
        }
        was_empty &= meta.payloads.is_empty();
        replay.take(&meta, &blocks).await?;
        at = ring.after(at, sectors);
        sequence = sequence.wrapping_add(1);
    }
    replay.finish().await?;
    let sequence = sequence.wrapping_add(SEQUENCE_STEP);
    Ok(Replayed { tail, end: at, sequence, was_empty, was_new: false })
}

/// Whether a block that can't be decoded may simply be what lay behind the end of a log.
fn is_end(error: &FormatError) -> bool {
    matches!(error.problem, Problem::Magic(_) | Problem::Sum { .. })
}

/// The block to which the tail leads.
async fn first(found: &Found, ring: &Ring, seed: u32) -> Result<MetaBlock, AssembleError> {
    let wrong = |structure, field, offset, found_there, most| {
        let problem = Problem::Range { found: found_there, least: 0, most };
        AssembleError::format(&found.name(), FormatError { structure, field, offset, problem })
    };
    let tail = match &found.superblock {
        Superblock::V1(sb) => sb.recovery_offset,
        Superblock::V090(_) => 0,
    };
    if tail >= ring.sectors || !tail.is_multiple_of(BLOCK_SECTORS) {
        let most = ring.sectors - BLOCK_SECTORS;
        return Err(wrong("md superblock 1.x", "journal_tail", TAIL_AT, tail, most));
    }
    let bytes = ring.read(tail, 1).await?;
    let first = MetaBlock::decode(&bytes, seed)
        .map_err(|error| AssembleError::format(&found.name(), error))?;
    if first.position != tail {
        return Err(wrong("journal meta block", "position", 24, first.position, tail));
    }
    Ok(first)
}

/// Whether blocks fit the checksums of the meta block that lists them.
fn fits(meta: &MetaBlock, blocks: &[u8], seed: u32) -> bool {
    let mut blocks = blocks.chunks_exact(BLOCK_BYTES);
    let mut next = |sum: u32| blocks.next().is_some_and(|block| checksum(seed, block) == sum);
    meta.payloads.iter().all(|payload| match payload {
        Payload::Data { checksum, .. } => next(*checksum),
        Payload::Parity { p, q, .. } => next(*p) && q.is_none_or(&mut next),
        Payload::Flush { .. } => true,
    })
}

/// Data by byte of the array.
type Stripe = BTreeMap<u64, Vec<u8>>;

struct Replay<'a> {
    found: &'a Found,
    parts: &'a [Option<Part<'a>>],
    map: &'a ParityMap,
    /// Stripes without parity so far, by the byte of the members' data areas.
    pending: BTreeMap<u64, Stripe>,
    pending_bytes: usize,
}

impl Replay<'_> {
    /// Takes a meta block and what follows it.
    async fn take(&mut self, meta: &MetaBlock, blocks: &[u8]) -> Result<(), AssembleError> {
        let mut blocks = blocks.chunks_exact(BLOCK_BYTES);
        for payload in &meta.payloads {
            match payload {
                Payload::Data { sector, .. } => {
                    let block = blocks.next().unwrap_or_default();
                    self.put_down(sector.saturating_mul(SECTOR), block)?;
                }
                Payload::Parity { sector, q, .. } => {
                    let p = blocks.next().unwrap_or_default();
                    let q = q.and_then(|_| blocks.next());
                    self.complete(sector.saturating_mul(SECTOR), p, q).await?;
                }
                Payload::Flush { sectors } => {
                    for sector in sectors {
                        self.forget(sector.saturating_mul(SECTOR));
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps data until its parity comes.
    fn put_down(&mut self, byte: u64, block: &[u8]) -> Result<(), AssembleError> {
        let Some(place) = self.place_of(byte) else { return Err(self.stray()) };
        self.pending_bytes += block.len();
        if self.pending_bytes > DATA_ONLY_BYTES_MAX {
            return Err(self.full(ByteCount(DATA_ONLY_BYTES_MAX as u64)));
        }
        let stripe = self.pending.entry(place.at).or_default();
        if let Some(older) = stripe.insert(byte, block.to_vec()) {
            self.pending_bytes -= older.len();
        }
        Ok(())
    }

    fn forget(&mut self, at: u64) -> Option<Stripe> {
        let stripe = self.pending.remove(&at)?;
        self.pending_bytes -= stripe.values().map(Vec::len).sum::<usize>();
        Some(stripe)
    }

    /// Where a byte of the array lies, where it is the first of a block.
    fn place_of(&self, byte: u64) -> Option<Place> {
        let sizes = self.parts.iter().flatten().map(|part| part.data.geometry().capacity.bytes());
        let rows = sizes.min()? / self.map.chunk;
        let capacity = rows.checked_mul(self.map.row_bytes())?;
        let whole = byte.is_multiple_of(BLOCK_BYTES as u64) && byte < capacity;
        whole.then(|| self.map.locate(byte).0)
    }

    /// Writes a stripe whose parity has come.
    async fn complete(&mut self, at: u64, p: &[u8], q: Option<&[u8]>) -> Result<(), AssembleError> {
        if q.is_some() != (self.map.parities() == 2) {
            return Err(self.stray());
        }
        // Parity alone: its data is on the members.
        let Some(stripe) = self.forget(at) else { return Ok(()) };
        self.write_stripe(at, &stripe, [Some(p), q]).await
    }

    async fn write_stripe(
        &self,
        at: u64,
        stripe: &Stripe,
        parities: [Option<&[u8]>; 2],
    ) -> Result<(), AssembleError> {
        for (byte, block) in stripe {
            self.write(self.map.locate(*byte).0.slot, at, block).await?;
        }
        let row = self.map.row(at / self.map.chunk);
        for (slot, parity) in [Some(row.p), row.q].into_iter().zip(parities) {
            if let (Some(slot), Some(parity)) = (slot, parity) {
                self.write(slot, at, parity).await?;
            }
        }
        Ok(())
    }

    /// Makes the parity of what has none.
    async fn finish(&mut self) -> Result<(), AssembleError> {
        for (at, mut stripe) in std::mem::take(&mut self.pending) {
            let row = self.map.row(at / self.map.chunk);
            let mut data = vec![None; self.map.coefficients()];
            for index in 0..self.map.data {
                let slot = self.map.data_slot(&row, index);
                let byte = self.map.array_byte(Place { slot, at });
                let byte = byte.expect("a slot of data has a byte of the array");
                let block = match stripe.get(&byte) {
                    Some(block) => Buf::copy_of(block).into(),
                    None => self.read(slot, at).await?,
                };
                data[self.map.coefficient(&row, slot)] = Some(block);
            }
            let mut sums = Sums::default();
            sums.generate(data, self.map.parities());
            let made = sums.compute_now().into_iter().flatten().map(|sum| sum.to_vec());
            let made: Vec<Vec<u8>> = made.collect();
            let parity = |n: usize| made.get(n).map(Vec::as_slice);
            self.write_stripe(at, &std::mem::take(&mut stripe), [parity(0), parity(1)]).await?;
        }
        Ok(())
    }

    /// The member in a slot, where it has what it should have at this place.
    fn part(&self, slot: usize, at: u64) -> Option<&Part<'_>> {
        let part = self.parts.get(slot).and_then(Option::as_ref);
        part.filter(|part| at < part.recovered)
    }

    async fn read(&self, slot: usize, at: u64) -> Result<SgList, AssembleError> {
        let part = self.part(slot, at);
        let needs = || AssembleError::JournalNeeds { device: self.found.name(), slot };
        let read = Request::read(Offset(at), ByteCount(BLOCK_BYTES as u64));
        Ok(part.ok_or_else(needs)?.data.submit(read).await?)
    }

    /// Writes a block to a member, where it is there and has another.
    async fn write(&self, slot: usize, at: u64, block: &[u8]) -> Result<(), AssembleError> {
        let Some(part) = self.part(slot, at) else { return Ok(()) };
        let len = ByteCount(block.len() as u64);
        let there = part.data.submit(Request::read(Offset(at), len)).await;
        // What can't be read is written.
        if there.is_ok_and(|there| there.to_vec() == block) {
            return Ok(());
        }
        let write = Request::write(Offset(at), Buf::copy_of(block));
        match part.data.submit(write).await {
            Err(error) if error.kind == IoErrorKind::NoSpace => {
                Err(self.full(crate::window::KEPT_BYTES_MAX))
            }
            done => Ok(done.map(|_| ())?),
        }
    }

    fn stray(&self) -> AssembleError {
        AssembleError::JournalStray { device: self.found.name() }
    }

    fn full(&self, most: ByteCount) -> AssembleError {
        AssembleError::JournalFull { device: self.found.name(), most }
    }
}
