//! What an array does with its redundancy: finds what is silently wrong, mends what can't be read, goes on
//! without what is lost, says when too much is lost; and what it asks of its members for that.

use crate::rig::{Disk, Rig, SHAPES, Shape, runtime, shape};
use futures_util::future::join_all;
use md::{Array, ArraySpec, Initialise, Layout, Level, MemberState, SyncError, SyncPriority};
use rt::filter::{Delay, Effect, Rule, Slowness};
use rt::{Buf, Device, DeviceRef, IoErrorKind, MemoryDevice, OpKind, Request, Rt};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};

const SECTOR: u64 = 512;

fn with_rt<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let runtime = runtime();
    let future = test(runtime.handle());
    runtime.block_on(future).expect("the test ends");
}

fn redundant() -> impl Iterator<Item = Shape> {
    SHAPES.into_iter().filter(|shape| shape.redundancy() > 0)
}

async fn fill_with_noise(rig: &mut Rig) -> Vec<u8> {
    let mut bytes = vec![0; rig.array.geometry().capacity.as_usize()];
    rig.prng.fill(&mut bytes);
    write(&rig.array, 0, &bytes).await;
    bytes
}

async fn write(array: &Array, at: u64, bytes: &[u8]) {
    array.submit(Request::write(Offset(at), Buf::copy_of(bytes))).await.expect("written");
}

async fn read(array: &Array, at: u64, len: usize) -> Vec<u8> {
    array.submit(Request::read(Offset(at), ByteCount(len as u64))).await.expect("read").to_vec()
}

fn count(disk: &Disk, kind: OpKind) -> usize {
    disk.trace.records().iter().filter(|record| record.op == kind).count()
}

/// A disk that lies is found by nobody else; a wrong place would send its owner to the wrong disk.
#[test]
fn check_finds_a_silently_changed_sector_of_any_member_and_says_where() {
    for (n, shape) in redundant().enumerate() {
        with_rt(|rt| async move {
            let mut rig = Rig::new(&rt, shape, 12, true, n as u64);
            let bytes = fill_with_noise(&mut rig).await;
            let extent = rig.array.component_extent().bytes();
            let found =
                rig.array.check(rig.array.whole(), SyncPriority::High).await.expect("checked");
            assert_eq!((found.mismatched_sectors, found.checked.bytes()), (0, extent), "{shape:?}");
            for slot in 0..shape.disks {
                let at = rig.prng.below(extent / SECTOR) * SECTOR;
                let memory = &rig.disks[slot].memory;
                let place = Offset(rig.data_offset + at);
                let right = memory.peek(place, ByteCount(SECTOR));
                let mut wrong = right.to_vec();
                wrong[rig.prng.below(SECTOR) as usize] ^= 0x10;
                memory.poke(place, &Buf::copy_of(&wrong).into());
                let found =
                    rig.array.check(rig.array.whole(), SyncPriority::High).await.expect("checked");
                let unused = shape.level == Level::Raid10 && found.mismatched_sectors == 0;
                assert!(
                    found.mismatched_sectors == 1 || unused && shape.disks % 2 == 1,
                    "{shape:?} {slot} {found:?}"
                );
                for mismatch in &found.mismatches {
                    if shape.level != Level::Raid10 {
                        assert_eq!(mismatch.at, Offset(at), "{shape:?} {slot}");
                    }
                    if shape.level == Level::Raid6 {
                        assert_eq!(mismatch.suspect, Some(slot), "{shape:?}");
                    }
                    if let Some(byte) = mismatch.array {
                        let byte = byte.bytes() as usize;
                        assert_eq!(
                            bytes[byte..byte + SECTOR as usize],
                            right.to_vec(),
                            "{shape:?} {slot}"
                        );
                    }
                }
                memory.poke(place, &right);
            }
        });
    }
}

