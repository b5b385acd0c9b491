//! A dataset as programs see it mounted: its files, its children below it, its snapshots in `.zfs/snapshot`.
//!
//! ```text
//!   /                     the root of the dataset
//!   /child                the root of the dataset's child, whatever the dataset itself has under that name
//!   /.zfs/snapshot/NAME   the root of a snapshot; also below each child
//! ```
//!
//! **Nodes.** 16 bits say which dataset, in the order in which they were met; 48 bits are the object in it. The directories
//! of `.zfs` have the object numbers that OpenZFS gives them. People see the object's number in the dataset at the
//! top, as under ZFS, and the whole number elsewhere: all of it is one device to programs, which take two files of
//! one number for one file.
//!
//! **`.zfs`** is found by its name, and listed only if that was asked for: who copies a tree doesn't mean all its
//! snapshots. A snapshot has none.
//!
//! **Forged directories.** A directory is found only in the one that it names as its parent, never is the root, and
//! has one name there, the first that was asked for ([`descent`](crate::zpl::descent)). Elsewhere it is an entry that can't be looked up:
//! `ELOOP`, at which `find`, `du` and `cp` go on with the next one.
//!
//! **Children** are by the names of datasets; where their mountpoints say otherwise is not looked at. Volumes are none. A
//! child whose key is missing is a directory that can't be entered.

mod answer;

use crate::dsl::{Dataset, Directory};
use crate::error::{Problem, ZfsError};
use crate::spa::Spa;
use crate::zap::Cursor;
use crate::zil::{self, Unreplayed};
use crate::zpl::{FileSystem, Node as FileNode};
use answer::{attributes, kind_of, wrong};
use rt::SgList;
use rt::inodes::{
    Attributes, Cookie, InodeError, InodeFuture, InodeKind, Inodes, ListEntry, Node, Usage,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs_format::objset::ObjsetKind;
use zfs_format::zpl::directory::FileKind;

/// Datasets and snapshots that one mount reaches: 16 bits of a node.
const DATASETS_MAX: usize = 1 << 16;
/// Bits of a node that are the object.
const OBJECT_BITS: u32 = 48;
/// The object of `.zfs`, as OpenZFS numbers it.
const CONTROL: u64 = (1 << OBJECT_BITS) - 1;
/// The object of `.zfs/snapshot`.
const SNAPSHOTS: u64 = (1 << OBJECT_BITS) - 3;
/// The first object of children that can't be opened.
const CLOSED: u64 = 0xffff_0000_0000;
/// Cookies of children begin here: beyond those of a table of names.
const CHILDREN_FROM: u64 = 1 << 62;
/// The cookie of `.zfs`, behind all children.
const CONTROL_COOKIE: u64 = (1 << 63) - 1;
/// Bytes of the smallest dnode: as many files can be made as they have room, as ZFS tells it.
const DNODE_BYTES: u64 = 512;
/// Directories whose names are remembered, of some 64 bytes each. Beyond, all are forgotten, and a forged directory may once
/// more be found under a second name.
const NAMES_MAX: usize = 1 << 18;
/// Files that are kept open: so that reading on in one finds what was read ahead.
const OPEN_MAX: usize = 1024;

/// A dataset that is mounted. See the [module](self).
#[derive(Clone)]
pub struct Mounted(Rc<Shared>);

/// How a dataset is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether `.zfs` is listed.
    pub shows_control: bool,
    /// Whether intent logs are laid over datasets.
    pub with_log: bool,
}

/// What is found while a mount is served, for whoever serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The intent log of this dataset lies on a device that is missing: its last synchronous writes are not shown.
    LogCut {
        /// The dataset.
        dataset: String,
    },
    /// A program asked for what can't be read.
    Damage {
        /// The dataset.
        dataset: String,
        /// The file.
        object: u64,
        /// Where in it, in bytes.
        at: u64,
        /// How many bytes were asked for.
        len: u64,
        /// Why.
        error: ZfsError,
    },
}

/// Who is told.
pub type Tell = Rc<dyn Fn(&Notice)>;

