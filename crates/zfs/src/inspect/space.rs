//! Space of a pool: what its vdevs hold, what of it is allocated, and what datasets can have.
//!
//! ```text
//!   size         whole metaslabs of all top-level vdevs but logs'
//!   allocated    what their space maps say, and what the logs of space maps have since
//!   deflated     size without what raidz and dRAID spend on parity (zfs_store::Tree::deflated)
//!   capacity     deflated, with what deduplication and cloning save, without what a checkpoint holds and
//!                without the slop: 1/32 of it, between 128 MiB (or half the pool) and 128 GiB
//! ```
//!
//! Of each metaslab's space map the header has a sum; what the logs say since is added ([`zfs_store::alloc`]).
//!
//! *Fragmentation* weighs each free stretch by its length: 100 for 512 bytes, 0 for 512 MiB and more.
//!
//! A damaged log or space map is an error: sums of what is left would be a lie.
//!
//! Source: OpenZFS 2.3, `spa_misc.c`, `vdev.c`, `vdev_raidz.c`, `vdev_draid.c`, `metaslab.c`, `spa_log_spacemap.c`.

use crate::error::ZfsError;
use crate::spa::Spa;
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use zfs_format::nvlist::Text;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::space_map::Change;
use zfs_format::vdev::Vdev;
use zfs_store::alloc::space_maps::header;
use zfs_store::alloc::{Class, Metaslabs, SECTOR_SHIFT, each_stretch, keeps_log};
use zfs_store::slop;

/// How bad a free stretch of 512 bytes, 1 KiB, … is, in percent.
const FRAGMENTATION: [u64; 21] =
    [100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0];

/// Space of a top-level vdev, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevSpace {
    /// Of all its metaslabs.
    pub size: u64,
    /// Of that, allocated.
    pub allocated: u64,
    /// The size without parity.
    pub deflated: u64,
    /// The metaslab that is kept for the intent log, without parity.
    pub embedded_log: u64,
    /// Held by a checkpoint.
    pub checkpoint: u64,
    /// In percent; nothing where the pool keeps no histograms.
    pub fragmentation: Option<u64>,
}

/// Space of a pool, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Of all classes but the log's.
    pub size: u64,
    /// Of that, allocated.
    pub allocated: u64,
    /// Normal space without parity.
    pub deflated: u64,
    /// In percent; nothing where the pool keeps no histograms.
    pub fragmentation: Option<u64>,
    /// Held by a checkpoint.
    pub checkpoint: u64,
    /// What datasets can have.
    pub capacity: u64,
    /// Top-level vdevs by number.
    pub vdevs: BTreeMap<u64, VdevSpace>,
}

/// What is known of a metaslab.
#[derive(Clone, Copy, Default)]
struct Sums {
    allocated: i64,
    fragmentation: Option<u64>,
}

/// What a top-level vdev's metaslabs are.
struct Top<'a> {
    vdev: &'a Vdev,
    slabs: Metaslabs,
    /// Of each metaslab.
    sums: Vec<Sums>,
}

