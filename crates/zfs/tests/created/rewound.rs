//! A pool opened as of a group before the last one: its contents are that group's, and nobody else's.
//!
//! What could break: space that was freed is used again while a group that may have to be opened reaches it; a change of the next
//! group is written with the one that syncs, which nobody sees as long as the next one is there.

use super::pointers::check_trees;
use super::{Model, Rig, change, files_of, new_file, top};
use fixtures::extent::some;
use rt::filter::{Delay, Slowness};
use rt::{Buf, DeviceRef};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{Duration, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::live::Live;
use zfs::zpl::FileSystem;
use zfs_format::vdev::{Vdev, VdevKind};

/// Groups before the last one that are whole: what N frees is used again from N+3 on.
const GROUPS_BACK: u64 = 3;

/// What groups left, by their numbers.
type States = BTreeMap<u64, Model>;

/// Opens the last groups one after the other. `states` says what each may hold.
fn look_back(rig: &Rig, states: impl Fn(u64) -> Vec<Model>) {
    let last = rig.with(async |spa: Rc<Spa>, _| spa.uberblock().txg);
    for txg in last - GROUPS_BACK..=last {
        let may_be = states(txg);
        rig.as_of(txg, async move |spa: Rc<Spa>| {
            assert_eq!(spa.uberblock().txg, txg);
            check_trees(&spa).await;
            super::accounting::check_accounts(&spa).await;
            let files = files_of(&spa, "tank").await;
            let root = files.root().await.expect("it is read");
            let names = files.names(&root).await.expect("they are read");
            let mut found = Model::new();
            for number in names.iter().map(|name| name.entry.object) {
                let node = files.node(number).await.expect("it is there");
                let len = node.attributes.size as usize;
                let read = node.dnode().read(0, len).await.expect("it is read").to_vec();
                found.insert(number, read);
            }
            let differs = |model: &Model| {
                let differs = |number: &&u64| model.get(number) != found.get(number);
                model.keys().chain(found.keys()).filter(differs).copied().collect::<Vec<_>>()
            };
            let differ: Vec<Vec<u64>> = may_be.iter().map(differs).collect();
            assert!(differ.iter().any(Vec::is_empty), "group {txg}: files {differ:?} differ");
        });
    }
}

/// Groups after which each metaslab was filled once: before, nothing that was freed is used again.
const GROUPS: usize = 70;
/// A file that is written anew with each group, and what it takes.
const CHURNED: u64 = 99_999;
const CHURNED_BYTES: usize = 2 << 20;

async fn churn(files: &FileSystem, model: &mut Model, random: &mut Prng) {
    let root = files.root_number();
    let name = format!("file {CHURNED}").into_bytes();
    if model.remove(&CHURNED).is_some() {
        files.unlink(root, &name).await.expect("it goes");
    }
    files.create(root, &name, &new_file(CHURNED)).await.expect("it is made");
    let words = (0..CHURNED_BYTES / 8).flat_map(|_| random.next_u64().to_le_bytes());
    let bytes: Vec<u8> = words.collect();
    let len = bytes.len() as u64;
    files.write(CHURNED, 0, &Buf::copy_of(&bytes), len).await.expect("it is written");
    model.insert(CHURNED, bytes);
}

fn groups_that_are_over(seed: u64, tops: Vec<Vdev>) {
    let rig = Rig::new(tops);
    let states: Rc<RefCell<States>> = Rc::default();
    let kept = Rc::clone(&states);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        let (mut model, mut random) = (Model::new(), Prng::new(seed));
        for _ in 0..GROUPS {
            for _ in 0..4 {
                change(&files, &mut model, &mut random).await;
            }
            churn(&files, &mut model, &mut random).await;
            live.sync(async |_| Ok(())).await.expect("it is written");
            kept.borrow_mut().insert(live.spa().uberblock().txg, model.clone());
        }
    });
    let states = states.take();
    look_back(&rig, |txg| vec![states[&txg].clone()]);
}

#[test]
fn the_last_groups_are_as_they_were() {
    fixtures::takes_long!();
    let pools = [(1, vec![top(0, VdevKind::File, 1)]), (2, vec![top(0, VdevKind::Mirror, 2)])];
    for (seed, tops) in some(pools, 1) {
        groups_that_are_over(seed, tops);
    }
}

/// Groups are written while files change, on a device that takes its time. A change is of the group that was open when it was
/// made; one that was under way when a group closed may be of either.
fn groups_that_overlap(seed: u64) {
    const LATENCY: Duration = Duration::from_micros(100);
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    let states: Rc<RefCell<Vec<(u64, u64, Model)>>> = Rc::default();
    let kept = Rc::clone(&states);
    let rt = rig.runtime.handle();
    let slowness = Slowness { latency: LATENCY, bytes_per_second: None };
    let slow = |(_, device): (u64, DeviceRef)| Delay::new(device, &rt, slowness) as DeviceRef;
    let all = rig.devices().into_iter().map(slow).collect();
    rig.with_devices(all, async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        let rt = live.spa().rt().clone();
        let (mut model, mut random) = (Model::new(), Prng::new(seed));
        let open = || live.syncer().groups().open().0;
        kept.borrow_mut().push((0, 0, Model::new()));
        let mut overlapped = 0;
        for _ in 0..8 {
            let known = Rc::clone(&live);
            let syncs = rt.spawn(async move { known.sync(async |_| Ok(())).await });
            for _ in 0..12 {
                let before = open();
                change(&files, &mut model, &mut random).await;
                overlapped += usize::from(live.syncer().groups().syncing().is_some());
                kept.borrow_mut().push((before, open(), model.clone()));
                rt.sleep(LATENCY * random.below(8) as u32).await;
            }
            syncs.await.expect("it is written");
        }
        assert!(overlapped > 20, "{overlapped} changes were made while a group was written");
    });
    let states = states.take();
    look_back(&rig, |txg| {
        let certain = states.iter().rposition(|(_, after, _)| *after <= txg).expect("it began");
        let under_way = states[certain + 1..].iter().take_while(|(before, ..)| *before <= txg);
        let may_be = under_way.map(|(.., model)| model.clone());
        std::iter::once(states[certain].2.clone()).chain(may_be).collect()
    });
}

#[test]
fn a_change_while_a_group_is_written_is_of_the_next() {
    fixtures::takes_long!();
    for seed in some(1..=6, 2) {
        groups_that_overlap(seed);
    }
}
