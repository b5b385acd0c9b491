//! File systems that take names for the same that differ by case, by the form of their letters, by both or by neither: random changes of
//! names beside a model.
//!
//! What could break: a name hides another that is not the same; one that is the same is made beside it; one is removed, replaced or
//! renamed for another; a name that was made under one spelling is lost under another, in small directories or large ones, in memory
//! or after the pool was opened anew.

use super::datasets::{node, task};
use super::mounted::{Steps, mounted, names};
use super::{Rig, new_file, root_files, top};
use fixtures::extent::some;
use rt::inodes::{Caller, InodeError, Inodes, New, Node, RenameHow};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::NewDataset;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs::zpl::change::NewFile;
use zfs::zpl::name_rules::case;
use zfs_format::vdev::VdevKind;
use zfs_format::zap::normalization::{NFC, NFD, NFKC};
use zfs_format::zpl::directory::DirectoryEntry;

/// Words, each in the four spellings that it has: two cases, and with its accent in one letter or two.
const WORDS: u64 = 12;

/// One spelling of a word: which word, whether in capitals, whether with its accent apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spelling {
    word: u64,
    capitals: bool,
    apart: bool,
}

impl Spelling {
    fn draw(random: &mut Prng) -> Spelling {
        let word = random.below(WORDS);
        Spelling { word, capitals: random.chance(0.5), apart: random.chance(0.5) }
    }

    /// In the second directory longer than a small table takes.
    fn text(self, directory: usize) -> String {
        // A letter that is its own capital, one that shares its capital with others, one that got a capital late.
        let letters = match self.capitals {
            true => "ßΣა",
            false => "ßςა",
        };
        let accent = match (self.capitals, self.apart) {
            (true, true) => "E\u{301}",
            (true, false) => "\u{c9}",
            (false, true) => "e\u{301}",
            (false, false) => "\u{e9}",
        };
        let letter = char::from(b'a' + self.word as u8);
        let letter = if self.capitals { letter.to_ascii_uppercase() } else { letter };
        format!("{letter}{letters}{accent}{}", "-".repeat(60 * directory))
    }
}

/// What is kept of a directory: by what the spellings that are the same have in common the one that it was made by, and the file.
type Names = BTreeMap<Spelling, (Spelling, u64)>;

/// How a file system takes names.
#[derive(Clone, Copy)]
struct Rules {
    case: u64,
    normalization: u64,
}

impl Rules {
    fn common(self, of: Spelling) -> Spelling {
        let capitals = of.capitals && self.case != case::INSENSITIVE;
        Spelling { word: of.word, capitals, apart: of.apart && self.normalization == 0 }
    }
}

/// Two directories and what is in them.
struct World {
    rules: Rules,
    directories: Vec<u64>,
    names: [Names; 2],
}

impl World {
    fn known(&self, at: usize, name: Spelling) -> Option<u64> {
        self.names[at].get(&self.rules.common(name)).map(|(_, file)| *file)
    }

