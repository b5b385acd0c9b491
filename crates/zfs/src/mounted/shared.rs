//! What one mount knows: its datasets, and the files that are kept open.

use super::holds::Holds;
use super::refusal::wrong;
use crate::dmu::Caching;
use crate::dsl::catalog::Node as CatalogNode;
use crate::dsl::{Dataset, Directory};
use crate::error::{Problem, ZfsError};
use crate::spa::Spa;
use crate::spa::live::{Live, set_number};
use crate::zil::{self, Synchronous, Unreplayed};
use crate::zpl::name_rules::NameRules;
use crate::zpl::{FileSystem, Node as FileNode};
use rt::inodes::{ChangeNotice, InodeError, MountId, Node, WallClock, Watcher, acl};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use zfs_format::objset::ObjsetKind;

/// Datasets and snapshots that one mount reaches: 16 bits of a node.
pub(super) const DATASETS_MAX: usize = 1 << 16;
/// Bits of a node that are the object.
pub(super) const OBJECT_BITS: u32 = 48;
/// The object of `.zfs`, as OpenZFS numbers it.
pub(super) const CONTROL: u64 = (1 << OBJECT_BITS) - 1;
/// The object of `.zfs/snapshot`.
pub(super) const SNAPSHOTS: u64 = (1 << OBJECT_BITS) - 3;
/// The first object of children that can't be opened.
pub(super) const CLOSED: u64 = 0xffff_0000_0000;
/// Cookies of children begin here: beyond those of a table of names.
pub(super) const CHILDREN_FROM: u64 = 1 << 62;
/// The cookie of `.zfs`, behind all children.
pub(super) const CONTROL_COOKIE: u64 = (1 << 63) - 1;
/// Bytes of the smallest dnode: as many files can be made as they have room, as ZFS tells it.
pub(super) const DNODE_BYTES: u64 = 512;
/// Directories whose names are remembered, of some 64 bytes each. Beyond, all are forgotten, and a forged directory may once
/// more be found under a second name.
pub(super) const NAMES_MAX: usize = 1 << 18;
/// Files that are kept open: so that reading on in one finds what was read ahead.
pub(super) const OPEN_MAX: usize = 1024;

/// How a dataset is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether `.zfs` is listed; where nothing is said, as the property `snapdir` of each dataset has it.
    pub shows_control: Option<bool>,
    /// Whether intent logs are laid over datasets.
    pub with_log: bool,
    /// Children that are mounted elsewhere, by their property `mountpoint`, are left out.
    pub by_mountpoint: bool,
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

/// What a mount that is written needs.
#[derive(Clone)]
pub struct Writing {
    /// The pool. Whoever has it runs [`Live::keep_synced`] meanwhile.
    pub live: Rc<Live>,
    /// Where times come from.
    pub clock: Rc<dyn WallClock>,
}

/// Whoever watches, by mount.
#[derive(Default)]
pub(super) struct Watchers {
    pub(super) all: BTreeMap<MountId, Rc<dyn Watcher>>,
    pub(super) last: u64,
}

pub(super) struct Shared {
    pub(super) spa: Rc<Spa>,
    pub(super) name: Rc<str>,
    pub(super) how: MountOptions,
    pub(super) tell: Tell,
    /// Datasets that were taken up, in that order; nothing where one has left.
    pub(super) served: RefCell<Vec<Option<Rc<Served>>>>,
    /// Datasets that are served, by their object.
    pub(super) known: RefCell<BTreeMap<u64, usize>>,
    /// Names under which directories were found, by their inodes.
    pub(super) names: RefCell<BTreeMap<u64, Box<[u8]>>>,
    pub(super) open: RefCell<Open>,
    /// Nothing where it is only read.
    pub(super) writing: Option<Writing>,
    pub(super) holds: Rc<Holds>,
    pub(super) watchers: RefCell<Watchers>,
}

