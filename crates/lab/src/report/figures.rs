//! How a number is written: unit, digits, sign of uncertainty.
//!
//! A reader compares figures by eye, so a table or an axis has **one** unit, chosen from all its
//! values ([`Unit::fitting`]), and a figure shows as many digits as its interval supports and no
//! more: `412 ±11`, never `412.3345 ± 11.2`. The rules, in order:
//!
//! 1. The interval's half width is rounded to two digits if they begin with 1 or 2, else to one
//!    (`±11`, `±0.4`); the mean is rounded to the same place, and to two significant digits at the least. A half width below a ten-thousandth of
//!    the mean counts as that, or a nearly exact simulation would print ten digits.
//! 2. Without an interval (one sample) a figure has three significant digits and no `±`.
//! 3. The half width is that of the *farther* end: a bootstrap interval need not be symmetrical, and
//!    we don't flatter. Both ends stand in the CSV and in the full table.
//!    Where it reaches about as far as nothing (`37 ±160`) both ends stand in place of it: `37 (0–200)`, since nothing measured is less than nothing.
//! 4. Durations of a minute and more are written as people say them: `8 h 04 min ±3 min`, to the second below an hour, where the
//!    interval is narrower than a minute.
//! 5. Whole digits are grouped by a narrow no-break space from 10 000 on.
//!
//! Decimal prefixes throughout (MB/s is 10⁶ bytes a second). This file knows the metrics that the lab
//! writes by name; any other is shown under its own name, with the unit that its name ends in.

use super::estimate::Estimate;
use crate::phases;

/// What sort of number a metric is; decides the units it may be shown in.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// I/Os a second.
    Operations,
    /// Operations of other sorts a second: files, flowops.
    Rate,
    /// 10⁶ bytes a second.
    Throughput,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// 0 to 1.
    Share,
    /// Anything else, with the unit's name, perhaps empty.
    Plain(&'static str),
}

/// What a metric is called and how it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Name in prose, beginning with a capital: `Latency, 99th percentile`.
    pub label: String,
    /// The same for the head of a narrow column: `p99`.
    pub short: String,
    /// What sort of number it is.
    pub quantity: Quantity,
    /// In words, where it is plain which is better: `more is better`.
    pub better: Option<&'static str>,
}

/// An interval is told by its ends where its half width is this share of the mean: rounded it may be the mean.
const ENDS_FROM: f64 = 0.85;
/// An interval whose upper end is farther away than so many times its mean tells nothing: its ends are digits only.
const ENDS_TOLD: f64 = 100.0;

const MORE: Option<&str> = Some("more is better");
const LESS: Option<&str> = Some("less is better");

/// The measure behind a metric's name in `results.json`.
pub fn measure(metric: &str) -> Measure {
    let known = |label: &str, short: &str, quantity, better| Measure {
        label: label.into(),
        short: short.into(),
        quantity,
        better,
    };
    match metric {
        "iops" => known("I/Os a second", "I/Os a second", Quantity::Operations, MORE),
        "throughput_mb_s" => known("Throughput", "throughput", Quantity::Throughput, MORE),
        "cpu_us_per_io" => {
            known("Processor time an I/O", "CPU an I/O", Quantity::Microseconds, LESS)
        }
        "processor_share" => known("Processor in use", "CPU", Quantity::Share, None),
        "duration_s" => known("Duration", "duration", Quantity::Seconds, LESS),
        "sampling_error_s" => {
            known("Standard error of the sampling", "sampling error", Quantity::Seconds, LESS)
        }
        "ops_per_s" => known("Operations a second", "operations a second", Quantity::Rate, MORE),
        "load_iops" => known("The load's I/Os a second", "load", Quantity::Operations, MORE),
        other => phase(other)
            .or_else(|| latency(other))
            .or_else(|| progress(other))
            .unwrap_or_else(|| unknown(other)),
    }
}

/// The rate of a phase that a tool goes through.
fn phase(metric: &str) -> Option<Measure> {
    let (_, phase) = phases::rate_of(metric)?;
    Some(Measure {
        label: capitalised(phase.name),
        short: phase.name.to_owned(),
        better: MORE,
        ..unknown(metric)
    })
}

