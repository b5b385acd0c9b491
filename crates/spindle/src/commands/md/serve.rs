//! `spindle md serve`: a set over NBD.
//!
//! Sets are opened for reading alone, so the export refuses writes.

use super::assemble::{OpeningArgs, open};
use super::sources;
use crate::commands::Failure;
use crate::serve;
use clap::Args;
use export::nbd::Export;
use export::tls::Tls;
use host::Address;
use std::path::PathBuf;

/// What `serve` takes.
#[derive(Args)]
pub struct ServeArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// Listen there: unix:PATH or HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10809")]
    nbd: Vec<String>,
    /// The export's name; clients that name none get it too
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    #[command(flatten)]
    opening: OpeningArgs,
}

/// Serves until a signal ends it.
///
/// # Errors
/// With the line to print.
pub fn run(args: ServeArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let addresses: Result<Vec<Address>, _> = args.nbd.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(Failure::usage)?;
    let runtime = sources::runtime()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    let device = open(&runtime, choice, args.opening.options())?;
    let description = "a RAID set, for reading".to_owned();
    let export = Export { name: args.name, description, device, read_only: true };
    serve::until_told_to_stop(&runtime, vec![export], &addresses, Tls::off())
}
