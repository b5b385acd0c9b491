//! IOMeter.

use crate::slow_tree::{Seen, SlowTree, slow};
use rt::OpKind;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stdx::Instant;
use tools::iometer::{self, IometerError, IometerOutcome, Options, TestOutcome};
use workload::content::{Content, ContentSpec};

/// A configuration with one specification of these lines, on a file of 1 MiB.
fn icf(lines: &[&str], outstanding: u32, more: &str) -> String {
    format!(
        "Version 1.1.0\n'TEST SETUP\n'Run Time\n\t0 0 2\n'Ramp Up Time (s)\n\t1\n{more}\
         'END test setup\n'ACCESS SPECIFICATIONS\n'Access specification name,default assignment\n\
         \tspec,NONE\n'size,% of size,% reads,% random,delay,burst,align,reply\n\t{}\n\
         'END access specifications\n'MANAGER LIST\n'Manager ID, manager name\n\t1,m\n\
         'Manager network address\n\n'Worker\n\tw\n'Worker type\n\tDISK\n\
         'Default target settings for worker\n'Number of outstanding IOs,test connection rate,\
         transactions per connection\n\t{outstanding},DISABLED,1\n\
         'Disk maximum size,starting sector,Data pattern\n\t2048,0,0\n\
         'End default target settings for worker\n'Assigned access specs\n\tspec\n\
         'End assigned access specs\n'Target assignments\n'Target\n\tC:\n'Target type\n\tDISK\n\
         'End target\n'End target assignments\n'End worker\n'End manager\n'END manager list\n",
        lines.join("\n\t")
    )
}

/// Runs a configuration; gives the outcome, what was asked of the tree after the file was made, and
/// the tree.
fn run(
    text: &str,
    options: &Options,
) -> (Result<IometerOutcome, IometerError>, Vec<Seen>, Rc<SlowTree>) {
    let icf = iometer::parse("x.icf", text).expect("it is right");
    let plan = iometer::plan(&icf, options).expect("a plan");
    let (runtime, crew, tree) = slow();
    let result = runtime.block_on(async move {
        let content = Content::new(ContentSpec::default(), 1);
        let stop = Arc::new(AtomicBool::new(false));
        iometer::run(&crew, &plan, &content, 1, &stop, &mut |_: &TestOutcome| ()).await
    });
    let seen = tree.log.take();
    let measured = seen.into_iter().skip(if options.device.is_none() { 16 } else { 0 }).collect();
    (result.expect("it ends"), measured, tree)
}

fn per_cent(count: usize, all: usize) -> f64 {
    count as f64 * 100.0 / all as f64
}

#[test]
fn the_test_file_is_written_whole_and_stays() {
    let icf_text = icf(&["4096,100,100,100,0,1,0,0"], 1, "");
    let icf = iometer::parse("x.icf", &icf_text).expect("it is right");
    let plan = iometer::plan(&icf, &Options::default()).expect("a plan");
    let (runtime, crew, tree) = slow();
    let of_tree = Rc::clone(&tree);
    runtime
        .block_on(async move {
            let content = Content::new(ContentSpec::default(), 1);
            let stop = Arc::new(AtomicBool::new(false));
            for times in 1..=2 {
                let outcome = iometer::run(&crew, &plan, &content, 1, &stop, &mut |_| ()).await;
                let warnings = outcome.expect("it runs").warnings;
                let says = warnings.iter().any(|warning| warning.starts_with("iobw.tst stays"));
                assert_eq!(says, times == 1, "{warnings:?}");
                let writes: Vec<(u64, u64)> = of_tree
                    .log
                    .take()
                    .into_iter()
                    .filter(|seen| seen.kind == OpKind::Write)
                    .map(|seen| (seen.offset, seen.len))
                    .collect();
                let expected: Vec<(u64, u64)> =
                    (0..16).map(|block| (block << 16, 1 << 16)).collect();
                // Found large enough the second time, it is not written again.
                assert_eq!(writes, if times == 1 { expected } else { Vec::new() });
            }
        })
        .expect("it ends");
    assert!(tree.log.opened.borrow().iter().all(|(_, how)| how.direct), "past the cache");
}

