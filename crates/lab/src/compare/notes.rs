//! What a reader must know of two runs before what differs: in what they are not alike, and what they ran into.

use crate::results::{Cell, Results};
use crate::single::WRITTEN;
use crate::study::{IDLE, LOAD};
use std::collections::BTreeSet;

/// Loads of a host that differ by less are alike: threads that want to run, on average.
const LOADS_ALIKE: f64 = 0.5;

/// What a reader must know of the runs as wholes.
pub(super) fn of(a: &Results, b: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    let is_same = a == b;
    if is_same {
        notes.push(match a.simulated {
            true => "A and B are the same run, or one repeats the other: they are equal to the last digit",
            false => "A and B are the same run",
        }
        .to_owned());
    }
    for (name, results) in [("A", a), ("B", b)] {
        if let Some(partial) = results.partial {
            notes.push(format!(
                "{name} is partial: {partial} are done; {}",
                match results.run.is_of_tool() {
                    true => "a tool can't go on with it: run it anew for all of them",
                    false => "go on with it by `spindle lab run … --resume`",
                }
            ));
        }
    }
    let mut differ = |what: &str, one: String, two: String| {
        if one != two {
            notes.push(format!("{what}: {one} in A, {two} in B"));
        }
    };
    differ("study", a.study.clone(), b.study.clone());
    differ("Spindle", a.spindle_version.clone(), b.spindle_version.clone());
    differ("seed", a.seed.to_string(), b.seed.to_string());
    let length = |results: &Results| if results.quick { "shortened" } else { "whole" };
    differ("steady", a.run.steady.clone(), b.run.steady.clone());
    differ("run", length(a).to_owned(), length(b).to_owned());
    let parts: BTreeSet<&String> = a.machine.keys().chain(b.machine.keys()).collect();
    for part in parts {
        let of = |results: &Results| {
            results.machine.get(part).map_or("not said", |text| text).to_owned()
        };
        // A load is never the same twice; half a thread more or less is none.
        let load = |results: &Results| {
            let first = of(results).split(' ').next().and_then(|word| word.parse::<f64>().ok());
            first.filter(|_| part.as_str() == "load before")
        };
        if load(a).zip(load(b)).is_some_and(|(a, b)| (a - b).abs() < LOADS_ALIKE) {
            continue;
        }
        // That is said of the cells.
        if part != WRITTEN || [a, b].iter().any(|one| !one.machine.contains_key(WRITTEN)) {
            differ(part, of(a), of(b));
        }
    }
    for (name, results) in [("A", a), ("B", b)] {
        let pitfalls: BTreeSet<&str> = results
            .cells
            .iter()
            .flat_map(|cell| &cell.pitfalls)
            .map(|found| found.id.as_str())
            .collect();
        if !pitfalls.is_empty() {
            let named: Vec<&str> = pitfalls.into_iter().collect();
            notes.push(format!("{name} ran into pitfalls, see its report: {}", named.join(", ")));
        }
    }
    // An earlier Spindle wrote the load's name alone.
    let is_untold = |cell: &Cell| {
        cell.parameters.get(LOAD).is_some_and(|load| load != IDLE)
            && cell.asked_of_load().next().is_none()
    };
    let untold = |results: &Results| results.cells.iter().any(is_untold);
    for (name, results) in [("A", a), ("B", b)] {
        if untold(results) && !is_same {
            notes.push(format!(
                "{name} does not say what the loads beside its operations were asked: whether they were asked alike is not known"
            ));
        }
    }
    if !a.simulated && !is_same {
        notes.push(
            "A and B ran one after the other: what drifted between them counts as a difference; a study \
             that holds both as levels of a factor runs them in turns"
                .to_owned(),
        );
    }
    notes
}
