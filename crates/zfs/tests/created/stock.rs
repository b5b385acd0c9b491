//! Pools as OpenZFS leaves them, with logs of space maps, written: the logs are taken over, and flushed in their time.
//!
//! What could break: what only a log has is taken for free or for allocated; what a map has already is carried out again; what is
//! said of a vdev that is gone; a number that is left in an array without its log, so that OpenZFS doesn't open the
//! pool; a count of a feature; a cut in between.

use super::cuts::{Left, at_each_write, cut_at, look_at_files};
use super::{Model, Rig, change, features_and, manifest, raidz, top};
use fixtures::extent::some;
use rt::DeviceRef;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::Prng;
use zfs::dmu::{NewObject, Objset};
use zfs::dsl::catalog::Node;
use zfs::dsl::make::{Fresh, Maker};
use zfs::dsl::property::view::Kind;
use zfs::inspect::claims::Claims;
use zfs::inspect::count::BlockCount;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::{NewDataset, Tasks};
use zfs::spa::live::{Live, LiveError};
use zfs::spa::maps::{BLOCK_BYTES, MapForm, MapPlace, append, set_number};
use zfs::zap::{Zap, table};
use zfs::zpl::FileSystem;
use zfs_format::Endian;
use zfs_format::block_pointer::Dva;
use zfs_format::object_type::{ByteSwap, ObjectType};
use zfs_format::objset::ObjsetKind;
use zfs_format::pool_directory::{self, top_vdev};
use zfs_format::space_map::{Change, Entry, HISTOGRAM_BUCKETS, LONG_BYTES, SpaceMapHeader, encode};
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::Changes;

const METADATA_TABLE: ObjectType = ObjectType::new(ByteSwap::Zap, true, false);
const METADATA_NUMBERS: ObjectType = ObjectType::new(ByteSwap::Uint64, true, false);
/// A vdev of which logs speak and that is not there.
const GONE: u32 = 9;

/// An entry of a log; offset and length in bytes.
fn entry(change: Change, vdev: u32, offset: u64, len: u64) -> Entry {
    Entry::Long { change, vdev, offset: offset >> 9, run: len >> 9 }
}

/// Makes the log of a group, and enters it.
async fn log(mos: &Objset, logs: &zfs::dmu::Dnode, txg: u64, entries: &[Entry]) {
    let header = SpaceMapHeader {
        object: 0,
        length: 0,
        allocated: 0,
        histogram: Some([0; HISTOGRAM_BUCKETS]),
    };
    let new = NewObject::of(ObjectType::SPACE_MAP, 128 << 10)
        .with_bonus(ObjectType::SPACE_MAP_HEADER, header.encode(Endian::Little));
    let object = mos.make(&new).await.expect("it is made");
    say(mos, &object, entries).await;
    let name = format!("{txg:x}");
    table::set(mos, logs, &name, table::number(object.number())).await.expect("it is entered");
}

/// Puts entries behind what a log says.
async fn say(mos: &Objset, object: &zfs::dmu::Dnode, entries: &[Entry]) {
    let header = SpaceMapHeader::decode(&object.phys().bonus, object.endian()).expect("one");
    let bytes = rt::Buf::copy_of(&encode(entries, object.endian()).expect("entries"));
    let allocated = entries.iter().map(|entry| match entry {
        Entry::Long { change: Change::Allocate, run, .. } => run.cast_signed(),
        Entry::Long { change: Change::Free, run, .. } => -run.cast_signed(),
        _ => 0,
    });
    let at = header.length;
    let header = SpaceMapHeader {
        object: object.number(),
        length: at + bytes.len() as u64,
        allocated: header.allocated + (allocated.sum::<i64>() << 9),
        ..header
    };
    let header = header.encode(object.endian());
    let done = mos.change(|tx| {
        object.plan_write(at..at + bytes.len() as u64)?;
        object.write(tx, at, &bytes);
        object.set_bonus(tx, header.clone());
        Ok(())
    });
    done.await.expect("it is written");
}

