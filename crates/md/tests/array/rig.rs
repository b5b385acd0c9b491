//! What the tests of this crate stand on: a reactor whose time jumps, members that answer late and in
//! any order, and the arrays to be tried.

use md::{Array, ArraySpec, Layout, Level};
use rt::Work;
use rt::filter::{Fault, Overlap, Trace};
use rt::reactor::{ComputePlan, Job, Parked, Reactor, Unpark};
use rt::{Device, DeviceRef, Geometry, IoFuture, MemoryDevice, Request, Rt, Runtime};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{ByteCount, Instant, Prng};

struct JumpingClock(Cell<Instant>);

struct NoOne;

impl Unpark for NoOne {
    fn unpark(&self) {}
}

impl Reactor for JumpingClock {
    fn now(&self) -> Instant {
        self.0.get()
    }
    fn poll(&self) {}
    fn park(&self, deadline: Option<Instant>) -> Parked {
        let Some(deadline) = deadline else { return Parked::Stalled };
        self.0.set(deadline.max(self.0.get()));
        Parked::LookAgain
    }
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::new(NoOne)
    }
    fn plan(&self, work: Work) -> ComputePlan {
        ComputePlan::InlineUntil(self.now() + Duration::from_nanos(work.bytes().bytes()))
    }
    fn offload(&self, _: Job) {
        unreachable!("this reactor never asks for it")
    }
    fn processor_time(&self) -> Duration {
        Duration::ZERO
    }
}

/// An executor whose time jumps; a byte of work takes a nanosecond. (The one with modelled cores is in
/// `sim`, which lies beside this crate.)
pub fn runtime() -> Runtime {
    Runtime::new(Rc::new(JumpingClock(Cell::default())))
}

/// Does each request after a random time, and answers after another.
pub struct Late {
    below: DeviceRef,
    rt: Rt,
    prng: RefCell<Prng>,
}

impl Late {
    pub fn new(below: DeviceRef, rt: &Rt, prng: Prng) -> Rc<Late> {
        Rc::new(Late { below, rt: rt.clone(), prng: RefCell::new(prng) })
    }
}

/// The longest random time.
const LATE_NANOS_MAX: u64 = 100_000;

impl Device for Late {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }
    fn name(&self) -> Arc<str> {
        self.below.name()
    }
    fn begin(&self, request: Request) -> IoFuture {
        let mut prng = self.prng.borrow_mut();
        let mut span = || Duration::from_nanos(prng.below(LATE_NANOS_MAX));
        let (before, after) = (span(), span());
        let (rt, below) = (self.rt.clone(), Rc::clone(&self.below));
        IoFuture::new(async move {
            rt.sleep(before).await;
            let answer = below.submit(request).await;
            rt.sleep(after).await;
            answer
        })
    }
}

/// A member: memory below, what a test can do to it, what it was asked, and whether that could be done in any order.
#[derive(Clone)]
pub struct Disk {
    pub memory: Rc<MemoryDevice>,
    pub fault: Rc<Fault>,
    pub trace: Rc<Trace>,
    watched: Rc<Overlap>,
}

impl Disk {
    pub fn new(rt: &Rt, name: &str, size: u64, prng: &mut Prng) -> Disk {
        Disk::over(rt, MemoryDevice::new(name, ByteCount(size)), prng)
    }

    pub fn rotating(rt: &Rt, name: &str, size: u64, prng: &mut Prng) -> Disk {
        let geometry = Geometry { rotational: true, ..Geometry::plain(ByteCount(size)) };
        Disk::over(rt, MemoryDevice::with_geometry(name, geometry), prng)
    }

    fn over(rt: &Rt, memory: Rc<MemoryDevice>, prng: &mut Prng) -> Disk {
        let late = Late::new(memory.clone(), rt, prng.fork());
        let fault = Fault::new(late, rt, prng.fork());
        let trace = Trace::new(fault.clone(), rt);
        let watched = Overlap::new(trace.clone(), rt);
        Disk { memory, fault, trace, watched }
    }

    pub fn device(&self) -> DeviceRef {
        self.watched.clone()
    }
}

/// An array with its members by slot.
pub struct Rig {
    pub rt: Rt,
    pub array: Rc<Array>,
    pub disks: Vec<Disk>,
    pub size: u64,
    pub data_offset: u64,
    pub prng: Prng,
}

