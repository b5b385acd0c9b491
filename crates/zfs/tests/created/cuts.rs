//! Power cuts while a pool is written: at each write, with what was not flushed lost, torn, or there.
//!
//! What could break: the pool is neither as the last group left it nor as the next would; what is found is of two groups; a
//! label or an uberblock is believed that is none; space is used again while a group that may be opened needs it.

use super::accounting::check_accounts;
use super::{Model, Rig, change, compare, files_of, seeds, top};
use fixtures::extent::{by_extent, places, some};
use rt::DeviceRef;
use rt::filter::PowerCut;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::datasets::clone::NewClone;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs_format::vdev::VdevKind;

/// Groups that are written before the power is cut, if it isn't earlier.
const GROUPS: usize = 3;

/// Cuts the power of all disks that still have it, and gives what survived.
pub(crate) fn after_cut(rig: &Rig, cuts: Vec<Rc<PowerCut>>, write: u64) -> Vec<DeviceRef> {
    cuts.iter().filter(|cut| !cut.is_cut()).for_each(|cut| cut.cut(Prng::new(write ^ 77)));
    let survivors = async move {
        let mut all: Vec<DeviceRef> = Vec::new();
        for cut in cuts {
            all.push(cut.power_on().await.expect("it comes back"));
        }
        all
    };
    rig.runtime.block_on(survivors).expect("it ends")
}

/// Cuts the power at a write to one of the disks while something is done to the pool, which puts down what each group leaves and
/// counts those that are known to be in the pool. What is there afterwards is looked at. Says whether it came to a cut.
pub(crate) fn cut_at<S: Clone + 'static>(
    base: &Rig,
    disk: usize,
    write: u64,
    work: impl AsyncFnOnce(Live, Left<S>) + 'static,
    look: impl AsyncFnOnce(&Spa, S) + 'static,
) -> bool {
    let rig = base.fork();
    let first = rig.with(async |spa: Rc<Spa>, _| spa.uberblock().txg);
    let covered = rig.power_cuts();
    covered[disk].cut_at_write(write, Prng::new(write));
    let all: Vec<DeviceRef> = covered.iter().map(|cut| Rc::clone(cut) as DeviceRef).collect();
    let guids = rig.disks.iter().map(|(guid, _)| *guid);
    let disks = guids.zip(all.iter().cloned()).collect();
    let cut = Rc::clone(&covered[disk]);
    let left = Left { states: Rc::default(), done: Rc::default(), disks, cut };
    let known = left.clone();
    rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        work(Live::open(spa, &fresh).await.expect("it opens for writing"), known).await;
    });
    let was_cut = covered[disk].is_cut();
    let all = after_cut(&rig, covered, write);
    rig.with_devices(all, async move |spa: Rc<Spa>, _| {
        let done = left.done.get();
        // The group that was under way may be there as a whole.
        let txg = spa.uberblock().txg;
        assert!(txg == first + done || txg == first + 1 + done, "group {txg} after {done}");
        let state = left.states.borrow()[(txg - first) as usize].clone();
        look(&spa, state).await;
    });
    if was_cut && write.is_multiple_of(97) {
        rig.judge();
    }
    was_cut
}

/// What groups leave.
#[derive(Clone)]
pub(crate) struct Left<S> {
    /// From the one on that was there at first.
    states: Rc<RefCell<Vec<S>>>,
    /// How many more are known to be in the pool.
    done: Rc<Cell<u64>>,
    /// The disks whose power is cut, by GUID; some may be none of the pool's yet.
    pub(crate) disks: BTreeMap<u64, DeviceRef>,
    /// The one at whose write the power is cut.
    cut: Rc<PowerCut>,
}

impl<S> Left<S> {
    /// Of what is done on a disk whose power is cut.
    pub(crate) fn of(cut: Rc<PowerCut>) -> Left<S> {
        Left { states: Rc::default(), done: Rc::default(), disks: BTreeMap::new(), cut }
    }

    /// So many groups are known to be in the pool.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// What a group leaves, counted from the one that was there at first.
    pub(crate) fn state(&self, group: usize) -> S
    where
        S: Clone,
    {
        self.states.borrow()[group].clone()
    }

    /// A group is to leave this.
    pub(crate) fn leaves(&self, state: S) {
        self.states.borrow_mut().push(state);
    }

