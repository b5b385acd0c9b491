//! The reactor over `io_uring`: one ring for each executor, on its thread.
//!
//! **The way of an operation.** `UringReactor::start` puts it in the table of flights and its entry
//! in the submission queue; no system call yet. The executor runs other ready tasks, which put theirs;
//! then [`park`](Reactor::park) hands all over and waits for a completion, in one call (and every few
//! entries before that, see `HAND_OVER_AT`). A completion is
//! given to the operation, which either has another step to make (a short read) or is answered.
//!
//! **Limits.** The table has `FLIGHTS_MAX` places. Every entry in the submission queue belongs to a
//! flight, is the bell's, or cancels a flight, of which `CANCELS_MAX` are queued at a time (others wait); there is room
//! for all of these, so that queue can't overflow, also where the kernel takes nothing for a while. The completion
//! queue is twice as long, so it can't either. Operations beyond the limit wait in `backlog`, in order; each belongs to a request
//! whose memory its owner had already, and costs no more than a table entry.
//!
//! **Why memory is safe.** The kernel reads and writes memory behind the compiler's back from the
//! moment an entry is queued until its completion is taken. For that long:
//!
//! 1. the flight owns the memory: the `BufMut` or the `SgList`, the iovecs, and the open file; all are
//!    heap memory whose place does not depend on that of the flight;
//! 2. flights are owned by the reactor, never by the future that waits for the answer: dropping the
//!    future drops nothing that the kernel uses;
//! 3. a flight leaves the table only when its completion is taken; the table is made for
//!    `FLIGHTS_MAX` flights and never grows, so flights don't even move;
//! 4. between queueing and completion nobody borrows the flight's memory: `Operation::step` and
//!    `Operation::advance` are called only when no entry of the flight is under way;
//! 5. dropping the reactor cancels and awaits all flights. Those that do not end within
//!    `DRAIN_MAX` (a dead network file system) are leaked: never freed memory is sound.
//!
//! **Sockets** have flights too: taking bytes into memory that the flight owns, and waiting for readiness,
//! which has none. Nobody knows when these end, so dropping the future that waits cancels the flight.
//!
//! **A ring that fails.** What the kernel says for the moment (a signal, no memory or room just now) is tried again. Any
//! other refusal to enter the ring says that it can't be used any more (a filter put over the process, its descriptor
//! closed by another's mistake). Then everybody who waits is answered with that error, and whoever begins something
//! after it; the memory of what was under way is leaked, by the rule above. The executor goes on: timers and other
//! threads' wakes work, so that a server can say why it ends.
//!
//! **Setup.** `SINGLE_ISSUER | DEFER_TASKRUN` (Linux 6.1) keep completion work off other processors and
//! run it only when we ask, batched; older kernels get `COOP_TASKRUN` (5.19), then nothing. What is
//! needed at the least is waiting with a timeout (`EXT_ARG`, 5.11); without it, or where io_uring is
//! barred, the reactor can't be made, and [`threads`](crate::threads) takes its place.
//!
//! **The bell.** Other threads end a `park` by a bell (`bell.rs`), for which an entry of the ring's
//! waits while the executor is parked.

use crate::answer::{Answer, AtOnce};
use crate::bell::Bell;
use crate::clock::Clock;
use crate::operation::{OpenFile, Operation, Step, kind_of};
use crate::pool::{self, Pool};
use crate::start_error::StartError;
use crate::sys::{self, Errno};
use io_uring::{IoUring, opcode, squeue, types};
use rt::reactor::Job;
use rt::{BufMut, ComputePlan, IoErrorKind, Parked, Reactor, SgList, Work};
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use stdx::Instant;

/// Entries of the submission queue. More lets more operations be under way; each costs 64 bytes of
/// locked memory.
const RING_ENTRIES: u32 = 512;

/// Entries that cancel a flight and that the kernel has not taken. They pile up only where it takes none.
const CANCELS_MAX: usize = 64;

/// Operations under way at the most: all other entries but the bell's.
const FLIGHTS_MAX: usize = RING_ENTRIES as usize - CANCELS_MAX - 1;

/// How long `park` waits at a time where the ring has failed, and no other thread could end it.
const FAILED_PARK: Duration = Duration::from_millis(5);