/// `time_to_10_percent_s`.
fn progress(metric: &str) -> Option<Measure> {
    let percent = metric.strip_prefix("time_to_")?.strip_suffix("_percent_s")?;
    Some(Measure {
        label: format!("Time to {percent} %"),
        short: format!("to {percent} %"),
        quantity: Quantity::Seconds,
        better: LESS,
    })
}

/// `latency_us_p99`, `latency_us_read_mean`, …
fn latency(metric: &str) -> Option<Measure> {
    let rest = metric.strip_prefix("latency_us_")?;
    let (side, which) = match rest.split_once('_') {
        Some((side, which)) => (format!("{side} "), which),
        None => (String::new(), rest),
    };
    let (long, short) = match which {
        "mean" => ("mean".to_owned(), "mean".to_owned()),
        "p50" => ("median".into(), "median".into()),
        "max" => ("longest".into(), "longest".into()),
        _ => {
            let digits = which.strip_prefix('p')?;
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let rank = rank(digits);
            (format!("{rank}th percentile"), format!("p{rank}"))
        }
    };
    Some(Measure {
        label: capitalised(&format!("{side}latency, {long}")),
        short: format!("{side}{short} latency"),
        quantity: Quantity::Microseconds,
        better: LESS,
    })
}

/// `99` → `99`, `999` → `99.9`, `9999` → `99.99`.
fn rank(digits: &str) -> String {
    match digits.len() {
        0..=2 => digits.to_owned(),
        _ => format!("{}.{}", &digits[..2], &digits[2..]),
    }
}

fn unknown(metric: &str) -> Measure {
    const SUFFIXES: &[(&str, Quantity)] = &[
        ("_throughput_mb_s", Quantity::Throughput),
        ("_mb_s", Quantity::Throughput),
        ("_ops_per_s", Quantity::Rate),
        ("_per_s", Quantity::Plain("a second")),
        ("_us", Quantity::Microseconds),
        ("_ms", Quantity::Plain("ms")),
        ("_s", Quantity::Seconds),
        ("_bytes", Quantity::Plain("bytes")),
        ("_iops", Quantity::Operations),
        ("_share", Quantity::Share),
        ("_percent", Quantity::Plain("%")),
    ];
    let (stem, quantity) = SUFFIXES
        .iter()
        .find_map(|(suffix, quantity)| Some((metric.strip_suffix(suffix)?, quantity.clone())))
        .unwrap_or((metric, Quantity::Plain("")));
    let short = stem.replace('_', " ");
    Measure { label: capitalised(&short), short, quantity, better: None }
}

/// With a capital first letter.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// The unit that all figures of one table or axis are shown in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// `ms`, `MB/s`; empty for a bare number.
    pub name: &'static str,
    /// One unit in the metric's own unit: 1000 for `ms` of a metric in microseconds.
    pub size: f64,
    /// Whether figures are written as `8 h 04 min` rather than as a decimal of the unit.
    clock: bool,
}

impl Unit {
    /// The unit in which values up to `largest` (in the metric's own unit) read well.
    pub fn fitting(quantity: &Quantity, largest: f64) -> Unit {
        let unit = |name, size| Unit { name, size, clock: false };
        let clock = |name, size| Unit { name, size, clock: true };
        match quantity {
            Quantity::Operations if largest >= 1e7 => unit("M IOPS", 1e6),
            Quantity::Operations if largest >= 1e6 => unit("k IOPS", 1e3),
            Quantity::Operations => unit("IOPS", 1.0),
            Quantity::Rate if largest >= 1e7 => unit("M/s", 1e6),
            Quantity::Rate if largest >= 1e6 => unit("k/s", 1e3),
            Quantity::Rate => unit("/s", 1.0),
            Quantity::Throughput if largest >= 20_000.0 => unit("GB/s", 1e3),
            Quantity::Throughput => unit("MB/s", 1.0),
            Quantity::Microseconds if largest < 2_000.0 => unit("µs", 1.0),
            Quantity::Microseconds if largest < 10e6 => unit("ms", 1e3),
            Quantity::Microseconds => unit("s", 1e6),
            Quantity::Seconds if largest < 0.1 => unit("ms", 1e-3),
            Quantity::Seconds if largest < 120.0 => unit("s", 1.0),
            Quantity::Seconds if largest < 7_200.0 => clock("min", 60.0),
            Quantity::Seconds => clock("h", 3_600.0),
            Quantity::Share => unit("%", 0.01),
            Quantity::Plain(name) => unit(name, 1.0),
        }
    }

