//! The score of a level: the geometric mean of its cells, repeat by repeat.
//!
//! Cells are put into combinations, cells that differ in nothing but the ranked factor, and only those that every level
//! has count: no level is judged by easier work.
//!
//! A mean may say of all cells what only some of them bear: so a score keeps its cells, and whoever tells of a mean asks in
//! which of them it is otherwise ([`Score::holds_in_each`], [`elsewhere`]).

use crate::claims::Measured;
use crate::metrics::{self, Better, SHOWN_RATIO_MIN, UNSURE_RATIO};
use crate::results::{Cell, Metric};
use crate::stats::{self, Interval, Welch};
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
    /// Of each of those by how much of itself its mean may be off, as a standard error, by the sampling of an operation alone.
    pub(super) errors: Vec<f64>,
    /// The mean of each cell, as it stands in all tables.
    pub(super) means: Vec<f64>,
    /// Of one cell its figure, as it stands in all tables.
    pub(super) figure: Option<Metric>,
}

impl Score {
    /// The mean of the logarithms.
    pub(super) fn log(&self) -> f64 {
        stats::mean(&self.logs)
    }

    /// How far it is from another, as logarithms.
    pub(super) fn away(&self, other: &Score) -> f64 {
        (self.log() - other.log()).abs()
    }

    /// How far it is from another in the cell where they are farthest apart, as logarithms.
    pub(super) fn away_in_a_cell(&self, other: &Score) -> f64 {
        let pairs = self.cells.iter().zip(&other.cells);
        let away = pairs.map(|(own, others)| (stats::mean(own) - stats::mean(others)).abs());
        away.fold(0.0, f64::max)
    }

    /// The standard error of [`Score::log`] by sampling alone.
    fn error(&self) -> f64 {
        root_of_squares(&self.errors) / self.errors.len().max(1) as f64
    }

    /// Welch's test of this score against another, which tells nothing that is within the errors of sampling.
    pub(super) fn test(&self, other: &Score, confidence: f64) -> Option<Welch> {
        let error = root_of_squares(&[self.error(), other.error()]);
        let test = stats::welch(&self.logs, &other.logs, confidence)?;
        Some(test.with_known_error(error, confidence))
    }

    /// The same of one of their cells.
    fn test_of_cell(&self, other: &Score, cell: usize, confidence: f64) -> Option<Welch> {
        let test = stats::welch(self.cells.get(cell)?, other.cells.get(cell)?, confidence)?;
        let error = root_of_squares(&[self.error_of_cell(cell), other.error_of_cell(cell)]);
        Some(test.with_known_error(error, confidence))
    }

    /// Whether the two differ by no more than the sampling of operations may make.
    pub(super) fn is_within_sampling(&self, other: &Score, confidence: f64) -> bool {
        let error = root_of_squares(&[self.error(), other.error()]);
        is_within(self.log() - other.log(), error, confidence)
    }

    /// The same of one of their cells.
    fn is_cell_within_sampling(&self, other: &Score, cell: usize, confidence: f64) -> bool {
        let mean = |score: &Score| score.cells.get(cell).map_or(0.0, |logs| stats::mean(logs));
        let error = root_of_squares(&[self.error_of_cell(cell), other.error_of_cell(cell)]);
        is_within(mean(self) - mean(other), error, confidence)
    }

    fn error_of_cell(&self, cell: usize) -> f64 {
        self.errors.get(cell).copied().unwrap_or(0.0)
    }

    /// The lowest and the highest mean among its cells.
    pub(super) fn ends_of_cells(&self) -> (f64, f64) {
        stats::ends(&self.means)
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
        let denies = |(cell, (own, others)): (usize, (&Vec<f64>, &Vec<f64>))| {
            let is_ahead =
                better.lead(stats::mean(own), stats::mean(others)) >= SHOWN_RATIO_MIN.ln();
            let test = self.test_of_cell(other, cell, asked.study.confidence);
            let most = test.map(|test| match better {
                Better::Higher => test.interval.high,
                Better::Lower => -test.interval.low,
            });
            !is_ahead && (always(others, own, better) || most.is_some_and(|most| most < average))
        };
        !self.cells.iter().zip(&other.cells).enumerate().any(denies)
    }

    /// Whether the mean of each cell is better than the other's.
    pub(super) fn is_ahead_in_each(&self, other: &Score, better: Better) -> bool {
        let mut cells = self.cells.iter().zip(&other.cells);
        cells.all(|(own, others)| better.lead(stats::mean(own), stats::mean(others)) > 0.0)
    }

