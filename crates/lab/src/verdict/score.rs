//! The score of a level: the geometric mean of its cells, repeat by repeat.
//!
//! Cells are put into combinations, cells that differ in nothing but the ranked factor, and only those that every level
//! has count: no level is judged by easier work.

use crate::claims::Measured;
use crate::metrics::Better;
use crate::results::{Cell, Metric};
use crate::stats;
use crate::study::Study;
use std::collections::BTreeMap;

/// The ends of a score's interval lie within this factor of its mean; what is farther is "anything".
const FIGURE_RATIO_MAX: f64 = 1e6;

/// What a use asks: which levels of a factor do best by a metric.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) study: &'a Study,
    /// The factor.
    pub(super) by: &'a str,
    pub(super) metric: &'a str,
    pub(super) better: Better,
}

/// One level's standing in a use.
#[derive(Clone)]
pub(super) struct Score {
    pub(super) level: String,
    /// The logarithm of the score of each repeat.
    pub(super) logs: Vec<f64>,
    /// The lowest and the highest mean among its cells.
    pub(super) cells: (f64, f64),
}

impl Score {
    /// The mean of the logarithms.
    pub(super) fn log(&self) -> f64 {
        stats::mean(&self.logs)
    }

    /// Whether each repeat of this one did better than each of the other's.
    pub(super) fn beats_always(&self, other: &Score, better: Better) -> bool {
        let ((low, high), (others_low, others_high)) =
            (stats::ends(&self.logs), stats::ends(&other.logs));
        match better {
            Better::Higher => low > others_high,
            Better::Lower => high < others_low,
        }
    }

    /// As a figure, with its interval.
    pub(super) fn as_metric(&self, confidence: f64) -> Metric {
        let interval = stats::t_interval(&self.logs, confidence);
        let mean = stats::mean(&self.logs).exp();
        // Beyond any measurement an end is no number that a reader could do anything with.
        let end = |log: f64| log.exp().min(mean * FIGURE_RATIO_MAX).max(mean / FIGURE_RATIO_MAX);
        Metric {
            mean,
            ci_low: end(interval.low),
            ci_high: end(interval.high),
            samples: self.logs.iter().map(|log| log.exp()).collect(),
        }
    }
}

/// The scores of all levels over the combinations that all of them have, the best first, and how many those combinations are.
pub(super) fn scores(asked: &Asked<'_>, chosen: &[&Measured<'_>]) -> (Vec<Score>, usize) {
    let Asked { study, by, metric, better } = *asked;
    let mut levels: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for measured in chosen {
        let Some(level) = measured.spec.factors.get(by) else { continue };
        let samples = measured.cell.metrics.get(metric).map(|figure| figure.samples.as_slice());
        let Some(logs) = samples.and_then(stats::logarithms) else { continue };
        levels.entry(level.to_string()).or_default().insert(without(measured.cell, by), logs);
    }
    let mut shared: Option<Vec<String>> = None;
    for combinations in levels.values() {
        shared = Some(match shared {
            None => combinations.keys().cloned().collect(),
            Some(names) => {
                names.into_iter().filter(|name| combinations.contains_key(name)).collect()
            }
        });
    }
    let shared = shared.unwrap_or_default();
    if shared.is_empty() {
        return (Vec::new(), 0);
    }
    let in_order = study.factors.iter().filter(|factor| factor.name == by);
    let in_order = in_order.flat_map(|factor| &factor.levels).map(ToString::to_string);
    let mut scores: Vec<Score> = in_order
        .filter_map(|level| {
            let combinations = levels.get(&level)?;
            let samples: Vec<&Vec<f64>> =
                shared.iter().filter_map(|name| combinations.get(name)).collect();
            let repeats = samples.iter().map(|logs| logs.len()).min()?;
            let score = |repeat: usize| {
                let sum: f64 = samples.iter().filter_map(|logs| logs.get(repeat)).sum();
                sum / samples.len() as f64
            };
            let means: Vec<f64> = samples.iter().map(|logs| stats::mean(logs).exp()).collect();
            let logs = (0..repeats).map(score).collect();
            Some(Score { level, logs, cells: stats::ends(&means) })
        })
        .collect();
    rank(&mut scores, better);
    (scores, shared.len())
}

/// What a cell is but for its level of one factor.
fn without(cell: &Cell, by: &str) -> String {
    let rest = cell.factors.iter().filter(|(name, _)| *name != by);
    let rest: Vec<String> = rest.map(|(name, level)| format!("{name}={level}")).collect();
    format!("{}/{}", cell.workload, rest.join(","))
}

pub(super) fn rank(scores: &mut [Score], better: Better) {
    scores.sort_by(|a, b| {
        let (a, b) = (stats::mean(&a.logs), stats::mean(&b.logs));
        match better {
            Better::Higher => b.total_cmp(&a),
            Better::Lower => a.total_cmp(&b),
        }
    });
}
