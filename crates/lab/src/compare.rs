//! Whether two runs of a study differ, and by how much: two versions, two firmwares, two machines.
//!
//! Cells of the same name are held against each other, metric by metric, with Welch's test. A study
//! has many cells, so within each metric the p values are corrected after Holm: at 95 % confidence,
//! two runs of the same thing come out different anywhere in one case of twenty.
//!
//! Simulated and real figures are never compared: what would differ is the model, not the thing.
//!
//! A difference is no verdict by itself. There is none, and it is said why, where
//!
//! * the cell failed in either run, be it that there are figures: that is said before all else (`failed`);
//! * both runs were at the limit of the same link or processor: that was measured, twice;
//! * either was answered from a cache;
//! * either came to a part of a tool's phases, cases or jobs, of what is over all of them;
//! * jobs of fio were asked for other work (`rw`, `bs`, ...): then there is none of what does not differ either;
//! * the metric explains and is not won by (how many cores were busy);
//! * two real runs lie so far apart in time that drift alone may make as much. How much that is, is taken from
//!   the runs themselves: the range of a cell's repeats, for as long as its run took, grows with the root of the time
//!   between the runs, as a random walk does. Of runs that don't say when they were made, nothing is told.
//!
//! Where what a study ranks changes places between the runs, that is said, too (`order`).
//!
//! Where cells of one name ran with other parameters, or on another layout of the same name, a verdict is of these:
//! it names them in the same sentence. That no difference was shown between such cells does not say that they are alike, and is no
//! verdict.
//!
//! What a reader must know stands before the answer, and each cell's main metric before the others.

mod apart;
mod failed;
mod notes;
mod order;
mod text;
mod wrapped;

use crate::metrics::{self, Better, UNSURE_RATIO, percent};
use crate::phases;
use crate::pitfalls::{BY_DISKS, HOST_IS_FULL};
use crate::results::{Cell, Metric, PartialOf, Results};
use crate::stats::{self, Interval};
use crate::study::ToolKind;
use crate::words::first_of;
use apart::Apart;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Why two results can't be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// One is simulated, the other measured.
    #[error(
        "A is {a} and B is {b}; simulated and real figures are never compared: run both on the same kind of machine"
    )]
    SimulatedAndReal {
        /// `simulated` or `real`.
        a: &'static str,
        /// The other.
        b: &'static str,
    },
    /// They have no cell in common.
    #[error(
        "A ('{a}': {in_a}) and B ('{b}': {in_b}) have no cell in common; compare two runs of one study"
    )]
    NothingShared {
        /// A's study.
        a: String,
        /// Its cells, in words.
        in_a: String,
        /// B's study.
        b: String,
        /// Its cells, in words.
        in_b: String,
    },
}

/// What is said of a metric of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// No difference could be shown.
    None,
    /// Each repeat of B lies on the same side of all of A's, and they are too few for the test to tell.
    Unsure,
    /// Nothing is said of the better, whether they differ or not: see [`Comparison::reason`].
    Undecided,
    /// One repeat does not tell.
    Unknown,
}

/// One metric of one cell in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The cell.
    pub id: String,
    /// The metric.
    pub metric: String,
    /// In A.
    pub a: Metric,
    /// In B.
    pub b: Metric,
    /// How much more B has than A, in %.
    pub change_percent: f64,
    /// The confidence interval of that, before Holm's correction; none with one repeat.
    pub change_percent_low: Option<f64>,
    /// Its upper end.
    pub change_percent_high: Option<f64>,
    /// How likely a difference as large would be if there were none; after Holm.
    pub p: Option<f64>,
    /// What is said of it.
    pub difference: Difference,
    /// Whether it is the cell's main metric.
    pub main: bool,
    /// Why there is no verdict, where there is none.
    pub reason: Option<String>,
    /// In what the two cells differ beside their figures: `streams.streams`, `layout raid5-8`.
    pub parameters: Vec<String>,
    /// Whether nothing is to be said of them, because they did not run alike.
    #[serde(skip)]
    unlike: bool,
    /// Whether the cell failed in either run: its figures are shown, and nothing else is said of them.
    #[serde(skip)]
    failed: bool,
}

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunComparison {
    /// The confidence level, the higher of the two runs'.
    pub confidence: f64,
    /// Every metric that a cell has in both; cells in A's order, a cell's main metric first.
    pub comparisons: Vec<Comparison>,
    /// Names of cells that only A has figures of.
    pub only_a: Vec<String>,
    /// Names of cells that only B has figures of.
    pub only_b: Vec<String>,
    /// What a reader must know: differing seeds, versions, machines.
    pub notes: Vec<String>,
    /// The answer in a sentence, by each cell's main metric.
    pub verdict: String,
}

