//! The report in a terminal.
//!
//! A study of 400 cells is a page here, not 400 lines. Each group of workloads (see `shape`) has its
//! primary metric as a pivot: rows are what the study compares, columns the axis, and a block stands
//! for each panel. What didn't fit is a mean over the dullest factors, which the caption names. A
//! second table gives the other metrics of each row over all its cells. `full` prints every cell.
//!
//! From top to bottom: what was asked and how (simulated and shortened runs say so first), tables,
//! failed cells, pitfalls and warnings, claims, what the layouts are worth beside their speed, and last the verdict,
//! which is what stays on the screen, with the pitfalls' names below it.
//!
//! Nothing is wider than the terminal: a table with too many columns goes on below itself, text is
//! wrapped. Control characters in names don't reach the terminal.

use super::account;
use super::figures::{Measure, Unit, capitalised, factor_label, measure, percent};
use super::findings::{Finding, errors, in_brief, pitfalls, repeats, warnings};
use super::shape::{Group, groups};
use crate::results::{Cell, ClaimCount, Results};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// How the terminal report is to look.
#[derive(Clone, Copy, Debug)]
pub struct TextOptions {
    /// Columns of the terminal; under 40 counts as that.
    pub width: usize,
    /// Whether to use colour.
    pub colour: bool,
    /// Whether to print every cell rather than the pivots.
    pub full: bool,
}

/// Narrower terminals are written to as if they had this many columns.
const WIDTH_MIN: usize = 40;
/// Prose is wrapped here even where the terminal is wider: longer lines are hard to read.
const PROSE_WIDTH_MAX: usize = 100;
/// How many different warnings are printed; the rest are counted.
const WARNINGS_MAX: usize = 8;

#[derive(Clone, Copy)]
enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Caution,
}

struct Page {
    out: String,
    options: TextOptions,
}

/// The report for a terminal.
pub fn text(results: &Results, options: TextOptions) -> String {
    let options = TextOptions { width: options.width.max(WIDTH_MIN), ..options };
    let mut page = Page { out: String::new(), options };
    page.head(results);
    for group in &groups(results) {
        page.gap();
        match options.full {
            true => page.every_cell(group),
            false => page.pivots(group),
        }
    }
    if !options.full && results.cells.len() > 24 {
        let count = results.cells.len();
        page.gap();
        let pointer = format!("All {count} cells are in the HTML report and in results.csv.");
        page.prose(Style::Faint, "", &pointer);
    }
    page.findings(results);
    page.claims(results);
    page.layouts(results);
    page.gap();
    page.prose(Style::Strong, "", "Verdict");
    page.rankings(results);
    page.prose(Style::Plain, "  ", &results.verdict);
    for warning in account::layout_warnings(results) {
        page.prose(Style::Caution, "  ", &format!("! {warning}."));
    }
    if let Some(partial) = results.partial {
        let line = format!("PARTIAL: {partial} are done.");
        page.prose(Style::Caution, "  ", &line);
    }
    let pitfalls = pitfalls(&results.cells);
    if !pitfalls.is_empty() {
        let brief = in_brief(&pitfalls, results.cells.len());
        let line = format!("Before you believe it, see the pitfalls above: {brief}.");
        page.prose(Style::Caution, "  ", &line);
    }
    page.out
}

