//! Who copies out of a pool: rules, and what the target could not take.

use super::super::source::Source;
use super::tally::{DEPTH_MAX, Given, LINKS_MAX, Rules, Tally, files};
use crate::output::{Failure, say};
use crate::printable;
use ::host::directory::{self, Directory};
use ::zfs::zpl::descent::Descent;
use ::zfs::zpl::{FileSystem, Node};
use indicatif::ProgressBar;
use rt::Rt;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use zfs_format::zpl::acl::{AclEntry, Who};
use zfs_format::zpl::directory::FileKind;

/// Extended attributes that the target does not take, by name, that are told.
const LACKS_MAX: usize = 64;

/// Files on which an attribute could not be set.
struct Lack {
    files: u64,
    /// The first of them, and why.
    first: String,
    kind: io::ErrorKind,
}

impl Lack {
    /// Whether only root may set it, as owners.
    fn is_for_root(&self, name: &[u8]) -> bool {
        let names: [&[u8]; 2] = [b"trusted.", b"security."];
        let is_such = names.iter().any(|space| name.starts_with(space));
        is_such && self.kind == io::ErrorKind::PermissionDenied
    }

    fn told(&self, name: &[u8]) -> String {
        let (name, files, first) = (printable::bytes(name), files(self.files), &self.first);
        let cause = match self.kind {
            io::ErrorKind::StorageFull => {
                "; ext4 holds about 4 KiB of attributes of a file, XFS holds more"
            }
            io::ErrorKind::Unsupported => "; the file system of the target has no such attributes",
            _ => "",
        };
        format!("the attribute {name} could not be set on {files} (first {first}){cause}")
    }
}

/// See the [module](self).
pub(super) struct Copier {
    pub(super) rt: Rt,
    pub(super) rules: Rules,
    /// Whether owners can be set.
    pub(super) root: bool,
    /// The files that the pool lies on, by device and inode.
    pub(super) devices: BTreeSet<(u64, u64)>,
    pub(super) tally: Tally,
    /// Lists of access that say more than the mode.
    lists: Cell<u64>,
    /// What extended attributes the target didn't take: how often, and why.
    lacks: RefCell<BTreeMap<Vec<u8>, Lack>>,
    /// Device nodes that were left out.
    nodes: Cell<u64>,
    /// What was named and copied, by its pool, objset and object.
    pub(super) given: Given<(u64, u64), (u64, u64, u64)>,
    /// The top of each copy, to be made durable at the end.
    pub(super) tops: RefCell<Vec<Directory>>,
}

impl Copier {
    pub(super) fn new(rt: &Rt, rules: Rules, devices: BTreeSet<(u64, u64)>) -> Copier {
        Copier {
            rt: rt.clone(),
            rules,
            root: directory::is_root(),
            devices,
            tally: Tally::new(rules.verbose),
            lists: Cell::new(0),
            lacks: RefCell::default(),
            nodes: Cell::new(0),
            given: Given::default(),
            tops: RefCell::default(),
        }
    }

    /// Counts beside the copying what there is to copy.
    pub(super) fn begin(&self, source: &Source, node: &Node) {
        let (files, node, bar) = (source.files.clone(), node.clone(), self.tally.bar());
        self.rt.spawn(async move { count(files, node, bar).await }).detach();
    }

    /// Counts an extended attribute that the target does not take. One that is too large for it looks like a full
    /// target, so it is not taken for one.
    pub(super) fn lacks(&self, source: &Source, path: &[u8], name: &[u8], error: &io::Error) {
        let mut lacks = self.lacks.borrow_mut();
        if lacks.len() < LACKS_MAX || lacks.contains_key(name) {
            let first = || Lack { files: 0, first: source.about(path, error), kind: error.kind() };
            lacks.entry(name.to_vec()).or_insert_with(first).files += 1;
        }
    }

    /// Counts a device node that is not made.
    pub(super) fn left_out(&self) {
        self.nodes.set(self.nodes.get() + 1);
    }

    /// Says that a file is copied, where that is wanted.
    pub(super) fn names(&self, source: &Source, path: &[u8]) {
        self.tally.say_name(&[source.of.name().as_bytes(), b":/", path].concat());
    }

    /// Counts lists of access that say more than the mode.
    pub(super) fn count_access(&self, list: &[AclEntry]) {
        if list.iter().any(|entry| matches!(entry.who, Who::Id(_))) {
            self.lists.set(self.lists.get() + 1);
        }
    }

    /// Makes all durable, and says how it went.
    pub(super) fn end(&self) -> Result<(), Failure> {
        for top in self.tops.borrow().iter() {
            let failed = |error| Failure::failed(format!("making the copy durable: {error}"));
            top.sync_all().map_err(failed)?;
        }
        self.tally.clear();
        self.tally.say_nothing();
        for (name, lack) in self.lacks.borrow().iter() {
            let text = lack.told(name);
            match lack.is_for_root(name) && !self.root {
                true => say(&format!("note: {text}")),
                false => self.tally.complain(&text),
            }
        }
        if self.nodes.get() > 0 {
            let (nodes, why) = match self.root {
                true => (self.nodes.get(), "as --no-devices says"),
                false => (self.nodes.get(), "only root can make them"),
            };
            say(&format!("note: {nodes} device nodes were left out: {why}"));
        }
        if self.lists.get() > 0 {
            let count = files(self.lists.get());
            say(&format!(
                "note: {count} had NFSv4 lists of access, which Linux does not keep: zfs stat shows them"
            ));
        }
        self.tally.end()
    }
}

/// Adds up the bytes below a node, of a file with several names once. What can't be had is not counted: the copy itself
/// tells.
async fn count(files: FileSystem, node: Node, bar: ProgressBar) {
    let mut linked = BTreeSet::new();
    let mut add = |node: &Node| {
        let again =
            node.attributes.links > 1 && linked.len() < LINKS_MAX && !linked.insert(node.number());
        if !again {
            bar.inc_length(content_bytes(node));
        }
    };
    let top = node.number();
    let mut waiting = vec![(0, node)];
    while let Some((depth, node)) = waiting.pop() {
        let mut descent = Descent::new(top, node.number());
        if !node.is_directory() {
            add(&node);
        } else if depth < DEPTH_MAX
            && let Ok(names) = files.names(&node).await
        {
            for name in names {
                match files.node(name.entry.object).await {
                    Ok(node) if descent.enter(&node).is_err() => {}
                    Ok(node) if node.is_directory() => waiting.push((depth + 1, node)),
                    Ok(node) => add(&node),
                    Err(_) => {}
                }
            }
        }
    }
}

/// Bytes that a file's copy takes.
pub(super) fn content_bytes(node: &Node) -> u64 {
    if node.attributes.kind == FileKind::File { node.attributes.size } else { 0 }
}
