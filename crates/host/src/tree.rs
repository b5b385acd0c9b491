//! A directory of this host, on whatever file system it lies, as a [`FileTree`].
//!
//! **Data** goes the way of [`FileDevice`](crate::FileDevice): by the runtime's reactor, buffered or
//! direct. **Calls** on names (open, remove, list, ...) go to a pool of threads, or are made here where
//! the reactor is the [blocking](crate::blocking) one: io_uring knows some of them, but hands them to
//! threads as well.
//!
//! Paths are relative to the directory; a `..` is refused. A symbolic link inside is followed as the
//! system follows it, so a tree is as closed as the directory's owner keeps it. A tree over `/` reaches
//! everything, block devices as well; those are opened for exclusive use when they are to be written,
//! so that a mounted one is refused.

use crate::alignment::Alignment;
use crate::answer::What;
use crate::bell;
use crate::file::NO_MEMORY;
use crate::operation::{OpenFile, Operation, kind_of};
use crate::room::Room;
use crate::runtime::{Host, ReactorKind};
use crate::sys::{self, Errno};
use rt::file_tree::check_plain;
use rt::{
    DirectoryEntry, File, FileKind, FileRef, FileStatus, FileTree, IoError, IoErrorKind, IoFuture,
    Op, OpKind, OpenHow, PAGE, Request, SgList, Space, TreeError, TreeErrorKind, TreeFuture,
    TreeOp,
};
use std::fs::{self, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// The unit of `st_blocks`, whatever the file system's is.
const STATUS_BLOCK: u64 = 512;

/// See the [module](self).
pub struct HostTree {
    host: Host,
    root: PathBuf,
    name: Rc<str>,
    /// What calls put before a path: the root, or nothing where the thread works in it.
    base: PathBuf,
}

impl HostTree {
    /// The tree below a directory.
    ///
    /// # Errors
    /// Where there is no such directory.
    pub fn open(host: &Host, root: &Path) -> Result<HostTree, TreeError> {
        let error = |kind| TreeError { op: TreeOp::Open, path: root.to_owned(), kind };
        let found = fs::metadata(root).map_err(|e| error(kind_of_error(&e)))?;
        if !found.is_dir() {
            return Err(error(TreeErrorKind::NotDirectory));
        }
        let name = root.display().to_string().into();
        let (host, root) = (host.clone(), root.to_owned());
        Ok(HostTree { host, base: root.clone(), root, name })
    }

    /// The same for a thread that stands for a program of its own, on a [blocking](crate::blocking)
    /// runtime: the thread gets a table of open files of its own, as a process has, and works in the
    /// directory, as most tools do. So opening, looking at and removing a file cost what they cost the
    /// tool: the system does not walk down to the directory for each, and no table is shared.
    ///
    /// Where the system refuses that, or threads with one table must wake each other (Linux before 6.7),
    /// or the runtime is of another kind, or the thread is the process's first, this is [`HostTree::open`].
    ///
    /// A descriptor that another thread opens later means nothing to this one, nor this one's to others: call it on a
    /// thread that was started for it, whose work gets no files or sockets from other threads after this and gives none
    /// away.
    ///
    /// # Errors
    /// As [`HostTree::open`].
    pub fn open_alone(host: &Host, root: &Path) -> Result<HostTree, TreeError> {
        let mut tree = HostTree::open(host, root)?;
        // The thread makes all calls of its runtime itself, so its working directory is theirs.
        if host.kind() == ReactorKind::Blocking
            && bell::need_no_descriptor()
            // SAFETY: a blocking runtime has no sockets, makes no call on another thread, and its bell is no
            // descriptor; its devices, trees and files can't be sent to another thread, nor theirs to this one. What
            // else there may be is the caller's promise, in the words above.
            && unsafe { sys::own_file_table_and_directory() }
            && std::env::set_current_dir(root).is_ok()
        {
            tree.base = PathBuf::new();
        }
        Ok(tree)
    }

    /// A path as calls take it.
    fn below(&self, path: &Path) -> PathBuf {
        match (self.base.as_os_str().is_empty(), path.as_os_str().is_empty()) {
            (true, true) => PathBuf::from("."),
            (true, false) => path.to_owned(),
            (false, _) => self.base.join(path),
        }
    }

    /// Makes a call on a path.
    fn call<T: Send + 'static>(
        &self,
        op: TreeOp,
        path: &Path,
        job: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> TreeFuture<T> {
        if let Err(kind) = check_plain(path) {
            let path = self.root.join(path);
            return Box::pin(std::future::ready(Err(TreeError { op, path, kind })));
        }
        let below = self.below(path);
        if self.host.kind() == ReactorKind::Blocking {
            // The path for an error is made only where there is one.
            let done = job(&below);
            let done = done.map_err(|error| name_error(op, self.root.join(path), &below, &error));
            return Box::pin(std::future::ready(done));
        }
        let full = self.root.join(path);
        self.host.call(move || job(&below).map_err(|error| name_error(op, full, &below, &error)))
    }
}

impl FileTree for HostTree {
    fn name(&self) -> Rc<str> {
        Rc::clone(&self.name)
    }

    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        let op = if how.create { TreeOp::Create } else { TreeOp::Open };
        // The blocking reactor carries everything out at once, wherever it lies.
        let ask_memory = self.host.kind() != ReactorKind::Blocking;
        let opened = self.call(op, path, move |full| open(full, how, ask_memory));
        let host = self.host.clone();
        let name: Arc<str> = self.root.join(path).display().to_string().into();
        Box::pin(async move {
            let (file, alignment) = opened.await?;
            Ok(Rc::new(HostFile { host, file: Arc::new(file), name, alignment, how }) as FileRef)
        })
    }

    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        self.call(TreeOp::CreateDirectory, path, |full| fs::create_dir(full))
    }

    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        self.call(TreeOp::RemoveDirectory, path, |full| fs::remove_dir(full))
    }

    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        self.call(TreeOp::RemoveFile, path, |full| fs::remove_file(full))
    }

    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        if let Err(kind) = check_plain(to) {
            let error = TreeError { op: TreeOp::Rename, path: self.root.join(to), kind };
            return Box::pin(std::future::ready(Err(error)));
        }
        let full_to = self.below(to);
        self.call(TreeOp::Rename, from, move |full| fs::rename(full, full_to))
    }

    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        self.call(TreeOp::List, path, |full| {
            let entry = |entry: io::Result<fs::DirEntry>| {
                let entry = entry?;
                let kind = kind_of_file(entry.file_type()?);
                Ok(DirectoryEntry { name: entry.file_name().into(), kind })
            };
            fs::read_dir(full)?.map(entry).collect()
        })
    }

    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        self.call(TreeOp::Status, path, |full| Ok(status_of(&fs::metadata(full)?)))
    }

    fn check_no_link(&self, path: &Path) -> TreeFuture<()> {
        let failed = |path: &Path, kind| TreeError { op: TreeOp::Status, path: path.into(), kind };
        let error = failed(&self.root.join(path), TreeErrorKind::Link);
        let parts = path.components().count();
        let found = self.call(TreeOp::Status, path, move |full| {
            // What is not there is no link, and nothing below it is there either.
            let is_link = |part: &Path| fs::symlink_metadata(part).is_ok_and(|it| it.is_symlink());
            Ok(full.ancestors().take(parts).any(is_link))
        });
        Box::pin(async move { if found.await? { Err(error) } else { Ok(()) } })
    }

    fn sync(&self) -> TreeFuture<()> {
        self.call(TreeOp::Sync, Path::new(""), |full| {
            Ok(sys::syncfs(fs::File::open(full)?.as_fd())?)
        })
    }

    fn sync_directory(&self, path: &Path) -> TreeFuture<()> {
        self.call(TreeOp::Sync, path, |full| fs::File::open(full)?.sync_all())
    }

    fn space(&self) -> TreeFuture<Space> {
        self.space_at(Path::new(""))
    }

    fn space_at(&self, path: &Path) -> TreeFuture<Space> {
        let parts = path.components().count();
        self.call(TreeOp::Space, path, move |full| {
            // What is not there would lie on the file system of the closest directory above that is.
            let there = full.ancestors().take(parts).find(|part| part.is_dir());
            let there = there.or_else(|| full.ancestors().nth(parts)).unwrap_or(full);
            let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
            let Room { total, free, .. } = Room::of_file(fs::File::open(there)?.as_fd())
                .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
            Ok(Space { total, free })
        })
    }
}

