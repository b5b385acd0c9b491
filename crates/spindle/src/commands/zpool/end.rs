//! `spindle zpool export`, `destroy`: a pool is closed, so that another host may open it, or given up.
//!
//! Both open the pool for writing, which claims its logs and takes back what a crash left, and differ only in the state that
//! the labels have from then on. Where a process holds the pool it is asked to: it unmounts what is mounted and ends, unless somebody
//! uses the pool, or it has other things to do.

use crate::output::{Failure, say};
use ::zfs::spa::config::LabelState;
use attach::pools::running::client;
use attach::pools::running::protocol::Ask;
use attach::pools::{LivePool, PoolPlace, Pools};
use clap::Args;

// What `destroy` takes.
#[derive(Args)]
pub struct DestroyArgs {
    /// Though it was not exported, and another host may have it in use; though somebody uses what is mounted or served of it
    #[arg(short, long)]
    force: bool,
    /// The pool
    pool: String,
}

// What `export` takes.
#[derive(Args)]
pub struct ExportArgs {
    /// All pools
    #[arg(short, conflicts_with = "pools")]
    all: bool,
    /// Though it was not exported, and another host may have it in use; though somebody uses what is mounted or served of it
    #[arg(short, long)]
    force: bool,
    /// The pools
    #[arg(required_unless_present = "all", value_name = "POOL")]
    pools: Vec<String>,
}

/// Carries out `export`.
///
/// # Errors
/// With the line to print.
pub fn export(args: &ExportArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = match args.all {
        true => Pools::find(place)?.living().map(|pool| pool.guid.to_string()).collect(),
        false => args.pools.clone(),
    };
    let mut outcome = Ok(());
    for pool in &pools {
        let done = end(pool, args.force, false, place);
        if let (Err(failure), true) = (&done, pools.len() > 1) {
            say(&format!("spindle: {}", failure.message));
            outcome = Err(Failure::said());
        } else {
            outcome = outcome.and(done);
        }
    }
    outcome
}

/// Carries out `destroy`.
///
/// # Errors
/// With the line to print.
pub fn destroy(args: &DestroyArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    end(&args.pool, args.force, true, place)
}

fn end(name: &str, force: bool, destroys: bool, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pool = match LivePool::open(place, name, force) {
        Err(attach::Error::PoolHeld { .. }) => {
            let pools = Pools::find(place)?;
            if let Some(found) = pools.named(name)? {
                let command = place.command.clone();
                if client::end(&pools, found, Ask::End { destroys, force, command })? {
                    return Ok(());
                }
            }
            // It was let go meanwhile.
            LivePool::open(place, name, force)?
        }
        Err(error @ attach::Error::NoPool { .. }) if place.held.is_none() => {
            let unreached = Pools::find(place)?.out_of_reach(&[name.to_owned()]).pop();
            let Some(picture) = unreached else { return Err(error.into()) };
            let verb = if destroys { "destroy" } else { "export" };
            let why = match picture.health.suspended {
                Some(_) => "pool I/O is currently suspended",
                None => "its devices can't be reached",
            };
            return Err(Failure::failed(format!("cannot {verb} '{name}': {why}")));
        }
        opened => opened?,
    };
    pool.live.syncer().note_deed();
    let state = if destroys { LabelState::Destroyed } else { LabelState::Exported };
    Ok(pool.close(state)?)
}
