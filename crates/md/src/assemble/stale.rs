//! Whether enough members are there, and members that are taken back where somebody asks for it.
//!
//! **Members that nobody recorded as lost**, and that are no more than [`EVENTS_OF_CUTS`] behind: the superblock that
//! counts still gives them their slots, so they were there when it was written, and missed nothing ([`crate::stragglers`]). Two
//! cuts in a row left them where nothing levels members, in Linux and in Spindle before it did. All of them are taken
//! back by force, also where the set could do without: it has its whole redundancy then. So is a journal.
//!
//! **Members that the others went on without.** When members fail one after another until too few are left, the last
//! writes are gone and nearly all data is there. Then, and only where somebody asks for it, such members are taken back
//! ([`Choice::accept_stale`], as `mdadm --assemble --force` does):
//!
//! 1. The freshest first, and only as many as it takes. Who is left out stays out.
//! 2. Never one that was being filled, a replacement, one of another shape, one that is cut short, one that
//!    [went on without](super::apart) those that take part, one whose slot or number somebody has now. A spare
//!    holds nothing.
//! 3. The set is dirty from then on, everywhere: what a member missed is not known. A bitmap does not narrow that; it
//!    tells what changed since a member that is whole left, and none may be. So all its bits are set, and nobody comes
//!    back by it.
//! 4. The parity of what was being written is put right by partial parity logs of members that were there to the end,
//!    and by no other: what an older one says was being written has been written over since. To the end were those
//!    that nobody recorded as failed, and the one whose loss ended the set: it knows of just as many members as it
//!    takes, so nothing was written without it. All logs are emptied before the set says that the members are back.
//! 5. A member that is half filled is filled from its start: what it has may be newer than what it was made of.
//!
//! **In a reshape** only members that nobody recorded as lost are taken back, and only such as are in the same reshape, or
//! missed its begin or its end: what was moved without a member is nowhere on it. Whether enough are there for both
//! geometries is asked when the set is opened. The data that is moved gets its parity anew, so the set is not made dirty.

use super::choice::{Accepted, Choice, Why};
use super::error::{AssembleError, Behind, Halves};
use super::facts::{ReshapeFacts, Superblock, level_of};
use super::found::Found;
use crate::layout::copies::MirroredMap;
use crate::spec::{Layout, Level};
use crate::superblock::{ALL_SECTORS, Features, Role};
use std::cmp::Reverse;

/// So many events are counted when a member is lost: one that it could not be told, and one that says so. A set that
/// went on has counted more: it was opened, and then written.
const EVENTS_OF_A_LOSS: u64 = 2;

/// So many events two cuts in a row can leave a member behind that missed nothing, where nobody levels.
pub(crate) const EVENTS_OF_CUTS: u64 = 2;

impl Choice {
    /// Takes back members that nobody recorded as lost, and where too few are there then, those that the others went on
    /// without: see the head of this file. None where all of them are not enough. Tells which.
    pub fn accept_stale(&mut self) -> &[Accepted] {
        let mut forced = self.clone();
        forced.accept_unrecorded();
        if forced.lacking(None) > 0 {
            forced.accept_freshest();
        }
        if forced.lacking(None) == 0 {
            *self = forced;
        }
        &self.accepted
    }

    /// Takes back who missed nothing.
    fn accept_unrecorded(&mut self) {
        let mut left_out = std::mem::take(&mut self.left_out);
        left_out.sort_by_key(|left| Reverse(left.found.superblock.events()));
        for left in left_out {
            let is_stale = matches!(left.why, Why::Stale(_)) && self.missed_nothing(&left.found);
            let is_journal = left.found.superblock.role() == Some(Role::Journal);
            match self.slot_to_take(&left.found, left.why).filter(|_| is_stale) {
                Some(slot) => self.accept(slot, left.found),
                None if is_stale && is_journal && self.journal.is_none() => {
                    self.journal = Some(left.found);
                }
                None => self.left_out.push(left),
            }
        }
    }

    fn accept(&mut self, slot: usize, found: Found) {
        self.accepted.push(Accepted {
            slot,
            name: found.name(),
            events: found.superblock.events(),
            of: self.facts.events(),
        });
        self.slots[slot] = Some(found);
    }

