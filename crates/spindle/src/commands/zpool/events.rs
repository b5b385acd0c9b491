//! `zpool events`: what happened to pools since they are held, in OpenZFS's words.
//!
//! Events are kept in memory by who holds a pool, a number of them; a pool that nobody holds has none.
//!
//! Source: OpenZFS, `zpool_main.c` (`zpool_do_events`).

use super::opened::no_pool;
use crate::commands::clock;
use crate::output::{Failure, print};
use crate::printable;
use ::zfs::spa::FoundPool;
use attach::pools::running::client;
use attach::pools::running::protocol::{Ask, EventPage, FieldValue, PoolEvent};
use attach::pools::{PoolPlace, Pools};
use clap::Args;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

/// How often events of several pools are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How far fields stand to the right.
const DEPTH: usize = 8;

// What `events` takes.
#[derive(Args)]
pub struct EventsArgs {
    /// All that is known of each event
    #[arg(short)]
    verbose: bool,
    /// Without headers, with tabs
    #[arg(short = 'H')]
    scripted: bool,
    /// Go on with what happens from then on
    #[arg(short)]
    follow: bool,
    /// Forget all events
    #[arg(short, conflicts_with_all = ["verbose", "scripted", "follow", "pool"])]
    clear: bool,
    /// The pool; all that are held where none is named
    pool: Option<String>,
}

/// Carries out `events`.
///
/// # Errors
/// With the line to print.
pub fn run(args: &EventsArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let chosen: Vec<Rc<FoundPool>> = match &args.pool {
        Some(name) => {
            let found = pools.named(name)?;
            vec![Rc::clone(found.ok_or_else(|| Failure::failed(no_pool(name)))?)]
        }
        None => pools.living().cloned().collect(),
    };
    if args.clear {
        let mut count = 0;
        for found in &chosen {
            count += client::ask::<usize>(&pools, found, Ask::ForgetEvents)?.unwrap_or(0);
        }
        return print(&format!("cleared {count} events\n"));
    }
    if !args.scripted {
        print(&format!("{:<30} {}\n", "TIME", "CLASS"))?;
    }
    let mut of: Vec<(Rc<FoundPool>, u64)> = chosen.into_iter().map(|found| (found, 0)).collect();
    loop {
        let waits = args.follow && of.len() == 1;
        let mut events = Vec::new();
        let mut is_held = false;
        for (found, last) in &mut of {
            is_held |= gather(&pools, found, last, waits, &mut events)?;
        }
        events.sort_by_key(|event| (event.seconds, event.nanoseconds, event.number));
        events.iter().try_for_each(|event| print(&shown(event, args)))?;
        if !args.follow || !is_held {
            return Ok(());
        }
        if !waits {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The events of a pool after the last one that is known; false where nobody holds it.
fn gather(
    pools: &Pools,
    found: &FoundPool,
    last: &mut u64,
    waits: bool,
    events: &mut Vec<PoolEvent>,
) -> Result<bool, Failure> {
    let mut waits = waits;
    loop {
        let ask = Ask::Events { after: *last, waits };
        let Some(page) = client::ask::<EventPage>(pools, found, ask)? else { return Ok(false) };
        let Some(newest) = page.events.last() else { return Ok(true) };
        // What gave way before anybody looked was not asked for.
        if page.lost > 0 && *last > 0 {
            print(&format!("dropped {} events\n", page.lost))?;
        }
        *last = newest.number;
        events.extend(page.events);
        waits = false;
    }
}

fn shown(event: &PoolEvent, args: &EventsArgs) -> String {
    let between = if args.scripted { '\t' } else { ' ' };
    let time = clock::of_event(event.seconds, event.nanoseconds);
    let mut text = format!("{time}{between}{}\n", printable::word(&event.class));
    if args.verbose {
        event.fields.iter().for_each(|(name, value)| add(&mut text, name, value, DEPTH));
        text.push('\n');
    }
    text
}

/// Adds a field, as OpenZFS writes them.
fn add(text: &mut String, name: &str, value: &FieldValue, depth: usize) {
    let name = printable::word(name);
    let is_state = matches!(&*name, "vdev_state" | "vdev_laststate");
    let value = match value {
        FieldValue::Number(number) if is_state => {
            format!("\"{}\" (0x{number:x})", state(*number))
        }
        FieldValue::Number(number) => format!("0x{number:x}"),
        FieldValue::Numbers(numbers) => numbers.iter().fold(String::new(), |mut all, number| {
            let _ = write!(all, "0x{number:x} ");
            all
        }),
        FieldValue::Text(text) => format!("\"{}\"", printable::line(text)),
        FieldValue::List(fields) => {
            let _ = writeln!(text, "{:depth$}{name} = (embedded nvlist)", "");
            fields.iter().for_each(|(name, value)| add(text, name, value, depth + DEPTH));
            let _ = writeln!(text, "{:depth$}(end {name})", "");
            return;
        }
    };
    let _ = writeln!(text, "{:depth$}{name} = {value}", "");
}

/// The name of a vdev's state, by its number in OpenZFS.
fn state(number: u64) -> &'static str {
    match number {
        1 | 2 => "OFFLINE",
        3 => "REMOVED",
        4 => "UNAVAIL",
        5 => "FAULTED",
        6 => "DEGRADED",
        7 => "ONLINE",
        _ => "UNKNOWN",
    }
}
