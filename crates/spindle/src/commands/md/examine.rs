//! `spindle md examine`: what md wrote on each device, line for line as `mdadm --examine` prints it.
//!
//! Members on partitions of disks are among them, called `DISK:N`; one alone is named so.
//!
//! Devices that went on without each other are told on standard error. With `--bitmap` or `--badblocks` what lies beside it ([`logs`]). With `--brief` or `--scan` one ARRAY line a set. Moments are in universal time. Source of the form:
//! mdadm 4.2, `super1.c` and `super0.c` (`examine_super1`, `examine_super0`).

use super::{logs, words};
use crate::commands::clock::ctime;
use crate::commands::elsewhere::say_others_than_sets;
use crate::events::{context, refuse_denied};
use crate::output::{Failure, print, say};
use ::md::assemble::{self, AssembleError, Choice, Damaged, Found, Superblock};
use ::md::superblock::bad_blocks::BadBlock;
use ::md::superblock::bitmap::{BitmapSuperblock, Bits};
use ::md::superblock::place::Version;
use ::md::superblock::v1::SuperblockV1;
use ::md::superblock::v090::{Descriptor, SuperblockV090};
use ::md::superblock::{Features, Role};
use attach::paths::expand;
use attach::sets::place::whole_of;
use attach::sets::{missing, name as names, sources};
use attach::{Context, Event, typed};
use clap::Args;
use rt::DeviceRef;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

// What `examine` takes.
#[derive(Args)]
pub struct ExamineArgs {
    /// Devices, or folders of them; by default those of -d
    devices: Vec<PathBuf>,
    /// The write-intent bitmap, as mdadm --examine-bitmap prints it
    #[arg(short = 'X', long, conflicts_with_all = ["brief", "scan", "json", "badblocks"])]
    bitmap: bool,
    /// The bad-block log, as mdadm --examine-badblocks prints it
    #[arg(long, conflicts_with_all = ["brief", "scan", "json"])]
    badblocks: bool,
    /// One ARRAY line a set
    #[arg(short, long)]
    brief: bool,
    /// The same, over all devices of -d
    #[arg(short, long)]
    scan: bool,
    /// Name level, number of members and devices in ARRAY lines
    #[arg(short, long)]
    verbose: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: ExamineArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let named = !args.devices.is_empty();
    let paths = if named { &args.devices } else { paths };
    if args.brief || args.scan {
        let found = sources::scan(&runtime, paths)?;
        if found.is_empty() {
            say_others_than_sets(paths);
        }
        brief(&found, args.verbose, args.json)?;
        return refuse_denied(&runtime);
    }
    let Members { members, damaged } = members(&runtime, paths, named)?;
    let mut text = String::new();
    let mut values = Vec::new();
    for Member { found, bitmap, log, .. } in &members {
        if args.bitmap {
            text += &logs::bitmap(found, bitmap.as_ref())?;
            continue;
        }
        if args.badblocks {
            let log = log.as_ref().map_err(Failure::failed)?;
            text += &logs::bad_blocks(found, log);
            continue;
        }
        let bitmap = bitmap.as_ref().map(|(superblock, _)| superblock);
        if args.json {
            values.push(as_json(found, bitmap));
        } else {
            let _ = writeln!(text, "{}:", found.name());
            text += &examined(found, bitmap, None);
        }
    }
    if !args.bitmap && !args.badblocks && !args.json {
        for Damaged { found, sum, computed } in &damaged {
            let _ = writeln!(text, "{}:", found.name());
            text += &examined(found, None, Some((*sum, *computed)));
        }
    }
    if members.is_empty() && damaged.is_empty() {
        say_others_than_sets(paths);
    }
    // An image of a partition beside that of its disk is one device.
    let (on_parts, others): (Vec<Member>, Vec<Member>) =
        members.into_iter().partition(|one| one.is_on_part);
    let found = |members: Vec<Member>| members.into_iter().map(|one| one.found).collect();
    let mut seen: Vec<Found> = found(others);
    sources::add_on_partitions(&mut seen, found(on_parts));
    tell_apart(&runtime, seen);
    match args.json {
        true => crate::output::print_json(&format!("{:#}\n", Value::from(values)))?,
        false => print(&text)?,
    }
    if let Some(denied) = runtime.denied() {
        return Err(Failure::failed(denied));
    }
    if damaged.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = damaged.iter().map(|one| named_damaged(&one.found)).collect();
    let text = format!(
        "{}: the superblock's checksum is wrong: what it says, above, may be what is damaged, and no set is opened by it; where the other members \
         agree with it, superblocks written anew (md create) bring the set back: docs/guide/nas-died.md",
        names.join(", ")
    );
    // In a folder of disks the others are what was asked for.
    match named {
        true => Err(Failure::failed(text)),
        false => {
            say(&format!("spindle: {text}"));
            Ok(())
        }
    }
}

