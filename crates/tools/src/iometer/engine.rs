//! Running the tests of a plan.
//!
//! First the test files are made. Then the tests run one after another: in each, all workers open
//! their targets, begin at the same moment, ramp up, record, and end. The processor time of a test is
//! that of the whole program while the first worker recorded.

use super::error::IometerError;
use super::plan::{Plan, Test};
use super::prepare::{Prepared, prepare};
use super::tally::{Figures, Tally, WorkerTally, latency_of, together};
use super::worker::{Done, Task, work};
use rt::TreeErrorKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::{ByteCount, Prng};
use workload::content::Content;
use workload::crew::{Calls, Crew, start};
use workload::gate::start_together;
use workload::io_failure::IoFailure;
use workload::outcome::Outcome;

/// What a test gave.
#[derive(Clone, Debug)]
pub struct TestOutcome {
    /// The access specification, or that there are several.
    pub spec: String,
    /// I/Os outstanding to each target, if all workers have the same number.
    pub depth: Option<u32>,
    /// The test.
    pub test: Test,
    /// What each worker recorded.
    pub workers: Vec<WorkerTally>,
    /// Processor time used while it was recorded.
    pub processor: Duration,
}

impl TestOutcome {
    /// The figures of all workers together, and what they counted.
    pub fn together(&self) -> (Figures, Tally) {
        together(self.workers.iter())
    }

    /// For how long the first worker recorded.
    pub fn time(&self) -> Duration {
        self.workers.first().map_or(Duration::ZERO, |worker| worker.time)
    }

    /// Processor time over time: 1 is one processor that was busy all the time.
    pub fn processors_busy(&self) -> f64 {
        let time = self.time().as_secs_f64();
        if time > 0.0 { self.processor.as_secs_f64() / time } else { 0.0 }
    }
}

/// What a plan gave.
#[derive(Clone, Debug)]
pub struct IometerOutcome {
    /// The tests that ran, in order.
    pub tests: Vec<TestOutcome>,
    /// What the reader must know.
    pub warnings: Vec<String>,
}

