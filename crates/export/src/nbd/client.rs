//! A client of the NBD protocol: an export of whatever server, as a [`Device`].
//!
//! ```text
//!   Client (client)       the device: checks requests, divides long ones, tells errors in a device's terms
//!     ├─ handshake        options, to the terms: size, block, what the server can do
//!     └─ connection       one task: writes requests, reads replies, answers in the order of replies
//!          └─ reply       what a reply may look like; a read's pieces
//! ```
//!
//! It runs on the executor of whoever uses the device, as the server does: no thread, no hop.
//!
//! **What a device promises** and how it is kept. *Many at once:* up to [`super::IN_FLIGHT_REQUESTS_MAX`]
//! requests are with the server together; the others wait. *Durable:* FUA goes with the write where
//! the server knows it, otherwise a flush follows the write; a server that knows no flush has, by the
//! protocol, nothing to flush. *Holes* are asked for by `base:allocation` where the server tells of it.
//! *Zeroes* are written where it knows no write-zeroes.
//!
//! **What the server says is not believed:** each number is checked before use, memory is bounded by what was
//! asked for, and a reply that breaks the rules ends the connection with a [`ReplyError`], of which
//! [`Client::fault`] tells. From then on each request ends with [`IoErrorKind::Gone`].
//!
//! **A server that falls silent** while requests wait ([`super::SILENCE_MAX`]) is lost like one that is gone: who has a second
//! copy goes on with it, and nobody waits for ever. What it had taken by then it may still carry out when it comes back.
//!
//! What it does not do: TLS, several connections to one export, or connecting again after a loss.
//! Source of all numbers: `doc/proto.md` of the NBD project.

mod connection;
mod error;
mod handshake;
mod reply;
#[cfg(test)]
mod tests;

pub use error::{ClientError, MalformedOption};
pub use reply::ReplyError;

use super::HANDSHAKE_MAX;
use super::inbox::Inbox;
use super::protocol::{Command, STATE_HOLE, STATE_ZERO, command_flag, transmission_flag};
use connection::{Connection, Ending, Outcome, User, Wish};
use futures_util::future::{Either, select};
use rt::{
    Device, Extent, ExtentKind, ExtentsFuture, Geometry, IoError, IoErrorKind, IoFuture, IoResult,
    Op, Request, Rt, SgList, StreamRef,
};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset};

/// Bytes of one request that carries no data, at the most: lengths have 32 bits, and what is shorter is
/// answered sooner. A multiple of every block.
const NO_DATA_BYTES_MAX: u64 = 1 << 30;

/// What to ask a server for.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// The export's name; the empty one is the server's default.
    pub export: String,
    /// Refuse writes here, whether or not the server takes them.
    pub read_only: bool,
    /// What it is called here; without one, by its server and export.
    pub name: Option<Arc<str>>,
}

/// An export of a server, as a device: what it promises and how, stands at the head of `client.rs`. Dropped, it
/// takes its leave once all is answered; who wants to know that it did calls [`Client::disconnect`].
pub struct Client {
    connection: Rc<Connection>,
    geometry: Geometry,
    name: Arc<str>,
    read_only: bool,
}

