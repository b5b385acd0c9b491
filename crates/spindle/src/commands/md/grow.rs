//! `spindle md grow`: larger members, more mirrors, more members of a set with parity, a write-intent bitmap or none, with
//! mdadm's words.
//!
//! The set is not served meanwhile; the command runs to the end of what was asked, resync and rebuild among it.
//! It may be stopped at any moment, also by a power cut: the set is whole then, and `--continue` goes on with a
//! reshape, `spindle md repair` with a resync or rebuild.

use crate::events::context;
use crate::output::{Failure, print, say};
use ::md::SyncPriority;
use ::md::assemble::{self, AssembleError, Choice, Found, Superblock};
use ::md::grow::{self, GrowError, NewMember, Reshape, SizeWish};
use attach::Context;
use attach::paths::expand;
use attach::sets::parted::Parted;
use attach::sets::place::same;
use attach::sets::{live, missing, sources};
use attach::{expendable, random};
use clap::{ArgGroup, Args};
use rt::DeviceRef;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use stdx::ByteCount;

/// A line is said each time a reshape is so many hundredths further.
const TOLD_EVERY_PERCENT: u64 = 10;

// What `grow` takes.
#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true))]
pub struct GrowArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// Use so much of each member, after members were enlarged: max, or a size in KiB or with a unit
    #[arg(short = 'z', long, group = "what", value_name = "max|SIZE")]
    size: Option<String>,
    /// What each member had before it was enlarged: with metadata 1.0, which lies at the end, it is not found
    /// otherwise
    #[arg(long, requires = "size", value_name = "SIZE")]
    old_size: Option<String>,
    /// So many members: mirrors of RAID 1, or members of RAID 4, 5, 6, whose data is moved
    #[arg(short = 'n', long, group = "what", value_name = "NUMBER")]
    raid_devices: Option<usize>,
    /// Go on with a reshape to more members that was left in its middle, by md or by Spindle
    #[arg(long = "continue", group = "what")]
    resume: bool,
    /// Give the set a write-intent bitmap, or take it away: internal or none
    #[arg(short, long, group = "what", value_parser = ["internal", "none"])]
    bitmap: Option<String>,
    /// How much one bit of the bitmap stands for, in KiB or with a unit
    #[arg(long, value_name = "SIZE", requires = "bitmap")]
    bitmap_chunk: Option<String>,
    /// A device to add first; what it holds is lost. May be given several times
    #[arg(short, long, value_name = "DEVICE", requires = "raid_devices")]
    add: Vec<PathBuf>,
    /// Overwrite what an added device holds; with --continue, take back members that are behind and that nobody
    /// recorded as failed
    #[arg(short, long)]
    force: bool,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: &GrowArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let wish = wished(args)?;
    let old_size = args.old_size.as_deref().map(kibibytes).transpose()?;
    let runtime = context()?;
    let mut found = match old_size {
        None => sources::choice(&runtime, paths, &args.array)?,
        Some(old) => before_enlarging(&runtime, paths, &args.array, old)?,
    };
    if attach::sets::running::client::picture(&runtime, &found)?.is_some() {
        let text = "it is served, and only a set that nobody serves is grown: stop its server first (spindle md stop)";
        return Err(Failure::failed(format!("{}: {text}", args.array)));
    }
    let takes_back = args.force && args.resume;
    if takes_back {
        found.accept_stale();
    }
    if !args.force {
        missing::refuse_histories(&found)?;
    }
    missing::tell_left_out(runtime.events(), &found);
    let set = found.set;
    if found.facts.reshape().is_some() && !args.resume {
        return Err(runtime.naming(GrowError::Reshaping { set }.into()).into());
    }
    let add = added(&runtime, args, &found)?;
    let there = found.slots.iter().flatten().chain(&found.spares);
    let there = there.chain(found.replacements.iter().map(|(_, found)| found));
    let devices: Result<Vec<DeviceRef>, attach::Error> =
        there.map(|found| live::for_writing(&runtime, Path::new(&found.name()))).collect();
    let devices = devices?;
    missing::tell_taken_back(runtime.events(), &found, true);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let (rt, unix_s) = (runtime.rt(), since.map_or(0, |since| since.as_secs()));
    let growing = async move {
        let mut found = Vec::new();
        for device in &devices {
            found.extend(find(device, old_size).await?);
        }
        let mut choice = Choice::of(set, found)?;
        if takes_back {
            choice.accept_stale();
        }
        match wish {
            Wish::Size(wish) => {
                grow::size(&rt, choice, wish, unix_s).await?;
            }
            Wish::Members(slots) if choice.facts.level() == 1 => {
                grow::mirrors(&rt, choice, slots, &add, unix_s).await?;
            }
            Wish::Members(slots) => {
                let begun = Reshape::begin(&rt, choice, slots, &add, unix_s).await?;
                reshape(begun, slots).await?;
            }
            Wish::Continue => {
                let slots = choice.facts.slots();
                reshape(Reshape::resume(&rt, choice, unix_s).await?, slots).await?;
            }
            Wish::Bitmap(chunk) => {
                let chunk = grow::add_bitmap(&rt, choice, chunk, unix_s).await?;
                return Ok(Some(format!("a write-intent bitmap now, a bit for each {chunk}")));
            }
            Wish::NoBitmap => {
                grow::remove_bitmap(&rt, choice, unix_s).await?;
                return Ok(Some("no write-intent bitmap now".to_owned()));
            }
        }
        Ok(None)
    };
    let grown = runtime.runtime().block_on(growing).expect("I/O on a real device ends");
    match grown.map_err(|error: GrowError| runtime.naming(error.into()))? {
        Some(what) => print(&format!("{} has {what}\n", args.array)),
        None => settle(&runtime, args, paths),
    }
}

