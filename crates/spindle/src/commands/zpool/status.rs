//! `zpool status`: how pools and their devices are, what goes on in them, and what to do.
//!
//! Errors of reading, writing and checksums are those that who holds the pool has counted; of one that nobody holds they are zero. What
//! scrubs found is in the log of errors, and is counted. Of a pool whose devices can't be reached (exports that nobody serves, too few of
//! them to open it) only who holds it can tell: it is asked.
//!
//! Source: OpenZFS 2.3, `zpool_main.c`.

mod held;
mod rows;

use self::held::HeldPool;
use self::rows::{Form, Rows, count, head, troubles_json, vdev};
use super::get::pool;
use super::list::{auxiliary, class_name, spare_state, vdev_info};
use super::opened::{All, Opened, by_name, no_pool};
use super::reason::{self, Reason, troubles};
use super::tree::{self, CLASSES, Naming};
use crate::commands::clock;
use crate::commands::elsewhere::say_others_than_pools;
use crate::commands::zfs::json;
use crate::events::refuse_denied;
use crate::output::{Failure, print, print_json};
use crate::printable;
use attach::pools::{PoolPlace, Pools};
use clap::Args;
use serde_json::{Map, Value};
use std::fmt::Write;
use zfs::health::{Health, VdevHealth};
use zfs::show;
use zfs_format::dsl::scan::Scan;
use zfs_format::vdev::{Rebuild, VdevKind};
use zfs_store::alloc::Class;

/// The names' column is at least so wide.
const NAME_MIN: usize = 10;

#[derive(Args)]
pub struct StatusArgs {
    /// With the list of damaged objects
    #[arg(short = 'v')]
    verbose: bool,
    /// Devices by their whole paths
    #[arg(short = 'P')]
    paths: bool,
    /// Vdevs by their GUIDs
    #[arg(short = 'g')]
    guids: bool,
    /// Numbers in full
    #[arg(short = 'p')]
    literal: bool,
    /// Only pools with troubles
    #[arg(short = 'x')]
    troubled: bool,
    /// As JSON
    #[arg(short = 'j', long = "json")]
    json: bool,
    /// Numbers as numbers, with -j
    #[arg(long = "json-int", requires = "json")]
    numbers: bool,
    /// Pools by their GUIDs, with -j
    #[arg(long = "json-pool-key-guid", requires = "json")]
    by_guid: bool,
    /// Pools, all where none are named; then seconds between reports, and how many
    #[arg(value_name = "POOL... [INTERVAL [COUNT]]")]
    pub names: Vec<String>,
}

pub fn run(args: &StatusArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    let pools = Pools::find(place)?;
    let (all, held) = Opened::all_and_held(&pools, &args.names, no_pool)?;
    let All { opened, lost, failed } = all;
    let clock = clock::local();
    let naming = Naming { paths: args.paths, guids: args.guids, missing_by_guid: true };
    let (mut text, mut objects) = (String::new(), Vec::new());
    let mut shown = 0;
    for one in &opened {
        let reason = reason::of_open(one);
        if args.troubled && !reason.is_trouble() {
            if !args.names.is_empty() && !args.json {
                let _ = writeln!(text, "pool '{}' is healthy", printable::word(&one.view.name));
            }
            continue;
        }
        let width = tree::width(&one.health, Some(&one.view.name), 0, &one.devices, naming);
        let spare_width =
            |width: usize, vdev| width.max(tree::shown(vdev, 0, &one.devices, naming).len() + 2);
        let width = one.state.spares.iter().chain(&one.state.cache).fold(width, spare_width);
        let literal = args.literal || args.numbers;
        let form = Form {
            naming,
            verbose: args.verbose,
            width: width.max(NAME_MIN),
            literal,
            numbers: args.numbers,
            clock: &clock,
        };
        if args.json {
            objects.push((&*one.view.name, one.view.guid, as_json(one, reason, &form)));
        } else {
            if shown > 0 {
                text.push('\n');
            }
            let damaged = if args.verbose { one.damaged(&pools) } else { Vec::new() };
            as_text(&mut text, one, reason, &damaged, &form);
        }
        shown += 1;
    }
    for picture in &held {
        let Some(one) = HeldPool::of(picture) else { continue };
        let reason = one.reason();
        if args.troubled && !reason.is_trouble() {
            continue;
        }
        let width = tree::width(&one.health, Some(&picture.name), 0, &one.devices, naming);
        let form = Form {
            naming,
            verbose: args.verbose,
            width: width.max(NAME_MIN),
            literal: args.literal || args.numbers,
            numbers: args.numbers,
            clock: &clock,
        };
        if args.json {
            objects.push((&*picture.name, picture.guid, one.as_json(&form)));
        } else {
            if !text.is_empty() {
                text.push('\n');
            }
            one.as_text(&mut text, &form);
        }
        shown += 1;
    }
    if args.json {
        let mut object = json::schema("zpool status");
        object.insert("pools".to_owned(), Value::Object(by_name(objects, args.by_guid)));
        print_json(&json::line(object))?;
    } else {
        for found in &lost {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&super::import::described(&pools, found));
        }
        if opened.is_empty() && held.is_empty() && !failed {
            text.push_str("no pools available\n");
            say_others_than_pools(pools.disks(), place.devices);
        } else if args.troubled && args.names.is_empty() && shown == 0 && !failed {
            text.push_str("all pools are healthy\n");
        }
        print(&text)?;
    }
    if failed { Err(Failure::said()) } else { refuse_denied(pools.disks().context()) }
}

