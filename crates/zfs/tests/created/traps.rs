//! What other writers of ZFS went wrong with and no other test is of, each by its number in WRITER-TRAPS. The
//! [theory](../../../../docs/theory/pools.md) says which test is of which.
//!
//! What could break stands at each.

use super::datasets::{node, number, task};
use super::logs::{NEW, clock, content, until_the_power_goes};
use super::mounted::mounted;
use super::{Model, Rig, compare, root_files, top, volumes};
use rt::filter::{Delay, Slowness};
use rt::inodes::{Caller, Fallocate, Fsync, Inodes, Node, Seek, SetAttributes, SetHow, WriteAt};
use rt::{Buf, Device, DeviceRef, Request, SgList};
use std::rc::Rc;
use std::time::Duration;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::mounted::Mounted;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs_format::label::{DATA_START, LABEL_BYTES, RING_AT, RING_BYTES};
use zfs_format::vdev::VdevKind;
use zfs_format::zil::LogBlock;
use zfs_store::transform::log_sum;

fn one() -> Rig {
    Rig::new(vec![top(0, VdevKind::File, 1)])
}

fn by() -> Caller {
    Caller::default()
}

fn random_bytes(random: &mut Prng, len: usize) -> Buf {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    Buf::copy_of(&bytes)
}

async fn put(of: &Mounted, file: Node, at: u64, bytes: Buf) {
    let at = WriteAt::Offset(Offset(at));
    of.write(by(), file, at, SgList::from(bytes), false).await.expect("it is written");
}

/// What a file is said to hold beside what it holds: no byte lies in a hole.
async fn holes_are_holes(of: &Mounted, file: Node) -> usize {
    let size = of.attributes(file).await.expect("it is there").size;
    let (mut at, mut holes) = (Offset(0), 0);
    while at.0 < size.bytes() {
        let data = of.seek(file, at, Seek::Data).await.map_or(size.bytes(), |data| data.0);
        if data > at.0 {
            // Nothing was written in between: the one who writes waits for its turn as well.
            let read = of.read(file, at, ByteCount(data - at.0)).await.expect("it is read");
            assert!(read.to_vec().iter().all(|byte| *byte == 0), "bytes in a hole at {at:?}");
            holes += 1;
        }
        at = match of.seek(file, Offset(data), Seek::Hole).await {
            Ok(hole) if data < size.bytes() => hole,
            _ => return holes,
        };
    }
    holes
}

