//! `spindle lvm`: volume groups and logical volumes as LVM2 keeps them, in LVM's words.
//!
//! Physical volumes are looked for on the devices that were named, on their partitions, and on the RAID
//! sets of which they are members. RAID sets below what is changed are opened for writing, and stopped cleanly when
//! it is done.

mod restore;

use self::restore::{PvcreateArgs, pvcreate};
use crate::commands::dry_run::DryRunArgs;
use crate::commands::elsewhere::volume_of_pool;
use crate::commands::md::{Sink, copy};
use crate::events::{events, refuse_denied};
use crate::output::{Failure, print, print_json, say};
use crate::printable;
use attach::disks::{Disks, Writing, Written};
use attach::past_damage::PastDamage;
use attach::{Error, random, typed};
use clap::{Args, Subcommand};
use host::expendable::{NotExpendable, Unseen, check_expendable};
use rt::{DeviceRef, Request};
use std::path::PathBuf;
use std::rc::Rc;
use stdx::{ByteCount, Offset};
use volume::lvm::change::{EXTENT_DEFAULT, Origin, STRIPE_DEFAULT, Wanted, create_group};
use volume::lvm::metadata::Mapping;
use volume::lvm::{Group, SECTOR};

/// Bytes at each end of a RAID set or partition that must be zero for it to count as empty: what begins a file system,
/// a partition table or a label lies there.
const ENDS: ByteCount = ByteCount::mib(1);

// What `spindle lvm` takes.
#[derive(Args)]
pub struct LvmArgs {
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(subcommand)]
    command: LvmCommand,
}

#[derive(Subcommand)]
#[command(defer = true)]
enum LvmCommand {
    /// List physical volumes
    Pvs(ListArgs),
    /// List volume groups
    Vgs(ListArgs),
    /// List logical volumes
    Lvs(ListArgs),
    /// Write a logical volume's content to a file
    Dump(DumpArgs),
    /// Make a volume group of devices, which lose what they hold
    Vgcreate(VgcreateArgs),
    /// Make a device the physical volume again that a group lacks, where its label was overwritten
    Pvcreate(PvcreateArgs),
    /// Make a logical volume
    Lvcreate(LvcreateArgs),
    /// Remove a logical volume
    Lvremove(LvremoveArgs),
}

