//! `zfs mount`, `zfs unmount`: file systems where their properties say, or on a directory that is named.
//!
//! A mount is served by a process that holds the pool. Where one does ([`serve`](crate::commands::serve),
//! [`mount`](crate::commands::mount), another `zfs mount`), it mounts and unmounts, and the command ends at once. Where nobody does
//! this command is that process: it stays in the foreground until Ctrl-C, or until all is unmounted, and exports the pool then.
//!
//! Children whose mountpoint is inherited come with what is above them, in one mount; those with a mountpoint of their own are
//! mounted there by themselves.
//!
//! **Over what is there.** Pools are looked at here that belong to other machines, whose mountpoints are this host's own `/home` or
//! `/var`. So a directory that has something in it is mounted on where it was named, where `-O` says so, or where the property
//! `overlay` was set to `on`; that this is its default, which OpenZFS goes by on Linux, is not enough.
//!
//! Source: OpenZFS, `zfs_main.c` (`share_mount_one`, `unshare_unmount`), `libzfs_mount.c` (`zfs_mount_at`).

use super::keys;
use crate::commands::held::{send_to, tell};
use crate::commands::mount_option::MountOption;
use crate::events::events;
use crate::output::{Failure, print, say};
use crate::printable;
use crate::signals::told_by_signals;
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::property::view::Kind;
use ::zfs::spa::FoundPool;
use ::zfs::spa::live::set_number;
use attach::Error;
use attach::mounts::{RunningMount, ToMount};
use attach::pools::mount_table::Unmount;
use attach::pools::running::client;
use attach::pools::{Asked, HeldBy, PoolPlace, Pools, Queue, View, check_name, pool_of};
use attach::serve::{self, Clients, Commands, Plan};
use clap::Args;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Values of the property `canmount`.
const CANMOUNT_OFF: u64 = 0;
const CANMOUNT_ON: u64 = 1;

// What `mount` takes.
#[derive(Args)]
pub struct MountArgs {
    /// All file systems that are mounted by themselves
    #[arg(short, conflicts_with_all = ["dataset", "directory"])]
    all: bool,
    /// Also where the mountpoint is a directory that has something in it, and the property overlay was not set to on
    #[arg(short = 'O')]
    overlay: bool,
    /// As mount(8) has them: ro to read only
    #[arg(short = 'o', value_name = "OPTION,...", value_delimiter = ',')]
    options: Vec<MountOption>,
    /// Taken, and says nothing
    #[arg(short)]
    verbose: bool,
    /// Though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    /// What mountpoints are below; where nobody holds the pool, as long as this does
    #[arg(long, value_name = "DIR")]
    altroot: Option<PathBuf>,
    /// The file system; without one, what is mounted is listed
    dataset: Option<String>,
    /// Where, whatever its mountpoint says
    directory: Option<PathBuf>,
}

// What `unmount` takes.
#[derive(Args)]
pub struct UnmountArgs {
    /// All that is mounted
    #[arg(short, conflicts_with = "name")]
    all: bool,
    /// Whoever has files open there gets errors
    #[arg(short, long)]
    force: bool,
    /// A file system, or the directory that it is mounted on
    #[arg(required_unless_present = "all", value_name = "DATASET|DIR")]
    name: Option<String>,
}

impl MountArgs {
    fn for_writing(&self) -> bool {
        MountOption::for_writing(&self.options).unwrap_or(true)
    }

    /// The same for who holds the pool of this name, with whole paths.
    fn words(&self, pool: &str) -> Result<Vec<String>, Failure> {
        let mut words = vec!["zfs".to_owned(), "mount".to_owned()];
        let flags = [(self.all, "-a"), (self.overlay, "-O"), (!self.for_writing(), "-oro")];
        words.extend(flags.iter().filter(|(given, _)| *given).map(|(_, flag)| (*flag).to_owned()));
        if let Some(altroot) = &self.altroot {
            words.push(format!("--altroot={}", text(&whole(altroot))?));
        }
        if let Some(dataset) = &self.dataset {
            words.push(called(dataset, pool));
        }
        if let Some(directory) = &self.directory {
            let found = directory.canonicalize().map_err(|error| {
                Failure::failed(format!("cannot mount '{}': {error}", directory.display()))
            })?;
            words.push(text(&found)?);
        }
        Ok(words)
    }
}

/// A dataset's name, with its pool by name where it was by GUID.
fn called(dataset: &str, pool: &str) -> String {
    format!("{pool}{}", &dataset[pool_of(dataset).len()..])
}

fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A path that can be sent.
fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{}: the path is no UTF-8", path.display())))
}

