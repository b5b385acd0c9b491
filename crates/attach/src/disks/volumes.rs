//! Volumes by their names: which there are, what each lies on, and who is kept off it.
//!
//! ```text
//!   GROUP/VOLUME        a logical volume
//!   SET                 a RAID set, by any name that spindle md takes: its name with or without its host's,
//!                       the one below /dev, its UUID, or the path of a member
//!   SET:N  DEVICE:N     a partition of a set or of a device
//!   GROUP/VOLUME:N      a partition of a logical volume
//!   DEVICE              a file or block device, or an export of an NBD server by its URI
//! ```
//!
//! They are looked up in this order: a set, a partition, a device, a logical volume. A name that fits several sets is refused.
//! A logical volume may also be called as below /dev: `/dev/GROUP/VOLUME`.
//!
//! **What lies below** a logical volume is all that its group lies on: a change of the group is a change of it, so
//! who serves a volume for writing keeps others from changing the group.

use super::arrays::Array;
use super::open::{Disks, Part};
use super::wanted::Writing;
use super::whole::Whole;
use crate::error::{Error, there_are};
use crate::event::{Event, Events};
use crate::paths::absolute;
use crate::uri::{Uri, is_uri};
use host::identity::same;
use rt::DeviceRef;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use volume::lvm::label::Id;
use volume::lvm::{Group, Lacking, LvmError};

/// A volume that was asked for.
pub struct Opened {
    /// It.
    pub device: DeviceRef,
    /// Why it can't be written; nothing where it can.
    pub read_only: Option<String>,
    /// Whether it is a logical volume.
    pub is_logical: bool,
    /// Whether it lies on a set that was put together by force.
    pub by_force: bool,
    /// What of it is not there, where it was opened in part.
    pub lacking: Vec<Lacking>,
}

impl Opened {
    /// Tells what of it is not there, and whether that is anything.
    pub fn tell_lacking(&self, volume: &str, events: &Events) -> bool {
        for lacking in &self.lacking {
            let (volume, lacking) = (volume.to_owned(), lacking.clone());
            events.tell(Event::ReadInPart { volume, lacking });
        }
        !self.lacking.is_empty()
    }
}

