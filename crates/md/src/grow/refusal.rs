//! What no kind of growing takes: asked before anything else is done.

use super::error::GrowError;
use crate::assemble::{AssembleError, Choice, Superblock, bad_blocks, level_of};
use crate::level::Level;
use crate::superblock::v1::EVENTS_WRITTEN_MAX;
use crate::superblock::{ALL_SECTORS, Features};

/// Refuses what no kind of growing takes, and tells the level.
pub(super) async fn refuse(choice: &Choice) -> Result<Level, GrowError> {
    let set = choice.set;
    let unsupported = |what| Err(GrowError::Unsupported { set, what });
    let features = choice.facts.features();
    for (feature, what) in [
        (Features::PPL, "a partial parity log"),
        (Features::MULTIPLE_PPLS, "a partial parity log"),
        (Features::JOURNAL, "a journal"),
    ] {
        if features.has(feature) {
            return unsupported(what);
        }
    }
    if choice.facts.events() > EVENTS_WRITTEN_MAX {
        return unsupported("more events than 2^62, to which no set comes");
    }
    if choice.journal.is_some() {
        return unsupported("a journal");
    }
    if !choice.replacements.is_empty() {
        return unsupported("a member that is being replaced");
    }
    for found in choice.slots.iter().flatten().chain(&choice.spares) {
        if matches!(found.superblock, Superblock::V090(_)) {
            return unsupported("superblocks 0.90");
        }
        if !bad_blocks(found).await?.is_empty() {
            return unsupported("bad blocks in its log");
        }
    }
    level_of(choice.facts.level()).map_err(|name| {
        let device = choice.slots.iter().flatten().next().map_or(String::new(), |one| one.name());
        AssembleError::Level { device, name }.into()
    })
}

/// Refuses a set that is not whole, clean and at rest.
pub(super) fn refuse_unsettled(choice: &Choice) -> Result<(), GrowError> {
    let set = choice.set;
    if choice.facts.reshape().is_some() {
        return Err(GrowError::Reshaping { set });
    }
    let missing = choice.degraded();
    if missing > 0 {
        return Err(GrowError::Degraded { set, missing });
    }
    if choice.facts.resync_offset() != ALL_SECTORS {
        return Err(GrowError::Dirty { set });
    }
    Ok(())
}