/// Carries out `mount`.
///
/// # Errors
/// With the line to print.
pub fn mount(
    args: &MountArgs,
    place: &PoolPlace<'_>,
    carry_out: &dyn Fn(Asked),
) -> Result<(), Failure> {
    if let Some(held) = &place.held {
        return mount_of(args, held, place);
    }
    if args.dataset.is_none() && !args.all {
        return list(place);
    }
    let (mut free, mut outcome) = (Vec::new(), Ok(()));
    {
        let pools = Pools::find(place)?;
        let chosen: Vec<Rc<FoundPool>> = match &args.dataset {
            Some(name) => vec![pool_with(&pools, name)?],
            None => pools.living().cloned().collect(),
        };
        for found in chosen {
            match send_to(place, &pools, &found, args.words(&found.name)?)? {
                Some(done) => outcome = outcome.and(tell(done)),
                None => free.push(found.guid.to_string()),
            }
        }
    }
    match free.is_empty() {
        true => outcome,
        false => hold(args, place, free, carry_out).and(outcome),
    }
}

/// The pool that a dataset's name begins with.
fn pool_with(pools: &Pools, name: &str) -> Result<Rc<FoundPool>, Failure> {
    check_name(name)?;
    let found = pools.named(pool_of(name))?;
    Ok(Rc::clone(found.ok_or_else(|| Error::NoDataset { name: name.to_owned() })?))
}

/// What is mounted of the pools that somebody holds.
fn list(place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let mut all = Vec::new();
    for found in pools.living() {
        all.extend(client::mounts(&pools, found)?);
    }
    all.sort_by(|a, b| a.dataset.cmp(&b.dataset));
    let line = |dataset: &str, directory: &Path| {
        let directory = directory.to_string_lossy();
        format!("{:<30}  {}\n", printable::word(dataset), printable::word(&directory))
    };
    print(&all.iter().map(|one| line(&one.dataset, &one.directory)).collect::<String>())
}

/// Holds pools that nobody holds, and mounts of them, until it is told to end or all is unmounted.
fn hold(
    args: &MountArgs,
    place: &PoolPlace<'_>,
    pools: Vec<String>,
    carry_out: &dyn Fn(Asked),
) -> Result<(), Failure> {
    let plan = Plan {
        devices: place.devices.to_vec(),
        exports: Vec::new(),
        mounts: Vec::new(),
        pools: pools.into_iter().map(|pool| (pool, args.force)).collect(),
        altroot: args.altroot.as_deref().map(whole),
        executors: 0,
        options: place.options,
        view: View { keys: Vec::new(), ask: keys::ask, replay_view: false },
        addresses: Vec::new(),
        clients: Clients::default(),
        ends_with_set: false,
        ends_with_mounts: true,
        what: "spindle zfs mount",
    };
    let failed = Cell::new(false);
    let begin = |held: &[HeldBy]| {
        for held in held {
            match mount_of(args, held, place) {
                // Of several, the others are mounted.
                Err(_) if args.all => failed.set(true),
                done => done?,
            }
        }
        Ok(())
    };
    let commands = Commands { queue: Queue::default(), carry_out };
    serve::run(&events(), plan, told_by_signals, begin, commands)?;
    match failed.get() {
        true => Err(Failure::said()),
        false => Ok(()),
    }
}

/// Mounts of a pool that is held here.
fn mount_of(args: &MountArgs, held: &HeldBy, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let spa = held.live.spa();
    if let Some(dataset) = &args.dataset {
        let name = called(dataset, spa.name());
        let node = held.pools.node(spa, &name)?;
        return mount_one(args, held, &*node.ok_or(Error::NoDataset { name })?, place);
    }
    let absent = || Error::NoDataset { name: spa.name().to_owned() };
    let root = held.pools.node(spa, spa.name())?.ok_or_else(absent)?;
    let mut all = held.pools.below(spa, &root)?;
    all.push(root);
    all.sort_by(|a, b| a.directory.name.cmp(&b.directory.name));
    let mut failed = false;
    for node in all {
        if let Err(failure) = mount_one(args, held, &node, place) {
            say(&format!("spindle: {}", failure.message));
            failed = true;
        }
    }
    match failed {
        true => Err(Failure::said()),
        false => Ok(()),
    }
}

