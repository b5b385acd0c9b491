//! What is allocated, as maps and logs say it: maps that grow with each group, and are written anew when they say little in many words;
//! logs of space maps, that wait until maps are told what they have.
//!
//! What could break: a map that is written anew forgets what is allocated, or has what isn't; what the same group changes after that;
//! maps that grow for ever. A metaslab that is flushed and isn't told all; a number that says of a map what isn't so; a log that goes
//! while a map waits for it, or never; what comes after an export.

use super::cuts::{Left, at_each_write, cut_at, look_at_files};
use super::datasets::files;
use super::stock::{check_space, of_logs};
use super::{MAP_LOGS, Model, Rig, change, compare, features, features_and, new_file};
use super::{raidz, root_files, top};
use fixtures::extent::{by_extent, some};
use rt::filter::Stats;
use rt::{Buf, DeviceRef, OpKind};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{Prng, RangeSet};
use zfs::dsl::make::Fresh;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::spa::maps::MapForm;
use zfs::spa::{OpenOptions, Spa, find};
use zfs_format::block_pointer::Dva;
use zfs_format::space_map::SpaceMapHeader;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_store::alloc::{Class, Metaslabs};

/// Logs that a pool has at the most, that of the last group among them.
const LOGS_MAX: usize = 128;

/// Bytes of each map that count.
pub(crate) async fn lengths(live: &Live) -> Vec<u64> {
    let maps: Vec<u64> = live.syncer().writer().space(|space| {
        let slabs = space.metaslabs(0).expect("it is known");
        slabs.slabs().iter().map(|slab| slab.map).collect()
    });
    let mut lengths = Vec::new();
    for map in maps {
        lengths.push(match map {
            0 => 0,
            map => {
                let map = live.spa().mos().dnode(map).await.expect("it is read");
                let header = SpaceMapHeader::decode(&map.phys().bonus, map.endian());
                header.expect("it is one").length
            }
        });
    }
    lengths
}

const BLOCK: usize = 512;
const BLOCKS: usize = 200;

/// Writes blocks of a file anew.
async fn overwrite(live: &Live, content: &mut [u8], random: &mut Prng, blocks: usize) {
    let files = files(live, "tank").await;
    for _ in 0..blocks {
        let at = random.below(BLOCKS as u64) as usize * BLOCK;
        random.fill(&mut content[at..at + BLOCK]);
        let block = Buf::copy_of(&content[at..at + BLOCK]);
        files.write(100, at as u64, &block, (at + BLOCK) as u64).await.expect("it is written");
    }
}

/// Makes a file of so many blocks.
async fn make_file(live: &Live, random: &mut Prng) -> Vec<u8> {
    let files = files(live, "tank").await;
    files.set_record_bytes(BLOCK as u64);
    files.create(files.root_number(), b"one", &new_file(100)).await.expect("it is made");
    let mut content = vec![0; BLOCKS * BLOCK];
    random.fill(&mut content);
    let all = Buf::copy_of(&content);
    files.write(100, 0, &all, all.len() as u64).await.expect("it is written");
    content
}

fn small_sectors() -> Vec<Vdev> {
    let mut one = top(0, VdevKind::File, 1);
    one.ashift = Some(9);
    vec![one]
}

#[test]
fn a_map_that_says_little_in_many_words_is_written_anew() {
    fixtures::takes_long!();
    let rig = Rig::new(small_sectors());
    let model = rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut random = Prng::new(6);
        let mut content = make_file(&live, &mut random).await;
        let (mut before, mut anew, mut longest) = (lengths(&live).await, 0, 0);
        for _ in 0..by_extent(150, 300) {
            overwrite(&live, &mut content, &mut random, 30).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
            let now = lengths(&live).await;
            anew += before.iter().zip(&now).filter(|(before, now)| now < before).count();
            longest = longest.max(now.iter().copied().max().unwrap_or(0));
            before = now;
        }
        assert!(
            anew >= by_extent(1, 2) && longest < 40_000,
            "{anew} times anew, {longest} bytes at the most"
        );
        assert!(!live.syncer().has_map_logs());
        live.close(LabelState::Exported).await.expect("it is closed");
        [(100, content)].into()
    });
    rig.judge();
    rig.with(async move |spa: Rc<Spa>, _| compare(&root_files(&spa).await, &model).await);
}

