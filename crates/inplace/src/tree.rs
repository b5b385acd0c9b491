//! Names: the operations of a [`FileTree`].
//!
//! Each operation is a task of its own and shares the namespace; a rename holds it alone. What is changed
//! in one directory goes under its `entries` lock.
//!
//! *Removing*: the name goes, the inode becomes an orphan, both in one transaction; then, when no handle is
//! left, its blocks are freed and then the inode. *Renaming* is one transaction.

use crate::core::{Core, Outcome};
use crate::directory::{Entry, NAME_MAX};
use crate::file::{OpenFile, in_own_task, status_of};
use crate::filesystem::FileSystem;
use crate::inode::{Inode, Kind, next_generation};
use crate::mapping::Root;
use crate::read::hold;
use crate::settings::Hold;
use rt::file_tree::plain_names;
use rt::{
    DirectoryEntry, FileKind, FileRef, FileStatus, FileTree, OpenHow, Space, TreeErrorKind,
    TreeFuture, TreeOp,
};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::ByteCount;

/// A path's names, which must be UTF-8 and not too long.
fn names_of(path: &Path) -> Outcome<Vec<String>> {
    let name = |name: &std::ffi::OsStr| {
        let name = name.to_str().ok_or(TreeErrorKind::BadPath)?;
        if name.len() > NAME_MAX {
            return Err(TreeErrorKind::NameTooLong);
        }
        Ok(name.to_owned())
    };
    plain_names(path)?.into_iter().map(name).collect()
}

impl Core {
    /// The directory that these names lead to.
    async fn walk_names(&self, names: &[String]) -> Outcome<Rc<Inode>> {
        self.check_mounted()?;
        let mut inode = self.inode(self.root).await?;
        for name in names {
            if inode.kind != Kind::Directory {
                return Err(TreeErrorKind::NotDirectory);
            }
            let found = {
                let _entries = inode.entries.lock().await;
                self.find_name(&inode, name).await?
            };
            inode = self.inode(found.ok_or(TreeErrorKind::NotFound)?.inode).await?;
        }
        Ok(inode)
    }

    /// The directory that holds the last of these names.
    async fn parent_of(&self, names: &[String]) -> Outcome<Rc<Inode>> {
        let before = names.len().checked_sub(1).ok_or(TreeErrorKind::IsDirectory)?;
        let parent = self.walk_names(&names[..before]).await?;
        match parent.kind {
            Kind::Directory => Ok(parent),
            Kind::File => Err(TreeErrorKind::NotDirectory),
        }
    }

    /// Makes an inode with a name. The parent's `entries` lock is held, and the name is not there.
    async fn create(&self, parent: &Inode, name: &str, kind: Kind) -> Outcome<Rc<Inode>> {
        self.begin().await?;
        let home = self.shape.region_of(parent.number / self.shape.inodes_per_block()).unwrap_or(0);
        let home = self.shape.group_of_region(home);
        let group = match kind {
            Kind::File => home,
            Kind::Directory => {
                let in_root = parent.number == self.root;
                let spread = self.settings.spread;
                self.space.borrow_mut().directory_group(spread, home, in_root)
            }
        };
        let room = self.make_room(parent, name).await?;
        let parent_block = self.inode_block(parent.number).await?;
        let grant = self.take_inode(group).await?;
        let now = self.clock();
        let at = self.shape.inode_place(grant.number).map_or(0, |(_, at)| at);
        let generation = next_generation(&grant.block.bytes(), at);
        let root = Root::empty(&self.shape, self.settings.mapping);
        let inode = Inode::fresh(grant.number, kind, root, generation, now);
        let tx = self.tx();
        self.use_inode(&tx, &grant, kind == Kind::Directory);
        let inode = self.inodes.insert(inode, self.tick());
        self.store(&tx, &inode, &grant.block);
        let entry = Entry { inode: grant.number, kind, name: name.to_owned() };
        self.enter_name(&tx, parent, &room, &entry);
        parent.body.borrow_mut().changed = now;
        self.store(&tx, parent, &parent_block);
        self.drop_surplus_inodes();
        Ok(inode)
    }

