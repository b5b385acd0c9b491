//! Intent logs: what was committed is there after the power went, whenever it went.
//!
//! What could break: a change that was acknowledged is lost, or comes back otherwise; changes come back in another order; a log's
//! space is given to something else, or lost; a log is taken up that is over.

use super::cuts::after_cut;
use super::datasets::{number, task};
use super::mounted::{Both, Steps, mounted, names, values};
use super::{DEVICE, Rig, USABLE, features, features_and, raidz, top, volumes};
use fixtures::extent::{by_extent, places, some};
use rt::filter::PowerCut;
use rt::inodes::{
    Caller, Fallocate, Fsync, InodeKind, Inodes, New, Node, RenameHow, SetAttributes, SetHow,
    WallClock, WriteAt,
};
use rt::{Buf, Device, DeviceRef, MemoryTree, Request, SgList};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::mounted::Mounted;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::live::{Live, LiveOptions};
use zfs::zil;
use zfs::zpl::name_rules::case;
use zfs_format::features::Feature;
use zfs_format::vdev::VdevKind;
use zfs_store::alloc::Class;

/// What is known of each file by its path, but its times: a replay sets some.
pub(crate) type Seen = BTreeMap<Vec<u8>, String>;

pub(crate) async fn seen(of: &dyn Inodes) -> Seen {
    let mut found = BTreeMap::new();
    let mut below = vec![(Node::ROOT, Vec::new())];
    while let Some((node, path)) = below.pop() {
        let a = of.attributes(node).await.expect("it is there");
        let mut text = format!("{:?} {:o} {} {}", a.kind, a.permissions, a.user, a.group);
        text += &format!(" {} {:?} {:?}", a.links, a.device, values(of, node).await);
        match a.kind {
            InodeKind::Directory => {
                for (name, node) in names(of, node).await {
                    below.push((node, [&path[..], b"/", &name].concat()));
                }
            }
            InodeKind::File => {
                let bytes = of.read(node, Offset(0), a.size).await.expect("it is read").to_vec();
                let mut sum = std::hash::DefaultHasher::new();
                sum.write(&bytes);
                let sum = sum.finish();
                text += &format!(" {} {sum:x}", a.size);
            }
            InodeKind::Link => {
                text += &format!(" {:?}", of.link_target(node).await.expect("it is read"));
            }
            _ => {}
        }
        found.insert(path, text);
    }
    found
}

/// A pool on copies of disks, with devices whose power can be cut.
pub(crate) struct Cut {
    pub(crate) rig: Rig,
    pub(crate) covered: Vec<Rc<PowerCut>>,
}

impl Cut {
    /// The power goes at a write to one of the disks.
    pub(crate) fn at(base: &Rig, disk: usize, write: u64) -> Cut {
        let rig = base.fork();
        let covered = rig.power_cuts();
        covered[disk].cut_at_write(write, Prng::new(write));
        Cut { rig, covered }
    }

    pub(crate) fn devices(&self) -> Vec<DeviceRef> {
        self.covered.iter().map(|cut| Rc::clone(cut) as DeviceRef).collect()
    }

    /// What is left when the power is on again; says whether it went at the write.
    pub(crate) fn power_on(&mut self, disk: usize, write: u64) -> (bool, Vec<DeviceRef>) {
        let was_cut = self.covered[disk].is_cut();
        (was_cut, after_cut(&self.rig, std::mem::take(&mut self.covered), write))
    }
}

pub(crate) fn clock() -> Rc<Steps> {
    Rc::new(Steps(Cell::new(0)))
}

