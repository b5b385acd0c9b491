//! Logs of space maps: what a group took and gave back of all metaslabs, written at one place; and what is allocated, loaded.
//!
//! Without the feature `log_spacemap` each metaslab's map is told in each group what changed in it. Where blocks are freed all over a pool
//! that is nearly every map in every group. With it, a group's changes go into one log, and now and then a map is told all that
//! logs have of it:
//!
//! ```text
//!   com.delphix:log_spacemap_zap        a table: group → the log of it                          (the pool's directory)
//!   com.delphix:ms_unflushed_phys_txgs  an array: of each metaslab the first group that its own
//!                                       map doesn't have; 0: it was in no log yet               (each vdev's own table)
//! ```
//!
//! Which metaslab is flushed when, and how long a log is needed, stands in [`Unflushed`]; here is what of it is on disk. A pool that
//! OpenZFS left is taken over as it is, its logs among it, and OpenZFS takes ours over.
//!
//! **In use** the feature is from the first log on, for good. A pool has logs from the first group after the feature was enabled; whoever
//! makes a pool writes maps.
//!
//! **Counted.** Whoever counts space maps with a histogram (`spacemap_histogram`; `zdb` does) takes each log for one of them, so where that
//! feature is enabled logs have one, of zeros, and count.
//!
//! **The crash argument.** A group's MOS is one state: its logs, its arrays and its maps. Until the uberblock of N is written, the MOS of
//! N−1 leads to logs, arrays and maps of N−1, none of whose blocks is written over, nor used again within two groups: the blocks of
//! a log that goes are freed as all others are. So a cut at any write leaves N−1 as a whole or N, each of which says of every
//! metaslab what is allocated: its map up to its number, and the logs from there. That N's MOS is right by itself is the rules of
//! [`Unflushed`], which are asserted when a group is written: the logs that an array's numbers ask for are there. A pool taken back, by `-F`
//! or to its checkpoint, has the MOS of that time, and all that it leads to; the next group's number is above all that were.
//!
//! **An export** flushes all, so that the log of its own group is the only one that is left, and whoever opens the pool reads one.
//! Nothing is written after that group (`WRITER-TRAPS` 15).
//!
//! **What logs say of a vdev that is gone** concerns nothing any more: what lay there was moved, or given up. Of one that
//! is there, each change must fit, in one metaslab, and each number must have its log: else the pool is damaged, and not written.
//!
//! Source: OpenZFS, `spa_log_spacemap.c`, `metaslab.c` (`metaslab_flush`, `metaslab_unflushed_add`), `space_map.c`
//! (`space_map_free_obj`).

use super::kept::table_of;
use super::maps::{self, BLOCK_BYTES_LOGGED, HISTOGRAM, MapForm};
use super::open::Spa;
use crate::dmu::{Dnode, NewObject};
use crate::dsl::make::{METADATA_TABLE, Maker};
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use std::collections::BTreeMap;
use stdx::planted::{self, Bug};
use zfs_format::object_type::{ByteSwap, ObjectType};
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::space_map::LONG_BYTES;
use zfs_format::vdev::Vdev;
use zfs_store::alloc::space_maps::header;
use zfs_store::alloc::{
    Allocator, Class, Log, Metaslabs, SECTOR_SHIFT, Stretch, Unflushed, each_stretch,
};

/// The feature of the logs.
pub(super) const FEATURE: &str = "log_spacemap";
/// Numbers of the pool's own.
const METADATA_NUMBERS: ObjectType = ObjectType::new(ByteSwap::Uint64, true, false);
/// Bytes of the blocks of an array of numbers: of all that a vdev has, up to OpenZFS's block.
const ARRAY_BLOCK_BYTES: (u64, u64) = (512, 128 << 10);

