//! What a simulated disk makes of it: the costs that the model exists for. What could break: a request
//! too many, one that is too small, a flush that is missing or superfluous; bytes that are right would
//! hide it. Times are virtual, so the figures are exact for a version.

use crate::world;

use fixtures::extent::some;
use inplace::{FileSystem, Hold, Locks, MountOptions, Preset, Settings, Stripe};
use rt::filter::{Stats, Trace};
use rt::{Buf, Device, DeviceRef, FileTree, OpKind, OpenHow, Request, Rt};
use sim::Machine;
use std::rc::Rc;
use stdx::{ByteCount, Duration, Offset, Prng};
use world::*;

const PART: ByteCount = ByteCount::gib(20);

/// A disk of 750 GB with its write cache on, cut to a part, and what was asked of it.
fn disk() -> (Machine, Rc<Trace>) {
    let machine = Machine::builder(7).host("opteron-2008").expect("it ships");
    let machine = machine.drives("st3750640as", 1).expect("it ships").write_cache(true).build();
    let part = rt::filter::Slice::new(Rc::clone(&machine.devices()[0]), Offset(0), PART);
    let trace = Trace::new(part, &machine.rt());
    (machine, trace)
}

async fn made(
    rt: &Rt,
    device: &Rc<Trace>,
    settings: Settings,
    options: MountOptions,
) -> Rc<FileSystem> {
    fresh(rt, Rc::clone(device) as DeviceRef, &settings, options).await
}

/// Mean time of `count` random aligned reads of 8 KiB, one after another.
async fn random_reads(rt: &Rt, read: impl AsyncFn(u64), span: u64, count: u64) -> Duration {
    let mut prng = Prng::new(3);
    let begun = rt.now();
    for _ in 0..count {
        read(prng.below(span / 8192) * 8192).await;
    }
    rt.now().since(begun) / count as u32
}

#[test]
fn direct_random_reads_cost_what_the_raw_disk_takes() {
    let (machine, disk) = disk();
    let rt = machine.rt();
    let (raw, direct, buffered) = machine
        .run(async move {
            let size = ByteCount::gib(4);
            let preset = Preset::UfsDirectio;
            let options = preset.mount_options(ByteCount::mib(256));
            let tree = made(&rt, &disk, preset.settings(PART, None), options).await;
            let file = create(&*tree, "f").await;
            for at in (0..size.bytes()).step_by(8 << 20) {
                write(&file, at, Buf::fill(at | 1, 8 << 20)).await;
            }
            tree.sync().await.expect("synced");
            let read = async |at| drop(read(&file, at, 8192).await);
            // The first ones bring the indirect blocks into memory.
            random_reads(&rt, read, size.bytes(), 500).await;
            disk.clear();
            let direct = random_reads(&rt, read, size.bytes(), 400).await;
            // The same places, on the disk itself.
            let mut places = disk.records();
            // Times of access are written back now and then.
            places.retain(|record| record.op == OpKind::Read);
            assert_eq!(places.len(), 400, "one request a read");
            let begun = rt.now();
            for place in &places {
                disk.submit(Request::read(place.offset, place.len)).await.expect("read");
            }
            let raw = rt.now().since(begun) / 400;
            let options = Preset::Ufs.mount_options(ByteCount::mib(64));
            tree.unmount().await.expect("unmounted");
            let tree = FileSystem::mount(&rt, disk, options).await.expect("mounted");
            let file = tree.open(path("f"), OpenHow::read()).await.expect("opened");
            let read = async |at| drop(world::read(&file, at, 8192).await);
            let buffered = random_reads(&rt, read, size.bytes(), 400).await;
            (raw, direct, buffered)
        })
        .expect("it ends");
    println!("8 KiB random reads: raw {raw:?}, direct {direct:?}, buffered {buffered:?}");
    let ratio = direct.as_secs_f64() / raw.as_secs_f64();
    assert!((0.93..1.07).contains(&ratio), "{ratio}");
}

/// A call that the page cache answers costs a call and a copy, and not what an I/O costs (12 µs on this host).
#[test]
fn buffered_calls_cost_a_call_and_the_bytes_that_are_copied() {
    let (machine, disk) = disk();
    let rt = machine.rt();
    let took = machine
        .run(async move {
            let preset = Preset::Xfs;
            let options = preset.mount_options(ByteCount::mib(256));
            let tree = made(&rt, &disk, preset.settings(PART, None), options).await;
            let file = create(&*tree, "f").await;
            write(&file, 0, Buf::fill(1, 8 << 20)).await;
            tree.sync().await.expect("synced");
            let mut took = Vec::new();
            for len in [1, 8192] {
                for writes in [false, true] {
                    let begun = rt.now();
                    for call in 0..1000 {
                        match writes {
                            false => drop(read(&file, call * len, len).await),
                            true => write(&file, call * len, Buf::fill(2, len as usize)).await,
                        }
                    }
                    took.push((rt.now().since(begun) / 1000).as_nanos() as f64 / 1e3);
                }
            }
            took
        })
        .expect("no stall");
    // 1.2 µs, and 1500 MB/s.
    let copy = 8192.0 / 1500.0;
    let expected = [1.2, 1.2, 1.2 + copy, 1.2 + copy];
    println!("{took:.3?} µs; {expected:.3?}");
    for (took, expected) in took.iter().zip(expected) {
        assert!((took - expected).abs() < 0.05, "{took} µs, not {expected}");
    }
}