    async fn change(&mut self, files: &FileSystem, random: &mut Prng) {
        let (at, to) = (random.below(2) as usize, random.below(2) as usize);
        let (one, other) = (Spelling::draw(random), Spelling::draw(random));
        let (from, into) = (self.directories[at], self.directories[to]);
        let (name, new) = (one.text(at), other.text(to));
        let (name, new) = (name.as_bytes(), new.as_bytes());
        let (common, common_new) = (self.rules.common(one), self.rules.common(other));
        let (known, there) = (self.known(at, one), self.known(to, other));
        match random.below(8) {
            0..=3 => {
                let number = number(files).await;
                let made = files.create(from, name, &new_file(number)).await;
                assert_eq!(made.is_ok(), known.is_none(), "{one:?}: {made:?}");
                if made.is_ok() {
                    self.names[at].insert(common, (one, number));
                }
            }
            4 => {
                let gone = files.unlink(from, name).await;
                assert_eq!(gone.is_ok(), known.is_some(), "{one:?}: {gone:?}");
                self.names[at].remove(&common);
            }
            5 => {
                let Some(file) = known else { return };
                let linked = files.link(into, new, file).await;
                assert_eq!(linked.is_ok(), there.is_none(), "{other:?}: {linked:?}");
                if linked.is_ok() {
                    self.names[to].insert(common_new, (other, file));
                }
            }
            6 => {
                let renamed = files.rename((from, name), (into, new)).await;
                assert_eq!(renamed.is_ok(), known.is_some(), "{one:?}: {renamed:?}");
                // Where both are the same file nothing happens.
                if known.is_some() && known != there {
                    let (_, file) = self.names[at].remove(&common).expect("it is known");
                    self.names[to].insert(common_new, (other, file));
                }
            }
            _ => {
                let both = known.is_some() && there.is_some();
                let changed = files.exchange((from, name), (into, new)).await;
                assert_eq!(changed.is_ok(), both, "{one:?} and {other:?}: {changed:?}");
                if let (Some(known), Some(there)) = (known, there) {
                    self.names[at].get_mut(&common).expect("it is known").1 = there;
                    self.names[to].get_mut(&common_new).expect("it is known").1 = known;
                }
            }
        }
    }

    async fn compare(&self, files: &FileSystem) {
        for (at, (names, directory)) in self.names.iter().zip(&self.directories).enumerate() {
            let directory = files.node(*directory).await.expect("it is there");
            let listed = files.names(&directory).await.expect("it is listed");
            let listed: BTreeMap<Vec<u8>, u64> =
                listed.into_iter().map(|name| (name.name, name.entry.object)).collect();
            let kept = names.values().map(|(name, file)| (name.text(at).into_bytes(), *file));
            assert_eq!(listed, kept.collect());
            for spelling in (0..WORDS * 4).map(|n| Spelling {
                word: n / 4,
                capitals: n & 1 != 0,
                apart: n & 2 != 0,
            }) {
                let text = spelling.text(at);
                let found = files.lookup(&directory, text.as_bytes()).await.expect("it is read");
                let found = found.map(|entry: DirectoryEntry| entry.object);
                assert_eq!(found, self.known(at, spelling), "{text}");
            }
        }
    }
}

async fn number(files: &FileSystem) -> u64 {
    let plan = files.objset().change(|_| files.objset().plan_number(1)).await;
    plan.expect("one is free").0
}

fn names_over_groups(seed: u64, rules: Rules) {
    let rig = Rig::with_rules(vec![top(0, VdevKind::File, 1)], rules.case, rules.normalization);
    let (directories, names) = Default::default();
    let world = Rc::new(RefCell::new(World { rules, directories, names }));
    let random = Rc::new(RefCell::new(Prng::new(seed)));
    for _ in 0..2 {
        let (world, random) = (Rc::clone(&world), Rc::clone(&random));
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let node = live.spa().catalog(0).await.expect("it is read").root().await;
            let files = live.files(&node.expect("it is there")).await.expect("it opens");
            let (mut world, mut random) = (world.borrow_mut(), random.borrow_mut());
            if world.directories.is_empty() {
                for name in ["small", "large"] {
                    let number = number(&files).await;
                    let new = NewFile { mode: 0o040_755, ..new_file(number) };
                    let root = files.root_number();
                    files.create(root, name.as_bytes(), &new).await.expect("it is made");
                    world.directories.push(number);
                }
            }
            for _ in 0..6 {
                for _ in 0..60 {
                    world.change(&files, &mut random).await;
                }
                world.compare(&files).await;
                live.sync(async |_| Ok(())).await.expect("it is written");
            }
            drop(files);
            live.close(LabelState::Exported).await.expect("it is closed");
        });
    }
    rig.with(async move |spa: Rc<Spa>, _| {
        let files = root_files(&spa).await;
        world.borrow().compare(&files).await;
    });
    rig.judge();
}

