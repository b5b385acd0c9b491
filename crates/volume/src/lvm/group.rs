//! Volume groups on the devices at hand: found and put together.

use crate::lvm::SECTOR;
use crate::lvm::alike::{Alike, Beneath, Labels, bearing, beneath};
use crate::lvm::error::LvmError;
use crate::lvm::label::Id;
use crate::lvm::look::{Found, Text, older_texts};
use crate::lvm::metadata::{LogicalVolume, PhysicalVolume, VolumeGroup};
use crate::lvm::text::Section;
use async_recursion::async_recursion as boxed;
use rt::DeviceRef;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use stdx::MIB;

/// A volume group with the devices that are there.
#[derive(Clone)]
pub struct Group {
    /// What its newest text says.
    pub group: VolumeGroup,
    /// That text, whole.
    pub text: Section,
    /// Its physical volumes that are there, by the names of the text.
    pub found: BTreeMap<String, Found>,
    /// The text is not the newest, which is damaged wherever it is there.
    pub is_older: bool,
    /// The devices of those whose own text is damaged.
    pub damaged: Vec<String>,
    /// The devices of those whose own text is older, with its `seqno`.
    pub outdated: Vec<(String, u64)>,
    /// The devices of those whose own text is as new as this one, and says something else.
    pub contradicting: Vec<String>,
    /// Those of its physical volumes that several devices bear: one of these stands in `found`, and nothing of the group is opened.
    pub alike: Vec<Alike>,
}

/// What was found of volume groups.
#[derive(Default)]
pub struct FoundGroups {
    /// They.
    pub groups: Vec<Group>,
    /// Physical volumes that no text says anything of.
    pub apart: Vec<Found>,
    /// What is wrong, of one device or group each.
    pub errors: Vec<LvmError>,
    /// Whether there are, or were, groups or changes of them that are not known.
    pub is_lacking: bool,
    /// Devices that bear a physical volume of another, which lies on them.
    pub beneath: Vec<Beneath>,
}

/// The newest text of each group.
fn newest<'a>(texts: impl Iterator<Item = &'a Text>) -> Vec<Text> {
    let mut groups: Vec<Text> = Vec::new();
    for (group, text) in texts {
        match groups.iter_mut().find(|(other, _)| other.id == group.id) {
            Some(other) if other.0.seqno < group.seqno => *other = (group.clone(), text.clone()),
            Some(_) => {}
            None => groups.push((group.clone(), text.clone())),
        }
    }
    groups
}

/// Looks for physical volumes on the devices, and puts groups together. A device without a label is
/// passed over; one with a damaged label or text is told of beside the groups.
///
/// Where all texts of a group are damaged that count, the newest of the older ones counts that the ring of a metadata area still has. Nothing
/// but that it can be read tells that it is whole: the checksum went with the header that pointed to it.
///
/// # Errors
/// None: each device's goes to the list.
#[boxed(?Send)]
pub async fn find_groups(devices: &[DeviceRef]) -> FoundGroups {
    groups_of(Labels::look(devices).await, &[]).await
}

/// Puts groups together of devices with labels. `above` are pairs of [alike](Labels::alike) ones of which the first lies on the second.
#[boxed(?Send)]
pub async fn groups_of(labels: Labels, above: &[(usize, usize)]) -> FoundGroups {
    let Labels { mut physical, mut errors } = labels;
    let beneath = beneath(&mut physical, above);
    let mut is_lacking = !errors.is_empty();
    let mut groups = newest(physical.iter().filter_map(|one| one.text.as_ref()));
    let whole = groups.len();
    let is_known = |groups: &[Text], id: Id| {
        let mut volumes = groups.iter().flat_map(|(group, _)| group.physical.values());
        volumes.any(|volume| volume.id == id)
    };
    let mut older = Vec::new();
    for one in physical.iter().filter(|one| one.error.is_some()) {
        if !is_known(&groups, one.found.label.id) {
            is_lacking = true;
            older.extend(older_texts(&one.found).await);
        }
    }
    groups.extend(newest(older.iter()));
    let with_devices = |(place, (group, text)): (usize, Text)| {
        let named = group.physical.iter();
        let named =
            named.filter_map(|(name, volume)| Some((name.clone(), bearing(&physical, volume.id)?)));
        let (mut found, mut damaged, mut alike) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (mut outdated, mut contradicting) = (Vec::new(), Vec::new());
        for (name, (one, with_others)) in named {
            let device = || one.found.device.name().to_string();
            match &one.text {
                Some((own, _)) if own.seqno < group.seqno => outdated.push((device(), own.seqno)),
                Some((own, _)) if *own != group => contradicting.push(device()),
                _ => {}
            }
            let is_damaged = one.error.is_some();
            damaged.extend(is_damaged.then(device));
            found.insert(name, one.found.clone());
            alike.extend(with_others);
        }
        let is_older = place >= whole;
        Group { group, text, found, is_older, damaged, outdated, contradicting, alike }
    };
    let apart = physical.iter().filter(|one| !is_known(&groups, one.found.label.id));
    let apart = apart.map(|one| one.found.clone()).collect();
    let groups: Vec<Group> = groups.into_iter().enumerate().map(with_devices).collect();
    errors.extend(physical.into_iter().filter_map(|one| one.error));
    errors.extend(groups.iter().filter_map(Group::older));
    errors.extend(groups.iter().flat_map(Group::outdated));
    errors.extend(groups.iter().flat_map(Group::ambiguous));
    FoundGroups { groups, apart, errors, is_lacking, beneath }
}

