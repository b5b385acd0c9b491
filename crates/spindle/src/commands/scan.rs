//! `spindle scan`: what is on these disks? Every RAID set, ZFS pool, volume group, partition and file system of the devices that were
//! named, whole or degraded, who is missing, and the command to type next.
//!
//! ```text
//! RAID set data: raid5, 190 MiB, degraded: 3 of 4 members
//!   slot 0  disks/disk0.raw
//!   slot 1  missing
//!   …
//!   volume group vg0: 188 MiB, 60 MiB free
//!     vg0/home  128 MiB  ext4 "home"
//!       next: spindle -d disks serve --volume vg0/home --readonly
//! ```
//!
//! Sets, groups of several devices and pools of several devices stand at the margin; what lies on one thing alone stands below
//! it. Devices that are part of something are shown there, all others at the end. Nothing is written.
//!
//! Exit status: 1 where something may not be read, or all that is there can't be looked at; 0 also where nothing is found.

use super::typed::{self, quoted};
use super::zpool::{Standing, standing};
use crate::events::{events, refuse_denied};
use crate::output::{Failure, print, print_json, say};
use crate::printable;
use attach::disks::Disks;
use attach::pools::Pools;
use attach::pools::running::protocol::Holder;
use attach::survey::{GroupSeen, Holds, Place, SetSeen, Survey};
use clap::Args;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use zfs::health::{Cause, Health, VdevHealth};
use zfs::spa::{FoundPool, OpenOptions, PoolState};
use zfs_format::vdev::VdevKind;

// What `scan` takes.
#[derive(Args)]
pub struct ScanArgs {
    /// Files, block devices, or folders of them; beside those of -d
    paths: Vec<PathBuf>,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

impl ScanArgs {
    /// Of a call that names nothing but where to look.
    pub fn of(paths: Vec<PathBuf>, json: bool) -> ScanArgs {
        ScanArgs { paths, json }
    }
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &ScanArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let named = [devices, &args.paths[..]].concat();
    let disks = Disks::open(&events(), &named)?;
    let pools = Pools::over(disks, OpenOptions::default());
    let scan = Scan {
        survey: Survey::of(&pools),
        command: typed::spindle(&named),
        // A pool that was destroyed is shown where nothing else has its devices.
        pools: pools
            .found
            .iter()
            .map(|found| (Rc::clone(found), standing(&pools, found)))
            .collect(),
    };
    let disks = pools.disks();
    let reasons: BTreeSet<&str> = disks.refused().map(|(_, why)| why).collect();
    let complaints = disks.complaints.iter().filter(|text| !reasons.contains(text.as_str()));
    complaints.for_each(|text| say(&format!("note: {text}")));
    pools.tell_elsewhere();
    match args.json {
        true => print_json(&format!("{:#}\n", scan.as_json()))?,
        false => print(&scan.as_text(&disks.searched()))?,
    }
    refuse_denied(disks.context())
}

struct Scan {
    survey: Survey,
    pools: Vec<(Rc<FoundPool>, Standing)>,
    command: String,
}

/// Lines with an indentation.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, depth: usize, text: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "{:1$}{text}", "", 2 * depth);
    }
}

fn shown(word: &str) -> String {
    printable::word(word).into_owned()
}