#[derive(Args)]
struct ListArgs {
    /// Look into RAID sets too that can only be put together by force: what was written last may be lost or torn. Nothing is written
    #[arg(short, long)]
    force: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

#[derive(Args)]
struct DumpArgs {
    /// The volume; a RAID set, or a partition (SET:N, DEVICE:N, GROUP/VOLUME:N), will do as well
    #[arg(value_name = "GROUP/VOLUME")]
    volume: String,
    /// Where to write it; - is standard output
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Overwrite a file or block device that is there
    #[arg(long)]
    overwrite: bool,
    /// Go on past what can't be read, with zeros in its place; it is listed at the end. So is what lay on physical volumes that are
    /// missing, or behind the end of a device that was cut
    #[arg(long)]
    skip_damaged: bool,
    /// Read RAID sets below it too that can only be put together by force: what was written last may be lost or torn
    #[arg(short, long)]
    force: bool,
}

#[derive(Args)]
struct VgcreateArgs {
    /// The group's name
    group: String,
    /// Files or block devices; or RAID sets on the devices of -d, or partitions of such (SET:N)
    #[arg(required = true)]
    devices: Vec<PathBuf>,
    /// The extent, in which volumes are given space: a power of two, as 4MiB. Without a unit it is taken in MiB, as LVM does
    #[arg(short = 's', long, value_name = "SIZE", default_value_t = EXTENT_DEFAULT, value_parser = lvm_size)]
    physicalextentsize: ByteCount,
    /// Also on devices that hold something
    #[arg(short, long)]
    force: bool,
}

#[derive(Args)]
struct LvcreateArgs {
    /// The group
    group: String,
    /// The volume's name
    #[arg(short, long)]
    name: String,
    /// Its size, as 10GiB; rounded up to whole extents. Without a unit it is taken in MiB, as LVM does
    #[arg(short = 'L', long, value_name = "SIZE", value_parser = lvm_size)]
    size: ByteCount,
    /// Stripe it over so many physical volumes
    #[arg(short = 'i', long, value_name = "N", default_value_t = 1)]
    stripes: u8,
    /// What lies on one of them before the next one's turn
    #[arg(short = 'I', long, value_name = "SIZE", default_value_t = STRIPE_DEFAULT)]
    stripesize: ByteCount,
}

/// A size as LVM's programs take it: a bare number counts MiB.
fn lvm_size(text: &str) -> Result<ByteCount, String> {
    match text.parse::<u64>() {
        Ok(count) => count
            .checked_mul(ByteCount::mib(1).bytes())
            .map(ByteCount)
            .ok_or_else(|| format!("{text} MiB are more than a device can have")),
        Err(_) => text.parse::<ByteCount>().map_err(|error| error.to_string()),
    }
}

#[derive(Args)]
struct LvremoveArgs {
    /// The volume
    #[arg(value_name = "GROUP/VOLUME")]
    volume: String,
    /// Yes, it and what it holds
    #[arg(short = 'y', long = "yes")]
    yes: bool,
}

/// Carries out a command on these devices.
///
/// # Errors
/// With the line to print.
pub fn run(args: LvmArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let not_tried = match &args.command {
        LvmCommand::Dump(_) => Some("it writes a file of this host"),
        _ => None,
    };
    args.dry_run.run(not_tried, || dispatch(args.command, devices))
}

fn dispatch(command: LvmCommand, devices: &[PathBuf]) -> Result<(), Failure> {
    match command {
        LvmCommand::Pvs(args) => listed("pvs", &args, devices, pvs),
        LvmCommand::Vgs(args) => listed("vgs", &args, devices, vgs),
        LvmCommand::Lvs(args) => listed("lvs", &args, devices, lvs),
        LvmCommand::Dump(args) => dump(&args, devices),
        LvmCommand::Vgcreate(args) => vgcreate(&args, devices),
        LvmCommand::Pvcreate(args) => pvcreate(&args, devices),
        LvmCommand::Lvcreate(args) => lvcreate(&args, devices),
        LvmCommand::Lvremove(args) => lvremove(&args, devices),
    }
}

fn opened_for(devices: &[PathBuf], written: &[Written]) -> Result<Disks, Failure> {
    let disks = Disks::open_for(&events(), devices, written, Writing::default())?;
    disks.tell_complaints();
    Ok(disks)
}

/// A list of what lies there. Where something may not be read, or a group's text is damaged, it is no answer, and none either where nothing is found and a RAID set
/// was not started: why, was told.
fn listed(
    word: &str,
    args: &ListArgs,
    devices: &[PathBuf],
    list: fn(&Disks, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let disks = looked(devices, args.force)?;
    list(&disks, args.json)?;
    let refused: Vec<&str> = disks.refused().map(|set| set.name.as_str()).collect();
    if disks.groups.is_empty() && !refused.is_empty() {
        let spindle = typed::spindle(devices);
        let next = match disks.forcible().is_empty() {
            true => format!("{spindle} scan"),
            false => format!("{spindle} lvm {word} --force"),
        };
        let (sets, were) = if refused.len() == 1 { ("set", "was") } else { ("sets", "were") };
        return Err(Failure::failed(format!(
            "no volume group was found, and RAID {sets} {} {were} not started; next: {next}",
            refused.join(", ")
        )));
    }
    if disks.lacks_groups {
        let text = "not all volume groups, or not all of one, can be read: the notes above say why";
        return Err(Failure::failed(text));
    }
    if disks.groups.is_empty() {
        say(&format!(
            "note: no volume group is there: {}; {} scan shows what lies where",
            disks.searched(),
            typed::spindle(devices)
        ));
    }
    refuse_denied(disks.context())
}

fn looked(devices: &[PathBuf], by_force: bool) -> Result<Disks, Failure> {
    let disks = Disks::open_by_force(&events(), devices, by_force)?;
    disks.tell_complaints();
    Ok(disks)
}

fn extent(group: &Group) -> u64 {
    group.group.extent_sectors * SECTOR
}

fn free(group: &Group, physical: &str) -> u64 {
    group.group.free(physical).iter().map(|range| range.end - range.start).sum::<u64>()
        * extent(group)
}

/// Rows under a head, as LVM prints them; or as JSON with the head's words as keys.
fn table(kind: &str, head: &[&str], rows: Vec<Vec<String>>, json: bool) -> Result<(), Failure> {
    if json {
        let object = |row: Vec<String>| -> serde_json::Value {
            let pairs = head.iter().zip(row);
            let pairs = pairs.map(|(key, value)| (key.to_lowercase(), value.into()));
            serde_json::Value::Object(pairs.collect())
        };
        let rows: Vec<serde_json::Value> = rows.into_iter().map(object).collect();
        return print_json(&format!("{:#}\n", serde_json::json!({ kind: rows })));
    }
    let word = |cell: String| printable::word(&cell).into_owned();
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.into_iter().map(word).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|word| word.len()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line: Vec<String> = cells.collect();
        format!("  {}\n", line.join(" ").trim_end())
    };
    let mut text = String::new();
    if !rows.is_empty() {
        text.push_str(&line(head.to_vec()));
    }
    for row in &rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    print(&text)
}

fn size(bytes: u64) -> String {
    ByteCount(bytes).to_string()
}

fn pvs(disks: &Disks, json: bool) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for group in &disks.groups {
        for (name, physical) in &group.group.physical {
            let name_of = |device: &DeviceRef| device.name().to_string();
            let alike = group.alike.iter().find(|one| one.id == physical.id);
            let devices = match (alike, group.found.get(name)) {
                (Some(alike), _) => alike.devices.iter().map(name_of).collect(),
                (None, Some(found)) => vec![name_of(&found.device)],
                (None, None) => vec!["[missing]".to_owned()],
            };
            rows.extend(devices.into_iter().map(|device| {
                vec![
                    device,
                    group.group.name.clone(),
                    size(physical.extents * extent(group)),
                    size(free(group, name)),
                    physical.id.to_string(),
                ]
            }));
        }
    }
    for found in &disks.apart {
        let (device, size) = (found.device.name().to_string(), size(found.label.device_bytes));
        let id = found.label.id.to_string();
        rows.push(vec![device, String::new(), size.clone(), size, id]);
    }
    table("pv", &["PV", "VG", "PSize", "PFree", "UUID"], rows, json)
}

