//! A pool that is open for writing for as long as somebody serves it, with what runs beside it.
//!
//! ```text
//!   RunningPool (here)
//!     ├─ Live         the pool; its groups are committed every few seconds
//!     ├─ events       what happened to it, for `zpool events`
//!     ├─ mounts       its datasets that are directories of this host (mount_table)
//!     └─ HeldPool     its socket: what commands that find it held ask for (protocol) comes here (requests), and is carried
//!                     out by who holds it (asked); client is the other end
//! ```
//!
//! Commands that work on files of their own are lent what they change (`lent`).
//!
//! **Where its devices fail** its property `failmode` says what happens ([`Live::hold`]); that is told, and so is that it goes on. One that is
//! suspended when all is to end, or then, is given up: else who waits for it would keep that from ending.
//!
//! Whoever serves datasets of it [starts](RunningPool::start) it, and [stops](RunningPool::stop) it when the last client has
//! gone. From start to stop its labels say that it is in use, then that it was exported. Where it can't be written any more
//! that ends what serves it. A command that would export or destroy it ends who holds it, where that has nothing else; where it has, the pool
//! is [closed](asked::WhenAsked::Closes) and its devices are, and all else goes on.

pub mod asked;
pub mod client;
pub(super) mod connection;
pub mod events;
pub mod files;
mod lent;
pub mod protocol;
mod requests;

use crate::context::Context;
use crate::control::server::Bound;
use crate::ending::Ending;
use crate::error::Error;
use crate::event::{Event, Events};
use crate::pools::find::{HeldBy, Leaving};
use ::zfs::spa::config::LabelState;
use ::zfs::spa::live::{Live, LiveError};
use asked::{Queue, WhenAsked};
use events::PoolEvents;
use futures_util::future::{Either, select};
use requests::Served;
use rt::Task;
use rt::sync::oneshot;
use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

/// The socket of a pool that is held.
pub struct HeldPool(Rc<Served>);

impl HeldPool {
    /// Listens for commands. What is to be carried out goes into the queue.
    fn listen(
        pool: HeldBy,
        how: Holding<'_>,
        happened: &Rc<PoolEvents>,
        queue: &Queue,
    ) -> HeldPool {
        let Holding { what, ending, when_asked, socket } = how;
        let to_end = (when_asked, Rc::clone(ending), queue.sender());
        let served = Served::new(pool, what, Rc::clone(happened), to_end);
        served.listen_at(|| socket);
        HeldPool(served)
    }

    /// Takes back what is lent, and unmounts what is mounted: nothing is written to the pool any more.
    ///
    /// # Errors
    /// Something can't be unmounted.
    ///
    /// # Panics
    /// Real clocks stand still.
    pub fn take_back(&self, context: &Context) -> Result<(), Error> {
        let served = Rc::clone(&self.0);
        let taken = async move { served.take_back().await };
        context.runtime().block_on(taken).expect("a clock that runs ends it")
    }

    /// Says what came of the end to who wished it, and listens no more.
    ///
    /// # Panics
    /// Real clocks stand still.
    pub fn end(self, context: &Context, closed: &Result<(), Error>) {
        let served = self.0;
        served.closed(closed);
        let ended = async move { served.ended().await };
        context.runtime().block_on(ended).expect("a clock that runs ends it");
    }
}

/// How a pool is held.
pub struct Holding<'a> {
    /// The command that does.
    pub what: &'static str,
    /// Told when it can't be written any more.
    pub ending: &'a Rc<Ending>,
    /// Whether it can be closed before all ends.
    pub when_asked: WhenAsked,
    /// Where commands wait already.
    pub socket: Bound,
}

/// See the [module](self).
pub struct RunningPool {
    live: Rc<Live>,
    pool: HeldBy,
    held: HeldPool,
    leaving: Rc<RefCell<Leaving>>,
    /// Dropped when it is to end.
    ends: oneshot::Sender<()>,
    keeping: Task<Result<(), LiveError>>,
    /// Until it is closed.
    watching: Task<()>,
}

