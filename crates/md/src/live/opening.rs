//! From a choice of members to a set that is open for writing.
//!
//! The steps of [`opening`](crate::opening), and then what only a set that lives has: its bitmap, members and replacements
//! that are being filled, spares, the logs that are written from now on, and the keeper of its metadata.
//!
//! Nothing is written here, but what partial parity logs tell of a dirty set, and what a journal holds. When that is
//! durable, and the journal held anything, its log begins anew at once; otherwise with the first write. A device that
//! was being filled as a replacement is filled from the start: what the journal brought went past it.
//!
//! **A set that lacks its journal** is refused. Opened all the same nothing can be written to it, but its devices
//! come and go. Forced, it goes on without a journal, and its parity is made anew everywhere: what was being
//! written when it stopped is as it happens to be. The same is done with a journal that is damaged.
//!
//! **Members that were taken back** (`assemble::stale`) have the superblocks of all written before anything else is
//! done with the set: with one more event, and a table in which they stand in their slots. Until then it is refused as
//! before, or forced as before.

use super::error::LiveError;
use super::keeper::{Beginning, Keeper};
use super::kept::{JournalState, Kept, KeptJournal};
use super::options::LiveOptions;
use super::write_intent::Intent;
use crate::array::{Array, Engine};
use crate::assemble::{AssembleError, Choice, Found};
use crate::journal::log::{Journal, Start};
use crate::journal::lost::LostJournal;
use crate::journal::replay::Replayed;
use crate::journal::ring::ring;
use crate::opening::admission::{Admitted, admit, admit_shape};
use crate::opening::engine::{self, over};
use crate::opening::geometry::Shape;
use crate::opening::members::{window, windows};
use crate::opening::mode::Mode;
use crate::opening::refusal::Refusal;
use crate::ppl::log::PartialParityLog;
use crate::ppl::space::{Space, space};
use crate::stragglers::stragglers;
use crate::superblock::journal::seed;
use crate::superblock::ppl::signature;
use crate::superblock::{ALL_SECTORS, Features, SECTOR};
use crate::window::Window;
use crate::write_log::WriteLog;
use rt::{DeviceRef, Rt};
use std::rc::Rc;
use std::sync::Arc;
use stdx::RangeSet;

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

/// The set's devices, as they are found to be there.
#[derive(Default)]
struct Devices {
    kept: Vec<Rc<Kept>>,
    /// Spaces of partial parity logs, by their devices' windows.
    spaces: Vec<(Arc<str>, Space)>,
}

impl Devices {
    fn add(&mut self, set: &Admitted, found: &Found, area: &Rc<Window>) -> Result<(), Refusal> {
        if set.has_ppl {
            self.spaces.push((rt::Device::name(&**area), space(found)?));
        }
        let kept = Kept::of(found, Rc::clone(area));
        // What the freshest says of the set is going to stand beside what this device says of itself.
        let mut superblock = kept.superblock.borrow().clone();
        superblock.features = superblock.features.with(Features::JOURNAL, set.has_journal);
        let sealed = superblock.sealed();
        sealed.map_err(|error| AssembleError::format(&found.name(), error))?;
        self.kept.push(kept);
        Ok(())
    }
}

/// Opens a set: the engine, and the keeper of its metadata.
pub(super) async fn open(
    rt: &Rt,
    name: &str,
    choice: &Choice,
    options: LiveOptions,
) -> Result<Opened, LiveError> {
    let set = choice.set;
    let refused = |refusal| LiveError::refused(set, refusal);
    let mode = Mode::live(options.force, options.without_journal);
    let admitted = admit(choice, mode).map_err(refused)?;
    let shape = Shape::at_rest(choice, admitted.level);
    admit_shape(choice, &admitted, &shape, mode).map_err(refused)?;
    let windows = windows(choice, &shape, admitted.redundant, mode).await?;
    let mut devices = Devices::default();
    for (slot, area) in windows.iter().enumerate() {
        if let (Some(area), Some(found)) = (area, choice.member(slot)) {
            devices.add(&admitted, found, area).map_err(refused)?;
        }
    }
    let opened = over(rt, name, choice, (&admitted, &shape), &windows, mode);
    let opened = opened.await.map_err(refused)?;
    let array = Rc::clone(&opened.array);
    // A parity less than there could be is left to check with.
    let one_parity_more =
        opened.was_dirty && opened.missing > 0 && opened.missing < admitted.level.parities();
    let intent = Intent::of(choice, opened.dirty || one_parity_more).await?;
    let suspect = mark_dirty(&opened, intent.as_ref(), one_parity_more);
    mark_recovered(choice, &shape, &array, intent.as_ref());
    add_others(choice, &admitted, &opened, &mut devices).await.map_err(refused)?;
    let keeper = Keeper::new(
        rt,
        &array,
        Beginning {
            kept: devices.kept,
            intent,
            behind: stragglers(choice)?,
            events: choice.facts.events(),
            resynced: if opened.was_dirty { opened.resync_offset } else { ALL_SECTORS },
            unix_s: options.unix_s,
        },
    );
    if admitted.redundant {
        array.record_with(Rc::clone(&keeper) as _);
        *array.set.unreadable.borrow_mut() = Some(keeper.log_keeper());
    }
    let mut log = None;
    if let Engine::Stripes(stripes) = &array.engine
        && admitted.has_ppl
    {
        let (map, signature) = (&stripes.map, signature(set));
        let writer = PartialParityLog::new(&array.set, map, signature, devices.spaces);
        stripes.log_with(Rc::clone(&writer) as _);
        log = Some(writer);
    }
    let unwritten = |kind| LiveError::Superblocks { set, kind };
    if admitted.has_journal {
        let state = journal(choice, &admitted, &opened)?;
        keeper.keep_journal(state.clone());
        if let JournalState::Here(journal) = state
            && opened.brought.journal.is_some_and(|replayed| !replayed.was_empty)
        {
            journal.log.begin_log().await.map_err(unwritten)?;
        }
    }
    if choice.is_forced() {
        // Before anything else is written: from here on they are members again.
        keeper.write().await.map_err(unwritten)?;
    }
    if opened.brought.all_right {
        keeper.note_resynced(ALL_SECTORS).await.map_err(unwritten)?;
    }
    Ok(Opened { array, keeper, log, suspect })
}