impl Client {
    /// Negotiates over a stream, for [`HANDSHAKE_MAX`] at the most.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn connect(
        rt: &Rt,
        stream: StreamRef,
        options: &ClientOptions,
    ) -> Result<Client, ClientError> {
        let mut inbox = Inbox::new(Rc::clone(&stream));
        let terms = {
            let negotiated = pin!(handshake::negotiate(&mut inbox, &options.export));
            match select(negotiated, rt.sleep(HANDSHAKE_MAX)).await {
                Either::Left((terms, _)) => terms?,
                Either::Right(_) => return Err(ClientError::TimedOut),
            }
        };
        let geometry = Geometry {
            logical_block: ByteCount(terms.block.into()),
            physical_block: ByteCount(terms.preferred.into()),
            rotational: terms.has(transmission_flag::ROTATIONAL),
            volatile_cache: terms.has(transmission_flag::SEND_FLUSH),
            ..Geometry::plain(terms.capacity)
        };
        let by_server = || match options.export.as_str() {
            "" => format!("nbd {}", stream.peer()).into(),
            export => format!("nbd {} '{export}'", stream.peer()).into(),
        };
        let name = options.name.clone().unwrap_or_else(by_server);
        let read_only = options.read_only || terms.has(transmission_flag::READ_ONLY);
        let connection = Connection::new(stream, terms);
        rt.spawn(Rc::clone(&connection).run(rt.clone(), inbox)).detach();
        Ok(Client { connection, geometry, name, read_only })
    }

    /// Whether writes are refused, by the server or as was asked.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Why the connection was given up; `None` while it is good, and where it was left in peace.
    pub fn fault(&self) -> Option<ReplyError> {
        self.connection.fault()
    }

    /// Whether nothing is sent any more: the connection is lost, or was left.
    pub fn is_over(&self) -> bool {
        self.connection.is_over()
    }

    /// Takes leave of the server once all that is under way is answered, and waits until it is done.
    /// Requests that come later end with [`IoErrorKind::Gone`].
    pub async fn disconnect(&self) {
        self.connection.leave();
        self.connection.ended().await;
    }

    /// The parts in which a request is sent, of this many bytes at the most each.
    fn step(&self, request: &Request) -> u64 {
        match request.op {
            Op::Read(_) | Op::Write { .. } => self.connection.terms.largest.into(),
            Op::WriteZeroes(_)
                if !self.connection.terms.has(transmission_flag::SEND_WRITE_ZEROES) =>
            {
                self.connection.terms.largest.into()
            }
            Op::WriteZeroes(_) | Op::Discard(_) | Op::Flush => NO_DATA_BYTES_MAX,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.leave();
    }
}

/// A part of a request, as it goes to the server. `None` where the server does not know such.
fn wish(connection: &Connection, op: &Op, at: u64, from: u64, len: u64) -> Option<Wish> {
    let terms = &connection.terms;
    let known = |command, flag| terms.has(flag).then_some((command, 0, SgList::new()));
    let (command, flags, data) = match op {
        Op::Read(_) => (Command::Read, 0, SgList::new()),
        Op::Write { data, fua } => {
            let fua = *fua && terms.has(transmission_flag::SEND_FUA);
            let flags = if fua { command_flag::FUA } else { 0 };
            (Command::Write, flags, data.slice(from as usize..(from + len) as usize))
        }
        Op::Flush => (Command::Flush, 0, SgList::new()),
        Op::Discard(_) => known(Command::Trim, transmission_flag::SEND_TRIM)?,
        Op::WriteZeroes(_) => {
            let zeroes = known(Command::WriteZeroes, transmission_flag::SEND_WRITE_ZEROES);
            zeroes.unwrap_or_else(|| (Command::Write, 0, SgList::zeros(len as usize)))
        }
    };
    Some(Wish { command, flags, offset: at + from, len: len as u32, data })
}

/// Carries out what can't go to the server as one request at once: part by part, then the flush that makes
/// a write durable where the server knows no FUA.
async fn in_parts(connection: User, request: Request, step: u64) -> Result<SgList, IoErrorKind> {
    let (at, len) = (request.offset.bytes(), request.len().bytes());
    let mut whole = SgList::new();
    let mut from = 0;
    while from < len {
        let part = step.min(len - from);
        let wish = wish(&connection, &request.op, at, from, part);
        if let Outcome::Data(data) = connection.ask(wish.ok_or(IoErrorKind::NotSupported)?).await? {
            whole.append(data);
        }
        from += part;
    }
    let terms = &connection.terms;
    let flushes = request.kind() == rt::OpKind::Flush
        || request.is_fua() && !terms.has(transmission_flag::SEND_FUA);
    if flushes && terms.has(transmission_flag::SEND_FLUSH) {
        let flush = wish(&connection, &Op::Flush, 0, 0, 0).ok_or(IoErrorKind::NotSupported)?;
        connection.ask(flush).await?;
    }
    Ok(whole)
}

/// The error of a request, whose data is not kept for that.
#[derive(Clone)]
struct Asked {
    device: Arc<str>,
    op: rt::OpKind,
    offset: Offset,
    len: ByteCount,
}