impl Page {
    fn head(&mut self, results: &Results) {
        self.prose(Style::Strong, "", &results.title);
        self.prose(Style::Plain, "", &results.question);
        self.gap();
        let kind = match results.simulated {
            true => "SIMULATED on modelled hardware",
            false => "MEASURED on this machine",
        };
        let intervals = match results.cells.iter().any(|cell| cell.repeats > 1) {
            true => format!(" · {} intervals", percent(results.confidence)),
            false => String::new(),
        };
        let facts = format!(
            "{kind} · {}, {}{intervals} · seed {} · Spindle {}",
            account::cells(results.cells.len()),
            repeats(results),
            results.seed,
            results.spindle_version,
        );
        self.prose(Style::Strong, "", &facts);
        if results.simulated {
            let error = "Intervals are the spread between repeats; the model's own error, a tenth to a \
                         fifth of a rate, comes on top (docs/theory/fidelity.md).";
            self.prose(Style::Faint, "", error);
        }
        if results.quick {
            let quick = "QUICK RUN: shortened for a first look; intervals are wide, and it is no \
                         basis for a decision.";
            self.prose(Style::Caution, "", quick);
        }
        for (part, what) in &results.machine {
            self.prose(Style::Faint, "  ", &format!("{part}: {what}"));
        }
        for (part, what) in account::run_lines(results) {
            self.prose(Style::Faint, "  ", &format!("{}: {what}", part.to_lowercase()));
        }
        for (workload, parameters) in account::fixed_parameters(results) {
            let pairs =
                parameters.iter().map(|(key, value)| format!("{} {value}", factor_label(key)));
            let pairs = pairs.collect::<Vec<_>>().join(" · ");
            self.prose(Style::Faint, "  ", &format!("{workload}: {pairs}"));
        }
        for note in &results.notes {
            self.prose(Style::Caution, "  ", note);
        }
    }

    /// What the layouts are worth beside their speed.
    fn layouts(&mut self, results: &Results) {
        if results.layouts.is_empty() {
            return;
        }
        self.gap();
        self.prose(Style::Strong, "", "What the layouts are worth beside their speed");
        for layout in &results.layouts {
            self.prose(Style::Faint, "  ", &format!("{}: {}", layout.name, layout.what));
        }
        let (header, rows) = account::layouts_table(&results.layouts);
        self.table(&header, &rows);
        for beside in account::rebuilds_beside(&results.layouts) {
            self.prose(Style::Faint, "  ", &beside);
        }
        for basis in account::bases(&results.layouts) {
            self.prose(Style::Faint, "  ", basis);
        }
        self.prose(Style::Faint, "  ", account::HOW_LAYOUTS);
    }

    /// The verdict as tables, where there is more than one level to tell of.
    fn rankings(&mut self, results: &Results) {
        for ranking in results.rankings.iter().filter(|ranking| ranking.rows.len() > 1) {
            let (header, rows) = account::ranking_table(ranking, results.confidence);
            self.table(&header, &rows);
        }
        if let Some(how) = account::how_scores(&results.rankings) {
            self.prose(Style::Faint, "  ", how);
        }
    }

    fn pivots(&mut self, group: &Group) {
        let primary = measure(group.primary());
        let simple = group.axis.is_none() && group.panels.is_empty();
        self.prose(Style::Strong, "", &capitalised(&group.title));
        if !group.constants.is_empty() {
            let same: Vec<String> =
                group.constants.iter().map(|(f, l)| format!("{} {l}", factor_label(f))).collect();
            self.prose(Style::Faint, "  ", &same.join(" · "));
        }
        if simple {
            let metrics: Vec<&str> = group.headline_metrics().collect();
            self.metrics_table(group, &metrics);
            return;
        }
        let unit = Unit::fitting(&primary.quantity, group.largest(group.primary()));
        let mut caption = unit.headed(&primary.label);
        if let Some(axis) = group.axis {
            caption += &format!(" by {}", factor_label(&group.factors[axis].name));
        }
        for &f in &group.averaged {
            caption +=
                &format!("; geometric mean over {}", group.averaged_label(f, group.primary()));
        }
        self.prose(Style::Faint, "  ", &caption);
        let panels = group.panel_levels();
        let mut partial = false;
        match group.axis {
            Some(axis) => {
                for panel in &panels {
                    if !panel.is_empty() {
                        self.prose(Style::Plain, "  ", &group.label(panel));
                    }
                    let columns = group.combinations(&[axis]);
                    let heads = columns.iter().map(|c| group.factors[axis].levels[c[0].1].clone());
                    let heads = heads.collect();
                    let at: Vec<_> =
                        columns.iter().map(|c| [panel.as_slice(), c].concat()).collect();
                    partial |= self.pivot(group, unit, heads, &at);
                }
            }
            None => {
                let heads = panels.iter().map(|panel| group.label(panel)).collect();
                partial = self.pivot(group, unit, heads, &panels);
            }
        }
        if partial {
            let why = match group.cells.iter().any(|cell| cell.error.is_some()) {
                true => "some failed, see below",
                false => "not all were run",
            };
            let note = format!("* over fewer cells than the others: {why}.");
            self.prose(Style::Caution, "  ", &note);
        }
        let others: Vec<&str> =
            group.headline_metrics().filter(|m| *m != group.primary()).collect();
        if !others.is_empty() && group.rows.is_some() {
            let caption = "Other metrics, geometric means over all cells of a row";
            self.prose(Style::Faint, "  ", caption);
            self.metrics_table(group, &others);
        }
    }

