//! What users, groups and projects take: after each group and each cut, in each dataset and snapshot, what the tables say is what
//! all dnodes add up to; and how many objects each has is what a model of the files says.
//!
//! What could break: an owner before a change that is forgotten, or counted twice; an object made and freed in one group; a
//! number used again; a file that grows while its group is written; sums of another moment than the snapshot's; a feature that
//! a dataset uses and doesn't say so.

use super::mounted::{Steps, mounted};
use super::{Rig, files_of, new_file, top};
use fixtures::extent::some;
use rt::inodes::{Caller, InodeError, Inodes, New, Node, RenameHow, SetAttributes, WriteAt};
use rt::{Buf, SgList};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Prng;
use zfs::dmu::{Counted, Objset};
use zfs::dsl::account::{Account, Whose};
use zfs::dsl::make::Fresh;
use zfs::inspect::accounts::{Sums, reckoned, stored};
use zfs::mounted::Mounted;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs::zpl::change::{NewAttributes, NewFile};
use zfs_format::objset::{ObjsetKind, flags};
use zfs_format::vdev::VdevKind;

const OBJECTS: &str = "org.zfsonlinux:userobj_accounting";
const PROJECTS: &str = "org.zfsonlinux:project_quota";

/// The tables of an objset that is at rest say what its files add up to.
async fn check(objset: &Objset, name: &str) -> [Sums; 3] {
    let (told, added) =
        (stored(objset).await.expect("read"), reckoned(objset).await.expect("read"));
    let told = told.map(Option::unwrap_or_default);
    assert_eq!(told, added, "{name}");
    told
}

/// The same of all file systems and snapshots of a pool, and of how many say that they are counted.
pub(crate) async fn check_accounts(spa: &Spa) {
    let dsl = spa.dsl();
    let mut counted = 0;
    for directory in dsl.below(dsl.root().await.expect("read")).await.expect("read") {
        let head = dsl.head(&directory).await.expect("read").expect("it has one");
        let snapshots = dsl.snapshots(&head).await.expect("read");
        for dataset in [head].into_iter().chain(snapshots) {
            let objset = spa.objset(&directory, &dataset).await.expect("it opens");
            if objset.root().kind != ObjsetKind::FileSystem {
                continue;
            }
            check(&objset, &dataset.name).await;
            assert_eq!(objset.root().flags, 7, "all of it is counted");
            counted += 1;
        }
    }
    for name in [OBJECTS, PROJECTS] {
        let features = spa.features();
        let uses = features.iter().find(|one| one.guid == name).map(|one| one.count);
        assert!(uses.is_none_or(|uses| uses == counted), "{name}: {uses:?} of {counted}");
    }
}

/// A file as the model has it.
#[derive(Clone, Copy)]
struct Known {
    user: u64,
    group: u64,
    bytes: u64,
}

type Files = BTreeMap<u64, Known>;

fn name(number: u64) -> Vec<u8> {
    format!("file {number}").into_bytes()
}

