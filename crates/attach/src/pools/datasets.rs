//! Pools that were opened, and the datasets that are read of them.
//!
//! **Logs.** Who asks to see a dataset with its intent log replayed sees its pool as an import for writing would leave it: it is opened for
//! writing under a [cover](crate::context), and replayed there. Of pools that can't be written the log alone is laid over the dataset.
//!
//! **Keys.** A dataset that is encrypted needs the key of its encryption root ([`keys`](super::keys)). It is loaded once
//! a pool and root.

use super::find::{PoolPlace, Pools};
use super::keys::{Ask, KeyBytes, Keys};
use super::names::{pool_of, within};
use super::writing::{Opening, open_live};
use crate::error::Error;
use crate::event::Event;
use ::zfs::ZfsError;
use ::zfs::dmu::Objset;
use ::zfs::dsl::{Dataset, Directory};
use ::zfs::spa::live::Live;
use ::zfs::spa::{PoolState, Spa};
use ::zfs::zil::{self, Logged, Unreplayed};
use ::zfs::zpl::FileSystem;
use ::zfs::zvol::Volume;
use rt::Rt;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use zfs_format::objset::ObjsetKind;

/// How datasets are looked at.
#[derive(Clone)]
pub struct View {
    /// Files with keys, as options have them.
    pub keys: Vec<PathBuf>,
    /// Asks for keys that are in none.
    pub ask: Ask,
    /// Whether the intent log is laid over the dataset, in memory.
    pub replay_view: bool,
}

/// Pools that were opened, and keys.
pub struct Session {
    /// The pools.
    pub pools: Rc<Pools>,
    open: RefCell<BTreeMap<String, Rc<Spa>>>,
    /// The pools that were replayed under a cover.
    replayed: RefCell<Vec<Rc<Live>>>,
    view: View,
    keys: Keys,
    /// Datasets of whose log was told.
    told: RefCell<BTreeSet<String>>,
}

/// A dataset that is open.
pub struct OpenDataset {
    /// Its pool.
    pub spa: Rc<Spa>,
    /// Its directory.
    pub directory: Rc<Directory>,
    /// It.
    pub dataset: Dataset,
    /// What it holds.
    pub objset: Objset,
}

impl OpenDataset {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.dataset.name
    }

    fn failed(&self, error: ZfsError) -> Error {
        Error::InDataset { dataset: self.dataset.name.clone(), error: Box::new(error) }
    }
}

impl Session {
    /// A session on the pools of these devices. Who holds one of them has committed it.
    ///
    /// # Errors
    /// Where there are no devices, or one can't be opened.
    pub fn open(place: &PoolPlace<'_>, view: &View) -> Result<Session, Error> {
        // Who holds the pool can't answer itself, and commits it before it looks.
        if place.held.is_some() {
            let view = View { replay_view: false, ..view.clone() };
            return Ok(Session::over(Pools::find(place)?, &view));
        }
        let is_newest = place.options.txg.is_none() && !place.options.checkpoint;
        let pools = match view.replay_view && is_newest {
            true => Pools::find_covered(place)?,
            false => {
                let mut pools = Pools::find(place)?;
                if is_newest {
                    pools.have_committed();
                }
                pools
            }
        };
        Ok(Session::over(pools, view))
    }

    /// A session on pools that were found.
    pub fn over(pools: Pools, view: &View) -> Session {
        let (open, replayed, told) = Default::default();
        let pools = Rc::new(pools);
        Session { pools, open, replayed, view: view.clone(), keys: Keys::new(&view.keys), told }
    }

    /// Whether intent logs are laid over datasets.
    pub fn replays(&self) -> bool {
        self.view.replay_view
    }

    /// The executor.
    pub fn rt(&self) -> Rt {
        self.pools.rt()
    }

