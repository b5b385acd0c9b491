//! One thread of a workload: its flowops, over and over, until the run ends or nothing is left to do.

use super::shared::{Account, Block, Ending, RunShared, Semaphore, Totals, WorkerPlan};
use crate::error::{FilebenchError, FlowopError};
use crate::fileset::{Entry, EntryKind, Fileset, Release, Rotor};
use crate::plan::{DESCRIPTORS, Direction, Flowop, FlowopClass, FlowopKind, Number};
use crate::statistics::WorkerStatistics;
use rt::sync::Notify;
use rt::{BufMut, FileRef, IoError};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stdx::{Instant, Prng};
use workload::content::Source;
use workload::crew::Place;
use workload::io_failure::IoFailure;

/// Flowops in a row that take no time before the others of the same runtime get their turn.
const TURN: u32 = 64;

/// What a thread sleeps when a whole turn took no time at all. No real clock stands still for so long;
/// a simulated one does, over a tree that costs nothing, and would never go on.
const SIMULATED_TURN: Duration = Duration::from_micros(1);

/// Why a thread came to its end before the run did.
#[derive(Debug)]
pub(super) enum End {
    /// The run is over.
    RunOver,
    /// `finishoncount` or `finishonbytes` has counted enough.
    Finished,
    /// No file or directory is left that the flowop could take: its name.
    NothingLeft(Arc<str>),
    /// Something failed.
    Failed(FilebenchError),
}

/// What a flowop's call gave.
pub(super) type Called = Result<(), End>;

/// An open file of the thread, and the file that it had last.
#[derive(Default)]
pub(super) struct Descriptor {
    pub(super) file: Option<FileRef>,
    /// Stays after the file is closed: `deletefile fd=` removes it then.
    pub(super) entry: Option<(usize, Entry)>,
    pub(super) position: u64,
}

/// What one flowop of the thread keeps.
#[derive(Default)]
pub(super) struct Kept {
    /// What was counted of it so far, cleared figures or not.
    pub(super) ops: u64,
    pub(super) bytes: u64,
    /// What a limit with a target has charged.
    pub(super) account: Account,
    /// Drawn once: `workingset`, and the value of `finishon...`.
    pub(super) working_set: u64,
    pub(super) constant: u64,
    /// `testrandvar`: count, sum, sum of squares.
    pub(super) tested: (u64, f64, f64),
    pub(super) block: Option<Arc<Block>>,
    pub(super) semaphore: Option<Arc<Semaphore>>,
}

/// Writes of `aiowrite` that are under way.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) outstanding: u64,
    pub(super) done: u64,
    pub(super) failed: Option<IoError>,
}

/// The thread.
pub(super) struct Worker {
    pub(super) place: Place,
    pub(super) run: Arc<RunShared>,
    pub(super) plan: Arc<WorkerPlan>,
    pub(super) totals: Arc<Totals>,
    pub(super) statistics: Arc<Mutex<WorkerStatistics>>,
    pub(super) descriptors: Vec<Descriptor>,
    /// The descriptor that `opennext` had last.
    pub(super) turn: usize,
    /// The thread's own rounds, for each fileset.
    pub(super) rotors: Vec<Rotor>,
    pub(super) kept: Vec<Kept>,
    pub(super) prng: Prng,
    /// A stream for each random variable.
    pub(super) streams: Vec<Prng>,
    pub(super) source: Source,
    /// What is read goes here.
    pub(super) memory: BufMut,
    pub(super) writes: Rc<RefCell<Writes>>,
    pub(super) written: Rc<Notify>,
}

/// A list of flowops on its way: which one is next, and how often still.
struct Frame<'a> {
    flowops: &'a [Flowop],
    current: usize,
    left: u64,
}

impl Worker {
    pub(super) fn new(
        place: Place,
        run: Arc<RunShared>,
        plan: Arc<WorkerPlan>,
        totals: Arc<Totals>,
        statistics: Arc<Mutex<WorkerStatistics>>,
        seed: u64,
    ) -> Worker {
        let number = plan.number;
        let streams = run.variables.iter().map(|variable| {
            let (name, seed_of_variable) = (&variable.name, variable.seed);
            Prng::for_part(seed, &format!("worker {number} ${name} seed {seed_of_variable}"))
        });
        Worker {
            descriptors: (0..DESCRIPTORS).map(|_| Descriptor::default()).collect(),
            turn: 0,
            rotors: run.filesets.iter().map(|_| Rotor::default()).collect(),
            kept: (0..plan.slots).map(|_| Kept::default()).collect(),
            prng: Prng::for_part(seed, &format!("worker {number}")),
            streams: streams.collect(),
            source: run.content.source(number),
            memory: BufMut::zeroed(0),
            writes: Rc::default(),
            written: Rc::default(),
            place,
            run,
            plan,
            totals,
            statistics,
        }
    }

    pub(super) fn ending(&self) -> &Ending {
        &self.run.ending
    }

    /// Draws what is drawn once, and enters the thread's blocks and semaphores.
    pub(super) fn prepare(&mut self) {
        let plan = Arc::clone(&self.plan);
        self.prepare_all(&plan.flowops);
        for (slot, block) in &plan.blocks {
            if let Some(kept) = self.kept.get_mut(*slot) {
                kept.block = Some(Arc::clone(block));
            }
        }
        for (slot, semaphore) in &plan.semaphores {
            if let Some(kept) = self.kept.get_mut(*slot) {
                kept.semaphore = Some(Arc::clone(semaphore));
            }
        }
    }

