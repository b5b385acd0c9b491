//! Sets opened for writing, for as long as a command runs.
//!
//! * `check`: compares copies and parity; writes nothing.
//! * `repair`: resynchronises what was not stopped cleanly, rebuilds on spares, and mends what differs.
//! * `stop`: closes a set that was left open.
//!
//! Each opens the set, does the one thing, and stops it cleanly. Where the set is served its server does it, and `stop`
//! ends the server.

use super::assemble::OpeningArgs;
use super::running::client;
use super::running::protocol::{Ask, Findings};
use super::{assemble as reading, sources, words};
use crate::commands::{Failure, print, say};
use ::md::assemble::{self, Choice};
use ::md::live::{LiveArray, LiveError, LiveOptions};
use ::md::{SyncError, SyncPriority};
use clap::Args;
use host::{FileDevice, FileOptions, HostRuntime};
use rt::DeviceRef;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use stdx::{ByteCount, Offset};

/// What helps where copies or parity differ. Only RAID 6 can tell who is wrong.
const MEND: &str =
    "`spindle md repair` makes parity and copies agree with the data, and mends the data of RAID 6";

/// What a repair did to a member that alone explained what differed.
const MENDED: &str = "was wrong, and was put right";

/// What `check` takes.
#[derive(Args)]
pub struct CheckArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
}

/// What `repair` takes.
#[derive(Args)]
pub struct RepairArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// Start a dirty and degraded set too (stripes that were being written may be wrong), and take back members that
    /// failed where too few are left
    #[arg(short, long)]
    force: bool,
    /// Start a set too that lacks members it had when it was used last; spares take their places
    #[arg(short = 'R', long)]
    run: bool,
}

/// What `stop` takes.
#[derive(Args)]
pub struct StopArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
}

/// Opens a set for writing.
///
/// # Errors
/// With the line to print.
pub fn open(
    runtime: &HostRuntime,
    paths: &[PathBuf],
    called: &str,
    force: bool,
) -> Result<LiveArray, Failure> {
    open_choice(runtime, sources::choice(runtime, paths, called)?, force)
}

/// Opens a chosen set for writing.
///
/// # Errors
/// With the line to print.
pub fn open_choice(
    runtime: &HostRuntime,
    choice: Choice,
    force: bool,
) -> Result<LiveArray, Failure> {
    open_with(runtime, choice, LiveOptions { force, ..LiveOptions::default() })
}

/// Opens a chosen set so that its devices can come and go, also where its journal is not there.
///
/// # Errors
/// With the line to print.
pub fn open_for_devices(runtime: &HostRuntime, choice: Choice) -> Result<LiveArray, Failure> {
    open_with(runtime, choice, LiveOptions { without_journal: true, ..LiveOptions::default() })
}

fn open_with(
    runtime: &HostRuntime,
    mut choice: Choice,
    options: LiveOptions,
) -> Result<LiveArray, Failure> {
    if options.force {
        super::detail::take_back(&mut choice);
    }
    super::detail::tell_left_out(&choice);
    // Of the devices that are opened for writing nobody can tell who was left out.
    choice.check_enough().map_err(Failure::failed)?;
    let name = words::device_name(&choice.facts).unwrap_or_else(|| choice.set.to_string());
    // The same devices once more, and this time for writing.
    let mut devices: Vec<DeviceRef> = Vec::new();
    for found in choice.taking_part() {
        devices.push(for_writing(runtime, Path::new(&found.name()))?);
    }
    let (set, rt) = (choice.set, runtime.rt());
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_s = since.map_or(0, |since| since.as_secs());
    let options = LiveOptions { unix_s, ..options };
    wait(runtime, async move {
        let mut found = Vec::new();
        for device in &devices {
            found.extend(assemble::find(device).await?);
        }
        let mut choice = Choice::of(set, found)?;
        if options.force {
            choice.accept_stale();
        }
        LiveArray::open(&rt, &name, choice, options).await
    })
}

/// A device for writing.
///
/// # Errors
/// Where it can't be opened.
pub fn for_writing(runtime: &HostRuntime, path: &Path) -> Result<DeviceRef, Failure> {
    let options = FileOptions { direct: false, read_only: false };
    let device = FileDevice::open(&runtime.host(), path, options).map_err(Failure::failed)?;
    Ok(Rc::new(device))
}

