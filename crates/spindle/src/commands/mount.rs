//! `spindle mount`: a dataset or snapshot as a directory of this host, for reading, through FUSE.
//!
//! Children are mounted below it, snapshots are in `.zfs/snapshot`. The command stays until it is told to stop (Ctrl-C,
//! SIGTERM) or the directory is unmounted from outside (`umount DIR`). Who still has files open there when it
//! stops gets errors; the pool is only read, so nothing is lost.

use super::zfs::source::{Session, ViewArgs};
use crate::commands::{Failure, print};
use crate::serve::Told;
use ::zfs::zpl::mounted::{MountOptions, Mounted};
use clap::{Args, ValueEnum};
use export::fuse::Server;
use futures_util::future::{Either, select};
use host::FuseMount;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

/// What to mount, and where.
#[derive(Args)]
pub struct MountArgs {
    /// The file system or snapshot
    #[arg(value_name = "DATASET[@SNAPSHOT]")]
    dataset: String,
    /// The directory to mount it on
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Whether .zfs is listed. It is found by its name either way
    #[arg(long, value_enum, default_value_t = SnapshotDirectory::Hidden)]
    snapdir: SnapshotDirectory,
    #[command(flatten)]
    view: ViewArgs,
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
pub fn run(args: &MountArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let session = Session::open(paths, &args.view)?;
    let of = session.dataset(&args.dataset)?;
    let name = of.name().to_owned();
    // Says what to do with a volume.
    session.files(&of)?;
    let (spa, directory, dataset) = (Rc::clone(&of.spa), Rc::clone(&of.directory), of.dataset);
    let how = MountOptions {
        shows_control: args.snapdir == SnapshotDirectory::Visible,
        with_log: session.replays(),
    };
    let opened = session.wait(async move { Mounted::open(&spa, directory, dataset, how).await });
    let failed = |error| Failure::failed(format!("mounting {name}: {error}"));
    let mounted = opened.map_err(failed)?;
    let runtime = session.pools.disks().runtime();
    let told = Told::by_signals()?;
    let mount = FuseMount::new(&runtime.host(), &args.directory, &name).map_err(Failure::failed)?;
    print(&format!("spindle: {name} is mounted on {}\n", mount.directory().display()))?;
    let server = Server::new(Rc::new(mounted), mount.stream());
    let served = session.wait(async move {
        match select(pin!(server.serve()), pin!(told.wait())).await {
            Either::Left((served, _)) => served.map_err(Failure::failed),
            Either::Right(_) => Ok(()),
        }
    });
    served.and(mount.unmount().map_err(Failure::failed))
}
