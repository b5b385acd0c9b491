//! `spindle md assemble`: opens sets, and says with how many members, as `mdadm --assemble` does.
//!
//! Nothing stays running, and the line that is printed says so, with the command that serves the set. For writing it does at once what a running md would do beside the host's I/O: it
//! resynchronises what was not stopped cleanly, rebuilds on spares, goes on with replacements; then it closes the
//! set cleanly. With `--readonly` nothing is written: it tells whether a set could be read, and with whom.
//!
//! A set that is served runs already; that is said.
//!
//! As with mdadm a set that had more members when it was used last is not started without `--run`. Where too few are
//! left, `--force` takes back the freshest of those that failed. What is told is how the set stands when all was done.

use super::words::by_force;
use crate::events::context;
use crate::output::{Failure, print, say};
use ::md::assemble::{Choice, OpenOptions};
use ::md::live::{LiveArray, LiveError};
use ::md::{MemberState, SyncPriority};
use attach::Context;
use attach::event::Work;
use attach::sets::live::{make_whole, open_choice};
use attach::sets::missing::refuse_lacking;
use attach::sets::running::client;
use attach::sets::running::protocol::State;
use attach::sets::{name, reading, sources};
use attach::typed;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The two rules of RAID 0 over members of different sizes.
#[derive(Clone, Copy, ValueEnum)]
pub enum Raid0Layout {
    /// Kernels up to 3.13
    Original,
    /// Kernels since 3.14
    Alternate,
}

// How a set is opened.
#[derive(Args, Clone, Copy, Default)]
pub struct OpeningArgs {
    /// Open a dirty and degraded set too (stripes that were being written may be wrong), take back members that
    /// failed where too few are there (what was written since is lost or torn), and read a set that another process
    /// is writing
    #[arg(short, long)]
    pub force: bool,
    /// The rule of a RAID 0 whose members differ in size and that does not say it
    #[arg(long, value_name = "RULE")]
    pub layout: Option<Raid0Layout>,
}

impl OpeningArgs {
    /// The same for the engine.
    pub fn options(self) -> OpenOptions {
        let original = self.layout.map(|layout| matches!(layout, Raid0Layout::Original));
        OpenOptions { force: self.force, raid0_original: original }
    }
}

// What `assemble` takes.
#[derive(Args)]
pub struct AssembleArgs {
    /// The set: its name, its UUID, or the path of a member
    #[arg(required_unless_present = "scan")]
    array: Option<String>,
    /// All sets on the devices
    #[arg(short, long, conflicts_with = "array")]
    scan: bool,
    /// For reading only
    #[arg(short = 'o', long)]
    readonly: bool,
    /// Start a set too that lacks members it had when it was used last
    #[arg(short = 'R', long)]
    run: bool,
    /// As JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    opening: OpeningArgs,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: AssembleArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = context()?;
    let choices = match &args.array {
        Some(array) => vec![sources::choice(&runtime, paths, array)],
        None => sources::choices(&runtime, paths)?,
    };
    let (mut failed, mut values) = (None, Vec::new());
    for choice in choices {
        let choice = choice.map_err(Failure::from);
        let assembled = choice.and_then(|choice| {
            let own = || runtime.called(choice.set, &name::shown(&choice));
            let name = args.array.clone().unwrap_or_else(own);
            assemble(&runtime, choice, &args, paths).map_err(|failure| {
                failure.or_by_force(|| by_force(paths, "assemble", &name, " --readonly"))
            })
        });
        match assembled {
            Ok((text, _)) if !args.json => print(&text)?,
            Ok((_, value)) => values.push(value),
            // The last one is told by whoever called.
            Err(failure) => {
                if let Some(earlier) = failed.replace(failure) {
                    say(&format!("spindle: {}", earlier.message));
                }
            }
        }
    }
    if args.json {
        crate::output::print_json(&format!("{:#}\n", Value::from(values)))?;
    }
    failed.map_or(Ok(()), Err)
}

