//! Who stands where: slots, replacements and spares, and how they change.

use super::state::{DeviceId, MemberState};
use crate::loss::{Cause, Loss, Losses};
use crate::superblock::v1::DEVICES_MAX;
use rt::DeviceRef;
use rt::sync::Notify;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, RangeSet};

/// So many separate ranges of one device, or of what is clean, are kept apart. A sampled rebuild has some hundreds.
pub(crate) const RANGES_MAX: usize = 65_536;
/// Steps that are under way when it is found that no more can be kept apart.
const RANGES_SPARE: usize = 64;

/// So many spares are kept: as many devices as a superblock can list, so that every set that can be written down can
/// be opened.
pub const SPARES_MAX: usize = DEVICES_MAX;

/// A row of the table of members.
#[derive(Clone, Debug)]
pub struct MemberReport {
    /// The slot; none for a spare.
    pub slot: Option<usize>,
    /// State.
    pub state: MemberState,
    /// The device's name, where there is one.
    pub name: Option<Arc<str>>,
    /// How much of it is right; the whole for an active one.
    pub recovered: ByteCount,
    /// Reads that ended with an error.
    pub read_errors: u64,
    /// Writes that ended with an error.
    pub write_errors: u64,
    /// Bad places that were written anew from the redundancy.
    pub corrected: u64,
    /// Why the slot's last member was lost, where one was.
    pub lost: Option<Cause>,
}

/// A device that is being filled to take over a slot.
pub(super) struct Replacement {
    pub(super) id: DeviceId,
    pub(super) device: DeviceRef,
    pub(super) copied: RangeSet,
}

/// One slot.
pub(super) struct Slot {
    pub(super) device: RefCell<Option<DeviceRef>>,
    pub(super) id: Cell<DeviceId>,
    pub(super) state: Cell<MemberState>,
    /// While it is rebuilding: what is right.
    pub(super) there: RefCell<RangeSet>,
    pub(super) replacement: RefCell<Option<Replacement>>,
    pub(super) rotational: Cell<bool>,
    /// Where the last read or write of it ended.
    pub(super) head: Cell<u64>,
    pub(super) in_flight: Cell<u32>,
    pub(super) read_errors: Cell<u64>,
    pub(super) write_errors: Cell<u64>,
    pub(super) corrected: Cell<u64>,
}

/// See the [module](self).
pub(crate) struct Members {
    pub(super) slots: Vec<Slot>,
    spares: RefCell<Vec<DeviceRef>>,
    pub(super) data_offset: u64,
    extent: u64,
    next_id: Cell<u64>,
    /// How often a device came or went.
    changes: Cell<u64>,
    /// Wakes who waits for a change.
    changed: Notify,
    losses: Losses,
}

impl Members {
    pub(crate) fn new(devices: Vec<Option<DeviceRef>>, data_offset: u64, extent: u64) -> Members {
        let slot = |device: Option<DeviceRef>| Slot {
            state: Cell::new(if device.is_some() {
                MemberState::Active
            } else {
                MemberState::Missing
            }),
            rotational: Cell::new(
                device.as_ref().is_some_and(|device| device.geometry().rotational),
            ),
            device: RefCell::new(device),
            id: Cell::new(DeviceId(0)),
            there: RefCell::default(),
            replacement: RefCell::default(),
            head: Cell::new(0),
            in_flight: Cell::new(0),
            read_errors: Cell::new(0),
            write_errors: Cell::new(0),
            corrected: Cell::new(0),
        };
        let slots: Vec<Slot> = devices.into_iter().map(slot).collect();
        let members = Members {
            slots,
            spares: RefCell::default(),
            data_offset,
            extent,
            next_id: Cell::new(0),
            changes: Cell::new(0),
            changed: Notify::new(),
            losses: Losses::default(),
        };
        members.slots.iter().for_each(|slot| slot.id.set(members.new_id()));
        members
    }

    fn new_id(&self) -> DeviceId {
        self.next_id.set(self.next_id.get() + 1);
        DeviceId(self.next_id.get())
    }

