//! Whatever gives files to programs: the trait [`Inodes`], a file system to be read by node.
//!
//! A [`FileTree`](crate::FileTree) is what loads run on: paths, plain files, nothing about owners. Who mounts a
//! file system needs what `stat` shows, links, extended attributes, and directories that are read in parts, all by
//! *node*, for a kernel remembers nodes and not paths. So this is a second trait and not a wider first one: the
//! trees of the lab would have to make all of that up.
//!
//! **The contract.**
//!
//! 1. A [`Node`] is a number that the file system gives: the same for the same file as long as it is served, another
//!    for each other file. [`Node::ROOT`] is the directory at the top. Nobody says when it forgets one, so
//!    a node must be findable from its number alone.
//! 2. What other file systems are mounted below (children, snapshots) are directories like others, with nodes of
//!    their own. [`Attributes::inode`] is what people see, and may be the same in two of them.
//! 3. Nothing changes while it is served: what was once answered may be kept.
//! 4. Names, targets and values are bytes, without zero bytes and in names without `/`. Only [`lookup`](Inodes::lookup) is
//!    asked for names that came from outside; never for `.` and `..`.
//! 5. A [`Cookie`] leads behind an entry, whatever was asked in between. Cookies are from [`Cookie::FIRST`] on and below
//!    2⁶³; a directory gives none twice.
//! 6. A directory is an entry of one directory, under one name. Where a file system holds it under another too,
//!    [`list`](Inodes::list) may name it there, and [`lookup`](Inodes::lookup) refuses it ([`InodeError::Loop`]): who
//!    walks comes to an end.
//! 7. Operations in flight together may be answered in any order.
//!
//! What it doesn't have: writing.

use crate::sg::SgList;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// A shared file system.
pub type InodesRef = Rc<dyn Inodes>;

/// An answer under way.
pub type InodeFuture<T> = Pin<Box<dyn Future<Output = Result<T, InodeError>>>>;

/// A file, directory or something else of a file system, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u64);

impl Node {
    /// The directory at the top.
    pub const ROOT: Node = Node(1);
}

/// A place in a directory: behind an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(pub u64);

impl Cookie {
    /// Before all entries.
    pub const START: Cookie = Cookie(0);
    /// The least that an entry may have: those before are for `.` and `..`.
    pub const FIRST: Cookie = Cookie(3);
}

/// Whatever gives files to programs. The contract stands in the [module](self).
pub trait Inodes {
    /// The name that `df` and `mount` show.
    fn name(&self) -> Rc<str>;

    /// The entry of this name in a directory.
    fn lookup(&self, directory: Node, name: &[u8]) -> InodeFuture<Attributes>;

    /// What is known of a node.
    fn attributes(&self, node: Node) -> InodeFuture<Attributes>;

    /// A directory that has this one as an entry; of the top, itself.
    fn parent(&self, directory: Node) -> InodeFuture<Node>;

    /// Bytes of a plain file: as many as there are, so fewer only at its end.
    fn read(&self, file: Node, at: Offset, len: ByteCount) -> InodeFuture<SgList>;

    /// Entries of a directory behind a place, without `.` and `..`, `entries_max` at the most; none at the end.
    fn list(
        &self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> InodeFuture<Vec<ListEntry>>;

    /// Where a symbolic link leads.
    fn link_target(&self, link: Node) -> InodeFuture<Vec<u8>>;

    /// The value of an extended attribute by its whole name, `user.comment`.
    fn extended_attribute(&self, node: Node, name: &[u8]) -> InodeFuture<Vec<u8>>;

    /// The names of all extended attributes.
    fn extended_attributes(&self, node: Node) -> InodeFuture<Vec<Vec<u8>>>;

    /// How large the file system is, and how much is free.
    fn usage(&self) -> InodeFuture<Usage>;
}

/// What a node is, as `S_IFMT` of its mode tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeKind {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
}

impl InodeKind {
    /// The kind's number in directories (`DT_REG`, …); four bits to the left, that in a mode.
    pub fn code(self) -> u32 {
        match self {
            InodeKind::Pipe => 1,
            InodeKind::CharacterDevice => 2,
            InodeKind::Directory => 4,
            InodeKind::BlockDevice => 6,
            InodeKind::File => 8,
            InodeKind::Link => 10,
            InodeKind::Socket => 12,
        }
    }
}

/// A moment by the calendar's clock, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; before 1970 below zero.
    pub seconds: i64,
    /// The rest, below 10⁹.
    pub nanoseconds: u32,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Which node.
    pub node: Node,
    /// The number that people see.
    pub inode: u64,
    /// Tells a file from an earlier one of the same number.
    pub generation: u64,
    /// What it is.
    pub kind: InodeKind,
    /// Permissions, set-user, set-group and sticky bit: the lower 12 bits of a mode.
    pub permissions: u16,
    /// How many names it has.
    pub links: u32,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Its length.
    pub size: ByteCount,
    /// Space that it takes.
    pub allocated: ByteCount,
    /// The unit in which it is best read.
    pub block_size: ByteCount,
    /// When it was last read.
    pub accessed: Timestamp,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When anything about it last changed.
    pub changed: Timestamp,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it leads to.
    pub node: Node,
    /// The number that people see.
    pub inode: u64,
    /// What that is.
    pub kind: InodeKind,
    /// The place behind it.
    pub cookie: Cookie,
}

/// How much of a file system is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in all.
    pub total: ByteCount,
    /// Bytes free.
    pub free: ByteCount,
    /// Files that there are and could be.
    pub files: u64,
    /// Files that could be made.
    pub files_free: u64,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InodeError {
    /// No such entry.
    #[error("there is no such file or directory")]
    NotFound,
    /// A directory was needed.
    #[error("it is not a directory")]
    NotDirectory,
    /// A plain file was needed.
    #[error("it is a directory")]
    IsDirectory,
    /// Something else than a symbolic link, or than a plain file.
    #[error("it is of another kind")]
    WrongKind,
    /// No extended attribute of this name.
    #[error("there is no such extended attribute")]
    NoAttribute,
    /// No node of this number, any more.
    #[error("the file is gone")]
    Gone,
    /// A directory as an entry of another than its own, where it would lead in a circle or be there twice.
    #[error("the directory belongs elsewhere")]
    Loop,
    /// The key of an encrypted dataset is not loaded.
    #[error("the key is not loaded")]
    NoKey,
    /// What is on the disks is damaged.
    #[error("the file is damaged")]
    Damaged,
    /// A device below failed.
    #[error("reading failed")]
    Io,
    /// The file system has no such thing.
    #[error("it is not supported")]
    NotSupported,
}
