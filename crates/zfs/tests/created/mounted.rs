//! A mount that is written, beside a file system in memory that keeps the same contract.
//!
//! What could break: an answer that is another than the rules say; a change that is lost, or half done, over groups and a new
//! start; space that is taken and not reached; a file that lives without a name after a crash.

use super::datasets::{node, number, task};
use super::{Rig, features_and, raidz, top};
use fixtures::extent::some;
use rt::inodes::{
    Attributes, Caller, ChangeNotice, Cookie, Fallocate, InodeError, InodeKind, Inodes, ListEntry,
    New, Node, OpenNode, RenameHow, Seek, SetAttributes, SetHow, SetTime, Timestamp, WallClock,
    Watcher, WriteAt,
};
use rt::{Buf, MemoryTree, SgList};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::mounted::{MountOptions, Mounted, Writing};
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs::zpl::name_rules::case;
use zfs_format::vdev::VdevKind;
use zfs_format::zap::leaf::LeafValue;
use zfs_format::zap::normalization::NFC;

/// A clock that goes on when the test says so: both file systems see the same time.
pub(crate) struct Steps(pub(crate) Cell<i64>);

impl Steps {
    fn step(&self) {
        self.0.set(self.0.get() + 1);
    }
}

impl WallClock for Steps {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 1_700_000_000 + self.0.get(), nanoseconds: 7 }
    }
}

pub(crate) async fn mounted(live: &Rc<Live>, clock: Rc<dyn WallClock>) -> Mounted {
    let (directory, dataset) =
        live.spa().dsl().find("tank").await.expect("it is read").expect("it is there");
    let writing = Writing { live: Rc::clone(live), clock };
    let (directory, how) = (Rc::new(directory), MountOptions::default());
    let opened = Mounted::open_for_writing(writing, directory, dataset, how, Rc::new(|_| {})).await;
    opened.expect("it is mounted")
}

/// Both roots are alike: the real one was made by another clock.
pub(crate) async fn set_roots(real: &Mounted, model: &MemoryTree) {
    let set = SetAttributes {
        permissions: Some(0o755),
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::Now),
        ..SetAttributes::default()
    };
    for of in [real as &dyn Inodes, model] {
        of.setattr(Caller::default(), Node::ROOT, set).await.expect("it is set");
    }
}

/// One file by its numbers in both.
pub(crate) type Pair = (Node, Node);

/// Both file systems, and what is held in both.
pub(crate) struct Both {
    pub(crate) real: Mounted,
    pub(crate) model: Rc<MemoryTree>,
    pub(crate) clock: Rc<Steps>,
    pub(crate) held: RefCell<Vec<Pair>>,
}

const NAMES: [&str; 6] =
    ["a", "b", "A", "a name that is longer than what a small table takes, by far", "e", "B"];

/// What must be the same of both.
fn seen(of: &Attributes) -> impl PartialEq + std::fmt::Debug {
    let size = if of.kind == InodeKind::Directory { 0 } else { of.size.bytes() };
    (
        (of.kind, of.permissions, of.links, of.user, of.group, of.device, size),
        (of.accessed, of.modified, of.changed),
    )
}

fn same(
    what: &str,
    real: Result<Attributes, InodeError>,
    model: Result<Attributes, InodeError>,
) -> Option<Pair> {
    match (real, model) {
        (Ok(real), Ok(model)) => {
            assert_eq!(format!("{:?}", seen(&real)), format!("{:?}", seen(&model)), "{what}");
            Some((real.node, model.node))
        }
        (real, model) => {
            assert_eq!(real.err(), model.err(), "{what}");
            None
        }
    }
}

impl Both {
    /// A directory or file somewhere, by going down at random.
    async fn somewhere(&self, random: &mut Prng, wants_directory: bool) -> Pair {
        let mut at = (Node::ROOT, Node::ROOT);
        for _ in 0..random.below(4) {
            let name = NAMES[random.below(6) as usize].as_bytes();
            let found = same(
                "lookup",
                self.real.lookup(at.0, name).await,
                self.model.lookup(at.1, name).await,
            );
            let Some(found) = found else { break };
            let kind = self.model.attributes(found.1).await.expect("it is there").kind;
            if kind != InodeKind::Directory {
                return if wants_directory { at } else { found };
            }
            at = found;
        }
        at
    }

