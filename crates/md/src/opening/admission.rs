//! The first step: what kind of set it is, and whether it may be opened like this.
//!
//! Asked of the superblocks alone, before any device is touched: what no engine takes, what is known and not
//! supported, and what somebody has to accept. **Dirty and degraded**: with a member missing, parity that may be
//! wrong is all that tells what the member had; a partial parity log tells better, else it takes force. **Without its
//! journal** a set is read as long as all members are there; to be written it takes force, or the word of who only
//! wants devices to come and go.

use super::geometry::Shape;
use super::mode::{Mode, Purpose};
use super::refusal::Refusal;
use crate::assemble::choice::Choice;
use crate::assemble::error::AssembleError;
use crate::assemble::facts::{Superblock, level_of};
use crate::assemble::found::Found;
use crate::spec::Level;
use crate::superblock::journal::BLOCK_BYTES;
use crate::superblock::v1::EVENTS_WRITTEN_MAX;
use crate::superblock::{ALL_SECTORS, Features, SECTOR};

/// What kind of set it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) level: Level,
    /// It has copies or parity.
    pub(crate) redundant: bool,
    /// Copies or parity are not known to be right everywhere.
    pub(crate) dirty: bool,
    pub(crate) has_ppl: bool,
    pub(crate) has_journal: bool,
    pub(crate) force: bool,
}

/// Admits a set, or refuses it.
///
/// # Errors
/// What keeps it from being opened like this.
pub(crate) fn admit(choice: &Choice, mode: Mode) -> Result<Admitted, Refusal> {
    if mode.is_live() {
        refuse_writing(choice)?;
    }
    let (set, features) = (choice.set, choice.facts.features());
    let level = level_of(choice.facts.level()).map_err(|name| {
        let device = choice.slots.iter().flatten().next().map_or(String::new(), Found::name);
        AssembleError::Level { device, name }
    })?;
    let redundant = !matches!(level, Level::Linear | Level::Raid0);
    if features.has(Features::JOURNAL) {
        check_journal(choice, level)?;
    }
    choice.check_enough()?;
    if features.has_ppl() && level != Level::Raid5 {
        let what = "a partial parity log at another level than 5";
        return Err(AssembleError::Unsupported { set, what }.into());
    }
    Ok(Admitted {
        level,
        redundant,
        dirty: redundant && choice.resync_offset() != ALL_SECTORS,
        has_ppl: features.has_ppl(),
        has_journal: features.has(Features::JOURNAL),
        force: mode.is_forced(choice),
    })
}

/// Admits one shape of it.
///
/// # Errors
/// What keeps it from being opened like this.
pub(crate) fn admit_shape(
    choice: &Choice,
    set: &Admitted,
    shape: &Shape,
    mode: Mode,
) -> Result<(), Refusal> {
    let missing = shape.missing(choice);
    let parities = set.level.parities();
    let is_degraded = parities > 0 && missing > 0;
    let needs_journal = match mode.purpose {
        Purpose::Look { .. } => is_degraded,
        Purpose::Live { without_journal } => !without_journal,
    };
    if choice.lacks_journal() && needs_journal && !set.force {
        return Err(Refusal::NoJournal { missing });
    }
    if set.dirty && is_degraded && !set.has_ppl && !set.force {
        return Err(Refusal::DirtyDegraded { missing });
    }
    if parities > 0 && missing > parities {
        return Err(choice.too_few(set.level, missing).into());
    }
    Ok(())
}

/// What a set with a journal can't be.
fn check_journal(choice: &Choice, level: Level) -> Result<(), AssembleError> {
    let unsupported = |what| Err(AssembleError::Unsupported { set: choice.set, what });
    let chunk = choice.facts.chunk().saturating_mul(SECTOR);
    if level.parities() == 0 {
        return unsupported("a journal at a level without parity");
    }
    if choice.facts.reshape().is_some() {
        return unsupported("a journal in a reshape");
    }
    if !chunk.is_multiple_of(BLOCK_BYTES as u64) {
        return unsupported("a journal with chunks that are not whole pages of 4 KiB");
    }
    Ok(())
}

/// What a set that is written must not have.
fn refuse_writing(choice: &Choice) -> Result<(), Refusal> {
    if choice.facts.features().has(Features::RESHAPE_ACTIVE) {
        return Err(Refusal::ReadOnly("a reshape under way"));
    }
    if choice.facts.events() > EVENTS_WRITTEN_MAX {
        return Err(Refusal::ReadOnly("more events than 2^62, to which no set comes"));
    }
    let replacements = choice.replacements.iter().map(|(_, found)| found);
    let mut all = choice.slots.iter().flatten().chain(&choice.spares).chain(replacements);
    match all.any(|found| matches!(found.superblock, Superblock::V090(_))) {
        true => Err(Refusal::ReadOnly("superblocks 0.90")),
        false => Ok(()),
    }
}