fn vgs(disks: &Disks, json: bool) -> Result<(), Failure> {
    let row = |group: &Group| {
        let physical = &group.group.physical;
        let extents: u64 = physical.values().map(|one| one.extents).sum();
        let free: u64 = physical.keys().map(|name| free(group, name)).sum();
        vec![
            group.group.name.clone(),
            physical.len().to_string(),
            group.group.logical.len().to_string(),
            size(extents * extent(group)),
            size(free),
            group.group.id.to_string(),
        ]
    };
    let rows = disks.groups.iter().map(row).collect();
    table("vg", &["VG", "#PV", "#LV", "VSize", "VFree", "UUID"], rows, json)
}

fn lvs(disks: &Disks, json: bool) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for group in &disks.groups {
        for volume in &group.group.logical {
            let mut kinds: Vec<String> = Vec::new();
            for segment in &volume.segments {
                let kind = match &segment.mapping {
                    Mapping::Striped { stripes, .. } if stripes.len() == 1 => "linear".to_owned(),
                    Mapping::Striped { stripes, stripe_sectors } => {
                        format!("striped {}×{}", stripes.len(), ByteCount(stripe_sectors * SECTOR))
                    }
                    Mapping::Other(kind) => format!("{kind} (not supported)"),
                };
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            rows.push(vec![
                volume.name.clone(),
                group.group.name.clone(),
                size(volume.extents() * extent(group)),
                kinds.join(", "),
                volume.id.to_string(),
            ]);
        }
    }
    table("lv", &["LV", "VG", "LSize", "Type", "UUID"], rows, json)
}

