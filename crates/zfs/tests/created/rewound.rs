//! A pool opened as of a group before the last one: its contents are that group's, and nobody else's.
//!
//! What could break: space that was freed is used again while a group that may have to be opened reaches it; a change of the next
//! group is written with the one that syncs, which nobody sees as long as the next one is there.

use super::pointers::check_trees;
use super::{Model, Rig, change, compare, files_of, raidz, top};
use rt::DeviceRef;
use rt::filter::{Delay, Slowness};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{Duration, Prng};
use zfs::dsl::make::Fresh;
use zfs::spa::Spa;
use zfs::spa::live::Live;
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
            let mut sizes = BTreeMap::new();
            for name in names {
                let node = files.node(name.entry.object).await.expect("it is there");
                sizes.insert(name.entry.object, node.attributes.size as usize);
            }
            let is_it = |model: &&Model| {
                model.iter().map(|(number, bytes)| (*number, bytes.len())).eq(sizes.clone())
            };
            let found = may_be.iter().filter(is_it).next_back();
            compare(&files, found.unwrap_or_else(|| panic!("group {txg} has {sizes:?}"))).await;
        });
    }
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
        for _ in 0..12 {
            for _ in 0..12 {
                change(&files, &mut model, &mut random).await;
            }
            live.sync(async |_| Ok(())).await.expect("it is written");
            kept.borrow_mut().insert(live.spa().uberblock().txg, model.clone());
        }
    });
    let states = states.take();
    look_back(&rig, |txg| vec![states[&txg].clone()]);
}

#[test]
fn the_last_groups_are_as_they_were() {
    for seed in 1..=3 {
        groups_that_are_over(seed, vec![top(0, VdevKind::File, 1)]);
    }
    groups_that_are_over(4, vec![top(0, raidz(1), 3)]);
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
    for seed in 1..=6 {
        groups_that_overlap(seed);
    }
}
