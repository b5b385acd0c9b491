//! Who of a set's devices takes part, in which slot, and who does not, and why.
//!
//! The member with the most events tells the truth about all of them. Its table of roles counts, not what
//! the others say of themselves: a device that was failed can't know it. One event behind is fresh: md
//! writes the superblocks one after another, and may be stopped between two.

use super::facts::Superblock;
use super::found::Found;
use crate::superblock::{Features, Role, SECTOR, Uuid};
use rt::DeviceRef;
use stdx::ByteCount;

/// How many events a member may be behind.
pub(super) const EVENTS_BEHIND_MAX: u64 = 1;

/// Why a device takes no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its content is old: so many events behind.
    Stale(u64),
    /// The others recorded that it failed.
    Faulty,
    /// The others do not count it as a member.
    Removed,
    /// It ends before its data area does.
    CutShort {
        /// So many bytes are there.
        has: ByteCount,
        /// So many are needed.
        needed: ByteCount,
    },
}

/// A device that takes no part.
#[derive(Clone)]
pub struct LeftOut {
    /// The device.
    pub found: Found,
    /// Why.
    pub why: Why,
}

/// A member that was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its slot.
    pub slot: usize,
    /// The device's name.
    pub name: String,
    /// The events that it knows of.
    pub events: u64,
    /// The events that the set counts.
    pub of: u64,
}

/// Who takes part in a set.
#[derive(Clone)]
pub struct Choice {
    /// The set.
    pub set: Uuid,
    /// The superblock that counts.
    pub facts: Superblock,
    /// Members by slot.
    pub slots: Vec<Option<Found>>,
    /// Devices that were being filled to replace the member of a slot.
    pub replacements: Vec<(usize, Found)>,
    /// Spares.
    pub spares: Vec<Found>,
    /// The journal.
    pub journal: Option<Found>,
    /// Who takes no part.
    pub left_out: Vec<LeftOut>,
    /// Members that were left out and are taken back all the same ([`Choice::accept_stale`]).
    pub accepted: Vec<Accepted>,
}

/// How large a device would have to be, where it ends before what the set uses of it does. Its superblock is whole, its data is not. What lies
/// behind the used size may be missing. Data of superblock 0.90 ends where the superblock lies.
pub(super) fn cut_short(found: &Found) -> Option<ByteCount> {
    let (start, sectors, end) = match &found.superblock {
        Superblock::V1(sb) => {
            // A journal is a ring of its own size; linear and RAID 0 use all that each member has.
            let uses_all = sb.size == 0 || sb.role() == Some(Role::Journal);
            let sectors = if uses_all { sb.data_size } else { sb.size };
            (sb.data_offset, sectors, found.device.geometry().capacity.bytes())
        }
        Superblock::V090(sb) => (0, u64::from(sb.size_kib) * 2, found.at.bytes()),
    };
    let needed = start.checked_add(sectors).and_then(|end| end.checked_mul(SECTOR));
    let needed = needed.unwrap_or(u64::MAX);
    (needed > end).then_some(ByteCount(needed))
}

impl Choice {
    /// All devices that take part: members, replacements, spares, the journal.
    pub fn taking_part(&self) -> impl Iterator<Item = &Found> {
        let replacements = self.replacements.iter().map(|(_, found)| found);
        self.slots.iter().flatten().chain(replacements).chain(&self.spares).chain(&self.journal)
    }

    /// Puts another device in the place of each that takes part.
    pub(crate) fn replace_devices(&mut self, with: impl Fn(&DeviceRef) -> DeviceRef) {
        let replacements = self.replacements.iter_mut().map(|(_, found)| found);
        let members = self.slots.iter_mut().flatten().chain(replacements);
        let all = members.chain(&mut self.spares).chain(&mut self.journal);
        all.for_each(|found| found.device = with(&found.device));
    }

    /// Who stands in a slot for reading: its member, or else the device that was to replace it.
    pub fn member(&self, slot: usize) -> Option<&Found> {
        let replacement = || self.replacements.iter().find(|(at, _)| *at == slot);
        let own = self.slots.get(slot).and_then(Option::as_ref);
        own.or_else(|| replacement().map(|(_, found)| found))
    }

    /// Whether the set has a journal that is not among the devices, or is too old. What was being written when it
    /// stopped may be half there.
    pub fn lacks_journal(&self) -> bool {
        self.facts.features().has(Features::JOURNAL) && self.journal.is_none()
    }

    /// How many members the set had when it was used last: slots that the superblock that counts gives to somebody.
    pub fn expected(&self) -> usize {
        (0..self.slots.len()).filter(|slot| self.facts.is_held(*slot)).count()
    }

    /// How many slots have nobody, or somebody who is not rebuilt yet.
    pub fn degraded(&self) -> usize {
        let whole = |slot: &usize| {
            self.member(*slot).is_some_and(|found| found.superblock.recovery_offset().is_none())
        };
        self.slots.len() - (0..self.slots.len()).filter(whole).count()
    }
}