    /// The mean without its interval, in this unit, the unit's name left off unless the figure is a
    /// time of day's sort (`8 h 04 min`).
    pub fn mean(self, estimate: Estimate) -> String {
        match (self.clock, estimate.half_width()) {
            (true, Some(half)) if in_minutes(estimate.mean, half) => {
                format!("{:.0} min", estimate.mean / 60.0)
            }
            (true, _) => clock_time(estimate.mean),
            (false, Some(half)) => rounded(estimate.mean / self.size, half / self.size).0,
            (false, None) => significant(estimate.mean / self.size, 3),
        }
    }

    /// `±11` for the interval, or `(0–200)`; `None` where there is only one sample, or where the interval is
    /// narrower than the last digit shown.
    pub fn spread(self, estimate: Estimate) -> Option<String> {
        let half = estimate.half_width()?;
        if estimate.mean > 0.0 && half >= ENDS_FROM * estimate.mean {
            return Some(self.ends(estimate));
        }
        let shown = rounded(estimate.mean / self.size, half / self.size).1;
        if !self.clock && shown.bytes().all(|byte| byte == b'0' || byte == b'.') {
            return None;
        }
        if self.clock && half < clock_digit(estimate.mean) / 2.0 {
            return None;
        }
        Some(match self.clock {
            // The mean is written to the minute: so is this, but for less than one.
            true if estimate.mean >= HOUR && (60.0..HOUR).contains(&half)
                || in_minutes(estimate.mean, half) =>
            {
                format!("±{:.0} min", half / 60.0)
            }
            true => format!("±{}", clock_time(half)),
            false => format!("±{shown}"),
        })
    }

    /// `(7–200)`: the ends of an interval that reaches about as far as nothing; or that it is no interval to speak of.
    fn ends(self, estimate: Estimate) -> String {
        if estimate.high > ENDS_TOLD * estimate.mean {
            return "(too uncertain)".to_owned();
        }
        let end = |value: f64| match self.clock {
            true => clock_time(value),
            false => significant(value / self.size, 2),
        };
        format!("({}–{})", end(estimate.low.max(0.0)), end(estimate.high))
    }

    /// `412 ±11`, or `412` where there is only one sample.
    pub fn figure(self, estimate: Estimate) -> String {
        match self.spread(estimate) {
            Some(spread) => format!("{} {spread}", self.mean(estimate)),
            None => self.mean(estimate),
        }
    }

    /// Like [`Unit::figure`] with the unit's name: `412 ±11 MB/s`.
    pub fn named_figure(self, estimate: Estimate) -> String {
        match self.clock || self.name.is_empty() {
            true => self.figure(estimate),
            false => format!("{} {}", self.figure(estimate), self.name),
        }
    }

    /// A heading with the unit: `Throughput, MB/s`.
    pub fn titled(self, label: &str) -> String {
        match self.name {
            "" => label.to_owned(),
            "IOPS" if label == "I/Os a second" => label.to_owned(),
            "/s" if label == "Operations a second" => label.to_owned(),
            name => format!("{label}, {name}"),
        }
    }

    /// The same over figures, which carry their own unit where they are durations.
    pub fn headed(self, label: &str) -> String {
        if self.clock { label.to_owned() } else { self.titled(label) }
    }

    /// What to write beside a heading: the unit's name, or nothing where the figures carry it.
    pub fn heading(self) -> Option<&'static str> {
        (!self.clock && !self.name.is_empty()).then_some(self.name)
    }
}

