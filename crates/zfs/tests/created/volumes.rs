//! Volumes that are written, beside plain bytes: over groups, snapshots, new sizes and new starts; and after power cuts.
//!
//! What could break: bytes that are lost, old, or of another place; a block that is freed and reached, or the other way round;
//! a flush that was answered and is forgotten; space that is kept free and counted wrong, or taken by another.

use super::logs::Cut;
use super::{Rig, raidz, top};
use fixtures::extent::{by_extent, places, some};
use rt::{Buf, Device, IoErrorKind, Request};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::catalog::Node;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::TaskError;
use zfs::spa::live::Live;
use zfs::spa::volumes::{Limit, NewVolume};
use zfs::zvol::Volume;
use zfs::zvol::live::LiveVolume;
use zfs_format::dsl::dir::DslDir;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_format::wire::Record;
use zfs_format::zap::leaf::LeafValue;

const MIB: u64 = 1 << 20;

pub(crate) fn new(name: &str, bytes: u64, block_bytes: u64, reservation: u64) -> NewVolume {
    NewVolume { name: name.into(), bytes, block_bytes, reservation, properties: Vec::new() }
}

async fn node(live: &Live, name: &str) -> Rc<Node> {
    let catalog = live.spa().catalog(0).await.expect("it is read");
    catalog.find(name).await.expect("it is read").expect("it is there")
}

pub(crate) async fn make(live: &Live, new: NewVolume) -> Result<(), TaskError> {
    let above = node(live, "tank").await.directory.number;
    let made = live.task(async |tasks| tasks.create_volume(above, &new).await).await;
    made.expect("it is written").map(|_| ())
}

pub(crate) async fn snapshot(live: &Live, of: &str, name: &str) -> Result<(), TaskError> {
    let number = node(live, of).await.head.number;
    let taken = live.task(async |tasks| tasks.snapshot(number, name).await).await;
    taken.expect("it is written").map(|_| ())
}

pub(crate) async fn open(live: &Rc<Live>, name: &str) -> LiveVolume {
    let node = node(live, name).await;
    LiveVolume::open(live, &node).await.expect("it opens")
}

async fn live(spa: Rc<Spa>, fresh: &Rc<dyn Fresh>) -> Rc<Live> {
    Rc::new(Live::open(spa, fresh).await.expect("it opens for writing"))
}

pub(crate) async fn flush(volume: &LiveVolume) {
    volume.submit(Request::flush()).await.expect("it is in the pool");
}

/// Bytes of the blocks that [`put`] and [`byte`] count by.
pub(crate) const PUT_BLOCK: u64 = 16 << 10;

/// Writes the beginning of a block, all of one byte, and waits until it is durable.
pub(crate) async fn put(volume: &LiveVolume, block: u64, byte: u8) {
    let bytes = Buf::copy_of(&[byte; 4096]);
    volume.submit(Request::write(Offset(block * PUT_BLOCK), bytes)).await.expect("it is written");
    flush(volume).await;
}

/// What a block begins with.
pub(crate) async fn byte(volume: &LiveVolume, block: u64) -> u8 {
    let read = volume.submit(Request::read(Offset(block * PUT_BLOCK), ByteCount(4096))).await;
    read.expect("it is read").into_contiguous().bytes()[0]
}

/// Random bytes, bytes that are alike, or zeros.
fn content(random: &mut Prng, len: usize) -> Vec<u8> {
    let word = random.next_u64();
    match random.below(4) {
        0 => vec![word as u8; len],
        1 => vec![0; len],
        2 => super::runs(len, 64, word),
        _ => random.bytes(len),
    }
}

/// One request at random, carried out on both.
pub(crate) async fn change(volume: &LiveVolume, model: &mut [u8], random: &mut Prng) {
    let block = volume.volume().block().bytes();
    let sectors = model.len() as u64 / 512;
    let at = random.below(sectors) * 512;
    let longest = if random.chance(0.1) { 600 } else { 40 };
    let len = ((1 + random.below(longest)) * 512).min(model.len() as u64 - at);
    // Whole blocks now and then.
    let (at, len) = match random.chance(0.5) {
        true => (at - at % block, len.next_multiple_of(block)),
        false => (at, len),
    };
    let len = len.min(model.len() as u64 - at);
    let range = at as usize..(at + len) as usize;
    let (offset, count) = (Offset(at), ByteCount(len));
    let request = match random.below(10) {
        0 => {
            model[range].fill(0);
            Request::write_zeroes(offset, count)
        }
        1 => {
            let (from, to) = (at.next_multiple_of(block), (at + len) - (at + len) % block);
            if from < to {
                model[from as usize..to as usize].fill(0);
            }
            Request::discard(offset, count)
        }
        what => {
            let bytes = content(random, len as usize);
            model[range].copy_from_slice(&bytes);
            let bytes = Buf::copy_of(&bytes);
            match what {
                2 => Request::write_fua(offset, bytes),
                _ => Request::write(offset, bytes),
            }
        }
    };
    volume.submit(request).await.expect("it is done");
}