/// The same where maps are told of changes by logs, from when that was enabled on. Maps have the blocks that they had before.
#[test]
fn a_map_that_logs_wait_for_is_written_anew_when_it_is_flushed() {
    fixtures::takes_long!();
    let rig = Rig::with_features(small_sectors(), features_and(&["spacemap_histogram"]));
    let content: Rc<RefCell<Vec<u8>>> = Rc::default();
    let random = Rc::new(RefCell::new(Prng::new(7)));
    let mut anew = 0;
    for round in 0..24 {
        let (content, random) = (Rc::clone(&content), Rc::clone(&random));
        anew += rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let (mut content, mut random) = (content.borrow_mut(), random.borrow_mut());
            if round == 0 {
                *content = make_file(&live, &mut random).await;
                let enabled = live
                    .task(async |tasks| Ok(Ok(tasks.enable_features(&["log_spacemap"]).await?)));
                enabled.await.expect("it is written").expect("it is done");
                assert!(live.syncer().has_map_logs());
                assert_eq!(of_logs(live.spa()).await.0, 0, "the group that enables them has none");
            }
            let form = MapForm { long_entries: true, block_bytes: 4096 };
            live.syncer().set_map_form(form);
            let before = lengths(&live).await;
            for _ in 0..10 {
                overwrite(&live, &mut content, &mut random, 40).await;
                live.sync(async |_| Ok(())).await.expect("it is written");
            }
            live.close(LabelState::Exported).await.expect("it is closed");
            let now = lengths(&live).await;
            before.iter().zip(&now).filter(|(before, now)| now < before).count()
        });
    }
    assert!(anew >= 1, "{anew} times anew");
    rig.judge();
    let model: Model = [(100, content.borrow().clone())].into();
    rig.with(async move |spa: Rc<Spa>, _| {
        check_space(&spa, "at the end").await;
        compare(&root_files(&spa).await, &model).await;
    });
}

/// What is allocated of each metaslab.
type Allocated = BTreeMap<(u32, usize), RangeSet>;

fn of_slabs(vdev: u32, slabs: &Metaslabs) -> impl Iterator<Item = ((u32, usize), RangeSet)> {
    slabs.slabs().iter().enumerate().map(move |(n, slab)| ((vdev, n), slab.allocated.clone()))
}

fn in_memory(live: &Live) -> Allocated {
    live.syncer().writer().space(|space| {
        let vdevs: Vec<u32> = space.vdevs().collect();
        let of = |vdev: &u32| {
            of_slabs(*vdev, space.metaslabs(*vdev).expect("known")).collect::<Vec<_>>()
        };
        vdevs.iter().flat_map(of).collect()
    })
}

/// What maps and logs of a group say on the devices: nothing in it contradicts itself.
async fn on_disk(live: &Live, devices: &[DeviceRef], txg: Option<u64>) -> Allocated {
    let found = find(devices).await;
    let options = OpenOptions { txg, ..OpenOptions::default() };
    let spa = Spa::open(live.spa().rt(), &found.pools[0], options).await.expect("it opens");
    let claims = spa.claims().await.expect("maps and logs are read");
    assert!(claims.faults.is_empty(), "{:?}", claims.faults);
    claims.left().flat_map(|(vdev, slabs)| of_slabs(vdev, slabs)).collect()
}

/// The shadow of WRITER-TRAPS 12, over logs: a plain list of what is allocated, by group, beside what maps and logs say, at each commit
/// and of the groups before; the pool is opened anew with logs that an earlier life left.
fn shadow(seed: u64, tops: Vec<Vdev>) {
    let rig = Rig::with_map_logs(tops);
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    let model: Rc<RefCell<Model>> = Rc::default();
    let mut most = 0;
    for round in 0..by_extent(3, 8) {
        let (kept, random) = (Rc::clone(&model), Rc::clone(&random));
        let devices: Vec<DeviceRef> = rig.devices().into_values().collect();
        let logs = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let (mut random, mut model) = (random.borrow_mut(), kept.borrow_mut());
            let files = files(&live, "tank").await;
            let mut states: BTreeMap<u64, Allocated> = BTreeMap::new();
            let mut most = 0;
            for _ in 0..14 {
                for _ in 0..4 {
                    change(&files, &mut model, &mut random).await;
                }
                live.sync(async |_| Ok(())).await.expect("it is written");
                let txg = live.spa().uberblock().txg;
                let now = in_memory(&live);
                assert!(on_disk(&live, &devices, None).await == now, "group {txg}");
                states.insert(txg, now);
                if let Some(before) = states.get(&(txg - 2)) {
                    let then = on_disk(&live, &devices, Some(txg - 2)).await;
                    assert!(then == *before, "group {}, in {txg}", txg - 2);
                }
                most = most.max(of_logs(live.spa()).await.0);
            }
            drop(files);
            if round % 3 == 2 {
                live.close(LabelState::Exported).await.expect("it is closed");
                assert_eq!(of_logs(live.spa()).await.0, 1);
                assert!(on_disk(&live, &devices, None).await == in_memory(&live));
            }
            most
        });
        most = most.max(logs);
    }
    // Three lives of so many groups lie between two exports.
    assert!((5..=3 * 14 + 1).contains(&most), "{most} logs: they are kept, and go");
    rig.judge();
    let model = model.borrow().clone();
    rig.with(async move |spa: Rc<Spa>, _| {
        check_space(&spa, "at the end").await;
        look_at_files(&spa, model).await;
    });
}

