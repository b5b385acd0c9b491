//! `spindle md detail`: what a set comes to, as `mdadm --detail` prints it.
//!
//! mdadm asks a running array; this is told from the superblocks, so a resync, rebuild or reshape that was
//! interrupted is shown as one that is under way. Devices that are left out do not count; standard error
//! names them. Of a set that is served its server tells who its members are, which failed, and how far it is. Source of the form: mdadm 4.2, `Detail.c`.

use super::words::{self, by_force};
use crate::commands::clock::ctime;
use crate::events::context;
use crate::output::{Failure, print, say};
use ::md::assemble::{Choice, Found, OpenArray, OpenOptions, Superblock};
use ::md::superblock::{ALL_SECTORS, Features};
use attach::sets::missing::{take_back, tell_left_out};
use attach::sets::running::client;
use attach::sets::running::protocol::{Doing, Picture, Pictured, State};
use attach::sets::{name as names, place, sources};
use clap::Args;
use host::Identity;
use rt::Device;
use serde_json::{Value, json};
use std::fmt::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

// What `detail` takes.
#[derive(Args)]
pub struct DetailArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// Count a dirty and degraded set as one that can be opened, and members that failed where too few are there
    #[arg(short, long)]
    force: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: DetailArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let mut choice = sources::choice(&runtime, paths, &args.array)?;
    let picture = client::picture(&runtime, &choice)?;
    let writer = match &picture {
        Some(_) => None,
        None => sources::written_elsewhere(&runtime, &choice),
    };
    if let Some(name) = &writer {
        let text = "another process has the set open for writing (a server?)";
        say(&format!("spindle: {name}: {text}: this is what its superblocks say now"));
    }
    // Of one that is served its server knows who takes part.
    if picture.is_none() {
        if args.force {
            take_back(runtime.events(), &mut choice);
        }
        tell_left_out(runtime.events(), &choice);
    }
    // One that runs, or that somebody writes to, was started, whatever it lacks.
    let force = args.force || writer.is_some() || picture.is_some();
    let (rt, options) = (runtime.rt(), OpenOptions { force, raid0_original: None });
    let opened = choice.clone();
    // A set that can't be opened has no size, and is shown without one.
    let opened =
        runtime.finish(async move { OpenArray::open(&rt, "array", opened, options).await });
    let size = match opened {
        Ok(array) => Some(array.geometry().capacity.bytes()),
        // That its superblocks would not open it, of one that failed, is no news to who serves it.
        Err(_) if picture.is_some() => None,
        Err(error) => {
            let failure =
                Failure::from(error).or_by_force(|| by_force(paths, "detail", &args.array, ""));
            say(&format!("spindle: it can't be opened: {}", failure.message));
            None
        }
    };
    let detail = Detail::of(&choice, size, picture);
    if args.json {
        return crate::output::print_json(&format!("{:#}\n", detail.json()));
    }
    print(&detail.text())
}

/// A set as it is told.
struct Detail<'a> {
    choice: &'a Choice,
    size: Option<u64>,
    /// Slots with a whole member.
    active: usize,
    /// Members that are being rebuilt, replacements and spares.
    spares: usize,
    /// Devices that failed and were not removed, of a set that is served.
    failed: usize,
    /// What its server says of a set that is served.
    picture: Option<Picture>,
}

/// A line of the table of members.
struct Row {
    number: Option<u32>,
    device: Option<String>,
    slot: Option<usize>,
    state: String,
    /// Whether an empty line comes before it: mdadm sets off what holds no slot.
    apart: bool,
}

