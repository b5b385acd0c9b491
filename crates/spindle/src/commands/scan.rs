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
//! A set that can only be put together by force is looked into with `--force`, and the commands to type next say `--force` too.
//!
//! * [`seen`]: what was found. [`json`]: the same as JSON. [`overwritten`]: what may be part of something, and does not say so any more.
//!
//! Exit status: 1 where something may not be read, so that what is shown is not all; else 0, also where something is shown that can't be
//! opened, or nothing is found: that is the answer.

mod json;
mod overwritten;
mod seen;

pub use self::seen::held;

use self::seen::{PoolSeen, Scan, described, is_rest, leaves, serve, single, unwrap};
use super::zpool::Standing;
use crate::events::{events, refuse_denied};
use crate::output::{Failure, print, print_json, say};
use crate::printable;
use attach::disks::Disks;
use attach::pools::Pools;
use attach::pools::running::protocol::Holder;
use attach::survey::{GroupSeen, Holds, Place, ServedBy, SetSeen};
use attach::typed::{self, quoted};
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use volume::partition::copy_as_long;
use zfs::health::{Cause, Health, VdevHealth};
use zfs::spa::{FoundPool, OpenOptions, PoolState};
use zfs_format::vdev::VdevKind;

// What `scan` takes.
#[derive(Args)]
pub struct ScanArgs {
    /// Files, block devices, or folders of them; beside those of -d
    paths: Vec<PathBuf>,
    /// Look into RAID sets too that can only be put together by force: of members that failed the freshest are taken back, and
    /// what was written last may be lost or torn. Nothing is written
    #[arg(short, long)]
    force: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

impl ScanArgs {
    /// Of a call that names nothing but where to look.
    pub fn of(paths: Vec<PathBuf>, force: bool, json: bool) -> ScanArgs {
        ScanArgs { paths, force, json }
    }
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &ScanArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let mut named: Vec<PathBuf> = Vec::new();
    for path in devices.iter().chain(&args.paths) {
        if !named.contains(path) {
            named.push(path.clone());
        }
    }
    let disks = Disks::open_by_force(&events(), &named, args.force)?;
    let pools = Pools::over(disks, OpenOptions::default());
    pools.tell_of_members();
    let scan = Scan::of(&pools, &named);
    let disks = pools.disks();
    // Why a set can't be opened is told where it is shown.
    disks.complaints.iter().for_each(|text| say(&format!("note: {text}")));
    pools.tell_elsewhere();
    match args.json {
        true => print_json(&format!("{:#}\n", scan.as_json()))?,
        false => print(&scan.as_text(&disks.searched()))?,
    }
    refuse_denied(disks.context())
}

/// Lines with an indentation.
struct Lines {
    text: String,
    /// Whether what is shown can be served: what lies on a set that is served already can't.
    serves: bool,
}

impl Lines {
    fn line(&mut self, depth: usize, text: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "{:1$}{text}", "", 2 * depth);
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
        let mut out = Lines { text: String::new(), serves: true };
        for set in &self.survey.sets {
            self.set(&mut out, set);
            out.line(0, "");
        }
        let apart = self.survey.groups.iter().filter(|group| single(group).is_none());
        for group in apart {
            self.group(&mut out, 0, group);
            out.line(0, "");
        }
        for pool in self.pools.iter().filter(|pool| !pool.is_alone()) {
            self.pool(&mut out, 0, pool);
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
            out.text.truncate(out.text.trim_end().len());
            if !out.text.is_empty() {
                out.text.push('\n');
            }
        }
        if !out.text.is_empty() {
            out.line(0, "");
        }
        out.line(0, &format!("{searched}; nothing was written"));
        out.text
    }

    /// Whether a device is one of several of something, which names it.
    fn is_shown_elsewhere(&self, place: &Place) -> bool {
        match &place.holds {
            Holds::Member(_) => true,
            Holds::PoolDevice(name) => self.single_pool(&place.name, name).is_none(),
            Holds::Physical(name) => self.group_on(&place.name, name).is_none(),
            _ => false,
        }
    }

