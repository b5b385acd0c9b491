//! What could break: bytes that don't come back, a power cut that loses too much or too little, parts
//! that are faster together than one of them alone, and runs that differ.

use super::*;
use crate::ram::RamDisk;
use proptest::prelude::*;
use rt::{Buf, IoErrorKind, Request};
use stdx::{Duration, GIB, Instant, MIB, Offset};

fn machine(drive: &str, count: usize) -> Machine {
    Machine::builder(5).drives(drive, count).expect("a drive").build()
}

/// Keeps `depth` requests under way on `device`; returns how long all took.
fn load_test(
    machine: &Machine,
    device: &DeviceRef,
    depth: usize,
    requests: impl Iterator<Item = Request> + 'static,
) -> Duration {
    let (rt, device) = (machine.rt(), Rc::clone(device));
    let requests = Rc::new(std::cell::RefCell::new(requests));
    let worker = move |device: DeviceRef, requests: Rc<std::cell::RefCell<_>>| async move {
        loop {
            let next: Option<Request> = Iterator::next(&mut *requests.borrow_mut());
            let Some(request) = next else { return };
            device.submit(request).await.expect("a sound request");
        }
    };
    machine
        .run(async move {
            let begun = rt.now();
            let tasks: Vec<_> = (0..depth)
                .map(|_| rt.spawn(worker(Rc::clone(&device), Rc::clone(&requests))))
                .collect();
            for task in tasks {
                task.await;
            }
            rt.now().since(begun)
        })
        .expect("no stall")
}

fn sequential(write: bool, from: u64, len: usize, count: u64) -> impl Iterator<Item = Request> {
    (0..count).map(move |i| {
        let at = Offset(from + i * len as u64);
        if write {
            Request::write(at, Buf::fill(i, len))
        } else {
            Request::read(at, ByteCount(len as u64))
        }
    })
}

