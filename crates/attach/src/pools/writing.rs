//! Pools that are open for writing.
//!
//! What a pool lies on is opened for writing, whatever that is: files and block devices, which keeps every other writer off as long
//! as it is open ([`host::FileDevice`]), exports of NBD servers, RAID sets, and what partitions and logical volumes lie on. Whoever reads
//! meanwhile sees the pool as the last group left it. **The end** comes from the top: the pool is closed, then the sets below it are
//! stopped.
//!
//! A pool that was not exported may be another host's: [`host`](super::host) decides whether it is opened for writing. One of which
//! groups are lost is only where [that is accepted](Opening::accepts_loss).

use super::find::{HeldBy, PoolPlace, Pools, in_words};
use super::fresh::HostFresh;
use super::host::check_not_in_use;
use super::members::{NewMember, Wanted};
use super::mount_table::Paused;
use super::names::check_name;
use super::running::client;
use crate::disks::Disks;
use crate::error::Error;
use crate::event::Event;
use ::zfs::ZfsError;
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::dependents::{self, Datasets, KnownSnapshot};
use ::zfs::dsl::make::Fresh;
use ::zfs::spa::add::NewVdevs;
use ::zfs::spa::config::LabelState;
use ::zfs::spa::datasets::{TaskError, Tasks};
use ::zfs::spa::freeing::Unreadable;
use ::zfs::spa::live::{GivenUpLog, Live, LiveError, LiveOptions};
use ::zfs::spa::rewind::{self, Back};
use ::zfs::spa::{Apart, FoundPool, OpenOptions, PoolState, Spa};
use rt::DeviceRef;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// How a pool is opened for writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// Though another host had it last.
    pub force: bool,
    /// One that was destroyed, and no other.
    pub destroyed: bool,
    /// Taken back to the newest state that is whole, where that isn't the newest; far back, too.
    pub rewind: Option<Rewind>,
    /// Taken back to its checkpoint, as which it is found.
    pub checkpoint: bool,
    /// Without log devices that are missing, and with what only they have given up.
    pub without_log: bool,
    /// Though not all that was written can be read any more, and what was there before that is overwritten.
    pub accepts_loss: bool,
    /// Whether it may be in use elsewhere was looked for already.
    pub watched: bool,
}

/// How far a pool is taken back at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewind {
    /// As far as what was freed since is still there.
    Near,
    /// To any state.
    Far,
}

/// Opens a pool for reading as it would be taken back.
///
/// # Errors
/// No state of it is whole.
pub fn open_rewound(
    pools: &Pools,
    found: &Rc<FoundPool>,
    rewind: Rewind,
    accepts_loss: bool,
) -> Result<Rc<Spa>, Error> {
    rewound(pools, found, pools.options(), (rewind, accepts_loss))
}

fn rewound(
    pools: &Pools,
    found: &Rc<FoundPool>,
    options: OpenOptions,
    (rewind, accepts_loss): (Rewind, bool),
) -> Result<Rc<Spa>, Error> {
    let (rt, found) = (pools.rt(), Rc::clone(found));
    let how = Back { far: rewind == Rewind::Far, accepts_loss };
    Ok(pools.wait(async move { rewind::newest_whole(&rt, &found, options, how).await })?)
}

/// Refuses a pool of which devices went on [apart](Apart), or groups are [newly lost](::zfs::spa::Spa::newly_lost): who writes to it
/// overwrites what is only there, or what was there before them. Of one that can't be read who opens it says why.
///
/// # Errors
/// Some did or are, and it is not to be opened in a way that accepts that. A state that it is taken back to has lost nothing.
pub(crate) fn check_nothing_lost(
    pools: &Pools,
    found: &Rc<FoundPool>,
    how: Opening,
) -> Result<(), Error> {
    if how.accepts_loss {
        return Ok(());
    }
    if let Some(Apart { devices, last: (_, seconds), .. }) = pools.apart(found) {
        let (name, devices) = (found.name.clone(), pools.called(found, &devices));
        return Err(Error::PoolApart { name, devices, seconds });
    }
    if how.rewind.is_some() || !found.may_have_lost() {
        return Ok(());
    }
    let Ok(spa) = pools.try_open(found) else { return Ok(()) };
    match in_words(found, &spa.newly_lost(found)) {
        Some((groups, before)) => Err(Error::PoolLost { name: found.name.clone(), groups, before }),
        None => Ok(()),
    }
}

