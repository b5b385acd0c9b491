//! What a set's logs hold is brought onto its members, before anything is read through them.
//!
//! **Partial parity logs.** What was dirty has its parity put right, with a member missing too. Where the set is to
//! live the logs are emptied when that is durable. Where all logs were whole and had something to say, no member is
//! missing, and no resync was under way, parity is right everywhere then, as md has it. The logs of a set that was clean
//! and has members that were taken back tell nothing, and are emptied alone.
//!
//! **A journal** is brought onto the members; where the set is to live, durably.

use super::admission::Admitted;
use super::geometry::Shape;
use super::mode::Mode;
use crate::assemble::choice::Choice;
use crate::assemble::error::AssembleError;
use crate::journal::log::Journal;
use crate::journal::replay::{Doubt, Replayed, replay};
use crate::journal::ring::ring;
use crate::layout::parity::ParityMap;
use crate::ppl::recovery::{Part, Recovered, recover};
use crate::ppl::space::space;
use crate::superblock::SECTOR;
use crate::superblock::ppl::signature;
use rt::{DeviceRef, Request};
use stdx::ByteCount;

/// What the logs gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brought {
    /// What the journal held, where there is one.
    pub(crate) journal: Option<Replayed>,
    /// Parity is right everywhere: the partial parity logs told all that was being written.
    pub(crate) all_right: bool,
}

/// Brings in what the logs hold.
///
/// # Errors
/// What is wrong with a log, and the mend; a member that can't be read or written.
pub(crate) async fn bring_in(
    choice: &Choice,
    set: &Admitted,
    shape: &Shape,
    (members, map): (&[Option<DeviceRef>], &ParityMap),
    mode: Mode,
) -> Result<Brought, AssembleError> {
    let mut brought = Brought::default();
    if set.has_journal {
        brought.journal = from_journal(choice, set, members, map, mode).await?;
    }
    if set.has_ppl && set.dirty {
        let recovered = from_ppl(choice, members, map, mode).await?;
        let whole = recovered.entries > 0 && recovered.mismatches == 0;
        let is_sure = shape.missing(choice) == 0 && !choice.is_forced();
        brought.all_right = whole && is_sure && choice.facts.resync_offset() == 0;
    }
    Ok(brought)
}

/// The members as recovery from logs wants them.
fn parts<'a>(choice: &'a Choice, members: &[Option<DeviceRef>]) -> Vec<Option<Part<'a>>> {
    let part = |(slot, member): (usize, &Option<DeviceRef>)| {
        let (found, data) = (choice.member(slot)?, member.clone()?);
        let sectors = found.superblock.recovery_offset();
        let recovered = sectors.map_or(u64::MAX, |sectors| sectors.saturating_mul(SECTOR));
        let has_log = choice.was_there_to_the_end(slot, found);
        Some(Part { found, data, recovered, has_log })
    };
    members.iter().enumerate().map(part).collect()
}

async fn from_ppl(
    choice: &Choice,
    members: &[Option<DeviceRef>],
    map: &ParityMap,
    mode: Mode,
) -> Result<Recovered, AssembleError> {
    let recovered = match choice.says_clean() {
        true => Recovered::default(),
        false => recover(&parts(choice, members), map).await?,
    };
    if mode.is_live() {
        flush(members).await?;
        for found in (0..members.len()).filter_map(|slot| choice.member(slot)) {
            space(found)?.empty(signature(choice.set)).await?;
        }
    }
    Ok(recovered)
}

async fn from_journal(
    choice: &Choice,
    set: &Admitted,
    members: &[Option<DeviceRef>],
    map: &ParityMap,
    mode: Mode,
) -> Result<Option<Replayed>, AssembleError> {
    let Some(found) = &choice.journal else { return Ok(None) };
    if mode.is_live() {
        let (capacity, least) = (ByteCount(ring(found)?.sectors * SECTOR), Journal::bytes_min(map));
        if capacity < least {
            return Err(AssembleError::JournalSmall { device: found.name(), capacity, least });
        }
    }
    let doubt = if set.force { Doubt::TakeAsNew } else { Doubt::Refuse };
    let replayed = replay(found, &parts(choice, members), map, doubt).await?;
    if mode.is_live() && !replayed.was_empty {
        flush(members).await?;
    }
    Ok(Some(replayed))
}

async fn flush(members: &[Option<DeviceRef>]) -> Result<(), AssembleError> {
    for member in members.iter().flatten() {
        member.submit(Request::flush()).await?;
    }
    Ok(())
}
