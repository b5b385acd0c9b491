//! What is on the disks: a header and an allocation table on each. All of it is our own.
//!
//! | at | what |
//! |---|---|
//! | 0 and 4 KiB | the header, in two slots |
//! | 8 KiB + 8 KiB × *b* | block *b* of the allocation table, in two slots of 4 KiB |
//! | the next multiple of the AU | AU 0, AU 1, … |
//!
//! Numbers are little-endian. A header: magic `SPNDLASM`, u32 version, u32 number of this disk, u64 group,
//! u64 epoch, u64 bytes of an AU, u32 extents, u8 copies, u8 striping (1: fine), u8 clean, u8 in step,
//! u32 disks, u32 of them that the pattern was made of; from byte 64 for each disk u32 AUs, u16 failure
//! group, u8 state, u8 0. A table block: magic `SPNDLAUT`, u64 group, u64 generation, u32 number of the disk, u32
//! number of the block; from byte 32 for each AU u32 extent (all ones: free), u8 copy, 3 bytes 0, u64
//! sequence. Both end with 64 bits of FNV-1a over all before.
//!
//! A table block that was never written is zeros, and then its AUs hold what the
//! [pattern](crate::pattern) says: a new group writes headers only.
//!
//! **The crash argument.**
//!
//! 1. *Blocks.* Header and table blocks are written with FUA, each time into the slot that does not hold
//!    the latest. A torn one fails its checksum, and the other slot holds what was before.
//! 2. *A move.* Holding the extent alone: (a) the AU is read; (b) it is written to a free AU, with FUA;
//!    (c) that AU's table entry claims the copy, with the next sequence number; (d) the old AU's entry is freed;
//!    (e) I/O goes to the new place. Each step is durable before the next. A cut before (c) is durable:
//!    the copy is claimed by the old AU only, whose bytes nobody has changed. Between (c) and (d): both
//!    claim it and both hold the same bytes, since no write got in; the later claim wins. After (d): the new one.
//! 3. *Losing claims* are freed, durably, before an opened group takes requests. So whenever a
//!    write can be answered each copy has one claim: a disk that is lost later can't bring an older claim
//!    back to life.
//! 4. *Reuse.* An AU is given to another copy only after its entry was freed durably.
//! 5. *A failed disk* lacks writes. So a write that left it out is answered only when the headers of all
//!    other disks say that it failed; then its claims do not count when the group is opened.
//! 6. *Copies out of step.* A cut can leave a write on one copy and not on the other. Reads take the
//!    first copy that works, so they agree with one another; the header says that the group was not
//!    closed, and `resync` makes the copies agree before a lost disk could show the difference.
//!
//! 7. *Added disks* get their headers before the others get theirs, so no header lists a disk that has
//!    none. A cut in between leaves the new disk with the latest header; it holds nothing yet.
//!
//! What it does not guard against: opening a group while some of its disks are left out, writing, and opening it
//! again with only those.

use crate::disk_state::DiskState;
use crate::map::Claim;
use crate::pattern::{Copy, Shape};
use crate::spec::{DISKS_MAX, Striping};

/// Bytes of a header or table block.
pub(crate) const BLOCK: u64 = 4096;
/// AUs that one table block describes.
pub(crate) const ENTRIES: u32 = 253;
const TABLE_START: u64 = 2 * BLOCK;
const VERSION: u32 = 1;
const HEADER_MAGIC: &[u8; 8] = b"SPNDLASM";
const TABLE_MAGIC: &[u8; 8] = b"SPNDLAUT";
const FREE: u32 = u32::MAX;
const CHECKSUM_AT: usize = BLOCK as usize - 8;
const DISKS_AT: usize = 64;
const ENTRIES_AT: usize = 32;

/// Where things lie on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskLayout {
    pub(crate) aus: u32,
    /// Blocks of the table.
    pub(crate) blocks: u32,
    /// Where AU 0 begins.
    pub(crate) data_start: u64,
}

impl DiskLayout {
    /// The layout of a disk of this size; `None` where not one AU fits.
    pub(crate) fn new(capacity: u64, au: u64) -> Option<DiskLayout> {
        // As many blocks as the AUs would need if there were no table; at most one too many.
        let blocks = (capacity / au).min(u64::from(u32::MAX) - 1).div_ceil(u64::from(ENTRIES));
        let data_start = (TABLE_START + blocks * 2 * BLOCK).next_multiple_of(au);
        let aus = capacity.checked_sub(data_start)? / au;
        let aus = aus.min(u64::from(u32::MAX) - 1) as u32;
        (aus > 0).then_some(DiskLayout { aus, blocks: blocks as u32, data_start })
    }

    /// Where a slot of a table block lies.
    pub(crate) fn table_at(block: u32, slot: u8) -> u64 {
        TABLE_START + (u64::from(block) * 2 + u64::from(slot)) * BLOCK
    }

