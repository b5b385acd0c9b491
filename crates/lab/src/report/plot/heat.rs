//! A grid of shares, 0 to 1, darker for more: how busy each disk was.
//!
//! One hue, its strength the share, and the number in each field where there is room, so that nobody
//! has to judge a shade. A missing field is blank: that layout doesn't have the disk.

use super::{Px, shortened, text_width};
use crate::report::figures::percent;
use maud::{Markup, html};

/// A grid of shares.
pub struct HeatPlot<'a> {
    /// What it shows, for those who can't see it.
    pub title: &'a str,
    /// More of that.
    pub description: &'a str,
    /// Names over the columns.
    pub columns: &'a [String],
    /// What the columns are, in a word.
    pub columns_title: &'a str,
    /// Name and fields of each row, as many as columns.
    pub rows: &'a [(String, Vec<Option<f64>>)],
    /// Of the view box.
    pub width: f64,
}

const ROW_HEIGHT: f64 = 22.0;
const FIELD_WIDTH_MAX: f64 = 46.0;
/// From this width on a field has room for `100`.
const NUMBER_WIDTH: f64 = 20.0;

impl HeatPlot<'_> {
    /// The SVG element.
    pub fn svg(&self) -> Markup {
        let labels = self.rows.iter().map(|(label, _)| text_width(label));
        let label_width = labels.fold(0.0, f64::max).min(self.width * 0.3);
        let left = label_width + 8.0;
        let room = (self.width - left) / self.columns.len().max(1) as f64;
        let field = room.min(FIELD_WIDTH_MAX);
        let top = 32.0;
        let height = top + ROW_HEIGHT * self.rows.len() as f64 + 2.0;
        let mut last_label_end = f64::NEG_INFINITY;
        html! {
            svg.plot role="img" viewBox={ "0 0 " (Px(self.width)) " " (Px(height)) }
                style={ "--width:" (Px(self.width)) "px" } {
                title { (self.title) }
                desc { (self.description) }
                text.axis-title x=(Px(left)) y="11" { (self.columns_title) }
                @for (number, column) in self.columns.iter().enumerate() {
                    @let middle = left + field * (number as f64 + 0.5);
                    @let name = shortened(column, (field - 2.0).max(30.0));
                    @let half = text_width(&name) / 2.0;
                    @if middle - half > last_label_end + 2.0 && middle + half <= self.width {
                        text.tick text-anchor="middle" x=(Px(middle)) y="26" { (name) }
                        @let () = last_label_end = middle + half;
                    }
                }
                @for (row, (label, fields)) in self.rows.iter().enumerate() {
                    @let y = top + ROW_HEIGHT * row as f64;
                    text.row-label text-anchor="end" x=(Px(left - 7.0)) y=(Px(y + 14.5)) {
                        (shortened(label, label_width))
                    }
                    @for (column, share) in fields.iter().enumerate() {
                        @if let Some(share) = share.filter(|share| share.is_finite()) {
                            (self.field(left + field * column as f64, y, field, share, label, column))
                        }
                    }
                }
            }
        }
    }

    fn field(&self, x: f64, y: f64, width: f64, share: f64, row: &str, column: usize) -> Markup {
        let strength = 0.06 + 0.94 * share.clamp(0.0, 1.0);
        let class = if strength > 0.55 { "on-strong" } else { "on-weak" };
        html! {
            g {
                title { (row) ", " (self.columns[column]) ": " (percent(share)) }
                rect.heat x=(Px(x + 0.75)) y=(Px(y + 0.75)) width=(Px(width - 1.5))
                    height=(Px(ROW_HEIGHT - 1.5)) rx="2" fill-opacity=(format!("{strength:.2}")) {}
                @if width >= NUMBER_WIDTH {
                    text.(class) text-anchor="middle" x=(Px(x + width / 2.0)) y=(Px(y + 15.0)) {
                        (format!("{:.0}", share * 100.0))
                    }
                }
            }
        }
    }
}