struct Shared {
    spa: Rc<Spa>,
    name: Rc<str>,
    how: MountOptions,
    tell: Tell,
    served: RefCell<Vec<Rc<Served>>>,
    /// Datasets that are served, by their object.
    known: RefCell<BTreeMap<u64, usize>>,
    /// Names under which directories were found, by their inodes.
    names: RefCell<BTreeMap<u64, Box<[u8]>>>,
    open: RefCell<Open>,
}

/// Files that are kept open, from the one opened first on.
#[derive(Default)]
struct Open {
    nodes: BTreeMap<u64, Rc<FileNode>>,
    order: VecDeque<u64>,
}

/// One dataset or snapshot of the mount.
struct Served {
    index: u64,
    files: FileSystem,
    dataset: Dataset,
    /// The directory in which its root is an entry; itself at the top.
    parent: Node,
    /// Its children, by name: their directories. Nothing of a snapshot.
    children: Vec<(Vec<u8>, Rc<Directory>)>,
    is_snapshot: bool,
}

/// What a node is.
enum Place {
    /// A file, or the root.
    File(Rc<Served>, u64),
    /// `.zfs`.
    Control(Rc<Served>),
    /// `.zfs/snapshot`.
    Snapshots(Rc<Served>),
}

impl Served {
    fn node(&self, object: u64) -> Node {
        match (self.index, object == self.files.root_number()) {
            (0, true) => Node::ROOT,
            _ => Node(self.index << OBJECT_BITS | object),
        }
    }

    fn inode(&self, object: u64) -> u64 {
        self.index << OBJECT_BITS | object
    }

    fn root(&self) -> Node {
        self.node(self.files.root_number())
    }

    fn is_root(&self, object: u64) -> bool {
        object == self.files.root_number()
    }
}

impl Mounted {
    /// The dataset, with all that is below it. `tell` is told of what is found later.
    ///
    /// # Errors
    /// It is no file system, or can't be had; or its intent log is to be laid over it, and can't be.
    pub async fn open(
        spa: &Rc<Spa>,
        directory: Rc<Directory>,
        dataset: Dataset,
        how: MountOptions,
        tell: Tell,
    ) -> Result<Mounted, ZfsError> {
        let name = dataset.name.as_str().into();
        let (served, known, names, open) = Default::default();
        let spa = Rc::clone(spa);
        let shared = Shared { spa, name, how, tell, served, known, names, open };
        let mounted = Mounted(Rc::new(shared));
        mounted.0.serve(&directory, dataset, Node::ROOT).await?;
        Ok(mounted)
    }
}

impl Shared {
    /// Takes up a dataset, once.
    async fn serve(
        &self,
        directory: &Rc<Directory>,
        dataset: Dataset,
        parent: Node,
    ) -> Result<Rc<Served>, ZfsError> {
        let number = dataset.number;
        if let Some(served) = self.known(number) {
            return Ok(served);
        }
        let objset = self.spa.objset(directory, &dataset).await?;
        let is_snapshot = dataset.snapshot_name().is_some();
        // What was logged is of the head. Whose key is missing says so when it is opened.
        let log = match is_snapshot {
            true => Ok(Unreplayed::default()),
            false => zil::unreplayed(&objset, self.spa.uberblock().txg).await,
        };
        let is_cut = !self.spa.was_closed() && log.as_ref().is_ok_and(|log| log.is_cut);
        let files = match self.how.with_log {
            true if is_cut => return Err(objset.wrong(0, Problem::LogCut)),
            true => FileSystem::open_with_log(&objset, &log?.records).await?,
            false => FileSystem::open(&objset).await?,
        };
        if is_cut {
            (self.tell)(&Notice::LogCut { dataset: dataset.name.clone() });
        }
        let children = match is_snapshot {
            true => Vec::new(),
            false => self.children(directory).await?,
        };
        // Another request may have taken it up meanwhile.
        if let Some(served) = self.known(number) {
            return Ok(served);
        }
        let mut all = self.served.borrow_mut();
        if all.len() >= DATASETS_MAX {
            let (what, limit) = ("datasets of a mount", DATASETS_MAX as u64);
            return Err(objset.wrong(0, Problem::Limit { what, limit }));
        }
        let index = all.len() as u64;
        let served = Rc::new(Served { index, files, dataset, parent, children, is_snapshot });
        all.push(Rc::clone(&served));
        self.known.borrow_mut().insert(number, index as usize);
        Ok(served)
    }

