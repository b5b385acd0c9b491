//! A write cache that can lose its power, for tests that ask what survives.
//!
//! **What it is.** Writes that carry no `fua` are kept in memory and answered at once; reads see them. A
//! flush writes them to the device below and flushes that; a write with `fua` goes there itself.
//! Write-zeroes and discards are kept as zeros, so a block that was discarded too early is found out.
//! What has been answered by the device below counts as durable.
//!
//! **The cut.** [`cut`](PowerCut::cut) decides, by a generator, what becomes of each write that is still
//! in memory: whole, lost, or torn (some of its sectors). That a cache writes in any order needs no more
//! than this: an older write that reached the medium last is a newer one that was lost. So of several
//! unflushed writes to a sector any may survive, or none, and every such outcome can happen. What was
//! flushed, or written with `fua`, is never lost, and what was never written never changes. From then on
//! every request fails with [`IoErrorKind::PowerCut`], also those in flight, and nothing more reaches the
//! device below. [`power_on`](PowerCut::power_on) gives the device with what survived; the filter itself
//! stays dead, as the machine that died with it.
//!
//! **When.** Writes are counted when they are submitted (all that change bytes: write, write-zeroes,
//! discard). [`cut_at_write`](PowerCut::cut_at_write) cuts the power when the N-th comes: it is not
//! answered, and may survive like all others. A test that repeats a scenario for N = 1, 2, … has cut
//! after each write.
//!
//! **The lane.** All that writes to the device below goes through one lock, one after another: otherwise
//! an older version of a sector could overtake a newer one. Such work runs as a task of its own, so it
//! is finished even where nobody waits for the answer.
//!
//! **The limit.** When more than [`REMEMBERED_MAX`] would be kept, the older half is made durable first, as
//! any cache does when it is full.

use crate::device::{
    Device, DeviceRef, Geometry, IoError, IoErrorKind, IoFuture, IoResult, Op, OpKind, Request,
};
use crate::executor::Rt;
use crate::extents::{Extents, Stretch};
use crate::sg::SgList;
use crate::sync::Mutex;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset, Prng};

/// Memory for unflushed writes. More lets a cut reach further back. A word repeated takes little of it.
pub const REMEMBERED_MAX: ByteCount = ByteCount::mib(64);
/// What a remembered piece takes beside its bytes: an entry in the log and one in the view.
const PIECE_OVERHEAD: usize = 128;
/// Writes to the device below in flight together when the cache is written out.
const WRITING_OUT_MAX: usize = 16;
/// The length of such a write at the most, so that long fills stay bearable on a device that has to
/// write them out.
const WRITE_OUT_LEN_MAX: usize = 8 << 20;
/// Parts into which one write is torn at the most; in longer writes a part is several sectors.
const TORN_PARTS_MAX: u64 = 4096;

/// See the [module](self).
pub struct PowerCut {
    rt: Rt,
    cache: Rc<Cache>,
}

struct Cache {
    below: DeviceRef,
    geometry: Geometry,
    remembered_max: usize,
    lane: Mutex<()>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Unflushed writes, oldest first.
    log: VecDeque<Entry>,
    /// What reads see of them: the newest of each byte.
    view: Extents,
    remembered: usize,
    next_sequence: u64,
    writes: u64,
    cut_at: Option<(u64, Prng)>,
    /// After the cut: what survived and is not yet below.
    survivors: Option<Extents>,
}

struct Entry {
    sequence: u64,
    at: Offset,
    data: SgList,
}

impl Entry {
    fn end(&self) -> Offset {
        self.at + ByteCount(self.data.len() as u64)
    }

    /// Its bytes between two places.
    fn slice(&self, from: Offset, to: Offset) -> SgList {
        self.data.slice((from - self.at).as_usize()..(to - self.at).as_usize())
    }
}

/// Memory that these bytes take.
fn weight(data: &SgList) -> usize {
    let bytes = data.pieces().iter().map(|piece| match piece.fill_word() {
        Some(_) => PIECE_OVERHEAD,
        None => PIECE_OVERHEAD + piece.len(),
    });
    bytes.sum()
}

