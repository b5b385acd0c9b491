//! What lies on the devices that were named: RAID sets of them, partitions, logical volumes.
//!
//! ```text
//!   files and block devices
//!     └─ RAID sets of those that are members
//!          └─ partitions of what is no member, and of sets
//!               └─ volume groups on any of them
//! ```
//!
//! What can't be read or put together is a complaint, and the rest is there all the same. RAID sets are
//! opened for reading alone, so what lies on them is too.

use crate::commands::Failure;
use crate::commands::md::sources;
use ::md::assemble::{self, Choice, OpenArray, OpenOptions};
use host::{FileDevice, FileOptions, HostRuntime};
use rt::DeviceRef;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use volume::gpt;
use volume::lvm::{Group, find_groups};

/// A partition of a device.
pub struct Part {
    /// Of which device.
    pub of: String,
    /// Which.
    pub partition: gpt::Partition,
    /// The partition as a device.
    pub device: DeviceRef,
    /// Whether it lies on a RAID set.
    pub on_array: bool,
}

/// See the [module](self).
pub struct Disks {
    runtime: HostRuntime,
    /// The files and block devices themselves.
    pub files: Vec<DeviceRef>,
    /// RAID sets, with their names.
    pub arrays: Vec<(String, DeviceRef)>,
    /// Partitions.
    pub parts: Vec<Part>,
    /// Volume groups.
    pub groups: Vec<Group>,
    /// What could not be had, and why.
    pub complaints: Vec<String>,
}

/// A volume that was asked for.
pub struct Opened {
    /// It.
    pub device: DeviceRef,
    /// Whether it can't be written.
    pub read_only: bool,
}

impl Disks {
    /// The files alone, not looked at.
    ///
    /// # Errors
    /// Where one can't be opened.
    pub fn open_files(paths: &[PathBuf], read_only: bool) -> Result<Disks, Failure> {
        let runtime = sources::runtime()?;
        let host = runtime.host();
        let open = |path: &PathBuf| -> Result<DeviceRef, Failure> {
            let options = FileOptions { direct: false, read_only };
            Ok(Rc::new(FileDevice::open(&host, path, options).map_err(Failure::usage)?))
        };
        let files = paths.iter().map(open).collect::<Result<_, _>>()?;
        let (arrays, parts, groups, complaints) = Default::default();
        Ok(Disks { runtime, files, arrays, parts, groups, complaints })
    }

    /// The files, the folders' files, and all that lies on them.
    ///
    /// # Errors
    /// Where there are none, or one that was named can't be opened.
    pub fn open(paths: &[PathBuf], read_only: bool) -> Result<Disks, Failure> {
        let mut disks = Disks::open_files(&[], read_only)?;
        let host = disks.runtime.host();
        let mut passed_over = Vec::new();
        for path in sources::expand(paths)? {
            match FileDevice::open(&host, &path, FileOptions { direct: false, read_only }) {
                Ok(device) => disks.files.push(Rc::new(device)),
                // Whatever else lies in a folder of disks; a path that was named is another matter.
                Err(error) if !paths.contains(&path) => passed_over.push(error.to_string()),
                Err(error) => return Err(Failure::usage(error)),
            }
        }
        let (files, rt) = (disks.files.clone(), disks.runtime.rt());
        let found = disks.wait(async move {
            let (mut found, mut complaints) = (Vec::new(), Vec::new());
            for file in &files {
                match assemble::find(file).await {
                    Ok(one) => found.extend(one),
                    Err(error) => complaints.push(error.to_string()),
                }
            }
            let members: Vec<Rc<str>> = found.iter().map(|one| one.device.name()).collect();
            let mut arrays: Vec<(String, DeviceRef)> = Vec::new();
            for (set, devices) in assemble::sets(found) {
                let name = devices.first().map_or(String::new(), |one| one.superblock.name());
                let name = if name.is_empty() { set.to_string() } else { name };
                let opened = match Choice::of(set, devices) {
                    Ok(choice) => OpenArray::open(&rt, &name, choice, OpenOptions::default()).await,
                    Err(error) => Err(error),
                };
                match opened {
                    Ok(array) => arrays.push((name, array as DeviceRef)),
                    Err(error) => complaints.push(error.to_string()),
                }
            }
            let own = files.into_iter().filter(|file| !members.contains(&file.name()));
            let whole: Vec<(DeviceRef, bool)> = own
                .map(|file| (file, false))
                .chain(arrays.iter().map(|(_, array)| (Rc::clone(array), true)))
                .collect();
            let mut parts = Vec::new();
            for (device, on_array) in &whole {
                match gpt::read_table(device).await {
                    Ok(None) => {}
                    Ok(Some(table)) => {
                        parts.extend(table.partitions.into_iter().map(|partition| Part {
                            of: device.name().to_string(),
                            device: partition.device(device),
                            partition,
                            on_array: *on_array,
                        }))
                    }
                    Err(error) => complaints.push(error.to_string()),
                }
            }
            let mut physical: Vec<DeviceRef> =
                whole.into_iter().map(|(device, _)| device).collect();
            physical.extend(parts.iter().map(|part| Rc::clone(&part.device)));
            let (groups, errors) = find_groups(&physical).await;
            complaints.extend(errors.iter().map(ToString::to_string));
            (arrays, parts, groups, complaints)
        });
        (disks.arrays, disks.parts, disks.groups, disks.complaints) = found;
        disks.complaints.splice(0..0, passed_over);
        Ok(disks)
    }

    /// Runs I/O on the disks to its end.
    pub fn wait<T: 'static>(&self, io: impl Future<Output = T> + 'static) -> T {
        self.runtime.runtime().block_on(io).expect("I/O on a real device ends")
    }

    /// The runtime that the devices belong to.
    pub fn runtime(&self) -> &HostRuntime {
        &self.runtime
    }

    /// The volume that is called so: `GROUP/VOLUME`, a RAID set's name, `DEVICE:N` for a partition of
    /// a device or a set, or a device that was named.
    ///
    /// # Errors
    /// Where there is none.
    pub fn volume(&self, called: &str) -> Result<Opened, Failure> {
        let is_array = |name: &str| {
            name == called || name.split_once(':').is_some_and(|(_, short)| short == called)
        };
        if let Some((_, array)) = self.arrays.iter().find(|(name, _)| is_array(name)) {
            return Ok(Opened { device: Rc::clone(array), read_only: true });
        }
        let is_part = |part: &&Part| format!("{}:{}", part.of, part.partition.number) == called;
        if let Some(part) = self.parts.iter().find(is_part) {
            return Ok(Opened { device: Rc::clone(&part.device), read_only: part.on_array });
        }
        if let Some(file) = self.files.iter().find(|file| *file.name() == *called) {
            return Ok(Opened { device: Rc::clone(file), read_only: false });
        }
        let group = called.split_once('/').and_then(|(group, volume)| {
            Some((self.groups.iter().find(|one| one.group.name == group)?, volume))
        });
        let Some((group, volume)) = group else {
            return Err(Failure::usage(format!(
                "'{called}': there is no such volume on the devices: name a RAID set, GROUP/VOLUME, DEVICE:N or \
                 a device"
            )));
        };
        let device = group.open(&self.runtime.rt(), volume).map_err(Failure::failed)?;
        let on_array = group
            .found
            .values()
            .any(|found| self.arrays.iter().any(|(_, array)| array.name() == found.device.name()));
        let writable = group.volume(volume).map_err(Failure::failed)?.writable && !on_array;
        Ok(Opened { device, read_only: !writable })
    }
}
