//! What a checkpoint keeps: space that was freed since, and is not free.
//!
//! ```text
//!   com.delphix:pool_checkpoint_sm    a space map of the vdev as a whole: what was freed on it        (each vdev's own table)
//! ```
//!
//! The metaslabs' maps go on to say that such space is allocated, so nobody takes it; whoever goes back to the checkpoint finds it as it
//! was. A map is made when something is first freed on its vdev. Where the checkpoint is discarded, a part in each group is taken off its
//! end and freed for good, and the map that is empty goes.
//!
//! Its entries don't cross the bounds of metaslabs: OpenZFS asserts that.
//!
//! Source: OpenZFS, `spa_checkpoint.c`, `metaslab.c` (`metaslab_sync`).

use super::maps::{self, HISTOGRAM, MapForm, MapPlace};
use super::open::Spa;
use crate::dmu::{Dnode, Objset};
use crate::dsl::make::Maker;
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use stdx::RangeSet;
use zfs_format::pool_directory::top_vdev;
use zfs_format::space_map::{Change, LONG_BYTES};
use zfs_format::vdev::Vdev;
use zfs_store::Writer;
use zfs_store::alloc::{Allocator, Changes, Stretch, each_stretch};

/// Bytes of a stretch in a map, at the most.
const ENTRY_BYTES: u64 = 16;

/// Tells the allocator what is kept on these top-level vdevs.
///
/// # Errors
/// A map can't be had, or contradicts what is allocated.
pub(super) async fn load(
    spa: &Spa,
    tops: &[Vdev],
    allocator: &mut Allocator,
) -> Result<(), ZfsError> {
    for top in tops {
        let Some(number) = spa.checkpoint_map(top).await? else { continue };
        let vdev = top.id as u32;
        let Some(unit) = allocator.metaslabs(vdev).map(|slabs| slabs.unit()) else { continue };
        let mut fits = true;
        each_stretch(spa.mos(), number, unit, |Stretch { change, offset, len, .. }| {
            fits &= change == Change::Free && allocator.set_kept(vdev, offset, len);
        })
        .await?;
        if !fits {
            return Err(spa.mos().wrong(number, Problem::Entry("of a checkpoint's space map")));
        }
    }
    Ok(())
}

/// A vdev's own table; each has one, or no checkpoint is taken.
pub(super) fn table_of(top: &Vdev) -> Option<u64> {
    top.other_number("com.delphix:vdev_zap_top").filter(|number| *number != 0)
}

/// The map of a vdev, where it has one.
async fn map_of(mos: &Objset, own: &Dnode) -> Result<Option<Dnode>, ZfsError> {
    match Zap::open(own.clone()).await?.number(top_vdev::CHECKPOINT).await? {
        Some(number) => mos.dnode(number).await.map(Some),
        None => Ok(None),
    }
}

/// Writes down what the group that syncs freed of what the checkpoint has.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn write(
    mos: &Objset,
    writer: &Writer,
    tops: &[Vdev],
    form: MapForm,
    group: (u64, u16),
) -> Result<(), ZfsError> {
    for top in tops {
        let vdev = top.id as u32;
        let slabs = writer.space(|space| space.keeping(vdev));
        if slabs.is_empty() {
            continue;
        }
        let own = mos.dnode(table_of(top).unwrap_or(0)).await?;
        let map = match map_of(mos, &own).await? {
            Some(map) => map,
            None => {
                let map = maps::make(mos, form).await?;
                table::set(mos, &own, top_vdev::CHECKPOINT, table::number(map.number())).await?;
                map
            }
        };
        let unit = writer.space(|space| space.metaslabs(vdev).map_or(0, |slabs| slabs.unit()));
        for number in slabs {
            let freed = writer.space(|space| space.take_keeping(vdev, number));
            let (changes, place) =
                (Changes { allocated: RangeSet::default(), freed }, MapPlace { start: 0, unit });
            maps::append(mos, &map, form, place, group, &changes, Vec::new).await?;
        }
    }
    Ok(())
}

/// Frees so many stretches of what the checkpoint kept, which is discarded; whole blocks of a map, so a few more or less. Says whether
/// there is more.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn discard(
    maker: &Maker<'_>,
    writer: &Writer,
    tops: &[Vdev],
    stretches: u64,
) -> Result<bool, ZfsError> {
    let bytes_max = stretches.saturating_mul(ENTRY_BYTES);
    for top in tops {
        let Some(own) = table_of(top) else { continue };
        let own = maker.mos.dnode(own).await?;
        let Some(map) = map_of(maker.mos, &own).await? else { continue };
        let vdev = top.id as u32;
        let unit = writer.space(|space| space.metaslabs(vdev).map_or(0, |slabs| slabs.unit()));
        let (taken, left) = maps::take_end(maker.mos, &map, unit, bytes_max).await?;
        for (_, range) in taken {
            let (offset, len) = (range.start, range.end - range.start);
            if !writer.space(|space| space.discard(vdev, offset, len)) {
                return Err(map.problem(Problem::Entry("of a checkpoint's space map")));
            }
        }
        if left == 0 {
            let has_histogram = map.phys().bonus.len() >= LONG_BYTES;
            table::remove(maker.mos, &own, top_vdev::CHECKPOINT).await?;
            maker.free_object(&map).await?;
            if has_histogram && maker.uses(HISTOGRAM).await?.is_some() {
                maker.count_use(HISTOGRAM, -1).await?;
            }
        }
        return Ok(true);
    }
    Ok(false)
}
