//! Vdevs, spares and cache devices added to a pool.
//!
//! What could break: a vdev of which no label or only the labels know, space of it that is used before the group that adds it is in the
//! pool, a cut that leaves half of it, a feature whose uses are not counted, a spare that OpenZFS takes for a member.

use super::cuts::{Left, cut_at, look_at_files};
use super::{DEVICE, Model, Rig, change, compare, drawn, features, files_of, leaf, raidz, top};
use fixtures::extent::{by_extent, places};
use rt::{DeviceRef, MemoryDevice};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::add::{AddError, NewVdevs};
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::spa::{PoolState, member_on};
use zfs::zap::Zap;
use zfs::zpl::FileSystem;
use zfs_format::nvlist::Text;
use zfs_format::pool_directory;
use zfs_format::vdev::{Vdev, VdevKind};

/// Puts disks beside those of a rig, for these leaves; they hold what disks of others do.
fn with_disks(rig: &mut Rig, new: &NewVdevs) {
    let tops = new.tops.iter().flat_map(|top| top.leaves().into_iter());
    for leaf in tops.chain(&new.spares).chain(&new.cache) {
        let disk = MemoryDevice::new(&leaf.guid.to_string(), ByteCount(DEVICE));
        rig.disks.push((leaf.guid, disk));
    }
}

fn devices(rig: &Rig) -> BTreeMap<u64, DeviceRef> {
    rig.devices()
}

fn aux(guid: u64) -> Vdev {
    let mut leaf = leaf(0, guid);
    leaf.ashift = Some(12);
    leaf
}

fn special(id: u64) -> Vdev {
    let mut top = top(id, VdevKind::Mirror, 2);
    top.allocation_bias = Some(Text::from("special"));
    top
}

fn log(id: u64) -> Vdev {
    let mut top = top(id, VdevKind::File, 1);
    top.is_log = Some(1);
    top.allocation_bias = Some(Text::from("log"));
    top
}

async fn uses(spa: &Spa, name: &str) -> u64 {
    let feature = zfs_format::features::Feature::named(name).expect("a feature");
    let of = if feature.is_read_only_compatible() {
        pool_directory::FEATURES_FOR_WRITE
    } else {
        pool_directory::FEATURES_FOR_READ
    };
    let directory = Zap::open(spa.mos().dnode(pool_directory::OBJECT).await.expect("it is there"));
    let directory = directory.await.expect("a table");
    let table = directory.number(of).await.expect("read").expect("it is there");
    let table = Zap::open(spa.mos().dnode(table).await.expect("it is there")).await;
    table.expect("a table").number(feature.guid).await.expect("read").unwrap_or(0)
}

/// A pool with vdevs of all classes added, written before and after.
fn added(first: Vec<Vdev>, new: NewVdevs) {
    let classes = "org.zfsonlinux:allocation_classes";
    let known = zfs_format::features::Feature::find(classes).expect("a feature").guid;
    // One of them with logs of space maps.
    let seed = if new.spares.is_empty() { 1 } else { 2 };
    let features = drawn(seed, [features(), vec![known]].concat());
    let mut rig = Rig::with_features(first.clone(), features);
    with_disks(&mut rig, &new);
    let (devices, adding) = (devices(&rig), new.clone());
    let model = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let files = live.files(&node).await.expect("it opens");
        let (mut model, mut random) = (Model::new(), Prng::new(5));
        for round in 0..4 {
            for _ in 0..15 {
                change(&files, &mut model, &mut random).await;
            }
            live.sync(async |_| Ok(())).await.expect("it is written");
            if round == 1 {
                // What is dirty goes with the group that adds.
                change(&files, &mut model, &mut random).await;
                live.add(adding.clone(), &devices).await.expect("they are added");
            }
        }
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
        model
    });
    let (count, old) = ((first.len() + new.tops.len()) as u64, first.len() as u64);
    let used = new.tops.iter().filter(|top| {
        top.allocation_bias.as_ref().is_some_and(|bias| bias.as_str() == Some("special"))
    });
    let used = used.count() as u64;
    rig.with(async move |spa: Rc<Spa>, _| {
        let vdevs = spa.vdevs();
        assert_eq!(vdevs.children.len() as u64, count);
        assert!(vdevs.children.iter().zip(0..).all(|(top, id)| top.id == id));
        let zaps = vdevs
            .leaves()
            .iter()
            .all(|leaf| leaf.other_number("com.delphix:vdev_zap_leaf").is_some_and(|zap| zap != 0));
        assert!(zaps, "each leaf has its table");
        compare(&files_of(&spa, "tank").await, &model).await;
        let space = spa.space().await.expect("it is told");
        let taken = space.vdevs.range(old..).filter(|(_, top)| top.allocated > 0).count();
        assert!(taken > 0, "what was added is used");
        assert_eq!(uses(&spa, "allocation_classes").await, used);
        let state = spa.state().await.expect("it is told");
        let guids = |of: &[Vdev]| of.iter().map(|one| one.guid).collect::<Vec<_>>();
        assert_eq!(guids(&state.spares), guids(&new.spares));
        assert_eq!(guids(&state.cache), guids(&new.cache));
    });
    rig.judge();
}

