//! The shape of a study: which factor makes the rows, which the axis, which the panels.
//!
//! Terminal and HTML show the same study the same way, so the choice is made once, here, from the
//! results alone (a report needs no study file). Workloads become [`Group`]s; each group's varying
//! factors are given parts:
//!
//! * **rows**: what the study compares, the same in every group: of the factors that every cell of
//!   the study has, the one of words (not numbers) with the most levels. A line or a bar each.
//! * **axis**: a factor of at least three numbers that load grows with; by name (`queue_depth`,
//!   `streams`, …), else the one of the widest range. Along the x axis, or in columns.
//! * **panels**: every other factor; a small multiple for each combination.
//! * **averaged**: where that would be more than [`PANELS_MAX`] panels, the factors that matter least
//!   (by the ratio of their levels' means) are averaged over (see `estimate`), and the report says so
//!   and shows every panel behind a fold.
//!
//! Workloads with nothing to vary of their own (and array operations, which are measured by the time
//! they take) are drawn together in one group, where the workload itself is a factor.
//!
//! A tool that goes through phases has a group of its own, in which each phase is told.
//!
//! A group's **primary** metric: duration for operations; else throughput where the mean I/O is large
//! ([`LARGE_IO_BYTES`]) and I/Os a second where it is small, as people quote them.

use super::estimate::Estimate;
use super::figures::{factor_label, level_value, significant};
use crate::phases;
use crate::results::{Cell, Metric, Results};
use crate::stats;

/// How many panels a group's plot has before factors are averaged over. More don't fit a screen.
pub const PANELS_MAX: usize = 4;

/// Mean bytes an I/O from which throughput says more than I/Os a second. Below every "sequential"
/// size in use (64 KiB and up), above every "random" one.
const LARGE_IO_BYTES: f64 = 48_000.0;

/// Factors that are a load's intensity, most telling first.
const LOAD_FACTORS: &[&str] =
    &["queue_depth", "depth", "streams", "threads", "readers", "writers", "clients", "jobs"];

/// The metrics worth a column or a plot, in this order.
pub const HEADLINE_METRICS: &[&str] = &[
    "duration_s",
    "ops_per_s",
    "iops",
    "throughput_mb_s",
    "latency_us_p50",
    "latency_us_p99",
    "latency_us_mean",
    "cpu_us_per_io",
    "processor_share",
    "sampling_error_s",
    "load_iops",
];

/// What the rate of a phase ends in: `read_ops_per_s`.
const PHASE_RATES: [&str; 2] = ["_ops_per_s", "_throughput_mb_s"];

/// So many phases stand beside one another; flowops of a personality are more.
const PHASES_MAX: usize = 6;

/// A factor that varies within a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// The name in the study; `workload` for the workload itself.
    pub name: String,
    /// In the order of the study; numbers ascending.
    pub levels: Vec<String>,
    /// The levels as numbers, where all of them are.
    pub numbers: Option<Vec<f64>>,
    is_workload: bool,
}

impl Factor {
    /// What a cell's level is; `—` where the cell doesn't have the factor.
    pub fn level_of<'c>(&self, cell: &'c Cell) -> &'c str {
        match self.is_workload {
            true => &cell.workload,
            false => level_of(cell, &self.name),
        }
    }

    /// The level in words, with the factor's name unless the level speaks for itself.
    pub fn level_label(&self, level: usize) -> String {
        let text = &self.levels[level];
        // Neither a number nor yes and no says what it is of.
        match self.numbers.is_some() || ["true", "false"].contains(&text.as_str()) {
            true => format!("{} {text}", factor_label(&self.name)),
            false => text.clone(),
        }
    }
}

fn level_of<'c>(cell: &'c Cell, factor: &str) -> &'c str {
    cell.factors.get(factor).map_or("—", String::as_str)
}

/// A level of some of a group's factors: pairs of the factor's and the level's index.
pub type Levels = Vec<(usize, usize)>;

