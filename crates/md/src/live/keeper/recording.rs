//! What the engine asks, and the journal: before a write begins, before it is answered, when it has ended.

use super::Keeper;
use crate::journal::log::Superblocks;
use crate::live::write_intent::Intent;
use crate::record::{Recorder, Recording};
use rt::IoErrorKind;
use std::ops::Range;

impl Keeper {
    /// A write to a range may begin when this is done.
    async fn allow(&self, range: &Range<u64>, durable: bool) -> Result<(), IoErrorKind> {
        self.record(durable).await?;
        assert!(self.says_dirty.get(), "a write begins when the superblocks say dirty");
        let is_durable = |intent: &Intent| intent.is_durable(range);
        assert!(
            self.intent.as_ref().is_none_or(is_durable),
            "a write begins when its bits stand on the members"
        );
        Ok(())
    }

    async fn record(&self, durable: bool) -> Result<(), IoErrorKind> {
        if !self.says_dirty.get() {
            self.set_dirty(true).await?;
        }
        if durable {
            return Ok(());
        }
        let _alone = self.writing.lock().await;
        let Some(array) = self.array.upgrade() else { return Err(IoErrorKind::Gone) };
        let pending = self.intent.as_ref().is_some_and(Intent::is_pending);
        // Whoever came first has written them.
        if !pending || self.write_bits(&array, false).await {
            Ok(())
        } else {
            self.write_all().await
        }
    }
}

impl Recorder for Keeper {
    fn before_write(&self, range: Range<u64>) -> Recording {
        self.in_flight.set(self.in_flight.get() + 1);
        let now = self.rt.now();
        let durable = self.intent.as_ref().is_none_or(|intent| intent.begin(&range, now));
        if durable && self.says_dirty.get() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let myself = self.myself.clone();
        Box::pin(async move {
            match myself.upgrade() {
                Some(keeper) => keeper.allow(&range, durable).await,
                None => Err(IoErrorKind::Gone),
            }
        })
    }

    fn before_answer(&self) -> Recording {
        if !self.array.upgrade().is_some_and(|array| self.is_unrecorded(&array)) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let myself = self.myself.clone();
        Box::pin(async move {
            match myself.upgrade() {
                Some(keeper) => keeper.write().await,
                None => Err(IoErrorKind::Gone),
            }
        })
    }

    fn after_write(&self, range: Range<u64>) {
        let now = self.rt.now();
        assert!(self.in_flight.get() > 0, "a write that ends was counted when it began");
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 {
            self.ended.notify_waiters();
        }
        self.last_write.set(now);
        if let Some(intent) = &self.intent {
            intent.end(&range, now);
        }
        self.await_quiet();
        self.await_clearing();
    }
}

impl Superblocks for Keeper {
    fn write_superblocks(&self) -> Recording {
        let myself = self.myself.clone();
        Box::pin(async move {
            match myself.upgrade() {
                Some(keeper) => keeper.write().await,
                None => Err(IoErrorKind::Gone),
            }
        })
    }
}