/// Mean and half width at the place that the half width supports, the mean with four significant
/// digits at the most: no model and no clock here is good for a fifth.
fn rounded(mean: f64, half: f64) -> (String, String) {
    let half_at_least = half.abs().max(mean.abs() * 1e-4);
    if half_at_least == 0.0 {
        return ("0".into(), "0".into());
    }
    let mut place = half_at_least.log10().floor() as i32;
    if half_at_least / 10_f64.powi(place) < 3.0 {
        place -= 1;
    }
    if mean != 0.0 {
        place = place.max(mean.abs().log10().floor() as i32 - 3);
    }
    // An interval as wide as that says little, and is no reason to hide the mean behind it.
    let mean_place = match mean == 0.0 {
        true => place,
        false => place.min(mean.abs().log10().floor() as i32 - 1),
    };
    (at_place(mean, mean_place), at_place(half, place))
}

/// With this many significant digits.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".into();
    }
    at_place(value, value.abs().log10().floor() as i32 + 1 - digits)
}

/// Rounded to 10^`place`, digits grouped.
fn at_place(value: f64, place: i32) -> String {
    let text = match place < 0 {
        true => format!("{value:.*}", place.unsigned_abs().min(12) as usize),
        false => {
            let step = 10_f64.powi(place);
            format!("{:.0}", (value / step).round() * step)
        }
    };
    let text = match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|b| b == b'0' || b == b'.') => digits.to_owned(),
        Some(digits) => format!("−{digits}"),
        None => text,
    };
    grouped(&text)
}

/// Groups whole digits by threes from five digits on.
fn grouped(text: &str) -> String {
    let whole = text.find('.').unwrap_or(text.len());
    let start = text.find(|c: char| c.is_ascii_digit()).unwrap_or(0);
    if whole - start < 5 {
        return text.to_owned();
    }
    let mut out = text[..start].to_owned();
    for (position, digit) in text[start..whole].chars().enumerate() {
        if position > 0 && (whole - start - position).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out + &text[whole..]
}

/// An hour (s): from there on times are told to the minute.
const HOUR: f64 = 3_600.0;
/// From ten minutes on (s) so is a time whose interval is wider than one.
const IN_MINUTES_FROM: f64 = 600.0;

/// Whether a time of less than an hour is told to the minute.
fn in_minutes(mean: f64, half: f64) -> bool {
    (IN_MINUTES_FROM..HOUR - 30.0).contains(&mean) && half >= 60.0
}

/// `8 h 04 min`, `12 min 30 s`, `42.5 s`.
pub fn clock_time(seconds: f64) -> String {
    let sign = if seconds < -0.5 { "−" } else { "" };
    let whole = seconds.abs().round();
    if whole < 60.0 {
        return match whole >= 10.0 || seconds == 0.0 {
            true => format!("{sign}{whole:.0} s"),
            false => format!("{} s", significant(seconds, 2)),
        };
    }
    if whole < HOUR {
        let (minutes, rest) = ((whole / 60.0).floor(), whole % 60.0);
        return format!("{sign}{minutes:.0} min {rest:02.0} s");
    }
    let minutes = (seconds.abs() / 60.0).round();
    if minutes >= 48.0 * 60.0 {
        let hours = (whole / HOUR).round();
        return format!("{sign}{:.0} d {:02.0} h", (hours / 24.0).floor(), hours % 24.0);
    }
    format!("{sign}{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
}

/// What the last digit of [`clock_time`] is worth (s).
fn clock_digit(seconds: f64) -> f64 {
    match seconds.abs() {
        s if s >= 48.0 * HOUR => HOUR,
        s if s >= HOUR => 60.0,
        s if s >= 10.0 => 1.0,
        s if s > 0.0 => 10_f64.powf(s.log10().floor() - 1.0),
        _ => 0.0,
    }
}

/// A number on an axis: as many digits as `step` needs, thousands shortened to `k` and `M`.
pub fn tick(value: f64, step: f64) -> String {
    let (size, prefix) = match value.abs() {
        v if v >= 1e6 && step >= 1e4 => (1e6, "M"),
        v if v >= 1e4 && step >= 1e2 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let decimals = (-(step / size).log10() + 1e-9).ceil().clamp(0.0, 9.0) as usize;
    let text = format!("{:.decimals$}", value / size);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{}{prefix}", text.replace('-', "−"))
}

/// A share of 0 to 1 in per cent: `7 %`, `0.3 %`, `100 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        small if small < 1.0 => format!("{} %", significant(small, 1)),
        large => format!("{large:.0} %"),
    }
}

/// The number that a factor's level stands for, where it is one: `4k`, `32 KiB`, `0.67`, `50 %`.
pub fn level_value(level: &str) -> Option<f64> {
    let level = level.trim();
    let split = level
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '_'))
        .unwrap_or(level.len());
    let number: f64 = level[..split].replace('_', "").parse().ok()?;
    let size = match level[split..].trim() {
        "" | "%" | "B" | "s" => 1.0,
        "k" | "K" | "KiB" => 1024.0,
        "m" | "M" | "MiB" => 1024.0 * 1024.0,
        "g" | "G" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        "t" | "T" | "TiB" => 1024.0_f64.powi(4),
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "ms" => 1e-3,
        "µs" | "us" => 1e-6,
        _ => return None,
    };
    number.is_finite().then_some(number * size)
}

