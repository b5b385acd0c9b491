//! All sequences of one operation and of two on a small pool, with the power cut at every write.
//!
//! What could break: what was synced is not there; what came before it is not; a change is there without one that came earlier;
//! two changes that are right alone are wrong one after the other (a name that is taken again, a hole in what was just written, a
//! snapshot between a write and its log).
//!
//! **What is run.** Each sequence in four ways: after the first operation nothing is asked for or all is committed, and at the end
//! all is committed by the log or by a group. `fsync` of one file is an operation as well.
//!
//! **What may be there after a cut.** Some of the operations that had begun, in order. All those that were acknowledged as durable
//! are among them; one that is not there ends the list, but for changes of a file's bytes: a later `fsync` of another file may be
//! durable without them.
//!
//! The suite runs every so many of them. All: `cargo test --release --locked --test created every_short_sequence -- --ignored
//! --nocapture`; `SHARD=0/4` runs a quarter, and `STEP=4` cuts at every fourth write, in each sequence at others.
//!
//! Source of the method: ACE (Mohan et al., OSDI '18).

use super::datasets::task;
use super::logs::{clock, seen};
use super::mounted::mounted;
use super::recorded::{Cuts, Fate, State, look, record};
use super::{Rig, features_and, top};
use fixtures::extent::by_extent;
use rt::inodes::{
    Caller, Fallocate, Fsync, InodeError, Inodes, New, Node, RenameHow, SetAttributes, WriteAt,
};
use rt::{Buf, MemoryTree, SgList};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::datasets::TaskError;
use zfs::spa::live::Live;
use zfs::zap::table;
use zfs_format::vdev::VdevKind;