#[test]
fn maps_and_logs_say_at_each_commit_what_is_allocated() {
    fixtures::takes_long!();
    let pools = [
        (1, vec![top(0, VdevKind::Mirror, 2)]),
        (2, vec![top(0, raidz(1), 3), top(1, VdevKind::File, 1)]),
    ];
    for (seed, tops) in some(pools, 1) {
        shadow(seed, tops);
    }
}

/// One metaslab of a pool changes, for long: nothing asks for it to be flushed but the number of logs.
#[test]
fn logs_are_few_however_long_a_pool_is_written() {
    fixtures::takes_long!();
    let rig = Rig::with_map_logs(vec![top(0, VdevKind::File, 1)]);
    let devices: Vec<DeviceRef> = rig.devices().into_values().collect();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut random = Prng::new(3);
        let mut content = make_file(&live, &mut random).await;
        let mut most = 0;
        for group in 0..2 * LOGS_MAX {
            overwrite(&live, &mut content, &mut random, 1).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
            most = most.max(of_logs(live.spa()).await.0);
            if group % 50 == 0 {
                assert!(on_disk(&live, &devices, None).await == in_memory(&live), "group {group}");
            }
        }
        assert!((LOGS_MAX / 2..=LOGS_MAX).contains(&most), "{most} logs");
        // A group that changes nothing has no log.
        let before = of_logs(live.spa()).await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        assert_eq!(of_logs(live.spa()).await, before);
    });
    // It was left unclean.
    rig.judge();
}

/// WRITER-TRAPS 15: nothing is flushed or written anew after the last group of an export, and what comes is of the next life.
#[test]
fn after_an_export_nothing_is_written_and_one_log_is_left() {
    fixtures::takes_long!();
    let rig = Rig::with_map_logs(vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)]);
    for round in 0..3 {
        let last = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let files = files(&live, "tank").await;
            // What an earlier round wrote goes unmodelled.
            let (mut model, mut random) = (Model::new(), Prng::new(round));
            for _ in 0..6 {
                for _ in 0..3 {
                    change(&files, &mut model, &mut random).await;
                }
                live.sync(async |_| Ok(())).await.expect("it is written");
            }
            let root = files.root_number();
            for number in model.keys() {
                files.unlink(root, format!("file {number}").as_bytes()).await.expect("it goes");
            }
            drop(files);
            live.close(LabelState::Exported).await.expect("it is closed");
            assert!(!live.is_dirty() && !live.syncer().mos().is_dirty());
            live.spa().uberblock().txg
        });
        rig.judge();
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            assert_eq!((spa.uberblock().txg, of_logs(&spa).await), (last, (1, true, 1, 1)));
            drop(Live::open(Rc::clone(&spa), &fresh).await.expect("it opens for writing"));
            assert_eq!(spa.uberblock().txg, last, "who opens it writes nothing");
        });
    }
}

