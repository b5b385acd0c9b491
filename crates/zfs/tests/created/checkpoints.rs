//! Checkpoints: taken, gone back to, discarded, with cuts at each write of that.
//!
//! What could break: something of the checkpoint is used again; space that only it has is lost when it goes, or free twice; a log of
//! the time since is replayed in a pool that went back; a cut that leaves a pool between what it was and what it went back to.

use super::cuts::after_cut;
use super::logs::{NEW, bytes, until_the_power_goes};
use super::pointers::check_trees;
use super::{Model, Rig, change, compare, drawn, features_and, files_of, raidz, top, zdb};
use fixtures::extent::{by_extent, places, some};
use rt::filter::PowerCut;
use rt::inodes::{Caller, Fsync, Inodes, Node, WriteAt};
use rt::{Buf, DeviceRef};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::mounted::Mounted;
use zfs::spa::config::LabelState;
use zfs::spa::live::{CheckpointError, Live, LiveOptions};
use zfs::spa::{OpenOptions, Spa};
use zfs::zpl::FileSystem;
use zfs_format::features::Feature;
use zfs_format::vdev::{Vdev, VdevKind};

/// How many times as long as else stretches are of which one place is cut, in the quick form of the tests.
const FEWER: u64 = 8;

fn rewound() -> OpenOptions {
    OpenOptions { checkpoint: true, ..OpenOptions::default() }
}

/// A pool; of one vdev without logs of space maps, of two with them, and so on.
fn pool(tops: Vec<Vdev>) -> Rig {
    let features = features_and(&["zpool_checkpoint", "spacemap_histogram"]);
    let seed = tops.len() as u64;
    Rig::with_features(tops, drawn(seed, features))
}

fn devices(rig: &Rig) -> Vec<DeviceRef> {
    rig.devices().into_values().collect()
}

/// The root file system and its number.
async fn files(live: &Live) -> (FileSystem, u64) {
    let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
    (live.files(&node).await.expect("it opens"), node.head.number)
}

/// Changes over so many groups.
async fn write(live: &Live, model: &mut Model, random: &mut Prng, groups: usize) {
    let (files, _) = files(live).await;
    for _ in 0..groups {
        for _ in 0..12 {
            change(&files, model, random).await;
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
    }
}

/// Writes all files anew.
async fn overwrite(live: &Live, model: &mut Model, random: &mut Prng) {
    let (files, _) = files(live).await;
    for (number, content) in model {
        content.resize(60_000, 0);
        random.fill(content);
        let end = content.len() as u64;
        files.write(*number, 0, &Buf::copy_of(content), end).await.expect("it is written");
    }
}

/// What files hold.
async fn contents(spa: &Spa) -> Model {
    let files = files_of(spa, "tank").await;
    let root = files.root().await.expect("it is read");
    let mut found = Model::new();
    for name in files.names(&root).await.expect("they are read") {
        let number = name.entry.object;
        let node = files.node(number).await.expect("it is there");
        let len = node.attributes.size as usize;
        found.insert(number, node.dnode().read(0, len).await.expect("it is read").to_vec());
    }
    found
}

fn uses(spa: &Spa) -> u64 {
    let feature = Feature::named("zpool_checkpoint").expect("a feature");
    let features = spa.features();
    features.iter().find(|one| one.guid == feature.guid).map_or(0, |one| one.count)
}

/// `zdb` finds nothing wrong with the pool as its checkpoint has it.
fn judge_checkpoint(rig: &Rig) {
    let folder = rig.dumped();
    let Some(text) = zdb(folder.path(), &["-kd", "tank"]) else { return };
    assert!(text.contains("CHECKPOINTED"), "{text}");
}

/// Opens it as it was, for reading; and checks what is found.
fn look_back(rig: &Rig, devices: Vec<DeviceRef>, model: Model) {
    rig.with_options(devices, rewound(), async move |spa: Rc<Spa>, _| {
        check_trees(&spa).await;
        compare(&files_of(&spa, "tank").await, &model).await;
    });
}

/// Goes back, and on from there.
async fn go_back(spa: Rc<Spa>, fresh: Rc<dyn Fresh>) -> Result<Live, zfs::spa::live::LiveError> {
    let options = LiveOptions { taken_back: true, ..LiveOptions::default() };
    Live::open_with(spa, &fresh, options).await
}

fn taken_and_more(tops: Vec<Vdev>) -> (Rig, Model, Model) {
    let rig = pool(tops);
    let models: Rc<RefCell<(Model, Model)>> = Rc::default();
    let kept = Rc::clone(&models);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let (mut model, mut random) = (Model::new(), Prng::new(5));
        write(&live, &mut model, &mut random, 3).await;
        let (files, number) = files(&live).await;
        let done = live.task(async |tasks| tasks.snapshot(number, "old").await).await;
        done.expect("it is written").expect("it is taken");
        change(&files, &mut model, &mut random).await;
        assert_eq!(live.discard_checkpoint().await, Err(CheckpointError::Absent));
        live.checkpoint().await.expect("it is taken");
        assert_eq!(live.checkpoint().await, Err(CheckpointError::Exists));
        let then = model.clone();
        write(&live, &mut model, &mut random, 8).await;
        live.close(LabelState::Exported).await.expect("it is closed");
        *kept.borrow_mut() = (then, model);
    });
    // In another life it is known as well what is kept.
    let kept = Rc::clone(&models);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        assert_eq!(uses(&spa), 1);
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut model = kept.borrow().1.clone();
        write(&live, &mut model, &mut Prng::new(8), 12).await;
        live.close(LabelState::Exported).await.expect("it is closed");
        kept.borrow_mut().1 = model;
    });
    let (then, now) = models.take();
    (rig, then, now)
}

