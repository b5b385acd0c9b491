//! Disks described as for DiskSim: the form in which parameters of disks that were measured are published.
//!
//! Three files. `NAME.diskspecs` has the electronics (overheads, bus, buffer), and names `NAME.model`, the mechanics (zones,
//! skews, switches), which names the seek curve, `NAME.seek`, or has it as a formula. What a key means stands in the manuals
//! ("The DiskSim Simulation Environment", CMU-PDL-08-101; "The DiskSim disk module", chapters on parameters); times are ms.
//! How fast the bus was stands with the machine, in `NAME.parv`, which may lie beside.
//! Each value of the [profile](DiskProfile) that comes of them has the file and the key as its source.
//!
//! Not taken over: schedulers of a queue inside the disk but for whether there is one, holding the bus (there is no other
//! disk on it), reading from and writing to the buffer beside the request that is served.

mod part;
mod seeks;
mod syntax;

use super::given::{Given, Origin};
use super::numbers::sectors_in;
use super::{
    DiskProfile, Numbering, Profile, ProfileError, ReadAheadUntil, SeekTable, Sparing, ZoneRow,
    ZoneTable,
};
use part::{Part, named, read};
use std::path::Path;
use syntax::Value;

const SECTOR: f64 = 512.0;

/// Whether a path is that of such a file.
pub(super) fn is_one(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "diskspecs" || end == "model")
}

/// Reads a disk from its files; `path` is that of the specification or of the model, with the other beside it.
pub(super) fn load(path: &Path) -> Result<Profile, ProfileError> {
    let specs_path = path.with_extension("diskspecs");
    let specs = Part::open(&specs_path, "disksim_disk")?;
    let model = match specs.block.get("Model") {
        Some((_, Value::Block(block))) => Part { file: specs.file.clone(), block: block.clone() },
        Some((_, Value::Word(words))) => {
            Part::open(&named(&specs_path, words, "model"), "dm_disk")?
        }
        _ => return Err(specs.wrong("Model", "name the file of the model: `Model = source FILE`")),
    };
    let mechanics = model.part("Mechanical Model")?;
    let seeks = seeks::table(&mechanics, &specs_path, model.whole("Number of cylinders")?)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let bus_ms = bus_ms(&specs_path)?;
    let sources = Sources { specs, model, mechanics, seeks, bus_ms };
    let profile = Profile::Disk(Box::new(sources.profile(name)?));
    profile.check().map_err(|flaw| ProfileError::Wrong {
        file: specs_path.display().to_string(),
        line: 1,
        key: flaw.key.to_owned(),
        mend: flaw.mend,
    })?;
    Ok(profile)
}

fn derived<T>(value: T, how: &str) -> Given<T> {
    Given::of(value, Origin::Derived(how.to_owned()))
}

fn guessed<T>(value: T, why: &str) -> Given<T> {
    Given::of(value, Origin::Guessed(why.to_owned()))
}

struct Sources {
    specs: Part,
    model: Part,
    mechanics: Part,
    seeks: Given<SeekTable>,
    /// A sector's time over the buses and the controller before the disk, out and in, ms.
    bus_ms: [f64; 2],
}

/// A sector's time over the bus where no file gives one, ms: that of asynchronous SCSI, as on the hosts on which the HP C2247A
/// and C2490A were measured (0.148 to 0.187 ms; DiskSim's validation, buses of hp_c2247a.parv and hp_c2490a.parv).
const BUS_MS_DEFAULT: f64 = 0.16;

fn bus_rate(sector_ms: f64) -> Given<f64> {
    if sector_ms > 0.0 {
        return derived(SECTOR / sector_ms / 1e3, "512 bytes / a sector's time over the bus");
    }
    let why = "the files give a sector no time over the bus: 0.16 ms, as on the hosts of the HP C2247A and C2490A";
    guessed(SECTOR / BUS_MS_DEFAULT / 1e3, why)
}

/// The slowest of the buses and controllers in the description of the machine that may lie beside, `NAME.parv`.
fn bus_ms(specs_path: &Path) -> Result<[f64; 2], ProfileError> {
    let path = specs_path.with_extension("parv");
    if !path.is_file() {
        return Ok([0.0; 2]);
    }
    let file = path.display().to_string();
    let mut slowest = [0.0_f64; 2];
    for block in syntax::parse(&file, &read(&path)?)? {
        let keys = match block.kind() {
            "disksim_bus" => ["Read block transfer time", "Write block transfer time"],
            "disksim_ctlr" => ["Bulk sector transfer time"; 2],
            _ => continue,
        };
        let part = Part { file: file.clone(), block };
        for (slowest, key) in slowest.iter_mut().zip(keys) {
            *slowest = slowest.max(part.number_or(key, 0.0)?);
        }
    }
    Ok(slowest)
}