/// Opens a file as it is asked for, and finds what direct I/O on it asks for. `ask_memory`: whether it
/// matters if the file lies in memory.
fn open(path: &Path, how: OpenHow, ask_memory: bool) -> io::Result<(OpenFile, Option<Alignment>)> {
    let mut flags = 0;
    if how.direct {
        flags |= libc::O_DIRECT;
    }
    if how.durable_writes {
        flags |= libc::O_DSYNC;
    }
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(how.write)
        .create(how.create && !how.exclusive)
        .create_new(how.create && how.exclusive)
        .truncate(how.truncate && how.write)
        .custom_flags(flags);
    let mut file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        // It opens for reading; it is no file all the same.
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if kind.is_block_device() && how.write {
        file = options.custom_flags(flags | libc::O_EXCL).open(path)?;
    }
    if how.random {
        // Advice: a file system that does not take it loses nothing.
        let _ = sys::advise(file.as_fd(), libc::POSIX_FADV_RANDOM);
    }
    let alignment = how.direct.then(|| match sys::direct_alignment(file.as_fd()) {
        Some((memory, length)) => Alignment { memory: memory as usize, length: length as usize },
        // Where the file system does not say, a page satisfies all of them.
        None => Alignment { memory: PAGE, length: PAGE },
    });
    let in_memory = ask_memory && sys::is_in_memory(file.as_fd());
    Ok((OpenFile::new(file, in_memory), alignment))
}