    fn known(&self, number: u64) -> Option<Rc<Served>> {
        let index = *self.known.borrow().get(&number)?;
        self.served.borrow().get(index).cloned()
    }

    /// The children that are file systems.
    async fn children(
        &self,
        directory: &Directory,
    ) -> Result<Vec<(Vec<u8>, Rc<Directory>)>, ZfsError> {
        let dsl = self.spa.dsl();
        let mut children = Vec::new();
        for (name, number) in dsl.children(directory).await? {
            let child = Rc::new(dsl.child(directory, &name, number).await?);
            let Some(head) = dsl.head(&child).await? else { continue };
            // What it is stands in its root block, which is never encrypted.
            let is_files = match self.spa.objset(&child, &head).await {
                Ok(objset) => objset.root().kind == ObjsetKind::FileSystem,
                Err(_) => true,
            };
            if is_files {
                children.push((name.into_bytes(), child));
            }
        }
        Ok(children)
    }

    fn place(&self, node: Node) -> Result<Place, InodeError> {
        let (index, object) = match node {
            Node::ROOT => (0, None),
            Node(number) => (number >> OBJECT_BITS, Some(number & CONTROL)),
        };
        let served = self.served.borrow().get(index as usize).cloned().ok_or(InodeError::Gone)?;
        let object = object.unwrap_or(served.files.root_number());
        Ok(match object {
            CONTROL => Place::Control(served),
            SNAPSHOTS => Place::Snapshots(served),
            CLOSED.. => return Err(InodeError::NoKey),
            object => Place::File(served, object),
        })
    }

    /// A file, from those that are open or opened now.
    async fn file(&self, served: &Served, object: u64) -> Result<Rc<FileNode>, InodeError> {
        let number = served.inode(object);
        if let Some(node) = self.open.borrow().nodes.get(&number) {
            return Ok(Rc::clone(node));
        }
        let node = Rc::new(served.files.node(object).await.map_err(|error| wrong(&error))?);
        let mut open = self.open.borrow_mut();
        if open.nodes.insert(number, Rc::clone(&node)).is_none() {
            open.order.push_back(number);
        }
        while open.order.len() > OPEN_MAX {
            if let Some(first) = open.order.pop_front() {
                open.nodes.remove(&first);
            }
        }
        Ok(node)
    }

    async fn child(
        &self,
        of: &Served,
        directory: &Rc<Directory>,
    ) -> Result<Rc<Served>, InodeError> {
        let dsl = self.spa.dsl();
        let head = dsl.head(directory).await.map_err(|error| wrong(&error))?;
        let head = head.ok_or(InodeError::NotFound)?;
        self.serve(directory, head, of.root()).await.map_err(|error| wrong(&error))
    }

    async fn snapshot(&self, of: &Served, name: &[u8]) -> Result<Rc<Served>, InodeError> {
        let name = std::str::from_utf8(name).map_err(|_| InodeError::NotFound)?;
        let whole = format!("{}@{name}", of.dataset.name);
        let found = self.spa.dsl().find(&whole).await.map_err(|error| wrong(&error))?;
        let (directory, dataset) = found.ok_or(InodeError::NotFound)?;
        let parent = of.node(SNAPSHOTS);
        let served = self.serve(&Rc::new(directory), dataset, parent).await;
        served.map_err(|error| wrong(&error))
    }

    async fn root_of(&self, served: &Served) -> Result<Attributes, InodeError> {
        let object = served.files.root_number();
        let node = self.file(served, object).await?;
        Ok(attributes(served, &node))
    }

    /// The directories of `.zfs` look like the root, for reading.
    async fn control(&self, served: &Served, object: u64) -> Result<Attributes, InodeError> {
        let root = self.root_of(served).await?;
        let (node, inode) = (served.node(object), served.inode(object));
        let size = ByteCount(0);
        Ok(Attributes { node, inode, permissions: 0o555, links: 2, size, ..root })
    }

