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
//!
//! **Where another process holds the pool** that one mounts the dataset, and this one stays to have it unmounted at its end. While this
//! one holds a pool, others may have it mount more, and it ends when all is unmounted.

use super::carried::carry_out;
use super::elsewhere::{no_dataset, with_what_takes_force};
use super::mount_option::MountOption;
use super::zfs::source::ViewArgs;
use crate::events::events;
use crate::output::{Failure, print};
use crate::pools::PoolArgs;
use crate::signals::told_by_signals;
use attach::disks::Disks;
use attach::ending::Ending;
use attach::mounts::{MountPoint, RunningMount};
use attach::pools::running::protocol::Ask;
use attach::pools::running::{Holding, client};
use attach::pools::{
    LivePool, PoolPlace, Pools, Queue, RunningPool, Session, WhenAsked, carry_out_until, pool_of,
};
use attach::sets::running::RunningSets;
use attach::{Error, Event, Events};
use clap::{Args, ValueEnum};
use futures_util::future::select;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

// What to mount, and where.
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
    /// Whether .zfs is listed; without, as the property snapdir has it. It is found by its name either way
    #[arg(long, value_enum)]
    snapdir: Option<SnapshotDirectory>,
    /// With -o rw: though the pool was not exported, and another host may have it in use
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    pools: PoolArgs,
}

impl MountArgs {
    fn lists(&self) -> Option<bool> {
        self.snapdir.map(|snapdir| snapdir == SnapshotDirectory::Visible)
    }
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
    let for_writing = MountOption::for_writing(&args.options).unwrap_or(false);
    // What is only shown in another way is read beside who holds it.
    let is_plain = options.txg.is_none() && !options.checkpoint && args.view.is_plain();
    if is_plain && ask_holder(args, &place, for_writing)? {
        return Ok(());
    }
    let done = match for_writing {
        true => run_writable(args, &place),
        false => run_read_only(args, &place),
    };
    done.map_err(|failure| {
        let Ok(disks) = Disks::open(&Events::unheard(), devices) else { return failure };
        match no_dataset(&args.dataset, "mounted", for_writing, &disks, devices) {
            Some(instead) => Failure::failed(instead),
            None => with_what_takes_force(failure, &disks, devices),
        }
    })
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

/// Has who holds the pool mount the dataset, and unmount it when this is told to stop; false where nobody holds it.
fn ask_holder(args: &MountArgs, place: &PoolPlace<'_>, for_writing: bool) -> Result<bool, Failure> {
    // Without a word about devices: who opens the pool says what there is to be said.
    let (command, held, directory) = Default::default();
    let (devices, options, events) = (place.devices, place.options, Events::to(|_: &Event| ()));
    let quiet = PoolPlace { devices, options, events, command, held, directory };
    let pools = Pools::find(&quiet)?;
    let called = pool_of(&args.dataset);
    let Some(found) = pools.named(called)? else { return Ok(false) };
    let dataset = format!("{}{}", found.name, &args.dataset[called.len()..]);
    let whole = args.directory.canonicalize();
    let Ok(directory) = whole else { return Ok(false) };
    let shows_control = args.lists();
    let wanted = Ask::Mount { dataset, directory: directory.clone(), for_writing, shows_control };
    let Some(lease) = client::mount(&pools, found, wanted)? else { return Ok(false) };
    let told = told_by_signals()?;
    let dataset = lease.mounted.dataset.clone();
    print(&format!("spindle: {}\n", Event::Mounted { dataset, directory, for_writing }))?;
    pools.wait(async move { lease.until(told.wait()).await });
    Ok(true)
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
    let socket = held.socket();
    let point = MountPoint::new(&held, &args.dataset, &args.directory)?;
    // Sets below it are cared for as long as it is mounted.
    let mut sets = RunningSets::default();
    sets.start(context, pools.disks().take_live(), None);
    // From here on the labels say that somebody has it.
    let (what, when_asked) = ("spindle mount", WhenAsked::Ends);
    let how = Holding { what, ending: &ending, when_asked, socket };
    let running = match RunningPool::start(held.clone(), how, &queue) {
        Ok(running) => running,
        Err(error) => return sets.stop(context).and(Err(error)).map_err(Failure::from),
    };
    let mounted = RunningMount::of_pool(&held, point, args.lists());
    let served = mounted.map_err(Failure::from).and_then(|mount| {
        print(&format!("spindle: {}\n", mount.mounted()))?;
        let (ending, mounts) = (Rc::clone(&ending), Rc::clone(&held.mounts));
        let serving = async move {
            let ended = mount.until(ending.wait()).await?;
            // Others may have had more mounted.
            select(pin!(mounts.emptied()), pin!(ending.wait())).await;
            Ok::<_, Error>(ended)
        };
        carry_out_until(context, serving, queue, &carry_out)??.tell(context);
        Ok(())
    });
    // What the pool says is why the mount failed, where both did.
    let stopped = running.stop(context);
    stopped.and(sets.stop(context)).map_err(Failure::from).and(served)
}
