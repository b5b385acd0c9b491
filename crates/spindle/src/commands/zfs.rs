//! `spindle zfs`: datasets of ZFS pools, in OpenZFS's words and forms; and what is in them, read out.
//!
//! * [`set`]: `create`, `snapshot`, `set`, [`inherit`]: datasets made and changed.
//! * [`destroy`]: snapshots, file systems, volumes and bookmarks destroyed.
//! * [`rollback`], [`rename`], [`clone`] (with `promote`), [`holds`] (with `hold` and `release`), [`bookmark`].
//! * [`changed`]: what these have in common: a pool with all its datasets, and steps that are done in groups.
//! * `list`: datasets, one a line, with chosen properties.
//! * `get`: properties, one a line.
//! * [`userspace`]: what each user, group or project takes and may take; [`limit`]: the latter set;
//!   [`project`]: which project files are of.
//! * `ls`, `cat`, `stat`: files of a dataset or snapshot, looked at.
//! * `cp`: files copied out, with all that is known of them.
//! * `diff`: what differs between a snapshot and what came after it.
//! * `dump`: a volume's content, written out; `load`: one filled.
//! * [`volume`]: volumes made and given another size, and space that is kept free.
//! * [`mount`](mod@mount): file systems mounted and unmounted; [`moved`]: mounts that follow their mountpoint.
//! * `version`: the program's.
//! * [`select`]: which datasets a command is about, and in which order.
//! * [`shown`]: a property of a dataset, whatever kind of property it is.
//! * [`json`]: the shape of `-j`.
//! * [`source`]: how a command names files, and gets keys.
//! * [`pieces`]: a file's content: data, holes, damaged blocks.
//! * [`show`]: names, modes and times as text.
//!
//! All but those that change datasets, and `load`, open the pools on the devices for reading, do their one thing, and close them.

mod bookmark;
mod cat;
mod changed;
mod clone;
mod cp;
mod destroy;
mod diff;
mod dump;
pub mod get;
mod holds;
mod inherit;
pub mod json;
mod keys;
mod limit;
mod list;
mod load;
mod ls;
mod mount;
mod moved;
pub mod pieces;
mod project;
mod rename;
mod rollback;
mod select;
pub mod set;
pub mod show;
mod shown;
pub mod source;
mod stat;
pub mod taken;
mod userspace;
pub mod version;
mod volume;

use super::dry_run::DryRunArgs;
use super::elsewhere::with_what_it_is;
use super::held;
use crate::output::Failure;
use crate::pools::PoolArgs;
use ::zfs::dsl::account::Whose;
use ::zfs::spa::OpenOptions;
use attach::Events;
use attach::disks::Disks;
use attach::pools::{Asked, PoolPlace};
use clap::{Args, Subcommand};
use std::path::PathBuf;

// What `spindle zfs` takes.
#[derive(Args)]
pub struct ZfsArgs {
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    pools: PoolArgs,
    #[command(subcommand)]
    command: ZfsCommand,
}

#[derive(Subcommand)]
#[command(defer = true)]
enum ZfsCommand {
    /// Make a file system or volume, as zfs create does
    #[command(disable_version_flag = true)]
    Create(set::CreateArgs),
    /// Take snapshots, as zfs snapshot does
    #[command(alias = "snap")]
    Snapshot(set::SnapshotArgs),
    /// Set properties, as zfs set does
    Set(set::SetArgs),
    /// Take a property as the dataset above has it, as zfs inherit does
    Inherit(inherit::InheritArgs),
    /// Destroy snapshots, file systems, volumes or bookmarks, as zfs destroy does
    Destroy(destroy::DestroyArgs),
    /// Take a dataset back to a snapshot, as zfs rollback does
    Rollback(rollback::RollbackArgs),
    /// Give a dataset or snapshot another name, as zfs rename does
    Rename(rename::RenameArgs),
    /// Make a clone of a snapshot, as zfs clone does
    Clone(clone::CloneArgs),
    /// Let a clone take the place of what it began from, as zfs promote does
    Promote(clone::PromoteArgs),
    /// Keep snapshots from being destroyed, as zfs hold does
    Hold(holds::HoldArgs),
    /// List holds, as zfs holds does
    Holds(holds::HoldsArgs),
    /// Give holds up, as zfs release does
    Release(holds::HoldArgs),
    /// Bookmark a snapshot, as zfs bookmark does
    Bookmark(bookmark::BookmarkArgs),
    /// List datasets, as zfs list does
    List(list::ListArgs),
    /// Print properties, as zfs get does
    Get(get::GetArgs),
    /// Print what each user takes and may take, as zfs userspace does
    Userspace(userspace::UserspaceArgs),
    /// Print what each group takes and may take, as zfs groupspace does
    Groupspace(userspace::UserspaceArgs),
    /// Print what each project takes and may take, as zfs projectspace does
    Projectspace(userspace::UserspaceArgs),
    /// Show or set which project files are of, as zfs project does
    Project(project::ProjectArgs),
    /// List files of a dataset or snapshot
    Ls(ls::LsArgs),
    /// Write files of a dataset or snapshot to standard output
    Cat(cat::CatArgs),
    /// Show all that is known of a file
    Stat(stat::StatArgs),
    /// Copy files out, with all that is known of them; goes on where it was stopped
    Cp(cp::CpArgs),
    /// Show what differs between a snapshot and what came after it, as zfs diff does
    Diff(diff::DiffArgs),
    /// Write a volume's content to a file
    Dump(dump::DumpArgs),
    /// Fill a volume from a file or standard input
    Load(load::LoadArgs),
    /// Mount file systems where their properties say, as zfs mount does; without arguments, list what is mounted. Who holds the
    /// pool mounts; where nobody does, this command stays until Ctrl-C and does
    Mount(mount::MountArgs),
    /// Unmount file systems, as zfs unmount does
    #[command(alias = "umount")]
    Unmount(mount::UnmountArgs),
    /// Print the version
    Version(version::VersionArgs),
}