/// Puts changes behind what a metaslab's map says, behind the back of who has it loaded.
async fn put(live: &Live, txg: u64, (vdev, slab): (u32, usize), allocated: &[Dva], freed: &[Dva]) {
    let (map, start, unit) = live.syncer().writer().space(|space| {
        let slabs = space.metaslabs(vdev).expect("it is known");
        (slabs.slabs()[slab].map, slabs.start(slab), slabs.unit())
    });
    let ranges = |dvas: &[Dva]| {
        dvas.iter().map(|dva| dva.offset()..dva.offset() + dva.allocated()).collect()
    };
    let changes = Changes { allocated: ranges(allocated), freed: ranges(freed) };
    let mos = live.syncer().mos();
    let map = mos.dnode(map).await.expect("the metaslab was used");
    let form = MapForm { long_entries: true, block_bytes: BLOCK_BYTES };
    let (place, group) = (MapPlace { start, unit }, (txg, 1));
    append(mos, &map, form, place, group, &changes, Vec::new).await.expect("it is written");
}

/// Leaves a pool as OpenZFS would, in the group in which the feature is enabled: what two files' blocks are, and that something else is
/// free, stands in logs only.
async fn unfold(live: &Live, maker: &Maker<'_>, taken: &[Dva]) {
    let (mos, txg) = (maker.mos, maker.txg);
    let directory = mos.dnode(pool_directory::OBJECT).await.expect("it is there");
    let logs = maker.table(METADATA_TABLE).await.expect("it is made");
    let entered = table::number(logs.number());
    table::set(mos, &directory, pool_directory::LOG_SPACE_MAPS, entered).await.expect("entered");
    // The three groups before this one have each a log. Metaslabs' maps are whole up to the second or the third.
    let groups = [txg - 3, txg - 2, txg - 1];
    let mut entries: [Vec<Entry>; 3] = Default::default();
    let tops = live.syncer().config().root.children;
    for top in &tops {
        let vdev = top.id as u32;
        let numbers = NewObject::of(METADATA_NUMBERS, 128 << 10);
        let array = mos.make(&numbers).await.expect("it is made");
        let zap = top.other_number("com.delphix:vdev_zap_top").expect("it has one");
        let zap = mos.dnode(zap).await.expect("it is there");
        let named = table::number(array.number());
        table::set(mos, &zap, top_vdev::UNFLUSHED, named).await.expect("it is set");
        let slabs: Vec<(usize, u64, u64)> = live.syncer().writer().space(|space| {
            let slabs = space.metaslabs(vdev).expect("it is known");
            let used = slabs.slabs().iter().enumerate().filter(|(_, slab)| slab.map != 0);
            used.map(|(n, _)| (n, slabs.start(n), slabs.bytes(n))).collect()
        });
        for (slab, start, bytes) in slabs {
            let is_late = slab % 2 == 1;
            let flushed = if is_late { groups[2] } else { groups[1] };
            set_number(mos, &array, slab, flushed).await.expect("it is set");
            let within =
                |dva: &&Dva| dva.vdev() == vdev && (start..start + bytes).contains(&dva.offset());
            let here: Vec<Dva> = taken.iter().filter(within).copied().collect();
            // Nothing is written to the end of a metaslab for long; one that has it in use is left alone.
            let unit = 3 << 12;
            let end = Dva::new(vdev, start + bytes / unit * unit - unit, unit, false);
            let is_free = live.syncer().writer().space(|space| !space.holds(&end));
            let free: &[Dva] = if is_free { &[end] } else { &[] };
            put(live, txg, (vdev, slab), free, &here).await;
            // The map has what the groups before say, and would contradict it.
            let before = usize::from(is_late);
            for dva in &here {
                let [offset, len] = [dva.offset(), dva.allocated()];
                entries[before].push(entry(Change::Free, vdev, offset, len));
                // Taken, given back, taken: the net is once.
                entries[2].push(entry(Change::Allocate, vdev, offset, len));
                entries[2].push(entry(Change::Free, vdev, offset, len));
                entries[2].push(entry(Change::Allocate, vdev, offset, len));
            }
            for dva in free {
                entries[before].push(entry(Change::Allocate, vdev, dva.offset(), dva.allocated()));
                let third = dva.allocated() / 3;
                entries[2].push(entry(Change::Free, vdev, dva.offset(), third));
                entries[2].push(entry(Change::Free, vdev, dva.offset() + third, 2 * third));
            }
        }
    }
    entries[2].push(Entry::Note { action: 0, pass: 1, txg: groups[2] });
    for (group, entries) in groups.iter().zip(&entries) {
        assert!(!entries.is_empty());
        log(mos, &logs, *group, entries).await;
    }
    maker.count_use("log_spacemap", 1).await.expect("it is counted");
    maker.count_use("spacemap_histogram", 3).await.expect("it is counted");
}

