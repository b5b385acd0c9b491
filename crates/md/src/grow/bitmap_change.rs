//! A write-intent bitmap comes to a set, or goes.
//!
//! Superblocks alone change, in one pass. A bitmap is written, with no bit set, to every device before the first
//! superblock names it: the set is whole and clean, so no stretch differs. Whichever superblock is the
//! freshest after a power cut tells for all whether there is one.
//!
//! **Where it lies.** Superblocks 1.1 and 1.2: between superblock and data, before the bad-block log or behind it,
//! where there is more room. 1.0: between the data area and the log before the superblock. At the same place on all
//! devices, since md knows one place for a set.
//!
//! Source: mdadm `super1.c` (`add_internal_bitmap1`).

use super::bitmap::Bitmap;
use super::error::GrowError;
use super::pages::{Page, Pages};
use super::refusal::{refuse, refuse_unsettled};
use crate::assemble::{Choice, agreed};
use crate::spec::Level;
use crate::superblock::Features;
use crate::superblock::bitmap::{BitmapSuperblock, chunk_for, sync_sectors};
use crate::superblock::place::Version;
use async_recursion::async_recursion as boxed;
use rt::Rt;
use stdx::ByteCount;

/// Sectors of a superblock 1.x and what is kept free behind it.
const SUPERBLOCK_SECTORS: i64 = 8;
/// A bitmap begins on a page.
const PAGE_SECTORS: i64 = 8;
/// Sectors that are kept for a bitmap at the most, as mdadm creates sets on large devices.
const ROOM_MAX: i64 = 256;

/// Gives a set a write-intent bitmap; tells how much a bit stands for.
///
/// # Errors
/// [`GrowError`]
#[boxed(?Send)]
pub async fn add_bitmap(
    rt: &Rt,
    choice: Choice,
    chunk: Option<ByteCount>,
    unix_s: u64,
) -> Result<ByteCount, GrowError> {
    let choice = agreed(choice);
    let set = choice.set;
    let level = refuse(&choice).await?;
    if matches!(level, Level::Linear | Level::Raid0) {
        return Err(GrowError::NoBitmapAt { set, level });
    }
    if choice.facts.features().has(Features::BITMAP) {
        return Err(GrowError::HasBitmap { set });
    }
    refuse_unsettled(&choice)?;
    let mut pages = Pages::of(rt, &choice, unix_s).await?;
    let (offset, room) = place(&pages)?;
    let facts = &choice.facts;
    let slots = facts.slots() as u64;
    let sync_sectors =
        sync_sectors(level, facts.layout().unwrap_or(0), facts.chunk(), slots, facts.size());
    let chunk_bytes = chunk_for(sync_sectors, room, chunk);
    let chunk_bytes = chunk_bytes.map_err(|least| GrowError::BitmapChunk { set, least })?;
    let events = facts.events();
    pages.bitmap = Some(Bitmap::clear(BitmapSuperblock {
        set_uuid: set,
        events,
        events_cleared: events,
        sync_sectors,
        state: 0,
        chunk_bytes,
        daemon_sleep_s: 5,
        write_behind: 0,
        sectors_reserved: room as u32,
    }));
    for page in &mut pages.pages {
        page.superblock.features = page.superblock.features.with(Features::BITMAP, true);
        page.superblock.bitmap_or_ppl = offset.to_le_bytes();
    }
    pages.advance().await?;
    Ok(ByteCount(chunk_bytes.into()))
}

/// Takes a set's write-intent bitmap away. Members that are away then can't be caught up any more.
///
/// # Errors
/// [`GrowError`]
#[boxed(?Send)]
pub async fn remove_bitmap(rt: &Rt, choice: Choice, unix_s: u64) -> Result<(), GrowError> {
    let choice = agreed(choice);
    let set = choice.set;
    refuse(&choice).await?;
    if !choice.facts.features().has(Features::BITMAP) {
        return Err(GrowError::HasNoBitmap { set });
    }
    refuse_unsettled(&choice)?;
    let mut pages = Pages::of(rt, &choice, unix_s).await?;
    pages.bitmap = None;
    for page in &mut pages.pages {
        page.superblock.features = page.superblock.features.with(Features::BITMAP, false);
        page.superblock.bitmap_or_ppl = [0; 4];
    }
    pages.advance().await?;
    Ok(())
}

/// Where a bitmap can lie on all devices, in sectors from the superblock, and how many sectors it has there.
fn place(pages: &Pages) -> Result<(i32, u64), GrowError> {
    let before_log = pages.pages.iter().map(|page| gaps(page)[0]).reduce(common);
    let behind_log = pages.pages.iter().map(|page| gaps(page)[1]).reduce(common);
    let largest =
        [before_log, behind_log].into_iter().flatten().max_by_key(|(from, end)| end - from);
    let none = GrowError::NoRoomForBitmap { set: pages.set };
    let (from, end) = largest.filter(|(from, end)| end - from >= PAGE_SECTORS).ok_or(none)?;
    let room = (end - from).min(ROOM_MAX);
    let at_end = pages.pages.iter().any(|page| page.superblock.version() == Version::V10);
    // Next to the superblock or the log, so that the data area can grow towards it.
    let offset = if at_end { on_page(end - room) } else { from };
    let room = end.min(offset + room) - offset;
    let offset =
        i32::try_from(offset).map_err(|_| GrowError::NoRoomForBitmap { set: pages.set })?;
    Ok((offset, room as u64))
}

/// What two devices both have.
fn common(one: (i64, i64), other: (i64, i64)) -> (i64, i64) {
    (one.0.max(other.0), one.1.min(other.1))
}

/// The free sectors of a device before its bad-block log and behind it, from the superblock on, on whole pages.
fn gaps(page: &Page) -> [(i64, i64); 2] {
    let own = &page.superblock;
    let at = own.super_offset as i64;
    let (first, last) = match own.version() {
        Version::V10 => (own.data_offset.saturating_add(own.data_size) as i64 - at, 0),
        _ => (SUPERBLOCK_SECTORS, own.data_offset as i64 - at),
    };
    let log = i64::from(own.bad_blocks.offset);
    let log = match own.bad_blocks.sectors {
        0 => (last, last),
        sectors => (log, log + i64::from(sectors)),
    };
    let first = on_page(first);
    [(first, log.0.min(last)), (on_page(log.1.max(first)), last)]
}

/// The next sector that begins a page; those before the superblock are negative.
fn on_page(sector: i64) -> i64 {
    (sector + PAGE_SECTORS - 1).div_euclid(PAGE_SECTORS) * PAGE_SECTORS
}