#[test]
fn repair_makes_redundancy_agree_and_leaves_the_data_alone_but_where_two_parities_tell_it_is_wrong()
{
    for (n, shape) in redundant().enumerate() {
        with_rt(|rt| async move {
            let mut rig = Rig::new(&rt, shape, 6, true, n as u64);
            let bytes = fill_with_noise(&mut rig).await;
            let slot = rig.prng.below(shape.disks as u64) as usize;
            rig.disks[slot]
                .memory
                .poke(Offset(rig.data_offset + 1024), &Buf::copy_of(&[1; 512]).into());
            let before = read(&rig.array, 0, rig.array.geometry().capacity.as_usize()).await;
            let found =
                rig.array.repair(rig.array.whole(), SyncPriority::High).await.expect("repaired");
            assert!(found.mismatched_sectors <= 2, "{shape:?}");
            let found =
                rig.array.check(rig.array.whole(), SyncPriority::High).await.expect("checked");
            assert_eq!(found.mismatched_sectors, 0, "{shape:?}");
            let after = read(&rig.array, 0, before.len()).await;
            match shape.level.parities() {
                0 => {}
                1 => assert!(before == after, "{shape:?}"),
                _ => assert!(bytes == after, "{shape:?}"),
            }
        });
    }
}

/// Neighbouring sectors of one row, each wrong on another member, and one that nobody explains alone: each is
/// judged by itself.
#[test]
fn repair_of_raid_6_tells_neighbouring_sectors_apart() {
    with_rt(|rt| async move {
        let mut rig = Rig::new(&rt, shape(Level::Raid6, "left-symmetric", 5, 8), 6, true, 7);
        let bytes = fill_with_noise(&mut rig).await;
        // Row 0: Q on slot 0, data on slots 1, 2, 3, P on 4.
        for (slot, sectors) in
            [(1, [0, 1].as_slice()), (2, &[2, 6]), (3, &[6]), (4, &[3]), (0, &[4])]
        {
            for sector in sectors {
                let at = Offset(rig.data_offset + sector * SECTOR);
                rig.disks[slot].memory.poke(at, &Buf::copy_of(&[9; 512]).into());
            }
        }
        let report = rig.array.repair(rig.array.whole(), SyncPriority::High).await.expect("mended");
        let blamed: Vec<_> = report
            .mismatches
            .iter()
            .map(|one| (one.at.bytes() / SECTOR, one.len.bytes() / SECTOR, one.suspect))
            .collect();
        let expected =
            [(0, 2, Some(1)), (2, 1, Some(2)), (3, 1, Some(4)), (4, 1, Some(0)), (6, 1, None)];
        assert_eq!(blamed, expected);
        let after = rig.array.check(rig.array.whole(), SyncPriority::High).await.expect("checked");
        assert_eq!(after.mismatched_sectors, 0);
        let found = read(&rig.array, 0, bytes.len()).await;
        let differing: Vec<usize> = (0..bytes.len() / 512)
            .filter(|n| found[n * 512..][..512] != bytes[n * 512..][..512])
            .collect();
        // Sector 6 of the second and third chunk, of 16 sectors each.
        assert_eq!(differing, [16 + 6, 32 + 6]);
    });
}

#[test]
fn beyond_the_redundancy_writes_fail_and_what_is_left_is_still_read() {
    with_rt(|rt| async move {
        let mut rig = Rig::new(&rt, shape(Level::Raid5, "left-symmetric", 4, 4), 8, true, 1);
        let bytes = fill_with_noise(&mut rig).await;
        rig.array.fail(0);
        rig.array.fail(1);
        // Row 0: data on slots 0, 1, 2, parity on 3.
        let error =
            rig.array.submit(Request::read(Offset(0), ByteCount(512))).await.expect_err("lost");
        assert_eq!(error.kind, IoErrorKind::TooFewMembers);
        assert_eq!(&*error.device, "array");
        assert!(read(&rig.array, 8192, 4096).await == bytes[8192..12288]);
        for len in [512, 3 * 4096] {
            let error = rig
                .array
                .submit(Request::write(Offset(0), Buf::fill(1, len)))
                .await
                .expect_err("refused");
            assert_eq!(error.kind, IoErrorKind::TooFewMembers);
        }
        assert!(rig.array.submit(Request::flush()).await.is_err());
        let mirror = Rig::new(&rt, shape(Level::Raid1, "", 2, 4), 8, true, 1);
        mirror.disks[0].fault.go_away();
        mirror.disks[1].fault.go_away();
        assert!(mirror.array.submit(Request::write(Offset(0), Buf::fill(1, 512))).await.is_err());
        assert!(mirror.array.submit(Request::read(Offset(0), ByteCount(512))).await.is_err());
    });
}

