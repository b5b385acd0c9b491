//! From a choice of members to a set that is open for writing.
//!
//! Nothing is written here, but what partial parity logs tell of a dirty set, and what a journal holds. The engine
//! gets each member's data area, without its bad blocks; what the superblocks and the bitmap say is not right
//! (a resync that did not end, a member that is being filled) it learns as ranges.
//!
//! **Partial parity logs.** What was dirty has its parity put right on the members before the engine is made, with
//! a member missing too; when that is durable the logs are emptied. The set is clean afterwards, as md has it,
//! where all logs were whole and had something to say, no member is missing, and no resync was under way.
//!
//! **A journal** is brought onto the members before the engine is made. When that is durable, and the journal held
//! anything, its log begins anew at once; otherwise with the first write. A device that was being filled as
//! a replacement is filled from the start: what the journal brought went past it.
//!
//! **A set that lacks its journal** is refused. Opened all the same nothing can be written to it, but its devices
//! come and go. Forced, it goes on without a journal, and its parity is made anew everywhere: what was being
//! written when it stopped is as it happens to be. The same is done with a journal that is damaged.
//!
//! **Members that were taken back** (`assemble::stale`) have the superblocks of all written before anything else is
//! done with the set: with one more event, and a table in which they stand in their slots. Until then it is refused as
//! before, or forced as before.
//! What is not understood well enough to be written is refused by name.

