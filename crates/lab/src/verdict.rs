//! The answer in words: which level of a factor does best, for what, and how sure that is.
//!
//! A use of the verdict ([`crate::study::Use`]) is a set of cells. For each:
//!
//! 1. The cells are put into combinations: cells that differ in nothing but the ranked factor. Only
//!    combinations that every ranked level has count, so that no level is judged by easier work. Cells that failed don't count,
//!    and are named.
//! 2. In each repeat a level's score is the geometric mean of its cells: each combination weighs the
//!    same, whether it makes 100 or 10 000 I/Os a second. Repeats are independent, so the scores of
//!    the repeats give an interval, and Welch's test (on logarithms) compares levels. Of a sampled operation a standard error
//!    is known besides: nothing is told that is within it.
//! 3. The best level is named with those that can't be told from it, after Holm's correction; then
//!    the next, and by how much. A level that each repeat puts behind the best, with too few repeats for the test, is
//!    said to be that; one that can't be told from the best although a better one can is too uncertain to be placed. One that
//!    was run once beside others has no interval, and is told with its figure.
//! 4. Where levels change places for one value of a parameter, or for two together, that is said (`turns`): an answer
//!    that turns between two settings is an answer for neither. No mean stands alone that its cells don't bear: in how many of
//!    them another level does better than the best stands with it.
//! 5. A mix of reads and writes that does more than either alone is said to be no error (`mixes`).
//! 6. Layouts that survive no lost disk are named, and what does best of the others.
//!
//! Where the study gives costs (`[verdict.per]`), levels are ranked once more by score over cost;
//! only of rates, since half a duration a disk means nothing.
//!
//! Without `[verdict]` the answer is a plain account of the figures.

mod fragile;
mod mixes;
mod placed;
mod score;
mod told;
mod turns;

use crate::claims::Measured;
use crate::measure::operation::SAMPLING_ERROR_MAX;
use crate::metrics::{self, Better, SHOWN_RATIO_MIN, figures, percent, quantity};
use crate::phases;
use crate::results::{Cell, LayoutFigures, Metric, Ranked, Ranking};
use crate::study::{Kind, Study, Use, VerdictRules};
use crate::words;
use placed::Placed;
use score::{Asked, Score};
use told::{behind, compared, shown};

/// The most cells of which the plain account names each.
const CELLS_NAMED_MAX: usize = 6;
/// The most cells that are named of those that failed.
const FAILED_NAMED_MAX: usize = 3;
/// The most levels that are named as not distinguishable; of more, the number.
const TIES_NAMED_MAX: usize = 4;
/// Where the samples allow levels that are not told apart to differ by more than this factor, it is said that they are too
/// few instead.
const TIE_RATIO_MAX: f64 = 2.0;

