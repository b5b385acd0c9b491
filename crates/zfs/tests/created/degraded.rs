//! Pools that are written while a leaf is away, or fails: what it misses stands on the devices.
//!
//! What could break: the leaf comes back and is taken for whole; its log says less than was written, or is forgotten by whoever
//! writes the pool next; the group in which it failed is the one that is missing; a cut leaves a group without it.

use super::cuts::{at_each_write, cut_at, look_at_files, write_files};
use super::{Model, Rig, change, compare, files_of, raidz, top};
use fixtures::extent::some;
use rt::filter::Fault;
use rt::{DeviceRef, MemoryDevice};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{Prng, RangeSet};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs_format::vdev::{Vdev, VdevKind};

/// Some groups of changes, the pool closed after them; the first and the last group.
async fn write(
    spa: Rc<Spa>,
    fresh: Rc<dyn Fresh>,
    model: &RefCell<Model>,
    seed: u64,
) -> (u64, u64) {
    let first = spa.uberblock().txg + 1;
    let live = Live::open(spa, &fresh).await.expect("it opens for writing");
    let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
    let objset = live.objset(&node).await.expect("it opens");
    let files = FileSystem::open(&objset).await.expect("it is one");
    let mut random = Prng::new(seed);
    for _ in 0..3 {
        for _ in 0..6 {
            change(&files, &mut model.borrow_mut(), &mut random).await;
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
    }
    live.close(LabelState::Exported).await.expect("it is closed");
    (first, live.spa().uberblock().txg)
}

fn all(rig: &Rig) -> Vec<DeviceRef> {
    rig.devices().into_values().collect()
}

fn without(rig: &Rig, guid: u64) -> Vec<DeviceRef> {
    rig.devices().into_iter().filter(|(of, _)| *of != guid).map(|(_, device)| device).collect()
}

fn groups(of: (u64, u64)) -> RangeSet {
    std::iter::once(of.0..of.1 + 1).collect()
}

fn leaf_of(spa: &Spa, guid: u64) -> Vdev {
    let vdevs = spa.vdevs();
    let leaf = vdevs.leaves().into_iter().find(|leaf| leaf.guid == guid).cloned();
    leaf.expect("it is one")
}

/// A pool written with a leaf, without it, and with it again.
fn away_and_back(tops: Vec<Vdev>, guid: u64) {
    let rig = Rig::new(tops);
    let model: Rc<RefCell<Model>> = Rc::default();
    let with = |devices: Vec<DeviceRef>, seed: u64| {
        let model = Rc::clone(&model);
        rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            write(spa, fresh, &model, seed).await
        })
    };
    with(all(&rig), 1);
    rig.with(async move |spa: Rc<Spa>, _| {
        assert_eq!(leaf_of(&spa, guid).dtl, None, "it misses nothing");
    });
    let missed = with(without(&rig, guid), 2);
    let check = |missed: RangeSet| {
        let model = Rc::clone(&model);
        rig.with(async move |spa: Rc<Spa>, _| {
            assert!(leaf_of(&spa, guid).dtl.is_some_and(|object| object != 0));
            assert_eq!(spa.tree().dtl(guid), Some(missed));
            compare(&files_of(&spa, "tank").await, &model.borrow()).await;
        });
    };
    check(groups(missed));
    // Whoever writes while it is back takes nothing out, and it gets what is new.
    with(all(&rig), 3);
    check(groups(missed));
    let more = with(without(&rig, guid), 4);
    let mut both = groups(missed);
    both.insert(more.0..more.1 + 1);
    check(both);
    rig.judge();
}

#[test]
fn a_leaf_that_was_away_is_known_to_miss_what_was_written() {
    let pools = [
        (vec![top(0, VdevKind::Mirror, 2)], 1002),
        (vec![top(0, raidz(1), 3), top(1, raidz(1), 3)], 2001),
    ];
    for (tops, leaf) in some(pools, 1) {
        away_and_back(tops, leaf);
    }
}

#[test]
fn a_leaf_that_fails_amid_a_group_misses_that_group() {
    let rig = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
    let fault = {
        let (_, disk) = &rig.disks[1];
        Fault::new(Rc::clone(disk) as DeviceRef, &rig.runtime.handle(), Prng::new(1))
    };
    let devices = vec![Rc::clone(&rig.disks[0].1) as DeviceRef, Rc::clone(&fault) as DeviceRef];
    let missed = rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let objset = live.objset(&node).await.expect("it opens");
        let files = FileSystem::open(&objset).await.expect("it is one");
        let (mut model, mut random) = (Model::new(), Prng::new(5));
        change(&files, &mut model, &mut random).await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        let first = live.spa().uberblock().txg + 1;
        fault.go_away();
        change(&files, &mut model, &mut random).await;
        live.sync(async |_| Ok(())).await.expect("the other takes it");
        (first, first)
    });
    // Nothing was closed: the group itself has to say it.
    rig.with(async move |spa: Rc<Spa>, _| {
        assert_eq!(spa.uberblock().txg, missed.1);
        assert_eq!(spa.tree().dtl(1002), Some(groups(missed)));
    });
    rig.judge();
}

#[test]
fn a_cut_at_any_write_without_a_leaf_leaves_groups_that_say_so() {
    let whole = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
    let kept: Vec<(u64, Rc<MemoryDevice>)> =
        whole.disks.iter().filter(|(guid, _)| *guid != 1002).cloned().collect();
    let base = Rig::over(kept, Rc::clone(&whole.fresh));
    let first = base.with(async |spa: Rc<Spa>, _| spa.uberblock().txg) + 1;
    at_each_write(&base, 7, |disk, write| {
        cut_at(&base, disk, write, write_files, async move |spa: &Spa, model| {
            look_at_files(spa, model).await;
            let missed = spa.tree().dtl(1002).unwrap_or_default();
            let last = spa.uberblock().txg;
            let written = if last < first { RangeSet::default() } else { groups((first, last)) };
            assert_eq!(missed, written);
        })
    });
}
