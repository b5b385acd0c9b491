//! A resync that is interrupted.
//!
//! What could break: a resync that begins anew, one that goes on too far ahead, one whose checkpoint stands on
//! disk before what it speaks of.

use super::{Machine, SHAPES, choose, devices, disks, live, new, read, write};
use crate::rig::runtime;
use ::fixtures::extent::by_extent;
use md::assemble::{OpenArray, OpenOptions};
use md::{Level, SyncPriority};
use rt::Buf;
use std::cell::Cell;
use std::rc::Rc;
use stdx::Offset;

/// Cuts the power at a write of a resync, resynchronises again, and tells where the second one began (a sector as
/// the superblock counts) and how many sectors differ after it. With `spoil`, the start of a member is changed
/// between the two.
fn interrupted(level: Level, slots: usize, at: u64, spoil: bool, writes: bool) -> (u64, u64, bool) {
    let runtime = runtime();
    let rt = runtime.handle();
    let told = Rc::new(Cell::new((0, 0, false)));
    let tell = Rc::clone(&told);
    let test = async move {
        let disks = disks(&new(level, slots), slots, at);
        let mut machine = Machine::new(&rt, &disks);
        machine.cut_at_write(slots - 1, at, at);
        let set = live(&rt, &machine.devices(), false).await.expect("opened");
        if writes {
            write(&set.device(), 900, 42).await.expect("written");
        }
        let ended = set.resync(SyncPriority::High).await.is_ok();
        drop(set);
        let after = machine.power_on(at).await;
        let begun = choose(&after).await.facts.resync_offset();
        let data_offset = choose(&after).await.facts.data_offset() * 512;
        if spoil {
            disks[slots - 1].poke(Offset(data_offset), &Buf::fill(0x1234_5678, 512).into());
        }
        let set = live(&rt, &after, false).await.expect("opened");
        set.resync(SyncPriority::High).await.expect("done");
        set.stop().await.expect("stopped");
        let choice = choose(&devices(&disks)).await;
        assert_eq!(choice.facts.resync_offset(), u64::MAX, "{level}: clean at the end");
        let array = OpenArray::open(&rt, "a", choice, OpenOptions::default()).await;
        let array = array.expect("opened");
        if writes {
            // It was not flushed: old and new are both right, but all copies must agree.
            let _ = read(&*array, 900).await;
        }
        let engine = array.engines().next().expect("one");
        let report = engine.check(engine.whole(), SyncPriority::High).await.expect("compared");
        tell.set((begun, report.mismatched_sectors, ended));
    };
    runtime.block_on(test).expect("it ends");
    told.get()
}

#[test]
fn a_resync_goes_on_where_the_power_was_cut_and_leaves_nothing_out() {
    fixtures::takes_long!();
    for (level, slots) in SHAPES {
        let (mut went_on, mut last) = (0, 0);
        for at in (1..).step_by(by_extent(6, 3)) {
            let (begun, differ, ended) = interrupted(level, slots, at, false, false);
            assert_eq!(differ, 0, "{level}, cut at {at}, begun again at {begun}");
            if ended {
                break;
            }
            assert!(begun >= last, "{level}, cut at {at}: {begun} is before {last}");
            last = begun;
            // What was changed in what is done is not looked at again: so it went on behind it.
            if begun > 0 {
                let (again, differ, _) = interrupted(level, slots, at, true, false);
                assert_eq!((again, differ), (begun, 1), "{level}, cut at {at}");
                went_on += 1;
            }
        }
        assert!(went_on > by_extent(0, 2), "{level}: {went_on} went on");
    }
}

/// As in md: while something is being written the position is not on disk.
#[test]
fn a_resync_of_a_set_that_is_written_begins_anew_after_a_power_cut() {
    for (level, slots) in SHAPES {
        for at in [3, 5, 8] {
            let (begun, differ, _) = interrupted(level, slots, at, false, true);
            assert_eq!((begun, differ), (0, 0), "{level}, cut at {at}");
        }
    }
}
