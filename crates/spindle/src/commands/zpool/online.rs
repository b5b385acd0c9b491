//! `spindle zpool online -e`: a vdev takes in what its devices have grown by.
//!
//! Devices are in use whenever they are there, so nothing else is brought online here. How large a device is is found out when it is
//! opened, so a pool that somebody holds is let go of first.
//!
//! Source: OpenZFS, `zpool_main.c` (`zpool_do_online`).

use super::opened::{devices, not_opened};
use super::tree::{self, Naming};
use crate::output::{Failure, say};
use crate::usage::elsewhere;
use ::zfs::spa::config::LabelState;
use attach::pools::{LivePool, PoolPlace, Pools};
use clap::Args;
use std::path::{Path, PathBuf};
use zfs_format::vdev::Vdev;

// What `online` takes.
#[derive(Args)]
pub struct OnlineArgs {
    /// Take in all that the device has grown by
    #[arg(short, long)]
    expand: bool,
    /// The pool
    pool: String,
    /// Devices: by their paths, the ends of those, or GUIDs
    #[arg(required = true)]
    devices: Vec<String>,
}

/// Carries out `online`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &OnlineArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if !args.expand {
        let instead = elsewhere("zpool", "online").unwrap_or_default();
        let text = format!("{instead}; zpool online -e takes in what a device has grown by");
        return Err(Failure::usage(text));
    }
    if place.held.is_some() {
        let text = "who holds it has its devices open as large as they were: export it first";
        return Err(Failure::failed(format!("cannot expand '{}': {text}", args.pool)));
    }
    let names = {
        let pools = Pools::find(place)?;
        let found = pools.named(&args.pool)?;
        found.map(|found| devices(&pools, found).0).unwrap_or_default()
    };
    let pool = LivePool::open(place, &args.pool, false).map_err(not_opened)?;
    let root = pool.live.spa().vdevs();
    let mut leaves = Vec::new();
    for word in &args.devices {
        let given = place.path(Path::new(word)).canonicalize();
        let is_it = |leaf: &&Vdev| {
            let shown = tree::name(leaf, 0, &names, Naming::default());
            let path = tree::path(leaf, &names).map(PathBuf::from);
            let same = |path: PathBuf| {
                path.ends_with(word)
                    || path
                        .canonicalize()
                        .is_ok_and(|path| given.as_ref().is_ok_and(|given| *given == path))
            };
            leaf.guid.to_string() == *word || shown == *word || path.is_some_and(same)
        };
        match root.leaves().into_iter().find(is_it) {
            Some(leaf) => leaves.push(leaf.guid),
            None => {
                pool.close(LabelState::Exported)?;
                let text = format!("cannot expand {word}: no such device in pool");
                return Err(Failure::failed(text));
            }
        }
    }
    let grown = pool.expand(Some(leaves))?;
    if grown.is_empty() {
        say(
            "note: nothing grew: a vdev is as large as its smallest device lets it, and grows by whole metaslabs",
        );
    }
    pool.live.syncer().note_deed();
    Ok(pool.close(LabelState::Exported)?)
}