    pub(crate) async fn change(&self, random: &mut Prng) {
        self.clock.step();
        let (real, model) = (&self.real, &self.model);
        let by = Caller {
            user: random.below(3) as u32,
            group: random.below(3) as u32,
            drops_privileges: random.chance(0.5),
            ..Caller::default()
        };
        let pick = |random: &mut Prng| NAMES[random.below(6) as usize].as_bytes();
        let (into, name) = (self.somewhere(random, true).await, pick(random));
        let new = New { permissions: random.below(0o10000) as u16, umask: 0o22 };
        match random.below(24) {
            0..=2 => {
                let (r, m) = (
                    real.create(by, into.0, name, new).await,
                    model.create(by, into.1, name, new).await,
                );
                self.held.borrow_mut().extend(same("create", r, m));
            }
            3 | 4 => {
                let (r, m) = (
                    real.mkdir(by, into.0, name, new).await,
                    model.mkdir(by, into.1, name, new).await,
                );
                same("mkdir", r, m);
            }
            5 => {
                let (kind, device) = (InodeKind::BlockDevice, (8, random.below(300) as u32));
                let (r, m) = (
                    real.mknod(by, into.0, name, new, kind, device).await,
                    model.mknod(by, into.1, name, new, kind, device).await,
                );
                same("mknod", r, m);
            }
            6 => {
                let target = vec![b'x'; 1 + random.below(600) as usize];
                let (r, m) = (
                    real.symlink(by, into.0, name, &target).await,
                    model.symlink(by, into.1, name, &target).await,
                );
                same("symlink", r, m);
            }
            7 => {
                let of = self.somewhere(random, false).await;
                let (r, m) = (
                    real.link(by, of.0, into.0, name).await,
                    model.link(by, of.1, into.1, name).await,
                );
                same("link", r, m);
            }
            8 | 9 => assert_eq!(
                real.unlink(by, into.0, name).await,
                model.unlink(by, into.1, name).await,
                "unlink"
            ),
            10 => assert_eq!(
                real.rmdir(by, into.0, name).await,
                model.rmdir(by, into.1, name).await,
                "rmdir"
            ),
            11..=13 => {
                let (to, other) = (self.somewhere(random, true).await, pick(random));
                let hows = [RenameHow::Replace, RenameHow::NoReplace, RenameHow::Exchange];
                let how = hows[random.below(3) as usize];
                assert_eq!(
                    real.rename(by, (into.0, name), (to.0, other), how).await,
                    model.rename(by, (into.1, name), (to.1, other), how).await,
                    "rename {how:?}"
                );
            }
            14 => {
                let file = self.somewhere(random, false).await;
                let maybe = |random: &mut Prng| random.chance(0.3);
                let set = SetAttributes {
                    permissions: maybe(random).then(|| random.below(0o10000) as u16),
                    user: maybe(random).then(|| random.below(5) as u32),
                    group: maybe(random).then(|| random.below(5) as u32),
                    size: maybe(random).then(|| ByteCount(random.below(900_000))),
                    accessed: maybe(random).then_some(SetTime::Now),
                    modified: maybe(random)
                        .then_some(SetTime::At(Timestamp { seconds: -5, nanoseconds: 3 })),
                };
                same(
                    "setattr",
                    real.setattr(by, file.0, set).await,
                    model.setattr(by, file.1, set).await,
                );
            }
            15 => {
                let file = self.somewhere(random, false).await;
                let names: [&[u8]; 3] = [b"user.one", b"user.two", b"security.capability"];
                let name = names[random.below(3) as usize];
                let value = vec![random.next_u64() as u8; random.below(3000) as usize];
                let hows = [SetHow::Any, SetHow::Create, SetHow::Replace];
                let how = hows[random.below(3) as usize];
                assert_eq!(
                    real.set_extended_attribute(by, file.0, name, &value, how).await,
                    model.set_extended_attribute(by, file.1, name, &value, how).await,
                    "set {how:?}"
                );
                if random.chance(0.3) {
                    assert_eq!(
                        real.remove_extended_attribute(by, file.0, name).await,
                        model.remove_extended_attribute(by, file.1, name).await
                    );
                }
            }
            16 => {
                let file = self.somewhere(random, false).await;
                let name =
                    [rt::inodes::acl::ACCESS, rt::inodes::acl::DEFAULT][random.below(2) as usize];
                let list = list(random);
                assert_eq!(
                    real.set_extended_attribute(by, file.0, name, &list, SetHow::Any).await,
                    model.set_extended_attribute(by, file.1, name, &list, SetHow::Any).await,
                    "a list of access"
                );
            }
            17 => {
                let released = {
                    let mut held = self.held.borrow_mut();
                    match held.is_empty() {
                        true => None,
                        false => {
                            let at = random.below(held.len() as u64) as usize;
                            Some(held.swap_remove(at))
                        }
                    }
                };
                if let Some((r, m)) = released {
                    real.release(r);
                    model.release(m);
                }
            }
            _ => {
                let file = {
                    let held = self.held.borrow();
                    match held.is_empty() || random.chance(0.5) {
                        true => None,
                        false => Some(held[random.below(held.len() as u64) as usize]),
                    }
                };
                let file = match file {
                    Some(file) => file,
                    None => self.somewhere(random, false).await,
                };
                self.content(random, by, file).await;
            }
        }
    }

