//! What the space maps say is allocated, held against the blocks that are there: no block outside of it, none over
//! another, nothing left over.
//!
//! ```text
//!   Claims::load    metaslabs' space maps, what the logs of space maps changed since, less what only a checkpoint holds
//!   claim           a block's places are taken off; where they are not there: not allocated, or claimed before
//!   left            what nobody claimed: leaked
//! ```
//!
//! A deduplicated or cloned block is claimed by each of its pointers; what was claimed before is summed up as shared, if
//! such a block may be. Places on a removed vdev are claimed where they lie now. Of a gang the headers are
//! claimed and each piece: a header takes what the gang's place counts more than the pieces' together.
//!
//! Ranges are kept as they are merged, so memory is that of the maps when they are loaded for writing.
//!
//! Source: OpenZFS, `zdb.c` (leak checking), `spa_log_spacemap.c`, `space_map.c`.

use super::walk::Visited;
use crate::dmu::Dnode;
use crate::error::{Problem, ZfsError};
use crate::spa::Spa;
use crate::zap::Zap;
use std::collections::BTreeMap;
use std::ops::Range;
use zfs_format::block_pointer::{BlockPointer, Kind};
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::space_map::{Change, Entries, Entry, SpaceMapHeader};
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_format::wire::Reader;

/// Metaslabs of one vdev: OpenZFS's own bound is 2^17.
const METASLABS_MAX: u64 = 1 << 17;
/// Bytes of a space map or a log of them that are read: OpenZFS condenses maps long before.
const MAP_BYTES_MAX: u64 = 1 << 30;
/// Bytes read at once; a multiple of every map's block, so that no entry is cut.
const READ_BYTES: u64 = 128 << 10;
/// The unit of logs of space maps, as a power of two.
const SECTOR_SHIFT: u32 = 9;
/// Gangs in gangs.
const GANG_DEPTH_MAX: usize = 12;
/// Faults that are told in full; the rest is counted.
const FAULTS_MAX: usize = 1000;

/// Stretches of a vdev, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretches(BTreeMap<u64, u64>);

impl Stretches {
    /// Adds a stretch; false where some of it was there.
    fn add(&mut self, at: u64, len: u64) -> bool {
        let Some(end) = at.checked_add(len) else { return false };
        let clean = self.remove_any(at, end);
        let mut new = at..end;
        if let Some((start, stop)) = self.before(at)
            && stop == at
        {
            self.0.remove(&start);
            new.start = start;
        }
        if let Some(stop) = self.0.remove(&end) {
            new.end = stop;
        }
        self.0.insert(new.start, new.end);
        clean == 0
    }

    fn before(&self, at: u64) -> Option<(u64, u64)> {
        self.0.range(..=at).next_back().map(|(start, end)| (*start, *end))
    }

    /// Takes off what there is of a stretch, and says how much that was.
    fn remove_any(&mut self, at: u64, end: u64) -> u64 {
        let mut removed = 0;
        if let Some((start, stop)) = self.before(at)
            && stop > at
        {
            self.0.remove(&start);
            if start < at {
                self.0.insert(start, at);
            }
            if stop > end {
                self.0.insert(end, stop);
            }
            removed += stop.min(end) - at;
        }
        while let Some((start, stop)) = self.0.range(at..end).next().map(|(s, e)| (*s, *e)) {
            self.0.remove(&start);
            if stop > end {
                self.0.insert(end, stop);
            }
            removed += stop.min(end) - start;
        }
        removed
    }

    /// Takes off a stretch; false where some of it was not there.
    fn remove(&mut self, at: u64, len: u64) -> bool {
        let Some(end) = at.checked_add(len) else { return false };
        self.remove_any(at, end) == len
    }

    fn holds(&self, at: u64, len: u64) -> bool {
        let end = at.saturating_add(len);
        self.before(at).is_some_and(|(_, stop)| stop >= end)
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(start, end)| *start..*end)
    }
}

/// A top-level vdev's space.
struct Top {
    /// Bytes of a metaslab, as a power of two.
    shift: u32,
    /// For each metaslab the group that its own map is whole up to.
    flushed: Vec<u64>,
    allocated: Stretches,
    left: Stretches,
}

