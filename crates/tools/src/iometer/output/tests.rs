//! What could break: a results file whose columns have slipped, which no program that reads it would
//! notice.

use super::*;
use crate::iometer::parse::parse;
use crate::iometer::plan::{Options, plan};
use workload::outcome::latency_histogram;

fn sample(record: Record) -> (Plan, IometerOutcome) {
    let text = include_str!("../../../../../workloads/iometer-servers.icf");
    let icf = parse("x.icf", text).expect("ours");
    let mut plan = plan(&icf, &Options { processors: 4, ..Options::default() }).expect("a plan");
    plan.record = record;
    let mut tally = Tally::default();
    tally.count(true, 8192, Duration::from_micros(120));
    tally.count(false, 4096, Duration::from_micros(800));
    let worker = WorkerTally {
        targets: vec![tally],
        time: Duration::from_millis(500),
        latency: latency_histogram(),
    };
    let test = TestOutcome {
        spec: plan.tests[0].spec_name(),
        depth: plan.tests[0].depth(),
        test: plan.tests[0].clone(),
        workers: vec![worker],
        processor: Duration::from_millis(250),
    };
    (plan, IometerOutcome { tests: vec![test], warnings: Vec::new() })
}

/// The rows of the results, each as a map from column to field.
fn rows_of(text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("'Target Type"));
    let columns: Vec<&str> =
        lines.next().expect("columns").trim_start_matches('\'').split(',').map(str::trim).collect();
    lines
        .take_while(|line| !line.starts_with('\''))
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields.len(), columns.len(), "{line}");
            let names = columns.iter().map(|name| (*name).to_owned());
            names.zip(fields.into_iter().map(str::to_owned)).collect()
        })
        .collect()
}

#[test]
fn every_figure_stands_in_its_column() {
    let (plan, outcome) = sample(Record::All);
    let text = results_csv(&plan, &outcome, &Stamps::default());
    let rows = rows_of(&text);
    let kinds: Vec<&str> = rows.iter().map(|row| row["Target Type"].as_str()).collect();
    assert_eq!(kinds, ["ALL", "MANAGER", "WORKER", "DISK"]);
    for row in &rows {
        for (column, expected) in [
            ("IOps", "4.000000"),
            ("Read IOps", "2.000000"),
            ("MBps (Decimal)", "0.024576"),
            ("Write MiBps (Binary)", "0.007812"),
            ("Average Response Time", "0.460000"),
            ("Average Write Response Time", "0.800000"),
            ("Maximum Read Response Time", "0.120000"),
            ("Bytes Read", "8192"),
            ("Write I/Os", "1"),
            ("Maximum Size", "2097152"),
            ("Queue Depth", "1"),
            ("Processor Speed", "1000000000"),
            ("100 to 200 uS", "1"),
            ("0.5 to 1 mS", "1"),
            (">= 10 s", "0"),
        ] {
            assert_eq!(row[column], expected, "{column}");
        }
    }
    assert_eq!(rows[0]["% CPU Utilization"], "12.500000");
    assert_eq!(rows[0]["CPU Effectiveness"], "0.320000");
    assert_eq!(rows[0]["Total Raw Run Time"], "");
    assert_eq!(rows[3]["Total Raw Run Time"], "500000000");
    assert_eq!(rows[3]["Target Name"], "iobw");
    assert_eq!(rows[3]["Maximum Raw Write Response Time"], "800000");
}

#[test]
fn the_configuration_says_down_to_what_results_are_recorded() {
    for (record, count) in [(Record::NoTargets, 3), (Record::NoWorkers, 2), (Record::NoManagers, 1)]
    {
        let (plan, outcome) = sample(record);
        let text = results_csv(&plan, &outcome, &Stamps::default());
        assert_eq!(rows_of(&text).len(), count);
    }
    let (plan, outcome) = sample(Record::None);
    assert!(!results_csv(&plan, &outcome, &Stamps::default()).contains("'Results"));
}

#[test]
fn the_table_has_a_row_as_wide_as_its_head() {
    let (plan, outcome) = sample(Record::All);
    let table = Table::new(&plan);
    let row = table.row(&plan, &outcome.tests[0]);
    assert_eq!(row.chars().count(), table.head().chars().count());
    assert!(row.starts_with("File server "), "{row}");
    assert!(row.ends_with(" 12.50"), "{row}");
}
