//! Space of a pool: what its vdevs hold, what of it is allocated, and what datasets can have.
//!
//! ```text
//!   size         whole metaslabs of all top-level vdevs but logs'
//!   allocated    what their space maps say, and what the logs of space maps have since
//!   deflated     size without what raidz and dRAID spend on parity, for blocks of 128 KiB
//!   capacity     deflated, with what deduplication and cloning save, without what a checkpoint holds and
//!                without the slop: 1/32 of it, between 128 MiB (or half the pool) and 128 GiB
//! ```
//!
//! A metaslab's own space map is whole up to a transaction group; what changed after it stands in logs, one a group,
//! for all metaslabs together ([`zfs_format::space_map`]).
//!
//! *Fragmentation* weighs each free stretch by its length: 100 for 512 bytes, 0 for 512 MiB and more.
//!
//! A damaged log or space map is an error: sums of what is left would be a lie.
//!
//! Source: OpenZFS 2.3, `spa_misc.c`, `vdev.c`, `vdev_raidz.c`, `vdev_draid.c`, `metaslab.c`, `spa_log_spacemap.c`.

use crate::error::{Problem, ZfsError};
use crate::spa::Spa;
use crate::zap::Zap;
use std::collections::BTreeMap;
use zfs_format::dsl::name_number;
use zfs_format::nvlist::Text;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::space_map::{Change, Entries, Entry, SpaceMapHeader};
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_format::wire::Reader;

/// Metaslabs of one vdev that are looked at: OpenZFS's own bound is 2^17.
const METASLABS_MAX: u64 = 1 << 17;
/// Bytes of one log of space maps that are read: OpenZFS keeps all of them together below 2^32 in practice.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Bytes read of a log at once; a multiple of its block, so that no entry is cut.
const LOG_READ_BYTES: u64 = 128 << 10;
/// Vdevs with more metaslabs keep one of them for the intent log.
const EMBEDDED_LOG_METASLABS: u64 = 64;
/// The share of the pool that datasets don't get, as a power of two.
const SLOP_SHIFT: u32 = 5;
const SLOP_MIN: u64 = 128 << 20;
const SLOP_MAX: u64 = 128 << 30;
/// The block for which the overhead of raidz is reckoned.
const DEFLATE_BLOCK: u64 = 128 << 10;
const SECTOR_SHIFT: u32 = 9;
/// How bad a free stretch of 512 bytes, 1 KiB, … is, in percent.
const FRAGMENTATION: [u64; 21] =
    [100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0];

/// What a top-level vdev's space is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Everything.
    Normal,
    /// The intent log.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Deduplication tables.
    Dedup,
}

impl Class {
    /// The class of a top-level vdev.
    pub fn of(vdev: &Vdev) -> Class {
        if vdev.is_log.unwrap_or(0) != 0 {
            return Class::Log;
        }
        match vdev.allocation_bias.as_ref().and_then(|bias| bias.as_str()) {
            Some("special") => Class::Special,
            Some("dedup") => Class::Dedup,
            Some("log") => Class::Log,
            _ => Class::Normal,
        }
    }
}

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

/// Bytes that a block of 128 KiB takes on a top-level vdev.
fn allocated_for_block(vdev: &Vdev) -> u64 {
    let shift = vdev.ashift.unwrap_or(0).clamp(SECTOR_SHIFT.into(), 17) as u32;
    let sectors = DEFLATE_BLOCK >> shift;
    let taken = match &vdev.kind {
        VdevKind::Raidz(raidz) => {
            // As it was made: an expanded one goes on counting by the old width.
            let width = (vdev.children.len() as u64).saturating_sub(raidz.expand_txgs.len() as u64);
            let data = width.saturating_sub(raidz.parity).max(1);
            let with_parity = sectors + raidz.parity * sectors.div_ceil(data);
            with_parity.next_multiple_of(raidz.parity + 1)
        }
        VdevKind::Draid(draid) => {
            let data = draid.data.clamp(1, 255);
            sectors.div_ceil(data) * (data + draid.parity)
        }
        _ => sectors,
    };
    taken << shift
}

/// Bytes of a top-level vdev without what goes to parity.
pub(super) fn deflated(vdev: &Vdev, bytes: u64) -> u64 {
    let ratio = DEFLATE_BLOCK / (allocated_for_block(vdev) >> SECTOR_SHIFT).max(1);
    (bytes >> SECTOR_SHIFT).saturating_mul(ratio)
}

/// What is known of a metaslab.
#[derive(Clone, Copy, Default)]
struct Metaslab {
    /// The transaction group that its space map is whole up to.
    flushed_txg: u64,
    allocated: i64,
    fragmentation: Option<u64>,
}

/// What a top-level vdev's metaslabs are.
struct Top<'a> {
    vdev: &'a Vdev,
    shift: u32,
    metaslabs: Vec<Metaslab>,
}