impl Spa {
    /// The space of the pool.
    ///
    /// # Errors
    /// A space map, a log or a table can't be had.
    #[boxed(?Send)]
    pub async fn space(&self) -> Result<Space, ZfsError> {
        let histograms = self.has_feature("com.delphix:spacemap_histogram");
        let mut tops = BTreeMap::new();
        let root = self.classified().await?;
        for vdev in &root.children {
            if let Some(top) = self.top(vdev, histograms).await? {
                tops.insert(vdev.id, top);
            }
        }
        self.apply_logs(&mut tops).await?;
        let mut vdevs = BTreeMap::new();
        for (id, top) in &tops {
            vdevs.insert(*id, self.vdev_space(top).await?);
        }
        let in_class = |class: Class| {
            tops.iter()
                .filter(move |(_, top)| Class::of(top.vdev) == class)
                .filter_map(|(id, _)| vdevs.get(id))
        };
        let sum = |of: fn(&VdevSpace) -> u64| {
            let counted = [Class::Normal, Class::Special, Class::Dedup];
            counted.into_iter().flat_map(in_class).map(of).fold(0, u64::saturating_add)
        };
        let normal = in_class(Class::Normal).map(|one| one.deflated).fold(0, u64::saturating_add);
        let embedded = in_class(Class::Normal).map(|one| one.embedded_log).sum::<u64>();
        let stay = tops.values().filter(|top| top.vdev.other_number("non_allocating") == Some(1));
        let stay: u64 = stay.map(|top| self.deflated(top.vdev, top.slabs.size())).sum();
        let deflated = normal.saturating_sub(embedded).saturating_sub(stay);
        let weighted: Option<u64> =
            in_class(Class::Normal).map(|one| Some(one.fragmentation? * one.size)).sum();
        let normal_size: u64 = in_class(Class::Normal).map(|one| one.size).sum();
        let fragmentation = weighted.map(|sum| sum.checked_div(normal_size).unwrap_or(0));
        let checkpoint = self.checkpoint_space(&tops, &vdevs);
        let deferred = self.deferred_frees().await?;
        let saved = self.dedup().await?.saved() + self.cloned().await?.saved;
        let capacity = (deflated + saved).saturating_sub(checkpoint).saturating_sub(deferred);
        let capacity = capacity.saturating_sub(slop(deflated, embedded));
        let (size, allocated) = (sum(|one| one.size), sum(|one| one.allocated));
        Ok(Space { size, allocated, deflated, fragmentation, checkpoint, capacity, vdevs })
    }

    /// The vdevs, each top-level one with what its space is for: configurations don't always say, its own table does.
    ///
    /// # Errors
    /// A table can't be had.
    #[boxed(?Send)]
    pub async fn classified(&self) -> Result<Vdev, ZfsError> {
        let mut root = (*self.vdevs()).clone();
        for top in &mut root.children {
            if top.allocation_bias.is_some() || !top.is_there() {
                continue;
            }
            if let Some(zap) = self.top_zap(top).await?
                && let Some(value) = zap.get(top_vdev::ALLOCATION_BIAS.as_bytes()).await?
                && let Some(bytes) = value.bytes()
            {
                top.allocation_bias = Some(Text::from_bytes(&bytes));
            }
        }
        Ok(root)
    }

    /// Whether a feature is enabled.
    pub fn has_feature(&self, guid: &str) -> bool {
        self.features().iter().any(|feature| feature.guid == guid)
    }