/// Holds B against A.
pub fn compare(a: &Results, b: &Results) -> Result<RunComparison, CompareError> {
    if a.simulated != b.simulated {
        let word = |results: &Results| if results.simulated { "simulated" } else { "real" };
        return Err(CompareError::SimulatedAndReal { a: word(a), b: word(b) });
    }
    let measured = |cell: &&Cell| !cell.metrics.is_empty();
    let in_b: BTreeMap<&str, &Cell> =
        b.cells.iter().filter(measured).map(|cell| (cell.id.as_str(), cell)).collect();
    let in_a: BTreeMap<&str, &Cell> =
        a.cells.iter().filter(measured).map(|cell| (cell.id.as_str(), cell)).collect();
    if let ([one], [other]) = (&cells_of_tool(a)[..], &cells_of_tool(b)[..])
        && a.study == b.study
        && one.id != other.id
    {
        // A tool's one cell has the name of its job or of the job's file, which says nothing of what it does; as options have theirs.
        let own = |name: &String| match name.strip_prefix(&format!("{}.", other.id)) {
            Some(option) => format!("{}.{option}", one.id),
            None => name.clone(),
        };
        let renamed = other.parameters.iter().map(|(name, value)| (own(name), value.clone()));
        let parameters = renamed.collect();
        let cells = vec![Cell { id: one.id.clone(), parameters, ..Cell::clone(other) }];
        let mut compared = compare(a, &Results { cells, ..b.clone() })?;
        compared.notes.push(format!("A's run is called {}, B's {}", one.id, other.id));
        return Ok(compared);
    }
    let confidence = a.confidence.max(b.confidence);
    let mut comparisons: Vec<Comparison> = Vec::new();
    let mut notes = failed::notes(a, b);
    for cell in a.cells.iter().filter(measured) {
        let Some(other) = in_b.get(cell.id.as_str()) else { continue };
        let main = metrics::main_metric(cell).unwrap_or_default();
        let parameters = differing(a, b, cell, other);
        for one in &parameters {
            if !notes.contains(&one.note) {
                notes.push(one.note.clone());
            }
        }
        let mut names: Vec<&String> = cell.metrics.keys().collect();
        names.sort_by_key(|name| name.as_str() != main);
        for name in names {
            if let Some(theirs) = other.metrics.get(name) {
                let mut one = hold((cell, other), name, theirs, confidence);
                one.main = name.as_str() == main;
                one.parameters = parameters.iter().map(|one| one.name.clone()).collect();
                if let Some(reason) = failed::reason(cell, other) {
                    comparisons.push(one.without_test(reason));
                    continue;
                }
                let unlike = unlike_jobs(a, &parameters).or_else(|| unlike_parts(a, b, name));
                one.reason = match unlike {
                    Some(unlike) => {
                        one.unlike = true;
                        Some(unlike)
                    }
                    None => undecided(a, b, (cell, other), &one)
                        .map(|reason| after_what_differs(&parameters, reason)),
                };
                comparisons.push(one);
            }
        }
    }
    if comparisons.is_empty() {
        return Err(CompareError::NothingShared {
            a: a.study.clone(),
            in_a: cells_in_words(a),
            b: b.study.clone(),
            in_b: cells_in_words(b),
        });
    }
    notes.extend(notes::of(a, b));
    correct(&mut comparisons, confidence);
    let judged: Vec<&Comparison> =
        comparisons.iter().filter(|one| one.main && !one.failed).collect();
    let again = match a.run.is_of_tool() {
        true => "run both with --repeats 5",
        false => "run both with --set repeats=5",
    };
    let failed = failed::sentence(a, b);
    let said = (!judged.is_empty()).then(|| sentence(&judged, confidence, again));
    let mut verdict = Vec::from_iter(failed.into_iter().chain(said)).join(" ");
    if let Some(turned) = order::sentence(a, b, confidence) {
        verdict += &format!(" {turned}");
    }
    let missing = |from: &Results, other: &BTreeMap<&str, &Cell>| {
        let cells = from.cells.iter().filter(measured).map(|cell| cell.id.clone());
        cells.filter(|id| !other.contains_key(id.as_str())).collect()
    };
    Ok(RunComparison {
        confidence,
        only_a: missing(a, &in_b),
        only_b: missing(b, &in_a),
        notes,
        comparisons,
        verdict,
    })
}

/// Something in which two cells of one name differ.
struct Differing {
    /// `streams.streams`.
    name: String,
    /// What is said of it.
    note: String,
}

