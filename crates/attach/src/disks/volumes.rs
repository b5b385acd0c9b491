//! Volumes by their names: which there are, what each lies on, and who is kept off it.
//!
//! ```text
//!   GROUP/VOLUME        a logical volume
//!   SET                 a RAID set, by any name that spindle md takes: its name with or without its host's,
//!                       the one below /dev, its UUID, or the path of a member
//!   SET:N  DEVICE:N     a partition of a set or of a device
//!   DEVICE              a file or block device
//! ```
//!
//! They are looked up in this order: a set, a partition, a device, a logical volume. A name that fits several sets is refused.
//!
//! **What lies below** a logical volume is all that its group lies on: a change of the group is a change of it, so
//! who serves a volume for writing keeps others from changing the group.
//!
//! **Readers' locks.** What is read for long keeps writers off the devices below, by the lock that many readers may
//! have. Devices that are written by this process have the writer's lock, and keep it.

use super::arrays::Array;
use super::open::{Disks, Part};
use super::whole::Whole;
use crate::error::Error;
use host::identity::same;
use rt::DeviceRef;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use volume::lvm::{Group, LvmError};

/// Volumes that are listed where one is not found.
const LISTED_MAX: usize = 8;

/// A volume that was asked for.
pub struct Opened {
    /// It.
    pub device: DeviceRef,
    /// Why it can't be written; nothing where it can.
    pub read_only: Option<String>,
    /// Whether it is a logical volume.
    pub is_logical: bool,
}