/// Workloads that are shown together.
pub struct Group<'a> {
    /// The workloads' names.
    pub title: String,
    /// The cells, in the study's order; failed ones too.
    pub cells: Vec<&'a Cell>,
    /// The factors that vary here.
    pub factors: Vec<Factor>,
    /// The factors that don't, with their level.
    pub constants: Vec<(String, String)>,
    /// Every metric of any cell, the primary first, then as [`HEADLINE_METRICS`], then by name.
    pub metrics: Vec<String>,
    /// Index into `factors`.
    pub rows: Option<usize>,
    /// Index into `factors`.
    pub axis: Option<usize>,
    /// Indices into `factors`.
    pub panels: Vec<usize>,
    /// Indices into `factors`.
    pub averaged: Vec<usize>,
    /// For each cell the level's index of each factor.
    pub(super) positions: Vec<Vec<usize>>,
    /// Of the intervals.
    confidence: f64,
}

/// Cuts a study into groups.
pub fn groups(results: &Results) -> Vec<Group<'_>> {
    let compared = compared_factor(results);
    let mut parts: Vec<(String, Vec<&Cell>)> = Vec::new();
    let mut workloads: Vec<&str> = Vec::new();
    for cell in &results.cells {
        if !workloads.contains(&cell.workload.as_str()) {
            workloads.push(&cell.workload);
        }
    }
    for workload in workloads {
        let cells: Vec<&Cell> = results.cells.iter().filter(|c| c.workload == workload).collect();
        let primary = primary_metric(&cells);
        let own: Vec<String> = varying_names(&cells)
            .into_iter()
            .filter(|name| Some(name.as_str()) != compared.as_deref())
            .collect();
        let together = match primary.as_str() {
            "duration_s" => format!("{primary} {}", own.join(" ")),
            // Its phases stand in a table of their own.
            _ if phases_of(&cells) > 0 => format!("phases of {workload}"),
            _ if own.is_empty() => primary,
            _ => format!("only {workload}"),
        };
        match parts.iter_mut().find(|(key, _)| *key == together) {
            Some((_, all)) => all.extend(cells),
            None => parts.push((together, cells)),
        }
    }
    parts
        .into_iter()
        .map(|(_, cells)| Group::new(cells, compared.as_deref(), results.confidence))
        .collect()
}

/// How many phases of tools that go through some have a rate here.
fn phases_of(cells: &[&Cell]) -> usize {
    let mut known: Vec<&str> =
        cells.iter().flat_map(|cell| cell.metrics.keys()).map(String::as_str).collect();
    known.sort_unstable();
    known.dedup();
    known.into_iter().filter(|metric| phases::rate_of(metric).is_some()).count()
}

/// The factor that the study compares: see the top of the file.
fn compared_factor(results: &Results) -> Option<String> {
    let cells: Vec<&Cell> = results.cells.iter().collect();
    let mut best: Option<(usize, String)> = None;
    for name in varying_names(&cells) {
        let levels = distinct_levels(&cells, |cell| level_of(cell, &name));
        let everywhere = cells.iter().all(|cell| cell.factors.contains_key(&name));
        let words = levels.iter().any(|level| level_value(level).is_none());
        if everywhere && words && best.as_ref().is_none_or(|(count, _)| levels.len() > *count) {
            best = Some((levels.len(), name));
        }
    }
    best.map(|(_, name)| name)
}

fn varying_names(cells: &[&Cell]) -> Vec<String> {
    let mut names: Vec<String> = cells.iter().flat_map(|c| c.factors.keys().cloned()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| distinct_levels(cells, |cell| level_of(cell, name)).len() > 1);
    names
}

fn distinct_levels<'c>(cells: &[&'c Cell], level: impl Fn(&'c Cell) -> &'c str) -> Vec<&'c str> {
    let mut levels = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for cell in cells {
        if seen.insert(level(cell)) {
            levels.push(level(cell));
        }
    }
    levels
}

