//! Logical volumes as devices: of all their extents, or in part.
//!
//! **In part.** Where a physical volume is missing, or its device ends too soon, the others still have what lies on them. Bytes of a volume
//! that lay elsewhere can't be read then; which those are the group's text tells ([`Group::lacking`]).

use crate::absent::{Absent, lengthened};
use crate::lvm::SECTOR;
use crate::lvm::error::LvmError;
use crate::lvm::group::{Group, needed};
use crate::lvm::label::Id;
use crate::lvm::metadata::{LogicalVolume, Mapping, Segment};
use md::{Array, ArraySpec, Level};
use rt::filter::{Linear, Slice};
use rt::{DeviceRef, Request, Rt};
use std::ops::Range;
use stdx::{ByteCount, Offset};

/// Bytes of a volume at the most: as many as a place on a device can name.
const BYTES_MAX: u64 = 1 << 62;

/// Why bytes of a volume are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// This physical volume is missing.
    Missing(Id),
    /// This device ends before them.
    CutShort(String),
}

/// Bytes of a volume that are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Why.
    pub why: Lacks,
    /// How many.
    pub bytes: u64,
    /// From the first of them to the last. Where it is striped, what lies on others is in between.
    pub within: Range<u64>,
}

/// A stripe of a segment.
struct Stripe<'a> {
    physical: &'a str,
    /// Where it begins on the physical volume's device, and how long it is.
    start: u64,
    len: u64,
}

impl Group {
    /// A logical volume as a device.
    ///
    /// # Errors
    /// Where a physical volume of it is missing or ends too soon, or it is of a kind that is not supported.
    pub fn open(&self, rt: &Rt, name: &str) -> Result<DeviceRef, LvmError> {
        self.opened(rt, name, false)
    }

    /// The same of what is there of it: what [lacks](Group::lacking) can't be read.
    ///
    /// # Errors
    /// It is of a kind that is not supported.
    pub fn open_in_part(&self, rt: &Rt, name: &str) -> Result<DeviceRef, LvmError> {
        self.opened(rt, name, true)
    }

    /// What is not there of a volume, of each physical volume that it should be on.
    pub fn lacking(&self, volume: &LogicalVolume) -> Vec<Lacking> {
        let (mut all, mut at): (Vec<Lacking>, u64) = (Vec::new(), 0);
        if !self.is_sized(volume) {
            return all;
        }
        for segment in &volume.segments {
            let from = at;
            at += segment.extents * self.group.extent_sectors * SECTOR;
            let Mapping::Striped { stripe_sectors, stripes } = &segment.mapping else { continue };
            let (count, chunk) = (stripes.len() as u64, stripe_sectors.saturating_mul(SECTOR));
            for (place, (physical, first)) in (0..).zip(stripes) {
                let Some(stripe) = self.stripe(physical, *first, segment.extents / count) else {
                    continue;
                };
                let Some((why, there)) = self.lacks(&stripe) else { continue };
                // Where a byte of the stripe lies in the segment.
                let lies = |byte: u64| match count {
                    1 => byte,
                    _ => (byte / chunk * count + place) * chunk + byte % chunk,
                };
                let within = from + lies(there)..from + lies(stripe.len - 1) + 1;
                let bytes = stripe.len - there;
                match all.iter_mut().find(|other| other.why == why) {
                    Some(other) => {
                        other.bytes += bytes;
                        other.within.start = other.within.start.min(within.start);
                        other.within.end = other.within.end.max(within.end);
                    }
                    None => all.push(Lacking { why, bytes, within }),
                }
            }
        }
        all
    }

    /// Whether its extents are no more bytes than a device can have.
    fn is_sized(&self, volume: &LogicalVolume) -> bool {
        let extent = self.group.extent_sectors * SECTOR;
        volume.extents().checked_mul(extent).is_some_and(|bytes| bytes <= BYTES_MAX)
    }