fn dump(args: &DumpArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let disks = looked(devices, args.force)?;
    let opened = match args.skip_damaged {
        true => disks.volume_in_part(&args.volume),
        false => disks.volume(&args.volume),
    };
    let opened = opened.map_err(|error| {
        if let Error::NoVolume { .. } = &error
            && let Some(instead) = volume_of_pool((&args.volume, &args.file), devices)
        {
            return Failure::from(error).and_do(&instead);
        }
        let again = |flag: &str| {
            let (volume, file) = (typed::quoted(&args.volume), args.file.to_string_lossy());
            let (spindle, file) = (typed::spindle(devices), typed::quoted(&file));
            let overwrite = if args.overwrite { " --overwrite" } else { "" };
            let force = if args.force { " --force" } else { "" };
            format!("{spindle} lvm dump {volume} {file}{overwrite}{force}{flag}")
        };
        let failure = Failure::from(error).or_by_force(|| again(" --force"));
        failure.or_skipping(|| again(" --skip-damaged"))
    })?;
    if disks.lies_under(&args.file) {
        let file = args.file.display();
        return Err(Failure::usage(format!("{file} is one of the devices: name another file")));
    }
    let events = disks.context().events();
    let lacks = opened.tell_lacking(&args.volume, events);
    let past = || PastDamage::of(Rc::clone(&opened.device), events, lacks);
    let past = args.skip_damaged.then(past);
    disks.tell_left_out(&args.volume)?;
    disks.keep_writers_off(&args.volume)?;
    let sink = match args.file.as_os_str() == "-" {
        true => Sink::stream()?,
        false => Sink::open(&args.file, args.overwrite)?,
    };
    copy(disks.context(), &opened.device, sink, &args.file, past)
}

/// Who makes a text, and when.
fn origin() -> Origin {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Origin { unix_s: since.map_or(0, |since| since.as_secs() as i64), host: host.trim().to_owned() }
}

fn vgcreate(args: &VgcreateArgs, places: &[PathBuf]) -> Result<(), Failure> {
    let paths = args.devices.iter().filter(|device| device.exists()).count();
    let has_places = !places.is_empty() || std::env::var_os("SPINDLE_DEVICES").is_some();
    let (disks, devices) = match (paths, args.devices.len()) {
        (0, _) if has_places => on_arrays(args, places)?,
        // What is no path is named by the error.
        (some, all) if some == all || !has_places => on_files(args)?,
        _ => {
            let text = "some devices are paths and some are not: make a group of files and devices, or of RAID sets";
            return Err(Failure::usage(text));
        }
    };
    let (name, extent, origin) = (args.group.clone(), args.physicalextentsize, origin());
    let mut prng = random::prng()?;
    let group =
        disks.wait(async move { create_group(&devices, &name, extent, &origin, &mut prng).await });
    let group = group.map_err(Failure::failed);
    disks.stop()?;
    let devices = match group?.found.len() {
        1 => "1 device".to_owned(),
        many => format!("{many} devices"),
    };
    say(&format!("volume group {} made of {devices}", args.group));
    Ok(())
}

fn holds(device: &str, what: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("{device} holds {what}, which would be lost; add --force if it may be"))
}

/// Files and block devices for a group.
fn on_files(args: &VgcreateArgs) -> Result<(Disks, Vec<DeviceRef>), Failure> {
    for path in &args.devices {
        match check_expendable(path, Unseen::Nothing) {
            Err(NotExpendable::Probe(error)) => return Err(Failure::usage(error)),
            Err(NotExpendable::Holds { content, .. }) if !args.force => {
                return Err(holds(&path.display().to_string(), content));
            }
            _ => {}
        }
    }
    let disks = Disks::open_files(&events(), &args.devices, false)?;
    let devices = disks.files.clone();
    Ok((disks, devices))
}

