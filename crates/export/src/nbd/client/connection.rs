//! Requests and replies of one connection, as the client sees them.
//!
//! Two loops in one task: one writes the requests that are there, all in one call; the other reads replies
//! and answers those who wait, in whatever order they come. Neither waits for the other, so a server that
//! reads no more until its replies are taken is no deadlock.
//!
//! **Limits.** What is under way has its [`Share`] of [`IN_FLIGHT_REQUESTS_MAX`] and
//! [`CLIENT_IN_FLIGHT_BYTES_MAX`], from before it is sent until it is answered; others wait in the order of
//! their coming. A reply's memory is taken when its head has come and fits the request, so the server can't
//! make the client hold more than what was asked for.
//!
//! **The end.** Once nobody has use for the device and all is answered, the client takes its leave. Where the
//! connection breaks, the server breaks the protocol, or says and takes nothing for [`SILENCE_MAX`] while requests wait, all
//! that is under way ends with [`IoErrorKind::Gone`], as does whatever comes later.

use super::handshake::Terms;
use super::reply::{Landing, Place, ReplyError, kind_of};
use crate::nbd::inbox::Inbox;
use crate::nbd::outbox::{Outbox, Share};
use crate::nbd::protocol::{Command, Fields, ReplyHead, Request, chunk, command_flag};
use crate::nbd::{
    CLIENT_IN_FLIGHT_BYTES_MAX, EXTENTS_MAX, IN_FLIGHT_REQUESTS_MAX, SILENCE_MAX, STRING_BYTES_MAX,
};
use futures_util::future::{Either, select};
use rt::sync::{Notify, Semaphore, oneshot};
use rt::{IoErrorKind, Rt, SgList, StreamError, StreamRef};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Looks at a silent server before it is given up.
const SILENCE_LOOKS: u32 = 6;
/// A flush, or a write that is to be durable, may take so many times as long.
const FLUSH_FACTOR: u32 = 4;

/// A request that is to be sent.
pub(super) struct Wish {
    pub(super) command: Command,
    pub(super) flags: u16,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Of a write.
    pub(super) data: SgList,
}

/// What a request ended with.
pub(super) enum Outcome {
    /// Data of a read; nothing for others.
    Data(SgList),
    /// Lengths and flags of extents.
    Status(Vec<(u32, u32)>),
}

/// How the end of a request is told.
pub(super) enum Ending {
    /// To a task that waits.
    Told(oneshot::Sender<Result<Outcome, IoErrorKind>>),
    /// By a call: of a device's own future, which needs no more than one allocation.
    Called(Box<dyn FnOnce(Result<Outcome, IoErrorKind>)>),
}

impl Ending {
    fn tell(self, end: Result<Outcome, IoErrorKind>) {
        match self {
            // Who waited may have gone.
            Ending::Told(sender) => drop(sender.send(end)),
            Ending::Called(call) => call(end),
        }
    }
}

/// A request that was sent.
struct Waiting {
    share: Share,
    command: Command,
    /// The answer means that something is durable.
    is_durable: bool,
    len: u32,
    landing: Landing,
    status: Vec<(u32, u32)>,
    /// The first error that a chunk told of.
    error: Option<u32>,
    ending: Ending,
}

/// See the [module](self).
pub(super) struct Connection {
    pub(super) terms: Terms,
    stream: StreamRef,
    outbox: RefCell<Outbox>,
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    next_cookie: Cell<u64>,
    requests: Semaphore,
    bytes: Semaphore,
    /// Who has more to ask before it is done.
    users: Cell<usize>,
    /// Nobody has use for the device any more.
    leaving: Cell<bool>,
    over: Cell<bool>,
    fault: Cell<Option<ReplyError>>,
    ended: Notify,
    /// How often the server said or took something.
    moved: Cell<u64>,
    /// Something is asked.
    asked: Notify,
    /// The connection's task, while its writer has nothing to write.
    writer: RefCell<Option<Waker>>,
}

