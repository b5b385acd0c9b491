//! Virtual time: the reactor of a simulated run.
//!
//! Theory. A simulation needs no threads and no waiting: when no task can go on, the clock jumps to
//! whatever is next, a timer of the executor or an event of a device. Between two jumps time stands
//! still. Events of one moment are dealt with in the order in which they were announced, so a run
//! depends on its inputs alone.
//!
//! Devices are not tasks. A device [registers](SimReactor::register) once and announces when it wants
//! to be [called](Timed::on_event); the reactor calls it directly when the clock comes there, and the
//! device answers the requests that are done. That spares two passes through the executor per I/O.
//!
//! Processor time: work is booked on the [`Processor`] of the host model, and the task that does it
//! goes on when the modelled core is done. The work itself is really done, at once.

use crate::host::Processor;
use rt::reactor::{Job, Unpark};
use rt::work::Place;
use rt::{ComputePlan, Parked, Reactor, Work, WorkKind};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stdx::{Duration, Instant};

/// Something with events in time.
pub trait Timed {
    /// The clock has come to a moment that was announced. There may be nothing to do any more.
    fn on_event(&self, now: Instant);
}

/// Names a registered device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimedKey(usize);

/// The reactor. See the [module](self).
pub struct SimReactor {
    /// Shared by the reactors of one [world](crate::World).
    now: Rc<Cell<Instant>>,
    events: RefCell<BinaryHeap<Reverse<(Instant, u64, TimedKey)>>>,
    announced: Cell<u64>,
    timed: RefCell<Vec<Weak<dyn Timed>>>,
    processor: Rc<RefCell<Processor>>,
    /// Which of its cores is the executor's.
    core: usize,
    /// A world moves the clock, and parking would move it alone.
    in_world: bool,
    /// The processor of a RAID controller, which does what its sets need and is not the host's own.
    engine: RefCell<Option<Processor>>,
    woken: Arc<Woken>,
}

impl SimReactor {
    /// A clock at its start, and a host with this processor.
    pub fn new(processor: Processor) -> Rc<SimReactor> {
        SimReactor::with(Rc::default(), Rc::new(RefCell::new(processor)), 0, false)
    }

    /// One of several with one clock and one processor, of which it has this core.
    pub(crate) fn with(
        now: Rc<Cell<Instant>>,
        processor: Rc<RefCell<Processor>>,
        core: usize,
        in_world: bool,
    ) -> Rc<SimReactor> {
        Rc::new(SimReactor {
            now,
            events: RefCell::default(),
            announced: Cell::new(0),
            timed: RefCell::default(),
            processor,
            core,
            in_world,
            engine: RefCell::new(None),
            woken: Arc::default(),
        })
    }

    /// From here on the engines run in a RAID controller: what they compute is booked on its
    /// processor, and only I/Os are on the host's.
    pub fn set_engine(&self, engine: Processor) {
        *self.engine.borrow_mut() = Some(engine);
    }

    /// Enters a device. The reactor doesn't keep it alive.
    pub fn register(&self, timed: Weak<dyn Timed>) -> TimedKey {
        let mut all = self.timed.borrow_mut();
        all.push(timed);
        TimedKey(all.len() - 1)
    }

    /// Announces that a device wants to be called at this moment, or at once if it has passed.
    pub fn announce(&self, at: Instant, key: TimedKey) {
        let number = self.announced.get();
        self.announced.set(number + 1);
        self.events.borrow_mut().push(Reverse((at, number, key)));
    }

    /// When the next event is due.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        self.events.borrow().peek().map(|Reverse((at, ..))| *at)
    }

    /// Calls the devices whose moment has come.
    fn dispatch(&self) {
        let now = self.now.get();
        loop {
            let due = {
                let mut events = self.events.borrow_mut();
                match events.peek() {
                    Some(Reverse((at, _, key))) if *at <= now => {
                        let key = *key;
                        events.pop();
                        key
                    }
                    _ => return,
                }
            };
            let timed = self.timed.borrow()[due.0].upgrade();
            if let Some(timed) = timed {
                timed.on_event(now);
            }
        }
    }
}

impl Reactor for SimReactor {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn poll(&self) {
        self.dispatch();
    }

    fn park(&self, deadline: Option<Instant>) -> Parked {
        assert!(!self.in_world, "the executors of a world are run by the world");
        self.woken.0.store(false, Ordering::Relaxed);
        // Events that wake no task are the devices' own affair: there is nothing to look at until one does.
        loop {
            let Some(next) = [deadline, self.next_event()].into_iter().flatten().min() else {
                return Parked::Stalled;
            };
            self.now.set(self.now.get().max(next));
            self.dispatch();
            if deadline == Some(next) || self.woken.0.load(Ordering::Relaxed) {
                return Parked::LookAgain;
            }
        }
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.woken) as Arc<dyn Unpark>
    }

    fn plan(&self, work: Work) -> ComputePlan {
        let now = self.now.get();
        let done = match &mut *self.engine.borrow_mut() {
            Some(engine) if !is_the_hosts(&work) => engine.book(now, 0, work),
            _ => self.processor.borrow_mut().book(now, self.core, work),
        };
        if done > now { ComputePlan::InlineUntil(done) } else { ComputePlan::Inline }
    }

    fn offload(&self, _job: Job) {
        unreachable!("a simulated host never plans work for another thread");
    }

    fn processor_time(&self) -> Duration {
        self.processor.borrow().busy()
    }

    fn executor_time(&self) -> Option<Duration> {
        Some(self.processor.borrow().busy_of(self.core))
    }
}

/// Whether a piece of work is the host's where a RAID controller has an engine for its sets: the operating system's share,
/// and what threads of a program do, the copies between them and the page cache among it.
fn is_the_hosts(work: &Work) -> bool {
    let of_system = |(kind, _)| matches!(kind, WorkKind::Io | WorkKind::Call);
    work.place() == Place::Anywhere || work.parts().any(of_system)
}

/// Whether a task was woken while the clock jumped from event to event.
#[derive(Default)]
struct Woken(AtomicBool);

impl Unpark for Woken {
    fn unpark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
