//! A session: one statement after another, one block at a time.
//!
//! **What a statement does**, by the loop of `slob.sql`.
//!
//! 1. Perhaps it thinks: where the last row number is a multiple of the frequency, for a random time.
//! 2. It takes a random row number of its schema (of the first one, or of the hotspot, where their
//!    frequency says so); it touches the rows below it, one less than `WORK_UNIT`.
//! 3. It updates, or queries, or scans, by SLOB's quotas: among 100 statements as many update as
//!    `UPDATE_PCT` says, each being chosen by even chance until the quota is filled; of 100 queries
//!    likewise as many scan as `SCAN_PCT` says.
//! 4. A query reads its rows' blocks. An update reads them, writes each back, and commits: it waits
//!    until the log writer says that its redo is durable. A scan reads its table from start to end.
//!
//! Where Oracle differs: its sessions leave changed blocks in memory, and another process writes them
//! some time later. Without that memory the session writes them itself, so that as many blocks are
//! read and written for a statement, and what the storage can do shows in the number of statements.

use super::log::LogHandle;
use super::plan::{Plan, Session};
use super::scatter::Scatter;
use super::tally::SessionTally;
use rt::{FileRef, Request, Rt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Instant, Offset, Prng};
use workload::blocks::Blocks;
use workload::io_failure::IoFailure;

/// How much a scan reads at once: Oracle's largest multi-block read.
const SCAN_BYTES: u64 = 1 << 20;

/// How long a session thinks before it looks again whether it shall stop.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Statements over which the quotas are kept.
const QUOTA_OF: u32 = 100;

/// A session under way.
pub(super) struct Running {
    pub(super) rt: Rt,
    pub(super) plan: Arc<Plan>,
    pub(super) session: Session,
    pub(super) file: FileRef,
    pub(super) scatter: Scatter,
    pub(super) prng: Prng,
    pub(super) blocks: Blocks,
    /// Where something updates.
    pub(super) log: Option<LogHandle>,
    pub(super) stop: Arc<AtomicBool>,
    /// When it begins to count.
    pub(super) on: Instant,
    /// When it ends.
    pub(super) off: Instant,
    pub(super) tally: SessionTally,
}

/// How many statements of a kind were done of the last hundred, and whether it is enough.
#[derive(Default)]
struct Quota {
    wanted: u32,
    others: u32,
    filled: bool,
}

impl Quota {
    /// Whether the next one is of the kind.
    fn next(&mut self, percent: u8, prng: &mut Prng) -> bool {
        let chosen = match percent {
            0 => false,
            100 => true,
            _ => !self.filled && prng.chance(0.5),
        };
        match chosen {
            true => self.wanted += 1,
            false => self.others += 1,
        }
        self.filled |= self.wanted >= u32::from(percent);
        if self.wanted + self.others >= QUOTA_OF {
            *self = Quota::default();
        }
        chosen
    }
}

impl Running {
    /// Runs until the time is over, all statements are done, or it shall stop.
    pub(super) async fn run(mut self) -> Result<SessionTally, IoFailure> {
        let (mut updates, mut scans) = (Quota::default(), Quota::default());
        let mut statement = 0;
        let mut row = 1;
        while !self.is_over() {
            let conf = &self.plan.conf;
            if conf.work_loop > 0 && statement == conf.work_loop {
                break;
            }
            if conf.think_frequency > 0 && row % conf.think_frequency == 0 {
                self.think().await;
            }
            let conf = &self.plan.conf;
            let hot = conf.hot_schema_frequency;
            let schema = if hot > 0 && statement % hot == 0 { 0 } else { self.session.schema };
            row = self.row(statement);
            if updates.next(self.session.update_percent, &mut self.prng) {
                self.update(schema, row).await?;
                self.tally.updates += self.counts();
            } else if scans.next(self.plan.conf.scan_percent, &mut self.prng) {
                self.scan(schema).await?;
                self.tally.scans += self.counts();
            } else {
                self.query(schema, row).await?;
                self.tally.queries += self.counts();
            }
            statement += 1;
        }
        let end = self.rt.now().min(self.off);
        self.tally.time = if end > self.on { end.since(self.on) } else { Duration::ZERO };
        if let Some(before) = self.tally.processor_before {
            self.tally.processor = self.rt.processor_time().saturating_sub(before);
        }
        Ok(self.tally)
    }

    fn is_over(&mut self) -> bool {
        let now = self.rt.now();
        if now >= self.on && self.tally.processor_before.is_none() {
            self.tally.processor_before = Some(self.rt.processor_time());
        }
        now >= self.off || self.stop.load(Ordering::Relaxed)
    }

