//! The result as fio 3.33's JSON, field for field and in its order (stat.c), so that what plots fio's
//! results plots these.
//!
//! What a run does not know is 0: context switches and page faults. `usr_cpu` is all processor time,
//! because a runtime does not know which part of it the system used. `disk_util` is empty.

use super::figures::{Depths, Direction, Flow, Latency, Spread, Summary};
use super::outcome::{FioOutcome, Group, Row, Stamp};
use super::spec::{Kept, Steady, SteadyFigure};
use serde_json::{Map, Value, json};

/// The whole document. With `bins`, fio's `json+`.
pub(super) fn document(outcome: &FioOutcome, stamp: &Stamp, bins: bool) -> Value {
    let mut root = Map::new();
    root.insert("fio version".into(), stamp.version.clone().into());
    root.insert("timestamp".into(), (stamp.unix_ms / 1000).into());
    root.insert("timestamp_ms".into(), stamp.unix_ms.into());
    root.insert("time".into(), stamp.text.clone().into());
    if !outcome.plan.globals.is_empty() {
        root.insert("global options".into(), options(&outcome.plan.globals));
    }
    let groups = outcome.groups();
    let jobs: Vec<Value> = outcome
        .rows
        .iter()
        .map(|row| job(row, groups.get(row.job.group).unwrap_or(&Group::default()), bins))
        .collect();
    root.insert("jobs".into(), jobs.into());
    root.insert("disk_util".into(), Value::Array(Vec::new()));
    Value::Object(root)
}

fn options(list: &[(String, String)]) -> Value {
    let pairs = list.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
    Value::Object(pairs.collect())
}

/// A number with a point, as fio prints floats: six decimals.
fn float(value: f64) -> Value {
    let rounded = (value * 1e6).round() / 1e6;
    Value::from(if rounded.is_finite() { rounded } else { 0.0 })
}

fn job(row: &Row, group: &Group, bins: bool) -> Value {
    let (figures, spec) = (&row.figures, &row.job.spec);
    let mut root = Map::new();
    let runtime_ms = u64::try_from(figures.runtime.as_millis()).unwrap_or(u64::MAX);
    root.insert("jobname".into(), row.job.name.clone().into());
    root.insert("groupid".into(), row.job.group.into());
    root.insert("error".into(), row.error.into());
    root.insert("eta".into(), 0.into());
    root.insert("elapsed".into(), (runtime_ms / 1000 + 1).into());
    root.insert("job options".into(), options(&row.job.options));
    let names = match spec.kept.mixed {
        true => &["mixed"][..],
        false => &["read", "write", "trim"],
    };
    for ((name, flow), direction) in names.iter().zip(&figures.flows).zip(Direction::ALL) {
        root.insert((*name).into(), one_way(flow, group, direction, &spec.kept, bins));
    }
    let percentiles = spec.kept.clat_percentiles || spec.kept.lat_percentiles;
    root.insert(
        "sync".into(),
        json!({
            "total_ios": figures.fsyncs,
            "lat_ns": latency(&figures.syncs, percentiles, &spec.kept, bins),
        }),
    );
    let ramp_ms = u64::try_from(figures.ramp.as_millis()).unwrap_or(u64::MAX);
    root.insert("job_runtime".into(), runtime_ms.saturating_sub(ramp_ms).into());
    root.insert("usr_cpu".into(), float(row.processor_percent()));
    root.insert("sys_cpu".into(), float(0.0));
    for unknown in ["ctx", "majf", "minf"] {
        root.insert(unknown.into(), 0.into());
    }
    let ios = figures.total_ios();
    let depths = &figures.depths;
    let levels = ["1", "2", "4", "8", "16", "32", ">=64"];
    let batches = ["0", "4", "8", "16", "32", "64", ">=64"];
    root.insert("iodepth_level".into(), shares(&levels, &Depths::shares(&depths.level, ios)));
    let whole = |counts: &[u64; 7]| Depths::shares(counts, counts.iter().sum());
    root.insert("iodepth_submit".into(), shares(&batches, &whole(&depths.submit)));
    root.insert("iodepth_complete".into(), shares(&batches, &whole(&depths.complete)));
    let (ns, us, ms) = figures.spread.shares(ios);
    root.insert("latency_ns".into(), shares(&Spread::NAMES, &ns));
    root.insert("latency_us".into(), shares(&Spread::NAMES, &us));
    root.insert("latency_ms".into(), shares(&Spread::NAMES_MS, &ms));
    if spec.tolerance.is_any() {
        root.insert("total_err".into(), figures.errors.into());
        root.insert("first_error".into(), figures.first_error.into());
    }
    // A job that did not begin has none.
    if figures.depth > 0 {
        root.insert("latency_depth".into(), figures.depth.into());
        let target = spec.latency;
        let target_ns = target.map_or(0, |target| target.target.as_nanos() as u64);
        root.insert("latency_target".into(), target_ns.into());
        let percentile = target.map_or(100.0, |target| target.percentile);
        root.insert("latency_percentile".into(), float(percentile));
        let window_us = target.map_or(0, |target| target.window.as_micros() as u64);
        root.insert("latency_window".into(), window_us.into());
    }
    if !spec.description.is_empty() {
        root.insert("desc".into(), spec.description.clone().into());
    }
    if let (Some(rule), Some(seen)) = (spec.steady, &figures.steady) {
        let mean = |values: &[u64]| {
            values.iter().sum::<u64>().checked_div(values.len() as u64).unwrap_or_default()
        };
        let percent = if rule.percent { "%" } else { "" };
        root.insert(
            "steadystate".into(),
            json!({
                "ss": format!("{}:{:.6}{percent}", steady_name(&rule), rule.limit),
                "duration": rule.window.as_secs(),
                "attained": u8::from(seen.attained),
                "criterion": format!("{:.6}{percent}", seen.criterion),
                "max_deviation": float(seen.deviation),
                "slope": float(seen.slope),
                "data": {
                    "bw_mean": mean(&seen.bytes_per_s),
                    "iops_mean": mean(&seen.iops),
                    "iops": seen.iops,
                    "bw": seen.bytes_per_s,
                },
            }),
        );
    }
    Value::Object(root)
}

