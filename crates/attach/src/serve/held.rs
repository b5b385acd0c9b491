//! Pools that are held beside what is served: begun together, closed one by one where somebody asks for that, all others at the end.
//!
//! One is closed while the rest goes on, where nothing else lies on what it lies on. Its exports and mounts have ended by then
//! ([`requests`](crate::pools::running)); the sets below it are stopped, and its devices closed for other processes to have it. When nothing is
//! left, all ends.

use super::exports::{OpenPool, Served};
use crate::context::Context;
use crate::ending::Ending;
use crate::error::Error;
use crate::event::Event;
use crate::pools::running::Holding;
use crate::pools::{HeldBy, Queue, RunningPool, WhenAsked};
use crate::sets::running::RunningSets;
use ::zfs::spa::config::LabelState;
use md::superblock::Uuid;
use std::rc::Rc;

/// See the [module](self).
pub(super) struct HeldPools<'a> {
    served: &'a Served,
    ending: &'a Rc<Ending>,
    /// Something is served besides.
    has_others: bool,
    running: Vec<(HeldBy, Vec<Uuid>, RunningPool)>,
    /// All that are open, those below no pool, too.
    sets: RunningSets,
}

impl<'a> HeldPools<'a> {
    /// Of pools that are still to be started.
    pub(super) fn new(
        served: &'a Served,
        ending: &'a Rc<Ending>,
        has_others: bool,
        sets: RunningSets,
    ) -> HeldPools<'a> {
        HeldPools { served, ending, has_others, running: Vec::new(), sets }
    }

    fn context(&self) -> &'a Context {
        self.served.session.pools.disks().context()
    }

    /// Holds these from here on.
    ///
    /// # Errors
    /// One can't be held; those before it are.
    pub(super) fn start(
        &mut self,
        pools: Vec<OpenPool>,
        what: &'static str,
        queue: &Queue,
    ) -> Result<(), Error> {
        let is_one = pools.len() == 1 && !self.has_others;
        for OpenPool { pool, sets, is_apart, socket } in pools {
            let when_asked = match is_apart {
                _ if is_one => WhenAsked::Ends,
                true => WhenAsked::Closes,
                false => WhenAsked::Stays,
            };
            let how = Holding { what, ending: self.ending, when_asked, socket };
            let running = RunningPool::start(pool.clone(), how, queue)?;
            self.running.push((pool, sets, running));
        }
        Ok(())
    }

    /// How many are.
    pub(super) fn count(&self) -> usize {
        self.running.len()
    }

    /// Closes one. What came of it is told to who asked for it.
    pub(super) fn close(&mut self, pool: &HeldBy) {
        let is_it =
            |(held, ..): &(HeldBy, Vec<Uuid>, RunningPool)| Rc::ptr_eq(&held.live, &pool.live);
        // Two may have asked.
        let Some(at) = self.running.iter().position(is_it) else { return };
        let (pool, sets, running) = self.running.remove(at);
        let (context, files) = (self.context(), pool.files());
        let destroyed = pool.leaving.borrow().state == LabelState::Destroyed;
        let stopped = running.stop_then(context, || {
            let stopped = self.sets.stop_these(context, &sets);
            pool.close_devices(&files);
            stopped
        });
        let name = pool.live.spa().name().to_owned();
        context.tell(match stopped {
            Ok(()) => Event::PoolClosed { pool: name, destroyed },
            Err(error) => Event::Complaint(error.to_string()),
        });
        if let Err(error) = self.served.keep_writers_off() {
            context.tell(Event::Complaint(error.to_string()));
        }
        if self.running.is_empty() && !self.has_others {
            self.ending.tell();
        }
    }

    /// Ends them all, and the sets.
    ///
    /// # Errors
    /// Of the first that failed; all were tried.
    pub(super) fn stop(mut self) -> Result<(), Error> {
        let context = self.context();
        let mut outcome = Ok(());
        for (_, _, running) in self.running {
            outcome = outcome.and(running.stop(context));
        }
        // What lies on them is closed.
        outcome.and(self.sets.stop(context))
    }
}
