//! Options that say what is written, how it is checked, and which figures are kept.

use super::given::{Trouble, Value};
use crate::spec::{Checksum, PERCENTILES, Spec};
use crate::value::{TimeUnit, Wanted, fraction, pattern};
use std::time::Duration;

/// The shortest window of bandwidth: fio's logs know milliseconds.
const WINDOW_MIN: Duration = Duration::from_millis(1);

/// Percentiles in one list at the most, as in fio.
const PERCENTILES_MAX: usize = 20;

pub(super) fn apply(spec: &mut Spec, name: &str, value: &Value) -> Result<(), Trouble> {
    match name {
        "zero_buffers" => spec.bytes.zeros = value.flag()?,
        "refill_buffers" => spec.bytes.refill = Some(value.flag()?),
        // Blocks always differ, unless duplicates or a pattern are asked for.
        "scramble_buffers" => {
            value.flag()?;
        }
        "buffer_pattern" => {
            spec.bytes.pattern = if value.text()?.starts_with('\'') {
                return Err(Trouble::Refused("patterns are not read from files"));
            } else {
                pattern(value.text()?)?
            };
        }
        "buffer_compress_percentage" => spec.bytes.compress_percent = value.percent()?,
        // The compressible part is at the end of each page.
        "buffer_compress_chunk" => {
            value.size()?;
        }
        "dedupe_percentage" => spec.bytes.dedupe_percent = value.percent()?,
        "dedupe_mode" => {
            value.one_of(&[("repeat", ()), ("working_set", ())], "repeat or working_set")?;
        }
        // The repeated blocks are a fixed number of contents, see the guide.
        "dedupe_working_set_percentage" => {
            value.percent()?;
        }
        "verify" => spec.verify.checksum = checksum(value.text()?)?,
        "do_verify" => spec.verify.after_writing = value.flag()?,
        "verify_only" => spec.verify.only = value.flag()?,
        "verify_interval" => spec.verify.interval = value.size()?,
        "verify_pattern" => {
            if value.text()?.contains('%') {
                return Err(Trouble::Refused("patterns with %o are not supported"));
            }
            spec.verify.pattern = pattern(value.text()?)?;
        }
        "verify_fatal" => spec.verify.fatal = value.flag()?,
        "verify_backlog" => spec.verify.backlog = value.number()?,
        "verify_backlog_batch" => spec.verify.backlog_batch = value.number()?,
        "verify_write_sequence" => spec.verify.write_sequence = value.flag()?,
        // How fio goes about it; what is verified is the same.
        "verify_async" | "verifysort_nr" => {
            value.number()?;
        }
        // Jobs always draw repeats from one set.
        "dedupe_global" | "verifysort" | "verify_dump" | "verify_state_save" => {
            value.flag()?;
        }
        "continue_on_error" => spec.tolerance.goes_on = continue_on_error(value)?,
        "ignore_error" => spec.tolerance.listed = ignored_errors(value.text()?)?,
        _ => return figures(spec, name, value),
    }
    Ok(())
}

/// Options about figures and logs, and those of fio's own working that change nothing.
fn figures(spec: &mut Spec, name: &str, value: &Value) -> Result<(), Trouble> {
    let kept = &mut spec.kept;
    let window =
        || -> Result<Duration, Wanted> { Ok(value.time(TimeUnit::Milliseconds)?.max(WINDOW_MIN)) };
    match name {
        "clat_percentiles" => kept.clat_percentiles = value.flag()?,
        "lat_percentiles" => kept.lat_percentiles = value.flag()?,
        "slat_percentiles" => kept.slat_percentiles = value.flag()?,
        "percentile_list" => kept.percentiles = percentiles(value.text()?)?,
        "significant_figures" => {
            let digits = value.number_in(1, 10, "a number of digits, 1 to 10")?;
            kept.significant_figures = digits as usize;
        }
        "disable_lat" => kept.lat = !value.flag()?,
        "disable_clat" => kept.clat = !value.flag()?,
        "disable_slat" => kept.slat = !value.flag()?,
        "disable_bw_measurement" => kept.bw = !value.flag()?,
        "gtod_reduce" => {
            if value.flag()? {
                (kept.lat, kept.clat, kept.slat, kept.bw) = (false, false, false, false);
            }
        }
        "unified_rw_reporting" => {
            let words =
                [("none", false), ("0", false), ("mixed", true), ("1", true), ("both", false)];
            if value.text()? == "both" {
                return Err(Trouble::Refused("take none or mixed"));
            }
            kept.mixed = value.one_of(&words, "none or mixed")?;
        }
        "bwavgtime" => kept.bw_window = window()?,
        "iopsavgtime" => kept.iops_window = window()?,
        "kb_base" => {
            kept.kb_base = value.one_of(&[("1024", 1024), ("1000", 1000)], "1024 or 1000")?;
        }
        "unit_base" => {
            kept.bits = value.one_of(&[("0", false), ("8", false), ("1", true)], "0, 8 or 1")?;
        }
        "stats" => spec.told = value.flag()?,
        "write_bw_log" => spec.logs.bandwidth = Some(value.text.unwrap_or_default().into()),
        "write_lat_log" => spec.logs.latency = Some(value.text.unwrap_or_default().into()),
        "write_iops_log" => spec.logs.iops = Some(value.text.unwrap_or_default().into()),
        "per_job_logs" => spec.logs.per_job = value.flag()?,
        "log_avg_msec" => spec.logs.average = value.time(TimeUnit::Milliseconds)?,
        "log_max_value" => spec.logs.maximum = value.flag()?,
        "log_offset" => spec.logs.offset = value.flag()?,
        "disk_util" | "error_dump" | "allow_mounted_write" => {
            value.flag()?;
        }
        // Where the memory of blocks comes from, and how calls are batched: the runtime's affair.
        "mem" | "iomem" => {
            value.text()?;
        }
        "iomem_align" | "mem_align" => {
            value.size()?;
        }
        "log_entries"
        | "iodepth_batch"
        | "iodepth_batch_complete_min"
        | "iodepth_batch_complete_max" => {
            value.number()?;
        }
        "hipri" | "fixedbufs" | "registerfiles" | "sqthread_poll" | "nonvectored"
        | "userspace_reap" => {
            value.flag()?;
        }
        _ => return Err(Trouble::Unknown),
    }
    Ok(())
}