    /// As a figure, with its interval: of one cell its own, so that it stands nowhere otherwise.
    pub(super) fn as_metric(&self, confidence: f64) -> Metric {
        if let Some(figure) = &self.figure {
            return figure.clone();
        }
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

/// Whether a difference of logarithms is no more than what this standard error may make.
fn is_within(difference: f64, error: f64, confidence: f64) -> bool {
    let known =
        Welch { difference, interval: Interval { low: difference, high: difference }, p: 0.0 };
    known.with_known_error(error, confidence).p >= 1.0 - confidence
}

/// The root of the sum of squares, as errors add that are independent.
fn root_of_squares(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.powi(2)).sum::<f64>().sqrt()
}

/// A cell in which another level does better than the best over all.
struct Elsewhere<'a> {
    cell: usize,
    level: &'a str,
    /// By how much that one is ahead.
    lead: f64,
    /// Told by the test; else only each repeat says so.
    is_sure: bool,
}

/// Whether nothing is known of these but one repeat each: then there is no test, and what they gave is told as that and no more.
pub(super) fn are_of_one_repeat(scores: &[Score]) -> bool {
    scores.iter().all(|score| score.logs.len() < 2)
}

/// `; in 2 of 6 cells raid5-8 or raid6-8 does better, not sure`: where the best of these, which are ranked, is not the best of a
/// cell. That is told by Welch's test, corrected for all pairs of levels in all cells, as what turns at a setting is (`turns`), or
/// by each repeat and a ratio of [`UNSURE_RATIO`], which is named as what it is. Of one repeat each cell is told in which another
/// level `came out better`. Nothing where it is the best of each.
pub(super) fn elsewhere(scores: &[Score], asked: &Asked<'_>) -> String {
    let Some(best) = scores.first() else { return String::new() };
    let confidence = asked.study.confidence;
    let once = are_of_one_repeat(scores);
    let least = if once { SHOWN_RATIO_MIN } else { UNSURE_RATIO };
    let (mut seen, mut chances) = (Vec::new(), Vec::new());
    for cell in 0..best.cells.len() {
        for (place, above) in scores.iter().enumerate() {
            for below in &scores[place + 1..] {
                let (Some(own), Some(others)) = (below.cells.get(cell), above.cells.get(cell))
                else {
                    continue;
                };
                let lead = asked.better.lead(stats::mean(own), stats::mean(others));
                let shows = lead >= SHOWN_RATIO_MIN.ln();
                let test = below.test_of_cell(above, cell, confidence).filter(|_| shows);
                chances.push(test.map_or(1.0, |test| test.p));
                let by_each = lead >= least.ln()
                    && always(own, others, asked.better)
                    && !below.is_cell_within_sampling(above, cell, confidence);
                let level = below.level.as_str();
                seen.push((place, by_each, Elsewhere { cell, level, lead, is_sure: false }));
            }
        }
    }
    let mut told: Vec<Elsewhere<'_>> = Vec::new();
    for ((place, by_each, one), p) in seen.into_iter().zip(stats::holm(&chances)) {
        let is_sure = p < 1.0 - confidence;
        if place == 0 && (is_sure || by_each) {
            told.push(Elsewhere { is_sure, ..one });
        }
    }
    // Of each cell the one that is farthest ahead of those that are surest.
    told.sort_by(|one, other| {
        let by_cell = one.cell.cmp(&other.cell).then(other.is_sure.cmp(&one.is_sure));
        by_cell.then(other.lead.total_cmp(&one.lead))
    });
    told.dedup_by_key(|one| one.cell);
    let mut levels: Vec<&str> = Vec::new();
    for one in &told {
        if !levels.contains(&one.level) {
            levels.push(one.level);
        }
    }
    let named = match levels.len() {
        0 => return String::new(),
        1..=BETTER_NAMED_MAX => levels.join(" or "),
        _ => "another".to_owned(),
    };
    let does = if once { "came out" } else { "does" };
    let unsure = match told.iter().filter(|one| !one.is_sure).count() {
        _ if once => String::new(),
        0 => String::new(),
        all if all == told.len() => ", not sure".to_owned(),
        some => format!(", in {some} of them not sure"),
    };
    format!("; in {} of {} cells {named} {does} better{unsure}", told.len(), best.cells.len())
}

/// A cell of a level.
struct OfCell<'a> {
    figure: &'a Metric,
    /// The logarithms of its samples.
    logs: Vec<f64>,
    /// See [`Score::errors`].
    error: f64,
}

