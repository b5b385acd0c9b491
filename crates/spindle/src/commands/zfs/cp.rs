//! `spindle zfs cp`: files copied out of a pool, with all that is known of them; or [into one](inward).
//!
//! **Where to.** A directory goes to TARGET itself where nothing has that name yet, and below it, under its own name,
//! where TARGET is a directory: as `cp` does. The content of a directory (`DATASET:`, or a path that ends with `/`)
//! goes into TARGET. A directory that was begun bears a [mark](place) until it is whole, so that the same command
//! goes on with it.
//!
//! **Going on.** A file is written under a temporary name and renamed when it is whole, with all its attributes; so what
//! bears its own name with the same size and time is not copied again, and what was begun is continued where it was
//! last made durable ([`copy`]). A copy with zeros for what could not be read bears a mark beside it ([`lost`]), and is made
//! anew each time; a file of which nothing can be read is not made, and named in the end. What lies in a directory whose names can't be
//! read goes by numbers ([`nameless`]). Directories get their times when all in them is there.
//!
//! **Staying inside.** Nothing that a pool or the target holds leads out of TARGET
//! ([`host::directory`]): names with `/`, `.` and `..` are refused, symbolic links are never followed. Who may write the
//! target while root copies into it gains nothing by that: what was begun is gone on with only where nobody else can have put
//! it there, and attributes are set by descriptor.
//!
//! **Names of its own** (`.spindle-…`) are chosen so that the pool has none of them where they are used ([`place`]): a pool
//! may hold what an earlier copy left.
//!
//! **Going down** is `zfs`'s [`descent`](::zfs::zpl::descent): a directory that is its own ancestor, or stands under two
//! names, is told and left.
//!
//! **What gives rights** here (setuid, capabilities, device nodes) is copied by root, since a rescue is to be whole; of an image
//! that others made it need not be: `--no-setuid`, `--no-devices`.
//!
//! **Children** are datasets of their own: [`children`].
//!
//! A file of the target that is one of the pool's devices is never replaced, `--force` or not.
//!
//! **What goes wrong** with one file is told, and the others are copied; the exit status is 1. A full target ends the
//! command: it goes on when there is room.
//!
//! Sockets' names are copied, sockets are not. Birth times, flags and NFSv4 lists of access have no place in a Linux
//! file system; lists that say more than the mode are counted and told.

mod children;
mod copier;
mod copy;
mod inward;
mod lost;
mod nameless;
mod place;
mod tally;
mod tree;
mod walk;

use super::source::{Source, ViewArgs};
use crate::output::{Failure, say};
use ::host::Identity;
use attach::pools::PoolPlace;
use attach::pools::Session;
use children::Children;
use clap::Args;
use copier::Copier;
use inward::Inward;
use place::{Mark, Place};
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use tally::{Rules, Stop};

// What `cp` takes.
#[derive(Args)]
pub struct CpArgs {
    /// What to copy: of a pool, or files and directories of this host
    #[arg(required = true, value_name = "DATASET[@SNAPSHOT]:PATH|HOSTPATH")]
    sources: Vec<OsString>,
    /// Where to: a directory, or for one source the name that its copy gets; of this host, or of a pool
    #[arg(required = true, value_name = "TARGET|DATASET:PATH")]
    target: PathBuf,
    /// Directories too, with all that is in them
    #[arg(short = 'r', visible_short_aliases = ['R', 'a'], overrides_with = "recursive")]
    recursive: bool,
    /// With -r: datasets below the one that is copied, too, each into the directory that it covers; of a snapshot their
    /// snapshots of the same name
    #[arg(long, requires = "recursive")]
    children: bool,
    /// Print the name of each file that is copied
    #[arg(short = 'v', long)]
    verbose: bool,
    /// For cp's sake: times, owners, modes and attributes are always kept
    #[arg(short = 'p', hide = true)]
    _preserve: bool,
    /// Replace files that are there and differ
    #[arg(long)]
    force: bool,
    /// Leave device nodes out: of an image that others made
    #[arg(long)]
    no_devices: bool,
    /// Without setuid, setgid and file capabilities: of an image that others made
    #[arg(long)]
    no_setuid: bool,
    /// Copy the rest of a file that can't be read everywhere, with zeros for what is missing; one of which nothing can be read is not
    /// made. What lies in a directory that can't be read is copied as #NUMBER
    #[arg(long)]
    skip_damaged: bool,
    /// Into a pool: though it was not exported, and another host may have it in use
    #[arg(long)]
    force_import: bool,
    #[command(flatten)]
    view: ViewArgs,
}

impl CpArgs {
    /// Whether it copies into a pool.
    pub fn is_inward(&self) -> bool {
        inward::is_inward(&self.sources, self.target.as_os_str())
    }
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CpArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let CpArgs { force, skip_damaged, verbose, children, no_devices, no_setuid, .. } = *args;
    let rules = Rules { force, skip_damaged, verbose, children, no_devices, no_setuid };
    let (sources, target) = (&args.sources[..], args.target.as_os_str());
    if args.is_inward() {
        if skip_damaged || args.view.replays() {
            return Err(Failure::usage("--skip-damaged and --replay-view are for copies out"));
        }
        let (recursive, in_use) = (args.recursive, args.force_import);
        return inward::run(&Inward { sources, target, recursive, rules, in_use }, place);
    }
    let session = Session::open(place, &args.view.view())?;
    let many = args.sources.len() > 1;
    let devices = session.pools.disks().identities();
    let devices = devices.into_iter().map(Identity::numbers).collect();
    let copier = Rc::new(Copier::new(&session.rt(), rules, devices));
    if !::host::directory::is_root() {
        say("note: owners and devices are not kept: only root can give files away");
    }
    for argument in &args.sources {
        let source = Rc::new(Source::find(&session, argument)?);
        let node = source.node(&session, source.content)?;
        if node.is_directory() && !args.recursive {
            let failure = source.failed(&source.path, "it is a directory: -r copies those");
            copier.tally.complain(&failure.message);
            continue;
        }
        let mark = node.is_directory().then(|| Mark::of(&session, &source, &node));
        let place = Place::of(&args.target, &source, mark, many)?;
        let (copier, its) = (Rc::clone(&copier), Rc::clone(&source));
        copier.begin(&its, &node);
        let children = match node.is_directory() {
            true => Children::of(&session, &source, &copier),
            false => Children::default(),
        };
        let (done, copier) = session.wait(async move {
            let done = copier.copy(&its, node, place, &children).await;
            (done, copier)
        });
        if done.is_err() {
            copier.tally.say_nothing();
        }
        match done {
            Ok(()) => {}
            Err(Stop::Full(text) | Stop::Ended(text)) => return Err(Failure::failed(text)),
            Err(Stop::Interrupted) => return Err(Failure::said()),
        }
    }
    copier.end()
}