/// In what two cells of one name differ that is no figure: parameters of the workload, and the layout.
fn differing(a: &Results, b: &Results, mine: &Cell, theirs: &Cell) -> Vec<Differing> {
    let mut found = Vec::new();
    let mut differ = |name: String, one: &str, two: &str| {
        if one != two {
            let note = format!("{name}: {one} in A, {two} in B");
            found.push(Differing { name, note });
        }
    };
    // Spindle before 0.2 wrote no parameters.
    if !mine.parameters.is_empty() && !theirs.parameters.is_empty() {
        let names: BTreeSet<&String> =
            mine.parameters.keys().chain(theirs.parameters.keys()).collect();
        for name in names {
            let of = |cell: &'_ Cell| cell.parameters.get(name).cloned();
            let said = |cell: &Cell| of(cell).unwrap_or_else(|| "none".to_owned());
            differ(format!("{}.{name}", mine.workload), &said(mine), &said(theirs));
        }
    }
    // What differs with other factors too is named with them: `raid6-8, disk=exos-x20`.
    let layout = mine.factors.get("layout");
    for one in &a.layouts {
        let is_its = layout.is_none_or(|layout| one.name.split(", ").next() == Some(layout));
        let two = b.layouts.iter().find(|two| is_its && two.name == one.name);
        if let Some(two) = two {
            differ(format!("layout {}", one.name), &one.what, &two.what);
        }
    }
    found
}

fn hold((cell, other): (&Cell, &Cell), name: &str, b: &Metric, confidence: f64) -> Comparison {
    let a = &cell.metrics[name];
    let share = |difference: f64| match a.mean {
        0.0 => 0.0, // Of nothing there is no share; the samples are there to look at.
        mean => 100.0 * difference / mean.abs(),
    };
    let error = |cell: &Cell, metric: &Metric| metrics::sampling_error(cell, name) * metric.mean;
    let error = error(cell, a).hypot(error(other, b));
    let test = stats::welch(&b.samples, &a.samples, confidence);
    let test = test.map(|test| test.with_known_error(error, confidence));
    // No figure is below nothing.
    let of = |Interval { low, high }| Interval { low: share(low).max(-100.0), high: share(high) };
    let interval = test.map(|test| of(test.interval));
    Comparison {
        id: cell.id.clone(),
        metric: name.to_owned(),
        a: a.clone(),
        b: b.clone(),
        change_percent: share(b.mean - a.mean),
        change_percent_low: interval.map(|interval| interval.low),
        change_percent_high: interval.map(|interval| interval.high),
        p: test.map(|test| test.p),
        difference: Difference::Unknown,
        main: false,
        reason: None,
        parameters: Vec::new(),
        unlike: false,
        failed: false,
    }
}

impl Comparison {
    /// The same with its figures alone, for a cell that failed.
    fn without_test(self, reason: String) -> Comparison {
        Comparison {
            change_percent_low: None,
            change_percent_high: None,
            p: None,
            difference: Difference::Undecided,
            reason: Some(reason),
            failed: true,
            ..self
        }
    }
}

/// A change that shows as 0.0 % is none, however sure it is.
const CHANGE_MIN_PERCENT: f64 = 0.05;
/// The pitfalls of what was at its limit, and in whose words.
const LIMITS: [(&str, &str); 2] = [
    ("saturated-link", "both runs filled the link"),
    ("saturated-processor", "both runs filled the processor"),
];
/// Those of a cache that answered, whatever it was asked.
const CACHES: [&str; 2] = ["cached", "cached-writes"];

/// Whether a cache answered what this metric of a cell is of. Disks' own caches answer in a phase of a tool, and not in another.
fn is_cached(cell: &Cell, metric: &str) -> bool {
    let in_phase =
        phases::rate_of(metric).map(|(_, phase)| format!("{BY_DISKS} in {}:", phase.name));
    let begins = |text: &str| {
        let its = in_phase.as_ref().is_some_and(|begin| text.starts_with(begin));
        its || text.starts_with(&format!("{BY_DISKS}:"))
    };
    cell.pitfalls.iter().any(|found| match found.id.as_str() {
        "cached-by-disks" => begins(&found.text),
        id => CACHES.contains(&id),
    })
}

/// What a tool gave over all its phases, cases or jobs.
const WHOLE: [&str; 3] = ["ops_per_s", "iops", "throughput_mb_s"];