/// A dataset that was committed by its log, and that nobody has any more, can be destroyed; so can one whose log is begun anew.
#[test]
fn a_log_that_nobody_needs_is_in_nobodys_way() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        for round in 0..2 {
            let new = volumes::new("v", 4 << 20, 16 << 10, 0);
            volumes::make(&live, new).await.expect("it is made");
            let volume = volumes::open(&live, "tank/v").await;
            for n in 0..4 + round {
                let bytes = Buf::copy_of(&[n as u8 + 1; 16 << 10]);
                let write = Request::write(Offset(n << 14), bytes);
                volume.submit(write).await.expect("it is written");
                volumes::flush(&volume).await;
            }
            let number = number(&live, "tank/v").await;
            let busy = task(&live, async |tasks| tasks.destroy(number).await).await;
            assert!(busy.is_err(), "somebody has it");
            drop(volume);
            task(&live, async |tasks| tasks.destroy(number).await).await.expect("it goes");
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// What could break: short-lived blocks among those that stay, a metaslab that is counted as room for data.
#[test]
fn logs_of_a_large_vdev_lie_in_a_metaslab_of_their_own() {
    const LARGE: u64 = 40 << 30;
    // As OpenZFS divides a vdev of that size.
    const SLAB: u64 = 512 << 20;
    let mut one = top(0, VdevKind::File, 1);
    one.asize = Some(LARGE - (DEVICE - USABLE));
    let rig = Rig::of_size(LARGE, vec![one], features());
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let (size, free) = live.syncer().writer().space(|space| space.sizes(Class::EmbeddedLog));
        assert_eq!((size, free), (SLAB, SLAB), "the emptiest");
        let (normal, _) = live.syncer().writer().space(|space| space.sizes(Class::Normal));
        assert_eq!(normal, (LARGE / SLAB - 2) * SLAB, "and no other");
        volumes::make(&live, volumes::new("v", 4 << 20, 16 << 10, 0)).await.expect("it is made");
        let volume = volumes::open(&live, "tank/v").await;
        for n in 0..20 {
            let bytes = Buf::copy_of(&[n as u8 + 1; 16 << 10]);
            volume.submit(Request::write(Offset(n << 14), bytes)).await.expect("it is written");
            volumes::flush(&volume).await;
        }
        let (_, left) = live.syncer().writer().space(|space| space.sizes(Class::EmbeddedLog));
        assert!(left < SLAB, "logs take of it");
    });
    let lies_in = rig.with(async move |spa: Rc<Spa>, _| {
        let (directory, dataset) = spa.dsl().find("tank/v").await.expect("read").expect("there");
        let objset = spa.objset(&Rc::new(directory), &dataset).await.expect("it is read");
        let log = zil::chain(&objset).await.expect("it is read");
        let slab = |link: &zil::Link| link.pointer.dva(0).offset() / SLAB;
        log.links.iter().map(slab).collect::<Vec<u64>>()
    });
    assert!(lies_in.len() > 10 && lies_in.iter().all(|slab| *slab == lies_in[0]), "{lies_in:?}");
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it replays"));
        let volume = volumes::open(&live, "tank/v").await;
        let taken = |class| live.syncer().writer().space(|space| space.usage(class).taken);
        let before = (taken(Class::Normal), taken(Class::EmbeddedLog));
        for n in 0..200 {
            let bytes = Buf::copy_of(&[n as u8 + 1; 16 << 10]);
            volume.submit(Request::write(Offset(n << 14), bytes)).await.expect("it is written");
        }
        live.sync(async |_| Ok(())).await.expect("it is in the pool");
        assert!(taken(Class::Normal) > before.0 && taken(Class::EmbeddedLog) == before.1);
        drop(volume);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Random changes, each committed: after a cut the pool is as the last one that was acknowledged left it, or as the one under way.