/// Entries that are handed to the kernel as soon as so many are queued, in the midst of the executor's
/// round. The kernel starts the disk only when it has looked at all that one call brings, so the disk
/// idles for as long; fewer make more calls. Measured on a virtio disk, 4 KiB reads at depth 32, of
/// fio's rate: all in one call 0.82, 8 at a time 0.93, 4 or 1 at a time 1.00.
const HAND_OVER_AT: usize = 4;

/// How long dropping the reactor waits for operations under way before it leaks their memory.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// The completions that are not of a flight.
const BELL: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// What the kernel works on.
enum Flight {
    File(FileFlight),
    Socket(SocketFlight),
}

/// An operation on a socket: what is to be done, and who is told.
struct SocketFlight {
    /// Kept open as long as the kernel uses it.
    socket: Arc<OwnedFd>,
    what: SocketWork,
    place: Rc<RefCell<Place>>,
}

enum SocketWork {
    /// Take some bytes into the memory from this index on.
    Receive(BufMut, usize),
    /// Wait for these `poll` events.
    Ready(libc::c_short),
}

/// What a socket's flight and the future that waits for it share.
#[derive(Default)]
struct Place {
    /// Where the flight is in the table, once the kernel has it.
    key: Option<usize>,
    /// The memory of a `Receive`, and how much came.
    end: Option<(SocketWork, Result<usize, Errno>)>,
    waker: Option<Waker>,
    /// Nobody waits any more.
    dropped: bool,
}

/// An operation on a file that the kernel works on, and all that it works with.
struct FileFlight {
    file: Arc<OpenFile>,
    operation: Operation,
    answer: Answer,
    /// The list of pieces of the step under way, where there is more than one.
    iovecs: Vec<libc::iovec>,
}

/// Who is to be told, once no borrow is held.
enum Ended {
    File(Answer, Result<SgList, IoErrorKind>),
    Socket(Rc<RefCell<Place>>),
}

type Finished = Vec<Ended>;

struct Ring {
    ring: IoUring,
    flights: Slab<Flight>,
    backlog: VecDeque<Flight>,
    bell: Arc<Bell>,
    bell_armed: bool,
    /// Entries queued since the kernel was last entered.
    queued: usize,
    /// Cancelling entries since the kernel last took all that was queued.
    cancels_queued: usize,
    /// Flights to be cancelled for which the queue had no room.
    cancels: Vec<usize>,
    /// Why the ring can't be used any more.
    failed: Option<Errno>,
    /// Keys of flights that have another step to make; here only so as to keep its memory.
    again: Vec<usize>,
}

/// See the [module](self).
pub struct UringReactor {
    clock: Clock,
    processors: usize,
    ring: RefCell<Ring>,
    bell: Arc<Bell>,
    finished: RefCell<Finished>,
    pub(crate) at_once: AtOnce,
    /// The ring must be used by the thread that made it (`SINGLE_ISSUER`).
    not_send: PhantomData<*const ()>,
}

impl UringReactor {
    /// A reactor with a ring of its own, for this thread.
    ///
    /// # Errors
    /// Where io_uring is barred or too old, or files run out.
    pub fn new(clock: Clock) -> Result<UringReactor, StartError> {
        let bell = Bell::new().map_err(|errno| StartError::EventFd(errno.into()))?;
        let bell = Arc::new(bell);
        let ring = Ring {
            ring: build()?,
            flights: Slab::with_capacity(FLIGHTS_MAX),
            backlog: VecDeque::new(),
            bell: Arc::clone(&bell),
            bell_armed: false,
            queued: 0,
            cancels_queued: 0,
            cancels: Vec::new(),
            failed: None,
            again: Vec::new(),
        };
        Ok(UringReactor {
            clock,
            processors: pool::processors(),
            ring: RefCell::new(ring),
            bell,
            finished: RefCell::default(),
            at_once: AtOnce::default(),
            not_send: PhantomData,
        })
    }

    /// Begins an operation; `answer` is given when it is done.
    pub(crate) fn start(&self, file: Arc<OpenFile>, operation: Operation, answer: Answer) {
        self.begin(Flight::File(FileFlight { file, operation, answer, iovecs: Vec::new() }));
    }