    /// 1 where what ends now counts.
    fn counts(&self) -> u64 {
        let now = self.rt.now();
        u64::from(now >= self.on && now <= self.off)
    }

    async fn think(&mut self) {
        let (least, most) = self.plan.conf.think;
        let span = least + (most - least).mul_f64(self.prng.unit());
        let until = (self.rt.now() + span).min(self.off);
        while self.rt.now() < until && !self.stop.load(Ordering::Relaxed) {
            self.rt.sleep_until(until.min(self.rt.now() + LOOK_AGAIN)).await;
        }
    }

    /// The row number below which a statement's rows lie; rows count from 1.
    fn row(&mut self, statement: u64) -> u64 {
        let unit = self.plan.conf.work_unit;
        let (first, last) = match self.plan.hotspot {
            Some((first, blocks, frequency)) if statement.is_multiple_of(frequency) => {
                (first + unit, first + blocks)
            }
            _ => (unit + 1, self.plan.table_blocks - unit),
        };
        first + self.prng.below(last - first + 1)
    }

    /// The places of a statement's blocks.
    fn places(&self, schema: u32, row: u64) -> impl Iterator<Item = Offset> + use<> {
        let (block, table) = (self.plan.block.bytes(), self.plan.table_at(schema));
        let scatter = self.scatter.clone();
        (row + 1 - self.plan.conf.work_unit..row)
            .map(move |row| Offset((table + scatter.block_of(row - 1)) * block))
    }

    async fn query(&mut self, schema: u32, row: u64) -> Result<(), IoFailure> {
        for place in self.places(schema, row) {
            self.read(place, self.plan.block).await?;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    async fn update(&mut self, schema: u32, row: u64) -> Result<(), IoFailure> {
        for place in self.places(schema, row) {
            self.read(place, self.plan.block).await?;
            let data = self.blocks.next();
            let began = self.rt.now();
            self.file.submit(Request::write(place, data)).await?;
            self.tally.writes.count(began, self.rt.now(), self.plan.block, self.on, self.off);
            if self.is_over() {
                return Ok(());
            }
        }
        let Some(log) = &self.log else {
            return Ok(());
        };
        let began = self.rt.now();
        if !log.commit(self.plan.redo_bytes()).await {
            // The log writer failed, and says why itself; nothing more can be committed.
            self.off = began;
            return Ok(());
        }
        let bytes = ByteCount(self.plan.redo_bytes());
        self.tally.commits.count(began, self.rt.now(), bytes, self.on, self.off);
        Ok(())
    }

    async fn scan(&mut self, schema: u32) -> Result<(), IoFailure> {
        let block = self.plan.block.bytes();
        let start = self.plan.scan_table_at(schema) * block;
        let end = start + self.plan.scan_blocks * block;
        let mut place = start;
        while place < end && !self.is_over() {
            let len = SCAN_BYTES.max(block).min(end - place);
            let began = self.rt.now();
            let data = self.file.submit(Request::read(Offset(place), ByteCount(len))).await?;
            self.check(Offset(place), ByteCount(len), data.len())?;
            self.tally.scanned.count(began, self.rt.now(), ByteCount(len), self.on, self.off);
            place += len;
        }
        Ok(())
    }

    async fn read(&mut self, place: Offset, len: ByteCount) -> Result<(), IoFailure> {
        let began = self.rt.now();
        let data = self.file.submit(Request::read(place, len)).await?;
        self.check(place, len, data.len())?;
        self.tally.reads.count(began, self.rt.now(), len, self.on, self.off);
        Ok(())
    }

    fn check(&self, offset: Offset, len: ByteCount, got: usize) -> Result<(), IoFailure> {
        let got = ByteCount(got as u64);
        match got < len {
            true => Err(IoFailure::Short { file: self.file.name().to_string(), offset, len, got }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What could break: another share of updates than was asked for.

    use super::*;

    #[test]
    fn a_quota_is_met_in_every_hundred() {
        let mut prng = Prng::new(1);
        for percent in [0, 1, 25, 40, 100] {
            let mut quota = Quota::default();
            for _ in 0..20 {
                let count = (0..100).filter(|_| quota.next(percent, &mut prng)).count();
                assert_eq!(count, usize::from(percent));
            }
        }
        // At a half, the even chance rarely falls a little short, as SLOB's does.
        let mut quota = Quota::default();
        let count = (0..10_000).filter(|_| quota.next(50, &mut prng)).count();
        assert!((4500..=5000).contains(&count), "{count}");
    }
}
