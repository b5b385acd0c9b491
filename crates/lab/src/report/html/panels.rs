//! Panels of plots: how many, how large, and what stands above those that share their lines.

use crate::report::plot::ink;
use crate::report::shape::{Group, Levels};
use maud::{Markup, html};

/// Panels behind one fold: a study with more has them in its table only.
pub const FOLDED_PANELS_MAX: usize = 64;
/// Lines in one plot; the rest are in the table.
pub const LINES_MAX: usize = 14;
/// The class of the grid that suits so many panels, and a panel's width in it.
pub fn grid(panels: usize) -> (&'static str, f64) {
    match panels {
        0 | 1 => ("one", 720.0),
        2 | 4 => ("two", 500.0),
        _ => ("many", 345.0),
    }
}

/// The height that suits a plot of lines.
pub fn height(width: f64) -> f64 {
    150.0 + width * 0.28
}

/// The legend of panels that share their lines; none for one line.
pub fn legend(group: &Group, rows: &[Levels], markers: bool) -> Markup {
    if rows.len() < 2 {
        return html! {};
    }
    let series = rows.iter().take(LINES_MAX).enumerate();
    let series: Vec<_> = series.map(|(number, row)| (number, group.row_label(row))).collect();
    ink::legend(&series, markers)
}

/// Says that there are more lines than are drawn.
pub fn too_many(rows: usize) -> Markup {
    html! {
        @if rows > LINES_MAX {
            p.about { "The first " (LINES_MAX) " of " (rows) "; the others are in the table." }
        }
    }
}
