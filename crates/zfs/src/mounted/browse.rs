//! What is asked of a mount without changing it.

use super::answer::{attributes, kind_of};
use super::refusal::wrong;
use super::shared::{
    CHILDREN_FROM, CLOSED, CONTROL, CONTROL_COOKIE, DNODE_BYTES, KnownSpace, NAMES_MAX, Notice,
    OBJECT_BITS, Place, SNAPSHOTS, Served, Shared,
};
use crate::error::{Problem, ZfsError};
use crate::zap::Cursor;
use rt::SgList;
use rt::inodes::{Attributes, Cookie, InodeError, InodeKind, ListEntry, Node, Usage};
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs_format::zpl::directory::FileKind;

impl Shared {
    pub(super) async fn root_of(&self, served: &Served) -> Result<Attributes, InodeError> {
        let object = served.files.root_number();
        let node = self.file(served, object).await?;
        Ok(attributes(served, &node))
    }

    /// The directories of `.zfs` look like the root, for reading.
    pub(super) async fn control(
        &self,
        served: &Served,
        object: u64,
    ) -> Result<Attributes, InodeError> {
        let root = self.root_of(served).await?;
        let (node, inode) = (served.node(object), served.inode(object));
        let size = ByteCount(0);
        Ok(Attributes { node, inode, permissions: 0o555, links: 2, size, ..root })
    }

    /// Whether the dataset of a directory takes several names for one. Of `.zfs`, too, where names of snapshots are the same as those of
    /// files are.
    pub(super) fn folds_names(&self, directory: Node) -> bool {
        let index = directory.0 >> OBJECT_BITS;
        let served = self.served.borrow();
        let of = served.get(index as usize).and_then(Option::as_ref);
        of.is_some_and(|served| served.files.name_rules().folds())
    }

    pub(super) async fn lookup(
        &self,
        directory: Node,
        name: &[u8],
    ) -> Result<Attributes, InodeError> {
        match self.place(directory)? {
            Place::Control(served) if name == b"snapshot" => self.control(&served, SNAPSHOTS).await,
            Place::Control(_) => Err(InodeError::NotFound),
            Place::Snapshots(served) => {
                let snapshot = self.snapshot(&served, name).await;
                self.note_asked(&served, name, snapshot.as_deref());
                self.root_of(&*snapshot?).await
            }
            Place::File(served, object) => {
                if served.is_root(object) {
                    if name == b".zfs" && !served.is_snapshot {
                        return self.control(&served, CONTROL).await;
                    }
                    let children = self.children(&served).await.map_err(|error| wrong(&error))?;
                    if let Some((at, child)) = children.find(name) {
                        return match self.child(&served, child).await {
                            Ok(child) => self.root_of(&child).await,
                            Err(InodeError::NoKey) => {
                                let closed = self.control(&served, CLOSED + at as u64).await?;
                                Ok(Attributes { permissions: 0, ..closed })
                            }
                            Err(error) => Err(error),
                        };
                    }
                }
                let node = self.file(&served, object).await?;
                let found =
                    served.files.lookup(&node, name).await.map_err(|error| wrong(&error))?;
                let entry = found.ok_or(InodeError::NotFound)?;
                let child = self.file(&served, entry.object).await?;
                served.files.belongs(&child, &node).map_err(|error| wrong(&error))?;
                if child.is_directory() {
                    let same = served.files.name_rules().same(name);
                    self.has_one_name(served.inode(entry.object), &same)?;
                }
                Ok(attributes(&served, &child))
            }
        }
    }

    /// Refuses a directory that was found under another name in the same one.
    pub(super) fn has_one_name(&self, node: u64, name: &[u8]) -> Result<(), InodeError> {
        let mut names = self.names.borrow_mut();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        match names.entry(node).or_insert_with(|| name.into()) {
            known if **known == *name => Ok(()),
            _ => Err(InodeError::Loop),
        }
    }