/// Mounts one file system. With `-a` what isn't mounted by itself, or is already, is passed over.
fn mount_one(
    args: &MountArgs,
    held: &HeldBy,
    node: &Node,
    place: &PoolPlace<'_>,
) -> Result<(), Failure> {
    let name = &node.directory.name;
    let refused = |why: &str| match args.all {
        true => Ok(()),
        false => Err(Failure::failed(format!("cannot mount '{name}': {why}"))),
    };
    if node.kind != Kind::FileSystem {
        return match args.all {
            true => Ok(()),
            false => Err(Failure::failed(format!(
                "cannot open '{name}': operation not applicable to datasets of this type"
            ))),
        };
    }
    let mountpoint = node.mountpoint();
    let directory = match (&args.directory, mountpoint.as_str()) {
        (Some(directory), _) => place.path(directory),
        (None, "legacy") => {
            return refused("legacy mountpoint: name the directory that it is to be mounted on");
        }
        (None, "none") => return refused("no mountpoint set"),
        (None, path) => match args.altroot.as_deref().map(whole).or_else(|| held.altroot()) {
            Some(altroot) => altroot.join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        },
    };
    match set_number(node, "canmount").unwrap_or(CANMOUNT_ON) {
        CANMOUNT_OFF => return refused("'canmount' property is set to 'off'"),
        CANMOUNT_ON => {}
        // noauto
        _ if args.all => return Ok(()),
        _ => {}
    }
    let is_named = args.directory.is_some();
    let wanted = ToMount {
        dataset: name.clone(),
        directory,
        makes_directory: !is_named,
        covers: args.overlay || set_number(node, "overlay").map_or(is_named, |on| on != 0),
        for_writing: args.for_writing(),
        shows_control: None,
        by_mountpoint: true,
    };
    let its = held.clone();
    let begun = held.pools.wait(async move { RunningMount::begin(&its, wanted).await });
    let mount = match begun {
        Err(Error::MountedAlready { .. }) if args.all => return Ok(()),
        Err(error @ Error::MountNotEmpty { .. }) => {
            let elsewhere = if is_named { "" } else { "; --altroot DIR mounts below DIR" };
            let mend = format!("-O mounts over what is there{elsewhere}");
            return Err(Failure::from(error).and_do(&mend));
        }
        begun => begun?,
    };
    let context = held.pools.disks().context();
    // Who asked says nothing, as OpenZFS; who stays says what for.
    if place.held.is_none() {
        context.tell(mount.mounted());
    }
    mount.serve_apart(context);
    Ok(())
}

/// Carries out `unmount`.
///
/// # Errors
/// With the line to print.
pub fn unmount(args: &UnmountArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if let Some(held) = &place.held {
        return unmount_of(args, held);
    }
    let mut words = vec!["zfs".to_owned(), "unmount".to_owned()];
    words.extend(args.force.then(|| "-f".to_owned()));
    let pools = Pools::find(place)?;
    let Some(name) = &args.name else {
        words.push("-a".to_owned());
        let mut outcome = Ok(());
        for found in pools.living() {
            if let Some(done) = send_to(place, &pools, found, words.clone())? {
                outcome = outcome.and(tell(done));
            }
        }
        return outcome;
    };
    if name.starts_with('/') {
        let path = Path::new(name);
        // What has died there can't be looked up.
        let directory = path.canonicalize().unwrap_or_else(|_| whole(path));
        for found in pools.living() {
            let mounts = client::mounts(&pools, found)?;
            let Some(one) = mounts.into_iter().find(|one| one.directory == directory) else {
                continue;
            };
            words.push(one.dataset);
            return match send_to(place, &pools, found, words)? {
                Some(done) => tell(done),
                None => Err(not_mounted(name)),
            };
        }
        return Err(Failure::failed(format!("cannot unmount '{name}': not a ZFS filesystem")));
    }
    let found = pool_with(&pools, name)?;
    words.push(called(name, &found.name));
    match send_to(place, &pools, &found, words)? {
        Some(done) => tell(done),
        None => {
            // Says where there is none.
            let spa = pools.open_found(&found)?;
            pools.dataset(&spa, &called(name, &found.name))?;
            Err(not_mounted(name))
        }
    }
}

fn not_mounted(name: &str) -> Failure {
    Failure::failed(format!("cannot unmount '{name}': not currently mounted"))
}

/// Unmounts of a pool that is held here.
fn unmount_of(args: &UnmountArgs, held: &HeldBy) -> Result<(), Failure> {
    let how = if args.force { Unmount::Force } else { Unmount::IfIdle };
    let mounts = Rc::clone(&held.mounts);
    let Some(name) = &args.name else {
        let mut failed = false;
        for entry in mounts.entries() {
            if let Err(error) = held.pools.wait(async move { entry.end(how).await }) {
                say(&format!("spindle: {error}"));
                failed = true;
            }
        }
        return match failed {
            true => Err(Failure::said()),
            false => Ok(()),
        };
    };
    let spa = held.live.spa();
    held.pools.dataset(spa, name)?;
    let shown = held.pools.wait(async move { mounts.shown().await });
    let shown = shown.map_err(|error| Failure::failed(format!("cannot open '{name}': {error}")))?;
    let one = shown.iter().find(|one| one.dataset == *name).ok_or_else(|| not_mounted(name))?;
    if !one.is_itself() {
        let of = shown.iter().find(|other| Rc::ptr_eq(&other.of, &one.of) && other.is_itself());
        let outer = of.map_or("what is above it", |of| of.dataset.as_str());
        let text = format!("it is in the mount of {outer}, which can be unmounted as a whole");
        return Err(Failure::failed(format!("cannot unmount '{name}': {text}")));
    }
    let entry = Rc::clone(&one.of);
    Ok(held.pools.wait(async move { entry.end(how).await })?)
}
