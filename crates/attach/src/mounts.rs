//! Datasets as directories of this host: mounted through FUSE, and served by this process.
//!
//! ```text
//!   RunningMount
//!     ├─ FuseMount   the directory, as the kernel has it
//!     └─ serving     a task: its requests, answered from the dataset and all that is below it
//! ```
//!
//! The kernel asks this process whenever somebody looks into the directory, so nothing on this thread may look into one itself:
//! it would wait for its own answer. A directory that is mounted while others are served is looked up by another thread. None is
//! mounted within another.
//!
//! **Of a pool that is held** every mount stands in the pool's [table](crate::pools::mount_table), whoever began it: `spindle mount`
//! that has the pool, a server's configuration, or a command that found the pool held. Who is [asked](Wish) to end one does.
//!
//! A dataset has its children below it, so one that is mounted for writing is not mounted a second time, by itself or by what is
//! above it: who holds which file is a mount's own knowledge.

use crate::context::Context;
use crate::error::{Error, MountFailure};
use crate::event::{Event, Events};
use crate::mount_directories::Taken;
use crate::pools::mount_table::{Again, Kept, Unmount, Wish};
use crate::pools::{HeldBy, Session};
use crate::told::Told;
use ::zfs::ZfsError;
use ::zfs::mounted::{MountOptions, Mounted, Notice, Tell, Writing};
use ::zfs::spa::Spa;
use ::zfs::spa::live::set_number;
use export::fuse::Server;
use futures_util::future::{Either, pending, select};
use host::{CalendarClock, FuseMount, MountDirectory, Use};
use rt::sync::mpsc;
use rt::{Rt, Task};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

/// How long the kernel is waited for that writes out what it holds when a mount ends: for ever where its pool is suspended.
const WRITTEN_OUT_MAX: Duration = Duration::from_secs(20);
/// How long who still has something of a mount that was unmounted is waited for.
const GONE_AFTER: Duration = Duration::from_secs(1);

/// See the [module](self).
pub struct RunningMount {
    mount: FuseMount,
    serving: Task<Result<(), Error>>,
    name: String,
    for_writing: bool,
    damage: Rc<Told>,
    rt: Rt,
    /// Of a pool that is held.
    kept: Option<InTable>,
    _taken: Taken,
}

/// How a mount stands in the table of its pool.
struct InTable {
    kept: Kept,
    wishes: mpsc::Receiver<Wish>,
    /// To be mounted again.
    pool: HeldBy,
    wanted: ToMount,
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
        let (spa, name) = (Rc::clone(pool.live.spa()), of.name.clone());
        let how = pool.pools.wait(async move { how_used(&spa, &name, true).await })?;
        let mount = FuseMount::new(&host, directory, &of.name, how).map_err(not_mounted)?;
        Ok(MountPoint { dataset: of.name, mount })
    }
}

/// What may be done in a mount of a file system or snapshot, by the properties of the one at its top.
async fn how_used(spa: &Spa, name: &str, is_writable: bool) -> Result<Use, Error> {
    let failed = |error| Error::CannotOpen { name: name.to_owned(), error: Box::new(error) };
    let of = name.split('@').next().unwrap_or(name);
    let node = spa.catalog(0).await.map_err(failed)?.find(of).await.map_err(failed)?;
    let is_executable = node.is_none_or(|node| set_number(&node, "exec") != Some(0));
    Ok(Use { is_writable, is_executable })
}

/// What is to be mounted of a pool that is held, and where.
#[derive(Clone, Debug)]
pub struct ToMount {
    /// The file system or snapshot.
    pub dataset: String,
    /// Where: a whole path.
    pub directory: PathBuf,
    /// It is made where it isn't there.
    pub makes_directory: bool,
    /// Also where there is something in it.
    pub covers: bool,
    /// It can be written.
    pub for_writing: bool,
    /// Whether `.zfs` is listed; where nothing is said, as its property has it.
    pub shows_control: Option<bool>,
    /// Children that are mounted elsewhere by their property `mountpoint` are left out.
    pub by_mountpoint: bool,
}

