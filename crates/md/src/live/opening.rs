//! From a choice of members to a set that is open for writing.
//!
//! Nothing is written here, but what partial parity logs tell of a dirty set. The engine gets each member's data area, without its bad blocks; what the
//! superblocks and the bitmap say is not right (a resync that did not end, a member that is being filled) it
//! learns as ranges.
//!
//! **Partial parity logs.** What was dirty has its parity put right on the members before the engine is made, with
//! a member missing too; when that is durable the logs are emptied. The set is clean afterwards, as md has it,
//! where all logs were whole and had something to say, no member is missing, and no resync was under way.
//! What is not understood well enough to be written is refused by name.

use super::area::Area;
use super::intent::Intent;
use super::keeper::{Beginning, Keeper};
use super::kept::Kept;
use super::{LiveError, LiveOptions, places_until};
use crate::array::{Array, Engine};
use crate::assemble::{
    AssembleError, Choice, Found, OpenOptions, Shape, Superblock, bad_blocks, level_of, log_parts,
    ppl, recovered, spec,
};
use crate::layout::parity::ParityMap;
use crate::ranges::RangeSet;
use crate::spec::{Level, Map};
use crate::superblock::ppl::signature;
use crate::superblock::{ALL_SECTORS, Features, SECTOR};
use crate::write_log::ppl::PartialParityLog;
use rt::{Device, DeviceRef, Request, Rt};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// A set that was opened.
pub(super) struct Opened {
    pub(super) array: Rc<Array>,
    pub(super) keeper: Rc<Keeper>,
    pub(super) log: Option<Rc<PartialParityLog>>,
    /// Places where the engine takes parity as it is, and where it is to be made anew all the same: those of
    /// a RAID 6 that was started dirty without one member. What that member had comes from P, and Q is made
    /// to agree. (A parity set that lacks as many as it can has nothing to compare with.)
    pub(super) suspect: RangeSet,
}

/// Opens a set: the engine, and the keeper of its metadata.
pub(super) async fn open(
    rt: &Rt,
    name: &str,
    choice: &Choice,
    options: LiveOptions,
) -> Result<Opened, LiveError> {
    let (set, facts) = (choice.set, &choice.facts);
    refuse(choice)?;
    let level = level_of(facts.level()).map_err(|name| {
        let device = choice.slots.iter().flatten().next().map_or(String::new(), Found::name);
        AssembleError::Level { device, name }
    })?;
    let redundant = !matches!(level, Level::Linear | Level::Raid0);
    let mut was_dirty = redundant && facts.resync_offset() != ALL_SECTORS;
    let missing = choice.degraded();
    let too_few = missing > 0 && level.parities() > 0;
    let has_log = has_log(choice, level)?;
    if was_dirty && too_few && !has_log && !options.force {
        return Err(LiveError::DirtyDegraded { set, missing });
    }
    let (mut kept, mut members, mut spaces) = (Vec::new(), Vec::new(), Vec::new());
    let mut keep = |found: &Found, area: &Rc<Area>| {
        if has_log {
            spaces.push((area.name(), ppl::space(found)?));
        }
        kept.push(Kept::of(found, Rc::clone(area)));
        Ok::<(), AssembleError>(())
    };
    for slot in 0..choice.slots.len() {
        let Some(found) = choice.member(slot) else {
            members.push(None);
            continue;
        };
        let area = area_of(found, redundant).await?;
        keep(found, &area)?;
        members.push(Some(area as DeviceRef));
    }
    let shape = Shape {
        level,
        layout: facts.layout(),
        chunk: facts.chunk(),
        slots: facts.slots(),
        offset: Superblock::data_offset,
    };
    let mut spec = spec(choice, &shape, members, OpenOptions::default())?;
    let spec_error = |error| LiveError::Spec { set, error };
    let mut made_clean = false;
    if was_dirty
        && has_log
        && let Map::Parity(map) = spec.plan().map_err(spec_error)?.map
    {
        let recovered = recover(choice, &spec.members, &map).await?;
        let whole = recovered.entries > 0 && recovered.mismatches == 0;
        made_clean = whole && missing == 0 && facts.resync_offset() == 0;
    }
    was_dirty &= !made_clean;
    // With a parity too few nothing better than what is there can be made: a log told, or somebody asked for it.
    let dirty = was_dirty && !too_few;
    spec.clean = !dirty;
    let array = Array::create(rt, name, spec).map_err(spec_error)?;
    let one_parity_more = was_dirty && too_few && missing < level.parities();
    let intent = Intent::of(choice, dirty || one_parity_more).await?;
    let mut suspect = RangeSet::default();
    if one_parity_more {
        let extent = array.component_extent().bytes();
        match &intent {
            None => suspect.insert(places_until(&array, facts.resync_offset())..extent),
            Some(intent) => suspect = intent.to_resync(&array),
        }
    }
    if dirty {
        let extent = array.component_extent().bytes();
        match &intent {
            None => array.set.set_clean(0..places_until(&array, facts.resync_offset())),
            Some(intent) => {
                intent.right_before(facts.resync_offset());
                let right = intent.to_resync(&array).complement(extent);
                right.iter().for_each(|range| array.set.set_clean(range.clone()));
            }
        }
    }
    for (slot, bytes) in recovered(choice, choice.slots.len()) {
        let by_bitmap = choice
            .member(slot)
            .is_some_and(|found| found.superblock.features().has(Features::RECOVERY_BITMAP));
        let extent = array.component_extent().bytes();
        match intent.as_ref().filter(|_| by_bitmap) {
            None => array.set.members.set_recovered(slot, bytes),
            Some(intent) => {
                let mut there = intent.missed_by(slot, &array).complement(extent);
                there.insert(0..bytes.min(extent));
                array.set.members.set_there(slot, there);
            }
        }
    }
    for (slot, found) in &choice.replacements {
        // Where nobody else holds the slot it stands in it already.
        let has_member = choice.slots.get(*slot).is_some_and(Option::is_some);
        if !has_member || array.set.members.has_replacement(*slot) {
            continue;
        }
        let area = area_of(found, redundant).await?;
        array.replace(*slot, Rc::clone(&area) as DeviceRef).map_err(spec_error)?;
        let sectors = found.superblock.recovery_offset().unwrap_or(0);
        array.set.members.set_copied(*slot, sectors.saturating_mul(SECTOR));
        keep(found, &area)?;
    }
    for spare in &choice.spares {
        let area = area_of(spare, redundant).await?;
        array.add_spare(Rc::clone(&area) as DeviceRef).map_err(spec_error)?;
        keep(spare, &area)?;
    }
    let beginning = Beginning {
        kept,
        intent,
        events: facts.events(),
        resynced: if was_dirty { facts.resync_offset() } else { ALL_SECTORS },
        unix_s: options.unix_s,
    };
    let keeper = Keeper::new(rt, &array, beginning);
    if redundant {
        array.record_with(Rc::clone(&keeper) as _);
        *array.set.unreadable.borrow_mut() = Some(keeper.log_keeper());
    }
    let mut log = None;
    if let Engine::Stripes(stripes) = &array.engine
        && has_log
    {
        let writer = PartialParityLog::new(&array.set, &stripes.map, signature(set), spaces);
        stripes.log_with(Rc::clone(&writer) as _);
        log = Some(writer);
    }
    if made_clean {
        let noted = keeper.note_resynced(ALL_SECTORS).await;
        noted.map_err(|kind| LiveError::Superblocks { set, kind })?;
    }
    Ok(Opened { array, keeper, log, suspect })
}