    async fn lookup(&self, directory: Node, name: &[u8]) -> Result<Attributes, InodeError> {
        match self.place(directory)? {
            Place::Control(served) if name == b"snapshot" => self.control(&served, SNAPSHOTS).await,
            Place::Control(_) => Err(InodeError::NotFound),
            Place::Snapshots(served) => {
                let snapshot = self.snapshot(&served, name).await?;
                self.root_of(&snapshot).await
            }
            Place::File(served, object) => {
                if served.is_root(object) {
                    if name == b".zfs" && !served.is_snapshot {
                        return self.control(&served, CONTROL).await;
                    }
                    let child = served.children.iter().position(|(child, _)| child == name);
                    if let Some(at) = child {
                        return match self.child(&served, &served.children[at].1).await {
                            Ok(child) => self.root_of(&child).await,
                            Err(InodeError::NoKey) => {
                                let closed = self.control(&served, CLOSED + at as u64).await?;
                                Ok(Attributes { permissions: 0, ..closed })
                            }
                            Err(error) => Err(error),
                        };
                    }
                }
                let node = self.file(&served, object).await?;
                let found =
                    served.files.lookup(&node, name).await.map_err(|error| wrong(&error))?;
                let entry = found.ok_or(InodeError::NotFound)?;
                let child = self.file(&served, entry.object).await?;
                served.files.belongs(&child, &node).map_err(|error| wrong(&error))?;
                if child.is_directory() {
                    self.has_one_name(served.inode(entry.object), name)?;
                }
                Ok(attributes(&served, &child))
            }
        }
    }

    /// Refuses a directory that was found under another name in the same one.
    fn has_one_name(&self, node: u64, name: &[u8]) -> Result<(), InodeError> {
        let mut names = self.names.borrow_mut();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        match names.entry(node).or_insert_with(|| name.into()) {
            known if **known == *name => Ok(()),
            _ => Err(InodeError::Loop),
        }
    }

    async fn attributes(&self, node: Node) -> Result<Attributes, InodeError> {
        match self.place(node) {
            Ok(Place::Control(served)) => self.control(&served, CONTROL).await,
            Ok(Place::Snapshots(served)) => self.control(&served, SNAPSHOTS).await,
            Ok(Place::File(served, object)) => {
                let node = self.file(&served, object).await?;
                Ok(attributes(&served, &node))
            }
            Err(InodeError::NoKey) => {
                let served = self.served.borrow().get((node.0 >> OBJECT_BITS) as usize).cloned();
                let served = served.ok_or(InodeError::Gone)?;
                let closed = self.control(&served, node.0 & CONTROL).await?;
                Ok(Attributes { permissions: 0, ..closed })
            }
            Err(error) => Err(error),
        }
    }

    async fn parent(&self, directory: Node) -> Result<Node, InodeError> {
        match self.place(directory)? {
            Place::Control(served) => Ok(served.root()),
            Place::Snapshots(served) => Ok(served.node(CONTROL)),
            Place::File(served, object) if served.is_root(object) => Ok(served.parent),
            Place::File(served, object) => {
                let node = self.file(&served, object).await?;
                Ok(served.node(node.attributes.parent))
            }
        }
    }

