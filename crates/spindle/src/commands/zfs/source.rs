//! What a command reads: `DATASET[@SNAPSHOT]:PATH`, and the datasets behind it.
//!
//! A colon may stand in names of datasets and in paths, so the first colon before which a dataset's name ends
//! divides the two. A path is bytes, from the root of the dataset, whether it begins with `/` or not.
//!
//! **Keys.** A dataset that is encrypted needs the key of its encryption root ([`keys`]). It is loaded once
//! a pool and root.

pub use super::keys::KeyArgs;
use super::keys::{self, KeyBytes, Keys};
use crate::commands::{Failure, say};
use crate::foreign;
use crate::pools::{self, PoolPlace, Pools};
use ::zfs::ZfsError;
use ::zfs::dmu::Objset;
use ::zfs::dsl::{Dataset, Directory};
use ::zfs::spa::Spa;
use ::zfs::zil::{self, Logged, Unreplayed};
use ::zfs::zpl::{FileSystem, Node};
use ::zfs::zvol::Volume;
use clap::Args;
use rt::Rt;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use zfs_format::objset::ObjsetKind;

/// How datasets are looked at.
#[derive(Args, Clone, Default)]
pub struct ViewArgs {
    #[command(flatten)]
    keys: KeyArgs,
    /// Lay the intent log over the dataset, in memory: what it would be after a replay, of a pool that was not closed
    #[arg(long)]
    replay_view: bool,
}

impl From<KeyArgs> for ViewArgs {
    /// The datasets as the pool has them.
    fn from(keys: KeyArgs) -> ViewArgs {
        ViewArgs { keys, replay_view: false }
    }
}

/// Pools that were opened, and keys.
pub struct Session {
    /// The pools.
    pub pools: Pools,
    open: RefCell<BTreeMap<String, Rc<Spa>>>,
    view: ViewArgs,
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

/// A file of a dataset.
pub struct Source {
    /// The dataset.
    pub of: OpenDataset,
    /// Its files.
    pub files: FileSystem,
    /// The path as it was given, without slashes at its ends.
    pub path: Vec<u8>,
    /// Whether the path was given with a slash at its end, or is the root.
    pub content: bool,
}

impl OpenDataset {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.dataset.name
    }

    /// An error about it.
    pub fn failed(&self, error: impl std::fmt::Display) -> Failure {
        Failure::failed(format!("{}: {error}", self.dataset.name))
    }
}

impl Session {
    /// A session on the pools of these devices.
    ///
    /// # Errors
    /// Where there are no devices, or one can't be opened.
    pub fn open(place: &PoolPlace<'_>, view: &ViewArgs) -> Result<Session, Failure> {
        Ok(Session::over(Pools::find(place)?, view))
    }

    /// A session on pools that were found.
    pub fn over(pools: Pools, view: &ViewArgs) -> Session {
        let (open, told) = Default::default();
        Session { pools, open, view: view.clone(), keys: Keys::new(&view.keys), told }
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
    pub fn wait<T: 'static>(&self, io: impl Future<Output = T> + 'static) -> T {
        self.pools.wait(io)
    }

    /// The pool that is called so, opened once.
    fn spa(&self, name: &str) -> Result<Rc<Spa>, Failure> {
        let pool = pools::pool_of(name);
        if let Some(spa) = self.open.borrow().get(pool) {
            return Ok(Rc::clone(spa));
        }
        let spa = self.pools.open_of_dataset(name)?;
        self.open.borrow_mut().insert(pool.to_owned(), Rc::clone(&spa));
        Ok(spa)
    }

    /// The dataset of a name.
    ///
    /// # Errors
    /// Where there is none, or it can't be opened, or its key is missing.
    pub fn dataset(&self, name: &str) -> Result<OpenDataset, Failure> {
        let spa = self.spa(name)?;
        // A pool that was called by its GUID bears another name.
        let name = format!("{}{}", spa.name(), &name[pools::pool_of(name).len()..]);
        let (directory, dataset) = self.pools.dataset(&spa, &name)?;
        let directory = Rc::new(directory);
        self.load_key(&spa, &directory)?;
        let (pool, within) = (Rc::clone(&spa), Rc::clone(&directory));
        let opened = self.wait(async move {
            let objset = pool.objset(&within, &dataset).await;
            objset.map(|objset| (objset, dataset))
        });
        let failed = |error| Failure::failed(format!("cannot open '{name}': {error}"));
        let (objset, dataset) = opened.map_err(failed)?;
        Ok(OpenDataset { spa, directory, dataset, objset })
    }

