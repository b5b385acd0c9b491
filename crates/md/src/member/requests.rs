//! Reads and writes of members: every request to one passes here.
//!
//! A write goes to what the slot has: all of an active member, of one that is filled the ranges that are right, and
//! the same of a replacement. Nothing else gets any: what lies outside is for the rebuild, which [fills](Members::fill).

use super::state::{DeviceId, MemberState};
use super::table::Members;
use crate::loss::Cause;
use crate::together::all;
use rt::{DeviceRef, IoError, IoErrorKind, IoFuture, Op, OpKind, Priority, Request, SgList};
use smallvec::SmallVec;
use stdx::{ByteCount, Offset};

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
    /// Passes a request, with its place in the slot's data area, to the slot's device.
    #[inline]
    pub(crate) fn submit(&self, slot: usize, mut request: Request) -> IoFuture {
        let end = (request.offset + request.len()).bytes();
        assert!(end <= self.extent(), "a request of a member lies within its data area");
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
        slot.head.set(end);
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
        mut data: SgList,
        manner: Manner,
        writes: &mut Writes,
    ) {
        let range = at..at + data.len() as u64;
        let whose = Whose { slot, id: self.id(slot) };
        let other = self.slots[slot].replacement.borrow();
        match self.state(slot) {
            MemberState::Active => {
                let data = match &*other {
                    Some(_) => data.clone(),
                    None => std::mem::take(&mut data),
                };
                writes.push(self.submit(slot, manner.request(at, data)), whose);
            }
            MemberState::Rebuilding => {
                for part in self.slots[slot].there.borrow().within(range.clone()) {
                    let data = data.slice((part.start - at) as usize..(part.end - at) as usize);
                    writes.push(self.submit(slot, manner.request(part.start, data)), whose);
                }
            }
            _ => {}
        }
        if let Some(other) = &*other {
            for part in other.copied.within(range.clone()) {
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
        let end = (request.offset + request.len()).bytes();
        assert!(end <= self.extent(), "a request of a replacement lies within its data area");
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
        assert_eq!(whose.len(), writes.futures.len(), "each write has its member");
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
