//! Space maps written: what a transaction group took and gave back, put behind what the maps say.
//!
//! A metaslab's map is made when it is first used; the array of its vdev names it. What is appended are entries of one word, or of
//! two where a stretch is long and the pool may have such; a long one never lies across two blocks. A note says before them
//! which group and pass they are of.
//!
//! **The log of a group** (`map_logs`) is a map of all vdevs: each entry is of two words and names its vdev, and its unit
//! is 512 bytes whatever theirs is. One note stands before all that was taken, and one before all that was given back.
//!
//! A map that grew to twice of what it takes to say what is allocated, and is longer than some blocks, is written anew, in the first
//! pass: what later passes change comes behind it.
//!
//! Source: OpenZFS, `space_map.c` (`space_map_write_impl`), `metaslab.c` (`metaslab_sync`, `metaslab_should_condense`).

use crate::dmu::{Dnode, NewObject, Objset};
use crate::dsl::features;
use crate::error::ZfsError;
use rt::Buf;
use std::ops::Range;
use stdx::RangeSet;
use stdx::planted::{self, Bug};
use zfs_format::Endian;
use zfs_format::object_type::ObjectType;
use zfs_format::space_map::{
    self, Change, Entries, Entry, FILLER, HISTOGRAM_BUCKETS, LONG_BYTES, SHORT_BYTES,
    SpaceMapHeader,
};
use zfs_store::alloc::{Changes, SECTOR_SHIFT};

/// Bytes of a map's blocks, as OpenZFS has them: of one that is written in each group, and of one that is written where a log
/// has been waiting for it, at some length. The log's blocks are like these.
pub const BLOCK_BYTES: u64 = 4096;
/// See [`BLOCK_BYTES`].
pub const BLOCK_BYTES_LOGGED: u64 = 128 << 10;
/// The longest run of an entry of one word, in units, and the first offset that it can't have.
const SHORT_RUN_MAX: u64 = 1 << 15;
const SHORT_OFFSET_END: u64 = 1 << 47;
/// The longest run of an entry of two words, in units.
const LONG_RUN_MAX: u64 = 1 << 36;

/// Blocks of a map up to which it is left as it is: OpenZFS's `zfs_metaslab_condense_block_threshold`.
const CONDENSED_BLOCKS_MIN: u64 = 4;
/// How many times as long as it has to be a map is that is written anew: OpenZFS's `zfs_condense_pct`.
const CONDENSED_TIMES: u64 = 2;

/// The feature that counts space maps with a histogram.
pub(super) const HISTOGRAM: &str = "spacemap_histogram";

/// What a pool lets its space maps have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapForm {
    /// Entries of two words (`spacemap_v2`).
    pub long_entries: bool,
    /// Bytes of the blocks of new ones.
    pub block_bytes: u64,
}

/// Which metaslab's map.
#[derive(Clone, Copy, Debug)]
pub struct MapPlace {
    /// Where the metaslab begins, in bytes.
    pub start: u64,
    /// The map's unit, as a power of two.
    pub unit: u32,
}

/// Makes a map; with a histogram of what is free, and counted for it, where the pool has such. Maps that have nothing to put there have it
/// too: whoever counts maps with one (`zdb` does) takes them for such.
///
/// # Errors
/// What is needed can't be had.
pub async fn make(mos: &Objset, form: MapForm) -> Result<Dnode, ZfsError> {
    let has_histogram = features::uses(mos, HISTOGRAM).await?.is_some();
    let map = make_uncounted(mos, form, has_histogram).await?;
    if has_histogram {
        features::count_use(mos, HISTOGRAM, 1).await?;
    }
    Ok(map)
}

/// The same, for whoever counts it.
///
/// # Errors
/// What is needed can't be had.
pub async fn make_uncounted(
    mos: &Objset,
    form: MapForm,
    has_histogram: bool,
) -> Result<Dnode, ZfsError> {
    let len = if has_histogram { LONG_BYTES } else { SHORT_BYTES };
    let new = NewObject::of(ObjectType::SPACE_MAP, form.block_bytes);
    let map = mos.make(&new.with_bonus(ObjectType::SPACE_MAP_HEADER, vec![0; len])).await?;
    let header = SpaceMapHeader {
        object: map.number(),
        length: 0,
        allocated: 0,
        histogram: has_histogram.then_some([0; HISTOGRAM_BUCKETS]),
    };
    set_header(mos, &map, &header).await?;
    Ok(map)
}

