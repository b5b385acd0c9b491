//! A worker: keeps I/Os outstanding to its targets, by its access specification.
//!
//! Each outstanding I/O is a lane, a task that submits, waits, counts and submits again. What lanes of
//! a worker share is what IOMeter's worker has once: the burst under way, and for each target the
//! position and the random numbers.
//!
//! **Rules**, as `Grunt::Do_IOs` and `Grunt::Record_IO` of IOMeter 1.1.0 have them.
//!
//! 1. When a burst is through, a line of the access specification is drawn by the lines' shares, and
//!    its burst begins. Before that the worker waits for the line's delay; I/Os under way go on, but
//!    none is started.
//! 2. Each I/O draws anew whether it reads and whether it goes to a random place.
//! 3. What began in the ramp-up time is not recorded. Recording begins when all of that is answered.
//!    What is answered after the run time is not recorded either.

use super::error::IometerError;
use super::icf::{AccessLine, DataPattern, SECTOR};
use super::places::Places;
use super::plan::TestWorker;
use super::tally::{Tally, WorkerTally};
use hdrhistogram::Histogram;
use rt::sync::Semaphore;
use rt::{Buf, FileRef, OpenHow, Request, Rt};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset, Prng};
use workload::blocks::Blocks;
use workload::content::{Content, Source};
use workload::crew::Place;
use workload::gate::Gate;
use workload::io_failure::IoFailure;
use workload::outcome::{count_latency, latency_histogram};

/// How long a lane waits before it looks again whether it shall stop.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What a worker is to do in one test.
#[derive(Clone)]
pub(super) struct Task {
    /// As planned.
    pub(super) worker: TestWorker,
    /// Its targets' files, with their sizes.
    pub(super) files: Vec<(PathBuf, ByteCount)>,
    /// Past the cache.
    pub(super) direct: bool,
    /// Before it records.
    pub(super) ramp_up: Duration,
    /// While it records.
    pub(super) run_time: Duration,
    /// Where its random numbers come from, unless its seed is fixed.
    pub(super) seed: u64,
    /// Its number among all workers, for what it writes.
    pub(super) number: u64,
    /// What it writes.
    pub(super) content: Content,
    /// Raised where all shall stop.
    pub(super) stop: Arc<AtomicBool>,
}

/// What a worker gives back.
pub(super) struct Done {
    /// What it recorded.
    pub(super) tally: WorkerTally,
    /// Processor time of the whole program while it recorded.
    pub(super) processor: Duration,
}

/// Opens the targets, waits for the others at the gate, and works.
pub(super) async fn work(
    task: Task,
    place: Place,
    gate: Arc<Gate>,
) -> Result<Option<Done>, IometerError> {
    let mut targets = Vec::new();
    for (number, (path, size)) in task.files.iter().enumerate() {
        let writes = task.worker.spec.lines.iter().any(|line| line.reads_percent < 100);
        let how = OpenHow { write: writes, ..OpenHow::default() }.with_direct(task.direct);
        let file = place.tree.open(path, how).await.map_err(IometerError::opening)?;
        targets.push(Target::new(&task, number, file, *size)?);
    }
    let writer = Writer::new(&task);
    if !gate.pass().await {
        return Ok(None);
    }
    let begun = place.rt.now();
    let on = begun + task.ramp_up;
    let delayed = task.worker.spec.lines.iter().any(|line| !line.delay.is_zero());
    let shared = Rc::new(Shared {
        rt: place.rt.clone(),
        on,
        off: on + task.run_time,
        stop: Arc::clone(&task.stop),
        lines: task.worker.spec.lines.clone(),
        by_percent: by_percent(&task.worker.spec.lines),
        burst: Cell::new((0, 0)),
        prng: RefCell::new(prng_of(&task, "worker")),
        turn: delayed.then(|| Semaphore::new(1)),
        ramp_up_pending: Cell::new(0),
        first: Cell::new(on),
        last: Cell::new(begun),
        writer: RefCell::new(writer),
        latency: RefCell::new(latency_histogram()),
        targets,
        failure: RefCell::new(None),
    });
    let clock = place.rt.spawn(processor_time(Rc::clone(&shared)));
    // In IOMeter's order: the first I/O of each target, then the second of each.
    let lanes: Vec<_> = (0..task.worker.outstanding)
        .flat_map(|_| 0..shared.targets.len())
        .map(|target| place.rt.spawn(lane(Rc::clone(&shared), target)))
        .collect();
    for lane in lanes {
        lane.await;
    }
    let processor = clock.await;
    if let Some(failure) = shared.failure.borrow_mut().take() {
        return Err(failure.into());
    }
    let first = shared.first.get();
    let end = shared.end();
    let time = if end > first { end.since(first) } else { Duration::ZERO };
    let tallies = shared.targets.iter().map(|target| target.tally.borrow().clone()).collect();
    let latency = shared.latency.borrow().clone();
    Ok(Some(Done { tally: WorkerTally { targets: tallies, time, latency }, processor }))
}

