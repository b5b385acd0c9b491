//! Write-back: dirty pages go to the device.
//!
//! **One inode.** Its dirty pages are taken in the order of the file. Pages whose space is only reserved
//! are granted blocks now, for as long a run of them as there is: this is delayed allocation. Runs that
//! follow one another on the device are written together; when they are there, new blocks are mapped
//! and the stored size follows. One write-back of an inode at a time, so that an older page can't
//! overtake a newer one.
//!
//! **Batch on batch.** A write-back takes its pages in batches, and gives the device the next one before it has answered the last,
//! for as long as there is something to write: where batches end, a stripe of the device seldom does, and its rest has to follow
//! soon, or a set with parity reads what it isn't given. (Linux' flusher waits for no answer at all.)
//!
//! **Many inodes.** Small files are many inodes of a page or two each. They are written back in rounds: the oldest inodes,
//! in the order of their numbers (which is nearly that of their places), all under way together up to what the
//! block layer takes. One after another, each waiting for its answer, a set with parity would get a page or two at a
//! time and read for each of them. (Linux' flusher submits inode after inode without waiting, `WB_SYNC_NONE` in
//! `fs/fs-writeback.c`; the block layer holds the requests in a plug, sorts and merges them.)
//!
//! **When.** A task looks every [`LOOK_EVERY`] at the longest, or when the bell rings: data older than
//! `dirty_expire`; more dirty than the background limit; transactions older than `commit_interval`;
//! blocks that waited [`CHECKPOINT_AFTER`] to be written in place, or a journal that is half full. It
//! sleeps without a timer when nothing is dirty, so a simulation ends when the load does. Writers beyond
//! the hard limits write back themselves. With `write_behind` a full cluster of a sequential writer is
//! written at once.
//!
//! **Failures.** Data that can't be written is lost, as on Linux; the next sync of the file says so.

use crate::cache::Backing;
use crate::core::{Core, Outcome};
use crate::inode::Inode;
use crate::layout::Extent;
use crate::mapping::What;
use crate::settings::MountOptions;
use crate::truncate::take_pending;
use crate::write::pending_at;
use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};
use rt::sync::{MutexGuard, Notify};
use rt::{Rt, SgList, Task, TreeErrorKind};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::rc::{Rc, Weak};
use stdx::{ByteCount, Duration, Instant};

/// The task looks at least so often while something is dirty: Linux' `dirty_writeback_centisecs`.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Committed blocks are written in place after so long: the age at which Linux writes dirty buffers.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(30);
/// Pages of a batch: with [`BATCHES_TOGETHER`] it bounds what a write-back holds.
const PAGES_MAX: usize = 2048;
/// Batches of one write-back under way together.
const BATCHES_TOGETHER: usize = 2;
/// Inodes of one round that are under way together: as many requests as Linux' block layer takes for a device before who
/// submits has to wait (`nr_requests`, 128).
const INODES_TOGETHER: usize = 128;
/// Pages that one grant of delayed allocation is for, at the most: 32 MiB of 4 KiB pages.
const GRANT_PAGES_MAX: u64 = 8192;
/// Runs of one write-back in flight together.
const RUNS_IN_FLIGHT_MAX: usize = 8;

impl MountOptions {
    /// How much is dirty when write-back begins; it ends when no more than that is left.
    pub fn write_back_begins(&self) -> ByteCount {
        ByteCount(self.cache.bytes() / 100 * u64::from(self.dirty_background_percent))
    }

    /// What a write-back takes at once on a file system of such blocks. Where it begins with less dirty, nothing follows what it
    /// has taken.
    pub fn write_back_takes(&self, block: ByteCount) -> ByteCount {
        block * PAGES_MAX as u64
    }
}

/// Pages that follow one another in the file and on the device.
struct Segment {
    first: u64,
    extent: Extent,
    state: State,
    data: SgList,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Mapped,
    Unwritten,
    New,
}