fn checkpointed(tops: Vec<Vdev>) {
    let (rig, then, now) = taken_and_more(tops);
    rig.judge_midway();
    judge_checkpoint(&rig);
    look_back(&rig, devices(&rig), then.clone());
    let space = rig.with(async |spa: Rc<Spa>, _| spa.space().await.expect("it is told"));
    assert!(space.checkpoint > 100_000, "it keeps {}", space.checkpoint);
    // Back.
    let back = rig.fork();
    let before = rig.with(async |spa: Rc<Spa>, _| spa.uberblock().txg);
    let model = then.clone();
    back.with_options(devices(&back), rewound(), async move |spa: Rc<Spa>, fresh| {
        let live = go_back(spa, fresh).await.expect("it opens for writing");
        assert!(live.spa().uberblock().txg > before);
        let mut model = model;
        let (files, _) = files(&live).await;
        compare(&files, &model).await;
        write(&live, &mut model, &mut Prng::new(6), 3).await;
        live.close(LabelState::Exported).await.expect("it is closed");
        compare(&files_of(live.spa(), "tank").await, &model).await;
    });
    back.with(async move |spa: Rc<Spa>, _| {
        assert_eq!((uses(&spa), spa.uberblock().checkpoint_txg), (0, 0));
        let state = spa.state().await.expect("it is told");
        assert!(state.checkpoint_time.is_none() && !state.discarding);
        assert_eq!(spa.space().await.expect("it is told").checkpoint, 0);
        let found = files_of(&spa, "tank@old").await;
        assert!(!found.names(&found.root().await.expect("read")).await.expect("read").is_empty());
    });
    back.judge_midway();
    // Discarded, over some groups and two lives.
    for last in [false, true] {
        let now = now.clone();
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            live.freeing().set_blocks_max(1);
            if !last {
                live.discard_checkpoint().await.expect("it is there");
                assert_eq!(live.checkpoint().await, Err(CheckpointError::Discarding));
                live.sync(async |_| Ok(())).await.expect("it is written");
                assert!(live.freeing().waits());
                assert_eq!(live.discard_checkpoint().await, Err(CheckpointError::Discarding));
            } else {
                assert_eq!(live.checkpoint().await, Err(CheckpointError::Discarding));
                live.finish_freeing().await.expect("it is written");
                live.close(LabelState::Exported).await.expect("it is closed");
            }
            compare(&files_of(live.spa(), "tank").await, &now).await;
        });
        rig.with(async move |spa: Rc<Spa>, _| {
            let state = spa.state().await.expect("it is told");
            assert_eq!((state.discarding, uses(&spa)), (!last, u64::from(!last)));
            if last {
                assert_eq!(spa.space().await.expect("it is told").checkpoint, 0);
            }
        });
        rig.judge_midway();
    }
    // There is room for another.
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        live.checkpoint().await.expect("it is taken");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

