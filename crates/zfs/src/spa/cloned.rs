//! Block reference tables: loaded when a pool is opened for writing, lowered where pointers to cloned blocks die.
//!
//! Nothing is cloned here; but who writes a pool of which OpenZFS cloned blocks frees such, and has to know which others name. So all
//! tables are loaded, some 40 bytes a block, and changed in the group in which pointers die: the block's count, or no entry any more; how many
//! blocks of its range are cloned; the sums of the vdev's header. The table of a vdev that has no cloned block any more goes.
//!
//! Source: OpenZFS, `brt.c` (`brt_vdev_load`, `brt_sync_table`).

use super::open::Spa;
use crate::dmu::{Dnode, Objset};
use crate::dsl::features;
use crate::dsl::make::edit;
use crate::error::{Problem, ZfsError};
use crate::zap::change::Plan;
use crate::zap::{Zap, table};
use rt::Buf;
use std::collections::BTreeMap;
use zfs_format::Endian;
use zfs_format::brt::{BrtVdev, counts, references};
use zfs_format::pool_directory;
use zfs_format::vdev::Vdev;
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;
use zfs_store::Writer;
use zfs_store::alloc::{Clones, Lowered};

/// The feature of cloned blocks.
pub(super) const FEATURE: &str = "block_cloning";
/// Cloned blocks of a pool that is written: beyond them its tables would take too much memory.
const BLOCKS_MAX: usize = 1 << 24;
/// Entries of a table that are changed at a time.
const ENTRIES_AT_ONCE: usize = 256;
/// Bytes of a count of a range.
const COUNT_BYTES: u64 = 2;

/// The table of a vdev.
struct Table {
    object: Dnode,
    header: BrtVdev,
    order: Endian,
}

impl Table {
    async fn of(mos: &Objset, directory: &Zap, vdev: u64) -> Result<Option<Table>, ZfsError> {
        let name = pool_directory::brt_vdev(vdev);
        let Some(value) = directory.get(name.as_bytes()).await? else { return Ok(None) };
        let wrong = || directory.dnode().problem(Problem::Entry("of a block reference table"));
        let object = mos.dnode(value.number().ok_or_else(wrong)?).await?;
        let header = BrtVdev::decode(&object.phys().bonus, object.endian());
        let header = header.map_err(|error| object.wrong(error))?;
        let order = header.counts_endian().filter(|_| header.range_bytes > 0);
        let order = order.ok_or_else(|| object.problem(Problem::Entry("of a header")))?;
        Ok(Some(Table { object, header, order }))
    }
}

/// The cloned blocks of these top-level vdevs.
///
/// # Errors
/// A table can't be had, or there are too many.
pub(super) async fn load(spa: &Spa, tops: &[Vdev]) -> Result<Clones, ZfsError> {
    let mos = spa.mos();
    let directory = Zap::open(mos.dnode(pool_directory::OBJECT).await?).await?;
    let mut clones = Clones::default();
    for top in tops {
        let Some(of) = Table::of(mos, &directory, top.id).await? else { continue };
        let entries = Zap::open(mos.dnode(of.header.entries).await?).await?;
        let (mut cursor, mut all) = (Default::default(), entries.list(Default::default()).await?);
        while let Some(last) = all.last() {
            cursor = std::cmp::max(cursor, last.next);
            for entry in all {
                let wrong = |error| entries.dnode().wrong(error);
                let no_key = || entries.dnode().problem(Problem::Entry("of a cloned block"));
                let offset = entry.name.try_into().map(u64::from_le_bytes).map_err(|_| no_key())?;
                let count = references(&entry.value, of.order).map_err(wrong)?;
                // One without a count is as one that isn't there.
                if count > 0 {
                    clones.insert(top.id as u32, offset, count);
                }
            }
            if clones.len() > BLOCKS_MAX {
                let (what, limit) = ("cloned blocks", BLOCKS_MAX as u64);
                return Err(entries.dnode().problem(Problem::Limit { what, limit }));
            }
            all = entries.list(cursor).await?;
        }
    }
    Ok(clones)
}

