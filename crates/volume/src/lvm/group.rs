//! Volume groups on the devices at hand: found and put together.

use crate::checked::read;
use crate::lvm::area::{AreaHeader, HEADER_BYTES, Location, TEXT_BYTES_MAX};
use crate::lvm::label::{Area, Id, LABEL_SECTORS, Label};
use crate::lvm::metadata::{LogicalVolume, MetadataError, PhysicalVolume, VolumeGroup};
use crate::lvm::text::Section;
use crate::lvm::{SECTOR, checksum};
use crate::partition::copy_as_long;
use async_recursion::async_recursion as boxed;
use md::SpecError;
use rt::{DeviceRef, IoError};
use std::collections::BTreeMap;
use stdx::ByteCount;
use stdx::bytes::{FormatError, Problem};

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
        "{group}/{volume}: {device} has {has} bytes, and the volume's extents reach beyond: cut short? Then {} has them; what was cut off is \
         lost", copy_as_long(.device, *.needed)
    )]
    DeviceTooSmall { group: String, volume: String, device: String, has: u64, needed: u64 },
    #[error("{group}/{volume}: its extents are more bytes than a device can have")]
    TooLarge { group: String, volume: String },
    #[error("{group}/{volume}: {error}")]
    Stripes { group: String, volume: String, error: SpecError },
    #[error(
        "volume group {group}: the physical volume {id} is missing: nothing is changed without it"
    )]
    MissingForChange { group: String, id: Id },
    #[error(
        "volume group {group}: {device} ends before its extents do: nothing is changed before it is as long again"
    )]
    ShortForChange { group: String, device: String },
    #[error(
        "volume group {group}: its newest text is damaged, and it is read as an older one has it, of seqno {seqno}: what was changed since is not \
         known, and nothing of it is written"
    )]
    Older { group: String, seqno: u64 },
    #[error(
        "volume group {group}: the text on {device} is damaged: nothing is changed before LVM's vgck --updatemetadata mended it"
    )]
    Damaged { group: String, device: String },
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
    /// The text is not the newest, which is damaged wherever it is there.
    pub is_older: bool,
    /// The devices of those whose own text is damaged.
    pub damaged: Vec<String>,
}

/// What was found of volume groups.
#[derive(Default)]
pub struct FoundGroups {
    /// They.
    pub groups: Vec<Group>,
    /// Physical volumes that no text says anything of.
    pub apart: Vec<Found>,
    /// What is wrong, of one device or group each.
    pub errors: Vec<LvmError>,
    /// Whether there are, or were, groups or changes of them that are not known.
    pub is_lacking: bool,
}

type Text = (VolumeGroup, Section);

/// The newest text of each group.
fn newest<'a>(texts: impl Iterator<Item = &'a Text>) -> Vec<Text> {
    let mut groups: Vec<Text> = Vec::new();
    for (group, text) in texts {
        match groups.iter_mut().find(|(other, _)| other.id == group.id) {
            Some(other) if other.0.seqno < group.seqno => *other = (group.clone(), text.clone()),
            Some(_) => {}
            None => groups.push((group.clone(), text.clone())),
        }
    }
    groups
}

/// Looks for physical volumes on the devices, and puts groups together. A device without a label is
/// passed over; one with a damaged label or text is told of beside the groups.
///
/// Where all texts of a group are damaged that count, the newest of the older ones counts that the ring of a metadata area still has. Nothing
/// but that it can be read tells that it is whole: the checksum went with the header that pointed to it.
///
/// # Errors
/// None: each device's goes to the list.
#[boxed(?Send)]
pub async fn find_groups(devices: &[DeviceRef]) -> FoundGroups {
    let (mut physical, mut errors, mut is_lacking) = (Vec::new(), Vec::new(), false);
    for device in devices {
        match look(device).await {
            Ok(Some(found)) => physical.push(found),
            Ok(None) => {}
            Err(error) => {
                is_lacking = true;
                errors.push(error);
            }
        }
    }
    let mut groups = newest(physical.iter().filter_map(|one| one.text.as_ref()));
    let whole = groups.len();
    let is_known = |groups: &[Text], id: Id| {
        let mut volumes = groups.iter().flat_map(|(group, _)| group.physical.values());
        volumes.any(|volume| volume.id == id)
    };
    let mut older = Vec::new();
    for one in physical.iter().filter(|one| one.error.is_some()) {
        if !is_known(&groups, one.found.label.id) {
            is_lacking = true;
            older.extend(older_texts(&one.found).await);
        }
    }
    groups.extend(newest(older.iter()));
    let with_devices = |(place, (group, text)): (usize, Text)| {
        let of_id = |id: Id| physical.iter().find(|one| one.found.label.id == id);
        let named = group.physical.iter();
        let named = named.filter_map(|(name, volume)| Some((name.clone(), of_id(volume.id)?)));
        let (mut found, mut damaged) = (BTreeMap::new(), Vec::new());
        for (name, one) in named {
            let is_damaged = one.error.is_some();
            damaged.extend(is_damaged.then(|| one.found.device.name().to_string()));
            found.insert(name, one.found.clone());
        }
        Group { group, text, found, is_older: place >= whole, damaged }
    };
    let apart = physical.iter().filter(|one| !is_known(&groups, one.found.label.id));
    let apart = apart.map(|one| one.found.clone()).collect();
    let groups: Vec<Group> = groups.into_iter().enumerate().map(with_devices).collect();
    errors.extend(physical.into_iter().filter_map(|one| one.error));
    errors.extend(groups.iter().filter_map(Group::older));
    FoundGroups { groups, apart, errors, is_lacking }
}

/// A device with a label.
struct Looked {
    found: Found,
    text: Option<Text>,
    /// What is wrong with its text, where none of its areas has a whole one.
    error: Option<LvmError>,
}

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
    Ok(Some(Looked { found, text: newest, error }))
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

fn parsed(bytes: &[u8]) -> Result<Text, MetadataError> {
    let text = String::from_utf8_lossy(bytes);
    let text = Section::parse(text.trim_end_matches('\0'))?;
    Ok((VolumeGroup::of_text(&text)?, text))
}

/// The texts in a ring that are whole and are of a group that has this physical volume, but the one that counts. Where it is plain that one
/// begins: behind a zero. One that goes round the end of its area is not found.
async fn older_texts(found: &Found) -> Vec<Text> {
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

/// Bytes that a device has to have for all extents of its physical volume.
pub(super) fn needed(described: &PhysicalVolume, extent_sectors: u64) -> u64 {
    let extents = described.extents.saturating_mul(extent_sectors);
    described.start_sector.saturating_add(extents).saturating_mul(SECTOR)
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
    /// That the group is read as an older text has it, where it is.
    pub fn older(&self) -> Option<LvmError> {
        let (group, seqno) = (self.group.name.clone(), self.group.seqno);
        self.is_older.then_some(LvmError::Older { group, seqno })
    }

    /// A device of it that ends before its extents do: what it has, and how long it should be, in bytes.
    pub fn cut_short(&self) -> Vec<(&Found, u64)> {
        let needed = self.group.physical.iter().filter_map(|(name, described)| {
            let found = self.found.get(name)?;
            let needed = needed(described, self.group.extent_sectors);
            (found.device.geometry().capacity.bytes() < needed).then_some((found, needed))
        });
        needed.collect()
    }

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
}
