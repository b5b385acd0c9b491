//! What the text of a volume group says, checked.

use crate::lvm::label::Id;
use crate::lvm::text::{Section, TextError, Value};
use std::collections::BTreeMap;

/// Physical volumes of a group at the most.
pub const PHYSICAL_MAX: usize = 1024;
/// Logical volumes of a group at the most.
pub const LOGICAL_MAX: usize = 16_384;
/// Segments of a logical volume at the most.
pub const SEGMENTS_MAX: usize = 65_536;
/// Stripes of a segment at the most: LVM's own limit.
pub const STRIPES_MAX: usize = 128;

/// A volume group.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeGroup {
    /// Its name.
    pub name: String,
    /// Which it is.
    pub id: Id,
    /// Grows with each change.
    pub seqno: u64,
    /// The unit of allocation, in sectors of 512 B.
    pub extent_sectors: u64,
    /// Whether it may be written.
    pub writable: bool,
    /// By the names that segments call them: `pv0`.
    pub physical: BTreeMap<String, PhysicalVolume>,
    /// In the text's order.
    pub logical: Vec<LogicalVolume>,
}

/// A physical volume of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct PhysicalVolume {
    /// Which it is.
    pub id: Id,
    /// Where its extents begin, in sectors of 512 B.
    pub start_sector: u64,
    /// How many extents it has.
    pub extents: u64,
    /// How large its device was, in sectors of 512 B, where the text says.
    pub device_sectors: Option<u64>,
}

/// A logical volume.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalVolume {
    /// Its name.
    pub name: String,
    /// Which it is.
    pub id: Id,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether users see it; parts of other volumes are not.
    pub visible: bool,
    /// From its start to its end, without gaps.
    pub segments: Vec<Segment>,
}

impl LogicalVolume {
    /// How many extents it has.
    pub fn extents(&self) -> u64 {
        self.segments.iter().map(|segment| segment.extents).sum()
    }
}

/// A stretch of a logical volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// How many extents it has, all stripes together.
    pub extents: u64,
    /// How it is laid out.
    pub mapping: Mapping,
}

/// How a segment is laid out.
#[derive(Clone, Debug, PartialEq)]
pub enum Mapping {
    /// One stripe, or several in turn.
    Striped {
        /// What lies on one before the next one's turn, in sectors of 512 B; nothing with one stripe.
        stripe_sectors: u64,
        /// Physical volume and its first extent.
        stripes: Vec<(String, u64)>,
    },
    /// What is not opened here, by LVM's name.
    Other(String),
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum MetadataError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("there is no volume group in it")]
    NoGroup,
    #[error("{place}: {key} is missing or is none")]
    Key { place: String, key: &'static str },
    #[error("{place}: more than {max} {what}")]
    TooMany { place: String, what: &'static str, max: usize },
    #[error("{place}: its segments leave a gap or overlap at extent {extent}")]
    Gap { place: String, extent: u64 },
    #[error("{place}: {stripes} stripes of {sectors} sectors do not divide {extents} extents")]
    Stripes { place: String, stripes: usize, sectors: u64, extents: u64 },
    #[error("{place}: extents {first} to {end} of {physical}, which has {extents}")]
    Beyond { place: String, physical: String, first: u64, end: u64, extents: u64 },
}

/// A section with its place, for errors.
struct Place<'a> {
    section: &'a Section,
    name: String,
}

impl<'a> Place<'a> {
    fn wrong(&self, key: &'static str) -> MetadataError {
        MetadataError::Key { place: self.name.clone(), key }
    }

    fn value(&self, key: &'static str) -> Result<&'a Value, MetadataError> {
        self.section.value(key).ok_or_else(|| self.wrong(key))
    }

    fn count(&self, key: &'static str) -> Result<u64, MetadataError> {
        self.value(key)?.as_count().ok_or_else(|| self.wrong(key))
    }

    fn id(&self) -> Result<Id, MetadataError> {
        let text = self.value("id")?.as_text().and_then(|text| text.parse().ok());
        text.ok_or_else(|| self.wrong("id"))
    }

    fn has_status(&self, word: &str) -> bool {
        let status = self.section.value("status").map_or(&[][..], Value::as_list);
        status.iter().any(|value| value.as_text() == Some(word))
    }

    fn sections(&self, name: &str) -> impl Iterator<Item = (&'a str, Place<'a>)> {
        let (own, name) = (self.name.clone(), name.to_owned());
        let inner = self.section.section(&name).map(Section::sections);
        inner
            .into_iter()
            .flatten()
            .map(move |(inner, section)| (inner, Place { section, name: format!("{own}/{inner}") }))
    }
}

impl VolumeGroup {
    /// The group of a text that was read into a tree.
    ///
    /// # Errors
    /// What is missing, or can't be.
    pub fn of_text(text: &Section) -> Result<VolumeGroup, MetadataError> {
        let (name, section) = text.sections().next().ok_or(MetadataError::NoGroup)?;
        let group = Place { section, name: name.to_owned() };
        let mut physical = BTreeMap::new();
        for (name, place) in group.sections("physical_volumes") {
            if physical.len() == PHYSICAL_MAX {
                let (place, what) = (group.name.clone(), "physical volumes");
                return Err(MetadataError::TooMany { place, what, max: PHYSICAL_MAX });
            }
            let (start_sector, extents) = (place.count("pe_start")?, place.count("pe_count")?);
            let device_sectors = place.count("dev_size").ok();
            let volume = PhysicalVolume { id: place.id()?, start_sector, extents, device_sectors };
            physical.insert(name.to_owned(), volume);
        }
        let extent_sectors = group.count("extent_size")?;
        if extent_sectors == 0 || extent_sectors > 1 << 32 {
            return Err(group.wrong("extent_size"));
        }
        let mut logical = Vec::new();
        for (name, place) in group.sections("logical_volumes") {
            if logical.len() == LOGICAL_MAX {
                let (place, what) = (group.name.clone(), "logical volumes");
                return Err(MetadataError::TooMany { place, what, max: LOGICAL_MAX });
            }
            logical.push(LogicalVolume {
                name: name.to_owned(),
                id: place.id()?,
                writable: place.has_status("WRITE"),
                visible: place.has_status("VISIBLE"),
                segments: segments(&place, extent_sectors, &physical)?,
            });
        }
        Ok(VolumeGroup {
            name: group.name.clone(),
            id: group.id()?,
            seqno: group.count("seqno")?,
            extent_sectors,
            writable: group.has_status("WRITE"),
            physical,
            logical,
        })
    }