    fn accept_freshest(&mut self) {
        // Ends: each turn fills a slot.
        while let Some((place, slot)) = self.freshest() {
            let found = self.left_out.remove(place).found;
            self.accept(slot, found);
        }
        if self.facts.reshape().is_some() {
            return;
        }
        let replacements = self.replacements.iter_mut().map(|(_, found)| found);
        for found in self.slots.iter_mut().flatten().chain(replacements) {
            if let Superblock::V1(own) = &mut found.superblock
                && own.features.has(Features::RECOVERY_OFFSET)
            {
                own.recovery_offset = 0;
                own.features = own.features.with(Features::RECOVERY_BITMAP, false);
            }
        }
    }

    /// Whether the superblock that counts gives a device the place that it says it has.
    fn is_listed(&self, found: &Found) -> bool {
        let own = &found.superblock;
        let stands = matches!(own.role(), Some(Role::Slot(_) | Role::Journal));
        stands && self.facts.role_of(own.device_number()) == own.role()
    }

    /// Whether a device is listed, and cuts alone explain that it is behind.
    pub(crate) fn missed_nothing(&self, found: &Found) -> bool {
        let behind = self.facts.events().saturating_sub(found.superblock.events());
        self.is_listed(found) && behind <= EVENTS_OF_CUTS
    }

    /// The freshest device that can be taken back and helps: its place among those that are left out, and its slot.
    fn freshest(&self) -> Option<(usize, usize)> {
        let lacking = self.lacking(None);
        let able = |(place, left): (usize, &super::LeftOut)| {
            let slot = self.slot_to_take(&left.found, left.why)?;
            let superblock = &left.found.superblock;
            let order = (superblock.events(), Reverse(superblock.device_number()));
            (self.lacking(Some(slot)) < lacking).then_some((order, place, slot))
        };
        let all = self.left_out.iter().enumerate().filter_map(able);
        all.max_by_key(|(order, ..)| *order).map(|(_, place, slot)| (place, slot))
    }

    /// The slot into which a device can be taken back.
    fn slot_to_take(&self, found: &Found, why: Why) -> Option<usize> {
        let (own, facts) = (&found.superblock, &self.facts);
        let slot = own.role()?.slot()?;
        let number = own.device_number();
        let has_number = |other: &Found| other.superblock.device_number() == number;
        let is_taken = self.taking_part().any(has_number)
            || match facts.role_of(number) {
                Some(Role::Slot(other)) => usize::from(other) != slot,
                Some(Role::Journal) => true,
                Some(Role::Faulty | Role::Spare) | None => false,
            };
        let can_be = !matches!(why, Why::CutShort { .. })
            && slot < self.slots.len()
            && self.member(slot).is_none()
            && self.has_shape(found)
            && own.recovery_offset().is_none()
            && !own.features().has(Features::REPLACEMENT)
            && !is_taken
            && !self.is_apart(found);
        can_be.then_some(slot)
    }

    /// Whether a device has the set's shape, or in a reshape one that fits it: the same, further back at the most; none, since
    /// it has ended there; or one that was begun there alone, where nothing was moved yet.
    fn has_shape(&self, found: &Found) -> bool {
        let (own, facts) = (&found.superblock, &self.facts);
        let shape = |one: &Superblock| {
            let features = one.features();
            let logs = (features.has(Features::BITMAP), features.has_ppl());
            (one.level(), one.chunk(), one.size(), logs)
        };
        let before = |one: &Superblock| one.reshape().map_or(one.slots(), |is| is.slots_before);
        let same = shape(own) == shape(facts);
        same && match (own.reshape(), facts.reshape()) {
            (None, None) => (own.layout(), own.slots()) == (facts.layout(), facts.slots()),
            (Some(its), Some(reshape)) => {
                let is_no_further = match reshape.backwards {
                    true => its.position >= reshape.position,
                    false => its.position <= reshape.position,
                };
                let of_set = ReshapeFacts { position: its.position, ..reshape };
                its == of_set
                    && own.slots() == facts.slots()
                    && is_no_further
                    && self.is_listed(found)
            }
            (None, Some(reshape)) => {
                own.slots() == facts.slots()
                    && own.slots() != reshape.slots_before
                    && self.is_listed(found)
            }
            (Some(its), None) => {
                its.position == 0 && before(own) == facts.slots() && self.is_listed(found)
            }
        }
    }