// Writing to a string can't fail.
fn as_text(out: &mut String, one: &Opened, reason: Reason, damaged: &[Vec<u8>], form: &Form<'_>) {
    let _ =
        write!(out, "  pool: {}\n state: {}\n", printable::word(&one.view.name), one.view.health);
    troubles(out, reason, &one.lost());
    for note in one.lacking.notes(&one.health, &one.devices) {
        let _ = writeln!(out, "  note: {}", printable::line(&note));
    }
    if let Some(waits) = one.state.unreadable_trees {
        let _ = writeln!(
            out,
            "  note: {} of what was destroyed wait to be freed, and not all can be: blocks that say where it lies can't be read",
            show::bytes(waits)
        );
    }
    scans(out, one, form);
    removal(out, one, form);
    let space = &one.view.space;
    if let Some(made) = one.state.checkpoint_time {
        let (date, held) = (show::date(made, form.clock), show::count(space.checkpoint));
        let _ = writeln!(out, "checkpoint: created {date}, consumes {held}");
    } else if one.state.discarding {
        let held = show::count(space.checkpoint);
        let _ = writeln!(out, "checkpoint: discarding, {held} remaining.");
    }
    expansion(out, one, form);
    head(out, form);
    vdev(out, one.rows(), &one.health, Some(&one.view.name), 0, form);
    for (of, name) in CLASSES {
        let tops = tree::of_class(&one.health, of);
        if !tops.is_empty() {
            let _ = writeln!(out, "\t{name}\t");
        }
        tops.iter().for_each(|top| vdev(out, one.rows(), top, None, 2, form));
    }
    if !one.state.cache.is_empty() {
        out.push_str("\tcache\n");
        let cache = one.state.cache.iter().map(|device| auxiliary(one, device));
        cache.for_each(|node| vdev(out, one.rows(), &node, None, 2, form));
    }
    if !one.state.spares.is_empty() {
        out.push_str("\tspares\n");
        for device in &one.state.spares {
            let node = auxiliary(one, device);
            let name = tree::shown(device, 0, &one.devices, form.naming);
            let state = spare_state(one, &node);
            let width = form.width - 2;
            let _ = write!(out, "\t  {name:<width$}  {state:<8}");
            let why = if state == "INUSE" { "  currently in use" } else { "" };
            let _ = writeln!(out, "{}", if node.cause.is_some() { "  cannot open" } else { why });
        }
    }
    match one.state.errors {
        0 if one.health.health == Health::Unavailable => {
            out.push_str("\nerrors: Not known: too many devices are missing or cut short\n");
        }
        0 if reason == Reason::Lost => {
            let pool = printable::word(&one.view.name);
            let _ = writeln!(
                out,
                "\nerrors: Not known: 'zpool scrub --read-only {pool}' names the files that can't be had"
            );
        }
        0 => out.push_str("\nerrors: No known data errors\n"),
        many if !form.verbose => {
            let _ = writeln!(out, "\nerrors: {many} data errors, use '-v' for a list");
        }
        _ => {
            let head = "Permanent errors have been detected in the following files:";
            let _ = writeln!(out, "\nerrors: {head}\n");
            for place in damaged {
                let _ = writeln!(out, "        {}", printable::bytes(place));
            }
        }
    }
}

impl Opened {
    fn rows(&self) -> Rows<'_> {
        Rows { devices: &self.devices, errors: &self.errors, lacking: &self.lacking }
    }
}

/// Errors of a vdev: reads, writes, checksums.
fn errors_of(one: &Opened, node: &VdevHealth) -> [u64; 3] {
    one.errors.get(&node.vdev.guid).copied().unwrap_or_default()
}

