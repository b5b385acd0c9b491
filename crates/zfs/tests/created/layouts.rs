//! Power cuts at every write over layouts of pools, while a mount is changed at random.
//!
//! What could break: what layouts do otherwise (copies on several disks of which some are behind, parity of a stripe that is half
//! written, a log on a device of its own, metadata on another): a label or uberblock that is whole on one disk only, a
//! block of which too few columns survived, a log whose device is ahead of the pool or behind it.
//!
//! Each run is a seed's: it draws a layout, makes changes, some of which are committed by the log, by a group, by a snapshot or by
//! nothing, and each write of it to any disk is a cut. What is there afterwards is what one of the changes left, none before the last
//! that was acknowledged.
//!
//! The suite makes some hundred cuts. A campaign: `CUTS=50000 SEED=1 cargo test --release --locked --test created
//! many_cuts_over_layouts -- --ignored --nocapture`. A run that failed comes again with its seed as `SEED`.

use super::draid::{draid, with_draid};
use super::logs::{clock, seen};
use super::mounted::{Both, mounted, set_roots};
use super::recorded::{Cuts, Fate, State, Torn, content, look, record};
use super::{Rig, drawn, raidz, top};
use fixtures::extent::by_extent;
use rt::MemoryTree;
use rt::inodes::{Inodes, WallClock};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::live::Live;
use zfs_format::features::Feature;
use zfs_format::nvlist::Text;
use zfs_format::vdev::{Draid, Vdev, VdevKind};

/// Changes in one run, at the most.
const CHANGES_MAX: u64 = 10;
/// Cuts between two looks of `zdb` in a campaign.
const CUTS_A_JUDGE: usize = 2503;

const LAYOUTS: [&str; 11] = [
    "file",
    "mirror",
    "raidz1",
    "raidz2",
    "raidz3",
    "file and log",
    "raidz1 and two logs",
    "mirror and special",
    "two mirrors and log and special",
    "draid",
    "file, and one removed",
];

fn vdevs(layout: &str) -> Vec<Vdev> {
    let log = |id: u64, leaves: u64| {
        let kind = if leaves == 1 { VdevKind::File } else { VdevKind::Mirror };
        let mut top = top(id, kind, leaves);
        top.is_log = Some(1);
        top.allocation_bias = Some(Text::from("log"));
        top
    };
    let special = |id: u64| {
        let mut top = top(id, VdevKind::Mirror, 2);
        top.allocation_bias = Some(Text::from("special"));
        top
    };
    let mirror = |id: u64| top(id, VdevKind::Mirror, 2);
    match layout {
        "file" => vec![top(0, VdevKind::File, 1)],
        "mirror" => vec![mirror(0)],
        "raidz1" => vec![top(0, raidz(1), 3)],
        "raidz2" => vec![top(0, raidz(2), 5)],
        "raidz3" => vec![top(0, raidz(3), 6)],
        "file and log" => vec![top(0, VdevKind::File, 1), log(1, 1)],
        "raidz1 and two logs" => vec![top(0, raidz(1), 4), log(1, 1), log(2, 2)],
        "mirror and special" => vec![mirror(0), special(1)],
        "two mirrors and log and special" => vec![mirror(0), mirror(1), log(2, 1), special(3)],
        "draid" => vec![draid(0, Draid { parity: 1, data: 2, spares: 1, groups: 4 }, 5)],
        other => unreachable!("{other} is none of them"),
    }
}

/// Every other layout is with logs of space maps, in a campaign the other ones in each other round.
fn pool(number: usize, layout: &str) -> Rig {
    if layout == "file, and one removed" {
        return super::removed::bare(number as u64);
    }
    let classes = Feature::named("allocation_classes").expect("a feature").guid;
    let features = with_draid().into_iter().chain([classes]).collect();
    Rig::with_features(vdevs(layout), drawn(number as u64, features))
}

/// What was left after each change, and how much of it was acknowledged as durable, each with the moment on the tape.
#[derive(Default)]
struct Run {
    first: usize,
    states: Vec<(usize, State)>,
    acknowledged: Vec<(usize, usize)>,
    /// For each state which files the next one writes.
    torn: Vec<Vec<Torn>>,
}

/// Bytes of all files.
async fn contents(of: &dyn Inodes, state: &State) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    for path in state.now.keys() {
        if let Some(bytes) = content(of, path).await {
            all.insert(path.clone(), bytes);
        }
    }
    all
}

