//! What commands that change datasets have in common: a pool with all that is in it, and steps that are done one after another.

use crate::output::{Failure, say};
use ::zfs::ZfsError;
use ::zfs::dsl::dependents::{Datasets, Dependent, Known, KnownSnapshot};
use ::zfs::show;
use ::zfs::spa::datasets::{TaskError, Tasks, check_part};
use attach::pools::{LivePool, PoolPlace};
use std::collections::BTreeSet;

/// Steps of one transaction group: what is done in one is held in memory until it is in the pool.
const STEPS_MAX: usize = 64;

/// A pool that is being changed.
pub struct Changed {
    /// It.
    pub pool: LivePool,
    /// What was in it at first.
    pub datasets: Datasets,
}

/// Something that is done to a dataset.
#[derive(Clone)]
pub enum Step {
    /// A snapshot is destroyed; or as soon as nobody needs it.
    Snapshot { number: u64, defer: bool },
    /// A file system or volume is destroyed.
    Dataset { number: u64 },
    /// A bookmark of a dataset is destroyed.
    Bookmark { of: u64, name: String },
    /// A dataset is taken back.
    Rollback { number: u64, snapshot: u64 },
}

impl Step {
    /// What destroys something that depends on another.
    pub fn destroys(what: &Dependent<'_>) -> Step {
        match what {
            Dependent::Dataset(known) => Step::Dataset { number: known.dataset },
            Dependent::Snapshot(known) => Step::Snapshot { number: known.number, defer: false },
        }
    }

    /// The file system or volume that it destroys.
    pub fn destroyed(&self) -> Option<u64> {
        match self {
            Step::Dataset { number } => Some(*number),
            _ => None,
        }
    }

    async fn carry_out(&self, tasks: &Tasks<'_>) -> Result<Result<(), TaskError>, ZfsError> {
        match self {
            Step::Snapshot { number, defer } => tasks.destroy_snapshot(*number, *defer).await,
            Step::Dataset { number } => tasks.destroy(*number).await,
            Step::Bookmark { of, name } => tasks.destroy_bookmark(*of, name).await,
            Step::Rollback { number, snapshot } => tasks.rollback(*number, *snapshot).await,
        }
    }
}

impl Changed {
    /// Opens the pool that a dataset's name begins with.
    ///
    /// # Errors
    /// As of [`LivePool::of_dataset`].
    pub fn open(place: &PoolPlace<'_>, name: &str, force: bool) -> Result<Changed, Failure> {
        let pool = LivePool::of_dataset(place, name, force)?;
        let datasets = pool.datasets()?;
        Ok(Changed { pool, datasets })
    }

    /// A file system or volume.
    ///
    /// # Errors
    /// There is none.
    pub fn dataset(&self, name: &str) -> Result<&Known, Failure> {
        self.datasets.find(name).ok_or_else(|| absent(name))
    }

    /// A snapshot, and whose it is.
    ///
    /// # Errors
    /// There is none.
    pub fn snapshot(&self, name: &str) -> Result<(&Known, &KnownSnapshot), Failure> {
        self.datasets.find_snapshot(name).ok_or_else(|| absent(name))
    }

    /// Those of some datasets that are volumes which this process serves, while it carries this out for another.
    ///
    /// # Errors
    /// The pool is not written any more.
    pub fn serves(&self, datasets: &[u64]) -> Result<BTreeSet<u64>, Failure> {
        if !self.pool.stays_open() {
            return Ok(BTreeSet::new());
        }
        let datasets = datasets.to_vec();
        let served = self.pool.task(async move |tasks| {
            let mut served = BTreeSet::new();
            for dataset in datasets {
                if tasks.is_served(dataset).await? {
                    served.insert(dataset);
                }
            }
            Ok(Ok(served))
        })?;
        served.map_err(Failure::failed)
    }

    /// Why nothing is done to a volume that this process serves, which it carries out for another.
    pub fn is_served() -> String {
        format!("dataset is busy: process {} serves it", std::process::id())
    }

    /// Does steps in order, many in a group; what can't be done is left out, and given back by its number.
    ///
    /// # Errors
    /// The pool is not written any more.
    pub fn carry_out(&self, steps: &[Step]) -> Result<Vec<(usize, TaskError)>, Failure> {
        let mut failed = Vec::new();
        for (chunk, steps) in steps.chunks(STEPS_MAX).enumerate() {
            let steps = steps.to_vec();
            let done = self.pool.task(async move |tasks| {
                let mut failed = Vec::new();
                for (n, step) in steps.iter().enumerate() {
                    if let Err(error) = step.carry_out(tasks).await? {
                        failed.push((n, error));
                    }
                }
                Ok(Ok(failed))
            })?;
            let done = done.map_err(Failure::failed)?;
            failed.extend(done.into_iter().map(|(n, error)| (chunk * STEPS_MAX + n, error)));
        }
        Ok(failed)
    }

    /// Frees all that was destroyed, and closes the pool. What can't be freed is told: that it was destroyed, it was.
    ///
    /// # Errors
    /// The pool is not written any more.
    pub fn finish(self) -> Result<(), Failure> {
        let stays = self.pool.free()?;
        if stays.trees > 0 {
            say(&format!(
                "note: {} of what was destroyed can't be freed: blocks that say where it lies can't be read; \
                 'zpool status' and 'zpool get freeing' show it",
                show::bytes(stays.bytes)
            ));
        }
        Ok(self.pool.finish()?)
    }

    /// The directory that something with this name would lie in, made with all above where `parents` says so; and the last part.
    ///
    /// # Errors
    /// There is none, or no name can be so.
    pub fn above<'a>(
        &self,
        name: &'a str,
        parents: bool,
        refuse: &dyn Fn(&str) -> Failure,
    ) -> Result<(u64, &'a str), Failure> {
        let parts: Vec<&str> = name.split('/').collect();
        let [pool, .., last] = parts.as_slice() else {
            return Err(refuse("missing dataset name"));
        };
        for part in &parts[1..] {
            check_part(part).map_err(|error| refuse(&TaskError::Name(error).to_string()))?;
        }
        let mut above = self.dataset(pool)?.directory;
        for depth in 1..parts.len() - 1 {
            let path = parts[..=depth].join("/");
            above = match self.datasets.find(&path) {
                Some(known) => known.directory,
                None if !parents => return Err(refuse("parent does not exist")),
                None => self.make(above, parts[depth], &path, refuse)?,
            };
        }
        Ok((above, last))
    }

    fn make(
        &self,
        above: u64,
        name: &str,
        path: &str,
        refuse: &dyn Fn(&str) -> Failure,
    ) -> Result<u64, Failure> {
        let (name, properties) = (name.to_owned(), Vec::new());
        let new = ::zfs::spa::datasets::NewDataset { name, owner: (0, 0), properties };
        let made = self.pool.task(async move |tasks| tasks.create(above, &new).await)?;
        made.map_err(|error| refuse(&error.to_string()))?;
        let node = self.pool.node(path)?.ok_or_else(|| absent(path))?;
        Ok(node.directory.number)
    }
}

/// What is said of a name that has no dataset.
pub fn absent(name: &str) -> Failure {
    Failure::failed(format!("cannot open '{name}': dataset does not exist"))
}