    async fn list(
        &self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> Result<Vec<ListEntry>, InodeError> {
        match self.place(directory)? {
            Place::Control(served) => {
                let node = served.node(SNAPSHOTS);
                let entry = ListEntry {
                    name: b"snapshot".to_vec(),
                    node,
                    inode: served.inode(SNAPSHOTS),
                    kind: InodeKind::Directory,
                    cookie: Cookie::FIRST,
                };
                Ok(if after < Cookie::FIRST { vec![entry] } else { Vec::new() })
            }
            Place::Snapshots(served) => self.list_snapshots(&served, after, entries_max).await,
            Place::File(served, object) => {
                self.list_files(&served, object, after, entries_max).await
            }
        }
    }

    async fn list_snapshots(
        &self,
        served: &Served,
        after: Cookie,
        entries_max: usize,
    ) -> Result<Vec<ListEntry>, InodeError> {
        let snapshots = self.spa.dsl().snapshots(&served.dataset).await;
        let snapshots = snapshots.map_err(|error| wrong(&error))?;
        let from = after.0.saturating_sub(Cookie::FIRST.0 - 1) as usize;
        let mut entries = Vec::new();
        for (at, snapshot) in snapshots.iter().enumerate().skip(from).take(entries_max) {
            let Some(name) = snapshot.snapshot_name() else { continue };
            let (node, inode) = match self.snapshot(served, name.as_bytes()).await {
                Ok(snapshot) => (snapshot.root(), snapshot.inode(snapshot.files.root_number())),
                Err(_) => (served.node(CLOSED + at as u64), served.inode(CLOSED + at as u64)),
            };
            let (kind, cookie) = (InodeKind::Directory, Cookie(Cookie::FIRST.0 + at as u64));
            entries.push(ListEntry { name: name.as_bytes().to_vec(), node, inode, kind, cookie });
        }
        Ok(entries)
    }

    async fn list_files(
        &self,
        served: &Rc<Served>,
        object: u64,
        after: Cookie,
        entries_max: usize,
    ) -> Result<Vec<ListEntry>, InodeError> {
        let directory = self.file(served, object).await?;
        let is_root = served.is_root(object);
        let mut entries = Vec::new();
        let mut after = after.0;
        while after < CHILDREN_FROM && entries.len() < entries_max {
            let from = Cursor(after.saturating_sub(Cookie::FIRST.0 - 1));
            let names = served.files.list(&directory, from).await.map_err(|error| wrong(&error))?;
            if names.is_empty() {
                after = CHILDREN_FROM;
                break;
            }
            for name in names {
                // Cursors begin at 0, and go on at 1 at the least.
                after = name.next.0.saturating_add(Cookie::FIRST.0 - 1);
                let is_child = |(child, _): &(Vec<u8>, Rc<Directory>)| *child == name.name;
                if is_root && served.children.iter().any(is_child) {
                    continue;
                }
                let kind = match name.entry.kind {
                    Some(kind) => kind,
                    None => self.file(served, name.entry.object).await?.attributes.kind,
                };
                entries.push(ListEntry {
                    node: served.node(name.entry.object),
                    inode: served.inode(name.entry.object),
                    name: name.name,
                    kind: kind_of(kind),
                    cookie: Cookie(after),
                });
                if entries.len() == entries_max {
                    break;
                }
            }
        }
        if !is_root || after < CHILDREN_FROM {
            return Ok(entries);
        }
        let from = usize::try_from(after - CHILDREN_FROM).unwrap_or(usize::MAX);
        let many = entries_max.saturating_sub(entries.len());
        for (at, (name, child)) in served.children.iter().enumerate().skip(from).take(many) {
            let (node, inode) = match self.child(served, child).await {
                Ok(child) => (child.root(), child.inode(child.files.root_number())),
                Err(_) => (served.node(CLOSED + at as u64), served.inode(CLOSED + at as u64)),
            };
            let (kind, cookie) = (InodeKind::Directory, Cookie(CHILDREN_FROM + at as u64 + 1));
            entries.push(ListEntry { name: name.clone(), node, inode, kind, cookie });
        }
        let shows = self.how.shows_control && !served.is_snapshot && after != CONTROL_COOKIE;
        if shows && entries.len() < entries_max {
            entries.push(ListEntry {
                name: b".zfs".to_vec(),
                node: served.node(CONTROL),
                inode: served.inode(CONTROL),
                kind: InodeKind::Directory,
                cookie: Cookie(CONTROL_COOKIE),
            });
        }
        Ok(entries)
    }

    async fn read(&self, file: Node, at: Offset, len: ByteCount) -> Result<SgList, InodeError> {
        let Place::File(served, object) = self.place(file)? else {
            return Err(InodeError::IsDirectory);
        };
        let node = self.file(&served, object).await?;
        match node.attributes.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(InodeError::IsDirectory),
            _ => return Err(InodeError::WrongKind),
        }
        let len = usize::try_from(len.bytes()).unwrap_or(usize::MAX);
        let read = served.files.read(&node, at.bytes(), len).await;
        read.map_err(|error| {
            let answer = wrong(&error);
            if matches!(answer, InodeError::Damaged | InodeError::Io) {
                let dataset = served.dataset.name.clone();
                let (at, len) = (at.bytes(), len as u64);
                (self.tell)(&Notice::Damage { dataset, object, at, len, error });
            }
            answer
        })
    }

