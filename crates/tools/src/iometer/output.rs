//! What IOMeter's users know: a table, and its results file.
//!
//! **The results file** is a CSV file in parts, each headed by a line with `'`: the test's type and
//! description, and for each test the access specifications that took part and the results, one row
//! for all together (`ALL`), one for each machine (`MANAGER`), worker and target (`DISK`), as the
//! configuration's `'Record Results` says. The columns are those of IOMeter 1.1.0, in its order, so
//! that what reads its files reads ours.
//!
//! **Where the figures differ in meaning.** Raw times are in nanoseconds, so the column `Processor
//! Speed` (ticks a second) is 10⁹. `% CPU Utilization` is the processor time of this program over that
//! of all processors; IOMeter has that of the whole machine, and its parts, which stay empty here, as
//! does what belongs to networks and interrupts. Rows of single processors are missing.

use super::engine::{IometerOutcome, TestOutcome};
use super::icf::{AccessSpec, DefaultAssignment, Record, SECTOR, TestType};
use super::plan::{Plan, TestWorker};
use super::tally::{Figures, Tally, WorkerTally, together};
use std::fmt::Write;
use std::time::Duration;

/// The columns of the results, in IOMeter's order.
const COLUMNS: &str = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,\
IOps,Read IOps,Write IOps,MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),\
MBps (Decimal),Read MBps (Decimal),Write MBps (Decimal),Transactions per Second,\
Connections per Second,Average Response Time,Average Read Response Time,\
Average Write Response Time,Average Transaction Time,Average Connection Time,\
Maximum Response Time,Maximum Read Response Time,Maximum Write Response Time,\
Maximum Transaction Time,Maximum Connection Time,Errors,Read Errors,Write Errors,Bytes Read,\
Bytes Written,Read I/Os,Write I/Os,Connections,Transactions per Connection,\
Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction Time,\
Total Raw Connection Time,Maximum Raw Read Response Time,Maximum Raw Write Response Time,\
Maximum Raw Transaction Time,Maximum Raw Connection Time,Total Raw Run Time,Starting Sector,\
Maximum Size,Queue Depth,% CPU Utilization,% User Time,% Privileged Time,% DPC Time,\
% Interrupt Time,Processor Speed,Interrupts per Second,CPU Effectiveness,Packets/Second,\
Packet Errors,Segments Retransmitted/Second,0 to 50 uS,50 to 100 uS,100 to 200 uS,200 to 500 uS,\
0.5 to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,10 to 15 mS,15 to 20 mS,20 to 30 mS,30 to 50 mS,\
50 to 100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,4.7 to 5 s,5 to 10 s, \
>= 10 s";

/// Ticks a second of raw times: they are nanoseconds.
const TICKS_PER_S: u64 = 1_000_000_000;

/// What IOMeter writes where several values are meant.
const AMBIGUOUS: &str = "-1";

const MIB: f64 = 1_048_576.0;
const MB: f64 = 1_000_000.0;

/// The table, row by row, so that a long run shows what is done.
pub struct Table {
    name_width: usize,
}

impl Table {
    /// The table of a plan's tests.
    pub fn new(plan: &Plan) -> Table {
        let names = plan.tests.iter().map(|test| test.spec_name().chars().count());
        Table { name_width: names.max().unwrap_or(0).max("Access specification".len()) }
    }

    /// The line above the rows.
    pub fn head(&self) -> String {
        format!(
            "{:<width$} {:>7} {:>5} {:>5} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
            "Access specification",
            "Workers",
            "Disks",
            "Depth",
            "IOps",
            "Read",
            "Write",
            "MBps",
            "MiBps",
            "Avg ms",
            "Read ms",
            "Write ms",
            "Max ms",
            "CPU %",
            width = self.name_width
        )
    }

    /// A test's row.
    pub fn row(&self, plan: &Plan, test: &TestOutcome) -> String {
        let (figures, _) = test.together();
        let [mean, read, write] = figures.response_ms;
        format!(
            "{:<width$} {:>7} {:>5} {:>5} {:>10.2} {:>10.2} {:>10.2} {:>9.2} {:>9.2} {:>9.4} {:>9.4} \
             {:>9.4} {:>9.3} {:>6.2}",
            test.spec,
            test.test.workers.len(),
            disks(test),
            test.depth.map_or("mixed".to_owned(), |depth| depth.to_string()),
            figures.iops(),
            figures.read_iops,
            figures.write_iops,
            figures.bytes_per_s() / MB,
            figures.bytes_per_s() / MIB,
            mean,
            read,
            write,
            figures.response_ms_max[0],
            processor_percent(plan, test),
            width = self.name_width
        )
    }
}

