//! Background operations: initialise, rebuild, replace, check, repair.
//!
//! | operation | reads | writes |
//! |---|---|---|
//! | initialise, from data | all data (first copies) | parity (other copies) |
//! | initialise, with zeros | nothing | zeros everywhere: **all data is lost** |
//! | rebuild a slot | the other members | the slot |
//! | copy to a replacement | the slot; the others where it can't be read | the replacement |
//! | check | everything | bad places; nothing else |
//! | repair | everything | parity (other copies) where it is wrong; in RAID 6 the member that is |
//!
//! Each goes over a **range** of the members' data areas, rounded out to whole chunks, and may be done
//! in stretches, one call each, in any order; when all stretches together cover the members, the rebuilt
//! slot is active, the replacement has taken over, the array is clean.
//!
//! **Steps.** The range is cut into steps of [`STEP`] a member. A step is a task that locks its rows,
//! reads all members at once in long requests, computes, writes, says what is right now, and unlocks; so
//! a host write falls before or after it. [`WINDOW_MAX`] steps are in flight, so that members stream.
//! Making parity from data both reads and writes every member: with few steps in flight each member goes to and fro
//! between them. There [`WINDOW_PARITY_MAX`] are, so that what is read meanwhile and what is written are long, as far
//! as they take no more than [`IN_FLIGHT_MAX`]: on twelve simulated 3 TB disks in RAID 6 that is 8.8 h instead of
//! 10.3, where reading alone takes 7.2.
//! **Dropping** the operation starts no more steps; those in flight end by themselves, and what they did
//! counts.
//!
//! **Priority** against the host's I/O, after md's `speed_limit_min`:
//!
//! | priority | while the host is at work | else |
//! |---|---|---|
//! | low | one step at a time, each only when the rate falls below [`SPEED_MIN_LOW`] | full window |
//! | normal | one step at a time, no faster than [`SPEED_MIN_NORMAL`] | full window |
//! | high | full window | full window |
//!
//! The host is at work while it has requests under way, or had some in the last `LOOK_EVERY`. md's
//! `speed_limit_max` (200 MB/s by default) has no counterpart: an idle array rebuilds as fast as it can.

mod compare;
mod copies;
pub(crate) mod operation;
mod rows;

pub use operation::{Initialise, Operation, Progress};

use crate::array::{Array, Engine};
use crate::layout::Place;
use crate::member::MemberState;
use crate::set::{HostSeen, Set};
use crate::spec::Level;
use async_recursion::async_recursion as boxed;
use rt::IoErrorKind;
use rt::sync::oneshot;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use stdx::{ByteCount, Duration, Offset};

/// What a step asks of each member: long enough to stream from a disk.
pub const STEP: ByteCount = ByteCount::mib(1);
/// Steps in flight: one at the reading members, one at the written ones, one in the processor, one
/// waiting.
pub const WINDOW_MAX: usize = 4;
/// Steps in flight where parity is made from data. Twice as many gain 5 % more and take twice the memory.
pub const WINDOW_PARITY_MAX: usize = 16;
/// What all steps in flight may take of memory, beyond [`WINDOW_MAX`] of them.
pub const IN_FLIGHT_MAX: ByteCount = ByteCount::mib(256);
/// The rate a member that low priority keeps up whatever the host does: md's speed_limit_min.
pub const SPEED_MIN_LOW: ByteCount = ByteCount::kib(1000);
/// The rate a member that normal priority keeps up beside the host: some tenth of a disk's.
pub const SPEED_MIN_NORMAL: ByteCount = ByteCount::mib(16);
/// How often an operation that yields looks whether the host is still at work.
pub const LOOK_EVERY: Duration = Duration::from_millis(10);
/// So many mismatches are listed by place; all are counted.
pub const MISMATCHES_LISTED_MAX: usize = 1000;
/// The unit in which mismatches are counted: md's.
pub const SECTOR: ByteCount = ByteCount(512);

/// How an operation stands against the host's I/O. See the [module](self).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPriority {
    /// Yields down to [`SPEED_MIN_LOW`].
    Low,
    /// Yields down to [`SPEED_MIN_NORMAL`].
    #[default]
    Normal,
    /// Does not yield.
    High,
}

