//! A file tree in memory, for tests of everything that stands on trees.
//!
//! It answers each request at once, keeps every rule of the contract of
//! [`FileTree`](trait@crate::FileTree), and models no hardware: no time passes. It counts what was asked of
//! it ([`MemoryTree::counts`]), and can be [given a size](MemoryTree::with_capacity), beyond which
//! there is no space left. Direct I/O asks for blocks of 512 B, so that a load that forgets about
//! alignment is found out.

use crate::buf::Buf;
use crate::device::{IoError, IoErrorKind, IoFuture, Op, OpKind, Request};
use crate::extents::{Extents, Stretch};
use crate::file_tree::{
    DirectoryEntry, File, FileKind, FileRef, FileStatus, FileTree, OpenHow, Space, TreeError,
    TreeErrorKind, TreeFuture, TreeOp, plain_names,
};
use crate::sg::SgList;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// What direct I/O asks for.
const DIRECT_BLOCK: ByteCount = ByteCount(512);

/// Memory that there is, where nobody says otherwise: no test fills it.
const CAPACITY_DEFAULT: ByteCount = ByteCount::gib(1024);

/// See the [module](self).
pub struct MemoryTree {
    shared: Rc<Shared>,
    root: RefCell<Directory>,
}

struct Shared {
    name: Rc<str>,
    capacity: ByteCount,
    used: Cell<ByteCount>,
    counts: RefCell<Counts>,
}

/// How often each thing was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests to files, by kind.
    pub requests: BTreeMap<OpKind, u64>,
    /// Bytes read and written.
    pub bytes: BTreeMap<OpKind, u64>,
    /// Files opened, those created among them.
    pub opened: u64,
    /// Files created.
    pub created: u64,
    /// Files removed.
    pub removed: u64,
    /// [`File::sync`]s.
    pub synced: u64,
}

#[derive(Default)]
struct Directory(BTreeMap<OsString, Node>);

enum Node {
    Directory(Directory),
    File(Rc<Content>),
}

/// A file's bytes; shared by its directory and its handles.
struct Content {
    extents: RefCell<Extents>,
    size: Cell<ByteCount>,
    shared: Rc<Shared>,
}

impl Drop for Content {
    fn drop(&mut self) {
        self.shared.used.set(self.shared.used.get() - self.size.get());
    }
}

impl Content {
    fn resize(&self, size: ByteCount) -> Result<(), TreeErrorKind> {
        let others = self.shared.used.get() - self.size.get();
        let used = others + size;
        if used > self.shared.capacity {
            return Err(TreeErrorKind::NoSpace);
        }
        if size < self.size.get() {
            let cut = self.size.get() - size;
            self.extents.borrow_mut().remove(Offset(size.bytes()), cut);
        }
        self.shared.used.set(used);
        self.size.set(size);
        Ok(())
    }
}

impl MemoryTree {
    /// An empty tree.
    pub fn new(name: &str) -> Rc<MemoryTree> {
        MemoryTree::with_capacity(name, CAPACITY_DEFAULT)
    }

    /// An empty tree for so many bytes of files.
    pub fn with_capacity(name: &str, capacity: ByteCount) -> Rc<MemoryTree> {
        let shared = Rc::new(Shared {
            name: name.into(),
            capacity,
            used: Cell::default(),
            counts: RefCell::default(),
        });
        Rc::new(MemoryTree { shared, root: RefCell::default() })
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts.borrow().clone()
    }

    fn error(&self, op: TreeOp, path: &Path, kind: TreeErrorKind) -> TreeError {
        TreeError { op, path: Path::new(&*self.shared.name).join(path), kind }
    }