async fn change(files: &FileSystem, model: &mut Files, random: &mut Prng) {
    let root = files.root_number();
    let known: Vec<u64> = model.keys().copied().collect();
    if known.is_empty() || random.chance(0.3) {
        let (number, _) =
            files.objset().change(|_| files.objset().plan_number(1)).await.expect("one is free");
        let (user, group) = (random.below(4), 100 + random.below(3));
        let kind = [0o100_644, 0o040_755, 0o120_777, 0o010_644][random.below(4) as usize];
        let target = (kind == 0o120_777).then(|| b"somewhere".to_vec());
        let new = NewFile { user, group, mode: kind, target, ..new_file(number) };
        files.create(root, &name(number), &new).await.expect("it is made");
        let bytes = if kind == 0o100_644 { 0 } else { u64::MAX };
        model.insert(number, Known { user, group, bytes });
        return;
    }
    let number = known[random.below(known.len() as u64) as usize];
    let of = model.get_mut(&number).expect("it is known");
    let is_file = of.bytes != u64::MAX;
    match random.below(12) {
        0 | 1 => {
            files.unlink(root, &name(number)).await.expect("it goes");
            model.remove(&number);
        }
        2 => {
            of.user = random.below(4) << random.below(29);
            let user = Some(of.user);
            let new = NewAttributes { user, ..NewAttributes::default() };
            files.set_attributes(number, new).await.expect("it is set");
        }
        3 => {
            of.group = 100 + random.below(3);
            let group = Some(of.group);
            let new = NewAttributes { group, ..NewAttributes::default() };
            files.set_attributes(number, new).await.expect("it is set");
        }
        4 | 5 => {
            // Long ones need a spill block.
            let len = 1 + random.below(3000);
            // What compresses well would stand in the pointer to it.
            let value = random.bytes(len as usize);
            let value = random.chance(0.7).then_some(&value[..]);
            files.set_extended_attribute(number, b"user.x", value).await.expect("it is set");
        }
        6 if is_file => {
            of.bytes = random.below(of.bytes + 1000);
            files.truncate(number, of.bytes).await.expect("it is cut");
        }
        _ if is_file => {
            let at = random.below(of.bytes + 200_000);
            let len = 1 + random.below(300_000) as usize;
            let bytes = random.bytes(len);
            let end = at + bytes.len() as u64;
            files.write(number, at, &Buf::copy_of(&bytes), end).await.expect("it is written");
            of.bytes = of.bytes.max(end);
        }
        _ => {}
    }
}

/// How many objects each user and group has, as the model says; the root directory is user 0's.
fn objects(model: &Files) -> [BTreeMap<String, u64>; 2] {
    let mut sums =
        [BTreeMap::from([("obj-0".to_owned(), 1)]), BTreeMap::from([("obj-0".to_owned(), 1)])];
    for known in model.values() {
        for (sums, id) in sums.iter_mut().zip([known.user, known.group]) {
            *sums.entry(format!("obj-{id:x}")).or_default() += 1;
        }
    }
    sums
}

async fn check_files(objset: &Objset, model: &Files) {
    let sums = check(objset, "tank").await;
    for (sums, known) in sums.iter().zip(objects(model)) {
        let told: BTreeMap<_, _> =
            sums.iter().filter(|(name, _)| name.starts_with("obj-")).collect();
        assert_eq!(told, known.iter().collect(), "objects");
    }
    assert_eq!(sums[2]["obj-0"], model.len() as u64 + 1, "all are of project 0");
}

fn random_changes(seed: u64) {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let model: Rc<RefCell<Files>> = Rc::default();
    let kept: Rc<RefCell<Option<Files>>> = Rc::default();
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    for round in 0..4 {
        let (model, kept, random) = (Rc::clone(&model), Rc::clone(&kept), Rc::clone(&random));
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
            for group in 0..6 {
                let files = live.files(&node).await.expect("it opens");
                for _ in 0..25 {
                    change(&files, &mut model.borrow_mut(), &mut random.borrow_mut()).await;
                }
                let of = node.head.number;
                if group == 2 {
                    let name = format!("s{round}");
                    let taken = live.task(async |tasks| tasks.snapshot(of, &name).await).await;
                    taken.expect("it is written").expect("it is taken");
                    *kept.borrow_mut() = Some(model.borrow().clone());
                } else {
                    live.sync(async |_| Ok(())).await.expect("it is written");
                }
                check_files(files.objset(), &model.borrow()).await;
                drop(files);
                if group == 4 && round % 2 == 1 {
                    let found = live.spa().dsl().find(&format!("tank@s{round}")).await;
                    let snapshot = found.expect("read").expect("it is there").1.number;
                    let done = live.task(async |tasks| tasks.rollback(of, snapshot).await).await;
                    done.expect("it is written").expect("it goes back");
                    *model.borrow_mut() = kept.borrow().clone().expect("it was taken");
                    let files = live.files(&node).await.expect("it opens");
                    check_files(files.objset(), &model.borrow()).await;
                }
            }
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        rig.with(async move |spa: Rc<Spa>, _| check_accounts(&spa).await);
    }
    rig.judge();
}

#[test]
fn what_everybody_takes_is_what_the_files_add_up_to() {
    some([21, 22], 1).into_iter().for_each(random_changes);
}

