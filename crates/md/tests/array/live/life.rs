//! The life of a set without accidents: resync, loss, rebuild, clean and dirty.

use super::{SHAPES, choose, devices, disks, live, new, read, write};
use crate::rig::runtime;
use md::assemble::{OpenArray, OpenOptions, Why};
use md::create::NewArray;
use md::{Level, SyncPriority};

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