/// What is allocated on these top-level vdevs; and what logs have of it, where the pool has any.
///
/// # Errors
/// A map, a log or a table can't be had, or they contradict each other.
pub(super) async fn load(
    spa: &Spa,
    tops: &[Vdev],
) -> Result<(Allocator, Option<Unflushed>), ZfsError> {
    let mut slabs = BTreeMap::new();
    for vdev in tops {
        if let Some(loaded) = own_maps(spa, vdev).await? {
            slabs.insert(vdev.id as u32, loaded);
        }
    }
    let has_numbers = |of: &Metaslabs| of.slabs().iter().any(|slab| slab.flushed_txg != 0);
    let unflushed = match spa.table_of_map_logs().await?.is_some() {
        true => Some(load_logs(spa, &mut slabs).await?),
        false if slabs.values().any(has_numbers) => return Err(missing(spa)),
        false => None,
    };
    let mut allocator = Allocator::default();
    for vdev in tops {
        if let Some(slabs) = slabs.remove(&(vdev.id as u32)) {
            allocator.add(vdev.id as u32, Class::of(vdev), slabs);
        }
    }
    Ok((allocator, unflushed))
}

/// The metaslabs of a vdev as their own maps say.
async fn own_maps(spa: &Spa, vdev: &Vdev) -> Result<Option<Metaslabs>, ZfsError> {
    let Some(mut slabs) = spa.metaslabs(vdev).await? else { return Ok(None) };
    let unit = slabs.unit();
    let maps: Vec<_> =
        slabs.slabs().iter().enumerate().map(|(n, slab)| (slabs.start(n), slab.map)).collect();
    for (start, map) in maps.into_iter().filter(|(_, map)| *map != 0) {
        let mut fits = true;
        each_stretch(spa.mos(), map, unit, |Stretch { change, offset, len, .. }| {
            fits &= slabs.change(change, start.saturating_add(offset), len);
        })
        .await?;
        if !fits {
            return Err(spa.mos().wrong(map, Problem::Entry("of a space map")));
        }
    }
    Ok(Some(slabs))
}

/// A number's log is not there.
fn missing(spa: &Spa) -> ZfsError {
    spa.mos().wrong(pool_directory::OBJECT, Problem::NoEntry("of a log of space maps"))
}

/// Carries out what the logs say.
async fn load_logs(spa: &Spa, slabs: &mut BTreeMap<u32, Metaslabs>) -> Result<Unflushed, ZfsError> {
    let mut unflushed = Unflushed::default();
    let logs = spa.space_map_logs().await?;
    for (txg, object) in &logs {
        let log = spa.mos().dnode(*object).await?;
        if unflushed.has_log(*txg) || *txg > spa.uberblock().txg {
            return Err(log.problem(Problem::Entry("of a log of space maps")));
        }
        let length = header(spa.mos(), &log)?.length.min(log.capacity());
        let blocks = length.div_ceil(log.block_bytes().max(1));
        unflushed.add_log(Log { txg: *txg, object: *object, blocks });
    }
    for (vdev, of) in &*slabs {
        for (number, slab) in
            of.slabs().iter().enumerate().filter(|(_, slab)| slab.flushed_txg != 0)
        {
            if !unflushed.add_slab((*vdev, number), slab.flushed_txg) {
                return Err(missing(spa));
            }
        }
    }
    for (txg, object) in logs {
        let mut fits = true;
        each_stretch(spa.mos(), object, SECTOR_SHIFT, |stretch| {
            if let Some(slabs) = slabs.get_mut(&stretch.vdev) {
                fits &= carry_out(&mut unflushed, slabs, txg, &stretch);
            }
        })
        .await?;
        if !fits {
            return Err(spa.mos().wrong(object, Problem::Entry("of a log of space maps")));
        }
    }
    Ok(unflushed)
}

/// Carries out what the log of a group says, unless the metaslab's map has it. False where it can't be.
fn carry_out(
    unflushed: &mut Unflushed,
    slabs: &mut Metaslabs,
    txg: u64,
    stretch: &Stretch,
) -> bool {
    let &Stretch { change, vdev, offset, len } = stretch;
    let (first, end) = ((offset / slabs.stride()) as usize, offset.saturating_add(len));
    let is_one = first < slabs.len()
        && slabs.start(first) <= offset
        && end <= slabs.start(first) + slabs.bytes(first);
    let sector = 1 << slabs.unit();
    if !is_one || !offset.is_multiple_of(sector) || !len.is_multiple_of(sector) {
        return false;
    }
    let Some(number) = slabs.logged(txg, offset) else { return true };
    if !planted::nth(Bug::LogNetForgotten, 10) {
        unflushed.note(txg, (vdev, number), change, offset..end);
    }
    slabs.change(change, offset, len)
}