/// While a group is written, changes join the next: they are counted in that.
#[test]
fn changes_while_a_group_is_written_count_in_the_next() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        let (mut model, mut random) = (Files::new(), Prng::new(5));
        for _ in 0..10 {
            change(&files, &mut model, &mut random).await;
        }
        let ends = Rc::new(Cell::new(false));
        let (known, over) = (Rc::clone(&live), Rc::clone(&ends));
        let syncs = live.spa().rt().spawn(async move {
            while !over.get() {
                known.sync(async |_| Ok(())).await.expect("it is written");
            }
        });
        for _ in 0..300 {
            change(&files, &mut model, &mut random).await;
        }
        ends.set(true);
        syncs.await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        check_files(files.objset(), &model).await;
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| check_accounts(&spa).await);
    rig.judge();
}

/// More users than a block of a table has place for.
#[test]
fn many_users_have_their_sums() {
    fixtures::takes_long!();
    const USERS: u64 = 3000;
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        let root = files.root_number();
        for user in 0..USERS {
            let objset = files.objset();
            let (number, _) = objset.change(|_| objset.plan_number(1)).await.expect("free");
            let new = NewFile { user: 7 * user, group: user % 3, ..new_file(number) };
            files.create(root, &name(number), &new).await.expect("it is made");
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
        let sums = check(files.objset(), "tank").await;
        assert_eq!((sums[0].len() as u64, sums[1].len()), (2 * USERS, 6));
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        check_accounts(&spa).await;
        let catalog = spa.catalog(0).await.expect("read");
        let node = catalog.root().await.expect("read");
        let account = Account { whose: Whose::User, is_objects: true, is_quota: false };
        assert_eq!(catalog.account(&node, account, 7 * 2999).await, Ok(Some(1)));
    });
    rig.judge();
}

/// Without the features only bytes of users and groups are counted, and nothing says otherwise.
#[test]
fn without_the_features_bytes_alone_are_counted() {
    let rig = Rig::without_all(vec![top(0, VdevKind::File, 1)], &[OBJECTS, PROJECTS]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        let (mut model, mut random) = (Files::new(), Prng::new(6));
        for _ in 0..50 {
            change(&files, &mut model, &mut random).await;
        }
        live.sync(async |_| Ok(())).await.expect("it is written");
        let sums = stored(files.objset()).await.expect("read");
        assert!(sums[0].iter().flatten().all(|(name, _)| !name.starts_with("obj-")));
        assert!(sums[1].is_some() && sums[2].is_none());
        drop(files);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        let objset = files_of(&spa, "tank").await.objset().clone();
        assert_eq!(objset.root().flags, flags::USER_ACCOUNTING);
        check(&objset, "tank").await;
    });
    rig.judge();
}

async fn give(real: &Mounted, node: Node, user: u32) -> Result<(), InodeError> {
    let set = SetAttributes { user: Some(user), ..SetAttributes::default() };
    real.setattr(Caller::default(), node, set).await.map(drop)
}

async fn put(real: &Mounted, node: Node, len: usize) -> Result<(), InodeError> {
    let mut random = Prng::new(len as u64);
    let bytes = random.bytes(len);
    let data = SgList::from(Buf::copy_of(&bytes));
    real.write(Caller::default(), node, WriteAt::End, data, false).await.map(drop)
}

