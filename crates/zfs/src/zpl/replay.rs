//! Replay of an intent log: its records carried out by ordinary changes, in order.
//!
//! The changes are those of [`change`](super::change) and of the objects below. Where the pool can't be written, not even in memory,
//! and is to be seen with its log, they join a group that is never synced, and the dataset looks as it would after a replay.
//!
//! **Times.** OpenZFS's replay takes the moment at which it runs for the times of directories and of files that are
//! written. Here a directory that gets or loses a name has the time of what was made in it, where the record states one; a
//! file that is written keeps its time until a record sets it.
//!
//! **Left out.** Lists of access in NFSv4's form (Linux keeps POSIX lists as extended attributes), the whiteout of a rename
//! with one, and foreign ids' domains. Blocks that were cloned are copied.
//!
//! A record about a file that is gone is passed over where OpenZFS does so: records of writes may stand behind the one that
//! removed their file.
//!
//! Marks in a record that say which attributes it sets are Linux's.
//!
//! Source: OpenZFS, `zfs_replay.c`, `zfs_log.c`, `zvol.c`.

use super::FileSystem;
use super::attributes::Moment;
use super::change::{NewAttributes, NewFile};
use super::log::{SLOTS_SHIFT, set};
use crate::dmu::{DIRTY_BYTES_MAX, Objset, TxGroups, Txg};
use crate::error::{Problem, ZfsError};
use crate::zil::Logged;
use async_recursion::async_recursion as boxed;
use rt::Buf;
use stdx::planted::{self, Bug};
use zfs_format::block_pointer::BlockPointer;
use zfs_format::zil::record::{
    Body, CloneRange, Create, CreateExtras, CreateKind, LogRecord, OptionalAttributes,
    SetAttributes, Write, strings,
};

/// The bits of an object number in a record that makes something.
const OBJECT_BITS: u64 = (1 << 48) - 1;

/// Lets an objset be changed in memory, in a group after all of its records' that is never synced.
pub fn in_memory(objset: &Objset, records: &[Logged]) {
    let last = records.iter().map(|logged| logged.record.txg).max().unwrap_or(0);
    objset.change_in(TxGroups::never_synced(Txg(last), DIRTY_BYTES_MAX));
}

impl FileSystem {
    /// Opens a file system as it would be after a replay of its intent log.
    ///
    /// # Errors
    /// As of [`FileSystem::open`]; or a record can't be carried out.
    #[boxed(?Send)]
    pub async fn open_with_log(
        objset: &Objset,
        records: &[Logged],
    ) -> Result<FileSystem, ZfsError> {
        in_memory(objset, records);
        let files = FileSystem::open(objset).await?;
        for logged in records {
            files.replay(logged).await?;
        }
        Ok(files)
    }

    /// Carries out a record.
    ///
    /// # Errors
    /// It can't be.
    #[boxed(?Send)]
    pub async fn replay(&self, logged: &Logged) -> Result<(), ZfsError> {
        let record = &logged.record;
        let names = strings(&record.data);
        match &record.body {
            Body::Create(kind, create, extras) => {
                self.replay_create(*kind, create, extras, record).await
            }
            Body::Remove(remove) | Body::RemoveDirectory(remove) => match names[..] {
                [name, ..] => self.unlink(remove.directory, name).await,
                [] => Err(self.nameless(remove.directory)),
            },
            Body::Link(link) => match names[..] {
                [name, ..] => self.link(link.directory, name, link.object).await,
                [] => Err(self.nameless(link.directory)),
            },
            Body::Rename(rename) => self.replay_rename(rename.source, rename.target, &names).await,
            Body::RenameWhiteout(rename) => {
                self.replay_rename(rename.source, rename.target, &names).await
            }
            Body::RenameExchange(rename) => match names[..] {
                [from, to, ..] => self.exchange((rename.source, from), (rename.target, to)).await,
                _ => Err(self.nameless(rename.source)),
            },
            Body::Write(write) => self.replay_write(write, logged).await,
            Body::Write2(write) => {
                passed_over(self.grow(write.object, end_of(write)).await, write.object)
            }
            Body::Truncate(truncate) if truncate.length == 0 => {
                self.truncate(truncate.object, truncate.offset).await
            }
            Body::Truncate(truncate) => {
                self.punch(truncate.object, truncate.offset, truncate.length).await
            }
            Body::SetAttributes(new) => {
                self.replay_attributes(new).await?;
                match new.mask & set::OPTIONAL {
                    0 => Ok(()),
                    _ => self.replay_project(new.object, logged).await,
                }
            }
            Body::SetExtendedAttribute(attribute) => {
                let Some(name) = names.first() else { return Err(self.nameless(attribute.object)) };
                let value = record.data.get(name.len() + 1..).unwrap_or_default();
                let len = usize::try_from(attribute.length).unwrap_or(usize::MAX);
                let value = &value[..len.min(value.len())];
                let value = (!value.is_empty()).then_some(value);
                self.set_extended_attribute(attribute.object, name, value).await
            }
            Body::CloneRange(clone) => self.replay_clone(clone, logged).await,
            Body::SetAclV0(_) | Body::SetAcl(_) => Ok(()),
        }
    }