impl<'a> Detail<'a> {
    fn of(choice: &'a Choice, size: Option<u64>, picture: Option<Picture>) -> Detail<'a> {
        if let Some(picture) = picture {
            let count = |is: &dyn Fn(State) -> bool| {
                picture.devices.iter().filter(|one| !one.journal && is(one.state)).count()
            };
            let active = count(&|state| state == State::Active);
            let filling = [State::Rebuilding, State::Replacement, State::Spare];
            let spares = count(&|state| filling.contains(&state));
            let failed = picture.devices.iter().filter(|one| one.state == State::Failed).count();
            return Detail { choice, size, active, spares, failed, picture: Some(picture) };
        }
        let whole = |found: &&Found| found.superblock.recovery_offset().is_none();
        let there = choice.slots.iter().flatten();
        let active = there.clone().filter(whole).count();
        let rebuilding = there.count() - active;
        let spares = rebuilding + choice.replacements.len() + choice.spares.len();
        Detail { choice, size, active, spares, failed: 0, picture: None }
    }

    fn facts(&self) -> &Superblock {
        &self.choice.facts
    }

    /// `clean, degraded, recovering`.
    fn state(&self) -> String {
        let facts = self.facts();
        let resync = facts.resync_offset();
        let mut state = if resync == 0 { "active" } else { "clean" }.to_owned();
        let lost = self.picture.as_ref().is_some_and(|picture| picture.failed);
        // One that is dirty and degraded is not opened either.
        let lacks = self.size.is_none() && self.choice.check_enough().is_err();
        if lacks || lost {
            state += ", FAILED";
        } else if self.active < self.choice.slots.len() {
            state += ", degraded";
        }
        if let Some(picture) = &self.picture {
            state += match picture.under_way {
                Some((Doing::Rebuild, _)) => ", recovering",
                Some((Doing::Resync | Doing::Repair, _)) => ", resyncing",
                Some((Doing::Check, _)) => ", checking",
                None => "",
            };
            return state;
        }
        state += match () {
            () if facts.reshape().is_some() => ", reshaping",
            () if self.rebuilding().is_some() => ", recovering",
            () if resync != ALL_SECTORS => ", resyncing",
            () => "",
        };
        if self.size.is_none() {
            state += ", Not Started";
        }
        state
    }

    /// The member that is being rebuilt and is least far.
    fn rebuilding(&self) -> Option<u64> {
        let there = self
            .choice
            .slots
            .iter()
            .flatten()
            .chain(self.choice.replacements.iter().map(|(_, found)| found));
        there.filter_map(|found| found.superblock.recovery_offset()).min()
    }

    /// What is under way, and per cent of it.
    fn progress(&self) -> Option<(&'static str, u64)> {
        if let Some(picture) = &self.picture {
            let word = |(doing, percent)| match doing {
                Doing::Rebuild => ("Rebuild", percent),
                Doing::Resync | Doing::Repair => ("Resync", percent),
                Doing::Check => ("Check", percent),
            };
            return picture.under_way.map(word);
        }
        let facts = self.facts();
        let part = |done: u64, of: u64| (u128::from(done) * 100 / u128::from(of.max(1))) as u64;
        if let Some(reshape) = facts.reshape() {
            let level = facts.level();
            let size = words::array_kib(level, facts.layout(), facts.slots() as u64, facts.size());
            let size = size.unwrap_or(0) * 2;
            let done = if reshape.backwards {
                size.saturating_sub(reshape.position)
            } else {
                reshape.position
            };
            return Some(("Reshape", part(done, size)));
        }
        if let Some(done) = self.rebuilding() {
            return Some(("Rebuild", part(done, facts.size())));
        }
        let resync = facts.resync_offset();
        (resync != ALL_SECTORS && facts.level() > 0)
            .then(|| ("Resync", part(resync, facts.size()).min(100)))
    }

    /// The devices of a set that is served, as its server has them.
    fn rows_of(&self, picture: &Picture) -> Vec<Row> {
        let devices = &picture.devices;
        let row = |one: &Pictured, slot, state: &str| Row {
            number: Some(one.number),
            device: Some(self.name_of(one)),
            slot,
            state: state.to_owned(),
            apart: false,
        };
        let mut rows = Vec::new();
        for slot in 0..self.choice.slots.len() {
            let mut here = devices.iter().filter(|one| one.slot == Some(slot) && !one.journal);
            let own = here.clone().find(|one| one.state != State::Replacement);
            rows.push(match own {
                None => Row::removed(slot),
                Some(own) if own.state == State::Rebuilding => {
                    row(own, Some(slot), "spare rebuilding")
                }
                Some(own) => {
                    let set = copies_set(self.facts(), slot);
                    row(own, Some(slot), &format!("active sync{set}"))
                }
            });
            let replacement = here.find(|one| one.state == State::Replacement);
            rows.extend(replacement.map(|one| row(one, Some(slot), "spare rebuilding")));
        }
        let spares = devices.iter().filter(|one| one.state == State::Spare);
        rows.extend(spares.map(|one| row(one, None, "spare")));
        let failed = devices.iter().filter(|one| one.state == State::Failed);
        let failed =
            failed.enumerate().map(|(n, one)| Row { apart: n == 0, ..row(one, None, "faulty") });
        rows.extend(failed);
        let journal = devices.iter().filter(|one| one.journal && one.state != State::Failed);
        rows.extend(journal.map(|one| Row { apart: true, ..row(one, None, "journal") }));
        rows
    }

    /// The name by which a device was found here, or else the server's.
    fn name_of(&self, device: &Pictured) -> String {
        let there = self.choice.slots.iter().flatten().chain(&self.choice.spares);
        let there = there.chain(&self.choice.journal);
        let there = there.chain(self.choice.replacements.iter().map(|(_, found)| found));
        let there = there.chain(self.choice.left_out.iter().map(|left| &left.found));
        let mut names = there.map(Found::name);
        let same = |name: &String| {
            let name = Path::new(name);
            match device.identity {
                Some(identity) => Identity::of(name).is_ok_and(|own| own.numbers() == identity),
                // Where it is a part of a file.
                None => place::same(name, &device.path),
            }
        };
        names.find(same).unwrap_or_else(|| device.path.display().to_string())
    }

    fn rows(&self) -> Vec<Row> {
        if let Some(picture) = &self.picture {
            return self.rows_of(picture);
        }
        let facts = self.facts();
        let mut rows = Vec::new();
        let row = |found: &Found, slot, state: String| Row {
            number: Some(found.superblock.device_number()),
            device: Some(found.name()),
            slot,
            state,
            apart: false,
        };
        for (slot, found) in self.choice.slots.iter().enumerate() {
            rows.push(match found {
                None => Row::removed(slot),
                Some(found) if found.superblock.recovery_offset().is_some() => {
                    row(found, Some(slot), "spare rebuilding".to_owned())
                }
                Some(found) => {
                    row(found, Some(slot), format!("active sync{}", copies_set(facts, slot)))
                }
            });
            let replacing = self.choice.replacements.iter().filter(|(at, _)| *at == slot);
            rows.extend(
                replacing.map(|(at, found)| row(found, Some(*at), "spare rebuilding".to_owned())),
            );
        }
        let spare = |found| row(found, None, "spare".to_owned());
        rows.extend(self.choice.spares.iter().map(spare));
        let journal = |found| Row { apart: true, ..row(found, None, "journal".to_owned()) };
        rows.extend(self.choice.journal.iter().map(journal));
        rows
    }

    fn text(&self) -> String {
        let facts = self.facts();
        let mut out = String::new();
        let name = names::device_name(facts).unwrap_or_else(|| facts.set_uuid().to_string());
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}:", crate::printable::word(&name));
        let mut line = |label: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(out, "{label:>18} : {value}");
        };
        line("Version", &facts.version());
        line("Creation Time", &ctime(facts.created_s()));
        line("Raid Level", &words::level(facts.level()));
        let kib = |bytes: u64| format!("{}{}", bytes >> 10, words::human_size(bytes));
        if let Some(size) = self.size {
            line("Array Size", &kib(size));
        }
        if facts.level() >= 1 {
            line("Used Dev Size", &kib(facts.size() << 9));
        }
        line("Raid Devices", &self.choice.slots.len());
        let working = self.active + self.spares + usize::from(self.choice.journal.is_some());
        line("Total Devices", &working);
        if let Superblock::V090(sb) = facts {
            line("Preferred Minor", &sb.preferred_minor);
        }
        line("Persistence", &"Superblock is persistent\n");
        if facts.features().has(Features::BITMAP) {
            line("Intent Bitmap", &"Internal\n");
        }
        line("Update Time", &ctime(facts.updated_s()));
        line("State", &format!("{} ", self.state()));
        line("Active Devices", &self.active);
        line("Working Devices", &working);
        line("Failed Devices", &self.failed);
        line("Spare Devices", &format!("{}\n", self.spares));
        // A RAID 0 that does not say its rule: the kernel's number for that has no name.
        let unsaid = || (facts.level() == 0).then(|| "-unknown-".to_owned());
        if let Some(layout) = words::layout(facts.level(), facts.layout()).or_else(unsaid) {
            line("Layout", &layout);
        }
        match facts.level() {
            0 | 4 | 5 | 6 | 10 => line("Chunk Size", &format!("{}K\n", facts.chunk() / 2)),
            -1 => line("Rounding", &format!("{}K\n", facts.chunk() / 2)),
            _ => {}
        }
        line("Consistency Policy", &format!("{}\n", words::policy(facts)));
        let reshape = facts.reshape();
        if let Some((what, percent)) = self.progress() {
            let end = if reshape.is_some() { "" } else { "\n" };
            line(&format!("{what} Status"), &format!("{percent}% complete{end}"));
        }
        if let Some(reshape) = reshape {
            let (before, after) = (reshape.slots_before as i64, facts.slots() as i64);
            if before != after {
                line("Delta Devices", &format!("{}, ({before}->{after})", after - before));
            }
            let new = words::layout(reshape.level, Some(reshape.layout));
            if let Some(new) = new.filter(|_| Some(reshape.layout) != facts.layout()) {
                line("New Layout", &new);
            }
            if reshape.chunk != facts.chunk() {
                line("New Chunksize", &format!("{}K", reshape.chunk / 2));
            }
            out.push('\n');
        }
        let mut line = |label: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(out, "{label:>18} : {value}");
        };
        match facts {
            Superblock::V1(sb) => {
                line("Name", &words::name_with_host(&sb.name()));
                line("UUID", &sb.set_uuid);
                line("Events", &format!("{}\n", sb.events));
            }
            Superblock::V090(sb) => {
                line("UUID", &sb.set_uuid);
                line("Events", &format!("{}.{}\n", sb.events >> 32, sb.events as u32));
            }
        }
        out += "    Number   Major   Minor   RaidDevice State\n";
        for row in self.rows() {
            out += &row.text();
        }
        out
    }

    fn json(&self) -> Value {
        let facts = self.facts();
        let rows: Vec<Value> = self
            .rows()
            .iter()
            .map(|row| {
                json!({
                    "number": row.number, "raid_device": row.slot, "state": row.state,
                    "device": row.device,
                })
            })
            .collect();
        let progress = self.progress();
        json!({
            "device": names::device_name(facts),
            "version": facts.version().to_string(),
            "name": facts.name(),
            "uuid": facts.set_uuid().to_string(),
            "level": words::level(facts.level()),
            "layout": words::layout(facts.level(), facts.layout()),
            "chunk_sectors": facts.chunk(),
            "array_size_bytes": self.size,
            "used_dev_size_sectors": facts.size(),
            "raid_devices": self.choice.slots.len(),
            "active_devices": self.active,
            "spare_devices": self.spares,
            "failed_devices": self.failed,
            "served": self.picture.is_some(),
            "state": self.state(),
            "consistency_policy": words::policy(facts),
            "journal": self.choice.journal.as_ref().map(Found::name),
            "events": facts.events(),
            "creation_time_s": facts.created_s(),
            "update_time_s": facts.updated_s(),
            "under_way": progress.map(|(what, _)| what),
            "percent": progress.map(|(_, percent)| percent),
            "devices": rows,
            "left_out": self.choice.left_out.iter().map(|left| left.found.name()).collect::<Vec<_>>(),
        })
    }
}

