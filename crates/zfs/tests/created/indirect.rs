//! Intent logs whose records lead to blocks that are in their place already (`WR_INDIRECT`).
//!
//! What could break: a block that is the log's and the tree's is freed twice, or by neither; a record leads to what was written over
//! since; what was acknowledged is lost after a truncation or where a name is used again (WRITER-TRAPS 4); records of volumes are not
//! carried out (WRITER-TRAPS 6).

use super::datasets::{number, task};
use super::logs::{Cut, NEW, bytes, clock, content, until_the_power_goes};
use super::mounted::mounted;
use super::volumes::{make as make_volume, new as new_volume, open as open_volume};
use super::{Rig, raidz, top};
use fixtures::extent::{by_extent, places};
use rt::inodes::{Caller, Fallocate, Fsync, Inodes, Node, SetAttributes, WriteAt};
use rt::{Buf, Device, Request, SgList};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs::dsl::make::Fresh;
use zfs::mounted::Mounted;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs::zpl::FileSystem;
use zfs_format::vdev::{Vdev, VdevKind};
use zfs_format::zil::record::{Body, Write};

/// A pool whose root has `logbias=throughput`.
fn pool(tops: Vec<Vdev>) -> Rig {
    let rig = Rig::new(tops);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let root = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let directory = root.directory.number;
        let set = task(&live, async |tasks| {
            tasks.set_property(directory, "logbias", Some(table::number(1))).await
        });
        set.await.expect("it is set");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig
}

/// Records of a dataset's log: those that lead to blocks, those that say one before them does, and those that have their bytes.
async fn records(spa: &Spa, name: &str) -> [usize; 3] {
    let (directory, head) = spa.dsl().find(name).await.expect("read").expect("it is there");
    let objset = spa.objset(&directory, &head).await.expect("it opens");
    let found = zfs::zil::unreplayed(&objset, 0).await.expect("it is read").records;
    let mut counts = [0; 3];
    for logged in &found {
        match &logged.record.body {
            Body::Write(Write { pointer, .. }) if !pointer.is_hole() => counts[0] += 1,
            Body::Write2(_) => counts[1] += 1,
            Body::Write(_) => counts[2] += 1,
            _ => {}
        }
    }
    counts
}

fn by() -> Caller {
    Caller::default()
}

async fn put(of: &Mounted, file: Node, at: u64, byte: u8, len: usize) {
    of.write(by(), file, WriteAt::Offset(Offset(at)), bytes(byte, len), false)
        .await
        .expect("written");
}

#[test]
fn records_lead_to_blocks_which_the_replay_reads() {
    let rig = pool(vec![top(0, VdevKind::Mirror, 2)]);
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let file = real.create(by(), Node::ROOT, b"one", NEW).await.expect("made").node;
        // The first takes the group: the log begins with it.
        real.fsync(file, Fsync::All).await.expect("durable");
        let synced = live.spa().uberblock().txg;
        put(real, file, 0, 1, 400_000).await;
        real.fsync(file, Fsync::All).await.expect("durable");
        // Less than a block, over two of them, and once more what was there.
        put(real, file, 130_000, 2, 3000).await;
        put(real, file, 5, 3, 10).await;
        real.fsync(file, Fsync::All).await.expect("durable");
        put(real, file, 5, 4, 10).await;
        put(real, file, 300, 4, 10).await;
        real.fsync(file, Fsync::All).await.expect("durable");
        let how = Fallocate::PunchHole;
        real.fallocate(by(), file, Offset(5), ByteCount(10), how).await.expect("punched");
        put(real, file, 5, 4, 10).await;
        real.fsync(file, Fsync::All).await.expect("durable");
        assert_eq!(live.spa().uberblock().txg, synced, "no group was needed");
    });
    rig.with(async |spa: Rc<Spa>, _| {
        let [leading, before, with_bytes] = records(&spa, "tank").await;
        assert!(leading >= 8 && before >= 1 && with_bytes == 0, "{leading} {before} {with_bytes}");
    });
    rig.judge();
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let mut one = vec![1; 400_000];
        one[130_000..133_000].fill(2);
        one[5..15].fill(4);
        one[300..310].fill(4);
        assert!(content(real, b"one").await == Some(one), "what was written is there");
        live.make_durable().await.expect("in the pool");
    });
    rig.judge();
}

