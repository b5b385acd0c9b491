//! A file system with its intent log laid over it, in memory: what it would be after a replay.
//!
//! Records are applied in order, as OpenZFS's replay does it. Bytes of files go into the objects' [overlay](Overlay);
//! names, attributes and extended attributes stand here, and [`FileSystem`] looks here first.
//!
//! **What can't be the same.** A replay takes the moment at which it runs for the times of directories and of
//! files that are written. Here a directory that gets or loses a name has the time of what was made in it, where the record
//! states one; a file that is written keeps its time until a record sets it.
//!
//! Marks in a record that say which attributes it sets are Linux's.
//!
//! Source: OpenZFS, `zfs_replay.c`, `zfs_log.c`, `zfs_dir.c`.

use super::attributes::{Attributes, Moment};
use super::{FileSystem, Node};
use crate::dmu::overlay::Overlay;
use crate::error::{Problem, ZfsError};
use crate::zil::Logged;
use rt::Buf;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::dnode::Dnode;
use zfs_format::object_type::ObjectType;
use zfs_format::zil::record::{Body, Create, CreateExtras, CreateKind, LogRecord, strings};
use zfs_format::zpl::Fuid;
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};

/// The bits of an object number in a record that makes something.
const OBJECT_BITS: u64 = (1 << 48) - 1;
/// Sectors of a new file's blocks: 128 KiB. What it is doesn't matter, since all of its bytes are in the overlay.
const NEW_BLOCK_SECTORS: u16 = 256;
/// Names of a directory that has none: `.` and `..`, which OpenZFS counts.
const EMPTY_DIRECTORY: u64 = 2;

/// Marks of [`Body::SetAttributes`], as Linux has them.
mod set {
    pub(super) const MODE: u64 = 1;
    pub(super) const USER: u64 = 2;
    pub(super) const GROUP: u64 = 4;
    pub(super) const SIZE: u64 = 8;
    pub(super) const ACCESSED: u64 = 16;
    pub(super) const MODIFIED: u64 = 32;
}

/// What the log changed. See the [module](self).
#[derive(Default)]
pub(super) struct Replayed {
    attributes: RefCell<BTreeMap<u64, Attributes>>,
    names: RefCell<BTreeMap<u64, Names>>,
    links: RefCell<BTreeMap<u64, Vec<u8>>>,
    extended: RefCell<BTreeMap<u64, ExtendedAttributes>>,
}

/// Names of a directory that the log made (with what they lead to) or took away.
type Names = BTreeMap<Vec<u8>, Option<DirectoryEntry>>;
/// Extended attributes that the log set, or took away.
type ExtendedAttributes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

impl Replayed {
    pub(super) fn attributes(&self, number: u64) -> Option<Attributes> {
        self.attributes.borrow().get(&number).cloned()
    }

    pub(super) fn link(&self, number: u64) -> Option<Vec<u8>> {
        self.links.borrow().get(&number).cloned()
    }

    /// What a name leads to; the inner nothing where it was taken away.
    pub(super) fn name(&self, directory: u64, name: &[u8]) -> Option<Option<DirectoryEntry>> {
        self.names.borrow().get(&directory)?.get(name).copied()
    }

    /// The names that the log made in a directory.
    pub(super) fn made(&self, directory: u64) -> Vec<(Vec<u8>, DirectoryEntry)> {
        let names = self.names.borrow();
        let made = names.get(&directory).into_iter().flatten();
        made.filter_map(|(name, entry)| Some((name.clone(), (*entry)?))).collect()
    }

    /// Applies what the log did to extended attributes.
    pub(super) fn extend(&self, number: u64, found: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        let extended = self.extended.borrow();
        for (name, value) in extended.get(&number).into_iter().flatten() {
            found.retain(|(known, _)| known != name);
            found.extend(value.clone().map(|value| (name.clone(), value)));
        }
    }
}

/// Applies records one after another to a file system that looks at `replayed`.
pub(super) struct Replay<'a> {
    pub(super) files: &'a FileSystem,
    pub(super) overlay: &'a Rc<Overlay>,
    pub(super) replayed: &'a Replayed,
}

