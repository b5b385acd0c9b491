//! What a scan found: all that lies on the devices, and the pools, each with how it stands.

use crate::commands::zpool::{Standing, standing};
use crate::printable;
use attach::pools::Pools;
use attach::survey::{GroupSeen, Holds, Place, Survey};
use attach::typed::{self, quoted};
use host::probe::Unwrap;
use std::fmt::Write;
use std::path::PathBuf;
use std::rc::Rc;
use zfs::health::VdevHealth;
use zfs::spa::FoundPool;

/// What was found.
pub struct Scan {
    /// All but pools.
    pub survey: Survey,
    /// Pools.
    pub pools: Vec<PoolSeen>,
    /// How `spindle` is called for these devices.
    pub command: String,
}

/// A pool.
pub struct PoolSeen {
    /// Its labels.
    pub found: Rc<FoundPool>,
    /// How it stands.
    pub standing: Standing,
    /// The sets below it that were put together by force: commands on pools don't do that.
    pub forced: Vec<String>,
}

impl Scan {
    /// Of all that these pools were looked for on, whose devices were named so.
    pub fn of(pools: &Pools, named: &[PathBuf]) -> Scan {
        let pool = |found: &Rc<FoundPool>| PoolSeen {
            found: Rc::clone(found),
            standing: standing(pools, found),
            forced: pools.forced_below(found),
        };
        Scan {
            survey: Survey::of(pools),
            command: typed::spindle(named),
            pools: pools.found.iter().map(pool).collect(),
        }
    }
}

impl Scan {
    /// The places that one file system lies on, of which this is one: several where it is one over several devices.
    pub fn together<'a>(&'a self, place: &'a Place) -> Vec<&'a Place> {
        let of = |place: &Place| match &place.holds {
            Holds::Content(content) if content.devices.is_some_and(|devices| devices > 1) => {
                content.id.clone()
            }
            _ => None,
        };
        let Some(id) = of(place) else { return vec![place] };
        let sets = self.survey.sets.iter().filter_map(|set| set.place.as_ref().ok());
        let volumes = self.survey.groups.iter().flat_map(|group| group.logical.iter().flatten());
        let whole = self.survey.devices.iter().chain(sets).chain(volumes);
        let places = whole.flat_map(|place| std::iter::once(place).chain(&place.parts));
        let mut together: Vec<&Place> =
            places.filter(|place| of(place).as_ref() == Some(&id)).collect();
        together.dedup_by_key(|place| &place.name);
        together
    }
}

/// How many devices a vdev has.
pub fn leaves(node: &VdevHealth) -> usize {
    match node.vdev.is_leaf() && node.children.is_empty() {
        true => 1,
        false => node.children.iter().map(leaves).sum(),
    }
}

impl PoolSeen {
    /// Whether it has one device, which is there.
    pub fn is_alone(&self) -> bool {
        let is_one = self.found.members.len() == 1 && self.found.tops_expected <= 1;
        is_one && leaves(&self.standing.health) == 1
    }
}

/// The one device of a group; nothing where it has several, or its one is missing.
pub fn single(group: &GroupSeen) -> Option<&str> {
    match &group.physical[..] {
        [(Some(device), _)] if group.alike.is_empty() => Some(device),
        _ => None,
    }
}

/// The command that serves what lies there.
pub fn serve(places: &[&Place]) -> String {
    let volumes = places.iter().map(|place| format!(" --volume {}", quoted(&place.name)));
    let force = if places.iter().any(|place| place.by_force) { " --force" } else { "" };
    let skips =
        if places.iter().any(|place| place.lacks.is_some()) { " --skip-damaged" } else { "" };
    format!("serve{} --readonly{force}{skips}", volumes.collect::<String>())
}

/// Whether what can be read of it is worth a try, though nobody knows what it is.
pub fn is_rest(place: &Place) -> bool {
    let is_unknown = matches!(place.holds, Holds::Unknown | Holds::Nothing | Holds::Unreadable(_));
    is_unknown && place.lacks.is_some()
}

/// What a place holds, in words.
pub fn held(place: &Place) -> String {
    match &place.holds {
        Holds::Partitions(form) => format!("{form} partition table"),
        Holds::Member(set) => format!("member of RAID set {}", printable::word(set)),
        Holds::PoolDevice(pool) => format!("device of ZFS pool {}", printable::word(pool)),
        Holds::PoolSpare => "spare or cache device of a ZFS pool".to_owned(),
        Holds::Physical(group) => {
            format!("physical volume of volume group {}", printable::word(group))
        }
        Holds::OfSet(set) => {
            let set = printable::word(set);
            format!("begins as {set} does, without a superblock: a member once, as it seems")
        }
        Holds::Content(content) => described(content, place),
        Holds::Signature(what, _) => (*what).to_owned(),
        Holds::Unknown => "data of no form that is known here".to_owned(),
        Holds::Nothing => "nothing".to_owned(),
        // Why is told with what it lacks.
        Holds::Unreadable(_) if place.lacks.is_some() => "its start can't be read".to_owned(),
        Holds::Unreadable(why) => format!("can't be read: {}", printable::line(why)),
    }
}

/// A file system in words: `ext4 "home", 1 GiB of 2 GiB, not unmounted cleanly`.
pub fn described(content: &volume::content::Content, place: &Place) -> String {
    let mut text = content.kind.name().to_owned();
    if let Some(label) = &content.label {
        let _ = write!(text, " \"{}\"", printable::word(label));
    }
    match content.size {
        Some(size) if size > place.size && place.lacks.is_none() => {
            let _ = write!(text, ", goes up to {size}: was what it lies on cut short?");
        }
        _ => {}
    }
    if let Some(devices) = content.devices.filter(|devices| *devices > 1) {
        let _ = write!(text, ", one of its {devices} devices");
    }
    if content.unclean {
        text += ", not unmounted cleanly";
    }
    text
}

/// The command that makes a raw image of one in another form, or unpacks it.
pub(super) fn unwrap(name: &str, by: Unwrap) -> String {
    match by {
        Unwrap::In(program) => format!("{program} {}", quoted(name)),
        Unwrap::To(program) => {
            format!("{program} {} {}", quoted(name), quoted(&format!("{name}.raw")))
        }
    }
}