#[test]
fn a_small_file_is_read_from_the_disk_once() {
    for preset in [Preset::Ufs, Preset::Ext3Ordered, Preset::Xfs] {
        let (machine, disk) = disk();
        let rt = machine.rt();
        machine
            .run(async move {
                let options = preset.mount_options(ByteCount::mib(64));
                let tree = made(&rt, &disk, preset.settings(PART, None), options).await;
                let file = create(&*tree, "f").await;
                write(&file, 0, Buf::fill(5, 20_000)).await;
                tree.unmount().await.expect("unmounted");
                let tree = FileSystem::mount(&rt, disk.clone(), options).await.expect("mounted");
                let file = tree.open(path("f"), OpenHow::read()).await.expect("opened");
                disk.clear();
                read(&file, 0, 20_000).await;
                assert_eq!(disk.records().len(), 1, "{preset}: one request for all of it");
                let begun = rt.now();
                read(&file, 0, 20_000).await;
                assert_eq!(disk.records().len(), 1, "{preset}: and none again");
                assert!(rt.now().since(begun) < Duration::from_micros(100), "{preset}");
                file.drop_cache().await.expect("dropped");
                read(&file, 0, 20_000).await;
                assert_eq!(disk.records().len(), 2, "{preset}: unless it is forgotten");
            })
            .expect("it ends");
    }
}

/// What an fsync after a small append asks of the disk.
fn append_and_sync(preset: Preset, others: u64) -> (Vec<String>, Duration) {
    let (machine, disk) = disk();
    let rt = machine.rt();
    machine
        .run(async move {
            let options = preset.mount_options(ByteCount::mib(256));
            let tree = made(&rt, &disk, preset.settings(PART, None), options).await;
            let file = create(&*tree, "log").await;
            write(&file, 0, Buf::fill(1, 100)).await;
            file.sync().await.expect("synced");
            let other = create(&*tree, "other").await;
            for i in 0..others {
                write(&other, i << 20, Buf::fill(i, 1 << 20)).await;
            }
            rt.sleep(Duration::from_millis(1500)).await;
            write(&file, 100, Buf::fill(2, 100)).await;
            disk.clear();
            let begun = rt.now();
            file.sync().await.expect("synced");
            let took = rt.now().since(begun);
            let kind = |record: &rt::filter::TraceRecord| {
                let fua = if record.fua { " fua" } else { "" };
                format!("{}{fua} {}", record.op, record.len.bytes())
            };
            (disk.records().iter().map(kind).collect(), took)
        })
        .expect("it ends")
}

#[test]
fn an_fsync_on_ext3_is_data_then_journal_then_flush_then_commit() {
    let (requests, took) = append_and_sync(Preset::Ext3Ordered, 0);
    println!("ext3 append and fsync: {requests:?} in {took:?}");
    assert_eq!(requests[0], "write 4096", "the data first: {requests:?}");
    assert!(requests[1].starts_with("write ") && requests.len() == 4, "{requests:?}");
    assert_eq!(requests[2], "flush 0");
    assert_eq!(requests[3], "write fua 4096");
    // Data, journal and commit are three turns of the disk or so.
    assert!((10..80).contains(&took.as_millis()), "{took:?}");
}

#[test]
fn an_fsync_on_ext3_waits_for_everybodys_data_and_on_xfs_it_does_not() {
    let (_, alone) = append_and_sync(Preset::Ext3Ordered, 0);
    let (_, ext3) = append_and_sync(Preset::Ext3Ordered, 16);
    let (requests, xfs) = append_and_sync(Preset::Xfs, 16);
    println!("fsync beside 16 MiB of others: ext3 {ext3:?} (alone {alone:?}), xfs {xfs:?}");
    assert!(ext3 > alone + Duration::from_millis(100), "{ext3:?} beside {alone:?}");
    assert!(xfs < ext3 / 3, "{xfs:?}");
    assert_eq!(requests[0], "write 4096", "{requests:?}");
    assert!(requests.last().is_some_and(|last| last.starts_with("write fua")), "{requests:?}");
}

