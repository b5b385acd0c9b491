//! From a configuration to the tests that it asks for.
//!
//! IOMeter takes the first access specification of each worker and runs it in all the shapes that the
//! test type cycles through (numbers of workers, of targets, of outstanding I/Os), then the second,
//! and so on. [`plan`] writes these tests out, so that a user sees how many there are and how long
//! they take before the first one runs.
//!
//! **Rules.**
//!
//! 1. A cycled number begins at its start and grows by its step until no more workers or targets take
//!    part, or, for outstanding I/Os, until it exceeds its end.
//! 2. A worker whose list of access specifications is shorter rests once it is through; one whose
//!    specification is `Idle` rests for that test.
//! 3. Where the file lists no managers, there is one with as many workers as the test setup says, each
//!    with all access specifications that are assigned to disks by default; if none is, with all.
//! 4. All machines' workers run here. A target is a file: the first is `iobw.tst`, as IOMeter calls
//!    it, the others have a number; a worker without target gets the first. `C:` and its like can't be
//!    meant literally.

use super::icf::{
    AccessSpec, Cycling, DataPattern, DefaultAssignment, IDLE, Icf, Manager, Record, SECTOR,
    TestType, Worker, WorkerCount,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stdx::ByteCount;
use workload::crew::WORKERS_MAX;

/// The test file's name, as IOMeter calls it.
pub const TEST_FILE: &str = "iobw.tst";

/// Tests of one plan. At the shortest run time of a second that is three hours.
pub const TESTS_MAX: usize = 10_000;

/// I/Os outstanding in one test, over all workers. Each has a buffer.
pub const OUTSTANDING_SUM_MAX: u64 = 65_536;

/// What a user says beside the file.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instead of the file's run time.
    pub run_time: Option<Duration>,
    /// Instead of the file's ramp-up time.
    pub ramp_up: Option<Duration>,
    /// Instead of every worker's maximum disk size.
    pub size: Option<ByteCount>,
    /// Instead of every worker's data pattern.
    pub pattern: Option<DataPattern>,
    /// Through the cache of the file system, which IOMeter never does.
    pub buffered: bool,
    /// Remove the test files at the end, which IOMeter leaves.
    pub remove: bool,
    /// Processors of the machine: its workers where the file says "one for each processor", and what
    /// the share of processor time refers to. 0 counts as 1.
    pub processors: u32,
    /// Use this file or block device, which is there, instead of making test files.
    pub device: Option<PathBuf>,
}

/// The tests of a configuration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The test's description.
    pub description: String,
    /// What is cycled.
    pub test_type: TestType,
    /// Down to what results are recorded.
    pub record: Record,
    /// How long each test runs before it records.
    pub ramp_up: Duration,
    /// How long each test records.
    pub run_time: Duration,
    /// The targets.
    pub files: Vec<TargetFile>,
    /// The tests, in order.
    pub tests: Vec<Test>,
    /// Past the cache.
    pub direct: bool,
    /// Processors of the machine; at least 1.
    pub processors: u32,
    /// Whether the test files are removed at the end.
    pub remove: bool,
    /// What the reader must know.
    pub notes: Vec<String>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFile {
    /// As the configuration calls it; empty where it names none.
    pub name: String,
    /// The file, below the tree's root.
    pub path: PathBuf,
    /// How large it must be; `None`: as large as it is.
    pub size: Option<ByteCount>,
    /// Whether it is made where it is missing or too small.
    pub made: bool,
}

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    /// The workers that take part.
    pub workers: Vec<TestWorker>,
}

