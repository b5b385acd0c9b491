//! The members of an array: which device stands in which slot, in what state, and how it is asked.
//!
//! ```text
//!             add a spare, rebuild            covered the whole member
//!   Missing ───────────────────────▶ Rebuilding ───────────────────────▶ Active
//!   Failed  ──────────▲                  │ fails                            │ fails, fail()
//!      ▲──────────────┴──────────────────┴──────────────────────────────────┘
//! ```
//!
//! Beside that, a slot may have a **replacement**: a device that is filled with the slot's content
//! while the slot goes on working. When it has all, it takes the slot; when the slot fails before, the
//! replacement takes the slot at once, as a rebuild that is partly done.
//!
//! **What is there.** A member that is being rebuilt has a set of ranges that are right. It is read
//! only within them, and written only within them: what lies outside counts as missing, and the
//! rebuild will put it there. The same goes for writing to a replacement. Whoever adds a range holds
//! the lock over its rows, so no write falls between.
//!
//! **Errors.** A read that ends with [`IoErrorKind::Medium`] is one bad place; the engine computes the
//! bytes from elsewhere and writes them there again. Any other error of a read, and any error of a
//! write, fails the member, as md does. Counted by slot. An answer may come when its device is no longer
//! in the slot: so each device has a [`DeviceId`], and an error fails the device that made it, wherever
//! it stands now, and nobody else. Why a device is not used any more is [noted](crate::loss).
//!
//! **Who watches** waits for [`Members::changed`]: a device came or went, or one that was filled has everything.

use crate::loss::{Cause, Loss, Losses};
use crate::ranges::RangeSet;
use crate::superblock::v1::DEVICES_MAX;
use crate::together::all;
use rt::sync::Notify;
use rt::{DeviceRef, IoError, IoErrorKind, IoFuture, Op, OpKind, Priority, Request, SgList};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// So many spares are kept: as many devices as a superblock can list, so that every set that can be written down can
/// be opened.
pub const SPARES_MAX: usize = DEVICES_MAX;

/// What a device is to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// In its slot, with everything it should have.
    Active,
    /// In its slot, partly filled.
    Rebuilding,
    /// Was in the slot and is not used any more.
    Failed,
    /// The slot has been empty from the start.
    Missing,
    /// Waits for a slot.
    Spare,
    /// Is being filled to take over a slot.
    Replacement,
}

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

/// Tells the devices that were members apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(u64);

/// A device that is being filled to take over a slot.
struct Replacement {
    id: DeviceId,
    device: DeviceRef,
    copied: RangeSet,
}

/// One slot.
struct Slot {
    device: RefCell<Option<DeviceRef>>,
    id: Cell<DeviceId>,
    state: Cell<MemberState>,
    /// While it is rebuilding: what is right.
    there: RefCell<RangeSet>,
    replacement: RefCell<Option<Replacement>>,
    rotational: Cell<bool>,
    /// Where the last read or write of it ended.
    head: Cell<u64>,
    in_flight: Cell<u32>,
    read_errors: Cell<u64>,
    write_errors: Cell<u64>,
    corrected: Cell<u64>,
}

/// See the [module](self).
pub(crate) struct Members {
    slots: Vec<Slot>,
    spares: RefCell<Vec<DeviceRef>>,
    data_offset: u64,
    extent: u64,
    next_id: Cell<u64>,
    /// How often a device came or went.
    changes: Cell<u64>,
    /// Wakes who waits for a change.
    changed: Notify,
    losses: Losses,
}

/// What a write of a member is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub(crate) fua: bool,
    pub(crate) priority: Priority,
    /// Zeros, and the member may do it in its own way.
    pub(crate) zeroes: bool,
}

/// Writes under way, to be [settled](Members::settle).
#[derive(Default)]
pub(crate) struct Writes {
    futures: SmallVec<[IoFuture; 4]>,
    whose: SmallVec<[Whose; 4]>,
}