/// The scores of all levels.
#[derive(Default)]
pub(super) struct Scores {
    /// Over the combinations that all levels have, the best first.
    pub(super) ranked: Vec<Score>,
    /// How many those combinations are.
    pub(super) combinations: usize,
    /// How many cells of a level don't count, because another level has not their like; of the levels that have such.
    pub(super) left_out: Vec<(String, usize)>,
}

/// The scores of all levels over the combinations that all of them have.
pub(super) fn scores(asked: &Asked<'_>, chosen: &[&Measured<'_>]) -> Scores {
    let Asked { study, by, metric, better } = *asked;
    let mut levels: BTreeMap<String, BTreeMap<String, OfCell<'_>>> = BTreeMap::new();
    for measured in chosen {
        let Some(level) = measured.spec.factors.get(by) else { continue };
        let Some(figure) = measured.cell.metrics.get(metric) else { continue };
        let Some(logs) = stats::logarithms(&figure.samples) else { continue };
        let error = metrics::sampling_error(measured.cell, metric);
        let of_cell = OfCell { figure, logs, error };
        levels.entry(level.to_string()).or_default().insert(without(measured.cell, by), of_cell);
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
        return Scores::default();
    }
    let in_order = study.factors.iter().filter(|factor| factor.name == by);
    let in_order = in_order.flat_map(|factor| &factor.levels).map(ToString::to_string);
    let in_order: Vec<String> = in_order.collect();
    let mut ranked: Vec<Score> = in_order
        .iter()
        .cloned()
        .filter_map(|level| {
            let combinations = levels.get(&level)?;
            let cells: Vec<&OfCell<'_>> =
                shared.iter().filter_map(|name| combinations.get(name)).collect();
            let logs: Vec<&[f64]> = cells.iter().map(|cell| cell.logs.as_slice()).collect();
            let figure = match cells.as_slice() {
                [one] => Some(one.figure.clone()),
                _ => None,
            };
            Some(Score {
                level,
                logs: stats::by_repeat(&logs)?,
                cells: cells.iter().map(|cell| cell.logs.clone()).collect(),
                errors: cells.iter().map(|cell| cell.error).collect(),
                means: cells.iter().map(|cell| cell.figure.mean).collect(),
                figure,
            })
        })
        .collect();
    rank(&mut ranked, better);
    let left_out = in_order.into_iter().filter_map(|level| {
        let left_out = levels.get(&level)?.len() - shared.len();
        (left_out > 0).then_some((level, left_out))
    });
    Scores { combinations: shared.len(), left_out: left_out.collect(), ranked }
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

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    /// Found by a newcomer: the interval of a score of two repeats was narrower than those of its cells. A score is a mean, and its
    /// interval holds what it is an estimate of as often as it says, of two repeats and of many cells as well.
    #[test]
    fn the_interval_of_a_score_holds_the_truth_as_often_as_it_says() {
        let mut prng = Prng::new(7);
        // The sum of 12 uniform draws is as good as normal, with mean 6 and variance 1.
        let mut draw = || (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0;
        for (repeats, count) in [(2, 6), (5, 6), (2, 1)] {
            let (mut held, runs) = (0, 800);
            let (mut width, mut widths) = (0.0, 0.0);
            for _ in 0..runs {
                let cells: Vec<Vec<f64>> = (0..count)
                    .map(|cell| {
                        (0..repeats).map(|_| f64::from(cell) + 0.05 * draw()).collect::<Vec<f64>>()
                    })
                    .collect();
                let of_repeats: Vec<&[f64]> = cells.iter().map(Vec::as_slice).collect();
                let score = Score {
                    level: String::new(),
                    logs: stats::by_repeat(&of_repeats).expect("there are cells"),
                    errors: vec![0.0; cells.len()],
                    means: Vec::new(),
                    cells: cells.clone(),
                    figure: None,
                };
                let truth = (f64::from(count - 1) / 2.0).exp();
                let figure = score.as_metric(0.95);
                held += usize::from(figure.ci_low <= truth && truth <= figure.ci_high);
                let Interval { low, high } = stats::t_interval(&cells[0], 0.95);
                width += (figure.ci_high / figure.ci_low).ln() / f64::from(runs);
                widths += (high - low) / f64::from(runs);
            }
            let share = f64::from(u32::try_from(held).expect("few")) / f64::from(runs);
            assert!((0.93..0.97).contains(&share), "{repeats} repeats of {count} cells: {share}");
            let ratio = widths / width / f64::from(count).sqrt();
            assert!((0.9..1.1).contains(&ratio), "{repeats} repeats of {count} cells: {ratio}");
        }
    }
}