    /// Whether the power was cut: where the last labels of a group were not written, the group is in the pool nevertheless.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_cut()
    }

    /// It is in the pool.
    pub(crate) fn is_done(&self) {
        self.done.set(self.done.get() + 1);
    }
}

/// Files over some groups.
pub(crate) async fn write_files(live: Live, left: Left<Model>) {
    let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
    let objset = live.objset(&node).await.expect("it opens");
    let files = FileSystem::open(&objset).await.expect("it is one");
    let (mut model, mut random) = (Model::new(), Prng::new(9));
    left.leaves(model.clone());
    for _ in 0..GROUPS {
        if left.is_cut() {
            return;
        }
        for _ in 0..4 {
            change(&files, &mut model, &mut random).await;
        }
        left.leaves(model.clone());
        if live.sync(async |_| Ok(())).await.is_err() {
            return;
        }
        left.is_done();
    }
}

pub(crate) async fn look_at_files(spa: &Spa, state: Model) {
    check_accounts(spa).await;
    let files = files_of(spa, "tank").await;
    let names = files.names(&files.root().await.expect("read")).await.expect("read").len();
    assert_eq!(names, state.len());
    compare(&files, &state).await;
}

/// All file systems and snapshots with what is in them.
type Tree = BTreeMap<String, Model>;

/// What is done to datasets, one a group.
const DEEDS: [&str; 12] = [
    "create",
    "write",
    "snapshot s1",
    "write",
    "snapshot s2",
    "clone",
    "promote",
    "write",
    "rollback",
    "destroy s2",
    "destroy",
    "rest",
];

async fn datasets(live: Live, left: Left<Tree>) {
    live.freeing().set_blocks_max(9);
    let mut random = Prng::new(4);
    let mut tree: Tree = [("tank".to_owned(), Model::new())].into();
    left.leaves(tree.clone());
    for deed in DEEDS {
        let number = async |name: &str| {
            let found = live.spa().dsl().find(name).await.expect("it is read");
            found.map(|(directory, dataset)| (directory.number, dataset.number))
        };
        let of = number("tank/a").await.unwrap_or_default().1;
        let above = number("tank").await.expect("it is there").0;
        let name = deed.split_once(' ').map_or("", |(_, name)| name);
        let new = NewDataset { name: "a".to_owned(), owner: (0, 0), properties: Vec::new() };
        let clone = NewClone { name: "c".to_owned(), properties: Vec::new() };
        let now = tree.get("tank/a").cloned().unwrap_or_default();
        let snapshot = match deed {
            "clone" => number("tank/a@s1").await,
            "promote" => number("tank/c").await,
            "rollback" | "destroy s2" => number("tank/a@s2").await,
            _ => None,
        };
        let other = snapshot.unwrap_or_default().1;
        match deed {
            "create" => drop(tree.insert("tank/a".to_owned(), Model::new())),
            "write" => {
                let catalog = live.spa().catalog(0).await.expect("read");
                let node = catalog.find("tank/a").await.expect("read").expect("it is there");
                let files = live.files(&node).await.expect("it opens");
                for _ in 0..6 {
                    let model = tree.get_mut("tank/a").expect("it is there");
                    change(&files, model, &mut random).await;
                }
            }
            "snapshot s1" | "snapshot s2" => drop(tree.insert(format!("tank/a@{name}"), now)),
            "clone" => drop(tree.insert("tank/c".to_owned(), tree["tank/a@s1"].clone())),
            "promote" => {
                let moved = tree.remove("tank/a@s1").expect("it is there");
                tree.insert("tank/c@s1".to_owned(), moved);
            }
            "rollback" => drop(tree.insert("tank/a".to_owned(), tree["tank/a@s2"].clone())),
            "destroy s2" => drop(tree.remove("tank/a@s2")),
            "destroy" => drop(tree.remove("tank/a")),
            _ => {}
        }
        left.leaves(tree.clone());
        let done = live.task(async |tasks| match deed {
            "create" => Ok(tasks.create(above, &new).await?.map(|_| ())),
            "snapshot s1" | "snapshot s2" => Ok(tasks.snapshot(of, name).await?.map(|_| ())),
            "clone" => Ok(tasks.clone(other, above, &clone).await?.map(|_| ())),
            "promote" => tasks.promote(other).await,
            "rollback" => tasks.rollback(of, other).await,
            "destroy s2" => tasks.destroy_snapshot(other, false).await,
            "destroy" => tasks.destroy(of).await,
            _ => Ok(Ok(())),
        });
        let Ok(done) = done.await else { return };
        done.expect(deed);
        left.is_done();
    }
    while live.freeing().waits() {
        left.leaves(tree.clone());
        if live.sync(async |_| Ok(())).await.is_err() {
            return;
        }
        left.is_done();
    }
}

