//! Bytes, lengths, attributes and extended attributes changed in a mount.

use super::answer::{attributes, moment_of};
use super::names::{NAME_BYTES_MAX, NEW_BYTES};
use super::refusal::wrong;
use super::shared::{Extended, HowServed, Place, Served, Shared};
use super::writing::{Answer, Planned, check_limits, known};
use crate::zpl::change::{NewFile, Work};
use crate::zpl::{LoggedAttributes, More, VERSION_SYSTEM_ATTRIBUTES};
use rt::SgList;
use rt::inodes::acl::{self, Acl};
use rt::inodes::rules::{self, CAPABILITIES};
use rt::inodes::{
    Attributes, Caller, ChangeNotice, Fallocate, InodeError, InodeKind, MountId, Node, Seek,
    SetAttributes, SetHow, Timestamp, WriteAt,
};
use stdx::{ByteCount, Offset};
use zfs_format::zpl::owner::Owner;

/// Bytes of a file: what a signed number of 64 bits counts.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Bytes of a value, as in Linux.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Bytes of the list of all of a file: OpenZFS's bound (`DXATTR_MAX_SA_SIZE`).
const LIST_BYTES_MAX: usize = 64 << 10;
/// The namespaces that files have.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"security.", b"trusted."];
/// Kind and permissions of the hidden directory of a file's extended attributes, and of the files in it, as OpenZFS makes them.
const HIDDEN_DIRECTORY: u64 = 0o041_777;
const HIDDEN_FILE: u64 = 0o100_644;

/// The end of a range that is in a file.
fn end_of(at: u64, len: u64) -> Answer<u64> {
    at.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX).ok_or(InodeError::FileTooBig)
}

/// A plain file.
fn check_file(kind: InodeKind) -> Answer<()> {
    match kind {
        InodeKind::File => Ok(()),
        InodeKind::Directory => Err(InodeError::IsDirectory),
        _ => Err(InodeError::WrongKind),
    }
}

/// The bytes of a file were changed: times, the capabilities that it had as a program, and the set-user bits of who may not keep
/// them.
fn changed(
    work: &mut Work<'_>,
    by: Caller,
    object: u64,
    of: &Attributes,
    now: Timestamp,
) -> Planned<()> {
    let mut after = Attributes { modified: now, changed: now, ..*of };
    drop_capabilities(work, object)?;
    if by.drops_privileges {
        after.permissions = rules::without_privileges(of);
        // Times follow from the write.
        let permissions = Attributes { permissions: after.permissions, ..*of };
        log_attributes(work, object, (of, &permissions), None);
    }
    Shared::plan_set(work, object, of, &after)
}

fn drop_capabilities(work: &mut Work<'_>, object: u64) -> Planned<()> {
    if work.extended(object, CAPABILITIES)?.is_some() {
        work.set_extended(object, CAPABILITIES, None)?;
        work.log_extended(object, CAPABILITIES, None)?;
    }
    Ok(())
}

/// Who gets a file has not reached his limit.
fn check_owners(work: &Work<'_>, before: &Attributes, after: &Attributes) -> Planned<()> {
    let new = |before: u32, after: u32| (after != before).then_some(u64::from(after));
    let ids = [new(before.user, after.user), new(before.group, after.group), None];
    match work.files().is_full(ids, More::Object)? {
        true => Err(InodeError::Quota.into()),
        false => Ok(()),
    }
}

/// The intent log is told which attributes are others now. A file without a name is not logged.
fn log_attributes(
    work: &mut Work<'_>,
    object: u64,
    (before, after): (&Attributes, &Attributes),
    size: Option<ByteCount>,
) {
    if before.links == 0 {
        return;
    }
    let mode = u64::from(after.kind.code()) << 12 | u64::from(after.permissions);
    let new = LoggedAttributes {
        mode: (after.permissions != before.permissions).then_some(mode),
        user: (after.user != before.user).then_some(after.user.into()),
        group: (after.group != before.group).then_some(after.group.into()),
        size: size.map(ByteCount::bytes),
        accessed: (after.accessed != before.accessed).then(|| moment_of(after.accessed)),
        modified: (after.modified != before.modified).then(|| moment_of(after.modified)),
    };
    work.log_attributes(object, new);
}

