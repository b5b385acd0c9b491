//! Files, directories and links of a file system.
//!
//! ```text
//!   FileSystem   an objset that holds files: its version, root, and what its attributes mean
//!   Node         a file, directory, link or device node: an object and its attributes
//! ```
//!
//! Here they are read; [`change`] changes them, and [`replay`] carries out what an intent log says by such changes.
//!
//! Attributes stand in the object's bonus, since version 5 as system attributes ([`attributes`]), which may go on in a
//! spill block. A directory is a table of names; a link's text stands with its attributes or, when long, in
//! its data. Extended attributes are a list among the attributes, or a hidden directory, or both.

pub mod attributes;
pub mod by_parent;
pub mod change;
pub mod descent;
pub mod difference;
mod extended;
mod log;
pub mod make;
pub mod name_rules;
mod quota;
pub mod replay;

use crate::dmu::{Dnode, Objset};
use crate::error::{Problem, ZfsError};
use crate::zap::{Cursor, Zap};
use crate::zil::{IntentLog, Itx};
use async_recursion::async_recursion as boxed;
pub(crate) use log::LoggedAttributes;
pub(crate) use quota::More;

use attributes::{Attributes, Stored};
use name_rules::NameRules;
use rt::SgList;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use zfs_format::FormatError;
use zfs_format::block_pointer::BLOCK_BYTES_MAX;
use zfs_format::dnode::{SLOT_BYTES, SLOTS_MAX};
use zfs_format::objset::ObjsetKind;
use zfs_format::zpl::acl::{self, AclEntry};
use zfs_format::zpl::attributes::{self as system, Layouts, Registered};
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};
use zfs_format::zpl::master;

/// The newest version of file systems.
pub const VERSION_MAX: u64 = 5;
/// The first version whose attributes are system attributes.
pub(crate) const VERSION_SYSTEM_ATTRIBUTES: u64 = 5;
/// The longest text of a symbolic link, in bytes: Linux's longest path.
const LINK_BYTES_MAX: u64 = 4096;
/// Symbolic links that one path may lead through: Linux's bound.
const LINKS_MAX: usize = 40;
/// Bytes of a block of files that are made, where nobody says otherwise: the default of `recordsize`.
const RECORD_BYTES: u64 = 128 << 10;
/// Bytes of the shortest block.
const RECORD_BYTES_MIN: u64 = 512;
/// Entries of a list of access that are read: OpenZFS's own bound is 1024.
const ACL_BYTES_MAX: u64 = 64 << 10;

/// An extended attribute: name and value.
pub type ExtendedAttribute = (Vec<u8>, Vec<u8>);

/// An open file system. Clones are handles of the same.
#[derive(Clone)]
pub struct FileSystem(Rc<Inner>);

struct Inner {
    objset: Objset,
    root: u64,
    version: u64,
    /// The known layouts of attributes, and the table that has them.
    layouts: RefCell<Rc<Layouts>>,
    layouts_table: Option<u64>,
    /// The table of files without a name.
    queue: Option<u64>,
    names: Cell<NameRules>,
    record_bytes: Cell<u64>,
    /// Slots of the dnodes of new files.
    dnode_slots: Cell<usize>,
    /// Which limits there are, as of a version of the master node, which stays open for that.
    limits: RefCell<Option<(Dnode, u64, Limits)>>,
    /// What takes note of changes, where they may have to be durable before their group.
    log: RefCell<Option<Rc<IntentLog>>>,
}

/// Objects of the tables of limits, as the master node names them; nothing where there is none.
type Limits = [Option<u64>; master::QUOTAS.len()];

/// An object of a file system, with its attributes as they were when it was asked for.
#[derive(Clone)]
pub struct Node {
    dnode: Dnode,
    /// What is known of it.
    pub attributes: Attributes,
    system: Stored,
}

impl Node {
    /// Its object's number: the inode number.
    pub fn number(&self) -> u64 {
        self.dnode.number()
    }

    /// Its object.
    pub fn dnode(&self) -> &Dnode {
        &self.dnode
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.attributes.kind == FileKind::Directory
    }
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its bytes.
    pub name: Vec<u8>,
    /// What it leads to.
    pub entry: DirectoryEntry,
    /// Where listing goes on after it.
    pub next: Cursor,
}

