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
//! such a block may be. Places on a removed vdev are claimed where they lie now; what blocks name there is put down, for whoever asks
//! what of its mapping nobody needs ([`obsolete`](super::obsolete)). Of a gang the headers are
//! claimed and each piece: a header takes what the gang's place counts more than the pieces' together.
//!
//! While a vdev is being removed no pointer leads yet to what was copied off it. What of it is still allocated claims its
//! copy too.
//!
//! What is allocated is loaded by [`zfs_store::alloc`], so memory is that of the maps when they are loaded for writing.
//!
//! Source: OpenZFS, `zdb.c` (leak checking).

use super::walk::Visited;
use crate::error::ZfsError;
use crate::spa::Spa;
use async_recursion::async_recursion as boxed;
use std::collections::{BTreeMap, BTreeSet};
use stdx::RangeSet;
use zfs_format::block_pointer::{BlockPointer, Kind};
use zfs_format::space_map::Change;
use zfs_format::vdev::Vdev;
use zfs_format::vdev::indirect::MappingEntry;
use zfs_store::alloc::{Metaslabs, SECTOR_SHIFT, Stretch, each_stretch};
use zfs_store::vdev::moved::Piece;

/// The mapping of a vdev that is being removed, among what its configuration says.
const MAPPING: &str = "com.delphix:indirect_object";
/// Gangs in gangs.
const GANG_DEPTH_MAX: usize = 12;
/// Faults that are told in full; the rest is counted.
const FAULTS_MAX: usize = 1000;

/// A top-level vdev's space.
struct Top {
    allocated: Metaslabs,
    left: Metaslabs,
    /// Of deduplicated blocks what was claimed more than once.
    again: RangeSet,
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
    /// A metaslab's map is whole up to a log of space maps that is not there: OpenZFS doesn't open such a pool.
    NoLog,
}

/// Space that is allocated, and who claimed it. See the [module](self).
pub struct Claims {
    tops: BTreeMap<u32, Top>,
    /// Bytes that only a checkpoint holds.
    pub checkpoint: u64,
    /// Bytes of deduplicated blocks that were claimed before.
    pub deduplicated: u64,
    /// Deduplicated blocks that were claimed more than once, each counted once: those that the table has with several
    /// references.
    pub deduplicated_blocks: u64,
    /// Bytes of cloned blocks that were claimed before.
    pub cloned: u64,
    /// Cloned blocks that were claimed before.
    pub cloned_blocks: u64,
    /// Of removed vdevs what blocks name.
    pub named: BTreeMap<u32, RangeSet>,
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
        self.tops.values().map(|top| top.allocated.allocated()).sum::<u64>() + self.checkpoint
    }

    /// What nobody claimed, by vdev.
    pub fn left(&self) -> impl Iterator<Item = (u32, &Metaslabs)> {
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
        let fits = top.allocated.change(change, offset, len);
        if !fits {
            let kind = FaultKind::Map;
            self.fault(Fault { claimed_by: None, vdev, offset, len, kind });
        }
    }

    /// Looks for the log that each metaslab waits for among the groups that have one.
    fn miss_logs(&mut self, logs: &BTreeSet<u64>) {
        let mut faults = Vec::new();
        for (vdev, top) in &self.tops {
            for (number, slab) in top.allocated.slabs().iter().enumerate() {
                if slab.flushed_txg != 0 && !logs.contains(&slab.flushed_txg) {
                    let (offset, len) = (top.allocated.start(number), top.allocated.bytes(number));
                    let (vdev, kind) = (*vdev, FaultKind::NoLog);
                    faults.push(Fault { claimed_by: None, vdev, offset, len, kind });
                }
            }
        }
        faults.into_iter().for_each(|fault| self.fault(fault));
    }

    /// Claims a block's places.
    ///
    /// # Errors
    /// A gang's header can't be had, or a place is on no vdev.
    #[boxed(?Send)]
    pub async fn claim(&mut self, spa: &Spa, visited: &Visited) -> Result<(), ZfsError> {
        let pointer = visited.pointer;
        let mut open = vec![(pointer, 0)];
        let (mut before, mut is_new) = (0, false);
        while let Some((pointer, depth)) = open.pop() {
            let birth = pointer.physical_birth();
            let wrong = |kind| zfs_store::BlockError { at: visited.at, birth, kind };
            let pieces = match pointer.kind() {
                Kind::Gang if depth < GANG_DEPTH_MAX => {
                    spa.zio().gang_pieces(&pointer).await.map_err(wrong)?
                }
                _ => Vec::new(),
            };
            for (copy, dva) in pointer.dvas().enumerate() {
                let within =
                    |piece: &BlockPointer| piece.dvas().nth(copy).map_or(0, |dva| dva.allocated());
                let below = pieces.iter().map(within).fold(0, u64::saturating_add);
                let len = dva.allocated().saturating_sub(below);
                let named = Piece { vdev: dva.vdev(), offset: dva.offset(), len };
                let moved = spa.tree().moved(named).map_err(wrong)?;
                for part in moved.there {
                    let again = self.claim_at(visited, part.vdev, part.offset, part.len);
                    before += again.bytes;
                    is_new |= again.is_new;
                }
                for part in moved.removed {
                    let named = self.named.entry(part.vdev).or_default();
                    named.insert(part.offset..part.offset + part.len);
                }
            }
            open.extend(pieces.into_iter().map(|piece| (piece, depth + 1)));
        }
        if before > 0 && pointer.is_dedup() {
            self.deduplicated += before;
            self.deduplicated_blocks += u64::from(is_new);
        } else if before > 0 {
            self.cloned += before;
            self.cloned_blocks += 1;
        }
        Ok(())
    }

    /// Claims a stretch, and says how much of it was claimed before, where that may be.
    fn claim_at(&mut self, visited: &Visited, vdev: u32, offset: u64, len: u64) -> Again {
        let pointer = &visited.pointer;
        let Some(top) = self.tops.get_mut(&vdev) else { return Again::default() };
        if top.left.holds(offset, len) {
            top.left.change(Change::Free, offset, len);
            return Again::default();
        }
        let allocated = top.allocated.holds(offset, len);
        if allocated && pointer.level() == 0 && (pointer.is_dedup() || self.clones) {
            let is_new = pointer.is_dedup() && top.again.insert(offset..offset + len) == len;
            return Again { bytes: len, is_new };
        }
        let kind = if allocated { FaultKind::Twice } else { FaultKind::NotAllocated };
        self.fault(Fault { claimed_by: Some(visited.at), vdev, offset, len, kind });
        Again::default()
    }

    /// Claims the copies of what moved off a vdev that is still there, by its mapping.
    fn claim_copies(&mut self, from: u32, moved: &[MappingEntry]) {
        let Some(top) = self.tops.get(&from) else { return };
        let mut copies = Vec::new();
        for entry in moved {
            let (source, target) = (entry.source(), &entry.target);
            for range in top.allocated.within(source, target.allocated()) {
                let offset = target.offset().saturating_add(range.start - source);
                copies.push((target.vdev(), offset, range.end - range.start));
            }
        }
        for (vdev, offset, len) in copies {
            let top = self.tops.get_mut(&vdev);
            let fits = top.is_some_and(|top| top.left.change(Change::Free, offset, len));
            if !fits {
                let kind = FaultKind::NotAllocated;
                self.fault(Fault { claimed_by: None, vdev, offset, len, kind });
            }
        }
    }
}

