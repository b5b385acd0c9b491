//! What could break: a fault that does not happen makes every test above it worthless, and one that
//! does more than it says makes it wrong.

use super::*;
use crate::executor::Runtime;
use crate::filter::{Delay, Slowness};
use crate::virtual_time::{run, runtime};
use crate::{Buf, IoResult, MemoryDevice};
use futures_util::future::join;
use proptest::prelude::*;
use stdx::Instant;

const SECTOR: ByteCount = ByteCount(512);
const MICRO: Duration = Duration::from_micros(1);

fn faulty(runtime: &Runtime) -> (Rc<MemoryDevice>, Rc<Fault>) {
    let memory = MemoryDevice::new("disk", SECTOR * 64);
    let fault = Fault::new(Rc::clone(&memory) as DeviceRef, &runtime.handle(), Prng::new(5));
    (memory, fault)
}

fn sector(n: u64) -> Offset {
    Offset::ZERO + SECTOR * n
}

fn ones(sectors: u64) -> Buf {
    Buf::fill(u64::MAX, (SECTOR * sectors).as_usize())
}

fn kind_of(result: IoResult) -> Option<IoErrorKind> {
    result.err().map(|error| error.kind)
}

#[test]
fn without_rules_nothing_happens() {
    let runtime = runtime();
    let (memory, fault) = faulty(&runtime);
    run(&runtime, async move {
        fault.submit(Request::write(sector(3), ones(2))).await.expect("written");
        assert_eq!(memory.peek(sector(3), SECTOR * 2).to_vec(), [255; 1024]);
        let read = fault.submit(Request::read(sector(3), SECTOR * 2)).await.expect("read");
        assert_eq!(read.to_vec(), [255; 1024]);
    });
}

#[test]
fn unreadable_sectors_are_readable_again_one_by_one_when_they_are_written() {
    let runtime = runtime();
    let (_, fault) = faulty(&runtime);
    let rule = fault.add(Rule::new(Effect::Unreadable).within(sector(8), SECTOR * 4));
    run(&runtime, async move {
        let read = |at, len| fault.submit(Request::read(sector(at), SECTOR * len));
        assert_eq!(kind_of(read(0, 8).await), None);
        assert_eq!(kind_of(read(7, 2).await), Some(IoErrorKind::Medium));
        fault.submit(Request::write(sector(9), ones(1))).await.expect("written");
        let results = [read(8, 1).await, read(9, 1).await, read(10, 1).await, read(12, 4).await];
        let bad: Vec<bool> = results.iter().map(Result::is_err).collect();
        assert_eq!(bad, [true, false, true, false]);
        fault.submit(Request::write_zeroes(sector(0), SECTOR * 64)).await.expect("written");
        assert_eq!(kind_of(read(0, 64).await), None);
        assert_eq!(fault.hits(rule), 3);
    });
}

#[test]
fn a_device_goes_after_so_many_requests_and_comes_back_with_what_it_held() {
    let runtime = runtime();
    let (_, fault) = faulty(&runtime);
    let rule = fault.add(Rule::new(Effect::Gone).on(&[OpKind::Write]).after(2));
    run(&runtime, async move {
        let write = |at| fault.submit(Request::write(sector(at), ones(1)));
        let read = || fault.submit(Request::read(sector(0), SECTOR * 3));
        assert!(write(0).await.is_ok() && read().await.is_ok() && write(1).await.is_ok());
        assert_eq!(kind_of(write(2).await), Some(IoErrorKind::Gone));
        assert_eq!(kind_of(read().await), Some(IoErrorKind::Gone));
        assert_eq!(kind_of(fault.submit(Request::flush()).await), Some(IoErrorKind::Gone));
        fault.come_back();
        let bytes = read().await.expect("read").to_vec();
        assert_eq!((bytes[1023], bytes[1024]), (255, 0));
        assert_eq!((kind_of(write(2).await), fault.hits(rule)), (None, 1));
    });
}

#[test]
fn a_device_goes_at_its_moment_with_requests_in_flight() {
    let runtime = runtime();
    let rt = runtime.handle();
    let memory = MemoryDevice::new("disk", SECTOR * 64);
    let slow = Slowness { latency: 10 * MICRO, ..Slowness::default() };
    let fault = Fault::new(Delay::new(memory, &rt, slow), &rt, Prng::new(5));
    let rule = fault.add(Rule::new(Effect::Gone).from(Instant::START + 15 * MICRO));
    run(&runtime, async move {
        let read = || fault.submit(Request::read(sector(0), SECTOR));
        assert_eq!(kind_of(read().await), None);
        assert_eq!(kind_of(read().await), Some(IoErrorKind::Gone));
        assert!(fault.is_gone());
        assert_eq!(fault.hits(rule), 1);
    });
}

#[test]
fn delays_add_up_and_do_not_block_other_requests() {
    let runtime = runtime();
    let rt = runtime.handle();
    let (_, fault) = faulty(&runtime);
    fault.add(Rule::new(Effect::Delay(30 * MICRO)).within(sector(0), SECTOR));
    fault.add(Rule::new(Effect::Delay(12 * MICRO)).within(sector(0), SECTOR));
    run(&runtime, async move {
        let timed = async |at| {
            fault.submit(Request::read(sector(at), SECTOR)).await.expect("read");
            rt.now()
        };
        let (slow, quick) = join(timed(0), timed(1)).await;
        assert_eq!((quick, slow), (Instant::START, Instant::START + 42 * MICRO));
    });
}

