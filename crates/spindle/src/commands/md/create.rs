//! `spindle md create`: makes devices members of a new set, with mdadm's words.
//!
//! Only metadata is written. Unless `--assume-clean` is given the set is marked as never synchronised, so that
//! whoever assembles it for writing first makes parity and copies right.
//!
//! Nothing that holds something is overwritten without `--force`. Each device's superblock is written last and
//! after a flush, and superblocks of other versions that lie elsewhere on it are wiped, so that it is never two
//! things at once.
//!
//! A device may be a partition of a disk image, `IMAGE:N`, too: also of a copy whose superblock was overwritten.

use super::words;
use crate::events::context;
use crate::output::{Failure, print};
use ::md::create::{NewArray, NewDevice, Plan, Policy};
use ::md::superblock::place::Version;
use ::md::superblock::{MAGIC, SUPERBLOCK_BYTES, Stamp};
use ::md::{ArraySpec, CHUNK_DEFAULT, Layout, Level};
use attach::Context;
use attach::sets::parted::Parted;
use attach::sets::place::whole_of;
use attach::{expendable, random};
use clap::Args;
use rt::{Buf, DeviceRef, IoError, Request};
use std::path::PathBuf;
use stdx::{ByteCount, Offset};

/// Bytes of a set's name: a superblock has room for 32, and a zero ends it.
const NAME_BYTES_MAX: usize = 31;

// What `create` takes.
#[derive(Args)]
pub struct CreateArgs {
    /// The set's name
    array: String,
    /// The level: linear, 0, 1, 10, 4, 5, 6
    #[arg(short, long)]
    level: String,
    /// How many members
    #[arg(short = 'n', long)]
    raid_devices: usize,
    /// How many of the devices are spares
    #[arg(short = 'x', long, default_value_t = 0)]
    spare_devices: usize,
    /// Chunk, in KiB or with a unit
    #[arg(short, long)]
    chunk: Option<String>,
    /// Layout: left-symmetric, near-2 or n2, original, ...
    #[arg(short = 'p', long)]
    layout: Option<String>,
    /// Metadata: 1.2, 1.1 or 1.0
    #[arg(short = 'e', long, default_value = "1.2")]
    metadata: String,
    /// Write-intent bitmap: internal or none
    #[arg(short, long, value_parser = ["internal", "none"])]
    bitmap: Option<String>,
    /// How much one bit of the bitmap stands for, in KiB or with a unit
    #[arg(long, value_name = "SIZE")]
    bitmap_chunk: Option<String>,
    /// How much of each member is used, in KiB or with a unit; max is all that the smallest has
    #[arg(short = 'z', long, value_name = "SIZE")]
    size: Option<String>,
    /// Where data begins on each member, in KiB or with a unit: for superblocks that are to say what lost ones said
    #[arg(long, value_name = "SIZE")]
    data_offset: Option<String>,
    /// Consistency policy: resync, bitmap, ppl, or journal with --write-journal
    #[arg(short = 'k', long, value_parser = ["resync", "bitmap", "ppl", "journal"])]
    consistency_policy: Option<String>,
    /// A device to which all is written first, so that RAID 4, 5 and 6 have no write hole
    #[arg(long, value_name = "DEVICE")]
    write_journal: Option<PathBuf>,
    /// Take parity and copies to be right, as they are on devices of zeros
    #[arg(long)]
    assume_clean: bool,
    /// Overwrite what the devices hold
    #[arg(short, long)]
    force: bool,
    /// The devices, members first; the word missing leaves a slot empty. IMAGE:N is a partition of a disk image
    #[arg(required = true)]
    devices: Vec<PathBuf>,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: CreateArgs) -> Result<(), Failure> {
    let expected = args.raid_devices + args.spare_devices;
    if args.devices.len() != expected {
        let given = args.devices.len();
        let text = format!("{given} devices are given, and -n and -x ask for {expected}");
        return Err(Failure::usage(text));
    }
    if args.raid_devices == 1 && !args.force {
        let text = "one member is an unusual number, which holds a single copy: add --force if it is meant";
        return Err(Failure::usage(text));
    }
    let name = name(&args.array)?;
    let runtime = context()?;
    let mut devices = Vec::new();
    let paths: Vec<&PathBuf> = args.devices.iter().chain(&args.write_journal).collect();
    let mut opened = Parted::default();
    for (n, path) in paths.iter().enumerate() {
        if path.as_os_str() == "missing" && n < args.raid_devices {
            devices.push(None);
            continue;
        }
        let others = paths[..n].iter().map(|other| other.as_path());
        let is_partition = whole_of(path).is_some();
        if !is_partition {
            expendable::check_expendable(path, args.force)?;
            expendable::check_distinct(path, others.clone())?;
        }
        let device = opened.open_any(&runtime, path, others)?;
        if is_partition {
            expendable::check_expendable_opened(&runtime, path, &device, args.force)?;
        }
        devices.push(Some(device));
    }
    let new = wished(&args, name)?;
    let mut described = Vec::new();
    for device in &devices {
        let described_one = |device: &DeviceRef| -> Result<NewDevice, Failure> {
            Ok(NewDevice { capacity: device.geometry().capacity, uuid: random::uuid()? })
        };
        described.push(device.as_ref().map(described_one).transpose()?);
    }
    check_spec(&new, &args, &devices)?;
    let plan = new.plan(&described).map_err(Failure::usage)?;
    write(&runtime, &new, &devices, plan)?;
    let dirty = !new.assume_clean && !matches!(new.level, Level::Linear | Level::Raid0);
    let then = if dirty { "; it is to be resynchronised by the first to write to it" } else { "" };
    print(&format!("array {} created, UUID {}{then}\n", new.name, new.set_uuid))
}