/// A hole is never told where bytes are: asked for at each moment at which a group that is written waits for its device, while the
/// blocks are dirty, frozen, on their way, in their place, and dirty again.
#[test]
fn trap_2_no_hole_is_told_where_bytes_are_while_groups_are_written() {
    fixtures::takes_long!();
    const BLOCK: u64 = 128 << 10;
    let rig = one();
    let rt = rig.runtime.handle();
    let slowness = Slowness { latency: Duration::from_micros(100), bytes_per_second: None };
    let slow = |(_, device): (u64, DeviceRef)| Delay::new(device, &rt, slowness) as DeviceRef;
    let all = rig.devices().into_iter().map(slow).collect();
    rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        let (rt, mut random) = (live.spa().rt().clone(), Prng::new(5));
        let file = real.create(by(), Node::ROOT, b"one", NEW).await.expect("it is made").node;
        put(&real, file, 40 * BLOCK, Buf::copy_of(&[1; 10])).await;
        let (mut holes, mut while_written) = (0, 0);
        for _ in 0..12 {
            let known = Rc::clone(&live);
            let syncs = rt.spawn(async move { known.sync(async |_| Ok(())).await });
            for _ in 0..16 {
                let at = random.below(40) * BLOCK;
                match random.below(3) {
                    0 => {
                        let how = Fallocate::PunchHole;
                        let (at, len) = (Offset(at), ByteCount(2 * BLOCK));
                        real.fallocate(by(), file, at, len, how).await.expect("it is punched");
                    }
                    _ => put(&real, file, at + 77, random_bytes(&mut random, 3000)).await,
                }
                while_written += usize::from(live.syncer().groups().syncing().is_some());
                holes += holes_are_holes(&real, file).await;
                rt.sleep(Duration::from_micros(random.below(400))).await;
            }
            syncs.await.expect("it is written");
        }
        assert!(holes > 200 && while_written > 30, "{holes} holes, {while_written} meanwhile");
        real.release(file);
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A spill block that goes, in any group of its life, takes nothing of the file's bytes with it; and a file that is cut off keeps its
/// attributes.
#[test]
fn trap_3_a_spill_block_goes_alone_and_stays_when_its_file_is_cut_off() {
    fixtures::takes_long!();
    const VALUE: &[u8] = b"user.v";
    let rig = one();
    let lengths = [0_usize, 20, 3000, 0, 9000, 20, 9000, 0];
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let root = node(&live, "tank").await.directory.number;
        let set = task(&live, async |tasks| {
            tasks.set_property(root, "xattr", Some(table::number(2))).await
        });
        set.await.expect("it is set");
        let real = mounted(&live, clock()).await;
        let mut random = Prng::new(7);
        // A commit, or none, after each step of either.
        for commits in 0..16_u32 {
            let name = format!("f{commits}").into_bytes();
            let file = real.create(by(), Node::ROOT, &name, NEW).await.expect("it is made").node;
            let mut model = Vec::new();
            for (step, len) in lengths.into_iter().enumerate() {
                let value = vec![step as u8; len];
                match len {
                    0 => drop(real.remove_extended_attribute(by(), file, VALUE).await),
                    _ => {
                        let set =
                            real.set_extended_attribute(by(), file, VALUE, &value, SetHow::Any);
                        set.await.expect("it is set");
                    }
                }
                if commits >> (step % 2) & 1 == 1 {
                    live.sync(async |_| Ok(())).await.expect("it is written");
                }
                if step % 3 == 2 {
                    let size = ByteCount(random.below(200_000));
                    let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
                    real.setattr(by(), file, set).await.expect("it is cut off");
                    model.resize(size.bytes() as usize, 0);
                } else {
                    let bytes = random_bytes(&mut random, 150_000);
                    put(&real, file, 30_000, bytes.clone()).await;
                    model.resize(model.len().max(180_000), 0);
                    model[30_000..180_000].copy_from_slice(bytes.bytes());
                }
                if commits >> (2 + step % 2) & 1 == 1 {
                    live.sync(async |_| Ok(())).await.expect("it is written");
                }
                assert!(content(&real, &name).await.as_ref() == Some(&model), "step {step}");
                let found = real.extended_attribute(file, VALUE).await.ok();
                assert_eq!(found, (len > 0).then_some(value), "step {step}");
            }
            real.release(file);
        }
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A record of a kind that nobody knows keeps the pool from being written, and nothing of its log is lost by that: who knows the kind
/// replays it.
#[test]
fn trap_7_a_record_of_an_unknown_kind_keeps_its_log_and_the_pool_as_they_are() {
    const UNKNOWN: u64 = 60;
    let rig = one();
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let file = real.create(by(), Node::ROOT, b"one", NEW).await.expect("it is made").node;
        // The first takes the group: the log begins with it.
        real.fsync(file, Fsync::All).await.expect("it is durable");
        for byte in 1..4 {
            put(real, file, 0, Buf::copy_of(&[byte; 5000])).await;
            real.fsync(file, Fsync::All).await.expect("it is durable");
        }
        assert!(live.is_dirty(), "it is in the log alone");
    });
    let known = rig.fork();
    let device = Rc::clone(&rig.disks[0].1);
    rig.with(async move |spa: Rc<Spa>, _| {
        let (directory, head) = spa.dsl().find("tank").await.expect("read").expect("there");
        let objset = spa.objset(&directory, &head).await.expect("it opens");
        let log = zfs::zil::chain(&objset).await.expect("it is read");
        let link = log.links.last().expect("there are some");
        let mut records = link.block.records.clone();
        records[..8].copy_from_slice(&UNKNOWN.to_le_bytes());
        let block = LogBlock { records, ..link.block.clone() };
        let function = link.pointer.checksum_function();
        let sum = |bytes: &[u8], endian| log_sum(function, bytes, endian);
        let bytes = block.encode(link.pointer.logical_size() as usize, &link.pointer, sum);
        let bytes = Buf::copy_of(&bytes.expect("it fits"));
        for dva in link.pointer.dvas() {
            device.poke(Offset(dva.offset() + DATA_START), &bytes.clone().into());
        }
    });
    let before = rig.fork();
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let refused = Live::open(spa, &fresh).await.err();
        let text = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("kind"), "it is refused, and said why: {text}");
    });
    for ((_, was), (_, is)) in before.disks.iter().zip(&rig.disks) {
        let all = ByteCount(super::DEVICE);
        let same = was.peek(Offset(0), all).to_vec() == is.peek(Offset(0), all).to_vec();
        assert!(same, "nothing was written");
    }
    // As it was without that.
    until_the_power_goes(&known, async move |_: &Live, real: &Mounted| {
        assert!(content(real, b"one").await == Some(vec![3; 5000]), "the log is replayed");
    });
}

