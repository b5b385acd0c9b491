//! `bench executor`: what an I/O costs through `Device`, the executor and io_uring, beside fio.
//!
//! Random reads of 4 KiB from a file of 1 GiB, in tmpfs (buffered) and on a real disk (direct I/O), at
//! queue depth 1 and 32, on one processor. Ours and fio's runs take turns; each pair gives a ratio, and
//! the median of the ratios is the answer.
//!
//! **Fairness.** Both are fresh processes, pinned by `taskset` to the same processor, where their
//! io_uring workers are too. Both draw offsets at random without a map of those used (`norandommap`).
//! fio runs with `gtod_reduce=1`, its way of not reading the clock for every I/O, because ours doesn't
//! either; with the clock fio is a little slower. fio is told to use io_uring, as ours; that ours reads
//! a file in memory by plain system calls where io_uring is the slower way is part of what is measured.
//! One thread each: a single task for each unit of depth in ours, one job in fio.

use super::peer::Rounds;
use host::{FileDevice, FileOptions, HostRuntime, ReactorKind};
use rt::{Buf, Device, DeviceRef, Request, Rt};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

const USAGE: &str = "usage: bench executor [--dir DIR-ON-A-REAL-DISK] [--runs N] [--seconds N]";

const BLOCK: ByteCount = ByteCount::kib(4);
const FILE_SIZE: ByteCount = ByteCount::gib(1);
const FILL_BLOCK: ByteCount = ByteCount::mib(1);

struct Options {
    dir: PathBuf,
    runs: usize,
    seconds: u64,
}

struct Case {
    name: String,
    file: PathBuf,
    depth: u32,
    direct: bool,
}

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    if let [flag, file, depth, direct, seconds] = args
        && flag == "--ours"
    {
        let depth = depth.parse().map_err(|_| USAGE)?;
        let seconds = seconds.parse().map_err(|_| USAGE)?;
        println!("{}", ours(Path::new(file), depth, direct == "1", seconds)?);
        return Ok(());
    }
    let options = options(args)?;
    let has_fio = Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_fio {
        eprintln!("fio is not installed (Debian package fio): ours runs alone");
    }
    for (place, dir, direct) in
        [("tmpfs", Path::new("/dev/shm"), false), ("disk-direct", &*options.dir, true)]
    {
        let file = Scratch(dir.join(format!("spindle-bench-executor-{}", std::process::id())));
        fill(&file.0, direct)?;
        for depth in [1, 32] {
            let name = format!("{place}-qd{depth}");
            let case = Case { name, file: file.0.clone(), depth, direct };
            measure(&case, &options, has_fio)?;
        }
    }
    Ok(())
}

fn options(args: &[String]) -> Result<Options, String> {
    let beside_us = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_path_buf()));
    let dir = beside_us.unwrap_or_else(|| PathBuf::from("target"));
    let mut options = Options { dir, runs: 5, seconds: 2 };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--dir" => options.dir = value.into(),
            "--runs" => options.runs = value.parse().map_err(|_| USAGE)?,
            "--seconds" => options.seconds = value.parse().map_err(|_| USAGE)?,
            _ => return Err(USAGE.into()),
        }
    }
    if options.runs == 0 || options.seconds == 0 {
        return Err(USAGE.into());
    }
    Ok(options)
}

/// A file that goes when the benchmark does.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes the file and writes all of it: holes would be read without the disk.
fn fill(path: &Path, direct: bool) -> Result<(), String> {
    let runtime = HostRuntime::new(ReactorKind::Auto).map_err(|error| error.to_string())?;
    let options = FileOptions { direct, read_only: false };
    let file = FileDevice::create(&runtime.host(), path, FILE_SIZE, options)
        .map_err(|error| error.to_string())?;
    let filled = runtime.runtime().block_on(async move {
        let mut prng = Prng::new(1);
        for block in 0..FILE_SIZE / FILL_BLOCK {
            let data = Buf::fill(prng.next_u64(), FILL_BLOCK.as_usize());
            file.submit(Request::write(Offset(block * FILL_BLOCK.bytes()), data)).await?;
        }
        file.submit(Request::flush()).await
    });
    match filled {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(stalled) => Err(stalled.to_string()),
    }
}