/// The share of bytes that a sequential writer writes in whole stripes, by the requests themselves.
fn whole_stripes(told: bool) -> f64 {
    let stripe = Stripe { unit: ByteCount::kib(64), width: 4 };
    let (machine, disk) = disk();
    let rt = machine.rt();
    machine
        .run(async move {
            let settings = Preset::Xfs.settings(PART, told.then_some(stripe));
            let options = Preset::Xfs.mount_options(ByteCount::mib(256));
            let tree = made(&rt, &disk, settings, options).await;
            // So that free space does not begin on a stripe by luck.
            let odd = create(&*tree, "odd").await;
            write(&odd, 0, Buf::fill(1, 12_345)).await;
            tree.sync().await.expect("synced");
            disk.clear();
            let file = create(&*tree, "f").await;
            for i in 0..1000 {
                write(&file, i * 300_000, Buf::fill(i, 300_000)).await;
            }
            file.sync().await.expect("synced");
            let full = stripe.full();
            let (mut whole, mut all) = (0, 0);
            for record in disk.records().iter().filter(|record| record.op == OpKind::Write) {
                let first = record.offset.round_up(full).bytes();
                let end = (record.offset + record.len).round_down(full).bytes();
                whole += end.saturating_sub(first);
                all += record.len.bytes();
            }
            whole as f64 / all as f64
        })
        .expect("it ends")
}

#[test]
fn a_sequential_writer_on_xfs_fills_whole_stripes_when_xfs_is_told_of_them() {
    let (told, not_told) = (whole_stripes(true), whole_stripes(false));
    println!("bytes in whole stripes: told {told:.4}, not told {not_told:.4}");
    assert!(told > 0.98, "{told}");
    assert!(not_told < 0.75, "{not_told}");
}

/// Files that grow at once: how many extents the reader of one of them meets.
fn pieces(settings: Settings, options: MountOptions) -> usize {
    let (machine, disk) = disk();
    let rt = machine.rt();
    machine
        .run(async move {
            let tree = made(&rt, &disk, settings, options).await;
            let files = [create(&*tree, "a").await, create(&*tree, "b").await];
            for i in 0..512 {
                for file in &files {
                    write(file, i * 8192, Buf::fill(i, 8192)).await;
                }
            }
            tree.unmount().await.expect("unmounted");
            let options = MountOptions { read_ahead_max: ByteCount::ZERO, ..options };
            let tree = FileSystem::mount(&rt, disk.clone(), options).await.expect("mounted");
            let file = tree.open(path("a"), OpenHow::read()).await.expect("opened");
            read(&file, 0, 1).await;
            disk.clear();
            read(&file, 0, 512 * 8192).await;
            disk.records().len()
        })
        .expect("it ends")
}

#[test]
fn growing_files_interleave_without_reservations_and_hardly_with_delayed_allocation() {
    let options = |preset: Preset| MountOptions {
        write_behind: ByteCount::ZERO,
        io_max: ByteCount::mib(1),
        ..preset.mount_options(ByteCount::mib(256))
    };
    let ext3 = Preset::Ext3Ordered.settings(PART, None);
    let bare = Settings { reservation_max: ByteCount::ZERO, ..ext3 };
    let [bare, ext3] = [bare, ext3].map(|settings| pieces(settings, options(Preset::Ext3Ordered)));
    let xfs = pieces(Preset::Xfs.settings(PART, None), options(Preset::Xfs));
    println!("requests to read 4 MiB: no windows {bare}, windows {ext3}, delayed {xfs}");
    assert!(bare > 400 && ext3 < bare / 10 && xfs <= 6, "{bare} {ext3} {xfs}");
}

/// Direct overwrites by eight tasks on one file: writes a second.
fn overwrites(direct_overwrites: Hold) -> f64 {
    let (machine, disk) = disk();
    let rt = machine.rt();
    machine
        .run(async move {
            let preset = Preset::UfsDirectio;
            let options = preset.mount_options(ByteCount::mib(64));
            let locks = Locks { direct_overwrites, ..options.locks };
            let options = MountOptions { locks, ..options };
            let tree = made(&rt, &disk, preset.settings(PART, None), options).await;
            let file = create(&*tree, "f").await;
            for at in (0..1 << 30).step_by(8 << 20) {
                write(&file, at, Buf::fill(at | 1, 8 << 20)).await;
            }
            tree.sync().await.expect("synced");
            let begun = rt.now();
            let lanes: Vec<_> = (0..8)
                .map(|lane| {
                    let file = Rc::clone(&file);
                    rt.spawn(async move {
                        let mut prng = Prng::new(lane);
                        for _ in 0..100 {
                            let at = prng.below((1 << 30) / 8192) * 8192;
                            let write = Request::write_fua(Offset(at), Buf::fill(at, 8192));
                            file.submit(write).await.expect("written");
                        }
                    })
                })
                .collect();
            for lane in lanes {
                lane.await;
            }
            800.0 / rt.now().since(begun).as_secs_f64()
        })
        .expect("it ends")
}

