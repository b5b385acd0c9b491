//! Volume groups on the devices at hand: found, and their volumes opened.

use crate::checked::read;
use crate::lvm::area::{AreaHeader, HEADER_BYTES, Location};
use crate::lvm::label::{Area, Id, LABEL_SECTORS, Label};
use crate::lvm::metadata::{LogicalVolume, Mapping, MetadataError, Segment, VolumeGroup};
use crate::lvm::text::Section;
use crate::lvm::{SECTOR, checksum};
use async_recursion::async_recursion as boxed;
use md::{Array, ArraySpec, Level, SpecError};
use rt::filter::{Linear, Slice};
use rt::{DeviceRef, IoError, Request, Rt};
use std::collections::BTreeMap;
use stdx::bytes::{FormatError, Problem};
use stdx::{ByteCount, Offset};

/// Why a group, or a volume of it, can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum LvmError {
    #[error(transparent)]
    Io(#[from] IoError),
    #[error("{device}: {error}")]
    Format { device: String, error: FormatError },
    #[error("{device}: the text of its volume group: {error}")]
    Metadata { device: String, error: MetadataError },
    #[error("{device}: the text of its volume group does not have its checksum")]
    TextChecksum { device: String },
    #[error("volume group {group} has no logical volume {volume}")]
    NoVolume { group: String, volume: String },
    #[error(
        "{group}/{volume}: a segment of type {kind} is not supported: only linear and striped volumes are"
    )]
    Kind { group: String, volume: String, kind: String },
    #[error("{group}/{volume}: the physical volume {id} is missing: bring its device")]
    Missing { group: String, volume: String, id: Id },
    #[error(
        "{group}/{volume}: {device} has {has} bytes, and the volume's extents reach beyond: cut short? A copy of it that is as long again \
         (truncate -s {needed} COPY, zeros at its end) has them; what was cut off is lost"
    )]
    DeviceTooSmall { group: String, volume: String, device: String, has: u64, needed: u64 },
    #[error("{group}/{volume}: {error}")]
    Stripes { group: String, volume: String, error: SpecError },
    #[error(
        "volume group {group}: the physical volume {id} is missing: nothing is changed without it"
    )]
    MissingForChange { group: String, id: Id },
    #[error("volume group {group} is exported or read-only, so nothing of it is changed")]
    ReadOnly { group: String },
    #[error("{name}: a name has letters, digits and + _ . -, and does not begin with -")]
    BadName { name: String },
    #[error("{group} has a logical volume {volume} already: choose another name")]
    Exists { group: String, volume: String },
    #[error(
        "volume group {group}: {} are wanted ({wanted} extents of {extent}), {}; {} are free{}",
        size_of(*.wanted, *.extent), divided(*.stripes), size_of(*.free, *.extent),
        if .free >= .wanted { ", and not so divided" } else { "" }
    )]
    NoSpace { group: String, wanted: u64, stripes: usize, free: u64, extent: ByteCount },
    #[error("a stripe of {0}: give a power of two from 4 KiB to the extent size")]
    StripeSize(ByteCount),
    #[error("an extent of {0}: give a power of two from 4 KiB to 4 GiB")]
    ExtentSize(ByteCount),
    #[error("{device}: {capacity} hold no extent beside the first MiB: use a larger one")]
    TooSmall { device: String, capacity: ByteCount },
    #[error("volume group {group}: its text has outgrown the metadata area of {device}")]
    TextTooLong { group: String, device: String },
    #[error(
        "{device} has a label of a physical volume already: it belongs to another group or did"
    )]
    Labelled { device: String },
}

/// So many extents.
fn size_of(extents: u64, extent: ByteCount) -> ByteCount {
    ByteCount(extents.saturating_mul(extent.bytes()))
}

fn divided(stripes: usize) -> String {
    match stripes {
        1 => "on any physical volumes".to_owned(),
        many => format!("divided over {many} physical volumes"),
    }
}

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

/// A volume group with the devices that are there.
#[derive(Clone)]
pub struct Group {
    /// What its newest text says.
    pub group: VolumeGroup,
    /// That text, whole.
    pub text: Section,
    /// Its physical volumes that are there, by the names of the text.
    pub found: BTreeMap<String, Found>,
}