/// Tells when a device is taken out, and when a pool is suspended and resumed; gives it up where it is when all ends.
async fn watch(live: Rc<Live>, happened: Rc<PoolEvents>, events: Events, ending: Rc<Ending>) {
    let name = || live.spa().name().to_owned();
    let (mut known, mut has_ended) = (None, false);
    let mut faulted: Vec<u64> = live.spa().tree().leaves_faulted();
    let mut ended = pin!(ending.wait());
    loop {
        let mut changed = pin!(live.suspension().changed());
        let reason = live.suspension().reason();
        match reason.filter(|_| reason != known) {
            Some(reason) => {
                happened.suspended();
                events.tell(Event::PoolSuspended { pool: name(), reason });
            }
            None if reason != known => events.tell(Event::PoolResumed { pool: name() }),
            None => {}
        }
        known = reason;
        let now = live.spa().tree().leaves_faulted();
        for guid in now.iter().filter(|guid| !faulted.contains(guid)) {
            let vdevs = live.spa().vdevs();
            let leaf = vdevs.leaves().into_iter().find(|leaf| leaf.guid == *guid);
            let path = leaf.and_then(|leaf| leaf.path.as_ref().map(ToString::to_string));
            let device = path.unwrap_or_else(|| guid.to_string());
            happened.state_changed(*guid, true);
            events.tell(Event::DeviceFaulted { pool: name(), device });
        }
        for guid in faulted.iter().filter(|guid| !now.contains(guid)) {
            happened.state_changed(*guid, false);
        }
        faulted = now;
        if has_ended && reason.is_some() {
            return live.give_up();
        }
        match has_ended {
            true => changed.await,
            false => {
                let next = select(&mut changed, &mut ended).await;
                has_ended = matches!(next, Either::Right(_));
            }
        }
    }
}

impl RunningPool {
    /// Says in the labels that it is in use, begins to commit its groups, and to listen.
    ///
    /// # Errors
    /// The labels can't be written.
    pub fn start(pool: HeldBy, how: Holding<'_>, queue: &Queue) -> Result<RunningPool, Error> {
        let ending = how.ending;
        let (live, pools) = (Rc::clone(&pool.live), Rc::clone(&pool.pools));
        let context = pools.disks().context();
        let happened = PoolEvents::of(&live);
        let begun = Rc::clone(&live);
        let begun = context.runtime().block_on(async move {
            begun.syncer().change_config(|config| config.state = LabelState::Active);
            begun.sync(async |_| Ok(())).await?;
            Ok::<(), LiveError>(begun.hold().await?)
        });
        begun?.map_err(|error| not_written(&live, error))?;
        let (ends, end) = oneshot::channel::<()>();
        let events = context.events().clone();
        let watched = watch(Rc::clone(&live), Rc::clone(&happened), events, Rc::clone(ending));
        let watching = context.rt().spawn(watched);
        let (kept, its_ending) = (Rc::clone(&live), Rc::clone(ending));
        let keeping = context.rt().spawn(async move {
            let until = async {
                // Whoever ends it drops the other end.
                let _ = end.await;
            };
            let kept = kept.keep_synced(until).await;
            if kept.is_err() {
                its_ending.tell();
            }
            kept
        });
        let leaving = Rc::clone(&pool.leaving);
        let held = HeldPool::listen(pool.clone(), how, &happened, queue);
        Ok(RunningPool { live, pool, held, leaving, ends, keeping, watching })
    }

    /// Ends what runs beside it and what is mounted of it, commits what is open, and exports it, or leaves it as somebody asked for;
    /// sets that it got meanwhile are stopped. The sets that it had when it was opened are stopped after that, by who runs them.
    ///
    /// # Errors
    /// It can't be written, or could not be some time before.
    pub fn stop(self, context: &Context) -> Result<(), Error> {
        self.stop_then(context, || Ok(()))
    }

    /// The same, and this after it, before those are answered who asked for it.
    ///
    /// # Errors
    /// Of both.
    pub fn stop_then(
        self,
        context: &Context,
        then: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let RunningPool { live, pool, held, leaving, ends, keeping, watching } = self;
        let taken = held.take_back(context);
        // A group under way is committed first: who is dropped amid one leaves the pool as it was before.
        drop(ends);
        let (its, Leaving { state, command }) = (Rc::clone(&live), leaving.take());
        let closed = context.runtime().block_on(async move {
            keeping.await?;
            if command.is_some() {
                its.syncer().note_deed();
                its.settle(command.as_deref()).await?;
            }
            its.close(state).await
        });
        drop(watching);
        let closed = match closed {
            Ok(closed) => closed.map_err(|error| not_written(&live, error)),
            Err(error) => Err(error.into()),
        };
        pool.note_closed();
        let closed = closed.and(pool.stop_added());
        let closed = closed.and(then());
        held.end(context, &closed);
        taken.and(closed)
    }
}

fn not_written(live: &Live, error: LiveError) -> Error {
    Error::NotWritten { name: live.spa().name().to_owned(), error: Box::new(error) }
}
