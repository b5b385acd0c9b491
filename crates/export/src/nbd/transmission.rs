//! Requests and replies of one connection.
//!
//! Two loops in one task. One reads requests, checks them, and starts each on the volume; most devices that
//! have the answer in memory give it at once, and then the reply is put down without a task. A request that
//! has to wait goes on in a task of its own, and later ones overtake it. The other loop writes the
//! replies that are there. It is polled after the first, so that replies to all requests of one read leave
//! in one write.
//!
//! **Limits.** Before a request is started, or its payload is read, its [`Share`] is taken, of the connection's limits
//! and of [all clients' memory](super::memory); where it does not
//! fit, reading waits. The share is given back when the reply was written. A client that holds a share without moving
//! on, by not taking replies or stopping within a write, may do so until others wait for memory; then it is hung up on
//! after [`STALL_MAX`].
//!
//! **The end.** The client disconnects, breaks the protocol, or goes; or the server stops. Then no further
//! request is read; those under way end, and their replies are written where somebody still takes them: for
//! [`LINGER_MAX`] where the client has ended its part of the stream (many have simply gone; some only say that they ask
//! no more), and not where others wait for the memory. The connection's place is free at once, and what
//! is under way ends by itself: steps of long requests are not gone on with, the rest keeps its share until it is done.

use super::handshake::Agreed;
use super::inbox::Inbox;
use super::outbox::{Outbox, Share};
use super::protocol::{
    BASE_ALLOCATION_ID, Command, Errno, Request, chunk, command_flag, only_chunk, simple_reply,
};
use super::shared::{Shared, Using};
use super::volume::{Asker, Outcome, Refusal};
use super::{
    IN_FLIGHT_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX, LINGER_MAX, REQUEST_BYTES_MAX, STALL_MAX,
    STALL_PART_BYTES,
};
use futures_util::future::{Either, select};
use rt::{Buf, BufMut, NoMemory, Panicked, SgList, StreamError, StreamRef, catching_panics};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Bytes of a request that is begun by itself: others run before the next such one, of whatever connection. What lies in
/// the system's memory is copied where a request begins, so that many would keep everybody waiting. More makes fewer
/// turns of the executor.
const LARGE_BYTES: usize = 512 << 10;

/// Bytes of a refusal's text that a client is told.
const TEXT_BYTES_MAX: usize = 256;

/// A connection whose client chose an export.
struct Connection {
    shared: Rc<Shared>,
    agreed: Agreed,
    export: Using,
    /// What a request's panic is told by.
    name: Arc<str>,
    asker: Asker,
    outbox: RefCell<Outbox>,
    taken: Cell<Share>,
    /// No further request is read.
    reading_over: Cell<bool>,
    /// Nobody takes replies any more.
    broken: Cell<bool>,
    /// Reading waits for what replies give back.
    starved: Cell<bool>,
    /// The connection's task, while a loop of it waits for what other tasks do.
    waker: RefCell<Option<Waker>>,
}

/// Why no further request is read.
enum End {
    /// The client has ended its part of the stream, or the stream is broken.
    Left,
    /// It said goodbye or broke the protocol, or the server stops.
    Over,
}

impl From<StreamError> for End {
    fn from(_: StreamError) -> End {
        End::Left
    }
}