/// Limits hold by what was counted as of the last group, for who writes, makes and gets files, and for nobody else.
#[test]
fn who_reached_a_limit_gets_nothing_more() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let group = async || live.sync(async |_| Ok(())).await.expect("it is written");
        let limit = async |table, is_objects, id, limit| {
            let files = live.files(&node).await.expect("it opens");
            files.set_limit(table, is_objects, id, limit).await.expect("it is set");
        };
        let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        let new = New { permissions: 0o644, umask: 0 };
        let make = async |into: Node, name: &str| {
            let made = real.create(Caller::default(), into, name.as_bytes(), new).await?;
            real.release(made.node);
            Ok::<Node, InodeError>(made.node)
        };
        let (a, b) = (make(Node::ROOT, "a").await.expect("made"), make(Node::ROOT, "b").await);
        let b = b.expect("it is made");
        give(&real, a, 1).await.expect("it is given");
        limit(0, false, 1, 20_000).await;
        put(&real, a, 30_000).await.expect("nothing of it was counted yet");
        group().await;
        assert_eq!(put(&real, a, 1).await, Err(InodeError::Quota));
        put(&real, b, 1).await.expect("it is another's");
        assert_eq!(give(&real, b, 1).await, Err(InodeError::Quota));
        real.unlink(Caller::default(), Node::ROOT, b"a").await.expect("it goes");
        group().await;
        give(&real, b, 1).await.expect("there is room again");
        limit(0, false, 1, 0).await;
        // Objects of a group: the root directory and both are its.
        limit(1, true, 0, 2).await;
        group().await;
        assert_eq!(make(Node::ROOT, "c").await, Err(InodeError::Quota));
        put(&real, b, 50_000).await.expect("bytes are not objects");
        limit(1, true, 0, 3).await;
        make(Node::ROOT, "c").await.expect("one more");
        limit(1, true, 0, 0).await;
        // Projects: what a directory hands down.
        let d =
            real.mkdir(Caller::default(), Node::ROOT, b"d", new).await.expect("it is made").node;
        let files = live.files(&node).await.expect("it opens");
        files.set_project(d.0, Some(7), Some(true)).await.expect("it is set");
        let inside = make(d, "inside").await.expect("it is made");
        let known = files.node(inside.0).await.expect("read").attributes;
        assert_eq!(known.owner().project, 7);
        put(&real, inside, 30_000).await.expect("there is no limit");
        limit(2, false, 7, 10_000).await;
        group().await;
        assert_eq!(put(&real, inside, 1).await, Err(InodeError::Quota));
        assert_eq!(make(d, "more").await, Err(InodeError::Quota));
        put(&real, b, 1).await.expect("it is of no such project");
        limit(2, false, 7, 0).await;
        let moved =
            real.rename(Caller::default(), (Node::ROOT, b"b"), (d, b"b"), RenameHow::Replace).await;
        assert_eq!(moved, Err(InodeError::CrossDevice));
        assert_eq!(
            real.link(Caller::default(), b, d, b"b").await.err(),
            Some(InodeError::CrossDevice)
        );
        real.symlink(Caller::default(), Node::ROOT, b"l", b"x").await.expect("it is made");
        let moved =
            real.rename(Caller::default(), (Node::ROOT, b"l"), (d, b"l"), RenameHow::Replace).await;
        moved.expect("what has no project of its own may be there");
        // A file that got its project late, with attributes in a spill block.
        let value = vec![1; 2000];
        files.set_extended_attribute(b.0, b"user.x", Some(&value)).await.expect("it is set");
        files.set_project(b.0, Some(9), None).await.expect("it is set");
        group().await;
        let sums = check(files.objset(), "tank").await;
        assert_eq!((sums[2].get("obj-7"), sums[2].get("obj-9")), (Some(&2), Some(&1)));
        drop((files, real));
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| check_accounts(&spa).await);
    rig.judge();
}

/// A file of a pool that did not count projects gets one: its attributes are laid out so that OpenZFS finds it.
#[test]
fn a_project_that_comes_late_is_where_openzfs_looks() {
    use zfs_format::zpl::owner::Owner;
    let rig = Rig::without_all(vec![top(0, VdevKind::File, 1)], &[PROJECTS]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        files.create(files.root_number(), b"file", &new_file(100)).await.expect("it is made");
        let owner = |files: &FileSystem, number| {
            let objset = files.objset().clone();
            async move {
                let dnode = objset.dnode(number).await.expect("it is there");
                let phys = dnode.phys();
                Owner::of_bonus(phys.bonus_type, &phys.bonus, dnode.endian())
            }
        };
        assert!(files.set_project(100, Some(5), None).await.is_err(), "they are not counted");
        files.objset().set_counted(Counted { objects: true, projects: true });
        files.set_project(100, Some(5), None).await.expect("it is set");
        let expected = Owner { user: 1, group: 2, project: 5 };
        assert_eq!(owner(&files, 100).await, Some(expected));
        let known = files.node(100).await.expect("read").attributes;
        assert_eq!((known.owner(), known.links), (expected, 1));
    });
}