/// What a member's superblock must not have.
fn refuse(choice: &Choice) -> Result<(), LiveError> {
    let read_only = |what| Err(LiveError::ReadOnly { set: choice.set, what });
    let features = choice.facts.features();
    for (feature, what) in
        [(Features::JOURNAL, "a journal"), (Features::RESHAPE_ACTIVE, "a reshape under way")]
    {
        if features.has(feature) {
            return read_only(what);
        }
    }
    let replacements = choice.replacements.iter().map(|(_, found)| found);
    for found in choice.slots.iter().flatten().chain(&choice.spares).chain(replacements) {
        if matches!(found.superblock, Superblock::V090(_)) {
            return read_only("superblocks 0.90");
        }
    }
    Ok(())
}

/// Whether the set has partial parity logs, which only RAID 5 can have.
fn has_log(choice: &Choice, level: Level) -> Result<bool, AssembleError> {
    let has_log = choice.facts.features().has_ppl();
    if has_log && level != Level::Raid5 {
        let what = "a partial parity log at another level than 5";
        return Err(AssembleError::Unsupported { set: choice.set, what });
    }
    Ok(has_log)
}

/// Puts the parity right by the partial parity logs, durably, and empties the logs.
async fn recover(
    choice: &Choice,
    members: &[Option<DeviceRef>],
    map: &ParityMap,
) -> Result<ppl::Recovered, AssembleError> {
    let recovered = ppl::recover(&log_parts(choice, members), map).await?;
    for member in members.iter().flatten() {
        member.submit(Request::flush()).await?;
    }
    for found in (0..members.len()).filter_map(|slot| choice.member(slot)) {
        ppl::space(found)?.empty(signature(choice.set)).await?;
    }
    Ok(recovered)
}

/// The data area of a member, as a device.
pub(super) async fn area_of(found: &Found, redundant: bool) -> Result<Rc<Area>, AssembleError> {
    let Superblock::V1(superblock) = &found.superblock else {
        unreachable!("superblocks 0.90 were refused")
    };
    let device = &found.device;
    let (start, len) = (superblock.data_offset * SECTOR, superblock.data_size * SECTOR);
    let (start, len) = (Offset(start), ByteCount(len).round_down(device.geometry().logical_block));
    if Request::read(start, len).check(&**device).is_err() || redundant && len.is_zero() {
        let capacity = device.geometry().capacity;
        return Err(AssembleError::BeyondEnd {
            device: found.name(),
            what: "the data area",
            capacity,
        });
    }
    Ok(Area::new(device.clone(), start, len, &bad_blocks(found).await?))
}