    /// Takes some bytes from a socket into `into[from..]`; answers with the memory and how many came.
    pub(crate) async fn receive(
        self: Rc<Self>,
        socket: Arc<OwnedFd>,
        into: BufMut,
        from: usize,
    ) -> Result<(BufMut, usize), Errno> {
        match self.on_socket(socket, SocketWork::Receive(into, from)).await {
            (SocketWork::Receive(into, _), result) => result.map(|count| (into, count)),
            // Only a ring that failed keeps the memory.
            (SocketWork::Ready(_), result) => Err(result.err().unwrap_or(Errno(libc::EIO))),
        }
    }

    /// Waits until a socket is ready for these `poll` events, or broken.
    pub(crate) async fn ready(
        self: Rc<Self>,
        socket: Arc<OwnedFd>,
        events: libc::c_short,
    ) -> Result<(), Errno> {
        self.on_socket(socket, SocketWork::Ready(events)).await.1.map(drop)
    }

    fn on_socket(self: Rc<Self>, socket: Arc<OwnedFd>, what: SocketWork) -> OnSocket {
        let place = Rc::new(RefCell::new(Place::default()));
        self.begin(Flight::Socket(SocketFlight { socket, what, place: Rc::clone(&place) }));
        OnSocket { reactor: self, place }
    }

    fn begin(&self, flight: Flight) {
        let mut ring = self.ring.borrow_mut();
        // A ring that failed answers what is in its backlog at the next look.
        if ring.failed.is_none() && ring.flights.len() < FLIGHTS_MAX && ring.backlog.is_empty() {
            ring.launch(flight);
            if ring.queued >= HAND_OVER_AT {
                ring.enter(0, None);
            }
        } else {
            ring.backlog.push_back(flight);
        }
    }

