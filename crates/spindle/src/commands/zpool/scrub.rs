//! `zpool scrub --read-only`: every copy of every block is read and checked; nothing is written.
//!
//! While it runs it shows its rate and the time left; in the end what it scanned, errors by device, and what is damaged, by the
//! names of datasets and files. The status is 1 if anything can't be had, 0 also where some copies are wrong and others
//! stand in for them: the table of devices shows that.

use super::opened;
use crate::commands::progress::BytesProgress;
use crate::commands::{Failure, print};
use crate::pools::Pools;
use clap::Args;
use lab::report::printable;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;
use std::path::PathBuf;
use std::rc::Rc;
use zfs::show;
use zfs::spa::Spa;
use zfs::spa::scrub::{Scrubbed, path_of};
use zfs::zpl::FileSystem;
use zfs_store::{Bookmark, VdevReport};

#[derive(Args)]
pub struct ScrubArgs {
    /// Check, and repair nothing: the only way there is yet
    #[arg(long, required = true)]
    read_only: bool,
    /// As JSON
    #[arg(short = 'j', long = "json")]
    json: bool,
    /// The pool
    pool: String,
}

/// A damaged block, named.
struct Named {
    at: Bookmark,
    dataset: String,
    path: Option<String>,
    /// Where its bytes begin in the object; nothing of metadata above the data.
    offset: Option<u64>,
    length: u64,
    why: String,
}

pub fn run(args: &ScrubArgs, devices: &[PathBuf]) -> Result<(), Failure> {
    let pools = Pools::find(devices)?;
    let no_pool = || Failure::failed(opened::no_pool(&args.pool));
    let found = Rc::clone(pools.named(&args.pool)?.ok_or_else(no_pool)?);
    let spa = pools.open_found(&found)?;
    let (names, _) = opened::devices(&pools, &found);
    let pool = Rc::clone(&spa);
    let (scrubbed, took) = pools.wait(async move {
        // Only a measure of how far it is: without it the bar ends early or late.
        let total = pool.space().await.map_or(0, |space| space.allocated);
        let mut bar = BytesProgress::new(&pool.name, total);
        let scrubbed = pool.scrub(|progress| bar.at(progress.allocated)).await;
        (scrubbed, bar.finish())
    });
    let pool = Rc::clone(&spa);
    let (scrubbed, named) = pools.wait(async move {
        let named = named(&pool, &scrubbed).await;
        (scrubbed, named)
    });
    let report = spa.tree().report();
    let whole = scrubbed.is_whole();
    if args.json {
        print(&as_json(&spa, &scrubbed, &named, &report, took, &names))?;
    } else {
        print(&as_text(&spa, &scrubbed, &named, &report, took, &names))?;
    }
    match whole {
        true => Ok(()),
        false => Err(Failure::failed(format!("pool '{}' has damaged blocks", spa.name))),
    }
}

/// Finds names for what is damaged.
async fn named(spa: &Spa, scrubbed: &Scrubbed) -> Vec<Named> {
    if scrubbed.damaged.is_empty() {
        return Vec::new();
    }
    let datasets = spa.dataset_names().await;
    let (mut systems, mut paths) = (BTreeMap::new(), BTreeMap::new());
    let mut named = Vec::with_capacity(scrubbed.damaged.len());
    for damaged in &scrubbed.damaged {
        let at = damaged.at;
        let dataset = datasets.get(&at.objset).cloned();
        let dataset = dataset.unwrap_or_else(|| format!("dataset {}", at.objset));
        if let Entry::Vacant(place) = systems.entry(at.objset) {
            place.insert(file_system(spa, &dataset).await);
        }
        let key = (at.objset, at.object);
        if let (false, Some(Some(system))) = (paths.contains_key(&key), systems.get(&at.objset)) {
            paths.insert(key, path_of(system, at.object).await);
        }
        let path = paths.get(&key).cloned().flatten();
        let block_bytes = match systems.get(&at.objset) {
            Some(Some(system)) => block_bytes(system, at.object).await,
            _ => Some(damaged.logical),
        };
        let offset = block_bytes.filter(|_| at.level == 0 && at.block != u64::MAX);
        named.push(Named {
            at,
            dataset,
            path: path.map(|path| String::from_utf8_lossy(&path).into_owned()),
            offset: offset.map(|bytes| bytes.saturating_mul(at.block)),
            length: damaged.logical,
            why: damaged.kind.to_string(),
        });
    }
    named
}

