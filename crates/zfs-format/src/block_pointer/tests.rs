//! What could break: a bit's place, a size's unit, which of the five kinds a pointer is.

use super::*;
use proptest::prelude::*;

#[test]
fn any_words_stand_as_they_are_and_no_getter_panics() {
    crate::wire::checks::holds_for_any_bytes::<BlockPointer>();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&any::<[u64; 16]>(), |words| {
            let pointer = BlockPointer { words };
            let _ = (pointer.check(), pointer.embedded_data(), pointer.iv(), pointer.salt());
            let _ = (pointer.mac(), pointer.allocated(), pointer.fill(), pointer.protection());
            prop_assert!(pointer.embedded_data().is_none_or(|data| data.len() <= 112));
            Ok(())
        })
        .expect("no getter panics");
}

#[test]
fn each_property_has_its_bits() {
    // The positions of spa.h, written out once more.
    let mut pointer = BlockPointer::HOLE;
    pointer.set_sizes(0x2_0000, 0x1000);
    pointer.set_compression(Compression::Lz4);
    pointer.set_checksum_function(ChecksumFunction::Fletcher4);
    pointer.set_object_type(ObjectType::PLAIN_FILE_CONTENTS);
    pointer.set_level(3);
    pointer.set_dedup(true);
    pointer.set_endian(Endian::Little);
    assert_eq!(pointer.words[6], 0xc313_070f_0007_00ff);
    pointer.set_dva(0, Dva::new(5, 0x4000, 0x2000, true));
    assert_eq!(pointer.words[..2], [0x0000_0005_0000_0010, 0x8000_0000_0000_0020]);
    assert_eq!(pointer.kind(), Kind::Gang);
    assert_eq!(pointer.dva(0).to_string(), "5:4000:2000");
    assert_eq!(pointer.check(), Ok(()));
    pointer.set_births(7, 7);
    assert_eq!((pointer.physical_birth(), pointer.words[9]), (7, 0));
    pointer.set_births(7, 9);
    assert_eq!((pointer.physical_birth(), pointer.logical_birth()), (9, 7));
}

#[test]
fn an_encrypted_pointer_has_two_places_salt_iv_and_mac() {
    let mut pointer = BlockPointer::HOLE;
    pointer.set_object_type(ObjectType::PLAIN_FILE_CONTENTS);
    pointer.set_uses_crypt(true);
    pointer.set_dva(0, Dva::new(0, 512, 512, false));
    pointer.set_dva(1, Dva::new(1, 512, 512, false));
    pointer.set_fill(1);
    pointer.set_salt_and_iv(*b"saltsalt", *b"the iv is 12");
    pointer.set_mac(*b"0123456789abcdef");
    assert_eq!(pointer.protection(), Protection::Encrypted);
    assert_eq!(pointer.dvas().count(), 2);
    assert_eq!(pointer.fill(), 1);
    assert_eq!(pointer.salt(), Some(*b"saltsalt"));
    assert_eq!(pointer.iv(), Some(*b"the iv is 12"));
    assert_eq!(pointer.mac(), Some(*b"0123456789abcdef"));
}

proptest! {
    #[test]
    fn what_is_embedded_comes_out(
        data in proptest::collection::vec(any::<u8>(), 1..=112), logical in 1u64..1 << 20,
    ) {
        let pointer = BlockPointer::embed(&data, logical, Compression::Lz4);
        prop_assert_eq!(pointer.kind(), Kind::Embedded);
        prop_assert_eq!(pointer.embedded_data(), Some(data));
        prop_assert_eq!(pointer.logical_size(), logical);
        prop_assert_eq!(pointer.check(), Ok(()));
    }
}

#[test]
fn a_pointer_that_cannot_be_followed_says_why() {
    let mut pointer = BlockPointer::HOLE;
    pointer.set_dva(0, Dva::new(0, 512, 512, false));
    pointer.words[6] = 99 << 40;
    assert_eq!(pointer.check().expect_err("no such checksum").field, "checksum function");
    pointer.words[6] = 99 << 32;
    assert_eq!(pointer.check().expect_err("no such compression").field, "compression");
    pointer.words[6] = 60 << 48;
    assert_eq!(pointer.check().expect_err("no such type").field, "type");
    assert!(Pointers::of(&[0; 200], Endian::Little).is_err());
    let mut block = [0; 256];
    let holes = Pointers::of(&block, Endian::Little).expect("two pointers");
    assert!(holes.iter().eq([BlockPointer::HOLE; 2]) && holes.len() == 2 && !holes.is_empty());
    for endian in [Endian::Little, Endian::Big] {
        let pointer = BlockPointer { words: std::array::from_fn(|n| n as u64 * 0x0102_0304_0506) };
        put(&mut block, 1, &pointer, endian);
        assert_eq!(block[128..], pointer.encode(endian));
        let pointers = Pointers::of(&block, endian).expect("two pointers");
        let all = [Some(BlockPointer::HOLE), Some(pointer), None];
        assert_eq!([0, 1, 2].map(|index| pointers.get(index)), all);
        assert_eq!(
            pointers.get(1),
            Some(BlockPointer::decode(&block[128..], endian).expect("any"))
        );
    }
}