    /// The pool of this name that lies on this device alone.
    fn single_pool(&self, device: &str, name: &str) -> Option<&PoolSeen> {
        let lies_there = |pool: &PoolSeen| {
            pool.found.members.values().all(|member| *member.device.name() == *device)
        };
        let mut pools = self.pools.iter();
        pools.find(|pool| pool.found.name == name && pool.is_alone() && lies_there(pool))
    }

    /// What commands call a pool: its name where it is the only one of it, else its GUID.
    fn pool_name(&self, found: &FoundPool) -> String {
        let same = self.pools.iter().filter(|other| other.found.name == found.name).count();
        if same > 1 { found.guid.to_string() } else { quoted(&found.name) }
    }

    /// The group of this name that lies on this place alone.
    fn group_on(&self, place: &str, name: &str) -> Option<&GroupSeen> {
        let lies_there = |group: &&GroupSeen| group.name == name && single(group) == Some(place);
        self.survey.groups.iter().find(lies_there)
    }

    fn next(&self, out: &mut Lines, depth: usize, command: &str) {
        out.line(depth, &format!("next: {} {command}", self.command));
    }

    /// Of a file system that lies on so many devices, where it is more than one.
    fn next_of_served(&self, out: &mut Lines, depth: usize, place: &Place, devices: Option<u64>) {
        if !out.serves {
            return;
        }
        let together = self.together(place);
        let note = match devices.filter(|devices| *devices > together.len() as u64) {
            Some(devices) => format!("     # {} of its {devices} devices", together.len()),
            None => String::new(),
        };
        self.next(out, depth, &format!("{}{note}", serve(&together)));
    }

    /// Of a set that is served.
    fn next_of_server(&self, out: &mut Lines, set: &SetSeen) {
        let name = quoted(&set.name);
        self.next(out, 1, &format!("md detail {name}     # asks its server; md stop ends that"));
    }

    fn set(&self, out: &mut Lines, set: &SetSeen) {
        let size = set.place.as_ref().map_or(String::new(), |place| format!(", {}", place.size));
        let (whole, all) = (set.whole(), set.slots.len());
        let mut state = match set.is_whole() {
            _ if set.by_force => format!("put together by force: {whole} of {all} members"),
            true => format!("whole, {}", counted(all, "member")),
            false if set.histories.is_some() => {
                format!("{whole} of {all} members, not all of one history")
            }
            false if set.place.is_ok() => format!("degraded: {whole} of {all} members"),
            false => "can't be opened".to_owned(),
        };
        state += &match set.served {
            Some(ServedBy::Process(process)) => format!(", served by process {process}"),
            Some(ServedBy::Unknown) => ", open for writing by another process".to_owned(),
            None => String::new(),
        };
        if set.unclean {
            state += ", not stopped cleanly";
        }
        if let Some(percent) = set.resyncing {
            state += &format!(", resyncing: {percent} % done");
        }
        if set.reshaping {
            state += ", in the midst of a reshape";
        }
        out.line(0, &format!("RAID set {}: {}{size}, {state}", shown(&set.name), set.level));
        for (number, slot) in set.slots.iter().enumerate() {
            let who = match &slot.device {
                Some(device) => match slot.behind {
                    Some(events) => {
                        let behind =
                            counted(usize::try_from(events).unwrap_or(usize::MAX), "event");
                        format!("{} (taken back, {behind} behind)", shown(device))
                    }
                    None if slot.rebuilding => format!("{} (not rebuilt yet)", shown(device)),
                    None => shown(device),
                },
                None => "missing".to_owned(),
            };
            out.line(1, &format!("slot {number}  {who}"));
        }
        for (device, what) in &set.beside {
            out.line(1, &format!("{}  {what}", shown(device)));
        }
        if let Some(histories) = &set.histories {
            out.line(1, &printable::line(&histories.to_string()));
        }
        if set.whole() < all {
            self.may_be_members(set).iter().for_each(|line| out.line(1, line));
        }
        match &set.place {
            Ok(place) => {
                out.serves = set.served.is_none();
                self.content(out, 1, place);
                out.serves = true;
                if let Some(ServedBy::Process(_)) = set.served {
                    self.next_of_server(out, set);
                }
            }
            Err(why) if matches!(set.served, Some(ServedBy::Process(_))) => {
                out.line(1, &printable::line(why));
                self.next_of_server(out, set);
            }
            Err(why) => {
                out.line(1, &printable::line(why));
                if !set.alone.is_empty() {
                    out.line(1, &format!("next: {} scan", alone(set)));
                    return;
                }
                let command = match set.force_helps {
                    true => "scan --force     # looks into it all the same, and writes nothing",
                    false => "md examine     # what each device says of itself",
                };
                self.next(out, 1, command);
            }
        }
    }