/// What is always durable is so without being asked for; and a log that was written so is replayed by whoever takes the pool next, though
/// what it replays would be durable at once again.
#[test]
fn trap_10_what_is_always_synchronous_is_replayed_and_the_pool_goes_on() {
    const ALWAYS: u64 = 1;
    let rig = one();
    let mut model = vec![0; 1 << 20];
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let new = volumes::new("v", 1 << 20, 8 << 10, 0);
        volumes::make(&live, new).await.expect("it is made");
        let root = node(&live, "tank").await.directory.number;
        let set = task(&live, async |tasks| {
            tasks.set_property(root, "sync", Some(table::number(ALWAYS))).await
        });
        set.await.expect("it is set");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    for round in 0..3_u8 {
        let (before, mut after) = (model.clone(), model.clone());
        let written = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let volume = volumes::open(&live, "tank/v").await;
            volumes::compare(&volume, &before).await;
            let real = mounted(&live, clock()).await;
            if round > 0 {
                let wanted = Some(vec![round - 1; 9000]);
                assert!(content(&real, b"one").await == wanted, "the file is replayed");
            }
            let made = real.create(by(), Node::ROOT, b"one", NEW).await;
            let file = match made {
                Ok(made) => made.node,
                Err(_) => real.lookup(Node::ROOT, b"one").await.expect("it is there").node,
            };
            let (mut random, synced) = (Prng::new(round.into()), live.spa().uberblock().txg);
            for n in 0..30 {
                let at = random.below(2000) * 512;
                let bytes = random_bytes(&mut random, 1024);
                after[at as usize..at as usize + 1024].copy_from_slice(bytes.bytes());
                volume.submit(Request::write(Offset(at), bytes)).await.expect("it is durable");
                if n % 10 == 9 {
                    put(&real, file, 0, Buf::copy_of(&[round; 9000])).await;
                }
            }
            let groups = live.spa().uberblock().txg - synced;
            assert!(groups < 5, "{groups} groups: the log is what makes it durable");
            assert!(number(&live, "tank/v").await > 0);
            // The power goes: nothing is flushed, closed or waited for.
            after
        });
        model = written;
    }
    rig.judge();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        volumes::compare(&volumes::open(&live, "tank/v").await, &model).await;
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Space maps are written anew in the groups of an export, the last that dirty anything, as in any other: pools that are taken and
/// exported over and over have maps that say what is allocated.
#[test]
fn trap_15_maps_are_written_anew_by_the_groups_of_an_export() {
    fixtures::takes_long!();
    const BLOCK: usize = 512;
    const BLOCKS: usize = 200;
    let mut sectors = top(0, VdevKind::File, 1);
    sectors.ashift = Some(9);
    let rig = Rig::new(vec![sectors]);
    let (mut anew, mut content) = (0, vec![0; BLOCKS * BLOCK]);
    let mut random = Prng::new(6);
    for round in 0..60 {
        let mut next = content.clone();
        let places: Vec<usize> =
            (0..120).map(|_| random.below(BLOCKS as u64) as usize * BLOCK).collect();
        for at in &places {
            random.fill(&mut next[*at..at + BLOCK]);
        }
        let written = next.clone();
        anew += rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let files = super::datasets::files(&live, "tank").await;
            files.set_record_bytes(BLOCK as u64);
            if round == 0 {
                let new = super::new_file(100);
                files.create(files.root_number(), b"one", &new).await.expect("it is made");
            }
            let before = super::maps::lengths(&live).await;
            for at in places {
                let block = Buf::copy_of(&written[at..at + BLOCK]);
                let end = written.len() as u64;
                files.write(100, at as u64, &block, end).await.expect("it is written");
            }
            drop(files);
            // All of it is dirty yet.
            live.close(LabelState::Exported).await.expect("it is closed");
            let now = super::maps::lengths(&live).await;
            before.iter().zip(&now).filter(|(before, now)| now < before).count()
        });
        content = next;
    }
    assert!(anew >= 2, "{anew} times anew");
    rig.judge();
    rig.with(async move |spa: Rc<Spa>, _| {
        compare(&root_files(&spa).await, &[(100, content)].into()).await;
        super::long::assert_shadow(&spa).await;
    });
}

async fn put_some(live: &Live, model: &mut Model, seed: u64) {
    let files = super::datasets::files(live, "tank").await;
    let mut random = Prng::new(seed);
    for _ in 0..6 {
        super::change(&files, model, &mut random).await;
    }
}

/// Labels are of a group whose uberblock is lost: the pool is the one of the group before, and goes on.
#[test]
fn trap_25_labels_that_are_newer_than_the_best_uberblock_keep_nobody_out() {
    const SLOT: u64 = 4096;
    let rig = one();
    let before = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let (live, mut model) =
            (Live::open(spa, &fresh).await.expect("it opens for writing"), Model::new());
        put_some(&live, &mut model, 1).await;
        // The labels are of the last group of this.
        live.close(LabelState::Exported).await.expect("it is closed");
        model
    });
    let newest = rig.with(async |spa: Rc<Spa>, _| spa.uberblock().txg);
    let slot = RING_AT + newest % (RING_BYTES / SLOT) * SLOT;
    let end = super::DEVICE;
    for label in [0, LABEL_BYTES, end - 2 * LABEL_BYTES, end - LABEL_BYTES] {
        rig.disks[0].1.poke(Offset(label + slot), &SgList::from(Buf::zeros(SLOT as usize)));
    }
    let model = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        assert_eq!(spa.uberblock().txg, newest - 1);
        let mut model = before;
        compare(&root_files(&spa).await, &model).await;
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        put_some(&live, &mut model, 2).await;
        live.close(LabelState::Exported).await.expect("it is closed");
        model
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        compare(&root_files(&spa).await, &model).await;
    });
    rig.judge();
}
