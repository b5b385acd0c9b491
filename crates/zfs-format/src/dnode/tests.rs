//! What could break: the end of the bonus where a spill pointer stands, slots of large dnodes, the arithmetic of
//! the tree near its limits.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) fn dnode() -> impl Strategy<Value = Dnode> {
    let pointer = any::<[u64; 16]>().prop_map(|words| BlockPointer { words });
    (1u8..54, 12u8..=17, 1u8..=5, 0u8..4, any::<[u64; 2]>(), 1u16.., 0u8..3).prop_flat_map(
        move |(kind, indirect_shift, levels, marks, words, data_block_sectors, extra_slots)| {
            let spill = proptest::option::of(pointer.clone());
            (1..=POINTERS_MAX, spill).prop_flat_map({
                let pointer = pointer.clone();
                move |(many, spill)| {
                    // With a spill pointer there is no room for three pointers in one slot.
                    let slots = usize::from(extra_slots) + 1;
                    let spilled = if spill.is_some() { 128 } else { 0 };
                    let many = many.min((slots * 512 - 64 - spilled) / 128);
                    let room = slots * 512 - 64 - many * 128 - spilled;
                    let (pointers, bonus) =
                        (vec(pointer.clone(), many), vec(any::<u8>(), 0..=room));
                    (pointers, bonus).prop_map(move |(pointers, bonus)| Dnode {
                        object_type: ObjectType(kind),
                        indirect_shift,
                        levels,
                        bonus_type: ObjectType(kind),
                        checksum: 7,
                        compression: 15,
                        flags: marks & 3 | if spill.is_some() { flags::SPILL } else { 0 },
                        data_block_sectors,
                        extra_slots,
                        block_id_max: words[0],
                        used: words[1],
                        pointers,
                        bonus,
                        spill,
                    })
                }
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dnodes_of_any_shape_come_out_as_they_went_in(
        dnode in dnode(), cut in any::<prop::sample::Index>(), bit in any::<prop::sample::Index>(),
    ) {
        for endian in [Endian::Little, Endian::Big] {
            let mut bytes = dnode.encode(endian).expect("the shape can be");
            prop_assert_eq!(bytes.len(), dnode.slots() * SLOT_BYTES);
            prop_assert_eq!(Dnode::decode(&bytes, endian), Ok(Some(dnode.clone())));
            let mut block = bytes.clone();
            block.resize(BLOCK_BYTES - bytes.len(), 0);
            block.extend(&bytes);
            let slot = SLOTS_MAX - dnode.slots();
            prop_assert_eq!(
                dnodes(&block, endian),
                Ok(vec![(0, dnode.clone()), (slot, dnode.clone())])
            );
            for at in 0..SLOTS_MAX {
                let expected = (at == 0 || at == slot).then(|| dnode.clone());
                prop_assert_eq!(find(&block, at, endian), Ok(expected));
            }
            let mut copy = block.clone();
            put(&mut copy, 0, None, endian).expect("it is whole");
            prop_assert_eq!(dnodes(&copy, endian), Ok(vec![(slot, dnode.clone())]));
            prop_assert!(copy[..bytes.len()].iter().all(|byte| *byte == 0));
            put(&mut copy, 0, Some(&dnode), endian).expect("its shape can be");
            prop_assert_eq!(&copy, &block);
            // Only the end of the last slot may be missing, and only where nothing stands there.
            let _ = Dnode::decode(&bytes[..cut.index(bytes.len())], endian);
            prop_assert!(dnodes(&block[..BLOCK_BYTES - 1], endian).is_err());
            let bit = bit.index(bytes.len() * 8);
            copy[bit / 8] ^= 1 << (bit % 8);
            // Where all of the block can be read, each slot says the same by itself.
            if let Ok(all) = dnodes(&copy, endian) {
                for at in 0..SLOTS_MAX {
                    let expected = all.iter().find(|(slot, _)| *slot == at);
                    prop_assert_eq!(find(&copy, at, endian), Ok(expected.map(|(_, d)| d.clone())));
                }
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(Some(flipped)) = Dnode::decode(&bytes, endian) {
                let _ = (flipped.path(u64::MAX), flipped.used_bytes(), flipped.encode(endian));
            }
        }
    }

    #[test]
    fn the_path_leads_to_its_block(mut dnode in dnode(), block in any::<u64>()) {
        let block = block % dnode.blocks_below(dnode.levels);
        let path = dnode.path(block).expect("it is below the first pointer");
        prop_assert_eq!(path.pointer, 0);
        let sum = path.indirect.iter().zip((1..dnode.levels).rev());
        let reached: u64 = sum.map(|(at, level)| *at as u64 * dnode.blocks_below(level)).sum();
        prop_assert_eq!(reached, block);
        dnode.levels = LEVELS_MAX;
        prop_assert!(dnode.path(u64::MAX).is_none_or(|path| path.indirect.len() == 11));
    }
}

#[test]
fn what_cannot_be_is_refused_in_both_directions() {
    let dnode = Dnode {
        object_type: ObjectType::DNODE,
        indirect_shift: 17,
        levels: 2,
        bonus_type: ObjectType::NONE,
        checksum: 0,
        compression: 0,
        flags: 0,
        data_block_sectors: 32,
        extra_slots: 0,
        block_id_max: 0,
        used: 3,
        pointers: vec![BlockPointer::HOLE; 3],
        bonus: Vec::new(),
        spill: None,
    };
    assert!(dnode.encode(Endian::Little).is_ok());
    assert_eq!(dnode.used_bytes(), 1536);
    assert_eq!(dnode.data_block_bytes(), BLOCK_BYTES as u64);
    assert_eq!(dnode.path(1024 * 3), None);
    assert_eq!(dnode.path(1025), Some(Path { pointer: 1, indirect: vec![1] }));
    let wrong = [
        Dnode { pointers: vec![BlockPointer::HOLE; 4], ..dnode.clone() },
        Dnode { bonus: vec![0; 400], ..dnode.clone() },
        Dnode { spill: Some(BlockPointer::HOLE), ..dnode.clone() },
        Dnode { levels: 0, ..dnode.clone() },
        Dnode { data_block_sectors: 0, ..dnode.clone() },
        Dnode { object_type: ObjectType::NONE, ..dnode.clone() },
    ];
    for dnode in wrong {
        assert!(dnode.encode(Endian::Little).is_err());
    }
    assert_eq!(Dnode::decode(&[0; SLOT_BYTES], Endian::Little), Ok(None));
    assert_eq!(place_of(33), (1, 1));
}