fn each_change_committed(base: &Rig, disk: usize, write: u64, judges: bool) -> bool {
    const CHANGES: usize = 24;
    let mut cut = Cut::at(base, disk, write);
    let states: Rc<RefCell<Vec<Seen>>> = Rc::default();
    let acknowledged = Rc::new(Cell::new(0));
    let (kept, done) = (Rc::clone(&states), Rc::clone(&acknowledged));
    let powered = cut.covered.clone();
    cut.rig.with_devices(cut.devices(), async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let clock = clock();
        let real = mounted(&live, Rc::clone(&clock) as Rc<dyn WallClock>).await;
        let (now, memory) = (Rc::clone(&clock) as Rc<dyn WallClock>, ByteCount::gib(1));
        let model = MemoryTree::with("model", memory, 1 << 20, now);
        let set = SetAttributes { permissions: Some(0o755), ..SetAttributes::default() };
        for of in [&real as &dyn Inodes, &*model] {
            of.setattr(Caller::default(), Node::ROOT, set).await.expect("it is set");
        }
        kept.borrow_mut().push(seen(&*model).await);
        seen(&real).await;
        let both = Both { real, model, clock, held: RefCell::default() };
        let number = live.spa().dsl().find("tank").await.expect("read").expect("there").1.number;
        let mut random = Prng::new(11);
        for change in 0..CHANGES {
            both.change(&mut random).await;
            // Reading sets times of access: in both, or they differ.
            let (state, same) = (seen(&*both.model).await, seen(&both.real).await);
            assert!(state == same, "the mount is as its model");
            kept.borrow_mut().push(state);
            let durable = match change % 9 {
                8 => live.make_durable().await,
                _ => live.commit(number, None).await,
            };
            if durable.is_err() {
                return;
            }
            done.set(change + 1);
            // A log device may go on for a while when the others are gone.
            if powered.iter().any(|device| device.is_cut()) {
                return;
            }
        }
    });
    let (was_cut, all) = cut.power_on(disk, write);
    if judges {
        // zdb claims logs by itself.
        cut.rig.judge();
    }
    let done = acknowledged.get();
    cut.rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        assert_eq!(live.logs_given_up(), [], "where a log was cut it ends, and is not damaged");
        let real = mounted(&live, clock()).await;
        let found = seen(&real).await;
        let states = states.borrow();
        // Before the first was acknowledged the mode of the root may be another.
        let may_be = &states[done..states.len().min(done + 2)];
        if done > 0 && !may_be.contains(&found) {
            let differs = found.iter().find(|(path, text)| may_be[0].get(*path) != Some(text));
            panic!("cut at write {write} after {done} changes: {differs:?}");
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    if judges {
        cut.rig.judge();
    }
    was_cut
}

fn at_each(base: Rig, step: u64, judged: u64) {
    // `zdb` takes longer than a hundred cuts: it judges one.
    let mut cuts = 0;
    for disk in 0..base.disks.len() {
        for write in places(step, 4) {
            let judges = disk == 0 && by_extent(cuts == 1, write == judged);
            if !each_change_committed(&base, disk, write, judges) {
                break;
            }
            cuts += 1;
        }
    }
    assert!(cuts > by_extent(2, 10), "the power was cut {cuts} times");
}

#[test]
fn what_was_committed_is_there_after_a_cut_at_any_write() {
    let mut log = top(1, VdevKind::File, 1);
    log.is_log = Some(1);
    let pools = [
        (vec![top(0, VdevKind::File, 1)], 4, 81),
        (vec![top(0, VdevKind::File, 1), log], 11, 45),
        (vec![top(0, raidz(1), 3)], 23, 70),
    ];
    for (tops, step, writes) in some(pools, 1) {
        at_each(Rig::new(tops), step, writes);
    }
}

#[test]
fn what_was_committed_is_there_after_a_cut_where_names_differ_by_case() {
    at_each(Rig::with_rules(vec![top(0, VdevKind::File, 1)], case::MIXED, 0), 9, 73);
}

/// A pool that logs extended attributes.
fn with_values_logged() -> Rig {
    let more = Feature::named("zilsaxattr").map(|feature| feature.guid);
    Rig::with_features(
        vec![top(0, VdevKind::File, 1)],
        features().into_iter().chain(more).collect(),
    )
}

#[test]
fn what_was_committed_is_there_after_a_cut_where_extended_attributes_are_logged() {
    at_each(with_values_logged(), 9, 73);
}

/// A pool whose new files have dnodes of four slots.
fn with_large_dnodes() -> Rig {
    let tops = vec![top(0, VdevKind::File, 1)];
    let rig = Rig::with_features(tops, features_and(&["large_dnode", "zilsaxattr"]));
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        super::features::set(&live, "tank", "dnodesize", 2 << 10).await;
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig
}

#[test]
fn what_was_committed_is_there_after_a_cut_where_dnodes_are_large() {
    fixtures::takes_long!();
    at_each(with_large_dnodes(), 7, 71);
}