/// Says what is found while a mount is served. Of the dataset itself it was said before that its log is cut.
fn teller(context: &Context, itself: &str, damage: &Rc<Told>) -> Tell {
    let (events, itself, damage) = (context.events().clone(), itself.to_owned(), Rc::clone(damage));
    Rc::new(move |notice| match notice {
        Notice::Damage { dataset, object, at, len, error } => {
            let one = || {
                let (dataset, object, error) = (dataset.clone(), *object, error.to_string());
                let bytes = *at..at.saturating_add(*len);
                Event::Damage { dataset, object, bytes, error }
            };
            damage.tell(&events, one, Event::DamageCounted);
        }
        Notice::LogCut { dataset } if *dataset == itself => {}
        Notice::LogCut { dataset } => events.tell(Event::LogCut { dataset: dataset.clone() }),
    })
}

/// A dataset of a pool that is held, opened to be mounted.
struct Opened {
    name: String,
    mounted: Rc<Mounted>,
    damage: Rc<Told>,
}

impl Opened {
    async fn new(pool: &HeldBy, name: &str, how: MountOptions) -> Result<Opened, Error> {
        let HeldBy { pools, live, .. } = pool;
        let found = live.spa().dsl().find(name).await;
        let failed = |error| Error::CannotOpen { name: name.to_owned(), error: Box::new(error) };
        let absent = || Error::NoDataset { name: name.to_owned() };
        let (within, of) = found.map_err(failed)?.ok_or_else(absent)?;
        let name = of.name.clone();
        let damage = Rc::default();
        let tell = teller(pools.disks().context(), &name, &damage);
        let writing = Writing { live: Rc::clone(live), clock: Rc::new(CalendarClock) };
        let opened = Mounted::open_for_writing(writing, Rc::new(within), of, how, tell).await;
        let mounted = Rc::new(opened.map_err(|error| not_opened(&name, error))?);
        Ok(Opened { name, mounted, damage })
    }