fn measure(case: &Case, options: &Options, has_fio: bool) -> Result<(), String> {
    let mut rounds = Rounds::default();
    for run in 0..options.runs {
        // Who goes second may find the disk warmer, so they take turns.
        let peer_first = has_fio && run % 2 == 1;
        let before = if peer_first { Some(run_fio(case, options.seconds)?) } else { None };
        let own = run_ours(case, options.seconds)?;
        if has_fio {
            let peer = match before {
                Some(peer) => peer,
                None => run_fio(case, options.seconds)?,
            };
            rounds.add(own, peer, own / peer);
        } else {
            rounds.add_alone(own);
        }
    }
    let line = rounds.line("executor", &case.name, "iops", "fio io_uring", f64::round);
    println!("{line}");
    Ok(())
}

/// A command on the last processor that we may use, the same for both.
fn pinned(program: &Path) -> Command {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("taskset");
    command.arg("-c").arg((processors - 1).to_string()).arg(program);
    command
}

fn stdout_of(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| {
        format!("starting taskset (Debian package util-linux) for the benchmark: {error}")
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", text.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn run_ours(case: &Case, seconds: u64) -> Result<f64, String> {
    let exe = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let mut command = pinned(&exe);
    command.args(["executor", "--ours"]).arg(&case.file).args([
        case.depth.to_string(),
        u8::from(case.direct).to_string(),
        seconds.to_string(),
    ]);
    let text = stdout_of(command)?;
    text.trim().parse().map_err(|_| format!("our own run printed '{}'", text.trim()))
}

fn run_fio(case: &Case, seconds: u64) -> Result<f64, String> {
    let mut command = pinned(Path::new("fio"));
    command
        .args(["--name=executor", "--ioengine=io_uring", "--rw=randread", "--bs=4k"])
        .args(["--norandommap", "--randrepeat=0", "--gtod_reduce=1", "--time_based"])
        .arg(format!("--filename={}", case.file.display()))
        .arg(format!("--size={}", FILE_SIZE.bytes()))
        .arg(format!("--iodepth={}", case.depth))
        .arg(format!("--direct={}", u8::from(case.direct)))
        .arg(format!("--runtime={seconds}"))
        .arg("--output-format=json");
    let text = stdout_of(command)?;
    let json = text.find('{').map_or("", |start| &text[start..]);
    let parsed: serde_json::Value =
        serde_json::from_str(json).map_err(|error| format!("reading fio's JSON: {error}"))?;
    parsed["jobs"][0]["read"]["iops"]
        .as_f64()
        .ok_or_else(|| "fio's JSON has no jobs[0].read.iops".to_owned())
}

/// One run of ours: I/Os a second.
fn ours(path: &Path, depth: u32, direct: bool, seconds: u64) -> Result<f64, String> {
    let runtime = HostRuntime::new(ReactorKind::Uring).map_err(|error| error.to_string())?;
    let options = FileOptions { direct, read_only: true };
    let device =
        FileDevice::open(&runtime.host(), path, options).map_err(|error| error.to_string())?;
    let (rt, device) = (runtime.rt(), Rc::new(device) as DeviceRef);
    let span = Duration::from_secs(seconds);
    let rate = runtime.runtime().block_on(read_at_random(rt, device, depth, span));
    rate.map_err(|stalled| stalled.to_string())?
}

async fn read_at_random(
    rt: Rt,
    device: DeviceRef,
    depth: u32,
    span: Duration,
) -> Result<f64, String> {
    let blocks = device.geometry().capacity / BLOCK;
    let stop = Rc::new(Cell::new(false));
    let mut prng = Prng::new(7);
    let begin = rt.now();
    let readers: Vec<_> = (0..depth)
        .map(|_| {
            let (device, stop, mut prng) = (Rc::clone(&device), Rc::clone(&stop), prng.fork());
            rt.spawn(async move {
                let mut count = 0_u64;
                while !stop.get() {
                    let at = Offset(prng.below(blocks) * BLOCK.bytes());
                    device.submit(Request::read(at, BLOCK)).await?;
                    count += 1;
                }
                Ok::<u64, rt::IoError>(count)
            })
        })
        .collect();
    rt.sleep(span).await;
    stop.set(true);
    let mut count = 0;
    for reader in readers {
        count += reader.await.map_err(|error| error.to_string())?;
    }
    Ok(count as f64 / rt.now().since(begin).as_secs_f64())
}
