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
//!    the next, and by how much. A level that can't be told from the best although a better one can is too
//!    uncertain to be placed.
//! 4. Where another level is best for one value of a parameter, that is said: an answer that turns between two
//!    settings is an answer for neither.
//!
//! Where the study gives costs (`[verdict.per]`), levels are ranked once more by score over cost;
//! only of rates, since half a duration a disk means nothing.
//!
//! Without `[verdict]` the answer is a plain account of the figures.

use crate::claims::Measured;
use crate::metrics::{self, Better, UNCERTAIN, figures, percent, quantity};
use crate::results::{Cell, Metric, Ranked, Ranking};
use crate::stats;
use crate::study::{Per, Study, Use};
use std::collections::BTreeMap;

/// The most cells of which the plain account names each.
const CELLS_NAMED_MAX: usize = 6;
/// The most levels that are named as not distinguishable; of more, the number.
const TIES_NAMED_MAX: usize = 4;
/// The ends of a score's interval lie within this factor of its mean; what is farther is "anything".
const FIGURE_RATIO_MAX: f64 = 1e6;

/// One level's standing in a use.
struct Score {
    level: String,
    /// The logarithm of the score of each repeat.
    logs: Vec<f64>,
}

/// The verdict on what was measured: in words, and as a table a use.
pub fn verdict(study: &Study, cells: &[Measured<'_>]) -> (String, Vec<Ranking>) {
    let mut sentences: Vec<String> = Vec::new();
    let mut rankings: Vec<Ranking> = Vec::new();
    match &study.verdict {
        Some(rules) => {
            for used in &rules.uses {
                let (sentence, ranking) = judge(study, &rules.by, used, rules.per.as_ref(), cells);
                sentences.push(sentence);
                rankings.extend(ranking);
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
    (sentences.join(" "), rankings)
}

fn judge(
    study: &Study,
    by: &str,
    used: &Use,
    per: Option<&Per>,
    cells: &[Measured<'_>],
) -> (String, Option<Ranking>) {
    let chosen: Vec<&Measured<'_>> =
        cells.iter().filter(|measured| used.of.matches(measured.spec)).collect();
    let name = &used.name;
    let Some(first) = chosen.first() else {
        return (format!("For {name}, nothing was measured in this run."), None);
    };
    let metric = match &used.metric {
        Some(metric) => metric.as_str(),
        None => first.spec.workload.main_metric(),
    };
    let better = used.better.unwrap_or_else(|| metrics::better(metric));
    let (mut scores, combinations) = scores(study, by, metric, &chosen);
    if scores.is_empty() {
        return (format!("For {name}, there are no figures that could be compared."), None);
    }
    rank(&mut scores, better);
    let placed = Placed::of(&scores, study.confidence);
    let mut sentence = ranking(name, metric, better, study.confidence, &placed, combinations);
    let turns = turns(study, by, metric, better, &chosen, &placed.best.level);
    for turn in &turns {
        sentence += &format!(" {turn}");
    }
    let table = Ranking {
        name: name.clone(),
        metric: metric.to_owned(),
        by: by.to_owned(),
        rows: rows(&placed, study.confidence),
        turns,
    };
    if let (Some(per), Better::Higher) = (per, better)
        && scores.len() > 1
    {
        for score in &mut scores {
            let count = per.counts.get(&score.level).copied().unwrap_or(1.0);
            score.logs.iter_mut().for_each(|log| *log -= count.ln());
        }
        rank(&mut scores, better);
        let placed = Placed::of(&scores, study.confidence);
        let value = quantity(metric, stats::mean(&placed.best.logs).exp());
        let level = &placed.best.level;
        sentence += &match (placed.alone, placed.ties.as_slice()) {
            (false, []) => format!(" Per {}, {level} yields most: {value}.", per.unit),
            (false, ties) => format!(
                " Per {}, {level} came out highest, {value}, not distinguishable from {}.",
                per.unit,
                ties.iter().map(|(tie, _)| tie.level.as_str()).collect::<Vec<_>>().join(", ")
            ),
            (true, _) => format!(" Per {}, {level} came out highest: {value}.", per.unit),
        };
    }
    (sentence, Some(table))
}

/// Who stands where. The order is that of the means; a level that can't be told from the best although one
/// above it can is placed nowhere: its own spread is too wide.
struct Placed<'a> {
    best: &'a Score,
    /// Not told from the best, and none above them is; each with its test.
    ties: Vec<(&'a Score, stats::Welch)>,
    /// Told from the best.
    worse: Vec<&'a Score>,
    /// Below a level that is told from the best, and themselves not.
    unplaced: Vec<&'a Score>,
    /// One repeat: nothing is known of who is told from whom. All are in `worse`.
    alone: bool,
}

impl<'a> Placed<'a> {
    fn of(scores: &'a [Score], confidence: f64) -> Placed<'a> {
        let (best, others) = scores.split_first().expect("there is a level at least");
        let mut placed = Placed {
            best,
            ties: Vec::new(),
            worse: Vec::new(),
            unplaced: Vec::new(),
            alone: false,
        };
        let tests: Option<Vec<stats::Welch>> =
            others.iter().map(|other| stats::welch(&best.logs, &other.logs, confidence)).collect();
        let Some(tests) = tests else {
            placed.alone = true;
            placed.worse.extend(others);
            return placed;
        };
        let chances: Vec<f64> = tests.iter().map(|test| test.p).collect();
        let corrected = stats::holm(&chances);
        for ((other, test), p) in others.iter().zip(tests).zip(corrected) {
            match (p >= 1.0 - confidence, placed.worse.is_empty()) {
                (true, true) => placed.ties.push((other, test)),
                (true, false) => placed.unplaced.push(other),
                (false, _) => placed.worse.push(other),
            }
        }
        placed
    }
}

fn rows(placed: &Placed<'_>, confidence: f64) -> Vec<Ranked> {
    let row = |score: &Score, standing: String| Ranked {
        level: score.level.clone(),
        score: as_metric(score, confidence),
        standing,
    };
    let ratio = |score: &Score| {
        let ratio = (stats::mean(&score.logs) - stats::mean(&placed.best.logs)).exp();
        let sure = if placed.alone { ", in one repeat" } else { "" };
        format!("{} × the best{sure}", figures(ratio))
    };
    let best = match (placed.alone, placed.ties.is_empty(), placed.worse.is_empty()) {
        (true, ..) => "came out best, in one repeat",
        (_, true, false) => "best",
        (_, true, true) => "alone",
        _ => "came out best",
    };
    let mut rows = vec![row(placed.best, best.to_owned())];
    let ties = placed.ties.iter();
    rows.extend(ties.map(|(score, _)| row(score, "not told from the best".to_owned())));
    let mut rest: Vec<(&Score, String)> =
        placed.worse.iter().map(|score| (*score, ratio(score))).collect();
    let unplaced = placed.unplaced.iter();
    rest.extend(unplaced.map(|score| (*score, "too uncertain to place".to_owned())));
    rows.extend(rest.into_iter().map(|(score, standing)| row(score, standing)));
    rows
}

/// For which values of a parameter the best level is another than over all, a sentence each parameter. Only what
/// Welch's test tells, corrected for the number of values, counts.
fn turns(
    study: &Study,
    by: &str,
    metric: &str,
    better: Better,
    chosen: &[&Measured<'_>],
    best: &str,
) -> Vec<String> {
    let mut keys: Vec<&String> =
        chosen.iter().flat_map(|measured| measured.cell.factors.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut sentences = Vec::new();
    for key in keys.into_iter().filter(|key| *key != by) {
        let mut values: Vec<&String> = Vec::new();
        for value in chosen.iter().filter_map(|measured| measured.cell.factors.get(key)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if values.len() < 2 {
            continue;
        }
        let mut found: Vec<(&String, String, f64, f64)> = Vec::new();
        for value in values {
            let of: Vec<&Measured<'_>> = chosen
                .iter()
                .filter(|measured| measured.cell.factors.get(key) == Some(value))
                .copied()
                .collect();
            let (mut scores, _) = scores(study, by, metric, &of);
            rank(&mut scores, better);
            let (Some(first), Some(usual)) =
                (scores.first(), scores.iter().find(|score| score.level == best))
            else {
                continue;
            };
            let Some(test) = stats::welch(&first.logs, &usual.logs, study.confidence) else {
                continue;
            };
            let ratio = (stats::mean(&first.logs) - stats::mean(&usual.logs)).abs().exp();
            let p = if first.level == best { 1.0 } else { test.p };
            found.push((value, first.level.clone(), ratio, p));
        }
        let chances: Vec<f64> = found.iter().map(|(.., p)| *p).collect();
        let corrected = stats::holm(&chances);
        let turned: Vec<String> = found
            .into_iter()
            .zip(corrected)
            .filter(|(_, p)| *p < 1.0 - study.confidence)
            .map(|((value, level, ratio, _), _)| match better {
                Better::Higher => {
                    format!("at {value} {level} does best, {} × {best}", figures(ratio))
                }
                Better::Lower => {
                    format!("at {value} {level} does best, {} × less than {best}", figures(ratio))
                }
            })
            .collect();
        if !turned.is_empty() {
            sentences.push(format!("The order turns with {key}: {}.", turned.join("; ")));
        }
    }
    sentences
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
    placed: &Placed<'_>,
    combinations: usize,
) -> String {
    let best = placed.best;
    let over = match combinations {
        1 => String::new(),
        n => format!(" over {n} cells"),
    };
    let shown = |score: &Score| -> String { shown(metric, score, confidence) };
    if placed.ties.is_empty() && placed.worse.is_empty() {
        return format!("For {name}, {} reaches {}{over}.", best.level, shown(best));
    }
    let next = placed.worse.first();
    if let (true, Some(next)) = (placed.alone, next) {
        return format!(
            "For {name}, {} came out best: {}{over}, against {} of {}; one repeat does not tell how \
             sure that is.",
            best.level,
            shown(best),
            shown(next),
            next.level
        );
    }
    let compared = next.map(|next| {
        let ratio = (stats::mean(&best.logs) - stats::mean(&next.logs)).exp();
        match better {
            Better::Higher => format!("{} × {}, which comes next", figures(ratio), next.level),
            Better::Lower => {
                format!("{} × less than {}, which comes next", figures(1.0 / ratio), next.level)
            }
        }
    });
    let unplaced = match placed.unplaced.as_slice() {
        [] => String::new(),
        some => {
            let names: Vec<&str> = some.iter().map(|score| score.level.as_str()).collect();
            format!("; {} too uncertain to place: more repeats tell", names.join(", "))
        }
    };
    if placed.ties.is_empty() {
        let compared = compared.map_or_else(String::new, |text| format!(", {text}"));
        let shown = shown(best);
        return format!("For {name}, {} does best: {shown}{over}{compared}{unplaced}.", best.level);
    }
    let mut tied = vec![best];
    tied.extend(placed.ties.iter().map(|(score, _)| *score));
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
    let ratio = placed
        .ties
        .iter()
        .map(|(_, test)| test.interval.low.abs().max(test.interval.high.abs()).exp())
        .fold(1.0, f64::max);
    let seen = match ratio > UNCERTAIN {
        true => "; too uncertain to tell by how much they differ: more repeats tell".to_owned(),
        false => format!("; they differ by no more than {}", ratio_less_one(ratio)),
    };
    let all = if placed.worse.is_empty() { "" } else { "the best " };
    let compared = compared.map_or_else(String::new, |text| format!("; {} is {text}", best.level));
    format!(
        "For {name}, {all}{} levels are not distinguishable at {}: \
         {named}{over}{seen}{compared}{unplaced}.",
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

fn as_metric(score: &Score, confidence: f64) -> Metric {
    let interval = stats::t_interval(&score.logs, confidence);
    let mean = stats::mean(&score.logs).exp();
    // Beyond any measurement an end is no number that a reader could do anything with.
    let end = |log: f64| log.exp().min(mean * FIGURE_RATIO_MAX).max(mean / FIGURE_RATIO_MAX);
    Metric {
        mean,
        ci_low: end(interval.low),
        ci_high: end(interval.high),
        samples: score.logs.iter().map(|log| log.exp()).collect(),
    }
}

fn shown(metric: &str, score: &Score, confidence: f64) -> String {
    metrics::quantity_with_interval(metric, &as_metric(score, confidence), confidence)
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
