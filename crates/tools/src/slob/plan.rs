//! From parameters to sessions.
//!
//! SLOB has *schemas*, each with a table of `SCALE` blocks and one of `SCAN_TABLE_SZ` that is scanned,
//! and *sessions*, each at home in one schema. Here all schemas lie one after another in one data file,
//! as they would in one tablespace:
//!
//! ```text
//!   slob.dbf  | schema 1: table | scan table | schema 2: table | scan table | …
//!   slob.redo | one log, written round and round (only where something updates)
//! ```
//!
//! `--readers` and `--writers` are the sessions of the first SLOB, which only query or only update:
//! each gets a schema of its own unless the number of schemas is said.

use super::conf::{Conf, Hotspot, RedoStress};
use std::time::Duration;
use stdx::ByteCount;
use workload::crew::WORKERS_MAX;

/// The data file.
pub const DATA_FILE: &str = "slob.dbf";

/// The log.
pub const REDO_FILE: &str = "slob.redo";

/// The size of the log. Oracle's are of this order; it is written round, so that a larger one would
/// change nothing.
pub const REDO_BYTES: ByteCount = ByteCount::mib(64);

/// Size of a column that an update changes.
const COLUMN_BYTES: u64 = 128;

/// What the log says of a changed row beside the columns: addresses, transaction, undo header.
const ROW_OVERHEAD_BYTES: u64 = 256;

/// What a user says beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How many schemas; 1, or as many as readers and writers.
    pub schemas: Option<u32>,
    /// Instead of `THREADS_PER_SCHEMA`.
    pub threads: Option<u32>,
    /// Sessions that only query.
    pub readers: u32,
    /// Sessions that only update.
    pub writers: u32,
    /// Instead of `RUN_TIME`.
    pub run_time: Option<Duration>,
    /// How much of the run time is not measured; SLOB leaves out the first 30 s.
    pub warm_up: Duration,
    /// Instead of the file's block size.
    pub block: Option<ByteCount>,
    /// Through the file system's cache.
    pub buffered: bool,
    /// Leave the data file and the log.
    pub keep: bool,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The parameters.
    pub conf: Conf,
    /// Schemas.
    pub schemas: u32,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// Size of a block.
    pub block: ByteCount,
    /// Blocks of each schema's table.
    pub table_blocks: u64,
    /// Blocks of each schema's table that is scanned; 0 where nothing scans.
    pub scan_blocks: u64,
    /// The spot that is used more, in blocks: first and count.
    pub hotspot: Option<(u64, u64, u64)>,
    /// How long it runs.
    pub run_time: Duration,
    /// How much of that is not measured.
    pub warm_up: Duration,
    /// Past the cache.
    pub direct: bool,
    /// Leave the files.
    pub keep: bool,
    /// What the reader must know.
    pub notes: Vec<String>,
}

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its schema, from 0.
    pub schema: u32,
    /// How many of 100 statements update.
    pub update_percent: u8,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Too many.
    #[error("{0} sessions are asked for; {WORKERS_MAX} are the most")]
    TooManySessions(u64),
    /// Too small.
    #[error(
        "SCALE is {found} blocks; with WORK_UNIT={work_unit} it must be at least {least}: make it larger"
    )]
    ScaleTooSmall {
        /// As it is.
        found: u64,
        /// The work unit.
        work_unit: u64,
        /// The least.
        least: u64,
    },
    /// Beyond the table.
    #[error("the hotspot ends at block {end}, beyond the table of {blocks}; see HOTSPOT_OFFSET_MB")]
    HotspotBeyond {
        /// Where it ends.
        end: u64,
        /// The table.
        blocks: u64,
    },
    /// Too small.
    #[error("the hotspot has {blocks} blocks, not more than WORK_UNIT={work_unit}; see HOTSPOT_MB")]
    HotspotTooSmall {
        /// As it is.
        blocks: u64,
        /// The work unit.
        work_unit: u64,
    },
    /// Nothing to scan.
    #[error("SCAN_PCT is set, but SCAN_TABLE_SZ is less than a block")]
    NoScanTable,
    /// Nothing is measured.
    #[error("the warm-up takes all of the run time; make it shorter")]
    NothingMeasured,
    /// More than a file holds.
    #[error("the tables of all schemas are larger than any file")]
    TooLarge,
    /// A block of an odd size.
    #[error("the block size {0} is no power of two of 512 B to 1 MiB")]
    Block(ByteCount),
}

