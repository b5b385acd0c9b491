//! `bench cores`: RAID 6 sets on one executor and on several, and what a request costs that crosses from one to another.
//!
//! A set is six files in memory (tmpfs), so that a processor is what limits it. An executor is a thread with its own
//! reactor; sets are dealt out to executors in turn, and each has its load beside it, on its own executor.
//!
//! # Cases
//!
//! * `read-4k-S-sets-on-E` and `full-stripes-S-sets-on-E`: all sets together, 4 KiB reads at random places (from
//!   [`DEPTH`] tasks a set), and writes of whole stripes, on E executors. The peer is the same sets on one executor, in
//!   the same round. `processor_ns` is the processor time of the whole process for an I/O: where it grows with the
//!   executors, they are in each other's way (memory, locks, the kernel), and more of them gain less than their
//!   number. Goal: two sets on two executors of two free processors reach 1.8 times one.
//! * `crossing-DEPTH`: 4 KiB reads of a set on another executor, through [`Elsewhere`], beside the same on the set's own.
//!   Ours is the processor time of a request more than there; the goal, which stands in the peer's place, is
//!   1 500 ns. At depth 1 each crossing wakes a thread twice, by a system call each; deeper queues share wakes.
//!
//! Sides alternate; ratios are medians over the rounds. More executors than free processors measure the scheduler.

#![allow(clippy::disallowed_types, reason = "the threads that begin a round wait for one another")]

use super::peer::{Rounds, median};
use futures_util::future::join_all;
use host::{Clock, FileDevice, FileOptions, HostRuntime, ReactorKind};
use md::{Array, ArraySpec, Level};
use rt::filter::{Elsewhere, Gate};
use rt::{Buf, DeviceRef, Request, Rt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stdx::{ByteCount, Offset, Prng};

const USAGE: &str = "usage: bench cores [--dir DIR] [--runs N] [--executors N]   (DIR on tmpfs; default /dev/shm; N executors at the most, default one a processor)";
const MEMBERS: usize = 6;
const CHUNK: ByteCount = ByteCount::kib(64);
const STRIPE: ByteCount = ByteCount::kib(64 * 4);
const MEMBER: ByteCount = ByteCount::mib(16);
/// Tasks of a set's load.
const DEPTH: u64 = 16;
/// 4 KiB reads of a set in a round.
const READS: u64 = 40_000;
/// Whole stripes of a set in a round.
const STRIPES: u64 = 1_000;
/// What a request may cost that crosses, in ns.
const CROSSING_GOAL_NS: f64 = 1500.0;

/// What a set's load does.
#[derive(Clone, Copy)]
enum Load {
    Reads,
    Stripes,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Reads => "read-4k",
            Load::Stripes => "full-stripes",
        }
    }

    fn count(self) -> u64 {
        match self {
            Load::Reads => READS,
            Load::Stripes => STRIPES,
        }
    }
}

/// What a round came to.
#[derive(Clone, Copy)]
struct Round {
    /// I/Os a second.
    rate: f64,
    /// Processor time of an I/O.
    ns: f64,
}

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut runs, mut dir) = (5_usize, PathBuf::from("/dev/shm"));
    let mut executors_max = std::thread::available_parallelism().map_or(1, usize::from);
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--runs" => runs = value.parse().map_err(|_| USAGE)?,
            "--executors" => executors_max = value.parse().map_err(|_| USAGE)?,
            "--dir" => dir = value.into(),
            _ => return Err(USAGE.into()),
        }
    }
    if runs == 0 || executors_max == 0 {
        return Err(USAGE.into());
    }
    let scratch = tempfile::tempdir_in(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for load in [Load::Reads, Load::Stripes] {
        for (sets, executors) in [(1, 1), (2, 2), (4, 2), (4, 4)] {
            if executors <= executors_max {
                scaling(load, sets, executors, runs, scratch.path())?;
            }
        }
    }
    for depth in [1, DEPTH, 4 * DEPTH] {
        crossing(depth, runs, scratch.path())?;
    }
    Ok(())
}

/// A set of files of its own, created anew.
fn set(host: &HostRuntime, dir: &Path, name: &str) -> Result<DeviceRef, String> {
    let file = |n: usize| {
        let path = dir.join(format!("{name}-{n}"));
        let device = FileDevice::create(&host.host(), &path, MEMBER, FileOptions::default());
        device.map(|device| Rc::new(device) as DeviceRef).map_err(|error| error.to_string())
    };
    let members = (0..MEMBERS).map(file).collect::<Result<Vec<DeviceRef>, String>>()?;
    let mut spec = ArraySpec::new(Level::Raid6, members);
    spec.chunk = CHUNK;
    let array = Array::create(&host.rt(), name, spec).map_err(|error| error.to_string())?;
    Ok(array.device())
}

