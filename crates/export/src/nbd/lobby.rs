//! Those who have come and not yet chosen an export: nobody knows who they are.
//!
//! They have places of their own, [`HANDSHAKES_MAX`], so that they never keep out those who are served, nor the other
//! way round. Where all are taken the one who came first is sent away for the next: a client that means it is through
//! its handshake within milliseconds, one that only sits there is not. So however many sit there, whoever comes is
//! greeted at once.

use super::HANDSHAKES_MAX;
use rt::sync::Notify;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Lobby {
    /// By the order in which they came.
    seats: RefCell<BTreeMap<u64, Rc<Call>>>,
    came: Cell<u64>,
}

/// The call to leave.
#[derive(Default)]
struct Call {
    on: Cell<bool>,
    notify: Notify,
}

impl Lobby {
    /// A seat for who comes; true where another was sent away for it.
    pub(crate) fn enter(self: &Rc<Self>) -> (Seat, bool) {
        let number = self.came.get();
        self.came.set(number + 1);
        let call = Rc::<Call>::default();
        let mut seats = self.seats.borrow_mut();
        let first = match seats.len() >= HANDSHAKES_MAX {
            true => seats.pop_first(),
            false => None,
        };
        seats.insert(number, Rc::clone(&call));
        drop(seats);
        let sent_away = first.is_some();
        if let Some((_, first)) = first {
            first.on.set(true);
            first.notify.notify_waiters();
        }
        (Seat { lobby: Rc::clone(self), number, call }, sent_away)
    }
}

/// A place among them, until it is dropped.
pub(crate) struct Seat {
    lobby: Rc<Lobby>,
    number: u64,
    call: Rc<Call>,
}

impl Seat {
    /// Waits until it is wanted for another.
    pub(crate) async fn wanted(&self) {
        let notified = self.call.notify.notified();
        if !self.call.on.get() {
            notified.await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lobby.seats.borrow_mut().remove(&self.number);
    }
}