impl Core {
    /// Writes back all dirty pages of a range.
    pub(crate) async fn write_back_range(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        range: Range<u64>,
    ) -> Outcome<()> {
        // Whoever waits for the lock waits for writes under way, which a sync has to do as well.
        let turn = inode.write_back.lock().await;
        // What is written meanwhile is the next sync's.
        let last = inode.body.borrow().dirty.range(range.clone()).next_back().copied();
        match last {
            Some(last) => self.write_back(inode, turn, range.start..last + 1, || true).await,
            None => Ok(()),
        }
    }

    /// Writes back dirty pages of a range: a batch, and others, as long as there are some and `goes_on` says so.
    async fn write_back(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        _turn: MutexGuard<'_, ()>,
        range: Range<u64>,
        goes_on: impl Fn() -> bool,
    ) -> Outcome<()> {
        let _io = inode.io.read().await;
        let mut under_way: VecDeque<Task<Outcome<()>>> = VecDeque::new();
        let (mut from, mut so_far) = (range.start, Ok(()));
        loop {
            let is_next = so_far.is_ok() && (from == range.start || goes_on());
            let most = if is_next { PAGES_MAX } else { 0 };
            let pages = self.take_dirty(inode, from..range.end, most);
            let is_one = !pages.is_empty();
            if let Some((last, _)) = pages.last() {
                from = last + 1;
                match self.segments(inode, &pages).await {
                    Ok(segments) => under_way.push_back(self.start_batch(inode, pages, segments)),
                    Err(error) => {
                        self.finish(inode, &pages, false);
                        so_far = Err(error);
                    }
                }
            }
            if !is_one || under_way.len() == BATCHES_TOGETHER {
                let Some(batch) = under_way.pop_front() else { break };
                so_far = so_far.and(batch.await);
            }
        }
        if let Err(error) = so_far {
            inode.body.borrow_mut().failed = Some(error);
        }
        so_far
    }

    /// Begins to write a batch, by a task of its own: it goes on while the next is made ready.
    fn start_batch(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        pages: Vec<(u64, SgList)>,
        segments: Vec<Segment>,
    ) -> Task<Outcome<()>> {
        let (core, inode) = (Rc::clone(self), Rc::clone(inode));
        self.rt.spawn(async move {
            let written = core.write_segments(&inode, segments).await;
            core.finish(&inode, &pages, written.is_ok());
            written
        })
    }

    /// Takes dirty pages: they are being written from here on.
    fn take_dirty(&self, inode: &Inode, range: Range<u64>, most: usize) -> Vec<(u64, SgList)> {
        let mut body = inode.body.borrow_mut();
        let indices: Vec<u64> = body.dirty.range(range).take(most).copied().collect();
        let mut cache = self.pages.borrow_mut();
        let mut pages = Vec::with_capacity(indices.len());
        for index in indices {
            body.dirty.remove(&index);
            let Some(&key) = body.pages.get(&index) else { continue };
            let data = cache.change(key, |page| {
                page.dirty = false;
                page.writing = true;
                page.data.clone()
            });
            pages.push((index, data));
        }
        if body.dirty.is_empty()
            && let Some(since) = body.dirty_since.take()
        {
            cache.dirty_inodes.remove(&(since, inode.number));
        }
        pages
    }

    /// Grants blocks to a run of pages that have only reserved some.
    async fn grant_reserved(&self, inode: &Inode, first: u64) -> Outcome<()> {
        let is_reserved = |index: u64| {
            let body = inode.body.borrow();
            let cache = self.pages.borrow();
            body.pages.get(&index).is_some_and(|key| {
                let page = cache.get(*key);
                page.backing == Backing::Reserved && (page.dirty || page.writing)
            })
        };
        let run = (first..first + GRANT_PAGES_MAX).take_while(|index| is_reserved(*index)).count();
        let goal = self.goal(inode, first).await?;
        let granted = self.grant(goal, run as u64).await;
        let extent = match granted {
            Ok(extent) => extent,
            Err(error) => {
                self.set_backing(inode, first..first + 1, Backing::Unknown);
                self.space.borrow_mut().unreserve(1);
                return Err(error);
            }
        };
        self.set_backing(inode, first..first + extent.len, Backing::Pending);
        self.add_pending(inode, first, extent);
        Ok(())
    }