/// Why an operation ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum SyncError {
    #[error("{level} has no redundancy: there is nothing to initialise, rebuild, replace or check")]
    NoRedundancy { level: Level },
    #[error("there is no slot {slot}: the array has {slots}")]
    NoSlot { slot: usize, slots: usize },
    #[error("slot {slot} is active, so there is nothing to rebuild: fail it first, or replace it")]
    Active { slot: usize },
    #[error("there is no spare to rebuild slot {slot} on: add one")]
    NoSpare { slot: usize },
    #[error("slot {slot} has no replacement: give it one first")]
    NoReplacement { slot: usize },
    #[error("a member is missing, so there is nothing to compare with: rebuild it first")]
    Degraded,
    #[error("the member that was being filled in slot {slot} failed: add another spare")]
    TargetLost { slot: usize },
    #[error("too many separate stretches are filled: go on where one ends")]
    Scattered,
    #[error("at {at} of the members: {kind}")]
    Io { at: Offset, kind: IoErrorKind },
}

/// Where redundancy does not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Place in the members' data areas (of the first copy, in a mirrored array).
    pub at: Offset,
    /// How much.
    pub len: ByteCount,
    /// The member that must be wrong, where it can be told: RAID 6, one member wrong.
    pub suspect: Option<usize>,
    /// Which byte of the array lies there: of the suspect's, if it is data; in a mirrored array always.
    pub array: Option<Offset>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// How much of each member was gone over.
    pub checked: ByteCount,
    /// Sectors whose redundancy does not agree.
    pub mismatched_sectors: u64,
    /// Where, the first [`MISMATCHES_LISTED_MAX`] of them.
    pub mismatches: Vec<Mismatch>,
}

impl CheckReport {
    fn add(&mut self, mismatch: Mismatch) {
        self.mismatched_sectors += mismatch.len.bytes().div_ceil(SECTOR.bytes());
        if self.mismatches.len() < MISMATCHES_LISTED_MAX {
            self.mismatches.push(mismatch);
        }
    }

    fn join(&mut self, other: CheckReport) {
        self.checked += other.checked;
        self.mismatched_sectors += other.mismatched_sectors;
        let room = MISMATCHES_LISTED_MAX - self.mismatches.len();
        self.mismatches.extend(other.mismatches.into_iter().take(room));
    }
}

/// What a step ends with.
type StepResult = Result<CheckReport, SyncError>;

impl Array {
    /// Makes parity (or copies) right in a range of the members.
    ///
    /// # Errors
    /// See [`SyncError`].
    #[boxed(?Send)]
    pub async fn initialise(
        &self,
        how: Initialise,
        range: Range<Offset>,
        priority: SyncPriority,
    ) -> Result<(), SyncError> {
        self.run(Operation::Initialise(how), range, priority).await.map(|_| ())
    }

    /// Rebuilds a range of a slot. A failed or missing one takes the first spare to begin with.
    ///
    /// # Errors
    /// See [`SyncError`].
    #[boxed(?Send)]
    pub async fn rebuild(
        &self,
        slot: usize,
        range: Range<Offset>,
        priority: SyncPriority,
    ) -> Result<(), SyncError> {
        self.run(Operation::Rebuild(slot), range, priority).await.map(|_| ())
    }

    /// Copies a range of a slot to its replacement.
    ///
    /// # Errors
    /// See [`SyncError`].
    #[boxed(?Send)]
    pub async fn copy_to_replacement(
        &self,
        slot: usize,
        range: Range<Offset>,
        priority: SyncPriority,
    ) -> Result<(), SyncError> {
        self.run(Operation::Replace(slot), range, priority).await.map(|_| ())
    }

    /// Compares parity (or copies) with the data in a range of the members.
    ///
    /// # Errors
    /// See [`SyncError`].
    #[boxed(?Send)]
    pub async fn check(&self, range: Range<Offset>, priority: SyncPriority) -> StepResult {
        self.run(Operation::Check, range, priority).await
    }

