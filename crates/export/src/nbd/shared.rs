//! What all connections of a server share: its exports, places, memory, and the wish that it stops.
//!
//! **An export that ends** before the server does is found by nobody any more, and the clients that it has are treated as those of a server
//! that stops. Who asks for no export by name is never given another one for it.

use super::lobby::Lobby;
use super::memory::Memory;
use super::volume::Volume;
use super::{LINGER_MAX, PLACE_WAIT_MAX};
use crate::tls::{Tls, Turn};
use futures_util::future::{Either, select};
use rt::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use rt::{IoError, Rt};
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

/// An export and what its connections share.
pub(crate) struct Exported {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) read_only: bool,
    pub(crate) volume: Volume,
    /// That it ends, by itself.
    pub(crate) stop: Stop,
    /// Connections that have it, until the last request of each has ended.
    connections: Cell<usize>,
    left: Notify,
}

impl Exported {
    pub(super) fn new(
        name: String,
        description: String,
        read_only: bool,
        volume: Volume,
    ) -> Exported {
        let (stop, connections, left) = Default::default();
        Exported { name, description, read_only, volume, stop, connections, left }
    }

    /// Connections that have it.
    pub(super) fn connections(&self) -> usize {
        self.connections.get()
    }

    /// Waits until nobody has it any more.
    pub(super) async fn unused(&self) {
        loop {
            let left = self.left.notified();
            if self.connections.get() == 0 {
                return;
            }
            left.await;
        }
    }
}

/// That a connection has an export, as long as this is there.
pub(crate) struct Using(Rc<Exported>);

impl Using {
    pub(crate) fn new(export: Rc<Exported>) -> Using {
        export.connections.set(export.connections.get() + 1);
        Using(export)
    }
}

impl Deref for Using {
    type Target = Exported;

    fn deref(&self) -> &Exported {
        &self.0
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        self.0.left.notify_waiters();
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) rt: Rt,
    /// Those that did not end.
    pub(super) exports: RefCell<Vec<Rc<Exported>>>,
    /// The name of the one for clients that name none.
    pub(super) default: String,
    pub(crate) tls: Tls,
    /// Whose TLS handshake goes on.
    pub(crate) turn: Turn,
    /// Whose large request begins.
    pub(crate) begin: Turn,
    pub(crate) memory: Memory,
    pub(crate) stop: Stop,
    pub(super) lobby: Rc<Lobby>,
    pub(super) places: Arc<Semaphore>,
    pub(super) lingering: Semaphore,
    pub(super) connected: Cell<usize>,
    pub(super) left: Notify,
    /// Who is told of requests that fail.
    pub(super) failures: OnceCell<Failures>,
}

/// Who is told what a device answered to a client of the export of this name.
pub(super) type Failures = Box<dyn Fn(&str, &IoError)>;

/// Exports that a client is told of, whose name has none; and bytes of that text.
const NAMES_SAID_MAX: usize = 8;
const NAMES_SAID_BYTES: usize = 1024;

impl Shared {
    /// Tells that a device could not carry out a client's request.
    pub(crate) fn tell_failure(&self, export: &str, error: &IoError) {
        if let Some(tell) = self.failures.get() {
            tell(export, error);
        }
    }

    /// The exports, as they are now.
    pub(crate) fn exports(&self) -> Vec<Rc<Exported>> {
        self.exports.borrow().clone()
    }

    /// The export of this name; the first that there was for the empty name, where none is named so.
    pub(crate) fn find(&self, name: &str) -> Option<Rc<Exported>> {
        let exports = self.exports.borrow();
        let named = |name: &str| exports.iter().find(|export| export.name == name);
        named(name).or_else(|| named(&self.default).filter(|_| name.is_empty())).cloned()
    }

    /// What is said to a client whose name has no export: the names that there are, some of them where they are many.
    pub(crate) fn no_such_export(&self) -> String {
        let exports = self.exports.borrow();
        if exports.is_empty() {
            return "there is no such export; all have ended".to_owned();
        }
        let names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
        let shown: Vec<String> =
            names.iter().take(NAMES_SAID_MAX).map(|name| format!("'{name}'")).collect();
        let more = match names.len().saturating_sub(shown.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let mut text = format!("there is no such export; there are {}{more}", shown.join(", "));
        // Names are as long as the protocol lets them be, and together longer than a reply should.
        let end = (0..=NAMES_SAID_BYTES.min(text.len())).rfind(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text
    }
}

/// A place among those who are served, until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

impl Shared {
    /// Waits for a place, not for ever.
    pub(crate) async fn place(&self) -> Option<Place> {
        let place = Arc::clone(&self.places).acquire_owned();
        match select(pin!(place), pin!(self.rt.sleep(PLACE_WAIT_MAX))).await {
            Either::Left((place, _)) => place.ok(),
            Either::Right(_) => None,
        }
    }

    /// Waits for as long as answers are still written to a client that has ended its part of the stream.
    pub(crate) async fn linger(&self) {
        if let Ok(_one) = self.lingering.try_acquire() {
            select(pin!(self.rt.sleep(LINGER_MAX)), pin!(self.memory.wanted())).await;
        }
    }
}

/// The wish that the server stops, or an export ends.
#[derive(Default)]
pub(crate) struct Stop {
    pub(super) on: Cell<bool>,
    notify: Notify,
}

impl Stop {
    /// Makes it.
    pub(super) fn begin(&self) {
        self.on.set(true);
        self.notify.notify_waiters();
    }

    /// Waits for it.
    pub(crate) async fn wait(&self) {
        let notified = self.notify.notified();
        if !self.on.get() {
            notified.await;
        }
    }
}