#[test]
fn extended_attributes_have_records_where_the_pool_may_have_such() {
    let rig = with_values_logged();
    let by = Caller::default();
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let one = real.create(by, Node::ROOT, b"one", NEW).await.expect("made").node;
        let set = async |name: &'static [u8], value: &'static [u8]| {
            let set = real.set_extended_attribute(by, one, name, value, SetHow::Any);
            set.await.expect("it is set");
        };
        // The first takes the group: the log begins with it.
        real.fsync(one, Fsync::All).await.expect("durable");
        set(b"user.old", b"old").await;
        let synced = live.spa().uberblock().txg;
        set(b"user.new", b"value").await;
        set(b"user.old", b"other").await;
        set(b"user.gone", b"here").await;
        let gone = real.remove_extended_attribute(by, one, b"user.gone");
        gone.await.expect("it is taken away");
        real.fsync(one, Fsync::All).await.expect("durable");
        assert_eq!(live.spa().uberblock().txg, synced, "no group was needed");
        // A value without bytes can't be told from none.
        set(b"user.empty", b"").await;
        real.fsync(one, Fsync::All).await.expect("durable");
        assert_eq!(live.spa().uberblock().txg, synced + 1);
        set(b"user.last", b"last").await;
        real.fsync(one, Fsync::All).await.expect("durable");
    });
    // A `zdb` that is older than the feature stumbles over such a record.
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let one = real.lookup(Node::ROOT, b"one").await.expect("it is there").node;
        let found = values(real, one).await;
        let is = [("empty", ""), ("last", "last"), ("new", "value"), ("old", "other")];
        let is = is.map(|(name, value)| (format!("user.{name}").into_bytes(), value.into()));
        assert_eq!(found, BTreeMap::from(is));
        let features = live.spa().features();
        let uses = features.iter().find(|one| one.guid == "org.openzfs:zilsaxattr");
        assert_eq!(uses.map(|one| one.count), Some(1));
    });
    rig.judge();
}

/// Does work on a mount of the pool; the power goes afterwards, at once.
pub(crate) fn until_the_power_goes<T: 'static>(
    rig: &Rig,
    work: impl AsyncFnOnce(&Live, &Mounted) -> T + 'static,
) -> T {
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        work(&live, &real).await
    })
}

pub(crate) fn bytes(of: u8, len: usize) -> SgList {
    SgList::from(Buf::copy_of(&vec![of; len]))
}

pub(crate) async fn content(of: &Mounted, name: &[u8]) -> Option<Vec<u8>> {
    let found = of.lookup(Node::ROOT, name).await.ok()?;
    Some(of.read(found.node, Offset(0), found.size).await.expect("it is read").to_vec())
}

pub(crate) const NEW: New = New { permissions: 0o644, umask: 0 };

