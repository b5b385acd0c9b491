//! All that lies on the devices that were named, told apart: what a stranger to them asks first.
//!
//! ```text
//!   a place      a file or block device, a partition, a RAID set, a logical volume: a name, a size, and what it holds
//!   a set        its slots, who is in them, and what it holds
//!   a group      its physical volumes, and its logical volumes, which are places
//! ```
//!
//! A place holds one of these, the first that is so: a member of a set, a device of a pool, a physical volume, partitions, a file
//! system or the like ([`volume::content`]), something else that is known by its signature ([`host::probe`]), bytes of no known form,
//! nothing. Pools are told of by [`Pools`].
//!
//! Nothing is written, and nothing that was read is believed beyond being shown.

mod slots;

pub use self::slots::Slot;
use self::slots::{beside, not_in_sync, said_role, slots};
use crate::disks::{Array, Disks, Part, Refused, Whole};
use crate::event::Events;
use crate::past_damage::PastDamage;
use crate::pools::Pools;
use crate::sets::running::client::picture;
use crate::sets::running::protocol::Doing;
use crate::sets::sources::written_elsewhere;
use ::host::probe::Unwrap;
use ::md::assemble::{Choice, Found, Histories, level_of};
use rt::{DeviceRef, Request};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stdx::{ByteCount, MIB, Offset};
use volume::content::{Content, identify};
use volume::lvm::{Group, Lacks, LogicalVolume, LvmError, is_labelled};

/// A physical volume of LVM inside of a logical volume.
const GUEST: &str =
    "LVM2 physical volume of a guest: lvm dump makes an image of it, and scan looks into that";
/// Bytes at the start of a place that are looked at for anything but zeros, where nothing is known by its form.
const START: ByteCount = ByteCount(MIB);

