//! What could break: a part that is neither encrypted nor authenticated; a byte order that is not undone; bytes that
//! panic. Whether the messages are OpenZFS's is shown by its pools, where the keys are: in `zfs-store`.

use super::*;
use crate::block_pointer::BlockPointer;
use crate::block_pointer::Dva;
use crate::dnode::{BLOCK_BYTES, Dnode};
use crate::object_type::ObjectType;
use crate::objset::{Objset, ObjsetKind, ObjsetSize, flags};
use crate::wire::Endian;
use crate::wire::{Record, Wire};
use crate::zil::Chain;
use proptest::prelude::*;

/// A pointer as an encrypted file's dnode has it.
fn pointer(level: u8) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    pointer.set_object_type(ObjectType::PLAIN_FILE_CONTENTS);
    pointer.set_uses_crypt(true);
    pointer.set_endian(Endian::Little);
    pointer.set_level(level);
    pointer.set_dva(0, Dva::new(0, 0x4000, 0x1000, false));
    pointer.set_sizes(0x2_0000, 0x1000);
    pointer.set_mac(*b"0123456789abcdef");
    pointer
}

fn dnode(bonus_type: ObjectType, spill: bool) -> Dnode {
    Dnode {
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        indirect_shift: 17,
        levels: 2,
        bonus_type,
        checksum: 7,
        compression: 15,
        flags: 3 | if spill { 4 } else { 0 },
        data_block_sectors: 256,
        extra_slots: 1,
        block_id_max: 9,
        used: 4096,
        pointers: vec![pointer(1)],
        bonus: vec![0xb0; 168],
        spill: spill.then(|| pointer(0)),
    }
}

#[test]
fn of_dnodes_the_bonus_of_a_file_is_encrypted_and_space_is_not_authenticated() {
    for endian in [Endian::Little, Endian::Big] {
        let dnodes = [dnode(ObjectType::SA, false), dnode(ObjectType::SA, true)];
        let plain = dnode(ObjectType::DSL_DATASET, false);
        let mut block: Vec<u8> =
            dnodes.iter().flat_map(|d| d.encode(endian).expect("fits")).collect();
        block.extend(plain.encode(endian).expect("fits"));
        block.resize(BLOCK_BYTES, 0);
        let parts = dnode_block(&block, endian, 1).expect("dnodes");
        // 64 bytes of core and a pointer; to the end, or to the spill pointer.
        assert_eq!(parts.encrypted, [192..1024, 1024 + 192..2048 - 128]);
        let free_slots = BLOCK_BYTES / 512 - 6;
        let (core, pointer) = (64, 32);
        let whole = core + pointer + core + 2 * pointer + core + pointer + (1024 - 192);
        assert_eq!(parts.associated.len(), whole + free_slots * 512);
        let older = dnode_block(&block, endian, 0).expect("dnodes");
        assert_eq!(older.associated.len(), parts.associated.len() - 4 * 8);
        // Other space, other marks but the spill's.
        let other = Dnode { used: 99, flags: 0, ..dnodes[0].clone() };
        let mut changed = block.clone();
        changed[..1024].copy_from_slice(&other.encode(endian).expect("fits"));
        assert_eq!(dnode_block(&changed, endian, 1), Ok(parts.clone()));
        changed[1] += 1;
        assert_ne!(dnode_block(&changed, endian, 1), Ok(parts));
    }
}

