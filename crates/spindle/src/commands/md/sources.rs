//! Which devices a command works on, and the sets on them.
//!
//! A path is a file, a block device, or a folder whose files and block devices are taken, by name. They are
//! opened for reading alone. What has no superblock is passed over; what has a damaged one is told on
//! standard error, and passed over too, so that the set can be opened without it.

use crate::commands::{Failure, say};
use ::md::assemble::{self, AssembleError, Choice, Found};
use host::identity::same;
use host::{FileDevice, FileOptions, Host, HostRuntime, OpenError, ReactorKind};
use rt::DeviceRef;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Files of one folder that are looked at. More is no folder of disks.
const FILES_MAX: usize = 4096;

/// A runtime on this host's disks.
///
/// # Errors
/// Where none can be made.
pub fn runtime() -> Result<HostRuntime, Failure> {
    HostRuntime::new(ReactorKind::Auto).map_err(Failure::failed)
}

/// The paths that were given, or those of SPINDLE_DEVICES, with folders replaced by what lies in them.
///
/// # Errors
/// Where there are none, or one can't be looked at.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut given = paths.to_vec();
    if given.is_empty()
        && let Some(variable) = std::env::var_os("SPINDLE_DEVICES")
    {
        given.extend(std::env::split_paths(&variable).filter(|path| !path.as_os_str().is_empty()));
    }
    if given.is_empty() {
        return Err(Failure::usage(
            "no devices: name them with -d DIR|FILE, or in SPINDLE_DEVICES",
        ));
    }
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        let unreadable =
            |error| Failure::usage(format!("reading the folder {}: {error}", path.display()));
        let mut within = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(unreadable)?.take(FILES_MAX) {
            let path = entry.map_err(unreadable)?.path();
            let is_disk = std::fs::metadata(&path).is_ok_and(|found| {
                found.file_type().is_block_device() || found.is_file() && found.len() > 0
            });
            within.extend(is_disk.then_some(path));
        }
        within.sort_unstable();
        files.extend(within);
    }
    Ok(files)
}

/// Opens a device for reading.
///
/// # Errors
/// Where it can't be opened.
pub fn open(host: &Host, path: &Path) -> Result<DeviceRef, Failure> {
    let options = FileOptions { direct: false, read_only: true };
    let device = FileDevice::open(host, path, options).map_err(Failure::usage)?;
    Ok(Rc::new(device))
}

/// Runs I/O to its end.
///
/// # Errors
/// Those of the I/O.
pub fn wait<T: 'static>(
    runtime: &HostRuntime,
    io: impl Future<Output = Result<T, AssembleError>> + 'static,
) -> Result<T, Failure> {
    let done = runtime.runtime().block_on(io).expect("I/O on a real device ends");
    done.map_err(Failure::failed)
}

/// The devices with superblocks among these.
///
/// # Errors
/// Where one can't be opened.
pub fn scan(runtime: &HostRuntime, paths: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for path in expand(paths)? {
        let device = match open(&runtime.host(), &path) {
            Ok(device) => device,
            // Whatever else lies in a folder of disks; a path that was named is another matter.
            Err(_) if !paths.contains(&path) => continue,
            Err(failure) => return Err(failure),
        };
        match wait(runtime, async move { assemble::find(&device).await }) {
            Ok(one) => found.extend(one),
            Err(failure) => say(&format!("spindle: passed over: {}", failure.message)),
        }
    }
    Ok(found)
}

