//! A journal's ring of blocks: a window on the device that has nothing but it.

use crate::assemble::error::AssembleError;
use crate::assemble::facts::Superblock;
use crate::assemble::found::Found;
use crate::superblock::SECTOR;
use crate::superblock::journal::{BLOCK_BYTES, BLOCK_SECTORS};
use crate::window::Window;
use rt::{DeviceRef, Request};
use stdx::{ByteCount, Offset};

/// A journal's ring of blocks.
#[derive(Clone)]
pub(crate) struct Ring {
    /// The ring, and nothing else.
    pub(crate) device: DeviceRef,
    /// Sectors of it: whole blocks.
    pub(crate) sectors: u64,
}

impl Ring {
    /// A place so many sectors further.
    pub(crate) fn after(&self, at: u64, sectors: u64) -> u64 {
        (at + sectors) % self.sectors
    }

    /// Requests of blocks from a place on, which go around the end: place on the device, and blocks before it.
    pub(crate) fn runs(&self, at: u64, blocks: u64) -> impl Iterator<Item = (Offset, u64, u64)> {
        let first = blocks.min((self.sectors - at) / BLOCK_SECTORS);
        let runs = [(at, 0, first), (0, first, blocks - first)];
        runs.into_iter()
            .filter(|(_, _, blocks)| *blocks > 0)
            .map(|(at, before, blocks)| (Offset(at * SECTOR), before, blocks))
    }

    /// Whole blocks from a place on.
    pub(super) async fn read(&self, at: u64, blocks: u64) -> Result<Vec<u8>, AssembleError> {
        let mut bytes = Vec::new();
        for (offset, _, blocks) in self.runs(at, blocks) {
            let len = ByteCount(blocks * BLOCK_BYTES as u64);
            bytes.extend(self.device.submit(Request::read(offset, len)).await?.to_vec());
        }
        Ok(bytes)
    }
}

/// The ring of a journal device.
///
/// # Errors
/// Where it does not lie on the device, or has no two blocks.
pub(crate) fn ring(found: &Found) -> Result<Ring, AssembleError> {
    let capacity = found.device.geometry().capacity;
    let beyond =
        || AssembleError::BeyondEnd { device: found.name(), what: "the journal", capacity };
    let Superblock::V1(sb) = &found.superblock else { return Err(beyond()) };
    let sectors = sb.data_size - sb.data_size % BLOCK_SECTORS;
    let (start, len) = (Offset(sb.data_offset * SECTOR), ByteCount(sectors * SECTOR));
    if !Window::fits(&found.device, start, len) || sectors < 2 * BLOCK_SECTORS {
        return Err(beyond());
    }
    Ok(Ring { device: Window::bare(&found.device, start, len), sectors })
}
