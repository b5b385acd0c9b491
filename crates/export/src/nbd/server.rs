//! The server: which exports there are, who is connected, and how it stops.
//!
//! **Who waits where.** Whoever comes is accepted at once, into the [lobby](super::lobby). Who chooses an export takes a
//! place among [`CONNECTIONS_MAX`], and gives it back when its connection ends.
//!
//! **Stopping**: nothing is accepted, no further request is read; what is under way ends and is answered; then
//! each export is flushed. A client that does not take its replies holds this up for [`DRAIN_MAX`] at the
//! most.

use super::handshake::negotiate;
use super::inbox::Inbox;
use super::lobby::Seat;
use super::memory::Memory;
use super::shared::{Exported, Shared, Stop};
use super::transmission::transmit;
use super::volume::Volume;
use super::{
    CLIENT_MEMORY, CLIENT_MEMORY_MIN, CONNECTIONS_MAX, DRAIN_MAX, EXPORTS_MAX, HANDSHAKE_MAX,
    LINGERING_MAX, STRING_BYTES_MAX,
};
use crate::tls::{Tls, Turn};
use futures_util::future::{Either, select};
use rt::sync::{Notify, Semaphore};
use rt::{DeviceRef, IoError, IoErrorKind, Listener, Rt, StreamError, StreamRef, catching_panics};
use std::cell::{Cell, OnceCell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::ByteCount;

/// How long accepting rests where descriptors or memory ran out. Less burns processor time; more makes
/// clients wait.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// A device under a name.
pub struct Export {
    /// What clients ask for. A client that asks for the empty name gets the first export.
    pub name: String,
    /// A line for people.
    pub description: String,
    /// What is served.
    pub device: DeviceRef,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// What can't be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// No export at all.
    #[error("there is nothing to serve: name an export")]
    Nothing,
    /// Too many.
    #[error("{0} exports; a server has {EXPORTS_MAX} at the most")]
    TooMany(usize),
    /// Two of one name.
    #[error("two exports are named '{0}'; clients could not tell them apart")]
    Twice(String),
    /// A name or description that the protocol can't carry.
    #[error("the {what} of an export has {bytes} bytes; the protocol has {STRING_BYTES_MAX}")]
    TooLong {
        /// Name or description.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// Clients' memory below what a large request takes.
    #[error(
        "{0} of memory for clients' requests is too little: give {CLIENT_MEMORY_MIN} at the least"
    )]
    LittleMemory(ByteCount),
}

/// An NBD server. Cheap to clone. See the [module](super).
#[derive(Clone)]
pub struct Server(Rc<Shared>);

