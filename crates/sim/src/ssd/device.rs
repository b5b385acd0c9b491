//! A simulated solid-state drive as a [`Device`]: the [model](super::model) for time, a store for bytes.
//!
//! The store is what the host sees. A drive whose buffer does not survive a power cut also keeps, for
//! each write that has not reached the flash, what was there before; a power cut puts that back. So a
//! cut loses the writes from some moment on, none that was flushed, and the log is never longer than
//! the drive's buffer.

use super::ftl::SsdState;
use super::model::{SsdModel, UnitNumber};
use crate::content;
use crate::pending::Pending;
use crate::profile::SsdProfile;
use crate::reactor::{SimReactor, Timed, TimedKey};
use crate::store::Store;
use rt::{Device, Geometry, IoError, IoErrorKind, IoFuture, Op, Reactor, Request, SgList};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::{ByteCount, Instant, Offset};

/// A simulated solid-state drive. See the [module](self).
pub struct Ssd {
    name: Arc<str>,
    geometry: Geometry,
    reactor: Rc<SimReactor>,
    key: TimedKey,
    powered: Cell<bool>,
    inner: RefCell<Inner>,
}

struct Inner {
    model: SsdModel,
    store: Store,
    pending: Pending,
    /// Answers to come, ties in the order of submission.
    answers: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    submitted: u64,
    announced: Instant,
    /// What volatile writes replaced, oldest first.
    replaced: VecDeque<(UnitNumber, Offset, SgList)>,
}

impl Ssd {
    /// A drive of this profile in this state, all zeros to read.
    pub fn new(
        reactor: &Rc<SimReactor>,
        name: impl Into<Arc<str>>,
        profile: &SsdProfile,
        state: SsdState,
    ) -> Rc<Ssd> {
        let model = SsdModel::new(profile, state);
        let block = ByteCount(profile.sector_bytes.value);
        let capacity = block * profile.sectors.value;
        let geometry = Geometry {
            logical_block: block,
            physical_block: block.max(ByteCount(profile.mapping_bytes.value)),
            volatile_cache: model.volatile(),
            ..Geometry::plain(capacity)
        };
        Rc::new_cyclic(|weak: &Weak<Ssd>| Ssd {
            name: name.into(),
            geometry,
            reactor: Rc::clone(reactor),
            key: reactor.register(weak.clone()),
            powered: Cell::new(true),
            inner: RefCell::new(Inner {
                model,
                store: Store::new(capacity),
                pending: Pending::default(),
                answers: BinaryHeap::new(),
                submitted: 0,
                announced: Instant::NEVER,
                replaced: VecDeque::new(),
            }),
        })
    }

    /// Cuts the power: a volatile buffer is lost, requests under way fail.
    pub fn cut_power(&self) {
        self.powered.set(false);
        let now = self.reactor.now();
        let inner = &mut *self.inner.borrow_mut();
        inner.settle(now);
        while let Some((_, at, before)) = inner.replaced.pop_back() {
            content::write(&mut inner.store, at, &before);
        }
        inner.model.cut_power(now);
        inner.answers.clear();
        inner.pending.fail_all(self, IoErrorKind::PowerCut);
    }

    /// Has flushes and FUA ignored, or honoured, as they are by default.
    pub fn ignore_flushes(&self, ignored: bool) {
        self.inner.borrow_mut().model.ignore_flushes(ignored);
    }

    /// When all whole units that the buffer holds are on the medium; none where it holds none.
    pub fn written_out(&self) -> Option<Instant> {
        self.inner.borrow().model.written_out()
    }

    /// Turns the power on again.
    pub fn power_on(&self) {
        self.powered.set(true);
    }

    /// Bytes written to flash for each byte of the host, at this moment.
    pub fn write_amplification(&self) -> f64 {
        self.inner.borrow().model.write_amplification()
    }

    /// Memory that the content takes, about.
    pub fn memory(&self) -> ByteCount {
        self.inner.borrow().store.memory()
    }
}

impl Inner {
    /// Forgets what was replaced by writes that are on the flash by now.
    fn settle(&mut self, now: Instant) {
        while let Some((unit, ..)) = self.replaced.front() {
            if !self.model.on_medium(*unit, now) {
                return;
            }
            self.replaced.pop_front();
        }
    }

    fn replace(&mut self, now: Instant, at: Offset, data: &SgList, unit: UnitNumber) {
        if self.model.volatile() {
            self.settle(now);
            let mut before = SgList::new();
            content::read(&self.store, at, ByteCount(data.len() as u64), &mut before);
            self.replaced.push_back((unit, at, before));
        }
        content::write(&mut self.store, at, data);
    }
}

impl Timed for Ssd {
    fn on_event(&self, now: Instant) {
        let inner = &mut *self.inner.borrow_mut();
        if now < inner.announced {
            // An earlier answer was announced later; that event dealt with this one. Were it to announce
            // the next too, events would multiply.
            return;
        }
        while let Some(Reverse((at, _, id))) = inner.answers.peek().copied()
            && at <= now
        {
            inner.answers.pop();
            let mut out = SgList::new();
            let request = inner.pending.request(id);
            if let Op::Read(len) = request.op {
                content::read(&inner.store, request.offset, len, &mut out);
            }
            inner.pending.complete(id, Ok(out));
        }
        inner.announced = Instant::NEVER;
        if let Some(Reverse((at, ..))) = inner.answers.peek() {
            inner.announced = *at;
            self.reactor.announce(*at, self.key);
        }
    }
}

impl Device for Ssd {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        if !self.powered.get() {
            return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::PowerCut)));
        }
        let now = self.reactor.now();
        let inner = &mut *self.inner.borrow_mut();
        let start = request.offset.bytes();
        let bytes = start..start + request.len().bytes();
        let done = match &request.op {
            Op::Read(_) => inner.model.read(now, bytes),
            Op::Write { data, fua } => {
                let (done, unit) = inner.model.write(now, bytes, *fua);
                inner.replace(now, request.offset, data, unit);
                done
            }
            Op::WriteZeroes(len) | Op::Discard(len) => {
                inner.store.write_word(request.offset, *len, 0);
                inner.model.forget(now, bytes)
            }
            Op::Flush => inner.model.flush(now),
        };
        let (id, future) = inner.pending.enter(request);
        inner.submitted += 1;
        inner.answers.push(Reverse((done, inner.submitted, id)));
        if done < inner.announced {
            inner.announced = done;
            self.reactor.announce(done, self.key);
        }
        future
    }
}
