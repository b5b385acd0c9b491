//! Making groups and volumes, and removing them.
//!
//! Each change is a new text, written to every physical volume. See the [head](crate::lvm) for its order
//! and what a power cut leaves.

use crate::lvm::SECTOR;
use crate::lvm::area::{AreaHeader, HEADER_BYTES, Location};
use crate::lvm::checksum;
use crate::lvm::error::LvmError;
use crate::lvm::group::Group;
use crate::lvm::label::{Area, Id, LABEL_SECTORS, Label};
use crate::lvm::look::Found;
use crate::lvm::metadata::VolumeGroup;
use crate::lvm::text::{Node, Section, Value};
use async_recursion::async_recursion as boxed;
use rt::{Buf, DeviceRef, Request};
use std::collections::BTreeMap;
use stdx::{ByteCount, Offset, Prng};

/// Where LVM puts labels.
pub(super) const LABEL_SECTOR: u64 = 1;
/// Where LVM puts metadata areas.
pub(super) const AREA_START: u64 = 4096;
/// Where data begin by default: LVM's.
pub const DATA_START: ByteCount = ByteCount::mib(1);
/// LVM's default extent.
pub const EXTENT_DEFAULT: ByteCount = ByteCount::mib(4);
/// LVM's default stripe.
pub const STRIPE_DEFAULT: ByteCount = ByteCount::kib(64);
/// Letters of a name at the most: LVM's.
const NAME_LEN_MAX: usize = 127;

/// Who made a text and when: LVM keeps it beside the group.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Seconds since 1970.
    pub unix_s: i64,
    /// The machine's name.
    pub host: String,
}

/// A logical volume that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// How large at the least; it is rounded up to whole extents of all stripes.
    pub size: ByteCount,
    /// Over how many physical volumes it is striped; 1 is linear.
    pub stripes: usize,
    /// What lies on one before the next one's turn.
    pub stripe: ByteCount,
}

fn text(text: &str) -> Node {
    Node::Value(Value::Text(text.to_owned()))
}

fn number(number: u64) -> Node {
    Node::Value(Value::Number(i64::try_from(number).unwrap_or(i64::MAX)))
}

fn words(words: &[&str]) -> Node {
    Node::Value(Value::List(words.iter().map(|word| Value::Text((*word).to_owned())).collect()))
}

fn section(nodes: Vec<(&str, Node)>) -> Section {
    Section { nodes: nodes.into_iter().map(|(name, node)| (name.to_owned(), node)).collect() }
}

fn check_name(name: &str) -> Result<(), LvmError> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "+_.-".contains(letter);
    let good = !name.is_empty()
        && name.len() <= NAME_LEN_MAX
        && !name.starts_with('-')
        && name != "."
        && name != ".."
        && name.chars().all(is_letter);
    if good { Ok(()) } else { Err(LvmError::BadName { name: name.to_owned() }) }
}

