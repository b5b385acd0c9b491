//! Power cuts while a pool is written: at each write, with what was not flushed lost, torn, or there.
//!
//! What could break: the pool is neither as the last group left it nor as the next would; what is found is of two groups; a
//! label or an uberblock is believed that is none; space is used again while a group that may be opened needs it.

use super::{DEVICE, Model, Rig, change, compare, files_of, top};
use rt::filter::PowerCut;
use rt::{DeviceRef, MemoryDevice};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs_format::vdev::VdevKind;

/// Groups that are written before the power is cut, if it isn't earlier.
const GROUPS: usize = 3;

/// A copy of a device, so that each cut begins with the same pool.
pub(crate) fn copy(of: &MemoryDevice) -> Rc<MemoryDevice> {
    let copy = MemoryDevice::new("copy", ByteCount(DEVICE));
    let step = 1 << 20;
    for at in (0..DEVICE).step_by(step) {
        let bytes = of.peek(Offset(at), ByteCount(step as u64));
        if bytes.to_vec().iter().any(|byte| *byte != 0) {
            copy.poke(Offset(at), &bytes);
        }
    }
    copy
}

/// Cuts the power of all disks that still have it, and gives what survived.
pub(crate) fn after_cut(rig: &Rig, cuts: Vec<Rc<PowerCut>>, write: u64) -> Vec<DeviceRef> {
    cuts.iter().filter(|cut| !cut.is_cut()).for_each(|cut| cut.cut(Prng::new(write ^ 77)));
    let survivors = async move {
        let mut all: Vec<DeviceRef> = Vec::new();
        for cut in cuts {
            all.push(cut.power_on().await.expect("it comes back"));
        }
        all
    };
    rig.runtime.block_on(survivors).expect("it ends")
}

/// Cuts the power at a write to one of the disks; says whether it came to that.
fn cut_at(base: &Rig, disk: usize, write: u64) -> bool {
    let disks: Vec<(u64, Rc<MemoryDevice>)> =
        base.disks.iter().map(|(guid, disk)| (*guid, copy(disk))).collect();
    let rig = Rig::over(disks, Rc::clone(&base.fresh));
    let rt = rig.runtime.handle();
    let covered: Vec<Rc<PowerCut>> = rig
        .disks
        .iter()
        .map(|(_, disk)| PowerCut::new(Rc::clone(disk) as DeviceRef, &rt))
        .collect();
    covered[disk].cut_at_write(write, Prng::new(write));
    let all: Vec<DeviceRef> = covered.iter().map(|cut| Rc::clone(cut) as DeviceRef).collect();
    // What each group left, and how many are known to be in the pool.
    let states: Rc<RefCell<Vec<Model>>> = Rc::default();
    let done = Rc::new(Cell::new(0));
    let (kept, known) = (Rc::clone(&states), Rc::clone(&done));
    rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let objset = live.objset(&node).await.expect("it opens");
        let files = FileSystem::open(&objset).await.expect("it is one");
        let (mut model, mut random) = (Model::new(), Prng::new(9));
        kept.borrow_mut().push(model.clone());
        for _ in 0..GROUPS {
            for _ in 0..4 {
                change(&files, &mut model, &mut random).await;
            }
            kept.borrow_mut().push(model.clone());
            if live.sync(async |_| Ok(())).await.is_err() {
                return;
            }
            known.set(known.get() + 1);
        }
    });
    let was_cut = covered[disk].is_cut();
    let after = Rc::clone(&states);
    let done = done.get();
    let all = after_cut(&rig, covered, write);
    rig.with_devices(all, async move |spa: Rc<Spa>, _| {
        let files = files_of(&spa, "tank").await;
        let states = after.borrow().clone();
        // The group that was under way may be there as a whole.
        let names = files.names(&files.root().await.expect("read")).await.expect("read").len();
        let txg = spa.uberblock().txg;
        assert!(txg == 4 + done as u64 || txg == 5 + done as u64, "group {txg} after {done}");
        let state = &states[(txg - 4) as usize];
        assert_eq!(names, state.len(), "cut at write {write}");
        compare(&files, state).await;
    });
    if was_cut && write.is_multiple_of(97) {
        rig.judge();
    }
    was_cut
}

fn at_each_write(base: &Rig, step: usize) {
    for disk in 0..base.disks.len() {
        let mut cuts = 0;
        for write in (1..).step_by(step) {
            if !cut_at(base, disk, write) {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 20 / step.min(10), "the power was cut {cuts} times");
    }
}

#[test]
fn a_cut_at_any_write_leaves_one_group_or_the_next() {
    at_each_write(&Rig::new(vec![top(0, VdevKind::File, 1)]), 3);
    at_each_write(&Rig::new(vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)]), 7);
}
