//! `spindle mount`: a dataset or snapshot as a directory of this host, for reading, through FUSE.
//!
//! Children are mounted below it, snapshots are in `.zfs/snapshot`. The command stays until it is told to stop (Ctrl-C,
//! SIGTERM) or the directory is unmounted from outside (`umount DIR`). Who still has files open there when it
//! stops gets errors; the pool is only read, so nothing is lost.

use super::zfs::source::ViewArgs;
use crate::events::events;
use crate::output::{Failure, print, say};
use crate::pools::PoolArgs;
use crate::signals::told_by_signals;
use ::zfs::mounted::{MountOptions, Mounted, Notice};
use attach::error::log_is_cut;
use attach::pools::PoolPlace;
use attach::pools::Session;
use clap::{Args, ValueEnum};
use export::fuse::Server;
use futures_util::future::{Either, select};
use host::{FuseMount, MountError};
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
    /// Options, as mount(8) has them: ro, nosuid and nodev, which hold without them too
    #[arg(short = 'o', value_name = "OPTION,...", value_delimiter = ',')]
    options: Vec<MountOption>,
    /// Whether .zfs is listed. It is found by its name either way
    #[arg(long, value_enum, default_value_t = SnapshotDirectory::Hidden)]
    snapdir: SnapshotDirectory,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    pools: PoolArgs,
}

/// What every mount is.
#[derive(Clone, Copy, ValueEnum)]
enum MountOption {
    Ro,
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
    // What they ask for every mount is.
    let _ = &args.options;
    let session = {
        let place = PoolPlace { devices, options: args.pools.options(), events: events() };
        Session::open(&place, &args.view.view())?
    };
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
