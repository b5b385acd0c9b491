//! Commands that find their pool held, carried out by who holds it.
//!
//! ```text
//!   spindle zfs create …  ── finds the pool held ──▶ socket ──▶ requests ──▶ Asked
//!                                                                              │ between two waits of the holder
//!   its output, its status ◀───────────────────────────────────────────────── the same command, on the pool that is open
//! ```
//!
//! A command is a row of steps that wait for the pool, each on the executor that serves it: so it is carried out by whoever
//! would wait for the end of serving ([`carry_out_until`]), one at a time, and what is served goes on while it waits. So is a pool closed
//! that is one of several.

use super::protocol::Done;
use crate::context::Context;
use crate::error::Error;
use crate::pools::find::HeldBy;
use futures_util::future::{Either, select};
use rt::Task;
use rt::sync::{mpsc, oneshot};
use std::path::PathBuf;
use std::pin::pin;

/// Commands that wait for their turn; more wait to be taken from their sockets.
const WAITING_MAX: usize = 4;

/// A command that is to be carried out.
pub struct Asked {
    /// On this pool.
    pub pool: HeldBy,
    /// Its words, without the program's name.
    pub words: Vec<String>,
    /// Where its disks lie.
    pub devices: Vec<PathBuf>,
    /// Where paths in its words begin that are not whole.
    pub directory: PathBuf,
    pub(super) answer: oneshot::Sender<Done>,
}

impl Asked {
    /// It was carried out.
    pub fn done(self, done: Done) {
        // Nobody may wait for it any more.
        let _ = self.answer.send(done);
    }
}

/// What happens when somebody asks for a pool to be closed that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenAsked {
    /// Who holds it ends: it has nothing else.
    Ends,
    /// It is closed by who [carries out](carry_out_and_close_until) what is asked, who goes on without it.
    Closes,
    /// That is refused: something else lies on its devices.
    Stays,
}

/// What who holds pools is to do between two waits.
pub(super) enum Errand {
    /// A command.
    CarryOut(Asked),
    /// This pool is closed, and the others go on.
    Close(HeldBy),
}

/// What is asked of who holds pools: one queue for all of them.
pub struct Queue {
    sender: mpsc::Sender<Errand>,
    asked: mpsc::Receiver<Errand>,
}

impl Default for Queue {
    fn default() -> Queue {
        let (sender, asked) = mpsc::channel(WAITING_MAX);
        Queue { sender, asked }
    }
}

impl Queue {
    /// Where a pool's socket puts what is asked.
    pub(super) fn sender(&self) -> mpsc::Sender<Errand> {
        self.sender.clone()
    }
}

/// What is served, or what is asked.
enum Next<T> {
    Done(T),
    Asked(Errand, Task<T>, Queue),
}

/// Waits for the end of what is served, and carries commands out meanwhile.
///
/// # Errors
/// It can't end.
pub fn carry_out_until<T: 'static>(
    context: &Context,
    served: impl Future<Output = T> + 'static,
    queue: Queue,
    carry_out: &dyn Fn(Asked),
) -> Result<T, Error> {
    let close = |_: HeldBy| unreachable!("a pool that is held alone ends who holds it");
    carry_out_and_close_until(context, served, queue, carry_out, close)
}

/// The same where pools are [closed](WhenAsked::Closes) meanwhile.
///
/// # Errors
/// It can't end.
pub fn carry_out_and_close_until<T: 'static>(
    context: &Context,
    served: impl Future<Output = T> + 'static,
    queue: Queue,
    carry_out: &dyn Fn(Asked),
    mut close: impl FnMut(HeldBy),
) -> Result<T, Error> {
    let (mut served, mut queue) = (context.rt().spawn(served), queue);
    loop {
        let next = context.runtime().block_on(async move {
            let next = match select(&mut served, pin!(queue.asked.recv())).await {
                Either::Left((done, _)) => Either::Left(done),
                Either::Right((asked, _)) => Either::Right(asked),
            };
            match next {
                Either::Left(done) => Next::Done(done),
                Either::Right(Some(asked)) => Next::Asked(asked, served, queue),
                Either::Right(None) => unreachable!("the queue holds a sender itself"),
            }
        });
        match next? {
            Next::Done(done) => return Ok(done),
            Next::Asked(errand, still_served, the_queue) => {
                match errand {
                    // Whoever asked is told that who holds it ends.
                    Errand::CarryOut(asked) if asked.pool.is_closed() => drop(asked),
                    Errand::CarryOut(asked) => carry_out(asked),
                    Errand::Close(pool) => close(pool),
                }
                (served, queue) = (still_served, the_queue);
            }
        }
    }
}
