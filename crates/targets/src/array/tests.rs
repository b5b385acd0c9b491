//! What could break: a partition that is not where the layout says, LUNs that are not each on their own,
//! a rebalance whose extent is not what it moves.

use super::*;
use lab::study::{DiskChange, Rebalance};
use lab::study::{InitialiseMethod, Priority};
use rt::filter::Stats;
use rt::{Buf, OpKind, Request};
use sim::Machine;
use sim::profile::LockStep;
use std::cell::RefCell;
use stdx::{ByteCount, Duration, Prng};

fn layout(text: &str) -> Layout {
    Layout::read(text.parse().expect("TOML")).expect("a layout")
}

/// 64 KiB writes at random, each aligned in the partition, 16 at a time: alone, the further disk that a
/// misaligned one needs would work beside the first.
fn aligned_writes(offset: &str) -> Duration {
    let machine = Machine::builder(1).drives("hua723030ala640", 4).expect("drives");
    let machine = machine.write_cache(false).build();
    let text = format!("level = 'raid5'\ndisks = 4\nchunk = '64k'\npartition_offset = '{offset}'");
    let rt = machine.rt();
    let built = build(&rt, "set", &layout(&text), machine.devices().to_vec());
    let device = built.map_err(|error| error.to_string()).expect("built").device;
    let lane = |seed: u64, rt: Rt| {
        let device = Rc::clone(&device);
        rt.spawn(async move {
            let mut prng = Prng::new(seed);
            for i in 0..40 {
                let at = Offset(prng.below(1 << 20) * 65536);
                device.submit(Request::write(at, Buf::fill(i, 65536))).await.expect("written");
            }
        })
    };
    let lanes: Vec<_> = (0..16).map(|seed| lane(seed, rt.clone())).collect();
    machine
        .run(async move {
            for lane in lanes {
                lane.await;
            }
            rt.now().since(stdx::Instant::START)
        })
        .expect("no stall")
}

#[test]
fn a_partition_at_sector_63_costs_a_raid_5_more_for_each_write_of_a_chunk() {
    let (aligned, misaligned) = (aligned_writes("0"), aligned_writes("31.5k"));
    let ratio = misaligned.as_secs_f64() / aligned.as_secs_f64();
    println!("640 writes of a chunk: {aligned:?} aligned, {misaligned:?} at sector 63");
    assert!((1.1..3.0).contains(&ratio), "{ratio}");
    let whole_chunks = aligned_writes("1m").as_secs_f64() / aligned.as_secs_f64();
    assert!(
        (0.95..1.05).contains(&whole_chunks),
        "whole chunks are as good as none: {whole_chunks}"
    );
}

#[test]
fn each_lun_is_put_before_the_host_by_itself_and_the_partition_lies_on_it() {
    let machine = Machine::builder(1).drives("hua723030ala640", 6).expect("drives").build();
    let text = "level = 'raid0'\nsets = 2\nluns = true\npartition_offset = '31.5k'\n\
                of = { level = 'raid5', disks = 3 }";
    let seen = RefCell::new(Vec::new());
    let before = |device: DeviceRef, lun: usize| {
        seen.borrow_mut().push((device.name().to_string(), lun));
        device
    };
    let disks = machine.devices().to_vec();
    let built = build_before(
        &machine.rt(),
        "set",
        &layout(text),
        disks,
        OperationHabits::default(),
        &before,
    );
    let built = built.map_err(|error| error.to_string()).expect("built");
    assert_eq!(seen.take(), [("set/0".to_owned(), 0), ("set/1".to_owned(), 1)]);
    let disk = machine.devices()[0].geometry().capacity;
    assert!(built.device.geometry().capacity < disk * 4);
}

#[test]
fn a_rebalance_passes_over_the_moves_that_a_new_disk_needs() {
    let machine = Machine::builder(1).drives("wd5000aaks", 5).expect("drives").build();
    let rt = machine.rt();
    let built =
        build(&rt, "group", &layout("level = 'asm'\ndisks = 4"), machine.devices().to_vec());
    let built = built.map_err(|error| error.to_string()).expect("built");
    let operations = built.operations.expect("it can be rebalanced");
    let kind = OperationKind::Rebalance(Rebalance { change: DiskChange::Add, power: 8 });
    operations.prepare(kind).expect("there is a spare");
    let (volume, extent) = (built.device.geometry().capacity, operations.extent());
    let part = extent.bytes() as f64 / volume.bytes() as f64;
    assert!((part - 0.2).abs() < 0.001, "a fifth of {volume}, not {extent}");
    let grain = operations.grain();
    let (from, to) = (Offset(grain.bytes() * 10), Offset(grain.bytes() * 30));
    let run = operations.run(kind, Priority::Normal, from, to);
    machine.run(run).expect("no stall").expect("moved");
    // 20 AUs read from four disks and written to one, at its rate at the best.
    let span = rt.now().since(stdx::Instant::START).as_secs_f64();
    assert!((0.19..4.0).contains(&span), "{span} s");
    assert!(operations.prepare(OperationKind::Check).is_err(), "a disk group is not checked");
}

