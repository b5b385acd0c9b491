//! What tells series apart: colour, dash and marker together.
//!
//! A series keeps its number, hence its ink, through the whole page. There are ten colours; classes
//! `s0` to `s9` carry them (the style sheet has a light and a dark one of each, chosen so that those
//! with colour-blindness can tell neighbours apart). Dashes and markers run in other periods, so that
//! the eleventh series shares its colour with the first but neither marker nor dash.

use super::Px;
use maud::{Markup, html};

const COLOURS: usize = 10;
const DASHES: &[&str] = &["none", "7 3", "2 2.5", "8 3 2 3"];
const MARKERS: usize = 7;

/// The class with the series' colour.
pub fn class(series: usize) -> String {
    format!("s{}", series % COLOURS)
}

/// `stroke-dasharray` of the series.
pub fn dash(series: usize) -> &'static str {
    // The first four colours are the farthest apart, and many studies have no more: solid lines read
    // best.
    DASHES[match series {
        0..4 => 0,
        later => 1 + (later - 4) % 3,
    }]
}

/// The series' marker around a point, as path data.
pub fn marker(series: usize, x: f64, y: f64) -> String {
    let r = 3.1;
    let polygon = |corners: &[(f64, f64)]| {
        let mut path = String::new();
        for (number, (dx, dy)) in corners.iter().enumerate() {
            let command = if number == 0 { 'M' } else { 'L' };
            path += &format!("{command}{} {}", Px(x + dx * r).text(), Px(y + dy * r).text());
        }
        path + "Z"
    };
    match series % MARKERS {
        0 => {
            let (left, right) = (Px(x - r).text(), Px(x + r).text());
            let y = Px(y).text();
            format!("M{left} {y}A{r} {r} 0 1 0 {right} {y}A{r} {r} 0 1 0 {left} {y}Z")
        }
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)]),
        3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => polygon(&[(0.0, 1.2), (1.15, -0.9), (-1.15, -0.9)]),
        5 => polygon(&[
            (-0.4, -1.2),
            (0.4, -1.2),
            (0.4, -0.4),
            (1.2, -0.4),
            (1.2, 0.4),
            (0.4, 0.4),
            (0.4, 1.2),
            (-0.4, 1.2),
            (-0.4, 0.4),
            (-1.2, 0.4),
            (-1.2, -0.4),
            (-0.4, -0.4),
        ]),
        _ => polygon(&[(-1.2, -1.0), (0.0, -0.35), (1.2, -1.0), (0.6, 1.1), (-0.6, 1.1)]),
    }
}

/// A list of series for plots that share it. `markers` as in the plots.
pub fn legend(series: &[(usize, String)], markers: bool) -> Markup {
    html! {
        ul.legend {
            @for (number, name) in series {
                li {
                    svg viewBox="0 0 30 12" width="30" height="12" aria-hidden="true" {
                        path.line.(class(*number)) d="M1 6H29" stroke-dasharray=(dash(*number)) {}
                        @if markers { path.mark.(class(*number)) d=(marker(*number, 15.0, 6.0)) {} }
                    }
                    (name)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two layouts with one look would be read as one.
    #[test]
    fn twenty_series_look_different() {
        let look = |series: usize| (class(series), dash(series), series % MARKERS);
        for a in 0..20 {
            for b in 0..a {
                assert_ne!(look(a), look(b), "{a} and {b}");
            }
        }
    }
}
