//! What is allocated, loaded for who writes; and logs of space maps, folded into the maps that they are ahead of.
//!
//! OpenZFS (feature `log_spacemap`) leaves the maps of the metaslabs as they are and appends what a group took and gave back, of all
//! metaslabs, to one log; now and then it flushes a metaslab, and a log that no metaslab needs any more goes. So a pool that was
//! exported has some logs, and one that was not has many:
//!
//! ```text
//!   com.delphix:log_spacemap_zap        a table: group → the log of it                          (the pool's directory)
//!   com.delphix:ms_unflushed_phys_txgs  an array: of each metaslab the first group that its own
//!                                       map doesn't have; 0: it was in no log yet               (each vdev's own table)
//! ```
//!
//! Spindle writes into the maps themselves. Who opens a pool for writing *loads* each map, then carries out what the logs say since
//! ([`Metaslabs::logged`]), and keeps of each metaslab what of it the map doesn't have: the net of it, since what was taken and given
//! back in between nobody needs to know. The first group that is written *folds* the logs:
//!
//! 1. each metaslab's net is appended to its map, which so says what the map and the logs said together;
//! 2. the logs, their table and the arrays go, as of a pool in which the feature was enabled and never used;
//! 3. the feature is not in use any more, and the counts of space maps with a histogram are less by the logs.
//!
//! OpenZFS takes the pool up from there: it makes a table, and puts each metaslab into the array when it first logs something of it.
//! A number left in an array without the log of that group would keep it from opening the pool, so the arrays go with the logs.
//!
//! **Cut at any write** the pool is as before or as after. All steps are in one group: until its uberblock is written, the old MOS
//! leads to the old maps, arrays and logs, and none of their blocks is used again within two groups. A group that
//! can't be committed stops the pool, so no map is ever written ahead of a log that stays. And nothing is folded as long as nothing is
//! written: a pool that is opened and left is untouched.
//!
//! **What order means.** The group's own changes of a metaslab are appended after its net: the fold comes before anything else
//! that the group does to maps. They may free what only a log had as allocated.
//!
//! **What logs say of a vdev that is gone** concerns nothing any more: what lay there was moved, or given up. Of one that
//! is there, each change must fit, in one metaslab: else the pool is damaged, and not written.
//!
//! Source: OpenZFS, `spa_log_spacemap.c`, `metaslab.c` (`metaslab_flush`, `metaslab_unflushed_add`), `space_map.c`
//! (`space_map_free_obj`).

use super::commit::Syncer;
use super::open::Spa;
use crate::dsl::make::Maker;
use crate::error::{Problem, ZfsError};
use crate::zap::{Zap, table};
use std::collections::BTreeMap;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::space_map::LONG_BYTES;
use zfs_format::vdev::Vdev;
use zfs_store::alloc::{Allocator, Changes, Class, Metaslabs, SECTOR_SHIFT, Stretch, each_stretch};

/// The feature of the logs.
const FEATURE: &str = "log_spacemap";
/// The feature that counts space maps with a histogram.
const HISTOGRAM: &str = "spacemap_histogram";

/// What the logs of space maps have and the maps don't.
#[derive(Default)]
pub(super) struct MapLogs {
    /// By vdev and metaslab.
    ahead: BTreeMap<(u32, usize), Changes>,
}

/// Loads what is allocated on these top-level vdevs.
///
/// # Errors
/// A map, a log or a table can't be had, or they contradict each other.
pub(super) async fn load(spa: &Spa, tops: &[Vdev]) -> Result<(Allocator, MapLogs), ZfsError> {
    let mut slabs = BTreeMap::new();
    for vdev in tops {
        if let Some(loaded) = own_maps(spa, vdev).await? {
            slabs.insert(vdev.id as u32, loaded);
        }
    }
    let mut logs = MapLogs::default();
    for (txg, log) in spa.space_map_logs().await? {
        let mut fits = true;
        each_stretch(spa.mos(), log, SECTOR_SHIFT, |stretch| {
            if let Some(slabs) = slabs.get_mut(&stretch.vdev) {
                fits &= logs.carry_out(slabs, txg, &stretch);
            }
        })
        .await?;
        if !fits {
            return Err(spa.mos().wrong(log, Problem::Entry("of a log of space maps")));
        }
    }
    let mut allocator = Allocator::default();
    for vdev in tops {
        if let Some(slabs) = slabs.remove(&(vdev.id as u32)) {
            allocator.add(vdev.id as u32, Class::of(vdev), slabs);
        }
    }
    Ok((allocator, logs))
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

impl MapLogs {
    /// Carries out what the log of a group says, unless the metaslab's map has it. False where it can't be.
    fn carry_out(&mut self, slabs: &mut Metaslabs, txg: u64, stretch: &Stretch) -> bool {
        let &Stretch { change, vdev, offset, len } = stretch;
        let (first, end) = (offset / slabs.stride(), offset.saturating_add(len));
        let is_one = first == (end - 1) / slabs.stride() && first < slabs.len() as u64;
        if !is_one {
            return false;
        }
        let Some(number) = slabs.logged(txg, offset) else { return true };
        self.ahead.entry((vdev, number)).or_default().note(change, offset..end);
        slabs.change(change, offset, len)
    }

    /// Puts what the logs have into the maps, in the group that syncs, before anything of it is in a map; and the logs go.
    ///
    /// # Errors
    /// What is needed can't be had.
    pub(super) async fn fold(self, maker: &Maker<'_>, syncer: &Syncer) -> Result<(), ZfsError> {
        let mos = maker.mos;
        let directory = mos.dnode(pool_directory::OBJECT).await?;
        let names = Zap::open(directory.clone()).await?;
        let Some(number) = names.number(pool_directory::LOG_SPACE_MAPS).await? else {
            return Ok(());
        };
        for ((vdev, slab), changes) in self.ahead {
            if !(changes.allocated.is_empty() && changes.freed.is_empty()) {
                syncer.append_to_map(vdev, slab, (maker.txg, 1), &changes).await?;
            }
        }
        let logs = Zap::open(mos.dnode(number).await?).await?;
        let mut with_histogram = 0;
        for entry in logs.entries().await? {
            let wrong = || logs.dnode().problem(Problem::Entry("of a log"));
            let log = mos.dnode(entry.number().ok_or_else(wrong)?).await?;
            with_histogram += i64::from(log.phys().bonus.len() >= LONG_BYTES);
            maker.free_object(&log).await?;
        }
        table::remove(mos, &directory, pool_directory::LOG_SPACE_MAPS).await?;
        maker.free_object(logs.dnode()).await?;
        for top in &syncer.config().root.children {
            forget_flushed(maker, top).await?;
        }
        if maker.uses(HISTOGRAM).await?.is_some() {
            maker.count_use(HISTOGRAM, -with_histogram).await?;
        }
        match maker.uses(FEATURE).await? {
            Some(uses) => maker.count_use(FEATURE, -(uses.cast_signed())).await,
            None => Ok(()),
        }
    }
}

/// A vdev's metaslabs are in no log.
async fn forget_flushed(maker: &Maker<'_>, top: &Vdev) -> Result<(), ZfsError> {
    let zap = top.other_number("com.delphix:vdev_zap_top").filter(|zap| *zap != 0);
    let Some(zap) = zap else { return Ok(()) };
    let own = maker.mos.dnode(zap).await?;
    let Some(array) = Zap::open(own.clone()).await?.number(top_vdev::UNFLUSHED).await? else {
        return Ok(());
    };
    table::remove(maker.mos, &own, top_vdev::UNFLUSHED).await?;
    maker.free_object(&maker.mos.dnode(array).await?).await
}
