//! The superblocks of a set that is not running: all of them, written one after another.
//!
//! The freshest superblock tells what the set is, and one that is a single event behind counts as up to date. A
//! power cut may leave any part of the superblocks of one pass written. So there are two kinds of passes:
//!
//! * [`advance`](Pages::advance): each superblock with one event *more*. What it says holds from the first one
//!   that is written. For what is true already: a position up to which everything is durable, a lost member.
//! * [`turn`](Pages::turn): each with one event *less*. What it says holds from the last one that is written;
//!   until then those not yet written are the freshest and tell. For what changes how a member's own fields are
//!   read: the start of a reshape (its data offset is going to move) and its end (it has moved). With one event
//!   more a member that is one behind would be read at the wrong offset.
//!
//! A superblock that can't be written leaves its member behind with old events. [`settle`](Pages::settle) writes
//! the others so often that it is not believed when it comes back.
//!
//! Before the first pass the members are [levelled](crate::stragglers), with what was found, not with what is to be said.
//!
//! Each superblock is preceded by the [bitmap](super::bitmap) of its device, where the set has one.
//!
//! [`agreed`](crate::assemble::agreed) is the other side: whoever opens a set for writing takes the fields that describe the whole set
//! from the freshest, so that a mixture is not written again with equal events.

use super::bitmap::Bitmap;
use super::error::GrowError;
use crate::assemble::{AssembleError, Choice, Superblock};
use crate::stragglers::{Straggler, stragglers};
use crate::superblock::v1::{DEVICES_MAX, SuperblockV1};
use crate::superblock::{Role, SECTOR, Stamp, Uuid};
use rt::{Buf, DeviceRef, IoErrorKind, Request, Rt};
use stdx::{Instant, Offset};

/// Passes after which a device that missed them is not believed: more than one event behind, and one for a
/// pass that went backwards.
const SETTLING_PASSES: usize = 3;

/// A device of the set with what its superblock says.
pub(super) struct Page {
    pub(super) device: DeviceRef,
    pub(super) at: Offset,
    pub(super) superblock: SuperblockV1,
    /// The slot that it holds; none for a spare.
    pub(super) slot: Option<usize>,
    /// It can't be used any more.
    pub(super) lost: bool,
}

impl Page {
    /// The device's number, by which roles are listed.
    fn number(&self) -> usize {
        self.superblock.device_number as usize
    }

    /// Whether it holds a slot and can be used.
    pub(super) fn is_member(&self) -> bool {
        self.slot.is_some() && !self.lost
    }
}

/// See the [module](self).
pub(super) struct Pages {
    rt: Rt,
    pub(super) set: Uuid,
    pub(super) pages: Vec<Page>,
    pub(super) bitmap: Option<Bitmap>,
    /// Members to be levelled before the first pass, as they were found.
    behind: Vec<Straggler>,
    events: u64,
    opened: Instant,
    unix_s: u64,
}

impl Pages {
    /// The members and spares of a set whose superblocks [agree](crate::assemble::agreed).
    pub(super) async fn of(rt: &Rt, choice: &Choice, unix_s: u64) -> Result<Pages, GrowError> {
        let set = choice.set;
        let members = choice.slots.iter().enumerate();
        let members = members.filter_map(|(slot, found)| Some((found.as_ref()?, Some(slot))));
        let spares = choice.spares.iter().map(|found| (found, None));
        let mut pages: Vec<Page> = Vec::new();
        for (found, slot) in members.chain(spares) {
            let Superblock::V1(superblock) = &found.superblock else {
                return Err(GrowError::Unsupported { set, what: "superblocks 0.90" });
            };
            let (device, at) = (found.device.clone(), found.at);
            let superblock = (**superblock).clone();
            pages.push(Page { device, at, superblock, slot, lost: false });
        }
        let (rt, opened) = (rt.clone(), rt.now());
        let (bitmap, events) = (Bitmap::of(choice).await?, choice.facts.events());
        for page in &pages {
            let (own, bitmap) = (&page.superblock, bitmap.as_ref());
            let place = own.bitmap_offset().zip(bitmap);
            if place.is_some_and(|(at, bitmap)| !own.is_beside(at.into(), bitmap.sectors_used())) {
                let device = page.device.name().to_string();
                return Err(AssembleError::BitmapSpace { device }.into());
            }
        }
        let behind = stragglers(choice)?;
        let mut pages = Pages { rt, set, pages, bitmap, behind, events, opened, unix_s };
        pages.give_spares_numbers()?;
        Ok(pages)
    }

    /// A spare may bear a number that another device has got meanwhile.
    fn give_spares_numbers(&mut self) -> Result<(), GrowError> {
        for n in 0..self.pages.len() {
            let page = &self.pages[n];
            let number = page.number();
            let is_taken = self.pages[..n].iter().any(|other| other.number() == number)
                || number >= DEVICES_MAX;
            if page.slot.is_none() && is_taken {
                let free = self.free_number()?;
                self.pages[n].superblock.device_number = free;
            }
        }
        Ok(())
    }

    /// A number that no device has or had.
    pub(super) fn free_number(&self) -> Result<u32, GrowError> {
        let roles = |number: usize| {
            self.pages.iter().filter_map(move |page| page.superblock.roles.get(number))
        };
        let is_free = |number: &usize| {
            self.pages.iter().all(|page| page.number() != *number)
                && roles(*number).all(|role| *role == Role::Spare)
        };
        let free = (0..DEVICES_MAX).find(is_free);
        free.map(|number| number as u32).ok_or(GrowError::TooManyDevices { set: self.set })
    }

