//! Micro tables in memory: their entries by hash, so that names are found, put in and taken out without going over all of them.
//!
//! One is made of the table's block when the table is first looked at, and kept with the object ([`Dnode::keep`]); a change of the
//! table changes it too. So a directory is decoded once, and not once for each file that is made in it.

use super::normalized::{Match, Wanted, normalized};
use crate::dmu::{Block, Dnode};
use crate::error::ZfsError;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zfs_format::nvlist::Text;
use zfs_format::zap::hash_name;
use zfs_format::zap::micro::{self, ENTRY_BYTES, MicroEntry, MicroZap};
use zfs_format::{Endian, FormatError};

/// Bytes of a new table, and by which one grows.
pub(super) const SECTOR: usize = 512;
/// Names of one hash: so many fit into one leaf of a fat table, whatever their lengths. A table that has more is a fat one, as in OpenZFS,
/// which could not make it one later.
const OF_ONE_HASH_MAX: usize = 127;

/// A table. See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MicroTable {
    pub(super) salt: u64,
    pub(super) normalization: u64,
    /// By hash and what tells names of one hash apart. Of a damaged table two entries may have both: then also by place.
    entries: BTreeMap<(u64, u32, usize), MicroEntry>,
    /// Places of the block that are free.
    free: BTreeSet<usize>,
    /// Places that the block has.
    places: usize,
}

impl MicroTable {
    /// The table that an object holds, of which this is the block as it is now.
    pub(super) fn of(dnode: &Dnode, block: &Block) -> Result<Rc<MicroTable>, ZfsError> {
        if let Some(known) = dnode.kept::<MicroTable>() {
            return Ok(known);
        }
        let table = Rc::new(MicroTable::decode(block).map_err(|error| dnode.wrong(error))?);
        dnode.keep(Rc::clone(&table));
        Ok(table)
    }

    fn decode(block: &Block) -> Result<MicroTable, FormatError> {
        let decoded = MicroZap::decode(block.bytes.bytes(), block.endian)?;
        let MicroZap { salt, normalization, block_bytes, entries } = decoded;
        let places = (block_bytes / ENTRY_BYTES).saturating_sub(1);
        let (entries_by_hash, free) = (BTreeMap::new(), (0..places).collect());
        let mut table = MicroTable { salt, normalization, entries: entries_by_hash, free, places };
        entries.into_iter().for_each(|entry| table.put(entry));
        Ok(table)
    }

    /// The hash of a name, normalised as the table does.
    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        hash_name(&normalized(name, self.normalization), self.salt, 0)
    }

    /// A name that is looked for.
    pub(super) fn wanted<'a>(&self, name: &'a [u8], which: Match) -> Wanted<'a> {
        Wanted::new(name, which, (self.salt, 0, self.normalization))
    }

    /// The entries of a hash, those with the lowest differentiators first.
    fn with_hash(&self, hash: u64) -> impl Iterator<Item = &MicroEntry> {
        let of_hash = (hash, 0, 0)..=(hash, u32::MAX, usize::MAX);
        self.entries.range(of_hash).map(|(_, entry)| entry)
    }

    /// The entry that is meant.
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Option<&MicroEntry> {
        self.with_hash(wanted.hash).find(|entry| wanted.is(entry.name.as_bytes()))
    }

    /// All entries, in no order that means anything.
    pub(super) fn entries(&self) -> impl Iterator<Item = &MicroEntry> {
        self.entries.values()
    }

    /// The entries from a hash and a differentiator on, with their hashes, in the order of both.
    pub(super) fn from(
        &self,
        hash: u64,
        differentiator: u32,
    ) -> impl Iterator<Item = (u64, &MicroEntry)> {
        self.entries.range((hash, differentiator, 0)..).map(|((hash, ..), entry)| (*hash, entry))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Free places, from the first on; behind the block's come those that it gets when it grows.
    pub(super) fn free_places(&self) -> impl Iterator<Item = usize> {
        self.free.iter().copied().chain(self.places..)
    }

    /// Puts an entry in its place, which is free.
    fn put(&mut self, entry: MicroEntry) {
        self.free.remove(&entry.place);
        let hash = self.hash(entry.name.as_bytes());
        self.entries.insert((hash, entry.differentiator, entry.place), entry);
    }

    /// Carries out what was planned: what stood in each of some places, and what stands there now.
    fn change(
        &mut self,
        places: usize,
        edits: impl Iterator<Item = (Option<MicroEntry>, Option<MicroEntry>)>,
    ) {
        self.free.extend(self.places..places);
        self.places = places;
        for (before, after) in edits {
            if let Some(entry) = before {
                let hash = self.hash(entry.name.as_bytes());
                self.entries.remove(&(hash, entry.differentiator, entry.place));
                self.free.insert(entry.place);
            }
            if let Some(entry) = after {
                self.put(entry);
            }
        }
    }
}

/// A planned change of a table: what is to be other than it is.
pub(super) struct MicroPlan {
    table: Rc<MicroTable>,
    /// Places that the block has then.
    places: usize,
    /// What stood in a place, and what is to stand there.
    edits: BTreeMap<usize, (Option<MicroEntry>, Option<MicroEntry>)>,
}

