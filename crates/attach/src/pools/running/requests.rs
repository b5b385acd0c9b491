//! What who holds a pool is asked for, carried out where the pool is open.

use super::asked::{Asked, Errand, WhenAsked};
use super::events::PoolEvents;
use super::lent::Lent;
use super::protocol::{Ask, Counts, Health, Holder, LeafCounts, MountedDataset, Picture};
use crate::context::Context;
use crate::control::message::{Answer, Numbers};
use crate::control::server::{Bound, Control, Said, Service, answer, listen};
use crate::ending::Ending;
use crate::error::Error;
use crate::event::{Event, Events};
use crate::mounts::{RunningMount, ToMount};
use crate::pools::find::{HeldBy, Leaving};
use crate::pools::mount_table::{Unmount, comes_true};
use ::zfs::spa::config::LabelState;
use futures_util::future::{Either, select};
use host::Identity;
use rt::sync::{Notify, mpsc, oneshot};
use rt::{BufMut, Rt, StreamRef, Task};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Instant;

/// How long a commit is waited for that somebody reads after.
const COMMIT_MAX: Duration = Duration::from_secs(5);
/// How long the kernel is waited for that is to forget what a command changed: a program whose request waits may keep it from that, the
/// one that gave the command among them.
const SHOWN_MAX: Duration = Duration::from_secs(1);

/// A pool that is held, as requests see it.
pub struct Served {
    pool: HeldBy,
    asked: mpsc::Sender<Errand>,
    rt: Rt,
    since: Instant,
    events: Events,
    what: &'static str,
    happened: Rc<PoolEvents>,
    when_asked: WhenAsked,
    /// Of who holds it.
    ending: Rc<Ending>,
    /// Who waits for the pool to be closed.
    stopping: RefCell<Vec<oneshot::Sender<Result<(), String>>>>,
    /// Sockets by the GUIDs that the pool has had since it is held.
    sockets: RefCell<BTreeMap<u64, Option<Control<Served>>>>,
    lending: Lending,
}

/// What is lent.
#[derive(Default)]
struct Lending {
    ends: Cell<bool>,
    /// So much.
    count: Cell<usize>,
    /// Files and volumes of it: all but mounts.
    lent: Cell<usize>,
    changed: Notify,
}

impl Lending {
    /// Waits until this holds.
    async fn until(&self, holds: impl Fn(&Lending) -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds(self) {
                return;
            }
            changed.await;
        }
    }
}

/// Something is lent as long as this is there.
struct Counted<'a> {
    lending: &'a Lending,
    is_mount: bool,
}

impl<'a> Counted<'a> {
    fn new(lending: &'a Lending, is_mount: bool) -> Counted<'a> {
        lending.count.set(lending.count.get() + 1);
        lending.lent.set(lending.lent.get() + usize::from(!is_mount));
        Counted { lending, is_mount }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let Counted { lending, is_mount } = self;
        lending.count.set(lending.count.get() - 1);
        lending.lent.set(lending.lent.get() - usize::from(!*is_mount));
        lending.changed.notify_waiters();
    }
}

impl Served {
    /// One whose requests are taken from now on.
    pub fn new(
        pool: HeldBy,
        what: &'static str,
        happened: Rc<PoolEvents>,
        (when_asked, ending, asked): (WhenAsked, Rc<Ending>, mpsc::Sender<Errand>),
    ) -> Rc<Served> {
        let context: &Context = pool.pools.disks().context();
        let (rt, events) = (context.rt(), context.events().clone());
        let since = rt.now();
        let (sockets, lending, stopping) = Default::default();
        Rc::new(Served {
            pool,
            asked,
            rt,
            since,
            events,
            what,
            happened,
            when_asked,
            ending,
            stopping,
            sockets,
            lending,
        })
    }

    /// Listens where commands look for the pool that its labels tell of.
    pub fn listen(self: &Rc<Self>) {
        self.listen_at(|| self.pool.socket());
    }