    /// As [`check`](Array::check), and makes parity (or the other copies) agree with the data (the first).
    ///
    /// # Errors
    /// See [`SyncError`].
    #[boxed(?Send)]
    pub async fn repair(&self, range: Range<Offset>, priority: SyncPriority) -> StepResult {
        self.run(Operation::Repair, range, priority).await
    }

    /// All of the members' data areas, for the operations.
    pub fn whole(&self) -> Range<Offset> {
        Offset::ZERO..Offset::ZERO + self.component_extent()
    }

    /// How far the operation under way is.
    pub fn progress(&self) -> Option<Progress> {
        self.progress.borrow().clone()
    }

    async fn run(
        &self,
        operation: Operation,
        range: Range<Offset>,
        priority: SyncPriority,
    ) -> StepResult {
        let _alone = self.operations.lock().await;
        self.prepare(operation)?;
        let extent = self.component_extent();
        let start = range.start.round_down(self.grain()).bytes().min(extent.bytes());
        let end = range.end.round_up(self.grain()).bytes().min(extent.bytes());
        let began = self.set.rt.now();
        let range = Offset(start)..Offset(end);
        *self.progress.borrow_mut() =
            Some(Progress { operation, range, done: ByteCount::ZERO, began });
        let _ends = EndProgress(self);
        let step = STEP.max(self.grain()).bytes();
        let pace = Pace::new(&self.set, priority, self.window_max(operation, step));
        let mut flying: VecDeque<(u64, oneshot::Receiver<StepResult>)> = VecDeque::new();
        let (mut next, mut report, mut failure) = (start, CheckReport::default(), None);
        while next < end && failure.is_none() || !flying.is_empty() {
            if next < end && failure.is_none() && flying.len() < pace.window() {
                let to = (next + step).min(end);
                pace.wait(to - next).await;
                flying.push_back((to - next, self.start_step(operation, next..to)));
                next = to;
                continue;
            }
            let Some((len, step)) = flying.pop_front() else { continue };
            match step.await.expect("a step ends with a result") {
                Ok(found) => report.join(found),
                Err(error) => failure = failure.or(Some(error)),
            }
            if let Some(progress) = &mut *self.progress.borrow_mut() {
                progress.done += ByteCount(len);
            }
        }
        report.checked = ByteCount(end - start.min(end));
        failure.map_or(Ok(report), Err)
    }

    /// How many steps of so many bytes a member may be in flight.
    fn window_max(&self, operation: Operation, step: u64) -> usize {
        match (operation, &self.engine) {
            (Operation::Initialise(Initialise::FromData), Engine::Stripes(_)) => {
                let all = step * self.set.members.len() as u64;
                let fit = usize::try_from(IN_FLIGHT_MAX.bytes() / all).unwrap_or(usize::MAX);
                fit.clamp(WINDOW_MAX, WINDOW_PARITY_MAX)
            }
            _ => WINDOW_MAX,
        }
    }

    /// Whether the operation can be done; brings a spare into its slot.
    fn prepare(&self, operation: Operation) -> Result<(), SyncError> {
        let members = &self.set.members;
        if matches!(self.engine, Engine::Striped(_)) || members.len() == 1 {
            return Err(SyncError::NoRedundancy { level: self.set.level });
        }
        if let Operation::Rebuild(slot) | Operation::Replace(slot) = operation
            && slot >= members.len()
        {
            return Err(SyncError::NoSlot { slot, slots: members.len() });
        }
        match operation {
            Operation::Rebuild(slot) if members.is_active(slot) => Err(SyncError::Active { slot }),
            Operation::Rebuild(slot) if !members.begin_rebuild(slot) => {
                Err(SyncError::NoSpare { slot })
            }
            Operation::Replace(slot) if !members.has_replacement(slot) => {
                Err(SyncError::NoReplacement { slot })
            }
            Operation::Rebuild(slot) | Operation::Replace(slot) if members.is_scattered(slot) => {
                Err(SyncError::Scattered)
            }
            Operation::Initialise(_) if self.set.clean_is_scattered() => Err(SyncError::Scattered),
            _ => Ok(()),
        }
    }