/// What a place holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// It is a member of the set that is called so.
    Member(String),
    /// It is a device of the pool that is called so.
    PoolDevice(String),
    /// It is a spare or a cache device of some pool.
    PoolSpare,
    /// It is a physical volume of the group that is called so.
    Physical(String),
    /// What lies on this set shows through on it, and it is no member of that: its superblock is gone.
    OfSet(String),
    /// It is divided by this kind of table.
    Partitions(&'static str),
    /// A file system, swap space, or what is encrypted.
    Content(Content),
    /// What is known by a signature; with what makes a raw image of it, where it holds one.
    Signature(&'static str, Option<Unwrap>),
    /// Bytes of no form that is known.
    Unknown,
    /// Nothing, as far as was looked.
    Nothing,
    /// It can't be read.
    Unreadable(String),
}

/// Something that holds bytes. See the [module](self).
#[derive(Clone, Debug)]
pub struct Place {
    /// What commands call it.
    pub name: String,
    /// How large it is.
    pub size: ByteCount,
    /// What it holds.
    pub holds: Holds,
    /// Whether it lies on a set that was put together by force.
    pub by_force: bool,
    /// What of it is not there, where some of it isn't: the rest is read by who goes on past what can't be.
    pub lacks: Option<String>,
    /// Its partitions.
    pub parts: Vec<Place>,
}

/// Who has a set open for writing.
pub enum ServedBy {
    /// This process.
    Process(u32),
    /// One that does not say who it is.
    Unknown,
}

/// A set.
pub struct SetSeen {
    /// What commands call it.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its level, by md's name.
    pub level: String,
    /// Its slots; none where its members contradict each other.
    pub slots: Vec<Slot>,
    /// Devices that are in no slot, each with what it is.
    pub beside: Vec<(String, String)>,
    /// Whether it was not stopped cleanly.
    pub unclean: bool,
    /// Whether it is resynchronised, or is to be, and per cent of it: since it was made.
    pub resyncing: Option<u64>,
    /// Who serves it.
    pub served: Option<ServedBy>,
    /// Whether it is in the midst of a reshape.
    pub reshaping: bool,
    /// Whether it was put together by force.
    pub by_force: bool,
    /// Whether it was refused, and can be put together by force.
    pub force_helps: bool,
    /// Devices that went on without those that count, where these are too few and they are enough by themselves.
    pub alone: Vec<String>,
    /// That members are of copies of it that were used apart, where they are.
    pub histories: Option<Histories>,
    /// What it holds; or why it can't be opened.
    pub place: Result<Place, String>,
}

impl SetSeen {
    /// Slots with a member that has all of its content.
    pub fn whole(&self) -> usize {
        self.slots.iter().filter(|slot| slot.device.is_some() && !slot.rebuilding).count()
    }

    /// Whether each slot has such a member.
    pub fn is_whole(&self) -> bool {
        self.whole() == self.slots.len() && self.place.is_ok() && self.histories.is_none()
    }
}

/// A volume group.
pub struct GroupSeen {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its physical volumes, each by its device and its UUID; one without a device is missing.
    pub physical: Vec<(Option<String>, String)>,
    /// Those that are missing, by their UUIDs, each with how many bytes its device may have.
    pub missing: Vec<(String, RangeInclusive<u64>)>,
    /// Its logical volumes, or why one can't be opened, by name.
    pub logical: Vec<Result<Place, (String, String)>>,
    /// All of its space.
    pub size: ByteCount,
    /// What is not given to volumes.
    pub free: ByteCount,
    /// The `seqno` of the text that is shown, where newer ones are damaged.
    pub older: Option<u64>,
    /// Devices of it whose own text is older than what is shown, with its `seqno`.
    pub outdated: Vec<(String, u64)>,
    /// Devices of it whose own text is as new, and says something else. Nothing of the group is opened then.
    pub contradicting: Vec<String>,
    /// Physical volumes that several devices bear: their UUIDs, and the devices. Nothing of the group is opened then.
    pub alike: Vec<(String, Vec<String>)>,
    /// The files that are to be named for the first of each of these.
    pub first_of_alike: Vec<PathBuf>,
    /// Devices of it that end before its extents do, each with what it has and how long it should be, in bytes.
    pub short: Vec<(String, u64, u64)>,
}

/// See the [module](self).
pub struct Survey {
    /// The files and block devices.
    pub devices: Vec<Place>,
    /// RAID sets.
    pub sets: Vec<SetSeen>,
    /// Volume groups.
    pub groups: Vec<GroupSeen>,
}

impl Survey {
    /// Of all that these pools were looked for on.
    pub fn of(pools: &Pools) -> Survey {
        let seen = Seen { pools, disks: pools.disks() };
        let files = seen.disks.files.iter().enumerate();
        let devices = files.map(|(at, file)| seen.file(at, file)).collect();
        let groups = seen.disks.groups.iter().enumerate();
        Survey {
            devices,
            sets: seen.sets(),
            groups: groups.map(|(at, one)| seen.group(at, one)).collect(),
        }
    }

    /// What one of the disks' files, partitions and sets holds; nothing for what is none of these.
    pub fn place(pools: &Pools, device: &DeviceRef) -> Option<Place> {
        let seen = Seen { pools, disks: pools.disks() };
        let disks = seen.disks;
        if let Some(at) = disks.files.iter().position(|file| Rc::ptr_eq(file, device)) {
            return Some(seen.file(at, device));
        }
        if let Some(at) = disks.arrays.iter().position(|set| Rc::ptr_eq(&set.device, device)) {
            return Some(seen.place(seen.called(device), device, Whole::Array(at)));
        }
        let part = disks.parts.iter().find(|part| Rc::ptr_eq(&part.device, device))?;
        Some(seen.part(seen.called(device), part, false))
    }
}

struct Seen<'a> {
    pools: &'a Pools,
    disks: &'a Disks,
}

