//! `zfs destroy`: snapshots by lists and ranges, file systems and volumes with what depends on them, bookmarks.
//!
//! Everything that will go is worked out first, and refused as a whole where something in the way was not asked for. What was
//! destroyed is freed before the command ends; one that is cut leaves the rest to the next that opens the pool.
//!
//! Source: OpenZFS, `zfs_main.c` (`zfs_do_destroy`), `libzfs_iter.c` (`zfs_iter_snapspec`).

use super::changed::{Changed, Step};
use crate::output::{Failure, print, say};
use ::zfs::dsl::dependents::{Dependent, Known, KnownSnapshot};
use ::zfs::dsl::property::view::Kind;
use ::zfs::show;
use ::zfs::spa::datasets::TaskError;
use attach::pools::PoolPlace;
use clap::Args;

// What `destroy` takes.
#[derive(Args)]
pub struct DestroyArgs {
    /// With all below; of snapshots, those of this name of all below
    #[arg(short)]
    recursive: bool,
    /// With all that depends on it: clones, too
    #[arg(short = 'R')]
    with_clones: bool,
    /// Snapshots that are held or cloned as soon as they aren't any more
    #[arg(short = 'd')]
    defer: bool,
    /// Destroy nothing: with -v, say what would go
    #[arg(short = 'n')]
    dry_run: bool,
    /// Say what goes
    #[arg(short)]
    verbose: bool,
    /// The same for programs
    #[arg(short = 'p')]
    parsable: bool,
    /// Though files are open where it is mounted; though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// A file system or volume; snapshots (DATASET@A,B or DATASET@A%C); a bookmark (DATASET#NAME)
    name: String,
}

impl DestroyArgs {
    fn is_recursive(&self) -> bool {
        self.recursive || self.with_clones
    }

    fn is_verbose(&self) -> bool {
        self.verbose || self.parsable
    }

    /// Says that something goes.
    fn tell(&self, name: &str) -> Result<(), Failure> {
        match () {
            () if !self.is_verbose() => Ok(()),
            () if self.parsable => print(&format!("destroy\t{name}\n")),
            () if self.dry_run => print(&format!("would destroy {name}\n")),
            () => print(&format!("will destroy {name}\n")),
        }
    }
}

/// Carries out `destroy`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &DestroyArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if let Some((of, name)) = args.name.split_once('#') {
        return bookmark(args, of, name, place);
    }
    match args.name.split_once('@') {
        Some((of, spec)) => snapshots(args, of, spec, place),
        None => dataset(args, place),
    }
}

fn bookmark(
    args: &DestroyArgs,
    of: &str,
    name: &str,
    place: &PoolPlace<'_>,
) -> Result<(), Failure> {
    for (given, what) in [
        (args.dry_run, "dryrun"),
        (args.defer, "defer destroy"),
        (args.is_recursive(), "recursive"),
    ] {
        if given {
            return Err(Failure::failed(format!("{what} is not supported with bookmark")));
        }
    }
    let absent = || Failure::failed(format!("bookmark '{}' does not exist.", args.name));
    let changed = Changed::open(place, of, args.force)?;
    let known = changed.datasets.find(of).ok_or_else(absent)?;
    let step = Step::Bookmark { of: known.dataset, name: name.to_owned() };
    match changed.carry_out(&[step])?.pop() {
        Some((_, TaskError::Absent)) => Err(absent()),
        Some((_, error)) => {
            Err(Failure::failed(format!("cannot destroy bookmark '{}': {error}", args.name)))
        }
        None => Ok(changed.pool.finish()?),
    }
}

/// The snapshots of a dataset that a list of names and ranges means, in the order of the list.
fn chosen<'a>(of: &'a Known, spec: &str) -> Vec<&'a KnownSnapshot> {
    let mut found: Vec<&KnownSnapshot> = Vec::new();
    for part in spec.split(',') {
        match part.split_once('%') {
            None => found.extend(of.snapshot(part)),
            Some((first, last)) => {
                let place = |name: &str| of.snapshots.iter().position(|s| s.short() == name);
                let from = if first.is_empty() { Some(0) } else { place(first) };
                let until = if last.is_empty() { Some(of.snapshots.len()) } else { place(last) };
                if let (Some(from), Some(until)) = (from, until) {
                    let end = of.snapshots.len().min(until.saturating_add(1));
                    found.extend(of.snapshots.get(from..end).unwrap_or_default());
                }
            }
        }
    }
    let mut once: Vec<&KnownSnapshot> = Vec::new();
    for snapshot in found {
        if once.iter().all(|known| known.number != snapshot.number) {
            once.push(snapshot);
        }
    }
    once
}

