//! `spindle zpool`: ZFS pools, in OpenZFS's words and forms.
//!
//! * `create`, `add`, with [`vdevs`] as words give them ([`draid`]); [`end`]: `export`, `destroy`: a pool is made; closed, given up.
//! * [`checkpoint`]: all of a pool kept, to go back to.
//! * `import`: what could be imported; a pool taken.
//! * `list`, `status`, `iostat`, `get`, `history`: a pool's size, devices, what they do, properties, past.
//! * [`events`]: what happened to a pool that is held.
//! * [`online`]: a vdev takes in what its devices have grown by.
//! * [`set`]: `set`, `sync`, `reguid`; `upgrade`, with the [`features`] that are written: a pool changed as a whole.
//! * [`clear`]: a pool that is suspended goes on.
//! * [`label_clear`]: a device that is to be no part of a pool.
//! * `scrub`: every copy of every block, checked; `debug`: what lies on the devices; `version`.
//! * [`opened`]: a pool with all that these show.
//! * [`tree`]: names of vdevs, and how they are grouped.
//! * [`repeated`]: reports that are made again and again.
//! * [`reason`]: what is the matter with a pool, and what to do.
//!
//! All others open the pools on the devices for reading, do their one thing, and close them.

mod add;
mod checkpoint;
mod clear;
pub mod create;
mod debug;
mod draid;
mod end;
mod events;
mod features;
mod get;
mod history;
mod import;
mod iostat;
mod label_clear;
mod lacking;
mod list;
mod online;
mod opened;
mod reason;
mod repeated;
mod scrub;
mod set;
mod status;
mod tree;
mod upgrade;
mod vdevs;

pub use import::{Standing, standing};

use self::repeated::Wanted;
use super::dry_run::DryRunArgs;
use super::held;
use crate::commands::zfs::version::{self, VersionArgs};
use crate::output::Failure;
use crate::pools::PoolArgs;
use ::zfs::spa::OpenOptions;
use attach::pools::PoolPlace;
use clap::{Args, Subcommand};
use std::path::PathBuf;

// What `spindle zpool` takes.
#[derive(Args)]
pub struct ZpoolArgs {
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    pools: PoolArgs,
    #[command(subcommand)]
    command: ZpoolCommand,
}

#[derive(Subcommand)]
#[command(defer = true)]
enum ZpoolCommand {
    /// Make a pool of devices, as zpool create does
    Create(create::CreateArgs),
    /// Put vdevs, spares and cache devices into a pool, as zpool add does
    Add(add::AddArgs),
    /// Keep all of a pool as it is, or let that go, as zpool checkpoint does
    Checkpoint(checkpoint::CheckpointArgs),
    /// Close a pool that was left open, so that another host may open it
    Export(end::ExportArgs),
    /// Destroy a pool: its devices are free
    Destroy(end::DestroyArgs),
    /// Forget the errors of devices, and resume a pool that is suspended, as zpool clear does
    Clear(clear::ClearArgs),
    /// Take in what devices have grown by, as zpool online -e does
    Online(online::OnlineArgs),
    /// Set a property of a pool, as zpool set does
    Set(set::SetArgs),
    /// Enable features of pools, or list those that they lack, as zpool upgrade does
    #[command(disable_version_flag = true)]
    Upgrade(upgrade::UpgradeArgs),
    /// Clear the labels of a device, so that it is no part of a pool
    #[command(name = "labelclear")]
    LabelClear(label_clear::LabelClearArgs),
    /// Have all that was changed written, as zpool sync does
    Sync(set::SyncArgs),
    /// Give a pool another GUID, as zpool reguid does
    Reguid(set::ReguidArgs),
    /// List pools that can be imported, or import one, as zpool import does
    Import(import::ImportArgs),
    /// List pools with their sizes, as zpool list does
    List(list::ListArgs),
    /// Print how pools and their devices are, as zpool status does
    Status(status::StatusArgs),
    /// Print what pools and their devices do, as zpool iostat does
    Iostat(iostat::IostatArgs),
    /// Print what happened to pools since they are held, as zpool events does
    Events(events::EventsArgs),
    /// Print properties of pools, as zpool get does
    Get(get::GetArgs),
    /// Print what was done to pools, as zpool history does
    History(history::HistoryArgs),
    /// Read and check every copy of every block of a pool
    Scrub(scrub::ScrubArgs),
    /// Print what lies on the devices, as zdb does
    #[command(subcommand)]
    Debug(debug::DebugCommand),
    /// Print the version
    Version(VersionArgs),
}

