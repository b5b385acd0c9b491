//! Datasets that are mounted beside what is served.

use super::exports::Held;
use crate::error::Error;
use crate::mounts::{MountPoint, RunningMount, check_apart};
use crate::pools::{HeldBy, Session, check_name, pool_of};
use ::zfs::dsl::name::below;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A dataset that is to be mounted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountSettings {
    /// The file system or snapshot; what is below it comes with it.
    pub dataset: String,
    /// Where.
    pub directory: PathBuf,
    /// It is only read.
    #[serde(default)]
    pub readonly: bool,
    /// Its pool is also written where it was not exported.
    #[serde(default)]
    pub force: bool,
    /// Whether `.zfs` is listed; where nothing is said, as its property has it.
    pub snapdir: Option<SnapshotDirectory>,
}

/// Whether `.zfs` is listed, as the property `snapdir` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotDirectory {
    /// It is found by its name.
    Hidden,
    /// It is.
    Visible,
}

impl MountSettings {
    fn lists(&self) -> Option<bool> {
        self.snapdir.map(|snapdir| snapdir == SnapshotDirectory::Visible)
    }

    /// Whether these can be mounted beside one another.
    ///
    /// # Errors
    /// One can't be what it is to be, or is in another; a directory isn't there.
    pub fn check(all: &[MountSettings]) -> Result<(), Error> {
        for settings in all {
            check_name(&settings.dataset)?;
            let wrong = |why| Err(Error::NotToMount { dataset: settings.dataset.clone(), why });
            match settings.readonly {
                true if settings.force => {
                    return wrong("force is for what is written, and it is readonly");
                }
                false if settings.dataset.contains('@') => {
                    return wrong("a snapshot is only read: add readonly = true");
                }
                _ => {}
            }
        }
        // What is read only may be mounted as often as one likes.
        let written = || all.iter().filter(|settings| !settings.readonly);
        for (n, inner) in written().enumerate() {
            let is_outer = |outer: &str| below(outer, &inner.dataset).is_some();
            let outer =
                written().enumerate().find(|(m, outer)| *m != n && is_outer(&outer.dataset));
            if let Some((_, outer)) = outer {
                let (inner, outer) = (inner.dataset.clone(), outer.dataset.clone());
                return Err(Error::MountTwice { inner, outer });
            }
        }
        let directories: Vec<PathBuf> =
            all.iter().map(|settings| settings.directory.clone()).collect();
        check_apart(&directories)
    }
}

/// The pools that are held for writing: those of mounts, and those that are named.
pub(super) fn held(mounts: &[MountSettings], pools: Vec<(String, bool)>) -> Vec<Held> {
    let named = pools.into_iter();
    let of_mounts = mounts.iter().filter(|settings| !settings.readonly);
    let of_mounts =
        of_mounts.map(|settings| (pool_of(&settings.dataset).to_owned(), settings.force));
    let mut held: BTreeMap<String, bool> = BTreeMap::new();
    for (pool, force) in named.chain(of_mounts) {
        *held.entry(pool).or_default() |= force;
    }
    held.into_iter().map(|(pool, force)| Held { pool, force }).collect()
}

/// Directories that are taken before anything is written.
pub(super) struct Points<'a> {
    session: &'a Session,
    reading: Vec<MountSettings>,
    writing: Vec<(HeldBy, MountPoint, Option<bool>)>,
}

impl<'a> Points<'a> {
    /// Takes them; `live` are the pools that are open for writing, by name.
    ///
    /// # Errors
    /// One can't be mounted.
    pub(super) fn take(
        session: &'a Session,
        live: &BTreeMap<String, HeldBy>,
        mounts: Vec<MountSettings>,
    ) -> Result<Points<'a>, Error> {
        let mut points = Points { session, reading: Vec::new(), writing: Vec::new() };
        for settings in mounts {
            let called = pool_of(&settings.dataset);
            let found = session.pools.named(called)?;
            let below = found.and_then(|found| live.get(&found.name));
            match below {
                None => points.reading.push(settings),
                Some(_) if settings.readonly => {
                    let why = "its pool is written here, and who only reads would not see what changes: leave readonly out";
                    return Err(Error::NotToMount { dataset: settings.dataset, why });
                }
                Some(pool) => {
                    // A pool that was called by its GUID bears another name.
                    let name = pool.live.spa().name();
                    let dataset = format!("{name}{}", &settings.dataset[called.len()..]);
                    let point = MountPoint::new(pool, &dataset, &settings.directory)?;
                    points.writing.push((pool.clone(), point, settings.lists()));
                }
            }
        }
        Ok(points)
    }

    /// Whether none is of a pool that is only read.
    pub(super) fn are_written(&self) -> bool {
        self.reading.is_empty()
    }

    /// Serves them, and says where they are. Those of pools that are held end with these.
    ///
    /// # Errors
    /// One can't be served; those before it are.
    pub(super) fn serve(self, mounted: &mut Vec<RunningMount>) -> Result<(), Error> {
        let Points { session, reading, writing } = self;
        let context = session.pools.disks().context();
        for (pool, point, lists) in writing {
            let mount = RunningMount::of_pool(&pool, point, lists)?;
            context.tell(mount.mounted());
            mount.serve_apart(context);
        }
        for settings in reading {
            let MountSettings { dataset, directory, .. } = &settings;
            let mount = RunningMount::of_session(session, dataset, directory, settings.lists())?;
            context.tell(mount.mounted());
            mounted.push(mount);
        }
        Ok(())
    }
}
