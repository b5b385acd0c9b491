//! `bench simulation`: how many simulated I/Os one processor carries out in a second.
//!
//! Random reads and writes of 4 KiB, half and half, through `Rc<dyn Device>` on the simulated reactor,
//! at queue depth 1 and 32, on disks that take no simulated time, so that what is left is the cost of
//! simulating: executor, requests, futures, events.
//!
//! * `null`: answers in the call that submits and holds no bytes; a call and a poll.
//! * `ram`: likewise, and holds the bytes.
//! * `event`: answers through an event of the reactor, as the models of disks do: each I/O waits, is
//!   woken, and passes through the executor's queue.
//!
//! * `disk`: the model of a hard disk (7200 rpm, 3 TB), reads all over it.
//! * `raid5-read`, `raid5-write`: an md array of six such disks, 64 KiB chunks, reads or writes all over it; an I/O is one of
//!   the array's, which is four of the disks' where it writes.
//!
//! Rates are by processor time, since other programs may run beside it. There is no peer in the run: nobody else simulates
//! the first three, and DiskSim 4.0 carries out some 66 000 requests of an array a second.
//!
//! The floor of `raid5-write`, and where its time goes, stands in docs/theory/simulated-hardware.md. Its bytes lie all over
//! terabytes, so much of the time is waiting for memory, and other programs on the machine that want it show in the figures.

use super::peer::Rounds;
use md::{Array, ArraySpec, Level};
use rt::{
    Buf, Device, DeviceRef, Geometry, IoCompletion, IoError, IoFuture, Op, Request, Runtime, SgList,
};
use sim::host::Processor;
use sim::profile::load;
use sim::reactor::{Timed, TimedKey};
use sim::{Disk, NullDisk, Profile, RamDisk, SimReactor};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;
use stdx::{ByteCount, Offset, Prng};

const USAGE: &str = "usage: bench simulation [--runs N] [--ios N] [--only ROW]   \
                     (null, ram, event, disk, raid5-read, raid5-write)";
const ROWS: [&str; 6] = ["null", "ram", "event", "disk", "raid5-read", "raid5-write"];
const BLOCK: ByteCount = ByteCount::kib(4);
const CAPACITY: ByteCount = ByteCount::gib(1);

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut runs, mut ios) = (5_usize, 2_000_000_u64);
    let mut rows = &ROWS[..];
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--runs" => runs = value.parse().map_err(|_| USAGE)?,
            "--ios" => ios = value.parse().map_err(|_| USAGE)?,
            "--only" => {
                let row = ROWS.iter().position(|row| row == value).ok_or(USAGE)?;
                rows = &ROWS[row..=row];
            }
            _ => return Err(USAGE.into()),
        }
    }
    if runs == 0 || ios == 0 {
        return Err(USAGE.into());
    }
    for disk in rows.iter().copied() {
        // The models cost more: the same accuracy takes fewer.
        let ios = if matches!(disk, "null" | "ram" | "event") { ios } else { ios / 8 };
        for depth in [1, 32] {
            let (mut rounds, mut rates) = (Rounds::default(), Vec::new());
            for _ in 0..runs {
                rates.push(rate(disk, depth, ios)?);
            }
            rates.iter().for_each(|rate| rounds.add_alone(*rate));
            let case = format!("{disk}-qd{depth}");
            let mut line = rounds.line("simulation", &case, "simulated iops", "", f64::round);
            line["ours_min"] = rates.iter().copied().reduce(f64::min).map(f64::round).into();
            line["ours_max"] = rates.iter().copied().reduce(f64::max).map(f64::round).into();
            println!("{line}");
        }
    }
    Ok(())
}

