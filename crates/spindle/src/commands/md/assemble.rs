//! `spindle md assemble --readonly`: opens sets, and says with how many members, as `mdadm --assemble` does.
//!
//! Nothing stays running and nothing is written: it tells whether a set could be read, and with whom.

use super::{detail, sources, words};
use crate::commands::{Failure, print};
use ::md::assemble::{Choice, OpenArray, OpenOptions};
use clap::{Args, ValueEnum};
use host::HostRuntime;
use std::path::PathBuf;
use std::rc::Rc;

/// The two rules of RAID 0 over members of different sizes.
#[derive(Clone, Copy, ValueEnum)]
pub enum Raid0Layout {
    /// Kernels up to 3.13
    Original,
    /// Kernels since 3.14
    Alternate,
}

/// How a set is opened.
#[derive(Args, Clone, Copy, Default)]
pub struct OpeningArgs {
    /// Open a dirty and degraded set too: stripes that were being written may be wrong
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

/// What `assemble` takes.
#[derive(Args)]
pub struct AssembleArgs {
    /// The set: its name, its UUID, or the path of a member
    #[arg(required_unless_present = "scan")]
    array: Option<String>,
    /// All sets on the devices
    #[arg(short, long, conflicts_with = "array")]
    scan: bool,
    /// For reading only
    #[arg(short = 'o', long, required = true)]
    readonly: bool,
    #[command(flatten)]
    opening: OpeningArgs,
}

/// Carries out the command.
///
/// # Errors
/// With the line to print.
pub fn run(args: AssembleArgs, paths: &[PathBuf]) -> Result<(), Failure> {
    let runtime = sources::runtime()?;
    let choices = match &args.array {
        Some(array) => vec![sources::choice(&runtime, paths, array)?],
        None => sources::choices(&runtime, paths)?,
    };
    let mut failed = None;
    for choice in choices {
        match open(&runtime, choice, args.opening.options()) {
            Ok(array) => print(&started(array.choice()))?,
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Opens a set, and says who takes no part in it.
///
/// # Errors
/// With the line to print.
pub fn open(
    runtime: &HostRuntime,
    choice: Choice,
    options: OpenOptions,
) -> Result<Rc<OpenArray>, Failure> {
    detail::tell_left_out(&choice);
    let name = words::device_name(&choice.facts).unwrap_or_else(|| choice.set.to_string());
    let rt = runtime.rt();
    sources::wait(runtime, async move { OpenArray::open(&rt, &name, choice, options).await })
}

/// `/dev/md/x has been opened read-only with 3 drives (out of 4).`
fn started(choice: &Choice) -> String {
    let name = words::device_name(&choice.facts).unwrap_or_else(|| choice.set.to_string());
    let slots = choice.slots.len();
    let whole = slots - choice.degraded();
    let drives =
        |count: usize| if count == 1 { "1 drive".to_owned() } else { format!("{count} drives") };
    let rebuilding = choice.slots.iter().flatten().count().saturating_sub(whole);
    let mut text = format!("{name} has been opened read-only with {}", drives(whole));
    if whole < slots {
        text += &format!(" (out of {slots})");
    }
    if rebuilding > 0 {
        text += &format!(", {rebuilding} rebuilding");
    }
    if !choice.spares.is_empty() {
        let spares = choice.spares.len();
        text += &format!(" and {spares} spare{}", if spares == 1 { "" } else { "s" });
    }
    text + ".\n"
}