/// Tells the engine what is right of a set that was not stopped cleanly; gives what it is not told.
fn mark_dirty(opened: &engine::Opened, intent: Option<&Intent>, one_parity_more: bool) -> RangeSet {
    let array = &opened.array;
    let right_until = array.right_until(opened.resync_offset);
    let mut suspect = RangeSet::default();
    if one_parity_more {
        match intent {
            None => drop(suspect.insert(right_until..array.component_extent().bytes())),
            Some(intent) => suspect = intent.to_resync(array),
        }
    }
    if opened.dirty {
        match intent {
            None => array.set.set_clean(0..right_until),
            Some(intent) => {
                intent.right_before(opened.resync_offset);
                let extent = array.component_extent().bytes();
                let right = intent.to_resync(array).complement(extent);
                right.iter().for_each(|range| array.set.set_clean(range));
            }
        }
    }
    suspect
}

/// Tells the engine what half filled members have.
fn mark_recovered(choice: &Choice, shape: &Shape, array: &Array, intent: Option<&Intent>) {
    for (slot, bytes) in shape.recovered(choice) {
        let by_bitmap = choice
            .member(slot)
            .is_some_and(|found| found.superblock.features().has(Features::RECOVERY_BITMAP));
        let extent = array.component_extent().bytes();
        match intent.filter(|_| by_bitmap) {
            None => array.set.members.set_recovered(slot, bytes),
            Some(intent) => {
                let mut there = intent.missed_by(slot, array).complement(extent);
                there.insert(0..bytes.min(extent));
                array.set.members.set_there(slot, there);
            }
        }
    }
}

/// Replacements and spares.
async fn add_others(
    choice: &Choice,
    set: &Admitted,
    opened: &engine::Opened,
    devices: &mut Devices,
) -> Result<(), Refusal> {
    let array = &opened.array;
    let passed_by = opened.brought.journal.is_some_and(|replayed| !replayed.was_empty);
    let mut replaced_anew = false;
    for (slot, found) in &choice.replacements {
        // Where nobody else holds the slot it stands in it already.
        let has_member = choice.slots.get(*slot).is_some_and(Option::is_some);
        if !has_member || array.set.members.has_replacement(*slot) {
            continue;
        }
        let area = window(found, set.redundant).await?;
        array.replace(*slot, Rc::clone(&area) as DeviceRef).map_err(Refusal::Spec)?;
        let sectors = found.superblock.recovery_offset().filter(|_| !passed_by).unwrap_or(0);
        array.set.members.set_copied(*slot, sectors.saturating_mul(SECTOR));
        devices.add(set, found, &area)?;
        replaced_anew |= passed_by;
    }
    for spare in &choice.spares {
        let area = window(spare, set.redundant).await?;
        array.add_spare(Rc::clone(&area) as DeviceRef).map_err(Refusal::Spec)?;
        devices.add(set, spare, &area)?;
    }
    if replaced_anew {
        let replacement =
            |kept: &&Rc<Kept>| kept.superblock.borrow().features.has(Features::REPLACEMENT);
        devices.kept.iter().filter(replacement).for_each(|kept| kept.filled.set(Some(0)));
    }
    Ok(())
}

/// What the set has of a journal from now on, and what its engine logs to.
fn journal(
    choice: &Choice,
    set: &Admitted,
    opened: &engine::Opened,
) -> Result<JournalState, LiveError> {
    let Engine::Stripes(stripes) = &opened.array.engine else { return Ok(JournalState::None) };
    match (&choice.journal, opened.brought.journal) {
        (Some(found), Some(Replayed { end: head, sequence, tail, .. })) => {
            let (ring, start) = (ring(found)?, Start { head, sequence, tail });
            let shared = &opened.array.set;
            let log = Journal::new(shared, &stripes.map, seed(choice.set), ring, start);
            stripes.log_with(Rc::clone(&log) as _);
            Ok(JournalState::Here(KeptJournal::of(found, log)))
        }
        _ if set.force => Ok(JournalState::None),
        _ => {
            stripes.log_with(Rc::new(LostJournal) as Rc<dyn WriteLog>);
            Ok(JournalState::Lost)
        }
    }
}