/// Different targets of a test.
fn disks(test: &TestOutcome) -> usize {
    test.test.workers.iter().map(|worker| worker.targets.len()).sum()
}

fn processor_percent(plan: &Plan, test: &TestOutcome) -> f64 {
    test.processors_busy() * 100.0 / f64::from(plan.processors)
}

/// When things were, in local time, as `2026-11-22 10:00:00:000`. An engine does not know.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// The run began.
    pub begun: String,
    /// Each test ended.
    pub ended: Vec<String>,
}

/// The results file.
pub fn results_csv(plan: &Plan, outcome: &IometerOutcome, stamps: &Stamps) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    line("'Test Type,Test Description");
    line(&format!("{},{}", type_number(plan.test_type), plain(&plan.description)));
    line("'Version");
    line(concat!("Spindle ", env!("CARGO_PKG_VERSION")));
    line("'Time Stamp");
    line(&stamps.begun);
    if plan.record == Record::None {
        return text;
    }
    for (number, test) in outcome.tests.iter().enumerate() {
        line("'Access specifications");
        for spec in specs(test) {
            spec_lines(spec, &mut line);
        }
        line("'End access specifications");
        line("'Results");
        line(COLUMNS);
        rows(plan, test, &mut line);
        line("'Time Stamp");
        line(stamps.ended.get(number).map_or("", String::as_str));
    }
    text
}

/// IOMeter's number of a test type.
fn type_number(test_type: TestType) -> u8 {
    match test_type {
        TestType::Normal => 0,
        TestType::CycleTargets => 1,
        TestType::CycleWorkers => 2,
        TestType::IncrementTargetsParallel => 3,
        TestType::IncrementTargetsSerial => 4,
        TestType::CycleWorkersAndTargets => 5,
        TestType::CycleOutstandingIos => 6,
        TestType::CycleOutstandingIosAndTargets => 7,
    }
}

/// A name without what divides fields and lines.
fn plain(name: &str) -> String {
    name.replace(['\n', '\r', ','], " ")
}

/// The access specifications of a test, each once.
fn specs(test: &TestOutcome) -> Vec<&AccessSpec> {
    let mut found: Vec<&AccessSpec> = Vec::new();
    for worker in &test.test.workers {
        if !found.iter().any(|spec| spec.name == worker.spec.name) {
            found.push(&worker.spec);
        }
    }
    found
}

fn spec_lines(spec: &AccessSpec, line: &mut impl FnMut(&str)) {
    let assigned = match spec.assigned {
        DefaultAssignment::None => 0,
        DefaultAssignment::All => 1,
        DefaultAssignment::Disk => 2,
        DefaultAssignment::Net => 3,
    };
    line("'Access specification name,default assignment");
    line(&format!("{},{assigned}", spec.name));
    line("'size,% of size,% reads,% random,delay,burst,align,reply");
    for row in &spec.lines {
        line(&format!(
            "{},{},{},{},{},{},{},0",
            row.size.bytes(),
            row.share_percent,
            row.reads_percent,
            row.random_percent,
            row.delay.as_millis(),
            row.burst,
            row.align.bytes(),
        ));
    }
}

/// What stands at the head of a row.
struct Head<'a> {
    kind: &'a str,
    name: &'a str,
    spec: &'a str,
    managers: Option<usize>,
    workers: Option<usize>,
    disks: Option<usize>,
}

