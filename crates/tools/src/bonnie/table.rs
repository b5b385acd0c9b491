//! bonnie++'s table, 80 columns wide.
//!
//! Rates of bytes are in KiB/s, MiB/s (`m`) or GiB/s (`g`), whichever fits five places; `%CP` is the
//! processor. Below each part stands the longest operation of each phase.
//!
//! Where bonnie++ 2.00 prints the rates of small files, it hands a floating-point number to `%d`, and
//! what appears is chance; here the rate stands there.

use super::csv::{latency, mebibytes, places_of_seeks, unless_default, version};
use super::figures::{BonnieOutcome, Figure, Phase, SHOWN_MIN};
use super::plan::{Creation, File, Plan, SEEKERS_DEFAULT, SEEKS_DEFAULT};
use std::fmt::Write;

/// Places of the first column, and of a machine's name in it.
const FIRST_COLUMN: usize = 19;

/// The table of a run.
pub fn text(outcome: &BonnieOutcome) -> String {
    let plan = &outcome.plan;
    let mut text = String::new();
    let rates = |on_file| {
        let phases = Phase::ALL.into_iter().filter(move |phase| phase.is_on_file() == on_file);
        phases.map(|phase| rate(phase, outcome.figure(phase))).collect::<String>()
    };
    let latencies = |on_file| {
        let phases = Phase::ALL.into_iter().filter(move |phase| phase.is_on_file() == on_file);
        let one = |phase| outcome.figure(phase).map_or(String::new(), latency);
        phases.map(|phase| format!(" {:>9}", one(phase))).collect::<String>()
    };
    let version = version();
    const UNITS: &str = " /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP";
    if let Some(file) = &plan.file {
        let label = label(plan, file);
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "{version:<FIRST_COLUMN$} ------Sequential Output------ --Sequential Input- --Random-\n\
             {:<FIRST_COLUMN$} -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--\n\
             {:<FIRST_COLUMN$} {UNITS}\n\
             {label}{}\nLatency          {}",
            "",
            "Name:Size etc",
            rates(true),
            latencies(true)
        );
    }
    if let Some(creation) = &plan.creation {
        let sizes = match (creation.size_min.is_zero(), creation.size_max.is_zero()) {
            (false, _) => "files:max:min",
            (true, false) => "files:max",
            (true, true) => "files",
        };
        let machine: String = plan.machine.chars().take(FIRST_COLUMN).collect();
        let _ = writeln!(
            text,
            "{version:<FIRST_COLUMN$} ------Sequential Create------ --------Random Create--------\n\
             {machine:<FIRST_COLUMN$} -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--\n\
             {sizes:>FIRST_COLUMN$} {UNITS}\n\
             {:>FIRST_COLUMN$}{}\nLatency          {}",
            files(creation),
            rates(false),
            latencies(false)
        );
    }
    text
}

/// The machine's name, and right behind it `size:block:concurrency:seeks:seekers`, those at the end
/// that have their default left out.
fn label(plan: &Plan, file: &File) -> String {
    let unless = |value: u32, default: u32| match value == default {
        true => String::new(),
        false => value.to_string(),
    };
    let parts = [
        mebibytes(file.size),
        unless_default(file.chunk),
        unless(plan.concurrency, 1),
        unless(file.seeks, SEEKS_DEFAULT),
        unless(file.seekers, SEEKERS_DEFAULT),
    ];
    let size = parts.join(":");
    let size = size.trim_end_matches(':');
    match FIRST_COLUMN.checked_sub(size.len() + 1) {
        None | Some(0) => size.to_owned(),
        Some(room) => {
            let machine: String = plan.machine.chars().take(room).collect();
            format!("{machine:<room$} {size}")
        }
    }
}

fn files(creation: &Creation) -> String {
    let mut files = creation.files_ki.to_string();
    let (max, min) = (creation.size_max.bytes(), creation.size_min.bytes());
    if max > 0 {
        let _ = write!(files, ":{max}:{min}");
    }
    if creation.directories > 1 {
        let _ = write!(files, "/{}", creation.directories);
    }
    files
}

/// A rate and the processor, ten places.
fn rate(phase: Phase, figure: Option<Figure>) -> String {
    let Some(figure) = figure else { return " ".repeat(10) };
    if figure.elapsed < SHOWN_MIN {
        return " +++++ +++".to_owned();
    }
    let rate = match phase {
        Phase::Seeks => places_of_seeks(figure.rate()),
        phase if phase.counts_bytes() => kibibytes(figure.rate() / 1024.0),
        _ => format!("{}", figure.rate() as u64),
    };
    format!(" {rate:>5} {:>3}", figure.processor_percent() as u64)
}

/// KiB/s in five places: `9999k`, `99.9m`, `999m`, `9.9g`.
fn kibibytes(kib: f64) -> String {
    let mib = kib / 1024.0;
    if kib < 10_000.0 {
        format!("{}k", kib as u64)
    } else if mib < 100.0 {
        format!("{mib:.1}m")
    } else if mib < 1000.0 {
        format!("{}m", (mib + 0.5) as u64)
    } else {
        format!("{:.1}g", mib / 1024.0)
    }
}