/// Something about space that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Who claimed it; nothing where the maps contradict themselves.
    pub claimed_by: Option<zfs_store::Bookmark>,
    /// The top-level vdev.
    pub vdev: u32,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub len: u64,
    /// What it is.
    pub kind: FaultKind,
}

/// What can be wrong with space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The map allocates what it has, or frees what it has not.
    Map,
    /// A block lies where nothing is allocated.
    NotAllocated,
    /// Two blocks lie there.
    Twice,
}

/// Space that is allocated, and who claimed it. See the [module](self).
pub struct Claims {
    tops: BTreeMap<u32, Top>,
    /// Bytes that only a checkpoint holds.
    pub checkpoint: u64,
    /// Bytes of deduplicated blocks that were claimed before.
    pub deduplicated: u64,
    /// Deduplicated blocks that were claimed before.
    pub deduplicated_blocks: u64,
    /// Bytes of cloned blocks that were claimed before.
    pub cloned: u64,
    /// Cloned blocks that were claimed before.
    pub cloned_blocks: u64,
    /// What can't be, as far as it is kept.
    pub faults: Vec<Fault>,
    /// How many there are.
    pub fault_count: u64,
    /// Whether blocks may have been cloned.
    clones: bool,
}

impl Claims {
    /// Bytes that are allocated on all vdevs.
    pub fn allocated(&self) -> u64 {
        self.tops.values().map(|top| top.allocated.bytes()).sum::<u64>() + self.checkpoint
    }

    /// What nobody claimed, by vdev.
    pub fn left(&self) -> impl Iterator<Item = (u32, &Stretches)> {
        self.tops.iter().map(|(vdev, top)| (*vdev, &top.left))
    }

    fn fault(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    fn change(&mut self, vdev: u32, change: Change, offset: u64, len: u64) {
        let Some(top) = self.tops.get_mut(&vdev) else { return };
        let fits = match change {
            Change::Allocate => top.allocated.add(offset, len),
            Change::Free => top.allocated.remove(offset, len),
        };
        if !fits {
            let kind = FaultKind::Map;
            self.fault(Fault { claimed_by: None, vdev, offset, len, kind });
        }
    }

    /// Claims a block's places.
    ///
    /// # Errors
    /// A gang's header can't be had, or a place is on no vdev.
    pub async fn claim(&mut self, spa: &Spa, visited: &Visited) -> Result<(), ZfsError> {
        let pointer = visited.pointer;
        let mut open = vec![(pointer, 0)];
        let mut before = 0;
        while let Some((pointer, depth)) = open.pop() {
            let wrong = |kind| zfs_store::BlockError { at: visited.at, kind };
            let pieces = match pointer.kind() {
                Kind::Gang if depth < GANG_DEPTH_MAX => {
                    spa.store().gang_pieces(&pointer).await.map_err(wrong)?
                }
                _ => Vec::new(),
            };
            for (copy, dva) in pointer.dvas().enumerate() {
                let within =
                    |piece: &BlockPointer| piece.dvas().nth(copy).map_or(0, |dva| dva.allocated());
                let below = pieces.iter().map(within).fold(0, u64::saturating_add);
                let len = dva.allocated().saturating_sub(below);
                let places = spa.tree().places(dva.vdev(), dva.offset(), len);
                for (vdev, offset, len) in places.map_err(wrong)? {
                    before += self.claim_at(visited, vdev, offset, len);
                }
            }
            open.extend(pieces.into_iter().map(|piece| (piece, depth + 1)));
        }
        if before > 0 && pointer.is_dedup() {
            self.deduplicated += before;
            self.deduplicated_blocks += 1;
        } else if before > 0 {
            self.cloned += before;
            self.cloned_blocks += 1;
        }
        Ok(())
    }

    /// Claims a stretch, and says how much of it was claimed before, where that may be.
    fn claim_at(&mut self, visited: &Visited, vdev: u32, offset: u64, len: u64) -> u64 {
        let pointer = &visited.pointer;
        let Some(top) = self.tops.get_mut(&vdev) else { return 0 };
        if top.left.holds(offset, len) {
            top.left.remove(offset, len);
            return 0;
        }
        let allocated = top.allocated.holds(offset, len);
        if allocated && pointer.level() == 0 && (pointer.is_dedup() || self.clones) {
            return len;
        }
        let kind = if allocated { FaultKind::Twice } else { FaultKind::NotAllocated };
        self.fault(Fault { claimed_by: Some(visited.at), vdev, offset, len, kind });
        0
    }
}

impl Spa {
    /// Loads what is allocated.
    ///
    /// # Errors
    /// A map, a log or a table can't be had.
    pub async fn claims(&self) -> Result<Claims, ZfsError> {
        let mut claims = Claims {
            tops: BTreeMap::new(),
            checkpoint: 0,
            deduplicated: 0,
            deduplicated_blocks: 0,
            cloned: 0,
            cloned_blocks: 0,
            faults: Vec::new(),
            fault_count: 0,
            clones: self.has_feature("com.fudosecurity:block_cloning"),
        };
        for vdev in &self.vdevs().children {
            self.load_vdev(vdev, &mut claims).await?;
        }
        self.load_logs(&mut claims).await?;
        for vdev in &self.vdevs().children {
            self.exclude_checkpoint(vdev, &mut claims).await?;
        }
        for top in claims.tops.values_mut() {
            top.left = top.allocated.clone();
        }
        Ok(claims)
    }

