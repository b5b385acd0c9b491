//! A client by hand, which can send what the [product's own](crate::nbd::Client) never would; a server for
//! both, and a device that takes its time.

use crate::nbd::inbox::Inbox;
use crate::nbd::protocol::*;
use crate::nbd::{Export, Server};
use crate::tls::Tls;
use rt::{
    Buf, Device, DeviceRef, Geometry, IoFuture, Reactor, Request as IoRequest, Rt, Runtime,
    StreamError, StreamRef,
};
use sim::SimReactor;
use sim::host::Processor;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::Prng;

/// Runs a test's future with an executor of its own; tasks that wait for ever are no stall of the test.
pub(in crate::nbd) fn run<F, T>(test: impl FnOnce(Rt) -> F) -> T
where
    F: Future<Output = T> + 'static,
    T: 'static,
{
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()) as Rc<dyn Reactor>);
    runtime.block_on(test(runtime.handle())).expect("the test's future ends")
}

/// A server of one device, named `disk`.
pub(in crate::nbd) fn server(rt: &Rt, device: DeviceRef, read_only: bool, tls: Tls) -> Server {
    let export = Export { name: "disk".into(), description: "a disk".into(), device, read_only };
    Server::new(rt, vec![export], tls).expect("one export is served")
}

/// A client of `server`, before the greeting. The pipe holds `capacity` bytes each way.
pub(in crate::nbd) fn connect(rt: &Rt, server: &Server, capacity: usize) -> Client {
    let (ours, theirs) = rt::pipe(capacity);
    let server = server.clone();
    rt.spawn(async move { server.serve(theirs).await }).detach();
    Client { inbox: Inbox::new(ours) }
}

pub(in crate::nbd) struct Client {
    pub(in crate::nbd) inbox: Inbox,
}

/// A reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::nbd) struct Answer {
    pub(in crate::nbd) cookie: u64,
    pub(in crate::nbd) error: u32,
    pub(in crate::nbd) data: Vec<u8>,
    pub(in crate::nbd) kind: Option<u16>,
}

impl Client {
    pub(in crate::nbd) async fn send(&self, bytes: &[u8]) -> Result<(), StreamError> {
        self.inbox.stream().write(Buf::copy_of(bytes).into()).await
    }

    pub(in crate::nbd) async fn bytes(&mut self, len: usize) -> Result<Vec<u8>, StreamError> {
        Ok(self.inbox.payload(len).await?.to_vec())
    }

    /// Takes the greeting, and answers with both flags.
    pub(in crate::nbd) async fn greet(&mut self) {
        let greeting = self.bytes(18).await.expect("a greeting");
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3]);
        self.send(&3_u32.to_be_bytes()).await.expect("sent");
    }

    pub(in crate::nbd) async fn option(&self, option: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.send(&bytes).await.expect("sent");
    }

    /// The next reply to an option: type and data.
    pub(in crate::nbd) async fn option_reply(
        &mut self,
        option: u32,
    ) -> Result<(u32, Vec<u8>), StreamError> {
        let head = self.bytes(20).await?;
        let mut fields = Fields(&head);
        assert_eq!(fields.u64(), Some(OPTION_REPLY_MAGIC));
        assert_eq!(fields.u32(), Some(option));
        let (kind, len) = (fields.u32().expect("a type"), fields.u32().expect("a length"));
        Ok((kind, self.bytes(len as usize).await?))
    }

    /// All replies to an option, up to the last (ACK or an error).
    pub(in crate::nbd) async fn option_replies(
        &mut self,
        option: u32,
        data: &[u8],
    ) -> Vec<(u32, Vec<u8>)> {
        self.option(option, data).await;
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply(option).await.expect("a reply");
            let last = reply.0 == reply::ACK || reply.0 >> 31 == 1;
            replies.push(reply);
            if last {
                return replies;
            }
        }
    }

    /// Greets and chooses the export `disk`.
    pub(in crate::nbd) async fn go(&mut self, structured: bool) {
        self.greet().await;
        if structured {
            let replies = self.option_replies(option::STRUCTURED_REPLY, &[]).await;
            assert_eq!(replies, [(reply::ACK, vec![])]);
            let contexts = context_option("disk", &[BASE_ALLOCATION]);
            let replies = self.option_replies(option::SET_META_CONTEXT, &contexts).await;
            assert_eq!(replies.len(), 2);
        }
        let replies = self.option_replies(option::GO, &info_option("disk", &[])).await;
        assert_eq!(replies.last().expect("a reply").0, reply::ACK);
    }

    /// Takes the next reply; `read_len` gives the length of a simple reply's data by its cookie.
    pub(in crate::nbd) async fn answer(
        &mut self,
        read_len: impl Fn(u64) -> usize,
    ) -> Result<Answer, StreamError> {
        let magic = Fields(&self.bytes(4).await?).u32().expect("a magic");
        if magic == SIMPLE_REPLY_MAGIC {
            let head = self.bytes(12).await?;
            let mut fields = Fields(&head);
            let (error, cookie) = (fields.u32().expect("there"), fields.u64().expect("there"));
            let len = if error == 0 { read_len(cookie) } else { 0 };
            let data = self.bytes(len).await?;
            return Ok(Answer { cookie, error, data, kind: None });
        }
        assert_eq!(magic, STRUCTURED_REPLY_MAGIC);
        let head = self.bytes(16).await?;
        let mut fields = Fields(&head);
        assert_eq!(fields.u16(), Some(1), "one chunk is the whole reply");
        let (kind, cookie) = (fields.u16().expect("there"), fields.u64().expect("there"));
        let mut data = self.bytes(fields.u32().expect("there") as usize).await?;
        let mut error = 0;
        if kind == chunk::ERROR {
            error = Fields(&data).u32().expect("an error's number");
            assert_ne!(error, 0);
        } else if kind == chunk::OFFSET_DATA {
            data.drain(..8);
        }
        Ok(Answer { cookie, error, data, kind: Some(kind) })
    }
}

