//! Where a copy goes to, and the names that are this command's own there.

use super::super::source::Source;
use crate::output::Failure;
use ::host::directory::{self, Directory};
use ::zfs::zpl::{Name, Node};
use attach::pools::Session;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What this command's own names in a target begin with.
pub(super) const OWN: &[u8] = b".spindle-";
/// The name of the mark in a directory that was begun.
pub(super) const MARK: &str = ".spindle-unfinished";
/// Bytes of a mark that are read.
pub(super) const MARK_BYTES_MAX: u64 = 8192;

/// Names in a directory of a pool that look like this command's own.
#[derive(Default)]
pub(super) struct OwnNames(BTreeSet<Vec<u8>>);

impl OwnNames {
    pub(super) fn of(names: &[Name]) -> OwnNames {
        let own = names.iter().filter(|name| name.name.starts_with(OWN));
        OwnNames(own.map(|name| name.name.clone()).collect())
    }

    pub(super) fn of_names(names: impl IntoIterator<Item = Vec<u8>>) -> OwnNames {
        OwnNames(names.into_iter().filter(|name| name.starts_with(OWN)).collect())
    }

    /// The first of `stem`, `stem-1`, … with which no name begins.
    pub(super) fn free(&self, stem: &str) -> String {
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
pub(super) struct Mark {
    /// The name of a file in it.
    pub(super) name: Vec<u8>,
    /// What the file holds.
    pub(super) text: Vec<u8>,
}

impl Mark {
    /// The mark of what is copied from a directory.
    pub(super) fn of(session: &Session, source: &Source, node: &Node) -> Mark {
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
    pub(super) fn is_in(&self, directory: &Directory) -> bool {
        matches!(directory.read(&self.name, MARK_BYTES_MAX), Ok(Some(text)) if text == self.text)
    }
}

/// Where one source goes to.
pub(super) enum Place {
    /// Under this name in a directory.
    Named { directory: Directory, name: Vec<u8>, begins: Option<Mark> },
    /// Into this directory; the name of its mark where it was begun.
    Into { directory: Directory, mark: Option<Vec<u8>> },
}

impl Place {
    /// Finds the place; makes TARGET where it is a directory that others go into.
    pub(super) fn of(
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
pub(super) fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the directory that others go into. What is opened is what was made, and no link that took its name.
pub(super) fn made(target: &Path) -> std::io::Result<Directory> {
    let name = target.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
    let folder = Directory::open(folder_of(target))?;
    folder.make_usual(name)?;
    folder.enter(name)
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
