//! All repeats of a cell as one: means with intervals, warnings with how many repeats had them, latencies added.

use crate::design::CellSpec;
use crate::kept::Repeat;
use crate::metrics;
use crate::pitfalls::{Pitfall, REPEATS_FEW};
use crate::results::{Cell, FoundPitfall, LatencyPoint};
use crate::stats;
use crate::study::{Kind, Study};
use crate::target::TargetError;
use crate::words;
use std::collections::BTreeMap;
use stdx::Prng;

/// A cell carries a warning if half its interval is over this share of its mean.
const INTERVAL_WIDE: f64 = 0.10;
/// A repeat lies apart that is so many times as far from the others as they are from one another.
const APART: f64 = 2.0;
/// The shares at which a distribution of latencies is written down: close together where people
/// look, at its ends.
const QUANTILES: [f64; 40] = [
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40,
    0.45, 0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.875, 0.90, 0.925, 0.95, 0.96, 0.97,
    0.98, 0.985, 0.99, 0.9925, 0.995, 0.9975, 0.999, 0.9995, 0.9998, 0.9999,
];

/// What is known of a cell while its repeats run.
#[derive(Default)]
pub(crate) struct CellState {
    /// By repeat.
    pub(crate) repeats: BTreeMap<u32, Repeat>,
    /// Nanoseconds → how many I/Os took so long, over all repeats. (A map takes a fraction of the
    /// memory of a histogram, which counts even where nothing is; there may be thousands of cells.)
    latency: BTreeMap<u64, u64>,
    /// The first repeat that failed, and why.
    pub(crate) failed: Option<(u32, TargetError)>,
}

impl CellState {
    pub(crate) fn add(&mut self, repeat: u32, mut gave: Repeat) {
        for (nanos, count) in std::mem::take(&mut gave.latency) {
            *self.latency.entry(nanos).or_default() += count;
        }
        self.repeats.insert(repeat, gave);
    }

    pub(crate) fn fail(&mut self, repeat: u32, reason: TargetError) {
        if self.failed.as_ref().is_none_or(|(failed, _)| repeat < *failed) {
            self.failed = Some((repeat, reason));
        }
    }
}

/// All repeats of a cell as one.
pub(crate) fn merge(study: &Study, spec: &CellSpec, state: CellState) -> Cell {
    let mut cell = Cell {
        id: spec.id.clone(),
        factors: spec.levels(),
        workload: spec.workload.name.clone(),
        repeats: 0,
        metrics: BTreeMap::new(),
        disk_utilisation: BTreeMap::new(),
        latency: Vec::new(),
        progress: Vec::new(),
        warnings: Vec::new(),
        pitfalls: Vec::new(),
        error: None,
        parameters: spec.workload.all_parameters().into_iter().collect(),
        main_metric: match &spec.workload.kind {
            Kind::Tool(tool) => Some(tool.kind.main_metric().to_owned()),
            _ => None,
        },
        rounds: Vec::new(),
    };
    if let Some((_, reason)) = state.failed {
        cell.error = Some(reason.to_string());
        return cell;
    }
    let repeats = state.repeats.len();
    cell.repeats = u32::try_from(repeats).unwrap_or(u32::MAX);
    let mut warnings: Vec<(String, Vec<u32>)> = Vec::new();
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (number, repeat) in &state.repeats {
        let mut texts = repeat.warnings.clone();
        for (name, value) in &repeat.metrics {
            // JSON has no such numbers; a reader could not open the file.
            if value.is_finite() {
                samples.entry(name.clone()).or_default().push(*value);
            } else {
                texts.push(format!("{name} came out as {value} and is left out"));
            }
        }
        for (disk, share) in repeat.disk_utilisation.iter().filter(|(_, share)| share.is_finite()) {
            shares.entry(disk.clone()).or_default().push(*share);
        }
        for text in texts {
            match warnings.iter_mut().find(|(other, _)| *other == text) {
                Some((_, numbers)) => numbers.push(*number),
                None => warnings.push((text, vec![*number])),
            }
        }
    }
    let placed = |text: String, numbers: &[u32]| match numbers.len() {
        all if all >= repeats => text,
        1 => format!("{text} (in repeat {} of {repeats})", counted(numbers)),
        _ => format!("{text} (in repeats {} of {repeats})", counted(numbers)),
    };
    for (pitfall, numbers) in gather_pitfalls(&state.repeats) {
        let text = placed(pitfall.text, &numbers);
        cell.put_down(FoundPitfall { text, ..pitfall });
    }
    cell.error = failed_meanwhile(&state.repeats, placed);
    cell.warnings.extend(warnings.into_iter().map(|(text, numbers)| placed(text, &numbers)));
    for (name, samples) in samples {
        let prng = Prng::for_part(study.seed, &format!("bootstrap of {name} of {}", spec.id));
        let metric = stats::metric(samples, study.confidence, study.interval, prng);
        cell.metrics.insert(name, metric);
    }
    cell.disk_utilisation =
        shares.into_iter().map(|(disk, shares)| (disk, stats::mean(&shares))).collect();
    cell.latency = quantiles(&state.latency);
    if state.repeats.values().any(|repeat| !repeat.rounds.is_empty()) {
        cell.rounds = state.repeats.values().map(|repeat| repeat.rounds.clone()).collect();
    }
    cell.progress =
        state.repeats.into_values().next().map(|repeat| repeat.progress).unwrap_or_default();
    warn_of_uncertainty(study, spec, &mut cell);
    cell
}