impl PowerCut {
    /// `below` behind a cache without battery.
    pub fn new(below: DeviceRef, rt: &Rt) -> Rc<PowerCut> {
        PowerCut::with_memory(below, rt, REMEMBERED_MAX)
    }

    /// The same with less memory than [`REMEMBERED_MAX`], as small caches have.
    pub fn with_memory(below: DeviceRef, rt: &Rt, memory: ByteCount) -> Rc<PowerCut> {
        let geometry = Geometry { volatile_cache: true, ..below.geometry() };
        let remembered_max = memory.min(REMEMBERED_MAX).as_usize();
        let (lane, state) = (Mutex::new(()), RefCell::default());
        let cache = Rc::new(Cache { below, geometry, remembered_max, lane, state });
        Rc::new(PowerCut { rt: rt.clone(), cache })
    }

    /// How many writes, write-zeroes and discards have been submitted.
    pub fn writes(&self) -> u64 {
        self.cache.state.borrow().writes
    }

    /// How many writes a cut could lose now.
    pub fn unflushed_writes(&self) -> usize {
        self.cache.state.borrow().log.len()
    }

    /// Whether the power is off.
    pub fn is_cut(&self) -> bool {
        self.cache.state.borrow().survivors.is_some()
    }

    /// Cuts the power now. No effect where it is off already.
    pub fn cut(&self, prng: Prng) {
        self.cache.cut(&mut self.cache.state.borrow_mut(), prng);
    }

    /// Cuts the power when the `write`-th write comes, counted from 1 at the start.
    pub fn cut_at_write(&self, write: u64, prng: Prng) {
        self.cache.state.borrow_mut().cut_at = Some((write, prng));
    }

    /// The device below, with what survived the cut.
    ///
    /// # Errors
    /// When the device below fails.
    ///
    /// # Panics
    /// If the power was never cut.
    pub async fn power_on(&self) -> Result<DeviceRef, IoError> {
        let _lane = self.cache.lane.lock().await;
        let survivors = self.cache.state.borrow().survivors.clone();
        let survivors = survivors.expect("power comes back only after a cut");
        self.cache.write_out(&survivors, || Ok(())).await?;
        self.cache.below.submit(Request::flush()).await?;
        self.cache.state.borrow_mut().survivors = Some(Extents::default());
        Ok(Rc::clone(&self.cache.below))
    }

    /// Runs `work` as a task of its own, and gives its answer.
    fn in_own_task<F>(&self, work: impl FnOnce(Rc<Cache>) -> F) -> IoFuture
    where
        F: Future<Output = IoResult> + 'static,
    {
        let (completion, answer) = IoFuture::pending();
        let work = work(Rc::clone(&self.cache));
        self.rt.spawn(async move { completion.complete(work.await) }).detach();
        answer
    }

    /// Counts a write, and cuts the power if it is the one.
    fn count_write(&self, at: Offset, data: &SgList) {
        let mut state = self.cache.state.borrow_mut();
        state.writes += 1;
        let now = state.writes;
        if let Some((_, prng)) = state.cut_at.take_if(|(write, _)| *write <= now) {
            state.remember(at, data.clone());
            self.cache.cut(&mut state, prng);
        }
    }

    fn read(&self, request: &Request, failed: IoError) -> IoFuture {
        enum Part {
            Held(SgList),
            Below(IoFuture),
        }
        let stretches = self.cache.state.borrow().view.read(request.offset, request.len());
        let below = |offset, len| {
            let read = Request::read(offset, len).with_priority(request.priority);
            Part::Below(self.cache.below.submit(read))
        };
        let parts: Vec<Part> = stretches
            .into_iter()
            .map(|stretch| match stretch {
                Stretch::Held(buf) => Part::Held(buf.into()),
                Stretch::Gap(offset, len) => below(offset, len),
            })
            .collect();
        let cache = Rc::clone(&self.cache);
        IoFuture::new(async move {
            let parts = parts.into_iter().map(async |part| match part {
                Part::Held(data) => Ok(data),
                Part::Below(read) => read.await,
            });
            let mut data = SgList::new();
            for part in join_all(parts).await {
                data.append(part?);
            }
            cache.check_power(failed)?;
            Ok(data)
        })
    }

