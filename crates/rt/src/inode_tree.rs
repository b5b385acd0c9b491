//! Any file system by node ([`Inodes`](crate::Inodes)) as a [`FileTree`]: by call, without a kernel between.
//!
//! So the lab's workloads run on whatever is mounted, and what they measure is the file system. Paths are looked up name by
//! name; nothing is remembered, since others may change the file system too. What is made belongs to user and group 0,
//! with modes 0644 and 0755.
//!
//! A symbolic link is not followed, since it may lead out of the tree: as a part of a path it is refused. A direct
//! file asks for blocks of [`DIRECT_BLOCK`], so that a load that forgets about alignment is found out.

use crate::device::{IoError, IoErrorKind, IoFuture, Op, Request};
use crate::file_tree::{
    DirectoryEntry, File, FileKind, FileRef, FileStatus, FileTree, OpenHow, Space, TreeError,
    TreeErrorKind, TreeFuture, TreeOp, plain_names,
};
use crate::inodes::{
    Attributes, Caller, Cookie, Fallocate, Fsync, InodeError, InodeFuture, InodeKind, InodesRef,
    New, Node, OpenNode, RenameHow, SetAttributes, WriteAt,
};
use crate::sg::SgList;
use std::ffi::OsString;
use std::future::ready;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use stdx::ByteCount;

/// What direct I/O asks for.
pub const DIRECT_BLOCK: ByteCount = ByteCount(512);
/// Entries that are asked for at a time.
const ENTRIES_MAX: usize = 1024;
const FILE: New = New { permissions: 0o644, umask: 0 };
const DIRECTORY: New = New { permissions: 0o755, umask: 0 };

/// See the [module](self).
#[derive(Clone)]
pub struct InodeTree(InodesRef);

type Found<T> = Result<T, TreeErrorKind>;

impl InodeTree {
    /// The tree of this file system.
    pub fn new(inodes: InodesRef) -> InodeTree {
        InodeTree(inodes)
    }

    /// Does something with a path, and tells what failed of it.
    fn path<T: 'static, F>(
        &self,
        op: TreeOp,
        path: &Path,
        act: impl FnOnce(InodesRef, Names) -> F,
    ) -> TreeFuture<T>
    where
        F: Future<Output = Found<T>> + 'static,
    {
        let whole = Path::new(&*self.0.name()).join(path);
        let error = move |kind| TreeError { op, path: whole, kind };
        match Names::of(path) {
            Ok(names) => {
                let future = act(Rc::clone(&self.0), names);
                Box::pin(async move { future.await.map_err(error) })
            }
            Err(kind) => Box::pin(ready(Err(error(kind)))),
        }
    }
}

/// A path, by its names.
struct Names(Vec<Vec<u8>>);

impl Names {
    fn of(path: &Path) -> Found<Names> {
        let names = plain_names(path)?;
        Ok(Names(names.into_iter().map(|name| name.as_bytes().to_vec()).collect()))
    }

    /// What the whole path leads to.
    async fn node(&self, inodes: &InodesRef) -> Found<Attributes> {
        let mut at = inodes.attributes(Node::ROOT).await.map_err(kind_of)?;
        for name in &self.0 {
            at = match at.kind {
                InodeKind::Directory => inodes.lookup(at.node, name).await.map_err(kind_of)?,
                InodeKind::Link => return Err(TreeErrorKind::Link),
                _ => return Err(TreeErrorKind::NotDirectory),
            };
        }
        Ok(at)
    }

    /// The directory that the last name is in, and that name.
    async fn last(mut self, inodes: &InodesRef) -> Found<(Node, Vec<u8>)> {
        let name = self.0.pop().ok_or(TreeErrorKind::IsDirectory)?;
        let directory = self.node(inodes).await?;
        match directory.kind {
            InodeKind::Directory => Ok((directory.node, name)),
            InodeKind::Link => Err(TreeErrorKind::Link),
            _ => Err(TreeErrorKind::NotDirectory),
        }
    }
}

/// By call, and for nobody in particular.
fn call() -> Caller {
    Caller::default()
}

fn kind_of(error: InodeError) -> TreeErrorKind {
    match error {
        InodeError::NotFound | InodeError::Gone => TreeErrorKind::NotFound,
        InodeError::NotDirectory => TreeErrorKind::NotDirectory,
        InodeError::IsDirectory => TreeErrorKind::IsDirectory,
        InodeError::Exists => TreeErrorKind::Exists,
        InodeError::NotEmpty => TreeErrorKind::NotEmpty,
        InodeError::NoSpace | InodeError::Quota => TreeErrorKind::NoSpace,
        InodeError::ReadOnly => TreeErrorKind::ReadOnly,
        InodeError::NotPermitted | InodeError::Denied => TreeErrorKind::Denied,
        InodeError::NameTooLong => TreeErrorKind::NameTooLong,
        InodeError::NotSupported => TreeErrorKind::NotSupported,
        other => match io_kind_of(other) {
            IoErrorKind::Os(errno) => TreeErrorKind::Os(errno),
            kind => TreeErrorKind::Io(kind),
        },
    }
}

