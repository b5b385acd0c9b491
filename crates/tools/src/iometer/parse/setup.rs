//! The sections `TEST SETUP` and `RESULTS DISPLAY`.

use super::lines::{Lines, after_prefix, begins_with};
use super::{IcfError, IcfErrorKind, RUN_HOURS_MAX};
use crate::iometer::icf::{Cycling, Growth, Record, TestSetup, TestType, WorkerCount};
use std::time::Duration;

const SECTION: &str = "TEST SETUP";
const END: &str = "'END test setup";
const DISPLAY: &str = "RESULTS DISPLAY";
const DISPLAY_END: &str = "'END results display";

/// Versions before this one (1999.02.17) may lack the end of the test setup.
const SETUP_HAS_END: u64 = 19_990_217;

/// The largest number in a cycling, the one that IOMeter's own fields take.
const CYCLING_MAX: u64 = 9999;

/// The longest ramp-up, in seconds.
const RAMP_UP_S_MAX: u64 = RUN_HOURS_MAX * 3600;

/// IOMeter's test types in the order of the numbers that older versions stored.
const TEST_TYPES: [(&str, TestType); 8] = [
    ("NORMAL", TestType::Normal),
    ("CYCLE_TARGETS", TestType::CycleTargets),
    ("CYCLE_WORKERS", TestType::CycleWorkers),
    ("INCREMENT_TARGETS_PARALLEL", TestType::IncrementTargetsParallel),
    ("INCREMENT_TARGETS_SERIAL", TestType::IncrementTargetsSerial),
    ("CYCLE_WORKERS_AND_TARGETS", TestType::CycleWorkersAndTargets),
    ("CYCLE_OUTSTANDING_IOS", TestType::CycleOutstandingIos),
    ("CYCLE_OUTSTANDING_IOS_AND_TARGETS", TestType::CycleOutstandingIosAndTargets),
];

const RECORDS: [(&str, Record); 5] = [
    ("ALL", Record::All),
    ("NO_TARGETS", Record::NoTargets),
    ("NO_WORKERS", Record::NoWorkers),
    ("NO_MANAGERS", Record::NoManagers),
    ("NONE", Record::None),
];

/// Reads the section, whose first line was read.
pub(super) fn read(
    lines: &mut Lines<'_>,
    setup: &mut TestSetup,
    version: u64,
) -> Result<(), IcfError> {
    loop {
        let line = match lines.key(SECTION, END) {
            Ok(line) => line,
            Err(error) if version >= SETUP_HAS_END => return Err(error),
            Err(_) => return Ok(()),
        };
        let key = line.text();
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        if is(END) {
            return Ok(());
        } else if is("'Test Description") {
            setup.description = lines.text_value().to_owned();
        } else if is("'Run Time") {
            setup.run_time = run_time(lines)?;
        } else if begins_with(key, "'Ramp Up Time") {
            let mut data = lines.data("the ramp-up time in seconds")?;
            let word = data.word();
            let seconds = data.number(lines, word, "the ramp-up time", 0, RAMP_UP_S_MAX)?;
            setup.ramp_up = Duration::from_secs(seconds);
        } else if is("'Default Disk Workers to Spawn") {
            setup.disk_workers = workers(lines)?;
        } else if is("'Default Workers to Spawn") {
            // Older versions stored "one for each processor" as 0.
            setup.disk_workers = match workers(lines)? {
                WorkerCount::Fixed(0) => WorkerCount::Processors,
                fixed => fixed,
            };
        } else if is("'Default Network Workers to Spawn") {
            // Checked, but there are no network workers; those that a file lists are refused.
            workers(lines)?;
        } else if is("'Record Results") {
            let data = lines.data("what to record")?;
            setup.record = data.one_of(
                lines,
                data.text(),
                "'Record Results",
                "ALL, NO_TARGETS, NO_WORKERS, NO_MANAGERS, NONE",
                &RECORDS,
                &RECORDS.map(|(_, meaning)| meaning),
            )?;
        } else if is("'Worker Cycling") {
            setup.worker_cycling = cycling(lines, false)?.0;
        } else if is("'Disk Cycling") {
            setup.target_cycling = cycling(lines, false)?.0;
        } else if is("'Queue Depth Cycling") {
            (setup.queue_cycling, setup.queue_end) = cycling(lines, true)?;
        } else if is("'Test Type") {
            let data = lines.data("the test type")?;
            setup.test_type = data.one_of(
                lines,
                data.text(),
                "'Test Type",
                "NORMAL, CYCLE_TARGETS, CYCLE_WORKERS, INCREMENT_TARGETS_PARALLEL, \
                 INCREMENT_TARGETS_SERIAL, CYCLE_WORKERS_AND_TARGETS, CYCLE_OUTSTANDING_IOS, \
                 CYCLE_OUTSTANDING_IOS_AND_TARGETS",
                &TEST_TYPES,
                &TEST_TYPES.map(|(_, meaning)| meaning),
            )?;
        } else {
            let kind = IcfErrorKind::UnknownKey { section: SECTION, key: key.to_owned() };
            return Err(lines.error(&line, key, kind));
        }
    }
}

