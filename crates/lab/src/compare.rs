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
mod comparison;
mod failed;
mod notes;
mod order;
mod sentence;
mod text;
mod wrapped;

use crate::metrics::{self, Better, UNSURE_RATIO};
use crate::phases;
use crate::pitfalls::ProcessorPart;
use crate::results::{Cell, Metric, PartialOf, Results};
use crate::single::WRITTEN;
use crate::stats::{self, Interval};
use crate::study::ToolKind;
use crate::words::first_of;
use apart::Apart;
use std::collections::{BTreeMap, BTreeSet};

pub use comparison::{Comparison, Difference, RunComparison};

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
    let shared = in_a.keys().filter(|id| in_b.contains_key(*id)).count();
    // What differs beside the figures, and in how many cells.
    let mut unlike: Vec<(String, usize)> = Vec::new();
    for cell in a.cells.iter().filter(measured) {
        let Some(other) = in_b.get(cell.id.as_str()) else { continue };
        let main = metrics::main_metric(cell).unwrap_or_default();
        let parameters = differing(a, b, cell, other);
        for one in &parameters {
            match unlike.iter_mut().find(|(note, _)| *note == one.note) {
                Some((_, cells)) => *cells += 1,
                None => unlike.push((one.note.clone(), 1)),
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
                one.unlike = unlike.is_some();
                let why = unlike.or_else(|| {
                    let why = undecided(a, b, (cell, other), &one)?;
                    Some(after_what_differs(&parameters, why))
                });
                if let Some(Why { reason, shared }) = why {
                    (one.reason, one.shared_reason) = (Some(reason), shared);
                }
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
    notes.extend(unlike.into_iter().map(|(note, cells)| match cells == shared {
        true => note,
        false => format!("{note} (of {cells} of {shared} cells)"),
    }));
    notes.extend(notes::of(a, b));
    correct(&mut comparisons, confidence);
    let judged: Vec<&Comparison> =
        comparisons.iter().filter(|one| one.main && !one.failed).collect();
    let again = match a.run.is_of_tool() {
        true => "run both with --repeats 5",
        false => "run both with --set repeats=5",
    };
    let failed = failed::sentence(a, b);
    let said = (!judged.is_empty()).then(|| sentence::of(&judged, confidence, again));
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

/// What is said of a parameter that a run was not given; no value is called so.
const NOT_SET: &str = "not set";

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
        let tells = |cell: &Cell| cell.asked_of_load().next().is_some();
        let are_told = tells(mine) == tells(theirs);
        let of_load = |name: &str| mine.own_of_load(name).or(theirs.own_of_load(name)).is_some();
        // What one does not tell is not known, and no difference.
        for name in names.into_iter().filter(|name| are_told || !of_load(name)) {
            let of = |cell: &'_ Cell| cell.parameters.get(name).cloned();
            let said = |cell: &Cell| of(cell).unwrap_or_else(|| NOT_SET.to_owned());
            differ(format!("{}.{name}", mine.workload), &said(mine), &said(theirs));
        }
    }
    // What a tool wrote decides what compresses and deduplicates.
    let written = |results: &'_ Results| results.machine.get(WRITTEN).cloned();
    if let (Some(one), Some(two)) = (written(a), written(b)) {
        differ(format!("{}.{WRITTEN}", mine.workload), &one, &two);
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
        p_alone: test.map(|test| test.p),
        told_alone: false,
        difference: Difference::Unknown,
        main: false,
        reason: None,
        parameters: Vec::new(),
        unlike: false,
        failed: false,
        shared_reason: String::new(),
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

/// Whether a cache answered what this metric of a cell is of. Disks' own caches answer in a phase of a tool, and not in another;
/// what does not say in which, as in results from before it was written, is of all.
fn is_cached(cell: &Cell, metric: &str) -> bool {
    let is_its = |phase: &str| phases::rate_of(metric).is_some_and(|(_, its)| its.name == phase);
    cell.pitfalls.iter().any(|found| match found.id.as_str() {
        "cached-by-disks" => found.phase.as_deref().is_none_or(is_its),
        id => CACHES.contains(&id),
    })
}

/// What a tool gave over all its phases, cases or jobs.
const WHOLE: [&str; 3] = ["ops_per_s", "iops", "throughput_mb_s"];

/// Why there is no verdict.
struct Why {
    /// As it is of this cell.
    reason: String,
    /// As several cells share it.
    shared: String,
}

impl Why {
    /// Of whatever cell.
    fn of_any(reason: impl Into<String>) -> Why {
        let reason = reason.into();
        Why { shared: reason.clone(), reason }
    }
}

/// That a figure is over all that either did, and one did a part of its phases, cases or jobs; nothing, where that is not so.
fn unlike_parts(a: &Results, b: &Results, metric: &str) -> Option<Why> {
    let parts = [a.partial, b.partial];
    let is_part = parts.iter().flatten().any(|partial| partial.of != PartialOf::Runs);
    let unlike = is_part && a.partial != b.partial && WHOLE.contains(&metric);
    unlike.then(|| Why::of_any("it is of all that each did, and one did a part of it"))
}

/// What of two cells a sentence names that differs.
const DIFFERING_NAMED_MAX: usize = 3;
/// The cells that are named of a run that shares none with another.
const CELLS_NAMED_MAX: usize = 4;

/// Two loads of fio that were asked for other work: then what differs is the work.
fn unlike_jobs(a: &Results, parameters: &[Differing]) -> Option<Why> {
    let unlike = a.run.is_of_tool() && a.study == ToolKind::Fio.word() && !parameters.is_empty();
    let notes = parameters.iter().map(|one| one.note.clone());
    unlike.then(|| {
        let shared = "the jobs were not asked for the same work".to_owned();
        let notes = first_of(notes.collect(), DIFFERING_NAMED_MAX, "; ");
        Why { reason: format!("{shared} ({notes})"), shared }
    })
}

/// A reason behind what explains a difference before it: what the cells were asked.
fn after_what_differs(parameters: &[Differing], why: Why) -> Why {
    let notes: Vec<String> = parameters.iter().map(|one| one.note.clone()).collect();
    if notes.is_empty() {
        return why;
    }
    let notes = first_of(notes, DIFFERING_NAMED_MAX, "; ");
    let unlike = "they were not asked for the same work";
    Why {
        reason: format!("{unlike} ({notes}), and {}", why.reason),
        shared: format!("{unlike}, and {}", why.shared),
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
) -> Option<Why> {
    let has = |cell: &Cell, id: &str| cell.pitfalls.iter().any(|found| found.id == id);
    if !metrics::is_judged(&one.metric) {
        return Some(Why::of_any("it explains a figure, and is none to be won by"));
    }
    let limit = LIMITS.iter().find(|(id, _)| has(mine, id) && has(theirs, id));
    if let Some((id, text)) = limit {
        let is_hosts = |cell: &Cell| {
            let mut full = cell.pitfalls.iter().filter(|found| found.id == *id);
            full.any(|found| found.processor.as_deref() == Some(ProcessorPart::Host.word()))
        };
        return Some(Why::of_any(match is_hosts(mine) || is_hosts(theirs) {
            true => {
                "all processors of the host were busy in both, with these runs and whatever else ran"
            }
            false => text,
        }));
    }
    let cached: Vec<&str> = [("A", mine), ("B", theirs)]
        .into_iter()
        .filter(|(_, cell)| is_cached(cell, &one.metric))
        .map(|(name, _)| name)
        .collect();
    if !cached.is_empty() {
        return Some(Why::of_any(format!("a cache answered in {}", cached.join(" and "))));
    }
    if a.simulated {
        return None;
    }
    let Some(apart) = Apart::of(a, b) else {
        return Some(Why::of_any("one of the runs does not say when it was made"));
    };
    let drift = 100.0 * apart.drift(&one.a).max(apart.drift(&one.b));
    let gap = crate::duration::text(apart.gap_s);
    let by = |how_much: &str| {
        let metric = &one.metric;
        format!(
            "they lie {gap} apart, over which {metric} may drift by {how_much} if it goes on as within the runs"
        )
    };
    (one.change_percent.abs() <= drift)
        .then(|| Why { reason: by(&format!("{drift:.0} %")), shared: by("as much and more") })
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
            let told = 1.0 - confidence;
            let change = one.change_percent.abs();
            let is_alone = one.p_alone.is_some_and(|p| p < told) && corrected >= told;
            one.told_alone = is_alone && change >= CHANGE_MIN_PERCENT;
            one.p = Some(corrected);
            let rises = one.b.mean > one.a.mean;
            one.difference = match metrics::better(&one.metric) {
                _ if change < CHANGE_MIN_PERCENT => Difference::None,
                _ if corrected >= told => match stats::are_apart(&one.a.samples, &one.b.samples) {
                    // More repeats would not give a verdict.
                    true if change >= 100.0 * (UNSURE_RATIO - 1.0) => match one.reason.is_some() {
                        true => Difference::Undecided,
                        false => Difference::Unsure,
                    },
                    _ => Difference::None,
                },
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
            if one.reason.is_none() {
                let shared = format!("{told} between runs that were not alike");
                one.reason = Some(format!("{shared}: {}", one.parameters.join(", ")));
                one.shared_reason = shared;
            }
        }
    }
}