fn io_kind_of(error: InodeError) -> IoErrorKind {
    match error {
        InodeError::Damaged => IoErrorKind::Medium,
        InodeError::NoSpace | InodeError::Quota => IoErrorKind::NoSpace,
        InodeError::ReadOnly => IoErrorKind::ReadOnly,
        InodeError::NoKey => IoErrorKind::Locked,
        InodeError::NotSupported => IoErrorKind::NotSupported,
        other => IoErrorKind::Os(other.errno()),
    }
}

fn file_kind(kind: InodeKind) -> FileKind {
    match kind {
        InodeKind::File => FileKind::File,
        InodeKind::Directory => FileKind::Directory,
        InodeKind::BlockDevice => FileKind::BlockDevice,
        InodeKind::Pipe | InodeKind::Socket => FileKind::Pipe,
        InodeKind::Link | InodeKind::CharacterDevice => FileKind::Other,
    }
}

fn status_of(of: &Attributes) -> FileStatus {
    FileStatus { kind: file_kind(of.kind), size: of.size, allocated: of.allocated }
}

/// Opens a plain file that is there, and takes hold of it.
async fn open_there(inodes: &InodesRef, at: (Node, &[u8]), how: OpenHow) -> Found<Node> {
    let found = inodes.lookup(at.0, at.1).await.map_err(kind_of)?;
    match found.kind {
        InodeKind::File => {}
        InodeKind::Directory => return Err(TreeErrorKind::IsDirectory),
        InodeKind::Link => return Err(TreeErrorKind::Link),
        InodeKind::Pipe | InodeKind::Socket => return Err(TreeErrorKind::IsPipe),
        InodeKind::BlockDevice | InodeKind::CharacterDevice => {
            return Err(TreeErrorKind::NotSupported);
        }
    }
    let open = OpenNode { write: how.write, truncate: how.truncate && how.write };
    inodes.open(call(), found.node, open).await.map_err(kind_of)?;
    Ok(found.node)
}

