//! What could break: threads that share a file or a sequence of places; a phase that moves less than
//! it says; files left behind; a table whose columns move.

use super::*;
use rt::memory_tree::Counts;
use rt::{FileTree, MemoryTree, OpKind, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stdx::ByteCount;
use workload::content::{Content, ContentSpec};
use workload::crew::OneRuntime;
use workload::run_error::RunError;

fn run_plan(plan: Plan, stopped: bool) -> (Result<TiobenchOutcome, RunError>, Counts, usize) {
    let tree = MemoryTree::new("m");
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()));
    let crew = OneRuntime::new(runtime.handle(), Rc::clone(&tree) as _);
    let content = Content::new(ContentSpec::default(), 1);
    let stop = Arc::new(AtomicBool::new(stopped));
    let below = Rc::clone(&tree);
    let (result, left) = runtime
        .block_on(async move {
            let result = run(&crew, &plan, &content, 1, stop, &|_| {}).await;
            (result, below.list("".as_ref()).await.expect("it lists").len())
        })
        .expect("it ends");
    (result, tree.counts(), left)
}

#[test]
fn each_thread_moves_its_part_in_each_phase() {
    let plan = Plan { random: 400, threads: vec![1, 4], ..Plan::of_size(4) };
    let (outcome, counts, left) = run_plan(plan, false);
    let outcome = outcome.expect("it runs");
    assert_eq!(outcome.cases.len(), 2);
    for done in &outcome.cases {
        for phase in Phase::ALL {
            let figure = done.figure(phase).expect("it ran");
            assert_eq!(figure.operations, if phase.is_random() { 400 } else { 1024 });
            assert_eq!(figure.bytes, figure.operations * 4096);
            assert_eq!(figure.latencies.len(), figure.operations);
        }
    }
    assert_eq!(counts.requests[&OpKind::Write], 2 * 1424);
    assert_eq!(counts.requests[&OpKind::Read], 2 * 1424);
    // Opened and made durable in each phase.
    assert_eq!((counts.opened, counts.synced), (5 * 4, 5 * 4));
    assert_eq!((counts.created, counts.removed, left), (5, 5, 0));
    let metrics = outcome.outcome().metrics;
    assert!(metrics.contains_key("4_threads_random_read_iops"), "{metrics:?}");
    assert!(metrics.contains_key("throughput_mb_s"));
}

#[test]
fn writing_in_turn_and_several_runs_move_as_much() {
    let plan = Plan {
        random: 100,
        threads: vec![2],
        runs: 3,
        one_after_another: true,
        drop_caches: true,
        ..Plan::of_size(2)
    };
    let (outcome, counts, _) = run_plan(plan, false);
    let outcome = outcome.expect("it runs");
    let figure = outcome.cases[0].figure(Phase::Write).expect("it ran");
    assert_eq!(figure.operations, 3 * 512);
    assert_eq!(counts.requests[&OpKind::Write], 3 * (512 + 100));
    assert!(outcome.outcome().metrics.contains_key("random_write_iops"));
}

#[test]
fn a_stopped_run_leaves_nothing_behind() {
    let (result, _, left) = run_plan(Plan::of_size(8), true);
    assert_eq!(result.err(), Some(RunError::Stopped));
    assert_eq!(left, 0);
}

#[test]
fn what_can_not_be_run_is_refused_with_the_mend() {
    let error = |plan: Plan| plan.check().expect_err("refused").to_string();
    assert_eq!(Plan::of_size(8).check(), Ok(()));
    assert_eq!(
        error(Plan { random: 7, ..Plan::of_size(8) }),
        "7 random operations are fewer than 8 threads; use a larger --random"
    );
    let large = Plan { blocks: vec![ByteCount::mib(2)], ..Plan::of_size(8) };
    assert!(
        error(large).starts_with("a block of 2 MiB does not fit into the 1 MiB that each of 8")
    );
    assert!(error(Plan { threads: vec![0], ..Plan::of_size(8) }).contains("--threads"));
    assert!(error(Plan { threads: vec![], ..Plan::of_size(8) }).contains("--threads"));
}

#[test]
fn the_table_has_the_columns_of_tiobench() {
    let case = Case { size_mib: 2000, block: ByteCount::kib(4), threads: 8, random: 4000 };
    let figure = Figure {
        operations: 512_000,
        bytes: 2000 << 20,
        elapsed: Duration::from_secs(20),
        processor: Duration::from_millis(2468),
        latency_sum: Duration::from_secs(150),
        latency_max: Duration::from_millis(2345),
        above_2_s: 1,
        ..Figure::default()
    };
    let figures = [(Phase::Read, figure)].into_iter().collect();
    let plan = Plan { identifier: "6.1.0".to_owned(), ..Plan::of_size(2000) };
    let content = ContentSpec::default();
    let cases = vec![CaseOutcome { case, figures }];
    let text = table::text(&TiobenchOutcome { plan, content, cases });
    let expected = "
Sequential Reads
================
                              File   Blk   Num                         Avg      Maximum      Lat%     Lat%     CPU
Identifier                    Size   Size  Thr      Rate     (CPU%)  Latency    Latency      >2s      >10s     Eff
---------------------------- ------ ------ ---  ------------ ------ --------- -----------  -------- -------- -------
6.1.0                         2000   4096    8        100.00 12.34%     0.293     2345.00   0.00020  0.00000     810

Random Reads
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_case_tells_what_it_writes_also_where_each_thread_has_a_mib_at_least() {
    let bytes = |size_mib, threads| {
        Case { size_mib, block: ByteCount::kib(4), threads, random: 1000 }.bytes()
    };
    assert_eq!(bytes(10, 4), ByteCount::mib(8));
    assert_eq!(bytes(10, 70), ByteCount::mib(70));
}
