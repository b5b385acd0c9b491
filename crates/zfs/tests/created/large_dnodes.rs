//! Dnodes of more than one slot: how many a new file's has, where it lies, what its bonus holds, and that a replay makes the same.
//!
//! What could break: a dnode that lies over another, or reaches over the end of its block; slots that are lost, or given twice; a number
//! that is found within another dnode; attributes that go on in a spill block though there is room, or don't though there is none; a
//! feature that is in use and not said to be.

use super::datasets::{files, node};
use super::features::set;
use super::logs::{NEW, bytes, clock, content, until_the_power_goes};
use super::mounted::{mounted, values};
use super::{Rig, features_and, top};
use rt::inodes::{Caller, Fsync, Inodes, Node, SetHow, WriteAt};
use std::collections::BTreeMap;
use std::rc::Rc;
use zfs::dsl::make::Fresh;
use zfs::mounted::Mounted;
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs_format::vdev::VdevKind;

/// A number that stands for each value of `dnodesize`, and slots.
const SIZES: [(u64, usize); 7] =
    [(0, 1), (1, 2), (1 << 10, 2), (2 << 10, 4), (4 << 10, 8), (8 << 10, 16), (16 << 10, 32)];

fn rig() -> Rig {
    let features = features_and(&["large_dnode", "zilsaxattr"]);
    Rig::with_features(vec![top(0, VdevKind::File, 1)], features)
}

/// Slots of each object of the root, as they lie one behind another: none in another, none over the end of a block.
async fn laid_out(live: &Live) -> BTreeMap<u64, usize> {
    let tank = node(live, "tank").await;
    let objset = live.objset(&tank).await.expect("it opens");
    let (mut found, mut from, mut end) = (BTreeMap::new(), 0, 0);
    while let Some((dnodes, next)) = objset.dnodes_from(from).await.expect("they are read") {
        for (number, phys, _) in dnodes {
            assert!(number >= end, "object {number} lies in another");
            end = number + phys.slots() as u64;
            assert!(number / 32 == (end - 1) / 32, "object {number} lies in one block");
            found.insert(number, phys.slots());
        }
        from = next;
    }
    found
}

/// Where an object has several slots, none begins and none can be made.
async fn check_taken(live: &Live) {
    let files = files(live, "tank").await;
    let objset = files.objset();
    for (number, slots) in &laid_out(live).await {
        for within in 1..*slots as u64 {
            assert!(objset.dnode(number + within).await.is_err(), "no object is within one");
            let planned = objset.change(|_| objset.plan_allocate(number + within, 1)).await;
            assert!(planned.is_err(), "nor can one be made there");
        }
    }
}

/// The objects of the names in the root.
async fn objects(live: &Live) -> BTreeMap<String, u64> {
    let files = files(live, "tank").await;
    let root = files.root().await.expect("it is read");
    let names = files.names(&root).await.expect("they are read").into_iter();
    names.map(|name| (String::from_utf8_lossy(&name.name).into(), name.entry.object)).collect()
}