    /// The same at the socket that it has.
    pub fn listen_at(self: &Rc<Self>, socket: impl FnOnce() -> Bound) {
        let guid = self.pool.live.spa().guid();
        self.sockets.borrow_mut().entry(guid).or_insert_with(|| listen(self, socket()));
    }

    /// Takes back what is lent, and ends what is mounted.
    pub async fn take_back(&self) -> Result<(), Error> {
        self.lending.ends.set(true);
        self.lending.changed.notify_waiters();
        self.lending.until(|lending| lending.count.get() == 0).await;
        self.pool.mounts.end_all(Unmount::Drain).await
    }

    /// The pool was closed, or could not be.
    pub fn closed(&self, result: &Result<(), Error>) {
        for waiting in self.stopping.take() {
            // Who waits may be gone.
            let _ = waiting.send(result.as_ref().map_err(ToString::to_string).copied());
        }
    }

    /// Listens no more.
    pub async fn ended(&self) {
        let sockets = self.sockets.take();
        for socket in sockets.into_values().flatten() {
            socket.ended().await;
        }
    }

    async fn answer(self: &Rc<Self>, ask: Ask) -> Result<Value, Error> {
        match ask {
            Ask::Who => {
                let holder = Holder { process: std::process::id(), what: self.what.to_owned() };
                serde_json::to_value(holder).map_err(Error::NoRequest)
            }
            Ask::Volume { .. } | Ask::Files { .. } | Ask::Mount { .. } => {
                unreachable!("they take the connection over")
            }
            Ask::Events { after, waits } => {
                let ends = self.lending.until(|lending| lending.ends.get());
                let page = match select(pin!(self.happened.after(after, waits)), pin!(ends)).await {
                    Either::Left((page, _)) => page,
                    Either::Right(_) => {
                        return Err(Error::HolderEnds { name: self.name().to_string() });
                    }
                };
                serde_json::to_value(page).map_err(Error::NoRequest)
            }
            Ask::ForgetEvents => {
                serde_json::to_value(self.happened.clear()).map_err(Error::NoRequest)
            }
            // What is read may wait.
            Ask::Mounts if self.pool.live.suspension().reason().is_some() => {
                Err(Error::PoolSuspended { name: self.name().to_string() })
            }
            Ask::Mounts => {
                let name = self.name().to_string();
                let failed = |error| Error::CannotOpen { name, error: Box::new(error) };
                let shown = self.pool.mounts.shown().await.map_err(failed)?;
                let all: Vec<MountedDataset> = shown.into_iter().map(MountedDataset::of).collect();
                serde_json::to_value(all).map_err(Error::NoRequest)
            }
            Ask::End { destroys, force, command } => {
                self.end(destroys, force, command).await.map(|()| Value::Null)
            }
            Ask::Counts => {
                let spa = self.pool.live.spa();
                let of = |(guid, counts)| LeafCounts::of(guid, counts);
                let leaves = spa.tree().io_counts().into_iter().map(of).collect();
                let nanoseconds = (self.rt.now() - self.since).as_nanos() as u64;
                serde_json::to_value(Counts { nanoseconds, leaves }).map_err(Error::NoRequest)
            }
            Ask::Health => serde_json::to_value(self.health()).map_err(Error::NoRequest),
            Ask::Picture => {
                let (live, devices) = (&self.pool.live, self.pool.devices());
                let picture = Picture { health: self.health(), ..Picture::of(live, devices) };
                serde_json::to_value(picture).map_err(Error::NoRequest)
            }
            Ask::Commit => {
                if self.pool.live.suspension().reason().is_none() {
                    let (sender, committed) = oneshot::channel();
                    let live = Rc::clone(&self.pool.live);
                    // A task of its own: a group that is left half synced would be the last.
                    let commit = self.rt.spawn(async move {
                        let done = live.sync(async |_| Ok(())).await;
                        // Who asked may be gone, and reads what is there where it can't be.
                        let _ = sender.send(done.is_ok());
                    });
                    commit.detach();
                    select(pin!(committed), pin!(self.rt.sleep(COMMIT_MAX))).await;
                }
                Ok(Value::Null)
            }
            Ask::Clear { vdev } => self.pool.clear(vdev).await.map(|()| Value::Null),
            Ask::Command { .. } if self.lending.ends.get() => {
                Err(Error::HolderEnds { name: self.name().to_string() })
            }
            // It would wait with all others, and nobody could ask for anything more.
            Ask::Command { .. } if self.pool.live.suspension().reason().is_some() => {
                Err(Error::PoolSuspended { name: self.name().to_string() })
            }
            Ask::Command { words, devices, directory } => {
                let (answer, done) = oneshot::channel();
                let pool = self.pool.clone();
                let asked = Asked { pool, words, devices, directory, answer };
                // Whoever carries commands out has ended, or ends before this one's turn.
                let ends = || Error::HolderEnds { name: self.name().to_string() };
                self.asked.send(Errand::CarryOut(asked)).await.map_err(|_| ends())?;
                let done = done.await.map_err(|_| ends())?;
                // It may have given the pool another GUID, and datasets other names.
                self.listen();
                let mounts = self.pool.mounted();
                for mounted in &mounts {
                    // What can't be had is told to who looks at it.
                    let _ = mounted.follow().await;
                }
                // Mounts show it when the command has ended.
                let shown = async {
                    for mounted in &mounts {
                        mounted.passed_on().await;
                    }
                };
                select(pin!(shown), pin!(self.rt.sleep(SHOWN_MAX))).await;
                serde_json::to_value(done).map_err(Error::NoRequest)
            }
        }
    }
}

impl Served {
    fn health(&self) -> Health {
        Health { altroot: self.pool.altroot(), ..Health::of(&self.pool.live) }
    }