fn rate(disk: &str, depth: u64, ios: u64) -> Result<f64, String> {
    let reactor = SimReactor::new(Processor::infinite());
    let runtime = Runtime::new(Rc::clone(&reactor) as _);
    let rt = runtime.handle();
    let mix = Mix::of(disk);
    let device: DeviceRef = match disk {
        "null" => Rc::new(NullDisk::new("null", CAPACITY)),
        "ram" => Rc::new(RamDisk::new("ram", CAPACITY)),
        "event" => EventDisk::new(Rc::clone(&reactor)),
        "disk" => modelled(&reactor, 1)?.remove(0),
        _ => {
            let spec = ArraySpec::new(Level::Raid5, modelled(&reactor, 6)?);
            Array::create(&rt, "raid5", spec).map_err(|error| error.to_string())?.device()
        }
    };
    let begin = processor_seconds();
    let all = runtime.block_on(async move {
        let mut prng = Prng::new(3);
        let tasks: Vec<_> = (0..depth)
            .map(|_| rt.spawn(read_and_write(Rc::clone(&device), mix, prng.fork(), ios / depth)))
            .collect();
        for task in tasks {
            task.await?;
        }
        Ok::<(), IoError>(())
    });
    let seconds = processor_seconds() - begin;
    all.map_err(|stalled| stalled.to_string())?.map_err(|error| error.to_string())?;
    Ok((ios / depth * depth) as f64 / seconds)
}

/// Disks whose time is modelled.
fn modelled(reactor: &Rc<SimReactor>, count: usize) -> Result<Vec<DeviceRef>, String> {
    let profile = match load("hua723030ala640").map_err(|error| error.to_string())? {
        Profile::Disk(disk) => disk,
        other => return Err(format!("{} is no disk", other.name())),
    };
    let mut prng = Prng::new(5);
    let disk = |n| Disk::new(reactor, format!("disk {n}"), &profile, &mut prng) as DeviceRef;
    Ok((0..count).map(disk).collect())
}

/// Seconds of processor time that this thread has had; of the clock where the system does not say.
fn processor_seconds() -> f64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = said.and_then(|line| line.split(' ').next()?.parse::<f64>().ok());
    ns.map_or_else(|| BEGUN.with(Instant::elapsed).as_secs_f64(), |ns| ns / 1e9)
}

thread_local! {
    static BEGUN: Instant = Instant::now();
}

/// What is done.
#[derive(Clone, Copy, PartialEq)]
enum Mix {
    Both,
    Reads,
    Writes,
}

impl Mix {
    fn of(disk: &str) -> Mix {
        match disk {
            "raid5-read" | "disk" => Mix::Reads,
            "raid5-write" => Mix::Writes,
            _ => Mix::Both,
        }
    }
}

async fn read_and_write(
    device: DeviceRef,
    mix: Mix,
    mut prng: Prng,
    ios: u64,
) -> Result<(), IoError> {
    let blocks = device.geometry().capacity / BLOCK;
    for _ in 0..ios {
        let draw = prng.next_u64();
        let at = Offset((draw >> 1) % blocks * BLOCK.bytes());
        let reads = mix == Mix::Reads || mix == Mix::Both && draw & 1 == 0;
        let request = match reads {
            true => Request::read(at, BLOCK),
            false => Request::write(at, Buf::fill(draw, BLOCK.as_usize())),
        };
        device.submit(request).await?;
    }
    Ok(())
}

/// A disk that takes no simulated time, but answers through the reactor's events.
struct EventDisk {
    reactor: Rc<SimReactor>,
    key: Cell<Option<TimedKey>>,
    under_way: RefCell<VecDeque<(IoCompletion, SgList)>>,
}

impl EventDisk {
    fn new(reactor: Rc<SimReactor>) -> Rc<EventDisk> {
        let (key, under_way) = (Cell::new(None), RefCell::default());
        let disk = Rc::new(EventDisk { reactor, key, under_way });
        let weak: Weak<dyn Timed> = Rc::downgrade(&(Rc::clone(&disk) as Rc<dyn Timed>));
        disk.key.set(Some(disk.reactor.register(weak)));
        disk
    }
}

impl Timed for EventDisk {
    fn on_event(&self, _now: stdx::Instant) {
        let next = self.under_way.borrow_mut().pop_front();
        if let Some((completion, data)) = next {
            completion.complete(Ok(data));
        }
    }
}

impl Device for EventDisk {
    fn geometry(&self) -> Geometry {
        Geometry::plain(CAPACITY)
    }

    fn name(&self) -> Arc<str> {
        "event".into()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let data = match request.op {
            Op::Read(len) => SgList::zeros(len.as_usize()),
            _ => SgList::new(),
        };
        let (completion, future) = IoFuture::pending();
        self.under_way.borrow_mut().push_back((completion, data));
        if let Some(key) = self.key.get() {
            self.reactor.announce(rt::Reactor::now(&*self.reactor), key);
        }
        future
    }
}