/// What one file's fsync makes durable: that file, and the names that were changed before; no more has to be there.
#[test]
fn an_fsync_is_of_its_file_and_of_all_names() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let by = Caller::default();
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let one = real.create(by, Node::ROOT, b"one", NEW).await.expect("made").node;
        let two = real.create(by, Node::ROOT, b"two", NEW).await.expect("made").node;
        real.write(by, one, WriteAt::End, bytes(1, 400_000), false).await.expect("written");
        // The first takes the group: the log begins with it.
        real.fsync(one, Fsync::All).await.expect("durable");
        let synced = live.spa().uberblock().txg;
        real.write(by, one, WriteAt::Offset(Offset(5)), bytes(2, 300_000), false)
            .await
            .expect("written");
        real.write(by, two, WriteAt::End, bytes(3, 5_000), false).await.expect("written");
        let behind = WriteAt::Offset(Offset(20_000));
        real.write(by, two, behind, bytes(6, 3_000), false).await.expect("written");
        real.rename(by, (Node::ROOT, b"two"), (Node::ROOT, b"three"), RenameHow::Replace)
            .await
            .expect("renamed");
        let four = real.create(by, Node::ROOT, b"four", NEW).await.expect("made").node;
        real.write(by, four, WriteAt::End, bytes(4, 70_000), false).await.expect("written");
        let how = Fallocate::PunchHole;
        real.fallocate(by, one, Offset(100), ByteCount(1000), how).await.expect("punched");
        real.fsync(one, Fsync::Data).await.expect("durable");
        // Alone: bytes that are logged with it would have the zeros already.
        real.fallocate(by, one, Offset(2000), ByteCount(500), how).await.expect("punched");
        real.fsync(one, Fsync::Data).await.expect("durable");
        assert_eq!(live.spa().uberblock().txg, synced, "no group was needed");
    });
    rig.judge();
    until_the_power_goes(&rig, async move |_: &Live, real: &Mounted| {
        let mut one = vec![1; 400_000];
        one[5..300_005].fill(2);
        one[100..1100].fill(0);
        one[2000..2500].fill(0);
        assert!(content(real, b"one").await == Some(one), "what was written is there");
        // Its bytes came along with its name.
        let mut three = vec![3; 23_000];
        three[5_000..20_000].fill(0);
        three[20_000..].fill(6);
        assert!(content(real, b"three").await == Some(three), "with the gap between");
        assert_eq!(content(real, b"two").await, None);
        assert_eq!(content(real, b"four").await.map(|four| four.len()), Some(0));
    });
    rig.judge();
}

/// The sequence after which OpenZFS #18996 lost data: fsync, unlink, a new file of the name, fsync.
#[test]
fn a_name_that_is_taken_again_has_the_new_bytes() {
    let by = Caller::default();
    for synced in [false, true] {
        let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
        until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
            for round in 1..=3 {
                let file = real.create(by, Node::ROOT, b"f", NEW).await.expect("made").node;
                let data = bytes(round, 200_000 * usize::from(round));
                real.write(by, file, WriteAt::End, data, false).await.expect("written");
                real.fsync(file, Fsync::All).await.expect("durable");
                if round < 3 {
                    // Nobody wants that durable, and nobody may find it in the next one, whose number may be the same.
                    let behind = WriteAt::Offset(Offset(900_000));
                    real.write(by, file, behind, bytes(9, 50_000), false).await.expect("written");
                    real.release(file);
                    real.unlink(by, Node::ROOT, b"f").await.expect("removed");
                }
                if synced {
                    live.make_durable().await.expect("committed");
                }
            }
        });
        until_the_power_goes(&rig, async move |_: &Live, real: &Mounted| {
            assert!(content(real, b"f").await == Some(vec![3; 600_000]), "the last one's bytes");
        });
        rig.judge();
    }
}