    /// Mounts a dataset for as long as the command that asked for it stays.
    async fn mount(self: &Rc<Self>, wanted: ToMount, stream: &StreamRef) {
        let ToMount { dataset, directory, for_writing, .. } = wanted.clone();
        let mount = match RunningMount::begin(&self.pool, wanted).await {
            Ok(mount) => mount,
            Err(error) => {
                // The client may be gone.
                let _ = answer(&**self, stream, &Answer::refusal(&error)).await;
                return;
            }
        };
        let mounted = MountedDataset { dataset, directory, for_writing };
        let value = serde_json::to_value(mounted).expect("a name, a path and a word");
        // Who is gone wants it no more, and is noticed below.
        let _ = answer(&**self, stream, &Answer::Result(value)).await;
        self.events.tell(mount.mounted());
        let gone = async {
            // Whatever comes, or nothing more: it wishes the end.
            let _ = stream.read(BufMut::for_overwrite(1), 0).await;
        };
        let ends = self.lending.until(|lending| lending.ends.get());
        let end = async {
            select(pin!(gone), pin!(ends)).await;
        };
        match mount.until(end).await {
            Ok(ended) => ended.say(&self.events),
            Err(error) => self.events.tell(Event::Complaint(error.to_string())),
        }
    }

    /// Closes the pool, and ends who holds it where that has nothing else.
    async fn end(&self, destroys: bool, force: bool, command: Option<String>) -> Result<(), Error> {
        let (name, verb) = (self.name().to_string(), if destroys { "destroy" } else { "export" });
        if self.pool.live.suspension().reason().is_some() {
            return Err(Error::PoolSuspended { name });
        }
        let clients = || match self.when_asked {
            WhenAsked::Closes => self.pool.exports.clients(),
            WhenAsked::Ends | WhenAsked::Stays => self.ending.clients(),
        };
        if self.when_asked == WhenAsked::Stays {
            let (process, what) = (std::process::id(), self.what);
            return Err(Error::PoolOfMany { name, verb, process, what });
        }
        let has_no_clients = || clients() + self.lending.lent.get() == 0;
        if !force && !comes_true(&self.rt, has_no_clients).await {
            return Err(Error::PoolBusy { name, verb });
        }
        // Before anything is unmounted: who serves a mount may end with it.
        let (waiting, end) = oneshot::channel();
        self.stopping.borrow_mut().push(waiting);
        let state = if destroys { LabelState::Destroyed } else { LabelState::Exported };
        *self.pool.leaving.borrow_mut() = Leaving { state, command };
        let how = if force { Unmount::Force } else { Unmount::IfIdle };
        for entry in self.pool.mounts.entries() {
            if let Err(error) = entry.end(how).await {
                self.stopping.take();
                self.pool.leaving.take();
                return Err(error);
            }
        }
        if self.when_asked == WhenAsked::Closes {
            // What could not be flushed is in the last group, or the close of the pool says why it isn't.
            let _ = self.pool.exports.end().await;
            let closing = self.asked.send(Errand::Close(self.pool.clone())).await;
            closing.map_err(|_| Error::HolderEnds { name: name.clone() })?;
        } else {
            self.ending.tell();
        }
        match end.await {
            Ok(result) => result.map_err(Error::NotStopped),
            Err(_) => Err(Error::HolderEnds { name }),
        }
    }
}

impl Service for Served {
    type Ask = Ask;

