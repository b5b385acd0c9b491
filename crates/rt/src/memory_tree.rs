//! A file system in memory: for tests of everything that stands on files, and of whoever serves them.
//!
//! It is an [`Inodes`] that keeps every rule of the contract, and so a [`FileTree`](trait@crate::FileTree), by
//! [`InodeTree`]. It answers each request at once and models no hardware: no time passes. It counts what was asked of
//! it ([`MemoryTree::counts`]), and can be [given a size](MemoryTree::with_capacity), beyond which
//! there is no space left: a byte of a file takes a byte; names and attributes take nothing. Its times are by the clock that
//! it is [given](MemoryTree::with), or else by one that goes on a microsecond whenever it is asked.
//!
//! Nothing of it outlives the program, so all is as durable as it can be when it is answered.

mod content;
mod directory;
mod names;
mod store;

use crate::device::OpKind;
use crate::file_tree::{DirectoryEntry, FileRef, FileStatus, FileTree, OpenHow, Space, TreeFuture};
use crate::inode_tree::InodeTree;
use crate::inodes::{
    Attributes, Caller, Changes, Cookie, Fallocate, Fsync, InodeError, InodeFuture, InodeKind,
    Inodes, ListEntry, MountId, New, Node, OpenNode, RenameHow, Seek, SetAttributes, SetHow,
    Timestamp, Usage, WallClock, Watcher, WriteAt,
};
use crate::sg::SgList;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::path::Path;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use store::{Body, Done, NAME_BYTES_MAX, Store};

/// Memory that there is, where nobody says otherwise: no test fills it.
const CAPACITY_DEFAULT: ByteCount = ByteCount::gib(1024);
/// Files that there can be, where nobody says otherwise.
const FILES_MAX_DEFAULT: u64 = 1 << 32;

/// See the [module](self).
pub struct MemoryTree(Rc<Shared>);

struct Shared {
    name: Rc<str>,
    store: RefCell<Store>,
    counts: RefCell<Counts>,
    watchers: RefCell<BTreeMap<MountId, Rc<dyn Watcher>>>,
    mounts: Cell<u64>,
}

/// Goes on a microsecond whenever it is asked, from 2020 on.
#[derive(Default)]
struct Steps(Cell<u64>);

impl WallClock for Steps {
    fn now(&self) -> Timestamp {
        let step = self.0.get() + 1;
        self.0.set(step);
        let seconds = 1_577_836_800 + (step / 1_000_000) as i64;
        Timestamp { seconds, nanoseconds: (step % 1_000_000) as u32 * 1000 }
    }
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
    /// `fsync`s.
    pub synced: u64,
}

impl MemoryTree {
    /// An empty tree.
    pub fn new(name: &str) -> Rc<MemoryTree> {
        MemoryTree::with_capacity(name, CAPACITY_DEFAULT)
    }

    /// An empty tree for so many bytes of files.
    pub fn with_capacity(name: &str, capacity: ByteCount) -> Rc<MemoryTree> {
        MemoryTree::with(name, capacity, FILES_MAX_DEFAULT, Rc::new(Steps::default()))
    }

    /// An empty tree for so many bytes in so many files (directories and all, its top as well), whose times are this clock's.
    pub fn with(
        name: &str,
        capacity: ByteCount,
        files_max: u64,
        clock: Rc<dyn WallClock>,
    ) -> Rc<MemoryTree> {
        let store = RefCell::new(Store::new(capacity, files_max, clock));
        let (counts, watchers, mounts) = Default::default();
        Rc::new(MemoryTree(Rc::new(Shared { name: name.into(), store, counts, watchers, mounts })))
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.0.counts.borrow().clone()
    }

    /// The same, by path.
    fn files(&self) -> InodeTree {
        InodeTree::new(Rc::new(MemoryTree(Rc::clone(&self.0))))
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.0.counts.borrow_mut());
    }

    fn count_request(&self, kind: OpKind, bytes: u64) {
        self.count(|counts| {
            *counts.requests.entry(kind).or_default() += 1;
            *counts.bytes.entry(kind).or_default() += bytes;
        });
    }

    /// Carries something out, and tells all that watch but the one that asked.
    fn act<T: 'static>(
        &self,
        by: MountId,
        act: impl FnOnce(&mut Store) -> Done<T>,
    ) -> InodeFuture<T> {
        let (done, notices) = {
            let mut store = self.0.store.borrow_mut();
            let done = act(&mut store);
            (done, std::mem::take(&mut store.notices))
        };
        if !notices.is_empty() {
            let watchers = self.0.watchers.borrow().clone();
            for (_, watcher) in watchers.into_iter().filter(|(mount, _)| *mount != by) {
                notices.iter().for_each(|notice| watcher.changed(notice.clone()));
            }
        }
        Box::pin(ready(done))
    }

    /// Asks what changes nothing, but perhaps a time of access.
    fn ask<T: 'static>(&self, act: impl FnOnce(&mut Store) -> Done<T>) -> InodeFuture<T> {
        self.act(MountId::NONE, act)
    }
}