#[test]
fn a_bad_place_is_computed_written_anew_and_counted_and_the_member_stays() {
    for (n, shape) in redundant().enumerate() {
        with_rt(|rt| async move {
            let mut rig = Rig::new(&rt, shape, 8, true, n as u64);
            let bytes = fill_with_noise(&mut rig).await;
            let rule = Rule::new(Effect::Unreadable)
                .within(Offset(rig.data_offset + 1024), ByteCount(512));
            let rules: Vec<_> =
                rig.disks[..1].iter().map(|disk| disk.fault.add(rule.clone())).collect();
            assert!(read(&rig.array, 0, bytes.len()).await == bytes, "{shape:?}");
            // What no read of the host met, a check meets.
            rig.array.check(rig.array.whole(), SyncPriority::High).await.expect("checked");
            let hits = rig.disks[0].fault.hits(rules[0]);
            assert!(hits > 0, "{shape:?}");
            let member = &rig.array.members()[0];
            assert_eq!((member.state, member.corrected), (MemberState::Active, 1), "{shape:?}");
            rig.array.check(rig.array.whole(), SyncPriority::High).await.expect("checked");
            assert_eq!(rig.disks[0].fault.hits(rules[0]), hits, "{shape:?}: readable again");
        });
    }
}

#[test]
fn a_member_that_fails_a_write_is_failed_and_the_write_is_done() {
    for (n, shape) in redundant().enumerate() {
        with_rt(|rt| async move {
            let mut rig = Rig::new(&rt, shape, 8, true, n as u64);
            let rule = Rule::new(Effect::Fail(IoErrorKind::Medium)).on(&[OpKind::Write]);
            rig.disks[1].fault.add(rule);
            let bytes = fill_with_noise(&mut rig).await;
            assert_eq!(rig.array.degraded(), 1, "{shape:?}");
            assert!(rig.array.members()[1].write_errors >= 1, "{shape:?}");
            assert!(read(&rig.array, 0, bytes.len()).await == bytes, "{shape:?}");
        });
    }
}

#[test]
fn fua_goes_to_data_and_parity_and_a_flush_to_every_member() {
    with_rt(|rt| async move {
        for len in [512, 3 * 4096] {
            let rig = Rig::new(&rt, shape(Level::Raid5, "left-symmetric", 4, 4), 8, true, 1);
            rig.array
                .submit(Request::write_fua(Offset(0), Buf::fill(1, len)))
                .await
                .expect("written");
            rig.array.submit(Request::flush()).await.expect("flushed");
            let writes: Vec<_> = rig
                .disks
                .iter()
                .flat_map(|disk| disk.trace.records())
                .filter(|record| record.op == OpKind::Write)
                .collect();
            assert_eq!(writes.len(), if len == 512 { 2 } else { 4 });
            assert!(writes.iter().all(|record| record.fua));
            assert!(rig.disks.iter().all(|disk| count(disk, OpKind::Flush) == 1));
        }
    });
}

/// What makes RAID 5 as fast as its disks.
#[test]
fn whole_rows_are_written_without_reading_in_one_request_a_member() {
    with_rt(|rt| async move {
        let rig = Rig::new(&rt, shape(Level::Raid6, "left-symmetric", 6, 4), 32, true, 1);
        let bytes = vec![9; 4 * 4096 * 20];
        write(&rig.array, 4 * 4096 * 5, &bytes).await;
        for disk in &rig.disks {
            let records = disk.trace.records();
            assert_eq!(records.len(), 1);
            assert_eq!((records[0].op, records[0].len), (OpKind::Write, ByteCount(20 * 4096)));
        }
        assert_eq!(rig.array.stats().full_stripe_writes, 20);
    });
}

