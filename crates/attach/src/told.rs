//! What is told one by one up to so many, and then counted: who reads a damaged disk from end to end must not fill a log.

use crate::event::{Event, Events};
use std::cell::Cell;

/// So many are told one by one.
const ONE_BY_ONE_MAX: u64 = 100;

/// How many there were. See the [module](self).
#[derive(Default)]
pub(crate) struct Told(Cell<u64>);

impl Told {
    /// One more: it is told, and after the last of those that are, that others are `later` counted.
    pub(crate) fn tell(&self, events: &Events, one: impl FnOnce() -> Event, later: Event) {
        self.0.set(self.0.get().saturating_add(1));
        if self.0.get() <= ONE_BY_ONE_MAX {
            events.tell(one());
        }
        if self.0.get() == ONE_BY_ONE_MAX {
            events.tell(later);
        }
    }

    /// There were as many before as of another, with which this one goes on.
    pub(crate) fn go_on(&self, before: &Told) {
        self.0.set(before.0.get());
    }

    /// How many there were, where not all of them were told.
    pub(crate) fn counted(&self) -> Option<u64> {
        Some(self.0.get()).filter(|all| *all > ONE_BY_ONE_MAX)
    }
}
