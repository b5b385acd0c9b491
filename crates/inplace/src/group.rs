//! Regions and groups: bitmaps and descriptors. (The inodes of a group: [`inode_map`](crate::inode_map).)
//!
//! *Bitmap* of a region: one block, a bit for each block of the region, set where it is used. The bits
//! of the group's own metadata are set.
//!
//! *Descriptor* of a region, 16 bytes: free blocks u32, flags u32, and in a group's first region free
//! inodes u32 and directories u32. Flags: 1: the bitmap is on the device; 2: the inode map is.
//!
//! What was never used is made up in memory when it is first needed, and entered into the running
//! transaction.

use crate::core::{Core, Outcome, Tx};
use crate::free_map::FreeMap;
use crate::layout::Extent;
use crate::meta::MetaRef;
use rt::TreeErrorKind;
use stdx::bytes::{Problem, Reader, put};

const FLAG_BITMAP: u32 = 1;
const FLAG_INODE_MAP: u32 = 2;

/// A region's descriptor, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) free_blocks: u32,
    pub(crate) has_bitmap: bool,
    pub(crate) has_inode_map: bool,
    pub(crate) free_inodes: u32,
    pub(crate) directories: u32,
}

impl Descriptor {
    pub(crate) fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let flags = if self.has_bitmap { FLAG_BITMAP } else { 0 }
            | if self.has_inode_map { FLAG_INODE_MAP } else { 0 };
        put(&mut bytes, 0, &self.free_blocks.to_le_bytes());
        put(&mut bytes, 4, &flags.to_le_bytes());
        put(&mut bytes, 8, &self.free_inodes.to_le_bytes());
        put(&mut bytes, 12, &self.directories.to_le_bytes());
        bytes
    }
}

/// What is needed to mark blocks of a region: loaded beforehand, so that marking waits for nothing.
#[derive(Clone)]
pub(crate) struct RegionHandle {
    pub(crate) region: u32,
    bitmap: MetaRef,
    descriptor: MetaRef,
}

impl RegionHandle {
    pub(crate) fn mark(&self, tx: &Tx<'_>, core: &Core, extent: Extent, used: bool) {
        let region = core.shape.region(self.region);
        assert!(
            extent.start >= region.start && extent.end() <= region.end(),
            "marked blocks lie in their region"
        );
        let (from, to) = (extent.start - region.start, extent.end() - region.start);
        let wrong = bits(&self.bitmap.bytes(), from, to, !used) != to - from;
        if wrong {
            // The bitmap and what points to the blocks disagree: damage, and nothing more is safe.
            let field = if used { "a used block was free" } else { "a free block was used" };
            let at = core.shape.offset(self.bitmap.number);
            let error =
                Reader::little("bitmap", &[]).lying_at(at.bytes()).wrong(field, Problem::Unsound);
            let error = core.damaged(error);
            core.shut_down(error);
            return;
        }
        let bytes = (from / 8) as usize..to.div_ceil(8) as usize;
        let start = bytes.start as u64 * 8;
        tx.edit(&self.bitmap, bytes, |bytes| set_bits(bytes, from - start, to - start, used));
        let mut descriptor = core.descriptor(self.region);
        let len = extent.len as u32;
        descriptor.free_blocks = match used {
            true => descriptor.free_blocks.saturating_sub(len),
            false => descriptor.free_blocks.saturating_add(len),
        };
        core.set_descriptor(tx, &self.descriptor, self.region, descriptor);
    }
}

/// How many of the bits `from..to` are `set`.
pub(crate) fn bits(bytes: &[u8], from: u64, to: u64, set: bool) -> u64 {
    let mut ones = 0;
    let mut at = from;
    while at < to {
        let byte = bytes[(at / 8) as usize];
        if at.is_multiple_of(8) && to - at >= 8 {
            ones += u64::from(byte.count_ones());
            at += 8;
        } else {
            ones += u64::from(byte >> (at % 8) & 1);
            at += 1;
        }
    }
    if set { ones } else { to - from - ones }
}

/// Sets or clears the bits `from..to`.
fn set_bits(bytes: &mut [u8], from: u64, to: u64, set: bool) {
    let mut at = from;
    while at < to {
        let byte = &mut bytes[(at / 8) as usize];
        if at.is_multiple_of(8) && to - at >= 8 {
            *byte = if set { 0xff } else { 0 };
            at += 8;
        } else {
            let bit = 1 << (at % 8);
            *byte = if set { *byte | bit } else { *byte & !bit };
            at += 1;
        }
    }
}