/// One write that nobody waits for: it is in no log, and comes with its group.
pub(crate) async fn change_unlogged(volume: &LiveVolume, model: &mut [u8], random: &mut Prng) {
    let at = random.below(model.len() as u64 / 512 - 8) * 512;
    let bytes = content(random, 8 * 512);
    model[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
    let write = Request::write(Offset(at), Buf::copy_of(&bytes));
    volume.submit(write).await.expect("it is done");
}

/// Several at once, on parts of the volume that are each one's own.
async fn change_at_once(volume: &LiveVolume, model: &mut [u8], random: &mut Prng) {
    let mut all = Vec::new();
    let part = model.len() / 8 / 512 * 512;
    for (n, own) in model.chunks_mut(part).take(8).enumerate() {
        let len = (1 + random.below(30) as usize) * 512;
        let bytes = content(random, len);
        own[512..512 + len].copy_from_slice(&bytes);
        let at = Offset((n * part + 512) as u64);
        all.push(volume.submit(Request::write(at, Buf::copy_of(&bytes))));
    }
    for done in futures_util::future::join_all(all).await {
        done.expect("it is done");
    }
}

pub(crate) async fn compare(volume: &dyn Device, model: &[u8]) {
    let read = Request::read(Offset::ZERO, ByteCount(model.len() as u64));
    let found = volume.submit(read).await.expect("it is read").to_vec();
    assert!(found.len() == model.len());
    if found != model {
        let at = (0..model.len()).find(|at| found[*at] != model[*at]).expect("they differ");
        panic!("byte {at} is {} and should be {}", found[at], model[at]);
    }
}

/// What a volume and its snapshots hold.
#[derive(Clone, Default)]
struct Model {
    volumes: BTreeMap<String, Vec<u8>>,
    snapshots: BTreeMap<String, Vec<u8>>,
}

/// Random requests over many groups; the pool is opened anew in between.
fn requests_over_groups(seed: u64, tops: Vec<Vdev>, blocks: [u64; 2]) {
    let rig = Rig::new(tops);
    let model: Rc<RefCell<Model>> = Rc::default();
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    for start in 0..3 {
        let (model, random) = (Rc::clone(&model), Rc::clone(&random));
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let (mut model, mut random) = (model.borrow_mut(), random.borrow_mut());
            let live = live(spa, &fresh).await;
            if start == 0 {
                for (name, block) in ["v", "w"].into_iter().zip(blocks) {
                    make(&live, new(name, 2 * MIB, block, 0)).await.expect("it is made");
                    model.volumes.insert(format!("tank/{name}"), vec![0; 2 << 20]);
                }
            }
            run(&live, &mut model, &mut random).await;
            resize(&live, &mut model, &mut random).await;
            live.close(LabelState::Exported).await.expect("it is closed");
        });
    }
    let kept = Rc::clone(&model);
    rig.with(async move |spa: Rc<Spa>, _| {
        let model = kept.borrow();
        for (name, bytes) in model.volumes.iter().chain(&model.snapshots) {
            let found = spa.dsl().find(name).await.expect("it is read").expect("it is there");
            let objset = spa.objset(&found.0, &found.1).await.expect("it opens");
            let volume = Volume::open(&objset, name).await.expect("it is one");
            assert_eq!(volume.size().bytes(), bytes.len() as u64);
            compare(&volume, bytes).await;
        }
    });
    rig.judge();
}

async fn run(live: &Rc<Live>, model: &mut Model, random: &mut Prng) {
    for round in 0..6 {
        for (name, bytes) in &mut model.volumes {
            let volume = open(live, name).await;
            for _ in 0..20 {
                change(&volume, bytes, random).await;
            }
            change_at_once(&volume, bytes, random).await;
            compare(&volume, bytes).await;
            if round % 2 == 0 {
                flush(&volume).await;
            }
            compare(&volume, bytes).await;
            if round == 3 {
                let count = model.snapshots.len();
                let whole = format!("{name}@s{count}");
                snapshot(live, name, &format!("s{count}")).await.expect("it is taken");
                model.snapshots.insert(whole, bytes.clone());
            }
        }
    }
}