#[derive(Clone, Copy)]
struct Whose {
    slot: usize,
    id: DeviceId,
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
            MemberState::Rebuilding => slot.there.borrow().contains(range),
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

    /// Passes a request, with its place in the slot's data area, to the slot's device.
    pub(crate) fn submit(&self, slot: usize, mut request: Request) -> IoFuture {
        let slot = &self.slots[slot];
        let device = slot.device.borrow();
        let Some(device) = &*device else {
            return IoFuture::ready(Err(IoError {
                kind: IoErrorKind::TooFewMembers,
                op: request.kind(),
                offset: request.offset,
                len: request.len(),
                device: "a missing member".into(),
            }));
        };
        slot.head.set((request.offset + request.len()).bytes());
        request.offset += ByteCount(self.data_offset);
        device.submit(request)
    }

    /// Reads from a slot's device.
    pub(crate) fn read(&self, slot: usize, at: u64, len: u64, priority: Priority) -> IoFuture {
        self.submit(slot, Request::read(Offset(at), ByteCount(len)).with_priority(priority))
    }

    /// Writes to a slot, and to its replacement, what of it belongs there now.
    pub(crate) fn write(
        &self,
        slot: usize,
        at: u64,
        data: &SgList,
        manner: Manner,
        writes: &mut Writes,
    ) {
        let range = at..at + data.len() as u64;
        let whose = Whose { slot, id: self.id(slot) };
        match self.state(slot) {
            MemberState::Active => {
                writes.push(self.submit(slot, manner.request(at, data.clone())), whose)
            }
            MemberState::Rebuilding => {
                for part in self.slots[slot].there.borrow().parts(&range) {
                    let data = data.slice((part.start - at) as usize..(part.end - at) as usize);
                    writes.push(self.submit(slot, manner.request(part.start, data)), whose);
                }
            }
            _ => {}
        }
        if let Some(other) = &*self.slots[slot].replacement.borrow() {
            for part in other.copied.parts(&range) {
                let data = data.slice((part.start - at) as usize..(part.end - at) as usize);
                let future = self.submit_to(&other.device, manner.request(part.start, data));
                writes.push(future, Whose { slot, id: other.id });
            }
        }
    }

    /// The device that is filled: the slot's, or its replacement.
    pub(crate) fn target_id(&self, slot: usize, replacement: bool) -> DeviceId {
        let own = self.id(slot);
        let other = self.slots[slot].replacement.borrow();
        other.as_ref().filter(|_| replacement).map_or(own, |other| other.id)
    }

    /// Writes to a member that is rebuilding, or to a replacement, whatever is there. Tells which.
    pub(crate) fn fill(
        &self,
        slot: usize,
        replacement: bool,
        at: u64,
        data: SgList,
        manner: Manner,
        writes: &mut Writes,
    ) -> DeviceId {
        let (request, id) = (manner.request(at, data), self.target_id(slot, replacement));
        let future = match &*self.slots[slot].replacement.borrow() {
            Some(other) if other.id == id => self.submit_to(&other.device, request),
            _ => self.submit(slot, request),
        };
        writes.push(future, Whose { slot, id });
        id
    }

    fn submit_to(&self, device: &DeviceRef, mut request: Request) -> IoFuture {
        request.offset += ByteCount(self.data_offset);
        device.submit(request)
    }

    /// Waits for writes; who fails is failed, unless `spare_it` says that the array can't do without.
    /// Tells the first error of one that was spared.
    pub(crate) async fn settle(
        &self,
        writes: Writes,
        spare_it: impl Fn(usize) -> bool,
    ) -> Option<IoErrorKind> {
        let mut first = None;
        let whose = writes.whose;
        for (result, whose) in all(writes.futures).await.into_iter().zip(whose) {
            let Err(error) = result else { continue };
            let cause = Cause::Io { op: error.op, kind: error.kind };
            if !self.write_failed(whose.slot, whose.id, cause, &spare_it) {
                first = first.or(Some(error.kind));
            }
        }
        first
    }

