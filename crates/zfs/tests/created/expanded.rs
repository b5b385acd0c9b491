//! Devices that have grown, taken in by their vdevs.
//!
//! What could break: a label that stays where the device ended, space that is used before the group that takes it in, a cut that leaves a
//! vdev larger than the pool knows, a metaslab without a map.

use super::cuts::{Left, cut_at, look_at_files};
use super::datasets::task;
use super::{DEVICE, Model, Rig, USABLE, change, compare, drawn, features, files_of, raidz, top};
use fixtures::extent::{by_extent, places, some};
use rt::{Buf, Device, MemoryDevice};
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs::zpl::FileSystem;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Class;

/// What each device grows by.
const MORE: u64 = 96 << 20;

/// Makes the disks of a rig longer, but for these.
fn grow(rig: &mut Rig, but: &[u64]) {
    for (guid, disk) in rig.disks.iter_mut().filter(|(guid, _)| !but.contains(guid)) {
        let before = disk.geometry().capacity;
        let longer = ByteCount(before.bytes() + MORE);
        let grown = MemoryDevice::new(&guid.to_string(), longer);
        grown.poke(Offset(0), &disk.peek(Offset(0), before));
        *disk = grown;
    }
}

async fn files_to_write(live: &Live) -> FileSystem {
    let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
    live.files(&node).await.expect("it opens")
}

/// A pool whose devices grow, written before and after, more than there was room for.
fn grown(seed: u64, tops: Vec<Vdev>) {
    let mut rig = Rig::with_features(tops.clone(), drawn(seed, features()));
    let model = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let files = files_to_write(&live).await;
        let (mut model, mut random) = (Model::new(), Prng::new(seed));
        for _ in 0..30 {
            change(&files, &mut model, &mut random).await;
        }
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
        model
    });
    grow(&mut rig, &[]);
    let first = tops[0].guid;
    let model = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let size =
            |live: &Live| live.syncer().writer().space(|space| space.usage(Class::Normal).size);
        let before = size(&live);
        assert_eq!(live.expand(Some(&[12345])).await.expect("it is written"), [0; 0]);
        assert_eq!(live.expand(None).await.expect("it is written"), [first]);
        assert_eq!(live.expand(None).await.expect("it is written"), [0; 0], "once");
        assert!(size(&live) > before + before / 3, "{before} {}", size(&live));
        let files = files_to_write(&live).await;
        let (mut model, mut random) = (model, Prng::new(seed ^ 1));
        let (number, slots) = {
            let (objset, slots) = (files.objset(), files.dnode_slots());
            let number = objset.change(|_| objset.plan_number(slots)).await.expect("one is free");
            (number.0, slots)
        };
        let new = zfs::zpl::change::NewFile { slots, ..super::new_file(number) };
        files
            .create(files.root_number(), format!("file {number}").as_bytes(), &new)
            .await
            .expect("it is made");
        // More than there was room for, parity with it.
        let share =
            if matches!(live.spa().vdevs().children[0].kind, VdevKind::Raidz(_)) { 7 } else { 10 };
        let bytes: Vec<u8> =
            (0..before * share / 10 / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        files
            .write(number, 0, &Buf::copy_of(&bytes), bytes.len() as u64)
            .await
            .expect("there is room");
        model.insert(number, bytes);
        live.sync(async |_| Ok(())).await.expect("it is written");
        for _ in 0..20 {
            change(&files, &mut model, &mut random).await;
        }
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
        model
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        let leaves = tops[0].leaves().len() as u64;
        let width = if matches!(tops[0].kind, VdevKind::Raidz(_)) { leaves } else { 1 };
        assert_eq!(spa.vdevs().children[0].asize, Some((USABLE + MORE) * width));
        compare(&files_of(&spa, "tank").await, &model).await;
    });
    rig.judge();
}

#[test]
fn devices_that_have_grown_are_taken_in_and_zdb_finds_nothing() {
    fixtures::takes_long!();
    let pools = [
        (1, vec![top(0, VdevKind::File, 1)]),
        (2, vec![top(0, VdevKind::Mirror, 2)]),
        (4, vec![top(0, raidz(1), 3)]),
    ];
    for (seed, tops) in some(pools, 1) {
        grown(seed, tops);
    }
}

/// By the property whenever the pool is opened for writing; as far as the smallest goes.
#[test]
fn a_pool_takes_in_what_its_devices_have_grown_by_where_its_property_says_so() {
    let mut rig = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
    let size = |rig: &Rig| {
        rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let size = live.syncer().config().root.children[0].asize;
            live.close(LabelState::Exported).await.expect("it is closed");
            size
        })
    };
    let other = rig.disks[1].0;
    grow(&mut rig, &[other]);
    assert_eq!(size(&rig), Some(USABLE), "nobody asked");
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let on = Some(table::number(1));
        let set = task(&live, async |tasks| {
            tasks.set_pool_property("autoexpand", on.clone(), "on").await
        });
        set.await.expect("it is set");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    assert_eq!(size(&rig), Some(USABLE), "one of them has not grown");
    let first = rig.disks[0].0;
    grow(&mut rig, &[first]);
    assert_eq!(size(&rig), Some(USABLE + MORE));
    assert_eq!(rig.disks[0].1.geometry().capacity.bytes(), DEVICE + MORE);
    rig.judge();
}

/// A vdev that grows between two groups of files.
async fn growing(live: Live, left: Left<(Model, u64)>) {
    let files = files_to_write(&live).await;
    let (mut model, mut random) = (Model::new(), Prng::new(9));
    left.leaves((model.clone(), USABLE));
    for round in 0..3 {
        if left.is_cut() {
            return;
        }
        for _ in 0..4 {
            change(&files, &mut model, &mut random).await;
        }
        left.leaves((model.clone(), if round == 0 { USABLE } else { USABLE + MORE }));
        let done = match round {
            1 => live.expand(None).await.is_ok(),
            _ => live.sync(async |_| Ok(())).await.is_ok(),
        };
        if !done {
            return;
        }
        left.is_done();
    }
}

#[test]
fn a_cut_at_any_write_leaves_the_vdev_as_it_was_or_as_it_is_to_be() {
    let mut base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    grow(&mut base, &[]);
    let mut cuts = 0;
    for write in places(3, 3) {
        let look = async |spa: &Spa, (model, asize): (Model, u64)| {
            assert_eq!(spa.vdevs().children[0].asize, Some(asize));
            look_at_files(spa, model).await;
        };
        if !cut_at(&base, 0, write, growing, look) {
            break;
        }
        cuts += 1;
    }
    assert!(cuts > by_extent(1, 4), "it was cut {cuts} times");
}