/// A level and layout, a number of members, a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub level: Level,
    pub layout: &'static str,
    pub disks: usize,
    pub chunk: u64,
}

pub const fn shape(level: Level, layout: &'static str, disks: usize, chunk_kib: u64) -> Shape {
    Shape { level, layout, disks, chunk: chunk_kib << 10 }
}

/// Arrays to be tried: every level and layout, narrow and wide.
pub const SHAPES: [Shape; 32] = [
    shape(Level::Linear, "", 3, 4),
    shape(Level::Raid0, "", 4, 4),
    shape(Level::Raid0, "original", 3, 12),
    shape(Level::Raid1, "", 2, 4),
    shape(Level::Raid1, "", 3, 4),
    shape(Level::Raid10, "near-2", 2, 4),
    shape(Level::Raid10, "near-2", 4, 4),
    shape(Level::Raid10, "near-2", 5, 8),
    shape(Level::Raid10, "near-3", 5, 4),
    shape(Level::Raid10, "far-2", 4, 4),
    shape(Level::Raid10, "far-2", 3, 8),
    shape(Level::Raid10, "far-3", 4, 4),
    shape(Level::Raid10, "offset-2", 4, 4),
    shape(Level::Raid10, "offset-2", 5, 4),
    shape(Level::Raid4, "", 3, 4),
    shape(Level::Raid4, "", 6, 8),
    shape(Level::Raid5, "left-symmetric", 2, 4),
    shape(Level::Raid5, "left-symmetric", 3, 4),
    shape(Level::Raid5, "left-symmetric", 6, 4),
    shape(Level::Raid5, "left-asymmetric", 4, 8),
    shape(Level::Raid5, "right-symmetric", 5, 4),
    shape(Level::Raid5, "right-asymmetric", 4, 4),
    shape(Level::Raid5, "parity-first", 4, 4),
    shape(Level::Raid5, "parity-last", 5, 16),
    shape(Level::Raid6, "left-symmetric", 4, 4),
    shape(Level::Raid6, "left-symmetric", 7, 4),
    shape(Level::Raid6, "left-asymmetric", 5, 4),
    shape(Level::Raid6, "right-symmetric", 6, 8),
    shape(Level::Raid6, "right-asymmetric", 5, 4),
    shape(Level::Raid6, "ddf-zero-restart", 5, 4),
    shape(Level::Raid6, "ddf-N-continue", 6, 4),
    shape(Level::Raid6, "left-symmetric-6", 5, 4),
];

impl Shape {
    /// How many members any of which may be lost together.
    pub fn redundancy(&self) -> usize {
        match self.level {
            Level::Linear | Level::Raid0 => 0,
            Level::Raid1 => self.disks - 1,
            Level::Raid10 => usize::from(self.layout.as_bytes()[self.layout.len() - 1] - b'0') - 1,
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
        }
    }
}

impl Rig {
    /// An array of this shape whose members have so many chunks each, all zeros.
    pub fn new(rt: &Rt, shape: Shape, chunks: u64, clean: bool, seed: u64) -> Rig {
        let mut prng = Prng::new(seed);
        let data_offset = 4096;
        let size = data_offset + chunks * shape.chunk;
        let uneven = matches!(shape.level, Level::Linear | Level::Raid0);
        let disk = |slot: usize, prng: &mut Prng| {
            let more = if uneven { slot as u64 % 3 * 2 * shape.chunk } else { 0 };
            Disk::new(rt, &format!("disk{slot}"), size + more, prng)
        };
        let disks: Vec<Disk> = (0..shape.disks).map(|slot| disk(slot, &mut prng)).collect();
        let mut spec = ArraySpec::new(shape.level, disks.iter().map(Disk::device).collect());
        spec.chunk = ByteCount(shape.chunk);
        spec.data_offset = ByteCount(data_offset);
        spec.clean = clean;
        // Small, so that rows leave it too.
        spec.stripe_cache = Some(ByteCount(6 * shape.chunk));
        if !shape.layout.is_empty() {
            spec.layout = Layout::parse(shape.level, shape.layout).expect("a layout");
        }
        let array = Array::create(rt, "array", spec).expect("an array");
        Rig { rt: rt.clone(), array, disks, size, data_offset, prng }
    }

    pub fn new_disk(&mut self, name: &str) -> Disk {
        Disk::new(&self.rt, name, self.size, &mut self.prng)
    }
}
