//! `spindle zpool export`, `destroy`: a pool is closed, so that another host may open it, or given up.
//!
//! Both open the pool for writing, which claims its logs and takes back what a crash left, and differ only in the state that
//! the labels have from then on.

use crate::output::Failure;
use ::zfs::spa::config::LabelState;
use attach::pools::{LivePool, PoolPlace};
use clap::Args;

/// What `export` and `destroy` take.
#[derive(Args)]
pub struct EndArgs {
    /// Though it was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The pool
    pool: String,
}

/// Carries out `export`.
///
/// # Errors
/// With the line to print.
pub fn export(args: &EndArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pool = LivePool::open(place, &args.pool, args.force)?;
    pool.live.syncer().note_deed();
    Ok(pool.close(LabelState::Exported)?)
}

/// Carries out `destroy`.
///
/// # Errors
/// With the line to print.
pub fn destroy(args: &EndArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pool = LivePool::open(place, &args.pool, args.force)?;
    pool.live.syncer().note_deed();
    Ok(pool.close(LabelState::Destroyed)?)
}