fn scans(out: &mut String, one: &Opened, form: &Form<'_>) {
    let state = &one.state;
    let scan = state.scan.as_ref();
    if let Some(scrub) = scan.filter(|scan| scan.function == 1 && scan.state != 0) {
        scan_text(out, scrub, form);
    }
    let resilver = scan.filter(|scan| scan.function == 2 && scan.state != 0);
    let resilvered = resilver.map_or(0, |scan| scan.end_time);
    let active = state.rebuilds.iter().find(|(_, rebuild)| rebuild.state == 1);
    let complete = state.rebuilds.iter().filter(|(_, rebuild)| rebuild.state == 3);
    let rebuilt = complete.map(|(_, rebuild)| rebuild.end_time).max().unwrap_or(0);
    let resilvering = resilver.is_some_and(|scan| scan.state == 1);
    if let Some(scan) = resilver
        && (resilvering || active.is_none() && resilvered > rebuilt)
    {
        scan_text(out, scan, form);
    } else if active.is_some() || rebuilt > resilvered {
        for (id, rebuild) in state.rebuilds.iter().filter(|(_, rebuild)| rebuild.state != 0) {
            rebuild_text(out, one, *id, rebuild, form);
        }
    }
    if let (Some(made), Some(scan)) = (state.checkpoint_time, scan.filter(|scan| scan.state != 0))
        && (scan.state == 1 || scan.end_time >= made)
    {
        let word = if scan.state == 1 { "skipping" } else { "skipped" };
        let _ = writeln!(
            out,
            "    scan warning: {word} blocks that are only referenced by the checkpoint."
        );
    }
}

fn scan_text(out: &mut String, scan: &Scan, form: &Form<'_>) {
    let date = |at| show::date(at, form.clock);
    let is_scrub = scan.function == 1;
    let (word, did) = if is_scrub { ("scrub", "repaired") } else { ("resilver", "resilvered") };
    let processed = show::bytes(scan.processed);
    match scan.state {
        2 => {
            let span = show::span(scan.end_time.saturating_sub(scan.start_time));
            let what = if is_scrub {
                format!("scrub repaired {processed}")
            } else {
                format!("resilvered {processed}")
            };
            let (errors, when) = (scan.errors, date(scan.end_time));
            let _ = writeln!(out, "  scan: {what} in {span} with {errors} errors on {when}");
        }
        3 => {
            let _ = writeln!(out, "  scan: {word} canceled on {}", date(scan.end_time));
        }
        _ => {
            let _ = writeln!(out, "  scan: {word} in progress since {}", date(scan.start_time));
            let (done, all) = (show::bytes(scan.examined), show::bytes(scan.to_examine));
            let rest = scan.to_examine.saturating_sub(scan.skipped);
            let percent = 100.0 * scan.examined as f64 / rest.max(1) as f64;
            let _ = writeln!(out, "\t{done} / {all} scanned");
            let _ = writeln!(
                out,
                "\t{processed} {did}, {percent:.2}% done, no estimated completion time"
            );
        }
    }
}

fn rebuild_text(out: &mut String, one: &Opened, id: u64, rebuild: &Rebuild, form: &Form<'_>) {
    let top = one.health.children.iter().find(|top| top.vdev.id == id);
    let name = top.map_or(format!("vdev {id}"), |top| {
        tree::shown(&top.vdev, top.children.len(), &one.devices, form.naming)
    });
    let date = |at| show::date(at, form.clock);
    let bytes = show::bytes(rebuild.bytes_rebuilt);
    let _ = match rebuild.state {
        3 => {
            let (span, errors) = (show::span(rebuild.scan_time_ms / 1000), rebuild.errors);
            let when = date(rebuild.end_time);
            writeln!(
                out,
                "  scan: resilvered ({name}) {bytes} in {span} with {errors} errors on {when}"
            )
        }
        2 => writeln!(out, "  scan: resilver ({name}) canceled on {}", date(rebuild.end_time)),
        _ => {
            let (done, all) =
                (show::bytes(rebuild.bytes_scanned), show::bytes(rebuild.bytes_estimated));
            let since = date(rebuild.start_time);
            let _ = writeln!(out, "  scan: resilver ({name}) in progress since {since}");
            let share =
                rebuild.bytes_scanned as f64 * 100.0 / (rebuild.bytes_estimated as f64 + 1.0);
            let _ = writeln!(out, "\t{done} / {all} scanned");
            let share = share.min(100.0);
            writeln!(out, "\t{bytes} resilvered, {share:.2}% done, no estimated completion time")
        }
    };
}

