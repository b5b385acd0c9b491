//! Which datasets of a pool that is held are mounted, and how others have a mount end.
//!
//! Whoever serves a mount puts it [down here](MountTable::put) for as long as it does, and takes [wishes](Wish) that it ends: of a
//! command, or of who closes the pool. What a mount shows is asked of the mount itself, for datasets come, go and get other names.

use crate::error::Error;
use ::zfs::ZfsError;
use ::zfs::mounted::Mounted;
use rt::Rt;
use rt::sync::{Notify, mpsc, oneshot};
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Wishes that wait to be taken.
const WISHES_MAX: usize = 4;

/// How long clients are given to go, in steps of [`BUSY_REST`], before something is refused because it is busy: one that has just closed
/// its connection or file may not be gone yet.
const BUSY_TRIES_MAX: u32 = 10;
const BUSY_REST: Duration = Duration::from_millis(50);

/// Whether that comes true while clients are given to go.
pub(super) async fn comes_true(rt: &Rt, mut is_so: impl FnMut() -> bool) -> bool {
    for _ in 0..BUSY_TRIES_MAX {
        if is_so() {
            return true;
        }
        rt.sleep(BUSY_REST).await;
    }
    is_so()
}

/// How a mount is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Only if nobody uses it.
    IfIdle,
    /// Whoever has files open there gets errors.
    Force,
    /// As it ends with who serves it: what programs wrote is written out, and who has files open is waited for.
    Drain,
}

/// That a mount ends.
pub struct Wish {
    /// How.
    pub how: Unmount,
    /// It is mounted again then, in the same place.
    pub again: Option<Again>,
    answer: oneshot::Sender<Result<(), Error>>,
}

/// That a mount which ended begins again.
pub struct Again {
    /// What the dataset is called by now.
    pub dataset: String,
    go: oneshot::Receiver<oneshot::Sender<Result<(), Error>>>,
}

impl Again {
    /// Waits until it may: whoever wished it says so, or is gone. What came of it is for who waits for that, if anybody does.
    pub async fn wait(self) -> Option<oneshot::Sender<Result<(), Error>>> {
        self.go.await.ok()
    }
}

/// A mount that ended, and begins again when this is dropped or [resumed](Paused::resume).
pub struct Paused {
    go: oneshot::Sender<oneshot::Sender<Result<(), Error>>>,
    _moving: Moving,
}

impl Paused {
    /// Has it mounted again, and waits for that.
    ///
    /// # Errors
    /// It can't be.
    pub async fn resume(self) -> Result<(), Error> {
        let (answer, done) = oneshot::channel();
        // Who served it may be gone.
        let _ = self.go.send(answer);
        done.await.unwrap_or(Ok(()))
    }
}

impl Wish {
    /// It has ended, or goes on.
    pub fn done(self, done: Result<(), Error>) {
        // Nobody may wait for it any more.
        let _ = self.answer.send(done);
    }
}

/// A mount, as others see it.
pub struct Entry {
    /// Where.
    pub directory: PathBuf,
    /// It can be written.
    pub for_writing: bool,
    mounted: Weak<Mounted>,
    wishes: mpsc::Sender<Wish>,
}

impl Entry {
    /// Has it let go of datasets below the one at its top.
    async fn let_go(
        &self,
        rt: &Rt,
        mounted: &Mounted,
        datasets: &[u64],
        by_force: bool,
    ) -> Result<(), Error> {
        for dataset in datasets {
            // Files that are open there the mount knows of; of who only stands there it is not told.
            let directory = self.directory_of(mounted, *dataset).filter(|_| !by_force);
            let stands = || directory.as_deref().and_then(host::standing_in);
            let leaves = || stands().is_none() && mounted.leave(*dataset, by_force);
            if !comes_true(rt, leaves).await {
                let (dataset, by) = (mounted.name_of(*dataset), stands());
                return Err(Error::DatasetBusy { dataset, by });
            }
        }
        Ok(())
    }

    /// Where the root of a dataset below the one at the top is, if that was looked at.
    fn directory_of(&self, mounted: &Mounted, dataset: u64) -> Option<PathBuf> {
        let (top, name) = (mounted.name_of(mounted.dataset()), mounted.name_of(dataset));
        let below = name.strip_prefix(&top)?.strip_prefix('/')?;
        Some(self.directory.join(below))
    }

    /// Has it end, and waits for that.
    ///
    /// # Errors
    /// It goes on.
    pub async fn end(&self, how: Unmount) -> Result<(), Error> {
        self.wish(how, None).await
    }

    async fn wish(&self, how: Unmount, again: Option<Again>) -> Result<(), Error> {
        let (answer, done) = oneshot::channel();
        // One that is gone has ended.
        if self.wishes.send(Wish { how, again, answer }).await.is_err() {
            return Ok(());
        }
        done.await.unwrap_or(Ok(()))
    }
}

/// A dataset that is mounted.
#[derive(Clone)]
pub struct Shown {
    /// Its name.
    pub dataset: String,
    /// Where its root is.
    pub directory: PathBuf,
    /// The mount, of this dataset or of one above it.
    pub of: Rc<Entry>,
}

impl Shown {
    /// Whether it was mounted itself, and not with what is above it.
    pub fn is_itself(&self) -> bool {
        self.directory == self.of.directory
    }
}

