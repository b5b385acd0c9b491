//! From a choice of members to a set that is open for writing.
//!
//! Nothing is written here. The engine gets each member's data area, without its bad blocks; what the
//! superblocks and the bitmap say is not right (a resync that did not end, a member that is being filled) it
//! learns as ranges. What is not understood well enough to be written is refused by name.

use super::area::Area;
use super::intent::Intent;
use super::keeper::{Beginning, Keeper, Kept};
use super::{LiveError, LiveOptions, places_until};
use crate::array::Array;
use crate::assemble::{
    AssembleError, Choice, Found, OpenOptions, Shape, Superblock, bad_blocks, level_of, recovered,
    spec,
};
use crate::ranges::RangeSet;
use crate::spec::Level;
use crate::superblock::{ALL_SECTORS, Features, SECTOR};
use rt::{DeviceRef, Request, Rt};
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// A set that was opened.
pub(super) struct Opened {
    pub(super) array: Rc<Array>,
    pub(super) keeper: Rc<Keeper>,
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
    let was_dirty = redundant && facts.resync_offset() != ALL_SECTORS;
    let missing = choice.degraded();
    let too_few = missing > 0 && level.parities() > 0;
    if was_dirty && too_few && !options.force {
        return Err(LiveError::DirtyDegraded { set, missing });
    }
    // With a parity too few nothing better than what is there can be made, and somebody asked for it.
    let dirty = was_dirty && !too_few;
    let (mut kept, mut members) = (Vec::new(), Vec::new());
    for slot in 0..choice.slots.len() {
        let Some(found) = choice.member(slot) else {
            members.push(None);
            continue;
        };
        let area = area_of(found, redundant).await?;
        members.push(Some(Rc::clone(&area) as DeviceRef));
        kept.push(Kept::of(found, area));
    }
    let shape = Shape {
        level,
        layout: facts.layout(),
        chunk: facts.chunk(),
        slots: facts.slots(),
        offset: Superblock::data_offset,
    };
    let mut spec = spec(choice, &shape, members, OpenOptions::default())?;
    spec.clean = !dirty;
    let spec_error = |error| LiveError::Spec { set, error };
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
        kept.push(Kept::of(found, area));
    }
    for spare in &choice.spares {
        let area = area_of(spare, redundant).await?;
        array.add_spare(Rc::clone(&area) as DeviceRef).map_err(spec_error)?;
        kept.push(Kept::of(spare, area));
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
    Ok(Opened { array, keeper, suspect })
}

/// What a member's superblock must not have.
fn refuse(choice: &Choice) -> Result<(), LiveError> {
    let read_only = |what| Err(LiveError::ReadOnly { set: choice.set, what });
    let features = choice.facts.features();
    for (feature, what) in [
        (Features::PPL, "a partial parity log"),
        (Features::MULTIPLE_PPLS, "a partial parity log"),
        (Features::JOURNAL, "a journal"),
        (Features::RESHAPE_ACTIVE, "a reshape under way"),
    ] {
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