impl Inodes for MemoryTree {
    fn name(&self) -> Rc<str> {
        Rc::clone(&self.0.name)
    }

    fn changes(&self) -> Changes {
        Changes::Told
    }

    fn name_bytes_max(&self) -> usize {
        NAME_BYTES_MAX
    }

    fn watch(&self, watcher: Rc<dyn Watcher>) -> MountId {
        let mount = MountId(self.0.mounts.get() + 1);
        self.0.mounts.set(mount.0);
        self.0.watchers.borrow_mut().insert(mount, watcher);
        mount
    }

    fn unwatch(&self, mount: MountId) {
        self.0.watchers.borrow_mut().remove(&mount);
    }

    fn lookup(&self, directory: Node, name: &[u8]) -> InodeFuture<Attributes> {
        self.ask(|store| store.lookup(directory, name))
    }

    fn attributes(&self, node: Node) -> InodeFuture<Attributes> {
        self.ask(|store| store.attributes(node))
    }

    fn parent(&self, directory: Node) -> InodeFuture<Node> {
        self.ask(|store| Ok(store.get(directory)?.directory()?.parent))
    }

    fn read(&self, file: Node, at: Offset, len: ByteCount) -> InodeFuture<SgList> {
        self.count_request(OpKind::Read, len.bytes());
        self.ask(|store| store.read(file, at, len))
    }