/// A request's bytes.
pub(in crate::nbd) fn request(
    command: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u32,
) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}

/// The data of INFO and GO.
pub(in crate::nbd) fn info_option(name: &str, wishes: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(wishes.len() as u16).to_be_bytes());
    wishes.iter().for_each(|wish| data.extend_from_slice(&wish.to_be_bytes()));
    data
}

/// The data of LIST_ and SET_META_CONTEXT.
pub(in crate::nbd) fn context_option(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}

/// A device that answers some requests at once, others after a while, so that answers overtake each other;
/// and that counts what is under way and what was flushed.
pub(in crate::nbd) struct Moody {
    pub(in crate::nbd) below: DeviceRef,
    pub(in crate::nbd) rt: Rt,
    pub(in crate::nbd) moods: RefCell<Prng>,
    /// How long at the most a request takes.
    pub(in crate::nbd) delay_max: Duration,
    pub(in crate::nbd) requests: Rc<Cell<usize>>,
    pub(in crate::nbd) bytes: Rc<Cell<usize>>,
    pub(in crate::nbd) bytes_max: Rc<Cell<usize>>,
    pub(in crate::nbd) requests_max: Rc<Cell<usize>>,
    pub(in crate::nbd) flushes: Rc<Cell<usize>>,
}

impl Moody {
    pub(in crate::nbd) fn new(
        below: DeviceRef,
        rt: &Rt,
        seed: u64,
        delay_max: Duration,
    ) -> Rc<Moody> {
        Rc::new(Moody {
            below,
            rt: rt.clone(),
            moods: RefCell::new(Prng::new(seed)),
            delay_max,
            requests: Rc::default(),
            bytes: Rc::default(),
            bytes_max: Rc::default(),
            requests_max: Rc::default(),
            flushes: Rc::default(),
        })
    }
}

impl Device for Moody {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: IoRequest) -> IoFuture {
        if request.kind() == rt::OpKind::Flush {
            self.flushes.set(self.flushes.get() + 1);
        }
        let len = request.len().as_usize();
        let (requests, bytes) = (Rc::clone(&self.requests), Rc::clone(&self.bytes));
        requests.set(requests.get() + 1);
        bytes.set(bytes.get() + len);
        self.requests_max.set(self.requests_max.get().max(requests.get()));
        self.bytes_max.set(self.bytes_max.get().max(bytes.get()));
        let nanos = self.delay_max.as_nanos() as u64;
        let nanos = self.moods.borrow_mut().below(2 * nanos + 1).saturating_sub(nanos);
        let (below, rt) = (Rc::clone(&self.below), self.rt.clone());
        IoFuture::new(async move {
            if nanos > 0 {
                rt.sleep(Duration::from_nanos(nanos)).await;
            }
            let result = below.submit(request).await;
            requests.set(requests.get() - 1);
            bytes.set(bytes.get() - len);
            result
        })
    }

    fn extents(
        &self,
        offset: stdx::Offset,
        len: stdx::ByteCount,
        count_max: usize,
    ) -> rt::ExtentsFuture {
        self.below.extents(offset, len, count_max)
    }
}

/// Ends the client's part of a stream that is shared with it.
pub(in crate::nbd) fn stream_of(client: &Client) -> StreamRef {
    Rc::clone(client.inbox.stream())
}
