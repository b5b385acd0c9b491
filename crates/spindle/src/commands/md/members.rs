//! Devices that come to a set and go, with mdadm's words.
//!
//! * `add`: a member that was away comes back into its slot where the bitmap tells what it missed (mdadm's
//!   --re-add); anything else becomes a spare. Then slots are rebuilt, as a running md would at once.
//! * `fail`: records that a member is not to be used any more.
//! * `remove`: forgets a spare, whose superblock is wiped, or a failed member, whose superblock stays; its number is free.
//! * `add --journal`, `fail`, `remove` of a journal: mdadm's --add-journal, and the same words. Without its journal
//!   nothing can be written to a set.
//! * `replace`: copies a member to a spare while it goes on working.
//!
//! Where the set is served its server does all this, and goes on serving: `add` and `replace` return when the device has
//! joined, and the server rebuilds beside its clients.
//!
//! Where it is not, `add` and `replace` start it, and as with `assemble` one that had more members when it was used last is
//! not started without `--run`.
//!
//! Nothing that holds something is made a spare without `--force`, unless it is an old member of the set.

use super::assemble::told;
use crate::events::context;
use crate::output::{Failure, print};
use ::md::SyncPriority;
use ::md::assemble::{self, Choice, Found, LeftOut, Why};
use ::md::live::LiveError;
use ::md::superblock::Uuid;
use attach::event::{Event, Work};
use attach::paths::absolute;
use attach::sets::missing::{not_working, refuse_lacking, refuse_lacking_beside};
use attach::sets::parted::Parted;
use attach::sets::place::same;
use attach::sets::running::client;
use attach::sets::running::protocol::{Ask, Failed, Joined, Left, Marked};
use attach::sets::{live, sources};
use attach::{Context, Error};
use attach::{expendable, random};
use clap::Args;
use host::Identity;
use rt::DeviceRef;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::rc::Rc;

// What `add` takes.
#[derive(Args)]
pub struct AddArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// The devices
    #[arg(required = true)]
    devices: Vec<PathBuf>,
    /// Only bring back members that need no whole rebuild; never make a spare
    #[arg(long)]
    re_add: bool,
    /// The device becomes the set's journal, as with mdadm --add-journal; parity is made anew before where the old
    /// one is lost
    #[arg(long, conflicts_with = "re_add")]
    journal: bool,
    /// Overwrite what the devices hold
    #[arg(short, long)]
    force: bool,
    /// Start a set too that lacks members it had when it was used last
    #[arg(short = 'R', long)]
    run: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

// What `fail` takes.
#[derive(Args)]
pub struct FailArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// The path of the member
    member: PathBuf,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

// What `remove` takes.
#[derive(Args)]
pub struct RemoveArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// The paths of the devices; the word failed stands for all that failed
    #[arg(required = true)]
    devices: Vec<PathBuf>,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

// What `replace` takes.
#[derive(Args)]
pub struct ReplaceArgs {
    /// The set: its name, its UUID, or the path of a member
    array: String,
    /// The path of the member
    member: PathBuf,
    /// The spare to copy it to; by default the first
    #[arg(long, value_name = "SPARE")]
    with: Option<PathBuf>,
    /// Start a set too that lacks members it had when it was used last
    #[arg(short = 'R', long)]
    run: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
}

/// The slot of the member at a path.
fn slot_of(choice: &Choice, member: &Path) -> Result<usize, Failure> {
    let is_it = |found: &&Found| same(Path::new(&found.name()), member);
    let mut slots = choice.slots.iter().enumerate();
    let slot = slots.find_map(|(slot, found)| found.as_ref().filter(is_it).map(|_| slot));
    let none = || Failure::usage(format!("{}: it holds no slot of the set", member.display()));
    slot.ok_or_else(none)
}

