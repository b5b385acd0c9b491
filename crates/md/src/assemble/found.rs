//! Reading what md wrote on one device.

use super::error::AssembleError;
use super::facts::Superblock;
use crate::superblock::bad_blocks::{self, BadBlock};
use crate::superblock::bitmap::{self, BitmapSuperblock, Bits};
use crate::superblock::place::Version;
use crate::superblock::v1::{STRUCTURE, SuperblockV1};
use crate::superblock::v090::SuperblockV090;
use crate::superblock::{Features, FormatError, Problem, SECTOR, SUPERBLOCK_BYTES, Uuid};
use async_recursion::async_recursion as boxed;
use rt::{DeviceRef, Request};
use std::collections::BTreeMap;
use stdx::{ByteCount, Offset};

/// Where the place of a superblock stands in one of format 1.
const SUPER_OFFSET_AT: usize = 144;

/// A device with a superblock.
#[derive(Clone)]
pub struct Found {
    /// The device.
    pub device: DeviceRef,
    /// Its superblock.
    pub superblock: Superblock,
    /// Where that lies.
    pub at: Offset,
}

impl Found {
    /// The device's name.
    pub fn name(&self) -> String {
        self.device.name().to_string()
    }
}

/// Reads bytes, rounded to whole blocks of the device and cut again.
async fn read(
    device: &DeviceRef,
    at: Offset,
    len: u64,
    what: &'static str,
) -> Result<Vec<u8>, AssembleError> {
    let geometry = device.geometry();
    let beyond = || AssembleError::BeyondEnd {
        device: device.name().to_string(),
        what,
        capacity: geometry.capacity,
    };
    let block = geometry.logical_block;
    let start = at.round_down(block);
    let end = at.checked_add(ByteCount(len)).ok_or_else(beyond)?.round_up(block);
    if end.from_start() > geometry.capacity {
        return Err(beyond());
    }
    let bytes = device.submit(Request::read(start, end - start)).await?.to_vec();
    let skip = (at - start).as_usize();
    Ok(bytes[skip..skip + len as usize].to_vec())
}

/// Looks for a superblock on a device; none where there is none.
///
/// # Errors
/// Where the device can't be read, or what is there is damaged or not supported.
#[boxed(?Send)]
pub async fn find(device: &DeviceRef) -> Result<Option<Found>, AssembleError> {
    let name = device.name().to_string();
    let capacity = device.geometry().capacity;
    let mut best: Option<Found> = None;
    let mut damaged = None;
    for version in Version::ALL {
        let Some(at) = version.place(capacity) else { continue };
        let bytes = read(device, at, SUPERBLOCK_BYTES as u64, "a superblock").await?;
        match decode(version, &bytes) {
            Ok(superblock) if is_in_place(&superblock, at) => {
                let newer = |held: &Found| held.superblock.created_s() < superblock.created_s();
                if best.as_ref().is_none_or(newer) {
                    best = Some(Found { device: device.clone(), superblock, at });
                }
            }
            Ok(_) => {}
            Err(error) if error.is_absence() => {}
            Err(error) if is_other_format(&error) => {}
            Err(error) => damaged = damaged.or(Some(error)),
        }
    }
    match (best, damaged) {
        (Some(found), _) => Ok(Some(found)),
        (None, Some(error)) => Err(AssembleError::format(&name, error)),
        (None, None) => Ok(None),
    }
}

/// A superblock whose checksum is wrong, shown all the same: what its fields say may be what is damaged.
pub struct Damaged {
    /// What it says.
    pub found: Found,
    /// The checksum that stands there.
    pub sum: u32,
    /// The one that would be right.
    pub computed: u32,
}

/// Looks for a superblock of which nothing but the checksum is wrong: for who looks at what is left, never to open a set by it.
///
/// # Errors
/// Where the device can't be read.
#[boxed(?Send)]
pub async fn find_damaged(device: &DeviceRef) -> Result<Option<Damaged>, AssembleError> {
    for version in Version::ALL {
        let Some(at) = version.place(device.geometry().capacity) else { continue };
        let bytes = read(device, at, SUPERBLOCK_BYTES as u64, "a superblock").await?;
        if let (Ok(superblock), Some((sum, computed))) = decode_whatever_its_sum(version, bytes)
            && is_in_place(&superblock, at)
        {
            let found = Found { device: device.clone(), superblock, at };
            return Ok(Some(Damaged { found, sum, computed }));
        }
    }
    Ok(None)
}

/// Looks for what begins as a superblock and has a field that no set can have: which field, and what is wrong with it.
///
/// # Errors
/// Where the device can't be read.
#[boxed(?Send)]
pub async fn find_impossible(device: &DeviceRef) -> Result<Option<FormatError>, AssembleError> {
    for version in Version::ALL {
        let Some(at) = version.place(device.geometry().capacity) else { continue };
        let bytes = read(device, at, SUPERBLOCK_BYTES as u64, "a superblock").await?;
        let error = match decode_whatever_its_sum(version, bytes).0 {
            Ok(Superblock::V1(sb)) if sb.super_offset != at.bytes() / SECTOR => FormatError {
                structure: STRUCTURE,
                field: "super_offset",
                offset: SUPER_OFFSET_AT,
                problem: Problem::Value(sb.super_offset),
            },
            Ok(_) => continue,
            Err(error) if error.is_absence() || is_whole_other_format(&error) => continue,
            Err(error) => error,
        };
        return Ok(Some(error));
    }
    Ok(None)
}

