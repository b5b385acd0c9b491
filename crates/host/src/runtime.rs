//! A runtime over real hardware: an executor with its reactor.
//!
//! [`HostRuntime::new`] makes one for the calling thread. Files and block devices are opened against
//! its [`Host`] and belong to that thread from then on.

use crate::answer::{Answer, AtOnce, What};
use crate::blocking::BlockingReactor;
use crate::clock::Clock;
use crate::cover::Cover;
use crate::operation::{OpenFile, Operation};
use crate::pool::Pool;
use crate::processors;
use crate::start_error::StartError;
use crate::threads::ThreadsReactor;
use crate::uring::UringReactor;
use rt::{DeviceRef, IoFuture, Reactor, Rt, Runtime};
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use stdx::ByteCount;

/// An operation on a file in memory that moves no more bytes than this is carried out at once, on the
/// executor's thread; a larger one is handed over. Measured on two processors, tmpfs, at once against
/// handed to io_uring's workers, µs a read at depth 1: 16 KiB 3.3 against 12.8, 128 KiB 18 against 29,
/// 256 KiB 37 against 48, 1 MiB 148 against 160; at depth 8 within 10 % of each other from 64 KiB on,
/// for a third less to equal processor time. More makes timers and other tasks wait longer (256 KiB is
/// about 40 µs); less costs the difference.
const AT_ONCE_BYTES_MAX: usize = 256 << 10;

/// How a runtime does its I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReactorKind {
    /// `io_uring`; where it is refused, threads.
    #[default]
    Auto,
    /// `io_uring`, or an error.
    Uring,
    /// A pool of threads.
    Threads,
    /// Plain system calls on the runtime's own thread, one at a time: as a program does that reads and
    /// writes synchronously. For a worker that stands for such a program; engines would wait for each
    /// I/O in turn.
    Blocking,
}

impl fmt::Display for ReactorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReactorKind::Auto => "auto",
            ReactorKind::Uring => "uring",
            ReactorKind::Threads => "threads",
            ReactorKind::Blocking => "blocking",
        })
    }
}

/// An executor over real hardware. See the [module](self).
pub struct HostRuntime {
    // Dropped in this order: the tasks first, then the reactor with what is under way.
    runtime: Runtime,
    host: Host,
}

impl HostRuntime {
    /// A runtime for this thread.
    ///
    /// # Errors
    /// Where the reactor can't be made; never with [`ReactorKind::Threads`], and with
    /// [`ReactorKind::Auto`] only where files run out.
    pub fn new(kind: ReactorKind) -> Result<HostRuntime, StartError> {
        HostRuntime::with_clock(kind, Clock::start())
    }

    /// A runtime for this thread whose time is that of `clock`: several runtimes with one clock agree
    /// about every [`Instant`](stdx::Instant).
    ///
    /// # Errors
    /// As [`HostRuntime::new`].
    pub fn with_clock(kind: ReactorKind, clock: Clock) -> Result<HostRuntime, StartError> {
        // Whoever started this thread may have been bound for somebody who asks.
        processors::as_started();
        let (reactor, host) = match kind {
            ReactorKind::Threads => threads(clock),
            ReactorKind::Blocking => {
                let reactor = Rc::new(BlockingReactor::new(clock));
                (Rc::clone(&reactor) as Rc<dyn Reactor>, Host::of(Driver::Blocking(reactor)))
            }
            ReactorKind::Uring => uring(UringReactor::new(clock)?),
            ReactorKind::Auto => match UringReactor::new(clock) {
                Ok(reactor) => uring(reactor),
                Err(StartError::UringRefused(_) | StartError::UringTooOld) => threads(clock),
                Err(error) => return Err(error),
            },
        };
        Ok(HostRuntime { runtime: Runtime::new(reactor), host })
    }

    /// Covers all files and block devices that are opened from now on: what is written to them is kept in so much memory, and forgotten with
    /// this runtime ([`cover`](mod@crate::cover)).
    pub fn cover(&mut self, held_max: ByteCount) {
        self.host.cover = Some(Cover::new(held_max));
    }

    /// The executor.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The engine's handle to the executor.
    pub fn rt(&self) -> Rt {
        self.runtime.handle()
    }