impl FileSystem {
    /// Opens the file system in an objset.
    ///
    /// # Errors
    /// The objset holds something else, or its master node can't be had.
    #[boxed(?Send)]
    pub async fn open(objset: &Objset) -> Result<FileSystem, ZfsError> {
        if objset.root().kind != ObjsetKind::FileSystem {
            return Err(objset.wrong(0, Problem::NotFileSystem));
        }
        let master = Zap::open(objset.dnode(master::OBJECT).await?).await?;
        let version = master.needed(master::VERSION).await?;
        if version > VERSION_MAX {
            return Err(objset.wrong(master::OBJECT, Problem::Version(version)));
        }
        let root = master.needed(master::ROOT).await?;
        let (layouts, layouts_table) = match version >= VERSION_SYSTEM_ATTRIBUTES {
            true => layouts(objset, master.needed(master::SA_ATTRIBUTES).await?).await?,
            false => Default::default(),
        };
        let queue = master.number(master::DELETE_QUEUE).await?;
        let rules = NameRules::read(&master).await?;
        let files = FileSystem::new(objset, root, version, layouts, (layouts_table, queue));
        files.set_name_rules(rules);
        Ok(files)
    }

    fn new(
        objset: &Objset,
        root: u64,
        version: u64,
        layouts: Layouts,
        (layouts_table, queue): (Option<u64>, Option<u64>),
    ) -> FileSystem {
        let (objset, layouts) = (objset.clone(), RefCell::new(Rc::new(layouts)));
        let (record_bytes, dnode_slots) = (Cell::new(RECORD_BYTES), Cell::new(1));
        let (log, limits, names) = Default::default();
        let inner = Inner {
            objset,
            root,
            version,
            layouts,
            layouts_table,
            queue,
            names,
            record_bytes,
            dnode_slots,
            limits,
            log,
        };
        FileSystem(Rc::new(inner))
    }

    /// Which names it takes.
    pub fn name_rules(&self) -> NameRules {
        self.0.names.get()
    }

    fn set_name_rules(&self, rules: NameRules) {
        self.0.names.set(rules);
    }

    /// Lets changes be logged.
    pub fn set_log(&self, log: Rc<IntentLog>) {
        *self.0.log.borrow_mut() = Some(log);
    }

    /// A change was made.
    fn logged(&self, txg: u64, intents: Vec<Itx>) {
        if let Some(log) = &*self.0.log.borrow() {
            intents.into_iter().for_each(|itx| log.push(txg, itx));
        }
    }

    fn layouts(&self) -> Rc<Layouts> {
        Rc::clone(&self.0.layouts.borrow())
    }

    fn set_layouts(&self, layouts: Rc<Layouts>) {
        *self.0.layouts.borrow_mut() = layouts;
    }

    fn layouts_table(&self) -> Option<u64> {
        self.0.layouts_table
    }

    /// Bytes of a block of a file of several.
    fn record_bytes(&self) -> u64 {
        self.0.record_bytes.get()
    }

    /// Lets blocks of files that get more than one from here on be so long, as the property `recordsize` says. Who says more than
    /// 128 KiB knows that the pool takes such blocks.
    pub fn set_record_bytes(&self, bytes: u64) {
        let bytes = bytes.clamp(RECORD_BYTES_MIN, BLOCK_BYTES_MAX);
        self.0.record_bytes.set(bytes.next_power_of_two());
    }

    /// Slots of the dnodes that new files get.
    pub fn dnode_slots(&self) -> usize {
        self.0.dnode_slots.get()
    }

    /// Lets new files have dnodes of so many bytes from here on, as the property `dnodesize` says. Who says more than one slot's
    /// knows that the pool takes such dnodes.
    pub fn set_dnode_bytes(&self, bytes: u64) {
        let slots = usize::try_from(bytes / SLOT_BYTES as u64).unwrap_or(SLOTS_MAX);
        self.0.dnode_slots.set(slots.clamp(1, SLOTS_MAX));
    }

