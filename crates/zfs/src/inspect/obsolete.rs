//! What of the mappings of removed vdevs is counted as obsolete, held against what blocks name there.
//!
//! Each entry of a mapping has so many bytes that nobody names. They are counted in four places: for each entry since the mapping was
//! last condensed, in the vdev's map of what became so since, in that which is being worked into a new mapping, and on the
//! pool's list of what will. A vdev that was removed where the feature `obsolete_counts` was not enabled has no counts that are
//! right, and says so; it is not looked at.
//!
//! Source: OpenZFS, `zdb.c` (`zdb_load_obsolete_counts`, `zdb_check_for_obsolete_leaks`).

use super::claims::Claims;
use super::walk::lists::BpList;
use crate::error::ZfsError;
use crate::spa::{Spa, mapping};
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use std::ops::Range;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::vdev::indirect::{Condensing, Mapping, MappingEntry};
use zfs_format::vdev::{Indirect, Vdev, VdevKind};
use zfs_format::wire::{Reader, Record};
use zfs_store::alloc::each_stretch;

/// An entry of a mapping of which another number of bytes is counted as obsolete than nobody names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miscounted {
    /// The removed vdev.
    pub vdev: u32,
    /// The entry's bytes on it.
    pub entry: Range<u64>,
    /// Bytes that are counted.
    pub counted: u64,
    /// Bytes that nobody names.
    pub unnamed: u64,
}

/// The entries of a mapping, and bytes that are counted of each.
struct Counted {
    entries: Vec<MappingEntry>,
    bytes: Vec<u64>,
}

fn bytes_of(entry: &MappingEntry) -> Range<u64> {
    entry.source()..entry.source().saturating_add(entry.target.allocated())
}

impl Counted {
    /// A range is obsolete, or more of it.
    fn add(&mut self, range: &Range<u64>) {
        let first = self.entries.partition_point(|entry| bytes_of(entry).end <= range.start);
        for (entry, bytes) in self.entries.iter().zip(&mut self.bytes).skip(first) {
            let own = bytes_of(entry);
            if own.start >= range.end {
                break;
            }
            *bytes += own.end.min(range.end) - own.start.max(range.start);
        }
    }
}

impl Spa {
    /// Entries of mappings that are counted otherwise than the blocks that were claimed name them: all of the pool's.
    ///
    /// # Errors
    /// A mapping, a map or a table can't be had.
    #[boxed(?Send)]
    pub async fn miscounted(&self, claims: &Claims) -> Result<Vec<Miscounted>, ZfsError> {
        let mut all = BTreeMap::new();
        for top in &self.vdevs().children {
            if let (VdevKind::Indirect(indirect), Ok(vdev)) = (&top.kind, u32::try_from(top.id))
                && let Some(counted) = self.counted(top, indirect).await?
            {
                all.insert(vdev, counted);
            }
        }
        self.add_listed(&mut all).await?;
        let mut found = Vec::new();
        for (vdev, counted) in all {
            let named = claims.named.get(&vdev);
            for (entry, counted) in counted.entries.iter().zip(counted.bytes) {
                let entry = bytes_of(entry);
                let named = named.into_iter().flat_map(|named| named.within(entry.clone()));
                let named: u64 = named.map(|range| range.end - range.start).sum();
                let unnamed = entry.end - entry.start - named;
                if counted != unnamed {
                    found.push(Miscounted { vdev, entry, counted, unnamed });
                }
            }
        }
        Ok(found)
    }

    /// What a vdev has counted; nothing where it doesn't count.
    async fn counted(&self, top: &Vdev, indirect: &Indirect) -> Result<Option<Counted>, ZfsError> {
        let Some(own) = self.top_zap(top).await? else { return Ok(None) };
        if own.number(top_vdev::OBSOLETE_COUNTS_PRECISE).await?.unwrap_or(0) == 0 {
            return Ok(None);
        }
        let entries = mapping(self.mos(), indirect.mapping).await?;
        let bytes = self.counts(indirect.mapping, entries.len()).await?;
        let mut counted = Counted { entries, bytes };
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let condensing = directory.get(pool_directory::CONDENSING.as_bytes()).await?;
        let condensing = condensing.map(|value| Condensing::from_numbers(&value.numbers));
        let condensing = condensing.transpose().map_err(|error| directory.dnode().wrong(error))?;
        let before = condensing.filter(|one| one.vdev == top.id).map(|one| one.obsolete);
        for map in [own.number(top_vdev::INDIRECT_OBSOLETE).await?, before].into_iter().flatten() {
            each_stretch(self.mos(), map, 0, |stretch| {
                counted.add(&(stretch.offset..stretch.offset.saturating_add(stretch.len)));
            })
            .await?;
        }
        Ok(Some(counted))
    }

    /// The counts of a mapping of so many entries; zeros where it has none.
    async fn counts(&self, mapping: u64, many: usize) -> Result<Vec<u64>, ZfsError> {
        let object = self.mos().dnode(mapping).await?;
        let header = Mapping::from_bonus(&object.phys().bonus, object.endian());
        let counts = header.map_err(|error| object.wrong(error))?.counts;
        if counts == 0 {
            return Ok(vec![0; many]);
        }
        let object = self.mos().dnode(counts).await?;
        let bytes = object.read(0, many * size_of::<u32>()).await?.to_vec();
        let mut from = Reader::new("counts of a mapping", &bytes, object.endian());
        let counts = (0..many).map(|_| from.u32("count").map(u64::from));
        counts.collect::<Result<_, _>>().map_err(|error| object.wrong(error))
    }

    /// What is on the pool's list.
    async fn add_listed(&self, all: &mut BTreeMap<u32, Counted>) -> Result<(), ZfsError> {
        let directory = Zap::open(self.mos().dnode(pool_directory::OBJECT).await?).await?;
        let list = directory.number(pool_directory::OBSOLETE_BPOBJ).await?;
        let Some(mut list) = list.map(BpList::new) else { return Ok(()) };
        while let Some(pointers) = list.next(self.mos()).await {
            for place in pointers?.iter().flat_map(|pointer| pointer.dvas()) {
                if let Some(counted) = all.get_mut(&place.vdev()) {
                    counted.add(&(place.offset()..place.offset() + place.allocated()));
                }
            }
        }
        Ok(())
    }
}