impl Asked {
    fn result(self, end: Result<SgList, IoErrorKind>) -> IoResult {
        let Asked { device, op, offset, len } = self;
        end.map_err(|kind| IoError { kind, op, offset, len, device })
    }
}

impl Device for Client {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn begin(&self, request: Request) -> IoFuture {
        let asked = Asked {
            device: Arc::clone(&self.name),
            op: request.kind(),
            offset: request.offset,
            len: request.len(),
        };
        let reads = matches!(request.op, Op::Read(_) | Op::Flush);
        if self.read_only && !reads {
            return IoFuture::ready(asked.result(Err(IoErrorKind::ReadOnly)));
        }
        if self.connection.is_over() {
            return IoFuture::ready(asked.result(Err(IoErrorKind::Gone)));
        }
        let (terms, len) = (&self.connection.terms, request.len().bytes());
        let step = self.step(&request);
        let plain = len <= step
            && match request.op {
                Op::Flush => terms.has(transmission_flag::SEND_FLUSH),
                Op::Write { fua, .. } => !fua || terms.has(transmission_flag::SEND_FUA),
                _ => true,
            };
        let at = if request.kind() == rt::OpKind::Flush { 0 } else { request.offset.bytes() };
        if plain && let Some(wish) = wish(&self.connection, &request.op, at, 0, len) {
            let (completion, future) = IoFuture::pending();
            let its = asked.clone();
            let ending = || {
                Ending::Called(Box::new(move |end| {
                    let data = end.map(|outcome| match outcome {
                        Outcome::Data(data) => data,
                        Outcome::Status(_) => SgList::new(),
                    });
                    completion.complete(its.result(data));
                }))
            };
            if self.connection.send_now(wish, ending).is_ok() {
                return future;
            }
        }
        let connection = self.connection.user();
        IoFuture::new(async move { asked.result(in_parts(connection, request, step).await) })
    }

    fn extents(&self, offset: Offset, len: ByteCount, count_max: usize) -> ExtentsFuture {
        let connection = self.connection.user();
        Box::pin(async move {
            if connection.terms.allocation.is_none() {
                return Ok(vec![Extent { len, kind: ExtentKind::Data }]);
            }
            extents(&connection, offset.bytes(), len.bytes(), count_max).await
        })
    }
}

/// Asks for extents until the range is told or there are enough. The server is asked for whole blocks, and
/// what it tells is cut to the range.
async fn extents(
    connection: &Connection,
    offset: u64,
    len: u64,
    count_max: usize,
) -> Result<Vec<Extent>, IoErrorKind> {
    let (mut at, end) = (offset, offset + len);
    let block = u64::from(connection.terms.block);
    let mut extents: Vec<Extent> = Vec::new();
    while at < end && extents.len() < count_max {
        let (before, from) = (at, at - at % block);
        let to = end.next_multiple_of(block).min(from + NO_DATA_BYTES_MAX);
        let flags = if count_max == 1 { command_flag::REQ_ONE } else { 0 };
        let (command, data) = (Command::BlockStatus, SgList::new());
        let wish = Wish { command, flags, offset: from, len: (to - from) as u32, data };
        let Outcome::Status(told) = connection.ask(wish).await? else {
            return Err(IoErrorKind::Medium);
        };
        let mut begin = from;
        for (len, flags) in told {
            let until = (begin + u64::from(len)).min(end);
            begin = until;
            if until <= at {
                continue;
            }
            let len = ByteCount(until - at);
            // A hole here is what reads as zeros and takes no space: both must be said.
            let both = STATE_HOLE | STATE_ZERO;
            let kind = if flags & both == both { ExtentKind::Hole } else { ExtentKind::Data };
            let full = extents.len() == count_max;
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.len += len,
                _ if full => return Ok(extents),
                _ => extents.push(Extent { len, kind }),
            }
            at = until;
        }
        // An answer that tells nothing new would be asked for without end.
        if begin <= before {
            return Err(IoErrorKind::Medium);
        }
    }
    Ok(extents)
}