fn checksum(name: &str) -> Result<Option<Checksum>, Trouble> {
    Ok(Some(match name {
        "0" => return Ok(None),
        "meta" => Checksum::Meta,
        "pattern" => Checksum::PatternOnly,
        "pattern_hdr" => Checksum::Pattern,
        "crc7" => Checksum::Crc7,
        "crc16" => Checksum::Crc16,
        "crc32" => Checksum::Crc32,
        "crc32c" | "crc32c-intel" => Checksum::Crc32c,
        "crc64" => Checksum::Crc64,
        "sha256" => Checksum::Sha256,
        "sha512" => Checksum::Sha512,
        "null" => Checksum::Null,
        "md5" | "sha1" | "sha3-224" | "sha3-256" | "sha3-384" | "sha3-512" | "xxhash" => {
            return Err(Trouble::Refused("take crc32c, crc32, crc64, sha256 or sha512"));
        }
        _ => {
            return Err("meta, pattern, pattern_hdr, crc7, crc16, crc32, crc32c, crc64, sha256, sha512 or null".into());
        }
    }))
}

fn continue_on_error(value: &Value) -> Result<[bool; 4], Wanted> {
    // Of reads, writes, trims and verification. To fio what is no read is a write.
    let words = [
        ("none", [false; 4]),
        ("0", [false; 4]),
        ("read", [true, false, false, false]),
        ("write", [false, true, true, false]),
        ("trim", [false, false, true, false]),
        ("io", [true, true, true, false]),
        ("verify", [false, false, false, true]),
        ("all", [true; 4]),
        ("1", [true; 4]),
    ];
    value.one_of(&words, "none, read, write, trim, io, verify or all")
}

/// Errors of reads, of writes and of verification, parted by `,`; a part that is empty says nothing.
fn ignored_errors(text: &str) -> Result<[Option<Vec<i32>>; 3], Wanted> {
    let mut lists = [const { None }; 3];
    for (at, part) in text.split(',').enumerate() {
        let list = lists.get_mut(at).ok_or("at most three lists of errors: READ,WRITE,VERIFY")?;
        if !part.trim().is_empty() {
            *list = Some(error_numbers(part.trim())?);
        }
    }
    Ok(lists)
}

/// Errors by name or number, parted by `:`.
fn error_numbers(text: &str) -> Result<Vec<i32>, Wanted> {
    const NAMES: [(&str, i32); 12] = [
        ("EPERM", 1),
        ("ENOENT", 2),
        ("EIO", 5),
        ("ENXIO", 6),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
        ("EBUSY", 16),
        ("EINVAL", 22),
        ("ENOSPC", 28),
        ("EOPNOTSUPP", 95),
        ("ETIMEDOUT", 110),
        ("EILSEQ", 84),
    ];
    let number = |name: &str| {
        let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        known.or_else(|| name.parse().ok()).ok_or("names or numbers of errors, as in ENOSPC:5")
    };
    text.split(':').map(number).collect()
}

fn percentiles(text: &str) -> Result<Vec<f64>, Wanted> {
    let mut list: Vec<f64> = text
        .split([':', ','])
        .filter(|part| !part.is_empty())
        .map(fraction)
        .collect::<Result<_, _>>()?;
    if list.len() > PERCENTILES_MAX || list.iter().any(|value| *value <= 0.0 || *value > 100.0) {
        return Err("at most 20 percentiles above 0 and up to 100, as in 50:99:99.9");
    }
    if list.is_empty() {
        list = PERCENTILES.to_vec();
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}