#[test]
fn direct_overwrites_go_together_where_the_lock_is_shared() {
    let (shared, alone) = (overwrites(Hold::Shared), overwrites(Hold::Alone));
    println!("durable direct overwrites by 8 lanes: shared {shared:.0}/s, alone {alone:.0}/s");
    assert!(shared > 1.1 * alone, "{shared} {alone}");
}

#[test]
fn small_requests_of_a_sequential_reader_become_large_ones() {
    for preset in [Preset::Ufs, Preset::Ext3Ordered, Preset::Xfs] {
        let (machine, disk) = disk();
        let rt = machine.rt();
        let (requests, rate) = machine
            .run(async move {
                let options = preset.mount_options(ByteCount::mib(64));
                let tree = made(&rt, &disk, preset.settings(PART, None), options).await;
                let file = create(&*tree, "f").await;
                let len = 64 << 20;
                for at in (0..len).step_by(1 << 20) {
                    write(&file, at, Buf::fill(at | 1, 1 << 20)).await;
                }
                tree.unmount().await.expect("unmounted");
                let tree = FileSystem::mount(&rt, disk.clone(), options).await.expect("mounted");
                let file = tree.open(path("f"), OpenHow::read()).await.expect("opened");
                disk.clear();
                let begun = rt.now();
                for at in (0..len).step_by(4096) {
                    read(&file, at, 4096).await;
                }
                (disk.records().len(), len as f64 / 1e6 / rt.now().since(begun).as_secs_f64())
            })
            .expect("it ends");
        println!("{preset}: 64 MiB in 4 KiB reads: {requests} requests, {rate:.1} MB/s");
        assert!(requests < 700, "{preset}: {requests}");
        assert!(rate > 55.0, "{preset}: {rate} MB/s of 78");
    }
}

#[test]
fn access_times_cost_a_commit_and_noatime_none() {
    let writes = |access_times| {
        let (machine, disk) = disk();
        let rt = machine.rt();
        machine
            .run(async move {
                let options = Preset::Ext3Ordered.mount_options(ByteCount::mib(64));
                let options = MountOptions { access_times, ..options };
                let settings = Preset::Ext3Ordered.settings(PART, None);
                let tree = made(&rt, &disk, settings, options).await;
                let file = create(&*tree, "f").await;
                write(&file, 0, Buf::fill(1, 4096)).await;
                tree.sync().await.expect("synced");
                rt.sleep(Duration::from_secs(60)).await;
                disk.clear();
                for _ in 0..10 {
                    rt.sleep(Duration::from_secs(10)).await;
                    read(&file, 0, 4096).await;
                }
                disk.records().iter().filter(|record| record.op == OpKind::Write).count()
            })
            .expect("it ends")
    };
    use inplace::AccessTimes::{Always, Never, Relative};
    let [never, relative, always] = [Never, Relative, Always].map(writes);
    println!("writes for 10 reads in 100 s: noatime {never}, relatime {relative}, always {always}");
    assert!(never == 0 && relative <= 6 && always >= 18, "{never} {relative} {always}");
}

/// Terabytes: neither making nor using them may take time or memory in proportion.
#[test]
fn three_terabytes_are_made_and_used_in_a_moment() {
    fixtures::takes_long!();
    for preset in some(Preset::ALL, 2) {
        let runtime = runtime();
        let rt = runtime.handle();
        run(&runtime, async move {
            let capacity = ByteCount(3_000_000_000_000);
            let stats = Stats::new(memory(capacity), &rt);
            let options = preset.mount_options(ByteCount::mib(256));
            let settings = preset.settings(capacity, None);
            let tree = fresh(&rt, stats, &settings, options).await;
            let file = create(&*tree, "f").await;
            let size = ByteCount::gib(64);
            for at in (0..size.bytes()).step_by(64 << 20) {
                let data = Buf::fill(at | 1, 64 << 20);
                let file = tree.open(path("f"), OpenHow::write().with_direct(true)).await;
                write(&file.expect("opened"), at, data).await;
            }
            let mut prng = Prng::new(1);
            for _ in 0..20_000 {
                let at = prng.below(size.bytes() / 8192) * 8192;
                let request = Request::read(Offset(at), ByteCount(512));
                let data = file.submit(request).await.expect("read");
                assert_eq!(data.slice(0..8).to_vec(), (at >> 26 << 26 | 1).to_le_bytes());
            }
            tree.unmount().await.expect("unmounted");
        });
    }
}
