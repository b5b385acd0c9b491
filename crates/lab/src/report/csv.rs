//! `results.csv`: the tidy long form, for spreadsheets, R and pandas.
//!
//! One row for each cell and metric. The columns, in order:
//!
//! | column | what |
//! |---|---|
//! | `study`, `simulated`, `quick` | of the run, in every row, so that files can be put end to end without mixing real figures with simulated ones |
//! | `cell` | the cell's name, unique in the run |
//! | `workload` | its workload |
//! | one for each factor | its level; empty where the cell lacks the factor. A factor called like another column is `factor_NAME` |
//! | `repeats` | independent repeats behind the figures |
//! | `metric` | `iops`, `latency_us_p99`, …; the unit ends the name |
//! | `mean`, `ci_low`, `ci_high` | the mean and the ends of its confidence interval, in full precision |
//! | `samples` | one value a repeat, in order, with spaces between |
//! | `warnings` | the cell's warnings, with ` \| ` between |
//! | `error` | why the cell has no figures |
//! | `parameters` | every parameter of the workload, `key=value` with spaces between, the defaults among them |
//! | `spindle_version`, `seed`, `began` | of the run; simulated runs have no date |
//! | `partial` | `13/18` where the run ended before its end |
//! | `machine` | its parts, with `; ` between |
//! | `layout_worth` | room, losses survived and price of the cell's layout, `key=value` with spaces between |
//!
//! A cell without figures has one row with `metric` empty, so every cell is in the file. What isn't a
//! finite number is left empty. Distributions and progress are in `results.json` only.
//!
//! Samples are joined, not one row each: a file with three times the rows, whose every mean is said
//! three times, invites averaging over it; and `str.split` is in every tool.

use super::account;
use crate::moment;
use crate::results::{Cell, Metric, Results};
use std::collections::BTreeSet;

const BEFORE_FACTORS: &[&str] = &["study", "simulated", "quick", "cell", "workload"];
const AFTER_FACTORS: &[&str] = &[
    "repeats",
    "metric",
    "mean",
    "ci_low",
    "ci_high",
    "samples",
    "warnings",
    "error",
    "parameters",
    "spindle_version",
    "seed",
    "began",
    "partial",
    "machine",
    "layout_worth",
];

/// The results as CSV (RFC 4180, UTF-8, a header, lines end in `\n`).
pub fn csv(results: &Results) -> String {
    let factors: BTreeSet<&str> =
        results.cells.iter().flat_map(|cell| cell.factors.keys().map(String::as_str)).collect();
    let mut rows = ::csv::Writer::from_writer(Vec::new());
    let names = BEFORE_FACTORS.iter().chain(AFTER_FACTORS);
    let heading = |factor: &&str| match names.clone().any(|name| name == factor) {
        true => format!("factor_{factor}"),
        false => (*factor).to_owned(),
    };
    let mut header: Vec<String> = BEFORE_FACTORS.iter().map(|&name| name.to_owned()).collect();
    header.extend(factors.iter().map(heading));
    header.extend(AFTER_FACTORS.iter().map(|&name| name.to_owned()));
    let mut write = |row: &[String]| rows.write_record(row).expect("memory takes every row");
    write(&header);
    for cell in &results.cells {
        for (name, metric) in &cell.metrics {
            write(&row(results, &factors, cell, name, Some(metric)));
        }
        if cell.metrics.is_empty() {
            write(&row(results, &factors, cell, "", None));
        }
    }
    let bytes = rows.into_inner().expect("memory takes every row");
    String::from_utf8(bytes).expect("rows are made of strings")
}

fn row(
    results: &Results,
    factors: &BTreeSet<&str>,
    cell: &Cell,
    name: &str,
    metric: Option<&Metric>,
) -> Vec<String> {
    let of = |value: fn(&Metric) -> f64| metric.map_or(String::new(), |m| number(value(m)));
    let mut row = vec![
        results.study.clone(),
        results.simulated.to_string(),
        results.quick.to_string(),
        cell.id.clone(),
        cell.workload.clone(),
    ];
    row.extend(factors.iter().map(|f| cell.factors.get(*f).cloned().unwrap_or_default()));
    let samples: Vec<String> =
        metric.into_iter().flat_map(|m| m.samples.iter().map(|&sample| number(sample))).collect();
    row.extend([
        cell.repeats.to_string(),
        name.to_owned(),
        of(|m| m.mean),
        of(|m| m.ci_low),
        of(|m| m.ci_high),
        samples.join(" "),
        cell.warnings.join(" | "),
        cell.error.clone().unwrap_or_default(),
        account::in_one(&cell.parameters),
        results.spindle_version.clone(),
        results.seed.to_string(),
        results.run.began_unix_s.map_or_else(String::new, moment::utc),
        results.partial.map_or_else(String::new, |part| format!("{}/{}", part.done, part.total)),
        machine(results),
        worth(results, cell),
    ]);
    row
}

fn machine(results: &Results) -> String {
    let parts = results.machine.iter().map(|(part, what)| format!("{part}: {what}"));
    parts.collect::<Vec<_>>().join("; ")
}

/// The worth of a cell's layout, where the study has several; else of the one there is.
fn worth(results: &Results, cell: &Cell) -> String {
    let named = |name: &str| {
        // `raid5-8` or `raid5-8, disk=exos-x20`.
        let mut parts = name.split(", ");
        let layout = parts.next();
        cell.factors.get("layout").is_none_or(|level| Some(level.as_str()) == layout)
            && parts.all(|part| match part.split_once('=') {
                Some((factor, level)) => cell.factors.get(factor).is_some_and(|its| its == level),
                None => false,
            })
    };
    let Some(layout) = results.layouts.iter().find(|layout| named(&layout.name)) else {
        return String::new();
    };
    let mut text = format!("disks={} usable_bytes={}", layout.disks, layout.usable_bytes);
    if !layout.shares_disks {
        let (any, best) = (layout.survives_any, layout.survives_at_best);
        text += &format!(" survives_any={any} survives_at_best={best}");
    }
    let mut add = |key: &str, value: Option<f64>| {
        if let Some(value) = value {
            text += &format!(" {key}={value}");
        }
    };
    add("rebuild_idle_s", layout.rebuild_idle_s);
    add("rebuild_loaded_s", layout.rebuild_loaded_s);
    add("rebuild_loaded_low_s", layout.rebuild_loaded_low_s);
    add("rebuild_loaded_high_s", layout.rebuild_loaded_high_s);
    add("rebuild_idle_error_s", layout.rebuild_idle_error_s);
    add("rebuild_loaded_error_s", layout.rebuild_loaded_error_s);
    add("rebuild_idle_interval_s", layout.rebuild_idle_interval_s);
    add("rebuild_loaded_interval_s", layout.rebuild_loaded_interval_s);
    add("load_mb_s", layout.load_mb_s);
    if let Some(load) = &layout.loaded_by {
        text += &format!(" loaded_by={load}");
    }
    if let Some(priority) = &layout.rebuild_priority {
        text += &format!(" rebuild_priority={priority}");
    }
    let mut add = |key: &str, value: Option<f64>| {
        if let Some(value) = value {
            text += &format!(" {key}={value}");
        }
    };
    add("second_loss", layout.second_loss);
    add("unreadable", layout.unreadable);
    add("data_loss_a_year", layout.data_loss_a_year);
    add("price", layout.price);
    text
}

/// The shortest decimal that reads back as the same number; empty if there is none.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}