    /// Makes durable what lies in volatile caches. Who can't has failed.
    pub(crate) async fn flush_caches(&self) {
        let cached = self.devices().filter(|(_, _, device)| device.geometry().volatile_cache);
        let (whose, flushes): (Vec<_>, _) =
            cached.map(|(slot, id, device)| ((slot, id), device.submit(Request::flush()))).unzip();
        for ((slot, id), flushed) in whose.into_iter().zip(all(flushes).await) {
            if let Err(error) = flushed {
                let cause = Cause::Io { op: error.op, kind: error.kind };
                self.write_failed(slot, id, cause, |_| false);
            }
        }
    }

    /// Notes a failed write. True where the device is out of use now, false where it was spared.
    pub(crate) fn write_failed(
        &self,
        slot: usize,
        id: DeviceId,
        cause: Cause,
        spare_it: impl Fn(usize) -> bool,
    ) -> bool {
        let errors = &self.slots[slot].write_errors;
        errors.set(errors.get() + 1);
        let spared = self.id(slot) == id && spare_it(slot);
        if !spared {
            self.fail_device(slot, id, cause);
        }
        !spared
    }

    /// Notes a failed read. True where only the place is bad, false where the device is out of use.
    pub(crate) fn read_failed(
        &self,
        slot: usize,
        id: DeviceId,
        kind: IoErrorKind,
        spare_it: impl Fn(usize) -> bool,
    ) -> bool {
        let errors = &self.slots[slot].read_errors;
        errors.set(errors.get() + 1);
        let is_there = self.id(slot) == id;
        let place_only = is_there && kind == IoErrorKind::Medium;
        if !(place_only || is_there && spare_it(slot)) {
            self.fail_device(slot, id, Cause::Io { op: OpKind::Read, kind });
        }
        place_only
    }

    /// Fails a device, where it stands now.
    fn fail_device(&self, slot: usize, id: DeviceId, cause: Cause) {
        if self.id(slot) == id {
            self.fail(slot, cause);
        } else if self.target_id(slot, true) == id {
            self.lose_replacement(slot, cause);
        }
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
            && slot.there.borrow().contains(&(0..self.extent))
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
        self.slots[slot].take(spares.remove(0), self.new_id(), MemberState::Rebuilding);
        self.count_change();
        true
    }

    /// Gives a slot a replacement to be filled.
    pub(crate) fn begin_replace(&self, slot: usize, device: DeviceRef) {
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
        slot.there.borrow().is_full()
            || slot.replacement.borrow().as_ref().is_some_and(|other| other.copied.is_full())
    }

    /// A range of a device was filled. With everything filled, a rebuilding member is active, and a
    /// replacement takes its slot. False where the device is out of use.
    pub(crate) fn filled(&self, slot: usize, id: DeviceId, range: Range<u64>) -> bool {
        let slot = &self.slots[slot];
        if slot.id.get() == id && slot.device.borrow().is_some() {
            if slot.state.get() == MemberState::Rebuilding {
                slot.there.borrow_mut().insert(range);
                self.settle_state(slot);
            }
            return true;
        }
        let mut other = slot.replacement.borrow_mut();
        let Some(filling) = other.as_mut().filter(|other| other.id == id) else { return false };
        filling.copied.insert(range);
        if filling.copied.contains(&(0..self.extent))
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

impl Manner {
    fn request(&self, at: u64, data: SgList) -> Request {
        let op = if self.zeroes {
            Op::WriteZeroes(ByteCount(data.len() as u64))
        } else {
            Op::Write { data, fua: self.fua }
        };
        Request { op, offset: Offset(at), priority: self.priority }
    }
}

impl Writes {
    fn push(&mut self, future: IoFuture, whose: Whose) {
        self.futures.push(future);
        self.whose.push(whose);
    }
}