    async fn link_target(&self, link: Node) -> Result<Vec<u8>, InodeError> {
        let Place::File(served, object) = self.place(link)? else {
            return Err(InodeError::WrongKind);
        };
        let node = self.file(&served, object).await?;
        served.files.link_target(&node).await.map_err(|error| wrong(&error))
    }

    async fn extended(&self, node: Node) -> Result<Vec<(Vec<u8>, Vec<u8>)>, InodeError> {
        let Place::File(served, object) = self.place(node)? else { return Ok(Vec::new()) };
        let node = self.file(&served, object).await?;
        let found = served.files.extended_attributes(&node).await;
        found.map_err(|error| wrong(&error))
    }

    async fn usage(&self) -> Result<Usage, InodeError> {
        let served = self.served.borrow().first().cloned().ok_or(InodeError::Gone)?;
        let used = served.dataset.head.referenced_bytes;
        // Who can't be told how much is free is told that nothing is: nothing can be written anyway.
        let free = self.available(&served.dataset.name).await.ok().flatten().unwrap_or(0);
        let files_free = free / DNODE_BYTES;
        let files = served.dataset.head.pointer.fill().saturating_add(files_free);
        let (total, free) = (ByteCount(used.saturating_add(free)), ByteCount(free));
        Ok(Usage { total, free, files, files_free })
    }

    /// Bytes that could be written to a dataset, or to the one that it is a snapshot of.
    async fn available(&self, dataset: &str) -> Result<Option<u64>, ZfsError> {
        let name = dataset.split('@').next().unwrap_or(dataset);
        let catalog = self.spa.catalog(self.spa.space().await?.capacity).await?;
        let Some(node) = catalog.find(name).await? else { return Ok(None) };
        Ok(catalog.view(&node).await?.numbers.get("available").copied())
    }
}

macro_rules! answer {
    ($mounted:expr, |$shared:ident| $answer:expr) => {{
        let $shared = Rc::clone(&$mounted.0);
        Box::pin(async move { $answer.await })
    }};
}

impl Inodes for Mounted {
    fn name(&self) -> Rc<str> {
        Rc::clone(&self.0.name)
    }

    fn lookup(&self, directory: Node, name: &[u8]) -> InodeFuture<Attributes> {
        let name = name.to_vec();
        answer!(self, |shared| shared.lookup(directory, &name))
    }

    fn attributes(&self, node: Node) -> InodeFuture<Attributes> {
        answer!(self, |shared| shared.attributes(node))
    }

    fn parent(&self, directory: Node) -> InodeFuture<Node> {
        answer!(self, |shared| shared.parent(directory))
    }

    fn read(&self, file: Node, at: Offset, len: ByteCount) -> InodeFuture<SgList> {
        answer!(self, |shared| shared.read(file, at, len))
    }

    fn list(
        &self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> InodeFuture<Vec<ListEntry>> {
        answer!(self, |shared| shared.list(directory, after, entries_max))
    }

    fn link_target(&self, link: Node) -> InodeFuture<Vec<u8>> {
        answer!(self, |shared| shared.link_target(link))
    }

    fn extended_attribute(&self, node: Node, name: &[u8]) -> InodeFuture<Vec<u8>> {
        let (shared, name) = (Rc::clone(&self.0), name.to_vec());
        Box::pin(async move {
            let found = shared.extended(node).await?;
            let value = found.into_iter().find(|(known, _)| *known == name);
            value.map(|(_, value)| value).ok_or(InodeError::NoAttribute)
        })
    }

    fn extended_attributes(&self, node: Node) -> InodeFuture<Vec<Vec<u8>>> {
        let shared = Rc::clone(&self.0);
        Box::pin(async move {
            let found = shared.extended(node).await?;
            Ok(found.into_iter().map(|(name, _)| name).collect())
        })
    }

    fn usage(&self) -> InodeFuture<Usage> {
        answer!(self, |shared| shared.usage())
    }
}