    /// One table of the primary metric; says whether any figure is over fewer cells than it should.
    fn pivot(
        &mut self,
        group: &Group,
        unit: Unit,
        heads: Vec<String>,
        columns: &[Vec<(usize, usize)>],
    ) -> bool {
        let mut header = vec![self.row_heading(group)];
        header.extend(heads);
        let mut any_partial = false;
        let mut rows = Vec::new();
        for row in group.row_levels() {
            let mut line = vec![group.row_label(&row)];
            for column in columns {
                let at = [column.as_slice(), &row].concat();
                let figure = group.estimate(&at, group.primary()).map(|e| unit.figure(e));
                let is_failed = group.is_failed_cell(&at);
                let partial =
                    figure.is_some() && !is_failed && group.is_partial(&at, group.primary());
                any_partial |= partial;
                let failed = group.select(&at).any(|cell| cell.error.is_some());
                line.push(match (figure, failed) {
                    (Some(figure), _) if is_failed => format!("{figure}, failed"),
                    (Some(figure), _) => figure + if partial { " *" } else { "" },
                    (None, true) => "failed".into(),
                    (None, false) => "—".into(),
                });
            }
            rows.push(line);
        }
        self.table(&header, &rows);
        any_partial
    }

    /// Rows as always, a column a metric. A row that has a part of the cells says so.
    fn metrics_table(&mut self, group: &Group, metrics: &[&str]) {
        let mut header = vec![self.row_heading(group)];
        let mut units = Vec::new();
        for metric in metrics {
            let Measure { short, quantity, .. } = measure(metric);
            let unit = Unit::fitting(&quantity, group.largest(metric));
            header.push(match unit.heading() {
                Some(name) => format!("{short}\n{name}"),
                None => short,
            });
            units.push(unit);
        }
        let mut rows = Vec::new();
        let mut any_partial = false;
        for row in group.row_levels() {
            let label = match group.coverage(&row, group.primary()) {
                (have, all) if 0 < have && have < all => {
                    any_partial = true;
                    format!("{}, {have} of {all} cells", group.row_label(&row))
                }
                _ if group.is_failed_cell(&row) => match group.row_label(&row) {
                    none if none.is_empty() => "failed".to_owned(),
                    label => format!("{label}, failed"),
                },
                _ => group.row_label(&row),
            };
            let figures = metrics.iter().zip(&units).map(|(metric, unit)| {
                let estimate = group.estimate(&row, metric);
                estimate.map_or_else(|| "—".into(), |e| unit.figure(e))
            });
            rows.push(std::iter::once(label).chain(figures).collect());
        }
        self.table(&header, &rows);
        if any_partial {
            let note = "A mean over a part of the cells does not compare with the others.";
            self.prose(Style::Caution, "  ", note);
        }
    }

    fn row_heading(&self, group: &Group) -> String {
        group.rows.map_or(String::new(), |f| factor_label(&group.factors[f].name))
    }