/// A pool with files and with logs of space maps; and what is in its files.
fn left_with_logs(tops: Vec<Vdev>) -> (Rig, Model) {
    let rig = Rig::with_features(tops, features_and(&["spacemap_histogram"]));
    let model: Rc<RefCell<Model>> = Rc::default();
    let kept = Rc::clone(&model);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        write(&live, &mut kept.borrow_mut(), &mut Prng::new(5), 40).await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        let mut taken = Vec::new();
        let mut walk = live.spa().walk();
        while let Some(met) = walk.next().await {
            let pointer = met.expect("it is read").pointer;
            if pointer.object_type() == ObjectType::PLAIN_FILE_CONTENTS && pointer.level() == 0 {
                taken.extend(pointer.dvas());
            }
        }
        assert!(taken.len() > 10, "{} blocks", taken.len());
        drop(walk);
        let done = live.task(async |tasks: &Tasks<'_>| {
            tasks.enable_features(&["log_spacemap"]).await?;
            unfold(&live, tasks.maker, &taken).await;
            Ok(Ok(()))
        });
        done.await.expect("it is written").expect("it is done");
    });
    let model = model.borrow().clone();
    (rig, model)
}

/// Changes files of the root file system.
async fn write(live: &Live, model: &mut Model, random: &mut Prng, changes: usize) {
    let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
    let files = live.files(&node).await.expect("it opens");
    for _ in 0..changes {
        change(&files, model, random).await;
    }
}

/// Claims of all blocks, each of which has its space.
pub(super) async fn claimed(spa: &Spa, what: &str) -> Claims {
    counted(spa, what).await.0
}

async fn counted(spa: &Spa, what: &str) -> (Claims, BlockCount) {
    let mut claims = spa.claims().await.expect("the space maps are read");
    let mut count = BlockCount::default();
    let mut walk = spa.walk();
    while let Some(met) = walk.next().await {
        let visited = met.expect("it is read");
        count.add(&visited);
        claims.claim(spa, &visited).await.expect("it has its space");
    }
    assert!(claims.faults.is_empty(), "{what}: {:?}", claims.faults);
    (claims, count)
}

/// Each block has its space, all space its block, and all sums say so; what of removed vdevs nobody names is counted.
pub(super) async fn check_space(spa: &Spa, what: &str) {
    let (claims, count) = counted(spa, what).await;
    let miscounted = spa.miscounted(&claims).await.expect("they are read");
    assert!(miscounted.is_empty(), "{what}: {miscounted:?}");
    let left: u64 = claims.left().map(|(_, left)| left.allocated()).sum();
    assert_eq!(left, 0, "{what}: nothing is left over");
    let shared = claims.deduplicated + claims.cloned;
    assert_eq!(count.total().allocated - shared + claims.checkpoint, claims.allocated(), "{what}");
    let space = spa.space().await.expect("it is read");
    let by_headers: u64 = space.vdevs.values().map(|vdev| vdev.allocated).sum();
    assert_eq!(by_headers, claims.allocated(), "{what}: as headers say");
}