fn is_list(name: &[u8]) -> bool {
    name == acl::ACCESS || name == acl::DEFAULT
}

/// Whether extended attributes of this name are changed. Who copies files in, by no mount, keeps the lists of access that they have,
/// whether or not they count in mounts.
fn takes(how: HowServed, by: Caller, name: &[u8]) -> bool {
    how.shows(name) || by.mount == MountId::NONE && is_list(name)
}

/// An extended attribute that is to be set.
struct NewValue<'a> {
    name: &'a [u8],
    value: &'a [u8],
    how: SetHow,
    now: Timestamp,
}

/// Sets an extended attribute, in the list or the `hidden` directory. If that isn't there it is made, and nothing is set yet.
fn plan_value(
    work: &mut Work<'_>,
    served: &Served,
    by: Caller,
    object: u64,
    new: &NewValue<'_>,
    hidden: bool,
) -> Planned<bool> {
    let NewValue { name, value, how, now } = *new;
    let of = known(work, served, object)?;
    let is_there = work.extended(object, name)?.is_some();
    match (how, is_there) {
        (SetHow::Create, true) => return Err(InodeError::Exists.into()),
        (SetHow::Replace, false) => return Err(InodeError::NoAttribute.into()),
        _ if name.len() > NAME_BYTES_MAX => return Err(InodeError::Invalid.into()),
        _ if value.len() > VALUE_BYTES_MAX => return Err(InodeError::ValueTooLong.into()),
        _ => {}
    }
    let mut after = Attributes { changed: now, ..of };
    let mut keeps = true;
    if is_list(name) {
        let list = Acl::decode(value)?;
        match of.kind {
            InodeKind::Link => return Err(InodeError::NotSupported.into()),
            InodeKind::Directory => {}
            _ if name == acl::DEFAULT => return Err(InodeError::Denied.into()),
            _ => {}
        }
        if name == acl::ACCESS {
            after.permissions = of.permissions & !0o777 | list.mode();
            if by.drops_privileges {
                after.permissions &= !rules::SET_GROUP;
            }
            keeps = !list.is_mode();
        }
    }
    if keeps && hidden {
        let has_directory = work.file(object)?.attributes.extended_attributes != 0;
        let (mode, (user, group)) = match has_directory {
            true => (HIDDEN_FILE, (by.user, by.group)),
            false => (HIDDEN_DIRECTORY, (of.user, of.group)),
        };
        let (number, slots) = work.number()?;
        let (user, group, created) = (user.into(), group.into(), moment_of(now));
        let (generation, device, target) = (work.txg(), 0, None);
        let made =
            NewFile { number, slots, mode, user, group, generation, created, device, target };
        let project = work.project_of_new(object, &made)?.0.unwrap_or(0);
        check_limits(work, Owner { user, group, project }, More::Object)?;
        work.log_whole(object);
        if !has_directory {
            work.make_hidden(object, &made)?;
            return Ok(false);
        }
        work.put_hidden(object, (name, value), &made)?;
    } else {
        let len = work.set_extended(object, name, keeps.then_some(value))?;
        if len > LIST_BYTES_MAX {
            return Err(InodeError::NoSpace.into());
        }
        if keeps || is_there {
            work.log_extended(object, name, keeps.then_some(value))?;
        }
    }
    log_attributes(work, object, (&of, &after), None);
    Shared::plan_set(work, object, &of, &after)?;
    Ok(true)
}