/// Files that are kept open, from the one opened first on.
#[derive(Default)]
pub(super) struct Open {
    /// With the version of the object that they are of.
    pub(super) nodes: BTreeMap<u64, (u64, Rc<FileNode>)>,
    pub(super) order: VecDeque<u64>,
}

/// One dataset or snapshot of the mount.
pub(super) struct Served {
    pub(super) index: u64,
    pub(super) files: FileSystem,
    pub(super) dataset: Dataset,
    /// The directory in which its root is an entry; itself at the top.
    pub(super) parent: Cell<Node>,
    /// As it was called when it was looked at last.
    pub(super) directory: RefCell<Rc<Directory>>,
    children: RefCell<Rc<Children>>,
    pub(super) is_snapshot: bool,
    /// Snapshots that were asked for by name.
    pub(super) asked: RefCell<BTreeMap<Vec<u8>, Asked>>,
    /// Its snapshots as they were when they were listed last.
    pub(super) snapshots: RefCell<Option<Rc<Snapshots>>>,
    /// By its properties, as they were when they were looked at last.
    pub(super) how: Cell<HowServed>,
    /// As it was counted last.
    pub(super) space: Cell<Option<KnownSpace>>,
}

/// Space of a dataset, in bytes.
#[derive(Clone, Copy)]
pub(super) struct KnownSpace {
    /// The transaction group of the pool, and the tasks that were done in it.
    pub(super) as_of: (u64, u64),
    /// What it refers to.
    pub(super) used: u64,
    /// What could be written to it.
    pub(super) free: u64,
    /// How many objects it has.
    pub(super) files: u64,
}

/// The children of a dataset that are file systems: by name, their directories. None of a snapshot.
#[derive(Clone, Default)]
pub(super) struct Children {
    /// Which of their names are the same: they stand among the dataset's own.
    rules: NameRules,
    /// The tasks of the pool that were done when they were looked for.
    as_of: u64,
    /// In the order in which they were found. One that went or got another name leaves a gap: their places are numbers that
    /// programs know them by.
    all: Vec<Option<(Vec<u8>, Rc<Directory>)>>,
}

/// What a name of a snapshot led to when it was asked for: its object and GUID, or nothing.
pub(super) type Asked = Option<(u64, u64)>;

/// The snapshots of a dataset, from the oldest on.
pub(super) struct Snapshots {
    /// The tasks of the pool that were done when they were looked for.
    pub(super) as_of: u64,
    /// Their names, their objects, and the transaction groups that they were taken in: one of a dataset in each at the most.
    pub(super) all: Vec<(Vec<u8>, u64, u64)>,
}

impl Served {
    /// Whether a child was called so when they were looked for last, or by a name that is the same here.
    pub(super) fn has_child(&self, name: &[u8]) -> bool {
        self.children.borrow().find(name).is_some()
    }
}

impl Children {
    /// What is there now, in the places that it had.
    fn renewed(&self, as_of: u64, found: Vec<(Vec<u8>, Rc<Directory>)>) -> Children {
        let is = |one: &(Vec<u8>, Rc<Directory>), other: &(Vec<u8>, Rc<Directory>)| {
            one.0 == other.0 && one.1.number == other.1.number
        };
        // What is the same may lie below another name.
        let stays = |known: &Option<(Vec<u8>, Rc<Directory>)>| {
            let known = known.as_ref()?;
            found.iter().find(|found| is(found, known)).cloned()
        };
        let mut all: Vec<_> = self.all.iter().map(stays).collect();
        for new in found {
            if !all.iter().flatten().any(|known| is(known, &new)) {
                all.push(Some(new));
            }
        }
        Children { rules: self.rules, as_of, all }
    }

    /// The one of a name, and its place. Of several whose names are the same it is the one that is spelt so, or the first.
    pub(super) fn find(&self, name: &[u8]) -> Option<(usize, &Rc<Directory>)> {
        let spelt = self.iter().find(|(_, child, _)| *child == name);
        let found = match self.rules.folds() {
            false => spelt,
            true => spelt.or_else(|| {
                let same = self.rules.same(name);
                self.iter().find(|(_, child, _)| self.rules.same(child) == same)
            }),
        };
        found.map(|(at, _, directory)| (at, directory))
    }