/// WRITER-TRAPS 13 and 14: what was destroyed is freed over groups, each of whose frees wait in logs; none is lost on the way,
/// and once they have waited the room is there.
#[test]
fn what_is_destroyed_over_groups_is_free_again_by_way_of_logs() {
    fixtures::takes_long!();
    let rig = Rig::with_map_logs(vec![top(0, VdevKind::File, 1)]);
    let devices: Vec<DeviceRef> = rig.devices().into_values().collect();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        live.freeing().set_blocks_max(40);
        let usage = || live.syncer().writer().space(|space| space.usage(Class::Normal));
        let above = super::datasets::node(&live, "tank").await.directory.number;
        let mut random = Prng::new(4);
        let mut first = None;
        for round in 0..3 {
            let new = zfs::spa::datasets::NewDataset {
                name: "x".to_owned(),
                owner: (0, 0),
                properties: Vec::new(),
            };
            let made = live.task(async |tasks| tasks.create(above, &new).await).await;
            made.expect("it is written").expect("it is made");
            let files = files(&live, "tank/x").await;
            // Two thirds of the pool: the next round has no room unless this one's comes back.
            for number in 0..8_u64 {
                let (name, mut bytes) = (format!("f{number}"), vec![0; 9 << 20]);
                random.fill(&mut bytes);
                let root = files.root_number();
                files.create(root, name.as_bytes(), &new_file(100 + number)).await.expect("made");
                let end = bytes.len() as u64;
                let bytes = Buf::copy_of(&bytes);
                files.write(100 + number, 0, &bytes, end).await.expect("it is written");
                live.sync(async |_| Ok(())).await.expect("there is room");
            }
            drop(files);
            let full = usage();
            assert!(full.taken * 3 > full.size, "{full:?}");
            let number = super::datasets::number(&live, "tank/x").await;
            let gone = live.task(async |tasks| tasks.destroy(number).await).await;
            gone.expect("it is written").expect("it goes");
            let mut groups = 0;
            while live.freeing().waits() {
                live.sync(async |_| Ok(())).await.expect("it is written");
                groups += 1;
                if groups % 8 == 1 {
                    assert!(on_disk(&live, &devices, None).await == in_memory(&live));
                }
            }
            assert!(groups > 10, "{groups} groups");
            for _ in 0..4 {
                // A group in which something changes, or it would be none.
                let done = live.sync(async |maker| maker.count_use("bookmarks", 0).await).await;
                done.expect("it is written");
            }
            let empty = usage();
            let before = *first.get_or_insert(empty.taken);
            assert!(
                empty.taken < before + (1 << 20),
                "round {round}: {empty:?}, {before} at first"
            );
        }
    });
    rig.judge();
}

/// The group that flushes all at an export, and the ones before it: each leaves maps and logs that say the same.
#[test]
fn a_cut_while_metaslabs_are_flushed_leaves_maps_and_logs_that_agree() {
    fixtures::takes_long!();
    let base = Rig::with_map_logs(vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)]);
    let model = base.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let files = files(&live, "tank").await;
        let (mut model, mut random) = (Model::new(), Prng::new(2));
        for _ in 0..9 {
            for _ in 0..5 {
                change(&files, &mut model, &mut random).await;
            }
            live.sync(async |_| Ok(())).await.expect("it is written");
        }
        assert!(of_logs(live.spa()).await.0 > 5, "logs are left");
        model
    });
    let seen: Rc<RefCell<Vec<usize>>> = Rc::default();
    at_each_write(&base, 3, |disk, write| {
        let (model, seen) = (model.clone(), Rc::clone(&seen));
        let work = async move |live: Live, left: Left<Model>| {
            let (mut model, mut random) = (model, Prng::new(12));
            left.leaves(model.clone());
            let files = files(&live, "tank").await;
            for _ in 0..3 {
                change(&files, &mut model, &mut random).await;
            }
            left.leaves(model.clone());
            if live.sync(async |_| Ok(())).await.is_err() {
                return;
            }
            left.is_done();
            drop(files);
            left.leaves(model);
            if live.close(LabelState::Exported).await.is_ok() {
                left.is_done();
            }
        };
        let look = async move |spa: &Spa, state: Model| {
            seen.borrow_mut().push(of_logs(spa).await.0);
            check_space(spa, "after a cut").await;
            look_at_files(spa, state).await;
        };
        cut_at(&base, disk, write, work, look)
    });
    let seen = seen.borrow();
    let (flushed, not) = (seen.iter().filter(|logs| **logs == 1).count(), seen.len());
    assert!(flushed > 0 && flushed < not, "{flushed} of {not} cuts came after the flush");
}

/// A pool of many metaslabs, of each of which a long piece is taken that nobody reaches; and how long. It was exported.
fn taken_all_over(features: Vec<&'static str>) -> (Rig, Vec<Dva>, u64) {
    const BYTES: u64 = 64 << 30;
    let mut one = top(0, VdevKind::File, 1);
    one.asize = Some(BYTES - (8 << 20));
    let rig = Rig::of_size(BYTES, vec![one], features);
    let (taken, long) = rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let writer = live.syncer().writer();
        let (slabs, stride) = writer.space(|space| {
            let slabs = space.metaslabs(0).expect("it is known");
            (slabs.len(), slabs.stride())
        });
        let long = stride / 4 * 3;
        let taken = live.sync(async |maker| {
            // One is kept for intent logs.
            let one = |number| {
                let class = if number == 0 { Class::EmbeddedLog } else { Class::Normal };
                let found = writer.space(|s| s.allocate(maker.txg, class, 1, |_| Some(long)));
                found.expect("there is room")[0]
            };
            Ok((0..slabs).map(one).collect::<Vec<Dva>>())
        });
        let taken = taken.await.expect("it is written");
        live.close(LabelState::Exported).await.expect("it is closed");
        (taken, long)
    });
    (rig, taken, long)
}

