//! Curves of single cells: distributions of latency, and an operation's progress over time.
//!
//! A mean of distributions is none, so these are of cells at the middle of the axis and of the averaged
//! factors; all others stand behind a fold. The panels of one fold share their axes.

use super::panels::{FOLDED_PANELS_MAX, LINES_MAX, grid, height, legend, too_many};
use crate::report::estimate::Estimate;
use crate::report::figures::{Unit, clock_time, measure};
use crate::report::plot::axis::Axis;
use crate::report::plot::ink;
use crate::report::plot::lines::{Line, LinePlot, Point};
use crate::report::shape::{Group, Levels};
use crate::results::{Cell, ProgressPoint};
use maud::{Markup, html};

/// Points of a distribution or a progress line: more than a plot has pixels for is waste.
const POINTS_MAX: usize = 160;
/// How many nines a distribution's axis has.
const NINES: u32 = 3;

/// Distributions of latency at the middle of the axis and of the averaged factors; the others behind
/// a fold.
pub fn distributions(group: &Group) -> Markup {
    if group.cells.iter().all(|cell| cell.latency.is_empty()) {
        return html! {};
    }
    let middle = group.middle();
    let shown: Vec<Levels> =
        group.panel_levels().iter().map(|panel| [panel.as_slice(), &middle].concat()).collect();
    let factors: Vec<usize> =
        group.panels.iter().chain(&group.averaged).chain(group.axis.as_slice()).copied().collect();
    let all = group.combinations(&factors);
    html! {
        div.plate {
            h3 { "Distribution of latencies" }
            p.about {
                "The share of I/Os that took no longer. Each further nine of the vertical axis is as high \
                 as the last, so the tail can be seen; farther left is better."
                @if !middle.is_empty() { " Shown at " (group.label(&middle)) "." }
            }
            (distribution_panels(group, &shown, &middle))
            @if all.len() > shown.len() && all.len() <= FOLDED_PANELS_MAX {
                details {
                    summary { "All " (all.len()) " distributions" }
                    (distribution_panels(group, &all, &[]))
                }
            }
        }
    }
}

fn distribution_panels(group: &Group, at: &[Levels], unnamed: &[(usize, usize)]) -> Markup {
    let rows = group.row_levels();
    let y = Axis::nines("share of I/Os", NINES);
    let cells = at.iter().flat_map(|panel| group.select(panel));
    let ends = cells.flat_map(|cell| &cell.latency).filter(|point| y.holds(point.quantile));
    let ends = ends.map(|point| point.latency_us).filter(|v| v.is_finite() && *v > 0.0);
    let (low, high) =
        ends.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if high <= 0.0 {
        return html! { p.about { "No cell here has a distribution." } };
    }
    let unit = Unit::fitting(&measure("latency_us_p99").quantity, high);
    let x = Axis::log(&format!("latency, {}", unit.name), low / unit.size, high / unit.size);
    let (grid, width) = grid(at.len());
    html! {
        // All lines end at the top, where labels would have no room.
        (legend(group, &rows, false))
        (too_many(rows.len()))
        div.panels.(grid) {
            @for panel in at {
                @let named: Levels = panel.iter().filter(|l| !unnamed.contains(l)).copied().collect();
                @let name = group.label(&named);
                @let lines = distribution_lines(group, panel, &rows, unit, &y);
                figure.panel {
                    @if !name.is_empty() { h4 { (name) } }
                    (LinePlot {
                        title: &format!("Latencies {name}"),
                        description: "Cumulative distribution of latencies.",
                        x: &x, y: &y, lines: &lines, markers: false, labels: false,
                        width, height: height(width),
                    }.svg())
                }
            }
        }
    }
}

fn distribution_lines(
    group: &Group,
    at: &Levels,
    rows: &[Levels],
    unit: Unit,
    y: &Axis,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for (series, row) in rows.iter().take(LINES_MAX).enumerate() {
        let here = [at.as_slice(), row].concat();
        let Some(cell) = group.select(&here).find(|cell| !cell.latency.is_empty()) else {
            continue;
        };
        let shown = thinned(&cell.latency, POINTS_MAX).filter(|point| y.holds(point.quantile));
        let points = shown.map(|point| Point {
            x: point.latency_us / unit.size,
            y: point.quantile,
            ..Point::default()
        });
        let failed = if cell.is_sound() { "" } else { " (failed)" };
        let name = format!("{}{failed}", group.row_label(row));
        let tooltip = format!("{name}: {}", percentiles(cell, unit));
        lines.push(Line { name, series, points: points.collect(), tooltip });
    }
    lines
}

fn percentiles(cell: &Cell, unit: Unit) -> String {
    let named = [("latency_us_p50", "half"), ("latency_us_p99", "99 %")];
    let said: Vec<String> = named
        .iter()
        .filter_map(|(metric, share)| {
            let estimate = Estimate::of_cell(cell, metric)?;
            Some(format!("{share} within {}", unit.named_figure(estimate)))
        })
        .collect();
    said.join(", ")
}

/// At most `count` of the items, evenly, with the last.
fn thinned<T>(items: &[T], count: usize) -> impl Iterator<Item = &T> {
    let step = items.len().div_ceil(count).max(1);
    let last = items.len().saturating_sub(1);
    items.iter().enumerate().filter(move |(n, _)| n % step == 0 || *n == last).map(|(_, item)| item)
}