    async fn open_file(self: &Rc<Self>, path: &Path, how: OpenHow) -> Outcome<OpenFile> {
        self.charge_call().await;
        let _namespace = self.namespace.read().await;
        let names = names_of(path)?;
        let parent = self.parent_of(&names).await?;
        let name = names.last().ok_or(TreeErrorKind::IsDirectory)?;
        let entries = parent.entries.lock().await;
        let found = self.find_name(&parent, name).await?;
        let full = Path::new(&*self.name).join(path).display().to_string();
        let Some(found) = found else {
            if !how.create {
                return Err(TreeErrorKind::NotFound);
            }
            let inode = self.create(&parent, name, Kind::File).await?;
            return Ok(OpenFile::new(self, inode, full.into(), how));
        };
        if found.kind == Kind::Directory {
            return Err(TreeErrorKind::IsDirectory);
        }
        if how.create && how.exclusive {
            return Err(TreeErrorKind::Exists);
        }
        let inode = self.inode(found.inode).await?;
        let file = OpenFile::new(self, Rc::clone(&inode), full.into(), how);
        drop(entries);
        if how.truncate && how.write {
            let _held = hold(&inode.rw, Hold::Alone).await;
            self.set_size(&inode, 0).await?;
        }
        Ok(file)
    }

    async fn make_directory(self: &Rc<Self>, path: &Path) -> Outcome<()> {
        self.charge_call().await;
        let _namespace = self.namespace.read().await;
        let names = names_of(path)?;
        let parent = self.parent_of(&names).await?;
        let name = names.last().ok_or(TreeErrorKind::IsDirectory)?;
        let _entries = parent.entries.lock().await;
        if self.find_name(&parent, name).await?.is_some() {
            return Err(TreeErrorKind::Exists);
        }
        self.create(&parent, name, Kind::Directory).await.map(drop)
    }

    async fn remove(self: &Rc<Self>, path: &Path, kind: Kind) -> Outcome<()> {
        self.charge_call().await;
        let namespace = self.namespace.read().await;
        let names = names_of(path)?;
        let parent = self.parent_of(&names).await?;
        let name = names.last().ok_or(TreeErrorKind::IsDirectory)?;
        let entries = parent.entries.lock().await;
        let found = self.find_name(&parent, name).await?.ok_or(TreeErrorKind::NotFound)?;
        match (kind, found.kind) {
            (Kind::File, Kind::Directory) => return Err(TreeErrorKind::IsDirectory),
            (Kind::Directory, Kind::File) => return Err(TreeErrorKind::NotDirectory),
            _ => {}
        }
        let inode = self.inode(found.inode).await?;
        let _inner = match kind {
            Kind::Directory => {
                let inner = inode.entries.lock().await;
                if !self.is_empty_directory(&inode).await? {
                    return Err(TreeErrorKind::NotEmpty);
                }
                Some(inner)
            }
            Kind::File => None,
        };
        self.begin().await?;
        let parent_block = self.inode_block(parent.number).await?;
        let inode_block = self.inode_block(inode.number).await?;
        if !self.inodes.has_orphan_slot() {
            return Err(TreeErrorKind::TooManyOpen);
        }
        let tx = self.tx();
        self.remove_name(&tx, &parent, &found, name);
        parent.body.borrow_mut().changed = self.clock();
        self.store(&tx, &parent, &parent_block);
        inode.body.borrow_mut().links = 0;
        self.inodes.set_orphan(&tx, inode.number, true);
        self.store(&tx, &inode, &inode_block);
        drop(entries);
        drop(namespace);
        if inode.opens.get() == 0 {
            self.reclaim(&inode).await?;
        }
        Ok(())
    }

