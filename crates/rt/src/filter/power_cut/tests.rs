//! What could break: a cut that loses what was durable makes good engines look bad; a cut that keeps too
//! much, or always the same, lets bad engines pass.

use super::*;
use crate::executor::Runtime;
use crate::filter::{Delay, Effect, Fault, Rule, Slowness, Stats};
use crate::virtual_time::{run, runtime};
use crate::{Buf, MemoryDevice};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

const SECTOR: ByteCount = ByteCount(512);
const SECTORS: usize = 12;

/// A sector full of one number; 0 is what was never written.
fn numbered(number: u64, sectors: usize) -> Buf {
    Buf::copy_of(&vec![number as u8; 512 * sectors])
}

fn numbers(bytes: &SgList) -> Vec<u8> {
    let bytes = bytes.to_vec();
    bytes
        .chunks(512)
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
            sector[0]
        })
        .collect()
}

fn at(sector: usize) -> Offset {
    Offset(512 * sector as u64)
}

fn cached(runtime: &Runtime) -> (Rc<MemoryDevice>, Rc<PowerCut>) {
    let memory = MemoryDevice::new("disk", SECTOR * SECTORS as u64);
    let device = PowerCut::new(Rc::clone(&memory) as DeviceRef, &runtime.handle());
    (memory, device)
}

async fn read_all(device: DeviceRef) -> Vec<u8> {
    let all = Request::read(Offset(0), SECTOR * SECTORS as u64);
    numbers(&device.submit(all).await.expect("read"))
}

proptest! {
    /// The contract of a volatile cache, for any sequence of writes, flushes and a cut, with memory that
    /// is ample or short: before the cut every sector reads as its newest version; after it every sector
    /// holds its last durable version or one that was written since.
    #[test]
    fn nothing_durable_is_lost_and_nothing_unwritten_changes(
        steps in proptest::collection::vec((0_usize..SECTORS, 1_usize..5, 0_u8..8), 0..50),
        memory_kib in prop::sample::select(vec![1_u64, 4, 1024]),
        seed: u64,
    ) {
        let runtime = runtime();
        let memory = MemoryDevice::new("disk", SECTOR * SECTORS as u64);
        let device = PowerCut::with_memory(memory, &runtime.handle(), ByteCount::kib(memory_kib));
        run(&runtime, async move {
            let mut newest = [0_u8; SECTORS];
            let mut possible: [BTreeSet<u8>; SECTORS] = std::array::from_fn(|_| [0].into());
            for (i, (sector, len, what)) in steps.into_iter().enumerate() {
                let (version, end) = (i as u64 + 1, (sector + len).min(SECTORS));
                let range = sector..end;
                let bytes = SECTOR * range.len() as u64;
                let request = match what {
                    0 => Request::flush(),
                    1 => Request::write_fua(at(sector), numbered(version, range.len())),
                    2 => Request::write_zeroes(at(sector), bytes),
                    3 => Request::discard(at(sector), bytes),
                    _ => Request::write(at(sector), numbered(version, range.len())),
                };
                device.submit(request).await.expect("done");
                for sector in range {
                    let version = if what == 2 || what == 3 { 0 } else { version as u8 };
                    match what {
                        0 => continue,
                        1 => possible[sector] = [version].into(),
                        _ => _ = possible[sector].insert(version),
                    }
                    newest[sector] = version;
                }
                if what == 0 {
                    possible = newest.map(|version| [version].into());
                }
                assert_eq!(read_all(device.clone()).await, newest);
            }
            device.cut(Prng::new(seed));
            let read = Request::read(Offset(0), SECTOR);
            let dead = device.submit(read).await.expect_err("the power is off");
            assert_eq!(dead.kind, IoErrorKind::PowerCut);
            let survived = read_all(device.power_on().await.expect("power is back")).await;
            for (sector, version) in survived.into_iter().enumerate() {
                assert!(possible[sector].contains(&version), "{version} in sector {sector}, possible: {possible:?}");
            }
        });
    }
}

#[test]
fn every_outcome_that_a_cache_allows_does_happen() {
    // Sectors 0 and 1 are written together, then sector 1 again, all unflushed: each has its versions,
    // in every combination.
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let runtime = runtime();
        let (_, device) = cached(&runtime);
        seen.insert(run(&runtime, async move {
            device.submit(Request::write(at(0), numbered(1, 2))).await.expect("done");
            device.submit(Request::write(at(1), numbered(2, 1))).await.expect("done");
            device.cut(Prng::new(seed));
            let survived = read_all(device.power_on().await.expect("power is back")).await;
            (survived[0], survived[1])
        }));
    }
    let all: BTreeSet<(u8, u8)> =
        [0, 1].into_iter().flat_map(|a| [0, 1, 2].map(|b| (a, b))).collect();
    assert_eq!(seen, all);
}

