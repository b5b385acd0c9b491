//! Blocks that others name: a table of them is made by hand, as OpenZFS makes it.
//!
//! What could break: the block is free with the first pointer that dies, or never; the table says what it said before, or stays.

use super::{Rig, features, new_file, top};
use rt::Buf;
use std::rc::Rc;
use zfs::dmu::NewObject;
use zfs::dsl::make::{Fresh, METADATA_TABLE, Maker};
use zfs::spa::Spa;
use zfs::spa::config::LabelState;
use zfs::spa::live::Live;
use zfs::zap::{Zap, table};
use zfs_format::Endian;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::brt::{BrtVdev, counts};
use zfs_format::features::Feature;
use zfs_format::object_type::{ByteSwap, ObjectType};
use zfs_format::pool_directory;
use zfs_format::vdev::VdevKind;
use zfs_format::wire::Record;
use zfs_format::zap::fat::{FatHeader, Table};
use zfs_format::zap::leaf::{Key, Leaf, LeafEntry, LeafValue};
use zfs_format::zap::{flags, hash_key};

const FILE: u64 = 500;
const BLOCK_SHIFT: u32 = 14;
const RANGE_BYTES: u64 = 16 << 20;
const BEYOND: u64 = 2;

/// The table of one vdev: a block has so many pointers beyond the first, another one more.
async fn make_table(maker: &Maker<'_>, block: &BlockPointer) {
    let mos = maker.mos;
    let (salt, of) = (77, flags::HASH_64 | flags::UINT64_KEY);
    let first = block.dva(0).offset();
    let entry = |offset: u64, count: u64| LeafEntry {
        hash: hash_key(&[offset], salt, of),
        differentiator: 0,
        key: Key::Numbers(vec![offset]),
        value: LeafValue { number_bytes: 1, numbers: count.to_le_bytes().map(u64::from).to_vec() },
    };
    let header = FatHeader {
        block_shift: BLOCK_SHIFT,
        table: Table { shift: u64::from(BLOCK_SHIFT) - 4, ..Table::default() },
        free_block: 2,
        leaves: 1,
        entries: 2,
        salt,
        normalization: 0,
        flags: of,
        embedded: vec![1; 1 << (BLOCK_SHIFT - 4)],
    };
    let entries = vec![entry(first, BEYOND), entry(96 << 20, 1)];
    let leaf = Leaf { block_shift: BLOCK_SHIFT, prefix: 0, prefix_bits: 0, flags: 0, entries };
    let bytes = [header.encode(Endian::Little), leaf.encode(Endian::Little)];
    let bytes = Buf::copy_of(&bytes.map(|block| block.expect("it fits")).concat());
    let zap = mos.make(&NewObject::of(METADATA_TABLE, 1 << BLOCK_SHIFT)).await.expect("made");
    let metadata = ObjectType::new(ByteSwap::Uint64, true, false);
    let header = BrtVdev {
        entries: zap.number(),
        ranges: 8,
        byte_order: 0,
        total_count: 2,
        range_bytes: RANGE_BYTES,
        used_bytes: 2 * block.dva(0).allocated(),
        saved_bytes: (BEYOND + 1) * block.dva(0).allocated(),
    };
    let new = NewObject::of(metadata, 4096);
    let object = mos.make(&new.with_bonus(metadata, header.encode(Endian::Little))).await;
    let object = object.expect("made");
    let mut ranges = [0u16; 8];
    ranges[(first / RANGE_BYTES) as usize] += 1;
    ranges[(96 << 20) as usize / RANGE_BYTES as usize] += 1;
    let ranges = Buf::copy_of(&ranges.map(u16::to_le_bytes).concat());
    for (object, bytes) in [(&zap, bytes), (&object, ranges)] {
        let written = mos.change(|tx| {
            object.plan_write(0..bytes.len() as u64)?;
            object.write(tx, 0, &bytes);
            Ok(())
        });
        written.await.expect("it is written");
    }
    let directory = mos.dnode(pool_directory::OBJECT).await.expect("it is there");
    let name = pool_directory::brt_vdev(0);
    table::set(mos, &directory, &name, table::number(object.number())).await.expect("written");
    maker.count_use("block_cloning", 1).await.expect("it is enabled");
}

