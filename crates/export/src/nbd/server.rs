//! The server: which exports there are, who is connected, and how it stops.
//!
//! Stopping: nothing is accepted, no further request is read; what is under way ends and is answered; then
//! each export is flushed. A client that does not take its replies holds this up for [`DRAIN_MAX`] at the
//! most.

use super::handshake::negotiate;
use super::inbox::Inbox;
use super::transmission::transmit;
use super::volume::Volume;
use super::{CONNECTIONS_MAX, DRAIN_MAX, EXPORTS_MAX, HANDSHAKE_MAX, STRING_BYTES_MAX};
use crate::tls::Tls;
use futures_util::future::{Either, select};
use rt::sync::{Notify, Semaphore};
use rt::{DeviceRef, IoError, Listener, Rt, StreamError, StreamRef};
use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

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
}

/// An export and what its connections share.
pub(crate) struct Exported {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) read_only: bool,
    pub(crate) volume: Volume,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) rt: Rt,
    pub(crate) exports: Vec<Rc<Exported>>,
    pub(crate) tls: Tls,
    stop: Stop,
    places: Semaphore,
    connected: Cell<usize>,
    left: Notify,
}

impl Shared {
    /// The export of this name; the first for the empty name, where none is named so.
    pub(crate) fn find(&self, name: &str) -> Option<Rc<Exported>> {
        let named = self.exports.iter().find(|export| export.name == name);
        named.or_else(|| self.exports.first().filter(|_| name.is_empty())).cloned()
    }
}

/// The wish that the server stops.
#[derive(Default)]
pub(crate) struct Stop {
    on: Cell<bool>,
    notify: Notify,
}

impl Stop {
    /// Waits for it.
    pub(crate) async fn wait(&self) {
        let notified = self.notify.notified();
        if !self.on.get() {
            notified.await;
        }
    }
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
            let volume = Volume::new(device);
            served.push(Rc::new(Exported { name, description, read_only, volume }));
        }
        Ok(Server(Rc::new(Shared {
            rt: rt.clone(),
            exports: served,
            tls,
            stop: Stop::default(),
            places: Semaphore::new(CONNECTIONS_MAX),
            connected: Cell::new(0),
            left: Notify::new(),
        })))
    }

    /// Accepts connections until the server stops.
    ///
    /// # Errors
    /// Where accepting fails for good. Connections go on.
    pub async fn listen(&self, listener: Rc<dyn Listener>) -> Result<(), StreamError> {
        let mut stopped = pin!(self.0.stop.wait());
        loop {
            let place = match select(pin!(self.0.places.acquire()), stopped.as_mut()).await {
                Either::Left((place, _)) => place.expect("nobody closes the semaphore"),
                Either::Right(_) => return Ok(()),
            };
            match select(listener.accept(), stopped.as_mut()).await {
                Either::Right(_) => return Ok(()),
                Either::Left((Ok(stream), _)) => {
                    // The connection gives the place back when it ends.
                    place.forget();
                    let shared = Rc::clone(&self.0);
                    self.0.rt.spawn(connection(Counted::new(shared, true), stream)).detach();
                }
                Either::Left((Err(StreamError::NoResources), _)) => {
                    self.0.rt.sleep(ACCEPT_REST).await;
                }
                Either::Left((Err(StreamError::Gone), _)) => {}
                Either::Left((Err(error), _)) => return Err(error),
            }
        }
    }

    /// Serves one connection to its end, beside those that were accepted.
    pub async fn serve(&self, stream: StreamRef) {
        connection(Counted::new(Rc::clone(&self.0), false), stream).await;
    }

    /// Begins to stop.
    pub fn stop(&self) {
        self.0.stop.on.set(true);
        self.0.stop.notify.notify_waiters();
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
            if self.0.connected.get() == 0 {
                break;
            }
            if let Either::Right(_) = select(left, deadline.as_mut()).await {
                break;
            }
        }
        let mut outcome = Ok(());
        for export in self.0.exports.iter().filter(|export| !export.read_only) {
            outcome = outcome.and(export.volume.flush().await);
        }
        outcome
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.0.connected.get()
    }
}

/// Counts a connection as long as it is served.
struct Counted {
    shared: Rc<Shared>,
    has_place: bool,
}

impl Counted {
    fn new(shared: Rc<Shared>, has_place: bool) -> Counted {
        shared.connected.set(shared.connected.get() + 1);
        Counted { shared, has_place }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.connected.set(self.shared.connected.get() - 1);
        if self.has_place {
            self.shared.places.add_permits(1);
        }
        self.shared.left.notify_waiters();
    }
}

async fn connection(counted: Counted, stream: StreamRef) {
    let shared = &*counted.shared;
    let agreed = {
        let negotiated = pin!(negotiate(shared, Inbox::new(stream)));
        let late = pin!(shared.rt.sleep(HANDSHAKE_MAX));
        let stopped = pin!(shared.stop.wait());
        match select(negotiated, select(late, stopped)).await {
            Either::Left((Ok(agreed), _)) => agreed,
            Either::Left((Err(_), _)) | Either::Right(_) => return,
        }
    };
    let (agreed, inbox) = agreed;
    transmit(shared.rt.clone(), agreed, inbox, &shared.stop).await;
}
