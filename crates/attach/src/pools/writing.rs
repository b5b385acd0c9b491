//! Pools that are made, and pools that are open for writing.
//!
//! A pool is written where its devices are files, block devices, or partitions of them. Its members are opened for writing, which
//! keeps every other writer off as long as it is open ([`host::FileDevice`]); whoever reads meanwhile sees the pool as the last
//! group left it.
//!
//! A pool that was not exported may be another host's: [`host`](super::host) decides whether it is opened for writing.

use super::find::{HeldBy, PoolPlace, Pools};
use super::host::{check_not_in_use, host_id, host_name};
use super::names::check_name;
use super::running::client;
use crate::Context;
use crate::disks::Disks;
use crate::error::Error;
use crate::event::Events;
use crate::expendable::{check_distinct, check_expendable};
use crate::random;
use ::host::identity::overlap;
use ::host::{FileDevice, FileOptions};
use ::zfs::ZfsError;
use ::zfs::dsl::catalog::Node;
use ::zfs::dsl::dependents::{self, Datasets, KnownSnapshot};
use ::zfs::dsl::make::Fresh;
use ::zfs::spa::add::NewVdevs;
use ::zfs::spa::config::LabelState;
use ::zfs::spa::create::{self, NewPool};
use ::zfs::spa::datasets::{TaskError, Tasks};
use ::zfs::spa::live::{Live, LiveOptions};
use ::zfs::spa::{FoundPool, OpenOptions, PoolState, Spa, rewind};
use rt::DeviceRef;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use stdx::{ByteCount, Prng};

/// Numbers that nothing else has, from the system's randomness; and the calendar's clock.
pub struct HostFresh {
    random: Cell<Prng>,
    command: Option<String>,
}

impl HostFresh {
    /// Seeded anew; for a command of the user's.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new(command: Option<&str>) -> Result<HostFresh, Error> {
        Ok(HostFresh { random: Cell::new(random::prng()?), command: command.map(str::to_owned) })
    }
}

impl Fresh for HostFresh {
    fn number(&self) -> u64 {
        let mut random = self.random.replace(Prng::new(0));
        // A GUID of 0 is none.
        let number = random.next_u64() | 1;
        self.random.set(random);
        number
    }

    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn author(&self) -> (u64, String) {
        (::host::reading::process_owner().0.into(), host_name())
    }

    fn host(&self) -> Option<(u64, String)> {
        Some((host_id(), host_name()))
    }

    fn command(&self) -> Option<String> {
        self.command.clone()
    }
}

/// A device that is to be a part of a new pool.
pub struct NewMember {
    /// Where it is.
    pub path: PathBuf,
    /// How long.
    pub bytes: ByteCount,
    /// Whether it is a block device.
    pub is_disk: bool,
    /// Its number.
    pub guid: u64,
    device: DeviceRef,
}

impl NewMember {
    /// Opens devices for writing, in order, each once.
    fn open_all(
        context: &Context,
        fresh: &dyn Fresh,
        paths: &[PathBuf],
        force: bool,
    ) -> Result<Vec<NewMember>, Error> {
        let mut members = Vec::new();
        for (n, path) in paths.iter().enumerate() {
            check_distinct(path, paths[..n].iter().map(PathBuf::as_path))?;
            check_expendable(path, force)?;
            let options = FileOptions { direct: false, read_only: false };
            let device = FileDevice::open(&context.host(), path, options).map_err(Error::Named)?;
            let device: DeviceRef = Rc::new(device);
            let bytes = device.geometry().capacity;
            let is_disk = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            members.push(NewMember { path, bytes, is_disk, guid: fresh.number(), device });
        }
        Ok(members)
    }
}

/// Whether devices can become parts of the pool of this name beside its own files; `apart` are the GUIDs of its spares and cache devices.
///
/// # Errors
/// One is a part of it, holds something and nobody forces it, or is given twice.
pub fn check_new(
    pools: &Pools,
    (pool, mut own): (&str, Vec<PathBuf>),
    apart: &[u64],
    paths: &[PathBuf],
    force: bool,
) -> Result<(), Error> {
    let its = pools.auxiliary.iter().filter(|member| apart.contains(&member.guid));
    own.extend(its.map(|member| PathBuf::from(&*member.device.name())));
    for (n, path) in paths.iter().enumerate() {
        if own.iter().any(|file| overlap(file, path)) {
            return Err(Error::IsMember { path: path.clone(), pool: pool.to_owned() });
        }
        check_distinct(path, paths[..n].iter().map(PathBuf::as_path))?;
        check_expendable(path, force)?;
    }
    Ok(())
}

