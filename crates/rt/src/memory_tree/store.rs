//! A file system in memory as plain values: its inodes, and what is done with one. Names: [`names`](super::names).
//!
//! Each method is one step and answers at once. What it changed is put down in [`notices`](Store::notices), for whoever watches.

use super::content::Content;
use super::directory::Directory;
use crate::extents::Stretch;
use crate::inodes::acl::{self, Acl};
use crate::inodes::rules::{self, CAPABILITIES};
use crate::inodes::{
    Attributes, Caller, ChangeNotice, Fallocate, InodeError, InodeKind, Node, Seek, SetAttributes,
    SetHow, Timestamp, Usage, WallClock, WriteAt,
};
use crate::sg::SgList;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Bytes of a name, of a file or of an attribute.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// Names of a file, and directories in one.
pub(super) const LINKS_MAX: u32 = 65_000;
/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 60;
/// Bytes of one extended attribute, as in Linux.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of all extended attributes of an inode.
const VALUES_BYTES_MAX: usize = 1 << 20;
const BLOCK_BYTES: u64 = 4096;

pub(super) type Done<T> = Result<T, InodeError>;

/// See the [module](self).
pub(super) struct Store {
    pub(super) inodes: BTreeMap<Node, Inode>,
    pub(super) next: u64,
    pub(super) capacity: ByteCount,
    pub(super) files_max: u64,
    pub(super) notices: Vec<ChangeNotice>,
    used: u64,
    clock: Rc<dyn WallClock>,
}

pub(super) struct Inode {
    pub(super) attributes: Attributes,
    pub(super) body: Body,
    pub(super) values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How often it is held.
    holds: u64,
}

pub(super) enum Body {
    File(Content),
    Directory(Directory),
    Link(Vec<u8>),
    /// A device, pipe or socket: nothing is in it.
    Special,
}