/// Carries out `add`.
///
/// # Errors
/// With the line to print.
pub fn add(args: &AddArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if args.journal && client::picture(&runtime, &choice)?.is_some() {
        let text = "it is served, and a journal joins a set that nobody writes: stop its server first (spindle md stop)";
        return Err(Failure::failed(format!("{}: {text}", args.array)));
    }
    let devices = args.devices.iter().map(|path| absolute(path)).collect();
    let ask = Ask::Add { devices, re_add: args.re_add, force: args.force };
    if !args.journal
        && let Some(joined) = client::ask::<Joined>(&runtime, &choice, ask)?
    {
        return tell_joined(args, &joined, &[]);
    }
    let set_uuid = choice.set;
    let (mut joining, mut opened) = (Vec::new(), Parted::default());
    for (n, path) in args.devices.iter().enumerate() {
        if choice.taking_part().any(|found| same(Path::new(&found.name()), path)) {
            let text = "it is a device of the set already";
            return Err(Failure::usage(format!("{}: {text}", path.display())));
        }
        let others = args.devices[..n].iter().map(|other| other.as_path());
        let device = opened.open_any(&runtime, path, others)?;
        let looked_at = Rc::clone(&device);
        // What can't be read as a member is none; whether it may be overwritten is asked next.
        let found = runtime.finish(async move { assemble::find(&looked_at).await });
        let found = found.ok().flatten().filter(|one| one.superblock.set_uuid() == set_uuid);
        if found.is_none() {
            expendable::check_expendable_opened(&runtime, path, &device, args.force)?;
        }
        joining.push((device, found, random::uuid()?));
    }
    // Without its journal such a set asks for more than that.
    if !(args.run || args.journal && choice.lacks_journal()) {
        let brought = joining.iter().filter(|(_, found, _)| found.is_some()).count();
        refuse_lacking_beside(&choice, brought)?;
    }
    if args.journal {
        return add_journal(&runtime, args, choice, joining);
    }
    let set = live::open_choice(&runtime, choice, false)?;
    let (re_add, force) = (args.re_add, args.force);
    let events = runtime.events().clone();
    let (devices, done) = runtime.finish::<_, LiveError>(async move {
        // All of them before the first one joins.
        let gone_on = |(_, found, _): &&(_, Option<Found>, _)| {
            found.as_ref().is_some_and(|found| set.has_gone_on(found))
        };
        if let Some((device, ..)) = joining.iter().find(gone_on).filter(|_| !force) {
            set.stop().await?;
            return Ok((Err(device.name()), Vec::new()));
        }
        let mut devices = Vec::new();
        for (device, found, uuid) in joining {
            let back = found.as_ref().and_then(|found| set.can_come_back(found));
            devices.push(match back {
                None if re_add => None,
                _ => Some(set.add(device, found, uuid).await?.into()),
            });
        }
        let done = live::make_whole(&events, &set, SyncPriority::High).await?;
        set.stop().await?;
        Ok((Ok(devices), done))
    })?;
    let devices = devices.map_err(|name| Error::GoneOn { device: name.to_string() })?;
    tell_joined(args, &Joined { devices }, &done)
}

/// Tells what became of the devices that were to be added.
fn tell_joined(args: &AddArgs, joined: &Joined, done: &[Work]) -> Result<(), Failure> {
    let (mut text, mut values, mut refused) = (String::new(), Vec::new(), None);
    for (path, joined) in args.devices.iter().zip(&joined.devices) {
        let name = path.display().to_string();
        let Some(joined) = joined else {
            refused = refused.or(Some(name));
            continue;
        };
        let word = if joined.slot.is_some() { "re-added" } else { "added" };
        text += &format!("{word} {name}\n");
        values.push(json!({
            "device": name, "added": word, "slot": joined.slot, "missed_bytes": joined.missed_bytes,
        }));
    }
    if args.json {
        text = format!(
            "{:#}\n",
            json!({ "array": args.array, "devices": values, "done": told(done) })
        );
    }
    print(&text)?;
    match refused {
        None => Ok(()),
        Some(name) => Err(Failure::failed(format!(
            "{name}: it can't be re-added, since no bitmap tells what it missed: add it without --re-add, and it is rebuilt whole"
        ))),
    }
}