#[test]
fn small_writes_that_come_together_fill_a_row_and_read_nothing() {
    with_rt(|rt| async move {
        let rig = Rig::new(&rt, shape(Level::Raid5, "left-symmetric", 5, 4), 8, true, 1);
        let writes =
            (0..16).map(|n| rig.array.submit(Request::write(Offset(n * 1024), Buf::fill(n, 1024))));
        assert!(join_all(writes).await.iter().all(Result::is_ok));
        assert!(
            rig.disks
                .iter()
                .all(|disk| (count(disk, OpKind::Read), count(disk, OpKind::Write)) == (0, 1))
        );
        let stats = rig.array.stats();
        assert_eq!((stats.full_stripe_writes, stats.batched_writes), (1, 15));
    });
}

/// Small files that a file system writes back in the order of their places: it leaves out a block here and there. The
/// rows wait for one another's parts; without that each part would read for itself.
#[test]
fn small_writes_in_the_order_of_their_places_are_carried_out_row_by_row() {
    with_rt(|rt| async move {
        let rig = Rig::new(&rt, shape(Level::Raid6, "left-symmetric", 8, 16), 256, true, 1);
        let (array, rows, row) = (rig.array.clone(), 64, 6 * 16 * 1024_u64);
        let next = Rc::new(Cell::new(0));
        let writer = || {
            let (array, next) = (array.clone(), next.clone());
            async move {
                while next.get() < rows * row / 2048 {
                    let n: u64 = next.replace(next.get() + 1);
                    // Each sixteenth block belongs to something else.
                    if n % 16 != 15 {
                        write(&array, n * 2048, &vec![1; 2048]).await;
                    }
                }
            }
        };
        join_all((0..128).map(|_| writer())).await;
        let (reads, writes) = rig.disks.iter().fold((0, 0), |(reads, writes), disk| {
            (reads + count(disk, OpKind::Read), writes + count(disk, OpKind::Write))
        });
        // 2880 writes. One by one, each would read three members and write three; carried out together, a row reads
        // its three gaps and writes its members.
        assert!(reads <= 2880 / 4, "{reads} reads");
        assert!(writes <= 2880, "{writes} writes");
    });
}

/// Whose requests don't end where rows do.
#[test]
fn a_stream_with_several_requests_under_way_reads_nothing_but_at_its_ends() {
    with_rt(|rt| async move {
        let rig = Rig::new(&rt, shape(Level::Raid5, "left-symmetric", 6, 4), 256, true, 1);
        let (array, len) = (rig.array.clone(), 13 * 1024);
        let next = Rc::new(Cell::new(0));
        let writer = || {
            let (array, next) = (array.clone(), next.clone());
            async move {
                while next.get() < 256 * 5 * 4096 - len {
                    let at = next.replace(next.get() + len);
                    write(&array, at, &vec![1; len as usize]).await;
                }
            }
        };
        join_all((0..4).map(|_| writer())).await;
        let reads: usize = rig.disks.iter().map(|disk| count(disk, OpKind::Read)).sum();
        assert!(reads <= 2 * 6, "{reads}");
    });
}

/// One after another, with the cache as large as by default.
#[test]
fn a_writer_in_pieces_reads_parity_once_and_each_old_byte_at_most_once() {
    with_rt(|rt| async move {
        let disks: Vec<Disk> =
            (0..6).map(|n| Disk::new(&rt, "disk", 1 << 20, &mut Prng::new(n))).collect();
        let mut spec = ArraySpec::new(Level::Raid5, disks.iter().map(Disk::device).collect());
        spec.chunk = ByteCount::kib(64);
        let array = Array::create(&rt, "array", spec).expect("an array");
        for n in 0..80 {
            array
                .submit(Request::write(Offset(n * 4096), Buf::fill(n, 4096)))
                .await
                .expect("written");
        }
        let read: u64 = disks
            .iter()
            .flat_map(|disk| disk.trace.records())
            .filter(|record| record.op == OpKind::Read)
            .map(|record| record.len.bytes())
            .sum();
        // A row of five data chunks: one parity chunk, and less than all the data.
        assert!(read <= 64 * 1024 * 5, "{read}");
        assert!(array.stats().cache_hit_bytes > 80 * 4096);
    });
}