/// A worker in a test.
#[derive(Clone, Debug)]
pub struct TestWorker {
    /// Its machine's name.
    pub manager: String,
    /// Its name.
    pub name: String,
    /// What it does.
    pub spec: Arc<AccessSpec>,
    /// Its targets: places in [`Plan::files`].
    pub targets: Vec<usize>,
    /// I/Os outstanding to each target.
    pub outstanding: u32,
    /// Where its part of each target begins.
    pub start: ByteCount,
    /// How large that part is; zero for all.
    pub size: ByteCount,
    /// What it writes.
    pub pattern: DataPattern,
    /// The random numbers it is started with, where they are fixed.
    pub seed: Option<u64>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing to do.
    #[error("the file has no access specification; there is nothing to run")]
    NoSpec,
    /// Only idle workers.
    #[error("every worker of the file rests; assign access specifications to them")]
    AllIdle,
    /// IOMeter would run until somebody stops it.
    #[error("the file's run time is 0, which means until it is stopped; say --run-time")]
    NoRunTime,
    /// Too much.
    #[error("the file asks for more than {TESTS_MAX} tests; cycle in larger steps")]
    TooManyTests,
    /// Too much.
    #[error(
        "the test of '{spec}' keeps {sum} I/Os outstanding; {OUTSTANDING_SUM_MAX} are the most"
    )]
    TooManyOutstanding {
        /// The first access specification of the test.
        spec: String,
        /// How many.
        sum: u64,
    },
    /// More workers than a crew has.
    #[error("the file asks for {0} workers; {WORKERS_MAX} are the most")]
    TooManyWorkers(u64),
    /// Several targets for one device.
    #[error("the file names {0} targets, but there is one device; leave out --device")]
    OneDevice(usize),
    /// A size that no file has.
    #[error("the size of the target '{0}' is larger than any file")]
    TooLarge(String),
}

/// Makes the plan of a configuration.
///
/// # Errors
/// [`PlanError`]
pub fn plan(icf: &Icf, options: &Options) -> Result<Plan, PlanError> {
    let mut notes = icf.notes.clone();
    if icf.specs.is_empty() {
        return Err(PlanError::NoSpec);
    }
    let run_time = options.run_time.unwrap_or(icf.setup.run_time);
    if run_time.is_zero() {
        return Err(PlanError::NoRunTime);
    }
    let managers = match icf.managers.is_empty() {
        true => vec![manager_by_default(icf, options, &mut notes)?],
        false => icf.managers.clone(),
    };
    if managers.len() > 1 {
        let count = managers.len();
        notes
            .push(format!("the file has {count} managers; the workers of all run on this machine"));
    }
    let mut files = Files { files: Vec::new(), options };
    let mut workers = Vec::new();
    for (number, manager) in managers.iter().enumerate() {
        for worker in &manager.workers {
            workers.push(resolve(worker, number, manager, icf, options, &mut files, &mut notes)?);
        }
    }
    let specs = workers.iter().map(|worker| worker.specs.len()).max().unwrap_or(0);
    let mut tests = Vec::new();
    for index in 0..specs {
        let active: Vec<&Resolved> =
            workers.iter().filter(|worker| worker.spec(index).is_some()).collect();
        if active.is_empty() {
            continue;
        }
        for shape in shapes(icf, &active) {
            if tests.len() == TESTS_MAX {
                return Err(PlanError::TooManyTests);
            }
            tests.push(test_of(&active, index, &shape)?);
        }
    }
    if tests.is_empty() {
        return Err(PlanError::AllIdle);
    }
    for file in files.files.iter().filter(|file| !file.name.is_empty()) {
        let path = file.path.display();
        if file.made && !file.name.eq_ignore_ascii_case("iobw") {
            notes.push(format!("the target '{}' is the file {path}", file.name));
        }
    }
    if options.buffered {
        notes.push("through the file system's cache, which IOMeter goes past".to_owned());
    }
    let mut plan = Plan {
        description: icf.setup.description.clone(),
        test_type: icf.setup.test_type,
        record: icf.setup.record,
        ramp_up: options.ramp_up.unwrap_or(icf.setup.ramp_up),
        run_time,
        files: files.files,
        tests,
        direct: !options.buffered,
        processors: options.processors.max(1),
        remove: options.remove,
        notes,
    };
    if plan.written().any(|pattern| pattern != DataPattern::FullRandom) {
        plan.notes.push(
            "writes repeat one byte or one buffer, as the file's data pattern says; what compresses \
             or deduplicates below makes them too fast: --data-pattern full-random"
                .to_owned(),
        );
    }
    Ok(plan)
}