    /// Runs I/O on the devices to its end.
    #[inline]
    pub fn wait<T: 'static>(&self, io: impl Future<Output = T> + 'static) -> T {
        self.pools.wait(io)
    }

    /// The pool that is called so, opened once.
    fn spa(&self, name: &str) -> Result<Rc<Spa>, Error> {
        let pool = pool_of(name);
        if let Some(spa) = self.open.borrow().get(pool) {
            return Ok(Rc::clone(spa));
        }
        let mut spa = self.pools.open_of_dataset(name)?;
        if let Some(live) = self.replayed(pool)? {
            spa = Rc::clone(live.spa());
            self.replayed.borrow_mut().push(live);
        }
        self.open.borrow_mut().insert(pool.to_owned(), Rc::clone(&spa));
        Ok(spa)
    }

    /// A pool opened for writing under a cover, with its logs replayed, where that was asked for. One that can't be written, for what it has
    /// or lacks, is read, and its logs are laid over the datasets that are asked for.
    fn replayed(&self, name: &str) -> Result<Option<Rc<Live>>, Error> {
        let context = self.pools.disks().context();
        let found = self.pools.named(name)?;
        let left = found.filter(|found| found.state == PoolState::Active);
        let wanted = self.view.replay_view && context.host().is_covered();
        // One that somebody holds goes on under whoever looks.
        let free = left.filter(|found| wanted && self.pools.holder(found).is_none());
        let Some(found) = free else { return Ok(None) };
        match open_live(&self.pools, found, None, Opening::default()) {
            Ok(live) => Ok(Some(live)),
            Err(error) => {
                context.tell(Event::ReplayedApart { pool: found.name.clone(), error });
                Ok(None)
            }
        }
    }

    /// The dataset of a name.
    ///
    /// # Errors
    /// Where there is none, or it can't be opened, or its key is missing.
    pub fn dataset(&self, name: &str) -> Result<OpenDataset, Error> {
        let spa = self.spa(name)?;
        let name = within(&spa, name);
        let (directory, dataset) = self.pools.dataset(&spa, &name)?;
        let directory = Rc::new(directory);
        self.load_key(&spa, &directory)?;
        let (pool, of) = (Rc::clone(&spa), Rc::clone(&directory));
        let opened = self.wait(async move {
            let objset = pool.objset(&of, &dataset).await;
            objset.map(|objset| (objset, dataset))
        });
        let failed =
            |error| Error::CannotOpen { name: name.clone().into_owned(), error: Box::new(error) };
        let (objset, dataset) = opened.map_err(failed)?;
        Ok(OpenDataset { spa, directory, dataset, objset })
    }

    /// The volume of a name, and its dataset.
    ///
    /// # Errors
    /// As of [`Session::dataset`], and where it is a file system.
    pub fn volume(&self, name: &str) -> Result<(OpenDataset, Volume), Error> {
        let of = self.dataset(name)?;
        if of.objset.root().kind != ObjsetKind::Volume {
            return Err(Error::IsFileSystem { dataset: of.name().into() });
        }
        let (objset, called, records) = (of.objset.clone(), name.to_owned(), self.log(&of)?);
        let volume = self.wait(async move {
            match records {
                Some(records) => Volume::open_with_log(&objset, &called, &records).await,
                None => Volume::open(&objset, &called).await,
            }
        });
        let volume = volume.map_err(|error| of.failed(error))?;
        Ok((of, volume))
    }

    /// The files of a dataset.
    ///
    /// # Errors
    /// Where it is a volume, or can't be read.
    pub fn files(&self, of: &OpenDataset) -> Result<FileSystem, Error> {
        if of.objset.root().kind == ObjsetKind::Volume {
            return Err(Error::IsVolume { dataset: of.name().into() });
        }
        let (objset, records) = (of.objset.clone(), self.log(of)?);
        let opened = self.wait(async move {
            match records {
                Some(records) => FileSystem::open_with_log(&objset, &records).await,
                None => FileSystem::open(&objset).await,
            }
        });
        opened.map_err(|error| of.failed(error))
    }

    /// The records of a dataset's intent log that are to be laid over it. Where there are some and nobody asked, it is
    /// said; and where it can't be known whether there are, since a device is missing.
    fn log(&self, of: &OpenDataset) -> Result<Option<Vec<Logged>>, Error> {
        // Snapshots have none: what was logged is of the head.
        if of.dataset.snapshot_name().is_some() {
            return Ok(None);
        }
        let (objset, synced) = (of.objset.clone(), of.spa.uberblock().txg);
        let log = self.wait(async move { zil::unreplayed(&objset, synced).await });
        let Unreplayed { records, is_cut } = log.map_err(|error| of.failed(error))?;
        if is_cut && !of.spa.was_closed() {
            if self.view.replay_view {
                return Err(Error::LogCut { dataset: of.name().into() });
            }
            if self.told.borrow_mut().insert(of.name().to_owned()) {
                self.tell(Event::LogCut { dataset: of.name().into() });
            }
            return Ok(None);
        }
        if records.is_empty() || self.view.replay_view {
            return Ok((!records.is_empty()).then_some(records));
        }
        if self.told.borrow_mut().insert(of.name().to_owned()) {
            let (dataset, records) = (of.name().to_owned(), records.len());
            self.tell(Event::LogNotReplayed { dataset, records });
        }
        Ok(None)
    }

    fn tell(&self, event: Event) {
        self.pools.disks().context().tell(event);
    }

    /// Loads the key of a directory, if it is encrypted and the key is not there yet.
    fn load_key(&self, spa: &Rc<Spa>, directory: &Rc<Directory>) -> Result<(), Error> {
        let name = &directory.name;
        let (pool, within) = (Rc::clone(spa), Rc::clone(directory));
        let stored = self.wait(async move { pool.stored_key(&within).await });
        let stored = stored
            .map_err(|error| Error::CannotOpen { name: name.clone(), error: Box::new(error) })?;
        let Some(stored) = stored.filter(|stored| !spa.has_key(stored)) else { return Ok(()) };
        let load = |given: KeyBytes| {
            let (pool, within) = (Rc::clone(spa), Rc::clone(directory));
            self.wait(async move { pool.load_key(&within, &given).await })
        };
        if let Some(tried) = self.keys.try_on(name, load)? {
            return Ok(tried?);
        }
        let failed = |error| Error::Asking { dataset: name.clone(), error };
        match (self.view.ask)(name, stored.key_format).map_err(failed)? {
            Some(typed) => Ok(load(typed)?),
            None => Err(Error::NoKey { dataset: name.clone() }),
        }
    }

    /// Tries the keys that were given on all that lies below a dataset, too; says what stays locked.
    ///
    /// # Errors
    /// A key can't be read, or fits nothing.
    pub fn load_keys_below(&self, of: &OpenDataset) -> Result<(), Error> {
        let top = &of.directory.name;
        let (pool, called) = (Rc::clone(&of.spa), top.clone());
        let found = self.wait(async move {
            let mut roots: BTreeMap<u64, Directory> = BTreeMap::new();
            let Some(directory) = pool.dsl().find_directory(&called).await? else {
                return Ok(roots);
            };
            for below in pool.dsl().below(directory).await? {
                if let Some(stored) = pool.stored_key(&below).await?
                    && !pool.has_key(&stored)
                {
                    roots.entry(stored.root_directory).or_insert(below);
                }
            }
            Ok::<_, ZfsError>(roots)
        });
        let mut locked = Vec::new();
        for directory in found.map_err(|error| of.failed(error))?.into_values() {
            let directory = Rc::new(directory);
            let load = |given: KeyBytes| {
                let (pool, within) = (Rc::clone(&of.spa), Rc::clone(&directory));
                self.wait(async move { pool.load_key(&within, &given).await })
            };
            if !matches!(self.keys.try_on(&directory.name, load)?, Some(Ok(()))) {
                locked.push(directory.name.clone());
            }
        }
        self.keys.refuse_unused(top)?;
        if !locked.is_empty() {
            self.tell(Event::Locked { datasets: locked });
        }
        Ok(())
    }
}
