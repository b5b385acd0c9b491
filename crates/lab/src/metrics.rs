//! What the figures are called, in which unit they stand and which way is better.
//!
//! A metric's name carries its unit last (`latency_us_p99` is the exception that the contract of
//! `results.json` makes: the quantile follows the unit). A name that is not known here works as
//! well: it prints as it is, and less of it is taken to be better, as of everything that costs.

pub use crate::digits::figures;
use crate::duration;
use crate::results::{Cell, Metric};

/// Which way a metric should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better: rates.
    Higher,
    /// Less is better: times, costs.
    Lower,
}

impl Better {
    /// By how much the one figure is better than the other; below 0 where it is worse.
    pub(crate) fn lead(self, one: f64, other: f64) -> f64 {
        match self {
            Better::Higher => one - other,
            Better::Lower => other - one,
        }
    }
}

/// Every name that a measurement may give a figure, but for latencies. A claim or verdict on another is
/// refused before anything runs.
const KNOWN: [&str; 17] = [
    "ops_per_s",
    "iops",
    "throughput_mb_s",
    "read_iops",
    "write_iops",
    "cpu_us_per_io",
    "processor_cores_busy",
    "processor_share",
    "disk_reads_per_io",
    "disk_writes_per_io",
    "duration_s",
    "sampling_error_s",
    "load_iops",
    "load_throughput_mb_s",
    "latency_us_p50",
    "latency_us_p99",
    "latency_us_mean",
];

/// A ratio below this is below what the figures show.
pub const SHOWN_RATIO_MIN: f64 = 1.005;
/// From this ratio on it is said that each repeat tells two figures apart where the test can't.
pub const UNSURE_RATIO: f64 = 1.25;

/// By how many percent what is so many times as little is less: 2 times, `50.0`.
pub fn percent_less(ratio: f64) -> String {
    figures(100.0 * (1.0 - 1.0 / ratio))
}

/// The points of an operation's progress that are figures of their own, in percent: those that published
/// tests of arrays give.
pub const PROGRESS_PERCENT: [u32; 6] = [1, 2, 3, 5, 10, 45];

/// What the figure is called that says how long an operation took to come so far.
pub fn progress_metric(percent: u32) -> String {
    format!("time_to_{percent}_percent_s")
}

/// Whether a measurement may give a figure of this name; if not, the names that there are.
///
/// A phase or a kind of operation may stand before a rate or a latency: `rewrite_throughput_mb_s`,
/// `random_create_ops_per_s`, `create_latency_us_p99`.
pub fn check_name(metric: &str) -> Result<(), String> {
    let quantile = metric.split_once("latency_us_").map(|(_, rest)| {
        let rest = rest.strip_prefix("read_").or(rest.strip_prefix("write_")).unwrap_or(rest);
        ["mean", "p50", "p95", "p99", "p999", "max"].contains(&rest)
    });
    let of_phase = ["_ops_per_s", "_throughput_mb_s", "_iops", "_processor_share"];
    let progress = || PROGRESS_PERCENT.iter().any(|percent| progress_metric(*percent) == metric);
    let known = || {
        KNOWN.contains(&metric) || progress() || of_phase.iter().any(|end| metric.ends_with(end))
    };
    if quantile.unwrap_or_else(known) {
        return Ok(());
    }
    let progress = PROGRESS_PERCENT.map(progress_metric);
    Err(format!("one of {}, {}", KNOWN.join(", "), progress.join(", ")))
}

/// Whether a metric says by itself which of two runs did better: rates, times, and what an I/O costs. What the disks
/// did for an I/O, or how many cores were busy, explains a figure and is none to be won by.
pub fn is_judged(metric: &str) -> bool {
    let told =
        ["disk_reads_per_io", "disk_writes_per_io", "processor_cores_busy", "sampling_error_s"];
    let is_point = metric.starts_with("time_to_"); // of what the duration is judged by
    !told.contains(&metric) && !metric.ends_with("processor_share") && !is_point
}

/// The share of a cell's figure that its standard error is by the sampling of the operation alone, over all its repeats, which take
/// other stretches; 0 of what was carried out whole, and of figures of its load.
pub fn sampling_error(cell: &Cell, metric: &str) -> f64 {
    let mean = |name: &str| cell.metrics.get(name).map(|metric| metric.mean);
    let is_of_sampling =
        ["duration_s", "throughput_mb_s"].contains(&metric) || metric.starts_with("time_to_");
    match (mean("sampling_error_s"), mean("duration_s")) {
        (Some(error), Some(duration)) if is_of_sampling && duration > 0.0 => {
            error / duration / f64::from(cell.repeats.max(1)).sqrt()
        }
        _ => 0.0,
    }
}

/// Which way this metric is better.
pub fn better(metric: &str) -> Better {
    let rate = ["iops", "throughput", "per_s"].iter().any(|word| metric.contains(word));
    if rate || metric.ends_with("mb_s") { Better::Higher } else { Better::Lower }
}