/// Looks for physical volumes on the devices, and puts groups together. A device without a label is
/// passed over; one with a damaged label or text is told of beside the groups.
///
/// # Errors
/// None: each device's goes to the list.
#[boxed(?Send)]
pub async fn find_groups(devices: &[DeviceRef]) -> (Vec<Group>, Vec<LvmError>) {
    let (mut physical, mut errors) = (Vec::new(), Vec::new());
    for device in devices {
        match look(device).await {
            Ok(Some(found)) => physical.push(found),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    // The newest text of each group.
    let mut groups: Vec<(VolumeGroup, Section)> = Vec::new();
    for (_, text) in &physical {
        let Some((group, text)) = text else { continue };
        match groups.iter_mut().find(|(other, _)| other.id == group.id) {
            Some(other) if other.0.seqno < group.seqno => *other = (group.clone(), text.clone()),
            Some(_) => {}
            None => groups.push((group.clone(), text.clone())),
        }
    }
    let with_devices = |(group, text): (VolumeGroup, Section)| {
        let of_id = |id: Id| physical.iter().find(|(found, _)| found.label.id == id);
        let named = group.physical.iter();
        let found = named
            .filter_map(|(name, volume)| Some((name.clone(), of_id(volume.id)?.0.clone())))
            .collect();
        Group { group, text, found }
    };
    (groups.into_iter().map(with_devices).collect(), errors)
}

type Looked = (Found, Option<(VolumeGroup, Section)>);

async fn look(device: &DeviceRef) -> Result<Option<Looked>, LvmError> {
    let name = || device.name().to_string();
    let capacity = device.geometry().capacity.bytes();
    if capacity < LABEL_SECTORS * SECTOR {
        return Ok(None);
    }
    let head = read(device, 0, LABEL_SECTORS * SECTOR).await?;
    let mut label = None;
    for (number, sector) in head.chunks_exact(SECTOR as usize).enumerate() {
        let decoded = Label::decode(sector, number as u64);
        label = decoded.map_err(|error| LvmError::Format { device: name(), error })?;
        if label.is_some() {
            break;
        }
    }
    let Some(label) = label else { return Ok(None) };
    let (mut areas, mut newest): (_, Option<(VolumeGroup, Section)>) = (Vec::new(), None);
    let mut failed = None;
    for area in &label.metadata {
        match look_at_area(device, *area).await {
            Ok((header, text)) => {
                areas.push(header);
                if let Some((group, text)) = text
                    && newest.as_ref().is_none_or(|(other, _)| other.seqno < group.seqno)
                {
                    newest = Some((group, text));
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    match (newest, failed) {
        // With two areas one may be bad.
        (None, Some(error)) => Err(error),
        (newest, _) => Ok(Some((Found { device: device.clone(), label, areas }, newest))),
    }
}

async fn look_at_area(
    device: &DeviceRef,
    area: Area,
) -> Result<(AreaHeader, Option<(VolumeGroup, Section)>), LvmError> {
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
    let Some(location) = header.text.filter(|_| !header.ignored) else { return Ok((header, None)) };
    let bytes = text_bytes(device, &header, &location).await?;
    if checksum(&bytes) != location.checksum {
        return Err(LvmError::TextChecksum { device: name() });
    }
    let text = String::from_utf8_lossy(&bytes);
    let wrong = |error| LvmError::Metadata { device: name(), error };
    let text = Section::parse(text.trim_end_matches('\0')).map_err(|error| wrong(error.into()))?;
    let group = VolumeGroup::of_text(&text).map_err(wrong)?;
    Ok((header, Some((group, text))))
}

async fn text_bytes(
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

impl Group {
    /// The logical volume of this name.
    ///
    /// # Errors
    /// Where there is none.
    pub fn volume(&self, name: &str) -> Result<&LogicalVolume, LvmError> {
        let found = self.group.logical.iter().find(|volume| volume.name == name);
        found.ok_or_else(|| LvmError::NoVolume {
            group: self.group.name.clone(),
            volume: name.to_owned(),
        })
    }

    /// A logical volume as a device.
    ///
    /// # Errors
    /// Where a physical volume of it is missing, or it is of a kind that is not supported.
    pub fn open(&self, rt: &Rt, name: &str) -> Result<DeviceRef, LvmError> {
        let volume = self.volume(name)?;
        let segments = volume.segments.iter();
        let segments = segments.map(|segment| self.open_segment(rt, volume, segment));
        let segments: Vec<DeviceRef> = segments.collect::<Result<_, _>>()?;
        if segments.is_empty() {
            // LVM makes none such.
            let (group, volume) = (self.group.name.clone(), name.to_owned());
            return Err(LvmError::Kind { group, volume, kind: "nothing".to_owned() });
        }
        Ok(Linear::new(&format!("{}/{name}", self.group.name), segments))
    }

    fn open_segment(
        &self,
        rt: &Rt,
        volume: &LogicalVolume,
        segment: &Segment,
    ) -> Result<DeviceRef, LvmError> {
        let (group, name) = (|| self.group.name.clone(), || volume.name.clone());
        let (stripe_sectors, stripes) = match &segment.mapping {
            Mapping::Striped { stripe_sectors, stripes } => (*stripe_sectors, stripes),
            Mapping::Other(kind) => {
                let kind = kind.clone();
                return Err(LvmError::Kind { group: group(), volume: name(), kind });
            }
        };
        let extent = self.group.extent_sectors * SECTOR;
        let each = segment.extents / stripes.len() as u64;
        let mut parts: Vec<DeviceRef> = Vec::new();
        for (physical, first) in stripes {
            let described = &self.group.physical[physical];
            let Some(found) = self.found.get(physical) else {
                let id = described.id;
                return Err(LvmError::Missing { group: group(), volume: name(), id });
            };
            let device = &found.device;
            let first = first.checked_mul(extent);
            let start = described.start_sector.checked_mul(SECTOR);
            let start = first.zip(start).and_then(|(first, start)| first.checked_add(start));
            let part = start.zip(each.checked_mul(extent));
            let within = |(start, len): &(u64, u64)| {
                Request::read(Offset(*start), ByteCount(*len)).check(&**device).is_ok()
            };
            let Some((start, len)) = part.filter(within) else {
                let extents = described.extents.saturating_mul(self.group.extent_sectors);
                return Err(LvmError::DeviceTooSmall {
                    group: group(),
                    volume: name(),
                    device: device.name().to_string(),
                    has: device.geometry().capacity.bytes(),
                    needed: described.start_sector.saturating_add(extents).saturating_mul(SECTOR),
                });
            };
            parts.push(Slice::new(device.clone(), Offset(start), ByteCount(len)));
        }
        if let [_] = &parts[..] {
            return Ok(parts.swap_remove(0));
        }
        let chunk = ByteCount(stripe_sectors * SECTOR);
        let spec = ArraySpec { chunk, ..ArraySpec::new(Level::Raid0, parts) };
        let label = format!("{}/{}", self.group.name, volume.name);
        let array = Array::create(rt, &label, spec);
        let array =
            array.map_err(|error| LvmError::Stripes { group: group(), volume: name(), error })?;
        Ok(array.device())
    }
}
