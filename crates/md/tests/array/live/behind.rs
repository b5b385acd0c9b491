//! Members whose events are behind: those that missed nothing, and those that did.
//!
//! What could break: a whole member that force leaves out, one that is believed though it lacks something, a pass that
//! counts on although no superblock had the last count, a count that wraps.

use super::{BLOCK, SHAPES, choose, devices, live, new, read, resynchronised, write};
use crate::rig::runtime;
use md::assemble::{self, OpenArray, OpenOptions, Superblock, Why};
use md::create::{NewArray, Policy};
use md::live::{LiveArray, LiveOptions};
use md::superblock::v1::{EVENTS_WRITTEN_MAX, SuperblockV1};
use md::{Level, SyncPriority};
use rt::filter::{Effect, Fault, Rule};
use rt::{Buf, DeviceRef, IoErrorKind, OpKind, Request};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};

async fn superblock(device: &DeviceRef) -> (SuperblockV1, Offset) {
    let found = assemble::find(device).await.expect("readable").expect("a member");
    match found.superblock {
        Superblock::V1(superblock) => (*superblock, found.at),
        Superblock::V090(_) => unreachable!("it was made as 1.2"),
    }
}

async fn put(device: &DeviceRef, superblock: &SuperblockV1, at: Offset) {
    let write = Request::write_fua(at, Buf::copy_of(&superblock.encode()));
    device.submit(write).await.expect("written");
}

fn bitmap_of(level: Level, slots: usize) -> NewArray {
    let bitmap_chunk = Some(ByteCount::kib(64));
    NewArray { policy: Policy::Bitmap, bitmap_chunk, ..new(level, slots) }
}

/// What two cuts left before members were levelled, and what Linux leaves.
#[test]
fn members_two_events_behind_that_nobody_recorded_as_lost_are_all_taken_back_by_force() {
    for with_bitmap in [false, true] {
        for (level, slots) in SHAPES {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                let new = if with_bitmap { bitmap_of(level, slots) } else { new(level, slots) };
                let disks = devices(&resynchronised(&rt, &new, slots, 5).await);
                let set = live(&rt, &disks, false).await.expect("opened");
                for block in 0..60 {
                    write(&set.device(), block, 100 + block).await.expect("written");
                }
                set.stop().await.expect("stopped");
                for (slot, disk) in disks.iter().enumerate() {
                    let (mut own, at) = superblock(disk).await;
                    own.events += 2_u64.saturating_sub(slot as u64);
                    put(disk, &own, at).await;
                }
                let mut choice = choose(&disks).await;
                let stale = choice.left_out.iter().filter(|left| left.why == Why::Stale(2)).count();
                assert_eq!(stale, slots - 2, "{level}");
                assert_eq!(choice.accept_stale().len(), slots - 2, "{level}");
                assert_eq!((choice.degraded(), choice.left_out.len()), (0, 0), "{level}");
                let set = LiveArray::open(&rt, "live", choice, LiveOptions::default()).await;
                let set = set.expect("opened");
                assert!(set.needs_resync(), "{level}: nobody has compared them");
                set.resync(SyncPriority::High).await.expect("done");
                let report = set.array().check(set.array().whole(), SyncPriority::High).await;
                assert_eq!(report.expect("checked").mismatched_sectors, 0, "{level}");
                set.stop().await.expect("stopped");
                let choice = choose(&disks).await;
                assert_eq!((choice.degraded(), choice.left_out.len()), (0, 0), "{level}");
                let array = OpenArray::open(&rt, "a", choice, OpenOptions::default()).await;
                let array = array.expect("no force any more");
                for block in 0..60 {
                    assert_eq!(read(&*array, block).await, Some(100 + block), "{level}");
                }
            };
            runtime.block_on(test).expect("it ends");
        }
    }
}

