//! Volume groups, and partitions of their volumes; and which of two devices with the same content lies on the other.
//!
//! A member of a mirror whose superblock lies at its end begins as the set does. Once that superblock is gone nothing says that it is one, and
//! all that lies on the set shows through on it, as it was when it was in use last. What counts is on the set. The same is so of a partition
//! that begins where its disk does, and of what the kernel has put together of other devices. Any other two devices with the same content are
//! copies, and nothing tells which counts.

use super::arrays::{Array, Refused};
use super::open::{Disks, Part};
use super::volumes::Named;
use super::whole::Whole;
use crate::error::Error;
use host::identity::stands_on;
use rt::DeviceRef;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use stdx::Offset;
use volume::lvm::{Beneath, Group, Labels, groups_of};

impl Disks {
    /// Looks for volume groups on all but the members of sets.
    pub(super) fn find_groups(&mut self, members: &BTreeSet<Arc<str>>) {
        let (files, arrays) = (self.files.iter(), self.arrays.iter().map(|array| &array.device));
        let all = files.chain(arrays).chain(self.parts.iter().map(|part| &part.device));
        let physical: Vec<DeviceRef> =
            all.filter(|device| !members.contains(&device.name())).cloned().collect();
        let looked = physical.clone();
        let labels = self.wait(async move { Labels::look(&looked).await });
        let mut above = labels.alike();
        above.retain(|(upper, lower)| self.lies_on_it(&physical[*upper], &physical[*lower]));
        let found = self.wait(async move { groups_of(labels, &above).await });
        self.complaints.extend(found.errors.iter().map(ToString::to_string));
        for Beneath { found, upper, older } in &found.beneath {
            if self.is_on_array(upper) {
                let older = older.map(|(own, upper)| format!("seqno {own}, not {upper}"));
                let what = "the same physical volume";
                let text = self.shows_through(&found.device, upper, what, older.as_deref());
                self.complaints.push(text);
            }
        }
        let beneath = found.beneath.into_iter().map(|one| (one.found.device, one.upper));
        self.beneath = beneath.collect();
        (self.groups, self.apart, self.lacks_groups) =
            (found.groups, found.apart, found.is_lacking);
    }

    /// Looks for partitions of logical volumes that are there as a whole.
    pub(super) fn find_parts_of_volumes(&mut self) {
        let mut whole = Vec::new();
        for (at, group) in self.groups.iter().enumerate() {
            for (place, volume) in group.group.logical.iter().enumerate() {
                // Why one can't be opened is told by who asks for it.
                if let Ok(device) = group.open(&self.context().rt(), &volume.name) {
                    let name = format!("{}/{}", self.group_name(group), volume.name);
                    whole.push((device, Whole::Logical(at, place), name));
                }
            }
        }
        self.find_parts(whole);
    }

    /// Refuses a volume of a group of which several devices bear one physical volume, before anything of it is opened for writing.
    ///
    /// # Errors
    /// Names them; or several are called so.
    pub(super) fn refuse_alike(&self, called: &str) -> Result<(), Error> {
        match self.named(called)? {
            Some(Named::Logical(group, _)) => {
                group.ambiguous().next().map_or(Ok(()), |error| Err(error.into()))
            }
            _ => Ok(()),
        }
    }

    /// What is said of a device that begins as a set does, and is no member of it.
    pub(crate) fn shows_through(
        &self,
        device: &DeviceRef,
        upper: &DeviceRef,
        what: &str,
        older: Option<&str>,
    ) -> String {
        let (device, upper) = (self.called(device), self.called(upper));
        let older = older.map_or(String::new(), |older| format!(" (an older one: {older})"));
        format!(
            "{device} holds {what}{older} as {upper} does, and has no superblock of that RAID set: it was a member, as it seems, whose superblock \
             is gone; what {upper} holds counts"
        )
    }

    /// Whether a device that is no member of any set begins as this one does, which is a set or lies on one.
    pub(crate) fn shows_beside(&self, device: &DeviceRef, upper: &DeviceRef) -> bool {
        let sets = self.arrays.iter().map(Array::found);
        let sets = sets.chain(self.refused().map(Refused::found));
        let is_member = || sets.flatten().any(|member| Rc::ptr_eq(&member.device, device));
        self.is_on_array(upper) && self.lies_on_it(upper, device) && !is_member()
    }

    /// The set that such a device bears the physical volume of, or the partition of a set.
    pub(crate) fn shown_physical(&self, device: &DeviceRef) -> Option<&DeviceRef> {
        let mut beneath = self.beneath.iter();
        let found = beneath.find(|(lower, _)| Rc::ptr_eq(lower, device));
        found.map(|(_, upper)| upper).filter(|upper| self.is_on_array(upper))
    }

    /// Whether it is a set, or a partition of one.
    fn is_on_array(&self, device: &DeviceRef) -> bool {
        let on = self.part(device).map(|part| part.on).or_else(|| self.whole(device));
        matches!(on, Some(Whole::Array(_)))
    }

    fn part(&self, device: &DeviceRef) -> Option<&Part> {
        self.parts.iter().find(|part| Rc::ptr_eq(&part.device, device))
    }

    /// Whether one device plainly lies on another, and begins as that does. Members of sets are not asked about.
    fn lies_on_it(&self, upper: &DeviceRef, lower: &DeviceRef) -> bool {
        let (upper_part, lower_part) = (self.part(upper), self.part(lower));
        let whole = |part: &Part| match part.on {
            Whole::File(at) => Some(&self.files[at]),
            Whole::Array(at) => Some(&self.arrays[at].device),
            Whole::Logical(..) => None,
        };
        match (upper_part, lower_part) {
            // The same partition of each.
            (Some(part), Some(other)) => {
                part.partition.start == other.partition.start
                    && whole(part)
                        .zip(whole(other))
                        .is_some_and(|(upper, lower)| self.lies_on_it(upper, lower))
            }
            (Some(part), None) => {
                part.partition.start == Offset::ZERO
                    && whole(part).is_some_and(|whole| Rc::ptr_eq(whole, lower))
            }
            (None, _) => match (self.whole(upper), self.whole(lower)) {
                (Some(Whole::Array(at)), _) => {
                    let array = &self.arrays[at];
                    array.begins_as_its_members()
                        && lower.geometry().capacity > array.device.geometry().capacity
                }
                (Some(Whole::File(_)), Some(Whole::Array(at))) => {
                    let upper = path_of(upper);
                    let mut members = self.arrays[at].members.iter();
                    members.any(|member| stands_on(&upper, &path_of(member)))
                }
                (Some(Whole::File(_)), Some(Whole::File(_))) => {
                    stands_on(&path_of(upper), &path_of(lower))
                }
                _ => false,
            },
        }
    }

    /// The files that are to be named so that of devices that bear one physical volume of a group there is only the first;
    /// none where all lie on one file.
    pub(crate) fn with_first_of_alike(&self, group: &Group) -> Vec<PathBuf> {
        let names = |devices: &mut dyn Iterator<Item = &DeviceRef>| {
            self.below_devices(devices).map_or_else(|_| Vec::new(), |below| self.file_names(&below))
        };
        let first = names(&mut group.found.values().map(|found| &found.device));
        let others = group.alike.iter().flat_map(|one| &one.devices[1..]);
        let others = names(&mut others.into_iter());
        match first.iter().any(|file| others.contains(file)) {
            true => Vec::new(),
            false => first,
        }
    }
}

fn path_of(device: &DeviceRef) -> PathBuf {
    Path::new(&*device.name()).to_owned()
}