    fn group(&self, out: &mut Lines, depth: usize, group: &GroupSeen) {
        let missing = group.physical.iter().filter(|(device, _)| device.is_none()).count();
        let of_all = || counted(group.physical.len(), "physical volume");
        let mut state: Vec<String> = Vec::new();
        if missing > 0 {
            state.push(format!("{missing} of {} missing", of_all()));
        }
        if !group.short.is_empty() {
            state.push(format!("{} of {} cut short", group.short.len(), of_all()));
        }
        if let Some(seqno) = group.older {
            state.push(format!("as an older text has it, of seqno {seqno}"));
        }
        if !group.outdated.is_empty() {
            state.push(format!("{} of {} may be old", group.outdated.len(), of_all()));
        }
        if !group.alike.is_empty() || !group.contradicting.is_empty() {
            state.push("not to be opened".to_owned());
        }
        let state = if state.is_empty() { "whole".to_owned() } else { state.join(", ") };
        let name = shown(&group.name);
        out.line(
            depth,
            &format!("volume group {name}: {}, {} free, {state}", group.size, group.free),
        );
        if single(group).is_none() {
            for (device, id) in &group.physical {
                let who = match group.alike.iter().find(|(alike, _)| alike == id) {
                    Some((_, devices)) => bearing(devices),
                    None => device.as_deref().map_or(format!("missing (UUID {id})"), shown),
                };
                let is = |other: &String| device.as_ref() == Some(other);
                let old = group.outdated.iter().find(|(device, _)| is(device));
                let why = match old {
                    Some((_, seqno)) => format!(
                        "  its text is older (seqno {seqno}): it was away when the group was changed, or is an old copy"
                    ),
                    None if group.contradicting.iter().any(is) => {
                        "  its text is as new and says something else: it is of another copy of the group".to_owned()
                    }
                    None => String::new(),
                };
                let who = format!("{who}{why}");
                out.line(depth + 1, &format!("on {who}"));
            }
        }
        self.may_be_physical(group).iter().for_each(|line| out.line(depth + 1, line));
        if let Some(command) = one_of_alike(group) {
            out.line(
                depth + 1,
                &format!("next: {command}     # or with another in the place of one"),
            );
        }
        for (device, has, needed) in &group.short {
            out.line(
                depth + 1,
                &format!(
                    "{} has {has} bytes, and the group's extents reach beyond: {} has them all; what was cut off is lost",
                    shown(device),
                    copy_as_long(device, *needed)
                ),
            );
        }
        for volume in &group.logical {
            match volume {
                Ok(place) => self.place(out, depth + 1, place),
                Err((name, why)) => {
                    let text =
                        format!("{}  can't be opened: {}", shown(name), printable::line(why));
                    out.line(depth + 1, &text);
                }
            }
        }
    }

