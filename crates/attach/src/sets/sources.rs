//! Which devices a command works on, and the sets on them.
//!
//! [Paths](crate::paths) are opened for reading alone. What has no superblock is passed over; what has a damaged one is
//! told, and passed over too, so that the set can be opened without it.
//!
//! The disks of most network storage boxes are partitioned, and their sets lie on the partitions. Of an image of such a disk
//! those are called `IMAGE:N`, and written by way of [`parted`](super::parted). Where the kernel's partitions of a disk are among the devices, the disk's own table is not looked at ([`tabled`]).

use super::name;
use super::place::{Place, file_of, number_of, whole_of};
use crate::context::Context;
use crate::error::{Error, there_are};
use crate::event::Event;
use crate::paths::expand;
use crate::uri::is_uri;
use ::md::assemble::{self, AssembleError, Choice, Found};
use host::identity::{is_partition_of, same};
use host::{FileDevice, FileOptions, Host, OpenError};
use rt::DeviceRef;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use volume::partition::{self, Partition, Table};

/// Opens a device for reading.
///
/// # Errors
/// Where it can't be opened.
pub fn open(host: &Host, path: &Path) -> Result<DeviceRef, Error> {
    let options = FileOptions { direct: false, read_only: true };
    let device = FileDevice::open(host, path, options).map_err(Error::Named)?;
    Ok(Rc::new(device))
}

/// Opens a device for writing, with the writer's lock.
///
/// # Errors
/// Where it can't be opened, or another process uses it.
pub fn open_writing(host: &Host, path: &Path) -> Result<DeviceRef, Error> {
    let options = FileOptions { direct: false, read_only: false };
    let device = FileDevice::open(host, path, options).map_err(Error::Named)?;
    Ok(Rc::new(device))
}

/// Opens for reading what a path names: a device, or with `DISK:N` a partition of one.
///
/// # Errors
/// Where it can't be opened, or there is no such partition.
pub fn open_named(context: &Context, path: &Path) -> Result<DeviceRef, Error> {
    match whole_of(path) {
        None => open(&context.host(), path),
        Some(whole) => {
            let disk = open(&context.host(), &whole)?;
            Ok(partition_of(context, &disk, path)?.device)
        }
    }
}

/// The partition that `DISK:N` names, of that disk.
///
/// # Errors
/// Where there is none, or the disk is a member of a set itself.
pub fn partition_of(context: &Context, disk: &DeviceRef, path: &Path) -> Result<Partition, Error> {
    let (disk, path) = (Rc::clone(disk), path.to_owned());
    context.finish(async move { partition_on(&disk, &path).await })
}

/// The same, for who waits itself.
///
/// # Errors
/// As of [`partition_of`].
pub async fn partition_on(disk: &DeviceRef, path: &Path) -> Result<Partition, Error> {
    let number = number_of(path);
    let is_member = matches!(assemble::find(disk).await, Ok(Some(_)));
    let table = partition::read_table(disk).await?;
    if is_member {
        let whole = PathBuf::from(&*disk.name());
        return Err(Error::PartitionOfMember { path: path.into(), whole });
    }
    let partitions = table.map_or_else(Vec::new, |table: Table| table.partitions);
    let numbers: Vec<String> = partitions.iter().map(|one| one.number.to_string()).collect();
    let found = partitions.into_iter().find(|one| Some(one.number) == number);
    found.ok_or_else(|| {
        let listed = match &numbers[..] {
            [] => format!("{} has none", disk.name()),
            _ => format!("{} has {}", disk.name(), numbers.join(", ")),
        };
        Error::NoPartition { path: path.into(), listed }
    })
}

/// The table of partitions of a device that is no member; nothing where the kernel's are among `all`.
///
/// # Errors
/// Where it is damaged, or can't be read.
pub fn table_of(
    context: &Context,
    device: &DeviceRef,
    all: &[DeviceRef],
) -> Result<Option<Table>, Error> {
    if tabled(std::slice::from_ref(device), all).is_empty() {
        return Ok(None);
    }
    let device = Rc::clone(device);
    context.finish(async move { partition::read_table(&device).await })
}

