//! Lines over a numeric axis: load curves with whiskers, distributions, progress over time.
//!
//! Whiskers, not bands: eight bands over each other are mud. Where there is one plot its lines are
//! labelled at their right ends, moved apart where they would overlap, with a thin leader; plots that
//! stand in a grid share a legend instead (`ink::legend`).

use super::axis::Axis;
use super::{LETTER_HEIGHT, Px, ink, shortened, text_width};
use maud::{Markup, html};

/// A point of a line.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Along the x axis.
    pub x: f64,
    /// Along the y axis.
    pub y: f64,
    /// The interval's ends, if there is one.
    pub interval: Option<(f64, f64)>,
    /// What a tooltip says.
    pub tooltip: String,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name.
    pub name: String,
    /// Its number, for colour, dash and marker.
    pub series: usize,
    /// In the order of x.
    pub points: Vec<Point>,
    /// What a tooltip on the line itself says.
    pub tooltip: String,
}

/// A plot of lines.
pub struct LinePlot<'a> {
    /// What it shows, for those who can't see it.
    pub title: &'a str,
    /// More of that.
    pub description: &'a str,
    /// Rightwards.
    pub x: &'a Axis,
    /// Upwards.
    pub y: &'a Axis,
    /// The lines.
    pub lines: &'a [Line],
    /// Of the view box.
    pub width: f64,
    /// Of the view box.
    pub height: f64,
    /// Whether points are marked; not worth it where they are many.
    pub markers: bool,
    /// Whether lines are labelled at their ends.
    pub labels: bool,
}

/// The least distance between two labels' base lines.
const LABEL_DISTANCE: f64 = 13.0;
const _: () = assert!(LETTER_HEIGHT < LABEL_DISTANCE, "labels would overlap");
const LABEL_WIDTH_MAX: f64 = 190.0;

impl LinePlot<'_> {
    /// The SVG element.
    pub fn svg(&self) -> Markup {
        let label_width = match self.labels {
            true => {
                let widths = self.lines.iter().map(|line| text_width(&line.name));
                widths.fold(0.0, f64::max).min(LABEL_WIDTH_MAX) + 20.0
            }
            false => 8.0,
        };
        let tick_width = self.y.ticks.iter().map(|t| text_width(&t.label)).fold(0.0, f64::max);
        let (left, right) = (tick_width + 10.0, self.width - label_width);
        let (top, bottom) = (24.0, self.height - 38.0);
        let at_x = |value: f64| left + self.x.share(value) * (right - left);
        let at_y = |value: f64| bottom - self.y.share(value) * (bottom - top);
        let mut last_label_end = f64::NEG_INFINITY;
        html! {
            svg.plot role="img" viewBox={ "0 0 " (Px(self.width)) " " (Px(self.height)) }
                style={ "--width:" (Px(self.width)) "px" } {
                title { (self.title) }
                desc { (self.description) }
                text.axis-title x="0" y="12" { (self.y.title) }
                @for tick in &self.y.ticks {
                    @let y = at_y(tick.value);
                    line.grid x1=(Px(left)) x2=(Px(right)) y1=(Px(y)) y2=(Px(y)) {}
                    text.tick text-anchor="end" x=(Px(left - 6.0)) y=(Px(y + 4.0)) { (tick.label) }
                }
                @for tick in &self.x.ticks {
                    @let x = at_x(tick.value);
                    @let half = text_width(&tick.label) / 2.0;
                    line.tick-mark x1=(Px(x)) x2=(Px(x)) y1=(Px(bottom)) y2=(Px(bottom + 4.0)) {}
                    @if x - half > last_label_end + 4.0 {
                        @let middle = x.min(self.width - half);
                        text.tick text-anchor="middle" x=(Px(middle)) y=(Px(bottom + 16.0)) {
                            (tick.label)
                        }
                        @let () = last_label_end = middle + half;
                    }
                }
                line.axis x1=(Px(left)) x2=(Px(right)) y1=(Px(bottom)) y2=(Px(bottom)) {}
                text.axis-title text-anchor="end" x=(Px(right)) y=(Px(self.height - 6.0)) {
                    (self.x.title)
                }
                @for line in self.lines {
                    @let points = line.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite());
                    @let class = ink::class(line.series);
                    path.line.(class) stroke-dasharray=(ink::dash(line.series))
                        d=(path(points.clone().map(|p| (at_x(p.x), at_y(p.y))))) {
                        title { (line.tooltip) }
                    }
                    @if self.markers {
                        @for point in points {
                            @let (x, y) = (at_x(point.x), at_y(point.y));
                            @if let Some((low, high)) = point.interval {
                                @let (low, high) = (at_y(low), at_y(high));
                                @if (low - high).abs() > 8.0 {
                                    path.whisker.(class) d={ "M" (Px(x)) " " (Px(low)) "V" (Px(high)) } {}
                                }
                            }
                            path.mark.(class) d=(ink::marker(line.series, x, y)) {
                                title { (point.tooltip) }
                            }
                        }
                    }
                }
                @if self.labels {
                    @for (line, end, y) in self.label_places(at_x, at_y, top, bottom) {
                        path.leader d={
                            "M" (Px(end.0 + 4.0)) " " (Px(end.1)) "L" (Px(right + 12.0)) " " (Px(y))
                        } {}
                        text.label.(ink::class(line.series)) x=(Px(right + 15.0)) y=(Px(y + 4.0)) {
                            (shortened(&line.name, LABEL_WIDTH_MAX))
                        }
                    }
                }
            }
        }
    }

    /// Each line, its last point, and the height of its label.
    fn label_places(
        &self,
        at_x: impl Fn(f64) -> f64,
        at_y: impl Fn(f64) -> f64,
        top: f64,
        bottom: f64,
    ) -> Vec<(&Line, (f64, f64), f64)> {
        let mut places: Vec<(&Line, (f64, f64), f64)> = self
            .lines
            .iter()
            .filter_map(|line| {
                let last = line.points.iter().rfind(|p| p.x.is_finite() && p.y.is_finite())?;
                let end = (at_x(last.x), at_y(last.y));
                Some((line, end, end.1))
            })
            .collect();
        places.sort_by(|a, b| a.2.total_cmp(&b.2));
        let room = bottom + 14.0 - (top - 10.0);
        let distance = LABEL_DISTANCE.min(room / places.len().max(1) as f64);
        let mut lowest = top - 10.0;
        for place in &mut places {
            place.2 = place.2.max(lowest);
            lowest = place.2 + distance;
        }
        let mut highest = bottom + 14.0;
        for place in places.iter_mut().rev() {
            place.2 = place.2.min(highest);
            highest = place.2 - distance;
        }
        places
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        path.push(if path.is_empty() { 'M' } else { 'L' });
        path += &format!("{} {}", Px(x).text(), Px(y).text());
    }
    path
}
