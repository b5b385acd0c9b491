//! What differs between two states of a file system: a snapshot, and a later one or what it is now.
//!
//! Files are objects, so the arrays of dnodes are compared, block pointer by block pointer: what both share has one pointer
//! and is passed over unread. In blocks that differ the objects are compared, and told in the order of their numbers:
//!
//! ```text
//!   only in the later state            added
//!   only in the earlier one            removed
//!   in both, of one generation         modified, renamed, or so many names more or fewer;
//!                                      nothing where the time of the last change is the same
//!   in both, of two generations        removed, and another one added
//! ```
//!
//! A file's path is found by its parent, and its name by looking for its number there, of several names the one of the
//! lowest hash. Files without a name (removed while open) are passed over; attributes' hidden directories are shown as
//! `<xattrdir>`.
//!
//! Source: OpenZFS, `libzfs_diff.c`, `dmu_diff.c`, `zfs_znode.c`.

use super::attributes::Moment;
use super::{FileSystem, Node};
use crate::error::{Problem, ZfsError};
use crate::zap::Zap;
use async_recursion::async_recursion as boxed;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zfs_format::dnode::{Dnode, OBJECTS_PER_BLOCK};
use zfs_format::object_type::ObjectType;
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};
use zfs_format::zpl::master;

/// Directories above a file that are followed; a damaged pool may have them in a circle.
const DEPTH_MAX: usize = 4096;
/// Paths of directories that are remembered.
const PATHS_MAX: usize = 1 << 16;
/// The flag of files that are extended attributes, or their directory.
const IS_ATTRIBUTE: u64 = 1;

/// What happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Its content or attributes are others.
    Modified,
    /// It has another path: this one.
    Renamed(Vec<u8>),
    /// It has so many names more, or fewer.
    Links(i64),
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What happened to it.
    pub change: Change,
    /// What it is.
    pub kind: FileKind,
    /// When it was last changed.
    pub changed: Moment,
    /// Its path from the root, which is `/`.
    pub path: Vec<u8>,
}

/// A comparison, which gives differences block by block of dnodes.
pub struct Differences {
    from: Side,
    to: Side,
    block: u64,
    blocks: u64,
}

impl Differences {
    /// Compares an earlier state with a later one.
    ///
    /// # Errors
    /// A state can't be had.
    #[boxed(?Send)]
    pub async fn new(from: FileSystem, to: FileSystem) -> Result<Differences, ZfsError> {
        let last = from.objset().meta()?.phys().block_id_max;
        let blocks = last.max(to.objset().meta()?.phys().block_id_max).saturating_add(1);
        let (from, to) = (Side::new(from).await?, Side::new(to).await?);
        Ok(Differences { from, to, block: 0, blocks })
    }

