//! `zfs hold`, `zfs holds`, `zfs release`: names under which snapshots are kept from being destroyed.
//!
//! Source: OpenZFS, `zfs_main.c` (`zfs_do_hold_rele_impl`, `zfs_do_holds`), `libzfs_dataset.c`.

use super::changed::{Changed, absent};
use crate::commands::clock;
use crate::output::{Failure, print, say};
use crate::printable;
use ::zfs::ZfsError;
use ::zfs::dsl::dependents::{Datasets, KnownSnapshot};
use ::zfs::show;
use attach::pools::{PoolPlace, Pools, pool_of};
use clap::Args;
use std::rc::Rc;

// What `hold` and `release` take.
#[derive(Args)]
pub struct HoldArgs {
    /// Snapshots of this name of all below, too
    #[arg(short)]
    recursive: bool,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The name of the hold
    tag: String,
    /// The snapshots
    #[arg(required = true, value_name = "DATASET@SNAPSHOT")]
    snapshots: Vec<String>,
}

// What `holds` takes.
#[derive(Args)]
pub struct HoldsArgs {
    /// Snapshots of this name of all below, too
    #[arg(short)]
    recursive: bool,
    /// For programs: no head, tabs between
    #[arg(short = 'H')]
    scripted: bool,
    /// Times in seconds since 1970
    #[arg(short = 'p')]
    parsable: bool,
    /// The snapshots
    #[arg(required = true, value_name = "DATASET@SNAPSHOT")]
    snapshots: Vec<String>,
}

/// The snapshots that a name means: itself, and those of the same name of all below.
fn meant<'a>(
    datasets: &'a Datasets,
    name: &str,
    recursive: bool,
) -> Result<Vec<&'a KnownSnapshot>, Failure> {
    let not = || Failure::failed(format!("'{name}' is not a snapshot"));
    let (of, short) = name.split_once('@').ok_or_else(not)?;
    let top = datasets.find(of).ok_or_else(|| absent(of))?;
    let all = datasets.at_and_below(top).filter(|known| recursive || known.dataset == top.dataset);
    Ok(all.filter_map(|known| known.snapshot(short)).collect())
}

/// Carries out `hold`.
///
/// # Errors
/// With the line to print.
pub fn hold(args: &HoldArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if args.tag.starts_with('.') {
        return Err(Failure::usage("tag may not start with '.'"));
    }
    each(args, place, |changed, name| {
        let found = meant(&changed.datasets, name, args.recursive)?;
        if found.is_empty() {
            let why = "dataset does not exist";
            return Err(Failure::failed(format!("cannot hold snapshot '{name}': {why}")));
        }
        let numbers: Vec<u64> = found.iter().map(|snapshot| snapshot.number).collect();
        let tag = args.tag.clone();
        let done = changed.pool.task(async move |tasks| {
            // All of them or none.
            for (n, number) in numbers.iter().enumerate() {
                if let Err(error) = tasks.check_hold(*number, &tag).await? {
                    return Ok(Ok(Err((n, error))));
                }
            }
            for (n, number) in numbers.iter().enumerate() {
                if let Err(error) = tasks.hold(*number, &tag).await? {
                    return Ok(Ok(Err((n, error))));
                }
            }
            Ok(Ok(Ok(())))
        })?;
        done.map_err(Failure::failed)?.map_err(|(n, error)| {
            Failure::failed(format!("cannot hold snapshot '{}': {error}", found[n].name))
        })
    })
}

/// Carries out `release`.
///
/// # Errors
/// With the line to print.
pub fn release(args: &HoldArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    each(args, place, |changed, name| {
        let refuse = |why: &str| {
            Failure::failed(format!("cannot release hold from snapshot '{name}': {why}"))
        };
        let found = meant(&changed.datasets, name, args.recursive)?;
        if found.is_empty() {
            return Err(refuse("dataset does not exist"));
        }
        let held =
            |snapshot: &&&KnownSnapshot| snapshot.holds.iter().any(|(tag, _)| *tag == args.tag);
        let numbers: Vec<u64> = found.iter().filter(held).map(|known| known.number).collect();
        if numbers.is_empty() {
            return Err(refuse("no such tag on this dataset"));
        }
        let tag = args.tag.clone();
        let done = changed.pool.task(async move |tasks| {
            for number in numbers {
                if let Err(error) = tasks.release(number, &tag).await? {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })?;
        done.map_err(|error| refuse(&error.to_string()))
    })
}

/// Does something for each name, whatever becomes of the others.
fn each(
    args: &HoldArgs,
    place: &PoolPlace<'_>,
    how: impl Fn(&Changed, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut failed = false;
    for (n, name) in args.snapshots.iter().enumerate() {
        let done = Changed::open(place, name, args.force).and_then(|changed| {
            how(&changed, name)?;
            Ok(changed.pool.finish()?)
        });
        if let Err(failure) = done {
            // All of it goes to who holds the pool.
            if n == 0 && failure.held.is_some() {
                return Err(failure);
            }
            say(&format!("spindle: {}", failure.message));
            failed = true;
        }
    }
    if failed { Err(Failure::said()) } else { Ok(()) }
}

/// Carries out `holds`.
///
/// # Errors
/// With the line to print.
pub fn list(args: &HoldsArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let (mut rows, mut failed) = (Vec::new(), false);
    for name in &args.snapshots {
        let found = holds_of(&pools, name, args.recursive);
        match found {
            Ok(found) => rows.extend(found),
            Err(failure) => {
                say(&format!("spindle: {}", failure.message));
                failed = true;
            }
        }
    }
    let widest = |of: fn(&(String, String, u64)) -> usize, least: &str| {
        rows.iter().map(of).max().unwrap_or(0).max(least.len())
    };
    let names = widest(|row| row.0.len(), "NAME");
    let tags = widest(|row| row.1.len(), "TAG");
    let mut text = String::new();
    if !args.scripted {
        text += &format!("{:names$}  {:tags$}  TIMESTAMP\n", "NAME", "TAG");
    }
    for (name, tag, time) in &rows {
        let tag = printable::line(tag);
        let time = match args.parsable {
            true => time.to_string(),
            false => show::minute(*time, &clock::local()),
        };
        text += &match args.scripted {
            true => format!("{name}\t{tag}\t{time}\n"),
            false => format!("{name:names$}  {tag:tags$}  {time}\n"),
        };
    }
    print(&text)?;
    if rows.is_empty() {
        say("no datasets available");
    }
    if failed { Err(Failure::said()) } else { Ok(()) }
}

/// Snapshots with the names and times of their holds.
fn holds_of(
    pools: &Pools,
    name: &str,
    recursive: bool,
) -> Result<Vec<(String, String, u64)>, Failure> {
    let pool = pool_of(name);
    let found = pools.named(pool)?;
    let found =
        found.ok_or_else(|| Failure::failed(format!("cannot open '{pool}': no such pool")))?;
    let spa = Rc::clone(&pools.open_found(found)?);
    let all = pools.wait(async move {
        Ok::<_, ZfsError>(Datasets { pool: Some(spa.guid()), ..Datasets::of(spa.dsl()).await? })
    });
    let all = all.map_err(|error| Failure::failed(format!("cannot open '{pool}': {error}")))?;
    let snapshots = meant(&all, name, recursive)?;
    if snapshots.is_empty() && !recursive {
        return Err(absent(name));
    }
    let rows = snapshots.into_iter().flat_map(|snapshot| {
        let holds = snapshot.holds.iter();
        holds.map(|(tag, time)| (snapshot.name.clone(), tag.clone(), *time))
    });
    Ok(rows.collect())
}
