//! Vdevs that no fixture has, written here block by block as the layouts say: any width, expansions under way,
//! spares and replacements, removed vdevs with split blocks, forged gangs.
//!
//! What could break: a combination of suspects that is left out, a truthful leaf that gets the blame, a stale leaf
//! that is believed, a chain of headers without end.

use crate::rig::run;
use codec::checksum::{Sum, sha256};
use codec::parity;
use proptest::prelude::*;
use rt::filter::{Effect, Fault, Rule};
use rt::{Buf, DeviceRef, MemoryDevice, Rt};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset, Prng};
use zfs_format::Endian;
use zfs_format::block_pointer::{BlockPointer, Dva};
use zfs_format::checksum::{Checksum, ChecksumFunction};
use zfs_format::gang::GangHeader;
use zfs_format::label::DATA_START;
use zfs_format::nvlist::{Text, Value};
use zfs_format::object_type::ObjectType;
use zfs_format::uberblock::RaidzReflow;
use zfs_format::vdev::indirect::MappingEntry;
use zfs_format::vdev::{Draid, Indirect, Raidz, Vdev, VdevKind};
use zfs_store::vdev::draid::Layout;
use zfs_store::vdev::raidz::map::{self, Map, Reflow};
use zfs_store::{
    BlockErrorKind, BlockRequest, Bookmark, Errors, Expected, IoClass, ReadAt, ReadBlocks, Tree,
    VdevReport, Zio,
};

/// The transaction group in which blocks are born, unless a test says otherwise.
pub const BIRTH: u64 = 100;
/// Where the scratch area of an expansion begins on a device, in bytes.
const SCRATCH_START: u64 = 512 << 10;

/// A description with nothing in it.
pub fn vdev(kind: VdevKind, guid: u64, children: Vec<Vdev>) -> Vdev {
    Vdev { children, ..Vdev::new(kind, 0, guid) }
}

pub fn leaf(guid: u64) -> Vdev {
    vdev(VdevKind::File, guid, Vec::new())
}

pub fn leaves(count: usize) -> Vec<Vdev> {
    (1..=count as u64).map(leaf).collect()
}

pub fn top(id: u64, ashift: u32, kind: VdevKind, children: Vec<Vdev>) -> Vdev {
    Vdev { id, ashift: Some(ashift.into()), ..vdev(kind, 1000 + id, children) }
}

/// Devices by the GUIDs of their leaves.
pub struct Devices(pub BTreeMap<u64, Rc<MemoryDevice>>);

impl Devices {
    /// Those for leaves 1 to `count`.
    pub fn new(count: usize, size: ByteCount) -> Devices {
        let device = |guid: u64| (guid, MemoryDevice::new(&format!("leaf {guid}"), size));
        Devices((1..=count as u64).map(device).collect())
    }

    pub fn refs(&self) -> BTreeMap<u64, DeviceRef> {
        self.0.iter().map(|(guid, device)| (*guid, Rc::clone(device) as DeviceRef)).collect()
    }

    fn put(&self, leaf: u64, offset: u64, bytes: &[u8]) {
        self.0[&leaf].poke(Offset(DATA_START + offset), &Buf::copy_of(bytes).into());
    }

    /// Writes a block where its map says; child n is leaf n + 1.
    fn write(&self, map: &Map, block: &[u8]) {
        for row in &map.rows {
            let data: Vec<&[u8]> = row.columns[map.parity..]
                .iter()
                .map(|column| &block[column.block_at..column.block_at + column.len])
                .collect();
            let mut parities = vec![vec![0; row.columns[0].len]; map.parity];
            let reversed: Vec<&[u8]> = data.iter().rev().copied().collect();
            let mut targets: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
            parity::generate(&reversed, &mut targets);
            let start = if row.scratch { SCRATCH_START } else { DATA_START };
            let pieces = parities.iter().map(Vec::as_slice).chain(data);
            for (column, piece) in row.columns.iter().zip(pieces) {
                let device = &self.0[&(column.child as u64 + 1)];
                device.poke(Offset(start + column.at), &Buf::copy_of(piece).into());
            }
        }
    }