    fn nameless(&self, directory: u64) -> ZfsError {
        self.objset().wrong(directory, Problem::Entry("of a log record without a name"))
    }

    async fn replay_create(
        &self,
        kind: CreateKind,
        create: &Create,
        extras: &CreateExtras,
        record: &LogRecord,
    ) -> Result<(), ZfsError> {
        // The list of access stands before the names.
        let list = extras.acl.as_ref().map_or(0, |acl| {
            let fuids = acl.fuids.saturating_mul(8);
            acl.bytes.checked_next_multiple_of(8).unwrap_or(u64::MAX).saturating_add(fuids)
        });
        let list = usize::try_from(list).unwrap_or(usize::MAX).min(record.data.len());
        let domains = extras.acl.as_ref().map_or(0, |acl| acl.domains);
        let domains = usize::try_from(domains).unwrap_or(usize::MAX);
        let mut names = strings(&record.data[list..]).into_iter().skip(domains);
        let name = names.next();
        let target = names.next().filter(|_| kind == CreateKind::SymbolicLink);
        let new = NewFile {
            number: create.object & OBJECT_BITS,
            slots: (create.object >> SLOTS_SHIFT) as usize + 1,
            mode: create.mode,
            user: create.uid,
            group: create.gid,
            generation: create.generation,
            created: Moment::of(create.created),
            device: create.device,
            target: target.map(<[u8]>::to_vec),
        };
        match (kind, name) {
            (CreateKind::AttributeDirectory, _) => {
                self.create_attribute_directory(create.directory, &new).await
            }
            (_, Some(name)) => self.create(create.directory, name, &new).await,
            (_, None) => Err(self.nameless(create.directory)),
        }
    }

    async fn replay_rename(
        &self,
        source: u64,
        target: u64,
        names: &[&[u8]],
    ) -> Result<(), ZfsError> {
        match names[..] {
            [from, to, ..] => self.rename((source, from), (target, to)).await,
            _ => Err(self.nameless(source)),
        }
    }