#[test]
fn what_a_checkpoint_has_is_there_until_it_is_discarded() {
    fixtures::takes_long!();
    let pools = [vec![top(0, VdevKind::Mirror, 2)], vec![top(0, raidz(1), 3), top(1, raidz(1), 3)]];
    some(pools, 1).into_iter().for_each(checkpointed);
}

#[test]
fn a_pool_without_the_feature_has_no_checkpoint() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        assert_eq!(live.checkpoint().await, Err(CheckpointError::Unsupported));
        assert_eq!(live.discard_checkpoint().await, Err(CheckpointError::Absent));
    });
}

/// A log that was begun before the checkpoint and written after it, in a pool that nobody closed; with what the checkpoint has, and
/// with what is there when the log is replayed.
fn with_a_log(tops: Vec<Vdev>) -> (Rig, Model, Model) {
    let rig = pool(tops);
    let then = until_the_power_goes(&rig, async |live: &Live, real: &Mounted| {
        let by = Caller::default();
        let mut then = Model::new();
        for number in 0..30_u8 {
            let name = [b'a' + number];
            let file = real.create(by, Node::ROOT, &name, NEW).await.expect("made").node;
            let data = bytes(number, 7_000 * usize::from(number));
            real.write(by, file, WriteAt::End, data, false).await.expect("written");
            real.fsync(file, Fsync::All).await.expect("durable");
            match number {
                5 => {
                    live.checkpoint().await.expect("it is taken");
                    then = contents(live.spa()).await;
                }
                9 | 16 => live.sync(async |_| Ok(())).await.expect("it is written"),
                _ => {}
            }
        }
        then
    });
    let other = rig.fork();
    let now = other.with(async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let now = contents(live.spa()).await;
        live.close(LabelState::Exported).await.expect("it is closed");
        now
    });
    other.judge_midway();
    assert_eq!((then.len(), now.len()), (6, 30));
    (rig, then, now)
}