/// Devices that are to be a pool.
pub struct NewMembers {
    context: Context,
    /// They.
    pub members: Vec<NewMember>,
    /// What makes it new.
    pub fresh: Rc<dyn Fresh>,
}

impl NewMembers {
    /// Opens devices for writing, in order, each once.
    ///
    /// # Errors
    /// One holds something and nobody forces it, is given twice, or can't be opened.
    pub fn open(
        events: &Events,
        paths: &[PathBuf],
        force: bool,
        command: Option<&str>,
    ) -> Result<NewMembers, Error> {
        let context = Context::new(events)?;
        let fresh: Rc<dyn Fresh> = Rc::new(HostFresh::new(command)?);
        let members = NewMember::open_all(&context, &*fresh, paths, force)?;
        Ok(NewMembers { context, members, fresh })
    }

    /// Makes a pool of them.
    ///
    /// # Errors
    /// It can't be written.
    pub fn create(&self, new: NewPool) -> Result<(), Error> {
        let name = new.name.clone();
        let all = self.members.iter();
        let devices: BTreeMap<u64, DeviceRef> =
            all.map(|member| (member.guid, Rc::clone(&member.device))).collect();
        let (rt, fresh) = (self.context.rt(), Rc::clone(&self.fresh));
        let making = async move { create::create(&rt, new, &devices, &fresh).await };
        let made = self.context.runtime().block_on(making)?;
        made.map_err(|error| Error::NotCreated { name, error: Box::new(error) })
    }
}

/// How a pool is opened for writing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// Though another host had it last.
    pub force: bool,
    /// One that was destroyed, and no other.
    pub destroyed: bool,
    /// Taken back to the newest state that is whole, where that isn't the newest; far back, too.
    pub rewind: Option<Rewind>,
    /// Without log devices that are missing, and with what only they have given up.
    pub without_log: bool,
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
) -> Result<Rc<Spa>, Error> {
    let (rt, found, options) = (pools.rt(), Rc::clone(found), pools.options());
    let far = rewind == Rewind::Far;
    Ok(pools.wait(async move { rewind::newest_whole(&rt, &found, options, far).await })?)
}