#[test]
fn a_lost_write_and_a_lost_flush_are_answered_and_not_done() {
    let runtime = runtime();
    let (memory, fault) = faulty(&runtime);
    let write = fault.add(Rule::new(Effect::Lose).within(sector(4), SECTOR).at_most(1));
    let flush = fault.add(Rule::new(Effect::Lose).on(&[OpKind::Flush]));
    run(&runtime, async move {
        fault.submit(Request::write(sector(2), ones(4))).await.expect("answered");
        fault.submit(Request::flush()).await.expect("answered");
        assert_eq!(memory.peek(sector(0), SECTOR * 8).to_vec(), [0; 4096]);
        fault.submit(Request::write(sector(4), ones(1))).await.expect("answered");
        assert_eq!(memory.peek(sector(4), SECTOR).to_vec(), [255; 512]);
        assert_eq!((fault.hits(write), fault.hits(flush)), (1, 1));
    });
}

#[test]
fn corruption_on_read_leaves_the_medium_good() {
    let runtime = runtime();
    let (_, fault) = faulty(&runtime);
    let rule = fault.add(Rule::new(Effect::FlipReadBits(1)).within(sector(3), SECTOR));
    run(&runtime, async move {
        let bytes =
            fault.submit(Request::read(sector(0), SECTOR * 8)).await.expect("read").to_vec();
        let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        let place = bytes.iter().position(|byte| *byte != 0).expect("a bit is flipped");
        assert!(flipped == 1 && (1536..2048).contains(&place));
        fault.remove(rule);
        let bytes =
            fault.submit(Request::read(sector(0), SECTOR * 8)).await.expect("read").to_vec();
        assert_eq!(bytes, [0; 4096]);
    });
}

#[test]
fn a_misdirected_write_changes_the_wrong_place_and_not_the_right_one() {
    let runtime = runtime();
    let (memory, fault) = faulty(&runtime);
    fault.add(Rule::new(Effect::Misdirect(Misdirection::To(sector(1000)))));
    run(&runtime, async move {
        fault.submit(Request::write(sector(0), ones(2))).await.expect("answered");
        let bytes = memory.peek(sector(0), SECTOR * 64).to_vec();
        let changed = bytes.chunks(512).map(|sector| sector == [255; 512]);
        assert!(changed.enumerate().all(|(i, changed)| changed == (i >= 62)));
    });
}

#[test]
fn a_torn_write_that_also_fails_leaves_some_sectors_and_says_so() {
    let runtime = runtime();
    let (memory, fault) = faulty(&runtime);
    fault.add(Rule::new(Effect::Tear));
    fault.add(Rule::new(Effect::Fail(IoErrorKind::Medium)));
    run(&runtime, async move {
        let result = fault.submit(Request::write(sector(0), ones(8))).await;
        assert_eq!(kind_of(result), Some(IoErrorKind::Medium));
        let bytes = memory.peek(sector(0), SECTOR * 8).to_vec();
        let written = bytes.iter().filter(|byte| **byte == 255).count() / 512;
        assert!(0 < written && written < 8, "{written} of 8 sectors");
    });
}

#[test]
fn chance_strikes_about_as_often_as_it_should_and_the_same_with_the_same_seed() {
    let hits = |seed| {
        let runtime = runtime();
        let memory = MemoryDevice::new("disk", SECTOR * 64);
        let fault = Fault::new(memory, &runtime.handle(), Prng::new(seed));
        let rule = Rule::new(Effect::Fail(IoErrorKind::Medium)).with_probability(0.1);
        let rule = fault.add(rule.on(&[OpKind::Read]));
        run(&runtime, async move {
            for _ in 0..10_000 {
                let _ = fault.submit(Request::read(sector(0), SECTOR)).await;
            }
            fault.hits(rule)
        })
    };
    assert!((900..1100).contains(&hits(1)));
    assert_eq!(hits(1), hits(1));
    assert_ne!(hits(1), hits(2));
}

#[test]
#[should_panic(expected = "concerns")]
fn a_rule_that_could_never_strike_is_refused() {
    let _ = Rule::new(Effect::Tear).on(&[OpKind::Read]);
}

proptest! {
    /// Off-by-one errors where damage is kept within its range: whatever the write and the rule, only
    /// sectors of the write can differ from the write, only within the range, and at least one does.
    #[test]
    fn tearing_and_corruption_stay_within_the_write_and_the_range(
        write in (0_u64..16, 1_u64..16), range in (0_u64..24, 1_u64..16), tear: bool, seed: u64,
    ) {
        let runtime = runtime();
        let memory = MemoryDevice::new("disk", SECTOR * 64);
        let fault = Fault::new(memory.clone(), &runtime.handle(), Prng::new(seed));
        let effect = if tear { Effect::Tear } else { Effect::FlipWriteBits(3) };
        let rule = fault.add(Rule::new(effect).within(sector(range.0), SECTOR * range.1));
        run(&runtime, async move {
            fault.submit(Request::write(sector(write.0), ones(write.1))).await.expect("answered");
            let written = write.0..write.0 + write.1;
            let ranged = range.0..range.0 + range.1;
            let mut damaged = 0;
            for (i, bytes) in memory.peek(sector(0), SECTOR * 64).to_vec().chunks(512).enumerate() {
                let expected = if written.contains(&(i as u64)) { 255 } else { 0 };
                if bytes.iter().any(|byte| *byte != expected) {
                    damaged += 1;
                    assert!(written.contains(&(i as u64)) && ranged.contains(&(i as u64)));
                    assert!(!tear || bytes == [0; 512]);
                }
            }
            let touches = written.start.max(ranged.start) < written.end.min(ranged.end);
            assert_eq!(fault.hits(rule), u64::from(touches));
            assert_eq!(damaged > 0, touches && !(tear && write.1 == 1));
            assert!(!tear || damaged < write.1);
        });
    }
}
