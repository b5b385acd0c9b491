//! Putting the parity of a dirty RAID 5 right by its partial parity log, before anything is read through it.
//!
//! For each member, the last record of its log whose header is whole and whose generation grows. For each of
//! its entries whose checksum fits: the parity of the rows it names becomes the exclusive-or of the partial
//! parity and of the data that was being written, as the members have it now. An entry whose data lies on a
//! member that is not there, or not rebuilt so far, is passed over: what was being written there is lost, and
//! nothing else is.
//!
//! An entry names `data_sector` of the array and how much was written. Where its partial parity is shorter
//! than a chunk, the same stretch of several chunks of one row was written; otherwise a run of whole chunks.
//!
//! Source: Linux `drivers/md/raid5-ppl.c` (`ppl_load_distributed`, `ppl_recover`, `ppl_recover_entry`).

use super::format::{Entry, HEADER_BYTES, Header, signature};
use crate::assemble::error::AssembleError;
use crate::assemble::facts::Superblock;
use crate::assemble::found::{Found, moved, read_at};
use crate::layout::parity::ParityMap;
use crate::superblock::SECTOR;
use rt::{Buf, DeviceRef, Request};
use stdx::{ByteCount, Offset};

/// The block in which parity is put right where all of an entry is a multiple of it; a sector otherwise.
const PAGE: u64 = 4096;
/// The most bytes of one entry's partial parity: the whole log, whose sectors are counted in 16 bits.
const PARTIAL_MAX: u64 = 65_535 * SECTOR;

/// What the logs gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Entries that were applied.
    pub(crate) entries: usize,
    /// Logs or entries that did not fit their checksum.
    pub(crate) mismatches: usize,
}

/// What a member gives to the recovery.
pub(crate) struct Part<'a> {
    /// What was found on it.
    pub(crate) found: &'a Found,
    /// Its data area.
    pub(crate) data: DeviceRef,
    /// Below this byte of it, it has all that it should have.
    pub(crate) recovered: u64,
    /// Its log tells what was being written last: it was there to the end.
    pub(crate) has_log: bool,
}

impl Part<'_> {
    fn has(&self, at: u64) -> bool {
        at < self.recovered
    }
}

/// The last record of a member's log and where its partial parities begin.
async fn last_record(found: &Found) -> Result<Option<(Header, Offset)>, AssembleError> {
    let Superblock::V1(sb) = &found.superblock else { return Ok(None) };
    let Some((offset, sectors)) = sb.ppl() else { return Ok(None) };
    let start = moved(found, i64::from(offset), "the PPL")?;
    let space = u64::from(sectors) * SECTOR;
    let (mut at, mut last) = (0, None::<(Header, Offset)>);
    // Each turn passes a header at least, so the space bounds them.
    while at + HEADER_BYTES as u64 <= space {
        let place = start + ByteCount(at);
        let bytes = read_at(found, place, HEADER_BYTES as u64, "the PPL").await?;
        let Ok(header) = Header::decode(&bytes) else { break };
        let older = last.as_ref().is_some_and(|(held, _)| held.generation > header.generation);
        if header.signature != signature(sb.set_uuid) || older {
            break;
        }
        let parities: u64 = header.entries.iter().map(|entry| u64::from(entry.parity_bytes)).sum();
        at += HEADER_BYTES as u64 + parities;
        last = Some((header, place + ByteCount(HEADER_BYTES as u64)));
    }
    Ok(last)
}

/// Puts the parity right in the members' data areas.
pub(crate) async fn recover(
    parts: &[Option<Part<'_>>],
    map: &ParityMap,
) -> Result<Recovered, AssembleError> {
    let mut done = Recovered::default();
    for (slot, part) in parts.iter().enumerate() {
        let Some(Part { found, .. }) = part.as_ref().filter(|part| part.has_log) else { continue };
        let Some((header, mut at)) = last_record(found).await? else {
            done.mismatches += 1;
            continue;
        };
        for entry in &header.entries {
            let len = u64::from(entry.parity_bytes);
            if len > PARTIAL_MAX || entry.parity_slot as usize != slot {
                done.mismatches += 1;
                break;
            }
            let partial = read_at(found, at, len, "the PPL").await?;
            if entry.fits(&partial) && apply(entry, &partial, parts, map).await? {
                done.entries += 1;
            } else {
                done.mismatches += 1;
            }
            at += ByteCount(len);
        }
    }
    Ok(done)
}

/// Applies an entry; false where it can't be one of this array.
async fn apply(
    entry: &Entry,
    partial: &[u8],
    parts: &[Option<Part<'_>>],
    map: &ParityMap,
) -> Result<bool, AssembleError> {
    let chunk = map.chunk;
    let capacity = parts.iter().flatten().map(|part| part.data.geometry().capacity.bytes()).min();
    let rows = capacity.unwrap_or(0) / chunk;
    let Some(first) = entry.data_sector.checked_mul(SECTOR) else { return Ok(false) };
    let (data_bytes, parity_bytes) = (u64::from(entry.data_bytes), partial.len() as u64);
    // How many members were written, and how long the stretch on each is.
    let (disks, strip, last) = if parity_bytes < chunk {
        let (disks, strip) = match parity_bytes {
            0 => (map.data as u64, data_bytes / map.data as u64),
            bytes => (data_bytes / bytes, bytes),
        };
        (disks, strip, disks.checked_sub(1).map(|others| first + others * chunk + strip))
    } else {
        (map.data as u64, chunk, first.checked_add(data_bytes))
    };
    let Some(last) = last.filter(|last| *last <= rows * map.row_bytes()) else { return Ok(false) };
    if disks > map.data as u64 || strip > chunk || !strip.is_multiple_of(SECTOR) {
        return Ok(false);
    }
    let in_pages = [first, strip, chunk].iter().all(|bytes| bytes.is_multiple_of(PAGE));
    let block = if in_pages { PAGE } else { SECTOR };
    for step in (0..strip).step_by(block as usize) {
        let mut parity = vec![0; block as usize];
        let mut touched = false;
        let mut lost = false;
        for disk in 0..disks {
            let at = first + step + disk * chunk;
            if at >= last {
                continue;
            }
            touched = true;
            let (place, _) = map.locate(at);
            let part = parts.get(place.slot).and_then(Option::as_ref);
            let Some(part) = part.filter(|part| part.has(place.at)) else {
                lost = true;
                break;
            };
            let read = Request::read(Offset(place.at), ByteCount(block));
            xor(&mut parity, &part.data.submit(read).await?.to_vec());
        }
        if !touched || lost {
            continue;
        }
        if let Some(own) = partial.get(step as usize..(step + block) as usize) {
            xor(&mut parity, own);
        }
        let row = map.row((first + step) / map.row_bytes());
        if row.p != entry.parity_slot as usize {
            return Ok(false);
        }
        let (place, _) = map.locate(first + step);
        let part = parts.get(row.p).and_then(Option::as_ref);
        if let Some(part) = part.filter(|part| part.has(place.at)) {
            part.data.submit(Request::write(Offset(place.at), Buf::copy_of(&parity))).await?;
        }
    }
    Ok(true)
}

fn xor(target: &mut [u8], other: &[u8]) {
    target.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
}
