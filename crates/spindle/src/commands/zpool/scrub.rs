//! `zpool scrub --read-only`: every copy of every block is read and checked; nothing is written.
//!
//! While it runs it shows its rate and the time left; in the end what it scanned, errors by device, and what is damaged, by the
//! names of datasets and files: of all that have the damaged block ([`sharing`]), blocks that follow one another in one line. The status is 1 if anything can't be had, 0 also where some copies are wrong and others
//! stand in for them: the table of devices shows that.

mod sharing;

use super::lacking::Lacking;
use super::opened;
use super::reason::{Reason, troubles};
use super::tree::{self, Devices, Naming};
use crate::commands::progress::BytesProgress;
use crate::commands::zfs::json::put_bytes;
use crate::output::{Failure, print, print_json, say};
use crate::printable;
use attach::pools::{PoolPlace, Pools};
use clap::Args;
use serde_json::{Value, json};
use sharing::Sharing;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;
use zfs::health::{self, VdevHealth as PoolHealth};
use zfs::inspect::names::Names;
use zfs::inspect::scrub::Scrubbed;
use zfs::show;
use zfs::spa::{FoundPool, Spa};
use zfs::zpl::FileSystem;
use zfs_format::vdev::VdevKind;
use zfs_store::{Bookmark, VdevHealth, VdevReport};

#[derive(Args)]
pub struct ScrubArgs {
    /// Check, and repair nothing: the only way there is yet
    #[arg(long)]
    read_only: bool,
    /// As JSON
    #[arg(short = 'j', long = "json")]
    json: bool,
    /// The pool
    pool: String,
}

/// Characters of the column of names at least, as `zpool status` has it.
const NAME_MIN: usize = 10;

/// A damaged block, named.
struct Named {
    at: Bookmark,
    dataset: String,
    path: Option<Vec<u8>>,
    /// Where its bytes begin in the object; nothing of metadata above the data.
    offset: Option<u64>,
    length: u64,
    why: String,
}

pub fn run(args: &ScrubArgs, place: &PoolPlace<'_>) -> Result<(), Failure> {
    if !args.read_only {
        return Err(Failure::usage(
            "'zpool scrub' can't repair here: zpool scrub --read-only looks for damage, zfs cp -r copies files out, and OpenZFS, \
             which imports the pool, repairs",
        ));
    }
    let pools = Pools::find(place)?;
    let no_pool = || Failure::failed(opened::no_pool(&args.pool));
    let found = Rc::clone(pools.named(&args.pool)?.ok_or_else(no_pool)?);
    let spa = pools.open_found(&found)?;
    let (names, _) = opened::devices(&pools, &found);
    let pool = Rc::clone(&spa);
    let state = pools.wait(async move { pool.state().await });
    if state.is_ok_and(|state| state.checkpoint_time.is_some() || state.discarding) {
        let name = printable::word(spa.name());
        let text = "will not scrub state that belongs to the checkpoint of pool";
        say(&format!("warning: {text} '{name}'"));
    }
    let pool = Rc::clone(&spa);
    let (scrubbed, took) = pools.wait(async move {
        // Only a measure of how far it is: without it the bar ends early or late.
        let total = pool.space().await.map_or(0, |space| space.allocated);
        let mut bar = BytesProgress::new(pool.name(), total);
        let scrubbed = pool.scrub(|progress| bar.at(progress.allocated)).await;
        (scrubbed, bar.finish())
    });
    let pool = Rc::clone(&spa);
    let present = found.present();
    let (scrubbed, named, is_cut, health) = pools.wait(async move {
        let (named, is_cut) = named(&pool, &scrubbed).await;
        let health = pool.classified().await.map(|root| health::of_pool(&root, &present, false));
        (scrubbed, named, is_cut, health)
    });
    let health = health.map_err(|error| Failure::failed(format!("'{}': {error}", spa.name())))?;
    let report = spa.tree().report();
    let whole = scrubbed.is_whole();
    if args.json {
        print_json(&as_json(&spa, &scrubbed, &named, &report, took, &names))?;
    } else {
        let about = About {
            pools: &pools,
            spa: &spa,
            found: &found,
            scrubbed: &scrubbed,
            named: &named,
            is_cut,
            took,
        };
        print(&as_text(&about, &report, &health, &names))?;
    }
    match whole {
        true => Ok(()),
        false => Err(Failure::failed(format!("pool '{}' has damaged blocks", spa.name()))),
    }
}

