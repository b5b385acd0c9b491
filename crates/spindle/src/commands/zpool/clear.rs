//! `zpool clear`: errors of devices are forgotten, and a pool that is suspended goes on.
//!
//! Who holds the pool does it at once, past commands that wait there: they may wait for just this. Of a pool that nobody holds, no errors
//! are known but the marks that its configuration has of devices that were found to be faulty: those are taken off.
//!
//! Source: OpenZFS, `zpool_main.c` (`zpool_do_clear`), `libzfs_pool.c` (`zpool_clear`).

use super::opened::{devices, no_pool};
use super::tree::{self, Devices, Naming};
use crate::events::events_of_a_change;
use crate::output::Failure;
use ::zfs::spa::FoundPool;
use ::zfs::spa::config::LabelState;
use attach::Error;
use attach::pools::running::client;
use attach::pools::running::protocol::Ask;
use attach::pools::{LivePool, PoolPlace, Pools};
use clap::Args;
use serde_json::Value;
use zfs_format::vdev::Vdev;

// What `clear` takes.
#[derive(Args)]
pub struct ClearArgs {
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The pool
    pool: String,
    /// The vdevs: by name, path or GUID; all where none are named
    #[arg(value_name = "VDEV")]
    vdevs: Vec<String>,
}

/// The GUID of the vdev that is called so.
fn find(vdev: &Vdev, called: &str, devices: &Devices) -> Option<u64> {
    let is_it = |naming: Naming| tree::name(vdev, vdev.children.len(), devices, naming) == called;
    let is_path = vdev.path.as_ref().is_some_and(|path| path.as_bytes() == called.as_bytes());
    let ways = [Naming::default(), Naming { paths: true, ..Naming::default() }];
    if is_path || called.parse() == Ok(vdev.guid) || ways.into_iter().any(is_it) {
        return Some(vdev.guid);
    }
    vdev.children.iter().find_map(|child| find(child, called, devices))
}

fn find_all(pools: &Pools, found: &FoundPool, names: &[String]) -> Result<Vec<Option<u64>>, Error> {
    if names.is_empty() {
        return Ok(vec![None]);
    }
    let (devices, _) = devices(pools, found);
    let of = |called: &String| {
        let guid = found.tops.values().find_map(|top| find(top, called, &devices));
        let absent = || Error::NoVdevToClear { name: called.clone() };
        guid.map(Some).ok_or_else(absent)
    };
    names.iter().map(of).collect()
}

/// Carries out `clear`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &ClearArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let (options, command, held) = (place.options, place.command.clone(), None);
    // That another process writes to the devices is the case that it is for.
    let events = events_of_a_change();
    let directory = place.directory.clone();
    let place = &PoolPlace { devices: place.devices, options, events, command, held, directory };
    let pools = Pools::find(place)?;
    let found = pools.named(&args.pool)?;
    let found = found.ok_or_else(|| Failure::failed(no_pool(&args.pool)))?;
    let vdevs = find_all(&pools, found, &args.vdevs)?;
    let mut is_held = true;
    for vdev in &vdevs {
        is_held &= client::ask::<Value>(&pools, found, Ask::Clear { vdev: *vdev })?.is_some();
    }
    if is_held {
        return Ok(());
    }
    drop(pools);
    let pool = LivePool::open(place, &args.pool, args.force)?;
    for vdev in vdevs {
        let held = pool.held();
        pool.pools.wait(async move { held.clear(vdev).await })?;
    }
    Ok(pool.close(LabelState::Exported)?)
}