/// ` set-A`: the set of copies, where RAID 10 with near copies falls into such.
fn copies_set(facts: &Superblock, slot: usize) -> String {
    let number = facts.layout().unwrap_or(0);
    let (near, far) = ((number & 255) as usize, number >> 8);
    let divides = near > 0 && facts.slots().is_multiple_of(near) && near <= 26;
    if facts.level() != 10 || far != 1 || !divides {
        return String::new();
    }
    format!(" set-{}", char::from(b'A' + (slot % near) as u8))
}

impl Row {
    /// Nobody holds the slot.
    fn removed(slot: usize) -> Row {
        Row { number: None, device: None, slot: Some(slot), state: "removed".into(), apart: false }
    }

    fn text(&self) -> String {
        let name = self.device.clone().unwrap_or_default();
        let node = std::fs::metadata(&name).ok().filter(|node| node.file_type().is_block_device());
        // Linux's numbers: 12 bits of the major at bit 8, the minor around it.
        let (major, minor) = node.map_or((0, 0), |node| {
            let number = node.rdev();
            (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00)
        });
        let number = self.number.map_or("-".to_owned(), |number| number.to_string());
        let slot = self.slot.map_or("-".to_owned(), |slot| slot.to_string());
        let text =
            format!("   {number:>5}   {major:5}    {minor:5}    {slot:>5}      {}", self.state);
        let gap = if name.is_empty() { "" } else { "   " };
        let name = crate::printable::word(&name);
        let before = if self.apart { "\n" } else { "" };
        format!("{before}{text}{gap}{name}\n")
    }
}
