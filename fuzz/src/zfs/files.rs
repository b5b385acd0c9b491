//! What files are described by: directory entries, system attributes, znodes, lists of access.

use super::{order, record};
use crate::machine::Input;
use zfs_format::Endian;
use zfs_format::zpl::acl::{self, ZnodeAcl};
use zfs_format::zpl::attributes::{Layouts, Registered, SystemAttributes};
use zfs_format::zpl::directory::{DirectoryEntry, FileKind};
use zfs_format::zpl::posix_acl;
use zfs_format::zpl::znode::Znode;

/// Attributes as OpenZFS registers them: number 3 has its length in the header; and layouts of them.
fn layouts() -> Layouts {
    let mut layouts = Layouts::default();
    for number in 0..22_u16 {
        let bytes = match number {
            3 | 10 | 18 => 0,
            0..3 | 20 | 21 => 16,
            _ => 8,
        };
        let registered = Registered { number, bytes, swap: 0 };
        layouts.register(&format!("A{number}"), registered);
    }
    layouts.add_layout("2", &[5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19]).expect("it is known");
    layouts
        .add_layout("3", &[5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19, 17])
        .expect("it is known");
    layouts.add_layout("4", &[18, 10]).expect("it is known");
    // Numbers that nobody registered.
    layouts.add_layout("5", &[60_000]).expect("it is known");
    layouts
}

/// Bonuses of files in both forms, lists of access in all versions, and values of directories.
pub fn files(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, bits) = order(&mut input);
    let layouts = layouts();
    let mut registry = Layouts::default();
    let _ = registry.add_layout(&bits.to_string(), &[input.number::<2>()]);
    let bytes = input.rest();
    if let Ok(attributes) = SystemAttributes::decode(bytes, endian, &layouts) {
        for number in 0..22 {
            let _ = attributes.get(number);
        }
        let again = attributes.encode(endian, &layouts).expect("what was decoded fits");
        assert_eq!(SystemAttributes::decode(&again, endian, &layouts), Ok(attributes));
    }
    let _ = record::<Znode>(bytes, endian);
    if let Some(znode) = record::<ZnodeAcl>(bytes, endian) {
        let _ = znode.entries(endian);
    }
    for version in 0..3 {
        if let Ok(entries) = acl::decode(bytes, version, endian)
            && version == 1
        {
            let again = acl::encode(&entries, endian).expect("what was decoded fits");
            assert_eq!(acl::decode(&again, version, endian), Ok(entries));
        }
    }
    if let Ok(entries) = posix_acl::decode(bytes) {
        assert_eq!(posix_acl::decode(&posix_acl::encode(&entries)), Ok(entries));
    }
    let mut words = Input::new(bytes);
    let value = words.number::<8>();
    let entry = DirectoryEntry::from_value(value);
    assert_eq!(DirectoryEntry::from_value(entry.to_value()), entry);
    let _ = FileKind::of_mode(value);
    let attribute = Registered::from_value(value);
    assert_eq!(Registered::from_value(attribute.to_value()), attribute);
}

/// Seeds of [`files`].
pub fn seeds() -> Vec<Vec<u8>> {
    let layouts = layouts();
    let numbers = [5_u16, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19];
    let value = |number: &u16| {
        let len = match number {
            3 => 24,
            0..3 => 16,
            _ => 8,
        };
        (*number, vec![*number as u8; len])
    };
    let attributes = SystemAttributes { layout: 2, values: numbers.iter().map(value).collect() };
    let bonus = attributes.encode(Endian::Little, &layouts).expect("they fit");
    let posix = [2_u32.to_le_bytes(), [1, 0, 7, 0], [0xff; 4], [2, 0, 6, 0], [5, 0, 0, 0]].concat();
    vec![[&[0, 0, 0], &bonus[..]].concat(), [&[0, 0, 0], &posix[..]].concat(), vec![0; 267]]
}
