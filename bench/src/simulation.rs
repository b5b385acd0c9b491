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
//! There is no peer: nobody else simulates these.

use super::peer::Rounds;
use rt::{
    Buf, Device, DeviceRef, Geometry, IoCompletion, IoError, IoFuture, Op, Request, Runtime, SgList,
};
use sim::host::Processor;
use sim::reactor::{Timed, TimedKey};
use sim::{NullDisk, RamDisk, SimReactor};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;
use stdx::{ByteCount, Offset, Prng};

const USAGE: &str = "usage: bench simulation [--runs N] [--ios N]";
const BLOCK: ByteCount = ByteCount::kib(4);
const CAPACITY: ByteCount = ByteCount::gib(1);

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut runs, mut ios) = (5_usize, 2_000_000_u64);
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--runs" => runs = value.parse().map_err(|_| USAGE)?,
            "--ios" => ios = value.parse().map_err(|_| USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    if runs == 0 || ios == 0 {
        return Err(USAGE.into());
    }
    for disk in ["null", "ram", "event"] {
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
    let device: DeviceRef = match disk {
        "null" => Rc::new(NullDisk::new("null", CAPACITY)),
        "ram" => Rc::new(RamDisk::new("ram", CAPACITY)),
        _ => EventDisk::new(reactor),
    };
    let rt = runtime.handle();
    let begin = Instant::now();
    let all = runtime.block_on(async move {
        let mut prng = Prng::new(3);
        let tasks: Vec<_> = (0..depth)
            .map(|_| rt.spawn(read_and_write(Rc::clone(&device), prng.fork(), ios / depth)))
            .collect();
        for task in tasks {
            task.await?;
        }
        Ok::<(), IoError>(())
    });
    let seconds = begin.elapsed().as_secs_f64();
    all.map_err(|stalled| stalled.to_string())?.map_err(|error| error.to_string())?;
    Ok((ios / depth * depth) as f64 / seconds)
}

async fn read_and_write(device: DeviceRef, mut prng: Prng, ios: u64) -> Result<(), IoError> {
    let blocks = CAPACITY / BLOCK;
    for _ in 0..ios {
        let draw = prng.next_u64();
        let at = Offset((draw >> 1) % blocks * BLOCK.bytes());
        let request = match draw & 1 {
            0 => Request::read(at, BLOCK),
            _ => Request::write(at, Buf::fill(draw, BLOCK.as_usize())),
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