fn snapshots(
    args: &DestroyArgs,
    of: &str,
    spec: &str,
    place: &PoolPlace<'_>,
) -> Result<(), Failure> {
    let changed = Changed::open(place, of, args.force)?;
    let top = changed.dataset(of)?;
    let mut all: Vec<(&Known, Vec<&KnownSnapshot>)> = Vec::new();
    for known in changed.datasets.at_and_below(top) {
        if known.dataset == top.dataset || args.is_recursive() {
            all.push((known, chosen(known, spec)));
        }
    }
    if all.iter().all(|(_, snapshots)| snapshots.is_empty()) {
        let text = "could not find any snapshots to destroy; check snapshot names.";
        return Err(Failure::failed(text));
    }
    if !args.with_clones && !args.defer {
        refuse_cloned(&changed, all.iter().flat_map(|(_, snapshots)| snapshots))?;
    }
    if args.is_verbose() {
        tell_space(args, &changed, &all)?;
    }
    if args.dry_run {
        return Ok(());
    }
    let (mut steps, mut names) = (Vec::new(), Vec::new());
    for snapshot in all.iter().flat_map(|(_, snapshots)| snapshots) {
        if args.with_clones {
            for dependent in changed.datasets.snapshot_dependents(snapshot) {
                args.tell(dependent.name())?;
                steps.push(Step::destroys(&dependent));
                names.push(dependent.name().to_owned());
            }
        }
    }
    for snapshot in all.iter().flat_map(|(_, snapshots)| snapshots) {
        steps.push(Step::Snapshot { number: snapshot.number, defer: args.defer });
        names.push(snapshot.name.clone());
    }
    if !args.with_clones {
        check(&changed, args.defer, &steps, &names)?;
    }
    carry_out(args, changed, &steps, &names)
}

/// All snapshots or none: each is looked at before the first goes.
fn check(changed: &Changed, defer: bool, steps: &[Step], names: &[String]) -> Result<(), Failure> {
    let snapshot = |step: &Step| match step {
        Step::Snapshot { number, .. } => Some(*number),
        _ => None,
    };
    let numbers: Vec<u64> = steps.iter().filter_map(snapshot).collect();
    let found = changed.pool.task(async move |tasks| {
        let mut found = Vec::new();
        for (n, number) in numbers.iter().enumerate() {
            if let Err(error) = tasks.check_destroy_snapshot(*number, defer).await? {
                found.push((n, error));
            }
        }
        Ok(Ok(found))
    })?;
    let found = found.map_err(Failure::failed)?;
    tell_failed(&found, names)
}

/// Snapshots with clones are refused, with all that would have to go.
fn refuse_cloned<'a>(
    changed: &'a Changed,
    snapshots: impl Iterator<Item = &'a &'a KnownSnapshot>,
) -> Result<(), Failure> {
    let mut refused = false;
    for snapshot in snapshots {
        let dependents = changed.datasets.snapshot_dependents(snapshot);
        if dependents.is_empty() {
            continue;
        }
        refused = true;
        let name = &snapshot.name;
        say(&format!("spindle: cannot destroy '{name}': snapshot has dependent clones"));
        say("use '-R' to destroy the following datasets:");
        dependents.iter().for_each(|dependent| say(dependent.name()));
    }
    if refused { Err(Failure::said()) } else { Ok(()) }
}

/// Says which snapshots go, and what is free then: neighbours free what only both have, too.
fn tell_space(
    args: &DestroyArgs,
    changed: &Changed,
    all: &[(&Known, Vec<&KnownSnapshot>)],
) -> Result<(), Failure> {
    let mut freed = 0_u64;
    for (known, snapshots) in all {
        let goes = |one: &KnownSnapshot| snapshots.iter().any(|known| known.number == one.number);
        let mut range: Option<(&KnownSnapshot, &KnownSnapshot)> = None;
        for snapshot in &known.snapshots {
            if goes(snapshot) {
                args.tell(&snapshot.name)?;
                range = Some((range.map_or(snapshot, |(first, _)| first), snapshot));
            } else if let Some((first, last)) = range.take() {
                freed = freed.saturating_add(changed.pool.would_free(first, last)?);
            }
        }
        if let Some((first, last)) = range {
            freed = freed.saturating_add(changed.pool.would_free(first, last)?);
        }
    }
    let shown = show::bytes(freed);
    match () {
        () if args.parsable => print(&format!("reclaim\t{freed}\n")),
        () if args.dry_run => print(&format!("would reclaim {shown}\n")),
        () => print(&format!("will reclaim {shown}\n")),
    }
}

