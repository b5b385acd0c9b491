//! The space of a member's partial parity log: a window on the member, beside its data.

use super::format::{HEADER_BYTES, Header};
use crate::assemble::error::AssembleError;
use crate::assemble::facts::Superblock;
use crate::assemble::found::{Found, moved};
use crate::superblock::{SECTOR, SUPERBLOCK_BYTES};
use crate::window::Window;
use rt::{Buf, DeviceRef, IoError, Request, SgList};
use stdx::{ByteCount, Offset};

/// Behind the header lie whole pages.
const PAGE: u64 = 4096;
/// Partial parity of one record, where a space holds several: md's number.
pub(super) const PARTIAL_BYTES: u64 = 128 << 10;
/// From this size on a space holds several records: two of the greatest.
pub(crate) const SEVERAL_BYTES_MIN: u64 = 2 * (PARTIAL_BYTES + HEADER_BYTES as u64);

/// A member's space for records.
#[derive(Clone)]
pub(crate) struct Space {
    /// The member's whole device.
    pub(crate) device: DeviceRef,
    /// Where the space begins.
    pub(crate) at: Offset,
    /// Its bytes: a header and a page at least.
    pub(crate) bytes: u64,
}

impl Space {
    /// Whether several records fit.
    pub(crate) fn holds_several(&self) -> bool {
        self.bytes >= SEVERAL_BYTES_MIN
    }

    pub(super) fn partial_max(&self) -> u64 {
        if self.holds_several() { PARTIAL_BYTES } else { self.bytes - HEADER_BYTES as u64 }
    }

    /// Takes away what is in it; a header without entries stands there durably afterwards.
    pub(crate) async fn empty(&self, signature: u32) -> Result<(), IoError> {
        let header = SgList::zeros(HEADER_BYTES);
        self.device.submit(Request::write_fua(self.at, header)).await?;
        let rest = self.bytes - HEADER_BYTES as u64;
        let behind = self.at + ByteCount(HEADER_BYTES as u64);
        self.device.submit(Request::write(behind, SgList::zeros(rest as usize))).await?;
        self.device.submit(Request::flush()).await?;
        let header = Header { signature, generation: 0, entries: Vec::new() };
        let bytes = header.encode().unwrap_or_default();
        self.device.submit(Request::write_fua(self.at, Buf::copy_of(&bytes))).await.map(|_| ())
    }
}

/// The space of a member's log: as md has it, a header and whole pages, between superblock and data or behind
/// the data.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn space(found: &Found) -> Result<Space, AssembleError> {
    let wrong = |what| AssembleError::LogSpace { device: found.name(), what };
    let Superblock::V1(sb) = &found.superblock else { return Err(wrong("is not there")) };
    let (offset, sectors) = sb.ppl().ok_or(wrong("is not there"))?;
    let header = HEADER_BYTES as u64 / SECTOR;
    let page = PAGE / SECTOR;
    let behind = u64::from(sectors).saturating_sub(header);
    let sectors = header + behind - behind % page;
    if sectors == header {
        return Err(wrong("is too small for a header and a page"));
    }
    let at = moved(found, i64::from(offset), "the PPL")?;
    let start = at.bytes() / SECTOR;
    let (data, data_end) = (sb.data_offset, sb.data_offset.saturating_add(sb.data_size));
    if start < data_end && start + sectors > data {
        return Err(wrong("overlaps the data"));
    }
    let superblock = sb.super_offset..sb.super_offset + SUPERBLOCK_BYTES as u64 / SECTOR;
    if start < superblock.end && start + sectors > superblock.start {
        return Err(wrong("overlaps the superblock"));
    }
    let (device, bytes) = (found.device.clone(), sectors * SECTOR);
    if !Window::fits(&device, at, ByteCount(bytes)) {
        return Err(wrong("would lie beyond the device's end"));
    }
    Ok(Space { device, at, bytes })
}
