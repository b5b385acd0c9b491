//! Changes a pool as its own writer would: what was changed lies at a new place, and every checksum up to a new
//! uberblock fits.
//!
//! So a change reaches the code behind the checksums, which damage on a disk never does. The pool has one vdev, and that
//! one disk. Blocks are written uncompressed with fletcher 4, at places where the disk had zeros.
//!
//! A chain from a data block up: indirect blocks, its object's dnode in a block of the meta-dnode, that one's indirect
//! blocks, the object set's block, and then what points to that: a dataset's bonus in the MOS, or the uberblock.

use rt::{Buf, MemoryDevice};
use std::ops::Range;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use zfs::spa::Spa;
use zfs_format::block_pointer::{BlockPointer, Dva};
use zfs_format::checksum::{Checksum, ChecksumFunction};
use zfs_format::compression::Compression;
use zfs_format::dnode::{self, Dnode};
use zfs_format::embedded_checksum::{label_verifier, seal};
use zfs_format::label::{
    CONFIGURATION_AT, CONFIGURATION_BYTES, DATA_START, LABELS, Ring, label_at,
};
use zfs_format::uberblock::Uberblock;
use zfs_format::{Endian, Record};
use zfs_store::{BlockRequest, Bookmark, ReadBlocks};

/// What places are rounded to: the largest sector.
const SECTOR: u64 = 4096;
const POINTER_BYTES: usize = 128;
/// Where a dnode's pointers begin.
const POINTERS_AT: usize = 64;
const SLOT_BYTES: usize = 512;
/// Where a dataset's bonus has the pointer to its object set.
const DATASET_ROOT_AT: usize = 128;

/// Where something is changed.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The object set's own block.
    Objset,
    /// An object's dnode.
    Dnode(u64),
    /// A data block of an object.
    Data(u64, u64),
}

/// What changes bytes.
pub type Edit<'a> = &'a mut dyn FnMut(&mut [u8]);

/// A pool that is changed.
pub struct Forge {
    disk: Rc<MemoryDevice>,
    capacity: u64,
    spa: Rc<Spa>,
    gap: Range<u64>,
    uberblock: Uberblock,
    ring: Ring,
}

/// The change can't be made there: no such object or block, or it can't be read.
pub struct Nowhere;

impl Forge {
    /// Changes the pool that is open on this disk, which has zeros in this stretch.
    pub fn new(disk: &Rc<MemoryDevice>, capacity: u64, spa: &Rc<Spa>, gap: Range<u64>) -> Forge {
        let mut uberblock = spa.uberblock().clone();
        uberblock.txg += 1;
        let ashift = spa.vdevs().children.first().and_then(|top| top.ashift).unwrap_or(9);
        let gap = gap.start.max(DATA_START).next_multiple_of(SECTOR)..gap.end / SECTOR * SECTOR;
        Forge {
            disk: Rc::clone(disk),
            capacity,
            spa: Rc::clone(spa),
            gap,
            uberblock,
            ring: Ring::new(ashift),
        }
    }

    async fn read(&self, pointer: &BlockPointer) -> Result<Vec<u8>, Nowhere> {
        let request = BlockRequest::new(*pointer, Bookmark::default());
        let block = self.spa.zio().read(request).await.map_err(|_| Nowhere)?;
        Ok(block.bytes().to_vec())
    }

