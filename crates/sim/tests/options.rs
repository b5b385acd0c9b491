//! What a user can set on a machine. What could break: an option that has no effect, one that has the
//! wrong one, and a setting that is said to be safe and loses data.

use proptest::prelude::*;
use rt::{Buf, DeviceRef, Request, Work, WorkKind};
use sim::{CachePolicy, FlushPolicy, Machine, MachineBuilder, RamDisk};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{ByteCount, Duration, Offset, Prng};

/// The example of the crate's documentation.
#[test]
fn a_machine_of_profiles_writes_and_its_clock_moves() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::builder(7).host("epyc-2024")?.drives("st3750640as", 4)?.build();
    let (rt, disk) = (machine.rt(), machine.devices()[0].clone());
    let data = Buf::fill(1, 4096);
    machine.run(async move {
        disk.submit(Request::write(Offset(0), data)).await?;
        disk.submit(Request::flush()).await
    })??;
    assert!(rt.now() > stdx::Instant::START);
    Ok(())
}

/// The RAID controller that ships, and the same without a battery.
fn controller(battery: bool) -> MachineBuilder {
    if battery {
        return Machine::builder(3).controller("infortrend-2012").expect("it ships");
    }
    changed(|text| {
        text.replace("battery_backed = { value = true", "battery_backed = { value = false")
    })
}

