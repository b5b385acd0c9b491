//! What was run, and what the layouts are worth beside their speed: for the terminal, the page and the CSV alike.

use super::figures::{factor_label, significant};
use crate::duration;
use crate::metrics::{quantity, quantity_with_interval};
use crate::moment;
use crate::results::{Cell, LayoutFigures, Ranked, Ranking, Results};
use crate::study::{LAYOUT, LOAD};
use std::collections::BTreeMap;

/// A chance below this is no figure any more: the assumptions are off by more.
const CHANCE_MIN: f64 = 1e-9;
/// A range whose ends lie no farther apart than by this factor is not shown: it is what the figure's digits say.
const RANGE_NARROW: f64 = 1.1;

/// Parameters that a stream has, and nothing else.
const STREAM: [&str; 2] = ["op", "streams"];
/// Where streams are, which decides what disks that turn give, and of what one is compared with several.
const PLACE_OF_STREAMS: &str = "one from the volume's start, several each in a part of it; a hard disk is fastest at its start, and half as fast at its end";

/// The parameters that all cells of a workload share, a line a workload: what a table of cells does not show. Behind them what
/// the loads of operations were asked.
pub fn fixed_parameters(results: &Results) -> Vec<(String, Vec<(String, String)>)> {
    let mut workloads: Vec<(&str, Vec<&Cell>)> = Vec::new();
    for cell in &results.cells {
        match workloads.iter_mut().find(|(name, _)| *name == cell.workload) {
            Some((_, cells)) => cells.push(cell),
            None => workloads.push((&cell.workload, vec![cell])),
        }
    }
    let mut loads: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for cell in &results.cells {
        let Some(load) = cell.parameters.get(LOAD) else { continue };
        let asked = cell.asked_of_load().map(|(name, value)| (name.to_owned(), value.clone()));
        if !loads.iter().any(|(name, _)| name == load) {
            loads.push((load.clone(), asked.collect()));
        }
    }
    let fixed = |cells: &[&Cell]| -> Vec<(String, String)> {
        let Some(first) = cells.first() else { return Vec::new() };
        let same = |(key, value): &(&String, &String)| {
            first.own_of_load(key).is_none()
                && cells.iter().all(|cell| cell.parameters.get(*key) == Some(value))
        };
        let pairs = first.parameters.iter().filter(same);
        let pairs = pairs.map(|(key, value)| (key.clone(), value.clone()));
        let is_stream = STREAM.iter().all(|name| first.parameters.contains_key(*name));
        let place = is_stream.then(|| ("place".to_owned(), PLACE_OF_STREAMS.to_owned()));
        pairs.chain(place).collect()
    };
    let lines = workloads.into_iter().map(|(name, cells)| (name.to_owned(), fixed(&cells)));
    lines.chain(loads).filter(|(_, pairs)| !pairs.is_empty()).collect()
}

/// When and how it was run, a pair a line.
pub fn run_lines(results: &Results) -> Vec<(&'static str, String)> {
    let run = &results.run;
    let mut lines = Vec::new();
    match (run.began_unix_s, run.ended_unix_s) {
        (Some(began), Some(ended)) => {
            let took = duration::text(ended.saturating_sub(began) as f64);
            lines.push(("Run", format!("{}, for {took}", moment::utc(began))));
        }
        (Some(began), None) => lines.push(("Run", moment::utc(began))),
        _ => {}
    }
    if let Some(command) = &run.command {
        lines.push(("Command", command.clone()));
    }
    if !run.steady.is_empty() {
        lines.push(("Measured", run.steady.clone()));
    }
    if !run.interval.is_empty() {
        lines.push(("Intervals", run.interval.clone()));
    }
    lines
}

