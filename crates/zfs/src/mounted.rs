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
//! **Children** are by the names of datasets, which stand among the names of the dataset's root: by its rules a name is the same as
//! another. Those whose mountpoints lead elsewhere are left out where that was asked for
//! ([`MountOptions::by_mountpoint`]), and are there otherwise. Volumes are none. A child whose key is missing is a directory that can't be entered.
//!
//! **Writing.** A mount of a pool that is open for writing ([`Live`](crate::spa::live::Live)) is written, snapshots and `.zfs` aside, where
//! directories made, renamed and removed in `.zfs/snapshot` are snapshots taken, renamed and destroyed. Each call is
//! one change of `zpl`; what is remembered of a file is asked for again when the version of its object says that it was changed.
//! Who mounts runs [`Live::keep_synced`](crate::spa::live::Live::keep_synced) beside it. One mount serves a dataset at a time: who holds which file is its own
//! knowledge.

mod answer;
mod browse;
mod content;
mod following;
mod holds;
mod leaving;
mod names;
mod refusal;
mod shared;
mod snapshots;
mod writing;

pub use shared::{MountOptions, Notice, Tell, Writing};

use crate::dsl::{Dataset, Directory};
use crate::error::ZfsError;
use crate::spa::Spa;
use async_recursion::async_recursion as boxed;
use names::{Make, NAME_BYTES_MAX};
use rt::SgList;
use rt::inodes::{
    Attributes, Caller, Changes, Cookie, Fallocate, Fsync, InodeError, InodeFuture, InodeKind,
    Inodes, ListEntry, MountId, New, Node, OpenNode, RenameHow, Seek, SetAttributes, SetHow, Usage,
    Watcher, WriteAt,
};
use shared::Shared;
use std::future::ready;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// A dataset that is mounted. See the [module](self).
#[derive(Clone)]
pub struct Mounted(Rc<Shared>);

impl Mounted {
    /// The dataset, with all that is below it, for reading. `tell` is told of what is found later.
    ///
    /// # Errors
    /// It is no file system, or can't be had; or its intent log is to be laid over it, and can't be.
    #[boxed(?Send)]
    pub async fn open(
        spa: &Rc<Spa>,
        directory: Rc<Directory>,
        dataset: Dataset,
        how: MountOptions,
        tell: Tell,
    ) -> Result<Mounted, ZfsError> {
        Mounted::with(Rc::clone(spa), None, directory, dataset, how, tell).await
    }

    /// The dataset of a pool that is open for writing, with all that is below it, for writing. A snapshot is read only.
    ///
    /// # Errors
    /// It is no file system, or can't be had.
    #[boxed(?Send)]
    pub async fn open_for_writing(
        writing: Writing,
        directory: Rc<Directory>,
        dataset: Dataset,
        how: MountOptions,
        tell: Tell,
    ) -> Result<Mounted, ZfsError> {
        let spa = Rc::clone(writing.live.spa());
        Mounted::with(spa, Some(writing), directory, dataset, how, tell).await
    }

    /// The object of the dataset at the top.
    pub fn dataset(&self) -> u64 {
        self.0.top().dataset.number
    }

    /// Lets go of a dataset below the one at the top, which is to be destroyed. Says whether it did: else somebody has files of it open,
    /// and it was not to be `by_force`.
    pub fn leave(&self, dataset: u64, by_force: bool) -> bool {
        self.0.leave(dataset, by_force)
    }

    /// What a dataset that it has taken up is called.
    pub fn name_of(&self, dataset: u64) -> String {
        self.0.name_of(dataset)
    }

    /// Looks at what tasks of the pool that were done elsewhere have changed, and tells who watches.
    ///
    /// # Errors
    /// A dataset can't be had.
    pub async fn follow(&self) -> Result<(), ZfsError> {
        self.0.follow().await
    }

    /// Ends when all who watch have passed on what they were told.
    pub async fn passed_on(&self) {
        let watchers: Vec<_> = self.0.watchers.borrow().all.values().cloned().collect();
        for watcher in watchers {
            watcher.passed_on().await;
        }
    }

    /// The datasets that it shows, from the one at the top on, each with its path below the directory.
    ///
    /// # Errors
    /// A dataset can't be had.
    #[boxed(?Send)]
    pub async fn shown(&self) -> Result<Vec<(String, Vec<u8>)>, ZfsError> {
        self.0.shown().await
    }