/// What a name means.
enum Named<'a> {
    Array(&'a Array),
    Part(&'a Part),
    File(&'a DeviceRef),
    /// The volume need not be there.
    Logical(&'a Group, &'a str),
}

/// What a volume lies on, each by its place among the disks'.
#[derive(Default)]
pub(super) struct Below {
    /// Files and block devices that are no members of `arrays`.
    pub(super) files: BTreeSet<usize>,
    pub(super) arrays: BTreeSet<usize>,
}

fn is_same_file(device: &DeviceRef, path: &Path) -> bool {
    let name = device.name();
    Path::new(&*name) == path || same(Path::new(&*name), path)
}

impl Disks {
    /// The volume that is called so: see the head of the file.
    ///
    /// # Errors
    /// Where there is none, with some of those that there are; and where several are called so.
    pub fn volume(&self, called: &str) -> Result<Opened, Error> {
        let named = self.named(called)?.ok_or_else(|| self.not_there(called))?;
        let mut below = Below::default();
        self.add_named(&named, &mut below);
        let mut read_only = self.unwritable(&below);
        let is_logical = matches!(named, Named::Logical(..));
        let device = match named {
            Named::Array(array) => Rc::clone(&array.device),
            Named::Part(part) => Rc::clone(&part.device),
            Named::File(file) => Rc::clone(file),
            Named::Logical(group, volume) => {
                let described = group.volume(volume).map_err(|error| self.lacks(error))?;
                if !described.writable {
                    read_only = Some("its volume group says that it is read-only".to_owned());
                }
                group.open(&self.context().rt(), volume)?
            }
        };
        Ok(Opened { device, read_only, is_logical })
    }

    /// Why nothing of a group can be changed; nothing where it can, or there is no such group.
    pub fn unchangeable(&self, group: &str) -> Option<String> {
        let group = self.groups.iter().find(|one| one.group.name == group)?;
        let mut below = Below::default();
        self.add_named(&Named::Logical(group, ""), &mut below);
        self.unwritable(&below)
    }

    fn unwritable(&self, below: &Below) -> Option<String> {
        let array = below.arrays.iter().find_map(|at| self.arrays[*at].unwritable.clone());
        let is_read = |at: &usize| !self.opened[*at].1;
        let file = below.files.iter().find(|at| is_read(at));
        array.or_else(|| file.map(|at| format!("{} is open for reading", self.files[*at].name())))
    }

    fn named<'a>(&'a self, called: &'a str) -> Result<Option<Named<'a>>, Error> {
        if let Some(array) = self.array(called)? {
            return Ok(Some(Named::Array(array)));
        }
        if let Some((whole, number)) = called.rsplit_once(':')
            && let Ok(number) = number.parse::<u32>()
        {
            let array = self.array(whole)?;
            let is_meant = |part: &&Part| {
                let of = match part.on {
                    Whole::Array(at) => array.is_some_and(|array| self.arrays[at].set == array.set),
                    Whole::File(at) => is_same_file(&self.files[at], Path::new(whole)),
                };
                of && part.partition.number == number
            };
            if let Some(part) = self.parts.iter().find(is_meant) {
                return Ok(Some(Named::Part(part)));
            }
        }
        if let Some(file) = self.files.iter().find(|file| is_same_file(file, Path::new(called))) {
            return Ok(Some(Named::File(file)));
        }
        let group = called.split_once('/').and_then(|(group, volume)| {
            let found = self.groups.iter().find(|one| one.group.name == group)?;
            Some(Named::Logical(found, volume))
        });
        Ok(group)
    }

    /// The set that is called so; nothing where there is none.
    ///
    /// # Errors
    /// Where there are several, or the one can't be opened.
    fn array(&self, called: &str) -> Result<Option<&Array>, Error> {
        // A member's path as it was looked at: another may lead to the same file.
        let member = self.files.iter().find(|file| is_same_file(file, Path::new(called)));
        let member = member.map(|file| file.name());
        let called = member.as_deref().unwrap_or(called);
        let mut fitting = self.arrays.iter().filter(|array| array.is_called(called));
        if let (Some(array), other) = (fitting.next(), fitting.next()) {
            return match other {
                None => Ok(Some(array)),
                Some(other) => {
                    let (one, other) = (array.set, other.set);
                    Err(Error::Several { called: called.into(), one, other })
                }
            };
        }
        match self.refused.iter().find(|one| one.is_called(called)) {
            Some(refused) => {
                Err(Error::Refused { called: called.into(), why: refused.why.clone() })
            }
            None => Ok(None),
        }
    }

    /// What the volumes of these names lie on; nothing for one that is not there.
    ///
    /// # Errors
    /// Where several are called so.
    pub(super) fn below(&self, called: &str) -> Result<Below, Error> {
        let mut below = Below::default();
        if let Some(named) = self.named(called)? {
            self.add_named(&named, &mut below);
        }
        Ok(below)
    }

    fn add_named(&self, named: &Named<'_>, below: &mut Below) {
        // All of them are the disks'.
        let mut add = |device| {
            let _ = self.add_device(device, below);
        };
        match named {
            Named::Array(array) => add(&array.device),
            Named::Part(part) => add(&part.device),
            Named::File(file) => add(file),
            Named::Logical(group, _) => group.found.values().for_each(|found| add(&found.device)),
        }
    }

    /// False for a device that is none of the disks'.
    fn add_device(&self, device: &DeviceRef, below: &mut Below) -> bool {
        let whole = match self.parts.iter().find(|part| Rc::ptr_eq(&part.device, device)) {
            Some(part) => Some(part.on),
            None => self.whole(device),
        };
        match whole {
            Some(Whole::File(at)) => {
                below.files.insert(at);
            }
            Some(Whole::Array(at)) => {
                below.arrays.insert(at);
            }
            None => return false,
        }
        true
    }

    fn whole(&self, device: &DeviceRef) -> Option<Whole> {
        let file = self.files.iter().position(|file| Rc::ptr_eq(file, device));
        let array = || self.arrays.iter().position(|array| Rc::ptr_eq(&array.device, device));
        file.map(Whole::File).or_else(|| array().map(Whole::Array))
    }

    /// Whether this process writes to a file or block device, by a volume on it.
    pub fn is_writing(&self, path: &Path) -> bool {
        let live = self.arrays.iter().filter(|array| array.unwritable.is_none());
        let mut members = live.flat_map(|array| &array.members);
        let mut files = self.files.iter().zip(&self.opened).filter(|(_, (_, written))| *written);
        members.any(|device| is_same_file(device, path))
            || files.any(|(device, _)| is_same_file(device, path))
    }

    /// Keeps writers off what the volume lies on, for as long as the disks live. Where somebody writes already
    /// nothing is kept off, and it was told when the disks were opened.
    ///
    /// # Errors
    /// Where several are called so.
    pub fn keep_writers_off(&self, called: &str) -> Result<(), Error> {
        let below = self.below(called)?;
        self.lock(&below);
        Ok(())
    }

    /// The same for what these devices lie on: files, sets, partitions, and logical volumes, which are told by their
    /// names.
    pub fn keep_writers_off_devices<'a>(&self, devices: impl Iterator<Item = &'a DeviceRef>) {
        let mut below = Below::default();
        for device in devices {
            let name = device.name();
            if !self.add_device(device, &mut below)
                && let Some((group, _)) = name.split_once('/')
                && let Some(group) = self.groups.iter().find(|one| one.group.name == group)
            {
                self.add_named(&Named::Logical(group, ""), &mut below);
            }
        }
        self.lock(&below);
    }

    fn lock(&self, below: &Below) {
        let members = below.arrays.iter().flat_map(|at| match &self.arrays[*at].unwritable {
            Some(_) => &self.arrays[*at].members[..],
            // Written here.
            None => &[],
        });
        let members = members.filter_map(|device| match self.whole(device) {
            Some(Whole::File(at)) => Some(at),
            _ => None,
        });
        for at in below.files.iter().copied().chain(members) {
            let (file, is_written) = &self.opened[at];
            if !is_written {
                // Where it can't be had somebody writes, which was told.
                file.keep_writers_off();
            }
        }
    }

    /// Volumes as they can be named, the shortest way.
    fn names(&self) -> impl Iterator<Item = String> {
        let logical = self.groups.iter().flat_map(|group| {
            let name = &group.group.name;
            group.group.logical.iter().map(move |volume| format!("{name}/{}", volume.name))
        });
        let arrays = self.arrays.iter().map(|array| array.short_name().to_owned());
        let parts = self.parts.iter().map(|part| match part.on {
            Whole::Array(at) => {
                format!("{}:{}", self.arrays[at].short_name(), part.partition.number)
            }
            Whole::File(_) => format!("{}:{}", part.of, part.partition.number),
        });
        logical.chain(arrays).chain(parts)
    }

    /// Some of the volumes that there are.
    fn listed(&self) -> String {
        let names: Vec<String> = self.names().take(LISTED_MAX).collect();
        let more = self.names().count() - names.len();
        match (names.is_empty(), more) {
            (true, _) => self.searched(),
            (false, 0) => format!("there are {}", names.join(", ")),
            (false, _) => format!("there are {} and {more} more", names.join(", ")),
        }
    }

    fn not_there(&self, called: &str) -> Error {
        Error::NoVolume { called: called.into(), listed: self.listed() }
    }

    fn lacks(&self, error: LvmError) -> Error {
        Error::NoLogical { error: Box::new(error), listed: self.listed() }
    }
}