/// The wishes of the command line.
fn wished(args: &CreateArgs, name: String) -> Result<NewArray, Failure> {
    let level: Level = args.level.parse().map_err(Failure::usage)?;
    let version: Version = args.metadata.parse().map_err(Failure::usage)?;
    let layout = match &args.layout {
        Some(text) => Layout::parse(level, text).map_err(Failure::usage)?,
        None => Layout::Default,
    };
    let journal = args.write_journal.is_some();
    let policy = match (args.consistency_policy.as_deref(), args.bitmap.as_deref()) {
        (None | Some("journal"), None | Some("none")) if journal => Policy::Journal,
        (_, Some("internal")) if journal => {
            let text = "a bitmap and a journal exclude one another: leave one out";
            return Err(Failure::usage(text));
        }
        _ if journal => {
            let text =
                "--write-journal and --consistency-policy contradict one another: leave one out";
            return Err(Failure::usage(text));
        }
        (Some("journal"), _) => {
            let text = "--consistency-policy=journal needs a device: add --write-journal";
            return Err(Failure::usage(text));
        }
        (Some("ppl"), Some("internal")) => {
            let text = "a bitmap and a PPL exclude one another: leave one out";
            return Err(Failure::usage(text));
        }
        (Some("ppl"), _) => Policy::Ppl,
        (Some("bitmap"), None | Some("internal")) | (None, Some("internal")) => Policy::Bitmap,
        (Some("bitmap"), _) | (Some("resync"), Some("internal")) => {
            let text = "--bitmap and --consistency-policy contradict one another: leave one out";
            return Err(Failure::usage(text));
        }
        _ => Policy::Resync,
    };
    if args.bitmap_chunk.is_some() && policy != Policy::Bitmap {
        return Err(Failure::usage("--bitmap-chunk is for a bitmap: add --bitmap=internal"));
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(NewArray {
        version,
        level,
        layout: layout.to_md(level),
        chunk: match level {
            Level::Raid1 => ByteCount::ZERO,
            Level::Linear => args.chunk.as_deref().map_or(Ok(ByteCount::ZERO), kib)?,
            _ => args.chunk.as_deref().map_or(Ok(CHUNK_DEFAULT), kib)?,
        },
        size: match args.size.as_deref() {
            None | Some("max") => None,
            Some(text) => Some(kib(text)?),
        },
        data_offset: args.data_offset.as_deref().map(kib).transpose()?,
        policy,
        bitmap_chunk: args.bitmap_chunk.as_deref().map(kib).transpose()?,
        name,
        set_uuid: random::uuid()?,
        created: Stamp::from_seconds(since.map_err(Failure::failed)?.as_secs()),
        assume_clean: args.assume_clean,
        slots: args.raid_devices,
    })
}

/// A size in KiB, as mdadm reads it, or with a unit.
fn kib(text: &str) -> Result<ByteCount, Failure> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if plain { format!("{text}k") } else { text.to_owned() };
    text.parse().map_err(Failure::usage)
}

