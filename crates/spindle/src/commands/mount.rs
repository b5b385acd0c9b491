//! `spindle mount`: a dataset or snapshot as a directory of this host through FUSE, for reading; with `-o rw` for writing.
//!
//! Children are mounted below it, snapshots are in `.zfs/snapshot`. The command stays until it is told to stop (Ctrl-C,
//! SIGTERM) or the directory is unmounted from outside (`umount DIR`). Who still has files open there when it
//! stops gets errors; what is read only loses nothing by that.
//!
//! **Writing.** The pool's labels say that it is in use from before the first write until the end. Groups are committed every few
//! seconds, and where a program asks for durability. At the end the kernel writes out what it holds, the last group is
//! committed, and the pool is exported. A kill or a power cut costs what was not made durable, and the pool is
//! then opened for writing with `-f`.

use super::carried::carry_out;
use super::zfs::source::ViewArgs;
use crate::events::events;
use crate::output::{Failure, print, say};
use crate::pools::PoolArgs;
use crate::signals::told_by_signals;
use ::zfs::mounted::{MountOptions, Mounted, Notice, Writing};
use ::zfs::spa::config::LabelState;
use attach::error::log_is_cut;
use attach::pools::{HeldPool, LivePool, PoolPlace, Queue, Session, carry_out_until};
use clap::{Args, ValueEnum};
use export::fuse::Server;
use futures_util::future::{Either, select};
use host::{CalendarClock, FuseMount, MountError};
use rt::sync::Notify;
use std::cell::Cell;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

/// Reads that failed and are told one by one: a program that reads a damaged disk from end to end must not fill a log.
const DAMAGE_TOLD_MAX: u64 = 100;

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

/// Why a directory can't be mounted on, with what to do about it.
fn not_mounted(error: MountError) -> Failure {
    use std::io::ErrorKind;
    let mend = match &error {
        MountError::Directory { error, .. } => match error.kind() {
            ErrorKind::NotFound => "; make the directory first",
            ErrorKind::NotADirectory => "; name a directory",
            // The server of what was mounted there ended without unmounting.
            ErrorKind::NotConnected => "; what was mounted there has died: unmount it (umount)",
            _ => "",
        },
        _ => "",
    };
    Failure::failed(format!("{error}{mend}"))
}

/// Says what was found while the mount is served. Of the dataset itself it was said before.
fn tell(itself: String, damage: Rc<Cell<u64>>) -> impl Fn(&Notice) {
    move |notice| match notice {
        Notice::Damage { dataset, object, at, len, error } => {
            damage.set(damage.get().saturating_add(1));
            if damage.get() <= DAMAGE_TOLD_MAX {
                let end = at.saturating_add(*len);
                say(&format!(
                    "spindle: {dataset}: object {object}, bytes {at} to {end} can't be read: {error}"
                ));
            }
            if damage.get() == DAMAGE_TOLD_MAX {
                say("spindle: what more can't be read is only counted");
            }
        }
        Notice::LogCut { dataset } if *dataset == itself => {}
        Notice::LogCut { dataset } => say(&format!("note: {}", log_is_cut(dataset))),
    }
}