    fn name(&self) -> Arc<str> {
        self.pool.live.spa().name().into()
    }

    fn rt(&self) -> &Rt {
        &self.rt
    }

    fn events(&self) -> &Events {
        &self.events
    }

    fn has(&self, devices: &[Numbers]) -> bool {
        let files = self.pool.files();
        let numbers = |path: &PathBuf| Identity::of(path).ok().map(Identity::numbers);
        let own: Vec<Numbers> = files.iter().filter_map(numbers).collect();
        !devices.is_empty() && devices.iter().all(|device| own.contains(device))
    }

    fn tells_anyone(&self, ask: &Ask) -> bool {
        matches!(ask, Ask::Picture)
    }

    fn ends(&self, ask: &Ask) -> bool {
        matches!(ask, Ask::End { .. })
    }

    async fn carry_out(self: Rc<Self>, ask: Ask, _: &Said) -> Result<Value, Error> {
        self.answer(ask).await
    }

    fn takes_over(&self, ask: &Ask) -> bool {
        matches!(ask, Ask::Volume { .. } | Ask::Files { .. } | Ask::Mount { .. })
    }

    async fn take_over(self: Rc<Self>, ask: Ask, stream: StreamRef) {
        let _counted = Counted::new(&self.lending, matches!(ask, Ask::Mount { .. }));
        let lent = match ask {
            _ if self.lending.ends.get() => {
                Err(Error::HolderEnds { name: self.name().to_string() })
            }
            Ask::Volume { name } => Lent::volume(&self.pool, &name).await,
            Ask::Files { name } => Lent::files(&self.pool, &name).await,
            Ask::Mount { dataset, directory, for_writing, shows_control } => {
                let wanted = ToMount {
                    dataset,
                    directory,
                    makes_directory: false,
                    covers: true,
                    for_writing,
                    shows_control,
                    by_mountpoint: false,
                };
                return self.mount(wanted, &stream).await;
            }
            _ => unreachable!("only these take the connection over"),
        };
        let lent = match lent {
            Ok(lent) => lent,
            Err(error) => {
                // The client may be gone.
                let _ = answer(&*self, &stream, &Answer::refusal(&error)).await;
                return;
            }
        };
        if answer(&*self, &stream, &Answer::Result(Value::Null)).await.is_some() {
            let ends = self.lending.until(|lending| lending.ends.get());
            lent.serve(&self.rt, stream, ends).await;
        }
    }

    /// It goes on though nobody waits for it: a group that is begun is committed.
    fn began(&self, task: Task<()>) {
        task.detach();
    }
}
