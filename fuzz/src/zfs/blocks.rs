//! Pointers, indirect and gang blocks, dnodes, object sets, and what of them is authenticated in encrypted datasets.

use super::{order, record, words};
use crate::machine::Input;
use zfs_format::block_pointer::{self, BlockPointer, Dva};
use zfs_format::compression::Compression;
use zfs_format::embedded_checksum::{gang_verifier, seal, seal_folded};
use zfs_format::gang::GangHeader;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::Objset;
use zfs_format::{Endian, dnode, encryption};

/// Every question about a pointer has an answer.
fn ask(pointer: &BlockPointer) {
    let _ = (pointer.kind(), pointer.check(), pointer.protection(), pointer.object_type());
    let _ = (pointer.logical_size(), pointer.physical_size(), pointer.allocated());
    let _ = (pointer.compression(), pointer.checksum_function(), pointer.fill(), pointer.level());
    let _ = (pointer.salt(), pointer.iv(), pointer.mac(), pointer.endian(), pointer.is_dedup());
    let _ = (pointer.logical_birth(), pointer.physical_birth(), pointer.checksum());
    for dva in pointer.dvas() {
        let _ = (dva.offset(), dva.allocated(), dva.vdev(), dva.is_gang(), dva.is_valid());
    }
    if let Some(data) = pointer.embedded_data() {
        assert!(data.len() <= 112);
    }
}

/// Pointers by themselves, in indirect blocks, and in gang headers whose checksum fits.
pub fn block_pointers(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, version) = order(&mut input);
    let block = input.rest();
    if let Ok(pointers) = block_pointer::Pointers::of(block, endian) {
        assert_eq!(pointers.len(), block.len() / 128);
        pointers.iter().for_each(|pointer| ask(&pointer));
    }
    let Some(pointer) = record::<BlockPointer>(block, endian) else { return };
    let _ = encryption::indirect_block(block, endian, version.into());
    let mut gang = block.get(128..).unwrap_or_default().to_vec();
    gang.resize(512, 0);
    let verifier = gang_verifier(&pointer);
    if pointer.uses_crypt() {
        seal_folded(&mut gang, verifier, endian);
    } else {
        seal(&mut gang, verifier, endian);
    }
    if let Ok(header) = GangHeader::decode(&gang, &pointer) {
        let _ = header.logical_size();
        let again = header.encode(&pointer, endian);
        assert_eq!(GangHeader::decode(&again, &pointer), Ok(header));
    }
}

/// Blocks of dnodes.
pub fn dnodes(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, version) = order(&mut input);
    let mut block = input.rest().to_vec();
    block.resize(block.len().next_multiple_of(512), 0);
    for (slot, dnode) in dnode::dnodes(&block, endian).unwrap_or_default() {
        assert!((slot + dnode.slots()) * 512 <= block.len());
        if let Ok(again) = dnode.encode(endian) {
            assert_eq!(dnode::Dnode::decode(&again, endian), Ok(Some(dnode.clone())));
        }
        for block in [0, 1, 1 << 20, u64::MAX] {
            if let Some(path) = dnode.path(block) {
                assert!(path.pointer < dnode.pointers.len());
                assert_eq!(path.indirect.len() + 1, usize::from(dnode.levels));
            }
        }
        for level in 0..=8 {
            let _ = dnode.blocks_below(level);
        }
        let _ = (dnode.data_block_bytes(), dnode.used_bytes());
        dnode.pointers.iter().for_each(|pointer| ask(&pointer));
    }
    let _ = encryption::dnode_block(&block, endian, version.into());
}

/// The block of an object set, in its three lengths.
pub fn objset(input: &[u8]) {
    let mut input = Input::new(input);
    let (endian, bits) = order(&mut input);
    let mut block = input.rest().to_vec();
    block.resize([1024, 2048, 4096][usize::from(bits) % 3], 0);
    if let Ok(objset) = Objset::decode(&block, endian)
        && let Ok(again) = objset.encode(endian)
    {
        assert_eq!(Objset::decode(&again, endian).as_ref(), Ok(&objset));
    }
    let _ = encryption::objset(&block, endian, u64::from(bits) & 1);
}

fn pointer() -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    pointer.words[6] = 1 << 63 | 19 << 48 | 7 << 40 | 15 << 32 | 7 << 16 | 31;
    pointer.set_dva(0, Dva::new(0, 1 << 20, 4096, false));
    pointer.set_births(5, 5);
    pointer
}

/// A dnode with a pointer and a bonus.
fn dnode_bytes() -> Vec<u8> {
    // Type, indirect shift, levels, pointers; bonus type; block size and bonus length; the last block.
    let mut bytes = vec![ObjectType::PLAIN_FILE_CONTENTS.0, 17, 1, 1, 44, 7, 2, 0];
    bytes.extend([8, 0, 48, 0, 0, 0, 0, 0]);
    bytes.resize(64, 0);
    bytes.extend(words(&pointer().words));
    bytes.resize(512, 1);
    bytes
}

/// Seeds of [`block_pointers`].
pub fn pointer_seeds() -> Vec<Vec<u8>> {
    let embedded = BlockPointer::embed(b"some words", 512, Compression::Lz4);
    let pair = [words(&pointer().words), words(&embedded.words)].concat();
    vec![[&[0], &pair[..]].concat(), [&[3], &pair[..]].concat()]
}

/// Seeds of [`dnodes`].
pub fn dnode_seeds() -> Vec<Vec<u8>> {
    vec![[&[0], &dnode_bytes()[..], &dnode_bytes()[..]].concat()]
}

/// Seeds of [`objset`].
pub fn objset_seeds() -> Vec<Vec<u8>> {
    let mut meta = dnode_bytes();
    meta[0] = ObjectType::DNODE.0;
    let mut block = meta;
    block.resize(704, 0);
    block.extend(Endian::Little.bytes(2));
    vec![[&[0], &block[..]].concat(), [&[2], &block[..]].concat()]
}
