//! The result as fio's normal output, line for line (stat.c: `show_thread_status_normal`,
//! `show_group_stats`).

use super::figures::{Depths, Direction, Flow, Latency, Spread, Summary};
use super::outcome::{FioOutcome, Group, Row, Stamp};
use super::plan::Plan;
use super::spec::{Kept, SteadyFigure};
use std::fmt::Write as _;

/// Prefixes of units, powers of the base.
const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A number in at most `digits` digits with a prefix and a unit, as fio's `num2str` has it.
pub(super) fn scaled(number: u64, digits: usize, base: u64, unit: &str) -> String {
    let (mut whole, mut rest, mut power) = (number, None, 0);
    while whole.to_string().len() > digits && power + 1 < PREFIXES.len() {
        rest = Some(whole % base);
        whole /= base;
        power += 1;
    }
    let prefix = match (power, base) {
        (0, _) => String::new(),
        (power, 1024) => format!("{}i", PREFIXES[power].to_uppercase()),
        (power, _) => PREFIXES[power].to_owned(),
    };
    let Some(rest) = rest else { return format!("{whole}{prefix}{unit}") };
    let room = digits.saturating_sub(whole.to_string().len());
    if room <= 1 {
        let carry = u64::from(rest >= base / 2);
        return format!("{}{prefix}{unit}", whole + carry);
    }
    let fraction = format!("{:.*}", room - 1, rest as f64 / base as f64);
    let carry = u64::from(fraction.starts_with('1'));
    format!("{}.{}{prefix}{unit}", whole + carry, &fraction[2..])
}

/// The lines before the jobs begin: what each is, and how many workers start.
pub(super) fn opening(plan: &Plan, version: &str) -> String {
    let mut out = String::new();
    for job in plan.jobs.iter().filter(|job| job.clone == 0) {
        let spec = &job.spec;
        let range = |at: usize| {
            let (low, high) = spec.block[at];
            let size = |bytes| scaled(bytes, 4, 1024, "B");
            format!("{}-{}", size(low), size(high))
        };
        let (name, group, engine, depth) = (&job.name, job.group, spec.engine_name, spec.depth);
        let _ = writeln!(
            out,
            "{name}: (g={group}): rw={}, bs=(R) {}, (W) {}, (T) {}, ioengine={engine}, iodepth={depth}",
            mode_name(plan, job.number),
            range(0),
            range(1),
            range(2)
        );
        if spec.numjobs > 1 {
            out.push_str("...\n");
        }
    }
    let count = plan.jobs.len();
    let _ = writeln!(out, "{version}");
    let _ = writeln!(out, "Starting {count} thread{}", if count == 1 { "" } else { "s" });
    out
}

fn mode_name(plan: &Plan, number: usize) -> String {
    let Some(job) = plan.jobs.get(number) else { return String::new() };
    let mode = job.spec.mode;
    let plain = match (mode.read, mode.write, mode.trim) {
        _ if mode.trim_write => "trimwrite",
        (true, true, _) => "rw",
        (true, false, _) => "read",
        (false, true, _) => "write",
        _ => "trim",
    };
    format!("{}{plain}", if mode.random { "rand" } else { "" })
}

/// All after the jobs have ended.
pub(super) fn whole(outcome: &FioOutcome, stamp: &Stamp) -> String {
    let mut out = String::from("\n");
    let groups = outcome.groups();
    for row in &outcome.rows {
        let group = groups.get(row.job.group).copied().unwrap_or_default();
        job(&mut out, row, &group, stamp);
    }
    for (number, group) in groups.iter().enumerate() {
        let kept = outcome.rows.iter().find(|row| row.job.group == number);
        if let Some(row) = kept {
            together(&mut out, number, group, &row.job.spec.kept);
        }
    }
    out
}