/// Random numbers of a part of a worker: those of its fixed seed, or of the run's.
fn prng_of(task: &Task, part: &str) -> Prng {
    match task.worker.seed {
        Some(seed) => Prng::for_part(seed, part),
        None => Prng::for_part(task.seed, &format!("iometer {} {part}", task.number)),
    }
}

/// For each hundredth, which line it belongs to.
fn by_percent(lines: &[AccessLine]) -> Vec<usize> {
    let of = |(number, line): (usize, &AccessLine)| {
        std::iter::repeat_n(number, line.share_percent.into())
    };
    lines.iter().enumerate().flat_map(of).collect()
}

struct Target {
    file: FileRef,
    places: RefCell<Places>,
    prng: RefCell<Prng>,
    tally: RefCell<Tally>,
}

impl Target {
    fn new(
        task: &Task,
        number: usize,
        file: FileRef,
        size: ByteCount,
    ) -> Result<Target, IometerError> {
        let worker = &task.worker;
        let alignment = file.alignment();
        let end = match worker.size.is_zero() {
            true => size,
            false => worker.start.checked_add(worker.size).map_or(size, |end| end.min(size)),
        };
        let places = Places::new(worker.start, end, alignment.max(SECTOR));
        for line in &worker.spec.lines {
            let parts = [("size", line.size), ("alignment", line.align)];
            if let Some((what, bytes)) =
                parts.into_iter().find(|(_, bytes)| !bytes.is_multiple_of(alignment))
            {
                let spec = worker.spec.name.clone();
                return Err(IometerError::Misaligned { spec, what, bytes, alignment });
            }
            if !places.has_room(line.size, line.align) {
                return Err(IometerError::NoRoom {
                    file: file.name().to_string(),
                    worker: worker.name.clone(),
                    size: line.size,
                    start: worker.start,
                    end,
                });
            }
        }
        Ok(Target {
            file,
            places: RefCell::new(places),
            prng: RefCell::new(prng_of(task, &format!("target {number}"))),
            tally: RefCell::default(),
        })
    }
}

/// What the lanes of a worker share.
struct Shared {
    rt: Rt,
    /// When recording begins, at the earliest.
    on: Instant,
    /// When it ends.
    off: Instant,
    stop: Arc<AtomicBool>,
    lines: Vec<AccessLine>,
    by_percent: Vec<usize>,
    /// The line of the burst under way, and how many I/Os of it are still to be started.
    burst: Cell<(usize, u32)>,
    prng: RefCell<Prng>,
    /// Whose turn it is to start an I/O, where there are delays.
    turn: Option<Semaphore>,
    /// I/Os that began in the ramp-up time and are not answered.
    ramp_up_pending: Cell<u64>,
    /// When recording began.
    first: Cell<Instant>,
    /// When the last I/O was answered.
    last: Cell<Instant>,
    writer: RefCell<Writer>,
    latency: RefCell<Histogram<u64>>,
    targets: Vec<Target>,
    failure: RefCell<Option<IoFailure>>,
}

/// An I/O to be started.
struct Next {
    line: usize,
    is_read: bool,
    is_random: bool,
}

impl Shared {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.off || self.stop.load(Ordering::Relaxed) || self.failure.borrow().is_some()
    }

    /// When recording ended: when it should, or with the last answer where all was stopped.
    fn end(&self) -> Instant {
        match self.stop.load(Ordering::Relaxed) {
            true => self.off.min(self.last.get()),
            false => self.off,
        }
    }

    /// The line of the next I/O, and the delay before it where a burst begins.
    fn next_line(&self) -> (usize, Duration) {
        let (line, left) = self.burst.get();
        if left > 0 {
            self.burst.set((line, left - 1));
            return (line, Duration::ZERO);
        }
        let drawn = self.prng.borrow_mut().below(self.by_percent.len() as u64) as usize;
        let line = self.by_percent[drawn];
        self.burst.set((line, self.lines[line].burst.get() - 1));
        (line, self.lines[line].delay)
    }

    fn draw(&self, target: &Target, line: usize) -> Next {
        let AccessLine { reads_percent, random_percent, .. } = self.lines[line];
        let mut prng = target.prng.borrow_mut();
        let mut hits = |percent: u8| match percent {
            0 => false,
            100 => true,
            percent => prng.below(100) < u64::from(percent),
        };
        Next { line, is_read: hits(reads_percent), is_random: hits(random_percent) }
    }

    fn request(&self, target: &Target, next: &Next) -> Request {
        let line = &self.lines[next.line];
        let mut prng = target.prng.borrow_mut();
        let random = next.is_random.then_some(&mut *prng);
        let place = Offset(target.places.borrow_mut().next(random, line.size, line.align));
        match next.is_read {
            true => Request::read(place, line.size),
            false => Request::write(place, self.writer.borrow_mut().next(line.size.as_usize())),
        }
    }
}

