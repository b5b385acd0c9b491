//! `spindle zfs cp`: files copied out of a pool, with all that is known of them.
//!
//! **Where to.** A directory goes to TARGET itself where nothing has that name yet, and below it, under its own name,
//! where TARGET is a directory: as `cp` does. The content of a directory (`DATASET:`, or a path that ends with `/`)
//! goes into TARGET. A directory that was begun bears a mark ([`MARK`]) until it is whole, so that the same command
//! goes on with it.
//!
//! **Going on.** A file is written under a temporary name and renamed when it is whole, with all its attributes; so what
//! bears its own name with the same size and time is not copied again, and what was begun is continued where it was
//! last made durable ([`copy`]). A copy with zeros for what could not be read bears a mark beside it ([`lost`]), and is made
//! anew each time. Directories get their times when all in them is there.
//!
//! **Staying inside.** Nothing that a pool or the target holds leads out of TARGET
//! ([`host::directory`]): names with `/`, `.` and `..` are refused, symbolic links are never followed.
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
mod lost;
mod tree;

use super::source::{Session, Source, ViewArgs};
use crate::commands::{Failure, say};
use crate::pools::PoolPlace;
use ::host::directory::{self, Directory, EntryKind};
use children::Children;
use clap::Args;
use copier::{Copier, Stop};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::ByteCount;

/// The name of the mark in a directory that was begun. Its content is what is being copied.
const MARK: &[u8] = b".spindle-unfinished";
/// Bytes of a mark that are read.
const MARK_BYTES_MAX: u64 = 8192;

/// What `cp` takes.
#[derive(Args)]
pub struct CpArgs {
    /// What to copy
    #[arg(required = true, value_name = "DATASET[@SNAPSHOT]:PATH")]
    sources: Vec<OsString>,
    /// Where to: a directory, or for one source the name that its copy gets
    #[arg(required = true, value_name = "TARGET")]
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
    /// Copy the rest of a file that can't be read everywhere, with zeros for what is missing
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// How a command is carried out.
#[derive(Clone, Copy)]
struct Rules {
    force: bool,
    skip_damaged: bool,
    verbose: bool,
    children: bool,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CpArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let session = Session::open(place, &args.view)?;
    let CpArgs { force, skip_damaged, verbose, children, .. } = *args;
    let rules = Rules { force, skip_damaged, verbose, children };
    let many = args.sources.len() > 1;
    let copier = Rc::new(Copier::new(&session.rt(), rules, session.pools.disks().identities()));
    if !directory::is_root() {
        say("note: owners and devices are not kept: only root can give files away");
    }
    for argument in &args.sources {
        let source = Rc::new(session.source(argument)?);
        let node = session.node(&source, source.content)?;
        if node.is_directory() && !args.recursive {
            let failure = source.failed(&source.path, "it is a directory: -r copies those");
            copier.complain(&failure.message);
            continue;
        }
        let place = Place::of(&args.target, &source, node.is_directory(), many)?;
        let (copier, its) = (Rc::clone(&copier), Rc::clone(&source));
        copier.begin(&its, &node);
        let children = match node.is_directory() {
            true => Children::of(&session, &source, &copier),
            false => Children::default(),
        };
        let done = session.wait(async move { copier.copy(&its, node, place, &children).await });
        match done {
            Ok(()) => {}
            Err(Stop::Full(text)) => return Err(Failure::failed(text)),
        }
    }
    copier.end()
}

/// Where one source goes to.
enum Place {
    /// Under this name in a directory.
    Named { directory: Directory, name: Vec<u8>, begins: bool },
    /// Into this directory.
    Into(Directory),
}

impl Place {
    /// Finds the place; makes TARGET where it is a directory that others go into.
    fn of(
        target: &Path,
        source: &Source,
        is_directory: bool,
        many: bool,
    ) -> Result<Place, Failure> {
        let shown = &target.display().to_string();
        let failed = |doing: &'static str| {
            move |error: std::io::Error| Failure::usage(format!("{doing} {shown}: {error}"))
        };
        let own_name = source.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let is_there = target.exists();
        let goes_into = is_directory && source.content;
        if !is_there && std::fs::symlink_metadata(target).is_ok() {
            return Err(Failure::usage(format!(
                "{shown} is a symbolic link to nothing: name another target"
            )));
        }
        if goes_into || many || target.is_dir() || target.as_os_str().as_bytes().ends_with(b"/") {
            if !is_there {
                std::fs::create_dir(target).map_err(failed("making"))?;
            }
            let directory = Directory::open(target).map_err(failed("opening"))?;
            let begun = is_directory && mark_of(&directory) == Some(mark(source));
            if goes_into || begun && !many {
                return Ok(Place::Into(directory));
            }
            if !directory::plain(&own_name) {
                let text = "a path that ends with a name is needed here";
                return Err(source.failed(&source.path, text));
            }
            return Ok(Place::Named { directory, name: own_name, begins: false });
        }
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = target.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        if !directory::plain(&name) {
            return Err(Failure::usage(format!("{shown} is no name for a copy")));
        }
        let directory = Directory::open(parent).map_err(failed("opening the folder of"))?;
        Ok(Place::Named { directory, name, begins: is_directory })
    }
}

/// What the mark of a directory that is a copy of this says.
fn mark(source: &Source) -> Vec<u8> {
    let dataset = source.of.name().as_bytes();
    [dataset, b":/", &source.path, b"\n"].concat()
}

fn mark_of(directory: &Directory) -> Option<Vec<u8>> {
    use std::io::Read;
    let is_file = directory.look(MARK).ok()??.kind == EntryKind::File;
    let mut bytes = Vec::new();
    directory
        .reopen(MARK)
        .ok()
        .filter(|_| is_file)?
        .take(MARK_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// A number of files, in words.
fn files(count: u64) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

/// Bytes, in words.
fn bytes(count: u64) -> String {
    ByteCount(count).to_string()
}
