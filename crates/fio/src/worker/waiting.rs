//! When a job waits: for its rate, for others of its flow, for its thinking time.

use super::{FLOW_NAP, NAP, Worker};
use crate::error::FioError;
use crate::figures::Direction;
use stdx::Instant;

impl Worker {
    /// Sleeps, in naps, so that an end is heard of.
    pub(super) async fn sleep_until(&mut self, until: Instant) -> Result<(), FioError> {
        loop {
            let now = self.rt.now();
            self.now = now;
            if now >= until || self.is_over() {
                return Ok(());
            }
            // With offloaded submission, answers are taken while the job waits for its rate.
            while let Some((what, result)) = self.queue.take() {
                self.answered(what, result)?;
            }
            if now >= self.next_tick && !self.tick_asleep()? {
                return Ok(());
            }
            self.rt.sleep_until(until.min(now + NAP)).await;
        }
    }

    /// Whether the job's share of its flow lets it go on; waits where not.
    pub(super) async fn flow_allows(&mut self) -> Result<bool, FioError> {
        let Some(flow) = &self.flow else { return Ok(true) };
        if self.flow_allowed || flow.may_go() {
            self.flow_allowed = true;
            return Ok(true);
        }
        self.drain().await?;
        self.rt.sleep(self.spec.flow_sleep.max(FLOW_NAP).min(NAP)).await;
        self.now = self.rt.now();
        if self.now >= self.next_tick {
            self.tick()?;
        }
        Ok(false)
    }

    /// The blocks after so many of which a job thinks.
    pub(super) fn blocks_to_think(&self) -> u64 {
        match self.spec.think.by_issue {
            false => self.done_blocks,
            true => self.issued.iter().sum(),
        }
    }

    /// Thinks, where it is time to; to the end, be it beyond that of the job.
    pub(super) async fn think(&mut self) -> Result<(), FioError> {
        let (think, blocks) = (self.spec.think, self.blocks_to_think());
        let by_time = !think.io_time.is_zero()
            && self.now.since(self.thought_when) >= think.io_time + think.time;
        let by_blocks = match (think.blocks, think.io_time.is_zero()) {
            (Some(every), _) => blocks >= self.thought_at + every,
            (None, true) => blocks > self.thought_at,
            (None, false) => false,
        };
        if !by_time && !by_blocks {
            return Ok(());
        }
        self.drain().await?;
        let began = self.rt.now();
        while self.rt.now().since(began) < think.spin && !self.is_over() {
            self.rt.yield_now().await;
        }
        self.sleep_until(began + think.time).await?;
        self.thought_at = blocks;
        self.thought_when = self.now;
        if self.spec.rate_ignores_thinking {
            let direction = if self.spec.mode.read { Direction::Read } else { Direction::Write };
            self.pace.thought(direction, self.now.since(began));
        }
        Ok(())
    }
}