    /// How many handles of it there are.
    pub fn handles(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// The table of files without a name.
    fn queue(&self) -> Option<u64> {
        self.0.queue
    }

    /// Files without a name that somebody held when the file system was last in use, or holds.
    ///
    /// # Errors
    /// The table of them can't be had.
    #[boxed(?Send)]
    pub async fn unlinked(&self) -> Result<Vec<u64>, ZfsError> {
        let Some(queue) = self.queue() else { return Ok(Vec::new()) };
        let entries = Zap::open(self.0.objset.dnode(queue).await?).await?.entries().await?;
        Ok(entries.iter().filter_map(crate::zap::Entry::number).collect())
    }

    /// Its objset.
    pub fn objset(&self) -> &Objset {
        &self.0.objset
    }

    /// Its version, 1 to 5.
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// The number of its root directory.
    pub fn root_number(&self) -> u64 {
        self.0.root
    }

    /// Its root directory.
    ///
    /// # Errors
    /// It can't be had.
    #[boxed(?Send)]
    pub async fn root(&self) -> Result<Node, ZfsError> {
        self.node(self.0.root).await
    }

    /// The file of this number.
    ///
    /// # Errors
    /// There is none, or it can't be had.
    #[boxed(?Send)]
    pub async fn node(&self, number: u64) -> Result<Node, ZfsError> {
        let dnode = self.0.objset.dnode(number).await?;
        let layouts = self.layouts();
        let (attributes, system) = attributes::read(&dnode, &layouts).await?;
        Ok(Node { dnode, attributes, system })
    }

    /// What a name in a directory leads to; nothing where there is none.
    ///
    /// # Errors
    /// The directory can't be had, or is none.
    #[boxed(?Send)]
    pub async fn lookup(
        &self,
        directory: &Node,
        name: &[u8],
    ) -> Result<Option<DirectoryEntry>, ZfsError> {
        let zap = self.table(directory).await?;
        let meant = self.name_rules().meant();
        let Some(value) = zap.get_as(name, meant).await? else { return Ok(None) };
        let wrong = || self.0.objset.wrong(directory.number(), Problem::Entry("of a file"));
        value.number().map(|value| Some(DirectoryEntry::from_value(value))).ok_or_else(wrong)
    }

    /// Names of a directory from there on: a stretch of them, empty only after the last.
    ///
    /// # Errors
    /// The directory can't be had, or is none.
    #[boxed(?Send)]
    pub async fn list(&self, directory: &Node, from: Cursor) -> Result<Vec<Name>, ZfsError> {
        let zap = self.table(directory).await?;
        self.list_in(directory, &zap, from).await
    }

    /// All names of a directory.
    ///
    /// # Errors
    /// As of [`FileSystem::list`].
    #[boxed(?Send)]
    pub async fn names(&self, directory: &Node) -> Result<Vec<Name>, ZfsError> {
        match self.names_until(directory).await {
            (all, None) => Ok(all),
            (_, Some(error)) => Err(error),
        }
    }

    /// The names of a directory up to the first that can't be had, and why it can't.
    #[boxed(?Send)]
    pub async fn names_until(&self, directory: &Node) -> (Vec<Name>, Option<ZfsError>) {
        let (mut all, mut cursor) = (Vec::new(), Cursor::default());
        let zap = match self.table(directory).await {
            Ok(zap) => zap,
            Err(error) => return (all, Some(error)),
        };
        loop {
            let names = match self.list_in(directory, &zap, cursor).await {
                Ok(names) => names,
                Err(error) => return (all, Some(error)),
            };
            let Some(last) = names.last() else { return (all, None) };
            cursor = last.next;
            all.extend(names);
        }
    }

    async fn list_in(
        &self,
        directory: &Node,
        zap: &Zap,
        from: Cursor,
    ) -> Result<Vec<Name>, ZfsError> {
        let wrong = || self.0.objset.wrong(directory.number(), Problem::Entry("of a file"));
        let entries = zap.list(from).await?.into_iter().map(|entry| {
            let value = entry.number().ok_or_else(wrong)?;
            let (name, next) = (entry.name, entry.next);
            Ok(Name { name, entry: DirectoryEntry::from_value(value), next })
        });
        entries.collect()
    }

    /// The table of a directory.
    async fn table(&self, directory: &Node) -> Result<Zap, ZfsError> {
        if !directory.is_directory() {
            return Err(self.0.objset.wrong(directory.number(), Problem::NotDirectory));
        }
        Zap::open(directory.dnode.clone()).await
    }

    /// The file at a path from the root, names divided by `/`; nothing where there is none. Links on the way are
    /// followed within the file system; the last one only if `follow`.
    ///
    /// # Errors
    /// Something on the way can't be had.
    #[boxed(?Send)]
    pub async fn find(&self, path: &[u8], follow: bool) -> Result<Option<Node>, ZfsError> {
        let mut parts: Vec<Vec<u8>> = split(path);
        let mut at = self.root().await?;
        let mut links = 0;
        while let Some(part) = parts.pop() {
            if part == b".." {
                at = self.node(at.attributes.parent).await?;
                continue;
            }
            if !at.is_directory() {
                return Ok(None);
            }
            let Some(entry) = self.lookup(&at, &part).await? else { return Ok(None) };
            let next = self.node(entry.object).await?;
            let is_link = next.attributes.kind == FileKind::SymbolicLink;
            if !is_link || parts.is_empty() && !follow {
                at = next;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(self.0.objset.wrong(next.number(), Problem::Twice));
            }
            let target = self.link_target(&next).await?;
            if target.starts_with(b"/") {
                at = self.root().await?;
            }
            parts.extend(split(&target));
        }
        Ok(Some(at))
    }

    /// Bytes of a file: fewer than asked for at its end.
    ///
    /// # Errors
    /// The first block that can't be had.
    #[boxed(?Send)]
    pub async fn read(&self, node: &Node, offset: u64, len: usize) -> Result<SgList, ZfsError> {
        let left = node.attributes.size.saturating_sub(offset);
        let len = len.min(usize::try_from(left).unwrap_or(usize::MAX));
        node.dnode.read(offset, len).await
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// It can't be had, or is longer than a path may be.
    #[boxed(?Send)]
    pub async fn link_target(&self, node: &Node) -> Result<Vec<u8>, ZfsError> {
        let wrong = |problem| self.0.objset.wrong(node.number(), problem);
        if node.attributes.kind != FileKind::SymbolicLink {
            return Err(wrong(Problem::NotLink));
        }
        if let Some(text) = node.system.get(system::names::SYMBOLIC_LINK) {
            return Ok(text.to_vec());
        }
        let size = node.attributes.size;
        if size > LINK_BYTES_MAX {
            let (what, limit) = ("bytes of a link", LINK_BYTES_MAX);
            return Err(wrong(Problem::Limit { what, limit }));
        }
        if let Some(text) = attributes::link_in_bonus(&node.dnode, size) {
            return Ok(text);
        }
        Ok(node.dnode.read(0, size as usize).await?.to_vec())
    }

    /// The list of access (NFSv4's) as stored; nothing where there is none.
    ///
    /// # Errors
    /// It can't be had, or is none.
    #[boxed(?Send)]
    pub async fn access_list(&self, node: &Node) -> Result<Option<Vec<AclEntry>>, ZfsError> {
        let wrong = |error| node.dnode.wrong(error);
        if let Some(list) = node.system.get(system::names::ACL) {
            return acl::decode(list, 1, node.dnode.endian()).map(Some).map_err(wrong);
        }
        let Some(stored) = &node.attributes.acl else { return Ok(None) };
        if stored.object == 0 {
            return stored.entries(node.dnode.endian()).map(Some).map_err(wrong);
        }
        let bytes = stored.list_bytes();
        if bytes > ACL_BYTES_MAX {
            let (what, limit) = ("bytes of a list of access", ACL_BYTES_MAX);
            return Err(self.0.objset.wrong(node.number(), Problem::Limit { what, limit }));
        }
        let list = self.0.objset.dnode(stored.object).await?;
        let block = list.read(0, bytes as usize).await?.to_vec();
        acl::decode(&block, stored.version, list.endian()).map(Some).map_err(wrong)
    }
}

/// The names of a path, the first last. `.` and empty names say nothing.
fn split(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let mut parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
    parts.reverse();
    parts
}

/// Reads the registry of attributes and their layouts.
async fn layouts(objset: &Objset, number: u64) -> Result<(Layouts, Option<u64>), ZfsError> {
    let master = Zap::open(objset.dnode(number).await?).await?;
    let mut layouts = Layouts::default();
    // A file system without files has neither yet.
    if let Some(registry) = master.number(system::REGISTRY).await? {
        let zap = Zap::open(objset.dnode(registry).await?).await?;
        for entry in zap.entries().await? {
            let wrong = || objset.wrong(registry, Problem::Entry("of an attribute"));
            let value = entry.number().ok_or_else(wrong)?;
            layouts.register(&entry.text(), Registered::from_value(value));
        }
    }
    let table = master.number(system::LAYOUTS).await?;
    if let Some(number) = table {
        let zap = Zap::open(objset.dnode(number).await?).await?;
        for entry in zap.entries().await? {
            let wrong = |error: FormatError| zap.dnode().wrong(error);
            layouts.add_layout(&entry.text(), &entry.value.numbers).map_err(wrong)?;
        }
    }
    Ok((layouts, table))
}
