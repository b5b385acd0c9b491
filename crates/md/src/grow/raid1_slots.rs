//! More mirrors: a RAID 1 gets more slots.
//!
//! First the new devices become spares, then all superblocks count more slots, with the new devices in them and
//! nothing of them right (`recovery_offset` 0). One pass is enough: whichever of its superblocks is the
//! freshest after a power cut, the old members hold the same data in the same place, and a device that is
//! not known to hold a slot is a spare. The rebuild is that of any other slot.

use super::adopt::{NewMember, adopt};
use super::error::GrowError;
use super::pages::Pages;
use super::refusal::{refuse, refuse_unsettled};
use crate::assemble::{Choice, agreed};
use crate::spec::{Level, MEMBERS_MAX};
use crate::superblock::Features;
use async_recursion::async_recursion as boxed;
use rt::Rt;

/// Gives a RAID 1 so many slots; the new ones are taken by spares and by the devices to be added. They are
/// rebuilt by who opens the set for writing.
///
/// # Errors
/// [`GrowError`]
#[boxed(?Send)]
pub async fn mirrors(
    rt: &Rt,
    choice: Choice,
    slots: usize,
    add: &[NewMember],
    unix_s: u64,
) -> Result<(), GrowError> {
    let choice = agreed(choice);
    let set = choice.set;
    let level = refuse(&choice).await?;
    if level != Level::Raid1 {
        return Err(GrowError::Level { set, level, what: "the number of mirrors" });
    }
    refuse_unsettled(&choice)?;
    let before = choice.facts.slots();
    if slots <= before || slots > MEMBERS_MAX {
        return Err(GrowError::Slots { set, slots: before, wished: slots });
    }
    let mut pages = Pages::of(rt, &choice, unix_s).await?;
    enlist(&mut pages, slots - before, add).await?;
    pages.advance().await?;
    let mut next = before;
    for page in &mut pages.pages {
        page.superblock.slots = slots as u32;
        if page.slot.is_none() && !page.lost && next < slots {
            page.slot = Some(next);
            page.superblock.features =
                page.superblock.features.with(Features::RECOVERY_OFFSET, true);
            page.superblock.recovery_offset = 0;
            next += 1;
        }
    }
    pages.advance().await?;
    Ok(())
}

/// Makes the devices spares; there must be so many then.
pub(super) async fn enlist(
    pages: &mut Pages,
    needed: usize,
    add: &[NewMember],
) -> Result<(), GrowError> {
    let spares = pages.pages.iter().filter(|page| page.slot.is_none()).count();
    let given = spares + add.len();
    if given < needed {
        return Err(GrowError::Spares { set: pages.set, needed, given });
    }
    for new in add {
        adopt(pages, new).await?;
    }
    Ok(())
}
