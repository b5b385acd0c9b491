//! Pools of which one dataset is damaged: all others are written, and their logs are replayed.
//!
//! What could break: a log that can't be replayed keeps the whole pool from being written, with what others had committed; a
//! task that finds a dataset damaged stops the pool that somebody else is at work in.

use super::datasets::{free_directory, number, task};
use super::livelists::kernel;
use super::volumes::{self, PUT_BLOCK, byte, put};
use super::{Rig, dump, top};
use rt::{Buf, Request};
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::TaskError;
use zfs::spa::live::Live;
use zfs_format::label;
use zfs_format::vdev::VdevKind;

/// Two volumes with what is in the pool, and more that only their logs have.
fn two_volumes() -> Rig {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let mut open = Vec::new();
        for name in ["a", "b"] {
            let new = volumes::new(name, 4 << 20, PUT_BLOCK, 0);
            volumes::make(&live, new).await.expect("it is made");
            open.push(volumes::open(&live, &format!("tank/{name}")).await);
        }
        for volume in &open {
            put(volume, 3, 1).await;
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
        for volume in &open {
            put(volume, 3, 2).await;
            put(volume, 4, 3).await;
        }
        // Nothing is closed.
    });
    rig
}

/// Overwrites all copies of what `tank/a` has of an object at a level. What was there, by its places.
fn damage(rig: &Rig, object: u64, level: i64) -> Vec<(Offset, Buf)> {
    let places = rig.with(async move |spa: Rc<Spa>, _| {
        let head = spa.dsl().find("tank/a").await.expect("read").expect("it is there").1.number;
        let (mut places, mut walk) = (Vec::new(), spa.walk());
        while let Some(visited) = walk.next().await {
            let visited = visited.expect("it is read");
            let at = visited.at;
            if (at.objset, at.object, at.level) == (head, object, level) {
                let at = |offset| Offset(label::DATA_START + offset);
                places.extend(visited.pointer.dvas().map(|dva| at(dva.offset())));
            }
        }
        places
    });
    assert!(!places.is_empty(), "there is such a block");
    let device = Rc::clone(rig.devices().values().next().expect("a disk"));
    let before = rig.with(async move |_, _| {
        let mut before = Vec::new();
        for place in places {
            let read = device.submit(Request::read(place, ByteCount(4096))).await;
            before.push((place, read.expect("it is read").into_contiguous()));
        }
        before
    });
    let junk = before.iter().map(|(place, _)| (*place, Buf::copy_of(&[0xd7; 4096])));
    overwrite(rig, junk.collect());
    before
}

/// Writes to the disk of a pool that has one.
fn overwrite(rig: &Rig, all: Vec<(Offset, Buf)>) {
    let device = Rc::clone(rig.devices().values().next().expect("a disk"));
    rig.with(async move |_, _| {
        for (place, bytes) in all {
            device.submit(Request::write(place, bytes)).await.expect("it is written");
        }
    });
}

#[test]
fn the_log_of_a_damaged_volume_is_given_up_and_that_of_another_replayed() {
    let rig = two_volumes();
    damage(&rig, 1, 1);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("one volume keeps no pool"));
        let given_up = live.logs_given_up();
        assert_eq!(given_up.len(), 1, "{given_up:?}");
        assert_eq!((given_up[0].name.as_str(), given_up[0].records), ("tank/a", 2));
        assert!(given_up[0].error.is_damage(), "{given_up:?}");
        let volume = volumes::open(&live, "tank/b").await;
        assert_eq!((byte(&volume, 3).await, byte(&volume, 4).await), (2, 3), "it was replayed");
        put(&volume, 5, 4).await;
        // Once more, with a log of the other one.
    });
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        assert_eq!(live.logs_given_up(), [], "it has none any more");
        let volume = volumes::open(&live, "tank/b").await;
        assert_eq!(byte(&volume, 5).await, 4);
        drop(volume);
        let a = number(&live, "tank/a").await;
        task(&live, async |tasks| tasks.destroy(a).await).await.expect("it goes");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
}

#[test]
fn a_task_that_finds_a_dataset_damaged_stops_nobody() {
    let rig = two_volumes();
    damage(&rig, 0, -1);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let volume = volumes::open(&live, "tank/b").await;
        assert_eq!(byte(&volume, 4).await, 3, "it was replayed");
        let a = number(&live, "tank/a").await;
        let gone = task(&live, async |tasks| tasks.destroy(a).await).await;
        assert!(matches!(gone, Err(TaskError::Damaged(_))), "{gone:?}");
        put(&volume, 5, 4).await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        drop(volume);
        let b = number(&live, "tank/b").await;
        task(&live, async |tasks| tasks.snapshot(b, "s").await).await.expect("it is taken");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
}

