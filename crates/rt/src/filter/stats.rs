//! Counts what a device does: the lab's "disks' view", to hold against what a volume claims.
//!
//! For each class of request (kind × priority): answered I/Os, their bytes, errors, the sum of
//! latencies and their distribution. For the device: how long it had at least one request in flight
//! (busy), and the integral of the number in flight over time, from which come utilisation and mean
//! queue. Latency runs from submission to answer, so it holds the time in queues below.
//!
//! **Cost.** Some tens of nanoseconds an I/O: two looks at the clock, one allocation, one histogram
//! entry. [`Counters`] is a small copy, fit for sampling often; a [`StatsSnapshot`] also has the
//! histograms (up to some 100 KiB for each class in use).
//!
//! **Rules.** A request counts when it is answered: `ios` and `bytes` and its latency where it was
//! done, `errors` where it failed. One whose future was dropped leaves the flight and counts nowhere.
//! The interval goes from the start or the last [reset](Stats::reset); what is in flight across its
//! borders counts as busy in both. Differences of two snapshots describe the time between them.

use crate::device::{Device, DeviceRef, Geometry, IoFuture, IoResult, OpKind, Priority, Request};
use crate::executor::Rt;
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::ops::Sub;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Instant};

/// Digits to which a histogram keeps latencies: 0.1 %.
const LATENCY_DIGITS: u8 = 3;
/// Every kind, in the order of its number.
const KINDS: [OpKind; 5] =
    [OpKind::Read, OpKind::Write, OpKind::Flush, OpKind::Discard, OpKind::WriteZeroes];
const PRIORITIES: [Priority; 2] = [Priority::Foreground, Priority::Background];

/// What was counted for one kind and priority, or for a sum of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Requests that were done.
    pub ios: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Requests that failed.
    pub errors: u64,
    /// The latencies of those that were done, added up.
    pub latency_sum: Duration,
}

impl ClassCounters {
    fn plus(self, other: ClassCounters) -> ClassCounters {
        ClassCounters {
            ios: self.ios + other.ios,
            bytes: self.bytes + other.bytes,
            errors: self.errors + other.errors,
            latency_sum: self.latency_sum + other.latency_sum,
        }
    }