/// A device whose superblock has a wrong checksum, with the level that stands there where there is no such.
fn named_damaged(found: &Found) -> String {
    let level = found.superblock.level();
    match words::level(level).as_str() {
        "-unknown-" => {
            format!("{} (a superblock of md with an impossible level ({level}))", found.name())
        }
        _ => found.name(),
    }
}

/// What is found on devices.
struct Members {
    members: Vec<Member>,
    /// Superblocks of which nothing but the checksum is wrong.
    damaged: Vec<Damaged>,
}

/// What md wrote on a device.
struct Member {
    found: Found,
    bitmap: Option<(BitmapSuperblock, Bits)>,
    log: Result<Vec<BadBlock>, AssembleError>,
    /// It was found in the table of its disk.
    is_on_part: bool,
}

/// Looks at a device; nothing where md wrote nothing there.
fn look(runtime: &Context, device: &DeviceRef) -> Result<Option<Member>, attach::Error> {
    let device = Rc::clone(device);
    runtime.finish::<_, AssembleError>(async move {
        let Some(found) = assemble::find(&device).await? else { return Ok(None) };
        // A bitmap that can't be read is no reason not to show the superblock.
        let bitmap = assemble::bitmap(&found).await.ok().flatten();
        let log = assemble::bad_blocks(&found).await;
        Ok(Some(Member { found, bitmap, log, is_on_part: false }))
    })
}