/// What could break: a metaslab that is changed for the first time since it was flushed keeps the number that it had, and that number's
/// log goes before it is flushed again: the pool is not opened any more.
#[test]
fn what_changes_now_and_then_has_the_logs_that_it_needs() {
    fixtures::takes_long!();
    const PIECE: u64 = 8192;
    // Longer than a circle of flushes, so that the first logs of a circle are gone.
    const GROUPS: u64 = 3 * LOGS_MAX as u64;
    const CHANGED_A_GROUP: usize = 3;
    let groups_a_look = by_extent(16, 4);
    let (rig, taken, long) = taken_all_over(features_and(&MAP_LOGS));
    let devices: Vec<DeviceRef> = rig.devices().into_values().collect();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let (writer, mut random, mut went) = (live.syncer().writer(), Prng::new(1), false);
        for group in 1..=GROUPS {
            let at = group * PIECE;
            assert!(at < long);
            let mut slabs = taken.clone();
            random.shuffle(&mut slabs);
            let done = live.sync(async |_| {
                for of in &slabs[..CHANGED_A_GROUP] {
                    let piece = Dva::new(0, of.offset() + at, PIECE, false);
                    writer.space(|space| space.free(&piece));
                }
                Ok(())
            });
            done.await.expect("it is written");
            if group.is_multiple_of(groups_a_look) {
                let found = on_disk(&live, &devices, None).await;
                assert!(found == in_memory(&live), "group {group}");
                went |= of_logs(live.spa()).await.0 as u64 <= group;
            }
        }
        assert!(went, "logs go");
    });
}

/// What one group writes on the average, in writes to the device and in bytes, of a pool of this many metaslabs in which blocks are freed
/// all over.
fn written_a_group(features: Vec<&'static str>) -> (u64, u64, usize) {
    const WARM: usize = 140;
    let groups: usize = by_extent(16, 64);
    const FREED: u64 = 1000;
    const PIECE: u64 = 8192;
    let (rig, taken, long) = taken_all_over(features);
    let slabs = taken.len();
    let below = Rc::clone(&rig.disks[0].1) as DeviceRef;
    let device = Stats::new(below, &rig.runtime.handle());
    let counted = Rc::clone(&device);
    rig.with_devices(vec![device as DeviceRef], async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let writer = live.syncer().writer();
        let (mut random, mut freed) = (Prng::new(1), RangeSet::default());
        let with_logs = live.syncer().has_map_logs();
        let warm = if with_logs { WARM } else { 4 };
        let mut before = counted.counters().of_kind(OpKind::Write);
        for group in 0..warm + groups {
            if group == warm {
                before = counted.counters().of_kind(OpKind::Write);
            }
            let done = live.sync(async |_| {
                for _ in 0..FREED {
                    let of = &taken[random.below(slabs as u64) as usize];
                    let at = of.offset() + random.below(long / PIECE) * PIECE;
                    if freed.insert(at..at + PIECE) > 0 {
                        writer.space(|space| space.free(&Dva::new(0, at, PIECE, false)));
                    }
                }
                Ok(())
            });
            done.await.expect("it is written");
        }
        let after = counted.counters().of_kind(OpKind::Write);
        let groups = groups as u64;
        let bytes = after.bytes.bytes() - before.bytes.bytes();
        ((after.ios - before.ios) / groups, bytes / groups, slabs)
    })
}

#[test]
fn blocks_freed_all_over_a_pool_take_fewer_writes_with_logs() {
    fixtures::takes_long!();
    let (maps, map_bytes, slabs) = written_a_group(features());
    let (logs, log_bytes, _) = written_a_group(features_and(&MAP_LOGS));
    println!(
        "{slabs} metaslabs, 1000 frees a group: {maps} writes and {map_bytes} bytes a group without logs, \
         {logs} and {log_bytes} with them"
    );
    assert!(slabs >= 100, "{slabs} metaslabs");
    assert!(
        logs * 4 < maps && log_bytes * 4 < map_bytes,
        "{logs} of {maps}, {log_bytes} of {map_bytes}"
    );
}