/// Serves a connection to its end.
pub(crate) async fn transmit(shared: &Rc<Shared>, mut agreed: Agreed, inbox: Inbox) {
    let mut place = agreed.place.take();
    let stream = Rc::clone(inbox.stream());
    let name = format!("a request of {} to '{}'", stream.peer(), agreed.export.name);
    let connection = Rc::new(Connection {
        shared: Rc::clone(shared),
        export: Using::new(Rc::clone(&agreed.export)),
        agreed,
        name: name.into(),
        asker: Asker::default(),
        outbox: RefCell::default(),
        taken: Cell::default(),
        reading_over: Cell::new(false),
        broken: Cell::new(false),
        starved: Cell::new(false),
        waker: RefCell::default(),
    });
    let mut reader = Some(Box::pin(connection.read_requests(inbox)));
    let mut writer = Box::pin(connection.write_replies(&stream));
    let mut lingering = None;
    poll_fn(|context| {
        if let Some(reading) = &mut reader
            && (connection.broken.get() || reading.as_mut().poll(context).is_ready())
        {
            reader = None;
            connection.reading_over.set(true);
        }
        if connection.asker.left.get() {
            // Others may have it; who lingers is bounded by itself.
            place = None;
            let linger = || Box::pin(shared.linger());
            if lingering.get_or_insert_with(linger).as_mut().poll(context).is_ready() {
                connection.broken.set(true);
                return Poll::Ready(());
            }
        }
        let written = writer.as_mut().poll(context);
        // What the writer found broken ends the reader too, and then the writer.
        if connection.broken.get() && reader.is_some() {
            context.waker().wake_by_ref();
        }
        written
    })
    .await;
    drop((reader, writer, lingering, place));
    if connection.broken.get() {
        connection.asker.left.set(true);
        if let Some((_, share)) = connection.outbox.borrow_mut().take() {
            connection.give_back(share);
        }
    } else {
        // A client that left may not care; one that waits reads the end.
        let _ = select(stream.shutdown(), pin!(shared.rt.sleep(LINGER_MAX))).await;
    }
}

impl Connection {
    /// Reads and starts requests, until there are to be no more; then waits until the client is gone.
    async fn read_requests(self: &Rc<Self>, inbox: Inbox) {
        let stream = Rc::clone(inbox.stream());
        let end = self.read_on(inbox).await;
        self.reading_over.set(true);
        if let Err(End::Over) = end {
            stream.hung_up().await;
        }
        self.asker.left.set(true);
    }

    async fn read_on(self: &Rc<Self>, mut inbox: Inbox) -> Result<(), End> {
        let stream = Rc::clone(inbox.stream());
        let (all, its) = (pin!(self.shared.stop.wait()), pin!(self.export.stop.wait()));
        let mut stopped = pin!(async {
            select(all, its).await;
        });
        loop {
            if inbox.len() < Request::HEAD {
                match select(pin!(inbox.fill(Request::HEAD)), stopped.as_mut()).await {
                    Either::Left((filled, _)) => filled?,
                    Either::Right(_) => return Err(End::Over),
                }
            }
            let request = Request::decode(inbox.take(Request::HEAD)).ok_or(End::Over)?;
            let refusal = match request.command {
                Command::Disconnect => return Err(End::Over),
                Command::Write if request.len > REQUEST_BYTES_MAX => return Err(End::Over),
                _ => self.check(&request).err(),
            };
            let carries = if request.command == Command::Write { request.len as usize } else { 0 };
            let bytes = match &refusal {
                Some(_) => 0,
                None => self.export.volume.memory_for(&request),
            };
            let share = Share { requests: 1, bytes };
            let taken = match self.try_take_share(share) {
                Some(taken) => taken,
                None => {
                    let taken = pin!(self.take_share(share));
                    self.noticing_its_end(&stream, stopped.as_mut(), taken).await?
                }
            };
            let mut payload = None;
            let refusal = match refusal {
                None if carries > 0 => match BufMut::try_for_overwrite(carries) {
                    Ok(memory) => {
                        payload = Some(memory);
                        None
                    }
                    Err(NoMemory) => Some(Refusal::new(Errno::NoMemory, "no memory left")),
                },
                other => other,
            };
            let payload = match carries {
                0 => SgList::new(),
                _ => {
                    // A write that has not come as a whole is not under way: who stalls in it holds up no stop.
                    let carried = pin!(self.carried(&mut inbox, payload, carries));
                    match select(carried, stopped.as_mut()).await {
                        Either::Left((carried, _)) => carried?,
                        Either::Right(_) => return Err(End::Over),
                    }
                }
            };
            match refusal {
                Some(refusal) => self.reply(&request, taken.keep(), Err(refusal)),
                None if bytes < LARGE_BYTES => self.start(request, payload, taken.keep()),
                None => {
                    let turn = pin!(self.shared.begin.wait());
                    let _turn = self.noticing_its_end(&stream, stopped.as_mut(), turn).await?;
                    self.start(request, payload, taken.keep());
                    self.shared.rt.yield_now().await;
                }
            }
        }
    }