    /// Looks at the ring with `look`, then answers what has come.
    fn take_completions(&self, look: impl FnOnce(&mut Ring)) {
        let mut finished = self.finished.take();
        {
            let mut ring = self.ring.borrow_mut();
            look(&mut ring);
            ring.reap(&mut finished);
        }
        // No borrow is held: an answer may drop a task, and what that owns may submit.
        for ended in finished.drain(..) {
            match ended {
                Ended::File(answer, end) => answer.give(end),
                Ended::Socket(place) => {
                    let waker = place.borrow_mut().waker.take();
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
            }
        }
        self.finished.replace(finished);
    }
}

/// The end of a socket's flight; dropped before, cancels it.
struct OnSocket {
    reactor: Rc<UringReactor>,
    place: Rc<RefCell<Place>>,
}

impl Future for OnSocket {
    type Output = (SocketWork, Result<usize, Errno>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut place = self.place.borrow_mut();
        match place.end.take() {
            Some(end) => Poll::Ready(end),
            None => {
                place.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for OnSocket {
    fn drop(&mut self) {
        let key = {
            let mut place = self.place.borrow_mut();
            place.dropped = true;
            place.key.take()
        };
        if let Some(key) = key {
            self.reactor.ring.borrow_mut().cancel(key);
        }
    }
}

impl Reactor for UringReactor {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn poll(&self) {
        self.at_once.settle();
        self.take_completions(|ring| {
            let submission = ring.ring.submission();
            let enter = !submission.is_empty() || submission.taskrun() || submission.cq_overflow();
            drop(submission);
            if enter && ring.failed.is_none() {
                ring.enter(0, None);
            }
        });
    }

    fn park(&self, deadline: Option<Instant>) -> Parked {
        // What is owed wakes a task: hand over and look, but don't wait.
        let wait = !self.at_once.settle();
        let timeout = deadline.map(|deadline| deadline.since(self.clock.now()));
        self.take_completions(|ring| {
            if ring.failed.is_some() {
                if wait && ring.backlog.is_empty() {
                    let nap = timeout.map_or(FAILED_PARK, |timeout| timeout.min(FAILED_PARK));
                    std::thread::sleep(nap);
                }
                return;
            }
            let wait = wait && ring.ring.completion().is_empty() && self.bell.listen();
            if wait {
                ring.arm_bell();
            }
            ring.enter(usize::from(wait), timeout.filter(|_| wait));
            self.bell.ignore();
            // Woken for one completion, the kernel runs the deferred work of one, though more may have
            // come: it would make us submit one, and let the disk finish that alone.
            if wait && ring.ring.submission().taskrun() {
                ring.enter(0, None);
            }
        });
        self.bell.ignore();
        // Wakers may be held by threads that the reactor knows nothing of, so a real run never knows
        // that waiting would not end.
        Parked::LookAgain
    }

    fn unparker(&self) -> Arc<dyn rt::reactor::Unpark> {
        Arc::clone(&self.bell) as _
    }

    fn plan(&self, work: Work) -> ComputePlan {
        pool::plan(work, self.processors)
    }

    fn offload(&self, job: Job) {
        Pool::compute().run(job);
    }

    fn processor_time(&self) -> Duration {
        self.clock.processor_time()
    }
}

/// The best ring that this kernel makes.
fn build() -> Result<IoUring, StartError> {
    let mut last = None;
    for level in 0..3 {
        let mut builder = IoUring::builder();
        builder.dontfork();
        match level {
            0 => builder
                .setup_single_issuer()
                .setup_defer_taskrun()
                .setup_coop_taskrun()
                .setup_taskrun_flag(),
            1 => builder.setup_coop_taskrun().setup_taskrun_flag(),
            _ => &mut builder,
        };
        match builder.build(RING_ENTRIES) {
            Ok(ring) if ring.params().is_feature_ext_arg() => return Ok(ring),
            Ok(_) => return Err(StartError::UringTooOld),
            // EINVAL: the kernel does not know a flag.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            Err(error) => return Err(StartError::UringRefused(error)),
        }
    }
    Err(last.map_or(StartError::UringTooOld, StartError::UringRefused))
}

impl Ring {
    fn launch(&mut self, flight: Flight) {
        assert!(self.flights.len() < FLIGHTS_MAX, "the table of flights never grows");
        let place = match &flight {
            Flight::Socket(flight) if flight.place.borrow().dropped => return,
            Flight::Socket(flight) => Some(Rc::clone(&flight.place)),
            Flight::File(_) => None,
        };
        let key = self.flights.insert(flight);
        if let Some(place) = place {
            place.borrow_mut().key = Some(key);
        }
        self.queue_step(key);
    }

    /// Asks the kernel to end a flight now. It ends by its own completion, as every flight.
    fn cancel(&mut self, key: usize) {
        self.cancels.push(key);
        self.queue_cancels();
    }

    /// Queues what cancels flights, as far as there is room.
    fn queue_cancels(&mut self) {
        while self.cancels_queued < CANCELS_MAX
            && let Some(key) = self.cancels.pop()
        {
            // Where another flight has the place by now, its own end was taken, and this one is not dropped.
            let is_dropped = self.flights.get(key).is_some_and(Flight::is_dropped);
            if !is_dropped {
                continue;
            }
            let entry = opcode::AsyncCancel::new(key as u64).build().user_data(CANCEL);
            // SAFETY: the entry points to nothing.
            unsafe { self.push(&entry) };
            self.cancels_queued += 1;
        }
    }

    /// Queues the next step of a flight of which nothing is under way.
    fn queue_step(&mut self, key: usize) {
        let flight = &mut self.flights[key];
        let entry = flight.entry().user_data(key as u64);
        // SAFETY: what the entry points to belongs to the flight, which stays in the table until the
        // completion is taken. See "Why memory is safe" above.
        unsafe { self.push(&entry) };
    }

    /// # Safety
    /// What the entry points to stays good and untouched until its completion is taken.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the caller's promise.
        let pushed = unsafe { self.ring.submission().push(entry) };
        self.queued += 1;
        assert!(pushed.is_ok(), "the submission queue has room for all flights and the bell");
    }

    fn arm_bell(&mut self) {
        if self.bell_armed {
            return;
        }
        self.bell_armed = true;
        let entry = self.bell.entry().user_data(BELL);
        // SAFETY: the bell lives as long as the ring, which waits for this entry when it is dropped;
        // where it can't wait longer, the bell is never given back.
        unsafe { self.push(&entry) };
    }

    /// Hands over what is queued, runs deferred completion work, and waits for `want` completions, but
    /// not longer than `timeout`.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) {
        self.queued = 0;
        self.queue_cancels();
        let submitter = self.ring.submitter();
        let result = match timeout {
            Some(timeout) => {
                let timeout = types::Timespec::from(timeout);
                submitter.submit_with_args(want, &types::SubmitArgs::new().timespec(&timeout))
            }
            None => submitter.submit_and_wait(want),
        };
        match result.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO)) {
            // The time is over; a signal; the kernel lacks memory or room just now. What was not taken
            // stays queued, and the executor looks again.
            Ok(_) | Err(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => {}
            Err(errno) => self.failed = Some(Errno(errno)),
        }
        if self.cancels_queued > 0 && self.ring.submission().is_empty() {
            self.cancels_queued = 0;
        }
    }

    /// Ends all that waits for a ring that failed with this error.
    fn give_up(&mut self, errno: Errno, finished: &mut Finished) {
        let flights = self.flights.drain().map(|flight| (flight, true));
        let waiting = self.backlog.drain(..).map(|flight| (flight, false));
        for (flight, may_be_used) in flights.chain(waiting) {
            let lent = match flight {
                Flight::File(FileFlight { file, operation, answer, iovecs }) => {
                    finished.push(Ended::File(answer, Err(kind_of(errno))));
                    (Some((file, operation, iovecs)), None)
                }
                Flight::Socket(SocketFlight { socket, what, place }) => {
                    {
                        let mut place = place.borrow_mut();
                        place.key = None;
                        // What the kernel may still write to is not handed on.
                        place.end = Some((SocketWork::Ready(0), Err(errno)));
                    }
                    finished.push(Ended::Socket(place));
                    (None, Some((socket, what)))
                }
            };
            if may_be_used {
                // See "Why memory is safe": leaked memory is sound.
                std::mem::forget(lent);
            }
        }
    }

    /// Takes the completions that are there; what is done goes to `finished`.
    fn reap(&mut self, finished: &mut Finished) {
        if let Some(errno) = self.failed {
            return self.give_up(errno, finished);
        }
        let mut again = std::mem::take(&mut self.again);
        for entry in self.ring.completion() {
            match entry.user_data() {
                BELL => self.bell_armed = false,
                CANCEL => {}
                key => {
                    let key = key as usize;
                    let result = result_of(entry.result());
                    if let Flight::File(flight) = &mut self.flights[key] {
                        match flight.operation.advance(result, &flight.file) {
                            None => again.push(key),
                            Some(end) => {
                                if let Flight::File(flight) = self.flights.remove(key) {
                                    finished.push(Ended::File(flight.answer, end));
                                }
                            }
                        }
                    } else if let Flight::Socket(flight) = self.flights.remove(key) {
                        {
                            let mut place = flight.place.borrow_mut();
                            place.key = None;
                            place.end = Some((flight.what, result));
                        }
                        finished.push(Ended::Socket(flight.place));
                    }
                }
            }
        }
        for key in again.drain(..) {
            self.queue_step(key);
        }
        self.again = again;
        while self.flights.len() < FLIGHTS_MAX
            && let Some(flight) = self.backlog.pop_front()
        {
            self.launch(flight);
        }
    }
}

fn result_of(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno(-result))
}

impl Flight {
    /// Whether nobody waits for it any more, so that it may be cancelled.
    fn is_dropped(&self) -> bool {
        matches!(self, Flight::Socket(flight) if flight.place.borrow().dropped)
    }

