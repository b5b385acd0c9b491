//! The answer in words: which level of a factor does best, for what, and how sure that is.
//!
//! A use of the verdict ([`crate::study::Use`]) is a set of cells. For each:
//!
//! 1. The cells are put into combinations: cells that differ in nothing but the ranked factor. Only
//!    combinations that every ranked level has count, so that no level is judged by easier work.
//! 2. In each repeat a level's score is the geometric mean of its cells: each combination weighs the
//!    same, whether it makes 100 or 10 000 I/Os a second. Repeats are independent, so the scores of
//!    the repeats give an interval, and Welch's test (on logarithms) compares levels.
//! 3. The best level is named with those that can't be told from it, after Holm's correction; then
//!    the next, and by how much.
//!
//! Where the study gives costs (`[verdict.per]`), levels are ranked once more by score over cost;
//! only of rates, since half a duration a disk means nothing.
//!
//! Without `[verdict]` the answer is a plain account of the figures.

use crate::claims::Measured;
use crate::metrics::{self, Better, figures, percent, quantity};
use crate::results::{Cell, Metric};
use crate::stats;
use crate::study::{Per, Study, Use};
use std::collections::BTreeMap;

/// The most cells of which the plain account names each.
const CELLS_NAMED_MAX: usize = 6;
/// The most levels that are named as not distinguishable; of more, the number.
const TIES_NAMED_MAX: usize = 4;

/// One level's standing in a use.
struct Score {
    level: String,
    /// The logarithm of the score of each repeat.
    logs: Vec<f64>,
}

