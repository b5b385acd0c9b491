//! Pools from which vdevs were removed, written: what lay there is freed where it lies now, and what nobody names any more is said.
//!
//! Nobody here removes vdevs but this file, which does what OpenZFS's removal leaves: all that is allocated on a vdev is copied
//! to others, in pieces of drawn lengths, so that blocks are split; a mapping, births and counts are made; the vdev's maps go. Among
//! them are entries of gaps, which nobody ever named.
//!
//! What could break: a piece that is not freed, or freed twice; bytes that are counted as obsolete twice, or not at all, or though they
//! are named; something allocated on a vdev that is not there; a number that is given again; a configuration without its
//! holes; a cut in between; a feature that is counted otherwise than there are objects.

use super::cuts::{Left, at_each_write, cut_at};
use super::datasets::{check_books, files, number, task};
use super::stock::check_space;
use super::{Model, Rig, change, compare, features_and, files_of, leaf, raidz, top};
use fixtures::extent::some;
use rt::{Buf, DeviceRef, MemoryDevice};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dmu::{NewObject, Objset};
use zfs::dsl::deadlist::Deadlist;
use zfs::dsl::make::{Fresh, Maker};
use zfs::spa::add::{AddError, NewVdevs};
use zfs::spa::config::LabelState;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::live::{Live, LiveError, LiveOptions};
use zfs::spa::{OpenOptions, Spa};
use zfs::zap::{Zap, table};
use zfs_format::Endian;
use zfs_format::block_pointer::{BlockPointer, Dva};
use zfs_format::dsl::dataset::{DslDataset, fields};
use zfs_format::features::Feature;
use zfs_format::label::DATA_START;
use zfs_format::object_type::{ByteSwap, ObjectType};
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::space_map::LONG_BYTES;
use zfs_format::vdev::indirect::{BirthEntry, Births, Mapping, MappingEntry, Removal};
use zfs_format::vdev::{Indirect, Vdev, VdevKind};
use zfs_format::wire::Record;
use zfs_store::alloc::Class;
use zfs_store::{IoClass, WriteAt};

const METADATA_NUMBERS: ObjectType = ObjectType::new(ByteSwap::Uint64, true, false);
const METADATA_COUNTS: ObjectType = ObjectType::new(ByteSwap::Uint32, true, false);
const BLOCK: u64 = 128 << 10;
const SECTOR: u64 = 4096;
const NAMES: [&str; 4] =
    ["device_removal", "obsolete_counts", "zpool_checkpoint", "allocation_classes"];

/// Number of gaps that a removal maps and nobody names.
const GAPS: usize = 4;

/// Makes an object of the MOS of this content.
async fn object(mos: &Objset, new: NewObject, content: &[u8]) -> u64 {
    let object = mos.make(&new).await.expect("it is made");
    let bytes = Buf::copy_of(content);
    let done = mos.change(|tx| {
        object.plan_write(0..bytes.len() as u64)?;
        object.write(tx, 0, &bytes);
        Ok(())
    });
    done.await.expect("it is written");
    object.number()
}

async fn free(maker: &Maker<'_>, object: u64) {
    let object = maker.mos.dnode(object).await.expect("it is there");
    maker.free_object(&object).await.expect("it goes");
}

async fn directory(mos: &Objset) -> Zap {
    let directory = mos.dnode(pool_directory::OBJECT).await.expect("it is there");
    Zap::open(directory).await.expect("a table")
}