/// Terabytes of generated data take no memory and no time.
#[test]
fn fills_stay_fills_through_parity_reads_and_rebuilds() {
    with_rt(|rt| async move {
        let size = ByteCount::gib(64);
        let disk = |n| MemoryDevice::new(&format!("disk{n}"), size);
        let disks: Vec<Rc<MemoryDevice>> = (0..5).map(disk).collect();
        let members = disks.iter().map(|disk| Rc::clone(disk) as DeviceRef).collect();
        let array =
            Array::create(&rt, "array", ArraySpec::new(Level::Raid6, members)).expect("an array");
        let len = 3 << 29;
        array.submit(Request::write(Offset(0), Buf::fill(0x1234, len))).await.expect("written");
        array
            .submit(Request::write(Offset(1 << 20), Buf::fill(0x99, 4096 * 3)))
            .await
            .expect("written");
        array.fail(2);
        let data =
            array.submit(Request::read(Offset(1 << 20), ByteCount::mib(256))).await.expect("read");
        assert!(data.pieces().iter().all(|piece| piece.fill_word().is_some()));
        assert_eq!(data.slice(0..8).to_vec(), 0x99_u64.to_le_bytes());
        let spare = disk(9);
        array.add_spare(spare.clone()).expect("large enough");
        array.rebuild(2, Offset(0)..Offset(512 << 20), SyncPriority::High).await.expect("rebuilt");
        let rebuilt = spare.peek(Offset(0), ByteCount::mib(512));
        assert!(rebuilt.pieces().iter().all(|piece| piece.fill_word().is_some()));
        assert_eq!(rebuilt.pieces(), disks[2].peek(Offset(0), ByteCount::mib(512)).pieces());
        assert_eq!(array.members()[2].state, MemberState::Rebuilding);
    });
}

#[test]
fn low_priority_yields_to_the_host_and_costs_nothing_without_it() {
    let took = |priority: SyncPriority, host: bool| {
        let runtime = runtime();
        let rt = runtime.handle();
        let run = async move {
            let slowness = Slowness {
                latency: Duration::from_micros(100),
                bytes_per_second: std::num::NonZeroU64::new(100 << 20),
            };
            let disk = |n: u64| {
                let disk = MemoryDevice::new(&format!("disk{n}"), ByteCount::mib(16));
                rt::filter::Delay::new(disk, &rt, slowness) as DeviceRef
            };
            let mut spec = ArraySpec::new(Level::Raid5, (0..4).map(disk).collect());
            spec.chunk = ByteCount::kib(64);
            let array = Array::create(&rt, "array", spec).expect("an array");
            array.fail(0);
            array.add_spare(disk(9)).expect("large enough");
            let begin = rt.now();
            let load = {
                let (rt, array) = (rt.clone(), array.clone());
                async move {
                    loop {
                        if !host {
                            return std::future::pending::<()>().await;
                        }
                        let read = Request::read(Offset(1 << 22), ByteCount(4096));
                        array.submit(read).await.expect("read");
                        rt.sleep(Duration::from_micros(500)).await;
                    }
                }
            };
            let rebuild = array.rebuild(0, array.whole(), priority);
            futures_util::future::select(Box::pin(rebuild), Box::pin(load)).await;
            (rt.now() - begin).as_secs_f64()
        };
        runtime.block_on(run).expect("ends")
    };
    let (idle, high) = (took(SyncPriority::Low, false), took(SyncPriority::High, true));
    let (low, normal) = (took(SyncPriority::Low, true), took(SyncPriority::Normal, true));
    assert!(idle < 0.3, "{idle}: 16 MiB at 100 MiB/s, read and written at the same time");
    assert!(high < 1.5 * idle, "{high} {idle}");
    // The first window of 4 MiB starts before the host does.
    assert!(low > 12.0 && low < 17.0, "{low}: 16 MiB at 1000 KiB/s");
    assert!(normal > 0.7 && normal < 1.3, "{normal}: 16 MiB at 16 MiB/s");
}