fn removal(out: &mut String, one: &Opened, form: &Form<'_>) {
    let Some(removal) = one.state.removal.as_ref().filter(|removal| removal.state != 0) else {
        return;
    };
    let date = |at| show::date(at, form.clock);
    let copied = show::count(removal.copied);
    let _ = match removal.state {
        2 => {
            let minutes = removal.end_time.saturating_sub(removal.start_time) / 60;
            let (hours, minutes) = (minutes / 60, minutes % 60);
            let (vdev, when) = (removal.vdev, date(removal.end_time));
            writeln!(
                out,
                "remove: Removal of vdev {vdev} copied {copied} in {hours}h{minutes}m, completed on {when}"
            )
        }
        3 => writeln!(
            out,
            "remove: Removal of vdev {} canceled on {}",
            removal.vdev,
            date(removal.end_time)
        ),
        _ => {
            let all = show::count(removal.to_copy);
            let share = 100.0 * removal.copied as f64 / removal.to_copy.max(1) as f64;
            let (vdev, since) = (removal.vdev, date(removal.start_time));
            let _ = writeln!(out, "remove: Evacuation of vdev {vdev} in progress since {since}");
            writeln!(out, "\t{copied} copied out of {all}, {share:.2}% done")
        }
    };
    if one.state.mapping_bytes > 0 {
        let bytes = show::count(one.state.mapping_bytes);
        let _ = writeln!(out, "\t{bytes} memory used for removed device mappings");
    }
}

fn expansion(out: &mut String, one: &Opened, form: &Form<'_>) {
    let Some(expansion) = one.state.expansion else { return };
    let top = one.health.children.iter().find(|top| top.vdev.id == expansion.vdev);
    let name = top.map_or(format!("vdev {}", expansion.vdev), |top| {
        tree::shown(&top.vdev, top.children.len(), &one.devices, Naming::default())
    });
    let date = |at| show::date(at, form.clock);
    let copied = show::count(expansion.copied);
    let _ = match expansion.state {
        2 => {
            let span = show::span(expansion.end_time.saturating_sub(expansion.start_time));
            let when = date(expansion.end_time);
            writeln!(out, "expand: expanded {name} copied {copied} in {span}, on {when}")
        }
        _ => {
            let since = date(expansion.start_time);
            let _ = writeln!(out, "expand: expansion of {name} in progress since {since}");
            writeln!(out, "\t{copied} copied")
        }
    };
}

fn as_json(one: &Opened, reason: Reason, form: &Form<'_>) -> Map<String, Value> {
    let mut object = pool(one, false, form.numbers);
    troubles_json(&mut object, reason);
    let lost = one.lacking.lost_json(&one.health, &one.devices);
    if !lost.is_empty() {
        object.insert("lost".to_owned(), lost.into());
    }
    if let Some(apart) = one.lacking.apart_json(&one.health, &one.devices) {
        object.insert("apart".to_owned(), apart);
    }
    if let Some(waits) = one.state.unreadable_trees {
        object.insert("freeing_unreadable".to_owned(), bytes(waits, form));
    }
    if let Some(scan) = one.state.scan.as_ref().filter(|scan| scan.function != 0) {
        object.insert("scan_stats".to_owned(), scan_json(scan, form));
    }
    if one.state.checkpoint_time.is_some() || one.state.discarding {
        let mut checkpoint = Map::new();
        let state = if one.state.discarding { "DISCARDING" } else { "EXISTS" };
        checkpoint.insert("state".to_owned(), state.into());
        let made = one.state.checkpoint_time.unwrap_or(0);
        checkpoint.insert("start_time".to_owned(), time(made, form));
        let space = one.view.space.checkpoint;
        checkpoint.insert("space".to_owned(), bytes(space, form));
        object.insert("checkpoint_stats".to_owned(), Value::Object(checkpoint));
    }
    let root = node_json(one, &one.health, Some(&one.view.name), "normal", form);
    object.insert("vdevs".to_owned(), Value::Object(root.into_iter().collect()));
    for (of, name) in CLASSES {
        let tops = tree::of_class(&one.health, of).into_iter();
        let tops: Map<String, Value> =
            tops.filter_map(|top| node_json(one, top, None, class_name(of), form)).collect();
        if !tops.is_empty() {
            object.insert(name.to_owned(), Value::Object(tops));
        }
    }
    let cache = one.state.cache.iter().map(|device| auxiliary(one, device));
    let cache: Map<String, Value> =
        cache.filter_map(|node| node_json(one, &node, None, "l2cache", form)).collect();
    if !cache.is_empty() {
        object.insert("l2cache".to_owned(), Value::Object(cache));
    }
    let mut spares = Map::new();
    for device in &one.state.spares {
        let node = auxiliary(one, device);
        let name = tree::name(device, 0, &one.devices, form.naming);
        let mut spare = vdev_info(one, &node, &name, "spare", form.numbers);
        spare.insert("state".to_owned(), spare_state(one, &node).into());
        spares.insert(name, Value::Object(spare));
    }
    if !spares.is_empty() {
        object.insert("spares".to_owned(), Value::Object(spares));
    }
    object.insert("error_count".to_owned(), count(one.state.errors, form));
    object
}

