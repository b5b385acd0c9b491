//! The cache of a RAID controller before one volume.
//!
//! * *Writes* are answered when they are in the cache, where it is set to write back. When it is
//!   write-through they go through, and so does a write as large as half of the cache. When the cache
//!   is full of unwritten data, writes wait for room, in their order.
//! * *Write-back* goes over the volume in one direction and begins anew (an elevator), in pieces that
//!   start and end on multiples of the write-back size where the data allows, so that full stripes
//!   stay full. It starts when the cache is filled beyond a mark, with many pieces under way; or when
//!   no write came for a while, with one.
//! * *Flushes*: honoured, one waits until all that is dirty is written back, and then flushes the
//!   volume; ignored, it is answered at once. A write with FUA that is taken into a cache without
//!   battery goes through, unless flushes are ignored.
//! * *Reads* come from the cache where it holds them. A stream that was read in order is read ahead.
//!
//! A write-back that fails is tried again a few times; then its data is lost, and the next flush
//! fails.
//!
//! **A power cut** ([`CachedDevice::cut_power`]) fails all that is under way. With a battery, dirty data
//! stays, and so does what was being written back, which may be torn below; without one, all is lost.
//! Then [`CachedDevice::power_on`] is given the volume, as it was put together anew.
//!
//! Not modelled: mirroring the cache to a second controller, a battery that is being relearnt, caches
//! of the disks below that lose what the controller wrote back: makers turn them off behind such a
//! controller, so a study of power cuts should too (`write_cache = false`).

use super::{CacheLimits, Controller};
use crate::content;
use crate::store::Store;
use futures_util::future::select;
use rt::sync::Notify;
use rt::{
    Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, IoResult, Op, Priority, Request,
    SgList,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Duration, Instant, Offset, RangeSet};

/// Without a write for so long, the controller writes back what it has.
const IDLE: Duration = Duration::from_millis(50);
/// Times that a failed write-back is tried again, and the pause before.
const RETRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Streams that are read ahead at once.
const STREAMS_MAX: usize = 16;
/// Arrivals of clean data that are remembered before those are weeded out whose data came again.
const ARRIVALS_MAX: usize = 1 << 16;

impl Controller {
    /// `volume` behind the controller's cache.
    pub fn cached(self: &Rc<Self>, volume: DeviceRef) -> Rc<CachedDevice> {
        self.cached_share(volume, 1)
    }

    /// `volume`, one of so many LUNs, behind its part of the controller's cache.
    ///
    /// # Panics
    /// If `luns` is 0.
    pub fn cached_share(self: &Rc<Self>, volume: DeviceRef, luns: u64) -> Rc<CachedDevice> {
        let limits = CacheLimits { bytes: self.cache.bytes / luns, ..self.cache };
        CachedDevice::new(self, volume, limits)
    }
}

/// A volume behind a controller's cache. How it works stands at the top of this file.
pub struct CachedDevice {
    controller: Rc<Controller>,
    limits: CacheLimits,
    volume: RefCell<DeviceRef>,
    /// As the volume had it when the cache was put before it.
    geometry: Geometry,
    name: Arc<str>,
    powered: Cell<bool>,
    /// Power cuts so far: what began before one does not go on after it.
    epoch: Cell<u64>,
    this: std::rc::Weak<CachedDevice>,
    /// What the cache holds, dirty and clean.
    store: RefCell<Store>,
    state: RefCell<State>,
    /// Something became clean, or came into the cache.
    changed: Notify,
    /// There may be more to write back, or more reason to.
    pressure: Notify,
}

#[derive(Default)]
struct State {
    dirty: RangeSet,
    writing: RangeSet,
    clean: RangeSet,
    /// In which order clean data came in; parts of it may be gone since, or have come again.
    arrivals: VecDeque<Range<u64>>,
    /// What is being read ahead, by how many reads.
    fetching: RangeSet,
    fetches: usize,
    /// What was written while something was read ahead: the reads may bring it as it was before.
    spoiled: RangeSet,
    under_way: usize,
    elevator: u64,
    last_write: Instant,
    awake: bool,
    /// Flushes and shutdowns that wait for everything to be written back.
    draining: u32,
    lost: bool,
    /// Writes that wait for room; served in order.
    tickets: u64,
    serving: u64,
    streams: [u64; STREAMS_MAX],
    next_stream: usize,
}

