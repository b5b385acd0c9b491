//! Requests and replies of one connection.
//!
//! Two loops in one task. One reads requests, checks them, and starts each on the volume; most devices that
//! have the answer in memory give it at once, and then the reply is put down without a task. A request that
//! has to wait goes on in a task of its own, and later ones overtake it. The other loop writes the
//! replies that are there. It is polled after the first, so that replies to all requests of one read leave
//! in one write.
//!
//! **Limits.** Before a request is started, or its payload is read, its [`Share`] is taken; where it does not
//! fit, reading waits. The share is given back when the reply was written.
//!
//! **The end.** The client disconnects, breaks the protocol, or goes; or the server stops. Then no further
//! request is read; those under way end, and their replies are written where somebody still takes them.

use super::handshake::Agreed;
use super::inbox::Inbox;
use super::outbox::{Outbox, Share};
use super::protocol::{
    BASE_ALLOCATION_ID, Command, Errno, Request, chunk, command_flag, only_chunk, simple_reply,
};
use super::server::Stop;
use super::volume::{Outcome, Refusal};
use super::{IN_FLIGHT_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX, REQUEST_BYTES_MAX};
use futures_util::future::{Either, select};
use rt::{Buf, Rt, SgList, StreamRef};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Bytes of a refusal's text that a client is told.
const TEXT_BYTES_MAX: usize = 256;

/// A connection whose client chose an export.
struct Connection {
    rt: Rt,
    agreed: Agreed,
    stream: StreamRef,
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

/// Serves a connection to its end.
pub(crate) async fn transmit(rt: Rt, agreed: Agreed, inbox: Inbox, stop: &Stop) {
    let connection = Rc::new(Connection {
        rt,
        agreed,
        stream: Rc::clone(inbox.stream()),
        outbox: RefCell::default(),
        taken: Cell::default(),
        reading_over: Cell::new(false),
        broken: Cell::new(false),
        starved: Cell::new(false),
        waker: RefCell::default(),
    });
    let mut reader = Some(Box::pin(connection.read_requests(inbox, stop)));
    let mut writer = pin!(connection.write_replies());
    poll_fn(|context| {
        if let Some(reading) = &mut reader
            && (connection.broken.get() || reading.as_mut().poll(context).is_ready())
        {
            reader = None;
            connection.reading_over.set(true);
        }
        let written = writer.as_mut().poll(context);
        // What the writer found broken ends the reader too, and then the writer.
        if connection.broken.get() && reader.is_some() {
            context.waker().wake_by_ref();
        }
        written
    })
    .await;
    // A client that left may not care; one that waits reads the end.
    let _ = connection.stream.shutdown().await;
}

impl Connection {
    /// Reads and starts requests, until there are to be no more.
    async fn read_requests(self: &Rc<Self>, mut inbox: Inbox, stop: &Stop) {
        let mut stopped = pin!(stop.wait());
        loop {
            if inbox.len() < Request::HEAD {
                let filled = pin!(inbox.fill(Request::HEAD));
                match select(filled, stopped.as_mut()).await {
                    Either::Left((Ok(()), _)) => {}
                    Either::Left((Err(_), _)) | Either::Right(_) => return,
                }
            }
            let Some(request) = Request::decode(inbox.take(Request::HEAD)) else { return };
            let refusal = match request.command {
                Command::Disconnect => return,
                Command::Write if request.len > REQUEST_BYTES_MAX => return,
                _ => self.check(&request).err(),
            };
            let carries = if request.command == Command::Write { request.len as usize } else { 0 };
            if let Some(refusal) = refusal {
                match select(pin!(inbox.skip(carries)), stopped.as_mut()).await {
                    Either::Left((Ok(()), _)) => {}
                    Either::Left((Err(_), _)) | Either::Right(_) => return,
                }
                let taken = self.take_share(Share { requests: 1, bytes: 0 }).await;
                self.reply(&request, taken.keep(), Err(refusal));
                continue;
            }
            let bytes = self.agreed.export.volume.memory_for(&request);
            let taken = self.take_share(Share { requests: 1, bytes }).await;
            let payload = if carries > 0 {
                // A write that has not come as a whole is not under way: who stalls in it holds up no stop.
                match select(pin!(inbox.payload(carries)), stopped.as_mut()).await {
                    Either::Left((Ok(payload), _)) => payload.into(),
                    Either::Left((Err(_), _)) | Either::Right(_) => return,
                }
            } else {
                SgList::new()
            };
            self.start(request, payload, taken.keep());
        }
    }

    /// Whether the request keeps the rules; if not, what it is refused with.
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        use command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
        let refuse = |errno, text| Err(Refusal::new(errno, text));
        let export = &self.agreed.export;
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
        if end.is_none_or(|end| end > export.volume.capacity) {
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

    /// Waits until this fits the connection's limits, and takes it.
    async fn take_share(&self, share: Share) -> Taken<'_> {
        poll_fn(|context| {
            let before = self.taken.get();
            let taken = before.plus(share);
            let fits =
                taken.requests <= IN_FLIGHT_REQUESTS_MAX && taken.bytes <= IN_FLIGHT_BYTES_MAX;
            self.starved.set(!fits && before.requests > 0);
            if self.starved.get() {
                self.wait(context.waker());
                return Poll::Pending;
            }
            self.taken.set(taken);
            Poll::Ready(Taken { connection: self, share })
        })
        .await
    }

    fn give_back(&self, share: Share) {
        self.taken.set(self.taken.get().minus(share));
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
        let mut work: Pin<Box<dyn Future<Output = Result<Outcome, Refusal>>>> =
            Box::pin(async move { export.volume.carry_out(request, payload).await });
        // What has to wait is polled again by its own task, whose waker takes this one's place.
        let mut nobody = std::task::Context::from_waker(Waker::noop());
        if let Poll::Ready(end) = work.as_mut().poll(&mut nobody) {
            return self.reply(&request, share, end);
        }
        let connection = Rc::clone(self);
        let waiting = async move {
            let end = work.await;
            connection.reply(&request, share, end);
            connection.wake();
        };
        // It goes on though the client leaves: see `volume`.
        self.rt.spawn(waiting).detach();
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
    async fn write_replies(&self) {
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
            let Some((replies, share)) = next.await else { return };
            let written = self.stream.write(replies).await;
            self.give_back(share);
            if written.is_err() {
                self.broken.set(true);
                if let Some((_, share)) = self.outbox.borrow_mut().take() {
                    self.give_back(share);
                }
            }
            if self.starved.get() {
                self.wake();
            }
        }
    }
}

/// A share of the limits that is given back, unless a request [keeps](Taken::keep) it for its reply.
struct Taken<'a> {
    connection: &'a Connection,
    share: Share,
}

impl Taken<'_> {
    fn keep(mut self) -> Share {
        std::mem::take(&mut self.share)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.connection.give_back(self.share);
    }
}

/// As much of a text as a client is told, on a character's boundary.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}