impl Store {
    pub(super) fn new(capacity: ByteCount, files_max: u64, clock: Rc<dyn WallClock>) -> Store {
        let (inodes, notices) = Default::default();
        let next = Node::ROOT.0;
        let mut store = Store { inodes, next, capacity, files_max, notices, used: 0, clock };
        let born =
            rules::Born { permissions: 0o755, user: 0, group: 0, access: None, default: None };
        let top = Body::Directory(Directory::new(Node::ROOT));
        store.add(born, InodeKind::Directory, (0, 0), top);
        store
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new inode, without a name but for a directory's own.
    pub(super) fn add(
        &mut self,
        born: rules::Born,
        kind: InodeKind,
        device: (u32, u32),
        body: Body,
    ) -> Node {
        let (node, now) = (Node(self.next), self.now());
        self.next += 1;
        let size = match &body {
            Body::Link(target) => target.len() as u64,
            _ => 0,
        };
        let attributes = Attributes {
            node,
            inode: node.0,
            generation: 0,
            kind,
            permissions: born.permissions,
            links: if kind == InodeKind::Directory { 2 } else { 0 },
            user: born.user,
            group: born.group,
            device,
            size: ByteCount(size),
            allocated: ByteCount(0),
            block_size: ByteCount(BLOCK_BYTES),
            accessed: now,
            modified: now,
            changed: now,
        };
        let lists = [(acl::ACCESS, born.access), (acl::DEFAULT, born.default)];
        let values =
            lists.into_iter().filter_map(|(name, list)| Some((name.into(), list?.encode())));
        let inode = Inode { attributes, body, values: values.collect(), holds: 0 };
        let before = self.inodes.insert(node, inode);
        assert!(before.is_none(), "a number is given once");
        node
    }

    pub(super) fn get(&self, node: Node) -> Done<&Inode> {
        self.inodes.get(&node).ok_or(InodeError::Gone)
    }

    pub(super) fn get_mut(&mut self, node: Node) -> Done<&mut Inode> {
        self.inodes.get_mut(&node).ok_or(InodeError::Gone)
    }

    /// What is known, with what follows from the body.
    pub(super) fn attributes(&self, node: Node) -> Done<Attributes> {
        let inode = self.get(node)?;
        let mut attributes = inode.attributes;
        match &inode.body {
            Body::File(content) => attributes.allocated = ByteCount(content.space()),
            Body::Directory(directory) => attributes.size = ByteCount(directory.len() as u64),
            Body::Link(_) | Body::Special => {}
        }
        Ok(attributes)
    }

    pub(super) fn tell(&mut self, notice: ChangeNotice) {
        self.notices.push(notice);
    }

    pub(super) fn hold(&mut self, node: Node) -> Done<()> {
        self.get_mut(node)?.holds += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, node: Node) {
        let inode = self.inodes.get_mut(&node).expect("what is held is there");
        inode.holds = inode.holds.checked_sub(1).expect("it was held");
        self.bury(node);
    }

    /// Gives back what nobody can reach any more.
    pub(super) fn bury(&mut self, node: Node) {
        let inode = &self.inodes[&node];
        if inode.attributes.links == 0 && inode.holds == 0 {
            let space = inode.space();
            self.inodes.remove(&node);
            self.used = self.used.checked_sub(space).expect("it was counted when it was taken");
        }
    }

    /// Does something to a file's bytes that takes at most so much more space.
    fn change<T>(
        &mut self,
        by: Caller,
        node: Node,
        lacks: impl FnOnce(&Content) -> u64,
        act: impl FnOnce(&mut Content, &mut Attributes) -> T,
    ) -> Done<T> {
        let (free, now) = (self.capacity.bytes() - self.used, self.now());
        let inode = self.get_mut(node)?;
        let (before, content) = (inode.space(), inode.content()?);
        if lacks(content) > free {
            return Err(InodeError::NoSpace);
        }
        let content = match &mut inode.body {
            Body::File(content) => content,
            _ => unreachable!("it has content: that was asked for above"),
        };
        let done = act(content, &mut inode.attributes);
        (inode.attributes.modified, inode.attributes.changed) = (now, now);
        if by.drops_privileges {
            inode.attributes.permissions = rules::without_privileges(&inode.attributes);
        }
        inode.values.remove(CAPABILITIES);
        let after = inode.space();
        self.used = self.used - before + after;
        assert!(self.used <= self.capacity.bytes(), "no more is taken than there is");
        self.tell(ChangeNotice::Content(node));
        Ok(done)
    }

    pub(super) fn read(&mut self, node: Node, at: Offset, len: ByteCount) -> Done<SgList> {
        let inode = self.get(node)?;
        let size = inode.attributes.size.bytes();
        let from = at.bytes().min(size);
        let data = inode.content()?.read(from..from.saturating_add(len.bytes()).min(size));
        self.touch(node);
        Ok(data)
    }

    /// Notes that it was read.
    pub(super) fn touch(&mut self, node: Node) {
        let now = self.now();
        if let Ok(inode) = self.get_mut(node)
            && rules::access_time_is_due(&inode.attributes, now)
        {
            inode.attributes.accessed = now;
        }
    }

    pub(super) fn write(
        &mut self,
        by: Caller,
        node: Node,
        at: WriteAt,
        data: &SgList,
    ) -> Done<Offset> {
        let inode = self.get(node)?;
        inode.content()?;
        let at = match at {
            WriteAt::Offset(at) => at.bytes(),
            WriteAt::End => inode.attributes.size.bytes(),
        };
        let end = end_of(at, data.len() as u64)?;
        if data.is_empty() {
            return Ok(Offset(at));
        }
        let lacks = |content: &Content| content.lacks(at..end);
        self.change(by, node, lacks, |content, attributes| {
            content.write(at, data);
            attributes.size = attributes.size.max(ByteCount(end));
        })?;
        Ok(Offset(at))
    }

    fn resize(&mut self, by: Caller, node: Node, size: ByteCount) -> Done<()> {
        end_of(size.bytes(), 0)?;
        self.change(
            by,
            node,
            |_| 0,
            |content, attributes| {
                // What was taken beyond the end goes as well.
                content.punch(size.bytes()..FILE_BYTES_MAX);
                attributes.size = size;
            },
        )
    }

    pub(super) fn setattr(
        &mut self,
        by: Caller,
        node: Node,
        set: &SetAttributes,
    ) -> Done<Attributes> {
        if let Some(size) = set.size {
            self.resize(by, node, size)?;
        }
        let now = self.now();
        let inode = self.get_mut(node)?;
        let (after, drops) = rules::set(by, &inode.attributes, set, now);
        inode.attributes = after;
        if drops {
            inode.values.remove(CAPABILITIES);
        }
        if set.permissions.is_some()
            && let Some(list) = inode.values.get_mut(acl::ACCESS)
        {
            *list = Acl::decode(list)?.with_mode(after.permissions).encode();
        }
        self.tell(ChangeNotice::Attributes(node));
        self.attributes(node)
    }

    pub(super) fn fallocate(
        &mut self,
        by: Caller,
        node: Node,
        at: Offset,
        len: ByteCount,
        what: Fallocate,
    ) -> Done<()> {
        let at = at.bytes();
        if len.is_zero() {
            return Err(InodeError::Invalid);
        }
        let end = match what {
            // There is nothing to take away beyond what a file can have.
            Fallocate::PunchHole => at.saturating_add(len.bytes()).min(FILE_BYTES_MAX).max(at),
            _ => end_of(at, len.bytes())?,
        };
        let lacks = |content: &Content| match what {
            Fallocate::PunchHole => 0,
            _ => content.lacks(at..end),
        };
        self.change(by, node, lacks, |content, attributes| {
            let keep_size = match what {
                Fallocate::Allocate { keep_size } => keep_size,
                Fallocate::ZeroRange { keep_size } => {
                    content.punch(at..end);
                    keep_size
                }
                Fallocate::PunchHole => return content.punch(at..end),
            };
            content.reserve(at..end);
            if !keep_size {
                attributes.size = attributes.size.max(ByteCount(end));
            }
        })
    }

    pub(super) fn copy_range(
        &mut self,
        by: Caller,
        from: (Node, Offset),
        to: (Node, Offset),
        len: ByteCount,
    ) -> Done<ByteCount> {
        let source = self.get(from.0)?;
        let (begin, end) = (from.1.bytes(), source.attributes.size.bytes());
        let len = len.bytes().min(end.saturating_sub(begin));
        let (at, to_end) = (to.1.bytes(), end_of(to.1.bytes(), len)?);
        if from.0 == to.0 && at < begin + len && begin < to_end {
            return Err(InodeError::Invalid);
        }
        let stretches = source.content()?.stretches(begin..begin + len);
        let lacks = |content: &Content| content.lacks(at..to_end);
        self.change(by, to.0, lacks, |content, attributes| {
            let mut at = at;
            for stretch in stretches {
                at += match stretch {
                    Stretch::Held(buf) => {
                        let len = buf.len() as u64;
                        content.write(at, &buf.into());
                        len
                    }
                    Stretch::Gap(_, len) => {
                        content.punch(at..at + len.bytes());
                        len.bytes()
                    }
                };
            }
            if len > 0 {
                attributes.size = attributes.size.max(ByteCount(to_end));
            }
        })?;
        self.touch(from.0);
        Ok(ByteCount(len))
    }

    pub(super) fn seek(&self, node: Node, at: Offset, what: Seek) -> Done<Offset> {
        let inode = self.get(node)?;
        let (at, end) = (at.bytes(), inode.attributes.size.bytes());
        let content = inode.content()?;
        if at >= end {
            return Err(InodeError::BeyondEnd);
        }
        match what {
            Seek::Data => content.data_from(at, end).map(Offset).ok_or(InodeError::BeyondEnd),
            Seek::Hole => Ok(Offset(content.hole_from(at, end))),
        }
    }

    pub(super) fn set_value(
        &mut self,
        by: Caller,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetHow,
    ) -> Done<()> {
        let now = self.now();
        let inode = self.get_mut(node)?;
        match (how, inode.values.contains_key(name)) {
            (SetHow::Create, true) => return Err(InodeError::Exists),
            (SetHow::Replace, false) => return Err(InodeError::NoAttribute),
            _ if name.is_empty() || name.len() > NAME_BYTES_MAX => return Err(InodeError::Invalid),
            _ if value.len() > VALUE_BYTES_MAX => return Err(InodeError::ValueTooLong),
            _ => {}
        }
        let others = inode.values.iter().filter(|(other, _)| *other != name);
        let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if bytes + name.len() + value.len() > VALUES_BYTES_MAX {
            return Err(InodeError::NoSpace);
        }
        let mut keeps = true;
        if name == acl::ACCESS || name == acl::DEFAULT {
            let list = Acl::decode(value)?;
            match inode.attributes.kind {
                InodeKind::Link => return Err(InodeError::NotSupported),
                InodeKind::Directory => {}
                _ if name == acl::DEFAULT => return Err(InodeError::Denied),
                _ => {}
            }
            if name == acl::ACCESS {
                let permissions = &mut inode.attributes.permissions;
                *permissions = *permissions & !0o777 | list.mode();
                if by.drops_privileges {
                    *permissions &= !rules::SET_GROUP;
                }
                keeps = !list.is_mode();
            }
        }
        match keeps {
            true => inode.values.insert(name.to_vec(), value.to_vec()),
            false => inode.values.remove(name),
        };
        inode.attributes.changed = now;
        self.tell(ChangeNotice::Attributes(node));
        Ok(())
    }

    pub(super) fn remove_value(&mut self, node: Node, name: &[u8]) -> Done<()> {
        let now = self.now();
        let inode = self.get_mut(node)?;
        // Who takes a list of access away that isn't there has what he wants.
        let is_list = name == acl::ACCESS || name == acl::DEFAULT;
        if inode.values.remove(name).is_none() && !is_list {
            return Err(InodeError::NoAttribute);
        }
        inode.attributes.changed = now;
        self.tell(ChangeNotice::Attributes(node));
        Ok(())
    }

    pub(super) fn usage(&self) -> Usage {
        let files = self.inodes.len() as u64;
        Usage {
            total: self.capacity,
            free: ByteCount(self.capacity.bytes() - self.used),
            files: self.files_max,
            files_free: self.files_max.saturating_sub(files),
        }
    }
}

impl Inode {
    /// Bytes that it takes.
    fn space(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.space(),
            _ => 0,
        }
    }

    fn content(&self) -> Done<&Content> {
        match &self.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(InodeError::IsDirectory),
            Body::Link(_) | Body::Special => Err(InodeError::WrongKind),
        }
    }

    pub(super) fn directory(&self) -> Done<&Directory> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(InodeError::NotDirectory),
        }
    }
}

/// Where a range ends, if a file can be so long.
fn end_of(at: u64, len: u64) -> Done<u64> {
    let end = at.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX);
    end.ok_or(InodeError::FileTooBig)
}
