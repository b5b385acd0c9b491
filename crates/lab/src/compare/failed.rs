//! Cells that failed in either run: which, in which run and how. There is no verdict on them, be it that there are figures.

use crate::results::{Cell, Results};
use crate::words::first_of;

/// Cells that are named in a note or a sentence; of more, the number.
const NAMED_MAX: usize = 3;

/// Why there is no verdict on a cell that both runs have figures of.
pub(super) fn reason(mine: &Cell, theirs: &Cell) -> Option<String> {
    let of = |run: &str, cell: &Cell| {
        cell.error.as_ref().map(|error| format!("it failed in {run}: {error}"))
    };
    let failed: Vec<String> = of("A", mine).into_iter().chain(of("B", theirs)).collect();
    (!failed.is_empty()).then(|| failed.join("; "))
}

/// What failed in each run, and how: a note a run.
pub(super) fn notes(a: &Results, b: &Results) -> Vec<String> {
    let of = |(run, results): (&str, &Results)| {
        let failed = results.cells.iter().filter_map(|cell| {
            cell.error.as_ref().map(|error| format!("{} failed: {error}", cell.id))
        });
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| format!("in {run} {}", first_of(failed, NAMED_MAX, "; ")))
    };
    [("A", a), ("B", b)].into_iter().filter_map(of).collect()
}

/// `There is no verdict on x and y, which failed in A and B.`, of the cells that both runs have.
pub(super) fn sentence(a: &Results, b: &Results) -> Option<String> {
    let in_b = |id: &str| b.cells.iter().find(|other| other.id == id);
    let (mut cells, mut runs) = (Vec::new(), Vec::new());
    for cell in &a.cells {
        let Some(other) = in_b(&cell.id) else { continue };
        for (run, _) in [("A", cell), ("B", other)].iter().filter(|(_, one)| !one.is_sound()) {
            runs.push(*run);
            if cells.last() != Some(&cell.id) {
                cells.push(cell.id.clone());
            }
        }
    }
    runs.sort_unstable();
    runs.dedup();
    let runs = runs.join(if cells.len() == 1 { " and " } else { " or " });
    (!cells.is_empty())
        .then(|| format!("No verdict on {}: failed in {runs}.", first_of(cells, NAMED_MAX, ", ")))
}
