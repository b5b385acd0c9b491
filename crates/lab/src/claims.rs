//! Whether published findings hold here.
//!
//! A claim is a statement about cells ([`crate::study::Claim`]); this file holds it against the
//! figures. The rules, in order:
//!
//! 1. Cells that did not run in this run leave a claim not measured, and so not reproduced; so does
//!    a cell that failed or lacks the metric. The words say which.
//! 2. *Above* and *below* a value: the whole confidence interval lies on that side of it.
//! 3. *Above* and *below* `factor` × other cells: Welch's interval of the difference lies on that
//!    side of 0. A cell is held against those that differ from it in nothing but what `to` names.
//!    With one repeat there is no interval, and the bare figures are compared.
//! 4. *About* a value: the mean lies within the tolerance, and the interval is no wider than the band
//!    that the tolerance makes. (Were it only to touch the band, the sloppiest measurement would
//!    reproduce every claim.) *About* other cells: likewise of the ratio of the means.
//! 5. Of several cells, all must hold for *above* and *below*; for *about* it is the mean of them. Where the check
//!    *takes* the largest or the smallest, it is that cell alone ("the best of all layouts").
//! 6. *Rising* and *falling* along a list: each is *above* or *below* the one before it.
//! 7. Of several checks, all must hold.
//!
//! 8. A check that does not hold *may* hold where the figures don't rule it out: their interval lies on both sides of the
//!    bound. A claim of which each check holds or may is *not sure*, which is no failure.
//!
//! A claim that does not hold, nor may, stays red. Its explanation and its suspect are the study's, and are shown only
//! then. A conjecture, and a claim that a parameter was taken from, is held against the figures like any
//! other and not counted ([`Claim::uncounted`]).

use crate::design::CellSpec;
use crate::metrics::{figures, percent, quantity, quantity_with_interval};
use crate::results::{Cell, ClaimResult, Metric, SuspectParameter};
use crate::stats;
use crate::study::{Against, Check, Claim, Relation, Selector, Suspect, Take};

/// A cell that was run, with its figures.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// What was run.
    pub spec: &'a CellSpec,
    /// What came out.
    pub cell: &'a Cell,
}

/// What is said of a claim: in words, and whether it holds.
struct Finding {
    measured: String,
    holds: bool,
    /// Whether the figures, as uncertain as they are, leave room for it.
    may: bool,
}

/// One cell of a finding: its name, its figure, that in words, whether it holds, and whether it may.
type Part<'a> = (&'a str, f64, String, bool, bool);