impl Sources {
    /// A time of the electronics in ms, as µs; with what each command takes.
    fn overhead(&self, key: &str, before: f64) -> Result<Option<Given<f64>>, ProfileError> {
        let scale = self.specs.number_or("Time scale for overheads", 1.0)?;
        let ms = self.specs.number_or(key, 0.0)?;
        // What is finer than a nanosecond is no time of a disk's.
        let us = ((ms * scale + before) * 1e6).round() / 1e3;
        Ok(Some(self.specs.source(key, us)))
    }

    fn flag(&self, key: &str) -> Result<Option<Given<bool>>, ProfileError> {
        Ok(Some(self.specs.source(key, self.specs.whole_or(key, 0)? > 0)))
    }

    fn profile(&self, name: String) -> Result<DiskProfile, ProfileError> {
        let (specs, model, mechanics) = (&self.specs, &self.model, &self.mechanics);
        if mechanics.word("Access time type") != "trackSwitchPlusRotation" {
            let mend = "only trackSwitchPlusRotation is modelled";
            return Err(mechanics.wrong("Access time type", mend));
        }
        let layout = model.part("Layout Model")?;
        let heads = model.whole("Number of data surfaces")?;
        let cylinders = model.whole("Number of cylinders")?;
        let zones = zones(&layout)?;
        let sparing = sparing(&layout)?;
        let range = layout.whole_or("Rangesize for sparing", 1)?.max(1);
        let spares = super::numbers::Spares { place: sparing, range_cylinders: range };
        let holds: u64 = zones.0.iter().map(|zone| sectors_in(zone, heads, spares)).sum();
        // Loads go as far as the zones do, whatever the count says; it stands for people, and is not always right.
        let count = model.whole("Block count")?;
        let sectors = derived(holds, &format!("what the zones hold; Block count: {count}"));

        let rpm = mechanics.number("Rotation speed (in rpms)")?;
        let settle = mechanics.number_or("Add. write settling delay", 0.0)?;
        let seeks = &self.seeks.value;
        let average = average(seeks, cylinders);
        let rates: Vec<f64> = zones.0.iter().map(|zone| rate_mb_s(zone, heads, rpm)).collect();
        let rate = "sectors of a cylinder / (its revolutions and skews)";
        let (outer, inner) =
            (rates.iter().copied().fold(0.0, f64::max), rates.iter().copied().fold(1e9, f64::min));

        let segment = specs.whole("Segment size (in blks)")?.max(1);
        let caches = specs.whole_or("Enable caching in buffer", 1)? > 0;
        let segments = specs.whole("Number of buffer segments")?.max(1);
        let write_segments = specs.whole_or("Maximum number of write segments", 1)?.max(1);
        let mb = |sectors: u64| sectors as f64 * SECTOR / 1_048_576.0;
        let ahead = match specs.whole_or("Maximum read-ahead (blks)", 0)? {
            0 => segment,
            sectors => sectors,
        };
        let own_ms = specs.number_or("Bulk sector transfer time", 0.0)?;
        let interface = bus_rate(own_ms.max(self.bus_ms[0]));
        let interface_in = bus_rate(own_ms.max(self.bus_ms[1]));
        let depth = specs.whole_or("Max queue length", 1)?.max(1);
        let policy = specs.part("Scheduler").ok().map(|part| part.whole_or("Scheduling policy", 1));
        let in_order = policy.transpose()?.is_none_or(|policy| policy == 1);
        let each = specs.number_or("Per-request overhead time", 0.0)?;
        let watermark = {
            let share = specs.number_or("High (read) water mark", 0.0)?;
            let of_request = specs.whole_or("Set watermark by reqsize", 0)? > 0;
            // A share of a segment is more than most requests.
            if of_request || share == 0.0 { share * 100.0 } else { 100.0 }
        };
        let stays = specs.whole_or("Never disconnect", 0)? > 0;
        let leaving = |key: &str| match stays {
            true => Ok(None),
            false => self.overhead(key, 0.0),
        };
        let mut disk = DiskProfile::of(
            name,
            model.block.name().replace('_', " "),
            super::disk::Figures {
                rpm: mechanics.source("Rotation speed (in rpms)", rpm),
                avg_seek_read_ms: derived(average, "the seek table, over all pairs of cylinders"),
                avg_seek_write_ms: derived(average + settle, "before a read, and settling"),
                track_to_track_ms: derived(seeks.ms(1), "the seek table"),
                full_stroke_ms: derived(seeks.ms(cylinders.saturating_sub(1)), "the seek table"),
                head_switch_ms: mechanics
                    .source("Head switch time", mechanics.number_or("Head switch time", 0.0)?),
                sectors,
                sector_bytes: derived(512, "the form's sector"),
                physical_sector_bytes: derived(512, "the form's sector"),
                heads: model.source("Number of data surfaces", heads),
                zones: derived(zones.0.len() as u64, "the zone table"),
                outer_rate_mb_s: derived(outer, rate),
                inner_rate_mb_s: derived(inner, rate),
                read_cache_mb: derived(
                    if caches { mb(segments * segment) } else { 0.0 },
                    "Number of buffer segments x Segment size",
                ),
                read_segments: specs.source("Number of buffer segments", segments),
                read_ahead_kb: specs.source("Maximum read-ahead (blks)", ahead.div_ceil(2)),
                write_cache_enabled: specs
                    .source("Fast write level", specs.whole_or("Fast write level", 0)? > 0),
                write_cache_mb: derived(
                    mb(write_segments * segment),
                    "Maximum number of write segments x Segment size",
                ),
                write_cache_extents: specs
                    .source("Maximum number of write segments", write_segments),
                command_overhead_us: specs.source("Per-request overhead time", each * 1e3),
                interface_mb_s: interface,
                queue_depth: specs.source("Max queue length", depth),
                reorder_depth: specs.source("Scheduler", if in_order { 1 } else { depth }),
            },
        );
        disk.notes = "Read from parameters as for DiskSim.\n".to_owned();
        disk.interface_write_mb_s = Some(interface_in);
        disk.seek_table = Some(self.seeks.clone());
        disk.write_settle_ms = Some(mechanics.source("Add. write settling delay", settle));
        disk.numbering = Some(layout.source("LBN-to-PBN mapping scheme", numbering(&layout)?));
        disk.sparing = Some(layout.source("Sparing scheme used", sparing));
        disk.sparing_range_cylinders = Some(layout.source("Rangesize for sparing", range));
        disk.zone_table = Some(layout.source("Zones", zones));
        disk.read_hit_us = self.overhead("Read hit over. after read", each)?;
        disk.read_hit_after_write_us = self.overhead("Read hit over. after write", each)?;
        disk.read_miss_us = self.overhead("Read miss over. after read", each)?;
        disk.read_miss_after_write_us = self.overhead("Read miss over. after write", each)?;
        disk.write_hit_us = self.overhead("Write hit over. after read", each)?;
        disk.write_hit_after_write_us = self.overhead("Write hit over. after write", each)?;
        disk.write_miss_us = self.overhead("Write miss over. after read", each)?;
        disk.write_miss_after_write_us = self.overhead("Write miss over. after write", each)?;
        disk.read_completion_us = self.overhead("Read completion overhead", 0.0)?;
        disk.write_completion_us = self.overhead("Write completion overhead", 0.0)?;
        disk.data_preparation_us = self.overhead("Data preparation overhead", 0.0)?;
        disk.reselect_us = leaving("First reselect overhead")?;
        disk.reselect_again_us = leaving("Other reselect overhead")?;
        disk.read_disconnect_us = leaving("Read disconnect afterread")?;
        disk.read_disconnect_after_write_us = leaving("Read disconnect afterwrite")?;
        disk.write_disconnect_us = leaving("Write disconnect overhead")?;
        if !stays {
            disk.extra_write_disconnect = self.flag("Extra write disconnect")?;
            disk.extra_command_us = self.overhead("Extradisc command overhead", each)?;
            disk.extra_disconnect_us = self.overhead("Extradisc disconnect overhead", 0.0)?;
            disk.extra_pause_us = self.overhead("Extradisc inter-disconnect delay", 0.0)?;
            disk.extra_second_disconnect_us =
                self.overhead("Extradisc 2nd disconnect overhead", 0.0)?;
            disk.extra_seek_delay_us = self.overhead("Extradisc seek delta", 0.0)?;
        }
        disk.minimum_write_seek_us = self.overhead("Minimum seek delay", 0.0)?;
        disk.read_watermark_percent = Some(specs.source("High (read) water mark", watermark));
        let least = specs.whole_or("Minimum read-ahead (blks)", 0)? as f64 / 2.0;
        disk.read_ahead_min_kb = Some(specs.source("Minimum read-ahead (blks)", least));
        disk.read_ahead_until = Some(specs.source("Buffer continuous read", until(specs)?));
        disk.read_ahead_after_hit = self.flag("Read-ahead on idle hit")?;
        disk.reads_what_passes = self.flag("Read any free blocks")?;
        disk.read_on_arrival = self.flag("Immediate buffer read")?;
        disk.write_on_arrival = self.flag("Immediate buffer write")?;
        disk.reads_hit_writes = self.flag("Allow read hits on write data")?;
        Ok(disk)
    }
}