use super::area::Area;
use super::intent::Intent;
use super::keeper::{Beginning, Keeper};
use super::kept::{JournalState, Kept, KeptJournal};
use super::{LiveError, LiveOptions, places_until};
use crate::array::{Array, Engine};
use crate::assemble::journal::{self, Doubt, Replayed, ring};
use crate::assemble::{
    AssembleError, Choice, Found, HalfFilled, OpenOptions, Shape, Superblock, bad_blocks,
    check_journal, level_of, log_parts, ppl, recovered, spec,
};
use crate::layout::parity::ParityMap;
use crate::level::stragglers;
use crate::ranges::RangeSet;
use crate::spec::{Level, Map};
use crate::superblock::journal::seed;
use crate::superblock::ppl::signature;
use crate::superblock::v1::EVENTS_WRITTEN_MAX;
use crate::superblock::{ALL_SECTORS, Features, SECTOR};
use crate::write_log::WriteLog;
use crate::write_log::journal::{Journal, Start};
use crate::write_log::lost::LostJournal;
use crate::write_log::ppl::PartialParityLog;
use rt::{Device, DeviceRef, Geometry, Request, Rt};
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
    choice.check_enough()?;
    let force = options.force || choice.is_forced();
    let mut was_dirty = redundant && choice.resync_offset() != ALL_SECTORS;
    let missing = choice.degraded();
    let too_few = missing > 0 && level.parities() > 0;
    let has_log = has_log(choice, level)?;
    let has_journal = facts.features().has(Features::JOURNAL);
    if has_journal {
        check_journal(choice, level)?;
    }
    if choice.lacks_journal() && !force && !options.without_journal {
        return Err(LiveError::NoJournal { set });
    }
    if was_dirty && too_few && !has_log && !force {
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
        half_filled: HalfFilled::Part,
        level,
        layout: facts.layout(),
        chunk: facts.chunk(),
        slots: facts.slots(),
        offset: Superblock::data_offset,
    };
    let mut spec = spec(choice, &shape, members, OpenOptions::default())?;
    let spec_error = |error| LiveError::Spec { set, error };
    let replayed = match (&choice.journal, spec.plan().map_err(spec_error)?.map) {
        (Some(found), Map::Parity(map)) if has_journal => {
            Some(replay(choice, found, &spec.members, &map, force).await?)
        }
        _ => None,
    };
    // Nothing tells any more where parity may be wrong.
    let in_doubt = choice.lacks_journal() && force
        || replayed.as_ref().is_some_and(|(_, replayed)| replayed.was_new);
    let resync_offset = if in_doubt { 0 } else { choice.resync_offset() };
    was_dirty |= in_doubt;
    let mut made_clean = false;
    if was_dirty
        && has_log
        && let Map::Parity(map) = spec.plan().map_err(spec_error)?.map
    {
        let recovered = recover(choice, &spec.members, &map).await?;
        let whole = recovered.entries > 0 && recovered.mismatches == 0;
        let is_sure = missing == 0 && !choice.is_forced();
        made_clean = whole && is_sure && facts.resync_offset() == 0;
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
            None => suspect.insert(places_until(&array, resync_offset)..extent),
            Some(intent) => suspect = intent.to_resync(&array),
        }
    }
    if dirty {
        let extent = array.component_extent().bytes();
        match &intent {
            None => array.set.set_clean(0..places_until(&array, resync_offset)),
            Some(intent) => {
                intent.right_before(resync_offset);
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
    let mut replaced_anew = false;
    for (slot, found) in &choice.replacements {
        // Where nobody else holds the slot it stands in it already.
        let has_member = choice.slots.get(*slot).is_some_and(Option::is_some);
        if !has_member || array.set.members.has_replacement(*slot) {
            continue;
        }
        let area = area_of(found, redundant).await?;
        array.replace(*slot, Rc::clone(&area) as DeviceRef).map_err(spec_error)?;
        let passed_by = replayed.as_ref().is_some_and(|(_, replayed)| !replayed.was_empty);
        let sectors = found.superblock.recovery_offset().filter(|_| !passed_by).unwrap_or(0);
        array.set.members.set_copied(*slot, sectors.saturating_mul(SECTOR));
        keep(found, &area)?;
        replaced_anew |= passed_by;
    }
    for spare in &choice.spares {
        let area = area_of(spare, redundant).await?;
        array.add_spare(Rc::clone(&area) as DeviceRef).map_err(spec_error)?;
        keep(spare, &area)?;
    }
    if replaced_anew {
        let replacement =
            |kept: &&Rc<Kept>| kept.superblock.borrow().features.has(Features::REPLACEMENT);
        kept.iter().filter(replacement).for_each(|kept| kept.filled.set(Some(0)));
    }
    let beginning = Beginning {
        kept,
        intent,
        behind: stragglers(choice),
        events: facts.events(),
        resynced: if was_dirty { resync_offset } else { ALL_SECTORS },
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
    if has_journal && let Engine::Stripes(stripes) = &array.engine {
        let state = match replayed {
            Some((found, replayed)) => {
                let ring = ring(found)?;
                let Replayed { end: head, sequence, tail, .. } = replayed;
                let start = Start { head, sequence, tail };
                let log = Journal::new(&array.set, &stripes.map, seed(set), ring, start);
                stripes.log_with(Rc::clone(&log) as _);
                JournalState::Here(KeptJournal::of(found, log))
            }
            None if force => JournalState::None,
            None => {
                stripes.log_with(Rc::new(LostJournal) as Rc<dyn WriteLog>);
                JournalState::Lost
            }
        };
        keeper.keep_journal(state.clone());
        if let JournalState::Here(journal) = state
            && replayed.is_some_and(|(_, replayed)| !replayed.was_empty)
        {
            let begun = journal.log.begin_log().await;
            begun.map_err(|kind| LiveError::Superblocks { set, kind })?;
        }
    }
    if choice.is_forced() {
        // Before anything else is written: from here on they are members again.
        keeper.write().await.map_err(|kind| LiveError::Superblocks { set, kind })?;
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
    if features.has(Features::RESHAPE_ACTIVE) {
        return read_only("a reshape under way");
    }
    if choice.facts.events() > EVENTS_WRITTEN_MAX {
        return read_only("more events than 2^62, to which no set comes");
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

/// Puts the parity right by the partial parity logs, durably, and empties the logs. Those of a set that was clean and
/// has members that were taken back tell nothing, and are emptied alone.
async fn recover(
    choice: &Choice,
    members: &[Option<DeviceRef>],
    map: &ParityMap,
) -> Result<ppl::Recovered, AssembleError> {
    let recovered = match choice.says_clean() {
        true => ppl::Recovered::default(),
        false => ppl::recover(&log_parts(choice, members), map).await?,
    };
    for member in members.iter().flatten() {
        member.submit(Request::flush()).await?;
    }
    for found in (0..members.len()).filter_map(|slot| choice.member(slot)) {
        ppl::space(found)?.empty(signature(choice.set)).await?;
    }
    Ok(recovered)
}

/// Brings what the journal holds onto the members, durably.
async fn replay<'a>(
    choice: &Choice,
    found: &'a Found,
    members: &[Option<DeviceRef>],
    map: &ParityMap,
    force: bool,
) -> Result<(&'a Found, Replayed), AssembleError> {
    let (capacity, least) = (ByteCount(ring(found)?.sectors * SECTOR), Journal::bytes_min(map));
    if capacity < least {
        return Err(AssembleError::JournalSmall { device: found.name(), capacity, least });
    }
    let doubt = if force { Doubt::TakeAsNew } else { Doubt::Refuse };
    let replayed = journal::replay(found, &log_parts(choice, members), map, doubt).await?;
    for member in members.iter().flatten().filter(|_| !replayed.was_empty) {
        member.submit(Request::flush()).await?;
    }
    Ok((found, replayed))
}

/// The data area of a member, as a device. Where the device is cut short behind what the set uses, the area ends where
/// the device does.
pub(super) async fn area_of(found: &Found, redundant: bool) -> Result<Rc<Area>, AssembleError> {
    let Superblock::V1(superblock) = &found.superblock else {
        unreachable!("superblocks 0.90 were refused")
    };
    let device = &found.device;
    let Geometry { capacity, logical_block, .. } = device.geometry();
    let used = if redundant { superblock.size } else { superblock.data_size };
    let sectors = superblock.sectors_there(capacity);
    let (start, len) = (Offset(superblock.data_offset * SECTOR), ByteCount(sectors * SECTOR));
    let len = len.round_down(logical_block);
    let is_there = sectors >= used && Request::read(start, len).check(&**device).is_ok();
    if !is_there || redundant && len.is_zero() {
        let (device, what) = (found.name(), "the data area");
        return Err(AssembleError::BeyondEnd { device, what, capacity });
    }
    Ok(Area::new(device.clone(), start, len, &bad_blocks(found).await?))
}