/// A cell's parameters in one field: `block_size=4k queue_depth=1`.
pub fn in_one(parameters: &BTreeMap<String, String>) -> String {
    let pairs = parameters.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// A ranking as a table: the header, and a row a level. A score over several cells stands for none of them: beside it stand
/// the lowest and the highest.
pub fn ranking_table(ranking: &Ranking, confidence: f64) -> (Vec<String>, Vec<Vec<String>>) {
    let mixed = ranking.cells > 1;
    let score = match mixed {
        true => format!("{}\n(geometric mean of {} cells)", ranking.name, ranking.cells),
        false => ranking.name.clone(),
    };
    let mut header = vec![factor_label(&ranking.by), score];
    header.extend(mixed.then(|| "lowest – highest\nof these cells".to_owned()));
    header.push(String::new());
    let row = |row: &Ranked| {
        let score = quantity_with_interval(&ranking.metric, &row.score, confidence);
        let ends = [row.lowest_cell, row.highest_cell].map(|end| quantity(&ranking.metric, end));
        let mut fields = vec![row.level.clone(), score];
        fields.extend(mixed.then(|| ends.join(" – ")));
        fields.push(row.standing.clone());
        fields
    };
    (header, ranking.rows.iter().map(row).collect())
}

/// Of what the intervals of scores over several cells are, where there are any.
pub fn how_scores(rankings: &[Ranking]) -> Option<&'static str> {
    let has_intervals = |ranking: &Ranking| {
        let mut rows = ranking.rows.iter();
        ranking.rows.len() > 1 && ranking.cells > 1 && rows.any(|row| row.score.samples.len() > 1)
    };
    rankings.iter().any(has_intervals).then_some(HOW_SCORES)
}

/// See [`how_scores`].
const HOW_SCORES: &str = "The interval of a score is that of its mean over the repeats, each of which gives one score, the geometric \
     mean of the cells. What chance does to one cell evens out over several, so it may be narrower than those of the cells: where \
     they scatter alike and independently, by the root of their number. It says nothing of a single cell.";

/// What a layout is worth, as a table: the header, and a row a layout.
pub fn layouts_table(layouts: &[LayoutFigures]) -> (Vec<String>, Vec<Vec<String>>) {
    let priced = layouts.iter().any(|layout| layout.price.is_some());
    let risky = layouts.iter().any(|layout| layout.unreadable.is_some());
    let mended = layouts.iter().any(|layout| layout.rebuild_idle_s.is_some());
    let mut header: Vec<String> =
        ["layout", "disks", "room", "survives"].map(str::to_owned).to_vec();
    if mended {
        let beside = match &loads_beside(layouts)[..] {
            [(load, ..)] => format!("rebuild beside\n{}", load.replace(['/', ','], ",\n")),
            _ => "rebuild\nbeside load".to_owned(),
        };
        header.extend(["rebuild,\nidle".to_owned(), beside]);
    }
    if risky {
        let heads =
            ["another disk\nlost meanwhile", "sector not\nreadable", "data lost\nin a year"];
        header.extend(heads.map(str::to_owned));
    }
    if priced {
        header.extend(["price".to_owned(), "a TB".to_owned()]);
    }
    let rows = layouts.iter().map(|layout| {
        let span = |seconds: Option<f64>| seconds.map_or_else(|| "—".to_owned(), duration::text);
        let odds = |share: Option<f64>| share.map_or_else(|| "—".to_owned(), chance);
        let mut row =
            vec![layout.name.clone(), layout.disks.to_string(), room(layout), survives(layout)];
        if mended {
            let idle = span(layout.rebuild_idle_s);
            let mean = layout.rebuild_idle_s.unwrap_or_default();
            let error = spread(mean, layout.rebuild_idle_interval_s, layout.rebuild_idle_error_s);
            row.extend([idle + &error, beside_load(layout)]);
        }
        if risky {
            // What lasts no one knows how much longer is no less likely to go wrong.
            let is_open =
                layout.rebuild_loaded_low_s.is_some() && layout.rebuild_loaded_high_s.is_none();
            let least = |share: Option<f64>| match share {
                // So low a bound is none.
                Some(share) if is_open && share < CHANCE_MIN => "not bounded".to_owned(),
                Some(share) if is_open => format!("≥ {}", chance(share)),
                share => odds(share),
            };
            row.extend([
                least(layout.second_loss),
                odds(layout.unreadable),
                least(layout.data_loss_a_year),
            ]);
        }
        if priced {
            let each = |price: f64| match layout.usable_bytes {
                0 => "—".to_owned(),
                bytes => significant(price / (bytes as f64 / 1e12), 3),
            };
            row.push(layout.price.map_or_else(|| "—".to_owned(), |price| significant(price, 4)));
            row.push(layout.price.map_or_else(|| "—".to_owned(), each));
        }
        row
    });
    (header, rows.collect())
}

/// `120 TB (75 %)`.
fn room(layout: &LayoutFigures) -> String {
    let share = 100.0 * layout.usable_bytes as f64 / (layout.raw_bytes.max(1)) as f64;
    format!("{} ({share:.0} %)", decimal_bytes(layout.usable_bytes))
}

