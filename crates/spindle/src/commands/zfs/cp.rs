//! `spindle zfs cp`: files copied out of a pool, with all that is known of them.
//!
//! **Where to.** A directory goes to TARGET itself where nothing has that name yet, and below it, under its own name,
//! where TARGET is a directory: as `cp` does. The content of a directory (`DATASET:`, or a path that ends with `/`)
//! goes into TARGET. A directory that was begun bears a [`Mark`] until it is whole, so that the same command
//! goes on with it.
//!
//! **Going on.** A file is written under a temporary name and renamed when it is whole, with all its attributes; so what
//! bears its own name with the same size and time is not copied again, and what was begun is continued where it was
//! last made durable ([`copy`]). A copy with zeros for what could not be read bears a mark beside it ([`lost`]), and is made
//! anew each time. Directories get their times when all in them is there.
//!
//! **Staying inside.** Nothing that a pool or the target holds leads out of TARGET
//! ([`host::directory`]): names with `/`, `.` and `..` are refused, symbolic links are never followed. Who may write the
//! target while root copies into it gains nothing by that: what was begun is gone on with only where nobody else can have put
//! it there, and attributes are set by descriptor.
//!
//! **Names of its own** (`.spindle-…`) are chosen so that the pool has none of them where they are used ([`OwnNames`]): a pool
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
mod lost;
mod tree;

use super::source::{Source, ViewArgs};
use crate::commands::{Failure, say};
use ::host::Identity;
use ::host::directory::{self, Directory};
use ::zfs::zpl::{Name, Node};
use attach::pools::PoolPlace;
use attach::pools::Session;
use children::Children;
use clap::Args;
use copier::{Copier, Stop};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::ByteCount;

/// What this command's own names in a target begin with.
const OWN: &[u8] = b".spindle-";
/// The name of the mark in a directory that was begun.
const MARK: &str = ".spindle-unfinished";
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
    /// Leave device nodes out: of an image that others made
    #[arg(long)]
    no_devices: bool,
    /// Without setuid, setgid and file capabilities: of an image that others made
    #[arg(long)]
    no_setuid: bool,
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
    no_devices: bool,
    no_setuid: bool,
}

/// Names in a directory of a pool that look like this command's own.
#[derive(Default)]
struct OwnNames(BTreeSet<Vec<u8>>);

impl OwnNames {
    fn of(names: &[Name]) -> OwnNames {
        let own = names.iter().filter(|name| name.name.starts_with(OWN));
        OwnNames(own.map(|name| name.name.clone()).collect())
    }

    /// The first of `stem`, `stem-1`, … with which no name begins.
    fn free(&self, stem: &str) -> String {
        let is_free = |stem: &String| {
            let next = self.0.range(stem.as_bytes().to_vec()..).next();
            next.is_none_or(|name| !name.starts_with(stem.as_bytes()))
        };
        let numbered = (1..).map(|n: u64| format!("{stem}-{n}"));
        // A name begins with as many of them as a number has digits, and two.
        let mut all =
            std::iter::once(stem.to_owned()).chain(numbered).take(32 * (self.0.len() + 1));
        all.find(is_free).expect("there are more than all names can begin with")
    }
}

/// What says of a directory that it is a copy that was begun, and of what.
struct Mark {
    /// The name of a file in it.
    name: Vec<u8>,
    /// What the file holds.
    text: Vec<u8>,
}

impl Mark {
    /// The mark of what is copied from a directory.
    fn of(session: &Session, source: &Source, node: &Node) -> Mark {
        let (files, its) = (source.files.clone(), node.clone());
        // Where they can't be had nothing is copied, and it is told then.
        let names = session.wait(async move { files.names(&its).await }).unwrap_or_default();
        let dataset = source.of.name().as_bytes();
        Mark {
            name: OwnNames::of(&names).free(MARK).into_bytes(),
            text: [dataset, b":/", &source.path, b"\n"].concat(),
        }
    }