/// Makes the plan.
///
/// # Errors
/// [`PlanError`]
pub fn plan(conf: &Conf, options: &Options) -> Result<Plan, PlanError> {
    let block = options.block.unwrap_or(conf.block);
    let fits = (512..=1 << 20).contains(&block.bytes()) && block.bytes().is_power_of_two();
    if !fits {
        return Err(PlanError::Block(block));
    }
    let split = options.readers > 0 || options.writers > 0;
    let count = match split {
        true => u64::from(options.readers) + u64::from(options.writers),
        false => {
            let threads = options.threads.unwrap_or(conf.threads_per_schema).max(1);
            u64::from(options.schemas.unwrap_or(1).max(1)) * u64::from(threads)
        }
    };
    if count > WORKERS_MAX as u64 {
        return Err(PlanError::TooManySessions(count));
    }
    let schemas = options.schemas.unwrap_or(if split { count as u32 } else { 1 }).max(1);
    let session = |number: u32| Session {
        schema: number % schemas,
        update_percent: match (split, number < options.readers) {
            (false, _) => conf.update_percent,
            (true, true) => 0,
            (true, false) => 100,
        },
    };
    let sessions: Vec<Session> = (0..count as u32).map(session).collect();
    let table_blocks = conf.scale.blocks(block);
    // A statement's blocks lie below a number between one more than the unit and the table's end less
    // the unit.
    let least = 2 * conf.work_unit + 2;
    if table_blocks < least {
        let (found, work_unit) = (table_blocks, conf.work_unit);
        return Err(PlanError::ScaleTooSmall { found, work_unit, least });
    }
    let scan_blocks = match conf.scan_percent {
        0 => 0,
        _ => match conf.scan_table.blocks(block) {
            0 => return Err(PlanError::NoScanTable),
            blocks => blocks,
        },
    };
    let hotspot = match conf.hotspot {
        None => None,
        Some(spot) => Some(hotspot_in(spot, block, table_blocks, conf.work_unit)?),
    };
    let run_time = options.run_time.unwrap_or(conf.run_time);
    if options.warm_up >= run_time {
        return Err(PlanError::NothingMeasured);
    }
    let bytes = table_blocks
        .checked_add(scan_blocks)
        .and_then(|blocks| blocks.checked_mul(u64::from(schemas)))
        .and_then(|blocks| blocks.checked_mul(block.bytes()));
    if bytes.is_none_or(|bytes| bytes > i64::MAX as u64) {
        return Err(PlanError::TooLarge);
    }
    let mut notes = Vec::new();
    if !conf.ignored.is_empty() {
        notes.push(format!("concern Oracle only, without effect: {}", conf.ignored.join(", ")));
    }
    if options.buffered {
        notes.push("through the file system's cache, which a database goes past".to_owned());
    }
    Ok(Plan {
        conf: conf.clone(),
        schemas,
        sessions,
        block,
        table_blocks,
        scan_blocks,
        hotspot,
        run_time,
        warm_up: options.warm_up,
        direct: !options.buffered,
        keep: options.keep,
        notes,
    })
}