/// What this run says of each claim.
pub fn evaluate(claims: &[Claim], cells: &[Measured<'_>], confidence: f64) -> Vec<ClaimResult> {
    claims.iter().map(|claim| result(claim, cells, confidence)).collect()
}

fn result(claim: &Claim, cells: &[Measured<'_>], confidence: f64) -> ClaimResult {
    let finding = find_all(&claim.checks, cells, confidence);
    let missed = !finding.holds;
    let unsure = missed && finding.may;
    ClaimResult {
        id: claim.id.clone(),
        text: claim.text.clone(),
        source: claim.source.clone(),
        published: claim.published.clone(),
        measured: finding.measured,
        reproduced: finding.holds,
        unsure,
        explanation: claim.explanation.clone().filter(|_| missed && !unsure),
        kind: claim.kind.word().to_owned(),
        uncounted: claim.uncounted(),
        tolerance: tolerance(claim),
        suspect: claim.suspect.as_ref().filter(|_| missed && !unsure).map(suspect_parameter),
    }
}

fn suspect_parameter(suspect: &Suspect) -> SuspectParameter {
    let Suspect { parameter, value, needs, judgement } = suspect.clone();
    SuspectParameter { parameter, value, needs, judgement }
}

/// How near the figures of a claim must come, and why just so.
fn tolerance(claim: &Claim) -> Option<String> {
    let mut shares: Vec<String> = Vec::new();
    for check in &claim.checks {
        if let Relation::About { tolerance } | Relation::Repeatable { tolerance } = check.relation {
            let share = percent(tolerance);
            if !shares.contains(&share) {
                shares.push(share);
            }
        }
    }
    let why = claim.tolerance_from.iter().map(|why| format!(": {why}")).collect::<String>();
    (!shares.is_empty()).then(|| format!("{}{why}", shares.join(" and ")))
}

/// What is said of all checks of a claim together.
fn find_all(checks: &[Check], cells: &[Measured<'_>], confidence: f64) -> Finding {
    let found = |check| {
        let none = |why| Finding { measured: why, holds: false, may: false };
        find(check, cells, confidence).unwrap_or_else(none)
    };
    let findings: Vec<Finding> = checks.iter().map(found).collect();
    if findings.is_empty() {
        let measured = "nothing to hold it against".to_owned();
        return Finding { measured, holds: false, may: false };
    }
    let holds = findings.iter().all(|finding| finding.holds);
    let may = findings.iter().all(|finding| finding.may);
    // Of several, those that do not hold are marked, so that one needn't guess.
    let several = findings.len() > 1;
    let text = |finding: Finding| match several && !finding.holds && !holds {
        true if finding.may => format!("{} ?", finding.measured),
        true => format!("{} ✗", finding.measured),
        false => finding.measured,
    };
    Finding { measured: findings.into_iter().map(text).collect::<Vec<_>>().join("; "), holds, may }
}

/// The figures of a cell, or why there are none.
fn figure<'a>(measured: &Measured<'a>, metric: &str) -> Result<&'a Metric, String> {
    let cell = measured.cell;
    match (cell.metrics.get(metric), &cell.error) {
        (Some(figure), None) => Ok(figure),
        (_, Some(error)) => Err(format!("not measured: {} failed: {error}", cell.id)),
        (None, None) => {
            let there: Vec<&str> = cell.metrics.keys().map(String::as_str).collect();
            Err(format!(
                "not measured: {} has no metric '{metric}'; there are: {}",
                cell.id,
                there.join(", ")
            ))
        }
    }
}

fn find(check: &Check, cells: &[Measured<'_>], confidence: f64) -> Result<Finding, String> {
    let of: Vec<&Measured<'_>> =
        cells.iter().filter(|measured| check.of.matches(measured.spec)).collect();
    if of.is_empty() {
        return Err("not measured in this run".to_owned());
    }
    match &check.against {
        Against::Value(value) => against_value(check, taken(check, of)?, *value, confidence),
        Against::Cells { to, factor } => {
            let pairs = pairs(check, of, to, cells)?;
            match check.relation {
                Relation::About { tolerance } => {
                    Ok(about_cells(&pairs, *factor, tolerance, confidence))
                }
                Relation::Above => Ok(ordered_cells(&pairs, *factor, true, confidence)),
                Relation::Below => Ok(ordered_cells(&pairs, *factor, false, confidence)),
                Relation::Repeatable { .. } => unreachable!("it is held against itself"),
            }
        }
        Against::Itself => repeatable(check, &of, confidence),
        Against::Along(steps) => along(check, &of, steps, cells, confidence),
    }
}

/// The one cell that a check takes, or all.
fn taken<'a, 'b>(
    check: &Check,
    of: Vec<&'a Measured<'b>>,
) -> Result<Vec<&'a Measured<'b>>, String> {
    let mut figures = Vec::new();
    for measured in &of {
        figures.push((figure(measured, &check.metric)?.mean, *measured));
    }
    let one = match check.take {
        Take::All => return Ok(of),
        Take::Largest => figures.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)),
        Take::Smallest => figures.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)),
    };
    Ok(one.into_iter().map(|one| one.1).collect())
}

fn against_value(
    check: &Check,
    of: Vec<&Measured<'_>>,
    value: f64,
    confidence: f64,
) -> Result<Finding, String> {
    if let Relation::About { tolerance } = check.relation {
        return about_value(check, &of, value, tolerance, confidence);
    }
    let above = check.relation == Relation::Above;
    let mut found = Vec::new();
    for measured in of {
        let figure = figure(measured, &check.metric)?;
        let holds = if above { figure.ci_low > value } else { figure.ci_high < value };
        let may = if above { figure.ci_high > value } else { figure.ci_low < value };
        let text = quantity_with_interval(&check.metric, figure, confidence);
        found.push((measured.cell.id.as_str(), figure.mean, text, holds, may));
    }
    Ok(all_hold(&found, |value| quantity(&check.metric, value)))
}