/// See the [module](self).
#[derive(Default)]
pub struct MountTable {
    entries: RefCell<Vec<Rc<Entry>>>,
    /// Who is about to mount something in the place of what it unmounted.
    moving: Cell<usize>,
    changed: Notify,
}

/// Something is unmounted to be mounted elsewhere: as long as this is there, a table that is empty is not taken for empty.
pub struct Moving(Rc<MountTable>);

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.moving.set(self.0.moving.get() - 1);
        self.0.changed.notify_waiters();
    }
}

/// A mount stands in the table as long as this is there.
pub struct Kept {
    table: Rc<MountTable>,
    entry: Rc<Entry>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.table.entries.borrow_mut().retain(|entry| !Rc::ptr_eq(entry, &self.entry));
        self.table.changed.notify_waiters();
    }
}

impl MountTable {
    /// Puts a mount down; who serves it takes the wishes.
    pub fn put(
        self: &Rc<Self>,
        mounted: &Rc<Mounted>,
        directory: &Path,
        for_writing: bool,
    ) -> (Kept, mpsc::Receiver<Wish>) {
        let (wishes, taken) = mpsc::channel(WISHES_MAX);
        let (mounted, directory) = (Rc::downgrade(mounted), directory.to_owned());
        let entry = Rc::new(Entry { directory, for_writing, mounted, wishes });
        self.entries.borrow_mut().push(Rc::clone(&entry));
        (Kept { table: Rc::clone(self), entry }, taken)
    }

    /// All mounts, the latest first.
    pub fn entries(&self) -> Vec<Rc<Entry>> {
        self.entries.borrow().iter().rev().cloned().collect()
    }

    /// All datasets that are mounted.
    ///
    /// # Errors
    /// What a mount shows can't be had.
    pub async fn shown(&self) -> Result<Vec<Shown>, ZfsError> {
        let mut all = Vec::new();
        for entry in self.entries() {
            let Some(mounted) = entry.mounted.upgrade() else { continue };
            for (dataset, path) in mounted.shown().await? {
                let directory = match &path[..] {
                    [] => entry.directory.clone(),
                    path => entry.directory.join(OsStr::from_bytes(path)),
                };
                all.push(Shown { dataset, directory, of: Rc::clone(&entry) });
            }
        }
        Ok(all)
    }

    /// Waits until nothing is mounted.
    pub async fn emptied(&self) {
        loop {
            let changed = self.changed.notified();
            if self.entries.borrow().is_empty() && self.moving.get() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Mounts are about to move.
    pub fn moving(self: &Rc<Self>) -> Moving {
        self.moving.set(self.moving.get() + 1);
        Moving(Rc::clone(self))
    }

    /// Datasets leave all mounts, by their objects: one that is mounted itself is unmounted, others are let go of by the mount of what is above
    /// them.
    ///
    /// # Errors
    /// Somebody has files open in one, and it was not to be by force.
    pub async fn leave(&self, rt: &Rt, datasets: &[u64], by_force: bool) -> Result<(), Error> {
        let mut whole = Vec::new();
        for entry in self.entries() {
            let Some(mounted) = entry.mounted.upgrade() else { continue };
            match datasets.contains(&mounted.dataset()) {
                true => whole.push(entry),
                false => entry.let_go(rt, &mounted, datasets, by_force).await?,
            }
        }
        for entry in whole {
            self.end_one(rt, &entry, by_force).await?;
        }
        Ok(())
    }

    /// Ends a mount if nobody uses it, or by force. Who has just closed a file may not have been heard of yet.
    ///
    /// # Errors
    /// It goes on.
    pub async fn end_one(&self, rt: &Rt, entry: &Entry, by_force: bool) -> Result<(), Error> {
        let how = if by_force { Unmount::Force } else { Unmount::IfIdle };
        for _ in 0..BUSY_TRIES_MAX {
            match entry.end(how).await {
                Err(Error::MountBusy { .. }) => rt.sleep(BUSY_REST).await,
                done => return done,
            }
        }
        entry.end(how).await
    }

    /// Ends the mount that this dataset has itself, if it has one, as [`MountTable::end_one`] does, to be mounted again.
    ///
    /// # Errors
    /// It goes on.
    pub async fn pause(
        self: &Rc<Self>,
        rt: &Rt,
        (dataset, name): (u64, &str),
        by_force: bool,
    ) -> Result<Option<Paused>, Error> {
        let is_its = |entry: &Rc<Entry>| {
            entry.mounted.upgrade().is_some_and(|mounted| mounted.dataset() == dataset)
        };
        let Some(entry) = self.entries().into_iter().find(is_its) else { return Ok(None) };
        let how = if by_force { Unmount::Force } else { Unmount::IfIdle };
        let mut tries = 0;
        loop {
            let (go, wait) = oneshot::channel();
            let moving = self.moving();
            let again = Again { dataset: name.to_owned(), go: wait };
            match entry.wish(how, Some(again)).await {
                Err(Error::MountBusy { .. }) if tries < BUSY_TRIES_MAX => {
                    tries += 1;
                    rt.sleep(BUSY_REST).await;
                }
                done => return done.map(|()| Some(Paused { go, _moving: moving })),
            }
        }
    }

    /// Ends all mounts.
    ///
    /// # Errors
    /// Why one could not end, when all were asked.
    pub async fn end_all(&self, how: Unmount) -> Result<(), Error> {
        let mut outcome = Ok(());
        for entry in self.entries() {
            outcome = outcome.and(entry.end(how).await);
        }
        outcome
    }
}
