//! Flowops that touch no file: they wait, limit, burn time, count.
//!
//! A limit looks at what was done since its last call, by the flowop that is its target or by its
//! whole process, and waits for as many events (of `bwlimit`: one for each mebibyte begun). Its first
//! call only takes note. Without a target all threads of a process share one account. filebench has
//! one for each thread, so that each op is charged as often as there are threads, but for threads that
//! starve: 205 ops/s came of a rate of 300 with five threads.

use super::shared::Totals;
use super::worker::{Called, End, Worker};
use crate::plan::{Flowop, FlowopKind, Target};
use rt::{Work, WorkKind};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stdx::ByteCount;

/// What a loop of `hog` costs on a simulated processor, as bytes that are copied: a store a cycle.
const HOG_BYTES: u64 = 3;

/// Loops of `hog` between two looks at the end of the run.
const HOG_LOOPS: u64 = 1 << 24;

impl Worker {
    pub(super) async fn block(&mut self, flowop: &Flowop) -> Called {
        let begin = self.place.rt.now();
        let block = self.kept.get(flowop.slot).and_then(|kept| kept.block.clone());
        if let Some(block) = block
            && !block.wait(self.ending()).await
        {
            return Err(End::RunOver);
        }
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    pub(super) fn wakeup(&mut self, flowop: &Flowop) -> Called {
        let run = Arc::clone(&self.run);
        if let Target::Named(name) = &flowop.target {
            for block in run.blocks.get(name).into_iter().flatten() {
                let begin = self.place.rt.now();
                block.wake();
                self.count(flowop, begin, Duration::ZERO, 0);
            }
        }
        Ok(())
    }

    pub(super) async fn sem_block(&mut self, flowop: &Flowop) -> Called {
        let value = self.number(flowop.value);
        let begin = self.place.rt.now();
        let semaphore = self.kept.get(flowop.slot).and_then(|kept| kept.semaphore.clone());
        if let Some(semaphore) = semaphore
            && !semaphore.take(value, &self.place.rt, self.ending()).await
        {
            return Err(End::RunOver);
        }
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    pub(super) async fn sem_post(&mut self, flowop: &Flowop) -> Called {
        let run = Arc::clone(&self.run);
        let begin = self.place.rt.now();
        if let Target::Named(name) = &flowop.target {
            for semaphore in run.semaphores.get(name).into_iter().flatten() {
                let value = self.number(flowop.value);
                let posted = semaphore.post(value, flowop.blocking, &self.place.rt, &run.ending);
                if !posted.await {
                    return Err(End::RunOver);
                }
            }
        }
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    pub(super) async fn hog(&mut self, flowop: &Flowop) -> Called {
        let mut loops = self.number(flowop.value);
        let begin = self.place.rt.now();
        let mut memory = 0u8;
        while loops > 0 && !self.ending().is_over() {
            let now = loops.min(HOG_LOOPS);
            for _ in 0..now {
                *black_box(&mut memory) = 1;
            }
            let bytes = ByteCount(now.saturating_mul(HOG_BYTES));
            self.place.rt.charge(Work::new(WorkKind::Copy, bytes).anywhere()).await;
            loops -= now;
        }
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    pub(super) async fn delay(&mut self, flowop: &Flowop) -> Called {
        let begin = self.place.rt.now();
        let seconds = self.number(flowop.value).min(crate::plan::SECONDS_MAX);
        if !self.ending().wait(self.place.rt.sleep(Duration::from_secs(seconds))).await {
            return Err(End::RunOver);
        }
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    /// Waits for so many events. False where the run ended first, and where no event will ever come
    /// because there is no generator, which is no reason to wait.
    async fn events(&mut self, events: u64) -> Called {
        let Some(rate) = self.run.event_rate else { return Ok(()) };
        let rate = self.float(rate);
        if rate <= 0.0 {
            return Ok(());
        }
        let moment = self.run.events.take(events, rate, self.place.rt.now());
        match self.ending().wait(self.place.rt.sleep_until(moment)).await {
            true => Ok(()),
            false => Err(End::RunOver),
        }
    }

    pub(super) async fn event_limit(&mut self, flowop: &Flowop) -> Called {
        if self.run.event_rate.is_none() {
            return Ok(());
        }
        let begin = self.place.rt.now();
        self.events(1).await?;
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    /// What was counted of the flowop's target, or of its process.
    fn counted(&self, flowop: &Flowop) -> u64 {
        use FlowopKind::{BwLimit, FinishOnBytes, IopsLimit};
        if let Target::Slot(slot) = flowop.target {
            let kept = self.kept.get(slot);
            return kept.map_or(0, |kept| match flowop.kind {
                BwLimit | FinishOnBytes => kept.bytes,
                _ => kept.ops,
            });
        }
        let Totals { ops, bytes, transfers, transferred, .. } = &*self.totals;
        let sum: &AtomicU64 = match flowop.kind {
            BwLimit => transferred,
            FinishOnBytes => bytes,
            IopsLimit => transfers,
            _ => ops,
        };
        sum.load(Ordering::Relaxed)
    }

    /// `bwlimit`, `iopslimit`, `opslimit`.
    pub(super) async fn limit(&mut self, flowop: &Flowop) -> Called {
        if self.run.event_rate.is_none() {
            return Ok(());
        }
        let counted = self.counted(flowop);
        let begin = self.place.rt.now();
        let events = match flowop.target {
            Target::Slot(_) => {
                let kept = self.kept.get_mut(flowop.slot);
                kept.and_then(|kept| kept.account.charge(flowop.kind, counted))
            }
            _ => self.totals.charge(flowop.kind, counted),
        };
        let Some(events) = events else { return Ok(()) };
        if events > 0 {
            self.events(events).await?;
        }
        self.count(flowop, begin, Duration::ZERO, 0);
        Ok(())
    }

    /// `finishoncount`, `finishonbytes`.
    pub(super) fn finish(&mut self, flowop: &Flowop) -> Called {
        let counted = self.counted(flowop);
        let wanted = self.kept.get(flowop.slot).map_or(0, |kept| kept.constant);
        let begin = self.place.rt.now();
        self.count(flowop, begin, Duration::ZERO, 0);
        let enough = match flowop.kind {
            FlowopKind::FinishOnBytes => counted > wanted,
            _ => counted >= wanted,
        };
        if enough { Err(End::Finished) } else { Ok(()) }
    }

    pub(super) fn print(&mut self, flowop: &Flowop) -> Called {
        self.run.messages.push(format!("Message from {}: {}", self.plan.name, flowop.message));
        Ok(())
    }

    pub(super) fn test_random(&mut self, flowop: &Flowop) -> Called {
        let value = self.float(flowop.value);
        if let Some(kept) = self.kept.get_mut(flowop.slot) {
            let (count, sum, squares) = kept.tested;
            kept.tested = (count + 1, sum + value, squares + value * value);
        }
        Ok(())
    }
}