    fn answer<T: 'static>(
        &self,
        op: TreeOp,
        path: &Path,
        result: Result<T, TreeErrorKind>,
    ) -> TreeFuture<T> {
        let result = result.map_err(|kind| self.error(op, path, kind));
        Box::pin(std::future::ready(result))
    }

    /// Calls `act` with the directory that holds the path's last name, and that name.
    fn in_parent<T>(
        &self,
        path: &Path,
        act: impl FnOnce(&mut Directory, OsString) -> Result<T, TreeErrorKind>,
    ) -> Result<T, TreeErrorKind> {
        let mut names = plain_names(path)?;
        let last = names.pop().ok_or(TreeErrorKind::IsDirectory)?.to_owned();
        let mut root = self.root.borrow_mut();
        act(root.walk(&names)?, last)
    }

    fn open_now(&self, path: &Path, how: OpenHow) -> Result<FileRef, TreeErrorKind> {
        let content = self.in_parent(path, |parent, name| match parent.0.get(&name) {
            Some(Node::Directory(_)) => Err(TreeErrorKind::IsDirectory),
            Some(Node::File(_)) if how.create && how.exclusive => Err(TreeErrorKind::Exists),
            Some(Node::File(content)) => {
                if how.truncate && how.write {
                    content.resize(ByteCount::ZERO)?;
                }
                Ok(Rc::clone(content))
            }
            None if how.create => {
                let content = Rc::new(Content {
                    extents: RefCell::default(),
                    size: Cell::default(),
                    shared: Rc::clone(&self.shared),
                });
                parent.0.insert(name, Node::File(Rc::clone(&content)));
                self.shared.counts.borrow_mut().created += 1;
                Ok(content)
            }
            None => Err(TreeErrorKind::NotFound),
        })?;
        self.shared.counts.borrow_mut().opened += 1;
        let name = Path::new(&*self.shared.name).join(path).display().to_string().into();
        Ok(Rc::new(MemoryFile { name, content, how }))
    }
}

impl Directory {
    fn walk(&mut self, names: &[&std::ffi::OsStr]) -> Result<&mut Directory, TreeErrorKind> {
        let mut directory = self;
        for name in names {
            directory = match directory.0.get_mut(*name) {
                Some(Node::Directory(below)) => below,
                Some(Node::File(_)) => return Err(TreeErrorKind::NotDirectory),
                None => return Err(TreeErrorKind::NotFound),
            };
        }
        Ok(directory)
    }
}

impl FileTree for MemoryTree {
    fn name(&self) -> Rc<str> {
        Rc::clone(&self.shared.name)
    }

    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        let op = if how.create { TreeOp::Create } else { TreeOp::Open };
        self.answer(op, path, self.open_now(path, how))
    }

    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        let made = self.in_parent(path, |parent, name| match parent.0.get(&name) {
            Some(_) => Err(TreeErrorKind::Exists),
            None => {
                parent.0.insert(name, Node::Directory(Directory::default()));
                Ok(())
            }
        });
        self.answer(TreeOp::CreateDirectory, path, made)
    }

    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        let removed = self.in_parent(path, |parent, name| match parent.0.get(&name) {
            Some(Node::Directory(below)) if !below.0.is_empty() => Err(TreeErrorKind::NotEmpty),
            Some(Node::Directory(_)) => {
                parent.0.remove(&name);
                Ok(())
            }
            Some(Node::File(_)) => Err(TreeErrorKind::NotDirectory),
            None => Err(TreeErrorKind::NotFound),
        });
        self.answer(TreeOp::RemoveDirectory, path, removed)
    }

    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        let removed = self.in_parent(path, |parent, name| match parent.0.get(&name) {
            Some(Node::File(_)) => {
                parent.0.remove(&name);
                self.shared.counts.borrow_mut().removed += 1;
                Ok(())
            }
            Some(Node::Directory(_)) => Err(TreeErrorKind::IsDirectory),
            None => Err(TreeErrorKind::NotFound),
        });
        self.answer(TreeOp::RemoveFile, path, removed)
    }

    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        let rename = || {
            if to.starts_with(from) && to != from {
                return Err(TreeErrorKind::NotSupported);
            }
            let is_file = self.in_parent(from, |parent, name| match parent.0.get(&name) {
                Some(node) => Ok(matches!(node, Node::File(_))),
                None => Err(TreeErrorKind::NotFound),
            })?;
            self.in_parent(to, |parent, name| match parent.0.get(&name) {
                Some(Node::Directory(_)) if is_file => Err(TreeErrorKind::IsDirectory),
                Some(Node::Directory(below)) if !below.0.is_empty() => Err(TreeErrorKind::NotEmpty),
                Some(Node::File(_)) if !is_file => Err(TreeErrorKind::NotDirectory),
                _ => Ok(()),
            })?;
            let node = self.in_parent(from, |parent, name| {
                parent.0.remove(&name).ok_or(TreeErrorKind::NotFound)
            })?;
            self.in_parent(to, |parent, name| {
                parent.0.insert(name, node);
                Ok(())
            })
        };
        self.answer(TreeOp::Rename, from, rename())
    }

    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        let list = || {
            let names = plain_names(path)?;
            let mut root = self.root.borrow_mut();
            let entries = root.walk(&names)?.0.iter().map(|(name, node)| DirectoryEntry {
                name: PathBuf::from(name),
                kind: match node {
                    Node::Directory(_) => FileKind::Directory,
                    Node::File(_) => FileKind::File,
                },
            });
            Ok(entries.collect())
        };
        self.answer(TreeOp::List, path, list())
    }

    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        let directory = FileStatus {
            kind: FileKind::Directory,
            size: ByteCount::ZERO,
            allocated: ByteCount::ZERO,
        };
        let status = match plain_names(path) {
            Ok(names) if names.is_empty() => Ok(directory),
            _ => self.in_parent(path, |parent, name| match parent.0.get(&name) {
                Some(Node::File(content)) => Ok(content.status()),
                Some(Node::Directory(_)) => Ok(directory),
                None => Err(TreeErrorKind::NotFound),
            }),
        };
        self.answer(TreeOp::Status, path, status)
    }

    fn sync(&self) -> TreeFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn space(&self) -> TreeFuture<Space> {
        let total = self.shared.capacity;
        let space = Space { total, free: total - self.shared.used.get() };
        Box::pin(std::future::ready(Ok(space)))
    }
}

