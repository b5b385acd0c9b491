//! The life of a set without accidents: resync, loss, rebuild, clean and dirty.

use super::{SHAPES, choose, devices, disks, live, new, read, write};
use crate::rig::runtime;
use md::assemble::{self, OpenArray, OpenOptions, Superblock, Why};
use md::create::NewArray;
use md::{Level, SyncPriority};
use rt::filter::{Delay, Slowness};
use rt::{Buf, DeviceRef, Request};
use std::time::Duration;
use stdx::Offset;

#[test]
fn a_set_lives_through_resync_loss_and_rebuild_and_the_lost_member_is_not_believed() {
    for (level, slots) in SHAPES {
        let runtime = runtime();
        let rt = runtime.handle();
        let test = async move {
            let new = new(level, slots);
            let disks = disks(&new, slots + 1, 1);
            let set = live(&rt, &devices(&disks), false).await.expect("opened");
            assert!(set.needs_resync());
            set.resync(SyncPriority::High).await.expect("done");
            for block in 0..200 {
                write(&set.device(), block, 1000 + block).await.expect("written");
            }
            set.stop().await.expect("stopped");

            let choice = choose(&devices(&disks)).await;
            assert_eq!(choice.facts.resync_offset(), u64::MAX, "{level}: clean");
            let set = live(&rt, &devices(&disks), false).await.expect("opened");
            assert!(!set.needs_resync() && set.needs_rebuild().is_empty());
            set.fail(1).await.expect("recorded");
            for block in 100..300 {
                write(&set.device(), block, 5000 + block).await.expect("written");
            }
            assert_eq!(set.needs_rebuild(), [1]);
            set.rebuild(1, SyncPriority::High).await.expect("rebuilt");
            set.stop().await.expect("stopped");

            let choice = choose(&devices(&disks)).await;
            assert_eq!(choice.degraded(), 0, "{level}: the spare stands in the slot");
            assert_eq!(
                choice.slots[1].as_ref().map(|found| found.name()),
                Some(format!("disk{slots}."))
            );
            let left: Vec<(String, bool)> = choice
                .left_out
                .iter()
                .map(|one| (one.found.name(), matches!(one.why, Why::Stale(_) | Why::Faulty)))
                .collect();
            assert_eq!(left, [("disk1.".to_owned(), true)], "{level}");
            // Without the first member, so that the rebuilt one must be right.
            let mut there = devices(&disks);
            there.remove(0);
            let array = OpenArray::open(&rt, "a", choose(&there).await, OpenOptions::default());
            let array = array.await.expect("opened");
            for block in 0..300 {
                let expected = if block < 100 { 1000 + block } else { 5000 + block };
                assert_eq!(read(&*array, block).await, Some(expected), "{level}, block {block}");
            }
        };
        runtime.block_on(test).expect("it ends");
    }
}

#[test]
fn a_set_is_dirty_while_it_is_written_and_clean_when_it_was_quiet() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let new = NewArray { assume_clean: true, ..new(Level::Raid1, 2) };
        let disks = disks(&new, 2, 1);
        let offset = async || choose(&devices(&disks)).await.facts.resync_offset();
        let set = live(&rt, &devices(&disks), false).await.expect("opened");
        assert_eq!(offset().await, u64::MAX);
        write(&set.device(), 5, 5).await.expect("written");
        assert_eq!(offset().await, 0, "dirty");
        rt.sleep(md::live::QUIET * 3).await;
        assert_eq!(offset().await, u64::MAX, "clean again");
        write(&set.device(), 6, 6).await.expect("written");
        assert_eq!(offset().await, 0, "dirty");
        set.stop().await.expect("stopped");
        assert_eq!(offset().await, u64::MAX);
    };
    runtime.block_on(test).expect("it ends");
}

#[test]
fn a_set_that_is_stopped_around_the_quiet_moment_is_clean_on_all_members() {
    // From before a quiet set is called clean until after: each member's writes take several milliseconds, so
    // the superblocks are half written at some of these.
    for slow in [Duration::from_millis(3), Duration::from_millis(9)] {
        for after in (150..260).map(Duration::from_millis) {
            let runtime = runtime();
            let rt = runtime.handle();
            let test = async move {
                let new = NewArray { assume_clean: true, ..new(Level::Raid5, 3) };
                let disks = disks(&new, 3, 1);
                let late = |(number, disk): (u32, DeviceRef)| {
                    let slowness = Slowness { latency: slow * (number + 1), ..Slowness::default() };
                    Delay::new(disk, &rt, slowness) as DeviceRef
                };
                let slow: Vec<DeviceRef> = (0..).zip(devices(&disks)).map(late).collect();
                let set = live(&rt, &slow, false).await.expect("opened");
                write(&set.device(), 5, 5).await.expect("written");
                rt.sleep(after).await;
                set.stop().await.expect("stopped");
                // What is on the disks at this moment: the program ends now.
                let mut said = Vec::new();
                for disk in devices(&disks) {
                    let found = assemble::find(&disk).await.expect("readable").expect("a member");
                    let Superblock::V1(superblock) = found.superblock else { unreachable!() };
                    said.push((superblock.resync_offset, superblock.events));
                }
                assert!(said.iter().all(|one| one.0 == u64::MAX), "{after:?}: {said:?}");
                assert!(said.iter().all(|one| one.1 == said[0].1), "{after:?}: {said:?}");
            };
            runtime.block_on(test).expect("it ends");
        }
    }
}

#[test]
fn a_set_that_is_stopped_while_it_is_written_waits_for_the_write_and_is_clean() {
    let runtime = runtime();
    let rt = runtime.handle();
    let test = async move {
        let new = NewArray { assume_clean: true, ..new(Level::Raid1, 2) };
        let disks = disks(&new, 2, 1);
        let slowness = Slowness { latency: Duration::from_millis(5), ..Slowness::default() };
        let late = |disk| Delay::new(disk, &rt, slowness) as DeviceRef;
        let slow: Vec<DeviceRef> = devices(&disks).into_iter().map(late).collect();
        let set = live(&rt, &slow, false).await.expect("opened");
        // Nobody waits for its answer, as when a client has gone.
        drop(set.device().submit(Request::write(Offset(0), Buf::fill(7, 4096))));
        set.stop().await.expect("stopped");
        assert_eq!(choose(&devices(&disks)).await.facts.resync_offset(), u64::MAX);
        assert_eq!(read(&*set.device(), 0).await, Some(7));
    };
    runtime.block_on(test).expect("it ends");
}