/// Makes a device the journal.
fn add_journal(
    runtime: &Context,
    args: &AddArgs,
    choice: Choice,
    joining: Vec<(DeviceRef, Option<Found>, Uuid)>,
) -> Result<(), Failure> {
    let Ok([(device, _, uuid)]) = <[_; 1]>::try_from(joining) else {
        return Err(Failure::usage("a set has one journal: name one device"));
    };
    let lost = choice.lacks_journal();
    if lost && choice.degraded() > 0 && !args.force {
        let text = "it lacks its old journal and members too, so what was being written can't be told: bring one of them, or accept wrong data there with --force";
        return Err(Failure::failed(format!("{}: {text}", args.array)));
    }
    let set = live::open_choice(runtime, choice, lost)?;
    let name = device.name();
    let events = runtime.events().clone();
    let done = runtime.finish::<_, LiveError>(async move {
        let done = live::make_whole(&events, &set, SyncPriority::High).await?;
        set.add_journal(device, uuid).await?;
        set.stop().await?;
        Ok(done)
    })?;
    if args.json {
        let value = json!({ "array": args.array, "journal": &*name, "done": told(&done) });
        return crate::output::print_json(&format!("{value:#}\n"));
    }
    print(&format!("added {name} as journal\n"))
}

/// Carries out `fail`.
///
/// # Errors
/// With the line to print.
pub fn fail(args: &FailArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    let ask = Ask::Fail { device: absolute(&args.member) };
    if let Some(Failed { slot }) = client::ask(&runtime, &choice, ask)? {
        return tell_failed(args, slot);
    }
    if choice.spares.iter().any(|found| same(Path::new(&found.name()), &args.member)) {
        let text = "it is a spare, which nothing lies on: remove it instead (spindle md remove)";
        return Err(Failure::usage(format!("{}: {text}", args.member.display())));
    }
    let members = choice.slots.iter().enumerate();
    let members = members.filter_map(|(slot, found)| Some((found.as_ref()?, Some(slot))));
    let replacements = choice.replacements.iter().map(|(slot, found)| (found, Some(*slot)));
    let journal = choice.journal.iter().map(|found| (found, None));
    let mut all = members.chain(replacements).chain(journal);
    let own = all.find(|(found, _)| same(Path::new(&found.name()), &args.member));
    let left_out = || {
        let is_it = |left: &&LeftOut| same(Path::new(&left.found.name()), &args.member);
        choice.left_out.iter().find(is_it)
    };
    let none = || match left_out().map(|left| left.why) {
        Some(Why::Faulty) => Error::FailedAlready { path: args.member.clone() }.into(),
        Some(why) => {
            Failure::usage(Event::LeftOut { device: args.member.display().to_string(), why })
        }
        None => not_working(&args.member).into(),
    };
    let (found, slot) = own.ok_or_else(none)?;
    let number = found.superblock.device_number() as usize;
    let set = live::open_for_devices(&runtime, choice)?;
    runtime.finish(async move {
        set.fail_number(number).await?;
        set.stop().await
    })?;
    tell_failed(args, slot)
}

fn tell_failed(args: &FailArgs, slot: Option<usize>) -> Result<(), Failure> {
    if args.json {
        let member = args.member.display().to_string();
        let value = json!({ "array": args.array, "faulty": member, "slot": slot });
        return crate::output::print_json(&format!("{value:#}\n"));
    }
    print(&format!("set {} faulty in {}\n", args.member.display(), args.array))
}

/// Carries out `remove`.
///
/// # Errors
/// With the line to print.
pub fn remove(args: &RemoveArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    if let Some(left) = client::ask::<Left>(&runtime, &choice, ask_to_remove(args, &choice))? {
        return tell_removed(args, &names_of(args, &choice, &left));
    }
    let mut going: Vec<Found> = Vec::new();
    for path in &args.devices {
        let left = choice.left_out.iter().map(|left| left.found.clone());
        if is_word(path) {
            going.extend(left);
            continue;
        }
        let mut all = left.chain(choice.taking_part().cloned());
        let found = all.find(|found| same(Path::new(&found.name()), path));
        let none = || Failure::usage(format!("{}: it is no device of the set", path.display()));
        going.push(found.ok_or_else(none)?);
    }
    let set = live::open_for_devices(&runtime, choice)?;
    let names: Vec<String> = going.iter().map(Found::name).collect();
    runtime.finish(async move {
        for found in &going {
            set.remove(found).await?;
        }
        set.stop().await
    })?;
    tell_removed(args, &names)
}

