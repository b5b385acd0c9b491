//! What who holds a pool is asked for, carried out where the pool is open.

use super::protocol::{Ask, Holder};
use crate::context::Context;
use crate::control::message::Numbers;
use crate::control::server::{Said, Service};
use crate::error::Error;
use crate::event::Events;
use crate::pools::snapshots;
use ::zfs::spa::live::Live;
use host::Identity;
use rt::{Rt, Task};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// A pool that is held, as requests see it.
pub struct Served {
    live: Rc<Live>,
    rt: Rt,
    events: Events,
    files: Vec<Numbers>,
    what: &'static str,
}

impl Served {
    /// One whose requests are taken from now on.
    pub fn new(
        context: &Context,
        live: &Rc<Live>,
        files: &[PathBuf],
        what: &'static str,
    ) -> Rc<Served> {
        let numbers = |path: &PathBuf| Identity::of(Path::new(path)).ok().map(Identity::numbers);
        let files = files.iter().filter_map(numbers).collect();
        let (rt, events) = (context.rt(), context.events().clone());
        Rc::new(Served { live: Rc::clone(live), rt, events, files, what })
    }

    async fn answer(&self, ask: Ask) -> Result<Value, Error> {
        match ask {
            Ask::Who => {
                let holder = Holder { process: std::process::id(), what: self.what.to_owned() };
                serde_json::to_value(holder).map_err(Error::NoRequest)
            }
            Ask::Snapshot { names, recursive } => {
                snapshots::take(&self.live, &names, recursive).await?;
                Ok(Value::Null)
            }
        }
    }
}

impl Service for Served {
    type Ask = Ask;

    fn name(&self) -> Arc<str> {
        self.live.spa().name().into()
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