/// The hotspot in blocks (first, count), and how often it is used.
fn hotspot_in(
    spot: Hotspot,
    block: ByteCount,
    table_blocks: u64,
    work_unit: u64,
) -> Result<(u64, u64, u64), PlanError> {
    let first = spot.offset.bytes() / block.bytes();
    let blocks = spot.size.bytes() / block.bytes();
    if first + blocks > table_blocks {
        return Err(PlanError::HotspotBeyond { end: first + blocks, blocks: table_blocks });
    }
    if blocks <= work_unit {
        return Err(PlanError::HotspotTooSmall { blocks, work_unit });
    }
    Ok((first, blocks, spot.frequency))
}

impl Plan {
    /// The size of the data file.
    pub fn data_bytes(&self) -> ByteCount {
        let blocks = (self.table_blocks + self.scan_blocks) * u64::from(self.schemas);
        ByteCount(blocks * self.block.bytes())
    }

    /// Whether anything updates.
    pub fn updates(&self) -> bool {
        self.sessions.iter().any(|session| session.update_percent > 0)
    }

    /// Where a schema's table begins in the data file, in blocks.
    pub(super) fn table_at(&self, schema: u32) -> u64 {
        (self.table_blocks + self.scan_blocks) * u64::from(schema)
    }

    /// Where a schema's scanned table begins, in blocks.
    pub(super) fn scan_table_at(&self, schema: u32) -> u64 {
        self.table_at(schema) + self.table_blocks
    }

    /// How much an update of one statement writes to the log: old and new columns of each row.
    pub(super) fn redo_bytes(&self) -> u64 {
        let columns = match self.conf.redo_stress {
            RedoStress::Lite => 2,
            RedoStress::Heavy => 19,
        };
        (self.conf.work_unit - 1) * (2 * columns * COLUMN_BYTES + ROW_OVERHEAD_BYTES)
    }
}

#[cfg(test)]
mod tests {
    //! What could break: sessions in the wrong schemas, or a load that runs beyond its tables.

    use super::*;
    use crate::slob::conf::Scale;

    fn conf() -> Conf {
        Conf { scale: Scale::Blocks(1000), work_unit: 10, ..Conf::default() }
    }

    #[test]
    fn sessions_are_schemas_times_threads_or_readers_and_writers() {
        let options = Options { schemas: Some(2), threads: Some(2), ..Options::default() };
        let made = plan(&conf(), &options).expect("a plan");
        let schemas: Vec<u32> = made.sessions.iter().map(|session| session.schema).collect();
        assert_eq!(schemas, [0, 1, 0, 1]);
        assert!(made.sessions.iter().all(|session| session.update_percent == 25));
        assert_eq!(made.data_bytes(), ByteCount(2000 * 8192));
        let options = Options { readers: 2, writers: 1, ..Options::default() };
        let made = plan(&conf(), &options).expect("a plan");
        let updates: Vec<u8> = made.sessions.iter().map(|session| session.update_percent).collect();
        assert_eq!(updates, [0, 0, 100]);
        assert_eq!(made.schemas, 3);
    }

    #[test]
    fn what_can_not_be_run_is_named() {
        let refused = |conf: &Conf, options: &Options| plan(conf, options).expect_err("refused");
        let none = Options::default();
        let small = Conf { scale: Scale::Blocks(21), ..conf() };
        assert!(matches!(refused(&small, &none), PlanError::ScaleTooSmall { least: 22, .. }));
        let spot = Hotspot { size: ByteCount::mib(4), offset: ByteCount::mib(4), frequency: 2 };
        let beyond = Conf { hotspot: Some(spot), ..conf() };
        assert_eq!(
            refused(&beyond, &none).to_string(),
            "the hotspot ends at block 1024, beyond the table of 1000; see HOTSPOT_OFFSET_MB"
        );
        let many = Options { readers: 4000, writers: 97, ..Options::default() };
        assert_eq!(refused(&conf(), &many), PlanError::TooManySessions(4097));
        let warm = Options { warm_up: Duration::from_secs(300), ..Options::default() };
        assert_eq!(refused(&conf(), &warm), PlanError::NothingMeasured);
    }
}