    fn list(
        &self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> InodeFuture<Vec<ListEntry>> {
        self.ask(|store| store.list(directory, after, entries_max))
    }

    fn link_target(&self, link: Node) -> InodeFuture<Vec<u8>> {
        self.ask(|store| {
            let target = match &store.get(link)?.body {
                Body::Link(target) => target.clone(),
                _ => return Err(InodeError::WrongKind),
            };
            store.touch(link);
            Ok(target)
        })
    }

    fn extended_attribute(&self, node: Node, name: &[u8]) -> InodeFuture<Vec<u8>> {
        self.ask(|store| {
            let value = store.get(node)?.values.get(name).cloned();
            value.ok_or(InodeError::NoAttribute)
        })
    }

    fn extended_attributes(&self, node: Node) -> InodeFuture<Vec<Vec<u8>>> {
        self.ask(|store| Ok(store.get(node)?.values.keys().cloned().collect()))
    }

    fn usage(&self, _: Node) -> InodeFuture<Usage> {
        self.ask(|store| Ok(store.usage()))
    }

    fn seek(&self, file: Node, at: Offset, what: Seek) -> InodeFuture<Offset> {
        self.ask(|store| store.seek(file, at, what))
    }

    fn open(&self, by: Caller, node: Node, how: OpenNode) -> InodeFuture<()> {
        self.act(by.mount, |store| {
            let kind = store.get(node)?.attributes.kind;
            if how.truncate {
                let size = Some(ByteCount::ZERO);
                store.setattr(by, node, &SetAttributes { size, ..SetAttributes::default() })?;
            }
            store.hold(node)?;
            if kind != InodeKind::Directory {
                self.count(|counts| counts.opened += 1);
            }
            Ok(())
        })
    }

    fn release(&self, node: Node) {
        self.0.store.borrow_mut().release(node);
    }

    fn create(
        &self,
        by: Caller,
        directory: Node,
        name: &[u8],
        new: New,
    ) -> InodeFuture<Attributes> {
        self.act(by.mount, |store| {
            let file = (InodeKind::File, (0, 0));
            let made = store.make(by, directory, Some(name), new, file, None)?;
            store.hold(made.node)?;
            self.count(|counts| {
                counts.created += 1;
                counts.opened += 1;
            });
            Ok(made)
        })
    }

    fn create_unnamed(&self, by: Caller, directory: Node, new: New) -> InodeFuture<Attributes> {
        self.act(by.mount, |store| {
            let made = store.make(by, directory, None, new, (InodeKind::File, (0, 0)), None)?;
            store.hold(made.node)?;
            Ok(made)
        })
    }

    fn mkdir(&self, by: Caller, directory: Node, name: &[u8], new: New) -> InodeFuture<Attributes> {
        let what = (InodeKind::Directory, (0, 0));
        self.act(by.mount, |store| store.make(by, directory, Some(name), new, what, None))
    }

    fn mknod(
        &self,
        by: Caller,
        directory: Node,
        name: &[u8],
        new: New,
        kind: InodeKind,
        device: (u32, u32),
    ) -> InodeFuture<Attributes> {
        self.act(by.mount, |store| match kind {
            InodeKind::Directory | InodeKind::Link => Err(InodeError::WrongKind),
            kind => store.make(by, directory, Some(name), new, (kind, device), None),
        })
    }

    fn symlink(
        &self,
        by: Caller,
        directory: Node,
        name: &[u8],
        target: &[u8],
    ) -> InodeFuture<Attributes> {
        self.act(by.mount, |store| store.symlink(by, directory, name, target))
    }

    fn link(
        &self,
        by: Caller,
        node: Node,
        directory: Node,
        name: &[u8],
    ) -> InodeFuture<Attributes> {
        self.act(by.mount, |store| store.link(node, directory, name))
    }

    fn unlink(&self, by: Caller, directory: Node, name: &[u8]) -> InodeFuture<()> {
        self.act(by.mount, |store| {
            if store.unlink(directory, name)? == InodeKind::File {
                self.count(|counts| counts.removed += 1);
            }
            Ok(())
        })
    }

    fn rmdir(&self, by: Caller, directory: Node, name: &[u8]) -> InodeFuture<()> {
        self.act(by.mount, |store| store.rmdir(directory, name))
    }

    fn rename(
        &self,
        by: Caller,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        how: RenameHow,
    ) -> InodeFuture<()> {
        self.act(by.mount, |store| store.rename(from, to, how))
    }

    fn setattr(&self, by: Caller, node: Node, set: SetAttributes) -> InodeFuture<Attributes> {
        self.act(by.mount, |store| store.setattr(by, node, &set))
    }

    fn write(
        &self,
        by: Caller,
        file: Node,
        at: WriteAt,
        data: SgList,
        _durable: bool,
    ) -> InodeFuture<Offset> {
        self.count_request(OpKind::Write, data.len() as u64);
        self.act(by.mount, |store| store.write(by, file, at, &data))
    }

    fn fallocate(
        &self,
        by: Caller,
        file: Node,
        at: Offset,
        len: ByteCount,
        what: Fallocate,
    ) -> InodeFuture<()> {
        match what {
            Fallocate::PunchHole => self.count_request(OpKind::Discard, len.bytes()),
            Fallocate::ZeroRange { .. } => self.count_request(OpKind::WriteZeroes, len.bytes()),
            Fallocate::Allocate { .. } => {}
        }
        self.act(by.mount, |store| store.fallocate(by, file, at, len, what))
    }

    fn copy_range(
        &self,
        by: Caller,
        from: (Node, Offset),
        to: (Node, Offset),
        len: ByteCount,
    ) -> InodeFuture<ByteCount> {
        self.act(by.mount, |store| store.copy_range(by, from, to, len))
    }

    fn fsync(&self, node: Node, what: Fsync) -> InodeFuture<()> {
        self.ask(|store| {
            match store.get(node)?.attributes.kind {
                InodeKind::Directory => {}
                _ if what == Fsync::Data => self.count_request(OpKind::Flush, 0),
                _ => self.count(|counts| counts.synced += 1),
            }
            Ok(())
        })
    }

    fn set_extended_attribute(
        &self,
        by: Caller,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetHow,
    ) -> InodeFuture<()> {
        self.act(by.mount, |store| store.set_value(by, node, name, value, how))
    }

    fn remove_extended_attribute(&self, by: Caller, node: Node, name: &[u8]) -> InodeFuture<()> {
        self.act(by.mount, |store| store.remove_value(node, name))
    }
}

impl FileTree for MemoryTree {
    fn name(&self) -> Rc<str> {
        Rc::clone(&self.0.name)
    }

    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        self.files().open(path, how)
    }

    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        self.files().create_directory(path)
    }

    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        self.files().remove_directory(path)
    }

    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        self.files().remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        self.files().rename(from, to)
    }

    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        self.files().list(path)
    }

    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        self.files().status(path)
    }

    fn check_no_link(&self, path: &Path) -> TreeFuture<()> {
        self.files().check_no_link(path)
    }

    fn sync(&self) -> TreeFuture<()> {
        FileTree::sync(&self.files())
    }

    fn sync_directory(&self, path: &Path) -> TreeFuture<()> {
        self.files().sync_directory(path)
    }

    fn space(&self) -> TreeFuture<Space> {
        self.files().space()
    }
}

#[cfg(test)]
mod tests;
