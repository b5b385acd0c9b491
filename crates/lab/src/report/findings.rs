//! What a reader must know before believing the figures, gathered from all cells.
//!
//! A fault of the set-up shows in a hundred cells at once; said a hundred times it is not read. So
//! equal sentences are counted, with the cells they came from. Sentences that differ only in their
//! numbers (`3.2 % of …`, `4.1 % of …`) are equal here, and the first stands for all.

use crate::results::{Cell, Results};

/// A warning or an error, and the cells that have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding<'a> {
    /// The sentence, as the first cell has it.
    pub text: &'a str,
    /// Whether other cells say the same with other numbers.
    pub numbers_differ: bool,
    /// The cells' names, in the study's order.
    pub cells: Vec<&'a str>,
}

/// The warnings of all cells, those of the most cells first.
pub fn warnings(results: &Results) -> Vec<Finding<'_>> {
    gathered(results, |cell| cell.warnings.iter().map(String::as_str).collect())
}

/// Why cells have no figures, by the number of cells.
pub fn errors(results: &Results) -> Vec<Finding<'_>> {
    gathered(results, |cell| cell.error.iter().map(String::as_str).collect())
}

/// `3 repeats each`, `3 to 8 repeats each`.
pub fn repeats(results: &Results) -> String {
    let counts = results.cells.iter().filter(|cell| cell.error.is_none()).map(|cell| cell.repeats);
    match (counts.clone().min(), counts.max()) {
        (Some(1), Some(1)) => "one repeat each, so without intervals".into(),
        (Some(fewest), Some(most)) if fewest == most => format!("{most} repeats each"),
        (Some(fewest), Some(most)) => format!("{fewest} to {most} repeats each"),
        _ => "none of which succeeded".into(),
    }
}

fn gathered<'a>(results: &'a Results, of: impl Fn(&'a Cell) -> Vec<&'a str>) -> Vec<Finding<'a>> {
    let mut found: Vec<(String, Finding<'a>)> = Vec::new();
    for cell in &results.cells {
        for text in of(cell) {
            let key = without_numbers(text);
            match found.iter_mut().find(|(known, _)| *known == key) {
                Some((_, finding)) => {
                    finding.numbers_differ |= finding.text != text;
                    if finding.cells.last() != Some(&cell.id.as_str()) {
                        finding.cells.push(&cell.id);
                    }
                }
                None => {
                    let cells = vec![cell.id.as_str()];
                    found.push((key, Finding { text, numbers_differ: false, cells }));
                }
            }
        }
    }
    found.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.cells.len()));
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Each run of digits (with points between) becomes one `#`.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            digit if digit.is_ascii_digit() && out.ends_with('#') => {}
            digit if digit.is_ascii_digit() => out.push('#'),
            '.' | ',' if out.ends_with('#') => {}
            other => out.push(other),
        }
    }
    out
}