/// Finds names for what is damaged, by all datasets that have it; and whether there may be more of those.
async fn named(spa: &Spa, scrubbed: &Scrubbed) -> (Vec<Named>, bool) {
    if scrubbed.damaged.is_empty() {
        return (Vec::new(), false);
    }
    let mut names = Names::of(spa).await;
    let datasets = Rc::clone(names.datasets());
    let known = scrubbed.damaged.iter().map(|damaged| damaged.at).collect();
    let mut sharing = Sharing::new(spa, &datasets, known);
    let mut all = Vec::with_capacity(scrubbed.damaged.len());
    for damaged in &scrubbed.damaged {
        all.push((damaged.at, damaged));
        let others = sharing.others(damaged.at, &damaged.pointer).await;
        all.extend(others.into_iter().map(|at| (at, damaged)));
    }
    all.sort_by_key(|(at, _)| *at);
    let is_cut = sharing.is_cut();
    let mut named = Vec::with_capacity(scrubbed.damaged.len());
    for (at, damaged) in all {
        let dataset = datasets.get(&at.objset).cloned();
        let dataset = dataset.unwrap_or_else(|| format!("dataset {}", at.objset));
        let path = names.path(at.objset, at.object).await;
        let length = damaged.pointer.logical_size();
        let block_bytes = match names.system(at.objset).await {
            Some(system) => block_bytes(&system, at.object).await,
            None => Some(length),
        };
        // Of a table of objects, and of an attribute block beside a file, it would say nothing.
        let is_data = at.level == 0 && at.object != 0 && at.block != u64::MAX;
        let offset = block_bytes.filter(|_| is_data);
        named.push(Named {
            at,
            dataset,
            path,
            offset: offset.map(|bytes| bytes.saturating_mul(at.block)),
            length,
            why: damaged.kind.to_string(),
        });
    }
    (named, is_cut)
}

async fn block_bytes(system: &FileSystem, object: u64) -> Option<u64> {
    Some(system.objset().dnode(object).await.ok()?.block_bytes())
}

/// Damaged blocks that follow one another in an object, and of which nothing differs but the place.
struct Run<'a> {
    first: &'a Named,
    last: &'a Named,
    blocks: u64,
}

impl Run<'_> {
    /// Those that blocks in the order of their places come to.
    fn of(named: &[Named]) -> Vec<Run<'_>> {
        let mut runs: Vec<Run<'_>> = Vec::new();
        for one in named {
            match runs.last_mut().filter(|run| run.goes_on_with(one)) {
                Some(run) => (run.last, run.blocks) = (one, run.blocks + 1),
                None => runs.push(Run { first: one, last: one, blocks: 1 }),
            }
        }
        runs
    }

    fn goes_on_with(&self, next: &Named) -> bool {
        let of = |one: &Named| Bookmark { block: 0, ..one.at };
        let follows = match (self.last.offset, next.offset) {
            (Some(at), Some(next)) => at.saturating_add(self.last.length) == next,
            (None, None) => self.last.at.block.checked_add(1) == Some(next.at.block),
            _ => false,
        };
        of(self.last) == of(next) && follows && self.last.why == next.why
    }

    fn place(&self) -> String {
        let Named { dataset, path, offset, .. } = self.first;
        let Bookmark { object, level, block, .. } = self.first.at;
        let mut text = match path {
            Some(path) => printable::bytes(&[dataset.as_bytes(), b":", path].concat()),
            None => format!("{}:<{object:#x}>", printable::word(dataset)),
        };
        let blocks = self.blocks;
        let _ = match (offset, self.last.offset) {
            (Some(offset), Some(last)) => {
                let end = last.saturating_add(self.last.length);
                write!(text, " bytes {offset} to {end}")
            }
            _ if blocks > 1 => {
                write!(text, " level {level} blocks {block} to {}", self.last.at.block)
            }
            _ => write!(text, " level {level} block {block}"),
        };
        if blocks > 1 {
            let _ = write!(text, " ({blocks} blocks)");
        }
        text
    }
}

/// A leaf's name: where the device is, or was.
fn name_of(vdev: &VdevReport, names: &BTreeMap<u64, String>) -> String {
    let kind = match &vdev.kind {
        VdevKind::Raidz(raidz) => format!("raidz{}", raidz.parity),
        VdevKind::Draid(draid) => format!("draid{}", draid.parity),
        other => format!("{other:?}").to_lowercase(),
    };
    let kind = kind.split(['(', ' ']).next().unwrap_or_default();
    match names.get(&vdev.guid) {
        Some(name) => name.clone(),
        None if vdev.children.is_empty() => {
            vdev.path.as_ref().map_or_else(|| vdev.guid.to_string(), ToString::to_string)
        }
        None => format!("{kind}-{}", vdev.id),
    }
}