    /// Their places, names and directories.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &[u8], &Rc<Directory>)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, child)| child.as_ref().map(|(name, of)| (at, &name[..], of)))
    }
}

/// How a dataset is read and written.
#[derive(Clone, Copy, Default)]
pub(super) struct HowServed {
    /// It can be written, and with how many copies; nothing where it can't.
    pub(super) copies: Option<u64>,
    pub(super) access: Access,
    pub(super) synchronous: Synchronous,
    /// `.zfs` is listed.
    pub(super) shows_control: bool,
    /// POSIX lists of access are neither shown nor kept (`acltype`).
    pub(super) hides_lists: bool,
    pub(super) extended: Extended,
}

/// Where extended attributes are put that are set (`xattr`). Those that are there are found wherever they are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Extended {
    /// Among the file's attributes.
    #[default]
    Listed,
    /// Files of a hidden directory.
    Hidden,
    /// Users have none.
    Off,
}

/// Values of `acltype` and `xattr`.
const ACL_POSIX: u64 = 1;
const EXTENDED_OFF: u64 = 0;
const EXTENDED_HIDDEN: u64 = 1;

/// When times of access are kept.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Access {
    #[default]
    Never,
    /// Where they would tell that something was read since it was changed, and once a day (`relatime`).
    Relative,
    Always,
}

impl HowServed {
    /// By the properties of a dataset that is written.
    fn of(node: &CatalogNode) -> HowServed {
        let is_on = |name, otherwise| set_number(node, name).unwrap_or(otherwise) != 0;
        let access = match (is_on("atime", 1), is_on("relatime", 1)) {
            (false, _) => Access::Never,
            (true, true) => Access::Relative,
            (true, false) => Access::Always,
        };
        let copies = set_number(node, "copies").unwrap_or(1).clamp(1, 3);
        let extended = match set_number(node, "xattr") {
            Some(EXTENDED_OFF) => Extended::Off,
            Some(EXTENDED_HIDDEN) => Extended::Hidden,
            _ => Extended::Listed,
        };
        HowServed {
            copies: (!is_on("readonly", 0)).then_some(copies),
            access,
            synchronous: Synchronous::of(set_number(node, "sync")),
            shows_control: is_on("snapdir", 0),
            hides_lists: set_number(node, "acltype") != Some(ACL_POSIX),
            extended,
        }
    }

    /// By the properties of a dataset that is only read, or of the one that it is a snapshot of.
    fn of_read(node: &CatalogNode) -> HowServed {
        let HowServed { shows_control, hides_lists, extended, .. } = HowServed::of(node);
        HowServed { shows_control, hides_lists, extended, ..HowServed::default() }
    }

    /// Whether an extended attribute of this name is shown.
    pub(super) fn shows(self, name: &[u8]) -> bool {
        !self.hides_list(name) && !self.has_none(name)
    }

    /// Whether it is a list of access, of which there are none.
    pub(super) fn hides_list(self, name: &[u8]) -> bool {
        self.hides_lists && (name == acl::ACCESS || name == acl::DEFAULT)
    }

    /// Whether it is a user's, of which there are none.
    pub(super) fn has_none(self, name: &[u8]) -> bool {
        self.extended == Extended::Off && name.starts_with(b"user.")
    }
}

/// What a node is.
pub(super) enum Place {
    /// A file, or the root.
    File(Rc<Served>, u64),
    /// `.zfs`.
    Control(Rc<Served>),
    /// `.zfs/snapshot`.
    Snapshots(Rc<Served>),
}

impl Served {
    pub(super) fn node(&self, object: u64) -> Node {
        match (self.index, object == self.files.root_number()) {
            (0, true) => Node::ROOT,
            _ => Node(self.index << OBJECT_BITS | object),
        }
    }