/// A top-level vdev's objects go, and nothing is allocated on it any more; what was is told.
async fn strip(maker: &Maker<'_>, live: &Live, top: &Vdev) -> Vec<Range<u64>> {
    let slabs = live.syncer().writer().space(|space| space.take_out(top.id as u32));
    let slabs = slabs.expect("it is known");
    let mut with_histogram = 0;
    for slab in slabs.slabs().iter().filter(|slab| slab.map != 0) {
        let map = maker.mos.dnode(slab.map).await.expect("it is there");
        with_histogram += i64::from(map.phys().bonus.len() >= LONG_BYTES);
        free(maker, slab.map).await;
    }
    if with_histogram > 0 {
        maker.count_use("spacemap_histogram", -with_histogram).await.expect("it is counted");
    }
    free(maker, top.metaslab_array.expect("it has one")).await;
    let tables = directory(maker.mos).await.needed(pool_directory::VDEV_ZAP_MAP).await;
    let tables = tables.expect("there is one");
    let leaves =
        top.leaves().into_iter().map(|leaf| leaf.other_number("com.delphix:vdev_zap_leaf"));
    for own in leaves.chain([top.other_number("com.delphix:vdev_zap_top")]) {
        let own = own.expect("it has one");
        maker.remove_from_set(tables, own).await.expect("it goes");
        free(maker, own).await;
    }
    slabs.slabs().iter().flat_map(|slab| slab.allocated.iter()).collect()
}

/// Copies a stretch of a vdev to others, and says where to.
async fn copy(live: &Live, txg: u64, from: &MemoryDevice, range: Range<u64>) -> Dva {
    let (writer, len) = (live.syncer().writer(), range.end - range.start);
    let taken = writer.space(|space| {
        let bytes = |vdev| writer.tree().allocated_on(vdev, len, txg);
        space.allocate(txg, Class::Normal, 1, bytes)
    });
    let dva = taken.expect("there is room")[0];
    let bytes = from.peek(Offset(DATA_START + range.start), ByteCount(len)).into_contiguous();
    let at = WriteAt { dva, txg, class: IoClass::AsyncWrite };
    writer.tree().write(&at, bytes).await.expect("it is written");
    dva
}

/// What is mapped of a removed vdev and named by nobody.
type Gaps = Vec<Dva>;

