//! The wish that what serves ends, and whether anybody would miss it.
//!
//! The wish is made by a signal, or by somebody who asks for it on a set's socket (`md stop`). The latter is refused while
//! clients are connected, as mdadm refuses to stop what is open, unless it is made with force.

use rt::sync::Notify;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The wish itself. It can be made from other threads.
#[derive(Default)]
pub struct Told {
    /// A signal came.
    stop: AtomicBool,
    /// The wish was made, by whomever.
    is_told: AtomicBool,
    notify: Notify,
}

impl Told {
    /// A signal came. False where one came before.
    pub fn signalled(&self) -> bool {
        let is_first = !self.stop.swap(true, Ordering::SeqCst);
        self.tell();
        is_first
    }

    /// Ends it as a first signal does; a signal that comes then is the first.
    pub fn tell(&self) {
        self.is_told.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Waits until there was one; several may.
    pub async fn wait(&self) {
        // Begun before it is looked at: one that comes in between is not missed.
        let told = self.notify.notified();
        if !self.is_told.load(Ordering::SeqCst) {
            told.await;
        }
    }
}

type Count = Box<dyn Fn() -> usize>;

/// The wish, and who is served meanwhile.
pub struct Ending {
    told: Arc<Told>,
    clients: RefCell<Option<Count>>,
}

impl Ending {
    /// By this wish.
    pub fn by(told: &Arc<Told>) -> Ending {
        Ending { told: Arc::clone(told), clients: RefCell::default() }
    }

    /// From now on there are clients, so many as this tells.
    pub fn serves(&self, clients: impl Fn() -> usize + 'static) {
        *self.clients.borrow_mut() = Some(Box::new(clients));
    }

    /// Clients that are connected.
    pub fn clients(&self) -> usize {
        self.clients.borrow().as_ref().map_or(0, |count| count())
    }

    /// Makes the wish.
    pub fn tell(&self) {
        self.told.tell();
    }

    /// Waits for it.
    pub async fn wait(&self) {
        self.told.wait().await;
    }
}