/// The file system of this name; nothing where it is none, or can't be had.
async fn file_system(spa: &Spa, name: &str) -> Option<FileSystem> {
    let (directory, dataset) = spa.dsl().find(name).await.ok()??;
    let objset = spa.objset(&directory, &dataset).await.ok()?;
    FileSystem::open(&objset).await.ok()
}

async fn block_bytes(system: &FileSystem, object: u64) -> Option<u64> {
    Some(system.objset().object(object).await.ok()?.dnode().data_block_bytes())
}

impl Named {
    fn place(&self) -> String {
        let Bookmark { object, level, block, .. } = self.at;
        let mut text = match &self.path {
            Some(path) => format!("{}:{}", self.dataset, printable(path).replace('\n', " ")),
            None => format!("{}:<{object:#x}>", self.dataset),
        };
        match self.offset {
            Some(offset) => {
                let end = offset.saturating_add(self.length);
                let _ = write!(text, " bytes {offset} to {end}");
            }
            None => {
                let _ = write!(text, " level {level} block {block}");
            }
        }
        text
    }
}

/// A leaf's name: where the device is, or was.
fn name_of(vdev: &VdevReport, names: &BTreeMap<u64, String>) -> String {
    let kind = format!("{:?}", vdev.kind).to_lowercase();
    let kind = kind.split(['(', ' ']).next().unwrap_or_default();
    match names.get(&vdev.guid) {
        Some(name) => name.clone(),
        None if vdev.children.is_empty() => {
            vdev.path.as_ref().map_or_else(|| vdev.guid.to_string(), ToString::to_string)
        }
        None => format!("{kind}-{}", vdev.id),
    }
}

fn write_vdev(out: &mut String, vdev: &VdevReport, depth: usize, names: &BTreeMap<u64, String>) {
    let name = format!("{:1$}{2}", "", depth * 2, name_of(vdev, names));
    let health = format!("{:?}", vdev.health).to_uppercase();
    let (read, checksum) = (vdev.errors.read, vdev.errors.checksum);
    let _ = writeln!(out, "\t{name:<40} {health:<12} {read:>6} {checksum:>6}");
    vdev.children.iter().for_each(|child| write_vdev(out, child, depth + 1, names));
}

fn as_text(
    spa: &Spa,
    scrubbed: &Scrubbed,
    named: &[Named],
    report: &[VdevReport],
    took: std::time::Duration,
    names: &BTreeMap<u64, String>,
) -> String {
    let progress = scrubbed.progress;
    let seconds = took.as_secs_f64();
    let rate = show::bytes((progress.allocated as f64 / seconds.max(0.001)) as u64);
    let mut out = String::new();
    let _ = writeln!(out, "  pool: {}", spa.name);
    let _ = writeln!(
        out,
        "  scan: read-only scrub checked {} in {} blocks in {seconds:.1} s ({rate}/s), {} damaged",
        show::bytes(progress.allocated),
        progress.blocks,
        scrubbed.damaged_count
    );
    let _ =
        writeln!(out, "config:\n\n\t{:<40} {:<12} {:>6} {:>6}", "NAME", "STATE", "READ", "CKSUM");
    report.iter().for_each(|vdev| write_vdev(&mut out, vdev, 0, names));
    out.push('\n');
    if scrubbed.is_whole() {
        let _ = writeln!(out, "errors: No known data errors");
        return out;
    }
    let _ = writeln!(out, "errors: these can't be had:\n");
    for one in named {
        let _ = writeln!(out, "\t{}: {}", one.place(), one.why);
    }
    if scrubbed.damaged_count > named.len() as u64 {
        let more = scrubbed.damaged_count - named.len() as u64;
        let _ = writeln!(out, "\tand {more} more");
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
        "state": format!("{:?}", vdev.health).to_uppercase(),
        "read_errors": vdev.errors.read,
        "checksum_errors": vdev.errors.checksum,
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
            json!({
                "dataset": one.dataset,
                "path": one.path,
                "objset": one.at.objset,
                "object": one.at.object,
                "level": one.at.level,
                "block": one.at.block,
                "offset": one.offset,
                "length": one.length,
                "error": one.why,
            })
        })
        .collect();
    let hidden: Vec<String> = scrubbed.hidden.iter().map(ToString::to_string).collect();
    let value = json!({
        "pool": spa.name,
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