/// A cell's name, its figure and that of a cell that it is held against.
type Pair<'a> = (&'a str, &'a Metric, &'a Metric);

/// Each cell with those that it is held against.
fn pairs<'a>(
    check: &Check,
    of: Vec<&Measured<'a>>,
    to: &Selector,
    cells: &[Measured<'a>],
) -> Result<Vec<Pair<'a>>, String> {
    let mut pairs = Vec::new();
    for measured in of {
        let others = cells.iter().filter(|other| to.pairs(measured.spec, other.spec));
        let before = pairs.len();
        for other in others {
            let figures = (figure(measured, &check.metric)?, figure(other, &check.metric)?);
            pairs.push((measured.cell.id.as_str(), figures.0, figures.1));
        }
        if pairs.len() == before {
            return Err(format!(
                "not measured in this run: nothing to hold {} against",
                measured.cell.id
            ));
        }
    }
    Ok(pairs)
}

/// Whether each step is above (or below) the one before it.
fn along(
    check: &Check,
    of: &[&Measured<'_>],
    steps: &[Selector],
    cells: &[Measured<'_>],
    confidence: f64,
) -> Result<Finding, String> {
    let above = check.relation != Relation::Below;
    let mut texts = Vec::new();
    let (mut holds, mut may) = (true, true);
    for (before, step) in steps.iter().zip(steps.iter().skip(1)) {
        let here: Vec<_> =
            of.iter().copied().filter(|measured| step.matches(measured.spec)).collect();
        if here.is_empty() {
            return Err(format!("not measured in this run: no cell has {step}"));
        }
        let pairs = pairs(check, here, before, cells)?;
        let finding = ordered_cells(&pairs, 1.0, above, confidence);
        let mark = match (finding.holds, finding.may) {
            (true, _) => "",
            (false, true) => " ?",
            (false, false) => " ✗",
        };
        texts.push(format!("{} to {}: {}{mark}", before.values(), step.values(), finding.measured));
        holds &= finding.holds;
        may &= finding.may;
    }
    Ok(Finding { measured: texts.join(", "), holds, may })
}

/// Whether the repeats of each cell agree.
fn repeatable(check: &Check, of: &[&Measured<'_>], confidence: f64) -> Result<Finding, String> {
    let Relation::Repeatable { tolerance } = check.relation else {
        unreachable!("nothing else is held against itself")
    };
    let mut found = Vec::new();
    for measured in of {
        let figure = figure(measured, &check.metric)?;
        if figure.samples.len() < 2 {
            return Err("not measured in this run: one repeat has no spread".to_owned());
        }
        let half = (figure.ci_high - figure.ci_low) / 2.0;
        let text = quantity_with_interval(&check.metric, figure, confidence);
        let share = half / figure.mean.abs();
        found.push((
            measured.cell.id.as_str(),
            share,
            text,
            share <= tolerance,
            share <= tolerance,
        ));
    }
    Ok(all_hold(&found, |share| format!("± {:.1} %", share * 100.0)))
}

/// Every cell's own finding as one: all must hold.
fn all_hold(found: &[Part<'_>], show: impl Fn(f64) -> String) -> Finding {
    let failing: Vec<&Part<'_>> = found.iter().filter(|one| !one.3).collect();
    let measured = match found {
        [(_, _, text, ..)] => text.clone(),
        several => {
            let values = several.iter().map(|one| one.1);
            let smallest = values.clone().fold(f64::INFINITY, f64::min);
            let largest = values.fold(f64::NEG_INFINITY, f64::max);
            let range = format!("{} to {} in {} cells", show(smallest), show(largest), found.len());
            match failing.first() {
                None => range,
                Some((id, _, text, ..)) => format!(
                    "{range}; it does not hold in {} of them, as in {id}: {text}",
                    failing.len()
                ),
            }
        }
    };
    let may = found.iter().all(|one| one.4);
    Finding { measured, holds: failing.is_empty(), may }
}

fn about_value(
    check: &Check,
    of: &[&Measured<'_>],
    value: f64,
    tolerance: f64,
    confidence: f64,
) -> Result<Finding, String> {
    let figures: Vec<&Metric> =
        of.iter().map(|measured| figure(measured, &check.metric)).collect::<Result<_, _>>()?;
    let n = figures.len() as f64;
    let mean = figures.iter().map(|figure| figure.mean).sum::<f64>() / n;
    // The cells are independent, so the half widths of their intervals add as squares.
    let half_width = |figure: &&Metric| (figure.ci_high - figure.ci_low) / 2.0;
    let half = figures.iter().map(|figure| half_width(figure).powi(2)).sum::<f64>().sqrt() / n;
    let band = value.abs() * tolerance;
    let text = match figures.as_slice() {
        [figure] => quantity_with_interval(&check.metric, figure, confidence),
        several => format!("{}, mean of {} cells", quantity(&check.metric, mean), several.len()),
    };
    let off =
        if value == 0.0 { String::new() } else { format!(", {}", signed(mean / value - 1.0)) };
    let within = (mean - value).abs() <= band;
    let precise = half <= band;
    let may = (mean - value).abs() <= band + half;
    let doubt = if may && !precise { "; too uncertain to tell: run more repeats" } else { "" };
    Ok(Finding { measured: format!("{text}{off}{doubt}"), holds: within && precise, may })
}

/// A ratio of means with its interval, from Welch's interval of `a − ratio × b`, which to first
/// order is that of the ratio times the mean of `b`.
fn ratio(a: &Metric, b: &Metric, confidence: f64) -> (f64, Option<f64>) {
    let ratio = a.mean / b.mean;
    let scaled: Vec<f64> = b.samples.iter().map(|sample| sample * ratio).collect();
    let half = stats::welch(&a.samples, &scaled, confidence)
        .map(|test| (test.interval.high - test.interval.low) / 2.0 / b.mean.abs());
    (ratio, half)
}

fn ratio_text(ratio: f64, half: Option<f64>, confidence: f64) -> String {
    match half {
        Some(half) if half > 0.0 => format!(
            "{} × ({} {}–{})",
            figures(ratio),
            percent(confidence),
            figures(ratio - half),
            figures(ratio + half)
        ),
        _ => format!("{} ×", figures(ratio)),
    }
}

fn ordered_cells(pairs: &[Pair<'_>], factor: f64, above: bool, confidence: f64) -> Finding {
    let mut found = Vec::new();
    for (id, a, b) in pairs {
        let scaled: Vec<f64> = b.samples.iter().map(|sample| sample * factor).collect();
        let holds = match stats::welch(&a.samples, &scaled, confidence) {
            Some(test) if above => test.interval.low > 0.0,
            Some(test) => test.interval.high < 0.0,
            None if above => a.mean > factor * b.mean,
            None => a.mean < factor * b.mean,
        };
        let (ratio, half) = ratio(a, b, confidence);
        // Of one repeat each, nothing tells how uncertain they are.
        let may = match stats::welch(&a.samples, &scaled, confidence) {
            Some(test) if above => test.interval.high > 0.0,
            Some(test) => test.interval.low < 0.0,
            None => holds,
        };
        found.push((*id, ratio, ratio_text(ratio, half, confidence), holds, may));
    }
    all_hold(&found, |ratio| format!("{} ×", figures(ratio)))
}

fn about_cells(pairs: &[Pair<'_>], factor: f64, tolerance: f64, confidence: f64) -> Finding {
    let ratios: Vec<(f64, Option<f64>)> =
        pairs.iter().map(|(_, a, b)| ratio(a, b, confidence)).collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().map(|(ratio, _)| ratio).sum::<f64>() / n;
    let halves = ratios.iter().map(|(_, half)| half.unwrap_or(0.0).powi(2)).sum::<f64>();
    let half = halves.sqrt() / n;
    let band = factor * tolerance;
    let text = match ratios.as_slice() {
        [(ratio, half)] => ratio_text(*ratio, *half, confidence),
        several => format!("{} ×, mean of {} cells", figures(mean), several.len()),
    };
    let (within, precise) = ((mean - factor).abs() <= band, half <= band);
    let may = (mean - factor).abs() <= band + half;
    let doubt = if may && !precise { "; too uncertain to tell: run more repeats" } else { "" };
    Finding { measured: format!("{text}{doubt}"), holds: within && precise, may }
}

/// `+3.2 %`, `−12 %`.
fn signed(share: f64) -> String {
    let sign = if share < 0.0 { '−' } else { '+' };
    format!("{sign}{:.1} %", share.abs() * 100.0)
}