    /// A place with its name, and what it holds.
    fn place(&self, out: &mut Lines, depth: usize, place: &Place) {
        let (name, size) = (shown(&place.name), place.size);
        let what = held(place);
        let lacks = place.lacks.as_ref().map_or(String::new(), |lacks| format!(", {lacks}"));
        out.line(depth, &format!("{name}  {size}  {what}{}", printable::line(&lacks)));
        self.divided_like(place).iter().for_each(|line| out.line(depth + 1, line));
        self.below(out, depth + 1, place);
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
                let mut alone =
                    self.pools.iter().filter(|pool| pool.found.name == *name && pool.is_alone());
                let only = match (alone.next(), alone.next()) {
                    (only, None) => only,
                    _ => self.single_pool(&place.name, name),
                };
                if let Some(pool) = only {
                    self.pool(out, depth, pool);
                }
            }
            Holds::Content(content)
                if content.kind.is_file_system() || content.kind.is_encrypted() =>
            {
                self.next_of_served(out, depth, place, content.devices);
            }
            Holds::Unknown if !Path::new(&place.name).exists() => {
                self.next_of_served(out, depth, place, None);
            }
            _ if is_rest(place) => self.next_of_served(out, depth, place, None),
            Holds::Signature(_, Some(by)) => {
                let command = unwrap(&place.name, *by);
                out.line(depth, &format!("next: {command}     # then scan what it makes"));
            }
            _ => {}
        }
        for part in &place.parts {
            self.place(out, depth, part);
        }
    }

    /// Pools are opened on what was put together by force once that is served.
    fn next_of_forced(&self, out: &mut Lines, depth: usize, sets: &[String], pool: &str) {
        for set in sets {
            let set = quoted(set);
            self.next(out, depth, &format!("serve --volume {set} --readonly --force"));
            out.line(depth, &format!("then: spindle -d nbd://127.0.0.1/{set} zfs list -r {pool}"));
        }
    }

    fn pool(&self, out: &mut Lines, depth: usize, pool: &PoolSeen) {
        let PoolSeen { found, standing, forced } = pool;
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
        for lack in lacking.iter().chain(&standing.lost()) {
            out.line(depth + 1, &printable::line(lack));
        }
        let name = self.pool_name(found);
        match (found.state, standing.health.health) {
            (PoolState::Destroyed, _) => self.next(out, depth + 1, "zpool import -D"),
            _ if !forced.is_empty() => self.next_of_forced(out, depth + 1, forced, &name),
            _ if standing.is_readable => self.next(out, depth + 1, &format!("zfs list -r {name}")),
            _ => self.next(out, depth + 1, "zpool import     # says more"),
        }
    }
}

/// Devices that bear one physical volume.
fn bearing(devices: &[String]) -> String {
    let all = if devices.len() == 2 { "both" } else { "all" };
    let names: Vec<String> = devices.iter().map(|device| shown(device)).collect();
    format!(
        "{}: {all} bear this physical volume, and nothing tells which counts",
        names.join(" or ")
    )
}

/// The command that looks at a group with one of the devices alone that bear one physical volume of it.
fn one_of_alike(group: &GroupSeen) -> Option<String> {
    let is_several = !group.first_of_alike.is_empty();
    is_several.then(|| format!("{} scan", typed::spindle(&group.first_of_alike)))
}

/// How `spindle` is called for the devices of a set that are enough by themselves.
fn alone(set: &SetSeen) -> String {
    typed::spindle(&set.alone.iter().map(PathBuf::from).collect::<Vec<_>>())
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
        Some(cause @ (Cause::Errors | Cause::External | Cause::Short(_))) => {
            format!(", {}", cause.text())
        }
        _ if node.vdev.is_leaf() && node.health == Health::Unavailable => ", missing".to_owned(),
        _ => standing.stale.note(node).map_or(String::new(), |note| format!(", {note}")),
    };
    let name = standing.name_of(node);
    out.line(depth, &format!("{name}  {}{cause}", node.health.name()));
    node.children.iter().for_each(|child| vdev(out, depth + 1, child, standing));
}
