//! What could break: a phase that makes other calls than bonnie++ does, so that its figure is of
//! something else; files left behind; a table or a line whose fields move.

use super::*;
use rt::memory_tree::Counts;
use rt::{FileTree, MemoryTree, OpKind, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stdx::ByteCount;
use workload::content::{ContentSpec, Form};
use workload::crew::OneRuntime;

fn plan(file: Option<File>, creation: Option<Creation>) -> Plan {
    Plan {
        machine: "vm".to_owned(),
        number: 7,
        seed: 42,
        concurrency: 1,
        durable: false,
        written: Written::default(),
        file,
        creation,
    }
}

fn small_file() -> File {
    File { bytes: ByteCount::kib(64), seeks: 1000, ..File::of_size(ByteCount::mib(4)) }
}

struct Run {
    result: Result<BonnieOutcome, BonnieError>,
    counts: Counts,
    left: usize,
    heard: Vec<Heard>,
}

fn run_on(tree: Rc<MemoryTree>, plan: Plan, spec: ContentSpec, stop_after: Option<Phase>) -> Run {
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()));
    let crew = OneRuntime::new(runtime.handle(), Rc::clone(&tree) as _);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let stop = Arc::new(AtomicBool::new(false));
    let listener: Listener = {
        let (heard, stop) = (Arc::clone(&heard), Arc::clone(&stop));
        Arc::new(move |what| {
            heard.lock().expect("no panic").push(what);
            match what {
                Heard::Begins(phase) if stop_after == Some(phase) => {
                    stop.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
        })
    };
    let content = Content::new(spec, 1);
    let result = runtime
        .block_on(async move { run(&crew, plan, &content, stop, listener).await })
        .expect("it ends");
    let looking = Rc::clone(&tree);
    let left = Runtime::new(SimReactor::new(Processor::infinite()))
        .block_on(async move { looking.list("".as_ref()).await })
        .expect("it ends")
        .expect("it lists")
        .len();
    let heard = heard.lock().expect("no panic").clone();
    Run { result, counts: tree.counts(), left, heard }
}

fn run_plan(plan: Plan) -> Run {
    run_on(MemoryTree::new("m"), plan, ContentSpec::default(), None)
}

#[test]
fn the_phases_on_a_file_make_the_calls_of_bonnie() {
    let run = run_plan(plan(Some(small_file()), None));
    let outcome = run.result.expect("it runs");
    let (bytes, blocks) = (64 << 10, 512);
    let seeks = 1000;
    let written = run.counts.requests[&OpKind::Write];
    let read = run.counts.requests[&OpKind::Read];
    // By bytes, by blocks, rewritten; one seek in ten or so writes.
    let updates = written - bytes - 2 * blocks;
    assert!((60..140).contains(&updates), "{updates} updates of {seeks} seeks");
    assert_eq!(read, bytes + 2 * blocks + seeks);
    assert_eq!(run.counts.bytes[&OpKind::Read], bytes + (2 * blocks + seeks) * 8192);
    // The file was made twice; opened for rewriting, reading twice, by five seekers and who settles.
    assert_eq!((run.counts.created, run.counts.opened), (2, 2 + 3 + 6));
    assert_eq!(run.counts.synced, 5 + 6);
    assert_eq!(run.counts.removed, 2);
    assert_eq!(run.left, 0);
    for phase in Phase::ALL {
        assert_eq!(outcome.figure(phase).is_some(), phase.is_on_file(), "{phase}");
    }
    assert_eq!(outcome.figure(Phase::Rewrite).expect("it ran").amount, 4 << 20);
}

#[test]
fn phases_by_bytes_and_seeks_can_be_left_out() {
    let file = File { bytes: ByteCount::ZERO, seeks: 0, ..small_file() };
    let run = run_plan(plan(Some(file), None));
    let outcome = run.result.expect("it runs");
    assert!(outcome.figure(Phase::PutByte).is_none() && outcome.figure(Phase::Seeks).is_none());
    assert_eq!(run.counts.requests[&OpKind::Write], 1024);
    assert!(!run.heard.contains(&Heard::Begins(Phase::GetByte)), "{:?}", run.heard);
}

#[test]
fn small_files_are_made_looked_at_and_removed_twice() {
    let creation = Creation {
        size_max: ByteCount(20_000),
        size_min: ByteCount(10_000),
        directories: 4,
        ..Creation::of_files(1)
    };
    let run = run_plan(plan(None, Some(creation)));
    let outcome = run.result.expect("it runs");
    assert_eq!((run.counts.created, run.counts.removed), (2048, 2048));
    // Each is made, and opened once to be read.
    assert_eq!(run.counts.opened, 4096);
    let bytes = run.counts.bytes[&OpKind::Write];
    assert_eq!(run.counts.bytes[&OpKind::Read], bytes);
    let mean = bytes as f64 / 2048.0;
    assert!((14_700.0..15_300.0).contains(&mean), "{mean} B a file");
    // Blocks of 8 KiB and a rest.
    assert!(run.counts.requests[&OpKind::Write] > 2 * 2048);
    assert_eq!(run.left, 0);
    assert_eq!(outcome.figure(Phase::RandomStat).expect("it ran").amount, 1024);
    assert_eq!(outcome.figure(Phase::PutBlock), None);
}

#[test]
fn a_stopped_run_leaves_nothing_behind() {
    for phase in Phase::ALL {
        let creation = Creation { directories: 3, ..Creation::of_files(1) };
        let plan = plan(Some(small_file()), Some(creation));
        let run = run_on(MemoryTree::new("m"), plan, ContentSpec::default(), Some(phase));
        assert_eq!(run.result.err(), Some(BonnieError::Stopped), "{phase}");
        let ended: Vec<Phase> = run
            .heard
            .iter()
            .filter_map(|heard| match heard {
                Heard::Ends(phase, figure) if figure.amount > 0 => Some(*phase),
                _ => None,
            })
            .collect();
        let before: Vec<Phase> = Phase::ALL.into_iter().filter(|before| *before < phase).collect();
        assert_eq!(ended, before, "{phase}");
        assert_eq!(run.left, 0, "{phase}");
        let told = run.heard.contains(&Heard::Removing(1024));
        // They are there whole where a phase begins that looks at them or removes them.
        let are_there =
            !phase.is_on_file() && !matches!(phase, Phase::SequentialCreate | Phase::RandomCreate);
        assert_eq!(told, are_there, "{phase}: {:?}", run.heard);
    }
}

#[test]
fn small_files_take_whole_blocks() {
    let space = |size_min, size_max, directories| {
        let (size_min, size_max) = (ByteCount(size_min), ByteCount(size_max));
        let creation = Creation { size_min, size_max, directories, ..Creation::of_files(1) };
        (creation.names(), creation.space(ByteCount::kib(4)).bytes() / 1024)
    };
    assert_eq!(space(0, 0, 1), (1025, 4));
    assert_eq!(space(100, 100, 3), (1028, (1024 + 4) * 4));
    assert_eq!(space(4096, 12288, 1), (1025, 1024 * 10 + 4));
}

#[test]
fn a_full_disk_is_told_with_its_phase_and_leaves_nothing_behind() {
    let tree = MemoryTree::with_capacity("m", ByteCount::mib(3));
    let run = run_on(tree, plan(Some(small_file()), None), ContentSpec::default(), None);
    let error = run.result.expect_err("the disk is full").to_string();
    assert!(error.starts_with("Writing intelligently: m/Bonnie.7: write of 8 KiB"), "{error}");
    assert_eq!(run.left, 0);
}

#[test]
fn simulated_words_stay_words() {
    let spec = ContentSpec { form: Form::Words, ..ContentSpec::default() };
    let run = run_on(MemoryTree::new("m"), plan(Some(small_file()), None), spec, None);
    run.result.expect("it runs");
}

/// The line is bonnie++'s for the same options, but for the version and the figures.
#[test]
fn the_line_has_the_fields_of_bonnie() {
    let mut outcome = BonnieOutcome::of(
        plan(
            Some(File { seeks: 100, ..File::of_size(ByteCount::gib(2)) }),
            Some(Creation {
                size_max: ByteCount(3000),
                size_min: ByteCount(100),
                ..Creation::of_files(1)
            }),
        ),
        ContentSpec::default(),
        [],
    );
    let figure = |amount, millis| Figure {
        amount,
        elapsed: Duration::from_millis(millis),
        processor: Duration::from_millis(millis / 2),
        latency_max: Duration::from_micros(3235),
    };
    outcome.take(vec![
        (Phase::PutByte, figure(3 << 20, 2000)),
        (Phase::PutBlock, figure(2 << 30, 1000)),
        (Phase::Seeks, figure(100, 1000)),
        (Phase::SequentialCreate, figure(1024, 100)),
        (
            Phase::RandomDelete,
            Figure { latency_max: Duration::from_millis(123), ..figure(1024, 500) },
        ),
    ]);
    let version = csv::version();
    assert_eq!(
        csv::line(&outcome),
        format!(
            "1.98,{version},vm,1,42,2G,,100,5,1536,50,2097152,50,,,,,,,100.0,50,1,3000,100,,,+++++,+++,,,,,,,,,2048,50,3235us,3235us,,,,3235us,3235us,,,,,123ms"
        )
    );
    assert_eq!(csv::header().split(',').count(), csv::line(&outcome).split(',').count());
    assert_eq!(csv::header().split(',').count(), 50);
    let expected = format!(
        "\
{version:<19} ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
vm         2G:::100 1536k  50  2.0g  50                               100.0  50
Latency              3235us    3235us                                  3235us
{version:<19} ------Sequential Create------ --------Random Create--------
vm                  -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
      files:max:min  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
         1:3000:100 +++++ +++                                          2048  50
Latency              3235us                                             123ms
"
    );
    assert_eq!(table::text(&outcome), expected);
}

#[test]
fn a_plan_that_would_measure_the_cache_is_refused() {
    let two = plan(Some(File::of_size(ByteCount::gib(2))), None);
    assert_eq!(two.check(ByteCount::gib(1)), Ok(()));
    assert_eq!(two.check(ByteCount::ZERO), Ok(()));
    let refused = two.check(ByteCount::gib(4)).expect_err("refused").to_string();
    assert!(
        refused.starts_with("the file (2 GiB) is smaller than twice the memory (4 GiB)"),
        "{refused}"
    );
    let of = |file| plan(Some(file), None).check(ByteCount::ZERO);
    let file = small_file();
    assert_eq!(
        of(File { chunk: ByteCount(3000), ..file.clone() }),
        Err(PlanError::Chunk(ByteCount(3000)))
    );
    assert_eq!(of(File { direct: true, ..file.clone() }), Err(PlanError::DirectBytes));
    assert!(matches!(of(File { seekers: 0, ..file }), Err(PlanError::Range { .. })));
    assert_eq!(plan(None, None).check(ByteCount::ZERO), Err(PlanError::Nothing));
    let crossed = Creation { size_min: ByteCount(1), ..Creation::of_files(1) };
    assert!(matches!(
        plan(None, Some(crossed)).check(ByteCount::ZERO),
        Err(PlanError::SizesCrossed { .. })
    ));
    assert_eq!(Plan::default_size(ByteCount::mib(800)), ByteCount::gib(2));
    assert_eq!(Plan::default_size(ByteCount::mib(700)), ByteCount::mib(1400));
}

#[test]
fn a_study_gets_rates_latencies_and_a_warning_about_short_phases() {
    let outcome = run_plan(plan(Some(small_file()), None)).result.expect("it runs").outcome();
    assert!(outcome.metrics.contains_key("throughput_mb_s"));
    assert!(outcome.metrics.contains_key("put_block_throughput_mb_s"));
    assert!(outcome.metrics.contains_key("seeks_ops_per_s"));
    assert!(outcome.metrics.values().all(|value| value.is_finite()));
    assert_eq!(outcome.warnings.len(), 6, "no time passes in memory: {:?}", outcome.warnings);
}
