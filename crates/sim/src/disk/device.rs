//! A simulated hard disk as a [`Device`]: the [model](super::model) for time, a store and a buffer for bytes.
//!
//! The store is the medium. A write goes into the buffer when the model says so, and from there to the
//! medium when it was written back; reads see the buffer over the medium. So a power cut loses exactly
//! what the model had not written back: the buffer is dropped.
//!
//! After a [power cut](Disk::cut_power) every request fails until [`Disk::power_on`]. Discards take no
//! time and change nothing: hard disks keep what is discarded.

use super::model::{Action, Command, CommandId, DiskModel, Effect};
use crate::content;
use crate::held::HeldData;
use crate::pending::Pending;
use crate::profile::DiskProfile;
use crate::reactor::{SimReactor, Timed, TimedKey};
use crate::store::Store;
use rt::{
    Device, Geometry, IoError, IoErrorKind, IoFuture, IoResult, Op, Reactor, Request, SgList,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use stdx::{ByteCount, Duration, Instant, Offset, Prng};

/// A simulated hard disk. See the [module](self).
pub struct Disk {
    name: Arc<str>,
    geometry: Cell<Geometry>,
    block: u64,
    reactor: Rc<SimReactor>,
    key: TimedKey,
    announced: Cell<Instant>,
    powered: Cell<bool>,
    inner: RefCell<Inner>,
}

struct Inner {
    model: DiskModel,
    medium: Store,
    buffer: HeldData,
    pending: Pending,
    effects: Vec<Effect>,
}

impl Disk {
    /// A disk of this profile, all zeros, in a random phase.
    pub fn new(
        reactor: &Rc<SimReactor>,
        name: impl Into<Arc<str>>,
        profile: &DiskProfile,
        prng: &mut Prng,
    ) -> Rc<Disk> {
        let model = DiskModel::new(profile, prng);
        let block = profile.sector_bytes.value;
        let capacity = ByteCount(profile.sectors.value * block);
        let geometry = Geometry {
            logical_block: ByteCount(block),
            physical_block: ByteCount(profile.physical_sector_bytes.value),
            rotational: true,
            volatile_cache: model.write_cache(),
            ..Geometry::plain(capacity)
        };
        Rc::new_cyclic(|weak: &Weak<Disk>| Disk {
            name: name.into(),
            geometry: Cell::new(geometry),
            block,
            reactor: Rc::clone(reactor),
            key: reactor.register(weak.clone()),
            announced: Cell::new(Instant::NEVER),
            powered: Cell::new(true),
            inner: RefCell::new(Inner {
                model,
                medium: Store::new(capacity),
                buffer: HeldData::default(),
                pending: Pending::default(),
                effects: Vec::new(),
            }),
        })
    }

    /// Turns the write cache on or off, as `hdparm -W` does; before the first request.
    ///
    /// # Panics
    /// When the disk is busy or holds unwritten data.
    pub fn set_write_cache(&self, on: bool) {
        self.inner.borrow_mut().model.set_write_cache(on);
        self.geometry.set(Geometry { volatile_cache: on, ..self.geometry.get() });
    }

    /// Has flushes and FUA ignored, or honoured, as they are by default.
    pub fn ignore_flushes(&self, ignored: bool) {
        self.inner.borrow_mut().model.ignore_flushes(ignored);
    }

    /// Cuts the power: what was answered and not yet on the medium is lost, what was being written is
    /// torn, requests under way fail.
    pub fn cut_power(&self, prng: &mut Prng) {
        self.powered.set(false);
        let now = self.reactor.now();
        self.advance(now);
        let inner = &mut *self.inner.borrow_mut();
        if let Some((blocks, id)) = inner.model.cut_power(now) {
            let (at, len) = self.range(&blocks);
            match id {
                Some(id) => {
                    let data = data_of(inner.pending.request(id));
                    content::write(&mut inner.medium, at, &data.slice(0..len.as_usize()));
                }
                None => inner.write_back(at, len),
            }
        }
        inner.model.set_phase(prng);
        inner.buffer.clear();
        inner.pending.fail_all(self, IoErrorKind::PowerCut);
    }

    /// Turns the power on again.
    pub fn power_on(&self) {
        self.powered.set(true);
    }

    /// For how long its mechanism was at work until now.
    pub fn at_work(&self) -> Duration {
        self.inner.borrow_mut().model.at_work(self.reactor.now())
    }

    /// Reads that were answered from its buffer until now: what the heads had read, or what was written.
    pub fn answered_from_buffer(&self) -> u64 {
        self.inner.borrow().model.answered_from_buffer()
    }

    /// Bytes of writes that wait in its buffer, answered and not on the medium.
    pub fn unwritten(&self) -> ByteCount {
        ByteCount(self.inner.borrow().model.buffered_blocks() * self.block)
    }

    /// Whether less than half of its buffer is taken by writes: its heads keep up with what comes.
    pub fn keeps_up(&self) -> bool {
        self.inner.borrow().model.keeps_up()
    }

    /// Memory that the content takes, about.
    pub fn memory(&self) -> ByteCount {
        self.inner.borrow().medium.memory()
    }

    fn range(&self, blocks: &Range<u64>) -> (Offset, ByteCount) {
        let len = ByteCount((blocks.end - blocks.start) * self.block);
        (Offset(blocks.start * self.block), len)
    }

    /// Does what is due, and announces the next event.
    fn advance(&self, now: Instant) {
        let inner = &mut *self.inner.borrow_mut();
        let mut effects = std::mem::take(&mut inner.effects);
        inner.model.advance(now, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Buffered(id) => {
                    let request = inner.pending.request(id);
                    inner.buffer.insert(request.offset.bytes(), data_of(request));
                }
                Effect::Written(id) => {
                    let request = inner.pending.request(id);
                    let (at, data) = (request.offset, data_of(request));
                    inner.buffer.remove(at.bytes()..at.bytes() + data.len() as u64);
                    content::write(&mut inner.medium, at, &data);
                }
                Effect::WrittenBack(blocks) => {
                    let (at, len) = self.range(&blocks);
                    // What was written anew meanwhile stays in the buffer.
                    let written_anew = inner.model.buffered(blocks).next().is_some();
                    match written_anew {
                        true => inner.write_back(at, len),
                        false => inner.write_back_last(at, len),
                    }
                }
                Effect::Done(id) => {
                    let result = Self::result(inner, id);
                    inner.pending.complete(id, Ok(result));
                }
            }
        }
        inner.effects = effects;
        if let Some(next) = inner.model.next_event()
            && next < self.announced.get()
        {
            self.announced.set(next);
            self.reactor.announce(next, self.key);
        }
    }

    fn result(inner: &Inner, id: CommandId) -> SgList {
        let request = inner.pending.request(id);
        let mut out = SgList::new();
        let Op::Read(len) = request.op else { return out };
        let (mut at, end) = (request.offset, request.offset + len);
        for (place, data) in inner.buffer.within(at.bytes()..end.bytes()) {
            content::read(&inner.medium, at, Offset(place) - at, &mut out);
            at = Offset(place) + ByteCount(data.len() as u64);
            out.append(data);
        }
        content::read(&inner.medium, at, end - at, &mut out);
        out
    }
}