#[test]
fn new_files_have_the_slots_that_are_set() {
    let rig = rig();
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        let by = Caller::default();
        let mut slots_of = BTreeMap::new();
        // From many to few, and from few to many.
        for (round, (size, slots)) in SIZES.into_iter().rev().chain(SIZES).enumerate() {
            set(&live, "tank", "dnodesize", size).await;
            let [directory, link, file] = ["d", "l", "f"].map(|kind| format!("{kind}{round}"));
            real.mkdir(by, Node::ROOT, directory.as_bytes(), NEW).await.expect("made");
            real.symlink(by, Node::ROOT, link.as_bytes(), b"there").await.expect("made");
            real.create(by, Node::ROOT, file.as_bytes(), NEW).await.expect("made");
            slots_of.extend([directory, link, file].map(|name| (name, slots)));
        }
        let (laid, objects) = (laid_out(&live).await, objects(&live).await);
        for (name, slots) in &slots_of {
            assert_eq!(laid[&objects[name]], *slots, "{name}");
        }
        check_taken(&live).await;
        live.sync(async |_| Ok(())).await.expect("it is written");
        assert_eq!(laid_out(&live).await, laid, "as it was before");
        // Some go, and others come in one group, in their place.
        for round in 0..SIZES.len() {
            real.unlink(by, Node::ROOT, format!("f{round}").as_bytes()).await.expect("it goes");
            real.rmdir(by, Node::ROOT, format!("d{round}").as_bytes()).await.expect("it goes");
        }
        let files = files(&live, "tank").await;
        for (number, slots) in &laid {
            // Within what was one of several slots.
            let is_gone = !laid_out(&live).await.contains_key(number);
            if is_gone && *slots > 1 {
                let new = super::new_file(number + 1);
                let name = format!("within {number}");
                let made = files.create(files.root_number(), name.as_bytes(), &new).await;
                made.expect("its slots are free");
                assert_eq!(files.objset().dnode(*number).await.err().map(drop), Some(()));
            }
        }
        check_taken(&live).await;
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A value of so many bytes: those that fit into a longer bonus go there.
#[test]
fn attributes_stay_in_a_bonus_that_has_room_and_go_on_in_a_spill_block_else() {
    fixtures::takes_long!();
    let rig = rig();
    let lengths = [100, 500, 700, 1500, 3500, 7500, 15_000];
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        let real = mounted(&live, clock()).await;
        let by = Caller::default();
        for (size, slots) in SIZES {
            set(&live, "tank", "dnodesize", size).await;
            for len in lengths {
                let name = format!("{size}.{len}");
                let made = real.create(by, Node::ROOT, name.as_bytes(), NEW).await.expect("made");
                let value = vec![len as u8; len];
                let set =
                    real.set_extended_attribute(by, made.node, b"user.v", &value, SetHow::Any);
                set.await.expect("it is set");
                let dnode = files(&live, "tank").await.objset().clone();
                let dnode = dnode.dnode(objects(&live).await[&name]).await.expect("it is there");
                // What a file has beside it is some 300 bytes, and what leads to a block some 200.
                let fits = len + 500 < slots * 512;
                assert_eq!(dnode.phys().spill.is_none(), fits, "{name}");
            }
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
    until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        for (size, slots) in SIZES {
            for len in lengths {
                let name = format!("{size}.{len}");
                let node = real.lookup(Node::ROOT, name.as_bytes()).await.expect("there").node;
                let value = [(b"user.v".to_vec(), vec![len as u8; len])];
                assert_eq!(values(real, node).await, BTreeMap::from(value), "{name}");
                // It is longer than any bonus, and short again.
                for len in [20_000, 10] {
                    let value = vec![9; len];
                    let by = Caller::default();
                    let set = real.set_extended_attribute(by, node, b"user.v", &value, SetHow::Any);
                    set.await.expect("it is set");
                    live.sync(async |_| Ok(())).await.expect("it is written");
                    let value = BTreeMap::from([(b"user.v".to_vec(), value)]);
                    assert_eq!(values(real, node).await, value, "{name}");
                    let objset = files(live, "tank").await.objset().clone();
                    let dnode = objset.dnode(objects(live).await[&name]).await.expect("there");
                    // One slot has no room for them beside the pointer that leads there.
                    let is_spilled = len > 10 || slots == 1;
                    assert_eq!(dnode.phys().spill.is_some(), is_spilled, "{name}");
                }
            }
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// What was made and logged is made again with its number and its slots, before anything else gets them.
#[test]
fn a_replay_makes_dnodes_of_as_many_slots() {
    let rig = rig();
    let by = Caller::default();
    let made = until_the_power_goes(&rig, async move |live: &Live, real: &Mounted| {
        // The first takes the group: the log begins with it.
        let first = real.create(by, Node::ROOT, b"first", NEW).await.expect("made").node;
        real.fsync(first, Fsync::All).await.expect("durable");
        let synced = live.spa().uberblock().txg;
        let mut slots_of = BTreeMap::new();
        for (size, slots) in SIZES {
            let files = files(live, "tank").await;
            files.set_dnode_bytes(slots as u64 * 512);
            let name = format!("f{size}");
            let node = real.create(by, Node::ROOT, name.as_bytes(), NEW).await.expect("made").node;
            let value = vec![5; slots * 256];
            let set = real.set_extended_attribute(by, node, b"user.v", &value, SetHow::Any);
            set.await.expect("it is set");
            real.write(by, node, WriteAt::End, bytes(7, 3000), false).await.expect("written");
            real.fsync(node, Fsync::All).await.expect("durable");
            slots_of.insert(name, slots);
        }
        assert_eq!(live.spa().uberblock().txg, synced, "no group was needed");
        let (laid, objects) = (laid_out(live).await, objects(live).await);
        assert!(slots_of.iter().all(|(name, slots)| laid[&objects[name]] == *slots));
        (laid, objects)
    });
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        assert_eq!((laid_out(&live).await, objects(&live).await), made);
        let real = mounted(&live, clock()).await;
        for (size, slots) in SIZES {
            let name = format!("f{size}");
            let node = real.lookup(Node::ROOT, name.as_bytes()).await.expect("there").node;
            let value = [(b"user.v".to_vec(), vec![5; slots * 256])];
            assert_eq!(values(&real, node).await, BTreeMap::from(value), "{name}");
            assert_eq!(content(&real, name.as_bytes()).await, Some(vec![7; 3000]), "{name}");
        }
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}

/// A pool without the feature goes on with small dnodes, whatever its property says.
#[test]
fn a_pool_without_the_feature_has_small_dnodes() {
    let rig = Rig::new(vec![top(0, VdevKind::File, 1)]);
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Rc::new(Live::open(spa, &fresh).await.expect("it opens for writing"));
        set(&live, "tank", "dnodesize", 4 << 10).await;
        let real = mounted(&live, clock()).await;
        let made = real.create(Caller::default(), Node::ROOT, b"f", NEW).await;
        made.expect("it is made");
        assert!(laid_out(&live).await.into_values().all(|slots| slots == 1));
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.judge();
}