/// Opens a pool for writing whose devices are open for that, without those that end too soon. A command is put down in its history.
///
/// # Errors
/// It can't be written.
pub(crate) fn open_live(
    pools: &Pools,
    found: &Rc<FoundPool>,
    command: Option<&str>,
    how: Opening,
) -> Result<Rc<Live>, Error> {
    let options = OpenOptions { whole_devices: true, ..pools.options() };
    let spa = match how.rewind {
        Some(rewind) => rewound(pools, found, options, (rewind, how.accepts_loss))?,
        None => pools.open_with(found, options)?,
    };
    let fresh: Rc<dyn Fresh> = Rc::new(HostFresh::new(command)?);
    let options = LiveOptions {
        taken_back: how.rewind.is_some() || how.checkpoint,
        without_log: how.without_log,
        accepts_loss: how.accepts_loss,
        ..LiveOptions::default()
    };
    let opened = pools.wait(async move { Live::open_with(spa, &fresh, options).await });
    let failed = |error: LiveError| {
        let (name, error) = (found.name.clone(), Box::new(error));
        match &*error {
            LiveError::Dtl(reason) | LiveError::Zfs(reason) if reason.is_damage() => {
                Error::PoolDamaged { name, error }
            }
            _ => Error::NotWritten { name, error },
        }
    };
    let live = opened.map(Rc::new).map_err(failed)?;
    for GivenUpLog { name, records, error } in live.logs_given_up() {
        pools.disks().context().tell(Event::LogGivenUp { dataset: name, records, error });
    }
    Ok(live)
}

/// A pool that is open for writing. See the [module](self).
pub struct LivePool {
    /// The disks it lies on, and whatever else is there.
    pub pools: Rc<Pools>,
    /// It.
    pub live: Rc<Live>,
    held: HeldBy,
    name: String,
    /// It stays open when this one has done with it: who holds it carries this command out.
    stays: Option<Stays>,
    /// What was handed over before this, and can't be freed.
    unreadable: Unreadable,
}

/// Devices that are to be parts of a pool that is open.
pub struct AddedMembers {
    /// They.
    pub members: Vec<NewMember>,
    /// What of them is put together of several.
    disks: Option<Disks>,
}

/// Of a pool that stays open.
struct Stays {
    /// For its history.
    command: Option<String>,
}

impl LivePool {
    /// Opens the pool of this name, or that a dataset's name begins with.
    ///
    /// # Errors
    /// There is none, it can't be written, another process writes to it, it was not exported and nobody forces it, or groups of it are
    /// lost.
    pub fn open(place: &PoolPlace<'_>, name: &str, force: bool) -> Result<LivePool, Error> {
        LivePool::open_by(place, name, Opening { force, ..Opening::default() })
    }

    /// The same in another way.
    ///
    /// # Errors
    /// As of [`LivePool::open`].
    pub fn open_by(place: &PoolPlace<'_>, name: &str, how: Opening) -> Result<LivePool, Error> {
        if place.options.txg.is_some() || place.options.checkpoint != how.checkpoint {
            return Err(Error::OldAndWritten { name: name.into() });
        }
        if let Some(held) = place.held.as_ref().filter(|held| held.is(name)) {
            let name = held.live.spa().name().to_owned();
            let stays = Some(Stays { command: place.command.clone() });
            return Ok(LivePool::of(held.clone(), name, stays));
        }
        let (writing, guid, told) = {
            let pools = Pools::find(place)?;
            let found = match how.destroyed {
                true => pools.destroyed(name)?,
                false => pools.named(name)?,
            };
            let found = found.ok_or_else(|| Error::NoPool { name: name.into() })?;
            client::refuse_held(&pools, found)?;
            if found.state == PoolState::Destroyed && !how.destroyed {
                return Err(Error::PoolDestroyed { name: found.name.clone() });
            }
            if !how.watched {
                check_not_in_use(&pools, found, how.force)?;
            }
            check_nothing_lost(&pools, found, how)?;
            let told: Vec<String> = pools.disks().lost().cloned().collect();
            (pools.writing(found), found.guid, told)
        };
        let disks = Disks::open_writing(&place.events, place.devices, &writing)?;
        disks.tell_lost_but(&told);
        let pools = Pools::over(disks, OpenOptions { ..place.options });
        let found = pools.found.iter().find(|pool| pool.guid == guid);
        let found = found.ok_or_else(|| Error::NoPool { name: name.into() })?;
        pools.check_writable(found)?;
        let paths = pools.paths_of(found);
        let name = found.name.clone();
        let live = open_live(&pools, found, place.command.as_deref(), how)?;
        Ok(LivePool::of(HeldBy::new(&Rc::new(pools), live, paths), name, None))
    }

