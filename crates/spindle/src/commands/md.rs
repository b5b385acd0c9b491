//! `spindle md`: RAID sets as Linux md keeps them, with mdadm's words and mdadm's output.
//!
//! * `examine`: what lies on each device.
//! * `logs`: its bitmap and bad-block log.
//! * `detail`: what a set comes to.
//! * `dump`: a set's content, written out.
//! * `assemble`: sets opened: for reading, or for writing, which makes right what needs it.
//! * `serve`: a set over NBD.
//! * `live`: sets open for writing: check, repair, stop.
//! * `members`: devices that come and go: add, fail, remove, replace.
//! * `create`: makes devices members of a new set.
//! * `grow`: larger members, or more of them.
//! * [`words`]: sizes, layouts and names as mdadm writes them.
//!
//! Commands that only read never write a byte: devices are opened for reading alone.

mod assemble;
mod create;
mod detail;
mod dump;
mod examine;
mod grow;
mod live;
mod logs;
mod members;
mod serve;
mod words;

pub use dump::{Progress, Sink, copy, told};

use super::dry_run::DryRunArgs;
use crate::output::Failure;
use clap::{Args, Subcommand};
use std::path::PathBuf;

// What `spindle md` takes.
#[derive(Args)]
pub struct MdArgs {
    /// Where members lie: a file, a block device, or a folder of them; may be given several times. Also
    /// SPINDLE_DEVICES, divided by colons
    #[arg(short = 'd', long = "devices", value_name = "DIR|FILE", global = true)]
    members: Vec<PathBuf>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(subcommand)]
    command: MdCommand,
}

// What can be done.
#[derive(Subcommand)]
#[command(defer = true)]
enum MdCommand {
    /// Print what md wrote on devices, as mdadm --examine does
    Examine(examine::ExamineArgs),
    /// Print what a set comes to, as mdadm --detail does
    Detail(detail::DetailArgs),
    /// Write a set's content to a file
    Dump(dump::DumpArgs),
    /// Use more of larger members, or take more members in; go on with a reshape that was left
    Grow(grow::GrowArgs),
    /// Make devices members of a new set, as mdadm --create does
    Create(create::CreateArgs),
    /// Open sets, do what they need (resync, rebuild, replacement), and close them cleanly; or only look
    Assemble(assemble::AssembleArgs),
    /// Compare copies and parity, and say where they differ; writes nothing
    Check(live::CheckArgs),
    /// Resynchronise and rebuild what needs it, and mend what differs
    Repair(live::RepairArgs),
    /// Record that a member is not to be used any more
    Fail(members::FailArgs),
    /// Add devices: a member that was away comes back, anything else becomes a spare; then rebuild
    Add(members::AddArgs),
    /// Remove spares, and members that failed
    Remove(members::RemoveArgs),
    /// Copy a member that still works to a spare, which takes its slot
    Replace(members::ReplaceArgs),
    /// End the server of a set, as SIGTERM does; or close a set that was left open, and needs nothing
    Stop(live::StopArgs),
    /// Serve a set over NBD; resynchronises and rebuilds beside it
    Serve(serve::ServeArgs),
}

/// Carries out a command. `devices` were given before the word `md`.
///
/// # Errors
/// With the line to print.
pub fn run(args: MdArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let mut paths = devices.to_vec();
    paths.extend(args.members);
    args.dry_run.run(args.command.not_tried(), || dispatch(args.command, &paths))
}

impl MdCommand {
    /// What a command does besides changes of devices.
    fn not_tried(&self) -> Option<&'static str> {
        match self {
            MdCommand::Dump(_) => Some("it writes a file of this host"),
            MdCommand::Serve(_) => Some("who serves a set has clients who rely on it"),
            _ => None,
        }
    }
}

fn dispatch(command: MdCommand, paths: &[PathBuf]) -> Result<(), Failure> {
    match command {
        MdCommand::Grow(args) => grow::run(&args, paths),
        MdCommand::Create(args) => create::run(args),
        MdCommand::Examine(args) => examine::run(args, paths),
        MdCommand::Detail(args) => detail::run(args, paths),
        MdCommand::Dump(args) => dump::run(args, paths),
        MdCommand::Assemble(args) => assemble::run(args, paths),
        MdCommand::Check(args) => live::check(&args, paths),
        MdCommand::Repair(args) => live::repair(&args, paths),
        MdCommand::Fail(args) => members::fail(&args, paths),
        MdCommand::Add(args) => members::add(&args, paths),
        MdCommand::Remove(args) => members::remove(&args, paths),
        MdCommand::Replace(args) => members::replace(&args, paths),
        MdCommand::Stop(args) => live::stop(&args, paths),
        MdCommand::Serve(args) => serve::run(args, paths),
    }
}