    fn write(&self, at: Offset, data: SgList, failed: IoError) -> IoFuture {
        if self.cache.fits(&data) {
            self.cache.state.borrow_mut().remember(at, data);
            return IoFuture::ready(Ok(SgList::new()));
        }
        self.in_own_task(async move |cache: Rc<Cache>| {
            let _lane = cache.lane.lock().await;
            cache.check_power(failed.clone())?;
            while !cache.fits(&data) {
                let Some(half) = cache.older_half() else {
                    // More than the whole memory: it goes through.
                    return cache.write_through(Request::write(at, data), failed).await;
                };
                cache.make_durable(half, &failed).await?;
            }
            cache.state.borrow_mut().remember(at, data);
            Ok(SgList::new())
        })
    }
}

impl Cache {
    fn check_power(&self, failed: IoError) -> Result<(), IoError> {
        match self.state.borrow().survivors {
            None => Ok(()),
            Some(_) => Err(failed),
        }
    }

    fn fits(&self, data: &SgList) -> bool {
        self.state.borrow().remembered + weight(data) <= self.remembered_max
    }

    /// The sequence up to which entries are made durable when memory is short.
    fn older_half(&self) -> Option<u64> {
        let state = self.state.borrow();
        let mut weight_left = state.remembered / 2;
        let older = state.log.iter().take_while(|entry| {
            let before = weight_left;
            weight_left = weight_left.saturating_sub(weight(&entry.data));
            before > 0
        });
        older.last().or(state.log.front()).map(|entry| entry.sequence)
    }

    /// Writes entries up to this sequence to the device below and flushes it. The lane must be held.
    async fn make_durable(&self, up_to: u64, failed: &IoError) -> Result<(), IoError> {
        let mut newest = Extents::default();
        for entry in self.state.borrow().log.iter().take_while(|entry| entry.sequence <= up_to) {
            newest.insert(entry.at, &entry.data);
        }
        self.write_out(&newest, || self.check_power(failed.clone())).await?;
        self.check_power(failed.clone())?;
        self.below.submit(Request::flush()).await?;
        self.check_power(failed.clone())?;
        self.state.borrow_mut().forget_up_to(up_to);
        Ok(())
    }

    /// Writes `extents` to the device below, asking before each write whether to go on.
    async fn write_out(
        &self,
        extents: &Extents,
        go_on: impl Fn() -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        let writes = extents.iter().flat_map(|(at, data)| {
            (0..data.len()).step_by(WRITE_OUT_LEN_MAX).map(move |from| {
                let to = (from + WRITE_OUT_LEN_MAX).min(data.len());
                (at + ByteCount(from as u64), data.slice(from..to))
            })
        });
        let go_on = &go_on;
        let writes = writes.map(async |(at, data)| {
            go_on()?;
            self.below.submit(Request::write(at, data)).await
        });
        // Where one fails the others are waited for too: an abandoned write could land at any time.
        let writes = stream::iter(writes).buffer_unordered(WRITING_OUT_MAX);
        writes.fold(Ok(()), async |so_far, write| so_far.and(write.map(drop))).await
    }

    /// Writes to the device below, durably; older versions of these bytes are forgotten. The lane must
    /// be held.
    async fn write_through(&self, request: Request, failed: IoError) -> IoResult {
        let Op::Write { data, .. } = request.op else { unreachable!("only writes are written") };
        let (at, len) = (request.offset, ByteCount(data.len() as u64));
        // What is written from here on is newer, and stays.
        let sequence = self.state.borrow_mut().take_sequence();
        let write = Request::write_fua(at, data).with_priority(request.priority);
        self.below.submit(write).await?;
        self.check_power(failed)?;
        self.state.borrow_mut().forget_older(sequence, at, len);
        Ok(SgList::new())
    }

    fn cut(&self, state: &mut State, mut prng: Prng) {
        if state.survivors.is_some() {
            return;
        }
        let log = std::mem::take(&mut state.log);
        state.view.clear();
        state.remembered = 0;
        state.survivors = Some(survivors(log, self.geometry.logical_block, &mut prng));
    }
}