/// Whether a pool has anything of logs of space maps, and how often its features say so: beside the maps of metaslabs, which are counted
/// where they have histograms.
pub(super) async fn of_logs(spa: &Spa) -> (usize, bool, u64, u64) {
    let open = async |number: u64| {
        Zap::open(spa.mos().dnode(number).await.expect("an object")).await.expect("a table")
    };
    let directory = open(pool_directory::OBJECT).await;
    let logs = match directory.number(pool_directory::LOG_SPACE_MAPS).await.expect("read") {
        Some(logs) => open(logs).await.len() as usize,
        None => 0,
    };
    let (mut has_arrays, mut of_slabs) = (false, 0);
    for top in &spa.vdevs().children {
        // A vdev that was removed has none.
        if let Some(array) = top.metaslab_array.filter(|array| *array != 0) {
            let array = spa.mos().dnode(array).await.expect("an object");
            let maps = array.block(0).await.expect("it is read").bytes;
            let maps = maps.bytes().chunks_exact(8);
            for map in maps.map(|map| u64::from_le_bytes(map.try_into().expect("8"))) {
                if map != 0 {
                    let map = spa.mos().dnode(map).await.expect("an object");
                    of_slabs += u64::from(map.phys().bonus.len() >= LONG_BYTES);
                }
            }
        }
        let zap = top.other_number("com.delphix:vdev_zap_top").expect("it has one");
        has_arrays |= open(zap).await.number(top_vdev::UNFLUSHED).await.expect("read").is_some();
    }
    let uses = |guid: &str| {
        spa.features().iter().find(|feature| feature.guid == guid).map_or(0, |one| one.count)
    };
    // What a pool that is open counts is as of its opening.
    let of_others = uses("com.delphix:spacemap_histogram").saturating_sub(of_slabs);
    (logs, has_arrays, uses("com.delphix:log_spacemap"), of_others)
}

fn taken_over(tops: Vec<Vdev>) {
    let (rig, model) = left_with_logs(tops);
    // What we made is what OpenZFS means by it.
    rig.judge_midway();
    let model = Rc::new(RefCell::new(model));
    let kept = Rc::clone(&model);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        assert_eq!(of_logs(&spa).await, (3, true, 1, 3));
        check_space(&spa, "with logs").await;
        let txg = spa.uberblock().txg;
        drop(Live::open(Rc::clone(&spa), &fresh).await.expect("it opens for writing"));
        assert_eq!(spa.uberblock().txg, txg, "nothing was written");
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut random = Prng::new(6);
        for _ in 0..4 {
            write(&live, &mut kept.borrow_mut(), &mut random, 8).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
            check_space(live.spa(), "while it is written").await;
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    let kept = Rc::clone(&model);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        assert_eq!(of_logs(&spa).await, (1, true, 1, 1));
        check_space(&spa, "taken over").await;
        look_at_files(&spa, kept.borrow().clone()).await;
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        write(&live, &mut kept.borrow_mut(), &mut Prng::new(7), 8).await;
        live.close(LabelState::Exported).await.expect("it is closed");
        check_space(live.spa(), "again").await;
    });
    rig.judge();
}

fn log_top(id: u64) -> Vdev {
    let mut log = top(id, VdevKind::File, 1);
    log.is_log = Some(1);
    log
}

#[test]
fn logs_of_space_maps_are_taken_over_and_flushed_at_the_end() {
    fixtures::takes_long!();
    taken_over(vec![top(0, VdevKind::File, 1)]);
    taken_over(vec![top(0, VdevKind::Mirror, 2), top(1, raidz(1), 3), log_top(2)]);
}

