//! What could break: another number of tests than IOMeter would run, or in another order; a target
//! that is another file than the reader thinks.

use super::*;
use crate::iometer::icf::{AccessLine, Growth};
use std::num::NonZeroU32;

fn spec(name: &str) -> AccessSpec {
    let line = AccessLine {
        size: ByteCount::kib(4),
        share_percent: 100,
        reads_percent: 50,
        random_percent: 100,
        delay: Duration::ZERO,
        burst: NonZeroU32::MIN,
        align: ByteCount::ZERO,
    };
    AccessSpec { name: name.to_owned(), assigned: DefaultAssignment::None, lines: vec![line] }
}

fn worker(name: &str, specs: &[&str], targets: &[&str]) -> Worker {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Worker {
        name: name.to_owned(),
        outstanding: 3,
        seed: None,
        size_sectors: 2048,
        start_sector: 2,
        pattern: DataPattern::default(),
        specs: texts(specs),
        targets: texts(targets),
    }
}

/// Two machines; `a` has workers with two targets and one, `b` has one with three.
fn icf(test_type: TestType) -> Icf {
    let mut icf = Icf { specs: vec![spec("x"), spec("y")], ..Icf::default() };
    icf.setup.run_time = Duration::from_secs(1);
    icf.setup.test_type = test_type;
    let a = vec![worker("a1", &["x"], &["C:", "D:"]), worker("a2", &["x", "y"], &["D:"])];
    let b = vec![worker("b1", &["x"], &["E:", "F:", "G:"])];
    icf.managers = vec![
        Manager { name: "a".to_owned(), workers: a },
        Manager { name: "b".to_owned(), workers: b },
    ];
    icf
}

/// Each test as `spec: targets of each worker @ outstanding`.
fn tests(icf: &Icf) -> Vec<String> {
    let plan = plan(icf, &Options::default()).expect("a plan");
    let worker = |worker: &TestWorker| format!("{}={}", worker.name, worker.targets.len());
    plan.tests
        .iter()
        .map(|test| {
            let workers: Vec<String> = test.workers.iter().map(worker).collect();
            let depth = test.depth().expect("the same for all");
            format!("{}: {} @{depth}", test.spec_name(), workers.join(" "))
        })
        .collect()
}

#[test]
fn each_test_type_cycles_as_iometer_does() {
    let last = "y: a2=1 @3";
    assert_eq!(tests(&icf(TestType::Normal)), ["x: a1=2 a2=1 b1=3 @3", last]);
    assert_eq!(
        tests(&icf(TestType::CycleTargets)),
        ["x: a1=1 a2=1 b1=1 @3", "x: a1=2 a2=1 b1=2 @3", "x: a1=2 a2=1 b1=3 @3", last]
    );
    assert_eq!(
        tests(&icf(TestType::CycleWorkers)),
        ["x: a1=2 b1=3 @3", "x: a1=2 a2=1 b1=3 @3", last]
    );
    assert_eq!(
        tests(&icf(TestType::IncrementTargetsParallel)),
        ["x: a1=1 b1=1 @3", "x: a1=2 b1=2 @3", "x: a1=2 a2=1 b1=3 @3", last]
    );
    assert_eq!(tests(&icf(TestType::IncrementTargetsSerial)).len(), 7);
    assert_eq!(
        tests(&icf(TestType::CycleWorkersAndTargets)),
        [
            "x: a1=1 b1=1 @3",
            "x: a1=2 b1=2 @3",
            "x: a1=2 b1=3 @3",
            "x: a1=1 a2=1 b1=1 @3",
            "x: a1=2 a2=1 b1=2 @3",
            "x: a1=2 a2=1 b1=3 @3",
            last
        ]
    );
    let mut queue = icf(TestType::CycleOutstandingIos);
    queue.managers.truncate(1);
    queue.managers[0].workers.truncate(1);
    let depths = |icf: &Icf| -> Vec<u32> {
        let plan = plan(icf, &Options::default()).expect("a plan");
        plan.tests.iter().map(|test| test.depth().expect("one")).collect()
    };
    assert_eq!(depths(&queue), [1, 2, 4, 8, 16, 32]);
    queue.setup.queue_cycling = Cycling { start: 3, step: 5, growth: Growth::Linear };
    queue.setup.queue_end = 12;
    assert_eq!(depths(&queue), [3, 8]);
    queue.setup.test_type = TestType::CycleOutstandingIosAndTargets;
    assert_eq!(tests(&queue), ["x: a1=1 @3", "x: a1=1 @8", "x: a1=2 @3", "x: a1=2 @8"]);
}

#[test]
fn targets_are_files_in_the_order_in_which_they_are_named() {
    let plan = plan(&icf(TestType::Normal), &Options::default()).expect("a plan");
    let paths: Vec<String> =
        plan.files.iter().map(|file| file.path.display().to_string()).collect();
    assert_eq!(paths, ["iobw.tst", "iobw-2.tst", "iobw-3.tst", "iobw-4.tst", "iobw-5.tst"]);
    // Start and size, in sectors.
    assert_eq!(plan.files[0].size, Some(ByteCount(2050 * 512)));
    assert_eq!(plan.tests[0].workers[1].targets, [1]);
    assert!(plan.notes.iter().any(|note| note == "the target 'C:' is the file iobw.tst"));
}

#[test]
fn a_file_without_managers_runs_what_it_specifies() {
    let mut icf = icf(TestType::Normal);
    icf.managers.clear();
    icf.setup.disk_workers = WorkerCount::Processors;
    let options = Options { processors: 2, ..Options::default() };
    let plan = plan(&icf, &options).expect("a plan");
    let names: Vec<String> = plan.tests.iter().map(Test::spec_name).collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(plan.tests[0].workers.len(), 2);
    assert_eq!(plan.files.len(), 1);
}

#[test]
fn what_would_never_end_or_do_nothing_is_refused() {
    let mut endless = icf(TestType::Normal);
    endless.setup.run_time = Duration::ZERO;
    assert_eq!(plan(&endless, &Options::default()).err(), Some(PlanError::NoRunTime));
    let mut idle = icf(TestType::Normal);
    for manager in &mut idle.managers {
        manager.workers.iter_mut().for_each(|worker| worker.specs = vec!["idle".to_owned()]);
    }
    assert_eq!(plan(&idle, &Options::default()).err(), Some(PlanError::AllIdle));
    let device = Options { device: Some("dev/sdx".into()), ..Options::default() };
    let refused = plan(&icf(TestType::Normal), &device).err();
    assert_eq!(refused, Some(PlanError::OneDevice(2)));
}