impl FileTree for InodeTree {
    fn name(&self) -> Rc<str> {
        self.0.name()
    }

    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        let op = if how.create { TreeOp::Create } else { TreeOp::Open };
        let name = Path::new(&*self.0.name()).join(path).display().to_string().into();
        self.path(op, path, move |inodes, names| async move {
            let (directory, last) = names.last(&inodes).await?;
            let made = match how.create {
                true => inodes.create(call(), directory, &last, FILE).await,
                false => Err(InodeError::Exists),
            };
            let node = match made {
                Ok(made) => made.node,
                Err(InodeError::Exists) if !(how.create && how.exclusive) => {
                    open_there(&inodes, (directory, &last), how).await?
                }
                Err(error) => return Err(kind_of(error)),
            };
            Ok(Rc::new(InodeFile { inodes, node, name, how }) as FileRef)
        })
    }

    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        self.path(TreeOp::CreateDirectory, path, async |inodes, names| {
            let (directory, name) = names.last(&inodes).await?;
            inodes.mkdir(call(), directory, &name, DIRECTORY).await.map_err(kind_of).map(drop)
        })
    }

    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        self.path(TreeOp::RemoveDirectory, path, async |inodes, names| {
            let (directory, name) = names.last(&inodes).await?;
            inodes.rmdir(call(), directory, &name).await.map_err(kind_of)
        })
    }

    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        self.path(TreeOp::RemoveFile, path, async |inodes, names| {
            let (directory, name) = names.last(&inodes).await?;
            inodes.unlink(call(), directory, &name).await.map_err(kind_of)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        let to = Names::of(to);
        self.path(TreeOp::Rename, from, async |inodes, names| {
            let (from, from_name) = names.last(&inodes).await?;
            let (to, to_name) = to?.last(&inodes).await?;
            let (from, to) = ((from, &*from_name), (to, &*to_name));
            let renamed = inodes.rename(call(), from, to, RenameHow::Replace).await;
            renamed.map_err(|error| match error {
                // A directory below itself.
                InodeError::Invalid => TreeErrorKind::NotSupported,
                error => kind_of(error),
            })
        })
    }

    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        self.path(TreeOp::List, path, async |inodes, names| {
            let directory = names.node(&inodes).await?;
            if directory.kind != InodeKind::Directory {
                return Err(TreeErrorKind::NotDirectory);
            }
            let (mut all, mut after) = (Vec::new(), Cookie::START);
            loop {
                let some = inodes.list(directory.node, after, ENTRIES_MAX).await;
                let some = some.map_err(kind_of)?;
                let Some(last) = some.last() else { return Ok(all) };
                after = last.cookie;
                all.extend(some.into_iter().map(|entry| DirectoryEntry {
                    name: PathBuf::from(OsString::from_vec(entry.name)),
                    kind: file_kind(entry.kind),
                }));
            }
        })
    }

    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        self.path(TreeOp::Status, path, async |inodes, names| {
            Ok(status_of(&names.node(&inodes).await?))
        })
    }

    fn check_no_link(&self, path: &Path) -> TreeFuture<()> {
        self.path(TreeOp::Status, path, async |inodes, names| match names.node(&inodes).await {
            Ok(found) if found.kind == InodeKind::Link => Err(TreeErrorKind::Link),
            Ok(_) | Err(TreeErrorKind::NotFound) => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn sync(&self) -> TreeFuture<()> {
        let inodes = Rc::clone(&self.0);
        self.path(TreeOp::Sync, Path::new(""), async move |_, _| {
            inodes.sync().await.map_err(kind_of)
        })
    }

    fn sync_directory(&self, path: &Path) -> TreeFuture<()> {
        self.path(TreeOp::Sync, path, async |inodes, names| {
            let directory = names.node(&inodes).await?;
            inodes.fsync(directory.node, Fsync::All).await.map_err(kind_of)
        })
    }

    fn space(&self) -> TreeFuture<Space> {
        self.path(TreeOp::Space, Path::new(""), async |inodes, _| {
            let usage = inodes.usage(Node::ROOT).await.map_err(kind_of)?;
            Ok(Space { total: usage.total, free: usage.free })
        })
    }
}

/// An open file; let go of when it is dropped.
struct InodeFile {
    inodes: InodesRef,
    node: Node,
    name: Arc<str>,
    how: OpenHow,
}

impl Drop for InodeFile {
    fn drop(&mut self) {
        self.inodes.release(self.node);
    }
}

impl InodeFile {
    /// Begins what is asked for; it is carried out as far as it can be at once.
    fn begin(&self, request: Request) -> Result<InodeFuture<SgList>, IoErrorKind> {
        let (at, len) = (request.offset, request.len());
        let unit = self.alignment();
        if !at.is_multiple_of(unit) || !len.is_multiple_of(unit) || at.checked_add(len).is_none() {
            return Err(IoErrorKind::Invalid);
        }
        if !self.how.write && !matches!(request.op, Op::Read(_) | Op::Flush) {
            return Err(IoErrorKind::ReadOnly);
        }
        let fallocate = |what| match len.is_zero() {
            true => Box::pin(ready(Ok(()))),
            false => self.inodes.fallocate(call(), self.node, at, len, what),
        };
        let done = match request.op {
            Op::Read(len) => return Ok(self.inodes.read(self.node, at, len)),
            Op::Write { data, fua } => {
                let durable = fua || self.how.durable_writes;
                let at = WriteAt::Offset(at);
                let written = self.inodes.write(call(), self.node, at, data, durable);
                return Ok(Box::pin(async { written.await.map(|_| SgList::new()) }));
            }
            Op::WriteZeroes(_) => fallocate(Fallocate::ZeroRange { keep_size: false }),
            Op::Discard(_) => fallocate(Fallocate::PunchHole),
            Op::Flush => self.inodes.fsync(self.node, Fsync::Data),
        };
        Ok(Box::pin(async { done.await.map(|()| SgList::new()) }))
    }

    fn tell<T: 'static>(&self, op: TreeOp, done: InodeFuture<T>) -> TreeFuture<T> {
        let path = PathBuf::from(&*self.name);
        Box::pin(
            async move { done.await.map_err(|error| TreeError { op, path, kind: kind_of(error) }) },
        )
    }

    fn read_only<T: 'static>(&self) -> InodeFuture<T> {
        Box::pin(ready(Err(InodeError::ReadOnly)))
    }
}

impl File for InodeFile {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn alignment(&self) -> ByteCount {
        if self.how.direct { DIRECT_BLOCK } else { ByteCount(1) }
    }

    fn submit(&self, request: Request) -> IoFuture {
        let (op, offset, len) = (request.kind(), request.offset, request.len());
        let device = Arc::clone(&self.name);
        let error = move |kind| IoError { kind, op, offset, len, device };
        match self.begin(request) {
            Ok(done) => IoFuture::new(async move { done.await.map_err(|e| error(io_kind_of(e))) }),
            Err(kind) => IoFuture::ready(Err(error(kind))),
        }
    }

