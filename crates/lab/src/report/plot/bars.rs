//! Horizontal bars (or dots) with intervals: a row each, name on the left, figure on the right.
//!
//! Horizontal because names of layouts are long. A bar's length is its value, so bars are drawn only
//! on an axis that begins at zero; on any other a dot marks the place. The whisker is the confidence
//! interval. Headings part the rows into groups.

use super::axis::Axis;
use super::{Px, shortened, text_width};
use maud::{Markup, html};

/// A row of the plot.
#[derive(Clone, Debug)]
pub enum Row {
    /// A line of text above further rows.
    Heading(String),
    /// A bar or dot.
    Bar {
        /// On the left.
        label: String,
        /// Value and interval's ends, in the axis's unit; `None` draws only the texts.
        value: Option<(f64, f64, f64)>,
        /// On the right: `412 ±11`.
        figure: String,
        /// What a tooltip says.
        tooltip: String,
    },
}

/// A plot of bars.
pub struct BarPlot<'a> {
    /// What it shows, for those who can't see it.
    pub title: &'a str,
    /// More of that.
    pub description: &'a str,
    /// Rightwards.
    pub axis: &'a Axis,
    /// From the top.
    pub rows: &'a [Row],
    /// Of the view box.
    pub width: f64,
    /// Of the names and of the figures, see [`widths`]: the same in all plots that stand together, so
    /// that their axes align.
    pub widths: (f64, f64),
    /// A value to compare with, a thin line across.
    pub reference: Option<f64>,
}

const ROW_HEIGHT: f64 = 22.0;
const BAR_HEIGHT: f64 = 13.0;

/// How wide the widest name and the widest figure of all these plots are.
pub fn widths(plots: &[Vec<Row>]) -> (f64, f64) {
    plots.iter().flatten().fold((0.0, 0.0), |(names, figures), row| match row {
        Row::Bar { label, figure, .. } => {
            (text_width(label).max(names), text_width(figure).max(figures))
        }
        Row::Heading(_) => (names, figures),
    })
}

impl BarPlot<'_> {
    /// The SVG element.
    pub fn svg(&self) -> Markup {
        let (label_width, figure_width) = (self.widths.0.min(self.width * 0.36), self.widths.1);
        let (left, right) = (label_width + 8.0, self.width - figure_width - 14.0);
        let top = 4.0;
        let bottom = top + ROW_HEIGHT * self.rows.len() as f64;
        let height = bottom + 34.0;
        let at = |value: f64| left + self.axis.share(value) * (right - left);
        let mut last_label_end = f64::NEG_INFINITY;
        html! {
            svg.plot role="img" viewBox={ "0 0 " (Px(self.width)) " " (Px(height)) }
                style={ "--width:" (Px(self.width)) "px" } {
                title { (self.title) }
                desc { (self.description) }
                @for tick in &self.axis.ticks {
                    @let x = at(tick.value);
                    @let half = text_width(&tick.label) / 2.0;
                    line.grid x1=(Px(x)) x2=(Px(x)) y1=(Px(top)) y2=(Px(bottom)) {}
                    @if x - half > last_label_end + 5.0 {
                        text.tick text-anchor="middle" x=(Px(x)) y=(Px(bottom + 14.0)) { (tick.label) }
                        @let () = last_label_end = x + half;
                    }
                }
                text.axis-title text-anchor="end" x=(Px(right)) y=(Px(height - 4.0)) {
                    (self.axis.title)
                }
                @if let Some(reference) = self.reference {
                    @let x = at(reference);
                    line.reference x1=(Px(x)) x2=(Px(x)) y1=(Px(top)) y2=(Px(bottom)) {}
                }
                @for (number, row) in self.rows.iter().enumerate() {
                    @let middle = top + ROW_HEIGHT * (number as f64 + 0.5);
                    @match row {
                        Row::Heading(text) => {
                            text.heading x="0" y=(Px(middle + 5.0)) { (shortened(text, self.width)) }
                        }
                        Row::Bar { label, value, figure, tooltip } => {
                            g {
                                title { (tooltip) }
                                text.row-label text-anchor="end" x=(Px(left - 7.0)) y=(Px(middle + 4.0)) {
                                    (shortened(label, label_width))
                                }
                                @if let Some((value, low, high)) = *value {
                                    (self.mark(middle, left, at(value), at(low), at(high)))
                                }
                                text.figure text-anchor="end" x=(Px(self.width - 1.0)) y=(Px(middle + 4.0)) {
                                    (figure)
                                }
                            }
                        }
                    }
                }
                @if self.axis.begins_at_zero() {
                    line.axis x1=(Px(left)) x2=(Px(left)) y1=(Px(top)) y2=(Px(bottom)) {}
                }
            }
        }
    }

    fn mark(&self, middle: f64, left: f64, value: f64, low: f64, high: f64) -> Markup {
        let whisker = |end: f64| format!("M{} {}v6", Px(end).text(), Px(middle - 3.0).text());
        html! {
            @if self.axis.begins_at_zero() {
                rect.bar x=(Px(left)) y=(Px(middle - BAR_HEIGHT / 2.0)) width=(Px(value - left))
                    height=(Px(BAR_HEIGHT)) rx="1.5" {}
            } @else {
                circle.dot cx=(Px(value)) cy=(Px(middle)) r="4" {}
            }
            @if high - low > if self.axis.begins_at_zero() { 1.0 } else { 8.0 } {
                path.interval d={
                    "M" (Px(low)) " " (Px(middle)) "H" (Px(high)) (whisker(low)) (whisker(high))
                } {}
            }
        }
    }
}