/// Three volumes of a few blocks each, the first of which can't be read from its table of objects on.
fn three_volumes() -> Rig {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        for name in ["a", "b", "c"] {
            let new = volumes::new(name, 4 << 20, PUT_BLOCK, 0);
            volumes::make(&live, new).await.expect("it is made");
            let volume = volumes::open(&live, &format!("tank/{name}")).await;
            for block in 0..40 {
                put(&volume, block, 7).await;
            }
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig
}

/// What waits to be freed, in bytes.
async fn waiting(live: &Live) -> u64 {
    free_directory(live.spa()).await.used_bytes
}

/// What could break: a tree that can't be read keeps those behind it from being freed, or is read anew in each group; where its block
/// can be read again it is freed beside what was freed meanwhile.
#[test]
fn a_tree_that_cant_be_read_is_kept_and_those_behind_it_are_freed() {
    for (object, level) in [(0, 0), (1, 1)] {
        let rig = three_volumes();
        let before = damage(&rig, object, level);
        let freed = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            live.freeing().set_blocks_max(7);
            for name in ["tank/a", "tank/b"] {
                let number = number(&live, name).await;
                task(&live, async |tasks| tasks.destroy(number).await).await.expect("it goes");
            }
            let all = waiting(&live).await;
            live.finish_freeing().await.expect("it is freed");
            let kept = live.freeing().unreadable();
            assert_eq!((kept.trees, kept.bytes), (1, waiting(&live).await));
            assert!(0 < kept.bytes && kept.bytes < all, "{kept:?} of {all}");
            assert_eq!(live.spa().unreadable_trees().await, Ok(Some(kept.bytes)));
            // It is not asked for anew: nobody reads from a device that fails.
            let errors = |live: &Live| live.spa().tree().report()[0].errors.checksum;
            let before = errors(&live);
            assert!(before > 0);
            let number = number(&live, "tank/c").await;
            task(&live, async |tasks| tasks.destroy(number).await).await.expect("it goes");
            live.finish_freeing().await.expect("it is freed");
            assert_eq!(errors(&live), before);
            assert_eq!(live.freeing().unreadable(), kept);
            live.close(LabelState::Exported).await.expect("it is closed");
            kept.bytes
        });
        // Whoever opens it later tries once more, and says nothing of what others destroyed.
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            live.finish_freeing().await.expect("it is freed");
            assert_eq!(live.freeing().unreadable().trees, 0);
            assert_eq!(waiting(&live).await, freed);
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        overwrite(&rig, before);
        rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            live.freeing().set_blocks_max(7);
            live.finish_freeing().await.expect("it is freed");
            assert_eq!(waiting(&live).await, 0);
            assert_eq!(live.spa().unreadable_trees().await, Ok(None));
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        rig.judge();
    }
}

/// What is kept is as OpenZFS keeps it: its kernel frees what is behind it, too, and leaves it to whoever can read it. (Of a block of dnodes
/// that it can't read the kernel takes what is below for free the next time, and never frees that.)
#[test]
#[ignore = "boots a machine: some minutes"]
fn the_kernel_goes_on_behind_a_tree_that_cant_be_read() {
    let rig = three_volumes();
    let before = damage(&rig, 1, 1);
    let kept = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        for name in ["tank/a", "tank/b"] {
            let number = number(&live, name).await;
            task(&live, async |tasks| tasks.destroy(number).await).await.expect("it goes");
        }
        live.finish_freeing().await.expect("it is freed");
        live.close(LabelState::Exported).await.expect("it is closed");
        live.freeing().unreadable().bytes
    });
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk");
    let [(guid, device)] = &rig.disks[..] else { panic!("it has one disk") };
    dump(device, &disk);
    let work = "zpool import -d /p tank; echo kept $(zpool get -Hpo value freeing tank)\n\
        zfs destroy tank/c; for i in 1 2 3 4; do zpool sync tank; done\n\
        echo kept $(zpool get -Hpo value freeing tank)\n\
        zfs list -Ho name -r tank; zpool export tank";
    let Some(said) = kernel(&disk, work) else { return };
    assert_eq!(said.matches(&format!("kept {kept}\n")).count(), 2, "{kept}: {said}");
    let device = fixtures::Disk::of_file(&disk).device();
    let rig = Rig::over(vec![(*guid, device)], Rc::clone(&rig.fresh));
    overwrite(&rig, before);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        live.finish_freeing().await.expect("it is freed");
        assert_eq!(waiting(&live).await, 0);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