/// How long an operation takes over so many bytes of each of twelve disks.
fn operation(
    machine: &Machine,
    habits: OperationHabits,
    kind: OperationKind,
    span: ByteCount,
) -> Duration {
    let rt = machine.rt();
    let text = layout("level = 'raid6'\ndisks = 12\nchunk = '128k'");
    let built = build_before(&rt, "set", &text, machine.devices().to_vec(), habits, &|d, _| d);
    let array = built.map_err(|error| error.to_string()).expect("built").operations;
    let array = array.expect("a RAID 6 has operations");
    array.prepare(kind).expect("it can");
    machine
        .run(async move {
            let begun = rt.now();
            let span = Offset::ZERO + span;
            array.run(kind, Priority::Normal, Offset::ZERO, span).await.expect("done");
            rt.now().since(begun)
        })
        .expect("no stall")
}

fn thirteen_disks() -> Machine {
    Machine::builder(1).drives("hua723030ala640", 13).expect("drives").build()
}

/// With four steps in flight each disk went to and fro between reading and writing, and took 1.43 times as
/// long as reading alone.
#[test]
fn making_parity_from_data_takes_little_longer_than_reading_the_data() {
    let took = |kind| {
        let span = ByteCount::mib(256);
        operation(&thirteen_disks(), OperationHabits::default(), kind, span).as_secs_f64()
    };
    let check = took(OperationKind::Check);
    let parity = took(OperationKind::Initialise(InitialiseMethod::Parity));
    println!("256 MiB of each of twelve disks: {check:.2} s checked, {parity:.2} s initialised");
    assert!(parity > check && parity < 1.36 * check, "{parity} s for {check} s");
}

/// A controller that goes a chunk at a time pays for each turn to the disks.
#[test]
fn lock_step_pays_for_each_turn_to_the_disks() {
    let pause = Duration::from_millis(4);
    let step = ByteCount::kib(128);
    let habits = OperationHabits { lock_step: Some(LockStep { step, pause }), rebuild_twice: 0.0 };
    let (span, steps) = (ByteCount::mib(16), 128.0);
    let took =
        |habits, kind| operation(&thirteen_disks(), habits, kind, span).as_secs_f64() * 1e3 / steps;
    let zeros = OperationKind::Initialise(InitialiseMethod::Zeros);
    let streaming = took(OperationHabits::default(), zeros);
    let plain = took(habits, zeros);
    let verified = took(habits, OperationKind::Initialise(InitialiseMethod::ZerosVerified));
    let clone = took(habits, OperationKind::Clone);
    println!(
        "a 128 KiB step: {streaming:.2} ms, {plain:.2}, verified {verified:.2}, clone {clone:.2}"
    );
    assert!(streaming < 1.5 && (4.0..6.0).contains(&plain), "{streaming} {plain}");
    assert!((8.0..12.0).contains(&verified) && (8.0..11.0).contains(&clone), "{verified} {clone}");
}

#[test]
fn a_rebuild_goes_over_its_first_share_twice_where_the_controller_does() {
    let machine = thirteen_disks();
    let habits = OperationHabits { lock_step: None, rebuild_twice: 0.01 };
    let text = layout("level = 'raid6'\ndisks = 12");
    let disks = machine.devices().to_vec();
    let built = build_before(&machine.rt(), "set", &text, disks, habits, &|device, _| device);
    let array = built.map_err(|error| error.to_string()).expect("built").operations.expect("one");
    assert_eq!(array.twice(OperationKind::Rebuild), 0.01);
    assert_eq!(array.twice(OperationKind::Clone), 0.0);
}

/// What could break (found by a newcomer: a RAID 5 of mirrors was told to mend a whole mirror, through its parity): the innermost set
/// that has redundancy mends a lost disk, by what it reads of its own.
#[test]
fn a_lost_disk_is_mended_by_the_innermost_set_with_redundancy() {
    for (text, disks, read) in [
        (
            "level = 'raid5'\nsets = 3\nof = { level = 'raid1', disks = 2 }",
            7,
            [0, 1, 0, 0, 0, 0, 0],
        ),
        (
            "level = 'raid1'\nsets = 2\nof = { level = 'raid5', disks = 3 }",
            7,
            [0, 1, 1, 0, 0, 0, 0],
        ),
        (
            "level = 'raid0'\nsets = 2\nof = { level = 'raid5', disks = 3 }",
            7,
            [0, 1, 1, 0, 0, 0, 0],
        ),
        (
            "level = 'raid5'\nsets = 3\nof = { level = 'raid0', disks = 2 }",
            8,
            [0, 0, 1, 1, 1, 1, 0],
        ),
    ] {
        let layout = layout(text);
        let machine = Machine::builder(1).drives("hua723030ala640", disks).expect("drives").build();
        let rt = machine.rt();
        let seen: Vec<_> =
            machine.devices().iter().map(|disk| Stats::new(Rc::clone(disk), &rt)).collect();
        let devices = seen.iter().map(|disk| Rc::clone(disk) as DeviceRef).collect();
        let built = build(&rt, "set", &layout, devices).map_err(|error| error.to_string());
        let operations = built.expect("built").operations.expect("it has redundancy");
        let kind = OperationKind::Rebuild;
        operations.prepare(kind).expect("there is a spare");
        let end = Offset(16 << 20);
        let done = operations.run(kind, Priority::Normal, Offset::ZERO, end);
        machine.run(done).expect("no stall").expect("rebuilt");
        let reads: Vec<u64> =
            seen.iter().map(|disk| disk.counters().of_kind(OpKind::Read).ios).collect();
        for (disk, reads) in reads.iter().enumerate() {
            assert_eq!(*reads > 0, read.get(disk) == Some(&1), "{text}: disk {disk}: {reads:?}");
        }
    }
}
