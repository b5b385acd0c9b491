//! How it is chosen who takes part.
//!
//! The member with the most events tells the truth about all of them. Its table of roles counts, not what
//! the others say of themselves: a device that was failed can't know it. One event behind is fresh: md
//! writes the superblocks one after another, and may be stopped between two.
//!
//! **A spare that failed stays failed.** Its own superblock was not written any more and calls it a spare; the table of
//! the freshest calls its number faulty. It is left out until somebody adds it anew. (So does Linux since 6.8, which
//! asks the freshest superblock for the role of each device and drops who is faulty there. Before, it took the device's
//! own word.) A spare that was merely away keeps its number in the table, and comes back as one.
//!
//! Source: Linux `drivers/md/md.c` (`super_1_sync`, `super_1_validate`, `remove_and_add_spares`).

use super::choice::{Choice, EVENTS_BEHIND_MAX, LeftOut, Why, cut_short};
use super::error::AssembleError;
use super::facts::Superblock;
use super::found::Found;
use super::{agreement, apart};
use crate::superblock::v1::DEVICES_MAX;
use crate::superblock::{Features, Role, Uuid};

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
            (cut_short(found).is_none(), found.superblock.events(), std::cmp::Reverse(number))
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
        if let Some(needed) = cut_short(&found) {
            let has = found.device.geometry().capacity;
            return leave(self, found, Why::CutShort { has, needed });
        }
        let listed = self.facts.role_of(found.superblock.device_number());
        if own == Some(Role::Spare) && listed == Some(Role::Faulty) {
            return leave(self, found, Why::Faulty);
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
}
