//! What the workers of a run share: its end, its events, blocks and semaphores, sums.
//!
//! All of it is behind atomics or short locks. Who waits enters a queue (a [`Notify`]) *before* it looks
//! at the state, so that no change between the look and the wait is missed; and every wait ends with
//! the run.

use crate::distribution::RandomVariable;
use crate::fileset::Fileset;
use crate::plan::{Flowop, FlowopKind, Number};
use futures_util::future::{Either, select};
use rt::Rt;
use rt::sync::Notify;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stdx::Instant;
use workload::content::Content;

/// What the workers of a run share.
pub(super) struct RunShared {
    pub(super) filesets: Vec<Arc<Fileset>>,
    pub(super) variables: Arc<[RandomVariable]>,
    pub(super) content: Content,
    pub(super) ending: Ending,
    pub(super) event_rate: Option<Number>,
    pub(super) events: Events,
    pub(super) blocks: Named<Block>,
    pub(super) semaphores: Named<Semaphore>,
    pub(super) messages: Messages,
}

/// One thread of a run.
pub(super) struct WorkerPlan {
    /// For messages: process and thread with their instances.
    pub(super) name: Arc<str>,
    /// No other worker has it.
    pub(super) number: u64,
    pub(super) flowops: Vec<Flowop>,
    pub(super) slots: usize,
    pub(super) needs_totals: bool,
    pub(super) queued: bool,
    /// The thread's own, by slot.
    pub(super) blocks: Vec<(usize, Arc<Block>)>,
    pub(super) semaphores: Vec<(usize, Arc<Semaphore>)>,
    /// Its `testrandvar`s.
    pub(super) tested: Vec<(usize, Arc<str>)>,
}

/// How long a semaphore is waited for at the most; then the thread goes on, as in filebench.
const SEMAPHORE_WAIT_MAX: Duration = Duration::from_secs(600);

/// What an event of `bwlimit` is worth, in bytes.
const MIB: u64 = 1 << 20;

/// Seconds of events that are kept for threads that come late: filebench's.
const EVENTS_KEPT_SECONDS: f64 = 5.0;

/// The end of a run: when it is, and those who wait for it.
pub(super) struct Ending {
    /// In nanoseconds of the clock: what ends after it doesn't count.
    at: AtomicU64,
    ended: AtomicBool,
    changed: Notify,
}

impl Ending {
    pub(super) fn new(at: Option<Instant>) -> Ending {
        Ending {
            at: AtomicU64::new(at.map_or(u64::MAX, Instant::as_nanos)),
            ended: AtomicBool::new(false),
            changed: Notify::new(),
        }
    }

    /// When the run starts: its end is known, where time ends it.
    pub(super) fn schedule(&self, at: Instant) {
        self.at.fetch_min(at.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn counts(&self, moment: Instant) -> bool {
        moment.as_nanos() <= self.at.load(Ordering::Relaxed)
    }

    pub(super) fn at(&self) -> Instant {
        Instant::from_nanos(self.at.load(Ordering::Relaxed))
    }

    /// Ends the run now, or at the moment that was set, where that has passed.
    pub(super) fn end(&self, now: Instant) {
        self.schedule(now);
        self.ended.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits for something, but no longer than the run lasts. False where the run ended first.
    pub(super) async fn wait<F: Future<Output = ()>>(&self, what: F) -> bool {
        let mut over = pin!(self.changed.notified());
        over.as_mut().enable();
        if self.ended.load(Ordering::SeqCst) {
            return false;
        }
        matches!(select(pin!(what), over).await, Either::Left(_))
    }
}

/// Sums of one process, for limits that look at all of it.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) ops: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) transfers: AtomicU64,
    pub(super) transferred: AtomicU64,
    /// The account of each kind of limit: the process has one, whichever thread comes.
    accounts: Mutex<BTreeMap<FlowopKind, Account>>,
}

impl Totals {
    /// [`Account::charge`] on the process's account of this kind of limit.
    pub(super) fn charge(&self, kind: FlowopKind, counted: u64) -> Option<u64> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.entry(kind).or_default().charge(kind, counted)
    }
}

/// What a limit has charged so far.
#[derive(Default)]
pub(super) struct Account {
    /// What had been counted at the last call.
    last: u64,
    /// What may still be done without another event.
    credit: i64,
}

impl Account {
    /// Charges what was done since the last call; gives the events to wait for, none or some. The first
    /// call only takes note, and gives `None`.
    pub(super) fn charge(&mut self, kind: FlowopKind, counted: u64) -> Option<u64> {
        let last = std::mem::replace(&mut self.last, counted);
        if last == 0 {
            return None;
        }
        let done = i64::try_from(counted.saturating_sub(last)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_sub(done);
        if self.credit >= 0 {
            return Some(0);
        }
        let owed = self.credit.unsigned_abs();
        let (events, worth) = match kind {
            FlowopKind::BwLimit => (owed / MIB + 1, (owed / MIB + 1).saturating_mul(MIB)),
            _ => (owed, owed),
        };
        self.credit = self.credit.saturating_add_unsigned(worth);
        Some(events)
    }
}

/// The event generator: so many events a second, taken by whoever comes.
///
/// filebench's posts a batch of events every ten periods; here each event has its moment, and who
/// takes one waits for that. Events of more than five seconds are lost, as there.
pub(super) struct Events {
    /// The moment of the last event that was taken, in seconds of the clock.
    last: Mutex<f64>,
}

impl Events {
    pub(super) fn new() -> Events {
        Events { last: Mutex::new(0.0) }
    }