async fn lane(shared: Rc<Shared>, target: usize) {
    let target = &shared.targets[target];
    let mut now = shared.rt.now();
    while !shared.is_over(now) {
        let turn = match &shared.turn {
            Some(turn) => Some(turn.acquire().await.expect("nobody closes the turn")),
            None => None,
        };
        let (line, delay) = shared.next_line();
        if !delay.is_zero() && !pause(&shared, delay).await {
            return;
        }
        let next = shared.draw(target, line);
        let request = shared.request(target, &next);
        let started = shared.rt.now();
        let recorded = started >= shared.on;
        if !recorded {
            shared.ramp_up_pending.set(shared.ramp_up_pending.get() + 1);
        }
        let size = shared.lines[line].size;
        let answer = target.file.submit(request);
        drop(turn);
        let answer = answer.await;
        now = shared.rt.now();
        shared.last.set(now);
        if let Err(failure) = check(target, &next, size, answer) {
            shared.failure.borrow_mut().get_or_insert(failure);
            return;
        }
        if !recorded {
            let left = shared.ramp_up_pending.get() - 1;
            shared.ramp_up_pending.set(left);
            if left == 0 && now > shared.on {
                shared.first.set(now);
            }
        } else if shared.ramp_up_pending.get() == 0 && now < shared.off {
            let response = now.since(started);
            target.tally.borrow_mut().count(next.is_read, size.bytes(), response);
            count_latency(&mut shared.latency.borrow_mut(), response);
        }
    }
}

/// A read that came short would count bytes that nobody read.
fn check(
    target: &Target,
    next: &Next,
    size: ByteCount,
    answer: rt::IoResult,
) -> Result<(), IoFailure> {
    let data = answer?;
    let got = ByteCount(data.len() as u64);
    if next.is_read && got < size {
        let file = target.file.name().to_string();
        return Err(IoFailure::Short { file, offset: Offset::ZERO, len: size, got });
    }
    Ok(())
}

/// Waits, and says whether there is still something to do.
async fn pause(shared: &Shared, delay: Duration) -> bool {
    let until = shared.rt.now() + delay;
    loop {
        let now = shared.rt.now();
        if shared.is_over(now) {
            return false;
        }
        if now >= until {
            return true;
        }
        shared.rt.sleep_until(until.min(now + LOOK_AGAIN).min(shared.off)).await;
    }
}

/// Processor time used from when recording should begin until it ends.
async fn processor_time(shared: Rc<Shared>) -> Duration {
    let wait = async |moment: Instant| {
        loop {
            let now = shared.rt.now();
            if now >= moment || shared.is_over(now) {
                return;
            }
            shared.rt.sleep_until(moment.min(now + LOOK_AGAIN)).await;
        }
    };
    wait(shared.on).await;
    let before = shared.rt.processor_time();
    wait(shared.off).await;
    shared.rt.processor_time().saturating_sub(before)
}

/// What a worker writes.
enum Writer {
    /// One byte repeated, another for each write.
    Repeating(Prng),
    /// The same bytes for all.
    Same(Buf),
    /// Other bytes for each, of one size.
    Blocks(Blocks),
    /// Other bytes for each.
    Each(Source),
}

impl Writer {
    fn new(task: &Task) -> Writer {
        let lines = &task.worker.spec.lines;
        let largest = lines.iter().map(|line| line.size).max().unwrap_or(ByteCount::ZERO);
        let source = || task.content.source(task.number);
        match task.worker.pattern {
            DataPattern::RepeatingBytes => Writer::Repeating(prng_of(task, "data")),
            DataPattern::PseudoRandom => Writer::Same(source().next(largest.as_usize())),
            DataPattern::FullRandom if lines.iter().all(|line| line.size == largest) => {
                Writer::Blocks(Blocks::new(&task.content, task.number, largest.as_usize()))
            }
            DataPattern::FullRandom => Writer::Each(source()),
        }
    }

    fn next(&mut self, len: usize) -> Buf {
        match self {
            Writer::Repeating(prng) => {
                Buf::fill((prng.next_u64() & 0xff) * 0x0101_0101_0101_0101, len)
            }
            Writer::Same(buf) => buf.slice(0..len),
            Writer::Blocks(blocks) => blocks.next(),
            Writer::Each(source) => source.next(len),
        }
    }
}
