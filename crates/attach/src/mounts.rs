//! Datasets as directories of this host: mounted through FUSE, and served by this process.
//!
//! ```text
//!   RunningMount
//!     ├─ FuseMount   the directory, as the kernel has it
//!     └─ serving     a task: its requests, answered from the dataset and all that is below it
//! ```
//!
//! The kernel asks this process whenever somebody looks into the directory, so nothing on this thread may look into one itself:
//! it would wait for its own answer. Where several are mounted, [`check_apart`] refuses one within another before the first is.
//!
//! A dataset has its children below it, so one that is mounted for writing is not mounted a second time, by itself or by what is
//! above it: who holds which file is a mount's own knowledge.

use crate::context::Context;
use crate::error::{Error, MountFailure};
use crate::event::Event;
use crate::pools::{HeldBy, Session};
use ::zfs::ZfsError;
use ::zfs::mounted::{MountOptions, Mounted, Notice, Tell, Writing};
use export::fuse::Server;
use futures_util::future::{Either, select};
use host::{CalendarClock, FuseMount};
use rt::Task;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;

/// Reads that failed and are told one by one: a program that reads a damaged disk from end to end must not fill a log.
const DAMAGE_TOLD_MAX: u64 = 100;

/// See the [module](self).
pub struct RunningMount {
    mount: FuseMount,
    serving: Task<Result<(), Error>>,
    name: String,
    for_writing: bool,
    damage: Rc<Cell<u64>>,
}

/// A directory on which a dataset is mounted for writing, and which nobody serves yet.
pub struct MountPoint {
    dataset: String,
    mount: FuseMount,
}

impl MountPoint {
    /// Mounts there. Before the pool's labels say that it is in use: what can't be mounted leaves it as it is.
    ///
    /// # Errors
    /// Nothing can be mounted there, or there is no such dataset.
    pub fn new(pool: &HeldBy, dataset: &str, directory: &Path) -> Result<MountPoint, Error> {
        let (_, of) = pool.pools.dataset(pool.live.spa(), dataset)?;
        let host = pool.pools.disks().context().host();
        let mount = FuseMount::writable(&host, directory, &of.name).map_err(not_mounted)?;
        Ok(MountPoint { dataset: of.name, mount })
    }
}

/// Says what is found while a mount is served. Of the dataset itself it was said before that its log is cut.
fn teller(context: &Context, itself: &str, damage: &Rc<Cell<u64>>) -> Tell {
    let (events, itself, damage) = (context.events().clone(), itself.to_owned(), Rc::clone(damage));
    Rc::new(move |notice| match notice {
        Notice::Damage { dataset, object, at, len, error } => {
            damage.set(damage.get().saturating_add(1));
            if damage.get() <= DAMAGE_TOLD_MAX {
                let (dataset, object, error) = (dataset.clone(), *object, error.to_string());
                let bytes = *at..at.saturating_add(*len);
                events.tell(Event::Damage { dataset, object, bytes, error });
            }
            if damage.get() == DAMAGE_TOLD_MAX {
                events.tell(Event::DamageCounted);
            }
        }
        Notice::LogCut { dataset } if *dataset == itself => {}
        Notice::LogCut { dataset } => events.tell(Event::LogCut { dataset: dataset.clone() }),
    })
}

impl RunningMount {
    /// Mounts a dataset or snapshot for reading.
    ///
    /// # Errors
    /// It can't be opened, or not be mounted there.
    pub fn of_session(
        session: &Session,
        dataset: &str,
        directory: &Path,
        shows_control: bool,
    ) -> Result<RunningMount, Error> {
        let of = session.dataset(dataset)?;
        let name = of.name().to_owned();
        // Says what to do with a volume.
        session.files(&of)?;
        session.load_keys_below(&of)?;
        let context = session.pools.disks().context();
        let damage = Rc::default();
        let tell = teller(context, &name, &damage);
        let how = MountOptions { shows_control, with_log: session.replays() };
        let (spa, within) = (of.spa, of.directory);
        let opened =
            session.wait(async move { Mounted::open(&spa, within, of.dataset, how, tell).await });
        let mounted = opened.map_err(|error| not_opened(&name, error))?;
        let mount = FuseMount::new(&context.host(), directory, &name).map_err(not_mounted)?;
        let server = Server::new(Rc::new(mounted), mount.stream());
        Ok(RunningMount::start(context, (mount, false), server, name, damage))
    }

