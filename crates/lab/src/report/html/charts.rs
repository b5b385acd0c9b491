//! The section of a group of workloads: which plots, of what, in which order.
//!
//! Which plot shows which metric: over an axis, lines, a line for each row; else bars with intervals.
//! The group's primary metric comes first with its table; then latency (its 99th percentile, and
//! distributions at the middle of the axis), processor time, how busy the disks were, and for
//! operations rate and share done over time. All panels of one metric share their axes, so that they
//! can be compared; a legend stands above panels that share it. What is averaged over is said, and
//! every panel behind the average stands behind a fold.

use super::panels::{FOLDED_PANELS_MAX, LINES_MAX, grid, height, legend, too_many};
use super::{curves, disks, tables};
use crate::report::estimate::Estimate;
use crate::report::figures::{Unit, capitalised, factor_label, measure, percent};
use crate::report::findings::{in_brief, pitfalls};
use crate::report::plot::axis::Axis;
use crate::report::plot::bars::{self, BarPlot, Row};
use crate::report::plot::lines::{Line, LinePlot, Point};
use crate::report::shape::{Group, Levels};
use maud::{Markup, html};

/// Bars of all panels, with a heading each, that are drawn in one plot rather than in panels.
const GROUPED_ROWS_MAX: usize = 14;

/// The section of a group.
pub fn group(group: &Group, number: usize, confidence: f64) -> Markup {
    let metrics: Vec<&str> = group.headline_metrics().collect();
    let tail = ["latency_us_p99", "latency_us_p50", "latency_us_mean"];
    let tail = tail.into_iter().find(|m| metrics.contains(m) && *m != group.primary());
    html! {
        section id={ "group-" (number) } {
            h2 { (capitalised(&group.title)) }
            @if !group.constants.is_empty() {
                p.about {
                    @for (number, (factor, level)) in group.constants.iter().enumerate() {
                        @if number > 0 { " · " }
                        (factor_label(factor)) " " (level)
                    }
                }
            }
            (pitfalls_here(group))
            (metric(group, group.primary(), confidence))
            @if group.metrics.is_empty() { p.failed { "No cell of this workload has figures." } }
            @else { (table_note(group)) (tables::figures(group)) }
            (curves::progress(group))
            @if let Some(tail) = tail { (metric(group, tail, confidence)) }
            (curves::distributions(group))
            (curves::rounds(group))
            @if metrics.contains(&"cpu_us_per_io") { (metric(group, "cpu_us_per_io", confidence)) }
            (disks::disks(group))
        }
    }
}

/// Which pitfalls the group's cells ran into.
fn pitfalls_here(group: &Group) -> Markup {
    let found = pitfalls(group.cells.iter().copied());
    html! {
        @if !found.is_empty() {
            p.here {
                "Pitfalls here: " (in_brief(&found, group.cells.len())) ". "
                a href="#findings" { "See below" }
            }
        }
    }
}

fn table_note(group: &Group) -> Markup {
    let primary = measure(group.primary());
    let unit = Unit::fitting(&primary.quantity, group.largest(group.primary()));
    let pivot = group.axis.is_some() || !group.panels.is_empty();
    let rows = group.row_levels().len();
    html! {
        p.about {
            @if pivot {
                (unit.headed(&primary.label)) ". "
            }
            @if rows > 1 && primary.better.is_some() {
                "Bold: the best of its column"
                @if group.has_intervals() { ", and every other whose interval overlaps it" }
                ". "
            }
            @if group.has_partial() {
                "*: some of the cells that it is over failed, or were not run. "
            }
        }
    }
}

/// A metric's heading, its panels, and where factors are averaged every panel behind a fold.
fn metric(group: &Group, metric: &str, confidence: f64) -> Markup {
    let measure = measure(metric);
    if group.largest(metric) == 0.0 || group.rows.is_none() && group.axis.is_none() {
        return html! {};
    }
    // Processor time hardly depends on load: one bar a row says it all.
    let lines = group.axis.is_some() && metric != "cpu_us_per_io";
    let over: Vec<usize> = match lines {
        true => group.averaged.clone(),
        false => group.axis.iter().chain(&group.averaged).copied().collect(),
    };
    let folded = group.every_panel();
    let fold = !group.averaged.is_empty() && folded.len() <= FOLDED_PANELS_MAX;
    html! {
        div.plate {
            h3 {
                (measure.label)
                @if lines { " over " (factor_label(&group.factors[group.axis.unwrap_or(0)].name)) }
            }
            p.about {
                @if let Some(better) = measure.better { (capitalised(better)) "." }
                @if group.has_intervals() {
                    " Whiskers are " (percent(confidence)) " confidence intervals."
                }
                @for (number, &f) in over.iter().enumerate() {
                    @if number == 0 { " Geometric mean over " } @else { " and " }
                    (group.averaged_label(f, metric))
                }
                @if !over.is_empty() { "." }
            }
            (panels(group, metric, &group.panel_levels(), lines))
            @if fold {
                details {
                    summary { "All " (folded.len()) " combinations of " (factor_names(group)) }
                    (panels(group, metric, &folded, lines))
                }
            }
        }
    }
}

fn factor_names(group: &Group) -> String {
    let names = group.panels.iter().chain(&group.averaged);
    let names: Vec<String> = names.map(|&f| factor_label(&group.factors[f].name)).collect();
    names.join(" and ")
}

/// One plot for each of `at`, with axes in common.
fn panels(group: &Group, metric: &str, at: &[Levels], lines: bool) -> Markup {
    match lines {
        true => line_panels(group, metric, at),
        false => bar_panels(group, metric, at),
    }
}