/// Puts changes behind what a map says. `free` gives the metaslab's free stretches, where the map has a
/// histogram.
///
/// # Errors
/// What is needed can't be had.
pub async fn append(
    mos: &Objset,
    map: &Dnode,
    form: MapForm,
    place: MapPlace,
    group: (u64, u16),
    changes: &Changes,
    free: impl FnOnce() -> Vec<Range<u64>>,
) -> Result<(), ZfsError> {
    let mut header = header_of(map)?;
    let mut entries = Words::behind(form, place, map, &header);
    for (change, set) in [(Change::Allocate, &changes.allocated), (Change::Free, &changes.freed)] {
        if !set.is_empty() {
            entries.note(change, group);
            entries.stretches(change, set);
        }
    }
    if let Some(histogram) = &mut header.histogram {
        *histogram = histogram_of(&free(), place.unit);
    }
    put(mos, map, header, &entries.words, more(changes)).await.map(|_| ())
}

/// Puts changes of several vdevs behind what the log of a group says; gives how many blocks it takes.
///
/// # Errors
/// What is needed can't be had.
pub async fn append_to_log(
    mos: &Objset,
    log: &Dnode,
    group: (u64, u16),
    all: &[(u32, Changes)],
) -> Result<u64, ZfsError> {
    let form = MapForm { long_entries: true, block_bytes: log.block_bytes() };
    let place = MapPlace { start: 0, unit: SECTOR_SHIFT };
    let header = header_of(log)?;
    let mut entries = Words::behind(form, place, log, &header);
    fn set_of(changes: &Changes, change: Change) -> &RangeSet {
        match change {
            Change::Allocate => &changes.allocated,
            Change::Free => &changes.freed,
        }
    }
    for change in [Change::Allocate, Change::Free] {
        if all.iter().any(|(_, changes)| !set_of(changes, change).is_empty()) {
            entries.note(change, group);
        }
        for (vdev, changes) in all {
            entries.vdev = Some(*vdev);
            entries.stretches(change, set_of(changes, change));
        }
    }
    let sum = all.iter().map(|(_, changes)| more(changes)).sum();
    let length = put(mos, log, header, &entries.words, sum).await?;
    Ok(length.div_ceil(log.block_bytes().max(1)))
}

/// How many bytes more are allocated.
fn more(changes: &Changes) -> i64 {
    changes.allocated.total() as i64 - changes.freed.total() as i64
}

/// Puts entries behind what a map says, by which so many bytes more are allocated; gives its length.
async fn put(
    mos: &Objset,
    map: &Dnode,
    mut header: SpaceMapHeader,
    entries: &[Entry],
    more: i64,
) -> Result<u64, ZfsError> {
    let bytes = space_map::encode(entries, map.endian()).map_err(|error| map.wrong(error))?;
    let at = header.length;
    let bytes = Buf::copy_of(&bytes);
    mos.change(|tx| {
        map.plan_write(at..at + bytes.len() as u64)?;
        map.write(tx, at, &bytes);
        Ok(())
    })
    .await?;
    header.length += bytes.len() as u64;
    header.allocated = header.allocated.wrapping_add(more);
    set_header(mos, map, &header).await?;
    Ok(header.length)
}

/// Has a map say that this is allocated, and nothing else: of numbers that are no places, and whose map has no unit.
///
/// # Errors
/// What is needed can't be had.
pub async fn rewrite(
    mos: &Objset,
    map: &Dnode,
    form: MapForm,
    group: (u64, u16),
    allocated: &RangeSet,
) -> Result<(), ZfsError> {
    replace(mos, map, form, MapPlace { start: 0, unit: 0 }, group, allocated, Vec::new).await
}