#[test]
fn a_cut_at_the_nth_write_takes_it_in_flight() {
    let mut survived_with = BTreeSet::new();
    for seed in 0..50 {
        let runtime = runtime();
        let (_, device) = cached(&runtime);
        survived_with.insert(run(&runtime, async move {
            device.cut_at_write(3, Prng::new(seed));
            device.submit(Request::write_fua(at(0), numbered(1, 1))).await.expect("done");
            device.submit(Request::flush()).await.expect("done");
            device.submit(Request::discard(at(5), SECTOR)).await.expect("done");
            assert!(!device.is_cut());
            let third = device.submit(Request::write_fua(at(1), numbered(3, 1))).await;
            assert_eq!(third.expect_err("cut").kind, IoErrorKind::PowerCut);
            assert_eq!((device.is_cut(), device.writes()), (true, 3));
            let survived = read_all(device.power_on().await.expect("power is back")).await;
            assert_eq!(survived[0], 1);
            survived[1]
        }));
    }
    assert_eq!(survived_with, [0, 3].into());
}

#[test]
fn after_the_cut_nothing_reaches_the_device_below_before_the_power_is_back() {
    // A flush of many writes is cut in its middle, on a slow disk.
    let runtime = runtime();
    let rt = runtime.handle();
    let memory = MemoryDevice::new("disk", ByteCount::mib(1));
    let slow = Slowness { latency: Duration::from_micros(10), ..Slowness::default() };
    let stats = Stats::new(Delay::new(memory, &rt, slow), &rt);
    let device = PowerCut::new(Rc::clone(&stats) as DeviceRef, &rt);
    run(&runtime, async move {
        for i in 0..100 {
            device.submit(Request::write(at(2 * i), numbered(1, 1))).await.expect("done");
        }
        let flush = rt.spawn(device.submit(Request::flush()));
        rt.sleep(Duration::from_micros(20)).await;
        let read = rt.spawn(device.submit(Request::read(at(1), SECTOR)));
        rt.sleep(Duration::from_micros(5)).await;
        device.cut(Prng::new(1));
        assert_eq!(flush.await.expect_err("cut").kind, IoErrorKind::PowerCut);
        assert_eq!(read.await.expect_err("cut").kind, IoErrorKind::PowerCut);
        let writes = stats.counters().of_kind(OpKind::Write).ios;
        assert_eq!((writes, stats.in_flight()), (3 * WRITING_OUT_MAX as u64, 0));
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(stats.counters().of_kind(OpKind::Write).ios, writes);
    });
}

#[test]
fn an_abandoned_flush_is_finished_and_not_overtaken() {
    // The first write below is slow; a second to the same place must not pass it.
    let runtime = runtime();
    let rt = runtime.handle();
    let memory = MemoryDevice::new("disk", SECTOR * SECTORS as u64);
    let fault = Fault::new(Rc::clone(&memory) as DeviceRef, &rt, Prng::new(1));
    fault.add(Rule::new(Effect::Delay(Duration::from_micros(100))).at_most(1));
    let device = PowerCut::new(fault, &rt);
    run(&runtime, async move {
        device.submit(Request::write(at(0), numbered(1, 1))).await.expect("done");
        drop(device.submit(Request::flush()));
        device.submit(Request::write_fua(at(0), numbered(2, 1))).await.expect("done");
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(numbers(&memory.peek(at(0), SECTOR)), [2]);
        assert_eq!(device.unflushed_writes(), 0);
    });
}

#[test]
fn a_write_that_was_answered_while_a_durable_one_was_under_way_is_newer() {
    let runtime = runtime();
    let rt = runtime.handle();
    let slow = Slowness { latency: Duration::from_micros(10), ..Slowness::default() };
    let delay = Delay::new(MemoryDevice::new("disk", SECTOR * SECTORS as u64), &rt, slow);
    let device = PowerCut::new(delay, &rt);
    run(&runtime, async move {
        let durable = rt.spawn(device.submit(Request::write_fua(at(0), numbered(1, 2))));
        rt.sleep(Duration::from_micros(5)).await;
        device.submit(Request::write(at(1), numbered(2, 2))).await.expect("done");
        durable.await.expect("done");
        assert_eq!(read_all(device.clone()).await[..4], [1, 2, 2, 0]);
        assert_eq!(device.unflushed_writes(), 1);
        device.submit(Request::flush()).await.expect("done");
        device.cut(Prng::new(1));
        assert_eq!(
            read_all(device.power_on().await.expect("power is back")).await[..4],
            [1, 2, 2, 0]
        );
    });
}