fn rows(plan: &Plan, test: &TestOutcome, line: &mut impl FnMut(&str)) {
    let workers: Vec<(&TestWorker, &WorkerTally)> =
        test.test.workers.iter().zip(&test.workers).collect();
    let mut managers: Vec<&str> =
        workers.iter().map(|(worker, _)| worker.manager.as_str()).collect();
    managers.dedup();
    let percent = processor_percent(plan, test);
    let (figures, sum) = test.together();
    let head = Head {
        kind: "ALL",
        name: "All",
        spec: &test.spec,
        managers: Some(managers.len()),
        workers: Some(workers.len()),
        disks: Some(disks(test)),
    };
    let all: Vec<&TestWorker> = workers.iter().map(|(worker, _)| *worker).collect();
    line(&row(&head, &figures, &sum, None, &all, Some(percent)));
    if plan.record <= Record::NoManagers {
        return;
    }
    for manager in managers {
        let own = || workers.iter().filter(|(worker, _)| worker.manager == manager);
        let (figures, sum) = together(own().map(|(_, tally)| *tally));
        let its: Vec<&TestWorker> = own().map(|(worker, _)| *worker).collect();
        let specs: Vec<&str> = its.iter().map(|worker| worker.spec.name.as_str()).collect();
        let is_one = specs.iter().all(|spec| *spec == specs[0]);
        let head = Head {
            kind: "MANAGER",
            name: manager,
            spec: if is_one { specs[0] } else { "(mixed)" },
            managers: None,
            workers: Some(its.len()),
            disks: Some(its.iter().map(|worker| worker.targets.len()).sum()),
        };
        line(&row(&head, &figures, &sum, Some(test.time()), &its, Some(percent)));
        if plan.record <= Record::NoWorkers {
            continue;
        }
        for (worker, tally) in own() {
            let head = Head {
                kind: "WORKER",
                name: &worker.name,
                spec: &worker.spec.name,
                managers: None,
                workers: None,
                disks: Some(worker.targets.len()),
            };
            let time = Some(tally.time);
            line(&row(&head, &tally.figures(), &tally.sum(), time, &[worker], None));
            if plan.record <= Record::NoTargets {
                continue;
            }
            for (target, counted) in worker.targets.iter().zip(&tally.targets) {
                let file = &plan.files[*target];
                let path = file.path.display().to_string();
                let head = Head {
                    kind: "DISK",
                    name: if file.name.is_empty() { &path } else { &file.name },
                    spec: "",
                    managers: None,
                    workers: None,
                    disks: None,
                };
                let figures = counted.figures(tally.time);
                line(&row(&head, &figures, counted, time, &[worker], None));
            }
        }
    }
}

/// A row. `time`: for how long it was recorded, where raw times are given.
fn row(
    head: &Head<'_>,
    figures: &Figures,
    sum: &Tally,
    time: Option<Duration>,
    workers: &[&TestWorker],
    percent: Option<f64>,
) -> String {
    let mut text = format!("{},{},{}", head.kind, plain(head.name), plain(head.spec));
    let mut put = |field: String| write!(text, ",{field}").expect("a string takes all");
    for count in [head.managers, head.workers, head.disks] {
        put(count.map_or(String::new(), |count| count.to_string()));
    }
    let bytes = [figures.bytes_per_s(), figures.read_bytes_per_s, figures.write_bytes_per_s];
    let rates = [figures.iops(), figures.read_iops, figures.write_iops]
        .into_iter()
        .chain(bytes.map(|rate| rate / MIB))
        .chain(bytes.map(|rate| rate / MB))
        // A transaction is one I/O; there are no connections.
        .chain([figures.iops(), 0.0]);
    rates.for_each(|rate| put(format!("{rate:.6}")));
    for [all, read, write] in [figures.response_ms, figures.response_ms_max] {
        for response in [all, read, write, all, 0.0] {
            put(format!("{response:.6}"));
        }
    }
    // An error ends the run, so that there are none in what is recorded.
    let counts = [0, 0, 0, sum.reads.bytes, sum.writes.bytes, sum.reads.ios, sum.writes.ios, 0];
    counts.into_iter().for_each(|count| put(count.to_string()));
    put(AMBIGUOUS.to_owned());
    match time {
        None => (0..9).for_each(|_| put(String::new())),
        Some(time) => {
            let (reads, writes) = (&sum.reads, &sum.writes);
            let total = reads.response_ns + writes.response_ns;
            let longest = reads.response_ns_max.max(writes.response_ns_max);
            let raw = [
                u128::from(reads.response_ns),
                writes.response_ns.into(),
                total.into(),
                0,
                reads.response_ns_max.into(),
                writes.response_ns_max.into(),
                longest.into(),
                0,
                time.as_nanos(),
            ];
            raw.into_iter().for_each(|raw| put(raw.to_string()));
        }
    }
    let same = |value: fn(&TestWorker) -> u64| {
        let first = workers.first().map(|worker| value(worker));
        let all = workers.iter().all(|worker| Some(value(worker)) == first);
        first.filter(|_| all).map_or(AMBIGUOUS.to_owned(), |value| value.to_string())
    };
    put(same(|worker| worker.start.bytes() / SECTOR.bytes()));
    put(same(|worker| worker.size.bytes() / SECTOR.bytes()));
    put(same(|worker| worker.outstanding.into()));
    put(percent.map_or(String::new(), |percent| format!("{percent:.6}")));
    (0..4).for_each(|_| put(String::new()));
    put(TICKS_PER_S.to_string());
    put(String::new());
    let effectiveness = percent.filter(|percent| *percent > 0.0);
    put(effectiveness.map_or(String::new(), |percent| format!("{:.6}", figures.iops() / percent)));
    (0..3).for_each(|_| put(String::new()));
    sum.bins.iter().for_each(|bin| put(bin.to_string()));
    text
}

#[cfg(test)]
mod tests;