/// Whether a map is so long that it may be worth writing it anew.
///
/// # Errors
/// It is none.
pub fn is_long(map: &Dnode) -> Result<bool, ZfsError> {
    let length = header_of(map)?.length;
    Ok(length > CONDENSED_BLOCKS_MIN * map.block_bytes())
}

/// Has a map say that this is allocated, and nothing else, where it is much longer than that takes; says whether it was.
///
/// # Errors
/// What is needed can't be had.
pub async fn condense(
    mos: &Objset,
    map: &Dnode,
    form: MapForm,
    place: MapPlace,
    group: (u64, u16),
    allocated: &RangeSet,
    free: impl FnOnce() -> Vec<Range<u64>>,
) -> Result<bool, ZfsError> {
    assert!(group.1 == 1, "what the group changed so far is among what is allocated");
    let length = header_of(map)?.length;
    let empty = SpaceMapHeader { length: 0, ..header_of(map)? };
    let mut entries = Words::behind(form, place, map, &empty);
    entries.stretches(Change::Allocate, allocated);
    if length < entries.at.saturating_mul(CONDENSED_TIMES) {
        return Ok(false);
    }
    let mut allocated = allocated.clone();
    let first = if planted::is(Bug::CondensedShort) { allocated.iter().next() } else { None };
    if let Some(first) = first {
        allocated.remove(first);
    }
    replace(mos, map, form, place, group, &allocated, free).await.map(|()| true)
}

/// Empties a map, and has it say what is allocated.
async fn replace(
    mos: &Objset,
    map: &Dnode,
    form: MapForm,
    place: MapPlace,
    group: (u64, u16),
    allocated: &RangeSet,
    free: impl FnOnce() -> Vec<Range<u64>>,
) -> Result<(), ZfsError> {
    let mut header = header_of(map)?;
    let length = header.length;
    // Whole blocks, which nobody has to read.
    let all = 0..length.next_multiple_of(map.block_bytes().max(1));
    if length > 0 {
        mos.change(|tx| {
            map.plan_zero(all.clone())?;
            map.zero(tx, all.clone());
            Ok(())
        })
        .await?;
    }
    (header.length, header.allocated) = (0, 0);
    set_header(mos, map, &header).await?;
    let changes = Changes { allocated: allocated.clone(), freed: RangeSet::default() };
    append(mos, map, form, place, group, &changes, free).await
}

/// Takes whole blocks off the end of a map, of so many bytes at the most, or its last one; gives the stretches that were in them,
/// which are no more than if the map had not had them. Nothing is left of it once its length is 0.
///
/// # Errors
/// What is needed can't be had.
pub async fn take_end(
    mos: &Objset,
    map: &Dnode,
    unit: u32,
    bytes_max: u64,
) -> Result<(Vec<(Change, Range<u64>)>, u64), ZfsError> {
    let mut header = header_of(map)?;
    let (block, end) = (map.block_bytes().max(1), header.length.min(map.capacity()));
    let last = end.saturating_sub(1) / block * block;
    let start = end.saturating_sub(bytes_max).next_multiple_of(block).min(last);
    let bytes = map.read(start, (end - start) as usize).await?.to_vec();
    let mut taken = Vec::new();
    for entry in Entries::new(&bytes, map.endian()) {
        let (change, offset, run) = match entry.map_err(|error| map.wrong(error))? {
            Entry::Short { change, offset, run } => (change, offset, run),
            Entry::Long { change, offset, run, .. } => (change, offset, run),
            Entry::Note { .. } => continue,
        };
        let scaled = |units: u64| units.saturating_mul(1_u64.checked_shl(unit).unwrap_or(u64::MAX));
        let (offset, len) = (scaled(offset), scaled(run));
        header.allocated = match change {
            Change::Allocate => header.allocated.wrapping_sub_unsigned(len),
            Change::Free => header.allocated.wrapping_add_unsigned(len),
        };
        taken.push((change, offset..offset.saturating_add(len)));
    }
    mos.change(|tx| {
        map.plan_zero(start..end)?;
        map.zero(tx, start..end);
        Ok(())
    })
    .await?;
    header.length = start;
    set_header(mos, map, &header).await?;
    Ok((taken, start))
}

