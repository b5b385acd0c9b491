//! `spindle mount`: a dataset or snapshot as a directory of this host through FUSE, for reading; with `-o rw` for writing.
//!
//! Children are mounted below it, snapshots are in `.zfs/snapshot`. The command stays until it is told to stop (Ctrl-C,
//! SIGTERM) or the directory is unmounted from outside (`umount DIR`). Who still has files open there when it
//! stops gets errors; what is read only loses nothing by that. A RAID set or volume, which is none, is refused with the way to mount it.
//!
//! **Writing.** The pool's labels say that it is in use from before the first write until the end. Groups are committed every few
//! seconds, and where a program asks for durability. At the end the kernel writes out what it holds, the last group is
//! committed, and the pool is exported. A kill or a power cut costs what was not made durable, and the pool is
//! then opened for writing with `-f`.

use super::carried::carry_out;
use super::typed;
use super::zfs::source::ViewArgs;
use crate::events::events;
use crate::output::{Failure, print};
use crate::pools::PoolArgs;
use crate::signals::told_by_signals;
use attach::Events;
use attach::disks::Disks;
use attach::ending::Ending;
use attach::mounts::{MountPoint, RunningMount};
use attach::pools::{LivePool, PoolPlace, Queue, RunningPool, Session, carry_out_until};
use attach::sets::running::RunningSets;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::rc::Rc;
use volume::content::identify;

/// What to mount, and where.
#[derive(Args)]
pub struct MountArgs {
    /// The file system or snapshot
    #[arg(value_name = "DATASET[@SNAPSHOT]")]
    dataset: String,
    /// The directory to mount it on
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Options, as mount(8) has them: rw to write; ro, nosuid and nodev, which hold without them too
    #[arg(short = 'o', value_name = "OPTION,...", value_delimiter = ',')]
    options: Vec<MountOption>,
    /// Whether .zfs is listed. It is found by its name either way
    #[arg(long, value_enum, default_value_t = SnapshotDirectory::Hidden)]
    snapdir: SnapshotDirectory,
    /// With -o rw: though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    pools: PoolArgs,
}

impl MountArgs {
    fn writes(&self) -> bool {
        // Of several the last one counts, as with mount(8).
        let is_way = |option: &&MountOption| matches!(option, MountOption::Ro | MountOption::Rw);
        self.options.iter().rfind(is_way) == Some(&MountOption::Rw)
    }

    fn lists(&self) -> bool {
        self.snapdir == SnapshotDirectory::Visible
    }
}

/// What a mount is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MountOption {
    Ro,
    Rw,
    Nosuid,
    Nodev,
}

/// Whether `.zfs` is listed, as the property `snapdir` has it.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SnapshotDirectory {
    Hidden,
    Visible,
}

/// Mounts, and serves until it is told to stop.
///
/// # Errors
/// With the line to print.
pub fn run(args: &MountArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let (options, command) = (args.pools.options(), None);
    let (held, directory) = Default::default();
    let place = PoolPlace { devices, options, events: events(), command, held, directory };
    let done = match args.writes() {
        true => run_writable(args, &place),
        false => run_read_only(args, &place),
    };
    done.map_err(|failure| no_dataset(args, &place).unwrap_or(failure))
}

/// What to do instead, where what was named is no dataset but a RAID set or a volume.
fn no_dataset(args: &MountArgs, place: &PoolPlace<'_>) -> Option<Failure> {
    let called = &args.dataset;
    let disks = Disks::open(&Events::unheard(), place.devices).ok()?;
    let device = disks.volume(called).ok()?.device;
    let content = disks.wait(async move { identify(&device).await }).ok().flatten();
    let holds = match &content {
        Some(content) => format!("it holds {}", content.kind.name()),
        None => "it is a volume".to_owned(),
    };
    let flag = if args.writes() { "" } else { " --readonly" };
    let (spindle, name) = (typed::spindle(place.devices), typed::quoted(called));
    Some(Failure::failed(format!(
        "{called}: {holds}, and datasets of ZFS pools alone are mounted here: {spindle} serve --volume {name}{flag} lends it \
         to Linux, which mounts it; it says how"
    )))
}

fn run_read_only(args: &MountArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let session = Session::open(place, &args.view.view())?;
    let mount = RunningMount::of_session(&session, &args.dataset, &args.directory, args.lists())?;
    let told = told_by_signals()?;
    print(&format!("spindle: {}\n", mount.mounted()))?;
    let served = session.wait(async move { mount.until(told.wait()).await });
    served?.tell(session.pools.disks().context());
    Ok(())
}

/// The same for writing.
fn run_writable(args: &MountArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if args.dataset.contains('@') {
        let text = format!("{}: a snapshot is only read: leave -o rw out", args.dataset);
        return Err(Failure::usage(text));
    }
    let pool = LivePool::of_dataset(place, &args.dataset, args.force)?;
    let held = pool.held();
    let pools = Rc::clone(&held.pools);
    let context = pools.disks().context();
    let ending = Rc::new(Ending::by(&told_by_signals()?));
    let queue = Queue::default();
    let point = MountPoint::new(&held, &args.dataset, &args.directory)?;
    // Sets below it are cared for as long as it is mounted.
    let mut sets = RunningSets::default();
    sets.start(context, pools.disks().take_live(), None);
    // From here on the labels say that somebody has it.
    let running = match RunningPool::start(held.clone(), "spindle mount", &ending, &queue) {
        Ok(running) => running,
        Err(error) => return sets.stop(context).and(Err(error)).map_err(Failure::from),
    };
    let mounted = RunningMount::of_pool(&held, point, args.lists());
    let served = mounted.map_err(Failure::from).and_then(|mount| {
        print(&format!("spindle: {}\n", mount.mounted()))?;
        let serving = async move { mount.until(ending.wait()).await };
        carry_out_until(context, serving, queue, &carry_out)??.tell(context);
        Ok(())
    });
    // What the pool says is why the mount failed, where both did.
    let stopped = running.stop(context);
    stopped.and(sets.stop(context)).map_err(Failure::from).and(served)
}
