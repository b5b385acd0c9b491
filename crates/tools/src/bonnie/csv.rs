//! bonnie++'s line of comma-separated values, format 1.98.
//!
//! Fifty fields, as bonnie++ 2.00 prints them and `bon_csv2html` and `bon_csv2txt` read them: format,
//! version, name, concurrency, seed; size, block, seeks, seekers, and six phases' rate and processor;
//! files, largest, smallest, directories, block, and six phases' rate and processor; twelve latencies.
//! Rates of bytes are in KiB/s. A phase that was left out is empty; one too short is `+++++` and `+++`.
//! Fields that have their default are empty where bonnie++ leaves them so (the blocks, one directory,
//! sizes of zero).
//!
//! Two of bonnie++'s slips are not repeated: it never prints the blocks, and puts the directories into
//! the field of the second block.

use super::figures::{BonnieOutcome, Figure, Phase, SHOWN_MIN};
use super::plan::CHUNK_DEFAULT;
use std::time::Duration;
use stdx::{ByteCount, units};

/// The format that the first field names.
const FORMAT: &str = "1.98";

/// The names of the fields.
pub fn header() -> String {
    let mut fields: Vec<String> = "format_version,bonnie_version,name,concurrency,seed,file_size,\
         io_chunk_size,num_seeks,num_seekers"
        .split(',')
        .map(str::to_owned)
        .collect();
    let columns = |on_file| {
        let phases = Phase::ALL.into_iter().filter(move |phase| phase.is_on_file() == on_file);
        phases.flat_map(|phase| [phase.column().to_owned(), format!("{}_cpu", phase.column())])
    };
    fields.extend(columns(true));
    fields.extend(
        "num_files,max_size,min_size,num_dirs,file_chunk_size".split(',').map(str::to_owned),
    );
    fields.extend(columns(false));
    fields.extend(Phase::ALL.map(|phase| format!("{}_latency", phase.column())));
    fields.join(",")
}

/// The line of a run.
pub fn line(outcome: &BonnieOutcome) -> String {
    let plan = &outcome.plan;
    let mut fields = vec![
        FORMAT.to_owned(),
        version(),
        // A name with a comma would move all fields.
        plan.machine.replace(',', " "),
        plan.concurrency.to_string(),
        plan.seed.to_string(),
    ];
    match &plan.file {
        Some(file) => fields.extend([
            mebibytes(file.size),
            unless_default(file.chunk),
            file.seeks.to_string(),
            file.seekers.to_string(),
        ]),
        None => fields.extend(vec![String::new(); 4]),
    }
    let figures = |on_file| {
        let phases = Phase::ALL.into_iter().filter(move |phase| phase.is_on_file() == on_file);
        phases.flat_map(|phase| rate_and_processor(phase, outcome.figure(phase)))
    };
    fields.extend(figures(true));
    match &plan.creation {
        Some(creation) => fields.extend([
            creation.files_ki.to_string(),
            unless_zero(creation.size_max),
            unless_zero(creation.size_min),
            if creation.directories > 1 { creation.directories.to_string() } else { String::new() },
            unless_default(creation.chunk),
        ]),
        None => fields.extend(vec![String::new(); 5]),
    }
    fields.extend(figures(false));
    fields.extend(Phase::ALL.map(|phase| outcome.figure(phase).map_or(String::new(), latency)));
    fields.join(",")
}

fn rate_and_processor(phase: Phase, figure: Option<Figure>) -> [String; 2] {
    match figure {
        None => [String::new(), String::new()],
        Some(figure) if figure.elapsed < SHOWN_MIN => ["+++++".to_owned(), "+++".to_owned()],
        Some(figure) => {
            let rate = match phase {
                Phase::Seeks => places_of_seeks(figure.rate()),
                phase if phase.counts_bytes() => format!("{}", (figure.rate() / 1024.0) as u64),
                _ => format!("{}", figure.rate() as u64),
            };
            [rate, format!("{}", figure.processor_percent() as u64)]
        }
    }
}

/// What stands for bonnie++'s version: whose figures these are.
pub(super) fn version() -> String {
    format!("spindle-{}", env!("CARGO_PKG_VERSION"))
}

/// Seeks a second: with a decimal where they are few.
pub(super) fn places_of_seeks(rate: f64) -> String {
    if rate >= 1000.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// A latency as bonnie++ writes it: µs to a tenth of a second, ms to 100 s, then seconds; cut, not
/// rounded. A latency of 0, which simulated memory has, is empty, as there.
pub(super) fn latency(figure: Figure) -> String {
    let latency = figure.latency_max;
    match latency {
        Duration::ZERO => String::new(),
        _ if latency >= Duration::from_secs(100) => format!("{}s", latency.as_secs()),
        _ if latency >= Duration::from_millis(100) => format!("{}ms", latency.as_millis()),
        _ => format!("{}us", latency.as_micros()),
    }
}

/// A size in MiB, or in GiB where it is whole ones: `300M`, `2G`.
pub(super) fn mebibytes(size: ByteCount) -> String {
    let mib = size.bytes() / units::MIB;
    match mib.is_multiple_of(1024) && mib > 0 {
        true => format!("{}G", mib / 1024),
        false => format!("{mib}M"),
    }
}

/// A block: `512`, `64k`, `1m`; empty where it is the default.
pub(super) fn unless_default(chunk: ByteCount) -> String {
    match chunk.bytes() {
        bytes if bytes == CHUNK_DEFAULT.bytes() => String::new(),
        bytes if bytes.is_multiple_of(units::MIB) => format!("{}m", bytes / units::MIB),
        bytes if bytes.is_multiple_of(units::KIB) => format!("{}k", bytes / units::KIB),
        bytes => bytes.to_string(),
    }
}

fn unless_zero(size: ByteCount) -> String {
    if size.is_zero() { String::new() } else { size.bytes().to_string() }
}
