//! `spindle md serve`: a set over NBD.
//!
//! The set is opened for writing, [runs](attach::sets::running) while it is served (resynchronised and rebuilt beside the
//! host's I/O where it needs that), and is stopped cleanly at the end; with `--readonly` nothing of it is written. As
//! with `assemble`, a set that had more members when it was used last is not started without `--run`.

use super::assemble::OpeningArgs;
use super::words::by_force;
use crate::events::context;
use crate::output::Failure;
use crate::signals::told_by_signals;
use attach::ending::Ending;
use attach::serve::{self, Clients, Commands};
use attach::sets::missing::refuse_lacking;
use attach::sets::running::RunningSet;
use attach::sets::{live, reading, sources};
use clap::Args;
use export::nbd::Export;
use host::Address;
use std::path::PathBuf;
use std::rc::Rc;

// What `serve` takes.
#[derive(Args)]
pub struct ServeArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// Listen there: unix:PATH or HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10809")]
    nbd: Vec<String>,
    /// The export's name, by default the set's as it was given; clients that name none get it too
    #[arg(long)]
    name: Option<String>,
    /// For reading only; sets in a reshape can only be served so
    #[arg(short = 'o', long)]
    readonly: bool,
    /// Start a set too that lacks members it had when it was used last
    #[arg(short = 'R', long)]
    run: bool,
    /// Memory of all clients' requests together [default: 2 GiB]
    #[arg(long, value_name = "SIZE", value_parser = serve::memory)]
    memory: Option<stdx::ByteCount>,
    #[command(flatten)]
    opening: OpeningArgs,
}

/// Serves until a signal ends it.
///
/// # Errors
/// With the line to print.
pub fn run(args: ServeArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let by_force = by_force(paths, "serve", &args.array, " --readonly");
    serve_set(args, paths).map_err(|failure| failure.or_by_force(|| by_force))
}

fn serve_set(args: ServeArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let addresses: Result<Vec<Address>, _> = args.nbd.iter().map(|text| text.parse()).collect();
    let addresses = addresses.map_err(Failure::usage)?;
    let memory = args.memory.unwrap_or(export::nbd::CLIENT_MEMORY);
    let clients = Clients { memory, ..Clients::default() };
    let runtime = context()?;
    let name = args.name.unwrap_or_else(|| args.array.clone());
    if args.readonly {
        let choice = sources::choice(&runtime, paths, &args.array)?;
        let _kept_off = sources::keep_writers_off(&runtime, &choice);
        let device = reading::open(&runtime, choice, args.opening.options())?;
        let description = "a RAID set, for reading".to_owned();
        let export = Export { name, description, device, read_only: true };
        let ending = Rc::new(Ending::by(&told_by_signals()?));
        return Ok(serve::until(
            &ending,
            &runtime,
            vec![export],
            &addresses,
            clients,
            Commands::none(),
        )?);
    }
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if !args.run && !args.opening.force {
        refuse_lacking(&choice)?;
    }
    let set = live::open_choice(&runtime, choice, args.opening.force)?;
    let ending = Rc::new(Ending::by(&told_by_signals()?));
    let running = RunningSet::start(&runtime, Rc::new(set), Some(&ending));
    let (device, description) = (running.device(), "a RAID set".to_owned());
    let export = Export { name, description, device, read_only: false };
    let served =
        serve::until(&ending, &runtime, vec![export], &addresses, clients, Commands::none());
    let stopped = running.stop(&runtime);
    Ok(served.and(stopped)?)
}