    fn every_cell(&mut self, group: &Group) {
        self.prose(Style::Strong, "", &capitalised(&group.title));
        let metrics: Vec<&str> = group.headline_metrics().collect();
        let mut header: Vec<String> =
            group.factors.iter().map(|factor| factor_label(&factor.name)).collect();
        let fixed = header.len();
        let units: Vec<Unit> = metrics
            .iter()
            .map(|metric| {
                let Measure { short, quantity, .. } = measure(metric);
                let unit = Unit::fitting(&quantity, group.largest(metric));
                header.push(match unit.heading() {
                    Some(name) => format!("{short}\n{name}"),
                    None => short,
                });
                unit
            })
            .collect();
        let line = |cell: &&Cell| -> Vec<String> {
            let levels = group.factors.iter().map(|factor| factor.level_of(cell).to_owned());
            let figures = metrics.iter().zip(&units).map(|(metric, unit)| {
                let estimate = super::estimate::Estimate::of_cell(cell, metric);
                match (estimate, &cell.error) {
                    (Some(estimate), None) => unit.figure(estimate),
                    (Some(estimate), Some(_)) => format!("{}, failed", unit.figure(estimate)),
                    (None, Some(_)) => "failed".into(),
                    (None, None) => "—".into(),
                }
            });
            levels.chain(figures).collect()
        };
        let rows: Vec<Vec<String>> = group.cells.iter().map(line).collect();
        self.table_with_labels(&header, &rows, fixed.max(1));
    }

    fn findings(&mut self, results: &Results) {
        let failed = errors(results);
        if !failed.is_empty() {
            self.gap();
            let count: usize = failed.iter().map(|finding| finding.cells.len()).sum();
            let heading = format!("{count} of {} cells failed", results.cells.len());
            self.prose(Style::Bad, "", &heading);
            self.list(&failed, "✗");
        }
        let pitfalls = pitfalls(&results.cells);
        if !pitfalls.is_empty() {
            self.gap();
            self.prose(Style::Caution, "", "Pitfalls");
            pitfalls.iter().for_each(|pitfall| self.finding(pitfall, "!"));
        }
        let warned = warnings(results);
        if !warned.is_empty() {
            self.gap();
            self.prose(Style::Caution, "", "Warnings");
            self.list(&warned, "!");
        }
    }

    fn list(&mut self, findings: &[Finding], sign: &str) {
        findings.iter().take(WARNINGS_MAX).for_each(|finding| self.finding(finding, sign));
        if findings.len() > WARNINGS_MAX {
            let more = format!("… and {} more in the HTML report", findings.len() - WARNINGS_MAX);
            self.prose(Style::Faint, "  ", &more);
        }
    }

    fn finding(&mut self, finding: &Finding, sign: &str) {
        let count = match finding.cells.as_slice() {
            [one] => format!("{one}: "),
            several => format!("{} cells: ", several.len()),
        };
        let like =
            if finding.numbers_differ { " (others likewise, with other numbers)" } else { "" };
        let line = format!("{sign} {count}{}{like}", finding.text);
        self.prose(Style::Plain, "  ", &line);
        if let Some(mend) = finding.mend {
            self.prose(Style::Plain, "    ", &format!("→ {mend}"));
        }
    }

    fn claims(&mut self, results: &Results) {
        if results.claims.is_empty() {
            return;
        }
        self.gap();
        let count = ClaimCount::of(&results.claims);
        let heading =
            format!("Claims: {} of {} reproduced{}", count.held, count.counted, count.more());
        self.prose(Style::Strong, "", &heading);
        for claim in &results.claims {
            let (style, text) = match (claim.reproduced, claim.unsure) {
                (true, _) => (Style::Good, format!("✓ {}", claim.text)),
                (false, true) => (Style::Plain, format!("? Not sure: {}", claim.text)),
                (false, false) => (Style::Bad, format!("✗ Not reproduced: {}", claim.text)),
            };
            self.prose(style, "  ", &text);
            let measured = format!("found {} · published {}", claim.measured, claim.published);
            self.prose(Style::Plain, "    ", &measured);
            let tolerance = claim.tolerance.iter().map(|near| format!(" · within {near}"));
            let source = format!("{}{}", claim.source, tolerance.collect::<String>());
            self.prose(Style::Faint, "    ", &source);
            if let Some(why) = &claim.uncounted {
                self.prose(Style::Plain, "    ", &format!("Not counted: {why}"));
            }
            if let Some(why) = &claim.explanation {
                self.prose(Style::Plain, "    ", &format!("Why: {why}"));
            }
            if let Some(suspect) = &claim.suspect {
                self.prose(Style::Plain, "    ", &format!("Suspect: {}", suspect.sentence()));
            }
        }
    }

