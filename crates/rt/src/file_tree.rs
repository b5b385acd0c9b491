//! Whatever stores files: the traits [`FileTree`] and [`File`].
//!
//! A directory of the host, a file system model over simulated disks, a tree in memory, later a
//! pool's file system: each is a `FileTree`, and who loads one can't tell which.
//!
//! **The contract.**
//!
//! 1. Paths are relative to the tree's root, of plain names and `/`. `..`, an absolute path and an
//!    empty name are refused ([`TreeErrorKind::BadPath`]); the empty path is the root.
//! 2. Data goes by [`Request`]s, as to a device, but at any byte: [`File::submit`] takes reads, writes,
//!    flushes (which make *data and what is needed to find it* durable, as `fdatasync` does), discards
//!    (a hole) and write-zeroes. A file opened [direct](OpenHow::direct) asks for the alignment that it
//!    names, and refuses others with [`IoErrorKind::Invalid`](crate::IoErrorKind::Invalid).
//! 3. A read that reaches beyond the end of the file is answered with what there is: less than was
//!    asked for, or nothing. A write beyond the end makes the file longer; the gap reads as zeros.
//! 4. A write that was answered is visible to every later read of that file, through any handle. It is
//!    durable by rule 3 of [`Device`](crate::Device); so is what creating, removing and renaming did,
//!    after [`File::sync`] of the file or [`FileTree::sync`] was answered.
//! 5. A file that is removed while it is open lives until the last handle is dropped.
//! 6. As with devices: poll a future at once; operations in flight together may be done in any order.
//!
//! What it doesn't have: owners, permissions, links, extended attributes, locks. They come with the
//! first tree that serves people rather than loads.

use crate::device::{IoError, IoFuture, Request};
use std::fmt;
use std::future::Future;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// A shared tree.
pub type TreeRef = Rc<dyn FileTree>;

/// A shared open file. Dropping the last one closes it.
pub type FileRef = Rc<dyn File>;

/// An operation on a tree under way.
pub type TreeFuture<T> = Pin<Box<dyn Future<Output = Result<T, TreeError>>>>;

/// Whatever stores files. The contract stands in the [module](self).
pub trait FileTree {
    /// The name that errors and tables show.
    fn name(&self) -> Rc<str>;

    /// Opens a file, or creates it, as `how` says.
    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef>;

    /// Creates a directory; its parent is there.
    fn create_directory(&self, path: &Path) -> TreeFuture<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> TreeFuture<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> TreeFuture<()>;

    /// Renames a file or directory; a file that is there is replaced, in one step.
    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()>;

    /// The entries of a directory, in the tree's own order; without `.` and `..`.
    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>>;

    /// What is known of a file or directory, by its path.
    fn status(&self, path: &Path) -> TreeFuture<FileStatus>;

    /// Fails where a part of the path is a symbolic link, so that what is made or removed there would
    /// lie somewhere else ([`TreeErrorKind::Link`]). Trees without links have nothing to look for.
    fn check_no_link(&self, _path: &Path) -> TreeFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Makes everything durable that was answered before.
    fn sync(&self) -> TreeFuture<()>;

    /// Makes durable what was created, removed and renamed in this directory, as `fsync` of a directory
    /// does. A tree that knows no such thing makes everything durable.
    fn sync_directory(&self, _path: &Path) -> TreeFuture<()> {
        self.sync()
    }

    /// How large the tree is and how much of it is free.
    fn space(&self) -> TreeFuture<Space>;

    /// The same of the file system on which a path lies, or would lie: a tree over a host's directories spans several.
    fn space_at(&self, _path: &Path) -> TreeFuture<Space> {
        self.space()
    }
}

/// An open file. The contract stands in the [module](self).
pub trait File {
    /// The name that errors show: the tree's and the path.
    fn name(&self) -> Arc<str>;

    /// The multiple that places and lengths of reads and writes must keep to: 1 for buffered files.
    fn alignment(&self) -> ByteCount;

    /// Reads, writes, flushes data, makes a hole, or zeroes. A read may be answered short, at the end.
    fn submit(&self, request: Request) -> IoFuture;