impl Content {
    fn status(&self) -> FileStatus {
        let size = self.size.get();
        FileStatus { kind: FileKind::File, size, allocated: size }
    }
}

struct MemoryFile {
    name: Arc<str>,
    content: Rc<Content>,
    how: OpenHow,
}

impl MemoryFile {
    fn carry_out(&self, request: Request) -> Result<SgList, IoErrorKind> {
        let (at, len) = (request.offset, request.len());
        let unit = self.alignment();
        if !at.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(IoErrorKind::Invalid);
        }
        let end = at.checked_add(len).ok_or(IoErrorKind::Invalid)?.from_start();
        if !self.how.write && !matches!(request.op, Op::Read(_) | Op::Flush) {
            return Err(IoErrorKind::ReadOnly);
        }
        let size = self.content.size.get();
        {
            let mut counts = self.content.shared.counts.borrow_mut();
            *counts.requests.entry(request.kind()).or_default() += 1;
            *counts.bytes.entry(request.kind()).or_default() += len.bytes();
        }
        let grow = |end: ByteCount| match end > size {
            true => self.content.resize(end).map_err(|_| IoErrorKind::NoSpace),
            false => Ok(()),
        };
        let extents = || self.content.extents.borrow_mut();
        match request.op {
            Op::Read(len) => {
                let there = len.min(size - size.min(at.from_start()));
                let mut data = SgList::new();
                for stretch in extents().read(at, there) {
                    data.push(match stretch {
                        Stretch::Held(buf) => buf,
                        Stretch::Gap(_, len) => Buf::zeros(len.as_usize()),
                    });
                }
                return Ok(data);
            }
            Op::Write { data, .. } => {
                grow(end)?;
                extents().insert(at, &data);
            }
            Op::WriteZeroes(len) => {
                grow(end)?;
                extents().remove(at, len);
            }
            Op::Discard(len) => extents().remove(at, len),
            Op::Flush => {}
        }
        Ok(SgList::new())
    }

    fn resize(&self, op: TreeOp, size: ByteCount) -> TreeFuture<()> {
        let resized = match self.how.write {
            true => self.content.resize(size),
            false => Err(TreeErrorKind::ReadOnly),
        };
        let path = PathBuf::from(&*self.name);
        Box::pin(std::future::ready(resized.map_err(|kind| TreeError { op, path, kind })))
    }
}

impl File for MemoryFile {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn alignment(&self) -> ByteCount {
        if self.how.direct { DIRECT_BLOCK } else { ByteCount(1) }
    }

    fn submit(&self, request: Request) -> IoFuture {
        let (op, offset, len) = (request.kind(), request.offset, request.len());
        let result = self.carry_out(request);
        let device = || Arc::clone(&self.name);
        IoFuture::ready(result.map_err(|kind| IoError { kind, op, offset, len, device: device() }))
    }

    fn status(&self) -> TreeFuture<FileStatus> {
        Box::pin(std::future::ready(Ok(self.content.status())))
    }