/// A state in OpenZFS's words.
fn state(health: VdevHealth) -> String {
    match health {
        VdevHealth::Unavailable => "UNAVAIL".to_owned(),
        other => format!("{other:?}").to_uppercase(),
    }
}

/// What the text is about.
struct About<'a> {
    pools: &'a Pools,
    spa: &'a Spa,
    found: &'a FoundPool,
    scrubbed: &'a Scrubbed,
    named: &'a [Named],
    /// Whether not all datasets were looked at that may have the damaged blocks.
    is_cut: bool,
    took: std::time::Duration,
}

/// Errors of a vdev and those below it, by their GUIDs: reads that failed and wrong checksums.
fn errors_of(report: &[VdevReport], into: &mut BTreeMap<u64, (u64, u64)>) {
    for vdev in report {
        into.insert(vdev.guid, (vdev.errors.read, vdev.errors.checksum));
        errors_of(&vdev.children, into);
    }
}

/// Devices that failed to give what they should have.
fn wrong_leaves(report: &[VdevReport]) -> usize {
    let wrong = |vdev: &VdevReport| match vdev.children.is_empty() {
        true => usize::from(vdev.errors.read > 0 || vdev.errors.checksum > 0),
        false => wrong_leaves(&vdev.children),
    };
    report.iter().map(wrong).sum()
}

/// Copies that leaves lack, by their GUIDs.
fn lacking_of(report: &[VdevReport], into: &mut BTreeMap<u64, u64>) {
    for vdev in report {
        if vdev.lacking > 0 {
            into.insert(vdev.guid, vdev.lacking);
        }
        lacking_of(&vdev.children, into);
    }
}

/// The lines of the vdevs, as `zpool status` has them.
struct Table<'a> {
    width: usize,
    errors: BTreeMap<u64, (u64, u64)>,
    /// Copies that leaves lack.
    copies: BTreeMap<u64, u64>,
    /// Groups of which they do.
    lacking: Lacking,
    devices: &'a Devices,
    naming: Naming,
}

impl Table<'_> {
    fn line(&self, out: &mut String, name: &str, state: &str, depth: usize, counts: [&str; 3]) {
        let width = self.width.saturating_sub(depth);
        let [read, write, checksum] = counts;
        let _ = write!(
            out,
            "\t{:depth$}{name:<width$}  {state:<8} {read:>5} {write:>5} {checksum:>5}",
            ""
        );
    }

    fn vdev(&self, out: &mut String, node: &PoolHealth, depth: usize) {
        if matches!(node.vdev.kind, VdevKind::Indirect(_) | VdevKind::Hole) {
            return;
        }
        let name = tree::shown(&node.vdev, node.children.len(), self.devices, self.naming);
        let (read, checksum) = self.errors.get(&node.vdev.guid).copied().unwrap_or_default();
        let (read, checksum) = (show::count(read), show::count(checksum));
        self.line(out, &name, node.health.name(), depth, [&read, "0", &checksum]);
        if let Some(note) = self.lacking.note(node) {
            let _ = write!(out, "  {note}");
        }
        if let Some(copies) = self.copies.get(&node.vdev.guid) {
            let comma = if self.lacking.note(node).is_some() { "," } else { " " };
            let _ = write!(out, "{comma} {copies} copies of blocks missing");
        }
        out.push('\n');
        node.children.iter().for_each(|child| self.vdev(out, child, depth + 2));
    }
}