/// Removes a vdev, whose content is on this device; the entries of gaps are told. They count as obsolete, or not yet.
async fn remove_in(
    live: &Live,
    maker: &Maker<'_>,
    id: u64,
    from: &MemoryDevice,
    (random, counts_gaps): (&mut Prng, bool),
) -> Gaps {
    let (writer, mos) = (live.syncer().writer(), maker.mos);
    let config = live.syncer().config();
    let top = config.root.children.iter().find(|top| top.id == id).expect("it is there").clone();
    let state = directory(mos).await.get(pool_directory::REMOVING.as_bytes()).await.expect("read");
    let state = state.map(|value| Removal::from_numbers(&value.numbers).expect("one"));
    let previous = state.map_or(u64::MAX, |state| state.previous_vdev);
    let allocated = strip(maker, live, &top).await;
    let mut entries: Vec<MappingEntry> = Vec::new();
    let (mut gaps, mut counts) = (Gaps::new(), Vec::new());
    let shift = top.metaslab_shift.expect("it is stated");
    for (number, range) in allocated.iter().enumerate() {
        let mut at = range.start;
        while at < range.end {
            let len = SECTOR * (1 + random.below(24));
            let end = range.end.min(at + len);
            let target = copy(live, maker.txg, from, at..end).await;
            entries.push(MappingEntry { source_sectors: at / 512, target });
            counts.push(0);
            at = end;
        }
        // What is free behind it, in the same metaslab, is taken along, and its copy is free again.
        let next = allocated.get(number + 1).map_or(top.asize.unwrap_or(0), |next| next.start);
        let bound = (((at - 1) >> shift) + 1) << shift;
        if next.min(bound) > at + SECTOR && gaps.len() < GAPS {
            let target = copy(live, maker.txg, from, at..at + SECTOR).await;
            writer.space(|space| space.free(&target));
            entries.push(MappingEntry { source_sectors: at / 512, target });
            counts.push(if counts_gaps { SECTOR as u32 } else { 0 });
            gaps.push(Dva::new(id as u32, at, SECTOR, false));
        }
    }
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.encode(Endian::Little)).collect();
    let counted: Vec<u8> = counts.iter().flat_map(|count: &u32| count.to_le_bytes()).collect();
    let of_counts = NewObject::of(METADATA_COUNTS, BLOCK);
    let header = Mapping {
        max_offset: entries.last().map_or(0, |entry| entry.source() + entry.target.allocated()),
        bytes_mapped: entries.iter().map(|entry| entry.target.allocated()).sum(),
        entries: entries.len() as u64,
        counts: object(mos, of_counts, &counted).await,
    };
    let numbers =
        |bonus: Vec<u8>| NewObject::of(METADATA_NUMBERS, BLOCK).with_bonus(METADATA_NUMBERS, bonus);
    let birth = BirthEntry { offset: header.max_offset, txg: maker.txg }.encode(Endian::Little);
    let births = Births { entries: 1 }.encode(Endian::Little);
    let indirect = Indirect {
        mapping: object(mos, numbers(header.encode(Endian::Little)), &bytes).await,
        births: object(mos, numbers(births), &birth).await,
        previous: Some(previous).filter(|before| *before != u64::MAX),
    };
    let own = maker.table(ObjectType::new(ByteSwap::Zap, true, false)).await.expect("it is made");
    let tables = directory(mos).await.needed(pool_directory::VDEV_ZAP_MAP).await.expect("one");
    maker.add_to_set(tables, own.number()).await.expect("it is put in");
    let one = table::number(1);
    table::set(mos, &own, top_vdev::OBSOLETE_COUNTS_PRECISE, one).await.expect("it is set");
    let mut vdev = Vdev {
        metaslab_array: Some(0),
        metaslab_shift: top.metaslab_shift,
        ashift: top.ashift,
        asize: top.asize,
        is_log: Some(0),
        ..Vdev::new(VdevKind::Indirect(indirect), id, maker.fresh.number())
    };
    let name = zfs_format::nvlist::Text::from("com.delphix:vdev_zap_top");
    vdev.other.push((name, zfs_format::nvlist::Value::Uint64(own.number())));
    writer.tree().set_top(&vdev, &BTreeMap::new()).expect("it can be");
    writer.tree().set_indirect(id as u32, &entries).expect("they are in order");
    const FINISHED: u64 = 2;
    let state = Removal {
        state: FINISHED,
        vdev: id,
        previous_vdev: id,
        start_time: 1,
        end_time: 2,
        to_copy: header.bytes_mapped,
        copied: header.bytes_mapped,
    };
    let value = zfs_format::zap::leaf::LeafValue { number_bytes: 8, numbers: state.to_numbers() };
    let directory = mos.dnode(pool_directory::OBJECT).await.expect("it is there");
    table::set(mos, &directory, pool_directory::REMOVING, value).await.expect("it is set");
    maker.count_use("device_removal", 1).await.expect("it is counted");
    // The mark, and the counts.
    maker.count_use("obsolete_counts", 2).await.expect("it is counted");
    put(live, vdev);
    gaps
}

/// A top-level vdev is configured so.
fn put(live: &Live, vdev: Vdev) {
    live.syncer().change_config(|config| {
        let top = config.root.children.iter_mut().find(|top| top.id == vdev.id);
        *top.expect("it is there") = vdev;
    });
}

/// Removes a vdev of a pool, and its disks.
fn remove(rig: &mut Rig, id: u64, seed: u64, counts_gaps: bool) -> Gaps {
    let vdevs = rig.with(async |spa: Rc<Spa>, _| spa.vdevs());
    let top = vdevs.children.iter().find(|top| top.id == id).expect("it is there");
    let leaves: Vec<u64> = top.leaves().iter().map(|leaf| leaf.guid).collect();
    let from = rig.disks.iter().find(|(guid, _)| *guid == leaves[0]).expect("it is there");
    let from = Rc::clone(&from.1);
    let gaps = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        // What was freed comes free.
        for _ in 0..4 {
            live.sync(async |_| Ok(())).await.expect("it is written");
        }
        let work = live.task(async |tasks| {
            let with = (&mut Prng::new(seed), counts_gaps);
            Ok(Ok(remove_in(&live, tasks.maker, id, &from, with).await))
        });
        work.await.expect("it is written").expect("it is done")
    });
    rig.disks.retain(|(guid, _)| !leaves.contains(guid));
    gaps
}