fn primary_metric(cells: &[&Cell]) -> String {
    let has = |metric: &str| cells.iter().any(|cell| cell.metrics.contains_key(metric));
    let tools: std::collections::BTreeSet<&str> = cells
        .iter()
        .filter_map(|cell| cell.main_metric.as_deref().filter(|main| has(main)))
        .collect();
    if let (1, Some(main)) = (tools.len(), tools.first()) {
        return (*main).to_owned();
    }
    // What a tool sums up its operations by is what it is judged by.
    if has("ops_per_s") {
        return "ops_per_s".into();
    }
    let operation = cells.iter().any(|cell| !cell.progress.is_empty());
    if has("duration_s") && (operation || !(has("iops") || has("throughput_mb_s"))) {
        return "duration_s".into();
    }
    let size = |cell: &&Cell| {
        let rate = Estimate::of_cell(cell, "throughput_mb_s")?.mean * 1e6;
        let size = rate / Estimate::of_cell(cell, "iops")?.mean;
        (size.is_finite() && size > 0.0).then_some(size)
    };
    let sizes: Vec<f64> = cells.iter().filter_map(size).collect();
    match stats::logarithms(&sizes) {
        Some(logs) if stats::mean(&logs).exp() >= LARGE_IO_BYTES => "throughput_mb_s".into(),
        _ => ordered_metrics(cells, None).into_iter().next().unwrap_or_else(|| "iops".into()),
    }
}

fn ordered_metrics(cells: &[&Cell], primary: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = cells.iter().flat_map(|c| c.metrics.keys().cloned()).collect();
    let place = |name: &String| match HEADLINE_METRICS.iter().position(|known| known == name) {
        _ if Some(name.as_str()) == primary => 0,
        // The length of a measurement is no finding, unless it is the primary one.
        Some(0) => HEADLINE_METRICS.len() + 1,
        Some(known) => known,
        None => HEADLINE_METRICS.len(),
    };
    // In the order of running.
    let phase = |name: &String| phases::rate_of(name).map_or(usize::MAX, |(place, _)| place);
    names.sort_by(|a, b| (place(a), phase(a)).cmp(&(place(b), phase(b))).then_with(|| a.cmp(b)));
    names.dedup();
    names
}