/// That a figure is over all that either did, and one did a part of its phases, cases or jobs; nothing, where that is not so.
fn unlike_parts(a: &Results, b: &Results, metric: &str) -> Option<String> {
    let parts = [a.partial, b.partial];
    let is_part = parts.iter().flatten().any(|partial| partial.of != PartialOf::Runs);
    let unlike = is_part && a.partial != b.partial && WHOLE.contains(&metric);
    unlike.then(|| "it is of all that each did, and one did a part of it".to_owned())
}

/// What of two cells a sentence names that differs.
const DIFFERING_NAMED_MAX: usize = 3;
/// The cells that are named of a run that shares none with another.
const CELLS_NAMED_MAX: usize = 4;

/// Two loads of fio that were asked for other work: then what differs is the work.
fn unlike_jobs(a: &Results, parameters: &[Differing]) -> Option<String> {
    let unlike = a.run.is_of_tool() && a.study == ToolKind::Fio.word() && !parameters.is_empty();
    let notes = parameters.iter().map(|one| one.note.clone());
    unlike.then(|| {
        format!(
            "the jobs were not asked for the same work ({})",
            first_of(notes.collect(), DIFFERING_NAMED_MAX, "; ")
        )
    })
}

/// A reason behind what explains a difference before it: what the cells were asked.
fn after_what_differs(parameters: &[Differing], reason: String) -> String {
    let notes: Vec<String> = parameters.iter().map(|one| one.note.clone()).collect();
    match notes.is_empty() {
        true => reason,
        false => {
            let notes = first_of(notes, DIFFERING_NAMED_MAX, "; ");
            format!("they were not asked for the same work ({notes}), and {reason}")
        }
    }
}

/// The cells with figures of a tool that was run by itself; none of a study.
fn cells_of_tool(results: &Results) -> Vec<&Cell> {
    let is_of_tool = results.run.is_of_tool();
    results.cells.iter().filter(|cell| is_of_tool && !cell.metrics.is_empty()).collect()
}

/// The cells of a run that have figures.
fn cells_in_words(results: &Results) -> String {
    let measured = results.cells.iter().filter(|cell| !cell.metrics.is_empty());
    let named: Vec<String> = measured.map(|cell| cell.id.clone()).collect();
    match named.is_empty() {
        true => "no cell with figures".to_owned(),
        false => first_of(named, CELLS_NAMED_MAX, ", "),
    }
}

/// Why a difference of this metric in this cell is no verdict.
fn undecided(
    a: &Results,
    b: &Results,
    (mine, theirs): (&Cell, &Cell),
    one: &Comparison,
) -> Option<String> {
    let has = |cell: &Cell, id: &str| cell.pitfalls.iter().any(|found| found.id == id);
    if !metrics::is_judged(&one.metric) {
        return Some("it explains a figure, and is none to be won by".to_owned());
    }
    let limit = LIMITS.iter().find(|(id, _)| has(mine, id) && has(theirs, id));
    if let Some((_, text)) = limit {
        let is_hosts =
            |cell: &Cell| cell.pitfalls.iter().any(|found| found.text.starts_with(HOST_IS_FULL));
        return Some(match is_hosts(mine) || is_hosts(theirs) {
            true => "all processors of the host were busy in both, with these runs and whatever else ran",
            false => text,
        }
        .to_owned());
    }
    let cached: Vec<&str> = [("A", mine), ("B", theirs)]
        .into_iter()
        .filter(|(_, cell)| is_cached(cell, &one.metric))
        .map(|(name, _)| name)
        .collect();
    if !cached.is_empty() {
        return Some(format!("a cache answered in {}", cached.join(" and ")));
    }
    if a.simulated {
        return None;
    }
    let Some(apart) = Apart::of(a, b) else {
        return Some("one of the runs does not say when it was made".to_owned());
    };
    let drift = 100.0 * apart.drift(&one.a).max(apart.drift(&one.b));
    (one.change_percent.abs() <= drift).then(|| {
        format!(
            "they lie {} apart, over which {} may drift by {drift:.0} % if it goes on as within the runs",
            crate::duration::text(apart.gap_s),
            one.metric
        )
    })
}