/// Removes a log device, on which nothing is: a hole is left.
fn remove_log(rig: &mut Rig, id: u64) {
    let leaves = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let tops = live.syncer().config().root.children;
        let top = tops.into_iter().find(|top| top.id == id).expect("it is there");
        let work = live.task(async |tasks| {
            assert!(strip(tasks.maker, &live, &top).await.is_empty(), "logs are gone");
            let (zero, mut hole) = (Some(0), Vdev::new(VdevKind::Hole, id, 0));
            (hole.metaslab_array, hole.metaslab_shift) = (zero, zero);
            (hole.ashift, hole.asize, hole.is_log) = (zero, zero, zero);
            let tree = live.syncer().writer().tree();
            tree.set_top(&hole, &BTreeMap::new()).expect("it can be");
            put(&live, hole);
            Ok(Ok(()))
        });
        work.await.expect("it is written").expect("it is done");
        top.leaves().iter().map(|leaf| leaf.guid).collect::<Vec<_>>()
    });
    rig.disks.retain(|(guid, _)| !leaves.contains(guid));
}

/// A disk more, as a vdev.
fn add(rig: &mut Rig, guid: u64) {
    let disk = MemoryDevice::new(&guid.to_string(), ByteCount(super::DEVICE));
    rig.disks.push((guid, disk));
    let devices: BTreeMap<u64, DeviceRef> = rig.devices();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let many = live.spa().vdevs().children.len() as u64;
        let mut new = Vdev { guid, ..top(0, VdevKind::File, 1) };
        new.path = leaf(0, guid).path;
        let striped = NewVdevs { tops: vec![top(9, raidz(1), 3)], ..NewVdevs::default() };
        let is_moved = |top: &Vdev| matches!(top.kind, VdevKind::Indirect(_));
        if live.spa().vdevs().children.iter().any(is_moved) {
            assert_eq!(live.add(striped, &devices).await, Err(AddError::Removed));
        }
        live.add(NewVdevs { tops: vec![new], ..NewVdevs::default() }, &devices)
            .await
            .expect("it is added");
        let vdevs = live.spa().vdevs();
        assert_eq!(
            (vdevs.children.len() as u64, vdevs.children[many as usize].id),
            (many + 1, many)
        );
    });
}