    /// Waits for something of ours. The client is not read from meanwhile, so its end is found in another way.
    async fn noticing_its_end<T>(
        &self,
        stream: &StreamRef,
        stopped: impl Future<Output = ()> + Unpin,
        mut wait: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, End> {
        if let Some(there) = poll_once(wait.as_mut()) {
            return Ok(there);
        }
        let hung_up = pin!(async {
            stream.hung_up().await;
            self.asker.left.set(true);
            std::future::pending::<()>().await;
        });
        match select(wait, select(hung_up, stopped)).await {
            Either::Left((there, _)) => Ok(there),
            Either::Right(_) => Err(End::Over),
        }
    }

    /// What a request carries, in `payload`; skipped where there is none.
    async fn carried(
        &self,
        inbox: &mut Inbox,
        payload: Option<BufMut>,
        len: usize,
    ) -> Result<SgList, End> {
        let Some(mut payload) = payload else {
            self.unless_stalled(inbox.skip(len)).await?;
            return Ok(SgList::new());
        };
        let mut have = inbox.begin_payload(&mut payload);
        while have < len {
            let to = len.min(have + STALL_PART_BYTES);
            let part = inbox.go_on_with_payload(payload, have, to);
            (payload, have) = self.unless_stalled(part).await?;
        }
        Ok(payload.into())
    }

    /// Waits for the client to take or to send something; not for ever where others wait for the memory that this
    /// takes.
    async fn unless_stalled<T>(
        &self,
        moving: impl Future<Output = Result<T, StreamError>>,
    ) -> Result<T, StreamError> {
        let stalled = pin!(async {
            loop {
                self.shared.rt.sleep(STALL_MAX).await;
                if self.shared.memory.is_wanted() {
                    return;
                }
            }
        });
        match select(pin!(moving), stalled).await {
            Either::Left((moved, _)) => moved,
            Either::Right(_) => Err(StreamError::Gone),
        }
    }

    /// Whether the request keeps the rules; if not, what it is refused with.
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        use command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
        let refuse = |errno, text| Err(Refusal::new(errno, text));
        let export = &self.export;
        if export.stop.on.get() {
            return refuse(Errno::Shutdown, "the export has ended");
        }
        let allowed = match request.command {
            Command::Unknown => return refuse(Errno::Invalid, "no such command"),
            Command::Read if self.agreed.structured => FUA | DF,
            Command::WriteZeroes => FUA | NO_HOLE | FAST_ZERO,
            Command::BlockStatus => FUA | REQ_ONE,
            _ => FUA,
        };
        if request.flags & !allowed != 0 {
            return refuse(Errno::Invalid, "the command does not take this flag");
        }
        let changes =
            matches!(request.command, Command::Write | Command::Trim | Command::WriteZeroes);
        if changes && export.read_only {
            return refuse(Errno::NotPermitted, "the export is read-only");
        }
        if request.command == Command::Flush {
            return match (request.offset, request.len) {
                (0, 0) => Ok(()),
                _ => refuse(Errno::Invalid, "a flush has no range"),
            };
        }
        let end = request.offset.checked_add(request.len.into());
        if end.is_none_or(|end| end > export.volume.capacity()) {
            let errno = if changes { Errno::NoSpace } else { Errno::Invalid };
            return refuse(errno, "beyond the end of the export");
        }
        match request.command {
            Command::Read if request.len > REQUEST_BYTES_MAX => {
                refuse(Errno::Overflow, "longer than the largest block")
            }
            Command::BlockStatus if !self.agreed.allocation => {
                refuse(Errno::Invalid, "no metadata context was agreed on")
            }
            Command::BlockStatus if request.len == 0 => {
                refuse(Errno::Invalid, "the status of no bytes")
            }
            // Nothing is known of what lies below that would promise speed.
            Command::WriteZeroes if request.has(FAST_ZERO) => {
                refuse(Errno::NotSupported, "zeroing is not known to be fast here")
            }
            _ => Ok(()),
        }
    }