fn job(out: &mut String, row: &Row, group: &Group, stamp: &Stamp) {
    let (figures, spec) = (&row.figures, &row.job.spec);
    if figures.total_ios() == 0 && figures.total_bytes() == 0 {
        return;
    }
    let error = match row.error {
        0 => "err= 0".to_owned(),
        number => {
            let text = std::io::Error::from_raw_os_error(number).to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            format!("err={number:2} ({text})")
        }
    };
    let _ = writeln!(
        out,
        "{}: (groupid={}, jobs={}): {error}: pid=0: {}",
        row.job.name, row.job.group, figures.members, stamp.text
    );
    if !spec.description.is_empty() {
        let _ = writeln!(out, "  Description  : [{}]", spec.description);
    }
    let names = if spec.kept.mixed { ["mixed"; 3] } else { ["read", "write", "trim"] };
    for ((name, flow), direction) in names.iter().zip(&figures.flows).zip(Direction::ALL) {
        if flow.bytes > 0 {
            one_way(out, name, flow, group, direction, &spec.kept);
        }
    }
    latencies(out, &figures.spread, figures.total_ios());
    if figures.syncs.samples.count > 0 {
        out.push_str("  fsync/fdatasync/sync_file_range:\n");
        moments(out, "sync", &figures.syncs.samples.summary());
        percentiles(out, "sync", &figures.syncs, &spec.kept);
    }
    let _ = writeln!(
        out,
        "  cpu          : usr={:3.2}%, sys={:3.2}%, ctx=0, majf=0, minf=0",
        row.processor_percent(),
        0.0
    );
    depths(out, &figures.depths, figures.total_ios());
    let [read, write, trim] = &figures.flows;
    let _ = writeln!(
        out,
        "     issued rwts: total={},{},{},{} short={},{},{},0 dropped=0,0,0,0",
        read.ios, write.ios, trim.ios, figures.fsyncs, read.short, write.short, trim.short
    );
    if spec.tolerance.is_any() {
        let (errors, first) = (figures.errors, figures.first_error);
        let _ = writeln!(out, "     errors    : total={errors}, first_error={first}");
    }
    let target = spec.latency;
    let _ = writeln!(
        out,
        "     latency   : target={}, window={}, percentile={:.2}%, depth={}",
        target.map_or(0, |target| target.target.as_nanos()),
        target.map_or(0, |target| target.window.as_micros()),
        target.map_or(100.0, |target| target.percentile),
        figures.depth
    );
    if let (Some(rule), Some(seen)) = (spec.steady, &figures.steady) {
        let count = (seen.iops.len() as u64).max(1);
        let digits = spec.kept.significant_figures;
        let bytes = seen.bytes_per_s.iter().sum::<u64>() / count;
        let what = match rule.figure {
            SteadyFigure::Iops => "iops",
            SteadyFigure::Bandwidth => "bw",
            SteadyFigure::Latency => "lat",
        };
        let _ = writeln!(
            out,
            "  steadystate  : attained={}, bw={} ({}), iops={}, {what}{}={:.3}{}",
            if seen.attained { "yes" } else { "no" },
            scaled(bytes, digits, 1024, "B/s"),
            scaled(bytes, digits, 1000, "B/s"),
            scaled(seen.iops.iter().sum::<u64>() / count, digits, 1000, ""),
            if rule.slope { " slope" } else { " mean dev" },
            seen.criterion,
            if rule.percent { "%" } else { "" }
        );
    }
}

/// A rate in both bases, the job's own first.
fn both(bytes: u64, kept: &Kept, unit_s: bool) -> (String, String) {
    let (number, unit) = match (kept.bits, unit_s) {
        (true, true) => (bytes.saturating_mul(8), "bit/s"),
        (_, true) => (bytes, "B/s"),
        (_, false) => (bytes, "B"),
    };
    let other = if kept.kb_base == 1024 { 1000 } else { 1024 };
    let digits = kept.significant_figures;
    (scaled(number, digits, kept.kb_base, unit), scaled(number, digits, other, unit))
}

