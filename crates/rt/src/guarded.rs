//! A panic that ends one task and not the program.
//!
//! A panic is a bug of ours that an assertion found. The executor lets it through to whoever called
//! [`Runtime::block_on`](crate::Runtime::block_on), and in a server of several sets and many clients that ends all of
//! them. Who can say which part of a program a panic leaves unfit asks for it as a value:
//! [`catching_panics`] around a future, or [`Rt::spawn_guarded`](crate::Rt::spawn_guarded) for a task. The hook has printed where it
//! happened by then, as always.
//!
//! **Where it is safe.** The future is dropped, so its locks are let go, its own requests abandoned (the devices below
//! carry them out, or not: rule 5 of [`Device`](crate::Device)), and what it alone owned is gone. What it *shared* may
//! have been left half changed: a count that was raised and not lowered, a table whose two halves don't agree, a lock
//! that is free over rows that are half written. So:
//!
//! * The task of a connection, with an inbox, an outbox and limits of its own: safe; its client is hung up on.
//! * A request within a device (a RAID set's stripe cache, a pool's tables): **not** safe to go on with. Whoever catches
//!   it gives the device no further request and answers for it with errors, since what it would write after that may
//!   be wrong. What was acknowledged before stays as the last flush left it, as after a power cut.
//! * State that is written to disk in several steps: as after a power cut, and never gone on with in memory.
//!
//! It catches nothing where panics abort (`panic = "abort"`), no stack that overflows, and no second panic: a destructor
//! that asserts while the first unwinds ends the program, as everywhere in Rust, so destructors don't assert.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What is kept of a panic's message, which may quote anything.
const MESSAGE_CHARS_MAX: usize = 300;

/// A task ended by a panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} hit a bug in spindle and was ended: {message}")]
pub struct Panicked {
    /// Which, in words for a sentence: `the connection of 127.0.0.1:4711`.
    pub task: Arc<str>,
    /// What the panic said, on one line.
    pub message: String,
}

/// Carries a future out; a panic of it is [`Panicked`]. See the [module](self) for where that may be gone on from.
pub fn catching_panics<F: Future + Unpin>(task: impl Into<Arc<str>>, future: F) -> Guarded<F> {
    Guarded { task: task.into(), future: Some(future) }
}

/// See [`catching_panics`].
pub struct Guarded<F> {
    task: Arc<str>,
    /// `None` once it has ended.
    future: Option<F>,
}

impl<F: Future + Unpin> Future for Guarded<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.future.as_mut().expect("a future is not polled after its end");
        // What it shares may be half changed: that is for the caller to know, and the module says so.
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(context)));
        let panic = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => {
                self.future = None;
                return Poll::Ready(Ok(output));
            }
            Err(panic) => panic,
        };
        let future = self.future.take();
        // What it owns may assert when it is dropped; the first panic is the one to tell.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
        let task = Arc::clone(&self.task);
        Poll::Ready(Err(Panicked { task, message: message_of(&*panic) }))
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text.as_str(),
        _ => "a panic without words",
    };
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MESSAGE_CHARS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    //! What could break: a panic that reaches the executor all the same, tasks beside it that end too, what the
    //! future owned kept or dropped twice.

    use crate::virtual_time::{run, runtime};
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    /// Counts that it was dropped.
    struct Owned(Rc<Cell<u32>>);

    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_task_that_panics_ends_alone_and_says_what_it_was() {
        let runtime = runtime();
        let rt = runtime.handle();
        let dropped = Rc::new(Cell::new(0));
        let owned = Owned(Rc::clone(&dropped));
        let (one, other) = (rt.clone(), rt.clone());
        let bad = rt.spawn_guarded("the task of a test", async move {
            let _owned = owned;
            one.sleep(Duration::from_secs(1)).await;
            if one.now() > stdx::Instant::START {
                panic!("one and one\nare {}", 3);
            }
            7
        });
        let good = rt.spawn_guarded("another", async move {
            other.sleep(Duration::from_secs(2)).await;
            8
        });
        let (bad, good) = run(&runtime, async move { (bad.await, good.await) });
        let bad = bad.expect_err("it panicked");
        assert_eq!((&*bad.task, bad.message.as_str()), ("the task of a test", "one and one are 3"));
        assert_eq!(good, Ok(8));
        assert_eq!(dropped.get(), 1, "what it owned is gone");
    }
}
