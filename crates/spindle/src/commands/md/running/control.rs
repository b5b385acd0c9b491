//! The socket of a set that runs: commands that find the set served send their requests here.
//!
//! See [`protocol`](super::protocol) for what is said, [`folder`](super::folder) for where. The socket has mode 0600.
//! Junk gets a line that says so, and the connection is closed. What a request began is a task of its own: a client that
//! goes away waits no more, and nothing else of it ends. Its place among the connections is free when both have ended.
//!
//! A set without a socket is served all the same: what keeps it from having one is said once.

use super::folder::socket_of;
use super::protocol::{Answer, Ask, LINE_BYTES_MAX, Request};
use super::requests::Served;
use crate::commands::{Failure, say};
use futures_util::future::{Either, select};
use host::{Address, Host, SocketListener};
use rt::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use rt::{Buf, BufMut, Listener, SgList, StreamError, StreamRef, Task};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Connections at a time, and requests under way; more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 16;
/// How long a client may take to send its request, and to take an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines to be shown that wait to be sent; what does not fit is not shown.
const SAID_MAX: usize = 16;
/// How long accepting rests where descriptors or memory ran out.
const ACCEPT_REST: Duration = Duration::from_millis(100);
/// Bytes that are read at a time.
const READ_BYTES: usize = 4096;
/// How long clients are given to take their last answers when the server ends.
const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// The listening socket of a set. Dropping it closes and removes it.
pub struct Control {
    served: Rc<Served>,
    places: Arc<Semaphore>,
    accepting: Task<()>,
}

/// Where a request under way says what is to be shown.
#[derive(Clone)]
pub struct Said(mpsc::Sender<String>);

impl Said {
    /// Shows a line.
    pub fn say(&self, text: &str) {
        // Nobody may be there any more.
        let _ = self.0.try_send(text.to_owned());
    }
}

/// Listens for commands. None, with a note, where that can't be.
pub fn listen(host: &Host, served: &Rc<Served>) -> Option<Control> {
    let listener = match bind(host, served) {
        Ok(listener) => listener,
        Err(failure) => {
            let text = "md fail, add and the like need the server stopped";
            say(&format!("note: {}: {}; {text}", served.name, failure.message));
            return None;
        }
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (its_served, its_places) = (Rc::clone(served), Arc::clone(&places));
    let accepting = served.rt.spawn(async move { accept(its_served, listener, its_places).await });
    Some(Control { served: Rc::clone(served), places, accepting })
}

fn bind(host: &Host, served: &Served) -> Result<SocketListener, Failure> {
    let path = socket_of(served.set.uuid(), true).map_err(Failure::failed)?;
    let bound = SocketListener::bind(host, &Address::Unix(path.clone()));
    let listener = bound.map_err(Failure::failed)?;
    // Until here its folder keeps others off.
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, mode).map_err(Failure::failed)?;
    Ok(listener)
}

impl Control {
    /// Listens no more, and gives clients a moment to take their last answers.
    pub async fn ended(self) {
        let Control { served, places, accepting } = self;
        // It has a place too, for the client that it waits for.
        drop(accepting);
        let all = pin!(places.acquire_many(CONNECTIONS_MAX as u32));
        select(all, pin!(served.rt.sleep(FAREWELL_MAX))).await;
    }
}

async fn accept(served: Rc<Served>, listener: SocketListener, places: Arc<Semaphore>) {
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("nobody closes the semaphore");
        match listener.accept().await {
            Ok(stream) => {
                let its_served = Rc::clone(&served);
                served.rt.spawn(connection(its_served, stream, place)).detach();
            }
            Err(StreamError::NoResources) => served.rt.sleep(ACCEPT_REST).await,
            Err(StreamError::Gone) => {}
            Err(error) => {
                return say(&format!("note: {}: its socket: {error}", served.name));
            }
        }
    }
}

