//! Blocks written by their pointers, as a transaction group's sync will, and read back.
//!
//! What could break: a copy that is missing, a place given to two blocks, a rewritten block that reads as the old one, a
//! failed write that keeps its space, a hole that forgets when it was punched.

use crate::made::{Devices, leaf, leaves, open, raidz, random, top};
use crate::rig::run;
use proptest::prelude::*;
use rt::filter::{Effect, Fault, Rule};
use rt::{Buf, DeviceRef, IoErrorKind, OpKind, Rt};
use std::cell::RefCell;
use std::rc::Rc;
use stdx::{ByteCount, Prng, RangeSet};
use zfs_format::block_pointer::{BlockPointer, Dva, Kind};
use zfs_format::checksum::ChecksumFunction;
use zfs_format::compression::Compression;
use zfs_format::object_type::ObjectType;
use zfs_format::vdev::{Draid, Vdev, VdevKind};
use zfs_store::alloc::{Allocator, Class, Metaslabs};
use zfs_store::transform::{Props, Rounding};
use zfs_store::vdev::{LeafState, Place};
use zfs_store::{
    BlockRequest, Bookmark, Errors, Expected, IoClass, ReadBlocks, Tree, WriteBlockErrorKind,
    WriteBlocks, WriteRequest, Writer, Zio,
};

const SLAB_SHIFT: u64 = 20;

/// A pool of these vdevs, nothing allocated.
struct Pool {
    zio: Zio,
    writer: Writer,
    allocator: Rc<RefCell<Allocator>>,
}

fn pool(rt: &Rt, configs: &[Vdev], tree: Tree) -> Pool {
    let mut allocator = Allocator::default();
    for config in configs {
        let asize = Some(16 << SLAB_SHIFT);
        let config = Vdev { asize, metaslab_shift: Some(SLAB_SHIFT), ..config.clone() };
        let slabs = Metaslabs::of(&config).expect("few").expect("some");
        allocator.add(config.id as u32, Class::of(&config), slabs);
    }
    let (tree, allocator) = (Rc::new(tree), Rc::new(RefCell::new(allocator)));
    let writer = Writer::new(rt, Rc::clone(&tree), Rc::clone(&allocator), true);
    Pool { zio: Zio::new(rt, tree), writer, allocator }
}

fn request(block: Vec<u8>, txg: u64, copies: usize) -> WriteRequest {
    let props = Props {
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        level: 0,
        compression: Compression::Lz4,
        zstd_level: 3,
        checksum: ChecksumFunction::Sha256,
        salt: None,
        embed: true,
        rounding: Rounding { least: 512, unit: 512 },
        crypt: None,
    };
    WriteRequest {
        block: Buf::copy_of(&block),
        props,
        at: Bookmark::default(),
        txg,
        copies,
        class: Class::Normal,
        fill: 1,
        before: BlockPointer::HOLE,
        io: IoClass::AsyncWrite,
    }
}

/// Zeros, what fits its pointer, what compresses, noise.
fn block(random_numbers: &mut Prng) -> Vec<u8> {
    let len = 512 * (1 + random_numbers.below(64) as usize);
    let noise = match random_numbers.below(4) {
        0 => 0,
        1 => 8,
        2 => len / 3,
        _ => len,
    };
    let mut bytes = random(noise, random_numbers.next_u64());
    bytes.resize(len, 0);
    bytes
}

fn configs() -> Vec<Vdev> {
    let draid = Draid { parity: 1, data: 2, spares: 1, groups: 1 };
    let mut children = leaves(12);
    let rest = children.split_off(8);
    let of_raidz = children.split_off(4);
    vec![
        top(0, 12, VdevKind::Mirror, children),
        top(1, 9, raidz(1, false, &[]), of_raidz),
        top(2, 9, VdevKind::Draid(draid), rest),
    ]
}