/// `any 1, at best 4`.
fn survives(layout: &LayoutFigures) -> String {
    match (layout.survives_any, layout.survives_at_best) {
        _ if layout.shares_disks => "not told".to_owned(),
        (0, 0) => "none lost".to_owned(),
        (any, best) if any == best => format!("any {any} lost"),
        (any, best) => format!("any {any}, at best {best}"),
    }
}

/// As disks are sold: `20 TB`, `750 GB`.
pub fn decimal_bytes(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB")];
    let bytes = bytes as f64;
    let unit = units.into_iter().find(|(size, _)| bytes >= *size);
    match unit {
        Some((size, name)) => format!("{} {name}", significant(bytes / size, 3)),
        None => format!("{bytes} B"),
    }
}

/// `67 %`, `0.0078 %`.
fn chance(share: f64) -> String {
    match share {
        none if none <= 0.0 => "0 %".to_owned(),
        small if small < CHANCE_MIN => "under 1 in 10⁹".to_owned(),
        small if small < 1e-4 => format!("1 in {}", significant(1.0 / small, 2)),
        share => format!("{} %", significant(100.0 * share, 2)),
    }
}

/// How the risk was worked out, in a sentence.
pub const HOW_LAYOUTS: &str = "Worked out, but for what a rebuild of the study measured (± its interval over the repeats, of one \
     repeat the standard error of its sampling; and what its load moved meanwhile): an idle set rebuilds a disk at the mean rate of its surface; beside a load a rebuild (of normal \
     priority, unless another stands beside the figure) goes no faster than 16 MiB/s a disk, slower where its requests wait \
     longer at the disks, and faster in the pauses that a load over several sets leaves to the one that mends (≈ an \
     estimate, with the range where it is wide; ≥ where nothing bounds it); disks are lost independently at the data \
     sheet's rate, sectors are unreadable at the data sheet's rate a bit. Disks of one batch fail together more often: it \
     orders layouts and foretells nothing. docs/theory/losses.md has the formulas.";

/// Where the rates of the drives stand, each sentence once.
pub fn bases(layouts: &[LayoutFigures]) -> Vec<&str> {
    let mut bases: Vec<&str> = Vec::new();
    for layout in layouts {
        if !bases.contains(&layout.basis.as_str()) {
            bases.push(&layout.basis);
        }
    }
    bases
}

/// `\n± 39 h`: the interval over repeats of this mean, as it stands with the rebuild's own figures; where there is none, the standard
/// error of what was measured by samples, however small, and that it is that. Of an interval that reaches as far as nothing the upper
/// end: `\n(up to 39 h)`.
fn spread(mean: f64, interval: Option<f64>, error: Option<f64>) -> String {
    match (interval, error) {
        (Some(half), _) if half >= mean => format!("\n(up to {})", duration::text(mean + half)),
        (Some(half), _) => format!("\n± {}", duration::text(half)),
        (None, Some(error)) => format!("\n± {} (standard error)", duration::text(error)),
        (None, None) => String::new(),
    }
}

/// How long a rebuild takes beside the load: measured, `13 days 18 h`, with its interval or the standard error of
/// its sampling, and what the load moved meanwhile; worked out, `≈ 13 days 19 h`, with its range where
/// that is wide, `≈ 19 days (14–34 days)`; only bounded below, `≥ 13 days 19 h`.
fn beside_load(layout: &LayoutFigures) -> String {
    let Some(span) = layout.rebuild_loaded_s else { return "—".to_owned() };
    let shown = duration::text(span);
    match (layout.rebuild_loaded_low_s, layout.rebuild_loaded_high_s) {
        (None, None) => {
            let (interval, error) =
                (layout.rebuild_loaded_interval_s, layout.rebuild_loaded_error_s);
            let error = spread(span, interval, error);
            let priority = layout.rebuild_priority.as_ref();
            let priority =
                priority.map_or_else(String::new, |priority| format!("\n({priority} priority)"));
            let load = layout.load_mb_s.map_or_else(String::new, |rate| {
                let name = layout.loaded_by.as_deref().unwrap_or("load");
                format!("\n({name}: {} MB/s)", significant(rate, 3))
            });
            format!("{shown}{error}{priority}{load}")
        }
        (_, None) => format!("≥ {shown}"),
        (low, Some(high)) => {
            let low = low.unwrap_or(span);
            if high <= low * RANGE_NARROW {
                return format!("≈ {shown}");
            }
            format!("≈ {shown}\n({} – {})", duration::text(low), duration::text(high))
        }
    }
}

