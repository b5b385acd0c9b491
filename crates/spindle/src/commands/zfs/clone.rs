//! `zfs clone` and `zfs promote`: a dataset that begins as a snapshot of another, and one that takes the other's place.
//!
//! Source: OpenZFS, `zfs_main.c` (`zfs_do_clone`, `zfs_do_promote`), `libzfs_dataset.c`.

use super::changed::Changed;
use super::set::{split, stored};
use super::taken::{check_taken, has_feature};
use crate::output::Failure;
use ::zfs::spa::datasets::TaskError;
use ::zfs::spa::datasets::clone::NewClone;
use attach::pools::{PoolPlace, check_name, pool_of};
use clap::Args;

// What `clone` takes.
#[derive(Args)]
pub struct CloneArgs {
    /// Make what is missing above it, too
    #[arg(short = 'p')]
    parents: bool,
    /// Set a property
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The snapshot
    #[arg(value_name = "DATASET@SNAPSHOT")]
    snapshot: String,
    /// The new file system or volume
    name: String,
}

// What `promote` takes.
#[derive(Args)]
pub struct PromoteArgs {
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The clone
    name: String,
}

/// Carries out `clone`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CloneArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let name = &args.name;
    let refuse = |why: &str| Failure::failed(format!("cannot create '{name}': {why}"));
    let mut properties = Vec::new();
    for property in &args.properties {
        let (name, value) = split(property)?;
        let stored = stored(name, value);
        properties
            .push(stored.map_err(|failure| failure.of(&format!("cannot create '{}'", args.name)))?);
    }
    check_name(name)?;
    if !args.snapshot.contains('@') {
        let text = "operation not applicable to datasets of this type";
        return Err(Failure::failed(format!("cannot open '{}': {text}", args.snapshot)));
    }
    if pool_of(name) != pool_of(&args.snapshot) {
        return Err(refuse("source and target pools differ"));
    }
    let changed = Changed::open(place, &args.snapshot, args.force)?;
    let (_, snapshot) = changed.snapshot(&args.snapshot)?;
    if args.parents && changed.datasets.find(name).is_some() {
        return Ok(changed.pool.finish()?);
    }
    for (name, value) in &properties {
        let has = |name: &str| has_feature(changed.pool.live.spa(), name);
        check_taken(name, Some(value), has).map_err(|why| refuse(&why))?;
    }
    let number = snapshot.number;
    let (above, last) = changed.above(name, args.parents, &refuse)?;
    let new = NewClone { name: last.to_owned(), properties };
    let done = changed.pool.task(async move |tasks| tasks.clone(number, above, &new).await)?;
    changed.pool.finish()?;
    done.map(|_| ()).map_err(|error| refuse(&error.to_string()))
}

/// Carries out `promote`.
///
/// # Errors
/// With the line to print.
pub fn promote(args: &PromoteArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let name = &args.name;
    let refuse = |why: String| Failure::failed(format!("cannot promote '{name}': {why}"));
    if name.contains('@') {
        return Err(refuse("snapshots can not be promoted".to_owned()));
    }
    let changed = Changed::open(place, name, args.force)?;
    let known = changed.dataset(name)?;
    let number = known.dataset;
    let is_origin =
        |snapshot: &&::zfs::dsl::dependents::KnownSnapshot| snapshot.number == known.origin;
    let all = changed.datasets.all.iter().flat_map(|known| &known.snapshots);
    let origin = all.clone().find(is_origin).map(|snapshot| snapshot.name.clone());
    let done = changed.pool.task(async move |tasks| tasks.promote(number).await)?;
    changed.pool.finish()?;
    done.map_err(|error| match (error, origin) {
        (TaskError::Conflict(short), Some(origin)) => {
            refuse(format!("conflicting snapshot '{short}' from parent '{origin}'"))
        }
        (error, _) => refuse(error.to_string()),
    })
}