/// Bytes that a device has to have for all extents of its physical volume.
pub(super) fn needed(described: &PhysicalVolume, extent_sectors: u64) -> u64 {
    let extents = described.extents.saturating_mul(extent_sectors);
    described.start_sector.saturating_add(extents).saturating_mul(SECTOR)
}

impl Group {
    /// One of which nothing is wrong.
    pub(super) fn whole(
        group: VolumeGroup,
        text: Section,
        found: BTreeMap<String, Found>,
    ) -> Group {
        let (damaged, outdated, contradicting, alike) = Default::default();
        Group { group, text, found, is_older: false, damaged, outdated, contradicting, alike }
    }

    /// That the group is read as an older text has it, where it is.
    pub fn older(&self) -> Option<LvmError> {
        let (group, seqno) = (self.group.name.clone(), self.group.seqno);
        self.is_older.then_some(LvmError::Older { group, seqno })
    }

    /// What is said of each of its physical volumes whose own text is older.
    pub fn outdated(&self) -> impl Iterator<Item = LvmError> {
        self.outdated.iter().map(|(device, seqno)| LvmError::Outdated {
            group: self.group.name.clone(),
            device: device.clone(),
            seqno: *seqno,
            newest: self.group.seqno,
        })
    }

    /// The first of these that bars changes: one that lacks a single change may lack it since the power went meanwhile.
    pub fn barred_by_outdated(&self) -> Option<LvmError> {
        self.outdated().find(|one| {
            matches!(one, LvmError::Outdated { seqno, newest, .. } if newest.saturating_sub(*seqno) > 1)
        })
    }

    /// What is said of each of its physical volumes that several devices bear, and of texts that contradict one another: nothing of it is
    /// opened.
    pub fn ambiguous(&self) -> impl Iterator<Item = LvmError> {
        let alike = self.alike.iter().map(|one| LvmError::Alike {
            group: self.group.name.clone(),
            id: one.id,
            devices: one.devices.iter().map(|device| device.name().to_string()).collect(),
        });
        let agree = self.found.values().map(|found| found.device.name().to_string());
        let agree = agree.filter(|device| {
            let is_older = self.outdated.iter().any(|(other, _)| other == device);
            !is_older && !self.contradicting.contains(device) && !self.damaged.contains(device)
        });
        let contradicts = (!self.contradicting.is_empty()).then(|| LvmError::TwoTexts {
            group: self.group.name.clone(),
            seqno: self.group.seqno,
            devices: agree.collect(),
            others: self.contradicting.clone(),
        });
        alike.chain(contradicts)
    }

    /// Refuses a group of which several devices bear one physical volume.
    pub(super) fn check_one_of_each(&self) -> Result<(), LvmError> {
        self.ambiguous().next().map_or(Ok(()), Err)
    }

    /// A device of it that ends before its extents do: what it has, and how long it should be, in bytes.
    pub fn cut_short(&self) -> Vec<(&Found, u64)> {
        let needed = self.group.physical.iter().filter_map(|(name, described)| {
            let found = self.found.get(name)?;
            let needed = needed(described, self.group.extent_sectors);
            (found.device.geometry().capacity.bytes() < needed).then_some((found, needed))
        });
        needed.collect()
    }

    /// Its physical volumes that are missing, each with how many bytes its device may have: what its extents need at the least, and at
    /// the most what the text says that it had, rounded up to a MiB as whoever copies a device may do.
    pub fn missing(&self) -> Vec<(Id, RangeInclusive<u64>)> {
        let described = self.group.physical.iter();
        let missing = described.filter(|(name, _)| !self.found.contains_key(*name));
        let sizes = missing.map(|(_, described)| {
            let extent = self.group.extent_sectors;
            let needed = needed(described, extent);
            // What is behind the last extent is less than one.
            let most = match described.device_sectors {
                Some(sectors) => sectors.saturating_mul(SECTOR),
                None => needed.saturating_add(extent.saturating_mul(SECTOR)),
            };
            (described.id, needed..=most.div_ceil(MIB).saturating_mul(MIB))
        });
        sizes.collect()
    }

    /// The logical volume of this name.
    ///
    /// # Errors
    /// Where there is none.
    pub fn volume(&self, name: &str) -> Result<&LogicalVolume, LvmError> {
        let found = self.group.logical.iter().find(|volume| volume.name == name);
        found.ok_or_else(|| LvmError::NoVolume {
            group: self.group.name.clone(),
            volume: name.to_owned(),
        })
    }
}
