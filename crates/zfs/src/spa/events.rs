//! What happens in a pool that is open for writing, told to whoever holds it: what OpenZFS posts as events.
//!
//! It is told when it is done in the group that syncs, as OpenZFS does: where that group doesn't come into the pool, the pool isn't
//! written any more. What becomes of devices is known to the [tree](zfs_store::Tree).

use std::cell::RefCell;
use std::rc::Rc;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A record of what was done came into the pool's history.
    Deed(Deed),
    /// Labels have another configuration.
    ConfigSync,
    /// Vdevs were added.
    VdevAdd,
    /// The pool has another GUID.
    Reguid,
}

/// A record of what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// What: `create`, `set`.
    pub name: String,
    /// More of it.
    pub text: String,
    /// To which dataset or snapshot: its name and object.
    pub dataset: Option<(String, u64)>,
    /// By whose host.
    pub host: String,
    /// In which group.
    pub txg: u64,
    /// When, in seconds since 1970.
    pub time: u64,
}

/// Who is told.
pub type HappeningSink = Rc<dyn Fn(&Happening)>;

/// Whoever is told of a pool's events, if somebody is.
#[derive(Default)]
pub struct Told(RefCell<Option<HappeningSink>>);

impl Told {
    /// Tells this one from here on.
    pub fn set(&self, sink: HappeningSink) {
        *self.0.borrow_mut() = Some(sink);
    }

    /// Tells it.
    pub fn tell(&self, happening: &Happening) {
        let sink = self.0.borrow().clone();
        if let Some(sink) = sink {
            sink(happening);
        }
    }
}