    /// Makes everything that a leaf has of a block something else.
    fn invert(&self, leaf: u64, map: &Map) {
        let device = &self.0[&leaf];
        for row in &map.rows {
            let start = if row.scratch { SCRATCH_START } else { DATA_START };
            for column in row.columns.iter().filter(|column| column.child as u64 + 1 == leaf) {
                let at = Offset(start + column.at);
                let bytes = device.peek(at, ByteCount(column.len as u64)).to_vec();
                let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte ^ 0x5a).collect();
                device.poke(at, &Buf::copy_of(&bytes).into());
            }
        }
    }
}

pub fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

/// A pointer to bytes that lie whole at some place.
fn pointer(block: &[u8], dva: Dva) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    pointer.set_dva(0, dva);
    pointer.set_sizes(block.len() as u64, block.len() as u64);
    pointer.set_compression(zfs_format::compression::Compression::Off);
    pointer.set_checksum_function(ChecksumFunction::Sha256);
    pointer.set_object_type(ObjectType::PLAIN_FILE_CONTENTS);
    pointer.set_endian(Endian::Little);
    pointer.set_births(BIRTH, BIRTH);
    let Sum(words) = sha256(block);
    pointer.set_checksum(Checksum { words });
    pointer
}

pub fn read_at(block: &[u8], vdev: u32, offset: u64, birth: u64) -> ReadAt {
    let dva = Dva::new(vdev, offset, block.len() as u64, false);
    let expected = Expected::of(&pointer(block, dva), None).expect("the function is known");
    let size = block.len() as u64;
    ReadAt { dva, size, birth, expected, class: IoClass::SyncRead }
}

/// Reads a block; and which leaves have checksum errors afterwards.
async fn read(tree: &Tree, at: &ReadAt) -> (Result<Buf, BlockErrorKind>, Vec<u64>) {
    let result = tree.read(at).await;
    let mut wrong = Vec::new();
    tree.report().iter().for_each(|report| collect(report, &mut wrong));
    (result, wrong)
}

fn collect(report: &VdevReport, wrong: &mut Vec<u64>) {
    if report.children.is_empty() && report.errors != Errors::default() {
        assert_eq!((report.errors.read, report.errors.write), (0, 0));
        wrong.push(report.guid);
    }
    report.children.iter().for_each(|child| collect(child, wrong));
}

pub fn open(rt: &Rt, tops: &[Vdev], devices: &Devices) -> Tree {
    Tree::open(rt, tops, &devices.refs()).expect("a tree that can be")
}