    /// The volume of a name, and its dataset.
    ///
    /// # Errors
    /// As of [`Session::dataset`], and where it is a file system.
    pub fn volume(&self, name: &str) -> Result<(OpenDataset, Volume), Failure> {
        let of = self.dataset(name)?;
        if of.objset.root().kind != ObjsetKind::Volume {
            let text =
                "it is a file system: spindle zfs cp -r copies its files, spindle mount mounts it";
            return Err(Failure::usage(format!("{}: {text}", of.name())));
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
    pub fn files(&self, of: &OpenDataset) -> Result<FileSystem, Failure> {
        if of.objset.root().kind == ObjsetKind::Volume {
            return Err(of.failed(
                "it is a volume: spindle zfs dump writes it out, spindle serve serves it",
            ));
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
    fn log(&self, of: &OpenDataset) -> Result<Option<Vec<Logged>>, Failure> {
        // Snapshots have none: what was logged is of the head.
        if of.dataset.snapshot_name().is_some() {
            return Ok(None);
        }
        let (objset, synced) = (of.objset.clone(), of.spa.uberblock().txg);
        let log = self.wait(async move { zil::unreplayed(&objset, synced).await });
        let Unreplayed { records, is_cut } = log.map_err(|error| of.failed(error))?;
        if is_cut && !of.spa.was_closed() {
            if self.view.replay_view {
                let text = "attach the device, or leave --replay-view out";
                return Err(Failure::failed(format!("{}; {text}", log_is_cut(of.name()))));
            }
            if self.told.borrow_mut().insert(of.name().to_owned()) {
                say(&format!("note: {}", log_is_cut(of.name())));
            }
            return Ok(None);
        }
        if records.is_empty() || self.view.replay_view {
            return Ok((!records.is_empty()).then_some(records));
        }
        if self.told.borrow_mut().insert(of.name().to_owned()) {
            let many = records.len();
            say(&format!(
                "note: {}: {many} records of its intent log were not replayed; --replay-view shows it with them",
                of.name()
            ));
        }
        Ok(None)
    }

    /// What `DATASET[@SNAPSHOT]:PATH` names, as far as the dataset.
    ///
    /// # Errors
    /// As of [`Session::dataset`], and where it is a volume.
    pub fn source(&self, argument: &OsStr) -> Result<Source, Failure> {
        let bytes = argument.as_bytes();
        let colons = bytes.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
        let mut first = None;
        for at in colons {
            let Ok(name) = std::str::from_utf8(&bytes[..at]) else { break };
            let of = match self.dataset(name) {
                Ok(of) => of,
                Err(failure) => {
                    first.get_or_insert(failure);
                    continue;
                }
            };
            let files = self.files(&of)?;
            let path = &bytes[at + 1..];
            let content =
                matches!(path, b"" | b".") || path.ends_with(b"/") || path.ends_with(b"/.");
            let parts = path.split(|byte| *byte == b'/');
            let parts: Vec<&[u8]> =
                parts.filter(|part| !part.is_empty() && *part != b".").collect();
            return Ok(Source { of, files, path: parts.join(&b'/'), content });
        }
        Err(first.unwrap_or_else(|| {
            let shown = String::from_utf8_lossy(bytes);
            Failure::usage(format!(
                "'{shown}': name a file as DATASET:PATH or DATASET@SNAPSHOT:PATH"
            ))
        }))
    }

    /// The file at a source's path; the last link is followed only if `follow`.
    ///
    /// # Errors
    /// Where there is none, or it can't be had.
    pub fn node(&self, source: &Source, follow: bool) -> Result<Node, Failure> {
        let (files, path) = (source.files.clone(), source.path.clone());
        let found = self.wait(async move { files.find(&path, follow).await });
        let found = found.map_err(|error| source.failed(&source.path, error))?;
        found.ok_or_else(|| source.failed(&source.path, "there is no such file"))
    }

    /// Loads the key of a directory, if it is encrypted and the key is not there yet.
    fn load_key(&self, spa: &Rc<Spa>, directory: &Rc<Directory>) -> Result<(), Failure> {
        let name = &directory.name;
        let (pool, within) = (Rc::clone(spa), Rc::clone(directory));
        let stored = self.wait(async move { pool.stored_key(&within).await });
        let stored =
            stored.map_err(|error| Failure::failed(format!("cannot open '{name}': {error}")))?;
        let Some(stored) = stored.filter(|stored| !spa.has_key(stored)) else { return Ok(()) };
        let load = |given: KeyBytes| {
            let (pool, within) = (Rc::clone(spa), Rc::clone(directory));
            self.wait(async move { pool.load_key(&within, &given).await })
        };
        if let Some(tried) = self.keys.try_on(name, load)? {
            return tried.map_err(Failure::failed);
        }
        match keys::ask(name, stored.key_format)? {
            Some(typed) => load(typed).map_err(Failure::failed),
            None => Err(Failure::failed(format!(
                "dataset {name} is encrypted and its key is not loaded; give --key-file"
            ))),
        }
    }

    /// Tries the keys that were given on all that lies below a dataset, too; says what stays locked.
    ///
    /// # Errors
    /// A key can't be read, or fits nothing.
    pub fn load_keys_below(&self, of: &OpenDataset) -> Result<(), Failure> {
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
        if let Some(first) = locked.first() {
            say(&format!(
                "note: locked, since their keys are not given: {}; --key-file {first}=FILE opens {first}",
                locked.join(", ")
            ));
        }
        Ok(())
    }
}

impl Source {
    /// An error about a file of it.
    pub fn failed(&self, path: &[u8], error: impl std::fmt::Display) -> Failure {
        Failure::failed(self.about(path, error))
    }

    /// What an error about a file of it says.
    pub fn about(&self, path: &[u8], error: impl std::fmt::Display) -> String {
        let place = [self.of.name().as_bytes(), b":/", path].concat();
        format!("{}: {error}", foreign::bytes(&place))
    }
}

/// What is said of a dataset whose intent log can't be read for want of a device.
pub fn log_is_cut(dataset: &str) -> String {
    format!(
        "the intent log of {dataset} lies on a device that is missing: its last synchronous writes are not shown"
    )
}

/// Says what went wrong with one of several things, and that something did.
pub fn complain(failed: &std::cell::Cell<bool>, failure: &Failure) {
    failed.set(true);
    say(&format!("spindle: {}", failure.message));
}