/// Rule 3.
fn manager_by_default(
    icf: &Icf,
    options: &Options,
    notes: &mut Vec<String>,
) -> Result<Manager, PlanError> {
    let count = match icf.setup.disk_workers {
        WorkerCount::Processors => options.processors.max(1),
        WorkerCount::Fixed(count) => count.max(1),
    };
    if count as usize > WORKERS_MAX {
        return Err(PlanError::TooManyWorkers(count.into()));
    }
    let names = |keep: fn(&AccessSpec) -> bool| -> Vec<String> {
        icf.specs.iter().filter(|spec| keep(spec)).map(|spec| spec.name.clone()).collect()
    };
    let mut specs =
        names(|spec| matches!(spec.assigned, DefaultAssignment::All | DefaultAssignment::Disk));
    if specs.is_empty() {
        specs = names(|_| true);
        let count = specs.len();
        notes.push(format!("the file assigns nothing to workers: all {count} specifications run"));
    }
    let worker = |number| Worker {
        name: format!("Worker {number}"),
        outstanding: 1,
        seed: None,
        size_sectors: 0,
        start_sector: 0,
        pattern: DataPattern::default(),
        specs: specs.clone(),
        targets: Vec::new(),
    };
    Ok(Manager { name: String::new(), workers: (1..=count).map(worker).collect() })
}

/// A worker whose names are resolved.
struct Resolved {
    manager: usize,
    /// `None`: it rests.
    specs: Vec<Option<Arc<AccessSpec>>>,
    /// All that does not change from test to test.
    test: TestWorker,
}

impl Resolved {
    fn spec(&self, index: usize) -> Option<&Arc<AccessSpec>> {
        self.specs.get(index).and_then(Option::as_ref)
    }
}

fn resolve(
    worker: &Worker,
    number: usize,
    manager: &Manager,
    icf: &Icf,
    options: &Options,
    files: &mut Files<'_>,
    notes: &mut Vec<String>,
) -> Result<Resolved, PlanError> {
    let specs: Vec<Option<Arc<AccessSpec>>> = worker
        .specs
        .iter()
        .map(|name| {
            // What is not there is `Idle`: the reader of the file has refused everything else.
            icf.specs
                .iter()
                .find(|spec| spec.name.eq_ignore_ascii_case(name))
                .cloned()
                .map(Arc::new)
        })
        .collect();
    if specs.is_empty() {
        notes.push(format!("the worker '{}' has no access specification, and rests", worker.name));
    }
    let rests = |name: &String| name.eq_ignore_ascii_case(IDLE);
    debug_assert!(
        specs.iter().zip(&worker.specs).all(|(spec, name)| spec.is_some() || rests(name)),
        "a file that was read names no specification that is not there"
    );
    let sectors = |count: u64| count.checked_mul(SECTOR.bytes()).map(ByteCount);
    let too_large = || PlanError::TooLarge(worker.targets.first().cloned().unwrap_or_default());
    let start = sectors(worker.start_sector).ok_or_else(too_large)?;
    let size = match options.size {
        Some(size) => size,
        None => sectors(worker.size_sectors).ok_or_else(too_large)?,
    };
    let end = match size.is_zero() {
        true => None,
        false => Some(start.checked_add(size).ok_or_else(too_large)?),
    };
    let unnamed = [String::new()];
    let names = if worker.targets.is_empty() { &unnamed[..] } else { &worker.targets };
    let mut targets = Vec::new();
    for name in names {
        let file = files.find(name, end)?;
        if !targets.contains(&file) {
            targets.push(file);
        }
    }
    let test = TestWorker {
        manager: manager.name.clone(),
        name: worker.name.clone(),
        spec: Arc::new(AccessSpec {
            name: IDLE.to_owned(),
            assigned: DefaultAssignment::None,
            lines: Vec::new(),
        }),
        targets,
        outstanding: worker.outstanding,
        start,
        size,
        pattern: options.pattern.unwrap_or(worker.pattern),
        seed: worker.seed,
    };
    Ok(Resolved { manager: number, specs, test })
}