/// What the table says of a block: its count, and how many there are.
async fn told(spa: &Spa, block: &BlockPointer) -> Option<(Option<LeafValue>, BrtVdev, u16)> {
    let mos = spa.mos();
    let directory = Zap::open(mos.dnode(pool_directory::OBJECT).await.expect("read")).await;
    let number = directory.expect("read").get(pool_directory::brt_vdev(0).as_bytes()).await;
    let object = mos.dnode(number.expect("read")?.number()?).await.expect("it is there");
    let header = BrtVdev::decode(&object.phys().bonus, object.endian()).expect("one");
    let entries = Zap::open(mos.dnode(header.entries).await.expect("read")).await.expect("read");
    let offset = block.dva(0).offset();
    let ranges = object.read(0, 16).await.expect("read").to_vec();
    let ranges = counts(&ranges, Endian::Little).expect("they are");
    let count = entries.get_key(&[offset]).await.expect("read");
    Some((count, header, ranges[(offset / RANGE_BYTES) as usize]))
}

#[test]
fn a_block_that_others_name_is_free_with_its_last_pointer() {
    let cloning = Feature::named("block_cloning").expect("a feature").guid;
    let all = features().into_iter().chain([cloning]).collect();
    let rig = Rig::with_features(vec![top(0, VdevKind::File, 1)], all);
    let block = rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
        let files = live.files(&node).await.expect("it opens");
        files.create(files.root_number(), b"one", &new_file(FILE)).await.expect("it is made");
        let bytes: Vec<u8> = (0..60_000u32).map(|n| ((n * n) >> 7) as u8).collect();
        files.write(FILE, 0, &Buf::copy_of(&bytes), 60_000).await.expect("it is written");
        live.sync(async |_| Ok(())).await.expect("it is written");
        let node = files.node(FILE).await.expect("it is there");
        let block = node.dnode().phys().pointers[0];
        let made = live.sync(async |maker| {
            make_table(maker, &block).await;
            Ok(())
        });
        made.await.expect("it is written");
        live.close(LabelState::Exported).await.expect("it is closed");
        block
    });
    assert!(block.level() == 0 && !block.is_embedded());
    for round in 0..4 {
        rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
            let size = block.dva(0).allocated();
            let told = told(&spa, &block).await.expect("there is a table");
            let left = BEYOND.saturating_sub(round);
            let count =
                LeafValue { number_bytes: 1, numbers: left.to_le_bytes().map(u64::from).to_vec() };
            assert_eq!(told.0, Some(count).filter(|_| left > 0));
            let header = &told.1;
            assert_eq!(
                (header.total_count, told.2),
                (1 + u64::from(left > 0), u16::from(left > 0))
            );
            assert_eq!(
                (header.used_bytes, header.saved_bytes),
                (header.total_count * size, (left + 1) * size)
            );
            let live = Live::open(spa, &fresh).await.expect("it opens for writing");
            let writer = live.syncer().writer().clone();
            assert_eq!(writer.holds(&block), round < 3);
            let node = live.spa().catalog(0).await.expect("read").root().await.expect("there");
            let files = live.files(&node).await.expect("it opens");
            // The file's own pointer dies first, then those that nobody has.
            if round == 0 {
                files.unlink(files.root_number(), b"one").await.expect("it goes");
            }
            let freed = live.sync(async |_| {
                if (1..3).contains(&round) {
                    writer.free(&block);
                }
                Ok(())
            });
            freed.await.expect("it is written");
            live.close(LabelState::Exported).await.expect("it is closed");
        });
    }
    // The other one's pointers: its table goes with it, and nothing is free by that.
    rig.with(async move |spa: Rc<Spa>, fresh: Rc<dyn Fresh>| {
        let live = Live::open(spa, &fresh).await.expect("it opens for writing");
        let mut other = block;
        other.set_dva(
            0,
            zfs_format::block_pointer::Dva::new(0, 96 << 20, block.dva(0).allocated(), false),
        );
        let freed = live.sync(async |_| {
            live.syncer().writer().free(&other);
            Ok(())
        });
        freed.await.expect("it is written");
        live.close(LabelState::Exported).await.expect("it is closed");
    });
    rig.with(async move |spa: Rc<Spa>, _| {
        assert!(told(&spa, &block).await.is_none());
        let features = spa.features();
        let uses = features.iter().find(|one| one.guid == cloning).map(|one| one.count);
        assert_eq!(uses, Some(0));
    });
    rig.judge();
}