    /// Why bytes of a stripe are not there, and how many there are before them.
    fn lacks(&self, stripe: &Stripe<'_>) -> Option<(Lacks, u64)> {
        let Some(found) = self.found.get(stripe.physical) else {
            return Some((Lacks::Missing(self.group.physical[stripe.physical].id), 0));
        };
        let geometry = found.device.geometry();
        let capacity = geometry.capacity.round_down(geometry.logical_block);
        let there = capacity.bytes().saturating_sub(stripe.start).min(stripe.len);
        let device = || found.device.name().to_string();
        (there < stripe.len).then(|| (Lacks::CutShort(device()), there))
    }

    /// So many extents from this one on; nothing where no number says where that is.
    fn stripe<'a>(&self, physical: &'a str, first: u64, extents: u64) -> Option<Stripe<'a>> {
        let extent = self.group.extent_sectors * SECTOR;
        let start = self.group.physical[physical].start_sector.checked_mul(SECTOR)?;
        let start = first.checked_mul(extent)?.checked_add(start)?;
        let len = extents.checked_mul(extent)?;
        start.checked_add(len).map(|_| Stripe { physical, start, len })
    }

    fn opened(&self, rt: &Rt, name: &str, in_part: bool) -> Result<DeviceRef, LvmError> {
        let volume = self.volume(name)?;
        self.check_one_of_each()?;
        if !self.is_sized(volume) {
            let (group, volume) = (self.group.name.clone(), name.to_owned());
            return Err(LvmError::TooLarge { group, volume });
        }
        let segments = volume.segments.iter();
        let segments = segments.map(|segment| self.open_segment(rt, volume, segment, in_part));
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
        in_part: bool,
    ) -> Result<DeviceRef, LvmError> {
        let (group, name) = (|| self.group.name.clone(), || volume.name.clone());
        let (stripe_sectors, stripes) = match &segment.mapping {
            Mapping::Striped { stripe_sectors, stripes } => (*stripe_sectors, stripes),
            Mapping::Other(kind) => {
                let kind = kind.clone();
                return Err(LvmError::Kind { group: group(), volume: name(), kind });
            }
        };
        let each = segment.extents / stripes.len() as u64;
        let mut parts: Vec<DeviceRef> = Vec::new();
        for (physical, first) in stripes {
            let stripe = self.stripe(physical, *first, each);
            parts.push(self.open_stripe(volume, physical, stripe, in_part)?);
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

    fn open_stripe(
        &self,
        volume: &LogicalVolume,
        physical: &str,
        stripe: Option<Stripe<'_>>,
        in_part: bool,
    ) -> Result<DeviceRef, LvmError> {
        let (group, name) = (|| self.group.name.clone(), || volume.name.clone());
        let described = &self.group.physical[physical];
        let id = described.id;
        let Some(found) = self.found.get(physical) else {
            return match stripe.filter(|_| in_part) {
                Some(stripe) => {
                    let name = format!("the missing physical volume {id}");
                    Ok(Absent::missing(&name, ByteCount(stripe.len)))
                }
                None => Err(LvmError::Missing { group: group(), volume: name(), id }),
            };
        };
        let device = &found.device;
        let within = |stripe: &&Stripe<'_>| {
            Request::read(Offset(stripe.start), ByteCount(stripe.len)).check(&**device).is_ok()
        };
        if let Some(stripe) = stripe.as_ref().filter(within) {
            return Ok(Slice::new(device.clone(), Offset(stripe.start), ByteCount(stripe.len)));
        }
        let long = stripe.filter(|_| in_part);
        let long = long.and_then(|stripe| lengthened(device, stripe.start, stripe.len));
        long.ok_or_else(|| LvmError::DeviceTooSmall {
            group: group(),
            volume: name(),
            device: device.name().to_string(),
            has: device.geometry().capacity.bytes(),
            needed: needed(described, self.group.extent_sectors),
        })
    }
}