    fn set_size(&self, size: ByteCount) -> TreeFuture<()> {
        self.resize(TreeOp::SetSize, size)
    }

    fn allocate(&self, size: ByteCount) -> TreeFuture<()> {
        self.resize(TreeOp::Allocate, size.max(self.content.size.get()))
    }

    fn sync(&self) -> TreeFuture<()> {
        self.content.shared.counts.borrow_mut().synced += 1;
        Box::pin(std::future::ready(Ok(())))
    }

    fn drop_cache(&self) -> TreeFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    //! What could break: bytes beyond the end that come back after a file was cut and grew again,
    //! space that is never given back, a file that dies with its name while a handle is open.

    use super::*;
    use crate::virtual_time::{run, runtime};

    fn path(text: &str) -> &Path {
        Path::new(text)
    }

    #[test]
    fn a_read_beyond_the_end_is_short_and_a_gap_reads_as_zeros() {
        let tree = MemoryTree::new("m");
        run(&runtime(), async move {
            let file = tree.open(path("a"), OpenHow::create()).await.expect("created");
            file.submit(Request::write(Offset(3), Buf::copy_of(b"xyz"))).await.expect("written");
            let read = file.submit(Request::read(Offset(1), ByteCount(100))).await.expect("read");
            assert_eq!(read.to_vec(), b"\0\0xyz");
            file.set_size(ByteCount(4)).await.expect("cut");
            file.set_size(ByteCount(6)).await.expect("grown");
            let read = file.submit(Request::read(Offset(0), ByteCount(100))).await.expect("read");
            assert_eq!(read.to_vec(), b"\0\0\0x\0\0");
        });
    }

    #[test]
    fn space_is_given_back_when_the_last_handle_of_a_removed_file_goes() {
        let tree = MemoryTree::with_capacity("m", ByteCount(1000));
        run(&runtime(), async move {
            let file = tree.open(path("a"), OpenHow::create()).await.expect("created");
            file.submit(Request::write(Offset(0), Buf::fill(1, 900))).await.expect("written");
            let full = file.submit(Request::write(Offset(900), Buf::fill(1, 101))).await;
            assert_eq!(full.expect_err("full").kind, IoErrorKind::NoSpace);
            tree.remove_file(path("a")).await.expect("removed");
            let read = file.submit(Request::read(Offset(0), ByteCount(900))).await.expect("read");
            assert_eq!(read.len(), 900);
            assert_eq!(tree.space().await.expect("known").free, ByteCount(100));
            drop(file);
            assert_eq!(tree.space().await.expect("known").free, ByteCount(1000));
        });
    }

    #[test]
    fn directories_hold_names_and_refuse_what_does_not_fit() {
        let tree = MemoryTree::new("m");
        run(&runtime(), async move {
            tree.create_directory(path("d")).await.expect("made");
            tree.open(path("d/f"), OpenHow::create()).await.expect("created");
            let kind = |error: TreeError| error.kind;
            let not_empty = tree.remove_directory(path("d")).await.map_err(kind);
            assert_eq!(not_empty, Err(TreeErrorKind::NotEmpty));
            let below_a_file = tree.open(path("d/f/g"), OpenHow::create()).await.map(|_| ());
            assert_eq!(below_a_file.map_err(kind), Err(TreeErrorKind::NotDirectory));
            let missing = tree.open(path("x"), OpenHow::read()).await.map(|_| ());
            assert_eq!(
                missing.expect_err("missing").to_string(),
                "opening m/x: there is no such file or directory"
            );
            tree.rename(path("d/f"), path("g")).await.expect("renamed");
            let names: Vec<_> = tree.list(path("")).await.expect("listed");
            assert_eq!(names.len(), 2);
            assert_eq!(
                tree.rename(path("d"), path("d/e")).await.map_err(kind),
                Err(TreeErrorKind::NotSupported)
            );
            tree.remove_directory(path("d")).await.expect("removed");
        });
    }

    #[test]
    fn direct_files_refuse_what_is_off_the_grid() {
        let tree = MemoryTree::new("m");
        run(&runtime(), async move {
            let how = OpenHow::create().with_direct(true);
            let file = tree.open(path("a"), how).await.expect("created");
            let off = file.submit(Request::write(Offset(0), Buf::fill(1, 100))).await;
            assert_eq!(off.expect_err("refused").kind, IoErrorKind::Invalid);
        });
    }
}
