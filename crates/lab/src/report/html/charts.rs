//! The plots of a group of workloads, and the plot of what each factor does.
//!
//! Which plot shows which metric: over an axis, lines, a line for each row; else bars with intervals.
//! The group's primary metric comes first with its table; then latency (its 99th percentile, and
//! distributions at the middle of the axis), processor time, how busy the disks were, and for
//! operations rate and share done over time. All panels of one metric share their axes, so that they
//! can be compared; a legend stands above panels that share it. What is averaged over is said, and
//! every panel behind the average stands behind a fold.

use super::tables;
use crate::report::estimate::Estimate;
use crate::report::figures::{Unit, capitalised, clock_time, factor_label, measure, percent};
use crate::report::plot::axis::Axis;
use crate::report::plot::bars::{BarPlot, Row};
use crate::report::plot::heat::HeatPlot;
use crate::report::plot::ink;
use crate::report::plot::lines::{Line, LinePlot, Point};
use crate::report::shape::{Group, Levels};
use crate::results::Cell;
use maud::{Markup, html};

/// Panels behind one fold: a study with more has them in its table only.
const FOLDED_PANELS_MAX: usize = 64;
/// Lines in one plot; the rest are in the table.
const LINES_MAX: usize = 14;
/// Points of a distribution or a progress line: more than a plot has pixels for is waste.
const POINTS_MAX: usize = 160;
/// How many nines a distribution's axis has.
const NINES: u32 = 3;

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
            (metric(group, group.primary(), confidence))
            @if group.metrics.is_empty() { p.failed { "No cell of this workload has figures." } }
            @else { (tables::figures(group)) (table_note(group)) }
            (progress(group))
            @if let Some(tail) = tail { (metric(group, tail, confidence)) }
            (distributions(group))
            @if metrics.contains(&"cpu_us_per_io") { (metric(group, "cpu_us_per_io", confidence)) }
            (disks(group))
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
            @if pivot { (unit.titled(&primary.label)) ". " }
            @if rows > 1 && primary.better.is_some() {
                "Bold: the best of its column, and every other whose interval overlaps it. "
            }
            @if group.cells.iter().any(|cell| cell.error.is_some()) {
                "*: some of the cells that it is over failed. "
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
        h3 {
            (measure.label)
            @if lines { " over " (factor_label(&group.factors[group.axis.unwrap_or(0)].name)) }
        }
        p.about {
            @if let Some(better) = measure.better { (capitalised(better)) "; w" } @else { "W" }
            "hiskers are " (percent(confidence)) " confidence intervals."
            @for &f in &over { " Geometric mean over " (group.averaged_label(f)) "." }
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

/// The class of the grid that suits so many panels.
fn grid(panels: usize, narrow: bool) -> &'static str {
    match panels {
        0 | 1 => "one",
        _ if narrow => "many",
        _ => "two",
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
                    let estimate = group.estimate(&here, metric)?;
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
    html! {
        @if !single { (legend(group, &rows, true)) }
        (too_many(rows.len()))
        div.panels.(grid(at.len(), true)) {
            @for (panel, lines) in at.iter().zip(&plots) {
                @let name = group.label(panel);
                figure.panel {
                    @if !name.is_empty() { h4 { (name) } }
                    (LinePlot {
                        title: &format!("{} {name}", measure.label),
                        description: &format!(
                            "{} over {}, a line for each of {} {}.", measure.label,
                            factor_label(&factor.name), lines.len(), rows_name(group)),
                        x: &x, y: &y, lines, markers: true, labels: single,
                        width: if single { 680.0 } else { 340.0 },
                        height: if single { 340.0 } else { 250.0 },
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
    group.rows.map_or("cells".into(), |f| format!("{}s", factor_label(&group.factors[f].name)))
}

fn legend(group: &Group, rows: &[Levels], markers: bool) -> Markup {
    if rows.len() < 2 {
        return html! {};
    }
    let series = rows.iter().take(LINES_MAX).enumerate();
    let series: Vec<_> = series.map(|(number, row)| (number, group.row_label(row))).collect();
    ink::legend(&series, markers)
}

fn too_many(rows: usize) -> Markup {
    html! {
        @if rows > LINES_MAX {
            p.about { "The first " (LINES_MAX) " of " (rows) "; the others are in the table." }
        }
    }
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
                let figure = estimate.map_or("failed".into(), |e| unit.figure(e));
                let label = group.row_label(row);
                let tooltip = match estimate {
                    Some(estimate) => format!("{label}: {}", unit.named_figure(estimate)),
                    None => format!("{label}: no figures"),
                };
                let scaled = |e: Estimate| (e.mean / unit.size, e.low / unit.size, e.high / unit.size);
                Some(Row::Bar { label, value: estimate.map(scaled), figure, tooltip })
            };
            group.row_levels().iter().filter_map(bar).collect()
        })
        .collect();
    let axis = bar_axis(&unit.titled(&measure.label), &plots, if at.len() == 1 { 8 } else { 5 });
    html! {
        div.panels.(grid(at.len(), false)) {
            @for (panel, rows) in at.iter().zip(&plots) {
                @let name = group.label(panel);
                figure.panel {
                    @if !name.is_empty() { h4 { (name) } }
                    (BarPlot {
                        title: &format!("{} {name}", measure.label),
                        description: &format!(
                            "{} with confidence intervals, a bar for each of {} {}.",
                            measure.label, rows.len(), rows_name(group)),
                        axis: &axis, rows, reference: None,
                        width: if at.len() == 1 { 760.0 } else { 470.0 },
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

/// Distributions of latency at the middle of the axis and of the averaged factors; the others behind
/// a fold.
fn distributions(group: &Group) -> Markup {
    if group.cells.iter().all(|cell| cell.latency.is_empty()) {
        return html! {};
    }
    let middle = group.middle();
    let shown: Vec<Levels> =
        group.panel_levels().iter().map(|panel| [panel.as_slice(), &middle].concat()).collect();
    let factors: Vec<usize> = group
        .panels
        .iter()
        .chain(&group.averaged)
        .chain(group.axis.as_slice())
        .copied()
        .collect();
    let all = group.combinations(&factors);
    let ends = group.cells.iter().flat_map(|cell| &cell.latency).map(|point| point.latency_us);
    let ends = ends.filter(|latency| latency.is_finite() && *latency > 0.0);
    let (low, high) =
        ends.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    if high <= 0.0 {
        return html! {};
    }
    let unit = Unit::fitting(&measure("latency_us_p99").quantity, high);
    let x = Axis::log(&format!("latency, {}", unit.name), low / unit.size, high / unit.size);
    html! {
        h3 { "Distribution of latencies" }
        p.about {
            "The share of I/Os that took no longer. Each further nine of the vertical axis is as high \
             as the last, so the tail can be seen; farther left is better."
            @if !middle.is_empty() { " Shown at " (group.label(&middle)) "." }
        }
        (distribution_panels(group, &shown, &middle, &x, unit))
        @if all.len() > shown.len() && all.len() <= FOLDED_PANELS_MAX {
            details {
                summary { "All " (all.len()) " distributions" }
                (distribution_panels(group, &all, &[], &x, unit))
            }
        }
    }
}

fn distribution_panels(
    group: &Group,
    at: &[Levels],
    unnamed: &[(usize, usize)],
    x: &Axis,
    unit: Unit,
) -> Markup {
    let rows = group.row_levels();
    let y = Axis::nines("share of I/Os", NINES);
    let single = at.len() == 1;
    html! {
        @if !single { (legend(group, &rows, false)) }
        (too_many(rows.len()))
        div.panels.(grid(at.len(), true)) {
            @for panel in at {
                @let named: Levels = panel.iter().filter(|l| !unnamed.contains(l)).copied().collect();
                @let name = group.label(&named);
                @let lines = distribution_lines(group, panel, &rows, unit);
                figure.panel {
                    @if !name.is_empty() { h4 { (name) } }
                    (LinePlot {
                        title: &format!("Latencies {name}"),
                        description: "Cumulative distribution of latencies.",
                        x, y: &y, lines: &lines, markers: false, labels: single,
                        width: if single { 680.0 } else { 340.0 },
                        height: if single { 340.0 } else { 250.0 },
                    }.svg())
                }
            }
        }
    }
}

fn distribution_lines(group: &Group, at: &Levels, rows: &[Levels], unit: Unit) -> Vec<Line> {
    let mut lines = Vec::new();
    for (series, row) in rows.iter().take(LINES_MAX).enumerate() {
        let here = [at.as_slice(), row].concat();
        let Some(cell) = group.select(&here).find(|cell| !cell.latency.is_empty()) else {
            continue;
        };
        let points = thinned(&cell.latency, POINTS_MAX).map(|point| Point {
            x: point.latency_us / unit.size,
            y: point.quantile,
            ..Point::default()
        });
        let name = group.row_label(row);
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

/// Rate and share done over time, for cells that are operations.
fn progress(group: &Group) -> Markup {
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
    let x = Axis::from_zero(unit, longest / size, 8);
    let line = |(series, cell): (usize, &&Cell), y: fn(&crate::results::ProgressPoint) -> f64| {
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
        width: 460.0,
        height: 280.0,
        markers: false,
        labels: false,
    };
    html! {
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

/// How busy each disk was, at the middle of the axis and of the averaged factors.
fn disks(group: &Group) -> Markup {
    let mut names: Vec<String> =
        group.cells.iter().flat_map(|cell| cell.disk_utilisation.keys().cloned()).collect();
    names.sort_by_key(|name| natural_key(name));
    names.dedup();
    if names.is_empty() {
        return html! {};
    }
    let middle = group.middle();
    let panels = group.panel_levels();
    let rows = group.row_levels();
    let shares = |panel: &Levels| -> Vec<(String, Vec<Option<f64>>)> {
        let row = |row: &Levels| {
            let here = [panel.as_slice(), &middle, row].concat();
            let cell = group.select(&here).next();
            let share = |name: &String| cell?.disk_utilisation.get(name).copied();
            (group.row_label(row), names.iter().map(share).collect())
        };
        rows.iter().map(row).collect()
    };
    html! {
        h3 { "How busy each disk was" }
        p.about {
            "Per cent of the measured time in which the disk had work."
            @if !middle.is_empty() { " Shown at " (group.label(&middle)) "." }
            " Disks far apart in one row mean that the load is not spread."
        }
        div.panels.(grid(panels.len(), false)) {
            @for panel in &panels {
                @let name = group.label(panel);
                figure.panel {
                    @if !name.is_empty() { h4 { (name) } }
                    (HeatPlot {
                        title: &format!("How busy each disk was {name}"),
                        description: "A row for each line of the table, a field for each disk, in per cent.",
                        columns: &names, columns_title: "disk", rows: &shares(panel),
                        width: if panels.len() == 1 { 760.0 } else { 470.0 },
                    }.svg())
                }
            }
        }
    }
}

/// Orders `disk2` before `disk10`: text and numbers in turn.
fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut key = vec![(String::new(), 0_u64)];
    for letter in name.chars() {
        let last = key.last_mut().expect("never empty");
        match letter.to_digit(10) {
            Some(digit) => last.1 = last.1.saturating_mul(10).saturating_add(digit.into()),
            None if last.1 == 0 => last.0.push(letter),
            None => key.push((letter.to_string(), 0)),
        }
    }
    key
}

/// Whether any group has factors to compare.
pub fn has_effects(groups: &[Group]) -> bool {
    groups.iter().any(|group| group.factors.len() > 1 && group.largest(group.primary()) > 0.0)
}

/// What each factor does to each group's primary metric: the mean at each of its levels over all
/// other factors.
pub fn effects(groups: &[Group]) -> Markup {
    if !has_effects(groups) {
        return html! {};
    }
    let shown = groups.iter().filter(|g| g.factors.len() > 1 && g.largest(g.primary()) > 0.0);
    html! {
        section #effects {
            h2 { "What each factor does" }
            p.about {
                "The geometric mean at each level over all levels of the other factors, the factor of \
                 the largest effect first. The dashed line is the mean of all cells. Whiskers, as \
                 elsewhere, are the uncertainty of measuring, not the spread between cells."
            }
            @for group in shown { (effects_of(group)) }
        }
    }
}

fn effects_of(group: &Group) -> Markup {
    let metric = group.primary();
    let measure = measure(metric);
    let unit = Unit::fitting(&measure.quantity, group.largest(metric));
    let mut factors: Vec<usize> = (0..group.factors.len()).collect();
    factors.sort_by(|&a, &b| group.importance(b).total_cmp(&group.importance(a)));
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for f in factors {
        let factor = &group.factors[f];
        let ratio = crate::report::figures::significant(group.importance(f), 3);
        let name = capitalised(&factor_label(&factor.name));
        rows.push(Row::Heading(format!("{name}: ×{ratio} from lowest to highest")));
        for level in 0..factor.levels.len() {
            let Some(estimate) = group.estimate(&[(f, level)], metric) else { continue };
            let (mean, low, high) =
                (estimate.mean / unit.size, estimate.low / unit.size, estimate.high / unit.size);
            values.extend([mean, low, high]);
            rows.push(Row::Bar {
                label: factor.levels[level].clone(),
                value: Some((mean, low, high)),
                figure: unit.figure(estimate),
                tooltip: format!("{}: {}", factor.level_label(level), unit.named_figure(estimate)),
            });
        }
    }
    let positive = values.iter().copied().filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let title = unit.titled(&measure.label);
    // Effects are ratios: equal ones shall look equal.
    let axis = match values.iter().all(|value| *value > 0.0) {
        true => Axis::log(&title, low, high),
        false => Axis::for_values(&title, values.iter().copied(), 8),
    };
    let reference = group.estimate(&[], metric).map(|estimate| estimate.mean / unit.size);
    html! {
        h3 { (capitalised(&group.title)) ": " (measure.label) }
        div.panels.one {
            figure.panel {
                (BarPlot {
                    title: &format!("What each factor does to {}", measure.label),
                    description: "Means at each level of each factor, with intervals.",
                    axis: &axis, rows: &rows, reference, width: 760.0,
                }.svg())
            }
        }
    }
}