/// What a cut leaves of these writes.
fn survivors(log: VecDeque<Entry>, sector: ByteCount, prng: &mut Prng) -> Extents {
    // How much survives is drawn first: with a share of one half for each write, a cut that loses
    // all of a long log, or nothing, would never be seen.
    let share = match prng.below(8) {
        0 => 0.0,
        1 => 1.0,
        _ => prng.unit(),
    };
    let mut survivors = Extents::default();
    for entry in log {
        if prng.chance(0.5) {
            if prng.chance(share) {
                survivors.insert(entry.at, &entry.data);
            }
            continue;
        }
        let sectors = ByteCount(entry.data.len() as u64) / sector;
        let part = (sector * sectors.div_ceil(TORN_PARTS_MAX).max(1)).as_usize();
        for from in (0..entry.data.len()).step_by(part) {
            if prng.chance(share) {
                let data = entry.data.slice(from..(from + part).min(entry.data.len()));
                survivors.insert(entry.at + ByteCount(from as u64), &data);
            }
        }
    }
    survivors
}

impl State {
    fn take_sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    fn remember(&mut self, at: Offset, data: SgList) {
        if data.is_empty() {
            return;
        }
        self.view.insert(at, &data);
        self.remembered += weight(&data);
        let sequence = self.take_sequence();
        self.log.push_back(Entry { sequence, at, data });
    }

    /// Forgets entries that are durable now.
    fn forget_up_to(&mut self, sequence: u64) {
        let durable = self.log.partition_point(|entry| entry.sequence <= sequence);
        for entry in self.log.drain(..durable) {
            self.remembered -= weight(&entry.data);
        }
        self.view.clear();
        for entry in &self.log {
            self.view.insert(entry.at, &entry.data);
        }
    }

    /// Forgets what entries older than this sequence hold of a range.
    fn forget_older(&mut self, sequence: u64, at: Offset, len: ByteCount) {
        let end = at + len;
        self.view.remove(at, len);
        let mut log = VecDeque::with_capacity(self.log.len());
        for entry in self.log.drain(..) {
            if entry.end() <= at || entry.at >= end {
                log.push_back(entry);
                continue;
            }
            if entry.sequence > sequence {
                // Only within the range: beyond it the view has newer bytes, maybe.
                let (from, to) = (at.max(entry.at), end.min(entry.end()));
                self.view.insert(from, &entry.slice(from, to));
                log.push_back(entry);
                continue;
            }
            self.remembered -= weight(&entry.data);
            let mut keep = |from: Offset, to: Offset| {
                if from < to {
                    let data = entry.slice(from, to);
                    self.remembered += weight(&data);
                    log.push_back(Entry { sequence: entry.sequence, at: from, data });
                }
            };
            keep(entry.at, at.min(entry.end()));
            keep(end.max(entry.at), entry.end());
        }
        self.log = log;
    }
}

impl Device for PowerCut {
    fn geometry(&self) -> Geometry {
        self.cache.geometry
    }

    fn name(&self) -> Arc<str> {
        self.cache.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let failed = IoError::of(&request, self, IoErrorKind::PowerCut);
        if let Err(error) = self.cache.check_power(failed.clone()) {
            return IoFuture::ready(Err(error));
        }
        let (at, len) = (request.offset, request.len());
        let data = match (&request.op, request.kind()) {
            (_, OpKind::Read) => return self.read(&request, failed),
            (_, OpKind::Flush) => {
                let last = self.cache.state.borrow().next_sequence;
                return self.in_own_task(async move |cache: Rc<Cache>| {
                    let _lane = cache.lane.lock().await;
                    cache.check_power(failed.clone())?;
                    cache.make_durable(last, &failed).await?;
                    Ok(SgList::new())
                });
            }
            (Op::Write { data, .. }, _) => data.clone(),
            _ => SgList::zeros(len.as_usize()),
        };
        self.count_write(at, &data);
        if self.is_cut() {
            return IoFuture::ready(Err(failed));
        }
        if matches!(request.op, Op::Write { fua: true, .. }) {
            return self.in_own_task(async move |cache: Rc<Cache>| {
                let _lane = cache.lane.lock().await;
                cache.check_power(failed.clone())?;
                cache.write_through(request, failed).await
            });
        }
        self.write(at, data, failed)
    }
}

#[cfg(test)]
mod tests;
