//! Making a group, and finding it again on its disks.
//!
//! [`DiskGroup::assemble`] makes a group in memory and writes nothing, as a measurement needs it;
//! [`DiskGroup::create`] also writes headers, after wiping what was there; [`DiskGroup::open`] reads them and
//! the allocation tables. Of the headers the one with the highest epoch counts. What it says has failed or was
//! dropped is left out, whatever lies on it. Losing claims are freed before anything else happens (see
//! `metadata`).

use crate::disk_state::DiskState;
use crate::group::{DiskGroup, Slot, geometry};
use crate::locks::ExtentLocks;
use crate::map::{Claim, Map};
use crate::metadata::{BLOCK, DiskLayout, ENTRIES, Header, TableBlock};
use crate::pattern::{Copy, Pattern, Place, Shape};
use crate::rebalance::look_at;
use crate::spec::{EXTENTS_MAX, GroupDisk, GroupSpec, Redundancy, SpecError, Striping};
use crate::striping::FINE_SET;
use rt::sync::Mutex;
use rt::{DeviceRef, IoError, IoErrorKind, Request, Rt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use stdx::{ByteCount, Offset};

/// Table blocks that are read in one request: 1 MiB.
const BLOCKS_AT_ONCE: u32 = 128;

/// What to do about a disk that the headers list and that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Don't open the group.
    #[default]
    Refuse,
    /// It has failed. From then on it has, even where it comes back.
    TakeAsFailed,
}

/// Why a group is not made or not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the texts name")]
pub enum OpenError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("none of the disks has the header of a disk group: name the disks of one")]
    NoHeader,
    #[error(
        "the disks are of different groups, or '{name}' is a copy of another: name those of one"
    )]
    Mixed { name: String },
    #[error("disk {disk} of the group is missing: name it too, or open the group without it")]
    Missing { disk: usize },
    #[error("extent {extent} has no copy on a disk that works: name the disks that are missing")]
    Lost { extent: u32 },
    #[error("'{name}': the header or allocation table makes no sense; the disk is damaged")]
    Damaged { name: String },
    #[error(transparent)]
    Io(#[from] IoError),
    #[error("recording that the group is open: {0}")]
    Record(IoErrorKind),
}

/// What a group is made of, whether new or found.
struct Parts {
    id: u64,
    au: u64,
    redundancy: Redundancy,
    striping: Striping,
    initial: u16,
    slots: Vec<Slot>,
    map: Map,
    epoch: u64,
}

impl DiskGroup {
    /// A group in memory; nothing is written to its disks until extents move or disks change.
    ///
    /// # Errors
    /// What is wrong with the wish.
    pub fn assemble(rt: &Rt, name: &str, spec: GroupSpec) -> Result<Rc<DiskGroup>, SpecError> {
        spec.check()?;
        let (au, copies) = (spec.au.bytes(), spec.redundancy.copies());
        let (mut slots, mut shapes) = (Vec::new(), Vec::new());
        for disk in spec.disks {
            let (layout, shape) = look_at(&disk, au)?;
            let GroupDisk { device, .. } = disk;
            shapes.push(shape);
            slots.push(new_slot(Some(device), shape, layout, DiskState::Member));
        }
        let room = Pattern::new(&shapes, copies).room(&shapes).min(EXTENTS_MAX);
        let unit = if spec.striping == Striping::Fine { FINE_SET } else { 1 };
        let extents = match spec.volume {
            Some(volume) => volume.bytes() / au / unit * unit,
            None => spare_one_disk(&shapes, copies, room) / unit * unit,
        };
        if extents == 0 || extents > room {
            let volume = spec.volume.unwrap_or(ByteCount(extents * au));
            return Err(SpecError::Volume { volume, room: ByteCount(room / unit * unit * au) });
        }
        let parts = Parts {
            id: spec.id,
            au,
            redundancy: spec.redundancy,
            striping: spec.striping,
            initial: slots.len() as u16,
            slots,
            map: Map::new(&shapes, copies, extents as u32),
            epoch: 0,
        };
        Ok(DiskGroup::of_parts(rt, name, parts, true))
    }

    /// A new group, with headers on its disks. What lies on them is lost.
    ///
    /// # Errors
    /// What is wrong with the wish, or a disk that can't be written.
    pub async fn create(rt: &Rt, name: &str, spec: GroupSpec) -> Result<Rc<DiskGroup>, OpenError> {
        let group = DiskGroup::assemble(rt, name, spec)?;
        group.epoch.set(1);
        group.record().await.map_err(OpenError::Record)?;
        Ok(group)
    }