impl<'a> Group<'a> {
    fn new(cells: Vec<&'a Cell>, compared: Option<&str>, confidence: f64) -> Group<'a> {
        let primary = primary_metric(&cells);
        let workloads = distinct_levels(&cells, |cell| &cell.workload);
        let mut factors: Vec<Factor> = Vec::new();
        if workloads.len() > 1 {
            factors.push(factor("workload", workloads.clone(), true));
        }
        let mut constants = Vec::new();
        let varying = varying_names(&cells);
        for name in cells.first().map_or(Vec::new(), |cell| cell.factors.keys().collect()) {
            if !varying.contains(name) {
                constants.push((name.clone(), level_of(cells[0], name).to_owned()));
            }
        }
        for name in &varying {
            factors.push(factor(name, distinct_levels(&cells, |c| level_of(c, name)), false));
        }
        let positions = cells
            .iter()
            .map(|cell| {
                let place = |f: &Factor| f.levels.iter().position(|l| l == f.level_of(cell));
                factors.iter().map(|f| place(f).expect("levels are those of the cells")).collect()
            })
            .collect();
        let title = match workloads.len() {
            0..=4 => workloads.join(", "),
            many => format!("{}, … ({many} workloads)", workloads[..3].join(", ")),
        };
        let metrics = ordered_metrics(&cells, Some(&primary));
        let mut group = Group {
            title,
            cells,
            factors,
            constants,
            metrics,
            rows: None,
            axis: None,
            panels: Vec::new(),
            averaged: Vec::new(),
            positions,
            confidence,
        };
        group.give_parts(compared);
        group
    }

    fn give_parts(&mut self, compared: Option<&str>) {
        let count = |f: usize| self.factors[f].levels.len();
        let all = 0..self.factors.len();
        let most_words = || {
            let words = all.clone().filter(|&f| self.factors[f].numbers.is_none());
            words.max_by_key(|&f| (count(f), std::cmp::Reverse(f)))
        };
        let rows = all
            .clone()
            .find(|&f| !self.factors[f].is_workload && compared == Some(&self.factors[f].name))
            .or_else(most_words);
        let axis = all
            .clone()
            .filter(|&f| Some(f) != rows && count(f) >= 3)
            .filter_map(|f| Some((f, self.factors[f].load_rank()?)))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
            .map(|(f, _)| f);
        let rest =
            |rows: Option<usize>| all.clone().filter(move |&f| Some(f) != rows && Some(f) != axis);
        let rows = rows.or_else(|| rest(None).max_by_key(|&f| (count(f), std::cmp::Reverse(f))));
        let mut panels: Vec<usize> = rest(rows).collect();
        let mut averaged = Vec::new();
        let importance = |f: usize| self.importance(f, self.primary());
        let panel_count = |panels: &[usize]| panels.iter().map(|&f| count(f)).product::<usize>();
        while panel_count(&panels) > PANELS_MAX {
            let dull = panels
                .iter()
                .copied()
                .filter(|&f| !self.factors[f].is_workload)
                .min_by(|&a, &b| importance(a).total_cmp(&importance(b)));
            let Some(dull) = dull else { break };
            panels.retain(|&f| f != dull);
            averaged.push(dull);
        }
        // The factors with fewer levels change slowest, so that panels that belong together adjoin.
        panels.sort_by_key(|&f| (!self.factors[f].is_workload, count(f), f));
        (self.rows, self.axis, self.panels, self.averaged) = (rows, axis, panels, averaged);
    }

    /// The largest ratio between two levels' means of a metric, 1 for no effect.
    pub fn importance(&self, factor: usize, metric: &str) -> f64 {
        let means: Vec<f64> = (0..self.factors[factor].levels.len())
            .filter_map(|level| Some(self.estimate(&[(factor, level)], metric)?.mean))
            .filter(|mean| *mean > 0.0)
            .collect();
        let largest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = means.iter().copied().fold(f64::INFINITY, f64::min);
        if means.is_empty() { 1.0 } else { largest / smallest }
    }

    /// `block size (4 levels, whose means are ×1.3 apart)`: what a caption says of an average.
    pub fn averaged_label(&self, f: usize, metric: &str) -> String {
        let Factor { name, levels, .. } = &self.factors[f];
        let apart = significant(self.importance(f, metric), 3);
        format!("{} ({} levels, whose means are ×{apart} apart)", factor_label(name), levels.len())
    }

    /// The largest mean of a metric, which decides its unit.
    pub fn largest(&self, metric: &str) -> f64 {
        let means = self.cells.iter().filter_map(|cell| Estimate::of_cell(cell, metric));
        means.map(|estimate| estimate.mean.abs()).fold(0.0, f64::max)
    }

    /// Whether any figure has an interval.
    pub fn has_intervals(&self) -> bool {
        let figures = self.cells.iter().flat_map(|cell| cell.metrics.values());
        figures.filter_map(Estimate::of).any(|estimate| estimate.half_width().is_some())
    }

    /// The metric that this group is about.
    pub fn primary(&self) -> &str {
        self.metrics.first().map_or("iops", String::as_str)
    }

    /// The metrics worth a plot.
    pub fn headline_metrics(&self) -> impl Iterator<Item = &str> {
        // Beside a median the mean of latencies says little that the 99th percentile doesn't.
        let median = self.metrics.iter().any(|m| m == "latency_us_p50");
        // The rates of a tool's phases, where they are few enough to be read side by side.
        let is_phase = |m: &&str| PHASE_RATES.iter().any(|end| m.ends_with(end));
        let phases: Vec<&str> = self.metrics.iter().map(String::as_str).filter(is_phase).collect();
        let named = phases.iter().filter(|metric| phases::rate_of(metric).is_some());
        let phases = match named.count() {
            0 if phases.len() <= PHASES_MAX => phases,
            0 => Vec::new(),
            // Those that the tool's users know, however many.
            _ => phases.into_iter().filter(|metric| phases::rate_of(metric).is_some()).collect(),
        };
        let known = move |m: &&str| {
            let headline =
                HEADLINE_METRICS[1..].contains(m) && !(median && *m == "latency_us_mean");
            headline || *m == self.primary() || phases.contains(m)
        };
        self.metrics.iter().map(String::as_str).filter(known)
    }

    /// The cells at these levels, failed ones too.
    pub fn select<'g>(&'g self, at: &'g [(usize, usize)]) -> impl Iterator<Item = &'a Cell> + 'g {
        self.cells
            .iter()
            .zip(&self.positions)
            .filter(move |(_, position)| at.iter().all(|&(f, level)| position[f] == level))
            .map(|(cell, _)| *cell)
    }