    /// The extents of a physical volume that no segment lies on, as ranges in order. Where a segment of
    /// another kind has the volume, nothing of it counts as free.
    pub fn free(&self, physical: &str) -> Vec<std::ops::Range<u64>> {
        let Some(volume) = self.physical.get(physical) else { return Vec::new() };
        let mut used: Vec<(u64, u64)> = Vec::new();
        for segment in self.logical.iter().flat_map(|logical| &logical.segments) {
            match &segment.mapping {
                Mapping::Striped { stripes, .. } => {
                    let each = segment.extents / stripes.len() as u64;
                    let here = stripes.iter().filter(|(name, _)| name == physical);
                    used.extend(here.map(|(_, first)| (*first, first + each)));
                }
                // Which extents it takes is not known here.
                Mapping::Other(_) => return Vec::new(),
            }
        }
        used.sort_unstable();
        let (mut free, mut at) = (Vec::new(), 0);
        for (first, end) in used.into_iter().chain([(volume.extents, volume.extents)]) {
            if at < first {
                free.push(at..first);
            }
            at = at.max(end);
        }
        free
    }
}

fn segments(
    logical: &Place<'_>,
    extent_sectors: u64,
    physical: &BTreeMap<String, PhysicalVolume>,
) -> Result<Vec<Segment>, MetadataError> {
    let mut segments = Vec::new();
    let mut next = 0_u64;
    let mut places: Vec<Place<'_>> = Vec::new();
    for (name, section) in logical.section.sections() {
        if name.starts_with("segment") {
            places.push(Place { section, name: format!("{}/{name}", logical.name) });
        }
    }
    if places.len() > SEGMENTS_MAX {
        let (place, what) = (logical.name.clone(), "segments");
        return Err(MetadataError::TooMany { place, what, max: SEGMENTS_MAX });
    }
    places.sort_by_key(|place| place.count("start_extent").unwrap_or(u64::MAX));
    for place in places {
        let (start, extents) = (place.count("start_extent")?, place.count("extent_count")?);
        if start != next || extents == 0 {
            return Err(MetadataError::Gap { place: place.name, extent: start });
        }
        next = start.checked_add(extents).ok_or_else(|| place.wrong("extent_count"))?;
        let kind = place.value("type")?.as_text().ok_or_else(|| place.wrong("type"))?;
        let mapping = match kind {
            "striped" => striped(&place, extents, extent_sectors, physical)?,
            other => Mapping::Other(other.to_owned()),
        };
        segments.push(Segment { extents, mapping });
    }
    Ok(segments)
}

fn striped(
    place: &Place<'_>,
    extents: u64,
    extent_sectors: u64,
    physical: &BTreeMap<String, PhysicalVolume>,
) -> Result<Mapping, MetadataError> {
    let list = place.value("stripes")?.as_list();
    if list.is_empty() || !list.len().is_multiple_of(2) || list.len() / 2 > STRIPES_MAX {
        return Err(place.wrong("stripes"));
    }
    let count = list.len() / 2;
    if place.count("stripe_count")? != count as u64 {
        return Err(place.wrong("stripe_count"));
    }
    let stripe_sectors = if count > 1 { place.count("stripe_size")? } else { 0 };
    let divides = extents.is_multiple_of(count as u64)
        && (count == 1 || stripe_sectors > 0 && extent_sectors.is_multiple_of(stripe_sectors));
    if !divides {
        let place = place.name.clone();
        return Err(MetadataError::Stripes {
            place,
            stripes: count,
            sectors: stripe_sectors,
            extents,
        });
    }
    let each = extents / count as u64;
    let mut stripes = Vec::new();
    for pair in list.chunks_exact(2) {
        let (name, first) = (pair[0].as_text(), pair[1].as_count());
        let (Some(name), Some(first)) = (name, first) else { return Err(place.wrong("stripes")) };
        let volume = physical.get(name).ok_or_else(|| place.wrong("stripes"))?;
        let end = first.saturating_add(each);
        if end > volume.extents {
            let (place, physical) = (place.name.clone(), name.to_owned());
            return Err(MetadataError::Beyond {
                place,
                physical,
                first,
                end,
                extents: volume.extents,
            });
        }
        stripes.push((name.to_owned(), first));
    }
    Ok(Mapping::Striped { stripe_sectors, stripes })
}