impl MicroPlan {
    pub(super) fn of(table: Rc<MicroTable>) -> MicroPlan {
        let places = table.places;
        MicroPlan { table, places, edits: BTreeMap::new() }
    }

    pub(super) fn table(&self) -> &MicroTable {
        &self.table
    }

    /// Bytes of the block.
    pub(super) fn block_bytes(&self) -> usize {
        (self.places + 1) * ENTRY_BYTES
    }

    /// All entries, in no order that means anything.
    pub(super) fn entries(&self) -> impl Iterator<Item = &MicroEntry> {
        let as_before = self.table.entries().filter(|entry| !self.edits.contains_key(&entry.place));
        as_before.chain(self.edited())
    }

    /// Entries that are to be in a place.
    fn edited(&self) -> impl Iterator<Item = &MicroEntry> {
        self.edits.values().filter_map(|(_, after)| after.as_ref())
    }

    /// The entries of a hash.
    fn with_hash(&self, hash: u64) -> impl Iterator<Item = &MicroEntry> {
        let known = self.table.with_hash(hash);
        let as_before = known.filter(|entry| !self.edits.contains_key(&entry.place));
        let is_of = move |entry: &&MicroEntry| self.table.hash(entry.name.as_bytes()) == hash;
        as_before.chain(self.edited().filter(is_of))
    }

    /// The entry that is meant.
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Option<&MicroEntry> {
        let meant = self.with_hash(wanted.hash).filter(|entry| wanted.is(entry.name.as_bytes()));
        meant.min_by_key(|entry| entry.differentiator)
    }

    /// The first place that is free, or that the plan frees.
    fn free_place(&self) -> usize {
        let untouched = self.table.free_places().find(|place| !self.edits.contains_key(place));
        let freed = self.edits.iter().find(|(_, (_, after))| after.is_none());
        let freed = freed.map_or(usize::MAX, |(place, _)| *place);
        untouched.map_or(freed, |place| place.min(freed))
    }

    /// Of a place that is edited already, what stood there before all of it counts.
    fn edit(&mut self, place: usize, before: Option<MicroEntry>, after: Option<MicroEntry>) {
        self.edits.entry(place).or_insert((before, None)).1 = after;
    }

    /// Puts a name in, or gives it another value; the block may have so many places then. Says whether there is room.
    pub(super) fn set(&mut self, name: &[u8], value: u64, places_max: usize) -> bool {
        let wanted = self.table.wanted(name, Match::Exact);
        if let Some(known) = self.find(&wanted).cloned() {
            let entry = MicroEntry { value, ..known.clone() };
            self.edit(entry.place, Some(known), Some(entry));
            return true;
        }
        let taken: BTreeSet<u32> =
            self.with_hash(wanted.hash).map(|entry| entry.differentiator).collect();
        if taken.len() >= OF_ONE_HASH_MAX {
            return false;
        }
        let place = self.free_place();
        let needed = place + 1;
        if needed > self.places {
            // A block is of whole sectors.
            let places = ((needed + 1) * ENTRY_BYTES).next_multiple_of(SECTOR) / ENTRY_BYTES - 1;
            if places > places_max {
                return false;
            }
            self.places = places;
        }
        let differentiator = (0..).find(|n| !taken.contains(n)).unwrap_or(u32::MAX);
        let name = Text::from_bytes(name);
        self.edit(place, None, Some(MicroEntry { place, name, value, differentiator }));
        true
    }

    /// Takes out an entry that stands there.
    pub(super) fn remove(&mut self, name: &[u8]) {
        let wanted = self.table.wanted(name, Match::Exact);
        if let Some(known) = self.find(&wanted).cloned() {
            self.edit(known.place, Some(known), None);
        }
    }

    /// What changes in the block.
    pub(super) fn into_edits(self) -> MicroEdits {
        MicroEdits { places: self.places, edits: self.edits }
    }
}

/// What a plan changes in a table's block, and in the table in memory.
pub(super) struct MicroEdits {
    places: usize,
    edits: BTreeMap<usize, (Option<MicroEntry>, Option<MicroEntry>)>,
}

impl MicroEdits {
    /// Changes the block, which has all places.
    ///
    /// # Errors
    /// A name can't stand in such a table.
    pub(super) fn put(&self, block: &mut [u8], endian: Endian) -> Result<(), FormatError> {
        self.edits.iter().try_for_each(|(place, (_, after))| match after {
            Some(entry) => entry.put(block, endian),
            None => micro::clear(block, *place),
        })
    }

    /// Changes the table that is kept with the object, whose block was changed so; `known` is what was kept before.
    pub(super) fn keep(self, dnode: &Dnode, known: Option<Rc<MicroTable>>) {
        // Who still looks at it as it was has it to himself; the next who looks decodes the block.
        let Some(mut table) = known.and_then(|known| Rc::try_unwrap(known).ok()) else { return };
        table.change(self.places, self.edits.into_values());
        dnode.keep(Rc::new(table));
    }
}
