//! A pool whose devices take no writes any more, though nothing is lost yet: it is suspended until somebody resumes it.
//!
//! ```text
//!   a write fails, and no redundancy bears it ──▶ what the property failmode says ([`OnFailure`])
//!        stop        the write fails, and with it its transaction group; nothing more is written
//!        wait        suspended: whoever writes waits, and whoever reads what no device gives
//!        continue    suspended: who writes to the open group is refused; what is being written waits
//!   resumed ──▶ each that waits tries again
//!   given up ─▶ each that waits fails, as with stop
//! ```
//!
//! Nothing is dropped while it is suspended: what was to be written is in the memory of whoever waits. So who resumes loses nothing, and
//! who gives up, or is killed, loses what a power cut would have cost.
//!
//! Source: OpenZFS, `zio.c` (`zio_suspend`, `zio_resume`), `dmu_tx.c` (`dmu_tx_try_assign`).

use rt::sync::Notify;
use std::cell::Cell;
use stdx::Instant;

/// What happens when a write fails and no redundancy bears it: the property `failmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It fails, and nothing more is written. So does `panic`; and who has a pool open for one command only, for nobody could resume it.
    #[default]
    Stop,
    /// The pool is suspended, and everybody waits.
    Wait,
    /// The pool is suspended, and what is new is refused.
    Continue,
}

/// Why a pool is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its devices take no writes, or give nothing that can't be done without.
    Io,
    /// It could not give signs of life for so long that another host may have taken it (MMP).
    Multihost,
}

/// Whether a pool is suspended. See the [module](self).
#[derive(Default)]
pub struct Suspension {
    on_failure: Cell<OnFailure>,
    reason: Cell<Option<Reason>>,
    /// Nobody resumes it any more.
    is_over: Cell<bool>,
    /// Until when it may be written without another sign of life.
    deadline: Cell<Option<Instant>>,
    changed: Notify,
}

impl Suspension {
    /// What happens on a failure from here on.
    pub fn set_on_failure(&self, what: OnFailure) {
        self.on_failure.set(what);
    }

    /// What happens on a failure.
    pub fn on_failure(&self) -> OnFailure {
        self.on_failure.get()
    }

    /// Why it is suspended, if it is.
    pub fn reason(&self) -> Option<Reason> {
        self.reason.get()
    }

    /// Whether what is new is to be refused.
    pub fn refuses(&self) -> bool {
        self.reason.get().is_some() && self.on_failure.get() == OnFailure::Continue
    }

    /// Whether who reads what no device gives waits for the devices.
    pub(crate) fn waits_to_read(&self) -> bool {
        self.on_failure.get() == OnFailure::Wait && !self.is_over.get()
    }

    /// Suspends the pool; where nobody could resume it, gives it up.
    pub fn suspend(&self, reason: Reason) {
        let known = self.reason.get();
        self.reason.set(known.or(Some(reason)));
        if self.on_failure.get() == OnFailure::Stop {
            self.is_over.set(true);
        }
        self.changed.notify_waiters();
    }

    /// The devices answer again: who waits tries again.
    pub fn resume(&self) {
        if !self.is_over.get() {
            self.reason.set(None);
            self.changed.notify_waiters();
        }
    }

    /// It is not resumed any more: what waits fails, now and later.
    pub fn give_up(&self) {
        self.is_over.set(true);
        self.changed.notify_waiters();
    }

    /// Whether it is not resumed any more.
    pub fn was_given_up(&self) -> bool {
        self.is_over.get()
    }

    /// Something happened to a device that is worth a look.
    pub(crate) fn tell(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until it is suspended, or isn't any more, or a device was taken out.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until it is not suspended. False where it was given up while it was.
    pub async fn passed(&self) -> bool {
        loop {
            let changed = self.changed.notified();
            if self.reason.get().is_none() {
                return true;
            }
            if self.is_over.get() {
                return false;
            }
            changed.await;
        }
    }

    /// Whoever writes after this moment suspends the pool first: another host may have taken it.
    pub fn set_deadline(&self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    /// Whether it may not be written any more without another sign of life.
    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline.get().is_some_and(|deadline| now > deadline)
    }

    /// Waits until it may be written. False where it was given up.
    pub async fn may_write(&self, now: impl Fn() -> Instant) -> bool {
        loop {
            if !self.passed().await {
                return false;
            }
            if !self.is_late(now()) {
                return true;
            }
            self.suspend(Reason::Multihost);
        }
    }

    /// Something failed that can't be done without: true when it is worth another try.
    pub async fn again(&self) -> bool {
        if self.on_failure.get() == OnFailure::Stop {
            return false;
        }
        self.suspend(Reason::Io);
        self.passed().await
    }
}
