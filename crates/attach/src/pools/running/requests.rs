//! What who holds a pool is asked for, carried out where the pool is open.

use super::asked::Asked;
use super::lent::Lent;
use super::protocol::{Ask, Counts, Health, Holder, LeafCounts};
use crate::context::Context;
use crate::control::message::{Answer, Numbers};
use crate::control::server::{Control, Said, Service, answer, listen};
use crate::error::Error;
use crate::event::Events;
use crate::pools::find::HeldBy;
use host::Identity;
use rt::sync::{Notify, mpsc, oneshot};
use rt::{Rt, StreamRef, Task};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use stdx::Instant;

/// A pool that is held, as requests see it.
pub struct Served {
    pool: HeldBy,
    asked: mpsc::Sender<Asked>,
    rt: Rt,
    since: Instant,
    events: Events,
    what: &'static str,
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
struct Counted<'a>(&'a Lending);

impl<'a> Counted<'a> {
    fn new(lending: &'a Lending) -> Counted<'a> {
        lending.count.set(lending.count.get() + 1);
        Counted(lending)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.changed.notify_waiters();
    }
}

impl Served {
    /// One whose requests are taken from now on.
    pub fn new(pool: HeldBy, what: &'static str, asked: mpsc::Sender<Asked>) -> Rc<Served> {
        let context: &Context = pool.pools.disks().context();
        let (rt, events) = (context.rt(), context.events().clone());
        let since = rt.now();
        let (sockets, lending) = Default::default();
        Rc::new(Served { pool, asked, rt, since, events, what, sockets, lending })
    }

    /// Listens where commands look for the pool that its labels tell of.
    pub fn listen(self: &Rc<Self>) {
        let guid = self.pool.live.spa().guid();
        let host = self.pool.pools.disks().context().host();
        let socket = || listen(&host, self, &guid.to_string());
        self.sockets.borrow_mut().entry(guid).or_insert_with(socket);
    }

    /// Takes back what is lent, and listens no more.
    pub async fn ended(&self) {
        self.lending.ends.set(true);
        self.lending.changed.notify_waiters();
        self.lending.until(|lending| lending.count.get() == 0).await;
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
            Ask::Volume { .. } | Ask::Files { .. } => unreachable!("they take the connection over"),
            Ask::Counts => {
                let spa = self.pool.live.spa();
                let of = |(guid, counts)| LeafCounts::of(guid, counts);
                let leaves = spa.tree().io_counts().into_iter().map(of).collect();
                let nanoseconds = (self.rt.now() - self.since).as_nanos() as u64;
                serde_json::to_value(Counts { nanoseconds, leaves }).map_err(Error::NoRequest)
            }
            Ask::Health => {
                serde_json::to_value(Health::of(&self.pool.live)).map_err(Error::NoRequest)
            }
            Ask::Clear { vdev } => self.pool.clear(vdev).await.map(|()| Value::Null),
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
                self.asked.send(asked).await.map_err(|_| ends())?;
                let done = done.await.map_err(|_| ends())?;
                // It may have given the pool another GUID, and datasets other names.
                self.listen();
                for mounted in self.pool.mounted() {
                    // What can't be had is told to who looks at it.
                    let _ = mounted.follow().await;
                }
                serde_json::to_value(done).map_err(Error::NoRequest)
            }
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

    fn ends(&self, _: &Ask) -> bool {
        false
    }

    async fn carry_out(self: Rc<Self>, ask: Ask, _: &Said) -> Result<Value, Error> {
        self.answer(ask).await
    }

    fn takes_over(&self, ask: &Ask) -> bool {
        matches!(ask, Ask::Volume { .. } | Ask::Files { .. })
    }

    async fn take_over(self: Rc<Self>, ask: Ask, stream: StreamRef) {
        let _counted = Counted::new(&self.lending);
        let lent = match ask {
            _ if self.lending.ends.get() => {
                Err(Error::HolderEnds { name: self.name().to_string() })
            }
            Ask::Volume { name } => Lent::volume(&self.pool, &name).await,
            Ask::Files { name } => Lent::files(&self.pool, &name).await,
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