/// What a group takes over is written once, and what was overtaken, cut off or removed before is free.
#[test]
fn a_group_takes_over_what_is_in_its_place_and_frees_the_rest() {
    let rig = pool(vec![top(0, raidz(1), 3)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        let made = async |name: &[u8]| {
            let file = real.create(by(), Node::ROOT, name, NEW).await.expect("made").node;
            put(&real, file, 0, name[0], 300_000).await;
            real.fsync(file, Fsync::All).await.expect("durable");
            file
        };
        // The first takes the group.
        made(b"first").await;
        for round in 0..3 {
            let [kept, over, cut, gone] = [b"kept", b"over", b"cut0", b"gone"];
            let kept = made(&[kept, &[round + b'0'][..]].concat()).await;
            let over = made(&[over, &[round + b'0'][..]].concat()).await;
            let cut = made(&[cut, &[round + b'0'][..]].concat()).await;
            let name = [gone, &[round + b'0'][..]].concat();
            made(&name).await;
            put(&real, over, 100_000, 9, 100_000).await;
            real.fsync(over, Fsync::All).await.expect("durable");
            put(&real, over, 100_000, 8, 10).await;
            let size = Some(ByteCount(200_000));
            let set = SetAttributes { size, ..SetAttributes::default() };
            real.setattr(by(), cut, set).await.expect("cut");
            real.unlink(by(), Node::ROOT, &name).await.expect("removed");
            let before = live.syncer().writer().space(|space| space.usage_of(0).taken);
            live.make_durable().await.expect("in the pool");
            let after = live.syncer().writer().space(|space| space.usage_of(0).taken);
            assert!(after < before + (700 << 10), "{} bytes were written again", after - before);
            let read = real.read(kept, Offset(0), ByteCount(300_000)).await.expect("read").to_vec();
            assert!(read == vec![b'k'; 300_000]);
        }
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// What a step of a program left of its file, or nothing.
type State = Option<Vec<u8>>;

/// WRITER-TRAPS 4: a file is written and durable, its name is removed and made again (or it is truncated), written and durable; the power
/// goes at a write. What is found is what was acknowledged last, or what was done since.
fn fsync_unlink_create_of_the_same_name(
    base: &Rig,
    write: u64,
    truncates: bool,
    judges: bool,
) -> bool {
    let mut cut = Cut::at(base, 0, write);
    // All states, and how many of them there were at the last acknowledgement.
    let states: Rc<RefCell<(Vec<State>, usize)>> = Rc::new(RefCell::new((vec![None], 0)));
    let (kept, powered) = (Rc::clone(&states), Rc::clone(&cut.covered[0]));
    cut.rig.with_devices(cut.devices(), async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        let left = |state: State| kept.borrow_mut().0.push(state);
        for round in 0..5u8 {
            let len = 150_000 + 1000 * usize::from(round);
            let made = real.create(by(), Node::ROOT, b"table", NEW).await;
            let Ok(file) = made.map(|made| made.node) else { return };
            left(Some(Vec::new()));
            for part in 0..2u8 {
                let byte = 1 + round * 2 + part;
                let data = bytes(byte, len / 2);
                let at = WriteAt::Offset(Offset(u64::from(part) * len as u64 / 2));
                if real.write(by(), file, at, data, false).await.is_err() {
                    return;
                }
                let before = kept.borrow().0.last().cloned().flatten().unwrap_or_default();
                left(Some([before, vec![byte; len / 2]].concat()));
                if real.fsync(file, Fsync::All).await.is_err() || powered.is_cut() {
                    return;
                }
                let mut kept = kept.borrow_mut();
                kept.1 = kept.0.len() - 1;
            }
            if round == 3 && live.make_durable().await.is_err() {
                return;
            }
            if truncates {
                let set = SetAttributes { size: Some(ByteCount(0)), ..SetAttributes::default() };
                if real.setattr(by(), file, set).await.is_err() {
                    return;
                }
                left(Some(Vec::new()));
                put(&real, file, 0, 100 + round, 140_000).await;
                left(Some(vec![100 + round; 140_000]));
                if real.fsync(file, Fsync::All).await.is_err() || powered.is_cut() {
                    return;
                }
                let mut kept = kept.borrow_mut();
                kept.1 = kept.0.len() - 1;
            }
            if real.unlink(by(), Node::ROOT, b"table").await.is_err() {
                return;
            }
            left(None);
        }
    });
    let (was_cut, all) = cut.power_on(0, write);
    cut.rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        assert_eq!(live.logs_given_up(), [], "where a log was cut it ends, and is not damaged");
        let real = mounted(&live, clock()).await;
        let found = content(&real, b"table").await;
        let (states, acknowledged) = &*states.borrow();
        // What was under way may be there in part: a write is cut between blocks.
        let is_part = |two: &[State]| match (&two[0], &two[1], &found) {
            (Some(before), Some(after), Some(found)) => {
                found.starts_with(before) && after.starts_with(found)
            }
            _ => false,
        };
        let since = &states[*acknowledged..];
        let is_one = since.contains(&found) || since.windows(2).any(is_part);
        let len = found.as_ref().map(Vec::len);
        assert!(is_one, "cut at write {write}: {len:?} bytes, behind state {acknowledged}");
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    if judges {
        cut.rig.judge();
    }
    was_cut
}

#[test]
fn trap_4_fsync_unlink_create_of_the_same_name_with_throughput() {
    fixtures::takes_long!();
    let base = pool(vec![top(0, VdevKind::File, 1)]);
    for truncates in [false, true] {
        let judged = if truncates { 90 } else { 61 };
        let mut cuts = 0;
        for write in places(1, 5) {
            let judges = by_extent(cuts == 2, write == judged);
            if !fsync_unlink_create_of_the_same_name(&base, write, truncates, judges) {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > by_extent(10, judged), "the power was cut {cuts} times");
    }
}

/// Gangs are claimed with their pieces.
#[test]
fn blocks_in_pieces_are_claimed_and_freed_with_the_log() {
    let rig = pool(vec![top(0, VdevKind::File, 1)]);
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let file = real.create(by(), Node::ROOT, b"one", NEW).await.expect("made").node;
        real.fsync(file, Fsync::All).await.expect("durable");
        live.syncer().writer().force_gangs(8192, 2);
        let random: Vec<u8> = (0..500_000_u64).map(|n| (n * n * 31 / 7 + n) as u8).collect();
        let data = SgList::from(Buf::copy_of(&random));
        real.write(by(), file, WriteAt::Offset(Offset(0)), data, false).await.expect("written");
        real.fsync(file, Fsync::All).await.expect("durable");
    });
    rig.with(async |spa: Rc<Spa>, _| assert_eq!(records(&spa, "tank").await, [4, 0, 0]));
    rig.judge();
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let one: Vec<u8> = (0..500_000_u64).map(|n| (n * n * 31 / 7 + n) as u8).collect();
        assert!(content(real, b"one").await == Some(one), "what was written is there");
        live.make_durable().await.expect("in the pool");
    });
    rig.judge();
}