/// Beside which load the rebuild beside load is, a sentence for each such load; and that they are several, where they are.
pub fn rebuilds_beside(layouts: &[LayoutFigures]) -> Vec<String> {
    let loads = loads_beside(layouts);
    let of_all = loads.len() == 1;
    let sentence = |(load, is_measured, names): &(String, bool, Vec<&str>)| {
        let said = match (is_measured, of_all, names.len()) {
            (true, ..) => format!("was measured beside {load}"),
            (false, true, 1) => format!("is longest beside {load}"),
            (false, true, _) => format!(
                "is beside {load} for all layouts: of the loads that all were run under the one beside which it is longest"
            ),
            (false, false, _) => format!("is beside {load}"),
        };
        match of_all {
            true => format!("The rebuild beside load {said}."),
            false => format!("{}: the rebuild beside load {said}.", names.join("; ")),
        }
    };
    let mut sentences: Vec<String> = loads.iter().map(sentence).collect();
    if loads.windows(2).any(|pair| pair[0].0 != pair[1].0) {
        sentences.push("Rebuilds that stand beside different loads do not compare.".to_owned());
    }
    sentences
}

/// The loads beside which rebuilds are told, each with whether they were measured, and of which layouts.
fn loads_beside(layouts: &[LayoutFigures]) -> Vec<(String, bool, Vec<&str>)> {
    let mut loads: Vec<(String, bool, Vec<&str>)> = Vec::new();
    for layout in layouts.iter().filter(|layout| layout.rebuild_loaded_s.is_some()) {
        let Some(by) = &layout.loaded_by else { continue };
        let by = without_own(by, &layout.name);
        let is_measured = layout.rebuild_loaded_low_s.is_none();
        match loads.iter_mut().find(|(known, its, _)| *known == by && *its == is_measured) {
            Some((.., names)) => names.push(&layout.name),
            None => loads.push((by, is_measured, vec![&layout.name])),
        }
    }
    loads
}

/// A cell without those of its levels that a layout's name has already.
fn without_own(cell: &str, name: &str) -> String {
    let Some((levels, rest)) = cell.split_once('/').filter(|(levels, _)| levels.contains('='))
    else {
        return cell.to_owned();
    };
    let mut own = name.split(", ");
    let layout = format!("{LAYOUT}={}", own.next().unwrap_or_default());
    let own: Vec<&str> = own.chain([layout.as_str()]).collect();
    let others: Vec<&str> = levels.split(',').filter(|level| !own.contains(level)).collect();
    match others.is_empty() {
        true => rest.to_owned(),
        false => format!("{}/{rest}", others.join(",")),
    }
}

/// What should keep one from a layout, each sentence once, with the names of those that it is true of.
pub fn layout_warnings(results: &Results) -> Vec<String> {
    let mut warned: Vec<(&str, Vec<&str>)> = Vec::new();
    for layout in &results.layouts {
        for warning in &layout.warnings {
            match warned.iter_mut().find(|(known, _)| known == warning) {
                Some((_, names)) => names.push(&layout.name),
                None => warned.push((warning, vec![&layout.name])),
            }
        }
    }
    // `raid5-8` in place of all of `raid5-8, chunk=64k` and `raid5-8, chunk=512k`.
    let bare = |name: &str| name.split(", ").next().unwrap_or_default().to_owned();
    let lines = warned.into_iter().map(|(warning, names)| {
        let mut shown: Vec<String> = Vec::new();
        for name in &names {
            let namesakes =
                results.layouts.iter().filter(|layout| bare(&layout.name) == bare(name));
            let is_of_all = namesakes.into_iter().all(|layout| names.contains(&&*layout.name));
            let name = if is_of_all { bare(name) } else { (*name).to_owned() };
            if !shown.contains(&name) {
                shown.push(name);
            }
        }
        format!("{}: {warning}", shown.join("; "))
    });
    lines.collect()
}