/// The targets found so far.
struct Files<'a> {
    files: Vec<TargetFile>,
    options: &'a Options,
}

impl Files<'_> {
    /// The number of the target `name`, which must reach to `end`.
    fn find(&mut self, name: &str, end: Option<ByteCount>) -> Result<usize, PlanError> {
        // A worker without target gets the first one, whatever that is called.
        let found = match name {
            "" => (!self.files.is_empty()).then_some(0),
            name => self.files.iter().position(|file| file.name.eq_ignore_ascii_case(name)),
        };
        if let Some(number) = found {
            let file = &mut self.files[number];
            file.size = file.size.max(end.filter(|_| file.made));
            return Ok(number);
        }
        let number = self.files.len();
        let file = match &self.options.device {
            Some(_) if number > 0 => return Err(PlanError::OneDevice(number + 1)),
            Some(path) => {
                TargetFile { name: name.to_owned(), path: path.clone(), size: None, made: false }
            }
            None => {
                let path = match number {
                    0 => TEST_FILE.to_owned(),
                    _ => format!("iobw-{}.tst", number + 1),
                };
                TargetFile { name: name.to_owned(), path: path.into(), size: end, made: true }
            }
        };
        self.files.push(file);
        Ok(number)
    }
}

/// How much of the workers takes part in a test.
struct Shape {
    /// Targets of each active worker.
    targets: Vec<usize>,
    /// Outstanding I/Os, where they are cycled.
    outstanding: Option<u32>,
}

/// The shapes that the test type cycles through, for the workers that are active.
fn shapes(icf: &Icf, workers: &[&Resolved]) -> Vec<Shape> {
    let setup = &icf.setup;
    let all: Vec<usize> = workers.iter().map(|worker| worker.test.targets.len()).collect();
    let by_target = |limit: u32| -> Vec<usize> {
        all.iter().map(|count| (*count).min(limit as usize)).collect()
    };
    // The first `limit` workers of each machine.
    let by_worker = |limit: u32| -> Vec<bool> {
        let mut left = vec![limit; icf.managers.len().max(1)];
        let takes = |worker: &&Resolved| match &mut left[worker.manager] {
            0 => false,
            left => {
                *left -= 1;
                true
            }
        };
        workers.iter().map(takes).collect()
    };
    // Targets down the workers until `limit` are taken, of each machine or of all together.
    let filled = |limit: u32, together: bool| -> Vec<usize> {
        let mut left = vec![limit as usize; icf.managers.len().max(1)];
        let takes = |(worker, count): (&&Resolved, &usize)| {
            let left = &mut left[if together { 0 } else { worker.manager }];
            let taken = (*count).min(*left);
            *left -= taken;
            taken
        };
        workers.iter().zip(&all).map(takes).collect()
    };
    let only = |taken: &[bool], counts: &[usize]| -> Vec<usize> {
        taken.iter().zip(counts).map(|(taken, count)| if *taken { *count } else { 0 }).collect()
    };
    let plain = |targets| Shape { targets, outstanding: None };
    let depths = || outstanding(setup.queue_cycling, setup.queue_end);
    match setup.test_type {
        TestType::Normal => vec![plain(all)],
        TestType::CycleTargets => {
            growing(setup.target_cycling, by_target).into_iter().map(plain).collect()
        }
        TestType::CycleWorkers => {
            let shape = |limit| only(&by_worker(limit), &all);
            growing(setup.worker_cycling, shape).into_iter().map(plain).collect()
        }
        TestType::IncrementTargetsParallel => {
            let shape = |limit| filled(limit, false);
            growing(setup.target_cycling, shape).into_iter().map(plain).collect()
        }
        TestType::IncrementTargetsSerial => {
            let shape = |limit| filled(limit, true);
            growing(setup.target_cycling, shape).into_iter().map(plain).collect()
        }
        TestType::CycleWorkersAndTargets => {
            let ones = vec![1; workers.len()];
            growing(setup.worker_cycling, |limit| only(&by_worker(limit), &ones))
                .into_iter()
                .flat_map(|taken| {
                    let taken: Vec<bool> = taken.into_iter().map(|count| count > 0).collect();
                    growing(setup.target_cycling, |limit| only(&taken, &by_target(limit)))
                })
                .map(plain)
                .collect()
        }
        TestType::CycleOutstandingIos => depths()
            .into_iter()
            .map(|depth| Shape { targets: all.clone(), outstanding: Some(depth) })
            .collect(),
        TestType::CycleOutstandingIosAndTargets => growing(setup.target_cycling, by_target)
            .into_iter()
            .flat_map(|targets| {
                let shape =
                    move |depth| Shape { targets: targets.clone(), outstanding: Some(depth) };
                depths().into_iter().map(shape)
            })
            .collect(),
    }
}