fn one_way(
    out: &mut String,
    name: &str,
    flow: &Flow,
    group: &Group,
    direction: Direction,
    kept: &Kept,
) {
    if flow.runtime_ms() == 0 {
        return;
    }
    let (rate, rate_other) = both(flow.bytes_per_s(), kept, true);
    let (bytes, _) = both(flow.bytes, kept, false);
    let iops = scaled(flow.ios_per_s() as u64, kept.significant_figures, 1000, "");
    let ms = flow.runtime_ms();
    let _ = writeln!(out, "  {name}: IOPS={iops}, BW={rate} ({rate_other})({bytes}/{ms}msec)");
    for (name, latency) in [("slat", &flow.slat), ("clat", &flow.clat), (" lat", &flow.lat)] {
        moments(out, name, &latency.samples.summary());
    }
    for (name, latency, wanted) in [
        ("slat", &flow.slat, kept.slat_percentiles),
        ("clat", &flow.clat, kept.clat_percentiles),
        ("lat", &flow.lat, kept.lat_percentiles),
    ] {
        if wanted {
            percentiles(out, name, latency, kept);
        }
    }
    windows(out, flow, group, direction, kept);
}

fn windows(out: &mut String, flow: &Flow, group: &Group, direction: Direction, kept: &Kept) {
    let Summary { count, min, max, mean, .. } = flow.bandwidth;
    if count > 0 {
        let bits = if kept.bits { 8.0 } else { 1.0 };
        let base = kept.kb_base as f64;
        let large = mean * bits > base * base;
        let scale = if large { base } else { 1.0 };
        let unit = match (kept.bits, kept.kb_base == 1024, large) {
            (true, true, false) => "Kibit",
            (true, false, false) => "kbit",
            (true, _, true) => "Mibit",
            (false, true, false) => "KiB",
            (false, false, false) => "kB",
            (false, _, true) => "MiB",
        };
        let scaled = |value: f64| value * bits / scale;
        let _ = writeln!(
            out,
            "   bw ({unit:>5}/s): min={:5}, max={:5}, per={:3.2}%, avg={:5.2}, stdev={:5.2}, samples={count}",
            scaled(min as f64) as u64,
            scaled(max as f64) as u64,
            group.share_percent(direction, &flow.bandwidth),
            scaled(mean),
            scaled(flow.bandwidth.deviation())
        );
    }
    let iops = &flow.iops;
    if iops.count > 0 {
        let _ = writeln!(
            out,
            "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
            iops.min,
            iops.max,
            iops.mean,
            iops.deviation(),
            iops.count
        );
    }
}

fn moments(out: &mut String, name: &str, summary: &Summary) {
    if summary.count == 0 {
        return;
    }
    let deviation = summary.deviation();
    // fio scales down where even the smallest value stays above 2000 and the spread is large.
    let fits = |divisor: u64| {
        summary.min > 2 * divisor && summary.max >= 100 * divisor && deviation > divisor as f64
    };
    let (unit, divisor) = if fits(1_000_000) {
        ("(msec)", 1_000_000)
    } else if fits(1_000) {
        ("(usec)", 1_000)
    } else {
        ("(nsec)", 1)
    };
    let per = divisor as f64;
    let _ = writeln!(
        out,
        "    {name} {unit}: min={}, max={}, avg={:5.2}, stdev={:5.2}",
        scaled(summary.min / divisor, 6, 1000, ""),
        scaled(summary.max / divisor, 6, 1000, ""),
        summary.mean / per,
        deviation / per
    );
}