impl Server {
    /// A server of these exports, which listens nowhere yet.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn new(rt: &Rt, exports: Vec<Export>, tls: Tls) -> Result<Server, ServerError> {
        Server::with_memory(rt, exports, tls, CLIENT_MEMORY)
    }

    /// The same, with so much memory for all clients' requests together.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn with_memory(
        rt: &Rt,
        exports: Vec<Export>,
        tls: Tls,
        memory: ByteCount,
    ) -> Result<Server, ServerError> {
        if memory < CLIENT_MEMORY_MIN {
            return Err(ServerError::LittleMemory(memory));
        }
        if exports.is_empty() {
            return Err(ServerError::Nothing);
        }
        if exports.len() > EXPORTS_MAX {
            return Err(ServerError::TooMany(exports.len()));
        }
        let mut served: Vec<Rc<Exported>> = Vec::new();
        for Export { name, description, device, read_only } in exports {
            for (what, text) in [("name", &name), ("description", &description)] {
                if text.len() > STRING_BYTES_MAX {
                    return Err(ServerError::TooLong { what, bytes: text.len() });
                }
            }
            if served.iter().any(|other| other.name == name) {
                return Err(ServerError::Twice(name));
            }
            let volume = Volume::new(rt, device);
            served.push(Rc::new(Exported::new(name, description, read_only, volume)));
        }
        Ok(Server(Rc::new(Shared {
            rt: rt.clone(),
            default: served.first().map(|first| first.name.clone()).unwrap_or_default(),
            exports: RefCell::new(served),
            tls,
            turn: Turn::new(rt),
            begin: Turn::new(rt),
            memory: Memory::new(memory.bytes()),
            stop: Stop::default(),
            lobby: Rc::default(),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            lingering: Semaphore::new(LINGERING_MAX),
            connected: Cell::new(0),
            left: Notify::new(),
            failures: OnceCell::new(),
        })))
    }

    /// Has requests told that a device answers with an error that is its own: by the export's name, and the error. What a client asks for
    /// wrongly, or for want of room, is told to it alone. The first who asks is told.
    pub fn tell_failures(&self, tell: impl Fn(&str, &IoError) + 'static) {
        let _ = self.0.failures.set(Box::new(tell));
    }

    /// Accepts connections until the server stops.
    ///
    /// # Errors
    /// Where accepting fails for good. Connections go on.
    pub async fn listen(&self, listener: Rc<dyn Listener>) -> Result<(), StreamError> {
        let mut stopped = pin!(self.0.stop.wait());
        loop {
            match select(listener.accept(), stopped.as_mut()).await {
                Either::Right(_) => return Ok(()),
                Either::Left((Ok(stream), _)) => {
                    let (seat, sent_away) = self.0.lobby.enter();
                    let name = format!("the connection of {}", stream.peer());
                    let served = connection(Rc::clone(&self.0), stream, Some(seat));
                    // Its own inbox, outbox and limits are all that it leaves half changed: see `rt::guarded`.
                    self.0.rt.spawn_guarded(name, served).detach();
                    if sent_away {
                        // So that who was sent away is gone before the next comes.
                        self.0.rt.yield_now().await;
                    }
                }
                Either::Left((Err(StreamError::NoResources), _)) => {
                    self.0.rt.sleep(ACCEPT_REST).await;
                }
                Either::Left((Err(StreamError::Gone), _)) => {}
                Either::Left((Err(error), _)) => return Err(error),
            }
        }
    }

    /// Serves one connection to its end, beside those that were accepted and their places.
    pub async fn serve(&self, stream: StreamRef) {
        let name = format!("the connection of {}", stream.peer());
        let served = Box::pin(connection(Rc::clone(&self.0), stream, None));
        // A panic has said by its hook what there is to say.
        let _ = catching_panics(name, served).await;
    }

    /// Begins to stop.
    pub fn stop(&self) {
        self.0.stop.begin();
    }

    /// Waits until all connections of a server that stops have ended, [`DRAIN_MAX`] at the most; then
    /// flushes each export that can be written.
    ///
    /// # Errors
    /// Of the first flush that failed; all were tried.
    pub async fn drained(&self) -> Result<(), IoError> {
        let mut deadline = pin!(self.0.rt.sleep(DRAIN_MAX));
        loop {
            let left = pin!(self.0.left.notified());
            // What was begun for clients that are gone ends, too.
            let returned = pin!(self.0.memory.returned());
            if self.0.connected.get() == 0 && self.0.memory.is_idle() {
                break;
            }
            if let Either::Right(_) = select(select(left, returned), deadline.as_mut()).await {
                break;
            }
        }
        let mut outcome = Ok(());
        for export in self.0.exports() {
            outcome = outcome.and(flush(&export).await);
        }
        outcome
    }

    /// Ends the export of this name, while all others go on: nobody finds it any more, and who is connected to it is hung up on once what is
    /// under way was answered, which is waited for, [`DRAIN_MAX`] at the most; then it is flushed if it can be written. One that is not there
    /// has ended.
    ///
    /// # Errors
    /// Of the flush.
    pub async fn end(&self, name: &str) -> Result<(), IoError> {
        let export = {
            let mut exports = self.0.exports.borrow_mut();
            let Some(at) = exports.iter().position(|export| export.name == name) else {
                return Ok(());
            };
            exports.remove(at)
        };
        export.stop.begin();
        select(pin!(export.unused()), pin!(self.0.rt.sleep(DRAIN_MAX))).await;
        flush(&export).await
    }

    /// Connections now that chose the export of this name.
    pub fn connections_to(&self, name: &str) -> usize {
        let exports = self.0.exports.borrow();
        let export = exports.iter().find(|export| export.name == name);
        export.map_or(0, |export| export.connections())
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.0.connected.get()
    }
}

/// The last flush of an export that can be written.
async fn flush(export: &Exported) -> Result<(), IoError> {
    if export.read_only {
        return Ok(());
    }
    let flushed = catching_panics("the last flush", Box::pin(export.volume.flush())).await;
    let device = &*export.volume.device;
    let gone = |_| Err(IoError::of(&rt::Request::flush(), device, IoErrorKind::Gone));
    flushed.unwrap_or_else(gone)
}

/// Counts a connection as long as it is served.
struct Counted<'a>(&'a Shared);

impl Counted<'_> {
    fn new(shared: &Shared) -> Counted<'_> {
        shared.connected.set(shared.connected.get() + 1);
        Counted(shared)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.connected.set(self.0.connected.get() - 1);
        self.0.left.notify_waiters();
    }
}

async fn connection(shared: Rc<Shared>, stream: StreamRef, seat: Option<Seat>) {
    let _counted = Counted::new(&shared);
    let (agreed, inbox) = {
        let negotiated = pin!(negotiate(&shared, Inbox::new(stream), seat.is_some()));
        let late = pin!(shared.rt.sleep(HANDSHAKE_MAX));
        let wanted = pin!(async {
            match &seat {
                Some(seat) => seat.wanted().await,
                None => std::future::pending().await,
            }
        });
        let stopped = pin!(shared.stop.wait());
        let sent_away = select(late, select(wanted, stopped));
        match select(negotiated, sent_away).await {
            Either::Left((Ok(agreed), _)) => agreed,
            Either::Left((Err(_), _)) | Either::Right(_) => return,
        }
    };
    drop(seat);
    transmit(&shared, agreed, inbox).await;
}
