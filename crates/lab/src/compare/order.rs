//! Whether what a study ranks changes places between two runs.
//!
//! Cells that differ in nothing but the ranked factor stand in an order, in each run. A pair of levels whose order is one in A
//! and the other in B *turned*, if Welch's test tells the pair apart in both runs, corrected after Holm for all pairs; or if
//! each repeat says so in both, by a ratio of [`UNSURE_RATIO`], which is named as what it is. That neither cell differs between
//! the runs by more than its interval says nothing of that: the one may have gained what the other lost.

use crate::metrics::{self, Better, SHOWN_RATIO_MIN, UNSURE_RATIO, figures};
use crate::results::{Cell, Metric, Results};
use crate::stats;
use std::collections::BTreeMap;

/// Pairs that are named; of more, the number.
const PAIRS_NAMED_MAX: usize = 3;
/// The factor that is taken to be ranked where neither run has a ranking.
const LAYOUT: &str = "layout";

/// A pair of levels that changed places.
struct Turned {
    /// The cell but for the level: `files/op=write`.
    place: String,
    /// Better in A, by the first ratio; worse in B, by the second.
    first: String,
    second: String,
    ratios: (f64, f64),
    is_sure: bool,
}

/// The sentence that says which levels changed places, by each cell's main metric.
pub(super) fn sentence(a: &Results, b: &Results, confidence: f64) -> Option<String> {
    let rankings = a.rankings.first().or(b.rankings.first());
    let by = rankings.map_or(LAYOUT, |ranking| ranking.by.as_str());
    let mut found = turned(a, b, by, confidence);
    found.sort_by(|one, other| {
        let least = |pair: &Turned| pair.ratios.0.min(pair.ratios.1);
        other.is_sure.cmp(&one.is_sure).then(least(other).total_cmp(&least(one)))
    });
    let named: Vec<String> = found
        .iter()
        .take(PAIRS_NAMED_MAX)
        .map(|pair| {
            let unsure = if pair.is_sure { "" } else { " (each repeat says so; too few to be sure)" };
            let Turned { place, first, second, ratios, .. } = pair;
            let (in_a, in_b) = (figures(ratios.0), figures(ratios.1));
            format!("at {place} {first} is better than {second} in A, {in_a} ×, and worse in B, {in_b} ×{unsure}")
        })
        .collect();
    let more = match found.len().saturating_sub(PAIRS_NAMED_MAX) {
        0 => String::new(),
        1 => "; and one pair more".to_owned(),
        n => format!("; and {n} pairs more"),
    };
    (!named.is_empty()).then(|| format!("The order of {by} turned: {}{more}.", named.join("; ")))
}

/// The pairs that stand one way in A and the other in B.
fn turned(a: &Results, b: &Results, by: &str, confidence: f64) -> Vec<Turned> {
    let sound = |cell: &&Cell| cell.is_sound();
    let others: BTreeMap<&str, &Cell> =
        b.cells.iter().filter(sound).map(|cell| (cell.id.as_str(), cell)).collect();
    let mut places: BTreeMap<String, Vec<(&str, &Metric, &Metric, &str)>> = BTreeMap::new();
    for cell in a.cells.iter().filter(sound) {
        let both = metrics::main_metric(cell).and_then(|metric| {
            let other = others.get(cell.id.as_str())?;
            Some((metric, cell.metrics.get(metric)?, other.metrics.get(metric)?))
        });
        let (Some((metric, mine, theirs)), Some(level)) = (both, cell.factors.get(by)) else {
            continue;
        };
        places.entry(place(cell, by)).or_default().push((level, mine, theirs, metric));
    }
    let mut found: Vec<Turned> = Vec::new();
    let (mut chances, mut all) = (Vec::new(), Vec::new());
    for (place, levels) in &places {
        for (number, one) in levels.iter().enumerate() {
            for other in &levels[number + 1..] {
                let better = metrics::better(one.3);
                let (Some(in_a), Some(in_b)) = (
                    Pair::of(one.1, other.1, better, confidence),
                    Pair::of(one.2, other.2, better, confidence),
                ) else {
                    continue;
                };
                let is_turned = in_a.first_is_better != in_b.first_is_better
                    && in_a.ratio.min(in_b.ratio) >= SHOWN_RATIO_MIN;
                // Both must be told: the less sure of the two counts.
                chances.push(if is_turned { in_a.p.max(in_b.p) } else { 1.0 });
                let (first, second) =
                    if in_a.first_is_better { (one.0, other.0) } else { (other.0, one.0) };
                let always =
                    in_a.always && in_b.always && in_a.ratio.min(in_b.ratio) >= UNSURE_RATIO;
                all.push(is_turned && always);
                found.push(Turned {
                    place: place.clone(),
                    first: first.to_owned(),
                    second: second.to_owned(),
                    ratios: (in_a.ratio, in_b.ratio),
                    is_sure: false,
                });
            }
        }
    }
    let corrected = stats::holm(&chances);
    let told = found.into_iter().zip(corrected).zip(all).filter_map(|((pair, p), always)| {
        let is_sure = p < 1.0 - confidence;
        (is_sure || always).then_some(Turned { is_sure, ..pair })
    });
    told.collect()
}

/// What a cell is but for its level of the ranked factor: `files/op=write`, `disk=a/files`.
fn place(cell: &Cell, by: &str) -> String {
    let parts = cell.id.split('/').map(|part| {
        let pairs = part.split(',').filter(|pair| pair.split('=').next() != Some(by));
        pairs.collect::<Vec<_>>().join(",")
    });
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Two levels held against each other in one run.
struct Pair {
    first_is_better: bool,
    /// Above 1.
    ratio: f64,
    p: f64,
    /// Whether each repeat of the one is better than each of the other.
    always: bool,
}

impl Pair {
    fn of(one: &Metric, other: &Metric, better: Better, confidence: f64) -> Option<Pair> {
        let (ones, others) = (stats::logarithms(&one.samples)?, stats::logarithms(&other.samples)?);
        let test = stats::welch(&ones, &others, confidence)?;
        Some(Pair {
            first_is_better: (test.difference > 0.0) == (better == Better::Higher),
            ratio: test.difference.abs().exp(),
            p: test.p,
            always: stats::are_apart(&ones, &others),
        })
    }
}