impl State {
    fn held(&self) -> u64 {
        self.dirty.total() + self.writing.total()
    }

    /// This range now holds what the volume holds.
    fn keep_clean(&mut self, range: Range<u64>) {
        self.clean.insert(range.clone());
        if self.arrivals.len() >= ARRIVALS_MAX.max(self.clean.len() * 2) {
            // Much of it is of data that came again. By place is an order as well.
            self.arrivals = self.clean.within(0..u64::MAX).collect();
        }
        self.arrivals.push_back(range);
    }

    /// This range is about to be written.
    fn spoil(&mut self, range: &Range<u64>) {
        self.clean.remove(range.clone());
        if self.fetches > 0 {
            self.spoiled.insert(range.clone());
        }
    }
}

impl CachedDevice {
    pub(super) fn new(
        controller: &Rc<Controller>,
        volume: DeviceRef,
        limits: CacheLimits,
    ) -> Rc<CachedDevice> {
        let (below, name) = (volume.geometry(), volume.name());
        // A controller that honours flushes says that there is something to flush, else hosts send none.
        let needs_flushes = !limits.battery || !limits.flush_ignored;
        let volatile_cache = if limits.write_back { needs_flushes } else { below.volatile_cache };
        Rc::new_cyclic(|weak| CachedDevice {
            controller: Rc::clone(controller),
            limits,
            volume: RefCell::new(volume),
            geometry: Geometry { volatile_cache, ..below },
            name,
            powered: Cell::new(true),
            epoch: Cell::new(0),
            this: weak.clone(),
            store: RefCell::new(Store::new(below.capacity)),
            state: RefCell::default(),
            changed: Notify::new(),
            pressure: Notify::new(),
        })
    }

    /// Writes everything back and waits for it, as before a shutdown.
    ///
    /// # Errors
    /// Where data could not be written back.
    pub async fn drain(&self) -> Result<(), IoError> {
        let epoch = self.epoch.get();
        self.state.borrow_mut().draining += 1;
        self.wake_writer();
        while self.state.borrow().held() > 0 && self.epoch.get() == epoch {
            self.changed.notified().await;
        }
        if self.epoch.get() != epoch {
            return Err(IoError::of(&Request::flush(), self, IoErrorKind::PowerCut));
        }
        let lost = {
            let mut state = self.state.borrow_mut();
            state.draining -= 1;
            std::mem::take(&mut state.lost)
        };
        self.changed.notify_waiters();
        if lost {
            return Err(IoError::of(&Request::flush(), self, IoErrorKind::Medium));
        }
        Ok(())
    }

    /// Cuts the power of the controller; the drives' is cut by themselves. See the top of this file.
    pub fn cut_power(&self) {
        self.powered.set(false);
        self.epoch.set(self.epoch.get() + 1);
        {
            let state = &mut *self.state.borrow_mut();
            let old = std::mem::take(state);
            if self.limits.battery {
                state.dirty = old.dirty;
                state.dirty.extend(old.writing.iter());
                state.lost = old.lost;
            } else {
                *self.store.borrow_mut() = Store::new(self.geometry.capacity);
            }
        }
        self.changed.notify_waiters();
        self.pressure.notify_waiters();
    }

    /// Turns the power on again, with the volume as it is now. What a battery kept is written back.
    pub fn power_on(&self, volume: DeviceRef) {
        *self.volume.borrow_mut() = volume;
        self.powered.set(true);
        if self.state.borrow().held() > 0 {
            self.wake_writer();
        }
    }

    fn volume(&self) -> DeviceRef {
        Rc::clone(&self.volume.borrow())
    }

    /// Bytes in the cache that the volume has not got yet.
    pub fn dirty(&self) -> ByteCount {
        ByteCount(self.state.borrow().held())
    }

    async fn serve(self: Rc<Self>, request: Request) -> IoResult {
        let (epoch, cut) = (self.epoch.get(), self.power_cut(&request));
        let result = self.serve_powered(request, epoch).await;
        if self.epoch.get() == epoch { result } else { Err(cut) }
    }

    fn power_cut(&self, request: &Request) -> IoError {
        IoError::of(request, self, IoErrorKind::PowerCut)
    }