/// Who has more to ask before it is done: as long as it is there, no leave is taken.
pub(super) struct User(Rc<Connection>);

impl Drop for User {
    fn drop(&mut self) {
        self.0.users.set(self.0.users.get() - 1);
        if self.0.leaving.get() {
            self.0.wake();
        }
    }
}

impl std::ops::Deref for User {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl Connection {
    pub(super) fn new(stream: StreamRef, terms: Terms) -> Rc<Connection> {
        Rc::new(Connection {
            terms,
            stream,
            outbox: RefCell::default(),
            waiting: RefCell::default(),
            next_cookie: Cell::new(0),
            requests: Semaphore::new(IN_FLIGHT_REQUESTS_MAX),
            bytes: Semaphore::new(CLIENT_IN_FLIGHT_BYTES_MAX),
            users: Cell::new(0),
            leaving: Cell::new(false),
            over: Cell::new(false),
            fault: Cell::new(None),
            ended: Notify::new(),
            moved: Cell::new(0),
            asked: Notify::new(),
            writer: RefCell::default(),
        })
    }

    /// Why the connection was given up, if it was.
    pub(super) fn fault(&self) -> Option<ReplyError> {
        self.fault.get()
    }

    /// Whether nothing is sent any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.get() || self.leaving.get()
    }

    /// Someone who has more than one thing to ask.
    pub(super) fn user(self: &Rc<Self>) -> User {
        self.users.set(self.users.get() + 1);
        User(Rc::clone(self))
    }

    /// Begins to take leave.
    pub(super) fn leave(&self) {
        self.leaving.set(true);
        self.wake();
    }

    /// Waits until the connection is closed.
    pub(super) async fn ended(&self) {
        let ended = self.ended.notified();
        if !self.over.get() {
            ended.await;
        }
    }

    /// What a request takes of the limits.
    fn share(wish: &Wish) -> Share {
        let carries = matches!(wish.command, Command::Read | Command::Write);
        Share { requests: 1, bytes: if carries { wish.len as usize } else { 0 } }
    }

    /// Sends a request if it fits now; otherwise gives it back.
    pub(super) fn send_now(&self, wish: Wish, ending: impl FnOnce() -> Ending) -> Result<(), Wish> {
        let share = Connection::share(&wish);
        let Ok(request) = self.requests.try_acquire() else { return Err(wish) };
        let Ok(bytes) = self.bytes.try_acquire_many(share.bytes as u32) else { return Err(wish) };
        request.forget();
        bytes.forget();
        self.send(wish, share, ending());
        Ok(())
    }

    /// Sends a request when it fits, and waits for its end.
    pub(super) async fn ask(&self, wish: Wish) -> Result<Outcome, IoErrorKind> {
        let share = Connection::share(&wish);
        let (sender, receiver) = oneshot::channel();
        let gone = |_| IoErrorKind::Gone;
        let request = self.requests.acquire().await.map_err(gone)?;
        let bytes = self.bytes.acquire_many(share.bytes as u32).await.map_err(gone)?;
        request.forget();
        bytes.forget();
        self.send(wish, share, Ending::Told(sender));
        receiver.await.unwrap_or(Err(IoErrorKind::Gone))
    }

    fn send(&self, wish: Wish, share: Share, ending: Ending) {
        if self.over.get() {
            return ending.tell(Err(IoErrorKind::Gone));
        }
        let cookie = self.next_cookie.get();
        self.next_cookie.set(cookie + 1);
        let Wish { command, flags, offset, len, data } = wish;
        let head = Request { flags, command, cookie, offset, len }.encode();
        self.outbox.borrow_mut().push(&[&head], data, Share::default());
        let landing = Landing::new(offset, len);
        let (status, error) = (Vec::new(), None);
        let is_durable = command == Command::Flush || flags & command_flag::FUA != 0;
        let waiting = Waiting { share, command, is_durable, len, landing, status, error, ending };
        self.waiting.borrow_mut().insert(cookie, waiting);
        self.asked.notify_waiters();
        self.wake();
    }

