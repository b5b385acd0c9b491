//! Disks that put down each write and each flush, and what lies on them when the power goes at one of them.
//!
//! One run gives all its cuts: what is durable grows with each flush, and of what was written since all may be there, or nothing,
//! or any sectors of any of it. So a cut costs what looking at it costs, and thousands of them no more than a run.
//!
//! What is held against what was left is the same for all who cut: the pool opens, its log is replayed, what is there is one of the
//! states that it may be; all that is allocated is reached and nothing else, each copy is whole, and the books agree with a walk.

use super::logs::{Seen, clock, seen};
use super::mounted::mounted;
use super::{Rig, Seeded, check_copies, datasets, long, pointers};
use rt::inodes::{InodeKind, Inodes, Node};
use rt::{Device, DeviceRef, Geometry, IoFuture, MemoryDevice, Op, Request, SgList};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use stdx::{ByteCount, Offset, Prng};
use zfs::dsl::make::Fresh;
use zfs::mounted::{MountOptions, Mounted};
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::{Live, set_number};

/// What of a write survives by itself.
const SECTOR: usize = 512;

/// What came to one of the disks.
enum Event {
    Write(usize, Offset, SgList),
    Flush(usize),
}

/// All that came to the disks, in order.
#[derive(Default)]
pub(crate) struct Tape(RefCell<Vec<Event>>);

impl Tape {
    /// How much came so far.
    pub(crate) fn moment(&self) -> usize {
        self.0.borrow().len()
    }
}

/// A disk that puts down what comes to it. It answers at once, so the order is the one in which requests came.
struct Recorder {
    disk: usize,
    below: Rc<MemoryDevice>,
    tape: Rc<Tape>,
}

impl Device for Recorder {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.below.geometry() }
    }

    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn begin(&self, request: Request) -> IoFuture {
        let event = match &request.op {
            Op::Read(_) => None,
            Op::Flush => Some(Event::Flush(self.disk)),
            Op::Write { data, fua } => {
                assert!(!fua, "pools flush");
                Some(Event::Write(self.disk, request.offset, data.clone()))
            }
            // A stretch that is given up too early is found out by its zeros.
            Op::Discard(len) | Op::WriteZeroes(len) => {
                let zeros = SgList::zeros(len.as_usize());
                Some(Event::Write(self.disk, request.offset, zeros))
            }
        };
        self.tape.0.borrow_mut().extend(event);
        self.below.begin(request)
    }
}

fn numbers(seed: u64) -> Rc<dyn Fresh> {
    Rc::new(Seeded(Cell::new(Prng::new(seed))))
}

/// A pool on copies of disks, with what comes to them put down; and numbers by a seed.
pub(crate) fn record(base: &Rig, seed: u64) -> (Rig, Vec<DeviceRef>, Rc<Tape>) {
    let disks = base.disks.iter().map(|(guid, disk)| (*guid, disk.fork())).collect();
    let rig = Rig::over(disks, numbers(!seed));
    let tape = Rc::new(Tape::default());
    let cover = |(disk, (_, below)): (usize, &(u64, Rc<MemoryDevice>))| {
        let (below, tape) = (Rc::clone(below), Rc::clone(&tape));
        Rc::new(Recorder { disk, below, tape }) as DeviceRef
    };
    let devices = rig.disks.iter().enumerate().map(cover).collect();
    (rig, devices, tape)
}

/// What becomes of writes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Kept,
    /// Each by itself: whole, torn, or lost. That one is lost and a later one is not is another order.
    Drawn,
}

/// Goes along a tape.
pub(crate) struct Cuts {
    durable: Vec<(u64, Rc<MemoryDevice>)>,
    /// By disk.
    pending: Vec<Vec<(Offset, SgList)>>,
    tape: Rc<Tape>,
    at: usize,
}