    /// The mean over all cells at these levels that have the metric and did not fail; of one cell by itself what it has.
    pub fn estimate(&self, at: &[(usize, usize)], metric: &str) -> Option<Estimate> {
        let is_one = self.select(at).nth(1).is_none();
        let counts = self.select(at).filter(|cell| is_one || cell.is_sound());
        let figures: Vec<&Metric> = counts.filter_map(|cell| cell.metrics.get(metric)).collect();
        Estimate::mean_of(&figures, self.confidence)
    }

    /// Whether at these levels there is one cell, which failed: what figures it has are marked.
    pub fn is_failed_cell(&self, at: &[(usize, usize)]) -> bool {
        let mut cells = self.select(at);
        cells.next().is_some_and(|cell| !cell.is_sound()) && cells.next().is_none()
    }

    /// Every combination of levels of these factors that has a cell, the first factor slowest.
    pub fn combinations(&self, factors: &[usize]) -> Vec<Levels> {
        let mut found: Vec<Vec<usize>> =
            self.positions.iter().map(|p| factors.iter().map(|&f| p[f]).collect()).collect();
        found.sort();
        found.dedup();
        let pairs = |levels: Vec<usize>| factors.iter().copied().zip(levels).collect();
        found.into_iter().map(pairs).collect()
    }

    /// The combinations that have a panel; one empty one where no factor is left for panels.
    pub fn panel_levels(&self) -> Vec<Levels> {
        self.combinations(&self.panels)
    }

    /// The combinations of panel and averaged factors: a panel for each when nothing is averaged.
    pub fn every_panel(&self) -> Vec<Levels> {
        let factors: Vec<usize> = self.panels.iter().chain(&self.averaged).copied().collect();
        self.combinations(&factors)
    }

    /// The levels of the rows' factor; one empty one where there is none.
    pub fn row_levels(&self) -> Vec<Levels> {
        self.combinations(self.rows.as_slice())
    }

    /// Levels in words: `reads 67 % · block size 4k`.
    pub fn label(&self, levels: &[(usize, usize)]) -> String {
        let words: Vec<String> =
            levels.iter().map(|&(f, level)| self.factors[f].level_label(level)).collect();
        words.join(" · ")
    }

    /// The name of a row: its level alone; the title where there are no rows.
    pub fn row_label(&self, levels: &[(usize, usize)]) -> String {
        match levels {
            [] => self.title.clone(),
            [(f, level)] if self.factors[*f].numbers.is_none() => {
                self.factors[*f].levels[*level].clone()
            }
            several => self.label(several),
        }
    }