    fn prepare_all(&mut self, flowops: &[Flowop]) {
        for flowop in flowops {
            let (working_set, constant) =
                (self.number(flowop.working_set), self.number(flowop.value));
            if let Some(kept) = self.kept.get_mut(flowop.slot) {
                (kept.working_set, kept.constant) = (working_set, constant);
            }
            self.prepare_all(&flowop.inner);
        }
    }

    /// Carries the flowops out until the thread's end.
    pub(super) async fn work(&mut self) -> End {
        let plan = Arc::clone(&self.plan);
        let mut frames = vec![Frame { flowops: &plan.flowops, current: 0, left: 0 }];
        if let (Some(first), Some(frame)) = (plan.flowops.first(), frames.last_mut()) {
            frame.left = self.number(first.iterations);
        }
        let (mut timeless, mut before) = (0, self.place.rt.now());
        loop {
            if self.ending().is_over() {
                return End::RunOver;
            }
            let depth = frames.len();
            let Some(frame) = frames.last_mut() else { return End::Finished };
            let Some(flowop) = frame.flowops.get(frame.current) else { return End::Finished };
            if frame.left > 0 {
                frame.left -= 1;
                if flowop.kind == FlowopKind::Composite {
                    let left = flowop.inner.first().map(|first| self.number(first.iterations));
                    let (flowops, left) = (&flowop.inner[..], left.unwrap_or(0));
                    frames.push(Frame { flowops, current: 0, left });
                } else if let Err(end) = self.call(flowop).await {
                    return end;
                }
            } else {
                frame.current += 1;
                match frame.flowops.get(frame.current) {
                    Some(next) => frame.left = self.number(next.iterations),
                    None if depth > 1 => {
                        frames.pop();
                    }
                    None => {
                        frame.current = 0;
                        let first = frame.flowops.first();
                        frame.left = first.map_or(0, |first| self.number(first.iterations));
                    }
                }
            }
            let now = self.place.rt.now();
            timeless = if now > before { 0 } else { timeless + 1 };
            before = now;
            if timeless >= TURN {
                timeless = 0;
                self.place.rt.yield_now().await;
                if self.place.rt.now() == now {
                    self.place.rt.sleep(SIMULATED_TURN).await;
                }
            }
        }
    }

    /// Lets go of everything that is open.
    pub(super) async fn close(mut self) {
        // Writes that are under way end by themselves; their files live as long.
        for descriptor in &mut self.descriptors {
            if let (Some(file), Some((set, entry))) = (descriptor.file.take(), descriptor.entry) {
                drop(file);
                if let Some(fileset) = self.run.filesets.get(set) {
                    let release = Release { opens: -1, ..Release::default() };
                    fileset.release(EntryKind::File, entry, release);
                }
            }
        }
        while self.writes.borrow().outstanding > self.writes.borrow().done {
            self.written.notified().await;
        }
        for (slot, name) in self.plan.tested.clone() {
            let Some((count, sum, squares)) = self.kept.get(slot).map(|kept| kept.tested) else {
                continue;
            };
            if count > 0 {
                let mean = sum / count as f64;
                let deviation = (squares / count as f64 - mean * mean).max(0.0).sqrt() / mean;
                self.run.messages.push(format!(
                    "testrandvar {name}: ops = {count}, mean = {mean:8.2}, stddev = {deviation:8.2}"
                ));
            }
        }
    }

    /// A value of a number.
    pub(super) fn number(&mut self, number: Number) -> u64 {
        match number {
            Number::Constant(number) => number,
            Number::Random(_) => self.float(number) as u64,
        }
    }

    /// A value of a number, with its fraction.
    pub(super) fn float(&mut self, number: Number) -> f64 {
        match number {
            Number::Constant(number) => number as f64,
            Number::Random(number) => {
                match (self.run.variables.get(number), self.streams.get_mut(number)) {
                    (Some(variable), Some(stream)) => variable.sample(stream),
                    _ => 0.0,
                }
            }
        }
    }

    /// Counts an op that began at `begin` and ends now; `untimed` of it was ours.
    pub(super) fn count(&mut self, flowop: &Flowop, begin: Instant, untimed: Duration, bytes: u64) {
        let now = self.place.rt.now();
        if !self.ending().counts(now) {
            return;
        }
        let latency = (now - begin).saturating_sub(untimed);
        let class = flowop.kind.class();
        {
            let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
            statistics.count(flowop.row, class, latency, bytes);
        }
        if let Some(kept) = self.kept.get_mut(flowop.slot) {
            kept.ops += 1;
            kept.bytes += bytes;
        }
        if self.plan.needs_totals && class == FlowopClass::Io {
            self.totals.ops.fetch_add(1, Ordering::Relaxed);
            self.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
            if flowop.kind.direction() != Direction::None {
                self.totals.transfers.fetch_add(1, Ordering::Relaxed);
                self.totals.transferred.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn fileset(&self, flowop: &Flowop) -> Result<(usize, Arc<Fileset>), End> {
        let fileset = |number: usize| Some((number, Arc::clone(self.run.filesets.get(number)?)));
        match flowop.fileset.and_then(fileset) {
            Some(fileset) => Ok(fileset),
            None => Err(self.wrong(flowop, FlowopError::NoFileset)),
        }
    }

    pub(super) fn wrong(&self, flowop: &Flowop, kind: FlowopError) -> End {
        let (flowop, thread) = (Arc::clone(&flowop.name), Arc::clone(&self.plan.name));
        End::Failed(FilebenchError::Flowop { flowop, thread, kind })
    }

    pub(super) fn failed(&self, flowop: &Flowop, source: impl Into<IoFailure>) -> End {
        let (flowop, thread) = (Arc::clone(&flowop.name), Arc::clone(&self.plan.name));
        End::Failed(FilebenchError::Io { flowop, thread, source: source.into() })
    }
}
