//! The section `MANAGER LIST`: machines, their workers, what those are given.

use super::lines::{Fields, Line, Lines};
use super::{ASSIGNED_MAX, IcfError, IcfErrorKind, MANAGERS_MAX, OUTSTANDING_MAX, TARGETS_MAX};
use crate::iometer::icf::{DataPattern, Icf, Manager, Worker};
use workload::crew::WORKERS_MAX;

const LIST: &str = "MANAGER LIST";
const LIST_END: &str = "'END manager list";
const MANAGER: &str = "a manager of MANAGER LIST";
const MANAGER_END: &str = "'End manager";
const WORKER: &str = "a worker of MANAGER LIST";
const WORKER_END: &str = "'End worker";
const DEFAULTS: &str = "the default target settings of a worker";
const DEFAULTS_END: &str = "'End default target settings for worker";
const SPECS: &str = "the assigned access specs of a worker";
const SPECS_END: &str = "'End assigned access specs";
const TARGETS: &str = "the target assignments of a worker";
const TARGETS_END: &str = "'End target assignments";

const OUTSTANDING: &str =
    "'Number of outstanding IOs,test connection rate,transactions per connection";
const OUTSTANDING_AND_SEED: &str = "'Number of outstanding IOs,test connection rate,transactions per \
                                    connection,use fixed seed,fixed seed value";

/// The names that workers are given, with their lines: checked when all of the file is read.
type Assigned<'a> = Vec<(Line<'a>, &'a str)>;

/// Reads the section, whose first line was read.
pub(super) fn read<'a>(
    lines: &mut Lines<'a>,
    icf: &mut Icf,
    assigned: &mut Assigned<'a>,
) -> Result<(), IcfError> {
    loop {
        let line = lines.key(LIST, LIST_END)?;
        let key = line.text();
        if key.eq_ignore_ascii_case(LIST_END) {
            return Ok(());
        }
        if !key.eq_ignore_ascii_case("'Manager ID, manager name") {
            return Err(unknown(lines, &line, LIST));
        }
        if icf.managers.len() == MANAGERS_MAX {
            let kind = IcfErrorKind::TooMany { what: "managers", max: MANAGERS_MAX };
            return Err(lines.error(&line, key, kind));
        }
        let mut data = lines.data("the number and the name of a manager")?;
        let id = data.up_to_comma();
        data.number(lines, id, "the number of a manager", 0, u64::from(u32::MAX))?;
        let mut manager = Manager { name: data.remainder().to_owned(), workers: Vec::new() };
        let workers: usize = icf.managers.iter().map(|manager| manager.workers.len()).sum();
        read_manager(lines, &mut manager, workers, assigned)?;
        icf.managers.push(manager);
    }
}

fn read_manager<'a>(
    lines: &mut Lines<'a>,
    manager: &mut Manager,
    workers_before: usize,
    assigned: &mut Assigned<'a>,
) -> Result<(), IcfError> {
    loop {
        let line = lines.key(MANAGER, MANAGER_END)?;
        let key = line.text();
        if key.eq_ignore_ascii_case(MANAGER_END) {
            return Ok(());
        } else if key.eq_ignore_ascii_case("'Manager network address") {
            // All workers run on this machine.
            lines.text_value();
        } else if key.eq_ignore_ascii_case("'Worker") {
            if workers_before + manager.workers.len() == WORKERS_MAX {
                let kind = IcfErrorKind::TooMany { what: "workers", max: WORKERS_MAX };
                return Err(lines.error(&line, key, kind));
            }
            let worker = read_worker(lines, assigned)?;
            manager.workers.push(worker);
        } else {
            return Err(unknown(lines, &line, MANAGER));
        }
    }
}

fn read_worker<'a>(lines: &mut Lines<'a>, assigned: &mut Assigned<'a>) -> Result<Worker, IcfError> {
    let mut worker = Worker {
        name: lines.text_value().to_owned(),
        outstanding: 1,
        seed: None,
        size_sectors: 0,
        start_sector: 0,
        pattern: DataPattern::default(),
        specs: Vec::new(),
        targets: Vec::new(),
    };
    let line = lines.key(WORKER, WORKER_END)?;
    if !line.text().eq_ignore_ascii_case("'Worker type") {
        return Err(expected(lines, &line, "'Worker type after the name of a worker"));
    }
    let mut data = lines.data("DISK")?;
    let kind = data.up_to_comma();
    if kind.eq_ignore_ascii_case("NETWORK") {
        let kind = IcfErrorKind::NetworkWorker { worker: worker.name };
        return Err(lines.error(&data.line, data.text(), kind));
    }
    data.one_of(lines, kind, "'Worker type", "DISK", &[("DISK", ())], &[])?;
    loop {
        let line = lines.line(WORKER, WORKER_END)?;
        let key = line.text();
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        if is(WORKER_END) {
            return Ok(worker);
        } else if is("'Default target settings for worker") {
            read_defaults(lines, &mut worker)?;
        } else if is("'Assigned access specs") {
            read_specs(lines, &mut worker, assigned)?;
        } else if is("'Target assignments") {
            read_targets(lines, &mut worker)?;
        } else {
            return Err(unknown(lines, &line, WORKER));
        }
    }
}