/// An open file of a [`HostTree`].
struct HostFile {
    host: Host,
    file: Arc<OpenFile>,
    name: Arc<str>,
    alignment: Option<Alignment>,
    how: OpenHow,
}

impl HostFile {
    /// Whether I/O is plain system calls of this thread, from and to memory at any place.
    fn answers_at_once(&self) -> bool {
        self.alignment.is_none() && self.host.kind() == ReactorKind::Blocking
    }

    fn at_once_error(&self, op: OpKind, offset: Offset, len: usize, kind: IoErrorKind) -> IoError {
        IoError { kind, op, offset, len: ByteCount(len as u64), device: Arc::clone(&self.name) }
    }

    fn call<T: Send + 'static>(
        &self,
        op: TreeOp,
        job: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> TreeFuture<T> {
        let file = Arc::clone(&self.file);
        let path = PathBuf::from(&*self.name);
        self.host.call(move || job(&file.file).map_err(|error| error_of(op, path, &error)))
    }
}

impl File for HostFile {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn alignment(&self) -> ByteCount {
        ByteCount(self.alignment.map_or(1, |grid| grid.length as u64))
    }

    fn submit(&self, request: Request) -> IoFuture {
        let unit = self.alignment();
        let aligned = request.offset.is_multiple_of(unit) && request.len().is_multiple_of(unit);
        let refused = match &request.op {
            Op::Flush => None,
            _ if !aligned => Some(IoErrorKind::Invalid),
            Op::Read(_) => None,
            _ if !self.how.write => Some(IoErrorKind::ReadOnly),
            _ => None,
        };
        if let Some(kind) = refused {
            return IoFuture::ready(Err(IoError {
                kind,
                op: request.kind(),
                offset: request.offset,
                len: request.len(),
                device: Arc::clone(&self.name),
            }));
        }
        let what = What::of(&request, &self.name);
        let at = request.offset.bytes();
        if request.is_empty() && !matches!(request.op, Op::Flush) {
            return IoFuture::ready(Ok(SgList::new()));
        }
        let operation = Operation::of(request.op, at, self.alignment, Operation::read_up_to_end);
        let Ok(operation) = operation else {
            return IoFuture::ready(what.result(Err(NO_MEMORY)));
        };
        self.host.start(&self.file, operation, what)
    }

