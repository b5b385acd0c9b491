//! Making a device a spare of a set.
//!
//! Its superblock is that of a member with another number, identity and no slot; its data begins where the
//! member's does. The superblock comes first: until it is written the device is what it was, and afterwards it is a
//! spare of the set, which no reader takes data from, and which the command that was cut off here takes when it is given
//! again. Then an empty bad-block log. (No log is read where the superblock does not say that it has entries.)

use super::error::GrowError;
use super::pages::Pages;
use crate::assemble::AssembleError;
use crate::superblock::v1::SuperblockV1;
use crate::superblock::{ALL_SECTORS, Features, MAGIC, SECTOR, SUPERBLOCK_BYTES, Uuid};
use crate::superblock::{bad_blocks, place::Version};
use rt::{Buf, DeviceRef, IoError, Request};
use stdx::{ByteCount, Offset};

/// A device that is to become a member; what it holds is lost.
#[derive(Clone)]
pub struct NewMember {
    /// The device.
    pub device: DeviceRef,
    /// The identity that it gets.
    pub uuid: Uuid,
}

/// Makes a device a spare of the set, with room for the set's size.
pub(super) async fn adopt(pages: &mut Pages, new: &NewMember) -> Result<(), GrowError> {
    let set = pages.set;
    let first = pages.pages.iter().filter(|page| page.is_member());
    // The one whose data begins last: whatever lies before the data of another fits it too.
    let template = first.max_by_key(|page| page.superblock.data_offset);
    let template = template.ok_or(GrowError::TooFew { set })?.superblock.clone();
    let (version, capacity) = (template.version(), new.device.geometry().capacity);
    let needed = ByteCount(template.data_offset.saturating_add(template.size) * SECTOR);
    let too_small =
        || GrowError::TooSmall { device: new.device.name().to_string(), capacity, needed };
    let at = version.place(capacity).ok_or_else(too_small)?;
    let place = at.bytes() / SECTOR;
    let end = match version {
        // What lies between the data and the superblock lies there on this device too.
        Version::V10 => {
            let data_end = template.data_offset.saturating_add(template.data_size);
            place.checked_sub(template.super_offset.saturating_sub(data_end))
        }
        _ => Some(capacity.bytes() / SECTOR),
    };
    let room = end.and_then(|end| end.checked_sub(template.data_offset));
    let room = room.filter(|room| *room >= template.size).ok_or_else(too_small)?;
    let superblock = SuperblockV1 {
        features: template.features.with(Features::RECOVERY_OFFSET, false),
        data_size: room,
        super_offset: place,
        recovery_offset: 0,
        device_number: pages.free_number()?,
        corrected_reads: 0,
        device_uuid: new.uuid,
        flags: 0,
        resync_offset: ALL_SECTORS,
        ..template
    };
    let sealed = superblock.sealed();
    let bytes = sealed.map_err(|error| AssembleError::format(&new.device.name(), error))?;
    new.device.submit(Request::write_fua(at, Buf::copy_of(&bytes))).await?;
    wipe_others(&new.device, version).await?;
    let log = &superblock.bad_blocks;
    if log.sectors > 0
        && let Some(log_at) = place.checked_add_signed(i64::from(log.offset))
        && let Ok(bytes) = bad_blocks::encode(&[], log.sectors.min(bad_blocks::SECTORS_MAX))
    {
        let write = Request::write(Offset(log_at * SECTOR), Buf::copy_of(&bytes));
        new.device.submit(write).await?;
    }
    new.device.submit(Request::flush()).await?;
    pages.push(new.device.clone(), at, superblock);
    Ok(())
}

/// Wipes superblocks that lie where another version has them: the device must not be two things at once.
async fn wipe_others(device: &DeviceRef, version: Version) -> Result<(), IoError> {
    let capacity = device.geometry().capacity;
    let own = version.place(capacity);
    let len = ByteCount(SUPERBLOCK_BYTES as u64);
    for place in Version::ALL.iter().filter_map(|version| version.place(capacity)) {
        if Some(place) == own {
            continue;
        }
        let found = device.submit(Request::read(place, len)).await?.to_vec();
        if found.starts_with(&MAGIC.to_le_bytes()) || found.starts_with(&MAGIC.to_be_bytes()) {
            device.submit(Request::write(place, Buf::zeros(SUPERBLOCK_BYTES))).await?;
        }
    }
    Ok(())
}
