//! Names in the file system in memory: made, linked, removed, moved.

use super::content::Content;
use super::directory::Directory;
use super::store::{Body, Done, LINKS_MAX, NAME_BYTES_MAX, Store};
use crate::inodes::acl::{self, Acl};
use crate::inodes::{
    Attributes, Caller, ChangeNotice, Cookie, InodeError, InodeKind, ListEntry, New, Node,
    RenameHow, rules,
};

/// Bytes of what a symbolic link holds: a path of Linux.
const TARGET_BYTES_MAX: usize = 4095;

impl Store {
    pub(super) fn lookup(&self, directory: Node, name: &[u8]) -> Done<Attributes> {
        self.attributes(self.entry(directory, name)?)
    }

    /// The node of an entry that is there.
    fn entry(&self, directory: Node, name: &[u8]) -> Done<Node> {
        let found = self.get(directory)?.directory()?.get(name);
        match name.len() > NAME_BYTES_MAX {
            true => Err(InodeError::NameTooLong),
            false => found.ok_or(InodeError::NotFound),
        }
    }

    pub(super) fn list(
        &mut self,
        directory: Node,
        after: Cookie,
        entries_max: usize,
    ) -> Done<Vec<ListEntry>> {
        let entries = self.get(directory)?.directory()?.behind(after).take(entries_max);
        let entry = |(cookie, name, node): (Cookie, &[u8], Node)| {
            let of = &self.inodes[&node].attributes;
            ListEntry { name: name.to_vec(), node, inode: of.inode, kind: of.kind, cookie }
        };
        let entries = entries.map(entry).collect();
        self.touch(directory);
        Ok(entries)
    }