/// The RAID controller that ships, with its profile changed.
fn changed(change: impl Fn(&str) -> String) -> MachineBuilder {
    let text = change(include_str!("../../../hardware/infortrend-2012.toml"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("changed.toml");
    std::fs::write(&path, text).expect("written");
    Machine::builder(3).controller(path.to_str().expect("UTF-8")).expect("a controller")
}

fn with_disk(builder: MachineBuilder) -> Machine {
    builder.drives("hua723030ala640", 1).expect("a drive").write_cache(false).build()
}

/// How long one lane takes for these requests.
fn took(machine: &Machine, device: &DeviceRef, requests: Vec<Request>) -> Duration {
    let (rt, device) = (machine.rt(), Rc::clone(device));
    machine
        .run(async move {
            let begun = rt.now();
            for request in requests {
                device.submit(request).await.expect("a sound request");
            }
            rt.now().since(begun)
        })
        .expect("no stall")
}

fn scattered_writes(flush_each: bool) -> Vec<Request> {
    let mut prng = Prng::new(1);
    let mut requests = Vec::new();
    for i in 0..200 {
        requests.push(Request::write(Offset(prng.below(1 << 27) * 4096), Buf::fill(i, 4096)));
        if flush_each {
            requests.push(Request::flush());
        }
    }
    requests
}

fn reads_in_order(len: u64, count: u64) -> Vec<Request> {
    (0..count).map(|i| Request::read(Offset(i * len), ByteCount(len))).collect()
}

#[test]
fn write_back_takes_small_writes_faster_than_write_through() {
    let span = |policy| {
        let machine = with_disk(controller(true).cache(policy).expect("a RAID controller"));
        let front = machine.front(machine.devices()[0].clone());
        took(&machine, &front.device, scattered_writes(false))
    };
    let (back, through) = (span(CachePolicy::WriteBack), span(CachePolicy::WriteThrough));
    assert!(through > back * 50, "{back:?} back, {through:?} through");
}

#[test]
fn an_ignored_flush_is_faster_than_an_honoured_one_at_controllers_and_drives() {
    let behind_controller = |policy| {
        let machine = with_disk(controller(true).flush(policy));
        let front = machine.front(machine.devices()[0].clone());
        took(&machine, &front.device, scattered_writes(true))
    };
    let at_drive = |name, policy| {
        let builder = Machine::builder(1).drives(name, 1).expect("a drive").flush(policy);
        let machine = builder.build();
        took(&machine, &machine.devices()[0].clone(), scattered_writes(true))
    };
    for (ignored, honoured) in [
        (behind_controller(FlushPolicy::Ignored), behind_controller(FlushPolicy::Honoured)),
        (
            at_drive("hua723030ala640", FlushPolicy::Ignored),
            at_drive("hua723030ala640", FlushPolicy::Honoured),
        ),
        (at_drive("870-evo", FlushPolicy::Ignored), at_drive("870-evo", FlushPolicy::Honoured)),
    ] {
        assert!(honoured > ignored * 5, "{ignored:?} ignored, {honoured:?} honoured");
    }
}

/// Found with a file system: behind a battery it sent no flush, so honouring them cost nothing.
#[test]
fn a_controller_that_honours_flushes_tells_hosts_to_send_them() {
    let volatile = |policy| {
        let machine = with_disk(controller(true).flush(policy));
        machine.front(machine.devices()[0].clone()).device.geometry().volatile_cache
    };
    assert!(volatile(FlushPolicy::Honoured));
    assert!(!volatile(FlushPolicy::Ignored));
}

#[test]
fn a_drive_that_ignores_flushes_loses_what_was_flushed() {
    for (name, policy, kept) in [
        ("hua723030ala640", FlushPolicy::Honoured, true),
        ("hua723030ala640", FlushPolicy::Ignored, false),
        ("870-evo", FlushPolicy::Honoured, true),
        ("870-evo", FlushPolicy::Ignored, false),
    ] {
        let builder = Machine::builder(1).drives(name, 1).expect("a drive").flush(policy);
        let machine = builder.build();
        let (drive, device) = (machine.drives()[0].clone(), machine.devices()[0].clone());
        // The first keeps the arm busy while the second is answered and flushed.
        let writes =
            [0, 1 << 40].map(|at| Request::write(Offset(at % (1 << 39)), Buf::fill(at + 7, 4096)));
        let far = Request::write(Offset(1 << 38), Buf::fill(9, 4096));
        took(&machine, &device, writes.into_iter().chain([far, Request::flush()]).collect());
        drive.cut_power(&mut Prng::new(1));
        drive.power_on();
        let read = machine.run(device.submit(Request::read(Offset(1 << 38), ByteCount(4096))));
        let found = read.expect("no stall").expect("a read").to_vec()[0];
        assert_eq!(found == 9, kept, "{name}, {policy:?}");
    }
}

/// Writes and flushes, then a power cut of controller and drive. Returns for each block whether it
/// holds a word that it may hold by the contract of devices.
fn survives(battery: bool, cache: CachePolicy, flush: FlushPolicy, steps: &[(u8, u64)]) -> bool {
    let builder = controller(battery).flush(flush).cache(cache).expect("a RAID controller");
    let machine = with_disk(builder);
    let front = machine.front(machine.devices()[0].clone());
    let (device, cached) = (front.device, front.cache.expect("a cache"));
    const BLOCKS: usize = 64;
    // For each block what may be found: the last that was flushed, and what came after.
    let possible = Rc::new(RefCell::new(vec![vec![0_u64]; BLOCKS]));
    let (rt, noted, steps) = (machine.rt(), Rc::clone(&possible), steps.to_vec());
    let lane = Rc::clone(&device);
    machine
        .run(async move {
            for (index, (what, block)) in steps.into_iter().enumerate() {
                let (word, at) = (index as u64 + 1, Offset(block << 24));
                match what {
                    0..=5 => {
                        lane.submit(Request::write(at, Buf::fill(word, 4096)))
                            .await
                            .expect("written");
                        noted.borrow_mut()[block as usize].push(word);
                    }
                    6 => {
                        lane.submit(Request::write_fua(at, Buf::fill(word, 4096)))
                            .await
                            .expect("written");
                        noted.borrow_mut()[block as usize] = vec![word];
                    }
                    7 => rt.sleep(Duration::from_millis(block)).await,
                    _ => {
                        lane.submit(Request::flush()).await.expect("flushed");
                        for words in noted.borrow_mut().iter_mut() {
                            words.drain(..words.len() - 1);
                        }
                    }
                }
            }
        })
        .expect("no stall");
    let (drive, mut prng) = (machine.drives()[0].clone(), Prng::new(5));
    cached.cut_power();
    drive.cut_power(&mut prng);
    let refused = machine.run(device.submit(Request::flush())).expect("no stall");
    assert_eq!(refused.expect_err("no power").kind, rt::IoErrorKind::PowerCut);
    drive.power_on();
    cached.power_on(machine.devices()[0].clone());
    let drained = Rc::clone(&cached);
    machine.run(async move { drained.drain().await }).expect("no stall").expect("written back");
    let possible = possible.borrow();
    (0..BLOCKS).all(|block| {
        let read = Request::read(Offset((block as u64) << 24), ByteCount(4096));
        let bytes = machine.run(device.submit(read)).expect("no stall").expect("read").to_vec();
        let words = &possible[block];
        let words = if battery && cache == CachePolicy::WriteBack {
            &words[words.len() - 1..]
        } else {
            words
        };
        words.iter().any(|word| bytes[..8] == word.to_le_bytes())
    })
}

fn steps() -> impl Strategy<Value = Vec<(u8, u64)>> {
    prop::collection::vec((0..10_u8, 0..64_u64), 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// With a battery nothing that was answered is lost, whatever becomes of flushes; without one,
    /// nothing that was flushed, where flushes are honoured.
    #[test]
    fn a_power_cut_loses_no_more_than_the_settings_allow(
        steps in steps(), battery: bool, back: bool, honoured: bool
    ) {
        let cache = if back { CachePolicy::WriteBack } else { CachePolicy::WriteThrough };
        let flush = if honoured { FlushPolicy::Honoured } else { FlushPolicy::Ignored };
        prop_assume!(battery || honoured || !back);
        prop_assert!(survives(battery, cache, flush, &steps));
    }
}

#[test]
fn a_cache_without_battery_that_ignores_flushes_loses_what_was_flushed() {
    let steps = [(0, 1), (0, 2), (9, 0)];
    assert!(!survives(false, CachePolicy::WriteBack, FlushPolicy::Ignored, &steps));
    assert!(survives(false, CachePolicy::WriteBack, FlushPolicy::Honoured, &steps));
}

#[test]
fn the_controllers_read_ahead_raises_one_stream() {
    let rate = |size| {
        let builder = controller(true).read_ahead(size).expect("a RAID controller");
        let machine = with_disk(builder.link("fc-4g").expect("a link"));
        let front = machine.front(machine.devices()[0].clone());
        let span = took(&machine, &front.device, reads_in_order(4096, 4000));
        4000.0 * 4096e-6 / span.as_secs_f64()
    };
    let (off, on) = (rate(ByteCount::ZERO), rate(ByteCount::mib(1)));
    println!("4 KiB reads in order: {off:.0} MB/s without read-ahead, {on:.0} with");
    assert!(on > 1.2 * off, "{off} MB/s without, {on} with");
}

/// Found with a file system whose journal lies behind its files: the cache dropped clean data by place, so
/// that what was read ahead before everything else in it was dropped as it came, and read again.
#[test]
fn a_smaller_cache_of_the_controller_takes_less_before_writes_wait() {
    let span = |size| {
        let machine = with_disk(controller(true).cache_size(size).expect("a RAID controller"));
        let front = machine.front(machine.devices()[0].clone());
        took(&machine, &front.device, scattered_writes(false))
    };
    let (small, large) = (span(ByteCount::kib(256)), span(ByteCount::mib(64)));
    assert!(small > large * 10, "200 scattered writes: {small:?} and {large:?}");
}

#[test]
fn what_is_read_ahead_stays_in_a_cache_that_is_full_of_data_from_behind() {
    let span = |size| {
        let builder = controller(true).read_ahead(size).expect("a RAID controller");
        let machine = with_disk(builder);
        let front = machine.front(machine.devices()[0].clone());
        let mib = 1 << 20;
        let behind = |i| Request::write(Offset((1 << 40) + i * mib), Buf::fill(i, mib as usize));
        let mut fill: Vec<Request> = (0..2500).map(behind).collect();
        fill.push(Request::flush());
        took(&machine, &front.device, fill);
        took(&machine, &front.device, reads_in_order(8192, 4000))
    };
    let (off, on) = (span(ByteCount::ZERO), span(ByteCount::mib(1)));
    assert!(on < off, "{off:?} without read-ahead, {on:?} with");
}

#[test]
fn a_background_service_slows_a_stream_and_a_pause_ends_it() {
    let scan = "\n[firmware.scanning]\ntitle = \"with a media scan\"\n\
                background_service_mb_s = { value = 5.0, guessed = \"a pass a week\" }\n\
                background_service_kb = { value = 512, guessed = \"a long read\" }\n";
    let span = |firmware| {
        let builder = changed(|text| text.to_owned() + scan).firmware(firmware);
        let machine = with_disk(builder.expect("it has both"));
        let disk = machine.devices()[0].clone();
        let span = took(&machine, &disk, reads_in_order(1 << 20, 1000));
        // Nothing is left that could wake the service: it has paused.
        assert!(machine.run(std::future::pending::<()>()).is_err());
        span
    };
    let (older, newer) = (span("older"), span("scanning"));
    println!("1 GiB in order: {older:?} without the service, {newer:?} with it");
    let ratio = newer.as_secs_f64() / older.as_secs_f64();
    assert!((1.1..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn two_channels_carry_two_luns_at_twice_the_rate_of_one() {
    let rate = |channels| {
        let builder = controller(true).link("fc-4g").expect("a link").channels(channels);
        let machine = builder.read_ahead(ByteCount::ZERO).expect("a RAID controller").build();
        let volume = || Rc::new(RamDisk::new("lun", ByteCount::gib(4))) as DeviceRef;
        let luns = [0, 1].map(|lun| machine.front_of(volume(), lun, 2).device);
        let rt = machine.rt();
        let tasks: Vec<_> = luns
            .into_iter()
            .flat_map(|lun| [Rc::clone(&lun), lun])
            .map(|lun| {
                rt.spawn(async move {
                    for request in reads_in_order(1 << 20, 300) {
                        lun.submit(request).await.expect("a read");
                    }
                })
            })
            .collect();
        machine
            .run(async move {
                for task in tasks {
                    task.await;
                }
            })
            .expect("no stall");
        4.0 * 300.0 * 1.048576 / (machine.rt().now().as_nanos() as f64 / 1e9)
    };
    let (one, two) = (rate(1), rate(2));
    println!("two LUNs: {one:.0} MB/s on one channel, {two:.0} on two");
    assert!((one / 413.0 - 1.0).abs() < 0.02, "{one}");
    // Less what its bus, of 2400 MB/s, adds.
    assert!(two > 1.85 * one, "{one}, {two}");
}

#[test]
fn an_option_without_what_it_needs_is_refused_by_name() {
    let bare = || Machine::builder(1).controller("hba").expect("it ships");
    for (error, part) in [
        (bare().cache(CachePolicy::WriteBack).map(drop), "`cache` needs a RAID controller"),
        (bare().read_ahead(ByteCount::ZERO).map(drop), "`read_ahead` needs a RAID controller"),
        (Machine::builder(1).firmware("older").map(drop), "`firmware` needs a controller"),
        (bare().firmware("older").map(drop), "'hba' has no firmware 'older': its profile has none"),
        (controller(true).firmware("x").map(drop), "has no firmware 'x': it has 'newer', 'older'"),
    ] {
        let error = error.expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// A RAID controller does the parity of its sets. What a program on the host does, it does not.
#[test]
fn a_controllers_engine_takes_no_work_of_the_hosts_programs() {
    let took = |builder: MachineBuilder, work: Work| {
        let machine = with_disk(builder.host("r710").expect("it ships"));
        let rt = machine.rt();
        let run = async move {
            let begun = rt.now();
            rt.charge(work).await;
            rt.now().since(begun)
        };
        machine.run(run).expect("no stall")
    };
    let mib = ByteCount::mib(1);
    let copy = Work::new(WorkKind::Copy, mib);
    let call = Work::new(WorkKind::Call, ByteCount::ZERO);
    for work in [copy.anywhere(), call.anywhere(), Work::program(Duration::from_micros(100))] {
        let alone = took(Machine::builder(3), work);
        assert!(alone > Duration::ZERO);
        assert_eq!(took(controller(true), work), alone, "{work:?}");
    }
    // The sets' own copies pass the controller, at 2400 MB/s; the host copies 5000.
    assert!(took(controller(true), copy) > 2 * took(Machine::builder(3), copy));
}