/// What was claimed before.
#[derive(Clone, Copy, Default)]
struct Again {
    bytes: u64,
    /// Whether it was claimed once before, and not more often.
    is_new: bool,
}

impl Spa {
    /// Loads what is allocated.
    ///
    /// # Errors
    /// A map, a log or a table can't be had.
    #[boxed(?Send)]
    pub async fn claims(&self) -> Result<Claims, ZfsError> {
        let mut claims = Claims {
            tops: BTreeMap::new(),
            checkpoint: 0,
            deduplicated: 0,
            deduplicated_blocks: 0,
            cloned: 0,
            cloned_blocks: 0,
            named: BTreeMap::new(),
            faults: Vec::new(),
            fault_count: 0,
            clones: self.has_feature("com.fudosecurity:block_cloning"),
        };
        for vdev in &self.vdevs().children {
            self.load_vdev(vdev, &mut claims).await?;
        }
        let logs = self.space_map_logs().await?;
        claims.miss_logs(&logs.iter().map(|(txg, _)| *txg).collect());
        for (txg, log) in logs {
            each_stretch(self.mos(), log, SECTOR_SHIFT, |Stretch { change, vdev, offset, len }| {
                let top = claims.tops.get(&vdev);
                if top.and_then(|top| top.allocated.logged(txg, offset)).is_some() {
                    claims.change(vdev, change, offset, len);
                }
            })
            .await?;
        }
        for vdev in &self.vdevs().children {
            self.exclude_checkpoint(vdev, &mut claims).await?;
        }
        for top in claims.tops.values_mut() {
            top.left = top.allocated.clone();
        }
        for vdev in &self.vdevs().children {
            let mapping = vdev.other_number(MAPPING).filter(|mapping| *mapping != 0);
            if let (Some(mapping), Ok(id)) = (mapping, u32::try_from(vdev.id)) {
                let moved = crate::spa::mapping(self.mos(), mapping).await?;
                claims.claim_copies(id, &moved);
            }
        }
        Ok(claims)
    }

    async fn load_vdev(&self, vdev: &Vdev, claims: &mut Claims) -> Result<(), ZfsError> {
        let Ok(id) = u32::try_from(vdev.id) else { return Ok(()) };
        if !vdev.is_there() {
            return Ok(());
        }
        let Some(allocated) = self.metaslabs(vdev).await? else { return Ok(()) };
        let unit = allocated.unit();
        let maps = allocated.slabs().iter().enumerate();
        let maps: Vec<_> = maps.map(|(n, slab)| (allocated.start(n), slab.map)).collect();
        claims
            .tops
            .insert(id, Top { left: allocated.clone(), allocated, again: RangeSet::default() });
        for (start, map) in maps.into_iter().filter(|(_, map)| *map != 0) {
            each_stretch(self.mos(), map, unit, |Stretch { change, offset, len, .. }| {
                claims.change(id, change, start.saturating_add(offset), len);
            })
            .await?;
        }
        Ok(())
    }

    /// Takes off what was freed since a checkpoint, which the maps still have as allocated.
    async fn exclude_checkpoint(&self, vdev: &Vdev, claims: &mut Claims) -> Result<(), ZfsError> {
        let Ok(id) = u32::try_from(vdev.id) else { return Ok(()) };
        let Some(map) = self.checkpoint_map(vdev).await? else { return Ok(()) };
        let Some(unit) = claims.tops.get(&id).map(|top| top.allocated.unit()) else {
            return Ok(());
        };
        each_stretch(self.mos(), map, unit, |Stretch { offset, len, .. }| {
            claims.change(id, Change::Free, offset, len);
            claims.checkpoint = claims.checkpoint.saturating_add(len);
        })
        .await
    }
}