    /// Whether something can be made under this name: the directory lives, and nothing is there.
    fn has_room(&self, directory: Node, name: &[u8]) -> Done<()> {
        match self.entry(directory, name) {
            Ok(_) => Err(InodeError::Exists),
            Err(InodeError::NotFound) if self.get(directory)?.attributes.links == 0 => {
                Err(InodeError::NotFound)
            }
            Err(InodeError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn directory_mut(&mut self, node: Node) -> &mut Directory {
        match &mut self.inodes.get_mut(&node).expect("it was looked at before").body {
            Body::Directory(directory) => directory,
            _ => panic!("it was a directory when it was looked at"),
        }
    }

    /// Puts an entry, or takes one away, and counts what changes with it.
    fn set_entry(&mut self, by: Node, name: &[u8], node: Option<Node>) {
        match node {
            Some(node) => self.directory_mut(by).put(name, node),
            None => self.directory_mut(by).remove(name),
        }
        let now = self.now();
        let inode = self.inodes.get_mut(&by).expect("it was looked at before");
        (inode.attributes.modified, inode.attributes.changed) = (now, now);
        self.tell(ChangeNotice::Entry { directory: by, name: name.to_vec() });
        self.tell(ChangeNotice::Content(by));
    }

    /// Counts a node's names anew: so many more or fewer.
    fn count_links(&mut self, node: Node, more: i32) {
        let now = self.now();
        let of = &mut self.inodes.get_mut(&node).expect("it was looked at before").attributes;
        of.links =
            of.links.checked_add_signed(more).expect("names are counted as they come and go");
        of.changed = now;
        self.tell(ChangeNotice::Attributes(node));
    }

    fn is_directory(&self, node: Node) -> bool {
        matches!(self.inodes[&node].body, Body::Directory(_))
    }

    /// Something new, under a name or under none.
    pub(super) fn make(
        &mut self,
        by: Caller,
        directory: Node,
        name: Option<&[u8]>,
        new: New,
        what: (InodeKind, (u32, u32)),
        body: Option<Body>,
    ) -> Done<Attributes> {
        let (kind, device) = what;
        match name {
            Some(name) => self.has_room(directory, name)?,
            None => drop(self.get(directory)?.directory()?),
        }
        if self.inodes.len() as u64 >= self.files_max {
            return Err(InodeError::NoSpace);
        }
        let above = self.get(directory)?;
        let is_directory = kind == InodeKind::Directory;
        if is_directory && above.attributes.links >= LINKS_MAX {
            return Err(InodeError::TooManyLinks);
        }
        let default = above.values.get(acl::DEFAULT).map(|list| Acl::decode(list)).transpose()?;
        let born = rules::born(by, &above.attributes, default, kind, new);
        let body = body.unwrap_or_else(|| match kind {
            InodeKind::File => Body::File(Content::default()),
            InodeKind::Directory => Body::Directory(Directory::new(directory)),
            _ => Body::Special,
        });
        let node = self.add(born, kind, device, body);
        if let Some(name) = name {
            self.set_entry(directory, name, Some(node));
            match is_directory {
                true => self.count_links(directory, 1),
                false => self.count_links(node, 1),
            }
        }
        self.attributes(node)
    }

    pub(super) fn symlink(
        &mut self,
        by: Caller,
        directory: Node,
        name: &[u8],
        target: &[u8],
    ) -> Done<Attributes> {
        if target.len() > TARGET_BYTES_MAX {
            return Err(InodeError::NameTooLong);
        }
        let new = New { permissions: 0o777, umask: 0 };
        let body = Body::Link(target.to_vec());
        self.make(by, directory, Some(name), new, (InodeKind::Link, (0, 0)), Some(body))
    }

    pub(super) fn link(&mut self, node: Node, directory: Node, name: &[u8]) -> Done<Attributes> {
        let of = self.get(node)?.attributes;
        self.has_room(directory, name)?;
        match of.kind {
            InodeKind::Directory => return Err(InodeError::NotPermitted),
            _ if of.links >= LINKS_MAX => return Err(InodeError::TooManyLinks),
            _ => {}
        }
        self.set_entry(directory, name, Some(node));
        self.count_links(node, 1);
        self.attributes(node)
    }

    /// Says what it was.
    pub(super) fn unlink(&mut self, directory: Node, name: &[u8]) -> Done<InodeKind> {
        let node = self.entry(directory, name)?;
        if self.is_directory(node) {
            return Err(InodeError::IsDirectory);
        }
        let kind = self.get(node)?.attributes.kind;
        self.set_entry(directory, name, None);
        self.count_links(node, -1);
        self.bury(node);
        Ok(kind)
    }

    pub(super) fn rmdir(&mut self, directory: Node, name: &[u8]) -> Done<()> {
        let node = self.entry(directory, name)?;
        if self.get(node)?.directory()?.len() > 0 {
            return Err(InodeError::NotEmpty);
        }
        self.set_entry(directory, name, None);
        self.count_links(directory, -1);
        self.forget_directory(node);
        Ok(())
    }

    /// An empty directory lost its name.
    fn forget_directory(&mut self, node: Node) {
        assert_eq!(self.inodes[&node].attributes.links, 2, "nothing is in it");
        self.count_links(node, -2);
        self.bury(node);
    }

    /// Whether a directory is this one or lies below it.
    fn is_below(&self, directory: Node, above: Node) -> Done<bool> {
        let mut at = directory;
        while at != above {
            let parent = self.get(at)?.directory()?.parent;
            if parent == at {
                return Ok(false);
            }
            at = parent;
        }
        Ok(true)
    }

    pub(super) fn rename(
        &mut self,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        how: RenameHow,
    ) -> Done<()> {
        let node = self.entry(from.0, from.1)?;
        let there = match self.has_room(to.0, to.1) {
            Ok(()) => None,
            Err(InodeError::Exists) => Some(self.entry(to.0, to.1)?),
            Err(error) => return Err(error),
        };
        let moves_directory = self.is_directory(node);
        match (how, there) {
            (RenameHow::NoReplace, Some(_)) => return Err(InodeError::Exists),
            (RenameHow::Exchange, None) => return Err(InodeError::NotFound),
            (_, Some(there)) if there == node => return Ok(()),
            _ => {}
        }
        if moves_directory && self.is_below(to.0, node)? {
            return Err(InodeError::Invalid);
        }
        let Some(there) = there else {
            if moves_directory && from.0 != to.0 && self.get(to.0)?.attributes.links >= LINKS_MAX {
                return Err(InodeError::TooManyLinks);
            }
            self.set_entry(to.0, to.1, Some(node));
            self.set_entry(from.0, from.1, None);
            self.moved(node, from.0, to.0);
            return Ok(());
        };
        let is_directory = self.is_directory(there);
        // What is moved lies in what it is to replace.
        let leads_up = is_directory && self.is_below(from.0, there)?;
        if how == RenameHow::Exchange {
            if leads_up {
                return Err(InodeError::Invalid);
            }
            self.set_entry(to.0, to.1, Some(node));
            self.set_entry(from.0, from.1, Some(there));
            self.moved(node, from.0, to.0);
            self.moved(there, to.0, from.0);
            return Ok(());
        }
        match (moves_directory, is_directory) {
            _ if leads_up => return Err(InodeError::NotEmpty),
            (true, false) => return Err(InodeError::NotDirectory),
            (false, true) => return Err(InodeError::IsDirectory),
            (true, true) if self.get(there)?.directory()?.len() > 0 => {
                return Err(InodeError::NotEmpty);
            }
            _ => {}
        }
        self.set_entry(to.0, to.1, Some(node));
        self.set_entry(from.0, from.1, None);
        match is_directory {
            true => {
                self.count_links(to.0, -1);
                self.forget_directory(there);
            }
            false => {
                self.count_links(there, -1);
                self.bury(there);
            }
        }
        self.moved(node, from.0, to.0);
        Ok(())
    }

    /// An entry for this node went from one directory to another, or stayed in it.
    fn moved(&mut self, node: Node, from: Node, to: Node) {
        self.count_links(node, 0);
        if self.is_directory(node) && from != to {
            self.directory_mut(node).parent = to;
            self.count_links(from, -1);
            self.count_links(to, 1);
        }
    }
}