#[test]
fn figures_fit_what_was_done() {
    // 100 us an I/O and 5 ms a MiB: 4 KiB take 119.53 us; four at once.
    let (result, seen, tree) =
        run(&icf(&["4096,100,100,100,0,1,4096,0"], 4, ""), &Options::default());
    let outcome = result.expect("it runs");
    let test = &outcome.tests[0];
    let (figures, tally) = test.together();
    assert_eq!(tree.log.outstanding_max.get(), 16, "sixteen while it is made");
    let expected = 4.0 / 119.531e-6;
    assert!((figures.iops() / expected - 1.0).abs() < 0.001, "{}", figures.iops());
    assert_eq!(figures.read_iops, figures.iops());
    assert!((figures.response_ms[0] - 0.119_531).abs() < 1e-5, "{:?}", figures.response_ms);
    assert!((figures.bytes_per_s() / (figures.iops() * 4096.0) - 1.0).abs() < 1e-9);
    assert!((test.time().as_secs_f64() - 2.0).abs() < 0.001, "ramp-up does not count");
    assert!(tally.reads.ios < seen.len() as u64 * 7 / 10, "a third is ramp-up");
    assert!(seen.iter().all(|seen| seen.offset.is_multiple_of(4096) && seen.offset < 1 << 20));
    let metrics = outcome.outcome().metrics;
    assert_eq!(metrics["iops"], figures.iops());
    assert_eq!(metrics["throughput_mb_s"], figures.bytes_per_s() / 1e6);
}

#[test]
fn shares_of_lines_reads_and_random_places_are_those_of_the_specification() {
    let lines = ["4096,70,80,100,0,1,0,0", "8192,30,0,0,0,1,0,0"];
    let (result, seen, _) = run(&icf(&lines, 1, ""), &Options::default());
    let (_, tally) = result.expect("it runs").tests[0].together();
    let small: Vec<&Seen> = seen.iter().filter(|seen| seen.len == 4096).collect();
    assert!((per_cent(small.len(), seen.len()) - 70.0).abs() < 1.5);
    let reads = small.iter().filter(|seen| seen.kind == OpKind::Read).count();
    assert!((per_cent(reads, small.len()) - 80.0).abs() < 1.5);
    for pair in seen.windows(2).filter(|pair| pair[1].len == 8192) {
        // A sequential one goes on where the one before it ended, whatever that was.
        let end = pair[0].offset + pair[0].len;
        let wraps = end + 8192 > 1 << 20;
        assert_eq!(pair[1].offset, if wraps { 0 } else { end });
        assert_eq!(pair[1].kind, OpKind::Write);
    }
    assert_eq!(tally.writes.bytes % 4096, 0);
}

#[test]
fn a_burst_keeps_its_line_and_comes_after_its_delay() {
    let lines = ["4096,50,100,0,10,5,0,0", "8192,50,100,0,0,3,0,0"];
    let (result, seen, _) = run(&icf(&lines, 2, ""), &Options::default());
    result.expect("it runs");
    let mut bursts: Vec<(u64, usize, Instant)> = Vec::new();
    for one in &seen {
        match bursts.last_mut() {
            Some((len, count, _)) if *len == one.len => *count += 1,
            _ => bursts.push((one.len, 1, one.at)),
        }
    }
    for (len, count, _) in &bursts[..bursts.len() - 1] {
        assert!(count.is_multiple_of(if *len == 4096 { 5 } else { 3 }), "{count} of {len}");
    }
    // Before every fifth small one nothing begins for 10 ms.
    let mut pauses = 0;
    for pair in seen.windows(2) {
        let gap = pair[1].at.since(pair[0].at);
        if gap >= Duration::from_millis(10) {
            assert_eq!(pair[1].len, 4096);
            pauses += 1;
        }
    }
    let small = seen.iter().filter(|seen| seen.len == 4096).count();
    assert!(pauses >= small / 5 - 1, "{pauses} pauses in {small}");
}

#[test]
fn queue_depths_are_cycled_and_each_is_kept() {
    let more = "'Queue Depth Cycling\n\t1 8 2 EXPONENTIAL\n'Test Type\n\tCYCLE_OUTSTANDING_IOS\n";
    let (result, _, _) = run(&icf(&["4096,100,100,100,0,1,0,0"], 1, more), &Options::default());
    let outcome = result.expect("it runs");
    let iops: Vec<f64> = outcome.tests.iter().map(|test| test.together().0.iops()).collect();
    assert_eq!(iops.len(), 4);
    for pair in iops.windows(2) {
        assert!((pair[1] / pair[0] - 2.0).abs() < 0.01, "{iops:?}");
    }
    let metrics = outcome.outcome().metrics;
    assert_eq!(metrics["spec_qd8_iops"], iops[3]);
}

