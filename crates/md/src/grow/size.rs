//! A larger size: the members were enlarged, and more of each is to be used.
//!
//! Two passes over the superblocks. The first says how much each device can hold (`data_size`), which is true
//! already. The second says the new size, and that copies and parity are right up to the old one
//! (`resync_offset`); whoever opens the set for writing resynchronises the rest. After a power cut in the second
//! the freshest superblock tells the size for all, and by the first pass there is room for it everywhere.
//!
//! RAID 10 resynchronises everything: md counts its `resync_offset` in sectors of the array. In its `far`
//! layouts the copies lie at places that depend on the size, so that it can't grow at all (md refuses it too).
//!
//! Source: Linux `drivers/md/{raid1, raid10, raid5}.c` (`raid1_resize`, `raid10_resize`, `raid5_resize`), `md.c`
//! (`update_size`).

use super::pages::{Pages, agreed};
use super::{GrowError, refuse, refuse_unsettled};
use crate::assemble::Choice;
use crate::spec::{Layout, Level};
use crate::superblock::SECTOR;
use crate::superblock::place::Version;
use crate::superblock::v1::SECTORS_MAX;
use rt::Rt;
use stdx::ByteCount;

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
        let sectors = page.device.geometry().capacity.bytes() / SECTOR;
        let own = &mut page.superblock;
        // A superblock at the end (1.0) bounds the data; `find` has found it in its place.
        let room = match own.version() {
            Version::V10 => own.data_size,
            _ => sectors.saturating_sub(own.data_offset),
        };
        own.data_size = own.data_size.max(room).min(SECTORS_MAX);
        let is_less = smallest.as_ref().is_none_or(|(least, _)| own.data_size < *least);
        if page.slot.is_some() && is_less {
            smallest = Some((own.data_size, page.device.name().to_string()));
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
    pages.advance().await?;
    if let Some(bitmap) = &mut pages.bitmap {
        bitmap.enlarge(sync_sectors(&choice, level, after));
    }
    for page in &mut pages.pages {
        page.superblock.size = after;
        page.superblock.resync_offset = if level == Level::Raid10 { 0 } else { before };
    }
    pages.advance().await?;
    Ok(bytes(after))
}

/// What the bits of a bitmap divide: a member, or in RAID 10 the array.
fn sync_sectors(choice: &Choice, level: Level, size: u64) -> u64 {
    let layout = choice.facts.layout().unwrap_or(0);
    let copies = u64::from((layout & 255) * (layout >> 8 & 255)).max(1);
    match level {
        Level::Raid10 => size.saturating_mul(choice.facts.slots() as u64) / copies,
        _ => size,
    }
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
