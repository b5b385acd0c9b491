//! The socket of something that is held: commands that find it in use send their requests here.
//!
//! See [`message`](super::message) for what is said, [`folder`](super::folder) for where. The socket has mode 0600.
//! Junk gets a line that says so, and the connection is closed. What a request began is a task of its own: a client that
//! goes away waits no more, and nothing else of it ends. Its place among the connections is free when both have ended.
//!
//! What has no socket is held all the same: why it has none is told once.

use super::folder::socket_of;
use super::message::{Answer, LINE_BYTES_MAX, Numbers, Request};
use crate::error::Error;
use crate::event::{Event, Events};
use futures_util::future::{Either, select};
use host::{Address, Host, SocketListener};
use rt::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use rt::{Buf, BufMut, Listener, Rt, SgList, StreamError, StreamRef, Task};
use serde::de::DeserializeOwned;
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

/// What is held, as its socket sees it.
pub trait Service: 'static {
    /// What it can be asked for.
    type Ask: DeserializeOwned + 'static;

    /// Its name, for messages.
    fn name(&self) -> Arc<str>;

    /// Where it runs.
    fn rt(&self) -> &Rt;

    /// Who is told what happens to its socket.
    fn events(&self) -> &Events;

    /// Whether all of these are devices of it.
    fn has(&self, devices: &[Numbers]) -> bool;

    /// Whether a request is answered that names no devices.
    fn tells_anyone(&self, _ask: &Self::Ask) -> bool {
        false
    }

    /// Whether a request ends the service, and so waits for the end of all others.
    fn ends(&self, ask: &Self::Ask) -> bool;

    /// Does what is asked.
    fn carry_out(
        self: Rc<Self>,
        ask: Self::Ask,
        said: &Said,
    ) -> impl Future<Output = Result<Value, Error>>;

    /// Whether what is asked for goes on over the connection, beyond an answer.
    fn takes_over(&self, _ask: &Self::Ask) -> bool {
        false
    }

    /// Does what is asked over the connection, the answer first.
    fn take_over(self: Rc<Self>, _ask: Self::Ask, _stream: StreamRef) -> impl Future<Output = ()> {
        async {}
    }

    /// A request is under way: whoever ends the service drops it.
    fn began(&self, task: Task<()>);
}

/// A listening socket. Dropping it closes and removes it.
pub struct Control<S: Service> {
    served: Rc<S>,
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

/// A socket at which commands wait until they are listened to: who finds that something is held finds it, too. Dropping it closes and removes it.
pub struct Bound(Result<SocketListener, Error>);

impl Bound {
    /// The socket of this name.
    pub fn new(host: &Host, socket: &str) -> Bound {
        Bound(bind(host, socket))
    }
}

/// Listens for commands on a socket. None, which is told, where there is none.
pub fn listen<S: Service>(served: &Rc<S>, socket: Bound) -> Option<Control<S>> {
    let listener = match socket.0 {
        Ok(listener) => listener,
        Err(error) => {
            served.events().tell(Event::NoSocket { of: served.name(), error });
            return None;
        }
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (its_served, its_places) = (Rc::clone(served), Arc::clone(&places));
    let accepting =
        served.rt().spawn(async move { accept(its_served, listener, its_places).await });
    Some(Control { served: Rc::clone(served), places, accepting })
}

fn bind(host: &Host, socket: &str) -> Result<SocketListener, Error> {
    let path = socket_of(socket, true)?;
    let listener = SocketListener::bind(host, &Address::Unix(path.clone()))?;
    // Until here its folder keeps others off.
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, mode).map_err(|error| Error::Socket { path, error })?;
    Ok(listener)
}

impl<S: Service> Control<S> {
    /// Listens no more, and gives clients a moment to take their last answers.
    pub async fn ended(self) {
        let Control { served, places, accepting } = self;
        // It has a place too, for the client that it waits for.
        drop(accepting);
        let all = pin!(places.acquire_many(CONNECTIONS_MAX as u32));
        select(all, pin!(served.rt().sleep(FAREWELL_MAX))).await;
    }
}

async fn accept<S: Service>(served: Rc<S>, listener: SocketListener, places: Arc<Semaphore>) {
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("nobody closes the semaphore");
        match listener.accept().await {
            Ok(stream) => {
                let its_served = Rc::clone(&served);
                served.rt().spawn(connection(its_served, stream, place)).detach();
            }
            Err(StreamError::NoResources) => served.rt().sleep(ACCEPT_REST).await,
            Err(StreamError::Gone) => {}
            Err(error) => {
                let of = served.name();
                return served.events().tell(Event::SocketLost { of, error });
            }
        }
    }
}