/// Writes down which pointers to cloned blocks died in the group that syncs.
///
/// # Errors
/// What is needed can't be had, or the tables contradict themselves.
pub(super) async fn write(mos: &Objset, writer: &Writer) -> Result<(), ZfsError> {
    let changed = writer.take_lowered();
    if changed.is_empty() {
        return Ok(());
    }
    let mut by_vdev: BTreeMap<u32, Vec<(u64, Lowered)>> = BTreeMap::new();
    for ((vdev, offset), lowered) in changed {
        by_vdev.entry(vdev).or_default().push((offset, lowered));
    }
    let directory = mos.dnode(pool_directory::OBJECT).await?;
    for (vdev, changed) in by_vdev {
        let names = Zap::open(directory.clone()).await?;
        let missing = || directory.problem(Problem::NoEntry("of a block reference table"));
        let of = Table::of(mos, &names, vdev.into()).await?.ok_or_else(missing)?;
        let left = lower(mos, &of, &changed).await?;
        if left == 0 {
            let entries = mos.dnode(of.header.entries).await?;
            table::remove(mos, &directory, &pool_directory::brt_vdev(vdev.into())).await?;
            for object in [&entries, &of.object] {
                mos.change(|tx| {
                    object.plan_change()?;
                    mos.free(tx, object);
                    Ok(())
                })
                .await?;
            }
            features::count_use(mos, FEATURE, -1).await?;
        }
    }
    Ok(())
}

/// Lowers counts of a table; says how many blocks are cloned yet.
async fn lower(mos: &Objset, of: &Table, changed: &[(u64, Lowered)]) -> Result<u64, ZfsError> {
    let Table { object, header, order } = of;
    let entries = mos.dnode(header.entries).await?;
    for some in changed.chunks(ENTRIES_AT_ONCE) {
        mos.change(|tx| {
            let mut plan = Plan::of_numbers(&entries)?;
            for (offset, lowered) in some {
                match lowered.count {
                    0 => drop(plan.remove_number(&[*offset])?),
                    count => plan.set_number(&[*offset], &bytes_of(count, *order))?,
                }
            }
            plan.ready()?.carry_out(tx);
            Ok(())
        })
        .await?;
    }
    let mut ranges: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut gone, mut used, mut saved) = (0u64, 0u64, 0u64);
    for (offset, Lowered { count, gone: pointers, bytes }) in changed {
        saved = saved.saturating_add(bytes.saturating_mul(*pointers));
        if *count == 0 {
            gone += 1;
            used = used.saturating_add(*bytes);
            *ranges.entry(offset / header.range_bytes).or_default() += 1;
        }
    }
    for (range, less) in ranges {
        let at = range * COUNT_BYTES;
        let bytes = object.read(at, COUNT_BYTES as usize).await?.to_vec();
        let wrong = || object.problem(Problem::Count("of a range"));
        let counts = counts(&bytes, *order).map_err(|error| object.wrong(error))?;
        let count = counts.first().map_or(0, |count| u64::from(*count)).checked_sub(less);
        let count = count.ok_or_else(wrong)? as u16;
        let bytes = match order {
            Endian::Little => count.to_le_bytes(),
            Endian::Big => count.to_be_bytes(),
        };
        let bytes = Buf::copy_of(&bytes);
        mos.change(|tx| {
            object.plan_write(at..at + COUNT_BYTES)?;
            object.write(tx, at, &bytes);
            Ok(())
        })
        .await?;
    }
    let left = header.total_count.checked_sub(gone);
    let left = left.ok_or_else(|| object.problem(Problem::Count("of cloned blocks")))?;
    edit(mos, object, |header: &mut BrtVdev| {
        header.total_count = left;
        header.used_bytes = header.used_bytes.saturating_sub(used);
        header.saved_bytes = header.saved_bytes.saturating_sub(saved);
    })
    .await?;
    Ok(left)
}

/// A count as OpenZFS stores it: its bytes.
fn bytes_of(count: u64, order: Endian) -> LeafValue {
    let bytes: [u8; 8] = order.bytes(count);
    LeafValue { number_bytes: 1, numbers: bytes.iter().map(|byte| u64::from(*byte)).collect() }
}