/// Serves one connection. An error is that of a client that is gone, which needs no words.
async fn connection(served: Rc<Served>, stream: StreamRef, place: OwnedSemaphorePermit) {
    let read = pin!(read_line(&stream));
    let request = match select(read, served.rt.sleep(PATIENCE)).await {
        Either::Left((Ok(line), _)) => serde_json::from_slice::<Request>(&line).map_err(|error| {
            Failure::usage(format!("this is the socket of a RAID set: no request: {error}"))
        }),
        Either::Left((Err(failure), _)) => Err(failure),
        Either::Right(_) => Err(Failure::usage("no request came")),
    };
    let request = match request {
        Ok(request) if served.has(&request.devices) => request,
        Ok(_) => return answer(&served, &stream, &Answer::Elsewhere).await.unwrap_or_default(),
        Err(Failure { message, status }) => {
            let error = Answer::Error { message, status };
            return answer(&served, &stream, &error).await.unwrap_or_default();
        }
    };
    if answer(&served, &stream, &Answer::Taken).await.is_none() {
        return;
    }
    let (said, mut lines) = mpsc::channel(SAID_MAX);
    let (ended, end) = oneshot::channel::<Result<Value, Failure>>();
    let its_served = Rc::clone(&served);
    // Its end takes the place back, unless the client stays longer.
    let place = Rc::new(place);
    let its_place = Rc::clone(&place);
    let ends = matches!(request.ask, Ask::Stop);
    let work = async move {
        let result = its_served.carry_out(request.ask, &Said(said)).await;
        // The client may be gone.
        let _ = ended.send(result);
        drop(its_place);
    };
    let task = served.rt.spawn(work);
    match ends {
        // It waits for the end of all others.
        true => task.detach(),
        false => served.began(task),
    }
    let mut end = pin!(end);
    // A client says nothing more; whatever is read means that it waits no more.
    let mut gone = pin!(stream.read(BufMut::for_overwrite(1), 0));
    let last = loop {
        let line = {
            let line = pin!(lines.recv());
            match select(gone.as_mut(), select(end.as_mut(), line)).await {
                Either::Left(_) => return,
                Either::Right((Either::Left((result, _)), _)) => break result,
                Either::Right((Either::Right((line, _)), _)) => line,
            }
        };
        // Who would say more has ended, and its result is there.
        let Some(line) = line else { break end.as_mut().await };
        if answer(&served, &stream, &Answer::Say(line)).await.is_none() {
            return;
        }
    };
    while let Ok(line) = lines.try_recv() {
        if answer(&served, &stream, &Answer::Say(line)).await.is_none() {
            return;
        }
    }
    let last = match last {
        Ok(Ok(value)) => Answer::Result(value),
        Ok(Err(Failure { message, status })) => Answer::Error { message, status },
        Err(_) => Answer::Error { message: "the server ends".to_owned(), status: 1 },
    };
    answer(&served, &stream, &last).await.unwrap_or_default();
}

/// Reads the one line of a client.
async fn read_line(stream: &StreamRef) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    loop {
        let read = stream.read(BufMut::for_overwrite(READ_BYTES), 0).await;
        let (bytes, count) = read.map_err(Failure::failed)?;
        let bytes = bytes.get(..count).unwrap_or_default();
        if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&bytes[..end]);
            let is_last = end + 1 == bytes.len();
            let more = || Failure::usage("one line with one request is read");
            return is_last.then_some(line).ok_or_else(more);
        }
        line.extend_from_slice(bytes);
        if bytes.is_empty() || line.len() > LINE_BYTES_MAX {
            return Err(Failure::usage("a request is a line of JSON"));
        }
    }
}

/// Sends a line; none where the client does not take it.
async fn answer(served: &Served, stream: &StreamRef, answer: &Answer) -> Option<()> {
    let mut line = serde_json::to_vec(answer).ok()?;
    line.push(b'\n');
    let write = stream.write(SgList::from(Buf::copy_of(&line)));
    match select(write, served.rt.sleep(PATIENCE)).await {
        Either::Left((written, _)) => written.ok(),
        Either::Right(_) => None,
    }
}