fn until(specs: &Part) -> Result<ReadAheadUntil, ProfileError> {
    let key = "Buffer continuous read";
    match specs.whole_or(key, 0)? {
        0 => Ok(ReadAheadUntil::None),
        1 => Ok(ReadAheadUntil::Track),
        2 => Ok(ReadAheadUntil::Cylinder),
        3 => Ok(ReadAheadUntil::Limit),
        4 => Ok(ReadAheadUntil::NextTrack),
        _ => Err(specs.wrong(key, "write a number from 0 to 4")),
    }
}

fn numbering(layout: &Part) -> Result<Numbering, ProfileError> {
    let key = "LBN-to-PBN mapping scheme";
    match layout.whole_or(key, 0)? {
        0 => Ok(Numbering::ByCylinder),
        1 => Ok(Numbering::Serpentine),
        2 => Ok(Numbering::SerpentineThroughout),
        _ => Err(layout.wrong(key, "write a number from 0 to 2")),
    }
}

fn sparing(layout: &Part) -> Result<Sparing, ProfileError> {
    let key = "Sparing scheme used";
    let number = layout.whole_or(key, 0)? as usize;
    let place = Sparing::ALL.get(number).copied();
    place.ok_or_else(|| layout.wrong(key, "write a number from 0 to 10"))
}