    /// Serves a dataset of a pool that is held for writing. Whoever holds it commits its groups meanwhile.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn of_pool(
        pool: &HeldBy,
        point: MountPoint,
        shows_control: bool,
    ) -> Result<RunningMount, Error> {
        let HeldBy { pools, live, .. } = pool;
        let context = pools.disks().context();
        let MountPoint { dataset: name, mount } = point;
        let (within, of) = pools.dataset(live.spa(), &name)?;
        let damage = Rc::default();
        let tell = teller(context, &name, &damage);
        let how = MountOptions { shows_control, with_log: false };
        let writing = Writing { live: Rc::clone(live), clock: Rc::new(CalendarClock) };
        let opened = pools.wait(async move {
            Mounted::open_for_writing(writing, Rc::new(within), of, how, tell).await
        });
        let mounted = opened.map_err(|error| not_opened(&name, error))?;
        let mounted = Rc::new(mounted);
        pool.add_mounted(&mounted);
        let server = Server::with_notices(mounted, mount.stream(), mount.notices());
        Ok(RunningMount::start(context, (mount, true), server, name, damage))
    }

    fn start(
        context: &Context,
        (mount, for_writing): (FuseMount, bool),
        server: Server,
        name: String,
        damage: Rc<Cell<u64>>,
    ) -> RunningMount {
        let serving = context.rt().spawn(async move { server.serve().await.map_err(Error::from) });
        RunningMount { mount, serving, name, for_writing, damage }
    }

    /// What is mounted, and where, to be told.
    pub fn mounted(&self) -> Event {
        let (dataset, directory) = (self.name.clone(), self.mount.directory().to_owned());
        Event::Mounted { dataset, directory, for_writing: self.for_writing }
    }

    /// Serves until somebody unmounts it, or this ends: then the kernel writes out what it holds, and it is unmounted.
    ///
    /// # Errors
    /// It can't be served any more, or not be unmounted.
    pub async fn until(self, end: impl Future<Output = ()>) -> Result<Ended, Error> {
        let RunningMount { mount, mut serving, name, damage, .. } = self;
        match select(&mut serving, pin!(end)).await {
            Either::Left((served, _)) => served?,
            Either::Right(_) => {
                mount.unmount_served().await?;
                serving.await?;
            }
        }
        Ok(Ended { dataset: name, damage: damage.get() })
    }
}

/// What a mount leaves.
pub struct Ended {
    dataset: String,
    damage: u64,
}

impl Ended {
    /// Says how many reads failed, where they were more than were told one by one.
    pub fn tell(self, context: &Context) {
        if self.damage > DAMAGE_TOLD_MAX {
            context.tell(Event::DamageSum { dataset: self.dataset, reads: self.damage });
        }
    }
}

fn not_opened(dataset: &str, error: ZfsError) -> Error {
    Error::Mounting { dataset: dataset.to_owned(), error: Box::new(error) }
}

fn not_mounted(error: host::MountError) -> Error {
    MountFailure::from(error).into()
}

/// Refuses directories of which one is in another, or that are given twice.
///
/// # Errors
/// Two are so, or one is none.
pub fn check_apart(directories: &[PathBuf]) -> Result<(), Error> {
    let whole = directories.iter().map(|directory| {
        let failed = |error| host::MountError::Directory { directory: directory.clone(), error };
        directory.canonicalize().map_err(|error| not_mounted(failed(error)))
    });
    let whole: Vec<PathBuf> = whole.collect::<Result<_, _>>()?;
    for (n, inner) in whole.iter().enumerate() {
        let outer = whole.iter().enumerate().find(|(m, outer)| *m != n && inner.starts_with(outer));
        if let Some((_, outer)) = outer {
            let (inner, outer) = (inner.clone(), outer.clone());
            return Err(Error::MountWithin { inner, outer });
        }
    }
    Ok(())
}