/// Runs I/O to its end.
///
/// # Errors
/// Those of the I/O.
pub fn wait<T: 'static>(
    runtime: &HostRuntime,
    io: impl Future<Output = Result<T, LiveError>> + 'static,
) -> Result<T, Failure> {
    let done = runtime.runtime().block_on(io).expect("I/O on a real device ends");
    done.map_err(Failure::failed)
}

/// Makes right what was not stopped cleanly, fills spares and members that came back, and ends replacements.
/// Says so as it goes, and tells what was done.
///
/// # Errors
/// [`LiveError`]
pub async fn make_whole(set: &LiveArray, priority: SyncPriority) -> Result<Vec<String>, LiveError> {
    let mut done = Vec::new();
    let mut end = |what: String| {
        say(&what);
        done.push(what);
    };
    if set.needs_resync() {
        say("resynchronising");
        set.resync(priority).await?;
        end("resynchronised".to_owned());
    }
    for slot in set.needs_rebuild() {
        say(&format!("rebuilding slot {slot}"));
        set.rebuild(slot, priority).await?;
        end(format!("rebuilt slot {slot}"));
    }
    for slot in set.needs_replace() {
        say(&format!("copying slot {slot} to its replacement"));
        set.replace(slot, priority).await?;
        end(format!("replaced slot {slot}"));
    }
    Ok(done)
}

/// Carries out `check`.
///
/// # Errors
/// With the line to print; also where something differs.
pub fn check(args: &CheckArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = sources::runtime()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if let Some(findings) = client::ask(&runtime, &choice, Ask::Check)? {
        return tell_check(&findings);
    }
    let array = reading::open(&runtime, choice, OpeningArgs::default().options())?;
    let mut engines = array.engines();
    let (Some(engine), None) = (engines.next().cloned(), engines.next()) else {
        return Err(Failure::failed(
            "a set in the midst of a reshape is not checked: let it end first",
        ));
    };
    let checked = runtime
        .runtime()
        .block_on(async move { engine.check(engine.whole(), SyncPriority::High).await });
    let report = checked.expect("I/O on a real device ends").map_err(told)?;
    tell_check(&Findings::from(&report))
}

fn tell_check(findings: &Findings) -> Result<(), Failure> {
    tell(findings, "must be the one that is wrong")?;
    match findings.mismatched_sectors {
        0 => Ok(()),
        1 => Err(Failure::failed(format!("1 sector differs; {MEND}"))),
        count => Err(Failure::failed(format!("{count} sectors differ; {MEND}"))),
    }
}

fn told(error: SyncError) -> Failure {
    Failure::failed(error)
}

/// `verdict` is what is said of a member that alone explains what differs.
fn tell(findings: &Findings, verdict: &str) -> Result<(), Failure> {
    let mut text = format!("mismatch_cnt = {}\n", findings.mismatched_sectors);
    for place in &findings.places {
        text += &format!("  {} of the members at {}", ByteCount(place.len), Offset(place.at));
        if let Some(at) = place.array {
            text += &format!(", {} of the set", Offset(at));
        }
        if let Some(slot) = place.suspect {
            text += &format!("; slot {slot} {verdict}");
        }
        text += "\n";
    }
    if findings.more {
        text += "  and further on\n";
    }
    print(&text)
}

/// Carries out `repair`.
///
/// # Errors
/// With the line to print.
pub fn repair(args: &RepairArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = sources::runtime()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if let Some(findings) = client::ask(&runtime, &choice, Ask::Repair)? {
        return tell(&findings, MENDED);
    }
    if !args.run && !args.force {
        reading::refuse_lacking(&choice)?;
    }
    let set = open_choice(&runtime, choice, args.force)?;
    let report = wait(&runtime, async move {
        make_whole(&set, SyncPriority::High).await?;
        let report = set.repair(SyncPriority::High).await?;
        set.stop().await?;
        Ok(report)
    })?;
    tell(&Findings::from(&report), MENDED)
}

/// Carries out `stop`.
///
/// # Errors
/// With the line to print.
pub fn stop(args: &StopArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = sources::runtime()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if client::stop(&runtime, &choice)? {
        return print(&format!("stopped {}\n", args.array));
    }
    let set = open_choice(&runtime, choice, false)?;
    if set.needs_resync() {
        let text = "it was not stopped cleanly and is to be resynchronised first: spindle md assemble does that";
        return Err(Failure::failed(format!("{}: {text}", args.array)));
    }
    wait(&runtime, async move { set.stop().await })?;
    print(&format!("stopped {}\n", args.array))
}