impl Replay<'_> {
    pub(super) async fn apply(&self, logged: &Logged) -> Result<(), ZfsError> {
        let record = &logged.record;
        match &record.body {
            Body::Create(kind, create, extras) => self.create(*kind, create, extras, record).await,
            Body::Remove(remove) => match first_name(record) {
                Some(name) => self.unlink(remove.directory, name).await,
                None => Ok(()),
            },
            Body::RemoveDirectory(remove) => match first_name(record) {
                Some(name) => self.unlink(remove.directory, name).await,
                None => Ok(()),
            },
            Body::Link(link) => {
                let Some(name) = first_name(record) else { return Ok(()) };
                let node = self.files.node(link.object).await?;
                self.change(&node, |attributes| attributes.links += 1);
                self.link(link.directory, name, &node.attributes, link.object).await
            }
            Body::Rename(rename) => {
                let [from, to, ..] = strings(&record.data)[..] else { return Ok(()) };
                self.rename((rename.source, from), (rename.target, to)).await
            }
            Body::RenameWhiteout(rename) => {
                let [from, to, ..] = strings(&record.data)[..] else { return Ok(()) };
                self.rename((rename.source, from), (rename.target, to)).await
            }
            Body::RenameExchange(rename) => {
                let [from, to, ..] = strings(&record.data)[..] else { return Ok(()) };
                self.exchange((rename.source, from), (rename.target, to)).await
            }
            Body::Write(write) => {
                let at = self.files.objset();
                write_bytes(at, self.overlay, write, record).await?;
                self.grow(write.object, write.offset.saturating_add(write.length)).await
            }
            Body::Write2(write) => {
                self.grow(write.object, write.offset.saturating_add(write.length)).await
            }
            Body::Truncate(truncate) if truncate.length == 0 => {
                self.resize(truncate.object, truncate.offset).await
            }
            Body::Truncate(truncate) => {
                let end = truncate.offset.saturating_add(truncate.length);
                self.overlay.zero(truncate.object, truncate.offset..end);
                Ok(())
            }
            Body::SetAttributes(_) => self.set_attributes(record).await,
            Body::SetExtendedAttribute(attribute) => {
                let Some(name) = first_name(record) else { return Ok(()) };
                let value = record.data.get(name.len() + 1..).unwrap_or_default();
                let len = usize::try_from(attribute.length).unwrap_or(usize::MAX);
                let value = &value[..len.min(value.len())];
                let value = (!value.is_empty()).then(|| value.to_vec());
                let mut extended = self.replayed.extended.borrow_mut();
                extended.entry(attribute.object).or_default().insert(name.to_vec(), value);
                Ok(())
            }
            Body::CloneRange(clone) => {
                let mut at = clone.offset;
                let cloned = record.cloned(logged.endian);
                let objset = self.files.objset();
                let wrong = |error| ZfsError::Format {
                    objset: objset.number(),
                    object: clone.object,
                    error,
                };
                for pointer in cloned.map_err(wrong)? {
                    self.put_block(clone.object, at, pointer).await?;
                    at = at.saturating_add(clone.block_bytes);
                }
                self.grow(clone.object, clone.offset.saturating_add(clone.length)).await
            }
            // Lists of NFSv4's form; Linux keeps POSIX lists as extended attributes.
            Body::SetAclV0(_) | Body::SetAcl(_) => Ok(()),
        }
    }

    async fn create(
        &self,
        kind: CreateKind,
        create: &Create,
        extras: &CreateExtras,
        record: &LogRecord,
    ) -> Result<(), ZfsError> {
        let number = create.object & OBJECT_BITS;
        let is_directory = matches!(kind, CreateKind::Directory | CreateKind::AttributeDirectory);
        let object_type = match is_directory {
            true => ObjectType::DIRECTORY_CONTENTS,
            false => ObjectType::PLAIN_FILE_CONTENTS,
        };
        self.overlay.create(number, new_dnode(object_type));
        let file_kind = FileKind::of_mode(create.mode).unwrap_or(FileKind::File);
        let moment = Moment::of(create.created);
        let (user, group) = (Fuid(create.uid), Fuid(create.gid));
        let attributes = Attributes {
            kind: file_kind,
            permissions: create.mode as u32 & 0o7777,
            user,
            group,
            size: if is_directory { EMPTY_DIRECTORY } else { 0 },
            links: if is_directory { 2 } else { 1 },
            accessed: moment,
            modified: moment,
            changed: moment,
            created: moment,
            generation: create.generation,
            parent: create.directory,
            device: create.device,
            flags: 0,
            extended_attributes: 0,
            project: 0,
            acl: None,
        };
        self.replayed.names.borrow_mut().remove(&number);
        self.replayed.extended.borrow_mut().remove(&number);
        self.replayed.attributes.borrow_mut().insert(number, attributes.clone());
        if kind == CreateKind::AttributeDirectory {
            let file = self.files.node(create.directory).await?;
            self.change(&file, |attributes| attributes.extended_attributes = number);
            return Ok(());
        }
        // The list of access stands before the names.
        let list = extras.acl.as_ref().map_or(0, |acl| {
            let fuids = acl.fuids.saturating_mul(8);
            acl.bytes.checked_next_multiple_of(8).unwrap_or(u64::MAX).saturating_add(fuids)
        });
        let list = usize::try_from(list).unwrap_or(usize::MAX).min(record.data.len());
        let names = strings(&record.data[list..]);
        let domains = extras.acl.as_ref().map_or(0, |acl| acl.domains) as usize;
        let mut names = names.into_iter().skip(domains);
        let Some(name) = names.next() else { return Ok(()) };
        if kind == CreateKind::SymbolicLink
            && let Some(target) = names.next()
        {
            let mut all = self.replayed.attributes.borrow_mut();
            if let Some(attributes) = all.get_mut(&number) {
                attributes.size = target.len() as u64;
            }
            self.replayed.links.borrow_mut().insert(number, target.to_vec());
        }
        self.link(create.directory, name, &attributes, number).await
    }

    /// A name in a directory.
    async fn link(
        &self,
        directory: u64,
        name: &[u8],
        of: &Attributes,
        object: u64,
    ) -> Result<(), ZfsError> {
        let node = self.files.node(directory).await?;
        let is_new = self.files.lookup(&node, name).await?.is_none();
        let entry = DirectoryEntry { object, kind: Some(of.kind) };
        let mut names = self.replayed.names.borrow_mut();
        names.entry(directory).or_default().insert(name.to_vec(), Some(entry));
        drop(names);
        self.change(&node, |attributes| {
            attributes.size += u64::from(is_new);
            attributes.links += u64::from(is_new && of.kind == FileKind::Directory);
            attributes.modified = attributes.modified.max(of.changed);
            attributes.changed = attributes.changed.max(of.changed);
        });
        Ok(())
    }

    /// A name goes, and with the last one its file.
    async fn unlink(&self, directory: u64, name: &[u8]) -> Result<(), ZfsError> {
        let node = self.files.node(directory).await?;
        let Some(entry) = self.files.lookup(&node, name).await? else { return Ok(()) };
        let file = self.files.node(entry.object).await?;
        let is_directory = file.is_directory();
        self.change(&file, |attributes| attributes.links = attributes.links.saturating_sub(1));
        self.forget(directory, name);
        self.change(&node, |attributes| {
            attributes.size = attributes.size.saturating_sub(1);
            attributes.links = attributes.links.saturating_sub(u64::from(is_directory));
        });
        Ok(())
    }

    fn forget(&self, directory: u64, name: &[u8]) {
        let mut names = self.replayed.names.borrow_mut();
        names.entry(directory).or_default().insert(name.to_vec(), None);
    }

    async fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), ZfsError> {
        let source = self.files.node(from.0).await?;
        let Some(entry) = self.files.lookup(&source, from.1).await? else { return Ok(()) };
        let target = self.files.node(to.0).await?;
        if let Some(old) = self.files.lookup(&target, to.1).await? {
            // Two names of one file: nothing happens.
            if old.object == entry.object {
                return Ok(());
            }
            self.unlink(to.0, to.1).await?;
        }
        let file = self.files.node(entry.object).await?;
        self.unlink(from.0, from.1).await?;
        // The file keeps its count of names: only one moved.
        self.change(&file, |attributes| {
            attributes.links += 1;
            attributes.parent = to.0;
        });
        self.link(to.0, to.1, &file.attributes, entry.object).await
    }

    async fn exchange(&self, one: (u64, &[u8]), other: (u64, &[u8])) -> Result<(), ZfsError> {
        let (a, b) = (self.files.node(one.0).await?, self.files.node(other.0).await?);
        let first = self.files.lookup(&a, one.1).await?;
        let second = self.files.lookup(&b, other.1).await?;
        for (entry, to) in [(first, other.0), (second, one.0)] {
            if let Some(entry) = entry {
                let moved = self.files.node(entry.object).await?;
                self.change(&moved, |attributes| attributes.parent = to);
            }
        }
        let mut names = self.replayed.names.borrow_mut();
        names.entry(one.0).or_default().insert(one.1.to_vec(), second);
        names.entry(other.0).or_default().insert(other.1.to_vec(), first);
        Ok(())
    }

    async fn set_attributes(&self, record: &LogRecord) -> Result<(), ZfsError> {
        let Body::SetAttributes(new) = &record.body else { return Ok(()) };
        if new.mask & set::SIZE != 0 {
            self.resize(new.object, new.size).await?;
        }
        let node = self.files.node(new.object).await?;
        self.change(&node, |attributes| {
            if new.mask & set::MODE != 0 {
                attributes.permissions = new.mode as u32 & 0o7777;
            }
            if new.mask & set::USER != 0 {
                attributes.user = Fuid(new.uid);
            }
            if new.mask & set::GROUP != 0 {
                attributes.group = Fuid(new.gid);
            }
            if new.mask & set::ACCESSED != 0 {
                attributes.accessed = Moment::of(new.accessed);
            }
            if new.mask & set::MODIFIED != 0 {
                attributes.modified = Moment::of(new.modified);
            }
        });
        Ok(())
    }

    async fn put_block(&self, object: u64, at: u64, pointer: BlockPointer) -> Result<(), ZfsError> {
        let objset = self.files.objset();
        let bytes = read_logged(objset, object, pointer).await?;
        match self.overlay.write(object, at, bytes) {
            true => Ok(()),
            false => Err(objset.wrong(object, too_large())),
        }
    }

    /// The file is at least so long.
    async fn grow(&self, object: u64, size: u64) -> Result<(), ZfsError> {
        let node = self.files.node(object).await?;
        self.change(&node, |attributes| attributes.size = attributes.size.max(size));
        Ok(())
    }

    /// The file is so long.
    async fn resize(&self, object: u64, size: u64) -> Result<(), ZfsError> {
        let node = self.files.node(object).await?;
        if size < node.attributes.size {
            self.overlay.truncate(object, size);
        }
        self.change(&node, |attributes| attributes.size = size);
        Ok(())
    }

    fn change(&self, node: &Node, how: impl FnOnce(&mut Attributes)) {
        let mut all = self.replayed.attributes.borrow_mut();
        how(all.entry(node.number()).or_insert_with(|| node.attributes.clone()));
    }
}

