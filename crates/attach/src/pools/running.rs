//! A pool that is open for writing for as long as somebody serves it, with what runs beside it.
//!
//! ```text
//!   RunningPool (here)
//!     ├─ Live         the pool; its groups are committed every few seconds
//!     └─ HeldPool     its socket: what commands that find it held ask for (protocol) comes here (requests), and is carried
//!                     out by who holds it (asked); client is the other end
//! ```
//!
//! Commands that work on files of their own are lent what they change (`lent`).
//!
//! Whoever serves datasets of it [starts](RunningPool::start) it, and [stops](RunningPool::stop) it when the last client has
//! gone. From start to stop its labels say that it is in use, then that it was exported. Where it can't be written any more
//! that ends what serves it.

pub mod asked;
pub mod client;
pub mod files;
mod lent;
pub mod protocol;
mod requests;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::Error;
use crate::pools::find::HeldBy;
use ::zfs::spa::config::LabelState;
use ::zfs::spa::live::{Live, LiveError};
use asked::Queue;
use requests::Served;
use rt::Task;
use rt::sync::oneshot;
use std::rc::Rc;

/// The socket of a pool that is held.
pub struct HeldPool(Rc<Served>);

impl HeldPool {
    /// Listens for commands; `what` is the command that holds it. What is to be carried out goes into the queue.
    pub fn listen(pool: HeldBy, what: &'static str, queue: &Queue) -> HeldPool {
        let served = Served::new(pool, what, queue.sender());
        served.listen();
        HeldPool(served)
    }

    /// Listens no more.
    ///
    /// # Panics
    /// Real clocks stand still.
    pub fn end(self, context: &Context) {
        let served = self.0;
        let ended = async move { served.ended().await };
        context.runtime().block_on(ended).expect("a clock that runs ends it");
    }
}

/// See the [module](self).
pub struct RunningPool {
    live: Rc<Live>,
    held: HeldPool,
    /// Dropped when it is to end.
    ends: oneshot::Sender<()>,
    keeping: Task<Result<(), LiveError>>,
}

impl RunningPool {
    /// Says in the labels that it is in use, begins to commit its groups, and to listen. `ending` is told when it can't be written
    /// any more.
    ///
    /// # Errors
    /// The labels can't be written.
    pub fn start(
        pool: HeldBy,
        what: &'static str,
        ending: &Rc<Ending>,
        queue: &Queue,
    ) -> Result<RunningPool, Error> {
        let (live, pools) = (Rc::clone(&pool.live), Rc::clone(&pool.pools));
        let context = pools.disks().context();
        let begun = Rc::clone(&live);
        let begun = context.runtime().block_on(async move {
            begun.syncer().change_config(|config| config.state = LabelState::Active);
            begun.sync(async |_| Ok(())).await
        });
        begun?.map_err(|error| not_written(&live, error))?;
        let (ends, end) = oneshot::channel::<()>();
        let (kept, ending) = (Rc::clone(&live), Rc::clone(ending));
        let keeping = context.rt().spawn(async move {
            let until = async {
                // Whoever ends it drops the other end.
                let _ = end.await;
            };
            let kept = kept.keep_synced(until).await;
            if kept.is_err() {
                ending.tell();
            }
            kept
        });
        let held = HeldPool::listen(pool, what, queue);
        Ok(RunningPool { live, held, ends, keeping })
    }

    /// Ends what runs beside it, commits what is open, and exports it. Nothing may be written to it any more.
    ///
    /// # Errors
    /// It can't be written, or could not be some time before.
    pub fn stop(self, context: &Context) -> Result<(), Error> {
        let RunningPool { live, held, ends, keeping } = self;
        held.end(context);
        // A group under way is committed first: who is dropped amid one leaves the pool as it was before.
        drop(ends);
        let its = Rc::clone(&live);
        let closed = context.runtime().block_on(async move {
            keeping.await?;
            its.close(LabelState::Exported).await
        });
        closed?.map_err(|error| not_written(&live, error))
    }
}

fn not_written(live: &Live, error: LiveError) -> Error {
    Error::NotWritten { name: live.spa().name().to_owned(), error: Box::new(error) }
}