async fn write(live: &Live, model: &mut Model, random: &mut Prng, groups: usize) {
    let files = files(live, "tank").await;
    for _ in 0..groups {
        for _ in 0..12 {
            change(&files, model, random).await;
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
    }
}

/// A pool with files and a snapshot, gangs among them.
fn filled(tops: Vec<Vdev>, seed: u64) -> (Rig, Model) {
    let rig =
        Rig::with_features(tops, features_and(&[&NAMES[..], &["spacemap_histogram"]].concat()));
    let model: Rc<RefCell<Model>> = Rc::default();
    let kept = Rc::clone(&model);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        live.syncer().writer().force_gangs(16 << 10, 5);
        let (mut model, mut random) = (kept.borrow_mut(), Prng::new(seed));
        write(&live, &mut model, &mut random, 3).await;
        let head = number(&live, "tank").await;
        let taken = task(&live, async |tasks| tasks.snapshot(head, "old").await).await;
        taken.expect("it is taken");
        write(&live, &mut model, &mut random, 2).await;
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    let model = model.borrow().clone();
    (rig, model)
}

/// The uses of a feature.
fn uses(spa: &Spa, name: &str) -> u64 {
    let guid = Feature::named(name).expect("a feature").guid;
    spa.features().iter().find(|one| one.guid == guid).map_or(0, |one| one.count)
}

/// Nothing new lies on a vdev that is not there.
async fn check_places(spa: &Spa, since: u64) {
    let vdevs = spa.vdevs();
    let gone = vdevs.children.iter().filter(|top| !top.is_there());
    let gone: BTreeSet<u32> = gone.map(|top| top.id as u32).collect();
    assert!(!gone.is_empty());
    let mut walk = spa.walk();
    let mut old = 0;
    while let Some(met) = walk.next().await {
        let pointer = met.expect("it is read").pointer;
        let lies = pointer.dvas().any(|dva| gone.contains(&dva.vdev()));
        assert!(!lies || pointer.physical_birth() <= since, "{pointer:?}");
        old += u64::from(lies);
    }
    println!("{old} blocks are of removed vdevs");
}

/// Files change, snapshots come and go, a clone, a rollback, a checkpoint that is gone back to and one that is discarded.
fn lived_in(rig: &Rig, model: Model, seed: u64) -> Model {
    let model = Rc::new(RefCell::new(model));
    let since = rig.with(async |spa: Rc<Spa>, _| {
        check_space(&spa, "removed").await;
        spa.uberblock().txg
    });
    rig.check();
    for round in 0..3 {
        let kept = Rc::clone(&model);
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let mut random = Prng::new(seed * 10 + round);
            let head = number(&live, "tank").await;
            write(&live, &mut kept.borrow_mut(), &mut random, 2).await;
            match round {
                // The snapshot has blocks of before, and alone.
                0 => {
                    let old = number(&live, "tank@old").await;
                    let above = live.spa().dsl().find("tank").await.expect("read").expect("one").0;
                    let new = NewClone { name: "clone".to_owned(), properties: Vec::new() };
                    let made =
                        task(&live, async |tasks| tasks.clone(old, above.number, &new).await);
                    made.await.expect("it is made");
                    let clone = files(&live, "tank/clone").await;
                    for name in clone.names(&clone.root().await.expect("read")).await.expect("read")
                    {
                        clone.truncate(name.entry.object, 0).await.expect("it is cut");
                    }
                    live.sync(async |_| Ok(())).await.expect("it is written");
                    drop(clone);
                    let clone = number(&live, "tank/clone").await;
                    let gone = task(&live, async |tasks| tasks.destroy(clone).await).await;
                    gone.expect("it goes");
                    let gone = task(&live, async |tasks| tasks.destroy_snapshot(old, false).await);
                    gone.await.expect("it goes");
                }
                1 => {
                    let taken = task(&live, async |tasks| tasks.snapshot(head, "new").await).await;
                    let snapshot = taken.expect("it is taken");
                    let then = kept.borrow().clone();
                    write(&live, &mut kept.borrow_mut(), &mut random, 1).await;
                    let back = task(&live, async |tasks| tasks.rollback(head, snapshot).await);
                    back.await.expect("it goes back");
                    *kept.borrow_mut() = then;
                }
                _ => {
                    live.checkpoint().await.expect("it is taken");
                    write(&live, &mut kept.borrow_mut(), &mut random, 2).await;
                }
            }
            live.finish_freeing().await.expect("it is freed");
            check_space(live.spa(), &format!("in round {round}")).await;
            live.close(LabelState::Exported).await.expect("it is closed");
            check_places(live.spa(), since).await;
        });
        rig.with(async |spa: Rc<Spa>, _| check_books(&spa).await);
    }
    // Back to the checkpoint, and on from there.
    let back = rig.fork();
    let all: Vec<DeviceRef> = back.devices().into_values().collect();
    let options = OpenOptions { checkpoint: true, ..OpenOptions::default() };
    back.with_options(all, options, async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let options = LiveOptions { taken_back: true, ..LiveOptions::default() };
        let live = Live::open_with(spa, &fresh, options).await.expect("it opens for writing");
        let tank = files(&live, "tank").await;
        for name in tank.names(&tank.root().await.expect("read")).await.expect("read") {
            tank.truncate(name.entry.object, 0).await.expect("it is cut");
        }
        drop(tank);
        live.close(LabelState::Exported).await.expect("it is closed");
        check_space(live.spa(), "gone back").await;
    });
    back.judge_midway();
    let kept = Rc::clone(&model);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        write(&live, &mut kept.borrow_mut(), &mut Prng::new(seed), 1).await;
        live.discard_checkpoint().await.expect("it is there");
        live.finish_freeing().await.expect("it is freed");
        live.close(LabelState::Exported).await.expect("it is closed");
        check_space(live.spa(), "without a checkpoint").await;
    });
    let kept = model.borrow().clone();
    rig.with(async move |spa: Rc<Spa>, _| {
        compare(&files_of(&spa, "tank").await, &kept).await;
        let said = uses(&spa, "obsolete_counts") - 2 * uses(&spa, "device_removal");
        assert!(said > 0, "there are maps of what is obsolete");
    });
    rig.judge();
    model.take()
}

