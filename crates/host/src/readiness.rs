//! Waiting for sockets without `io_uring`: one thread of the process that waits in `poll(2)`.
//!
//! The threads reactor can't lend a thread to each idle connection. So it asks here: [`ready`] hands a
//! socket to the thread, which answers once the socket is ready or broken; the bytes are then moved on the
//! executor's own thread by calls that don't wait. Nothing is lent, so nothing can be given back too early.
//!
//! A wait is forgotten when the future that waits is dropped; an eventfd tells the thread of new waits and of
//! those to forget. At most [`WAITS_MAX`] wait at a time. The thread lives as long as the process.

use crate::processors;
use crate::sys::{self, Errno, EventFd};
use rt::sync::oneshot;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Sockets waited for at a time. More serve more connections; each look costs the kernel time for all.
const WAITS_MAX: usize = 1024;

struct Wait {
    socket: Arc<OwnedFd>,
    events: libc::c_short,
    answer: oneshot::Sender<()>,
}

struct Waiter {
    /// What the thread does not know yet.
    new: Mutex<Vec<Wait>>,
    signal: EventFd,
}

impl Waiter {
    fn lock(&self) -> MutexGuard<'_, Vec<Wait>> {
        // Nothing under the lock can leave the list half changed.
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a socket is ready for these `poll` events, or broken.
pub(crate) async fn ready(socket: Arc<OwnedFd>, events: libc::c_short) -> Result<(), Errno> {
    let waiter = waiter()?;
    let (answer, told) = oneshot::channel();
    let forget = Forget(waiter);
    waiter.lock().push(Wait { socket, events, answer });
    waiter.signal.signal();
    let told = told.await;
    std::mem::forget(forget);
    // The thread drops an answer only where there are too many.
    told.map_err(|_| Errno(libc::ENOBUFS))
}

/// Has the thread look for answers that nobody waits for.
struct Forget(&'static Waiter);

impl Drop for Forget {
    fn drop(&mut self) {
        self.0.signal.signal();
    }
}

/// The thread's end of it, started when it is first asked for.
fn waiter() -> Result<&'static Waiter, Errno> {
    static WAITER: OnceLock<Result<&'static Waiter, Errno>> = OnceLock::new();
    *WAITER.get_or_init(|| {
        let waiter: &'static Waiter =
            Box::leak(Box::new(Waiter { new: Mutex::default(), signal: EventFd::new()? }));
        let started =
            std::thread::Builder::new().name("sockets".into()).spawn(move || wait_for_ever(waiter));
        match started {
            Ok(_) => Ok(waiter),
            Err(error) => Err(Errno(error.raw_os_error().unwrap_or(libc::EAGAIN))),
        }
    })
}

fn wait_for_ever(waiter: &Waiter) {
    processors::as_started();
    let mut waits: Vec<Wait> = Vec::new();
    let mut polled = Vec::new();
    loop {
        polled.clear();
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        polled.push(entry(waiter.signal.as_fd().as_raw_fd(), libc::POLLIN));
        polled.extend(waits.iter().map(|wait| entry(wait.socket.as_raw_fd(), wait.events)));
        if sys::poll(&mut polled).is_err() {
            continue; // A signal, or memory is short: look again.
        }
        let signalled = polled.first().is_some_and(|entry| entry.revents != 0);
        // Backwards, so that what is moved into a gap was looked at already.
        for at in (0..waits.len()).rev() {
            let ready = polled.get(at + 1).is_some_and(|entry| entry.revents != 0);
            if ready {
                let wait = waits.swap_remove(at);
                // Nobody waits any more where the future was dropped.
                let _ = wait.answer.send(());
            }
        }
        if signalled {
            waiter.signal.take();
            waits.retain(|wait| !wait.answer.is_closed());
            waits.append(&mut waiter.lock());
            waits.truncate(WAITS_MAX);
        }
    }
}