    /// Whether a directory bears it.
    fn is_in(&self, directory: &Directory) -> bool {
        matches!(directory.read(&self.name, MARK_BYTES_MAX), Ok(Some(text)) if text == self.text)
    }
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &CpArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let session = Session::open(place, &args.view.view())?;
    let CpArgs { force, skip_damaged, verbose, children, no_devices, no_setuid, .. } = *args;
    let rules = Rules { force, skip_damaged, verbose, children, no_devices, no_setuid };
    let many = args.sources.len() > 1;
    let devices = session.pools.disks().identities();
    let devices = devices.into_iter().map(Identity::numbers).collect();
    let copier = Rc::new(Copier::new(&session.rt(), rules, devices));
    if !directory::is_root() {
        say("note: owners and devices are not kept: only root can give files away");
    }
    for argument in &args.sources {
        let source = Rc::new(Source::find(&session, argument)?);
        let node = source.node(&session, source.content)?;
        if node.is_directory() && !args.recursive {
            let failure = source.failed(&source.path, "it is a directory: -r copies those");
            copier.complain(&failure.message);
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
    Named { directory: Directory, name: Vec<u8>, begins: Option<Mark> },
    /// Into this directory; the name of its mark where it was begun.
    Into { directory: Directory, mark: Option<Vec<u8>> },
}

impl Place {
    /// Finds the place; makes TARGET where it is a directory that others go into.
    fn of(
        target: &Path,
        source: &Source,
        mark: Option<Mark>,
        many: bool,
    ) -> Result<Place, Failure> {
        let shown = &target.display().to_string();
        let failed = |doing: &'static str| {
            move |error: std::io::Error| Failure::usage(format!("{doing} {shown}: {error}"))
        };
        let own_name = source.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let is_there = target.exists();
        let goes_into = mark.is_some() && source.content;
        if !is_there && std::fs::symlink_metadata(target).is_ok() {
            return Err(Failure::usage(format!(
                "{shown} is a symbolic link to nothing: name another target"
            )));
        }
        if goes_into || many || target.is_dir() || target.as_os_str().as_bytes().ends_with(b"/") {
            let directory = match is_there {
                true => Directory::open(target).map_err(failed("opening"))?,
                false => made(target).map_err(failed("making"))?,
            };
            let begun = mark.filter(|mark| mark.is_in(&directory));
            if goes_into || begun.is_some() && !many {
                return Ok(Place::Into { directory, mark: begun.map(|mark| mark.name) });
            }
            if !directory::plain(&own_name) {
                let text = "a path that ends with a name is needed here";
                return Err(source.failed(&source.path, text));
            }
            return Ok(Place::Named { directory, name: own_name, begins: None });
        }
        let parent = folder_of(target);
        let name = target.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        if !directory::plain(&name) {
            return Err(Failure::usage(format!("{shown} is no name for a copy")));
        }
        let directory = Directory::open(parent).map_err(failed("opening the folder of"))?;
        Ok(Place::Named { directory, name, begins: mark })
    }
}

/// The directory that a target lies in.
fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the directory that others go into. What is opened is what was made, and no link that took its name.
fn made(target: &Path) -> std::io::Result<Directory> {
    let name = target.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let folder = Directory::open(folder_of(target))?;
    folder.make_usual(name)?;
    folder.enter(name)
}

/// A number of files, in words.
fn files(count: u64) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

/// Bytes, in words.
fn bytes(count: u64) -> String {
    ByteCount(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a pool's own file has the name that this command uses, and is taken for its own or not copied.
    #[test]
    fn a_name_of_ones_own_is_none_that_the_pool_has() {
        let names =
            |all: &[&str]| OwnNames(all.iter().map(|name| name.as_bytes().to_vec()).collect());
        assert_eq!(names(&[]).free(MARK), ".spindle-unfinished");
        assert_eq!(names(&[".spindle-unfinished"]).free(MARK), ".spindle-unfinished-1");
        assert_eq!(names(&[".spindle-unfinished-1"]).free(MARK), ".spindle-unfinished-2");
        let stem = ".spindle-7-00aa";
        assert_eq!(
            names(&[".spindle-7-00aa.part", ".spindle-7-00aa-1.damaged"]).free(stem),
            ".spindle-7-00aa-2"
        );
        assert_eq!(names(&[".spindle-7-00ab.part"]).free(stem), stem);
    }
}
