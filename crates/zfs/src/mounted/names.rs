//! Names made, linked, removed and moved in a mount.

use super::answer::moment_of;
use super::shared::{Place, Served, Shared};
use super::writing::{Answer, Planned, check_limits, check_project, known};
use crate::zpl::More;
use crate::zpl::change::{EMPTY_DIRECTORY, NewAttributes, NewFile, With, Work, listed};
use rt::inodes::acl::{self, Acl};
use rt::inodes::{
    Attributes, Caller, ChangeNotice, InodeError, InodeKind, New, Node, RenameHow, Timestamp, rules,
};
use stdx::planted::{self, Bug};
use zfs_format::zpl::attributes::names;
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};
use zfs_format::zpl::owner::Owner;

/// Bytes of a name.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// Bytes of what a symbolic link holds: a path of Linux.
const TARGET_BYTES_MAX: usize = 4095;
/// Names of a file: what a signed number of 32 bits counts.
const LINKS_MAX: u64 = i32::MAX as u64;
/// Directories above one: more are a circle.
const DEPTH_MAX: usize = 1 << 16;
/// What something new takes at the least: dnode, entry and what leads there.
pub(super) const NEW_BYTES: u64 = 16 << 10;

/// Something to be made.
pub(super) struct Make {
    pub(super) new: New,
    pub(super) kind: InodeKind,
    pub(super) device: (u32, u32),
    pub(super) target: Option<Vec<u8>>,
    /// Whoever makes it holds it.
    pub(super) holds: bool,
}

impl Make {
    /// A plain file.
    pub(super) fn file(new: New, holds: bool) -> Make {
        Make { new, kind: InodeKind::File, device: (0, 0), target: None, holds }
    }
}

/// A directory that is one, and lives.
fn directory<'a, 'b>(work: &'a mut Work<'b>, number: u64) -> Planned<&'a mut Work<'b>> {
    match work.file(number)?.attributes.kind {
        FileKind::Directory => Ok(work),
        _ => Err(InodeError::NotDirectory.into()),
    }
}

/// The entry of a name; nothing where there is none.
fn find(work: &mut Work<'_>, from: u64, name: &[u8]) -> Planned<Option<DirectoryEntry>> {
    let work = directory(work, from)?;
    if name.len() > NAME_BYTES_MAX {
        return Err(InodeError::NameTooLong.into());
    }
    Ok(work.entry(from, name)?)
}

fn entry(work: &mut Work<'_>, from: u64, name: &[u8]) -> Planned<DirectoryEntry> {
    let entry = find(work, from, name)?.ok_or(InodeError::NotFound)?;
    let of = &work.file(entry.object)?.attributes;
    // A directory is an entry of one directory, by its own word.
    match of.kind == FileKind::Directory && of.parent != from {
        true => Err(InodeError::Loop.into()),
        false => Ok(entry),
    }
}

/// Something can be made under a name.
fn has_place(work: &mut Work<'_>, into: u64, name: &[u8]) -> Planned<()> {
    match find(work, into, name)? {
        Some(_) => Err(InodeError::Exists.into()),
        None if work.file(into)?.attributes.links == 0 => Err(InodeError::NotFound.into()),
        None => Ok(()),
    }
}

/// Whether a directory is another one, or lies below it.
fn is_below(work: &mut Work<'_>, number: u64, above: u64) -> Planned<bool> {
    let mut at = number;
    for _ in 0..DEPTH_MAX {
        if at == above {
            return Ok(true);
        }
        let parent = work.file(at)?.attributes.parent;
        if parent == at {
            return Ok(false);
        }
        at = parent;
    }
    Err(InodeError::Loop.into())
}

/// The number of a device as Linux has it: 12 and 20 bits; or more.
fn device_number((major, minor): (u32, u32)) -> u64 {
    match major < 1 << 12 && minor < 1 << 20 {
        true => u64::from(major) << 20 | u64::from(minor),
        false => u64::from(major) << 32 | u64::from(minor),
    }
}

fn kind_of(kind: InodeKind) -> FileKind {
    FileKind::from_code(kind.code() as u8).expect("each kind has a number")
}

impl Served {
    /// Refuses names that are not the dataset's own.
    fn check_name(&self, directory: u64, name: &[u8], error: InodeError) -> Answer<()> {
        let is_other = self.is_root(directory) && (name == b".zfs" || self.has_child(name));
        if is_other { Err(error) } else { Ok(()) }
    }