/// The devices with superblocks among these.
///
/// # Errors
/// Where one can't be opened.
pub fn scan(context: &Context, paths: &[PathBuf]) -> Result<Vec<Found>, Error> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    for path in expand(paths)? {
        // Sets are made of files and block devices. One that was named twice is one device all the same.
        if is_uri(&path) || Place::of(&path).is_some_and(|place| !known.insert(place)) {
            continue;
        }
        let device = match open_named(context, &path) {
            Ok(device) => device,
            // Whatever else lies in a folder of disks; a path that was named is another matter.
            Err(error) if !paths.contains(&path) => {
                if matches!(&error, Error::Named(error) if error.is_denied()) {
                    context.passed_denied(&path);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        all.push(Rc::clone(&device));
        let looked = Rc::clone(&device);
        match context.finish(async move { assemble::find(&looked).await }) {
            Ok(Some(one)) => found.push(one),
            Ok(None) => others.push(device),
            Err(error) => context.tell(Event::PassedOver { error }),
        }
    }
    if let Some(text) = context.denied() {
        context.tell(Event::Complaint(text));
    }
    let others = tabled(&others, &all);
    let on_parts = context.finish(async move {
        let mut parts = Vec::new();
        for device in &others {
            // What is wrong with a table is told by those who look at partitions.
            let table: Option<Table> = partition::read_table(device).await.ok().flatten();
            parts.extend(table.into_iter().flat_map(|table| table.partitions));
        }
        Ok::<_, Error>(on_partitions(&parts).await)
    })?;
    let (on_parts, damaged) = on_parts;
    let tell = |error: AssembleError| context.tell(Event::PassedOver { error: error.into() });
    damaged.into_iter().for_each(tell);
    add_on_partitions(&mut found, on_parts);
    for one in &found {
        context.know(one.superblock.set_uuid(), name::shown_by(one));
    }
    Ok(found)
}

/// Those of some devices whose table of partitions is to be looked at: not where the kernel's partitions are among `all`.
pub fn tabled(devices: &[DeviceRef], all: &[DeviceRef]) -> Vec<DeviceRef> {
    let path = |device: &DeviceRef| PathBuf::from(&*device.name());
    let is_divided = |device: &&DeviceRef| {
        let whole = path(device);
        !all.iter().any(|part| is_partition_of(&path(part), &whole))
    };
    devices.iter().filter(is_divided).cloned().collect()
}

/// What md wrote on partitions, and what is wrong with some.
pub async fn on_partitions(parts: &[Partition]) -> (Vec<Found>, Vec<AssembleError>) {
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for part in parts {
        match assemble::find(&part.device).await {
            Ok(one) => found.extend(one),
            Err(error) => damaged.push(error),
        }
    }
    (found, damaged)
}

/// Adds members that lie on partitions, but for those that are among the others under a name of their own: an image of a
/// partition beside that of its disk.
pub fn add_on_partitions(found: &mut Vec<Found>, on_parts: Vec<Found>) {
    let is_known = |found: &[Found], one: &Found| {
        let (set, number) = (one.superblock.set_uuid(), one.superblock.device_number());
        found.iter().any(|known| {
            known.superblock.set_uuid() == set && known.superblock.device_number() == number
        })
    };
    let new: Vec<Found> = on_parts.into_iter().filter(|one| !is_known(found, one)).collect();
    found.extend(new);
}

/// The file or block device that a member lies on: its own, or the disk of its partition.
pub fn path_of(found: &Found) -> PathBuf {
    file_of(Path::new(&found.name()))
}

/// Whether a set answers to a name: its UUID, its name with or without the host's, or a member's path.
pub fn is_called(devices: &[Found], called: &str) -> bool {
    devices.iter().any(|found| {
        let superblock = &found.superblock;
        let name = superblock.name();
        let short = name.split_once(':').map(|(_, short)| short);
        let device = name::device_name(superblock);
        let is_uuid = called.parse().is_ok_and(|uuid| superblock.set_uuid() == uuid);
        let is_device = device
            .as_deref()
            .is_some_and(|device| called == device || device.strip_prefix("/dev/") == Some(called));
        let is_name = !name.is_empty() && (called == name || short == Some(called));
        is_uuid || is_name || is_device || *found.device.name() == *called
    })
}

/// All sets on the devices, each with what keeps it from being one.
///
/// # Errors
/// Where a device can't be opened.
pub fn choices(context: &Context, paths: &[PathBuf]) -> Result<Vec<Result<Choice, Error>>, Error> {
    let sets = assemble::sets(scan(context, paths)?);
    let choose =
        |(set, found)| Choice::of(set, found).map_err(|error| context.naming(error.into()));
    Ok(sets.into_iter().map(choose).collect())
}

/// The set that is called so. Where ARRAY is a member's path, that member is among the devices, too.
///
/// # Errors
/// Where there is none, or several.
pub fn choice(context: &Context, paths: &[PathBuf], called: &str) -> Result<Choice, Error> {
    let mut paths = paths.to_vec();
    let path = PathBuf::from(called);
    if path.exists() && !path.is_dir() {
        let known = expand(&paths).unwrap_or_default();
        let is_it = |other: &&PathBuf| same(other, &path);
        if !known.iter().any(|other| is_it(&other)) {
            // Some file of that name is not meant, where nothing of md is on it.
            let device = open(&context.host(), &path);
            let is_member = device.and_then(|device| {
                // A damaged superblock is told when the devices are looked at.
                let found = async move { Ok::<_, Error>(assemble::find(&device).await) };
                Ok(!matches!(context.finish(found)?, Ok(None)))
            });
            if known.is_empty() || is_member.unwrap_or(false) {
                paths.push(path.clone());
            }
        } else if let Some(other) = known.iter().find(is_it) {
            return named(context, &paths, &other.to_string_lossy());
        }
    }
    named(context, &paths, called)
}

fn named(context: &Context, paths: &[PathBuf], called: &str) -> Result<Choice, Error> {
    among(scan(context, paths)?, called)
}

/// The set that is called so, among devices with superblocks.
///
/// # Errors
/// Where there is none, or several.
pub fn among(found: Vec<Found>, called: &str) -> Result<Choice, Error> {
    let sets = assemble::sets(found);
    if !sets.values().any(|devices| is_called(devices, called)) {
        let names = sets.values().filter_map(|devices| devices.first().map(name::shown_by));
        let listed = there_are(names).unwrap_or_else(|| "there is none on the devices".to_owned());
        return Err(Error::NoSet { called: called.into(), listed });
    }
    let mut fitting = sets.into_iter().filter(|(_, devices)| is_called(devices, called));
    let (set, devices) = fitting.next().expect("there is one");
    if let Some((other, _)) = fitting.next() {
        return Err(Error::Several { called: called.into(), one: set, other });
    }
    let shown = devices.first().map(name::shown_by).unwrap_or_default();
    Choice::of(set, devices).map_err(|error| Error::from(error).naming(set, &shown))
}

/// Refuses a set of which another process is writing a device.
///
/// # Errors
/// Names the device.
pub fn refuse_if_written(context: &Context, choice: &Choice) -> Result<(), Error> {
    for (name, device) in members(context, choice) {
        if device?.is_written_elsewhere() {
            return Err(Error::Written { device: name });
        }
    }
    Ok(())
}

/// A member that another process is writing, where there is one.
pub fn written_elsewhere(context: &Context, choice: &Choice) -> Option<String> {
    let is_written = |device: &FileDevice| device.is_written_elsewhere();
    let mut members = members(context, choice);
    members.find_map(|(name, device)| device.ok().filter(is_written).map(|_| name))
}

/// The set's members, by their names, each opened once more for reading.
fn members(
    context: &Context,
    choice: &Choice,
) -> impl Iterator<Item = (String, Result<FileDevice, OpenError>)> {
    let there = choice.slots.iter().flatten();
    let there = there.chain(choice.replacements.iter().map(|(_, found)| found));
    there.map(|found| {
        let options = FileOptions { direct: false, read_only: true };
        let device = FileDevice::open(&context.host(), &path_of(found), options);
        (found.name(), device)
    })
}

/// Keeps writers off the set's devices for as long as what comes back lives: who serves it would never hear of a change.
/// Where somebody writes already nothing is kept off.
pub fn keep_writers_off(context: &Context, choice: &Choice) -> Vec<FileDevice> {
    let devices = members(context, choice).filter_map(|(_, device)| device.ok());
    devices.filter(FileDevice::keep_writers_off).collect()
}