    async fn content(&self, random: &mut Prng, by: Caller, (r, m): Pair) {
        let (real, model) = (&self.real, &self.model);
        let (at, len) = (random.below(700_000), 1 + random.below(300_000));
        match random.below(8) {
            0 => {
                let whats = [
                    Fallocate::PunchHole,
                    Fallocate::ZeroRange { keep_size: false },
                    Fallocate::ZeroRange { keep_size: true },
                    Fallocate::Allocate { keep_size: false },
                    Fallocate::Allocate { keep_size: true },
                ];
                let what = whats[random.below(5) as usize];
                let (at, len) = (Offset(at), ByteCount(len));
                assert_eq!(
                    real.fallocate(by, r, at, len, what).await,
                    model.fallocate(by, m, at, len, what).await,
                    "{what:?}"
                );
            }
            1 => {
                let (a, b) = (
                    real.read(r, Offset(at), ByteCount(len)).await,
                    model.read(m, Offset(at), ByteCount(len)).await,
                );
                assert!(a.map(|a| a.to_vec()) == b.map(|b| b.to_vec()), "read");
            }
            2 => {
                let attributes = model.attributes(m).await.expect("it is held or there");
                if attributes.kind != InodeKind::File {
                    return;
                }
                // A hole is one in truth.
                let size = attributes.size.bytes();
                let hole = real.seek(r, Offset(at), Seek::Hole).await;
                assert_eq!(hole.is_err(), at >= size);
                let data = real.seek(r, Offset(at), Seek::Data).await;
                let until = match data {
                    Ok(data) => data.bytes(),
                    Err(error) => {
                        assert_eq!(error, InodeError::BeyondEnd);
                        size
                    }
                };
                if at < until {
                    let len = ByteCount(until - at);
                    let read = model.read(m, Offset(at), len).await.expect("it is read").to_vec();
                    let ours = real.read(r, Offset(at), len).await.expect("it is read").to_vec();
                    assert!(read == ours, "bytes");
                    assert!(read.iter().all(|byte| *byte == 0), "data in a hole");
                }
            }
            3 => {
                let how = OpenNode { write: true, truncate: random.chance(0.5) };
                let (a, b) = (real.open(by, r, how).await, model.open(by, m, how).await);
                assert_eq!(a, b, "open {how:?}");
                if a.is_ok() {
                    self.held.borrow_mut().push((r, m));
                }
            }
            _ => {
                let word = random.next_u64();
                let bytes = super::runs(len as usize, 50, word);
                let how =
                    if random.chance(0.3) { WriteAt::End } else { WriteAt::Offset(Offset(at)) };
                let data = || SgList::from(Buf::copy_of(&bytes));
                assert_eq!(
                    real.write(by, r, how, data(), false).await,
                    model.write(by, m, how, data(), false).await,
                    "write {how:?}"
                );
            }
        }
    }