/// Makes a volume group of these devices, which lose what they hold: a label, a metadata area of 1 MiB
/// less 4 KiB, and extents of this size behind it.
///
/// # Errors
/// [`LvmError`]; then some devices may have a label already, and none a group.
#[boxed(?Send)]
pub async fn create_group(
    devices: &[DeviceRef],
    name: &str,
    extent: ByteCount,
    origin: &Origin,
    prng: &mut Prng,
) -> Result<Group, LvmError> {
    check_name(name)?;
    let sizes = ByteCount::kib(4)..=ByteCount::gib(4);
    if !extent.bytes().is_power_of_two() || !sizes.contains(&extent) {
        return Err(LvmError::ExtentSize(extent));
    }
    let mut physical = Vec::new();
    let mut found = BTreeMap::new();
    for (place, device) in devices.iter().enumerate() {
        let capacity = device.geometry().capacity;
        let extents = capacity.bytes().saturating_sub(DATA_START.bytes()) / extent.bytes();
        if extents == 0 {
            let device = device.name().to_string();
            return Err(LvmError::TooSmall { device, capacity });
        }
        let label = Label {
            id: Id::random(|| prng.next_u64()),
            device_bytes: capacity.bytes(),
            data: vec![Area { start: DATA_START.bytes(), len: 0 }],
            metadata: vec![Area { start: AREA_START, len: DATA_START.bytes() - AREA_START }],
        };
        let described = section(vec![
            ("id", text(&label.id.to_string())),
            ("device", text(&device.name())),
            ("status", words(&["ALLOCATABLE"])),
            ("flags", words(&[])),
            ("dev_size", number(capacity.bytes() / SECTOR)),
            ("pe_start", number(DATA_START.bytes() / SECTOR)),
            ("pe_count", number(extents)),
        ]);
        let key = format!("pv{place}");
        physical.push((key.clone(), Node::Section(described)));
        let empty = AreaHeader {
            start: AREA_START,
            len: DATA_START.bytes() - AREA_START,
            text: None,
            ignored: false,
        };
        found.insert(key, Found { device: device.clone(), label, areas: vec![empty] });
    }
    let id = Id::random(|| prng.next_u64());
    let described = section(vec![
        ("id", text(&id.to_string())),
        ("seqno", number(0)),
        ("format", text("lvm2")),
        ("status", words(&["RESIZEABLE", "READ", "WRITE"])),
        ("flags", words(&[])),
        ("extent_size", number(extent.bytes() / SECTOR)),
        ("max_lv", number(0)),
        ("max_pv", number(0)),
        ("metadata_copies", number(0)),
        ("physical_volumes", Node::Section(Section { nodes: physical })),
    ]);
    let whole = section(vec![
        (name, Node::Section(described)),
        ("contents", text("Text Format Volume Group")),
        ("version", number(1)),
        ("description", text("")),
    ]);
    // The text goes first: a label without a text is an unused physical volume.
    for volume in found.values() {
        let head = vec![0; (LABEL_SECTORS * SECTOR) as usize];
        write(&volume.device, 0, head, true).await?;
    }
    let group = VolumeGroup::of_text(&whole).expect("this text is whole");
    let mut group = Group::whole(group, whole, found);
    group.commit(origin, |_| {}).await?;
    for volume in group.found.values() {
        let mut head = vec![0; (LABEL_SECTORS * SECTOR) as usize];
        let at = (LABEL_SECTOR * SECTOR) as usize;
        head[at..at + SECTOR as usize].copy_from_slice(&volume.label.encode(LABEL_SECTOR));
        write(&volume.device, 0, head, true).await?;
    }
    Ok(group)
}