fn decode(version: Version, bytes: &[u8]) -> Result<Superblock, FormatError> {
    match version {
        Version::V090 => SuperblockV090::decode(bytes).map(|sb| Superblock::V090(Box::new(sb))),
        _ => SuperblockV1::decode(bytes).map(|sb| Superblock::V1(Box::new(sb))),
    }
}

/// What stands there, and where its checksum is wrong that and the one that would be right.
fn decode_whatever_its_sum(
    version: Version,
    mut bytes: Vec<u8>,
) -> (Result<Superblock, FormatError>, Option<(u32, u32)>) {
    match decode(version, &bytes) {
        Err(FormatError { offset, problem: Problem::Sum { found, computed }, .. }) => {
            bytes[offset..offset + size_of::<u32>()].copy_from_slice(&computed.to_le_bytes());
            (decode(version, &bytes), Some((found, computed)))
        }
        decoded => (decoded, None),
    }
}

/// Whether a superblock lies where it says it does: a copy of another device's start may lie anywhere.
fn is_in_place(superblock: &Superblock, at: Offset) -> bool {
    match superblock {
        Superblock::V1(sb) => sb.super_offset == at.bytes() / SECTOR,
        Superblock::V090(_) => true,
    }
}

/// The two formats have one magic: where one lies, the other is not damaged but absent.
fn is_other_format(error: &FormatError) -> bool {
    error.field == "major_version" && matches!(error.problem, Problem::Range { .. })
}

/// The same where the other format's number stands, and not one of no format.
fn is_whole_other_format(error: &FormatError) -> bool {
    is_other_format(error) && matches!(error.problem, Problem::Range { found: 0 | 1, .. })
}

/// The sets that devices belong to, by UUID.
pub fn sets(found: Vec<Found>) -> BTreeMap<Uuid, Vec<Found>> {
    let mut sets: BTreeMap<Uuid, Vec<Found>> = BTreeMap::new();
    for found in found {
        sets.entry(found.superblock.set_uuid()).or_default().push(found);
    }
    sets
}

/// The write-intent bitmap of a device; none where it has none.
///
/// # Errors
/// Where it can't be read, is another set's, or is of an unsupported kind.
#[boxed(?Send)]
pub async fn bitmap(found: &Found) -> Result<Option<(BitmapSuperblock, Bits)>, AssembleError> {
    if !found.superblock.features().has(Features::BITMAP) {
        return Ok(None);
    }
    let name = found.name();
    let from_superblock = match &found.superblock {
        Superblock::V1(sb) => sb.bitmap_offset().map_or(0, i64::from),
        // Right behind the superblock.
        Superblock::V090(_) => (SUPERBLOCK_BYTES as u64 / SECTOR) as i64,
    };
    let at = moved(found, from_superblock, "the bitmap")?;
    let bytes = read(&found.device, at, bitmap::SUPERBLOCK_BYTES as u64, "the bitmap").await?;
    let superblock =
        BitmapSuperblock::decode(&bytes).map_err(|error| AssembleError::format(&name, error))?;
    if superblock.set_uuid != bitmap_uuid(&found.superblock) {
        return Err(AssembleError::Unsupported {
            set: found.superblock.set_uuid(),
            what: "a bitmap that says it is another set's",
        });
    }
    if let Superblock::V1(sb) = &found.superblock
        && !sb.is_beside(from_superblock, superblock.total_bytes().div_ceil(SECTOR))
    {
        return Err(AssembleError::BitmapSpace { device: name });
    }
    let at = at + ByteCount(bitmap::SUPERBLOCK_BYTES as u64);
    let behind = read(&found.device, at, superblock.bits().div_ceil(8), "the bitmap").await?;
    let bits =
        Bits::decode(&superblock, &behind).map_err(|error| AssembleError::format(&name, error))?;
    Ok(Some((superblock, bits)))
}

/// The set's UUID as its bitmap writes it: 0.90 keeps it in words of the machine's byte order.
fn bitmap_uuid(superblock: &Superblock) -> Uuid {
    let Uuid(mut bytes) = superblock.set_uuid();
    if matches!(superblock, Superblock::V090(_)) {
        bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
    Uuid(bytes)
}

/// The bad-block log of a device; empty where there is none.
///
/// # Errors
/// Where it can't be read.
#[boxed(?Send)]
pub async fn bad_blocks(found: &Found) -> Result<Vec<BadBlock>, AssembleError> {
    let Superblock::V1(sb) = &found.superblock else { return Ok(Vec::new()) };
    if !sb.features.has(Features::BAD_BLOCKS) {
        return Ok(Vec::new());
    }
    let at = moved(found, i64::from(sb.bad_blocks.offset), "the bad-block log")?;
    let sectors = sb.bad_blocks.sectors.min(bad_blocks::SECTORS_MAX);
    let bytes = read(&found.device, at, u64::from(sectors) * SECTOR, "the bad-block log").await?;
    bad_blocks::decode(&bytes, sb.bad_blocks.shift)
        .map_err(|error| AssembleError::format(&found.name(), error))
}

/// A place so many sectors from the superblock.
pub(crate) fn moved(
    found: &Found,
    sectors: i64,
    what: &'static str,
) -> Result<Offset, AssembleError> {
    let sector = (found.at.bytes() / SECTOR).checked_add_signed(sectors);
    sector.and_then(|sector| sector.checked_mul(SECTOR)).map(Offset).ok_or_else(|| {
        let capacity = found.device.geometry().capacity;
        AssembleError::BeyondEnd { device: found.name(), what, capacity }
    })
}

/// Bytes at a sector of a device.
pub(crate) async fn read_at(
    found: &Found,
    at: Offset,
    len: u64,
    what: &'static str,
) -> Result<Vec<u8>, AssembleError> {
    read(&found.device, at, len, what).await
}
