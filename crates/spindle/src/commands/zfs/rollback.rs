//! `zfs rollback`: a dataset as one of its snapshots has it.
//!
//! Source: OpenZFS, `zfs_main.c` (`zfs_do_rollback`), `libzfs_dataset.c` (`zfs_rollback`).

use super::changed::{Changed, Step};
use crate::output::{Failure, say};
use ::zfs::dsl::dependents::Known;
use attach::Error;
use attach::pools::PoolPlace;
use attach::pools::mount_table::Paused;
use clap::Args;

/// Newer snapshots and bookmarks that are named before it is broken off.
const TOLD_MAX: usize = 32;

// What `rollback` takes.
#[derive(Args)]
pub struct RollbackArgs {
    /// Destroy snapshots and bookmarks that are more recent
    #[arg(short)]
    recursive: bool,
    /// And clones of those
    #[arg(short = 'R')]
    with_clones: bool,
    /// Though files are open where it, or a clone that goes, is mounted; though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// The snapshot
    #[arg(value_name = "DATASET@SNAPSHOT")]
    snapshot: String,
}

/// Carries out `rollback`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &RollbackArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let target = &args.snapshot;
    if !target.contains('@') {
        let text = "operation not applicable to datasets of this type";
        return Err(Failure::failed(format!("cannot open '{target}': {text}")));
    }
    let changed = Changed::open(place, target, args.force)?;
    let (of, snapshot) = changed.snapshot(target)?;
    let newer: Vec<_> = of.snapshots.iter().filter(|s| s.created > snapshot.created).collect();
    let marks: Vec<_> = of.bookmarks.iter().filter(|(_, at)| *at > snapshot.created).collect();
    let names = newer.iter().map(|newer| newer.name.clone());
    let names: Vec<String> =
        names.chain(marks.iter().map(|(mark, _)| format!("{}#{mark}", of.name))).collect();
    if !names.is_empty() && !args.recursive && !args.with_clones {
        say(&format!(
            "spindle: cannot rollback to '{target}': more recent snapshots or bookmarks exist"
        ));
        say("use '-r' to force deletion of the following snapshots and bookmarks:");
        names.iter().take(TOLD_MAX).for_each(|name| say(name));
        if names.len() >= TOLD_MAX {
            say(&format!("Output limited to {TOLD_MAX} snapshots/bookmarks"));
        }
        return Err(Failure::said());
    }
    let (mut steps, mut told) = (Vec::new(), Vec::new());
    for newer in &newer {
        let dependents = changed.datasets.snapshot_dependents(newer);
        for dependent in &dependents {
            steps.push(Step::destroys(dependent));
            told.push(dependent.name().to_owned());
        }
        steps.push(Step::Snapshot { number: newer.number, defer: false });
    }
    if !told.is_empty() && !args.with_clones {
        say(&format!("spindle: cannot rollback to '{target}': clones of previous snapshots exist"));
        say("use '-R' to force deletion of the following clones and dependents:");
        told.iter().for_each(|name| say(name));
        return Err(Failure::said());
    }
    for (mark, _) in marks {
        steps.push(Step::Bookmark { of: of.dataset, name: mark.clone() });
    }
    steps.push(Step::Rollback { number: of.dataset, snapshot: snapshot.number });
    let name = of.name.clone();
    if changed.serves(&[of.dataset])?.contains(&of.dataset) {
        let why = Changed::is_served();
        return Err(Failure::failed(format!("cannot rollback '{name}': {why}")));
    }
    let paused = leaves_mounts(args, &changed, of, &steps)?;
    let failed = changed.carry_out(&steps);
    // Whatever came of it: who had it mounted has it again.
    let resumed = paused.map_or(Ok(()), |paused| changed.pool.resume(paused));
    let failed = failed?;
    changed.finish()?;
    match failed.first() {
        Some((_, error)) => Err(Failure::failed(format!("cannot rollback '{name}': {error}"))),
        None => Ok(resumed?),
    }
}

/// The dataset is mounted nowhere while it becomes another, and as it was when what comes back is resumed: kernels keep what they know of
/// the files of a mount as long as it is there. Who shows it below another lets go of it, and finds it as the snapshot has it later. Clones
/// that go are unmounted. Nothing was changed where something is in use and is not to be by force.
fn leaves_mounts(
    args: &RollbackArgs,
    changed: &Changed,
    of: &Known,
    steps: &[Step],
) -> Result<Option<Paused>, Failure> {
    let refused = |error| match error {
        Error::MountBusy { directory } => {
            let by = host::using(&directory);
            let by = by.map_or(String::new(), |process| format!(": process {process} uses it"));
            let (name, directory) = (&of.name, directory.display());
            let why =
                format!("{directory} is busy{by}; with -f, who has files open there gets errors");
            Failure::failed(format!("cannot rollback '{name}': {why}"))
        }
        error => Failure::from(error),
    };
    let paused = changed.pool.pause((of.dataset, &of.name), args.force).map_err(refused)?;
    let mut others: Vec<u64> = steps.iter().filter_map(Step::destroyed).collect();
    others.push(of.dataset);
    changed.pool.unmount(&others, args.force)?;
    Ok(paused)
}