    /// Starts a step as a task that nobody can drop in the middle.
    fn start_step(&self, operation: Operation, range: Range<u64>) -> oneshot::Receiver<StepResult> {
        let (sender, receiver) = oneshot::channel();
        let engine = self.engine.clone();
        let step = async move {
            let result = match &engine {
                Engine::Stripes(stripes) => stripes.step(operation, range).await,
                Engine::Mirror(mirror) => mirror.step(operation, range).await,
                Engine::Striped(_) => unreachable!("no redundancy: refused before"),
            };
            // Nobody waits where the operation was dropped; what the step did counts all the same.
            let _ = sender.send(result);
        };
        self.set.rt.spawn(step).detach();
        receiver
    }
}

/// The array has no progress to show when this is dropped.
struct EndProgress<'a>(&'a Array);

impl Drop for EndProgress<'_> {
    fn drop(&mut self) {
        self.0.progress.borrow_mut().take();
    }
}

/// What fills a slot, and whether it still can.
fn target_of(set: &Set, operation: Operation) -> Result<Option<(usize, bool)>, SyncError> {
    let (slot, replacement) = match operation {
        Operation::Rebuild(slot) => (slot, false),
        Operation::Replace(slot) => (slot, true),
        _ => return Ok(None),
    };
    // A slot that failed while its replacement was filled: the replacement stands in it, to be rebuilt.
    let replacement = replacement && set.members.has_replacement(slot);
    let can = replacement
        || matches!(set.members.state(slot), MemberState::Rebuilding | MemberState::Active);
    if can { Ok(Some((slot, replacement))) } else { Err(SyncError::TargetLost { slot }) }
}

fn io_error(at: u64) -> impl Fn(IoErrorKind) -> SyncError {
    move |kind| SyncError::Io { at: Offset(at), kind }
}

/// The places that a range takes on a slot, cut at chunks.
fn chunks(slot: usize, range: &Range<u64>, chunk: u64) -> impl Iterator<Item = (Place, u64)> {
    let (mut at, end) = (range.start, range.end);
    std::iter::from_fn(move || {
        let len = (chunk - at % chunk).min(end.saturating_sub(at));
        let place = Place { slot, at };
        at += len;
        (len > 0).then_some((place, len))
    })
}

/// When the next step may start.
struct Pace {
    set: Rc<Set>,
    priority: SyncPriority,
    window_max: usize,
}

impl Pace {
    fn new(set: &Rc<Set>, priority: SyncPriority, window_max: usize) -> Pace {
        Pace { set: Rc::clone(set), priority, window_max }
    }

    fn window(&self) -> usize {
        let yields = self.priority != SyncPriority::High && self.host_is_at_work();
        if yields { 1 } else { self.window_max }
    }

    /// Whether the host has requests under way, or had or sent some at the last look.
    fn host_is_at_work(&self) -> bool {
        let (now, mut seen) = (self.set.rt.now(), self.set.host_seen.get());
        if now >= seen.at + LOOK_EVERY {
            let requests = self.set.stats.borrow().host_requests;
            seen.at_work = requests != seen.requests;
            (seen.at, seen.requests) = (now, requests);
        }
        seen.at_work |= self.set.host_in_flight() > 0;
        self.set.host_seen.set(seen);
        seen.at_work
    }

    async fn wait(&self, bytes: u64) {
        let speed_min = match self.priority {
            SyncPriority::Low => SPEED_MIN_LOW,
            SyncPriority::Normal => SPEED_MIN_NORMAL,
            SyncPriority::High => return,
        };
        let rt = &self.set.rt;
        while self.host_is_at_work() && rt.now() < self.set.host_seen.get().due {
            rt.sleep_until(self.set.host_seen.get().due.min(rt.now() + LOOK_EVERY)).await;
        }
        // Counted from now: an idle stretch saves up neither a pause nor a burst.
        let span = Duration::from_secs_f64(bytes as f64 / speed_min.bytes() as f64);
        let seen = self.set.host_seen.get();
        self.set.host_seen.set(HostSeen { due: rt.now() + span, ..seen });
    }
}