fn run_time(lines: &mut Lines<'_>) -> Result<Duration, IcfError> {
    let mut data = lines.data("the run time: hours, minutes and seconds")?;
    let mut seconds = 0;
    let parts = [("hours", RUN_HOURS_MAX), ("minutes", 59_999), ("seconds", 9_999_999)];
    for (what, max) in parts {
        let word = data.word();
        seconds = seconds * 60 + data.number(lines, word, what, 0, max)?;
    }
    Ok(Duration::from_secs(seconds))
}

fn workers(lines: &mut Lines<'_>) -> Result<WorkerCount, IcfError> {
    let mut data = lines.data("a number of workers, or NUMBER_OF_CPUS")?;
    let word = data.word();
    if word.eq_ignore_ascii_case("NUMBER_OF_CPUS") || word == "-1" {
        return Ok(WorkerCount::Processors);
    }
    let max = workload::crew::WORKERS_MAX as u64;
    Ok(WorkerCount::Fixed(data.number(lines, word, "the number of workers", 0, max)? as u32))
}

/// Start, end (for the queue depth), step, kind of step.
fn cycling(lines: &mut Lines<'_>, has_end: bool) -> Result<(Cycling, u32), IcfError> {
    let mut data = lines.data("the cycling: start, step and step type")?;
    let word = data.word();
    let start = data.number(lines, word, "the start of a cycling", 1, CYCLING_MAX)? as u32;
    let mut end = start;
    if has_end {
        let word = data.word();
        end = data.number(lines, word, "the end of a cycling", 1, CYCLING_MAX)? as u32;
    }
    let word = data.word();
    let step = data.number(lines, word, "the step of a cycling", 1, CYCLING_MAX)? as u32;
    let word = data.word();
    let growth = data.one_of(
        lines,
        word,
        "the step type",
        "LINEAR, EXPONENTIAL",
        &[("LINEAR", Growth::Linear), ("EXPONENTIAL", Growth::Exponential)],
        &[Growth::Linear, Growth::Exponential],
    )?;
    Ok((Cycling { start, step, growth }, end))
}

/// Checks the keys of the results display, and drops them: there is no window.
pub(super) fn skip_display(lines: &mut Lines<'_>) -> Result<(), IcfError> {
    loop {
        let line = lines.key(DISPLAY, DISPLAY_END)?;
        let key = line.text();
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        let updates = is("'Record Last Update Results,Update Frequency,Update Type")
            || is("'Update Frequency,Update Type");
        if is(DISPLAY_END) {
            return Ok(());
        } else if updates || after_prefix(key, "'Bar chart").is_some() {
            lines.text_value();
        } else {
            let kind = IcfErrorKind::UnknownKey { section: DISPLAY, key: key.to_owned() };
            return Err(lines.error(&line, key, kind));
        }
    }
}