#[test]
fn vdevs_that_are_added_are_used_and_zdb_finds_nothing() {
    added(
        vec![top(0, VdevKind::File, 1)],
        NewVdevs { tops: vec![top(7, VdevKind::File, 1)], ..NewVdevs::default() },
    );
    added(
        vec![top(0, VdevKind::Mirror, 2)],
        NewVdevs {
            tops: vec![top(1, raidz(1), 3), special(2), log(3)],
            spares: vec![aux(90), aux(91)],
            cache: vec![aux(92)],
        },
    );
}

#[test]
fn spares_and_cache_devices_say_what_they_are_and_more_join_them() {
    let mut rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let one = NewVdevs { spares: vec![aux(90)], cache: vec![aux(92)], ..NewVdevs::default() };
    let other = NewVdevs { spares: vec![aux(91)], ..NewVdevs::default() };
    with_disks(&mut rig, &one);
    with_disks(&mut rig, &other);
    let devices = devices(&rig);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        live.add(one, &devices).await.expect("they are added");
        live.add(other, &devices).await.expect("it is added");
        live.close(LabelState::Exported).await.expect("it is closed");
        for (guid, state) in
            [(90, PoolState::Spare), (91, PoolState::Spare), (92, PoolState::Cache)]
        {
            let member = member_on(&devices[&guid]).await.expect("it has labels");
            assert_eq!((member.guid, member.state, member.pool_guid), (guid, state, 0));
            assert_eq!(member.labels.configurations().count(), 4);
        }
    });
    rig.with(async |spa: Rc<Spa>, _| {
        let state = spa.state().await.expect("it is told");
        assert_eq!((state.spares.len(), state.cache.len()), (2, 1));
        assert_eq!(spa.vdevs().children.len(), 1, "they hold no data");
    });
    rig.judge();
}

#[test]
fn what_can_not_be_added_changes_nothing() {
    let mut rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let mut tiny = top(1, VdevKind::File, 1);
    tiny.asize = Some(8 << 20);
    let few = NewVdevs { tops: vec![tiny], ..NewVdevs::default() };
    // The pool has no classes.
    let classes = NewVdevs { tops: vec![special(1)], ..NewVdevs::default() };
    let mut raidz = top(1, raidz(1), 2);
    raidz.children.truncate(1);
    let odd = NewVdevs { tops: vec![top(2, VdevKind::File, 1), raidz], ..NewVdevs::default() };
    for new in [&few, &classes, &odd] {
        with_disks(&mut rig, new);
    }
    let devices = devices(&rig);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let before = spa.uberblock().txg;
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        assert_eq!(live.add(few, &devices).await, Err(AddError::Size));
        assert_eq!(live.add(classes, &devices).await, Err(AddError::Classes));
        assert!(matches!(live.add(odd, &devices).await, Err(AddError::Tree(_))));
        assert_eq!(live.spa().uberblock().txg, before);
        live.sync(async |_| Ok(())).await.expect("it goes on");
        assert_eq!(live.spa().tree().leaf_guids().len(), 1, "none was left in the tree");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async |spa: Rc<Spa>, _| assert_eq!(spa.vdevs().children.len(), 1));
}

/// A mirror and a spare added between two groups of files.
async fn adding(live: Live, left: Left<(Model, usize)>, new: NewVdevs) {
    let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
    let objset = live.objset(&node).await.expect("it opens");
    let files = FileSystem::open(&objset).await.expect("it is one");
    let (mut model, mut random) = (Model::new(), Prng::new(9));
    left.leaves((model.clone(), 1));
    for round in 0..3 {
        if left.is_cut() {
            return;
        }
        for _ in 0..4 {
            change(&files, &mut model, &mut random).await;
        }
        left.leaves((model.clone(), if round == 0 { 1 } else { 2 }));
        let done = match round {
            1 => live.add(new.clone(), &left.disks).await.is_ok(),
            _ => live.sync(async |_| Ok(())).await.is_ok(),
        };
        if !done {
            return;
        }
        left.is_done();
    }
}

#[test]
fn a_cut_at_any_write_leaves_the_pool_with_or_without_what_was_added() {
    fixtures::takes_long!();
    let mut base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let new = NewVdevs {
        tops: vec![top(1, VdevKind::Mirror, 2)],
        spares: vec![aux(90)],
        ..NewVdevs::default()
    };
    with_disks(&mut base, &new);
    for disk in 0..base.disks.len() {
        let mut cuts = 0;
        for write in places(3, 3) {
            let adding = {
                let new = new.clone();
                async move |live, left| adding(live, left, new).await
            };
            let look = async |spa: &Spa, (model, tops): (Model, usize)| {
                assert_eq!(spa.vdevs().children.len(), tops);
                let state = spa.state().await.expect("it is told");
                assert_eq!(state.spares.len(), tops - 1);
                look_at_files(spa, model).await;
            };
            if !cut_at(&base, disk, write, adding, look) {
                break;
            }
            cuts += 1;
        }
        // A spare has its labels and nothing else.
        assert!(
            cuts >= if disk == 3 { by_extent(0, 1) } else { by_extent(1, 4) },
            "disk {disk} was cut {cuts} times"
        );
    }
}