impl Inner {
    /// Puts on the medium what the buffer holds of a range.
    fn write_back(&mut self, at: Offset, len: ByteCount) {
        for (place, data) in self.buffer.within(at.bytes()..(at + len).bytes()) {
            content::write(&mut self.medium, Offset(place), &data);
        }
    }

    /// The same, and the buffer holds it no longer.
    fn write_back_last(&mut self, at: Offset, len: ByteCount) {
        let medium = &mut self.medium;
        self.buffer.take(at.bytes()..(at + len).bytes(), |place, data| {
            content::write(medium, Offset(place), &data);
        });
    }
}

fn data_of(request: &Request) -> SgList {
    match &request.op {
        Op::Write { data, .. } => data.clone(),
        Op::WriteZeroes(len) => SgList::zeros(len.as_usize()),
        Op::Read(_) | Op::Flush | Op::Discard(_) => unreachable!("only writes carry data"),
    }
}

impl Timed for Disk {
    fn on_event(&self, now: Instant) {
        // An event from before something earlier was announced has nothing to do: that one did it.
        if now >= self.announced.get() {
            self.announced.set(Instant::NEVER);
            self.advance(now);
        }
    }
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        if !self.powered.get() {
            return IoFuture::ready(Err(IoError::of(&request, self, IoErrorKind::PowerCut)));
        }
        let action = match &request.op {
            Op::Read(_) => Action::Read,
            Op::Write { fua, .. } => Action::Write { fua: *fua, data: true },
            Op::WriteZeroes(_) => Action::Write { fua: false, data: false },
            Op::Flush => Action::Flush,
            Op::Discard(_) => return IoFuture::ready(IoResult::Ok(SgList::new())),
        };
        let start = request.offset.bytes() / self.block;
        let blocks = match action {
            Action::Flush => 0..0,
            _ => start..start + request.len().bytes() / self.block,
        };
        let now = self.reactor.now();
        let future = {
            let inner = &mut *self.inner.borrow_mut();
            let (id, future) = inner.pending.enter(request);
            inner.model.submit(now, Command { id, action, blocks });
            future
        };
        self.advance(now);
        future
    }
}
