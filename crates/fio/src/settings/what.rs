//! Options that say what is done, where, in blocks of which size, on which files.

use super::given::{Trouble, Value};
use crate::figures::Each;
use crate::spec::{
    Distribution, Engine, Extent, Fallocate, FileService, Generator, Mode, Sequencer, Spec, Zones,
};
use crate::value::{Wanted, colon_list, fraction, percent};

/// Files of one job at the most: their names and sizes are kept.
const FILES_MAX: u64 = 1_000_000;

/// I/Os of one job under way at the most.
pub(crate) const DEPTH_MAX: u64 = 65_536;

/// The largest block: the buffer of each I/O under way is as large.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Parts of a `bssplit` at the most, as in fio.
const SPLIT_MAX: usize = 64;

pub(super) fn apply(spec: &mut Spec, name: &str, value: &Value) -> Result<(), Trouble> {
    match name {
        // The section names the job.
        "name" => {
            value.text()?;
        }
        "description" => spec.description = value.text()?.to_owned(),
        "rw" => mode(spec, value)?,
        "rw_sequencer" => {
            let words =
                [("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)];
            spec.sequencer = value.one_of(&words, "sequential or identical")?;
        }
        "ioengine" => (spec.engine, spec.engine_name) = engine(value.text()?)?,
        "iodepth" => {
            spec.depth = value.number_in(1, DEPTH_MAX, "a queue depth from 1 to 65536")?;
        }
        "iodepth_low" => spec.depth_low = value.number()?,
        "io_submit_mode" => {
            let words = [("inline", false), ("offload", true)];
            spec.offload = value.one_of(&words, "inline or offload")?;
        }
        "direct" => spec.direct = value.flag()?,
        "buffered" => spec.direct = !value.flag()?,
        "sync" => {
            let words =
                [("none", false), ("0", false), ("sync", true), ("dsync", true), ("1", true)];
            spec.durable_writes = value.one_of(&words, "none, sync or dsync")?;
        }
        "fsync" => spec.syncs.fsync = value.number()?,
        "fdatasync" => spec.syncs.fdatasync = value.number()?,
        "end_fsync" => spec.syncs.at_end = value.flag()?,
        "fsync_on_close" => spec.syncs.on_close = value.flag()?,
        "number_ios" => spec.number_ios = value.number()?,
        "rwmixread" => spec.read_percent = value.percent()?,
        "rwmixwrite" => spec.read_percent = 100 - value.percent()?,
        _ => return place(spec, name, value),
    }
    Ok(())
}

/// Files, sizes and offsets.
fn place(spec: &mut Spec, name: &str, value: &Value) -> Result<(), Trouble> {
    match name {
        "directory" => spec.directories = colon_list(value.text()?),
        "filename" => spec.filenames = colon_list(value.text()?),
        "filename_format" => spec.filename_format = value.text()?.to_owned(),
        // It matters to fio's clients and servers.
        "unique_filename" => {
            value.flag()?;
        }
        "nrfiles" => {
            spec.nrfiles = value.number_in(1, FILES_MAX, "a number of files, 1 to 1000000")?;
        }
        "openfiles" => spec.openfiles = value.number()?,
        "file_service_type" => file_service(spec, value.text()?)?,
        "size" => spec.size = extent(value)?,
        "io_size" => spec.io_size = extent(value)?,
        "offset" => spec.offset = extent(value)?,
        "offset_align" => spec.offset_align = value.size()?,
        "offset_increment" => spec.offset_increment = extent(value)?,
        "filesize" => spec.filesize = Some(value.reading.size_range(value.text()?)?),
        "fill_device" => spec.fill_device = value.flag()?,
        // Written from the beginning, what is there would be lost.
        "file_append" => {
            if value.flag()? {
                return Err(Trouble::Refused(
                    "jobs write from a file's beginning; name a new file",
                ));
            }
        }
        "overwrite" => spec.overwrite = value.flag()?,
        "fallocate" => {
            let words = [
                ("none", Fallocate::None),
                ("0", Fallocate::None),
                ("posix", Fallocate::Native),
                ("keep", Fallocate::None),
                ("native", Fallocate::Native),
                ("1", Fallocate::Native),
                ("truncate", Fallocate::Truncate),
            ];
            if value.text()? == "keep" {
                return Err(Trouble::Refused("space is not taken beyond a file's end"));
            }
            spec.fallocate = value.one_of(&words, "none, native, posix or truncate")?;
        }
        "invalidate" => spec.invalidate = value.flag()?,
        "fadvise_hint" => {
            let words = [
                ("0", Some(false)),
                ("1", None),
                ("sequential", Some(false)),
                ("random", Some(true)),
            ];
            spec.advise_random = value.one_of(&words, "0, 1, sequential or random")?;
        }
        "create_on_open" => spec.create_on_open = value.flag()?,
        "create_only" => spec.create_only = value.flag()?,
        "create_fsync" => spec.create_fsync = value.flag()?,
        "create_serialize" => spec.create_serialize = value.flag()?,
        "allow_file_create" => spec.allow_create = value.flag()?,
        "pre_read" => spec.pre_read = value.flag()?,
        "unlink" => spec.unlink = value.flag()?,
        "unlink_each_loop" => spec.unlink_each_loop = value.flag()?,
        "zonemode" => match value.text()? {
            "none" => spec.zones = None,
            "strided" => {
                spec.zones.get_or_insert_default();
            }
            "zbd" => return Err(Trouble::Refused("zoned devices are not supported")),
            _ => return Err("none or strided".into()),
        },
        "zonesize" => spec.zones.get_or_insert_default().size = value.size()?,
        "zonerange" => spec.zones.get_or_insert_default().range = value.size()?,
        "zoneskip" => spec.zones.get_or_insert_with(Zones::default).skip = value.size()?,
        _ => return blocks(spec, name, value),
    }
    Ok(())
}

/// Sizes of blocks and where in the file they lie.
fn blocks(spec: &mut Spec, name: &str, value: &Value) -> Result<(), Trouble> {
    match name {
        "bs" => {
            let mut sizes = spec.block.map(|(low, _)| low);
            value.each(&mut sizes, |text| block(value, text))?;
            spec.block = sizes.map(|size| (size, size));
        }
        "bsrange" => {
            let range = |text: &str| {
                let (low, high) = value.reading.size_range(text)?;
                block_in_range(low)?;
                block_in_range(high)?;
                Ok((low, high))
            };
            value.each(&mut spec.block, range)?;
        }
        "bssplit" => value.each(&mut spec.block_split, |text| split(value, text))?,
        "bs_unaligned" => spec.block_unaligned = value.flag()?,
        "bs_is_seq_rand" => spec.block_by_randomness = value.flag()?,
        "blockalign" => value.each(&mut spec.align, |text| block(value, text))?,
        "percentage_random" => value.each(&mut spec.random_percent, percent)?,
        "percentage_sequential" => {
            value.each(&mut spec.random_percent, |text| Ok(100 - percent(text)?))?;
        }
        "norandommap" => spec.map = !value.flag()?,
        // A map that does not fit is not known here: memory is the system's.
        "softrandommap" => {
            value.flag()?;
        }
        // All randomness is from the seed of the run: the same seed, the same places.
        "randrepeat" | "allrandrepeat" => {
            value.flag()?;
        }
        "random_generator" => {
            let words = [
                ("tausworthe", Generator::Map),
                ("tausworthe64", Generator::Map),
                ("lfsr", Generator::Permutation),
            ];
            spec.generator = value.one_of(&words, "tausworthe, tausworthe64 or lfsr")?;
        }
        "random_distribution" => spec.distribution = distribution(value)?,
        "randseed" => spec.seed = Some(value.number()?),
        _ => return Err(Trouble::Unknown),
    }
    Ok(())
}

fn mode(spec: &mut Spec, value: &Value) -> Result<(), Trouble> {
    const WANTED: Wanted = "read, write, rw, trim, trimwrite or one of these with rand before it";
    let text = value.text()?;
    let (word, modifier) = match text.split_once(':') {
        Some((word, modifier)) => (word, Some(modifier)),
        None => (text, None),
    };
    let (plain, random) = match word.strip_prefix("rand") {
        Some(plain) => (plain, true),
        None => (word, false),
    };
    let none = Mode { random, ..Mode::default() };
    spec.mode = match plain {
        "read" => Mode { read: true, ..none },
        "write" => Mode { write: true, ..none },
        "trim" => Mode { trim: true, ..none },
        "rw" => Mode { read: true, write: true, ..none },
        "readwrite" if !random => Mode { read: true, write: true, ..none },
        "trimwrite" => Mode { write: true, trim: true, trim_write: true, ..none },
        _ => return Err(WANTED.into()),
    };
    (spec.sequence_nr, spec.sequence_add) = (1, 0);
    match modifier {
        Some(modifier) if random => spec.sequence_nr = value.reading.number(modifier)?,
        Some(modifier) => spec.sequence_add = value.reading.signed_size(modifier)?,
        None => {}
    }
    Ok(())
}

/// The engine of this name, and the name.
fn engine(name: &str) -> Result<(Engine, &'static str), Trouble> {
    const SUPPORTED: [(&str, Engine); 10] = [
        ("sync", Engine::Blocking),
        ("psync", Engine::Blocking),
        ("vsync", Engine::Blocking),
        ("pvsync", Engine::Blocking),
        ("pvsync2", Engine::Blocking),
        ("libaio", Engine::Queued),
        ("io_uring", Engine::Queued),
        ("posixaio", Engine::Queued),
        ("solarisaio", Engine::Queued),
        ("null", Engine::Null),
    ];
    match SUPPORTED.iter().find(|(known, _)| *known == name) {
        Some((name, engine)) => Ok((*engine, name)),
        None if name == "mmap" => Err(Trouble::Refused("files are not mapped; take psync")),
        None => Err(Trouble::Refused(
            "supported engines are sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio, solarisaio and null",
        )),
    }
}

const EXTENT: Wanted =
    "one size such as 1g, or a share such as 50% (sizes from a range: filesize=64k-1m)";

fn extent(value: &Value) -> Result<Extent, Wanted> {
    match value.text()?.strip_suffix('%') {
        Some(share) => percent(share).map(Extent::Percent),
        None => value.size().map(Extent::Bytes).map_err(|_| EXTENT),
    }
}

fn block_in_range(size: u64) -> Result<u64, Wanted> {
    if (1..=BLOCK_BYTES_MAX).contains(&size) { Ok(size) } else { Err("a size from 1 B to 1 GiB") }
}

fn block(value: &Value, text: &str) -> Result<u64, Wanted> {
    block_in_range(value.reading.size(text)?)
}

/// `size/percent:size/percent…`; sizes without a share have what is left, evenly.
fn split(value: &Value, text: &str) -> Result<Vec<(u64, u32)>, Wanted> {
    let mut parts: Vec<(u64, Option<u32>)> = Vec::new();
    for part in text.split(':').filter(|part| !part.is_empty()) {
        if parts.len() >= SPLIT_MAX {
            return Err("at most 64 sizes");
        }
        let (size, share) = match part.split_once('/') {
            Some((size, "")) => (size, None),
            Some((size, share)) => (size, Some(percent(share)?)),
            None => (part, None),
        };
        parts.push((block(value, size)?, share));
    }
    shares(parts, "sizes and shares such as 4k/60:64k/40, 100 % in all")
}

/// Gives those without a share what is left, evenly; checks that the whole is 100 %.
fn shares<T>(parts: Vec<(T, Option<u32>)>, wanted: Wanted) -> Result<Vec<(T, u32)>, Wanted> {
    let said: u32 = parts.iter().filter_map(|(_, share)| *share).sum();
    let silent = parts.iter().filter(|(_, share)| share.is_none()).count() as u32;
    if said > 100 || parts.is_empty() || silent == 0 && said != 100 {
        return Err(wanted);
    }
    let each = (100 - said).checked_div(silent).unwrap_or_default();
    let mut rest = (100 - said) - each * silent;
    Ok(parts
        .into_iter()
        .map(|(what, share)| {
            let share = share.unwrap_or_else(|| each + std::mem::take(&mut rest));
            (what, share)
        })
        .collect())
}

fn distribution(value: &Value) -> Result<Distribution, Trouble> {
    let text = value.text()?;
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let number = |default: f64| -> Result<(f64, Option<f64>), Wanted> {
        let (first, center) = match rest.split_once(':') {
            Some((first, center)) => (first, Some(fraction(center)?)),
            None => (rest, None),
        };
        if center.is_some_and(|center| center > 1.0) {
            return Err("a center from 0 to 1");
        }
        Ok((if first.is_empty() { default } else { fraction(first)? }, center))
    };
    Ok(match kind {
        "random" => Distribution::Uniform,
        "zipf" => {
            let (theta, center) = number(1.1)?;
            if theta == 1.0 {
                return Err("zipf with a theta that is not 1".into());
            }
            Distribution::Zipf { theta, center }
        }
        "pareto" => {
            let (power, center) = number(0.2)?;
            if power <= 0.0 || power >= 1.0 {
                return Err("pareto with a power above 0 and below 1".into());
            }
            Distribution::Pareto { power, center }
        }
        "normal" | "gauss" => {
            let (deviation_percent, center) = number(0.0)?;
            if deviation_percent > 100.0 {
                return Err("normal with a deviation of at most 100 %".into());
            }
            Distribution::Normal { deviation_percent, center }
        }
        "zoned" => {
            let mut zones: Each<Vec<(u32, u32)>> = Each::default();
            let parts = Value { text: Some(rest), ..*value };
            parts.each(&mut zones, zoned)?;
            Distribution::Zoned(zones)
        }
        "zoned_abs" => {
            let mut zones: Each<Vec<(u32, u64)>> = Each::default();
            let parts = Value { text: Some(rest), ..*value };
            parts.each(&mut zones, |text| zoned_absolute(value, text))?;
            Distribution::ZonedAbsolute(zones)
        }
        "sequence" => return Err(Trouble::Refused("fio 3.33 has no such distribution")),
        _ => return Err("random, zipf, pareto, normal, zoned or zoned_abs".into()),
    })
}

/// `accesses/size:…`, both in per cent.
fn zoned(text: &str) -> Result<Vec<(u32, u32)>, Wanted> {
    const ZONED: Wanted = "shares such as 50/5:30/15:20/80, each 100 % in all";
    let mut parts = Vec::new();
    for part in text.split(':').filter(|part| !part.is_empty()).take(SPLIT_MAX) {
        let (accesses, size) = part.split_once('/').ok_or(ZONED)?;
        let size = if size.is_empty() { None } else { Some(percent(size)?) };
        parts.push((percent(accesses)?, size));
    }
    let accesses: u32 = parts.iter().map(|(share, _)| *share).sum();
    if accesses != 100 {
        return Err(ZONED);
    }
    shares(parts, ZONED)
}

/// `accesses/length:…`, accesses in per cent.
fn zoned_absolute(value: &Value, text: &str) -> Result<Vec<(u32, u64)>, Wanted> {
    const ZONED: Wanted = "shares and lengths such as 60/20g:40/80g, 100 % in all";
    let mut zones = Vec::new();
    for part in text.split(':').filter(|part| !part.is_empty()).take(SPLIT_MAX) {
        let (accesses, length) = part.split_once('/').ok_or(ZONED)?;
        zones.push((percent(accesses)?, block_in_range_free(value.reading.size(length)?)?));
    }
    let accesses: u32 = zones.iter().map(|(share, _)| *share).sum();
    if accesses == 100 { Ok(zones) } else { Err(ZONED) }
}

fn block_in_range_free(size: u64) -> Result<u64, Wanted> {
    if size > 0 { Ok(size) } else { Err("a length above 0") }
}

fn file_service(spec: &mut Spec, text: &str) -> Result<(), Trouble> {
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default();
    let number = parts.next().map(fraction).transpose()?;
    spec.file_service = match kind {
        "roundrobin" => FileService::RoundRobin,
        "sequential" => FileService::Sequential,
        "random" => FileService::Random,
        "zipf" => FileService::Zipf(number.unwrap_or(1.1)),
        "pareto" => FileService::Pareto(number.unwrap_or(0.2)),
        "normal" | "gauss" => FileService::Normal(number.unwrap_or(0.0)),
        _ => return Err("roundrobin, sequential, random, zipf, pareto or normal".into()),
    };
    let is_plain = matches!(kind, "roundrobin" | "sequential" | "random");
    spec.file_service_nr = match number {
        Some(number) if is_plain => (number as u64).max(1),
        _ => 1,
    };
    Ok(())
}