#[test]
fn what_lay_on_a_removed_vdev_is_freed_where_it_lies_now() {
    fixtures::takes_long!();
    let two = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
    let (mut rig, model) = filled(two, 1);
    remove(&mut rig, 1, 1, true);
    lived_in(&rig, model, 1);
    // A vdev that was removed later lies between; of the log between them a hole is left.
    let mut log = top(1, VdevKind::File, 1);
    log.is_log = Some(1);
    let three = vec![top(0, VdevKind::File, 1), log, top(2, VdevKind::Mirror, 2)];
    let (mut rig, model) = filled(three, 2);
    remove_log(&mut rig, 1);
    rig.judge_midway();
    remove(&mut rig, 0, 2, true);
    add(&mut rig, 4001);
    let model = {
        let kept = Rc::new(RefCell::new(model));
        let model = Rc::clone(&kept);
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            write(&live, &mut model.borrow_mut(), &mut Prng::new(7), 2).await;
        });
        kept.take()
    };
    remove(&mut rig, 2, 3, true);
    // From here on with logs of space maps.
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let done = live.task(async |tasks| {
            tasks.enable_features(&["log_spacemap"]).await?;
            Ok(Ok(()))
        });
        done.await.expect("it is written").expect("it is done");
        let (uberblock, config) = (live.spa().uberblock(), live.syncer().config());
        assert_eq!(uberblock.guid_sum, config.guid_sum());
        let holes = config.for_mos(uberblock.txg);
        assert_eq!(holes.u64s("hole_array").expect("numbers"), Some(&[1][..]));
    });
    lived_in(&rig, model, 2);
}

/// Where the feature isn't enabled nothing is said, and all the same all is freed.
#[test]
fn without_the_feature_nothing_is_said_of_what_is_obsolete() {
    let tops = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
    let (mut rig, model) = filled(tops, 3);
    remove(&mut rig, 1, 1, true);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let done = live.task(async |tasks| {
            let mos = tasks.maker.mos;
            let features = directory(mos).await.needed(pool_directory::FEATURES_FOR_WRITE).await?;
            let guid = Feature::named("obsolete_counts").expect("a feature").guid;
            table::remove(mos, &mos.dnode(features).await?, guid).await?;
            let tops = live.syncer().config().root.children;
            let own = tops[1].other_number("com.delphix:vdev_zap_top").expect("it has one");
            let own = mos.dnode(own).await?;
            for name in [top_vdev::OBSOLETE_COUNTS_PRECISE, top_vdev::INDIRECT_OBSOLETE] {
                table::remove(mos, &own, name).await?;
            }
            Ok(Ok(()))
        });
        done.await.expect("it is written").expect("it is done");
        let mut model = model;
        write(&live, &mut model, &mut Prng::new(4), 3).await;
        check_space(live.spa(), "without").await;
        let own = live.spa().vdevs().children[1].other_number("com.delphix:vdev_zap_top");
        let own = live.spa().mos().dnode(own.expect("it has one")).await.expect("it is there");
        let own = Zap::open(own).await.expect("a table");
        assert_eq!(own.number(top_vdev::INDIRECT_OBSOLETE).await, Ok(None));
    });
}

