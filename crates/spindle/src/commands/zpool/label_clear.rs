//! `spindle zpool labelclear`: a device made one that is no part of a pool.

use crate::output::Failure;
use attach::pools::{PoolPlace, label_clear};
use clap::Args;
use std::path::PathBuf;

// What `labelclear` takes.
#[derive(Args)]
pub struct LabelClearArgs {
    /// Though it is a part of a pool that is exported, or may be in use on another host
    #[arg(short, long)]
    force: bool,
    /// The device: a path, an NBD URI, or a volume on the devices of -d
    device: PathBuf,
}

/// Carries out `labelclear`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &LabelClearArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    Ok(label_clear(place, &args.device, args.force)?)
}
