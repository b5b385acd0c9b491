//! Walks all blocks of a pool: from the MOS through each dataset down to the data. Just enough of what `zfs` does.

use rt::Buf;
use std::collections::BTreeSet;
use zfs_format::block_pointer::{BlockPointer, Pointers};
use zfs_format::dnode::{self, Dnode};
use zfs_format::dsl::dataset::DslDataset;
use zfs_format::nvlist::NvList;
use zfs_format::object_type::ObjectType;
use zfs_format::objset::Objset;
use zfs_format::zap::{BlockKind, fat, leaf};
use zfs_format::{Endian, Record};
use zfs_store::{BlockError, BlockRequest, Bookmark, ReadBlocks, Zio};

/// What a walk came to.
#[derive(Debug, Default, PartialEq)]
pub struct Walk {
    /// Blocks that were read.
    pub blocks: usize,
    /// Blocks of file and volume content among them.
    pub data: usize,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// What could not be read.
    pub errors: Vec<BlockError>,
}

async fn read(zio: &Zio, pointer: &BlockPointer, raw: bool) -> Result<Buf, BlockError> {
    let mut request = BlockRequest::new(*pointer, Bookmark::default());
    request.raw = raw;
    zio.read(request).await
}

/// Reads every block that can be reached from here, once.
pub async fn walk(zio: &Zio, root: &BlockPointer) -> Walk {
    let (mut walk, mut seen, mut open) = (Walk::default(), BTreeSet::new(), vec![*root]);
    while let Some(pointer) = open.pop() {
        if pointer.is_hole() || !seen.insert(pointer.words) {
            continue;
        }
        let encrypted = pointer.uses_crypt()
            && pointer.level() == 0
            && pointer.object_type() != ObjectType::OBJSET;
        let block = match read(zio, &pointer, encrypted).await {
            Ok(block) => block,
            Err(error) => {
                walk.errors.push(error);
                continue;
            }
        };
        walk.blocks += 1;
        for dva in pointer.dvas().filter(|dva| !pointer.is_embedded() && !dva.is_gang()) {
            let (size, birth) = (pointer.physical_size(), pointer.physical_birth());
            let allocated = zio.tree().allocated_on(dva.vdev(), size, birth);
            assert_eq!(allocated.unwrap_or(dva.allocated()), dva.allocated(), "{dva:?}");
        }
        walk.bytes += block.len() as u64;
        if encrypted {
            continue;
        }
        assert_eq!(
            block.len() as u64,
            pointer.logical_size(),
            "a block is as long as it should be"
        );
        let endian = pointer.endian();
        if pointer.level() > 0 {
            open.extend(Pointers::of(block.bytes(), endian).expect("pointers").iter());
        } else if pointer.object_type() == ObjectType::OBJSET {
            let objset = Objset::decode(block.bytes(), endian).expect("an objset");
            let dnodes = objset.meta_dnode.iter().chain(objset.used.iter().flatten());
            open.extend(dnodes.flat_map(|dnode| &dnode.pointers));
        } else if pointer.object_type() == ObjectType::DNODE {
            for (_, dnode) in dnode::dnodes(block.bytes(), endian).expect("dnodes") {
                open.extend(dnode.pointers.iter().chain(&dnode.spill));
                if dnode.bonus_type == ObjectType::DSL_DATASET {
                    let dataset = DslDataset::decode(&dnode.bonus, endian).expect("a dataset");
                    open.push(dataset.pointer);
                }
            }
        } else if matches!(
            pointer.object_type(),
            ObjectType::PLAIN_FILE_CONTENTS | ObjectType::ZVOL
        ) {
            walk.data += 1;
        }
    }
    walk
}

pub async fn objset(zio: &Zio, root: &BlockPointer) -> Option<(Objset, Endian)> {
    let block = read(zio, root, false).await.ok()?;
    Some((Objset::decode(block.bytes(), root.endian()).expect("an objset"), root.endian()))
}

/// A block of an object.
async fn block(zio: &Zio, dnode: &Dnode, number: u64) -> Option<Buf> {
    let path = dnode.path(number)?;
    let mut pointer = *dnode.pointers.get(path.pointer)?;
    for index in path.indirect {
        let block = read(zio, &pointer, false).await.ok()?;
        pointer = Pointers::of(block.bytes(), pointer.endian()).ok()?.get(index)?;
    }
    read(zio, &pointer, false).await.ok()
}

pub async fn object(zio: &Zio, mos: &(Objset, Endian), number: u64) -> Option<Dnode> {
    let (number, slot) = dnode::place_of(number);
    let block = block(zio, mos.0.meta_dnode.as_ref()?, number).await?;
    let found = dnode::dnodes(block.bytes(), mos.1).ok()?;
    found.into_iter().find(|(known, _)| *known == slot).map(|(_, dnode)| dnode)
}

pub async fn content(zio: &Zio, dnode: &Dnode, len: u64, _: Endian) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for number in 0..len.div_ceil(dnode.data_block_bytes().max(1)) {
        bytes.extend_from_slice(block(zio, dnode, number).await?.bytes());
    }
    bytes.truncate(len as usize);
    Some(bytes)
}

/// The pool's configuration in its MOS.
pub async fn configuration(zio: &Zio, root: &BlockPointer) -> Option<NvList> {
    let mos = objset(zio, root).await?;
    let [number] = value(zio, &mos, b"config").await?.try_into().ok()?;
    let dnode = object(zio, &mos, number).await?;
    let len = u64::from_le_bytes(dnode.bonus.get(..8)?.try_into().ok()?);
    let bytes = content(zio, &dnode, len, mos.1).await?;
    NvList::decode(&bytes).ok().map(|(list, ..)| list)
}

/// The salt of the pool's checksums.
pub async fn salt(zio: &Zio, root: &BlockPointer) -> Option<[u8; 32]> {
    let mos = objset(zio, root).await?;
    let bytes = value(zio, &mos, b"org.illumos:checksum_salt").await?;
    let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte as u8).collect();
    bytes.try_into().ok()
}

/// A value of the MOS's directory, which is a fat ZAP.
async fn value(zio: &Zio, mos: &(Objset, Endian), name: &[u8]) -> Option<Vec<u64>> {
    let directory = object(zio, mos, 1).await?;
    let first = block(zio, &directory, 0).await?;
    let header = fat::FatHeader::decode(first.bytes(), mos.1).ok()?;
    for number in 1..=directory.block_id_max {
        let bytes = block(zio, &directory, number).await?;
        if BlockKind::of(bytes.bytes(), mos.1) != BlockKind::Leaf {
            continue;
        }
        let leaf = leaf::Leaf::decode(bytes.bytes(), mos.1, header.flags).ok()?;
        let named = leaf.entries.into_iter().find(|entry| match &entry.key {
            leaf::Key::Name(known) => known == name,
            leaf::Key::Numbers(_) => false,
        });
        if let Some(entry) = named {
            return Some(entry.value.numbers);
        }
    }
    None
}
