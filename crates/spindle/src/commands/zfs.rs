//! `spindle zfs`: what is in pools: files and volumes, read out of them.
//!
//! * `ls`, `cat`, `stat`: files of a dataset or snapshot, looked at.
//! * `cp`: files copied out, with all that is known of them.
//! * `dump`: a volume's content, written out.
//! * `diff`: what differs between a snapshot and what came after it.
//! * [`source`]: how a command names datasets and files, and gets keys.
//! * [`pieces`]: a file's content: data, holes, damaged blocks.
//! * [`show`]: names, modes and times as text.
//!
//! Nothing here writes to a pool's devices: they are opened for reading alone.

mod cat;
mod cp;
mod dump;
mod ls;
pub mod pieces;
pub mod show;
pub mod source;
mod stat;

use crate::commands::Failure;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What `spindle zfs` takes.
#[derive(Args)]
pub struct ZfsArgs {
    /// Where the pools' devices lie: a file, a block device, or a folder of them; may be given several times.
    /// Also SPINDLE_DEVICES, divided by colons
    #[arg(short = 'd', long = "devices", value_name = "DIR|FILE", global = true)]
    devices: Vec<PathBuf>,
    #[command(subcommand)]
    command: ZfsCommand,
}

/// What can be done.
#[derive(Subcommand)]
enum ZfsCommand {
    /// List files of a dataset or snapshot
    Ls(ls::LsArgs),
    /// Write files of a dataset or snapshot to standard output
    Cat(cat::CatArgs),
    /// Show all that is known of a file
    Stat(stat::StatArgs),
    /// Copy files out, with all that is known of them; goes on where it was stopped
    Cp(cp::CpArgs),
    /// Write a volume's content to a file
    Dump(dump::DumpArgs),
}

/// Carries out a command. `devices` were given before the word `zfs`.
///
/// # Errors
/// With the line to print.
pub fn run(args: ZfsArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let mut paths = devices.to_vec();
    paths.extend(args.devices);
    match args.command {
        ZfsCommand::Ls(args) => ls::run(&args, &paths),
        ZfsCommand::Cat(args) => cat::run(&args, &paths),
        ZfsCommand::Stat(args) => stat::run(&args, &paths),
        ZfsCommand::Cp(args) => cp::run(&args, &paths),
        ZfsCommand::Dump(args) => dump::run(&args, &paths),
    }
}