    /// The levels of axis and averaged factors in the middle of their range: where distributions are
    /// shown, because a mean of distributions is none.
    pub fn middle(&self) -> Levels {
        let middle = |f: usize, low: usize| (f, (self.factors[f].levels.len() - low) / 2);
        let axis = self.axis.iter().map(|&f| middle(f, 0));
        axis.chain(self.averaged.iter().map(|&f| middle(f, 1))).collect()
    }
}

fn factor(name: &str, levels: Vec<&str>, is_workload: bool) -> Factor {
    let mut levels: Vec<String> = levels.into_iter().map(str::to_owned).collect();
    let numbers: Option<Vec<f64>> = levels.iter().map(|level| level_value(level)).collect();
    let numbers = numbers.filter(|_| !is_workload).map(|mut numbers| {
        levels.sort_by(|a, b| level_value(a).partial_cmp(&level_value(b)).expect("finite"));
        numbers.sort_by(f64::total_cmp);
        numbers
    });
    Factor { name: name.to_owned(), levels, numbers, is_workload }
}

impl Factor {
    /// How well the factor serves as an axis, `None` if not at all.
    fn load_rank(&self) -> Option<f64> {
        let numbers = self.numbers.as_ref()?;
        match LOAD_FACTORS.iter().position(|known| *known == self.name) {
            Some(place) => Some(1e300 / (place + 1) as f64),
            None => {
                let (first, last) = (numbers.first()?, numbers.last()?);
                Some(if *first > 0.0 { last / first } else { 1.0 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn name(group: &Group, factor: usize) -> String {
        group.factors[factor].name.clone()
    }

    /// A report whose lines are block sizes doesn't answer which layout to take.
    #[test]
    fn a_big_study_has_layouts_as_rows_load_as_axis_and_averages_what_matters_least() {
        let results = sample::raid_layouts();
        let groups = groups(&results);
        let random = groups.iter().find(|group| group.title == "random").unwrap();
        assert_eq!(random.rows.map(|f| name(random, f)).as_deref(), Some("layout"));
        assert_eq!(random.axis.map(|f| name(random, f)).as_deref(), Some("queue_depth"));
        let names = |factors: &[usize]| -> Vec<String> {
            factors.iter().map(|&f| name(random, f)).collect()
        };
        assert_eq!(names(&random.panels), ["read_share"]);
        assert_eq!(names(&random.averaged), ["block_size"]);
        assert_eq!((random.panel_levels().len(), random.every_panel().len()), (3, 12));
        assert_eq!(random.primary(), "iops");
        let streams = groups.iter().find(|group| group.title == "streams").unwrap();
        assert_eq!(streams.primary(), "throughput_mb_s", "large I/Os are quoted in MB/s");
    }

    /// Each operation in a section of its own can't be compared with the others.
    #[test]
    fn operations_stand_together_and_are_measured_by_the_time_they_take() {
        let results = sample::rebuild_times();
        let groups = groups(&results);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].primary(), "duration_s");
        assert!(groups[0].factors.iter().any(|factor| factor.name == "workload"));
    }

    #[test]
    fn numbers_are_levels_in_their_order_and_words_in_the_studys() {
        let results = sample::raid_layouts();
        let groups = groups(&results);
        let random = groups.iter().find(|group| group.title == "random").unwrap();
        let levels = |wanted: &str| {
            let factor = random.factors.iter().find(|factor| factor.name == wanted).unwrap();
            factor.levels.clone()
        };
        assert_eq!(levels("queue_depth"), ["1", "4", "16", "64"]);
        assert_eq!(levels("read_share"), ["0", "0.33", "1"], "though the study begins with 1");
        assert_eq!(levels("layout")[..3], ["single", "raid1-2", "raid10-4"]);
    }

    #[test]
    fn every_cell_is_in_one_group() {
        for (name, results) in sample::all() {
            let count: usize = groups(&results).iter().map(|group| group.cells.len()).sum();
            assert_eq!(count, results.cells.len(), "{name}");
        }
    }
}