/// Takes the memory of all files, so that no round does.
async fn fill(set: DeviceRef) -> Result<(), String> {
    let stripes = set.geometry().capacity.bytes() / STRIPE.bytes();
    load(set, Load::Stripes, stripes, 4, 0).await
}

/// So many I/Os from so many tasks.
async fn load(set: DeviceRef, load: Load, count: u64, depth: u64, seed: u64) -> Result<(), String> {
    let stripes = set.geometry().capacity.bytes() / STRIPE.bytes();
    let mut bytes = vec![0; STRIPE.as_usize()];
    Prng::new(seed).fill(&mut bytes);
    let data = Buf::copy_of(&bytes);
    let tasks = (0..depth).map(|task| {
        let (set, data) = (Rc::clone(&set), data.clone());
        let mut prng = Prng::new(seed ^ (task + 1));
        async move {
            for n in (task..count).step_by(depth as usize) {
                let request = match load {
                    Load::Reads => {
                        let at = prng.below(stripes * STRIPE.bytes() / 4096) * 4096;
                        Request::read(Offset(at), ByteCount(4096))
                    }
                    // Each stripe by one task at a time.
                    Load::Stripes => {
                        Request::write(Offset(n % stripes * STRIPE.bytes()), data.clone())
                    }
                };
                set.submit(request).await.map_err(|error| error.to_string())?;
            }
            Ok(())
        }
    });
    join_all(tasks).await.into_iter().collect()
}

/// An executor on a thread of its own, with some sets: it runs a round each time it is told to.
struct Executor {
    begin: mpsc::Sender<Load>,
    took: mpsc::Receiver<Result<(Instant, Instant), String>>,
    thread: JoinHandle<()>,
}

impl Executor {
    fn start(dir: PathBuf, names: Vec<String>, together: Arc<Barrier>) -> Executor {
        let (begin, orders) = mpsc::channel();
        let (tell, took) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let host = match HostRuntime::new(ReactorKind::Auto) {
                Ok(host) => host,
                Err(error) => return drop(tell.send(Err(error.to_string()))),
            };
            let sets: Result<Vec<DeviceRef>, String> =
                names.iter().map(|name| set(&host, &dir, name)).collect();
            let filled = sets.and_then(|sets| {
                let all = sets.clone().into_iter().map(fill).collect::<Vec<_>>();
                on(&host, async move { join_all(all).await.into_iter().collect() })?;
                Ok(sets)
            });
            let _ = tell.send(filled.clone().map(|_| (Instant::now(), Instant::now())));
            let Ok(sets) = filled else { return };
            while let Ok(order) = orders.recv() {
                together.wait();
                let began = Instant::now();
                let all = sets
                    .iter()
                    .zip(1..)
                    .map(|(set, seed)| load(Rc::clone(set), order, order.count(), DEPTH, seed));
                let all = all.collect::<Vec<_>>();
                let done = on(&host, async move { join_all(all).await.into_iter().collect() });
                let _ = tell.send(done.map(|()| (began, Instant::now())));
            }
        });
        Executor { begin, took, thread }
    }

    fn result(&self) -> Result<(Instant, Instant), String> {
        self.took.recv().map_err(|_| "an executor ended".to_owned())?
    }
}

fn on(
    host: &HostRuntime,
    work: impl Future<Output = Result<(), String>> + 'static,
) -> Result<(), String> {
    host.runtime().block_on(work).map_err(|error| error.to_string())?
}

/// Executors with sets that were dealt out to them.
struct Side {
    executors: Vec<Executor>,
    sets: usize,
    clock: Clock,
}

impl Side {
    fn start(dir: &Path, side: &str, sets: usize, executors: usize) -> Result<Side, String> {
        let together = Arc::new(Barrier::new(executors));
        let start = |number: usize| {
            let names = (number..sets).step_by(executors).map(|set| format!("{side}-{set}"));
            Executor::start(dir.to_owned(), names.collect(), Arc::clone(&together))
        };
        let executors: Vec<Executor> = (0..executors).map(start).collect();
        for executor in &executors {
            executor.result()?;
        }
        Ok(Side { executors, sets, clock: Clock::start() })
    }

