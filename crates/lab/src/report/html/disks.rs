//! How busy each disk was: the disks' view of the load.
//!
//! A layout that leaves disks idle, or a cache that answers instead of them, shows here at once.

use super::panels::grid;
use crate::report::plot::heat::HeatPlot;
use crate::report::shape::{Group, Levels};
use maud::{Markup, html};

/// How busy each disk was, at the middle of the axis and of the averaged factors.
pub fn disks(group: &Group) -> Markup {
    let mut names: Vec<String> =
        group.cells.iter().flat_map(|cell| cell.disk_utilisation.keys().cloned()).collect();
    names.sort_by_key(|name| natural_key(name));
    names.dedup();
    if names.is_empty() {
        return html! {};
    }
    let middle = group.middle();
    let panels = group.panel_levels();
    let (stem, columns) = stem_and_numbers(&names);
    let (grid, width) = grid(panels.len());
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
        div.plate {
            h3 { "How busy each disk was" }
            p.about {
                "Per cent of the measured time in which the disk had work."
                @if !middle.is_empty() { " Shown at " (group.label(&middle)) "." }
                " Disks far apart in one row mean that the load is not spread."
            }
            div.panels.(grid) {
                @for panel in &panels {
                    @let name = group.label(panel);
                    figure.panel {
                        @if !name.is_empty() { h4 { (name) } }
                        (HeatPlot {
                            title: &format!("How busy each disk was {name}"),
                            description: "A row for each line of the table, a field for each disk, in per cent.",
                            columns: &columns, columns_title: &stem, rows: &shares(panel), width,
                        }.svg())
                    }
                }
            }
        }
    }
}

/// `disk0`, `disk1`, … as `disk` and `0`, `1`, …; other names as they are.
fn stem_and_numbers(names: &[String]) -> (String, Vec<String>) {
    let stem = names[0].trim_end_matches(|c: char| c.is_ascii_digit());
    let numbers: Option<Vec<String>> = names
        .iter()
        .map(|name| name.strip_prefix(stem).map(str::to_owned))
        .map(|rest| rest.filter(|r| !r.is_empty() && r.bytes().all(|b| b.is_ascii_digit())))
        .collect();
    match numbers {
        Some(numbers) if names.len() > 1 => (stem.to_owned(), numbers),
        _ => ("disk".into(), names.to_vec()),
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
