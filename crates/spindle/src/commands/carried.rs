//! Commands that another process [sent](super::held), carried out on the pool that is open here.

use super::zfs::ZfsArgs;
use super::zpool::ZpoolArgs;
use crate::events::events;
use crate::output::{Failure, keeping};
use crate::pools::command_of;
use attach::pools::running::protocol::Done;
use attach::pools::{Asked, PoolPlace};
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// The words of a command, as another process has sent them.
#[derive(Parser)]
#[command(name = "spindle", disable_version_flag = true)]
struct Words {
    /// They come with the request, as whole paths.
    #[arg(short = 'd', long = "devices")]
    _devices: Vec<PathBuf>,
    #[command(subcommand)]
    command: Sent,
}

#[derive(Subcommand)]
enum Sent {
    Zpool(ZpoolArgs),
    Zfs(ZfsArgs),
}

/// Carries out a command that was sent here.
pub fn carry_out(asked: Asked) {
    let (done, said) = keeping(|| run(&asked));
    let done = match done {
        Ok(()) => Done { said, ..Done::default() },
        Err(Failure { message, status, .. }) => Done { said, message, status },
    };
    asked.done(done);
}

fn run(asked: &Asked) -> Result<(), Failure> {
    let words = std::iter::once("spindle").chain(asked.words.iter().map(String::as_str));
    let not_here = || Failure::usage("this command is not carried out by who holds a pool");
    let Words { command, .. } = Words::try_parse_from(words).map_err(|_| not_here())?;
    let place = |options| PoolPlace {
        devices: &asked.devices,
        options,
        events: events(),
        command: command_of(&asked.words),
        held: Some(asked.pool.clone()),
        directory: asked.directory.clone(),
    };
    match command {
        Sent::Zfs(args) if args.goes_to_holder() => args.run(place),
        Sent::Zpool(args) if args.goes_to_holder() => args.run(place),
        _ => Err(not_here()),
    }
}