/// Which leaves hold something of a block.
fn holders(map: &Map) -> Vec<u64> {
    let columns = map.rows.iter().flat_map(|row| &row.columns).filter(|column| column.len > 0);
    let mut holders: Vec<u64> = columns.map(|column| column.child as u64 + 1).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

pub fn raidz(parity: usize, expanding: bool, expand_txgs: &[u64]) -> VdevKind {
    let (parity, expand_txgs) = (parity as u64, expand_txgs.to_vec());
    VdevKind::Raidz(Raidz { parity, expanding, expand_txgs })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_raidz_bears_as_many_wrong_or_missing_children_as_it_has_parities(
        (parity, data) in (1_usize..=3, 1_usize..6),
        (ashift, sectors, first) in (prop_oneof![Just(9_u32), Just(12)], 1_usize..40, 0_u64..600),
        (wrong, missing, seed) in (0_usize..4, 0_usize..4, any::<u64>()),
    ) {
        let children = parity + data;
        let (offset, block) = (first << ashift, random(sectors << ashift, seed));
        let map = map::map(offset, block.len(), ashift, children, parity);
        let mut devices = Devices::new(children, ByteCount::mib(16));
        devices.write(&map, &block);
        let mut victims: Vec<u64> = (1..=children as u64).collect();
        Prng::new(seed).shuffle(&mut victims);
        let (wrong, missing) = (wrong.min(parity), missing.min(parity - wrong.min(parity)));
        let (liars, rest) = victims.split_at(wrong);
        liars.iter().for_each(|leaf| devices.invert(*leaf, &map));
        rest[..missing].iter().for_each(|leaf| { devices.0.remove(leaf); });
        let config = top(0, ashift, raidz(parity, false, &[]), leaves(children));
        let at = read_at(&block, 0, offset, BIRTH);
        let (result, counted) = run(|rt| async move {
            read(&open(&rt, &[config], &devices), &at).await
        });
        prop_assert_eq!(result.map(|found| found.bytes() == block), Ok(true));
        let holders = holders(&map);
        for leaf in counted {
            prop_assert!(liars.contains(&leaf) && holders.contains(&leaf), "{} told the truth", leaf);
        }
    }

    #[test]
    fn one_wrong_child_too_many_is_an_error(
        (parity, data, seed) in (1_usize..=3, 1_usize..5, any::<u64>()),
    ) {
        let children = parity + data;
        // Large enough that each child holds some of it.
        let block = random((data * 8) << 9, seed);
        let devices = Devices::new(children, ByteCount::mib(16));
        let map = map::map(0, block.len(), 9, children, parity);
        devices.write(&map, &block);
        (1..=parity as u64 + 1).for_each(|leaf| devices.invert(leaf, &map));
        let config = top(0, 9, raidz(parity, false, &[]), leaves(children));
        let at = read_at(&block, 0, 0, BIRTH);
        let result = run(|rt| async move { read(&open(&rt, &[config], &devices), &at).await.0 });
        prop_assert_eq!(result, Err(BlockErrorKind::Checksum));
    }

    #[test]
    fn an_expansion_under_way_is_read_on_both_sides_of_its_progress(
        (parity, data) in (1_usize..=3, 1_usize..4),
        (sectors, first, synced) in (1_usize..40, 0_u64..300, 0_u64..400),
        (scratch, liar, seed) in (any::<bool>(), any::<prop::sample::Index>(), any::<u64>()),
    ) {
        let (narrow, wide) = (parity + data, parity + data + 1);
        let (offset, block) = (first << 9, random(sectors << 9, seed));
        let reflow = Reflow { synced: synced << 9, scratch };
        let map = map::map_expanded(offset, block.len(), 9, (wide, narrow), parity, Some(reflow));
        // Rows on both sides may claim one place, which the copying never lets happen.
        let mut places = std::collections::BTreeSet::new();
        let free = map.rows.iter().flat_map(|row| row.columns.iter().map(|c| (row.scratch, *c)));
        let free = free.filter(|(_, c)| c.len > 0).all(|(s, c)| places.insert((s, c.child, c.at)));
        prop_assume!(free);
        let devices = Devices::new(wide, ByteCount::mib(16));
        devices.write(&map, &block);
        let liar = liar.index(wide) as u64 + 1;
        devices.invert(liar, &map);
        let config = top(0, 9, raidz(parity, true, &[]), leaves(wide));
        let at = read_at(&block, 0, offset, BIRTH);
        let (result, counted) = run(|rt| async move {
            let tree = open(&rt, &[config], &devices);
            tree.set_reflow(RaidzReflow { offset: synced << 9, scratch: u16::from(scratch) });
            read(&tree, &at).await
        });
        prop_assert_eq!(result.map(|found| found.bytes() == block), Ok(true));
        prop_assert!(counted.iter().all(|leaf| *leaf == liar), "{:?}", counted);
    }

    #[test]
    fn a_disk_that_was_wrong_before_an_expansion_is_found_out(
        (parity, data) in (1_usize..=3, 2_usize..4),
        (sectors, first, liar, seed) in (1_usize..30, 0_u64..300, any::<prop::sample::Index>(), any::<u64>()),
    ) {
        let (narrow, wide) = (parity + data, parity + data + 2);
        let (offset, block) = (first << 9, random(sectors << 9, seed));
        let map = map::map_expanded(offset, block.len(), 9, (wide, narrow), parity, None);
        let devices = Devices::new(wide, ByteCount::mib(16));
        devices.write(&map, &block);
        let liar = liar.index(narrow) as u64;
        for column in map.rows.iter().flat_map(|row| &row.columns) {
            if column.len > 0 && column.sector % narrow as u64 == liar {
                devices.put(column.child as u64 + 1, column.at, &random(column.len, seed ^ 1));
            }
        }
        // Two expansions since: blocks of today are two wider.
        let config = top(0, 9, raidz(parity, false, &[BIRTH + 1, BIRTH + 2]), leaves(wide));
        let at = read_at(&block, 0, offset, BIRTH);
        let result = run(|rt| async move { read(&open(&rt, &[config], &devices), &at).await.0 });
        prop_assert_eq!(result.map(|found| found.bytes() == block), Ok(true));
    }

    #[test]
    fn spare_space_stands_in_for_a_lost_child_wherever_it_lies(
        (parity, data, spares, more) in (1_u64..=2, 1_u64..4, 1_u64..3, 0_u64..3),
        (sectors, group, lost, liar, seed) in
            (1_usize..60, 0_u64..9, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u64>()),
    ) {
        let children = (parity + data + spares + more) as usize;
        let disks = children as u64 - spares;
        let groups = (1..).find(|n| ((parity + data) * n).is_multiple_of(disks)).expect("one");
        let config = Draid { parity, data, spares, groups };
        let layout = Layout::new(&config, children).expect("the numbers fit");
        // Near the end of a group, so that blocks run over.
        let offset = (group + 1) * (parity + data) * (16 << 20) - ((20 * (parity + data)) << 9);
        let block = random(sectors << 9, seed);
        let map = layout.map(offset, block.len(), 9).expect("a block can begin there");
        let mut devices = Devices::new(children, ByteCount::gib(1));
        devices.write(&map, &block);
        // What the lost child held of it lies in the first spare, and another child is wrong.
        let lost = lost.index(children);
        let spare_kind = VdevKind::DraidSpare;
        let number = (Text::from("spareid"), Value::Uint64(0));
        let spare = Vdev { other: vec![number], ..vdev(spare_kind, 500, Vec::new()) };
        let mut all = leaves(children);
        all[lost] = vdev(VdevKind::Spare, 501, vec![leaf(lost as u64 + 1), spare]);
        let gone = devices.0.remove(&(lost as u64 + 1)).expect("it was there");
        let mut home = Vec::new();
        for column in map.rows.iter().flat_map(|row| &row.columns) {
            if column.child == lost && column.len > 0 {
                let child = spare_child(&layout, &config, children, column.at);
                home.push(child as u64 + 1);
                let bytes = gone.peek(Offset(DATA_START + column.at), ByteCount(column.len as u64));
                if child != lost {
                    devices.put(child as u64 + 1, column.at, &bytes.to_vec());
                }
            }
        }
        let liar = liar.index(children) as u64 + 1;
        prop_assume!(liar != lost as u64 + 1 && !home.contains(&liar));
        prop_assume!(!home.contains(&(lost as u64 + 1)));
        devices.invert(liar, &map);
        let config = top(0, 9, VdevKind::Draid(config), all);
        let at = read_at(&block, 0, offset, BIRTH);
        let (result, counted) = run(|rt| async move {
            read(&open(&rt, &[config], &devices), &at).await
        });
        // One parity bears the liar, because the lost child's part is in the spare.
        prop_assert_eq!(result.map(|found| found.bytes() == block), Ok(true));
        prop_assert!(counted.iter().all(|leaf| *leaf == liar), "{:?}", counted);
    }
}

/// The child at the last place of the slice's permutation: found by what no group of the slice uses.
fn spare_child(layout: &Layout, config: &Draid, children: usize, at: u64) -> usize {
    let rows = (config.parity + config.data) * config.groups / (children as u64 - config.spares);
    let (slice, row) = (at / (rows << 24), at >> 24);
    let mut free: Vec<bool> = vec![true; children];
    let group_bytes = (config.parity + config.data) << 24;
    for group in slice * config.groups..(slice + 1) * config.groups {
        let map = layout.map(group * group_bytes, (config.data as usize) << 9, 9).expect("a group");
        for column in &map.rows[0].columns {
            if column.at >> 24 == row {
                free[column.child] = false;
            }
        }
    }
    // With several spares the order of those that are free is the layout's own affair: it is asked.
    let spare = layout.spare_child(0, at).expect("there is a spare");
    assert!(free[spare], "a spare is where no group is");
    spare
}

#[test]
fn a_stale_copy_is_asked_last_and_not_blamed() {
    for (kind, count) in [(VdevKind::Mirror, 2), (VdevKind::Replacing, 2)] {
        let block = random(4096, 7);
        let mut devices = Devices::new(count, ByteCount::mib(16));
        devices.put(2, 8192, &block);
        let at = read_at(&block, 0, 8192, BIRTH);
        let config = top(0, 12, kind, leaves(count));
        run(|rt| async move {
            let tree = open(&rt, std::slice::from_ref(&config), &devices);
            let missed = |from: u64| std::iter::once(from..from + 10).collect();
            tree.set_dtl(1, missed(BIRTH - 5));
            assert_eq!(read(&tree, &at).await, (Ok(Buf::copy_of(&block)), vec![]));
            // When it missed something else, it is believed, and found out.
            tree.set_dtl(1, missed(BIRTH + 1));
            for _ in 0..2 {
                assert_eq!(read(&tree, &at).await, (Ok(Buf::copy_of(&block)), vec![1]));
            }
            // The good one is gone: the stale one is asked after all, and has nothing.
            devices.0.remove(&2);
            let tree = open(&rt, &[config], &devices);
            tree.set_dtl(1, missed(BIRTH - 5));
            assert_eq!(read(&tree, &at).await, (Err(BlockErrorKind::Checksum), vec![]));
        });
    }
}

#[test]
fn unreadable_places_are_counted_once_and_made_up_for() {
    let block = random(12 << 9, 8);
    let devices = Devices::new(4, ByteCount::mib(16));
    // Two blocks: one as raidz lays it out now, one from before an expansion, whose sectors are read in one go.
    let new = map::map(0, block.len(), 9, 4, 1);
    let old = map::map_expanded(1 << 20, block.len(), 9, (4, 3), 1, None);
    devices.write(&new, &block);
    devices.write(&old, &block);
    let bad = old.rows.iter().flat_map(|row| &row.columns).rev().find(|column| column.child == 2);
    let bad = bad.expect("the child has some of it").at;
    run(|rt| async move {
        let fault = Fault::new(devices.refs()[&3].clone(), &rt, Prng::new(1));
        for at in [0, bad] {
            let place = Offset(DATA_START + at);
            fault.add(Rule::new(Effect::Unreadable).within(place, ByteCount(512)));
        }
        let mut refs = devices.refs();
        refs.insert(3, fault);
        let config = top(0, 9, raidz(1, false, &[BIRTH + 1]), leaves(4));
        let tree = Tree::open(&rt, &[config], &refs).expect("a tree");
        let errors = |tree: &Tree| tree.report()[0].children[2].errors;
        let at = read_at(&block, 0, 0, BIRTH + 1);
        assert_eq!(tree.read(&at).await, Ok(Buf::copy_of(&block)));
        assert_eq!(errors(&tree), Errors { read: 1, ..Errors::default() });
        let at = read_at(&block, 0, 1 << 20, BIRTH);
        assert_eq!(tree.read(&at).await, Ok(Buf::copy_of(&block)));
        assert_eq!(errors(&tree), Errors { read: 2, ..Errors::default() });
        assert_eq!(tree.report()[0].errors, Errors::default());
    });
}

#[test]
fn stale_children_of_a_raidz_are_believed_in_the_end() {
    let block = random(6 << 12, 8);
    let devices = Devices::new(3, ByteCount::mib(16));
    let map = map::map(0, block.len(), 12, 3, 1);
    devices.write(&map, &block);
    devices.invert(3, &map);
    let at = read_at(&block, 0, 0, BIRTH);
    run(|rt| async move {
        // Child 1 is said to miss the block, but has it; without it nothing could be done about child 3.
        let tree = open(&rt, &[top(0, 12, raidz(1, false, &[]), leaves(3))], &devices);
        tree.set_dtl(1, std::iter::once(0..u64::MAX).collect());
        assert_eq!(read(&tree, &at).await, (Ok(Buf::copy_of(&block)), vec![3]));
    });
}

#[test]
fn a_split_block_is_put_together_from_whichever_copies_are_right() {
    let block = random(3 * 4096, 9);
    let devices = Devices::new(4, ByteCount::mib(16));
    // Three parts on two mirrors, of each of which another side is wrong.
    for (leaf, offset, part, right) in [
        (1, 0, 0, false),
        (2, 0, 0, true),
        (3, 8192, 1, true),
        (4, 8192, 1, false),
        (1, 65536, 2, true),
        (2, 65536, 2, false),
    ] {
        let bytes = &block[part * 4096..(part + 1) * 4096];
        let wrong = random(4096, 20 + part as u64);
        devices.put(leaf, offset, if right { bytes } else { &wrong });
    }
    let entry = |source: u64, vdev, target| MappingEntry {
        source_sectors: source / 512,
        target: Dva::new(vdev, target, 4096, false),
    };
    let removed = |id, mapping| {
        let kind = VdevKind::Indirect(Indirect { mapping, births: 0, previous: None });
        top(id, 12, kind, Vec::new())
    };
    let mirror = |id, pair: [u64; 2]| top(id, 12, VdevKind::Mirror, pair.map(leaf).to_vec());
    let tops = [removed(0, 7), mirror(1, [1, 2]), mirror(2, [3, 4]), removed(3, 8)];
    let at = read_at(&block, 0, 4096, BIRTH);
    run(|rt| async move {
        let tree = open(&rt, &tops, &devices);
        assert_eq!(tree.read(&at).await, Err(BlockErrorKind::Missing(0)), "its mapping is unknown");
        assert_eq!(tree.unmapped().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 3]);
        // The last part moved twice.
        let first = [entry(4096, 1, 0), entry(8192, 2, 8192), entry(12288, 3, 512 << 10)];
        tree.set_indirect(0, &first).expect("in order");
        tree.set_indirect(3, &[entry(512 << 10, 1, 65536)]).expect("in order");
        assert!(tree.set_indirect(1, &first).is_err(), "that one is there");
        assert!(tree.set_indirect(0, &[first[1].clone(), first[0].clone()]).is_err());
        assert_eq!(read(&tree, &at).await, (Ok(Buf::copy_of(&block)), vec![1, 2, 4]));
        // A part that lies in one place is read as if the pointer had named it.
        let one = read_at(&block[4096..8192], 0, 8192, BIRTH);
        assert_eq!(tree.read(&one).await, Ok(Buf::copy_of(&block[4096..8192])));
        // What was never moved can't be read, and a circle of mappings ends.
        assert!(tree.read(&read_at(&block, 0, 8192, BIRTH)).await.is_err());
        tree.set_indirect(3, &[entry(512 << 10, 0, 12288)]).expect("in order");
        let error = tree.read(&at).await.expect_err("it leads nowhere");
        assert!(matches!(error, BlockErrorKind::Format(_)), "{error}");
    });
}