/// `1 device`, `2 devices`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl Scan {
    fn as_text(&self, searched: &str) -> String {
        let mut out = Lines::default();
        for set in &self.survey.sets {
            self.set(&mut out, set);
            out.line(0, "");
        }
        let apart = self.survey.groups.iter().filter(|group| single(group).is_none());
        for group in apart {
            self.group(&mut out, 0, group);
            out.line(0, "");
        }
        for (found, standing) in self.pools.iter().filter(|pool| !is_alone(pool)) {
            self.pool(&mut out, 0, found, standing);
            out.line(0, "");
        }
        let others: Vec<&Place> =
            self.survey.devices.iter().filter(|place| !self.is_shown_elsewhere(place)).collect();
        if !others.is_empty() && others.len() < self.survey.devices.len() {
            out.line(0, "Other devices");
        }
        let depth = usize::from(others.len() < self.survey.devices.len());
        others.iter().for_each(|place| self.place(&mut out, depth, place));
        if others.is_empty() {
            // The blank line behind what stood last.
            out.0.truncate(out.0.trim_end().len());
            if !out.0.is_empty() {
                out.0.push('\n');
            }
        }
        if !out.0.is_empty() {
            out.line(0, "");
        }
        out.line(0, &format!("{searched}; nothing was written"));
        out.0
    }

    /// Whether a device is one of several of something, which names it.
    fn is_shown_elsewhere(&self, place: &Place) -> bool {
        match &place.holds {
            Holds::Member(_) => true,
            Holds::PoolDevice(name) => self.single_pool(&place.name, name).is_none(),
            Holds::Physical(name) => self.single_group(name).is_none(),
            _ => false,
        }
    }

    /// The pool of this name that lies on this device alone.
    fn single_pool(&self, device: &str, name: &str) -> Option<&(Rc<FoundPool>, Standing)> {
        let lies_there = |found: &FoundPool| {
            found.members.values().all(|member| *member.device.name() == *device)
        };
        self.pools.iter().find(|pool| pool.0.name == name && is_alone(pool) && lies_there(&pool.0))
    }

    fn single_group(&self, name: &str) -> Option<&GroupSeen> {
        self.survey.groups.iter().find(|group| group.name == name && single(group).is_some())
    }

    /// The group that lies on this place alone.
    fn group_on(&self, place: &str, name: &str) -> Option<&GroupSeen> {
        self.single_group(name).filter(|group| single(group) == Some(place))
    }

    fn next(&self, out: &mut Lines, depth: usize, command: &str) {
        out.line(depth, &format!("next: {} {command}", self.command));
    }

    fn set(&self, out: &mut Lines, set: &SetSeen) {
        let size = set.place.as_ref().map_or(String::new(), |place| format!(", {}", place.size));
        let (whole, all) = (set.whole(), set.slots.len());
        let mut state = match set.is_whole() {
            true => format!("whole, {}", counted(all, "member")),
            false if set.place.is_ok() => format!("degraded: {whole} of {all} members"),
            false => "can't be opened".to_owned(),
        };
        if set.unclean {
            state += ", not stopped cleanly";
        }
        if set.reshaping {
            state += ", in the midst of a reshape";
        }
        out.line(0, &format!("RAID set {}: {}{size}, {state}", shown(&set.name), set.level));
        for (number, slot) in set.slots.iter().enumerate() {
            let who = match &slot.device {
                Some(device) if slot.rebuilding => format!("{} (not rebuilt yet)", shown(device)),
                Some(device) => shown(device),
                None => "missing".to_owned(),
            };
            out.line(1, &format!("slot {number}  {who}"));
        }
        for (device, what) in &set.beside {
            out.line(1, &format!("{}  {what}", shown(device)));
        }
        if set.whole() < all {
            self.may_be_members(out, set);
        }
        match &set.place {
            Ok(place) => self.content(out, 1, place),
            Err(why) => {
                out.line(1, &printable::line(why));
                let name = quoted(&set.name);
                let command = match why.contains("--force") {
                    true => format!("md assemble {name} --readonly --force     # writes nothing"),
                    false => "md examine     # what each device says of itself".to_owned(),
                };
                self.next(out, 1, &command);
            }
        }
    }

    /// Devices that may be members of a set although their superblocks don't say so.
    fn may_be_members(&self, out: &mut Lines, set: &SetSeen) {
        let is_of = |place: &&Place| matches!(&place.holds, Holds::Member(of) if *of == set.name);
        let sizes: BTreeSet<u64> =
            self.places().filter(is_of).map(|place| place.size.bytes()).collect();
        let is_unknown = |place: &&Place| {
            matches!(place.holds, Holds::Unknown | Holds::Nothing)
                && sizes.contains(&place.size.bytes())
        };
        let names: Vec<String> =
            self.places().filter(is_unknown).map(|place| shown(&place.name)).collect();
        if !names.is_empty() {
            let verb = if names.len() == 1 { "is" } else { "are" };
            out.line(
                1,
                &format!(
                    "{} {verb} as large as its members, and without a superblock: the guide's page \"My NAS died\" says what \
                     can be tried where it was overwritten",
                    names.join(", ")
                ),
            );
        }
    }

    /// The devices and their partitions.
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.survey.devices.iter().flat_map(|place| std::iter::once(place).chain(&place.parts))
    }

    fn group(&self, out: &mut Lines, depth: usize, group: &GroupSeen) {
        let missing = group.physical.iter().filter(|(device, _)| device.is_none()).count();
        let state = match missing {
            0 => "whole".to_owned(),
            _ => {
                format!("{missing} of {} missing", counted(group.physical.len(), "physical volume"))
            }
        };
        let name = shown(&group.name);
        out.line(
            depth,
            &format!("volume group {name}: {}, {} free, {state}", group.size, group.free),
        );
        if single(group).is_none() {
            for (device, id) in &group.physical {
                let who = device.as_deref().map_or(format!("missing (UUID {id})"), shown);
                out.line(depth + 1, &format!("on {who}"));
            }
        }
        for volume in &group.logical {
            match volume {
                Ok(place) => self.place(out, depth + 1, place),
                Err((name, why)) => {
                    out.line(
                        depth + 1,
                        &format!("{}  can't be opened: {}", shown(name), printable::line(why)),
                    );
                }
            }
        }
    }

    /// A place with its name, and what it holds.
    fn place(&self, out: &mut Lines, depth: usize, place: &Place) {
        let (name, size) = (shown(&place.name), place.size);
        let what = match &place.holds {
            Holds::Partitions(form) => format!("{form} partition table"),
            Holds::Member(set) => format!("member of RAID set {}", shown(set)),
            Holds::PoolDevice(pool) => format!("device of ZFS pool {}", shown(pool)),
            Holds::PoolSpare => "spare or cache device of a ZFS pool".to_owned(),
            Holds::Physical(group) => format!("physical volume of volume group {}", shown(group)),
            Holds::Content(content) => described(content, place),
            Holds::Signature(what) => what.clone(),
            Holds::Unknown => "data of no form that is known here".to_owned(),
            Holds::Nothing => "nothing".to_owned(),
            Holds::Unreadable(why) => format!("can't be read: {}", printable::line(why)),
        };
        out.line(depth, &format!("{name}  {size}  {what}"));
        if let Some((other, form)) = self.divided_like(place) {
            out.line(
                depth + 1,
                &format!(
                    "as large as {}, which has a partition table ({form}): the guide's page \"My NAS died\" says what can be tried \
                     where its own was overwritten",
                    shown(other)
                ),
            );
        }
        self.below(out, depth + 1, place);
    }

    /// A disk that is divided, where one that is not known to hold anything may have been divided alike.
    fn divided_like(&self, place: &Place) -> Option<(&str, &'static str)> {
        let is_whole = self.survey.devices.iter().any(|one| one.name == place.name);
        if !is_whole || !matches!(place.holds, Holds::Unknown | Holds::Nothing) {
            return None;
        }
        let alike = self.survey.devices.iter().filter(|one| one.size == place.size);
        let mut divided = alike.filter_map(|one| match one.holds {
            Holds::Partitions(form) => Some((one.name.as_str(), form)),
            _ => None,
        });
        divided.next()
    }

    /// The same of a set, whose name and size were told.
    fn content(&self, out: &mut Lines, depth: usize, place: &Place) {
        match &place.holds {
            Holds::Content(content) => out.line(depth, &described(content, place)),
            Holds::Partitions(form) => out.line(depth, &format!("{form} partition table")),
            Holds::Unknown => out.line(depth, "holds data of no form that is known here"),
            Holds::Nothing => out.line(depth, "holds nothing"),
            Holds::Unreadable(why) => {
                out.line(depth, &format!("can't be read: {}", printable::line(why)))
            }
            Holds::PoolDevice(pool) if self.single_pool(&place.name, pool).is_none() => {
                out.line(depth, &format!("device of ZFS pool {}", shown(pool)));
            }
            _ => {}
        }
        self.below(out, depth, place);
    }

    /// What stands below a place: what lies on it alone, its partitions, the next command.
    fn below(&self, out: &mut Lines, depth: usize, place: &Place) {
        match &place.holds {
            Holds::Physical(name) => {
                if let Some(group) = self.group_on(&place.name, name) {
                    self.group(out, depth, group);
                }
            }
            Holds::PoolDevice(name) => {
                let alone =
                    |pool: &&(Rc<FoundPool>, Standing)| pool.0.name == *name && is_alone(pool);
                if let Some((found, standing)) = self.pools.iter().find(alone) {
                    self.pool(out, depth, found, standing);
                }
            }
            Holds::Content(content)
                if content.kind.is_file_system() || content.kind.is_encrypted() =>
            {
                self.next(out, depth, &serve(&place.name));
            }
            Holds::Unknown if !Path::new(&place.name).exists() => {
                self.next(out, depth, &serve(&place.name));
            }
            _ => {}
        }
        for part in &place.parts {
            self.place(out, depth, part);
        }
    }

    fn pool(&self, out: &mut Lines, depth: usize, found: &FoundPool, standing: &Standing) {
        let how = match (found.state, &standing.holder) {
            (_, Some(Holder { process, what })) => {
                format!(", held by process {process} ({})", shown(what))
            }
            (PoolState::Exported, _) => ", exported".to_owned(),
            (PoolState::Destroyed, _) => ", destroyed".to_owned(),
            _ => ", not exported".to_owned(),
        };
        let state = standing.health.health.name();
        out.line(depth, &format!("ZFS pool {}: {state}{how}", shown(&found.name)));
        if leaves(&standing.health) > 1 {
            vdevs(out, depth + 1, standing);
        }
        let lacking = standing.lacking(found);
        for lack in &lacking {
            out.line(depth + 1, &printable::line(lack));
        }
        let same = self.pools.iter().filter(|(other, _)| other.name == found.name).count();
        let name = if same > 1 { found.guid.to_string() } else { quoted(&found.name) };
        match (found.state, standing.health.health) {
            (PoolState::Destroyed, _) => self.next(out, depth + 1, "zpool import -D"),
            _ if standing.is_readable() => {
                self.next(out, depth + 1, &format!("zfs list -r {name}"))
            }
            _ => self.next(out, depth + 1, "zpool import     # says more"),
        }
    }

    fn as_json(&self) -> Value {
        let sets: Vec<Value> = self.survey.sets.iter().map(|set| self.set_json(set)).collect();
        let groups: Vec<Value> =
            self.survey.groups.iter().map(|one| self.group_json(one)).collect();
        let pools = self.pools.iter().map(|(found, standing)| {
            json!({
                "name": found.name, "guid": found.guid.to_string(),
                "state": standing.health.health.name(), "opens": standing.is_open,
                "exported": found.state == PoolState::Exported,
                "destroyed": found.state == PoolState::Destroyed,
                "held_by": standing.holder.as_ref().map(|holder| holder.process),
                "devices": standing.devices.values().collect::<Vec<_>>(),
                "lacking": standing.lacking(found),
                "next": standing.is_readable().then(|| format!("{} zfs list -r {}", self.command, quoted(&found.name))),
            })
        });
        let devices: Vec<Value> =
            self.survey.devices.iter().map(|one| self.place_json(one)).collect();
        json!({ "devices": devices, "sets": sets, "groups": groups, "pools": pools.collect::<Vec<_>>() })
    }

    fn set_json(&self, set: &SetSeen) -> Value {
        let slots = set.slots.iter().enumerate().map(|(number, slot)| {
            json!({ "slot": number, "device": slot.device, "rebuilding": slot.rebuilding })
        });
        let beside =
            set.beside.iter().map(|(device, what)| json!({ "device": device, "what": what }));
        let mut value = json!({
            "name": set.name, "uuid": set.uuid, "level": set.level,
            "slots": slots.collect::<Vec<_>>(), "beside": beside.collect::<Vec<_>>(),
            "whole": set.is_whole(), "clean": !set.unclean, "reshaping": set.reshaping,
        });
        match &set.place {
            Ok(place) => value["volume"] = self.place_json(place),
            Err(why) => value["refused"] = why.as_str().into(),
        }
        value
    }

    fn group_json(&self, group: &GroupSeen) -> Value {
        let physical =
            group.physical.iter().map(|(device, id)| json!({ "device": device, "uuid": id }));
        let logical = group.logical.iter().map(|one| match one {
            Ok(place) => self.place_json(place),
            Err((name, why)) => json!({ "name": name, "refused": why }),
        });
        json!({
            "name": group.name, "uuid": group.uuid, "bytes": group.size.bytes(), "free_bytes": group.free.bytes(),
            "physical": physical.collect::<Vec<_>>(), "logical": logical.collect::<Vec<_>>(),
        })
    }

    fn place_json(&self, place: &Place) -> Value {
        let mut holds = Map::new();
        let mut is = |kind: &str, of: Option<(&str, Value)>| {
            holds.insert("kind".to_owned(), kind.into());
            holds.extend(of.map(|(key, value)| (key.to_owned(), value)));
        };
        let mut next = None;
        match &place.holds {
            Holds::Member(set) => is("md", Some(("set", set.as_str().into()))),
            Holds::PoolDevice(pool) => is("zfs", Some(("pool", pool.as_str().into()))),
            Holds::PoolSpare => is("zfs", None),
            Holds::Physical(group) => is("lvm", Some(("group", group.as_str().into()))),
            Holds::Partitions(form) => is("partitions", Some(("table", (*form).into()))),
            Holds::Content(content) => {
                is(content.kind.name(), Some(("label", json!(content.label))));
                holds.insert("id".to_owned(), json!(content.id));
                holds.insert("bytes".to_owned(), json!(content.size.map(|size| size.bytes())));
                holds.insert("clean".to_owned(), json!(!content.unclean));
                let has_more = content.kind.is_file_system() || content.kind.is_encrypted();
                next = has_more.then(|| format!("{} {}", self.command, serve(&place.name)));
            }
            Holds::Signature(what) => is("other", Some(("what", what.as_str().into()))),
            Holds::Unknown => is("unknown", None),
            Holds::Nothing => is("nothing", None),
            Holds::Unreadable(why) => is("unreadable", Some(("why", why.as_str().into()))),
        }
        let parts: Vec<Value> = place.parts.iter().map(|part| self.place_json(part)).collect();
        let mut value = json!({ "name": place.name, "bytes": place.size.bytes(), "holds": holds, "next": next });
        if !parts.is_empty() {
            value["partitions"] = parts.into();
        }
        value
    }
}