    async fn rename_name(self: &Rc<Self>, from: &Path, to: &Path) -> Outcome<()> {
        self.charge_call().await;
        let namespace = self.namespace.write().await;
        let (from, to) = (names_of(from)?, names_of(to)?);
        // Both parents come before either name, as in rename(2): a way to the target that leads
        // through a file is told before a source that isn't there.
        let old_parent = self.parent_of(&from).await?;
        let new_parent = self.parent_of(&to).await?;
        let name = from.last().ok_or(TreeErrorKind::IsDirectory)?;
        let new_name = to.last().ok_or(TreeErrorKind::IsDirectory)?;
        let source = self.find_name(&old_parent, name).await?.ok_or(TreeErrorKind::NotFound)?;
        if to.starts_with(&from) && to != from {
            return Err(TreeErrorKind::NotSupported);
        }
        let target = self.find_name(&new_parent, new_name).await?;
        let replaced = match &target {
            None => None,
            Some(target) => Some(self.inode(target.inode).await?),
        };
        if from == to {
            return Ok(());
        }
        // What holds the source is not empty, whatever the source is.
        if from.starts_with(&to) {
            return Err(TreeErrorKind::NotEmpty);
        }
        if let (Some(target), Some(inode)) = (&target, &replaced) {
            match (source.kind, target.kind) {
                (Kind::File, Kind::Directory) => return Err(TreeErrorKind::IsDirectory),
                (_, Kind::Directory) if !self.is_empty_directory(inode).await? => {
                    return Err(TreeErrorKind::NotEmpty);
                }
                (Kind::Directory, Kind::File) => return Err(TreeErrorKind::NotDirectory),
                _ => {}
            }
        }
        self.begin().await?;
        let room = match &target {
            None => Some(self.make_room(&new_parent, new_name).await?),
            Some(_) => None,
        };
        // Making room may have moved the entry to another leaf.
        let source = self.find_name(&old_parent, name).await?.ok_or(TreeErrorKind::NotFound)?;
        let old_block = self.inode_block(old_parent.number).await?;
        let new_block = self.inode_block(new_parent.number).await?;
        let replaced_block = match &replaced {
            None => None,
            Some(inode) => Some(self.inode_block(inode.number).await?),
        };
        if replaced.is_some() && !self.inodes.has_orphan_slot() {
            return Err(TreeErrorKind::TooManyOpen);
        }
        let tx = self.tx();
        match (&target, &room) {
            (Some(target), _) => {
                self.replace_name(&tx, target, new_name, source.inode, source.kind);
            }
            (None, Some(room)) => {
                let entry =
                    Entry { inode: source.inode, kind: source.kind, name: new_name.clone() };
                self.enter_name(&tx, &new_parent, room, &entry);
            }
            (None, None) => unreachable!("room was made where there is no target"),
        }
        self.remove_name(&tx, &old_parent, &source, name);
        let now = self.clock();
        for (parent, block) in [(&old_parent, &old_block), (&new_parent, &new_block)] {
            parent.body.borrow_mut().changed = now;
            self.store(&tx, parent, block);
        }
        if let (Some(inode), Some(block)) = (&replaced, &replaced_block) {
            inode.body.borrow_mut().links = 0;
            self.inodes.set_orphan(&tx, inode.number, true);
            self.store(&tx, inode, block);
        }
        drop(namespace);
        match replaced {
            Some(inode) if inode.opens.get() == 0 => self.reclaim(&inode).await,
            _ => Ok(()),
        }
    }

    async fn list_names(self: &Rc<Self>, path: &Path) -> Outcome<Vec<DirectoryEntry>> {
        self.charge_call().await;
        let _namespace = self.namespace.read().await;
        let directory = self.walk_names(&names_of(path)?).await?;
        if directory.kind != Kind::Directory {
            return Err(TreeErrorKind::NotDirectory);
        }
        let _entries = directory.entries.lock().await;
        let all = self.all_names(&directory).await?;
        let entry = |entry: Entry| DirectoryEntry {
            name: PathBuf::from(entry.name),
            kind: match entry.kind {
                Kind::File => FileKind::File,
                Kind::Directory => FileKind::Directory,
            },
        };
        Ok(all.into_iter().map(entry).collect())
    }