    /// Both have the same.
    async fn compare(&self) {
        let mut below = vec![(Node::ROOT, Node::ROOT)];
        while let Some((r, m)) = below.pop() {
            let (a, b) = (self.real.attributes(r).await, self.model.attributes(m).await);
            let kind = b.as_ref().expect("it is there").kind;
            same("attributes", a, b);
            assert_eq!(values(&self.real, r).await, values(&*self.model, m).await);
            match kind {
                InodeKind::Directory => {
                    let (real, model) = (names(&self.real, r).await, names(&*self.model, m).await);
                    let keys =
                        |map: &BTreeMap<Vec<u8>, Node>| map.keys().cloned().collect::<Vec<_>>();
                    assert_eq!(keys(&real), keys(&model));
                    below.extend(real.values().copied().zip(model.values().copied()));
                }
                InodeKind::File => {
                    let all = ByteCount(4 << 20);
                    let (a, b) = (
                        self.real.read(r, Offset(0), all).await.expect("it is read"),
                        self.model.read(m, Offset(0), all).await.expect("it is read"),
                    );
                    assert!(a.to_vec() == b.to_vec(), "bytes");
                }
                InodeKind::Link => {
                    let (a, b) = (self.real.link_target(r).await, self.model.link_target(m).await);
                    assert_eq!(a, b);
                }
                _ => {}
            }
        }
    }
}

pub(crate) async fn values(of: &dyn Inodes, node: Node) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in of.extended_attributes(node).await.expect("they are read") {
        let value = of.extended_attribute(node, &name).await.expect("it is read");
        found.insert(name, value);
    }
    found
}

pub(crate) async fn names(of: &dyn Inodes, node: Node) -> BTreeMap<Vec<u8>, Node> {
    let (mut found, mut after) = (BTreeMap::new(), Cookie::START);
    loop {
        let entries = of.list(node, after, 3).await.expect("it is listed");
        let Some(last) = entries.last() else { return found };
        after = last.cookie;
        for entry in entries {
            assert!(found.insert(entry.name, entry.node).is_none(), "listed once");
        }
    }
}

fn list(random: &mut Prng) -> Vec<u8> {
    let mut entry = |tag: u16, id: u32| {
        let permissions = random.below(8) as u16;
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let named = [entry(2, 1000), entry(4, none), entry(16, none), entry(32, none)].concat();
    let plain = [entry(4, none), entry(32, none)].concat();
    let owner = entry(1, none);
    let rest = if random.chance(0.5) { named } else { plain };
    [&[2, 0, 0, 0][..], &owner, &rest].concat()
}

/// With these values of `dnodesize` in turn, where there are some.
fn beside_memory(seed: u64, rig: &Rig, sizes: &'static [u64]) {
    let clock = Rc::new(Steps(Cell::new(0)));
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    let model = MemoryTree::with(
        "model",
        ByteCount::gib(1),
        1 << 20,
        Rc::clone(&clock) as Rc<dyn WallClock>,
    );
    let first = Rc::new(Cell::new(true));
    for _ in 0..3 {
        let (clock, random, model) = (Rc::clone(&clock), Rc::clone(&random), Rc::clone(&model));
        let first = Rc::clone(&first);
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let real = mounted(&live, Rc::clone(&clock) as Rc<dyn WallClock>).await;
            if first.replace(false) {
                set_roots(&real, &model).await;
            }
            let both = Both { real, model, clock, held: RefCell::default() };
            let mut at_hand = random.replace(Prng::new(0));
            for round in 0..12 {
                if let Some(size) = sizes.get(round % sizes.len().max(1)) {
                    super::features::set(&live, "tank", "dnodesize", *size).await;
                }
                for _ in 0..40 {
                    both.change(&mut at_hand).await;
                }
                // A group is synced while the next is changed.
                let syncing = {
                    let live = Rc::clone(&live);
                    live.spa().rt().clone().spawn(async move { live.make_durable().await })
                };
                for _ in 0..20 {
                    both.change(&mut at_hand).await;
                }
                syncing.await.expect("it is written");
                if round % 4 == 3 {
                    both.compare().await;
                }
            }
            random.replace(at_hand);
            both.real.sync().await.expect("it is durable");
            assert!(!live.is_dirty());
            for (r, m) in both.held.take() {
                both.real.release(r);
                both.model.release(m);
            }
            both.compare().await;
            live.close(LabelState::Exported).await.expect("it is closed");
        });
    }
    rig.judge();
}

