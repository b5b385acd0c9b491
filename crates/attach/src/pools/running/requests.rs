//! What who holds a pool is asked for, carried out where the pool is open.

use super::asked::Asked;
use super::protocol::{Ask, Counts, Holder, LeafCounts};
use crate::context::Context;
use crate::control::message::Numbers;
use crate::control::server::{Said, Service};
use crate::error::Error;
use crate::event::Events;
use crate::pools::find::HeldBy;
use host::Identity;
use rt::sync::{mpsc, oneshot};
use rt::{Rt, Task};
use serde_json::Value;
use std::path::{Path, PathBuf};
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
    files: Vec<Numbers>,
    what: &'static str,
}

impl Served {
    /// One whose requests are taken from now on.
    pub fn new(
        pool: HeldBy,
        files: &[PathBuf],
        what: &'static str,
        asked: mpsc::Sender<Asked>,
    ) -> Rc<Served> {
        let context: &Context = pool.pools.disks().context();
        let numbers = |path: &PathBuf| Identity::of(Path::new(path)).ok().map(Identity::numbers);
        let files = files.iter().filter_map(numbers).collect();
        let (rt, events) = (context.rt(), context.events().clone());
        let since = rt.now();
        Rc::new(Served { pool, asked, rt, since, events, files, what })
    }

    async fn answer(&self, ask: Ask) -> Result<Value, Error> {
        match ask {
            Ask::Who => {
                let holder = Holder { process: std::process::id(), what: self.what.to_owned() };
                serde_json::to_value(holder).map_err(Error::NoRequest)
            }
            Ask::Counts => {
                let spa = self.pool.live.spa();
                let of = |(guid, counts)| LeafCounts::of(guid, counts);
                let leaves = spa.tree().io_counts().into_iter().map(of).collect();
                let nanoseconds = (self.rt.now() - self.since).as_nanos() as u64;
                serde_json::to_value(Counts { nanoseconds, leaves }).map_err(Error::NoRequest)
            }
            Ask::Command { words, devices } => {
                let (answer, done) = oneshot::channel();
                let asked = Asked { pool: self.pool.clone(), words, devices, answer };
                // Whoever carries commands out has ended, or ends before this one's turn.
                let ends = || Error::HolderEnds { name: self.name().to_string() };
                self.asked.send(asked).await.map_err(|_| ends())?;
                let done = done.await.map_err(|_| ends())?;
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
        !devices.is_empty() && devices.iter().all(|device| self.files.contains(device))
    }

    fn ends(&self, _: &Ask) -> bool {
        false
    }

    async fn carry_out(&self, ask: Ask, _: &Said) -> Result<Value, Error> {
        self.answer(ask).await
    }

    /// It goes on though nobody waits for it: a group that is begun is committed.
    fn began(&self, task: Task<()>) {
        task.detach();
    }
}
