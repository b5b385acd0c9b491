//! Members whose superblock is behind though they missed nothing, and the superblocks that make all equal again.
//!
//! A pass over the superblocks writes one event more to all members. Cut in its midst it leaves some a single event
//! behind: they count as up to date, since nothing is answered before all have it. A second pass that is cut would
//! leave them *two* behind, and nothing tells them then from members that went away. So:
//!
//! > before the first superblock of a pass is written, all members that take part have, durably, the events of the one
//! > before.
//!
//! Then, however many cuts follow one another, whoever missed nothing is one behind at the most. Within one life it holds
//! because a pass waits for all its writes, and who could not be written is out of the set. The first pass of a life has
//! to do it: it *levels* before anything else. A superblock that is levelled says of the set what the freshest one says,
//! with as many events, and of its own device what it said before. The greatest count stays as it is, so a cut between
//! two of them leaves what was there before: some that are level, some that are one behind.
//!
//! **Who missed something is never levelled**, since he takes no part: the pass that recorded his loss was durable on
//! all others before anything that he missed was answered, so the freshest of them gives his slot to nobody or to
//! somebody else. A table that gives a member its slot proves that it was there when that pass began
//! ([`Choice::missed_nothing`]). Spares are not levelled: they are spares with any events, and a table that is ahead of
//! one would make a member of it that holds nothing.
//!
//! The journal is written last in each pass, and is levelled like a member.

use crate::assemble::{AssembleError, Choice, Found, Superblock, agree};
use crate::superblock::Features;
use crate::superblock::v1::SuperblockV1;
use rt::{Buf, DeviceRef, IoError, Request};
use stdx::Offset;

/// A device that is behind.
pub(crate) struct Straggler {
    device: DeviceRef,
    /// Its number in the set.
    pub(crate) number: usize,
    at: Offset,
    /// Its superblock, with the events of the freshest.
    bytes: Vec<u8>,
}

impl Straggler {
    fn of(found: &Found, facts: &SuperblockV1) -> Result<Option<Straggler>, AssembleError> {
        let mut levelled = found.clone();
        agree(&mut levelled, facts);
        let Superblock::V1(mut superblock) = levelled.superblock else { return Ok(None) };
        for of_set in [Features::JOURNAL, Features::PPL, Features::MULTIPLE_PPLS] {
            superblock.features = superblock.features.with(of_set, facts.features.has(of_set));
        }
        superblock.events = facts.events;
        superblock.updated = facts.updated;
        superblock.roles.clone_from(&facts.roles);
        let number = superblock.device_number as usize;
        let sealed = superblock.sealed();
        let bytes = sealed.map_err(|error| AssembleError::format(&found.name(), error))?;
        Ok(Some(Straggler { device: found.device.clone(), number, at: found.at, bytes }))
    }

    /// Writes the superblock that makes it level, durably.
    pub(crate) async fn level(&self) -> Result<(), IoError> {
        let bytes = Buf::copy_of(&self.bytes);
        self.device.submit(Request::write_fua(self.at, bytes)).await.map(|_| ())
    }
}

/// Who takes part and is to be levelled before the next pass.
///
/// # Errors
/// Where what the freshest says of the set does not fit what a device says of itself.
pub(crate) fn stragglers(choice: &Choice) -> Result<Vec<Straggler>, AssembleError> {
    let Superblock::V1(facts) = &choice.facts else { return Ok(Vec::new()) };
    let replacements = choice.replacements.iter().map(|(_, found)| found);
    let all = choice.slots.iter().flatten().chain(replacements).chain(&choice.journal);
    let behind = all
        .filter(|found| found.superblock.events() < facts.events && choice.missed_nothing(found));
    behind.filter_map(|found| Straggler::of(found, facts).transpose()).collect()
}
