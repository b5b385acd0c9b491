//! The same sequence of operations carried out by Spindle and by the OpenZFS kernel, and both pools compared by one reader.
//!
//! What could break: what no check of one pool by itself finds, since each is sound by itself. A hole that was born at another time,
//! so that an increment leaves it out; a block that one keeps and the other frees; what a dataset is said to take.
//!
//! **How.** A sequence is drawn from a seed ([`deeds`]). Spindle carries it out on disks in memory ([`ours`]), the kernel in a machine
//! ([`theirs`]), with the same features, shifts and settings, and with commits at the same places: groups have other numbers there, so
//! births are compared by the interval between two commits. What is compared stands in [`shown`]: contents and attributes, the whole tree
//! of pointers of each object of each snapshot, deadlists, what datasets take, what refers to what.
//!
//! **Differences** that are right, each with its reason, are in [`explained`]; [the theory](../../../../docs/theory/pools.md) has them
//! as a table. Any other fails.
//!
//! `SEEDS=8` takes as many sequences, from `SEED` on, in one boot; `BUNDLES` is how long each is.

mod deeds;
mod ours;
mod shown;
mod theirs;

use super::{Rig, Seeded};
use sha2::{Digest, Sha256};
use shown::Shown;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use stdx::Prng;
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;

/// What both pools have.
const FEATURES: &str = "async_destroy empty_bpobj lz4_compress enabled_txg hole_birth spacemap_v2 extensible_dataset \
    embedded_data large_blocks bookmarks bookmark_v2 bookmark_written userobj_accounting project_quota livelist";

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Lines of a pool, which is sound.
fn look(rig: &Rig, marks: Vec<u64>) -> Shown {
    rig.with(async move |spa: Rc<Spa>, _| {
        super::pointers::check_trees(&spa).await;
        super::datasets::check_books(&spa).await;
        shown::shown(&spa, &marks).await
    })
}

fn theirs_of(image: &Path) -> Rig {
    let device = fixtures::Disk::of_file(image).device();
    let fresh: Rc<dyn Fresh> = Rc::new(Seeded(Cell::new(Prng::new(3))));
    Rig::over(vec![(1000, device)], fresh)
}

/// When blocks were born, by level and number, of a line of stretches.
fn births(line: Option<&String>) -> BTreeMap<(&str, u64), u64> {
    let mut all = BTreeMap::new();
    for run in line.map(String::as_str).unwrap_or_default().split_terminator("; ") {
        let [level, numbers, birth] = run.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a stretch: {run}")
        };
        let (first, last) = numbers.split_once('-').expect("two numbers");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        for block in number(first)..=number(last) {
            all.insert((level, block), number(birth));
        }
    }
    all
}

/// Whether OpenZFS says of all that it was born when Spindle says, or later.
fn is_later(ours: Option<&String>, theirs: Option<&String>) -> bool {
    let theirs = births(theirs);
    births(ours).iter().all(|(at, birth)| theirs.get(at).is_some_and(|theirs| theirs >= birth))
}

fn count(line: Option<&String>) -> u64 {
    line.map_or(0, |line| line.parse().expect("a number"))
}

/// Why lines may differ.
const UNLINKED: &str = "OpenZFS enters each file that goes, Spindle those that somebody holds";
const WRITTEN_ANEW: &str = "what leads to a range that is freed, and holes made by what was written and freed in one group, are     younger with OpenZFS";
const COMPRESSED: &str =
    "lz4 gives other lengths, and what saves less than a sector is left as it is by OpenZFS";

/// Why a line may differ; `is_stored` says that some block is stored in another length.
fn explained(
    name: &str,
    ours: Option<&String>,
    theirs: Option<&String>,
    is_stored: bool,
) -> Option<&'static str> {
    let dead = |what: &str| name.contains(": deadlist born") && name.contains(what);
    if name.contains("ZFS delete queue") {
        return Some(UNLINKED);
    }
    let has_died = (dead(" L1 ") || dead(" L2 ")) && count(ours) <= count(theirs);
    if has_died || name.ends_with(" since") && is_later(ours, theirs) {
        return Some(WRITTEN_ANEW);
    }
    let compresses = |line: Option<&String>| {
        line.is_some_and(|line| line.contains("Lz4") || line.contains("within"))
    };
    let is_length = name.ends_with(" stored") && (compresses(ours) || compresses(theirs));
    // What it is the sum of was compared, and sums are held against it in each pool.
    let is_sum = name.ends_with(" takes") || name.contains(": account ");
    let is_sum = is_sum || name.ends_with(": deadlist") || dead(": ZFS directory L0");
    (is_length || is_stored && is_sum).then_some(COMPRESSED)
}

/// Each line that differs and is not explained; and how often each explanation was needed.
fn differences(ours: &Shown, theirs: &Shown) -> (Vec<String>, BTreeMap<&'static str, usize>) {
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let (mut all, mut why) = (Vec::new(), BTreeMap::new());
    let differs = |name: &&String| ours.get(*name) != theirs.get(*name);
    let is_stored = names.iter().any(|name| name.ends_with(" stored") && differs(name));
    for name in names {
        let (ours, theirs) = (ours.get(name), theirs.get(name));
        if ours == theirs {
            continue;
        }
        if let Some(reason) = explained(name, ours, theirs, is_stored) {
            *why.entry(reason).or_insert(0) += 1;
            continue;
        }
        let none = "-".to_owned();
        let (ours, theirs) = (ours.unwrap_or(&none), theirs.unwrap_or(&none));
        all.push(format!("{name}\n    ours   {ours}\n    theirs {theirs}"));
    }
    (all, why)
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
#[ignore = "boots a machine: some minutes"]
fn the_same_operations_leave_the_same_in_spindle_and_in_the_kernel() {
    let features: Vec<&str> = FEATURES.split_whitespace().collect();
    let (first, count, bundles) = (number("SEED", 1), number("SEEDS", 4), number("BUNDLES", 25));
    let all: Vec<_> =
        (first..first + count).map(|seed| (seed, deeds::draw(seed, bundles as usize))).collect();
    // Of the larger sectors all metadata takes one, however well it is compressed: what is taken is the same to the byte.
    let ashift = |seed: u64| if seed.is_multiple_of(2) { 12 } else { 14 };
    let tasks: Vec<theirs::Task<'_>> = all
        .iter()
        .map(|(seed, (deeds, content))| theirs::Task { ashift: ashift(*seed), deeds, content })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let Some(ran) = theirs::run(folder.path(), &features, &tasks) else { return };
    let mut failed = 0;
    for ((seed, (deeds, content)), (image, their_marks)) in all.iter().zip(ran) {
        let (rig, marks) = ours::run(&features, ashift(*seed), deeds, content);
        assert_eq!(marks.len(), their_marks.len(), "both committed as often");
        let theirs = theirs_of(&image);
        let (ours, theirs) = (look(&rig, marks), look(&theirs, their_marks));
        let (found, why) = differences(&ours, &theirs);
        let (operations, lines) = (deeds.len(), ours.len());
        println!("seed {seed}: {operations} operations, {lines} lines, {} differ", found.len());
        for (reason, times) in why {
            println!("  {times} explained: {reason}");
        }
        if !found.is_empty() {
            let mut interval = 0;
            for deed in deeds {
                interval += usize::from(matches!(deed, deeds::Deed::Sync));
                println!("  {interval}: {deed:?}");
            }
        }
        for difference in &found {
            println!("{difference}");
        }
        failed += found.len();
    }
    assert_eq!(failed, 0, "lines differ");
}