impl Cuts {
    /// From the state before the tape began.
    pub(crate) fn of(base: &Rig, tape: &Rc<Tape>) -> Cuts {
        let durable: Vec<_> = base.disks.iter().map(|(guid, disk)| (*guid, disk.fork())).collect();
        let pending = durable.iter().map(|_| Vec::new()).collect();
        Cuts { durable, pending, tape: Rc::clone(tape), at: 0 }
    }

    /// How much came until now.
    pub(crate) fn moment(&self) -> usize {
        self.at
    }

    /// What comes next is a flush, or nothing does.
    pub(crate) fn is_before_flush(&self) -> bool {
        !matches!(self.tape.0.borrow().get(self.at), Some(Event::Write(..)))
    }

    /// Takes what comes next; says whether there was anything.
    pub(crate) fn advance(&mut self) -> bool {
        let tape = Rc::clone(&self.tape);
        let events = tape.0.borrow();
        match events.get(self.at) {
            Some(Event::Write(disk, at, data)) => self.pending[*disk].push((*at, data.clone())),
            Some(Event::Flush(disk)) => {
                for (at, data) in self.pending[*disk].drain(..) {
                    self.durable[*disk].1.poke(at, &data);
                }
            }
            None => return false,
        }
        self.at += 1;
        true
    }

    /// What the disks hold if the power goes now.
    pub(crate) fn cut(&self, fate: Fate, seed: u64) -> Rig {
        let mut random = Prng::new(seed);
        let disks: Vec<_> = self.durable.iter().map(|(guid, disk)| (*guid, disk.fork())).collect();
        for ((_, disk), writes) in disks.iter().zip(&self.pending) {
            // Drawn first: with one half for each write a cut that keeps nearly all would never be seen.
            let share = match fate {
                Fate::Lost => continue,
                Fate::Kept => 1.0,
                Fate::Drawn => random.unit(),
            };
            for (at, data) in writes {
                if fate == Fate::Kept || random.chance(0.5) {
                    if random.chance(share) {
                        disk.poke(*at, data);
                    }
                    continue;
                }
                for from in (0..data.len()).step_by(SECTOR) {
                    if random.chance(share) {
                        let sector = data.slice(from..(from + SECTOR).min(data.len()));
                        disk.poke(*at + ByteCount(from as u64), &sector);
                    }
                }
            }
        }
        // Other numbers than those of the run that was cut: two logs must never have the same.
        Rig::over(disks, numbers(seed))
    }
}

/// All that is looked at in a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) now: Seen,
    pub(crate) snapshots: BTreeMap<String, Seen>,
    /// What is set as `compression`, by its number.
    pub(crate) set: u64,
}

/// What of two states is not the same.
fn difference(one: &State, other: &State) -> String {
    let all = |state: &State| {
        let mut lines = vec![format!("compression {}", state.set)];
        let trees = [(String::new(), &state.now)].into_iter();
        let trees = trees.chain(state.snapshots.iter().map(|(name, tree)| (name.clone(), tree)));
        for (name, tree) in trees {
            lines.push(format!("@{name}"));
            let line = |(path, text): (&Vec<u8>, &String)| {
                format!("{name} {}: {text}", String::from_utf8_lossy(path))
            };
            lines.extend(tree.iter().map(line));
        }
        lines
    };
    let (one, other) = (all(one), all(other));
    let only = |a: &[String], b: &[String]| {
        a.iter().filter(|line| !b.contains(line)).cloned().collect::<Vec<_>>().join("; ")
    };
    format!("found: {} | wanted: {}", only(&one, &other), only(&other, &one))
}

/// What is there.
pub(crate) async fn state(live: &Rc<Live>) -> State {
    let real = mounted(live, clock()).await;
    let now = seen(&real).await;
    let (directory, head) = live.spa().dsl().find("tank").await.expect("read").expect("there");
    let directory = Rc::new(directory);
    let mut snapshots = BTreeMap::new();
    for snapshot in live.spa().dsl().snapshots(&head).await.expect("they are read") {
        let name = snapshot.name.clone();
        let (of, how) = (Rc::clone(&directory), MountOptions::default());
        let opened = Mounted::open(live.spa(), of, snapshot, how, Rc::new(|_| {})).await;
        let tree = seen(&opened.expect("it is mounted") as &dyn Inodes).await;
        snapshots.insert(name.split_once('@').expect("a snapshot").1.to_owned(), tree);
    }
    let root = live.spa().catalog(0).await.expect("read").root().await.expect("it is there");
    let set = set_number(&root, "compression").unwrap_or(0);
    State { now, snapshots, set }
}

