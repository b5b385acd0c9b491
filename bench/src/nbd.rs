//! `bench nbd`: what an I/O costs through the NBD server, beside qemu-nbd and nbdkit.
//!
//! Random reads and writes of 4 KiB at queue depth 1, 16 and 64, and streams of 1 MiB, through a unix socket.
//! Ours serves a RAID 0 set over two files in memory (tmpfs); the peers serve one such file of the same size:
//! `qemu-nbd` (raw, writeback) and `nbdkit file`. `nbdkit memory` stores nothing in files: it is the limit of
//! the protocol as others do it.
//!
//! **Two figures.** I/Os a second are noisy, and the client takes its part of them; the server's processor
//! time an I/O (user and system, of all its threads, from `/proc/PID/stat`) is the steadier one. Each case
//! prints a line for either. The peer is the better of the two that have files.
//!
//! **Fairness.** The client is the same for all: fio's nbd engine (libnbd), one connection, a fresh process
//! for each run. Servers run one at a time, as fresh processes, and take turns; each round gives a ratio,
//! and the median is the answer. All files were written in full before.

use super::peer::{Rounds, TICKS_PER_S, median, ticks_of};
use export::nbd::{Export, Server};
use export::tls::Tls;
use host::{Address, FileDevice, FileOptions, HostRuntime, ReactorKind, SocketListener};
use md::{Array, ArraySpec, Level};
use rt::DeviceRef;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

const USAGE: &str = "usage: bench nbd [--dir DIR] [--runs N] [--seconds N] [--case TEXT]   (DIR on tmpfs; default /dev/shm)";
/// Bytes that are served.
const SIZE: u64 = 512 << 20;
/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(10);

/// Name, fio's `rw`, block size, queue depth.
const CASES: [(&str, &str, &str, u32); 8] = [
    ("read-4k-qd1", "randread", "4k", 1),
    ("read-4k-qd16", "randread", "4k", 16),
    ("read-4k-qd64", "randread", "4k", 64),
    ("write-4k-qd1", "randwrite", "4k", 1),
    ("write-4k-qd16", "randwrite", "4k", 16),
    ("write-4k-qd64", "randwrite", "4k", 64),
    ("read-1m-qd4", "read", "1m", 4),
    ("write-1m-qd4", "write", "1m", 4),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Ours,
    QemuNbd,
    NbdkitFile,
    NbdkitMemory,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Ours, "spindle, raid0 of two files"),
    (Kind::QemuNbd, "qemu-nbd"),
    (Kind::NbdkitFile, "nbdkit file"),
    (Kind::NbdkitMemory, "nbdkit memory"),
];

/// What one run gives.
#[derive(Clone, Copy)]
struct Figures {
    ios_a_second: f64,
    processor_us: f64,
}

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    if let Some((first, rest)) = args.split_first()
        && first == "--ours"
    {
        return ours(rest);
    }
    let (mut runs, mut seconds, mut dir) = (3_usize, 2_u32, PathBuf::from("/dev/shm"));
    let mut only = String::new();
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--runs" => runs = value.parse().map_err(|_| USAGE)?,
            "--seconds" => seconds = value.parse().map_err(|_| USAGE)?,
            "--dir" => dir = value.into(),
            "--case" => only = value.clone(),
            _ => return Err(USAGE.into()),
        }
    }
    if runs == 0 || seconds == 0 {
        return Err(USAGE.into());
    }
    for (tool, package) in [("fio", "fio"), ("qemu-nbd", "qemu-utils"), ("nbdkit", "nbdkit")] {
        if Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_err() {
            return Err(format!("{tool} is not installed (Debian package {package})"));
        }
    }
    let scratch = tempfile::tempdir_in(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let dir = scratch.path();
    for (name, size) in [("peer", SIZE), ("member-0", SIZE / 2), ("member-1", SIZE / 2)] {
        let bytes = vec![0x5a; size as usize];
        std::fs::write(dir.join(name), bytes)
            .map_err(|error| format!("writing {name}: {error}"))?;
    }
    for case in CASES.iter().filter(|case| case.0.contains(&only)) {
        measure(case, runs, seconds, dir)?;
    }
    Ok(())
}

fn measure(
    case: &(&str, &str, &str, u32),
    runs: usize,
    seconds: u32,
    dir: &Path,
) -> Result<(), String> {
    let mut rounds: Vec<[Figures; 4]> = Vec::new();
    for _ in 0..runs {
        let mut round = [Figures { ios_a_second: 0.0, processor_us: 0.0 }; 4];
        for (place, (kind, _)) in round.iter_mut().zip(KINDS) {
            *place = one(kind, case, seconds, dir)?;
        }
        rounds.push(round);
    }
    for (unit, more_is_better) in
        [("I/Os a second", true), ("us of server processor an I/O", false)]
    {
        let figure = |figures: &Figures| match more_is_better {
            true => figures.ios_a_second,
            false => figures.processor_us,
        };
        let column =
            |n: usize| -> Vec<f64> { rounds.iter().map(|round| figure(&round[n])).collect() };
        let of = |n: usize| median(&column(n)).unwrap_or(0.0);
        let best = if (of(1) > of(2)) == more_is_better { 1 } else { 2 };
        let mut told = Rounds::default();
        for (ours, peer) in column(0).into_iter().zip(column(best)) {
            told.add(ours, peer, if more_is_better { ours / peer } else { peer / ours });
        }
        let tenth = |figure: f64| (figure * 10.0).round() / 10.0;
        let mut line = told.line("nbd", case.0, unit, KINDS[best].1, tenth);
        line["others"] = serde_json::json!({
            KINDS[3 - best].1: tenth(of(3 - best)), KINDS[3].1: tenth(of(3)),
        });
        println!("{line}");
    }
    Ok(())
}