    /// The entry of the next step.
    fn entry(&mut self) -> squeue::Entry {
        match self {
            Flight::File(flight) => flight.entry(),
            Flight::Socket(flight) => flight.entry(),
        }
    }
}

impl SocketFlight {
    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.socket.as_raw_fd());
        match &mut self.what {
            SocketWork::Receive(into, from) => {
                let rest = &mut into[*from..];
                let len = rest.len().min(sys::TRANSFER_BYTES_MAX);
                opcode::Recv::new(fd, rest.as_mut_ptr(), len as u32).build()
            }
            SocketWork::Ready(events) => opcode::PollAdd::new(fd, *events as u32).build(),
        }
    }
}

impl FileFlight {
    /// The entry of the next step.
    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.file.as_raw_fd());
        match self.operation.step(&self.file) {
            Step::Read { into, at } => {
                opcode::Read::new(fd, into.as_mut_ptr(), into.len() as u32).offset(at).build()
            }
            Step::Write { pieces, at, durable } => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                self.iovecs.clear();
                self.iovecs.extend(pieces.slices().map(|slice| libc::iovec {
                    iov_base: slice.as_ptr().cast_mut().cast(),
                    iov_len: slice.len(),
                }));
                match &self.iovecs[..] {
                    [only] => opcode::Write::new(fd, only.iov_base.cast(), only.iov_len as u32)
                        .offset(at)
                        .rw_flags(flags)
                        .build(),
                    all => opcode::Writev::new(fd, all.as_ptr(), all.len() as u32)
                        .offset(at)
                        .rw_flags(flags)
                        .build(),
                }
            }
            Step::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Step::Allocate { mode, at, len } => {
                opcode::Fallocate::new(fd, len).offset(at).mode(mode).build()
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.backlog.clear();
        if self.failed.is_some() {
            // Nothing tells any more when the kernel is done with them.
            std::mem::forget(std::mem::take(&mut self.flights));
            std::mem::forget(Arc::clone(&self.bell));
            return;
        }
        if self.flights.is_empty() && !self.bell_armed {
            return;
        }
        self.bell.signal();
        self.enter(0, None);
        for (key, _) in &self.flights {
            let entry = opcode::AsyncCancel::new(key as u64).build().user_data(CANCEL);
            // SAFETY: the entry points to nothing.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_err() {
                break; // What is not cancelled is waited for all the same.
            }
        }
        let clock = Clock::start();
        let deadline = Instant::START + DRAIN_MAX;
        while !self.flights.is_empty() || self.bell_armed {
            let left = deadline.since(clock.now());
            if left.is_zero() {
                // The kernel may still write to this memory, so it is never given back.
                std::mem::forget(std::mem::take(&mut self.flights));
                std::mem::forget(Arc::clone(&self.bell));
                return;
            }
            self.enter(1, Some(left));
            if self.failed.is_some() {
                std::mem::forget(std::mem::take(&mut self.flights));
                std::mem::forget(Arc::clone(&self.bell));
                return;
            }
            for entry in self.ring.completion() {
                match entry.user_data() {
                    BELL => self.bell_armed = false,
                    CANCEL => {}
                    // Its answer is dropped with it: nobody polls a future once its executor is gone.
                    key => drop(self.flights.try_remove(key as usize)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: a ring that fails and takes the process with it, or leaves somebody waiting.

    use super::*;
    use crate::{FileDevice, FileOptions, HostRuntime, ReactorKind};
    use rt::{Device, Request};
    use std::fs::File;
    use stdx::{ByteCount, Offset};

    #[test]
    fn a_ring_that_fails_answers_with_its_error_who_waits_and_who_comes_later() {
        let reactor = match UringReactor::new(Clock::start()) {
            Ok(reactor) => Rc::new(reactor),
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let runtime = rt::Runtime::new(Rc::clone(&reactor) as _);
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let socket = Arc::new(OwnedFd::from(one));
        let idle = Rc::clone(&reactor).receive(socket, BufMut::zeroed(100), 0);
        let idle = runtime.handle().spawn(idle);
        let host = crate::Host::of(crate::runtime::Driver::Uring(Rc::clone(&reactor)));
        // Not below /dev/shm: what is in memory never goes through the ring.
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/uring.rs");
        let options = FileOptions { direct: false, read_only: true };
        let device = FileDevice::open(&host, &path, options).expect("opened");
        let rt = runtime.handle();
        let outcome = runtime.block_on(async move {
            rt.sleep(Duration::from_millis(1)).await;
            // As where another part of the process closes a descriptor that is not its own.
            let null = File::open("/dev/null").expect("it is there");
            let fd = reactor.ring.borrow().ring.as_raw_fd();
            // SAFETY: both numbers are open; the ring's is closed once, by its owner, as ever.
            assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), fd) }, fd);
            let read = device.submit(Request::read(Offset(0), ByteCount(512))).await;
            let later = device.submit(Request::read(Offset(0), ByteCount(512))).await;
            rt.sleep(Duration::from_millis(20)).await;
            (idle.await.err(), read.err().map(|e| e.kind), later.err().map(|e| e.kind))
        });
        let (idle, read, later) = outcome.expect("no stall");
        assert!(idle.is_some(), "who waited is told");
        assert!(read.is_some() && read == later, "{read:?} {later:?}");
        assert!(HostRuntime::new(ReactorKind::Uring).is_ok(), "others are not touched");
    }
}
