//! The load: processes that keep I/Os outstanding, and what they count.
//!
//! A [`Load`] is made of *lanes*. A lane is one I/O outstanding: a task that submits, waits, counts, and
//! submits again until it is told to stop. The lanes of one stream share its position, so that a deeper
//! queue reads ahead in one stream rather than making new ones. A [session](Slob) of a database is a lane that
//! computes before each I/O, and reads a block before it writes it.
//!
//! Lanes of a load that has a [`Rate`](crate::study::Rate) take turns: the next I/O is not asked for before its time.
//!
//! Counting is the lab's own cost in a real run, so it is kept to two clock reads and two additions.

use crate::measure::data::DataSource;
use crate::measure::{MeasureError, Volume};
use crate::metrics;
use crate::study::{
    Kind, Op, Position, Probe, ProbeExtent, Random, Slob, Stream, WorkingSet, Workload,
};
use hdrhistogram::Histogram;
use rt::{DeviceRef, IoError, Request, Rt, Task, Work};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset, Prng};

/// Longest latency that the histograms tell apart, in nanoseconds: ten minutes. Whatever takes longer
/// counts as that.
const LATENCY_NS_MAX: u64 = 600 * 1_000_000_000;

/// For how long turns of a load with a rate that could not be taken are kept: a slow answer now and then does not lower the
/// rate, and after a long pause the load does not come all at once.
const TURNS_KEPT: Duration = Duration::from_secs(1);
/// The longest that a lane sleeps before it looks whether the load was stopped.
const TURN_LOOK: Duration = Duration::from_millis(100);
/// Below this share of the rate that a load was told it was not reached.
const RATE_REACHED: f64 = 0.95;

/// Nor was it where a count is by so many times its own noise below (the square root of what is expected): of a few I/Os one more
/// or less falls into a short time by chance.
const RATE_NOISE: f64 = 2.0;

/// What a reader must know of a load that was told a rate and did not reach it, with so many I/Os in this time.
pub fn below_its_rate(workload: &Workload, ios: u64, span: Duration) -> Option<String> {
    let asked = workload.ios_asked().filter(|asked| is_below(ios, asked * span.as_secs_f64()))?;
    let got = metrics::figures(ios as f64 / span.as_secs_f64());
    let asked = metrics::figures(asked);
    Some(format!(
        "the load '{}' did not reach its rate: {got} of {asked} I/Os a second; more under way (queue_depth) may, unless the \
         storage is at its limit",
        workload.name
    ))
}

/// Whether so many are fewer than expected, by more than chance leaves.
fn is_below(ios: u64, expected: f64) -> bool {
    let ios = ios as f64;
    ios < RATE_REACHED * expected && expected - ios > RATE_NOISE * expected.sqrt()
}

/// What a load did: its view of the volume. Reads and writes apart.
#[derive(Clone)]
pub struct Tally {
    /// Reads.
    pub reads: Side,
    /// Writes.
    pub writes: Side,
}

/// One direction of a [`Tally`].
#[derive(Clone)]
pub struct Side {
    /// I/Os done.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Latencies in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Side {
    fn new() -> Side {
        let latency = Histogram::new_with_bounds(128, LATENCY_NS_MAX, 3).expect("bounds are right");
        Side { ios: 0, bytes: 0, latency }
    }

    fn count(&mut self, bytes: u64, latency_ns: u64) {
        self.ios += 1;
        self.bytes += bytes;
        self.latency.saturating_record(latency_ns);
    }

    fn add(&mut self, other: &Side) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("both have the same bounds");
    }
}

impl Tally {
    /// Nothing done.
    pub fn new() -> Tally {
        Tally { reads: Side::new(), writes: Side::new() }
    }

    /// Adds what `other` did.
    pub fn add(&mut self, other: &Tally) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
    }

    /// I/Os in both directions.
    pub fn ios(&self) -> u64 {
        self.reads.ios + self.writes.ios
    }

    /// Latencies in both directions.
    pub fn latency(&self) -> Histogram<u64> {
        let mut latency = self.reads.latency.clone();
        latency.add(&self.writes.latency).expect("both have the same bounds");
        latency
    }

    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
}

/// A load that runs until it is stopped.
pub struct Load {
    shared: Rc<Shared>,
    lanes: Vec<Task<()>>,
}

struct Shared {
    stop: Cell<bool>,
    turns: Option<Turns>,
    tally: RefCell<Tally>,
    error: RefCell<Option<IoError>>,
}

/// When the next I/O of a load with a rate may be asked for.
struct Turns {
    interval: Duration,
    next: Cell<Instant>,
}