    fn set_backing(&self, inode: &Inode, range: Range<u64>, backing: Backing) {
        let body = inode.body.borrow();
        let mut cache = self.pages.borrow_mut();
        for key in body.pages.range(range).map(|(_, key)| *key) {
            cache.change(key, |page| page.backing = backing);
        }
    }

    fn backing(&self, inode: &Inode, index: u64) -> Backing {
        let body = inode.body.borrow();
        let cache = self.pages.borrow();
        body.pages.get(&index).map_or(Backing::Unknown, |key| cache.get(*key).backing)
    }

    /// Where pages go.
    async fn segments(&self, inode: &Inode, pages: &[(u64, SgList)]) -> Outcome<Vec<Segment>> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut i = 0;
        while let Some((first, _)) = pages.get(i) {
            let first = *first;
            let follow = pages[i..].iter().zip(first..).take_while(|((index, _), at)| index == at);
            let most = follow.count() as u64;
            if self.backing(inode, first) == Backing::Reserved {
                self.grant_reserved(inode, first).await?;
            }
            let (state, start, len) = match pending_at(inode, first) {
                Some(start) => {
                    let len = (1..most)
                        .take_while(|n| pending_at(inode, first + n) == Some(start + n))
                        .take_while(|n| self.same_region_as(start, start + n))
                        .count();
                    (State::New, start, 1 + len as u64)
                }
                None => {
                    let run = self.lookup(inode, first, most).await?;
                    match run.what {
                        What::At(start) => (State::Mapped, start, run.len),
                        What::Unwritten(start) => (State::Unwritten, start, run.len),
                        // An earlier write-back failed, and its blocks were given back.
                        What::Hole => {
                            let extent = self.grant_run(inode, first, 1).await?;
                            self.add_pending(inode, first, extent);
                            (State::New, extent.start, 1)
                        }
                    }
                }
            };
            let mut data = SgList::new();
            for (_, page) in &pages[i..i + len as usize] {
                data.append(page.clone());
            }
            i += len as usize;
            match segments.last_mut() {
                Some(last)
                    if state == State::Mapped
                        && last.state == state
                        && last.extent.end() == start
                        && last.first + last.extent.len == first =>
                {
                    last.extent.len += len;
                    last.data.append(data);
                }
                _ => segments.push(Segment { first, extent: Extent { start, len }, state, data }),
            }
        }
        Ok(segments)
    }

    fn same_region_as(&self, a: u64, b: u64) -> bool {
        self.shape.region_of(a) == self.shape.region_of(b)
    }

    async fn write_segments(&self, inode: &Rc<Inode>, segments: Vec<Segment>) -> Outcome<()> {
        let end = segments.iter().map(|segment| segment.first + segment.extent.len).max();
        let writes = segments.into_iter().map(|segment| self.write_segment(inode, segment));
        let writes = stream::iter(writes).buffer_unordered(RUNS_IN_FLIGHT_MAX);
        writes.fold(Ok(()), async |so_far, write| so_far.and(write)).await?;
        let end = end.unwrap_or(0) * self.shape.block;
        let size = inode.size();
        self.store_size(inode, end.min(size)).await
    }

    async fn write_segment(&self, inode: &Rc<Inode>, segment: Segment) -> Outcome<()> {
        let Segment { first, extent, state, data } = segment;
        let written = self.write_device(self.shape.offset(extent.start), data, false).await;
        match state {
            State::Mapped => written,
            State::Unwritten => {
                written?;
                self.convert(inode, first, extent, inode.size()).await
            }
            State::New => {
                take_pending(inode, first..first + extent.len);
                if let Err(error) = written {
                    self.space.borrow_mut().release(&self.shape, extent);
                    return Err(error);
                }
                self.attach(inode, first, extent, false, inode.size()).await
            }
        }
    }

    /// Pages are written, or lost.
    fn finish(&self, inode: &Inode, pages: &[(u64, SgList)], sound: bool) {
        let body = inode.body.borrow();
        let mut cache = self.pages.borrow_mut();
        let mut space = self.space.borrow_mut();
        for (index, _) in pages {
            let Some(&key) = body.pages.get(index) else { continue };
            cache.change(key, |page| {
                page.writing = false;
                if sound {
                    page.backing = Backing::Mapped;
                } else if !page.dirty {
                    if page.backing == Backing::Reserved {
                        space.unreserve(1);
                    }
                    page.backing = Backing::Unknown;
                }
            });
        }
        self.cleaned.notify_waiters();
    }

    /// Writes back everything that is dirty now.
    pub(crate) async fn write_back_all(self: &Rc<Self>) -> Outcome<()> {
        let dirty: Vec<u64> =
            self.pages.borrow().dirty_inodes.iter().map(|(_, number)| *number).collect();
        self.write_back_whole(dirty).await
    }

    /// Writes back all that is dirty of these inodes, in the order of their numbers, many together.
    async fn write_back_whole(self: &Rc<Self>, mut numbers: Vec<u64>) -> Outcome<()> {
        numbers.sort_unstable();
        let inodes = numbers.into_iter().filter_map(|number| self.inodes.get(number));
        let writes =
            inodes.map(|inode| async move { self.write_back_range(&inode, 0..u64::MAX).await });
        let writes = stream::iter(writes).buffer_unordered(INODES_TOGETHER);
        writes.fold(Ok(()), async |so_far, write| so_far.and(write)).await
    }

    /// Writes back the oldest dirty data: a round. Returns whether there was any.
    async fn write_back_oldest(self: &Rc<Self>) -> Outcome<bool> {
        let round = self.oldest();
        if round.is_empty() {
            return Ok(false);
        }
        let writes = round.into_iter().map(|(since, number)| self.write_back_some(since, number));
        let writes = stream::iter(writes).buffer_unordered(INODES_TOGETHER);
        writes.fold(Ok(()), async |so_far, write| so_far.and(write)).await?;
        Ok(true)
    }

    /// The oldest dirty inodes, as many as make a round, in the order of their numbers.
    fn oldest(&self) -> Vec<(Instant, u64)> {
        let cache = self.pages.borrow();
        let mut round: Vec<(Instant, u64)> = Vec::new();
        let mut pages = 0;
        for (since, number) in cache.dirty_inodes.iter().take(INODES_TOGETHER) {
            let its = self.inodes.get(*number).map_or(0, |inode| inode.body.borrow().dirty.len());
            if pages + its > PAGES_MAX && !round.is_empty() {
                break;
            }
            pages += its;
            round.push((*since, *number));
        }
        round.sort_unstable_by_key(|(_, number)| *number);
        round
    }

    /// Writes back some of an inode that is dirty since then.
    async fn write_back_some(self: &Rc<Self>, since: Instant, number: u64) -> Outcome<()> {
        let Some(inode) = self.inodes.get(number) else {
            self.pages.borrow_mut().dirty_inodes.remove(&(since, number));
            return Ok(());
        };
        let turn = {
            let (turn, cleaned) = (pin!(inode.write_back.lock()), pin!(self.cleaned.notified()));
            match select(turn, cleaned).await {
                Either::Left((turn, _)) => turn,
                // Somebody else writes, perhaps for long: there is room.
                Either::Right(_) => return Ok(()),
            }
        };
        // While nobody else has anything to write, it is one write-back.
        let goes_on = || {
            let cache = self.pages.borrow();
            let mut dirty = cache.dirty_inodes.iter();
            cache.unclean() > cache.background_max && dirty.all(|(_, other)| *other == number)
        };
        self.write_back(&inode, turn, 0..u64::MAX, goes_on).await?;
        // What is left goes behind the others, so that none starves.
        let mut body = inode.body.borrow_mut();
        if body.dirty_since == Some(since) {
            let now = self.rt.now();
            let mut cache = self.pages.borrow_mut();
            cache.dirty_inodes.remove(&(since, number));
            cache.dirty_inodes.insert((now, number));
            body.dirty_since = Some(now);
        }
        Ok(())
    }

    /// A writer waits while too much is dirty, and writes back itself.
    pub(crate) async fn wait_for_limits(self: &Rc<Self>, inode: &Rc<Inode>) -> Outcome<()> {
        let of_file = self.options.file_dirty_max.bytes() / self.shape.block;
        if of_file > 0 && inode.body.borrow().dirty.len() as u64 >= of_file {
            // The file's own limit: down to half of it, as `ufs_LW` is to `ufs_HW`.
            let is_much = || inode.body.borrow().dirty.len() as u64 > of_file / 2;
            while is_much() {
                let turn = inode.write_back.lock().await;
                self.write_back(inode, turn, 0..u64::MAX, is_much).await?;
            }
        }
        let unclean = || {
            let cache = self.pages.borrow();
            (cache.unclean(), cache.background_max, cache.dirty_max)
        };
        let (now, background, limit) = unclean();
        if now > background {
            self.bell.notify_waiters();
        }
        if now <= limit {
            return Ok(());
        }
        while unclean().0 > limit {
            match self.write_back_oldest().await {
                Ok(true) => {}
                // All that is unclean is being written: by others, who will be done.
                Ok(false) => self.rt.sleep(Duration::from_millis(1)).await,
                // It is told to whoever syncs that file, not to whoever writes this one.
                Err(_) => self.check_open()?,
            }
        }
        Ok(())
    }

    /// Begins to write a cluster that a sequential writer has filled.
    pub(crate) fn write_behind(self: &Rc<Self>, inode: &Rc<Inode>, at: u64, end: u64) {
        let cluster = self.options.write_behind.bytes();
        if cluster == 0 {
            return;
        }
        let range = {
            let mut body = inode.body.borrow_mut();
            let sequential = body.last_write_end == at;
            body.last_write_end = end;
            if !sequential {
                body.behind_to = at - at % cluster;
            }
            let full = end - end % cluster;
            if full <= body.behind_to {
                return;
            }
            let from = std::mem::replace(&mut body.behind_to, full);
            from / self.shape.block..full / self.shape.block
        };
        let (core, inode) = (Rc::clone(self), Rc::clone(inode));
        let task = async move {
            // A failure is kept with the inode.
            let _ = core.write_back_range(&inode, range).await;
        };
        self.rt.spawn(task).detach();
    }

    /// Makes a file's changes durable, after its data was written back. `data_only`: not its times.
    pub(crate) async fn make_durable(
        self: &Rc<Self>,
        inode: &Rc<Inode>,
        data_only: bool,
    ) -> Outcome<()> {
        self.check_open()?;
        let failed = inode.body.borrow_mut().failed.take();
        if let Some(error) = failed {
            return Err(error);
        }
        let begun = self.flushes_begun();
        let transaction = if data_only {
            inode.body.borrow().transaction_but_times
        } else {
            if inode.body.borrow().times_dirty {
                // The commit stores them.
                let block = self.inode_block(inode.number).await?;
                if inode.body.borrow().times_dirty {
                    self.store(&self.tx(), inode, &block);
                }
            }
            inode.body.borrow().transaction
        };
        if transaction > self.journal.committed() {
            self.commit(transaction).await?;
        }
        self.flush_since(begun).await
    }

    /// Makes everything durable.
    pub(crate) async fn sync_all(self: &Rc<Self>) -> Outcome<()> {
        self.check_open()?;
        self.write_back_all().await?;
        let begun = self.flushes_begun();
        self.commit_metadata(self.journal.running()).await?;
        self.flush_since(begun).await
    }

    /// Does what is due; returns whether anything is left that will be.
    async fn upkeep(self: &Rc<Self>) -> Outcome<bool> {
        let now = self.rt.now();
        // Old data, each inode once.
        let expired = |since| now.since(since) >= self.options.dirty_expire;
        let old: Vec<u64> = {
            let cache = self.pages.borrow();
            let old = cache.dirty_inodes.iter().take_while(|(since, _)| expired(*since));
            old.map(|(_, number)| *number).collect()
        };
        // A failure is kept with the inode.
        let _ = self.write_back_whole(old).await;
        loop {
            let over = {
                let cache = self.pages.borrow();
                cache.unclean() > cache.background_max && !cache.dirty_inodes.is_empty()
            };
            if !over {
                break;
            }
            let _ = self.write_back_oldest().await;
            self.check_open()?;
        }
        let began = self.journal.began();
        let old = began.is_some_and(|began| now.since(began) >= self.options.commit_interval);
        if old {
            self.commit(self.journal.running()).await?;
        } else if began.is_none() && self.has_dirty_times() {
            // They begin a transaction, which is committed in its turn.
            self.store_times().await?;
        }
        let waiting = self.journal.waiting_since();
        let due = waiting.is_some_and(|since| now.since(since) >= CHECKPOINT_AFTER);
        if due || self.journal.is_half_used() {
            self.checkpoint().await?;
        }
        let dirty = !self.pages.borrow().dirty_inodes.is_empty();
        let metadata = self.journal.began().is_some() || self.journal.waiting_since().is_some();
        Ok(dirty || metadata || self.has_dirty_times())
    }

    /// Whether more is dirty than the background limit.
    fn is_over_background(&self) -> bool {
        let cache = self.pages.borrow();
        cache.unclean() > cache.background_max && !cache.dirty_inodes.is_empty()
    }
}

