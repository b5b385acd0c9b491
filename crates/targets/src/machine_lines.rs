//! What a simulated machine is made of, in words, a line a part; and what several of either kind are, which factors make of one.

use super::filesystem;
use super::machine::{Cache, Flush, SimulatedMachine};
use lab::design::CellSpec;
use lab::study::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// What stands of a part that some machines have and others not.
const NONE: &str = "none";

/// The machine, a line a part. What the study leaves to the profiles is told as well.
pub(super) fn of(machine: &SimulatedMachine) -> BTreeMap<String, String> {
    let title = |name: &str| {
        let held = content(name).map_or(String::new(), |held| format!(", {held}"));
        sim::profile::load(name)
            .map_or(name.to_owned(), |profile| format!("{} ({name}{held})", profile.title()))
    };
    let mut lines = BTreeMap::new();
    let mut line = |part: &str, what: String| {
        lines.insert(part.to_owned(), what);
    };
    line("host", title(&machine.host));
    line("disks", format!("{} × {}", machine.disks, title(&machine.disk)));
    if let Some(link) = &machine.link {
        line("link", title(link));
    }
    if let Some(controller) = &machine.controller {
        line("controller", title(controller));
    }
    if let Some(firmware) = &machine.firmware {
        line("firmware", firmware.clone());
    }
    if let Some(channels) = machine.channels {
        line("channels", channels.to_string());
    }
    if let Some(cache) = machine.cache {
        let state = match cache {
            Cache::WriteBack => "write-back",
            Cache::WriteThrough => "write-through",
        };
        line("controller's cache", state.to_owned());
    }
    if let Some(flush) = machine.flush {
        let state = match flush {
            Flush::Honoured => "honoured",
            Flush::Ignored => "ignored",
        };
        line("flushes", state.to_owned());
    }
    if let Some(size) = machine.controller_cache {
        line("size of the controller's cache", size.to_string());
    }
    if let Some(size) = machine.read_ahead {
        line("controller's read-ahead", size.to_string());
    }
    line(
        "host's read-ahead",
        match (machine.host_read_ahead, &machine.filesystem) {
            (Some(size), _) => size.to_string(),
            (None, Some(name)) if name != "none" => {
                "the file system's page cache has its own, for files that are not read directly"
                    .to_owned()
            }
            (None, _) => "none: direct reads".to_owned(),
        },
    );
    if let Some(name) = &machine.filesystem {
        let memory = machine.page_cache.unwrap_or(filesystem::PAGE_CACHE_DEFAULT);
        let text =
            format!("{name}, a model of update-in-place file systems, with {memory} of page cache");
        line("file system", text);
    }
    if let Some(time) = machine.filesystem_time {
        let text = format!("{} an I/O", lab::duration::compact(time));
        line("file system's processor time", text);
    }
    let state = |on: bool| if on { "on" } else { "off" };
    let cache = match (machine.write_cache, sim::profile::load(&machine.disk)) {
        (Some(on), _) => Some(state(on).to_owned()),
        (None, Ok(sim::Profile::Disk(disk))) => {
            Some(format!("{}, as the profile says", state(disk.write_cache_enabled.value)))
        }
        (None, Ok(sim::Profile::Ssd(ssd))) => Some(buffer_of(&ssd)),
        (None, _) => None,
    };
    if let Some(cache) = cache {
        line("disks' write cache", cache);
    }
    if let Some(price) = machine.disk_price {
        line("price of a disk", price.to_string());
    }
    lines
}

/// What a file holds, as a number by which two runs see whether they read the same; nothing where a name is none of a file.
fn content(name: &str) -> Option<String> {
    let bytes = std::fs::read(name).ok()?;
    Some(format!("content {:08x}", crc32fast::hash(&bytes)))
}

/// The files that tools of these cells are told what to do by, a line a file.
pub(super) fn inputs(cells: &[CellSpec]) -> BTreeMap<String, String> {
    let of_cell = |cell: &CellSpec| match &cell.workload.kind {
        Kind::Tool(tool) => Some(tool.settings.get("file")?.as_str()?.to_owned()),
        _ => None,
    };
    let names: BTreeSet<String> = cells.iter().filter_map(of_cell).collect();
    names.into_iter().filter_map(|name| Some((format!("file {name}"), content(&name)?))).collect()
}

/// What a solid-state drive answers writes from, and whether that outlasts a power cut: `16 MiB, volatile`.
fn buffer_of(ssd: &sim::profile::SsdProfile) -> String {
    let size = ssd.write_buffer_mb.value;
    let kept = match ssd.power_loss_protection.value {
        true => "it outlasts a power cut",
        false => "volatile",
    };
    if size > 0.0 { format!("{size} MiB, {kept}, as the profile says") } else { NONE.to_owned() }
}

/// The lines of all of these, each machine with the cell that runs on it. A part that is not the same in all says what it is in each,
/// with the levels of the factor that makes it so.
pub(super) fn of_all<M: Debug>(
    machines: &[(M, Option<&CellSpec>)],
    lines: impl Fn(&M) -> BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    // There are thousands of cells, and few machines.
    let mut known: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut keys: Vec<(String, Option<&CellSpec>)> = Vec::new();
    for (machine, cell) in machines {
        let key = format!("{machine:?}");
        known.entry(key.clone()).or_insert_with(|| lines(machine));
        keys.push((key, *cell));
    }
    let parts: BTreeSet<&String> = known.values().flat_map(BTreeMap::keys).collect();
    let of_part = |part: &String| {
        let what = |key: &String| known[key].get(part).map_or(NONE, String::as_str);
        let told: Vec<(&str, Option<&CellSpec>)> =
            keys.iter().map(|(key, cell)| (what(key), *cell)).collect();
        (part.clone(), in_each(&told))
    };
    parts.into_iter().map(of_part).collect()
}

/// What a part is, once, or with the levels by which it differs: `12 × A (drive=a); 12 × B (drive=b)`.
fn in_each(told: &[(&str, Option<&CellSpec>)]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for (what, _) in told {
        if !kinds.contains(what) {
            kinds.push(what);
        }
    }
    if let [one] = kinds[..] {
        return one.to_owned();
    }
    let names: BTreeSet<&String> =
        told.iter().filter_map(|(_, cell)| *cell).flat_map(|cell| cell.factors.keys()).collect();
    let levels = names.into_iter().find_map(|factor| levels(told, factor)).unwrap_or_default();
    let with_levels = |what: &str| {
        let its = levels.iter().filter(|(_, other)| **other == what);
        let its: Vec<&str> = its.map(|(level, _)| level.as_str()).collect();
        match its.is_empty() {
            true => what.to_owned(),
            false => format!("{what} ({})", its.join(", ")),
        }
    };
    kinds.into_iter().map(with_levels).collect::<Vec<_>>().join("; ")
}

/// What a part is at each level of a factor; none where the level alone does not say.
fn levels<'a>(
    told: &[(&'a str, Option<&CellSpec>)],
    factor: &str,
) -> Option<BTreeMap<String, &'a str>> {
    let mut levels: BTreeMap<String, &str> = BTreeMap::new();
    for (what, cell) in told {
        let level = (*cell)?.factors.get(factor)?;
        let known = levels.entry(format!("{factor}={level}")).or_insert(what);
        if known != what {
            return None;
        }
    }
    Some(levels)
}