fn bytes(number: u64, form: &Form<'_>) -> Value {
    let text = if form.literal { number.to_string() } else { show::bytes(number) };
    json::value(&text, form.numbers)
}

fn time(at: u64, form: &Form<'_>) -> Value {
    match (form.literal, at) {
        (true, _) => json::value(&at.to_string(), form.numbers),
        (false, 0) => "-".into(),
        (false, _) => show::date(at, form.clock).into(),
    }
}

fn scan_json(scan: &Scan, form: &Form<'_>) -> Value {
    const FUNCTIONS: [&str; 4] = ["NONE", "SCRUB", "RESILVER", "ERRORSCRUB"];
    const STATES: [&str; 5] = ["NONE", "SCANNING", "FINISHED", "CANCELED", "ERRORSCRUBBING"];
    let word = |words: &[&'static str], code: u64| {
        usize::try_from(code).ok().and_then(|code| words.get(code).copied()).unwrap_or("NONE")
    };
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("function", word(&FUNCTIONS, scan.function).into());
    put("state", word(&STATES, scan.state).into());
    put("start_time", time(scan.start_time, form));
    put("end_time", time(scan.end_time, form));
    put("to_examine", bytes(scan.to_examine, form));
    put("examined", bytes(scan.examined, form));
    put("skipped", bytes(scan.skipped, form));
    put("processed", bytes(scan.processed, form));
    put("errors", count(scan.errors, form));
    Value::Object(object)
}

fn node_json(
    one: &Opened,
    node: &VdevHealth,
    pool: Option<&str>,
    class: &str,
    form: &Form<'_>,
) -> Option<(String, Value)> {
    if matches!(node.vdev.kind, VdevKind::Indirect(_) | VdevKind::Hole) {
        return None;
    }
    let name = match pool {
        Some(pool) => pool.to_owned(),
        None => tree::name(&node.vdev, node.children.len(), &one.devices, form.naming),
    };
    let mut object = vdev_info(one, node, &name, class, form.numbers);
    let vdevs = one.spa.vdevs();
    let space = vdevs.children.iter().find(|top| top.guid == node.vdev.guid);
    let space = space.and_then(|top| one.view.space.vdevs.get(&top.id));
    let (allocated, size, deflated) = match (pool, space) {
        (Some(_), _) => {
            let all = &one.view.space;
            let deflated = all.vdevs.values().map(|one| one.deflated).sum();
            (all.allocated, all.size, deflated)
        }
        (None, Some(space)) => (space.allocated, space.size, space.deflated),
        (None, None) => (0, 0, 0),
    };
    let physical = one.sizes.get(&node.vdev.guid).copied().filter(|_| node.vdev.is_leaf());
    for (name, number) in [
        ("alloc_space", allocated),
        ("total_space", size),
        ("def_space", deflated),
        ("phys_space", physical.unwrap_or(0)),
    ] {
        if number != 0 {
            object.insert(name.to_owned(), bytes(number, form));
        }
    }
    let names = ["read_errors", "write_errors", "checksum_errors"];
    for (name, errors) in names.into_iter().zip(errors_of(one, node)) {
        object.insert(name.to_owned(), count(errors, form));
    }
    if let Some(groups) = one.lacking.as_json(node) {
        object.insert("lacks_groups".to_owned(), groups);
    }
    if node.children.is_empty() {
        object.insert("slow_ios".to_owned(), count(0, form));
    }
    if let (true, Some(path), Health::Unavailable) =
        (node.vdev.is_leaf(), &node.vdev.path, node.health)
    {
        object.insert("not_present".to_owned(), json::value("1", form.numbers));
        object.insert("was".to_owned(), path.to_string().into());
    }
    let below = node
        .children
        .iter()
        .filter(|child| pool.is_none() || Class::of(&child.vdev) == Class::Normal);
    let below = below.filter_map(|child| node_json(one, child, None, class, form));
    let below: Map<String, Value> = below.collect();
    if !below.is_empty() {
        object.insert("vdevs".to_owned(), Value::Object(below));
    }
    Some((name, Value::Object(object)))
}