    /// Writes a block in place of another.
    fn write(&mut self, block: &[u8], like: &BlockPointer) -> Result<BlockPointer, Nowhere> {
        let (at, len) = (self.gap.start, (block.len() as u64).next_multiple_of(SECTOR));
        if len > self.gap.end.saturating_sub(at) {
            return Err(Nowhere);
        }
        self.gap.start += len;
        self.disk.poke(Offset(at), &Buf::copy_of(block).into());
        let mut pointer = BlockPointer::HOLE;
        pointer.set_endian(like.endian());
        pointer.set_sizes(block.len() as u64, block.len() as u64);
        pointer.set_compression(Compression::Off);
        pointer.set_checksum_function(ChecksumFunction::Fletcher4);
        pointer.set_object_type(like.object_type());
        pointer.set_level(like.level());
        pointer.set_dva(0, Dva::new(0, at - DATA_START, len, false));
        pointer.set_births(self.uberblock.txg, self.uberblock.txg);
        pointer.set_fill(like.fill());
        let words = match like.endian() {
            Endian::Little => codec::checksum::fletcher4(block).0,
            Endian::Big => return Err(Nowhere),
        };
        pointer.set_checksum(Checksum { words });
        Ok(pointer)
    }

    /// Changes a data block of an object, or the block of a meta-dnode: which of the dnode's pointers is another now.
    async fn data(
        &mut self,
        dnode: &Dnode,
        block: u64,
        edit: Edit<'_>,
    ) -> Result<(usize, BlockPointer), Nowhere> {
        let path = dnode.path(block).ok_or(Nowhere)?;
        let mut pointer = *dnode.pointers.get(path.pointer).ok_or(Nowhere)?;
        let mut above = Vec::new();
        for index in path.indirect {
            let bytes = self.read(&pointer).await?;
            let at = index * POINTER_BYTES;
            let next = bytes.get(at..at + POINTER_BYTES).ok_or(Nowhere)?;
            let next = BlockPointer::decode(next, pointer.endian()).map_err(|_| Nowhere)?;
            above.push((pointer, bytes, at));
            pointer = next;
        }
        let mut bytes = self.read(&pointer).await?;
        edit(&mut bytes);
        let mut below = self.write(&bytes, &pointer)?;
        for (pointer, mut bytes, at) in above.into_iter().rev() {
            let encoded = below.encode(pointer.endian());
            bytes[at..at + POINTER_BYTES].copy_from_slice(&encoded);
            below = self.write(&bytes, &pointer)?;
        }
        Ok((path.pointer, below))
    }

    /// Changes something of an object set: the pointer to the new one.
    async fn objset(
        &mut self,
        root: &BlockPointer,
        place: Place,
        edit: Edit<'_>,
    ) -> Result<BlockPointer, Nowhere> {
        let endian = root.endian();
        let mut block = self.read(root).await?;
        let meta = block.get(..SLOT_BYTES).ok_or(Nowhere)?;
        let meta = Dnode::decode(meta, endian).ok().flatten().ok_or(Nowhere)?;
        let object = match place {
            Place::Objset => {
                edit(&mut block);
                return self.write(&block, root);
            }
            Place::Dnode(object) | Place::Data(object, _) => object,
        };
        let (number, slot) = dnode::place_of(object);
        let at = slot * SLOT_BYTES;
        // Of a data block first the way up to its dnode, which then has another pointer.
        let patch = match place {
            Place::Data(_, data) => {
                let path = meta.path(number).ok_or(Nowhere)?;
                let dnodes = self.block_at(&meta, &path).await?;
                let own = dnodes.get(at..).ok_or(Nowhere)?;
                let own = Dnode::decode(own, endian).ok().flatten().ok_or(Nowhere)?;
                let (index, pointer) = self.data(&own, data, edit).await?;
                Some((at + POINTERS_AT + index * POINTER_BYTES, pointer.encode(endian)))
            }
            _ => None,
        };
        let mut change = |bytes: &mut [u8]| match &patch {
            Some((at, pointer)) => {
                if let Some(place) = bytes.get_mut(*at..*at + POINTER_BYTES) {
                    place.copy_from_slice(pointer);
                }
            }
            None => {
                let slot = at.min(bytes.len())..(at + SLOT_BYTES).min(bytes.len());
                edit(&mut bytes[slot]);
            }
        };
        let (index, pointer) = self.data(&meta, number, &mut change).await?;
        let at = POINTERS_AT + index * POINTER_BYTES;
        block[at..at + POINTER_BYTES].copy_from_slice(&pointer.encode(endian));
        self.write(&block, root)
    }

