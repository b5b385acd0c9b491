//! How much of a top-level vdev a block takes.
//!
//! ```text
//!   mirror, disk   the block in whole sectors
//!   raidz          the same, and parity for each row, rounded up to what leaves no hole too small for anything
//!   dRAID          whole rows of a group
//! ```
//!
//! *Deflated* is what people are told: bytes by the share of them that a block of 128 KiB would leave for data, so that a raidz
//! is not fuller than what was put into it. The share is kept as a whole number, as OpenZFS does, or sums would differ.
//!
//! Source: OpenZFS, `vdev.c` (`vdev_default_asize`, `vdev_set_deflate_ratio`), `vdev_raidz.c`, `vdev_draid.c`.

use super::{Node, Top, Tree};
use zfs_format::block_pointer::BlockPointer;

/// The block by which a vdev's overhead is judged.
const DEFLATE_BLOCK: u64 = 128 << 10;
/// The unit of the share.
const SECTOR_SHIFT: u32 = 9;

impl Top {
    /// Bytes that a block of so many takes, written in this transaction group; nothing where none can be written.
    fn allocated_for(&self, bytes: u64, txg: u64) -> Option<u64> {
        let sectors = bytes.div_ceil(1 << self.ashift).max(1);
        let taken = match &self.node {
            Node::Mirror(_) => sectors,
            Node::Raidz(raidz) => {
                let (width, parity) = (raidz.width(txg) as u64, raidz.striped.parity as u64);
                let with_parity = sectors + parity * sectors.div_ceil(width - parity);
                with_parity.next_multiple_of(parity + 1)
            }
            Node::Draid(draid) => {
                let (data, parity) = draid.layout.group();
                sectors.div_ceil(data) * (data + parity)
            }
            Node::Sides(_) | Node::Indirect(_) | Node::Nothing => return None,
        };
        Some(taken << self.ashift)
    }
}

impl Tree {
    /// Bytes of a top-level vdev that a block of so many bytes takes, if it is written in this transaction group; nothing where
    /// it takes no writes.
    pub fn allocated_for(&self, vdev: u32, bytes: u64, txg: u64) -> Option<u64> {
        self.top(vdev)?.allocated_for(bytes, txg)
    }

    /// The sector of a top-level vdev, as a power of two.
    pub fn ashift(&self, vdev: u32) -> Option<u32> {
        self.top(vdev).map(|top| top.ashift)
    }

    /// Bytes of a top-level vdev as people are told them.
    pub fn deflated(&self, vdev: u32, bytes: u64) -> u64 {
        // What can't be written to any more was counted by its first width, and counts whole.
        let taken = self.allocated_for(vdev, DEFLATE_BLOCK, 0).unwrap_or(DEFLATE_BLOCK);
        let ratio = DEFLATE_BLOCK / (taken >> SECTOR_SHIFT).max(1);
        (bytes >> SECTOR_SHIFT).saturating_mul(ratio)
    }

    /// Bytes that all copies of a block take, as people are told them.
    pub fn deflated_size(&self, pointer: &BlockPointer) -> u64 {
        pointer.dvas().map(|dva| self.deflated(dva.vdev(), dva.allocated())).sum()
    }
}