    /// Where a slot of the header lies.
    pub(crate) fn header_at(slot: u8) -> u64 {
        u64::from(slot) * BLOCK
    }

    /// Bytes of header and table.
    pub(crate) fn metadata_len(&self) -> u64 {
        TABLE_START + u64::from(self.blocks) * 2 * BLOCK
    }
}

/// A header, read or to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) disk: u16,
    pub(crate) group: u64,
    /// The later header is right.
    pub(crate) epoch: u64,
    pub(crate) au: u64,
    pub(crate) extents: u32,
    pub(crate) copies: u8,
    pub(crate) striping: Striping,
    /// It was closed: nothing was under way.
    pub(crate) clean: bool,
    /// All copies agree, but for what was under way when it was not closed.
    pub(crate) in_step: bool,
    /// So many of the disks the pattern was made of, the first ones.
    pub(crate) initial: u16,
    pub(crate) disks: Vec<(Shape, DiskState)>,
}

/// FNV-1a, which is enough to tell a torn block from a whole one.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

fn sealed(mut block: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&block[..CHECKSUM_AT]);
    put(&mut block, CHECKSUM_AT, &sum.to_le_bytes());
    block
}

fn bytes_at<const N: usize>(block: &[u8], at: usize) -> Option<[u8; N]> {
    block.get(at..at + N)?.try_into().ok()
}

fn u16_at(block: &[u8], at: usize) -> Option<u16> {
    bytes_at(block, at).map(u16::from_le_bytes)
}

fn u32_at(block: &[u8], at: usize) -> Option<u32> {
    bytes_at(block, at).map(u32::from_le_bytes)
}

fn u64_at(block: &[u8], at: usize) -> Option<u64> {
    bytes_at(block, at).map(u64::from_le_bytes)
}

/// Whether a block has this magic and is whole.
fn is_whole(block: &[u8], magic: &[u8; 8]) -> Option<()> {
    let sum = u64_at(block, CHECKSUM_AT)?;
    (block.get(..8)? == magic && checksum(block.get(..CHECKSUM_AT)?) == sum).then_some(())
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.disks.len() <= DISKS_MAX, "a header lists so many disks");
        let mut block = vec![0; BLOCK as usize];
        put(&mut block, 0, HEADER_MAGIC);
        put(&mut block, 8, &VERSION.to_le_bytes());
        put(&mut block, 12, &u32::from(self.disk).to_le_bytes());
        put(&mut block, 16, &self.group.to_le_bytes());
        put(&mut block, 24, &self.epoch.to_le_bytes());
        put(&mut block, 32, &self.au.to_le_bytes());
        put(&mut block, 40, &self.extents.to_le_bytes());
        let fine = u8::from(self.striping == Striping::Fine);
        put(&mut block, 44, &[self.copies, fine, u8::from(self.clean), u8::from(self.in_step)]);
        put(&mut block, 48, &(self.disks.len() as u32).to_le_bytes());
        put(&mut block, 52, &u32::from(self.initial).to_le_bytes());
        for (index, (shape, state)) in self.disks.iter().enumerate() {
            let at = DISKS_AT + index * 8;
            put(&mut block, at, &shape.aus.to_le_bytes());
            put(&mut block, at + 4, &shape.failure_group.to_le_bytes());
            put(&mut block, at + 6, &[state.number()]);
        }
        sealed(block)
    }

    /// `None` for anything but a whole header that makes sense.
    pub(crate) fn decode(block: &[u8]) -> Option<Header> {
        is_whole(block, HEADER_MAGIC)?;
        let copies = *block.get(44)?;
        let count = u32_at(block, 48)? as usize;
        let initial = u32_at(block, 52)? as usize;
        let disk = u32_at(block, 12)?;
        let sound = u32_at(block, 8)? == VERSION
            && (1..=3).contains(&copies)
            && (1..=DISKS_MAX).contains(&count)
            && (1..=count).contains(&initial)
            && (disk as usize) < count;
        if !sound {
            return None;
        }
        let au = u64_at(block, 32)?;
        let sound = au.is_power_of_two()
            && (crate::spec::AU_MIN.bytes()..=crate::spec::AU_MAX.bytes()).contains(&au);
        if !sound {
            return None;
        }
        let mut disks = Vec::with_capacity(count);
        for index in 0..count {
            let at = DISKS_AT + index * 8;
            let shape = Shape { aus: u32_at(block, at)?, failure_group: u16_at(block, at + 4)? };
            if shape.aus == 0 {
                return None;
            }
            disks.push((shape, DiskState::of_number(*block.get(at + 6)?)?));
        }
        Some(Header {
            disk: disk as u16,
            group: u64_at(block, 16)?,
            epoch: u64_at(block, 24)?,
            au,
            extents: u32_at(block, 40)?,
            copies,
            striping: if *block.get(45)? == 1 { Striping::Fine } else { Striping::Coarse },
            clean: *block.get(46)? == 1,
            in_step: *block.get(47)? == 1,
            initial: initial as u16,
            disks,
        })
    }
}