#[test]
fn a_mount_answers_as_a_file_system_in_memory_does() {
    let mirror = || vec![top(0, VdevKind::Mirror, 2)];
    let two = vec![top(0, raidz(1), 3), top(1, raidz(1), 3)];
    for (seed, tops) in some([(1, mirror()), (2, mirror()), (3, mirror()), (4, two)], 1) {
        beside_memory(seed, &Rig::new(tops), &[]);
    }
}

/// What could break: a name is taken for one that differs from it by case, and has the same hash.
#[test]
fn a_mount_answers_so_where_names_are_hashed_as_if_case_did_not_matter() {
    fixtures::takes_long!();
    let rules = [(7, 0), (8, NFC)];
    for (seed, normalization) in some(rules, 1) {
        let tops = vec![top(0, VdevKind::File, 1)];
        beside_memory(seed, &Rig::with_rules(tops, case::MIXED, normalization), &[]);
    }
}

/// What a kernel may keep of names is said of each dataset of a mount by itself.
#[test]
fn names_are_folded_in_the_datasets_that_were_made_so() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let above = node(&live, "tank").await.directory.number;
        let cases = [
            ("plain", 0, 0, false),
            ("insensitive", case::INSENSITIVE, 0, true),
            ("mixed", case::MIXED, 0, false),
            ("form", 0, NFC, true),
            ("both", case::MIXED, NFC, true),
        ];
        for (name, case, form, _) in cases {
            let rules =
                [("casesensitivity", table::number(case)), ("normalization", table::number(form))];
            let properties = rules.map(|(rule, value)| (rule.to_owned(), value)).to_vec();
            let new = NewDataset { name: name.to_owned(), owner: (0, 0), properties };
            task(&live, async |tasks| tasks.create(above, &new).await).await.expect("it is made");
        }
        let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        assert!(!real.folds_names(Node::ROOT));
        let (by, new) = (Caller::default(), New { permissions: 0o755, umask: 0 });
        for (name, _, _, folds) in cases {
            let root = real.lookup(Node::ROOT, name.as_bytes()).await.expect("it is there");
            let below = real.mkdir(by, root.node, b"d", new).await.expect("it is made");
            for directory in [root.node, below.node] {
                assert_eq!(real.folds_names(directory), folds, "{name}");
            }
        }
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Dnodes of other lengths come to be in the place of some that went.
#[test]
fn a_mount_answers_so_whatever_the_size_of_its_dnodes() {
    fixtures::takes_long!();
    let sizes: [(u64, &[u64]); 2] =
        [(5, &[2 << 10, 0, 1, 16 << 10, 4 << 10]), (6, &[0, 8 << 10, 1 << 10])];
    for (seed, sizes) in some(sizes, 1) {
        let tops = vec![top(0, VdevKind::File, 1)];
        let rig = Rig::with_features(tops, features_and(&["large_dnode"]));
        beside_memory(seed, &rig, sizes);
    }
}

/// A file that is open and has no name is freed by the next mount, if this one ends before it can.
#[test]
fn what_was_held_without_a_name_when_the_power_went_is_freed() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let by = Caller::default();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        let new = New { permissions: 0o644, umask: 0 };
        let made = real.create(by, Node::ROOT, b"f", new).await.expect("it is made");
        let unnamed = real.create_unnamed(by, Node::ROOT, new).await.expect("it is made");
        let named = real.create_unnamed(by, Node::ROOT, new).await.expect("it is made");
        real.link(by, named.node, Node::ROOT, b"named").await.expect("it has a name");
        let directory = real.mkdir(by, Node::ROOT, b"d", new).await.expect("it is made");
        real.open(by, directory.node, OpenNode::default()).await.expect("it is held");
        for node in [made.node, unnamed.node, named.node] {
            let bytes = SgList::from(Buf::copy_of(&[5; 300_000]));
            real.write(by, node, WriteAt::End, bytes, false).await.expect("it is written");
        }
        real.set_extended_attribute(by, made.node, b"user.a", &[7; 2000], SetHow::Any)
            .await
            .expect("it is set");
        real.unlink(by, Node::ROOT, b"f").await.expect("it goes");
        real.rmdir(by, Node::ROOT, b"d").await.expect("it goes");
        let lost = real.create(by, directory.node, b"x", new).await;
        assert_eq!(lost.err(), Some(InodeError::NotFound), "nothing is made in what has no name");
        real.sync().await.expect("it is durable");
        let read = real.read(made.node, Offset(299_990), ByteCount(100)).await.expect("it is read");
        assert_eq!(read.to_vec(), [5; 10]);
        assert_eq!(real.attributes(made.node).await.expect("it lives").links, 0);
        // The power goes: nothing is released.
    });
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let files = live.files(&node).await.expect("it is one");
        assert_eq!(files.unlinked().await.expect("it is read").len(), 3);
        let real = mounted(&live, Rc::new(Steps(Cell::new(9)))).await;
        assert!(files.unlinked().await.expect("it is read").is_empty(), "they are freed");
        assert_eq!(names(&real, Node::ROOT).await.keys().collect::<Vec<_>>(), [b"named"]);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A pool that is full says so, and space that is freed can be used again.