fn as_text(
    about: &About<'_>,
    report: &[VdevReport],
    health: &PoolHealth,
    devices: &Devices,
) -> String {
    let About { pools, spa, found, scrubbed, named, is_cut, took } = *about;
    let progress = scrubbed.progress;
    let lacking = Lacking::of(pools, spa, found);
    let seconds = took.as_secs_f64();
    let rate = show::bytes((progress.allocated as f64 / seconds.max(0.001)) as u64);
    let mut out = String::new();
    let _ =
        writeln!(out, "  pool: {}\n state: {}", printable::word(spa.name()), health.health.name());
    let lost = lacking.lost_said(health, devices);
    let reason = match lost.is_empty() {
        false => Some(Reason::Lost),
        true => lacking.is_any(health).then_some(Reason::Lacking),
    };
    let wrong = wrong_leaves(report);
    if let Some(reason) = reason {
        // What a device lacks is told of it, and is not mended by who reads.
        troubles(&mut out, reason, &lost);
    } else if scrubbed.is_whole() && wrong > 0 {
        let devices = if wrong == 1 { "1 device".to_owned() } else { format!("{wrong} devices") };
        let _ = writeln!(
            out,
            "status: {devices} returned wrong data or none, and all of it was rebuilt from the others\n\
             action: replace what is failing, or let OpenZFS, where the pool is in use, mend it by its 'zpool scrub {}'; nothing is lost, and \
             'zfs cp -r' copies the files out",
            printable::word(spa.name())
        );
    }
    for note in lacking.notes(health, devices) {
        let _ = writeln!(out, "  note: {}", printable::line(&note));
    }
    let _ = writeln!(
        out,
        "  scan: read-only scrub checked {} in {} blocks in {seconds:.1} s ({rate}/s), {} damaged",
        show::bytes(progress.allocated),
        progress.blocks,
        scrubbed.damaged_count
    );
    let naming = Naming { missing_by_guid: true, ..Naming::default() };
    let width = tree::width(health, Some(spa.name()), 0, devices, naming).max(NAME_MIN);
    let (errors, copies) = Default::default();
    let mut table = Table { width, errors, copies, lacking, devices, naming };
    errors_of(report, &mut table.errors);
    lacking_of(report, &mut table.copies);
    out.push_str("config:\n\n");
    table.line(&mut out, "NAME", "STATE", 0, ["READ", "WRITE", "CKSUM"]);
    out.push('\n');
    table.line(&mut out, &printable::word(spa.name()), health.health.name(), 0, ["0", "0", "0"]);
    out.push('\n');
    health.children.iter().for_each(|top| table.vdev(&mut out, top, 2));
    out.push('\n');
    if scrubbed.is_whole() {
        let _ = writeln!(out, "errors: No known data errors");
        return out;
    }
    let _ = writeln!(out, "errors: these can't be had:\n");
    for run in Run::of(named) {
        let _ = writeln!(out, "\t{}: {}", run.place(), run.first.why);
    }
    if is_cut {
        let _ =
            writeln!(out, "\tand perhaps the same blocks in other snapshots, which are too many");
    }
    let told = scrubbed.damaged.len() as u64;
    if scrubbed.damaged_count > told {
        let _ = writeln!(out, "\tand {} more", scrubbed.damaged_count - told);
    }
    for error in &scrubbed.hidden {
        let _ = writeln!(out, "\tnot visited, below: {error}");
    }
    out
}

fn vdev_json(vdev: &VdevReport, names: &BTreeMap<u64, String>) -> Value {
    let children: Vec<Value> = vdev.children.iter().map(|child| vdev_json(child, names)).collect();
    json!({
        "name": name_of(vdev, names),
        "guid": vdev.guid,
        "state": state(vdev.health),
        "read_errors": vdev.errors.read,
        "checksum_errors": vdev.errors.checksum,
        "missing_copies": vdev.lacking,
        "vdevs": children,
    })
}

fn as_json(
    spa: &Spa,
    scrubbed: &Scrubbed,
    named: &[Named],
    report: &[VdevReport],
    took: std::time::Duration,
    names: &BTreeMap<u64, String>,
) -> String {
    let damaged: Vec<Value> = named
        .iter()
        .map(|one| {
            let mut object = json!({
                "dataset": one.dataset,
                "path": null,
                "objset": one.at.objset,
                "object": one.at.object,
                "level": one.at.level,
                "block": one.at.block,
                "offset": one.offset,
                "length": one.length,
                "error": one.why,
            });
            if let Some(path) = &one.path {
                put_bytes(&mut object, "path", path);
            }
            object
        })
        .collect();
    let hidden: Vec<String> = scrubbed.hidden.iter().map(ToString::to_string).collect();
    let value = json!({
        "pool": spa.name(),
        "blocks": scrubbed.progress.blocks,
        "allocated_bytes": scrubbed.progress.allocated,
        "seconds": took.as_secs_f64(),
        "damaged_blocks": scrubbed.damaged_count,
        "lost_places": scrubbed.lost_places,
        "damaged": damaged,
        "not_visited": hidden,
        "vdevs": report.iter().map(|vdev| vdev_json(vdev, names)).collect::<Vec<_>>(),
    });
    format!("{value}\n")
}