    async fn serve_powered(self: &Rc<Self>, request: Request, epoch: u64) -> IoResult {
        let passed = self.controller.pass(request.len());
        let rt = &self.controller.rt;
        let range = request.offset.bytes()..request.offset.bytes() + request.len().bytes();
        let limits = self.limits;
        let large = request.len().bytes() * 2 > limits.bytes;
        let durable_first = request.is_fua() && !limits.battery && !limits.flush_ignored;
        match &request.op {
            Op::Read(_) => {
                let result = self.read(range, request.priority).await;
                rt.sleep_until(passed).await;
                result
            }
            Op::Write { .. } | Op::WriteZeroes(_)
                if limits.write_back && !large && !durable_first =>
            {
                rt.sleep_until(passed).await;
                let data = match request.op {
                    Op::Write { data, .. } => data,
                    _ => SgList::zeros((range.end - range.start) as usize),
                };
                self.take(range, &data, epoch).await;
                Ok(SgList::new())
            }
            Op::Flush if limits.flush_ignored => {
                rt.sleep_until(passed).await;
                if std::mem::take(&mut self.state.borrow_mut().lost) {
                    return Err(IoError::of(&request, &**self, IoErrorKind::Medium));
                }
                Ok(SgList::new())
            }
            Op::Flush if limits.write_back => {
                rt.sleep_until(passed).await;
                self.drain().await?;
                self.volume().submit(request).await
            }
            _ => {
                rt.sleep_until(passed).await;
                // What is being written back must not come after this write.
                while self.state.borrow().writing.within(range.clone()).next().is_some() {
                    self.changed.notified().await;
                }
                if self.epoch.get() != epoch {
                    return Err(self.power_cut(&request));
                }
                {
                    let state = &mut *self.state.borrow_mut();
                    state.dirty.remove(range.clone());
                    state.spoil(&range);
                }
                let result = self.volume().submit(request).await;
                self.changed.notify_waiters();
                result
            }
        }
    }

    /// Takes a write into the cache, waiting for room in the order of arrival. A flush that is under
    /// way holds it up; a power cut ends it.
    async fn take(&self, range: Range<u64>, data: &SgList, epoch: u64) {
        let limits = self.limits;
        if self.epoch.get() != epoch {
            return;
        }
        let ticket = {
            let mut state = self.state.borrow_mut();
            state.tickets += 1;
            state.tickets - 1
        };
        loop {
            let fits = {
                let state = self.state.borrow();
                let room = state.held() + range.end - range.start <= limits.bytes;
                ticket == state.serving && room && state.draining == 0
            };
            if fits {
                break;
            }
            self.wake_writer();
            self.changed.notified().await;
            if self.epoch.get() != epoch {
                return;
            }
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.serving += 1;
            state.last_write = self.controller.rt.now();
            content::write(&mut self.store.borrow_mut(), Offset(range.start), data);
            state.spoil(&range);
            state.dirty.insert(range);
            self.evict(state);
            if state.serving < state.tickets {
                self.changed.notify_waiters();
            }
        }
        self.wake_writer();
    }

    /// Drops clean data, the oldest first, until all fits. (By place it would drop what was just read
    /// ahead of a stream that lies before everything else, again and again.)
    fn evict(&self, state: &mut State) {
        let limit = self.limits.bytes;
        while state.held() + state.clean.total() > limit {
            let Some(oldest) = state.arrivals.pop_front() else { return };
            let over = state.held() + state.clean.total() - limit;
            let there: Vec<_> = state.clean.within(oldest.clone()).collect();
            let mut dropped = 0;
            for part in there {
                if dropped >= over {
                    // The rest stays the oldest.
                    state.arrivals.push_front(part.start..oldest.end);
                    break;
                }
                dropped += part.end - part.start;
                state.clean.remove(part.clone());
                if state.dirty.within(part.clone()).next().is_none()
                    && state.writing.within(part.clone()).next().is_none()
                {
                    let len = ByteCount(part.end - part.start);
                    self.store.borrow_mut().write_word(Offset(part.start), len, 0);
                }
            }
        }
    }