/// How many stretches are of 2^(n + unit) bytes and more, and less than twice that.
fn histogram_of(free: &[Range<u64>], unit: u32) -> [u64; HISTOGRAM_BUCKETS] {
    let mut histogram = [0; HISTOGRAM_BUCKETS];
    for range in free {
        let units = (range.end - range.start) >> unit;
        let bucket = units.checked_ilog2().unwrap_or(0) as usize;
        histogram[bucket.min(HISTOGRAM_BUCKETS - 1)] += 1;
    }
    histogram
}

fn header_of(map: &Dnode) -> Result<SpaceMapHeader, ZfsError> {
    let header = SpaceMapHeader::decode(&map.phys().bonus, map.endian());
    header.map_err(|error| map.wrong(error))
}

async fn set_header(mos: &Objset, map: &Dnode, header: &SpaceMapHeader) -> Result<(), ZfsError> {
    let bonus = header.encode(map.endian());
    mos.change(|tx| {
        map.plan_bonus(bonus.len())?;
        map.set_bonus(tx, bonus.clone());
        Ok(())
    })
    .await
}

/// Entries in the making.
struct Words {
    form: MapForm,
    place: MapPlace,
    /// Whose metaslabs they are of, which each then names.
    vdev: Option<u32>,
    /// Where the next goes, in bytes of the object.
    at: u64,
    block: u64,
    words: Vec<Entry>,
}

impl Words {
    /// Of entries that go behind what a map says.
    fn behind(form: MapForm, place: MapPlace, map: &Dnode, header: &SpaceMapHeader) -> Words {
        let (at, block) = (header.length, map.block_bytes());
        Words { form, place, vdev: None, at, block, words: Vec::new() }
    }

    fn push(&mut self, entry: Entry) {
        let bytes = if matches!(entry, Entry::Long { .. }) { 16 } else { 8 };
        if self.at % self.block + bytes > self.block {
            self.words.push(FILLER);
            self.at += 8;
        }
        self.words.push(entry);
        self.at += bytes;
    }

    fn note(&mut self, change: Change, (txg, pass): (u64, u16)) {
        let action = if change == Change::Allocate { 0 } else { 1 };
        self.push(Entry::Note { action, pass, txg });
    }

    fn stretches(&mut self, change: Change, set: &RangeSet) {
        let unit = self.place.unit;
        for range in set.iter() {
            let offset =
                range.start.checked_sub(self.place.start).expect("it lies in the metaslab");
            assert!(
                offset.is_multiple_of(1 << unit)
                    && (range.end - range.start).is_multiple_of(1 << unit),
                "space is allocated in whole sectors"
            );
            let (mut offset, mut left) = (offset >> unit, (range.end - range.start) >> unit);
            while left > 0 {
                let is_short = left <= SHORT_RUN_MAX || !self.form.long_entries;
                let run = if self.vdev.is_none() && is_short && offset < SHORT_OFFSET_END {
                    let run = left.min(SHORT_RUN_MAX);
                    self.push(Entry::Short { change, offset, run });
                    run
                } else {
                    let run = left.min(LONG_RUN_MAX);
                    let vdev = self.vdev.unwrap_or(NO_VDEV);
                    self.push(Entry::Long { change, vdev, offset, run });
                    run
                };
                offset += run;
                left -= run;
            }
        }
    }
}

/// Entries of a metaslab's own map name no vdev.
const NO_VDEV: u32 = (1 << 24) - 1;

/// The array of numbers that an object is, changed at one place.
///
/// # Errors
/// What is needed can't be had.
pub async fn set_number(
    mos: &Objset,
    array: &Dnode,
    index: usize,
    number: u64,
) -> Result<(), ZfsError> {
    let at = index as u64 * 8;
    let endian: Endian = array.endian();
    let bytes = Buf::copy_of(&endian.bytes(number));
    mos.change(|tx| {
        array.plan_write(at..at + 8)?;
        array.write(tx, at, &bytes);
        Ok(())
    })
    .await
}
