//! What an `.icf` file says, as types.
//!
//! An IOMeter configuration has up to four sections: the test setup (how long, what is cycled), the
//! results display (which concerns IOMeter's window only), the access specifications (what is read
//! and written how), and the manager list (which workers do it, to which targets, how deep). Each may
//! be missing; what a missing key means is IOMeter's default.
//!
//! The units are the file's: sectors of 512 B for the size and start of a target, percent for shares,
//! milliseconds for delays. [`plan`](mod@super::plan) makes tests of it.

use std::num::NonZeroU32;
use std::time::Duration;
use stdx::ByteCount;

/// The unit of a target's size and start. IOMeter takes the sector of the disk, which is 512 B
/// wherever `.icf` files come from.
pub const SECTOR: ByteCount = ByteCount(512);

/// The name of the access specification that every IOMeter knows: do nothing.
pub const IDLE: &str = "Idle";

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Icf {
    /// As the first line has it: `1.1.0`, `2006.07.27`.
    pub version: String,
    /// How the tests run.
    pub setup: TestSetup,
    /// The access specifications, in the file's order.
    pub specs: Vec<AccessSpec>,
    /// The machines with their workers; empty where the file has no manager list.
    pub managers: Vec<Manager>,
    /// What the reader must know: what was read in another way than it stands there.
    pub notes: Vec<String>,
}

/// The section `TEST SETUP`.
#[derive(Clone, Debug, PartialEq)]
pub struct TestSetup {
    /// A line of text.
    pub description: String,
    /// How long each test records; zero means until it is stopped.
    pub run_time: Duration,
    /// How long each test runs before it records.
    pub ramp_up: Duration,
    /// Workers that a machine starts with.
    pub disk_workers: WorkerCount,
    /// Which rows the results file gets.
    pub record: Record,
    /// How the number of workers grows.
    pub worker_cycling: Cycling,
    /// How the number of targets grows.
    pub target_cycling: Cycling,
    /// How the number of outstanding I/Os grows.
    pub queue_cycling: Cycling,
    /// Where the growing number of outstanding I/Os ends.
    pub queue_end: u32,
    /// What is cycled.
    pub test_type: TestType,
}

impl Default for TestSetup {
    fn default() -> TestSetup {
        let by_ones = Cycling { start: 1, step: 1, growth: Growth::Linear };
        TestSetup {
            description: String::new(),
            run_time: Duration::ZERO,
            ramp_up: Duration::ZERO,
            disk_workers: WorkerCount::Processors,
            record: Record::All,
            worker_cycling: by_ones,
            target_cycling: by_ones,
            queue_cycling: Cycling { start: 1, step: 2, growth: Growth::Exponential },
            queue_end: 32,
            test_type: TestType::Normal,
        }
    }
}

/// How many workers a machine starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// One for each processor.
    Processors,
    /// So many.
    Fixed(u32),
}

/// `'Record Results`: down to what the results file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// Nothing is written.
    None,
    /// The sum of all machines.
    NoManagers,
    /// The machines too.
    NoWorkers,
    /// The workers too.
    NoTargets,
    /// The targets too.
    All,
}

/// A number that grows from test to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycling {
    /// The first; at least 1.
    pub start: u32,
    /// Added, or multiplied with; at least 1.
    pub step: u32,
    /// Which of both.
    pub growth: Growth,
}

/// How a cycled number grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// By adding the step.
    Linear,
    /// By multiplying with the step; a step of 1 adds, as in IOMeter.
    Exponential,
}

impl Cycling {
    /// The number after `current`, if it can be told from it.
    pub fn after(self, current: u32) -> Option<u32> {
        match self.growth {
            Growth::Exponential if self.step > 1 => current.checked_mul(self.step),
            _ => current.checked_add(self.step),
        }
    }
}

/// What is cycled from test to test, for each access specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestType {
    /// Nothing: one test with all workers and all their targets.
    Normal,
    /// Targets of each worker.
    CycleTargets,
    /// Workers of each machine.
    CycleWorkers,
    /// Targets of each machine, filled up worker by worker.
    IncrementTargetsParallel,
    /// Targets of all machines, filled up worker by worker.
    IncrementTargetsSerial,
    /// Targets of each worker, and for each number of workers again.
    CycleWorkersAndTargets,
    /// Outstanding I/Os.
    CycleOutstandingIos,
    /// Outstanding I/Os, and for each number of targets again.
    CycleOutstandingIosAndTargets,
}

/// An access specification: a mix of kinds of I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSpec {
    /// Its name, by which workers are given it.
    pub name: String,
    /// Which workers get it without being told.
    pub assigned: DefaultAssignment,
    /// Its lines; their shares add up to 100.
    pub lines: Vec<AccessLine>,
}

/// Which workers get an access specification by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAssignment {
    /// None.
    None,
    /// All.
    All,
    /// Those of disks.
    Disk,
    /// Those of networks: none here.
    Net,
}

/// A line of an access specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessLine {
    /// Size of each I/O.
    pub size: ByteCount,
    /// How often this line is taken, in percent of the bursts.
    pub share_percent: u8,
    /// How many of its I/Os read; the others write.
    pub reads_percent: u8,
    /// How many of its I/Os go to a random place; the others go on where the last one ended.
    pub random_percent: u8,
    /// Pause before each burst, in which the worker starts nothing.
    pub delay: Duration,
    /// I/Os in a burst.
    pub burst: NonZeroU32,
    /// Places are multiples of it; zero means of the sector.
    pub align: ByteCount,
}

/// A machine with workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manager {
    /// Its name.
    pub name: String,
    /// Its workers.
    pub workers: Vec<Worker>,
}

/// A worker: a thread that keeps I/Os outstanding to its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// I/Os outstanding to each of its targets.
    pub outstanding: u32,
    /// The random numbers it is started with, where they are fixed.
    pub seed: Option<u64>,
    /// How much of each target it uses, in [`SECTOR`]s; 0 for all.
    pub size_sectors: u64,
    /// Where that begins, in sectors.
    pub start_sector: u64,
    /// What it writes.
    pub pattern: DataPattern,
    /// Names of its access specifications, in order.
    pub specs: Vec<String>,
    /// Names of its targets, in order.
    pub targets: Vec<String>,
}

/// What a worker writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataPattern {
    /// One byte repeated, another for each write.
    #[default]
    RepeatingBytes,
    /// Random bytes, the same for all writes of a test.
    PseudoRandom,
    /// Random bytes, others for each write.
    FullRandom,
}