    /// Reads into the caller's memory, at once and on this thread; says how much came, which is less
    /// than was asked for only at the end. `None` where the tree has no such way: [`File::submit`] then.
    ///
    /// It is for loads that stand for a program with one buffer and plain system calls, where a call
    /// must cost what it costs that program. No other task of the runtime goes on meanwhile.
    fn read_at_once(&self, _at: Offset, _into: &mut [u8]) -> Option<Result<usize, IoError>> {
        None
    }

    /// Writes all of `data`, at once and on this thread. `None` as with [`File::read_at_once`].
    fn write_at_once(&self, _at: Offset, _data: &[u8]) -> Option<Result<(), IoError>> {
        None
    }

    /// What is known of the file, its size first of all.
    fn status(&self) -> TreeFuture<FileStatus>;

    /// Makes the file longer (with zeros) or shorter.
    fn set_size(&self, size: ByteCount) -> TreeFuture<()>;

    /// Takes the space for the bytes up to `size`, so that writing them can't lack any; the file's
    /// size grows to it. Where the tree can't promise, only the size changes.
    fn allocate(&self, size: ByteCount) -> TreeFuture<()>;

    /// Makes data and all that is known of the file durable, as `fsync` does.
    fn sync(&self) -> TreeFuture<()>;

    /// Forgets what memory holds of the file's clean data, as `POSIX_FADV_DONTNEED` does, so that the
    /// next read is answered by the disk. A wish: the tree may keep what it likes.
    fn drop_cache(&self) -> TreeFuture<()>;
}

/// How to open a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// For writing as well as reading.
    pub write: bool,
    /// Creates the file where there is none.
    pub create: bool,
    /// With `create`: refuses a file that is there.
    pub exclusive: bool,
    /// Empties a file that is there.
    pub truncate: bool,
    /// Past the tree's cache, to the disk.
    pub direct: bool,
    /// Every write is durable (data, and what is needed to find it) when it is answered.
    pub durable_writes: bool,
    /// Advice: it will be read at random places, so nothing need be read ahead.
    pub random: bool,
}

impl OpenHow {
    /// For reading.
    pub fn read() -> OpenHow {
        OpenHow::default()
    }

    /// For reading and writing a file that is there.
    pub fn write() -> OpenHow {
        OpenHow { write: true, ..OpenHow::default() }
    }

    /// For reading and writing; created where there is none, emptied where there is one.
    pub fn create() -> OpenHow {
        OpenHow { write: true, create: true, truncate: true, ..OpenHow::default() }
    }

    /// The same, direct or not.
    pub fn with_direct(mut self, direct: bool) -> OpenHow {
        self.direct = direct;
        self
    }

    /// The same, with every write durable or not.
    pub fn with_durable_writes(mut self, durable: bool) -> OpenHow {
        self.durable_writes = durable;
        self
    }
}

/// File, directory, or something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A block device that stands in the tree as a file.
    BlockDevice,
    /// A pipe or a socket: who opens it may wait for ever, so no load does.
    Pipe,
    /// A character device, ...
    Other,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// What it is.
    pub kind: FileKind,
    /// Its size; of a block device its capacity; of a directory whatever the tree says.
    pub size: ByteCount,
    /// Space that it takes; less than the size where there are holes or compression.
    pub allocated: ByteCount,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name, without the directory.
    pub name: PathBuf,
    /// What it is.
    pub kind: FileKind,
}

/// The size of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// In all.
    pub total: ByteCount,
    /// Free for whoever asks.
    pub free: ByteCount,
}

/// What was to be done to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeOp {
    /// [`FileTree::open`] of a file that is there.
    Open,
    /// [`FileTree::open`] with `create`.
    Create,
    /// [`FileTree::create_directory`]
    CreateDirectory,
    /// [`FileTree::remove_directory`]
    RemoveDirectory,
    /// [`FileTree::remove_file`]
    RemoveFile,
    /// [`FileTree::rename`]
    Rename,
    /// [`FileTree::list`]
    List,
    /// [`FileTree::status`], [`File::status`]
    Status,
    /// [`FileTree::sync`], [`File::sync`]
    Sync,
    /// [`FileTree::space`]
    Space,
    /// [`File::set_size`]
    SetSize,
    /// [`File::allocate`]
    Allocate,
    /// [`File::drop_cache`]
    DropCache,
}

