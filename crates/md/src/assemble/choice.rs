//! Who of a set's devices takes part, in which slot, and who does not, and why.
//!
//! The member with the most events tells the truth about all of them. Its table of roles counts, not what
//! the others say of themselves: a device that was failed can't know it. One event behind is fresh: md
//! writes the superblocks one after another, and may be stopped between two.

use super::error::AssembleError;
use super::facts::Superblock;
use super::found::Found;
use super::stale::Accepted;
use super::{agreement, apart};
use crate::superblock::v1::DEVICES_MAX;
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
    /// It ends before its data area does: so many bytes are there.
    CutShort(ByteCount),
}

/// A device that takes no part.
#[derive(Clone)]
pub struct LeftOut {
    /// The device.
    pub found: Found,
    /// Why.
    pub why: Why,
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

/// Whether a device ends before what the set uses of it does. Its superblock is whole, its data is not. What lies
/// behind the used size may be missing. Data of superblock 0.90 ends where the superblock lies.
pub(super) fn is_cut_short(found: &Found) -> bool {
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
    needed.is_none_or(|needed| needed > end)
}

impl Choice {
    /// Chooses among the devices of one set.
    ///
    /// # Errors
    /// Where none of them holds a slot, two hold the same, superblocks contradict each other, or two went on without
    /// each other and nothing tells whose content counts.
    pub fn of(set: Uuid, devices: Vec<Found>) -> Result<Choice, AssembleError> {
        let holds_slot =
            |found: &&Found| matches!(found.superblock.role(), Some(Role::Slot(_) | Role::Journal));
        // The first of those with the most events: an order that does not depend on the devices' order
        // within equals would need their numbers.
        // One that is cut short speaks for the set only where nobody else does.
        let best = devices.iter().filter(holds_slot).max_by_key(|found| {
            let number = found.superblock.device_number();
            (!is_cut_short(found), found.superblock.events(), std::cmp::Reverse(number))
        });
        let mut facts = best.ok_or(AssembleError::NoMembers { set })?.superblock.clone();
        apart::refuse_equal(set, &facts, &devices)?;
        agreement::check(set, &facts, &devices)?;
        facts.heed_resync(devices.iter().filter(holds_slot));
        // During a reshape that takes slots away, more are in use than the superblock counts.
        let before = facts.reshape().map_or(0, |reshape| reshape.slots_before);
        let mut choice = Choice {
            set,
            slots: vec![None; facts.slots().max(before)],
            facts,
            replacements: Vec::new(),
            spares: Vec::new(),
            journal: None,
            left_out: Vec::new(),
            accepted: Vec::new(),
        };
        for found in devices {
            choice.place(found)?;
        }
        choice.number_spares();
        Ok(choice)
    }

    /// A spare that bears the number of another device gets one that is free, in memory, so that no table says of two
    /// devices in one word what they are. (It was away while its number was given to another.) One for which none is
    /// free is left out. Linux refuses such a device until mdadm has given it another number.
    fn number_spares(&mut self) {
        let numbers = self.taking_part().map(|found| found.superblock.device_number());
        let mut left: Vec<u32> = numbers.collect();
        let mut kept = Vec::new();
        for mut spare in std::mem::take(&mut self.spares) {
            let own = spare.superblock.device_number();
            let is_taken = left.iter().filter(|number| **number == own).count() > 1;
            if let Superblock::V1(superblock) = &mut spare.superblock
                && is_taken
            {
                let unused = |number: &u32| {
                    let role = self.facts.role_of(*number);
                    !left.contains(number) && matches!(role, Some(Role::Spare) | None)
                };
                let Some(free) = (0..DEVICES_MAX as u32).find(unused) else {
                    self.left_out.push(LeftOut { found: spare, why: Why::Removed });
                    continue;
                };
                superblock.device_number = free;
                // The other one keeps it.
                if let Some(taken) = left.iter_mut().find(|number| **number == own) {
                    *taken = free;
                }
            }
            kept.push(spare);
        }
        self.spares = kept;
    }

    fn place(&mut self, found: Found) -> Result<(), AssembleError> {
        let events = found.superblock.events();
        let behind = self.facts.events().saturating_sub(events);
        let leave = |choice: &mut Choice, found, why| {
            choice.left_out.push(LeftOut { found, why });
            Ok(())
        };
        let own = found.superblock.role();
        if is_cut_short(&found) {
            let capacity = found.device.geometry().capacity;
            return leave(self, found, Why::CutShort(capacity));
        }
        if matches!(own, Some(Role::Spare) | None) {
            self.spares.push(found);
            return Ok(());
        }
        if behind > EVENTS_BEHIND_MAX {
            return leave(self, found, Why::Stale(behind));
        }
        match self.facts.role_of(found.superblock.device_number()) {
            Some(Role::Faulty) => leave(self, found, Why::Faulty),
            Some(Role::Spare) | None => leave(self, found, Why::Removed),
            Some(Role::Journal) if self.journal.is_none() => {
                self.journal = Some(found);
                Ok(())
            }
            Some(Role::Journal) => leave(self, found, Why::Removed),
            Some(Role::Slot(slot)) => {
                let slot = usize::from(slot);
                if found.superblock.features().has(Features::REPLACEMENT) {
                    self.replacements.push((slot, found));
                    return Ok(());
                }
                let set = self.set;
                match self.slots.get_mut(slot) {
                    None => leave(self, found, Why::Removed),
                    Some(Some(other)) => {
                        let (first, second) = (other.name(), found.name());
                        Err(AssembleError::SameSlot { set, slot, first, second })
                    }
                    Some(place) => {
                        *place = Some(found);
                        Ok(())
                    }
                }
            }
        }
    }

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