    /// Adds a device that was made a spare of the set.
    pub(super) fn push(&mut self, device: DeviceRef, at: Offset, superblock: SuperblockV1) {
        self.pages.push(Page { device, at, superblock, slot: None, lost: false });
    }

    /// The member of a slot.
    pub(super) fn member(&self, slot: usize) -> Option<&Page> {
        self.pages.iter().find(|page| page.is_member() && page.slot == Some(slot))
    }

    /// How many of the first so many slots have nobody.
    pub(super) fn missing(&self, slots: usize) -> usize {
        (0..slots).filter(|slot| self.member(*slot).is_none()).count()
    }

    /// Takes a slot's device out of use.
    pub(super) fn lose(&mut self, slot: usize) {
        let of_slot = |page: &&mut Page| page.slot == Some(slot);
        self.pages.iter_mut().filter(of_slot).for_each(|page| page.lost = true);
    }

    /// Writes all superblocks with one event more. True where a device was lost in it.
    pub(super) async fn advance(&mut self) -> Result<bool, GrowError> {
        self.level().await;
        self.events += 1;
        self.write(|_| true, self.seconds()).await
    }

    /// Before the first pass: all members have the events of the freshest. Who can't be written is lost.
    async fn level(&mut self) {
        for straggler in std::mem::take(&mut self.behind) {
            let failed = straggler.level().await.is_err();
            let is_it = |page: &&mut Page| page.number() == straggler.number;
            self.pages.iter_mut().filter(is_it).for_each(|page| page.lost |= failed);
        }
    }

    /// Changes all superblocks and writes them with one event less than the passes before: first those of
    /// devices that `first` names, then the others.
    pub(super) async fn turn(
        &mut self,
        change: impl Fn(&mut Page),
        first: impl Fn(&Page) -> bool,
    ) -> Result<(), GrowError> {
        // Room to go back: two passes, so that nobody is left with the events that are written now.
        self.advance().await?;
        self.advance().await?;
        self.events -= 1;
        self.pages.iter_mut().for_each(change);
        // One pass in two parts: by their time members are told apart that count as many events.
        let seconds = self.seconds();
        self.write(&first, seconds).await?;
        self.write(|page| !first(page), seconds).await?;
        self.settle().await
    }

    /// Writes all superblocks so often that a device that was lost is known to be old.
    pub(super) async fn settle(&mut self) -> Result<(), GrowError> {
        let mut left = SETTLING_PASSES;
        // Each device is lost once at the most, so this ends.
        while left > 0 {
            left = if self.advance().await? { SETTLING_PASSES } else { left - 1 };
        }
        Ok(())
    }

    fn seconds(&self) -> u64 {
        self.unix_s + self.rt.now().since(self.opened).as_secs()
    }

    async fn write(
        &mut self,
        which: impl Fn(&Page) -> bool,
        seconds: u64,
    ) -> Result<bool, GrowError> {
        let mut any_lost = self.write_bitmaps(&which).await;
        self.list_roles();
        let mut writes = Vec::new();
        for (n, page) in self.pages.iter_mut().enumerate().filter(|(_, page)| !page.lost) {
            if !which(page) {
                continue;
            }
            page.superblock.events = self.events;
            page.superblock.updated = Stamp::from_seconds(seconds);
            let sealed = page.superblock.sealed();
            let bytes =
                sealed.map_err(|error| AssembleError::format(&page.device.name(), error))?;
            let bytes = Buf::copy_of(&bytes);
            writes.push((n, page.device.submit(Request::write_fua(page.at, bytes))));
        }
        for (n, write) in writes {
            if write.await.is_err() {
                self.pages[n].lost = true;
                any_lost = true;
            }
        }
        if self.pages.iter().all(|page| !page.is_member()) {
            return Err(GrowError::Superblocks { set: self.set, kind: IoErrorKind::TooFewMembers });
        }
        Ok(any_lost)
    }

    /// Writes the bitmap, where there is one, to the devices whose superblocks come next. True where one was lost
    /// in it.
    async fn write_bitmaps(&mut self, which: impl Fn(&Page) -> bool) -> bool {
        let Some(bitmap) = &mut self.bitmap else { return false };
        let mut writes = Vec::new();
        for (n, page) in self.pages.iter().enumerate().filter(|(_, page)| !page.lost) {
            let Some(offset) = page.superblock.bitmap_offset().filter(|_| which(page)) else {
                continue;
            };
            let at = page.at.bytes().saturating_add_signed(i64::from(offset) * SECTOR as i64);
            let bytes = bitmap.bytes(self.events, page.device.geometry().logical_block);
            let write = Request::write_fua(Offset(at), Buf::copy_of(&bytes));
            writes.push((n, page.device.submit(write)));
        }
        let mut any_lost = false;
        for (n, write) in writes {
            if write.await.is_err() {
                self.pages[n].lost = true;
                any_lost = true;
            }
        }
        any_lost
    }

    /// Each superblock lists all devices. Who holds a slot by the list and is not here is missing.
    fn list_roles(&mut self) {
        let known: Vec<(usize, Role)> = self
            .pages
            .iter()
            .map(|page| {
                let slot = page.slot.map_or(Role::Spare, |slot| Role::Slot(slot as u16));
                (page.number(), if page.lost { Role::Faulty } else { slot })
            })
            .collect();
        let len = known.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        for page in &mut self.pages {
            let roles = &mut page.superblock.roles;
            roles.resize(roles.len().max(len), Role::Spare);
            for (number, role) in roles.iter_mut().enumerate() {
                match known.iter().find(|(other, _)| *other == number) {
                    Some((_, known)) => *role = *known,
                    None if role.slot().is_some() => *role = Role::Faulty,
                    None => {}
                }
            }
        }
    }
}