impl Turns {
    /// Waits for a turn. What a slow answer held up is made up for, but for what is older than [`TURNS_KEPT`].
    async fn take(&self, rt: &Rt, stop: &Cell<bool>) {
        while !stop.get() {
            let (now, due) = (rt.now(), self.next.get());
            if due <= now {
                let late = (now - due).saturating_sub(TURNS_KEPT);
                self.next.set(due + late + self.interval);
                return;
            }
            // Another lane may take it, and the load may be stopped.
            rt.sleep((due - now).min(TURN_LOOK)).await;
        }
    }
}

/// Where a lane's next I/O goes, and which way.
enum Places {
    /// One after another from `start` to `end`, then from `start` again.
    Sequential { op: Op, next: Rc<Cell<Offset>>, start: Offset, end: Offset },
    /// Anywhere on a grid of `align` from the start of the volume.
    Random { read_share: f64, align: ByteCount, places: u64, prng: Prng },
}

impl Places {
    fn next(&mut self, block: ByteCount) -> (Op, Offset) {
        match self {
            Places::Sequential { op, next, start, end } => {
                let at = next.get();
                let after = at + block;
                next.set(if after + block > *end { *start } else { after });
                (*op, at)
            }
            Places::Random { read_share, align, places, prng } => {
                let op = if prng.chance(*read_share) { Op::Read } else { Op::Write };
                (op, Offset(prng.below(*places) * align.bytes()))
            }
        }
    }
}

struct Lane {
    places: Places,
    block: ByteCount,
    /// Whether a block is read before it is written.
    updates: bool,
    /// What each I/O costs the lane itself, of a processor.
    processor_time: Duration,
}

impl Lane {
    /// One that only asks.
    fn of(places: Places, block: ByteCount) -> Lane {
        Lane { places, block, updates: false, processor_time: Duration::ZERO }
    }
}

impl Load {
    /// Starts a workload on a volume. An array operation is no load.
    ///
    /// # Errors
    /// Where the volume is too small for it.
    pub fn start(
        rt: &Rt,
        volume: &Volume,
        workload: &Workload,
        prng: &mut Prng,
    ) -> Result<Load, MeasureError> {
        let lanes = lanes(volume, workload, prng)?;
        let turns =
            workload.interval().map(|interval| Turns { interval, next: Cell::new(rt.now()) });
        let shared = Rc::new(Shared {
            stop: Cell::new(false),
            turns,
            tally: RefCell::new(Tally::new()),
            error: RefCell::new(None),
        });
        let lanes = lanes
            .into_iter()
            .map(|lane| {
                let (device, data) = (Rc::clone(&volume.device), volume.data.clone());
                rt.spawn(run_lane(rt.clone(), device, data, lane, Rc::clone(&shared)))
            })
            .collect();
        Ok(Load { shared, lanes })
    }

    /// What was done since the last call (or the start).
    ///
    /// # Errors
    /// The first I/O that failed.
    pub fn take(&self) -> Result<Tally, MeasureError> {
        if let Some(error) = self.shared.error.borrow().clone() {
            return Err(error.into());
        }
        Ok(self.shared.tally.replace(Tally::new()))
    }

