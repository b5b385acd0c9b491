//! Blocks written by the tree, read back by it.
//!
//! What could break: a column at another place than reading looks for it, a parity of other bytes, a side that misses a
//! write and doesn't know it, a tree that still reads from what was taken out of it.

use crate::made::{BIRTH, Devices, leaf, leaves, open, raidz, random, read_at, top, vdev};
use crate::rig::run;
use proptest::prelude::*;
use rt::filter::{Effect, Fault, Rule};
use rt::{Buf, Device, DeviceRef, IoErrorKind, OpKind};
use std::rc::Rc;
use stdx::{ByteCount, Prng, RangeSet};
use zfs_format::block_pointer::Dva;
use zfs_format::nvlist::{Text, Value};
use zfs_format::vdev::{Draid, Vdev, VdevKind};
use zfs_store::vdev::{LeafState, VdevHealth};
use zfs_store::{BlockErrorKind, IoClass, Tree, WriteAt, WriteError};

fn write_at(vdev: u32, offset: u64, len: usize) -> WriteAt {
    let dva = Dva::new(vdev, offset, len as u64, false);
    WriteAt { dva, txg: BIRTH, class: IoClass::AsyncWrite }
}

async fn write(tree: &Tree, offset: u64, block: &[u8]) -> Result<(), WriteError> {
    tree.write(&write_at(0, offset, block.len()), Buf::copy_of(block)).await
}

async fn reads_back(tree: &Tree, offset: u64, block: &[u8]) -> bool {
    let found = tree.read(&read_at(block, 0, offset, BIRTH)).await;
    found.is_ok_and(|found| found.bytes() == block)
}