    async fn block_at(&self, dnode: &Dnode, path: &dnode::Path) -> Result<Vec<u8>, Nowhere> {
        let mut pointer = *dnode.pointers.get(path.pointer).ok_or(Nowhere)?;
        for index in &path.indirect {
            let bytes = self.read(&pointer).await?;
            let next =
                bytes.get(index * POINTER_BYTES..(index + 1) * POINTER_BYTES).ok_or(Nowhere)?;
            pointer = BlockPointer::decode(next, pointer.endian()).map_err(|_| Nowhere)?;
        }
        self.read(&pointer).await
    }

    /// Changes something of the MOS.
    pub async fn mos(&mut self, place: Place, edit: Edit<'_>) -> Result<(), Nowhere> {
        let root = self.uberblock.root;
        self.uberblock.root = self.objset(&root, place, edit).await?;
        Ok(())
    }

    /// Changes something of the dataset whose object has this number in the MOS.
    pub async fn dataset(
        &mut self,
        number: u64,
        place: Place,
        edit: Edit<'_>,
    ) -> Result<(), Nowhere> {
        let root = self.uberblock.root;
        let endian = root.endian();
        let meta = self.read(&root).await?;
        let meta = Dnode::decode(meta.get(..SLOT_BYTES).ok_or(Nowhere)?, endian);
        let meta = meta.ok().flatten().ok_or(Nowhere)?;
        let (block, slot) = dnode::place_of(number);
        let dnodes = self.block_at(&meta, &meta.path(block).ok_or(Nowhere)?).await?;
        let own = dnodes.get(slot * SLOT_BYTES..).ok_or(Nowhere)?;
        let own = Dnode::decode(own, endian).ok().flatten().ok_or(Nowhere)?;
        let bonus =
            own.bonus.get(DATASET_ROOT_AT..DATASET_ROOT_AT + POINTER_BYTES).ok_or(Nowhere)?;
        let bonus = BlockPointer::decode(bonus, endian).map_err(|_| Nowhere)?;
        let changed = self.objset(&bonus, place, edit).await?.encode(endian);
        let at = POINTERS_AT + own.pointers.len() * POINTER_BYTES + DATASET_ROOT_AT;
        let mut patch = |slot: &mut [u8]| {
            if let Some(place) = slot.get_mut(at..at + POINTER_BYTES) {
                place.copy_from_slice(&changed);
            }
        };
        self.mos(Place::Dnode(number), &mut patch).await
    }

    /// Changes the packed configuration in each label.
    pub fn configuration(&self, edit: Edit<'_>) {
        for number in 0..LABELS {
            let Some(label) = label_at(number, self.capacity) else { continue };
            let at = label + CONFIGURATION_AT;
            let mut block = self.peek(at, CONFIGURATION_BYTES);
            edit(&mut block);
            seal(&mut block, label_verifier(at), Endian::Little);
            self.disk.poke(Offset(at), &Buf::copy_of(&block).into());
        }
    }

    fn peek(&self, at: u64, len: usize) -> Vec<u8> {
        self.disk.peek(Offset(at), ByteCount(len as u64)).to_vec()
    }

    /// Writes the uberblock that leads to all this into each label, with a last change to it.
    pub fn finish(&self, edit: Edit<'_>) {
        let slot = self.ring.slot_of(self.uberblock.txg, 0);
        let Some(in_ring) = self.ring.slot_at(slot) else { return };
        for number in 0..LABELS {
            let Some(label) = label_at(number, self.capacity) else { continue };
            let at = label + in_ring;
            let endian = Endian::Little;
            let mut bytes = zfs_format::label::encode_slot(&self.uberblock, self.ring, at, endian);
            edit(&mut bytes);
            seal(&mut bytes, label_verifier(at), endian);
            self.disk.poke(Offset(at), &Buf::copy_of(&bytes).into());
        }
    }
}