    fn of(held: HeldBy, name: String, stays: Option<Stays>) -> LivePool {
        let HeldBy { pools, live, .. } = &held;
        let (pools, live) = (Rc::clone(pools), Rc::clone(live));
        let unreadable = live.freeing().unreadable();
        LivePool { pools, live, held, name, stays, unreadable }
    }

    /// The pool that a dataset's name begins with.
    ///
    /// # Errors
    /// As of [`LivePool::open`], and where no dataset can be called so.
    pub fn of_dataset(place: &PoolPlace<'_>, name: &str, force: bool) -> Result<LivePool, Error> {
        check_name(name)?;
        LivePool::open(place, super::pool_of(name), force).map_err(|error| match error {
            Error::NoPool { .. } => Error::NoDataset { name: name.to_owned() },
            error => error,
        })
    }

    /// The file system or volume of a name; nothing where there is none.
    ///
    /// # Errors
    /// Something on the way can't be had.
    pub fn node(&self, name: &str) -> Result<Option<Rc<Node>>, Error> {
        self.pools.node(self.live.spa(), name)
    }

    /// All file systems and volumes below one.
    ///
    /// # Errors
    /// One can't be had.
    pub fn below(&self, top: &Rc<Node>) -> Result<Vec<Rc<Node>>, Error> {
        self.pools.below(self.live.spa(), top)
    }

    /// All file systems and volumes, with what depends on what.
    ///
    /// # Errors
    /// One can't be had.
    pub fn datasets(&self) -> Result<Datasets, Error> {
        let (live, name) = (Rc::clone(&self.live), self.name.clone());
        let found = self.pools.wait(async move {
            let pool = Some(live.spa().guid());
            Ok(Datasets { pool, ..Datasets::of(live.spa().dsl()).await? })
        });
        found.map_err(|error| Error::CannotOpen { name, error: Box::new(error) })
    }

    /// Bytes that are free if all snapshots from one up to another of the same dataset go.
    ///
    /// # Errors
    /// What they have can't be told.
    pub fn would_free(&self, first: &KnownSnapshot, last: &KnownSnapshot) -> Result<u64, Error> {
        let (live, name) = (Rc::clone(&self.live), first.name.clone());
        let (first, last) = (first.clone(), last.clone());
        let told = self
            .pools
            .wait(async move { dependents::would_free(live.spa().dsl(), &first, &last).await });
        told.map_err(|error| Error::CannotOpen { name, error: Box::new(error) })
    }

    /// Frees all that was destroyed. Says what of it was destroyed by whoever opened this, and can't be freed.
    ///
    /// # Errors
    /// The pool is not written any more.
    pub fn free(&self) -> Result<Unreadable, Error> {
        let live = Rc::clone(&self.live);
        let freed = self.pools.wait(async move { live.finish_freeing().await });
        freed.map_err(|error| Error::NotWritten {
            name: self.name.clone(),
            error: Box::new(error),
        })?;
        Ok(self.live.freeing().unreadable().since(self.unreadable))
    }

    /// Frees all that was destroyed, as far as that can be done, and closes the pool as exported.
    ///
    /// # Errors
    /// What is open can't be written.
    pub fn finish(self) -> Result<(), Error> {
        self.free()?;
        self.close(LabelState::Exported)
    }

    /// Does a task in a group of its own.
    ///
    /// # Errors
    /// The outer one: the pool is not written any more. The inner one: it was not done.
    #[inline]
    pub fn task<T: 'static>(
        &self,
        task: impl AsyncFnOnce(&Tasks<'_>) -> Result<Result<T, TaskError>, ZfsError> + 'static,
    ) -> Result<Result<T, TaskError>, Error> {
        let live = Rc::clone(&self.live);
        let done = self.pools.wait(async move { live.task(task).await });
        done.map_err(|error| Error::NotWritten { name: self.name.clone(), error: Box::new(error) })
    }

    /// Opens devices for writing that are to be parts of it, in order, each once.
    ///
    /// # Errors
    /// One is a part of it, holds something and nobody forces it, is given twice, or can't be opened.
    pub fn open_new(
        &self,
        place: &PoolPlace<'_>,
        words: &[PathBuf],
        force: bool,
    ) -> Result<AddedMembers, Error> {
        let (live, name) = (Rc::clone(&self.live), self.name.clone());
        let state = self.pools.wait(async move { live.spa().state().await });
        let state = state.map_err(|error| Error::CannotOpen { name, error: Box::new(error) })?;
        let wanted = Wanted::of(place, words, force);
        let apart: Vec<u64> = state.spares.iter().chain(&state.cache).map(|one| one.guid).collect();
        wanted.check_against(&self.pools, (&self.name, self.held.files()), &apart)?;
        let (members, disks) = wanted.open(&self.pools, self.live.fresh())?;
        Ok(AddedMembers { members, disks })
    }