/// Whether a set answers to a name: its UUID, its name with or without the host's, or a member's path.
pub fn is_called(devices: &[Found], called: &str) -> bool {
    devices.iter().any(|found| {
        let superblock = &found.superblock;
        let name = superblock.name();
        let short = name.split_once(':').map(|(_, short)| short);
        let device = super::words::device_name(superblock);
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
pub fn choices(
    runtime: &HostRuntime,
    paths: &[PathBuf],
) -> Result<Vec<Result<Choice, Failure>>, Failure> {
    let sets = assemble::sets(scan(runtime, paths)?);
    let choose = |(set, found)| Choice::of(set, found).map_err(Failure::failed);
    Ok(sets.into_iter().map(choose).collect())
}

/// The set that is called so. Where ARRAY is a member's path, that member is among the devices, too.
///
/// # Errors
/// Where there is none, or several.
pub fn choice(runtime: &HostRuntime, paths: &[PathBuf], called: &str) -> Result<Choice, Failure> {
    let mut paths = paths.to_vec();
    let path = PathBuf::from(called);
    if path.exists() && !path.is_dir() {
        let known = expand(&paths).unwrap_or_default();
        let is_it = |other: &&PathBuf| same(other, &path);
        if !known.iter().any(|other| is_it(&other)) {
            // Some file of that name is not meant, where nothing of md is on it.
            let device = open(&runtime.host(), &path);
            let is_member = device.and_then(|device| {
                // A damaged superblock is told when the devices are looked at.
                wait(runtime, async move { Ok(!matches!(assemble::find(&device).await, Ok(None))) })
            });
            if known.is_empty() || is_member.unwrap_or(false) {
                paths.push(path.clone());
            }
        } else if let Some(other) = known.iter().find(is_it) {
            return named(runtime, &paths, &other.to_string_lossy());
        }
    }
    named(runtime, &paths, called)
}

fn named(runtime: &HostRuntime, paths: &[PathBuf], called: &str) -> Result<Choice, Failure> {
    among(scan(runtime, paths)?, called)
}

/// The set that is called so, among devices with superblocks.
///
/// # Errors
/// Where there is none, or several.
pub fn among(found: Vec<Found>, called: &str) -> Result<Choice, Failure> {
    let sets = assemble::sets(found);
    let mut fitting = sets.into_iter().filter(|(_, devices)| is_called(devices, called));
    let Some((set, devices)) = fitting.next() else {
        let text = "no set is called so: spindle md examine --scan lists them";
        return Err(Failure::usage(format!("'{called}': {text}")));
    };
    if let Some((other, _)) = fitting.next() {
        let text = format!("'{called}' is both {set} and {other}: give the UUID");
        return Err(Failure::usage(text));
    }
    Choice::of(set, devices).map_err(Failure::failed)
}

/// Refuses a set of which another process is writing a device.
///
/// # Errors
/// Names the device.
pub fn refuse_if_written(runtime: &HostRuntime, choice: &Choice) -> Result<(), Failure> {
    for (name, device) in members(runtime, choice) {
        if device.map_err(Failure::failed)?.is_written_elsewhere() {
            let text = "another process is writing to the set: stop that one first";
            return Err(Failure::failed(format!("{name}: {text}")));
        }
    }
    Ok(())
}

/// A member that another process is writing, where there is one.
pub fn written_elsewhere(runtime: &HostRuntime, choice: &Choice) -> Option<String> {
    let is_written = |device: &FileDevice| device.is_written_elsewhere();
    let mut members = members(runtime, choice);
    members.find_map(|(name, device)| device.ok().filter(is_written).map(|_| name))
}

/// The set's members, by their names, each opened once more for reading.
fn members(
    runtime: &HostRuntime,
    choice: &Choice,
) -> impl Iterator<Item = (String, Result<FileDevice, OpenError>)> {
    let there = choice.slots.iter().flatten();
    let there = there.chain(choice.replacements.iter().map(|(_, found)| found));
    there.map(|found| {
        let options = FileOptions { direct: false, read_only: true };
        let name = found.name();
        let device = FileDevice::open(&runtime.host(), Path::new(&name), options);
        (name, device)
    })
}

/// Keeps writers off the set's devices for as long as what comes back lives: who serves it would never hear of a change.
/// Where somebody writes already nothing is kept off.
pub fn keep_writers_off(runtime: &HostRuntime, choice: &Choice) -> Vec<FileDevice> {
    let devices = members(runtime, choice).filter_map(|(_, device)| device.ok());
    devices.filter(FileDevice::keep_writers_off).collect()
}