/// One operation. Files are `a` of three blocks, `c` of less than one, and `b` and `d/b` that are not there at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Create(&'static str),
    Mkdir(&'static str),
    Rmdir(&'static str),
    Write(&'static str, u64, usize),
    Append(&'static str, usize),
    Truncate(&'static str, u64),
    Punch(&'static str, u64, u64),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Unlink(&'static str),
    Chmod(&'static str, u16),
    Value(&'static str, usize),
    Fsync(&'static str),
    Snapshot,
    Property,
}

use Deed::*;

/// Bytes of a block of the files.
const BLOCK: u64 = 16 << 10;

const DEEDS: [Deed; 27] = [
    Create("b"),
    Create("d/b"),
    Mkdir("e"),
    Rmdir("d"),
    // Within blocks, and over a border.
    Write("a", 10_000, 9_000),
    // A block, exactly.
    Write("a", BLOCK, BLOCK as usize),
    // Behind the end, with a hole before it.
    Write("a", 100_000, 3_000),
    Write("b", 0, 20_000),
    Append("a", 7_000),
    Append("c", 100),
    Truncate("a", 0),
    Truncate("a", 17_000),
    Truncate("a", 90_000),
    Punch("a", 100, 20_000),
    Punch("a", BLOCK, BLOCK),
    Rename("a", "b"),
    Rename("c", "a"),
    Rename("a", "d/b"),
    Link("a", "b"),
    Unlink("a"),
    Unlink("b"),
    Chmod("a", 0o600),
    Value("a", 300),
    Fsync("a"),
    Fsync("b"),
    Snapshot,
    Property,
];

/// Longer ones that went wrong elsewhere, by what they are.
const LONGER: [&[Deed]; 6] = [
    // OpenZFS #18996: what was fsynced is lost after the name was taken again.
    &[Fsync("a"), Unlink("a"), Create("a"), Write("a", 0, 50_000), Fsync("a")],
    &[Truncate("a", 0), Write("a", 0, 50_000), Fsync("a"), Rename("a", "b"), Fsync("b")],
    // The new file in place of the old one, as editors save.
    &[Create("b"), Write("b", 0, 20_000), Fsync("b"), Rename("b", "a")],
    &[Link("a", "b"), Unlink("a"), Write("b", 5_000, 9_000), Fsync("b")],
    // Attributes of one object number after another's (OpenZFS #8769).
    &[Create("b"), Chmod("b", 0o600), Unlink("b"), Create("b"), Write("b", 0, 20_000), Fsync("b")],
    &[Write("a", 100_000, 3_000), Snapshot, Punch("a", BLOCK, BLOCK), Truncate("a", 17_000)],
];

/// What is asked for between operations and at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Do(Deed),
    Commit,
    Group,
}

const NEW: New = New { permissions: 0o644, umask: 0 };

fn bytes(len: usize, of: u8) -> SgList {
    let byte = |n: usize| (n as u8).wrapping_mul(31).wrapping_add(of) ^ (n >> 8) as u8;
    SgList::from(Buf::copy_of(&(0..len).map(byte).collect::<Vec<_>>()))
}

async fn find(of: &dyn Inodes, path: &str) -> Result<Node, InodeError> {
    let mut node = Node::ROOT;
    for name in path.split('/') {
        node = of.lookup(node, name.as_bytes()).await?.node;
    }
    Ok(node)
}

async fn above<'a>(of: &dyn Inodes, path: &'a str) -> Result<(Node, &'a [u8]), InodeError> {
    match path.split_once('/') {
        Some((directory, name)) => Ok((find(of, directory).await?, name.as_bytes())),
        None => Ok((Node::ROOT, path.as_bytes())),
    }
}

/// Does to files what is to be done to files.
async fn act(of: &dyn Inodes, deed: Deed) -> Result<(), InodeError> {
    let by = Caller::default();
    match deed {
        Create(path) => {
            let (directory, name) = above(of, path).await?;
            of.release(of.create(by, directory, name, NEW).await?.node);
        }
        Mkdir(path) => {
            let (directory, name) = above(of, path).await?;
            of.mkdir(by, directory, name, New { permissions: 0o755, ..NEW }).await?;
        }
        Rmdir(path) => {
            let (directory, name) = above(of, path).await?;
            of.rmdir(by, directory, name).await?;
        }
        Write(path, at, len) => {
            let at = WriteAt::Offset(Offset(at));
            of.write(by, find(of, path).await?, at, bytes(len, 3), false).await?;
        }
        Append(path, len) => {
            of.write(by, find(of, path).await?, WriteAt::End, bytes(len, 4), false).await?;
        }
        Truncate(path, len) => {
            let set = SetAttributes { size: Some(ByteCount(len)), ..SetAttributes::default() };
            of.setattr(by, find(of, path).await?, set).await?;
        }
        Punch(path, at, len) => {
            let (at, len) = (Offset(at), ByteCount(len));
            of.fallocate(by, find(of, path).await?, at, len, Fallocate::PunchHole).await?;
        }
        Rename(from, to) => {
            let (from, to) = (above(of, from).await?, above(of, to).await?);
            of.rename(by, from, to, RenameHow::Replace).await?;
        }
        Link(from, to) => {
            let (node, (directory, name)) = (find(of, from).await?, above(of, to).await?);
            of.link(by, node, directory, name).await?;
        }
        Unlink(path) => {
            let (directory, name) = above(of, path).await?;
            of.unlink(by, directory, name).await?;
        }
        Chmod(path, mode) => {
            let set = SetAttributes { permissions: Some(mode), ..SetAttributes::default() };
            of.setattr(by, find(of, path).await?, set).await?;
        }
        Value(path, len) => {
            let (node, how) = (find(of, path).await?, rt::inodes::SetHow::Any);
            of.set_extended_attribute(by, node, b"user.v", &vec![7; len], how).await?;
        }
        Fsync(path) => of.fsync(find(of, path).await?, Fsync::All).await?,
        Snapshot | Property => {}
    }
    Ok(())
}

/// What there is at first.
async fn prepare(of: &dyn Inodes) {
    let by = Caller::default();
    let set = SetAttributes { permissions: Some(0o755), ..SetAttributes::default() };
    of.setattr(by, Node::ROOT, set).await.expect("it is set");
    for (deed, len) in [(Create("a"), 40_000), (Create("c"), 5_000)] {
        act(of, deed).await.expect("it is made");
        let Create(path) = deed else { unreachable!("both are made") };
        let node = find(of, path).await.expect("it is there");
        of.write(by, node, WriteAt::End, bytes(len, len as u8), false).await.expect("written");
    }
    act(of, Mkdir("d")).await.expect("it is made");
}

/// What is there after these operations, one of which may not be possible.
async fn modelled(deeds: &[Deed]) -> State {
    let model = MemoryTree::new("model");
    prepare(&*model).await;
    let mut state = State::default();
    for deed in deeds {
        let _ = act(&*model, *deed).await;
        match deed {
            Snapshot if state.snapshots.is_empty() => {
                state.snapshots.insert("s".to_owned(), seen(&*model).await);
            }
            Property => state.set = LZJB,
            _ => {}
        }
    }
    state.now = seen(&*model).await;
    state
}

/// What `compression` is set to.
const LZJB: u64 = 3;

/// What a step did, and between which moments.
#[derive(Clone)]
struct Done {
    step: Step,
    began: usize,
    ended: usize,
    /// The file whose bytes or attributes were changed, or that was synced.
    node: Option<Node>,
}

impl Done {
    fn deed(&self) -> Option<Deed> {
        match self.step {
            Step::Do(deed) if !matches!(deed, Fsync(_)) => Some(deed),
            _ => None,
        }
    }

    /// Whether only a file's bytes or attributes were changed, which another's `fsync` doesn't wait for.
    fn is_of_file(&self) -> bool {
        let deed = self.deed();
        matches!(deed, Some(Write(..) | Append(..) | Truncate(..) | Punch(..) | Chmod(..)))
            || matches!(deed, Some(Value(..)))
    }

    fn is_fsync(&self) -> bool {
        matches!(self.step, Step::Do(Fsync(_))) && self.node.is_some()
    }

    /// Whether one that was done before, or it itself, is durable with it.
    fn covers(&self, other: &Done, is_itself: bool) -> bool {
        let is_synced = self.is_fsync() && (!other.is_of_file() || self.node == other.node);
        self.is_of_all() || is_synced && !is_itself
    }

    /// Whether it makes all durable that was done before.
    fn is_of_all(&self) -> bool {
        matches!(self.step, Step::Commit | Step::Group | Step::Do(Snapshot | Property))
    }
}

/// Which operations may be there after a cut at a moment: lists of places among what was done.
fn possible(done: &[Done], moment: usize) -> Vec<Vec<usize>> {
    let begun: Vec<usize> = (0..done.len())
        .filter(|at| done[*at].deed().is_some() && done[*at].began <= moment)
        .collect();
    let is_needed = |at: usize| {
        let acknowledged = |later: &usize| done[*later].ended <= moment;
        (at..done.len())
            .filter(acknowledged)
            .any(|later| done[later].covers(&done[at], later == at))
    };
    // Another file was synced behind it, and the one that is there may be of that.
    let may_lack = |missing: usize, there: usize| {
        let is_other = |later: &Done| later.is_fsync() && later.node != done[missing].node;
        let has_fsync =
            done[missing..].iter().any(|later| later.began <= moment && is_other(later));
        done[missing].is_of_file() && has_fsync && !done[there].is_of_all()
    };
    let mut all = Vec::new();
    for set in 0..1_u32 << begun.len() {
        let has = |n: usize| set >> n & 1 == 1;
        let is_whole = (0..begun.len()).all(|n| has(n) || !is_needed(begun[n]));
        let is_ordered = (0..begun.len()).filter(|n| has(*n)).all(|there| {
            (0..there).all(|before| has(before) || may_lack(begun[before], begun[there]))
        });
        if is_whole && is_ordered {
            all.push((0..begun.len()).filter(|n| has(*n)).map(|n| begun[n]).collect());
        }
    }
    all
}

/// A pool with the files, and blocks of them that are small.
fn small(bias: Option<u64>) -> Rig {
    let rig = Rig::with_features(vec![top(0, VdevKind::File, 1)], features_and(&["large_dnode"]));
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let root = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let directory = root.directory.number;
        let done = task(&live, async |tasks| {
            let value = Some(table::number(BLOCK));
            let set = tasks.set_property(directory, "recordsize", value).await?;
            match bias.filter(|_| set.is_ok()) {
                Some(bias) => {
                    tasks.set_property(directory, "logbias", Some(table::number(bias))).await
                }
                None => Ok(set),
            }
        });
        done.await.expect("it is set");
        prepare(&mounted(&live, clock()).await).await;
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig
}

/// Cuts that were made, and which sequence is the next.
#[derive(Default)]
struct Count {
    sequences: usize,
    cuts: usize,
    judged: usize,
}

/// How much is looked at.
#[derive(Clone, Copy)]
struct Extent {
    /// Every so many moments.
    step: usize,
    /// `zdb` looks at every so many cuts.
    judge: usize,
}

/// Runs steps, and looks at what each cut leaves.
fn cut_everywhere(base: &Rig, steps: &[Step], extent: Extent, count: &mut Count) {
    let (rig, devices, tape) = record(base, count.sequences as u64);
    let done: Rc<RefCell<Vec<Done>>> = Rc::default();
    let (put, on, steps_run) = (Rc::clone(&done), Rc::clone(&tape), steps.to_vec());
    let first = rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        let model = MemoryTree::new("model");
        prepare(&*model).await;
        let (_, head) = live.spa().dsl().find("tank").await.expect("read").expect("there");
        let (number, directory) = (head.number, head.head.dir);
        // The log begins with a group.
        act(&real, Chmod("d", 0o755)).await.expect("it is set");
        live.commit(number, None).await.expect("it is durable");
        let first = on.moment();
        for step in steps_run {
            let began = on.moment();
            let mut node = None;
            match step {
                Step::Commit => live.commit(number, None).await.expect("it is durable"),
                Step::Group => live.sync(async |_| Ok(())).await.expect("it is written"),
                Step::Do(Snapshot) => {
                    let taken = live.task(async |tasks| tasks.snapshot(number, "s").await).await;
                    let taken = taken.expect("it is written");
                    assert!(matches!(taken, Ok(_) | Err(TaskError::Exists)), "{taken:?}");
                }
                Step::Do(Property) => {
                    let set = task(&live, async |tasks| {
                        // What is made from here on has more slots, too.
                        let value = Some(table::number(2 << 10));
                        let set = tasks.set_property(directory, "dnodesize", value).await?;
                        assert_eq!(set, Ok(()));
                        let value = Some(table::number(LZJB));
                        tasks.set_property(directory, "compression", value).await
                    });
                    set.await.expect("it is set");
                }
                Step::Do(deed) => {
                    if let Write(path, ..)
                    | Append(path, _)
                    | Truncate(path, _)
                    | Punch(path, ..)
                    | Chmod(path, _)
                    | Value(path, _)
                    | Fsync(path) = deed
                    {
                        node = find(&*model, path).await.ok();
                    }
                    let (real, model) = (act(&real, deed).await, act(&*model, deed).await);
                    assert_eq!(real, model, "{deed:?}");
                }
            }
            put.borrow_mut().push(Done { step, began, ended: on.moment(), node });
        }
        first
    });
    let (done, base_seed) = (done.take(), count.sequences as u64);
    count.sequences += 1;
    let mut cuts = Cuts::of(base, &tape);
    let skipped = count.sequences % extent.step;
    let mut fates = [Fate::Drawn, Fate::Kept].into_iter().cycle();
    loop {
        let moment = cuts.moment();
        let is_last = moment == tape.moment();
        if moment >= first && (is_last || moment % extent.step == skipped) {
            let allowed = possible(&done, moment);
            assert!(!allowed.is_empty(), "something may be there");
            let mut fate = vec![fates.next().expect("they go on")];
            if cuts.is_before_flush() {
                fate.push(Fate::Lost);
            }
            for fate in fate {
                let cut = cuts.cut(fate, base_seed << 20 | moment as u64);
                let deeds: Vec<Vec<Deed>> = allowed
                    .iter()
                    .map(|set| set.iter().filter_map(|at| done[*at].deed()).collect())
                    .collect();
                let models = async move {
                    let mut all = Vec::new();
                    for deeds in deeds {
                        all.push(modelled(&deeds).await);
                    }
                    all
                };
                let allowed = cut.runtime.block_on(models).expect("it ends");
                count.cuts += 1;
                let judges = count.cuts.is_multiple_of(extent.judge);
                count.judged += usize::from(judges);
                look(
                    &cut,
                    allowed,
                    Vec::new(),
                    judges,
                    &format!("{steps:?} cut at {moment}, {fate:?}"),
                );
            }
        }
        if !cuts.advance() {
            break;
        }
    }
}

/// All sequences, each in four ways.
fn all() -> Vec<Vec<Step>> {
    let one = DEEDS.iter().map(|deed| vec![*deed]);
    let two = DEEDS.iter().flat_map(|first| DEEDS.iter().map(move |then| vec![*first, *then]));
    let longer = LONGER.iter().map(|deeds| deeds.to_vec());
    let mut all = Vec::new();
    for deeds in one.chain(two).chain(longer) {
        for end in [Step::Commit, Step::Group] {
            for between in [false, true] {
                if between && deeds.len() == 1 {
                    continue;
                }
                let mut steps = Vec::new();
                for (n, deed) in deeds.iter().enumerate() {
                    if n > 0 && between {
                        steps.push(Step::Commit);
                    }
                    steps.push(Step::Do(*deed));
                }
                steps.push(end);
                all.push(steps);
            }
        }
    }
    all
}

#[test]
fn what_was_synced_is_there_after_short_sequences_that_are_cut() {
    fixtures::takes_long!();
    let base = small(None);
    let mut count = Count::default();
    // Another of each four ways in each pair.
    for steps in all().into_iter().step_by(by_extent(9 * 67, 67)) {
        cut_everywhere(&base, &steps, Extent { step: 11, judge: usize::MAX }, &mut count);
    }
    println!("{} sequences, {} cuts", count.sequences, count.cuts);
    assert!(count.cuts > by_extent(10, 100), "{} cuts", count.cuts);
}

/// Every sequence at every write; by `SHARD`, one of so many parts of them.
#[test]
#[ignore = "a campaign"]
fn every_short_sequence_cut_at_every_write() {
    let shard = std::env::var("SHARD").ok();
    let shard = shard.as_deref().and_then(|shard| shard.split_once('/'));
    let number = |text: &str| text.parse().expect("a number");
    let (part, of): (usize, usize) = shard.map_or((0, 1), |(a, b)| (number(a), number(b)));
    let step = std::env::var("STEP").map_or(1, |step| number(&step));
    // Latency, throughput.
    for bias in [0, 1] {
        let (base, mut count) = (small(Some(bias)), Count::default());
        for steps in all().into_iter().skip(part).step_by(of) {
            cut_everywhere(&base, &steps, Extent { step, judge: 5003 }, &mut count);
            if count.sequences.is_multiple_of(50) {
                let Count { sequences, cuts, judged } = &count;
                println!("logbias {bias}: {sequences} sequences, {cuts} cuts, {judged} by zdb");
            }
        }
        let Count { sequences, cuts, judged } = count;
        println!("logbias {bias}: {sequences} sequences, {cuts} cuts, {judged} by zdb: done");
    }
}
