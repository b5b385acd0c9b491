//! Children of a dataset: file systems of their own, whose directories in it are empty.
//!
//! A child is met where its name says, below the root of the dataset, as in a mount; its mountpoint is not looked at.
//! With `--children` its root is copied in place of the directory that it covers; of a snapshot it is the child's snapshot of
//! the same name. What is not copied is named: children without `--children`, children without that snapshot, and
//! volumes. A child that can't be opened (its key is missing) is a failure of its own, and the others are copied.

use super::super::source::Source;
use super::copier::Copier;
use crate::output::say;
use crate::printable;
use ::zfs::ZfsError;
use ::zfs::zpl::Node;
use attach::pools::Session;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zfs_format::objset::ObjsetKind;

/// Names that one note has.
const NAMES_MAX: usize = 16;

/// A child that is copied.
pub(super) struct Child {
    pub(super) source: Source,
    pub(super) root: Node,
}

/// The children that are copied, by their paths from the root of the dataset that was named.
#[derive(Default)]
pub(super) struct Children {
    all: BTreeMap<Vec<u8>, Child>,
    /// Those that were met.
    met: RefCell<BTreeSet<Vec<u8>>>,
}

/// A dataset below another.
struct Below {
    /// Its path from there.
    path: String,
    /// Its name, with the snapshot's.
    name: String,
    is_volume: bool,
    is_there: bool,
}

impl Children {
    /// The children at and below a directory that is copied, as far as they are to be copied too.
    pub(super) fn of(session: &Session, source: &Source, copier: &Rc<Copier>) -> Children {
        let mut children = Children::default();
        let below = match below(session, source) {
            Ok(below) => below,
            Err(error) => {
                copier
                    .tally
                    .complain(&source.about(&source.path, format!("its children: {error}")));
                return children;
            }
        };
        let within = [&source.path[..], b"/"].concat();
        let mut apart: Vec<&Below> = Vec::new();
        let mut volumes: Vec<&Below> = Vec::new();
        for one in &below {
            let path = one.path.as_bytes();
            if !source.path.is_empty() && path == source.path {
                let shown = printable::bytes(path);
                let (of, name) = (source.of.name(), &one.name);
                say(&format!(
                    "note: {of}:/{shown} is where {name} belongs: {name}: names its files"
                ));
            }
            if !source.path.is_empty() && !path.starts_with(&within) {
                continue;
            }
            if one.is_volume {
                volumes.push(one);
            } else if !copier.rules.children {
                let is_within = |of: &&Below| one.path.starts_with(&format!("{}/", of.path));
                if !apart.iter().any(is_within) {
                    apart.push(one);
                }
            } else if !one.is_there {
                say(&format!("note: there is no {}: it is not copied", one.name));
            } else if let Some(child) = open(session, one, copier) {
                children.all.insert(path.to_vec(), child);
            }
        }
        let names = |of: &[&Below]| {
            let shown: Vec<&str> = of.iter().take(NAMES_MAX).map(|one| &*one.path).collect();
            let more = of.len().saturating_sub(NAMES_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            shown.join(", ") + &more
        };
        match apart.len() {
            0 => {}
            1 => say(&format!(
                "note: {} is a dataset of its own and is not copied: add --children",
                names(&apart)
            )),
            _ => say(&format!(
                "note: {} are datasets of their own and are not copied: add --children",
                names(&apart)
            )),
        }
        if let Some(first) = volumes.first() {
            say(&format!(
                "note: volumes are not copied ({}): spindle zfs dump {} FILE writes one out",
                names(&volumes),
                first.name
            ));
        }
        children
    }

    /// The child that belongs there; it counts as met.
    pub(super) fn meet(&self, path: &[u8]) -> Option<&Child> {
        let child = self.all.get(path)?;
        self.met.borrow_mut().insert(path.to_vec());
        Some(child)
    }

    /// Names of children that belong into a directory and have no directory there.
    pub(super) fn unmet_in(&self, directory: &[u8]) -> Vec<Vec<u8>> {
        let met = self.met.borrow();
        let name = |path: &Vec<u8>| {
            let rest = match directory.is_empty() {
                true => &path[..],
                false => path.strip_prefix(directory)?.strip_prefix(b"/")?,
            };
            (!rest.contains(&b'/') && !met.contains(path)).then(|| rest.to_vec())
        };
        self.all.keys().filter_map(name).collect()
    }

    /// Names of the children that were never met.
    pub(super) fn unmet(&self) -> Vec<&str> {
        let met = self.met.borrow();
        let unmet = self.all.iter().filter(|(path, _)| !met.contains(*path));
        unmet.map(|(_, child)| child.source.of.name()).collect()
    }
}

/// The datasets below that of a source, each before those below it.
fn below(session: &Session, source: &Source) -> Result<Vec<Below>, ZfsError> {
    let (spa, number) = (Rc::clone(&source.of.spa), source.of.directory.number);
    let name = source.of.directory.name.clone();
    let snapshot = source.of.dataset.snapshot_name().map(str::to_owned);
    session.wait(async move {
        let dsl = spa.dsl();
        let mut found = Vec::new();
        let prefix = format!("{name}/");
        for directory in dsl.below(dsl.directory(number, name).await?).await? {
            let Some(path) = directory.name.strip_prefix(&prefix) else { continue };
            let Some(head) = dsl.head(&directory).await? else { continue };
            // What it is stands in its root block, which is never encrypted.
            let opened = spa.objset(&directory, &head).await;
            let is_volume = opened.is_ok_and(|found| found.root().kind == ObjsetKind::Volume);
            let (name, is_there) = match &snapshot {
                None => (directory.name.clone(), true),
                Some(snapshot) => {
                    let name = format!("{}@{snapshot}", directory.name);
                    let is_there = dsl.find(&name).await?.is_some();
                    (name, is_there)
                }
            };
            found.push(Below { path: path.to_owned(), name, is_volume, is_there });
        }
        Ok(found)
    })
}

/// Opens a child; one that can't be opened is told.
fn open(session: &Session, one: &Below, copier: &Rc<Copier>) -> Option<Child> {
    let dataset = session.dataset(&one.name).map_err(crate::output::Failure::from);
    let opened = dataset.and_then(|of| {
        let files = session.files(&of)?;
        let source = Source { of, files, path: Vec::new(), content: true };
        let root = source.node(session, true)?;
        Ok(Child { source, root })
    });
    match opened {
        Ok(child) => {
            copier.begin(&child.source, &child.root);
            Some(child)
        }
        Err(failure) => {
            copier.tally.complain(&format!("{}; it is not copied", failure.message));
            None
        }
    }
}
