//! The result as fio's terse output, version 3: one line a job, fields parted by `;` (HOWTO, "Terse
//! output").

use super::figures::{Depths, Direction, Flow, Latency, Spread};
use super::outcome::{FioOutcome, Group, Row, Stamp};
use super::spec::Kept;
use std::fmt::Write as _;

/// Percentile fields of a direction.
const PERCENTILE_FIELDS: usize = 20;

/// All lines.
pub(super) fn whole(outcome: &FioOutcome, stamp: &Stamp) -> String {
    let groups = outcome.groups();
    let mut out = String::new();
    for row in &outcome.rows {
        let group = groups.get(row.job.group).copied().unwrap_or_default();
        line(&mut out, row, &group, stamp);
    }
    out
}

fn line(out: &mut String, row: &Row, group: &Group, stamp: &Stamp) {
    let (figures, kept) = (&row.figures, &row.job.spec.kept);
    let (version, name, number) = (&stamp.version, &row.job.name, row.job.group);
    let _ = write!(out, "3;{version};{name};{number};{}", row.error);
    for direction in [Direction::Read, Direction::Write] {
        one_way(out, &figures.flows[direction.index()], group, direction, kept);
    }
    let _ = write!(out, ";{:.6}%;{:.6}%;0;0;0", row.processor_percent(), 0.0);
    for share in Depths::shares(&figures.depths.level, figures.total_ios()) {
        let _ = write!(out, ";{share:3.1}%");
    }
    let (ns, us, ms) = figures.spread.shares(figures.total_ios());
    // What took less than a microsecond counts to the first class of microseconds.
    let below: f64 = ns.iter().sum();
    let first = [us[0] + below];
    for share in first.iter().chain(&us[1..Spread::NAMES.len()]).chain(&ms) {
        let _ = write!(out, ";{share:3.2}%");
    }
    let spec = &row.job.spec;
    if spec.tolerance.is_any() {
        let _ = write!(out, ";{};{}", figures.errors, figures.first_error);
    }
    if !spec.description.is_empty() {
        let _ = write!(out, ";{}", spec.description);
    }
    out.push('\n');
}

fn moments(out: &mut String, latency: &Latency) {
    let summary = latency.samples.summary();
    let (mean, deviation) = (summary.mean / 1e3, summary.deviation() / 1e3);
    let (min, max) = (summary.min / 1000, summary.max / 1000);
    let _ = write!(out, ";{min};{max};{mean:.6};{deviation:.6}");
}

fn one_way(out: &mut String, flow: &Flow, group: &Group, direction: Direction, kept: &Kept) {
    let (kib, rate, ms) = (flow.bytes >> 10, flow.bytes_per_s() / 1024, flow.runtime_ms());
    let _ = write!(out, ";{kib};{rate};{};{ms}", flow.ios_per_s() as u64);
    moments(out, &flow.slat);
    moments(out, &flow.clat);
    let told = if kept.lat_percentiles { &flow.lat } else { &flow.clat };
    // A direction in which nothing went has its percentiles too, all of them 0.
    let values = told.bins.as_ref().map_or(Vec::new(), |bins| bins.percentiles(&kept.percentiles));
    for at in 0..PERCENTILE_FIELDS {
        let _ = match (kept.percentiles.get(at), values.get(at)) {
            (Some(share), Some(value)) => write!(out, ";{share:.6}%={}", value / 1000),
            _ => write!(out, ";0%=0"),
        };
    }
    moments(out, &flow.lat);
    let windows = &flow.bandwidth;
    let share = group.share_percent(direction, windows);
    let (min, max, mean, deviation) = (windows.min, windows.max, windows.mean, windows.deviation());
    let _ = write!(out, ";{min};{max};{share:.6}%;{mean:.6};{deviation:.6}");
}