/// `HOST:NAME`, as mdadm names a set, where it fits. Of a path below /dev the name is what mdadm takes from it:
/// `/dev/md/x` and `/dev/md_x` are x, `/dev/md0` is 0.
///
/// # Errors
/// Where it is no name: mdadm takes only POSIX' portable characters, since the name becomes a path.
fn name(array: &str) -> Result<String, Failure> {
    let numbered = |name: &&str| name.starts_with(|first: char| first.is_ascii_digit());
    let short = array.strip_prefix("/dev/md/").or(array.strip_prefix("/dev/md_"));
    let short = short.or(array.strip_prefix("/dev/md").filter(numbered)).unwrap_or(array);
    let is_portable = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    let begins_well =
        short.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    if !begins_well || !short.bytes().all(is_portable) {
        return Err(Failure::usage(format!(
            "'{array}' is no name for a set: take letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )));
    }
    if short.len() > NAME_BYTES_MAX {
        let len = short.len();
        return Err(Failure::usage(format!(
            "'{array}': a name has {NAME_BYTES_MAX} bytes at the most, and this one has {len}"
        )));
    }
    let whole = format!("{}:{short}", words::host());
    let fits = !short.contains(':') && whole.len() <= NAME_BYTES_MAX;
    Ok(if fits { whole } else { short.to_owned() })
}

/// Whether the engine could run such an array: what is wrong with levels, layouts, counts and chunks.
fn check_spec(
    new: &NewArray,
    args: &CreateArgs,
    devices: &[Option<DeviceRef>],
) -> Result<(), Failure> {
    let mut spec = ArraySpec::new(new.level, Vec::new());
    spec.layout = match &args.layout {
        Some(text) => Layout::parse(new.level, text).map_err(Failure::usage)?,
        None => Layout::Default,
    };
    spec.chunk = new.chunk;
    spec.members = devices.iter().take(new.slots).cloned().collect();
    spec.check().map_err(Failure::usage)
}

fn write(
    runtime: &Context,
    new: &NewArray,
    devices: &[Option<DeviceRef>],
    plan: Plan,
) -> Result<(), Failure> {
    let version = new.version;
    let each: Vec<_> = devices
        .iter()
        .cloned()
        .zip(plan.pieces)
        .filter_map(|(device, pieces)| Some((device?, pieces?)))
        .collect();
    let writing = async move {
        for (device, pieces) in &each {
            wipe_others(device, version).await?;
            for piece in pieces.iter().take(pieces.len().saturating_sub(1)) {
                device.submit(Request::write(piece.at, Buf::copy_of(&piece.bytes))).await?;
            }
            device.submit(Request::flush()).await?;
        }
        for (device, pieces) in &each {
            if let Some(superblock) = pieces.last() {
                let bytes = Buf::copy_of(&superblock.bytes);
                device.submit(Request::write(superblock.at, bytes)).await?;
            }
            device.submit(Request::flush()).await?;
        }
        Ok::<(), IoError>(())
    };
    let done = runtime.runtime().block_on(writing).expect("I/O on a real device ends");
    done.map_err(Failure::failed)
}

/// Wipes superblocks that lie where another version has them.
async fn wipe_others(device: &DeviceRef, version: Version) -> Result<(), IoError> {
    let capacity = device.geometry().capacity;
    let own = version.place(capacity);
    let mut places: Vec<Offset> =
        Version::ALL.iter().filter_map(|version| version.place(capacity)).collect();
    places.retain(|place| Some(*place) != own);
    let len = ByteCount(SUPERBLOCK_BYTES as u64);
    for place in places {
        let found = device.submit(Request::read(place, len)).await?.to_vec();
        if found.starts_with(&MAGIC.to_le_bytes()) || found.starts_with(&MAGIC.to_be_bytes()) {
            device.submit(Request::write(place, Buf::zeros(SUPERBLOCK_BYTES))).await?;
        }
    }
    Ok(())
}