    async fn replay_write(&self, write: &Write, logged: &Logged) -> Result<(), ZfsError> {
        let (at, bytes) = match written(self.objset(), write, &logged.record).await? {
            Written::Bytes(at, bytes) => (at, bytes),
            Written::Zeros(at, len) => {
                let punched = self.punch(write.object, at, len).await;
                passed_over(punched, write.object)?;
                return passed_over(self.grow(write.object, end_of(write)).await, write.object);
            }
        };
        // A block that is in its place has what later records say, too, and they may have it nowhere else: so what lies behind the
        // end is written before the file is as long. Behind what they say it is zeros.
        let reach = match planted::is(Bug::ReplayCutsBlock) {
            true => end_of(write),
            false => logged.reach.max(end_of(write)),
        };
        let size = match self.node(write.object).await {
            Ok(node) => node.attributes.size.max(reach),
            Err(error) => return passed_over(Err(error), write.object),
        };
        let len = bytes.len().min(usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX));
        let bytes = bytes.slice(0..len);
        passed_over(self.write(write.object, at, &bytes, end_of(write)).await, write.object)
    }

    async fn replay_clone(&self, clone: &CloneRange, logged: &Logged) -> Result<(), ZfsError> {
        let objset = self.objset();
        let wrong =
            |error| ZfsError::Format { objset: objset.number(), object: clone.object, error };
        let mut at = clone.offset;
        let end = clone.offset.saturating_add(clone.length);
        for pointer in logged.record.cloned(logged.endian).map_err(wrong)? {
            match pointer.is_hole() {
                true => self.punch(clone.object, at, clone.block_bytes).await?,
                false => {
                    let bytes = read_logged(objset, clone.object, pointer).await?;
                    self.write(clone.object, at, &bytes, end.min(at + bytes.len() as u64)).await?;
                }
            }
            at = at.saturating_add(clone.block_bytes);
        }
        self.grow(clone.object, end).await
    }

    /// Of the optional attributes that follow a record those of projects, which count. Where they are not counted (in a view that is
    /// not written) nobody asks for them.
    async fn replay_project(&self, object: u64, logged: &Logged) -> Result<(), ZfsError> {
        let wrong = |error| ZfsError::Format { objset: self.objset().number(), object, error };
        let decoded = OptionalAttributes::decode(&logged.record.data, logged.endian);
        let (new, _) = decoded.map_err(wrong)?;
        let which = new.bitmap.first().copied().unwrap_or(0);
        let project = new.stamp.first_chunk().map(|bytes| logged.endian.u64(*bytes));
        let project = project.filter(|_| which & optional::PROJECT != 0);
        let hands_down = new.attributes & u64::from(optional::PROJECT_INHERIT) != 0;
        let hands_down = (which & optional::PROJECT_INHERIT != 0).then_some(hands_down);
        let counts = self.objset().counted().is_some_and(|counted| counted.projects);
        if !counts || project.is_none() && hands_down.is_none() {
            return Ok(());
        }
        self.set_project(object, project, hands_down).await
    }

    async fn replay_attributes(&self, new: &SetAttributes) -> Result<(), ZfsError> {
        if new.mask & set::SIZE != 0 {
            self.truncate(new.object, new.size).await?;
        }
        let if_set = |mark: u64| new.mask & mark != 0;
        let attributes = NewAttributes {
            changed: None,
            permissions: if_set(set::MODE).then_some(new.mode as u32),
            user: if_set(set::USER).then_some(new.uid),
            group: if_set(set::GROUP).then_some(new.gid),
            accessed: if_set(set::ACCESSED).then_some(Moment::of(new.accessed)),
            modified: if_set(set::MODIFIED).then_some(Moment::of(new.modified)),
        };
        self.set_attributes(new.object, attributes).await
    }
}

/// Which optional attributes a record sets, as OpenZFS numbers them.
mod optional {
    pub(super) const PROJECT_INHERIT: u32 = 0x2_0000;
    pub(super) const PROJECT: u32 = 0x4_0000;
}

/// A write to a file that is gone is none.
fn passed_over(result: Result<(), ZfsError>, file: u64) -> Result<(), ZfsError> {
    match result {
        Err(ZfsError::Object { object, problem: Problem::Absent, .. }) if object == file => Ok(()),
        other => other,
    }
}

fn end_of(write: &Write) -> u64 {
    write.offset.saturating_add(write.length)
}

/// What a record of a write says.
pub(crate) enum Written {
    /// These bytes there.
    Bytes(u64, Buf),
    /// So many zeros there.
    Zeros(u64, u64),
}

/// What was written: the bytes that follow the record, or those of the block that it points to, which may hold more.
///
/// # Errors
/// The block can't be had.
pub(crate) async fn written(
    objset: &Objset,
    write: &Write,
    record: &LogRecord,
) -> Result<Written, ZfsError> {
    if !record.data.is_empty() {
        let len = usize::try_from(write.length).unwrap_or(usize::MAX).min(record.data.len());
        return Ok(Written::Bytes(write.offset, Buf::copy_of(&record.data[..len])));
    }
    if write.pointer.is_hole() {
        return Ok(Written::Zeros(write.offset, write.length));
    }
    let bytes = read_logged(objset, write.object, write.pointer).await?;
    let block = (bytes.len() as u64).max(1);
    let at = match write.length < block {
        true => write.offset - write.offset % block,
        false => write.offset,
    };
    Ok(Written::Bytes(at, bytes))
}

/// A block that a log points to.
async fn read_logged(objset: &Objset, object: u64, pointer: BlockPointer) -> Result<Buf, ZfsError> {
    let at = zfs_store::Bookmark { objset: objset.number(), object, level: -2, block: 0 };
    Ok(objset.blocks().read(objset.request(pointer, at)).await?)
}