#[test]
fn an_objset_has_one_message_in_both_orders() {
    let counted = dnode(ObjectType::NONE, false);
    let counted = Dnode { extra_slots: 0, bonus: Vec::new(), ..counted };
    let objset_of = |kind, used: [Option<Dnode>; 3]| Objset {
        size: ObjsetSize::V3,
        meta_dnode: Some(counted.clone()),
        zil: crate::zil::ZilHeader::decode(&[7; 192], Endian::Little).expect("any bytes"),
        kind,
        flags: flags::USER_ACCOUNTING,
        portable_mac: [1; 32],
        local_mac: [2; 32],
        used,
    };
    let whole = objset_of(ObjsetKind::FileSystem, [const { None }; 3]);
    let messages = |of: &Objset, endian| {
        objset(&of.encode(endian).expect("fits"), endian, 1).expect("an objset")
    };
    let little = messages(&whole, Endian::Little);
    assert_eq!(messages(&whole, Endian::Big), little);
    assert_eq!((little.portable_mac, little.local_mac, &little.local), ([1; 32], [2; 32], &None));
    assert_eq!(little.portable[..16], [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    // The intent log's header may change.
    let claimed = Objset {
        zil: crate::zil::ZilHeader::decode(&[0; 192], Endian::Little).expect("zeros"),
        ..whole.clone()
    };
    assert_eq!(messages(&claimed, Endian::Little), little);
    let counting =
        objset_of(ObjsetKind::FileSystem, [Some(counted.clone()), None, Some(counted.clone())]);
    let both = messages(&counting, Endian::Big);
    assert_eq!(both.portable, little.portable);
    assert_eq!(both.local.map(|local| local.len()), Some(8 + 2 * (64 + 32)));
}

#[test]
fn a_pointer_in_an_indirect_block_counts_without_what_a_raw_stream_loses() {
    let message = |pointer: &BlockPointer, version| {
        let block = pointer.encode(Endian::Little);
        indirect_block(&block, Endian::Little, version).expect("a pointer")
    };
    let compressed = |level, physical| {
        let mut pointer = pointer(level);
        pointer.set_compression(crate::compression::Compression::Lz4);
        pointer.set_sizes(0x2_0000, physical);
        pointer
    };
    for version in [0, 1] {
        let mut dedup = pointer(0);
        dedup.set_dedup(true);
        assert_eq!(message(&dedup, version), message(&pointer(0), version));
    }
    // Above level 0 neither compression nor size; at level 0, both, but no size in version 0.
    assert_eq!(message(&compressed(1, 512), 1), message(&pointer(1), 1));
    assert_ne!(message(&compressed(0, 512), 1), message(&compressed(0, 1024), 1));
    assert_eq!(message(&compressed(0, 512), 0), message(&compressed(0, 1024), 0));
    let mut hole = pointer(0);
    hole.set_dva(0, Dva::default());
    hole.set_mac([0; 16]);
    assert_eq!(message(&hole, 1), [0; 32]);
    assert_eq!(message(&hole, 0).len(), 24);
    let both = [pointer(0).encode(Endian::Big), pointer(1).encode(Endian::Big)].concat();
    let both = indirect_block(&both, Endian::Big, 1).expect("pointers");
    assert_eq!(both, [message(&pointer(0), 1), message(&pointer(1), 1)].concat());
}

proptest! {
    #[test]
    fn no_bytes_panic_and_no_part_reaches_beyond_the_block(
        bytes in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..4097),
        objset_len in prop::sample::select(vec![1024_usize, 2048, 4096]),
        used in 184_u64..600,
    ) {
        for endian in [Endian::Little, Endian::Big] {
            let mut log = bytes.clone();
            log.resize(log.len().max(700), 0);
            log[136..144].copy_from_slice(&endian.bytes(used));
            for parts in [dnode_block(&bytes, endian, 1).ok(), log_block(&log, endian).ok().map(|l| l.0)] {
                let mut at = 0;
                for range in parts.iter().flat_map(|parts| &parts.encrypted) {
                    prop_assert!(at <= range.start && range.start <= range.end);
                    at = range.end;
                }
                prop_assert!(at <= bytes.len().max(700));
            }
            let _ = indirect_block(&bytes, endian, 0);
            let mut block = bytes.clone();
            block.resize(objset_len, 0);
            let _ = objset(&block, endian, 1);
        }
    }

    #[test]
    fn each_byte_of_a_log_block_is_encrypted_or_authenticated_or_the_checksum(
        kinds in prop::collection::vec((prop::sample::select(vec![1_u64, 9, 9, 24, 12]), 0_usize..9), 0..5),
    ) {
        let endian = Endian::Little;
        let mut block = vec![0; Chain::BYTES];
        for (kind, more) in kinds {
            let len = 200 + 8 * more;
            block.extend_from_slice(&kind.to_le_bytes());
            block.extend_from_slice(&(len as u64).to_le_bytes());
            block.extend(vec![3; len - 16]);
        }
        let used = block.len();
        block.resize(4096, 0);
        block[136..144].copy_from_slice(&(used as u64).to_le_bytes());
        let (parts, _) = log_block(&block, endian).expect("records");
        let encrypted: usize = parts.encrypted.iter().map(|range| range.len()).sum();
        prop_assert_eq!(parts.end, used);
        prop_assert_eq!(encrypted + parts.associated.len() + 40, used);
    }
}