    async fn load_vdev(&self, vdev: &Vdev, claims: &mut Claims) -> Result<(), ZfsError> {
        let shift = vdev.metaslab_shift.unwrap_or(0);
        let (Some(array), Some(asize), 1..64) = (vdev.metaslab_array, vdev.asize, shift) else {
            return Ok(());
        };
        let Ok(id) = u32::try_from(vdev.id) else { return Ok(()) };
        if matches!(vdev.kind, VdevKind::Indirect(_) | VdevKind::Hole | VdevKind::Missing) {
            return Ok(());
        }
        let many = asize >> shift;
        if many > METASLABS_MAX {
            let (what, limit) = ("metaslabs of a vdev", METASLABS_MAX);
            return Err(self.mos().wrong(array, Problem::Limit { what, limit }));
        }
        let flushed = match self.top_zap(vdev).await? {
            Some(zap) => match zap.number(top_vdev::UNFLUSHED).await? {
                Some(object) => self.row(object, many as usize).await?,
                None => Vec::new(),
            },
            None => Vec::new(),
        };
        let (allocated, left) = (Stretches::default(), Stretches::default());
        claims.tops.insert(id, Top { shift: shift as u32, flushed, allocated, left });
        let unit = vdev.ashift.unwrap_or(SECTOR_SHIFT.into()).min(63) as u32;
        for (number, map) in self.row(array, many as usize).await?.into_iter().enumerate() {
            if map == 0 {
                continue;
            }
            let mut start = (number as u64) << shift;
            if let VdevKind::Draid(draid) = &vdev.kind {
                // There a metaslab begins with the first row of a group that is whole in it.
                let width = draid.data.saturating_add(draid.parity).clamp(1, 255);
                start = start.next_multiple_of(width << unit);
            }
            let object = self.mos().dnode(map).await?;
            each_entry(&object, |entry| {
                if let Entry::Short { change, offset, run }
                | Entry::Long { change, offset, run, .. } = entry
                {
                    let (offset, len) = (scaled(offset, unit), scaled(run, unit));
                    claims.change(id, change, start.saturating_add(offset), len);
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn load_logs(&self, claims: &mut Claims) -> Result<(), ZfsError> {
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let Some(table) = directory.number(pool_directory::LOG_SPACE_MAPS).await? else {
            return Ok(());
        };
        let table = Zap::open(self.mos().dnode(table).await?).await?;
        let mut logs = BTreeMap::new();
        for entry in table.entries().await? {
            let wrong = || table.dnode().problem(Problem::Entry("of a log"));
            // The name is the transaction group's number, in hexadecimal.
            let txg = u64::from_str_radix(&entry.text(), 16).map_err(|_| wrong())?;
            logs.insert(txg, entry.number().ok_or_else(wrong)?);
        }
        for (txg, log) in logs {
            let object = self.mos().dnode(log).await?;
            each_entry(&object, |entry| {
                let Entry::Long { change, vdev, offset, run } = entry else { return };
                let (offset, len) = (scaled(offset, SECTOR_SHIFT), scaled(run, SECTOR_SHIFT));
                let Some(top) = claims.tops.get(&vdev) else { return };
                let metaslab = usize::try_from(offset >> top.shift).unwrap_or(usize::MAX);
                if top.flushed.get(metaslab).is_none_or(|flushed| txg >= *flushed) {
                    claims.change(vdev, change, offset, len);
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Takes off what was freed since a checkpoint, which the maps still have as allocated.
    async fn exclude_checkpoint(&self, vdev: &Vdev, claims: &mut Claims) -> Result<(), ZfsError> {
        let Some(zap) = self.top_zap(vdev).await? else { return Ok(()) };
        let Some(map) = zap.number(top_vdev::CHECKPOINT).await? else { return Ok(()) };
        let Ok(id) = u32::try_from(vdev.id) else { return Ok(()) };
        let unit = vdev.ashift.unwrap_or(SECTOR_SHIFT.into()).min(63) as u32;
        let object = self.mos().dnode(map).await?;
        each_entry(&object, |entry| {
            if let Entry::Short { offset, run, .. } | Entry::Long { offset, run, .. } = entry {
                let (offset, len) = (scaled(offset, unit), scaled(run, unit));
                claims.change(id, Change::Free, offset, len);
                claims.checkpoint = claims.checkpoint.saturating_add(len);
            }
        })
        .await
    }

    async fn top_zap(&self, vdev: &Vdev) -> Result<Option<Zap>, ZfsError> {
        match vdev.other_number("com.delphix:vdev_zap_top").filter(|zap| *zap != 0) {
            Some(zap) => Zap::open(self.mos().dnode(zap).await?).await.map(Some),
            None => Ok(None),
        }
    }

    /// So many numbers of an object, zeros where it is shorter.
    async fn row(&self, number: u64, many: usize) -> Result<Vec<u64>, ZfsError> {
        let object = self.mos().dnode(number).await?;
        let bytes = object.read(0, many * 8).await?.to_vec();
        let mut from = Reader::new("numbers", &bytes, object.endian());
        let numbers = (0..many).map(|_| from.u64("number"));
        numbers.collect::<Result<_, _>>().map_err(|error| object.wrong(error))
    }
}

fn scaled(number: u64, shift: u32) -> u64 {
    number.saturating_mul(1 << shift)
}

/// Goes through the entries of a space map, or of a log of them.
pub(crate) async fn each_entry(
    object: &Dnode,
    mut take: impl FnMut(Entry),
) -> Result<(), ZfsError> {
    let header = SpaceMapHeader::decode(&object.phys().bonus, object.endian());
    let length = header.map_err(|error| object.wrong(error))?.length.min(object.capacity());
    if length > MAP_BYTES_MAX {
        let (what, limit) = ("bytes of a space map", MAP_BYTES_MAX);
        return Err(object.problem(Problem::Limit { what, limit }));
    }
    let mut at = 0;
    while at < length {
        let len = READ_BYTES.min(length - at);
        let bytes = object.read(at, len as usize).await?.to_vec();
        for entry in Entries::new(&bytes, object.endian()) {
            take(entry.map_err(|error| object.wrong(error))?);
        }
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What could break: the bookkeeping of stretches, which no pool exercises at all its edges.

    use super::*;
    use stdx::Prng;

    #[test]
    fn stretches_are_the_sets_of_bytes_that_they_stand_for() {
        let mut random = Prng::new(7);
        for _ in 0..200 {
            let (mut stretches, mut bytes) = (Stretches::default(), [false; 64]);
            for _ in 0..40 {
                let at = random.next_u64() % 64;
                let len = 1 + random.next_u64() % (64 - at);
                let part = &mut bytes[at as usize..(at + len) as usize];
                let (all, none) = (part.iter().all(|b| *b), part.iter().all(|b| !*b));
                assert_eq!(stretches.holds(at, len), all);
                if random.chance(0.5) {
                    assert_eq!(stretches.add(at, len), none);
                    part.fill(true);
                } else {
                    assert_eq!(stretches.remove(at, len), all);
                    part.fill(false);
                }
                assert_eq!(stretches.bytes(), bytes.iter().filter(|b| **b).count() as u64);
                let mut again = [false; 64];
                for range in stretches.iter() {
                    again[range.start as usize..range.end as usize].fill(true);
                }
                assert_eq!(again, bytes);
                let merged = stretches.iter().zip(stretches.iter().skip(1));
                assert!(merged.into_iter().all(|(a, b)| a.end < b.start));
            }
        }
    }
}
