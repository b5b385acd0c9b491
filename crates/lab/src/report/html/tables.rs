//! The page's tables: a group's figures, and every cell of the run.
//!
//! In a group's table the best of each column is bold, and with it every other whose interval reaches
//! the best's: the data don't tell those apart, and a reader shouldn't either.

use crate::report::account::cells;
use crate::report::estimate::Estimate;
use crate::report::figures::{Unit, capitalised, factor_label, measure};
use crate::report::shape::{Group, Levels};
use crate::results::{Cell, Results};
use maud::{Markup, html};

/// Rows of the table of all cells; beyond, the page would grow too large to open.
const CELLS_MAX: usize = 2_000;

/// A group's figures: rows, a column for each level of the axis (or panel, or metric), parted by
/// panel.
pub fn figures(group: &Group) -> Markup {
    let primary = group.primary();
    let rows = group.row_levels();
    let heading = group.rows.map_or(String::new(), |f| factor_label(&group.factors[f].name));
    let metrics: Vec<&str> = group.headline_metrics().collect();
    // Each part: its heading, and its columns with heading, levels and metric.
    let mut parts: Vec<(String, Vec<Column>)> = Vec::new();
    let panels = group.panel_levels();
    match group.axis {
        Some(axis) => {
            for panel in &panels {
                let columns = group.combinations(&[axis]).into_iter().map(|level| Column {
                    head: group.factors[axis].levels[level[0].1].clone(),
                    unit: None,
                    at: [panel.clone(), level].concat(),
                    metric: primary,
                });
                parts.push((group.label(panel), columns.collect()));
            }
        }
        None if !group.panels.is_empty() => {
            let columns = panels.iter().map(|panel| Column {
                head: group.label(panel),
                unit: None,
                at: panel.clone(),
                metric: primary,
            });
            parts.push((String::new(), columns.collect()));
        }
        None => {
            let columns = metrics.iter().map(|metric| {
                let unit = Unit::fitting(&measure(metric).quantity, group.largest(metric));
                Column { head: measure(metric).short, unit: unit.heading(), at: Vec::new(), metric }
            });
            parts.push((String::new(), columns.collect()));
        }
    }
    let by_axis = group.axis.map(|f| factor_label(&group.factors[f].name));
    html! {
        div.tables {
            @for (part, columns) in &parts {
                (scrolling(&format!("Figures: {} {part}", group.title), html! {
                    table.figures {
                        caption {
                            (part)
                            @if let Some(axis) = &by_axis {
                                @if !part.is_empty() { ", " }
                                "by " (axis)
                            }
                        }
                        thead {
                            tr {
                                th { (capitalised(&heading)) }
                                @for column in columns {
                                    th.n {
                                        (column.head)
                                        @if let Some(unit) = column.unit { " " span.unit { (unit) } }
                                    }
                                }
                            }
                        }
                        tbody {
                            @let best: Vec<Option<Estimate>> =
                                columns.iter().map(|column| best(group, &rows, column)).collect();
                            @for row in &rows {
                                tr {
                                    th scope="row" { (group.row_label(row)) }
                                    @for (column, best) in columns.iter().zip(&best) {
                                        (figure(group, row, column, *best))
                                    }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }
}

struct Column<'a> {
    head: String,
    unit: Option<&'static str>,
    at: Levels,
    metric: &'a str,
}

/// The best of a column; `None` where there is no choice or no telling which way is better.
fn best(group: &Group, rows: &[Levels], column: &Column) -> Option<Estimate> {
    let more_is_better = measure(column.metric).better?.starts_with("more");
    let estimates = rows.iter().filter_map(|row| {
        let at = [column.at.as_slice(), row].concat();
        (!group.is_partial(&at, column.metric)).then(|| group.estimate(&at, column.metric))?
    });
    if rows.len() < 2 {
        return None;
    }
    estimates.reduce(|a, b| if (b.mean > a.mean) == more_is_better { b } else { a })
}

fn figure(group: &Group, row: &Levels, column: &Column, best: Option<Estimate>) -> Markup {
    let unit = Unit::fitting(&measure(column.metric).quantity, group.largest(column.metric));
    let at = [column.at.as_slice(), row].concat();
    let failed = group.select(&at).any(|cell| cell.error.is_some());
    let Some(estimate) = group.estimate(&at, column.metric) else {
        return html! { td.n { @if failed { span.failed { "failed" } } @else { "—" } } };
    };
    let is_best = best.is_some_and(|best| estimate.low <= best.high && best.low <= estimate.high);
    html! {
        td.n.best[is_best] {
            (unit.mean(estimate))
            @if let Some(spread) = unit.spread(estimate) { span.spread { " " (spread) } }
            @if group.is_failed_cell(&at) { span.failed { " failed" } }
            @else if failed { span.failed title="some of its cells failed" { " *" } }
            @else if group.is_partial(&at, column.metric) {
                span.failed title="not all of its cells were run" { " *" }
            }
        }
    }
}

/// A table that may be wider than the window: it scrolls in a frame of its own, by keyboard too.
pub fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}

/// Every cell, behind a fold.
pub fn every_cell(results: &Results, groups: &[Group]) -> Markup {
    html! {
        section #cells {
            h2 { "All cells" }
            p.about { "Click a heading to sort by it. Both ends of the intervals, and every sample, are in results.csv." }
            @for group in groups {
                details {
                    summary { (capitalised(&group.title)) ": " (cells(group.cells.len())) }
                    (cells_of(group))
                }
            }
            @if results.cells.is_empty() { p { "The run has no cells." } }
        }
    }
}

fn cells_of(group: &Group) -> Markup {
    let metrics: Vec<(&str, Unit)> = group
        .metrics
        .iter()
        .map(|metric| {
            let unit = Unit::fitting(&measure(metric).quantity, group.largest(metric));
            (metric.as_str(), unit)
        })
        .collect();
    let warned = group.cells.iter().any(|cell| !cell.pitfalls.is_empty());
    html! {
        (scrolling(&format!("All cells: {}", group.title), html! {
            table.figures.sortable {
                thead {
                    tr {
                        @if group.factors.is_empty() { th { "Cell" } }
                        @for factor in &group.factors { th { (capitalised(&factor_label(&factor.name))) } }
                        @for (metric, unit) in &metrics {
                            th.n {
                                (measure(metric).short)
                                @if let Some(unit) = unit.heading() { " " span.unit { (unit) } }
                            }
                        }
                        th.n { "Repeats" }
                        @if warned { th { "Pitfalls" } }
                    }
                }
                tbody {
                    @for cell in group.cells.iter().take(CELLS_MAX) {
                        tr {
                            @if group.factors.is_empty() { td { (cell.id) } }
                            @for factor in &group.factors {
                                @let level = factor.level_of(cell);
                                @let number = crate::report::figures::level_value(level);
                                td data-v=[number] { (level) }
                            }
                            @for (metric, unit) in &metrics {
                                @match Estimate::of_cell(cell, metric) {
                                    Some(estimate) => {
                                        td.n data-v=(format!("{:.5e}", estimate.mean)) {
                                            (unit.mean(estimate))
                                            @if let Some(spread) = unit.spread(estimate) {
                                                span.spread { " " (spread) }
                                            }
                                            @if !cell.is_sound() { span.failed { " failed" } }
                                        }
                                    }
                                    None => {
                                        td.n data-v="" {
                                            @if cell.error.is_some() { span.failed { "failed" } } @else { "—" }
                                        }
                                    }
                                }
                            }
                            td.n { (cell.repeats) }
                            @if warned { td { (names_of_pitfalls(cell)) } }
                        }
                    }
                }
            }
        }))
        @if group.cells.len() > CELLS_MAX {
            p.about { "The first " (CELLS_MAX) " cells; all are in results.csv." }
        }
    }
}

fn names_of_pitfalls(cell: &Cell) -> String {
    cell.pitfalls.iter().map(|pitfall| pitfall.id.as_str()).collect::<Vec<_>>().join(", ")
}
