//! `spindle zfs`: datasets of ZFS pools, in OpenZFS's words and forms.
//!
//! * `list`: datasets, one a line, with chosen properties.
//! * `get`: properties, one a line.
//! * [`select`]: which datasets a command is about, and in which order.
//! * [`shown`]: a property of a dataset, whatever kind of property it is.
//! * [`json`]: the shape of `-j`.
//!
//! Each command opens the pools on the devices for reading, does its one thing, and closes them.

pub mod get;
pub mod json;
mod list;
mod select;
mod shown;

use crate::commands::Failure;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// What `spindle zfs` takes.
#[derive(Args)]
pub struct ZfsArgs {
    #[command(subcommand)]
    command: ZfsCommand,
}

#[derive(Subcommand)]
enum ZfsCommand {
    /// List datasets, as zfs list does
    List(list::ListArgs),
    /// Print properties, as zfs get does
    Get(get::GetArgs),
}

/// Carries out a command on the pools of these devices.
///
/// # Errors
/// With the line to print.
pub fn run(args: ZfsArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    match args.command {
        ZfsCommand::List(args) => list::run(&args, devices),
        ZfsCommand::Get(args) => get::run(&args, devices),
    }
}
