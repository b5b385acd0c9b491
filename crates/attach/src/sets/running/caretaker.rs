//! Who makes a running set whole: resync, rebuilds on spares, replacements, one after another.
//!
//! What is to be done is asked of the set each time: a spare that was added, a member that failed, a replacement
//! that was begun by hand are found by looking. When there is nothing to do it waits for the next change.
//!
//! **What fails** is said, with why and what helps, and is not tried again before something changed: without a change
//! it would fail again. A slot whose rebuilds failed [`FAILURES_MAX`] times is left alone until a rebuild of it is
//! asked for anew, because a device was added.

use crate::event::{Event, Events, SetEvent, Then, Work};
use ::md::live::{LiveArray, LiveError};
use ::md::{MemberState, SyncError, SyncPriority};
use rt::sync::{Mutex, Notify};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// So often something is tried that fails each time, though something changed in between. More rewrites superblocks
/// for nothing; less gives up where the next spare would have done.
const FAILURES_MAX: u32 = 8;

/// What failed, how often in a row, and after which change the last time.
#[derive(Clone, Copy)]
struct Failed {
    times: u32,
    at: u64,
}

/// See the [module](self).
pub struct Caretaker {
    set: Rc<LiveArray>,
    name: Arc<str>,
    events: Events,
    failed: RefCell<BTreeMap<Work, Failed>>,
    /// Counts what may help.
    changes: Cell<u64>,
    /// Held by whoever takes devices into the set or out of it.
    pub devices: Mutex<()>,
    is_busy: Cell<bool>,
    /// Wakes who waits until nothing is left to do.
    idle: Notify,
    /// Wakes the caretaker: something was asked for by hand.
    asked: Notify,
}

impl Caretaker {
    /// Of a set with this name.
    pub fn new(set: &Rc<LiveArray>, name: &Arc<str>, events: &Events) -> Rc<Caretaker> {
        Rc::new(Caretaker {
            set: Rc::clone(set),
            name: Arc::clone(name),
            events: events.clone(),
            failed: RefCell::default(),
            changes: Cell::new(0),
            devices: Mutex::default(),
            is_busy: Cell::new(true),
            idle: Notify::new(),
            asked: Notify::new(),
        })
    }

    /// Cares for the set until this is dropped.
    pub async fn run(&self) {
        loop {
            // Before the look: what changes after it ends the wait at once.
            let changed = self.set.changed();
            let asked = self.asked.notified();
            if let Some(work) = self.next() {
                self.is_busy.set(true);
                let done = self.carry_out(work).await;
                self.note(work, done);
                continue;
            }
            self.is_busy.set(false);
            self.idle.notify_waiters();
            futures_util::future::select(std::pin::pin!(changed), std::pin::pin!(asked)).await;
            self.changes.set(self.changes.get() + 1);
        }
    }

    /// Looks again, also for what failed too often: a device was added, or something asked for.
    pub fn look_again(&self) {
        self.failed.borrow_mut().clear();
        self.is_busy.set(true);
        self.asked.notify_waiters();
    }

    /// Ends when nothing is left to do that could be done.
    pub async fn idle(&self) {
        while self.is_busy.get() {
            self.idle.notified().await;
        }
    }

    /// Whether something is being done.
    pub fn is_busy(&self) -> bool {
        self.is_busy.get()
    }

    /// What is to be done next, and did not fail since the last change.
    fn next(&self) -> Option<Work> {
        let set = &self.set;
        let resync = set.needs_resync().then_some(Work::Resync);
        let rebuilds = set.needs_rebuild().into_iter().map(Work::Rebuild);
        let replaces = set.needs_replace().into_iter().map(Work::Replace);
        let failed = self.failed.borrow();
        let may = |work: &Work| {
            let last = failed.get(work);
            last.is_none_or(|last| last.at < self.changes.get() && last.times < FAILURES_MAX)
        };
        // A set that lost too many can't be made whole by anything here.
        let mut all = resync.into_iter().chain(rebuilds).chain(replaces);
        all.find(|work| may(work) && !set.has_failed())
    }

    async fn carry_out(&self, work: Work) -> Result<(), LiveError> {
        let priority = SyncPriority::Normal;
        match work {
            Work::Resync => {
                self.event(SetEvent::RebuildStarted { work, on: None });
                self.set.resync(priority).await?;
                self.event(SetEvent::RebuildFinished { work, on: None });
            }
            Work::Rebuild(slot) => {
                let alone = self.devices.lock().await;
                self.set.begin_rebuild(slot).await?;
                drop(alone);
                let on = self.device_of(slot, MemberState::Rebuilding);
                self.event(SetEvent::RebuildStarted { work, on: on.clone() });
                self.set.rebuild(slot, priority).await?;
                self.event(SetEvent::RebuildFinished { work, on });
            }
            Work::Replace(slot) => {
                let on = self.device_of(slot, MemberState::Replacement);
                self.event(SetEvent::RebuildStarted { work, on: on.clone() });
                self.set.replace(slot, priority).await?;
                self.event(SetEvent::RebuildFinished { work, on });
            }
        }
        Ok(())
    }

    /// Who stands in a slot in this state.
    fn device_of(&self, slot: usize, state: MemberState) -> Option<Arc<str>> {
        let devices = self.set.devices();
        let mut here = devices.iter().filter(|one| one.slot == Some(slot) && one.state == state);
        here.next().map(|one| Arc::clone(&one.name))
    }

    /// Notes how something ended.
    fn note(&self, work: Work, done: Result<(), LiveError>) {
        let Err(error) = done else {
            self.failed.borrow_mut().remove(&work);
            return;
        };
        let mut failed = self.failed.borrow_mut();
        let times = failed.get(&work).map_or(0, |last| last.times) + 1;
        failed.insert(work, Failed { times, at: self.changes.get() });
        drop(failed);
        // With the next spare it may succeed at once; each try takes one.
        let lost = matches!(error, LiveError::Sync { error: SyncError::TargetLost { .. }, .. });
        if lost {
            self.changes.set(self.changes.get() + 1);
        }
        let then = match work {
            _ if self.set.has_failed() => Then::SetFailed,
            _ if times >= FAILURES_MAX => Then::LeftAlone,
            Work::Replace(_) if lost => Then::ReplaceAnew,
            Work::Rebuild(_) if lost && !self.set.needs_rebuild().is_empty() => Then::NextSpare,
            _ => Then::WithTheNextDevice,
        };
        self.event(SetEvent::RebuildFailed { work, error, then });
    }

    fn event(&self, event: SetEvent) {
        self.events.tell(Event::Set { set: Arc::clone(&self.name), event });
    }
}
