//! Devices of one set that went on without each other.
//!
//! Two halves of a RAID 1 or 10 can be started one without the other. Each then has writes that the other lacks, and
//! counts its own events, so the number of events tells nothing about whose content is wanted.
//!
//! A device that was lost has a table of roles in which the others still hold their slots: nobody wrote it after they
//! went on. One that went on has written a table since, in which the slots of the others are held by nobody. (The
//! table, not the word "faulty" in it: Linux frees the numbers of devices that are not there.)
//!
//! * Who went on without all that take part is named, with the members that it lacked.
//! * Where those that count are too few, and the others enough by themselves, the others are named as what can be opened.
//! * Where both sides have as many events nothing chooses between them: an error that names both.

use super::choice::{Choice, LeftOut};
use super::error::AssembleError;
use super::facts::Superblock;
use super::found::Found;
use crate::superblock::Uuid;
use std::cmp::Reverse;

impl Superblock {
    /// Whether the device of this superblock went on without all members that hold these slots.
    pub(crate) fn went_on_without(&self, slots: impl IntoIterator<Item = usize>) -> bool {
        let Some(own) = self.role().and_then(|role| role.slot()) else { return false };
        let mut others = slots.into_iter().filter(|slot| *slot != own).peekable();
        others.peek().is_some() && others.all(|slot| !self.is_held(slot))
    }
}

impl Choice {
    /// Whether a device went on without the members that take part.
    pub(super) fn is_apart(&self, found: &Found) -> bool {
        let there = self.slots.iter().enumerate().filter(|(_, member)| member.is_some());
        found.superblock.went_on_without(there.map(|(slot, _)| slot))
    }

    /// The devices that are left out and went on without the members that take part, each with one of these: the
    /// freshest.
    pub fn apart(&self) -> Vec<(&LeftOut, &Found)> {
        let order =
            |found: &&Found| (found.superblock.events(), Reverse(found.superblock.device_number()));
        let Some(member) = self.slots.iter().flatten().max_by_key(order) else { return Vec::new() };
        let apart = self.left_out.iter().filter(|left| self.is_apart(&left.found));
        apart.map(|left| (left, member)).collect()
    }

    /// The devices that went on without those that take part, where these are too few and they are enough by themselves.
    pub fn enough_alone(&self) -> Vec<&Found> {
        let apart: Vec<&Found> = self.apart().into_iter().map(|(left, _)| &left.found).collect();
        let is_enough = |choice: Choice| choice.lacking(None) == 0;
        let alone = || Choice::of(self.set, apart.iter().copied().cloned().collect());
        match self.lacking(None) > 0 && !apart.is_empty() && alone().is_ok_and(is_enough) {
            true => apart,
            false => Vec::new(),
        }
    }
}

/// Refuses devices of which some have as many events as the one whose superblock counts, and went on without it.
///
/// # Errors
/// Names both sides.
pub(super) fn refuse_equal(
    set: Uuid,
    facts: &Superblock,
    devices: &[Found],
) -> Result<(), AssembleError> {
    let Some(best) = facts.role().and_then(|role| role.slot()) else { return Ok(()) };
    let slot = |found: &Found| found.superblock.role().and_then(|role| role.slot());
    let as_new = |found: &&Found| found.superblock.events() == facts.events();
    let is_other = |found: &&Found| {
        slot(found).is_some_and(|slot| slot != best && !facts.is_held(slot))
            && found.superblock.went_on_without([best])
    };
    let names = |found: &Found| found.name();
    let other: Vec<String> = devices.iter().filter(as_new).filter(is_other).map(names).collect();
    if other.is_empty() {
        return Ok(());
    }
    let is_own = |found: &&Found| slot(found).is_some_and(|slot| facts.is_held(slot));
    let own = devices.iter().filter(as_new).filter(is_own).map(names).collect();
    Err(AssembleError::Apart { set, own, other })
}
