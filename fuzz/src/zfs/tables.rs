//! Tables: micro and fat ones, their headers, pointer tables and leaves, and what is kept in them by name: properties,
//! keys, errors.

use super::order;
use crate::machine::Input;
use zfs_format::dsl::crypto_key::CryptoKey;
use zfs_format::dsl::property::{self, PropertyValue};
use zfs_format::error_log::{self, HeadError};
use zfs_format::zap::leaf::{Key, Leaf, LeafValue};
use zfs_format::zap::micro::MicroZap;
use zfs_format::zap::{BlockKind, fat};
use zfs_format::{Endian, brt, ddt};

/// Any block of a table, and its values as what they may be.
pub fn zap(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, flags) = order(&mut input);
    let block = input.rest();
    let _ = BlockKind::of(block, endian);
    if let Ok(zap) = MicroZap::decode(block, endian) {
        let again = zap.encode(endian).expect("what was decoded fits");
        assert_eq!(MicroZap::decode(&again, endian).as_ref(), Ok(&zap));
        let _ = zap.get("a name");
    }
    if let Ok(header) = fat::FatHeader::decode(block, endian) {
        for hash in [0, u64::MAX, 1 << 63] {
            let _ = header.leaf_of(hash);
        }
        if let Ok(again) = header.encode(endian) {
            assert_eq!(fat::FatHeader::decode(&again, endian).as_ref(), Ok(&header));
        }
    }
    let _ = fat::table_block(block, endian);
    let Ok(leaf) = Leaf::decode(block, endian, u64::from(flags & 3)) else { return };
    // Entries may stand in another chain than their hash says; written again they stand in their own, and stay there.
    let settled = leaf.encode(endian).expect("what was decoded fits");
    let settled = Leaf::decode(&settled, endian, u64::from(flags & 3)).expect("it was encoded");
    assert_eq!(settled.entries.len(), leaf.entries.len());
    let again = settled.encode(endian).expect("what was decoded fits");
    assert_eq!(Leaf::decode(&again, endian, u64::from(flags & 3)).as_ref(), Ok(&settled));
    for entry in &leaf.entries {
        value(&entry.value, endian);
    }
    let find = |wanted: &'static str| {
        let mut entries = leaf.entries.iter();
        let named = |key: &Key| matches!(key, Key::Name(name) if name == wanted.as_bytes());
        entries.find(|entry| named(&entry.key)).map(|entry| entry.value.clone())
    };
    if let Ok(key) = CryptoKey::from_values(find) {
        let values = key.to_values();
        let find = |wanted: &'static str| {
            values.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.clone())
        };
        assert_eq!(CryptoKey::from_values(find), Ok(key));
    }
}

fn value(value: &LeafValue, endian: Endian) {
    let _ = (value.number(), brt::references(value, endian));
    if let Ok(property) = PropertyValue::from_value(value) {
        assert_eq!(PropertyValue::from_value(&property.to_value()), Ok(property));
    }
    if let Some(bytes) = value.bytes() {
        let _ = ddt::split_value(&bytes);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            names(text);
        }
    }
}

/// Names that carry numbers, and say so again.
fn names(text: &str) {
    let (name, source) = property::split_name(text);
    assert_eq!(property::split_name(&property::join_name(name, source)).0, name);
    if let Some(block) = error_log::parse(text) {
        assert_eq!(error_log::parse(&error_log::name(&block)), Some(block));
    }
    if let Some(error) = HeadError::parse(text) {
        assert_eq!(HeadError::parse(&error.name()), Some(error));
    }
    if let Some(number) = zfs_format::dsl::name_number(text.as_bytes()) {
        assert_eq!(
            zfs_format::dsl::name_number(zfs_format::dsl::number_name(number).as_bytes()),
            Some(number)
        );
    }
}

/// Seeds of [`zap`]: one micro table; leaves and headers come from pools (`examples/seeds.rs`).
pub fn seeds() -> Vec<Vec<u8>> {
    let mut micro = vec![0; 513];
    micro[1..9].copy_from_slice(&0x8000_0000_0000_0003_u64.to_le_bytes());
    micro[65..73].copy_from_slice(&7_u64.to_le_bytes());
    micro[79..88].copy_from_slice(b"recordsiz");
    vec![micro]
}