fn line_panels(group: &Group, metric: &str, at: &[Levels]) -> Markup {
    let Some(axis) = group.axis else { return html! {} };
    let measure = measure(metric);
    let unit = Unit::fitting(&measure.quantity, group.largest(metric));
    let factor = &group.factors[axis];
    let numbers = factor.numbers.as_deref().unwrap_or_default();
    let rows = group.row_levels();
    let plots: Vec<Vec<Line>> = at
        .iter()
        .map(|panel| {
            let line = |(series, row): (usize, &Levels)| {
                let points = numbers.iter().enumerate().filter_map(|(level, &x)| {
                    let here = [panel.as_slice(), row, &[(axis, level)]].concat();
                    let sound = (!group.is_failed_cell(&here)).then_some(&here);
                    let estimate = group.estimate(sound?, metric)?;
                    Some(Point {
                        x,
                        y: estimate.mean / unit.size,
                        interval: interval(estimate, unit),
                        tooltip: format!(
                            "{}, {}: {}",
                            group.row_label(row),
                            factor.level_label(level),
                            unit.named_figure(estimate)
                        ),
                    })
                });
                let name = group.row_label(row);
                Line { tooltip: name.clone(), name, series, points: points.collect() }
            };
            rows.iter().take(LINES_MAX).enumerate().map(line).collect()
        })
        .collect();
    let values = plots.iter().flatten().flat_map(|line| line.points.iter().map(|point| point.y));
    let y = Axis::for_values(&unit.titled(&measure.label), values, 6);
    let x = Axis::levels(&factor_label(&factor.name), numbers, &factor.levels);
    let single = at.len() == 1;
    let (grid, width) = grid(at.len());
    html! {
        @if !single { (legend(group, &rows, true)) }
        (too_many(rows.len()))
        div.panels.(grid) {
            @for (panel, lines) in at.iter().zip(&plots) {
                @let name = group.label(panel);
                figure.panel {
                    @if !name.is_empty() { h4 { (name) } }
                    (LinePlot {
                        title: &format!("{} {name}", measure.label),
                        description: &format!(
                            "{} over {}: {} lines, by {}.", measure.label,
                            factor_label(&factor.name), lines.len(), rows_name(group)),
                        x: &x, y: &y, lines, markers: true, labels: single,
                        width, height: height(width),
                    }.svg())
                }
            }
        }
    }
}

fn interval(estimate: Estimate, unit: Unit) -> Option<(f64, f64)> {
    estimate.half_width().map(|_| (estimate.low / unit.size, estimate.high / unit.size))
}

fn rows_name(group: &Group) -> String {
    group.rows.map_or("cell".into(), |f| factor_label(&group.factors[f].name))
}

fn bar_panels(group: &Group, metric: &str, at: &[Levels]) -> Markup {
    let measure = measure(metric);
    let unit = Unit::fitting(&measure.quantity, group.largest(metric));
    let plots: Vec<Vec<Row>> = at
        .iter()
        .map(|panel| {
            let bar = |row: &Levels| {
                let here = [panel.as_slice(), row].concat();
                group.select(&here).next()?;
                let estimate = group.estimate(&here, metric);
                let missing = match group.select(&here).any(|cell| cell.error.is_some()) {
                    true => "failed",
                    false => "—",
                };
                let mut figure = estimate.map_or(missing.into(), |e| unit.figure(e));
                if estimate.is_some() && group.is_failed_cell(&here) {
                    figure += ", failed";
                } else if estimate.is_some() && group.is_partial(&here, metric) {
                    figure += " *";
                }
                let label = group.row_label(row);
                let tooltip = match estimate {
                    Some(estimate) => format!("{label}: {}", unit.named_figure(estimate)),
                    None => format!("{label}: no figures"),
                };
                let scaled =
                    |e: Estimate| (e.mean / unit.size, e.low / unit.size, e.high / unit.size);
                Some(Row::Bar { label, value: estimate.map(scaled), figure, tooltip })
            };
            group.row_levels().iter().filter_map(bar).collect()
        })
        .collect();
    let mut plots = plots;
    let mut names: Vec<String> = at.iter().map(|panel| group.label(panel)).collect();
    let bars: usize = plots.iter().map(Vec::len).sum();
    if at.len() > 1 && bars + at.len() <= GROUPED_ROWS_MAX {
        let parts = names.drain(..).zip(plots.drain(..));
        let grouped =
            parts.flat_map(|(name, bars)| std::iter::once(Row::Heading(name)).chain(bars));
        plots = vec![grouped.collect()];
        names = vec![String::new()];
    }
    let (grid, width) = grid(plots.len());
    let ticks = if width > 700.0 { 8 } else { 5 };
    let axis = bar_axis(&unit.titled(&measure.label), &plots, ticks);
    let widths = bars::widths(&plots);
    let bars_of = |rows: &[Row]| rows.iter().filter(|row| matches!(row, Row::Bar { .. })).count();
    html! {
        div.panels.(grid) {
            @for (name, rows) in names.iter().zip(&plots) {
                figure.panel {
                    @if !name.is_empty() { h4 { (name) } }
                    (BarPlot {
                        title: &format!("{} {name}", measure.label),
                        description: &format!(
                            "{} with confidence intervals: {} bars, by {}.",
                            measure.label, bars_of(rows), rows_name(group)),
                        axis: &axis, rows, reference: None, widths, width,
                    }.svg())
                }
            }
        }
    }
}

/// An axis for all bars; from zero unless they are decades apart.
fn bar_axis(title: &str, plots: &[Vec<Row>], ticks: usize) -> Axis {
    let values = plots.iter().flatten().filter_map(|row| match row {
        Row::Bar { value: Some((mean, _, high)), .. } => Some([*mean, *high]),
        _ => None,
    });
    let values: Vec<f64> = values.flatten().collect();
    Axis::for_values(title, values.iter().copied(), ticks)
}