/// Mounts, and serves until it is told to stop.
///
/// # Errors
/// With the line to print.
pub fn run(args: &MountArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let (options, command) = (args.pools.options(), None);
    let place = PoolPlace { devices, options, events: events(), command, held: None };
    // Of several the last one counts, as with mount(8).
    let is_way = |option: &&MountOption| matches!(option, MountOption::Ro | MountOption::Rw);
    if args.options.iter().rfind(is_way) == Some(&MountOption::Rw) {
        return run_writable(args, &place);
    }
    let session = { Session::open(&place, &args.view.view())? };
    let of = session.dataset(&args.dataset)?;
    let name = of.name().to_owned();
    // Says what to do with a volume.
    session.files(&of)?;
    session.load_keys_below(&of)?;
    let (spa, directory, dataset) = (Rc::clone(&of.spa), Rc::clone(&of.directory), of.dataset);
    let how = MountOptions {
        shows_control: args.snapdir == SnapshotDirectory::Visible,
        with_log: session.replays(),
    };
    let damage = Rc::new(Cell::new(0));
    let tell = Rc::new(tell(name.clone(), Rc::clone(&damage)));
    let opened =
        session.wait(async move { Mounted::open(&spa, directory, dataset, how, tell).await });
    let failed = |error| Failure::failed(format!("mounting {name}: {error}"));
    let mounted = opened.map_err(failed)?;
    let runtime = session.pools.disks().context();
    let told = told_by_signals()?;
    let mount = FuseMount::new(&runtime.host(), &args.directory, &name).map_err(not_mounted)?;
    print(&format!("spindle: {name} is mounted on {}\n", mount.directory().display()))?;
    let server = Server::new(Rc::new(mounted), mount.stream());
    let served = session.wait(async move {
        match select(pin!(server.serve()), pin!(told.wait())).await {
            Either::Left((served, _)) => served.map_err(Failure::failed),
            Either::Right(_) => Ok(()),
        }
    });
    if damage.get() > DAMAGE_TOLD_MAX {
        say(&format!("spindle: {name}: {} reads failed", damage.get()));
    }
    served.and(mount.unmount().map_err(Failure::failed))
}

/// The same for writing.
fn run_writable(args: &MountArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if args.dataset.contains('@') {
        let text = format!("{}: a snapshot is only read: leave -o rw out", args.dataset);
        return Err(Failure::usage(text));
    }
    let pool = LivePool::of_dataset(place, &args.dataset, args.force)?;
    let name = args.dataset.clone();
    let (directory, dataset) = pool.pools.dataset(pool.live.spa(), &name)?;
    let how =
        MountOptions { shows_control: args.snapdir == SnapshotDirectory::Visible, with_log: false };
    let damage = Rc::new(Cell::new(0));
    let tell = Rc::new(tell(name.clone(), Rc::clone(&damage)));
    let told = told_by_signals()?;
    let context = pool.pools.disks().context();
    let mount = FuseMount::writable(&context.host(), &args.directory, &name);
    let mount = Rc::new(mount.map_err(not_mounted)?);
    // From here on the labels say that somebody has it.
    pool.begin()?;
    let files = pool.files()?;
    let queue = Queue::default();
    let held = HeldPool::listen(pool.held(), &files, "spindle mount", &queue);
    let writing = Writing { live: Rc::clone(&pool.live), clock: Rc::new(CalendarClock) };
    let opened = pool.pools.wait(async move {
        Mounted::open_for_writing(writing, Rc::new(directory), dataset, how, tell).await
    });
    let failed = |error| Failure::failed(format!("mounting {name}: {error}"));
    let served = opened.map_err(failed).and_then(|mounted| {
        print(&format!(
            "spindle: {name} is mounted on {} for writing\n",
            mount.directory().display()
        ))?;
        let server = Server::with_notices(Rc::new(mounted), mount.stream(), mount.notices());
        let (live, mount) = (Rc::clone(&pool.live), Rc::clone(&mount));
        let serving = async move {
            let until = async {
                told.wait().await;
                mount.unmount_served().await
            };
            let mut serving = pin!(server.serve());
            let served = async {
                match select(&mut serving, pin!(until)).await {
                    Either::Left((served, _)) => served.map_err(Failure::failed),
                    Either::Right((Ok(()), _)) => serving.await.map_err(Failure::failed),
                    Either::Right((Err(error), _)) => Err(Failure::failed(error)),
                }
            };
            let over = Notify::default();
            let served = async {
                let served = served.await;
                over.notify_one();
                served
            };
            let synced = live.keep_synced(over.notified());
            match select(pin!(served), pin!(synced)).await {
                // A group under way is committed first: one that is given up in its midst is the pool's last.
                Either::Left((served, synced)) => {
                    let synced = synced.await.map_err(Failure::failed);
                    served.and(synced)
                }
                // The pool can't be written any more.
                Either::Right((synced, _)) => synced.map_err(Failure::failed),
            }
        };
        carry_out_until(context, serving, queue, &carry_out)?
    });
    drop(mount);
    held.end(context);
    let closed = pool.close(LabelState::Exported).map_err(Failure::from);
    served.and(closed)
}
