//! Bytes of a device, wherever they lie: structures of other programs stand at any byte.

use rt::{DeviceRef, IoError, Request};
use stdx::{ByteCount, Offset};

/// Reads a range of any alignment.
pub(crate) async fn read(device: &DeviceRef, at: u64, len: u64) -> Result<Vec<u8>, IoError> {
    let block = device.geometry().logical_block;
    let start = Offset(at).round_down(block);
    let end = Offset(at.saturating_add(len)).round_up(block);
    let whole = ByteCount(end.bytes().saturating_sub(start.bytes()));
    let data = device.submit(Request::read(start, whole)).await?.to_vec();
    let skip = (at - start.bytes()) as usize;
    Ok(data[skip..skip + len as usize].to_vec())
}

/// How much of a device there is from this place on, in whole blocks; nothing where that is none.
pub(crate) fn there_from(device: &DeviceRef, start: Offset) -> Option<ByteCount> {
    let geometry = device.geometry();
    let there = geometry.capacity.bytes().checked_sub(start.bytes())?;
    Some(ByteCount(there).round_down(geometry.logical_block)).filter(|there| !there.is_zero())
}