async fn resize(live: &Rc<Live>, model: &mut Model, random: &mut Prng) {
    for (name, bytes) in &mut model.volumes {
        let volume = open(live, name).await;
        let block = volume.volume().block().bytes();
        let size = (MIB + random.below(2 * MIB)).next_multiple_of(block);
        volume.volume().resize(size).await.expect("it is done");
        // What comes back after it was cut off is zeros.
        bytes.resize(size as usize, 0);
        assert_eq!(open(live, name).await.volume().size().bytes(), size);
    }
}

#[test]
fn what_was_written_to_a_volume_is_read_over_groups_snapshots_sizes_and_starts() {
    fixtures::takes_long!();
    let pools = [
        (1, vec![top(0, VdevKind::File, 1)], [8 << 10, 16 << 10]),
        (2, vec![top(0, VdevKind::Mirror, 2)], [512, 128 << 10]),
        (3, vec![top(0, raidz(1), 3), top(1, raidz(1), 3)], [4 << 10, 64 << 10]),
    ];
    for (seed, tops, blocks) in some(pools, 1) {
        requests_over_groups(seed, tops, blocks);
    }
}

/// What the directory of a name takes: in all, and by its parts.
async fn space(live: &Live, name: &str) -> (u64, [u64; 5]) {
    let number = node(live, name).await.directory.number;
    let object = live.spa().mos().dnode(number).await.expect("it is read");
    let dir = DslDir::decode(&object.phys().bonus, object.endian()).expect("it is one");
    assert_eq!(dir.used_bytes, dir.used_breakdown.iter().sum::<u64>(), "{name}");
    (dir.used_bytes, dir.used_breakdown)
}

async fn limit(live: &Live, name: &str, limit: Limit, bytes: u64) -> Result<(), TaskError> {
    let number = node(live, name).await.directory.number;
    let set = live.task(async |tasks| tasks.set_limit(number, limit, bytes).await).await;
    set.expect("it is written")
}

async fn fill(volume: &LiveVolume, from: u64, to: u64, random: &mut Prng) -> Option<IoErrorKind> {
    for at in (from..to).step_by(128 << 10) {
        let bytes = random.bytes(128 << 10);
        let done = volume.submit(Request::write(Offset(at), Buf::copy_of(&bytes))).await;
        if let Err(error) = done {
            return Some(error.kind);
        }
    }
    None
}

