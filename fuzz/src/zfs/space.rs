//! Space and who shares it: space maps, lists of freed blocks, mappings of removed vdevs, deduplication, clones.

use super::{order, record, words};
use crate::machine::Input;
use zfs_format::ddt::{DdtEntry, DdtFlatEntry, DdtHistogram, DdtKey, log_records, split_value};
use zfs_format::dsl::bookmark::RedactionList;
use zfs_format::dsl::bpobj::BpObj;
use zfs_format::dsl::deadlist::Deadlist;
use zfs_format::object_type::ObjectType;
use zfs_format::space_map::{Entries, Entry, SpaceMapHeader, encode};
use zfs_format::vdev::indirect::{BirthEntry, Mapping, MappingEntry, entries};
use zfs_format::{Wire, brt, ddt};

/// Entries of a space map: as many as there are words, and a good one encodes to itself. Its header.
pub fn space_map(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, _) = order(&mut input);
    let bytes = input.rest();
    let read: Vec<_> = Entries::new(bytes, endian).collect();
    assert!(read.len() <= bytes.len().div_ceil(8));
    assert!(
        read.iter().rev().skip(1).all(Result::is_ok),
        "nothing after a broken entry is believed"
    );
    let good: Vec<Entry> = read.into_iter().flatten().collect();
    let again = encode(&good, endian).expect("what was decoded fits");
    let read: Result<Vec<_>, _> = Entries::new(&again, endian).collect();
    assert_eq!(read, Ok(good));
    if let Ok(header) = SpaceMapHeader::decode(bytes, endian) {
        assert_eq!(SpaceMapHeader::decode(&header.encode(endian), endian), Ok(header));
    }
}

/// Headers of lists of blocks, dead lists, redaction lists, mappings.
pub fn lists(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, bits) = order(&mut input);
    let bytes = input.rest();
    if let Ok(list) = BpObj::decode(bytes, endian) {
        assert_eq!(BpObj::decode(&list.encode(endian), endian), Ok(list));
    }
    for kind in [ObjectType::DEADLIST, ObjectType::BPOBJ, ObjectType(bits)] {
        if let Ok(list) = Deadlist::decode(kind, bytes, endian) {
            let (kind, again) = list.encode(endian);
            assert_eq!(Deadlist::decode(kind, &again, endian), Ok(list));
        }
    }
    if let Ok(list) = RedactionList::decode(bytes, endian) {
        assert_eq!(RedactionList::decode(&list.encode(endian), endian), Ok(list));
    }
    let _ = Mapping::from_bonus(bytes, endian);
    if let Ok(mappings) = entries::<MappingEntry>(bytes, endian) {
        for mapping in &mappings {
            let _ = mapping.source();
        }
    }
    let _ = entries::<BirthEntry>(bytes, endian);
}

/// Tables and logs of deduplication, and counts of clones.
pub fn sharing(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, _) = order(&mut input);
    let bytes = input.rest();
    if let Ok((compression, order, stored)) = split_value(bytes) {
        let again = ddt::join_value(compression, order, stored);
        assert_eq!(split_value(&again), Ok((compression, order, stored)));
    }
    if let Ok(records) = log_records(bytes, endian) {
        assert!(records.len() * DdtKey::BYTES <= bytes.len());
    }
    if let Some(key) = record::<DdtKey>(bytes, endian) {
        let _ = (key.logical_size(), key.physical_size(), key.compression(), key.is_encrypted());
    }
    let _ = (record::<DdtEntry>(bytes, endian), record::<DdtFlatEntry>(bytes, endian));
    let _ = record::<DdtHistogram>(bytes, endian);
    let _ = brt::counts(bytes, endian);
}

/// Seeds of [`space_map`].
pub fn space_map_seeds() -> Vec<Vec<u8>> {
    let entries = [0x8010_0000_0000_0009, 0x0000_0010_0000_0003, 0x0000_0020_0000_8003];
    let long = [0xc000_0000_0100_0005, 0x8000_0000_0000_0002];
    vec![super::little(&words(&[&entries[..], &long].concat())), super::little(&[7; 280])]
}

/// Seeds of [`lists`] and [`sharing`].
pub fn list_seeds() -> Vec<Vec<u8>> {
    vec![super::little(&words(&[3; 40])), super::little(&words(&[1 | 152 << 8 | 1 << 56; 19]))]
}