/// A table block, read or to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableBlock {
    pub(crate) group: u64,
    /// Of two slots the one with the higher generation is right.
    pub(crate) generation: u64,
    pub(crate) disk: u16,
    pub(crate) block: u32,
    /// Of the AUs from `block` × [`ENTRIES`] on; what lies beyond the disk is free.
    pub(crate) entries: Vec<Option<Claim>>,
}

impl TableBlock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= ENTRIES as usize, "a block holds so many entries");
        let mut block = vec![0; BLOCK as usize];
        put(&mut block, 0, TABLE_MAGIC);
        put(&mut block, 8, &self.group.to_le_bytes());
        put(&mut block, 16, &self.generation.to_le_bytes());
        put(&mut block, 24, &u32::from(self.disk).to_le_bytes());
        put(&mut block, 28, &self.block.to_le_bytes());
        for index in 0..ENTRIES as usize {
            let at = ENTRIES_AT + index * 16;
            match self.entries.get(index).copied().flatten() {
                None => put(&mut block, at, &FREE.to_le_bytes()),
                Some(Claim { copy, sequence }) => {
                    put(&mut block, at, &copy.extent.to_le_bytes());
                    put(&mut block, at + 4, &[copy.copy]);
                    put(&mut block, at + 8, &sequence.to_le_bytes());
                }
            }
        }
        sealed(block)
    }

    /// `None` for anything but a whole block; so also for one that was never written.
    pub(crate) fn decode(block: &[u8]) -> Option<TableBlock> {
        is_whole(block, TABLE_MAGIC)?;
        let mut entries = Vec::with_capacity(ENTRIES as usize);
        for index in 0..ENTRIES as usize {
            let at = ENTRIES_AT + index * 16;
            let extent = u32_at(block, at)?;
            let copy = Copy { extent, copy: *block.get(at + 4)? };
            let sequence = u64_at(block, at + 8)?;
            entries.push((extent != FREE).then_some(Claim { copy, sequence }));
        }
        Some(TableBlock {
            group: u64_at(block, 8)?,
            generation: u64_at(block, 16)?,
            disk: u16::try_from(u32_at(block, 24)?).ok()?,
            block: u32_at(block, 28)?,
            entries,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            disk: 1,
            group: 77,
            epoch: 5,
            au: 1 << 20,
            extents: 1000,
            copies: 2,
            striping: Striping::Fine,
            clean: false,
            in_step: true,
            initial: 2,
            disks: [DiskState::Member, DiskState::Failed, DiskState::Dropping]
                .map(|state| (Shape { aus: 9, failure_group: 300 }, state))
                .to_vec(),
        }
    }

    proptest! {
        /// Bytes of a disk are whatever they are: reading them must not panic, and a torn block must not
        /// pass for a whole one.
        #[test]
        fn a_changed_block_is_refused(at in 0..BLOCK as usize, bit in 0..8_u32) {
            let claim = Claim { copy: Copy { extent: 3, copy: 1 }, sequence: 9 };
            let table = TableBlock {
                group: 77, generation: 3, disk: 1, block: 2, entries: vec![None, Some(claim)],
            };
            for mut block in [header().encode(), table.encode()] {
                block[at] ^= 1 << bit;
                prop_assert_eq!(Header::decode(&block), None);
                prop_assert_eq!(TableBlock::decode(&block), None);
            }
        }
    }

    #[test]
    fn blocks_read_as_they_were_written() {
        assert_eq!(Header::decode(&header().encode()), Some(header()));
        let claim = Claim { copy: Copy { extent: 3, copy: 1 }, sequence: u64::MAX };
        let mut entries = vec![None; ENTRIES as usize];
        entries[252] = Some(claim);
        let table = TableBlock { group: 77, generation: 3, disk: 1, block: 2, entries };
        assert_eq!(TableBlock::decode(&table.encode()), Some(table));
        assert_eq!(TableBlock::decode(&[0; 4096]), None);
        assert_eq!(TableBlock::decode(&[]), None);
    }

    #[test]
    fn a_disk_of_three_terabytes_gives_a_ten_thousandth_to_its_metadata() {
        let layout = DiskLayout::new(3_000_592_982_016, 1 << 20).expect("large enough");
        assert!(layout.data_start < 100 << 20 && layout.aus > 2_861_400, "{layout:?}");
        assert_eq!(DiskLayout::new(1 << 20, 1 << 20), None);
        assert_eq!(DiskLayout::new(2 << 20, 1 << 20).expect("one").aus, 1);
    }
}