proptest! {
    /// Races between the cache, the lane and the reads: requests in flight together, on a device below that
    /// answers in any order, leave each sector with one of their versions; what is then read is what a
    /// flush makes durable.
    #[test]
    fn requests_in_flight_together_leave_one_truth(
        batches in proptest::collection::vec(
            proptest::collection::vec((0_usize..SECTORS, 1_usize..5, 0_u8..5), 1..8), 1..6),
        memory_kib in prop::sample::select(vec![1_u64, 4, 1024]),
        seed: u64,
    ) {
        let runtime = runtime();
        let rt = runtime.handle();
        let memory = MemoryDevice::new("disk", SECTOR * SECTORS as u64);
        let jitter = Fault::new(memory, &rt, Prng::new(seed));
        for micros in [1, 5, 20] {
            jitter.add(Rule::new(Effect::Delay(Duration::from_micros(micros))).with_probability(0.5));
        }
        let device = PowerCut::with_memory(jitter, &rt, ByteCount::kib(memory_kib));
        run(&runtime, async move {
            let mut before = vec![0_u8; SECTORS];
            let mut version = 0;
            for batch in batches {
                let mut possible: Vec<BTreeSet<u8>> = vec![BTreeSet::new(); SECTORS];
                let mut in_flight = Vec::new();
                for (sector, len, what) in batch {
                    version += 1;
                    let range = sector..(sector + len).min(SECTORS);
                    let data = numbered(version, range.len());
                    let request = match what {
                        0 => Request::flush(),
                        1 | 2 => Request::write_fua(at(sector), data),
                        _ => Request::write(at(sector), data),
                    };
                    in_flight.push(rt.spawn(device.submit(request)));
                    if what > 0 {
                        range.for_each(|sector| _ = possible[sector].insert(version as u8));
                    }
                    rt.sleep(Duration::from_micros(3)).await;
                }
                for request in in_flight {
                    request.await.expect("done");
                }
                let now = read_all(device.clone()).await;
                for (sector, possible) in possible.iter().enumerate() {
                    let unchanged = possible.is_empty() && now[sector] == before[sector];
                    assert!(unchanged || possible.contains(&now[sector]), "sector {sector}");
                }
                before = now;
            }
            device.submit(Request::flush()).await.expect("done");
            device.cut(Prng::new(seed));
            assert_eq!(read_all(device.power_on().await.expect("power is back")).await, before);
        });
    }
}

#[test]
fn a_flush_that_fails_below_keeps_what_it_could_not_write() {
    let runtime = runtime();
    let rt = runtime.handle();
    let memory = MemoryDevice::new("disk", SECTOR * SECTORS as u64);
    let fault = Fault::new(memory, &rt, Prng::new(1));
    let rule = Rule::new(Effect::Fail(IoErrorKind::Medium)).on(&[OpKind::Write]);
    fault.add(rule.within(at(3), SECTOR).at_most(1));
    let device = PowerCut::new(fault, &rt);
    run(&runtime, async move {
        device.submit(Request::write(at(0), numbered(7, 5))).await.expect("done");
        let error = device.submit(Request::flush()).await.expect_err("a write of it fails");
        assert_eq!((error.kind, device.unflushed_writes()), (IoErrorKind::Medium, 1));
        assert_eq!(read_all(device.clone()).await[..6], [7, 7, 7, 7, 7, 0]);
        device.submit(Request::flush()).await.expect("the second time it works");
        assert_eq!(device.unflushed_writes(), 0);
    });
}

#[test]
fn memory_stays_below_its_limit_and_long_fills_take_little_of_it() {
    let runtime = runtime();
    let memory = MemoryDevice::new("disk", ByteCount::gib(1));
    let device = PowerCut::with_memory(memory, &runtime.handle(), ByteCount::kib(64));
    run(&runtime, async move {
        device.submit(Request::write_zeroes(at(0), ByteCount::gib(1))).await.expect("done");
        assert_eq!(device.unflushed_writes(), 1);
        for i in 0..1000 {
            device.submit(Request::write(at(8 * i), numbered(i as u64, 8))).await.expect("done");
            assert!(device.cache.state.borrow().remembered <= 64 << 10);
        }
        device.submit(Request::write(at(0), numbered(9, 1000))).await.expect("it goes through");
        assert_eq!(
            numbers(&device.submit(Request::read(at(999), SECTOR)).await.expect("read")),
            [9]
        );
    });
}