    /// Lets the I/Os that are outstanding end, and starts no others.
    ///
    /// # Errors
    /// The first I/O that failed.
    pub async fn stop(self) -> Result<(), MeasureError> {
        self.shared.stop.set(true);
        for lane in self.lanes {
            lane.await;
        }
        match self.shared.error.borrow_mut().take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

async fn run_lane(rt: Rt, device: DeviceRef, data: DataSource, mut lane: Lane, shared: Rc<Shared>) {
    let block = lane.block;
    let one = async |op: Op, offset: Offset, processor_time: Duration| {
        if !processor_time.is_zero() {
            rt.charge(Work::program(processor_time)).await;
        }
        let request = match op {
            Op::Read => Request::read(offset, block),
            Op::Write => Request::write(offset, data.next(block.as_usize())),
        };
        let submitted = rt.now();
        match device.submit(request).await {
            Ok(_) => {
                let latency_ns = (rt.now() - submitted).as_nanos() as u64;
                let mut tally = shared.tally.borrow_mut();
                let side = if op == Op::Read { &mut tally.reads } else { &mut tally.writes };
                side.count(block.bytes(), latency_ns);
            }
            Err(error) => {
                shared.error.borrow_mut().get_or_insert(error);
                shared.stop.set(true);
            }
        }
    };
    while !shared.stop.get() {
        if let Some(turns) = &shared.turns {
            turns.take(&rt, &shared.stop).await;
            if shared.stop.get() {
                break;
            }
        }
        let (op, offset) = lane.places.next(block);
        if lane.updates && op == Op::Write {
            one(Op::Read, offset, lane.processor_time).await;
            if shared.stop.get() {
                break;
            }
        }
        one(op, offset, lane.processor_time).await;
    }
}

/// The lanes of a workload.
fn lanes(volume: &Volume, workload: &Workload, prng: &mut Prng) -> Result<Vec<Lane>, MeasureError> {
    let capacity = volume.device.geometry().capacity;
    let set = workload.working_set.of(capacity);
    if let WorkingSet::Size(needed) = workload.working_set
        && needed > capacity
    {
        return Err(MeasureError::VolumeTooSmall {
            capacity,
            needed,
            workload: workload.name.clone(),
        });
    }
    let needs = |needed: ByteCount| {
        if needed <= set {
            return Ok(());
        }
        Err(MeasureError::VolumeTooSmall { capacity: set, needed, workload: workload.name.clone() })
    };
    let random = |block: ByteCount, align: ByteCount, read_share: f64, prng: &mut Prng| {
        let places = (set - block) / align + 1;
        Lane::of(Places::Random { read_share, align, places, prng: prng.fork() }, block)
    };
    match &workload.kind {
        Kind::Stream(Stream { streams, block_size, op, queue_depth }) => {
            needs(*block_size * u64::from(*streams))?;
            let part = (set / u64::from(*streams)).round_down(*block_size);
            let lanes = (0..u64::from(*streams)).flat_map(|stream| {
                let start = Offset::ZERO + part * stream;
                let next = Rc::new(Cell::new(start));
                (0..*queue_depth).map(move |_| {
                    let (next, end) = (Rc::clone(&next), start + part);
                    Lane::of(Places::Sequential { op: *op, next, start, end }, *block_size)
                })
            });
            Ok(lanes.collect())
        }
        Kind::Random(Random { read_share, block_size, queue_depth, align }) => {
            // Two places at the least: one and the same is no random I/O.
            needs(*block_size + *align)?;
            Ok((0..*queue_depth).map(|_| random(*block_size, *align, *read_share, prng)).collect())
        }
        Kind::Slob(Slob { readers, writers, block_size, processor_time }) => {
            needs(*block_size * 2)?;
            let shares = std::iter::repeat_n(1.0, *readers as usize)
                .chain(std::iter::repeat_n(0.0, *writers as usize));
            let session = |share| {
                let lane = random(*block_size, *block_size, share, prng);
                Lane { updates: true, processor_time: *processor_time, ..lane }
            };
            Ok(shares.map(session).collect())
        }
        Kind::Probe(probe) => {
            needs(match probe.extent {
                ProbeExtent::Total(total) => total.max(probe.block_size),
                ProbeExtent::Time(_) => probe.block_size,
            })?;
            let start = probe_start(probe, set);
            let next = Rc::new(Cell::new(start));
            let end = Offset::ZERO + set;
            let places = Places::Sequential { op: probe.op, next, start, end };
            Ok(vec![Lane::of(places, probe.block_size)])
        }
        Kind::Operation(_) | Kind::Tool(_) => {
            unreachable!("array operations and tools are no loads; the study's reader refuses them")
        }
    }
}

/// How far a probe of a time is taken to get in a second, at the most: so far before the end it begins
/// when it is to measure the end.
const PROBE_BYTES_A_SECOND: ByteCount = ByteCount::gib(4);

/// How many bytes a probe can pass over from where it begins, in whole blocks: it never turns back.
pub fn probe_reach(probe: &Probe, set: ByteCount) -> ByteCount {
    (set - probe_start(probe, set).from_start()).round_down(probe.block_size)
}

/// Where a probe begins, in whole blocks.
fn probe_start(probe: &Probe, set: ByteCount) -> Offset {
    let block = probe.block_size;
    let extent = match probe.extent {
        ProbeExtent::Total(total) => total.min(set),
        ProbeExtent::Time(span) => {
            let bytes = PROBE_BYTES_A_SECOND.bytes() as f64 * span.as_secs_f64();
            ByteCount(bytes as u64).min(set)
        }
    };
    let start = match probe.at {
        Position::Start => ByteCount::ZERO,
        Position::Middle => (set - extent) / 2,
        Position::End => set - extent,
    };
    Offset::ZERO + start.round_down(block).min((set - block).round_down(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by a newcomer: a load of 5 I/Os a second that made 6 in 1.34 s was said to be below its rate.
    #[test]
    fn a_load_is_below_its_rate_where_that_is_no_chance() {
        assert!(!is_below(6, 6.7) && !is_below(2, 6.7) && !is_below(0, 1.0));
        assert!(is_below(1, 6.7) && is_below(0, 6.7));
        assert!(is_below(90, 120.0) && !is_below(100, 120.0));
        assert!(is_below(9_400, 10_000.0) && !is_below(9_600, 10_000.0));
    }
}
