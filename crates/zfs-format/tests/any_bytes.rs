//! No bytes panic, loop without end or eat memory.
//!
//! What could break: an index or a sum on a number that was read, a count that is believed before the bytes are there.
//! Every decoder gets random bytes, with the magic numbers that let it go on where it looks for any.

use proptest::collection::vec;
use proptest::prelude::*;
use zfs_format::block_pointer::{self, BlockPointer};
use zfs_format::checksum::Checksum;
use zfs_format::dsl::bookmark::RedactionList;
use zfs_format::dsl::bpobj::BpObj;
use zfs_format::dsl::deadlist::Deadlist;
use zfs_format::encryption;
use zfs_format::label::{BootEnvironment, Configuration, decode_slot};
use zfs_format::nvlist::NvList;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::Objset;
use zfs_format::space_map::{Entries, SpaceMapHeader};
use zfs_format::uberblock::Uberblock;
use zfs_format::vdev::{Vdev, indirect};
use zfs_format::zap::{BlockKind, fat, leaf, micro};
use zfs_format::zil::{LogBlock, record};
use zfs_format::zpl::attributes::{Layouts, SystemAttributes};
use zfs_format::zpl::{acl, posix_acl};
use zfs_format::{Endian, brt, ddt, dnode, history};

fn decode_all(bytes: &[u8], pointer: &BlockPointer, endian: Endian) {
    if let Ok((list, encoding, used)) = NvList::decode(bytes) {
        assert!(used <= bytes.len());
        let _ = (list.encode(encoding), Vdev::from_list(&list));
    }
    let _ = (Configuration::decode(bytes, 0), BootEnvironment::decode(bytes, 0));
    let _ = (Uberblock::from_slot(bytes), decode_slot(bytes, 0));
    let _ = zfs_format::gang::GangHeader::decode(bytes, pointer);
    if let Ok(pointers) = block_pointer::Pointers::of(bytes, endian) {
        let _ = pointers.iter().filter(|pointer| pointer.check().is_ok()).count();
    }
    for (_, dnode) in dnode::dnodes(bytes, endian).unwrap_or_default() {
        let _ = (dnode.path(u64::MAX), dnode.encode(endian));
    }
    let _ = Objset::decode(bytes, endian).map(|objset| objset.encode(endian));
    let _ = BlockKind::of(bytes, endian);
    let _ = micro::MicroZap::decode(bytes, endian).map(|zap| zap.encode(endian));
    let _ = fat::FatHeader::decode(bytes, endian).map(|header| header.leaf_of(u64::MAX));
    let _ = fat::table_block(bytes, endian);
    for slot in 0..40 {
        let _ = dnode::find(bytes, slot, endian);
    }
    for flags in [0, 3] {
        let _ = leaf::Leaf::decode(bytes, endian, flags).map(|leaf| leaf.encode(endian));
        let key = leaf::view::KeyRef::Name(b"name");
        let found = leaf::view::LeafView::of(bytes, endian, flags).map(|view| view.get(1, key));
        let _ = found.map(|found| found.map(|value| value.map(|value| value.to_value())));
        if flags == 0 {
            let mut bytes = bytes.to_vec();
            let value = leaf::LeafValue { number_bytes: 8, numbers: vec![1] };
            let _ = leaf::change::LeafMut::of(&mut bytes, endian, flags).map(|mut leaf| {
                let _ = (leaf.insert(1, key, None, &value), leaf.update(1, key, &value));
                leaf.remove(1, key)
            });
        }
    }
    let _ = SpaceMapHeader::decode(bytes, endian);
    assert!(Entries::new(bytes, endian).count() <= bytes.len().div_ceil(8));
    let _ = (RedactionList::decode(bytes, endian), BpObj::decode(bytes, endian));
    let _ = Deadlist::decode(ObjectType::DEADLIST, bytes, endian);
    let _ = history::records(bytes);
    let _ = (ddt::split_value(bytes), ddt::log_records(bytes, endian));
    let _ = brt::counts(bytes, endian);
    let _ = indirect::Mapping::from_bonus(bytes, endian);
    let _ = indirect::entries::<indirect::MappingEntry>(bytes, endian);
    let _ = (encryption::dnode_block(bytes, endian, 1), encryption::log_block(bytes, endian));
    let _ = (encryption::objset(bytes, endian, 1), encryption::indirect_block(bytes, endian, 0));
    let _ = LogBlock::decode(bytes, pointer, |_, _| Checksum::default());
    let _ = (record::records(bytes, endian), record::strings(bytes));
    let mut layouts = Layouts::default();
    let _ = layouts.add_layout("2", &[0, 1, 2]);
    let _ = SystemAttributes::decode(bytes, endian, &layouts);
    for version in 0..3 {
        let _ = acl::decode(bytes, version, endian);
    }
    let _ = posix_acl::decode(bytes);
}

/// What decoders look for at the front.
fn fronts() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        0x0000_0000_0000_0101u64,
        0x0000_0000_0000_0100,
        0x00ba_b10c,
        1 << 63,
        (1 << 63) + 1,
        (1 << 63) + 3,
        0x002f_505a,
        9,
    ];
    prop_oneof![
        Just(Vec::new()),
        prop::sample::select(words.to_vec()).prop_map(|w| w.to_le_bytes().to_vec())
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_decoder_panics(
        front in fronts(),
        rest in prop_oneof![
            vec(any::<u8>(), 0..600),
            vec(0u8..4, 0..600),
            vec(any::<u8>(), 1016..=1016),
            vec(0u8..2, 4088..=4088),
        ],
        words in any::<[u64; 16]>(),
    ) {
        let bytes = [front, rest].concat();
        for endian in [Endian::Little, Endian::Big] {
            decode_all(&bytes, &BlockPointer { words }, endian);
        }
    }
}
