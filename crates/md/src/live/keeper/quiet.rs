//! When nothing was written for a while: the set is clean, and bits of the bitmap may go.

use super::{Keeper, QUIET};
use crate::live::write_intent::Intent;
use rt::IoErrorKind;
use stdx::Instant;

impl Keeper {
    /// Clears the bits whose stretches were quiet since `before`. With the lock held.
    pub(super) async fn clear_bits(&self, before: Instant) -> Result<(), IoErrorKind> {
        let (Some(array), Some(intent)) = (self.array.upgrade(), &self.intent) else {
            return Ok(());
        };
        let all_there = || array.degraded() == 0 && !self.is_unrecorded(&array);
        if !all_there() || intent.quiet(before).is_empty() {
            return Ok(());
        }
        if intent.cleared_as_of(self.events.get()) && !self.write_bits(&array, true).await {
            return self.write_all().await;
        }
        let cleared = intent.quiet(before);
        intent.clear(&cleared);
        self.flush_members().await;
        if !all_there() {
            intent.restore(&cleared);
            return self.write_all().await;
        }
        if self.write_bits(&array, false).await { Ok(()) } else { self.write_all().await }
    }

    /// When nothing was written for a while, the superblocks say so.
    pub(super) fn await_quiet(&self) {
        if self.waits_for_quiet.replace(true) {
            return;
        }
        let (myself, rt) = (self.myself.clone(), self.rt.clone());
        let wait = async move {
            loop {
                let Some(keeper) = myself.upgrade() else { return };
                let until = keeper.last_write.get() + QUIET;
                if keeper.in_flight.get() == 0 && rt.now() >= until {
                    keeper.waits_for_quiet.set(false);
                    if !keeper.stopped.get() {
                        // Where it can't be written a member has failed, and the next write tells.
                        let _ = keeper.set_dirty(false).await;
                    }
                    return;
                }
                drop(keeper);
                rt.sleep_until(until.max(rt.now() + QUIET / 4)).await;
            }
        };
        self.rt.spawn(wait).detach();
    }

    /// Looks now and then for bits that may go, as long as there are some.
    pub(in crate::live) fn await_clearing(&self) {
        let Some(intent) = &self.intent else { return };
        // The cheap question first: this is asked after each write.
        if self.waits_to_clear.get() || !intent.has_to_clear() {
            return;
        }
        self.waits_to_clear.set(true);
        let (myself, rt, every) = (self.myself.clone(), self.rt.clone(), intent.clear_every());
        let wait = async move {
            loop {
                let since = rt.now();
                rt.sleep(every).await;
                let Some(keeper) = myself.upgrade() else { return };
                let degraded = keeper.array.upgrade().is_none_or(|array| array.degraded() > 0);
                let has_to = keeper.intent.as_ref().is_some_and(Intent::has_to_clear);
                if keeper.stopped.get() || degraded || !has_to {
                    keeper.waits_to_clear.set(false);
                    return;
                }
                let _alone = keeper.writing.lock().await;
                // Where it can't be written a member has failed, and the next write tells.
                let _ = keeper.clear_bits(since).await;
            }
        };
        self.rt.spawn(wait).detach();
    }
}