/// RAID sets, or partitions of them, for a group.
fn on_arrays(args: &VgcreateArgs, places: &[PathBuf]) -> Result<(Disks, Vec<DeviceRef>), Failure> {
    let names = args.devices.iter().map(|name| name.to_string_lossy().into_owned());
    let written: Vec<Written> = names.map(|volume| Written { volume, run: false }).collect();
    let disks = opened_for(places, &written)?;
    if disks.groups.iter().any(|one| one.group.name == args.group) {
        let text = "a volume group of this name lies on the devices already: choose another";
        return Err(Failure::usage(format!("{}: {text}", args.group)));
    }
    let mut devices: Vec<DeviceRef> = Vec::new();
    for Written { volume: name, .. } in &written {
        let opened = disks.volume(name)?;
        if let Some(why) = opened.read_only {
            return Err(Failure::failed(format!("{name} can't be written: {why}")));
        }
        if opened.is_logical {
            let text = "is a logical volume: make groups of devices, RAID sets, and partitions";
            return Err(Failure::usage(format!("{name} {text}")));
        }
        let device = opened.device;
        if devices.iter().any(|other| Rc::ptr_eq(other, &device)) {
            return Err(Failure::usage(format!("{name} is named twice")));
        }
        let lies_on =
            |group: &&Group| group.found.values().any(|found| Rc::ptr_eq(&found.device, &device));
        if let Some(group) = disks.groups.iter().find(lies_on) {
            let group = format!("a physical volume of group {}", group.group.name);
            if !args.force {
                return Err(holds(name, group));
            }
            say(&format!("note: {name} was {group}, which lacks it now"));
        }
        let looked = Rc::clone(&device);
        let is_empty = || disks.wait(async move { is_empty(&looked).await });
        if !args.force && !is_empty().map_err(Failure::failed)? {
            return Err(holds(name, "something"));
        }
        devices.push(device);
    }
    Ok((disks, devices))
}

/// Whether a device is zero at both ends, where file systems, partition tables and labels are.
async fn is_empty(device: &DeviceRef) -> Result<bool, rt::IoError> {
    let capacity = device.geometry().capacity;
    let len = ENDS.min(capacity);
    for at in [Offset(0), Offset((capacity - len).bytes())] {
        let data = device.submit(Request::read(at, len)).await?;
        if data.to_vec().iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The devices, for writing to those of this group; and it.
fn for_changing(called: &str, devices: &[PathBuf]) -> Result<(Disks, Group), Failure> {
    let disks = opened_for(devices, &[Written { volume: format!("{called}/"), run: false }])?;
    let group = disks.group(called)?.clone();
    match disks.unchangeable(&group) {
        Some(why) => Err(Failure::failed(format!("volume group {called} can't be changed: {why}"))),
        None => Ok((disks, group)),
    }
}

fn lvcreate(args: &LvcreateArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let (disks, mut group) = for_changing(&args.group, devices)?;
    let wanted = Wanted {
        name: args.name.clone(),
        size: args.size,
        stripes: args.stripes.into(),
        stripe: args.stripesize,
    };
    let (origin, mut prng) = (origin(), random::prng()?);
    let made = disks.wait(async move { group.create_volume(&wanted, &origin, &mut prng).await });
    let stopped = disks.stop();
    made.map_err(Failure::failed)?;
    stopped?;
    say(&format!("logical volume {}/{} made", args.group, args.name));
    Ok(())
}

fn lvremove(args: &LvremoveArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let Some((group, volume)) = args.volume.split_once('/') else {
        return Err(Failure::usage(format!("'{}': name it as GROUP/VOLUME", args.volume)));
    };
    if !args.yes {
        return Err(Failure::usage(format!(
            "{} and what it holds would be gone; say --yes if that is meant",
            args.volume
        )));
    }
    let (disks, mut group) = for_changing(group, devices)?;
    let (name, origin) = (volume.to_owned(), origin());
    let removed = disks.wait(async move { group.remove_volume(&name, &origin).await });
    let stopped = disks.stop();
    removed.map_err(Failure::failed)?;
    stopped?;
    say(&format!("logical volume {} removed", args.volume));
    Ok(())
}
