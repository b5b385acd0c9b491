//! The answer in a sentence, by each cell's main metric: in how many cells what is the case.

use super::comparison::{Comparison, Difference};
use crate::metrics::percent;

/// `B is better in 12 of 48 cells, by 3.0–9.1 %; no difference at 95 % in 36.`
pub(super) fn of(judged: &[&Comparison], confidence: f64, again: &str) -> String {
    let those = |difference: Difference| -> Vec<&Comparison> {
        judged.iter().copied().filter(|one| one.difference == difference).collect()
    };
    let by = |cells: &[&Comparison]| {
        let changes = cells.iter().map(|one| one.change_percent.abs());
        let low = changes.clone().fold(f64::INFINITY, f64::min);
        let high = changes.fold(0.0, f64::max);
        match (format!("{low:.1}"), format!("{high:.1}")) {
            (low, high) if low == high => format!("by {low} %"),
            (low, high) => format!("by {low}–{high} %"),
        }
    };
    let total = judged.len();
    let cells = if total == 1 { "cell" } else { "cells" };
    let mut parts = Vec::new();
    for (difference, word) in [(Difference::Better, "better"), (Difference::Worse, "worse")] {
        let changed = those(difference);
        if !changed.is_empty() {
            let n = changed.len();
            let but = otherwise(&changed);
            parts.push(format!("B is {word} in {n} of {total} {cells}, {}{but}", by(&changed)));
        }
    }
    let same = those(Difference::None);
    match same.len() {
        0 => {}
        all if all == total => {
            return format!("No difference at {} in any of {total} {cells}.", percent(confidence));
        }
        some => parts.push(format!("no difference at {} in {some}", percent(confidence))),
    }
    let unsure = those(Difference::Unsure);
    if !unsure.is_empty() {
        parts.push(format!(
            "each repeat differs in {}, {}, and the repeats are too few to be sure: {again}",
            unsure.len(),
            by(&unsure)
        ));
    }
    parts.extend(undecided(&those(Difference::Undecided)));
    match those(Difference::Unknown).len() {
        0 => {}
        n => parts.push(format!("one repeat does not tell in {n}: {again}")),
    }
    format!("{}.", parts.join("; "))
}

/// In how many cells there is no verdict, a part a reason.
fn undecided(cells: &[&Comparison]) -> Vec<String> {
    let mut reasons: Vec<Vec<&Comparison>> = Vec::new();
    for one in cells {
        let shares = |known: &&mut Vec<&Comparison>| {
            known[0].unlike == one.unlike && known[0].shared_reason == one.shared_reason
        };
        match reasons.iter_mut().find(shares) {
            Some(known) => known.push(one),
            None => reasons.push(vec![one]),
        }
    }
    let part = |cells: Vec<&Comparison>| {
        let first = cells[0];
        let differ = if first.unlike { "" } else { "they differ and " };
        let named = named(&cells);
        let reason = match cells.iter().all(|one| one.reason == first.reason) {
            true => first.reason.clone().unwrap_or_default(),
            false if named.is_empty() => first.shared_reason.clone(),
            false => format!("{} ({named})", first.shared_reason),
        };
        format!("{differ}there is no verdict in {}: {reason}", cells.len())
    };
    reasons.into_iter().map(part).collect()
}

/// What of these cells was not alike: `layout raid5-8`, or `layout raid5-8 in 2, streams.streams in 4` where it is not of all.
fn named(cells: &[&Comparison]) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for name in cells.iter().flat_map(|one| &one.parameters) {
        match names.iter_mut().find(|(known, _)| known == name) {
            Some((_, cells)) => *cells += 1,
            None => names.push((name, 1)),
        }
    }
    names.sort();
    let said = |(name, of): &(&str, usize)| match *of == cells.len() {
        true => (*name).to_owned(),
        false => format!("{name} in {of}"),
    };
    names.iter().map(said).collect::<Vec<_>>().join(", ")
}

/// ` (2 of which did not run alike: streams.streams)`, where these did not.
fn otherwise(cells: &[&Comparison]) -> String {
    let unlike: Vec<&Comparison> =
        cells.iter().copied().filter(|one| !one.parameters.is_empty()).collect();
    match unlike.len() {
        0 => String::new(),
        n => format!(" ({n} of which did not run alike: {})", named(&unlike)),
    }
}
