//! SLOB.

use crate::slow_tree::{Seen, SlowTree, slow};
use rt::{FileTree, OpKind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tools::slob::{self, Options, SlobError, SlobOutcome};
use workload::content::{Content, ContentSpec, Form};

/// Runs parameters; gives the outcome, what was asked of the tree after the files were made, and the
/// tree.
fn run(text: &str, options: &Options) -> (Result<SlobOutcome, SlobError>, Vec<Seen>, Rc<SlowTree>) {
    let conf = slob::parse("slob.conf", text).expect("it is right");
    let plan = slob::plan(&conf, options).expect("a plan");
    let (runtime, crew, tree) = slow();
    let load = plan.data_bytes().bytes().div_ceil(1 << 20)
        + if plan.updates() { slob::plan::REDO_BYTES.bytes() >> 20 } else { 0 };
    let result = runtime.block_on(async move {
        let content = Content::new(ContentSpec { form: Form::Words, ..ContentSpec::default() }, 1);
        let stop = Arc::new(AtomicBool::new(false));
        slob::run(&crew, &plan, &content, 1, &stop).await
    });
    let seen = tree.log.take().into_iter().skip(load as usize).collect();
    (result.expect("it ends"), seen, tree)
}

const SMALL: &str = "SCALE=1000\nWORK_UNIT=11\nRUN_TIME=4\n";

#[test]
fn a_reader_reads_single_blocks_anywhere_and_one_at_a_time() {
    let options = Options { readers: 1, ..Options::default() };
    let (result, seen, tree) = run(SMALL, &options);
    let outcome = result.expect("it runs");
    // 100 us an I/O and 5 ms a MiB: 8 KiB take 139.0625 us.
    let expected = 1e6 / 139.0625;
    assert!((outcome.per_second(outcome.reads.count) / expected - 1.0).abs() < 0.001);
    assert_eq!((outcome.writes.count, outcome.redo.count), (0, 0));
    let [mean, ..] = outcome.reads.latency_us();
    assert!((mean - 139.06).abs() < 0.2, "{mean}");
    assert!(seen.iter().all(|seen| seen.kind == OpKind::Read && seen.len == 8192));
    let blocks: Vec<u64> = seen.iter().map(|seen| seen.offset / 8192).collect();
    let used: std::collections::BTreeSet<u64> = blocks.iter().copied().collect();
    assert!(used.len() > 950 && used.iter().all(|block| *block < 1000));
    let near = blocks.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 10).count();
    assert!(near * 20 < blocks.len(), "{near} of {} are near", blocks.len());
    // A statement of unit 11 reads 10 blocks; at 7191 a second that is 719 statements.
    let statements = outcome.per_second(outcome.queries);
    assert!((statements / 719.1 - 1.0).abs() < 0.01, "{statements}");
    assert_eq!(outcome.outcome().metrics["iops"], outcome.per_second(outcome.reads.count));
    drop(tree);
}

#[test]
fn a_writer_reads_and_writes_each_block_and_commits_through_the_log() {
    let options = Options { writers: 2, ..Options::default() };
    let (result, seen, _) = run(SMALL, &options);
    let outcome = result.expect("it runs");
    assert_eq!(outcome.queries, 0);
    let ratio = outcome.reads.count as f64 / outcome.writes.count as f64;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    let data: Vec<&Seen> = seen.iter().filter(|seen| seen.file == "slob.dbf").collect();
    let written: Vec<&&Seen> = data.iter().filter(|seen| seen.kind == OpKind::Write).collect();
    for write in &written {
        let read = data.iter().any(|read| {
            read.kind == OpKind::Read && read.offset == write.offset && read.at < write.at
        });
        assert!(read, "a block is read before it is written");
    }
    // Two sessions have two schemas.
    assert!(data.iter().any(|seen| seen.offset < 1000 * 8192));
    assert!(data.iter().any(|seen| seen.offset >= 1000 * 8192));
    // 10 rows of 2 old and new columns of 128 B and 256 B more are 7680 B.
    let redo: Vec<&Seen> = seen.iter().filter(|seen| seen.file == "slob.redo").collect();
    assert!(redo.iter().all(|seen| seen.len == 7680 || seen.len == 15_360));
    let follow = redo.windows(2).all(|pair| {
        let end = pair[0].offset + pair[0].len;
        pair[1].offset == end || pair[1].offset == 0
    });
    assert!(follow, "the log is written on and on");
    assert!(outcome.commits.count.abs_diff(outcome.updates) <= 2);
    assert!(outcome.redo.bytes.abs_diff(outcome.commits.count * 7680) <= 2 * 7680);
}

#[test]
fn commits_that_wait_together_are_written_together() {
    let text = "SCALE=1000\nWORK_UNIT=3\nRUN_TIME=2\n";
    let options = Options { writers: 64, schemas: Some(1), ..Options::default() };
    let (result, seen, _) = run(text, &options);
    let outcome = result.expect("it runs");
    assert!(outcome.redo.count * 4 < outcome.commits.count, "{}", outcome.redo.count);
    let largest = seen.iter().filter(|seen| seen.file == "slob.redo").map(|seen| seen.len).max();
    assert!(largest <= Some(1 << 20));
}