/// The verdict on what was measured.
pub fn verdict(study: &Study, cells: &[Measured<'_>]) -> String {
    let mut sentences: Vec<String> = Vec::new();
    match &study.verdict {
        Some(rules) => {
            for used in &rules.uses {
                sentences.push(judge(study, &rules.by, used, rules.per.as_ref(), cells));
            }
        }
        None => sentences.extend(account(study, cells)),
    }
    let failed = cells.iter().filter(|measured| measured.cell.error.is_some()).count();
    if failed > 0 {
        sentences.push(format!("{failed} of {} cells failed and are left out.", cells.len()));
    }
    if study.quick {
        sentences.push("This was a shortened run: no basis for a decision.".to_owned());
    }
    sentences.join(" ")
}

fn judge(study: &Study, by: &str, used: &Use, per: Option<&Per>, cells: &[Measured<'_>]) -> String {
    let chosen: Vec<&Measured<'_>> =
        cells.iter().filter(|measured| used.of.matches(measured.spec)).collect();
    let name = &used.name;
    let Some(first) = chosen.first() else {
        return format!("For {name}, nothing was measured in this run.");
    };
    let metric = match &used.metric {
        Some(metric) => metric.as_str(),
        None => first.spec.workload.main_metric(),
    };
    let better = used.better.unwrap_or_else(|| metrics::better(metric));
    let (mut scores, combinations) = scores(study, by, metric, &chosen);
    if scores.is_empty() {
        return format!("For {name}, there are no figures that could be compared.");
    }
    rank(&mut scores, better);
    let mut sentence = ranking(name, metric, better, study.confidence, &scores, combinations);
    if let (Some(per), Better::Higher) = (per, better)
        && scores.len() > 1
    {
        for score in &mut scores {
            let count = per.counts.get(&score.level).copied().unwrap_or(1.0);
            score.logs.iter_mut().for_each(|log| *log -= count.ln());
        }
        rank(&mut scores, better);
        let best = &scores[0];
        let value = quantity(metric, stats::mean(&best.logs).exp());
        sentence += &format!(" Per {}, {} yields most: {value}.", per.unit, best.level);
    }
    sentence
}

/// The scores of all levels over the combinations that all of them have, and how many those are.
fn scores(study: &Study, by: &str, metric: &str, chosen: &[&Measured<'_>]) -> (Vec<Score>, usize) {
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
    let scores = in_order
        .filter_map(|level| {
            let combinations = levels.get(&level)?;
            let samples: Vec<&Vec<f64>> =
                shared.iter().filter_map(|name| combinations.get(name)).collect();
            let repeats = samples.iter().map(|logs| logs.len()).min()?;
            let score = |repeat: usize| {
                let sum: f64 = samples.iter().filter_map(|logs| logs.get(repeat)).sum();
                sum / samples.len() as f64
            };
            Some(Score { level, logs: (0..repeats).map(score).collect() })
        })
        .collect();
    (scores, shared.len())
}

/// What a cell is but for its level of one factor.
fn without(cell: &Cell, by: &str) -> String {
    let rest = cell.factors.iter().filter(|(name, _)| *name != by);
    let rest: Vec<String> = rest.map(|(name, level)| format!("{name}={level}")).collect();
    format!("{}/{}", cell.workload, rest.join(","))
}

fn rank(scores: &mut [Score], better: Better) {
    scores.sort_by(|a, b| {
        let (a, b) = (stats::mean(&a.logs), stats::mean(&b.logs));
        match better {
            Better::Higher => b.total_cmp(&a),
            Better::Lower => a.total_cmp(&b),
        }
    });
}

/// `For random reads, raid10-4 does best: 412 I/Os a second (95 % 401–423), 1.90 × raid5-6, which
/// comes next.`
fn ranking(
    name: &str,
    metric: &str,
    better: Better,
    confidence: f64,
    scores: &[Score],
    combinations: usize,
) -> String {
    let [best, others @ ..] = scores else { return String::new() };
    let over = match combinations {
        1 => String::new(),
        n => format!(" over {n} cells"),
    };
    let shown = |score: &Score| -> String { shown(metric, score, confidence) };
    if others.is_empty() {
        return format!("For {name}, {} reaches {}{over}.", best.level, shown(best));
    }
    let tests: Option<Vec<stats::Welch>> =
        others.iter().map(|other| stats::welch(&best.logs, &other.logs, confidence)).collect();
    let Some(tests) = tests else {
        let next = &others[0];
        return format!(
            "For {name}, {} came out best: {}{over}, against {} of {}; one repeat does not tell how \
             sure that is.",
            best.level,
            shown(best),
            shown(next),
            next.level
        );
    };
    let chances: Vec<f64> = tests.iter().map(|test| test.p).collect();
    let corrected = stats::holm(&chances);
    let is_tie = |index: usize| corrected.get(index).is_none_or(|p| *p >= 1.0 - confidence);
    let split = others.iter().enumerate().partition::<Vec<_>, _>(|(index, _)| is_tie(*index));
    let (ties, worse) = split;
    let next = worse.first().map(|(_, score)| *score);
    let compared = next.map(|next| {
        let ratio = (stats::mean(&best.logs) - stats::mean(&next.logs)).exp();
        match better {
            Better::Higher => format!("{} × {}, which comes next", figures(ratio), next.level),
            Better::Lower => {
                format!("{} × less than {}, which comes next", figures(1.0 / ratio), next.level)
            }
        }
    });
    if ties.is_empty() {
        let compared = compared.map_or_else(String::new, |text| format!(", {text}"));
        return format!("For {name}, {} does best: {}{over}{compared}.", best.level, shown(best));
    }
    let mut tied = vec![best];
    tied.extend(ties.iter().map(|(_, score)| *score));
    let figures_of = |score: &&Score| format!("{} {}", score.level, shown(score));
    let named = match tied.len() {
        n if n <= TIES_NAMED_MAX => {
            let (last, first) = match tied.split_last() {
                Some((last, first)) => (figures_of(last), first),
                None => (String::new(), [].as_slice()),
            };
            let first: Vec<String> = first.iter().map(figures_of).collect();
            format!("{} and {last}", first.join(", "))
        }
        n => format!("{} and {} others", figures_of(&best), n - 1),
    };
    // The largest ratio between the best and a tie that the samples allow.
    let ratio = (0..tests.len())
        .filter(|index| is_tie(*index))
        .map(|index| tests[index].interval.low.abs().max(tests[index].interval.high.abs()).exp())
        .fold(1.0, f64::max);
    let seen = format!("; they differ by no more than {}", ratio_less_one(ratio));
    let all = if worse.is_empty() { "" } else { "the best " };
    let compared = compared.map_or_else(String::new, |text| format!("; {} is {text}", best.level));
    format!(
        "For {name}, {all}{} levels are not distinguishable at {}: {named}{over}{seen}{compared}.",
        tied.len(),
        percent(confidence)
    )
}

/// `12 %` for 1.12; `4.2 ×` where percents would mislead.
fn ratio_less_one(ratio: f64) -> String {
    match ratio < 2.0 {
        true => format!("{} %", figures(100.0 * (ratio - 1.0))),
        false => format!("{} ×", figures(ratio)),
    }
}

fn shown(metric: &str, score: &Score, confidence: f64) -> String {
    let interval = stats::t_interval(&score.logs, confidence);
    let figure = Metric {
        mean: stats::mean(&score.logs).exp(),
        ci_low: interval.low.exp(),
        ci_high: interval.high.exp(),
        samples: score.logs.iter().map(|log| log.exp()).collect(),
    };
    metrics::quantity_with_interval(metric, &figure, confidence)
}

/// A cell's name, without factors where the study has but one level of each: they tell nothing apart.
fn named<'a>(study: &Study, cell: &'a Cell) -> &'a str {
    let varied = study.factors.iter().any(|factor| factor.levels_in_file.len() > 1);
    match cell.id.split_once('/') {
        Some((_, rest)) if !varied && !study.factors.is_empty() => rest,
        _ => &cell.id,
    }
}

/// What was measured, where the study does not say what to make of it.
fn account(study: &Study, cells: &[Measured<'_>]) -> Vec<String> {
    let figures: Vec<(&Measured<'_>, &str, &Metric)> = cells
        .iter()
        .filter_map(|measured| {
            let metric = measured.spec.workload.main_metric();
            let figure = measured.cell.metrics.get_key_value(metric);
            figure.map(|(name, figure)| (measured, name.as_str(), figure))
        })
        .collect();
    if cells.len() <= CELLS_NAMED_MAX {
        let name = |(measured, metric, figure): &(&Measured<'_>, &str, &Metric)| {
            let value = metrics::quantity_with_interval(metric, figure, study.confidence);
            format!("{}: {value}", named(study, measured.cell))
        };
        let named: Vec<String> = figures.iter().map(name).collect();
        return if named.is_empty() { Vec::new() } else { vec![format!("{}.", named.join("; "))] };
    }
    let mut workloads: Vec<&str> = Vec::new();
    for (measured, ..) in &figures {
        if !workloads.contains(&measured.cell.workload.as_str()) {
            workloads.push(&measured.cell.workload);
        }
    }
    workloads
        .into_iter()
        .filter_map(|workload| {
            let of = || figures.iter().filter(|(measured, ..)| measured.cell.workload == workload);
            let low = of().min_by(|a, b| a.2.mean.total_cmp(&b.2.mean))?;
            let high = of().max_by(|a, b| a.2.mean.total_cmp(&b.2.mean))?;
            Some(format!(
                "{workload}: from {} ({}) to {} ({}).",
                quantity(low.1, low.2.mean),
                named(study, low.0.cell),
                quantity(high.1, high.2.mean),
                named(study, high.0.cell)
            ))
        })
        .collect()
}