/// What contradicts the maps, lies in no metaslab or in two, keeps the pool from being written.
#[test]
fn a_log_that_can_not_be_so_keeps_the_pool_from_being_written() {
    let (rig, _) = left_with_logs(vec![top(0, VdevKind::File, 1)]);
    let stride = rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        live.syncer().writer().space(|space| space.metaslabs(0).expect("known").stride())
    });
    let wrong = "of a log of space maps";
    for (what, expected) in [
        // In front of the first metaslab's end, and in the next one; behind the last one; not allocated.
        (entry(Change::Allocate, 0, stride - 4096, 8192), wrong),
        (entry(Change::Free, 0, stride * 1000, 4096), wrong),
        (entry(Change::Free, 0, stride - 3 * 4096, 4096), wrong),
        // Of a vdev that was removed since.
        (entry(Change::Free, GONE, stride - 4096, 8192), ""),
    ] {
        let spoilt = rig.fork();
        spoilt.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let done = live.sync(async |maker| {
                let directory = Zap::open(maker.mos.dnode(pool_directory::OBJECT).await?).await?;
                let logs = directory.number(pool_directory::LOG_SPACE_MAPS).await?.expect("some");
                let logs = Zap::open(maker.mos.dnode(logs).await?).await?;
                // That of the group before this one: no map has what it says.
                let newest = logs.get(format!("{:x}", maker.txg - 2).as_bytes()).await?;
                let newest = newest.and_then(|value| value.number()).expect("it is there");
                say(maker.mos, &maker.mos.dnode(newest).await?, &[what]).await;
                Ok(())
            });
            done.await.expect("it is written");
        });
        spoilt.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let refused = Live::open(spa, &fresh).await.err();
            let text = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(
                text.contains(expected) && text.is_empty() == expected.is_empty(),
                "{what:?}: {text}"
            );
        });
    }
}

/// The groups that take the logs over.
#[test]
fn a_cut_at_any_write_leaves_logs_and_maps_that_agree() {
    fixtures::takes_long!();
    let (base, model) = left_with_logs(vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)]);
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    at_each_write(&base, 3, |disk, write_number| {
        let (model, seen) = (model.clone(), Rc::clone(&seen));
        let work = async move |live: Live, left: Left<Model>| {
            let (mut model, mut random) = (model, Prng::new(11));
            left.leaves(model.clone());
            for _ in 0..2 {
                write(&live, &mut model, &mut random, 3).await;
                left.leaves(model.clone());
                if live.sync(async |_| Ok(())).await.is_err() {
                    return;
                }
                left.is_done();
            }
        };
        let look = async move |spa: &Spa, state: Model| {
            let found = of_logs(spa).await;
            // The oldest log goes with the first group, whose log comes.
            assert!([(3, true, 1, 3), (4, true, 1, 4)].contains(&found), "{found:?}");
            seen.borrow_mut().insert(found);
            check_space(spa, "after a cut").await;
            look_at_files(spa, state).await;
        };
        cut_at(&base, disk, write_number, work, look)
    });
    assert_eq!(seen.borrow().len(), 2, "cuts before it and after it");
}

/// Fixtures that are only read, and why.
const REFUSED: [(&str, &str); 3] = [
    ("dedup-bclone", "com.klarasystems:fast_dedup"),
    ("encrypted", "com.datto:encryption"),
    ("streams", "com.datto:encryption"),
];

/// The file system that is made in a stock pool.
const OURS: &str = "spindle";

/// All file systems and volumes of a pool, the top first.
async fn all_nodes(live: &Live) -> Vec<Rc<Node>> {
    let catalog = live.spa().catalog(0).await.expect("read");
    let (mut all, mut waiting) = (Vec::new(), vec![catalog.root().await.expect("there")]);
    while let Some(node) = waiting.pop() {
        waiting.extend(catalog.children(&node).await.expect("read"));
        all.push(node);
    }
    all
}