impl Shared {
    pub(super) async fn setattr(
        &self,
        by: Caller,
        node: Node,
        set: SetAttributes,
    ) -> Answer<Attributes> {
        let (served, object) = self.writable(node)?;
        let now = self.now()?;
        // The block of a new end is cut.
        let end = set.size.map_or(0, ByteCount::bytes);
        let cut = (object, end.saturating_sub(1), end.min(1));
        let done = self.plan_in(&served, cut, |work| {
            let of = known(work, &served, object)?;
            if let Some(size) = set.size {
                check_file(of.kind)?;
                work.resize(object, end_of(size.bytes(), 0)?)?;
            }
            let (after, drops) = rules::set(by, &of, &set, now);
            check_owners(work, &of, &after)?;
            Self::plan_set(work, object, &of, &after)?;
            log_attributes(work, object, (&of, &after), set.size);
            if drops {
                drop_capabilities(work, object)?;
            }
            if set.permissions.is_some()
                && !served.how.get().hides_lists
                && let Some(list) = work.extended(object, acl::ACCESS)?
            {
                let list = Acl::decode(&list)?.with_mode(after.permissions).encode();
                work.set_extended(object, acl::ACCESS, Some(&list))?;
                work.log_extended(object, acl::ACCESS, Some(&list))?;
            }
            Ok(())
        });
        done.await?;
        let notice = match set.size {
            Some(_) => ChangeNotice::Content(node),
            None => ChangeNotice::Attributes(node),
        };
        self.tell_all(by.mount, &[notice]);
        let node = self.file(&served, object).await?;
        Ok(attributes(&served, &node))
    }