/// A log that is longer than what may be dirty is replayed in several groups; and one that is cut off in the midst goes on.
#[test]
fn commits_that_run_side_by_side_are_all_there() {
    let rig = Rig::new(vec![top(0, VdevKind::Mirror, 2)]);
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        let by = Caller::default();
        let (live, rt) = (live, live.spa().rt().clone());
        let first = real.create(by, Node::ROOT, b"first", NEW).await.expect("made").node;
        real.fsync(first, Fsync::All).await.expect("durable");
        let writers = (0..8u8).map(|number| {
            let real = real.clone();
            rt.spawn(async move {
                let name = [b'a' + number];
                let file = real.create(by, Node::ROOT, &name, NEW).await.expect("made").node;
                for round in 0..40u8 {
                    let data = bytes(number ^ round, 1 + 977 * usize::from(number));
                    real.write(by, file, WriteAt::End, data, true).await.expect("written");
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for _ in 0..5 {
            live.make_durable().await.expect("committed");
        }
        for writer in writers {
            writer.await;
        }
    });
    rig.judge();
    until_the_power_goes(&rig, async move |_: &Live, real: &Mounted| {
        for number in 0..8u8 {
            let expected: Vec<u8> = (0..40u8)
                .flat_map(|round| vec![number ^ round; 1 + 977 * usize::from(number)])
                .collect();
            assert!(content(real, &[b'a' + number]).await == Some(expected), "writer {number}");
        }
    });
    rig.judge();
}

/// A log is replayed in groups of few bytes, and the power goes at some write of that: what was acknowledged is there when the
/// next one has replayed the rest, neither lost nor done twice.
#[test]
fn a_cut_while_a_log_is_replayed_loses_nothing_of_it() {
    fixtures::takes_long!();
    let base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let left = until_the_power_goes(&base, async |live: &Live, real: &Mounted| {
        let by = Caller::default();
        let number = live.spa().dsl().find("tank").await.expect("read").expect("there").1.number;
        // The log begins with the first group.
        live.make_durable().await.expect("committed");
        for round in 0..6u8 {
            let name = [b'a' + round];
            let file = real.create(by, Node::ROOT, &name, NEW).await.expect("made").node;
            let data = bytes(round, 9_000 * usize::from(round));
            real.write(by, file, WriteAt::End, data, false).await.expect("written");
            if round % 3 == 2 {
                let (from, to) = ([b'a' + round - 1], [b'A' + round]);
                let how = RenameHow::Replace;
                let moved = real.rename(by, (Node::ROOT, &from), (Node::ROOT, &to), how).await;
                moved.expect("renamed");
                real.unlink(by, Node::ROOT, &[b'a' + round - 2]).await.expect("removed");
            }
            live.commit(number, None).await.expect("durable");
        }
        seen(real).await
    });
    let left = Rc::new(left);
    for write in places(3, 8) {
        let mut cut = Cut::at(&base, 0, write);
        cut.rig.with_devices(cut.devices(), async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            // It may come to its end, or not.
            let _ = Live::open_with(
                spa,
                &fresh,
                LiveOptions { replay_bytes: 1, ..LiveOptions::default() },
            )
            .await;
        });
        let (was_cut, all) = cut.power_on(0, write);
        let left = Rc::clone(&left);
        cut.rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let real = mounted(&live, clock()).await;
            assert!(seen(&real).await == *left, "cut at write {write}");
        });
        if !was_cut {
            assert!(write > 100, "{write} writes replay it in several groups");
            break;
        }
    }
}

/// A snapshot has the header of the log that there was. Who began with it would replay what is another's, and could not be destroyed.
#[test]
fn a_clone_begins_without_the_log_of_its_origin() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        let (directory, head) = live.spa().dsl().find("tank").await.expect("read").expect("there");
        for name in [b"a", b"b"] {
            let file = real.create(Caller::default(), Node::ROOT, name, NEW).await.expect("made");
            real.fsync(file.node, Fsync::All).await.expect("durable");
        }
        let of = head.number;
        let taken = live.task(async |tasks| tasks.snapshot(of, "s").await).await;
        let snapshot = taken.expect("it is written").expect("it is taken");
        let new = NewClone { name: "c".to_owned(), properties: Vec::new() };
        let above = directory.number;
        let made = live.task(async |tasks| tasks.clone(snapshot, above, &new).await).await;
        made.expect("it is written").expect("it is made");
        let has_log = async |name: &str| {
            let found = live.spa().dsl().find(name).await.expect("read").expect("it is there");
            let objset = live.spa().objset(&found.0, &found.1).await.expect("it opens");
            !objset.root().zil.log.is_hole()
        };
        assert!(has_log("tank@s").await && !has_log("tank/c").await);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Who destroys a dataset, or takes it back, finds no log in it once the pool was closed.
#[test]
fn a_pool_that_was_closed_has_no_log() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        for name in [b"a", b"b", b"c"] {
            let by = Caller::default();
            let file = real.create(by, Node::ROOT, name, NEW).await.expect("made").node;
            real.write(by, file, WriteAt::End, bytes(1, 300_000), true).await.expect("written");
        }
        let (directory, head) = live.spa().dsl().find("tank").await.expect("read").expect("there");
        let stored = live.spa().objset(&directory, &head).await.expect("it opens");
        assert!(!stored.root().zil.log.is_hole(), "it had one");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        let (directory, head) = spa.dsl().find("tank").await.expect("read").expect("there");
        let stored = spa.objset(&directory, &head).await.expect("it opens");
        assert_eq!(stored.root().zil, zfs_format::zil::ZilHeader::EMPTY);
    });
    rig.judge();
}
