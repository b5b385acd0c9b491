//! Devices that come to a set that is open, and go.
//!
//! **A member that was away** comes back into its slot where the set has a bitmap and its superblock is not older
//! than the bitmap's last clearing: then it has everything but the stretches whose bits are set. What it says of
//! itself must fit: the slot is free, its geometry is the set's, and it did not live without one that is a member
//! now. One that left in the midst of a reshape does not fit: the reshape moved everything, and no bit tells. Else it is a spare, as a new device is, and is rebuilt whole.
//!
//! **A spare** gets a superblock as those of the others, with a number that nobody has, an empty bad-block log,
//! and a copy of the bitmap. The superblock comes first: whoever is cut off after it finds a spare of the set, and adds
//! it again.
//!
//! **Who goes** keeps its superblock, as with mdadm; the others' tables free its number.

use super::error::LiveError;
use super::fuse::Below;
use super::keeper::Listed;
use super::kept::Kept;
use super::live_array::LiveArray;
use crate::array::Engine;
use crate::assemble::{AssembleError, EVENTS_OF_CUTS, Found, Superblock, is_same_shape};
use crate::journal::lost::LostJournal;
use crate::loss::Cause;
use crate::member::MemberState;
use crate::opening::members::window;
use crate::ppl::space::space;
use crate::superblock::place::Version;
use crate::superblock::v1::{BadBlockPlace, DEVICES_MAX, ReshapeFields, SuperblockV1};
use crate::superblock::{Features, Role, SECTOR, SUPERBLOCK_BYTES, Uuid, bad_blocks};
use async_recursion::async_recursion as boxed;
use rt::{Buf, DeviceRef, Request};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// What a device became that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It stands in its slot again, and lacks this much of what was written meanwhile.
    Back {
        /// The slot.
        slot: usize,
        /// Bytes to be written to it.
        missed: ByteCount,
    },
    /// A spare.
    Spare,
}

impl LiveArray {
    /// Whether a member that was away can come back into its slot: which one.
    pub fn can_come_back(&self, found: &Found) -> Option<usize> {
        let Superblock::V1(own) = &found.superblock else { return None };
        let (intent, template) = (self.keeper.intent()?, self.keeper.template()?);
        let slot = own.role()?.slot()?;
        let by_bitmap = own.features.has(Features::RECOVERY_BITMAP);
        let half_filled = own.features.has(Features::RECOVERY_OFFSET) && !by_bitmap;
        let has_bitmap = own.bitmap_offset().is_some_and(|at| Some(at) == template.bitmap_offset());
        let fits = is_same_shape(&found.superblock, &Superblock::V1(Box::new(template)))
            && has_bitmap
            && !own.features.has(Features::RESHAPE_ACTIVE)
            && !own.features.has(Features::REPLACEMENT)
            && !half_filled;
        let recent = (intent.events_cleared()..=self.keeper.events()).contains(&own.events);
        let members = &self.array.set.members;
        let free = slot < members.len()
            && matches!(members.state(slot), MemberState::Failed | MemberState::Missing);
        let number = own.device_number as usize;
        let kept = self.keeper.devices();
        // Who recorded that one of those failed that are here went on without it.
        let here = || kept.iter().filter(|one| one.is_here);
        let recorded = here().any(|one| own.roles.get(one.number) == Some(&Role::Faulty));
        let held = (0..members.len()).filter(|slot| members.is_active(*slot));
        let apart = recorded || found.superblock.went_on_without(held);
        let taken = here().any(|one| one.number == number);
        (fits && recent && free && !apart && !taken).then_some(slot)
    }

    /// Whether a device of the set went on without the members that are here, or counts more events: it may hold what
    /// they lack, and to add it would overwrite that.
    pub fn has_gone_on(&self, found: &Found) -> bool {
        let members = &self.array.set.members;
        let held = (0..members.len()).filter(|slot| members.is_active(*slot));
        let is_member = found.superblock.role().is_some_and(|role| role.slot().is_some());
        let is_newer = found.superblock.events() > self.keeper.events();
        is_member && (is_newer || found.superblock.went_on_without(held))
    }