/// A member that comes back by the bitmap is listed before it has what it missed: with the power cut in that pass it is
/// no member that cuts alone put behind.
#[test]
fn a_member_that_was_coming_back_is_not_taken_for_one_that_missed_nothing() {
    let mut cuts = 0;
    for at in 1..12 {
        for first in [0, 2] {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                let memory = resynchronised(&rt, &bitmap_of(Level::Raid5, 3), 3, 5).await;
                let disks = devices(&memory);
                let set = live(&rt, &disks, false).await.expect("opened");
                for block in 0..24 {
                    write(&set.device(), block, 100 + block).await.expect("written");
                }
                set.fail(2).await.expect("recorded");
                for block in 0..24 {
                    write(&set.device(), block, 200 + block).await.expect("written");
                }
                // Killed, so no superblock is written any more.
                drop(set);
                let mut machine = super::Machine::new(&rt, &memory);
                machine.cut_at_write(first, at, at);
                let seen = machine.devices();
                let set = live(&rt, &seen[..2], true).await.expect("opened");
                let found = assemble::find(&seen[2]).await.expect("readable");
                let _ = set.add(seen[2].clone(), found, md::superblock::Uuid([9; 16])).await;
                drop(set);
                let was_cut = machine.is_off();
                let after = machine.power_on(at).await;
                let mut choice = choose(&after).await;
                choice.accept_stale();
                assert!(choice.accepted.is_empty(), "cut {at}: it lacks what it missed");
                let options = OpenOptions { force: true, raid0_original: None };
                let array = OpenArray::open(&rt, "a", choice, options).await.expect("opened");
                for block in 0..24 {
                    assert_eq!(read(&*array, block).await, Some(200 + block), "cut {at}");
                }
                was_cut
            };
            cuts += u32::from(runtime.block_on(test).expect("it ends"));
        }
    }
    assert!(cuts > 5, "{cuts} cuts");
}

/// The bitmap is written before the superblocks: where that loses a member the count must not run ahead of them.
#[test]
fn a_member_that_fails_in_the_bitmap_does_not_put_the_others_two_events_behind() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = devices(&resynchronised(&rt, &bitmap_of(Level::Raid5, 3), 3, 5).await);
        let (before, at) = superblock(&disks[1]).await;
        let start = before.bitmap_offset().expect("a bitmap");
        let start = Offset(at.bytes().saturating_add_signed(i64::from(start) * 512));
        let fault = Fault::new(disks[1].clone(), &rt, Prng::new(1));
        let full = Rule::new(Effect::Fail(IoErrorKind::NoSpace)).on(&[OpKind::Write]);
        fault.add(full.within(start, ByteCount(BLOCK)));
        let seen = vec![disks[0].clone(), Rc::clone(&fault) as DeviceRef, disks[2].clone()];
        let set = live(&rt, &seen, false).await.expect("opened");
        write(&set.device(), 1, 7).await.expect("it can do without one");
        for slot in [0, 2] {
            let (after, _) = superblock(&disks[slot]).await;
            assert_eq!(after.events, before.events + 1, "one pass, one event");
        }
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn an_event_count_that_no_set_comes_to_is_refused_by_name_and_the_others_go_on() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let disks = devices(&resynchronised(&rt, &new(Level::Raid5, 3), 3, 5).await);
        let (mut own, at) = superblock(&disks[1]).await;
        own.events = u64::MAX;
        put(&disks[1], &own, at).await;
        let refused = assemble::find(&disks[1]).await.err().expect("refused").to_string();
        assert!(refused.starts_with("disk1.: ") && refused.contains("events"), "{refused}");
        let two = [disks[0].clone(), disks[2].clone()];
        let set = live(&rt, &two, false).await.expect("the others are a set");
        write(&set.device(), 1, 7).await.expect("written");
        set.stop().await.expect("stopped");
        // Counted on from the most, and not from one more.
        for events in [EVENTS_WRITTEN_MAX, EVENTS_WRITTEN_MAX + 1] {
            for disk in &two {
                let (mut own, at) = superblock(disk).await;
                own.events = events;
                put(disk, &own, at).await;
            }
            let opened = live(&rt, &two, false).await;
            if events == EVENTS_WRITTEN_MAX {
                let set = opened.expect("opened");
                write(&set.device(), 1, 8).await.expect("written");
                set.stop().await.expect("stopped");
            } else {
                let refused = opened.err().expect("refused").to_string();
                assert!(refused.contains("more events than 2^62"), "{refused}");
            }
            let options = OpenOptions::default();
            let array = OpenArray::open(&rt, "a", choose(&two).await, options).await;
            assert_eq!(read(&*array.expect("it can be read"), 1).await, Some(8));
        }
    };
    runtime.block_on(test).expect("it ends");
}