#[test]
fn what_a_volume_was_told_is_durable_is_replayed_from_its_blocks() {
    let rig = pool(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        make_volume(&live, new_volume("v", 4 << 20, 64 << 10, 0)).await.expect("it is made");
        let volume = open_volume(&live, "tank/v").await;
        let write = async |at: u64, byte: u8, len: usize| {
            let request = Request::write(Offset(at), bytes(byte, len));
            volume.submit(request).await.expect("written");
        };
        write(0, 1, 512).await;
        volume.submit(Request::flush()).await.expect("durable");
        // The log has begun.
        let synced = live.spa().uberblock().txg;
        write(65_536, 2, 300_032).await;
        write(512, 3, 1024).await;
        write(4096, 3, 1024).await;
        volume.submit(Request::flush()).await.expect("durable");
        assert_eq!(live.spa().uberblock().txg, synced, "no group was needed");
        assert!(number(&live, "tank/v").await > 0);
    });
    rig.with(async |spa: Rc<Spa>, _| {
        // OpenZFS's volumes know no record that leads to what one before it does.
        let [leading, before, with_bytes] = records(&spa, "tank/v").await;
        assert!(leading >= 6 && before == 0 && with_bytes == 0, "{leading} {before} {with_bytes}");
    });
    rig.judge();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let volume = open_volume(&live, "tank/v").await;
        let read = volume.submit(Request::read(Offset(0), ByteCount(4 << 20))).await;
        let read = read.expect("it is read").to_vec();
        let mut model = vec![0; 4 << 20];
        model[..512].fill(1);
        model[512..1536].fill(3);
        model[4096..5120].fill(3);
        model[65_536..65_536 + 300_032].fill(2);
        assert!(read == model);
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A file grows within a block, twice in one commit, and the second write begins before the end that the first leaves: the record of the
/// first leads to a block with both, that of the second says how far the file goes.
#[test]
fn what_a_later_record_says_of_a_block_is_replayed_with_it() {
    let rig = pool(vec![top(0, VdevKind::File, 1)]);
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let file = real.create(by(), Node::ROOT, b"one", NEW).await.expect("made").node;
        put(real, file, 0, 1, 40_000).await;
        real.fsync(file, Fsync::All).await.expect("durable");
        live.make_durable().await.expect("in the pool");
        put(real, file, 40_000, 2, 40_000).await;
        put(real, file, 60_000, 3, 40_000).await;
        real.fsync(file, Fsync::All).await.expect("durable");
    });
    rig.with(async |spa: Rc<Spa>, _| assert_eq!(records(&spa, "tank").await, [1, 1, 0]));
    let whole = [vec![1; 40_000], vec![2; 20_000], vec![3; 40_000]].concat();
    let seen = whole.clone();
    rig.with(async move |spa: Rc<Spa>, _| {
        let (directory, head) = spa.dsl().find("tank").await.expect("read").expect("there");
        let objset = spa.objset(&directory, &head).await.expect("it opens");
        let found = zfs::zil::unreplayed(&objset, spa.uberblock().txg).await.expect("read");
        let view = FileSystem::open_with_log(&objset, &found.records).await.expect("replayed");
        let root = view.node(view.root_number()).await.expect("read");
        let entry = view.lookup(&root, b"one").await.expect("read").expect("there");
        let node = view.node(entry.object).await.expect("read");
        let read = view.read(&node, 0, 200_000).await.expect("read").to_vec();
        assert!(read == seen, "a view of it has all");
    });
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        assert!(content(real, b"one").await == Some(whole), "what was written is there");
        // What lies behind the end is zeros.
        let file = real.lookup(Node::ROOT, b"one").await.expect("there").node;
        let size = Some(ByteCount(131_072));
        let longer = SetAttributes { size, ..SetAttributes::default() };
        real.setattr(by(), file, longer).await.expect("longer");
        let end = real.read(file, Offset(100_000), ByteCount(31_072)).await.expect("read");
        assert!(end.to_vec().iter().all(|byte| *byte == 0));
        live.make_durable().await.expect("in the pool");
    });
    rig.judge();
}