    /// What files and block devices are opened against.
    pub fn host(&self) -> Host {
        self.host.clone()
    }
}

fn uring(reactor: UringReactor) -> (Rc<dyn Reactor>, Host) {
    let reactor = Rc::new(reactor);
    (Rc::clone(&reactor) as _, Host::of(Driver::Uring(reactor)))
}

fn threads(clock: Clock) -> (Rc<dyn Reactor>, Host) {
    let reactor = Rc::new(ThreadsReactor::new(clock));
    (Rc::clone(&reactor) as _, Host::of(Driver::Threads(reactor)))
}

/// The reactor of a runtime, as those see it who do I/O by it. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    pub(crate) driver: Driver,
    pub(crate) cover: Option<Rc<Cover>>,
}

#[derive(Clone)]
pub(crate) enum Driver {
    Uring(Rc<UringReactor>),
    Threads(Rc<ThreadsReactor>),
    Blocking(Rc<BlockingReactor>),
}

impl Host {
    pub(crate) fn of(driver: Driver) -> Host {
        Host { driver, cover: None }
    }

    /// The same without a cover.
    pub(crate) fn uncovered(&self) -> Host {
        Host::of(self.driver.clone())
    }

    pub(crate) fn at_once(&self) -> &AtOnce {
        match &self.driver {
            Driver::Uring(reactor) => &reactor.at_once,
            Driver::Threads(reactor) => &reactor.at_once,
            Driver::Blocking(reactor) => &reactor.at_once,
        }
    }

    /// Closes the files and block devices at these paths where devices of this executor have them open for writing, though the devices are
    /// still known: what is asked of one later finds it [gone](rt::IoErrorKind::Gone). What is under way ends before the file is closed.
    pub fn close_writers(&self, paths: &[PathBuf]) {
        self.at_once().writers.close(paths);
    }

    /// Whether nothing that is written reaches a file or block device ([`HostRuntime::cover`]).
    pub fn is_covered(&self) -> bool {
        self.cover.is_some()
    }

    /// A device that is none of this host's, covered where those are.
    pub fn covered(&self, device: DeviceRef) -> DeviceRef {
        match &self.cover {
            Some(cover) => cover.over(device),
            None => device,
        }
    }

    /// Which reactor it is; never [`ReactorKind::Auto`].
    pub fn kind(&self) -> ReactorKind {
        match self.driver {
            Driver::Uring(_) => ReactorKind::Uring,
            Driver::Threads(_) => ReactorKind::Threads,
            Driver::Blocking(_) => ReactorKind::Blocking,
        }
    }

    /// Makes a call that may wait (opening, removing, listing): on this thread where the reactor is the
    /// blocking one, elsewhere on a thread of a pool.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = T>>> {
        if matches!(self.driver, Driver::Blocking(_)) {
            return Box::pin(std::future::ready(job()));
        }
        let (sender, receiver) = rt::sync::oneshot::channel();
        Pool::calls().run(Box::new(move || {
            // Nobody waits any more where the task was cancelled.
            let _ = sender.send(job());
        }));
        Box::pin(async move { receiver.await.expect("a worker finishes each job it took") })
    }

    /// Carries an operation out.
    pub(crate) fn start(&self, file: &Arc<OpenFile>, operation: Operation, what: What) -> IoFuture {
        let at_once = match operation.transfer_bytes() {
            Some(bytes) => bytes <= AT_ONCE_BYTES_MAX,
            // Of a file in memory it is nothing at all.
            None => operation.is_flush(),
        };
        if let Driver::Blocking(reactor) = &self.driver {
            return reactor.at_once.answer(what.result(operation.run(file)));
        }
        if file.in_memory && at_once {
            let result = what.result(operation.run(file));
            return self.at_once().answer(result);
        }
        let (completion, future) = IoFuture::pending();
        let answer = Answer { completion, what };
        match &self.driver {
            Driver::Uring(reactor) => reactor.start(Arc::clone(file), operation, answer),
            Driver::Threads(reactor) => reactor.start(Arc::clone(file), operation, answer),
            Driver::Blocking(_) => unreachable!("it was carried out above"),
        }
        future
    }
}