/// Carries out a plan. `each` is shown every test when it is done.
///
/// A raised `stop` ends the test under way, whose outcome is what it recorded until then.
///
/// # Errors
/// [`IometerError`]
pub async fn run(
    crew: &dyn Crew,
    plan: &Plan,
    content: &Content,
    seed: u64,
    stop: &Arc<AtomicBool>,
    each: &mut dyn FnMut(&TestOutcome),
) -> Result<IometerOutcome, IometerError> {
    let mut outcome = IometerOutcome { tests: Vec::new(), warnings: plan.notes.clone() };
    let mut sizes = Vec::new();
    let mut created = Vec::new();
    let mut result = Ok(());
    for target in &plan.files {
        let (target_of_worker, content, stop) = (target.clone(), content.clone(), Arc::clone(stop));
        let direct = plan.direct;
        let made = start(crew, "iometer prepare", Calls::Queued, move |place| {
            prepare(target_of_worker, direct, content, stop, place)
        })?;
        match made.await? {
            Ok(Prepared { size, created: is_new }) => {
                sizes.push(size);
                if is_new {
                    created.push(target.path.clone());
                }
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if result.is_ok() {
        result = run_tests(crew, plan, &sizes, content, seed, stop, each, &mut outcome).await;
    }
    if plan.remove {
        let made = plan.files.iter().filter(|file| file.made);
        for file in made {
            let removed = crew.place().tree.remove_file(&file.path).await;
            match removed {
                Err(error) if result.is_ok() && error.kind != TreeErrorKind::NotFound => {
                    result = Err(IoFailure::from(error).into());
                }
                // Where something failed before, that is what the user must hear.
                _ => {}
            }
        }
    } else if result.is_err() {
        // What a run that failed has made would only fill the disk.
        for path in created {
            let _ = crew.place().tree.remove_file(&path).await;
        }
    } else {
        for path in created {
            outcome.warnings.push(format!(
                "{} stays, as IOMeter leaves it, for the next run; --remove removes it",
                path.display()
            ));
        }
    }
    result.map(|()| outcome)
}

#[expect(clippy::too_many_arguments, reason = "the arguments of run, passed on")]
async fn run_tests(
    crew: &dyn Crew,
    plan: &Plan,
    sizes: &[ByteCount],
    content: &Content,
    seed: u64,
    stop: &Arc<AtomicBool>,
    each: &mut dyn FnMut(&TestOutcome),
    outcome: &mut IometerOutcome,
) -> Result<(), IometerError> {
    for (number, test) in plan.tests.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let seed = Prng::for_part(seed, &format!("test {number}")).next_u64();
        let tasks: Vec<Task> = test
            .workers
            .iter()
            .enumerate()
            .map(|(index, worker)| Task {
                files: worker
                    .targets
                    .iter()
                    .map(|target| (plan.files[*target].path.clone(), sizes[*target]))
                    .collect(),
                worker: worker.clone(),
                direct: plan.direct,
                ramp_up: plan.ramp_up,
                run_time: plan.run_time,
                seed,
                // Other content in each test: a repeated number would repeat the bytes.
                number: (number * workload::crew::WORKERS_MAX + index) as u64,
                content: content.clone(),
                stop: Arc::clone(stop),
            })
            .collect();
        let tasks = Arc::new(tasks);
        let count = tasks.len();
        let (_, results) =
            start_together(crew, "iometer", count, Calls::Queued, move |index, place, gate| {
                work(tasks[index].clone(), place, gate)
            })
            .await?;
        let results: Result<Vec<Option<Done>>, IometerError> = results.into_iter().collect();
        let done: Vec<Done> = results?.into_iter().flatten().collect();
        let processor = done.first().map_or(Duration::ZERO, |done| done.processor);
        let test = TestOutcome {
            spec: test.spec_name(),
            depth: test.depth(),
            test: test.clone(),
            workers: done.into_iter().map(|done| done.tally).collect(),
            processor,
        };
        each(&test);
        outcome.tests.push(test);
    }
    if stop.load(Ordering::Relaxed) {
        let (ran, all) = (outcome.tests.len(), plan.tests.len());
        outcome.warnings.push(format!("stopped in test {ran} of {all}, whose figures are partial"));
    }
    Ok(())
}

impl IometerOutcome {
    /// In the lab's terms. With several tests, each figure has the specification and the number of
    /// outstanding I/Os before its name.
    pub fn outcome(&self) -> Outcome {
        let mut metrics = BTreeMap::new();
        for test in &self.tests {
            let prefix = match self.tests.len() {
                1 => String::new(),
                _ => self.prefix(test),
            };
            let (figures, _) = test.together();
            let mut put = |name: &str, value: f64| {
                metrics.insert(format!("{prefix}{name}"), value);
            };
            put("iops", figures.iops());
            put("read_iops", figures.read_iops);
            put("write_iops", figures.write_iops);
            put("throughput_mb_s", figures.bytes_per_s() / 1e6);
            put("latency_us_mean", figures.response_ms[0] * 1e3);
            put("latency_us_max", figures.response_ms_max[0] * 1e3);
            put("processors_busy", test.processors_busy());
        }
        let latency = latency_of(self.tests.iter().flat_map(|test| &test.workers));
        let latency = (self.tests.len() == 1).then_some(latency);
        Outcome { metrics, latency, warnings: self.warnings.clone(), ..Outcome::default() }
    }

    /// `file_server_qd4_`, with the number of workers and targets where that alone tells tests apart.
    fn prefix(&self, test: &TestOutcome) -> String {
        let word = |test: &TestOutcome| {
            let mut word: String = test
                .spec
                .chars()
                .map(
                    |sign| {
                        if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '_' }
                    },
                )
                .collect();
            if let Some(depth) = test.depth {
                word.push_str(&format!("_qd{depth}"));
            }
            word
        };
        let mine = word(test);
        let alone = self.tests.iter().filter(|other| word(other) == mine).count() == 1;
        if alone {
            return format!("{mine}_");
        }
        let workers = test.test.workers.len();
        let targets: usize = test.test.workers.iter().map(|worker| worker.targets.len()).sum();
        format!("{mine}_workers{workers}_targets{targets}_")
    }
}