/// Blocks of zeros have no place to lead to, so the log has their bytes, which is longer than a record that leads somewhere.
#[test]
fn a_log_of_what_has_no_place_is_as_long_as_its_bytes() {
    let rig = pool(vec![top(0, VdevKind::File, 1)]);
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let root = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let directory = root.directory.number;
        // lz4: zeros become holes.
        let set = task(live, async |tasks| {
            tasks.set_property(directory, "compression", Some(table::number(15))).await
        });
        set.await.expect("it is set");
        let file = real.create(by(), Node::ROOT, b"one", NEW).await.expect("made").node;
        real.fsync(file, Fsync::All).await.expect("durable");
        for round in 0..4 {
            put(real, file, round * 64_000, 0, 64_000).await;
            real.fsync(file, Fsync::All).await.expect("durable");
        }
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        let (directory, head) = spa.dsl().find("tank").await.expect("read").expect("there");
        let objset = spa.objset(&directory, &head).await.expect("it opens");
        let blocks = zfs::zil::chain(&objset).await.expect("read").links.len();
        assert!((4..=12).contains(&blocks), "{blocks} blocks");
        assert_eq!(records(&spa, "tank").await[0], 0, "none leads anywhere");
    });
    rig.judge();
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        assert!(content(real, b"one").await == Some(vec![0; 256_000]), "it is there");
        live.make_durable().await.expect("in the pool");
    });
    rig.judge();
}
