//! What lies on one device: the label of a physical volume, and its text.

use crate::checked::read;
use crate::lvm::area::{AreaHeader, HEADER_BYTES, Location, TEXT_BYTES_MAX};
use crate::lvm::error::LvmError;
use crate::lvm::label::{Area, LABEL_SECTORS, Label};
use crate::lvm::metadata::{MetadataError, VolumeGroup};
use crate::lvm::text::Section;
use crate::lvm::{SECTOR, checksum};
use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, IoError};
use stdx::bytes::{FormatError, Problem};

/// A physical volume that was found.
#[derive(Clone)]
pub struct Found {
    /// Its device.
    pub device: DeviceRef,
    /// Its label.
    pub label: Label,
    /// The headers of its metadata areas.
    pub areas: Vec<AreaHeader>,
}

/// A group's text, as values and as words.
pub(super) type Text = (VolumeGroup, Section);

/// A device with a label.
pub(super) struct Looked {
    pub(super) found: Found,
    /// Its place among those that were looked at.
    pub(super) place: usize,
    pub(super) text: Option<Text>,
    /// What is wrong with its text, where none of its areas has a whole one.
    pub(super) error: Option<LvmError>,
}

impl Looked {
    /// Of its newest text; nothing where it has none.
    pub(super) fn seqno(&self) -> Option<u64> {
        self.text.as_ref().map(|(group, _)| group.seqno)
    }
}

/// Whether it has the label of a physical volume; not, where it can't be read.
#[boxed(?Send)]
pub async fn is_labelled(device: &DeviceRef) -> bool {
    label_of(device).await.is_ok_and(|label| label.is_some())
}

async fn label_of(device: &DeviceRef) -> Result<Option<Label>, LvmError> {
    if device.geometry().capacity.bytes() < LABEL_SECTORS * SECTOR {
        return Ok(None);
    }
    let head = read(device, 0, LABEL_SECTORS * SECTOR).await?;
    for (number, sector) in (0..).zip(head.chunks_exact(SECTOR as usize)) {
        let decoded = Label::decode(sector, number);
        let of_device = |error| LvmError::Format { device: device.name().to_string(), error };
        if let Some(label) = decoded.map_err(of_device)? {
            return Ok(Some(label));
        }
    }
    Ok(None)
}

/// Looks for a label.
pub(super) async fn look(device: &DeviceRef, place: usize) -> Result<Option<Looked>, LvmError> {
    let Some(label) = label_of(device).await? else { return Ok(None) };
    let (mut areas, mut newest): (_, Option<Text>) = (Vec::new(), None);
    let mut failed = None;
    for area in &label.metadata {
        let text = match header_of(device, *area).await {
            Ok(header) => {
                let text = text_of(device, &header).await;
                areas.push(header);
                text
            }
            Err(error) => Err(error),
        };
        match text {
            Ok(Some((group, text)))
                if newest.as_ref().is_none_or(|(other, _)| other.seqno < group.seqno) =>
            {
                newest = Some((group, text));
            }
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
    }
    // With two areas one may be bad.
    let error = failed.filter(|_| newest.is_none());
    let found = Found { device: device.clone(), label, areas };
    Ok(Some(Looked { found, place, text: newest, error }))
}

async fn header_of(device: &DeviceRef, area: Area) -> Result<AreaHeader, LvmError> {
    let name = || device.name().to_string();
    let too_short = || {
        let structure = "LVM label";
        let problem = Problem::Value(area.start);
        let error = FormatError { structure, field: "metadata areas", offset: 0, problem };
        LvmError::Format { device: name(), error }
    };
    let end = area.start.checked_add(area.len.max(HEADER_BYTES));
    if end.is_none_or(|end| end > device.geometry().capacity.bytes()) {
        return Err(too_short());
    }
    let bytes = read(device, area.start, HEADER_BYTES).await?;
    let header = AreaHeader::decode(&bytes, area.start)
        .map_err(|error| LvmError::Format { device: name(), error })?;
    if header.len > area.len {
        return Err(too_short());
    }
    Ok(header)
}

/// The text that counts.
async fn text_of(device: &DeviceRef, header: &AreaHeader) -> Result<Option<Text>, LvmError> {
    let name = || device.name().to_string();
    let Some(location) = header.text.filter(|_| !header.ignored) else { return Ok(None) };
    let bytes = text_bytes(device, header, &location).await?;
    if checksum(&bytes) != location.checksum {
        return Err(LvmError::TextChecksum { device: name() });
    }
    let text = parsed(&bytes).map_err(|error| LvmError::Metadata { device: name(), error })?;
    Ok(Some(text))
}

pub(super) fn parsed(bytes: &[u8]) -> Result<Text, MetadataError> {
    let text = String::from_utf8_lossy(bytes);
    let text = Section::parse(text.trim_end_matches('\0'))?;
    Ok((VolumeGroup::of_text(&text)?, text))
}

/// The texts in a ring that are whole and are of a group that has this physical volume, but the one that counts. Where it is plain that one
/// begins: behind a zero. One that goes round the end of its area is not found.
pub(super) async fn older_texts(found: &Found) -> Vec<Text> {
    let mut texts = Vec::new();
    for area in &found.areas {
        let len = area.len.min(TEXT_BYTES_MAX);
        let Ok(ring) = read(&found.device, area.start, len).await else { continue };
        let places = (HEADER_BYTES as usize..ring.len()).step_by(HEADER_BYTES as usize);
        for place in places {
            let text = ring[place..].split(|byte| *byte == 0).next().unwrap_or_default();
            // Each begins with its group's name.
            let is_begin = place == HEADER_BYTES as usize || ring[place - 1] == 0;
            let mut counts = area.text.iter().flat_map(|text| area.parts(text));
            let is_counting =
                |(offset, len): (u64, u64)| (offset..offset + len).contains(&(place as u64));
            if !is_begin || text.is_empty() || counts.any(is_counting) {
                continue;
            }
            let parsed = parsed(text).ok().filter(|_| std::str::from_utf8(text).is_ok());
            let is_of = |(group, _): &Text| {
                group.physical.values().any(|volume| volume.id == found.label.id)
            };
            texts.extend(parsed.filter(is_of));
        }
    }
    texts
}

pub(super) async fn text_bytes(
    device: &DeviceRef,
    header: &AreaHeader,
    location: &Location,
) -> Result<Vec<u8>, IoError> {
    let mut bytes = Vec::new();
    for (offset, len) in header.parts(location) {
        if len > 0 {
            bytes.extend(read(device, header.start + offset, len).await?);
        }
    }
    Ok(bytes)
}
