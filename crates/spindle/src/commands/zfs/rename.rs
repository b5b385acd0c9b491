//! `zfs rename`: file systems, volumes and snapshots under another name, in the same pool.
//!
//! Source: OpenZFS, `zfs_main.c` (`zfs_do_rename`), `libzfs_dataset.c` (`zfs_rename`).

use super::changed::Changed;
use super::moved::{self, Change};
use crate::output::Failure;
use ::zfs::dsl::name::below;
use ::zfs::spa::datasets::{TaskError, Tasks};
use attach::pools::{PoolPlace, check_name, pool_of};
use clap::Args;

// What `rename` takes.
#[derive(Args)]
pub struct RenameArgs {
    /// Make what is missing above the new name
    #[arg(short = 'p', conflicts_with = "recursive")]
    parents: bool,
    /// Snapshots of this name of all below, too
    #[arg(short)]
    recursive: bool,
    /// What is mounted stays where it is
    #[arg(short = 'u')]
    unmounted: bool,
    /// Though files are open where it is mounted; though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The name
    old: String,
    /// The new one; of a snapshot what follows the @ is enough
    new: String,
}

/// Carries out `rename`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &RenameArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    match args.old.split_once('@') {
        Some((of, short)) => snapshot(args, of, short, place),
        None if args.recursive => {
            let text = "source dataset for recursive rename must be a snapshot";
            Err(Failure::usage(text))
        }
        None => dataset(args, place),
    }
}

fn dataset(args: &RenameArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let (old, new) = (&args.old, &args.new);
    let to = |why: &str| Failure::failed(format!("cannot rename to '{new}': {why}"));
    check_name(new)?;
    let changed = Changed::open(place, old, args.force)?;
    let known = changed.dataset(old)?;
    if old == new {
        return Ok(changed.pool.finish()?);
    }
    if new.contains(['@', '#']) {
        return Err(to("operation not applicable to datasets of this type"));
    }
    if pool_of(old) != pool_of(new) {
        return Err(to("datasets must be within same pool"));
    }
    if below(old, new).is_some() {
        return Err(to(&TaskError::Descendant.to_string()));
    }
    let directory = known.directory;
    let (above, name) = changed.above(new, args.parents, &to)?;
    let (name, pool_bytes) = (name.to_owned(), pool_of(new).len());
    let failed = |error: TaskError| Failure::failed(format!("cannot rename '{old}': {error}"));
    let pool = &changed.pool;
    let rename = || {
        let rename =
            async move |tasks: &Tasks<'_>| tasks.rename(directory, above, &name, pool_bytes).await;
        pool.task(rename)?.map_err(failed)
    };
    let done = match args.unmounted {
        true => rename(),
        false => moved::around(pool, old, (Change::Name, args.force), rename),
    };
    changed.pool.finish()?;
    done
}

fn snapshot(
    args: &RenameArgs,
    of: &str,
    short: &str,
    place: &PoolPlace<'_>,
) -> Result<(), Failure> {
    let new = match args.new.split_once('@') {
        Some(("", new)) => new,
        Some((dataset, new)) if dataset == of => new,
        Some(_) => {
            let why = "snapshots must be part of same dataset";
            return Err(Failure::failed(format!("cannot rename to '{}': {why}", args.new)));
        }
        None => &args.new,
    };
    check_name(&format!("{of}@{new}"))?;
    let changed = Changed::open(place, &args.old, args.force)?;
    let (top, _) = changed.snapshot(&args.old)?;
    if short == new {
        return Ok(changed.pool.finish()?);
    }
    let all: Vec<u64> = match args.recursive {
        true => changed.datasets.at_and_below(top).map(|known| known.dataset).collect(),
        false => vec![top.dataset],
    };
    let (old, name) = (short.to_owned(), new.to_owned());
    let done = changed.pool.task(async move |tasks| {
        // All of them or none.
        for dataset in &all {
            if let Err(error) = tasks.check_rename_snapshot(*dataset, &old, &name).await? {
                return Ok(Err(error));
            }
        }
        for dataset in &all {
            if let Err(error) = tasks.rename_snapshot(*dataset, &old, &name).await? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    })?;
    changed.pool.finish()?;
    done.map_err(|error| {
        let why = match error {
            TaskError::Exists if args.recursive => {
                "a child dataset already has a snapshot with the new name".to_owned()
            }
            error => error.to_string(),
        };
        Failure::failed(format!("cannot rename '{}': {why}", args.old))
    })
}