    /// Events begin now.
    pub(super) fn start(&self, now: Instant) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now.as_secs_f64();
    }

    /// Takes so many, at this rate; gives the moment at which the last of them comes.
    pub(super) fn take(&self, events: u64, rate: f64, now: Instant) -> Instant {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = last.max(now.as_secs_f64() - EVENTS_KEPT_SECONDS) + events as f64 / rate;
        Instant::from_nanos((*last * 1e9) as u64)
    }
}

/// Where `block` waits and `wakeup` wakes. A wakeup that finds nobody is lost.
#[derive(Default)]
pub(super) struct Block(Notify);

impl Block {
    pub(super) async fn wait(&self, ending: &Ending) -> bool {
        ending.wait(self.0.notified()).await
    }

    pub(super) fn wake(&self) {
        self.0.notify_waiters();
    }
}

/// The semaphore of one `semblock`: two of System V's.
///
/// The *low* one counts what was posted and not yet taken; the *high* one what may still be posted by
/// those who wait (`blocking`). A `semblock` first adds its value to the high one, then takes it from the
/// low one; a `sempost` adds to the low one and, blocking, takes from the high one, both at once.
///
/// One thread takes from a semaphore, its `semblock`'s; it is woken only when there is enough.
pub(super) struct Semaphore {
    counts: Mutex<Counts>,
    taker: Notify,
    posters: Notify,
}

struct Counts {
    low: u64,
    high: u64,
    /// What the taker waits for.
    wanted: Option<u64>,
    posters_waiting: bool,
}

impl Semaphore {
    pub(super) fn new(highwater: u64) -> Semaphore {
        let counts = Counts { low: 0, high: highwater, wanted: None, posters_waiting: false };
        Semaphore { counts: Mutex::new(counts), taker: Notify::new(), posters: Notify::new() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `semblock`. False where the run ended first.
    pub(super) async fn take(&self, value: u64, rt: &Rt, ending: &Ending) -> bool {
        let posters_waiting = {
            let mut counts = self.counts();
            counts.high = counts.high.saturating_add(value);
            std::mem::take(&mut counts.posters_waiting)
        };
        if posters_waiting {
            self.posters.notify_waiters();
        }
        wait_until(&self.taker, rt, ending, || {
            let mut counts = self.counts();
            match counts.low.checked_sub(value) {
                Some(low) => (counts.low, counts.wanted) = (low, None),
                None => counts.wanted = Some(value),
            }
            counts.wanted.is_none()
        })
        .await
    }

    /// `sempost`. False where the run ended first.
    pub(super) async fn post(&self, value: u64, blocking: bool, rt: &Rt, ending: &Ending) -> bool {
        wait_until(&self.posters, rt, ending, || {
            let mut counts = self.counts();
            if blocking {
                match counts.high.checked_sub(value) {
                    Some(high) => counts.high = high,
                    None => {
                        counts.posters_waiting = true;
                        return false;
                    }
                }
            }
            counts.low = counts.low.saturating_add(value);
            let enough = counts.wanted.is_some_and(|wanted| counts.low >= wanted);
            drop(counts);
            if enough {
                self.taker.notify_waiters();
            }
            true
        })
        .await
    }
}

/// Waits until `done` is true, looking again whenever `changed` is told; no longer than a semaphore is
/// waited for. False where the run ended first.
async fn wait_until(
    changed: &Notify,
    rt: &Rt,
    ending: &Ending,
    mut done: impl FnMut() -> bool,
) -> bool {
    if done() {
        return true;
    }
    let until = rt.now() + SEMAPHORE_WAIT_MAX;
    loop {
        let mut told = pin!(changed.notified());
        told.as_mut().enable();
        if done() {
            return true;
        }
        let waited = async {
            select(told, pin!(rt.sleep_until(until))).await;
        };
        if !ending.wait(waited).await {
            return false;
        }
        if rt.now() >= until {
            return true;
        }
    }
}

/// Lines that threads print, on their way to the conductor.
#[derive(Default)]
pub(super) struct Messages(Mutex<Vec<String>>);

/// Lines that wait at the most; more are dropped. The conductor fetches them every quarter second.
const MESSAGES_MAX: usize = 1000;

impl Messages {
    pub(super) fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MESSAGES_MAX {
            lines.push(line);
        }
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A semaphore or block of each instance of a flowop, by the flowop's name.
pub(super) type Named<T> = BTreeMap<Arc<str>, Vec<Arc<T>>>;