/// The members on these devices and on their partitions. Where the devices are `named` by themselves each has to be one, or to have
/// one.
fn members(runtime: &Context, paths: &[PathBuf], named: bool) -> Result<Members, Failure> {
    let mut devices = Vec::new();
    for path in expand(paths)? {
        match sources::open_named(runtime, &path) {
            Ok(device) => devices.push((path, device)),
            // Whatever else lies in a folder of disks; a path that was named is another matter.
            Err(error) if !paths.contains(&path) => {
                if matches!(&error, attach::Error::Named(error) if error.is_denied()) {
                    runtime.passed_denied(&path);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let all: Vec<DeviceRef> = devices.iter().map(|(_, device)| Rc::clone(device)).collect();
    let (mut members, mut damaged) = (Vec::new(), Vec::new());
    for (path, device) in &devices {
        let is_named = paths.contains(path);
        match look(runtime, device) {
            Ok(Some(member)) => members.push(member),
            Ok(None) => {
                let before = members.len() + damaged.len();
                if whole_of(path).is_none() {
                    let on_parts = members_on_parts(runtime, device, &all);
                    members.extend(on_parts.members);
                    damaged.extend(on_parts.damaged);
                }
                // In a folder, other files may lie about.
                if named && is_named && members.len() + damaged.len() == before {
                    let impossible = impossible(runtime, device, path);
                    return Err(impossible.unwrap_or_else(|| no_superblock(path)));
                }
            }
            Err(error) => match look_damaged(runtime, device) {
                Some(found) => damaged.push(found),
                None if !is_named => runtime.tell(Event::PassedOver { error }),
                None => {
                    let impossible = impossible(runtime, device, path);
                    return Err(impossible.unwrap_or_else(|| error.into()));
                }
            },
        }
    }
    Ok(Members { members, damaged })
}

/// What is said of a superblock with a field that no set can have, where there is one.
fn impossible(runtime: &Context, device: &DeviceRef, path: &Path) -> Option<Failure> {
    let device = Rc::clone(device);
    let look =
        runtime.finish::<_, AssembleError>(async move { assemble::find_impossible(&device).await });
    let error = look.ok().flatten()?;
    let format = error.structure.trim_start_matches("md superblock ");
    Some(Failure::failed(format!(
        "{}: a superblock of md {format} with an impossible {} ({})",
        path.display(),
        error.field,
        error.problem
    )))
}

/// A superblock with a wrong checksum, where there is one that can be read.
fn look_damaged(runtime: &Context, device: &DeviceRef) -> Option<Damaged> {
    let device = Rc::clone(device);
    runtime
        .finish::<_, AssembleError>(async move { assemble::find_damaged(&device).await })
        .ok()
        .flatten()
}

/// The members on the partitions of a device. What is wrong there is told.
fn members_on_parts(runtime: &Context, device: &DeviceRef, all: &[DeviceRef]) -> Members {
    let table = match sources::table_of(runtime, device, all) {
        Ok(table) => table,
        Err(error) => {
            runtime.tell(Event::Complaint(error.to_string()));
            None
        }
    };
    let (mut members, mut damaged) = (Vec::new(), Vec::new());
    let Some(table) = table else { return Members { members, damaged } };
    if let Some(remark) = table.remark {
        runtime.tell(Event::Complaint(remark));
    }
    for part in &table.partitions {
        match look(runtime, &part.device) {
            Ok(member) => {
                members.extend(member.map(|member| Member { is_on_part: true, ..member }));
            }
            Err(error) => match look_damaged(runtime, &part.device) {
                Some(found) => damaged.push(found),
                None => runtime.tell(Event::PassedOver { error }),
            },
        }
    }
    Members { members, damaged }
}

fn no_superblock(path: &Path) -> Failure {
    Failure::failed(match host::probe::content(path) {
        Ok(Some(content)) if !content.what.starts_with("data ") => {
            let path = path.to_path_buf();
            let (what, spindle) = (content.what, typed::spindle(std::slice::from_ref(&path)));
            format!(
                "{}: no md superblock; it holds {what}: {spindle} scan says more",
                path.display()
            )
        }
        _ => format!("{}: no md superblock; is it a member?", path.display()),
    })
}

/// Says which of the devices went on without each other.
fn tell_apart(runtime: &Context, found: Vec<Found>) {
    for (set, devices) in assemble::sets(found) {
        match Choice::of(set, devices) {
            Ok(choice) => missing::tell_apart(runtime.events(), &choice),
            Err(error @ AssembleError::Apart { .. }) => say(&format!("spindle: {error}")),
            Err(_) => {}
        }
    }
}

/// One ARRAY line a set.
fn brief(found: &[Found], verbose: bool, json: bool) -> Result<(), Failure> {
    let (mut text, mut values) = (String::new(), Vec::new());
    for (uuid, devices) in assemble::sets(found.to_vec()) {
        let Some(first) = devices.first() else { continue };
        let superblock = &first.superblock;
        let name = names::device_name(superblock);
        let level = words::level(superblock.level());
        // mdadm counts a journal as a spare here.
        let spare = |found: &&Found| {
            matches!(found.superblock.role(), Some(Role::Spare | Role::Journal) | None)
        };
        let spares = devices.iter().filter(spare).count();
        let paths: Vec<String> = devices.iter().map(Found::name).collect();
        values.push(json!({
            "device": name, "level": level, "metadata": superblock.version().to_string(),
            "raid_devices": superblock.slots(), "uuid": uuid.to_string(), "name": superblock.name(),
            "spares": spares, "devices": paths,
        }));
        text += "ARRAY ";
        let is_v1 = superblock.version() != Version::V090;
        if let Some(device) = words::conf_device(superblock) {
            let _ = write!(text, "{device} ");
        }
        match (verbose, is_v1) {
            (true, true) => {
                let (version, slots) = (superblock.version(), superblock.slots());
                let _ = write!(text, " level={level} metadata={version} num-devices={slots} ");
            }
            (true, false) => {
                let _ = write!(text, "level={level} num-devices={} ", superblock.slots());
            }
            (false, true) => {
                let _ = write!(text, " metadata={} ", superblock.version());
            }
            (false, false) => {}
        }
        let _ = write!(text, "UUID={uuid}");
        if let Some(name) = words::conf_name(&superblock.name()) {
            let _ = write!(text, " name={name}");
        }
        text.push('\n');
        if spares > 0 {
            let _ = write!(text, "   spares={spares}");
        }
        if verbose {
            let _ = write!(text, "   devices={}", paths.join(","));
        }
        if spares > 0 || verbose {
            text.push('\n');
        }
    }
    if json {
        crate::output::print_json(&format!("{:#}\n", Value::from(values)))
    } else {
        print(&text)
    }
}

/// The lines of one device, without its name.
/// What `--examine` shows; of a superblock whose checksum is wrong with that, and the one that would be right.
fn examined(
    found: &Found,
    bitmap: Option<&BitmapSuperblock>,
    wrong_sum: Option<(u32, u32)>,
) -> String {
    match &found.superblock {
        Superblock::V1(sb) => {
            let capacity = found.device.geometry().capacity.bytes() / 512;
            examined_v1(sb, capacity, bitmap, wrong_sum)
        }
        Superblock::V090(sb) => examined_v090(sb, wrong_sum),
    }
}

/// Collects `    Label : value` lines.
struct Lines(String);

impl Lines {
    fn line(&mut self, label: &str, value: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{label:>15} : {value}");
    }

    fn blank(&mut self) {
        self.0.push('\n');
    }
}

/// The line about the checksum.
fn sum_text(sum: u32, wrong: Option<(u32, u32)>) -> String {
    match wrong {
        Some((found, computed)) => format!("{found:x} - expected {computed:x}"),
        None => format!("{sum:x} - correct"),
    }
}

fn examined_v1(
    sb: &SuperblockV1,
    capacity: u64,
    bitmap: Option<&BitmapSuperblock>,
    wrong_sum: Option<(u32, u32)>,
) -> String {
    let mut out = Lines(String::new());
    let superblock = Superblock::V1(Box::new(sb.clone()));
    out.line("Magic", "a92b4efc");
    out.line("Version", sb.version());
    out.line("Feature Map", format!("{:#x}", sb.features.bits()));
    out.line("Array UUID", sb.set_uuid);
    out.line("Name", words::name_with_host(&sb.name()));
    out.line("Creation Time", ctime(sb.created.seconds()));
    out.line("Raid Level", words::level(sb.level));
    out.line("Raid Devices", sb.slots);
    out.blank();
    let sectors = |count: u64| format!("{count} sectors{}", words::human_size(count << 9));
    out.line("Avail Dev Size", sectors(sb.data_size));
    let kib = words::array_kib(sb.level, superblock.layout(), u64::from(sb.slots), sb.size);
    if let Some(kib) = kib {
        out.line("Array Size", format!("{kib} KiB{}", words::human_size(kib << 10)));
    }
    // What mdadm takes for a positive level: linear's number has no sign there.
    if sb.level != 0 && sb.size != sb.data_size {
        out.line("Used Dev Size", sectors(sb.size));
    }
    if sb.data_offset != 0 {
        out.line("Data Offset", format!("{} sectors", sb.data_offset));
    }
    if let Some(offset) = sb.new_data_offset()
        && sb.reshape.new_offset != 0
    {
        out.line("New Offset", format!("{offset} sectors"));
    }
    out.line("Super Offset", format!("{} sectors", sb.super_offset));
    if sb.features.has(Features::RECOVERY_OFFSET) {
        out.line("Recovery Offset", format!("{} sectors", sb.recovery_offset));
    }
    let (before, after) = unused(sb, capacity, bitmap);
    let truncated = after < 0;
    if after != 1 && !sb.features.has(Features::NEW_OFFSET) {
        let remark = if truncated { " DEVICE TOO SMALL" } else { "" };
        out.line("Unused Space", format!("before={before} sectors, after={after} sectors{remark}"));
    }
    let state = if sb.is_clean() { "clean" } else { "active" };
    out.line("State", format!("{state}{}", if truncated { " TRUNCATED DEVICE" } else { "" }));
    out.line("Device UUID", sb.device_uuid);
    out.blank();
    if let Some(offset) = sb.bitmap_offset() {
        out.line("Internal Bitmap", format!("{offset} sectors from superblock"));
    } else if let Some((offset, size)) = sb.ppl() {
        out.line("PPL", format!("{size} sectors at offset {offset} sectors from superblock"));
    }
    reshape_lines(&mut out, &superblock);
    if sb.flags != 0 {
        let has = |flag, word| if sb.flags & flag != 0 { word } else { "" };
        let (mostly, fast) = (has(1, " write-mostly"), has(2, " failfast"));
        out.line("Flags", format!("{mostly}{fast}").trim_start());
    }
    out.line("Update Time", ctime(sb.updated.seconds()));
    if sb.bad_blocks.sectors != 0 && sb.bad_blocks.offset != 0 {
        let (entries, offset) = (u32::from(sb.bad_blocks.sectors) * 64, sb.bad_blocks.offset);
        let present =
            if sb.features.has(Features::BAD_BLOCKS) { " - bad blocks present." } else { "" };
        let text = format!("{entries} entries available at offset {offset} sectors{present}");
        out.line("Bad Block Log", text);
    }
    out.line("Checksum", sum_text(sb.checksum(), wrong_sum));
    out.line("Events", sb.events);
    out.blank();
    chunk_lines(&mut out, &superblock);
    out.blank();
    let role = match sb.role() {
        Some(Role::Slot(slot)) if sb.features.has(Features::REPLACEMENT) => {
            format!("Replacement device {slot}")
        }
        Some(Role::Slot(slot)) => format!("Active device {slot}"),
        Some(Role::Journal) => "Journal".to_owned(),
        _ => "spare".to_owned(),
    };
    out.0 += &format!("   Device Role : {role}\n");
    let remark = "('A' == active, '.' == missing, 'R' == replacing)";
    out.0 += &format!("   Array State : {} {remark}\n", array_state(&superblock));
    out.0
}

/// The slots in signs: A there, R being replaced, . missing, ? claimed by too many.
fn array_state(superblock: &Superblock) -> String {
    let Superblock::V1(sb) = superblock else { return String::new() };
    let slots =
        superblock.reshape().map_or(0, |reshape| reshape.slots_before).max(superblock.slots());
    let sign = |slot: usize| match sb.roles.iter().filter(|role| role.slot() == Some(slot)).count()
    {
        0 => '.',
        1 => 'A',
        2 if sb.level > 0 => 'R',
        _ => '?',
    };
    (0..slots).map(sign).collect()
}

/// Sectors that nobody uses before the data and behind it, as mdadm counts them; negative behind a device
/// that is too small.
fn unused(sb: &SuperblockV1, capacity: u64, bitmap: Option<&BitmapSuperblock>) -> (u64, i64) {
    // A journal uses all it has, whatever the members use.
    let uses_all = sb.level <= 0 || sb.role() == Some(Role::Journal);
    let used = if uses_all { sb.data_size } else { sb.size };
    let ppl = sb.ppl().map(|(offset, size)| (i64::from(offset), i64::from(size)));
    let log = &sb.bad_blocks;
    let has_log = log.offset != 0 && log.sectors != 0;
    let start = sb.super_offset as i64;
    if sb.data_offset < sb.super_offset {
        let mut end = start;
        if has_log {
            end = end.min(start + i64::from(log.offset));
        }
        let other = sb.bitmap_offset().map_or(ppl.map_or(0, |(offset, _)| offset), i64::from);
        end = end.min(start + other);
        return (sb.data_offset, (end - (sb.data_offset + used) as i64).max(0));
    }
    // The kernel keeps 32 KiB behind the superblock free.
    let mut earliest = start + 72;
    if let Some(offset) = sb.bitmap_offset().filter(|offset| *offset > 0) {
        let bytes = bitmap.map_or(4096, BitmapSuperblock::total_bytes).next_multiple_of(4096);
        earliest = earliest.max(i64::from(offset) + (bytes / 512) as i64);
    } else if let Some((offset, size)) = ppl.filter(|(offset, _)| *offset > 0) {
        earliest = earliest.max(offset + size);
    }
    if has_log {
        earliest = earliest.max(start + i64::from(log.offset) + i64::from(log.sectors));
    }
    let before = (sb.data_offset as i64 - earliest).max(0) as u64;
    (before, capacity as i64 - used as i64 - sb.data_offset as i64)
}

fn reshape_lines(out: &mut Lines, superblock: &Superblock) {
    let Some(reshape) = superblock.reshape() else { return };
    let size = words::human_size(reshape.position << 9);
    out.line("Reshape pos'n", format!("{}{size}", reshape.position / 2));
    let (before, after) = (reshape.slots_before as i64, superblock.slots() as i64);
    if before != after {
        out.line("Delta Devices", format!("{} ({before}->{after})", after - before));
    }
    if reshape.level != superblock.level() {
        out.line("New Level", words::level(reshape.level));
    }
    let new = words::layout(superblock.level(), Some(reshape.layout));
    if let Some(new) = new.filter(|_| Some(reshape.layout) != superblock.layout()) {
        out.line("New Layout", new);
    }
    if reshape.chunk != superblock.chunk() {
        out.line("New Chunksize", format!("{}K", reshape.chunk / 2));
    }
    out.blank();
}

fn chunk_lines(out: &mut Lines, superblock: &Superblock) {
    if let Some(layout) = words::layout(superblock.level(), superblock.layout()) {
        out.line("Layout", layout);
    }
    match superblock.level() {
        0 | 4 | 5 | 6 | 10 => out.line("Chunk Size", format!("{}K", superblock.chunk() / 2)),
        -1 => out.line("Rounding", format!("{}K", superblock.chunk() / 2)),
        _ => {}
    }
}

fn examined_v090(sb: &SuperblockV090, wrong_sum: Option<(u32, u32)>) -> String {
    let mut out = Lines(String::new());
    let superblock = Superblock::V090(Box::new(sb.clone()));
    out.line("Magic", "a92b4efc");
    out.line("Version", format!("0.{}.{:02}", sb.minor_version, sb.patch_version));
    out.line("UUID", sb.set_uuid);
    out.line("Creation Time", ctime(u64::from(sb.created_s)));
    out.line("Raid Level", words::level(sb.level));
    let kib = |kib: u64| format!("{kib}{}", words::human_size(kib << 10));
    if sb.level > 0 {
        out.line("Used Dev Size", kib(u64::from(sb.size_kib)));
        let slots = u64::from(sb.slots);
        if let Some(size) = words::array_kib(sb.level, Some(sb.layout), slots, superblock.size()) {
            out.line("Array Size", kib(size));
        }
    }
    out.line("Raid Devices", sb.slots);
    out.line("Total Devices", sb.devices);
    out.line("Preferred Minor", sb.preferred_minor);
    out.blank();
    reshape_lines(&mut out, &superblock);
    out.line("Update Time", ctime(u64::from(sb.updated_s)));
    out.line("State", if sb.clean { "clean" } else { "active" });
    if sb.bitmap {
        out.line("Internal Bitmap", "present");
    }
    out.line("Active Devices", sb.active);
    out.line("Working Devices", sb.working);
    out.line("Failed Devices", sb.failed);
    out.line("Spare Devices", sb.spares);
    out.line("Checksum", sum_text(sb.checksum, wrong_sum));
    out.line("Events", sb.events);
    out.blank();
    chunk_lines(&mut out, &superblock);
    out.blank();
    out.0 += "      Number   Major   Minor   RaidDevice State\n";
    out.0 += &descriptor_line("this", &sb.this);
    out.blank();
    let listed = (u64::from(sb.slots) + u64::from(sb.spares)) as usize;
    for (n, descriptor) in sb.descriptors.iter().enumerate().take(listed) {
        out.0 += &descriptor_line(&format!("{n:4}"), descriptor);
    }
    out.0
}

fn descriptor_line(head: &str, descriptor: &Descriptor) -> String {
    let Descriptor { number, major, minor, slot, state } = descriptor;
    let words =
        [(1, " faulty"), (2, " active"), (4, " sync"), (8, " removed"), (512, " write-mostly")];
    let mut text: String =
        words.iter().filter(|(bit, _)| state & bit != 0).map(|(_, word)| *word).collect();
    if state & !512 == 0 {
        text += " spare";
    }
    format!("{head:>4} {number:5}   {major:5}    {minor:5}    {slot:5}     {text}\n")
}

/// Where the log of a journal begins.
fn journal_tail(superblock: &Superblock) -> Option<u64> {
    match superblock {
        Superblock::V1(sb) if sb.role() == Some(Role::Journal) => Some(sb.recovery_offset),
        _ => None,
    }
}

/// All of one device for machines: numbers in sectors where the text has sectors.
fn as_json(found: &Found, bitmap: Option<&BitmapSuperblock>) -> Value {
    let superblock = &found.superblock;
    let mut value = json!({
        "device": found.name(),
        "version": superblock.version().to_string(),
        "array_uuid": superblock.set_uuid().to_string(),
        "name": superblock.name(),
        "creation_time_s": superblock.created_s(),
        "update_time_s": superblock.updated_s(),
        "level": words::level(superblock.level()),
        "layout": words::layout(superblock.level(), superblock.layout()),
        "chunk_sectors": superblock.chunk(),
        "raid_devices": superblock.slots(),
        "size_sectors": superblock.size(),
        "data_offset_sectors": superblock.data_offset(),
        "super_offset_sectors": found.at.bytes() / 512,
        "feature_map": superblock.features().bits(),
        "features": format!("{:?}", superblock.features()),
        "events": superblock.events(),
        "clean": superblock.resync_offset() == ::md::superblock::ALL_SECTORS,
        "device_number": superblock.device_number(),
        "role": superblock.role().map(|role| match role {
            Role::Slot(slot) => json!(slot),
            Role::Spare => json!("spare"),
            Role::Faulty => json!("faulty"),
            Role::Journal => json!("journal"),
        }),
        "recovery_offset_sectors": superblock.recovery_offset(),
        "journal_tail_sectors": journal_tail(superblock),
        "consistency_policy": words::policy(superblock),
    });
    if let Superblock::V1(sb) = superblock {
        value["device_uuid"] = json!(sb.device_uuid.to_string());
        value["data_size_sectors"] = json!(sb.data_size);
        value["array_state"] = json!(array_state(superblock));
        value["bitmap_offset_sectors"] = json!(sb.bitmap_offset());
        value["ppl"] =
            json!(sb.ppl().map(|(offset, size)| {
                json!({ "offset_sectors": offset, "size_sectors": size })
            }));
    }
    if let Some(reshape) = superblock.reshape() {
        value["reshape"] = json!({
            "position_sectors": reshape.position, "backwards": reshape.backwards,
            "raid_devices_before": reshape.slots_before, "new_level": words::level(reshape.level),
            "new_layout": words::layout(superblock.level(), Some(reshape.layout)),
            "new_chunk_sectors": reshape.chunk,
            "new_data_offset_sectors": superblock.new_data_offset(),
        });
    }
    if let Some(bitmap) = bitmap {
        value["bitmap"] = json!({
            "events": bitmap.events, "events_cleared": bitmap.events_cleared,
            "chunk_bytes": bitmap.chunk_bytes, "bits": bitmap.bits(),
        });
    }
    value
}