    async fn top<'a>(&self, vdev: &'a Vdev, histograms: bool) -> Result<Option<Top<'a>>, ZfsError> {
        let Some(slabs) = self.metaslabs(vdev).await? else { return Ok(None) };
        let mut sums = vec![Sums::default(); slabs.len()];
        for (sum, slab) in sums.iter_mut().zip(slabs.slabs()) {
            // One that was never used has no map.
            sum.fragmentation = histograms.then_some(0);
            if slab.map == 0 {
                continue;
            }
            let header = header(self.mos(), &self.mos().dnode(slab.map).await?)?;
            sum.allocated = header.allocated;
            let unit = slabs.unit();
            let fragmentation = header.histogram.map(|histogram| fragmentation(&histogram, unit));
            sum.fragmentation = fragmentation.filter(|_| histograms);
        }
        Ok(Some(Top { vdev, slabs, sums }))
    }

    async fn apply_logs(&self, tops: &mut BTreeMap<u64, Top<'_>>) -> Result<(), ZfsError> {
        for (txg, log) in self.space_map_logs().await? {
            each_stretch(self.mos(), log, SECTOR_SHIFT, |stretch| {
                let Some(top) = tops.get_mut(&stretch.vdev.into()) else { return };
                let Some(slab) = top.slabs.logged(txg, stretch.offset) else { return };
                let (sum, len) = (&mut top.sums[slab].allocated, stretch.len as i64);
                *sum = match stretch.change {
                    Change::Allocate => sum.saturating_add(len),
                    Change::Free => sum.saturating_sub(len),
                };
            })
            .await?;
        }
        Ok(())
    }

    async fn vdev_space(&self, top: &Top<'_>) -> Result<VdevSpace, ZfsError> {
        let size = top.slabs.size();
        let allocated = top.sums.iter().map(|one| one.allocated).fold(0, i64::saturating_add);
        let keeps_log = keeps_log(Class::of(top.vdev), top.slabs.len());
        let mut checkpoint = 0;
        if let Some(map) = self.checkpoint_map(top.vdev).await? {
            // It lists what was freed.
            let header = header(self.mos(), &self.mos().dnode(map).await?)?;
            checkpoint = header.allocated.unsigned_abs();
        }
        Ok(VdevSpace {
            size,
            allocated: u64::try_from(allocated).unwrap_or(0),
            deflated: self.deflated(top.vdev, size),
            embedded_log: if keeps_log { self.deflated(top.vdev, top.slabs.stride()) } else { 0 },
            checkpoint,
            fragmentation: top.fragmentation(),
        })
    }

    /// Bytes of a top-level vdev without what goes to parity.
    fn deflated(&self, vdev: &Vdev, bytes: u64) -> u64 {
        u32::try_from(vdev.id).map_or(bytes, |id| self.tree().deflated(id, bytes))
    }

    fn checkpoint_space(
        &self,
        tops: &BTreeMap<u64, Top<'_>>,
        vdevs: &BTreeMap<u64, VdevSpace>,
    ) -> u64 {
        let held = tops.iter().filter_map(|(id, top)| {
            vdevs.get(id).map(|space| self.deflated(top.vdev, space.checkpoint))
        });
        held.sum()
    }

    /// Bytes that wait in the list of what is to be freed.
    async fn deferred_frees(&self) -> Result<u64, ZfsError> {
        use zfs_format::dsl::bpobj::BpObj;
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let Some(list) = directory.number(pool_directory::SYNC_BPOBJ).await? else { return Ok(0) };
        let object = self.mos().dnode(list).await?;
        let list = BpObj::decode(&object.phys().bonus, object.endian());
        Ok(list.map_err(|error| object.wrong(error))?.bytes)
    }
}

impl Top<'_> {
    /// Metaslabs weighed by what is free in them.
    fn fragmentation(&self) -> Option<u64> {
        let (mut sum, mut all, mut known) = (0u128, 0u128, 0);
        for (number, one) in self.sums.iter().enumerate() {
            let Some(fragmentation) = one.fragmentation else { continue };
            known += 1;
            let taken = u64::try_from(one.allocated).unwrap_or(0);
            let free = u128::from(self.slabs.bytes(number).saturating_sub(taken) >> SECTOR_SHIFT);
            all += free;
            sum += free * u128::from(fragmentation);
        }
        if known < self.sums.len().div_ceil(2) {
            return None;
        }
        sum.checked_div(all).map(|value| value as u64)
    }
}

/// Of the free stretches of a space map whose unit is 2^`unit` bytes.
fn fragmentation(histogram: &[u64], unit: u32) -> u64 {
    let (mut sum, mut all) = (0u128, 0u128);
    for (n, count) in histogram.iter().enumerate() {
        let index = (unit.saturating_sub(SECTOR_SHIFT) as usize + n).min(FRAGMENTATION.len() - 1);
        let bytes = u128::from(*count) << (n as u32 + unit).min(63);
        all = all.saturating_add(bytes);
        sum = sum.saturating_add(bytes.saturating_mul(FRAGMENTATION[index].into()));
    }
    sum.checked_div(all).map_or(0, |value| value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_stretches_weigh_by_their_length() {
        let mut histogram = [0; 32];
        assert_eq!(fragmentation(&histogram, 9), 0);
        histogram[0] = 1;
        assert_eq!((fragmentation(&histogram, 9), fragmentation(&histogram, 12)), (100, 93));
        histogram[20] = 1;
        assert_eq!(fragmentation(&histogram, 9), 0);
        histogram[20] = 0;
        histogram[1] = 1;
        assert_eq!(fragmentation(&histogram, 9), 99);
    }
}