impl fmt::Display for TreeOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TreeOp::Open => "opening",
            TreeOp::Create => "creating",
            TreeOp::CreateDirectory => "creating the directory",
            TreeOp::RemoveDirectory => "removing the directory",
            TreeOp::RemoveFile => "removing",
            TreeOp::Rename => "renaming",
            TreeOp::List => "listing",
            TreeOp::Status => "looking at",
            TreeOp::Sync => "making durable",
            TreeOp::Space => "asking for the space of",
            TreeOp::SetSize => "setting the size of",
            TreeOp::Allocate => "taking space for",
            TreeOp::DropCache => "dropping the cache of",
        })
    }
}

/// What went wrong on a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeErrorKind {
    /// No such file or directory.
    #[error("there is no such file or directory")]
    NotFound,
    /// It is there already.
    #[error("it is there already")]
    Exists,
    /// A part of the path that should be a directory is none.
    #[error("a part of the path is not a directory")]
    NotDirectory,
    /// A directory where a file was meant.
    #[error("it is a directory")]
    IsDirectory,
    /// A pipe or a socket.
    #[error("it is a pipe or a socket; name a file or a block device")]
    IsPipe,
    /// A part of the path is a symbolic link.
    #[error("a part of the path is a symbolic link, which leads elsewhere; move it away")]
    Link,
    /// Something is left in it.
    #[error("the directory is not empty")]
    NotEmpty,
    /// No space, or no room for another file where the tree does not tell the two apart.
    #[error("no space left")]
    NoSpace,
    /// Space may be left, and no room for another file.
    #[error(
        "no inodes left: the file system takes no more files (df -i), however much space is free"
    )]
    NoInodes,
    /// The tree can't be written.
    #[error("the file system is read-only")]
    ReadOnly,
    /// Not allowed.
    #[error("permission denied")]
    Denied,
    /// Too many files are open.
    #[error("too many open files; raise the limit (ulimit -n)")]
    TooManyOpen,
    /// Absolute, with `..`, or an empty name.
    #[error("the path must be relative, of plain names")]
    BadPath,
    /// A name that is too long for the tree.
    #[error("the name is too long")]
    NameTooLong,
    /// The tree has no such operation, or not so (direct I/O on tmpfs).
    #[error("the file system does not support it")]
    NotSupported,
    /// The device below failed.
    #[error("the device below: {0}")]
    Io(crate::device::IoErrorKind),
    /// Another error of the operating system, by number.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Os(i32),
}

/// An operation on a tree that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} {}: {kind}", .path.display())]
pub struct TreeError {
    /// What was to be done.
    pub op: TreeOp,
    /// To what, with the tree's name before it.
    pub path: PathBuf,
    /// What went wrong.
    pub kind: TreeErrorKind,
}

/// The names in a path, by rule 1 of the contract.
///
/// # Errors
/// [`TreeErrorKind::BadPath`].
pub fn plain_names(path: &Path) -> Result<Vec<&std::ffi::OsStr>, TreeErrorKind> {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(TreeErrorKind::BadPath),
        })
        .collect()
}

/// Whether a path keeps rule 1 of the contract: [`plain_names`] without the names.
///
/// # Errors
/// [`TreeErrorKind::BadPath`].
pub fn check_plain(path: &Path) -> Result<(), TreeErrorKind> {
    let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.components().all(plain) { Ok(()) } else { Err(TreeErrorKind::BadPath) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leaves_the_tree_is_refused() {
        let names = |path: &str| plain_names(Path::new(path)).map(|names| names.len());
        assert_eq!(names(""), Ok(0));
        assert_eq!(names("a/./b//c"), Ok(3));
        assert_eq!(check_plain(Path::new("a/./b//c")), Ok(()));
        for bad in ["/etc/passwd", "..", "a/../b"] {
            assert_eq!(names(bad), Err(TreeErrorKind::BadPath));
            assert_eq!(check_plain(Path::new(bad)), Err(TreeErrorKind::BadPath));
        }
    }
}