    async fn with(
        spa: Rc<Spa>,
        writing: Option<Writing>,
        directory: Rc<Directory>,
        dataset: Dataset,
        how: MountOptions,
        tell: Tell,
    ) -> Result<Mounted, ZfsError> {
        let name = dataset.name.as_str().into();
        let (served, known, names, open) = Default::default();
        let (holds, watchers) = Default::default();
        let shared =
            Shared { spa, name, how, tell, served, known, names, open, writing, holds, watchers };
        let mounted = Mounted(Rc::new(shared));
        mounted.0.serve(&directory, dataset, Node::ROOT).await?;
        Ok(mounted)
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

    fn changes(&self) -> Changes {
        match self.0.writing {
            Some(_) => Changes::Told,
            None => Changes::Never,
        }
    }

    fn name_bytes_max(&self) -> usize {
        match self.0.writing {
            Some(_) => NAME_BYTES_MAX,
            None => 1023,
        }
    }

    fn folds_names(&self, directory: Node) -> bool {
        self.0.folds_names(directory)
    }

    fn watch(&self, watcher: Rc<dyn Watcher>) -> MountId {
        self.0.watch(watcher)
    }

    fn unwatch(&self, mount: MountId) {
        self.0.watchers.borrow_mut().all.remove(&mount);
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
        let name = name.to_vec();
        answer!(self, |shared| shared.extended_value(node, &name))
    }

    fn extended_attributes(&self, node: Node) -> InodeFuture<Vec<Vec<u8>>> {
        let shared = Rc::clone(&self.0);
        Box::pin(async move {
            let found = shared.extended(node).await?;
            Ok(found.into_iter().map(|(name, _)| name).collect())
        })
    }

    fn usage(&self, of: Node) -> InodeFuture<Usage> {
        answer!(self, |shared| shared.usage(of))
    }

    fn seek(&self, file: Node, at: Offset, what: Seek) -> InodeFuture<Offset> {
        answer!(self, |shared| shared.seek(file, at, what))
    }

    fn open(&self, by: Caller, node: Node, how: OpenNode) -> InodeFuture<()> {
        answer!(self, |shared| shared.open(by, node, how))
    }

    fn release(&self, node: Node) {
        self.0.release(node);
    }

    fn create(
        &self,
        by: Caller,
        directory: Node,
        name: &[u8],
        new: New,
    ) -> InodeFuture<Attributes> {
        self.make(by, directory, Some(name), Make::file(new, true))
    }

    fn create_unnamed(&self, by: Caller, directory: Node, new: New) -> InodeFuture<Attributes> {
        self.make(by, directory, None, Make::file(new, true))
    }

    fn mkdir(&self, by: Caller, directory: Node, name: &[u8], new: New) -> InodeFuture<Attributes> {
        self.make(
            by,
            directory,
            Some(name),
            Make { kind: InodeKind::Directory, ..Make::file(new, false) },
        )
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
        if matches!(kind, InodeKind::Directory | InodeKind::Link) {
            return Box::pin(ready(Err(InodeError::WrongKind)));
        }
        self.make(by, directory, Some(name), Make { kind, device, ..Make::file(new, false) })
    }

    fn symlink(
        &self,
        by: Caller,
        directory: Node,
        name: &[u8],
        target: &[u8],
    ) -> InodeFuture<Attributes> {
        let (kind, target) = (InodeKind::Link, Some(target.to_vec()));
        let new = New { permissions: 0o777, umask: 0 };
        self.make(by, directory, Some(name), Make { kind, target, ..Make::file(new, false) })
    }

    fn link(
        &self,
        by: Caller,
        node: Node,
        directory: Node,
        name: &[u8],
    ) -> InodeFuture<Attributes> {
        let name = name.to_vec();
        answer!(self, |shared| shared.link(by, node, directory, &name))
    }

    fn unlink(&self, by: Caller, directory: Node, name: &[u8]) -> InodeFuture<()> {
        let name = name.to_vec();
        answer!(self, |shared| shared.remove(by, directory, &name, false))
    }

    fn rmdir(&self, by: Caller, directory: Node, name: &[u8]) -> InodeFuture<()> {
        let name = name.to_vec();
        answer!(self, |shared| shared.remove(by, directory, &name, true))
    }

    fn rename(
        &self,
        by: Caller,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        how: RenameHow,
    ) -> InodeFuture<()> {
        let ((source, old), (target, new)) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        answer!(self, |shared| shared.rename(by, (source, &old), (target, &new), how))
    }

    fn setattr(&self, by: Caller, node: Node, set: SetAttributes) -> InodeFuture<Attributes> {
        answer!(self, |shared| shared.setattr(by, node, set))
    }

    fn write(
        &self,
        by: Caller,
        file: Node,
        at: WriteAt,
        data: SgList,
        durable: bool,
    ) -> InodeFuture<Offset> {
        answer!(self, |shared| shared.write(by, file, at, data, durable))
    }

    fn fallocate(
        &self,
        by: Caller,
        file: Node,
        at: Offset,
        len: ByteCount,
        what: Fallocate,
    ) -> InodeFuture<()> {
        answer!(self, |shared| shared.fallocate(by, file, at, len, what))
    }

    fn fsync(&self, node: Node, what: Fsync) -> InodeFuture<()> {
        answer!(self, |shared| shared.fsync(node, what))
    }

    fn sync(&self) -> InodeFuture<()> {
        answer!(self, |shared| shared.sync())
    }

    fn set_extended_attribute(
        &self,
        by: Caller,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetHow,
    ) -> InodeFuture<()> {
        let (name, value) = (name.to_vec(), value.to_vec());
        answer!(self, |shared| shared.set_value(by, node, &name, &value, how))
    }

    fn remove_extended_attribute(&self, by: Caller, node: Node, name: &[u8]) -> InodeFuture<()> {
        let name = name.to_vec();
        answer!(self, |shared| shared.remove_value(by, node, &name))
    }
}

impl Mounted {
    fn make(
        &self,
        by: Caller,
        directory: Node,
        name: Option<&[u8]>,
        make: Make,
    ) -> InodeFuture<Attributes> {
        let name = name.map(<[u8]>::to_vec);
        answer!(self, |shared| shared.make(by, directory, name.as_deref(), make))
    }
}
