//! A physical volume written anew whose label and metadata area were overwritten, as LVM's `pvcreate --uuid` and `vgcfgrestore` do.
//!
//! The group's text lies on its other physical volumes, too, and says where the extents of this one begin. It is written as it is there,
//! byte for byte and of the same `seqno`, so that nothing is written to the others. From the first extent on nothing is written.
//!
//! **Order**: labels of something else go, then the text is made durable, then its area's header, and the label last. A power cut leaves a
//! device without a label, which is written anew once more.

use crate::checked::read;
use crate::lvm::area::{AreaHeader, HEADER_BYTES, Location};
use crate::lvm::change::{AREA_START, LABEL_SECTOR, write};
use crate::lvm::error::LvmError;
use crate::lvm::group::{Group, needed};
use crate::lvm::label::{Area, Id, LABEL_SECTORS, Label, SIGNATURE};
use crate::lvm::look::{parsed, text_bytes};
use crate::lvm::metadata::PhysicalVolume;
use crate::lvm::{SECTOR, checksum};
use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, Request};
use std::rc::Rc;

/// The group of these that lacks this physical volume.
///
/// # Errors
/// [`LvmError::NotMissing`], which lists what is missing; where it is there, and where several groups name it.
pub fn group_lacking(groups: &[Group], id: Id) -> Result<&Group, LvmError> {
    let mut naming = groups.iter().filter(|group| group.described(id).is_some());
    let Some(group) = naming.next() else {
        let of = |group: &Group| {
            let name = group.group.name.clone();
            group.missing().into_iter().map(move |(id, _)| (name.clone(), id)).collect::<Vec<_>>()
        };
        return Err(LvmError::NotMissing { id, missing: groups.iter().flat_map(of).collect() });
    };
    if let Some(other) = naming.next() {
        let named = [group, other].map(|one| format!("{} ({})", one.group.name, one.group.id));
        return Err(LvmError::SeveralName { id, groups: named.into() });
    }
    group.check_missing(id)?;
    Ok(group)
}

impl Group {
    /// A physical volume of it, with the name that the text has for it.
    fn described(&self, id: Id) -> Option<(&String, &PhysicalVolume)> {
        self.group.physical.iter().find(|(_, described)| described.id == id)
    }

    /// A physical volume of it that is missing.
    fn check_missing(&self, id: Id) -> Result<(&String, &PhysicalVolume), LvmError> {
        let (name, described) = self.described(id).ok_or_else(|| {
            let missing = self.missing().into_iter();
            let missing = missing.map(|(id, _)| (self.group.name.clone(), id)).collect();
            LvmError::NotMissing { id, missing }
        })?;
        match self.found.get(name) {
            None => Ok((name, described)),
            Some(found) => Err(LvmError::IsThere {
                group: self.group.name.clone(),
                id,
                device: found.device.name().to_string(),
            }),
        }
    }

    /// Whether a device can be made this physical volume of it, which is missing; that what it holds may be overwritten is not asked.
    ///
    /// # Errors
    /// Why not.
    pub fn check_restorable(&self, id: Id, device: &DeviceRef) -> Result<(), LvmError> {
        let (name, described) = self.check_missing(id)?;
        let group = || self.group.name.clone();
        if let Some(error) = self.older().or_else(|| self.barred_by_outdated()) {
            return Err(error);
        }
        self.check_one_of_each()?;
        let called = || device.name().to_string();
        if let Some(found) = self.found.values().find(|found| Rc::ptr_eq(&found.device, device)) {
            let id = found.label.id;
            return Err(LvmError::IsAnother { group: group(), id, device: called() });
        }
        let has = device.geometry().capacity.bytes();
        let needed = needed(described, self.group.extent_sectors);
        if has < needed {
            return Err(LvmError::TooShort { group: group(), id, device: called(), has, needed });
        }
        let text = self.text.section(&self.group.name);
        let volumes = text.and_then(|group| group.section("physical_volumes"));
        let boot = volumes.and_then(|volumes| volumes.section(name)?.value("ba_start"));
        if boot.is_some_and(|start| start.as_count() != Some(0)) {
            return Err(LvmError::BootArea { group: group(), id });
        }
        Ok(())
    }

    /// Makes a device this physical volume of it, which is missing: writes the group's text and a label, and nothing from its first extent
    /// on. Who goes on with the group looks for it again.
    ///
    /// # Errors
    /// As of [`Group::check_restorable`]; where there is no room for the text; and of the device.
    #[boxed(?Send)]
    pub async fn restore_physical(&self, id: Id, device: &DeviceRef) -> Result<(), LvmError> {
        self.check_restorable(id, device)?;
        let (_, described) = self.check_missing(id)?;
        let data_start = described.start_sector * SECTOR;
        let bytes = self.text_as_it_lies().await;
        let area = AreaHeader {
            start: AREA_START,
            len: data_start.saturating_sub(AREA_START),
            text: None,
            ignored: false,
        };
        let offset = area.place(bytes.len() as u64).ok_or_else(|| LvmError::NoRoom {
            group: self.group.name.clone(),
            id,
            start: data_start,
        })?;
        let head = read(device, 0, LABEL_SECTORS * SECTOR).await?;
        for (number, sector) in (0..).zip(head.chunks_exact(SECTOR as usize)) {
            if sector.starts_with(SIGNATURE) {
                write(device, number * SECTOR, vec![0; SECTOR as usize], true).await?;
            }
        }
        let text = Location { offset, len: bytes.len() as u64, checksum: checksum(&bytes) };
        let mut padded = bytes;
        let room = (area.len - offset) as usize;
        padded.resize(padded.len().next_multiple_of(HEADER_BYTES as usize).min(room), 0);
        write(device, area.start + offset, padded, false).await?;
        device.submit(Request::flush()).await?;
        let header = AreaHeader { text: Some(text), ..area.clone() };
        write(device, area.start, header.encode().to_vec(), true).await?;
        let label = Label {
            id,
            device_bytes: device.geometry().capacity.bytes(),
            data: vec![Area { start: data_start, len: 0 }],
            metadata: vec![Area { start: area.start, len: area.len }],
        };
        write(device, LABEL_SECTOR * SECTOR, label.encode(LABEL_SECTOR).to_vec(), true).await
    }

    /// Its text with the zero at its end, as a physical volume has it: LVM wants those of one `seqno` to be equal, comments too. Made anew
    /// where it stands on none of its own.
    async fn text_as_it_lies(&self) -> Vec<u8> {
        for found in self.found.values() {
            for area in found.areas.iter().filter(|area| !area.ignored) {
                let Some(location) = &area.text else { continue };
                let Ok(bytes) = text_bytes(&found.device, area, location).await else { continue };
                let is_it = checksum(&bytes) == location.checksum
                    && parsed(&bytes).is_ok_and(|(_, text)| text == self.text);
                if is_it {
                    return bytes;
                }
            }
        }
        let mut bytes = self.text.text().into_bytes();
        bytes.push(0);
        bytes
    }
}
