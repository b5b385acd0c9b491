//! Probes.

use crate::slow_tree::{Seen, slow};
use rt::{FileTree, OpKind, OpenHow, Request};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stdx::{ByteCount, Offset};
use tools::probe::dd::{self, DdOptions, DdOutcome, operands};
use tools::probe::hdparm::{self, HdparmOutcome, HdparmPlan};
use workload::content::{Content, ContentSpec, Form};

fn plan(size: u64) -> HdparmPlan {
    HdparmPlan {
        path: "probe.tst".into(),
        make: Some(ByteCount::mib(size)),
        cached: true,
        disk: true,
        direct: false,
    }
}

fn hdparm(plan: HdparmPlan) -> (HdparmOutcome, Vec<Seen>, usize, bool) {
    let (runtime, crew, tree) = slow();
    let of_tree = Rc::clone(&tree);
    let (outcome, left) = runtime
        .block_on(async move {
            // A GiB is made: words, not bytes.
            let spec = ContentSpec { form: Form::Words, ..ContentSpec::default() };
            let content = Content::new(spec, 1);
            let stop = Arc::new(AtomicBool::new(false));
            let outcome = hdparm::run(&crew, &plan, &content, &stop).await.expect("it runs");
            (outcome, of_tree.status("probe.tst".as_ref()).await.is_ok())
        })
        .expect("it ends");
    let reads = tree.log.take().into_iter().filter(|seen| seen.kind == OpKind::Read).collect();
    (outcome, reads, tree.log.dropped.get(), left)
}

#[test]
fn hdparm_reads_2_mib_at_a_time_from_the_start_to_the_end_or_for_its_time() {
    // 100 us an I/O and 5 ms a MiB: 2 MiB take 10.1 ms, 3 s are 298 of them.
    let (outcome, reads, dropped, left) = hdparm(plan(1024));
    let disk = outcome.disk.expect("-t");
    assert_eq!(disk.bytes, ByteCount::mib(298 * 2));
    assert!((disk.mib_per_s() - 2.0 / 0.0101).abs() < 0.1, "{}", disk.mib_per_s());
    let cached = outcome.cached.expect("-T");
    assert_eq!(cached.bytes, ByteCount::mib(199 * 2));
    assert!(reads.iter().all(|read| read.len == 2 << 20));
    // One to have it in the cache, then again and again the first; then on and on.
    assert!(reads[..200].iter().all(|read| read.offset == 0));
    let offsets: Vec<u64> = reads[200..].iter().map(|read| read.offset).collect();
    assert!(offsets.iter().copied().eq((0..298).map(|block| block * (2 << 20))));
    assert_eq!((dropped, left), (2, false));

    let short = hdparm(plan(11)).0.disk.expect("-t");
    assert_eq!(short.bytes, ByteCount::mib(10));
}

#[test]
fn hdparm_refuses_what_is_too_small_and_leaves_what_it_did_not_make() {
    let (runtime, crew, tree) = slow();
    runtime
        .block_on(async move {
            let content = Content::new(ContentSpec::default(), 1);
            let stop = Arc::new(AtomicBool::new(false));
            let file = tree.open("small".as_ref(), OpenHow::create()).await.expect("created");
            file.set_size(ByteCount::mib(1)).await.expect("grown");
            let plan = HdparmPlan { path: "small".into(), make: None, ..plan(0) };
            let error = hdparm::run(&crew, &plan, &content, &stop).await.expect_err("too small");
            assert!(error.to_string().contains("1048576 B are too few"), "{error}");
            assert!(tree.status("small".as_ref()).await.is_ok());
            // A file of somebody else's is not overwritten either.
            let plan = HdparmPlan { make: Some(ByteCount::mib(4)), ..plan };
            assert!(hdparm::run(&crew, &plan, &content, &stop).await.is_err());
        })
        .expect("it ends");
}