    async fn read(self: &Rc<Self>, range: Range<u64>, priority: Priority) -> IoResult {
        if self.limits.bytes == 0 {
            return self.fetch(range, priority).await;
        }
        let sequential = {
            let state = &mut *self.state.borrow_mut();
            let streams = &mut state.streams;
            match streams.iter_mut().find(|end| **end == range.start && range.start > 0) {
                Some(end) => {
                    *end = range.end;
                    true
                }
                None => {
                    streams[state.next_stream] = range.end;
                    state.next_stream = (state.next_stream + 1) % STREAMS_MAX;
                    false
                }
            }
        };
        if sequential {
            self.read_ahead(range.end);
        }
        loop {
            let (held, fetching) = {
                let state = self.state.borrow();
                (self.holds(&state, &range), state.fetching.within(range.clone()).next().is_some())
            };
            if held {
                let mut out = SgList::new();
                let len = ByteCount(range.end - range.start);
                content::read(&self.store.borrow(), Offset(range.start), len, &mut out);
                return Ok(out);
            }
            if !fetching {
                return self.fetch(range, priority).await;
            }
            self.changed.notified().await;
        }
    }

    fn holds(&self, state: &State, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let here = at..at + 1;
            let sets = [&state.dirty, &state.writing, &state.clean];
            let Some(part) = sets
                .iter()
                .filter(|set| set.covers(&here))
                .find_map(|set| set.within(at..range.end).next())
            else {
                return false;
            };
            at = part.end;
        }
        true
    }

    /// Reads from the volume, and puts over it what the cache has newer: what was dirty when the read
    /// began (it may be written back and gone when the read ends), and what came since.
    async fn fetch(&self, range: Range<u64>, priority: Priority) -> IoResult {
        let before = self.newer(&range);
        let len = ByteCount(range.end - range.start);
        let request = Request::read(Offset(range.start), len).with_priority(priority);
        let data = self.volume().submit(request).await?;
        let since = self.newer(&range);
        Ok(overlay(&range, overlay(&range, data, before), since))
    }

    /// The parts of a range that the cache has, with their data.
    fn newer(&self, range: &Range<u64>) -> Vec<(Range<u64>, SgList)> {
        let state = self.state.borrow();
        let mut parts = RangeSet::default();
        for set in [&state.dirty, &state.writing, &state.clean] {
            parts.extend(set.within(range.clone()));
        }
        let store = self.store.borrow();
        let with_data = |part: Range<u64>| {
            let mut data = SgList::new();
            let len = ByteCount(part.end - part.start);
            content::read(&store, Offset(part.start), len, &mut data);
            (part, data)
        };
        parts.within(range.clone()).map(with_data).collect()
    }

    /// Has the next stretch of a stream read into the cache, if it is not there or coming.
    fn read_ahead(self: &Rc<Self>, from: u64) {
        let window = self.limits.read_ahead;
        let capacity = self.geometry.capacity.bytes();
        if window == 0 {
            return;
        }
        // Whole windows: the one that follows, and the one after when this one is half used.
        let to = ((from + window / 2).next_multiple_of(window) + window).min(capacity);
        let start = {
            let state = self.state.borrow();
            let mut start = from;
            for part in state.clean.within(from..to).chain(state.fetching.within(from..to)) {
                if part.start <= start.max(from) {
                    start = start.max(part.end);
                }
            }
            start
        };
        if start >= to || to - start < window.min(capacity - from) / 2 {
            return;
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.fetching.insert(start..to);
            state.fetches += 1;
        }
        let (this, epoch) = (Rc::clone(self), self.epoch.get());
        let task = self.controller.rt.spawn(async move {
            let fetched = this.fetch(start..to, Priority::Foreground).await;
            if this.epoch.get() != epoch {
                return;
            }
            {
                let state = &mut *this.state.borrow_mut();
                state.fetching.remove(start..to);
                state.fetches -= 1;
                if let Ok(data) = fetched {
                    // Where the cache has got newer data meanwhile, that stays.
                    let mut taken = RangeSet::default();
                    taken.insert(start..to);
                    for set in [&state.dirty, &state.writing, &state.spoiled] {
                        for newer in set.within(start..to) {
                            taken.remove(newer);
                        }
                    }
                    for part in taken.within(start..to) {
                        let piece =
                            data.slice((part.start - start) as usize..(part.end - start) as usize);
                        content::write(&mut this.store.borrow_mut(), Offset(part.start), &piece);
                        state.keep_clean(part);
                    }
                    this.evict(state);
                }
                if state.fetches == 0 {
                    state.spoiled.clear();
                }
            }
            this.changed.notify_waiters();
        });
        task.detach();
    }

    /// Starts the task that writes back, unless it runs.
    fn wake_writer(&self) {
        let Some(this) = self.this.upgrade() else { return };
        let start = !std::mem::replace(&mut self.state.borrow_mut().awake, true);
        if !start {
            self.pressure.notify_waiters();
        } else {
            self.controller.rt.spawn(async move { this.write_back().await }).detach();
        }
    }

    async fn write_back(self: Rc<Self>) {
        let limits = self.limits;
        let (rt, epoch) = (&self.controller.rt, self.epoch.get());
        while self.epoch.get() == epoch {
            let (pressed, idle_at, dirty, under_way) = {
                let state = self.state.borrow();
                let waiting = state.serving < state.tickets;
                let mark = (limits.bytes as f64 * limits.mark) as u64;
                let pressed = state.draining > 0 || waiting || state.held() > mark;
                let idle_at = state.last_write + IDLE;
                (pressed, idle_at, !state.dirty.is_empty(), state.under_way)
            };
            if !dirty && under_way == 0 {
                self.state.borrow_mut().awake = false;
                return;
            }
            let depth = if pressed { limits.depth } else { 1 };
            if dirty && (pressed || rt.now() >= idle_at) && under_way < depth && self.start_piece()
            {
                continue;
            }
            let pressure = pin!(self.pressure.notified());
            if under_way == 0 {
                select(rt.sleep_until(idle_at), pressure).await;
            } else {
                select(pin!(self.changed.notified()), pressure).await;
            }
        }
    }

    /// Starts writing the next piece back. False where all that is dirty is being written already.
    fn start_piece(self: &Rc<Self>) -> bool {
        let limits = self.limits;
        let piece = {
            let state = &mut *self.state.borrow_mut();
            let free = |piece: &Range<u64>| state.writing.within(piece.clone()).next().is_none();
            let cut = |stretch: Range<u64>| {
                let end = (stretch.start + 1).next_multiple_of(limits.piece_bytes);
                stretch.start..stretch.end.min(end)
            };
            let beyond = state.dirty.within(state.elevator..u64::MAX).map(cut).find(free);
            let around = || state.dirty.within(0..state.elevator).map(cut).find(free);
            let Some(piece) = beyond.or_else(around) else { return false };
            state.dirty.remove(piece.clone());
            state.writing.insert(piece.clone());
            state.elevator = piece.end;
            state.under_way += 1;
            piece
        };
        let (this, epoch) = (Rc::clone(self), self.epoch.get());
        let task = self.controller.rt.spawn(async move {
            let mut data = SgList::new();
            let len = ByteCount(piece.end - piece.start);
            content::read(&this.store.borrow(), Offset(piece.start), len, &mut data);
            let mut tries = 0;
            let written = loop {
                let request = Request::write(Offset(piece.start), data.clone());
                let result = this.volume().submit(request).await;
                if this.epoch.get() != epoch {
                    return;
                }
                if result.is_ok() || tries == RETRIES_MAX {
                    break result.is_ok();
                }
                tries += 1;
                this.controller.rt.sleep(RETRY_PAUSE).await;
                if this.epoch.get() != epoch {
                    return;
                }
            };
            {
                let state = &mut *this.state.borrow_mut();
                state.under_way -= 1;
                state.lost |= !written;
                state.writing.remove(piece.clone());
                if written {
                    // What was written anew meanwhile is dirty, not clean.
                    state.keep_clean(piece.clone());
                    for newer in state.dirty.within(piece) {
                        state.clean.remove(newer);
                    }
                    this.evict(state);
                }
            }
            this.changed.notify_waiters();
        });
        task.detach();
        true
    }
}

impl Device for CachedDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        if !self.powered.get() {
            return IoFuture::ready(Err(self.power_cut(&request)));
        }
        let this = self.this.upgrade().expect("a device that is called is alive");
        IoFuture::new(this.serve(request))
    }
}

/// `data` of `range`, with `parts` of it put over.
fn overlay(range: &Range<u64>, data: SgList, parts: Vec<(Range<u64>, SgList)>) -> SgList {
    if parts.is_empty() {
        return data;
    }
    let (mut out, mut at) = (SgList::new(), range.start);
    for (part, over) in parts {
        out.append(data.slice((at - range.start) as usize..(part.start - range.start) as usize));
        out.append(over);
        at = part.end;
    }
    out.append(data.slice((at - range.start) as usize..data.len()));
    out
}