/// The rate of each round of each repeat, at the middle of the axis and of the averaged factors, behind a fold: whether
/// "steady" was.
pub fn rounds(group: &Group) -> Markup {
    let middle = group.middle();
    let rows = group.row_levels();
    let panels = group.panel_levels();
    let select = |panel: &Levels, row: &Levels| {
        let here = [panel.as_slice(), &middle, row].concat();
        group.select(&here).find(|cell| !cell.rounds.is_empty())
    };
    let shown: Vec<&Cell> =
        panels.iter().flat_map(|panel| rows.iter().filter_map(|row| select(panel, row))).collect();
    let points = || shown.iter().flat_map(|cell| cell.rounds.iter().flatten());
    let longest = points().map(|round| round.time_s).fold(0.0, f64::max);
    let fastest = points().map(|round| round.iops).fold(0.0, f64::max);
    if longest <= 0.0 || fastest <= 0.0 || panels.len() > FOLDED_PANELS_MAX {
        return html! {};
    }
    let (x, y) =
        (Axis::from_zero("seconds", longest, 6), Axis::from_zero("I/Os a second", fastest, 5));
    let lines_of = |panel: &Levels| -> Vec<Line> {
        let mut lines = Vec::new();
        for (series, row) in rows.iter().take(LINES_MAX).enumerate() {
            let Some(cell) = select(panel, row) else { continue };
            for (repeat, rounds) in cell.rounds.iter().enumerate() {
                let name = group.row_label(row);
                let counted = rounds.iter().filter(|round| round.counted).count();
                let tooltip = format!(
                    "{name}, repeat {}: {} rounds, of which the last {counted} count",
                    repeat + 1,
                    rounds.len()
                );
                let points = thinned(rounds, POINTS_MAX).map(|round| Point {
                    x: round.time_s,
                    y: round.iops,
                    ..Point::default()
                });
                lines.push(Line { name, series, points: points.collect(), tooltip });
            }
        }
        lines
    };
    let (grid, width) = grid(panels.len());
    html! {
        details.plate {
            summary { "Rounds: whether it was steady" }
            p.about {
                "A line for each repeat; the figures are of the last rounds of each. Of every cell they are in results.json."
                @if !middle.is_empty() { " Shown at " (group.label(&middle)) "." }
            }
            (legend(group, &rows, false))
            div.panels.(grid) {
                @for panel in &panels {
                    @let name = group.label(panel);
                    @let lines = lines_of(panel);
                    figure.panel {
                        @if !name.is_empty() { h4 { (name) } }
                        (LinePlot {
                            title: &format!("Rounds {name}"),
                            description: "The rate of each round, a line for each repeat.",
                            x: &x, y: &y, lines: &lines, markers: false, labels: false,
                            width, height: height(width),
                        }.svg())
                    }
                }
            }
        }
    }
}

/// Rate and share done over time, for cells that are operations.
pub fn progress(group: &Group) -> Markup {
    let cells: Vec<&Cell> =
        group.cells.iter().copied().filter(|cell| cell.progress.len() > 1).collect();
    if cells.is_empty() {
        return html! {};
    }
    let longest = cells.iter().flat_map(|cell| &cell.progress).map(|point| point.time_s);
    let longest = longest.filter(|time| time.is_finite()).fold(0.0, f64::max);
    let (unit, size) = match longest {
        t if t < 120.0 => ("seconds", 1.0),
        t if t < 7_200.0 => ("minutes", 60.0),
        _ => ("hours", 3_600.0),
    };
    let x = Axis::from_zero(unit, longest / size, 11);
    let line = |(series, cell): (usize, &&Cell), y: fn(&ProgressPoint) -> f64| {
        let levels = group.factors.iter().map(|factor| factor.level_of(cell));
        let name = levels.collect::<Vec<_>>().join(" · ");
        let name = if name.is_empty() { group.title.clone() } else { name };
        let points = thinned(&cell.progress, POINTS_MAX);
        let points: Vec<Point> = points
            .map(|point| Point { x: point.time_s / size, y: y(point), ..Point::default() })
            .collect();
        let took = cell.progress.last().map_or(0.0, |point| point.time_s);
        Line { tooltip: format!("{name}: {} in all", clock_time(took)), name, series, points }
    };
    let shown = || cells.iter().take(LINES_MAX).enumerate();
    let rates: Vec<Line> = shown().map(|c| line(c, |point| point.rate_mb_s)).collect();
    let shares: Vec<Line> = shown().map(|c| line(c, |point| point.done * 100.0)).collect();
    let fastest = rates.iter().flat_map(|l| &l.points).map(|p| p.y).filter(|y| y.is_finite());
    let rate = Axis::from_zero("rate, MB/s of one member", fastest.fold(0.0, f64::max), 5);
    let share = Axis::from_zero("done, %", 100.0, 6);
    let names: Vec<(usize, String)> = rates.iter().map(|l| (l.series, l.name.clone())).collect();
    let plot = |title, description, y, lines| LinePlot {
        title,
        description,
        x: &x,
        y,
        lines,
        width: 500.0,
        height: 290.0,
        markers: false,
        labels: false,
    };
    html! {
        div.plate {
            h3 { "Progress over time" }
            p.about { "Of the first repeat. A disk's inner tracks are slower than its outer ones, so rates fall." }
            @if names.len() > 1 { (ink::legend(&names, false)) }
            (too_many(cells.len()))
            div.panels.two {
                figure.panel { (plot("Rate over time", "A line for each operation.", &rate, &rates).svg()) }
                figure.panel {
                    (plot("Share done over time", "A line for each operation.", &share, &shares).svg())
                }
            }
        }
    }
}