    /// Takes this where it fits the connection's limits and the memory of all, and nobody waits.
    fn try_take_share(&self, share: Share) -> Option<Taken<'_>> {
        let taken = self.try_take_own_share(share)?;
        self.shared.memory.try_take(share).then(|| taken.covered())
    }

    /// Waits until this fits the connection's limits and the memory of all, and takes it.
    async fn take_share(&self, share: Share) -> Taken<'_> {
        let taken = poll_fn(|context| {
            let taken = self.try_take_own_share(share);
            if taken.is_none() {
                self.wait(context.waker());
            }
            taken.map_or(Poll::Pending, Poll::Ready)
        });
        let taken = taken.await;
        if !self.shared.memory.try_take(share) {
            self.shared.memory.take(share).await;
        }
        taken.covered()
    }

    /// Takes this where it fits the connection's limits; one request has all of them to itself.
    fn try_take_own_share(&self, share: Share) -> Option<Taken<'_>> {
        let before = self.taken.get();
        let taken = before.plus(share);
        let fits = taken.requests <= IN_FLIGHT_REQUESTS_MAX && taken.bytes <= IN_FLIGHT_BYTES_MAX;
        self.starved.set(!fits && before.requests > 0);
        if self.starved.get() {
            return None;
        }
        self.taken.set(taken);
        Some(Taken { connection: self, share, is_covered: false })
    }

    fn give_back(&self, share: Share) {
        self.taken.set(self.taken.get().minus(share));
        self.shared.memory.give_back(share);
    }

    fn wait(&self, waker: &Waker) {
        let mut waiting = self.waker.borrow_mut();
        match &mut *waiting {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    fn wake(&self) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Starts a request that was checked.
    fn start(self: &Rc<Self>, request: Request, payload: SgList, share: Share) {
        let export = Rc::clone(&self.agreed.export);
        let connection = Rc::clone(self);
        let work: Pin<Box<dyn Future<Output = Result<Outcome, Refusal>>>> =
            Box::pin(
                async move { export.volume.carry_out(request, payload, &connection.asker).await },
            );
        let mut work = catching_panics(Arc::clone(&self.name), work);
        // What has to wait is polled again by its own task, whose waker takes this one's place.
        let mut nobody = std::task::Context::from_waker(Waker::noop());
        if let Poll::Ready(end) = Pin::new(&mut work).poll(&mut nobody) {
            return self.reply(&request, share, self.end_of(end));
        }
        let connection = Rc::clone(self);
        let waiting = async move {
            let end = connection.end_of(work.await);
            connection.reply(&request, share, end);
            connection.wake();
        };
        // It goes on though the client leaves: see `volume`.
        self.shared.rt.spawn(waiting).detach();
    }

    /// What a request ended with. A panic may have left the device half changed, so it is the end of the export.
    fn end_of(&self, end: Result<Result<Outcome, Refusal>, Panicked>) -> Result<Outcome, Refusal> {
        let end = end.unwrap_or_else(|panicked| {
            let refusal = Refusal::new(Errno::Io, &panicked.to_string());
            self.export.volume.fail(panicked);
            Err(refusal)
        });
        if let Err(Refusal { errno: Errno::Io, error: Some(error), .. }) = &end {
            self.shared.tell_failure(&self.export.name, error);
        }
        end
    }

    /// Puts a reply down, to be written by the connection's own task.
    fn reply(&self, request: &Request, share: Share, end: Result<Outcome, Refusal>) {
        if self.broken.get() {
            return self.give_back(share);
        }
        let (cookie, structured) = (request.cookie, self.agreed.structured);
        let mut outbox = self.outbox.borrow_mut();
        match end {
            Err(refusal) if structured => {
                let text = cut(&refusal.text);
                let head = only_chunk(cookie, chunk::ERROR, 6 + text.len() as u32);
                let errno = (refusal.errno as u32).to_be_bytes();
                let len = (text.len() as u16).to_be_bytes();
                outbox.push(&[&head, &errno, &len, text.as_bytes()], SgList::new(), share);
            }
            Err(refusal) => {
                let head = simple_reply(cookie, Some(refusal.errno));
                outbox.push(&[&head], SgList::new(), share);
            }
            Ok(Outcome::Data(data)) if structured && data.is_empty() => {
                outbox.push(&[&only_chunk(cookie, chunk::NONE, 0)], data, share);
            }
            Ok(Outcome::Data(data)) if structured => {
                let head = only_chunk(cookie, chunk::OFFSET_DATA, 8 + data.len() as u32);
                outbox.push(&[&head, &request.offset.to_be_bytes()], data, share);
            }
            Ok(Outcome::Data(data)) => outbox.push(&[&simple_reply(cookie, None)], data, share),
            Ok(Outcome::Done) => {
                outbox.push(&[&simple_reply(cookie, None)], SgList::new(), share);
            }
            Ok(Outcome::Status(extents)) => {
                let mut bytes = Vec::with_capacity(4 + 8 * extents.len());
                bytes.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
                for (len, flags) in extents {
                    bytes.extend_from_slice(&len.to_be_bytes());
                    bytes.extend_from_slice(&flags.to_be_bytes());
                }
                let head = only_chunk(cookie, chunk::BLOCK_STATUS, bytes.len() as u32);
                outbox.push(&[&head], Buf::copy_of(&bytes).into(), share);
            }
        }
    }

    /// Writes replies until the last request has its own.
    async fn write_replies(&self, stream: &StreamRef) {
        loop {
            let next = poll_fn(|context| {
                if let Some(next) = self.outbox.borrow_mut().take() {
                    return Poll::Ready(Some(next));
                }
                if self.reading_over.get() && self.taken.get().requests == 0 {
                    return Poll::Ready(None);
                }
                self.wait(context.waker());
                Poll::Pending
            });
            let Some((mut replies, share)) = next.await else { return };
            let mut written = Ok(());
            while written.is_ok() && !replies.is_empty() {
                let part = match replies.len() {
                    ..=STALL_PART_BYTES => std::mem::take(&mut replies),
                    len => {
                        let part = replies.slice(0..STALL_PART_BYTES);
                        replies = replies.slice(STALL_PART_BYTES..len);
                        part
                    }
                };
                written = self.unless_stalled(stream.write(part)).await;
            }
            drop(replies);
            self.give_back(share);
            if written.is_err() {
                // What is under way ends without this task.
                self.broken.set(true);
                return;
            }
            if self.starved.get() {
                self.wake();
            }
        }
    }
}

impl Drop for Connection {
    /// Gives back what nobody did: after a panic of the connection's task, or a dropped write.
    fn drop(&mut self) {
        let rest = self.taken.take();
        if rest != Share::default() {
            self.shared.memory.give_back(rest);
        }
    }
}

/// Looks once whether it is there already.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A share of the limits that is given back, unless a request [keeps](Taken::keep) it for its reply.
struct Taken<'a> {
    connection: &'a Connection,
    share: Share,
    /// All clients' memory was asked, too.
    is_covered: bool,
}

impl Taken<'_> {
    fn covered(mut self) -> Self {
        self.is_covered = true;
        self
    }

    fn keep(mut self) -> Share {
        std::mem::take(&mut self.share)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let taken = &self.connection.taken;
        match self.is_covered {
            true => self.connection.give_back(self.share),
            false => taken.set(taken.get().minus(self.share)),
        }
    }
}

/// As much of a text as a client is told, on a character's boundary.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}