    /// Serves it where it is mounted.
    fn serve(self, pool: &HeldBy, mount: FuseMount, wanted: ToMount) -> RunningMount {
        let Opened { name, mounted, damage } = self;
        pool.add_mounted(&mounted);
        let for_writing = wanted.for_writing;
        let (kept, wishes) = pool.mounts.put(&mounted, mount.directory(), for_writing);
        let kept = InTable { kept, wishes, pool: pool.clone(), wanted };
        let server = Server::with_notices(mounted, mount.stream(), mount.notices());
        let context = pool.pools.disks().context();
        let mut running = RunningMount::start(context, (mount, for_writing), server, name, damage);
        running.kept = Some(kept);
        running
    }
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
        shows_control: Option<bool>,
    ) -> Result<RunningMount, Error> {
        let of = session.dataset(dataset)?;
        let name = of.name().to_owned();
        // Says what to do with a volume.
        session.files(&of)?;
        session.load_keys_below(&of)?;
        let context = session.pools.disks().context();
        let damage = Rc::default();
        let tell = teller(context, &name, &damage);
        let with_log = session.replays();
        let how = MountOptions { shows_control, with_log, ..MountOptions::default() };
        let (its, dataset) = (Rc::clone(&of.spa), name.clone());
        let used = session.wait(async move { how_used(&its, &dataset, false).await })?;
        let (spa, within) = (of.spa, of.directory);
        let opened =
            session.wait(async move { Mounted::open(&spa, within, of.dataset, how, tell).await });
        let mounted = opened.map_err(|error| not_opened(&name, error))?;
        let mount = FuseMount::new(&context.host(), directory, &name, used).map_err(not_mounted)?;
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
        shows_control: Option<bool>,
    ) -> Result<RunningMount, Error> {
        let MountPoint { dataset, mount } = point;
        let how = MountOptions { shows_control, ..MountOptions::default() };
        let wanted = ToMount {
            dataset: dataset.clone(),
            directory: mount.directory().to_owned(),
            makes_directory: false,
            covers: true,
            for_writing: true,
            shows_control,
            by_mountpoint: how.by_mountpoint,
        };
        let its = pool.clone();
        let opened = pool.pools.wait(async move { Opened::new(&its, &dataset, how).await });
        Ok(opened?.serve(pool, mount, wanted))
    }

    /// Mounts a dataset of a pool that is held, while what else is held and mounted is served.
    ///
    /// # Errors
    /// It is mounted already, or can't be opened, or not be mounted there.
    pub async fn begin(pool: &HeldBy, wanted: ToMount) -> Result<RunningMount, Error> {
        let ToMount { dataset, directory, for_writing, shows_control, by_mountpoint, .. } =
            wanted.clone();
        let failed = |error| Error::CannotOpen { name: dataset.clone(), error: Box::new(error) };
        let shown = pool.mounts.shown().await.map_err(failed)?;
        if shown.iter().any(|shown| shown.dataset == dataset) {
            return Err(Error::MountedAlready { dataset });
        }
        let how = MountOptions { shows_control, by_mountpoint, ..MountOptions::default() };
        let opened = Opened::new(pool, &dataset, how).await?;
        for (outer, _) in opened.mounted.shown().await.map_err(failed)? {
            if let Some(inner) = shown.iter().find(|shown| shown.dataset == outer) {
                let inner = inner.dataset.clone();
                return Err(Error::MountedApart { dataset, below: inner });
            }
        }
        let context = pool.pools.disks().context();
        let host = context.host();
        let found = MountDirectory::find(&host, &directory, wanted.makes_directory).await;
        let found = found.map_err(not_mounted)?;
        if !wanted.covers && !found.is_empty {
            return Err(Error::MountNotEmpty { directory: found.path });
        }
        context.directories().check(&found.path)?;
        let how = how_used(pool.live.spa(), &opened.name, for_writing).await?;
        let mount = FuseMount::apart(&host, &found.path, &opened.name, how).await;
        Ok(opened.serve(pool, mount.map_err(not_mounted)?, wanted))
    }

    fn start(
        context: &Context,
        (mount, for_writing): (FuseMount, bool),
        server: Server,
        name: String,
        damage: Rc<Told>,
    ) -> RunningMount {
        mount.follow(&context.rt());
        let serving = context.rt().spawn(async move { server.serve().await.map_err(Error::from) });
        let (rt, kept) = (context.rt(), None);
        let _taken = context.directories().take(mount.directory());
        RunningMount { mount, serving, name, for_writing, damage, rt, kept, _taken }
    }

    /// What is mounted, and where, to be told.
    pub fn mounted(&self) -> Event {
        let (dataset, directory) = (self.name.clone(), self.mount.directory().to_owned());
        Event::Mounted { dataset, directory, for_writing: self.for_writing }
    }

    /// Serves it from here on, until it is unmounted: by somebody, or by who ends the pool's mounts.
    pub fn serve_apart(self, context: &Context) {
        let events = context.events().clone();
        let serving = async move {
            match self.until(pending()).await {
                Ok(ended) => ended.say(&events),
                Err(error) => events.tell(Event::Complaint(error.to_string())),
            }
        };
        context.rt().spawn(serving).detach();
    }

    /// Serves until somebody unmounts it, or this ends: then the kernel writes out what it holds, and it is unmounted. In between it may be
    /// unmounted and mounted again, as somebody wishes.
    ///
    /// # Errors
    /// It can't be served any more, or not be unmounted.
    pub async fn until(mut self, end: impl Future<Output = ()>) -> Result<Ended, Error> {
        let mut end = pin!(end);
        loop {
            match self.next(end.as_mut()).await {
                Next::Served(served) => return served.map(|()| self.ended()),
                Next::End => {
                    self.unmount(Unmount::Drain).await?;
                    return Ok(self.ended());
                }
                Next::Wish(mut wish) => match self.unmount(wish.how).await {
                    Err(error) => wish.done(Err(error)),
                    Ok(()) => match (wish.again.take(), self.kept.take()) {
                        (Some(again), Some(kept)) => match self.again(kept, again, wish).await? {
                            Ok(begun) => self = begun,
                            Err(ended) => return Ok(ended),
                        },
                        (_, kept) => {
                            // Whoever hears that it has ended finds it gone.
                            drop(kept);
                            let ended = self.ended();
                            wish.done(Ok(()));
                            return Ok(ended);
                        }
                    },
                },
            }
        }
    }

    async fn next(&mut self, end: Pin<&mut impl Future<Output = ()>>) -> Next {
        let wishes = &mut self.kept;
        let wish = async {
            match wishes {
                Some(kept) => kept.wishes.recv().await,
                None => pending().await,
            }
        };
        match select(&mut self.serving, select(end, pin!(wish))).await {
            Either::Left((served, _)) => Next::Served(served),
            Either::Right((Either::Left(_) | Either::Right((None, _)), _)) => Next::End,
            Either::Right((Either::Right((Some(wish), _)), _)) => Next::Wish(wish),
        }
    }

    /// What it leaves, when it is gone.
    fn ended(self) -> Ended {
        Ended { dataset: self.name, damage: self.damage }
    }

    /// The same dataset in the same place, when whoever had it unmounted says so. If it can't be, who waits for it is told why.
    async fn again(
        self,
        kept: InTable,
        again: Again,
        wish: Wish,
    ) -> Result<Result<RunningMount, Ended>, Error> {
        let InTable { kept, wishes, pool, wanted } = kept;
        drop((kept, wishes));
        let ended = self.ended();
        wish.done(Ok(()));
        let wanted = ToMount { dataset: again.dataset.clone(), covers: true, ..wanted };
        let answer = again.wait().await;
        let begun = RunningMount::begin(&pool, wanted).await;
        match (begun, answer) {
            (Ok(begun), answer) => {
                begun.damage.go_on(&ended.damage);
                if let Some(answer) = answer {
                    // Who waits for it may be gone.
                    let _ = answer.send(Ok(()));
                }
                Ok(Ok(begun))
            }
            (Err(error), Some(answer)) => {
                let _ = answer.send(Err(error));
                Ok(Err(ended))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Ends it, as somebody wishes.
    async fn unmount(&mut self, how: Unmount) -> Result<(), Error> {
        let RunningMount { mount, serving, rt, .. } = self;
        match how {
            Unmount::IfIdle => {
                if !mount.unmount_if_idle().await? {
                    return Err(Error::MountBusy { directory: mount.directory().to_owned() });
                }
            }
            Unmount::Drain => {
                // Who has files open in it, or a copy of it in another mount namespace, may keep it for ever.
                select(pin!(mount.write_out()), pin!(rt.sleep(WRITTEN_OUT_MAX))).await;
                mount.unmount_served().await?;
            }
            Unmount::Force => mount.unmount_served().await?,
        }
        gone_soon(serving, rt).await
    }
}

/// What comes to a mount that is served.
enum Next {
    /// It is unmounted.
    Served(Result<(), Error>),
    End,
    Wish(Wish),
}

/// The kernel says that it is gone; or some time passes, as where files are open in it, or another mount namespace (a container, a
/// service) has a copy of the mount, which stays there as long as that namespace: who looks then finds it disconnected.
async fn gone_soon(serving: &mut Task<Result<(), Error>>, rt: &Rt) -> Result<(), Error> {
    match select(serving, pin!(rt.sleep(GONE_AFTER))).await {
        Either::Left((served, _)) => served,
        Either::Right(_) => Ok(()),
    }
}

/// What a mount leaves.
pub struct Ended {
    dataset: String,
    damage: Rc<Told>,
}

impl Ended {
    /// Says how many reads failed, where they were more than were told one by one.
    pub fn tell(self, context: &Context) {
        self.say(context.events());
    }

    /// The same, to those who are told.
    pub(crate) fn say(self, events: &Events) {
        if let Some(reads) = self.damage.counted() {
            events.tell(Event::DamageSum { dataset: self.dataset, reads });
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