/// The task that does the upkeep, until the file system is gone or closed.
pub(crate) async fn keep_up(core: Weak<Core>, rt: Rt, bell: Rc<Notify>) {
    // Something may have become dirty before this task ran.
    let mut busy = true;
    loop {
        let look_every = match core.upgrade() {
            Some(core) if core.closed.get().is_none() => {
                LOOK_EVERY.min(core.options.commit_interval)
            }
            _ => return,
        };
        if busy {
            // The bell matters only when it says that too much is dirty.
            let deadline = rt.now() + look_every;
            while rt.now() < deadline {
                let rung = {
                    let sleep = pin!(rt.sleep_until(deadline));
                    let ring = pin!(bell.notified());
                    matches!(select(sleep, ring).await, Either::Right(_))
                };
                let Some(core) = core.upgrade() else { return };
                if core.closed.get().is_some() {
                    return;
                }
                if rung && core.is_over_background() {
                    break;
                }
            }
        } else {
            bell.notified().await;
        }
        let Some(core) = core.upgrade() else { return };
        if core.closed.get().is_some() {
            return;
        }
        if !busy && !core.is_over_background() {
            // Something has just become dirty: it is looked at when it has aged.
            busy = true;
            continue;
        }
        busy = match core.upkeep().await {
            Ok(left) => left,
            Err(error) => {
                core.shut_down(error);
                return;
            }
        };
    }
}

/// What went wrong, for whoever is told by an [`IoError`](rt::IoError).
pub(crate) fn io_kind(error: TreeErrorKind) -> rt::IoErrorKind {
    match error {
        TreeErrorKind::Io(kind) => kind,
        TreeErrorKind::NoSpace => rt::IoErrorKind::NoSpace,
        TreeErrorKind::ReadOnly => rt::IoErrorKind::ReadOnly,
        _ => rt::IoErrorKind::Invalid,
    }
}