    /// Opens the group that lies on these disks, in any order.
    ///
    /// # Errors
    /// Where there is none, or not enough of it.
    pub async fn open(
        rt: &Rt,
        name: &str,
        devices: Vec<DeviceRef>,
        missing: Missing,
    ) -> Result<Rc<DiskGroup>, OpenError> {
        let (latest, mut found) = read_headers(devices).await?;
        let redundancy = match latest.copies {
            1 => Redundancy::External,
            2 => Redundancy::Normal,
            _ => Redundancy::High,
        };
        let mut slots = Vec::new();
        for (number, (shape, state)) in latest.disks.iter().enumerate() {
            let (device, header_slot) = match found.remove(&(number as u16)) {
                Some((device, slot)) => (Some(device), slot),
                None => (None, 0),
            };
            let gone = device.is_none() && state.works();
            if gone && (missing == Missing::Refuse || redundancy == Redundancy::External) {
                return Err(OpenError::Missing { disk: number });
            }
            let state = if gone { DiskState::Failed } else { *state };
            let layout = match &device {
                None => DiskLayout { aus: shape.aus, blocks: 0, data_start: 0 },
                Some(device) => {
                    let layout = DiskLayout::new(device.geometry().capacity.bytes(), latest.au);
                    let layout = layout.filter(|layout| layout.aus == shape.aus);
                    layout.ok_or_else(|| OpenError::Damaged { name: device.name().to_string() })?
                }
            };
            let has_header = device.is_some();
            slots.push(Slot { header_slot, has_header, ..new_slot(device, *shape, layout, state) });
        }
        let shapes: Vec<Shape> = latest.disks.iter().map(|(shape, _)| *shape).collect();
        let (first, later) = shapes.split_at(latest.initial as usize);
        let copies = redundancy.copies();
        let mut groups: Vec<u16> = first.iter().map(|shape| shape.failure_group).collect();
        groups.sort_unstable();
        groups.dedup();
        let room = if groups.len() < copies { 0 } else { Pattern::new(first, copies).room(first) };
        if u64::from(latest.extents) > room || latest.extents == 0 {
            return Err(OpenError::Damaged { name: name.to_owned() });
        }
        let mut map = Map::new(first, copies, latest.extents);
        later.iter().for_each(|shape| map.add_disk(shape.aus));
        let mut tables = Vec::new();
        for (number, slot) in slots.iter_mut().enumerate() {
            if slot.state.works() {
                let place = Place { disk: number as u16, au: 0 };
                read_tables(slot, place, &latest, &mut tables).await?;
            }
        }
        let losers = map.take_tables(tables);
        map.count();
        let parts = Parts {
            id: latest.group,
            au: latest.au,
            redundancy,
            striping: latest.striping,
            initial: latest.initial,
            slots,
            map,
            epoch: latest.epoch,
        };
        let group = DiskGroup::of_parts(rt, name, parts, latest.in_step && latest.clean);
        if let Some(extent) = group.first_lost() {
            return Err(OpenError::Lost { extent });
        }
        for place in losers {
            // A disk that is not used has no say, so its table may stay as it is.
            if !group.disks.borrow()[place.disk as usize].state.works() {
                continue;
            }
            group.touch(place);
            group.write_table(place).await.map_err(OpenError::Record)?;
            group.map.borrow_mut().give_back(place);
        }
        group.epoch.set(latest.epoch + 1);
        group.record().await.map_err(OpenError::Record)?;
        Ok(group)
    }

    fn of_parts(rt: &Rt, name: &str, parts: Parts, in_step: bool) -> Rc<DiskGroup> {
        let devices: Vec<DeviceRef> =
            parts.slots.iter().filter_map(|slot| slot.device.clone()).collect();
        let geometry = geometry(&devices, parts.au, parts.map.extents(), parts.striping);
        Rc::new_cyclic(|this| DiskGroup {
            rt: rt.clone(),
            name: name.into(),
            id: parts.id,
            au: parts.au,
            redundancy: parts.redundancy,
            striping: parts.striping,
            initial: parts.initial,
            geometry,
            disks: RefCell::new(parts.slots),
            map: RefCell::new(parts.map),
            locks: Rc::new(ExtentLocks::default()),
            recording: Mutex::default(),
            epoch: Cell::new(parts.epoch),
            recorded: Cell::new(parts.epoch),
            clean: Cell::new(false),
            in_step: Cell::new(in_step || parts.redundancy == Redundancy::External),
            lost: Cell::new(false),
            operations: Mutex::default(),
            progress: RefCell::default(),
            this: this.clone(),
        })
    }
}