fn read_defaults(lines: &mut Lines<'_>, worker: &mut Worker) -> Result<(), IcfError> {
    let sectors_max = i64::MAX as u64 / 512;
    loop {
        let line = lines.key(DEFAULTS, DEFAULTS_END)?;
        let key = line.text();
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        if is(DEFAULTS_END) {
            return Ok(());
        } else if is(OUTSTANDING) || is(OUTSTANDING_AND_SEED) {
            let mut data = lines.data("the number of outstanding I/Os")?;
            let word = data.up_to_comma();
            let what = "the number of outstanding I/Os";
            worker.outstanding = data.number(lines, word, what, 1, OUTSTANDING_MAX)? as u32;
            let word = data.up_to_comma();
            if is_enabled(lines, &data, word, "the test of the connection rate")? {
                return Err(lines.error(&data.line, word, IcfErrorKind::ConnectionRate));
            }
            let word = data.up_to_comma();
            let what = "the number of transactions per connection";
            data.number(lines, word, what, 0, u64::from(u32::MAX))?;
            if is(OUTSTANDING_AND_SEED) {
                let word = data.up_to_comma();
                let fixed = is_enabled(lines, &data, word, "the use of a fixed seed")?;
                let word = data.up_to_comma();
                let seed = data.number(lines, word, "the fixed seed", 0, u64::MAX)?;
                worker.seed = fixed.then_some(seed);
            }
        } else if is("'Disk maximum size,starting sector")
            || is("'Disk maximum size,starting sector,Data pattern")
            || is("'Disk maximum size,starting sector,Use Random Data")
        {
            let mut data = lines.data("the maximum size of the disk in sectors")?;
            let word = data.up_to_comma();
            worker.size_sectors = data.number(lines, word, "the maximum size", 0, sectors_max)?;
            let word = data.up_to_comma();
            worker.start_sector = data.number(lines, word, "the first sector", 0, sectors_max)?;
            if !data.is_done() {
                let patterns = [
                    DataPattern::RepeatingBytes,
                    DataPattern::PseudoRandom,
                    DataPattern::FullRandom,
                ];
                let word = data.up_to_comma();
                let what = "the data pattern";
                let pattern = data.number(lines, word, what, 0, patterns.len() as u64 - 1)?;
                worker.pattern = patterns[pattern as usize];
            }
        } else if is("'Local network interface") || is("'VI outstanding IOs") {
            let kind = IcfErrorKind::NetworkKey { key: key.to_owned() };
            return Err(lines.error(&line, key, kind));
        } else {
            return Err(unknown(lines, &line, DEFAULTS));
        }
    }
}

fn is_enabled<'a>(
    lines: &Lines<'a>,
    data: &Fields<'a>,
    word: &str,
    what: &'static str,
) -> Result<bool, IcfError> {
    let words = [("ENABLED", true), ("DISABLED", false)];
    data.one_of(lines, word, what, "ENABLED, DISABLED", &words, &[])
}

fn read_specs<'a>(
    lines: &mut Lines<'a>,
    worker: &mut Worker,
    assigned: &mut Assigned<'a>,
) -> Result<(), IcfError> {
    loop {
        let line = lines.line(SPECS, SPECS_END)?;
        let name = line.text();
        if name.eq_ignore_ascii_case(SPECS_END) {
            return Ok(());
        }
        if name.starts_with('\'') {
            return Err(unknown(lines, &line, SPECS));
        }
        if worker.specs.len() == ASSIGNED_MAX {
            let what = "access specifications assigned to a worker";
            let kind = IcfErrorKind::TooMany { what, max: ASSIGNED_MAX };
            return Err(lines.error(&line, name, kind));
        }
        worker.specs.push(name.to_owned());
        assigned.push((line, name));
    }
}

fn read_targets(lines: &mut Lines<'_>, worker: &mut Worker) -> Result<(), IcfError> {
    loop {
        let line = lines.key(TARGETS, TARGETS_END)?;
        let key = line.text();
        if key.eq_ignore_ascii_case(TARGETS_END) {
            return Ok(());
        }
        if !key.eq_ignore_ascii_case("'Target") {
            return Err(unknown(lines, &line, TARGETS));
        }
        if worker.targets.len() == TARGETS_MAX {
            let kind = IcfErrorKind::TooMany { what: "targets of a worker", max: TARGETS_MAX };
            return Err(lines.error(&line, key, kind));
        }
        let target = lines.text_value().to_owned();
        let line = lines.key(TARGETS, TARGETS_END)?;
        if !line.text().eq_ignore_ascii_case("'Target type") {
            return Err(expected(lines, &line, "'Target type after the name of a target"));
        }
        let mut data = lines.data("DISK")?;
        let kind = data.up_to_comma();
        if kind.eq_ignore_ascii_case("NETWORK") {
            let kind = IcfErrorKind::NetworkTarget { target };
            return Err(lines.error(&data.line, data.text(), kind));
        }
        data.one_of(lines, kind, "'Target type", "DISK", &[("DISK", ())], &[])?;
        let line = lines.key(TARGETS, TARGETS_END)?;
        if !line.text().eq_ignore_ascii_case("'End target") {
            return Err(expected(lines, &line, "'End target"));
        }
        // Assigned twice is assigned once, as in IOMeter.
        if !worker.targets.contains(&target) {
            worker.targets.push(target);
        }
    }
}

fn unknown(lines: &Lines<'_>, line: &Line<'_>, section: &'static str) -> IcfError {
    let key = line.text().to_owned();
    lines.error(line, line.text(), IcfErrorKind::UnknownKey { section, key })
}

fn expected(lines: &Lines<'_>, line: &Line<'_>, expected: &'static str) -> IcfError {
    let found = line.text().to_owned();
    lines.error(line, line.text(), IcfErrorKind::Expected { expected, found })
}