/// Bytes of a metaslab. That of a dRAID begins and ends with whole groups.
fn metaslab_bytes(vdev: &Vdev, number: u64, shift: u32) -> u64 {
    let whole = 1u64 << shift;
    let VdevKind::Draid(draid) = &vdev.kind else { return whole };
    let unit = vdev.ashift.unwrap_or(SECTOR_SHIFT.into()).min(32) as u32;
    let group = draid.data.saturating_add(draid.parity).clamp(1, 1 << 16) << unit;
    let start = number.saturating_mul(whole);
    let skipped = start.next_multiple_of(group) - start;
    whole.saturating_sub(skipped) / group * group
}

impl Spa {
    /// The space of the pool.
    ///
    /// # Errors
    /// A space map, a log or a table can't be had.
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
        let stay: u64 = stay.map(|top| deflated(top.vdev, top.size())).sum();
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
    pub async fn classified(&self) -> Result<Vdev, ZfsError> {
        let mut root = (*self.vdevs()).clone();
        for top in &mut root.children {
            if top.allocation_bias.is_some() {
                continue;
            }
            if let Some(zap) = self.vdev_zap(top).await?
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
        let shift = vdev.metaslab_shift.unwrap_or(0);
        let (Some(array), Some(asize), 1..64) = (vdev.metaslab_array, vdev.asize, shift) else {
            return Ok(None);
        };
        if matches!(vdev.kind, VdevKind::Indirect(_) | VdevKind::Hole | VdevKind::Missing) {
            return Ok(None);
        }
        let shift = shift as u32;
        let many = asize >> shift;
        if many > METASLABS_MAX {
            let (what, limit) = ("metaslabs of a vdev", METASLABS_MAX);
            return Err(self.mos().wrong(array, Problem::Limit { what, limit }));
        }
        let mut metaslabs = vec![Metaslab::default(); many as usize];
        let maps = self.numbers(array, many as usize).await?;
        let unit = vdev.ashift.unwrap_or(SECTOR_SHIFT.into()).min(63) as u32;
        for (metaslab, map) in metaslabs.iter_mut().zip(maps) {
            // One that was never used has no map.
            metaslab.fragmentation = histograms.then_some(0);
            if map == 0 {
                continue;
            }
            let object = self.mos().dnode(map).await?;
            let header = SpaceMapHeader::decode(&object.phys().bonus, object.endian());
            let header = header.map_err(|error| object.wrong(error))?;
            metaslab.allocated = header.allocated;
            let fragmentation = header.histogram.map(|histogram| fragmentation(&histogram, unit));
            metaslab.fragmentation = fragmentation.filter(|_| histograms);
        }
        if let Some(zap) = self.vdev_zap(vdev).await?
            && let Some(object) = zap.number(top_vdev::UNFLUSHED).await?
        {
            let txgs = self.numbers(object, many as usize).await?;
            for (metaslab, txg) in metaslabs.iter_mut().zip(txgs) {
                metaslab.flushed_txg = txg;
            }
        }
        Ok(Some(Top { vdev, shift, metaslabs }))
    }

    async fn vdev_zap(&self, vdev: &Vdev) -> Result<Option<Zap>, ZfsError> {
        match vdev.other_number("com.delphix:vdev_zap_top") {
            Some(zap) => Zap::open(self.mos().dnode(zap).await?).await.map(Some),
            None => Ok(None),
        }
    }

    /// So many numbers of an object, zeros where it is shorter.
    async fn numbers(&self, number: u64, many: usize) -> Result<Vec<u64>, ZfsError> {
        let object = self.mos().dnode(number).await?;
        let bytes = object.read(0, many * 8).await?.to_vec();
        let mut from = Reader::new("numbers", &bytes, object.endian());
        let numbers = (0..many).map(|_| from.u64("number"));
        numbers.collect::<Result<_, _>>().map_err(|error| object.wrong(error))
    }

    async fn apply_logs(&self, tops: &mut BTreeMap<u64, Top<'_>>) -> Result<(), ZfsError> {
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let Some(logs) = directory.number(pool_directory::LOG_SPACE_MAPS).await? else {
            return Ok(());
        };
        let logs = Zap::open(self.mos().dnode(logs).await?).await?;
        for entry in logs.entries().await? {
            let wrong = || logs.dnode().problem(Problem::Entry("of a log"));
            let txg = name_number(&entry.name).ok_or_else(wrong)?;
            let object = self.mos().dnode(entry.number().ok_or_else(wrong)?).await?;
            let header = SpaceMapHeader::decode(&object.phys().bonus, object.endian());
            let length = header.map_err(|error| object.wrong(error))?.length;
            if length > LOG_BYTES_MAX {
                let (what, limit) = ("bytes of a log of space maps", LOG_BYTES_MAX);
                return Err(object.problem(Problem::Limit { what, limit }));
            }
            let mut at = 0;
            while at < length {
                let len = LOG_READ_BYTES.min(length - at);
                let bytes = object.read(at, len as usize).await?.to_vec();
                for entry in Entries::new(&bytes, object.endian()) {
                    let entry = entry.map_err(|error| object.wrong(error))?;
                    if let Entry::Long { change, vdev, offset, run } = entry
                        && let Some(top) = tops.get_mut(&vdev.into())
                    {
                        top.apply(txg, change, offset, run);
                    }
                }
                at += len;
            }
        }
        Ok(())
    }

    async fn vdev_space(&self, top: &Top<'_>) -> Result<VdevSpace, ZfsError> {
        let size = top.size();
        let allocated = top.metaslabs.iter().map(|one| one.allocated).fold(0, i64::saturating_add);
        let is_normal = Class::of(top.vdev) == Class::Normal;
        let keeps_log = is_normal && top.metaslabs.len() as u64 > EMBEDDED_LOG_METASLABS;
        let mut checkpoint = 0;
        if let Some(zap) = self.vdev_zap(top.vdev).await?
            && let Some(map) = zap.number(top_vdev::CHECKPOINT).await?
        {
            let object = self.mos().dnode(map).await?;
            let header = SpaceMapHeader::decode(&object.phys().bonus, object.endian());
            // It lists what was freed.
            checkpoint = header.map_err(|error| object.wrong(error))?.allocated.unsigned_abs();
        }
        Ok(VdevSpace {
            size,
            allocated: u64::try_from(allocated).unwrap_or(0),
            deflated: deflated(top.vdev, size),
            embedded_log: if keeps_log { deflated(top.vdev, 1 << top.shift) } else { 0 },
            checkpoint,
            fragmentation: top.fragmentation(),
        })
    }

    fn checkpoint_space(
        &self,
        tops: &BTreeMap<u64, Top<'_>>,
        vdevs: &BTreeMap<u64, VdevSpace>,
    ) -> u64 {
        let held = tops.iter().filter_map(|(id, top)| {
            vdevs.get(id).map(|space| deflated(top.vdev, space.checkpoint))
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
    fn size(&self) -> u64 {
        let sizes =
            (0..self.metaslabs.len() as u64).map(|n| metaslab_bytes(self.vdev, n, self.shift));
        sizes.sum()
    }

    fn apply(&mut self, txg: u64, change: Change, offset: u64, run: u64) {
        // In a log offsets and runs are in sectors of 512 bytes, whatever the vdev's.
        let offset = offset.saturating_mul(1 << SECTOR_SHIFT);
        let bytes = run.saturating_mul(1 << SECTOR_SHIFT) as i64;
        let Some(metaslab) = self.metaslabs.get_mut((offset >> self.shift) as usize) else {
            return;
        };
        if txg < metaslab.flushed_txg {
            return;
        }
        metaslab.allocated = match change {
            Change::Allocate => metaslab.allocated.saturating_add(bytes),
            Change::Free => metaslab.allocated.saturating_sub(bytes),
        };
    }

    /// Metaslabs weighed by what is free in them.
    fn fragmentation(&self) -> Option<u64> {
        let (mut sum, mut all, mut known) = (0u128, 0u128, 0);
        for (metaslab, number) in self.metaslabs.iter().zip(0..) {
            let Some(fragmentation) = metaslab.fragmentation else { continue };
            known += 1;
            let taken = u64::try_from(metaslab.allocated).unwrap_or(0);
            let free = u128::from(
                metaslab_bytes(self.vdev, number, self.shift).saturating_sub(taken) >> SECTOR_SHIFT,
            );
            all += free;
            sum += free * u128::from(fragmentation);
        }
        if known < self.metaslabs.len().div_ceil(2) {
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

/// What datasets don't get of so much space.
fn slop(space: u64, embedded_log: u64) -> u64 {
    let slop = (space >> SLOP_SHIFT).min(SLOP_MAX);
    let slop = slop - embedded_log.min(slop >> 1);
    slop.max((space >> 1).min(SLOP_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slop_is_a_share_within_bounds() {
        const GIB: u64 = 1 << 30;
        for (space, slop_bytes) in
            [(80 << 20, 40 << 20), (GIB, 128 << 20), (64 * GIB, 2 * GIB), (1 << 50, 128 * GIB)]
        {
            assert_eq!(slop(space, 0), slop_bytes);
        }
        assert_eq!(slop(64 * GIB, GIB / 2), 3 * GIB / 2);
    }

    #[test]
    fn metaslabs_of_a_draid_are_whole_groups() {
        let draid = zfs_format::vdev::Draid { parity: 1, data: 2, spares: 1, groups: 5 };
        let list = zfs_format::nvlist::NvList::default();
        let mut vdev = Vdev {
            kind: VdevKind::Draid(draid),
            id: 0,
            guid: 1,
            path: None,
            ashift: Some(12),
            asize: Some(12 << 24),
            metaslab_array: None,
            metaslab_shift: Some(24),
            is_log: None,
            allocation_bias: None,
            dtl: None,
            create_txg: None,
            children: Vec::new(),
            other: list.pairs,
        };
        let sizes: Vec<u64> = (0..3).map(|n| metaslab_bytes(&vdev, n, 24)).collect();
        assert_eq!(sizes, [16_773_120, 16_760_832, 16_773_120]);
        vdev.kind = VdevKind::Mirror;
        assert_eq!(metaslab_bytes(&vdev, 1, 24), 1 << 24);
    }

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
