//! How a mount is changed: one plan of [`zpl`](crate::zpl) a call, which asks the rules and changes, or refuses.
//!
//! What a plan sees is what it changes, so two calls under way never mix. What it is needs of the mount itself (who holds a file)
//! it asks without waiting, and what it leaves there (a file that is doomed) is put down before anything else runs.

use super::answer::attributes_of;
use super::refusal::{stopped, wrong};
use super::shared::{Access, HowServed, Place, Served, Shared, Writing};
use crate::dmu::Blocked;
use crate::error::ZfsError;
use crate::spa::Room;
use crate::zil::Synchronous;
use crate::zpl::More;
use crate::zpl::Node as FileNode;
use crate::zpl::change::{NewAttributes, Work};
use rt::inodes::{
    Attributes, Caller, ChangeNotice, Fsync, InodeError, MountId, Node, OpenNode, SetAttributes,
    Timestamp, Watcher, rules,
};
use std::rc::Rc;
use stdx::ByteCount;
use zfs_format::zpl::directory::FileKind;
use zfs_format::zpl::owner::Owner;

/// Why a plan ends without changing anything.
pub(super) enum Stop {
    /// It needs a block, or can't have it.
    Blocked(Blocked),
    /// This is the answer.
    Answer(InodeError),
}

impl From<Blocked> for Stop {
    fn from(blocked: Blocked) -> Stop {
        Stop::Blocked(blocked)
    }
}

impl From<ZfsError> for Stop {
    fn from(error: ZfsError) -> Stop {
        Stop::Blocked(Blocked::Wrong(error))
    }
}

impl From<InodeError> for Stop {
    fn from(error: InodeError) -> Stop {
        Stop::Answer(error)
    }
}

/// What a plan gives.
pub(super) type Planned<T> = Result<T, Stop>;
/// What a call gives.
pub(super) type Answer<T> = Result<T, InodeError>;

/// What is known of a file within a plan.
pub(super) fn known(work: &mut Work<'_>, served: &Served, object: u64) -> Planned<Attributes> {
    let open = work.file(object)?;
    Ok(attributes_of(served, &open.dnode, &open.attributes))
}

/// The owner of a file may have more.
pub(super) fn check_limits(work: &Work<'_>, owner: Owner, more: More) -> Planned<()> {
    match work.files().is_owner_full(owner, more)? {
        true => Err(InodeError::Quota.into()),
        false => Ok(()),
    }
}

/// A directory that hands its project down takes files and directories of that project only. Whatever else there is has
/// none of its own.
pub(super) fn check_project(work: &mut Work<'_>, directory: u64, object: u64) -> Planned<()> {
    let Some(project) = work.file(directory)?.attributes.handed_down() else { return Ok(()) };
    let of = &work.file(object)?.attributes;
    let has_one = matches!(of.kind, FileKind::File | FileKind::Directory);
    match !has_one || of.owner().project == project {
        true => Ok(()),
        false => Err(InodeError::CrossDevice.into()),
    }
}

impl Shared {
    pub(super) fn writing(&self) -> Answer<&Writing> {
        self.writing.as_ref().ok_or(InodeError::ReadOnly)
    }

    pub(super) fn now(&self) -> Answer<Timestamp> {
        Ok(self.writing()?.clock.now())
    }

    /// A file that can be changed.
    pub(super) fn writable(&self, node: Node) -> Answer<(Rc<Served>, u64)> {
        self.writing()?;
        match self.place(node)? {
            Place::File(served, object) if served.how.get().copies.is_some() => {
                Ok((served, object))
            }
            _ => Err(InodeError::ReadOnly),
        }
    }