    /// The next differences, at least one; nothing at the end.
    ///
    /// # Errors
    /// Something that is needed to compare can't be had.
    #[boxed(?Send)]
    pub async fn next(&mut self) -> Result<Option<Vec<Difference>>, ZfsError> {
        while let Some(block) = self.next_block().await? {
            self.block = block + 1;
            let (earlier, later) = (self.from.pointer(block).await?, self.to.pointer(block).await?);
            if earlier == later {
                continue;
            }
            let (earlier, later) = (self.from.dnodes(block).await?, self.to.dnodes(block).await?);
            let numbers: BTreeSet<u64> = earlier.keys().chain(later.keys()).copied().collect();
            let mut found = Vec::new();
            for number in numbers {
                if earlier.get(&number) != later.get(&number) && number != self.to.shares {
                    self.compare(number, &mut found).await?;
                }
            }
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The next block of dnodes that either state has. Holes are passed over at once: how many there are, an image says.
    async fn next_block(&self) -> Result<Option<u64>, ZfsError> {
        let (from, to) =
            (self.from.next_block(self.block).await?, self.to.next_block(self.block).await?);
        let next = [from, to].into_iter().flatten().min();
        Ok(next.filter(|block| *block < self.blocks))
    }

    async fn compare(&self, number: u64, found: &mut Vec<Difference>) -> Result<(), ZfsError> {
        let (from, to) = (self.from.file(number).await?, self.to.file(number).await?);
        let counts = |file: &File| !file.node.is_directory() && file.node.attributes.links > 0;
        let links = match (&from, &to) {
            (Some(from), Some(to)) if counts(from) && counts(to) => {
                to.node.attributes.links as i64 - from.node.attributes.links as i64
            }
            _ => 0,
        };
        let named = |file: Option<File>| {
            file.and_then(|file| file.path.clone().map(|path| (file.node, path)))
        };
        let of = |node: &Node, path: Vec<u8>, change: Change| {
            let a = &node.attributes;
            Difference { change, kind: a.kind, changed: a.changed, path }
        };
        match (named(from), named(to)) {
            (None, None) => {}
            // A name of several was that by which the file is found, and only that is gone or new.
            (None, Some((node, path))) | (Some((node, path)), None) if links != 0 => {
                found.push(of(&node, path, Change::Links(links)));
            }
            (None, Some((node, path))) => found.push(of(&node, path, Change::Added)),
            (Some((node, path)), None) => found.push(of(&node, path, Change::Removed)),
            (Some((old, path)), Some((new, later))) => {
                let (a, b) = (&old.attributes, &new.attributes);
                if a.generation != b.generation || a.kind != b.kind {
                    found.push(of(&old, path, Change::Removed));
                    found.push(of(&new, later, Change::Added));
                } else if a.changed != b.changed {
                    let (path, change) = match links {
                        1.. => (path, Change::Links(links)),
                        ..0 => (later, Change::Links(links)),
                        0 if path == later => (path, Change::Modified),
                        0 => (path, Change::Renamed(later)),
                    };
                    found.push(of(&new, path, change));
                }
            }
        }
        Ok(())
    }
}

/// A file of one state; without a path where it has no name, or not the one by which it is found.
struct File {
    node: Node,
    path: Option<Vec<u8>>,
}

/// Names in one directory, by their objects.
type Names = (u64, Rc<BTreeMap<u64, Vec<u8>>>);

/// One of both states.
struct Side {
    files: FileSystem,
    /// The directory of shares, which is no file.
    shares: u64,
    paths: RefCell<BTreeMap<u64, Rc<[u8]>>>,
    /// The directory in which was looked last.
    names: RefCell<Option<Names>>,
}

impl Side {
    async fn new(files: FileSystem) -> Result<Side, ZfsError> {
        let master = Zap::open(files.objset().dnode(master::OBJECT).await?).await?;
        let shares = master.number(master::SHARES).await?.unwrap_or(0);
        let (paths, names) = Default::default();
        Ok(Side { files, shares, paths, names })
    }

    /// The first block of dnodes from this one on.
    async fn next_block(&self, from: u64) -> Result<Option<u64>, ZfsError> {
        let meta = self.files.objset().meta()?;
        let bytes = meta.block_bytes();
        let found = meta.next_data(from.saturating_mul(bytes)).await?;
        Ok(found.map(|at| at / bytes))
    }

    async fn pointer(
        &self,
        block: u64,
    ) -> Result<Option<zfs_format::block_pointer::BlockPointer>, ZfsError> {
        let pointer = self.files.objset().meta()?.pointer(block).await?;
        Ok(pointer.filter(|pointer| !pointer.is_hole()))
    }

    async fn dnodes(&self, block: u64) -> Result<BTreeMap<u64, Dnode>, ZfsError> {
        let first = block.saturating_mul(OBJECTS_PER_BLOCK);
        let found = self.files.objset().dnodes_from(first).await?;
        let objects = found.map(|(objects, _)| objects).unwrap_or_default();
        let within = first..first.saturating_add(OBJECTS_PER_BLOCK);
        let objects = objects.into_iter().filter(|(number, ..)| within.contains(number));
        Ok(objects.map(|(number, dnode, _)| (number, dnode)).collect())
    }

    /// The file of this number; nothing where it is none.
    async fn file(&self, number: u64) -> Result<Option<File>, ZfsError> {
        let node = match self.files.node(number).await {
            Ok(node) => node,
            Err(ZfsError::Object { problem: Problem::Absent | Problem::Type { .. }, .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let is_file = matches!(
            node.dnode().phys().object_type,
            ObjectType::PLAIN_FILE_CONTENTS | ObjectType::DIRECTORY_CONTENTS
        );
        if !is_file {
            return Ok(None);
        }
        let path = if node.attributes.links == 0 { None } else { self.path(&node).await? };
        Ok(Some(File { node, path }))
    }

    /// The path of a file; nothing where it has no name.
    async fn path(&self, node: &Node) -> Result<Option<Vec<u8>>, ZfsError> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut at = node.clone();
        let mut base: Rc<[u8]> = Rc::from(&b""[..]);
        let mut above = BTreeSet::new();
        for _ in 0..DEPTH_MAX {
            if !above.insert(at.number()) {
                return Err(at.dnode().problem(Problem::Circle));
            }
            if at.number() == self.files.root_number() {
                return Ok(Some(self.joined(node, &base, parts)));
            }
            let known = self.paths.borrow().get(&at.number()).cloned();
            if let Some(path) = known {
                base = path;
                return Ok(Some(self.joined(node, &base, parts)));
            }
            let parent = match self.files.node(at.attributes.parent).await {
                Ok(parent) => parent,
                Err(ZfsError::Object { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            let is_hidden = at.is_directory() && at.attributes.flags & IS_ATTRIBUTE != 0;
            let name = match is_hidden {
                true => Some(b"<xattrdir>".to_vec()),
                false if parent.is_directory() => self.name(&parent, at.number()).await?,
                false => None,
            };
            let Some(name) = name else { return Ok(None) };
            parts.push(name);
            at = parent;
        }
        let (what, limit) = ("directories above a file", DEPTH_MAX as u64);
        Err(self.files.objset().wrong(node.number(), Problem::Limit { what, limit }))
    }

    fn joined(&self, node: &Node, base: &[u8], mut parts: Vec<Vec<u8>>) -> Vec<u8> {
        let mut path = base.to_vec();
        while let Some(part) = parts.pop() {
            path.push(b'/');
            path.extend(part);
        }
        if node.is_directory() && !path.is_empty() {
            let mut paths = self.paths.borrow_mut();
            if paths.len() >= PATHS_MAX {
                paths.clear();
            }
            paths.insert(node.number(), Rc::from(&path[..]));
        }
        if path.is_empty() {
            path.push(b'/');
        }
        path
    }

    async fn name(&self, parent: &Node, number: u64) -> Result<Option<Vec<u8>>, ZfsError> {
        let known = {
            let names = self.names.borrow();
            names.as_ref().filter(|(of, _)| *of == parent.number()).map(|(_, names)| names.clone())
        };
        let names = match known {
            Some(names) => names,
            None => {
                let mut by_object = BTreeMap::new();
                // Of several names in one directory OpenZFS finds the one of the lowest hash.
                let table = Zap::open(parent.dnode().clone()).await?;
                for entry in table.entries().await? {
                    let wrong = || parent.dnode().problem(Problem::Entry("of a file"));
                    let value = DirectoryEntry::from_value(entry.number().ok_or_else(wrong)?);
                    by_object.entry(value.object).or_insert(entry.name);
                }
                let names = Rc::new(by_object);
                *self.names.borrow_mut() = Some((parent.number(), Rc::clone(&names)));
                names
            }
        };
        Ok(names.get(&number).cloned())
    }
}
