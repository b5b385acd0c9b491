//! A page that shows distributions of response times over each other: of a model, and of the drive it is a model of.
//!
//! Twice: as shares of all, where the bulk is seen, and with each further nine as high as the last, where the slowest are.

use super::html::page;
use super::plot::axis::Axis;
use super::plot::ink;
use super::plot::lines::{Line, LinePlot, Point};
use maud::{Markup, html};

/// Points of a curve: more than a plot has pixels for is waste.
pub const CURVE_POINTS: usize = 240;
const NINES: u32 = 3;
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;

/// A distribution.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Whose.
    pub name: String,
    /// Shares and the times that they don't exceed, ms; both rising.
    pub points: Vec<(f64, f64)>,
}

/// What stands on the page.
#[derive(Clone, Debug)]
pub struct DistributionPage {
    /// What was asked.
    pub title: String,
    /// How it was answered, in a sentence or two.
    pub about: String,
    /// Names of the columns of figures, the first that of the rows.
    pub columns: Vec<String>,
    /// Figures: a name, and one for each further column.
    pub rows: Vec<Vec<String>>,
    /// The distributions.
    pub curves: Vec<Curve>,
}

impl DistributionPage {
    /// The page as HTML, which loads nothing from anywhere.
    pub fn html(&self) -> String {
        let body = html! {
            main {
                header {
                    p.eyebrow { "Spindle · a recorded load on a simulated drive" }
                    h1 { (self.title) }
                    p.question { (self.about) }
                }
                (self.figures())
                (self.plots())
            }
        };
        page(&self.title, &html! {}, &body)
    }

    fn figures(&self) -> Markup {
        html! {
            table.figures {
                thead { tr { @for (n, name) in self.columns.iter().enumerate() {
                    @if n == 0 { th scope="col" { (name) } } @else { th.n scope="col" { (name) } }
                } } }
                tbody { @for row in &self.rows { tr {
                    @for (n, text) in row.iter().enumerate() {
                        @if n == 0 { th scope="row" { (text) } } @else { td.n { (text) } }
                    }
                } } }
            }
        }
    }

    fn plots(&self) -> Markup {
        let times = self.curves.iter().flat_map(|curve| &curve.points).map(|(_, ms)| *ms);
        let (low, high) = times
            .filter(|ms| ms.is_finite() && *ms > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), ms| (low.min(ms), high.max(ms)));
        if high <= 0.0 {
            return html! { p.about { "Nothing took any time." } };
        }
        let tail = Axis::nines("share of requests", NINES);
        let bulk_ms =
            self.curves.iter().filter_map(|curve| within(curve, 0.995)).fold(0.0, f64::max);
        let series: Vec<_> =
            self.curves.iter().map(|curve| curve.name.clone()).enumerate().collect();
        let names = (
            Axis::from_zero("response time, ms", bulk_ms.max(low), 8),
            Axis::linear("share of requests", 0.0, 1.0, 5),
        );
        let tail_x = Axis::log("response time, ms", low, high.max(low * 1.1));
        html! {
            (ink::legend(&series, false))
            div.panels.one {
                figure.panel {
                    h4 { "All requests" }
                    (self.plot("Distributions of response times", &names.0, &names.1))
                }
                figure.panel {
                    h4 { "The slowest: each further nine is as high as the last" }
                    (self.plot("Tails of response times", &tail_x, &tail))
                }
            }
        }
    }

    fn plot(&self, title: &str, x: &Axis, y: &Axis) -> Markup {
        let lines: Vec<Line> = self
            .curves
            .iter()
            .enumerate()
            .map(|(series, curve)| Line {
                name: curve.name.clone(),
                series,
                points: curve
                    .points
                    .iter()
                    .filter(|(share, ms)| y.holds(*share) && x.holds(*ms))
                    .map(|(share, ms)| Point { x: *ms, y: *share, ..Point::default() })
                    .collect(),
                tooltip: curve.name.clone(),
            })
            .collect();
        LinePlot {
            title,
            description: "Cumulative distribution of response times.",
            x,
            y,
            lines: &lines,
            width: WIDTH,
            height: HEIGHT,
            markers: false,
            labels: false,
        }
        .svg()
    }
}

/// The time that this share does not exceed.
fn within(curve: &Curve, share: f64) -> Option<f64> {
    curve.points.iter().find(|(at, _)| *at >= share).or(curve.points.last()).map(|(_, ms)| *ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_figures_and_both_curves_and_nothing_foreign_is_markup() {
        let curve = |name: &str, by: f64| Curve {
            name: name.to_owned(),
            points: (1..=100).map(|n| (f64::from(n) / 100.0, f64::from(n) * by)).collect(),
        };
        let page = DistributionPage {
            title: "disk <b>under</b> load".to_owned(),
            about: "so".to_owned(),
            columns: vec!["ms".to_owned(), "simulated".to_owned()],
            rows: vec![vec!["mean".to_owned(), "7.25".to_owned()]],
            curves: vec![curve("simulated", 0.1), curve("measured", 0.12)],
        };
        let text = page.html();
        assert!(text.contains("disk &lt;b&gt;under&lt;/b&gt; load") && text.contains("7.25"));
        assert_eq!(text.matches("role=\"img\"").count(), 2);
        assert!(text.contains("measured"));
        let empty = DistributionPage { curves: Vec::new(), ..page };
        assert!(empty.html().contains("Nothing took any time"));
    }
}