/// The files that are in both, with other bytes.
fn written(before: &BTreeMap<Vec<u8>, Vec<u8>>, after: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<Torn> {
    let both = before.iter().filter_map(|(path, old)| Some((path, old, after.get(path)?)));
    let changed = both.filter(|(_, old, new)| old != new);
    let torn = changed.map(|(path, old, new)| {
        let (before, after) = (old.clone(), new.clone());
        Torn { path: path.clone(), before, after }
    });
    torn.collect()
}

/// One run of changes: gives what came to the disks.
fn changed(base: &Rig, seed: u64) -> (Run, Rc<super::recorded::Tape>) {
    let (rig, devices, tape) = record(base, seed);
    let on = Rc::clone(&tape);
    let run = rig.with_devices(devices, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let clock = clock();
        let real = mounted(&live, Rc::clone(&clock) as Rc<dyn WallClock>).await;
        let now = Rc::clone(&clock) as Rc<dyn WallClock>;
        let model = MemoryTree::with("model", ByteCount::gib(1), 1 << 20, now);
        set_roots(&real, &model).await;
        let number = live.spa().dsl().find("tank").await.expect("read").expect("there").1.number;
        // The log begins with a group.
        live.commit(number, None).await.expect("it is durable");
        let (mut run, mut snapshots) = (Run::default(), BTreeMap::new());
        run.first = on.moment();
        let first = State { now: seen(&*model).await, ..State::default() };
        seen(&real).await;
        let mut bytes = contents(&*model, &first).await;
        run.states.push((on.moment(), first));
        run.acknowledged.push((on.moment(), 0));
        let both = Both { real, model, clock, held: RefCell::default() };
        let mut random = Prng::new(seed);
        for change in 1..=2 + random.below(CHANGES_MAX - 1) as usize {
            let began = on.moment();
            let how = random.below(8);
            both.change(&mut random).await;
            // Reading sets times of access: in both, or they differ.
            let (now, same) = (seen(&*both.model).await, seen(&both.real).await);
            assert!(now == same, "the mount is as its model");
            if how == 0 {
                snapshots.insert(format!("s{change}"), now.clone());
            }
            let state = State { now, snapshots: snapshots.clone(), ..State::default() };
            let before = std::mem::replace(&mut bytes, contents(&*both.model, &state).await);
            // The times of access of both are the same again.
            contents(&both.real, &state).await;
            run.torn.push(written(&before, &bytes));
            // A snapshot is a second step: the change alone may be there.
            if how == 0 {
                let before = run.states.last().map(|(_, state)| state.snapshots.clone());
                let alone = State { snapshots: before.unwrap_or_default(), ..state.clone() };
                run.states.push((began, alone));
                run.torn.push(Vec::new());
            }
            run.states.push((began, state));
            match how {
                0 => {
                    let name = format!("s{change}");
                    let taken = live.task(async |tasks| tasks.snapshot(number, &name).await).await;
                    taken.expect("it is written").expect("it is taken");
                }
                1 => live.make_durable().await.expect("it is written"),
                2..=4 => live.commit(number, None).await.expect("it is durable"),
                _ => continue,
            }
            run.acknowledged.push((on.moment(), run.states.len() - 1));
        }
        live.commit(number, None).await.expect("it is durable");
        run.acknowledged.push((on.moment(), run.states.len() - 1));
        run
    });
    (run, tape)
}

/// Cuts a seed's run at every so many moments; says how many cuts there were. `zdb` looks where a number comes to its turn.
fn cut_run(base: &Rig, layout: &str, seed: u64, step: usize, before: usize, judge: usize) -> usize {
    let (run, tape) = changed(base, seed);
    let (mut cuts, mut count) = (Cuts::of(base, &tape), 0);
    loop {
        let moment = cuts.moment();
        let is_last = moment == tape.moment();
        if moment >= run.first && (is_last || moment % step == seed as usize % step) {
            let of = |(at, state): &(usize, State)| (*at <= moment).then(|| state.clone());
            let sure = run.acknowledged.iter().rev().find(|(at, _)| *at <= moment);
            let sure = sure.expect("the first is").1;
            let allowed: Vec<State> = run.states[sure..].iter().map_while(of).collect();
            let torn = run.torn[sure..run.torn.len().min(sure + allowed.len() - 1)].to_vec();
            let fate = [Fate::Drawn, Fate::Drawn, Fate::Kept, Fate::Lost][(moment / step) % 4];
            let cut = cuts.cut(fate, seed << 20 | moment as u64);
            count += 1;
            let what = format!("{layout}, seed {seed}, cut at {moment}, {fate:?}");
            look(&cut, allowed, torn, (before + count).is_multiple_of(judge), &what);
        }
        if !cuts.advance() {
            return count;
        }
    }
}

#[test]
fn a_cut_at_any_write_to_any_layout_loses_nothing_that_was_acknowledged() {
    fixtures::takes_long!();
    let mut count = 0;
    for (seed, layout) in (0..).zip(LAYOUTS) {
        count += cut_run(
            &pool(seed as usize, layout),
            layout,
            seed,
            by_extent(123, 41),
            count,
            usize::MAX,
        );
    }
    println!("{count} cuts");
    assert!(count > by_extent(15, 50), "{count} cuts");
}

/// As many as `CUTS` says, from `SEED` on.
#[test]
#[ignore = "a campaign"]
fn many_cuts_over_layouts() {
    let number = |name: &str, otherwise| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (first, wanted) = (number("SEED", 1), number("CUTS", 50_000));
    let of = |round: usize| -> Vec<Rig> {
        LAYOUTS.iter().enumerate().map(|(number, layout)| pool(number + round, layout)).collect()
    };
    let pools = [of(0), of(1)];
    let (mut count, mut by_layout) = (0, [0; LAYOUTS.len()]);
    for seed in first.. {
        if count >= wanted {
            break;
        }
        let at = seed % LAYOUTS.len();
        let cuts = cut_run(
            &pools[seed / LAYOUTS.len() % 2][at],
            LAYOUTS[at],
            seed as u64,
            1,
            count,
            CUTS_A_JUDGE,
        );
        count += cuts;
        by_layout[at] += cuts;
        println!("seed {seed}: {}, {cuts} cuts, {count} in all", LAYOUTS[at]);
    }
    for (layout, cuts) in LAYOUTS.iter().zip(by_layout) {
        println!("{layout}: {cuts} cuts");
    }
}
