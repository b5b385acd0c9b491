//! `spindle zpool checkpoint`: all of a pool kept as it is, to go back to by `zpool import --rewind-to-checkpoint`; and let go.
//!
//! What a checkpoint kept is freed group by group. Of a pool that is held its holder does that meanwhile, unless it is waited for;
//! else it is done before the pool is closed.
//!
//! Source for the words: OpenZFS 2.3, `zpool_main.c` (`zpool_do_checkpoint`).

use crate::output::Failure;
use ::zfs::spa::config::LabelState;
use attach::pools::{LivePool, PoolPlace};
use clap::Args;
use std::rc::Rc;

// What `checkpoint` takes.
#[derive(Args)]
pub struct CheckpointArgs {
    /// Discard the pool's checkpoint
    #[arg(short, long)]
    discard: bool,
    /// With -d: wait until all that it kept is free
    #[arg(short, long)]
    wait: bool,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The pool
    pool: String,
}

/// Carries out `checkpoint`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CheckpointArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let CheckpointArgs { discard, wait, force, pool: name } = args;
    if *wait && !discard {
        return Err(Failure::usage("--wait only valid when --discard also specified"));
    }
    if name.contains('/') {
        let text = "'zpool checkpoint' doesn't work on datasets. To save the state of a dataset from a specific point in time please use 'zfs snapshot'";
        return Err(Failure::failed(text));
    }
    let pool = LivePool::open(place, name, *force)?;
    let (live, discard) = (Rc::clone(&pool.live), *discard);
    let done = pool.pools.wait(async move {
        match discard {
            true => live.discard_checkpoint().await,
            false => live.checkpoint().await,
        }
    });
    done.map_err(|error| {
        let what = if discard { "discard checkpoint in" } else { "checkpoint" };
        Failure::failed(format!("cannot {what} '{name}': {error}"))
    })?;
    pool.live.syncer().note_deed();
    match place.held.is_some() && !wait {
        true => Ok(pool.close(LabelState::Exported)?),
        false => Ok(pool.finish()?),
    }
}