    pub(super) async fn write(
        &self,
        by: Caller,
        file: Node,
        at: WriteAt,
        data: SgList,
        durable: bool,
    ) -> Answer<Offset> {
        let (served, object) = self.writable(file)?;
        let node = self.file(&served, object).await?;
        let size = node.attributes.size;
        check_file(super::answer::kind_of(node.attributes.kind))?;
        let len = data.len() as u64;
        let mut first = match at {
            WriteAt::Offset(at) => Some(at.bytes()),
            WriteAt::End => None,
        };
        end_of(first.unwrap_or(size), len)?;
        let (mut done, mut result) = (0, Ok(()));
        while done < data.len() {
            let begin = first.unwrap_or(size).saturating_add(done as u64);
            let piece = async {
                let take = served.files.stretch(object, begin, data.len() - done).await;
                let take = take.map_err(|error| wrong(&error))?;
                self.has_room(&served, take as u64).await?;
                let piece = data.slice(done..done + take).into_contiguous();
                let now = self.now()?;
                let written = self.plan_in(&served, (object, begin, take as u64), |work| {
                    let of = known(work, &served, object)?;
                    let owner = work.file(object)?.attributes.owner();
                    check_limits(work, owner, More::Bytes)?;
                    // Who appends takes all of his range with the first piece.
                    let base = first.unwrap_or(of.size.bytes());
                    let at = base + done as u64;
                    let end = match first {
                        None => end_of(base, len)?,
                        Some(_) => at + take as u64,
                    };
                    work.write(object, at, &piece, end)?;
                    if of.links > 0 {
                        work.log_write(object, at, take as u64);
                    }
                    changed(work, by, object, &of, now)?;
                    Ok(base)
                });
                Ok((take, written.await?))
            };
            match piece.await {
                Ok((take, base)) => {
                    done += take;
                    first = Some(base);
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if done > 0 {
            self.tell_all(by.mount, &[ChangeNotice::Content(file)]);
        }
        result?;
        if durable {
            self.commit(&served, Some(object)).await?;
        }
        Ok(Offset(first.unwrap_or(size)))
    }

    pub(super) async fn fallocate(
        &self,
        by: Caller,
        file: Node,
        at: Offset,
        len: ByteCount,
        what: Fallocate,
    ) -> Answer<()> {
        let (served, object) = self.writable(file)?;
        let at = at.bytes();
        if len.is_zero() {
            return Err(InodeError::Invalid);
        }
        let end = match what {
            Fallocate::PunchHole => at.saturating_add(len.bytes()).min(FILE_BYTES_MAX).max(at),
            _ => end_of(at, len.bytes())?,
        };
        // Written anew each time, a block has no space of its own: that there is enough now is all that can be said.
        if !matches!(what, Fallocate::PunchHole) {
            self.has_room(&served, len.bytes()).await?;
        }
        let now = self.now()?;
        let done = self.plan_in(&served, (object, at, end - at), |work| {
            let of = known(work, &served, object)?;
            check_file(of.kind)?;
            let size = of.size.bytes();
            let (zeroes, keep_size) = match what {
                Fallocate::PunchHole => (true, true),
                Fallocate::ZeroRange { keep_size } => (true, keep_size),
                Fallocate::Allocate { keep_size } => (false, keep_size),
            };
            let has_name = of.links > 0;
            if zeroes && at < end.min(size) {
                work.zero(object, at, end.min(size))?;
                if has_name {
                    work.log_zero(object, at, end.min(size));
                }
            }
            if !keep_size && end > size {
                work.resize(object, end)?;
                log_attributes(work, object, (&of, &of), Some(ByteCount(end)));
            }
            changed(work, by, object, &of, now)
        });
        done.await?;
        self.tell_all(by.mount, &[ChangeNotice::Content(file)]);
        Ok(())
    }

    pub(super) async fn seek(&self, file: Node, at: Offset, what: Seek) -> Answer<Offset> {
        let Place::File(served, object) = self.place(file)? else {
            return Err(InodeError::IsDirectory);
        };
        let node = self.file(&served, object).await?;
        check_file(super::answer::kind_of(node.attributes.kind))?;
        let (at, size) = (at.bytes(), node.attributes.size);
        if at >= size {
            return Err(InodeError::BeyondEnd);
        }
        let found = match what {
            Seek::Data => node.dnode().next_data(at).await.map_err(|error| wrong(&error))?,
            Seek::Hole => {
                let hole = node.dnode().next_hole(at).await.map_err(|error| wrong(&error))?;
                // Behind the last block all is a hole.
                Some(hole.max(at).min(size))
            }
        };
        match found {
            Some(found) if what == Seek::Hole || found < size => Ok(Offset(found)),
            _ => Err(InodeError::BeyondEnd),
        }
    }

    pub(super) async fn set_value(
        &self,
        by: Caller,
        node: Node,
        name: &[u8],
        value: &[u8],
        how: SetHow,
    ) -> Answer<()> {
        let (served, object) = self.writable(node)?;
        let is_known = is_list(name) || NAMESPACES.iter().any(|space| name.starts_with(space));
        let kept = served.how.get();
        if !is_known || !takes(kept, by, name) {
            return Err(InodeError::NotSupported);
        }
        self.has_room(&served, value.len() as u64 + NEW_BYTES).await?;
        let new = NewValue { name, value, how, now: self.now()? };
        let has_list = served.files.version() >= VERSION_SYSTEM_ATTRIBUTES;
        let mut hides = !has_list || kept.extended == Extended::Hidden;
        loop {
            let done =
                self.plan(&served, |work| plan_value(work, &served, by, object, &new, hides));
            match done.await {
                Ok(true) => break,
                // The directory is there now.
                Ok(false) => {}
                // As OpenZFS does with what the list has no room for.
                Err(InodeError::NoSpace) if !hides => hides = true,
                Err(error) => return Err(error),
            }
        }
        self.tell_all(by.mount, &[ChangeNotice::Attributes(node)]);
        Ok(())
    }

    pub(super) async fn remove_value(&self, by: Caller, node: Node, name: &[u8]) -> Answer<()> {
        let (served, object) = self.writable(node)?;
        if !takes(served.how.get(), by, name) {
            return Err(InodeError::NotSupported);
        }
        let now = moment_of(self.now()?);
        let done = self.plan(&served, |work| {
            match work.extended(object, name)? {
                Some(_) => {
                    work.set_extended(object, name, None)?;
                    work.log_extended(object, name, None)?;
                }
                // Who takes a list of access away that isn't there has what he wants.
                None if is_list(name) => {}
                None => return Err(InodeError::NoAttribute.into()),
            }
            Ok(work.touch(object, now, false)?)
        });
        done.await?;
        self.tell_all(by.mount, &[ChangeNotice::Attributes(node)]);
        Ok(())
    }
}