fn zones(layout: &Part) -> Result<ZoneTable, ProfileError> {
    if layout.block.kind() != "dm_layout_g1" {
        let mend =
            format!("layouts of type '{}' are not read: dm_layout_g1 is", layout.block.kind());
        return Err(layout.wrong("Layout Model", &mend));
    }
    let Some((_, Value::List(list))) = layout.block.get("Zones") else {
        return Err(layout.wrong("Zones", "write a list of zones"));
    };
    let mut rows = Vec::new();
    for value in list {
        let Value::Block(block) = value else {
            return Err(layout.wrong("Zones", "write a list of blocks"));
        };
        let zone = Part { file: layout.file.clone(), block: block.clone() };
        let per_track = zone.whole("Blocks per track")?;
        let units = match (zone.word("Skew units"), layout.word("Skew units")) {
            ("", all) => all,
            (own, _) => own,
        };
        let unit = match units {
            "" | "sectors" => 1.0,
            "revolutions" => per_track as f64,
            _ => return Err(zone.wrong("Skew units", "write sectors or revolutions")),
        };
        let remapped = zone.places("defects")?;
        if remapped.len() % 2 == 1 {
            return Err(
                zone.wrong("defects", "write pairs: what is bad, and what stands in for it")
            );
        }
        rows.push(ZoneRow {
            first_cylinder: zone.whole("First cylinder number")?,
            last_cylinder: zone.whole("Last cylinder number")?,
            sectors_per_track: per_track,
            first_sector_at: zone.number_or("Offset of first block", 0.0)? * unit,
            reserved_sectors: zone.whole_or("Empty space at zone front", 0)?,
            track_skew: zone.number_or("Skew for track switch", 0.0)? * unit,
            cylinder_skew: zone.number_or("Skew for cylinder switch", 0.0)? * unit,
            spares: zone.whole_or("Number of spares", 0)?,
            slips: zone.places("slips")?,
            remapped: remapped.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
        });
    }
    rows.sort_by_key(|row| row.first_cylinder);
    let table = ZoneTable(rows);
    table.check().map_err(|flaw| layout.wrong("Zones", &flaw.mend))?;
    Ok(table)
}

/// The mean seek over all pairs of cylinders.
fn average(seeks: &SeekTable, cylinders: u64) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for distance in 1..cylinders {
        let weight = (cylinders - distance) as f64;
        sum += weight * seeks.ms(distance);
        weights += weight;
    }
    // Thousandths of a microsecond are not known.
    if weights > 0.0 { (sum / weights * 1e6).round() / 1e6 } else { 0.0 }
}

fn rate_mb_s(zone: &ZoneRow, heads: u64, rpm: f64) -> f64 {
    let revolution_us = 60e6 / rpm;
    let turns = heads as f64
        + ((heads as f64 - 1.0) * zone.track_skew + zone.cylinder_skew)
            / zone.sectors_per_track as f64;
    let bytes = (heads * zone.sectors_per_track) as f64 * SECTOR;
    (bytes / (turns * revolution_us) * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests;