/// A factor's name in prose: `queue_depth` → `queue depth`.
pub fn factor_label(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half: f64) -> Estimate {
        Estimate { mean, low: mean - half, high: mean + half, samples: 3, cells: 1 }
    }

    /// Digits beyond the interval are noise that a reader would take for a finding.
    #[test]
    fn a_figure_has_as_many_digits_as_its_interval_supports() {
        let unit = Unit::fitting(&Quantity::Operations, 500.0);
        assert_eq!(unit.figure(estimate(412.3345, 11.2)), "412 ±11");
        assert_eq!(unit.figure(estimate(412.3345, 4.7)), "412 ±5");
        assert_eq!(unit.figure(estimate(412.3345, 0.31)), "412.3 ±0.3");
        assert_eq!(unit.figure(estimate(412.3345, 96.0)), "410 ±100");
        assert_eq!(unit.figure(estimate(4031.0, 3_000.0)), "4000 ±3000");
        assert_eq!(unit.figure(estimate(8.64, 7.0)), "8.6 ±7");
        assert_eq!(
            unit.figure(estimate(1_234_567.0, 45_000.0)),
            "1\u{202f}230\u{202f}000 ±50\u{202f}000"
        );
        assert_eq!(unit.figure(estimate(0.001234, 0.00011)), "0.00123 ±0.00011");
        assert_eq!(unit.figure(estimate(412.3345, 0.0)), "412.3");
        let single = Estimate { samples: 1, ..estimate(412.3345, 0.0) };
        assert_eq!(unit.figure(single), "412");
    }

    /// An interval of a bootstrap may reach farther on one side.
    #[test]
    fn the_spread_is_the_farther_end_of_the_interval() {
        let skewed = Estimate { mean: 100.0, low: 95.0, high: 120.0, samples: 5, cells: 1 };
        assert_eq!(Unit::fitting(&Quantity::Throughput, 100.0).figure(skewed), "100 ±20");
    }

    /// Found by a newcomer: a 99th percentile of `37 ±160` ms. No latency is less than nothing.
    #[test]
    fn an_interval_as_wide_as_its_mean_is_told_by_its_ends() {
        let unit = Unit::fitting(&Quantity::Microseconds, 37_000.0);
        assert_eq!(unit.figure(estimate(37_123.0, 160_000.0)), "37 (0–200)");
        assert_eq!(unit.named_figure(estimate(37_123.0, 160_000.0)), "37 (0–200) ms");
        assert_eq!(unit.figure(estimate(37_123.0, 31_000.0)), "37 ±30");
        assert_eq!(unit.figure(estimate(37_123.0, 36_000.0)), "37 (1.1–73)", "and not 37 ±40");
        let skewed = Estimate { low: 7_040.0, ..estimate(37_123.0, 160_000.0) };
        assert_eq!(unit.figure(skewed), "37 (7.0–200)");
        let wild = Estimate { low: 1e-9, high: 1e24, ..skewed };
        assert_eq!(unit.figure(wild), "37 (too uncertain)");
        let hours = Unit::fitting(&Quantity::Seconds, 30_000.0);
        assert_eq!(hours.figure(estimate(28_920.0, 44_100.0)), "8 h 02 min (0 s–20 h 17 min)");
        // What is nothing has no ends to tell.
        assert_eq!(unit.figure(estimate(0.0, 0.0)), "0");
    }

    #[test]
    fn durations_are_written_as_people_say_them() {
        assert_eq!(clock_time(8.0 * 3600.0 + 4.0 * 60.0 + 10.0), "8 h 04 min");
        assert_eq!(clock_time(3_599.0), "59 min 59 s");
        assert_eq!(clock_time(3_599.7), "1 h 00 min");
        assert_eq!(clock_time(5404.0 * 3600.0), "225 d 04 h");
        assert_eq!(clock_time(59.7), "1 min 00 s");
        assert_eq!(clock_time(95.0), "1 min 35 s");
        assert_eq!(clock_time(4.25), "4.2 s");
        assert_eq!(clock_time(0.0), "0 s");
    }

    /// `8 h 02 min ±7 min 21 s` would claim the mean's seconds, which aren't there.
    #[test]
    fn a_duration_and_its_spread_have_the_same_precision() {
        let unit = Unit::fitting(&Quantity::Seconds, 30_000.0);
        assert_eq!(unit.figure(estimate(28_920.0, 441.0)), "8 h 02 min ±7 min");
        assert_eq!(unit.figure(estimate(28_920.0, 41.0)), "8 h 02 min ±41 s");
        assert_eq!(unit.figure(estimate(28_920.0, 4_410.0)), "8 h 02 min ±1 h 14 min");
        // Below what the figure shows there is no spread to speak of.
        assert_eq!(unit.figure(estimate(28_920.0, 0.0006)), "8 h 02 min");
        assert_eq!(unit.figure(estimate(3_427.0, 0.0006)), "57 min 07 s");
        assert_eq!(unit.figure(estimate(3_427.0, 45.0)), "57 min 07 s ±45 s");
        assert_eq!(unit.figure(estimate(3_427.0, 312.0)), "57 min ±5 min");
        // Found by a newcomer: `9 min 49 s | 11 min | 12 min` of one repeat each.
        let single = |mean| unit.figure(Estimate { samples: 1, ..estimate(mean, 0.0) });
        let row = [589.0, 683.0, 701.0].map(single);
        assert_eq!(row, ["9 min 49 s", "11 min 23 s", "11 min 41 s"]);
    }

    #[test]
    fn levels_with_sizes_are_read_as_numbers_and_words_are_not() {
        assert_eq!(level_value("4k"), Some(4096.0));
        assert_eq!(level_value("32 KiB"), Some(32_768.0));
        assert_eq!(level_value("0.67"), Some(0.67));
        assert_eq!(level_value("100 %"), Some(100.0));
        assert_eq!(level_value("raid5-6"), None);
        assert_eq!(level_value("4 disks"), None);
        assert_eq!(level_value(""), None);
    }

    #[test]
    fn an_unknown_metric_keeps_its_name_and_takes_the_unit_it_ends_in() {
        assert_eq!(measure("latency_us_p999").label, "Latency, 99.9th percentile");
        assert_eq!(measure("latency_us_read_p50").label, "Read latency, median");
        assert_eq!(measure("latency_us_write_p99").short, "write p99 latency");
        assert_eq!(measure("latency_us_écart").quantity, Quantity::Plain(""));
        assert_eq!(measure("closefile1_ops_per_s").quantity, Quantity::Rate);
        assert_eq!(measure("pages_per_s").quantity, Quantity::Plain("a second"));
        let unknown = measure("scrub_pause_s");
        assert_eq!((unknown.label.as_str(), unknown.quantity), ("Scrub pause", Quantity::Seconds));
    }

    #[test]
    fn a_tick_has_the_digits_its_step_needs() {
        assert_eq!(tick(0.25, 0.05), "0.25");
        assert_eq!(tick(1500.0, 500.0), "1500");
        assert_eq!(tick(20_000.0, 5_000.0), "20k");
        assert_eq!(tick(2_500_000.0, 500_000.0), "2.5M");
        assert_eq!(tick(0.0, 10.0), "0");
    }
}