/// The name of what must be steady.
pub(super) fn steady_name(rule: &Steady) -> String {
    let figure = match rule.figure {
        SteadyFigure::Iops => "iops",
        SteadyFigure::Bandwidth => "bw",
        SteadyFigure::Latency => "lat",
    };
    format!("{figure}{}", if rule.slope { "_slope" } else { "" })
}

fn shares(names: &[&str], values: &[f64]) -> Value {
    let pairs = names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), float(*value)));
    Value::Object(pairs.collect())
}

fn one_way(flow: &Flow, group: &Group, direction: Direction, kept: &Kept, bins: bool) -> Value {
    let per_s = flow.bytes_per_s();
    let mut root = Map::new();
    root.insert("io_bytes".into(), flow.bytes.into());
    root.insert("io_kbytes".into(), (flow.bytes >> 10).into());
    root.insert("bw_bytes".into(), per_s.into());
    root.insert("bw".into(), (per_s / 1024).into());
    root.insert("iops".into(), float(flow.ios_per_s()));
    root.insert("runtime".into(), flow.runtime_ms().into());
    root.insert("total_ios".into(), flow.ios.into());
    root.insert("short_ios".into(), flow.short.into());
    root.insert("drop_ios".into(), 0.into());
    for (name, values, percentiles) in [
        ("slat_ns", &flow.slat, kept.slat_percentiles),
        ("clat_ns", &flow.clat, kept.clat_percentiles),
        ("lat_ns", &flow.lat, kept.lat_percentiles),
    ] {
        root.insert(name.into(), latency(values, percentiles, kept, bins));
    }
    let Summary { count, min, max, mean, .. } = flow.bandwidth;
    root.insert("bw_min".into(), min.into());
    root.insert("bw_max".into(), max.into());
    root.insert("bw_agg".into(), float(group.share_percent(direction, &flow.bandwidth)));
    root.insert("bw_mean".into(), float(mean));
    root.insert("bw_dev".into(), float(flow.bandwidth.deviation()));
    root.insert("bw_samples".into(), count.into());
    root.insert("iops_min".into(), flow.iops.min.into());
    root.insert("iops_max".into(), flow.iops.max.into());
    root.insert("iops_mean".into(), float(flow.iops.mean));
    root.insert("iops_stddev".into(), float(flow.iops.deviation()));
    root.insert("iops_samples".into(), flow.iops.count.into());
    Value::Object(root)
}

fn latency(latency: &Latency, percentiles: bool, kept: &Kept, with_bins: bool) -> Value {
    let summary = latency.samples.summary();
    let mut root = Map::new();
    root.insert("min".into(), summary.min.into());
    root.insert("max".into(), summary.max.into());
    root.insert("mean".into(), float(summary.mean));
    root.insert("stddev".into(), float(summary.deviation()));
    root.insert("N".into(), summary.count.into());
    if let Some(bins) = latency.bins.as_ref().filter(|_| percentiles && summary.count > 0) {
        let values = bins.percentiles(&kept.percentiles);
        let named = kept.percentiles.iter().zip(values);
        let named = named.map(|(share, value)| (format!("{share:.6}"), Value::from(value)));
        root.insert("percentile".into(), Value::Object(named.collect()));
        if with_bins {
            let filled = bins.filled().map(|(value, count)| (value.to_string(), count.into()));
            root.insert("bins".into(), Value::Object(filled.collect()));
        }
    }
    Value::Object(root)
}