/// The metric that a cell is judged by where nobody says which: its tool's, else how long an operation took, else
/// the throughput, else the I/Os a second, else whatever there is. Of random I/O it is the I/Os a second.
pub fn main_metric(cell: &Cell) -> Option<&str> {
    if let Some(main) = cell.main_metric.as_deref().filter(|main| cell.metrics.contains_key(*main))
    {
        return Some(main);
    }
    let is_random = cell.parameters.contains_key("read_share");
    let by_throughput = ["ops_per_s", "duration_s", "throughput_mb_s", "iops"];
    let by_ios = ["ops_per_s", "duration_s", "iops", "throughput_mb_s"];
    if is_random { by_ios } else { by_throughput }
        .into_iter()
        .find(|name| cell.metrics.contains_key(*name))
        .or_else(|| cell.metrics.keys().next().map(String::as_str))
}

/// The unit of a metric, as it stands after a figure; empty for spans, which carry their own.
pub fn unit(metric: &str) -> &str {
    match metric {
        name if name.ends_with("iops") => "I/Os a second",
        name if name.ends_with("mb_s") => "MB/s",
        name if name.ends_with("ops_per_s") => "operations a second",
        name if name.ends_with("per_s") => "a second",
        "processor_share" => "of the processor",
        name if name.contains("cpu_us") => "µs of processor time an I/O",
        name if name.ends_with("cpu_percent") => "% of a core",
        name if is_span(name) => "",
        name => name,
    }
}

/// A figure with its unit: `412 I/Os a second`, `8 h 36 min`.
pub fn quantity(metric: &str, value: f64) -> String {
    match unit(metric) {
        "" => bare(metric, value),
        unit => format!("{} {unit}", bare(metric, value)),
    }
}

/// An interval whose ends lie farther apart than this factor tells nothing that its figure would bear: it is
/// told in words.
pub const UNCERTAIN: f64 = 10.0;

/// A figure with unit and interval: `412 I/Os a second (95 % 401–423)`. Of a single sample there is
/// no interval, and none is shown; of one that says nothing, that it does.
pub fn quantity_with_interval(metric: &str, figure: &Metric, confidence: f64) -> String {
    let value = quantity(metric, figure.mean);
    if figure.samples.len() < 2 {
        return value;
    }
    let is_told = figure.ci_low > 0.0 && figure.ci_high <= UNCERTAIN * figure.ci_low;
    if !is_told && figure.ci_low != figure.ci_high {
        return format!("{value} (too uncertain to tell)");
    }
    let (low, high) = (bare(metric, figure.ci_low), bare(metric, figure.ci_high));
    if low == high && high == bare(metric, figure.mean) {
        return value; // Narrower than the figures shown: an interval of one number says nothing.
    }
    format!("{value} ({} {low}–{high})", percent(confidence))
}

/// `0.95` as `95 %`, with decimals only where there are some.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn is_span(metric: &str) -> bool {
    let is_rate = metric.ends_with("mb_s") || metric.ends_with("per_s");
    metric.contains("latency_us") || (metric.ends_with("_s") && !is_rate)
}

fn bare(metric: &str, value: f64) -> String {
    if metric.contains("latency_us") {
        duration::text(value / 1e6)
    } else if is_span(metric) {
        duration::text(value)
    } else {
        figures(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_carry_their_unit() {
        assert_eq!(quantity("iops", 412.0), "412 I/Os a second");
        assert_eq!(quantity("throughput_mb_s", 78.25), "78.2 MB/s");
        assert_eq!(quantity("latency_us_p99", 12_340.0), "12.3 ms");
        assert_eq!(quantity("duration_s", 30_960.0), "8 h 36 min");
        assert_eq!(quantity("frobs", 3.0), "3.00 frobs");
    }

    #[test]
    fn one_sample_has_no_interval() {
        let mut figure =
            Metric { mean: 412.0, ci_low: 412.0, ci_high: 412.0, samples: vec![412.0] };
        assert_eq!(quantity_with_interval("iops", &figure, 0.95), "412 I/Os a second");
        figure = Metric {
            mean: 412.0,
            ci_low: 401.0,
            ci_high: 423.0,
            samples: vec![411.0, 413.0, 412.0],
        };
        assert_eq!(
            quantity_with_interval("iops", &figure, 0.95),
            "412 I/Os a second (95 % 401–423)"
        );
    }

    #[test]
    fn an_interval_that_says_nothing_is_told_in_words() {
        let mut figure =
            Metric { mean: 9.0, ci_low: 1e-12, ci_high: 1e24, samples: vec![8.0, 10.0] };
        let text = quantity_with_interval("iops", &figure, 0.95);
        assert_eq!(text, "9.00 I/Os a second (too uncertain to tell)");
        (figure.ci_low, figure.ci_high) = (-3.0, 21.0);
        assert!(quantity_with_interval("iops", &figure, 0.95).ends_with("(too uncertain to tell)"));
    }

    #[test]
    fn points_of_progress_are_known_and_no_claim_is_won_by_them_in_a_comparison() {
        assert_eq!(check_name("time_to_10_percent_s"), Ok(()));
        assert!(check_name("time_to_11_percent_s").is_err());
        assert!(is_judged("duration_s") && !is_judged("time_to_10_percent_s"));
        assert_eq!(quantity("time_to_10_percent_s", 3240.0), "54 min");
    }

    #[test]
    fn rates_should_rise_and_costs_fall() {
        assert_eq!(better("iops"), Better::Higher);
        assert_eq!(better("throughput_mb_s"), Better::Higher);
        assert_eq!(better("latency_us_p50"), Better::Lower);
        assert_eq!(better("cpu_us_per_io"), Better::Lower);
        assert_eq!(better("duration_s"), Better::Lower);
    }
}