#[test]
fn gangs_are_put_together_and_forged_ones_refused() {
    let block = random(3 * 512, 10);
    let devices = Devices::new(1, ByteCount::mib(16));
    let whole = |at| Dva::new(0, at, 4096, true);
    let piece = |number: usize, at: u64| {
        let bytes = &block[number * 512..(number + 1) * 512];
        devices.put(1, at, bytes);
        pointer(bytes, Dva::new(0, at, 512, false))
    };
    let [first, second, third] = [piece(0, 4096), piece(1, 65536), piece(2, 512)];
    // A gang of a gang of two and a piece.
    let inner = pointer(&block[..1024], whole(8192));
    let outer = pointer(&block, whole(16384));
    let header = |of: &BlockPointer, pieces: [BlockPointer; 3]| {
        devices.put(1, of.dva(0).offset(), &GangHeader { pieces }.encode(of, Endian::Little));
    };
    header(&inner, [first, second, BlockPointer::HOLE]);
    header(&outer, [inner, third, BlockPointer::HOLE]);
    // A header that lists itself; one whose pieces are too long; one that lists what is no piece.
    let circle = pointer(&block, whole(32768));
    header(&circle, [circle, BlockPointer::HOLE, BlockPointer::HOLE]);
    let long = pointer(&block, whole(40960));
    header(&long, [first, second, inner]);
    let odd = pointer(&block[..512], whole(49152));
    let embedded = BlockPointer::embed(&[1; 100], 512, zfs_format::compression::Compression::Off);
    header(&odd, [embedded, BlockPointer::HOLE, BlockPointer::HOLE]);
    run(|rt| async move {
        let mut alone = leaf(1);
        alone.ashift = Some(9);
        let zio = Zio::new(&rt, Rc::new(open(&rt, &[alone], &devices)));
        let read = async |pointer: BlockPointer| {
            zio.read(BlockRequest::new(pointer, Bookmark::default())).await.map_err(|e| e.kind)
        };
        assert_eq!(read(outer).await, Ok(Buf::copy_of(&block)));
        for forged in [circle, long, odd] {
            let error = read(forged).await.expect_err("it is forged");
            assert!(matches!(error, BlockErrorKind::Format(_)), "{error}");
        }
        // Right pieces in the wrong order.
        let swapped = pointer(&block, whole(57344));
        header_of(&devices, &swapped, [third, inner, BlockPointer::HOLE]);
        assert_eq!(read(swapped).await, Err(BlockErrorKind::Checksum));
    });
}