/// Opens a pool for writing whose devices are open for that. A command is put down in its history.
///
/// # Errors
/// It can't be written.
pub(crate) fn open_live(
    pools: &Pools,
    found: &Rc<FoundPool>,
    command: Option<&str>,
    how: Opening,
) -> Result<Rc<Live>, Error> {
    let spa = match how.rewind {
        Some(rewind) => open_rewound(pools, found, rewind)?,
        None => pools.try_open(found)?,
    };
    let fresh: Rc<dyn Fresh> = Rc::new(HostFresh::new(command)?);
    let options = LiveOptions {
        taken_back: how.rewind.is_some(),
        without_log: how.without_log,
        ..LiveOptions::default()
    };
    let opened = pools.wait(async move { Live::open_with(spa, &fresh, options).await });
    let failed = |error| Error::NotWritten { name: found.name.clone(), error: Box::new(error) };
    opened.map(Rc::new).map_err(failed)
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
    /// There is none, it can't be written, another process writes to it, or it was not exported and nobody forces it.
    pub fn open(place: &PoolPlace<'_>, name: &str, force: bool) -> Result<LivePool, Error> {
        LivePool::open_by(place, name, Opening { force, ..Opening::default() })
    }

    /// The same in another way.
    ///
    /// # Errors
    /// As of [`LivePool::open`].
    pub fn open_by(place: &PoolPlace<'_>, name: &str, how: Opening) -> Result<LivePool, Error> {
        if place.options.txg.is_some() || place.options.checkpoint {
            return Err(Error::OldAndWritten { name: name.into() });
        }
        if let Some(held) = place.held.as_ref().filter(|held| held.is(name)) {
            let name = held.live.spa().name().to_owned();
            let stays = Some(Stays { command: place.command.clone() });
            return Ok(LivePool::of(held.clone(), name, stays));
        }
        let (paths, guid) = {
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
            (pools.files_of(found)?, found.guid)
        };
        let disks = Disks::open_files_for(&place.events, place.devices, &paths)?;
        let paths = paths.iter().map(|path| PathBuf::from(&**path)).collect();
        disks.tell_complaints();
        let pools = Pools::over(disks, OpenOptions { ..place.options });
        let found = pools.found.iter().find(|pool| pool.guid == guid);
        let found = found.ok_or_else(|| Error::NoPool { name: name.into() })?;
        let name = found.name.clone();
        let live = open_live(&pools, found, place.command.as_deref(), how)?;
        Ok(LivePool::of(HeldBy::new(&Rc::new(pools), live, paths), name, None))
    }

    fn of(held: HeldBy, name: String, stays: Option<Stays>) -> LivePool {
        let HeldBy { pools, live, .. } = &held;
        let (pools, live) = (Rc::clone(pools), Rc::clone(live));
        LivePool { pools, live, held, name, stays }
    }

    /// The pool that a dataset's name begins with.
    ///
    /// # Errors
    /// As of [`LivePool::open`], and where no dataset can be called so.
    pub fn of_dataset(place: &PoolPlace<'_>, name: &str, force: bool) -> Result<LivePool, Error> {
        check_name(name)?;
        LivePool::open(place, super::pool_of(name), force)
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
        let found = self.pools.wait(async move { Datasets::of(live.spa().dsl()).await });
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

    /// Frees all that was destroyed, and closes the pool as exported.
    ///
    /// # Errors
    /// What is open can't be written.
    pub fn finish(self) -> Result<(), Error> {
        let live = Rc::clone(&self.live);
        let freed = self.pools.wait(async move { live.finish_freeing().await });
        freed.map_err(|error| Error::NotWritten {
            name: self.name.clone(),
            error: Box::new(error),
        })?;
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
    pub fn open_new(&self, paths: &[PathBuf], force: bool) -> Result<Vec<NewMember>, Error> {
        let (live, name) = (Rc::clone(&self.live), self.name.clone());
        let state = self.pools.wait(async move { live.spa().state().await });
        let state = state.map_err(|error| Error::CannotOpen { name, error: Box::new(error) })?;
        let apart: Vec<u64> = state.spares.iter().chain(&state.cache).map(|one| one.guid).collect();
        let own = self.held.files.borrow().clone();
        check_new(&self.pools, (&self.name, own), &apart, paths, force)?;
        let context = self.pools.disks().context();
        NewMember::open_all(context, self.live.fresh(), paths, force)
    }

    /// Adds vdevs to it, on devices that were [opened](LivePool::open_new) for that.
    ///
    /// # Errors
    /// Nothing was added.
    pub fn add(&self, new: NewVdevs, members: &[NewMember]) -> Result<(), Error> {
        let devices: BTreeMap<u64, DeviceRef> =
            members.iter().map(|member| (member.guid, Rc::clone(&member.device))).collect();
        let live = Rc::clone(&self.live);
        let added = self.pools.wait(async move { live.add(new, &devices).await });
        added
            .map_err(|error| Error::NotAdded { name: self.name.clone(), error: Box::new(error) })?;
        self.held.files.borrow_mut().extend(members.iter().map(|member| member.path.clone()));
        Ok(())
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

    /// As whoever holds it gives it to commands.
    pub fn held(&self) -> HeldBy {
        self.held.clone()
    }

    /// Closes it; its labels say how it was left. One that stays open commits what was changed.
    ///
    /// # Errors
    /// What is open can't be written.
    pub fn close(self, state: LabelState) -> Result<(), Error> {
        let live = Rc::clone(&self.live);
        let closed = self.pools.wait(async move {
            match self.stays {
                Some(Stays { command }) => live.settle(command.as_deref()).await,
                None => live.close(state).await,
            }
        });
        closed.map_err(|error| Error::NotWritten { name: self.name, error: Box::new(error) })
    }
}