    fn wake(&self) {
        let waker = self.writer.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Writes and reads until one side ends it.
    pub(super) async fn run(self: Rc<Self>, rt: Rt, inbox: Inbox) {
        let fault = {
            let reading = pin!(self.read_replies(inbox));
            let writing = pin!(self.write_requests());
            let silence = pin!(self.silence(&rt));
            match select(select(writing, reading), silence).await {
                Either::Left((Either::Left((Ok(()), _)), _)) => None,
                Either::Left((Either::Left((Err(error), _)), _)) => Some(ReplyError::Stream(error)),
                Either::Left((Either::Right((Err(error), _)), _)) => Some(error),
                Either::Left((Either::Right((Ok(never), _)), _)) => match never {},
                Either::Right(((), _)) => Some(ReplyError::Silent),
            }
        };
        self.over.set(true);
        self.fault.set(fault);
        self.requests.close();
        self.bytes.close();
        let waiting = self.waiting.take();
        for (_, waiting) in waiting {
            waiting.ending.tell(Err(IoErrorKind::Gone));
        }
        drop(self.outbox.take());
        // The server may be gone; then there is nothing to end.
        let _ = self.stream.shutdown().await;
        self.ended.notify_waiters();
    }

    /// Waits until the server has said and taken nothing for as long as it may while requests waited, and a look longer at the
    /// most.
    async fn silence(&self, rt: &Rt) {
        let mut silent = 0;
        while silent < self.looks() {
            if self.waiting.borrow().is_empty() {
                self.asked.notified().await;
                silent = 0;
            }
            let moved = self.moved.get();
            rt.sleep(SILENCE_MAX / SILENCE_LOOKS).await;
            silent = if self.moved.get() == moved { silent + 1 } else { 0 };
        }
    }

    /// After how many looks a server is given up that was silent at each.
    fn looks(&self) -> u32 {
        // It writes out what it holds, or its disk does.
        let flushes = |one: &Waiting| one.is_durable;
        let factor = if self.waiting.borrow().values().any(flushes) { FLUSH_FACTOR } else { 1 };
        SILENCE_LOOKS * factor
    }

    fn moves(&self) {
        self.moved.set(self.moved.get() + 1);
    }

    /// Writes requests until nobody has use for more and all are answered; then the leave.
    async fn write_requests(&self) -> Result<(), StreamError> {
        loop {
            let next = poll_fn(|context| {
                if let Some((requests, _)) = self.outbox.borrow_mut().take() {
                    return Poll::Ready(Some(requests));
                }
                let idle = self.waiting.borrow().is_empty() && self.users.get() == 0;
                if self.leaving.get() && idle {
                    return Poll::Ready(None);
                }
                let mut writer = self.writer.borrow_mut();
                match &mut *writer {
                    Some(known) => known.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                Poll::Pending
            });
            match next.await {
                Some(requests) => self.stream.write(requests).await?,
                None => break,
            }
            self.moves();
        }
        let (command, cookie) = (Command::Disconnect, self.next_cookie.get());
        let leave = Request { flags: 0, command, cookie, offset: 0, len: 0 }.encode();
        // A server that has gone first needs no leave.
        let _ = self.stream.write(rt::Buf::copy_of(&leave).into()).await;
        Ok(())
    }

    /// Reads replies for as long as they keep the rules.
    async fn read_replies(&self, mut inbox: Inbox) -> Result<std::convert::Infallible, ReplyError> {
        loop {
            inbox.fill(ReplyHead::SIMPLE).await?;
            self.moves();
            let mut bytes = [0; ReplyHead::CHUNK];
            let first = &mut bytes[..ReplyHead::SIMPLE];
            first.copy_from_slice(inbox.take(ReplyHead::SIMPLE));
            let magic = Fields(first).u32().unwrap_or_default();
            let len = ReplyHead::len(magic).ok_or(ReplyError::Magic(magic))?;
            let rest = len - ReplyHead::SIMPLE;
            inbox.fill(rest).await?;
            bytes[ReplyHead::SIMPLE..len].copy_from_slice(inbox.take(rest));
            match ReplyHead::decode(&bytes[..len]).ok_or(ReplyError::Magic(magic))? {
                ReplyHead::Simple { error, cookie } => {
                    self.simple(&mut inbox, error, cookie).await?;
                }
                ReplyHead::Chunk { cookie, .. } if !self.terms.structured => {
                    return Err(ReplyError::Form(cookie));
                }
                ReplyHead::Chunk { flags, kind, cookie, len } => {
                    if flags & !chunk::DONE != 0 {
                        return Err(ReplyError::ChunkFlags(flags));
                    }
                    let done = flags & chunk::DONE != 0;
                    self.chunk(&mut inbox, kind, cookie, len, done).await?;
                }
            }
        }
    }

    /// Looks at a request that is under way, or changes what is known of its reply.
    fn with<T>(&self, cookie: u64, look: impl FnOnce(&mut Waiting) -> T) -> Result<T, ReplyError> {
        self.waiting.borrow_mut().get_mut(&cookie).map(look).ok_or(ReplyError::Cookie(cookie))
    }

    async fn simple(&self, inbox: &mut Inbox, error: u32, cookie: u64) -> Result<(), ReplyError> {
        let (command, len) = self.with(cookie, |waiting| (waiting.command, waiting.len))?;
        let told = matches!(command, Command::Read | Command::BlockStatus);
        if told && self.terms.structured {
            return Err(ReplyError::Form(cookie));
        }
        if error != 0 {
            self.with(cookie, |waiting| waiting.error = Some(error))?;
        } else if command == Command::Read {
            let data = inbox.payload(len as usize).await?;
            self.with(cookie, |waiting| waiting.landing.whole(data.into()))?;
        }
        self.end(cookie)
    }

    async fn chunk(
        &self,
        inbox: &mut Inbox,
        kind: u16,
        cookie: u64,
        len: u32,
        done: bool,
    ) -> Result<(), ReplyError> {
        let command = self.with(cookie, |waiting| waiting.command)?;
        let wrong_len = ReplyError::ChunkLen { kind, len };
        match (kind, command) {
            (chunk::NONE, _) if len == 0 && done => {}
            (chunk::NONE, _) => return Err(wrong_len),
            (chunk::OFFSET_DATA, Command::Read) => {
                let len = len.checked_sub(8).ok_or(wrong_len)?;
                inbox.fill(8).await?;
                let offset = Fields(inbox.take(8)).u64().unwrap_or_default();
                self.data(inbox, cookie, offset, len).await?;
            }
            (chunk::OFFSET_HOLE, Command::Read) if len == 12 => {
                inbox.fill(12).await?;
                let mut fields = Fields(inbox.take(12));
                let offset = fields.u64().unwrap_or_default();
                let len = fields.u32().unwrap_or_default();
                self.with(cookie, |waiting| {
                    let place = waiting.landing.expect(offset, len.into())?;
                    if place == Place::Whole {
                        waiting.landing.whole(SgList::zeros(len as usize));
                    }
                    Ok::<(), ReplyError>(())
                })??;
            }
            (chunk::OFFSET_HOLE, Command::Read) => return Err(wrong_len),
            (chunk::BLOCK_STATUS, Command::BlockStatus) => {
                self.status(inbox, cookie, len).await?;
            }
            (kind, _) if kind & chunk::ERR != 0 => {
                let more = if kind == chunk::ERROR_OFFSET { 8 } else { 0 };
                if len < 6 + more || len as usize > 6 + more as usize + STRING_BYTES_MAX {
                    return Err(wrong_len);
                }
                inbox.fill(len as usize).await?;
                let mut fields = Fields(inbox.take(len as usize));
                let (errno, text) = (fields.u32(), fields.u16());
                let known = matches!(kind, chunk::ERROR | chunk::ERROR_OFFSET);
                if known && text.is_none_or(|text| u32::from(text) != len - 6 - more) {
                    return Err(wrong_len);
                }
                let errno = errno.filter(|errno| *errno != 0).ok_or(ReplyError::NoError)?;
                self.with(cookie, |waiting| waiting.error = waiting.error.or(Some(errno)))?;
            }
            _ => return Err(ReplyError::ChunkKind(kind)),
        }
        if done { self.end(cookie) } else { Ok(()) }
    }

    /// A piece of a read's data.
    async fn data(
        &self,
        inbox: &mut Inbox,
        cookie: u64,
        offset: u64,
        len: u32,
    ) -> Result<(), ReplyError> {
        let place = self.with(cookie, |waiting| waiting.landing.expect(offset, len.into()))??;
        match place {
            Place::Whole => {
                let data = inbox.payload(len as usize).await?;
                self.with(cookie, |waiting| waiting.landing.whole(data.into()))?;
            }
            Place::At(mut at) => {
                let mut left = len as usize;
                while left > 0 {
                    inbox.fill(1).await?;
                    let bytes = inbox.take(left);
                    self.with(cookie, |waiting| waiting.landing.put(at, bytes))?;
                    (at, left) = (at + bytes.len(), left - bytes.len());
                }
            }
        }
        Ok(())
    }

    /// The status of blocks: extents one after another, of which none is empty and only the last may reach
    /// beyond what was asked for.
    async fn status(&self, inbox: &mut Inbox, cookie: u64, len: u32) -> Result<(), ReplyError> {
        let extents = len.checked_sub(4).filter(|len| *len > 0 && len.is_multiple_of(8));
        let kind = chunk::BLOCK_STATUS;
        let extents = extents.ok_or(ReplyError::ChunkLen { kind, len })? / 8;
        inbox.fill(4).await?;
        let id = Fields(inbox.take(4)).u32();
        let asked = self.with(cookie, |waiting| (waiting.len, waiting.status.is_empty()))?;
        let (asked, true) = asked else { return Err(ReplyError::Status) };
        if id != self.terms.allocation {
            return Err(ReplyError::Status);
        }
        let mut told = 0_u64;
        for _ in 0..extents {
            inbox.fill(8).await?;
            let mut fields = Fields(inbox.take(8));
            let (len, flags) = (fields.u32().unwrap_or(0), fields.u32().unwrap_or(0));
            if len == 0 || told >= asked.into() {
                return Err(ReplyError::Status);
            }
            told += u64::from(len);
            self.with(cookie, |waiting| {
                // More are not kept than anybody asks for; those that follow are asked for anew.
                if waiting.status.len() < EXTENTS_MAX {
                    waiting.status.push((len, flags));
                }
            })?;
        }
        Ok(())
    }

    /// The reply to a request is whole.
    fn end(&self, cookie: u64) -> Result<(), ReplyError> {
        self.moves();
        let waiting = self.waiting.borrow_mut().remove(&cookie);
        let waiting = waiting.ok_or(ReplyError::Cookie(cookie))?;
        let Waiting { share, command, landing, status, error, ending, .. } = waiting;
        let end = match (error, command) {
            (Some(errno), _) => Ok(Err(kind_of(errno))),
            (None, Command::Read) => landing.end().map(|data| Ok(Outcome::Data(data))),
            (None, Command::BlockStatus) if status.is_empty() => Err(ReplyError::Status),
            (None, Command::BlockStatus) => Ok(Ok(Outcome::Status(status))),
            (None, _) => Ok(Ok(Outcome::Data(SgList::new()))),
        };
        // Who waits is told in any case.
        let (end, fault) = match end {
            Ok(end) => (end, None),
            Err(fault) => (Err(IoErrorKind::Gone), Some(fault)),
        };
        self.requests.add_permits(share.requests);
        self.bytes.add_permits(share.bytes);
        ending.tell(end);
        if self.leaving.get() {
            self.wake();
        }
        fault.map_or(Ok(()), Err)
    }
}