fn mb_s(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

/// A random history of writes, checked against a plain array, with a power cut in the middle.
#[derive(Clone, Debug)]
enum Step {
    Write { block: u64, blocks: usize, word: u64, fua: bool },
    Read { block: u64, blocks: u64 },
    Flush,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write = (0..500_u64, 1..40_usize, 1..1000_u64, prop::bool::weighted(0.1))
        .prop_map(|(block, blocks, word, fua)| Step::Write { block, blocks, word, fua });
    let read = (0..500_u64, 1..40_u64).prop_map(|(block, blocks)| Step::Read { block, blocks });
    let wait = (0..40_u64).prop_map(Step::Wait);
    let step = prop_oneof![6 => write, 3 => read, 1 => Just(Step::Flush), 1 => wait];
    prop::collection::vec(step, 1..60)
}

const SPAN_BLOCKS: usize = 600;

/// Carries the steps out one after another. Returns what each block may hold after a power cut: its
/// durable word, and every word that was written since.
async fn carry_out(
    rt: Rt,
    device: DeviceRef,
    steps: Vec<Step>,
) -> Result<Vec<Vec<u64>>, TestCaseError> {
    let mut plain = vec![0_u64; SPAN_BLOCKS];
    let mut possible: Vec<Vec<u64>> = vec![vec![0]; SPAN_BLOCKS];
    for step in steps {
        match step {
            Step::Write { block, blocks, word, fua } => {
                let data = Buf::fill(word, blocks * 512);
                let at = Offset(block * 512);
                let request =
                    if fua { Request::write_fua(at, data) } else { Request::write(at, data) };
                device.submit(request).await.expect("a sound write");
                for index in block as usize..block as usize + blocks {
                    plain[index] = word;
                    if fua {
                        possible[index].clear();
                    }
                    possible[index].push(word);
                }
            }
            Step::Read { block, blocks } => {
                let request = Request::read(Offset(block * 512), ByteCount(blocks * 512));
                let data = device.submit(request).await.expect("a sound read").to_vec();
                for (index, bytes) in data.as_chunks::<512>().0.iter().enumerate() {
                    let word = plain[block as usize + index];
                    prop_assert_eq!(&bytes[8..16], &word.to_le_bytes());
                }
            }
            Step::Flush => {
                device.submit(Request::flush()).await.expect("a sound flush");
                possible = plain.iter().map(|word| vec![*word]).collect();
            }
            Step::Wait(ms) => rt.sleep(Duration::from_millis(ms)).await,
        }
    }
    Ok(possible)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Acknowledged and flushed means durable; what was not flushed may be old or new, never else.
    #[test]
    fn a_power_cut_loses_nothing_that_was_flushed(
        steps in steps(), which in 0..4_usize, seed: u64
    ) {
        let name = ["st3750640as", "exos-x20", "870-evo", "pm9a3"][which];
        let machine = Machine::builder(seed).drives(name, 1).expect("a drive").build();
        let (drive, device) = (machine.drives()[0].clone(), machine.devices()[0].clone());
        let possible = machine.run(carry_out(machine.rt(), device.clone(), steps)).expect("no stall")?;
        drive.cut_power(&mut Prng::new(seed));
        let refused = device.submit(Request::read(Offset(0), ByteCount(512)));
        let refused = machine.run(refused).expect("no stall").expect_err("without power");
        prop_assert_eq!(refused.kind, IoErrorKind::PowerCut);
        drive.power_on();
        let all = Request::read(Offset(0), ByteCount(SPAN_BLOCKS as u64 * 512));
        let found = machine.run(device.submit(all)).expect("no stall").expect("a sound read");
        for (index, bytes) in found.to_vec().as_chunks::<512>().0.iter().enumerate() {
            let allowed = possible[index].iter().any(|word| bytes[..8] == word.to_le_bytes());
            prop_assert!(allowed, "block {index} holds {:?}, not {:?}", &bytes[..8], possible[index]);
            // Protected drives lose nothing at all.
            if name == "pm9a3" {
                let last = possible[index].last().copied().unwrap_or_default();
                prop_assert_eq!(&bytes[..8], &last.to_le_bytes());
            }
        }
    }

    /// The cache of a RAID controller merges what is dirty, being written back, clean and on the
    /// volume; a stale part would show.
    #[test]
    fn a_controller_cache_reads_like_a_plain_array(steps in steps(), seed: u64) {
        let machine = Machine::builder(seed)
            .controller("infortrend-2012").expect("a controller")
            .link("fc-4g").expect("a link")
            .drives("hua723030ala640", 1).expect("a drive")
            .build();
        let front = machine.front(machine.devices()[0].clone());
        let cache = front.cache.clone().expect("a cache");
        machine.run(carry_out(machine.rt(), front.device.clone(), steps)).expect("no stall")?;
        let all = || Request::read(Offset(0), ByteCount(SPAN_BLOCKS as u64 * 512));
        let seen = machine.run(front.device.submit(all())).expect("no stall").expect("a read");
        let drained = Rc::clone(&cache);
        machine.run(async move { drained.drain().await }).expect("no stall").expect("written back");
        prop_assert!(cache.dirty().is_zero());
        let below = machine.run(machine.devices()[0].submit(all())).expect("no stall").expect("a read");
        prop_assert_eq!(seen.to_vec(), below.to_vec());
    }
}

#[test]
fn a_disk_loses_exactly_what_it_had_not_written_back() {
    let machine = machine("st3750640as", 1);
    let (drive, device) = (machine.drives()[0].clone(), machine.devices()[0].clone());
    let (rt, disk) = (machine.rt(), device.clone());
    machine
        .run(async move {
            for i in 0..100_u64 {
                let data = Buf::fill(i + 1, 4096);
                disk.submit(Request::write(Offset(i * GIB), data)).await.expect("a write");
            }
            // Some are written back meanwhile.
            rt.sleep(Duration::from_millis(200)).await;
        })
        .expect("no stall");
    drive.cut_power(&mut Prng::new(1));
    drive.power_on();
    let kept = (0..100_u64).filter(|i| {
        let read = device.submit(Request::read(Offset(i * GIB), ByteCount(4096)));
        let bytes = machine.run(read).expect("no stall").expect("a read").to_vec();
        let word = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        assert!(word == 0 || word == i + 1);
        word != 0
    });
    let kept = kept.count();
    assert!((5..80).contains(&kept), "{kept} writes of 100 were on the medium after 0.2 s");
}

#[test]
fn requests_under_way_fail_when_the_power_is_cut() {
    for name in ["wd5000aaks", "870-evo"] {
        let machine = machine(name, 1);
        let (drive, device) = (machine.drives()[0].clone(), machine.devices()[0].clone());
        let under_way = device.submit(Request::read(Offset(GIB), ByteCount(4096)));
        drive.cut_power(&mut Prng::new(1));
        let error = machine.run(under_way).expect("no stall").expect_err("cut");
        assert_eq!(error.kind, IoErrorKind::PowerCut);
        assert!(
            error.to_string().starts_with("disk0: read of 4 KiB at byte 1073741824"),
            "{error}"
        );
    }
}

#[test]
fn a_shared_link_is_the_limit_of_many_disks_and_two_paths_are_twice_one() {
    let rate = |link: &str, disks: usize| {
        let machine = Machine::builder(1)
            .link(link)
            .expect("a link")
            .drives("hua723030ala640", disks)
            .expect("drives")
            .build();
        let rt = machine.rt();
        let tasks: Vec<_> = machine
            .devices()
            .iter()
            .cloned()
            .map(|device| {
                rt.spawn(async move {
                    for request in sequential(false, 0, MIB as usize, 200) {
                        device.submit(request).await.expect("a read");
                    }
                })
            })
            .collect();
        machine
            .run(async move {
                for task in tasks {
                    task.await
                }
            })
            .expect("no stall");
        mb_s(disks as u64 * 200 * MIB, machine.rt().now().since(Instant::START))
    };
    let close = |measured: f64, expected: f64| {
        assert!((measured / expected - 1.0).abs() < 0.05, "{measured} MB/s, not {expected}");
    };
    close(rate("fc-4g", 1), 157.0);
    close(rate("fc-4g", 8), 413.0);
    close(rate("fc-4g-2path", 8), 826.0);
    close(rate("iscsi-1g-1500", 2), 117.0);
    close(rate("sata-3g", 8), 8.0 * 157.0);
}

#[test]
fn a_battery_backed_cache_takes_scattered_writes_fast_and_writes_back_in_order() {
    let scattered = |cached: bool| {
        let machine = Machine::builder(1)
            .controller("infortrend-2012")
            .expect("a controller")
            .drives("st3750640as", 1)
            .expect("a drive")
            .write_cache(false)
            .build();
        let disk = machine.devices()[0].clone();
        let front = machine.front(disk.clone());
        let device = if cached { front.device } else { disk };
        let mut prng = Prng::new(1);
        let requests = (0..500)
            .map(move |i| Request::write(Offset(prng.below(1 << 27) * 4096), Buf::fill(i, 4096)));
        let took = load_test(&machine, &device, 1, requests);
        let begun = machine.rt().now();
        if let Some(cache) = front.cache.filter(|_| cached) {
            machine.run(async move { cache.drain().await }).expect("no stall").expect("written");
        }
        (took, machine.rt().now().since(begun))
    };
    let ((with, drained), (without, _)) = (scattered(true), scattered(false));
    println!("500 scattered writes: {with:?} into the cache, {drained:?} to the disk; {without:?}");
    assert!(with < Duration::from_millis(50) && without > Duration::from_secs(5));
    assert!(drained < without, "an elevator is faster than the order of arrival");
}

#[test]
fn a_controller_reads_a_stream_ahead() {
    let machine = Machine::builder(1)
        .controller("infortrend-2012")
        .expect("a controller")
        .link("fc-4g")
        .expect("a link")
        .drives("hua723030ala640", 1)
        .expect("a drive")
        .build();
    let front = machine.front(machine.devices()[0].clone());
    let took = load_test(&machine, &front.device, 1, sequential(false, 0, 16384, 8000));
    let rate = mb_s(8000 * 16384, took);
    println!("16 KiB reads in order through the controller: {rate:.0} MB/s");
    assert!((110.0..165.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed| {
        let machine = Machine::builder(seed)
            .host("opteron-2008")
            .expect("a host")
            .link("sas-3g-x4")
            .expect("a link")
            .controller("hba")
            .expect("a controller")
            .drives("wd5000aaks", 3)
            .expect("drives")
            .build();
        for device in machine.devices().to_vec() {
            let mut prng = Prng::new(3);
            let requests = (0..300).map(move |i| {
                let at = Offset(prng.below(1 << 26) * 4096);
                if i % 3 == 0 {
                    Request::write(at, Buf::fill(i, 4096))
                } else {
                    Request::read(at, ByteCount(4096))
                }
            });
            load_test(&machine, &device, 8, requests);
        }
        machine.rt().now()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_ram_disk_takes_no_time_and_keeps_bytes() {
    let machine = machine("wd5000aaks", 1);
    let disk: DeviceRef = Rc::new(RamDisk::new("ram", ByteCount::gib(1)));
    load_test(&machine, &disk, 4, sequential(true, 0, 65536, 100));
    assert_eq!(machine.rt().now(), Instant::START);
    let read = machine.run(disk.submit(Request::read(Offset(65536), ByteCount(8))));
    assert_eq!(read.expect("no stall").expect_err("half a block").kind, IoErrorKind::Invalid);
    let read = machine.run(disk.submit(Request::read(Offset(65536), ByteCount(512))));
    assert_eq!(read.expect("no stall").expect("a read").to_vec()[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn parts_of_the_wrong_kind_are_refused_by_name() {
    let error = Machine::builder(1).host("fc-4g").expect_err("a link is no host").to_string();
    assert_eq!(error, "'fc-4g' is a link, not a host; `spindle hw list` shows the kinds");
}

/// All drives of a RAID controller together get what its back end carries; one drive gets its own rate.
#[test]
fn drives_behind_one_back_end_share_it() {
    let rate = |drives: usize, write: bool| {
        let machine = Machine::builder(1)
            .controller("infortrend-2012")
            .expect("a controller")
            .drives("hua723030ala640", drives)
            .expect("drives")
            .build();
        let (rt, len, count) = (machine.rt(), 1 << 20, 200_u64);
        let devices = machine.devices().to_vec();
        let stream = move |device: DeviceRef| async move {
            for request in sequential(write, 0, len, count) {
                device.submit(request).await.expect("a sound request");
            }
        };
        let streams: Vec<_> =
            devices.iter().map(|device| rt.spawn(stream(Rc::clone(device)))).collect();
        machine
            .run(async move {
                for stream in streams {
                    stream.await;
                }
                mb_s(drives as u64 * count * len as u64, rt.now().since(Instant::START))
            })
            .expect("no stall")
    };
    for write in [false, true] {
        let (one, twelve) = (rate(1, write), rate(12, write));
        println!("write {write}: {one:.0} MB/s of one drive, {twelve:.0} of twelve");
        assert!((130.0..175.0).contains(&one), "{one}");
        assert!((1100.0..1201.0).contains(&twelve), "{twelve}");
    }
}

/// What is larger than the largest command goes over several lanes of a wide port at once; smaller is bound to one.
#[test]
fn a_large_request_goes_over_several_lanes_of_a_wide_port() {
    let rate = |len: usize| {
        let machine = Machine::builder(1).link("sas-3g-x4").expect("a link").build();
        let link = crate::profile::load("sas-3g-x4");
        let Ok(Profile::Link(profile)) = link else { panic!("a link") };
        let ram: DeviceRef = Rc::new(RamDisk::new("ram", ByteCount::gib(1)));
        let device = Link::new(&machine.rt(), &profile).attach(ram);
        let count = (256 * MIB) / len as u64;
        let took = load_test(&machine, &device, 1, sequential(false, 0, len, count));
        mb_s(count * len as u64, took)
    };
    let (one, four) = (rate(256 << 10), rate(4 << 20));
    println!("one stream over SAS 3 Gb/s x4: {one:.0} MB/s by 256 KiB, {four:.0} by 4 MiB");
    assert!((250.0..300.0).contains(&one) && (1000.0..1200.0).contains(&four), "{one} {four}");
}

#[test]
fn a_request_that_is_cut_for_a_link_keeps_its_bytes() {
    let machine = Machine::builder(1).build();
    let Ok(Profile::Link(profile)) = load("sas-6g-x4") else { panic!("a link") };
    let ram: DeviceRef = Rc::new(RamDisk::new("ram", ByteCount::gib(1)));
    let device = Link::new(&machine.rt(), &profile).attach(Rc::clone(&ram));
    let len = (512 << 10) * 3 + 4096;
    let bytes: Vec<u8> = (0..len).map(|i: usize| (i / 4096) as u8 ^ i as u8).collect();
    let data = Buf::copy_of(&bytes);
    machine
        .run(device.submit(Request::write(Offset(8192), data)))
        .expect("no stall")
        .expect("written");
    let read = || Request::read(Offset(8192), ByteCount(len as u64));
    for device in [device, ram] {
        let found = machine.run(device.submit(read())).expect("no stall").expect("a read");
        assert!(found.to_vec() == bytes);
    }
}