#[test]
fn a_full_pool_refuses_data_and_lets_it_be_removed() {
    fixtures::takes_long!();
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let by = Caller::default();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        let new = New { permissions: 0o644, umask: 0 };
        let mut random = Prng::new(1);
        for _ in 0..2 {
            let made = real.create(by, Node::ROOT, b"f", new).await.expect("it is made");
            let mut written = 0;
            let error = loop {
                let bytes = random.bytes(1 << 20);
                let data = SgList::from(Buf::copy_of(&bytes));
                match real.write(by, made.node, WriteAt::End, data, false).await {
                    Ok(_) => written += 1,
                    Err(error) => break error,
                }
                assert!(written < 200, "it is full at some time");
            };
            assert_eq!(error, InodeError::NoSpace);
            assert!(written > 30, "{written} MiB found room");
            let refused = real.mkdir(by, Node::ROOT, b"d", new).await;
            assert!(matches!(refused, Ok(_) | Err(InodeError::NoSpace)));
            if refused.is_ok() {
                real.rmdir(by, Node::ROOT, b"d").await.expect("it goes");
            }
            real.unlink(by, Node::ROOT, b"f").await.expect("there is always room to remove");
            real.release(made.node);
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Notices, as they came.
#[derive(Default)]
struct Told(RefCell<Vec<ChangeNotice>>);

impl Watcher for Told {
    fn changed(&self, notice: ChangeNotice) {
        self.0.borrow_mut().push(notice);
    }

    fn passed_on(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(ready(()))
    }
}

/// Below a mount lie children, which are written by their own properties, and snapshots, which are not.
#[test]
fn children_are_written_and_snapshots_are_not() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let root = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
        let (above, head) = (root.directory.number, root.head.number);
        let records = LeafValue { number_bytes: 8, numbers: vec![16 << 10] };
        let properties = vec![("recordsize".to_owned(), records)];
        let child = NewDataset { name: "child".to_owned(), owner: (0, 0), properties };
        let made = live.task(async |tasks| tasks.create(above, &child).await).await;
        made.expect("it is written").expect("it is made");
        let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        let told = Rc::new(Told::default());
        let mount = real.watch(Rc::clone(&told) as Rc<dyn Watcher>);
        let (by, own) = (Caller::default(), Caller { mount, ..Caller::default() });
        let new = New { permissions: 0o644, umask: 0 };
        let write = async |node: Node, byte: u8| {
            let bytes = SgList::from(Buf::copy_of(&[byte; 100_000]));
            real.write(own, node, WriteAt::Offset(Offset(0)), bytes, false).await
        };
        let child = real.lookup(Node::ROOT, b"child").await.expect("it is there");
        let inner = real.create(own, child.node, b"inner", new).await.expect("it is made");
        write(inner.node, 1).await.expect("it is written");
        let known = real.attributes(inner.node).await.expect("it is there");
        assert_eq!(known.block_size, ByteCount::kib(16), "the child's record size");
        let outer = real.create(own, Node::ROOT, b"outer", new).await.expect("it is made");
        write(outer.node, 2).await.expect("it is written");
        let known = real.attributes(outer.node).await.expect("it is there");
        assert_eq!(known.block_size.bytes(), 100_352, "one block as long as the file");
        assert!(told.0.borrow().is_empty(), "who made a change knows of it");
        let moved = (child.node, &b"inner"[..]);
        let across = real.rename(by, moved, (Node::ROOT, b"x"), RenameHow::Replace).await;
        assert_eq!(across, Err(InodeError::CrossDevice));
        let linked = real.link(by, inner.node, Node::ROOT, b"x").await;
        assert_eq!(linked.err(), Some(InodeError::CrossDevice));
        for name in [&b"child"[..], b".zfs"] {
            let made = real.mkdir(by, Node::ROOT, name, new).await;
            assert_eq!(made.err(), Some(InodeError::Exists));
            assert_eq!(real.rmdir(by, Node::ROOT, name).await, Err(InodeError::Busy));
        }
        let taken = live.task(async |tasks| tasks.snapshot(head, "s").await).await;
        taken.expect("it is written").expect("it is taken");
        write(outer.node, 3).await.expect("it is written");
        real.unlink(by, child.node, b"inner").await.expect("it goes");
        let entry = ChangeNotice::Entry { directory: child.node, name: b"inner".to_vec() };
        assert!(told.0.borrow().contains(&entry), "others are told");
        let mut at = Node::ROOT;
        for name in [&b".zfs"[..], b"snapshot", b"s"] {
            at = real.lookup(at, name).await.expect("it is there").node;
            let made = real.create(by, at, b"new", new).await;
            assert_eq!(made.err(), Some(InodeError::ReadOnly));
        }
        let old = real.lookup(at, b"outer").await.expect("it is there").node;
        let read = real.read(old, Offset(0), ByteCount(200_000)).await.expect("it is read");
        assert!(read.to_vec() == [2; 100_000], "as it was");
        assert_eq!(write(old, 4).await, Err(InodeError::ReadOnly));
        let read = real.read(outer.node, Offset(0), ByteCount(200_000)).await.expect("it is read");
        assert!(read.to_vec() == [3; 100_000], "as it is");
        real.sync().await.expect("it is durable");
        let usage = real.usage(at).await.expect("it is known");
        assert!(usage.free.bytes() > 40 << 20 && usage.total > usage.free, "{usage:?}");
        real.unwatch(mount);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// Commands make, rename and destroy datasets and snapshots under a mount: it shows what is there, what is open stays, and what was
/// destroyed is gone.
#[test]
fn what_commands_do_shows_in_a_mount() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let top = node(&live, "tank").await.directory.number;
        for name in ["a", "b"] {
            let new = NewDataset { name: name.to_owned(), owner: (0, 0), properties: Vec::new() };
            task(&live, async |tasks| tasks.create(top, &new).await).await.expect("it is made");
        }
        let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        let told = Rc::new(Told::default());
        let mount = real.watch(Rc::clone(&told) as Rc<dyn Watcher>);
        let by = Caller { mount, ..Caller::default() };
        let new = New { permissions: 0o644, umask: 0 };
        let a = real.lookup(Node::ROOT, b"a").await.expect("it is there").node;
        let file = real.create(by, a, b"file", new).await.expect("it is made").node;
        let bytes = SgList::from(Buf::copy_of(&[7; 300_000]));
        real.write(by, file, WriteAt::Offset(Offset(0)), bytes, false).await.expect("written");
        let control = real.lookup(a, b".zfs").await.expect("it is there").node;
        let snapshots = real.lookup(control, b"snapshot").await.expect("it is there").node;
        let absent = real.lookup(snapshots, b"s").await;
        assert_eq!(absent.err(), Some(InodeError::NotFound));
        // A snapshot of a command's.
        let head = number(&live, "tank/a").await;
        task(&live, async |tasks| tasks.snapshot(head, "s").await).await.expect("it is taken");
        real.follow().await.expect("it is known");
        let entry = |directory, name: &[u8]| ChangeNotice::Entry { directory, name: name.to_vec() };
        let was_told = |notice| told.0.take().contains(&notice);
        assert!(was_told(entry(snapshots, b"s")), "it was asked for before");
        let s = real.lookup(snapshots, b"s").await.expect("it is there").node;
        let old = real.lookup(s, b"file").await.expect("it is there").node;
        // Another name, and another place below the mount.
        let b = node(&live, "tank/b").await.directory.number;
        let moved = node(&live, "tank/a").await.directory.number;
        let renamed = task(&live, async |tasks| tasks.rename(moved, b, "c", 4).await).await;
        renamed.expect("though it is open");
        real.follow().await.expect("it is known");
        assert!(was_told(entry(Node::ROOT, b"a")));
        assert_eq!(real.lookup(Node::ROOT, b"a").await.err(), Some(InodeError::NotFound));
        let b = real.lookup(Node::ROOT, b"b").await.expect("it is there").node;
        assert_eq!(real.lookup(b, b"c").await.expect("it is there").node, a, "it is the same");
        assert_eq!(real.parent(a).await, Ok(b));
        let bytes = SgList::from(Buf::copy_of(b"written on"));
        real.write(by, file, WriteAt::Offset(Offset(0)), bytes, false).await.expect("written");
        let made = real.mkdir(by, snapshots, b"t", new).await;
        made.expect("by the name that it has now");
        number(&live, "tank/b/c@t").await;
        let read = real.read(old, Offset(0), ByteCount(300_000)).await.expect("it is read");
        assert!(read.to_vec() == [7; 300_000], "as it was");
        // Destroyed: its blocks are others' soon.
        let snapshot = number(&live, "tank/b/c@s").await;
        let gone = task(&live, async |tasks| tasks.destroy_snapshot(snapshot, false).await).await;
        gone.expect("it goes");
        let read = real.read(old, Offset(0), ByteCount(300_000)).await;
        assert_eq!(read.err(), Some(InodeError::Gone));
        assert_eq!(real.attributes(s).await.err(), Some(InodeError::Gone));
        real.follow().await.expect("it is known");
        assert!(was_told(entry(snapshots, b"s")));
        assert_eq!(real.lookup(snapshots, b"s").await.err(), Some(InodeError::NotFound));
        // Another of that name is another.
        task(&live, async |tasks| tasks.snapshot(head, "s").await).await.expect("it is taken");
        real.follow().await.expect("it is known");
        let s = real.lookup(snapshots, b"s").await.expect("it is there").node;
        let file = real.lookup(s, b"file").await.expect("it is there").node;
        let read = real.read(file, Offset(0), ByteCount(10)).await.expect("it is read");
        assert_eq!(read.to_vec(), b"written on");
        real.unwatch(mount);
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// There may be thousands of snapshots: who lists them opens none.
#[test]
fn snapshots_are_listed_as_they_are_and_none_is_opened_for_that() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let head = number(&live, "tank").await;
        for name in ["z", "a", "m"] {
            task(&live, async |tasks| tasks.snapshot(head, name).await).await.expect("it is taken");
        }
        let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
        let control = real.lookup(Node::ROOT, b".zfs").await.expect("it is there").node;
        let snapshots = real.lookup(control, b"snapshot").await.expect("it is there").node;
        let list = async |after, count| real.list(snapshots, after, count).await.expect("listed");
        let names = |all: &[ListEntry]| -> Vec<String> {
            all.iter().map(|one| String::from_utf8_lossy(&one.name).into_owned()).collect()
        };
        let all = list(Cookie::START, 100).await;
        assert_eq!(names(&all), ["z", "a", "m"], "from the oldest on");
        assert_eq!(names(&list(all[0].cookie, 1).await), ["a"], "in pieces");
        let a = real.lookup(snapshots, b"a").await.expect("it is there").node;
        assert_ne!(all[1].node, a, "it was not open");
        let now = list(Cookie::START, 100).await;
        assert_eq!(now[1].node, a, "what is open is known");
        assert_eq!((now[0].node, now[2].node), (all[0].node, all[2].node), "and nothing else is");
        let renamed = task(&live, async |tasks| tasks.rename_snapshot(head, "m", "k").await).await;
        assert!(renamed.expect("it is done"));
        let gone = number(&live, "tank@a").await;
        let gone = task(&live, async |tasks| tasks.destroy_snapshot(gone, false).await).await;
        gone.expect("it goes");
        real.follow().await.expect("it is known");
        assert_eq!(names(&list(Cookie::START, 100).await), ["z", "k"]);
        drop(real);
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