async fn dataset_of(live: &Live, name: &str) -> u64 {
    let found = live.spa().dsl().find(name).await.expect("read");
    found.unwrap_or_else(|| panic!("{name} is there")).1.number
}

/// Takes snapshots of all that a pool holds, changes it, and takes it all back.
async fn change_and_take_back(live: &Live, random: &mut Prng) {
    let nodes = all_nodes(live).await;
    let numbers: Vec<u64> = nodes.iter().map(|node| node.head.number).collect();
    let snapshots = live.task(async |tasks| {
        for number in &numbers {
            tasks.snapshot(*number, "spindle").await?.expect("it is taken");
        }
        Ok(Ok(()))
    });
    snapshots.await.expect("written").expect("done");
    for node in nodes.iter().filter(|node| node.kind == Kind::FileSystem) {
        let files = live.files(node).await.expect("it opens");
        let (mut model, root) = (Model::new(), files.root().await.expect("read"));
        for _ in 0..4 {
            change(&files, &mut model, random).await;
        }
        // What is there is changed, too.
        for one in files.names(&root).await.expect("read") {
            let there = files.node(one.entry.object).await.expect("read");
            if !there.is_directory() && !model.contains_key(&there.number()) {
                files.unlink(root.number(), &one.name).await.expect("it goes");
            }
        }
    }
    live.sync(async |_| Ok(())).await.expect("it is written");
    check_space(live.spa(), "changed").await;
    for node in nodes {
        let name = &node.directory.name;
        let snapshot = dataset_of(live, &format!("{name}@spindle")).await;
        let number = node.head.number;
        let back = live.task(async |tasks| tasks.rollback(number, snapshot).await);
        back.await.expect("written").unwrap_or_else(|error| panic!("{name}: {error}"));
        let gone = live.task(async |tasks| tasks.destroy_snapshot(snapshot, false).await);
        gone.await.expect("written").unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    live.finish_freeing().await.expect("it is freed");
}

/// Writes to a fixture's pool. Gives the reason where it is only read.
fn written(folder: &std::path::Path, name: &str) -> Result<(), LiveError> {
    let manifest = fixtures::manifest(folder, name);
    let pool = manifest["pool"].as_str().expect("a pool").to_owned();
    // Devices that are missing, or whose content is old, are so still when it is written.
    let disks = fixtures::disks(folder, name).into_iter().map(|disk| disk.first_partition());
    let disks = (0..).zip(disks.map(|disk| disk.device())).collect();
    let fresh: Rc<dyn Fresh> = Rc::new(super::Seeded(Cell::new(Prng::new(3))));
    let rig = Rig::over(disks, fresh);
    let is_whole = !["corrupt-", "degraded-", "missing-"].iter().any(|one| name.starts_with(one));
    let model: Rc<RefCell<Model>> = Rc::default();
    for round in 0..2 {
        let (kept, pool) = (Rc::clone(&model), pool.clone());
        let all: Vec<DeviceRef> = rig.devices().into_values().collect();
        rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            assert_eq!(spa.name(), pool, "the fixture has one pool");
            let live = Live::open(spa, &fresh).await?;
            let ours = format!("{pool}/{OURS}");
            if round == 0 {
                let above = live.spa().dsl().find(&pool).await.expect("read").expect("there").0;
                let new =
                    NewDataset { name: OURS.to_owned(), owner: (0, 0), properties: Vec::new() };
                let made = live
                    .task(async |tasks| Ok(tasks.create(above.number, &new).await?.map(|_| ())));
                made.await.expect("written").expect("it is made");
            }
            let catalog = live.spa().catalog(0).await.expect("read");
            let node = catalog.find(&ours).await.expect("read").expect("it is there");
            let files = live.files(&node).await.expect("it opens");
            let mut random = Prng::new(20 + round);
            for _ in 0..3 {
                for _ in 0..6 {
                    change(&files, &mut kept.borrow_mut(), &mut random).await;
                }
                live.sync(async |_| Ok(())).await.expect("it is written");
            }
            drop(files);
            change_and_take_back(&live, &mut random).await;
            check_space(live.spa(), &format!("{pool} in round {round}")).await;
            live.close(LabelState::Exported).await.expect("it is closed");
            Ok::<_, LiveError>(())
        })?;
    }
    let (kept, label) = (Rc::clone(&model), pool.clone());
    let is_replayed = name.starts_with("zil");
    rig.with(async move |spa: Rc<Spa>, _| {
        assert!(of_logs(&spa).await.0 <= 1, "an export leaves the log of its group");
        check_space(&spa, &label).await;
        let files = super::files_of(&spa, &format!("{label}/{OURS}")).await;
        super::compare(&files, &kept.borrow()).await;
        same_as(&spa, &manifest, !is_replayed).await;
    });
    judge(&rig, &pool, is_whole);
    Ok(())
}

