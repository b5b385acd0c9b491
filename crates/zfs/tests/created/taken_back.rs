//! Pools whose newest group can't be opened, and pools that another host may have.
//!
//! What could break: an older group is written on without a word, and what came after it is lost; the number of a group that was given
//! up is used again, and it comes back; a host that lives is not seen.

use super::{Model, Rig, change, compare, files_of, top};
use rt::{Device, DeviceRef, Request};
use std::rc::Rc;
use std::time::Duration;
use stdx::{Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::config::LabelState;
use zfs::spa::live::{Live, LiveError, LiveOptions};
use zfs::spa::rewind::{self, Back};
use zfs::spa::{OpenError, OpenOptions, Spa, find, multihost};
use zfs_format::label::DATA_START;
use zfs_format::vdev::VdevKind;

/// Files over some groups: what each leaves, from the one on that was there.
fn written(rig: &Rig, groups: usize) -> Vec<Model> {
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let files = live.files(&node).await.expect("it opens");
        let (mut model, mut random) = (Model::new(), Prng::new(9));
        let mut left = vec![model.clone()];
        for _ in 0..groups {
            for _ in 0..6 {
                change(&files, &mut model, &mut random).await;
            }
            live.sync(async |_| Ok(())).await.expect("it is written");
            left.push(model.clone());
        }
        left
    })
}

/// Overwrites all copies of the root of the newest group.
fn damage_newest(rig: &Rig) {
    let device = Rc::clone(&rig.disks[0].1);
    rig.with(async move |spa: Rc<Spa>, _| {
        let root = spa.uberblock().root;
        for dva in root.dvas() {
            let place = Offset(dva.offset() + DATA_START);
            let junk = rt::Buf::copy_of(&vec![0xa5; 4096]);
            device.submit(Request::write(place, junk)).await.expect("it is written");
        }
    });
}

#[test]
fn a_pool_whose_newest_group_is_damaged_is_taken_back_where_that_is_asked_for() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let left = written(&rig, 4);
    let newest = rig.with(async |spa: Rc<Spa>, _| spa.uberblock().txg);
    damage_newest(&rig);
    let before = left[left.len() - 2].clone();
    let model = before.clone();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        // Reading shows what there is; writing wants to be asked for.
        assert!(!spa.is_newest() && spa.uberblock().txg == newest - 1);
        let refused = Live::open(spa, &fresh).await.err();
        assert_eq!(refused, Some(LiveError::Older { txg: newest - 1, far: false }));
    });
    let (rt, fresh) = (rig.runtime.handle(), Rc::clone(&rig.fresh));
    let all: Vec<DeviceRef> = rig.devices().into_values().collect();
    let run = async move {
        let found = find(&all).await;
        let pool = &found.pools[0];
        let spa = rewind::newest_whole(&rt, pool, OpenOptions::default(), Back::default()).await;
        let spa = spa.expect("one is whole");
        assert_eq!(spa.uberblock().txg, newest - 1);
        let options = LiveOptions { taken_back: true, ..LiveOptions::default() };
        let live = Live::open_with(spa, &fresh, options).await.expect("it opens for writing");
        live.close(LabelState::Exported).await.expect("it is closed");
    };
    rig.runtime.block_on(run).expect("it ends");
    rig.with(async move |spa: Rc<Spa>, _| {
        assert!(spa.is_newest() && spa.uberblock().txg > newest, "no group has a number twice");
        compare(&files_of(&spa, "tank").await, &model).await;
    });
    rig.judge();
    written_on(&rig, before);
}

/// The pool is written like any other.
fn written_on(rig: &Rig, mut model: Model) {
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let files = live.files(&node).await.expect("it opens");
        let mut random = Prng::new(21);
        for _ in 0..6 {
            change(&files, &mut model, &mut random).await;
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
        compare(&files, &model).await;
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

#[test]
fn a_pool_is_taken_far_back_only_where_that_is_asked_for() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    written(&rig, 6);
    for _ in 0..4 {
        damage_newest(&rig);
    }
    let rt = rig.runtime.handle();
    let all: Vec<DeviceRef> = rig.devices().into_values().collect();
    let run = async move {
        let found = find(&all).await;
        let (pool, options) = (&found.pools[0], OpenOptions::default());
        let near = rewind::newest_whole(&rt, pool, options, Back::default()).await.err();
        assert!(matches!(near, Some(OpenError::Zfs { .. })), "{near:?}");
        let far = Back { far: true, ..Back::default() };
        let far = rewind::newest_whole(&rt, pool, options, far).await;
        // How far depends on what was overwritten since; it is older than what is near.
        let newest = pool.uberblock.as_ref().map_or(0, |uberblock| uberblock.txg);
        if let Ok(spa) = far {
            assert!(spa.uberblock().txg < newest - 2);
        }
    };
    rig.runtime.block_on(run).expect("it ends");
}

#[test]
fn a_host_that_writes_is_seen_and_one_that_does_not_is_not() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let (rt, fresh) = (rig.runtime.handle(), Rc::clone(&rig.fresh));
    let all: Vec<DeviceRef> = rig.devices().into_values().collect();
    let run = async move {
        let found = find(&all).await;
        let (pool, span) = (&found.pools[0], Duration::from_secs(20));
        let began = rt.now();
        assert!(!multihost::is_active(&rt, &all, span, &|| ()).await);
        assert!(rt.now() - began >= span, "it was watched");
        let spa = Spa::open(&rt, pool, OpenOptions::default()).await.expect("it opens");
        let live = Live::open(Rc::new(spa), &fresh).await.expect("it opens for writing");
        let sleeper = rt.clone();
        let other = rt.spawn(async move {
            sleeper.sleep(Duration::from_secs(7)).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
        });
        let began = rt.now();
        assert!(multihost::is_active(&rt, &all, span, &|| ()).await);
        assert!(rt.now() - began < span, "as soon as it is seen");
        other.await;
    };
    rig.runtime.block_on(run).expect("it ends");
}
