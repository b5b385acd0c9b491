//! How much space a volume may come to take when all of it is written.
//!
//! ```text
//!   data       its blocks, as much larger as they are on the worst vdev than a block of 128 KiB is
//!   metadata   seven blocks of dnodes, and the indirect blocks of all levels, of 128 KiB, a copy more than data
//! ```
//!
//! It is OpenZFS's estimate to the byte: who compares the reservation with it finds a volume *thick*.
//!
//! Source: OpenZFS, `libzfs_dataset.c` (`zvol_volsize_to_reservation`, `volsize_from_vdevs`), `zfs_main.c`
//! (`default_volblocksize`).

use crate::dsl::features::BLOCK_BYTES_PLAIN;
use zfs_format::vdev::{Vdev, VdevKind};

/// The block by which space is counted.
const TYPICAL_BYTES: u64 = 128 << 10;
/// Bytes of an indirect block that is not compressed.
const INDIRECT_BYTES: u64 = 128 << 10;
/// Pointers in one.
const POINTERS: u64 = 1024;
/// Blocks of the array of dnodes, one a level.
const DNODE_BLOCKS: u64 = 7;
/// Copies of a block at the most.
const COPIES_MAX: u64 = 3;
/// Bytes of a sector.
const SECTOR_SHIFT: u32 = 9;
/// Bytes of a block where nobody says otherwise.
pub const BLOCK_BYTES_DEFAULT: u64 = 16 << 10;

/// Bytes that a block takes on a raidz or dRAID; nothing for other vdevs, on which it takes what it is.
fn allocated(top: &Vdev, bytes: u64) -> Option<u64> {
    let shift = top.ashift.unwrap_or(u64::from(SECTOR_SHIFT)).clamp(9, 16) as u32;
    let sectors = ((bytes - 1) >> shift) + 1;
    match &top.kind {
        VdevKind::Raidz(raidz) => {
            let data = (top.children.len() as u64).saturating_sub(raidz.parity).max(1);
            let all = sectors + raidz.parity * sectors.div_ceil(data);
            Some(all.next_multiple_of(raidz.parity + 1) << shift)
        }
        VdevKind::Draid(draid) => {
            let data = draid.data.max(1);
            Some((sectors.div_ceil(data) * (data + draid.parity)) << shift)
        }
        _ => None,
    }
}

/// Bytes of data as they count on the worst of these top-level vdevs.
fn data_bytes(tops: &[Vdev], blocks: u64, block_bytes: u64) -> u64 {
    let on = |top: &Vdev| {
        let (whole, typical) = (allocated(top, block_bytes)?, allocated(top, TYPICAL_BYTES)?);
        let units = blocks.saturating_mul(whole) / (typical >> SECTOR_SHIFT).max(1);
        Some(units.saturating_mul(TYPICAL_BYTES >> SECTOR_SHIFT))
    };
    let worst = tops.iter().filter_map(on).max().unwrap_or(0);
    if worst == 0 { blocks.saturating_mul(block_bytes) } else { worst }
}

/// Bytes that are to be kept free for a volume of so many bytes.
pub fn reservation(tops: &[Vdev], bytes: u64, block_bytes: u64, copies: u64) -> u64 {
    let mut blocks = bytes / block_bytes.max(1);
    let data = data_bytes(tops, blocks, block_bytes).saturating_mul(copies);
    let mut metadata = DNODE_BLOCKS;
    while blocks > 1 {
        blocks = blocks.div_ceil(POINTERS);
        metadata += blocks;
    }
    metadata *= COPIES_MAX.min(copies + 1);
    data.saturating_add(metadata.saturating_mul(INDIRECT_BYTES))
}

/// Bytes of a block where nobody says otherwise: more than half of what is allocated for one is used.
pub fn default_block_bytes(tops: &[Vdev]) -> u64 {
    let smallest = tops.iter().map(|top| match &top.kind {
        VdevKind::Draid(draid) => draid.data << top.ashift.unwrap_or(9).clamp(9, 16),
        _ => 1 << top.ashift.unwrap_or(9).clamp(9, 16),
    });
    let smallest = smallest.max().unwrap_or(0);
    let mut bytes = BLOCK_BYTES_DEFAULT;
    while bytes * 2 <= smallest && bytes < BLOCK_BYTES_PLAIN {
        bytes *= 2;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use zfs_format::vdev::Raidz;

    fn top(kind: VdevKind, leaves: u64) -> Vdev {
        let leaf = |id| Vdev::new(VdevKind::File, id, id + 1);
        let mut top = Vdev::new(kind, 0, 99);
        top.ashift = Some(12);
        top.children = (0..leaves).map(leaf).collect();
        top
    }

    /// Worked out by hand from OpenZFS's formula.
    #[test]
    fn it_is_what_openzfs_keeps_free() {
        let mirror = [top(VdevKind::Mirror, 2)];
        assert_eq!(reservation(&mirror, 16 << 20, 16 << 10, 1), (16 << 20) + 8 * 2 * (128 << 10));
        // 2^17 blocks, 128 and 1 indirect blocks.
        let metadata = (7 + 128 + 1) * 2 * (128 << 10);
        assert_eq!(reservation(&mirror, 1 << 30, 8 << 10, 1), (1 << 30) + metadata);
        let raidz = VdevKind::Raidz(Raidz { parity: 1, expanding: false, expand_txgs: Vec::new() });
        let raidz = [top(raidz, 3)];
        // A block of 16 KiB takes 6 sectors, one of 128 KiB 48: the same share.
        assert_eq!(reservation(&raidz, 16 << 20, 16 << 10, 1), (16 << 20) + 8 * 2 * (128 << 10));
        // One of 4 KiB takes two.
        let twice = (4096 * 8192 / ((48 << 12) >> 9)) * 256;
        assert_eq!(
            reservation(&raidz, 16 << 20, 4 << 10, 1),
            twice + (7 + 4 + 1) * 2 * (128 << 10)
        );
        assert_eq!(reservation(&mirror, 1 << 20, 16 << 10, 3), 3 * ((1 << 20) + 8 * (128 << 10)));
        assert_eq!(default_block_bytes(&mirror), 16 << 10);
    }
}