fn dataset(args: &DestroyArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let name = &args.name;
    if args.defer {
        let text = "operation not applicable to datasets of this type";
        return Err(Failure::failed(format!("cannot open '{name}': {text}")));
    }
    let changed = Changed::open(place, name, args.force)?;
    let top = changed.dataset(name)?;
    let is_pool = !name.contains('/');
    if is_pool && !args.is_recursive() {
        say(&format!("spindle: cannot destroy '{name}': operation does not apply to pools"));
        say(&format!("use 'zfs destroy -r {name}' to destroy all datasets in the pool"));
        say(&format!("use 'zpool destroy {name}' to destroy the pool itself"));
        return Err(Failure::said());
    }
    let dependents = changed.datasets.dependents(top);
    if !args.with_clones {
        refuse_dependents(args, &changed, (top, &dependents))?;
    }
    let (mut steps, mut names) = (Vec::new(), Vec::new());
    for dependent in &dependents {
        args.tell(dependent.name())?;
        steps.push(Step::destroys(dependent));
        names.push(dependent.name().to_owned());
    }
    args.tell(name)?;
    if !is_pool {
        steps.push(Step::Dataset { number: top.dataset });
        names.push(name.clone());
    }
    if args.dry_run {
        return Ok(());
    }
    carry_out(args, changed, &steps, &names)
}

/// All of it goes, or is told of; nothing where something is in use that nobody lets go of.
fn carry_out(
    args: &DestroyArgs,
    changed: Changed,
    steps: &[Step],
    names: &[String],
) -> Result<(), Failure> {
    refuse_served(&changed, steps, names)?;
    unmount(args, &changed, steps)?;
    let failed = changed.carry_out(steps)?;
    finish(changed, &failed, names)
}

/// A volume that is served stays, and so does all that was to go with it.
fn refuse_served(changed: &Changed, steps: &[Step], names: &[String]) -> Result<(), Failure> {
    let datasets: Vec<u64> = steps.iter().filter_map(Step::destroyed).collect();
    let served = changed.serves(&datasets)?;
    let is_served = |step: &Step| step.destroyed().is_some_and(|dataset| served.contains(&dataset));
    for (_, name) in steps.iter().zip(names).filter(|(step, _)| is_served(step)) {
        let why = Changed::is_served();
        say(&format!("spindle: cannot destroy '{name}': {why}"));
    }
    if served.is_empty() { Ok(()) } else { Err(Failure::said()) }
}

/// What is to go is mounted nowhere any more; before the first goes, so that all stays where one can't be unmounted.
fn unmount(args: &DestroyArgs, changed: &Changed, steps: &[Step]) -> Result<(), Failure> {
    let datasets: Vec<u64> = steps.iter().filter_map(Step::destroyed).collect();
    Ok(changed.pool.unmount(&datasets, args.force)?)
}

/// What depends on a dataset and was not asked for is refused, by name.
fn refuse_dependents(
    args: &DestroyArgs,
    changed: &Changed,
    (of, dependents): (&Known, &[Dependent<'_>]),
) -> Result<(), Failure> {
    let is_own = |dependent: &&Dependent<'_>| {
        let rest = dependent.name().strip_prefix(of.name.as_str());
        rest.is_some_and(|rest| rest.starts_with(['/', '@']))
    };
    let (own, clones): (Vec<&Dependent<'_>>, Vec<_>) = dependents.iter().partition(is_own);
    let (refused, has, option) = match args.recursive {
        true => (clones, "dependent clones", "-R"),
        false => (own, "children", "-r"),
    };
    if refused.is_empty() {
        return Ok(());
    }
    let kind = match changed.pool.node(&args.name)? {
        Some(node) if node.kind == Kind::Volume => "volume",
        _ => "filesystem",
    };
    say(&format!("spindle: cannot destroy '{}': {kind} has {has}", args.name));
    say(&format!("use '{option}' to destroy the following datasets:"));
    refused.iter().for_each(|dependent| say(dependent.name()));
    Err(Failure::said())
}

/// Says what could not be destroyed.
fn tell_failed(failed: &[(usize, TaskError)], names: &[String]) -> Result<(), Failure> {
    for (n, error) in failed {
        let name = &names[*n];
        let why = match error {
            TaskError::Held => {
                format!("it's being held. Run 'zfs holds -r {name}' to see holders.")
            }
            error => error.to_string(),
        };
        match name.contains('@') {
            true => say(&format!("spindle: cannot destroy snapshot {name}: {why}")),
            false => say(&format!("spindle: cannot destroy '{name}': {why}")),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::said()) }
}

fn finish(
    changed: Changed,
    failed: &[(usize, TaskError)],
    names: &[String],
) -> Result<(), Failure> {
    changed.finish()?;
    tell_failed(failed, names)
}