/// Makes the log of the group that syncs; the first one with the table of all.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn make(maker: &Maker<'_>) -> Result<Dnode, ZfsError> {
    let mos = maker.mos;
    let logs = match table_of_logs(maker).await? {
        Some(logs) => logs,
        None => {
            let logs = maker.table(METADATA_TABLE).await?;
            let directory = mos.dnode(pool_directory::OBJECT).await?;
            let number = table::number(logs.number());
            table::set(mos, &directory, pool_directory::LOG_SPACE_MAPS, number).await?;
            maker.count_use(FEATURE, 1).await?;
            logs
        }
    };
    let form = MapForm { long_entries: true, block_bytes: BLOCK_BYTES_LOGGED };
    let has_histogram = maker.uses(HISTOGRAM).await?.is_some();
    let log = maps::make_uncounted(mos, form, has_histogram).await?;
    table::set(mos, &logs, &name(maker.txg), table::number(log.number())).await?;
    Ok(log)
}

/// A log's name in the table: its group in hexadecimal.
fn name(txg: u64) -> String {
    format!("{txg:x}")
}

async fn table_of_logs(maker: &Maker<'_>) -> Result<Option<Dnode>, ZfsError> {
    let directory = Zap::open(maker.mos.dnode(pool_directory::OBJECT).await?).await?;
    match directory.number(pool_directory::LOG_SPACE_MAPS).await? {
        Some(number) => maker.mos.dnode(number).await.map(Some),
        None => Ok(None),
    }
}

/// Does away with logs that nobody needs. One was made in the same group, if `made`.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn destroy(
    maker: &Maker<'_>,
    needless: &[Log],
    made: &Dnode,
) -> Result<(), ZfsError> {
    let mut with_histogram = i64::from(has_histogram(made));
    if let Some(logs) = table_of_logs(maker).await?.filter(|_| !needless.is_empty()) {
        for log in needless {
            let object = maker.mos.dnode(log.object).await?;
            with_histogram -= i64::from(has_histogram(&object));
            table::remove(maker.mos, &logs, &name(log.txg)).await?;
            maker.free_object(&object).await?;
        }
    }
    // As a rule one comes and one goes, and the table of features is left alone.
    if with_histogram != 0 && maker.uses(HISTOGRAM).await?.is_some() {
        maker.count_use(HISTOGRAM, with_histogram).await?;
    }
    Ok(())
}

fn has_histogram(log: &Dnode) -> bool {
    log.phys().bonus.len() >= LONG_BYTES
}

/// Metaslabs of a vdev have this number from here on.
///
/// # Errors
/// What is needed can't be had.
pub(super) async fn set_numbers(
    maker: &Maker<'_>,
    top: &Vdev,
    (slabs, many): (&[usize], usize),
) -> Result<(), ZfsError> {
    let mos = maker.mos;
    let own = mos.dnode(table_of(top).unwrap_or(0)).await?;
    let array = match Zap::open(own.clone()).await?.number(top_vdev::UNFLUSHED).await? {
        Some(array) => mos.dnode(array).await?,
        None => {
            let (least, most) = ARRAY_BLOCK_BYTES;
            let block = (many as u64 * 8).next_power_of_two().clamp(least, most);
            let array = mos.make(&NewObject::of(METADATA_NUMBERS, block)).await?;
            table::set(mos, &own, top_vdev::UNFLUSHED, table::number(array.number())).await?;
            array
        }
    };
    for slab in slabs {
        maps::set_number(mos, &array, *slab, maker.txg).await?;
    }
    Ok(())
}
