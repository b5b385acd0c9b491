//! How much of a top-level vdev a block takes, as people are told.
//!
//! *Deflated* is what people are told: bytes by the share of them that a block of 128 KiB would leave for data, so that a raidz
//! is not fuller than what was put into it. The share is kept as a whole number, as OpenZFS does, or sums would differ.
//!
//! Source: OpenZFS, `vdev.c` (`vdev_set_deflate_ratio`).

use super::tree::Tree;
use zfs_format::block_pointer::BlockPointer;

/// The block by which a vdev's overhead is judged.
const DEFLATE_BLOCK: u64 = 128 << 10;
/// The unit of the share.
const SECTOR_SHIFT: u32 = 9;

impl Tree {
    /// The sector of a top-level vdev, as a power of two.
    pub fn ashift(&self, vdev: u32) -> Option<u32> {
        self.top(vdev).map(|top| top.ashift)
    }

    /// Bytes of a top-level vdev as people are told them.
    pub fn deflated(&self, vdev: u32, bytes: u64) -> u64 {
        // What can't be written to any more was counted by its first width, and counts whole.
        let taken = self.allocated_on(vdev, DEFLATE_BLOCK, 0).unwrap_or(DEFLATE_BLOCK);
        let ratio = DEFLATE_BLOCK / (taken >> SECTOR_SHIFT).max(1);
        (bytes >> SECTOR_SHIFT).saturating_mul(ratio)
    }

    /// Bytes that all copies of a block take, as people are told them.
    pub fn deflated_size(&self, pointer: &BlockPointer) -> u64 {
        pointer.dvas().map(|dva| self.deflated(dva.vdev(), dva.allocated())).sum()
    }
}