/// `1 cell`, `12 cells`.
pub fn cells(count: usize) -> String {
    match count {
        1 => "1 cell".to_owned(),
        n => format!("{n} cells"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_and_sizes_are_written_as_people_say_them() {
        for (share, text) in [
            (0.0, "0 %"),
            (0.6737, "67 %"),
            (0.0012, "0.12 %"),
            (7.777e-5, "1 in 13\u{202f}000"),
            (1e-12, "under 1 in 10⁹"),
        ] {
            assert_eq!(chance(share), text);
        }
        assert_eq!(decimal_bytes(20_000_588_955_648), "20.0 TB");
        assert_eq!(decimal_bytes(750_156_374_016), "750 GB");
        assert_eq!(cells(1), "1 cell");
    }

    #[test]
    fn a_warning_of_several_layouts_stands_once() {
        let layout = |name: &str, warnings: &[&str]| LayoutFigures {
            name: name.to_owned(),
            warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
            ..LayoutFigures::default()
        };
        let layouts = vec![
            layout("five, chunk=64k", &["beware", "and more"]),
            layout("five, chunk=512k", &["beware"]),
            layout("six, chunk=64k", &[]),
            layout("mirrors", &["beware"]),
        ];
        let (_, results) = crate::report::sample::all().remove(0);
        let results = Results { layouts, ..results };
        let lines = layout_warnings(&results);
        assert_eq!(lines, ["five; mirrors: beware", "five, chunk=64k: and more"]);
    }

    /// Found by a newcomer: of three drives in three layouts each was told three times.
    #[test]
    fn where_rates_stand_is_told_once_for_each_drive() {
        let of = |basis: &str| LayoutFigures { basis: basis.to_owned(), ..Default::default() };
        assert_eq!(bases(&["a", "b", "a", "b", "b"].map(of)), ["a", "b"]);
    }

    /// Found by a newcomer: `≥ under 1 in 10⁹`.
    #[test]
    fn a_lower_bound_that_is_no_figure_is_not_told_as_one() {
        let of = |loss: f64| {
            let layout = LayoutFigures {
                rebuild_loaded_s: Some(86_400.0),
                rebuild_loaded_low_s: Some(86_400.0),
                unreadable: Some(0.5),
                second_loss: Some(0.01),
                data_loss_a_year: Some(loss),
                ..LayoutFigures::default()
            };
            let (_, rows) = layouts_table(&[layout]);
            rows[0].last().cloned().unwrap_or_default()
        };
        assert_eq!(of(1e-12), "not bounded");
        assert_eq!(of(0.01), "≥ 1.0 %");
    }

    #[test]
    fn a_rebuild_says_whether_it_was_measured_estimated_or_only_bounded() {
        let day = 86_400.0;
        for (low, high, text) in [
            (None, None, "19 days"),
            (Some(18.9 * day), Some(19.2 * day), "≈ 19 days"),
            (Some(14.0 * day), Some(34.0 * day), "≈ 19 days\n(14 days – 34 days)"),
            (Some(19.0 * day), None, "≥ 19 days"),
        ] {
            let figures = LayoutFigures {
                rebuild_loaded_s: Some(19.0 * day),
                rebuild_loaded_low_s: low,
                rebuild_loaded_high_s: high,
                ..LayoutFigures::default()
            };
            assert_eq!(beside_load(&figures), text);
        }
        assert_eq!(beside_load(&LayoutFigures::default()), "—");
        let low = LayoutFigures {
            rebuild_loaded_s: Some(19.0 * day),
            rebuild_priority: Some("low".to_owned()),
            ..LayoutFigures::default()
        };
        assert_eq!(beside_load(&low), "19 days\n(low priority)");
        let sampled = LayoutFigures {
            rebuild_loaded_s: Some(19.0 * day),
            rebuild_loaded_error_s: Some(2.0 * day),
            loaded_by: Some("office".to_owned()),
            load_mb_s: Some(829.6),
            ..LayoutFigures::default()
        };
        let shown = beside_load(&sampled);
        assert_eq!(shown, "19 days\n± 2 days (standard error)\n(office: 830 MB/s)");
        let repeated =
            LayoutFigures { rebuild_loaded_interval_s: Some(3.0 * day), ..sampled.clone() };
        assert_eq!(beside_load(&repeated), "19 days\n± 3 days\n(office: 830 MB/s)");
        let small = Some(0.01 * day);
        assert_eq!(spread(day, small, None), "\n± 14 min 24 s", "however small a part");
        assert_eq!(spread(day, None, None), "", "of one that was not sampled there is none");
        let wide = LayoutFigures { rebuild_loaded_interval_s: Some(30.0 * day), ..sampled.clone() };
        assert_eq!(beside_load(&wide), "19 days\n(up to 49 days)\n(office: 830 MB/s)");
    }

    #[test]
    fn a_load_is_named_without_what_the_row_says_already() {
        for (cell, name, left) in [
            ("db", "raid6", "db"),
            ("layout=raid6/db", "raid6", "db"),
            ("layout=raid6,chunk=64k/db/depth=4", "raid6, chunk=64k", "db/depth=4"),
            ("layout=raid6,cache=off/db", "raid6", "cache=off/db"),
        ] {
            assert_eq!(without_own(cell, name), left);
        }
    }
}