/// Serves one connection. An error is that of a client that is gone, which needs no words.
async fn connection<S: Service>(served: Rc<S>, stream: StreamRef, place: OwnedSemaphorePermit) {
    let read = pin!(read_line(&stream));
    let request = match select(read, served.rt().sleep(PATIENCE)).await {
        Either::Left((Ok(line), _)) => Request::<S::Ask>::read(&line),
        Either::Left((Err(error), _)) => Err(error),
        Either::Right(_) => Err(Error::Silent),
    };
    let request = match request {
        Ok(request) if served.has(&request.devices) => request,
        Ok(request) if request.devices.is_empty() && served.tells_anyone(&request.ask) => request,
        Ok(_) => return answer(&*served, &stream, &Answer::Elsewhere).await.unwrap_or_default(),
        Err(error) => {
            let refusal = Answer::refusal(&error);
            return answer(&*served, &stream, &refusal).await.unwrap_or_default();
        }
    };
    if answer(&*served, &stream, &Answer::Taken).await.is_none() {
        return;
    }
    if served.takes_over(&request.ask) {
        return served.take_over(request.ask, Rc::clone(&stream)).await;
    }
    let (said, mut lines) = mpsc::channel(SAID_MAX);
    let (ended, end) = oneshot::channel::<Result<Value, Error>>();
    let its_served = Rc::clone(&served);
    // Its end takes the place back, unless the client stays longer.
    let place = Rc::new(place);
    let its_place = Rc::clone(&place);
    let ends = served.ends(&request.ask);
    let work = async move {
        let result = its_served.carry_out(request.ask, &Said(said)).await;
        // The client may be gone.
        let _ = ended.send(result);
        drop(its_place);
    };
    let task = served.rt().spawn(work);
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
        if answer(&*served, &stream, &Answer::Say(line)).await.is_none() {
            return;
        }
    };
    while let Ok(line) = lines.try_recv() {
        if answer(&*served, &stream, &Answer::Say(line)).await.is_none() {
            return;
        }
    }
    let last = match last {
        Ok(Ok(value)) => Answer::Result(value),
        Ok(Err(error)) => Answer::refusal(&error),
        Err(_) => Answer::Error { message: "the server ends".to_owned(), status: 1 },
    };
    answer(&*served, &stream, &last).await.unwrap_or_default();
}

/// Reads the one line of a client.
async fn read_line(stream: &StreamRef) -> Result<Vec<u8>, Error> {
    let mut line = Vec::new();
    loop {
        let read = stream.read(BufMut::for_overwrite(READ_BYTES), 0).await;
        let (bytes, count) = read?;
        let bytes = bytes.get(..count).unwrap_or_default();
        if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            line.extend_from_slice(&bytes[..end]);
            let is_last = end + 1 == bytes.len();
            return is_last.then_some(line).ok_or(Error::MoreThanOne);
        }
        line.extend_from_slice(bytes);
        if bytes.is_empty() || line.len() > LINE_BYTES_MAX {
            return Err(Error::NoLine);
        }
    }
}

/// Sends a line; none where the client does not take it.
pub async fn answer(served: &impl Service, stream: &StreamRef, answer: &Answer) -> Option<()> {
    let mut line = serde_json::to_vec(answer).ok()?;
    line.push(b'\n');
    let write = stream.write(SgList::from(Buf::copy_of(&line)));
    match select(write, served.rt().sleep(PATIENCE)).await {
        Either::Left((written, _)) => written.ok(),
        Either::Right(_) => None,
    }
}