    pub(super) async fn attributes(&self, node: Node) -> Result<Attributes, InodeError> {
        match self.place(node) {
            Ok(Place::Control(served)) => self.control(&served, CONTROL).await,
            Ok(Place::Snapshots(served)) => self.control(&served, SNAPSHOTS).await,
            Ok(Place::File(served, object)) => {
                let node = self.file(&served, object).await?;
                Ok(attributes(&served, &node))
            }
            Err(InodeError::NoKey) => {
                let served =
                    self.served.borrow().get((node.0 >> OBJECT_BITS) as usize).cloned().flatten();
                let served = served.ok_or(InodeError::Gone)?;
                let closed = self.control(&served, node.0 & CONTROL).await?;
                Ok(Attributes { permissions: 0, ..closed })
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn parent(&self, directory: Node) -> Result<Node, InodeError> {
        match self.place(directory)? {
            Place::Control(served) => Ok(served.root()),
            Place::Snapshots(served) => Ok(served.node(CONTROL)),
            Place::File(served, object) if served.is_root(object) => Ok(served.parent.get()),
            Place::File(served, object) => {
                let node = self.file(&served, object).await?;
                Ok(served.node(node.attributes.parent))
            }
        }
    }

    pub(super) async fn list(
        &self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> Result<Vec<ListEntry>, InodeError> {
        match self.place(directory)? {
            Place::Control(served) => {
                let node = served.node(SNAPSHOTS);
                let entry = ListEntry {
                    name: b"snapshot".to_vec(),
                    node,
                    inode: served.inode(SNAPSHOTS),
                    kind: InodeKind::Directory,
                    cookie: Cookie::FIRST,
                };
                Ok(if after < Cookie::FIRST { vec![entry] } else { Vec::new() })
            }
            Place::Snapshots(served) => self.list_snapshots(&served, after, entries_max).await,
            Place::File(served, object) => {
                self.list_files(&served, object, after, entries_max).await
            }
        }
    }

    pub(super) async fn list_snapshots(
        &self,
        served: &Served,
        after: Cookie,
        entries_max: usize,
    ) -> Result<Vec<ListEntry>, InodeError> {
        let snapshots = self.snapshots(served).await.map_err(|error| wrong(&error))?;
        // Each at the transaction group that it was taken in: others may go while the directory is read.
        let cookie = |taken: u64| Cookie(Cookie::FIRST.0 + taken.min(CHILDREN_FROM));
        let listed = snapshots.all.iter().enumerate();
        let listed = listed.filter(|(_, (.., taken))| cookie(*taken) > after).take(entries_max);
        // None is opened to be listed: there may be thousands. Who looks at one asks for its name.
        let entry = |(at, (name, number, taken)): (usize, &(Vec<u8>, u64, u64))| {
            let open = self.taken_up(*number).filter(|open| !self.is_gone(open));
            let (node, inode) = match open {
                Some(open) => (open.root(), open.inode(open.files.root_number())),
                None => (served.node(CLOSED + at as u64), served.inode(CLOSED + at as u64)),
            };
            let (kind, cookie) = (InodeKind::Directory, cookie(*taken));
            ListEntry { name: name.clone(), node, inode, kind, cookie }
        };
        Ok(listed.map(entry).collect())
    }

    pub(super) async fn list_files(
        &self,
        served: &Rc<Served>,
        object: u64,
        after: Cookie,
        entries_max: usize,
    ) -> Result<Vec<ListEntry>, InodeError> {
        let directory = self.file(served, object).await?;
        self.note_access(served, &directory).await;
        let is_root = served.is_root(object);
        let children = match is_root {
            true => self.children(served).await.map_err(|error| wrong(&error))?,
            false => Rc::default(),
        };
        let mut entries = Vec::new();
        let mut after = after.0;
        while after < CHILDREN_FROM && entries.len() < entries_max {
            let from = Cursor(after.saturating_sub(Cookie::FIRST.0 - 1));
            let names = served.files.list(&directory, from).await.map_err(|error| wrong(&error))?;
            if names.is_empty() {
                after = CHILDREN_FROM;
                break;
            }
            for name in names {
                // Cursors begin at 0, and go on at 1 at the least.
                after = name.next.0.saturating_add(Cookie::FIRST.0 - 1);
                if is_root && children.find(&name.name).is_some() {
                    continue;
                }
                let kind = match name.entry.kind {
                    Some(kind) => kind,
                    None => self.file(served, name.entry.object).await?.attributes.kind,
                };
                entries.push(ListEntry {
                    node: served.node(name.entry.object),
                    inode: served.inode(name.entry.object),
                    name: name.name,
                    kind: kind_of(kind),
                    cookie: Cookie(after),
                });
                if entries.len() == entries_max {
                    break;
                }
            }
        }
        if !is_root || after < CHILDREN_FROM {
            return Ok(entries);
        }
        let from = usize::try_from(after - CHILDREN_FROM).unwrap_or(usize::MAX);
        let many = entries_max.saturating_sub(entries.len());
        let left = children.iter().skip_while(|(at, ..)| *at < from);
        for (at, name, child) in left.take(many) {
            let (node, inode) = match self.child(served, child).await {
                Ok(child) => (child.root(), child.inode(child.files.root_number())),
                Err(_) => (served.node(CLOSED + at as u64), served.inode(CLOSED + at as u64)),
            };
            let (kind, cookie) = (InodeKind::Directory, Cookie(CHILDREN_FROM + at as u64 + 1));
            entries.push(ListEntry { name: name.to_vec(), node, inode, kind, cookie });
        }
        let shows = self.how.shows_control.unwrap_or(served.how.get().shows_control);
        let shows = shows && !served.is_snapshot && after != CONTROL_COOKIE;
        if shows && entries.len() < entries_max {
            entries.push(ListEntry {
                name: b".zfs".to_vec(),
                node: served.node(CONTROL),
                inode: served.inode(CONTROL),
                kind: InodeKind::Directory,
                cookie: Cookie(CONTROL_COOKIE),
            });
        }
        Ok(entries)
    }

    pub(super) async fn read(
        &self,
        file: Node,
        at: Offset,
        len: ByteCount,
    ) -> Result<SgList, InodeError> {
        let Place::File(served, object) = self.place(file)? else {
            return Err(InodeError::IsDirectory);
        };
        let node = self.file(&served, object).await?;
        match node.attributes.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(InodeError::IsDirectory),
            _ => return Err(InodeError::WrongKind),
        }
        self.note_access(&served, &node).await;
        let len = usize::try_from(len.bytes()).unwrap_or(usize::MAX);
        let read = served.files.read(&node, at.bytes(), len).await;
        read.map_err(|error| self.wrong_in(&served, (object, at.bytes(), len as u64), error))
    }

    /// Why there is no answer that takes these bytes of a file, which is told where they are damaged.
    pub(super) fn wrong_in(
        &self,
        served: &Served,
        (object, at, len): (u64, u64, u64),
        error: ZfsError,
    ) -> InodeError {
        let answer = wrong(&error);
        // That a pool is not written any more, or waits, is told of the pool.
        let is_of_pool = matches!(
            &error,
            ZfsError::Write { .. }
                | ZfsError::Object { problem: Problem::Stopped | Problem::Suspended, .. }
        );
        if matches!(answer, InodeError::Damaged | InodeError::Io) && !is_of_pool {
            let dataset = served.name();
            (self.tell)(&Notice::Damage { dataset, object, at, len, error });
        }
        answer
    }

    pub(super) async fn link_target(&self, link: Node) -> Result<Vec<u8>, InodeError> {
        let Place::File(served, object) = self.place(link)? else {
            return Err(InodeError::WrongKind);
        };
        let node = self.file(&served, object).await?;
        self.note_access(&served, &node).await;
        served.files.link_target(&node).await.map_err(|error| wrong(&error))
    }

    pub(super) async fn extended(&self, node: Node) -> Result<Vec<(Vec<u8>, Vec<u8>)>, InodeError> {
        let Place::File(served, object) = self.place(node)? else { return Ok(Vec::new()) };
        let node = self.file(&served, object).await?;
        let found = served.files.extended_attributes(&node).await;
        let mut found = found.map_err(|error| wrong(&error))?;
        let how = served.how.get();
        found.retain(|(name, _)| how.shows(name));
        Ok(found)
    }

    /// The value of an extended attribute. Where there are no lists of access it is that there is none of this file: the kernel asks for them
    /// before it lets somebody in, and what it is refused it refuses.
    pub(super) async fn extended_value(
        &self,
        node: Node,
        name: &[u8],
    ) -> Result<Vec<u8>, InodeError> {
        if let Place::File(served, _) = self.place(node)?
            && served.how.get().has_none(name)
        {
            return Err(InodeError::NotSupported);
        }
        let found = self.extended(node).await?;
        let value = found.into_iter().find(|(known, _)| known == name);
        value.map(|(_, value)| value).ok_or(InodeError::NoAttribute)
    }

    pub(super) async fn usage(&self, of: Node) -> Result<Usage, InodeError> {
        let served = match self.place(of) {
            Ok(Place::File(of, _) | Place::Control(of) | Place::Snapshots(of)) => of,
            // A dataset that is closed lies in another one.
            Err(InodeError::NoKey) => self.top(),
            Err(error) => return Err(error),
        };
        let KnownSpace { used, free, files, .. } =
            self.space_of(&served).await.map_err(|error| wrong(&error))?;
        let (used, free) = match (&self.writing, served.how.get().copies) {
            (Some(writing), Some(copies)) => {
                let dirty = writing.live.syncer().groups().dirty_bytes().saturating_mul(copies);
                let taken = dirty.min(free);
                (used.saturating_add(taken), free - taken)
            }
            _ => (used, free),
        };
        let files_free = free / DNODE_BYTES;
        let files = files.saturating_add(files_free);
        let (total, free) = (ByteCount(used.saturating_add(free)), ByteCount(free));
        Ok(Usage { total, free, files, files_free })
    }

    /// What a dataset holds and could hold, as of the last transaction group. Programs ask for it with every file; it is counted once for a
    /// group, since all space maps are looked at for it.
    async fn space_of(&self, served: &Served) -> Result<KnownSpace, ZfsError> {
        let as_of = (self.spa.uberblock().txg, self.tasks());
        if let Some(known) = served.space.get().filter(|known| known.as_of == as_of) {
            return Ok(known);
        }
        // As they are now, not as they were when they were opened.
        self.children(served).await?;
        let name = served.name();
        let head = match served.is_snapshot {
            true => None,
            false => self.spa.dsl().find(&name).await?.map(|(_, dataset)| dataset.head),
        };
        let head = head.as_ref().unwrap_or(&served.dataset.head);
        let (used, files) = (head.referenced_bytes, head.pointer.fill());
        // Who can't be told how much is free is told that nothing is.
        let free = self.available(&name).await.ok().flatten().unwrap_or(0);
        let known = KnownSpace { as_of, used, free, files };
        served.space.set(Some(known));
        Ok(known)
    }

    /// Bytes that could be written to a dataset, or to the one that it is a snapshot of.
    async fn available(&self, dataset: &str) -> Result<Option<u64>, ZfsError> {
        let name = dataset.split('@').next().unwrap_or(dataset);
        let catalog = self.spa.catalog(self.spa.space().await?.capacity).await?;
        let Some(node) = catalog.find(name).await? else { return Ok(None) };
        Ok(catalog.view(&node).await?.numbers.get("available").copied())
    }
}