/// A change of a file's bytes that may be there in part: a long write is several records, and a cut falls between them.
///
/// A record that leads to a block (`WR_INDIRECT`) has the bytes that the block had when it was written, and those may be of a
/// later change already, which nobody was told of: so it is with OpenZFS, too.
#[derive(Clone)]
pub(crate) struct Torn {
    /// The file's name.
    pub(crate) path: Vec<u8>,
    pub(crate) before: Vec<u8>,
    pub(crate) after: Vec<u8>,
}

impl Torn {
    /// Whether a file has the new bytes, or those of later changes, up to some place, and the old ones from there on.
    fn has(&self, found: &[u8], later: &[&Torn]) -> bool {
        let is_new = |(at, byte): &(usize, &u8)| {
            let has = |change: &Torn| change.after.get(*at) == Some(*byte);
            has(self) || later.iter().any(|change| has(change))
        };
        let new = found.iter().enumerate().take_while(is_new).count();
        found[new..] == self.before[new.min(self.before.len())..]
    }
}

/// Bytes of a file of a mount.
pub(crate) async fn content(of: &dyn Inodes, path: &[u8]) -> Option<Vec<u8>> {
    let mut found = of.attributes(Node::ROOT).await.ok()?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        found = of.lookup(found.node, name).await.ok()?;
    }
    let is_file = found.kind == InodeKind::File;
    let bytes = is_file.then(|| of.read(found.node, Offset(0), found.size))?;
    Some(bytes.await.expect("it is read").to_vec())
}

/// Whether what was found is one of the states but for files that the change after it was about to write.
async fn is_torn(live: &Rc<Live>, found: &State, allowed: &[State], torn: &[Vec<Torn>]) -> bool {
    let real = mounted(live, clock()).await;
    for (at, (state, files)) in allowed.iter().zip(torn).enumerate() {
        if files.is_empty() {
            continue;
        }
        let without = |state: &State| {
            let mut state = state.clone();
            files.iter().for_each(|file| drop(state.now.remove(&file.path)));
            state
        };
        let mut is_it = without(found) == without(state);
        for file in files {
            let later = torn[at + 1..].iter().flatten();
            let later: Vec<&Torn> = later.filter(|change| change.path == file.path).collect();
            is_it &= content(&real, &file.path).await.is_some_and(|found| file.has(&found, &later));
        }
        if is_it {
            return true;
        }
    }
    false
}

/// Looks at what a cut left: it is one of these states, and sound. For each state, but the last, what the next one writes may be
/// there in part.
pub(crate) fn look(rig: &Rig, allowed: Vec<State>, torn: Vec<Vec<Torn>>, judges: bool, what: &str) {
    // What a walk reaches is allocated, and nothing else, with what only logs lead to.
    rig.with(async |spa: Rc<Spa>, _| {
        pointers::check_trees(&spa).await;
        check_copies(&spa).await;
    });
    if judges {
        rig.judge();
    }
    let what = what.to_owned();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let found = state(&live).await;
        if !allowed.contains(&found) && !is_torn(&live, &found, &allowed, &torn).await {
            let all: Vec<String> =
                allowed.iter().map(|allowed| difference(&found, allowed)).collect();
            panic!("{what}: {all:#?}");
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async |spa: Rc<Spa>, _| {
        long::assert_shadow(&spa).await;
        datasets::check_books(&spa).await;
        check_copies(&spa).await;
    });
    if judges {
        rig.judge();
    }
}
