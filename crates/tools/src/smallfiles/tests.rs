//! What could break: files that are left out or done twice by the threads' parts; copies that are not
//! what was copied; files left behind.

use super::*;
use rt::memory_tree::Counts;
use rt::{FileTree, MemoryTree, OpKind, Runtime};
use sim::SimReactor;
use sim::host::Processor;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use stdx::ByteCount;
use workload::content::{Content, ContentSpec};
use workload::crew::OneRuntime;
use workload::run_error::RunError;

struct Run {
    result: Result<SmallFilesOutcome, RunError>,
    counts: Counts,
    left: usize,
    /// How many files were left at each time that it told.
    removing: Vec<u64>,
}

fn run_plan(plan: Plan, capacity: ByteCount, stopped: bool) -> Run {
    let tree = MemoryTree::with_capacity("m", capacity);
    let runtime = Runtime::new(SimReactor::new(Processor::infinite()));
    let crew = OneRuntime::new(runtime.handle(), Rc::clone(&tree) as _);
    let content = Content::new(ContentSpec::default(), 1);
    let stop = Arc::new(AtomicBool::new(stopped));
    let removing = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&removing);
    let listener: Listener = Arc::new(move |what| {
        if let Heard::Removing(left) = what {
            heard.lock().expect("no panic").push(left);
        }
    });
    let below = Rc::clone(&tree);
    let (result, left) = runtime
        .block_on(async move {
            let result = run(&crew, &plan, &content, 1, stop, listener).await;
            (result, below.list("".as_ref()).await.expect("it lists").len())
        })
        .expect("it ends");
    let removing = removing.lock().expect("no panic").clone();
    Run { result, counts: tree.counts(), left, removing }
}

#[test]
fn every_file_goes_through_every_phase_once() {
    let plan = Plan {
        sizes: "1k:100k".parse().expect("a range"),
        threads: 7,
        directories: 9,
        durable: true,
        ..Plan::of_files(1000)
    };
    let run = run_plan(plan, ByteCount::gib(1), false);
    let outcome = run.result.expect("it runs");
    let bytes = outcome.figure(Phase::Create).expect("it ran").bytes;
    for phase in Phase::ALL {
        let figure = outcome.figure(phase).expect("it ran");
        let (files, moved) = match phase {
            Phase::Delete => (2000, 0),
            Phase::Stat => (1000, 0),
            _ => (1000, bytes),
        };
        assert_eq!((figure.files, figure.bytes), (files, moved), "{phase:?}");
        assert_eq!(figure.latencies.len(), files);
    }
    let mean = bytes as f64 / 1000.0 / 1024.0;
    assert!((47.0..54.0).contains(&mean), "{mean} KiB a file");
    assert_eq!((run.counts.created, run.counts.removed, run.left), (2000, 2000, 0));
    assert_eq!(run.removing, [], "nothing is left to remove");
    assert_eq!(run.counts.synced, 2000);
    assert_eq!(run.counts.bytes[&OpKind::Write], 2 * bytes);
    assert_eq!(run.counts.bytes[&OpKind::Read], 2 * bytes);
}

#[test]
fn empty_files_and_one_directory_are_a_load_too() {
    let sizes = "0".parse().expect("a size");
    let plan = Plan { sizes, directories: 1, threads: 3, cold: true, ..Plan::of_files(10) };
    let run = run_plan(plan, ByteCount::gib(1), false);
    let metrics = run.result.expect("it runs").outcome().metrics;
    assert_eq!(run.counts.requests.get(&OpKind::Write), None);
    assert!(metrics.contains_key("ops_per_s") && metrics.contains_key("copy_latency_us_p99"));
    assert!(!metrics.contains_key("copy_throughput_mb_s"), "{metrics:?}");
}

#[test]
fn a_stopped_run_or_a_full_disk_leaves_nothing_behind() {
    let run = run_plan(Plan::of_files(100), ByteCount::gib(1), true);
    assert_eq!((run.result.err(), run.left), (Some(RunError::Stopped), 0));
    // Room for the files, not for all of their copies.
    let run = run_plan(Plan::of_files(100), ByteCount::kib(600), false);
    let error = run.result.expect_err("the disk is full").to_string();
    assert!(error.contains(".copy: write of 4 KiB at byte 0"), "{error}");
    assert_eq!(run.left, 0);
    // The files, and the copies until then: the one that did not fit is there, too.
    let all = run.removing[0];
    assert!((101..200).contains(&all), "{all}");
    assert_eq!(run.removing, (0..=all).rev().collect::<Vec<u64>>());
}

/// What could break: room that is counted in bytes, which a million files of a byte have anywhere.
#[test]
fn files_take_whole_blocks_and_each_of_them_a_name() {
    let plan = |sizes: &str| Plan { sizes: sizes.parse().expect("sizes"), ..Plan::of_files(1000) };
    let of_block = |sizes, block| plan(sizes).space(ByteCount(block)).bytes();
    // Ten directories and the one that they lie in; copies beside the files.
    assert_eq!(plan("1").names(), 2011);
    assert_eq!(of_block("1", 4096), 2011 * 4096);
    assert_eq!(of_block("0", 4096), 11 * 4096);
    assert_eq!(of_block("4097", 4096), (4000 + 11) * 4096);
    assert_eq!(of_block("1:8192", 4096), 2000 * 6144 + 11 * 4096);
    assert_eq!(of_block("0:1023", 512), 2000 * 767 + 11 * 512);
    assert_eq!(of_block("1000:3000", 1), 2000 * 2000 + 11);
}

#[test]
fn what_can_not_be_run_is_refused() {
    let error = |plan: Plan| plan.check().expect_err("refused").to_string();
    assert_eq!(Plan::of_files(100).check(), Ok(()));
    let many = Plan { threads: 200, ..Plan::of_files(100) };
    assert_eq!(error(many), "the threads (--threads) must be from 1 to 100, not 200");
    assert!(error(Plan { directories: 101, ..Plan::of_files(100) }).contains("--dirs"));
    assert!(error(Plan::of_files(0)).contains("--files"));
    assert!("64k:1k".parse::<Sizes>().is_err() && "x".parse::<Sizes>().is_err());
}

#[test]
fn the_table_has_a_line_a_phase() {
    let run = run_plan(Plan::of_files(10), ByteCount::gib(1), false);
    let text = table::text(&run.result.expect("it runs"));
    let head = "10 files of 4 KiB in 1 directory, 1 thread, blocks of 64 KiB; random bytes, not compressible, no duplicates\n";
    assert!(text.starts_with(head), "{text}");
    let words: Vec<&str> = text.lines().skip(3).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(words, ["create", "stat", "read", "copy", "delete"]);
}
