//! `bench lab-load`: what an I/O of a fio job costs in the lab, beside fio.
//!
//! The same job file, `spindle lab fio` and fio in turns: random reads of 4 KiB from a file of 512 MiB in
//! tmpfs, at queue depth 32 (by the two engines that queue; ours is the same for both) and, for
//! comparison, by plain calls. The unit is I/Os a second of processor time, user and system, of the
//! whole process with its threads and children. Each pair gives a ratio; their median is the answer.
//!
//! **Fairness.** Both are fresh processes, pinned by `taskset` to the same processor, with the job file
//! as it stands here: all latencies kept, as is each program's default. The start of the program counts
//! for both. Processor time is what this program's children used, as the kernel tells it (`/proc/self/stat`,
//! in hundredths of a second); so each is measured to better than 1 %.

use super::peer::{Rounds, TICKS_PER_S, built_spindle, children_ticks};
use std::path::Path;
use std::process::{Command, Stdio};

const USAGE: &str = "usage: bench lab-load [--runs N] [--seconds N]";

const FILE_BYTES: usize = 512 << 20;

struct Case {
    name: &'static str,
    engine: &'static str,
    depth: u32,
}

const CASES: [Case; 3] = [
    Case { name: "io_uring-qd32", engine: "io_uring", depth: 32 },
    Case { name: "libaio-qd32", engine: "libaio", depth: 32 },
    Case { name: "psync-qd1", engine: "psync", depth: 1 },
];

struct Options {
    runs: usize,
    seconds: u64,
}

/// Runs it; `args` are those after the benchmark's name.
///
/// # Errors
/// One line for the user.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = options(args)?;
    let has_fio = Command::new("fio").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_fio {
        eprintln!("fio is not installed (Debian package fio): ours runs alone");
    }
    let spindle = built_spindle()?;
    let scratch = tempfile::tempdir_in("/dev/shm")
        .map_err(|error| format!("making a directory in /dev/shm: {error}"))?;
    let data = scratch.path().join("data");
    // Not zeros: tmpfs would keep holes where nothing was written.
    std::fs::write(&data, vec![0x5a; FILE_BYTES])
        .map_err(|error| format!("writing {}: {error}", data.display()))?;
    for case in &CASES {
        let job = scratch.path().join(format!("{}.fio", case.name));
        let text = format!(
            "[load]\nfilename={}\nsize={FILE_BYTES}\nrw=randread\nbs=4k\nnorandommap\nioengine={}\niodepth={}\ntime_based\nruntime={}\n",
            data.display(),
            case.engine,
            case.depth,
            options.seconds
        );
        std::fs::write(&job, text).map_err(|error| format!("{}: {error}", job.display()))?;
        measure(case, &job, &spindle, &options, has_fio)?;
    }
    Ok(())
}

fn options(args: &[String]) -> Result<Options, String> {
    let mut options = Options { runs: 5, seconds: 3 };
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match flag.as_str() {
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

fn measure(
    case: &Case,
    job: &Path,
    spindle: &Path,
    options: &Options,
    has_fio: bool,
) -> Result<(), String> {
    let mut rounds = Rounds::default();
    let own = || ios_per_processor_second(spindle, &["lab", "fio"], job);
    let peer = || ios_per_processor_second(Path::new("fio"), &[], job);
    for run in 0..options.runs {
        // Who goes second may find the machine warmer, so they take turns.
        let before = if has_fio && run % 2 == 1 { Some(peer()?) } else { None };
        let own = own()?;
        if has_fio {
            let peer = match before {
                Some(peer) => peer,
                None => peer()?,
            };
            rounds.add(own, peer, own / peer);
        } else {
            rounds.add_alone(own);
        }
    }
    let peer_name = format!("fio {}", case.engine);
    let line = rounds.line("lab-load", case.name, "ios_per_processor_s", &peer_name, f64::round);
    println!("{line}");
    Ok(())
}

/// Runs a job on the last processor that we may use.
fn ios_per_processor_second(program: &Path, verb: &[&str], job: &Path) -> Result<f64, String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("taskset");
    command.arg("-c").arg((processors - 1).to_string()).arg(program);
    command.args(verb).arg(job).arg("--output-format=json");
    let before = children_ticks()?;
    let output = command.output().map_err(|error| {
        format!("starting taskset (Debian package util-linux) for the benchmark: {error}")
    })?;
    let seconds = (children_ticks()? - before) / TICKS_PER_S;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", text.trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let json = text.find('{').map_or("", |start| &text[start..]);
    let parsed: serde_json::Value = serde_json::from_str(json)
        .map_err(|error| format!("reading the JSON of {}: {error}", program.display()))?;
    let ios = parsed["jobs"][0]["read"]["total_ios"]
        .as_f64()
        .ok_or_else(|| format!("{}: the JSON has no jobs[0].read.total_ios", program.display()))?;
    Ok(ios / seconds.max(1.0 / TICKS_PER_S))
}