/// The verdict on what was measured: in words, and as a table a use. `layouts` say which survive a loss.
pub fn verdict(
    study: &Study,
    cells: &[Measured<'_>],
    layouts: &[LayoutFigures],
) -> (String, Vec<Ranking>) {
    let mut sentences: Vec<String> = Vec::new();
    let mut rankings: Vec<Ranking> = Vec::new();
    let (all, failed): (Vec<Measured<'_>>, Vec<Measured<'_>>) =
        cells.iter().copied().partition(|measured| measured.cell.is_sound());
    let cells = all.as_slice();
    match &study.verdict {
        Some(rules) => {
            for used in &rules.uses {
                let (sentence, ranking) = judge(study, rules, used, (cells, &failed), layouts);
                sentences.push(sentence);
                rankings.extend(ranking);
            }
        }
        None => sentences.extend(account(study, cells)),
    }
    sentences.extend(mixes::sentences(cells));
    sentences.extend(left_out(&failed, cells.len() + failed.len()));
    if study.quick {
        sentences.push("This was a shortened run: no basis for a decision.".to_owned());
    }
    (sentences.join(" "), rankings)
}

/// The cells that failed, of so many in all, with why: the first of them.
fn left_out(failed: &[Measured<'_>], all: usize) -> Option<String> {
    let why = |measured: &Measured<'_>| measured.cell.error.clone().unwrap_or_default();
    let id = |measured: &Measured<'_>| measured.cell.id.clone();
    let named = failed.iter().map(|measured| format!("{} ({})", id(measured), why(measured)));
    let named = words::first_of(named.collect(), FAILED_NAMED_MAX, "; ");
    match failed {
        [] => None,
        [one] if all == 1 => {
            Some(format!("{} failed: {}. There is no verdict on what it gave.", id(one), why(one)))
        }
        [_] => Some(format!("1 of {all} cells failed and is left out: {named}.")),
        some => Some(format!("{} of {all} cells failed and are left out: {named}.", some.len())),
    }
}

/// Levels of which no cell can be ranked, because those that were run failed.
fn unranked(asked: &Asked<'_>, failed: &[&Measured<'_>], scores: &[Score]) -> Option<String> {
    let mut levels: Vec<String> = Vec::new();
    for level in failed.iter().filter_map(|measured| measured.spec.factors.get(asked.by)) {
        let level = level.to_string();
        if !levels.contains(&level) && scores.iter().all(|score| score.level != level) {
            levels.push(level);
        }
    }
    let is = if levels.len() == 1 { "is" } else { "are" };
    let levels = (!levels.is_empty()).then(|| words::listed(&levels))?;
    Some(format!("{levels} {is} not ranked: what was run of it failed."))
}

/// The cells that don't count in a score, by level: `Of raid5-8 3 cells don't count, of raid6-8 1: others have not their like.`
fn incomparable(left_out: &[(String, usize)]) -> Option<String> {
    let ((first, count), others) = left_out.split_first()?;
    let cells = if *count == 1 { "cell does not" } else { "cells don't" };
    let others: String =
        others.iter().map(|(level, count)| format!(", of {level} {count}")).collect();
    Some(format!(
        "Of {first} {count} {cells} count{others}: not every level was run like that, so they tell nothing of who does better."
    ))
}

/// Judges the sound ones of the cells; those that failed are named where they leave a gap.
fn judge(
    study: &Study,
    rules: &VerdictRules,
    used: &Use,
    (cells, failed): (&[Measured<'_>], &[Measured<'_>]),
    layouts: &[LayoutFigures],
) -> (String, Option<Ranking>) {
    let is_its = |measured: &&Measured<'_>| used.of.matches(measured.spec);
    let chosen: Vec<&Measured<'_>> = cells.iter().filter(is_its).collect();
    let failed: Vec<&Measured<'_>> = failed.iter().filter(is_its).collect();
    let name = &used.name;
    let Some(first) = chosen.first() else {
        if !failed.is_empty() {
            return (format!("For {name}, all that was run failed."), None);
        }
        return (format!("For {name}, nothing was measured in this run."), None);
    };
    let metric = match &used.metric {
        Some(metric) => metric.as_str(),
        None => main_metric(&chosen).unwrap_or_else(|| first.spec.workload.main_metric()),
    };
    let better = used.better.unwrap_or_else(|| metrics::better(metric));
    let asked = Asked { study, by: &rules.by, metric, better };
    let score::Scores { ranked: scores, combinations, left_out } = score::scores(&asked, &chosen);
    let Some(placed) = Placed::of(&scores, &asked) else {
        return (format!("For {name}, there are no figures that could be compared."), None);
    };
    let but = score::elsewhere(&scores, &asked);
    let mut sentence = ranking(name, &asked, &placed, combinations, &but);
    if let Some(what) = phases::what_is_measured(&first.spec.workload, metric) {
        sentence += &format!(" That is {what}.");
    }
    if let Some(unranked) = unranked(&asked, &failed, &scores) {
        sentence += &format!(" {unranked}");
    }
    if let Some(incomparable) = incomparable(&left_out) {
        sentence += &format!(" {incomparable}");
    }
    sentence.extend(of_operations(&chosen).into_iter().map(|more| format!(" {more}")));
    if let Some(best) = best_of_phases(&asked, &chosen) {
        sentence += &format!(" {best}");
    }
    if let Some(fragile) = fragile::sentence(&asked, &scores, layouts) {
        sentence += &format!(" {fragile}");
    }
    let turns = turns::sentences(&asked, &chosen, &scores);
    for turn in &turns {
        sentence += &format!(" {turn}");
    }
    let table = Ranking {
        name: name.clone(),
        metric: metric.to_owned(),
        by: rules.by.clone(),
        cells: combinations,
        rows: rows(&placed, study.confidence),
        turns,
    };
    if let Some(text) = yields(&asked, rules, &scores) {
        sentence += &text;
    }
    (sentence, Some(table))
}

/// The metric by which cells are judged: the one of their kind, or where a tool was told to leave it out, the first that there
/// is. None where there are no figures.
fn main_metric<'a>(cells: &[&'a Measured<'_>]) -> Option<&'a str> {
    let of = |measured: &&'a Measured<'_>| {
        let wanted = measured.spec.workload.main_metric();
        match measured.cell.metrics.contains_key(wanted) {
            true => Some(wanted),
            false => metrics::main_metric(measured.cell),
        }
    };
    cells.iter().find_map(of)
}

/// What a mean over operations of the array is over, which are as unlike as an idle rebuild and one beside load; and how far
/// their sampling may be off.
fn of_operations(chosen: &[&Measured<'_>]) -> Vec<String> {
    let operations: Vec<&&Measured<'_>> = chosen
        .iter()
        .filter(|measured| matches!(measured.spec.workload.kind, Kind::Operation(_)))
        .collect();
    let mut over = Vec::new();
    for key in ["load", "priority"] {
        let mut values: Vec<&str> = Vec::new();
        for value in operations.iter().filter_map(|measured| measured.cell.factors.get(key)) {
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        if values.len() > 1 {
            over.push(format!("{key} ({})", values.join(", ")));
        }
    }
    let mut sentences = Vec::new();
    if !over.is_empty() {
        sentences.push(format!("That is a geometric mean over {}.", over.join(" and ")));
    }
    let error = |measured: &&&Measured<'_>| metrics::sampling_error(measured.cell, "duration_s");
    let largest = operations.iter().map(error).fold(0.0, f64::max);
    if largest > 0.0 {
        let more = match largest >= SAMPLING_ERROR_MAX {
            true => ": more or longer stretches tell",
            false => "",
        };
        let share = figures(100.0 * largest);
        sentences.push(format!(
            "By their sampling alone times have a standard error of up to {share} %{more}."
        ));
    }
    sentences
}

/// Which level does best in each phase of a tool that goes through some; nothing of others, and of what is judged by one phase.
fn best_of_phases(asked: &Asked<'_>, chosen: &[&Measured<'_>]) -> Option<String> {
    let Kind::Tool(tool) = &chosen.first()?.spec.workload.kind else { return None };
    phases::what_is_measured(&chosen.first()?.spec.workload, asked.metric)?;
    let best = phases::of(tool.kind).iter().filter_map(|phase| {
        let asked = Asked { metric: phase.metric, better: Better::Higher, ..*asked };
        let scores = score::scores(&asked, chosen).ranked;
        let placed = Placed::of(&scores, &asked)?;
        let value = placed.best.log().exp();
        let value = match phase.metric.ends_with("_ops_per_s") {
            true => format!("{} a second", figures(value)),
            false => quantity(phase.metric, value),
        };
        let ties: Vec<String> = placed.untold().iter().map(|tie| tie.level.clone()).collect();
        let alike = placed.alike();
        let all_told = placed.unsure.is_empty() && placed.once().is_empty();
        let equal = if alike.is_empty() { "" } else { ", alike" };
        let sure = match (ties.is_empty(), placed.alone, all_told) {
            (false, ..) => format!("{equal}, not told from {}", words::listed(&ties)),
            (true, false, false) => format!("{equal}, not sure"),
            _ => equal.to_owned(),
        };
        let but = score::elsewhere(&scores, &asked);
        let text = format!("{}: {} ({value}{sure}{but})", phase.name, placed.best_named());
        // Those of which none is told to be better than another.
        let mut first: Vec<String> = vec![placed.best.level.clone()];
        first.extend(ties);
        first.extend(alike.iter().map(|score| score.level.clone()));
        Some((first, placed.alone, text))
    });
    let best: Vec<(Vec<String>, bool, String)> = best.collect();
    let (first, ..) = best.first()?;
    let turns = !first.iter().any(|level| best.iter().all(|(others, ..)| others.contains(level)));
    let head = match (turns, best.iter().any(|(_, alone, _)| *alone)) {
        (true, false) => "The order turns from phase to phase; the best of each",
        (false, false) => "The best of each phase",
        (true, true) => {
            "In the one repeat the order differs from phase to phase, and more tell whether that holds; the best of each"
        }
        (false, true) => "The best of each phase, in one repeat",
    };
    let texts: Vec<&str> = best.iter().map(|(.., text)| text.as_str()).collect();
    Some(format!("{head}: {}.", texts.join("; ")))
}

/// What yields most for its cost, where the study gives costs.
fn yields(asked: &Asked<'_>, rules: &VerdictRules, scores: &[Score]) -> Option<String> {
    let per = rules.per.as_ref().filter(|_| asked.better == Better::Higher && scores.len() > 1)?;
    let mut scores = scores.to_vec();
    for score in &mut scores {
        let count = per.counts.get(&score.level).copied().unwrap_or(1.0);
        score.figure = None;
        let logs = score.logs.iter_mut().chain(score.cells.iter_mut().flatten());
        logs.for_each(|log| *log -= count.ln());
    }
    score::rank(&mut scores, asked.better);
    let placed = Placed::of(&scores, asked)?;
    let value = quantity(asked.metric, placed.best.log().exp());
    let level = placed.best_named();
    let highest = if placed.alike().is_empty() { "highest" } else { "highest, alike" };
    let but = score::elsewhere(&scores, asked);
    let is_unsure = placed.alone || !placed.unsure.is_empty() || !placed.once().is_empty();
    Some(match (is_unsure, placed.untold().as_slice()) {
        (false, []) => {
            let yields =
                if placed.alike().is_empty() { "yields most" } else { "yield most, alike" };
            format!(" Per {}, {level} {yields}: {value}{but}.", per.unit)
        }
        (true, []) => format!(" Per {}, {level} came out {highest}: {value}{but}.", per.unit),
        (_, ties) => format!(
            " Per {}, {level} came out highest, {value}, not distinguishable from {}{but}.",
            per.unit,
            ties.iter().map(|tie| tie.level.as_str()).collect::<Vec<_>>().join(", ")
        ),
    })
}

fn rows(placed: &Placed<'_>, confidence: f64) -> Vec<Ranked> {
    let row = |score: &Score, standing: String| Ranked {
        level: score.level.clone(),
        score: score.as_metric(confidence),
        lowest_cell: score.ends_of_cells().0,
        highest_cell: score.ends_of_cells().1,
        standing,
    };
    let in_one = |score: &Score| if score.logs.len() < 2 { ", in one repeat" } else { "" };
    let ratio = |score: &Score| {
        let ratio = (score.log() - placed.best.log()).exp();
        match ratio.max(1.0 / ratio) {
            1.0 => "as the best".to_owned(),
            ratio if ratio < SHOWN_RATIO_MIN => "within 0.5 % of the best".to_owned(),
            _ => format!("{} × the best", figures(ratio)),
        }
    };
    let (alike, untold) = (placed.alike(), placed.untold());
    let is_sure = placed.unsure.is_empty() && untold.is_empty();
    let best = match (placed.alone, is_sure, placed.worse.is_empty()) {
        (false, true, _) if !alike.is_empty() && placed.once().is_empty() => "best, others alike",
        _ if !alike.is_empty() => "came out best, others alike",
        (false, true, false) if !placed.once().is_empty() => "best of those run more than once",
        (false, true, false) => "best",
        (false, true, true) if placed.unplaced.is_empty() => "alone",
        _ => "came out best",
    };
    let in_one_best = if placed.alone { in_one(placed.best) } else { "" };
    let mut rows = vec![row(placed.best, format!("{best}{in_one_best}"))];
    // In one repeat they stand among the rest.
    let equal = alike.into_iter().filter(|_| !placed.alone);
    rows.extend(equal.map(|score| row(score, "as the best".to_owned())));
    let untold = untold.into_iter();
    rows.extend(untold.map(|score| row(score, "not told from the best".to_owned())));
    let few = format!(", not sure after {} repeats", placed.repeats());
    let worse = placed.worse.iter().map(|score| (*score, ratio(score) + in_one(score)));
    let unsure = placed.unsure.iter().map(|score| (*score, ratio(score) + &few));
    let unplaced = placed.unplaced.iter();
    let unplaced = unplaced.map(|score| match score.logs.len() < 2 {
        true => (*score, "one repeat: no interval".to_owned()),
        false => (*score, "too uncertain to place".to_owned()),
    });
    let mut rest: Vec<(&Score, String)> = worse.chain(unsure).chain(unplaced).collect();
    rest.sort_by(|(one, _), (other, _)| placed.best.away(one).total_cmp(&placed.best.away(other)));
    rows.extend(rest.into_iter().map(|(score, standing)| row(score, standing)));
    rows
}

/// `For random reads, raid10-4 does best: 412 I/Os a second (95 % 401–423), 1.90 × raid5-6, which
/// comes next; in 1 of 6 cells raid5-6 does better.` The last is `but`.
fn ranking(
    name: &str,
    asked: &Asked<'_>,
    placed: &Placed<'_>,
    combinations: usize,
    but: &str,
) -> String {
    let confidence = asked.study.confidence;
    let best = placed.best;
    let over = match combinations {
        1 => String::new(),
        n => format!(" over {n} cells"),
    };
    let shown = |score: &Score| -> String { shown(asked.metric, score, confidence) };
    let next = placed.next();
    let alike = placed.alike();
    if placed.ties.is_empty() && alike.is_empty() && next.is_none() {
        return format!("For {name}, {} reaches {}{over}.", best.level, shown(best));
    }
    if placed.alone {
        // Where all came out alike there is none that is next.
        let against = next.map_or_else(String::new, |next| {
            format!(", against {} of {}", shown(next), next.level)
        });
        let is_even = next.is_some_and(|next| best.away(next) < SHOWN_RATIO_MIN.ln());
        let came = match (alike.is_empty(), next) {
            (true, _) if is_even => "came out best by less than 0.5 %",
            (true, _) => "came out best",
            (false, Some(_)) => "came out best, alike",
            (false, None) => "came out alike",
        };
        let next = next.or(alike.first().copied()).unwrap_or(best);
        let few = match (best.logs.len(), next.logs.len()) {
            (1, 1) => String::new(),
            (1, _) => format!(" of {}", best.level),
            _ => format!(" of {}", next.level),
        };
        let within = match best.is_within_sampling(next, confidence) {
            true => ", and they differ by no more than their sampling alone may make",
            false => "",
        };
        return format!(
            "For {name}, {} {came}: {}{over}{against}; one repeat{few} does not tell how sure that is{within}{but}.",
            placed.best_named(),
            shown(best),
        );
    }
    let compared = next.map(|next| {
        let which = match placed.is_second(next) {
            true => "which comes next",
            false => "the next that can be placed",
        };
        format!("{}, {which}", compared(asked, best, next))
    });
    let behind = behind(placed, asked);
    if placed.untold().is_empty() {
        let compared = compared.map_or_else(String::new, |text| format!(", {text}"));
        let is_all = next.is_none() && placed.unplaced.is_empty();
        let does = match (placed.unsure.is_empty(), placed.once().is_empty(), alike.is_empty()) {
            (_, _, false) if is_all => "came out alike",
            (true, true, true) => "does best",
            (true, true, false) => "do best, alike",
            (true, false, true) => "does best of those that were run more than once",
            (true, false, false) => "do best of those that were run more than once, alike",
            (false, _, true) => "came out best",
            (false, _, false) => "came out best, alike",
        };
        return format!(
            "For {name}, {} {does}: {}{over}{compared}{behind}{but}.",
            placed.best_named(),
            shown(best)
        );
    }
    let mut tied = vec![best];
    tied.extend(placed.ties.iter().map(|(score, _)| *score));
    let figures_of = |score: &&Score| format!("{} {}", score.level, shown(score));
    let named = match tied.len() {
        n if n <= TIES_NAMED_MAX => words::listed(&tied.iter().map(figures_of).collect::<Vec<_>>()),
        n => format!("{} and {} others", figures_of(&best), n - 1),
    };
    // The largest ratio between the best and a tie that the samples allow.
    let ratio = placed
        .ties
        .iter()
        .map(|(_, test)| test.interval.low.abs().max(test.interval.high.abs()).exp())
        .fold(1.0, f64::max);
    let seen = match ratio > TIE_RATIO_MAX {
        true => {
            format!("; {} repeats are too few to tell by how much they differ", placed.repeats())
        }
        false => {
            let means = if combinations == 1 { "they" } else { "on average they" };
            format!("; {means} differ by no more than {} %", figures(100.0 * (ratio - 1.0)))
        }
    };
    let all = if next.is_none() { "" } else { "the best " };
    let compared = compared.map_or_else(String::new, |text| format!("; {} is {text}", best.level));
    format!(
        "For {name}, {all}{} levels are not distinguishable at {}: \
         {named}{over}{seen}{compared}{behind}{but}.",
        tied.len(),
        percent(confidence)
    )
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
            let metric = main_metric(&[measured])?;
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
        let said = (!named.is_empty()).then(|| format!("{}.", named.join("; ")));
        return said.into_iter().chain(measured_is(&figures)).collect();
    }
    let told = measured_is(&figures);
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
        .chain(told)
        .collect()
}

/// What the figures of tools that go through phases are of.
fn measured_is(figures: &[(&Measured<'_>, &str, &Metric)]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for (measured, metric, _) in figures {
        if let Some(what) = phases::what_is_measured(&measured.spec.workload, metric) {
            let sentence = format!("Of {} it is {what}.", measured.cell.workload);
            if !said.contains(&sentence) {
                said.push(sentence);
            }
        }
    }
    said
}