    /// Adds a device: a member that was away comes back where it can, anything else becomes a spare, whatever
    /// it holds. `found` is what md wrote on it; `uuid` is the identity of a new spare.
    ///
    /// # Errors
    /// Where it is too small or can't be written, or the set has no redundancy.
    #[boxed(?Send)]
    pub async fn add(
        &self,
        device: DeviceRef,
        found: Option<Found>,
        uuid: Uuid,
    ) -> Result<Added, LiveError> {
        let set = self.set;
        if !self.is_redundant() {
            return Err(LiveError::NoRedundancy { set, level: self.array.level() });
        }
        self.refuse_known(&device)?;
        let device = Below::over(&device, &self.fuse);
        let found = found.map(|found| Found { device: Rc::clone(&device), ..found });
        if let Some(found) = found
            && let Some(slot) = self.can_come_back(&found)
        {
            return self.come_back(found, slot).await;
        }
        let needed = self.bytes_needed()?;
        let too_small = || LiveError::TooSmall {
            device: device.name().to_string(),
            capacity: device.geometry().capacity,
            needed,
        };
        let number = self.free_number()?;
        let superblock = self.superblock_for(&device, number, uuid).ok_or_else(too_small)?;
        let log = superblock.bad_blocks;
        let at = Offset(superblock.super_offset * SECTOR);
        let mut pieces = Vec::new();
        if log.sectors > 0
            && let Ok(bytes) = bad_blocks::encode(&[], log.sectors)
        {
            pieces.push((i64::from(log.offset), bytes));
        }
        if let (Some(intent), Some(place)) = (self.keeper.intent(), superblock.bitmap_offset()) {
            let block = device.geometry().logical_block;
            let page =
                |(from, bytes): (u64, Vec<u8>)| (i64::from(place) + (from / SECTOR) as i64, bytes);
            pieces.extend(intent.whole(block).into_iter().map(page));
        }
        // From here on it is not what it was.
        let sealed = superblock.sealed();
        let bytes = sealed.map_err(|error| AssembleError::format(&device.name(), error))?;
        self.write_to(&device, at, bytes).await?;
        for (sectors, bytes) in pieces {
            let at = Offset(at.bytes().saturating_add_signed(sectors * SECTOR as i64));
            self.write_to(&device, at, bytes).await?;
        }
        self.wipe_others(&device, at).await?;
        let superblock = Superblock::V1(Box::new(superblock));
        let found = Found { device: Rc::clone(&device), superblock, at };
        let area = window(&found, true).await?;
        if let Some(log) = &self.log {
            log.add(rt::Device::name(&*area), space(&found)?);
        }
        self.array
            .add_spare(Rc::clone(&area) as DeviceRef)
            .map_err(|error| LiveError::Spec { set, error })?;
        self.forget_lost(&device);
        self.keeper.join(Kept::of(&found, area));
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))?;
        Ok(Added::Spare)
    }

    /// Puts a member that was away into its slot. What it missed is its to be rebuilt.
    async fn come_back(&self, found: Found, slot: usize) -> Result<Added, LiveError> {
        let area = window(&found, true).await?;
        let extent = self.array.component_extent().bytes();
        let Some(intent) = self.keeper.intent() else { return Err(self.gone()) };
        let missed = intent.missed_by(slot, &self.array);
        let there = missed.complement(extent);
        let bytes = ByteCount(missed.total());
        self.forget_lost(&found.device);
        // A cut in the pass that lists it must not leave it as one that cuts alone put behind: it lacks what it missed.
        while self.keeper.events() < found.superblock.events() + EVENTS_OF_CUTS {
            self.keeper.write().await.map_err(|kind| self.superblocks(kind))?;
        }
        // Known before it stands there: it may be written at once.
        self.keeper.join(Kept::come_back(&found, Rc::clone(&area), bytes.is_zero()));
        if !self.array.set.members.come_back(slot, area as DeviceRef, there) {
            return Err(self.gone());
        }
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))?;
        Ok(Added::Back { slot, missed: bytes })
    }

    /// Refuses a device that is the set's already.
    pub(super) fn refuse_known(&self, device: &DeviceRef) -> Result<(), LiveError> {
        let in_use = |one: &&Listed| one.is_here && one.name == device.name();
        match self.keeper.devices().iter().find(in_use) {
            Some(one) => Err(LiveError::Known { device: one.name.to_string() }),
            None => Ok(()),
        }
    }

    /// A device that failed and is added again is a new one.
    pub(super) fn forget_lost(&self, device: &DeviceRef) {
        let same = |one: &&Listed| !one.is_here && one.name == device.name();
        if let Some(one) = self.keeper.devices().iter().find(same) {
            self.keeper.forget(one.number);
        }
    }

    /// The superblock of a new spare; none where the device is too small.
    fn superblock_for(
        &self,
        device: &DeviceRef,
        number: usize,
        uuid: Uuid,
    ) -> Option<SuperblockV1> {
        let template = self.keeper.template()?;
        let sectors = device.geometry().capacity.bytes() / SECTOR;
        let version = template.version();
        let place = version.place(device.geometry().capacity)?.bytes() / SECTOR;
        let data_size = match version {
            // What lies between data and superblock is as large as with the others.
            Version::V10 => {
                place.checked_sub(template.super_offset.checked_sub(template.data_size)?)
            }
            _ => sectors.checked_sub(template.data_offset),
        };
        let data_size = data_size.filter(|size| *size >= template.size)?;
        Some(self.superblock_like(&template, place, data_size, number, uuid))
    }

    /// The superblock of a new device of the set, at a sector of it.
    pub(super) fn superblock_like(
        &self,
        template: &SuperblockV1,
        place: u64,
        data_size: u64,
        number: usize,
        uuid: Uuid,
    ) -> SuperblockV1 {
        let features = [
            Features::RECOVERY_OFFSET,
            Features::RECOVERY_BITMAP,
            Features::REPLACEMENT,
            Features::BAD_BLOCKS,
        ];
        let features = features.iter().fold(template.features, |all, one| all.with(*one, false));
        SuperblockV1 {
            features,
            reshape: ReshapeFields::default(),
            data_size,
            super_offset: place,
            recovery_offset: 0,
            device_number: number as u32,
            corrected_reads: 0,
            device_uuid: uuid,
            flags: 0,
            bad_blocks: BadBlockPlace { shift: 0, ..template.bad_blocks },
            ..template.clone()
        }
    }

    /// As md counts: behind the slots, the first that nobody has; one that failed keeps its own as long as
    /// there are others.
    ///
    /// # Errors
    /// Where all are taken.
    pub(super) fn free_number(&self) -> Result<usize, LiveError> {
        let template = self.keeper.template().ok_or_else(|| self.gone())?;
        let kept = self.keeper.devices();
        let unused = |number: &usize| !kept.iter().any(|one| one.number == *number);
        let forgotten =
            |number: &usize| template.roles.get(*number).is_none_or(|role| *role == Role::Spare);
        let numbers = || (template.slots as usize..DEVICES_MAX).filter(unused);
        let free = numbers().find(forgotten).or_else(|| numbers().next());
        free.ok_or(LiveError::TooManyDevices { set: self.set })
    }

    /// Removes a spare, or a device that failed or is not there: its number is free again. The superblock of a spare is
    /// wiped, since it would be one again the next time; that of a member stays, so that it can come back.
    ///
    /// # Errors
    /// Where it is a member.
    #[boxed(?Send)]
    pub async fn remove(&self, found: &Found) -> Result<(), LiveError> {
        let number = found.superblock.device_number() as usize;
        let kept = self.keeper.devices();
        let same = |one: &Listed| one.number == number && *one.name == *found.name();
        if kept.iter().any(same) {
            return self.remove_number(number).await;
        }
        if kept.iter().any(|one| one.number == number) {
            // Another device has its number, so it is forgotten already.
            return Ok(());
        }
        self.keeper.forget(number);
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))
    }

    /// The same, of a device that was here when the set was opened, or came: see [`LiveArray::devices`]. It may
    /// be one that nothing can be read from any more. Afterwards nothing of the set holds it open.
    ///
    /// # Errors
    /// Where it is a member.
    #[boxed(?Send)]
    pub async fn remove_number(&self, number: usize) -> Result<(), LiveError> {
        let kept = self.keeper.devices();
        if let Some(own) = kept.iter().find(|one| one.number == number) {
            let Some(area) = &own.area else {
                if own.is_here {
                    return Err(LiveError::JournalInUse { device: own.name.to_string() });
                }
                self.keeper.forget(number);
                // The log that failed holds the device.
                if let Engine::Stripes(stripes) = &self.array.engine {
                    stripes.log_with(Rc::new(LostJournal));
                }
                return self.keeper.write().await.map_err(|kind| self.superblocks(kind));
            };
            let name = rt::Device::name(&**area);
            let is_it = |other: &Arc<str>| Arc::ptr_eq(other, &name);
            let mut members = self.array.members().into_iter();
            let stands = members.find(|report| report.name.as_ref().is_some_and(is_it));
            if let Some(slot) = stands.as_ref().and_then(|report| report.slot) {
                return Err(LiveError::InUse { device: own.name.to_string(), slot });
            }
            self.array.set.members.take_spare(&name);
            if stands.is_some() {
                self.wipe(number).await;
            }
            if let Some(log) = &self.log {
                log.forget(&name);
            }
        }
        self.keeper.forget(number);
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))
    }

    /// Fails a device by its number, and records it: a member, a spare, a replacement, which ends what it was for,
    /// or the journal.
    ///
    /// # Errors
    /// Where the set can't do without it, or it is none of these.
    #[boxed(?Send)]
    pub async fn fail_number(&self, number: usize) -> Result<(), LiveError> {
        let devices = self.devices();
        let own = devices.iter().find(|one| one.number == number);
        let own = own.ok_or(LiveError::NoDevice { set: self.set, number })?;
        let members = &self.array.set.members;
        match (own.state, own.slot) {
            _ if own.is_journal => return self.fail_journal().await,
            (MemberState::Active | MemberState::Rebuilding, Some(slot)) => {
                return self.fail(slot).await;
            }
            (MemberState::Replacement, Some(slot)) => members.lose_replacement(slot, Cause::ByHand),
            (MemberState::Spare, _) => {
                let kept = self.keeper.devices();
                let area =
                    kept.iter().find(|one| one.number == number).and_then(|one| one.area.as_ref());
                if let Some(area) = area {
                    members.lose_spare(&rt::Device::name(&**area), Cause::ByHand);
                }
            }
            // It failed before.
            _ => {}
        }
        self.keeper.write().await.map_err(|kind| self.superblocks(kind))
    }

    /// How much a device needs to become a spare or member.
    ///
    /// # Errors
    /// Where no device is left that could tell.
    pub fn bytes_needed(&self) -> Result<ByteCount, LiveError> {
        let template = self.keeper.template().ok_or_else(|| self.gone())?;
        Ok(ByteCount((template.data_offset + template.size) * SECTOR))
    }

    /// Wipes the superblock of a spare.
    async fn wipe(&self, number: usize) {
        let Some((device, at)) = self.keeper.superblock_place(number) else { return };
        let zeros = Request::write_fua(at, Buf::zeros(SUPERBLOCK_BYTES));
        // One that can't be written is no use as a spare either.
        let _ = device.submit(zeros).await;
    }

    pub(super) async fn write_to(
        &self,
        device: &DeviceRef,
        at: Offset,
        bytes: Vec<u8>,
    ) -> Result<(), LiveError> {
        let write = Request::write_fua(at, Buf::copy_of(&bytes));
        let done = device.submit(write).await;
        done.map(|_| ()).map_err(|error| LiveError::Assemble(error.into()))
    }

    /// Wipes superblocks that lie where another version has them: a device is one thing at a time.
    pub(super) async fn wipe_others(
        &self,
        device: &DeviceRef,
        own: Offset,
    ) -> Result<(), LiveError> {
        let places = Version::ALL.iter().filter_map(|one| one.place(device.geometry().capacity));
        for place in places.filter(|place| *place != own) {
            let len = ByteCount(SUPERBLOCK_BYTES as u64);
            let read = device.submit(Request::read(place, len)).await;
            let bytes = read.map_err(|error| LiveError::Assemble(error.into()))?.to_vec();
            if bytes.starts_with(&crate::superblock::MAGIC.to_le_bytes()) {
                self.write_to(device, place, vec![0; SUPERBLOCK_BYTES]).await?;
            }
        }
        Ok(())
    }
}