/// Corrects the p values within each metric and says what they mean.
fn correct(comparisons: &mut [Comparison], confidence: f64) {
    let mut by_metric: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
    for (index, one) in comparisons.iter().enumerate() {
        if let Some(p) = one.p {
            by_metric.entry(one.metric.clone()).or_default().push((index, p));
        }
    }
    for tests in by_metric.into_values() {
        let p: Vec<f64> = tests.iter().map(|(_, p)| *p).collect();
        for ((index, _), corrected) in tests.iter().zip(stats::holm(&p)) {
            let one = &mut comparisons[*index];
            one.p = Some(corrected);
            let rises = one.b.mean > one.a.mean;
            let change = one.change_percent.abs();
            one.difference = match metrics::better(&one.metric) {
                _ if change < CHANGE_MIN_PERCENT => Difference::None,
                _ if corrected >= 1.0 - confidence => {
                    match stats::are_apart(&one.a.samples, &one.b.samples) {
                        true if change >= 100.0 * (UNSURE_RATIO - 1.0) => Difference::Unsure,
                        _ => Difference::None,
                    }
                }
                _ if one.reason.is_some() => Difference::Undecided,
                Better::Higher if rises => Difference::Better,
                Better::Lower if !rises => Difference::Better,
                _ => Difference::Worse,
            };
        }
    }
    for one in comparisons.iter_mut().filter(|one| !one.failed) {
        let told = match one.difference {
            Difference::None => "none shows",
            Difference::Unsure => "none is sure",
            Difference::Unknown => "one repeat tells none",
            _ => "",
        };
        one.unlike |= !told.is_empty() && !one.parameters.is_empty();
        if one.unlike {
            one.difference = Difference::Undecided;
            one.reason.get_or_insert_with(|| {
                let differ = one.parameters.join(", ");
                format!("{told} between runs that were not alike: {differ}")
            });
        }
    }
}

/// ` (2 of them did not run alike: streams.streams)`, where these did not.
fn otherwise<'a>(cells: impl Iterator<Item = &'a Comparison>) -> String {
    let unlike: Vec<&Comparison> = cells.filter(|one| !one.parameters.is_empty()).collect();
    let names: BTreeSet<&str> =
        unlike.iter().flat_map(|one| &one.parameters).map(String::as_str).collect();
    match unlike.len() {
        0 => String::new(),
        n => {
            let names: Vec<&str> = names.into_iter().collect();
            format!(" ({n} of which did not run alike: {})", names.join(", "))
        }
    }
}

/// `B is better in 12 of 48 cells, by 3.0–9.1 %; no difference at 95 % in 36.`
fn sentence(judged: &[&Comparison], confidence: f64, again: &str) -> String {
    let of = |difference: Difference| -> Vec<f64> {
        let found = judged.iter().filter(|one| one.difference == difference);
        found.map(|one| one.change_percent.abs()).collect()
    };
    let by = |changes: &[f64]| {
        let low = changes.iter().copied().fold(f64::INFINITY, f64::min);
        let high = changes.iter().copied().fold(0.0, f64::max);
        match (format!("{low:.1}"), format!("{high:.1}")) {
            (low, high) if low == high => format!("by {low} %"),
            (low, high) => format!("by {low}–{high} %"),
        }
    };
    let total = judged.len();
    let cells = if total == 1 { "cell" } else { "cells" };
    let mut parts = Vec::new();
    for (difference, word) in [(Difference::Better, "better"), (Difference::Worse, "worse")] {
        let changes = of(difference);
        if !changes.is_empty() {
            let n = changes.len();
            let but = otherwise(judged.iter().copied().filter(|one| one.difference == difference));
            parts.push(format!("B is {word} in {n} of {total} {cells}, {}{but}", by(&changes)));
        }
    }
    match of(Difference::None).len() {
        0 => {}
        same if same == total => {
            return format!("No difference at {} in any of {total} {cells}.", percent(confidence));
        }
        same => parts.push(format!("no difference at {} in {same}", percent(confidence))),
    }
    let unsure = of(Difference::Unsure);
    if !unsure.is_empty() {
        parts.push(format!(
            "each repeat differs in {}, {}, and the repeats are too few to be sure: {again}",
            unsure.len(),
            by(&unsure)
        ));
    }
    let mut reasons: Vec<(&str, bool, usize)> = Vec::new();
    for one in judged.iter().filter(|one| one.difference == Difference::Undecided) {
        let reason = one.reason.as_deref().unwrap_or_default();
        // Of drift each cell has a number of its own; the first stands for all.
        let alike = |known: &str| known.split(' ').take(3).eq(reason.split(' ').take(3));
        match reasons.iter_mut().find(|(known, ..)| alike(known)) {
            Some((.., count)) => *count += 1,
            None => reasons.push((reason, one.unlike, 1)),
        }
    }
    for (reason, unlike, n) in reasons {
        let differ = if unlike { "" } else { "they differ and " };
        parts.push(format!("{differ}there is no verdict in {n}: {reason}"));
    }
    match of(Difference::Unknown).len() {
        0 => {}
        n => parts.push(format!("one repeat does not tell in {n}: {again}")),
    }
    format!("{}.", parts.join("; "))
}