fn percentiles(out: &mut String, name: &str, latency: &Latency, kept: &Kept) {
    let Some(bins) = latency.bins.as_ref().filter(|_| latency.samples.count > 0) else { return };
    let values = bins.percentiles(&kept.percentiles);
    let (Some(min), Some(max)) = (values.iter().min(), values.iter().max()) else { return };
    let (unit, divisor) = match (*min, *max) {
        (min, max) if min > 2_000_000 && max > 99_999_999 => ("msec", 1_000_000),
        (min, max) if min > 2_000 && max > 99_999 => ("usec", 1_000),
        _ => ("nsec", 1),
    };
    let _ = write!(out, "    {name} percentiles ({unit}):\n     |");
    let width = (max / divisor).to_string().len().max(5);
    let per_line = (80 - 7) / (2 + 10 + width);
    for (at, (share, value)) in kept.percentiles.iter().zip(&values).enumerate() {
        if at > 0 && at % per_line == 0 {
            out.push_str("     |");
        }
        let last = at + 1 == values.len();
        let end = if last { '\n' } else { ',' };
        let _ = write!(out, " {share:5.2}th=[{:width$}]{end}", value.div_ceil(divisor));
        if !last && at % per_line == per_line - 1 {
            out.push('\n');
        }
    }
}

fn latencies(out: &mut String, spread: &Spread, ios: u64) {
    let (ns, us, ms) = spread.shares(ios);
    for (unit, names, values) in [
        ("nsec", &Spread::NAMES[..], &ns[..]),
        ("usec", &Spread::NAMES[..], &us[..]),
        ("msec", &Spread::NAMES_MS[..], &ms[..]),
    ] {
        let shown: Vec<String> = names
            .iter()
            .zip(values)
            .filter(|(_, value)| **value > 0.0)
            .map(|(name, value)| {
                let equals = if name.starts_with('>') { "" } else { "=" };
                format!("{name}{equals}{value:3.2}%")
            })
            .collect();
        for line in shown.chunks(5) {
            let _ = writeln!(out, "  lat ({unit})   : {}", line.join(", "));
        }
    }
}

fn depths(out: &mut String, depths: &Depths, ios: u64) {
    let levels = ["1", "2", "4", "8", "16", "32", ">=64"];
    let batches = ["0", "4", "8", "16", "32", "64", ">=64"];
    let mut line = |title: &str, names: &[&str; 7], values: [f64; 7]| {
        let parts = names.iter().zip(values).map(|(name, value)| format!("{name}={value:3.1}%"));
        let _ = writeln!(out, "  {title}: {}", parts.collect::<Vec<_>>().join(", "));
    };
    let sum = |counts: &[u64; 7]| Depths::shares(counts, counts.iter().sum());
    line("IO depths    ", &levels, Depths::shares(&depths.level, ios));
    line("   submit    ", &batches, sum(&depths.submit));
    line("   complete  ", &batches, sum(&depths.complete));
}

fn together(out: &mut String, number: usize, group: &Group, kept: &Kept) {
    let _ = writeln!(out, "\nRun status group {number} (all jobs):");
    let names = if kept.mixed { ["  MIXED"; 3] } else { ["   READ", "  WRITE", "   TRIM"] };
    for (name, together) in names.iter().zip(&group.0) {
        if together.runtime_max_ms == 0 {
            continue;
        }
        let (rate, rate_other) = both(together.bytes_per_s(), kept, true);
        let (min, min_other) = both(together.bytes_per_s_min, kept, true);
        let (max, max_other) = both(together.bytes_per_s_max, kept, true);
        let (bytes, bytes_other) = both(together.bytes, kept, false);
        let _ = writeln!(
            out,
            "{name}: bw={rate} ({rate_other}), {min}-{max} ({min_other}-{max_other}), io={bytes} ({bytes_other}), run={}-{}msec",
            together.runtime_min_ms, together.runtime_max_ms
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_as_fio_scales_them() {
        // From outputs of fio 3.33.
        for (number, digits, base, unit, text) in [
            (4096, 4, 1024, "B", "4096B"),
            (65_536, 4, 1024, "B", "64.0KiB"),
            (118_016, 4, 1000, "", "118k"),
            (29_748, 4, 1000, "", "29.7k"),
            (181_316_266, 4, 1024, "B/s", "173MiB/s"),
            (181_316_266, 4, 1000, "B/s", "181MB/s"),
            (505_065, 6, 1000, "", "505065"),
        ] {
            assert_eq!(scaled(number, digits, base, unit), text);
        }
    }
}