impl Group {
    /// Makes a logical volume out of free extents. What they hold is not zeroed.
    ///
    /// # Errors
    /// [`LvmError`]
    #[boxed(?Send)]
    pub async fn create_volume(
        &mut self,
        wanted: &Wanted,
        origin: &Origin,
        prng: &mut Prng,
    ) -> Result<(), LvmError> {
        check_name(&wanted.name)?;
        self.check_one_of_each()?;
        let (group, volume) = (self.group.name.clone(), wanted.name.clone());
        if self.group.logical.iter().any(|other| other.name == wanted.name) {
            return Err(LvmError::Exists { group, volume });
        }
        let extent = self.group.extent_sectors * SECTOR;
        let stripe = wanted.stripe.bytes();
        if wanted.stripes > 1
            && (!stripe.is_power_of_two() || stripe < 4096 || !extent.is_multiple_of(stripe))
        {
            return Err(LvmError::StripeSize(wanted.stripe));
        }
        let stripes = wanted.stripes.max(1) as u64;
        let extents = wanted.size.bytes().div_ceil(extent).max(1).next_multiple_of(stripes);
        let segments = self.allocate(extents, wanted.stripes.max(1))?;
        let mut described = vec![
            ("id", text(&Id::random(|| prng.next_u64()).to_string())),
            ("status", words(&["READ", "WRITE", "VISIBLE"])),
            ("flags", words(&[])),
            ("creation_time", Node::Value(Value::Number(origin.unix_s))),
            ("creation_host", text(&origin.host)),
            ("segment_count", number(segments.len() as u64)),
        ];
        let names: Vec<String> = (1..=segments.len()).map(|n| format!("segment{n}")).collect();
        let mut start = 0;
        for (name, (count, places)) in names.iter().zip(&segments) {
            let flat = places.iter().flat_map(|(physical, first)| {
                let first = i64::try_from(*first).unwrap_or(i64::MAX);
                [Value::Text(physical.clone()), Value::Number(first)]
            });
            let mut nodes = vec![
                ("start_extent", number(start)),
                ("extent_count", number(*count)),
                ("type", text("striped")),
                ("stripe_count", number(places.len() as u64)),
            ];
            if places.len() > 1 {
                nodes.push(("stripe_size", number(stripe / SECTOR)));
            }
            nodes.push(("stripes", Node::Value(Value::List(flat.collect()))));
            described.push((name, Node::Section(section(nodes))));
            start += count;
        }
        let described = section(described);
        self.commit(origin, |group| {
            let volumes = group.section_mut("logical_volumes");
            volumes.nodes.push((wanted.name.clone(), Node::Section(described)));
        })
        .await
    }

    /// Removes a logical volume. What it held stays on the physical volumes until somebody writes there.
    ///
    /// # Errors
    /// [`LvmError`]
    #[boxed(?Send)]
    pub async fn remove_volume(&mut self, name: &str, origin: &Origin) -> Result<(), LvmError> {
        self.volume(name)?;
        self.check_one_of_each()?;
        self.commit(origin, |group| {
            group.section_mut("logical_volumes").remove(name);
        })
        .await
    }

    /// Free extents for a volume: each stripe on a physical volume of its own, first fit.
    fn allocate(&self, extents: u64, stripes: usize) -> Result<Vec<Allocated>, LvmError> {
        let mut free: Vec<(&String, Vec<std::ops::Range<u64>>)> =
            self.group.physical.keys().map(|name| (name, self.group.free(name))).collect();
        let total: u64 =
            free.iter().flat_map(|(_, ranges)| ranges).map(|range| range.end - range.start).sum();
        let no_space = || LvmError::NoSpace {
            group: self.group.name.clone(),
            wanted: extents,
            stripes,
            free: total,
            extent: ByteCount(self.group.extent_sectors.saturating_mul(SECTOR)),
        };
        let (mut left, mut segments) = (extents, Vec::new());
        while left > 0 {
            free.iter_mut().for_each(|(_, ranges)| ranges.retain(|range| !range.is_empty()));
            let mut with_room: Vec<_> =
                free.iter_mut().filter(|(_, ranges)| !ranges.is_empty()).collect();
            if with_room.len() < stripes {
                return Err(no_space());
            }
            if stripes > 1 {
                // The emptiest, so that stripes stay long.
                with_room.sort_by_key(|(_, ranges)| {
                    std::cmp::Reverse(
                        ranges.iter().map(|range| range.end - range.start).sum::<u64>(),
                    )
                });
            }
            let chosen = &mut with_room[..stripes];
            let room = chosen.iter().map(|(_, ranges)| ranges[0].end - ranges[0].start).min();
            let each = room.unwrap_or(0).min(left / stripes as u64);
            let mut places = Vec::new();
            for (name, ranges) in chosen {
                places.push(((*name).clone(), ranges[0].start));
                ranges[0].start += each;
            }
            segments.push((each * stripes as u64, places));
            left -= each * stripes as u64;
        }
        Ok(segments)
    }