/// What is asked for.
enum Wish {
    Size(SizeWish),
    Members(usize),
    Continue,
    Bitmap(Option<ByteCount>),
    NoBitmap,
}

/// The one wish of the command line.
fn wished(args: &GrowArgs) -> Result<Wish, Failure> {
    let chunk = args.bitmap_chunk.as_deref().map(kibibytes).transpose()?;
    Ok(match (&args.size, args.raid_devices, args.bitmap.as_deref()) {
        (Some(size), ..) => Wish::Size(size_wish(size)?),
        (_, Some(slots), _) => Wish::Members(slots),
        (.., Some("none")) => Wish::NoBitmap,
        (.., Some(_)) => Wish::Bitmap(chunk),
        (None, None, None) => Wish::Continue,
    })
}

/// A superblock where it lies, or where it lay before the device was enlarged.
async fn find(
    device: &DeviceRef,
    old_size: Option<ByteCount>,
) -> Result<Option<Found>, AssembleError> {
    let found = assemble::find(device).await?;
    match (found, old_size) {
        (None, Some(old)) => grow::find_at_old_end(device, old).await,
        (found, _) => Ok(found),
    }
}

/// The set that is called so, of members that were enlarged and whose superblocks lie where their ends were.
fn before_enlarging(
    runtime: &Context,
    paths: &[PathBuf],
    called: &str,
    old_size: ByteCount,
) -> Result<Choice, Failure> {
    let mut found = Vec::new();
    for path in expand(paths)? {
        let Ok(device) = sources::open(&runtime.host(), &path) else { continue };
        found.extend(runtime.finish(async move { find(&device, Some(old_size)).await })?);
    }
    Ok(sources::among(found, called)?)
}

/// Runs a reshape to its end, and says how far it is.
async fn reshape(begun: Reshape, slots: usize) -> Result<(), GrowError> {
    let (done, total) = begun.progress();
    say(&format!("reshaping to {slots} members: {done} of {total} are moved"));
    let percent =
        |done: ByteCount, total: ByteCount| done.bytes().saturating_mul(100) / total.bytes().max(1);
    let told = Cell::new(percent(done, total));
    let observe = |done: ByteCount, total: ByteCount| {
        let now = percent(done, total);
        if now >= told.get() + TOLD_EVERY_PERCENT {
            told.set(now);
            say(&format!("reshaping: {done} of {total} are moved"));
        }
    };
    begun.run(observe).await
}

/// Resynchronises and rebuilds what was grown, and tells what the set is now.
fn settle(runtime: &Context, args: &GrowArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let mut paths = expand(paths).unwrap_or_default();
    for path in &args.add {
        if !paths.iter().any(|other| same(other, path)) {
            paths.push(path.clone());
        }
    }
    let set = live::open_choice(runtime, sources::choice(runtime, &paths, &args.array)?, false)?;
    let capacity = set.device().geometry().capacity;
    let slots = set.array().members().iter().filter(|member| member.slot.is_some()).count();
    let events = runtime.events().clone();
    runtime.finish(async move {
        live::make_whole(&events, &set, SyncPriority::High).await?;
        set.stop().await
    })?;
    let members = if slots == 1 { "1 member".to_owned() } else { format!("{slots} members") };
    print(&format!("{} has {members} now and {capacity}\n", args.array))
}

/// `max`, or a size in KiB as mdadm reads it, or with a unit.
fn size_wish(text: &str) -> Result<SizeWish, Failure> {
    if text == "max" {
        return Ok(SizeWish::Max);
    }
    kibibytes(text).map(SizeWish::Of)
}

/// A size in KiB, or with a unit.
fn kibibytes(text: &str) -> Result<ByteCount, Failure> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if is_plain { format!("{text}k") } else { text.to_owned() };
    text.parse().map_err(Failure::usage)
}

/// The devices to be added: those that are not spares of the set already.
fn added(runtime: &Context, args: &GrowArgs, choice: &Choice) -> Result<Vec<NewMember>, Failure> {
    let (mut added, mut opened) = (Vec::new(), Parted::default());
    for (n, path) in args.add.iter().enumerate() {
        let is_it = |found: &&Found| same(Path::new(&found.name()), path);
        if choice.spares.iter().any(|found| is_it(&found)) {
            continue;
        }
        if choice.slots.iter().flatten().any(|found| is_it(&found)) {
            let text = "it is a member of the set already: name another";
            return Err(Failure::usage(format!("{}: {text}", path.display())));
        }
        let others = args.add[..n].iter().map(|other| other.as_path());
        expendable::check_distinct(path, others.clone())?;
        let device = opened.open_any(runtime, path, others)?;
        // What an earlier attempt left on it is no reason to ask.
        let probed = device.clone();
        let of_set = runtime.runtime().block_on(async move { assemble::find(&probed).await });
        let of_set = of_set.expect("I/O on a real device ends").ok().flatten();
        let is_left = of_set.is_some_and(|found| {
            found.superblock.set_uuid() == choice.set
                && matches!(found.superblock, Superblock::V1(_))
        });
        if !is_left {
            expendable::check_expendable_opened(runtime, path, &device, args.force)?;
        }
        added.push(NewMember { device, uuid: random::uuid()? });
    }
    Ok(added)
}