    async fn status_by_name(self: &Rc<Self>, path: &Path) -> Outcome<FileStatus> {
        self.charge_call().await;
        let _namespace = self.namespace.read().await;
        let inode = self.walk_names(&names_of(path)?).await?;
        Ok(status_of(self, &inode))
    }
}

impl FileSystem {
    /// Runs an operation on a path as a task of its own.
    fn run<T, F, W>(&self, op: TreeOp, path: &Path, work: W) -> TreeFuture<T>
    where
        T: 'static,
        F: Future<Output = Outcome<T>> + 'static,
        W: FnOnce(Rc<Core>, PathBuf) -> F,
    {
        let core = self.core();
        let full = Path::new(&*core.name).join(path);
        in_own_task(core, op, full, work(Rc::clone(core), path.to_owned()))
    }

    /// Makes a file of this size whose blocks have their places as if they had been written, without writing them: what it holds
    /// is what the device holds there. For who asks how long I/O on a large file takes, and not what making it does.
    ///
    /// # Errors
    /// What the tree refuses, or where there is no such space.
    pub fn lay_out(&self, path: &Path, size: ByteCount) -> TreeFuture<()> {
        self.run(TreeOp::Allocate, path, async move |core: Rc<Core>, path: PathBuf| {
            core.open_file(&path, OpenHow::create()).await?.lay_out(size).await
        })
    }
}

impl FileTree for FileSystem {
    fn name(&self) -> Rc<str> {
        Rc::clone(&self.core().name)
    }

    fn open(&self, path: &Path, how: OpenHow) -> TreeFuture<FileRef> {
        let op = if how.create { TreeOp::Create } else { TreeOp::Open };
        self.run(op, path, async move |core: Rc<Core>, path: PathBuf| {
            let file = core.open_file(&path, how).await?;
            Ok(Rc::new(file) as FileRef)
        })
    }

    fn create_directory(&self, path: &Path) -> TreeFuture<()> {
        self.run(TreeOp::CreateDirectory, path, async |core: Rc<Core>, path: PathBuf| {
            core.make_directory(&path).await
        })
    }

    fn remove_directory(&self, path: &Path) -> TreeFuture<()> {
        self.run(TreeOp::RemoveDirectory, path, async |core: Rc<Core>, path: PathBuf| {
            core.remove(&path, Kind::Directory).await
        })
    }

    fn remove_file(&self, path: &Path) -> TreeFuture<()> {
        self.run(TreeOp::RemoveFile, path, async |core: Rc<Core>, path: PathBuf| {
            core.remove(&path, Kind::File).await
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> TreeFuture<()> {
        let to = to.to_owned();
        self.run(TreeOp::Rename, from, async move |core: Rc<Core>, from: PathBuf| {
            core.rename_name(&from, &to).await
        })
    }

    fn list(&self, path: &Path) -> TreeFuture<Vec<DirectoryEntry>> {
        self.run(TreeOp::List, path, async |core: Rc<Core>, path: PathBuf| {
            core.list_names(&path).await
        })
    }

    fn status(&self, path: &Path) -> TreeFuture<FileStatus> {
        self.run(TreeOp::Status, path, async |core: Rc<Core>, path: PathBuf| {
            core.status_by_name(&path).await
        })
    }

    fn sync(&self) -> TreeFuture<()> {
        self.run(TreeOp::Sync, Path::new(""), async |core: Rc<Core>, _: PathBuf| {
            core.charge_call().await;
            core.sync_all().await
        })
    }

    fn space(&self) -> TreeFuture<Space> {
        let core = self.core();
        let block = core.shape.block;
        let total = (0..core.shape.groups).map(|group| {
            let regions = core.shape.first_region(group)..core.shape.regions;
            let regions = regions.take(core.shape.regions_per_group() as usize);
            regions.map(|region| core.shape.region(region).len).sum::<u64>()
                - core.shape.group_metadata()
        });
        let free = core.space.borrow().free_for_all() + core.journal.freed_blocks();
        let (total, free) = (ByteCount(total.sum::<u64>() * block), ByteCount(free * block));
        Box::pin(std::future::ready(Ok(Space { total, free })))
    }
}