    /// Writes the text, changed by `change`, to every physical volume.
    async fn commit(
        &mut self,
        origin: &Origin,
        change: impl FnOnce(&mut Section),
    ) -> Result<(), LvmError> {
        let group = || self.group.name.clone();
        if let Some(error) = self.older() {
            return Err(error);
        }
        if let Some(error) = self.barred_by_outdated() {
            return Err(error);
        }
        if let Some(device) = self.damaged.first().cloned() {
            return Err(LvmError::Damaged { group: group(), device });
        }
        if !self.group.writable {
            return Err(LvmError::ReadOnly { group: group() });
        }
        for (name, volume) in &self.group.physical {
            if !self.found.contains_key(name) {
                return Err(LvmError::MissingForChange { group: group(), id: volume.id });
            }
        }
        if let Some((found, _)) = self.cut_short().first() {
            let device = found.device.name().to_string();
            return Err(LvmError::ShortForChange { group: group(), device });
        }
        let mut whole = self.text.clone();
        let described = whole.section_mut(&self.group.name);
        change(described);
        described.set("seqno", Value::Number((self.group.seqno + 1) as i64));
        whole.set("creation_host", Value::Text(origin.host.clone()));
        whole.set("creation_time", Value::Number(origin.unix_s));
        let mut bytes = whole.text().into_bytes();
        bytes.push(0);
        let device =
            self.found.values().next().map_or(String::new(), |one| one.device.name().to_string());
        let checked =
            VolumeGroup::of_text(&whole).map_err(|error| LvmError::Metadata { device, error })?;
        // Every area must have room before any is written.
        let mut places = Vec::new();
        for found in self.found.values() {
            for area in &found.areas {
                let place =
                    area.place(bytes.len() as u64).ok_or_else(|| LvmError::TextTooLong {
                        group: group(),
                        device: found.device.name().to_string(),
                    })?;
                places.push((found.device.clone(), area.clone(), place));
            }
        }
        let sum = checksum(&bytes);
        let padded_len = bytes.len().next_multiple_of(HEADER_BYTES as usize);
        let mut padded = bytes.clone();
        padded.resize(padded_len, 0);
        for (device, area, place) in &places {
            let room = (area.len - place).min(padded_len as u64) as usize;
            write(device, area.start + place, padded[..room].to_vec(), false).await?;
            device.submit(Request::flush()).await?;
        }
        let text = |offset| Some(Location { offset, len: bytes.len() as u64, checksum: sum });
        for (device, area, place) in &places {
            let header = AreaHeader { text: text(*place), ..area.clone() };
            write(device, area.start, header.encode().to_vec(), true).await?;
        }
        let mut places = places.into_iter();
        for found in self.found.values_mut() {
            for area in &mut found.areas {
                let (_, _, place) = places.next().expect("there is one for each area");
                area.text = text(place);
            }
        }
        (self.group, self.text) = (checked, whole);
        Ok(())
    }
}

/// Extents of a segment, and where each stripe begins.
type Allocated = (u64, Vec<(String, u64)>);

/// Writes bytes that may not fill the last block: what lies there is kept.
pub(super) async fn write(
    device: &DeviceRef,
    at: u64,
    bytes: Vec<u8>,
    fua: bool,
) -> Result<(), LvmError> {
    let block = device.geometry().logical_block;
    let start = Offset(at).round_down(block);
    let end = Offset(at + bytes.len() as u64).round_up(block);
    let mut whole = bytes;
    if start.bytes() != at || !(whole.len() as u64).is_multiple_of(block.bytes()) {
        let len = ByteCount(end.bytes() - start.bytes());
        let mut there = device.submit(Request::read(start, len)).await?.to_vec();
        let skip = (at - start.bytes()) as usize;
        there[skip..skip + whole.len()].copy_from_slice(&whole);
        whole = there;
    }
    let data = Buf::copy_of(&whole);
    let request = if fua { Request::write_fua(start, data) } else { Request::write(start, data) };
    device.submit(request).await?;
    Ok(())
}