/// What a name means.
pub(super) enum Named<'a> {
    Array(&'a Array),
    Part(&'a Part),
    File(&'a DeviceRef),
    /// The volume need not be there.
    Logical(&'a Group, &'a str),
}

/// What volumes lie on, each by its place among the disks'.
#[derive(Default)]
pub struct Below {
    /// Files and block devices that are no members of `arrays`.
    pub(super) files: BTreeSet<usize>,
    pub(super) arrays: BTreeSet<usize>,
}

/// Bytes that have a name, told apart from others.
#[derive(Clone, PartialEq, Eq)]
enum Place {
    Whole(Whole),
    Part(Whole, u32),
    /// Of this group.
    Logical(Id, String),
}

pub(super) fn is_same_file(device: &DeviceRef, path: &Path) -> bool {
    let name = device.name();
    Path::new(&*name) == path || same(Path::new(&*name), path)
}

impl Disks {
    /// The volume that is called so: see the head of the file.
    ///
    /// # Errors
    /// Where there is none, with some of those that there are; and where several are called so.
    pub fn volume(&self, called: &str) -> Result<Opened, Error> {
        self.opened(called, false)
    }

    /// The same, also where a device below it is missing or ends too soon: what lay there can't be read.
    ///
    /// # Errors
    /// As of [`Disks::volume`].
    pub fn volume_in_part(&self, called: &str) -> Result<Opened, Error> {
        self.opened(called, true)
    }

    fn opened(&self, called: &str, in_part: bool) -> Result<Opened, Error> {
        let named = self.named(called)?.ok_or_else(|| self.not_there(called))?;
        let mut below = Below::default();
        self.add_named(&named, &mut below);
        let is_logical = matches!(named, Named::Logical(..));
        if let Named::Logical(group, volume) = named {
            group.volume(volume).map_err(|error| self.lacks(error))?;
        }
        let read_only = self.bars_writing(&named).or_else(|| self.unwritable(&below));
        let lacking = if in_part { Disks::lacking(&named) } else { Vec::new() };
        let device = match named {
            Named::Array(array) => Rc::clone(&array.device),
            Named::Part(part) if in_part => part.partition.lengthened(),
            Named::Part(part) => Rc::clone(&part.device),
            Named::File(file) => Rc::clone(file),
            Named::Logical(group, volume) if in_part => {
                group.open_in_part(&self.context().rt(), volume)?
            }
            Named::Logical(group, volume) => group.open(&self.context().rt(), volume)?,
        };
        let by_force = !self.forced(&below).is_empty();
        Ok(Opened { device, read_only, is_logical, by_force, lacking })
    }

    /// What of a volume is not there.
    fn lacking(named: &Named<'_>) -> Vec<Lacking> {
        match named {
            Named::Part(part) => part.lacking().into_iter().collect(),
            Named::Logical(group, volume) => {
                group.volume(volume).map_or_else(|_| Vec::new(), |volume| group.lacking(volume))
            }
            Named::Array(_) | Named::File(_) => Vec::new(),
        }
    }

    /// The sets among those that were put together by force.
    pub(crate) fn forced(&self, below: &Below) -> Vec<String> {
        let arrays = below.arrays.iter().map(|at| &self.arrays[*at]);
        let forced = arrays.filter(|array| array.by_force);
        forced.map(|array| array.short_name().to_owned()).collect()
    }

    /// The group of this name or UUID.
    ///
    /// # Errors
    /// Where there is none, and where several are called so.
    pub fn group(&self, called: &str) -> Result<&Group, Error> {
        let found = self.only_group(called, None)?;
        found.ok_or_else(|| Error::NoGroup { called: called.to_owned() })
    }

    /// Why nothing of a group can be changed; nothing where it can.
    pub fn unchangeable(&self, group: &Group) -> Option<String> {
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

    pub(super) fn named<'a>(&'a self, called: &'a str) -> Result<Option<Named<'a>>, Error> {
        if let Some(array) = self.array(called)? {
            return Ok(Some(Named::Array(array)));
        }
        if let Some((whole, number)) = called.rsplit_once(':')
            && let Ok(number) = number.parse::<u32>()
        {
            let array = self.array(whole)?;
            let logical = whole.strip_prefix("/dev/").unwrap_or(whole).split_once('/');
            let is_meant = |part: &&Part| {
                let of = match part.on {
                    Whole::Array(at) => array.is_some_and(|array| self.arrays[at].set == array.set),
                    Whole::File(at) => is_same_file(&self.files[at], Path::new(whole)),
                    Whole::Logical(at, place) => logical.is_some_and(|(group, volume)| {
                        let of = &self.groups[at];
                        self.groups_called(group).any(|one| one.group.id == of.group.id)
                            && of.group.logical[place].name == volume
                    }),
                };
                of && part.partition.number == number
            };
            let mut meant = self.parts.iter().filter(is_meant);
            if let Some(part) = meant.next() {
                if let (Some((group, volume)), Some(_)) = (logical, meant.next()) {
                    self.only_group(group, Some(volume))?;
                }
                return Ok(Some(Named::Part(part)));
            }
        }
        if let Some(file) = self.files.iter().find(|file| is_same_file(file, Path::new(called))) {
            return Ok(Some(Named::File(file)));
        }
        let Some((group, volume)) = called.strip_prefix("/dev/").unwrap_or(called).split_once('/')
        else {
            return Ok(None);
        };
        let found = self.only_group(group, Some(volume).filter(|volume| !volume.is_empty()))?;
        Ok(found.map(|found| Named::Logical(found, volume)))
    }

    /// The one group that is called so, for itself or for a volume of it.
    fn only_group(&self, group: &str, volume: Option<&str>) -> Result<Option<&Group>, Error> {
        let mut fitting = self.groups_called(group);
        let found = fitting.next();
        if fitting.next().is_none() {
            return Ok(found);
        }
        let whole = |group: &str| match volume {
            Some(volume) => format!("{group}/{volume}"),
            None => group.to_owned(),
        };
        let named = self.groups_called(group).map(|one| {
            let on = one.found.values().next().map(|found| found.device.name());
            let on = on.map_or(String::new(), |name| format!(" on {name}"));
            whole(&one.group.id.to_string()) + &on
        });
        let (called, named) = (whole(group), named.collect());
        Err(Error::SeveralGroups { called, group: group.to_owned(), named })
    }

    /// The groups of this name, or of this UUID.
    fn groups_called(&self, group: &str) -> impl Iterator<Item = &Group> {
        let id: Option<Id> = group.parse().ok();
        self.groups.iter().filter(move |one| one.group.name == group || Some(one.group.id) == id)
    }

    /// What commands call a group: its name where it is the only one of it, else its UUID.
    pub(crate) fn group_name(&self, group: &Group) -> String {
        let same = self.groups.iter().filter(|other| other.group.name == group.group.name);
        if same.count() > 1 { group.group.id.to_string() } else { group.group.name.clone() }
    }

    /// A volume by the name that it has when it is open; the volume need not be there.
    fn logical<'a>(&'a self, name: &'a str) -> Option<Named<'a>> {
        let (group, volume) = name.split_once('/')?;
        self.groups_called(group).next().map(|found| Named::Logical(found, volume))
    }

    /// What a device is, by whichever way it was opened; nothing for one that is none of the disks'.
    pub(super) fn named_device<'a>(
        &'a self,
        device: &DeviceRef,
        name: &'a str,
    ) -> Option<Named<'a>> {
        if let Some(part) = self.parts.iter().find(|part| Rc::ptr_eq(&part.device, device)) {
            return Some(Named::Part(part));
        }
        match self.whole(device) {
            Some(Whole::File(at)) => Some(Named::File(&self.files[at])),
            Some(Whole::Array(at)) => Some(Named::Array(&self.arrays[at])),
            Some(Whole::Logical(at, place)) => Some(self.logical_at(at, place)),
            // They are opened anew each time, and told by their names.
            None => self.logical(name),
        }
    }

    fn logical_at(&self, group: usize, place: usize) -> Named<'_> {
        let group = &self.groups[group];
        Named::Logical(group, &group.group.logical[place].name)
    }

    fn place(&self, named: &Named<'_>) -> Place {
        match named {
            Named::Part(part) => Place::Part(part.on, part.partition.number),
            Named::Logical(group, volume) => Place::Logical(group.group.id, (*volume).to_owned()),
            Named::Array(array) => self.place_of(&array.device),
            Named::File(file) => self.place_of(file),
        }
    }

    fn place_of(&self, whole: &DeviceRef) -> Place {
        Place::Whole(self.whole(whole).expect("it is one of the disks'"))
    }

    /// All that something lies on, down to the files.
    fn underneath(&self, named: &Named<'_>) -> Vec<Place> {
        let with_below = |device: &DeviceRef| {
            let name = device.name();
            let below = self.named_device(device, &name);
            below.map_or_else(Vec::new, |below| {
                let mut places = self.underneath(&below);
                places.push(self.place(&below));
                places
            })
        };
        match named {
            Named::File(_) => Vec::new(),
            Named::Array(array) => array.members.iter().flat_map(with_below).collect(),
            Named::Part(part) => match part.on {
                Whole::File(at) => with_below(&self.files[at]),
                Whole::Array(at) => with_below(&self.arrays[at].device),
                Whole::Logical(at, place) => {
                    let volume = self.logical_at(at, place);
                    let mut places = self.underneath(&volume);
                    places.push(self.place(&volume));
                    places
                }
            },
            Named::Logical(group, _) => {
                group.found.values().flat_map(|found| with_below(&found.device)).collect()
            }
        }
    }

    fn meet(&self, one: &Named<'_>, other: &Named<'_>) -> bool {
        let (a, b) = (self.place(one), self.place(other));
        a == b || self.underneath(other).contains(&a) || self.underneath(one).contains(&b)
    }

    /// Whether a write to one volume may change what is in another.
    ///
    /// # Errors
    /// There is none that is called so, or several are.
    pub fn share(&self, one: &str, other: &str) -> Result<bool, Error> {
        let find =
            |called| self.named(called).map(|found| found.ok_or_else(|| self.not_there(called)));
        let (one, other) = (find(one)??, find(other)??);
        Ok(self.meet(&one, &other))
    }

    /// Whether a write to a volume may change what is on one of these devices of the disks.
    ///
    /// # Errors
    /// There is none that is called so, or several are.
    pub fn shares_with<'a>(
        &self,
        called: &str,
        mut devices: impl Iterator<Item = &'a DeviceRef>,
    ) -> Result<bool, Error> {
        let named = self.named(called)?.ok_or_else(|| self.not_there(called))?;
        Ok(devices.any(|device| {
            let name = device.name();
            self.named_device(device, &name).is_some_and(|device| self.meet(&named, &device))
        }))
    }

    /// What stands for a volume in the labels of a pool: its path below /dev as Linux would have it, a whole one in any case.
    ///
    /// # Errors
    /// There is none that is called so, or several are.
    pub fn label_path(&self, called: &str) -> Result<PathBuf, Error> {
        let file = |device: &DeviceRef| {
            let name = device.name();
            let path = Path::new(&*name);
            match is_uri(path).then(|| Uri::of(path)) {
                Some(Ok(uri)) => uri.label_path(),
                _ => absolute(path),
            }
        };
        let numbered = |whole: &Path, number: u32| {
            let text = whole.display();
            let is_disk = std::fs::metadata(whole).is_ok_and(|found| !found.is_file());
            match text.to_string().ends_with(|last: char| last.is_ascii_digit()) {
                _ if !is_disk && !text.to_string().starts_with("/dev/md") => {
                    format!("{text}:{number}")
                }
                true => format!("{text}p{number}"),
                false => format!("{text}{number}"),
            }
        };
        Ok(match self.named(called)?.ok_or_else(|| self.not_there(called))? {
            Named::Array(array) => array.device_path(),
            Named::File(device) => file(device),
            Named::Logical(group, volume) => {
                PathBuf::from(format!("/dev/{}/{volume}", group.group.name))
            }
            Named::Part(part) => {
                let whole = match part.on {
                    Whole::File(at) => file(&self.files[at]),
                    Whole::Array(at) => self.arrays[at].device_path(),
                    Whole::Logical(..) => Path::new("/dev").join(&part.of),
                };
                numbered(&whole, part.partition.number).into()
            }
        })
    }

    /// What a device is called, the shortest way; it is one of the disks', or one on them.
    pub fn called(&self, device: &DeviceRef) -> String {
        let name = device.name();
        match self.named_device(device, &name) {
            Some(Named::Array(array)) => array.short_name().to_owned(),
            Some(Named::Part(part)) => self.part_name(part),
            _ => name.to_string(),
        }
    }

    fn part_name(&self, part: &Part) -> String {
        let of = match part.on {
            Whole::Array(at) => self.arrays[at].short_name(),
            Whole::File(_) | Whole::Logical(..) => &part.of,
        };
        format!("{of}:{}", part.partition.number)
    }

    /// What devices lie on.
    ///
    /// # Errors
    /// With the one that is none of the disks'.
    pub fn below_devices<'a>(
        &self,
        devices: impl Iterator<Item = &'a DeviceRef>,
    ) -> Result<Below, DeviceRef> {
        let mut below = Below::default();
        for device in devices {
            let name = device.name();
            let named = self.named_device(device, &name).ok_or_else(|| Rc::clone(device))?;
            self.add_named(&named, &mut below);
        }
        Ok(below)
    }

    /// That, to be opened for writing; of sets only those that have all their members.
    pub fn writing(&self, below: &Below) -> Writing {
        let files = below.files.iter().map(|at| self.files[*at].name()).collect();
        let sets: BTreeMap<_, _> =
            below.arrays.iter().map(|at| (self.arrays[*at].set, false)).collect();
        Writing { files, sets, ..Writing::default() }
    }

    /// The files whose locks and identities stand for it, members of sets among them.
    pub fn paths(&self, below: &Below) -> Vec<PathBuf> {
        self.files_of(below).into_iter().filter_map(|at| self.opened[at].0.locked_path()).collect()
    }

    /// The sets and the files that it lies on: what has one of them in common is opened by one process, and on one executor.
    pub fn wholes(&self, below: &Below) -> BTreeSet<Whole> {
        let files = self.files_of(below).into_iter().map(Whole::File);
        files.chain(below.arrays.iter().copied().map(Whole::Array)).collect()
    }

    /// Those by their names.
    pub(super) fn file_names(&self, below: &Below) -> Vec<PathBuf> {
        let files = self.files_of(below).into_iter();
        files.map(|at| Path::new(&*self.files[at].name()).to_owned()).collect()
    }

    /// The files that it lies on, members of sets among them.
    fn files_of(&self, below: &Below) -> BTreeSet<usize> {
        let members = below.arrays.iter().flat_map(|at| &self.arrays[*at].members);
        // A member may be a partition of a file.
        let mut own = Below::default();
        members.for_each(|device| {
            self.add_device(device, &mut own);
        });
        below.files.union(&own.files).copied().collect()
    }

    /// The same for a volume.
    ///
    /// # Errors
    /// Several are called so.
    pub fn paths_below(&self, called: &str) -> Result<Vec<PathBuf>, Error> {
        Ok(self.paths(&self.below(called)?))
    }

    /// Why one of these devices can't be written; nothing where all can.
    pub fn unwritable_of<'a>(
        &self,
        devices: impl Iterator<Item = &'a DeviceRef>,
    ) -> Option<(String, String)> {
        for device in devices {
            let name = device.name();
            let Some(named) = self.named_device(device, &name) else { continue };
            let mut below = Below::default();
            self.add_named(&named, &mut below);
            let why = self.unwritable(&below).or_else(|| self.bars_writing(&named));
            if let Some(why) = why {
                return Some((self.called(device), why));
            }
        }
        None
    }

    /// What the volume itself says.
    fn bars_writing(&self, named: &Named<'_>) -> Option<String> {
        let (group, volume) = match named {
            Named::Part(part) if part.partition.cut.is_some() => {
                return Some(format!("{}, which it lies on, ends before it does", part.of));
            }
            Named::Part(part) => match part.on {
                Whole::Logical(at, place) => {
                    return self.bars_writing(&self.logical_at(at, place));
                }
                Whole::File(_) | Whole::Array(_) => return None,
            },
            Named::Logical(group, volume) => (group, volume),
            Named::Array(_) | Named::File(_) => return None,
        };
        if let Some(older) = group.older().or_else(|| group.barred_by_outdated()) {
            return Some(older.to_string());
        }
        let is_writable = group.volume(volume).is_ok_and(|described| described.writable);
        (!is_writable).then(|| "its volume group says that it is read-only".to_owned())
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
                let (why, force_helps) = (refused.why.clone(), refused.force_helps);
                Err(Error::Refused { called: called.into(), why, force_helps })
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

    pub(super) fn add_named(&self, named: &Named<'_>, below: &mut Below) {
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
    pub(super) fn add_device(&self, device: &DeviceRef, below: &mut Below) -> bool {
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
            Some(Whole::Logical(at, _)) => {
                for found in self.groups[at].found.values() {
                    self.add_device(&found.device, below);
                }
            }
            None => return false,
        }
        true
    }

    pub(super) fn whole(&self, device: &DeviceRef) -> Option<Whole> {
        let file = self.files.iter().position(|file| Rc::ptr_eq(file, device));
        let array = || self.arrays.iter().position(|array| Rc::ptr_eq(&array.device, device));
        file.map(Whole::File).or_else(|| array().map(Whole::Array))
    }

    /// Volumes as they can be named, the shortest way.
    fn names(&self) -> impl Iterator<Item = String> {
        let logical = self.groups.iter().flat_map(|group| {
            let name = self.group_name(group);
            group.group.logical.iter().map(move |volume| format!("{name}/{}", volume.name))
        });
        let arrays = self.arrays.iter().map(|array| array.short_name().to_owned());
        let parts = self.parts.iter().map(|part| self.part_name(part));
        logical.chain(arrays).chain(parts)
    }

    /// Some of the volumes that there are.
    fn listed(&self) -> String {
        there_are(self.names()).unwrap_or_else(|| self.searched())
    }

    /// The sets that can be put together by force alone, and were not.
    pub fn forcible(&self) -> Vec<String> {
        let sets = self.refused().filter(|set| set.force_helps);
        sets.map(|set| set.name.clone()).collect()
    }

    fn not_there(&self, called: &str) -> Error {
        let barred = self.refused().filter(|set| !set.force_helps).map(|set| set.name.clone());
        let (forcible, barred) = (self.forcible(), barred.collect());
        Error::NoVolume { called: called.into(), listed: self.listed(), forcible, barred }
    }

    fn lacks(&self, error: LvmError) -> Error {
        Error::NoLogical { error: Box::new(error), listed: self.listed() }
    }
}