fn first_name(record: &LogRecord) -> Option<&[u8]> {
    strings(&record.data).first().copied()
}

fn too_large() -> Problem {
    Problem::Limit { what: "bytes of a log in memory", limit: crate::dmu::overlay::BYTES_MAX }
}

/// A dnode of an object that the pool doesn't have: no block of its own.
fn new_dnode(object_type: ObjectType) -> Dnode {
    Dnode {
        object_type,
        indirect_shift: 17,
        levels: 1,
        bonus_type: ObjectType::SA,
        checksum: 0,
        compression: 0,
        flags: 0,
        data_block_sectors: NEW_BLOCK_SECTORS,
        extra_slots: 0,
        block_id_max: 0,
        used: 0,
        pointers: vec![BlockPointer::HOLE],
        bonus: Vec::new(),
        spill: None,
    }
}

/// A block that a log points to.
async fn read_logged(
    objset: &crate::dmu::Objset,
    object: u64,
    pointer: BlockPointer,
) -> Result<Buf, ZfsError> {
    let at = zfs_store::Bookmark { objset: objset.number(), object, level: -2, block: 0 };
    Ok(objset.blocks().read(objset.request(pointer, at)).await?)
}

/// Puts the bytes of a write record into an overlay: those that follow, or those of the block that it points to, which
/// may hold more than was written.
pub(crate) async fn write_bytes(
    objset: &crate::dmu::Objset,
    overlay: &Overlay,
    write: &zfs_format::zil::record::Write,
    record: &LogRecord,
) -> Result<(), ZfsError> {
    let full = || objset.wrong(write.object, too_large());
    if !record.data.is_empty() {
        let len = usize::try_from(write.length).unwrap_or(usize::MAX).min(record.data.len());
        let bytes = Buf::copy_of(&record.data[..len]);
        return if overlay.write(write.object, write.offset, bytes) { Ok(()) } else { Err(full()) };
    }
    if write.pointer.is_hole() {
        let end = write.offset.saturating_add(write.length);
        overlay.zero(write.object, write.offset..end);
        return Ok(());
    }
    let bytes = read_logged(objset, write.object, write.pointer).await?;
    let block = (bytes.len() as u64).max(1);
    let at = match write.length < block {
        true => write.offset - write.offset % block,
        false => write.offset,
    };
    if overlay.write(write.object, at, bytes) { Ok(()) } else { Err(full()) }
}