/// Opens one set and closes it. Tells what was done, for people and for machines.
fn assemble(
    runtime: &Context,
    choice: Choice,
    args: &AssembleArgs,
    paths: &[PathBuf],
) -> Result<(String, Value), Failure> {
    let next = |name: &str, flags: &str| {
        let (spindle, name) = (typed::spindle(paths), typed::quoted(name));
        format!("{spindle} md serve {name}{flags}")
    };
    let name = name::shown(&choice);
    let called = runtime.called(choice.set, &name);
    let mut value = json!({
        "device": name::device_name(&choice.facts), "uuid": choice.set.to_string(),
        "raid_devices": choice.slots.len(), "readonly": args.readonly,
    });
    if args.readonly {
        let array = reading::open(runtime, choice, args.opening.options())?;
        let standing = Standing::of(array.choice());
        value["active_devices"] = json!(standing.whole);
        let force = if args.opening.force { " --force" } else { "" };
        let next = next(&called, &format!(" --readonly{force}"));
        value["next"] = json!(next);
        return Ok((standing.told(&name, "can be read", &next), value));
    }
    if let Some(picture) = client::picture(runtime, &choice)? {
        let active =
            picture.devices.iter().filter(|one| !one.journal && one.state == State::Active);
        let active = active.count();
        value["active_devices"] = json!(active);
        value["served"] = json!(true);
        value["done"] = json!([]);
        let name = crate::printable::word(&name);
        let of = match choice.slots.len() {
            slots if slots == active => String::new(),
            slots => format!(" (out of {slots})"),
        };
        let text =
            format!("{name} is running already with {}{of}: it is served.\n", drives(active));
        return Ok((text, value));
    }
    let lacks = match refuse_lacking(&choice) {
        Err(error) if !args.run && !args.opening.force => return Err(error.into()),
        complete => complete.is_err(),
    };
    let were_apart = choice.histories().is_some();
    let set = open_choice(runtime, choice, args.opening.force)?;
    let events = runtime.events().clone();
    let (done, standing) = runtime.finish::<_, LiveError>(async move {
        let done = make_whole(&events, &set, SyncPriority::High).await?;
        if lacks || were_apart {
            // Who starts it next need not ask for that again.
            set.record_members().await?;
        }
        let standing = Standing::of_live(&set);
        set.stop().await?;
        Ok((done, standing))
    })?;
    value["active_devices"] = json!(standing.whole);
    value["done"] = json!(told(&done));
    // What it lacks is recorded: it is started without being told so.
    let next = next(&called, "");
    value["next"] = json!(next);
    Ok((standing.told(&name, "was assembled", &next), value))
}

/// What was done, in words.
pub(super) fn told(done: &[Work]) -> Vec<String> {
    done.iter().map(|work| work.done()).collect()
}

fn drives(count: usize) -> String {
    if count == 1 { "1 drive".to_owned() } else { format!("{count} drives") }
}

/// How many devices of a set stand where.
struct Standing {
    slots: usize,
    /// Members with all that they should have.
    whole: usize,
    rebuilding: usize,
    spares: usize,
    journal: bool,
}

impl Standing {
    /// Of a set that is only read.
    fn of(choice: &Choice) -> Standing {
        let slots = choice.slots.len();
        let whole = slots - choice.degraded();
        Standing {
            slots,
            whole,
            rebuilding: choice.slots.iter().flatten().count().saturating_sub(whole),
            spares: choice.spares.len(),
            journal: choice.journal.is_some(),
        }
    }

    /// Of a set that is open for writing, as it is now.
    fn of_live(set: &LiveArray) -> Standing {
        let members = set.array().members();
        let count = |state| members.iter().filter(|one| one.state == state).count();
        let in_slots = [
            MemberState::Active,
            MemberState::Rebuilding,
            MemberState::Failed,
            MemberState::Missing,
        ];
        Standing {
            slots: in_slots.into_iter().map(count).sum(),
            whole: count(MemberState::Active),
            rebuilding: count(MemberState::Rebuilding),
            spares: count(MemberState::Spare),
            journal: set.journal().is_some_and(|journal| !journal.failed),
        }
    }

    /// `/dev/md/x was assembled with 3 drives (out of 4), and is closed again. To use it: spindle …`
    fn told(&self, name: &str, how: &str, next: &str) -> String {
        let Standing { slots, whole, rebuilding, spares, journal } = *self;
        let name = crate::printable::word(name);
        let mut text = format!("{name} {how} with {}", drives(whole));
        if whole < slots {
            text += &format!(" (out of {slots})");
        }
        if rebuilding > 0 {
            text += &format!(", {rebuilding} rebuilding");
        }
        if spares > 0 {
            text += &format!(" and {spares} spare{}", if spares == 1 { "" } else { "s" });
        }
        if journal {
            text += " and 1 journal";
        }
        text + &format!(", and is closed again. To use it: {next}\n")
    }
}