#[test]
fn operations_that_make_no_sense_say_why() {
    with_rt(|rt| async move {
        let stripes = Rig::new(&rt, shape(Level::Raid0, "", 4, 4), 8, true, 1);
        let error = stripes
            .array
            .check(stripes.array.whole(), SyncPriority::High)
            .await
            .expect_err("refused");
        assert_eq!(error, SyncError::NoRedundancy { level: Level::Raid0 });
        let mut rig = Rig::new(&rt, shape(Level::Raid5, "left-symmetric", 4, 4), 8, true, 1);
        let whole = rig.array.whole();
        let rebuild = rig.array.rebuild(1, whole.clone(), SyncPriority::High).await;
        assert_eq!(rebuild, Err(SyncError::Active { slot: 1 }));
        assert_eq!(
            rig.array.rebuild(7, whole.clone(), SyncPriority::High).await,
            Err(SyncError::NoSlot { slot: 7, slots: 4 })
        );
        rig.array.fail(1);
        assert_eq!(
            rig.array.rebuild(1, whole.clone(), SyncPriority::High).await,
            Err(SyncError::NoSpare { slot: 1 })
        );
        assert_eq!(
            rig.array.check(whole.clone(), SyncPriority::High).await,
            Err(SyncError::Degraded)
        );
        let small = Disk::new(&rt, "small", 8192, &mut Prng::new(1));
        let error = rig.array.add_spare(small.device()).expect_err("too small").to_string();
        assert!(error.contains("small") && error.contains("8 KiB"), "{error}");
        let spare = rig.new_disk("spare");
        spare.fault.add(Rule::new(Effect::Fail(IoErrorKind::Medium)).on(&[OpKind::Write]));
        rig.array.add_spare(spare.device()).expect("large enough");
        assert_eq!(
            rig.array.rebuild(1, whole.clone(), SyncPriority::High).await,
            Err(SyncError::TargetLost { slot: 1 })
        );
        assert_eq!(rig.array.members()[1].state, MemberState::Failed);
        assert!(rig.array.progress().is_none());
    });
}

/// Members that are read and written in turn lose a seek each time: what is read at a stretch has to be long.
#[test]
fn making_parity_from_data_reads_far_ahead_of_what_it_writes() {
    with_rt(|rt| async move {
        let rig = Rig::new(&rt, shape(Level::Raid6, "left-symmetric", 5, 1024), 24, false, 1);
        let whole = rig.array.whole();
        rig.array.initialise(Initialise::FromData, whole, SyncPriority::High).await.expect("made");
        assert!(rig.array.is_clean());
        for disk in &rig.disks {
            let records = disk.trace.records();
            let first = records.iter().take_while(|record| record.op == OpKind::Read);
            let ahead: u64 = first.map(|record| record.len.bytes()).sum();
            assert!(ahead >= 8 << 20, "{ahead} bytes are read before the first is written");
            assert!(records.iter().any(|record| record.op == OpKind::Write));
        }
    });
}

#[test]
fn zeroing_initialises_and_a_long_write_of_zeros_keeps_parity_right() {
    for (n, shape) in redundant().enumerate() {
        with_rt(|rt| async move {
            let mut rig = Rig::new(&rt, shape, 10, false, n as u64);
            let bytes = fill_with_noise(&mut rig).await;
            rig.array
                .initialise(Initialise::Zeros, rig.array.whole(), SyncPriority::Normal)
                .await
                .expect("zeroed");
            assert!(rig.array.is_clean());
            assert!(
                read(&rig.array, 0, bytes.len()).await.iter().all(|byte| *byte == 0),
                "{shape:?}"
            );
            write(&rig.array, 0, &bytes).await;
            let (at, len) = (512, bytes.len() as u64 - 1024);
            rig.array
                .submit(Request::write_zeroes(Offset(at), ByteCount(len)))
                .await
                .expect("zeroed");
            let after = read(&rig.array, 0, bytes.len()).await;
            assert!(
                after[512..bytes.len() - 512].iter().all(|byte| *byte == 0)
                    && after[..512] == bytes[..512]
            );
            let found =
                rig.array.check(rig.array.whole(), SyncPriority::High).await.expect("checked");
            assert_eq!(found.mismatched_sectors, 0, "{shape:?}");
        });
    }
}