/// What `shape` makes of each number of the cycling, as long as more targets take part.
fn growing(cycling: Cycling, shape: impl Fn(u32) -> Vec<usize>) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut number = Some(cycling.start);
    while let Some(limit) = number {
        let next = shape(limit);
        let before = found.last().map_or(0, |last| last.iter().sum());
        if next.iter().sum::<usize>() <= before {
            break;
        }
        found.push(next);
        number = cycling.after(limit);
    }
    found
}

/// The numbers of outstanding I/Os that are cycled through.
fn outstanding(cycling: Cycling, end: u32) -> Vec<u32> {
    let first = (cycling.start <= end).then_some(cycling.start);
    std::iter::successors(first, |depth| cycling.after(*depth).filter(|next| *next <= end))
        .take(TESTS_MAX + 1)
        .collect()
}

fn test_of(workers: &[&Resolved], index: usize, shape: &Shape) -> Result<Test, PlanError> {
    let mut test = Test { workers: Vec::new() };
    for (worker, count) in workers.iter().zip(&shape.targets) {
        let Some(spec) = worker.spec(index).filter(|_| *count > 0) else {
            continue;
        };
        let mut one = worker.test.clone();
        one.spec = Arc::clone(spec);
        one.targets.truncate(*count);
        one.outstanding = shape.outstanding.unwrap_or(one.outstanding);
        test.workers.push(one);
    }
    let sum = test.outstanding();
    if sum > OUTSTANDING_SUM_MAX {
        let spec = test.spec_name();
        return Err(PlanError::TooManyOutstanding { spec, sum });
    }
    Ok(test)
}

impl Plan {
    /// The least time that it takes.
    pub fn time(&self) -> Duration {
        (self.ramp_up + self.run_time) * u32::try_from(self.tests.len()).unwrap_or(u32::MAX)
    }

    /// The patterns of the workers that write.
    fn written(&self) -> impl Iterator<Item = DataPattern> {
        let workers = self.tests.iter().flat_map(|test| &test.workers);
        let writes =
            |worker: &&TestWorker| worker.spec.lines.iter().any(|line| line.reads_percent < 100);
        workers.filter(writes).map(|worker| worker.pattern)
    }

    /// Whether anything writes.
    pub fn writes(&self) -> bool {
        self.written().next().is_some()
    }

    /// Whether any of it is the load's own content, rather than one of IOMeter's patterns.
    pub fn writes_content(&self) -> bool {
        self.written().any(|pattern| pattern == DataPattern::FullRandom)
    }
}

impl Test {
    /// I/Os outstanding over all workers.
    pub fn outstanding(&self) -> u64 {
        let of = |worker: &TestWorker| u64::from(worker.outstanding) * worker.targets.len() as u64;
        self.workers.iter().map(of).sum()
    }

    /// The access specification, or that there are several.
    pub fn spec_name(&self) -> String {
        common(self.workers.iter().map(|worker| worker.spec.name.clone()))
            .unwrap_or_else(|| "(mixed)".to_owned())
    }

    /// The number of outstanding I/Os of each target, if all workers have the same.
    pub fn depth(&self) -> Option<u32> {
        common(self.workers.iter().map(|worker| worker.outstanding))
    }
}

/// What all are, if they are the same.
fn common<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests;