    /// Refuses names that a new file of the dataset can't have.
    fn check_new_name(&self, directory: u64, name: &[u8], error: InodeError) -> Answer<()> {
        self.check_name(directory, name, error)?;
        if self.files.name_rules().take(name) { Ok(()) } else { Err(InodeError::Invalid) }
    }
}

/// What is made has the owner, mode and lists that the rules give it.
fn plan_make(
    work: &mut Work<'_>,
    served: &Served,
    by: Caller,
    (parent, name): (u64, Option<&[u8]>),
    make: &Make,
    now: Timestamp,
) -> Planned<u64> {
    match name {
        Some(name) => has_place(work, parent, name)?,
        None => drop(directory(work, parent)?),
    }
    let above = known(work, served, parent)?;
    let is_directory = make.kind == InodeKind::Directory;
    if is_directory && u64::from(above.links) >= LINKS_MAX {
        return Err(InodeError::TooManyLinks.into());
    }
    let default = match served.how.get().hides_lists {
        true => None,
        false => work.extended(parent, acl::DEFAULT)?,
    };
    let default = default.map(|list| Acl::decode(&list)).transpose()?;
    let born = rules::born(by, &above, default, make.kind, make.new);
    let lists = [(acl::ACCESS, born.access), (acl::DEFAULT, born.default)];
    let lists: Vec<_> =
        lists.into_iter().filter_map(|(name, list)| Some((name, list?.encode()))).collect();
    let has_lists = !lists.is_empty();
    let list = has_lists.then(|| listed::encoded(lists.into_iter()));
    let (number, slots) = work.number()?;
    let file = NewFile {
        number,
        slots,
        mode: u64::from(make.kind.code()) << 12 | u64::from(born.permissions),
        user: born.user.into(),
        group: born.group.into(),
        generation: work.txg(),
        created: moment_of(now),
        device: device_number(make.device),
        target: make.target.clone(),
    };
    let project = work.project_of_new(parent, &file)?.0.unwrap_or(0);
    check_limits(work, Owner { user: file.user, group: file.group, project }, More::Object)?;
    work.make_with(parent, &file, 0, &With { list, no_name: name.is_none(), content: None })?;
    match name {
        Some(name) => {
            let kind = Some(kind_of(make.kind));
            work.put(parent, name, DirectoryEntry { object: number, kind })?;
            work.count(parent, 1, i64::from(is_directory))?;
            work.touch(parent, moment_of(now), true)?;
            match has_lists {
                true => work.log_whole(number),
                false => work.log_create(parent, name, &file),
            }
        }
        None => work.enqueue(number)?,
    }
    Ok(number)
}

/// What a rename did besides.
#[derive(Default)]
struct Renamed {
    moved: u64,
    replaced: Option<u64>,
    /// What was replaced has no name, and is held.
    doomed: bool,
}

impl Shared {
    pub(super) async fn make(
        &self,
        by: Caller,
        into: Node,
        name: Option<&[u8]>,
        make: Make,
    ) -> Answer<Attributes> {
        if let (Ok(Place::Snapshots(of)), Some(name), InodeKind::Directory) =
            (self.place(into), name, make.kind)
        {
            return self.take_snapshot(by, &of, name).await;
        }
        let (served, parent) = self.writable(into)?;
        if make.target.as_ref().is_some_and(|target| target.len() > TARGET_BYTES_MAX) {
            return Err(InodeError::NameTooLong);
        }
        if let Some(name) = name {
            served.check_new_name(parent, name, InodeError::Exists)?;
        }
        self.has_room(&served, NEW_BYTES).await?;
        let now = self.now()?;
        let number = self
            .plan(&served, |work| plan_make(work, &served, by, (parent, name), &make, now))
            .await?;
        // Nothing else ran since it was made.
        if make.holds {
            self.holds.hold(served.inode(number));
        }
        if let Some(name) = name {
            self.tell_of_entry(by.mount, &served, parent, name);
        } else {
            self.holds.doom(served.inode(number));
        }
        let node = self.file(&served, number).await?;
        Ok(super::answer::attributes(&served, &node))
    }