impl Tx<'_> {
    /// Marks blocks as used: those of a grant, which memory holds for the caller already.
    pub(crate) fn mark_used(&self, region: &RegionHandle, extent: Extent) {
        region.mark(self, self.core, extent, true);
    }

    /// Marks blocks as free. They can be granted when the transaction is committed. `metadata` says that
    /// they held metadata: their records in the journal must not be replayed over what comes after.
    pub(crate) fn mark_free(&self, region: &RegionHandle, extent: Extent, metadata: bool) {
        region.mark(self, self.core, extent, false);
        self.core.journal.free(extent, metadata);
    }
}

impl Core {
    /// The descriptor of a region. Descriptors stay in memory.
    pub(crate) fn descriptor(&self, region: u32) -> Descriptor {
        let (block, at) = self.shape.descriptor(region);
        let space = self.space.borrow();
        let bytes = space.descriptors[(block - self.shape.descriptors.start) as usize].bytes();
        let word = |i: usize| {
            let bytes = bytes[at + 4 * i..at + 4 * i + 4].try_into();
            u32::from_le_bytes(bytes.expect("a slice of four bytes is four bytes"))
        };
        Descriptor {
            free_blocks: word(0),
            has_bitmap: word(1) & FLAG_BITMAP != 0,
            has_inode_map: word(1) & FLAG_INODE_MAP != 0,
            free_inodes: word(2),
            directories: word(3),
        }
    }

    pub(crate) fn descriptor_block(&self, region: u32) -> MetaRef {
        let (block, _) = self.shape.descriptor(region);
        let index = (block - self.shape.descriptors.start) as usize;
        MetaRef::clone(&self.space.borrow().descriptors[index])
    }

    pub(crate) fn set_descriptor(
        &self,
        tx: &Tx<'_>,
        block: &MetaRef,
        region: u32,
        new: Descriptor,
    ) {
        let (_, at) = self.shape.descriptor(region);
        tx.edit(block, at..at + 16, |bytes| bytes.copy_from_slice(&new.encode()));
    }

    /// Loads what is needed to mark blocks of the region that `block` lies in.
    pub(crate) async fn region_handle(&self, block: u64) -> Outcome<RegionHandle> {
        let number = self.shape.region_of(block).ok_or_else(|| self.stray(block))?;
        self.load_region(number).await?;
        let descriptor = self.descriptor_block(number);
        if let Some(handle) = self.make_bitmap(number, &descriptor) {
            return Ok(handle);
        }
        let bitmap = self.block(self.shape.bitmap_block(number)).await?;
        Ok(RegionHandle { region: number, bitmap, descriptor })
    }

    /// The error of a pointer to where no data can lie.
    pub(crate) fn stray(&self, block: u64) -> TreeErrorKind {
        let at = self.shape.offset(block.min(self.shape.end));
        let fields = Reader::little("block that something points to", &[]).lying_at(at.bytes());
        self.damaged(fields.wrong("place", Problem::Unsound))
    }

    /// Makes up the bitmap of a region that was never used.
    fn make_bitmap(&self, number: u32, descriptor: &MetaRef) -> Option<RegionHandle> {
        let known = self.descriptor(number);
        if known.has_bitmap {
            return None;
        }
        let tx = self.tx();
        let bitmap = self.fresh_block(self.shape.bitmap_block(number));
        let metadata = self.shape.region_metadata(number);
        tx.edit(&bitmap, 0..self.shape.block as usize, |bytes| set_bits(bytes, 0, metadata, true));
        self.set_descriptor(&tx, descriptor, number, Descriptor { has_bitmap: true, ..known });
        Some(RegionHandle { region: number, bitmap, descriptor: MetaRef::clone(descriptor) })
    }

    /// Makes sure that memory knows what is free in a region.
    pub(crate) async fn load_region(&self, number: u32) -> Outcome<()> {
        if self.space.borrow().is_loaded(number) {
            return Ok(());
        }
        let len = self.shape.region(number).len as u32;
        let known = self.descriptor(number);
        let map = if known.has_bitmap {
            let bitmap = self.block(self.shape.bitmap_block(number)).await?;
            if self.space.borrow().is_loaded(number) {
                return Ok(());
            }
            let bytes = bitmap.bytes();
            let free = bits(&bytes, 0, u64::from(len), false);
            if free != u64::from(self.descriptor(number).free_blocks) {
                let at = self.shape.offset(bitmap.number);
                let fields = Reader::little("bitmap", &[]).lying_at(at.bytes());
                return Err(self.damaged(fields.wrong("number of free blocks", Problem::Unsound)));
            }
            FreeMap::of_bitmap(&bytes, len)
        } else {
            let mut map = FreeMap::default();
            let metadata = self.shape.region_metadata(number) as u32;
            map.give(metadata, len - metadata);
            map
        };
        self.space.borrow_mut().set_map(number, map);
        Ok(())
    }
}