#[test]
fn updates_and_scans_have_the_shares_that_were_asked_for() {
    let text = format!("{SMALL}UPDATE_PCT=20\nSCAN_PCT=10\nSCAN_TABLE_SZ=2M\n");
    let options = Options { threads: Some(4), ..Options::default() };
    let (result, seen, _) = run(&text, &options);
    let outcome = result.expect("it runs");
    let all = (outcome.queries + outcome.updates + outcome.scans) as f64;
    assert!((outcome.updates as f64 / all - 0.2).abs() < 0.03);
    let of_queries = outcome.scans as f64 / (outcome.queries + outcome.scans) as f64;
    assert!((of_queries - 0.1).abs() < 0.02, "{of_queries}");
    let scans: Vec<&Seen> = seen.iter().filter(|seen| seen.len == 1 << 20).collect();
    assert!(!scans.is_empty());
    // Its table lies behind the other one.
    assert!(scans.iter().all(|seen| seen.offset >= 1000 * 8192));
    assert!(outcome.scanned.bytes > 0);
}

#[test]
fn hotspot_hot_schema_and_think_time_are_kept() {
    let text = "SCALE=4096\nWORK_UNIT=4\nRUN_TIME=2\nUPDATE_PCT=0\nDO_HOTSPOT=TRUE\nHOTSPOT_MB=1\n\
                HOTSPOT_OFFSET_MB=8\nHOTSPOT_FREQUENCY=2\n";
    let (result, seen, _) = run(text, &Options::default());
    result.expect("it runs");
    // Half of the statements use 128 of 4096 rows; rows are scattered, so count how often blocks come.
    let mut counts = std::collections::BTreeMap::new();
    seen.iter().for_each(|seen| *counts.entry(seen.offset).or_insert(0_u64) += 1);
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let hot: u64 = counts.iter().take(128).sum();
    let share = hot as f64 / seen.len() as f64;
    assert!((0.48..0.60).contains(&share), "{share}");

    let text = "SCALE=1000\nWORK_UNIT=4\nRUN_TIME=2\nUPDATE_PCT=0\nHOT_SCHEMA_FREQUENCY=4\n";
    let options = Options { schemas: Some(2), ..Options::default() };
    let (_, seen, _) = run(text, &options);
    let first = seen.iter().filter(|seen| seen.offset < 1000 * 8192).count() as f64;
    // Half by the first session, and a quarter of the other half.
    assert!((first / seen.len() as f64 - 0.625).abs() < 0.02);

    let text = "SCALE=1000\nWORK_UNIT=4\nRUN_TIME=60\nUPDATE_PCT=0\nTHINK_TM_FREQUENCY=1\n\
                THINK_TM_MIN=.1\nTHINK_TM_MAX=.3\n";
    let (result, _, _) = run(text, &Options::default());
    let statements = result.expect("it runs").queries as f64;
    assert!((statements / 60.0 * 0.2 - 1.0).abs() < 0.1, "{statements}");
}

#[test]
fn a_number_of_statements_can_be_run_instead_of_a_time() {
    let text = "SCALE=1000\nWORK_UNIT=11\nRUN_TIME=300\nUPDATE_PCT=0\nWORK_LOOP=50\n";
    let (result, seen, _) = run(text, &Options { threads: Some(2), ..Options::default() });
    let outcome = result.expect("it runs");
    assert_eq!((outcome.queries, seen.len()), (100, 1000));
    assert!((outcome.time.as_secs_f64() - 500.0 * 139.0625e-6).abs() < 1e-4);
}

#[test]
fn the_warm_up_is_not_measured() {
    let warm_up = Duration::from_secs(3);
    let options = Options { readers: 1, warm_up, ..Options::default() };
    let (result, seen, _) = run(SMALL, &options);
    let outcome = result.expect("it runs");
    assert!((outcome.time.as_secs_f64() - 1.0).abs() < 0.001);
    assert!(outcome.reads.count * 39 / 10 < seen.len() as u64);
}

#[test]
fn files_are_removed_unless_they_shall_stay() {
    for keep in [false, true] {
        let options = Options { writers: 1, keep, ..Options::default() };
        let (result, _, tree) = run("SCALE=1000\nWORK_UNIT=11\nRUN_TIME=1\n", &options);
        result.expect("it runs");
        let there = |name: &str| {
            let status = tree.status(name.as_ref());
            futures_util::future::FutureExt::now_or_never(status).expect("at once").is_ok()
        };
        assert_eq!((there("slob.dbf"), there("slob.redo")), (keep, keep));
        assert!(tree.log.opened.borrow().iter().all(|(_, how)| how.direct));
        let log = tree
            .log
            .opened
            .borrow()
            .iter()
            .any(|(name, how)| name == "slob.redo" && how.durable_writes);
        assert!(log, "the log is durable");
    }
}

#[test]
fn a_tree_without_direct_io_and_a_raised_stop_are_told() {
    let conf = slob::parse("x", "SCALE=1000\nWORK_UNIT=11\nRUN_TIME=100\n").expect("it is right");
    let plan = slob::plan(&conf, &Options::default()).expect("a plan");
    let (runtime, crew, tree) = slow();
    tree.log.takes_direct.set(false);
    let rt = runtime.handle();
    runtime
        .block_on(async move {
            let content =
                Content::new(ContentSpec { form: Form::Words, ..ContentSpec::default() }, 1);
            let stop = Arc::new(AtomicBool::new(false));
            let refused = slob::run(&crew, &plan, &content, 1, &stop).await;
            assert!(refused.expect_err("no direct I/O").to_string().contains("--buffered"));
            tree.log.takes_direct.set(true);
            let (raise, raiser) = (Arc::clone(&stop), rt.clone());
            rt.spawn(async move {
                raiser.sleep(Duration::from_secs(5)).await;
                raise.store(true, Ordering::SeqCst);
            })
            .detach();
            let outcome = slob::run(&crew, &plan, &content, 1, &stop).await.expect("it runs");
            assert!(outcome.time < Duration::from_secs(6));
            assert!(outcome.warnings.iter().any(|warning| warning.starts_with("stopped")));
        })
        .expect("it ends");
}