#[test]
fn what_is_written_is_of_the_pattern() {
    let lines = ["4096,100,0,100,0,1,0,0"];
    let heads = |pattern: &str| -> Vec<[u8; 8]> {
        let text = icf(&lines, 1, "").replace("2048,0,0", &format!("2048,0,{pattern}"));
        let (result, seen, _) = run(&text, &Options::default());
        result.expect("it runs");
        seen.into_iter().take(1000).map(|seen| seen.head).collect()
    };
    let different = |heads: &[[u8; 8]]| -> usize {
        heads.iter().collect::<std::collections::BTreeSet<_>>().len()
    };
    let repeating = heads("0");
    assert!(repeating.iter().all(|head| head.iter().all(|byte| *byte == head[0])));
    assert!(different(&repeating) > 200);
    assert_eq!(different(&heads("1")), 1);
    assert_eq!(different(&heads("2")), 1000);
}

#[test]
fn a_tree_without_direct_io_is_refused_and_the_cache_can_be_asked_for() {
    let text = icf(&["512,100,100,100,0,1,0,0"], 1, "");
    let icf = iometer::parse("x.icf", &text).expect("it is right");
    for buffered in [false, true] {
        let options = Options { buffered, ..Options::default() };
        let plan = iometer::plan(&icf, &options).expect("a plan");
        let (runtime, crew, tree) = slow();
        tree.log.takes_direct.set(false);
        let result = runtime
            .block_on(async move {
                let content = Content::new(ContentSpec::default(), 1);
                let stop = Arc::new(AtomicBool::new(false));
                iometer::run(&crew, &plan, &content, 1, &stop, &mut |_| ()).await
            })
            .expect("it ends");
        match result {
            Ok(_) => assert!(buffered),
            Err(error) => {
                assert!(!buffered);
                assert!(error.to_string().contains("--buffered"), "{error}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let error = |line: &str, options: &Options| {
        run(&icf(&[line], 1, ""), options).0.expect_err("it does not fit").to_string()
    };
    let none = Options::default();
    assert_eq!(
        error("1000,100,100,100,0,1,0,0", &none),
        "the access specification 'spec' has the size 1000 B, but past the cache only multiples of \
         512 B go; change it, or say --buffered"
    );
    assert!(error("2097152,100,100,100,0,1,0,0", &none).contains("an I/O of 2 MiB has no room"));
    let text = icf(&["4096,100,100,100,0,1,0,0"], 1, "").replace("2048,0,0", "0,0,0");
    let unsized_ = run(&text, &none).0.expect_err("no size").to_string();
    assert!(unsized_.contains("say --size"), "{unsized_}");
}

#[test]
fn a_raised_stop_ends_the_test_with_what_it_has() {
    let text = icf(&["4096,100,100,100,0,1,0,0"], 1, "").replace("0 0 2", "100 0 0");
    let icf = iometer::parse("x.icf", &text).expect("it is right");
    let plan =
        iometer::plan(&icf, &Options { remove: true, ..Options::default() }).expect("a plan");
    let (runtime, crew, tree) = slow();
    let rt = runtime.handle();
    let of_tree = Rc::clone(&tree);
    let tests = Rc::new(RefCell::new(0));
    runtime
        .block_on(async move {
            let content = Content::new(ContentSpec::default(), 1);
            let stop = Arc::new(AtomicBool::new(false));
            let raise = Arc::clone(&stop);
            let raiser = rt.clone();
            rt.spawn(async move {
                raiser.sleep(Duration::from_secs(3)).await;
                raise.store(true, Ordering::SeqCst);
            })
            .detach();
            let mut each = |_: &TestOutcome| *tests.borrow_mut() += 1;
            let outcome = iometer::run(&crew, &plan, &content, 1, &stop, &mut each).await;
            let outcome = outcome.expect("it runs");
            let time = outcome.tests[0].time().as_secs_f64();
            assert!((1.9..2.1).contains(&time), "{time}");
            assert!((outcome.tests[0].together().0.iops() / 8366.0 - 1.0).abs() < 0.01);
            assert!(outcome.warnings.iter().any(|warning| warning.contains("partial")));
            let gone = rt::FileTree::status(&*of_tree, "iobw.tst".as_ref()).await;
            assert!(gone.is_err(), "--remove removes it");
        })
        .expect("it ends");
}