#[test]
fn a_log_of_the_time_since_is_given_up() {
    let (rig, then, _) = with_a_log(vec![top(0, VdevKind::Mirror, 2)]);
    look_back(&rig, devices(&rig), then.clone());
    rig.with_options(devices(&rig), rewound(), async move |spa: Rc<Spa>, fresh| {
        let live = go_back(spa, fresh).await.expect("it opens for writing");
        let mut model = then;
        compare(&files(&live).await.0, &model).await;
        for seed in 0..2 {
            overwrite(&live, &mut model, &mut Prng::new(seed)).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// What a pool may hold, in the order in which it comes to that, each with what its checkpoint has; and how far it is known to be.
#[derive(Default)]
struct Steps {
    states: Vec<(Model, Option<Model>)>,
    known: usize,
    disks: Vec<Rc<PowerCut>>,
}

impl Steps {
    fn comes(&mut self, now: &Model, checkpoint: Option<&Model>) {
        self.states.push((now.clone(), checkpoint.cloned()));
    }

    /// Nothing can be read any more: a cut is noticed by who writes, and by who reads next.
    fn is_over(&self) -> bool {
        self.disks.iter().all(|disk| disk.is_cut())
    }

    fn is_there(&mut self) {
        self.known = self.states.len() - 1;
    }
}

/// Cuts the power at a write to one of the disks while something is done, and looks. Says whether it came to a cut.
fn cut_at(
    base: &Rig,
    options: OpenOptions,
    (disk, number): (usize, u64),
    work: impl AsyncFnOnce(Rc<Spa>, Rc<dyn Fresh>, Rc<RefCell<Steps>>) + 'static,
) -> bool {
    let rig = base.fork();
    let covered = rig.power_cuts();
    covered[disk].cut_at_write(number, Prng::new(number));
    let all: Vec<DeviceRef> = covered.iter().map(|cut| Rc::clone(cut) as DeviceRef).collect();
    let steps = Steps { disks: covered.clone(), ..Steps::default() };
    let steps = Rc::new(RefCell::new(steps));
    let told = Rc::clone(&steps);
    rig.with_options(all, options, async move |spa, fresh| work(spa, fresh, told).await);
    let was_cut = covered[disk].is_cut();
    let all = after_cut(&rig, covered, number);
    let (found, has) = rig.with_devices(all.clone(), async move |spa: Rc<Spa>, _| {
        check_trees(&spa).await;
        let has = spa.state().await.expect("it is told").checkpoint_time.is_some();
        (contents(&spa).await, has)
    });
    let then = has.then(|| {
        let all = all.clone();
        rig.with_options(all, rewound(), async |spa: Rc<Spa>, _| contents(&spa).await)
    });
    let steps = steps.borrow();
    let at = steps.states[steps.known..].iter().any(|(now, kept)| *now == found && *kept == then);
    assert!(at, "disk {disk}, write {number}: none of {} states", steps.states.len() - steps.known);
    if was_cut && base.is_judged_at(number, 23) {
        // What goes on from here is sound.
        rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let mut model = contents(live.spa()).await;
            overwrite(&live, &mut model, &mut Prng::new(3)).await;
            live.finish_freeing().await.expect("it is written");
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        rig.judge();
    }
    was_cut
}

fn at_each_write(
    (disks, step): (usize, u64),
    cut: impl Fn(usize, u64) -> bool,
) -> BTreeMap<usize, usize> {
    let mut cuts = BTreeMap::new();
    for disk in 0..disks {
        for number in places(step, FEWER) {
            if !cut(disk, number) {
                break;
            }
            *cuts.entry(disk).or_default() += 1;
        }
    }
    cuts
}

#[test]
fn a_cut_while_a_checkpoint_is_taken_or_discarded_leaves_it_or_not() {
    fixtures::takes_long!();
    let base = pool(vec![top(0, VdevKind::Mirror, 2)]);
    let cuts = at_each_write((2, 5), |disk, number| {
        cut_at(&base, OpenOptions::default(), (disk, number), async |spa, fresh, steps| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            live.freeing().set_blocks_max(1);
            let (files, _) = files(&live).await;
            let (mut model, mut random) = (Model::new(), Prng::new(5));
            let mut checkpoint: Option<Model> = None;
            steps.borrow_mut().comes(&model, None);
            for round in 0..9 {
                if round != 2 && round < 7 {
                    for _ in 0..6 {
                        change(&files, &mut model, &mut random).await;
                    }
                }
                match round {
                    2 => checkpoint = Some(model.clone()),
                    6 => {
                        // What was changed may be there, and the checkpoint too, or with neither.
                        checkpoint = None;
                    }
                    _ => {}
                }
                steps.borrow_mut().comes(&model, checkpoint.as_ref());
                let done = match round {
                    2 => live.checkpoint().await.is_ok(),
                    6 => live.discard_checkpoint().await.is_ok(),
                    _ => live.sync(async |_| Ok(())).await.is_ok(),
                };
                if !done {
                    return;
                }
                steps.borrow_mut().is_there();
            }
        })
    });
    assert!(cuts.values().all(|cuts| *cuts > by_extent(2, 10)), "{cuts:?}");
}

#[test]
fn a_cut_while_a_pool_is_taken_back_leaves_it_as_it_was_or_as_it_is_to_be() {
    fixtures::takes_long!();
    // Alone, what a cut leaves of a group is not made good by another disk that went on.
    let pools = [(vec![top(0, VdevKind::Mirror, 2)], 3), (vec![top(0, VdevKind::File, 1)], 1)];
    for (tops, disks) in some(pools, 1) {
        taken_back(tops, disks);
    }
}

fn taken_back(tops: Vec<Vdev>, step: u64) {
    let (base, then, now) = with_a_log(tops);
    // What is found when it is opened for reading: the log is not replayed yet.
    let closed = base.with(async |spa: Rc<Spa>, _| contents(&spa).await);
    assert!(then != closed && closed != now);
    let cuts = at_each_write((base.disks.len(), step), |disk, number| {
        let (then, closed) = (then.clone(), closed.clone());
        cut_at(&base, rewound(), (disk, number), async move |spa, fresh, steps| {
            steps.borrow_mut().comes(&closed, Some(&then));
            steps.borrow_mut().comes(&then, None);
            let Ok(live) = go_back(spa, fresh).await else { return };
            steps.borrow_mut().is_there();
            let (mut model, mut random) = (then.clone(), Prng::new(6));
            for _ in 0..4 {
                if steps.borrow().is_over() {
                    return;
                }
                overwrite(&live, &mut model, &mut random).await;
                steps.borrow_mut().comes(&model, None);
                if live.sync(async |_| Ok(())).await.is_err() {
                    return;
                }
                steps.borrow_mut().is_there();
            }
        })
    });
    assert!(cuts.values().all(|cuts| *cuts > by_extent(2, 10)), "{cuts:?}");
}
