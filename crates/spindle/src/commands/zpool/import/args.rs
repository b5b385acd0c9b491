//! What `zpool import` takes.

use clap::Args;
use std::path::PathBuf;

// See the [module](self).
#[derive(Args)]
pub struct ImportArgs {
    /// Where disks lie, as before the command; may be given several times
    #[arg(short = 'd', value_name = "DIR|FILE")]
    pub devices: Vec<PathBuf>,
    /// readonly=on, or a property of the pool that is set; options of mounts have no meaning here
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    pub options: Vec<String>,
    /// Mount nothing, which holds without it too
    #[arg(short = 'N')]
    pub no_mounts: bool,
    /// Also a pool that another host had last, or that was destroyed
    #[arg(short = 'f')]
    pub force: bool,
    /// Take the pool back where its newest transaction group can't be opened: up to two groups are lost
    #[arg(short = 'F')]
    pub rewind: bool,
    /// With -F: take it back to any group that is left
    #[arg(short = 'X')]
    pub far: bool,
    /// With -F: say what would be lost, and change nothing
    #[arg(short = 'n')]
    pub dry_run: bool,
    /// The other name is temporary: until the export, with which this ends
    #[arg(short = 't')]
    pub temporary: bool,
    /// Also a pool whose log device is missing: what only that has, the last synchronous writes, is given up
    #[arg(short = 'm')]
    pub without_log: bool,
    /// Also a pool of which not all that was written can be read any more: it is taken as it is, and what was there before that, which
    /// `spindle zfs -T` may still show, is overwritten by what is written from then on. With -F: back no further than without
    #[arg(long)]
    pub accept_loss: bool,
    /// What mountpoints are below until the export, with which this ends: `spindle zfs mount --altroot` has the pool below one for long
    #[arg(short = 'R', value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Destroyed pools alone; with -f they are imported
    #[arg(short = 'D')]
    pub destroyed: bool,
    /// All pools
    #[arg(short = 'a')]
    pub all: bool,
    /// A pool, by its name or GUID; without one, pools are listed
    pub pool: Option<String>,
    /// Another name for it, which it has from then on
    pub new_name: Option<String>,
}