    /// Mean latency, zero where nothing was done.
    pub fn mean_latency(&self) -> Duration {
        let nanos = self.latency_sum.as_nanos() / u128::from(self.ios.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What was counted in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The length of the interval.
    pub span: Duration,
    /// Time with at least one request in flight.
    pub busy: Duration,
    /// The number in flight, integrated over time.
    pub in_flight_nanos: u128,
    classes: [[ClassCounters; PRIORITIES.len()]; KINDS.len()],
}

impl Counters {
    /// Requests of one kind and priority.
    pub fn of(&self, kind: OpKind, priority: Priority) -> ClassCounters {
        self.classes[kind as usize][priority as usize]
    }

    /// Requests of one kind.
    pub fn of_kind(&self, kind: OpKind) -> ClassCounters {
        self.classes[kind as usize].into_iter().fold(ClassCounters::default(), ClassCounters::plus)
    }

    /// All requests.
    pub fn total(&self) -> ClassCounters {
        KINDS
            .into_iter()
            .map(|kind| self.of_kind(kind))
            .fold(ClassCounters::default(), ClassCounters::plus)
    }

    /// The share of the time with at least one request in flight, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        self.busy.as_secs_f64() / self.span.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The mean number of requests in flight.
    pub fn mean_in_flight(&self) -> f64 {
        self.in_flight_nanos as f64 / (self.span.as_nanos().max(1)) as f64
    }
}

impl Sub for Counters {
    type Output = Counters;
    /// What happened between `earlier` and this, of one device without a reset between.
    ///
    /// # Panics
    /// If `earlier` is not earlier.
    fn sub(mut self, earlier: Counters) -> Counters {
        self.span -= earlier.span;
        self.busy -= earlier.busy;
        self.in_flight_nanos -= earlier.in_flight_nanos;
        for (class, before) in
            self.classes.iter_mut().flatten().zip(earlier.classes.iter().flatten())
        {
            class.ios -= before.ios;
            class.bytes -= before.bytes;
            class.errors -= before.errors;
            class.latency_sum -= before.latency_sum;
        }
        self
    }
}

type Latencies = [[Option<Histogram<u64>>; PRIORITIES.len()]; KINDS.len()];

/// [`Counters`] with the distributions of latency.
#[derive(Clone, Debug, Default)]
pub struct StatsSnapshot {
    /// The counters.
    pub counters: Counters,
    latencies: Latencies,
}

impl StatsSnapshot {
    /// Latencies in nanoseconds of one kind and priority; `None` where there was none.
    pub fn latencies(&self, kind: OpKind, priority: Priority) -> Option<&Histogram<u64>> {
        self.latencies[kind as usize][priority as usize].as_ref()
    }

    /// Latencies in nanoseconds of all requests that `include` picks.
    pub fn latencies_of(&self, include: impl Fn(OpKind, Priority) -> bool) -> Histogram<u64> {
        let mut sum = empty_histogram();
        for kind in KINDS {
            for priority in PRIORITIES.into_iter().filter(|priority| include(kind, *priority)) {
                if let Some(latencies) = self.latencies(kind, priority) {
                    sum.add(latencies).expect("a histogram that grows takes every latency");
                }
            }
        }
        sum
    }

    /// What happened between `earlier` and this, of one device without a reset between.
    ///
    /// # Panics
    /// If `earlier` is not earlier.
    pub fn since(&self, earlier: &StatsSnapshot) -> StatsSnapshot {
        let mut between = self.clone();
        between.counters = self.counters - earlier.counters;
        let pairs = between.latencies.iter_mut().flatten().zip(earlier.latencies.iter().flatten());
        for (latencies, before) in pairs {
            if let Some(before) = before {
                let latencies =
                    latencies.as_mut().expect("a later snapshot has all that an earlier has");
                latencies.subtract(before).expect("a later snapshot has all that an earlier has");
            }
        }
        between
    }
}

fn empty_histogram() -> Histogram<u64> {
    Histogram::new(LATENCY_DIGITS).expect("the number of digits is allowed")
}

/// See the [module](self).
pub struct Stats {
    below: DeviceRef,
    meter: Rc<Meter>,
}

struct Meter {
    rt: Rt,
    state: RefCell<State>,
}

struct State {
    snapshot: StatsSnapshot,
    in_flight: u64,
    /// Up to when `span`, `busy` and `in_flight_nanos` are counted.
    counted_to: Instant,
}

impl State {
    /// Counts the time up to `now`, with the number in flight that held since the last time.
    fn advance(&mut self, now: Instant) {
        let span = now.since(self.counted_to);
        self.counted_to = now;
        let counters = &mut self.snapshot.counters;
        counters.span += span;
        if self.in_flight > 0 {
            counters.busy += span;
            counters.in_flight_nanos += span.as_nanos() * u128::from(self.in_flight);
        }
    }
}

impl Stats {
    /// `below`, counted.
    pub fn new(below: DeviceRef, rt: &Rt) -> Rc<Stats> {
        let counted_to = rt.now();
        let state = State { snapshot: StatsSnapshot::default(), in_flight: 0, counted_to };
        let meter = Rc::new(Meter { rt: rt.clone(), state: RefCell::new(state) });
        Rc::new(Stats { below, meter })
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let mut state = self.meter.state.borrow_mut();
        state.advance(self.meter.rt.now());
        state.snapshot.counters
    }

    /// The counters and distributions so far.
    pub fn snapshot(&self) -> StatsSnapshot {
        let mut state = self.meter.state.borrow_mut();
        state.advance(self.meter.rt.now());
        state.snapshot.clone()
    }

    /// How many requests are in flight now.
    pub fn in_flight(&self) -> u64 {
        self.meter.state.borrow().in_flight
    }

    /// Begins a new interval.
    pub fn reset(&self) {
        let mut state = self.meter.state.borrow_mut();
        state.snapshot = StatsSnapshot::default();
        state.counted_to = self.meter.rt.now();
    }
}

/// A request in flight. Leaves the flight when it is dropped, answered or not.
struct Flight {
    meter: Rc<Meter>,
    kind: OpKind,
    priority: Priority,
    len: ByteCount,
    since: Instant,
    landed: bool,
}

impl Flight {
    fn land(mut self, result: &IoResult) {
        self.landed = true;
        let now = self.meter.rt.now();
        let mut state = self.meter.state.borrow_mut();
        state.advance(now);
        state.in_flight -= 1;
        let (kind, priority) = (self.kind as usize, self.priority as usize);
        let class = &mut state.snapshot.counters.classes[kind][priority];
        if result.is_err() {
            class.errors += 1;
            return;
        }
        let latency = now.since(self.since);
        class.ios += 1;
        class.bytes += self.len;
        class.latency_sum += latency;
        let latencies = &mut state.snapshot.latencies[kind][priority];
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let recorded = latencies.get_or_insert_with(empty_histogram).record(nanos);
        recorded.expect("a histogram that grows takes every latency");
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.landed {
            let mut state = self.meter.state.borrow_mut();
            state.advance(self.meter.rt.now());
            state.in_flight -= 1;
        }
    }
}

impl Device for Stats {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let since = self.meter.rt.now();
        {
            let mut state = self.meter.state.borrow_mut();
            state.advance(since);
            state.in_flight += 1;
        }
        let flight = Flight {
            meter: Rc::clone(&self.meter),
            kind: request.kind(),
            priority: request.priority,
            len: request.len(),
            since,
            landed: false,
        };
        let below = self.below.submit(request);
        IoFuture::new(async move {
            let result = below.await;
            flight.land(&result);
            result
        })
    }
}

#[cfg(test)]
mod tests;