#[test]
fn a_vdev_that_is_being_removed_keeps_a_pool_from_being_written() {
    let tops = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
    let (mut rig, _) = filled(tops, 4);
    remove(&mut rig, 1, 1, true);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let done = live.task(async |tasks| {
            let mos = tasks.maker.mos;
            let of = directory(mos).await;
            let mut value =
                of.get(pool_directory::REMOVING.as_bytes()).await?.expect("it is there");
            value.numbers[0] = 1;
            table::set(mos, of.dnode(), pool_directory::REMOVING, value).await?;
            Ok(Ok(()))
        });
        done.await.expect("it is written").expect("it is done");
    });
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let refused = Live::open(spa, &fresh).await.err();
        assert_eq!(refused, Some(LiveError::Unsupported("a vdev that is being removed")));
    });
}

/// Puts places on the list of what a dataset has moved off, as OpenZFS does where a snapshot names them still.
async fn moved_off(live: &Live, places: &[(Dva, u64)]) {
    let head = number(live, "tank").await;
    let done = live.task(async |tasks| {
        let maker = tasks.maker;
        let dataset = maker.mos.dnode(head).await?;
        maker.zapify(&dataset).await?;
        let known = Zap::open(dataset.clone()).await?.number(fields::REMAP_DEADLIST).await?;
        let list = match known {
            Some(list) => list,
            None => {
                let deadlist = maker.bonus::<DslDataset>(&dataset)?.deadlist;
                let keys: Vec<u64> = Deadlist::open(maker, deadlist).await?.keys().collect();
                let list = Deadlist::make(maker, keys).await?;
                let named = table::number(list);
                table::set(maker.mos, &dataset, fields::REMAP_DEADLIST, named).await?;
                maker.count_use("obsolete_counts", 1).await?;
                list
            }
        };
        let pointers = places.iter().map(|(dva, birth)| {
            let mut pointer = BlockPointer::HOLE;
            pointer.set_dva(0, *dva);
            pointer.set_births(*birth, 0);
            pointer
        });
        let pointers: Vec<BlockPointer> = pointers.collect();
        Deadlist::open(maker, list).await?.insert(&pointers, live.syncer().writer().tree()).await?;
        Ok(Ok(()))
    });
    done.await.expect("it is written").expect("it is done");
}

/// How many of the gaps are said to be obsolete.
async fn said(spa: &Spa, gaps: &[Dva]) -> Vec<bool> {
    let claims = super::stock::claimed(spa, "moved off").await;
    let wrong = spa.miscounted(&claims).await.expect("they are counted");
    let is_wrong = |gap: &Dva| wrong.iter().any(|one| one.entry.start == gap.offset());
    assert!(wrong.iter().all(|one| gaps.iter().any(|gap| one.entry.start == gap.offset())));
    gaps.iter().map(|gap| !is_wrong(gap)).collect()
}