/// The word that stands for all devices that failed.
fn is_word(path: &Path) -> bool {
    path.as_os_str() == "failed"
}

/// What the server of the set is to do: also with those that it never had open, for the word.
fn ask_to_remove(args: &RemoveArgs, choice: &Choice) -> Ask {
    let failed = args.devices.iter().any(|path| is_word(path));
    let named = args.devices.iter().filter(|path| !is_word(path)).map(|path| absolute(path));
    let left = choice.left_out.iter().filter(|_| failed);
    let left = left.map(|left| absolute(Path::new(&left.found.name())));
    Ask::Remove { devices: named.chain(left).collect(), failed }
}

/// The devices that left, by the paths that they were named or found by here.
fn names_of(args: &RemoveArgs, choice: &Choice, left: &Left) -> Vec<String> {
    let found = choice.left_out.iter().map(|left| PathBuf::from(left.found.name()));
    let named = args.devices.iter().filter(|path| !is_word(path)).cloned();
    let here: Vec<PathBuf> = named.chain(found).collect();
    let name = |(path, file): &(PathBuf, Option<(u64, u64)>)| {
        let is_it = |own: &&PathBuf| match file {
            Some(file) => Identity::of(own).is_ok_and(|own| own.numbers() == *file),
            None => same(own, path),
        };
        let own = here.iter().find(is_it);
        own.unwrap_or(path).display().to_string()
    };
    left.devices.iter().map(name).collect()
}

fn tell_removed(args: &RemoveArgs, names: &[String]) -> Result<(), Failure> {
    if args.json {
        let value = json!({ "array": args.array, "removed": names });
        return crate::output::print_json(&format!("{value:#}\n"));
    }
    let line = |name: &String| format!("hot removed {name} from {}\n", args.array);
    print(&names.iter().map(line).collect::<String>())
}

/// Carries out `replace`.
///
/// # Errors
/// With the line to print.
pub fn replace(args: &ReplaceArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let choice = sources::choice(&runtime, paths, &args.array)?;
    let with = args.with.as_ref().map(|path| absolute(path));
    let ask = Ask::Replace { device: absolute(&args.member), with };
    if let Some(Marked { slot }) = client::ask(&runtime, &choice, ask)? {
        if args.json {
            let value = json!({ "array": args.array, "slot": slot, "done": [] });
            return crate::output::print_json(&format!("{value:#}\n"));
        }
        let (member, array) = (args.member.display(), &args.array);
        return print(&format!("marked {member} (slot {slot} in {array}) for replacement\n"));
    }
    if !args.run {
        refuse_lacking(&choice)?;
    }
    let slot = slot_of(&choice, &args.member)?;
    let with = match &args.with {
        None => None,
        Some(path) => {
            let mut spares = choice.spares.iter().map(Found::name);
            let spare = spares.find(|name| same(Path::new(name), path));
            let none = || Failure::usage(format!("{}: it is no spare: add it", path.display()));
            Some(spare.ok_or_else(none)?)
        }
    };
    let set = live::open_choice(&runtime, choice, false)?;
    let events = runtime.events().clone();
    let done = runtime.finish::<_, LiveError>(async move {
        set.begin_replace(slot, with.as_deref()).await?;
        let done = live::make_whole(&events, &set, SyncPriority::High).await?;
        set.stop().await?;
        Ok(done)
    })?;
    if args.json {
        let value = json!({ "array": args.array, "slot": slot, "done": told(&done) });
        return crate::output::print_json(&format!("{value:#}\n"));
    }
    let member = args.member.display();
    print(&format!("replaced {member} (slot {slot} in {}); it is faulty now\n", args.array))
}
