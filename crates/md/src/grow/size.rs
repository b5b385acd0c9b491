//! A larger size: the members were enlarged, and more of each is to be used.
//!
//! Two passes over the superblocks. The first says how much each device can hold (`data_size`), which is true
//! already. The second says the new size, and that copies and parity are right up to the old one
//! (`resync_offset`); whoever opens the set for writing resynchronises the rest. After a power cut in the second
//! the freshest superblock tells the size for all, and by the first pass there is room for it everywhere.
//!
//! A superblock 1.0 lies at the end, and hides when its device is enlarged: [`find_at_old_end`] looks where it was.
//! The first pass writes it at the new end, with its bad-block log (empty) and its bitmap as far before it as they
//! were. What the old one leaves lies within the data area, where nobody looks for a superblock.
//!
//! RAID 10 resynchronises everything: md counts its `resync_offset` in sectors of the array. In its `far`
//! layouts the copies lie at places that depend on the size, so that it can't grow at all (md refuses it too).
//!
//! Source: Linux `drivers/md/{raid1, raid10, raid5}.c` (`raid1_resize`, `raid10_resize`, `raid5_resize`), `md.c`
//! (`update_size`).

use super::error::GrowError;
use super::pages::{Page, Pages};
use super::refusal::{refuse, refuse_unsettled};
use crate::assemble::{self, AssembleError, Choice, Found, agreed};
use crate::spec::{Layout, Level};
use crate::superblock::bitmap::sync_sectors;
use crate::superblock::place::Version;
use crate::superblock::v1::SECTORS_MAX;
use crate::superblock::{SECTOR, bad_blocks};
use async_recursion::async_recursion as boxed;
use rt::filter::Slice;
use rt::{Buf, DeviceRef, Request, Rt};
use stdx::{ByteCount, Offset};

/// Sectors of the grid to which a RAID 1 of the greatest size is rounded: 64 KiB, as mdadm creates it.
const MIRROR_GRID: u64 = 128;

/// How much of each member is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeWish {
    /// As much as the smallest has.
    Max,
    /// So much, rounded down to whole chunks.
    Of(ByteCount),
}

/// Gives a set a larger size; tells it. The new part is not synchronised yet.
///
/// # Errors
/// [`GrowError`]
#[boxed(?Send)]
pub async fn size(
    rt: &Rt,
    choice: Choice,
    wish: SizeWish,
    unix_s: u64,
) -> Result<ByteCount, GrowError> {
    let choice = agreed(choice);
    let set = choice.set;
    let level = refuse(&choice).await?;
    refuse_level(&choice, level)?;
    refuse_unsettled(&choice)?;
    let (before, chunk) = (choice.facts.size(), choice.facts.chunk());
    let grid = if level == Level::Raid1 { MIRROR_GRID } else { chunk.max(1) };
    let mut pages = Pages::of(rt, &choice, unix_s).await?;
    let mut smallest: Option<(u64, String)> = None;
    for page in &mut pages.pages {
        let room = room_of(page).min(SECTORS_MAX);
        page.superblock.data_size = page.superblock.data_size.max(room);
        let room = page.superblock.data_size;
        let is_less = smallest.as_ref().is_none_or(|(least, _)| room < *least);
        if page.slot.is_some() && is_less {
            smallest = Some((room, page.device.name().to_string()));
        }
    }
    let (room, device) = smallest.ok_or(GrowError::TooFew { set })?;
    let bytes = |sectors: u64| ByteCount(sectors.saturating_mul(SECTOR));
    let after = match wish {
        SizeWish::Max => room - room % grid,
        SizeWish::Of(wished) => {
            let sectors = wished.bytes() / SECTOR;
            let sectors = sectors - sectors % chunk.max(8);
            if sectors > room {
                return Err(GrowError::SizeBeyond { device, room: bytes(room), wished });
            }
            if sectors <= before {
                return Err(GrowError::Size { set, size: bytes(before), wished });
            }
            sectors
        }
    };
    if after <= before {
        return Err(GrowError::NoRoom { set, size: bytes(before) });
    }
    for page in &mut pages.pages {
        move_to_end(page).await?;
    }
    pages.advance().await?;
    if let Some(bitmap) = &mut pages.bitmap {
        let (facts, slots) = (&choice.facts, choice.facts.slots() as u64);
        let layout = facts.layout().unwrap_or(0);
        bitmap.enlarge(sync_sectors(level, layout, facts.chunk(), slots, after));
    }
    for page in &mut pages.pages {
        page.superblock.size = after;
        page.superblock.resync_offset = if level == Level::Raid10 { 0 } else { before };
    }
    pages.advance().await?;
    Ok(bytes(after))
}

/// Where a superblock at the end lies now, in sectors; none where it lies elsewhere.
fn new_end(page: &Page) -> Option<u64> {
    let version = page.superblock.version();
    let place = version.place(page.device.geometry().capacity)?.bytes() / SECTOR;
    Some(place).filter(|_| version == Version::V10)
}

/// How many sectors of a device can hold data.
fn room_of(page: &Page) -> u64 {
    let own = &page.superblock;
    let sectors = page.device.geometry().capacity.bytes() / SECTOR;
    let end = match new_end(page) {
        None => sectors,
        Some(place) => {
            let data_end = own.data_offset.saturating_add(own.data_size);
            place.saturating_sub(own.super_offset.saturating_sub(data_end))
        }
    };
    end.saturating_sub(own.data_offset)
}

/// Lets a superblock 1.0 lie at the end of a device that was enlarged.
async fn move_to_end(page: &mut Page) -> Result<(), GrowError> {
    let Some(place) = new_end(page).filter(|place| *place != page.superblock.super_offset) else {
        return Ok(());
    };
    let log = page.superblock.bad_blocks;
    if log.sectors > 0
        && let Ok(bytes) = bad_blocks::encode(&[], log.sectors.min(bad_blocks::SECTORS_MAX))
    {
        let at = Offset(place.saturating_add_signed(i64::from(log.offset)) * SECTOR);
        page.device.submit(Request::write_fua(at, Buf::copy_of(&bytes))).await?;
    }
    page.superblock.super_offset = place;
    page.at = Offset(place * SECTOR);
    Ok(())
}

/// Looks for a superblock 1.0 where it lay while the device was of this size.
///
/// # Errors
/// As [`assemble::find`].
#[boxed(?Send)]
pub async fn find_at_old_end(
    device: &DeviceRef,
    before: ByteCount,
) -> Result<Option<Found>, AssembleError> {
    let geometry = device.geometry();
    let before = before.round_down(geometry.logical_block);
    if before.is_zero() || before >= geometry.capacity {
        return Ok(None);
    }
    let as_it_was: DeviceRef = Slice::new(device.clone(), Offset(0), before);
    let found = assemble::find(&as_it_was).await?;
    Ok(found.map(|found| Found { device: device.clone(), ..found }))
}

fn refuse_level(choice: &Choice, level: Level) -> Result<(), GrowError> {
    let set = choice.set;
    let can = match level {
        Level::Linear | Level::Raid0 => false,
        Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6 => true,
        Level::Raid10 => {
            let layout = Layout::from_md(level, choice.facts.layout().unwrap_or(0) as i32);
            let layout = layout.map_err(|error| GrowError::Spec { set, error })?;
            matches!(
                layout,
                Layout::Mirrored { far: 1, .. } | Layout::Mirrored { offset: true, .. }
            )
        }
    };
    if can { Ok(()) } else { Err(GrowError::Level { set, level, what: "the size" }) }
}