async fn content(zio: &Zio, pointer: &BlockPointer) -> Option<Vec<u8>> {
    let read = zio.read(BlockRequest::new(*pointer, Bookmark::default())).await;
    read.ok().map(|bytes| bytes.bytes().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_was_written_is_read_through_all_groups_and_no_two_blocks_share_a_place(
        seed in any::<u64>(),
    ) {
        run(|rt| async move {
            let mut numbers = Prng::new(seed);
            let devices = Devices::new(12, ByteCount::mib(32));
            let pool = pool(&rt, &configs(), open(&rt, &configs(), &devices));
            let mut live: Vec<(BlockPointer, Vec<u8>)> = Vec::new();
            for txg in 100..112 {
                for _ in 0..20 {
                    let which = numbers.below(live.len().max(1) as u64) as usize;
                    let mut write = request(block(&mut numbers), txg, 1 + numbers.below(3) as usize);
                    let bytes = write.block.bytes().to_vec();
                    match numbers.below(4) {
                        0 if !live.is_empty() => {
                            let (pointer, _) = live.swap_remove(which);
                            let freed = pool.writer.free(txg, Bookmark::default(), &pointer);
                            assert_eq!(freed, Ok(()));
                            let twice = pool.writer.free(txg, Bookmark::default(), &pointer);
                            assert_eq!(twice.is_ok(), pointer.kind() != Kind::Block);
                        }
                        1 if !live.is_empty() && live[which].0.logical_birth() == txg => {
                            let before = live[which].0;
                            write.before = before;
                            let pointer = pool.writer.rewrite(write.clone()).await.expect("room");
                            let fits = pointer.kind() == Kind::Block
                                && before.kind() == Kind::Block
                                && before.physical_size() == pointer.physical_size()
                                && before.dvas().count() == write.copies;
                            let same = before.dvas().eq(pointer.dvas());
                            assert_eq!(same, fits || before.kind() != Kind::Block && pointer.kind() != Kind::Block);
                            live[which] = (pointer, bytes);
                        }
                        _ => {
                            let pointer = pool.writer.write(write.clone()).await.expect("room");
                            if pointer.kind() == Kind::Block {
                                assert_eq!(pointer.dvas().count(), write.copies);
                                let vdevs: std::collections::BTreeSet<u32> =
                                    pointer.dvas().map(|dva| dva.vdev()).collect();
                                assert_eq!(vdevs.len(), write.copies, "a vdev a copy");
                            }
                            live.push((pointer, bytes));
                        }
                    }
                }
                let mut places = [RangeSet::default(), RangeSet::default(), RangeSet::default()];
                for (pointer, bytes) in &live {
                    match content(&pool.zio, pointer).await {
                        Some(found) if *pointer != BlockPointer::HOLE => assert_eq!(found, *bytes),
                        found => assert!(found.is_some() && bytes.iter().all(|byte| *byte == 0)),
                    }
                    for dva in pointer.dvas().filter(|_| pointer.kind() == Kind::Block) {
                        let range = dva.offset()..dva.offset() + dva.allocated();
                        assert_eq!(places[dva.vdev() as usize].insert(range), dva.allocated());
                    }
                }
                let changes = pool.allocator.borrow_mut().take_changes(txg);
                assert!(!changes.is_empty());
                pool.allocator.borrow_mut().synced(txg);
            }
            // A group's blocks are there with a device of each vdev lost.
            for leaf in [1, 5, 9] {
                assert!(pool.zio.tree().set_leaf_state(leaf, LeafState::Absent));
            }
            let named = live.iter().filter(|(pointer, _)| *pointer != BlockPointer::HOLE);
            for (pointer, bytes) in named {
                assert_eq!(content(&pool.zio, pointer).await.as_ref(), Some(bytes));
            }
        });
    }
}

/// What could break: a wrong byte that long reads look past, a right block that they doubt, an error that is counted on
/// another leaf than the one that lied, or twice.
#[test]
fn blocks_checked_in_the_order_of_their_places_are_judged_as_each_by_itself() {
    for seed in 0..6 {
        let devices = Devices::new(12, ByteCount::mib(32));
        run(|rt| async move {
            let mut numbers = Prng::new(seed);
            let pool = pool(&rt, &configs(), open(&rt, &configs(), &devices));
            let mut requests = Vec::new();
            for _ in 0..150 {
                let copies = 1 + numbers.below(2) as usize;
                let write = request(block(&mut numbers), 100, copies);
                let pointer = pool.writer.write(write).await.expect("room");
                requests.push(BlockRequest::new(pointer, Bookmark::default()));
            }
            numbers.shuffle(&mut requests);
            let mut places = vec![Vec::new(); 3];
            for (block, of) in requests.iter().enumerate() {
                let pointer = &of.pointer;
                for dva in pointer.dvas().filter(|_| pointer.kind() == Kind::Block) {
                    let expected = Expected::of(pointer, None).expect("a known function");
                    let (size, birth) = (pointer.physical_size(), pointer.physical_birth());
                    let place = Place { offset: dva.offset(), size, birth, expected, block };
                    places[dva.vdev() as usize].push(place);
                }
            }
            for (vdev, places) in places.into_iter().enumerate().take(2) {
                assert!(places.len() > 20, "the test has blocks on vdev {vdev}");
                let doubtful = pool.zio.tree().verify_in_order(vdev as u32, places).await;
                assert!(doubtful.is_empty(), "all is well on vdev {vdev}: {doubtful:?}");
            }
            // A leaf of each vdev has a mebibyte of other bytes.
            let liars = [1 + numbers.below(4), 5 + numbers.below(4), 9 + numbers.below(4)];
            for liar in liars {
                let at = stdx::Offset(zfs_format::label::DATA_START + (numbers.below(8) << 17));
                devices.0[&liar].poke(at, &Buf::copy_of(&random(1 << 20, seed)).into());
            }
            let together = pool.zio.verify_all(&requests).await;
            let counted = |tree: &Tree| -> Vec<Errors> {
                let report = tree.report();
                report.iter().flat_map(|top| top.children.iter().map(|leaf| leaf.errors)).collect()
            };
            let first = counted(pool.zio.tree());
            let mut alone = Vec::new();
            for request in &requests {
                alone.push(pool.zio.verify(request).await);
            }
            assert_eq!(together, alone);
            assert!(together.iter().all(|verified| verified.damage.is_none()), "one can be borne");
            let second = counted(pool.zio.tree());
            for (leaf, (first, second)) in (1..).zip(first.iter().zip(&second)) {
                assert_eq!(2 * first.checksum, second.checksum, "leaf {leaf} was found twice");
                assert!(liars.contains(&leaf) || second.checksum == 0, "leaf {leaf} is honest");
            }
            assert!(second.iter().any(|errors| errors.checksum > 0), "{liars:?}");
        });
    }
}

#[test]
fn a_write_that_fails_gives_its_space_back_and_the_rest_of_the_pool_goes_on() {
    let devices = Devices::new(2, ByteCount::mib(32));
    run(|rt| async move {
        let mut refs = devices.refs();
        let broken = Fault::new(Rc::clone(&refs[&2]), &rt, Prng::new(1));
        let rule = broken.add(Rule::new(Effect::Fail(IoErrorKind::Medium)).on(&[OpKind::Write]));
        refs.insert(2, Rc::clone(&broken) as DeviceRef);
        let configs = [
            Vdev { id: 0, ashift: Some(12), ..leaf(1) },
            Vdev { id: 1, ashift: Some(12), ..leaf(2) },
        ];
        let tree = Tree::open(&rt, &configs, &refs).expect("a tree");
        let pool = pool(&rt, &configs, tree);
        let failed = pool.writer.write(request(random(4096, 1), 7, 2)).await;
        let failed = failed.expect_err("one of two vdevs takes nothing");
        assert!(matches!(failed.kind, WriteBlockErrorKind::Vdev(_)), "{failed}");
        assert_eq!(pool.allocator.borrow().taken(), 0);
        broken.remove(rule);
        let pointer = pool.writer.write(request(random(4096, 1), 7, 2)).await.expect("room");
        assert_eq!(pool.allocator.borrow().taken(), 8192);
        assert_eq!(content(&pool.zio, &pointer).await, Some(random(4096, 1)));
        // Either copy by itself has it.
        for lost in [1, 2] {
            assert!(pool.zio.tree().set_leaf_state(lost, LeafState::Absent));
            assert_eq!(content(&pool.zio, &pointer).await, Some(random(4096, 1)));
            assert!(pool.zio.tree().set_leaf_state(lost, LeafState::Online));
        }
        let mut forged = pointer;
        forged.set_dva(1, Dva::new(1, 8 << 20, 4096, false));
        let freed = pool.writer.free(8, Bookmark::default(), &forged).expect_err("it is not there");
        assert!(matches!(freed.kind, WriteBlockErrorKind::NotAllocated(_)), "{freed}");
        assert_eq!(pool.writer.free(8, Bookmark::default(), &pointer), Ok(()), "nothing was freed");
        let full = loop {
            if let Err(full) = pool.writer.write(request(random(1 << 17, 2), 8, 1)).await {
                break full;
            }
        };
        assert!(matches!(full.kind, WriteBlockErrorKind::NoSpace(_)), "{full}");
    });
}

#[test]
fn holes_and_what_fits_a_pointer_take_no_space_and_say_when_they_were_born() {
    let devices = Devices::new(1, ByteCount::mib(32));
    run(|rt| async move {
        let configs = [Vdev { id: 0, ashift: Some(12), ..leaf(1) }];
        let pool = pool(&rt, &configs, open(&rt, &configs, &devices));
        let hole =
            pool.writer.write(request(vec![0; 4096], 7, 1)).await.expect("no room is needed");
        assert_eq!(hole, BlockPointer::HOLE, "it was never anything");
        let mut small = vec![0; 4096];
        small[..5].copy_from_slice(b"small");
        let embedded = pool.writer.write(request(small.clone(), 8, 3)).await.expect("no room");
        assert_eq!((embedded.kind(), embedded.logical_birth()), (Kind::Embedded, 8));
        assert_eq!(content(&pool.zio, &embedded).await, Some(small));
        let punched = WriteRequest { before: embedded, ..request(vec![0; 4096], 9, 1) };
        let punched = pool.writer.write(punched).await.expect("no room is needed");
        assert!(punched.is_hole());
        assert_eq!((punched.logical_birth(), punched.logical_size()), (9, 4096));
        assert_eq!(content(&pool.zio, &punched).await, Some(vec![0; 4096]));
        assert_eq!(pool.allocator.borrow().taken(), 0);
    });
}
