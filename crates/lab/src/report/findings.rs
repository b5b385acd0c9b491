//! What a reader must know before believing the figures, gathered from all cells.
//!
//! A fault of the set-up shows in a hundred cells at once; said a hundred times it is not read. So
//! equal sentences are counted, with the cells they came from. Sentences that differ only in their
//! numbers (`3.2 % of …`, `4.1 % of …`) are equal here, and the first stands for all. Pitfalls are equal by
//! their name.
//!
//! A pitfall stands among a cell's warnings as well, for readers of `results.json` that know no pitfalls;
//! here it is told once.

use crate::pitfalls;
use crate::results::{Cell, Results};

/// A warning, a pitfall or an error, and the cells that have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding<'a> {
    /// What a pitfall is called; `None` of other findings.
    pub title: Option<&'a str>,
    /// The sentence, as the first cell has it.
    pub text: &'a str,
    /// What to do about it, where it is a pitfall.
    pub mend: Option<&'a str>,
    /// Whether other cells say the same with other numbers.
    pub numbers_differ: bool,
    /// The cells' names, in the study's order.
    pub cells: Vec<&'a str>,
}

/// The pitfalls of these cells, each kind once, those of the most cells first.
pub fn pitfalls<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Vec<Finding<'a>> {
    gathered(cells, |cell| {
        let said = cell.pitfalls.iter().map(|pitfall| Said {
            key: pitfall.id.clone(),
            title: Some(pitfalls::title(&pitfall.id)),
            text: &pitfall.text,
            mend: Some(&pitfall.mend),
        });
        said.collect()
    })
}

/// The warnings of all cells that are no pitfalls, those of the most cells first.
pub fn warnings(results: &Results) -> Vec<Finding<'_>> {
    gathered(&results.cells, |cell| {
        let known: Vec<String> = cell.pitfalls.iter().map(|pitfall| pitfall.warning()).collect();
        let others = cell.warnings.iter().filter(|warning| !known.contains(warning));
        others.map(|warning| Said::plain(warning)).collect()
    })
}

/// `answered from a cache (12 of 40 cells), not steady (1 of 40 cells)`.
pub fn in_brief(findings: &[Finding<'_>], cells: usize) -> String {
    let one = |finding: &Finding<'_>| {
        let title = finding.title.unwrap_or(finding.text);
        match finding.cells.len() {
            1 if cells == 1 => title.to_owned(),
            all if all == cells => format!("{title} (all cells)"),
            some => format!("{title} ({some} of {cells} cells)"),
        }
    };
    findings.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Why cells failed, by the number of cells.
pub fn errors(results: &Results) -> Vec<Finding<'_>> {
    gathered(&results.cells, |cell| cell.error.iter().map(|error| Said::plain(error)).collect())
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

/// What one cell says.
struct Said<'a> {
    /// Equal for what counts as the same.
    key: String,
    title: Option<&'a str>,
    text: &'a str,
    mend: Option<&'a str>,
}

impl<'a> Said<'a> {
    /// A sentence by itself.
    fn plain(text: &'a str) -> Said<'a> {
        Said { key: without_numbers(text), title: None, text, mend: None }
    }
}

fn gathered<'a>(
    cells: impl IntoIterator<Item = &'a Cell>,
    of: impl Fn(&'a Cell) -> Vec<Said<'a>>,
) -> Vec<Finding<'a>> {
    let mut found: Vec<(String, Finding<'a>)> = Vec::new();
    for cell in cells {
        for Said { key, title, text, mend } in of(cell) {
            match found.iter_mut().find(|(known, _)| *known == key) {
                Some((_, finding)) => {
                    finding.numbers_differ |= finding.text != text;
                    if finding.cells.last() != Some(&cell.id.as_str()) {
                        finding.cells.push(&cell.id);
                    }
                }
                None => {
                    let cells = vec![cell.id.as_str()];
                    let finding = Finding { title, text, mend, numbers_differ: false, cells };
                    found.push((key, finding));
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