    pub(super) async fn link(
        &self,
        by: Caller,
        node: Node,
        into: Node,
        name: &[u8],
    ) -> Answer<Attributes> {
        let ((served, object), (of, parent)) = (self.writable(node)?, self.writable(into)?);
        if served.index != of.index {
            return Err(InodeError::CrossDevice);
        }
        served.check_new_name(parent, name, InodeError::Exists)?;
        self.has_room(&served, NEW_BYTES).await?;
        let now = moment_of(self.now()?);
        let linked = self.plan(&served, |work| {
            let of = known(work, &served, object)?;
            has_place(work, parent, name)?;
            match of.kind {
                InodeKind::Directory => return Err(InodeError::NotPermitted.into()),
                _ if u64::from(of.links) >= LINKS_MAX => {
                    return Err(InodeError::TooManyLinks.into());
                }
                _ => {}
            }
            check_project(work, parent, object)?;
            if of.links == 0 {
                work.dequeue(object)?;
            }
            let links = u64::from(of.links) + 1;
            work.file(object)?.attributes.links = links;
            work.set(object, &[(names::LINKS, links)])?;
            work.touch(object, now, false)?;
            let kind = Some(work.file(object)?.attributes.kind);
            work.put(parent, name, DirectoryEntry { object, kind })?;
            work.count(parent, 1, 0)?;
            match of.links {
                0 => work.log_whole(object),
                _ => work.log_link(parent, name, object),
            }
            Ok(work.touch(parent, now, true)?)
        });
        linked.await?;
        self.holds.spare(served.inode(object));
        self.tell_of_entry(by.mount, &served, parent, name);
        self.tell_all(by.mount, &[ChangeNotice::Attributes(node)]);
        let node = self.file(&served, object).await?;
        Ok(super::answer::attributes(&served, &node))
    }

    /// Removes an entry: a directory's, or of anything else.
    pub(super) async fn remove(
        &self,
        by: Caller,
        from: Node,
        name: &[u8],
        is_directory: bool,
    ) -> Answer<()> {
        if let (Ok(Place::Snapshots(of)), true) = (self.place(from), is_directory) {
            return self.destroy_snapshot(by, &of, name).await;
        }
        let (served, parent) = self.writable(from)?;
        served.check_name(parent, name, InodeError::Busy)?;
        let now = moment_of(self.now()?);
        let removed = self.plan(&served, |work| {
            let entry = entry(work, parent, name)?;
            let of = &work.file(entry.object)?.attributes;
            match of.kind == FileKind::Directory {
                true if !is_directory => return Err(InodeError::IsDirectory.into()),
                true if of.size > EMPTY_DIRECTORY => return Err(InodeError::NotEmpty.into()),
                false if is_directory => return Err(InodeError::NotDirectory.into()),
                _ => {}
            }
            let is_held = self.holds.is_held(served.inode(entry.object));
            let is_last = work.unlink(parent, name, entry, is_held)?;
            if !is_last || is_held {
                work.touch(entry.object, now, false)?;
            }
            work.touch(parent, now, true)?;
            work.log_remove(parent, name, entry.object, (is_directory, is_last));
            Ok((entry.object, is_last && is_held))
        });
        let (object, is_doomed) = removed.await?;
        if is_doomed {
            self.holds.doom(served.inode(object));
        }
        self.names.borrow_mut().remove(&served.inode(object));
        self.tell_of_entry(by.mount, &served, parent, name);
        self.tell_all(by.mount, &[ChangeNotice::Attributes(served.node(object))]);
        Ok(())
    }

    pub(super) async fn rename(
        &self,
        by: Caller,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        how: RenameHow,
    ) -> Answer<()> {
        if let (Ok(Place::Snapshots(of)), true) = (self.place(from.0), from.0 == to.0) {
            return match how {
                RenameHow::Exchange => Err(InodeError::Invalid),
                _ => self.rename_snapshot(by, &of, (from.1, to.1)).await,
            };
        }
        let ((served, source), (other, target)) = (self.writable(from.0)?, self.writable(to.0)?);
        if served.index != other.index {
            return Err(InodeError::CrossDevice);
        }
        served.check_name(source, from.1, InodeError::Busy)?;
        served.check_new_name(target, to.1, InodeError::Busy)?;
        let now = self.now()?;
        let renamed = self.plan(&served, |work| {
            self.plan_rename(work, &served, (source, from.1), (target, to.1), (how, now))
        });
        let Some(renamed) = renamed.await? else { return Ok(()) };
        let mut names = self.names.borrow_mut();
        for object in [Some(renamed.moved), renamed.replaced].into_iter().flatten() {
            names.remove(&served.inode(object));
        }
        drop(names);
        if let Some(replaced) = renamed.replaced {
            if renamed.doomed {
                self.holds.doom(served.inode(replaced));
            }
            self.tell_all(by.mount, &[ChangeNotice::Attributes(served.node(replaced))]);
        }
        self.tell_of_entry(by.mount, &served, source, from.1);
        self.tell_of_entry(by.mount, &served, target, to.1);
        self.tell_all(by.mount, &[ChangeNotice::Attributes(served.node(renamed.moved))]);
        Ok(())
    }