/// Carries out a command on the pools of these devices.
///
/// # Errors
/// With the line to print.
pub fn run(args: ZpoolArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let (options, goes) = (args.pools.options(), args.goes_to_holder());
    let carried_out =
        |place: &PoolPlace<'_>| args.dry_run.run(None, || dispatch(args.command, place));
    let done = held::run(devices, options, goes, carried_out);
    done.map_err(Failure::with_openzfs_status)
}

impl ZpoolArgs {
    /// Whether the command can be carried out by who holds its pool.
    pub fn goes_to_holder(&self) -> bool {
        use ZpoolCommand as C;
        matches!(
            self.command,
            C::Add(_)
                | C::Checkpoint(_)
                | C::Online(_)
                | C::Set(_)
                | C::Sync(_)
                | C::Upgrade(_)
                | C::Reguid(_)
        )
    }

    /// Carries the command out where its pool is held.
    ///
    /// # Errors
    /// With the line to print.
    pub fn run<'a>(self, place: impl FnOnce(OpenOptions) -> PoolPlace<'a>) -> Result<(), Failure> {
        self.dry_run.refuse(Some("its pool is held by another process"))?;
        let place = place(self.pools.options());
        dispatch(self.command, &place).map_err(Failure::with_openzfs_status)
    }
}

fn dispatch(command: ZpoolCommand, place: &PoolPlace<'_>) -> Result<(), Failure> {
    match command {
        ZpoolCommand::Create(args) => create::run(&args, place),
        ZpoolCommand::Add(args) => add::run(&args, place),
        ZpoolCommand::Checkpoint(args) => checkpoint::run(&args, place),
        ZpoolCommand::Export(args) => end::export(&args, place),
        ZpoolCommand::Destroy(args) => end::destroy(&args, place),
        ZpoolCommand::Clear(args) => clear::run(&args, place),
        ZpoolCommand::Online(args) => online::run(&args, place),
        ZpoolCommand::Set(args) => set::set(&args, place),
        ZpoolCommand::Upgrade(args) => upgrade::run(&args, place),
        ZpoolCommand::LabelClear(args) => label_clear::run(&args, place),
        ZpoolCommand::Sync(args) => set::sync(&args, place),
        ZpoolCommand::Reguid(args) => set::reguid(&args, place),
        ZpoolCommand::Import(args) => import::run(&args, place),
        ZpoolCommand::List(mut args) => {
            let wanted = Wanted::take(&mut args.names)?;
            wanted.each(|is_first| {
                args.without_head = !is_first && !args.verbose;
                held::read(place, || list::run(&args, place))
            })
        }
        ZpoolCommand::Status(mut args) => {
            let wanted = Wanted::take(&mut args.names)?;
            wanted.each(|_| held::read(place, || status::run(&args, place)))
        }
        ZpoolCommand::Iostat(args) => iostat::run(&args, place),
        ZpoolCommand::Events(args) => events::run(&args, place),
        ZpoolCommand::Get(args) => held::read(place, || get::run(&args, place)),
        ZpoolCommand::History(args) => history::run(&args, place),
        ZpoolCommand::Scrub(args) => scrub::run(&args, place),
        ZpoolCommand::Debug(command) => debug::run(command, place),
        ZpoolCommand::Version(args) => version::run(&args, "zpool version"),
    }
}