async fn look_at_datasets(spa: &Spa, tree: Tree) {
    let mut found = Vec::new();
    for directory in spa.dsl().below(spa.dsl().root().await.expect("read")).await.expect("read") {
        let head = spa.dsl().head(&directory).await.expect("read").expect("it has one");
        let snapshots = spa.dsl().snapshots(&head).await.expect("read");
        found.push(head.name);
        found.extend(snapshots.into_iter().map(|snapshot| snapshot.name));
    }
    found.sort();
    assert_eq!(found, tree.keys().cloned().collect::<Vec<_>>());
    for (name, model) in tree {
        compare(&files_of(spa, &name).await, &model).await;
    }
    super::datasets::check_books(spa).await;
}

pub(crate) fn at_each_write(base: &Rig, step: u64, cut: impl Fn(usize, u64) -> bool) {
    for disk in 0..base.disks.len() {
        let mut cuts = 0;
        for write in places(step, 3) {
            if !cut(disk, write) {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 20 / step.min(10) / by_extent(4, 1), "the power was cut {cuts} times");
    }
}

#[test]
fn a_cut_at_any_write_leaves_one_group_or_the_next() {
    fixtures::takes_long!();
    for (base, step) in [
        (Rig::new(vec![top(0, VdevKind::File, 1)]), 3),
        (Rig::new(vec![top(0, VdevKind::File, 1), top(1, VdevKind::File, 1)]), 7),
        (Rig::with_map_logs(vec![top(0, VdevKind::File, 1)]), 7),
    ] {
        at_each_write(&base, step, |disk, write| {
            cut_at(&base, disk, write, write_files, look_at_files)
        });
    }
}

/// Half a task, or half a tree freed twice, would be found by the walk that the books are held against.
#[test]
fn a_cut_while_datasets_change_leaves_all_of_a_task_or_nothing() {
    fixtures::takes_long!();
    let base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    at_each_write(&base, 17, |disk, write| cut_at(&base, disk, write, datasets, look_at_datasets));
}

/// The labels say another configuration when a pool is closed: two of a device are whole at any moment. Which of several writes are
/// torn is drawn; that most are takes many draws.
fn cut_while_labels_are_written(base: &Rig, draw: u64) {
    /// Writes before the last one that are cut: those of labels, with the uberblock's between.
    const WRITES: u64 = 10;
    let closed = |cut_at: Option<u64>| {
        let rig = base.fork();
        let disk = Rc::clone(&rig.disks[0].1) as DeviceRef;
        let covered = PowerCut::new(disk, &rig.runtime.handle());
        if let Some(write) = cut_at {
            covered.cut_at_write(write, Prng::new(draw << 32 | write));
        }
        let all = vec![Rc::clone(&covered) as DeviceRef];
        rig.with_devices(all, async |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let _ = live.close(LabelState::Exported).await;
        });
        let writes = covered.writes();
        let all = after_cut(&rig, vec![covered], draw);
        rig.with_devices(all.clone(), async move |spa: Rc<Spa>, _| {
            assert_eq!(spa.name(), "tank");
            let whole = zfs_store::label::read(&all[0]).await.configurations().count();
            assert!(whole >= 2, "{whole} labels are whole after a cut at write {cut_at:?}");
        });
        writes
    };
    let last = closed(None);
    for write in last - WRITES..=last {
        closed(Some(write));
    }
}

#[test]
fn a_cut_while_labels_are_written_leaves_a_configuration() {
    fixtures::takes_long!();
    let base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    for draw in some(0..30, 8) {
        cut_while_labels_are_written(&base, draw);
    }
}

/// The same for as many draws as `SEEDS` says.
#[test]
#[ignore = "a campaign"]
fn many_cuts_while_labels_are_written() {
    let base = Rig::new(vec![top(0, VdevKind::File, 1)]);
    for draw in 0..seeds() {
        println!("seed {draw}");
        cut_while_labels_are_written(&base, draw);
    }
}