    /// Nothing where there is nothing to be done.
    fn plan_rename(
        &self,
        work: &mut Work<'_>,
        served: &Served,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        (how, now): (RenameHow, Timestamp),
    ) -> Planned<Option<Renamed>> {
        let now = moment_of(now);
        let moved = entry(work, from.0, from.1)?;
        let there = match find(work, to.0, to.1)? {
            Some(_) => Some(entry(work, to.0, to.1)?),
            None if work.file(to.0)?.attributes.links == 0 => {
                return Err(InodeError::NotFound.into());
            }
            None => None,
        };
        let kind = work.file(moved.object)?.attributes.kind;
        let moves_directory = kind == FileKind::Directory;
        match (how, there) {
            (RenameHow::NoReplace, Some(_)) => return Err(InodeError::Exists.into()),
            (RenameHow::Exchange, None) => return Err(InodeError::NotFound.into()),
            (_, Some(there)) if there.object == moved.object => return Ok(None),
            _ => {}
        }
        if moves_directory && is_below(work, to.0, moved.object)? {
            return Err(InodeError::Invalid.into());
        }
        check_project(work, to.0, moved.object)?;
        let mut done = Renamed { moved: moved.object, ..Renamed::default() };
        let moved = DirectoryEntry { object: moved.object, kind: Some(kind) };
        if let Some(there) = there {
            let there_kind = work.file(there.object)?.attributes.kind;
            let is_directory = there_kind == FileKind::Directory;
            done.replaced = Some(there.object);
            // What is moved lies in what it is to replace.
            let leads_up = is_directory && is_below(work, from.0, there.object)?;
            if how == RenameHow::Exchange {
                if leads_up {
                    return Err(InodeError::Invalid.into());
                }
                let there = DirectoryEntry { object: there.object, kind: Some(there_kind) };
                work.put(to.0, to.1, moved)?;
                work.put(from.0, from.1, there)?;
                let more = i64::from(is_directory) - i64::from(moves_directory);
                work.count(from.0, 0, more)?;
                work.count(to.0, 0, -more)?;
                for (object, parent) in [(moved.object, to.0), (there.object, from.0)] {
                    work.set(object, &[(names::PARENT, parent)])?;
                    work.touch(object, now, false)?;
                }
                work.touch(from.0, now, true)?;
                work.touch(to.0, now, true)?;
                work.log_whole(moved.object);
                return Ok(Some(done));
            }
            let size = work.file(there.object)?.attributes.size;
            match (moves_directory, is_directory) {
                _ if leads_up => return Err(InodeError::NotEmpty.into()),
                (true, false) => return Err(InodeError::NotDirectory.into()),
                (false, true) => return Err(InodeError::IsDirectory.into()),
                (true, true) if size > EMPTY_DIRECTORY => return Err(InodeError::NotEmpty.into()),
                _ => {}
            }
            let is_held = self.holds.is_held(served.inode(there.object));
            let is_last = work.unlink(to.0, to.1, there, is_held)?;
            if !is_last || is_held {
                work.touch(there.object, now, false)?;
            }
            done.doomed = is_last && is_held;
            if is_last {
                work.log_gone(there.object);
            }
        }
        let links = i64::from(moves_directory);
        work.take(from.0, from.1)?;
        work.count(from.0, -1, -links)?;
        work.put(to.0, to.1, moved)?;
        work.count(to.0, 1, links)?;
        work.touch(from.0, now, true)?;
        work.touch(to.0, now, true)?;
        if !planted::is(Bug::ParentNotSet) {
            work.set(moved.object, &[(names::PARENT, to.0)])?;
        }
        work.touch(moved.object, now, false)?;
        work.log_rename(from, to, moved.object);
        Ok(Some(done))
    }

    /// Sets what the rules made of a file.
    pub(super) fn plan_set(
        work: &mut Work<'_>,
        object: u64,
        before: &Attributes,
        after: &Attributes,
    ) -> Planned<()> {
        let new = NewAttributes {
            permissions: (after.permissions != before.permissions)
                .then_some(after.permissions.into()),
            user: (after.user != before.user).then_some(after.user.into()),
            group: (after.group != before.group).then_some(after.group.into()),
            accessed: (after.accessed != before.accessed).then(|| moment_of(after.accessed)),
            modified: (after.modified != before.modified).then(|| moment_of(after.modified)),
            changed: (after.changed != before.changed).then(|| moment_of(after.changed)),
        };
        Ok(work.set_attributes(object, new)?)
    }
}