/// Everything is as the manifest of a fixture says.
async fn same_as(spa: &Spa, manifest: &serde_json::Value, times: bool) {
    let datasets = manifest["datasets"].as_object().expect("datasets");
    for (name, says) in datasets.iter().filter(|(name, _)| !name.contains('#')) {
        let found = spa.dsl().find(name).await.expect("read");
        let (directory, dataset) = found.unwrap_or_else(|| panic!("{name} is there"));
        let objset = spa.objset(&directory, &dataset).await;
        let objset = objset.unwrap_or_else(|error| panic!("{name}: {error}"));
        match objset.root().kind {
            ObjsetKind::Volume => drop(manifest::volume(&objset, name, says).await),
            _ => {
                let below = manifest::mounted_below(datasets, name);
                let files = FileSystem::open(&objset).await.expect("it opens");
                manifest::same_files(&files, name, says, &below, times).await;
            }
        }
    }
}

/// What `zdb` says of a pool, if it isn't older than the pool. Of one that lacks devices, or has old or wrong ones, it says what it
/// can't read, and that space is right.
fn judge(rig: &Rig, pool: &str, is_whole: bool) {
    if is_whole {
        rig.check();
    }
    let folder = rig.dumped();
    let place = folder.path().to_str().expect("a path");
    let asked = if is_whole { "-bccdddd" } else { "-bcc" };
    let Some(said) = fixtures::zdb::zdb(["-e", "-p", place, asked, pool]) else { return };
    let (text, errors) = (&said.text, &said.errors);
    if !said.is_well && (errors.contains("unsupported") || errors.contains("not supported")) {
        return;
    }
    assert!(text.contains("No leaks (block sum matches space maps exactly)"), "{text}\n{errors}");
    assert!(!is_whole || said.is_well && !text.contains(") leaked"), "{text}\n{errors}");
}

#[test]
fn stock_pools_are_written_and_all_that_was_in_them_stays() {
    fixtures::takes_long!();
    let Some(folder) = fixtures::folder("zfs") else { return };
    let only = std::env::var("FIXTURE").ok();
    let (mut count, mut failed) = (0, Vec::new());
    for name in some(fixtures::names(&folder), 9) {
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let (folder, its) = (folder.clone(), name.clone());
        let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
        match (std::panic::catch_unwind(move || written(&folder, &its)), refused) {
            (Ok(Ok(())), None) => {
                println!("{name}: written");
                count += 1;
            }
            (Ok(Err(error)), Some((_, why))) if error.to_string().contains(why) => {
                println!("{name}: refused: {error}");
            }
            (Ok(ended), _) => {
                println!("{name}: {ended:?}");
                failed.push(name);
            }
            (Err(_), _) => failed.push(name),
        }
    }
    assert!(failed.is_empty(), "{} failed: {}", failed.len(), failed.join(", "));
    println!("{count} written");
}