/// One server, one run of the client.
fn one(
    kind: Kind,
    case: &(&str, &str, &str, u32),
    seconds: u32,
    dir: &Path,
) -> Result<Figures, String> {
    let socket = dir.join("socket");
    let _ = std::fs::remove_file(&socket);
    let server = Running(start(kind, &socket, dir)?);
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let (_, rw, block, depth) = case;
    let before = ticks_of(server.0.id())?;
    let output = Command::new("fio")
        .args(["--name=bench", "--ioengine=nbd", "--time_based", "--norandommap"])
        .args(["--output-format=json", "--randrepeat=1"])
        .arg(format!("--uri={uri}"))
        .arg(format!("--rw={rw}"))
        .arg(format!("--bs={block}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={seconds}"))
        .arg(format!("--size={SIZE}"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("starting fio: {error}"))?;
    let used = (ticks_of(server.0.id())? - before) / TICKS_PER_S;
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').map(|at| &text[at..]).unwrap_or_default();
    let found: Value = serde_json::from_str(json).map_err(|e| format!("what fio wrote: {e}"))?;
    let side = &found["jobs"][0][if rw.contains("read") { "read" } else { "write" }];
    let (Some(ios), Some(rate)) = (side["total_ios"].as_f64(), side["iops"].as_f64()) else {
        return Err("fio tells no I/Os".into());
    };
    if ios == 0.0 {
        return Err("fio did no I/O".into());
    }
    Ok(Figures { ios_a_second: rate, processor_us: used * 1e6 / ios })
}

/// A server, which is killed when it was measured.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that ended by itself is waited for all the same.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(kind: Kind, socket: &Path, dir: &Path) -> Result<Child, String> {
    let peer = dir.join("peer");
    let mut command = match kind {
        Kind::Ours => {
            let us = std::env::current_exe()
                .map_err(|error| format!("finding this program: {error}"))?;
            let mut command = Command::new(us);
            command.args(["nbd", "--ours"]).arg(socket);
            command.arg(dir.join("member-0")).arg(dir.join("member-1"));
            command
        }
        Kind::QemuNbd => {
            let mut command = Command::new("qemu-nbd");
            command.args(["--format=raw", "--cache=writeback", "--persistent", "--shared=4"]);
            command.arg("--socket").arg(socket).arg(peer);
            command
        }
        Kind::NbdkitFile => {
            let mut command = Command::new("nbdkit");
            command.args(["--foreground", "--unix"]).arg(socket).arg("file").arg(peer);
            command
        }
        Kind::NbdkitMemory => {
            let mut command = Command::new("nbdkit");
            command.args(["--foreground", "--unix"]).arg(socket);
            command.arg("memory").arg(SIZE.to_string());
            command
        }
    };
    // The peers complain about each connection that asks whether they listen.
    let errors = if kind == Kind::Ours { Stdio::inherit() } else { Stdio::null() };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("starting {command:?}: {error}"))?;
    let begun = std::time::Instant::now();
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        let ended = child.try_wait().ok().flatten();
        if begun.elapsed() > START_MAX || ended.is_some() {
            drop(Running(child));
            return Err(format!("{command:?} does not listen"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(child)
}

/// Our server: a RAID 0 set over these files, until it is killed.
fn ours(args: &[String]) -> Result<(), String> {
    let (socket, members) = args.split_first().ok_or(USAGE)?;
    let runtime = HostRuntime::new(ReactorKind::Auto).map_err(|e| e.to_string())?;
    let (rt, host) = (runtime.rt(), runtime.host());
    let open = |path: &String| {
        let device = FileDevice::open(&host, Path::new(path), FileOptions::default());
        device.map(|device| Rc::new(device) as DeviceRef).map_err(|e| e.to_string())
    };
    let members = members.iter().map(open).collect::<Result<Vec<_>, String>>()?;
    let spec = ArraySpec::new(Level::Raid0, members);
    let device = Array::create(&rt, "set", spec).map_err(|e| e.to_string())?.device();
    let export =
        Export { name: String::new(), description: String::new(), device, read_only: false };
    let server = Server::new(&rt, vec![export], Tls::off()).map_err(|e| e.to_string())?;
    let listener =
        SocketListener::bind(&host, &Address::Unix(socket.into())).map_err(|e| e.to_string())?;
    let served = async move { server.listen(Rc::new(listener)).await };
    runtime.runtime().block_on(served).map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}