/// What failed in repeats that have figures all the same: the first of it, in how many repeats, and how much more.
fn failed_meanwhile(
    repeats: &BTreeMap<u32, Repeat>,
    placed: impl Fn(String, &[u32]) -> String,
) -> Option<String> {
    let failed = repeats.iter().filter(|(_, repeat)| !repeat.failed.is_empty());
    let numbers: Vec<u32> = failed.clone().map(|(number, _)| *number).collect();
    let all: Vec<&String> = failed.flat_map(|(_, repeat)| &repeat.failed).collect();
    let text = placed((*all.first()?).clone(), &numbers);
    Some(match all.len() - numbers.len() {
        0 => text,
        1 => format!("{text}, and one failure more"),
        more => format!("{text}, and {more} failures more"),
    })
}

/// Repeats as people count them, from 1: `2, 3 and 5`.
fn counted(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(|number| (number + 1).to_string()).collect();
    words::listed(&numbers)
}

/// The pitfalls of all repeats, each kind once for each phase, as the first repeat has it, with the repeats that ran into it.
fn gather_pitfalls(repeats: &BTreeMap<u32, Repeat>) -> Vec<(FoundPitfall, Vec<u32>)> {
    let mut found: Vec<(FoundPitfall, Vec<u32>)> = Vec::new();
    for (number, repeat) in repeats {
        for pitfall in &repeat.pitfalls {
            match found.iter_mut().find(|(other, _)| other.is_like(pitfall)) {
                Some((_, numbers)) => numbers.push(*number),
                None => found.push((pitfall.clone(), vec![*number])),
            }
        }
    }
    found
}

fn warn_of_uncertainty(study: &Study, spec: &CellSpec, cell: &mut Cell) {
    if cell.repeats < REPEATS_FEW {
        cell.add_pitfall(&Pitfall::FewRepeats { repeats: cell.repeats });
    }
    let wanted = spec.workload.main_metric();
    let metric = match cell.metrics.contains_key(wanted) {
        true => wanted,
        false => metrics::main_metric(cell).unwrap_or(wanted),
    };
    let Some(figure) = cell.metrics.get(metric) else { return };
    let half = (figure.ci_high - figure.ci_low) / 2.0;
    if half > INTERVAL_WIDE * figure.mean.abs() {
        let share = half / figure.mean.abs();
        let (metric, confidence) = (metric.to_owned(), study.confidence);
        // Where a repeat gave no such figure, samples no longer tell which repeat they are of.
        let all = figure.samples.len() == cell.repeats as usize;
        let odd = odd_one(&figure.samples).filter(|_| all).map(|at| (at + 1, figure.samples[at]));
        cell.add_pitfall(&Pitfall::WideInterval { metric, confidence, share, odd });
    }
}

/// The one of at least three samples that lies farther from the nearest other than [`APART`] times the others among
/// themselves.
fn odd_one(samples: &[f64]) -> Option<usize> {
    let at = (samples.len() >= 3).then_some(0..samples.len())?;
    at.into_iter().find(|&at| {
        let others = samples.iter().enumerate().filter(|(other, _)| *other != at);
        let (low, high) = others
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, other)| {
                (low.min(*other), high.max(*other))
            });
        let away = (low - samples[at]).max(samples[at] - high);
        away > APART * (high - low)
    })
}

impl Cell {
    /// Puts a pitfall down, for people and for programs.
    fn add_pitfall(&mut self, pitfall: &Pitfall) {
        self.put_down(pitfall.found());
    }

    fn put_down(&mut self, found: FoundPitfall) {
        self.warnings.push(found.warning());
        self.pitfalls.push(found);
    }
}

/// The latencies at the quantiles that so many I/Os can tell: no 99.9 % of a hundred.
fn quantiles(counts: &BTreeMap<u64, u64>) -> Vec<LatencyPoint> {
    let total: u64 = counts.values().sum();
    let mut points = Vec::new();
    let mut values = counts.iter();
    let (mut value, mut upto) = (0, 0);
    for quantile in QUANTILES {
        let told = quantile.min(1.0 - quantile) * total as f64;
        if told < 1.0 {
            continue;
        }
        let wanted = (quantile * total as f64).ceil() as u64;
        while upto < wanted {
            let Some((next, count)) = values.next() else { break };
            value = *next;
            upto += count;
        }
        points.push(LatencyPoint { quantile, latency_us: value as f64 / 1e3 });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_lies_apart_where_the_others_lie_together() {
        assert_eq!(odd_one(&[100.0, 40.0, 101.0, 99.0]), Some(1));
        assert_eq!(odd_one(&[100.0, 100.0, 130.0]), Some(2));
        assert_eq!(odd_one(&[100.0, 120.0, 90.0, 70.0]), None, "they are spread evenly");
        assert_eq!(odd_one(&[100.0, 40.0, 101.0, 41.0]), None, "two and two");
        assert_eq!(odd_one(&[100.0, 40.0]), None, "of two neither is odd");
    }

    #[test]
    fn repeats_are_counted_from_one() {
        assert_eq!((counted(&[1]), counted(&[0, 2, 4])), ("2".to_owned(), "1, 3 and 5".to_owned()));
    }
}