/// Snapshots go in an order, of which each names some places that those after it have moved off.
fn moved_off_in(order: [usize; 3], base: &Rig, gaps: &[Dva]) {
    let (rig, gaps) = (base.fork(), gaps.to_vec());
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let head = number(&live, "tank").await;
        // Which snapshots name each: those from its birth to the one before the list.
        let named: [Range<usize>; GAPS] = [0..1, 0..2, 1..2, 0..3];
        let mut births = Vec::new();
        for (at, name) in ["s0", "s1", "s2"].into_iter().enumerate() {
            let taken = task(&live, async |tasks| tasks.snapshot(head, name).await).await;
            taken.expect("it is taken");
            // Between the snapshot before and this one.
            births.push(live.spa().uberblock().txg - 1);
            let moved = gaps.iter().zip(&named).filter(|(_, named)| named.end == at + 1);
            let moved: Vec<(Dva, u64)> =
                moved.map(|(gap, named)| (*gap, births[named.start])).collect();
            moved_off(&live, &moved).await;
        }
        assert_eq!(said(live.spa(), &gaps).await, [false; GAPS]);
        let mut there: BTreeSet<usize> = (0..3).collect();
        for (step, snapshot) in order.into_iter().enumerate() {
            let of = number(&live, &format!("tank@s{snapshot}")).await;
            let gone = task(&live, async |tasks| tasks.destroy_snapshot(of, false).await).await;
            gone.expect("it goes");
            there.remove(&snapshot);
            // In one case of three what waits is there still.
            if step != snapshot {
                live.finish_freeing().await.expect("it is freed");
            }
            let expected = named.iter().map(|named| !named.clone().any(|one| there.contains(&one)));
            assert_eq!(
                said(live.spa(), &gaps).await,
                expected.collect::<Vec<_>>(),
                "{order:?}, {step}"
            );
        }
        live.finish_freeing().await.expect("it is freed");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge_midway();
    // Taken back, it has no list.
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let head = number(&live, "tank").await;
        let before = uses(live.spa(), "obsolete_counts");
        let taken = task(&live, async |tasks| tasks.snapshot(head, "last").await).await;
        let taken = taken.expect("it is taken");
        // The snapshot has the list that the head had.
        moved_off(&live, &[]).await;
        let back = task(&live, async |tasks| tasks.rollback(head, taken).await).await;
        back.expect("it goes back");
        live.close(LabelState::Exported).await.expect("it is closed");
        let features = live.spa().mos();
        let now = zfs::spa::features::in_use(features).await.expect("they are read");
        let guid = Feature::named("obsolete_counts").expect("a feature").guid;
        let now = now.iter().find(|one| one.guid == guid).map_or(0, |one| one.count);
        assert_eq!(now, before, "what came went");
    });
    rig.judge();
}

#[test]
fn what_was_moved_off_is_obsolete_when_no_snapshot_names_it() {
    let tops = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
    let (mut rig, _) = filled(tops, 5);
    let gaps = remove(&mut rig, 1, 5, false);
    assert_eq!(gaps.len(), GAPS);
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in some(orders, 2) {
        moved_off_in(order, &rig, &gaps);
    }
}

/// A pool that has nothing but what all have, of which one of two vdevs was removed: a start of other tests.
pub(super) fn bare(seed: u64) -> Rig {
    let tops = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
    let mut rig = Rig::with_features(tops, features_and(&NAMES));
    remove(&mut rig, 1, seed, true);
    rig
}

/// Files are written over, cut, and gone, group by group; then the snapshot goes.
async fn overwrite(live: Live, left: Left<Model>, first: Model) {
    let (mut model, mut random) = (first, Prng::new(9));
    left.leaves(model.clone());
    live.freeing().set_blocks_max(20);
    let tank = files(&live, "tank").await;
    let old = number(&live, "tank@old").await;
    for group in 0..5 {
        if left.is_cut() {
            return;
        }
        for _ in 0..4 {
            change(&tank, &mut model, &mut random).await;
        }
        left.leaves(model.clone());
        let done = match group {
            1 => {
                let gone = live.task(async |tasks| tasks.destroy_snapshot(old, false).await).await;
                gone.map(|done| done.expect("it goes"))
            }
            _ => live.sync(async |_| Ok(())).await,
        };
        if done.is_err() {
            return;
        }
        left.is_done();
    }
}

#[test]
fn a_cut_at_any_write_leaves_what_is_obsolete_and_what_is_free_of_one_group() {
    fixtures::takes_long!();
    let tops = vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)];
    let (mut base, model) = filled(tops, 6);
    remove(&mut base, 1, 6, true);
    at_each_write(&base, 11, |disk, write| {
        let first = model.clone();
        let work = async move |live, left| overwrite(live, left, first).await;
        let look = async |spa: &Spa, state: Model| {
            check_space(spa, "after a cut").await;
            compare(&files_of(spa, "tank").await, &state).await;
        };
        cut_at(&base, disk, write, work, look)
    });
}