    fn status(&self) -> TreeFuture<FileStatus> {
        let known = self.inodes.attributes(self.node);
        self.tell(TreeOp::Status, Box::pin(async { known.await.map(|known| status_of(&known)) }))
    }

    fn set_size(&self, size: ByteCount) -> TreeFuture<()> {
        let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let done = match self.how.write {
            true => self.inodes.setattr(call(), self.node, set),
            false => self.read_only(),
        };
        self.tell(TreeOp::SetSize, Box::pin(async { done.await.map(drop) }))
    }

    fn allocate(&self, size: ByteCount) -> TreeFuture<()> {
        let what = Fallocate::Allocate { keep_size: false };
        let done = match self.how.write {
            true if size.is_zero() => Box::pin(ready(Ok(()))),
            true => self.inodes.fallocate(call(), self.node, stdx::Offset(0), size, what),
            false => self.read_only(),
        };
        self.tell(TreeOp::Allocate, done)
    }

    fn sync(&self) -> TreeFuture<()> {
        self.tell(TreeOp::Sync, self.inodes.fsync(self.node, Fsync::All))
    }

    fn drop_cache(&self) -> TreeFuture<()> {
        Box::pin(ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a link that leads out of the tree, a file of a read-only file system that seems to be written.

    use super::*;
    use crate::buf::Buf;
    use crate::inodes::{Inodes, ListEntry, Usage};
    use crate::memory_tree::MemoryTree;
    use crate::virtual_time::{run, runtime};
    use stdx::Offset;

    /// Only what has no default: what a file system that is read implements.
    struct Still(Rc<MemoryTree>);

    impl Inodes for Still {
        fn name(&self) -> Rc<str> {
            "still".into()
        }
        fn lookup(&self, directory: Node, name: &[u8]) -> InodeFuture<Attributes> {
            self.0.lookup(directory, name)
        }
        fn attributes(&self, node: Node) -> InodeFuture<Attributes> {
            self.0.attributes(node)
        }
        fn parent(&self, directory: Node) -> InodeFuture<Node> {
            self.0.parent(directory)
        }
        fn read(&self, file: Node, at: Offset, len: ByteCount) -> InodeFuture<SgList> {
            self.0.read(file, at, len)
        }
        fn list(&self, at: Node, after: Cookie, max: usize) -> InodeFuture<Vec<ListEntry>> {
            Inodes::list(&*self.0, at, after, max)
        }
        fn link_target(&self, link: Node) -> InodeFuture<Vec<u8>> {
            self.0.link_target(link)
        }
        fn extended_attribute(&self, node: Node, name: &[u8]) -> InodeFuture<Vec<u8>> {
            self.0.extended_attribute(node, name)
        }
        fn extended_attributes(&self, node: Node) -> InodeFuture<Vec<Vec<u8>>> {
            self.0.extended_attributes(node)
        }
        fn usage(&self, of: Node) -> InodeFuture<Usage> {
            self.0.usage(of)
        }
    }

    #[test]
    fn a_file_system_that_is_read_is_a_tree_that_refuses_to_be_written() {
        run(&runtime(), async {
            let memory = MemoryTree::new("m");
            let made = memory.create(call(), Node::ROOT, b"f", FILE).await.expect("made");
            let (at, data) = (WriteAt::End, Buf::copy_of(b"what it holds"));
            memory.write(call(), made.node, at, data.into(), false).await.expect("written");
            memory.symlink(call(), Node::ROOT, b"out", b"/etc").await.expect("made");
            let tree = InodeTree::new(Rc::new(Still(memory)));
            let file = tree.open(Path::new("f"), OpenHow::read()).await.expect("opened");
            let read = file.submit(Request::read(Offset(5), ByteCount(100))).await.expect("read");
            assert_eq!(read.to_vec(), b"it holds");
            let write = Request::write(Offset(0), Buf::copy_of(b"x"));
            assert_eq!(file.submit(write).await.expect_err("no").kind, IoErrorKind::ReadOnly);
            let kind = |error: TreeError| error.kind;
            let opened = tree.open(Path::new("f"), OpenHow::write()).await.map(drop);
            assert_eq!(opened.map_err(kind), Err(TreeErrorKind::ReadOnly));
            let made = tree.create_directory(Path::new("d")).await;
            assert_eq!(made.map_err(kind), Err(TreeErrorKind::ReadOnly));
            let out = tree.status(Path::new("out/passwd")).await.map(drop);
            assert_eq!(out.map_err(kind), Err(TreeErrorKind::Link));
            assert_eq!(tree.check_no_link(Path::new("f")).await, Ok(()));
            let link = tree.check_no_link(Path::new("out")).await;
            assert_eq!(link.map_err(kind), Err(TreeErrorKind::Link));
        });
    }
}
