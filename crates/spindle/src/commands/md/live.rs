//! Sets opened for writing, for as long as a command runs.
//!
//! * `check`: compares copies and parity; writes nothing.
//! * `repair`: resynchronises what was not stopped cleanly, rebuilds on spares, and mends what differs.
//! * `stop`: closes a set that was left open.
//!
//! Each opens the set, does the one thing, and stops it cleanly. Where the set is served its server does it, and `stop`
//! ends the server.

use super::assemble::OpeningArgs;
use super::words::by_force;
use crate::events::context;
use crate::output::{Failure, print};
use ::md::SyncPriority;
use ::md::live::LiveError;
use attach::sets::live::{make_whole, open_choice};
use attach::sets::missing::refuse_lacking;
use attach::sets::running::client;
use attach::sets::running::protocol::{Ask, Findings};
use attach::sets::{reading, sources};
use clap::Args;
use std::path::PathBuf;
use stdx::{ByteCount, Offset};

/// What helps where copies or parity differ. Only RAID 6 can tell who is wrong.
const MEND: &str =
    "`spindle md repair` makes parity and copies agree with the data, and mends the data of RAID 6";

/// What a repair did to a member that alone explained what differed.
const MENDED: &str = "was wrong, and was put right";

// What `check` takes.
#[derive(Args)]
pub struct CheckArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
}

// What `repair` takes.
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

// What `stop` takes.
#[derive(Args)]
pub struct StopArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// End its server though clients have it open; what they were writing is written
    #[arg(short, long)]
    force: bool,
}

/// Carries out `check`.
///
/// # Errors
/// With the line to print; also where something differs.
pub fn check(args: &CheckArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    check_set(args, paths).map_err(|failure| looked_at(failure, paths, &args.array))
}

/// What needs force is looked at first.
fn looked_at(failure: Failure, paths: &[PathBuf], array: &str) -> Failure {
    failure.or_by_force(|| by_force(paths, "assemble", array, " --readonly"))
}

fn check_set(args: &CheckArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
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
    let report = checked.expect("I/O on a real device ends").map_err(Failure::failed)?;
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
    repair_set(args, paths).map_err(|failure| looked_at(failure, paths, &args.array))
}

fn repair_set(args: &RepairArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if let Some(findings) = client::ask(&runtime, &choice, Ask::Repair)? {
        return tell(&findings, MENDED);
    }
    if !args.run && !args.force {
        refuse_lacking(&choice)?;
    }
    let set = open_choice(&runtime, choice, args.force)?;
    let events = runtime.events().clone();
    let report = runtime.finish::<_, LiveError>(async move {
        make_whole(&events, &set, SyncPriority::High).await?;
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
    let runtime = context()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if client::stop(&runtime, &choice, args.force)? {
        return print(&format!("stopped {}\n", args.array));
    }
    let set = open_choice(&runtime, choice, false)?;
    if set.needs_resync() {
        let text = "it was not stopped cleanly and is to be resynchronised first: spindle md assemble does that";
        return Err(Failure::failed(format!("{}: {text}", args.array)));
    }
    runtime.finish(async move { set.stop().await })?;
    print(&format!("stopped {}\n", args.array))
}