#[test]
fn names_are_the_same_or_not_as_the_file_system_takes_them() {
    fixtures::takes_long!();
    let all = [
        (case::MIXED, 0),
        (case::INSENSITIVE, NFD),
        (case::MIXED, NFC),
        (case::INSENSITIVE, 0),
        (0, NFKC),
        (case::MIXED, NFKC),
        (case::INSENSITIVE, NFC),
        (0, 0),
    ];
    for (seed, (case, normalization)) in some((0..).zip(all).collect::<Vec<_>>(), 3) {
        names_over_groups(seed, Rules { case, normalization });
    }
}

/// What could break: a child is not found by a name that is the same as its own where it is mounted; something is made beside it that nobody
/// can reach; where case matters one is taken for another.
#[test]
fn children_are_found_by_the_names_that_are_the_same_in_their_parent() {
    for (case, form, is_same) in
        [(case::INSENSITIVE, 0, true), (case::MIXED, 0, false), (0, 0, false)]
    {
        let rig = Rig::with_rules(vec![top(0, VdevKind::File, 1)], case, form);
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
            let above = node(&live, "tank").await.directory.number;
            let make = async |name: &str| {
                let (name, properties) = (name.to_owned(), Vec::new());
                let new = NewDataset { name, owner: (0, 0), properties };
                task(&live, async |tasks| tasks.create(above, &new).await).await.expect("made");
            };
            make("Child").await;
            let real = mounted(&live, Rc::new(Steps(Cell::new(0)))).await;
            let (by, new) = (Caller::default(), New { permissions: 0o755, umask: 0 });
            let child = real.lookup(Node::ROOT, b"Child").await.expect("it is there").node;
            real.create(by, child, b"inner", new).await.expect("it is made");
            let file = real.create(by, Node::ROOT, b"file", new).await.expect("it is made").node;
            let other = real.lookup(Node::ROOT, b"cHILD").await.map(|found| found.node);
            let renamed =
                real.rename(by, (Node::ROOT, b"file"), (Node::ROOT, b"childE"), RenameHow::Replace);
            renamed.await.expect("it has a name of its own");
            if !is_same {
                assert_eq!(other, Err(InodeError::NotFound));
                real.mkdir(by, Node::ROOT, b"cHILD", new).await.expect("it is another");
                live.close(LabelState::Exported).await.expect("it is closed");
                return;
            }
            assert_eq!(other, Ok(child));
            for name in [&b"child"[..], b"CHILD"] {
                let made = real.mkdir(by, Node::ROOT, name, new).await;
                assert_eq!(made.err(), Some(InodeError::Exists));
                let made = real.create(by, Node::ROOT, name, new).await;
                assert_eq!(made.err(), Some(InodeError::Exists));
                let linked = real.link(by, file, Node::ROOT, name).await;
                assert_eq!(linked.err(), Some(InodeError::Exists));
                let to = (Node::ROOT, name);
                let renamed = real.rename(by, (Node::ROOT, b"childE"), to, RenameHow::Replace);
                assert_eq!(renamed.await, Err(InodeError::Busy));
                assert_eq!(real.rmdir(by, Node::ROOT, name).await, Err(InodeError::Busy));
            }
            // One that comes covers a directory whose name is the same.
            real.mkdir(by, Node::ROOT, b"covered", new).await.expect("it is made");
            make("COVERED").await;
            // Two whose names are the same are both there.
            make("CHILD").await;
            let listed: Vec<Vec<u8>> = names(&real, Node::ROOT).await.into_keys().collect();
            assert_eq!(listed, [&b"CHILD"[..], b"COVERED", b"Child", b"childE"]);
            let second = real.lookup(Node::ROOT, b"CHILD").await.expect("it is there").node;
            assert_ne!(second, child);
            assert!(names(&real, second).await.is_empty());
            let lower = real.lookup(Node::ROOT, b"child").await.expect("it is there").node;
            assert_eq!(lower, child, "the first");
            live.close(LabelState::Exported).await.expect("it is closed");
        });
        rig.judge();
    }
}
