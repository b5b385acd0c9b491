//! What labels hold: lists of names and values, the configuration, the tree of vdevs, boot environments, uberblocks.

use super::{little, order, record};
use crate::machine::Input;
use zfs_format::block_pointer::BlockPointer;
use zfs_format::embedded_checksum::{self as eck, label_verifier, seal};
use zfs_format::label::{BOOT_BYTES, BootEnvironment, CONFIGURATION_BYTES, Configuration, Ring};
use zfs_format::label::{decode_slot, encode_slot};
use zfs_format::nvlist::{Encoding, NvList, Text, Value};
use zfs_format::uberblock::{self, Uberblock};
use zfs_format::vdev::Vdev;
use zfs_format::{Endian, Record, Wire, features, history};

/// Lists, packed in both ways: what is decoded takes no more bytes than there are, and encodes to itself.
pub fn nvlist(input: &[u8]) {
    if let Ok((list, encoding, used)) = NvList::decode(input) {
        assert!(used <= input.len());
        let packed = list.encode(encoding);
        let (again, also, all) = NvList::decode(&packed).expect("what was decoded is encoded");
        assert_eq!((also, all), (encoding, packed.len()));
        // Bytes, since a number that is none (NaN) is not equal to itself.
        assert!(again.encode(encoding) == packed);
        let _ = list.encode(Encoding::Native(Endian::Big));
        for (name, _) in &list.pairs {
            if let Some(name) = name.as_str() {
                let _ = (list.get(name), features::Feature::find(name));
            }
        }
        if let Ok(vdev) = Vdev::from_list(&list) {
            assert_eq!(Vdev::from_list(&vdev.to_list()).as_ref(), Ok(&vdev));
            let _ = (vdev.is_leaf(), vdev.leaves().len());
        }
    }
    for (list, encoding) in history::records(input).unwrap_or_default() {
        let record = history::record(&list, encoding);
        assert_eq!(history::records(&record).map(|records| records.len()), Ok(1));
    }
}

/// The configuration and the boot environment, under checksums that fit.
pub fn label(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, bits) = order(&mut input);
    let body = input.rest();
    let block = |len: usize| {
        let mut block = vec![0; len];
        let room = body.len().min(len - eck::BYTES);
        block[..room].copy_from_slice(&body[..room]);
        seal(&mut block, label_verifier(0), endian);
        block
    };
    if bits & 1 == 0 {
        if let Ok(configuration) = Configuration::decode(&block(CONFIGURATION_BYTES), 0) {
            let again = configuration.encode(0).expect("it was in a block of this length");
            assert_eq!(Configuration::decode(&again, 0).and_then(|list| list.encode(0)), Ok(again));
            if let Ok(Some(tree)) = configuration.list.list("vdev_tree") {
                let _ = Vdev::from_list(tree).map(|vdev| vdev.leaves().len());
            }
        }
    } else if let Ok(boot) = BootEnvironment::decode(&block(BOOT_BYTES), 0) {
        let again = boot.encode(0, endian).expect("it was in a block of this length");
        assert_eq!(
            BootEnvironment::decode(&again, 0).and_then(|boot| boot.encode(0, endian)),
            Ok(again)
        );
    }
}

/// A slot of the ring, under a checksum that fits.
pub fn uberblock(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, bits) = order(&mut input);
    let ring = Ring::new(u64::from(bits));
    let mut slot = input.rest().to_vec();
    slot.resize(ring.slot_bytes(), 0);
    slot[..8].copy_from_slice(&endian.bytes(uberblock::MAGIC));
    seal(&mut slot, label_verifier(0), endian);
    let Ok((uberblock, also)) = decode_slot(&slot, 0) else { return };
    assert_eq!(also, endian);
    let again = encode_slot(&uberblock, ring, 0, endian);
    assert_eq!(decode_slot(&again, 0), Ok((uberblock.clone(), endian)));
    let _ = (uberblock.mmp(), uberblock.raidz_reflow(), uberblock.newer(&uberblock));
    let _ = (uberblock.root.check(), record::<BlockPointer>(&slot[40..], endian));
}

fn list() -> NvList {
    let mut disk = NvList::default();
    disk.set("type", Value::String(Text::from_bytes(b"disk")));
    disk.set("id", Value::Uint64(0));
    disk.set("guid", Value::Uint64(7));
    disk.set("path", Value::String(Text::from_bytes(b"/dev/sda1")));
    let mut tree = NvList::default();
    tree.set("type", Value::String(Text::from_bytes(b"raidz")));
    tree.set("id", Value::Uint64(0));
    tree.set("guid", Value::Uint64(9));
    tree.set("nparity", Value::Uint64(1));
    tree.set("ashift", Value::Uint64(12));
    tree.set("asize", Value::Uint64(1 << 28));
    tree.set("children", Value::NvListArray(vec![disk.clone(), disk.clone(), disk]));
    let mut list = NvList::default();
    list.set("version", Value::Uint64(5000));
    list.set("name", Value::String(Text::from_bytes(b"tank")));
    list.set("pool_guid", Value::Uint64(11));
    list.set("features_for_read", Value::NvList(NvList::default()));
    list.set("vdev_tree", Value::NvList(tree));
    list
}

/// Seeds of [`nvlist`].
pub fn nvlist_seeds() -> Vec<Vec<u8>> {
    let list = list();
    let native = Encoding::Native(Endian::Little);
    let tree = match list.list("vdev_tree") {
        Ok(Some(tree)) => tree.clone(),
        _ => NvList::default(),
    };
    vec![
        list.encode(Encoding::Xdr(Endian::Little)),
        list.encode(native),
        tree.encode(Encoding::Xdr(Endian::Little)),
        history::record(&list, native),
    ]
}

/// Seeds of [`label`].
pub fn label_seeds() -> Vec<Vec<u8>> {
    let packed = list().encode(Encoding::Xdr(Endian::Little));
    vec![
        little(&packed),
        [&[2][..], &1_u64.to_le_bytes(), &packed].concat(),
        [&[2][..], &[0; 8], b"menuentry"].concat(),
    ]
}

/// Seeds of [`uberblock`].
pub fn uberblock_seeds() -> Vec<Vec<u8>> {
    let zeros =
        Uberblock::decode(&[0; Uberblock::BYTES], Endian::Little).expect("zeros are numbers");
    let uberblock = Uberblock { version: 5000, txg: 9, guid_sum: 3, ..zeros };
    let slot = |endian| encode_slot(&uberblock, Ring::new(9), 0, endian);
    vec![little(&slot(Endian::Little)[..512]), [&[1], &slot(Endian::Big)[..512]].concat()]
}