    fn read_at_once(&self, at: Offset, into: &mut [u8]) -> Option<Result<usize, IoError>> {
        if !self.answers_at_once() {
            return None;
        }
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            match sys::pread_bare(self.file.file.as_fd(), rest, at.bytes() + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno(libc::EINTR)) => {}
                Err(errno) => {
                    let len = into.len();
                    return Some(Err(self.at_once_error(OpKind::Read, at, len, kind_of(errno))));
                }
            }
        }
        Some(Ok(done))
    }

    fn write_at_once(&self, at: Offset, data: &[u8]) -> Option<Result<(), IoError>> {
        if !self.answers_at_once() || !self.how.write {
            return None;
        }
        let mut done = 0;
        while done < data.len() {
            let rest = &data[done..];
            let kind =
                match sys::pwrite_bare(self.file.file.as_fd(), rest, at.bytes() + done as u64) {
                    // Nothing taken, and no error: the medium is full to its last byte.
                    Ok(0) => IoErrorKind::Medium,
                    Ok(count) => {
                        done += count;
                        continue;
                    }
                    Err(Errno(libc::EINTR)) => continue,
                    Err(errno) => kind_of(errno),
                };
            return Some(Err(self.at_once_error(OpKind::Write, at, data.len(), kind)));
        }
        Some(Ok(()))
    }

    fn status(&self) -> TreeFuture<FileStatus> {
        self.call(TreeOp::Status, |mut file| {
            let found = file.metadata()?;
            let mut status = status_of(&found);
            if status.kind == FileKind::BlockDevice {
                // The length of a block device is where its end is; all I/O says its own place.
                status.size = ByteCount(file.seek(SeekFrom::End(0))?);
                status.allocated = status.size;
            }
            Ok(status)
        })
    }

    fn set_size(&self, size: ByteCount) -> TreeFuture<()> {
        self.call(TreeOp::SetSize, move |file| file.set_len(size.bytes()))
    }

    fn allocate(&self, size: ByteCount) -> TreeFuture<()> {
        self.call(TreeOp::Allocate, move |file| {
            match sys::fallocate(file.as_fd(), 0, 0, size.bytes().max(1)) {
                Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                    let grown = file.metadata()?.len().max(size.bytes());
                    file.set_len(grown)
                }
                other => Ok(other?),
            }
        })
    }

    fn sync(&self) -> TreeFuture<()> {
        self.call(TreeOp::Sync, |file| file.sync_all())
    }

    fn drop_cache(&self) -> TreeFuture<()> {
        self.call(TreeOp::DropCache, |file| {
            Ok(sys::advise(file.as_fd(), libc::POSIX_FADV_DONTNEED)?)
        })
    }
}

fn status_of(found: &fs::Metadata) -> FileStatus {
    FileStatus {
        kind: kind_of_file(found.file_type()),
        size: ByteCount(found.len()),
        allocated: ByteCount(found.blocks().saturating_mul(STATUS_BLOCK)),
    }
}

fn kind_of_file(kind: fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_block_device() {
        FileKind::BlockDevice
    } else if kind.is_fifo() || kind.is_socket() {
        FileKind::Pipe
    } else {
        FileKind::Other
    }
}

/// Of a call on a name, which is `below` for calls: where no name can be made, whether that is for lack of space or of inodes.
fn name_error(op: TreeOp, path: PathBuf, below: &Path, error: &io::Error) -> TreeError {
    let makes = matches!(op, TreeOp::Create | TreeOp::CreateDirectory);
    if makes && error.raw_os_error() == Some(libc::ENOSPC) {
        let parent = below.parent().filter(|parent| !parent.as_os_str().is_empty());
        let room = Room::of(parent.unwrap_or(Path::new(".")));
        if room.is_some_and(|room| room.takes_no_file()) {
            return TreeError { op, path, kind: TreeErrorKind::NoInodes };
        }
    }
    error_of(op, path, error)
}

fn error_of(op: TreeOp, path: PathBuf, error: &io::Error) -> TreeError {
    TreeError { op, path, kind: kind_of_error(error) }
}

fn kind_of_error(error: &io::Error) -> TreeErrorKind {
    match error.raw_os_error() {
        Some(libc::ENOENT) => TreeErrorKind::NotFound,
        Some(libc::EEXIST) => TreeErrorKind::Exists,
        Some(libc::ENOTDIR) => TreeErrorKind::NotDirectory,
        Some(libc::EISDIR) => TreeErrorKind::IsDirectory,
        Some(libc::ENOTEMPTY) => TreeErrorKind::NotEmpty,
        Some(libc::ENOSPC | libc::EDQUOT) => TreeErrorKind::NoSpace,
        Some(libc::EROFS) => TreeErrorKind::ReadOnly,
        Some(libc::EACCES) => TreeErrorKind::Denied,
        Some(libc::EMFILE | libc::ENFILE) => TreeErrorKind::TooManyOpen,
        Some(libc::ENAMETOOLONG) => TreeErrorKind::NameTooLong,
        // open(2) answers EINVAL where the file system has no direct I/O.
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS) => TreeErrorKind::NotSupported,
        Some(other) => match kind_of(Errno(other)) {
            IoErrorKind::Os(number) => TreeErrorKind::Os(number),
            kind => TreeErrorKind::Io(kind),
        },
        None => TreeErrorKind::NotSupported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What could break: a file that nobody may change told as one of somebody else's, by another number than the system's.
    #[test]
    fn what_is_not_permitted_keeps_its_number() {
        let kind = |number| kind_of_error(&io::Error::from_raw_os_error(number));
        assert_eq!(kind(libc::EPERM), TreeErrorKind::Os(libc::EPERM));
        assert_eq!(kind(libc::EACCES), TreeErrorKind::Denied);
    }
}