/// How many devices a vdev has.
fn leaves(node: &VdevHealth) -> usize {
    match node.vdev.is_leaf() && node.children.is_empty() {
        true => 1,
        false => node.children.iter().map(leaves).sum(),
    }
}

/// Whether a pool has one device, which is there.
fn is_alone((found, standing): &(Rc<FoundPool>, Standing)) -> bool {
    found.members.len() == 1 && found.tops_expected <= 1 && leaves(&standing.health) == 1
}

/// The one device of a group; nothing where it has several, or its one is missing.
fn single(group: &GroupSeen) -> Option<&str> {
    match &group.physical[..] {
        [(Some(device), _)] => Some(device),
        _ => None,
    }
}

fn serve(name: &str) -> String {
    format!("serve --volume {} --readonly", quoted(name))
}

/// A file system in words: `ext4 "home", 1 GiB of 2 GiB, not unmounted cleanly`.
fn described(content: &volume::content::Content, place: &Place) -> String {
    let mut text = content.kind.name().to_owned();
    if let Some(label) = &content.label {
        let _ = write!(text, " \"{}\"", shown(label));
    }
    match content.size {
        Some(size) if size > place.size => {
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

/// The vdevs of a pool, each with how it is.
fn vdevs(out: &mut Lines, depth: usize, standing: &Standing) {
    for top in &standing.health.children {
        vdev(out, depth, top, standing);
    }
}

fn vdev(out: &mut Lines, depth: usize, node: &VdevHealth, standing: &Standing) {
    if matches!(node.vdev.kind, VdevKind::Hole | VdevKind::Indirect(_) | VdevKind::Missing) {
        return;
    }
    let cause = match node.cause {
        Some(cause @ (Cause::Errors | Cause::External)) => format!(", {}", cause.text()),
        _ if node.vdev.is_leaf() && node.health == Health::Unavailable => ", missing".to_owned(),
        _ => String::new(),
    };
    let name = standing.name_of(node);
    out.line(depth, &format!("{name}  {}{cause}", node.health.name()));
    node.children.iter().for_each(|child| vdev(out, depth + 1, child, standing));
}