impl Seen<'_> {
    fn file(&self, at: usize, file: &DeviceRef) -> Place {
        let name = file.name().to_string();
        let mut place = self.place(name.clone(), file, Whole::File(at));
        // What has a signature of a kind that is not opened here; a member with a damaged superblock.
        if let Holds::Unknown | Holds::Nothing = place.holds
            && let Ok(Some(found)) = host::probe::content(Path::new(&name))
        {
            place.holds = match found.what.strip_prefix("data ") {
                Some(_) => Holds::Unknown,
                None => Holds::Signature(found.what, found.unwrapped_by),
            };
        }
        place
    }

    fn place(&self, name: String, device: &DeviceRef, whole: Whole) -> Place {
        let by_force = matches!(whole, Whole::Array(at) if self.disks.arrays[at].by_force);
        let (form, parts) = self.parts(&name, whole, by_force);
        let holds = match (self.belongs(device), form) {
            (Some(belongs), _) => belongs,
            (None, Some(form)) => Holds::Partitions(form),
            (None, None) => self.holds(device),
        };
        Place { name, size: device.geometry().capacity, holds, by_force, lacks: None, parts }
    }

    /// The partitions of what is called so, and the kind of its table.
    fn parts(
        &self,
        name: &str,
        whole: Whole,
        by_force: bool,
    ) -> (Option<&'static str>, Vec<Place>) {
        let parts = self.disks.parts.iter().filter(|part| part.on == whole);
        let place =
            |part: &Part| self.part(format!("{name}:{}", part.partition.number), part, by_force);
        let form = parts.clone().next().map(|part| part.form);
        (form, parts.map(place).collect())
    }

    fn part(&self, name: String, part: &Part, by_force: bool) -> Place {
        let holds = match part.on {
            Whole::Logical(..) => self.in_volume(&part.device),
            Whole::File(_) | Whole::Array(_) => self.holds(&part.device),
        };
        let size = part.partition.len;
        let lacks = part.partition.cut.map(|all| format!("cut short: its table has it {all} long"));
        Place { name, size, holds, by_force, lacks, parts: Vec::new() }
    }

    /// Whose device it is.
    fn belongs(&self, device: &DeviceRef) -> Option<Holds> {
        let is_it = |found: &Found| Rc::ptr_eq(&found.device, device);
        let arrays = self.disks.arrays.iter().map(Array::found);
        let all = arrays.chain(self.disks.refused().map(Refused::found));
        if let Some(set) = all.into_iter().find(|found| found.iter().any(is_it)) {
            return Some(Holds::Member(self.set_name(set)));
        }
        if let Some(upper) = self.disks.shown_physical(device) {
            return Some(Holds::OfSet(self.called(upper)));
        }
        for pool in &self.pools.found {
            let of_set = pool.copies.iter().filter(|copy| Rc::ptr_eq(&copy.device, device));
            let mut of_set = of_set.filter_map(|copy| pool.members.get(&copy.guid));
            if let Some(used) = of_set.find(|used| self.disks.shows_beside(device, &used.device)) {
                return Some(Holds::OfSet(self.called(&used.device)));
            }
            let mut devices = pool.members.values().chain(&pool.copies).map(|one| &one.device);
            if devices.any(|member| Rc::ptr_eq(member, device)) {
                return Some(Holds::PoolDevice(pool.name.clone()));
            }
        }
        if self.pools.auxiliary.iter().any(|member| Rc::ptr_eq(&member.device, device)) {
            return Some(Holds::PoolSpare);
        }
        let bears = |group: &&Group| {
            let alike = group.alike.iter().flat_map(|one| &one.devices);
            let mut all = group.found.values().map(|found| &found.device).chain(alike);
            all.any(|physical| Rc::ptr_eq(physical, device))
        };
        let of_group = self.disks.groups.iter().find(bears);
        of_group.map(|group| Holds::Physical(group.group.name.clone()))
    }

    fn holds(&self, device: &DeviceRef) -> Holds {
        if let Some(belongs) = self.belongs(device) {
            return belongs;
        }
        let looked = Rc::clone(device);
        let found = self.disks.wait(async move {
            if let Some(content) = identify(&looked).await? {
                return Ok(Holds::Content(content));
            }
            let len = looked.geometry().capacity.min(START);
            let head = looked.submit(Request::read(Offset::ZERO, len)).await?.to_vec();
            Ok::<_, rt::IoError>(match head.iter().all(|byte| *byte == 0) {
                true => Holds::Nothing,
                false => Holds::Unknown,
            })
        });
        found.unwrap_or_else(|error| Holds::Unreadable(error.to_string()))
    }

    /// What commands call a set: its short name where it is the only one of it, else its UUID.
    fn set_name(&self, found: &[Found]) -> String {
        let short = |found: &[Found]| {
            let name = found.first().map_or(String::new(), |one| one.superblock.name());
            name.split_once(':').map_or(name.clone(), |(_, short)| short.to_owned())
        };
        let (own, uuid) = (short(found), found.first().map(|one| one.superblock.set_uuid()));
        let arrays = self.disks.arrays.iter().map(Array::found);
        let all = arrays.chain(self.disks.refused().map(Refused::found));
        let same = all.filter(|found| short(found) == own).count();
        match own.is_empty() || same > 1 {
            true => uuid.map(|uuid| uuid.to_string()).unwrap_or_default(),
            false => own,
        }
    }

    fn sets(&self) -> Vec<SetSeen> {
        let arrays = self.disks.arrays.iter().enumerate();
        let open = arrays.map(|(at, array)| {
            let name = self.set_name(array.found());
            self.set(array.found(), Ok(self.place(name, &array.device, Whole::Array(at))))
        });
        let refused = self.disks.refused().map(|one| {
            let set = self.set(one.found(), Err(one.why.clone()));
            SetSeen { force_helps: one.force_helps, ..set }
        });
        open.chain(refused).collect()
    }

    fn set(&self, found: &[Found], place: Result<Place, String>) -> SetSeen {
        let by_force = place.as_ref().is_ok_and(|place| place.by_force);
        let name = self.set_name(found);
        let first = found.first().map(|one| one.superblock.clone());
        let uuid = first.as_ref().map(|one| one.set_uuid().to_string()).unwrap_or_default();
        let choice = first.as_ref().and_then(|one| Choice::of(one.set_uuid(), found.to_vec()).ok());
        let choice = choice.map(|mut choice| {
            if by_force {
                choice.accept_stale();
            }
            choice
        });
        let facts = choice.as_ref().map(|choice| choice.facts.clone()).or(first);
        let level = facts.as_ref().map_or(String::new(), |facts| {
            level_of(facts.level()).map_or_else(|name| name, |level| level.to_string())
        });
        let is_raid = facts.as_ref().is_some_and(|facts| facts.level() > 0);
        let context = self.disks.context();
        let picture = choice.as_ref().and_then(|choice| picture(context, choice).ok().flatten());
        let served = match (&picture, &choice) {
            (Some(picture), _) => {
                Some(picture.process.map_or(ServedBy::Unknown, ServedBy::Process))
            }
            (None, Some(choice)) => written_elsewhere(context, choice).map(|_| ServedBy::Unknown),
            (None, None) => None,
        };
        let under_way = picture.and_then(|picture| picture.under_way);
        let (unclean, resyncing) = match (&served, under_way) {
            (_, Some((Doing::Resync, percent))) => (false, Some(percent)),
            // What its superblocks say is what is under way.
            (Some(_), _) => (false, None),
            (None, _) => facts.as_ref().filter(|_| is_raid).map_or((false, None), not_in_sync),
        };
        let reshaping = facts.as_ref().is_some_and(|facts| facts.reshape().is_some());
        let (slots, beside) = match &choice {
            Some(choice) => (slots(choice), beside(choice)),
            None => (
                Vec::new(),
                found.iter().map(|one| (one.name(), said_role(&one.superblock))).collect(),
            ),
        };
        let force_helps = false;
        let alone = choice.iter().flat_map(Choice::enough_alone).map(Found::name).collect();
        SetSeen {
            name,
            uuid,
            level,
            slots,
            beside,
            unclean,
            resyncing,
            served,
            reshaping,
            by_force,
            force_helps,
            alone,
            histories: choice.as_ref().and_then(Choice::histories),
            place,
        }
    }

    fn group(&self, at: usize, group: &Group) -> GroupSeen {
        let described = &group.group;
        let extent = described.extent_sectors.saturating_mul(volume::lvm::SECTOR);
        let physical = described.physical.iter().map(|(name, physical)| {
            let found = group.found.get(name).map(|found| self.called(&found.device));
            (found, physical.id.to_string())
        });
        let missing = group.missing().into_iter().map(|(id, sizes)| (id.to_string(), sizes));
        let extents: u64 = described.physical.values().map(|one| one.extents).sum();
        let free: u64 = described
            .physical
            .keys()
            .flat_map(|name| described.free(name))
            .map(|range| range.end - range.start)
            .sum();
        let visible = described.logical.iter().enumerate().filter(|(_, volume)| volume.visible);
        let logical = visible.map(|(place, volume)| {
            let name = format!("{}/{}", self.disks.group_name(group), volume.name);
            match group.open_in_part(&self.disks.context().rt(), &volume.name) {
                Ok(device) => {
                    let lacks = lacks(group, volume);
                    let size = device.geometry().capacity;
                    let opened = self.disks.volume_in_part(&name);
                    let by_force = opened.is_ok_and(|opened| opened.by_force);
                    let (form, parts) = self.parts(&name, Whole::Logical(at, place), by_force);
                    let holds = match (&lacks, form) {
                        (Some(_), _) => self.rest_holds(&device),
                        (None, Some(form)) => Holds::Partitions(form),
                        (None, None) => self.volume(&name, &device),
                    };
                    Ok(Place { name, size, holds, by_force, lacks, parts })
                }
                Err(LvmError::Alike { .. }) => {
                    Err((name, "which of the devices above counts is to be said".to_owned()))
                }
                Err(error) => Err((name, error.to_string())),
            }
        });
        let short = group.cut_short().into_iter().map(|(found, needed)| {
            let has = found.device.geometry().capacity.bytes();
            (self.called(&found.device), has, needed)
        });
        let alike = group.alike.iter().map(|one| {
            let devices = one.devices.iter().map(|device| self.called(device));
            (one.id.to_string(), devices.collect())
        });
        let alike: Vec<(String, Vec<String>)> = alike.collect();
        let first_of_alike = match alike.is_empty() {
            true => Vec::new(),
            false => self.disks.with_first_of_alike(group),
        };
        GroupSeen {
            alike,
            first_of_alike,
            name: described.name.clone(),
            uuid: described.id.to_string(),
            physical: physical.collect(),
            missing: missing.collect(),
            logical: logical.collect(),
            size: ByteCount(extents.saturating_mul(extent)),
            free: ByteCount(free.saturating_mul(extent)),
            older: group.is_older.then_some(described.seqno),
            outdated: group.outdated.clone(),
            contradicting: group.contradicting.clone(),
            short: short.collect(),
        }
    }

    /// What a logical volume holds. Pools on one were found through another device of the same name.
    fn volume(&self, name: &str, device: &DeviceRef) -> Holds {
        let of_pool = self
            .pools
            .found
            .iter()
            .find(|pool| pool.members.values().any(|member| *member.device.name() == *name));
        match of_pool {
            Some(pool) => Holds::PoolDevice(pool.name.clone()),
            None => self.in_volume(device),
        }
    }

    /// What lies in a logical volume, where no physical volumes are looked for: those of a guest are not the host's.
    fn in_volume(&self, device: &DeviceRef) -> Holds {
        let looked = Rc::clone(device);
        match self.holds(device) {
            Holds::Unknown if self.disks.wait(async move { is_labelled(&looked).await }) => {
                Holds::Signature(GUEST, None)
            }
            holds => holds,
        }
    }

    /// What a volume holds of which not all is there.
    fn rest_holds(&self, device: &DeviceRef) -> Holds {
        let holds = self.holds(device);
        let Holds::Unreadable(_) = holds else { return holds };
        let past = PastDamage::new(Rc::clone(device), &Events::unheard());
        let found = self.disks.wait(async move { identify(&(past as DeviceRef)).await });
        found.ok().flatten().map_or(holds, Holds::Content)
    }

    /// What commands call a device.
    fn called(&self, device: &DeviceRef) -> String {
        let of_array = |device: &DeviceRef| {
            let array = self.disks.arrays.iter().find(|one| Rc::ptr_eq(&one.device, device));
            array.map(|array| self.set_name(array.found()))
        };
        if let Some(part) = self.disks.parts.iter().find(|part| Rc::ptr_eq(&part.device, device)) {
            let whole = match part.on {
                Whole::File(at) => self.disks.files.get(at).map(|file| file.name().to_string()),
                Whole::Array(at) => {
                    self.disks.arrays.get(at).map(|array| self.set_name(array.found()))
                }
                Whole::Logical(..) => Some(part.of.clone()),
            };
            return format!("{}:{}", whole.unwrap_or_default(), part.partition.number);
        }
        of_array(device).unwrap_or_else(|| device.name().to_string())
    }
}

/// What a logical volume lacks, where not all of it is there.
fn lacks(group: &Group, volume: &LogicalVolume) -> Option<String> {
    let (mut missing, mut short): (Vec<String>, Vec<String>) = Default::default();
    let all = group.lacking(volume);
    for lacking in &all {
        match &lacking.why {
            Lacks::Missing(id) => missing.push(id.to_string()),
            Lacks::CutShort(device) => short.push(device.clone()),
        }
    }
    let (volumes, verb) = match missing.len() {
        1 => ("physical volume", "is"),
        _ => ("physical volumes", "are"),
    };
    let ends = if short.len() == 1 { "ends" } else { "end" };
    let missing = (!missing.is_empty())
        .then(|| format!("the {volumes} {} {verb} missing", missing.join(", ")));
    let short = (!short.is_empty()).then(|| format!("{} {ends} too soon", short.join(", ")));
    let why = missing.into_iter().chain(short).reduce(|one, other| format!("{one}, {other}"))?;
    let bytes = ByteCount(all.iter().map(|lacking| lacking.bytes).sum());
    Some(format!("it lacks {bytes} of data of group {}: {why}", group.group.name))
}