    fn gap(&mut self) {
        self.out.push('\n');
    }

    /// Text, wrapped and indented; lines after the first are indented by two more.
    fn prose(&mut self, style: Style, indent: &str, text: &str) {
        let width = self.options.width.min(PROSE_WIDTH_MAX) - indent.len();
        for (number, line) in wrapped(&printable(text), width).into_iter().enumerate() {
            let further = if number > 0 && !indent.is_empty() { "  " } else { "" };
            self.line(style, &format!("{indent}{further}{line}"));
        }
    }

    fn line(&mut self, style: Style, line: &str) {
        let code = match style {
            _ if !self.options.colour => "",
            Style::Plain => "",
            Style::Strong => "\x1b[1m",
            Style::Faint => "\x1b[2m",
            Style::Good => "\x1b[32m",
            Style::Bad => "\x1b[31m",
            Style::Caution => "\x1b[33m",
        };
        let end = if code.is_empty() { "" } else { "\x1b[0m" };
        self.out += &format!("{code}{line}{end}\n");
    }

    fn table(&mut self, header: &[String], rows: &[Vec<String>]) {
        self.table_with_labels(header, rows, 1);
    }

    /// A table whose first `labels` columns name the row. Where the columns are too many for the
    /// width, the table goes on below with its labels repeated.
    fn table_with_labels(&mut self, header: &[String], rows: &[Vec<String>], labels: usize) {
        let natural = |column: usize| {
            let cells =
                rows.iter().map(|row| row[column].as_str()).chain([header[column].as_str()]);
            let lines = cells.flat_map(str::lines).map(|line| line.chars().count());
            // A blank on both sides, and one between columns.
            lines.max().unwrap_or(0) + 3
        };
        let labels_width: usize = (0..labels).map(natural).sum::<usize>();
        let room = self.options.width - 2;
        let labels_width = labels_width.min(room / 2);
        let mut start = labels;
        while start < header.len() || start == labels {
            let mut end = start;
            let mut used = labels_width;
            while end < header.len() && (end == start || used + natural(end) <= room) {
                used += natural(end);
                end += 1;
            }
            let columns: Vec<usize> = (0..labels).chain(start..end).collect();
            self.part_of_table(header, rows, &columns, labels);
            if end >= header.len() {
                break;
            }
            start = end;
        }
    }

    fn part_of_table(
        &mut self,
        header: &[String],
        rows: &[Vec<String>],
        columns: &[usize],
        labels: usize,
    ) {
        const RULE: TableStyle =
            TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));
        let pick = |row: &[String]| -> Vec<comfy_table::Cell> {
            let cell = |&column: &usize| {
                let align =
                    if column < labels { CellAlignment::Left } else { CellAlignment::Right };
                comfy_table::Cell::new(printable(&row[column])).set_alignment(align)
            };
            columns.iter().map(cell).collect()
        };
        let mut table = Table::new();
        let width = u16::try_from(self.options.width - 2).unwrap_or(u16::MAX);
        table
            .load_style(RULE)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width)
            .set_header(pick(header));
        for row in rows {
            table.add_row(pick(row));
        }
        for (number, line) in table.lines().enumerate() {
            let style = if number == 0 { Style::Strong } else { Style::Plain };
            self.line(style, format!("  {}", line.trim_end()).trim_end());
        }
    }
}

/// Without control characters: a name can't move the cursor or recolour the terminal.
pub fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => '\n',
        // Not in every terminal's font.
        '\u{202f}' => ' ',
        control if control.is_control() => '\u{fffd}',
        // They turn the direction of what follows.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other => other,
    };
    text.chars().map(shown).collect()
}

/// Words in lines of at most `width`; longer words are cut.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.saturating_sub(2).max(10);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(width) {
            if used > 0 && used + 1 + piece.len() > width {
                lines.push(String::new());
                used = 0;
            }
            let line = lines.last_mut().expect("begins with a line");
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.extend(piece);
            used += piece.len();
        }
    }
    lines
}