/// Copies; gives the outcome, all requests, how often the output was synced, and its size.
fn dd(text: &str) -> (DdOutcome, Vec<Seen>, usize, u64) {
    let read = operands::parse(text.split(' ')).expect("they are right");
    let (runtime, crew, tree) = slow();
    let of_tree = Rc::clone(&tree);
    let (outcome, size) = runtime
        .block_on(async move {
            let content = Content::new(ContentSpec::default(), 1);
            let stop = Arc::new(AtomicBool::new(false));
            // The input, of 10 000 B, and an output that is longer than what is written.
            for (name, len) in [("in", 10_000), ("old", 1 << 20)] {
                let file = of_tree.open(name.as_ref(), OpenHow::create()).await.expect("created");
                let data = rt::Buf::fill(7, len);
                file.submit(Request::write(Offset::ZERO, data)).await.expect("written");
            }
            of_tree.log.take();
            let options = DdOptions { cold: true, destructive: false };
            let outcome = dd::run(&crew, &read, options, &content, &stop).await.expect("it runs");
            let mut size = 0;
            for name in ["out", "old"] {
                if let Ok(status) = of_tree.status(name.as_ref()).await {
                    size = status.size.bytes();
                    break;
                }
            }
            (outcome, size)
        })
        .expect("it ends");
    let synced = tree.log.synced.get();
    let seen = tree.log.take();
    (outcome, seen, synced, size)
}

#[test]
fn dd_writes_blocks_in_order_and_its_time_takes_in_the_sync() {
    let (outcome, seen, synced, size) = dd("of=out bs=64k count=8 conv=fsync");
    // 64 KiB take 412.5 us; the sync takes 10 ms.
    assert_eq!(outcome.time, Duration::from_nanos(8 * 412_500 + 10_000_000));
    assert_eq!((outcome.records_in, outcome.records_out), ((8, 0), (8, 0)));
    assert_eq!((synced, size), (1, 8 << 16));
    let expected = (0..8).map(|block| (OpKind::Write, block << 16, 1 << 16));
    assert!(seen.iter().map(|seen| (seen.kind, seen.offset, seen.len)).eq(expected));
    assert_eq!(
        outcome.text(),
        "8+0 records in\n8+0 records out\n524288 bytes (524 kB, 512 KiB) copied, 0.0133 s, 39.4 \
         MB/s\n"
            .replace("39.4", "39")
    );
    assert!(outcome.warnings[0].starts_with("zeros are written"));
    let (outcome, seen, ..) = dd("if=/dev/urandom of=out bs=64k count=8 conv=fdatasync");
    assert_eq!(seen.last().map(|seen| seen.kind), Some(OpKind::Flush));
    assert!(outcome.warnings.is_empty());
}

#[test]
fn dd_reads_to_the_end_and_counts_the_part_that_is_left() {
    let (outcome, seen, _, size) = dd("if=in of=out bs=4k skip=1");
    assert_eq!((outcome.records_in, outcome.records_out), ((1, 1), (1, 1)));
    assert_eq!((outcome.bytes, size), (ByteCount(10_000 - 4096), 10_000 - 4096));
    let kinds: Vec<OpKind> = seen.iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [OpKind::Read, OpKind::Write, OpKind::Read, OpKind::Write]);
    let (outcome, ..) = dd("if=in bs=10000");
    assert_eq!((outcome.records_in, outcome.bytes), ((1, 0), ByteCount(10_000)));
}

#[test]
fn dd_cuts_the_output_where_it_begins_unless_told() {
    assert_eq!(dd("of=old bs=4k count=2").3, 8192);
    assert_eq!(dd("of=old bs=4k count=2 seek=3").3, 5 * 4096);
    assert_eq!(dd("of=old bs=4k count=2 conv=notrunc").3, 1 << 20);
}

#[test]
fn past_the_cache_a_part_of_a_block_goes_through_it() {
    let (outcome, seen, _, size) = dd("if=in of=out bs=4k oflag=direct");
    assert_eq!((outcome.records_out, size), ((2, 1), 10_000));
    assert_eq!(seen.iter().filter(|seen| seen.kind == OpKind::Write).count(), 3);
}
