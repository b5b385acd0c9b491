//! `spindle zpool add`: vdevs, spares and cache devices put into a pool.
//!
//! `-f` concerns the devices alone: a pool that another host may have is [imported](super::import) first.

use super::opened::not_opened;
use super::vdevs::{self, Present};
use crate::commands::zfs::set::split;
use crate::output::{Failure, print};
use crate::printable;
use ::zfs::spa::config::LabelState;
use attach::pools::{LivePool, PoolPlace, Pools, Wanted};
use clap::Args;
use std::path::PathBuf;
use std::rc::Rc;
use zfs_format::vdev::Vdev;

// What `add` takes.
#[derive(Args)]
pub struct AddArgs {
    /// Overwrite what the devices hold, and put different redundancy and sizes together
    #[arg(short, long)]
    force: bool,
    /// Show the layout and add nothing
    #[arg(short = 'n')]
    dry_run: bool,
    /// ashift of the new vdevs: that of the pool's where nobody says
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// The pool
    pool: String,
    /// Vdevs, as of create; spare and cache with their devices
    #[arg(required = true)]
    vdevs: Vec<String>,
}

/// The sector of new vdevs of a pool: the largest that it has.
fn ashift(args: &AddArgs, root: &Vdev) -> Result<u64, Failure> {
    let mut ashift = root.children.iter().filter_map(|top| top.ashift).max().unwrap_or(12);
    for given in &args.properties {
        match split(given).map_err(Failure::of_caller)? {
            ("ashift", value) => ashift = vdevs::ashift(value)?,
            (name, _) => {
                let text = format!("property '{name}': only ashift is set where vdevs are added");
                return Err(Failure::usage(text));
            }
        }
    }
    Ok(ashift)
}

/// Carries out `add`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &AddArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let all = vdevs::given(&args.vdevs)?;
    let paths = vdevs::paths(&all);
    if args.dry_run {
        return show(args, place, &all, &paths);
    }
    let pool = LivePool::open(place, &args.pool, false).map_err(not_opened)?;
    let root = pool.live.spa().vdevs();
    let ashift = ashift(args, &root)?;
    if !args.force {
        vdevs::check_redundancy(&all, Some(&root))?;
    }
    let devices = pool.open_new(place, &paths, args.force)?;
    let new = vdevs::over(&all, &devices.members, pool.live.fresh(), ashift, args.force)?;
    pool.add(new, devices)?;
    pool.live.syncer().note_deed();
    Ok(pool.close(LabelState::Exported)?)
}

/// The layout as it would be.
fn show(
    args: &AddArgs,
    place: &PoolPlace<'_>,
    all: &[vdevs::Given],
    paths: &[PathBuf],
) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let spa = pools.open(&args.pool)?;
    let root = spa.vdevs();
    ashift(args, &root)?;
    if !args.force {
        vdevs::check_redundancy(all, Some(&root))?;
    }
    let (found, pool) = (pools.named(&args.pool)?, Rc::clone(&spa));
    let state = pools.wait(async move { pool.state().await }).map_err(Failure::failed)?;
    if let Some(found) = found {
        let apart: Vec<u64> = state.spares.iter().chain(&state.cache).map(|one| one.guid).collect();
        let wanted = Wanted::of(place, paths, args.force);
        wanted.check_against(&pools, (&found.name, pools.paths_of(found)), &apart)?;
        wanted.look(&pools)?;
    }
    let present = Present { tops: root.children.clone(), spares: state.spares, cache: state.cache };
    let name = printable::word(spa.name()).into_owned();
    let layout = vdevs::layout(&name, &present, all);
    print(&format!("would update '{name}' to the following configuration:\n\n{layout}"))
}