    /// How much is not covered, `also` being counted as there: members beyond what parity makes up for, or places of a
    /// mirror that nobody has. None of a set that is not understood, and of mirrors during a reshape: opening tells.
    pub(super) fn lacking(&self, also: Option<usize>) -> usize {
        let (facts, slots) = (&self.facts, self.slots.len());
        let whole = |slot: usize| {
            let member = self.member(slot);
            also == Some(slot)
                || member.is_some_and(|found| found.superblock.recovery_offset().is_none())
        };
        let Ok(level) = level_of(facts.level()) else { return 0 };
        if let Some(reshape) = facts.reshape() {
            // Who is filled by the reshape has nothing in one geometry and all in the other.
            let there = |slot: usize| also == Some(slot) || self.member(slot).is_some();
            let lacks = |slots: usize| (0..slots).filter(|slot| !there(*slot)).count();
            let most = lacks(facts.slots()).max(lacks(reshape.slots_before));
            return match level.parities() {
                0 => 0,
                parities => most.saturating_sub(parities),
            };
        }
        match level {
            Level::Raid1 => usize::from(!(0..slots).any(whole)),
            Level::Raid10 => {
                let layout = facts.layout().map(|layout| Layout::from_md(level, layout as i32));
                let Some(Ok(layout)) = layout else { return 0 };
                MirroredMap::of_slots(layout, slots).map_or(0, |map| map.uncovered(whole))
            }
            _ => (0..slots).filter(|slot| !whole(*slot)).count().saturating_sub(level.parities()),
        }
    }

    /// Whether enough members are there.
    ///
    /// # Errors
    /// Says how many are not, who is there and was left out, and whether force would take back enough of them.
    pub fn check_enough(&self) -> Result<(), AssembleError> {
        match level_of(self.facts.level()) {
            Ok(level) if self.lacking(None) > 0 => Err(self.too_few(level, self.degraded())),
            _ => Ok(()),
        }
    }

    /// The error of a set that lacks so many members.
    pub(crate) fn too_few(&self, level: Level, missing: usize) -> AssembleError {
        let behind = |left: &super::LeftOut| {
            let superblock = &left.found.superblock;
            let events = self.facts.events().saturating_sub(superblock.events());
            let failed = self.facts.role_of(superblock.device_number()) == Some(Role::Faulty);
            let device = left.found.name();
            (!matches!(left.why, Why::CutShort { .. })).then_some(Behind { device, events, failed })
        };
        let (slots, covered) = match level {
            Level::Raid1 => (self.slots.len(), self.slots.len().saturating_sub(1)),
            _ => (self.slots.len(), level.parities()),
        };
        let alone: Vec<String> = self.enough_alone().into_iter().map(Found::name).collect();
        let counting = || self.slots.iter().flatten().map(Found::name).collect();
        let halves = (!alone.is_empty()).then(|| Box::new(Halves { alone, counting: counting() }));
        AssembleError::TooFew {
            set: self.set,
            level,
            slots,
            missing,
            covered,
            behind: self.left_out.iter().filter_map(behind).collect(),
            halves,
            force_helps: !self.clone().accept_stale().is_empty(),
        }
    }

    /// Whether members were taken back.
    pub(crate) fn is_forced(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// Whether the member of a slot was there until nothing was written any more.
    pub(crate) fn was_there_to_the_end(&self, slot: usize, found: &Found) -> bool {
        let Some(accepted) = self.accepted.iter().find(|one| one.slot == slot) else { return true };
        if self.missed_nothing(found) {
            return true;
        }
        let held = (0..self.slots.len()).filter(|slot| found.superblock.is_held(*slot)).count();
        let parities = level_of(self.facts.level()).map_or(0, Level::parities);
        let was_last = held + parities == self.slots.len();
        was_last && accepted.of.saturating_sub(accepted.events) <= EVENTS_OF_A_LOSS
    }

    /// Below this sector parity and copies are right.
    pub(crate) fn resync_offset(&self) -> u64 {
        if self.is_forced() { 0 } else { self.facts.resync_offset() }
    }

    /// Whether the set itself says that it was stopped cleanly: then nothing was being written, and no log counts.
    pub(crate) fn says_clean(&self) -> bool {
        self.facts.resync_offset() == ALL_SECTORS
    }
}