/// Carries out a command on the pools of these devices. One that comes to hold a pool carries out others meanwhile.
///
/// # Errors
/// With the line to print.
pub fn run(args: ZfsArgs, devices: &[PathBuf], carry_out: &dyn Fn(Asked)) -> Result<(), Failure> {
    let (options, goes) = (args.pools.options(), args.goes_to_holder());
    let carried_out = |place: &PoolPlace<'_>| {
        args.dry_run.run(args.not_tried(), || dispatch(args.command, place, carry_out))
    };
    held::run(devices, options, goes, carried_out).map_err(|failure| {
        // Looked for anew: whatever the command had open is closed.
        let absent = failure.absent.as_ref();
        match absent.and_then(|_| Disks::open(&Events::unheard(), devices).ok()) {
            Some(disks) => with_what_it_is(failure, &disks, devices),
            None => failure,
        }
        .with_openzfs_status()
    })
}

impl ZfsArgs {
    /// Whether the command can be carried out by who holds its pool.
    pub fn goes_to_holder(&self) -> bool {
        use ZfsCommand as C;
        matches!(
            self.command,
            C::Create(_)
                | C::Snapshot(_)
                | C::Set(_)
                | C::Inherit(_)
                | C::Destroy(_)
                | C::Rollback(_)
                | C::Rename(_)
                | C::Clone(_)
                | C::Promote(_)
                | C::Hold(_)
                | C::Release(_)
                | C::Bookmark(_)
                | C::Project(_)
                | C::Mount(_)
                | C::Unmount(_)
        )
    }

    /// What a command does besides changes of devices.
    fn not_tried(&self) -> Option<&'static str> {
        match &self.command {
            ZfsCommand::Mount(_) | ZfsCommand::Unmount(_) => Some("mounts are this host's"),
            ZfsCommand::Dump(_) => Some("it writes a file of this host"),
            ZfsCommand::Cp(args) if !args.is_inward() => Some("it writes files of this host"),
            _ => None,
        }
    }

    /// Carries the command out where its pool is held.
    ///
    /// # Errors
    /// With the line to print.
    pub fn run<'a>(self, place: impl FnOnce(OpenOptions) -> PoolPlace<'a>) -> Result<(), Failure> {
        self.dry_run.refuse(Some("its pool is held by another process"))?;
        let place = place(self.pools.options());
        // What is carried out for another holds nothing itself.
        dispatch(self.command, &place, &drop).map_err(Failure::with_openzfs_status)
    }
}

fn dispatch(
    command: ZfsCommand,
    place: &PoolPlace<'_>,
    carry_out: &dyn Fn(Asked),
) -> Result<(), Failure> {
    match command {
        ZfsCommand::Create(args) => set::create(&args, place),
        ZfsCommand::Snapshot(args) => set::snapshot(&args, place),
        ZfsCommand::Set(args) => set::set(&args, place),
        ZfsCommand::Inherit(args) => inherit::run(&args, place),
        ZfsCommand::Destroy(args) => destroy::run(&args, place),
        ZfsCommand::Rollback(args) => rollback::run(&args, place),
        ZfsCommand::Rename(args) => rename::run(&args, place),
        ZfsCommand::Clone(args) => clone::run(&args, place),
        ZfsCommand::Promote(args) => clone::promote(&args, place),
        ZfsCommand::Hold(args) => holds::hold(&args, place),
        ZfsCommand::Holds(args) => holds::list(&args, place),
        ZfsCommand::Release(args) => holds::release(&args, place),
        ZfsCommand::Bookmark(args) => bookmark::run(&args, place),
        ZfsCommand::List(args) => held::read(place, || list::run(&args, place)),
        ZfsCommand::Get(args) => held::read(place, || get::run(&args, place)),
        ZfsCommand::Userspace(args) => userspace::run(&args, Whose::User, place),
        ZfsCommand::Groupspace(args) => userspace::run(&args, Whose::Group, place),
        ZfsCommand::Projectspace(args) => userspace::run(&args, Whose::Project, place),
        ZfsCommand::Project(args) => project::run(&args, place),
        ZfsCommand::Ls(args) => ls::run(&args, place),
        ZfsCommand::Cat(args) => cat::run(&args, place),
        ZfsCommand::Stat(args) => stat::run(&args, place),
        ZfsCommand::Cp(args) => cp::run(&args, place),
        ZfsCommand::Diff(args) => diff::run(&args, place),
        ZfsCommand::Dump(args) => dump::run(&args, place),
        ZfsCommand::Load(args) => load::run(&args, place),
        ZfsCommand::Mount(args) => mount::mount(&args, place, carry_out),
        ZfsCommand::Unmount(args) => mount::unmount(&args, place),
        ZfsCommand::Version(args) => version::run(&args, "zfs version"),
    }
}
