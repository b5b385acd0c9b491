//! A comparison for people: what they must know first, the answer, and a table of what differs.

use super::comparison::{Comparison, Difference, RunComparison};
use super::wrapped::wrapped;
use crate::metrics::{self, percent};
use crate::results::Metric;
use std::fmt;

impl RunComparison {
    /// For people: what they must know first, the answer, and a table of what differs, no wider than so many columns. Each
    /// cell's main metric, or `all`. (Every figure is in the JSON.)
    pub fn text(&self, width: usize, all: bool) -> String {
        let mut lines: Vec<String> = Vec::new();
        if !self.notes.is_empty() {
            lines.push("Before you believe it:".to_owned());
            for note in &self.notes {
                lines.extend(wrapped(&format!("  ! {note}"), width, "    "));
            }
            lines.push(String::new());
        }
        lines.extend(wrapped(&self.verdict, width, ""));
        let shown: Vec<&Comparison> = self
            .comparisons
            .iter()
            .filter(|one| all || one.main && one.difference != Difference::None)
            .collect();
        if !shown.is_empty() {
            lines.push(table(&shown, width, all));
            if shown.iter().any(|one| one.told_alone) {
                let note = format!(
                    "* By its own {} interval it differs. Among so many comparisons some do by chance: corrected for that, \
                     after Holm, the difference is not significant.",
                    percent(self.confidence)
                );
                lines.extend(wrapped(&note, width, "  "));
            }
        }
        if !all {
            let more =
                self.comparisons.iter().filter(|one| !one.main && !one.unlike && !one.failed);
            let differ: Vec<&Comparison> = more
                .filter(|one| {
                    matches!(
                        one.difference,
                        Difference::Better | Difference::Worse | Difference::Undecided
                    )
                })
                .collect();
            let undecided = differ.iter().filter(|one| one.difference == Difference::Undecided);
            let without = match undecided.count() {
                0 => String::new(),
                all if all == differ.len() => ", without a verdict".to_owned(),
                some => format!(", {some} of them without a verdict"),
            };
            match differ.len() {
                0 => {}
                1 => lines.push(format!("One other metric differs{without}: --all shows it.")),
                n => lines.push(format!("{n} other metrics differ{without}: --all shows them.")),
            }
        }
        for (run, cells) in [("A", &self.only_a), ("B", &self.only_b)] {
            if !cells.is_empty() {
                lines.extend(wrapped(&format!("only in {run}: {}", cells.join(", ")), width, "  "));
            }
        }
        lines.join("\n") + "\n"
    }
}

fn table(shown: &[&Comparison], width: usize, all: bool) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let mut header = vec!["cell", "A", "B", "change", ""];
    if all {
        header.insert(1, "metric");
        header.insert(5, "p");
    }
    table.set_header(header);
    for one in shown {
        let change = match (one.change_percent_low, one.change_percent_high) {
            (Some(low), Some(high)) => {
                format!("{:+.1} % ({low:+.1} to {high:+.1})", one.change_percent)
            }
            _ => format!("{:+.1} %", one.change_percent),
        };
        let p = match one.p {
            None => "–".to_owned(),
            Some(p) if p < 0.001 => "< 0.001".to_owned(),
            Some(p) => format!("{p:.3}"),
        };
        let word = match one.difference {
            Difference::Better => "B better",
            Difference::Worse => "B worse",
            Difference::None => "no difference",
            Difference::Unsure => "each repeat differs",
            Difference::Undecided if one.failed => "failed",
            Difference::Undecided => "no verdict",
            Difference::Unknown => "one repeat",
        };
        let value = |metric: &Metric| metrics::quantity(&one.metric, metric.mean);
        let word = if one.told_alone { format!("{word} *") } else { word.to_owned() };
        let mut row = vec![one.id.clone(), value(&one.a), value(&one.b), change, word];
        if all {
            row.insert(1, one.metric.clone());
            row.insert(5, p);
        }
        table.add_row(row);
    }
    table.to_string()
}

impl fmt::Display for RunComparison {
    /// As [`RunComparison::text`], for a hundred columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(100, false))
    }
}
