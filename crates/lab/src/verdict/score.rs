//! The score of a level: the geometric mean of its cells, repeat by repeat.
//!
//! Cells are put into combinations, cells that differ in nothing but the ranked factor, and only those that every level
//! has count: no level is judged by easier work.
//!
//! A mean may say of all cells what only some of them bear: so a score keeps its cells, and whoever tells of a mean asks in
//! which of them it is otherwise ([`Score::holds_in_each`], [`elsewhere`]).

use crate::claims::Measured;
use crate::metrics::{Better, SHOWN_RATIO_MIN, UNSURE_RATIO};
use crate::results::{Cell, Metric};
use crate::stats;
use crate::study::Study;
use std::collections::BTreeMap;

/// The ends of a score's interval lie within this factor of its mean; what is farther is "anything".
const FIGURE_RATIO_MAX: f64 = 1e6;
/// The most levels that are named as better than the best over all; of more, only that there are some.
const BETTER_NAMED_MAX: usize = 3;

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
    /// The logarithms of each cell, by repeat; of all scores that were made together the same combinations in the same order.
    pub(super) cells: Vec<Vec<f64>>,
}

impl Score {
    /// The mean of the logarithms.
    pub(super) fn log(&self) -> f64 {
        stats::mean(&self.logs)
    }

    /// The lowest and the highest mean among its cells.
    pub(super) fn ends_of_cells(&self) -> (f64, f64) {
        let means: Vec<f64> = self.cells.iter().map(|logs| stats::mean(logs).exp()).collect();
        stats::ends(&means)
    }

    /// Whether each repeat of this one did better than each of the other's.
    pub(super) fn beats_always(&self, other: &Score, better: Better) -> bool {
        always(&self.logs, &other.logs, better)
    }

    /// Whether no cell denies that this one does better than the other, as the means over all cells have it: there it is not
    /// ahead, and each repeat says so, or the test that it is not as far ahead as on average.
    pub(super) fn holds_in_each(&self, other: &Score, asked: &Asked<'_>) -> bool {
        let better = asked.better;
        let average = better.lead(self.log(), other.log());
        let denies = |(own, others): (&Vec<f64>, &Vec<f64>)| {
            let is_ahead =
                better.lead(stats::mean(own), stats::mean(others)) >= SHOWN_RATIO_MIN.ln();
            let test = stats::welch(own, others, asked.study.confidence);
            let most = test.map(|test| match better {
                Better::Higher => test.interval.high,
                Better::Lower => -test.interval.low,
            });
            !is_ahead && (always(others, own, better) || most.is_some_and(|most| most < average))
        };
        !self.cells.iter().zip(&other.cells).any(denies)
    }

    /// Whether the mean of each cell is better than the other's.
    pub(super) fn is_ahead_in_each(&self, other: &Score, better: Better) -> bool {
        let mut cells = self.cells.iter().zip(&other.cells);
        cells.all(|(own, others)| better.lead(stats::mean(own), stats::mean(others)) > 0.0)
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

/// Whether each of these samples is better than each of those.
fn always(these: &[f64], those: &[f64], better: Better) -> bool {
    let ((low, high), (others_low, others_high)) = (stats::ends(these), stats::ends(those));
    match better {
        Better::Higher => low > others_high,
        Better::Lower => high < others_low,
    }
}

/// `; in 2 of 6 cells raid5-8 or raid6-8 does better`: where the best of these, which are ranked, is not the best of a cell. That
/// is told by Welch's test, corrected for all levels and cells, or by each repeat and a ratio of [`UNSURE_RATIO`]. Nothing where
/// it is the best of each.
pub(super) fn elsewhere(scores: &[Score], asked: &Asked<'_>) -> String {
    let Some((best, others)) = scores.split_first() else { return String::new() };
    // Of each cell and each other level: by how much that one is ahead, how likely chance is, and whether each repeat says so.
    let mut seen: Vec<(usize, &str, f64, bool)> = Vec::new();
    let mut chances: Vec<f64> = Vec::new();
    for (cell, own) in best.cells.iter().enumerate() {
        for other in others {
            let Some(logs) = other.cells.get(cell) else { continue };
            let lead = asked.better.lead(stats::mean(logs), stats::mean(own));
            let shows = lead >= SHOWN_RATIO_MIN.ln();
            let test = stats::welch(logs, own, asked.study.confidence).filter(|_| shows);
            chances.push(test.map_or(1.0, |test| test.p));
            let by_each = lead >= UNSURE_RATIO.ln() && always(logs, own, asked.better);
            seen.push((cell, &other.level, lead, by_each));
        }
    }
    let told = seen.into_iter().zip(stats::holm(&chances));
    let mut told: Vec<(usize, &str, f64)> = told
        .filter(|((.., by_each), p)| *by_each || *p < 1.0 - asked.study.confidence)
        .map(|((cell, level, lead, _), _)| (cell, level, lead))
        .collect();
    // Of each cell the one that is farthest ahead.
    told.sort_by(|one, other| one.0.cmp(&other.0).then(other.2.total_cmp(&one.2)));
    told.dedup_by_key(|(cell, ..)| *cell);
    let mut levels: Vec<&str> = Vec::new();
    for (_, level, _) in &told {
        if !levels.contains(level) {
            levels.push(level);
        }
    }
    let named = match levels.len() {
        0 => return String::new(),
        1..=BETTER_NAMED_MAX => levels.join(" or "),
        _ => "another".to_owned(),
    };
    format!("; in {} of {} cells {named} does better", told.len(), best.cells.len())
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
            let logs = (0..repeats).map(score).collect();
            Some(Score { level, logs, cells: samples.into_iter().cloned().collect() })
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