fn new_slot(device: Option<DeviceRef>, shape: Shape, layout: DiskLayout, state: DiskState) -> Slot {
    Slot {
        device,
        shape,
        layout,
        state,
        header_slot: 0,
        has_header: false,
        tables: BTreeMap::new(),
    }
}

/// How many extents leave room for dropping the largest disk, where more disks than copies are there.
fn spare_one_disk(shapes: &[Shape], copies: usize, room: u64) -> u64 {
    let mut groups: Vec<u16> = shapes.iter().map(|shape| shape.failure_group).collect();
    groups.sort_unstable();
    groups.dedup();
    if shapes.len() <= copies || copies > 1 && groups.len() <= copies {
        return room;
    }
    let aus = |shape: &Shape| u64::from(shape.aus);
    let largest = shapes.iter().map(aus).max().unwrap_or(0);
    let left = shapes.iter().map(aus).sum::<u64>() - largest;
    room.min(left / copies as u64).max(1)
}

/// The latest header, and the disks by number with the header slot to be written next.
type Found = (Header, BTreeMap<u16, (DeviceRef, u8)>);

async fn read_headers(devices: Vec<DeviceRef>) -> Result<Found, OpenError> {
    let mut headers: Vec<(Header, DeviceRef, u8)> = Vec::new();
    for device in devices {
        let read = Request::read(Offset::ZERO, ByteCount(2 * BLOCK));
        let blocks = device.submit(read).await?.to_vec();
        let slots = blocks.chunks(BLOCK as usize).map(Header::decode);
        let best = slots.enumerate().filter_map(|(slot, header)| Some((slot, header?)));
        if let Some((slot, header)) = best.max_by_key(|(_, header)| header.epoch) {
            headers.push((header, device, slot as u8 ^ 1));
        }
    }
    let latest = headers.iter().map(|(header, ..)| header).max_by_key(|header| header.epoch);
    let latest = latest.cloned().ok_or(OpenError::NoHeader)?;
    let mut found = BTreeMap::new();
    for (header, device, slot) in headers {
        let name = device.name().to_string();
        let same_epoch = header.epoch < latest.epoch || header.disks == latest.disks;
        let known = (header.disk as usize) < latest.disks.len();
        let twice = found.contains_key(&header.disk);
        if header.group != latest.group || twice || !same_epoch || !known {
            return Err(OpenError::Mixed { name });
        }
        found.insert(header.disk, (device, slot));
    }
    Ok((latest, found))
}

/// Adds to `tables` what the allocation table of a disk says.
async fn read_tables(
    slot: &mut Slot,
    first: Place,
    header: &Header,
    tables: &mut Vec<(Place, Option<Claim>)>,
) -> Result<(), OpenError> {
    let Some(device) = slot.device.clone() else { return Ok(()) };
    let damaged = || OpenError::Damaged { name: device.name().to_string() };
    let mut block = 0;
    while block < slot.layout.blocks {
        let count = BLOCKS_AT_ONCE.min(slot.layout.blocks - block);
        let len = ByteCount(u64::from(count) * 2 * BLOCK);
        let at = Offset(DiskLayout::table_at(block, 0));
        let bytes = device.submit(Request::read(at, len)).await?.to_vec();
        for (number, pair) in (block..).zip(bytes.chunks(2 * BLOCK as usize)) {
            let ours = |table: &TableBlock| {
                table.group == header.group && table.disk == first.disk && table.block == number
            };
            let slots = pair.chunks(BLOCK as usize).filter_map(TableBlock::decode);
            let Some(table) = slots.filter(ours).max_by_key(|table| table.generation) else {
                continue;
            };
            slot.tables.entry(number).or_default().generation.set(table.generation);
            for (index, claim) in (0..).zip(table.entries) {
                let place = Place { au: number * ENTRIES + index, ..first };
                let sane = claim.is_none_or(|Claim { copy: Copy { extent, copy }, .. }| {
                    extent < header.extents && copy < header.copies
                });
                if !sane || claim.is_some() && place.au >= slot.shape.aus {
                    return Err(damaged());
                }
                if place.au < slot.shape.aus {
                    tables.push((place, claim));
                }
            }
        }
        block += count;
    }
    Ok(())
}