    /// The place of a dataset among those of the mount, and the object, of an inode.
    pub(super) fn parts(inode: u64) -> (usize, u64) {
        ((inode >> OBJECT_BITS) as usize, inode & CONTROL)
    }

    pub(super) fn inode(&self, object: u64) -> u64 {
        self.index << OBJECT_BITS | object
    }

    /// What it was called when it was looked at last.
    pub(super) fn name(&self) -> String {
        match self.is_snapshot {
            true => self.dataset.name.clone(),
            false => self.directory.borrow().name.clone(),
        }
    }

    pub(super) fn root(&self) -> Node {
        self.node(self.files.root_number())
    }

    pub(super) fn is_root(&self, object: u64) -> bool {
        object == self.files.root_number()
    }
}

impl Shared {
    /// Takes up a dataset, once.
    pub(super) async fn serve(
        &self,
        directory: &Rc<Directory>,
        dataset: Dataset,
        parent: Node,
    ) -> Result<Rc<Served>, ZfsError> {
        if let Some(served) = self.known(&dataset) {
            return Ok(served);
        }
        let is_snapshot = dataset.snapshot_name().is_some();
        if let (Some(writing), false) = (&self.writing, is_snapshot) {
            let (files, how) = open_live(writing, &dataset).await?;
            return self.take_up(files, directory, dataset, parent, how).await;
        }
        let objset = self.spa.objset(directory, &dataset).await?;
        // A dataset whose properties can't be had is read all the same.
        let mut how = HowServed::default();
        if let Ok(catalog) = self.spa.catalog(0).await
            && let Ok(Some(node)) = catalog.find(&directory.name).await
        {
            objset.set_caching(Caching::of(set_number(&node, "primarycache")));
            how = HowServed::of_read(&node);
        }
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
        self.take_up(files, directory, dataset, parent, how).await
    }

    async fn take_up(
        &self,
        files: FileSystem,
        directory: &Rc<Directory>,
        dataset: Dataset,
        parent: Node,
        how: HowServed,
    ) -> Result<Rc<Served>, ZfsError> {
        let number = dataset.number;
        let children = match dataset.snapshot_name() {
            Some(_) => Children::default(),
            None => {
                let tasks = self.tasks();
                let none = Children { rules: files.name_rules(), ..Children::default() };
                none.renewed(tasks, self.look_for_children(directory).await?)
            }
        };
        // Another request may have taken it up meanwhile.
        if let Some(served) = self.known(&dataset) {
            return Ok(served);
        }
        let mut all = self.served.borrow_mut();
        if all.len() >= DATASETS_MAX {
            let (what, limit) = ("datasets of a mount", DATASETS_MAX as u64);
            return Err(files.objset().wrong(0, Problem::Limit { what, limit }));
        }
        let is_snapshot = dataset.snapshot_name().is_some();
        let index = all.len() as u64;
        let served = Rc::new(Served {
            index,
            files,
            dataset,
            parent: Cell::new(parent),
            directory: RefCell::new(Rc::clone(directory)),
            children: RefCell::new(Rc::new(children)),
            is_snapshot,
            asked: RefCell::default(),
            snapshots: RefCell::default(),
            space: Cell::default(),
            how: Cell::new(how),
        });
        all.push(Some(Rc::clone(&served)));
        self.known.borrow_mut().insert(number, index as usize);
        Ok(served)
    }

    /// The dataset at the top.
    pub(super) fn top(&self) -> Rc<Served> {
        let top = self.served.borrow().first().cloned().flatten();
        top.expect("it is taken up when it is mounted, and never leaves")
    }

    /// A dataset that was taken up. What had its object before and was destroyed is another.
    pub(super) fn known(&self, dataset: &Dataset) -> Option<Rc<Served>> {
        let index = *self.known.borrow().get(&dataset.number)?;
        let served = self.served.borrow().get(index).cloned().flatten()?;
        let is_it = served.dataset.head.guid == dataset.head.guid && !self.is_gone(&served);
        is_it.then_some(served)
    }