    /// How often a device came into a slot or went out of it, as a member or to replace one.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    fn count_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.changed.notify_waiters();
    }

    /// Ends with the next change after this was called, also where it is first polled later.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    /// Wakes who watches: something is to be seen that is no change of devices.
    pub(crate) fn wake_watchers(&self) {
        self.changed.notify_waiters();
    }

    /// The devices that were lost after the loss with this number.
    pub(crate) fn losses(&self, after: u64) -> Vec<Loss> {
        self.losses.after(after)
    }

    /// The device that stands in the slot now.
    pub(crate) fn id(&self, slot: usize) -> DeviceId {
        self.slots[slot].id.get()
    }

    /// How many slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of each data area that the array uses.
    pub(crate) fn extent(&self) -> u64 {
        self.extent
    }

    pub(crate) fn data_offset(&self) -> u64 {
        self.data_offset
    }

    pub(crate) fn state(&self, slot: usize) -> MemberState {
        self.slots[slot].state.get()
    }

    /// Whether the slot takes part in the array now.
    pub(crate) fn is_active(&self, slot: usize) -> bool {
        self.state(slot) == MemberState::Active
    }

    /// Whether all members are there.
    pub(crate) fn all_active(&self) -> bool {
        self.slots.iter().all(|slot| slot.state.get() == MemberState::Active)
    }

    /// A member that holds the right content only below this byte, as its superblock says.
    pub(crate) fn set_recovered(&self, slot: usize, below: u64) {
        let mut there = RangeSet::default();
        there.insert(0..below.min(self.extent));
        self.set_there(slot, there);
    }

    /// A member that holds the right content only in these ranges.
    pub(crate) fn set_there(&self, slot: usize, there: RangeSet) {
        let slot = &self.slots[slot];
        if slot.state.get() == MemberState::Active {
            assert!(there.total() <= self.extent, "nobody has more than all of it");
            slot.state.set(MemberState::Rebuilding);
            *slot.there.borrow_mut() = there;
            self.settle_state(slot);
        }
    }

    /// A member that was away stands in its slot again, and has what was not written meanwhile. False
    /// where somebody stands there.
    pub(crate) fn come_back(&self, slot: usize, device: DeviceRef, there: RangeSet) -> bool {
        if !matches!(self.state(slot), MemberState::Failed | MemberState::Missing) {
            return false;
        }
        self.check_room(&device);
        self.slots[slot].take(device, self.new_id(), MemberState::Active);
        self.count_change();
        self.set_there(slot, there);
        true
    }

    /// The first stretch from `from` on that a slot, or its replacement, does not have yet.
    pub(crate) fn missing_part(
        &self,
        slot: usize,
        replacement: bool,
        from: u64,
    ) -> Option<Range<u64>> {
        let slot = &self.slots[slot];
        if replacement {
            let other = slot.replacement.borrow();
            return other.as_ref().and_then(|other| other.copied.gap(from, self.extent));
        }
        match slot.state.get() {
            MemberState::Active => None,
            _ => slot.there.borrow().gap(from, self.extent),
        }
    }

    /// The spares.
    pub(crate) fn spares(&self) -> Vec<DeviceRef> {
        self.spares.borrow().clone()
    }

    /// Takes a spare away, by its very name: the string itself, not its text.
    pub(crate) fn take_spare(&self, name: &Arc<str>) -> Option<DeviceRef> {
        let mut spares = self.spares.borrow_mut();
        let place = spares.iter().position(|spare| Arc::ptr_eq(&spare.name(), name));
        place.map(|place| spares.remove(place))
    }

    /// A spare is not used any more.
    pub(crate) fn lose_spare(&self, name: &Arc<str>, cause: Cause) {
        if let Some(spare) = self.take_spare(name) {
            self.losses.note(None, MemberState::Spare, spare.name(), cause);
            self.count_change();
        }
    }

    /// A slot's replacement is not filled any further.
    pub(crate) fn lose_replacement(&self, slot: usize, cause: Cause) {
        let other = self.slots[slot].replacement.borrow_mut().take();
        if let Some(other) = other {
            let name = other.device.name();
            self.losses.note(Some(slot), MemberState::Replacement, name, cause);
            self.count_change();
        }
    }

    /// How much of a replacement is right, from its start, as its superblock says.
    pub(crate) fn set_copied(&self, slot: usize, below: u64) {
        if let Some(other) = &mut *self.slots[slot].replacement.borrow_mut() {
            other.copied.insert(0..below.min(self.extent));
        }
    }

    /// Up to where a replacement has all that it should have.
    pub(crate) fn copied(&self, slot: usize) -> u64 {
        self.slots[slot].replacement.borrow().as_ref().map_or(0, |other| other.copied.prefix())
    }

    /// Up to where a slot has all that it should have.
    pub(crate) fn recovered(&self, slot: usize) -> u64 {
        let slot = &self.slots[slot];
        match slot.state.get() {
            MemberState::Active => self.extent,
            MemberState::Rebuilding => slot.there.borrow().prefix(),
            _ => 0,
        }
    }

    /// Whether a range of the slot's data area can be read and is right.
    pub(crate) fn readable(&self, slot: usize, range: &Range<u64>) -> bool {
        let slot = &self.slots[slot];
        match slot.state.get() {
            MemberState::Active => true,
            MemberState::Rebuilding => slot.there.borrow().covers(range),
            _ => false,
        }
    }

    /// Whether a write to some of the range would reach the slot.
    pub(crate) fn writable(&self, slot: usize, range: &Range<u64>) -> bool {
        let slot = &self.slots[slot];
        match slot.state.get() {
            MemberState::Active => true,
            MemberState::Rebuilding => slot.there.borrow().touches(range),
            _ => false,
        }
    }

    /// Every device that holds data of the array.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (usize, DeviceId, DeviceRef)> {
        self.slots.iter().enumerate().flat_map(|(index, slot)| {
            let own = slot.device.borrow().clone().map(|device| (index, slot.id.get(), device));
            let other = slot
                .replacement
                .borrow()
                .as_ref()
                .map(|other| (index, other.id, Rc::clone(&other.device)));
            own.into_iter().chain(other)
        })
    }

    /// How far `at` is from where the slot's last request ended; none for what does not rotate.
    pub(crate) fn distance(&self, slot: usize, at: u64) -> Option<u64> {
        let slot = &self.slots[slot];
        slot.rotational.get().then(|| slot.head.get().abs_diff(at))
    }

    pub(crate) fn in_flight(&self, slot: usize) -> u32 {
        self.slots[slot].in_flight.get()
    }

    /// Counts a request of a slot in (+1) or out (-1).
    pub(crate) fn count_in_flight(&self, slot: usize, change: i32) {
        let in_flight = &self.slots[slot].in_flight;
        in_flight.set(
            in_flight
                .get()
                .checked_add_signed(change)
                .expect("each request that is counted out was counted in"),
        );
    }

    pub(crate) fn count_corrected(&self, slot: usize) {
        let corrected = &self.slots[slot].corrected;
        corrected.set(corrected.get() + 1);
    }

    /// The slot's device is not used any more; a replacement takes its place.
    pub(crate) fn fail(&self, slot: usize, cause: Cause) {
        let (index, slot) = (slot, &self.slots[slot]);
        let was = slot.state.get();
        if !matches!(was, MemberState::Active | MemberState::Rebuilding) {
            return;
        }
        self.count_change();
        slot.state.set(MemberState::Failed);
        if let Some(device) = slot.device.borrow_mut().take() {
            self.losses.note(Some(index), was, device.name(), cause);
        }
        *slot.there.borrow_mut() = RangeSet::default();
        if let Some(other) = slot.replacement.borrow_mut().take() {
            slot.take(other.device, other.id, MemberState::Rebuilding);
            *slot.there.borrow_mut() = other.copied;
            self.settle_state(slot);
        }
    }

    /// A rebuild that has covered everything is at its end.
    fn settle_state(&self, slot: &Slot) {
        if slot.state.get() == MemberState::Rebuilding
            && slot.there.borrow().covers(&(0..self.extent))
        {
            slot.state.set(MemberState::Active);
            *slot.there.borrow_mut() = RangeSet::default();
            self.wake_watchers();
        }
    }

    /// False where there are as many as are [kept](SPARES_MAX).
    pub(crate) fn add_spare(&self, device: DeviceRef) -> bool {
        let mut spares = self.spares.borrow_mut();
        let has_place = spares.len() < SPARES_MAX;
        if has_place {
            spares.push(device);
            self.wake_watchers();
        }
        has_place
    }

    /// Puts the first spare into a failed or missing slot, to be rebuilt. True where the slot is
    /// rebuilding now.
    pub(crate) fn begin_rebuild(&self, slot: usize) -> bool {
        let state = self.state(slot);
        if state == MemberState::Rebuilding {
            return true;
        }
        let mut spares = self.spares.borrow_mut();
        if !matches!(state, MemberState::Failed | MemberState::Missing) || spares.is_empty() {
            return false;
        }
        let spare = spares.remove(0);
        self.check_room(&spare);
        self.slots[slot].take(spare, self.new_id(), MemberState::Rebuilding);
        self.count_change();
        true
    }

    /// Who takes a slot has room for all of it: who brought it has measured it.
    fn check_room(&self, device: &DeviceRef) {
        let room = device.geometry().capacity.bytes();
        assert!(self.data_offset + self.extent <= room, "who takes a slot has room for all of it");
    }

    /// Gives a slot a replacement to be filled.
    pub(crate) fn begin_replace(&self, slot: usize, device: DeviceRef) {
        self.check_room(&device);
        self.count_change();
        *self.slots[slot].replacement.borrow_mut() =
            Some(Replacement { id: self.new_id(), device, copied: RangeSet::default() });
    }

    pub(crate) fn has_replacement(&self, slot: usize) -> bool {
        self.slots[slot].replacement.borrow().is_some()
    }

    /// Whether so many separate stretches are filled that no more can be kept apart.
    pub(crate) fn is_scattered(&self, slot: usize) -> bool {
        let slot = &self.slots[slot];
        slot.there.borrow().len() >= RANGES_MAX
            || slot
                .replacement
                .borrow()
                .as_ref()
                .is_some_and(|other| other.copied.len() >= RANGES_MAX)
    }

    /// A range of a device was filled. With everything filled, a rebuilding member is active, and a
    /// replacement takes its slot. False where the device is out of use.
    pub(crate) fn filled(&self, slot: usize, id: DeviceId, range: Range<u64>) -> bool {
        assert!(range.end <= self.extent, "what is filled lies within the data area");
        let slot = &self.slots[slot];
        if slot.id.get() == id && slot.device.borrow().is_some() {
            if slot.state.get() == MemberState::Rebuilding {
                let mut there = slot.there.borrow_mut();
                there.insert(range);
                assert!(there.len() <= RANGES_MAX + RANGES_SPARE, "nobody fills more stretches");
                drop(there);
                self.settle_state(slot);
            }
            return true;
        }
        let mut other = slot.replacement.borrow_mut();
        let Some(filling) = other.as_mut().filter(|other| other.id == id) else { return false };
        filling.copied.insert(range);
        let stretches = filling.copied.len();
        assert!(stretches <= RANGES_MAX + RANGES_SPARE, "nobody fills more stretches");
        if filling.copied.covers(&(0..self.extent))
            && let Some(done) = other.take()
        {
            slot.take(done.device, done.id, MemberState::Active);
            self.count_change();
            *slot.there.borrow_mut() = RangeSet::default();
        }
        true
    }

    pub(crate) fn reports(&self) -> Vec<MemberReport> {
        let mut reports = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let name = slot.device.borrow().as_ref().map(|device| device.name());
            let recovered = match slot.state.get() {
                MemberState::Active => self.extent,
                _ => slot.there.borrow().total(),
            };
            reports.push(MemberReport {
                slot: Some(index),
                state: slot.state.get(),
                name,
                recovered: ByteCount(recovered),
                read_errors: slot.read_errors.get(),
                write_errors: slot.write_errors.get(),
                corrected: slot.corrected.get(),
                lost: self.losses.last_of(index),
            });
            if let Some(other) = &*slot.replacement.borrow() {
                let recovered = ByteCount(other.copied.total());
                reports.push(idle_report(
                    Some(index),
                    MemberState::Replacement,
                    &other.device,
                    recovered,
                ));
            }
        }
        for spare in &*self.spares.borrow() {
            reports.push(idle_report(None, MemberState::Spare, spare, ByteCount::ZERO));
        }
        reports
    }
}

fn idle_report(
    slot: Option<usize>,
    state: MemberState,
    device: &DeviceRef,
    recovered: ByteCount,
) -> MemberReport {
    MemberReport {
        slot,
        state,
        name: Some(device.name()),
        recovered,
        read_errors: 0,
        write_errors: 0,
        corrected: 0,
        lost: None,
    }
}

impl Slot {
    fn take(&self, device: DeviceRef, id: DeviceId, state: MemberState) {
        self.id.set(id);
        self.rotational.set(device.geometry().rotational);
        self.head.set(0);
        *self.device.borrow_mut() = Some(device);
        self.state.set(state);
    }
}