    /// Carries out a plan.
    pub(super) async fn plan<T>(
        &self,
        served: &Served,
        plan: impl FnMut(&mut Work<'_>) -> Planned<T>,
    ) -> Answer<T> {
        self.plan_or(served, |error| wrong(&error), plan).await
    }

    /// Carries out a plan that changes these bytes of a file: blocks that it covers in part are read for it.
    pub(super) async fn plan_in<T>(
        &self,
        served: &Served,
        of: (u64, u64, u64),
        plan: impl FnMut(&mut Work<'_>) -> Planned<T>,
    ) -> Answer<T> {
        self.plan_or(served, |error| self.wrong_in(served, of, error), plan).await
    }

    async fn plan_or<T>(
        &self,
        served: &Served,
        wrong: impl FnOnce(ZfsError) -> InodeError,
        mut plan: impl FnMut(&mut Work<'_>) -> Planned<T>,
    ) -> Answer<T> {
        if !self.writing()?.live.has_reserve() {
            return Err(InodeError::NoSpace);
        }
        let done = served.files.change_if(|work| match plan(work) {
            Ok(done) => Ok(Ok(done)),
            Err(Stop::Answer(error)) => Ok(Err(error)),
            Err(Stop::Blocked(blocked)) => Err(blocked),
        });
        let done = done.await.map_err(wrong)?;
        if served.how.get().synchronous == Synchronous::Always && done.is_ok() {
            self.commit(served, None).await?;
        }
        done
    }

    /// New data has room.
    pub(super) async fn has_room(&self, served: &Served, bytes: u64) -> Answer<()> {
        let copies = served.how.get().copies.ok_or(InodeError::ReadOnly)?;
        match self
            .writing()?
            .live
            .has_room(served.dataset.number, bytes, copies)
            .await
            .map_err(stopped)?
        {
            Room::Enough => Ok(()),
            Room::PoolFull => Err(InodeError::NoSpace),
            Room::QuotaReached => Err(InodeError::Quota),
        }
    }

    pub(super) fn watch(&self, watcher: Rc<dyn Watcher>) -> MountId {
        let mut watchers = self.watchers.borrow_mut();
        watchers.last += 1;
        let mount = MountId(watchers.last);
        watchers.all.insert(mount, watcher);
        mount
    }

    /// A name of a directory leads elsewhere, changed by this mount: others are told so.
    pub(super) fn tell_of_entry(&self, by: MountId, of: &Served, directory: u64, name: &[u8]) {
        let directory = of.node(directory);
        let entry = ChangeNotice::Entry { directory, name: name.to_vec() };
        self.tell_all(by, &[entry, ChangeNotice::Content(directory)]);
    }

    /// Tells all that watch, but the one that asked.
    pub(super) fn tell_all(&self, by: MountId, notices: &[ChangeNotice]) {
        let others: Vec<_> = {
            let watchers = self.watchers.borrow();
            let others = watchers.all.iter().filter(|(mount, _)| **mount != by);
            others.map(|(_, watcher)| Rc::clone(watcher)).collect()
        };
        for watcher in others {
            notices.iter().for_each(|notice| watcher.changed(notice.clone()));
        }
    }

    /// Notes that something was read, where that is worth a change. What can't be noted is read all the same.
    pub(super) async fn note_access(&self, served: &Served, node: &FileNode) {
        let HowServed { copies, access, .. } = served.how.get();
        let keeps = copies.is_some() && access != Access::Never;
        let Some(writing) = self.writing.as_ref().filter(|_| keeps) else { return };
        // Who reads does not wait for devices that take no writes.
        if writing.live.suspension().reason().is_some() {
            return;
        }
        let now = writing.clock.now();
        let of = attributes_of(served, node.dnode(), &node.attributes);
        if access == Access::Always || rules::access_time_is_due(&of, now) {
            let accessed = Some(super::answer::moment_of(now));
            let new = NewAttributes { accessed, ..NewAttributes::default() };
            let _ = served.files.set_attributes(node.number(), new).await;
        }
    }

    pub(super) async fn open(&self, by: Caller, node: Node, how: OpenNode) -> Answer<()> {
        let (served, object) = match self.place(node)? {
            Place::File(served, object) => (served, object),
            _ if how.write || how.truncate => return Err(InodeError::ReadOnly),
            _ => return Ok(()),
        };
        if (how.write || how.truncate)
            && (self.writing.is_none() || served.how.get().copies.is_none())
        {
            return Err(InodeError::ReadOnly);
        }
        // Held first: or it may go while it is looked at.
        let inode = served.inode(object);
        self.holds.hold(inode);
        let opened = async {
            self.file(&served, object).await?;
            if how.truncate {
                let size = Some(ByteCount::ZERO);
                self.setattr(by, node, SetAttributes { size, ..SetAttributes::default() }).await?;
            }
            Ok(())
        };
        let opened = opened.await;
        if opened.is_err() {
            self.release_of(&served, object);
        }
        opened
    }

    pub(super) fn release(&self, node: Node) {
        if let Ok(Place::File(served, object)) = self.place(node) {
            self.release_of(&served, object);
        }
    }

    fn release_of(&self, served: &Rc<Served>, object: u64) {
        if !self.holds.release(served.inode(object)) {
            return;
        }
        let (served, holds) = (Rc::clone(served), Rc::clone(&self.holds));
        let free = async move {
            // Somebody may have opened it again by its number.
            match holds.is_held(served.inode(object)) {
                true => holds.doom(served.inode(object)),
                // What isn't freed now is found at the next mount.
                false => drop(served.files.drain(object).await),
            }
        };
        self.spa.rt().spawn(free).detach();
    }

    pub(super) async fn fsync(&self, node: Node, _what: Fsync) -> Answer<()> {
        let Place::File(served, object) = self.place(node)? else { return Ok(()) };
        self.commit(&served, Some(object)).await
    }

    /// Makes durable what is known of a file, or of all of a dataset.
    pub(super) async fn commit(&self, served: &Served, object: Option<u64>) -> Answer<()> {
        match &self.writing {
            Some(_) if served.how.get().synchronous == Synchronous::Never => Ok(()),
            Some(writing) => {
                let done = writing.live.commit(served.dataset.number, object);
                done.await.map_err(stopped)
            }
            None => Ok(()),
        }
    }

    pub(super) async fn sync(&self) -> Answer<()> {
        match &self.writing {
            Some(writing) => writing.live.make_durable().await.map_err(stopped),
            None => Ok(()),
        }
    }
}