    /// Whether it was destroyed: nothing of it is read any more.
    pub(super) fn is_gone(&self, served: &Served) -> bool {
        served.is_snapshot && self.is_destroyed(served.dataset.head.guid)
    }

    /// Whether the snapshot of this GUID was destroyed while the pool was written.
    pub(super) fn is_destroyed(&self, guid: u64) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.live.is_destroyed(guid))
    }

    /// Tasks that were done in the pool: none in one that is only read.
    pub(super) fn tasks(&self) -> u64 {
        self.writing.as_ref().map_or(0, |writing| writing.live.tasks())
    }

    /// Looks at the properties of a dataset of a pool that is written. What the kernel knows of lists of access it is to ask for anew, of files
    /// that are open.
    pub(super) async fn look_at_properties(&self, of: &Served) -> Result<(), ZfsError> {
        let Some(writing) = &self.writing else { return Ok(()) };
        let name = of.directory.borrow().name.clone();
        let Some(node) = writing.live.spa().catalog(0).await?.find(&name).await? else {
            return Ok(());
        };
        let now = match of.is_snapshot {
            true => HowServed::of_read(&node),
            false => HowServed::of(&node),
        };
        let before = of.how.replace(now);
        if before.hides_lists != now.hides_lists {
            let open: Vec<u64> = self.open.borrow().nodes.keys().copied().collect();
            let of_it = open.into_iter().map(Served::parts);
            let of_it = of_it.filter(|(index, _)| *index as u64 == of.index);
            let notices = of_it.map(|(_, object)| ChangeNotice::Attributes(of.node(object)));
            self.tell_all(MountId::NONE, &notices.collect::<Vec<_>>());
        }
        Ok(())
    }

    /// The children of a dataset, as they are now.
    pub(super) async fn children(&self, of: &Served) -> Result<Rc<Children>, ZfsError> {
        let (known, tasks) = (Rc::clone(&of.children.borrow()), self.tasks());
        if of.is_snapshot || known.as_of == tasks {
            return Ok(known);
        }
        let directory = Rc::new(self.directory_of(of).await?);
        let found = self.look_for_children(&directory).await?;
        *of.directory.borrow_mut() = directory;
        // Another may have looked meanwhile, and given places.
        let before = Rc::clone(&of.children.borrow());
        let now = Rc::new(before.renewed(tasks, found));
        *of.children.borrow_mut() = Rc::clone(&now);
        self.tell_of_children(of, &before, &now);
        Ok(now)
    }

    pub(super) async fn look_for_children(
        &self,
        directory: &Directory,
    ) -> Result<Vec<(Vec<u8>, Rc<Directory>)>, ZfsError> {
        let dsl = self.spa.dsl();
        let away = match self.how.by_mountpoint {
            true => self.away(directory).await?,
            false => BTreeSet::new(),
        };
        let mut children = Vec::new();
        for (name, number) in dsl.children(directory).await? {
            let child = Rc::new(dsl.child(directory, &name, number).await?);
            let Some(head) = dsl.head(&child).await? else { continue };
            if away.contains(&child.number) {
                continue;
            }
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

    /// The children of a directory that are mounted elsewhere.
    async fn away(&self, directory: &Directory) -> Result<BTreeSet<u64>, ZfsError> {
        let catalog = self.spa.catalog(0).await?;
        let node = catalog.find_damaged(&directory.name).await?;
        let Some(node) = node else { return Ok(BTreeSet::new()) };
        let children = catalog.children_and_damaged(&node).await?.nodes;
        let away = children.iter().filter(|child| node.leads_away(child));
        Ok(away.map(|child| child.directory.number).collect())
    }

    /// The datasets of the mount, from the one at the top on, with where each lies below the directory. None is opened for that.
    pub(super) async fn shown(&self) -> Result<Vec<(String, Vec<u8>)>, ZfsError> {
        let top = self.top();
        if top.is_snapshot {
            return Ok(vec![(top.name(), Vec::new())]);
        }
        let top = Rc::new(self.directory_of(&top).await?);
        let (mut shown, mut waiting) = (Vec::new(), vec![(top, Vec::new())]);
        while let Some((directory, path)) = waiting.pop() {
            for (name, child) in self.look_for_children(&directory).await? {
                let path = match &path[..] {
                    [] => name,
                    above => [above, b"/", &name].concat(),
                };
                waiting.push((child, path));
            }
            shown.push((directory.name.clone(), path));
        }
        Ok(shown)
    }

    pub(super) fn place(&self, node: Node) -> Result<Place, InodeError> {
        let (index, object) = match node {
            Node::ROOT => (0, None),
            Node(number) => (number >> OBJECT_BITS, Some(number & CONTROL)),
        };
        let served = self.served.borrow().get(index as usize).cloned().flatten();
        let served = served.filter(|served| !self.is_gone(served)).ok_or(InodeError::Gone)?;
        let object = object.unwrap_or(served.files.root_number());
        Ok(match object {
            CONTROL => Place::Control(served),
            SNAPSHOTS => Place::Snapshots(served),
            CLOSED.. => return Err(InodeError::NoKey),
            object => Place::File(served, object),
        })
    }

    /// A file, from those that are open or opened now.
    pub(super) async fn file(
        &self,
        served: &Served,
        object: u64,
    ) -> Result<Rc<FileNode>, InodeError> {
        let number = served.inode(object);
        if let Some((version, node)) = self.open.borrow().nodes.get(&number)
            && *version == node.dnode().version()
        {
            return Ok(Rc::clone(node));
        }
        let node = Rc::new(served.files.node(object).await.map_err(|error| wrong(&error))?);
        let mut open = self.open.borrow_mut();
        let known = (node.dnode().version(), Rc::clone(&node));
        if open.nodes.insert(number, known).is_none() {
            open.order.push_back(number);
        }
        while open.order.len() > OPEN_MAX {
            if let Some(first) = open.order.pop_front() {
                open.nodes.remove(&first);
            }
        }
        Ok(node)
    }

    pub(super) async fn child(
        &self,
        of: &Served,
        directory: &Rc<Directory>,
    ) -> Result<Rc<Served>, InodeError> {
        let dsl = self.spa.dsl();
        let head = dsl.head(directory).await.map_err(|error| wrong(&error))?;
        let head = head.ok_or(InodeError::NotFound)?;
        let served = self.serve(directory, head, of.root()).await.map_err(|error| wrong(&error))?;
        // It may have lain elsewhere before.
        served.parent.set(of.root());
        Ok(served)
    }

    pub(super) async fn snapshot(
        &self,
        of: &Served,
        name: &[u8],
    ) -> Result<Rc<Served>, InodeError> {
        let found = self.find_snapshot(of, name).await.map_err(|error| wrong(&error))?;
        let (directory, dataset) = found.ok_or(InodeError::NotFound)?;
        let parent = of.node(SNAPSHOTS);
        let served = self.serve(&Rc::new(directory), dataset, parent).await;
        served.map_err(|error| wrong(&error))
    }
}

/// Opens a dataset of a pool that is written, and says how it is.
/// What was open without a name when it was last in use is freed.
async fn open_live(
    writing: &Writing,
    dataset: &Dataset,
) -> Result<(FileSystem, HowServed), ZfsError> {
    let live = &writing.live;
    let catalog = live.spa().catalog(0).await?;
    let node = catalog.find(&dataset.name).await?;
    let node = node.ok_or_else(|| live.spa().mos().wrong(dataset.number, Problem::Absent))?;
    let files = live.files(&node).await?;
    let how = HowServed::of(&node);
    if how.copies.is_some() {
        for unlinked in files.unlinked().await? {
            files.drain(unlinked).await?;
        }
    }
    Ok((files, how))
}