/// Two readers that pull one head back and forth have the rate of neither.
#[test]
fn two_sequential_readers_of_a_mirror_of_rotating_disks_each_keep_a_member() {
    with_rt(|rt| async move {
        let mut prng = Prng::new(1);
        let disks: Vec<Disk> =
            (0..2).map(|n| Disk::rotating(&rt, &format!("disk{n}"), 1 << 24, &mut prng)).collect();
        let spec = ArraySpec::new(Level::Raid1, disks.iter().map(Disk::device).collect());
        let array = Array::create(&rt, "array", spec).expect("an array");
        let reader = |start: u64| {
            let array = array.clone();
            async move {
                for n in 0..50 {
                    read(&array, start + n * 65536, 65536).await;
                }
            }
        };
        futures_util::join!(reader(0), reader(8 << 20));
        for disk in &disks {
            let records = disk.trace.records();
            assert_eq!(records.len(), 50);
            assert!(records.windows(2).all(|pair| pair[0].offset + pair[0].len == pair[1].offset));
        }
    });
}

/// Which copy is read depends on who is busy: of a read over two pairs, one slow, the disks of the fast one are free when they have
/// answered, and the next read goes where the head is nearest.
#[test]
fn a_disk_that_has_answered_its_part_of_a_read_is_free_for_the_next() {
    with_rt(|rt| async move {
        let mut prng = Prng::new(3);
        let disks: Vec<Disk> =
            (0..4).map(|n| Disk::rotating(&rt, &format!("disk{n}"), 1 << 24, &mut prng)).collect();
        let slow = Slowness { latency: Duration::from_millis(100), ..Slowness::default() };
        let members = disks.iter().enumerate().map(|(n, disk)| match n < 2 {
            true => disk.device(),
            false => Delay::new(disk.device(), &rt, slow) as DeviceRef,
        });
        let mut spec = ArraySpec::new(Level::Raid10, members.collect());
        spec.chunk = ByteCount(1 << 16);
        let array = Array::create(&rt, "array", spec).expect("an array");
        let both = read(&array, 0, 2 << 16);
        let next = async {
            rt.sleep(Duration::from_millis(10)).await;
            // A chunk of the fast pair, one beyond where the head of the first disk is now.
            read(&array, 4 << 16, 1 << 16).await;
        };
        futures_util::join!(both, next);
        let read: Vec<usize> = disks.iter().map(|disk| disk.trace.records().len()).collect();
        assert_eq!(read, [2, 0, 1, 0]);
    });
}

/// Heads that are at the far copies, as writes leave them, draw no stream there.
#[test]
fn a_stream_reads_far_copies_of_rotating_disks_where_they_are_low() {
    let in_first_half = |at: u64| at < 1 << 23;
    let in_even_row = |at: u64| (at >> 16).is_multiple_of(2);
    for (name, is_low) in [("far-2", in_first_half as fn(u64) -> bool), ("offset-2", in_even_row)] {
        with_rt(|rt| async move {
            let mut prng = Prng::new(2);
            let disks: Vec<Disk> = (0..4)
                .map(|n| Disk::rotating(&rt, &format!("disk{n}"), 1 << 24, &mut prng))
                .collect();
            let mut spec = ArraySpec::new(Level::Raid10, disks.iter().map(Disk::device).collect());
            spec.layout = Layout::parse(Level::Raid10, name).expect("a layout");
            spec.chunk = ByteCount(1 << 16);
            let array = Array::create(&rt, "array", spec).expect("an array");
            write(&array, 0, &vec![7; 4 << 20]).await;
            let before: Vec<usize> = disks.iter().map(|disk| disk.trace.records().len()).collect();
            for window in 0..8 {
                let reads = (0..8).map(|n| read(&array, (window * 8 + n) << 16, 1 << 16));
                join_all(reads).await;
            }
            for (disk, before) in disks.iter().zip(before) {
                let records = &disk.trace.records()[before..];
                assert!(!records.is_empty(), "{name}: all take part");
                assert!(
                    records.iter().all(|one| is_low(one.offset.bytes())),
                    "{name}: {records:?}"
                );
            }
        });
    }
}