    fn round(&self, load: Load) -> Result<Round, String> {
        let before = self.clock.processor_time();
        for executor in &self.executors {
            executor.begin.send(load).map_err(|_| "an executor ended".to_owned())?;
        }
        let spans = self.executors.iter().map(Executor::result);
        let spans = spans.collect::<Result<Vec<(Instant, Instant)>, String>>()?;
        let began = spans.iter().map(|span| span.0).min().expect("a side has an executor");
        let ended = spans.iter().map(|span| span.1).max().expect("a side has an executor");
        let ios = (self.sets as u64 * load.count()) as f64;
        let ns = (self.clock.processor_time() - before).as_nanos() as f64 / ios;
        Ok(Round { rate: ios / (ended - began).as_secs_f64(), ns })
    }

    fn end(self) {
        for Executor { begin, thread, .. } in self.executors {
            drop(begin);
            let _ = thread.join();
        }
    }
}

fn scaling(
    load: Load,
    sets: usize,
    executors: usize,
    runs: usize,
    dir: &Path,
) -> Result<(), String> {
    let dir = tempfile::tempdir_in(dir).map_err(|error| error.to_string())?;
    let ours = Side::start(dir.path(), "several", sets, executors)?;
    let peer = Side::start(dir.path(), "one", sets, 1)?;
    let (mut rounds, mut ns, mut peers_ns) = (Rounds::default(), vec![], vec![]);
    for _ in 0..runs {
        let (one, several) = (peer.round(load)?, ours.round(load)?);
        rounds.add(several.rate, one.rate, several.rate / one.rate);
        ns.push(several.ns);
        peers_ns.push(one.ns);
    }
    ours.end();
    peer.end();
    let case = format!("{}-{sets}-sets-on-{executors}", load.name());
    let peer = "the same sets on one executor";
    let mut line = rounds.line("cores", &case, "I/Os a second", peer, f64::round);
    line["processor_ns"] = median(&ns).map(f64::round).into();
    line["peer_processor_ns"] = median(&peers_ns).map(f64::round).into();
    println!("{line}");
    Ok(())
}

/// Processor time of a read from `depth` tasks.
fn reads(host: &HostRuntime, device: &DeviceRef, depth: u64, seed: u64) -> Result<f64, String> {
    let before = host.rt().processor_time();
    on(host, load(Rc::clone(device), Load::Reads, READS, depth, seed))?;
    let spent: Duration = host.rt().processor_time() - before;
    Ok(spent.as_nanos() as f64 / READS as f64)
}

fn crossing(depth: u64, runs: usize, dir: &Path) -> Result<(), String> {
    let dir = tempfile::tempdir_in(dir).map_err(|error| error.to_string())?;
    let host = HostRuntime::new(ReactorKind::Auto).map_err(|error| error.to_string())?;
    let near = set(&host, dir.path(), "near")?;
    on(&host, fill(Rc::clone(&near)))?;
    let (sender, gates) = mpsc::channel();
    let path = dir.path().to_owned();
    let far = std::thread::spawn(move || -> Result<(), String> {
        let host = HostRuntime::new(ReactorKind::Auto).map_err(|error| error.to_string())?;
        let set = set(&host, &path, "far")?;
        on(&host, fill(Rc::clone(&set)))?;
        let (gate, task) = Gate::open(&host.rt(), set);
        let _ = sender.send(gate);
        on(&host, async move {
            task.await;
            Ok(())
        })
    });
    let gate = gates.recv().map_err(|_| "the other executor ended".to_owned())?;
    let rt: Rt = host.rt();
    let elsewhere: DeviceRef = Elsewhere::new(&rt, gate);
    let mut rounds = Rounds::default();
    for round in 0..runs as u64 {
        let here = reads(&host, &near, depth, round)?;
        let there = reads(&host, &elsewhere, depth, round)?;
        let more = there - here;
        rounds.add(more, CROSSING_GOAL_NS, CROSSING_GOAL_NS / more);
    }
    drop(elsewhere);
    // The near end's task ends, and tells the far one.
    on(&host, async move {
        rt.yield_now().await;
        rt.yield_now().await;
        Ok(())
    })?;
    far.join().map_err(|_| "the other executor panicked".to_owned())??;
    let (case, unit) = (format!("crossing-{depth}"), "ns of processor time a request");
    let line = rounds.line("cores", &case, unit, "the goal", f64::round);
    println!("{line}");
    Ok(())
}
