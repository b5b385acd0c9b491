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
use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
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
    /// Folders below those that were named: nothing was looked for in them.
    unsearched: Vec<PathBuf>,
}

/// A volume that was asked for.
pub struct Opened {
    /// It.
    pub device: DeviceRef,
    /// Whether it can't be written.
    pub read_only: bool,
}

/// What tells a file or block device from all others, whatever name it goes by; nothing where none is there. Hard links
/// are one file, and nodes of one block device one device.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    // No file has this number of a device.
    const BLOCK_DEVICE: u64 = u64::MAX;
    let metadata = std::fs::metadata(path).ok()?;
    Some(match metadata.file_type().is_block_device() {
        true => (BLOCK_DEVICE, metadata.rdev()),
        false => (metadata.dev(), metadata.ino()),
    })
}

/// Bytes of the smallest file of a folder that may be a disk: less has no room for what marks one, and lies there
/// for another reason (a list of checksums, a key).
const DISK_BYTES_MIN: u64 = 64 << 10;
/// Folders that are named as not searched.
const FOLDERS_MAX: usize = 8;

/// The paths that were given, or those of the variable.
fn named(paths: &[PathBuf]) -> Vec<PathBuf> {
    match std::env::var_os("SPINDLE_DEVICES") {
        Some(variable) if paths.is_empty() => {
            std::env::split_paths(&variable).filter(|path| !path.as_os_str().is_empty()).collect()
        }
        _ => paths.to_vec(),
    }
}

fn is_too_small(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() < DISK_BYTES_MIN)
}

/// The folders in a folder, by name; none in a file.
fn folders_in(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path.is_dir()).take(FOLDERS_MAX).collect();
    folders.sort_unstable();
    folders
}

impl Disks {
    /// The files and block devices themselves, as [`identity`] tells them: nothing may be written over them.
    pub fn identities(&self) -> BTreeSet<(u64, u64)> {
        self.files.iter().filter_map(|file| identity(Path::new(&*file.name()))).collect()
    }

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
        let (arrays, parts, groups, complaints, unsearched) = Default::default();
        Ok(Disks { runtime, files, arrays, parts, groups, complaints, unsearched })
    }

    /// The files, the folders' files, and all that lies on them, for reading.
    ///
    /// # Errors
    /// Where there are none, or one that was named can't be opened.
    pub fn open(paths: &[PathBuf]) -> Result<Disks, Failure> {
        Disks::open_where(paths, |_| false)
    }

    /// The same, for writing to what these volumes lie on and to nothing else: whoever writes to another file of the
    /// folders keeps it, and it is not kept from anybody.
    ///
    /// # Errors
    /// As [`Disks::open`].
    pub fn open_for(paths: &[PathBuf], volumes: &[String]) -> Result<Disks, Failure> {
        let found = Disks::open(paths)?;
        let below: Vec<Rc<str>> =
            volumes.iter().flat_map(|called| found.files_below(called)).collect();
        drop(found);
        Disks::open_where(paths, |path| below.iter().any(|name| Path::new(&**name) == path))
    }

    /// The files that a volume lies on; none for what can only be read.
    fn files_below(&self, called: &str) -> Vec<Rc<str>> {
        let group = called.split_once('/').map(|(group, _)| group);
        let group = self.groups.iter().find(|one| Some(&*one.group.name) == group);
        let physical: Vec<Rc<str>> =
            group.iter().flat_map(|one| one.found.values()).map(|one| one.device.name()).collect();
        let is_below = |file: &Rc<str>| {
            let mut parts = self.parts.iter().filter(|part| *part.of == **file);
            let is_meant = |part: &Part| {
                physical.contains(&part.device.name())
                    || format!("{file}:{}", part.partition.number) == called
            };
            **file == *called || physical.contains(file) || parts.any(is_meant)
        };
        self.files.iter().map(|file| file.name()).filter(is_below).collect()
    }

    fn open_where(paths: &[PathBuf], writes: impl Fn(&Path) -> bool) -> Result<Disks, Failure> {
        let mut disks = Disks::open_files(&[], true)?;
        let host = disks.runtime.host();
        let mut notes = Vec::new();
        let paths = &named(paths);
        let mut known = BTreeSet::new();
        for path in sources::expand(paths)? {
            // One that was named twice is one device all the same.
            if identity(&path).is_some_and(|identity| !known.insert(identity)) {
                continue;
            }
            if !paths.contains(&path) && is_too_small(&path) {
                continue;
            }
            let read_only = !writes(&path);
            match FileDevice::open(&host, &path, FileOptions { direct: false, read_only }) {
                Ok(device) => {
                    if read_only && device.is_written_elsewhere() {
                        let text =
                            "another process is writing to it: what is read may not hold together";
                        notes.push(format!("{}: {text}", path.display()));
                    }
                    disks.files.push(Rc::new(device));
                }
                // Whatever else lies in a folder of disks; a path that was named is another matter.
                Err(error) if !paths.contains(&path) => notes.push(error.to_string()),
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
        disks.complaints.splice(0..0, notes);
        disks.unsearched =
            paths.iter().flat_map(|path| folders_in(path)).take(FOLDERS_MAX).collect();
        Ok(disks)
    }

    /// What was looked at, for whoever finds nothing there.
    pub fn searched(&self) -> String {
        let files = match self.files.len() {
            1 => "1 file or device was looked at".to_owned(),
            many => format!("{many} files and devices were looked at"),
        };
        let below: Vec<String> =
            self.unsearched.iter().map(|path| path.display().to_string()).collect();
        match below.is_empty() {
            true => files,
            false => {
                format!("{files}; folders below are not searched, name them: {}", below.join(", "))
            }
        }
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