    /// Adds vdevs to it, on devices that were [opened](LivePool::open_new) for that.
    ///
    /// # Errors
    /// Nothing was added.
    pub fn add(&self, new: NewVdevs, added: AddedMembers) -> Result<(), Error> {
        let AddedMembers { members, disks } = added;
        let devices: BTreeMap<u64, DeviceRef> =
            members.iter().map(|member| (member.guid, Rc::clone(&member.device))).collect();
        let live = Rc::clone(&self.live);
        let done = self.pools.wait(async move { live.add(new, &devices).await });
        done.map_err(|error| Error::NotAdded { name: self.name.clone(), error: Box::new(error) })?;
        let files = members.into_iter().flat_map(|member| member.files).collect();
        self.held.take_in(files, disks, self.stays.is_some());
        Ok(())
    }

    /// Has its vdevs take in what their devices had grown by when they were opened: those with one of these leaves, or all. Says which have, by
    /// their GUIDs.
    ///
    /// # Errors
    /// It can't be written.
    pub fn expand(&self, of: Option<Vec<u64>>) -> Result<Vec<u64>, Error> {
        let live = Rc::clone(&self.live);
        let done = self.pools.wait(async move { live.expand(of.as_deref()).await });
        done.map_err(|error| Error::NotWritten { name: self.name.clone(), error: Box::new(error) })
    }

    /// Unmounts file systems that are to be destroyed, by their objects, where they are mounted.
    ///
    /// # Errors
    /// Somebody has files open in one, and it was not to be by force.
    pub fn unmount(&self, datasets: &[u64], by_force: bool) -> Result<(), Error> {
        let (mounts, rt) = (Rc::clone(&self.held.mounts), self.pools.rt());
        let datasets = datasets.to_vec();
        self.pools.wait(async move { mounts.leave(&rt, &datasets, by_force).await })
    }

    /// Unmounts a file system that is mounted itself, by its object and its name, until what comes back is resumed or dropped; nothing
    /// where it isn't.
    ///
    /// # Errors
    /// Somebody has files open in it, and it was not to be by force.
    pub fn pause(
        &self,
        (dataset, name): (u64, &str),
        by_force: bool,
    ) -> Result<Option<Paused>, Error> {
        let (mounts, rt) = (Rc::clone(&self.held.mounts), self.pools.rt());
        let name = name.to_owned();
        self.pools.wait(async move { mounts.pause(&rt, (dataset, &name), by_force).await })
    }

    /// Has it mounted again, as it was.
    ///
    /// # Errors
    /// It can't be.
    pub fn resume(&self, paused: Paused) -> Result<(), Error> {
        self.pools.wait(async move { paused.resume().await })
    }

    /// Says in the labels that it is in use, before something is written for long.
    ///
    /// # Errors
    /// They can't be written.
    pub fn begin(&self) -> Result<(), Error> {
        let live = Rc::clone(&self.live);
        let begun = self.pools.wait(async move {
            live.syncer().change_config(|config| config.state = LabelState::Active);
            live.sync(async |_| Ok(())).await
        });
        begun.map_err(|error| Error::NotWritten { name: self.name.clone(), error: Box::new(error) })
    }

    /// Whether somebody holds it, for whom this command is carried out.
    pub fn stays_open(&self) -> bool {
        self.stays.is_some()
    }

    /// As whoever holds it gives it to commands.
    pub fn held(&self) -> HeldBy {
        self.held.clone()
    }

    /// Closes it, and stops the sets below it; its labels say how it was left. One that stays open commits what was changed.
    ///
    /// # Errors
    /// What is open can't be written.
    pub fn close(self, state: LabelState) -> Result<(), Error> {
        let LivePool { pools, live, held, name, stays, .. } = self;
        let is_closed = stays.is_none();
        let closed = pools.wait(async move {
            match stays {
                Some(Stays { command }) => live.settle(command.as_deref()).await,
                None => live.close(state).await,
            }
        });
        let closed = closed.map_err(|error| Error::NotWritten { name, error: Box::new(error) });
        match is_closed {
            true => closed.and(held.stop_added()).and(pools.disks().stop()),
            false => closed,
        }
    }
}