fn header_of(devices: &Devices, of: &BlockPointer, pieces: [BlockPointer; 3]) {
    devices.put(1, of.dva(0).offset(), &GangHeader { pieces }.encode(of, Endian::Little));
}

#[test]
fn trees_that_can_not_be_are_refused() {
    use zfs_store::TreeError;
    run(|rt| async move {
        let devices = Devices::new(3, ByteCount::mib(16));
        let refused = |tops: &[Vdev]| match Tree::open(&rt, tops, &devices.refs()) {
            Ok(_) => panic!("it is refused"),
            Err(error) => error,
        };
        let mirror = top(0, 12, VdevKind::Mirror, leaves(2));
        assert_eq!(refused(&[mirror.clone(), mirror.clone()]), TreeError::Twice(0));
        let far = Vdev { id: 1 << 24, ..mirror.clone() };
        assert_eq!(refused(&[far]), TreeError::Number(1 << 24));
        let small = Vdev { ashift: Some(64), ..mirror.clone() };
        assert_eq!(refused(&[small]), TreeError::Ashift { id: 0, ashift: 64 });
        let few = top(0, 12, raidz(3, false, &[]), leaves(3));
        assert_eq!(refused(&[few]), TreeError::Children { id: 0, children: 3 });
        let grown = top(0, 12, raidz(1, true, &[1, 2]), leaves(3));
        assert_eq!(refused(&[grown]), TreeError::Children { id: 0, children: 3 });
        let draid = Draid { parity: 1, data: 2, spares: 1, groups: 1 };
        assert_eq!(refused(&[top(0, 12, VdevKind::Draid(draid), leaves(3))]), TreeError::Draid(0));
        let new = top(4, 12, VdevKind::Other(Text::from("anyraid")), leaves(3));
        assert_eq!(refused(&[new]), TreeError::Kind { id: 4, kind: "anyraid".into() });
        // What is missing is named when something of it is asked for.
        let tree = open(
            &rt,
            &[top(0, 12, VdevKind::Hole, Vec::new()), Vdev { id: 1, ..mirror }],
            &devices,
        );
        let at = |vdev| read_at(&[1; 512], vdev, 0, BIRTH);
        assert_eq!(tree.read(&at(0)).await, Err(BlockErrorKind::Missing(0)));
        assert_eq!(tree.read(&at(2)).await, Err(BlockErrorKind::NoVdev(2)));
        let odd = ReadAt { dva: Dva::new(1, 512, 512, false), ..at(1) };
        assert!(matches!(tree.read(&odd).await, Err(BlockErrorKind::Format(_))));
    });
}