/// The pool gives some 61 MiB to datasets: half of its disk is slop.
#[test]
fn what_is_kept_free_for_a_volume_is_its_own_and_counted_once() {
    fixtures::takes_long!();
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let mut random = Prng::new(5);
        let live = live(spa, &fresh).await;
        assert_eq!(
            make(&live, new("big", 99 * MIB, 8192, 99 * MIB)).await,
            Err(TaskError::NoSpace)
        );
        make(&live, new("kept", 24 * MIB, 16 << 10, 28 * MIB)).await.expect("it is made");
        make(&live, new("thin", 90 * MIB, 16 << 10, 0)).await.expect("it is made");
        assert_eq!(space(&live, "tank/kept").await.0, 28 * MIB);
        let above = space(&live, "tank").await;
        assert!(above.0 >= 28 * MIB && above.1[3] == 0, "{above:?}");
        // The other volume takes what is left, and no more.
        let thin = open(&live, "tank/thin").await;
        let full = fill(&thin, 0, 90 * MIB, &mut random).await;
        assert_eq!(full, Some(IoErrorKind::NoSpace));
        flush(&thin).await;
        let taken = space(&live, "tank/thin").await.0;
        assert!((20 * MIB..36 * MIB).contains(&taken), "{taken}");
        // All of the first can be written, more than once.
        let kept = open(&live, "tank/kept").await;
        for _ in 0..2 {
            assert_eq!(fill(&kept, 0, 24 * MIB, &mut random).await, None);
        }
        flush(&kept).await;
        let (used, parts) = space(&live, "tank/kept").await;
        assert!(
            used == 28 * MIB && parts[0] > 24 * MIB && parts[4] == used - parts[0],
            "{parts:?}"
        );
        // A snapshot needs as much again, which is not there.
        assert_eq!(snapshot(&live, "tank/kept", "s").await, Err(TaskError::NoSpace));
        thin.submit(Request::discard(Offset::ZERO, ByteCount(90 * MIB)))
            .await
            .expect("it is freed");
        flush(&thin).await;
        snapshot(&live, "tank/kept", "s").await.expect("it is taken");
        let (used, parts) = space(&live, "tank/kept").await;
        assert!(used > 52 * MIB && parts[4] == 28 * MIB, "{parts:?}");
        assert_eq!(fill(&kept, 0, 2 * MIB, &mut random).await, None);
        flush(&kept).await;
        let (_, parts) = space(&live, "tank/kept").await;
        assert!(parts[1] >= 2 * MIB && parts[4] <= 26 * MIB, "{parts:?}");
        limit(&live, "tank/kept", Limit::HeadReservation, 0).await.expect("it is set");
        assert_eq!(space(&live, "tank/kept").await.1[4], 0);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

#[test]
fn quotas_and_what_is_kept_free_below_hold_on_the_way_up() {
    fixtures::takes_long!();
    let rig = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let mut random = Prng::new(6);
        let live = live(spa, &fresh).await;
        make(&live, new("v", 32 * MIB, 16 << 10, 0)).await.expect("it is made");
        limit(&live, "tank/v", Limit::Reservation, 20 * MIB).await.expect("it is set");
        assert!(space(&live, "tank").await.1[3] > 19 * MIB);
        let too_much = limit(&live, "tank/v", Limit::Reservation, 200 * MIB).await;
        assert_eq!(too_much, Err(TaskError::NoSpace));
        let volume = open(&live, "tank/v").await;
        assert_eq!(fill(&volume, 0, 8 * MIB, &mut random).await, None);
        flush(&volume).await;
        let (above, own) = (space(&live, "tank").await, space(&live, "tank/v").await);
        assert_eq!(above.1[2] + above.1[3] >= 20 * MIB, own.0 < 20 * MIB);
        let less = limit(&live, "tank/v", Limit::Quota, 4 * MIB).await;
        assert_eq!(less, Err(TaskError::TooLittle));
        limit(&live, "tank/v", Limit::Quota, 24 * MIB).await.expect("it is set");
        assert_eq!(fill(&volume, 0, 32 * MIB, &mut random).await, Some(IoErrorKind::NoSpace));
        flush(&volume).await;
        // Data is refused before; what leads to it comes on top.
        assert!(space(&live, "tank/v").await.0 <= 25 * MIB);
        limit(&live, "tank/v", Limit::Reservation, 0).await.expect("it is set");
        assert_eq!(space(&live, "tank").await.1[3], 0);
        // What only snapshots reach is not the head's.
        limit(&live, "tank/v", Limit::Quota, 0).await.expect("it is set");
        let less = limit(&live, "tank/v", Limit::HeadQuota, 16 * MIB).await;
        assert_eq!(less, Err(TaskError::TooLittle));
        limit(&live, "tank/v", Limit::HeadQuota, 26 * MIB).await.expect("it is set");
        let more = limit(&live, "tank/v", Limit::HeadReservation, 28 * MIB).await;
        assert_eq!(more, Err(TaskError::NoSpace));
        snapshot(&live, "tank/v", "s").await.expect("it is taken");
        for at in 0..10 {
            assert_eq!(fill(&volume, 2 * at * MIB, (2 * at + 1) * MIB, &mut random).await, None);
            flush(&volume).await;
            live.make_durable().await.expect("it is in the pool");
        }
        assert!(space(&live, "tank/v").await.0 > 30 * MIB);
        assert_eq!(
            fill(&volume, 20 * MIB, 32 * MIB, &mut random).await,
            Some(IoErrorKind::NoSpace)
        );
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A cut at one of the writes of a disk, while a volume is written and flushed. What was flushed is there, and what was written
/// since is there block by block, or not.
fn cut_at(base: &Rig, write: u64) -> bool {
    let mut cut = Cut::at(base, 0, write);
    // What was flushed, and what each write since left.
    let states: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let kept = Rc::clone(&states);
    let groups = Rc::new(Cell::new(0));
    cut.rig.with_devices(cut.devices(), async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = live(spa, &fresh).await;
        let volume = open(&live, "tank/v").await;
        let (mut model, mut random) = (vec![0; 1 << 20], Prng::new(11));
        kept.borrow_mut().push(model.clone());
        for _ in 0..3 {
            // More than a block of the log holds: some are divided.
            for _ in 0..16 {
                let len = (1 + random.below(60)) * 512;
                let at = random.below((MIB - len) / 512) * 512;
                let bytes = content(&mut random, len as usize);
                model[at as usize..(at + len) as usize].copy_from_slice(&bytes);
                kept.borrow_mut().push(model.clone());
                let request = Request::write(Offset(at), Buf::copy_of(&bytes));
                if volume.submit(request).await.is_err() {
                    return;
                }
            }
            if volume.submit(Request::flush()).await.is_err() {
                return;
            }
            *kept.borrow_mut() = vec![model.clone()];
            groups.set(groups.get() + 1);
        }
    });
    let (was_cut, all) = cut.power_on(0, write);
    cut.rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        // What was flushed may be in the intent log alone: it is replayed.
        let live = live(spa, &fresh).await;
        let volume = open(&live, "tank/v").await;
        let read = volume.submit(Request::read(Offset::ZERO, ByteCount(MIB))).await;
        let read = read.expect("it is read").to_vec();
        let states = states.borrow();
        for at in (0..read.len()).step_by(512) {
            let sector = at..at + 512;
            let is_one = states.iter().any(|state| state[sector.clone()] == read[sector.clone()]);
            assert!(is_one, "cut at write {write}: what is at {at} is none of its states");
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    if was_cut && write.is_multiple_of(29) {
        cut.rig.judge();
    }
    was_cut
}

#[test]
fn what_was_flushed_to_a_volume_is_there_after_a_cut_at_any_write() {
    let alone = (vec![top(0, VdevKind::File, 1)], 5);
    for (tops, step) in [alone, (vec![top(0, VdevKind::Mirror, 2)], 13)] {
        let base = Rig::new(tops);
        base.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = live(spa, &fresh).await;
            make(&live, new("v", MIB, 8 << 10, 0)).await.expect("it is made");
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        let cuts = places(step, 3).take_while(|write| cut_at(&base, *write)).count();
        assert!(cuts > by_extent(1, 5), "the power was cut {cuts} times");
    }
}

/// Nobody flushes after a write that is to be durable by itself; and zeros are as durable as other bytes.
#[test]
fn what_was_answered_as_durable_is_there_when_the_power_goes_at_once() {
    const LEN: u64 = 64 << 10;
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let bytes = |byte: u8| Buf::copy_of(&[byte; LEN as usize]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = live(spa, &fresh).await;
        make(&live, new("v", MIB, 8 << 10, 0)).await.expect("it is made");
        let volume = open(&live, "tank/v").await;
        volume.submit(Request::write(Offset::ZERO, bytes(1))).await.expect("it is written");
        // The log begins with a group.
        flush(&volume).await;
        flush(&volume).await;
        let zeros = Request::write_zeroes(Offset(LEN / 2), ByteCount(LEN / 2));
        volume.submit(zeros).await.expect("it is done");
        flush(&volume).await;
        let write = Request::write_fua(Offset(2 * LEN), bytes(2));
        volume.submit(write).await.expect("it is durable");
    });
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = live(spa, &fresh).await;
        let mut model = vec![0; 1 << 20];
        model[..LEN as usize / 2].fill(1);
        model[2 * LEN as usize..3 * LEN as usize].fill(2);
        compare(&open(&live, "tank/v").await, &model).await;
    });
}

#[test]
fn a_name_that_is_taken_is_refused_and_properties_are_stored() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = live(spa, &fresh).await;
        let one = LeafValue { number_bytes: 8, numbers: vec![2] };
        let mut volume = new("v", MIB, 8192, 3 * MIB);
        volume.properties.push(("copies".into(), one));
        make(&live, volume.clone()).await.expect("it is made");
        assert_eq!(make(&live, volume).await, Err(TaskError::Exists));
        let node = node(&live, "tank/v").await;
        let numbers = live.spa().catalog(0).await.expect("read").view(&node).await.expect("read");
        let numbers = numbers.numbers;
        for (name, value) in [
            ("volsize", MIB),
            ("volblocksize", 8192),
            ("refreservation", 3 * MIB),
            ("used", 3 * MIB),
        ] {
            assert_eq!(numbers.get(name), Some(&value), "{name}");
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