/// Writes a block with some children lost, and reads it back with others lost in a tree opened anew.
fn survives(config: Vdev, children: usize, offset: u64, block: Vec<u8>, parity: usize, seed: u64) {
    let mut devices = Devices::new(children, ByteCount::mib(64));
    let mut victims: Vec<u64> = (1..=children as u64).collect();
    Prng::new(seed).shuffle(&mut victims);
    let away: Vec<u64> = victims[..parity].to_vec();
    run(|rt| async move {
        let tree = open(&rt, std::slice::from_ref(&config), &devices);
        assert_eq!(write(&tree, offset, &block).await, Ok(()));
        assert_eq!(tree.flush(BIRTH..BIRTH + 1).await, Ok(()));
        assert!(reads_back(&tree, offset, &block).await);
        // As many as can be borne are lost after it was written.
        for leaf in &away {
            devices.0.remove(leaf);
        }
        let tree = open(&rt, std::slice::from_ref(&config), &devices);
        assert!(reads_back(&tree, offset, &block).await, "{away:?} are lost");
        // What is written without them is there as well, and they know what they miss.
        let other = random(block.len(), seed ^ 1);
        assert_eq!(write(&tree, offset, &other).await, Ok(()));
        assert!(reads_back(&tree, offset, &other).await, "{away:?} were lost before");
        assert_eq!(tree.flush(BIRTH..BIRTH + 1).await, Ok(()));
        // One more is too many.
        let last = victims[parity];
        assert!(tree.set_leaf_state(last, LeafState::Offline));
        let lost = tree.write(&write_at(0, offset, block.len()), Buf::copy_of(&block)).await;
        // A dRAID leaves one child out of each row.
        let is_raidz = matches!(config.kind, VdevKind::Raidz(_));
        if is_raidz && block.len() >= children << 13 {
            assert!(lost.is_err(), "{lost:?}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_a_raidz_was_given_comes_back_with_any_children_lost_that_it_can_bear(
        (parity, data) in (1_usize..=3, 1_usize..6),
        (ashift, sectors, first) in (prop_oneof![Just(9_u32), Just(12)], 1_usize..40, 0_u64..5000),
        seed in any::<u64>(),
    ) {
        let children = parity + data;
        let config = top(0, ashift, raidz(parity, false, &[]), leaves(children));
        survives(config, children, first << ashift, random(sectors << ashift, seed), parity, seed);
    }

    #[test]
    fn what_a_draid_was_given_comes_back_with_any_children_lost_that_it_can_bear(
        (parity, sectors, first) in (1_u64..=2, 1_usize..300, 0_u64..40),
        seed in any::<u64>(),
    ) {
        let draid = Draid { parity, data: 4, spares: 1, groups: 1 };
        let children = (4 + parity + 1) as usize;
        let config = top(0, 9, VdevKind::Draid(draid), leaves(children));
        let offset = first * ((4 + parity) << 9);
        survives(config, children, offset, random(sectors << 9, seed), parity as usize, seed);
    }
}

#[test]
fn a_mirror_is_written_when_one_side_has_it_and_the_others_know_what_they_miss() {
    let devices = Devices::new(3, ByteCount::mib(16));
    let block = random(8192, 3);
    run(|rt| async move {
        let mut refs = devices.refs();
        // The second side fails every write.
        let broken = Fault::new(Rc::clone(&refs[&2]), &rt, Prng::new(1));
        broken.add(Rule::new(Effect::Fail(IoErrorKind::Medium)).on(&[OpKind::Write]));
        refs.insert(2, broken as DeviceRef);
        let config = top(0, 12, VdevKind::Mirror, leaves(3));
        let tree = Tree::open(&rt, std::slice::from_ref(&config), &refs).expect("a tree");
        assert!(tree.set_leaf_state(3, LeafState::Offline));
        assert_eq!(write(&tree, 4096, &block).await, Ok(()));
        let missed: RangeSet = std::iter::once(BIRTH..BIRTH + 1).collect();
        assert_eq!(tree.dtl(1), Some(RangeSet::default()));
        assert_eq!((tree.dtl(2), tree.dtl(3)), (Some(missed.clone()), Some(missed)));
        let report = &tree.report()[0];
        let errors = report.children.iter().map(|child| child.errors.write);
        assert_eq!(errors.collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(report.children[2].health, VdevHealth::Offline);
        // It takes nothing, so it is taken out while others do.
        assert_eq!(report.children[1].health, VdevHealth::Faulted);
        // Back again it isn't believed for what it missed.
        assert!(tree.set_leaf_state(3, LeafState::Online));
        assert!(reads_back(&tree, 4096, &block).await);
        assert_eq!(tree.report()[0].children[2].errors.checksum, 0);
        // Nobody left who takes it.
        assert!(
            tree.set_leaf_state(1, LeafState::Faulted)
                && tree.set_leaf_state(2, LeafState::Online)
                && tree.set_leaf_state(3, LeafState::Offline)
        );
        let error = WriteError::Io { vdev: 0, kind: IoErrorKind::Medium };
        assert_eq!(write(&tree, 16384, &block).await, Err(error));
        assert_eq!(tree.report()[0].errors.write, 1);
        assert!(tree.set_leaf_state(2, LeafState::Offline));
        assert_eq!(write(&tree, 16384, &block).await, Err(WriteError::Missing(0)));
        assert!(!tree.set_leaf_state(9, LeafState::Online));
    });
}

#[test]
fn the_last_sector_is_filled_up_with_zeros_and_trims_reach_the_leaf() {
    let devices = Devices::new(1, ByteCount::mib(16));
    run(|rt| async move {
        let config = Vdev { id: 0, ashift: Some(12), ..leaf(1) };
        let tree = open(&rt, &[config], &devices);
        let ones = vec![1; 8192];
        assert_eq!(write(&tree, 0, &ones).await, Ok(()));
        assert_eq!(write(&tree, 0, &random(512, 1)).await, Ok(()));
        let raw = |at| {
            devices.0[&1].peek(stdx::Offset(zfs_format::label::DATA_START + at), ByteCount(512))
        };
        assert_eq!(raw(0).to_vec(), random(512, 1));
        assert_eq!(raw(512).to_vec(), [0; 512]);
        assert_eq!(raw(4096).to_vec(), [1; 512]);
        assert_eq!(tree.trim(0, 4096..8192).await, Ok(()));
        assert_eq!(raw(4096).to_vec(), [0; 512], "a device in memory gives zeros");
        assert_eq!(tree.trim(7, 0..4096).await, Err(WriteError::NoVdev(7)));
    });
}

#[test]
fn top_level_vdevs_come_and_go_and_leaves_that_stay_are_the_same() {
    let devices = Devices::new(3, ByteCount::mib(16));
    let block = random(4096, 5);
    run(|rt| async move {
        let single = Vdev { id: 0, ashift: Some(12), ..leaf(1) };
        let tree = open(&rt, std::slice::from_ref(&single), &devices);
        assert_eq!(write(&tree, 0, &block).await, Ok(()));
        tree.add_to_dtl(1, 5..7);
        // A side is attached: a mirror stands where the disk was.
        let mirror = top(0, 12, VdevKind::Mirror, leaves(2));
        let mut new = devices.refs();
        new.retain(|guid, _| *guid == 2);
        tree.set_top(&mirror, &new).expect("a mirror");
        assert!(reads_back(&tree, 0, &block).await);
        assert_eq!(tree.dtl(1).map(|txgs| txgs.total()), Some(2), "it is the same leaf");
        assert_eq!(write(&tree, 0, &block).await, Ok(()));
        // Another vdev is added, and taken out again.
        let added = Vdev { id: 1, ashift: Some(12), ..leaf(3) };
        tree.set_top(&added, &devices.refs()).expect("a disk");
        let at = write_at(1, 8192, block.len());
        assert_eq!(tree.write(&at, Buf::copy_of(&block)).await, Ok(()));
        let read = read_at(&block, 1, 8192, BIRTH);
        assert!(tree.read(&read).await.is_ok());
        tree.remove_top(1);
        assert_eq!(tree.read(&read).await, Err(BlockErrorKind::NoVdev(1)));
        assert_eq!(tree.write(&at, Buf::copy_of(&block)).await, Err(WriteError::NoVdev(1)));
        assert_eq!(tree.report().len(), 1);
        // Each side by itself has it.
        for leaf in [1, 2] {
            let other = 3 - leaf;
            assert!(tree.set_leaf_state(other, LeafState::Absent));
            assert!(reads_back(&tree, 0, &block).await, "leaf {leaf}");
            assert!(tree.set_leaf_state(other, LeafState::Online));
        }
        assert!(devices.0[&2].geometry().capacity > ByteCount(0));
    });
}

/// What could break: a part of a lost child that is not put into its spare, or spare space that is believed though a write to
/// it failed.
#[test]
fn the_spare_space_of_a_lost_child_is_written_and_knows_what_it_misses() {
    const SPARE: u64 = 500;
    let draid = Draid { parity: 1, data: 4, spares: 1, groups: 1 };
    let number = (Text::from("spareid"), Value::Uint64(0));
    let spare = Vdev { other: vec![number], ..vdev(VdevKind::DraidSpare, SPARE, Vec::new()) };
    let mut all = leaves(6);
    all[0] = vdev(VdevKind::Spare, 501, vec![leaf(1), spare]);
    let config = top(0, 9, VdevKind::Draid(draid), all);
    let mut devices = Devices::new(6, ByteCount::mib(64));
    devices.0.remove(&1);
    let block = random(40 << 9, 9);
    run(|rt| async move {
        let mut refs = devices.refs();
        let faults: Vec<_> = (2..=6)
            .map(|leaf| {
                let fault = Fault::new(Rc::clone(&refs[&leaf]), &rt, Prng::new(leaf));
                refs.insert(leaf, Rc::clone(&fault) as DeviceRef);
                fault
            })
            .collect();
        let tree = Tree::open(&rt, &[config], &refs).expect("a tree");
        assert_eq!(write(&tree, 0, &block).await, Ok(()));
        assert_eq!(tree.dtl(SPARE), Some(RangeSet::default()), "the spare has it");
        // One parity bears one more child, because the lost one's part is in the spare.
        for other in 2..=6 {
            assert!(tree.set_leaf_state(other, LeafState::Absent));
            assert!(reads_back(&tree, 0, &block).await, "without {other} as well");
            assert!(tree.set_leaf_state(other, LeafState::Online));
        }
        // One child holds the spare here, and nothing of its own. Where that fails it is the spare that misses the block.
        let mut homes = Vec::new();
        for (fault, child) in faults.iter().zip(2..) {
            let rule = fault.add(Rule::new(Effect::Fail(IoErrorKind::Medium)).on(&[OpKind::Write]));
            assert_eq!(write(&tree, 0, &block).await, Ok(()));
            fault.remove(rule);
            // It was taken out.
            assert!(tree.set_leaf_state(child, LeafState::Online));
            let missed = |leaf| tree.dtl(leaf).is_some_and(|txgs| txgs.contains(BIRTH));
            assert_ne!(missed(SPARE), missed(child), "either misses it");
            if missed(SPARE) {
                homes.push(child);
            }
            tree.set_dtl(SPARE, RangeSet::default());
        }
        assert_eq!(homes.len(), 1, "{homes:?}");
    });
}
